# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import socket
import tempfile
from collections import Counter

import pytest
from ansible_collections.graceful.azure.plugins.module_utils import _haproxy, _haproxy_beside, _haproxy_hold, _haproxy_servers
from ansible_collections.graceful.azure.plugins.module_utils._conditions import CHANGED_MEANWHILE, DRAIN, MAINT, NONE, READY
from ansible_collections.graceful.azure.plugins.module_utils._haproxy import DryHaproxy, Haproxy, HaproxyRefused, former_state
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_former_processes import Clients, Former
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_hold import ALREADY_OUT, LEFT_BEFORE, LOST, HaproxyServers, condition_of, describe
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_records import TOLD, key_of, subject_of
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_servers import (
    C_MAINT,
    DISABLED,
    ENABLED,
    F_DRAIN,
    F_MAINT,
    I_DRAIN,
    I_MAINT,
    R_MAINT,
    HaproxyError,
    HaproxyState,
    Process,
    parse_info,
    parse_servers_state,
    parse_stat,
)
from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Engine
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import (
    CHANGING,
    HELD,
    RESTORING,
    HoldError,
    Request,
    Store,
    new_record,
)
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import HAPROXY_SERVER
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.support.killed import Killed, hold_killed

PATH = "/run/haproxy/admin.sock"
FLAGS = {READY: 0, DRAIN: F_DRAIN, MAINT: F_MAINT}


class Model:
    """HAProxy as far as a hold is concerned. ``servers``: flags by (backend, server)."""

    path = PATH

    def __init__(self, servers, sticky=()):
        self.configured = dict(servers)
        self.flags = dict(servers)
        self.weights = dict.fromkeys(servers, 10)
        self.addresses = {}
        self.pid = 100
        self.identity = lambda: None
        self.sticky = set(sticky)
        self.checked = set()  # by HAProxy
        self.down = set()  # no check has passed since it was told to check them first
        self.rights = "admin"
        self.told = []
        self.before_telling = lambda key, state: None

    def level(self):
        return self.rights

    def sticky_backends(self, look):
        return self.sticky

    def look(self):
        state = [
            {
                "be_name": backend,
                "srv_name": server,
                "srv_addr": self.addresses.get((backend, server), "192.0.2.1"),
                "srv_op_state": "0" if (backend, server) in self.down else "2",
                "srv_check_state": "6" if (backend, server) in self.checked else "0",
                "srv_check_health": "0" if (backend, server) in self.down else "4",
                "srv_admin_state": str(flags),
                "srv_uweight": str(self.weights[backend, server]),
            }
            for (backend, server), flags in self.flags.items()
        ]
        stat = [{"pxname": b, "svname": s, "status": "as seen", "scur": "0", "qcur": "", "check_rise": "2", "check_fall": "3"} for b, s in self.flags]
        stat += [{"pxname": backend, "svname": "BACKEND"} for backend in {backend for backend, dummy in self.flags}]
        return HaproxyState(Process(self.pid, 1000 + self.pid, True, self.identity()), state, stat)

    def set_state(self, backend, server, state):
        key = backend, server
        self.before_telling(key, state)
        self.told.append((key, state))
        self.flags[key] = self.flags[key] & ~(F_MAINT | F_DRAIN) | FLAGS[state]
        self.down.discard(key)

    def set_healthy(self, backend, server):
        self.down.discard((backend, server))

    def check_first(self, backend, server):
        self.set_state(backend, server, DRAIN)
        self.down.add((backend, server))

    def reload(self, keep_state=False):
        self.pid += 1
        self.down.clear()
        if not keep_state:
            self.flags = dict(self.configured)


class ModelWithAgent(Model):
    """Its server has an agent check, which sets nothing here."""

    agent = ENABLED
    refuses_agent = False

    def look(self):
        seen = super().look()
        for server in seen.servers.values():
            server.show_agent(self.agent)
        return seen

    def set_agent(self, backend, server, state):
        if self.refuses_agent:
            raise HaproxyRefused("no")
        self.agent = state

    def await_agent(self, backend, server):
        """No answer is under way."""


@pytest.fixture
def model():
    return Model({("www", "web1"): 0, ("api", "web1"): 0, ("www", "web2"): 0})


@pytest.fixture
def store(tmp_path):
    return Store(str(tmp_path / "state"))


class Outcome:
    """What became of one server of one backend."""

    def __init__(self, engine, hold):
        self._engine, self._hold = engine, hold

    def result(self):
        return self._engine.driver.describe(self._hold)

    def __getattr__(self, name):
        return getattr(self._hold, name)


def hold(model, store, ids=("A",), present=True, server="web1", backends=None, out_state=None, dry=False, places=()):
    request = Request(present, None if ids is None else list(ids), "why", now="T")
    haproxy = DryHaproxy(model) if dry else model
    if dry:
        store = Store(store.state_dir, dry=True)
    engine = Engine(HaproxyServers(haproxy, store, request, server, backends, out_state, places=places), store, request)
    engine.run()
    return {hold.name.partition("/")[0]: Outcome(engine, hold) for hold in engine.current}


def release(model, store, ids=None, **more):
    return hold(model, store, ids, present=False, **more)


def shown(outcomes):
    return {backend: (o.result()["condition"], o.result()["held_by"], o.changed) for backend, o in outcomes.items()}


