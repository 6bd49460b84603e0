# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host that serves and does not answer what it is asked: its settings are wrong, and nobody goes out for that."""

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import settings_of
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.turns import first_turns

from tests.support.azure import POOL
from tests.support.model import Model, service, tasks
from tests.support.nginx import line_told

URL = "http://localhost/healht: status 404"
ASK = {"url": "http://localhost/healht", "validate_certs": True}


class Asked(Model):
    """A model whose hosts are asked as the module host_observation does it."""

    def __init__(self, *given, unanswered="refuse", **more):
        super().__init__(*given, **more)
        self.answers = {}  # per host: why it does not answer
        self.was_asked = []
        for settings in self.settings.values():
            settings["restore_service"].update(ask=dict(ASK), unanswered=unanswered)

    def observe_host(self, name):
        seen = super().observe_host(name)
        turn = self.turn(name)
        ask = turn["options"]["ask"] if turn else dict(ASK, always=bool(self.run.get("check")))
        coming = any(event["affects_host"] and event["event_status"] != "Started" for event in seen.get("events") or ())
        asks = coming and ask.get("held") if seen.get("holds") else coming or ask.get("always")
        if ask and asks:
            self.was_asked.append(name)
            seen["unanswered"] = self.answers.get(name)
        return seen


def said(outcome, name):
    decision = outcome["hosts"][name]
    return decision["state"], decision["reason"]


def test_an_answer_lets_everything_go_on():
    model = Asked()
    model.announce("e1", "web1")
    model.go()
    assert model.in_rotation("web1") == [] and model.was_asked == ["web1"]
    model.until(lambda outcome: model.posted)
    assert model.was_asked == ["web1"], "a host that is out is not asked"


def test_a_host_that_serves_and_does_not_answer_stays_in_rotation():
    model = Asked()
    model.answers["web1"] = URL
    model.announce("e1", "web1", "web2")
    for _pass in range(30):
        outcome = model.go()
    assert model.in_rotation("web1") == model.in_rotation("web2") == ["lb1"] and model.posted == [] and model.steps == []
    state, reason = said(outcome, "web1")
    assert state == "needs_person" and URL in reason and "graceful_azure_health_url" in reason and "graceful_azure_health_unanswered" in reason
    assert "start what should answer" in reason and outcome["hosts"]["web1"]["until_is"] == "goes out all the same at"
    state, reason = said(outcome, "web2")
    assert "waits for web1" in reason
    assert outcome["failed_run"] and any(URL in message for message in outcome["messages"])


def test_it_stays_in_rotation_too_while_another_of_its_balancers_cannot_be_read():
    azure = {"provider": "azure_load_balancer", "pool": POOL, "hosts": [], "access": {}, "known_as": {"address": "a"}}
    model = Asked(load_balancers=[{}, azure])
    model.answers["web1"] = URL
    model.announce("e1", "web1", "web2")
    for _pass in range(3):
        model.go()
    assert model.in_rotation("web1") == ["lb1"] and model.steps == []
    del model.answers["web1"]
    model.until(lambda _outcome: not model.in_rotation("web1"), passes=3)


def test_once_it_answers_the_run_goes_on():
    model = Asked()
    model.answers["web1"] = URL
    model.announce("e1", "web1")
    model.go()
    del model.answers["web1"]
    model.go()
    assert model.in_rotation("web1") == []
    model.until(lambda outcome: model.posted)


def test_it_goes_out_shortly_before_an_impact_that_comes_anyway_and_is_not_approved():
    model = Asked()
    model.answers["web1"] = URL
    model.announce("e1", "web1", notice=300.0)
    began = model.now
    model.until(lambda outcome: not model.in_rotation("web1"))
    assert 160.0 <= model.now - began <= 170.0  # graceful_azure_drain_timeout and 15 s before NotBefore
    for _pass in range(10):
        outcome = model.go()
    assert model.posted == [] and "did not answer" in said(outcome, "web1")[1]
    model.start("e1")
    model.go()
    model.over("e1")
    model.finish()
    assert model.in_rotation("web1") == ["lb1"]


