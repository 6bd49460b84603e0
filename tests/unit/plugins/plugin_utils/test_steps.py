# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a role's modules returned, judged: each result as the modules and Ansible give it."""

from __future__ import annotations

from types import MappingProxyType

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.registry import settings_of
from ansible_collections.graceful.azure.plugins.plugin_utils._steps import approve_event, drain_host, load_balancer, restore_service
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.events import deadline, events_of_hold, rounds

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


def look(machine, *servers, **more):
    return {"item": machine, "changed": False, "absent": False, "idle": True, "servers": list(servers), **more}


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
        assert (judged["done"], judged["conflicts"]) == (False, ["Somebody acted."])
        assert judged["reason"] == "lb2: Somebody acted. lb2: www/web1 waits."

    def test_too_few_others_serve(self):
        acts = [act("lb1", server(admin_state="ready"), refused=["web1 stays."], changed=False)]
        told = load_balancer.progress(haproxy("lb1"), "out", acts)
        assert told["refused"] and not told["result"]["done"] and told["result"]["reason"] == "lb1: web1 stays."
        assert not told["goes_on"], "it stays in all of its balancers"
        assert not load_balancer.progress(haproxy("lb1"), "out", acts, check_mode=True)["refused"]

    def test_no_balancer(self):
        said = {"done": True, "changed": False, "reason": "no load balancer knows this host", "failed_hosts": [], "conflicts": []}
        assert load_balancer.judge(NOBODY, "out") == said
        assert load_balancer.progress(NOBODY, "in") == {"own": said, "result": said, "needs_tasks": False, "refused": False, "goes_on": True}

    def test_several_balancers(self):
        def at(machine, before, direction="out", **more):
            return load_balancer.progress(haproxy(machine), direction, [act(machine, server(**more))], before)

        outer = at("lb1", {})
        inner = at("lb2", outer["result"])
        assert outer["goes_on"] and inner["result"] == {
            "done": True,
            "changed": True,
            "reason": "web1 is held (www on lb1: drain); web1 is held (www on lb2: drain)",
            "failed_hosts": [],
            "conflicts": [],
        }
        silent = load_balancer.progress(haproxy("lb1"), "out", [dict(UNREACHABLE, item="lb1")])
        assert silent["goes_on"], "it must not keep the host in the others"
        both = at("lb2", silent["result"])["result"]
        assert (both["done"], both["changed"], both["failed_hosts"], both["reason"]) == (False, True, ["lb1"], "lb1 cannot be reached.")

    def test_the_outer_balancer_waits_for_the_inner_one_on_the_way_back(self):
        waits = load_balancer.progress(haproxy("lb2"), "in", [act("lb2", server(), waiting_for=["web1 waits."])])
        assert not waits["goes_on"] and not waits["result"]["done"]
        back = load_balancer.progress(haproxy("lb2"), "in", [act("lb2", server(admin_state="ready"))])
        assert back["goes_on"]


class TestTasksOfTheUsersOwn:
    def hold(self, **more):
        return {"changed": False, "done": False, "held": True, "last": False, **more}

    @pytest.mark.parametrize(
        "direction, hold, needed, reason",
        [
            ("out", {}, True, "/out.yml has not set graceful_azure_done"),
            ("out", {"done": True}, False, "the host is out already"),
            ("in", {"last": True}, True, "/out.yml has not set graceful_azure_done"),
            ("in", {}, False, "the host stays out for other events"),
            ("in", {"held": False}, False, "the host is not held"),
        ],
    )
    def test_whether_they_run(self, direction, hold, needed, reason):
        told = load_balancer.progress(CUSTOM, direction, [self.hold(**hold), SKIPPED], task_file="/out.yml", task_done=False)
        assert (told["needs_tasks"], told["result"]["reason"], told["result"]["done"]) == (needed, reason, not needed)

    def test_done(self):
        judged = load_balancer.judge(CUSTOM, "out", [self.hold(), {"changed": True}], task_file="/out.yml", task_done=True)
        assert judged == {"done": True, "changed": True, "reason": "/out.yml has set graceful_azure_done", "failed_hosts": [], "conflicts": []}

    def test_a_silent_host(self):
        told = load_balancer.progress(CUSTOM, "in", [UNREACHABLE, SKIPPED], task_file="/in.yml", task_done=False)
        assert not told["needs_tasks"] and not told["result"]["done"] and told["result"]["reason"] == "the host cannot be reached"

    def test_check_mode_predicts_that_they_do_their_job(self):
        assert load_balancer.judge(CUSTOM, "out", [self.hold()], check_mode=True, task_file="/out.yml", task_done=False)["done"]


