# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role load_balancer against real HAProxies."""

from __future__ import annotations

import json
import threading

import pytest
import yaml
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Store

from tests.support.roles import back, duties, haproxy, out

BOTH = duties(haproxy("lb1", "lb2"))


def test_out_and_in_on_two_balancers(bed):
    bed.haproxy["lb2"].ask("set weight www/web1 7")

    def see():
        assert bed.hosts_on_record("lb1") == bed.hosts_on_record("lb2") == {"web1"}

    run = bed.run(out("E1", **BOTH), out("E1", **BOTH), out("E2", **BOTH), see, back("E1", **BOTH), back(**BOTH))
    assert run.status == 0, run.output
    assert [step.result["changed"] for step in run.steps] == [True, False, True, True, True]
    assert all(step.result["done"] and not step.result["failed_hosts"] for step in run.steps)
    assert run.steps[0].result["reason"] == "web1 is held (www on lb1: drain) (www on lb2: drain)"
    assert run.steps[3].result["reason"] == "web1 is held (www on lb1: drain) (www on lb2: drain); still held for E2"
    assert run.steps[4].result["reason"] == "web1 is not held (www on lb1: ready) (www on lb2: ready)"
    assert bed.haproxy["lb2"].flags("www", "web1") == (0, 7)
    assert bed.records("lb1") == bed.records("lb2") == {}
    bed.haproxy["lb2"].ask("set weight www/web1 100%")


def test_check_and_diff_mode_and_the_second_run(bed):
    predicted = bed.run(out(), check=True, arguments=["--diff"])
    assert predicted.status == 0, predicted.output
    assert predicted.step.result["changed"] and predicted.step.result["done"]
    assert '-        "admin_state": "ready"' in predicted.output and '+        "admin_state": "drain"' in predicted.output
    assert bed.admin() == 0 and not bed.state_dir("lb1").exists()
    first = bed.run(out(**duties(haproxy(state="maint"))))
    assert (first.status, first.changed, bed.admin()) == (0, 1, 1)
    second = bed.run(out(**duties(haproxy(state="maint"))))
    assert (second.status, second.changed) == (0, 0)


def test_a_step_is_one_module_and_no_question(bed):
    run = bed.run(out(load_balancer_wait=False), back(load_balancer_wait=False), rolespec=False)
    assert run.status == 0, run.output
    assert [step.result["done"] for step in run.steps] == [True, True]
    assert bed.simulator.requests() == []
    # What ran in two steps: the beginning, the includes, the hold, what came of it, the result.
    assert run.output.count("TASK [graceful.azure.load_balancer : ") - run.output.count("skipping: [web1]") == 2 * 7


def test_a_dead_balancer_does_not_stop_the_others(bed):
    order = duties(haproxy("dead", "lb1"))
    run = bed.run(out(**order), out(**order, load_balancer_wait=False))
    alone, step = run.steps
    assert run.status == 0, run.output
    assert bed.admin() == 8
    assert alone.failure == "dead cannot be reached."
    assert step.failure == ""
    assert step.result == {"done": False, "changed": False, "reason": "dead cannot be reached.", "failed_hosts": ["dead"], "conflicts": []}


def test_no_haproxy_on_any_balancer(bed):
    """In a namespace of processes without one: the role must not say that the host is out."""
    order = duties(haproxy(absent="no_traffic", socket=str(bed.folder / "none.sock")))
    namespace = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    # A helper is killed with its namespace, and could not remove its folder.
    modules = ["-e", "graceful_azure_helper=no"]
    run = bed.run(out(**order), out(**order, load_balancer_wait=False), back(**order), arguments=modules, within=namespace)
    alone, step, returned = run.steps
    assert alone.failure == step.result["reason"] == "No HAProxy runs on any of its balancers (lb1)."
    assert not step.result["done"]
    assert returned.result["done"] and returned.result["reason"] == "web1 is not held (no HAProxy runs on lb1)"


def test_a_balancer_that_refuses_does_not_stop_the_others(bed):
    # web2 is no balancer: its socket is an empty path.
    run = bed.run(out(**duties(haproxy("web2", "dead", "lb2")), load_balancer_wait=False))
    assert bed.admin("lb2") == 8
    assert run.step.failure.startswith("web2: ") and "dead cannot be reached." in run.step.failure
    assert run.step.result["failed_hosts"] == ["web2", "dead"] and not run.step.result["done"]


