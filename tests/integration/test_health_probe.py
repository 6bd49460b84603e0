# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The provider health_probe: real applications behind a HAProxy in TCP mode that probes them, as Azure Load Balancer does.

HAProxy gets no command from us. Its checks alone decide, and the load tells what clients see.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from pathlib import Path

import pytest
from graceful_azure_watcher.hold import FastHold

from tests.support import load
from tests.support.haproxy import Haproxy
from tests.support.inventory import LOCAL, changed, state_dir, web_host
from tests.support.meanwhile import Meanwhile
from tests.support.own_steps import write_switch
from tests.support.patience import patient, until
from tests.support.processes import Processes, await_requests, forget_records
from tests.support.simulator import SHORT
from tests.support.site import BehindHaproxy, until_said
from tests.support.web import SwitchedWeb
from tests.support.world import PROBED_PROGRAM, reserve_port

pytestmark = pytest.mark.timeout(300)

RATE = 60
FIGURES = {"interval": 0.5, "threshold": 2, "margin": 1}


class ProbedSite(BehindHaproxy):
    """Applications behind HAProxy in TCP mode, with their health answer on a port of its own. ``means``: what their file means.

    C(check): how HAProxy checks a server, by a pattern with the ports of the application and of its health answer. C(rise): after how many checks that
    pass it sends requests again.
    """

    def __init__(self, folder, names=("web1", "web2"), means=None, check="port {1}", rise=2, **variables):
        super().__init__(folder, names)
        self.means = {**dict.fromkeys(names, "out"), **(means or {})}
        self.keepers = {name: (reserve_port(), reserve_port()) for name in self.names}
        self.running = Processes(folder)
        self.applications = {}
        for name in self.names:
            if self.means[name] == "in":
                self.file(name).write_text("in service\n")
            self.start_application(name)
        proxy = folder / "proxy"
        proxy.mkdir()
        self.front = reserve_port()
        servers = "".join(
            f"  server {name} 127.0.0.1:{self.port(name)} check {check.format(self.port(name), self.port(name, 1))} inter 500ms fall 2 rise {rise}\n"
            for name in self.names
        )
        self.haproxy = Haproxy(
            proxy,
            f"frontend in\n  mode tcp\n  bind 127.0.0.1:{self.front.getsockname()[1]}\n  default_backend www\n"
            # A check may take its time on a busy machine. Otherwise it would have half a second.
            f"backend www\n  mode tcp\n  option httpchk GET /health\n  timeout check 10s\n  option redispatch 1\n  retries 3\n{servers}",
        )
        self.write(**variables)
        self.load = None

    def port(self, name, number=0):
        return self.keepers[name][number].getsockname()[1]

    def file(self, name):
        return self.folder / f"{name}-health"

    def start_application(self, name):
        words = ("--name", name, "--port", self.port(name), "--probe-port", self.port(name, 1), "--file", self.file(name), "--means", self.means[name])
        self.applications[name] = self.running.start(name, sys.executable, "-I", "-S", PROBED_PROGRAM, *words)

    def host(self, name, options):
        probe = {"type": "health_probe", "action": "file", "file": str(self.file(name)), "file_means": self.means[name], **FIGURES}
        url = f"http://127.0.0.1:{self.port(name, 1)}/health"
        return {
            **web_host(self.folder, name, self.simulator.urls[name], self.port(name)),
            "graceful_azure_duties": [{**probe, "url": url, **options}],
        }

    def write(self, **options):
        """C(options): those of each host's duty."""
        hosts = {name: self.host(name, options.get(name, {})) for name in self.names}
        self.inventory.write_text(json.dumps({"all": {"vars": LOCAL, "children": {"web": {"hosts": hosts}}}}))

    def fails(self, name):
        return self.file(name).exists() == (self.means[name] == "out")

    def up(self, name):
        return self.haproxy.states("www")[name].up

    def start_load(self):
        records = self.folder / "load.csv"
        self.load = self.running.start("load", *load.command(self.front.getsockname()[1], RATE, patient(4.0), records))
        return records

    def stop_load(self, records):
        time.sleep(0.5)
        self.running.stop(self.load, patience=patient(10))
        requests = load.read_requests(records)
        return requests, [request for request in requests if request["outcome"] != load.OK]

    def close(self):
        super().close()
        self.running.close()
        for pair in self.keepers.values():
            for keeper in pair:
                keeper.close()
        self.front.close()


@pytest.fixture(name="make_site")
def _make_site(tmp_path):
    made = []

    def make(**options):
        made.append(ProbedSite(tmp_path, **options))
        return made[-1]

    yield make
    for site in made:
        site.close()


