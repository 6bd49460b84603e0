# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which entry of a list of duties is done where: on the machine of the task, on the controller, or not at all."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.graceful.azure.plugins.action import duty, duty_info
from ansible_collections.graceful.azure.plugins.module_utils._duties.all_types import class_of, types
from ansible_collections.graceful.azure.plugins.plugin_utils import _duty_action

from tests.support.azure import POOL

# A type is loaded when it is first needed. Once another test has started Ansible's own loader in this process, that finds none of them.
for kind in types():
    class_of(kind)

HAPROXY = {"type": "haproxy", "hosts": ["lb1", "lb2"]}
AZURE = {"type": "azure_load_balancer", "pool": POOL}
TASKS = {"type": "tasks", "out": "out.yml"}


@pytest.fixture(name="run")
def make_run(monkeypatch):
    """Run the action. C(results): by place, what is different in them."""
    monkeypatch.setattr("ansible.plugins.action.ActionBase.run", lambda self, tmp=None, task_vars=None: {})

    def run(plugin, duties, delegate_to=None, check=False, results=(), address="web1.example.com", **args):
        asked = []
        differences = dict(results)

        def answer(place, module, given):
            entries = given.get("duties")
            names = [entry if isinstance(entry, str) else entry["type"] for entry in entries] if isinstance(entries, list) else []
            asked.append((place, module, names, given))
            looks = [{"name": name, "state": "out", "busy": []} for name in names]
            told = {"changed": module == "duty", "duties": looks, "left_out": []}
            if module == "duty":
                told.update(done=True, acts=[{"name": name} for name in names], waiting_for=[], conflicts=[], diff={"before": {}, "after": {place: 1}})
            return dict(told, **differences.get((place, module), {}))

        monkeypatch.setattr(_duty_action, "run_module", lambda _action, module, given, _vars: answer("machine", module, given))
        monkeypatch.setattr(_duty_action, "_on_controller", lambda module, given, _check: answer("controller", module, given))
        action = plugin.ActionModule.__new__(plugin.ActionModule)
        action._task = SimpleNamespace(args=dict(args, duties=duties), delegate_to=delegate_to, check_mode=check)
        action._templar = SimpleNamespace(template=lambda value: value)
        result = action.run(task_vars={"inventory_hostname": "web1", "ansible_host": address})
        run.asked = asked
        return result

    return run


def where(run):
    return [(place, module, names) for place, module, names, _given in run.asked]


def test_on_a_balancer_only_what_belongs_there(run):
    result = run(duty, [HAPROXY, dict(HAPROXY, name="other", hosts=["lb3"]), AZURE, "app", TASKS], "lb1", event_ids=["A"])
    assert where(run) == [("machine", "duty", ["haproxy"])]
    assert run.asked[0][3]["duties"] == [dict(HAPROXY, server="web1")] and run.asked[0][3]["event_ids"] == ["A"]
    assert {each["name"]: each["why"] for each in result["left_out"]} == {
        "other": "It belongs to lb3, and this task runs on lb1: delegate the task there.",
        "azure_load_balancer": "It is done on the controller, and this task runs on lb1: run the task without delegate_to.",
        "app": "It is a duty of web1 itself, and this task runs on lb1: run the task without delegate_to.",
        "tasks": "Its task files are run by the roles and playbooks: include them yourself.",
    }
    assert result["done"] and result["changed"]


@pytest.mark.parametrize("kind", [kind for kind in types() if class_of(kind).of_balancer])
def test_a_balancer_has_a_server_of_the_hosts_name_if_no_other_is_given(run, kind):
    for given, known in (({}, "web1"), ({"server": ""}, "web1"), ({"server": "other"}, "other")):
        run(duty_info, [{"type": kind, "hosts": ["lb1"], **given}], "lb1")
        assert run.asked[0][3]["duties"][0]["server"] == known


def test_on_the_host_the_rest_in_order(run):
    result = run(duty, [HAPROXY, AZURE, "app", "db"], ports=[80], results={("machine", "connections_info"): {"idle": True}})
    assert where(run) == [("controller", "duty", ["azure_load_balancer"]), ("machine", "connections_info", []), ("machine", "duty", ["app", "db"])]
    assert run.asked[0][3]["duties"][0]["address"] == "web1"
    # What an earlier call has stopped is known from the records, which lie in the usual folder if no other is named.
    assert run.asked[1][3]["state_dir"] == "/var/lib/graceful_azure"
    assert [each["type"] for each in result["left_out"]] == ["haproxy"]
    assert [each["name"] for each in result["acts"]] == ["azure_load_balancer", "app", "db"]
    assert result["diff"]["after"] == {"controller": 1, "machine": 1}


@pytest.mark.parametrize(
    ("entry", "address", "known"),
    [
        (AZURE, "10.0.0.4", {"ip_address": "10.0.0.4"}),
        (AZURE, "web1.example.com", {"address": "web1"}),
        (dict(AZURE, address="a"), "10.0.0.4", {"address": "a"}),
    ],
)
def test_by_what_azure_knows_the_host(run, entry, address, known):
    run(duty_info, [entry], address=address)
    given = run.asked[0][3]["duties"][0]
    assert {key: given[key] for key in ("address", "ip_address") if key in given} == known