@pytest.mark.parametrize(
    "role, variables",
    [
        ("load_balancer", {"load_balancer_state": "out", "load_balancer_event_ids": ["E1"]}),
        # Each role checks its variables in the same way; test_how_machines_of_a_role_alone_are_reached (unit tests) tells for which machines.
        pytest.param("drain_host", {}, marks=pytest.mark.long),
        pytest.param("restore_service", {"restore_service_event_ids": ["E1"]}, marks=pytest.mark.long),
    ],
)
def test_a_balancer_is_not_reached_as_the_one_before_it(bed, role, variables):
    """It does not say how it is reached. In a loop, Ansible 2.21 would act on the controller itself, as at lb1."""
    run = bed.run((role, {**duties(haproxy("lb1", "silent")), f"{role}_wait": False, **variables}))
    assert run.step.result["failed_hosts"] == ["silent"] and not run.step.result["done"], run.output
    assert ("balancer silent: " if role == "drain_host" else "silent cannot be reached") in str(run.step.result)
    assert role != "drain_host" or "Connection refused" in str(run.step.result)


def test_too_few_others_in_service(bed):
    def other(state):
        bed.haproxy["lb1"].ask(f"set server www/web2 state {state}")

    def stays():
        assert bed.admin() == 0 and bed.records("lb1") == {}
        threading.Timer(1, other, ["ready"]).start()

    other("maint")
    least = {"load_balancer_min_in_service": 1}
    waits = out(**least, load_balancer_timeout=60)
    run = bed.run(out(**least, load_balancer_wait=False), out(**least, load_balancer_timeout=0), stays, waits, rolespec=False)
    step, in_vain, later = run.steps
    reason = "lb1: web1 stays: 1 of 2 in service in www (web2 is in maint), 1 must stay."
    assert step.result == {"done": False, "changed": False, "reason": reason, "failed_hosts": [], "conflicts": []} and step.failure == ""
    assert in_vain.failure == reason
    assert later.result["done"] and bed.admin() == 8 and bed.admin("lb1", "web2") == 0, run.output


@pytest.mark.long
def test_a_run_before_it_in_the_same_playbook(bed):
    """The plan of the run is registered on the host, and has turns of its own."""
    role, variables = out()
    task = {"name": "Out", "ansible.builtin.include_role": {"name": f"graceful.azure.{role}"}, "vars": variables}
    run = bed.play([{"import_playbook": "graceful.azure.handle_events", "vars": {"target": "web1"}}, {"hosts": "web1", "gather_facts": False, "tasks": [task]}])
    assert run.returncode == 0, run.stdout
    assert bed.admin() == 8 and bed.records("lb1") == {"web1": ["E1"]}


def test_what_an_operator_did(bed):
    def operator(state):
        return lambda: bed.haproxy["lb1"].ask(f"set server www/web1 state {state}")

    def still(flags):
        def check():
            assert bed.admin() == flags

        return check

    run = bed.run(out(), operator("ready"), out(), back(), still(0), operator("maint"), out(), back(), still(1))
    assert run.status == 0, run.output
    _first, still_in, released, *maintained = run.steps
    assert not still_in.result["done"] and still_in.result["conflicts"]
    assert still_in.failure == still_in.result["reason"] and still_in.failure.startswith("lb1: ")
    assert released.result["done"] and released.result["conflicts"]
    assert [step.result["done"] for step in maintained] == [True, True]
    assert bed.records("lb1") == {}


def test_the_service_is_asked_which_events_name_the_host(bed):
    events = []

    def announce():
        events.extend([bed.event("web1"), bed.event("web2")])

    run = bed.run(out(load_balancer_event_ids=None), announce, out(load_balancer_event_ids=None), rolespec=False)
    nothing, something = run.steps
    assert "No scheduled event names this host" in nothing.failure and "load_balancer_event_ids" in nothing.failure
    assert something.failure == "", run.output
    assert bed.records("lb1") == {"web1": events[:1]}
    assert '"event_type": "Reboot"' in next(bed.state_dir("lb1").glob("*.json")).read_text()


