# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A role that is used alone, pass by pass: what a host does next, as the results of its turns say. No time passes but what a test says."""

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._run.alone import begin, one_pass
from ansible_collections.graceful.azure.plugins.plugin_utils._settings import read_role
from ansible_collections.graceful.azure.plugins.plugin_utils._text import clock

HAPROXY = {"type": "haproxy", "hosts": ["lb1"]}
WEB2 = {"event_id": "E9", "event_type": "Reboot", "resources": ["web2"]}
# What another VM tells where no event stands: a document, and an empty body.
NONE, EMPTY = {"events": [], "document_incarnation": 7}, {"events": [], "document_incarnation": 0}
UNREACHABLE = {"unreachable": True, "msg": "Connection refused"}
SETTINGS = {"graceful_azure_approve_resource": "/subscriptions/S/resourceGroups/RG/providers/Microsoft.Compute/virtualMachineScaleSets/web"}
OUTSIDE = {"graceful_azure_approve_through": "azure_resource_manager", "graceful_azure_resource_name": "web1", "approve_event_witness": "web2", **SETTINGS}


def event(event_id="E1", resources=("web1",), status="Scheduled", **more):
    """An event as a look returns it."""
    names = ("event_source", "description", "duration_in_seconds", "not_before", "seconds_until_not_before")
    base = {"event_id": event_id, "event_type": "Reboot", "event_status": status, "resources": list(resources), **dict.fromkeys(names)}
    return {**base, "affects_host": "web1" in resources, **more}


def record(*event_ids, kind="task", **subject):
    return {"kind": kind, "subject": subject, "events": {event_id: {"since": None, "details": {}} for event_id in event_ids}}


def server(state="drain", **more):
    """A server of HAProxy that is out and idle."""
    first = {"backend": "www", "server": "web1", "admin_state": state, "in_service": state == "ready", "sessions": 0, "queue": 0, "uncounted": None}
    first.update({"arrived": 0, "held_by": [], "condition": "already_out", "idle": True, "source_address": None, "total_sessions": 1})
    return {**first, "checked": True, "nothing_comes": False, "beside": 0, "left": None, **more}


class Role:
    """Runs a role of web1. A test tells what its turns return."""

    def __init__(self, role, check=False, duties=(HAPROXY,), **variables):
        self.now, self.boot = 1000.0, "a"
        known = {
            "graceful_azure_duties": list(duties),
            **{key if key.startswith(("graceful", "handle")) else f"{role}_{key}": value for key, value in variables.items()},
        }
        known = {key.replace("approve_event_approve_event", "approve_event"): value for key, value in known.items()}
        settings, mistakes = read_role(role, "web1", known, {"web1", "web2", "lb1", "lb2"})
        assert mistakes == []
        for option, default in (("wait", True), ("reason", "r"), ("event_details", {}), ("timeout", 120.0), ("state", "drained")):
            # As Ansible gives the defaults of the role.
            if settings["used"].get(option) is None and (option in settings["used"]):
                settings["used"][option] = default
        self.told = begin(role, "web1", settings, self.now, check)
        self.failure = None

    def turns(self):
        return self.told["turns"]["web1"]

    def acts(self):
        """The parts of the next acts, and their machines."""
        return [(turn.get("machine"), act["part"], act["module"]) for turn in self.turns() for act in turn.get("acts") or ()]

    def options(self, module=None):
        return next(turn["options"] for turn in self.turns() if turn.get("module") == module and "options" in turn)

    def tell(self, *results, after=0.5, looks=None, **look):
        """The next pass. C(results): those of the acts, as far as they are due. C(look): more of the look at the host. C(looks): of those at HAProxy."""
        self.now += self.told["pause"] + after
        left, items = list(results), []
        for turn in self.turns():
            item = {"turn": turn}
            if turn.get("acts"):
                todo = turn["acts"][: len(left)]
                item["acts"] = [dict(left.pop(0), part=act["part"], ended_at=self.now, **self.where(turn, act)) for act in todo]
            if "module" in turn:
                seen = {"process": "1", "clock": self.now, "at": self.now, "time": None, "holds": [], "addresses": []}
                seen.update(passes=[], beside={}, known_backends=[])
                item.update(seen, reached=True, began=self.now, **(looks if looks is not None else {"servers": [server()]}))
            elif "options" in turn:
                base = {"reached": True, "began": self.now, "at": self.now, "events": [], "resource_name": "web1", "holds": [], "connections": []}
                item.update(base, uncounted=[], boot_id="a", looks=1, steady=0.0, time="2026-11-26T00:00:00Z", fingerprint="f", age=0.0)
                item.update(look)
            items.append(item)
        facts = {"graceful_azure_turns": {"results": items}, "graceful_azure_failure": self.failure}
        self.told = one_pass(facts, self.told, self.now)
        return self.told

    @staticmethod
    def where(turn, act):
        where = {"balancer": act["balancer"]} if "balancer" in act else {}
        return dict(where, item=turn["machine"]) if where and turn.get("machine") else where


