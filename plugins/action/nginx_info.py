# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action behind M(graceful.azure.nginx_info): its wait goes on across a lost connection to the balancer."""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.module_utils._duties.words import nginx_server
from ansible_collections.graceful.azure.plugins.plugin_utils._wait_action import ServersWaitAction


class ActionModule(ServersWaitAction):
    def busy(self, server):
        return nginx_server(f"{server['server']} in upstream {server['upstream']}", server)
