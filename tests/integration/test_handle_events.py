# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbooks, against a real HAProxy and the simulator."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import time

import pytest

from tests.support.haproxy import Haproxy
from tests.support.inventory import UNREACHABLE, changed
from tests.support.module import run_module
from tests.support.patience import patient, until
from tests.support.roles import pretend_systemctl, write_noting_tasks
from tests.support.simulator import SHORT, Simulator
from tests.support.site import FrontClients, Site, until_said

# A run of seconds takes minutes where the machine has much else to do.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(name="four")
def make_four(tmp_path):
    site = Site(tmp_path, names=("web1", "web2", "web3", "web4"))
    yield site
    site.close()


def test_nothing_to_do(site):
    run = site.run()
    assert run.status == 0, run.output
    assert run.events == []
    assert site.records() == []


def test_a_reboot_from_notice_to_the_end(site):
    run = site.see_a_reboot_through()
    # The closing table is made of lines.
    assert re.search(r"^Reboot \S+ \(web1\): completed\n    web1: restored, back as it was found$", run.output, re.MULTILINE), run.output
    passes = run.output.partition("PLAY [Tell ")[0].split("TASK [Act on hosts and balancers and look at them]")[1:]
    assert len(passes) > 3
    for output in passes:
        # What ends the passes and what goes around them is no host's.
        tasks = re.findall(r"^TASK \[((?!More passes|End if).*)\]", output, re.MULTILINE)
        assert tasks == ["Plan"], tasks
    assert sum("changed: [web1" in output for output in passes) >= 3
    assert "changed: [web1 -> lb1] => (item=take web1 out on lb1)" in run.output and "(item=put web1 back on lb1)" in run.output
    # What of the inside Ansible shows: one file.
    assert "no hosts matched" not in run.output and run.output.count("included: ") == 1, run.output
    assert "Set how machines" not in run.output
    # Two screens, without what this test has Ansible show besides, and without the line about its simulator. A slow machine takes more passes, and a look
    # that takes too long is a line, as is the next one.
    lines = [line for line in run.output.partition("CUSTOM STATS")[0].splitlines() if "not at Azure's address" not in line]
    slow = sum("did not finish its answer" in line for line in lines)
    assert len(lines) <= 100 + 13 * max(0, len(passes) - 6) + 2 * slow, run.output


def test_names_in_azure_that_are_each_others(site):
    """The event of one VM would take the other one out, which then would approve it."""
    site.write_inventory(web1={"graceful_azure_resource_name": "web2"}, web2={"graceful_azure_resource_name": "web1"})
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], **SHORT)
    run = site.run(handle_events_timeout=patient(20))
    assert run.status != 0 and site.simulator.event(event_id)["Approvals"] == []
    for name, other in (("web1", "web2"), ("web2", "web1")):
        assert f"{name}: graceful_azure_resource_name is {other}, and its metadata service calls this VM {name}: set that, or leave it out" in run.output
    assert site.admin_states() == {"web1": "ready", "web2": "ready"} and site.records() == []
    assert "calls this VM web1" in site.run("handle_events", "--check").output


# The place is in test_haproxy_places.py, the plan in test_plan_places.py.
@pytest.mark.long
def test_a_host_that_persisted_clients_still_reach_is_not_approved(site):
    """HAProxy sends clients with the cookie to a server in maintenance, which its state does not show."""
    servers = "".join(f"  server {name} 127.0.0.1:{listener.port} cookie {name}\n" for name, listener in site.listeners.items())
    front = f"{site.folder}/proxy/front.sock"
    site.haproxy.configure(
        f"frontend in\n  bind unix@{front}\n  default_backend www\nbackend www\n  option persist\n  cookie S insert indirect nocache\n{servers}"
    )
    site.haproxy.reload()
    with FrontClients(front, "Cookie: S=web1\r\n"):
        event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], **SHORT)
        run = site.run(handle_events_timeout=patient(12))
    assert site.admin_states() == {"web1": "maint", "web2": "ready"}
    assert site.simulator.event(event_id)["Approvals"] == []
    said = run.event(event_id)["hosts"]["web1"]
    assert said["state"] == "draining", said
    assert re.search(r"\d+ sessions? came to www/web1 on lb1 since .* although it is in maint: look for .*option persist", said["reason"]), said
    run = site.run()
    assert run.status == 0, run.output
    assert len(site.simulator.event(event_id)["Approvals"]) == 1 and site.admin_states() == {"web1": "ready", "web2": "ready"}


