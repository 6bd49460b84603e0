# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long a run goes on, and what it leaves behind at its end."""

from __future__ import annotations

import pytest

from tests.support.model import BEFORE, Model, iso, service

NO_SOCKET = {"reached": True, "fatal": "There is no HAProxy socket"}


class TestAnEventThatIsApprovedUnprepared:
    """A host is out for a reboot when another event comes that a rule has approved without preparing."""

    def out(self, *named, **more):
        rules = [{"name": "freezes", "when": "event_type == 'Freeze'", "action": "approve"}]
        model = Model(rules=rules, **more)
        model.announce("e1", "web1", notice=600.0)
        model.until(lambda outcome: model.posted)
        model.announce("e2", *named, event_type="Freeze", notice=86400.0)
        model.start("e1")
        model.go()
        return model

    def test_that_is_not_ours_to_approve_keeps_nobody_out(self):
        model = self.out("web1", "vm_other", timeout=900.0)
        model.over("e1")
        model.until(lambda _outcome: model.in_rotation("web1"), 10)
        assert not model.held("web1") and [event_id for _at, event_id, _by in model.posted] == ["e1"]
        outcome = model.finish()
        (told,) = [event for event in outcome["events"] if event["event_id"] == "e2"]
        assert told["hosts"]["web1"] == {"state": "waiting", "reason": "not approved by us: vm_other is none of the targets"}
        assert told["outcome"] == "in_progress" and not outcome["failed_run"], "what comes after the run's end is no failure"

    def test_that_has_started_keeps_it_out_whoever_approved(self):
        model = self.out("web1", "vm_other")
        model.start("e2")
        model.over("e1")
        for _pass in range(10):
            model.go()
        assert model.in_rotation("web1") == []
        model.over("e2")
        assert not model.finish()["failed_run"] and model.in_rotation("web1") == ["lb1"]

    def test_that_is_ours_is_approved_while_the_host_is_out(self):
        model = self.out("web1")
        model.over("e1")
        for _pass in range(10):
            model.go()
            assert model.in_rotation("web1") == []
        assert [event_id for _at, event_id, _by in model.posted] == ["e1", "e2"]
        model.over("e2")
        assert not model.finish()["failed_run"] and model.in_rotation("web1") == ["lb1"]


class TestTargetsThatMayBeOff:
    def test_the_only_target(self):
        model = Model(hosts=1, may_be_off=True)
        model.hosts["web1"]["silent"] = True
        outcome = model.go()
        assert outcome["finished"] and outcome["messages"] == [] and outcome["unread"] == {"web1": "timed out"}

    def test_nobody_is_reached_and_one_of_them_may_not_be_off(self):
        model = Model()
        model.settings["web1"]["may_be_off"] = True
        for host in model.hosts.values():
            host["silent"] = True
        outcome = model.finish()
        assert "none of the targets could be reached" in outcome["messages"]


class TestAMistakeWhileSomethingIsHeld:
    """What boots or is restarted looks like what was set up wrong. Whoever is out is brought back once it can be read."""

    def held(self, **more):
        model = Model(**more)
        model.announce("e1", "web1", notice=600.0)
        model.until(lambda outcome: model.posted)
        model.start("e1")
        model.go()
        return model

    @staticmethod
    def seconds(model, seconds):
        """Passes for so long, none of which is the last."""
        began = model.now
        while model.now - began < seconds:
            outcome = model.go()
            assert not outcome["finished"], outcome["messages"]
        return outcome

    def test_a_host_whose_disk_is_mounted_late(self):
        model = self.held()
        model.hosts["web1"]["fatal"] = "/var/lib/graceful_azure cannot be written"
        model.over("e1")
        outcome = self.seconds(model, 120)
        assert outcome["hosts"]["web1"]["state"] == "needs_person" and outcome["failed_run"]
        model.hosts["web1"]["fatal"] = None
        assert not model.finish()["failed_run"] and model.in_rotation("web1") == ["lb1"] and not model.held("web1")

    def test_a_host_that_stays_so_is_waited_for_as_long_as_the_run_may_last(self):
        model = self.held(timeout=600.0)
        model.hosts["web1"]["fatal"] = "password refused"
        model.over("e1")
        outcome = model.finish()
        assert outcome["failed_run"] and model.now - model.run["started"] >= 600

    @pytest.mark.parametrize("balancers", [("lb1",), ("lb1", "lb2")])
    @pytest.mark.parametrize("fault", [NO_SOCKET, {"reached": False, "error": "no route"}], ids=["no socket", "no route"])
    def test_a_balancer_that_is_gone_for_minutes(self, fault, balancers):
        model = self.held(balancers=balancers)
        model.down_balancers["lb1"] = fault
        self.seconds(model, 60)
        model.over("e1")
        self.seconds(model, 120)
        model.down_balancers.clear()
        assert not model.finish()["failed_run"] and model.in_rotation("web1") == list(balancers) and not model.held("web1")

    @pytest.mark.parametrize("fault", [NO_SOCKET, {"reached": False, "error": "no route"}], ids=["no socket", "no route"])
    def test_a_balancer_that_stays_away_is_waited_for_as_long_as_restoring_may_take(self, fault):
        model = self.held()
        model.down_balancers["lb1"] = fault
        model.over("e1")
        began = model.now
        outcome = model.finish()
        assert outcome["failed_run"] and 300 <= model.now - began < 310

    def test_whoever_is_back_already_is_not_waited_for(self):
        model = self.held(hosts=3)
        model.announce("e2", "web2")
        model.over("e1")
        model.until(lambda outcome: model.in_rotation("web1"))
        model.go()
        model.hosts["web1"]["fatal"] = "password refused"
        model.until(lambda outcome: len(model.posted) == 2)
        model.over("e2")
        began = model.now
        model.finish()
        assert model.now - began < 30


