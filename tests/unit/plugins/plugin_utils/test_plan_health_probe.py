# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan for hosts behind a health probe: what it does until the balancer must have noticed, and while a host is silent."""

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._duties import health_probe
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import settings_of
from ansible_collections.graceful.azure.plugins.plugin_utils._run.passes import line_of
from ansible_collections.graceful.azure.plugins.plugin_utils._run.sinks import Lines, PassResult
from ansible_collections.graceful.azure.plugins.plugin_utils._story import story

from tests.support.model import Model
from tests.support.steps import steps_of

ENTRY = {"action": "file", "file": "/run/out", "url": "http://localhost/health"}
NOTICE = 12.0


class Probed(Model):
    """The model with a health answer on each host instead of HAProxy."""

    def __init__(self, entries=None, **settings):
        """C(entries): per host, what its duty has instead."""
        super().__init__(balancers=(), **settings)
        for name in self.names:
            mine = dict(settings_of("health_probe", {**ENTRY, **(entries or {}).get(name, {})}, name), quiet=1.0, ports=[80])
            self.settings[name]["load_balancers"] = [mine]
        self.unanswered = {}
        self.unread = set()
        self.file_ids = {}
        self.answers = {
            name: {
                "fails_since": None,
                "events": {},
                "boot": 1,
                "noted": 1,
                "cut_off": False,
                "url_passes": None,
                "disk": True,
                "back_at": 0.0,
                "url_answers": True,
                "found": None,
            }
            for name in self.names
        }

    def _condition(self, mine):
        if not mine["events"]:
            return "none" if mine["fails_since"] is None else "already_out"
        if mine["fails_since"] is not None:
            return "held"
        return "lost" if mine["boot"] != mine["noted"] else "changed_meanwhile"

    @staticmethod
    def _passes(mine):
        return mine["url_answers"] and (mine["fails_since"] is None if mine["url_passes"] is None else mine["url_passes"])

    def observe_host(self, name):
        seen = super().observe_host(name)
        mine = self.answers[name]
        turn = self.turn(name)
        if turn and turn["options"].get("ask", {}).get("url"):
            seen["unanswered"] = self.unanswered.get(name)
        if mine["events"] and mine["disk"] and seen.get("holds") is not None:
            seen["holds"].append(self._record(mine))
        return seen

    @staticmethod
    def _record(mine):
        return {"kind": "health_probe", "subject": {"action": "file", "on": "/run/out"}, "found": {}, "left": {}, "events": mine["events"]}

    def out(self):
        return {name for name in self.names if self.answers[name]["fails_since"] is not None}

    def look_at(self, name):
        if self.hosts[name]["silent"]:
            return {"reached": False, "error": "timed out", "machine": name, "began": self.now}
        if name in self.unread:
            return {"reached": True, "error": "the look failed", "machine": name, "began": self.now, "at": self.now, "answer": None}
        mine = self.answers[name]
        fails = mine["fails_since"] is not None
        condition = self._condition(mine)
        elapsed = 0.0 if mine["cut_off"] else self.now - mine["fails_since"] if fails else None
        answer = {
            "action": "file", "on": "/run/out", "state": "failing" if fails else "passing", "told": "/run/out is there", "found": mine["found"],
            "held_by": list(mine["events"]), "condition": condition, "failing_for": elapsed,
            "noted": not mine["events"] or mine["boot"] == mine["noted"] and not mine["cut_off"], "restoring": False,
        }  # fmt: skip
        left = max(0.0, self.balancer_of(name)["notice"] - elapsed) if fails else None
        passes = self._passes(mine)
        said = "status 500" if mine["url_answers"] else "http://localhost/health: Connection refused"
        probe = {"passes": passes, "said": None if passes else said, "answered": mine["url_answers"]}
        holds = [] if mine["disk"] else [dict(self._record(mine), from_mark=True)]
        return {
            "reached": True, "machine": name, "clock": self.now, "time": self._clock(name), "began": self.now, "at": self.now, "answer": answer,
            "notice_left": left, "passing_for": None if fails else self.now - mine["back_at"],
            "file_id": self.file_ids.get(name), "probe": probe, "connections": [], "new_connections": [], "quiet_for": 2.0,
            "closed_ago": 60.0, "idle": False, "holds": holds, "problem": None, "state_dir_problem": None,
        }  # fmt: skip

    def world(self):
        files = {name: self.balancer_of(name)["on"] for name in self.names}
        return dict(super().world(), balancers={f"{name} health_probe-{file}": self.look_at(name) for name, file in files.items()})

    def _load_balancer(self, name, step):
        mine = self.answers[name]
        condition = self._condition(mine)
        passes = self._passes(mine)
        if condition in ("none", "lost"):
            mine.update(fails_since=self.now, noted=mine["boot"])
        mine["cut_off"] = False
        if condition != "already_out":
            found = mine["found"] if mine["events"] else None
            told = any(details.get("passed") for details in step["event_details"].values())
            mine["found"] = {"state": "passing", "passed": passes or told or bool(found and found["passed"])}
            mine["events"] = dict(self._entries(step, name), **mine["events"])

    def _give_back(self, name, step):
        mine = self.answers[name]
        left = {event_id: entry for event_id, entry in mine["events"].items() if event_id not in step["event_ids"]}
        if mine["events"] and not left:
            mine.update(fails_since=None, back_at=self.now)
        mine["events"] = left

    def said(self, name):
        return self.outcome["hosts"][name]["state"], self.outcome["hosts"][name]["reason"]


