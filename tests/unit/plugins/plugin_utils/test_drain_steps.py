# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The drain steps: what the settings say as one list, what is wrong with them, and that the plan needs no more than the list."""

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import ON_HOST
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.groups import groups_in, groups_out
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.on_host import HostDuty
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.acts import needs_files
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.needed import lacking
from ansible_collections.graceful.azure.plugins.plugin_utils._settings import read_settings

from tests.support.model import Model
from tests.support.steps import steps_of

QUEUE = {"name": "queue", "type": "tasks", "out": "out.yml", "back": "in.yml"}
SHOP = {"name": "shop", "type": "service"}
# Names under which an older version left its records.
BEFORE = {"name": "drain_host_before", "type": "tasks", "out": "/before.yml"}
AFTER = {"name": "drain_host_after", "type": "tasks", "out": "/after.yml"}


def names(groups):
    return [group["names"] for group in groups]


@pytest.fixture(name="mistakes_in")
def make_mistakes_in(tmp_path):
    """What is told of duties, beside the task files out.yml and in.yml."""
    for name in ("out.yml", "in.yml"):
        (tmp_path / name).write_text("")

    def mistakes_in(*duties):
        given = {"graceful_azure_duties": list(duties)}
        return [mistake.removeprefix("web1: ") for mistake in read_settings({"web1": given}, {"web1"}, str(tmp_path))[1]]

    return mistakes_in


class TestOneList:
    def test_all_that_is_set(self):
        steps = steps_of(BEFORE, QUEUE, SHOP, "nginx", "db", AFTER, folder="/play")
        assert [(step["name"], step["type"], step["idle"]) for step in steps] == [
            ("drain_host_before", "tasks", False),
            ("queue", "tasks", False),
            ("shop", "service", True),
            ("nginx", "service", True),
            ("db", "service", True),
            ("drain_host_after", "tasks", True),
        ]
        assert (steps[1]["out"], steps[1]["in"]) == ("/play/out.yml", "/play/in.yml")
        assert [step.get("record") for step in steps if "record" in step] == ["drain_host_before", "drain_host_step_queue", "drain_host_after"]

    def test_what_comes_after_a_service_waits_as_the_service_does(self):
        assert [step["idle"] for step in steps_of("nginx", QUEUE)] == [True, True]
        assert [step["idle"] for step in steps_of(QUEUE, AFTER)] == [False, True]

    def test_services_that_stand_together_are_one_call(self):
        steps = steps_of("app", "cache", QUEUE, "db", "disk")
        assert names(groups_out(steps)) == [["app", "cache"], ["queue"], ["db", "disk"]]
        # The first call awaits nothing that the last one stops.
        acts = [ON_HOST[group["type"]].acts(group, {"state": "present"}, {}) for group in groups_out(steps)]
        assert [act.get("later") for act in acts] == [["db", "disk"], None, None]
        # What comes in last takes along whatever else is on record.
        assert names(groups_in(steps, ["service"])) == [["db", "disk"], ["queue"], []]
        assert names(groups_in(steps, [])) == [["queue"]]

    def test_sites_and_pools(self):
        shop = {"name": "shop", "type": "iis", "sites": ["Shop", "Cart"], "pools": ["ShopPool"]}
        steps = steps_of(shop, {"name": "blog", "type": "iis"}, "db")
        assert [step["idle"] for step in steps] == [True, True, True]
        hold = {"state": "present"}
        acts = [ON_HOST[group["type"]].acts(group, hold, {}) for group in groups_out(steps)]
        assert acts[0] == {"sites": ["Shop", "Cart"], "pools": ["ShopPool"], "timeout": 0, "state": "present"}
        assert acts[1] == {"sites": ["blog"], "timeout": 0, "state": "present"}
        # The last one takes along whatever else is on record.
        assert names(groups_in(steps, ["service", "iis"])) == [[], ["blog"], []]
        assert ON_HOST["iis"].acts(groups_in(steps, ["iis"])[-1], hold, {}) == {"timeout": 0, "state": "present"}

    def test_a_host_without_sites_is_not_asked_for_them(self):
        """Where nobody knows which records a host has, it is asked for services alone: a module more would cost every host."""
        assert [group["type"] for group in groups_in(steps_of(), None)] == ["service"]
        assert [group["type"] for group in groups_in(steps_of(), ["iis"])] == ["iis"]

    def test_services_that_are_set_no_more(self):
        assert [(group["type"], group["names"]) for group in groups_in(steps_of(QUEUE), ["service"])] == [("service", []), ("tasks", ["queue"])]

    def test_one_of_the_two_files(self):
        steps = steps_of({"name": "a", "type": "tasks", "out": "/out.yml"}, {"name": "b", "type": "tasks", "back": "/in.yml"})
        assert (names(groups_out(steps)), names(groups_in(steps))) == ([["a"]], [[], ["b"]])