def test_without_graceful_azure_ports_those_to_which_haproxy_leads_are_counted(site):
    site.write_inventory(**{name: {"graceful_azure_ports": None} for name in site.names})
    port, other = (site.listeners[name].port for name in site.names)
    run = site.run("handle_events", "--check")
    assert f"web1: clients are counted on port {port}, because lb1 sends requests there (graceful_azure_ports would choose others)" in run.output, run.output
    assert f"web2: clients are counted on port {other}, " in run.output

    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], **SHORT)
    # HAProxy knows nothing of this client.
    with socket.create_connection(("127.0.0.1", port)):
        process = site.start("handle_events")
        until_said(process, f"1 connection from 127.0.0.1 on port {port}")
        assert site.admin_states()["web1"] == "drain"
        time.sleep(1.5)
        assert site.simulator.event(event_id)["Approvals"] == []
    run = site.finish(process)
    assert run.status == 0 and run.event(event_id)["outcome"] == "completed", run.output
    assert len(site.simulator.event(event_id)["Approvals"]) == 1


# test_brief.py has the callback, and the playbooks with it.
@pytest.mark.long
def test_a_reboot_in_few_lines(site, monkeypatch):
    """What decides and what changes, and nothing of what did nothing."""
    monkeypatch.setenv("ANSIBLE_STDOUT_CALLBACK", "graceful.azure.brief")
    run = site.see_a_reboot_through()
    assert "included:" not in run.output and "skipping: [" not in run.output and "ok: [" not in run.output, run.output
    assert re.search(r"web1  draining  Reboot", run.output) and "changed: [web1 -> lb1]" in run.output
    assert len(run.output.splitlines()) < 60, run.output


# The plan is in test_plan_runs.py.
@pytest.mark.long
def test_runs_of_one_pass_see_as_long_a_time_without_a_session_as_is_asked_for(site):
    """Longer than one look at the balancer lasts."""
    site.write_inventory({"graceful_azure_duties": site.duties(quiet=6)})
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"])
    for _run in range(2):
        assert site.simulator.event(event_id)["Approvals"] == []
        run = site.run(handle_events_wait=False)
        assert run.status == 0 and site.admin_states()["web1"] == "drain", run.output
    assert len(site.simulator.event(event_id)["Approvals"]) == 1, run.output


@pytest.mark.parametrize("arguments", [[], ["--check"]])
def test_a_target_that_cannot_be_reached(site, arguments):
    """Nobody watches it, which is no success; and a message, not a name in a list, says why."""
    # With pipelining, Ansible writes to an ssh that may have ended, and then knows of a broken pipe alone.
    gone = {**UNREACHABLE, "ansible_pipelining": False}
    site.write_inventory(web2=gone)
    run = site.run("handle_events", *arguments, handle_events_wait=False)
    assert run.status == 2 and run.events == [] and list(run.about["unread"]) == ["web2"], run.output
    assert "web2: it cannot be reached, and no event is known that names it" in run.output and "Connection refused" in run.about["unread"]["web2"]
    site.write_inventory(web2={**gone, "graceful_azure_may_be_off": True})
    run = site.run("handle_events", *arguments, handle_events_wait=False)
    assert run.status == 0 and "web2 could not be read" in run.output and "Connection refused" in run.about["unread"]["web2"], run.output


def test_a_machine_that_does_not_say_how_it_is_reached_is_not_reached_as_the_one_before_it(site):
    gone = {**UNREACHABLE, "ansible_pipelining": False, "graceful_azure_may_be_off": True}
    site.write_inventory(web1={"ansible_connection": "local"}, web2=gone)
    with changed(site.inventory) as inventory:
        del inventory["all"]["vars"]["ansible_connection"]
    run = site.run("handle_events", "-c", "local", handle_events_wait=False)
    assert run.status == 0 and list(run.about["unread"]) == ["web2"], run.output
    assert re.search(r"TASK \[Set how machines are reached .*\n.*\(item=lb1\)", run.output), run.output


@pytest.mark.long
def test_a_run_of_one_pass_tries_a_step_that_fails_for_half_a_minute(site):
    tasks = site.folder / "full.yml"
    tasks.write_text("- ansible.builtin.fail:\n    msg: no room for the backup\n")
    duties = site.duties({"type": "tasks", "out": str(tasks)})
    site.simulator.post_event(EventType="Reboot", Resources=["web1"])
    run = site.run(handle_events_wait=False, graceful_azure_duties=duties)
    assert run.status == 0 and site.admin_states()["web1"] == "drain", run.output
    began = time.monotonic()
    run = site.run(handle_events_wait=False, graceful_azure_duties=duties)
    assert run.status == 2 and "web1: no room for the backup" in run.output and time.monotonic() - began >= 30, run.output


@pytest.mark.long
def test_another_server_goes_out_between_the_look_and_the_step(site):
    """As by another controller: the module that takes web1 out finds web2 gone."""
    interpreter = site.folder / "python-lb1"
    other = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect('{site.haproxy.socket}'); s.sendall(b'set server www/web2 state maint\\n'); s.recv(9)"
    payload = site.folder / "payload"
    interpreter.write_text(f'#!/bin/sh\ncat > {payload}\ngrep -q haproxy_hold {payload} && {site.python} -c "{other}"\nexec {site.python} {payload}\n')
    interpreter.chmod(0o755)
    site.write_inventory(lb1={"ansible_python_interpreter": str(interpreter), "graceful_azure_helper": False})
    site.simulator.post_event(EventType="Reboot", Resources=["web1"])
    assert site.run(handle_events_wait=False).status == 0
    assert site.admin_states() == {"web1": "ready", "web2": "maint"} and site.records() == []


