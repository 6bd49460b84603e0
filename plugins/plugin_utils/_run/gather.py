# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the hosts have registered in a pass: what was observed, and what their steps came to. Pure.

C(known) is always, per host, its variables; None if it has left the play. C(last) is what the former pass returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.graceful.azure.plugins.plugin_utils._own_files import file_due
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.restore_service import lost_steps, records_in
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.results import RoleResult
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.without_role import judge
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json, Result, StepJson

Known = Mapping[str, Any]
LEFT = "it has left the run: a task file of its own could not reach a machine, or ended it for this host; another run carries on"
GONE: Json = {"reached": False, "left": True, "fatal": LEFT, "error": LEFT}
"""The observation of a host that has left the play."""
OF_ANSIBLE = frozenset(
    (
        "turn acts ansible_loop_var invocation failed _ansible_no_log _ansible_item_label _ansible_delegated_vars _ansible_verbose_override"
        " ansible_facts diff warnings deprecations"
    ).split()
)
"""The keys of the result of a turn that do not belong to the observation."""


def turns_of(facts: Any) -> Sequence[Json]:
    """The results of the turns of a host. C(facts): its variables."""
    found: Sequence[Json] = ((facts or {}).get("graceful_azure_turns") or {}).get("results") or ()
    return found


def acts_of(facts: Any) -> list[Result]:
    """The results of the acts of a host, on itself and on its balancers."""
    return [act for item in turns_of(facts) for act in item.get("acts") or ()]


def observations(known: Known, before: Json) -> Json:
    """The last observation of each host and of each balancer, by its key. An observation from before this pass has C(rested) or C(ended)."""
    hosts = {name: dict(before["hosts"].get(name) or {}, rested=True) if facts is not None else GONE for name, facts in known.items()}
    balancers = {key: dict(look, rested=True) for key, look in before["balancers"].items()}
    for name, facts in known.items():
        for item in turns_of(facts):
            turn = item.get("turn") or {}
            if "options" not in turn or not ("reached" in item or item.get("ended")):
                continue
            group, key = (balancers, turn["key"]) if "machine" in turn else (hosts, name)
            look = {field: value for field, value in item.items() if field not in OF_ANSIBLE}
            if "machine" in turn:
                # With the options of the look, because a look that waited for a server counts twice.
                look.update(machine=turn["machine"], look=turn["options"])  # the journal has them under this name
            former = group.get(key) or {}
            # Several hosts may have looked at one balancer, each after its own acts.
            if former.get("rested") is False and (look.get("ended") or former.get("at", 0.0) > look.get("at", 0.0)):
                continue
            group[key] = _still(former, look) if look.get("ended") else dict(look, rested=False)
    return {"hosts": hosts, "balancers": balancers}


def _still(former: Json, ended: Json) -> Json:
    """The observation before a look that news have ended, since that look returned nothing."""
    former = {field: value for field, value in former.items() if field != "rested"}
    since = former.get("watched") or former.get("at") or ended["began"]
    return dict(former, ended=True, watched=ended.get("watched"), unwatched=former.get("unwatched", 0.0) + max(0.0, ended["began"] - since))


def results(known: Known, last: Json) -> Json:
    """For each host that took a step: its result, and the failure, if there was one."""
    acted = dict(last.get("acted") or {})
    for name, facts in known.items():
        done, step = acts_of(facts), _step(last, name)
        if not done or not step:
            continue
        result, failure = judged(name, step, last["settings"][name], done)
        acted[name] = {step["role"]: result}
        if failure is not None:
            acted[name]["failure"] = {"pass": last["number"], "message": failure}
    return acted


def judged(name: str, step: StepJson, settings: Json, done: Sequence[Result]) -> tuple[RoleResult, str | None]:
    """The result of a step of a host, and why it failed, or None. C(done): the results of its acts."""
    recorded = records_in(settings["drain_host"]["steps"], settings["load_balancers"])
    lost = list(dict.fromkeys([*lost_steps(step.get("records") or (), recorded), *(step.get("lost") or ())]))
    return judge(step["role"], step["state"], step["event_ids"], name, settings["load_balancers"], done, lost)


def _step(last: Json, name: str) -> Json | None:
    step: Json | None = (last.get("hosts") or {}).get(name, {}).get("step")
    return step


def failure_of_file(name: str, facts: Json | None, last: Json) -> Json | None:
    """Why a task file of the user's own failed on a host in the former pass, if one ran there. Otherwise the variable is that of an earlier run."""
    # The end of a run of one step no longer names the files that are due, only those that it ran.
    ran = {**(last.get("ran") or {}), **(last.get("files") or {})}
    return (facts or {}).get("graceful_azure_failure") or None if name in ran else None


def failed_files(known: Known, last: Json) -> bool:
    """Whether a task file of the user's own failed in the former pass."""
    return any(failure_of_file(name, facts, last) for name, facts in known.items())


def files_due(known: Known, acted: Json, ran: Mapping[str, Iterable[str]]) -> dict[str, Json]:
    """Per host the task file for which its acts of this pass wait. C(ran): per host the records of those that ran already."""
    wanted = {name: file_due(acted[name].values()) for name, facts in known.items() if acts_of(facts)}
    return {name: file for name, file in wanted.items() if file and file["record"] not in ran.get(name, ())}
