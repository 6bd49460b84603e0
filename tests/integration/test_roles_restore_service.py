# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role restore_service: services, an answer, and then back into a real HAProxy."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.support.roles import duties, haproxy, out

SERVICES = duties(haproxy(), "app", "db")


def gone(bed, **variables):
    """The steps that take the host out and stop its services for the event E1."""
    for name in ("app", "db"):
        bed.unit(name, "active")
    return [
        out("E1", **variables),
        ("drain_host", {"drain_host_event_ids": ["E1"], **SERVICES, **variables}),
    ]


def restore(**variables):
    return "restore_service", variables


def running(bed):
    return bed.unit("app") == bed.unit("db") == "active"


# Both run whenever the host comes back, before all else and after all else.
BEFORE, AFTER = ({"type": "tasks", "name": name, "back": f"{name}.yml"} for name in ("before", "after"))


def test_back_as_it_was(bed, tasks):
    run = bed.run(*gone(bed), restore(**duties(AFTER, haproxy(), BEFORE)), restore())
    assert run.status == 0 and not any(step.failure for step in run.steps), run.output
    first, second = [step.result for step in run.steps[2:]]
    nothing = {"failed_hosts": [], "conflicts": [], "left": [], "held_by": []}
    assert first == {"done": True, "changed": True, "reason": "web1 is restored", "unanswered": False, **nothing}
    assert second["done"] and not second["changed"]
    assert bed.admin() == 0 and running(bed) and bed.records("lb1") == bed.records("web1") == {}
    assert tasks.read_text().split() == ["before", "before", "after", "after"]


def test_a_host_that_never_answers_stays_out(bed):
    bed.webs["web1"].status = 503
    port = bed.webs["web1"].port

    def see():
        # Its services run, and a later run goes on.
        assert bed.admin() == 8 and running(bed) and bed.records("lb1") == {"web1": ["E1"]}
        bed.webs["web1"].status = 302

    run = bed.run(*gone(bed), restore(graceful_azure_restore_timeout=2), see, restore(graceful_azure_health_port=port))
    out, back = run.steps[2:]
    assert out.failure.startswith("web1 is not restored; it stays out of its load balancer; "), run.output
    assert out.failure.endswith(f"http://127.0.0.1:{port}/: status 503; start what should answer, then run it again")
    assert "assertion" not in run.output
    assert back.result["done"] and bed.admin() == 0


# test_alone.py has the same without a HAProxy.
@pytest.mark.long
def test_for_one_of_two_events(bed):
    """Its services are stopped for the other one, so nothing answers, and nobody waits for that."""
    second = [(role, {**variables, f"{role}_event_ids": ["E2"]}) for role, variables in gone(bed)]
    bed.webs["web1"].status = 503

    def see():
        assert bed.admin() == 8 and not running(bed) and bed.records("lb1") == {"web1": ["E2"]}
        bed.webs["web1"].status = 302

    ask = {"graceful_azure_health_port": bed.webs["web1"].port, "graceful_azure_restore_timeout": 60, **SERVICES}
    run = bed.run(*gone(bed), *second, restore(restore_service_event_ids=["e1"], **ask), see, restore(restore_service_event_ids=["E2"], **ask))
    one, both = [step.result for step in run.steps[4:]]
    assert run.status == 0 and (one["done"], one["held_by"], one["reason"]) == (True, ["E2"], "web1 is still held for E2"), run.output
    assert (both["done"], both["held_by"], both["reason"]) == (True, [], "web1 is restored")
    assert bed.admin() == 0 and running(bed) and bed.records("lb1") == bed.records("web1") == {}


# What comes in is in test_duties.py.
@pytest.mark.long
def test_services_that_the_inventory_names_no_more(bed):
    steps = [restore(restore_service_wait=False, **duties(haproxy())) for _step in range(3)]
    run = bed.run(*gone(bed), *steps)
    assert run.steps[-1].result["done"], run.output
    assert bed.admin() == 0 and running(bed) and bed.records("lb1") == bed.records("web1") == {}


def test_check_mode(bed):
    assert bed.run(*gone(bed)).status == 0
    bed.webs["web1"].status = 503
    predicted = bed.run(restore(), check=True, arguments=["--diff"])
    assert predicted.status == 0 and predicted.step.result["changed"] and predicted.step.result["done"], predicted.output
    assert bed.admin() == 8 and not running(bed) and bed.records("web1") == {"app.service": ["E1"], "db.service": ["E1"], "drained": ["E1"]}


