# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a pass writes and shows, and what it may not stumble over."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.graceful.azure.plugins.action import plan
from ansible_collections.graceful.azure.plugins.action.check_settings import begin_run
from ansible_collections.graceful.azure.plugins.action.plan import ActionModule
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.ending import WATCH
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.events import REHEARSAL
from ansible_collections.graceful.azure.plugins.plugin_utils._run.gather import failed_files, failure_of_file, observations
from ansible_collections.graceful.azure.plugins.plugin_utils._run.passes import _came_of, _last_turns, _table, carried_on, farewells, one_pass
from ansible_collections.graceful.azure.plugins.plugin_utils._run.sinks import Lines, PassResult, sinks_of
from ansible_collections.graceful.azure.plugins.plugin_utils._settings import read_settings

TASKS = Path(__file__).resolve().parents[4] / "playbooks" / "tasks"


def passed(options, known, last):
    """One pass, by a clock that stands still."""
    return one_pass(known, last, sinks_of(options, last["run"].get("check"), lambda line, color: None), 1000.0, "/nowhere")


def looked(seen):
    """What a host has registered after its turn."""
    return {"graceful_azure_turns": {"results": [dict(seen, turn={"name": "web0", "options": {}})]}}


def test_there_are_passes_for_more_than_a_day():
    """One each second for a run that watches, and after that for an event. Each file includes the next one so many times."""
    for ending in ("", "_with_files"):
        number, name = 1, "passes_160000.yml"
        while name:
            tasks = yaml.safe_load((TASKS / name).read_text())
            number *= len(tasks)
            name = re.sub(r"{{.*}}", ending, tasks[0].get("ansible.builtin.include_tasks", ""))
        assert number >= WATCH + 3600


def test_what_is_passed_on_to_the_next_job():
    planned = {"events": [{"event_id": "e1"}], "unread": {"web2": "off"}, "failed_run": True, "messages": ["web2: off"], "run": {"check": False}}
    about = {"check": False, "unread": {"web2": "off"}, "failed": True, "messages": ["web2: off"]}
    data = {"graceful_azure": [{"event_id": "e1"}], "graceful_azure_run": about}
    assert carried_on(planned) == {"data": data, "per_host": False, "aggregate": False}


def test_a_task_file_that_failed_in_an_earlier_run_has_not_failed_in_this_one():
    known = {"web0": {"graceful_azure_failure": {"pass": 3, "message": "no"}}}
    assert failure_of_file("web0", known["web0"], {"number": 3, "files": {}}) is None and not failed_files(known, {"number": 3, "files": {}})
    last = {"number": 3, "files": {"web0": {"record": "way_out"}}}
    assert failure_of_file("web0", known["web0"], last)["message"] == "no" and failed_files(known, last)
    # A run of one step that goes on because of it.
    went_on = {"number": 3, "files": {}, "ran": {"web0": ["way_out"]}}
    assert failure_of_file("web0", known["web0"], went_on)["message"] == "no"
    # The file itself begins with what has not failed.
    begun, _included = yaml.safe_load((TASKS / "file.yml").read_text())[0]["block"]
    assert begun["ansible.builtin.set_fact"]["graceful_azure_failure"] == {} and failure_of_file("web0", {"graceful_azure_failure": {}}, last) is None


def test_a_run_of_one_step_that_goes_on_knows_that_its_task_file_failed():
    """Otherwise nobody is told, and it tries again until its time is over."""
    known = {"web0": {"graceful_azure_failure": {"pass": 3, "message": "no"}}}
    of_table = {"preview": ["web0: draining"], "unread": {}, "told": [], "faults": [], "hosts": {}}
    last = {"number": 3, "files": {"web0": {"record": "way_out"}}, "turns": {"web0": []}, "to_do": {"web0": []}, "once_more": True, **of_table}
    closed = one_pass(known, dict(last, seen={"hosts": {}, "balancers": {}}, settings={}), (), 1000.0, "/nowhere")
    assert not closed["finished"] and not closed["files"] and failure_of_file("web0", known["web0"], closed)["message"] == "no"


def begin(names, check_mode=False, **args):
    settings, mistakes = read_settings({name: {"graceful_azure_duties": []} for name in names}, names)
    begun = begin_run(dict({"wait": True, "timeout": 60, "sleep": 1, "observe_timeout": 5}, **args), settings, mistakes, 5, check_mode)
    assert mistakes == []
    return begun