class TestHold:
    def test_out_in_every_backend_and_back(self, model, store):
        assert shown(hold(model, store)) == {"www": (HELD, ["A"], True), "api": (HELD, ["A"], True)}
        assert model.flags == {("www", "web1"): F_DRAIN, ("api", "web1"): F_DRAIN, ("www", "web2"): 0}
        assert shown(hold(model, store)) == {"www": (HELD, ["A"], False), "api": (HELD, ["A"], False)}
        assert shown(release(model, store)) == {"www": (NONE, [], True), "api": (NONE, [], True)}
        assert set(model.flags.values()) == {0}
        assert store.records() == []
        assert shown(release(model, store)) == {"www": (NONE, [], False), "api": (NONE, [], False)}

    def test_the_record_tells_everything(self, model, store):
        hold(model, store, backends=["www"])
        (record,) = store.records(HAPROXY_SERVER)
        del record["path"]
        record.pop("machine", None)  # where the machine tells it
        assert record == {
            "version": 1,
            "kind": "haproxy_server",
            "subject": {"socket": PATH, "backend": "www", "server": "web1"},
            "found": {"admin_state": "ready", "weight": 10},
            "left": {"admin_state": "drain", "weight": 10},
            "phase": "held",
            "events": {"A": {"since": "T", "reason": "why", "details": {}}},
            "process": {"pid": 100, "started": 1100, "identity": None},
            "total_sessions": 0,
            "queued": 0,
            "leads_to": {"address": "192.0.2.1", "port": None},
        }

    def test_only_the_backends_named(self, model, store):
        assert list(hold(model, store, backends=["api"])) == ["api"]
        assert model.flags["www", "web1"] == 0

    def test_released_in_backends_that_are_no_longer_named(self, model, store):
        hold(model, store, ["A"])
        hold(model, store, ["B"], backends=["api"])
        assert shown(release(model, store, ["A"], backends=["www"])) == {"www": (NONE, [], True), "api": (HELD, ["B"], True)}
        assert model.flags["www", "web1"] == 0 and model.flags["api", "web1"] == F_DRAIN
        assert list(release(model, store, ["A"], backends=["www"])) == ["www"], "its events hold nothing in others"
        assert list(release(model, store, backends=["www"])) == ["www"], "without events, only the backends that are named"
        assert shown(release(model, store, ["B"], backends=["www"])) == {"www": (NONE, [], False), "api": (NONE, [], True)}
        assert store.records() == [] and set(model.flags.values()) == {0}

    def test_what_was_taken_out_with_it_is_released_in_backends_that_are_no_longer_named(self, store):
        model = Model({("www", "web1"): 0, ("api", "slot7"): 0})
        hold(model, store, ["A"], places=[("192.0.2.1", None)])
        assert model.flags["api", "slot7"] == F_DRAIN
        release(model, store, ["A"], backends=["www"])
        assert store.records() == [] and set(model.flags.values()) == {0}

    def test_in_other_backends_another_machine_may_have_the_name(self, model, store):
        model.addresses["api", "web1"] = "192.0.2.2"
        hold(model, store, ["A"])
        assert list(release(model, store, ["A"], backends=["www"])) == ["www"]
        assert model.flags["api", "web1"] == F_DRAIN and [record["subject"]["backend"] for record in store.records()] == ["api"]

    def test_maint_where_sessions_stick(self, model, store):
        model.sticky = {"api"}
        hold(model, store)
        assert (model.flags["www", "web1"], model.flags["api", "web1"]) == (F_DRAIN, F_MAINT)
        release(model, store)
        assert set(model.flags.values()) == {0}

    @pytest.mark.parametrize("state", [DRAIN, MAINT])
    def test_as_asked(self, model, store, state):
        model.sticky = {"api"}
        hold(model, store, out_state=state)
        assert model.flags["www", "web1"] == model.flags["api", "web1"] == FLAGS[state]

    def test_from_drain_on_to_maint_and_never_the_other_way(self, model, store):
        hold(model, store, out_state=DRAIN)
        outcomes = hold(model, store, out_state=MAINT)
        assert shown(outcomes)["www"] == (HELD, ["A"], True)
        assert model.flags["www", "web1"] == F_MAINT
        assert not hold(model, store, out_state=DRAIN)["www"].changed
        assert not hold(model, store)["www"].changed
        assert model.flags["www", "web1"] == F_MAINT
        release(model, store)
        assert model.flags["www", "web1"] == 0

    def test_the_last_event_releases(self, model, store):
        hold(model, store, ["A"])
        assert shown(hold(model, store, ["B", "C"]))["www"] == (HELD, ["A", "B", "C"], True)
        assert shown(release(model, store, ["a"]))["www"] == (HELD, ["B", "C"], True)
        assert shown(release(model, store, ["a"]))["www"] == (HELD, ["B", "C"], False)
        assert shown(release(model, store, ["B"]))["www"] == (HELD, ["C"], True)
        assert model.flags["www", "web1"] == F_DRAIN
        assert shown(release(model, store, ["C", "X"]))["www"] == (NONE, [], True)
        assert model.flags["www", "web1"] == 0

    def test_what_is_released_was_never_held(self, model, store):
        assert shown(release(model, store, ["A"]))["www"] == (NONE, [], False)
        assert model.told == []

    @pytest.mark.parametrize("flags", [F_MAINT, F_MAINT | C_MAINT, F_DRAIN, R_MAINT | F_MAINT, F_DRAIN | I_MAINT])
    def test_found_out_of_rotation_stays_as_it_is(self, model, store, flags):
        model.flags["www", "web1"] = flags
        assert shown(hold(model, store)) == {"www": (ALREADY_OUT, [], False), "api": (HELD, ["A"], True)}
        assert shown(release(model, store)) == {"www": (ALREADY_OUT, [], False), "api": (NONE, [], True)}
        assert model.flags["www", "web1"] == flags

    @pytest.mark.parametrize("flags", [R_MAINT, I_MAINT, I_DRAIN], ids=["its name does not resolve", "what it tracks is in maint", "in drain"])
    def test_out_though_nobody_has_set_that_is_held(self, model, store, flags):
        """It goes into rotation at any moment, with the answer of DNS or with the server that it tracks."""
        model.flags["www", "web1"] = flags
        assert shown(hold(model, store))["www"] == (HELD, ["A"], True)
        assert model.flags["www", "web1"] == flags | F_DRAIN
        assert shown(release(model, store))["www"] == (NONE, [], True)
        assert model.flags["www", "web1"] == flags

    def test_enabled_by_hand_although_the_configuration_says_disabled(self, model, store):
        model.flags["www", "web1"] = C_MAINT
        hold(model, store)
        assert model.flags["www", "web1"] == C_MAINT | F_DRAIN
        release(model, store)
        assert model.flags["www", "web1"] == C_MAINT

    def test_an_operators_maintenance_that_ends_while_the_event_stands(self, model, store):
        model.flags["www", "web1"] = F_MAINT
        hold(model, store)
        model.flags["www", "web1"] = 0
        assert shown(hold(model, store))["www"] == (HELD, ["A"], True)

    def test_weights_are_nobodys_business(self, model, store):
        hold(model, store)
        model.weights["www", "web1"] = 3
        outcomes = release(model, store)
        assert shown(outcomes)["www"] == (NONE, [], True) and outcomes["www"].conflict is None
        assert model.weights["www", "web1"] == 3

    @pytest.mark.parametrize("present", [True, False])
    @pytest.mark.parametrize("flags", [0, F_MAINT, F_MAINT | C_MAINT, I_DRAIN])
    def test_somebody_acted_meanwhile(self, model, store, flags, present):
        hold(model, store)
        model.flags["www", "web1"] = flags
        outcomes = hold(model, store, ["A"], present=present)
        assert outcomes["www"].result()["condition"] == CHANGED_MEANWHILE
        assert "www/web1 was left in drain" in outcomes["www"].conflict
        assert model.flags["www", "web1"] == flags
        assert len(store.records()) == (2 if present else 0)
        assert shown(outcomes)["api"][0] == (HELD if present else NONE)

    def test_somebody_acted_and_one_of_two_events_is_over(self, model, store):
        hold(model, store, ["A"])
        hold(model, store, ["B"])
        model.flags["www", "web1"] = 0
        outcomes = release(model, store, ["A"])
        assert outcomes["www"].result()["condition"] == CHANGED_MEANWHILE and "www/web1 was left in drain" in outcomes["www"].conflict
        assert outcomes["api"].conflict is None and {tuple(record["events"]) for record in store.records()} == {("B",)}

    def test_somebody_acted_and_took_it_back(self, model, store):
        hold(model, store)
        model.flags["www", "web1"] = 0
        hold(model, store)
        model.flags["www", "web1"] = F_DRAIN
        assert shown(hold(model, store))["www"] == (HELD, ["A"], False)

    def test_maintenance_of_what_it_tracks_is_no_conflict(self, model, store):
        hold(model, store)
        model.flags["www", "web1"] |= I_MAINT
        assert shown(hold(model, store))["www"] == (HELD, ["A"], False)
        assert release(model, store)["www"].conflict is None
        assert model.flags["www", "web1"] == I_MAINT


