# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a role's modules returned, judged: each result as the modules and Ansible give it."""

from __future__ import annotations

from types import MappingProxyType

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import settings_of
from ansible_collections.graceful.azure.plugins.plugin_utils._steps import approve_event, drain_host, load_balancer, restore_service
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.events import deadline, events_of_hold

SETTINGS = {"provider": "haproxy", "hosts": ["lb1", "lb2"], "server": "web1", "socket": "/s", "backends": []}
CUSTOM = {"provider": "custom"}
NOBODY = {"provider": "none"}
UNREACHABLE = {"unreachable": True, "msg": "Connection refused", "changed": False}
SKIPPED = MappingProxyType({"skipped": True, "changed": False})


def server(**more):
    first = {"backend": "www", "server": "web1", "admin_state": "drain", "sessions": 0, "queue": 0, "uncounted": None, "arrived": 0, "held_by": ["E1"]}
    return {**first, "idle": True, "source_address": None, **more}


def act(machine, *servers, **more):
    lists = {"conflicts": [], "refused": [], "waiting_for": []}
    return {"item": machine, "changed": True, "absent": False, **lists, "servers": list(servers), **more}


ABSENT = {"absent": True, "changed": False}


def haproxy(*machines, **options):
    """The settings of a balancer."""
    return dict(settings_of("haproxy", {"hosts": list(machines), **options}, "web1"), quiet=3.0)


class TestLoadBalancer:
    def judge(self, *acts, direction="out", **settings):
        return load_balancer.judge({**SETTINGS, **settings}, direction, acts)

    def test_out(self):
        judged = self.judge(act("lb1", server()), act("lb2", server(), server(backend="api", admin_state="maint"), changed=False))
        reason = "web1 is held (www on lb1: drain) (www on lb2: drain) (api on lb2: maint)"
        assert judged == {"done": True, "changed": True, "reason": reason, "failed_hosts": [], "conflicts": []}

    def test_a_server_of_another_name_that_leads_there(self):
        judged = self.judge(act("lb1", server(), server(server="old", changed=False)), hosts=["lb1"])
        assert judged["reason"] == "web1 is held (www on lb1: drain) (www/old on lb1: drain)"

    def test_back(self):
        ready = server(admin_state="ready", held_by=[])
        judged = self.judge(act("lb1", ready), act("lb2", ready), direction="in")
        assert judged["done"] and judged["reason"] == "web1 is not held (www on lb1: ready) (www on lb2: ready)"

    def test_in_rotation_is_not_out(self):
        assert not self.judge(act("lb1", server()), act("lb2", server(admin_state="ready")))["done"]

    def test_machines_without_an_answer(self):
        failed = {"item": "lb1", "failed": True, "msg": "There is no\n  socket."}
        judged = self.judge(dict(UNREACHABLE, item="lb2"), failed, hosts=["lb2", "lb1"])
        assert (judged["done"], judged["changed"], judged["failed_hosts"]) == (False, False, ["lb1", "lb2"])
        assert judged["reason"] == "lb2 cannot be reached. lb1: There is no socket."

    def test_a_machine_that_was_not_asked(self):
        judged = self.judge(act("lb1", server()))
        assert not judged["done"] and judged["reason"] == "lb2 was not asked."

    def test_no_machine_at_all(self):
        assert not self.judge(hosts=[])["done"] and not self.judge(hosts=[], direction="in")["done"]

    def test_no_haproxy_anywhere(self):
        nowhere = self.judge(dict(ABSENT, item="lb1"), dict(ABSENT, item="lb2"))
        assert not nowhere["done"] and nowhere["reason"] == "No HAProxy runs on any of its balancers (lb1, lb2)."
        back = self.judge(dict(ABSENT, item="lb1"), dict(ABSENT, item="lb2"), direction="in")
        assert back["done"] and back["reason"] == "web1 is not held (no HAProxy runs on lb1) (no HAProxy runs on lb2)"
        assert self.judge(dict(ABSENT, item="lb1"), act("lb2", server()))["done"]

    def test_who_acted_and_what_is_waited_for(self):
        waits = act("lb2", server(), waiting_for=["www/web1 waits."], conflicts=["Somebody acted."])
        judged = self.judge(act("lb1", server()), waits, direction="in")
        assert (judged["done"], judged["conflicts"]) == (False, ["lb2: Somebody acted."])
        assert judged["reason"] == "lb2: Somebody acted. lb2: www/web1 waits."

    def test_too_few_others_serve(self):
        acts = [act("lb1", server(admin_state="ready"), refused=["web1 stays."], changed=False, balancer=0)]
        told = load_balancer.judge_all([haproxy("lb1")], "out", acts)
        assert not told["done"] and told["reason"] == "lb1: web1 stays."
        assert not load_balancer.is_turn_of(1, [haproxy("lb1"), haproxy("lb2")], "out", acts), "it stays in all of its balancers"

    def test_no_balancer(self):
        said = {"done": True, "changed": False, "reason": "no load balancer knows this host", "failed_hosts": [], "conflicts": []}
        assert load_balancer.judge(NOBODY, "out") == said == load_balancer.judge_all([NOBODY], "in", [])

    def test_several_balancers(self):
        both = [haproxy("lb1"), haproxy("lb2")]

        def told(*acts, direction="out"):
            return load_balancer.judge_all(both, direction, acts)

        outer, inner = (act(machine, server(), balancer=number) for number, machine in enumerate(("lb1", "lb2")))
        assert load_balancer.is_turn_of(1, both, "out", [outer]) and told(outer, inner) == {
            "done": True,
            "changed": True,
            "reason": "web1 is held (www on lb1: drain); web1 is held (www on lb2: drain)",
            "failed_hosts": [],
            "conflicts": [],
        }
        silent = dict(UNREACHABLE, item="lb1", balancer=0)
        assert load_balancer.is_turn_of(1, both, "out", [silent]), "it must not keep the host in the others"
        one = told(silent, dict(inner, changed=False))
        assert (one["done"], one["changed"], one["failed_hosts"], one["reason"]) == (False, False, ["lb1"], "lb1 cannot be reached.")

    def test_the_outer_balancer_waits_for_the_inner_one_on_the_way_back(self):
        both = [haproxy("lb1"), haproxy("lb2")]
        waits = [act("lb2", server(), waiting_for=["web1 waits."], balancer=1)]
        assert not load_balancer.is_turn_of(0, both, "in", waits) and not load_balancer.judge_all(both, "in", waits)["done"]
        assert load_balancer.is_turn_of(0, both, "in", [act("lb2", server(admin_state="ready"), balancer=1)])

    def test_the_health_answer_comes_back_before_all_others(self):
        """Their checks may ask for it, and HAProxy waits for its checks where the server was in maintenance."""
        probe = {"provider": "health_probe"}
        assert load_balancer.in_order([probe, haproxy("lb1"), haproxy("lb2")], "in") == [0, 2, 1]
        assert load_balancer.in_order([haproxy("lb1"), probe], "in") == [1, 0]
        assert load_balancer.in_order([haproxy("lb1"), probe], "out") == [0, 1]