def act(**more):
    """The result of HAProxy's module for a host that is out."""
    return {"changed": True, "servers": [server(held_by=["E1"])], "conflicts": [], "refused": [], "waiting_for": [], **more}


PROBE = {"type": "health_probe", "action": "file", "file": "/run/out", "url": "http://localhost/health"}


def probed(**more):
    """A health answer that does not pass although nothing makes it fail."""
    answer = {
        "action": "file", "on": "/run/out", "state": "passing", "told": "/run/out is not there", "found": None, "held_by": [], "condition": "none",
        "failing_for": None, "noted": True, "restoring": False, **more,
    }  # fmt: skip
    probe = {"passes": False, "said": "http://localhost/health: status 404", "answered": True}
    return {
        "answer": answer,
        "notice_left": None,
        "passing_for": 60.0,
        "probe": probe,
        "connections": [],
        "new_connections": [],
        "quiet_for": 2.0,
        "closed_ago": 60.0,
    }


UNTOLD = "web1: http://localhost/health: status 404, although nothing makes it fail: "


def test_a_url_that_does_not_pass_is_warned_of_before_anything_is_done():
    """As a run does, and once."""
    role = Role("load_balancer", duties=[PROBE], state="out", event_ids=["E1"], wait=True, timeout=120)
    assert role.acts() == [] and role.told["warnings"] == []
    (warning,) = role.tell(looks=probed())["warnings"]
    assert warning.startswith(UNTOLD) and role.acts() == [("web1", "balancer", "health_probe_hold")]
    told = role.tell({"changed": True, "answers": [{"state": "failing", "told": "/run/out is there", "held_by": ["E1"]}], "conflicts": [], "waiting_for": []})
    assert told["finished"] and told["result"]["done"] and told["warnings"] == []

    role = Role("drain_host", duties=["app", PROBE], event_ids=["E1"], graceful_azure_ports=[80], graceful_azure_drain_timeout=60)
    (warning,) = role.tell(looks=probed())["warnings"]
    assert warning.startswith(UNTOLD) and role.tell(looks=probed())["warnings"] == []


def test_what_may_go_to_a_drained_host_is_warned_of():
    """As a run does: nobody can count it, so the host is drained all the same."""
    role = Role("drain_host", event_ids=["E1"], graceful_azure_ports=[443], graceful_azure_drain_timeout=60)
    way = {"backend": "any", "text": "server past", "leads_to": [], "unresolved": "it takes the address from the request"}
    looks = {"servers": [server()], "passes": [way]}
    assert role.tell(looks=looks, udp=[443], ports=[443])["warnings"] == [
        "web1: UDP is served on port 443, too, as by HTTP/3 or DNS. Its clients cannot be counted: only those of TCP keep the host busy",
        "web1: nobody knows whether server past in any on lb1 leads to it: it takes the address from the request",
    ]
    told = [role.tell(looks=looks, udp=[443], ports=[443], after=2) for _pass in range(4)]
    assert any(each["finished"] and each["result"]["done"] for each in told) and not any(each["warnings"] for each in told)
    role = Role("drain_host", event_ids=["E1"], state="running")
    role.tell(looks=looks)
    assert role.told["warnings"] == []


def test_it_waits_until_the_balancer_must_have_noticed():
    role = Role("drain_host", duties=[PROBE], event_ids=["E1"], graceful_azure_ports=[80], graceful_azure_drain_timeout=60)
    failing = dict(
        probed(state="failing", condition="held", held_by=["E1"], failing_for=0.0, found={"state": "passing", "passed": True}), clock=0.0, idle=False
    )
    told = role.tell(looks=dict(failing, notice_left=12.0))
    assert not told["finished"] and told["warnings"] == []
    for _pass in range(8):
        told = role.tell(looks=dict(failing, notice_left=0.0, idle=True, quiet_for=5.0, clock=role.now), ports=[80])
    assert told["finished"] and told["result"]["done"], told

    untold = dict(failing, notice_left=0.0, answer=dict(failing["answer"], found={"state": "passing", "passed": False}))
    role = Role("drain_host", duties=[PROBE], event_ids=["E1"], graceful_azure_ports=[80], graceful_azure_drain_timeout=60)
    told = role.tell(looks=untold)
    assert told["finished"] and "status 404: it was not seen to pass before" in told["failure"]


def test_nobody_is_warned_of_an_answer_on_the_way_back():
    role = Role("load_balancer", duties=[PROBE], state="in", event_ids=["E1"], wait=True, timeout=120)
    assert role.acts() == [("web1", "balancer", "health_probe_hold")] and role.told["warnings"] == []


