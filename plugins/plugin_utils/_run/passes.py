# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One pass of a run, from what the hosts have registered to what they do next.

A pass works on plain data: what it returns is what the next one gets as C(last).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ansible_collections.graceful.azure.plugins.module_utils._events import NOT_APPROVED
from ansible_collections.graceful.azure.plugins.module_utils._spellings import fold
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.ending import outcome_words
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.events import label_of
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.plan import plan
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.preview import no_event, not_looked_at
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.status import FAULTS
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.steps import step_words
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.turns import without
from ansible_collections.graceful.azure.plugins.plugin_utils._replay import recorded_of
from ansible_collections.graceful.azure.plugins.plugin_utils._run import gather
from ansible_collections.graceful.azure.plugins.plugin_utils._run.gather import Known
from ansible_collections.graceful.azure.plugins.plugin_utils._run.sinks import PassResult, Sink
from ansible_collections.graceful.azure.plugins.plugin_utils._story.host_journal import behind, now_written, with_entries
from ansible_collections.graceful.azure.plugins.plugin_utils._text import plain
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json, Turn

CARRIED_ON = ("graceful_azure", "graceful_azure_run")
"""The names of what a run passes on to the next job."""


def one_pass(known: Known, last: Json, sinks: Sequence[Sink], now: float, folder: str) -> Json:
    """One pass. C(known), C(last): see C(gather.py). C(now): the controller's clock. C(folder): a folder of this run, where looks tell each other news."""
    observed, acted = gather.observations(known, last["seen"]), gather.results(known, last)
    written = now_written({name: gather.turns_of(facts) for name, facts in known.items()}, last.get("written") or {})
    if last.get("to_do"):
        return _close(known, acted, dict(last, written=written))
    world = {
        "now": now,
        "pass": last["number"] + 1,
        "run": last["run"],
        "settings": last["settings"],
        **observed,
        "results": {name: {"failure": gather.failure_of_file(name, facts, last), **acted.get(name, {})} for name, facts in known.items()},
        "memory": last["memory"],
    }
    # The plan works on plain data, as it would on a pass read from a file.
    outcome = plan(plain(world))
    told = PassResult(last["run"], outcome, line_of(world, outcome), last, {})
    warnings = list(outcome.pop("warnings"))
    for sink in sinks:
        warnings.extend(sink.tell(told))
    told.kept.pop("is_news", None)
    if not last["run"].get("check"):
        outcome["turns"] = with_entries(outcome, written)
    carried = {key: last[key] for key in ("settings", "run", "with_files")}
    news = os.path.join(folder, f"graceful-azure-news-{world['run']['started']}-{world['pass']}")
    result = dict(carried, number=world["pass"], seen=observed, written=written, news=news, table=_table(outcome), **outcome, **told.kept)
    if outcome["finished"]:
        last_turns = _last_turns(outcome["turns"], behind(outcome, written))
        if any(last_turns["turns"].values()):
            result.update(last_turns, finished=False)
    if warnings:
        result["warnings"] = warnings
    return result


def line_of(world: Json, outcome: Json) -> Json:
    """A pass as the journal has it: what was observed, so that it can be planned again, and what came of it."""
    of_outcome = {"hosts": recorded_of(outcome), "events": outcome["events"], "of_run": outcome["of_run"]}
    return {"time": world["now"], "pass": world["pass"], **of_outcome, "world": world}


def carried_on(result: Json) -> Json:
    """What a run passes on to the next job, as by the module C(set_stats). C(result): what the last pass returned."""
    # The list does not say whether anything was done at all, and which hosts could not be read.
    of_run = {"check": bool(result["run"].get("check")), "unread": result["unread"], "failed": result["failed_run"], "messages": result["messages"]}
    return {"data": dict(zip(CARRIED_ON, (result["events"], of_run))), "per_host": False, "aggregate": False}


def farewells(result: Json) -> dict[str, list[Turn]]:
    """The turns after the last pass, in which the machines that were reached are told that the run is over.

    C(result): what the last pass returned. The machines of balancers are divided among the hosts.
    """
    seen = result["seen"]
    turns: dict[str, list[Turn]] = {name: [{"name": name, "farewell": True}] if look.get("reached") else [] for name, look in seen["hosts"].items()}
    # A host behind a health probe is the machine of its own balancer.
    machines = sorted({look["machine"] for look in seen["balancers"].values() if look.get("reached") and not turns.get(look["machine"])})
    for number, machine in enumerate(machines):
        turns[list(turns)[number % len(turns)]].append({"name": machine, "machine": machine, "farewell": True})
    return turns