def test_the_time_to_drain_is_told_once_it_has_begun():
    """It begins when the balancer must have noticed. Before that, each pass would tell a later one."""
    site = Probed()
    site.announce("e1", "web1")
    site.until(lambda _outcome: site.answers["web1"]["events"])
    told = []
    site.answers["web1"]["url_passes"] = True
    told += [site.go()["hosts"]["web1"]["until"] for _pass in range(4)]
    assert site.said("web1")[0] == "draining" and set(told) == {None}
    site.until(lambda outcome: outcome["hosts"]["web1"]["state"] == "needs_person", passes=20)
    site.answers["web1"]["url_passes"] = None
    site.hosts["web1"]["connections"] = [{"port": 80, "peer": "10.0.0.77", "count": 1}]
    told = [site.go()["hosts"]["web1"] for _pass in range(2)]
    assert {each["until_is"] for each in told} == {"drain until"} and len({each["until"] for each in told}) == 1 and told[0]["until"] > site.now


def test_a_host_whose_answer_still_passes_is_not_out_in_a_report():
    """Nor in the table of a rehearsal: requests still come."""
    site = Probed()
    so_far = story.begin(site.run, site.names)

    def out(passes):
        for _pass in range(passes):
            at = site.now
            story.add(so_far, line_of({"now": at, "pass": site.number}, site.go()), site.memory)
        return so_far["hosts"]["web1"]["out"]

    site.announce("e1", "web1")
    site.answers["web1"]["url_passes"] = True
    assert out(20) == [] and site.answers["web1"]["events"]
    passes_no_more = site.now
    site.answers["web1"]["url_passes"] = None
    (span,) = out(2)
    assert passes_no_more - site.pass_seconds <= span["from"] <= site.now


def test_it_is_not_approved_before_the_balancer_must_have_noticed():
    site = Probed()
    site.announce("e1", "web1")
    site.until(lambda _outcome: site.answers["web1"]["events"])
    since = site.answers["web1"]["fails_since"]
    site.go()
    assert site.said("web1") == ("draining", "the balancer notices within 10 s")
    site.until(lambda _outcome: site.posted, passes=20)
    assert site.now - site.pass_seconds - since >= NOTICE


def test_the_whole_life_with_a_silent_impact():
    site = Probed()
    site.announce("e1", "web1")
    site.until(lambda _outcome: site.posted, passes=20)
    site.start("e1")
    site.go()
    assert site.said("web1")[0] == "started"
    site.hosts["web1"]["silent"] = True
    for _pass in range(30):
        outcome = site.go()
        assert site.said("web1")[0] in ("started", "unobserved") and not outcome["finished"], outcome["hosts"]
    assert not any(at > site.now - 50 and name == "web1" for at, name, _role, _events in site.steps), "nothing is tried at a silent host"
    site.hosts["web1"]["silent"] = False
    # The file was on a disk that the reboot emptied.
    site.answers["web1"].update(fails_since=None, boot=2)
    site.go()
    assert site.answers["web1"]["fails_since"] is not None, "it goes out again"
    site.over("e1")
    outcome = site.finish()
    assert not outcome["failed_run"], outcome["messages"]
    assert site.answers["web1"]["fails_since"] is None and outcome["events"][0]["outcome"] == "completed"


WRONG = (
    "http://localhost/health still passes although /run/out is there: it is not what the answer depends on (action and what belongs to it), or url is not"
    " what the probe asks"
)