class TestLoadBalancer:
    def out(self, **more):
        return Role("load_balancer", state="out", **{"event_ids": ["E1"], "wait": True, "timeout": 120, **more})

    def test_out_without_a_look(self):
        role = self.out()
        assert role.acts() == [("lb1", "balancer", "haproxy_hold")] and len(role.turns()) == 1
        assert role.turns()[0]["acts"][0]["args"]["event_details"] == {"E1": {"host": "web1"}}
        told = role.tell(act())
        assert told["finished"] and told["failure"] == "" and told["result"]["reason"] == "web1 is held (www on lb1: drain)"

    def test_the_events_are_asked_for_first(self):
        role = self.out(event_ids=None)
        assert role.acts() == [] and not role.told["finished"]
        role.tell(events=[event(), event("E2", ["web2"])])
        assert role.turns()[0]["acts"][0]["args"]["event_ids"] == ["E1"]
        assert "No scheduled event names this host" in self.out(event_ids=None).tell(events=[event("E2", ["web2"])])["failure"]
        silent = self.out(event_ids=None).tell(reached=False, error="no route", events=None)
        assert silent["failure"] == "The host cannot be reached." and not silent["result"]["done"]

    def test_too_few_others_serve(self):
        refused = act(changed=False, refused=["web1 stays."], servers=[server("ready")])
        role = self.out()
        assert not role.tell(refused)["finished"] and role.told["pause"] > 0 and role.acts()
        (line,) = role.told["lines"]
        assert "  web1  waiting  lb1: web1 stays.  (waits until " in line
        assert role.tell(act())["finished"] and role.told["result"]["changed"]
        late = self.out(timeout=10)
        late.tell(refused)
        told = late.tell(refused, after=10)
        assert told["finished"] and told["failure"] == "lb1: web1 stays."
        step = self.out(wait=False).tell(refused)
        assert (step["finished"], step["failure"], step["result"]["done"]) == (True, "", False)

    def test_nobody_waits_for_a_dead_balancer(self):
        told = self.out().tell(UNREACHABLE)
        assert told["finished"] and told["failure"] == "lb1 cannot be reached." and told["result"]["failed_hosts"] == ["lb1"]
        assert self.out(wait=False).tell(UNREACHABLE)["failure"] == ""
        assert self.out().told["result"]["reason"] == "the role did not come to its end"

    def test_back_releases_whatever_holds(self):
        role = Role("load_balancer", state="in", wait=True, timeout=120)
        assert "event_ids" not in role.turns()[0]["acts"][0]["args"]
        waits = act(waiting_for=["www/web1 waits."], conflicts=["Somebody acted."])
        assert not role.tell(waits)["finished"]
        told = role.tell(act(changed=False, servers=[server("ready")]))
        assert told["result"]["done"] and told["result"]["changed"] and told["result"]["conflicts"] == ["lb1: Somebody acted."]

    @pytest.mark.parametrize(("duties", "is_later"), [([HAPROXY, "app"], None), (["app", HAPROXY], True)])
    def test_back_without_waiting_for_checks_that_need_what_comes_later(self, duties, is_later):
        role = Role("load_balancer", duties=duties, state="in", wait=True, timeout=120)
        assert role.turns()[0]["acts"][0]["args"].get("checked_later") is is_later

    def test_back_for_one_of_two_events(self):
        result = Role("load_balancer", state="in", wait=True, timeout=120, event_ids=["e1"]).tell(act(servers=[server(held_by=["E2"])]))["result"]
        assert (result["done"], result["held_by"]) == (True, ["E2"]) and result["reason"].endswith("still held for E2")


def test_what_somebody_else_has_made_fail_counts_from_the_first_look_where_nothing_tells_since_when():
    """As of a site of IIS. Each look would begin anew."""
    role = Role("drain_host", duties=[PROBE], event_ids=["E1"], graceful_azure_ports=[80], graceful_azure_drain_timeout=60)
    began = role.now
    seen = dict(probed(state="failing", condition="already_out", failing_for=0.0), notice_left=12.0, idle=False)
    for _pass in range(40):
        told = role.tell(looks=dict(seen, clock=role.now), ports=[80])
        if told["finished"]:
            break
    assert told["result"]["done"] and role.now - began >= 12.0, told


