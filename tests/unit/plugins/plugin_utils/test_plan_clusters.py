# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts that are members of clusters: one after the other, until the impact is near."""

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._cluster_types import TYPES
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import ON_HOST
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.groups import groups_in, groups_out
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.acts import needs_files
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.turns import first_turns
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.needed import lacking
from ansible_collections.graceful.azure.plugins.plugin_utils._settings import read_settings

from tests.support.model import Model
from tests.support.steps import steps_of

HA = {"name": "ha", "type": "pacemaker"}
RECORD = "cluster pacemaker ha"
NEEDED = {"kubernetes": {"host": "https://10.0.0.1:6443", "api_key_file": "/etc/drain/token"}}


def model_of(*steps, hosts=2, **more):
    return Model(hosts=hosts, drain_host={"steps": steps_of(*steps or [HA])}, **more)


def out(model):
    """The hosts that are out of the cluster."""
    return [name for name in model.names if RECORD in model.hosts[name]["tasks"]]


def acts(model, name="web1"):
    return [act for turn in model.outcome["turns"][name] for act in turn.get("acts", ()) if act["module"] == "cluster_hold"]


class TestTheList:
    def test_a_step(self):
        (step,) = steps_of({**HA, "node": "n1", "cluster": "prod"})
        assert step == {"name": "ha", "type": "pacemaker", "idle": False, "out": True, "in": True, "options": {"node": "n1"}, "cluster": "prod"}
        assert steps_of(HA)[0]["cluster"] == "ha"

    def test_its_acts(self):
        steps = steps_of(HA, {**HA, "name": "other"}, "shop")
        hold, release = {"state": "present", "event_ids": ["A"]}, {"state": "absent", "event_ids": ["A"]}
        goes = groups_out(steps)
        assert [(group["names"], group["idle"]) for group in goes] == [(["ha"], False), (["other"], False), (["shop"], True)]
        assert ON_HOST["pacemaker"].acts(goes[0], hold, {}) == {"type": "pacemaker", "name": "ha", "options": {"node": None}, "timeout": 1.0, **hold}
        comes = [ON_HOST[group["type"]].acts(group, release, {}) for group in groups_in(steps, ["cluster_pacemaker"])]
        # The last one takes along whatever else is on record.
        given = {"type": "pacemaker", "options": {"node": None}, "timeout": 1.0, **release}
        assert comes == [{"name": "other", **given}, given]
        # What it sets bears our name, so it is looked for where the record is lost.
        assert [group["names"] for group in groups_in(steps, [])] == [["other"], ["ha"]]
        assert groups_in(steps_of({"name": "db", "type": "patroni", "url": "http://127.0.0.1:8008"}), []) == []

    def test_of_a_type_that_the_settings_have_no_more(self):
        (group,) = groups_in([], ["cluster_pacemaker"])
        assert (group["type"], group["names"]) == ("pacemaker", [])
        assert groups_in([], []) == [] and [group["type"] for group in groups_in([], None)] == ["service"]

    @pytest.mark.parametrize(
        ("entry", "said"),
        [
            ({**HA, "node": "a b"}, "graceful_azure_duties[0].node: 'a b' is no name of a node"),
            ({**HA, "cluster": " "}, "graceful_azure_duties[0].cluster: ' ' is no name; give all hosts of one cluster the same name"),
            ({**HA, "cluster": ["prod"]}, "graceful_azure_duties[0].cluster: ['prod'] cannot be read as a text"),
            (
                {**HA, "nodes": "n1"},
                "graceful_azure_duties[0]: there is no option nodes; did you mean node?; for the type pacemaker there are type, name, cluster",
            ),
            ({**HA, "type": "pacemeker"}, "graceful_azure_duties[0].type: 'pacemeker' is no type of duty; did you mean pacemaker?"),
        ],
    )
    def test_mistakes(self, entry, said):
        (mistake,) = read_settings({"web1": {"graceful_azure_duties": [entry]}}, {"web1"})[1]
        assert mistake.startswith(f"web1: {said}")

    def test_every_type_is_a_type_of_step(self):
        assert set(TYPES) <= set(ON_HOST)

    def test_no_windows_host_has_one(self):
        settings = {"win1": {"load_balancers": [], "drain_host": {"steps": steps_of(HA)}}}
        assert list(lacking({"win1": {"graceful_azure_platform": "windows"}}, settings, lambda name: "999")) == [
            "win1: graceful_azure_duties: ha: no Windows host can have a duty of the type pacemaker"
        ]