@pytest.mark.parametrize("is_theirs", [False, True])
def test_an_answer_that_still_passes_is_said_at_once_and_needs_a_person(is_theirs):
    """Who is out by somebody else's file is no better off. Clients that go on coming are no news."""
    site = Probed()
    look, shown = site.look_at, []
    site.look_at = lambda name: dict(look(name), new_connections=[{"port": 80, "count": site.number % 3, "peer": "10.0.0.9"}] * bool(site.number % 3))
    site.answers["web1"]["url_passes"] = True
    if is_theirs:
        site.answers["web1"]["fails_since"] = site.now
    site.announce("e1", "web1")
    site.go()
    states = []
    lines = Lines(lambda line, _color: shown.append(line))
    for _pass in range(30):
        at, before = site.now, site.outcome
        outcome = site.go()
        lines.tell(PassResult(site.run, outcome, {"time": at}, before, {}))
        states.append(site.said("web1"))
    (state, reason), decision = states[-1], outcome["hosts"]["web1"]
    assert site.posted == [] and (state, reason) == ("needs_person", WRONG) and not decision["tried_again"]
    assert (decision["until_is"], decision["until"]) == ("Azure may start it from", site.events["e1"]["not_before_at"])
    before = [reason for state, reason in states if state != "needs_person"]
    assert all(reason.startswith(WRONG + "; the balancer notices within") for reason in before) and bool(before) is not is_theirs
    assert len([line for line in shown if "web1" in line]) <= 3, shown
    # The cause is mended.
    site.answers["web1"]["url_passes"] = None
    site.look_at = look
    site.until(lambda _outcome: site.posted, passes=20)


UNANSWERED = "http://localhost/health: Connection refused"


def _nobody_answers(site, *names):
    for name in names:
        site.answers[name]["url_answers"] = False


@pytest.mark.parametrize(("answers", "said"), [({"url_answers": False}, UNANSWERED), ({"url_passes": False}, "status 500")])
def test_a_url_that_has_not_passed_proves_nothing(answers, said):
    site = Probed()
    site.answers["web1"].update(answers)
    site.announce("e1", "web1")
    (warning,) = site.go()["warnings"]
    assert warning.startswith(f"web1: {said}, ") and "set url of health_probe to what the balancer asks" in warning
    for _pass in range(30):
        assert site.go()["warnings"] == []
    state, reason = site.said("web1")
    assert site.posted == [] and state == "draining" and f"{said}: it was not seen to pass before" in reason
    # An application that was slow to start answers 503 at once, as a wrong path would.
    site.answers["web1"].update(url_answers=True)
    for _pass in range(20):
        site.go()
    assert site.posted == []
    # It was started before it looks at the file for the first time.
    site.answers["web1"].update(url_passes=True)
    site.until(lambda _outcome: site.answers["web1"]["found"]["passed"])
    site.answers["web1"].update(url_passes=None)
    site.until(lambda _outcome: site.posted, passes=20)


@pytest.mark.parametrize("killed", [False, True])
def test_what_is_handed_over_before_the_balancers_may_make_the_answer_fail(killed):
    """A node of RabbitMQ takes no connections in maintenance mode, and a member of Patroni that does not lead answers 503."""
    entries = {"type": "rabbitmq", "name": "mq"}, {"type": "health_probe", **ENTRY}
    site = Probed(drain_host={"steps": steps_of(*entries)})
    site.announce("e1", "web1")
    site.until(lambda _outcome: "cluster rabbitmq mq" in site.hosts["web1"]["tasks"], passes=5)
    site.answers["web1"]["url_passes"] = False
    if killed:
        site.killed()
    site.until(lambda outcome: outcome["warnings"] or site.posted, passes=20)
    assert site.posted and site.answers["web1"]["found"]["passed"]


def test_who_answered_before_the_hold_may_fall_silent():
    """A unit that answered the probe was stopped, or the application with the services of the host."""
    site = Probed()
    site.announce("e1", "web1")
    site.until(lambda _outcome: site.answers["web1"]["events"])
    _nobody_answers(site, "web1")
    site.until(lambda _outcome: site.posted, passes=20)


@pytest.mark.parametrize(("options", "is_approved"), [({"action": "service", "service": "probe"}, True), ({}, False)])
def test_what_an_operator_has_stopped_answers_nobody(options, is_approved):
    site = Probed(entries={"web1": options})
    site.answers["web1"]["fails_since"] = site.now - 100
    if options:
        look = site.look_at
        site.look_at = lambda name: dict(look(name), answer=dict(look(name)["answer"], action="service"))
    _nobody_answers(site, "web1")
    site.announce("e1", "web1")
    for _pass in range(20):
        site.go()
    assert bool(site.posted) is is_approved
    if not is_approved:
        # While it boots, too. Nobody could have seen it pass.
        told = f"{UNANSWERED}: somebody else has taken it out, and nobody answers there, so nothing tells that the probe fails now; start what"
        assert told in site.said("web1")[1] and "was not seen to pass" not in site.said("web1")[1]


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"url_answers": False}, f"web1: {UNANSWERED}, although nothing makes it fail: until it has passed, the host never counts as out, and is not approved"),
        ({"url_passes": False}, "web1: status 500, although nothing makes it fail"),
    ],
)
@pytest.mark.parametrize("events", [(), ("e1",)])
def test_check_mode_says_that_the_url_does_not_pass(answers, said, events):
    site = Probed()
    site.run.update(check=True, wait=False)
    site.answers["web1"].update(answers)
    for event in events:
        site.announce(event, "web1")
    outcome = site.go()
    assert outcome["failed_run"] and [message for message in outcome["messages"] if message.startswith(said)], outcome["messages"]
    assert outcome["warnings"] == []


