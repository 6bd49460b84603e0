# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real cluster of Patroni: three PostgreSQL servers, etcd, and clients that count what was acknowledged."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.support.patience import patient, until
from tests.support.ports import free_port
from tests.support.processes import Processes, find_program, kill

PATRONI, ETCD = find_program("patroni"), find_program("etcd")
SERVERS = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
# The Python to which Debian's psycopg2 belongs.
PYTHON = "/usr/bin/python3"
NEEDED = pytest.mark.skipif(
    not (PATRONI and ETCD and SERVERS), reason="no patroni, etcd or PostgreSQL: apt-get install patroni etcd-server python3-etcd postgresql"
)

# The options of the duty that all hosts share.
STEP = {"name": "db", "type": "patroni"}
GROUP = "shop"
USER, PASSWORD = "operator", "a secret of the tests"
START_SECONDS = 180

CONFIGURATION = {
    "scope": GROUP,
    "bootstrap": {
        "dcs": {"ttl": 20, "loop_wait": 2, "retry_timeout": 3, "postgresql": {"use_pg_rewind": True}},
        "initdb": [{"encoding": "UTF8"}, "data-checksums", "no-sync"],
    },
    "tags": {},
}
AUTHENTICATION = {
    "superuser": {"username": "postgres", "password": "postgres"},
    "replication": {"username": "replicator", "password": "replicator"},
    "rewind": {"username": "rewinder", "password": "rewinder"},
}


class Node:
    """One host: its Patroni, which runs its PostgreSQL."""

    def __init__(self, cluster, name):
        self.cluster = cluster
        self.name = name
        self.port, self.rest_port = free_port(), free_port()
        self.folder = cluster.folder / name
        self.tags = {}
        self.process = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.rest_port}"

    @property
    def options(self):
        """The options of the drain step on this host."""
        return {"url": self.url, "member": self.name, "username": USER, "password_file": str(self.cluster.folder / "password")}

    def start(self):
        sockets = self.cluster.folder / f"{self.name}-run"
        sockets.mkdir(exist_ok=True)
        self.cluster.give(sockets)
        text = json.dumps(
            {
                **CONFIGURATION,
                "name": self.name,
                "tags": self.tags,
                "etcd3": {"host": f"127.0.0.1:{self.cluster.etcd_port}"},
                "restapi": {
                    "listen": f"127.0.0.1:{self.rest_port}",
                    "connect_address": f"127.0.0.1:{self.rest_port}",
                    "authentication": {"username": USER, "password": PASSWORD},
                },
                "postgresql": {
                    "listen": f"127.0.0.1:{self.port}",
                    "connect_address": f"127.0.0.1:{self.port}",
                    "data_dir": str(self.folder),
                    "bin_dir": str(SERVERS[-1].parent),
                    "authentication": AUTHENTICATION,
                    "parameters": {"unix_socket_directories": str(sockets), "fsync": "off"},
                    "pg_hba": ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"],
                    "pgpass": str(sockets / "pgpass"),
                },
            }
        )
        # JSON is YAML.
        path = self.cluster.folder / f"{self.name}.yml"
        path.write_text(text)
        self.cluster.give(path)
        self.process = self.cluster.start(self.name, PATRONI, path)

    def read(self, path):
        """Status and text of a GET."""
        return self._send(urllib.request.Request(self.url + path))

    def post(self, path, method="POST", **body):
        login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        headers = {"Content-Type": "application/json", "Authorization": f"Basic {login}"}
        return self._send(urllib.request.Request(self.url + path, json.dumps(body).encode(), headers, method=method))

    @staticmethod
    def _send(request):
        try:
            with urllib.request.urlopen(request, timeout=patient(40)) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def stop(self):
        """As when the host is shut down."""
        self.cluster.processes.stop(self.process, signal.SIGTERM, 60)

    def end(self):
        """At once, and its PostgreSQL, which is nobody's child."""
        self.cluster.processes.stop(self.process, signal.SIGKILL)
        with contextlib.suppress(FileNotFoundError, IndexError):
            pid = int((self.folder / "postmaster.pid").read_text().splitlines()[0])
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/cwd") == str(self.folder):
                    kill(pid, signal.SIGQUIT)
                    _await_end(pid)


def _await_end(pid, seconds=10):
    deadline = time.monotonic() + seconds
    while os.path.exists(f"/proc/{pid}"):
        if time.monotonic() > deadline:
            kill(pid)
            return
        time.sleep(0.02)