class TestRestoreService:
    def back(self, **more):
        return Role("restore_service", **{"wait": True, **more})

    def test_what_is_on_record_comes_back(self):
        role = self.back(duties=[HAPROXY, "app"], graceful_azure_health_port=80)
        assert role.acts() == []
        role.tell(holds=[record("E1", kind="service", service="app.service"), record("E1", name="drained")])
        parts = [(machine, part) for machine, part, _module in role.acts()]
        assert parts == [(None, "steps"), (None, "answer"), ("lb1", "balancer"), (None, "forgotten"), (None, "restoring")]
        assert all("event_ids" not in one["args"] for turn in role.turns() for one in turn["acts"] if one["part"] != "restoring")
        assert not role.tell({"changed": True, "done": False, "waiting_for": "app is activating"}, holds=[record("E1", name="restoring")])["finished"]
        (forgotten,) = [one for turn in role.turns() for one in turn["acts"] if one["part"] == "forgotten"]
        assert "restoring" in forgotten["args"]["name"], "the first try has left it"

    def test_a_balancer_that_the_settings_have_no_more_is_told(self):
        spots = [f"haproxy on {machine} /run/haproxy/admin.sock, server web1" for machine in ("lb1", "lb2")]
        drained = record("E1", name="drained")
        drained["events"]["E1"]["details"] = {"resources": ["web1"], "out_of": spots}
        role = self.back()
        role.tell(holds=[drained])
        told = role.tell(act(servers=[server("ready")]), {"changed": True, "done": True})
        (lost,) = told["result"]["conflicts"]
        assert told["finished"] and lost.startswith(f"{spots[1]}: it was taken out there, and graceful_azure_duties has that no more")
        assert told["result"]["done"] and told["failure"] == f"web1 is restored; {lost}"

    def test_so_is_one_of_which_only_roles_have_taken_it_out_for_an_event_that_is_made_up(self):
        role = Role("drain_host", duties=[{**HAPROXY, "hosts": ["lb1", "lb2"]}, "app"], event_ids=["drill"], graceful_azure_drain_timeout=60)
        while "service_hold" not in [module for _machine, _part, module in role.acts()]:
            role.tell(looks={"servers": [server(held_by=["drill"], condition="held", quiet_for=5.0, nothing_comes=True)]})
        (stop, drained) = (act["args"]["event_details"]["drill"] for turn in role.turns() for act in turn.get("acts") or ())
        spots = [f"haproxy on {machine} /run/haproxy/admin.sock, server web1" for machine in ("lb1", "lb2")]
        assert stop["out_of"] == drained["out_of"] == spots
        held = record("drill", name="drained")
        held["events"]["drill"]["details"] = drained
        steps = record("drill", name="drain_host_step_warm")
        role = self.back(event_ids=["drill"])
        role.tell(holds=[held, steps])
        told = role.tell(act(servers=[server("ready")]), {"changed": True, "done": True})
        assert told["finished"] and [lost.partition(":")[0] for lost in told["result"]["conflicts"]] == [
            "the duty warm was handed over, and graceful_azure_duties has it no more", spots[1]
        ]  # fmt: skip
        assert spots[1] in told["failure"]

    def test_a_host_that_cannot_be_reached(self):
        told = self.back().tell(reached=False, error="no route", events=None, holds=None)
        assert (told["finished"], told["failure"]) == (True, "web1 is not restored; the host cannot be reached")
        assert self.back(wait=False).tell(reached=False, error="no route", events=None, holds=None)["failure"] == ""

    def test_a_host_that_answers_too_slowly_is_not_called_out_of_reach(self):
        slow = {"reached": False, "cut_off": 6.0, "error": "not within 6 s", "events": None, "holds": None}
        role = self.back()
        assert [turn["tries"] for turn in role.turns()] == [3]
        said = "web1 is slow: not within 6 s. Run it again, or set handle_events_observe_timeout, such as to 30"
        assert role.tell(**slow)["failure"] == said
        step = self.back(wait=False).tell(**slow)
        assert (step["failure"], step["result"]["done"], step["result"]["reason"]) == ("", False, said)

    def test_how_long_a_look_may_take_can_be_set(self):
        assert self.back().options()["timeout"] == 1.0
        assert self.back(handle_events_observe_timeout=30).options()["timeout"] == 30.0

    def test_for_what_it_waits_is_told_at_once_and_when_it_changes(self):
        """Until it failed after five minutes, nothing was shown."""
        role = self.back(duties=[HAPROXY], graceful_azure_health_url="http://web1/", graceful_azure_restore_timeout=300)
        there = [record("E1", name="drained")]
        assert role.tell(holds=there)["lines"] == []

        def lines(said):
            silent = {"changed": False, "answered": False, "reason": f"http://web1/: {said}"}
            return role.tell(silent, holds=there)["lines"]

        (first,) = lines("Connection refused")
        assert first.startswith(f"{clock(role.now)}  web1  restoring  not back yet: http://web1/: Connection refused  (should be back by ")
        assert first.endswith(f"{clock(1300.0)})")
        assert lines("Connection refused") == []
        (second,) = lines("status 503")
        assert "  not back yet: http://web1/: status 503  (for 3 s, " in second
        assert sum(len(lines("status 503")) for _second in range(60)) == 5, "it is told again from time to time"
        role.now += 300
        assert lines("status 503") == [] and role.told["finished"]
        end = "web1 is not restored; it stays out of its load balancer; http://web1/: status 503; start what should answer, then run it again"
        assert role.told["failure"] == end

    def test_what_does_not_wait_tells_nothing(self):
        for more in ({"wait": False}, {"check": True}):
            role = self.back(duties=[HAPROXY], graceful_azure_health_url="http://web1/", **more)
            role.tell(holds=[record("E1", name="drained")])
            told = role.tell({"changed": False, "answered": False, "reason": "http://web1/: refused"})
            assert told["finished"] and told["lines"] == [] and told["failure"] == ""

    def test_a_host_that_is_lost_later_is_waited_for(self):
        role = self.back(duties=["app"])
        there = [record("E1", kind="service", service="app.service")]
        role.tell(holds=there)
        role.tell({"changed": True, "done": False, "waiting_for": "app is activating"}, holds=there)
        told = role.tell(UNREACHABLE, reached=False, error="it reboots", events=None, holds=None)
        assert not told["finished"]
        assert (None, "steps", "service_hold") in role.acts()

    def test_what_another_event_holds_is_told_and_is_no_failure(self):
        """As C(done) of the module duty, and the exit code of the playbook holds."""
        role = self.back(duties=[HAPROXY, "app"], event_ids=["e1"])
        role.tell(holds=[record("E1", "E2", kind="service", service="app.service")])
        kept = {"changed": True, "done": True, "services": [{"service": "app.service", "held_by": ["E2"]}]}
        told = role.tell(kept, act(servers=[server(held_by=["E2"])]), {"changed": False, "held_by": ["E3"]})
        result = told["result"]
        assert (told["failure"], result["done"], result["held_by"], result["reason"]) == ("", True, ["E2"], "web1 is still held for E2")

    def test_a_host_that_stays_out_for_another_event_need_not_answer(self):
        """Its service is stopped for that event, so nothing answers."""
        there = [record("E1", "E2", kind="service", service="app.service")]
        for held_by, parts in ((["E1", "E2"], ["steps", "balancer"]), (["E1"], ["steps", "answer", "balancer"])):
            role = self.back(duties=[HAPROXY, "app"], event_ids=["e1"], graceful_azure_health_port=80)
            role.tell(holds=there)
            assert role.acts() == []
            role.tell(holds=there, looks={"servers": [server(held_by=held_by, condition="held")]})
            assert [part for _machine, part, _module in role.acts()][: len(parts)] == parts

    def test_damaged_records_stop_it(self):
        assert self.back().tell(holds=None, fatal="The record cannot be read.")["failure"] == "The record cannot be read."


