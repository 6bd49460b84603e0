# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a look tells of duties that were taken off: services, IIS, members of clusters and task files of the user's own."""

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.module_utils import _cluster_types
from ansible_collections.graceful.azure.plugins.module_utils._duties import cluster
from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Engine
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Request, Store
from ansible_collections.graceful.azure.plugins.module_utils._host_look import marks, still_on
from ansible_collections.graceful.azure.plugins.module_utils._iis import MISSING, SITE, STARTED, STOPPED, Thing, Things
from ansible_collections.graceful.azure.plugins.module_utils._systemd import Services, SystemdError, Unit
from ansible_collections.graceful.azure.plugins.module_utils._systemd import Systemd as SystemdOfHost

from tests.support.calls import ScriptedMachine, call
from tests.support.cluster import Bell, ScriptedTools

EVENT = {"state": "present", "event_ids": ["A"], "event_details": {}, "reason": ""}


class Systemd:
    """One service, of which it is told whether it runs."""

    names, comes_back = staticmethod(lambda names: [name + ".service" for name in names]), staticmethod(lambda name: True)
    unknown, hint = "%s (option %s)", "%s"

    def __init__(self):
        self.state, self.load, self.boot = "active", "loaded", "boot 1"
        self.told = []
        self.broken = False

    def boot_id(self):
        return self.boot

    def show(self, things):
        if self.broken:
            raise SystemdError("systemctl show did not end within 10 seconds.")
        return [Unit(name, self.state, self.load, False, (), (), False, "success") for name in things]

    def stop(self, thing):
        self.told.append(thing)
        self.state = "inactive"


class Iis(Systemd):
    def show(self, things):
        return [Thing(kind, name, STARTED if self.state == "active" else STOPPED) for kind, name in things]

    def stop(self, thing):
        super().stop(thing[1])


class Host(ScriptedMachine):
    """One that may have IIS."""

    def __init__(self, store, services, iis=None, **more):
        super().__init__(store, **more)
        self._services, self._iis = services, iis

    @staticmethod
    def refuses(kind):
        return ""

    def services(self):
        return self._services

    def iis(self):
        return self._iis


def make_known(monkeypatch):
    """A type of cluster that is made up."""
    monkeypatch.setitem(_cluster_types.TYPES, "bell", Bell)
    monkeypatch.setitem(cluster.DUTIES, "bell", cluster.class_of(Bell))


@pytest.fixture
def store(tmp_path):
    (tmp_path / "state").mkdir(0o700)
    return Store(str(tmp_path / "state"))


def put(driver, store):
    Engine(driver, store, Request(True, ["A"]), sleep=lambda seconds: None).run()


class TestService:
    ENTRY = {"type": "service", "name": "web"}

    @pytest.fixture
    def systemd(self, store):
        systemd = Systemd()
        self.store = store
        self.take(systemd)
        return systemd

    def take(self, systemd):
        put(Services(systemd, self.store, Request(True, ["A"]), ["web"]), self.store)

    def look(self, systemd):
        before = self.store.records()
        told = list(systemd.told)
        found = still_on([self.ENTRY], Host(self.store, boot_id=systemd.boot, services=systemd))
        assert self.store.records() == before and systemd.told == told, "a look changes nothing"
        return found

    def test_it_is_down(self, systemd):
        assert self.look(systemd) == []

    def test_somebody_started_it_once_and_twice(self, systemd):
        systemd.state = "active"
        assert self.look(systemd) == ["web.service is active again, although it was stopped for the event"]
        self.take(systemd)
        assert self.look(systemd) == []
        systemd.state = "active"
        assert self.look(systemd) == [
            "web.service was stopped twice for the event and is active again: end what starts it, or take it out of graceful_azure_duties"
        ]

    def test_it_came_up_with_the_host(self, systemd):
        systemd.state, systemd.boot = "active", "boot 2"
        assert self.look(systemd) == ["web.service is active since the host was booted anew"]

    def test_one_that_did_not_run_and_one_that_still_stops(self, systemd):
        for record in self.store.records():
            self.store.delete(record)
        assert self.look(systemd) == []
        for systemd.state in ("active", "activating", "deactivating"):
            assert self.look(systemd) == ["web.service is " + systemd.state]

    def test_one_that_is_not_there_any_more_is_down(self, systemd):
        systemd.load = "not-found"
        assert self.look(systemd) == []

    def test_one_that_runs_without_its_file_is_on(self, systemd):
        for record in self.store.records():
            self.store.delete(record)
        systemd.load = "not-found"
        assert self.look(systemd) == []
        systemd.state = "active"
        assert self.look(systemd) == ["web.service is active"]

    def test_what_a_later_duty_stops_is_not_awaited(self, store):
        class Nightly(Systemd):
            """A timer that is off, and the service that it has started."""

            names = staticmethod(SystemdOfHost.names)

            def show(self, things):
                states = {"night.timer": ("inactive", ("web.service",)), "web.service": ("active", ())}
                return [Unit(name, states[name][0], "loaded", False, (), states[name][1], False, "success") for name in things]

        host, timer = Host(store, boot_id="boot 1", services=Nightly()), {"type": "service", "name": "night.timer"}
        assert still_on([timer], host) == ["night.timer is inactive, and web.service, which it has started, is active"]
        assert still_on([timer], host, later=[self.ENTRY]) == []
        assert still_on([timer, self.ENTRY], host) == ["web.service is active"]

    def test_what_cannot_be_looked_at_is_not_known_to_be_down(self, systemd):
        systemd.broken = True
        found = still_on([self.ENTRY, {"type": "nothing", "name": "x"}], Host(self.store, boot_id=systemd.boot, services=systemd))
        assert found[0] == "web cannot be looked at: systemctl show did not end within 10 seconds"
        assert found[1].startswith("x cannot be looked at: duty.type: 'nothing' is no type of duty")