def test_check_mode_writes_no_journal(tmp_path):
    journal = tmp_path / "journal"
    host = {"reached": True, "events": [], "resource_name": "vm"}
    known = {"web0": looked(host)}
    begun = begin({"web0"}, check_mode=True, journal=str(journal))
    passed({"journal": str(journal)}, known, begun)
    assert not journal.exists()
    # A pass in earnest writes it.
    passed({"journal": str(journal)}, known, dict(begun, run=dict(begun["run"], check=False)))
    assert journal.exists()


def test_a_journal_that_fills_the_disk_does_not_end_the_run():
    hosts = {"web0": looked({"reached": True, "events": [], "resource_name": "vm"})}
    result = passed({"journal": "/dev/full"}, hosts, begin(hosts))
    assert "handle_events_journal" in result["warnings"][0] and result["hosts"]["web0"]["state"] == "in_service"


def shown(seconds, state="waiting", reason="rule begins later", event="Reboot e1", kind=""):
    """When a host's line is shown while it waits for so long, a pass each second. C(reason), C(kind): the same in each pass, or one for each."""
    moments = []
    memory = {}
    lines = Lines(lambda line, color: moments.append(now))
    for now in range(seconds):
        said, its_kind = (each if isinstance(each, str) else each[now] for each in (reason, kind))
        decision = {"state": state, "shown": state, "reason": said, "kind": its_kind, "event": event, "since": 0, "until": None, "step": None, "until_is": ""}
        outcome = {"hosts": {"web0": decision}, "memory": {}}
        lines.tell(PassResult({}, outcome, {"time": float(now)}, {"memory": memory}, {}))
        memory = outcome["memory"]
    return moments


def test_who_waits_is_told_again_and_again_but_ever_more_seldom():
    moments = shown(7200)
    gaps = [later - earlier for earlier, later in zip(moments, moments[1:])]
    assert gaps[0] == 15 and gaps == sorted(gaps) and gaps[-1] == 300
    assert len(moments) < 40 and len(shown(600)) < 16


def test_who_is_back_is_told_once():
    assert shown(1000, state="restored") == [0]


@pytest.mark.parametrize("state", ["needs_person", "unobserved"])
def test_a_fault_is_told_again_at_long_distances(state):
    assert shown(1000, state=state) == [0, 60, 120, 240, 480, 960]
    if state == "unobserved":
        # No event names it, so it may be off for days.
        assert shown(1000, state=state, event=None) == [0]


def test_that_one_more_look_follows_is_told_once():
    assert shown(60, state="draining", kind="look", reason="idle; one more look must show the same") == [0]


def test_seconds_that_pass_are_told_once_a_minute():
    reasons = [f"the balancer notices within {seconds} s" for seconds in range(150, 0, -1)]
    assert shown(150, state="draining", reason=reasons) == [0, 60, 120]


def test_a_drain_that_takes_long_is_told_in_few_lines():
    """How many are left is told as often as that nothing has changed, and who is left a little more often."""
    reasons = [f"{left} session{'s' * (left > 1)}, 0 queued at www/web1 on lb1" for left in range(120, 0, -1)]
    assert shown(120, state="draining", reason=reasons) == shown(120, state="draining") == [0, 15, 30, 45, 60, 80, 107]
    reasons = [f"1 connection from 10.0.0.{left} on port 80" for left in range(120, 0, -1)]
    moments = shown(120, state="draining", reason=reasons)
    assert moments[:6] == [0, 1, 2, 3, 4, 6] and len(moments) < 22 and max(later - earlier for earlier, later in zip(moments, moments[1:])) == 15
    # What is too late is told at once, and so is any other state.
    reasons = ["1 connection from 10.0.0.7 on port 80"] * 62 + ["not drained in time (on_drain_timeout: hold)"] * 2
    assert shown(64, state="draining", reason=reasons, kind=[""] * 62 + ["late"] * 2)[-1] == 62


@pytest.mark.parametrize("reasons", [("1 of 2 in service, 1 must stay", "1 of 3 in service, 2 must stay"), ("web1 goes out", "web2 goes out")])
def test_what_is_no_mere_count_is_told_again(reasons):
    assert shown(2, state="waiting", reason=reasons) == [0, 1]


def told(hosts, memory=None, now=36000.0):
    """The lines that a pass shows, without the time of day. C(hosts): per host what differs from the usual."""
    lines = []
    usual = {
        "state": "needs_person",
        "shown": "needs_person",
        "reason": "lb1 is away",
        "kind": "",
        "event": None,
        "since": now,
        "until": None,
        "until_is": "",
        "step": None,
    }
    outcome = {"hosts": {name: {**usual, **decision} for name, decision in hosts.items()}, "memory": {}}
    Lines(lambda line, color: lines.append(line.partition("  ")[2])).tell(PassResult({}, outcome, {"time": now}, {"memory": memory or {}}, {}))
    return lines, outcome["memory"]