def test_a_target_by_the_names_that_azure_gives(site):
    """As a watcher or a job's launch has them: of hosts that the inventory knows by others, in any case of letters."""
    names = {"web1": "vmss-1.x", "web2": "other"}
    with Simulator(list(names.values())) as simulator:
        known = {name: {"azure_name": called, "graceful_azure_imds_url": simulator.urls[called]} for name, called in names.items()}
        site.write_inventory({"graceful_azure_resource_name": "{{ azure_name }}"}, **known)
        simulator.post_event(EventType="Reboot", Resources=["vmss-1.x"])
        run = site.run("handle_events", "--check", target="VMSS-1.X:vmss", handle_events_unknown_targets="ignore")
    assert run.status == 0, run.output
    assert "web1  " in run.output and "web2  " not in run.output and "Invalid characters" not in run.output
    run = site.run("handle_events", "--check", target="vmss")
    assert run.status != 0 and "target vmss matches no host, by its name in the inventory or by graceful_azure_resource_name" in run.output


def test_a_part_of_the_target_that_nobody_knows(site):
    run = site.run("handle_events", "--check", target="web1,webb")
    assert run.status != 0 and "target web1,webb: webb matches no host" in run.output and "Act on" not in run.output, run.output


def test_all_means_no_balancers_of_others(site):
    """With the README's own inventory; a target that is not given means the same."""
    run = site.run("handle_events", "--check", "--limit", "web1,lb1", target="all")
    assert run.status == 0 and re.search(r"^web1 +: ok=", run.output, re.MULTILINE) and not re.search(r"^(lb1|web2) ", run.output, re.MULTILINE), run.output


def test_hosts_whose_names_are_like_patterns(site):
    names = ("web1,1001", "2001:db8::11")
    inventory = {"all": {"hosts": dict.fromkeys(names, {"graceful_azure_duties": []})}}
    inventory["all"]["vars"] = {"ansible_connection": "local", "graceful_azure_imds_url": "http://127.0.0.1:9", "ansible_python_interpreter": site.python}
    site.inventory.write_text(json.dumps(inventory))
    run = site.run("handle_events", "--check", target="web1,1001:2001:db8::11")
    assert run.about and set(run.about["unread"]) == set(names), run.output


@pytest.mark.long
def test_two_hosts_in_one_event_and_one_that_is_cancelled(four):
    both = four.simulator.post_event(EventType="Freeze", Resources=["web1", "web2"], **SHORT)
    cancelled = four.simulator.post_event(EventType="Redeploy", Resources=["web3"])
    rules = [{"name": "wait", "when": "event_type == 'Redeploy'", "action": "prepare"}]
    process = four.start("handle_events", graceful_azure_rules=rules)
    four.await_state("web3", "drain")
    four.simulator.cancel(cancelled)
    run = four.finish(process)
    assert run.status == 0, run.output
    assert run.event(both)["outcome"] == "completed"
    assert run.event(cancelled)["outcome"] == "cancelled"
    assert set(run.event(both)["hosts"]) == {"web1", "web2"}
    assert len(four.simulator.event(both)["Approvals"]) == 1
    assert set(four.admin_states().values()) == {"ready"}


def test_the_preset_approves_with_the_host_in_rotation(site):
    event_id = site.simulator.post_event(EventType="Freeze", Resources=["web1"], DurationInSeconds=2)
    run = site.run(handle_events_wait=False, graceful_azure_rules="azure_sample")
    assert run.status == 0, run.output
    assert site.simulator.approvers(event_id) == ["web1"]
    assert site.admin_states() == {"web1": "ready", "web2": "ready"}


def test_an_event_without_notice(site):
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], EventStatus="Started", ImpactSeconds=None, SettleSeconds=0)
    process = site.start("handle_events")
    site.await_state("web1", "drain")
    site.simulator.complete(event_id)
    run = site.finish(process)
    assert run.status == 0, run.output
    assert site.simulator.event(event_id)["Approvals"] == []
    assert run.event(event_id)["outcome"] == "not_approved"
    assert site.admin_states()["web1"] == "ready"