@pytest.mark.parametrize("status", ["Started"])
def test_an_event_that_has_started_asks_for_nothing(status):
    model = Asked()
    model.answers["web1"] = URL
    model.announce("e1", "web1", status=status)
    model.go()
    assert model.in_rotation("web1") == [] and model.was_asked == []


def test_a_host_that_the_balancer_sees_down_is_no_mistake_in_the_settings():
    """An application that is truly down blocks no maintenance."""
    model = Asked()
    model.answers["web1"] = URL
    model._serves = lambda server: server is not model.servers["lb1"]["web1"]
    model.announce("e1", "web1")
    model.go()
    assert model.in_rotation("web1") == []


def test_a_host_that_is_held_already_is_not_asked():
    """A run that goes on after a kill finds it out, with its services down."""
    model = Asked()
    model.announce("e1", "web1")
    model.go()
    model.killed()
    model.answers["web1"] = URL
    model.until(lambda outcome: model.posted)


def test_a_run_may_be_told_to_go_on_and_warns_once():
    model = Asked(unanswered="warn")
    model.answers["web1"] = URL
    model.announce("e1", "web1")
    (warning,) = model.go()["warnings"]
    assert URL in warning and warning.startswith("web1: ")
    assert model.in_rotation("web1") == [] and model.go()["warnings"] == []
    model.until(lambda outcome: model.posted)


def test_check_mode_says_it_though_no_event_stands():
    model = Asked()
    model.run.update(check=True, wait=False)
    model.answers["web1"] = URL
    outcome = model.go()
    assert outcome["finished"] and outcome["failed_run"] and URL in outcome["messages"][0]


def test_check_mode_says_which_duty_nobody_knows_though_no_event_stands():
    """A service that is misspelt would be found out when the host is drained."""
    said = "shopp cannot be looked at: systemd knows no unit 'shopp.service' (option services)"
    steps = [{"name": "shopp", "type": "service", "out": True, "in": True, "idle": True}]
    for check in (True, False):
        turns = first_turns({"web1": {**Asked().settings["web1"], "drain_host": {"ports": [], "steps": steps}}}, check, 5.0)["web1"]
        assert next(turn for turn in turns if "ports" in turn["options"])["options"].get("before", []) == [{"type": "service", "name": "shopp"}] * check
    model = Asked()
    model.run.update(check=True, wait=False)
    seen = model.observe_host
    model.observe_host = lambda name: dict(seen(name), unseen=[said] if name == "web2" else [])
    outcome = model.go()
    assert outcome["finished"] and outcome["failed_run"] and outcome["messages"] == [f"web2: {said}"]


REFUSED = "http://localhost/health: Connection refused"


@pytest.mark.parametrize("unanswered", ["refuse", "warn"])
@pytest.mark.parametrize("events", [(), ("e1",)])
@pytest.mark.parametrize(
    ("server", "is_told"),
    [({}, True), ({"down": True, "in_service": False, "condition": "already_out"}, False)],
)
def test_check_mode_tells_a_dead_application_behind_a_balancer_that_does_not_check(server, is_told, events, unanswered):
    """nginx goes on sending it requests. Who is kept out by an operator may be silent."""
    model = Asked(unanswered=unanswered)
    model.run.update(check=True, wait=False)
    model.answers["web2"] = REFUSED
    lines = {name: line_told(f"10.0.0.{number}:80") for number, name in enumerate(model.names)}
    lines["web2"].update({"silent": "Connection refused", **server})
    for name, line in lines.items():
        model.settings[name]["load_balancers"] = [dict(settings_of("nginx", {"hosts": ["lb1"], "server": line["server"]}, name), quiet=1.0, ports=[80])]
    seen = {"servers": [*lines.values()], "passes": [], "beside": {}, "files": {}, "present": [], "configuration": "/nginx.conf", "holds": []}
    look = {"reached": True, "machine": "lb1", "began": model.now, "at": model.now, "clock": model.now, **seen}
    world = model.world
    model.world = lambda: dict(world(), balancers={"lb1 nginx": look})
    for event in events:
        model.announce(event, "web2")
    model.decide()
    outcome = model.outcome
    told = outcome["messages"] if unanswered == "refuse" else outcome["warnings"]
    said = f"web2: it does not answer at {REFUSED}, although nginx may send it requests; start what should answer, "
    assert [each for each in told if REFUSED in each and each.startswith(said)] == [each for each in told if "does not answer at" in each]
    assert len([each for each in told if each.startswith(said)]) == is_told and (outcome["failed_run"] or not is_told or unanswered == "warn")
    model.killed()
    # No run waits for it: it serves nobody.
    model.run.update(check=False, wait=True)
    model.decide()
    assert "does not answer at" not in str([model.outcome["messages"], model.outcome["warnings"]])