class TestReload:
    def test_taken_out_again(self, model, store):
        hold(model, store)
        model.reload()
        outcomes = hold(model, store)
        assert outcomes["www"].result()["put_right"] and outcomes["www"].changed
        assert model.flags["www", "web1"] == F_DRAIN
        outcomes = hold(model, store)
        assert not outcomes["www"].result()["put_right"] and not outcomes["www"].changed
        release(model, store)
        assert set(model.flags.values()) == {0}

    def test_with_all_the_events_that_held_it(self, model, store):
        hold(model, store, ["A"])
        model.reload()
        assert shown(hold(model, store, ["B"]))["www"] == (HELD, ["A", "B"], True)

    def test_released_after_it(self, model, store):
        hold(model, store)
        model.reload()
        del model.told[:]
        assert shown(release(model, store)) == {"www": (NONE, [], True), "api": (NONE, [], True)}
        assert model.told == [] and store.records() == []

    def test_the_state_was_kept(self, model, store):
        hold(model, store)
        model.reload(keep_state=True)
        del model.told[:]
        assert shown(hold(model, store))["www"] == (HELD, ["A"], False)
        assert model.told == []
        assert {record["process"]["pid"] for record in store.records()} == {101}
        release(model, store)
        assert set(model.flags.values()) == {0}

    def test_the_new_configuration_disables_it(self, model, store):
        hold(model, store, out_state=MAINT)
        model.configured["www", "web1"] = F_MAINT | C_MAINT
        model.reload()
        outcomes = hold(model, store)
        assert shown(outcomes)["www"] == (ALREADY_OUT, [], True)
        release(model, store)
        assert model.flags["www", "web1"] == F_MAINT | C_MAINT

    def test_released_when_the_new_configuration_disables_it(self, model, store):
        hold(model, store, out_state=MAINT)
        model.configured["www", "web1"] = F_MAINT | C_MAINT
        model.reload()
        outcomes = release(model, store)
        assert "www/web1" in outcomes["www"].conflict
        assert outcomes["www"].result()["condition"] == ALREADY_OUT
        assert model.flags["www", "web1"] == F_MAINT | C_MAINT and store.records() == []

    def test_somebody_put_it_in_maintenance_after_it(self, model, store):
        hold(model, store)
        model.reload()
        model.flags["www", "web1"] = F_MAINT
        assert shown(hold(model, store))["www"] == (ALREADY_OUT, [], True)
        assert model.flags["www", "web1"] == F_MAINT

    def test_in_the_middle_of_a_change(self, model, store):
        """The command reached the old process, the new one starts afresh: seen, and done again."""
        once = itertools.count()

        def reload(key, state):
            if next(once) == 0:
                model.set_state_again = True
                model.pid += 1

        model.before_telling = reload
        assert shown(hold(model, store))["www"] == (HELD, ["A"], True)
        assert {record["process"]["pid"] for record in store.records()} == {101}
        assert {record["phase"] for record in store.records()} == {HELD}

    def test_a_command_that_never_takes(self, model, store):
        model.set_state = lambda *args: None
        with pytest.raises(HaproxyError, match="is not as it was told"):
            hold(model, store)


class TestFormerProcessesInWhichItIsOut:
    """After a reload, the clients of such a process do no harm to the host."""

    @pytest.fixture(autouse=True)
    def seen_processes(self, model, monkeypatch):
        monkeypatch.setattr(HaproxyState, "pids", property(lambda seen: [seen.process.pid]))
        model.identity = lambda: str(model.pid)
        self.served = set()
        monkeypatch.setattr(_haproxy_hold, "backends_served_in_maint", lambda pid, known: self.served)
        look = model.look

        def with_former():
            seen = look()
            seen.add_former(Former(Counter(), None, tuple(Clients(pid, str(pid), 1) for pid in range(100, model.pid))))
            return seen

        model.look = with_former

    def told(self, store):
        return {key_of(record)[0]: record.get(TOLD, []) for record in store.records()}

    @pytest.mark.parametrize("keep_state", [False, True])
    @pytest.mark.parametrize("out_state", [None, DRAIN, MAINT])
    def test_reloads_in_the_middle(self, model, store, out_state, keep_state):
        model.reload()
        hold(model, store, out_state=out_state)
        assert self.told(store) == {"www": ["101"], "api": ["101"]}
        model.reload(keep_state)
        model.reload(keep_state)
        outcomes = hold(model, store, out_state=out_state)
        # 100 is from before the hold. In 102 the server was out only if that was kept, and nobody has seen it.
        assert outcomes["www"].result()["uncounted"] == "2 clients of process 100, 102 of HAProxy from before a reload may still send requests to it"
        assert self.told(store)["www"] == ["101", "103"]
        model.reload(keep_state)
        assert hold(model, store, ["B"], out_state=out_state)["api"].result()["uncounted"] == outcomes["api"].result()["uncounted"]
        release(model, store)
        assert set(model.flags.values()) == {0} and store.records() == []

    def test_a_record_of_the_version_before(self, model, store):
        hold(model, store)
        for record in store.records():
            store.write({key: value for key, value in record.items() if key != TOLD})
        model.reload()
        assert hold(model, store)["www"].result()["uncounted"].startswith("1 client of process 100 ")
        release(model, store)
        assert set(model.flags.values()) == {0} and store.records() == []

    def test_one_in_which_somebody_put_it_back_does_count(self, model, store):
        hold(model, store)
        model.flags["www", "web1"] = 0
        assert hold(model, store)["www"].conflict
        model.reload()
        outcomes = hold(model, store)
        assert outcomes["www"].result()["uncounted"] and not outcomes["api"].result()["uncounted"]

    def test_one_in_which_it_was_being_given_back_does_count(self, model, store):
        hold(model, store)
        model.before_telling = lambda key, state: (none for none in ()).throw(Killed())
        with pytest.raises(Killed):
            release(model, store)
        model.before_telling = lambda key, state: None
        model.reload()
        outcomes = hold(model, store)
        assert [name for name in ("www", "api") if outcomes[name].result()["uncounted"]] == ["www"]

    @pytest.mark.parametrize("why", ["persist", "unread", "sticky", "hidden"])
    def test_one_that_may_send_requests_in_spite_of_it_does_count(self, model, store, monkeypatch, why):
        out_state = DRAIN if why == "sticky" else MAINT
        self.served = {"www", "api"} if why == "persist" else None if why == "unread" else set()
        model.sticky = {"www", "api"}
        if why == "hidden":
            model.identity = lambda: None
        hold(model, store, out_state=out_state)
        assert self.told(store) == {"www": [], "api": []}

    def test_one_with_requests_that_wait_for_the_server_does_count(self, model, store, monkeypatch):
        look = model.look

        def with_queue():
            seen = look()
            seen.servers["www", "web1"].queue = 1
            return seen

        model.look = with_queue
        hold(model, store)
        assert self.told(store) == {"www": [], "api": ["100"]}

    @pytest.mark.parametrize("out_state", [None, DRAIN, MAINT])
    def test_one_that_got_sessions_in_spite_of_it_does_count(self, model, store, out_state):
        """Whatever sends them, its clients may bring more. Here a reload comes before the change to `maint` is done."""
        hold(model, store, out_state=out_state)
        look = model.look

        def with_sessions():
            seen = look()
            seen.servers["www", "web1"].total_sessions = 5
            return seen

        def killed(key, state):
            raise Killed

        model.look, model.before_telling = with_sessions, killed
        with pytest.raises(Killed) if out_state is None else contextlib.nullcontext():
            hold(model, store, out_state=out_state)
        assert self.told(store) == {"www": [], "api": ["100"]}

    @pytest.mark.parametrize(
        ("there", "counts"),
        [
            (None, False),  # it cannot be asked
            (False, True),  # it does not answer as it should
            ({"srv_admin_state": "0"}, True),
            ({"srv_admin_state": str(F_DRAIN)}, False),
            ({"srv_admin_state": str(F_MAINT)}, False),
            ({"srv_admin_state": str(F_DRAIN), "qcur": "1"}, True),
            ({"srv_admin_state": str(F_DRAIN), "scur": "1"}, True),
            ({"srv_admin_state": "0", "srv_name": "another"}, False),
        ],
    )
    def test_one_that_can_be_asked_decides_itself(self, model, there, counts):
        if there:
            line = dict({"be_name": "www", "srv_name": "web1", "srv_addr": "192.0.2.1", "srv_op_state": "2", "srv_uweight": "1"}, **there)
            row = dict({"pxname": "www", "svname": line["srv_name"], "status": "", "scur": "0", "qcur": "0"}, **there)
            there = HaproxyState(Process(100, 1, True), [line], [row])
        seen = model.look()
        asked = []
        seen.add_former(Former(Counter(), None, (Clients(100, "one", 1), Clients(99, "two", 1))), lambda pid: asked.append(pid) or there)
        for _twice in range(2):
            seen.discount(("www", "web1"), ["one", "gone"])
        assert asked == [100]
        number = "2 clients of process 100, 99" if counts else "1 client of process 99"
        assert seen.servers["www", "web1"].uncounted == number + " of HAProxy from before a reload may still send requests to it"

    def test_the_list_is_bounded(self, model, store):
        for _number in range(20):
            hold(model, store)
            model.reload()
        assert self.told(store)["www"] == [str(pid) for pid in range(104, 120)]