def test_a_reboot_under_load_fails_no_request(make_site):
    """Of two hosts at once. The file of web1 means out, and that of web2 means in. web3 serves meanwhile."""
    site = make_site(names=("web1", "web2", "web3"), means={"web2": "in"})
    both = ("web1", "web2")
    site.file("web2").chmod(0o640)
    before = site.file("web2").stat()
    until(lambda: all(site.up(name) for name in site.names), 20, "all up")
    records = site.start_load()
    time.sleep(1)
    event_id = site.simulator.post_event(EventType="Reboot", Resources=list(both), ImpactSeconds=None, SettleSeconds=1)
    process = site.start("handle_events")
    failed_at = {}
    for name in both:
        until(lambda name=name: site.fails(name), 60, f"the health answer of {name} fails")
        failed_at[name] = time.monotonic()
    until(lambda: site.simulator.event(event_id)["Approvals"], 90, "approved")
    # Not before the balancer must have noticed: 0.5 s x 2 + 1 s.
    assert all(time.monotonic() - failed_at[name] >= 2 and not site.up(name) for name in both)
    site.simulator.wait_for(event_id, "Started")
    # The impact.
    for name in both:
        site.applications[name].kill()
    time.sleep(1)
    for name in both:
        site.start_application(name)
    site.simulator.complete(event_id)
    run = site.finish(process)
    assert run.status == 0, run.output
    assert run.event(event_id)["outcome"] == "completed", run.output
    assert {name: said["state"] for name, said in run.event(event_id)["hosts"].items()} == dict.fromkeys(both, "restored"), run.output
    until(lambda: all(site.up(name) for name in site.names), 20, "all up again")
    time.sleep(1)
    requests, failed = site.stop_load(records)
    assert not failed and len(requests) > 300, (len(requests), failed[:10])
    assert {request["backend"] for request in requests[-50:]} == set(site.names)
    assert not any(site.fails(name) for name in site.names) and site.records() == []
    after = site.file("web2").stat()
    assert site.file("web2").read_text() == "in service\n"
    assert (after.st_ino, after.st_mode, after.st_mtime) == (before.st_ino, before.st_mode, before.st_mtime)


def test_a_wrong_file_is_said_and_nothing_is_approved(make_site):
    site = make_site()
    site.write(web1={"file": str(site.folder / "another")})
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"])
    process = site.start("handle_events")
    said = until_said(process, "/health still passes although")
    assert "web1 " in said and "another is there" in said
    assert site.simulator.event(event_id)["Approvals"] == []
    site.kill(process)
    assert site.simulator.event(event_id)["Approvals"] == []
    # By hand, it is given back.
    shown = site.run("holds", holds_release=True)
    assert shown.status == 0 and "health answer file" in shown.output, shown.output
    assert site.records() == [] and not (site.folder / "another").exists()


def test_a_url_at_which_nobody_answers_proves_nothing(make_site):
    """With a file, too, on which no answer depends. It is told before the event, and nothing is approved."""
    site = make_site()
    with reserve_port() as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/health"
        site.write(web1={"file": str(site.folder / "another"), "url": url})
        said = f"{url}: Connection refused, although nothing makes it fail: until it has passed, the host never counts as out"
        for playbook in ("handle_events", "rehearse"):
            run = site.run(playbook, "--check")
            assert run.status == 2 and said in run.output and "web1: " in run.output, run.output
        output = run_roles(site, "out", ["load_balancer"], "--check")
        assert output.count(f"web1: {said}") == 1, output
        event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"])
        process = site.start("handle_events")
        assert "web1 " in until_said(process, f"{url}: Connection refused: it was not seen to pass before")
        # Longer than the balancer needs to notice, and than connections must be quiet.
        time.sleep(6)
        site.kill(process)
        assert site.simulator.event(event_id)["Approvals"] == [] and (site.folder / "another").exists()


# The plan alone, with a run that is killed: tests/unit/plugins/plugin_utils/test_plan_health_probe.py.
@pytest.mark.long
def test_what_is_handed_over_first_may_make_the_answer_fail(make_site):
    """As a member of Patroni that leads no more answers the probe with 503. It has passed before, so the url is the right one."""
    site = make_site()
    standby, file = site.folder / "standby", site.file("web1")
    with contextlib.closing(SwitchedWeb(standby, file)) as role:
        site.write(web1={"url": f"http://127.0.0.1:{role.port}/"})
        leader = {"type": "tasks", "name": "leader", **write_switch(site.folder, standby)}
        with changed(site.inventory) as inventory:
            inventory["all"]["children"]["web"]["hosts"]["web1"]["graceful_azure_duties"].insert(0, leader)
        event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], **SHORT)
        run = site.run(handle_events_timeout=patient(60))
    assert run.status == 0 and run.event(event_id)["outcome"] == "completed", run.output
    assert len(site.simulator.event(event_id)["Approvals"]) == 1 and not file.exists() and not standby.exists()
    assert "was not seen to pass" not in run.output and "until it has passed" not in run.output, run.output


