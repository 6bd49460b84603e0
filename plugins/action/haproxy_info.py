# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action behind M(graceful.azure.haproxy_info): its wait goes on across a lost connection to the balancer."""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.plugin_utils._text import plural
from ansible_collections.graceful.azure.plugins.plugin_utils._wait_action import ServersWaitAction


class ActionModule(ServersWaitAction):
    def busy(self, server):
        if server["sessions"] or server["queue"] or server.get("uncounted"):
            unknown = f" ({server['uncounted']})" if server.get("uncounted") else ""
            yield f"{plural(server['sessions'], 'session')}, {server['queue']} queued on {server['backend']}/{server['server']}{unknown}"