class Cluster:
    """``names`` are the hosts; the first one is the leader at first. PostgreSQL refuses to run as root, so all runs as the user postgres."""

    def __init__(self, names=("db1", "db2", "db3")):
        self.folder = Path(tempfile.mkdtemp(prefix="graceful-azure-patroni-"))
        self.user = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
        self.give(self.folder)
        (self.folder / "password").write_text(PASSWORD + "\n")
        self.processes = Processes(self.folder)
        self.etcd_port, peer = free_port(), free_port()
        try:
            here = f"http://127.0.0.1:{self.etcd_port}"
            words = ["--data-dir", self.folder / "etcd", "--listen-client-urls", here, "--advertise-client-urls", here]
            words += ["--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}"]
            words += ["--initial-cluster", f"default=http://127.0.0.1:{peer}", "--unsafe-no-fsync"]
            self.start("etcd", ETCD, *words)
            self.nodes = {name: Node(self, name) for name in names}
            first, *others = self.nodes.values()
            first.start()
            self._await(lambda: first.read("/leader")[0] == 200, f"{first.name} is the leader")
            for node in others:
                node.start()
            self.await_whole()
        except BaseException:
            self.close()
            raise

    def __getitem__(self, name):
        return self.nodes[name]

    def give(self, path):
        if self.user:
            os.chown(path, self.user.pw_uid, self.user.pw_gid)

    def start(self, name, *command):
        as_user = []
        if self.user:
            # Who becomes another user lives on when the parent dies, unless that is said once more.
            as_user = ["setpriv", f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}", "--init-groups", "--", "setpriv", "--pdeathsig", "KILL", "--"]
        return self.processes.start(name, *as_user, *command, cwd=self.folder)

    def members(self):
        """What Patroni tells of each member, by its name."""
        for node in self.nodes.values():
            with contextlib.suppress(OSError):
                status, text = node.read("/cluster")
                if status == 200:
                    return {member["name"]: member for member in json.loads(text)["members"]}
        raise AssertionError("no Patroni answers")

    def leader(self):
        return next((name for name, member in self.members().items() if member["role"] == "leader"), None)

    def settings(self):
        """What an operator may have set: for all members, for each of them, and a switchover that is planned."""
        first = next(iter(self.nodes.values()))
        whole = json.loads(first.read("/cluster")[1])
        tags = {member["name"]: member.get("tags") for member in whole["members"]}
        return json.loads(first.read("/config")[1]), tags, whole.get("pause", False), whole.get("scheduled_switchover")

    def streaming(self, leader):
        """The members to which the leader streams what is written there."""
        _status, text = self[leader].read("/patroni")
        return {entry["application_name"] for entry in json.loads(text).get("replication", ()) if entry["state"] == "streaming"}

    def await_whole(self):
        """Until there is a leader, and every other member gets what is written there."""
        self._await(self._is_whole, "every member runs")

    def _is_whole(self):
        try:
            members = self.members()
        except AssertionError:
            return False
        leaders = [name for name, member in members.items() if member["role"] == "leader"]
        running = all(member["state"] in ("running", "streaming") for member in members.values())
        linked = all(member["role"] == "leader" or member.get("lag") == 0 for member in members.values())
        if not (len(members) == len(self.nodes) and len(leaders) == 1 and running and linked):
            return False
        # Patroni tells no lag of a replica that gets nothing, as long as little was written since it last looked.
        return len(self.streaming(leaders[0])) == len(self.nodes) - 1

    def _await(self, condition, what):
        def holds():
            with contextlib.suppress(OSError):
                return condition()

        until(holds, START_SECONDS, lambda: f"{what}\n{self.logs()}", pause=0.2)

    def logs(self):
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}" for path in sorted(self.folder.glob("*.log")))

    def where(self):
        """The connection string that names all servers."""
        ports = ",".join(str(node.port) for node in self.nodes.values())
        return f"host={','.join(['127.0.0.1'] * len(self.nodes))} port={ports} user=postgres dbname=postgres"

    def sql(self, text):
        """What the leader answers, a line for each row."""
        command = [SERVERS[-1].with_name("psql"), "-X", "-A", "-t", "-c", text, self.where() + " target_session_attrs=read-write"]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=patient(60)).stdout.splitlines()

    def close(self):
        for node in getattr(self, "nodes", {}).values():
            if node.process:
                node.end()
        self.processes.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Writers:
    """Clients that write one number after the other, as fast as they are answered."""

    def __init__(self, cluster):
        self.cluster = cluster
        cluster.sql("DROP TABLE IF EXISTS written; CREATE TABLE written (number bigint)")
        self.output = cluster.folder / "written.txt"
        program = Path(__file__).with_name("sql_writer.py")
        self._stream = self.output.open("wb")
        self._process = cluster.processes.start("writers", PYTHON, program, cluster.where(), stdout=self._stream)

    def acknowledged(self):
        """Numbers and times. A line that is being written has no end yet."""
        lines = self.output.read_text().splitlines(keepends=True)
        return [(int(number), float(when)) for number, when in (line.split() for line in lines if line.endswith("\n"))]

    def longest_gap(self):
        times = [when for _number, when in self.acknowledged()]
        return max((after - before for before, after in zip(times, times[1:])), default=0.0)

    def stop(self):
        self.cluster.processes.stop(self._process)
        self._stream.close()

    def lost(self):
        """The numbers that were acknowledged and that the leader does not have."""
        there = {int(line) for line in self.cluster.sql("SELECT number FROM written")}
        return sorted({number for number, _when in self.acknowledged()} - there)