def test_check_mode_shows_only_whom_it_waits_for():
    """The account at its end has every host. Two lines about one host seemed to be two things."""
    lines, memory = [], {}
    decision = {
        "state": "draining",
        "shown": "draining",
        "reason": "is being taken out of its balancer",
        "kind": "",
        "event": "Reboot e1",
        "since": 0,
        "until": None,
    }
    for now, reason in ((1.0, "one"), (2.0, "another"), (3.0, "another"), (18.0, "another")):
        outcome = {"hosts": {"web1": {**decision, "reason": reason, "step": {}, "until_is": ""}}, "memory": {}}
        Lines(lambda line, color: lines.append(line)).tell(PassResult({"check": True}, outcome, {"time": now}, {"memory": memory}, {}))
        memory = outcome["memory"]
    assert len(lines) == 1 and "  another  (for 18 s)" in lines[0]


def test_one_fault_of_many_hosts_is_one_line():
    hosts = {"web1": {"event": "Reboot e1"}, "web2": {}, "web3": {"reason": "lb2 is away"}}
    lines, memory = told(hosts)
    assert lines == ["web1, web2  needs_person  Reboot e1 (web1)  lb1 is away", "web3  needs_person  lb2 is away"]
    lines, memory = told({**hosts, "web2": {"reason": "lb1 refuses"}}, memory, now=36010.0)
    assert lines == ["web2  needs_person  lb1 refuses"]
    # It is told again in one line, too, although one of them came to have it later.
    hosts = {name: {"event": "Reboot e1", "since": since} for name, since in (("web1", 36000.0), ("web2", 36030.0))}
    _lines, memory = told({"web1": hosts["web1"]})
    lines, memory = told(hosts, memory, now=36030.0)
    assert lines == ["web2  needs_person  Reboot e1  lb1 is away"]
    lines, memory = told(hosts, memory, now=36060.0)
    assert lines == ["web1, web2  needs_person  Reboot e1  lb1 is away  (for 60 s)"]
    assert told(hosts, memory, now=36090.0)[0] == []


def test_a_time_says_what_it_is():
    (line,), _memory = told(
        {"web1": {"state": "draining", "shown": "draining", "reason": "1 session", "until": 36060.0, "until_is": "drain until", "since": 35940.0}}
    )
    assert re.fullmatch(r"web1  draining  1 session  \(for 60 s, drain until \d\d:\d\d:\d\d \S+\)", line)


@pytest.mark.parametrize(
    ("role", "result", "said"),
    [
        ("load_balancer", {"done": True, "reason": "www/web1 on lb1 is drain"}, "was taken out of its balancer"),
        ("load_balancer", {"done": False, "reason": "2 of 3 must stay"}, "2 of 3 must stay"),
        ("approve_event", {"done": True, "reason": "approved e1", "approved": ["e1"]}, "was approved"),
        ("approve_event", {"done": True, "reason": "nothing to approve for e1", "approved": []}, "nothing to approve for e1"),
    ],
)
def test_a_run_of_one_step_tells_what_came_of_it(role, result, said):
    """Its step follows the pass that its lines are about, and no other pass tells of it."""
    last = {
        "hosts": {"web1": {"step": {"role": role, "state": "out"}}, "web2": {"step": None}},
        "preview": [], "unread": {}, "told": [], "faults": [], "memory": {"events": {"e1": {}}},
        "events": [{"event_type": "Reboot", "event_id": "e1", "resources": ["web1"], "outcome": "in_progress", "hosts": {
            "web1": {"state": "draining", "reason": "is being taken out"}, "web2": {"state": "waiting", "reason": "1 of 2 in service"}}}],
    }  # fmt: skip
    assert _table(last, dict(_came_of(last, {"web1": {role: result}})))[1:] == [f"    web1: draining, {said}", "    web2: waiting, 1 of 2 in service"]
    failed = {"web1": {role: result, "failure": {"pass": 1, "message": "no"}}}
    assert "failed: no" in _table(last, dict(_came_of(last, failed)))[1]


def test_each_machine_is_told_once_that_the_run_is_over():
    """A host behind a health probe is the machine of its own balancer."""
    hosts = {"web1": {"reached": True}, "web2": {"reached": True}, "web3": {"reached": False}}
    balancers = {name: {"machine": machine, "reached": True} for name, machine in (("a", "web1"), ("b", "lb1"), ("c", "lb1"), ("d", "web3"))}
    told = farewells({"seen": {"hosts": hosts, "balancers": balancers}})
    assert sorted(turn["name"] for mine in told.values() for turn in mine) == ["lb1", "web1", "web2", "web3"]


