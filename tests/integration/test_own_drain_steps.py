# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The examples of docs/your-own-duty.md and docs/examples, each with the program that it is for."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.support.nodes import NODES, Nodes, needs
from tests.support.own_steps import OwnFiles, OwnStep, files_of_example
from tests.support.patience import patient, until
from tests.support.patroni import SERVERS
from tests.support.processes import find_program
from tests.support.simulator import SHORT

pytestmark = pytest.mark.timeout(240)

POSTGRESQL = SERVERS[-1].parent if SERVERS else None

# It takes one job after the other, unless it is paused. A job goes on until there is a file "finish".
WORKER = """
cd "$1"
while :; do
    sleep 0.05
    [ ! -e pause ] || continue
    for job in new/*; do
        [ -e "$job" ] || continue
        mv "$job" running/
        until [ -e finish ]; do sleep 0.05; done
        mv running/* done/
        break
    done
done
"""


# Whoever has the address answers.
ECHO = """
import socket
mine = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
mine.bind(("0.0.0.0", 7))
while True:
    mine.sendto(*mine.recvfrom(99))
"""
# Asks the address every 0.1 s until a line comes in. Says when the first answer has come, and at the end how many it sent and how many were not answered.
ASK = """
import select, socket, sys, time
mine = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sent, answered = 0, set()
end = None
while end is None or time.monotonic() < end:
    if end is None:
        mine.sendto(b"%d" % sent, ("10.99.0.100", 7))
        sent += 1
    pause = time.monotonic() + 0.1
    while time.monotonic() < pause:
        for ready in select.select([mine] + [one for one in [sys.stdin] if one], [], [], max(0, pause - time.monotonic()))[0]:
            if ready is sys.stdin:
                end = time.monotonic() + 2
                sys.stdin = None
            else:
                answered.add(mine.recv(99))
                if len(answered) == 1:
                    print("answered", flush=True)
print(sent, sent - len(answered))
"""


def started(site, event_id, seconds=150):
    """A run that has approved the event."""
    process = site.start("handle_events", handle_events_timeout=patient(400))
    site.reach(process, lambda: site.simulator.event(event_id)["Approvals"], "approved", seconds)
    return process


def see_through(site):
    """A Reboot of web1 from notice to end."""
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], **SHORT)
    process = started(site, event_id)
    run = site.finish(process)
    assert run.status == 0 and run.event(event_id)["outcome"] == "completed", run.output
    assert site.records() == []


class TestWorker:
    @pytest.fixture(name="jobs")
    def make_jobs(self, tmp_path):
        """The folder of a worker that works."""
        jobs = tmp_path / "jobs"
        for name in ("new", "running", "done"):
            (jobs / name).mkdir(parents=True)
        worker = subprocess.Popen(["sh", "-c", WORKER, "worker", str(jobs)])
        yield jobs
        worker.kill()
        worker.wait(patient(10))

    @pytest.fixture(name="site")
    def make_site(self, tmp_path, jobs):
        site = OwnStep(tmp_path, "worker", {"/srv/jobs": str(jobs)})
        yield site
        site.close()

    # test_the_files_of_every_example parses them.
    @pytest.mark.long
    def test_its_files(self, jobs, tmp_path):
        """Events take the same way in test_an_event_and_a_run_that_is_killed."""
        run = OwnFiles(tmp_path, "worker", {"/srv/jobs": str(jobs)}).run
        (jobs / "new" / "1").write_text("")
        until(lambda: list((jobs / "running").iterdir()), 20, "the job runs")
        assert run("out", check=True) == [False] and not (jobs / "pause").exists()
        assert run("out", "out") == [False, False] and (jobs / "pause").read_text() == "graceful.azure\n"
        (jobs / "finish").touch()
        until(lambda: list((jobs / "done").iterdir()), 20, "the job is done")
        assert run("out", "back") == [True, True] and not (jobs / "pause").exists()
        # Where nobody can see the jobs, it is not known that there are none.
        (jobs / "running").rmdir()
        with pytest.raises(AssertionError, match="running"):
            run("out")

    @pytest.mark.long
    def test_an_event_and_a_run_that_is_killed(self, site, jobs):
        """test_its_files holds the same for the files. The roles that run them are tested in test_roles_drain_host.py and test_handle_events.py."""
        for number in range(3):
            (jobs / "new" / str(number)).write_text("")
        until(lambda: list((jobs / "running").iterdir()), 20, "a job runs")
        event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], **SHORT)
        process = site.start("handle_events")
        until((jobs / "pause").exists, 100, "paused")
        site.kill(process)
        assert site.simulator.event(event_id)["Approvals"] == []
        (jobs / "finish").touch()
        process = started(site, event_id)
        # Its last job ended, and it took no other.
        assert [len(list((jobs / name).iterdir())) for name in ("new", "running", "done")] == [2, 0, 1]
        run = site.finish(process)
        assert run.status == 0 and run.event(event_id)["outcome"] == "completed", run.output
        assert not (jobs / "pause").exists() and site.records() == []
        until(lambda: len(list((jobs / "done").iterdir())) == 3, 20, "all jobs are done")
        (jobs / "pause").write_text("anna\n")
        see_through(site)
        assert (jobs / "pause").read_text() == "anna\n"

    @pytest.mark.long
    def test_a_cancelled_event(self, site, jobs):
        """test_its_files holds the same for the files."""
        (jobs / "new" / "1").write_text("")
        until(lambda: list((jobs / "running").iterdir()), 20, "the job runs")
        event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], **SHORT)
        process = site.start("handle_events", handle_events_timeout=patient(400))
        until((jobs / "pause").exists, 100, "paused")
        site.simulator.cancel(event_id)
        run = site.finish(process)
        assert run.status == 0 and run.event(event_id)["outcome"] == "cancelled", run.output
        assert not (jobs / "pause").exists() and site.records() == []