@pytest.mark.parametrize("unanswered", ["refuse", "warn"])
def test_check_mode_says_it_though_it_looks_twice_and_no_event_stands(unanswered):
    """As where only the balancers tell which ports are counted, or where one of them was slow."""
    model = Asked(unanswered=unanswered)
    model.run.update(check=True, wait=False)
    model.answers["web1"] = URL
    model.down_balancers["lb1"] = {"reached": False, "error": "did not finish its answer within 11 s"}
    told = model.go()["warnings"]
    assert not model.outcome["finished"]
    model.down_balancers.clear()
    outcome = model.go()
    told = outcome["messages"] if unanswered == "refuse" else [*told, *outcome["warnings"]]
    assert outcome["finished"] and [URL in each for each in told] == [True], outcome
    assert outcome["failed_run"] is (unanswered == "refuse")


@pytest.mark.parametrize("corrected", [False, True])
def test_what_did_not_answer_is_known_to_the_runs_after_it(corrected):
    """It goes out shortly before the impact. A run that has not seen why must not approve it, unless somebody corrected the settings."""
    model = Asked(hosts=2)
    model.answers["web1"] = URL
    model.announce("e1", "web1", notice=400.0)
    model.until(lambda outcome: model.in_rotation("web1") == [], passes=400)
    model.killed()
    if corrected:
        model.settings["web1"]["restore_service"]["ask"] = {"url": "http://localhost/health"}
    for _pass in range(8):
        model.go()
    assert bool(model.posted) is corrected


def late(**more):
    return Asked(rules=[{"name": "late", "lead_time": 300.0}], **more)


def test_what_waits_for_its_lead_time_needs_nobody_yet():
    model = late(wait=False)
    model.answers["web1"] = URL
    model.announce("e1", "web1")
    outcome = model.go()
    assert said(outcome, "web1") == ("waiting", "rule 'late' begins 300 s before NotBefore") and not outcome["failed_run"]
    model.now += 610
    state, reason = said(model.go(), "web1")
    assert state == "needs_person" and URL in reason and "lead" not in reason


def test_what_is_approved_unprepared_and_waits_for_the_minimum_needs_nobody():
    model = Asked(min_in_service=2, rules=[{"name": "quick", "action": "approve"}])
    model.answers["web1"] = URL
    model.announce("e1", "web1")
    outcome = model.go()
    assert said(outcome, "web1")[0] == "waiting" and not outcome["failed_run"]


def test_check_mode_says_it_though_the_event_has_time():
    model = late(wait=False)
    model.run["check"] = True
    model.answers["web1"] = URL
    model.announce("e1", "web1")
    outcome = model.go()
    assert said(outcome, "web1")[0] == "waiting"
    (message,) = outcome["messages"]
    assert message.startswith("web1: ") and URL in message and "graceful_azure_health_url" in message


def test_check_mode_says_it_once():
    model = Asked(wait=False)
    model.run["check"] = True
    model.answers["web1"] = URL
    model.announce("e1", "web1")
    assert len([message for message in model.go()["messages"] if URL in message]) == 1