class TestRefusals:
    @pytest.mark.parametrize("name", ["a;b", "a\nset server", "a b", "", "a/b", "#1", "w\x00", "é", "a\n", "{{ x }}"])
    @pytest.mark.parametrize("where", ["server", "backends"])
    def test_hostile_names_never_reach_the_socket(self, model, store, name, where):
        model.look = model.level = None
        with pytest.raises(ValueError) as caught:
            hold(model, store, **{where: name if where == "server" else ["www", name]})
        assert repr(name) in str(caught.value)

    @pytest.mark.parametrize("present", [True, False])
    @pytest.mark.parametrize(
        ("where", "said"),
        [
            ({"server": "web9"}, "No backend of HAProxy on socket %s has a server 'web9' (option server)."),
            ({"backends": ["nope"]}, "HAProxy on socket %s has no backend 'nope' (option backends). It has api, www."),
            (
                {"server": "web2", "backends": ["www", "api"]},
                "The backend 'api' of HAProxy on socket %s has no server 'web2' (option server).",
            ),
        ],
    )
    def test_unknown_names(self, model, store, tmp_path, present, where, said):
        with pytest.raises(HaproxyError) as caught:
            hold(model, store, present=present, **where)
        assert str(caught.value) == said % PATH
        assert model.told == [] and not (tmp_path / "state").exists()

    @pytest.mark.parametrize("level", ["user", "operator"])
    def test_a_socket_that_allows_too_little(self, model, store, tmp_path, level):
        model.rights = level
        with pytest.raises(HaproxyError, match="allows only the level %s" % level):
            hold(model, store)
        assert model.told == [] and not (tmp_path / "state").exists()

    @pytest.mark.parametrize(
        ("held", "asked"), [(False, {}), (True, {"present": False}), (True, {"out_state": MAINT})], ids=["out", "back", "from drain to maint"]
    )
    def test_refused_all_the_same(self, model, store, held, asked):
        """The record says again what it said."""
        if held:
            hold(model, store)
        before = store.records()

        def refuse(key, state):
            raise HaproxyRefused("no")

        model.before_telling = refuse
        with pytest.raises(HaproxyRefused):
            hold(model, store, **asked)
        assert store.records() == before

    @pytest.mark.parametrize("is_put_back", [True, False])
    def test_the_agent_check_that_is_not_put_back_stays_on_record(self, store, is_put_back):
        """Nobody would enable it again."""
        model = ModelWithAgent({("www", "web1"): 0})

        def refuse(key, state):
            model.refuses_agent = not is_put_back
            raise HaproxyRefused("no")

        model.before_telling = refuse
        with pytest.raises(HaproxyRefused):
            hold(model, store)
        assert model.agent == (ENABLED if is_put_back else DISABLED) and len(store.records()) == (0 if is_put_back else 1)
        model.before_telling, model.refuses_agent = (lambda key, state: None), False
        hold(model, store)
        release(model, store)
        assert model.agent == ENABLED and model.flags["www", "web1"] == 0 and store.records() == []

    @pytest.mark.parametrize("ids", [["A"], ["B"]])
    @pytest.mark.parametrize("present", [True, False])
    def test_no_answer_on_the_way_from_drain_to_maint(self, model, store, ids, present):
        """The command did not come through: what is in drain is still ours."""
        hold(model, store, ["A"])

        def lose(key, state):
            raise HaproxyError("HAProxy did not answer.")

        model.before_telling = lose
        with pytest.raises(HaproxyError, match="did not answer"):
            hold(model, store, ids, out_state=MAINT)
        model.before_telling = lambda key, state: None
        outcomes = hold(model, store, ids, out_state=MAINT) if present else release(model, store)
        assert [outcome.conflict for outcome in outcomes.values()] == [None, None]
        assert model.flags["www", "web1"] == model.flags["api", "web1"] == (F_MAINT if present else 0)
        assert {record["phase"] for record in store.records()} == ({HELD} if present else set())

    def test_put_back_by_hand_on_the_way_from_drain_to_maint(self, model, store):
        hold(model, store)
        killed_hold(model, store, 5, out_state=MAINT)
        assert [record[LEFT_BEFORE] for record in store.records() if LEFT_BEFORE in record] == [DRAIN]
        model.flags["www", "web1"] = model.flags["api", "web1"] = 0
        outcomes = hold(model, store, out_state=MAINT)
        assert {outcome.condition for outcome in outcomes.values()} == {CHANGED_MEANWHILE}
        assert model.flags["www", "web1"] == model.flags["api", "web1"] == 0

    def test_a_server_that_is_no_longer_there(self, model, store):
        hold(model, store, ["A"])
        hold(model, store, ["B"])
        del model.flags["api", "web1"], model.configured["api", "web1"]
        model.reload()
        assert list(hold(model, store)) == ["www"]
        assert shown(release(model, store, ["A"]))["api"] == (NONE, ["B"], True)
        outcomes = release(model, store, ["B"])
        assert outcomes["api"].conflict == "api/web1 is no longer in HAProxy: the hold on it was dropped."
        assert outcomes["api"].result()["admin_state"] is None
        assert store.records() == []

    def test_a_damaged_record_of_another_server(self, model, store):
        hold(model, store, server="web2")
        (record,) = store.records()
        with open(record["path"], "w") as stream:
            stream.write("{")
        with pytest.raises(HoldError, match="web2"):
            hold(model, store)
        assert model.flags["www", "web1"] == 0