# test_drain_steps_come_back_in_reverse_and_a_killed_run_is_continued has such a step, too.
@pytest.mark.long
def test_steps_with_tasks_of_the_users_own(bed, tasks):
    step = restore(
        **duties(AFTER, haproxy(), "app", "db", BEFORE), restore_service_wait=False, restore_service_event_ids=["E1"], load_balancer_state="restored"
    )

    def answer(status):
        def change():
            bed.webs["web1"].status = status

        return change

    def see():
        assert running(bed) and bed.admin() == 8
        assert bed.hosts_on_record("web1") == {"web1"}

    run = bed.run(*gone(bed), answer(503), step, step, see, answer(200), step, step, rolespec=False)
    assert run.status == 0, run.output
    steps = [one.result for one in run.steps[2:]]
    assert [one["done"] for one in steps] == [False, False, False, True]
    ends = ["before.yml has not set graceful_azure_done", "/: status 503", "after.yml has not set graceful_azure_done", "restored"]
    assert [one["reason"].endswith(end) for one, end in zip(steps, ends, strict=True)] == [True] * 4
    assert tasks.read_text().split() == ["before", "before", "after", "after"]
    assert bed.admin() == 0 and bed.records("web1") == {}


# The record is in test_task_hold.py.
@pytest.mark.long
def test_an_event_that_comes_while_the_users_tasks_undo_has_all_done_again(bed):
    """Its run found the tasks of drain_host done, and recorded the host as drained, when they were about to be undone."""
    work = [{"name": "Work", "ansible.builtin.set_fact": {"graceful_azure_done": True}}]
    (bed.folder / "work.yml").write_text(yaml.safe_dump(work))
    found = {"name": ["drained", "drain_host_step_work"], "event_ids": ["E2"], "done": True, "state_dir": "{{ graceful_azure_state_dir }}"}
    undo = [{"name": "Find it done", "graceful.azure.task_hold": found}, {"name": "Undo", "ansible.builtin.set_fact": {"graceful_azure_done": True}}]
    (bed.folder / "undo.yml").write_text(yaml.safe_dump(undo))
    variables = duties({"type": "tasks", "name": "work", "out": "work.yml"}, haproxy(), "app", "db", {"type": "tasks", "name": "undo", "back": "undo.yml"})
    out, drain = gone(bed, drain_host_wait=False, **variables)
    step = restore(restore_service_wait=False, restore_service_event_ids=["E1"], **variables)
    run = bed.run(out, drain, step, rolespec=False)
    assert run.status == 0 and all(one.result["done"] for one in run.steps), run.output
    records = [json.loads(path.read_text()) for path in bed.state_dir("web1").glob("*.json")]
    held = {record["subject"]["name"]: (sorted(record["events"]), record["done"]) for record in records}
    assert held == {"drained": (["E2"], False), "drain_host_step_work": (["E2"], False)}


STEPS_BACK = ["start db.service", "in", "start app.service"]


def test_drain_steps_come_back_in_reverse_and_a_killed_run_is_continued(bed):
    """The first run ends when the task file between the two services has not done its job."""
    queue = {"name": "queue", "type": "tasks", "out": bed.noted("out"), "back": bed.noted("in", is_done=False)}
    steps = duties(haproxy(), "app", queue, "db")
    out, drain = gone(bed, **steps)
    step = restore(restore_service_wait=False, restore_service_event_ids=["E1"], **steps)

    def see():
        assert bed.admin() == 8 and bed.unit("app") == "inactive"
        assert bed.records("web1") == {"app.service": ["E1"], "drain_host_step_queue": ["E1"], "drained": ["E1"], "restoring": ["E1"]}
        bed.noted("in")

    first = bed.run(out, drain, step, rolespec=False)
    assert first.status == 0 and first.steps[2].result["reason"].endswith("/in.yml has not set graceful_azure_done"), first.output
    see()
    second = bed.run(step, step, rolespec=False)
    assert [one.result["done"] for one in second.steps] == [True, True], second.output
    assert [line for line in bed.log() if line in STEPS_BACK] == ["start db.service", "in", "in", "start app.service"]
    assert bed.admin() == 0 and bed.records("lb1") == bed.records("web1") == {}


def test_what_was_not_begun_is_not_undone(bed):
    both = {"name": "queue", "type": "tasks", "out": bed.noted("out"), "back": bed.noted("in")}
    always = {"name": "cache", "type": "tasks", "back": bed.noted("warm")}
    run = bed.run(restore(restore_service_wait=False, restore_service_event_ids=["E1"], **duties(both, always)), rolespec=False)
    assert run.step.result["done"] and bed.log() == ["warm"] and bed.records("web1") == {}, run.output