@pytest.mark.parametrize(("answers", "said"), [({"url_answers": False}, UNANSWERED), ({"url_passes": False}, "status 500")])
def test_hosts_whose_url_does_not_pass_are_kept_by_the_minimum(answers, said):
    """The settings may be wrong, and the balancer may send requests to all of them."""
    site = Probed()
    for name in site.names:
        site.answers[name].update(answers)
    site.announce("e1", *site.names)
    for _pass in range(20):
        site.go()
    assert site.out() == set() and site.said("web1")[0] == "waiting" and said in site.said("web1")[1]


def test_hosts_with_one_health_file_are_not_touched():
    """On a share, the file of one host would take all of them out."""
    site = Probed()
    site.file_ids = dict.fromkeys(site.names, "share")
    site.announce("e1", "web1")
    for _pass in range(5):
        site.go()
    state, reason = site.said("web1")
    assert site.out() == set() and state == "needs_person" and "have the same health file (/run/out): they are one machine, or share it" in reason
    site.file_ids = {name: name for name in site.names}
    site.until(lambda _outcome: site.posted, passes=20)
    # An older version has taken one out.
    site.file_ids = dict.fromkeys(site.names, "share")
    site.start("e1")
    site.over("e1")
    site.finish()
    assert site.out() == set() and site.answers["web1"]["events"] == {}


def test_a_host_looks_at_its_own_health_answer():
    """Not another one for it: Ansible would show that as web1 -> web2."""
    site = Probed()
    turns = site.go()["turns"]
    assert {name: [turn["name"] for turn in turns[name]] for name in site.names} == {
        name: [f"look at the health answer of {name}", f"look at {name}"] for name in site.names
    }


def test_somebody_lets_it_pass_again():
    site = Probed()
    site.announce("e1", "web1")
    site.until(lambda _outcome: site.answers["web1"]["events"])
    site.answers["web1"]["fails_since"] = None
    for _pass in range(20):
        site.go()
    state, reason = site.said("web1")
    assert state == "needs_person" and reason.startswith("somebody else let the health answer (/run/out) pass again: left as it is. ") and site.posted == []
    # A file that somebody makes would stay after the event.
    assert "graceful.azure.holds -e target=web1 -e holds_release=true" in reason and "Set it back" not in reason


def test_a_file_of_somebody_elses_that_stands_at_the_end_needs_a_person():
    site = Probed()
    site.announce("e1", "web1")
    site.until(lambda _outcome: site.posted, passes=20)
    site.start("e1")
    site.over("e1")
    site.until(lambda _outcome: not site.answers["web1"]["events"], passes=20)
    site.answers["web1"]["fails_since"] = site.now
    said = "/run/out was written by somebody else while it was held: it was not removed"
    site.results["web1"]["restore_service"].update(conflicts=[said])
    outcome = site.finish()
    state, reason = site.said("web1")
    assert outcome["failed_run"] and state == "needs_person" and reason.startswith(f"{said}; still out: the health answer (/run/out) fails")


def test_a_wrong_file_is_named_as_such_also_while_it_is_put_back():
    """It made nothing fail, as after a rehearsal with a wrong path."""
    site = Probed()
    site.answers["web1"]["url_passes"] = True
    site.announce("e1", "web1")
    site.until(lambda _outcome: site.answers["web1"]["events"])
    site.go()
    wrong = "still passes although /run/out is there: it is not what the answer depends on (action and what belongs to it), or url is not what the probe asks"
    assert site.said("web1")[0] == "draining" and wrong in site.said("web1")[1]
    site.over("e1")
    site.until(lambda outcome: outcome["hosts"]["web1"]["state"] == "restoring", passes=20)
    state, reason = site.said("web1")
    assert reason.startswith("the health answer (/run/out) is still to be put back; http") and wrong in reason


def test_a_health_answer_that_is_held_is_said_to_be_put_back():
    """Nobody says of an answer that it goes in. And that it still fails is no fault: it is being put back."""
    site = Probed()
    site.announce("e1", "web1")
    site.until(lambda _outcome: site.posted, passes=20)
    site.start("e1")
    site.over("e1")
    outcome = site.until(lambda outcome: outcome["hosts"]["web1"]["state"] == "restoring", passes=20)
    assert site.said("web1") == ("restoring", "the health answer (/run/out) is being put back")
    names = [turn["name"] for turn in outcome["turns"]["web1"] if "acts" in turn]
    assert names == ["put web1 back on duty (health answer)", "update the records on web1"]