class TestOneHost:
    @pytest.mark.parametrize("provider", ["haproxy", "none"])
    def test_its_life(self, provider):
        model = model_of(load_balancer={"provider": provider})
        model.hosts["web1"]["connections"] = [{"port": 80, "peer": "10.0.0.9", "count": 1}]
        model.announce("e1", "web1")
        model.until(lambda outcome: out(model) == ["web1"])
        # It hands over while somebody is still connected, and no role is needed.
        assert model.posted == [] and not needs_files(model.settings)
        model.hosts["web1"]["connections"] = []
        model.until(lambda outcome: model.posted)
        model.start("e1")
        model.go()
        model.killed()
        model.over("e1")
        outcome = model.finish()
        assert not outcome["failed_run"] and out(model) == [], outcome["messages"]

    def test_after_the_impact_nothing_is_set_again(self):
        """The member counts as out until the event is gone, whatever its reboot has undone."""
        model = model_of()
        model.announce("e1", "web1")
        model.until(lambda outcome: model.posted)
        model.start("e1")
        model.hosts["web1"]["silent"] = True
        model.go()
        model.hosts["web1"]["silent"] = False
        for _pass in range(10):
            model.go()
            assert acts(model) == [] and out(model) == ["web1"]
        model.over("e1")
        assert not model.finish()["failed_run"] and out(model) == []

    def test_what_it_waits_for_is_told(self):
        model = model_of()
        model.announce("e1", "web1")
        model.until(lambda outcome: acts(model))
        model.results["web1"]["drain_host"] = {"done": False, "waiting_for": ["2 resources run on web1"], "reason": "web1 is not drained"}
        model.decide()
        assert model.outcome["hosts"]["web1"]["reason"] == "2 resources run on web1"


