# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Holds on services of a systemd that is made up. The molecule scenario has a real one."""

from __future__ import annotations

import functools
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from ansible_collections.graceful.azure.plugins.module_utils import _hold_engine, _systemd
from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import DriverError, Engine
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Request, Store
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import SERVICE
from ansible_collections.graceful.azure.plugins.module_utils._stopped_in_order import DryManager
from ansible_collections.graceful.azure.plugins.module_utils._systemd import (
    Services,
    Systemd,
    SystemdError,
    SystemdRefused,
    Unit,
)
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.support.killed import hold_killed


class Model:
    """systemd as far as a hold is concerned, with a clock of its own."""

    names, comes_back = staticmethod(Systemd.names), staticmethod(Systemd.comes_back)
    unknown, hint = Systemd.unknown, Systemd.hint

    def __init__(self, **units):
        self.now = 0.0
        self.boot = "boot-1"
        self.units = {}
        self.told = []
        self.refuse = None
        for name, state in units.items():
            self.add(name + ".service", state)

    def add(
        self, name, state="active", stop_takes=0.0, start_takes=0.0, dependents=(), becomes="active", load="loaded", triggers=(), ends=False, left="", wanted=()
    ):
        self.units[name] = {
            "state": state,
            "stop_takes": stop_takes,
            "start_takes": start_takes,
            "dependents": tuple(dependents),
            "becomes": becomes,
            "load": load,
            "triggers": tuple(triggers),
            "ends": ends,
            "left": left,
            "wanted": tuple(wanted),
            "then": None,
        }

    def sleep(self, seconds):
        self.now += seconds

    def monotonic(self):
        return self.now

    def boot_id(self):
        return self.boot

    def _settle(self):
        for unit in self.units.values():
            if unit["then"] and self.now >= unit["then"][0]:
                unit["state"], unit["then"] = unit["then"][1], None

    def state(self, name):
        self._settle()
        return self.units[name + ".service"]["state"]

    def show(self, names):
        self._settle()
        nothing = {"state": "inactive", "load": "not-found", "dependents": (), "triggers": (), "ends": False, "left": ""}
        found = [self.units.get(name, nothing) for name in names]
        return [
            Unit(
                name,
                one["state"],
                one["load"],
                False,
                one["dependents"],
                one["triggers"],
                one["ends"],
                "exit-code" if one["state"] == "failed" else "success",
                one["left"] if one["state"] in ("inactive", "failed") else "",
                bool(one.get("queued")) and one["state"] in ("inactive", "failed"),
                one.get("rivals", ()),
                bool(one.get("exited")) and one["state"] == "active",
                one.get("wanted", ()),
            )
            for name, one in zip(names, found)
        ]

    def stop(self, name):
        self._settle()
        if self.refuse == name:
            raise SystemdRefused("no")
        self.told.append(("stop", name))
        self.units[name]["queued"] = False
        for dependent in self.units[name]["dependents"]:
            if self.units[dependent]["state"] == "active":
                self._go(dependent, "deactivating", "stop_takes", "inactive")
        if self.units[name]["state"] in ("active", "activating", "reloading"):
            self._go(name, "deactivating", "stop_takes", "inactive")

    def start(self, name):
        self._settle()
        if self.refuse == name:
            raise SystemdRefused("no")
        self.told.append(("start", name))
        runs = any(self.units[triggered]["state"] not in ("inactive", "failed") for triggered in self.units[name]["triggers"])
        if runs and name.endswith((".socket", ".automount")):
            return  # EBUSY for a socket and EEXIST for an automount, which a start without waiting does not tell
        for needed in self.units[name].get("needs", ()):
            if self.units[needed]["state"] != "active":
                self._go(needed, "activating", "start_takes", "active")
        if self.units[name]["state"] != "active":
            self._go(name, "activating", "start_takes", self.units[name]["becomes"])

    def _go(self, name, by, takes, to):
        unit = self.units[name]
        unit["state"], unit["then"] = by, (self.now + unit[takes], to)
        self._settle()

    def reboot(self, enabled=()):
        self.boot = "boot-%d" % (int(self.boot[5:]) + 1)
        for name, unit in self.units.items():
            unit["state"], unit["then"] = "active" if name in enabled else "inactive", None


@pytest.fixture
def model():
    return Model(shop="active", db="active", cache="inactive")


@pytest.fixture
def store(tmp_path):
    return Store(str(tmp_path / "state"))


def hold(model, store, services=("shop", "db", "cache"), ids=("A",), present=True, timeout=0.0, dry=False):
    request = Request(present, None if ids is None else list(ids), "why", now="T")
    clock = {"monotonic": model.monotonic, "sleep": model.sleep}
    store = Store(store.state_dir, dry=True) if dry else store
    driver = Services(DryManager(model, Services) if dry else model, store, request, None if services is None else list(services), timeout, **clock)
    engine = Engine(driver, store, request, **clock)
    engine.run(timeout)
    return engine.result("services")


def release(model, store, ids=None, services=None, **more):
    return hold(model, store, services, ids, present=False, **more)


def conditions(result):
    return {service["name"].rpartition(".")[0]: service["condition"] for service in result["services"]}


class TestAboutToStart:
    """After a boot, ssh answers before the services run: their starts wait for what comes before them."""

    def test_it_is_not_off(self, model):
        model.units["shop.service"].update(state="inactive", queued=True)
        (unit,) = model.show(["shop.service"])
        assert _systemd.is_up(unit) and not _systemd.is_off(unit) and _systemd.state_of(unit) == "inactive, and systemd is about to start it"

    def test_its_start_is_called_off_and_made_up_for(self, model, store):
        model.units["shop.service"].update(state="inactive", queued=True)
        assert conditions(hold(model, store, ["shop"], dry=True)) == {"shop": "held"} and model.told == []
        assert conditions(hold(model, store, ["shop"])) == {"shop": "held"} and model.told == [("stop", "shop.service")]
        release(model, store)
        assert model.told[1:] == [("start", "shop.service")] and store.records() == []

    def test_after_a_reboot_for_another_event(self, model, store):
        hold(model, store, ["shop"], ["A", "B"])
        model.reboot()
        model.units["shop.service"]["queued"] = True
        driver = Services(model, store, Request(True, []), ["shop"])
        assert driver.why_on(driver.look_only()) == ["shop.service is inactive, and systemd is about to start it since the host was booted anew"]
        assert hold(model, store, ["shop"], ["B"])["done"] and model.told[-1] == ("stop", "shop.service")
        assert driver.why_on(driver.look_only()) == []


