# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._settings import misspelt, read_settings

OURS = {"load_balancer_provider": "none"}


@pytest.mark.parametrize(("given", "name"), [("web_0", "web_0"), (7, "7"), (0, "0"), ("", None), (None, None)])
def test_the_name_in_azure_is_a_text(given, name):
    settings, mistakes = read_settings({"web1": dict(OURS, graceful_azure_resource_name=given)}, {"web1"})
    assert mistakes == []
    assert settings["web1"]["resource_name"] == name


def test_texts_and_numbers_mean_the_same():
    """Before core 2.19 a template yields the text of a number."""
    values = {
        "graceful_azure_min_in_service": 2,
        "drain_host_ports": [80, 443],
        "drain_host_timeout": 60,
        "restore_service_port": 80,
        "restore_service_timeout": 1.5,
        "graceful_azure_rules": [{"name": "late", "lead_time": 600}],
    }
    texts = {name: str(value) if not isinstance(value, list) else value for name, value in values.items()}
    texts.update(drain_host_ports=["80", "443"], graceful_azure_rules=[{"name": "late", "lead_time": "600"}])
    numbers = read_settings({"web1": dict(OURS, **values)}, {"web1"})
    assert numbers[1] == []
    assert read_settings({"web1": dict(OURS, **texts)}, {"web1"}) == numbers


def test_what_is_wrong_for_several_hosts_is_said_once():
    hosts = {"web1": dict(OURS, drain_host_timeout="soon"), "web2": dict(OURS, drain_host_timeout="soon"), "web3": OURS}
    assert read_settings(hosts, set(hosts))[1] == ["web1, web2: drain_host_timeout: 'soon' is no number of seconds from 0 up"]


def test_a_balancer_among_the_targets():
    hosts = {"lb1": {}, "web1": dict(OURS, load_balancer_provider="haproxy", load_balancer_hosts=["lb1"], load_balancer_server="web1")}
    (mistake,) = read_settings(hosts, set(hosts))[1]
    assert mistake.startswith("lb1: a balancer of the others") and "target" in mistake


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("drain_host_port", "drain_host_ports"),
        ("graceful_azure_min_in_servce", "graceful_azure_min_in_service"),
        ("handle_event_timeout", "handle_events_timeout"),
        ("graceful_azur_rules", "graceful_azure_rules"),
        ("restore_service_ulr", "restore_service_url"),
    ],
)
def test_a_slip_of_the_pen(name, meant):
    assert misspelt({"web1": {name: 1}, "web2": {name: 1}}) == [f"web1, web2: nothing reads the variable {name}; is {meant} meant?"]


OURS_OR_THEIRS = ("drain_host_ports", "load_balancer_name", "load_balancer_result", "graceful_azure_state_dir", "approve_event_reason", "drain_hosts")


@pytest.mark.parametrize("name", OURS_OR_THEIRS)
def test_names_that_are_right_or_a_users_own(name):
    assert misspelt({"web1": {name: 1}}) == []
