# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Faults of tests/FAULTS.md that take long: how long a run bears them, what it says then, and that the next one carries on."""

from __future__ import annotations

import pytest

from tests.support.model import Model, service


def seconds_to_the_end(model):
    outcome = model.finish()
    return model.now - model.run["started"], outcome


def test_a_vm_that_does_not_come_back():
    """The run does what else there is, says for whom it waited, and the next one puts the host back once it answers."""
    model = Model(timeout=600.0)
    model.announce("e1", "web1")
    model.until(lambda outcome: model.posted)
    model.start("e1")
    model.hosts["web1"]["silent"] = True
    model.go()
    model.over("e1")
    model.announce("e2", "web2", event_type="Freeze")
    model.until(lambda outcome: len(model.posted) == 2)
    model.over("e2")
    model.until(lambda outcome: model.in_rotation("web2"))
    lasted, outcome = seconds_to_the_end(model)
    assert outcome["failed_run"] and lasted >= 600
    assert [message for message in outcome["messages"] if "Reboot e1: not over when" in message and "web1: unobserved: silent" in message]
    assert not [message for message in outcome["messages"] if "e2" in message]
    assert model.in_rotation("web1") == []
    model.killed()
    model.hosts["web1"]["silent"] = False
    outcome = model.finish()
    assert not outcome["failed_run"] and model.in_rotation("web1") == ["lb1"] and not model.held("web1")


def test_the_run_after_one_whose_time_was_over_carries_on():
    model = Model(timeout=30.0)
    model.announce("e1", "web1")
    model.servers["lb1"]["web1"]["sessions"] = 1
    lasted, outcome = seconds_to_the_end(model)
    assert outcome["failed_run"] and 30 <= lasted < 36 and model.posted == []
    model.killed()
    model.servers["lb1"]["web1"]["sessions"] = 0
    model.until(lambda outcome: model.posted, 4)
    model.over("e1")
    assert not model.finish()["failed_run"] and model.in_rotation("web1") == ["lb1"]


def test_a_metadata_service_that_is_not_there_is_borne_for_half_a_minute():
    model = Model()
    model.hosts["web1"]["service_silent"] = True
    lasted, outcome = seconds_to_the_end(model)
    assert outcome["failed_run"] and 30 <= lasted < 40
    assert outcome["messages"] == ["web1: its metadata service cannot be read: no answer"]


def test_a_balancer_that_stays_away_is_borne_for_half_a_minute():
    model = Model()
    model.announce("e1", "web1")
    model.down_balancers["lb1"] = {"reached": False, "fatal": "no socket", "error": "no socket"}
    lasted, outcome = seconds_to_the_end(model)
    assert outcome["failed_run"] and 30 <= lasted < 40 and model.posted == []
    assert outcome["hosts"]["web1"]["state"] == "needs_person"
    # It is told once, not once more for each host behind it.
    assert outcome["messages"] == ["balancer lb1: no socket"]


def test_an_event_that_names_a_sound_host_and_one_that_a_person_must_mend():
    """The sound one is prepared, nothing is approved before the other one is mended."""
    model = Model(hosts=3)
    model.hosts["web1"]["fatal"] = "/var/lib/graceful_azure/task-x.json: cut in half"
    model.announce("e1", "web1", "web2", notice=None)
    for _pass in range(10):
        outcome = model.go()
    assert model.posted == [] and outcome["hosts"]["web1"]["state"] == "needs_person"
    assert model.in_rotation("web1") == ["lb1"] and model.in_rotation("web2") == []
    model.hosts["web1"]["fatal"] = None
    model.until(lambda outcome: model.posted, 10)
    assert model.in_rotation("web1") == []
    model.over("e1")
    assert not model.finish()["failed_run"] and model.in_rotation("web1") == model.in_rotation("web2") == ["lb1"]


def test_a_vm_whose_disk_was_wiped():
    """What its own records held is forgotten; what the balancer's hold is not."""
    model = Model(drain_host={"steps": [service("web.service")]})
    model.announce("e1", "web1", event_type="Redeploy")
    model.until(lambda outcome: model.posted)
    model.start("e1")
    model.go()
    model.hosts["web1"]["tasks"] = {}
    model.go()
    assert model.in_rotation("web1") == []
    model.over("e1")
    outcome = model.finish()
    assert not outcome["failed_run"] and model.in_rotation("web1") == ["lb1"] and not model.held("web1")
    assert outcome["events"][0]["outcome"] == "completed"


def test_an_event_that_is_over_between_the_look_and_the_approval():
    """The approval finds nothing to approve, and the next pass gives the host back."""
    model = Model()
    model.announce("e1", "web1")
    model.decide()
    while (model.outcome["hosts"]["web1"]["step"] or {}).get("role") != "approve_event":
        model.act()
        model.decide()
    model.over("e1")
    model.act()
    outcome = model.finish()
    assert model.posted == [] and not outcome["failed_run"]
    assert model.in_rotation("web1") == ["lb1"] and not model.held("web1")