class TestHold:
    def test_stopped_in_order_and_started_in_reverse(self, model, store):
        result = hold(model, store)
        assert result["changed"] and result["done"] and result["waiting_for"] is None
        assert conditions(result) == {"shop": "held", "db": "held", "cache": "not_running"}
        assert model.told == [("stop", "shop.service"), ("stop", "db.service")]
        assert not hold(model, store)["changed"]
        result = release(model, store)
        assert result["changed"] and result["done"] and conditions(result) == {"db": "none", "shop": "none"}
        assert model.told[2:] == [("start", "db.service"), ("start", "shop.service")]
        assert store.records() == []
        assert not release(model, store)["changed"]

    def test_the_record_tells_everything(self, model, store):
        hold(model, store, ["db"])
        (record,) = store.records(SERVICE)
        del record["path"]
        record.pop("machine", None)  # where the machine tells it
        assert record == {
            "version": 1,
            "kind": "service",
            "subject": {"service": "db.service"},
            "found": {"active_state": "active"},
            "left": {"active_state": "inactive"},
            "phase": "held",
            "events": {"A": {"since": "T", "reason": "why", "details": {}}},
            "boot_id": "boot-1",
            "order": 0,
        }

    def test_the_next_only_when_the_one_before_is_down(self, model, store):
        model.units["shop.service"]["stop_takes"] = 5.0
        result = hold(model, store)
        assert not result["done"] and result["waiting_for"] == "shop.service is deactivating"
        assert conditions(result) == {"shop": "stopping", "db": "stopping", "cache": "not_running"}
        assert model.now <= 2.2 and model.told == [("stop", "shop.service")]
        result = hold(model, store)
        assert not result["done"] and not result["changed"] and model.told == [("stop", "shop.service")]
        result = hold(model, store)
        assert result["done"] and conditions(result) == {"shop": "held", "db": "held", "cache": "not_running"}

    def test_waiting_until_it_is_done(self, model, store):
        model.units["shop.service"].update(stop_takes=20.0, start_takes=20.0)
        assert hold(model, store, timeout=60.0)["done"] and 20 <= model.now < 25
        assert release(model, store, timeout=60.0)["done"] and 40 <= model.now < 50
        assert model.state("shop") == model.state("db") == "active"

    def test_the_time_is_over(self, model, store):
        model.units["shop.service"]["stop_takes"] = 100.0
        result = hold(model, store, timeout=10.0)
        assert not result["done"] and 10 <= model.now < 11

    def test_the_last_event_releases(self, model, store):
        hold(model, store, ["shop"], ["A"])
        assert hold(model, store, ["shop"], ["B"])["services"][0]["held_by"] == ["A", "B"]
        result = release(model, store, ["a"])
        assert result["changed"] and conditions(result) == {"shop": "held"} and model.state("shop") == "inactive"
        assert not release(model, store, ["a"])["changed"]
        release(model, store, ["B"])
        assert model.state("shop") == "active"

    def test_only_the_services_named_are_released(self, model, store):
        hold(model, store)
        assert conditions(release(model, store, services=["db", "cache"])) == {"db": "none", "cache": "not_running"}
        assert model.state("shop") == "inactive" and len(store.records()) == 1

    def test_later_ones_go_after_earlier_ones(self, model, store):
        hold(model, store, ["shop"])
        hold(model, store, ["db"], ["B"])
        release(model, store)
        assert model.told[2:] == [("start", "db.service"), ("start", "shop.service")]

    @pytest.mark.parametrize("state", ["activating", "reloading", "refreshing"])
    def test_on_its_way_up_counts_as_running(self, model, store, state):
        model.units["shop.service"]["state"] = state
        model.units["shop.service"]["then"] = None
        hold(model, store, ["shop"])
        assert ("stop", "shop.service") in model.told

    def test_somebody_else_stops_it_just_now(self, model, store):
        model.units["shop.service"]["stop_takes"] = 1.0
        model.stop("shop.service")
        result = hold(model, store, ["shop"])
        assert result["done"] and not result["changed"] and conditions(result) == {"shop": "not_running"}
        release(model, store)
        assert model.state("shop") == "inactive"

    def test_failed_while_it_was_stopped(self, model, store):
        hold(model, store, ["shop"])
        model.units["shop.service"]["state"] = "failed"
        assert conditions(hold(model, store, ["shop"])) == {"shop": "held"}
        release(model, store)
        assert model.state("shop") == "active"

    def test_what_stops_along_with_it_comes_back(self, model, store):
        """db takes shop along, and shop its exporter; the target is passed through and left alone."""
        model.units["db.service"]["dependents"] = ("shop.service", "site.target", "cache.service")
        model.add("site.target", dependents=["exporter.service", "db.service"])
        model.add("exporter.service")
        before = {name: unit["state"] for name, unit in model.units.items() if name != "site.target"}
        result = hold(model, store, ["db"])
        assert conditions(result) == {"shop": "held", "exporter": "held", "db": "held"}
        assert [told[1] for told in model.told] == ["shop.service", "exporter.service", "db.service"]
        assert {record["along_with"] for record in store.records() if "along_with" in record} == {"db.service"}
        assert not hold(model, store, ["db"])["changed"]
        result = release(model, store, services=["db"])
        assert [name for how, name in model.told if how == "start"] == ["db.service", "exporter.service", "shop.service"]
        assert {name: unit["state"] for name, unit in model.units.items() if name != "site.target"} == before
        assert store.records() == []

    def test_one_with_a_step_of_its_own_comes_back_with_what_it_needs(self, model, store):
        """shop needs db. Given back before db, it would have systemd start db, as if somebody else had."""
        model.units["db.service"]["dependents"] = ("shop.service",)
        model.units["shop.service"]["needs"] = ("db.service",)
        hold(model, store, ["db"])
        hold(model, store, ["shop"])
        assert model.told == [("stop", "shop.service"), ("stop", "db.service")]
        first, last = release(model, store, services=["shop"]), release(model, store)
        assert first["done"] and last["done"] and first["conflicts"] == last["conflicts"] == []
        assert model.told[2:] == [("start", "db.service"), ("start", "shop.service")] and store.records() == []

    def test_a_socket_goes_before_its_service_and_comes_before_it(self, model, store):
        model.add("shop.socket")
        model.units["shop.service"]["dependents"] = ("shop.socket",)
        hold(model, store, ["db", "shop"])
        release(model, store)
        assert model.told == [
            ("stop", "db.service"),
            ("stop", "shop.socket"),
            ("stop", "shop.service"),
            ("start", "shop.socket"),
            ("start", "shop.service"),
            ("start", "db.service"),
        ]

    def test_a_socket_that_is_named_takes_along_what_it_has_started(self, model, store):
        """That would serve on, and while it does, systemd refuses to start the socket again."""
        model.add("shop.socket", triggers=["shop.service"])
        model.units["shop.service"]["dependents"] = ("shop.socket",)
        result = hold(model, store, ["shop.socket"])
        assert result["done"] and model.told == [("stop", "shop.socket"), ("stop", "shop.service")]
        assert not hold(model, store, ["shop.socket"])["changed"]
        result = release(model, store, services=["shop.socket"])
        assert result["done"] and result["conflicts"] == [] and store.records() == []
        assert model.told[2:] == [("start", "shop.socket"), ("start", "shop.service")]

    def test_a_socket_of_a_service_that_does_not_run(self, model, store):
        model.add("cache.socket", triggers=["cache.service"])
        hold(model, store, ["cache.socket"])
        assert release(model, store)["done"] and model.told == [("stop", "cache.socket"), ("start", "cache.socket")]

    def test_a_named_socket_takes_along_what_is_named_later_in_its_turn(self, model, store):
        model.add("shop.socket", triggers=["shop.service"])
        model.units["shop.service"]["dependents"] = ("shop.socket",)
        assert hold(model, store, ["shop.socket", "db", "shop"])["done"]
        assert model.told == [("stop", "shop.socket"), ("stop", "db.service"), ("stop", "shop.service")]
        assert release(model, store)["done"] and model.told[3:] == [("start", "shop.socket"), ("start", "shop.service"), ("start", "db.service")]

    @pytest.mark.parametrize("kind", ["timer", "path"])
    @pytest.mark.parametrize(("state", "ends"), [("activating", True), ("active", False)])
    def test_what_a_timer_or_a_path_has_started_is_awaited(self, model, store, kind, state, ends):
        """It is neither stopped halfway nor run again on the way back, whatever its Type= is."""
        unit = "backup.%s" % kind
        model.add("backup.service", state, ends=ends, dependents=[unit])
        model.add(unit, triggers=["backup.service"])
        result = hold(model, store, [unit])
        assert result["waiting_for"] == "%s is inactive, and backup.service, which it has started, is %s" % (unit, state)
        driver = Services(model, store, Request(True, []), [unit])
        assert driver.why_on(driver.look_only()) == [result["waiting_for"]]
        model.units["backup.service"]["state"] = "inactive"
        assert hold(model, store, [unit])["done"] and model.told == [("stop", unit)]
        assert release(model, store)["done"] and model.told[1:] == [("start", unit)]

    def test_what_a_target_has_started_is_awaited(self, model, store):
        """Only services that say PartOf= stop along with it."""
        model.add("web.service")
        model.add("shop.target", wanted=["shop.service", "web.service"], dependents=["web.service"])
        result = hold(model, store, ["shop.target"])
        assert result["waiting_for"] == "shop.target is inactive, and shop.service, which it has started, is active"
        driver = Services(model, store, Request(True, []), ["shop.target"])
        assert driver.why_on(driver.look_only()) == [result["waiting_for"]]
        # After a boot that does not start it, they run for another reason.
        model.reboot(enabled=["shop.service"])
        assert hold(model, store, ["shop.target"])["done"]
        assert release(model, store)["done"]
        assert hold(model, store, ["shop.target", "shop"])["done"] and release(model, store)["done"]
        assert {model.state("web"), model.state("shop"), model.units["shop.target"]["state"]} == {"active"}

    @pytest.mark.parametrize(("kind", "started"), [("target", "wanted"), ("timer", "triggers")])
    def test_what_a_later_call_stops_is_not_awaited(self, model, store, kind, started):
        """The module duty stops one service in each call. None must wait for a later one."""
        model.add("night.%s" % kind, **{started: ["shop.service", "db.service"]})
        for later, said in ((["shop"], "night.%s is inactive, and db.service, which it has started, is active" % kind), (["shop", "db.service"], None)):
            driver = Services(model, store, Request(True, ["A"]), ["night.%s" % kind], monotonic=model.monotonic, sleep=model.sleep)
            driver.later = later
            engine = Engine(driver, store, Request(True, ["A"]), model.monotonic, model.sleep)
            engine.run()
            assert engine.waiting_for == ([said] if said else [])

    def test_what_counts_as_active_after_its_end_is_not_awaited(self, model, store):
        """With RemainAfterExit=yes, and a target."""
        model.add("backup.service", dependents=["backup.timer"])
        model.units["backup.service"]["exited"] = True
        model.add("night.target")
        model.add("backup.timer", triggers=["backup.service", "night.target"])
        assert hold(model, store, ["backup.timer"])["done"] and release(model, store)["done"]
        assert model.told == [("stop", "backup.timer"), ("start", "backup.timer")]

    def test_the_job_of_a_timer_is_stopped_if_it_is_named(self, model, store):
        model.add("backup.service", "activating", ends=True, dependents=["backup.timer"])
        model.add("backup.timer", triggers=["backup.service"])
        for services in (["backup"], ["backup.timer", "backup"]):
            del model.told[:]
            assert hold(model, store, services)["done"] and model.told == [("stop", "backup.timer"), ("stop", "backup.service")]
            release(model, store)
            model.units["backup.service"]["state"] = "activating"

    def test_mounts_and_swaps_come_back_too(self, model, store):
        """The automount goes after its mount, which it would tear away, and comes back before it: later it is refused."""
        model.add("srv.mount", dependents=["srv.automount", "cache.service", "remote-fs.target"])
        model.add("srv.automount", triggers=["srv.mount"])
        model.add("dev-vdb.swap")
        model.add("idle.mount", "inactive")
        for name in ("remote-fs.target", "web.slice", "web.scope", "dev-vdb.device"):
            model.add(name)
        model.units["cache.service"]["state"] = "active"
        others = ("web.slice", "web.scope", "dev-vdb.device", "idle.mount")
        model.units["db.service"]["dependents"] = ("srv.automount", "srv.mount", "dev-vdb.swap") + others
        hold(model, store, ["db"])
        order = ["cache.service", "srv.mount", "srv.automount", "dev-vdb.swap", "db.service"]
        assert model.told == [("stop", name) for name in order]
        assert not hold(model, store, ["db"])["changed"]
        del model.told[:]
        result = release(model, store)
        assert result["done"] and result["conflicts"] == [] and store.records() == []
        assert model.told == [("start", name) for name in reversed(order)]
        assert {model.units[name]["state"] for name in order} == {"active"}

    def test_released_while_the_service_of_a_socket_goes_down(self, model, store):
        """The socket is down and refused until its service is: that is our own doing and no conflict."""
        model.add("shop.socket", triggers=["shop.service"])
        model.units["shop.service"].update(dependents=("shop.socket",), stop_takes=10.0)
        assert not hold(model, store, ["shop"])["done"]
        result = release(model, store)
        assert not result["done"] and result["conflicts"] == []
        result = release(model, store, timeout=30.0)
        assert result["done"] and result["conflicts"] == [] and store.records() == []
        assert model.told[2:] == [("start", "shop.socket"), ("start", "shop.service")]

    def test_a_cancelled_stop(self, model, store):
        """Released while the first is still on its way down and the second was not told yet."""
        model.units["shop.service"]["stop_takes"] = 10.0
        hold(model, store)
        release(model, store, timeout=30.0)
        assert model.state("shop") == model.state("db") == "active" and store.records() == []