class TestDrainHost:
    def judge(self, *looks, settings=None, **told):
        return drain_host.judge("web1", {**SETTINGS, **(settings or {})}, looks=looks, **told)

    def left(self, *looks, **told):
        return self.judge(*looks, **told)["left"]

    def test_drained(self):
        judged = self.judge(look("lb1", server()), look("lb2", server()))
        assert judged == {"done": True, "changed": False, "reason": "web1 is drained", "failed_hosts": [], "conflicts": [], "left": [], "waiting_for": []}

    def test_what_is_left_at_a_place(self):
        assert self.left(look("lb1", server(admin_state="ready", sessions=1))) == ["www/web1 on lb1 is in rotation"]
        assert self.left(look("lb1", server(sessions=1), server(backend="api", queue=2))) == [
            "1 session, 0 queued at www/web1 on lb1",
            "0 sessions, 2 queued at api/web1 on lb1",
        ]
        assert self.left(look("lb1", server(uncounted="nobody may look", idle=False), idle=False)) == ["www/web1 on lb1: nobody may look"]
        # Another host's.
        assert self.left(look("lb1", server(), server(server="web2", sessions=4))) == []

    def test_only_the_backends_that_are_set_count(self):
        """Elsewhere it serves on, or another machine has its name."""
        elsewhere = server(backend="api", admin_state="ready", sessions=3, source_address="10.0.0.9")
        assert self.left(look("lb1", server(), elsewhere), settings={"backends": ["www"]}) == []
        assert self.left(look("lb1", server(), elsewhere)) == ["api/web1 on lb1 is in rotation"]
        assert self.left(look("lb1", elsewhere), settings={"backends": ["www"]}) == [
            "balancer lb1: none of the backends www has a server 'web1' (option server)"
        ]
        told = self.progress(look("lb1", server(), elsewhere), balancers=[haproxy("lb1", backends=["www"])])
        assert told["idle"] and told["pools"] == [] and told["machines"][0]["settings"]["backends"] == ["www"]

    def test_a_server_of_another_name_that_was_taken_out_with_it(self):
        old = server(server="old", sessions=2, for_server="web1")
        assert self.left(look("lb1", server(), old)) == ["2 sessions, 0 queued at www/old on lb1"]
        assert self.left(look("lb1", server(), dict(old, for_server="web2"))) == []

    def test_in_other_backends_the_name_is_another_machines(self):
        other = server(backend="api", admin_state="ready", sessions=4, idle=False)
        seen = look("lb1", server(), other, idle=False)
        assert self.left(seen) == ["api/web1 on lb1 is in rotation"]
        assert self.left(seen, settings={"backends": ["www"]}) == []

    def test_what_has_just_come(self):
        assert self.left(look("lb1", server(idle=False), idle=False)) == ["lb1 was busy until just now"]
        came = (
            "2 sessions came to www/web1 on lb1 since it was taken out although it is in drain:"
            " look for use-server, option persist, force-persist and stick in the configuration of HAProxy"
        )
        assert self.left(look("lb1", server(arrived=2, idle=False), idle=False)) == [came]
        stays = "; state: drain keeps it from going on to maint"
        assert self.left(look("lb1", server(arrived=2, idle=False), idle=False), settings={"state": "drain"}) == [came + stays]
        assert self.left(look("lb1", server(arrived=2))) == []

    def test_machines_that_tell_nothing(self):
        failed = {"item": "lb2", "failed": True, "msg": "no socket"}
        judged = self.judge(dict(UNREACHABLE, item="lb1"), failed)
        assert (judged["left"], judged["failed_hosts"]) == (["lb1 cannot be reached", "lb2: no socket"], ["lb2", "lb1"])
        assert self.left(look("lb1", server(server="web2"))) == ["balancer lb1: no backend has a server 'web1' (option server)"]
        assert self.left(dict(look("lb1", idle=True), **ABSENT), look("lb2", server())) == []
        assert self.left(*(dict(look(name, idle=True), **ABSENT) for name in ("lb1", "lb2"))) == ["no HAProxy runs on any of its balancers (lb1, lb2)"]
        assert self.left(settings={"hosts": []}) == ["the option hosts is empty"]

    def test_connections_and_services(self):
        judged = self.judge(
            connections={"idle": False, "left": ["1 connection on port 80"]},
            steps={"changed": True, "done": False, "waiting_for": "app is deactivating", "conflicts": ["db was started"]},
            settings=NOBODY,
        )
        assert (judged["done"], judged["changed"], judged["conflicts"]) == (False, True, ["db was started"])
        assert judged["reason"] == "web1 is not drained; 1 connection on port 80; app is deactivating; db was started"
        assert self.left(connections=UNREACHABLE, steps=SKIPPED, settings=NOBODY) == ["the host cannot be reached"]

    def test_tasks_of_the_users_own(self):
        early = {"done": False, "waiting_for": "/before.yml has not set graceful_azure_done"}
        assert self.left(look("lb1", server(sessions=1)), early=early) == [early["waiting_for"]]

    def test_check_mode(self):
        judged = self.judge(look("lb1", server(sessions=1)), check_mode=True)
        assert judged["done"] and judged["reason"].startswith("web1 is not drained; ")

    def test_running(self):
        judged = self.judge(state="running", steps={"changed": False, "done": True, "waiting_for": None}, forgotten={"changed": True})
        assert judged == {"done": True, "changed": True, "reason": "web1 is running", "failed_hosts": [], "conflicts": [], "left": [], "waiting_for": []}
        starting = self.judge(state="running", steps={"done": False, "waiting_for": "app is activating"})
        assert not starting["done"] and starting["reason"] == "web1 is not running; app is activating"
        silent = self.judge(state="running", steps=UNREACHABLE, forgotten=UNREACHABLE)
        assert not silent["done"] and silent["left"] == ["the host cannot be reached"]

    def progress(self, *looks, balancers=None, quiet=3.0, number=0, connections=SKIPPED, steps=(), **told):
        items = [dict(look, item={"machine": look["item"], "number": number}) for look in looks]
        balancers = balancers or [dict(haproxy("lb1"), quiet=quiet)]
        return drain_host.progress("web1", "drained", balancers, items, connections, steps, SKIPPED, **told)

    def test_when_the_services_may_stop(self):
        assert self.progress(look("lb1", server()))["idle"] and self.progress(look("lb1", server()))["down"]
        assert not self.progress(look("lb1", server(sessions=1)))["idle"]
        assert not self.progress(look("lb1", server()), connections={"idle": False, "left": ["1 connection on port 80"]})["idle"]
        assert not self.progress(look("lb1", server()), connections={})["idle"], "not counted yet"
        assert not self.progress(look("lb1", server()), connections=UNREACHABLE)["idle"]
        assert not self.progress(look("lb1", server()), steps=[{"done": False}])["down"]

    def test_how_long_the_look_at_the_balancer_lasts(self):
        def seconds(**told):
            return self.progress(**told)["look_seconds"]

        assert seconds(balancers=[dict(haproxy("lb1"), quiet=1), dict(haproxy("lb1"), quiet="2")]) == 2.6

        assert seconds(patience=60.0) == 60.0
        assert seconds(quiet=2.0) == 2.6 and seconds(quiet=60.0) == 4.0
        assert seconds(quiet=60.0, wait=False) == 60.6, "a step of the user's own playbook"

    def test_connections_from_the_balancers_pool_are_left_aside(self):
        told = {"source_address": "10.0.0.9", "connections": 2, "port": 8080}
        own = [server(source_address="10.0.0.9", own_ports={"10.0.0.9": [40001]}), server(backend="api", **told)]
        another = server(server="web2", source_address="10.0.0.8")
        known = [
            {"address": "10.0.0.9", "ports": [40001], "at_most": None, "to_port": None},
            {"address": "10.0.0.9", "ports": None, "at_most": 2, "to_port": 8080},
        ]
        assert self.progress(look("lb1", *own, another))["pools"] == known
        assert self.progress(dict(UNREACHABLE, item="lb1"))["pools"] == []

    def test_several_balancers(self):
        balancers = [dict(NOBODY, quiet=3.0), dict(haproxy("lb1"), quiet=0), haproxy("lb1", server="w1")]
        machines = self.progress(balancers=balancers)["machines"]
        assert [machine.pop("settings")["server"] for machine in machines] == ["web1", "w1"]
        assert machines == [
            {"machine": "lb1", "provider": "haproxy", "number": 1, "server": "web1", "quiet": 0.0},
            {"machine": "lb1", "provider": "haproxy", "number": 2, "server": "w1", "quiet": 3.0},
        ]
        told = self.progress(look("lb1", server(server="w1", sessions=1), server(sessions=5)), balancers=balancers, number=2)
        assert told["busy"] == told["result"]["left"] == ["1 session, 0 queued at www/w1 on lb1"]
        assert self.progress(dict(UNREACHABLE, item="lb1"), balancers=balancers, number=1)["result"]["failed_hosts"] == ["lb1"]