class TestDrainHost:
    def drain(self, duties=(HAPROXY,), **more):
        return Role("drain_host", duties=duties, **{"state": "drained", "wait": True, "graceful_azure_ports": [80], **more})

    def test_two_looks(self):
        role = self.drain()
        assert [turn.get("module") for turn in role.turns()] == ["haproxy_info", None] and role.options("haproxy_info")["timeout"] == 0.0
        role.tell()
        assert not role.told["finished"] and role.told["pause"] >= 3.0, "no request may come for so long"
        told = role.tell()
        assert told["finished"] and told["result"]["reason"] == "web1 is drained" and told["failure"] == ""

    def test_a_session_that_comes_meanwhile(self):
        role = self.drain(graceful_azure_drain_timeout=20)
        role.tell()
        assert not role.tell(looks={"servers": [server(total_sessions=2)]})["finished"]
        told = role.tell(looks={"servers": [server(total_sessions=3)]}, after=20)
        assert told["failure"].startswith("web1 is not drained; 2 sessions came to www/web1 on lb1 since ")

    def test_what_still_goes_on_is_waited_for(self):
        role = self.drain(graceful_azure_drain_timeout=20)
        role.tell(looks={"servers": [server(sessions=1, idle=False)]})
        assert role.told["pause"] == 0.0 and role.options("haproxy_info")["wait_for"] == ["web1"]
        (line,) = role.told["lines"]
        assert "  web1  draining  1 session, 0 queued at www/web1 on lb1  (drain until " in line
        told = role.tell(looks={"servers": [server(sessions=1, idle=False)]}, after=20)
        assert told["finished"] and told["failure"] == "web1 is not drained; 1 session, 0 queued at www/web1 on lb1"
        assert told["result"]["left"] == ["1 session, 0 queued at www/web1 on lb1"]

    @pytest.mark.parametrize(
        ("looks", "why"),
        [
            ({"servers": [server("ready")]}, "web1 is not drained; www/web1 on lb1 is in rotation"),
            ({"servers": [server(server="web9")]}, "balancer lb1: no backend has a server 'web1' (option server)"),
        ],
    )
    def test_no_wait_helps(self, looks, why):
        told = self.drain().tell(looks=looks)
        assert told["finished"] and told["failure"] == why

    def test_a_second_look_belongs_to_it_though_the_time_is_over(self):
        role = self.drain(graceful_azure_drain_timeout=0)
        assert not role.tell()["finished"]
        assert role.tell(after=30)["result"]["done"]

    def test_a_single_step_takes_seconds(self):
        role = self.drain(wait=False)
        busy = {"servers": [server(sessions=1, idle=False)]}
        assert not role.tell(looks=busy)["finished"]
        told = role.tell(looks=busy, after=10)
        assert (told["finished"], told["failure"], told["result"]["done"]) == (True, "", False)

    def test_what_stands_first_what_need_not_wait_and_the_rest(self, tmp_path):
        for name in ("a", "b"):
            (tmp_path / f"{name}.yml").write_text("[]")
        files = [{"type": "tasks", "name": name, "out": str(tmp_path / f"{name}.yml")} for name in ("a", "b")]
        role = self.drain([files[0], HAPROXY, "app"], event_ids=["E1"])
        role.tell()
        assert [part for _machine, part, _module in role.acts()] == ["steps", "drained"]
        assert role.turns()[-1]["acts"][-1]["args"]["name"] == ["ready_to_leave"]
        assert role.turns()[-1]["acts"][-1]["args"]["event_details"]["E1"]["idle"] is False
        role.tell({"changed": True, "done": True}, {"changed": True, "done": True})
        assert role.acts() == [] and not role.told["finished"]
        role.tell()
        modules = [module for _machine, _part, module in role.acts()]
        assert modules == ["task_hold", "service_hold", "task_hold"] and role.turns()[-1]["acts"][-1]["args"]["name"] == ["drained"]
        assert "idle" not in role.turns()[-1]["acts"][-1]["args"]["event_details"]["E1"]
        assert not role.tell({"done": True, "changed": False}, {"done": False, "changed": True, "waiting_for": "app is deactivating"})["finished"]
        told = role.tell({"done": True}, {"done": True}, {"done": True, "changed": True})
        assert told["result"]["done"] and told["result"]["changed"]

    def test_it_ends_before_the_event_begins(self):
        role = self.drain(["app"], graceful_azure_drain_timeout=600)
        role.tell(events=[event(seconds_until_not_before=100.0)], connections=[{"port": 80, "peer": "10.0.0.9", "count": 1}])
        assert role.told["until"] == role.now + 85.0

    def test_check_mode_looks_once_and_predicts(self):
        role = self.drain([HAPROXY, "app"], check=True, event_ids=["E1"])
        role.tell(looks={"servers": [server(sessions=1, idle=False)]})
        assert all(one["always"] for turn in role.turns() for one in turn["acts"])
        told = role.tell({"changed": True, "done": False}, {"changed": True, "done": False})
        assert told["finished"] and told["result"]["done"] and told["result"]["changed"] and "1 session" in told["result"]["reason"]