def test_several_balancers(bed):
    outer, inner = haproxy("lb1", name="outer", server="web1"), haproxy("lb2", name="inner", server="web1")
    several = duties(outer, inner)
    with_dead = duties(haproxy("dead", name="outer"), inner)
    with_wrong = duties(dict(outer, socket="/nowhere"), inner)

    def stays():
        assert bed.admin("lb1") == bed.admin("lb2") == 0 and bed.records("lb2") == {}
        bed.haproxy["lb1"].ask("set server www/web2 state ready")

    def is_out():
        assert (bed.admin("lb1"), bed.admin("lb2")) == (8, 8)

    def only_inner():
        assert (bed.admin("lb1"), bed.admin("lb2")) == (0, 8)

    bed.haproxy["lb1"].ask("set server www/web2 state maint")
    drain, restore = ("drain_host", several), ("restore_service", several)
    run = bed.run(
        *(out(**several, load_balancer_min_in_service=1, load_balancer_timeout=0), stays, drain, out(**several), is_out, drain, restore),
        *(out("E2", **with_dead), only_inner, back("E2", **several), out("E3", **with_wrong), only_inner, back("E3", **several)),
        host="web3",
    )
    refused, serves, taken, drained, restored, dead, _back, wrong, last = run.steps
    assert refused.failure == "lb1: web1 stays: 1 of 2 in service in www (web2 is in maint), 1 must stay.", run.output
    assert serves.result["left"] == ["www/web1 on lb1 is in rotation", "www/web1 on lb2 is in rotation"]
    assert taken.failure == "" and taken.result["reason"] == "web1 is held (www on lb1: drain); web1 is held (www on lb2: drain)"
    assert drained.failure == "" and drained.result["done"] and restored.failure == "" and restored.result["done"], run.output
    assert (dead.failure, dead.result["failed_hosts"]) == ("dead cannot be reached.", ["dead"])
    assert wrong.failure.startswith("lb1: There is no HAProxy socket /nowhere.") and wrong.result["failed_hosts"] == ["lb1"]
    assert last.result["done"] and bed.admin("lb1") == bed.admin("lb2") == 0
    assert bed.records("lb1") == bed.records("lb2") == {}


BAD = [
    (duties({"type": "varnish"}), "graceful_azure_duties[0].type: 'varnish' is no type of duty; there are haproxy, nginx, health_probe"),
    ({"load_balancer_provider": "haproxy"}, "load_balancer_provider: no longer read; write graceful_azure_duties: [{type: haproxy}]"),
    ({"load_balancer_state": "away"}, "load_balancer_state must be one of: out, in, got: away"),
    (duties(haproxy(state="stop")), "graceful_azure_duties[0].state: 'stop' is none of drain, maint"),
    ({"load_balancer_timeout": "soon"}, "load_balancer_timeout"),
    ({"load_balancer_timeout": -1}, "load_balancer_timeout: -1 is not a number of seconds from 0 up"),
    (duties(haproxy(hosts=[])), "graceful_azure_duties[0].hosts: empty; give the inventory names of the machines on which the balancer runs"),
    (
        duties(haproxy("lb1", "lb8", "lb9")),
        "graceful_azure_duties[0].hosts: 'lb8' is not in the inventory; graceful_azure_duties[0].hosts: 'lb9' is not in the inventory",
    ),
    (duties(haproxy(hosts="lb1")), "graceful_azure_duties[0].hosts: 'lb1' is a text; it must be a list"),
    ({"load_balancer_min_in_service": "many"}, "min_in_service: 'many' is neither a number of servers from 0 up nor a percentage"),
    ({"load_balancer_event_ids": []}, "load_balancer_event_ids: an empty list; name at least one, or leave it out"),
    (duties(haproxy(server="web1; disable server www/web2")), "web1; disable server www/web2"),
    (duties({"type": "tasks", "traffic": True}), "graceful_azure_duties[0]: neither out nor back is set; give at least one task file"),
    (
        duties({"type": "tasks", "traffic": True, "out": "/nowhere/out.yml", "back": "/nowhere/in.yml"}),
        "graceful_azure_duties[0].out: there is no task file /nowhere/out.yml; graceful_azure_duties[0].back: there is no task file /nowhere/in.yml",
    ),
]


def test_bad_input(bed):
    run = bed.run(*(out(**variables) for variables, _message in BAD))
    for (variables, message), step in zip(BAD, run.steps, strict=True):
        assert message in step.failure, (variables, step.failure)
    assert bed.admin() == bed.admin("lb1", "web2") == 0
    assert bed.records("lb1") == bed.records("web1") == {}


def test_bad_input_is_refused_without_argument_specs_too(bed):
    bad = [
        (duties(haproxy(state="stop")), "graceful_azure_duties[0].state: 'stop' is none of drain, maint"),
        ({"load_balancer_state": "away"}, "load_balancer_state: 'away' is none of out, in"),
        ({"load_balancer_timeout": "soon"}, "load_balancer_timeout: 'soon' is not a number of seconds from 0 up"),
    ]
    run = bed.run(*(out(**variables) for variables, _message in bad), rolespec=False)
    assert [step.failure for step in run.steps] == [message for _variables, message in bad]


def test_a_host_that_no_balancer_knows(bed):
    run = bed.run(out(**duties()), back(**duties()))
    assert run.status == 0 and run.changed == 0
    assert [step.result["done"] for step in run.steps] == [True, True]


@pytest.fixture
def custom(bed):
    """A provider of the user's own: files whose job is done at the second round, and a log of the rounds."""
    bed.task_file("out")
    return bed.task_file("in")


CUSTOM = duties({"type": "tasks", "traffic": True, "out": "out.yml", "back": "in.yml"})


