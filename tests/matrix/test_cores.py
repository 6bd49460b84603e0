# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Playbooks, lookup and wait with every ansible-core that the collection is said to run with.

Before 2.19 a template yields text where it does not yield a list, a dictionary, True or False.
"""

from __future__ import annotations

import json
import subprocess
import time

import pytest

from tests.matrix import environments
from tests.support.far_host import FarHost
from tests.support.module import run_module
from tests.support.needs import FAR_HOST as NEEDS
from tests.support.patience import patient
from tests.support.playbook import Playbook
from tests.support.simulator import SHORT, Simulator
from tests.support.site import Site

# A machine that has much else to do takes minutes for a run of seconds, and the environment is made first.
pytestmark = pytest.mark.timeout(environments.MAKE_SECONDS + 300)

LOOKUP = "graceful.azure.scheduled_events_wait"

every_core = pytest.mark.parametrize("core", [pytest.param(minor, marks=pytest.mark.long) for minor in environments.CORES])
# The oldest is the one that differs most: it stands for all where time is short. A machine with new Pythons alone has
# no old one; the whole matrix says so.
every_core_and_a_sample = pytest.mark.parametrize(
    "core", [pytest.param("oldest"), *(pytest.param(minor, marks=pytest.mark.long) for minor in environments.CORES)]
)


@pytest.fixture(name="programs")
def make_programs(core):
    core = environments.oldest_core() if core == "oldest" else core
    programs = environments.core(core)
    said = subprocess.run([programs / "ansible-playbook", "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout
    assert said.startswith(f"ansible-playbook [core {core}."), said
    return programs


@pytest.fixture(name="site")
def make_site(tmp_path, programs):
    site = Site(tmp_path, python=programs / "python", programs=programs)
    yield site
    site.close()


@every_core_and_a_sample
def test_a_reboot_from_notice_to_the_end(site):
    site.see_a_reboot_through()


@every_core
def test_a_step_that_fails_for_ever_needs_a_person(site):
    tasks = site.folder / "before.yml"
    # A text that looks like data is none.
    reason = "{'queue': 1}"
    tasks.write_text(json.dumps([{"name": "Stop the queue", "ansible.builtin.fail": {"msg": reason}}]))
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], NoticeSeconds=None)
    process = site.start("handle_events", handle_events_timeout=60, graceful_azure_duties=site.duties({"type": "tasks", "out": str(tasks)}))
    began = time.monotonic()
    run = site.finish(process)
    said = run.event(event_id)["hosts"]["web1"]
    assert (said["state"], said["reason"]) == ("needs_person", f"{reason}; each pass tries again"), run.output
    assert run.status != 0
    assert f"last step failed: {reason}" in run.output
    assert time.monotonic() - began < 100
    assert site.simulator.event(event_id)["Approvals"] == []
    assert site.admin_states() == {"web1": "drain", "web2": "ready"}


@every_core
def test_settings_that_are_templates(tmp_path, programs):
    """Whether a template yields a number or its text, it means the same: seconds, ports, and names of digits alone."""
    variables = {
        "hour": 3600,
        "few": 0,
        "off": False,
        "graceful_azure_rules": [{"name": "late", "when": "event_type == 'Redeploy'", "lead_time": "{{ hour * 2 }}"}],
        "graceful_azure_min_in_service": "{{ few * 1 }}",
        "graceful_azure_resource_name": "{{ inventory_hostname | int }}",
        "graceful_azure_ports": ["{{ 8 + 1 }}"],
        "graceful_azure_drain_timeout": "{{ hour / 30 }}",
        "graceful_azure_restore_timeout": "{{ hour / 30 }}",
        "graceful_azure_health_validate_certs": "{{ off }}",
    }
    (tmp_path / "before.yml").write_text(json.dumps([{"name": "Stop the queue", "ansible.builtin.set_fact": {"graceful_azure_done": "{{ not off }}"}}]))
    site = Site(tmp_path, names=("1", "2"), python=programs / "python", programs=programs)
    try:
        duties = site.duties({"type": "tasks", "out": f"{tmp_path}/before.yml"}, server="{{ inventory_hostname | int }}", backends="{{ ['www'] }}")
        site.write_inventory({**variables, "graceful_azure_duties": duties})
        first = site.simulator.post_event(EventType="Redeploy", Resources=["1"], NoticeSeconds=3600, **SHORT)
        second = site.simulator.post_event(EventType="Freeze", Resources=["2"], **SHORT)
        one = site.run(handle_events_wait="{{ off }}")
        assert one.status == 0, one.output
        shown = site.run("holds")
        assert {event_id in shown.output for event_id in (first, second)} == {True}, shown.output
        assert "HAProxy server www/1" in shown.output, shown.output
        run = site.run(handle_events_timeout="{{ hour / 30 }}", handle_events_sleep="{{ 1 * 1 }}", handle_events_wait="{{ not off }}")
        assert run.status == 0, run.output
        assert {run.event(event_id)["outcome"] for event_id in (first, second)} == {"completed"}
        assert site.admin_states() == {"1": "ready", "2": "ready"}
        assert site.records() == []
    finally:
        site.close()


@every_core
def test_check_mode(site):
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"])
    run = site.run("handle_events", "--check")
    assert run.status == 0, run.output
    assert f"Reboot {event_id} (web1): Scheduled, not before" in run.output
    assert "next it goes out of its balancer" in run.output
    assert site.simulator.event(event_id)["Approvals"] == []
    assert site.admin_states()["web1"] == "ready"
    assert not (site.folder / "state").exists()


@every_core
def test_holds_are_shown_and_released(site):
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"])
    one = site.run(handle_events_wait=False)
    assert one.status == 0, one.output
    assert one.event(event_id)["outcome"] == "in_progress"
    shown = site.run("holds")
    assert shown.status == 0, shown.output
    assert event_id in shown.output
    assert site.admin_states()["web1"] == "drain"
    released = site.run("holds", holds_release=True)
    assert released.status == 0, released.output
    assert site.admin_states()["web1"] == "ready"
    assert site.records() == []


@every_core
def test_what_belongs_to_no_host_is_shown_as_it_is_and_given_back(site):
    held = {"server": "web2", "event_ids": ["[1]", "{{ 7 ** 19 }}"], "reason": "{{ 7 ** 19 }}", "state_dir": str(site.folder / "state" / "lb1")}
    run_module("haproxy_hold", dict(held, socket=site.haproxy.socket))
    site.write_inventory(web2={"graceful_azure_duties": site.duties(server="another", absent="")})
    refused = site.run("holds", holds_release=True, holds_event_ids="{{ my_own }}", holds_servers="web2")
    assert refused.status == 2 and "'my_own' is undefined" in refused.output and "Look at the hosts" not in refused.output, refused.output
    refused = site.run("holds", holds_release=True, holds_servers=["web2", "web1"])
    assert refused.status == 2 and "holds_servers names 'web1': no record" in refused.output, refused.output
    assert "No host of the inventory: HAProxy server www/web2 on lb1 (" in refused.output, refused.output
    assert "{{ 7 ** 19 }} since" in refused.output and str(7**19) not in refused.output, refused.output
    assert site.admin_states()["web2"] == "drain"
    first = site.run("holds", holds_release=True, holds_servers="web2", holds_event_ids=["[1]"])
    assert first.status == 0 and site.admin_states()["web2"] == "drain", first.output
    released = site.run("holds", holds_release=True, holds_servers=["web2"])
    assert released.status == 0 and site.admin_states()["web2"] == "ready" and site.records() == [], released.output


@every_core
def test_watch_waits_for_an_event(site):
    process = site.start("watch_events")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=8)
    event_id = site.simulator.post_event(EventType="Freeze", Resources=["web2"], **SHORT)
    run = site.finish(process)
    assert run.status == 0, run.output
    assert run.event(event_id)["outcome"] == "completed"
    assert site.admin_states() == {"web1": "ready", "web2": "ready"}


@every_core
def test_the_lookup(tmp_path, programs):
    with Simulator(["vm-1"]) as simulator:
        event_id = simulator.post_event(EventType="Reboot", Resources=["vm-1"], NoticeSeconds=None)
        hosts = {
            "here": {"ansible_connection": "local", "graceful_azure_imds_url": "{{ url }}"},
            "far": {"ansible_connection": "ssh", "ansible_host": "198.51.100.1"},
        }
        playbook = Playbook(tmp_path, hosts, ansible_python_interpreter=str(programs / "python"), url=simulator.urls["vm-1"])
        explicit = f"query('{LOOKUP}', timeout=2, imds_url=url)"
        expressions = {
            "variable": ("here", f"query('{LOOKUP}', timeout='2.5', sleep=0.1)", {}),
            "explicit": ("far", explicit, {}),
            "loop": ("far", "[item]", {"loop": "{{ " + explicit + " }}"}),
            "itself": ("here", "[item]", {f"with_{LOOKUP}": [event_id.upper()]}),
            "absent": ("far", f"query('{LOOKUP}', 'x', state='absent', imds_url=url)", {}),
            "refused": ("far", f"query('{LOOKUP}', timeout=2)", {}),
            "late": ("far", f"query('{LOOKUP}', 'x', timeout=0.5, sleep=0.1, imds_url=url)", {}),
        }
        tasks = [
            dict({"name": name, "ansible.builtin.debug": {"msg": "{{ " + expression + " }}"}, "when": f"inventory_hostname == '{host}'"}, **keywords)
            for name, (host, expression, keywords) in expressions.items()
        ]
        done = playbook.run(tasks, command=str(programs / "ansible-playbook"))
    assert "Traceback" not in done.output
    said = {name: done[host][name] for name, (host, _expression, _keywords) in expressions.items()}
    for name in ("variable", "explicit"):
        assert [event["event_id"] for event in said[name]["msg"]] == [event_id], done.output
    for name in ("loop", "itself"):
        assert said[name]["results"][0]["msg"][0]["event_id"] == event_id, done.output
    assert said["absent"]["msg"] == []
    assert said["refused"]["failed"] and "the machine that runs Ansible" in said["refused"]["msg"]
    assert said["late"]["failed"] and "Timed out after" in said["late"]["msg"]


@pytest.fixture(name="far", scope="module")
def make_far(tmp_path_factory):
    host = FarHost(tmp_path_factory.mktemp("far"))
    yield host
    host.close()


@NEEDS[0]
@NEEDS[1]
@every_core
def test_a_wait_across_a_reboot(tmp_path, far, programs):
    event_id = far.simulator.post_event(Resources=["vm-1"], NoticeSeconds=None, **SHORT)
    seen = len(far.simulator.requests())
    playbook = Playbook(tmp_path, {"far": far.variables}, ansible_python_interpreter=str(programs / "python"))
    tasks = [
        {"name": "before", "ansible.builtin.ping": {}},
        {"name": "waited", "graceful.azure.scheduled_events_wait": {"event_ids": [event_id], "state": "absent", "timeout": "{{ 60 }}"}},
    ]
    environment = {"ANSIBLE_SSH_CONTROL_PATH_DIR": str(tmp_path / "cp"), "ANSIBLE_TIMEOUT": "5"}
    process = playbook.start(tasks, environment=environment, command=str(programs / "ansible-playbook"))
    try:
        deadline = time.monotonic() + patient(60)
        while len(far.simulator.requests()) < seen + 3:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        far.shut_down()
        far.go_through(event_id)
        time.sleep(5)
        far.boot()
        done = playbook.finish(process, 90)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
        far.close_connections(tmp_path / "cp")
    assert "Traceback" not in done.output
    assert done["waited"]["outcome"] == "absent", done.output
    assert "the host cannot be reached" in done.output
