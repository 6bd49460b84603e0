# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sites and application pools of IIS, on a Windows host. Without any, the site of the duty's name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._duties.both_sides.iis import NEEDS_NAME, OPTIONS, option_mistakes
from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import holding
from ansible_collections.graceful.azure.plugins.module_utils._duties.stopped import StoppedDuty
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import hold_argument_spec
from ansible_collections.graceful.azure.plugins.module_utils._iis import POOL, SITE, Things
from ansible_collections.graceful.azure.plugins.module_utils._polling import check_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import Call, Duty
    from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine
    from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Request
    from ansible_collections.graceful.azure.plugins.module_utils._iis import ThingKey


class IisDuty(StoppedDuty):
    type = "iis"
    options = OPTIONS
    own_mistakes = staticmethod(option_mistakes)
    needs_name = NEEDS_NAME
    driver = Things

    @staticmethod
    def manager(machine: Machine) -> Any:
        return machine.iis()

    @property
    def keys(self) -> list[ThingKey]:
        return _named(self.given) or [(SITE, self.name)]


def _named(params: Mapping[str, Any]) -> list[ThingKey]:
    """The sites and pools of an entry or a call, each once."""
    return list(dict.fromkeys([(SITE, name) for name in params["sites"] or ()] + [(POOL, name) for name in params["pools"] or ()]))


def hold_spec() -> dict[str, Any]:
    """The options of C(hold)."""
    return dict(
        hold_argument_spec(),
        **IisDuty.spec("sites", "pools"),
        timeout={"type": "float", "default": 0},
    )


def hold(params: Mapping[str, Any], machine: Machine, request: Request) -> dict[str, Any]:
    """Stop sites and pools in their order and hold them, or release the hold. Without any: all that are on record."""
    timeout = check_seconds("timeout", params["timeout"])
    things = _named(params)
    if request.present and not things:
        raise ValueError("sites and pools are empty: name at least one site or pool.")
    return IisDuty.run(machine, request, things or None, timeout).result("things")


DUTIES: dict[str, type[Duty]] = {"iis": IisDuty}
CALLS: dict[str, Callable[[], Call]] = {"iis_hold": lambda: holding(hold_spec(), hold)}