class TestOneOfTwoBalancersIsSetUpWrong:
    """The host goes out of the other one when the time for that has come."""

    @pytest.mark.parametrize("why", ["lead time", "minimum"])
    def test_an_event_that_waits_is_no_end(self, why):
        rules = [{"name": "late", "lead_time": 300.0 if why == "lead time" else None}]
        model = Model(balancers=("lb1", "lb2"), rules=rules, min_in_service=1 if why == "lead time" else 2)
        model.down_balancers["lb1"] = NO_SOCKET
        model.announce("e1", "web1", notice=900.0)
        while "lb2" in model.in_rotation("web1"):
            assert not model.go()["finished"]
        # 300 s before the impact, or when there is just time to drain.
        assert 600 <= model.now - model.run["started"] <= (610 if why == "lead time" else 775)
        model.over("e1")
        assert model.finish()["failed_run"] and "lb2" in model.in_rotation("web1")


class OneStep(Model):
    """Runs that take one step, a minute apart. A look at a balancer waits as the module haproxy_info does."""

    def __init__(self, quiet, absent=(), **more):
        super().__init__(wait=False, load_balancer={"quiet": quiet, "absent": "no_traffic"}, **more)
        self.run["look_twice"] = True
        self.absent = absent
        self.waits = []

    def observe_balancer(self, lb):
        if lb in self.absent:
            return {
                "reached": True,
                "at": self.now,
                "time": iso(self.now),
                "clock": self.now,
                "process": None,
                "absent": True,
                "servers": [],
                "holds": [],
                "error": "no HAProxy runs there",
            }
        looks = [turn["options"] for turn in self.machine_turns(lb)] if self.number > 1 else []
        waited = min(looks[0]["timeout"], looks[0]["quiet"]) if looks and looks[0]["wait_for"] else 0.0
        self.waits.append(waited)
        self.now += waited
        seen = super().observe_balancer(lb)
        for server in seen["servers"]:
            server["quiet_for"] = waited
        return seen

    def one(self):
        """One run; how many passes it took."""
        self.killed()
        outcome = self.finish(passes=12)
        self.now += 60
        assert not outcome["failed_run"], outcome["messages"]
        return self.number


class TestTimeThatARunOfOneStepWaitsFor:
    """Such a run knows nothing of those before it: what takes time must be seen in one of them."""

    @pytest.mark.parametrize(("quiet", "passes"), [(0.0, 2), (3.0, 2), (6.0, 3), (10.0, 3), (30.0, 7)])
    def test_no_session_for_so_long(self, quiet, passes):
        model = OneStep(quiet)
        model.announce("e1", "web1")
        assert model.one() == 1 and model.in_rotation("web1") == []
        assert model.one() == passes and len(model.posted) == 1
        assert max(model.waits) <= 3.4
        model.start("e1")
        assert model.one() <= 2, "there is nothing left to approve"

    @pytest.mark.parametrize("steps", [[], [service()]])
    def test_no_haproxy_on_the_passive_machine_for_so_long(self, steps):
        model = OneStep(3.0, absent=("lb2",), balancers=("lb1", "lb2"), drain_host={"steps": steps})
        model.announce("e1", "web1")
        while not model.posted:
            assert model.one() <= 3
        assert model.now - 1_800_000_000.0 < 4 * 70

    def test_a_step_that_waits_for_it_too(self):
        model = OneStep(10.0, drain_host={"steps": [BEFORE], "ports": []})
        given = []
        take = model._drain_host

        def drain_host(name, step):
            given.append(step["quiet"])
            if step["quiet"] <= 3.4:
                take(name, step)

        model._drain_host = drain_host
        model.announce("e1", "web1")
        for _minute in range(3):
            model.one()
        assert len(model.posted) == 1 and given[0] == 10.0 and given[-1] <= 3.4

    def test_whoever_still_gets_sessions_is_not_waited_for(self):
        model = OneStep(10.0)
        model.announce("e1", "web1")
        model.one()
        fresh = model.observe_balancer

        def served(lb):
            model.servers[lb]["web1"]["total"] += 1
            return fresh(lb)

        model.observe_balancer = served
        assert model.one() <= 2 and model.posted == []

    def test_a_balancer_that_is_restarted_again_and_again_is_not_waited_for_for_ever(self):
        model = OneStep(10.0)
        model.announce("e1", "web1")
        model.one()
        fresh = model.observe_balancer

        def restarted(lb):
            return dict(fresh(lb), process={"pid": len(model.waits), "started": len(model.waits)})

        model.observe_balancer = restarted
        began = model.now
        model.one()
        assert model.posted == [] and model.now - began < 60 + 2 * 10 + 30 + 10
