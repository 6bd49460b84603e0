# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action behind M(graceful.azure.plan); see its module for the options.

Gathers what every host registered, lets the pure plan decide, and shows what changed. This action
decides nothing and changes nothing on any machine.
"""

from __future__ import annotations

import json
import os
import time

from ansible import constants as C
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.registry import TRAFFIC
from ansible_collections.graceful.azure.plugins.plugin_utils._notify import notices
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import MachineObservation
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.plan import plan
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.preview import no_event, not_looked_at
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.turns import quick_look
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.verdicts import Kind
from ansible_collections.graceful.azure.plugins.plugin_utils._replay import RECORDED
from ansible_collections.graceful.azure.plugins.plugin_utils._settings import NOTIFY
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.restore_service import lost_steps
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.without_role import after_release, judge
from ansible_collections.graceful.azure.plugins.plugin_utils._story import files, metrics, story
from ansible_collections.graceful.azure.plugins.plugin_utils._story.host_journal import behind, now_written, with_entries
from ansible_collections.graceful.azure.plugins.plugin_utils._text import clock, duration, printable

REMINDER = 5.0
"""Seconds after which a host's line is shown again although nothing changed. Later it is a tenth of the time that the host has waited."""
LONGEST_REMINDER = 300.0
LEFT = "it has left the run: a task file of its own could not reach a machine, or ended it for this host; another run carries on"
GONE = {"reached": False, "left": True, "fatal": LEFT, "error": LEFT}
"""The observation of a host that has left the play."""
OF_ANSIBLE = ("turn", "acts", "ansible_loop_var", "invocation", "failed", "_ansible_no_log", "_ansible_item_label", "_ansible_delegated_vars")
"""The keys of the result of a turn that do not belong to the observation."""
SHOWN = ("warnings", "messages", "table")

display = Display()


def _table(planned):
    """The closing table: what became of the events, or what would be done in check mode, and a line for each host that could not be read."""
    return [*(planned["preview"] or _outcomes(planned["events"], planned["unread"])), *not_looked_at(planned["unread"], planned["told"])]


def _outcomes(events, unread):
    """A line for each event and each of its hosts."""
    if not events:
        yield no_event("No event names any of the targets", unread)
    for event in events:
        yield f"{event['event_type'] or 'event'} {event['event_id']} ({', '.join(event['resources'])}): {event['outcome']}"
        yield from (f"    {name}: {status['state']}, {status['reason']}" for name, status in event["hosts"].items())


