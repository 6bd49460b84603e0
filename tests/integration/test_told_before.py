# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Wrong settings are told before anything is taken out."""

from __future__ import annotations

import os
import socket

import pytest

from tests.support.patience import patient

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(name="closed")
def find_closed_port():
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        yield nobody.getsockname()[1]


def test_check_mode_names_every_setting_that_is_wrong(site):
    wrong = {
        "graceful_azure_health_validate_certs": "maybe",
        "graceful_azure_health_url": "http://::1:80/",
        "graceful_azure_health_address": "[::1]",
        "handle_events_wait": "maybe",
        "graceful_azure_state_dir": "state",
        "graceful_azure_imds_url": "127.0.0.1:8080",
    }
    former = {"drain_host_services": ["{{ app }}"], "drain_host_timeout": 60}
    site.write_inventory({"graceful_azure_health_unanswered": "perhaps"}, web2=former, lb1={"load_balancer_haproxy_socket": "/run/admin.sock"})
    run = site.run("handle_events", "--check", **wrong)
    assert run.status == 2, run.output
    for name in (*wrong, "graceful_azure_health_unanswered"):
        assert name in run.output, name
    # What the former variables of the host and of its balancer are now.
    assert "web2: drain_host_services: no longer read; write graceful_azure_duties: [{type: service, name: '{{ app }}'}]" in run.output
    assert "web2: drain_host_timeout: no longer read; write graceful_azure_drain_timeout: 60" in run.output
    assert "balancer lb1: load_balancer_haproxy_socket: no longer read" in run.output
    # An extra variable is the balancer's as well.
    assert "balancer lb1: graceful_azure_state_dir: 'state' is not an absolute path" in run.output
    assert "Observe the hosts" not in run.output and "Traceback" not in run.output


def test_a_host_that_would_not_come_back(site, closed):
    """As a new user meets it: in check mode at once, and before anything is done once an event comes."""
    site.write_inventory(web1={"graceful_azure_health_url": f"http://127.0.0.1:{closed}/"})
    run = site.run("handle_events", "--check")
    said = f"web1: it is in service, and does not answer what it is asked (http://127.0.0.1:{closed}/: Connection refused)"
    assert run.status == 2 and said in run.output, run.output

    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1", "web2"])
    run = site.run(handle_events_wait=False)
    assert run.status == 2 and said in run.output, run.output
    assert {name: host["state"] for name, host in run.event(event_id)["hosts"].items()}["web1"] == "needs_person"
    assert site.admin_states() == {"web1": "ready", "web2": "ready"} and site.records() == []

    run = site.run(handle_events_wait=False, graceful_azure_health_unanswered="warn")
    assert run.status == 0 and said in run.output, run.output
    assert site.admin_states()["web1"] == "drain"


def test_a_port_on_which_nobody_listens(site, closed):
    """A number that is wrong. It is told in check mode and without an event, and the host never counts as idle."""
    site.write_inventory(web1={"graceful_azure_ports": [closed]})
    said = f"port {closed} cannot be counted: nobody listens on it"
    run = site.run("handle_events", "--check")
    assert run.status == 0 and f"web1: {said}" in " ".join(run.output.split()), run.output

    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"])
    # The second run knows no more than the records.
    for how in ({"handle_events_timeout": patient(5)}, {"handle_events_wait": False}):
        run = site.run(**how)
        host = run.event(event_id)["hosts"]["web1"]
        assert host["state"] == "draining" and said in host["reason"], run.output
    assert site.admin_states()["web1"] == "drain"
    (event,) = site.simulator.events()
    assert event["Approvals"] == []


def test_a_service_that_nobody_knows(site, monkeypatch, tmp_path):
    """Otherwise it is found out when the host is drained. The first look does not know the ports, and a second one follows."""
    systemctl = tmp_path / "bin" / "systemctl"
    systemctl.parent.mkdir()
    systemctl.write_text("#!/bin/sh\necho ActiveState=inactive\necho LoadState=not-found\n")
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{systemctl.parent}:{os.environ['PATH']}")
    run = site.run("handle_events", "--check", graceful_azure_duties=site.duties("shopp"), graceful_azure_ports=None)
    assert run.status == 2 and "web1: shopp cannot be looked at: systemd knows no unit 'shopp.service'" in run.output, run.output


# The settings are in test_settings.py.
@pytest.mark.long
def test_holds_takes_nothing_for_false(site):
    run = site.run("holds", holds_release="maybe")
    assert run.status == 2 and "holds_release" in run.output and "maybe" in run.output, run.output
    run = site.run("holds", holds_relase=True)
    assert run.status == 2 and "holds has no option holds_relase" in run.output, run.output
    run = site.run("holds", holds_release=True, holds_event_ids="")
    assert run.status == 2 and "holds_event_ids is empty" in run.output, run.output
    run = site.run("holds", holds_release=True, holds_event_ids="typo")
    assert run.status == 2 and "holds_event_ids names typo, for which nothing is held" in run.output, run.output
    # What cannot be read may be held for it.
    run = site.run("holds", holds_release=True, holds_event_ids="typo", graceful_azure_duties=site.duties(socket=str(site.folder / "none.sock")))
    assert run.status == 2 and "names typo" not in run.output and "There is no HAProxy socket" in run.output, run.output
    run = site.run("holds", graceful_azure_state_dir="state")
    assert "The state folder state is not an absolute path" in run.output