def test_iis(store):
    iis = Iis()
    put(Things(iis, store, Request(True, ["A"]), [(SITE, "shop")]), store)

    def look(**more):
        return still_on([{"type": "iis", "name": "www", "sites": ["shop"], "pools": []}], Host(store, boot_id="boot 1", services=Systemd(), **more))

    assert look(iis=iis) == []
    iis.state = "active"
    assert look(iis=iis) == ["site shop is started again, although it was stopped for the event"]
    (said,) = still_on([{"type": "iis", "name": "www", "sites": ["shop"], "pools": []}], ScriptedMachine(store))
    assert said == "www cannot be looked at: duty: IIS runs on Windows hosts only, and this is none"


def test_one_thing_that_is_gone_does_not_hide_another(store):
    class One(Iis):
        """The site old was down, and was removed."""

        def show(self, things):
            return [Thing(kind, name, MISSING if name == "old" else STARTED) for kind, name in things]

    entry = {"type": "iis", "name": "www", "sites": ["old", "shop"], "pools": []}
    assert still_on([entry], Host(store, boot_id="boot 1", services=Systemd(), iis=One())) == ["site shop is started"]
    assert still_on([dict(entry, sites=["old"])], Host(store, boot_id="boot 1", services=Systemd(), iis=One())) == []


def test_a_member_of_a_cluster(store, monkeypatch):
    make_known(monkeypatch)
    Bell.build()
    tools = ScriptedTools()
    entry = {"type": "bell", "name": "gong"}

    def take():
        params = dict(EVENT, type="bell", name="gong", options={}, force=False, timeout=0.0)
        return call("cluster_hold", params, machine=ScriptedMachine(store, tools))

    def look():
        return still_on([entry], ScriptedMachine(store, tools))

    assert look() == ["The tower (gong): north is not out"]
    # What keeps the act from taking it out is said as the act says it.
    Bell.spared = False
    assert look() == [f"The tower (gong): {take()['waiting_for']}"] == ["The tower (gong): no other bell rings"]
    Bell.spared = True
    take()
    assert look() == []
    Bell.rings = 2
    assert look() == ["The tower (gong): it rings 2 more times"]
    Bell.rings, Bell.flag = 0, None
    assert look() == ["The tower (gong): north is in again, although it was taken out for the event"]
    take()
    assert look() == []
    Bell.flag = None
    assert look()[0].startswith("The tower (gong): north was taken out twice for the event and is in again")
    Bell.flag = "theirs"
    assert look() == [], "somebody else has it out"
    Bell.broken = True
    assert look()[0].startswith("The tower (gong) cannot be looked at: ")


def test_marks_in_clusters_without_a_record(store, monkeypatch):
    make_known(monkeypatch)
    Bell.build()
    tools = ScriptedTools()
    entry = {"type": "bell", "name": "gong"}

    def marked():
        return marks([entry], ScriptedMachine(store, tools), {"resources": ["web_1"]})

    Bell.flag, Bell.told = "ours", ("A",)
    assert marked() == ([], []), "what bears no name may be anybody's"
    monkeypatch.setattr(Bell, "bears_name", True)
    (record,), unknown = marked()
    assert (record["events"]["A"]["details"], record["marked"], unknown) == ({"resources": ["web_1"]}, True, [])
    assert record["subject"] == {"type": "bell", "name": "gong", "member": "north"} and store.records() == []
    Bell.told = ()
    found, (sentence,) = marked()
    assert found == [] and sentence.startswith("The tower (gong): north was taken out by graceful.azure (flag: ours, rings: 0), its record is gone")
    Bell.flag = "theirs"
    assert marked() == ([], [])
    Bell.broken = True
    assert marked() == ([], [])
    # A step that was renamed has its record under the former name.
    Bell.build()
    params = dict(EVENT, type="bell", name="old", options={}, force=False, timeout=0.0)
    call("cluster_hold", params, machine=ScriptedMachine(store, tools))
    assert Bell.flag == "ours" and marked() == ([], [])


def test_a_task_file_of_the_users(store):
    entry = {"type": "tasks", "name": "queue", "out": "queue_out.yml"}
    params = dict(EVENT, name=["drain_host_step_queue"], state_dir=store.state_dir, this_boot=True)

    def put_record(boot, done=None):
        return call("task_hold", dict(params, done=done), machine=ScriptedMachine(store, boot_id=boot))["done"]

    def look(boot):
        return still_on([entry], ScriptedMachine(store, boot_id=boot))

    assert look("boot 1") == ["queue_out.yml has not run"]
    assert not put_record("boot 1") and look("boot 1") == ["queue_out.yml has not run to its end"]
    assert put_record("boot 1", done=True) and put_record("boot 1") and look("boot 1") == []
    assert look("boot 2") == ["queue_out.yml did not run since the host was booted anew"]
    assert not put_record("boot 2"), "the role runs it again"
    assert put_record("boot 2", done=True) and look("boot 2") == []
    # A record of a version that did not note the boot is no proof.
    (record,) = store.records()
    store.write({key: value for key, value in record.items() if key != "boot_id"})
    assert look("boot 2") == ["queue_out.yml did not run since the host was booted anew"] and not put_record("boot 2")