@pytest.mark.parametrize(
    ("outcome", "description", "said"),
    [
        ("completed", None, "Reboot e1 (web1, web2): completed, but web2 needs a person"),
        ("in_progress", None, "Reboot e1 (web1, web2): in_progress"),
        ("cancelled", REHEARSAL, "rehearsed Reboot e1 (web1, web2): over, but web2 needs a person"),
    ],
)
def test_an_outcome_does_not_sound_fine_while_a_host_needs_a_person(outcome, description, said):
    hosts = {"web1": {"state": "restored", "reason": "back as it was found"}, "web2": {"state": "needs_person", "reason": "no answer"}}
    event = {"event_type": "Reboot", "event_id": "e1", "resources": ["web1", "web2"], "outcome": outcome, "hosts": hosts}
    memory = {"events": {"e1": {"description": description}}}
    lines = _table({"preview": [], "events": [event], "unread": {}, "told": [], "faults": [], "memory": memory})
    assert lines == [said, "    web1: restored, back as it was found", "    web2: needs_person, no answer"]


def test_the_closing_table_tells_each_fault_once():
    events = [
        {
            "event_type": "Reboot",
            "event_id": "e1",
            "resources": ["web1", "web2"],
            "outcome": "in_progress",
            "hosts": {name: {"state": "needs_person", "reason": "lb1 is away"} for name in ("web1", "web2")},
        }
    ]
    memory = {"events": {"e1": {}}}
    faults = [
        {"text": "web1, web2: lb1 is away", "hosts": ["web1", "web2"], "in_table": True},
        {"text": "web3: lb1 is away", "hosts": ["web3"], "in_table": False},
        {"text": "no", "hosts": [], "in_table": False},
    ]
    planned = {"preview": [], "events": events, "unread": {}, "told": [], "faults": faults, "memory": memory}
    first, *lines = _table(planned)
    assert first == "Reboot e1 (web1, web2): in_progress"
    assert lines == ["    web1, web2: needs_person, lb1 is away", "web3: lb1 is away", "no"]
    # What came of a step stands in the line of its host, in the place of the fault.
    assert _table(planned, {"web2": "out"})[3:] == ["web1, web2: lb1 is away", "web3: lb1 is away", "no"]


@pytest.mark.parametrize(("step", "told"), [(None, 1), ({"role": "approve_event"}, 2)])
def test_another_reason_within_a_second_is_told_only_where_something_is_done_for_it(step, told):
    lines, memory = [], {}
    for now, reason in ((10.0, "waits for its metadata service"), (10.7, "is being approved")):
        decision = {
            "state": "ready",
            "shown": "ready",
            "reason": reason,
            "kind": "",
            "event": "Reboot e1",
            "since": 0,
            "until": None,
            "step": step,
            "until_is": "",
        }
        outcome = {"hosts": {"web0": decision}, "memory": {}}
        Lines(lambda line, color: lines.append(line)).tell(PassResult({}, outcome, {"time": now}, {"memory": memory}, {}))
        memory = outcome["memory"]
    assert len(lines) == told


@pytest.mark.parametrize(
    ("planned", "result"),
    [
        ({"finished": True, "failed_run": False, "messages": []}, {}),
        (
            {"finished": True, "failed_run": True, "messages": ["web1: broken", "web2: off"]},
            {"failed": True, "msg": "this run failed; the lines above say why"},
        ),
        ({"finished": False, "failed_run": False, "messages": []}, {"failed": True, "msg": "the run ended before everything was done; start it again"}),
    ],
)
def test_the_end_of_a_run_is_shown_in_lines(monkeypatch, planned, result):
    lines = []
    monkeypatch.setattr(plan.display, "display", lambda line, color=None: lines.append(line))
    assert ActionModule._close(dict(planned, table=["Reboot e1 (web1): completed", "    web1: restored"])) == result
    assert lines == ["Reboot e1 (web1): completed", "    web1: restored"]