@pytest.mark.parametrize("events", [(), ("e1",)])
def test_check_mode_tells_a_file_that_says_out_while_the_url_passes(events):
    """As with a wrong path and file_means: in."""
    site = Probed()
    site.run.update(check=True, wait=False)
    site.answers["web1"].update(fails_since=site.now, url_passes=True)
    for event in events:
        site.announce(event, "web1")
    outcome = site.go()
    assert outcome["failed_run"] and outcome["messages"] == [f"web1: {WRONG}"]
    state, reason = site.said("web1")
    looked_at = "the health answer (/run/out): /run/out is there, but http://localhost/health passes"
    assert (state, reason) == (("needs_person", WRONG) if events else ("in_service", f"{looked_at}; no event names it"))
    assert outcome["hosts"]["web1"]["shown"] == state


def test_where_only_the_file_was_looked_at_nobody_says_that_the_answer_fails():
    site = Probed(entries={"web1": {"url": None}})
    look = site.look_at
    site.look_at = lambda name: dict(look(name), probe=None)
    site.answers["web1"]["fails_since"] = site.now
    site.go()
    said = "nothing of ours keeps it out, but an operator's maintenance does (the health answer (/run/out): /run/out is there); no event names it"
    assert site.said("web1") == ("in_service", said)


def test_who_does_not_answer_after_the_impact_probably_boots():
    site = Probed()
    site.answers["web1"]["fails_since"] = site.now - 100
    _nobody_answers(site, "web1")
    site.announce("e1", "web1")
    site.go()
    assert "somebody else has taken it out, and nobody answers there" in site.said("web1")[1]
    site.start("e1")
    site.go()
    assert site.said("web1") == ("started", f"{UNANSWERED}: it probably still boots")


def test_an_operators_maintenance_is_left_alone():
    site = Probed()
    site.answers["web1"]["fails_since"] = site.now - 100
    site.announce("e1", "web1")
    site.until(lambda _outcome: site.posted, passes=20)
    site.start("e1")
    site.over("e1")
    assert not site.finish()["failed_run"] and site.answers["web1"]["fails_since"] is not None and not site.answers["web1"]["events"]


def test_a_host_in_an_operators_maintenance_is_asked_once():
    """It may as well not answer, and where its new connections are counted, each question would be one of them."""
    site = Probed(**ASK)
    site.answers["web1"]["fails_since"] = site.now - 100
    site.hosts["web1"]["connections"] = [{"port": 80, "peer": "10.0.0.77", "count": 1}]
    site.announce("e1", "web1")
    outcomes = [site.go() for _pass in range(8)]
    asks = [bool(turn["options"]["ask"]) for outcome in outcomes for turn in outcome["turns"]["web1"] if "ask" in turn.get("options", ())]
    assert len(asks) == 8 and not any(asks[2:])


def test_an_operators_maintenance_of_a_moment_ago_must_be_noticed_too():
    site = Probed()
    site.answers["web1"]["fails_since"] = since = site.now
    site.announce("e1", "web1")
    site.until(lambda _outcome: site.posted, passes=20)
    assert site.now - site.pass_seconds - since >= NOTICE


def test_a_duty_that_is_removed_while_the_answer_fails_needs_a_person():
    """The record of the health answer stays on the host."""
    site = Probed()
    site.announce("e1", "web1")
    site.until(lambda _outcome: site.posted, passes=20)
    site.killed()
    site.settings["web1"]["load_balancers"] = [dict(site.balancer_of("web1"), provider="none", hosts=[])]
    site._give_back = lambda name, step: None
    site.over("e1")
    outcome = site.finish()
    assert outcome["failed_run"] and "its health answer: it was taken out there" in outcome["messages"][0]


def _forgets_since_when(site, name="web1"):
    """An operator has stopped a probe unit that is not enabled, or a service or site of a Windows host: no look knows more than itself."""
    site.answers[name]["fails_since"] = site.now - 100
    look = site.look_at

    def looks(of):
        seen = look(of)
        if of != name or seen.get("answer", {}).get("condition") != "already_out":
            return seen
        return dict(seen, answer=dict(seen["answer"], failing_for=0.0), notice_left=NOTICE)

    site.look_at = looks


def test_what_nobody_knows_since_when_is_noticed_after_the_first_look():
    """Each look would begin anew."""
    site = Probed()
    _forgets_since_when(site)
    site.announce("e1", "web1")
    site.go()
    assert "the balancer notices within 12 s" in site.said("web1")[1]
    since = site.now
    site.until(lambda _outcome: site.posted, passes=20)
    assert NOTICE <= site.now - since <= NOTICE + 5 * site.pass_seconds


