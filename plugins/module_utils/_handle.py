# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a machine is asked: acts in their order, then a look. One function answers, whoever runs it: a module, or the controller for a machine that runs none.

The look never shows less than the acts have changed, since it comes after them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.graceful.azure.plugins.module_utils._duties.all_types import calls
from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import Call
from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import DriverError
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import DEFAULT_STATE_DIR, HoldError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine

    Params = Mapping[str, Any]
    Result = dict[str, Any]


def handle(request: Mapping[str, Any], machine: Callable[[Params], Machine], spec_of: Callable[[dict[str, Any]], dict[str, Any]] = dict) -> Result:
    """Answer a request.

    C(acts): each has the C(call) that it is and its C(args). An act is begun when all before it that have C(counts) are done; one that has C(otherwise),
    when one of these is not.
    C(journal): what the journal of the machine is told first. C(look): a call, with C(rest): the seconds that must have passed since the request began, and
    C(at_once): options of a look that waits for nothing. They count after an act that has failed, or that has C(at_once) itself: V(begun), or V(undone) if
    that is not done.

    C(machine) makes the machine from the options of a call. C(spec_of): its options as they are on such a machine.

    Returns C(acts), one result for each that was begun (None for others), C(look), and C(journal_missed) if the journal did not take its entry. What went
    wrong in a call is told in its result: C(failed), C(msg). Once a machine cannot be reached any more (C(unreachable)), it is asked nothing more.
    """
    here = machine({})
    began = here.monotonic()
    entry = request.get("journal")
    missed = {"journal_missed": True} if entry and not here.check_mode and not here.note(entry) else {}
    told: list[Result | None] = []
    goes_on, at_once = True, False
    lost: Result | None = None
    for act in request.get("acts") or ():
        result = None
        if goes_on != bool(act.get("otherwise")):
            result = dict(lost or answer(act.get("call"), act.get("args"), machine, spec_of))
            lost = result if result.get("unreachable") else None
        told.append(result)
        is_done = result is not None and bool(result.get("done"))
        if act.get("counts"):
            goes_on = goes_on and is_done
        if result is not None:
            at_once = at_once or bool(result.get("failed")) or act.get("at_once") == "begun" or act.get("at_once") == "undone" and not is_done
    look = request.get("look")
    if not look:
        return {"acts": told, **missed}
    if lost:
        return {**missed, "acts": told, "look": dict(lost)}
    rest = look.get("rest")
    here.sleep(max(0.0, (rest if isinstance(rest, (int, float)) else 0.0) - (here.monotonic() - began)))
    args = look.get("args")
    if at_once and isinstance(args, dict):
        args = dict(args, **look.get("at_once") or {})
    return {**missed, "acts": told, "look": answer(look.get("call"), args, machine, spec_of)}


def answer(name: Any, args: Any, machine: Callable[[Params], Machine], spec_of: Callable[[dict[str, Any]], dict[str, Any]] = dict) -> Result:
    """The result of one call."""
    if not isinstance(name, str) or name not in CALLS:
        return {"failed": True, "changed": False, "msg": "call: %r is none of %s." % (name, ", ".join(CALLS))}
    if not isinstance(args, dict):
        return {"failed": True, "changed": False, "msg": "args: %r is no dictionary of the options of %s." % (args, name)}
    call = CALLS[name]()
    checked = ArgumentSpecValidator(spec_of(call.spec), **call.conditions).validate({option: value for option, value in args.items() if value is not None})
    if checked.error_messages:
        return {"failed": True, "changed": False, "msg": "; ".join(checked.error_messages)}
    params = checked.validated_parameters
    there = machine(params)
    try:
        return call.run(params, there)
    except (DriverError, HoldError, ValueError) + call.errors + there.errors as error:
        return {"failed": True, "changed": False, "msg": str(error), **call.of_failure(params)}
    except there.lost as error:
        return {"unreachable": True, "changed": False, "msg": str(error)}


# Each loads only what it needs.


def _approval_hold() -> Call:
    from ansible_collections.graceful.azure.plugins.module_utils import _approval_record
    from ansible_collections.graceful.azure.plugins.module_utils._approving import ApprovalRefusedError
    from ansible_collections.graceful.azure.plugins.module_utils._imds import ImdsError

    return Call(_approval_record.argument_spec(), _approval_record.approve, (ImdsError, ApprovalRefusedError))


def _hold_repair() -> Call:
    def repair(params: Params, machine: Machine) -> Result:
        aside, left = machine.put_aside()
        return {"changed": bool(aside), "put_aside": aside, "left": [str(problem) for problem in left]}

    spec = {"state_dir": {"type": "path", "default": DEFAULT_STATE_DIR}}
    return Call(spec, lambda params, machine: machine.take(lambda: repair(params, machine)))


def _wait_for_answer() -> Call:
    from ansible_collections.graceful.azure.plugins.module_utils import _answer

    return Call(_answer.argument_spec(), _answer.ask_once, (), {"required_one_of": _answer.REQUIRED_ONE_OF})


def _host_observation() -> Call:
    from ansible_collections.graceful.azure.plugins.module_utils import _host_look

    return Call(_host_look.argument_spec(), _host_look.look_at_host)


# What every machine can be asked, whatever its duties.
OF_MACHINES: dict[str, Callable[[], Call]] = {
    "approval_hold": _approval_hold,
    "hold_repair": _hold_repair,
    "host_observation": _host_observation,
    "wait_for_answer": _wait_for_answer,
}
CALLS = {**OF_MACHINES, **calls()}