class TestOneAfterTheOther:
    @pytest.mark.parametrize("provider", ["haproxy", "none"])
    def test_two_events(self, provider):
        model = model_of(load_balancer={"provider": provider})
        model.announce("e1", "web1", notice=900.0)
        model.announce("e2", "web2", notice=1000.0)
        model.until(lambda outcome: len(model.posted) == 1)
        assert out(model) == ["web1"]
        told = model.outcome["hosts"]["web2"]
        assert (told["state"], told["reason"]) == ("waiting", "waits for web1: members of the pacemaker cluster ha go out one after the other")
        if provider == "haproxy":
            assert model.in_rotation("web2") == ["lb1"]
        model.start("e1")
        model.hosts["web1"]["silent"] = True
        for _pass in range(5):
            model.go()
        assert out(model) == ["web1"] and len(model.posted) == 1
        model.hosts["web1"]["silent"] = False
        model.over("e1")
        model.until(lambda outcome: out(model) == ["web2"])
        assert RECORD not in model.hosts["web1"]["tasks"]
        model.over("e2")
        assert not model.finish()["failed_run"]

    def test_in_one_event_the_second_gives_way_before_the_impact(self):
        """Both are hit at once, so the second one goes while there is still time to drain it. Then the cluster is not asked any more."""
        model = model_of()
        model.announce("e1", "web1", "web2", notice=600.0)
        model.until(lambda outcome: out(model) == ["web1"])
        at = model.now
        assert "force" not in acts(model, "web1")[0]["args"]
        model.until(lambda outcome: "web2" in out(model))
        assert 450.0 <= model.now - at <= 480.0
        assert acts(model, "web2")[0]["args"]["force"] is True
        model.until(lambda outcome: model.posted)

    def test_shortly_before_the_impact_the_first_one_is_not_asked_any_more_either(self):
        """Without both, the cluster has no majority. The first one waited for the second, and would be needed from then on."""
        model = model_of()
        model.announce("e1", "web1", "web2", notice=600.0)
        model.until(lambda outcome: "web2" in out(model))
        model.hosts["web1"]["on"] = ["Consul (ha): without web1 the servers of Consul would lose their majority"]
        model.go()
        assert acts(model, "web1")[0]["args"]["force"] is True and model.posted == []
        model.until(lambda outcome: model.posted, 5)

    def test_a_new_run_knows_who_is_out(self):
        model = model_of()
        model.announce("e1", "web1")
        model.until(lambda outcome: model.posted)
        model.killed()
        model.announce("e2", "web2", notice=700.0)
        for _pass in range(5):
            model.go()
        assert out(model) == ["web1"] and model.in_rotation("web2") == ["lb1"]

    def test_who_has_begun_goes_on(self):
        model = model_of()
        model.hosts["web2"]["connections"] = [{"port": 80, "peer": "10.0.0.9", "count": 1}]
        model.announce("e2", "web2", notice=900.0)
        model.until(lambda outcome: not model.in_rotation("web2"))
        model.announce("e1", "web1", notice=600.0)
        model.until(lambda outcome: out(model))
        assert out(model) == ["web2"] and model.in_rotation("web1") == ["lb1"]

    def test_a_member_that_nobody_can_read_counts_as_out(self):
        model = model_of()
        model.run["watch"] = True
        model.go()
        model.hosts["web1"]["silent"] = True
        model.announce("e1", "web1", notice=900.0)
        model.announce("e2", "web2", notice=900.0)
        for _pass in range(5):
            model.go()
        assert out(model) == []
        told = model.outcome["hosts"]["web2"]
        assert told["reason"].startswith("waits for web1")

    @pytest.mark.parametrize("wait", [True, False])
    def test_a_member_that_a_run_has_never_read_may_be_out(self, wait):
        """The run before was killed. The first look of the next one comes too late, so it does not know the name of the VM that the event means."""
        model = model_of()
        model.announce("e1", "web1")
        model.until(lambda outcome: model.posted)
        model.killed()
        model.run.update(wait=wait, look_twice=not wait)
        model.hosts["web1"]["silent"] = True
        model.announce("e2", "web2")
        # As long as an event names a VM that nobody knows, it may be this one.
        for _pass in range(30):
            model.go()
        assert out(model) == ["web1"] and model.in_rotation("web2")
        model.hosts["web1"]["silent"] = False
        for _pass in range(5):
            model.go()
        assert out(model) == ["web1"] and model.in_rotation("web2")

    def test_a_member_that_was_deleted_keeps_nobody(self):
        model = model_of(hosts=3)
        model.run["watch"] = True
        model.announce("e1", "web1", event_type="Preempt", notice=30.0)
        model.until(lambda outcome: model.posted)
        model.start("e1")
        model.go()
        model.hosts["web1"]["silent"] = True
        model.announce("e2", "web2", notice=900.0)
        for _pass in range(5):
            model.go()
        assert model.outcome["hosts"]["web2"]["reason"].startswith("waits for web1")
        model.over("e1")
        model.until(lambda outcome: "web2" in out(model), 20)

    def test_a_member_that_is_gone_keeps_nobody_for_long(self):
        model = model_of()
        model.hosts["web1"]["silent"] = True
        model.announce("e2", "web2")
        began = model.now
        model.until(lambda outcome: out(model) == ["web2"])
        assert 30.0 <= model.now - began < 45.0

    @pytest.mark.parametrize("provider", ["haproxy", "none"])
    def test_a_member_that_nobody_can_read_waits_for_its_turn_too(self, provider):
        """A look that came too late must not let it go. For the others, it counts as out."""
        model = model_of(hosts=3, load_balancer={"provider": provider})
        for name in ("web1", "web2", "web3"):
            model.announce(f"e{name[-1]}", name, notice=900.0)
        model.until(lambda outcome: len(model.posted) == 1)
        model.hosts["web2"]["silent"] = True
        for _pass in range(3):
            model.go()
        assert out(model) == ["web1"] and all(model.in_rotation(name) for name in ("web2", "web3") if provider == "haproxy")
        model.hosts["web2"]["silent"] = False
        model.over("e1")
        model.until(lambda outcome: out(model) == ["web2"])

    TURN = "members of the pacemaker cluster ha go out one after the other"

    def test_a_member_that_is_out_keeps_another_from_being_hit_unprepared(self):
        model = model_of(min_in_service=0, rules=[{"name": "freezes", "when": "event_type == 'Freeze'", "action": "approve"}])
        model.announce("e1", "web1", notice=900.0)
        model.until(lambda outcome: model.posted)
        model.announce("e2", "web2", event_type="Freeze", notice=800.0)
        for _pass in range(6):
            model.go()
        assert [posted[1] for posted in model.posted] == ["e1"]
        assert model.outcome["hosts"]["web2"]["reason"] == f"waits for web1: {self.TURN}"
        model.over("e1")
        model.until(lambda outcome: len(model.posted) == 2)

    def test_it_does_so_until_the_impact_is_near(self):
        model = model_of(min_in_service=0, rules=[{"name": "freezes", "when": "event_type == 'Freeze'", "action": "approve"}])
        model.announce("e1", "web1", notice=900.0)
        model.until(lambda outcome: model.posted)
        model.announce("e2", "web2", event_type="Freeze", notice=300.0)
        model.start("e1")
        at = model.now
        model.until(lambda outcome: len(model.posted) == 2)
        assert 150.0 <= model.now - at <= 170.0

    def test_the_time_to_drain_begins_with_its_turn(self):
        """A rule that approves what is not drained in time does not hit a second member while the first one is out."""
        model = model_of(load_balancer={"provider": "none"}, rules=[{"name": "impatient", "on_drain_timeout": "approve"}])
        model.announce("e1", "web1", notice=900.0)
        model.announce("e2", "web2", notice=1000.0)
        model.until(lambda outcome: model.posted)
        model.start("e1")
        begun = model.now
        while model.now < begun + 300.0:
            model.go()
        assert [posted[1] for posted in model.posted] == ["e1"] and out(model) == ["web1"]
        assert model.outcome["hosts"]["web2"]["reason"] == f"waits for web1: {self.TURN}"
        model.hosts["web2"]["connections"] = [{"port": 80, "peer": "10.0.0.9", "count": 1}]
        model.over("e1")
        model.until(lambda outcome: out(model) == ["web2"])
        at = model.now
        model.until(lambda outcome: len(model.posted) == 2)
        assert at + 110.0 <= model.now <= at + 130.0

    def test_the_second_member_of_an_event_is_not_approved_before_its_turn(self):
        model = model_of(load_balancer={"provider": "none"}, rules=[{"name": "impatient", "on_drain_timeout": "approve"}])
        model.announce("e1", "web1", "web2", notice=600.0)
        model.until(lambda outcome: model.posted)
        assert out(model) == ["web1", "web2"]

    def test_members_that_are_hit_together_unprepared_do_not_wait(self):
        model = model_of(min_in_service=0, rules=[{"name": "freezes", "action": "approve"}])
        model.announce("e1", "web1", "web2", event_type="Freeze")
        model.until(lambda outcome: model.posted, passes=5)

    @pytest.mark.parametrize("action", ["approve", "ignore"])
    def test_a_member_whose_impact_has_begun_counts_as_out_whatever_its_rule(self, action):
        model = model_of(min_in_service=0, rules=[{"name": "freezes", "when": "event_type == 'Freeze'", "action": action}])
        model.announce("e1", "web1", event_type="Freeze", status="Started")
        model.announce("e2", "web2", notice=900.0)
        for _pass in range(6):
            model.go()
        assert out(model) == [] and model.posted == []
        assert model.outcome["hosts"]["web2"]["reason"] == f"waits for web1: {self.TURN}"
        model.over("e1")
        model.until(lambda outcome: out(model) == ["web2"])

    def test_members_of_other_clusters_do_not_wait(self):
        model = model_of()
        model.settings["web2"]["drain_host"]["steps"] = steps_of({**HA, "cluster": "another"})
        model.announce("e1", "web1")
        model.announce("e2", "web2")
        model.until(lambda outcome: out(model) == ["web1", "web2"])

    def test_hosts_without_a_cluster_do_not_wait(self):
        model = model_of(hosts=3, watch=True)
        model.settings["web3"]["drain_host"]["steps"] = []
        model.announce("e1", "web1")
        model.announce("e2", "web3")
        model.until(lambda outcome: len(model.posted) == 2)