GO_ON = "cron.service is inactive, and %s on"


class TestProcessesThatGoOn:
    """systemd leaves them with KillMode=process and none."""

    @pytest.fixture
    def model(self):
        model = Model(db="active")
        model.add("cron.service", left="2 of its processes go on")
        return model

    def test_it_is_off_when_they_have_ended(self, model, store):
        result = hold(model, store, ("cron", "db"))
        assert conditions(result) == {"cron": "stopping", "db": "stopping"}
        assert result["waiting_for"] == GO_ON % "2 of its processes go"
        result = hold(model, store, ("cron", "db"))
        assert conditions(result) == {"cron": "stopping", "db": "stopping"} and model.told == [("stop", "cron.service")]
        model.units["cron.service"]["left"] = ""
        assert conditions(hold(model, store, ("cron", "db"))) == {"cron": "held", "db": "held"}

    def test_of_one_that_was_stopped_before(self, model, store):
        model.units["cron.service"].update(state="inactive", left="1 of its connections goes on")
        result = hold(model, store, ("cron",))
        assert result["waiting_for"] == GO_ON % "1 of its connections goes"
        assert model.told == [] and store.records(SERVICE) == []

    def test_it_starts_again_beside_them(self, model, store):
        hold(model, store, ("cron",))
        release(model, store)
        assert model.told == [("stop", "cron.service"), ("start", "cron.service")] and store.records(SERVICE) == []