def rounds(log):
    return log.read_text().split()


# test_a_provider_of_the_users_own_in_steps has the same files.
@pytest.mark.long
def test_a_provider_of_the_users_own_waits_until_it_is_done(bed, custom):
    predicted = bed.run(out(**CUSTOM), check=True)
    assert predicted.status == 0 and rounds(custom) == [] and bed.records("web1") == {}, predicted.output
    run = bed.run(out("E1", **CUSTOM), out("E2", **CUSTOM), back("E1", **CUSTOM), back(**CUSTOM))
    assert run.status == 0, run.output
    assert [(step.failure, step.result["changed"]) for step in run.steps] == [("", True)] * 4
    assert rounds(custom) == ["out", "out", "in", "in"]
    assert bed.records("web1") == {}


def test_a_provider_of_the_users_own_in_steps(bed, custom):
    step = dict(CUSTOM, load_balancer_wait=False)

    def is_out():
        assert rounds(custom) == ["out", "out"] and bed.records("web1") == {"load_balancer_step_tasks": ["E1"]}

    run = bed.run(out(**step), out(**step), is_out, back(**step), back(**step), back(**step), rolespec=False)
    assert [one.result["done"] for one in run.steps] == [False, True, False, True, True]
    assert [one.result["changed"] for one in run.steps][-1] is False
    assert run.steps[0].result["reason"].endswith("out.yml has not set graceful_azure_done")
    assert rounds(custom) == ["out", "out", "in", "in"] and bed.records("web1") == {}


# The record is in test_task_hold.py.
@pytest.mark.long
def test_an_event_that_comes_while_the_users_own_tasks_bring_it_back(bed, custom):
    step = dict(CUSTOM, load_balancer_wait=False)
    # One round of the way in, then another event: out once more, and in when that is over.
    run = bed.run(out(**step), out(**step), back(**step), out("E2", **step), out("E2", **step), rolespec=False)
    assert [one.result["done"] for one in run.steps] == [False, True, False, True, True], run.output
    assert rounds(custom) == ["out", "out", "in", "out"]
    assert bed.records("web1") == {"load_balancer_step_tasks": ["E1", "E2"]}


# The record is in test_task_hold.py.
@pytest.mark.long
def test_another_run_takes_it_out_while_the_users_own_tasks_bring_it_back(bed, custom):
    """The other's way out ends before this way in, which has the last word."""
    hold = {"name": "load_balancer_step_tasks", "event_ids": ["E2"], "done": True, "state_dir": str(bed.state_dir("web1"))}
    way_in = bed.folder / "in.yml"
    way_in.write_text(yaml.safe_dump([{"name": "Another run", "graceful.azure.task_hold": hold}, *yaml.safe_load(way_in.read_text())]))
    custom.write_text("out\nin\n")  # so that every round is a second one
    step = dict(CUSTOM, load_balancer_wait=False)
    run = bed.run(out("E1", **step), back("E1", **step), out("E2", **step), rolespec=False)
    assert [one.result["done"] for one in run.steps] == [True] * 3, run.output
    assert rounds(custom)[2:] == ["out", "in", "out"]
    assert bed.records("web1") == {"load_balancer_step_tasks": ["E2"]}


def test_several_of_the_users_own_beside_a_real_one(bed):
    """They go out in the order of the list, and come back in reverse. The first comes back from what an older version has put, too."""
    cdn, dns = ({"type": "tasks", "name": name, "traffic": True, "out": bed.noted(f"{name}_out"), "back": bed.noted(f"{name}_back")} for name in ("cdn", "dns"))
    several = duties(cdn, haproxy(), dns)

    def is_out():
        assert bed.admin() == 8 and bed.records("web1") == {"load_balancer_step_cdn": ["E1"], "load_balancer_step_dns": ["E1"]}
        record = next(bed.state_dir("web1").glob("*cdn*.json"))
        former = json.loads(record.read_text())
        former["subject"]["name"] = "load_balancer_custom"
        Store(str(bed.state_dir("web1"))).write(former)
        record.unlink()

    run = bed.run(out("E1", **several), is_out, back(**several))
    assert run.status == 0 and [step.result["done"] for step in run.steps if step.result] == [True, True], run.output
    assert bed.log() == ["cdn_out", "dns_out", "dns_back", "cdn_back"]
    assert bed.admin() == 0 and bed.records("web1") == {}


def test_a_provider_of_the_users_own_that_takes_too_long(bed, custom):
    run = bed.run(out(**CUSTOM, load_balancer_timeout=0))
    assert run.step.failure.endswith("out.yml has not set graceful_azure_done")
    # A later run goes on.
    assert bed.records("web1") == {"load_balancer_step_tasks": ["E1"]}
