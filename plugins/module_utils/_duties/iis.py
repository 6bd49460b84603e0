# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.
# Do not use this from other collections or standalone plugins/modules!

"""Sites and application pools of IIS, on a Windows host. Without any, the site of the duty's name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import Duty, outcome
from ansible_collections.graceful.azure.plugins.module_utils._duties.service import look_at
from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Engine
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Request
from ansible_collections.graceful.azure.plugins.module_utils._iis import POOL, SITE, DryIis, Things

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import Act, Machine


class IisDuty(Duty):
    type = "iis"
    options = {
        "sites": {"type": "list", "elements": "str", "default": []},
        "pools": {"type": "list", "elements": "str", "default": []},
    }

    def __init__(self, name: str, options: dict[str, Any], machine: Machine) -> None:
        super().__init__(name, options, machine)
        named = [(SITE, each) for each in options["sites"]] + [(POOL, each) for each in options["pools"]]
        self._things = list(dict.fromkeys(named)) or [(SITE, name)]

    @classmethod
    def needs_name(cls, options: dict[str, Any]) -> str:
        return "" if options["sites"] or options["pools"] else "give sites or pools, or the name of a site"

    @classmethod
    def mistakes(cls, name: str, options: dict[str, Any]) -> Iterator[tuple[str, str]]:
        for option in ("sites", "pools"):
            if not all(each.strip() for each in options[option]):
                yield option, "a name is empty"

    def look(self) -> dict[str, Any]:
        return look_at(self, Things(self.machine.iis(), self.machine.store(), Request(True, []), self._things))

    def out(self, act: Act) -> dict[str, Any]:
        return self._change(act)

    def back(self, act: Act) -> dict[str, Any]:
        return self._change(act)

    def _change(self, act: Act) -> dict[str, Any]:
        machine, store = self.machine, self.machine.store()
        iis, timeout = (DryIis(machine.iis()), 0.0) if machine.check_mode else (machine.iis(), act.timeout)
        engine = Engine(Things(iis, store, act.request, self._things, machine.monotonic, machine.sleep), store, act.request, machine.monotonic, machine.sleep)
        engine.run(timeout)
        return outcome(engine)
