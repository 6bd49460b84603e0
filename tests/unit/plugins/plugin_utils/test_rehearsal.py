# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a rehearsal may do, and its table."""

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import settings_of
from ansible_collections.graceful.azure.plugins.plugin_utils._run import rehearsal
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.events import RESERVE

from tests.support.checkout import ROOT

REAL = {"events": [], "resource_name": "vm-1", "document_incarnation": 7}
OPTIONS = {"rehearse_event_type": "Reboot", "rehearse_notice": 900.0}


def a_look(state="in", serves=True, held_by=(), why=(), problem=None, item="lb1", name="haproxy"):
    told = {"type": "haproxy", "name": name, "state": state, "serves": serves, "busy": [], "held_by": list(held_by), "why": list(why), "problem": problem}
    return {"item": item, "duties": [told]}


def times(out=1.0, drained=4.0, approved=5.0, back=9.0):
    return {"out": out, "drained": drained, "approved": approved, "back": back}


def a_host(problem="", differences=(), requests=12, **of_times):
    return {"real": REAL, "times": times(**of_times), "requests": requests, "problem": problem, "differences": list(differences)}


def lines(**hosts):
    return list(rehearsal.table(hosts, OPTIONS))


def test_the_options():
    assert rehearsal.read({}, {}) == (OPTIONS, [])
    assert rehearsal.read({"rehearse_event_type": "Preempt", "rehearse_notice": "30"}, {})[1] == []
    _options, mistakes = rehearsal.read({"rehearse_event_type": "Rebot", "rehearse_notice": 29}, {"graceful_azure_rules": []})
    assert [mistake.partition(":")[0] for mistake in mistakes] == ["rehearse_event_type", "rehearse_notice", "graceful_azure_rules"]


@pytest.mark.parametrize("notice", [30.0, 900.0])
@pytest.mark.parametrize("drain", [0.0, 120.0, 3600.0])
def test_the_minimum_in_service_counts_as_long_as_a_host_has_time(notice, drain):
    found = rehearsal.times_of(dict(OPTIONS, rehearse_notice=notice), drain, 300.0)
    assert found["timeout"] == min(notice, drain + rehearsal.WITHIN_DRAIN)
    # The event would force the host out only this long before its time.
    assert found["notice"] - drain - RESERVE > found["timeout"]
    assert found["end_after"] > found["timeout"] + found["back"]
    # What a killed rehearsal leaves ends soon, but never while a task file of the user's own takes all the time that the host has.
    assert found["end_unasked"] == found["timeout"] + 60 < found["end_after"]


def test_the_next_host_waits_until_the_balancer_must_have_noticed_the_one_before():
    hosts = {"web1": {"noticed_at": 1029.5}, "web2": {"noticed_at": 1090.2}, "web3": {"problem": "its metadata service is silent"}}
    seconds, lines_ = rehearsal.unnoticed("web4", hosts, 1060.0)
    assert seconds == pytest.approx(30.2) and lines_ == ["web4: waits 31 s, until the balancer must have noticed that web2 is back"]
    assert rehearsal.unnoticed("web4", hosts, 1091.0) == rehearsal.unnoticed("web1", {}, 1000.0) == (0.0, [])


def pool(names=("web1", "web2"), minimum=1, **passes):
    """What the check of the settings returned of hosts behind a health probe, and what their health answers tell."""
    entry = {"action": "file", "file": "/run/out", "url": "http://localhost/health"}
    settings, looks = {}, {}
    for name in names:
        balancer = dict(settings_of("health_probe", entry, name), ports=[80])
        settings[name] = {
            "resource_name": None, "rules": [], "min_in_service": minimum, "unknown_resources": "hold", "load_balancers": [balancer],
            "drain_host": {"ports": [80], "timeout": 60.0, "steps": []}, "restore_service": {"timeout": 60.0, "ask": {"url": "http://localhost/"}},
        }  # fmt: skip
        answer = {
            "action": "file", "on": "/run/out", "state": "passing", "told": "not there", "found": None, "held_by": [], "condition": "none",
            "failing_for": None, "noted": True, "restoring": False,
        }  # fmt: skip
        well = passes.get(name, True)
        looks[f"{name} health_probe-/run/out"] = {
            "reached": True, "machine": name, "at": 1000.0, "clock": 500.0, "answer": answer, "notice_left": None, "passing_for": 90.0, "connections": [],
            "new_connections": [], "quiet_for": 2.0, "closed_ago": 60.0, "idle": False, "holds": [],
            "probe": {"passes": well, "said": None if well else "status 503", "answered": True},
        }  # fmt: skip
    run = {"started": 1000.0, "timeout": 0.0, "wait": False, "watch": False}
    told = {name: {"resource_name": f"vm-{name}", "unanswered": None} for name in names}
    return {"settings": settings, "run": run, "told": told}, looks