class TestSeveralLooksAtOneBalancer:
    """Each host looks at a balancer after its own acts there. The last look shows them all."""

    KEY = "lb1 /s"

    def seen(self, *looks):
        turn = {"machine": "lb1", "key": self.KEY, "name": self.KEY, "provider": "haproxy", "module": "haproxy_info", "options": {"socket": "/s"}}
        known = {f"web{number}": {"graceful_azure_turns": {"results": [dict(look, turn=turn)]}} for number, look in enumerate(looks)}
        former = {"reached": True, "at": 90.0, "servers": ["former"]}
        return observations(known, {"hosts": {}, "balancers": {self.KEY: former}})["balancers"][self.KEY]

    def look(self, at, **more):
        return dict({"reached": True, "began": at - 0.1, "at": at, "servers": [at]}, **more)

    @pytest.mark.parametrize("order", [(101.0, 102.0), (102.0, 101.0)])
    def test_the_last_one_counts(self, order):
        seen = self.seen(*map(self.look, order))
        assert (seen["servers"], seen["rested"]) == ([102.0], False)

    @pytest.mark.parametrize("order", [1, -1])
    def test_one_that_news_have_ended_tells_nothing_beside_another(self, order):
        looks = [self.look(101.0), {"ended": True, "began": 100.0, "watched": 103.0}][::order]
        assert self.seen(*looks)["servers"] == [101.0] and not self.seen(*looks).get("ended")

    def test_one_that_failed_counts_if_it_is_the_last(self):
        assert "servers" not in self.seen(self.look(101.0), {"reached": False, "error": "no socket", "began": 101.5, "at": 102.0})

    def test_nobody_looked(self):
        assert observations({"web0": {}}, {"hosts": {}, "balancers": {self.KEY: {"at": 90.0}}})["balancers"][self.KEY] == {"at": 90.0, "rested": True}


class TestEndedByNews:
    """A look that news of another host ended returned nothing."""

    @staticmethod
    def seen(former, **ended):
        item = {"turn": {"name": "web1", "options": {}}, "ended": True, **ended}
        known = {"web1": {"graceful_azure_turns": {"results": [item]}}}
        return observations(known, {"hosts": {"web1": former}, "balancers": {}})["hosts"]["web1"]

    def test_the_observation_before_it_stays(self):
        former = {"reached": True, "at": 100.0, "events": []}
        assert self.seen(former, began=101.0, watched=130.0) == dict(former, ended=True, watched=130.0, unwatched=1.0)

    def test_the_time_in_which_nobody_read_the_host_adds_up(self):
        once = self.seen({"reached": True, "at": 100.0}, began=120.0, watched=121.0)
        assert once["unwatched"] == 20.0
        assert self.seen(once, began=122.0, watched=123.0)["unwatched"] == 21.0


class TestTheLastActs:
    """A run that ends takes the steps that it has decided, and looks no more."""

    def last(self, **more):
        turn = {"name": "web0", "acts": [{"part": "sent"}], "settings": {}, "options": {"wait": 0.0}, "read_at": None}
        step = {"role": "approve_event", "state": "approved", "event_ids": ["E1"]}
        planned = {"preview": [], "events": [], "unread": {}, "told": [], "faults": []}
        last = dict(begin({"web0"}), hosts={"web0": {"step": step}}, number=1, once_more=True, finished=False, **planned, **more)
        return dict(last, **_last_turns({"web0": [turn]}, []))

    def close(self, act, **more):
        known = {"web0": {"graceful_azure_turns": {"results": [{"turn": {"name": "web0", "acts": []}, "acts": [dict(act, part="sent")]}]}}}
        return passed({}, known, self.last(**more))

    def test_they_are_done_without_a_look(self):
        assert [sorted(turn) for turn in self.last()["turns"]["web0"]] == [["acts", "name", "read_at", "settings"]]

    def test_a_host_whose_journal_does_not_have_its_last_state_is_looked_at_once_more(self):
        look = {"name": "web1", "options": {"wait": 60.0, "journal": {"STATE": "restored"}}}
        machine = {"name": "lb1", "machine": "lb1", "options": {}}
        turns = {"web0": [{"name": "web0", "acts": [{"part": "sent"}], "options": {}}], "web1": [look, machine], "web2": [dict(look, name="web2")]}
        last = _last_turns(turns, ["web0", "web1"])["turns"]
        assert last == {"web0": [{"name": "web0", "acts": [{"part": "sent"}]}], "web1": [dict(look, options=dict(look["options"], wait=0.0))], "web2": []}

    def test_that_ends_it(self):
        assert self.close({"approved": ["E1"]})["finished"] is True

    def test_what_failed_is_tried_again(self):
        result = self.close({"failed": True, "msg": "410"})
        assert result["finished"] is False and result["number"] == 1 and result["acted"]["web0"]["failure"]["message"] == "410"
        assert [sorted(turn) for turn in result["turns"]["web0"]] == [["name", "options", "read_at", "settings"]]