class TestCondition:
    def record(self, phase=HELD, left=DRAIN, pid=100, **more):
        states = {"admin_state": READY, "weight": 1}
        return dict(
            new_record(HAPROXY_SERVER, subject_of(PATH, "b", "s"), states, dict(states, admin_state=left), {}, process={"pid": pid, "started": 1000 + pid}),
            phase=phase,
            **more,
        )

    @pytest.mark.parametrize(
        ("phase", "left", "same", "flags", "expected"),
        [
            (HELD, DRAIN, True, F_DRAIN, HELD),
            (CHANGING, DRAIN, True, F_DRAIN, HELD),
            (RESTORING, DRAIN, True, F_DRAIN, HELD),
            (HELD, DRAIN, True, F_DRAIN | I_MAINT | R_MAINT | C_MAINT, HELD),
            (HELD, MAINT, False, F_MAINT, HELD),
            (HELD, MAINT, False, F_MAINT | C_MAINT, ALREADY_OUT),
            (HELD, DRAIN, True, 0, CHANGED_MEANWHILE),
            (HELD, DRAIN, True, F_MAINT, CHANGED_MEANWHILE),
            (HELD, DRAIN, False, 0, LOST),
            (HELD, DRAIN, False, F_MAINT, ALREADY_OUT),
            (HELD, DRAIN, False, I_MAINT, LOST),
            (CHANGING, DRAIN, True, 0, LOST),
            (CHANGING, DRAIN, False, 0, LOST),
            (CHANGING, DRAIN, True, I_DRAIN, LOST),
            (RESTORING, DRAIN, True, 0, NONE),
            (RESTORING, DRAIN, False, 0, NONE),
            (RESTORING, DRAIN, True, F_MAINT, CHANGED_MEANWHILE),
        ],
    )
    def test_of_a_record(self, phase, left, same, flags, expected):
        model = Model({("b", "s"): flags})
        look = model.look()
        record = self.record(phase, left, 100 if same else 99)
        assert condition_of(record, look.servers["b", "s"], look.process) == expected

    @pytest.mark.parametrize(
        ("same", "flags", "expected"),
        [
            (True, F_DRAIN, HELD),
            (True, F_MAINT, HELD),
            (True, 0, CHANGED_MEANWHILE),
            (False, F_DRAIN, HELD),
            (False, F_MAINT, HELD),
            (False, F_MAINT | C_MAINT, ALREADY_OUT),
            (False, 0, LOST),
        ],
    )
    def test_of_a_record_on_its_way_from_drain_to_maint(self, same, flags, expected):
        look = Model({("b", "s"): flags}).look()
        record = self.record(CHANGING, MAINT, 100 if same else 99, **{LEFT_BEFORE: DRAIN})
        assert condition_of(record, look.servers["b", "s"], look.process) == expected

    def test_of_such_a_record_that_does_not_say_where_it_comes_from(self):
        """Written by a former release, or on the way from ready: whose drain it is cannot be told."""
        look = Model({("b", "s"): F_DRAIN}).look()
        assert condition_of(self.record(CHANGING, MAINT), look.servers["b", "s"], look.process) == CHANGED_MEANWHILE

    @pytest.mark.parametrize(("phase", "noted"), [(HELD, True), (RESTORING, True), (CHANGING, False)])
    def test_whether_the_record_says_that_it_is_out(self, phase, noted):
        look = Model({("b", "s"): F_DRAIN}).look()
        assert describe(look.servers["b", "s"], self.record(phase), HELD)["noted"] is noted
        assert describe(look.servers["b", "s"], None, NONE)["noted"] is True

    def test_the_same_pid_that_started_later_is_another_process(self):
        """As in a container, where HAProxy has the same process id every time."""
        look = Model({("b", "s"): 0}).look()
        record = self.record()
        record["process"]["started"] -= 60
        assert condition_of(record, look.servers["b", "s"], look.process) == LOST


killed_hold = functools.partial(hold_killed, hold, ("set_state", "check_first", "look"))


class TestKilled:
    """Killed before and after every look, every write and every command; the next run puts it right."""

    def each(self, prepare, act):
        for budget in range(100):
            with tempfile.TemporaryDirectory() as folder:
                model = Model({("www", "web1"): 0, ("api", "web1"): 0, ("www", "web2"): F_MAINT})
                store = Store(folder)
                prepare(model, store)
                done = killed_hold(model, store, budget, **act)
                yield budget, model, store
                if done:
                    assert budget > 5
                    return
        raise AssertionError("it never came to its end")

    def same_again(self, model, store, act, held_by):
        outcomes = hold(model, store, **act)
        assert [outcome.conflict for outcome in outcomes.values()] == [None, None]
        assert [outcome.result()["condition"] for outcome in outcomes.values()] == [HELD if held_by else NONE] * 2
        assert [outcome.result()["held_by"] for outcome in outcomes.values()] == [held_by] * 2
        assert {record["phase"] for record in store.records()} <= {HELD}
        assert model.flags["www", "web2"] == F_MAINT
        assert not any(outcome.changed for outcome in hold(model, store, **act).values())

    def test_putting(self):
        for _dummy, model, store in self.each(lambda *a: None, {"ids": ["A"]}):
            self.same_again(model, store, {"ids": ["A"]}, ["A"])
            release(model, store)
            assert model.flags["www", "web1"] == model.flags["api", "web1"] == 0

    def test_putting_and_never_put_again(self):
        for _dummy, model, store in self.each(lambda *a: None, {"ids": ["A"]}):
            self.same_again(model, store, {"ids": ["A"], "present": False}, [])
            assert model.flags["www", "web1"] == model.flags["api", "web1"] == 0

    def test_adding_a_second(self):
        for _dummy, model, store in self.each(lambda *a: hold(*a, ids=["A"]), {"ids": ["B"]}):
            self.same_again(model, store, {"ids": ["B"]}, ["A", "B"])

    ON_TO_MAINT = ({"ids": ["A"], "out_state": MAINT}, {"ids": ["B"], "out_state": MAINT})

    @pytest.mark.parametrize("act", ON_TO_MAINT)
    @pytest.mark.parametrize("out_state", [None, DRAIN, MAINT])
    def test_on_from_drain_to_maint(self, act, out_state):
        """Whatever the next run asks for, it goes on where it was on the way; it never goes back."""
        for _dummy, model, store in self.each(lambda *a: hold(*a, out_state=DRAIN), act):
            before = dict(model.flags)
            on_the_way = {r["subject"]["backend"] for r in store.records() if r["left"]["admin_state"] == MAINT}
            self.same_again(model, store, dict(act, out_state=out_state), sorted({"A", *act["ids"]}))
            for backend in ("www", "api"):
                on = backend in on_the_way or out_state == MAINT
                assert model.flags[backend, "web1"] == (F_MAINT if on else before[backend, "web1"])
            assert not any(LEFT_BEFORE in record for record in store.records())
            release(model, store)
            assert model.flags["www", "web1"] == model.flags["api", "web1"] == 0

    def test_on_from_drain_to_maint_and_released(self, monkeypatch):
        """Also where the release is killed in its turn."""
        monkeypatch.setattr(os, "fsync", lambda fd: None)
        for budget in range(0, 20, 2):
            for _dummy, model, store in self.each(lambda *a: hold(*a, out_state=DRAIN), self.ON_TO_MAINT[1]):
                killed_hold(model, store, budget, ids=None, present=False)
                self.same_again(model, store, {"ids": None, "present": False}, [])
                assert model.flags["www", "web1"] == model.flags["api", "web1"] == 0 and store.records() == []

    def test_on_from_drain_to_maint_and_reloaded(self):
        for keep_state in (True, False):
            for _dummy, model, store in self.each(lambda *a: hold(*a, out_state=DRAIN), self.ON_TO_MAINT[1]):
                model.reload(keep_state)
                self.same_again(model, store, self.ON_TO_MAINT[1], ["A", "B"])
                assert model.flags["www", "web1"] == model.flags["api", "web1"] == F_MAINT

    def test_releasing(self):
        act = {"ids": ["A"], "present": False}
        for _dummy, model, store in self.each(hold, act):
            self.same_again(model, store, act, [])
            assert model.flags["www", "web1"] == model.flags["api", "web1"] == 0

    def test_releasing_and_then_held_for_another(self):
        act = {"ids": ["A"], "present": False}
        for budget, model, store in self.each(hold, act):
            outcomes = hold(model, store, ["B"])
            assert [outcome.conflict for outcome in outcomes.values()] == [None, None]
            assert model.flags["www", "web1"] == model.flags["api", "web1"] == F_DRAIN
            for outcome in outcomes.values():
                # The release of A was decided, or not yet.
                assert outcome.result()["held_by"] in (["B"], ["A", "B"]), budget
            release(model, store, ["A", "B"])
            assert model.flags["www", "web1"] == model.flags["api", "web1"] == 0

    def test_releasing_what_haproxy_checks_first(self):
        def prepare(model, store):
            model.checked = {("www", "web1")}
            hold(model, store, out_state=MAINT)

        act = {"ids": ["A"], "present": False}
        for _dummy, model, store in self.each(prepare, act):
            waiting = release(model, store)["www"]
            assert waiting.waiting_for and waiting.conflict is None and not release(model, store)["www"].changed
            assert model.flags["www", "web1"] == F_DRAIN and model.down
            model.down.clear()
            self.same_again(model, store, act, [])
            assert model.flags["www", "web1"] == model.flags["api", "web1"] == 0

    def test_putting_right_after_a_reload(self):
        def prepare(model, store):
            hold(model, store)
            model.configured["www", "web2"] = F_MAINT
            model.reload()

        for _dummy, model, store in self.each(prepare, {"ids": ["A"]}):
            self.same_again(model, store, {"ids": ["A"]}, ["A"])

    def test_and_reloaded_before_the_next_run(self):
        for _dummy, model, store in self.each(lambda *a: None, {"ids": ["A"]}):
            model.reload()
            self.same_again(model, store, {"ids": ["A"]}, ["A"])
            model.reload()
            self.same_again(model, store, {"ids": ["A"], "present": False}, [])