@pytest.mark.parametrize("file", ["rehearse.yml", "tasks/rehearse_event.yml", "tasks/rehearse_back.yml"])
def test_the_time_of_a_look_is_the_one_that_its_message_names(file):
    """It says: set handle_events_observe_timeout."""
    tasks = (ROOT / "playbooks" / file).read_text().split("graceful.azure.check_settings:")[1:]
    assert tasks and all('observe_timeout: "{{ handle_events_observe_timeout | default(omit) }}"' in task.partition("register:")[0] for task in tasks)


class TestThePoolOfAProbe:
    """A run for one host sees none of the others, and its balancer tells nothing."""

    def test_all_of_it_is_looked_at(self):
        plan, _looks = pool()
        turns = rehearsal.pool_turns("web1", plan)
        assert [(turn["machine"], turn["module"]) for turn in turns if "module" in turn] == [(name, "health_probe_info") for name in ("web1", "web2")]
        # Nothing stays at a host whose turn is over, or still to come.
        assert [turn["machine"] for turn in turns if turn.get("farewell")] == ["web2"]
        plan, _looks = pool(["web1"])
        assert rehearsal.pool_turns("web1", plan) == []

    def test_a_host_is_only_rehearsed_if_enough_others_serve(self):
        plan, looks = pool()
        assert rehearsal.too_few("web1", plan, looks, 1000.0) == ""
        plan, looks = pool(web2=False)
        assert "1 of 2 in service in the pool" in rehearsal.too_few("web1", plan, looks, 1000.0)
        assert "status 503" in rehearsal.too_few("web1", plan, looks, 1000.0)
        plan, looks = pool(minimum=2)
        few = rehearsal.too_few("web1", plan, looks, 1000.0)
        assert few and "this can never be met" not in few

    def test_one_health_file_of_two_hosts(self):
        plan, looks = pool()
        for look in looks.values():
            look["file_id"] = "share"
        assert rehearsal.too_few("web1", plan, looks, 1000.0).startswith("web1 and web2 have the same health file (/run/out): ")

    def test_who_cannot_be_looked_at_does_not_count(self):
        plan, looks = pool()
        looks["web2 health_probe-/run/out"] = {"reached": False, "machine": "web2", "error": "no route to host"}
        assert "no route to host" in rehearsal.too_few("web1", plan, looks, 1000.0)
        plan, looks = pool()
        plan["told"]["web2"]["unanswered"] = "status 500"
        assert "web2: status 500" in rehearsal.too_few("web1", plan, looks, 1000.0)
        plan, looks = pool()
        plan["told"]["web2"].update(reached=False, error="connection refused")
        assert "web2: connection refused" in rehearsal.too_few("web1", plan, looks, 1000.0)