def test_a_dead_balancer(bed):
    both = {**duties(haproxy("dead", "lb1")), "graceful_azure_health_url": ""}
    run = bed.run(gone(bed)[0], restore(restore_service_wait=False, restore_service_event_ids=["E1"], **both), rolespec=False)
    result = run.steps[1].result
    assert not result["done"] and result["failed_hosts"] == ["dead"] and result["reason"] == "web1 is not restored; dead cannot be reached."
    assert bed.admin() == 0


# The judgement is in test_steps.py.
@pytest.mark.long
def test_steps_of_a_host_that_cannot_be_reached(bed):
    common = {f"{role}_wait": False for role in ("load_balancer", "drain_host", "approve_event", "restore_service")}
    common.update(
        **duties(haproxy(server="web1")),
        graceful_azure_ports=[80],
        graceful_azure_health_port=80,
    )
    common.update({f"{role}_event_ids": ["E1"] for role in ("load_balancer", "drain_host", "approve_event", "restore_service")})
    (bed.folder / "after.yml").write_text("[]\n")
    files = duties(AFTER, haproxy(server="web1"), "app", "db")
    run = bed.run(
        ("load_balancer", {"load_balancer_state": "out", **common}),
        ("drain_host", common),
        ("approve_event", {"approve_event_ready_resources": ["web1"], **common}),
        ("restore_service", common),
        ("restore_service", {**common, **files}),
        host="dead",
        rolespec=False,
    )
    assert run.status == 0 and not any(step.failure for step in run.steps), run.output
    assert [step.result["done"] for step in run.steps] == [True, False, False, False, False]
    assert run.steps[1].result["reason"].startswith("dead is not drained; silent: ") and "Connection refused" in run.steps[1].result["reason"]
    assert [step.result["reason"] for step in run.steps[2:]] == [
        "the host cannot be reached",
        "dead is not restored; the host cannot be reached",
        "dead is not restored; the host cannot be reached",
    ]
    # It is still known to the balancer, where it stays out.
    assert bed.admin() == 8


BAD = [
    ({"graceful_azure_restore_timeout": -1}, "graceful_azure_restore_timeout: -1 is not a number of seconds from 0 up"),
    ({"restore_service_event_ids": []}, "restore_service_event_ids: an empty list; name at least one, or leave it out"),
    (duties({"type": "tasks", "back": "nowhere.yml"}), "graceful_azure_duties[0].back: there is no task file"),
    ({"graceful_azure_health_port": "http"}, "graceful_azure_health_port"),
    ({"graceful_azure_health_port": 70000}, "graceful_azure_health_port: 70000 is not a TCP port from 1 to 65535"),
    (duties(haproxy("lb9")), "graceful_azure_duties[0].hosts: 'lb9' is not in the inventory"),
    ({"graceful_azure_health_url": "localhost:80"}, "graceful_azure_health_url: url must be like http://localhost:8080/health, not 'localhost:80'"),
]


def test_bad_input(bed):
    run = bed.run(gone(bed)[0], *(restore(**variables) for variables, _message in BAD))
    for (variables, message), step in zip(BAD, run.steps[1:], strict=True):
        assert message in step.failure, (variables, step.failure)
    assert bed.admin() == 8


def test_duties_of_all_kinds_through_all_roles(bed):
    """What stands before the balancer goes out at once and comes back last, and what stands after it waits until the host is idle."""
    bed.unit("app", "active")

    def files(name):
        out, back = (bed.noted(f"{name}_{way}") for way in ("out", "back"))
        return {"type": "tasks", "name": name, "out": out, "back": back}

    ids = {f"{role}_event_ids": ["E1"] for role in ("load_balancer", "drain_host", "restore_service")}
    common = {
        "graceful_azure_duties": [files("first"), haproxy(server="web1", state="maint"), files("then"), "app"],
        "graceful_azure_health_port": bed.webs["web1"].port,
        **ids,
    }
    run = bed.run(
        ("load_balancer", {"load_balancer_state": "out", **common}),
        ("drain_host", common),
        ("restore_service", common),
        host="web3",
    )
    assert run.status == 0 and [step.failure for step in run.steps if step.failure] == [], run.output
    assert run.steps[0].result["reason"] == "web1 is held (www on lb1: maint)"
    assert [step.result["done"] for step in run.steps if step.result] == [True] * 3
    assert bed.log() == ["first_out", "then_out", "stop app.service", "start app.service", "then_back", "first_back"]
    assert bed.admin() == 0 and bed.records("lb1") == bed.records("web3") == {}