class TestApproveEvent:
    def approve(self, **more):
        return Role("approve_event", **{"wait": True, "timeout": 60, **more})

    def sent(self, *approved, **more):
        return {"changed": True, "approved": list(approved), "not_approved": [], **more}

    def test_one_that_names_this_host(self):
        role = self.approve()
        role.tell(events=[event(), event("E2", ["web2"])])
        args = role.turns()[0]["acts"][0]["args"]
        assert (args["event_ids"], args["ready_resources"], args["record"]) == (["E1"], ["web1"], False)
        assert not role.tell(self.sent("E1"))["finished"] and role.options()["expected"] == ["E1"]
        (line,) = role.told["lines"]
        assert "  web1  approved  waits until Azure starts E1  (waits until " in line
        role.tell(events=[event()])
        assert not role.told["finished"], "it has not begun"
        told = role.tell(events=[event(status="Started")])
        assert told["finished"] and told["failure"] == "" and told["result"]["approved"] == ["E1"]

    def test_one_of_an_unknown_type_must_be_named(self):
        """Nobody knows what it does to the host. A run only prepares for it."""
        role = self.approve()
        told = role.tell(events=[event(), event("E2", event_type="Vanish"), event("E3", event_type="Melt", status="Started")])
        assert told["failure"].startswith("approve_event_event_ids: event 'E2' has the type 'Vanish', which is not known") and not told["result"]["done"]
        role = self.approve(event_ids=["E2"])
        role.tell(events=[event("E2", event_type="Vanish")])
        assert role.turns()[0]["acts"][0]["args"]["event_ids"] == ["E2"]

    def test_none_is_proved_by_two_documents(self):
        role = self.approve()
        assert not role.tell(empty_body=True)["finished"]
        assert not role.tell()["finished"], "one document, and an empty body is none"
        told = role.tell()
        assert told["finished"] and told["result"]["reason"] == "no scheduled event names this host" and told["failure"] == ""

    def test_none_is_not_proved_by_empty_bodies(self):
        role = self.approve()
        assert not role.tell(empty_body=True)["finished"] and not role.tell(empty_body=True)["finished"]
        told = role.tell(empty_body=True)
        assert "web1 answered with an empty body, which proves nothing" in told["failure"] and not told["result"]["done"]

    def test_it_is_over_when_two_answers_say_so(self):
        role = self.approve()
        role.tell(events=[event()])
        role.tell(self.sent("E1"))
        assert not role.tell(events=[])["finished"]
        assert not role.tell(events=[], empty_body=True, steady=1.0)["finished"]
        assert role.tell(events=[], steady=1.0)["finished"]

    def test_one_that_does_not_begin(self):
        role = self.approve()
        role.tell(events=[event()])
        role.tell(self.sent("E1"))
        assert not role.tell(reached=False, error="it reboots", events=None)["finished"]
        told = role.tell(events=[event()], after=61)
        assert told["failure"] == "approved, and not begun within 60 s: E1" and told["result"]["approved"] == ["E1"]

    def test_one_of_which_nobody_tells_whether_it_has_begun(self):
        """It may be what keeps the host away."""
        role = self.approve()
        role.tell(events=[event()])
        role.tell(self.sent("E1"))
        told = role.tell(reached=False, error="it reboots", events=None, after=61)
        assert told["failure"] == "approved, and web1 has not told whether it has begun within 60 s: E1" and told["result"]["approved"] == ["E1"]

    def test_a_step_leaves_a_record_and_does_not_wait(self):
        role = self.approve(wait=False, event_ids=["E1"], ready_resources=["web1"])
        assert role.turns()[0]["acts"][0]["args"]["record"] is True
        assert role.tell(self.sent("E1"))["finished"]

    @pytest.mark.parametrize("wait", [False, True])
    def test_each_attempt_ends_by_itself_before_it_is_cut_off(self, wait):
        role = self.approve(wait=wait, event_ids=["E1"], ready_resources=["web1"])
        # A VM that has never asked for events may wait two minutes for the first answer.
        assert role.turns()[0]["acts"][0]["args"]["timeout"] >= (120 if wait else 5)

    def test_a_service_that_does_not_tell_the_name_of_the_host(self):
        told = self.approve().tell(events=[event(affects_host=None)], resource_name=None)
        assert "set graceful_azure_resource_name" in told["failure"] and not told["result"]["done"]