class TestTasksOfTheUsersOwn:
    FILE = MappingProxyType({"record": "load_balancer_custom", "path": "/out.yml"})

    def judge(self, direction="out", **more):
        return load_balancer.judge(CUSTOM, direction, [{"changed": True, "done": True, "held": True, "last": False, "held_by": [], "file": None, **more}])

    @pytest.mark.parametrize(
        "direction, hold, done, reason",
        [
            ("out", {"file": FILE, "waiting_for": "/out.yml has not set graceful_azure_done"}, False, "/out.yml has not set graceful_azure_done"),
            ("out", {"held_by": ["E1"]}, True, "the host is out"),
            ("in", {"held_by": ["E1"]}, True, "the host stays out for other events"),
            ("in", {}, True, "the host is not held"),
        ],
    )
    def test_how_far_they_are(self, direction, hold, done, reason):
        judged = self.judge(direction, **hold)
        assert (judged["done"], judged["changed"], judged["reason"]) == (done, True, reason)

    def test_a_silent_host(self):
        judged = load_balancer.judge(CUSTOM, "in", [UNREACHABLE])
        assert not judged["done"] and judged["reason"] == "the host cannot be reached"


class TestDrainHost:
    def test_drained(self):
        judged = drain_host.judge("web1")
        assert judged == {"done": True, "changed": False, "reason": "web1 is drained", "failed_hosts": [], "conflicts": [], "left": [], "waiting_for": []}

    def test_what_is_left(self):
        steps = {"changed": True, "done": False, "waiting_for": "app is deactivating", "conflicts": ["db was started"]}
        judged = drain_host.judge("web1", steps, busy=["1 connection on port 80"], failed_hosts=["lb1"])
        assert (judged["done"], judged["changed"], judged["conflicts"], judged["failed_hosts"]) == (False, True, ["db was started"], ["lb1"])
        assert judged["reason"] == "web1 is not drained; 1 connection on port 80; app is deactivating; db was started"
        assert (judged["left"], judged["waiting_for"]) == (["1 connection on port 80", "app is deactivating"], ["app is deactivating"])
        assert drain_host.judge("web1", UNREACHABLE)["left"] == ["the host cannot be reached"]

    def test_running(self):
        judged = drain_host.judge("web1", {"changed": False, "done": True, "waiting_for": None}, "running")
        assert judged["done"] and judged["reason"] == "web1 is running"
        starting = drain_host.judge("web1", {"done": False, "waiting_for": "app is activating"}, "running")
        assert not starting["done"] and starting["reason"] == "web1 is not running; app is activating"
        silent = drain_host.judge("web1", UNREACHABLE, "running")
        assert not silent["done"] and silent["left"] == ["the host cannot be reached"]