class TestMistakes:
    @pytest.mark.parametrize(
        ("entry", "said"),
        [
            (7, "graceful_azure_duties[0]: 7 is neither a dictionary nor the name of a service"),
            ({"name": "a", "type": "servise"}, "graceful_azure_duties[0].type: 'servise' is no type of duty; did you mean service?; there are haproxy, nginx"),
            ({"name": "a"}, "graceful_azure_duties[0].type: not set; there are haproxy, nginx"),
            ({"type": "service"}, "graceful_azure_duties[0].name: not set"),
            ({"name": "a b", "type": "service"}, "graceful_azure_duties[0].name: 'a b' is not a plain word"),
            ("", "graceful_azure_duties[0].name: not set"),
            ({**QUEUE, "name": "../queue"}, "graceful_azure_duties[0].name: '../queue' is not a plain word"),
            ("db.service", "graceful_azure_duties[1].name: 'db' stands in graceful_azure_duties[0] already"),
            ({**SHOP, "out": "x"}, "graceful_azure_duties[0]: there is no option out; for the type service there are type, name"),
            (
                {**QUEUE, "outt": "x"},
                "graceful_azure_duties[0]: there is no option outt; did you mean out?; for the type tasks there are type, name, out, back",
            ),
            ({"name": "a", "type": "tasks"}, "graceful_azure_duties[0]: neither out nor back is set"),
            ({**QUEUE, "back": "none.yml"}, "graceful_azure_duties[0].back: there is no task file "),
        ],
    )
    def test_each(self, mistakes_in, entry, said):
        (mistake,) = mistakes_in(entry, "db")
        assert mistake.startswith(said)

    @pytest.mark.parametrize("name", [False, True, 1.5, ["a"], "-x"])
    def test_what_is_no_name_is_told_and_never_dropped(self, mistakes_in, name):
        (mistake,) = mistakes_in({**QUEUE, "name": name})
        assert mistake.startswith(f"graceful_azure_duties[0].name: {name!r} ")
        assert len(steps_of({**QUEUE, "name": name})) == 1

    def test_a_template_is_no_unit(self, mistakes_in):
        (mistake,) = mistakes_in("worker@")
        assert mistake == "graceful_azure_duties[0].name: 'worker@' is a template; name an instance of it, such as worker@1"

    def test_a_name_stands_for_one_step(self, mistakes_in):
        assert mistakes_in(SHOP, {**QUEUE, "name": "shop"}) == [
            "graceful_azure_duties[1].name: 'shop' stands in graceful_azure_duties[0] already; give each entry a name of its own"
        ]
        assert mistakes_in(QUEUE, SHOP, "postgresql@15-main.service", "nginx") == []


class Bell(HostDuty):
    """A made-up step: a bell that is taken off the wall, and hung up again."""

    name = "bell"
    module = "bell_hold"
    record = "bell"
    options = {"tower": {"type": "str"}}

    def acts(self, group, hold, step):
        return dict(hold, bells=group["names"])


class TestAMadeUpType:
    @pytest.fixture(name="model")
    def make_model(self, monkeypatch):
        monkeypatch.setitem(ON_HOST, "bell", Bell())
        return Model(drain_host={"steps": steps_of("shop", {"name": "gong", "type": "bell"}, "db")})

    @staticmethod
    def acts(model):
        acts = [act for turn in model.outcome["turns"]["web1"] for act in turn.get("acts", ())]
        return [(act["module"], act["args"].get("services") or act["args"].get("bells")) for act in acts]

    def test_the_whole_life_of_an_event(self, model):
        model.run.update(forks=5, sleep=1.0)
        model.announce("e1", "web1")
        model.until(lambda outcome: (outcome["hosts"]["web1"]["step"] or {}).get("role") == "drain_host")
        assert self.acts(model) == [("service_hold", ["shop"]), ("bell_hold", ["gong"]), ("service_hold", ["db"]), ("task_hold", None)]
        assert not needs_files(model.settings) and model.posted == []
        model.until(lambda outcome: model.posted)
        model.start("e1")
        model.go()
        model.killed()
        model.over("e1")
        outcome = model.finish()
        assert not outcome["failed_run"], outcome["messages"]
        assert model.hosts["web1"]["tasks"] == {} and model.in_rotation("web1") == ["lb1"]

    def test_its_options_are_kept_and_looked_at(self, monkeypatch):
        monkeypatch.setitem(ON_HOST, "bell", Bell())
        (group,) = groups_out(steps_of({"name": "gong", "type": "bell", "tower": "north"}))
        assert group["steps"][0]["tower"] == "north"
        assert ON_HOST["bell"].looks(group) == [{"type": "bell", "name": "gong", "tower": "north"}]

    def test_a_windows_host_has_none_unless_it_says_so(self, monkeypatch):
        settings = {"win1": {"drain_host": {"steps": [{"name": "gong", "type": "bell"}]}, "load_balancers": []}}
        hosts = {"win1": {"graceful_azure_platform": "windows"}}
        monkeypatch.setitem(ON_HOST, "bell", Bell())
        (said,) = lacking(hosts, settings, lambda name: "99.0")
        assert said == "win1: graceful_azure_duties: gong: no Windows host can have a duty of the type bell"
        monkeypatch.setattr(Bell, "windows", True)
        assert list(lacking(hosts, settings, lambda name: "99.0")) == []