# A look and a hold alone: tests/unit/plugins/module_utils/test_health_probe.py.
@pytest.mark.long
def test_the_fast_path_of_the_watcher_may_have_made_the_answer_fail(make_site):
    """As docs/one-vm.md has it: by a file of its own, before there is a run."""
    site = make_site()
    flag, another = site.folder / "out-at-once", site.folder / "another"
    with contextlib.closing(SwitchedWeb(flag, another)) as health:
        site.write(web1={"file": str(another), "url": f"http://127.0.0.1:{health.port}/"})
        event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], **SHORT)
        flag.touch()
        fast = FastHold(state_dir(site.folder, "web1")["graceful_azure_state_dir"])
        fast.write([event_id], True, [{"event_id": event_id, "event_type": "Reboot", "resources": ["web1"]}])
        process = site.start("handle_events", handle_events_timeout=patient(40))
        until(lambda: process.poll() is not None or "Completed" in site.simulator.statuses(event_id), 60)
        flag.unlink()
        fast.write([], False, [])
        run = site.finish(process)
    assert run.status == 0 and len(site.simulator.event(event_id)["Approvals"]) == 1, run.output
    assert "was not seen to pass" not in run.output and "until it has passed" not in run.output, run.output
    assert not another.exists()


# The plan alone: tests/unit/plugins/plugin_utils/test_plan_health_probe.py.
@pytest.mark.long
def test_a_file_that_a_person_removes(make_site):
    """Released as the message says, it is made to fail again. Made anew by that person, it stays after the event, and the run fails."""
    site = make_site()
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], NoticeSeconds=600, ImpactSeconds=3, SettleSeconds=1)
    process = site.start("handle_events")
    until(lambda: site.fails("web1"), 60, "web1 out")
    site.kill(process)
    await_requests()
    site.file("web1").unlink()
    process = site.start("handle_events")
    assert "-e target=web1 -e holds_release=true" in until_said(process, "pass again: left as it is")
    released = site.run("holds", target="web1", holds_release=True)
    assert released.status == 0, released.output
    until(lambda: site.fails("web1"), 60, "web1 out again")
    # Not before the module has read back what it did.
    held = '"phase": "held"'
    until(lambda: any(held in path.read_text() for path in site.records() if path.name.startswith("health_probe-")), 60, "it is recorded")
    site.file("web1").unlink()
    site.file("web1").touch()
    run = site.finish(process)
    assert run.status != 0 and "still out: the health answer" in run.output, run.output
    assert run.event(event_id)["hosts"]["web1"]["state"] == "needs_person"
    assert site.fails("web1") and site.records() == []


def test_a_folder_that_is_not_there_needs_a_person(make_site):
    site = make_site()
    site.write(web1={"file": str(site.folder / "nowhere" / "file")})
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"])
    run = site.run(handle_events_timeout=patient(8))
    assert run.status != 0 and run.event(event_id)["hosts"]["web1"]["state"] == "needs_person", run.output
    assert "there is no folder" in run.event(event_id)["hosts"]["web1"]["reason"]
    assert site.records() == [] and site.simulator.event(event_id)["Approvals"] == []


def test_a_file_whose_record_is_gone_is_given_back(make_site):
    """Such as on another disk than the records, or after a reboot with the records in memory."""
    site = make_site()
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"])
    killed = site.start("handle_events", handle_events_sleep=5)
    until(lambda: site.fails("web1"), 60, "the health answer fails")
    site.kill(killed)
    forget_records(site.folder / "state" / "web1")
    site.simulator.cancel(event_id)
    run = site.run()
    assert run.status == 0 and "restored" in run.output, run.output
    assert not site.fails("web1") and site.records() == []


# The record between is in test_health_probe.py of the module_utils.
@pytest.mark.long
def test_a_run_that_was_killed_is_continued(make_site):
    site = make_site()
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], **SHORT)
    killed = site.start("handle_events")
    until(lambda: site.fails("web1"), 60, "the health answer fails")
    site.kill(killed)
    run = site.run()
    assert run.status == 0 and run.event(event_id)["hosts"]["web1"]["state"] == "restored", run.output
    assert site.simulator.approvers(event_id) == ["web1"]
    assert not site.fails("web1") and site.records() == []


def run_roles(site, direction, roles, *options):
    """The roles alone, on web1."""
    playbook = site.folder / "roles.yml"
    given = {"load_balancer_state": direction, **{f"{name}_event_ids": ["drill"] for name in roles}}
    tasks = [{"ansible.builtin.include_role": {"name": f"graceful.azure.{role}"}, "vars": given} for role in roles]
    playbook.write_text(json.dumps([{"hosts": "web1", "gather_facts": False, "tasks": tasks}]))
    run = site.run(str(playbook), *options)
    assert run.status == 0, run.output
    return " ".join(run.output.split())