class TestTaskFileOfTheUsersThatTakesOut:
    """With the provider custom, nobody knows what the user's file makes fail. What it does to the answer is seen as soon as it has run."""

    CUSTOM = {"provider": "custom"}
    FAILS = "http://localhost/health: status 503"

    def until_posted(self, model):
        """All warnings until the event is approved."""
        told = []
        for _pass in range(40):
            told += model.go()["warnings"]
            if model.hosts["web1"]["own_balancer"] == "out":
                model.answers["web1"] = self.FAILS
            if model.posted:
                return told
        raise AssertionError(model.outcome)

    @pytest.mark.parametrize("steps", [[], [tasks("drain_host_before")]])
    def test_that_it_makes_the_answer_fail_is_said_once_and_before_the_approval(self, steps):
        model = Asked(load_balancer=self.CUSTOM, drain_host={"steps": steps})
        model.announce("e1", "web1")
        (warning,) = self.until_posted(model)
        assert warning.startswith("web1: ") and self.FAILS in warning and "your own task file" in warning and "graceful_azure_health_url" in warning

    def test_an_answer_that_goes_on_is_nothing_to_tell(self):
        model = Asked(load_balancer=self.CUSTOM)
        model.announce("e1", "web1")
        told = []
        model.until(lambda outcome: told.extend(outcome["warnings"]) or model.posted)
        assert told == [] and model.was_asked.count("web1") > 1

    @pytest.mark.parametrize(
        "given",
        [
            {"drain_host": {"steps": [service("web.service")]}},
            {"drain_host": {"steps": [tasks("switch", **{"in": "/in.yml"})]}},
            {"drain_host": {"steps": [tasks("restore_service_before", out="", **{"in": "/in.yml"})]}},
        ],
        ids=["a service that is stopped", "a step that is undone", "a file that runs before the answer"],
    )
    def test_what_is_put_right_before_the_answer_is_asked_for_is_no_mistake(self, given):
        model = Asked(load_balancer=self.CUSTOM, **given)
        model.announce("e1", "web1")
        assert self.until_posted(model) == []

    @pytest.mark.parametrize("inner", [[], [service("db.service")]])
    def test_so_is_a_duty_that_is_handed_over_before_and_comes_back_only_after_the_answer(self, inner):
        model = Asked(drain_host={"steps": [service("app.service", idle=False, first=True), *inner]})
        model.announce("e1", "web1")
        told = []
        for _pass in range(40):
            told += model.go()["warnings"]
            if model.hosts["web1"]["tasks"]:
                model.answers["web1"] = self.FAILS
            if model.posted:
                break
        (warning,) = told
        assert warning.startswith("web1: it answered what it is asked as long as it was on all of its duties, and does not since app.service was handed over")
        assert self.FAILS in warning and "graceful_azure_health_url" in warning and model.posted

    def test_a_host_behind_haproxy_is_not_asked(self):
        model = Asked()
        model.announce("e1", "web1")
        model.until(lambda outcome: model.posted)
        assert model.was_asked == ["web1"]

    def test_an_event_that_has_started_says_nothing(self):
        """The host may not answer because it is rebooted."""
        model = Asked(load_balancer=self.CUSTOM)
        model.announce("e1", "web1")
        model.until(lambda outcome: model.posted)
        model.answers["web1"] = self.FAILS
        model.start("e1")
        for _pass in range(5):
            assert model.go()["warnings"] == []

    def test_while_it_is_brought_back_the_reason_names_it_after_some_seconds(self):
        class Unanswered(Asked):
            def _restore_service(self, name, step):
                self._put(name, "restoring", step)
                fails = TestTaskFileOfTheUsersThatTakesOut.FAILS
                self.results[name]["restore_service"] = {"done": False, "reason": f"{name} is not restored", "left": [fails], "unanswered": True}

        model = Unanswered(load_balancer=self.CUSTOM)
        model.announce("e1", "web1")
        model.until(lambda outcome: model.posted)
        model.start("e1")
        model.go()
        model.over("e1")
        reasons = []
        for _pass in range(12):
            outcome = model.go()
            if said(outcome, "web1")[0] == "restoring" and self.FAILS in said(outcome, "web1")[1]:
                reasons.append(said(outcome, "web1")[1])
        assert "your own task file" not in reasons[0]
        # A host that boots does not answer for a while, which is no failure.
        assert reasons[0] == f"not back yet: {self.FAILS}"
        assert "your own task file" in reasons[-1] and "graceful_azure_health_url" in reasons[-1]