class TestATypeThatDoesNotWait(TestAMadeUpType):
    """It hands over before anybody is idle, and the services after it wait all the same."""

    @pytest.fixture(name="model")
    def make_model(self, monkeypatch):
        monkeypatch.setattr(Bell, "needs_idle", False)
        monkeypatch.setitem(ON_HOST, "bell", Bell())
        return Model(drain_host={"steps": steps_of({"name": "gong", "type": "bell"}, "shop")})

    def test_the_whole_life_of_an_event(self, model):
        model.run.update(forks=5, sleep=1.0)
        model.hosts["web1"]["connections"] = [{"port": 80, "peer": "10.0.0.9", "count": 1}]
        model.announce("e1", "web1")
        model.until(lambda outcome: (outcome["hosts"]["web1"]["step"] or {}).get("role") == "drain_host")
        for _pass in range(4):
            assert self.acts(model) == [("bell_hold", ["gong"])] and "drained" not in model.hosts["web1"]["tasks"]
            model.go()
        model.hosts["web1"]["connections"] = []
        model.until(lambda outcome: (outcome["hosts"]["web1"]["step"] or {}).get("idle"))
        assert self.acts(model) == [("bell_hold", ["gong"]), ("service_hold", ["shop"]), ("task_hold", None)]


class TestTasks:
    def test_it_begins_before_the_host_is_idle(self):
        model = Model(drain_host={"steps": steps_of(QUEUE, "shop")})
        model.hosts["web1"]["connections"] = [{"port": 80, "peer": "10.0.0.9", "count": 1}]
        model.announce("e1", "web1")
        model.until(lambda outcome: "drain_host_step_queue" in model.hosts["web1"]["tasks"])
        assert needs_files(model.settings) and model.posted == []
        model.hosts["web1"]["connections"] = []
        model.until(lambda outcome: model.posted)

    def test_after_a_service_it_waits_with_that(self):
        model = Model(drain_host={"steps": steps_of("shop", QUEUE)})
        model.hosts["web1"]["connections"] = [{"port": 80, "peer": "10.0.0.9", "count": 1}]
        model.announce("e1", "web1")
        for _pass in range(6):
            model.go()
        assert model.hosts["web1"]["tasks"] == {}

    def test_a_killed_run_is_continued_from_its_record(self):
        model = Model(drain_host={"steps": steps_of(QUEUE)}, load_balancer={"provider": "none"})
        model.announce("e1", "web1")
        model.until(lambda outcome: model.posted)
        model.killed()
        model.over("e1")
        outcome = model.finish()
        assert not outcome["failed_run"] and model.hosts["web1"]["tasks"] == {}, outcome["messages"]

    def test_a_step_that_is_set_no_more_is_told(self):
        """Nobody knows any more which file undoes it. Its record goes, and the closing table says what is left to do."""
        model = Model(drain_host={"steps": steps_of(QUEUE)})
        model.announce("e1", "web1")
        model.until(lambda outcome: model.posted)
        model.killed()
        model.settings["web1"]["drain_host"]["steps"] = steps_of({**QUEUE, "name": "other"})
        model.over("e1")
        outcome = model.finish()
        told = "the duty queue was handed over, and graceful_azure_duties has it no more: take it back by hand"
        assert told in outcome["hosts"]["web1"]["reason"] and outcome["hosts"]["web1"]["state"] == "needs_person", outcome
        assert outcome["failed_run"]
        assert model.hosts["web1"]["tasks"] == {} and model.in_rotation("web1") == ["lb1"]

    def test_a_step_without_a_file_for_the_way_out_keeps_nobody_from_being_ready(self):
        model = Model(drain_host={"steps": steps_of({"name": "a", "type": "tasks", "back": "/in.yml"})})
        model.announce("e1", "web1")
        model.until(lambda outcome: model.posted)
        assert "drain_host" not in [role for _at, _name, role, _ids in model.steps]