@pytest.mark.parametrize("counted", [HAPROXY, AZURE])
def test_a_minimum_that_nothing_counts_is_a_mistake(run, counted):
    probe = {"type": "health_probe", "action": "file", "file": "/run/out"}
    result = run(duty, [probe, "app"], ports=[80], min_in_service="1")
    assert result["failed"] and result["msg"].startswith("min_in_service: set, and nothing counts it") and not run.asked
    for duties, least in (([probe, "app"], "0"), ([probe, counted, "app"], "50%"), (["app"], "1")):
        assert not run(duty, duties, ports=[80], min_in_service=least).get("failed")


def test_back_in_reverse(run):
    run(duty, [AZURE, "app"], state="back")
    assert where(run) == [("machine", "duty", ["app"]), ("controller", "duty", ["azure_load_balancer"])]


def test_what_is_not_done_ends_it_and_the_rest_is_looked_at(run):
    waits = {("controller", "duty"): {"done": False, "waiting_for": ["Azure is still changing web"]}}
    result = run(duty, [AZURE, "app"], ports=[80], results=waits)
    assert where(run) == [("controller", "duty", ["azure_load_balancer"]), ("machine", "duty_info", ["app"])]
    assert not result["done"] and result["waiting_for"] == ["Azure is still changing web"]
    assert [each["name"] for each in result["duties"]] == ["azure_load_balancer", "app"]
    failure = {("controller", "duty"): {"failed": True, "done": False, "msg": "no token"}}
    result = run(duty, [AZURE, "app"], ports=[80], results=failure)
    assert result["failed"] and result["msg"] == "no token" and ("machine", "duty", ["app"]) not in where(run)


def test_what_runs_on_the_host_goes_on_as_long_as_somebody_is_connected(run):
    connected = {("machine", "connections_info"): {"idle": False, "left": ["2 connections on port 80"]}}
    result = run(duty, [AZURE, "app"], ports=[80], timeout=30, results=connected)
    assert where(run)[1:] == [("machine", "connections_info", []), ("machine", "duty_info", ["app"])]
    assert run.asked[1][3]["ports"] == [80] and 25 < run.asked[1][3]["timeout"] <= 30
    assert not result["done"] and result["waiting_for"] == ["2 connections on port 80"]
    result = run(duty, [AZURE, "app"])
    assert result["failed"] and result["msg"].startswith("ports: not set; azure_load_balancer does not tell which connections are left") and not run.asked
    # Nothing is stopped on the way back, and nothing is done in check mode.
    assert run(duty, [AZURE, "app"], state="back")["done"]
    assert run(duty, [AZURE, "app"], ports=[80], check=True)["done"] and "connections_info" not in str(where(run))


def test_what_runs_on_the_host_goes_on_while_something_else_sends_it_connections(run):
    """Such as an inbound NAT rule, past the pool: nobody ends these."""
    why = "inbound NAT rule ssh of lb sends connections to port 22 of it, whatever the administrative state is"
    past = {("controller", "duty"): {"duties": [{"name": "azure_load_balancer", "state": "out", "busy": [why]}]}}
    result = run(duty, [AZURE, "app"], ports=[22], results=past)
    assert where(run)[1:] == [("machine", "duty_info", ["app"])] and (result["done"], result["waiting_for"]) == (False, [why])
    assert run(duty, [AZURE, "app"], state="back", results=past)["done"]
    assert run(duty, [AZURE, "app"], ports=[22], check=True, results=past)["done"]


def test_a_mistake_anywhere_touches_nothing(run):
    result = run(duty, [AZURE, {"type": "haproxy"}], ports=[80])
    assert result["failed"] and result["msg"] == "duties[1]: missing required arguments: hosts." and not run.asked
    for wrong in (None, {"type": "service"}):
        run(duty, wrong)
        assert run.asked[0][3]["duties"] == wrong


def test_a_text_is_one_entry_and_a_list_may_have_nothing_for_this_machine(run):
    run(duty_info, "app")
    assert where(run) == [("machine", "duty_info", ["app"])]
    assert run(duty_info, "app", "lb1")["left_out"] and not run.asked
    assert run(duty, [HAPROXY], "web1")["done"]
    result = run(duty, [HAPROXY])
    assert not run.asked and result["done"] and not result["changed"] and result["duties"] == [] and len(result["left_out"]) == 1


@pytest.mark.parametrize("state", ["out", "back"])
@pytest.mark.parametrize(
    ("duties", "known"),
    [([HAPROXY, "app"], "the balancers of these duties are lb1, lb2"), (["app"], "none of these duties has hosts")],
    ids=["another name", "no balancer"],
)
def test_a_machine_of_no_entry_is_a_mistake_and_not_done(run, duties, known, state):
    """As with lb1.example.com in place of lb1: C(done) would let the next task stop a host that still serves."""
    result = run(duty, duties, "lb1.example.com", state=state, event_ids=["A"])
    assert result["failed"] and not run.asked
    assert result["msg"] == f"delegate_to: nothing of these duties is done on lb1.example.com; {known}."


def test_a_look_is_also_one_at_task_files(run):
    run(duty_info, [TASKS, AZURE, "app"])
    assert where(run) == [("machine", "duty_info", ["tasks"]), ("controller", "duty_info", ["azure_load_balancer"]), ("machine", "duty_info", ["app"])]