@pytest.mark.long
class TestKeepalived:
    """The files alone are parsed by test_the_files_of_every_example."""

    pytestmark = [*NODES, needs("keepalived", packages="keepalived")]

    @pytest.fixture(name="nodes")
    def make_nodes(self, tmp_path):
        with Nodes(tmp_path / "nodes", ["web1", "web2", "client"]) as nodes:
            yield nodes

    @staticmethod
    def start(nodes, folder, name, priority):
        peers = {"web1": "web2", "web2": "web1"}
        here = {"10.0.0.11": nodes[name].address, "10.0.0.12": nodes[peers[name]].address, "10.0.0.100/24": "10.99.0.100/24"}
        here.update({"/var/lib/keepalived-graceful-azure": f"{folder}/file-{name}", "priority 110": f"priority {priority}"})
        path = folder / f"keepalived-{name}.conf"
        path.write_text(files_of_example("keepalived", here)["keepalived.conf"])
        keepalived = find_program("keepalived")
        return nodes[name].start(
            keepalived, "--dont-fork", "--log-console", "--use-file", str(path), "--pid", f"/run/{name}.pid", "--vrrp_pid", f"/run/{name}-v.pid"
        )

    @staticmethod
    def has_address(nodes, name):
        return "10.99.0.100/" in nodes[name].must("ip", "-brief", "address", "show")

    def test_the_address_moves_and_comes_back(self, nodes, tmp_path):
        for name, priority in (("web1", 110), ("web2", 100)):
            keepalived = self.start(nodes, tmp_path, name, priority)
            nodes[name].start(sys.executable, "-c", ECHO)
        until(lambda: self.has_address(nodes, "web1") and not self.has_address(nodes, "web2"), 60)
        python = nodes["web1"].wrappers(tmp_path / "programs", ["ip"])
        here = {"/var/lib/keepalived-graceful-azure": f"{tmp_path}/file-web1", "10.0.0.100": "10.99.0.100"}
        run = OwnFiles(tmp_path, "keepalived", here, web1={"ansible_python_interpreter": str(python)}).run
        asker = subprocess.Popen([*nodes["client"].enter, sys.executable, "-c", ASK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert asker.stdout.readline() == "answered\n"
        assert run("out", check=True) == [False] and self.has_address(nodes, "web1")
        until(lambda: run("out") == [True], 120)
        assert self.has_address(nodes, "web2") and not self.has_address(nodes, "web1")
        assert run("out", "back") == [True, True]
        until(lambda: self.has_address(nodes, "web1") and not self.has_address(nodes, "web2"), 60)
        time.sleep(1)
        sent, lost = map(int, asker.communicate("enough\n", timeout=patient(20))[0].split())
        assert sent > 50 and lost == 0, (sent, lost)
        # With nobody else to take the address, it stays.
        nodes["web2"].must("sh", "-c", "kill $(cat /run/web2.pid)")
        keepalived.wait(patient(30))
        assert run("out", "out") == [False, False] and self.has_address(nodes, "web1")
        # Also if it is written as keepalived.conf has it.
        (tmp_path / "prefix").mkdir()
        here["10.0.0.100"] = "10.99.0.100/24"
        written = OwnFiles(tmp_path / "prefix", "keepalived", here, web1={"ansible_python_interpreter": str(python)}).run
        assert written("out") == [False]
        assert run("back") == [True]
        # As an operator has it.
        (tmp_path / "file-web1").write_text("-7\n")
        assert run("back") == [True] and (tmp_path / "file-web1").read_text() == "-7\n"


@pytest.mark.long
class TestPostgresql:
    """The files alone are parsed by test_the_files_of_every_example."""

    pytestmark = [
        pytest.mark.skipif(os.geteuid() != 0, reason="the example becomes the user postgres: sudo make test"),
        pytest.mark.skipif(not (POSTGRESQL and shutil.which("psql")), reason="no PostgreSQL: apt-get install postgresql"),
    ]

    @pytest.fixture(name="server")
    def make_server(self):
        """The folder of its socket. The user postgres must reach it, so it is no folder of the test's."""
        folder = Path("/tmp") / f"graceful-azure-postgresql-{os.getpid()}"
        folder.mkdir(mode=0o700)
        shutil.chown(folder, "postgres")
        be = ["runuser", "--user", "postgres", "--"]
        process = None
        try:
            subprocess.run(
                [*be, str(POSTGRESQL / "initdb"), "--pgdata", f"{folder}/data", "--auth", "trust", "--no-sync"], check=True, capture_output=True, cwd="/"
            )
            words = [*be, str(POSTGRESQL / "postgres"), "-D", f"{folder}/data", "-k", str(folder), "-c", "listen_addresses="]
            process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")
            until(lambda: self.ask(folder, "SELECT 1", check=False).stdout == "1\n", 60, "PostgreSQL answers")
            self.ask(folder, "CREATE ROLE app LOGIN")
            self.ask(folder, "CREATE DATABASE shop OWNER app CONNECTION LIMIT 7")
            self.ask(folder, "CREATE TABLE orders (number int)", user="app", database="shop")
            yield folder
        finally:
            if process:
                subprocess.run([*be, str(POSTGRESQL / "pg_ctl"), "stop", "-m", "immediate", "-D", f"{folder}/data"], capture_output=True, check=False, cwd="/")
                process.wait(patient(30))
            shutil.rmtree(folder)

    @staticmethod
    def words(folder, question, user="postgres", database="postgres"):
        return ["runuser", "--user", "postgres", "--", "psql", "-h", str(folder), "-U", user, "-d", database, "-XAtqc", question]

    @classmethod
    def ask(cls, folder, question, check=True, **who):
        return subprocess.run(cls.words(folder, question, **who), capture_output=True, text=True, check=check, cwd="/")

    def limit(self, server):
        return self.ask(server, "SELECT datconnlimit FROM pg_database WHERE datname = 'shop'").stdout.strip()

    def test_a_transaction_in_flight_ends_and_the_limit_comes_back(self, server, tmp_path):
        here = {"/var/run/postgresql": str(server), "/var/lib/connection-limit-before-an-event": f"{tmp_path}/found"}
        run = OwnFiles(tmp_path, "postgresql", here).run
        app = {"user": "app", "database": "shop"}
        sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'shop'"
        idle, busy = (
            subprocess.Popen(
                [*self.words(server, "", **app)[:-2], "-X"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", text=True
            )
            for _which in range(2)
        )
        try:
            busy.stdin.write("BEGIN; INSERT INTO orders VALUES (1);\n")
            busy.stdin.flush()
            until(lambda: self.ask(server, f"{sessions} AND state LIKE 'idle%'").stdout == "2\n", 60, "one session is idle, and one in a transaction")
            assert run("out", check=True) == [False] and self.limit(server) == "7"
            assert run("out", "out") == [False, False] and self.limit(server) == "0"
            assert self.ask(server, sessions).stdout == "1\n"
            assert "too many connections" in self.ask(server, "SELECT 1", check=False, **app).stderr
            busy.stdin.write("COMMIT;\n\\q\n")
            busy.stdin.close()
            assert busy.wait(patient(60)) == 0
            assert run("out", "back") == [True, True] and self.limit(server) == "7" and not (tmp_path / "found").exists()
            assert self.ask(server, "SELECT count(*) FROM orders", **app).stdout == "1\n"
            # An operator lets nobody in.
            self.ask(server, "ALTER DATABASE shop CONNECTION LIMIT 0")
            assert run("out", "back") == [True, True] and self.limit(server) == "0"
        finally:
            for session in (idle, busy):
                session.kill()
                session.wait()


# What `docker` says of the node in a file, in JSON. After a drain its task goes on for two looks.
DOCKER = """
import json, sys
path, words = {path!r}, sys.argv[1:]
node = json.load(open(path))
if words[:2] == ["node", "inspect"]:
    print(json.dumps([{{"ID": "x", "Spec": {{"Availability": node["availability"], "Labels": node["labels"], "Role": "worker"}}}}]))
elif words[:2] == ["node", "ps"]:
    assert words[2:4] == ["--format", "{{{{.CurrentState}}}}"], words
    if node["availability"] == "drain":
        node["running"] = max(node["running"] - 1, 0)
    print("Shutdown 2 days ago" + "\\nRunning 3 minutes ago" * (node["running"] > 0))
elif words[:2] == ["node", "update"]:
    node["updates"] += 1
    for option, value in zip(words[2:-1:2], words[3:-1:2]):
        if option == "--availability":
            node["availability"] = value
        elif option == "--label-add":
            node["labels"].update([value.split("=")])
        else:
            assert option == "--label-rm"
            del node["labels"][value]
else:
    sys.exit("unknown: %s" % words)
json.dump(node, open(path, "w"))
"""


@pytest.mark.long
def test_swarm(tmp_path):
    """The files alone are parsed by test_the_files_of_every_example."""
    programs, path = tmp_path / "programs", tmp_path / "node.json"
    programs.mkdir()
    active = {"availability": "active", "labels": {"rack": "1"}, "running": 3, "updates": 0}
    path.write_text(json.dumps(active))
    (programs / "docker").write_text(f"#!{sys.executable}\n" + DOCKER.format(path=str(path)))
    (programs / "docker").chmod(0o755)
    python = tmp_path / "python-manager1"
    python.write_text(f'#!/bin/sh\nPATH={programs}:$PATH exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    run = OwnFiles(tmp_path, "swarm", manager1={"ansible_python_interpreter": str(python)}).run
    assert run("out", check=True) == [False] and json.loads(path.read_text()) == active
    assert run("out", "out") == [False, True]
    assert json.loads(path.read_text()) == {"availability": "drain", "labels": {"rack": "1", "graceful.azure": "out"}, "running": 0, "updates": 1}
    assert run("back") == [True] and json.loads(path.read_text()) == dict(active, running=0, updates=2)
    # Somebody has let it have tasks again meanwhile. The label must not make the next drain of an operator ours.
    path.write_text(json.dumps(dict(active, labels={"graceful.azure": "out"}, running=0)))
    assert run("back") == [True] and json.loads(path.read_text()) == dict(active, labels={}, running=0, updates=1)
    # As an operator has it.
    paused = dict(active, availability="pause", running=0)
    path.write_text(json.dumps(paused))
    assert run("out", "back") == [True, True] and json.loads(path.read_text()) == paused


def test_envoys_mark_goes_wherever_it_is():
    """It would keep the host in at its next event, and make the next drain of an operator ours."""
    files = files_of_example("envoy")
    out, back = (yaml.safe_load(files[f"tasks/{way}.yml"])[0]["ansible.builtin.replace"] for way in ("out", "back"))
    (line,) = [line for line in files["www.yaml"].splitlines() if line.endswith("# web1")]

    def changed(text, how):
        return re.sub(how["regexp"].replace("{{ inventory_hostname | regex_escape }}", "web1"), how["replace"], text, flags=re.MULTILINE)

    held = changed(line, out)
    assert held != line
    for left in (held, held.replace("DRAINING", "HEALTHY")):
        assert changed(left, back) == line


@pytest.mark.parametrize("example", ["worker", "keepalived", "postgresql", "swarm"])
def test_the_files_of_every_example(example):
    files = files_of_example(example)
    assert {"inventory.yml", "tasks/look.yml", "tasks/out.yml", "tasks/back.yml"} <= set(files)
    inventory = yaml.safe_load(files["inventory.yml"])
    duty, *services = inventory["web"]["vars"]["graceful_azure_duties"]
    assert (duty["name"], duty["type"]) == (example, "tasks") and services == (["postgresql@15-main"] if example == "postgresql" else [])
    for way in ("out", "back"):
        assert duty[way] == f"{{{{ inventory_dir }}}}/tasks/{way}.yml"
        tasks = yaml.safe_load(files[f"tasks/{way}.yml"])
        assert list(tasks[-1]["ansible.builtin.set_fact"]) == ["graceful_azure_done"]
        assert sum(task.get("ansible.builtin.include_tasks") == "look.yml" for task in tasks) == 2
    # What only looks changes nothing, also in check mode; facts bear the name of the duty.
    for task in yaml.safe_load(files["tasks/look.yml"]):
        assert task.get("check_mode") is False or {"ansible.builtin.set_fact", "ansible.builtin.find", "ansible.builtin.slurp"} & set(task), task
        assert all(name.startswith(f"{example}_") for name in [*task.get("ansible.builtin.set_fact", {}), *filter(None, [task.get("register")])]), task