class TestWhoComesBack:
    """A rehearsal right after an event begins once the balancer must have noticed that the others are back."""

    def joining(self, minimum=1, **passing_for):
        plan, looks = pool(["web1", "web2", "web3"], minimum)
        for name, seconds in passing_for.items():
            looks[f"{name} health_probe-/run/out"]["passing_for"] = seconds
        return rehearsal.too_few("web1", plan, looks, 1000.0), rehearsal.coming_back("web1", plan, looks, 1000.0)

    def test_they_are_waited_for_and_the_line_says_whom_and_until_when(self):
        short, (seconds, (line,)) = self.joining(2, web2=10.0)
        assert "the balancer notices within 2 s that it passes" in short and seconds == pytest.approx(2.0)
        assert line.startswith("web1: waits until ") and line.endswith(", when the balancer must have noticed that web2 is back")
        _short, (seconds, (line,)) = self.joining(2, web2=10.0, web3=4.0)
        assert seconds == pytest.approx(8.0) and line.endswith("that web2, web3 are back")

    def test_nobody_is_waited_for_if_that_does_not_help(self):
        plan, looks = pool(["web1", "web2", "web3"], 2, web3=False)
        looks["web2 health_probe-/run/out"]["passing_for"] = 10.0
        assert rehearsal.too_few("web1", plan, looks, 1000.0) and rehearsal.coming_back("web1", plan, looks, 1000.0) == (0.0, [])
        plan, looks = pool(web2=False)
        assert rehearsal.coming_back("web1", plan, looks, 1000.0) == (0.0, [])

    def test_they_are_looked_at_again_and_the_wait_has_an_end(self):
        plan, looks = pool()
        begun, other = {**plan, "real": REAL, "begins": True}, looks["web2 health_probe-/run/out"]
        other["passing_for"] = 10.0
        found, seconds, lines_ = rehearsal.begin_in_pool("web1", begun, looks, 1000.0)
        assert (found["begins"], found["again"]) == (False, True) and seconds == pytest.approx(2.0) and len(lines_) == 1
        # It failed once more meanwhile.
        assert rehearsal.begin_in_pool("web1", found, looks, 1030.0)[0]["again"]
        late, seconds, _lines = rehearsal.begin_in_pool("web1", found, looks, 1031.0)
        assert not late["begins"] and "again" not in late and seconds == 0.0
        assert late["rehearsed"]["problem"].startswith("not begun: it is too early to count the pool")
        assert late["rehearsed"]["problem"].endswith("; run it again when enough others are in service")
        other["passing_for"] = 12.0
        found, seconds, _lines = rehearsal.begin_in_pool("web1", found, looks, 1002.0)
        assert (found["begins"], found["again"], seconds) == (True, False, 0.0)

    def test_who_waits_for_the_minimum_until_the_end_is_told_what_to_do(self):
        decision = {"state": "waiting", "reason": "1 of 2 in service in www on lb1, 1 must stay"}
        said = "not approved within 3 min: 1 of 2 in service in www on lb1, 1 must stay; run it again when that is over"
        assert rehearsal.not_approved(decision, times(approved=None), 180.0) == said
        assert rehearsal.not_approved(decision, times(), 180.0) == ""
        assert rehearsal.not_approved({"state": "draining", "reason": "1 session"}, times(approved=None), 180.0).endswith(": 1 session")


class TestThePoolWhileAHostIsOut:
    """Its event is made up. So it goes back if the others do not serve as they had to before."""

    def a_pass(self, state="draining", step=None, events=("E",), at=1000.0, rested=False, **passes):
        plan, looks = pool(**passes)
        own = looks["web1 health_probe-/run/out"]
        own["answer"].update(state="failing", condition="held", held_by=["E"], failing_for=30.0)
        own.update(passing_for=None, notice_left=0.0)
        looks["web2 health_probe-/run/out"].update(at=at, rested=rested)
        decision = {"state": state, "events": list(events), "step": step, "reason": "1 connection"}
        mine = {"name": "look at web1", "options": {}, "acts": ["an act"]}
        result = {"finished": False, "hosts": {"web1": decision}, "seen": {"hosts": {}, "balancers": looks}, "turns": {"web1": [mine]}, "files": {}}
        begun = {**plan, "turns": {"web1": rehearsal.pool_turns("web1", plan)}}
        return result, begun

    def machines(self, result):
        return [turn.get("machine") for turn in result["turns"]["web1"]]

    @pytest.mark.parametrize("state", ["draining", "ready"])
    def test_it_goes_back_if_another_one_fails(self, state):
        result, begun = self.a_pass(state, {"role": "approve_event"}, web2=False)
        ended, (line,) = rehearsal.watched("web1", result, begun, 1001.0)
        assert ended["finished"] and ended["turns"] == {"web1": []} and ended["hosts"]["web1"]["step"] is None
        assert line.startswith("web1: goes back on duty now: 0 of 2 in service in the pool") and "web2: status 503" in line
        assert ended["broken_off"].startswith("put back before its approval: 0 of 2 in service")
        assert ended["broken_off"].endswith("; run it again when enough others are in service")

    @pytest.mark.parametrize(("state", "events"), [("waiting", ["E"]), ("approved", ["E"]), ("restoring", []), ("draining", [])])
    def test_before_and_after_that_the_passes_go_on(self, state, events):
        """It is not out, or it goes back already."""
        result, begun = self.a_pass(state, events=events, web2=False)
        assert rehearsal.watched("web1", result, begun, 1001.0) == (result, [])

    def test_the_others_are_looked_at_again_and_again(self):
        result, begun = self.a_pass()
        assert self.machines(rehearsal.watched("web1", result, begun, 1001.0)[0]) == [None]
        assert self.machines(rehearsal.watched("web1", result, begun, 1000.0 + rehearsal.POOL_EVERY)[0]) == [None, "web2"]

    def test_nobody_is_taken_for_failed_before_the_first_look(self):
        result, begun = self.a_pass()
        del result["seen"]["balancers"]["web2 health_probe-/run/out"]
        found, lines = rehearsal.watched("web1", result, begun, 1001.0)
        assert not found["finished"] and lines == [] and self.machines(found) == [None, "web2"]

    def test_nothing_is_approved_before_the_others_were_looked_at_in_the_same_pass(self):
        step = {"role": "approve_event"}
        result, begun = self.a_pass("ready", step, rested=True)
        found, _lines = rehearsal.watched("web1", result, begun, 1001.0)
        assert self.machines(found) == [None, "web2"] and not any("acts" in turn for turn in found["turns"]["web1"])
        result, begun = self.a_pass("ready", step)
        assert rehearsal.watched("web1", result, begun, 1001.0)[0]["turns"] == result["turns"]