class TestApproveEvent:
    def test_approved(self):
        judged = approve_event.judge(["E1"], {"changed": True, "approved": ["E1"], "not_approved": []})
        assert judged == {"done": True, "changed": True, "reason": "approved E1", "failed_hosts": [], "approved": ["E1"], "not_approved": []}

    def test_not_approved(self):
        started = [{"event_id": "E2", "reason": "started"}]
        judged = approve_event.judge(["E1", "E2"], {"changed": True, "approved": ["E1"], "not_approved": started})
        assert judged["not_approved"] == started and judged["reason"] == "approved E1; nothing to approve for E2"

    def test_nothing_to_approve(self):
        judged = approve_event.judge([], SKIPPED, {"events": []})
        assert (judged["done"], judged["changed"], judged["reason"]) == (True, False, "no scheduled event names this host")

    def test_a_silent_host(self):
        for sent, read in ((UNREACHABLE, SKIPPED), (SKIPPED, UNREACHABLE)):
            judged = approve_event.judge([], sent, read)
            assert (judged["done"], judged["reason"]) == (False, "the host cannot be reached")


class TestApprovedWithoutTheHost:
    @staticmethod
    def told(ready=(), **event):
        event = {"event_id": "E1", "event_type": "Reboot", "event_status": "Scheduled", "resources": ["web1"], **event}
        return approve_event.progress_outside({"events": [event]}, SKIPPED, ["e1"], list(ready), "web1", "web3")

    def test_one_that_has_started(self):
        """It needs no approval. That of others is told as theirs."""
        told = self.told(event_status="Started")
        assert (told["ids"], told["refused"], told["result"]["not_approved"]) == ([], "", [{"event_id": "E1", "reason": "started"}])
        told = self.told(event_status="Started", resources=["web2"])
        assert "names 'web2' and not this host, which is 'web1'" in told["refused"] and told["result"]["not_approved"] == []

    def test_one_that_may_be(self):
        told = self.told(ready=["WEB1", "web2"], resources=["web1", "web2"])
        assert told["ids"] == ["E1"] and not told["refused"]

    @pytest.mark.parametrize(
        ("event", "why"),
        [
            ({"resources": ["web2"]}, "names 'web2' and not this host, which is 'web1'"),
            ({"resources": ["web1", "web2"]}, "names 'web2', which is not said to be ready"),
            ({"resources": []}, "names nobody, so nobody knows who must be ready"),
            ({"event_status": "Completed"}, "has the status 'Completed'; only one that is Scheduled can be approved"),
        ],
    )
    def test_one_that_must_not_be(self, event, why):
        refused = self.told(**event)["refused"]
        assert why in refused and refused.endswith("Nothing was approved.")
        expected = {"E1": {"event_type": "Reboot", "ready": ["web1"]}}
        read = {"events": [{"event_id": "e1", "event_type": "Reboot", "event_status": "Scheduled", "resources": ["web1"]}]}
        assert approve_event.is_still_so(expected, read)
        read["events"][0].update(event)
        assert not approve_event.is_still_so(expected, read)


