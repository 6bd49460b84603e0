# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Former variables of a host: each is a mistake that shows what takes its place."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.graceful.azure.plugins.plugin_utils._by_hand import read_places
from ansible_collections.graceful.azure.plugins.plugin_utils._former_variables import mistakes_in, names
from ansible_collections.graceful.azure.plugins.plugin_utils._settings import misspelt, read_role, read_settings

HAPROXY = {"load_balancer_provider": "haproxy", "load_balancer_hosts": ["lb1"]}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (HAPROXY, "load_balancer_provider, load_balancer_hosts: no longer read; write graceful_azure_duties: [{type: haproxy, hosts: [lb1]}]"),
        ({"load_balancer_provider": "none"}, "load_balancer_provider: no longer read; write graceful_azure_duties: []"),
        ({"drain_host_services": ["app"]}, "drain_host_services: no longer read; write graceful_azure_duties: [{type: service, name: app}]"),
        (
            {"load_balancer_server": "{{ ansible_host }}:80", "load_balancer_provider": "nginx"},
            "load_balancer_provider, load_balancer_server: no longer read; write graceful_azure_duties: [{type: nginx, server: '{{ ansible_host }}:80'}]",
        ),
        ({"drain_host_ports": [80, 443]}, "drain_host_ports: no longer read; write graceful_azure_ports: [80, 443]"),
        ({"restore_service_url": "http://localhost/"}, "restore_service_url: no longer read; write graceful_azure_health_url: 'http://localhost/'"),
        (
            {"approve_event_azure_client_id": "c", "approve_event_azure_profile": "p"},
            "approve_event_azure_client_id, approve_event_azure_profile: no longer read; write graceful_azure_approve_access: {client_id: c, profile: p}",
        ),
    ],
)
def test_each_shows_what_takes_its_place(given, said):
    assert mistakes_in(given) == [said]
    assert read_settings({"web1": given}, {"web1"})[1][0] == f"web1: {said}"


def test_the_whole_list_in_its_order():
    given = {
        "load_balancer_list": [{"provider": "haproxy", "hosts": ["edge"], "haproxy_state": "maint"}, {"provider": "haproxy", "hosts": ["inner"]}],
        "drain_host_before": "before.yml",
        "drain_host_steps": [
            {"name": "ha", "type": "pacemaker"},
            {"name": "q", "type": "tasks", "out": "o.yml", "in": "i.yml"},
            "app",
            {"name": "s", "type": "slurm"},
        ],
        "drain_host_services": ["db"],
        "drain_host_after": "after.yml",
        "restore_service_before": "first.yml",
        "restore_service_after": "last.yml",
    }
    (mistake,) = mistakes_in(given)
    duties = yaml.safe_load(mistake.partition("graceful_azure_duties: ")[2])
    assert duties == [
        {"type": "tasks", "name": "restore_service_after", "back": "last.yml"},
        {"type": "tasks", "name": "drain_host_before", "out": "before.yml"},
        {"type": "pacemaker", "name": "ha"},
        {"type": "tasks", "name": "q", "out": "o.yml", "back": "i.yml"},
        {"type": "haproxy", "hosts": ["edge"], "state": "maint"},
        {"type": "haproxy", "name": "haproxy_2", "hosts": ["inner"]},
        {"type": "service", "name": "app"},
        {"type": "slurm", "name": "s"},
        {"type": "service", "name": "db"},
        {"type": "tasks", "name": "drain_host_after", "out": "after.yml"},
        {"type": "tasks", "name": "restore_service_before", "back": "first.yml"},
    ]


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("value", ["x", 7, ["x"], {"a": "b"}, [{"provider": ["x"]}], [7]])
def test_whatever_it_is_set_to(name, value):
    (mistake,) = mistakes_in({name: value})
    assert mistake.startswith(f"{name}: no longer read; write graceful_azure_")
    assert mistakes_in({name: None}) == mistakes_in({name: ""}) == [] == misspelt({"web1": {name: value}})


def test_a_slip_of_the_pen():
    assert misspelt({"web1": {"drain_host_port": [80]}}) == ["web1: nothing reads the variable drain_host_port; is drain_host_ports meant?"]


def test_what_replaces_it_is_right():
    (mistake,) = read_settings({"web1": HAPROXY}, {"web1", "lb1"})[1]
    replaced = yaml.safe_load(mistake.partition("write ")[2])
    assert read_settings({"web1": replaced}, {"web1", "lb1"})[1] == []


def test_beside_what_takes_its_place_it_is_a_mistake_all_the_same():
    (mistake,) = read_settings({"web1": {"graceful_azure_duties": [], "drain_host_timeout": 60}}, {"web1"})[1]
    assert mistake == "web1: drain_host_timeout: no longer read; write graceful_azure_drain_timeout: 60"


@pytest.mark.parametrize("role", ["load_balancer", "drain_host", "restore_service", "approve_event"])
def test_a_role_that_is_used_alone_says_so_too(role):
    given = {**HAPROXY, "load_balancer_state": "out"}
    assert read_role(role, "web1", given, {"web1", "lb1"})[1] == mistakes_in(HAPROXY)


def test_by_hand_nothing_is_released():
    assert read_places("web1", HAPROXY) == ([], [f"web1: {mistake}" for mistake in mistakes_in(HAPROXY)])