def test_the_table_of_hosts_that_are_as_they_were_found():
    assert lines(web1=a_host(), web12=a_host(requests=None, out=None, back=None)) == [
        "Reboot rehearsed. Seconds after its announcement:",
        "host   out  drained  approved  back  requests to its backends  notices that are too short",
        "web1   1.0  4.0      5.0       9.0   12                        none",
        "web12  -    4.0      5.0       -     -                         none",
        "web1: its metadata service answers (version 2020-07-01, this VM is vm-1, document 7), no event stands",
        "web12: its metadata service answers (version 2020-07-01, this VM is vm-1, document 7), no event stands",
        "Everything is as it was found.",
    ]


def test_what_nobody_tells_is_no_column():
    """Only HAProxy counts requests."""
    assert lines(web1=a_host(requests=None))[1:3] == [
        "host  out  drained  approved  back  notices that are too short",
        "web1  1.0  4.0      5.0       9.0   none",
    ]


@pytest.mark.parametrize(
    ("drained", "late"), [(30.0, "none"), (30.1, "30 s"), (600.1, "30 s, 10 min"), (900.1, "30 s, 10 min, 15 min"), (None, "all: it was not drained")]
)
def test_what_would_be_too_late(drained, late):
    assert lines(web1=a_host(drained=drained))[2].endswith(f"12                        {late}")


def test_the_table_tells_what_was_wrong():
    told = lines(
        web1=a_host(problem="not approved within 3 min: 1 session at www/web1", differences=["haproxy on lb1: found in, now out"], approved=None),
        web2={"real": {"failed": True, "msg": "no route"}, "problem": "it is held for E"},
    )
    assert [line for line in told if line.startswith("web2  ")] == []
    assert told[-4:] == [
        "web2: its metadata service could not be read: no route",
        "web1: not approved within 3 min: 1 session at www/web1",
        "web1: not as found: haproxy on lb1: found in, now out",
        "web2: it is held for E",
    ]


def test_differences():
    assert list(rehearsal.differences([a_look()], [a_look()])) == []
    assert list(rehearsal.differences([a_look("out", False)], [a_look("out", False)])) == []
    found = list(rehearsal.differences([a_look()], [a_look("out", False, held_by=["E"], why=["somebody set it to drain"])]))
    assert found == ["haproxy on lb1: found in, serving, now out, not serving", "haproxy on lb1: still held", "haproxy on lb1: somebody set it to drain"]
    assert list(rehearsal.differences([a_look()], [{"item": "lb1", "msg": "no route"}])) == ["haproxy on lb1: could not be looked at afterwards"]


def test_a_host_that_is_back_is_told_of_though_no_pass_saw_it():
    assert list(rehearsal.unseen_return("web1", "in_service", a_host())) == ["web1: back on duty. Its time was over before a pass could say so"]
    assert list(rehearsal.unseen_return("web1", "restored", a_host())) == []
    assert list(rehearsal.unseen_return("web1", "in_service", a_host(back=None))) == []
    assert list(rehearsal.unseen_return("web1", "in_service", a_host(differences=["haproxy on lb1: found in, now out"]))) == []