class TestSomebodyElse:
    def test_started_it_in_the_same_boot_and_it_is_stopped_once_more(self, model, store):
        hold(model, store)
        model.start("shop.service")
        result = hold(model, store)
        assert conditions(result)["shop"] == "held" and result["changed"] and result["done"] and model.state("shop") == "inactive"
        told = ["shop.service was started by somebody else while it was held, and was stopped once more."]
        assert result["conflicts"] == told
        result = hold(model, store)
        assert result["done"] and not result["changed"] and result["conflicts"] == []
        result = release(model, store)
        assert result["conflicts"] == told and conditions(result) == {"db": "none", "shop": "none"}
        assert model.state("shop") == "active" and store.records() == []

    def test_started_it_twice_and_it_is_left_and_waited_for(self, model, store):
        hold(model, store)
        model.start("shop.service")
        hold(model, store)
        model.start("shop.service")
        del model.told[:]
        result = hold(model, store)
        assert conditions(result)["shop"] == "changed_meanwhile" and not result["changed"] and not result["done"] and model.told == []
        assert result["waiting_for"].startswith("shop.service was stopped twice for the event and is active again")
        result = release(model, store)
        assert conditions(result) == {"db": "none", "shop": "changed_meanwhile"} and len(result["conflicts"]) == 1
        assert model.told == [("start", "db.service")] and store.records() == []

    def test_started_what_was_given_back_before_the_others(self, model, store):
        """What somebody did to one hold says nothing of the next one: that stops the service again."""
        services = ["db", "shop"]
        hold(model, store, services)
        model.start("shop.service")
        model.units["db.service"]["start_takes"] = 20.0
        result = release(model, store)
        assert not result["done"] and [record["subject"]["service"] for record in store.records()] == ["db.service"]
        result = hold(model, store, services, timeout=30.0)
        assert result["done"] and conditions(result) == {"db": "held", "shop": "held"} and result["conflicts"] == []

    def test_started_it_and_one_of_two_events_is_over(self, model, store):
        hold(model, store)
        hold(model, store, ids=["B"])
        model.start("shop.service")
        del model.told[:]
        result = release(model, store, ids=["A"])
        told = "shop.service was stopped and is active again in the same boot: somebody else started it, so it was not touched."
        assert result["conflicts"] == [told] and conditions(result)["shop"] == "changed_meanwhile" and model.told == []
        assert [list(record["events"]) for record in store.records(SERVICE)] == [["B"], ["B"]]

    @pytest.mark.parametrize("load", ["not-found", "masked"])
    def test_took_the_unit_away(self, model, store, load):
        hold(model, store)
        model.units["shop.service"]["load"] = load
        result = release(model, store)
        assert result["conflicts"] == ["shop.service was running when it was stopped and is %s now: it was not started." % load]
        assert model.state("shop") == "inactive" and model.state("db") == "active" and store.records() == []

    def test_started_what_excludes_it(self, model, store):
        """Such as the next version of the same application. systemd would stop that to start this one."""
        model.add("green.service", "inactive")
        model.units["shop.service"]["rivals"] = ("shutdown.target", "green.service")
        hold(model, store, ["shop", "db"])
        model.start("green.service")
        del model.told[:]
        result = release(model, store)
        said = "shop.service was stopped, and somebody else has started green.service since: they exclude each other, so it was left alone."
        assert result["conflicts"] == [said]
        assert result["done"] and model.told == [("start", "db.service")] and store.records() == []

    def test_a_boot_starts_what_excludes_it(self, model, store):
        """That is nobody's will: what ran before the event runs after it."""
        model.add("green.service", "inactive")
        model.units["shop.service"]["rivals"] = ("green.service",)
        hold(model, store, ["shop"])
        model.reboot(enabled=["green.service"])
        result = release(model, store)
        assert result["done"] and result["conflicts"] == [] and model.told[1:] == [("start", "shop.service")] and store.records() == []

    @pytest.mark.parametrize(("kind", "triggered"), [("shop.socket", "shop.service"), ("srv.automount", "srv.mount")])
    def test_started_what_a_held_unit_triggers(self, model, store, kind, triggered):
        """systemd refuses to start a socket whose service runs: it is told and left alone, and the rest comes back."""
        model.add(triggered, dependents=[kind])
        model.add(kind, triggers=[triggered])
        hold(model, store, [triggered, "db"])
        model.start(triggered)
        del model.told[:]
        result = release(model, store)
        assert result["done"] and model.told == [("start", "db.service")] and store.records() == []
        assert {one["condition"] for one in result["services"] if one["name"] in (kind, triggered)} == {"changed_meanwhile"}
        assert sorted(result["conflicts"]) == sorted(
            [
                "%s was stopped, and %s, which it triggers, is active: systemd refuses to start it now, so it was left alone." % (kind, triggered),
                "%s was stopped and is active again in the same boot: somebody else started it, so it was not touched." % triggered,
            ]
        )


