# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every look at a balancer tells of the machine on which it runs, whatever kind of balancer that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._addresses import network_of, own_addresses
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import DEFAULT_STATE_DIR, HoldError, check_writable, scan_records, utc_now

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def look_spec() -> dict[str, Any]:
    """The options of a look at the servers of several hosts."""
    return {
        "servers": {"type": "list", "elements": "str", "required": True},
        "addresses": {"type": "list", "elements": "str", "default": []},
        "state_dir": {"type": "path", "default": DEFAULT_STATE_DIR},
        "timeout": {"type": "float", "default": 0},
        "quiet": {"type": "float", "default": 0},
        "wait_for": {"type": "list", "elements": "str"},
    }


def awaited_in(params: Mapping[str, Any]) -> list[str]:
    """The servers for which such a look waits."""
    names: list[str] = params["servers"]
    if not names:
        raise ValueError("servers is an empty list: name at least one server.")
    return names if params["wait_for"] is None else params["wait_for"]


def machine_facts(state_dir: str) -> dict[str, Any]:
    """The machine's addresses, its network, its time, and a sentence if no record could be written into the folder."""
    problem = None
    try:
        check_writable(state_dir)
    except HoldError as error:
        problem = str(error)
    return {"addresses": own_addresses(), "network": network_of(), "state_dir_problem": problem, "time": utc_now()}


def other_holds(params: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """What a look that failed tells all the same: the records of this kind that can be read. Nothing says to which balancer they belong."""
    try:
        return {"other_holds": [record for record in scan_records(params["state_dir"])[0] if record["kind"] == kind]}
    except HoldError:
        return {"other_holds": []}
