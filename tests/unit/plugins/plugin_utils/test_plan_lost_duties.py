# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Duties that the settings lose while a host is held. Nobody looks there any more, so whoever gives the host back says what is left."""

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import TRAFFIC, settings_of

from tests.support.model import Model, service

TOLD = "{}: it was taken out there, and graceful_azure_duties has that no more: see whether it is back, or put it back by hand"
LB2 = "haproxy on lb2 /run/haproxy/admin.sock, server web1"


def removed(model):
    model.settings["web1"]["load_balancers"] = [dict(model.balancer_of("web1"), provider="none", hosts=[])]


def other_machine(model):
    model.balancer_of("web1")["hosts"] = ["lb1"]


def other_server(model):
    model.balancer_of("web1")["server"] = "web3"


def nothing(model):
    pass


def model_until(**more):
    """A host that was approved, whose run was killed."""
    model = Model(balancers=("lb1", "lb2"), hosts=3, **more)
    model.announce("e1", "web1")
    model.until(lambda _outcome: model.posted, passes=20)
    model.killed()
    return model


@pytest.mark.parametrize("steps", [[], [service()]])
@pytest.mark.parametrize(
    ("change", "lost"),
    [
        (nothing, []),
        (other_machine, [LB2]),
        (removed, [LB2.replace("lb2", "lb1"), LB2]),
        (other_server, [LB2.replace("lb2", "lb1"), LB2]),
    ],
)
def test_what_nobody_gives_back_is_told_by_name(change, lost, steps):
    model = model_until(drain_host={"steps": steps})
    change(model)
    model.over("e1")
    outcome = model.finish()
    host = outcome["events"][0]["hosts"]["web1"]
    assert outcome["failed_run"] is bool(lost) and (host["state"] == "needs_person") is bool(lost)
    assert all(TOLD.format(spot) in host["reason"] for spot in lost) and host["reason"].count("was taken out there") == len(lost)
    assert model.hosts["web1"]["tasks"] == {}, "it is told once, and the records go"
    model.killed()
    assert not model.finish()["failed_run"]


def test_also_after_a_run_that_knew_it_no_more_has_written_the_records_anew():
    model = Model(balancers=("lb1", "lb2"), drain_host={"steps": [service()]})
    model.announce("e1", "web1")
    model.until(lambda _outcome: "drained" in model.hosts["web1"]["tasks"], passes=20)
    model.killed()
    other_machine(model)
    model.until(lambda _outcome: model.posted, passes=20)
    (entry,) = model.hosts["web1"]["tasks"]["approved"].values()
    assert entry["details"]["out_of"] == [LB2.replace("lb2", "lb1"), LB2]


def test_a_run_that_takes_one_step_tells_it_with_that_step():
    model = model_until(wait=False)
    model.run["look_twice"] = True
    other_machine(model)
    model.over("e1")
    outcome = model.finish(passes=12)
    assert outcome["failed_run"] and outcome["hosts"]["web1"]["step"]["role"] == "restore_service"
    assert TOLD.format(LB2) in outcome["messages"][0]


def test_a_duty_that_is_removed_while_the_event_stands_is_told_at_its_end():
    model = model_until()
    other_machine(model)
    for _pass in range(3):
        assert not model.go()["failed_run"]


def test_where_each_type_takes_a_host_out():
    given = {
        "haproxy": {"hosts": ["lb1"], "socket": "/run/a.sock"},
        "nginx": {"hosts": ["lb1"], "server": "10.0.0.1:80"},
        "azure_load_balancer": {"pool": "/subscriptions/S/backendAddressPools/P", "address": "web1"},
        "health_probe": {"action": "file", "file": "/run/out"},
    }
    spots = {name: list(TRAFFIC[name].spots(settings_of(name, options, "web1"))) for name, options in given.items()}
    assert spots == {
        "haproxy": [("lb1", "haproxy on lb1 /run/a.sock, server web1")],
        "nginx": [("lb1", "nginx on lb1, server 10.0.0.1:80")],
        "azure_load_balancer": [("localhost", "web1 in pool /subscriptions/s/backendaddresspools/p")],
        "health_probe": [("web1", "its health answer")],
    }