class TestOneshot:
    """A unit that runs to its end and is never active; it ran when it was found, and for five seconds once it is started."""

    @pytest.fixture
    def model(self):
        model = Model(db="active")
        model.add("job.service", "activating", start_takes=5.0, becomes="inactive", ends=True)
        model.units["db.service"]["dependents"] = ("job.service",)
        return model

    @pytest.mark.parametrize("takes", [0.0, 0.5, 5.0])
    def test_started_once_and_done_when_it_has_ended(self, model, store, takes):
        model.units["job.service"]["start_takes"] = takes
        assert conditions(hold(model, store, ["db"])) == {"job": "held", "db": "held"}
        for _number in range(4):
            result = release(model, store)
            model.now += 2
        assert result["done"] and result["conflicts"] == [] and store.records() == []
        assert model.told[2:] == [("start", "db.service"), ("start", "job.service")]
        assert model.state("job") == "inactive"

    def test_a_record_of_a_former_release(self, model, store):
        """It was restoring and does not say whether it was started: it is, once more."""
        hold(model, store, ["db"])
        for record in store.records(SERVICE):
            store.write(dict(record, phase="restoring"))
        del model.told[:]
        assert release(model, store, timeout=30.0)["done"] and store.records() == []
        assert model.told == [("start", "db.service"), ("start", "job.service")]

    def test_a_start_that_was_refused_is_none(self, model, store):
        hold(model, store, ["db"])
        model.refuse = "job.service"
        with pytest.raises(SystemdRefused):
            release(model, store)
        model.refuse = None
        assert release(model, store, timeout=30.0)["done"] and ("start", "job.service") in model.told

    def test_one_that_fails_is_told(self, model, store):
        model.units["job.service"]["becomes"] = "failed"
        hold(model, store, ["db"])
        with pytest.raises(SystemdError, match="job.service was started and is failed"):
            release(model, store, timeout=30.0)
        assert len(store.records()) == 1

    @pytest.mark.parametrize("ended", [True, False])
    def test_another_event_while_it_is_restored(self, model, store, ended):
        """What ran to its end is not on record any more; what still runs is stopped, and started again afterwards."""
        hold(model, store, ["db"])
        release(model, store)
        model.now += 10 if ended else 0
        del model.told[:]
        hold(model, store, ["db"], ["B"])
        assert len(store.records()) == (1 if ended else 2)
        if not ended:
            # Its former start does not count any more.
            model.refuse = "job.service"
            with pytest.raises(SystemdRefused):
                release(model, store, timeout=30.0)
            model.refuse = None
        assert release(model, store, timeout=30.0)["done"] and store.records() == []
        assert (("start", "job.service") in model.told) is not ended

    def test_killed_at_any_moment(self, store, model):
        for budget in range(200):
            model.units["job.service"]["state"] = "activating"
            hold(model, store, ["db"], timeout=30.0)
            done = killed_hold(model, store, budget, services=None, present=False, timeout=30.0)
            result = release(model, store, timeout=30.0)
            assert result["done"] and result["conflicts"] == [] and store.records() == []
            assert model.told[-1] == ("start", "job.service") and model.state("db") == "active"
            if done:
                return
        raise AssertionError("it never came to its end")


class TestReboot:
    def test_what_came_up_with_the_host_is_no_conflict(self, model, store):
        hold(model, store)
        model.reboot(enabled=["shop.service"])
        del model.told[:]
        result = release(model, store)
        assert result["conflicts"] == [] and model.told == [("start", "db.service")]
        assert store.records() == []

    def test_the_event_itself_stops_it_again(self, model, store):
        """Whether its impact is behind the host is for the plan to know."""
        hold(model, store)
        model.reboot(enabled=["shop.service"])
        result = hold(model, store)
        assert conditions(result) == {"shop": "held", "db": "held", "cache": "not_running"} and result["conflicts"] == []
        model.start("shop.service")
        assert hold(model, store)["conflicts"] and model.state("shop") == "inactive"

    def test_another_event_stops_it_again(self, model, store):
        hold(model, store, ["shop"])
        model.reboot(enabled=["shop.service"])
        result = hold(model, store, ["shop"], ["B"])
        assert conditions(result) == {"shop": "held"} and model.state("shop") == "inactive"
        assert not hold(model, store, ["shop"], ["A"])["changed"]

    def test_still_booting(self, model, store):
        hold(model, store, ["shop"])
        model.reboot()
        assert conditions(hold(model, store, ["shop"])) == {"shop": "held"}
        model.units["shop.service"].update(state="activating", then=(model.now + 1, "active"))
        result = release(model, store)
        assert result["done"] and result["conflicts"] == [] and model.told == [("stop", "shop.service")]

    def test_in_the_middle_of_stopping(self, model, store):
        model.units["shop.service"]["stop_takes"] = 100.0
        hold(model, store)
        model.reboot(enabled=["shop.service", "db.service"])
        result = hold(model, store, timeout=200.0)
        assert conditions(result) == {"shop": "held", "db": "held", "cache": "not_running"} and result["done"]
        assert release(model, store)["conflicts"] == []