def test_an_empty_body_in_mid_impact_brings_nobody_back(tmp_path):
    """Where no other target shows the event."""
    with contextlib.closing(Site(tmp_path, names=("web1",))) as site:
        event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], EventStatus="Started", ImpactSeconds=None, SettleSeconds=0)
        process = site.start("handle_events", graceful_azure_min_in_service=0)
        site.await_state("web1", "drain")
        site.simulator.fault({"Status": 200, "Body": ""}, vm="web1", times=4)
        answered = len(site.simulator.requests("web1"))
        while len(site.simulator.requests("web1")) <= answered + 6:
            assert site.admin_states()["web1"] != "ready"
            time.sleep(0.05)
        assert process.poll() is None
        site.simulator.complete(event_id)
        run = site.finish(process)
        assert run.status == 0 and "empty body" in run.output, run.output
        assert run.event(event_id)["hosts"]["web1"]["state"] == "restored" and site.admin_states()["web1"] == "ready"


def test_a_stranger_in_the_event(site):
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1", "elsewhere"], ImpactSeconds=None)
    process = site.start("handle_events")
    site.await_state("web1", "drain")
    site.simulator.start(event_id)
    # On a busy machine a pass may take longer than an impact. One that has not seen it start may call it cancelled.
    answered = len(site.simulator.requests("web1"))
    until(lambda: len(site.simulator.requests("web1")) > answered + 1, 60, "web1 asked again")
    site.simulator.complete(event_id)
    run = site.finish(process)
    assert run.status == 0, run.output
    assert site.simulator.event(event_id)["Approvals"] == []
    assert run.event(event_id)["outcome"] == "not_approved"
    assert set(run.event(event_id)["hosts"]) == {"web1"}
    assert site.admin_states()["web1"] == "ready"


# test_approval_hold.py ends such a request, test_plan*.py goes on with the others.
@pytest.mark.long
def test_an_approval_that_is_never_answered_holds_up_nobody(site):
    """It is one step of its pass, of 5 s if nothing else is said. The service's errors alone would let it try for 47 s and more: once."""
    site.simulator.fault({"Delay": 60}, vm="web1", method="POST")
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"])
    rules = [{"name": "as it is", "action": "approve"}]
    process = site.start("handle_events", handle_events_timeout=patient(40), graceful_azure_rules=rules, graceful_azure_min_in_service=0)
    until(lambda: list(site.records()), 60, "the record of the approval")
    run = site.finish(process)
    failed = re.findall(r"^\d\d:\d\d:\d\d \S+  web1  waiting .*\(last step failed: POST .* no whole answer within", run.output, re.MULTILINE)
    # The seconds in it are no news, so it may stand in one line alone.
    assert failed and len([request for request in site.simulator.requests() if request["Method"] == "POST"]) >= 2, run.output
    assert run.event(event_id)["outcome"] == "in_progress" and site.simulator.event(event_id)["Approvals"] == []
    # The service may have got it.
    (record,) = (json.loads(path.read_text()) for path in site.records())
    assert record["subject"] == {"name": "approved"} and [entry["details"]["posted"] for entry in record["events"].values()] == [False]


# The chaos tests kill at the others, too.
@pytest.mark.parametrize("moment", ["out", *(pytest.param(moment, marks=pytest.mark.long) for moment in ("Started", "Completed"))])
def test_killed_and_run_again(site, moment):
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], ImpactSeconds=2, SettleSeconds=2)
    process = site.start("handle_events")
    if moment == "out":
        site.await_state("web1", "drain")
    else:
        site.simulator.wait_for(event_id, moment, 90)
    site.kill(process)
    run = site.run()
    assert run.status == 0, run.output
    assert run.event(event_id)["outcome"] == "completed"
    assert site.admin_states() == {"web1": "ready", "web2": "ready"}
    assert site.records() == []


def test_watch_waits_for_an_event(site):
    process = site.start("watch_events")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=6)
    event_id = site.simulator.post_event(EventType="Freeze", Resources=["web2"], **SHORT)
    run = site.finish(process)
    assert run.status == 0, run.output
    assert run.event(event_id)["outcome"] == "completed"


def test_holds_warns_of_an_impact_that_may_come(site):
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], ImpactSeconds=None, SettleSeconds=1)
    process = site.start("handle_events")
    site.simulator.wait_for(event_id, "Started", 60)
    site.kill(process)
    shown = site.run("holds")
    assert f"Reboot {event_id} has started: the impact may come at any time, so leave the host out." in shown.output, shown.output
    assert "To go on with the event, and give it back when that is over, run: " in shown.output, shown.output
    site.simulator.complete(event_id)
    assert site.run().status == 0


def test_holds_shows_and_releases(site):
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"])
    run = site.run(handle_events_wait=False)
    assert run.status == 0 and run.event(event_id)["outcome"] == "in_progress", run.output
    assert site.admin_states() == {"web1": "drain", "web2": "ready"}
    shown = site.run("holds")
    assert shown.status == 0 and "Nothing is held for web2." in shown.output and "Nothing is held for web1." not in shown.output, shown.output
    assert event_id in shown.output
    # A balancer is no host of which anything is held, and its metadata service is not asked.
    site.write_inventory(lb1={"graceful_azure_imds_url": "http://127.0.0.1:9"})
    released = site.run("holds", target="all", holds_release=True)
    assert "Nothing is held for lb1" not in released.output and "lb1 could not be read" not in released.output, released.output
    assert released.status == 0, released.output
    assert "web1: released and put back as it was found: HAProxy server www/web1 on lb1." in released.output, released.output
    assert f"web1: Reboot {event_id} still names it" in released.output
    assert site.admin_states()["web1"] == "ready"
    assert site.records() == []
    wrong = site.run("holds", target="web1,webb")
    assert wrong.status != 0 and "target web1,webb: webb matches no host" in wrong.output, wrong.output