class TestApprovedFromOutside:
    def role(self, **more):
        role = Role("approve_event", **{"wait": True, "timeout": 60, **OUTSIDE, **more})
        role.tell(reached=False, error="no route", events=None)
        assert [machine for machine, _part, _module in role.acts()] == ["web2"]
        return role

    def test_it_is_read_again_immediately_before(self):
        role = self.role()
        role.tell({"events": [event()], "resource_name": "web1"})
        assert role.acts() == [("web2", "seen", "scheduled_events_info"), ("localhost", "sent", "azure_event_acknowledge")]
        role.tell({"events": [event()]}, {"changed": True, "approved": ["E1"]})
        assert [part for _machine, part, _module in role.acts()] == ["seen"], "it waits, and another VM tells when it begins"
        assert not role.tell({"events": [event()]})["finished"]
        assert role.tell({"events": [event(status="Started")]})["result"]["approved"] == ["E1"]

    def test_what_has_changed_meanwhile_is_not_approved(self):
        role = self.role(ready_resources=["web1"])
        role.tell({"events": [event()]})
        # The acknowledgement is not due any more.
        role.tell({"events": [event(resources=["web1", "web2"])]})
        told = role.tell({"events": [event(resources=["web1", "web2"])]}) if not role.told["finished"] else role.told
        assert "names 'web2'" in told["failure"] and not told["result"]["done"]

    def test_one_of_an_unknown_type_must_be_named(self):
        told = self.role().tell({"events": [event(event_type="Vanish")], "resource_name": "web1"})
        assert "type 'Vanish', which is not known" in told["failure"] and told["finished"]
        role = self.role(event_ids=["E1"])
        role.tell({"events": [event(event_type="Vanish")], "resource_name": "web1"})
        assert role.acts()[1] == ("localhost", "sent", "azure_event_acknowledge")

    def test_one_that_was_meant_as_another_type_is_refused(self):
        """It was read again and again, without an end."""
        for wait in (True, False):
            role = self.role(event_ids=["E1"], event_details={"e1": {"event_type": "Freeze"}}, wait=wait)
            told = role.tell({"events": [event()], "resource_name": "web1"})
            assert "was to be approved as 'Freeze' and is 'Reboot' now. Nothing was approved." in told["failure"] and told["finished"]
        role = self.role(event_ids=["E1"], event_details={"e1": {"event_type": "Reboot"}})
        role.tell({"events": [event()], "resource_name": "web1"})
        sent = next(act for turn in role.told["turns"]["web1"] for act in turn.get("acts", ()) if act["part"] == "sent")
        assert sent["expected"]["E1"]["event_type"] == "Reboot"

    def test_what_names_somebody_else_is_refused(self):
        told = self.role(event_ids=["E1"]).tell({"events": [event(resources=["web1", "web2"])]})
        assert "names 'web2', which is not said to be ready" in told["failure"] and told["finished"]

    def test_what_is_absent_is_read_twice(self):
        role = self.role(event_ids=["E1"])
        assert not role.tell(NONE)["finished"] and role.told["pause"] > 0
        told = role.tell(NONE)
        assert told["result"]["not_approved"] == [{"event_id": "E1", "reason": "absent"}] and told["failure"] == ""

    def test_each_of_them_by_itself(self):
        """Two answers, each of which lacks another event, prove nothing about either."""
        role = self.role(event_ids=["E1", "E2"])
        role.tell({"events": [event("E2")], "document_incarnation": 7})
        role.tell({"events": [event("E1")], "document_incarnation": 8})
        assert [part for _machine, part, _module in role.acts()] == ["seen"]
        role.tell({"events": [event("E1")], "document_incarnation": 8})
        assert [part for _machine, part, _module in role.acts()] == ["seen", "sent"]

    def test_so_is_that_there_is_none(self):
        role = self.role()
        assert not role.tell(NONE)["finished"] and role.told["pause"] > 0
        told = role.tell(NONE)
        assert told["finished"] and told["result"]["reason"] == "no scheduled event names this host" and told["failure"] == ""

    def test_one_that_shows_again_begins_anew(self):
        role = self.role()
        assert not role.tell(NONE)["finished"]
        assert [part for _machine, part, _module in role.acts()] == ["seen"]
        role.tell({"events": [event()], "document_incarnation": 8})
        role.tell({"events": [], "document_incarnation": 9})
        assert not role.told["finished"], "one document without it"
        assert role.tell(NONE)["finished"]

    @pytest.mark.parametrize("ids", [{}, {"event_ids": ["E1"]}])
    def test_an_empty_body_proves_nothing(self, ids):
        role = self.role(**ids)
        assert not role.tell(EMPTY)["finished"] and not role.tell(EMPTY)["finished"]
        told = role.tell(EMPTY)
        assert "web2 answered with an empty body, which proves nothing" in told["failure"] and not told["result"]["done"]

    def test_nor_that_what_was_approved_is_over(self):
        role = self.role()
        role.tell({"events": [event()], "document_incarnation": 8})
        role.tell({"events": [event()], "document_incarnation": 8}, {"changed": True, "approved": ["E1"]})
        for answer in (EMPTY, EMPTY, NONE, EMPTY, NONE):
            assert not role.tell(answer)["finished"]
        assert role.tell(NONE)["result"]["approved"] == ["E1"] and role.told["finished"]

    def test_a_witness_that_cannot_be_asked(self):
        assert "approve_event_witness: web2 cannot be asked" in self.role().tell(UNREACHABLE)["failure"]