def test_it_is_counted_since_the_boot_at_the_longest():
    site = Probed()
    _forgets_since_when(site)
    site.announce("e1", "web1")
    for _pass in range(4):
        site.go()
    site.boots("web1")
    site.go()
    assert "the balancer notices within 12 s" in site.said("web1")[1]


def test_a_run_that_takes_one_step_waits_until_that_is_noticed():
    """The next one would begin anew."""
    site = Probed(wait=False)
    site.run["look_twice"] = True
    _forgets_since_when(site)
    site.announce("e1", "web1")
    for _run in range(3):
        site.finish(passes=20)
        site.killed()
        site.now += 60
    assert site.posted


def test_a_run_that_was_killed_is_continued_from_the_record_on_the_host():
    site = Probed()
    site.announce("e1", "web1")
    site.until(lambda _outcome: site.posted, passes=20)
    site.killed()
    site.over("e1")
    assert not site.finish()["failed_run"] and site.answers["web1"]["fails_since"] is None


@pytest.mark.parametrize("is_killed", [False, True])
def test_the_time_to_drain_begins_at_the_same_moment_for_a_run_that_goes_on(is_killed):
    """Also if no run was there when the balancer must have noticed."""
    site = Probed(entries={"web1": {"threshold": 26}})
    site.hosts["web1"]["connections"] = [{"port": 80, "peer": "10.0.0.77", "count": 1}]
    site.announce("e1", "web1")
    site.until(lambda _outcome: site.answers["web1"]["events"])
    noticed = site.answers["web1"]["fails_since"] + 132.0
    if is_killed:
        site.now = noticed + 30.0
        site.killed()
    said = [site.go()["hosts"]["web1"] for _pass in range(90)]
    told = {decision["until"] for decision in said if decision["until_is"] == "drain until"} - {None}
    assert len(told) == 1 and told.pop() == pytest.approx(noticed + site.settings["web1"]["drain_host"]["timeout"], abs=2 * site.pass_seconds)


def test_a_run_that_was_cut_off_after_the_change_and_before_the_record_is_continued():
    site = Probed()
    site.announce("e1", "web1")
    site.until(lambda _outcome: site.answers["web1"]["events"])
    site.answers["web1"]["cut_off"] = True
    site.killed()
    site.until(lambda _outcome: site.posted, passes=20)
    assert not site.answers["web1"]["cut_off"]


def test_what_only_the_file_tells_is_given_back_when_its_event_is_over():
    """The disk with the records was replaced, and the one with the file was not."""
    site = Probed()
    site.announce("e1", "web1")
    site.until(lambda _outcome: site.posted, passes=20)
    site.start("e1")
    site.killed()
    site.answers["web1"].update(disk=False, noted=0)
    site.hosts["web1"]["tasks"] = {}
    site.over("e1")
    outcome = site.finish()
    assert not outcome["failed_run"] and site.said("web1")[0] == "restored"
    assert site.answers["web1"]["events"] == {} and site.answers["web1"]["fails_since"] is None


ASK = {"restore_service": {"timeout": 300.0, "unanswered": "refuse", "ask": {"url": "http://localhost/ready"}}}
SHORT = "1 of 2 in service in the pool of the duty health_probe{}, 1 must stay"
EARLY = "it is too early to count the pool of the duty health_probe ({})"


def _two_reboots(notice=900.0, **options):
    site = Probed(**options)
    for event_id, name in (("e1", "web1"), ("e2", "web2")):
        site.announce(event_id, name, notice=notice)
    return site


def test_two_events_at_once_take_out_one_host_after_the_other():
    site = _two_reboots()
    site.until(lambda _outcome: site.posted, passes=20)
    assert site.out() == {"web1"} and site.said("web2") == ("waiting", SHORT.format(" (web1 is out for its Reboot)"))
    site.start("e1")
    for _pass in range(5):
        site.go()
        assert site.out() == {"web1"}
    site.over("e1")
    site.until(lambda _outcome: site.out() == set(), passes=20)
    # It cannot be looked at for a moment.
    site.unread = {"web1"}
    for _pass in range(3):
        site.go()
    site.unread = set()
    back = site.now
    # Until the balancer must have noticed that the other one is back, it sends nothing there.
    site.go()
    assert site.said("web2") == ("waiting", EARLY.format("web1: the balancer notices within 12 s that it passes"))
    site.until(lambda _outcome: "web2" in site.out(), passes=20)
    assert site.now - site.pass_seconds - back >= NOTICE and site.out() == {"web2"}
    site.until(lambda _outcome: len(site.posted) == 2, passes=20)
    site.start("e2")
    site.over("e2")
    assert not site.finish()["failed_run"] and site.out() == set()