# test_roles_drain_host.py has tasks that fail.
@pytest.mark.long
def test_a_task_of_the_users_that_cannot_reach_its_machine_is_not_done(site):
    tasks = site.folder / "before.yml"
    reach = {"name": "Tell the cluster", "ansible.builtin.ping": {}, "vars": UNREACHABLE}
    tasks.write_text(json.dumps([reach, {"name": "It is told", "ansible.builtin.set_fact": {"graceful_azure_done": True}}]))
    site.write_inventory(web1={"graceful_azure_duties": site.duties({"type": "tasks", "out": str(tasks)})})
    first, second = (site.simulator.post_event(EventType="Reboot", Resources=[name], **SHORT) for name in ("web1", "web2"))
    run = site.run(graceful_azure_min_in_service=0, handle_events_timeout=patient(60))
    assert run.status != 0 and "web1: it has left the run" in run.output, run.output
    assert run.event(first)["hosts"]["web1"]["state"] == "needs_person" and site.simulator.event(first)["Approvals"] == []
    # It looked at the balancer for all; somebody else does.
    assert run.event(second)["outcome"] == "completed" and site.admin_states() == {"web1": "drain", "web2": "ready"}


# The steps are in test_roles_drain_host.py and test_roles_restore_service.py.
@pytest.mark.long
def test_services_and_task_files(site, tmp_path):
    """Out in order, back the other way round, before the balancers and after them. Two of the balancers are the user's own."""
    units = tmp_path / "units"
    units.mkdir()
    programs = pretend_systemctl(tmp_path, units)
    for name in ("app", "db"):
        (units / f"{name}.service").write_text("active\n")
    interpreter = tmp_path / "python-web1"
    interpreter.write_text(f'#!/bin/sh\nPATH={programs}:$PATH exec {site.python} "$@"\n')
    interpreter.chmod(0o755)

    def noted(word):
        path = tmp_path / f"{word}.yml"
        write_noting_tasks(path, word, units / "log")
        return str(path)

    def files(name, **more):
        return {"type": "tasks", "name": name, "out": noted(f"{name} out"), "back": noted(f"{name} back"), **more}

    duties = [files("first"), files("cdn", traffic=True), *site.duties(files("dns", traffic=True), "app", files("queue"), "db", files("last"))]
    site.write_inventory(web1={"ansible_python_interpreter": str(interpreter), "graceful_azure_duties": duties})
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], **SHORT)
    run = site.run()
    assert run.status == 0 and run.event(event_id)["hosts"]["web1"]["state"] == "restored", run.output
    log = (units / "log").read_text().splitlines()
    assert log == [
        "first out",
        "cdn out",
        "dns out",
        "stop app.service",
        "queue out",
        "stop db.service",
        "last out",
        "last back",
        "start db.service",
        "queue back",
        "start app.service",
        "dns back",
        "cdn back",
        "first back",
    ], run.output
    assert site.records() == [] and site.admin_states()["web1"] == "ready"


# The plan is in test_plan_places.py.
@pytest.mark.long
def test_a_name_that_leads_elsewhere_while_it_is_held(site):
    """As C(server-template) does when DNS answers anew: web1's address is in another slot, and web1 leads to nowhere that is ours."""
    ours = site.listeners["web1"].port
    configuration = site.haproxy.folder / "haproxy.cfg"
    configuration.write_text(configuration.read_text() + "  server spare 127.0.0.1:1\n")
    site.haproxy.reload()
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], **SHORT)
    # A connection keeps it from being drained meanwhile.
    with socket.create_connection(("127.0.0.1", ours)):
        process = site.start("handle_events")
        site.await_state("web1", "drain")
        site.haproxy.ask("set server www/web1 addr 127.0.0.1 port 2")
        site.haproxy.ask(f"set server www/spare addr 127.0.0.1 port {ours}")
        until(lambda: site.haproxy.flags("www", "spare")[0] == 8, 30, "spare out")
        assert site.simulator.event(event_id)["Approvals"] == []
    run = site.finish(process)
    assert run.status == 0, run.output
    assert run.event(event_id)["outcome"] == "completed"
    assert f"www/spare on lb1 leads to 127.0.0.1:{ours} too and is out" in run.output
    assert f"www/web1 on lb1 led to 127.0.0.1:{ours} when it was taken out and leads to 127.0.0.1:2 now" in run.output
    assert site.admin_states() == {"web1": "ready", "web2": "ready"} and site.haproxy.flags("www", "spare")[0] == 0
    assert site.records() == []


