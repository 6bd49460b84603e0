# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sites and application pools of IIS as a drain step. Pure."""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.module_utils._duties.both_sides.iis import NEEDS_NAME, OPTIONS, option_mistakes
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import IIS
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.on_host import HostDuty
from ansible_collections.graceful.azure.plugins.plugin_utils._types import DrainStep, Options, StepGroup, StepJson


class IisDuty(HostDuty):
    name = "iis"
    options = OPTIONS
    own_mistakes = staticmethod(option_mistakes)
    needs_name = NEEDS_NAME
    module = "iis_hold"
    things = "IIS"
    record = IIS
    windows = True
    nouns = {IIS: "IIS"}

    def step(self, options: Options) -> DrainStep:
        found = {key: [str(name) for name in options.get(key) or ()] for key in self.options}
        if not any(found.values()):
            found["sites"] = [options["name"]]
        return {**found, "out": True, "in": True}

    def acts(self, group: StepGroup, hold: Options, step: StepJson) -> Options:
        # Without names it is about all that is held.
        named = group["steps"] if group["names"] else ()
        things = {key: [name for step in named for name in step[key]] for key in self.options}
        return {**{key: names for key, names in things.items() if names}, "timeout": 0, **hold}