def test_released_held_again_killed_and_released():
    """The server was on its way from drain, where HAProxy checks it, back to maintenance, and had not got there."""
    for budget in range(1, 12):
        model = Model({("www", "web1"): 0})
        model.checked = {("www", "web1")}
        with tempfile.TemporaryDirectory() as folder:
            store = Store(folder)
            hold(model, store, out_state=MAINT)
            release(model, store)
            assert model.down
            killed_hold(model, store, budget)
            # Wherever it was by then, no check has passed.
            assert release(model, store)["www"].waiting_for and model.flags["www", "web1"] == FLAGS[DRAIN], budget


@pytest.mark.parametrize("state", [READY, MAINT])
def test_changed_by_somebody_while_it_was_released_and_held_again(model, store, state):
    """It is held from now on: a later event joins those that hold it, and the release of one leaves the other."""
    model.checked = {("www", "web1")}
    hold(model, store, backends=["www"], out_state=MAINT)
    assert release(model, store, backends=["www"])["www"].waiting_for
    # The second call knows that HAProxy took the command, so maintenance is somebody else's.
    release(model, store, backends=["www"])
    model.flags["www", "web1"] = FLAGS[state]
    outcome = hold(model, store, ["B"], backends=["www"])["www"]
    assert outcome.condition == CHANGED_MEANWHILE and outcome.conflict
    (record,) = store.records()
    assert (record["phase"], list(record["events"]), LEFT_BEFORE in record) == (HELD, ["B"], False)
    assert hold(model, store, ["C"], backends=["www"])["www"].result()["held_by"] == ["B", "C"]
    assert release(model, store, ["B"], backends=["www"])["www"].result()["held_by"] == ["C"]
    assert model.flags["www", "web1"] == FLAGS[state]
    # The other way round than before: what somebody did is taken back, so that it is as we left it.
    model.flags["www", "web1"] = F_DRAIN
    assert hold(model, store, ["C"], backends=["www"])["www"].condition == HELD
    assert release(model, store, ["C"], backends=["www"])["www"].waiting_for


def test_held_again_while_a_release_waits_and_then_removed_from_haproxy(model, store):
    """The release leaves alone what came later, wherever the server is by then."""
    model.checked = {("www", "web1")}
    hold(model, store, backends=["www"], out_state=MAINT)

    def meanwhile(_seconds):
        hold(model, store, backends=["www"])
        del model.flags["www", "web1"]

    request = Request(False, ["A"])
    engine = Engine(HaproxyServers(model, store, request, "web1", ["www"], None), store, request, sleep=meanwhile)
    engine.run(30.0)
    assert engine.conflicts == [] and [list(record["events"]) for record in store.records()] == [["A"]]


class TestFullDisk:
    @pytest.mark.parametrize("number", range(4))
    def test_a_write_that_fails(self, model, store, number):
        """The first: nothing was touched. A later one: an error all the same, and the next run goes on."""
        writes = itertools.count()

        class Full(Store):
            def write(self, record):
                if next(writes) == number:
                    raise HoldError("The record %s cannot be written: No space left on device." % self.path(record["kind"], record["subject"]))
                super().write(record)

        with pytest.raises(HoldError, match="No space left"):
            hold(model, Full(store.state_dir))
        if number == 0:
            assert model.told == [] and store.records() == []
        assert all(outcome.result()["condition"] == HELD for outcome in hold(model, store).values())
        release(model, store)
        assert set(model.flags.values()) == {0}


class Lives(RuleBasedStateMachine):
    """Two controllers, some of them killed, an operator, reloads: what must be true whatever happens.

    - A server that an operator took out, or that the configuration disables, is never put into rotation.
    - Nothing is taken out of rotation that an operator put in while it was held.
    - A run for an event that came to its end leaves the server out, or says what is in the way.
    - What we took out is in rotation again once nothing holds it.
    - What HAProxy checks comes out of maintenance only after its checks have passed.
    - Check mode predicts what the run then does.
    """

    SERVERS = (("www", "web1"), ("api", "web1"))
    IDS = st.lists(st.sampled_from(["A", "b", "B", "C"]), min_size=1, max_size=2)

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.store = Store(self.folder.name)

    def teardown(self):
        self.folder.cleanup()

    @initialize(disabled=st.booleans(), sticky=st.booleans(), checked=st.sets(st.sampled_from(SERVERS)))
    def begin(self, disabled, sticky, checked):
        self.model = Model({self.SERVERS[0]: F_MAINT | C_MAINT if disabled else 0, self.SERVERS[1]: 0}, ["api"] if sticky else [])
        self.model.before_telling = self.judge
        self.model.checked = checked
        # What we set last in the state that stands now, None where somebody else made it.
        self.ours = dict.fromkeys(self.SERVERS)
        # An operator put it in although it was held, and it is not released yet.
        self.overruled = dict.fromkeys(self.SERVERS, False)

    def record(self, key):
        return self.store.read(HAPROXY_SERVER, subject_of(PATH, *key))

    def judge(self, key, state):
        """Whatever is told to HAProxy passes here first."""
        server = self.model.look().servers[key]
        if state == READY:
            assert self.ours[key] == server.forced, "put in what was not ours"
            assert server.passed and not (server.checked and server.forced == MAINT), "put in before HAProxy had checked it"
        else:
            assert server.admin_state == READY or self.ours[key] == server.forced, "took out what was out"
            assert not self.overruled[key], "overruled the operator"
        self.ours[key] = None if state == READY else state

    @rule(ids=IDS | st.none(), present=st.booleans(), out_state=st.sampled_from([None, DRAIN, MAINT]))
    def run(self, ids, present, out_state):
        if present and ids is None:
            ids = ["A"]
        arguments = {"ids": ids, "present": present, "out_state": out_state}
        predicted = hold(self.model, self.store, dry=True, **arguments)
        outcomes = hold(self.model, self.store, **arguments)
        # What waits for HAProxy's checks is predicted as it will be when they have passed.
        assert {b: (o.result(), o.changed, o.conflict) for b, o in predicted.items() if not outcomes[b].waiting_for} == {
            b: (o.result(), o.changed, o.conflict) for b, o in outcomes.items() if not o.waiting_for
        }
        look = self.model.look()
        for key in self.SERVERS:
            server, outcome = look.servers[key], outcomes[key[0]]
            if present:
                assert server.admin_state != READY or outcome.conflict
            if self.record(key) is None:
                self.overruled[key] = False
                assert self.ours[key] is None, "out by us, and nobody knows"
            elif server.admin_state == READY:
                assert outcome.conflict or outcome.result()["condition"] == LOST
        again = hold(self.model, self.store, **arguments)
        assert not any(outcome.changed for outcome in again.values()), "not idempotent"

    @rule(ids=IDS, present=st.booleans(), out_state=st.sampled_from([None, DRAIN, MAINT]), budget=st.integers(0, 25))
    def killed_run(self, ids, present, out_state, budget):
        killed_hold(self.model, self.store, budget, ids=ids, present=present, out_state=out_state)
        for key in self.SERVERS:
            if self.record(key) is None:
                self.overruled[key] = False
                assert self.ours[key] is None, "out by us, and nobody knows"

    @rule(key=st.sampled_from(SERVERS), state=st.sampled_from([READY, DRAIN, MAINT]))
    def operator_acts(self, key, state):
        record = self.record(key)
        flags = self.model.flags[key]
        self.model.flags[key] = flags & ~(F_MAINT | F_DRAIN) | FLAGS[state]
        same = record and record["process"]["pid"] == self.model.pid
        configured = state == MAINT and flags & C_MAINT
        ours = (record["left"]["admin_state"], record.get(LEFT_BEFORE)) if record else ()
        if state in ours and (same or not configured):
            # Nobody can tell this from what we left.
            self.ours[key] = state
            self.overruled[key] = False
            return
        self.ours[key] = None
        self.overruled[key] = bool(state == READY and same and (record["phase"] == HELD or LEFT_BEFORE in record))

    @rule(key=st.sampled_from(SERVERS))
    def checks_pass(self, key):
        self.model.down.discard(key)

    @rule(weight=st.integers(0, 256), key=st.sampled_from(SERVERS))
    def operator_weighs(self, weight, key):
        self.model.weights[key] = weight

    @rule(keep_state=st.booleans(), disabled=st.booleans())
    def reload(self, keep_state, disabled):
        if not keep_state:
            self.model.configured[self.SERVERS[0]] = F_MAINT | C_MAINT if disabled else 0
        self.model.reload(keep_state)
        self.overruled = dict.fromkeys(self.SERVERS, False)
        for key in self.SERVERS:
            flags = self.model.flags[key]
            if not keep_state or flags & C_MAINT and self.ours[key] == MAINT:
                self.ours[key] = None

    @invariant()
    def records_are_whole(self):
        self.store.records()