class TestRefusals:
    def test_unknown_services(self, model, store, tmp_path):
        with pytest.raises(SystemdError, match=r"systemd knows no unit 'nope.service' \(option services\)"):
            hold(model, store, ["shop", "nope"])
        assert model.told == [] and not (tmp_path / "state").exists()

    def test_one_that_was_never_held_needs_nothing(self, model, store):
        """The others come back, although systemd knows no unit of that name."""
        hold(model, store, ["shop"])
        result = release(model, store, services=["shop", "nope"])
        assert result["done"] and model.state("shop") == "active" and store.records() == []
        assert conditions(result) == {"nope": "not_running", "shop": "none"}

    def test_without_the_rights(self, model, store):
        model.refuse = "db.service"
        with pytest.raises(SystemdRefused):
            hold(model, store, ["db", "shop"])
        assert store.records() == [] and model.told == []

    def test_without_the_rights_for_the_second(self, model, store):
        model.refuse = "db.service"
        with pytest.raises(SystemdRefused):
            hold(model, store)
        assert [record["subject"]["service"] for record in store.records()] == ["shop.service"]
        release(model, store)
        assert model.state("shop") == "active" and store.records() == []

    @pytest.mark.parametrize("becomes", ["failed", "inactive"])
    def test_it_does_not_start(self, model, store, becomes):
        hold(model, store)
        model.units["db.service"]["becomes"] = becomes
        with pytest.raises(SystemdError, match="db.service was started and is %s. See 'systemctl status" % becomes):
            release(model, store)
        assert model.state("shop") == "inactive" and len(store.records()) == 2
        model.units["db.service"]["becomes"] = "active"
        assert release(model, store)["done"] and store.records() == []

    def test_nothing_is_held_and_nothing_asked(self, store):
        result = hold(Model(), store, None, present=False)
        assert result["done"] and not result["changed"] and result["services"] == []

    @pytest.mark.parametrize("name", ["", "a b", "a;b", "--all", "-H", "a*", "web?.service", "[ab]", "a\n", "a/b", "{{ x }}", "ü"])
    def test_hostile_names(self, name):
        with pytest.raises(ValueError) as caught:
            Systemd.names(["ok", name])
        assert repr(name) in str(caught.value) and "services" in str(caught.value)

    def test_names(self):
        names = ["a", "a.service", "b.socket", "c@1", "d.e", r"dev-x\x2dy.mount", "f.conf"]
        assert Systemd.names(names) == [
            "a.service",
            "b.socket",
            "c@1.service",
            "d.e.service",
            r"dev-x\x2dy.mount",
            "f.conf.service",
        ]
        with pytest.raises(ValueError, match="a template"):
            Systemd.names(["web@.service"])


class TestCheckMode:
    def test_it_predicts_and_touches_nothing(self, model, store, tmp_path):
        for number, (present, ids) in enumerate([(True, ["A"]), (True, ["A"]), (True, ["B"]), (False, ["A"]), (False, None)]):
            services = ("shop", "db", "cache") if present else None
            before = len(model.told)
            predicted = hold(model, store, services, ids, present, dry=True)
            assert len(model.told) == before
            assert number or not (tmp_path / "state").exists()
            assert predicted == hold(model, store, services, ids, present)


killed_hold = functools.partial(hold_killed, hold, ("show", "stop", "start"))


class TestKilled:
    """Killed before and after every call and every write; the next run puts it right."""

    @pytest.mark.parametrize("slow", [0.0, 1.0])
    @pytest.mark.parametrize("then", ["again", "released", "rebooted"])
    @pytest.mark.parametrize("first", [True, False])
    def test_at_any_moment(self, tmp_path, slow, then, first):
        for budget in range(200):
            model = Model(shop="active", db="active", cache="inactive")
            for unit in model.units.values():
                unit.update(stop_takes=slow, start_takes=slow)
            store = Store(str(tmp_path / str(budget)))
            if not first:
                hold(model, store, timeout=30.0)
            done = killed_hold(model, store, budget, present=first, timeout=30.0)
            model.now += 1
            if then == "rebooted":
                model.reboot(enabled=["shop.service", "db.service"])
            if then == "again" and first:
                result = hold(model, store, timeout=30.0)
                assert result["done"] and result["conflicts"] == []
                assert conditions(result) == {"shop": "held", "db": "held", "cache": "not_running"}
                assert {record["phase"] for record in store.records()} == {"held"}
            result = release(model, store, timeout=30.0)
            assert result["done"] and result["conflicts"] == []
            assert [model.state(name) for name in ("shop", "db", "cache")] == ["active", "active", "inactive"]
            assert store.records() == []
            if done:
                assert budget > 10
                return
        raise AssertionError("it never came to its end")

    @pytest.mark.parametrize("slow", [0.0, 1.0])
    def test_between_a_socket_and_its_service(self, tmp_path, slow):
        """The socket is down and its service still runs: it is stopped to its end, and both come back."""
        for budget in range(200):
            model = Model()
            model.add("shop.service", stop_takes=slow, dependents=["shop.socket"])
            model.add("shop.socket", triggers=["shop.service"])
            store = Store(str(tmp_path / str(budget)))
            done = killed_hold(model, store, budget, services=["shop"], timeout=30.0)
            result = release(model, store, timeout=30.0)
            assert result["done"] and result["conflicts"] == [] and store.records() == []
            assert {unit["state"] for unit in model.units.values()} == {"active"}
            if done:
                return
        raise AssertionError("it never came to its end")