@pytest.mark.parametrize("kind", sorted(TYPES))
class TestASecondEventInEveryCluster:
    """Whatever the type, one record has all events of a member, and a member that is out counts until the last of them is over."""

    @pytest.fixture(name="model")
    def make_model(self, kind):
        return model_of({"name": "ha", "type": kind, **NEEDED.get(kind, {})}, hosts=3)

    @staticmethod
    def held(model, kind, name="web1"):
        return sorted(model.hosts[name]["tasks"].get(f"cluster {kind} ha") or ())

    def test_for_the_same_member(self, model, kind):
        model.announce("e1", "web1", notice=600.0)
        model.until(lambda outcome: model.posted)
        model.announce("e2", "web1", notice=900.0)
        model.until(lambda outcome: self.held(model, kind) == ["e1", "e2"])
        model.start("e1")
        model.go()
        # What comes next is another run's.
        model.killed()
        model.over("e1")
        for _pass in range(20):
            model.go()
            assert "e2" in self.held(model, kind) and not model.in_rotation("web1")
        assert "e2" in str(model.posted)
        model.start("e2")
        model.over("e2")
        assert not model.finish()["failed_run"] and self.held(model, kind) == [] and model.in_rotation("web1")

    def test_for_another_member(self, model, kind):
        model.announce("e1", "web1", notice=600.0)
        model.until(lambda outcome: model.posted)
        model.announce("e2", "web2", notice=900.0)
        model.killed()
        for _pass in range(10):
            model.go()
        waits = TYPES[kind].one_by_one
        assert bool(self.held(model, kind, "web2")) is not waits
        model.over("e1")
        model.until(lambda outcome: self.held(model, kind, "web2") == ["e2"], passes=30)
        assert self.held(model, kind) == [] or not waits
        model.over("e2")
        assert not model.finish()["failed_run"] and not self.held(model, kind) and not self.held(model, kind, "web2")