class TestRestoreService:
    BACK = MappingProxyType({"done": True, "changed": True, "reason": "", "failed_hosts": [], "conflicts": []})

    def judge(self, services=SKIPPED, answer=SKIPPED, balancer=BACK, **told):
        return restore_service.judge("web1", services, answer, balancer, **told)

    def test_restored(self):
        judged = self.judge({"changed": False, "done": True, "conflicts": ["app was started"]}, {"answered": True}, dict(self.BACK, conflicts=["lb1"]))
        assert judged == {
            "done": True,
            "changed": True,
            "reason": "web1 is restored; app was started; lb1",
            "failed_hosts": [],
            "conflicts": ["app was started", "lb1"],
            "left": [],
            "unanswered": False,
        }

    def test_services_first(self):
        judged = self.judge({"changed": True, "done": False, "waiting_for": "app is activating"}, {})
        assert (judged["done"], judged["changed"], judged["reason"]) == (False, True, "web1 is not restored; app is activating")
        assert not judged["unanswered"]

    def test_then_an_answer(self):
        judged = self.judge(answer={"answered": False, "reason": "/: status 503"})
        assert judged["reason"] == "web1 is not restored; it stays out of its load balancer; /: status 503" and judged["unanswered"]
        assert judged["left"] == ["/: status 503"]
        assert not judged["changed"], "an older result of the balancer is none of this step's"

    def test_then_the_balancer(self):
        judged = self.judge(balancer=dict(self.BACK, done=False, reason="lb1 cannot be reached.", failed_hosts=["lb1"]))
        assert (judged["done"], judged["failed_hosts"]) == (False, ["lb1"])
        assert judged["reason"] == "web1 is not restored; lb1 cannot be reached."
        assert not self.judge(balancer={})["done"]

    def test_a_silent_host(self):
        for services, answer in ((UNREACHABLE, {}), ({"done": True}, UNREACHABLE)):
            judged = self.judge(services, answer)
            assert (judged["done"], judged["reason"]) == (False, "web1 is not restored; the host cannot be reached")

    def test_what_comes_back_when_the_host_serves_again(self):
        judged = self.judge(last={"done": False, "waiting_for": "/first.yml has not set graceful_azure_done"})
        assert not judged["done"] and judged["reason"] == "web1 is not restored; /first.yml has not set graceful_azure_done"
        assert self.judge(last={"done": True})["done"]

    def test_the_records_that_end(self):
        assert restore_service.ended(["drained", "haproxy_server"], ["restore_service_after"]) == ["drained", "restore_service_after"]
        assert restore_service.ended(["service"]) == []
        assert restore_service.ended(["drain_host_step_queue"]) == ["drain_host_step_queue"], "also of a step that is set no more"

    def test_what_nobody_can_undo_any_more(self):
        there = ["drain_host_step_queue", "load_balancer_step_cdn", "load_balancer_step_dns", "drained"]
        said = "the duty {} was handed over, and graceful_azure_duties has it no more: take it back by hand"
        assert restore_service.lost_steps(there, ["load_balancer_step_dns"]) == [said.format("queue"), said.format("cdn")]
        assert set(there) <= {*restore_service.ended(there)}

    def test_the_record_of_the_approval_goes_last(self):
        ended = restore_service.ended(["approved", "drain_host_step_queue", "drained"], ["restore_service_after"])
        assert ended == ["drained", "drain_host_step_queue", "restore_service_after", "approved"]


class TestEvents:
    EVENT = {"event_id": "E1", "event_type": "Reboot", "resources": ["web1"], "not_before": "2026-11-23T10:00:00Z", "seconds_until_not_before": 100.0}

    def told(self, needed=True, event_ids=(), event_details=None, asked=None, **more):
        return events_of_hold("drain_host", "stop it", needed, event_ids, event_details or {}, asked or {}, **more)

    def test_given(self):
        told = self.told(event_ids=["E9"], asked={"events": [self.EVENT]})
        assert told == {"asks": False, "trouble": "", "ids": ["E9"], "details": {}, "events": []}

    def test_nothing_to_hold(self):
        assert self.told(needed=[]) == {"asks": False, "trouble": "", "ids": [], "details": {}, "events": []}

    def test_asked(self):
        told = self.told(asked={"events": [self.EVENT]})
        known = {"event_type": "Reboot", "resources": ["web1"], "not_before": "2026-11-23T10:00:00Z"}
        assert (told["asks"], told["trouble"], told["ids"], told["details"]) == (True, "", ["E1"], {"E1": known})

    def test_in_vain(self):
        assert self.told(asked=UNREACHABLE)["trouble"] == "The host cannot be reached."
        assert self.told(asked={"events": []})["trouble"] == (
            "No scheduled event names this host, so there is nothing to stop it for. To do so all the same, name an event of your own in drain_host_event_ids."
        )

    def test_the_record_kinds_the_host(self):
        assert self.told(asked={"events": [self.EVENT]}, host="web1")["details"]["E1"].items() >= {"event_type": "Reboot", "host": "web1"}.items()
        given = {"E1": {"host": "web9", "heard": [1]}}
        assert self.told(event_ids=["e1", "E2"], event_details=given, host="web1", heard=[80])["details"] == {
            "E1": {"host": "web9", "heard": [80]},
            "E2": {"host": "web1", "heard": [80]},
        }

    def test_a_drain_ends_before_the_event_begins(self):
        def at(now, timeout, **told):
            return deadline(now, timeout, {"events": [], "details": {}, **told})

        assert at(1000.0, 120.0) == 1120.0
        assert at(1000.0, 120.0, events=[self.EVENT, dict(self.EVENT, seconds_until_not_before=None)]) == 1085.0
        assert at(1000.0, 20.0, events=[self.EVENT]) == 1020.0
        # 10:00:00 UTC.
        known = {"E1": {"not_before": "2026-11-23T10:00:00Z"}, "E2": {"not_before": None}, "E3": {}, "E4": {"not_before": "tonight"}}
        assert at(1795428000.0 - 60, 120.0, details=known) == 1795428000.0 - 15