# The records are in test_haproxy_hold.py.
@pytest.mark.long
def test_holds_of_another_haproxy_and_through_another_socket(site, tmp_path):
    """Every record on the machine is shown, and what belongs to the process is released whatever its socket is called."""
    other = tmp_path / "other"
    other.mkdir()
    second = Haproxy(other, "backend www\n  server web1 127.0.0.1:1\n")
    held = {"server": "web1", "event_ids": ["E1"], "reason": "{{ 7 * 7 }}", "state_dir": str(site.folder / "state" / "lb1")}
    try:
        for haproxy in (site.haproxy, second):
            run_module("haproxy_hold", dict(held, socket=haproxy.socket))
        assert len(site.records()) == 2
        os.link(site.haproxy.socket, str(tmp_path / "proxy" / "again.sock"))
        with changed(site.inventory) as inventory:
            inventory["all"]["children"]["web"]["vars"]["graceful_azure_duties"] = site.duties(socket=str(tmp_path / "proxy" / "again.sock"))
        run = site.run("holds", holds_release=True)
        assert run.status == 0, run.output
        assert site.admin_states()["web1"] == "ready" and second.flags("www", "web1")[0] == 8
        assert site.haproxy.socket in run.output and second.socket in run.output and "{{ 7 * 7 }}" in run.output
        assert run.output.count("belongs to none of the HAProxy sockets that were looked at") == 1
        assert len(site.records()) == 1
        second.stop()
        site.haproxy.stop()
        run = site.run("holds")
        assert second.socket in run.output and "belongs to none of the HAProxy sockets" in run.output
    finally:
        second.stop()


class TestBadInput:
    def failing(self, site, **variables):
        event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"])
        run = site.run(**variables)
        assert run.status != 0
        assert "Traceback" not in run.output
        assert site.admin_states() == {"web1": "ready", "web2": "ready"}
        assert site.simulator.event(event_id)["Approvals"] == []
        return run.output

    def test_every_wrong_setting_is_told_before_anything_is_done(self, site):
        """All of them in one run."""
        duties = [
            {"type": "f5"},
            {"type": "haproxy", "hosts": []},
            {"type": "haproxy", "hosts": ["nowhere"], "sokket": "/s"},
            {"type": "iis", "sites": "Shop"},
            {"type": "tasks", "out": "tasks/none.yml"},
        ]
        rules = [{"name": "r", "wen": "x", "action": "hope"}, {"when": "a ="}, {"name": "s", "when": "event_typ == 'Reboot'"}]
        output = self.failing(
            site,
            handle_events_timeout="soon",
            handle_events_sleep=-1,
            handle_events_journal="/nowhere/journal",
            graceful_azure_drain_timeout=-5,
            graceful_azure_min_in_service="many",
            graceful_azure_unknown_resources="maybe",
            graceful_azure_health_url="http://{{ team_name }}/",
            graceful_azure_duties=duties,
            graceful_azure_rules=rules,
            load_balancer_min_in_service=2,
        )
        for words in (
            "handle_events_timeout: 'soon'",
            "handle_events_sleep: -1",
            "handle_events_journal: '/nowhere/journal'",
            "graceful_azure_drain_timeout: -5",
            "graceful_azure_min_in_service: 'many'",
            "graceful_azure_unknown_resources: 'maybe'",
            "graceful_azure_duties[0].type: 'f5'",
            "graceful_azure_duties[1].hosts: empty",
            "graceful_azure_duties[2].hosts: 'nowhere'",
            "web1, web2: graceful_azure_duties[2]: there is no option sokket; did you mean socket?",
            *("graceful_azure_duties[3].sites: 'Shop'", "it must be a list"),
            *("graceful_azure_duties[4].out: there is no task file", "tasks/none.yml"),
            *("wen", "hope", "name is required", "a =", "event_typ"),
            *("graceful_azure_health_url", "team_name"),
            *("load_balancer_min_in_service", "given as an extra variable"),
        ):
            assert words in output, words
        assert site.records() == []

    def test_a_target_that_nobody_knows(self, site):
        assert "nothing_at_all" in self.failing(site, target="nothing_at_all")
        assert site.records() == []

    def test_a_task_file_of_which_a_module_is_not_there(self, site):
        """It would end the run for all hosts, in the pass that includes it."""
        tasks = site.folder / "after.yml"
        tasks.write_text("- ansible.builtin.command: 'true'\n- no_such_collection.at.all: {}\n")
        output = self.failing(site, graceful_azure_duties=site.duties({"type": "tasks", "back": str(tasks)}))
        assert f"graceful_azure_duties[1].back: {tasks}: couldn't resolve module/action 'no_such_collection.at.all'" in output
        assert site.records() == []

    def test_two_hosts_with_one_folder(self, site, tmp_path):
        """Such as one machine by two names."""
        folder = {"graceful_azure_state_dir": str(tmp_path / "one")}
        (tmp_path / "one").mkdir(mode=0o700)
        (tmp_path / "two").symlink_to(tmp_path / "one")
        site.write_inventory(web1=folder, web2={"graceful_azure_state_dir": str(tmp_path / "two")})
        output = self.failing(site, handle_events_timeout=patient(6))
        assert f"web1 and web2 have the same folder for their records ({tmp_path / 'one'})" in output
        assert site.records() == [] and os.listdir(tmp_path / "one") == []

    def test_a_folder_that_a_reboot_empties(self, site):
        """Told by check mode, too."""
        folder = f"/dev/shm/graceful-azure-{os.getpid()}"
        site.write_inventory(web1={"graceful_azure_state_dir": folder})
        event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"])
        run = site.run("handle_events", "--check")
        said = f"The state folder {folder} lies in memory (tmpfs on /dev/shm), so a reboot empties it."
        assert said in run.output and run.status != 0
        run = site.run(handle_events_timeout=patient(6))
        assert said in run.output and run.status != 0
        assert site.admin_states() == {"web1": "ready", "web2": "ready"} and not os.path.exists(folder)
        assert site.simulator.event(event_id)["Approvals"] == []

    # The plan is in test_plan_faults.py.
    @pytest.mark.long
    def test_no_such_socket(self, site):
        output = self.failing(site, graceful_azure_duties=site.duties(socket="/nowhere/admin.sock"), handle_events_timeout=patient(6))
        assert "/nowhere/admin.sock" in output

    # The look is in test_haproxy_info.py, the plan in test_plan_faults.py.
    @pytest.mark.long
    def test_a_socket_at_user_level(self, site):
        output = self.failing(site, graceful_azure_duties=site.duties(socket=site.haproxy.user_socket), handle_events_timeout=patient(6))
        assert "level" in output

    # The plan is in test_plan_faults.py.
    @pytest.mark.long
    def test_an_unknown_server(self, site):
        site.write_inventory(web1={"graceful_azure_duties": site.duties(server="www-one")})
        output = self.failing(site, handle_events_timeout=patient(6))
        assert "www-one" in output

    def test_a_record_cut_in_half(self, site):
        folder = site.folder / "state" / "web1"
        folder.mkdir(parents=True, mode=0o700)
        (folder / "task-x.json").write_text(json.dumps({"version": 1})[:8])
        output = self.failing(site, handle_events_timeout=patient(6))
        assert str(folder / "task-x.json") in output

    # The plan is in test_plan_faults.py.
    @pytest.mark.long
    def test_no_metadata_service(self, site):
        nothing = {"graceful_azure_imds_url": "http://127.0.0.1:9"}
        site.write_inventory(web1=nothing, web2=nothing)
        output = self.failing(site, handle_events_timeout=patient(6))
        assert "127.0.0.1:9" in output