@pytest.mark.parametrize("lives", [100, pytest.param(5000, marks=[pytest.mark.long, pytest.mark.timeout(1800)])])
def test_lives_of_a_server(monkeypatch, lives):
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    run_state_machine_as_test(Lives, settings=settings(max_examples=lives, stateful_step_count=25, deadline=None))


INFO = "Name: HAProxy\nVersion: 2.6.12\nNbproc: 1\nPid: 4711\nUptime: 0d 0h07m52s\nUptime_sec: 472\n"


class TestParsers:
    def test_info(self):
        assert parse_info(INFO + "Start_time_sec: 1795243046\n", PATH) == Process(4711, 1795243046, True)

    def test_info_of_a_version_that_does_not_tell_when_it_started(self):
        assert parse_info(INFO, PATH, now=lambda: 1000472.9) == Process(4711, 1000000, False)

    @pytest.mark.parametrize("text", ["", "Unknown command.\n", "Pid: x\nUptime_sec: 3\n", "Pid: 3\n", "HTTP/1.1 400 Bad Request\r\n"])
    def test_info_of_something_else(self, text):
        with pytest.raises(HaproxyError) as caught:
            parse_info(text, PATH)
        assert PATH in str(caught.value) and "'show info'" in str(caught.value)

    def test_several_processes_are_refused(self):
        with pytest.raises(HaproxyError, match="runs as 4 processes"):
            parse_info(INFO.replace("Nbproc: 1", "Nbproc: 4"), PATH)

    HEADER = "# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight"

    def test_servers_state_by_the_names_of_its_columns(self):
        moved = "# srv_uweight be_name srv_name new srv_addr srv_op_state srv_admin_state"
        for header, line in ((self.HEADER, "2 www 1 web1 10.0.0.4 2 8 10 20"), (moved, "10 www web1 ? 10.0.0.4 2 8")):
            (server,) = parse_servers_state("1\n%s\n%s\n\n" % (header, line), PATH)
            assert (server["be_name"], server["srv_name"], server["srv_admin_state"], server["srv_uweight"]) == ("www", "web1", "8", "10")

    @pytest.mark.parametrize("text", ["", "1\n", "1\n2 www 1 web1\n", "1\n# be_name srv_name\n", "Permission denied\n"])
    def test_servers_state_of_something_else(self, text):
        with pytest.raises(HaproxyError, match="show servers state"):
            parse_servers_state(text, PATH)

    def test_stat_with_commas_and_quotes(self):
        text = '# pxname,svname,qcur,scur,status,last_chk,\nwww,web1,0,3,UP,"a, ""b""\nc",\nwww,BACKEND,0,3,UP,,\n\n'
        rows = parse_stat(text, PATH)
        assert [row["scur"] for row in rows] == ["3", "3"] and rows[0]["last_chk"] == 'a, "b"\nc'

    @pytest.mark.parametrize("text", ["", "Unknown\n", "# pxname,svname\nwww,web1\n"])
    def test_stat_of_something_else(self, text):
        with pytest.raises(HaproxyError, match="show stat"):
            parse_stat(text, PATH)

    def test_a_number_that_is_none(self):
        with pytest.raises(HaproxyError, match="'many'"):
            _haproxy_servers.number("many")


class Scripted(Haproxy):
    """Answers from a table of commands instead of a socket."""

    def __init__(self, answers):
        super().__init__(PATH)
        self.answers = answers
        self.asked = []

    def command(self, line):
        self.asked.append(line)
        return "".join(self.answers[one] + "\n" for one in line.split(";"))


STATE = "1\n%s\n2 www 1 web1 10.0.0.4 2 0 10 10\n3 api 1 web1 - 0 0 1 1\n\n" % TestParsers.HEADER
STAT = "# pxname,svname,qcur,scur,bck,status,cookie\nwww,web1,0,1,0,UP,\nwww,BACKEND,0,0,0,UP,\napi,web1,0,0,1,UP,\napi,BACKEND,0,0,0,UP,\n"