class TestApproveEvent:
    EVENT = MappingProxyType({"event_id": "E1", "event_type": "Reboot", "resources": ["web1"], "not_before": None, "description": "x"})
    READ = MappingProxyType({"events": [EVENT], "resource_name": "web1"})

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

    def progress(self, read=READ, event_ids=(), event_details=None, ready_resources=()):
        told = approve_event.progress(read, SKIPPED, event_ids, event_details or {}, ready_resources)
        return told["ids"], told["details"], told["ready"]

    def test_what_is_not_given_is_as_the_service_says(self):
        known = {"E1": {"event_type": "Reboot", "resources": ["web1"], "not_before": None}}
        assert self.progress() == (["E1"], known, ["web1"])
        assert self.progress(event_ids=["E9"], event_details={"E9": {}}, ready_resources=["a", "b"]) == (["E9"], {"E9": {}}, ["a", "b"])
        assert self.progress(read=SKIPPED, event_ids=["E9"], ready_resources=["a"]) == (["E9"], {}, ["a"])
        assert self.progress(read=UNREACHABLE) == ([], {}, [])
        # Nobody is ready where the service does not tell the name.
        assert self.progress(read=dict(self.READ, resource_name=""))[2] == []


class TestApprovedWithoutTheHost:
    @staticmethod
    def told(ready=(), **event):
        event = {"event_id": "E1", "event_type": "Reboot", "event_status": "Scheduled", "resources": ["web1"], **event}
        return approve_event.progress_outside({"events": [event]}, SKIPPED, ["e1"], list(ready), "web1", "web3")

    def test_one_that_may_be(self):
        told = self.told(ready=["WEB1", "web2"], resources=["web1", "web2"])
        assert told["ids"] == ["E1"] and not told["refused"]

    @pytest.mark.parametrize(
        ("event", "why"),
        [
            ({"resources": ["web2"]}, "names 'web2' and not this host, which is 'web1'"),
            ({"resources": ["web1", "web2"]}, "names 'web2', which is not said to be ready"),
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
            "unanswered": False,
        }

    def test_services_first(self):
        judged = self.judge({"changed": True, "done": False, "waiting_for": "app is activating"}, {})
        assert (judged["done"], judged["changed"], judged["reason"]) == (False, True, "web1 is not restored; app is activating")
        assert not judged["unanswered"]

    def test_then_an_answer(self):
        judged = self.judge(answer={"answered": False, "reason": "/: status 503"})
        assert judged["reason"] == "web1 is not restored; it stays out of its load balancer; /: status 503" and judged["unanswered"]
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

    def test_tasks_of_the_users_own(self):
        judged = self.judge(unfinished="/after.yml")
        assert (judged["done"], judged["reason"]) == (False, "web1 is not restored; /after.yml has not set graceful_azure_done")

    def test_check_mode(self):
        assert self.judge(answer={"answered": False, "reason": "/: status 503"}, check_mode=True)["done"]

    def progress(self, steps=(), answer=SKIPPED, balancer=BACK, **told):
        return restore_service.progress("web1", steps, answer, balancer, **told)

    def test_what_its_tasks_go_by(self):
        told = self.progress()
        assert told["up"] and told["may_go_back"] and told["given_back"] and told["is_back"]
        assert not self.progress([{}])["up"] and not self.progress([{"done": False}])["may_go_back"]
        told = self.progress(answer={"answered": False})
        assert told["up"] and not told["may_go_back"] and not told["given_back"]
        assert not self.progress(balancer={})["given_back"] and not self.progress(unfinished="/before.yml")["up"]

    def test_what_comes_back_when_the_host_serves_again(self):
        first = {"done": False, "first": True, "waiting_for": "/first.yml has not set graceful_azure_done"}
        told = self.progress([{"done": True}, first], unfinished="/first.yml")
        assert told["given_back"] and not told["is_back"] and not told["next"] and not told["result"]["done"]
        assert told["result"]["reason"] == "web1 is not restored; /first.yml has not set graceful_azure_done"
        assert self.progress([{"done": True}, dict(first, done=True)])["is_back"]

    def test_the_records_that_end(self):
        assert sorted(self.progress()["forgets"]) == sorted(restore_service.ENDED)
        assert restore_service.ended(["drained", "haproxy_server"], ["restore_service_after"]) == ["drained", "restore_service_after"]
        assert restore_service.ended(["service"]) == []
        assert restore_service.ended(["drain_host_step_queue"]) == ["drain_host_step_queue"], "also of a step that is set no more"

    def test_what_nobody_can_undo_any_more(self):
        there = ["drain_host_step_queue", "load_balancer_step_cdn", "load_balancer_step_dns", "drained"]
        said = "the duty {} was handed over, and graceful_azure_duties has it no more: take it back by hand"
        assert restore_service.lost_steps(there, ["load_balancer_step_dns"]) == [said.format("queue"), said.format("cdn")]
        assert set(there) <= {*restore_service.ended(there)}

    def test_the_record_of_the_approval_goes_last(self):
        assert self.progress(files=["own"])["forgets"][-1] == "approved"
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

    def test_the_record_names_the_host(self):
        assert self.told(asked={"events": [self.EVENT]}, host="web1")["details"]["E1"].items() >= {"event_type": "Reboot", "host": "web1"}.items()
        given = {"E1": {"host": "web9", "heard": [1]}}
        assert self.told(event_ids=["e1", "E2"], event_details=given, host="web1", heard=[80])["details"] == {
            "E1": {"host": "web9", "heard": [80]},
            "E2": {"host": "web1", "heard": [80]},
        }
        approved = approve_event.progress({"events": [self.EVENT], "resource_name": "web_1"}, {}, [], {}, [], host="web1")
        assert approved["details"]["E1"]["host"] == "web1"

    def test_a_drain_ends_before_the_event_begins(self):
        def at(now, timeout, **told):
            return deadline(now, timeout, {"events": [], "details": {}, **told})

        assert at(1000.0, 120.0) == 1120.0
        assert at(1000.0, 120.0, events=[self.EVENT, dict(self.EVENT, seconds_until_not_before=None)]) == 1085.0
        assert at(1000.0, 20.0, events=[self.EVENT]) == 1020.0
        # 10:00:00 UTC.
        assert at(1795428000.0 - 60, 120.0, details={"E1": {"not_before": "2026-11-23T10:00:00Z"}, "E2": {"not_before": None}, "E3": {}}) == 1795428000.0 - 15

    def test_rounds(self):
        assert rounds(100.0, 112.34, 120.0, wait=True) == {"left": 12.3, "again": True, "pause": 2}
        assert rounds(100.0, 112.34, 12.0, wait=True, done=True) == {"left": 12.3, "again": False, "pause": 1}
        assert rounds(100.0, 112.34, 12.0, wait=True, check_mode=True) == {"left": 12.3, "again": False, "pause": 1}
        assert rounds(100.0, 112.34, 12.0, wait=False) == {"left": 0.0, "again": False, "pause": 1}
        assert rounds(100.0, 99.0, 3600.0, wait=True) == {"left": 0.0, "again": False, "pause": 36}