def test_after_a_kill_too_a_host_that_is_back_counts_when_the_balancer_must_have_noticed():
    site = _two_reboots()
    site.until(lambda _outcome: site.posted, passes=20)
    site.start("e1")
    site.over("e1")
    site.until(lambda _outcome: site.out() == set(), passes=20)
    back = site.answers["web1"]["back_at"]
    site.killed()
    site.go()
    assert site.said("web2")[1].startswith(EARLY.partition("{}")[0] + "web1: the balancer notices within")
    site.until(lambda _outcome: "web2" in site.out(), passes=20)
    assert NOTICE <= site.now - site.pass_seconds - back < NOTICE + 3 * site.pass_seconds


def test_nobody_counts_what_is_not_known_yet():
    """Where the folder of the records is new, nobody knows for how long any of them has passed."""
    site = Probed()
    for name in site.names:
        site.answers[name]["back_at"] = site.now
    site.announce("e1", "web1")
    site.go()
    state, reason = site.said("web1")
    assert state == "waiting" and reason.startswith(EARLY.partition("{}")[0] + "web2: the balancer notices within"), reason
    assert " of 2" not in reason and "web1:" not in reason
    site.until(lambda _outcome: site.out() == {"web1"}, passes=10)


def test_one_that_has_just_come_back_itself_may_go_again():
    """As after a release by hand, while its event stands. The other one serves."""
    site = Probed()
    site.answers["web1"]["back_at"] = site.now
    site.announce("e1", "web1")
    site.until(lambda _outcome: site.out() == {"web1"}, passes=3)


def test_check_mode_says_who_would_wait():
    site = _two_reboots()
    site.run["check"] = True
    site.decide()
    lines = "\n".join(site.outcome["preview"])
    assert "web1: draining" in lines and f"web2: waiting: {SHORT.format(' (web1 goes out)')}" in lines


def test_the_minimum_gives_way_shortly_before_the_impact():
    site = _two_reboots(notice=200.0)
    begun = site.now
    site.until(lambda _outcome: site.out() == {"web1", "web2"})
    assert 200 - 120 - 15 <= site.now - begun <= 200 - 120 - 15 + 3 * site.pass_seconds


def test_the_minimum_gives_way_to_an_impact_that_is_there():
    site = _two_reboots(notice=30.0)
    site.until(lambda _outcome: site.out() == {"web1", "web2"}, passes=5)


@pytest.mark.parametrize(
    ("options", "least"),
    [
        ({"hosts": 1}, 1),
        ({"hosts": 2}, 0),
        # Nothing tells that these are behind the same balancer.
        ({"hosts": 2, "entries": {"web2": {"file": "/run/another"}}}, 1),
        ({"hosts": 2, "entries": {"web2": {"name": "another"}}}, 1),
        ({"hosts": 2, "entries": {"web2": {"url": "http://localhost:81/health"}}}, 1),
        ({"hosts": 2, "entries": {"web1": {"file": "/srv/web1/out"}, "web2": {"file": "/srv/web10/out"}}}, 1),
        ({"hosts": 2, "entries": {"web1": {"pool": "shop"}, "web2": {"pool": "wiki"}}}, 1),
        ({"hosts": 3}, 1),
    ],
)
def test_a_host_is_not_held_back(options, least):
    site = Probed(min_in_service=least, **options)
    for number, name in enumerate(site.names[:2]):
        site.announce(f"e{number}", name)
    site.until(lambda _outcome: site.out() == set(site.names[:2]), passes=5)


def test_hosts_that_name_themselves_are_behind_one_balancer():
    site = _two_reboots(entries={name: {"url": f"http://{name}:80/health"} for name in ("web1", "web2")})
    site.until(lambda _outcome: site.posted, passes=20)
    assert site.out() == {"web1"}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"file": "/srv/web1/out"}, {"file": "/srv/web2/out"}),
        ({"file": "/srv/WEB1.out"}, {"file": "/srv/WEB2.out"}),
        # The names in Azure.
        ({"file": "/srv/vm_web1/out"}, {"file": "/srv/vm_web2/out"}),
        ({"url": "http://localhost/web1?of=web1"}, {"url": "http://localhost/web2?of=web2"}),
        # The name of the application is that of a host.
        ({"file": "/srv/web1/out"}, {"file": "/srv/web1/out"}),
    ],
)
def test_hosts_whose_settings_have_their_own_names_are_one_pool(first, second):
    site = _two_reboots(entries={"web1": first, "web2": second})
    site.until(lambda _outcome: site.posted, passes=20)
    assert len(site.out()) == 1 and site.outcome["warnings"] == []