def test_text_from_an_event_forges_no_line(site):
    forged = "Reboot\u2028web2\u202e\x9b31m\x7f\n12:00:00  web2  restored"
    event_id = site.simulator.post_event(EventType=forged, Resources=["web1"])
    run = site.run(handle_events_wait=False, graceful_azure_rules=[{"name": "all", "action": "prepare"}])
    assert run.status == 0 and run.event(event_id)["event_type"] == forged, run.output
    shown = "Reboot\\u2028web2\\u202e\\x9b31m\\x7f\\n12:00:00  web2  restored"
    assert shown in run.output
    # The line of set_stats is for machines; it is JSON.
    lines = [line for line in run.output.split("\n") if "RUN: " not in line]
    assert [line for line in lines if not line.replace("\t", "").isprintable()] == []
    held = site.run("holds")
    assert "Reboot web2<U+202E><U+009B>31m<U+007F> 12:00:00  web2  restored" in held.output and "\\\\" not in held.output, held.output
    assert [line for line in held.output.split("\n") if not line.isprintable()] == []


@pytest.mark.parametrize("playbook", ["handle_events", "watch_events", "holds"])
def test_a_target_in_which_something_is_undefined_is_not_everybody(site, playbook):
    run = site.run(playbook, target="{{ canary_hosts }}", holds_release=True)
    assert run.status != 0 and "'canary_hosts' is undefined" in run.output, run.output
    assert "Observe the hosts" not in run.output and "Look at the hosts" not in run.output


@pytest.mark.parametrize("name", ["holds_event_ids", "holds_servers", "holds_release"])
def test_holds_does_not_take_what_is_undefined_for_not_set(site, name):
    run = site.run("holds", **dict({"holds_release": True}, **{name: "{{ my_own }}"}))
    assert run.status == 2 and "'my_own' is undefined" in run.output, run.output
    assert "Look at the hosts" not in run.output


def test_holds_tells_where_it_cannot_look_before_anything_is_looked_at(site):
    nowhere, undefined = ({"graceful_azure_duties": site.duties(**options)} for options in ({"hosts": ["lb1", "nowhere"]}, {"server": "{{ my_own }}"}))
    site.write_inventory(web1=nowhere, web2=undefined, lb1={"holds_release": True})
    run = site.run("holds")
    told = "web1: graceful_azure_duties[0].hosts: 'nowhere' is not in the inventory. Nothing is released for web1."
    assert run.status == 2 and told in run.output, run.output
    assert "web2: graceful_azure_duties: " in run.output and " cannot be resolved:" in run.output and "'my_own' is undefined" in run.output
    assert "Look at the hosts" not in run.output
    site.write_inventory(lb1={"graceful_azure_state_dir": "{{ my_own }}"}, web2={"holds_servers": ["web4"]})
    run = site.run("holds", target="web1")
    assert run.status == 2 and "lb1: graceful_azure_state_dir: '{{ my_own }}' cannot be resolved" in run.output, run.output
    run = site.run("holds")
    assert run.status == 2 and "holds_servers differs between the targets; give it once for all of them. Nothing is released." in run.output, run.output
    assert "Find where the records are" not in run.output


@pytest.mark.parametrize("given", ["ingore", True])
def test_unknown_targets_are_refused_or_ignored_and_nothing_else(site, given):
    run = site.run("handle_events", "--check", handle_events_unknown_targets=given)
    assert run.status != 0 and f"handle_events_unknown_targets: {given!r} is neither fail nor ignore" in run.output, run.output
    assert "Observe the hosts" not in run.output


# The settings are in test_settings.py.
@pytest.mark.long
def test_an_empty_text_where_nothing_need_be_set(site):
    names = ("graceful_azure_health_port", "graceful_azure_health_address")
    site.write_inventory(web1={**dict.fromkeys(names, ""), "graceful_azure_duties": site.duties(server="", absent="", backends="")})
    site.see_a_reboot_through()


# The settings are in test_settings.py.
@pytest.mark.long
def test_a_balancer_with_a_blank_in_its_name(site):
    """And a host whose server's name is an empty text, which stands for its own."""
    site.write_inventory(balancers=["lb 1"], web1={"graceful_azure_duties": site.duties(hosts=["lb 1"], server="")})
    site.simulator.post_event(EventType="Reboot", Resources=["web1"])
    run = site.run(handle_events_wait=False)
    assert run.status == 0 and site.admin_states()["web1"] == "drain", run.output
    run = site.run("holds")
    assert run.status == 0 and "HAProxy server www/web1" in run.output and "No host of the inventory" not in run.output, run.output
    assert run.output.count("Nothing is held for") == 1, run.output
    run = site.run("holds", holds_release=True)
    assert run.status == 0 and site.admin_states()["web1"] == "ready" and site.records() == [], run.output