# The plan is in test_plan_faults.py.
@pytest.mark.long
def test_a_mistake_on_one_machine_leaves_the_others_alone(site):
    folder = site.folder / "state" / "web1"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "task-x.json").write_text("{")
    event_id = site.simulator.post_event(EventType="Freeze", Resources=["web2"], **SHORT)
    run = site.run()
    assert run.status != 0
    assert run.event(event_id)["outcome"] == "completed"
    assert site.simulator.event(event_id)["Approvals"]
    assert site.admin_states() == {"web1": "ready", "web2": "ready"}


@pytest.mark.long
def test_a_damaged_record_is_put_aside(site):
    site.simulator.post_event(EventType="Reboot", Resources=["web1"])
    site.run(handle_events_wait=False)
    (record,) = site.records()
    whole = record.read_text()
    record.write_text(whole[:50])
    predicted = site.run("holds", "--check", holds_repair=True)
    assert predicted.status == 0 and str(record) in predicted.output, predicted.output
    assert site.records() == [record]
    repaired = site.run("holds", holds_repair=True)
    assert repaired.status == 0 and repaired.output.count("put it back by hand") == 1, repaired.output
    (aside,) = record.parent.iterdir()
    assert aside.name.startswith(record.name + ".damaged-") and aside.read_text() == whole[:50]
    assert site.admin_states()["web1"] == "drain"
    # A record that only a newer release can read is whole.
    newer = whole.replace('"version": 1', '"version": 99')
    record.write_text(newer)
    assert newer != whole and "newer release" in site.run("holds", holds_repair=True).output
    assert record.read_text() == newer