class ActionModule(ActionBase):
    """Phase C(pass) makes the plan of one pass; phase C(result) ends a run."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        args = self._task.args
        result["changed"] = False
        if args.get("phase") == "result":
            planned = task_vars["graceful_azure_plan"]
            if planned.get("notices"):
                result["warnings"] = notices.end(planned["notices"], self._templar, task_vars)
            result.update(self._close(planned))
            return result
        active = set(task_vars["ansible_play_hosts"])
        known = {name: task_vars["hostvars"].raw_get(name) if name in active else None for name in task_vars["ansible_play_hosts_all"]}
        result.update(self._pass(args, known, task_vars["graceful_azure_plan"], task_vars if task_vars.get(NOTIFY) else None))
        # What a person reads; everything else keeps the original text.
        result.update({key: printable(result[key]) for key in SHOWN if key in result})
        return result

    @staticmethod
    def _close(planned):
        """The end of a run: the closing table as lines, and whether the run failed and why."""
        for line in printable(planned["table"]):
            display.display(line)
        if planned.get("report"):
            display.display(printable(f"The report of this run: {planned['report']}"))
        if planned["finished"] and not planned["failed_run"]:
            return {}
        return {"failed": True, "msg": "; ".join(printable(planned["messages"])) or "the run ended before everything was done; start it again"}

    def _pass(self, args, known, last, to_tell=None):
        """One pass. C(known): per host its variables, None if it has left the play. C(to_tell): all variables, if people are to be notified."""
        seen, acted = self._seen(known, last["seen"]), self._acted(known, last)
        written = now_written({name: self._turns(facts) for name, facts in known.items()}, last.get("written") or {})
        if last.get("to_do"):
            return self._close_acts(known, acted, dict(last, written=written))
        self._add_restored(known, last, seen, acted)
        older = self._older_than_acts(known, last, seen)
        if older:
            # These observations do not show what was just done, so no plan is made from them.
            looker = next(name for name, facts in known.items() if facts is not None)
            return dict(last, seen=seen, acted=acted, written=written, files={}, turns={**dict.fromkeys(known, []), looker: older}, warnings=[])
        world = {
            "now": time.time(),
            "pass": last["number"] + 1,
            "run": last["run"],
            "settings": last["settings"],
            **seen,
            "results": {name: {"failure": (facts or {}).get("graceful_azure_failure"), **acted.get(name, {})} for name, facts in known.items()},
            "memory": last["memory"],
        }
        # The plan works on plain data, as it would on a pass read from a file.
        outcome = plan(json.loads(json.dumps(world, default=str)))
        self._tell(outcome, last, world)
        warnings = outcome.pop("warnings")
        if not last["run"].get("check"):
            outcome["turns"] = with_entries(outcome, written)
        carried = {key: last[key] for key in ("settings", "run", "with_files")}
        # The file by which the looks of the next pass tell each other news. Ansible removes the folder when the run ends.
        news = os.path.join(C.DEFAULT_LOCAL_TMP, f"graceful-azure-news-{world['run']['started']}-{world['pass']}")
        result = dict(carried, number=world["pass"], seen=seen, written=written, news=news, table=_table(outcome), **outcome)
        if outcome["finished"]:
            last_turns = self._last_turns(outcome["turns"], behind(outcome, written))
            if any(last_turns["turns"].values()):
                result.update(last_turns, finished=False)
        line = self._line(world, outcome)
        if args.get("journal") and not last["run"].get("check"):
            try:
                self._write(args["journal"], line)
            except OSError as error:
                # The run goes on without a journal, because the hosts matter more.
                warnings = [*warnings, f"handle_events_journal: {args['journal']!r} cannot be written any more: {error.strerror}"]
        if (args.get("report") or args.get("metrics") or to_tell) and not last["run"].get("check"):
            result["story"], is_new = self._story(last, line, outcome, args.get("report"))
            try:
                if args.get("report"):
                    result["report"] = files.write(args["report"], result["story"])[0] if is_new or not last.get("report") else last["report"]
            except OSError as error:
                warnings = [*warnings, f"handle_events_report: {args['report']!r} cannot be written any more: {error.strerror}"]
            try:
                if args.get("metrics"):
                    # What former runs had counted.
                    result["counted"] = last["counted"] if "counted" in last else files.read_metrics(args["metrics"])
                    text = metrics.metrics(files.group_of(args["metrics"]), result["story"], line, outcome["memory"], result["counted"])
                    files.write_metrics(args["metrics"], text)
            except OSError as error:
                warnings = [*warnings, f"handle_events_metrics: {args['metrics']!r} cannot be written any more: {error.strerror}"]
            if to_tell:
                result["notices"] = last.get("notices") or notices.begin()
                warnings = [*warnings, *notices.tell(result["notices"], result["story"], line, outcome["memory"], self._templar, to_tell)]
        if warnings:
            result["warnings"] = warnings
        return result

    @classmethod
    def _seen(cls, known, before):
        """The last observation of each host and of each balancer, by its key. An observation from before this pass has C(rested) or C(ended)."""
        hosts = {name: dict(before["hosts"].get(name) or {}, rested=True) if facts is not None else GONE for name, facts in known.items()}
        balancers = {key: dict(look, rested=True) for key, look in before["balancers"].items()}
        for name, facts in known.items():
            for item in cls._turns(facts):
                turn = item.get("turn") or {}
                if "options" not in turn or not ("reached" in item or item.get("ended")):
                    continue
                group, key = (balancers, turn["key"]) if "machine" in turn else (hosts, name)
                found = {field: value for field, value in item.items() if field not in OF_ANSIBLE}
                if "machine" in turn:
                    # With the options of the look, because a look that waited for a server counts twice.
                    found.update(machine=turn["machine"], look=turn["options"])  # the journal has them under this name
                former = {field: value for field, value in group.get(key, {}).items() if field != "rested"}
                group[key] = cls._still(former, found) if found.get("ended") else dict(found, rested=False)
        return {"hosts": hosts, "balancers": balancers}

    @staticmethod
    def _still(former, ended):
        """The observation before a look that news have ended, since that look returned nothing."""
        since = former.get("watched") or former.get("at") or ended["began"]
        return dict(former, ended=True, watched=ended.get("watched"), unwatched=former.get("unwatched", 0.0) + max(0.0, ended["began"] - since))

    @classmethod
    def _acted(cls, known, last):
        """For each host that took a step by its acts: the result, and the failure, if there was one."""
        acted = dict(last.get("acted") or {})
        for name, facts in known.items():
            done = cls._acts(facts)
            step = (last.get("hosts") or {}).get(name, {}).get("step")
            if not done or not step:
                continue
            settings = last["settings"][name]
            recorded = [drain_step.get("record") for drain_step in settings["drain_host"]["steps"]]
            lost = lost_steps(step.get("records") or (), recorded)
            result, failure = judge(step["role"], step["state"], step["event_ids"], name, settings["load_balancers"], done, lost)
            acted[name] = {step["role"]: result}
            if failure is not None:
                acted[name]["failure"] = {"pass": last["number"], "message": failure}
        return acted

    @classmethod
    def _add_restored(cls, known, last, seen, acted):
        """Add observations of the hosts that were brought back. They were not looked at after that, but their acts returned the same."""
        # Several hosts may have come back at the same balancer.
        not_looked_at = {key for key, look in seen["balancers"].items() if look.get("rested") and look.get("holds") is not None}
        for name, facts in known.items():
            step = (last.get("hosts") or {}).get(name, {}).get("step")
            look = seen["hosts"][name]
            if not look.get("rested") or not acted.get(name, {}).get("restore_service", {}).get("done"):
                continue
            seen["hosts"][name] = dict(after_release(look, step["event_ids"], step["records"]), rested=False, by_acts=True)
            balancers = last["settings"][name]["load_balancers"]
            for act in (act for act in cls._acts(facts) if act["part"] == "balancer" and "item" in act):
                provider = TRAFFIC[balancers[act["balancer"]]["provider"]]
                for key, former in seen["balancers"].items():
                    is_there = former.get("machine") == act["item"] and key in not_looked_at
                    now = provider.after_release(former, act, step["event_ids"]) if is_there else None
                    if now:
                        seen["balancers"][key] = dict(now, rested=False, by_acts=True)

    @staticmethod
    def _acts(facts):
        """The results of the acts of a host, on itself and on its balancers."""
        return [act for item in ActionModule._turns(facts) for act in item.get("acts") or ()]

    @staticmethod
    def _turns(facts):
        """The results of the turns of a host."""
        return ((facts or {}).get("graceful_azure_turns") or {}).get("results") or ()

    @classmethod
    def _older_than_acts(cls, known, last, seen):
        """The turns for a second look at each machine on which an act was done after or during the look at it."""
        older = {}
        looks = {turn["key"]: turn for mine in last["turns"].values() for turn in mine if "key" in turn}
        for name, facts in known.items():
            balancers = last["settings"][name]["load_balancers"]
            for act in (act for act in cls._acts(facts) if "item" in act):
                provider = TRAFFIC[balancers[act["balancer"]]["provider"]]
                for key, turn in looks.items():
                    look = seen["balancers"].get(key) or {}
                    is_new = bool(look) and MachineObservation(key, look, None).is_new
                    if turn["machine"] == act["item"] and not (is_new and (look["began"] >= act["ended_at"] or provider.shows(look, act))):
                        older[key] = quick_look(turn)
        return list(older.values())

    @staticmethod
    def _last_turns(turns, unwritten):
        """The last turns of a run: acts, and a look at each host of C(unwritten), which carries its entry. C(to_do): the turns of one more pass, if an act
        fails."""
        acts = {
            name: [{field: value for field, value in turn.items() if field != "options"} for turn in mine if "acts" in turn] for name, mine in turns.items()
        }
        for name in unwritten:
            acts[name] = acts[name] or [dict(turn, options=dict(turn["options"], wait=0.0)) for turn in turns[name] if "machine" not in turn]
        looks = {
            name: [{field: value for field, value in turn.items() if field != "acts"} for turn in mine if "options" in turn] for name, mine in turns.items()
        }
        return {"turns": acts, "to_do": looks}

    @classmethod
    def _close_acts(cls, known, acted, last):
        """The end of a run after its last acts. A run of one step tries a failed step again.

        It runs each task file of the user's own once, after the acts that wait for it, and then does these again.
        """
        ran = last.get("ran") or {name: [file["record"]] for name, file in (last.get("files") or {}).items()}
        wanted = {name: cls._file(acted[name]) for name, facts in known.items() if cls._acts(facts)}
        files = {name: file for name, file in wanted.items() if file and file["record"] not in ran.get(name, ())}
        if files:
            ran = {**ran, **{name: [*ran.get(name, ()), file["record"]] for name, file in files.items()}}
            turns = {name: last["turns"][name] if name in files else [] for name in known}
            return dict(last, acted=acted, files=files, ran=ran, turns=turns, warnings=[])
        failed = any("failure" in results for results in acted.values())
        failed = failed or any((facts or {}).get("graceful_azure_failure", {}).get("pass") == last["number"] for facts in known.values())
        return dict(last, acted=acted, turns=last["to_do"], to_do=None, files={}, finished=not (failed and last["once_more"]), warnings=[])

    @staticmethod
    def _file(results):
        """The task file for which the acts of a host wait, or None."""
        return next((result["file"] for result in results.values() if result.get("file")), None)

    @staticmethod
    def _tell(outcome, last, world):
        """Show a line for every host whose state or reason has changed, or has been the same for long."""
        told = dict(last["memory"].get("told") or {})
        for name, decision in outcome["hosts"].items():
            before = told.get(name) or {}
            said = [decision["state"], decision["reason"], decision["event"]]
            # A reason that changes from one second to the next is told at most once a second, but never missing where something is done for it.
            fresh = before.get("said", [None])[0] != said[0] or before.get("said") != said and (decision["step"] or world["now"] - before["at"] >= 1)
            waited = world["now"] - decision["since"]
            reminder = min(max(REMINDER, waited / 10), LONGEST_REMINDER)
            still = decision["state"] not in ("in_service", "restored") and world["now"] - before.get("at", 0) >= reminder
            quiet = not before and decision["kind"] == Kind.NOTHING.value
            if quiet or not (fresh or still):
                continue
            told[name] = {"said": said, "at": world["now"]}
            line = f"{clock(world['now'])}  {name}  {decision['state']}"
            if decision["event"]:
                line += f"  {decision['event']}"
            line += f"  {decision['reason']}"
            if waited >= 1:
                line += f"  (for {duration(waited)}"
                line += f", until {clock(decision['until'])})" if decision["until"] else ")"
            elif decision["until"]:
                line += f"  (until {clock(decision['until'])})"
            display.display(printable(line), color="yellow" if decision["state"] in ("needs_person", "unobserved") else None)
        outcome["memory"]["told"] = told

    @staticmethod
    def _line(world, outcome):
        """A pass as the journal has it: what was observed, so that it can be planned again, and what came of it."""
        hosts = {name: {key: decision[key] for key in RECORDED} for name, decision in outcome["hosts"].items()}
        return {"time": world["now"], "pass": world["pass"], "hosts": hosts, "events": outcome["events"], "of_run": outcome["of_run"], "world": world}

    @staticmethod
    def _write(path, line):
        with open(path, "a", encoding="utf-8") as journal:
            journal.write(json.dumps(line, default=str) + "\n")

    @staticmethod
    def _story(last, line, outcome, folder):
        """The story of the run with this pass, and whether the pass brought anything new. C(folder): where reports are, if there are any."""
        told = last.get("story")
        if not told:
            names = list(line["hosts"])
            told = story.begin(last["run"], names, files.unfinished(folder, last["run"]["started"], names) if folder else None)
        is_new = story.add(told, line, outcome["memory"])
        story.end(told, outcome["finished"], outcome["failed_run"], outcome["messages"])
        return told, is_new or outcome["finished"]