# test_roles_nginx.py and test_roles_azure.py have the roles alone behind other balancers.
@pytest.mark.long
def test_the_roles_alone(make_site):
    site = make_site()
    for direction, roles in {"out": ("load_balancer", "drain_host"), "in": ("restore_service",)}.items():
        began = time.monotonic()
        output = run_roles(site, direction, roles)
        assert site.fails("web1") == (direction == "out") and "nothing makes it fail" not in output
        if direction == "out":
            # It waits until the balancer must have noticed, and for three quiet seconds.
            assert time.monotonic() - began > 5 and not site.up("web1")
    assert site.records() == []


# How long it waits: test_rehearsal.py of the plugin_utils.
@pytest.mark.long
def test_a_rehearsal_waits_until_the_balancer_must_have_noticed(make_site):
    """HAProxy notices 30 s after a host is back. Until then it sends nothing there, and the other host must not go out."""
    site = make_site(rise=60)
    site.write(**dict.fromkeys(site.names, {"threshold": 60, "pool": "www"}))
    until(lambda: all(site.up(name) for name in site.names), 60, "all up")
    # Nobody else would serve.
    site.file("web2").touch()
    run = site.run("rehearse")
    assert run.status == 2 and "web1: not begun: 1 of 2 in service in the pool www (" in run.output, run.output
    assert not site.fails("web1") and site.records() == []
    site.file("web2").unlink()
    until(lambda: all(site.up(name) for name in site.names), patient(60), "all up")
    records = site.start_load()
    run = site.run("rehearse")
    assert run.status == 0, run.output
    requests, failed = site.stop_load(records)
    assert not failed and len(requests) > 300, (len(requests), failed[:10])
    assert "no place in the target" not in run.output and "Everything is as it was found." in run.output, run.output
    assert not any(site.fails(name) for name in site.names) and site.records() == []


class JustBack(Meanwhile):
    """As long as this lasts, the records of a host tell that it is just back."""

    def __init__(self, folder):
        super().__init__()
        self._folder = folder
        folder.mkdir(parents=True, mode=0o700)

    def _run(self):
        while not self._ends.wait(0.1):
            os.utime(self._folder)


def test_a_rehearsal_waits_for_who_is_just_back_and_ends_if_another_one_fails(make_site, monkeypatch):
    # Each line is to be read when it is said.
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    site = make_site()
    site.write(**dict.fromkeys(site.names, {"pool": "www"}))
    with JustBack(Path(state_dir(site.folder, "web2")["graceful_azure_state_dir"])):
        process = site.start("rehearse", target="web", rehearse_notice=120)
        said = until_said(process, "when the balancer must have noticed that web2 is back")
        assert "web1: waits until " in said
    until(lambda: site.fails("web1"), 60, "the health answer of web1 fails")
    site.applications["web2"].kill()
    run = site.finish(process)
    assert run.status == 2 and "web1: goes back on duty now: 0 of 2 in service in the pool" in run.output, run.output
    assert "web1: put back before its approval: 0 of 2 in service in the pool" in run.output and "run it again when enough others are" in run.output
    assert not site.fails("web1") and site.records() == []


@pytest.mark.parametrize(
    ("check", "peers", "state"),
    [
        ("port {1}", {}, "drain"),
        # HAProxy then waits for its check, which asks for the health answer that is held.
        ("port {1}", {}, "maint"),
        # Its checks go to the port of the application. test_several_may_only_check (unit tests) holds the same.
        pytest.param("port {0} source 127.0.0.9", {"peer": ["168.63.129.16", "127.0.0.9"]}, "drain", marks=pytest.mark.long),
    ],
)
def test_a_probe_and_a_haproxy_in_a_row(make_site, check, peers, state):
    site = make_site(check=check)
    with changed(site.inventory) as inventory:
        for name, host in inventory["all"]["children"]["web"]["hosts"].items():
            (probe,) = host["graceful_azure_duties"]
            host["graceful_azure_duties"] = [{**probe, **peers}, *site.duties(server=name, state=state)]
        inventory["all"]["children"]["balancers"] = {"hosts": {"lb1": state_dir(site.folder, "lb1")}}
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], ImpactSeconds=None, SettleSeconds=1)
    process = site.start("handle_events")
    site.simulator.wait_for(event_id, "Started", 90)
    assert site.fails("web1") and site.admin_states() == {"web1": state, "web2": "ready"}
    site.simulator.complete(event_id)
    run = site.finish(process)
    assert run.status == 0 and run.event(event_id)["hosts"]["web1"]["state"] == "restored", run.output
    assert not site.fails("web1") and site.admin_states() == {"web1": "ready", "web2": "ready"} and site.records() == []