class Lives(RuleBasedStateMachine):
    """Runs, some of them killed, an operator, reboots: nothing is started that did not run, nothing stays down."""

    NAMES = ("shop", "db", "cache")
    IDS = st.lists(st.sampled_from(["A", "b", "B"]), min_size=1, max_size=2)

    @initialize(
        states=st.tuples(*[st.sampled_from(["active", "inactive", "failed"])] * 3),
        takes=st.tuples(*[st.sampled_from([0.0, 1.0, 7.0])] * 3),
    )
    def begin(self, states, takes):
        self.model = Model(**dict(zip(self.NAMES, states)))
        for name, seconds in zip(self.NAMES, takes):
            self.model.units[name + ".service"].update(stop_takes=seconds, start_takes=seconds)
        self.store = Store(Lives.folder + "/%d" % Lives.count)
        Lives.count += 1
        # Those that ran when they were found.
        self.ran = set()
        real_stop, real_start = self.model.stop, self.model.start

        def stop(name):
            assert name not in self.overruled, "overruled the operator"
            real_stop(name)

        def start(name):
            assert name in self.ran, "started what did not run"
            real_start(name)

        self.overruled = set()
        self.model.stop, self.model.start = stop, start
        self.real = real_stop, real_start

    def records(self):
        return {record["subject"]["service"]: record for record in self.store.records(SERVICE)}

    def released(self):
        self.ran &= set(self.records())
        self.overruled &= set(self.records())

    def found(self):
        """Remember what runs and is not on record yet, before a run that may record it."""
        held = self.records()
        for name in self.model.units:
            if name not in held and self.model.state(name[:-8]) in ("active", "activating"):
                self.ran.add(name)

    @rule(ids=IDS, timeout=st.sampled_from([0.0, 30.0]))
    def put(self, ids, timeout):
        self.found()
        result = hold(self.model, self.store, self.NAMES, ids, timeout=timeout)
        self.released()
        if result["done"]:
            for service in result["services"]:
                up = service["active_state"] == "active"
                assert not up
            assert not hold(self.model, self.store, self.NAMES, ids)["changed"]
        assert timeout == 0.0 or result["done"] or self.overruled

    @rule(ids=IDS | st.none(), timeout=st.sampled_from([0.0, 30.0]))
    def release(self, ids, timeout):
        held = self.records()
        result = release(self.model, self.store, ids, timeout=timeout)
        if result["done"]:
            for name in set(held) - set(self.records()):
                assert self.model.state(name[:-8]) == "active"
        self.released()

    @rule(ids=IDS, present=st.booleans(), budget=st.integers(0, 30))
    def killed(self, ids, present, budget):
        self.found()
        killed_hold(self.model, self.store, budget, services=self.NAMES, ids=ids, present=present)
        self.released()

    @rule(seconds=st.sampled_from([0.5, 5.0, 60.0]))
    def later(self, seconds):
        self.model.now += seconds

    @rule(name=st.sampled_from(NAMES), how=st.booleans())
    def operator_acts(self, name, how):
        name += ".service"
        record = self.records().get(name)
        if self.model.show([name])[0].active_state in ("activating", "deactivating"):
            return
        if record is None:
            self.real[how](name)
        elif record["phase"] == "held" and how and record["boot_id"] == self.model.boot:
            self.real[1](name)
            self.model.now += 10
            if record.get("again"):
                # It was stopped once more already: now the operator has the last word.
                self.overruled.add(name)

    @rule(enabled=st.sets(st.sampled_from([name + ".service" for name in NAMES])))
    def reboot(self, enabled):
        self.model.reboot(enabled)
        self.overruled.clear()


@pytest.mark.parametrize("lives", [100, pytest.param(5000, marks=[pytest.mark.long, pytest.mark.timeout(1800)])])
def test_lives_of_services(monkeypatch, tmp_path, lives):
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    Lives.folder, Lives.count = str(tmp_path), 0
    run_state_machine_as_test(Lives, settings=settings(max_examples=lives, stateful_step_count=25, deadline=None))


