# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Modules and roles as users call them, on a modelled Windows host, by the real ansible-playbook."""

from __future__ import annotations

import pytest

from tests.support.patience import patient, until
from tests.support.playbook import Playbook
from tests.support.simulator import SHORT, Simulator
from tests.support.windows.inventory import fetch_collections, surroundings, variables
from tests.support.windows.model import ModelledHost


@pytest.fixture
def simulator():
    with Simulator(["win1"]) as running:
        yield running


@pytest.fixture
def host(tmp_path):
    fetch_collections()
    return ModelledHost.make(
        tmp_path / "win1",
        services={"W3SVC": {"status": "Running", "dependents": ["Cart"]}, "Cart": {"status": "Running"}},
        sites={"Shop": {"state": "Started"}, "Health": {"state": "Started"}},
        pools={"ShopPool": {"state": "Started"}},
    )


@pytest.fixture
def playbook(tmp_path, simulator, host):
    # The role drain_host has a folder on the controller as its playbook's, and paths of the host in its records.
    return Playbook(tmp_path, {"win1": variables(host, simulator.urls["win1"])})


def test_a_wait_survives_the_reboot(playbook, simulator, host):
    event_id = simulator.post_event(EventType="Reboot", Resources=["win1"], NoticeSeconds=None, ImpactSeconds=None)
    wait = {"imds_url": simulator.urls["win1"], "event_ids": [event_id], "state": "absent", "timeout": patient(60)}
    process = playbook.start([{"name": "over", "graceful.azure.scheduled_events_wait": wait}], environment=surroundings())
    until(lambda: len(host.calls()) >= 2, 30, "it waits")
    simulator.start(event_id)
    host.reboot(2.0)
    seen = len(host.calls())
    # A call that was under way when the host went down sees the event, too.
    until(lambda: len(host.calls()) > seen, 30, "the next call")
    simulator.complete(event_id)
    done = playbook.finish(process)
    assert done["over"]["outcome"] == "absent" and done["over"]["elapsed"] > 2.0, done.output
    assert host.mistakes() == []


@pytest.mark.long
@pytest.mark.timeout(300)
def test_roles_alone(playbook, simulator, host):
    event_id = simulator.post_event(EventType="Reboot", Resources=["win1"], **SHORT)
    given = {
        "graceful_azure_duties": [
            {"type": "health_probe", "action": "iis_site", "iis_site": "Health", "interval": 1, "threshold": 1, "margin": 0},
            {"type": "iis", "name": "shop", "sites": ["Shop"], "pools": ["ShopPool"]},
            "W3SVC",
        ],
        "graceful_azure_ports": [8080],
        "graceful_azure_health_url": f"{simulator.control}/events",
    }

    def role(name, **more):
        return {"name": name, "ansible.builtin.include_role": {"name": f"graceful.azure.{name}"}, "vars": {**given, **more}}

    def states():
        state = host.state()
        return [*(one["state"] for one in state["sites"].values()), state["pools"]["ShopPool"]["state"], *(one["status"] for one in state["services"].values())]

    out = role("load_balancer", load_balancer_state="out")
    before = host.state()
    done = playbook.run([out], arguments=["--check"], environment=surroundings())
    assert "fatal:" not in done.output and host.state() == before, done.output
    done = playbook.run([out, role("drain_host"), role("approve_event")], environment=surroundings())
    assert "fatal:" not in done.output, done.output
    assert states() == ["Stopped", "Stopped", "Stopped", "Stopped", "Stopped"] and len(simulator.event(event_id)["Approvals"]) == 1
    simulator.wait_for(event_id, "Completed", 20)
    back = [role("restore_service"), role("load_balancer", load_balancer_state="in")]
    done = playbook.run(back, environment=surroundings())
    assert "fatal:" not in done.output, done.output
    assert states() == ["Started", "Started", "Started", "Running", "Running"] and host.records() == {}
    assert host.mistakes() == []