def _table(planned: Json, done: Mapping[str, str] | None = None) -> list[str]:
    """The closing table: what became of the events, or what would be done in check mode, a line for each host that could not be read, and what else is
    wrong. C(done): per host what came of the step that followed the last pass."""
    done = done or {}
    lines = [*(planned["preview"] or _outcomes(planned, done)), *not_looked_at(planned["unread"], planned["told"])]
    # Where the table says what came of a host's step, it no longer has the fault, which follows then.
    return [*lines, *(fault["text"] for fault in planned["faults"] if not fault["in_table"] or not done.keys().isdisjoint(fault["hosts"]))]


def _came_of(last: Json, acted: Json) -> Iterator[tuple[str, str]]:
    """What came of the steps that follow the last pass of a run, per host. No other pass would tell. C(acted): the results."""
    for name, results in acted.items():
        step = (last["hosts"].get(name) or {}).get("step")
        if not step or step["role"] not in results:
            continue
        result, failure = results[step["role"]], results.get("failure")
        if failure:
            yield name, f"{step_words(step)}: failed: {failure['message']}"
        else:
            yield name, step_words(step, done=True) if result["done"] and result.get("approved") != [] else result["reason"]


def _outcomes(planned: Json, done: Mapping[str, str]) -> Iterator[str]:
    """A line for each event and each of its hosts."""
    if not planned["events"]:
        yield no_event("No event names any of the targets", planned["unread"])
    for event in planned["events"]:
        of_memory = planned["memory"]["events"][fold(event["event_id"])]
        description = of_memory.get("description")
        why = of_memory["unapproved"] if event["outcome"] == NOT_APPROVED else None
        label = f"{label_of(event['event_type'], event['event_id'], description)} ({', '.join(event['resources'])})"
        yield f"{label}: {outcome_words(event['outcome'], event['hosts'], why, description)}"
        # Many hosts may wait for one thing that a person must mend.
        alike: dict[tuple[str, ...], list[str]] = {}
        for name, status in event["hosts"].items():
            reason = done.get(name) or status["reason"]
            # An operator may keep out whoever we did not take out.
            said = reason if status["state"] == "in_service" else f"{status['state']}, {reason}"
            alike.setdefault((said,) if status["state"] in FAULTS else (said, name), []).append(name)
        yield from (f"    {', '.join(names)}: {said[0]}" for said, names in alike.items())


def _last_turns(turns: Json, unwritten: Iterable[str]) -> Json:
    """The last turns of a run: acts, and a look at each host of C(unwritten), which carries its entry. C(to_do): the turns of one more pass, if an act
    fails."""
    acts = {name: [without(turn, "options") for turn in mine if "acts" in turn] for name, mine in turns.items()}
    for name in unwritten:
        acts[name] = acts[name] or [dict(turn, options=dict(turn["options"], wait=0.0)) for turn in turns[name] if "machine" not in turn]
    looks = {name: [without(turn, "acts") for turn in mine if "options" in turn] for name, mine in turns.items()}
    return {"turns": acts, "to_do": looks}


def _close(known: Known, acted: Json, last: Json) -> Json:
    """The end of a run after its last acts. A run of one step tries a failed step again.

    It runs each task file of the user's own once, after the acts that wait for it, and then does these again.
    """
    ran = last.get("ran") or {name: [file["record"]] for name, file in (last.get("files") or {}).items()}
    files = gather.files_due(known, acted, ran)
    if files:
        ran = {**ran, **{name: [*ran.get(name, ()), file["record"]] for name, file in files.items()}}
        turns = {name: last["turns"][name] if name in files else [] for name in known}
        return dict(last, acted=acted, files=files, ran=ran, turns=turns, warnings=[])
    failed = any("failure" in results for results in acted.values()) or gather.failed_files(known, last)
    table = _table(last, dict(_came_of(last, acted)))
    return dict(last, acted=acted, turns=last["to_do"], to_do=None, files={}, ran=ran, table=table, finished=not (failed and last["once_more"]), warnings=[])