def test_a_pool_that_the_settings_name():
    """The other settings may differ as they like."""
    site = _two_reboots(entries={"web1": {"pool": "shop"}, "web2": {"pool": "shop", "file": "/run/another", "name": "another"}})
    site.until(lambda _outcome: site.posted, passes=20)
    assert site.out() == {"web1"} and site.said("web2")[1] == "1 of 2 in service in the pool shop (web1 is out for its Reboot), 1 must stay"


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(
    ("entries", "said"),
    [
        (
            {"web1": {"file": "/run/one"}, "web2": {"file": "/run/two", "interval": 9}, "web3": {"file": "/run/three"}},
            "web1: it counts as a pool of its own for graceful_azure_min_in_service, and so do web2, web3, because the duties health_probe are not alike"
            " (file: /run/one, on web2: /run/two; interval x threshold + margin: 12, on web2: 20). So the minimum does not keep it in service. Set the option"
            " pool in each of these duties: the same where one balancer probes them, another where not",
        ),
        ({"web2": {"file": "/run/two"}}, "web2: it counts as a pool of its own for graceful_azure_min_in_service, because"),
        ({"web1": {"pool": "shop"}, "web2": {"pool": "shop"}}, "web3: it counts as a pool of its own"),
        ({"web1": {"pool": "shop"}, "web2": {"pool": "shop"}}, "(pool: not set, on web1: shop)"),
    ],
)
def test_a_pool_that_falls_apart_is_told_once(entries, said, check):
    site = Probed(hosts=3, entries=entries)
    site.run["check"] = check
    told = [warning for _pass in range(1 if check else 3) for warning in site.go()["warnings"]]
    assert len(told) == 1 and said in told[0]


@pytest.mark.parametrize(
    "options",
    [
        {"entries": {"web2": {"file": "/run/two", "name": "wiki"}}},
        {"entries": {"web1": {"pool": "shop"}, "web2": {"pool": "wiki"}}},
        {"entries": {"web2": {"file": "/run/two"}}, "min_in_service": 0},
    ],
)
def test_pools_that_are_meant_to_be_apart_are_not_told(options):
    assert Probed(**options).go()["warnings"] == []


def _silent(site):
    site.hosts["web2"]["silent"] = True


def _fails_its_probe(site):
    site.answers["web2"]["url_passes"] = False


def _in_maintenance(site):
    site.answers["web2"]["fails_since"] = site.now - 100


@pytest.mark.parametrize(
    ("happens", "said"),
    [(_silent, " (web2: timed out)"), (_fails_its_probe, " (web2: status 500)"), (_in_maintenance, " (web2 is in an operator's maintenance)")],
)
def test_the_other_one_does_not_serve(happens, said):
    site = Probed()
    site.go()
    happens(site)
    site.announce("e1", "web1")
    for _pass in range(20):
        site.go()
    assert site.said("web1") == ("waiting", SHORT.format(said)) and "web1" not in site.out()


def test_the_other_one_does_not_answer():
    site = Probed(**ASK)
    site.unanswered = {"web2": "status 500"}
    site.announce("e1", "web1")
    for _pass in range(20):
        site.go()
    assert site.said("web1") == ("waiting", SHORT.format(" (web2: status 500)"))
    site.unanswered = {}
    site.until(lambda _outcome: site.out() == {"web1"}, passes=5)


def test_one_that_fails_its_own_probe_is_not_kept():
    site = Probed()
    site.answers["web1"]["url_passes"] = False
    site.announce("e1", "web1")
    site.until(lambda _outcome: site.out() == {"web1"}, passes=5)


def test_a_pool_is_put_together_once_in_a_pass(monkeypatch):
    """Its cost would grow by the square of its hosts."""
    asked = []
    monkeypatch.setattr(health_probe, "_passes", lambda look, passes=health_probe._passes: asked.append(look) or passes(look))
    numbers = []
    for hosts in (4, 8):
        site = Probed(hosts=hosts)
        site.announce("e1", "web1")
        asked.clear()
        site.decide()
        numbers.append(len(asked))
    assert numbers[1] == 2 * numbers[0]


def test_a_run_that_takes_one_step_asks_the_other_host_and_takes_it():
    """Until then, a schedule began anew each minute, and the host went out only shortly before NotBefore."""
    site = Probed(wait=False, min_in_service="50%", **ASK)
    site.run["look_twice"] = True
    site.announce("e1", "web1", notice=900.0)
    outcome = site.go()
    assert not outcome["finished"] and "the next look asks whether web2 answers" in outcome["hosts"]["web1"]["reason"]
    assert site.out() == set()
    assert site.go()["finished"] and site.out() == {"web1"}
