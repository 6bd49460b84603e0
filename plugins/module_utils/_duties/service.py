# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A service that runs on the host: a unit of systemd, or what another platform has in its place. The name of the duty is that of the service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._duties.both_sides.service import NEEDS_NAME, option_mistakes
from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import holding
from ansible_collections.graceful.azure.plugins.module_utils._duties.options import SERVICE_NAME
from ansible_collections.graceful.azure.plugins.module_utils._duties.stopped import StoppedDuty
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import hold_argument_spec
from ansible_collections.graceful.azure.plugins.module_utils._polling import check_seconds
from ansible_collections.graceful.azure.plugins.module_utils._systemd import Services

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import Call, Duty
    from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine
    from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Request


class ServiceDuty(StoppedDuty):
    type = "service"
    name_pattern = SERVICE_NAME
    own_mistakes = staticmethod(option_mistakes)
    needs_name = NEEDS_NAME
    driver = Services

    @staticmethod
    def manager(machine: Machine) -> Any:
        return machine.services()


def hold_spec() -> dict[str, Any]:
    """The options of C(hold)."""
    names = {"type": "list", "elements": "str"}
    return dict(hold_argument_spec(), services=names, later=dict(names, default=[]), timeout={"type": "float", "default": 0})


def hold(params: Mapping[str, Any], machine: Machine, request: Request) -> dict[str, Any]:
    """Stop services in their order and hold them, or release the hold. Without C(services): all that are on record. C(later): those that another call stops
    after these."""
    timeout = check_seconds("timeout", params["timeout"])
    if params["services"] is not None and not params["services"]:
        raise ValueError("services is an empty list: name at least one service.")
    return ServiceDuty.run(machine, request, params["services"], timeout, params["later"]).result("services")


DUTIES: dict[str, type[Duty]] = {"service": ServiceDuty}
CALLS: dict[str, Callable[[], Call]] = {"service_hold": lambda: holding(hold_spec(), hold, needs=("services",))}
