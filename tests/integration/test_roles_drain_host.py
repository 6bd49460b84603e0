# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role drain_host: real sessions on a real HAProxy, real connections, a systemctl that pretends."""

from __future__ import annotations

import contextlib

import pytest

from tests.support.ports import free_port
from tests.support.roles import RoleBed, duties, haproxy


def take_out(bed, *balancers):
    """What the role load_balancer does, without its cost."""
    for balancer in balancers or ("lb1",):
        bed.haproxy[balancer].ask("set server www/web1 state drain")


BOTH = duties(haproxy("lb1", "lb2"))


def drain(**variables):
    return "drain_host", variables


def test_it_waits_for_the_request_that_is_under_way(bed):
    with bed.request(3) as status:
        take_out(bed)
        run = bed.run(drain(**BOTH), lambda: take_out(bed, "lb2"), drain(**BOTH))
    assert status == [200]
    # At first lb2 still sent requests here. No wait changes that.
    assert run.steps[0].failure.startswith("web1 is not drained; ") and run.steps[0].failure.endswith("www/web1 on lb2 is in rotation")
    assert (run.status, run.changed) == (0, 0), run.output
    nothing = {"failed_hosts": [], "conflicts": [], "left": [], "waiting_for": []}
    assert run.steps[1].result == {"done": True, "changed": False, "reason": "web1 is drained", **nothing}


def test_a_time_out_says_what_is_left(bed):
    with bed.request(), bed.request(direct=True):
        take_out(bed)
        bed.unit("app", "active")
        run = bed.run(drain(graceful_azure_drain_timeout=1, **duties(haproxy(), "app"), drain_host_event_ids=["E1"]))
    port = bed.webs["web1"].port
    # The session has a connection of HAProxy, too.
    assert run.step.failure == f"web1 is not drained; 1 session, 0 queued at www/web1 on lb1; 1 connection from 127.0.0.1 on port {port}"
    # Nothing is rolled back, and nothing was stopped.
    assert bed.admin() == 8 and bed.unit("app") == "active"


def test_a_port_on_which_nobody_listens_is_idle_only_after_what_listened_was_stopped(bed):
    take_out(bed)
    bed.unit("app", "active")
    nobody = free_port()
    known = {"graceful_azure_drain_timeout": 1, **duties(haproxy(), "app"), "drain_host_event_ids": ["E1"]}
    unheard = drain(graceful_azure_ports=[nobody], **known)
    # The web server goes on, so in the last step another port stands for one on which the service has listened.
    run = bed.run(unheard, drain(**known), unheard)
    said = f"port {nobody} cannot be counted: nobody listens on it"
    assert run.steps[0].failure.startswith(f"web1 is not drained; {said}"), run.output
    assert all(step.result["done"] for step in run.steps[1:]), run.output
    assert bed.unit("app") == "inactive"


def test_only_the_backends_that_are_set_are_waited_for(tmp_path):
    bed = RoleBed(tmp_path, backend="  server web1 127.0.0.1:1\nbackend internal\n")
    with contextlib.closing(bed):
        bed.reset()
        take_out(bed)
        run = bed.run(drain(**duties(haproxy(backends=["www"])), graceful_azure_drain_timeout=5))
    assert run.step.result["reason"] == "web1 is drained", run.output


# test_steps_of_all_types_go_out_in_order_and_come_back_in_reverse has them, too.
@pytest.mark.long
def test_steps(bed):
    step = drain(drain_host_wait=False)
    with contextlib.ExitStack() as direct, contextlib.ExitStack() as balanced:
        direct.enter_context(bed.request(direct=True))
        balanced.enter_context(bed.request())
        take_out(bed)
        run = bed.run(step, balanced.close, step, direct.close, step, drain(drain_host_wait=False, **duties(haproxy("lb1", "dead"))), rolespec=False)
    busy, connected, idle, unreachable = [one.result for one in run.steps]
    direct_one = f"1 connection from 127.0.0.1 on port {bed.webs['web1'].port}"
    assert (busy["done"], busy["left"]) == (False, ["1 session, 0 queued at www/web1 on lb1", direct_one]), run.output
    assert (connected["done"], connected["left"]) == (False, [direct_one])
    assert (idle["done"], idle["left"]) == (True, [])
    assert (unreachable["done"], unreachable["failed_hosts"]) == (False, ["dead"])
    # Whether Ansible had begun to send decides how its sentence begins.
    assert unreachable["left"][0].startswith("balancer dead: ") and "Connection refused" in unreachable["left"][0]


# The order is in test_service_hold.py.
@pytest.mark.long
def test_services_stop_in_order_and_start_in_reverse(bed):
    take_out(bed)
    for name in ("app", "db"):
        bed.unit(name, "active")
    bed.unit("cache", "inactive")
    bed.event("web1")
    services = duties(haproxy(), "app", "cache", "db")
    predicted = bed.run(drain(**services), check=True, arguments=["--diff"])
    assert predicted.status == 0 and predicted.step.result["changed"], predicted.output
    assert bed.unit("app") == "active" and not bed.state_dir("web1").exists()
    run = bed.run(drain(**services), drain(**services), drain(drain_host_state="running"), drain(drain_host_state="running"))
    assert run.status == 0, run.output
    assert [(step.failure, step.result["done"], step.result["changed"]) for step in run.steps] == [("", True, c) for c in (True, False, True, False)]
    log = (bed.units / "log").read_text().splitlines()
    assert log == ["stop app.service", "stop db.service", "start db.service", "start app.service"]
    assert bed.records("web1") == {}
    assert run.steps[2].result["reason"] == "web1 is running"


