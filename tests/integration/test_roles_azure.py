# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The roles load_balancer, drain_host and restore_service alone, with the stand-in for Azure Resource Manager."""

from __future__ import annotations

import pytest

from tests.support.azure import MEMBERS, NEEDED, POOL, stand_in
from tests.support.inventory import changed
from tests.support.roles import duties, out

pytestmark = NEEDED


@pytest.fixture(name="azure")
def make_azure(tmp_path, monkeypatch):
    with stand_in(tmp_path) as azure:
        azure.log_in(monkeypatch)
        yield azure


def test_out_drained_and_back(bed, azure):
    entry = {"type": "azure_load_balancer", "pool": POOL, "address": "a", **azure.access()}
    known = duties(entry)

    def is_out():
        assert azure.state("a") == "Down"

    back = "restore_service", {"restore_service_event_ids": ["E1"], **known}
    drain = "drain_host", {**known, "graceful_azure_ports": [bed.webs["web1"].port]}
    unported = "drain_host", {**known, "graceful_azure_ports": []}
    nowhere = out("E1", **duties(dict(entry, address="z")))
    run = bed.run(out("E1", **known), is_out, out("E1", **known), drain, back, unported, nowhere)
    first, second, drained, last, refused, missing = run.steps
    assert (first.result["done"], first.result["changed"], first.result["reason"]) == (True, True, "a in pool web is held (Down)"), run.output
    assert (second.result["done"], second.result["changed"]) == (True, False)
    assert drained.result["done"], run.output
    assert last.result["done"], run.output
    assert "graceful_azure_ports: not set; azure_load_balancer needs" in refused.failure
    assert "has no address named z. Its addresses are: a, b, c, d" in missing.failure
    assert azure.members() == MEMBERS
    assert azure.balancer()["tags"] == {"owner": "me"}

    writes = azure.writes()
    predicted = bed.run(out("E1", **known), check=True, arguments=["--diff"])
    assert predicted.step.result["done"] and predicted.step.result["changed"]
    assert azure.writes() == writes


@pytest.mark.parametrize(
    "host, known_as",
    [
        ("web1", "10.0.0.4"),
        # test_how_a_host_is_known_if_nothing_else_is_set holds the same.
        pytest.param("a", "a", marks=pytest.mark.long),
    ],
)
def test_a_host_is_known_by_its_ansible_host_or_its_name(bed, azure, host, known_as):
    with changed(bed.inventory) as inventory:
        hosts = inventory["all"]["hosts"]
        hosts[host] = {key: value for key, value in hosts["web1"].items() if key != "graceful_azure_duties"}
        hosts[host]["ansible_host"] = "10.0.0.4" if host == "web1" else "a.example"
    known = duties({"type": "azure_load_balancer", "pool": POOL, **azure.access()})

    def is_out():
        assert azure.state("a") == "Down"

    drain = "drain_host", {**known, "graceful_azure_ports": [bed.webs["web1"].port]}
    run = bed.run(out("E1", **known), is_out, drain, ("restore_service", {"restore_service_event_ids": ["E1"], **known}), host=host)
    first, drained, last = run.steps
    assert first.result["done"] and drained.result["done"] and last.result["done"], run.output
    assert first.result["reason"] == f"{known_as} in pool web is held (Down)"
    assert azure.members() == MEMBERS