class TestTaskFiles:
    def out(self, tmp_path, check=False, **more):
        (tmp_path / "out.yml").write_text("[]")
        duty = {"type": "tasks", "traffic": True, "out": str(tmp_path / "out.yml"), "back": str(tmp_path / "out.yml")}
        return Role("load_balancer", check=check, duties=[duty], state="out", **{"event_ids": ["E1"], "wait": True, "timeout": 60, **more})

    def waits(self, tmp_path):
        path = str(tmp_path / "out.yml")
        return {
            "changed": True,
            "done": False,
            "file": {"record": "load_balancer_custom", "path": path},
            "waiting_for": f"{path} has not set graceful_azure_done",
        }

    def test_it_runs_again_until_it_is_done(self, tmp_path):
        role = self.out(tmp_path)
        for pause in (0.0, 1.0):
            role.tell(self.waits(tmp_path))
            assert role.told["files"]["web1"]["path"].endswith("out.yml") and role.told["pause"] == pause
        assert role.tell({"changed": True, "done": True, "file": None})["result"]["done"]

    def test_once_in_a_step_and_at_least_once(self, tmp_path):
        for more, failure in (({"wait": False}, ""), ({"timeout": 0}, "out.yml has not set graceful_azure_done")):
            role = self.out(tmp_path, **more)
            assert role.tell(self.waits(tmp_path))["files"]
            told = role.tell(self.waits(tmp_path))
            assert told["finished"] and not told["result"]["done"] and told["failure"].endswith(failure)

    def test_one_that_fails(self, tmp_path):
        role = self.out(tmp_path)
        role.tell(self.waits(tmp_path))
        role.failure = {"pass": role.told["number"], "message": "no such API"}
        told = role.tell(self.waits(tmp_path))
        assert told["finished"] and told["failure"] == "no such API"

    def test_in_check_mode_it_runs_once(self, tmp_path):
        role = self.out(tmp_path, check=True)
        assert role.tell(self.waits(tmp_path))["files"] and role.turns() == []
        assert role.tell()["finished"] and role.told["result"]["done"]