class TestOneFolderForTwoHosts:
    """Their records would count for each other, and one would be approved because the other is ready."""

    def refused(self, model, **ids):
        """The outcome of one pass in which the folders have these ids."""
        model.announce("e1", "web1", "web2")
        seen = model.observe_host
        model.observe_host = lambda name: dict(seen(name), state_folder={"path": "/var/lib/graceful_azure", "id": ids[name]})
        return model.go()

    def test_neither_takes_a_step(self):
        model = Model(hosts=3)
        outcome = self.refused(model, web1="a", web2="a", web3="c")
        assert model.steps == [] and model.posted == []
        for name, other in (("web1", "web2"), ("web2", "web1")):
            said = f"{name} and {other} have the same folder for their records (/var/lib/graceful_azure)"
            assert [message for message in outcome["messages"] if said in message and "graceful_azure_state_dir of its own" in message]
        assert not [message for message in outcome["messages"] if "web3" in message]
        assert model.finish()["failed_run"] and model.steps == []

    def one_machine(self, silent):
        """One machine by two names. The second one cannot be reached in the passes for whose number C(silent) is true."""
        model = Model(hosts=2)
        model.announce("e1", "web1")
        seen = model.observe_host

        def observe(name):
            if name == "web2" and silent(model.number):
                return {"reached": False, "error": "timed out", "at": model.now}
            return dict(seen("web1"), state_folder={"path": "/var/lib/graceful_azure", "id": "a"})

        model.observe_host = observe
        return model

    @pytest.mark.parametrize("passes", [1, 2])
    def test_one_of_them_cannot_be_reached_at_first(self, passes):
        """The other goes out meanwhile. From the moment on at which both are known, nothing is approved."""
        model = self.one_machine(lambda number: number <= passes)
        for _pass in range(passes):
            model.go()
        assert [role for _at, name, role, _events in model.steps] == ["load_balancer"] and model.posted == []
        for _pass in range(20):
            model.go()
        assert model.posted == [] and [message for message in model.outcome["messages"] if "web1 and web2 have the same folder" in message]

    def test_a_name_that_is_never_reached_does_not_keep_others_waiting_for_long(self):
        model = self.one_machine(lambda number: True)
        began = model.now
        while not model.posted:
            model.go()
            assert model.posted or model.now < began + 10 or "one machine with web1" in model.outcome["hosts"]["web1"]["reason"]
        assert 30 <= model.posted[0][0] - began < 40

    @pytest.mark.parametrize("silent", [lambda number: number > 1, lambda number: number % 2 == 0])
    def test_one_of_them_cannot_be_reached_any_more(self, silent):
        model = self.one_machine(silent)
        for _pass in range(20):
            model.go()
        assert model.steps == [] and model.posted == []

    def test_folders_of_which_nobody_knows_are_not_the_same(self):
        model = Model()
        self.refused(model, web1=None, web2=None)
        assert model.steps != []


def test_names_in_azure_that_are_each_others_are_refused():
    model = Model()
    names = {"web1": "vm_web2", "web2": "VM_WEB1"}
    for name, wrong in names.items():
        model.settings[name]["resource_name"] = wrong
    observe, asked = model.observe_host, []

    def look(name):
        """As the real one: what is given is what it returns, and it tells the other name where it is asked for that."""
        turn = model.turn(name)
        asks = turn["options"].get("ask_name") if turn else True
        asked.append(asks)
        tells = asks and not model.hosts[name]["service_silent"]
        return dict(observe(name), resource_name=names[name], **({"told_name": f"vm_{name}"} if tells else {}))

    model.observe_host = look
    model.announce("e1", "web1")
    for _pass in range(4):
        outcome = model.go()
        assert {outcome["hosts"][name]["state"] for name in names} == {"needs_person"} and model.in_rotation("web2") == ["lb1"]
    assert "graceful_azure_resource_name is vm_web2, and its metadata service calls this VM vm_web1" in outcome["hosts"]["web1"]["reason"]
    assert asked == [True] * 2 + [None] * 6, "it is asked until it has told"
    names = {"web1": "vm_web1", "web2": "VM_WEB2"}
    model.killed()
    for name, right in names.items():
        model.settings[name]["resource_name"] = right
    model.go()
    asked.clear()
    model.hosts["web2"]["service_silent"] = True
    model.go()
    model.go()
    model.hosts["web2"]["service_silent"] = False
    model.go()
    model.go()
    assert asked[1::2] == [None, True, True, None] and not any(asked[::2]), "another VM may answer now"
    model.until(lambda outcome: model.posted, passes=8)


def test_a_name_in_azure_that_was_not_told_is_asked_for_again_once_there_is_an_event():
    model = Model()
    model.settings["web1"]["resource_name"] = "vm_web2"
    observe, told = model.observe_host, [""]

    def look(name):
        turn = model.turn(name)
        asks = name == "web1" and (turn["options"].get("ask_name") if turn else True)
        return dict(observe(name), resource_name="vm_web2", **({"told_name": told[0]} if asks else {}))

    model.observe_host = look
    for _pass in range(2):
        model.go()
    assert "ask_name" not in model.turn("web1")["options"], "that costs a request, which may hang"
    model.announce("e1", "web1")
    model.go()
    told[0] = "vm_web1"
    outcome = model.go()
    assert "graceful_azure_resource_name is vm_web2, and its metadata service calls this VM vm_web1" in outcome["hosts"]["web1"]["reason"]
    assert model.turn("web1")["options"].get("ask_name") is None