@pytest.mark.long
def test_a_service_takes_more_than_one_step(bed):
    take_out(bed)
    bed.unit("slow-app", "active")
    step = drain(drain_host_wait=False, **duties(haproxy(), "slow-app"), drain_host_event_ids=["E1"])
    run = bed.run(step, step, rolespec=False)
    assert [one.result["done"] for one in run.steps] == [False, True], run.output
    assert run.steps[0].result["reason"].startswith("web1 is not drained; slow-app.service is deactivating")


# test_steps_of_all_types_go_out_in_order_and_come_back_in_reverse has such steps, too.
@pytest.mark.long
def test_the_users_own_tasks(bed, tasks):
    take_out(bed)
    before, after = {"type": "tasks", "name": "before", "out": "before.yml"}, {"type": "tasks", "name": "after", "out": str(bed.folder / "after.yml")}
    files = {**duties(before, haproxy(), after), "drain_host_event_ids": ["E1"]}
    step = drain(drain_host_wait=False, **files)
    again = []

    def see():
        again.append((tasks.read_text().split(), bed.records("web1")))

    run = bed.run(step, step, step, see, step, see, drain(drain_host_state="running", **files), see, rolespec=False)
    assert [one.result["done"] for one in run.steps] == [False, False, True, True, True], run.output
    reasons = [one.result["reason"].rsplit("/", 1)[-1] for one in run.steps[:2]]
    assert reasons == ["before.yml has not set graceful_azure_done", "after.yml has not set graceful_azure_done"]
    rounds = ["before", "before", "after", "after"]
    held = {"drain_host_step_after": ["E1"], "drain_host_step_before": ["E1"], "drained": ["E1"], "ready_to_leave": ["E1"]}
    assert again == [(rounds, held), (rounds, held), (rounds, {})]


def steps_of(bed):
    """Task files between two services."""
    queue = {"name": "queue", "type": "tasks", "out": bed.noted("out"), "back": bed.noted("in")}
    return {**duties(haproxy(), "app", queue, {"name": "db", "type": "service"}), "drain_host_event_ids": ["E1"]}


GONE = ["stop app.service", "out", "stop db.service"]
BACK = ["start db.service", "in", "start app.service"]


def test_steps_of_all_types_go_out_in_order_and_come_back_in_reverse(bed):
    take_out(bed)
    for name in ("app", "db"):
        bed.unit(name, "active")
    variables = steps_of(bed)
    assert bed.run(drain(**variables), check=True).status == 0
    assert bed.unit("app") == "active" and not bed.state_dir("web1").exists()

    def see():
        assert bed.records("web1") == {"app.service": ["E1"], "db.service": ["E1"], "drain_host_step_queue": ["E1"], "drained": ["E1"]}
        assert bed.hosts_on_record("web1") == {"web1"}

    back = drain(drain_host_state="running", **variables)
    run = bed.run(drain(**variables), drain(**variables), see, back, back)
    assert run.status == 0, run.output
    assert [(one.failure, one.result["done"]) for one in run.steps] == [("", True)] * 4
    assert bed.log() == GONE + BACK and bed.records("web1") == {}


def test_a_step_begins_before_the_host_is_idle_and_a_service_does_not(bed):
    bed.unit("app", "active")
    steps = duties({"name": "queue", "type": "tasks", "out": bed.noted("out")}, haproxy(), "app")
    with bed.request():
        take_out(bed)
        run = bed.run(drain(drain_host_wait=False, **steps, drain_host_event_ids=["E1"]), rolespec=False)
    assert not run.step.result["done"] and "1 session" in run.step.result["reason"], run.output
    assert bed.unit("app") == "active" and "out" in bed.log()


BAD = [
    (duties({"name": "queue", "type": "task"}), "graceful_azure_duties[0].type: 'task' is no type of duty; did you mean tasks?"),
    ({"drain_host_state": "gone"}, "drain_host_state must be one of: drained, running, got: gone"),
    ({"graceful_azure_drain_timeout": -1}, "graceful_azure_drain_timeout: -1 is not a number of seconds from 0 up"),
    ({"graceful_azure_drain_timeout": "nan"}, "graceful_azure_drain_timeout: 'nan' is not a number of seconds from 0 up"),
    ({"graceful_azure_ports": "80,443"}, "graceful_azure_ports: '80,443' is a text; it must be a list"),
    ({"graceful_azure_ports": ["http"]}, "graceful_azure_ports"),
    ({"graceful_azure_duties": "app,db"}, "graceful_azure_duties: 'app,db' is not a list"),
    ({"graceful_azure_ports": [70000]}, "graceful_azure_ports: 70000 is not a TCP port from 1 to 65535"),
    ({"drain_host_event_ids": []}, "drain_host_event_ids: an empty list; name at least one, or leave it out"),
    (duties({"type": "tasks", "out": "/nowhere/before.yml"}), "graceful_azure_duties[0].out: there is no task file /nowhere/before.yml"),
    (duties(haproxy(hosts=[])), "graceful_azure_duties[0].hosts: empty; give the inventory names of the machines on which the balancer runs"),
    (duties(haproxy(server="web9")), "balancer lb1: no backend has a server 'web9' (option server)"),
    (duties(haproxy(), "app"), "No scheduled event names this host"),
]


def test_bad_input(bed):
    take_out(bed)
    bed.unit("app", "active")
    run = bed.run(*(drain(**variables) for variables, _message in BAD))
    for (variables, message), step in zip(BAD, run.steps, strict=True):
        assert message in step.failure, (variables, step.failure)
    assert bed.records("web1") == {} and bed.unit("app") == "active"
