# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A service as a drain step: a unit of systemd, or what the host has in its place. Pure."""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.module_utils._duties.both_sides.service import NEEDS_NAME, option_mistakes
from ansible_collections.graceful.azure.plugins.module_utils._duties.options import SERVICE_NAME
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import SERVICE
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.on_host import HostDuty
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Options, StepGroup, StepJson


class ServiceDuty(HostDuty):
    name = "service"
    module = "service_hold"
    things = "services"
    record = SERVICE
    together = True
    common = True
    windows = True
    name_pattern = SERVICE_NAME
    own_mistakes = staticmethod(option_mistakes)
    needs_name = NEEDS_NAME

    def acts(self, group: StepGroup, hold: Options, step: StepJson) -> Options:
        # Without names it is about all services that are held.
        named = {key: group[option] for key, option in (("services", "names"), ("later", "later")) if group.get(option)}
        return dict(named, timeout=0, **hold)