def run_command(command, environ_update, handle_exceptions):
    """As AnsibleModule does it."""
    assert handle_exceptions is False
    done = subprocess.run(command, env=dict(os.environ, **environ_update), check=False, capture_output=True)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class TestSystemctl:
    """What is said to systemctl, and what its answers mean: a systemctl of a few lines stands in for it."""

    @pytest.fixture
    def systemctl(self, tmp_path, monkeypatch):
        def write(script):
            path = tmp_path / "systemctl"
            path.write_text('#!/bin/sh\necho "$@" >> %s/asked\n%s\n' % (tmp_path, script))
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
            monkeypatch.setenv("PATH", "%s:%s" % (tmp_path, os.environ["PATH"]))
            return lambda: (tmp_path / "asked").read_text().splitlines()

        return write

    def test_all_units_in_one_call(self, systemctl):
        asked = systemctl(
            "cat <<END\nLoadState=loaded\nActiveState=active\nJob=17\nRequiredBy=x.service y.target\nBoundBy=\nConsistsOf=z.service\nUpheldBy=u.service\n"
            "\nActiveState=inactive\nLoadState=not-found\n"
            "\nActiveState=inactive\nLoadState=loaded\nType=oneshot\nRemainAfterExit=no\nResult=signal\n"
            "OnFailure=spare.service\nOnSuccess=page.service\nConflicts=spare.service page.service shutdown.target\nConflictedBy=next.service\n"
            "\nActiveState=active\nSubState=exited\nLoadState=loaded\nType=oneshot\nRemainAfterExit=yes\nResult=success\n"
            "\nActiveState=active\nLoadState=loaded\nAccept=no\nTriggers=e.service\nResult=success\n"
            "\nActiveState=active\nLoadState=loaded\nAccept=yes\nTriggers=f@1.service\nResult=success\n"
            "\nActiveState=active\nLoadState=loaded\nWants=h.service i.service\nRequires=j.service sysinit.target\nConsistsOf=i.service\nEND"
        )
        assert Systemd(run_command).show(["a.service", "b.service", "c.service", "d.service", "e.socket", "f.socket", "g.target"]) == [
            Unit("a.service", "active", "loaded", True, ("x.service", "y.target", "z.service", "u.service"), (), False, ""),
            Unit("b.service", "inactive", "not-found", False, (), (), False, ""),
            Unit("c.service", "inactive", "loaded", False, (), (), True, "signal", rivals=("next.service", "shutdown.target")),
            Unit("d.service", "active", "loaded", False, (), (), False, "success", exited=True),
            Unit("e.socket", "active", "loaded", False, (), ("e.service",), False, "success"),
            Unit("f.socket", "active", "loaded", False, (), (), False, "success"),
            Unit("g.target", "active", "loaded", False, ("i.service",), (), False, "", wanted=("h.service", "j.service")),
        ]
        assert asked() == [
            "show --property=ActiveState,SubState,LoadState,Job,Triggers,Accept,Type,RemainAfterExit,Result,ControlGroup,NConnections,OnFailure,OnSuccess,"
            "RequiredBy,RequisiteOf,BoundBy,ConsistsOf,PropagatesStopTo,TriggeredBy,UpheldBy,Conflicts,ConflictedBy,Wants,Requires,BindsTo,Upholds"
            " -- a.service b.service c.service d.service e.socket f.socket g.target"
        ]
        assert Systemd(run_command).show([]) == [] and len(asked()) == 1

    def test_processes_that_systemd_leaves(self, systemctl, monkeypatch, tmp_path):
        systemctl(
            "cat <<END\nActiveState=inactive\nLoadState=loaded\nControlGroup=/system.slice/a.service\n"
            "\nActiveState=active\nLoadState=loaded\nControlGroup=/system.slice/b.service\n"
            "\nActiveState=failed\nLoadState=loaded\nControlGroup=/system.slice/c.service\n"
            "\nActiveState=inactive\nLoadState=loaded\nControlGroup=\nEND"
        )
        monkeypatch.setattr(_systemd, "PROC", str(tmp_path))
        groups = {
            7: ("0::/system.slice/a.service", "S"),  # cgroup v2
            8: ("4:memory:/\n1:name=systemd:/system.slice/a.service/below", "S"),  # and v1
            9: ("0::/system.slice/a.service", "Z"),
            10: ("0::/system.slice/a.services\n4:memory:/system.slice/a.service", "S"),
            11: ("0::/system.slice/b.service", "S"),
        }
        for pid, (group, state) in groups.items():
            (tmp_path / str(pid)).mkdir()
            (tmp_path / str(pid) / "cgroup").write_text(group + "\n")
            (tmp_path / str(pid) / "stat").write_text("%d (sh) %s 1" % (pid, state))
        units = Systemd(run_command).show(["a.service", "b.service", "c.service", "d.service"])
        assert [unit.left.partition(":")[0] for unit in units] == ["2 of its processes go on", "", "", ""]
        assert [_systemd.is_off(unit) for unit in units] == [False, False, True, True]

    def test_connections_of_a_socket_that_starts_a_service_for_each(self, systemctl):
        systemctl(
            "cat <<END\nActiveState=inactive\nAccept=yes\nTriggers=a@1.service\nNConnections=1\n\nActiveState=active\nAccept=yes\nNConnections=1\n"
            "\nActiveState=inactive\nAccept=no\nNConnections=0\nEND"
        )
        units = Systemd(run_command).show(["a.socket", "b.socket", "c.socket"])
        assert [_systemd.state_of(unit) for unit in units] == ["inactive, and 1 of its connections goes on", "active", "inactive"]
        assert [_systemd.is_off(unit) for unit in units] == [False, False, True]

    @pytest.mark.parametrize(("kind", "starts"), [("start", True), ("restart", True), ("stop", False)])
    def test_a_job_that_waits(self, systemctl, kind, starts):
        asked = systemctl(
            f"case $1 in show) printf 'ActiveState=inactive\\nJob=173\\n\\nActiveState=active\\nJob=174\\n';; *) echo '173 a.service {kind} waiting';; esac"
        )
        units = Systemd(run_command).show(["a.service", "b.service"])
        assert [unit.starts for unit in units] == [starts, False] and asked()[-1] == "list-jobs --no-legend --plain"

    def test_it_is_told_without_waiting_or_asking_for_a_password(self, systemctl):
        asked = systemctl("")
        Systemd(run_command).stop("a.service")
        Systemd(run_command).start("a.service")
        assert asked() == [
            "stop --no-block --no-ask-password -- a.service",
            "start --no-block --no-ask-password -- a.service",
        ]

    def test_another_number_of_units(self, systemctl):
        systemctl("echo ActiveState=active")
        with pytest.raises(SystemdError, match="showed 1 units although it was asked for 2"):
            Systemd(run_command).show(["a.service", "b.service"])

    def test_no_systemd(self, systemctl):
        systemctl('echo "System has not been booted with systemd. Can\'t operate." >&2; exit 1')
        with pytest.raises(SystemdError, match="systemctl show failed: System has not been booted with systemd"):
            Systemd(run_command).show(["a.service"])

    def test_no_rights(self, systemctl):
        systemctl('echo "Failed to stop a.service: Interactive authentication required." >&2; exit 1')
        with pytest.raises(SystemdRefused) as caught:
            Systemd(run_command).stop("a.service")
        assert str(caught.value) == (
            "a.service was not told to stop: systemctl stop failed: Failed to stop a.service: Interactive authentication required."
            " User id %d lacks the rights: set ansible_become: true for that machine." % os.geteuid()
        )

    def test_failed_without_a_word(self, systemctl):
        systemctl("exit 4")
        with pytest.raises(SystemdRefused, match="systemctl start failed: exit status 4"):
            Systemd(run_command).start("a.service")

    def test_no_systemctl(self, monkeypatch, tmp_path):
        for name in ("timeout", "env"):
            (tmp_path / name).symlink_to(shutil.which(name))
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(SystemdError, match="There is no systemctl on this host"):
            Systemd(run_command).show(["a.service"])

    def test_nothing_that_could_run_it(self, monkeypatch, tmp_path):
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(SystemdError, match="systemctl show cannot be run: No such file"):
            Systemd(run_command).show(["a.service"])

    @pytest.mark.parametrize("ending", ["sleep 5", "trap '' TERM; sleep 5; sleep 5"])
    def test_one_that_never_ends(self, systemctl, monkeypatch, ending):
        monkeypatch.setattr(_systemd, "CALL_SECONDS", 0.2)
        systemctl(ending)
        with pytest.raises(SystemdError, match="systemctl show did not end within 0.2 seconds"):
            Systemd(run_command).show(["a.service"])

    def test_boot_id(self, monkeypatch):
        assert Systemd(run_command).boot_id() == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        monkeypatch.setattr(_hold_engine, "read_boot_id", str)
        with pytest.raises(DriverError, match="boot_id cannot be read"):
            Systemd(run_command).boot_id()