def test_what_keeps_a_host_from_being_rehearsed():
    event = {"event_type": "Freeze", "event_id": "E", "resources": ["vm-1", "vm-2"]}
    assert rehearsal.standing({"events": [event]}) == "its metadata service shows Freeze E (vm-1, vm-2): rehearse when no event stands"
    assert rehearsal.standing(REAL) == rehearsal.standing({"failed": True, "msg": "no route"}) == ""
    assert (
        rehearsal.unreached({"unreachable": True, "msg": "no route"}).startswith("it cannot be reached: no route; run it again when")
        and rehearsal.unreached(REAL) == ""
    )
    assert "held for E" in rehearsal.held([a_look("out", held_by=["E"])]) and rehearsal.held([a_look()]) == ""
    assert rehearsal.unproven([a_look(problem="no folder")]) == "haproxy on lb1: no folder"
    assert rehearsal.unproven([a_look(), a_look("out", problem="no folder")]) == ""
    assert "http://localhost:81/health: Connection refused" in rehearsal.unanswered(
        {"answered": False, "reason": "http://localhost:81/health: Connection refused"}
    )
    assert rehearsal.unanswered({"answered": True, "reason": None}) == rehearsal.unanswered({"skipped": True}) == ""
    assert (
        rehearsal.unread([a_look(), {"item": "lb2", "msg": "no route"}])
        == "its duties could not be looked at (lb2: no route): run it again when these machines answer"
    )


PROBE = {"action": "file", "file": "/run/out"}


@pytest.mark.parametrize(
    ("minimum", "duties", "told"),
    [
        (1, [("haproxy", {"hosts": ["lb1"]}), ("haproxy", {"hosts": ["lb2"]})], "1 of each backend"),
        ("50%", [("nginx", {"hosts": ["lb1"]})], "50% of each upstream"),
        (2, [("azure_load_balancer", {"pool": "/subscriptions/S/www"})], "2 of the pool www"),
        (1, [("health_probe", dict(PROBE, pool="shop"))], "1 of the pool shop"),
        (1, [("health_probe", PROBE), ("nginx", {"hosts": ["lb1"]})], "1 of those that share its requests and each upstream"),
        (0, [("nginx", {"hosts": ["lb1"]})], None),
        (1, [], None),
    ],
)
def test_check_mode_names_the_minimum_in_service_as_each_type_calls_it(minimum, duties, told):
    """As a rule: it read like something that was found wrong, and behind a probe there are no backends."""
    settings = {"min_in_service": minimum, "load_balancers": [settings_of(kind, options, "web1") for kind, options in duties]}
    _event, *said = rehearsal.preview_lines("web1", [], {"rehearse_event_type": "Reboot"}, settings)
    assert said == ([f"web1: it goes out only if {told} would stay in service (graceful_azure_min_in_service)"] if told else [])


def test_who_interrupts_a_rehearsal_has_been_told_what_to_type():
    told = "web1: goes out of duty now. If you interrupt this rehearsal, have graceful.azure.handle_events -e target='web:!web9' give it back"
    assert rehearsal.if_interrupted("web1", "web:!web9") == told


def test_requests_are_told_only_by_a_process_that_counted_all_the_time():
    def look(total, pid=1):
        return {"lb1": {"reached": True, "process": {"pid": pid}, "servers": [{"total_sessions": total}, {"total_sessions": 5}]}}

    before = rehearsal.counted(look(10))
    assert rehearsal.requests(before, rehearsal.counted(look(17))) == 7
    assert rehearsal.requests(before, rehearsal.counted(look(17, pid=2))) is None
    assert rehearsal.requests(before, {}) is None
    assert rehearsal.requests(rehearsal.counted({"lb1": {"reached": True}}), {}) is None


def test_when_a_host_came_to_what():
    states = [{"state": state, "from": at, "until": None, "event_id": "E"} for state, at in (("draining", 101.0), ("ready", 104.0), ("approved", 106.0))]
    story = {"hosts": {"web1": {"out": [{"from": 102.0, "until": 110.0}], "states": states}}, "events": {"E": {"approved": 105.0}}}
    assert rehearsal.reached("web1", story, 100.0) == {"out": 2.0, "drained": 4.0, "approved": 5.0, "back": 10.0}
    story["events"]["E"]["approved"] = None
    story["hosts"]["web1"]["states"] = states[:1]
    assert rehearsal.reached("web1", story, 100.0) == {"out": 2.0, "drained": None, "approved": None, "back": None}