class TestALostRecord:
    """What bears our name in a cluster tells its events."""

    def model(self, resources, **more):
        model = model_of(hosts=1, **more)
        entry = {"since": "2026-11-25T21:00:00Z", "reason": "", "details": {"resources": resources} if resources else {}}
        model.hosts["web1"]["tasks"][RECORD] = {"A": entry}
        seen, model.asked = model.observe_host, []

        def observe(name):
            turn = model.turn(name)
            model.asked.append(turn is None or bool(turn["options"].get("marks")))
            found = seen(name)
            return dict(found, holds=[dict(record, marked=True) for record in found["holds"] if model.asked[-1]])

        model.observe_host = observe
        return model

    def test_it_is_given_back(self):
        model = self.model(["vm_web1"])
        outcome = model.finish()
        assert not outcome["failed_run"] and not out(model)
        assert [(role, events) for _at, _name, role, events in model.steps] == [("restore_service", ("A",))]

    def test_it_is_asked_for_as_long_as_it_is_there(self):
        model = self.model(["vm_web1"], watch=True)
        for _pass in range(12):
            model.go()
        assert model.asked[0] and not model.asked[-1] and not out(model)
        # After an impact the host may have a new disk.
        model.announce("e1", "web1")
        model.go()
        assert not model.asked[-1]
        model.start("e1")
        model.go()
        model.go()
        assert model.asked[-1]

    def test_a_hold_of_a_person_stays_and_the_event_still_stands(self):
        model = self.model([])
        model.go()
        assert out(model) and model.steps == []
        model = self.model(["vm_web1"])
        model.announce("A", "web1")
        for _pass in range(6):
            model.go()
        assert out(model) and "restore_service" not in [role for _at, _name, role, _events in model.steps]


@pytest.mark.parametrize("kind", ["patroni", "redis", "consul", "rabbitmq"])
def test_a_leader_whose_balancer_sends_to_leaders_alone_hands_over_before_the_minimum_counts(kind):
    """The checks of HAProxy pass for the leader alone, so nobody else is in service before it has handed over. Others would serve less than before."""
    model = Model(hosts=3, drain_host={"steps": steps_of({"name": "db", "type": kind}, {"type": "haproxy", "hosts": ["lb1"]})})
    up = {name: model.servers["lb1"][name] for name in model.names}
    for name in ("web2", "web3"):
        up[name]["up"] = False
    model.announce("e1", "web1", notice=900.0)
    for _pass in range(3):
        model.go()
    hands_over = kind in ("patroni", "redis")
    assert (f"cluster {kind} db" in model.hosts["web1"]["tasks"]) is hands_over
    assert model.in_rotation("web1"), "nobody else serves yet"
    if hands_over:
        up["web1"]["up"], up["web2"]["up"] = False, True
        model.until(lambda outcome: model.posted, passes=8)
    else:
        assert model.outcome["hosts"]["web1"]["reason"].startswith("1 of 3 in service")


def test_only_clusters_that_tell_names_are_asked_in_the_first_pass():
    steps = steps_of(HA, {"name": "db", "type": "patroni", "url": "http://127.0.0.1:8008"}, "shop")

    def marks(model):
        return [turn["options"].get("marks") for turn in first_turns(model.settings, False, 5.0)["web1"] if "ports" in turn["options"]]

    assert marks(Model(hosts=1, drain_host={"steps": steps})) == [[{"type": "pacemaker", "name": "ha", "node": None}]]
    assert marks(Model(hosts=1)) == [[]]