@pytest.mark.long
def test_the_hold_for_a_vm_that_is_gone_for_good(site):
    site.simulator.post_event(EventType="Terminate", Resources=["web1"])
    site.run(handle_events_wait=False)
    assert site.admin_states() == {"web1": "drain", "web2": "ready"}
    site.write_inventory(web1=UNREACHABLE)
    shown = site.run("holds")
    assert "HAProxy server www/web1" in shown.output and "cannot be reached" not in shown.output
    refused = site.run("holds", holds_release=True)
    assert refused.status != 0 and "holds_gone" in refused.output
    wrong = site.run("holds", holds_release=True, holds_gone=True, holds_event_ids="typo")
    assert wrong.status != 0 and "holds_event_ids names typo, for which nothing is held" in wrong.output, wrong.output
    assert site.admin_states()["web1"] == "drain"
    released = site.run("holds", holds_release=True, holds_gone=True)
    assert released.status == 0, released.output
    assert site.admin_states() == {"web1": "ready", "web2": "ready"}
    assert site.records() == []


def test_the_hold_for_a_vm_that_has_left_the_inventory(four):
    """As a dynamic inventory leaves out a VM that was deleted."""
    for name in ("web1", "web4"):
        held = {"server": name, "event_ids": ["E1"], "reason": "{{ 7 * 7 }}", "state_dir": str(four.folder / "state" / "lb1")}
        run_module("haproxy_hold", dict(held, socket=four.haproxy.socket))
    with changed(four.inventory) as inventory:
        del inventory["all"]["children"]["web"]["hosts"]["web4"]
    refused = four.run("holds", holds_release=True, holds_servers=["web4", "web9", "web1"])
    assert refused.status != 0 and "{{ 7 * 7 }}" in refused.output
    assert refused.output.count("No host of the inventory: ") == 1, refused.output
    assert "HAProxy server www/web4" in refused.output
    assert "'web9': no record on the balancers of the targets names it" in refused.output
    assert "'web1': it belongs to a host of the inventory" in refused.output
    assert {name for name, state in four.admin_states().items() if state == "drain"} == {"web1", "web4"}
    released = four.run("holds", holds_release=True, holds_servers="web4")
    assert released.status == 0, released.output
    assert {name for name, state in four.admin_states().items() if state == "drain"} == {"web1"}
    (record,) = four.records()
    assert "web1" in record.name


@pytest.mark.long
def test_one_of_two_balancers_cannot_be_reached(site):
    site.write_inventory(balancers=("lb1", "lb2"), lb2=UNREACHABLE, web2={"graceful_azure_duties": site.duties()})
    first = site.simulator.post_event(EventType="Reboot", Resources=["web1"])
    second = site.simulator.post_event(EventType="Freeze", Resources=["web2"], **SHORT)
    run = site.run(handle_events_timeout=patient(45), graceful_azure_min_in_service=0)
    assert run.status != 0
    assert run.event(first)["hosts"]["web1"]["state"] == "needs_person"
    assert "lb2" in run.event(first)["hosts"]["web1"]["reason"]
    assert run.event(second)["outcome"] == "completed"
    assert site.simulator.event(first)["Approvals"] == []
    assert site.admin_states() == {"web1": "drain", "web2": "ready"}


# test_health_probe.py has a probe and a HAProxy in a row, test_roles_load_balancer.py has two of HAProxy, each with its own names and socket.
@pytest.mark.long
def test_a_host_behind_two_balancers_in_a_row(site, tmp_path):
    """Out of both before it is approved, and back in both; the one of the two by its own name there, and through its own socket."""
    folder = tmp_path / "edge"
    folder.mkdir()
    servers = "".join(f"  server shop_{name} 127.0.0.1:{listener.port}\n" for name, listener in site.listeners.items())
    edge = Haproxy(folder, f"frontend in\n  bind unix@{folder}/front.sock\n  default_backend shop\nbackend shop\n{servers}")
    try:
        outer = {"type": "haproxy", "name": "edge", "hosts": ["edge"], "socket": edge.socket, "server": "shop_{{ inventory_hostname }}"}
        site.write_inventory({"graceful_azure_duties": [outer, *site.duties()]}, balancers=("lb1", "edge"))
        event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], ImpactSeconds=None, SettleSeconds=0)
        process = site.start("handle_events", handle_events_timeout=patient(200))
        site.simulator.wait_for(event_id, "Started", 40)
        assert site.admin_states() == {"web1": "drain", "web2": "ready"}
        assert (edge.flags("shop", "shop_web1")[0], edge.flags("shop", "shop_web2")[0]) == (8, 0)
        held = site.run("holds")
        assert held.status == 0 and "HAProxy server shop/shop_web1" in held.output and "HAProxy server www/web1" in held.output, held.output
        assert "No host of the inventory" not in held.output, held.output
        site.simulator.complete(event_id)
        run = site.finish(process)
        assert run.status == 0 and run.event(event_id)["hosts"]["web1"]["state"] == "restored", run.output
        assert site.admin_states() == {"web1": "ready", "web2": "ready"} and edge.flags("shop", "shop_web1")[0] == 0
        assert site.records() == []
    finally:
        edge.stop()