class TestLook:
    def answers(self, **more):
        table = {
            "show info": INFO + "Start_time_sec: 7\n",
            "show servers state": STATE,
            "show stat -1 6 -1": STAT,
            "show table": "",
            "show cli level": "admin\n",
        }
        return dict(table, **more)

    def test_what_it_sees(self):
        look = Scripted(self.answers()).look()
        assert [(s.backend, s.sessions, s.backup, s.address) for s in look.servers.values()] == [
            ("www", 1, False, "10.0.0.4"),
            ("api", 0, True, None),
        ]
        assert look.backends_of("web1") == ["www", "api"]

    def test_all_of_it_from_one_process(self):
        """While it is reloaded, every connection may come to another process."""
        processes = []
        for started, flags in ((99, 0), (7, F_DRAIN)):
            info, state = INFO + "Start_time_sec: %d\n" % started, STATE.replace("10.0.0.4 2 0", "10.0.0.4 2 %d" % flags)
            processes.append(Scripted(self.answers(**{"show info": info, "show servers state": state})))
        new, former = processes

        class Reloaded(Haproxy):
            turns = itertools.cycle([new, former, former, new])

            def command(self, line):
                return next(self.turns).command(line)

        haproxy = Reloaded(PATH)
        looks = [haproxy.look() for _dummy in range(4)]
        assert [(look.process.started, look.servers["www", "web1"].flags) for look in looks] == [(99, 0), (7, F_DRAIN), (7, F_DRAIN), (99, 0)]

    def test_an_answer_that_breaks_off(self):
        """Wherever it does. Otherwise servers would seem to be gone."""
        whole = Scripted(self.answers())
        text = whole.command("show info;show servers state;show stat -1 6 -1")

        class Broken(Haproxy):
            def command(self, line):
                return text[: self.length]

        haproxy = Broken(PATH)
        for haproxy.length in range(len(text)):
            with pytest.raises(HaproxyError):
                haproxy.look()
        haproxy.length = len(text)
        assert len(haproxy.look().servers) == 2

    @pytest.mark.parametrize("command", ["show info", "show servers state", "show stat -1 6 -1"])
    def test_a_command_that_is_not_known(self, command):
        with pytest.raises(HaproxyError) as caught:
            Scripted(self.answers(**{command: "Unknown command: x\n  help\n"})).look()
        assert "does not answer '%s' as HAProxy does: 'Unknown command" % command.replace(" -1 6 -1", "") in str(caught.value)

    def test_statistics_with_an_empty_line(self):
        stat = STAT.replace("status,cookie", "status,last_chk,cookie").replace("1,0,UP,", '1,0,UP,"one\n\ntwo",')
        look = Scripted(self.answers(**{"show stat -1 6 -1": stat})).look()
        assert look.servers["www", "web1"].sessions == 1 and look.backends_of("web1") == ["www", "api"]

    @pytest.mark.parametrize(("answer", "level"), [("admin\n\n", "admin"), ("user\n", "user"), ("Unknown command: x\n", None)])
    def test_level(self, answer, level):
        assert Scripted(self.answers(**{"show cli level": answer})).level() == level

    @pytest.mark.parametrize(
        ("tables", "stored", "sticky"),
        [
            ("", {}, set()),
            ("# table: www, type: ip, size:1024, used:0\n", {"www": True}, {"www"}),
            ("# table: www, type: ip, size:1024, used:0\n", {"www": False}, set()),
            ("# table: shared, type: ip, size:1, used:0\n", {"shared": True}, {"www", "api"}),
            ("# table: p/x, type: ip, size:1, used:0\n# table: api, type: ip\n", {"p/x": False, "api": True}, {"api"}),
        ],
    )
    def test_tables_that_make_sessions_stick(self, tables, stored, sticky):
        answers = self.answers(**{"show table": tables})
        for table, yes in stored.items():
            said = 'Require and operator among "eq"' if yes else "Data type not stored in this table"
            answers["show table %s data.server_id is 0" % table] = "Filter entry #1: %s\n\n" % said
        haproxy = Scripted(answers)
        assert haproxy.sticky_backends(haproxy.look()) == sticky

    def test_a_cookie_makes_sessions_stick(self):
        haproxy = Scripted(self.answers(**{"show stat -1 6 -1": STAT.replace("api,BACKEND,0,0,0,UP,", "api,BACKEND,0,0,0,UP,SRV")}))
        assert haproxy.sticky_backends(haproxy.look()) == {"api"}


def test_source_address_of_loopback_and_nowhere():
    assert _haproxy_servers.source_address("127.0.0.1", 80) is None
    assert _haproxy_servers.source_address("::1", 80) is None
    assert _haproxy_servers.source_address(None, 80) is None


def test_source_address_whatever_the_port():
    assert _haproxy_servers.source_address("192.0.2.1", 4294966296) is None


class TestFormerProcess:
    """What a former process still serves, by (address, port) of its connections."""

    def sessions(self, ports, connections, address="10.0.0.5"):
        state = [
            {"be_name": "www", "srv_name": name, "srv_addr": address, "srv_op_state": "2", "srv_admin_state": "0", "srv_uweight": "1", "srv_port": port}
            for name, port in ports.items()
        ]
        stat = [{"pxname": "www", "svname": name, "status": "UP", "scur": "1", "qcur": ""} for name in ports]
        look = HaproxyState(Process(1, 1, True), state, stat)
        look.add_former(Former(Counter(connections), None))
        return {name: look.servers["www", name].sessions - 1 for name in ports}

    def test_what_may_still_come_may_come_to_each_server(self):
        told = {"srv_addr": "10.0.0.5", "srv_op_state": "2", "srv_admin_state": "0", "srv_uweight": "1"}
        state = [dict(told, be_name=backend, srv_name="a") for backend in ("www", "api")]
        stat = [{"pxname": backend, "svname": "a", "status": "UP", "scur": "0", "qcur": ""} for backend in ("www", "api")]
        look = HaproxyState(Process(1, 1, True), state, stat)
        assert all(server.settled for server in look.servers.values())
        look.add_former(Former(Counter(), "2 clients may still send requests to it"))
        assert [(server.uncounted, server.settled) for server in look.servers.values()] == [("2 clients may still send requests to it", False)] * 2

    def test_several_servers_of_one_address(self):
        connections = {("10.0.0.5", 8080): 2, ("10.0.0.5", 8081): 1, ("10.0.0.6", 8082): 9}
        assert self.sessions({"a": "8080", "b": "8081", "c": "8082"}, connections) == {"a": 2, "b": 1, "c": 0}

    @pytest.mark.parametrize("port", ["0", "4294966296", "1000"])
    def test_a_server_without_a_port_of_its_own(self, port):
        """None, :-1000 and :+1000, as HAProxy shows them."""
        assert self.sessions({"a": port}, {("10.0.0.5", 80): 2, ("10.0.0.5", 443): 1, ("10.0.0.6", 80): 9}) == {"a": 3}

    def test_together_with_one_that_has_its_own(self):
        connections = {("10.0.0.5", 80): 2, ("10.0.0.5", 8080): 1}
        # Only what no server of the address has may be of an offset.
        assert self.sessions({"a": "1000", "b": "80"}, connections) == {"a": 1, "b": 3}
        assert self.sessions({"a": "0", "b": "80"}, connections) == {"a": 3, "b": 3}
        assert self.sessions({"a": "0", "b": "80"}, {("10.0.0.5", 80): 2}) == {"a": 2, "b": 2}

    def test_an_address_in_another_spelling(self):
        """HAProxy shows what the configuration says."""
        assert self.sessions({"a": "80"}, {("10.0.0.5", 80): 2}, address="::ffff:10.0.0.5") == {"a": 2}

    def test_a_server_without_an_address(self):
        assert self.sessions({"a": "0"}, {("10.0.0.5", 80): 2}, address="-") == {"a": 0}

    def test_the_port_that_is_shown(self):
        for port, shown_port in (("80", 80), ("65535", 65535), ("0", None), ("65536", None), ("4294966296", None)):
            line = {"srv_addr": "10.0.0.5", "srv_op_state": "2", "srv_admin_state": "0", "srv_uweight": "1", "srv_port": port}
            assert _haproxy_servers.HaproxyServer(("www", "a"), line, {"status": "UP", "scur": "", "qcur": ""}).port == shown_port

    @pytest.mark.parametrize(("path", "told"), [(None, None), ("/nowhere/master.sock", None), ("/" + 200 * "x", False)])
    def test_one_that_cannot_be_asked(self, monkeypatch, path, told):
        monkeypatch.setattr(_haproxy, "master_socket", lambda pid: path)
        assert former_state(100) is told


def test_a_dispatch_to_a_name_that_cannot_be_looked_up_is_told():
    found = _haproxy_beside._dispatch("shop", "web1..example.com:80", socket.getaddrinfo)
    assert found["leads_to"] == [] and found["unresolved"].startswith("web1..example.com does not resolve (")
