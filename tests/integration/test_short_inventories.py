# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The shortest inventories of the pages, as they are printed: each takes a host through a Reboot. And what a page says to type on the machines themselves.

A second inventory only says how the machines are reached, and where their metadata services are. Each machine is in namespaces of its own, so all of
them have their sockets, ports and folders where the pages have them.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import subprocess
import sys
import time

import pytest

from tests.support import patroni
from tests.support.checkout import BUILD, ROOT, must_pass
from tests.support.nodes import NODES, Nodes
from tests.support.nodes import needs as needs_program
from tests.support.pages import blocks
from tests.support.patience import patient, until
from tests.support.playbook import ansible_settings, run_facts
from tests.support.processes import await_requests, kill_all
from tests.support.simulator import SCRIPT, command

pytestmark = [pytest.mark.long, pytest.mark.timeout(900), *NODES]

AZURE = "azure"
WEB = """
import http.server, os, sys

class Web(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        is_out = self.path == "/health" and os.path.exists("/var/www/maintenance")
        self.send_response(503 if is_out else 200)
        self.end_headers()

    def log_message(self, *words):
        pass

http.server.ThreadingHTTPServer(("", int(sys.argv[1])), Web).serve_forever()
"""
PROBE = """
import http.client, sys, time

while True:
    probe = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=5)
    try:
        probe.request("GET", "/health")
        print(probe.getresponse().status, flush=True)
    except OSError:
        pass
    probe.close()
    time.sleep(0.2)
"""
HAPROXY = """\
global
    stats socket /run/haproxy/admin.sock mode 600 level admin

defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s

frontend in
    bind :80
    default_backend www

backend www
    default-server check inter 500ms pool-max-conn 0
"""
# Where it is not installed: what the page has it do.
SOCAT = """\
import socket, sys
with socket.socket(socket.AF_UNIX) as client:
    client.connect(sys.argv[2])
    client.sendall(sys.stdin.buffer.read())
    sys.stdout.buffer.write(b"".join(iter(lambda: client.recv(65536), b"")))
"""
STATES = """
import socket
with socket.socket(socket.AF_UNIX) as client:
    client.connect("/run/haproxy/admin.sock")
    client.sendall(b"show servers state www\\n")
    print(b"".join(iter(lambda: client.recv(65536), b"")).decode())
"""


def printed(page, group, duty=""):
    """The first inventory on a page that begins with this group and has this type of duty, as it is printed."""
    return next(text for kind, text in blocks(page) if kind == "yaml" and text.startswith(f"{group}:\n  hosts:\n") and duty in text)


class Site:
    """The machines of an inventory, those of its hosts first, and one more where the metadata services of all hosts are."""

    def __init__(self, folder, inventory, hosts, others=()):
        self.folder = folder
        self.hosts = hosts
        (folder / "inventory.yml").write_text(inventory)
        # A folder in memory would be refused for records, and that of the machine is not the test's.
        self.nodes = Nodes(folder, [*hosts, *others, AZURE], ("/var",))

    def __enter__(self):
        self.nodes.__enter__()
        azure = self.nodes[AZURE]
        vms = {name: f"{azure.address}:{8200 + number}" for number, name in enumerate(self.hosts)}
        azure.start(*command(vms, control="127.0.0.1:8169"))
        here = {}
        for node in self.nodes:
            shell = self.folder / f"shell-{node.name}"
            shell.write_text(f'#!/bin/sh\nexec {" ".join(node.enter)} /bin/sh "$@"\n')
            shell.chmod(0o755)
            here[node.name] = {"ansible_shell_executable": str(shell)}
            if node.name in vms:
                here[node.name]["graceful_azure_imds_url"] = f"http://{vms[node.name]}"
        del here[AZURE]  # no machine of the inventory
        common = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        (self.folder / "here.json").write_text(json.dumps({"all": {"hosts": here, "vars": common}}))
        until(lambda: azure.run(sys.executable, str(SCRIPT), "ctl", "events").returncode == 0, 30)
        return self

    def __exit__(self, *error):
        self.nodes.__exit__(*error)

    def ctl(self, *words):
        self.nodes[AZURE].must(sys.executable, str(SCRIPT), "ctl", *words)

    def records(self):
        """The records on all machines, by the names of their machines."""
        return {node.name for node in self.nodes if node.run("sh", "-c", "ls /var/lib/graceful_azure/*.json").returncode == 0}

    @contextlib.contextmanager
    def held(self, name):
        """A run that has taken the host out for a Reboot, which has started."""
        self.ctl("add", "Reboot", name, "ImpactSeconds=null", "EventId=E1")
        with self.running() as run:
            until(lambda: self.started() or run.poll() is not None, 400)
            assert self.started(), self.said()
            yield run

    @contextlib.contextmanager
    def running(self):
        """A run. It is killed if it still goes on at the end."""
        words = ["ansible-playbook", "-i", str(self.folder / "inventory.yml"), "-i", str(self.folder / "here.json"), "graceful.azure.handle_events"]
        environment = {**os.environ, "ANSIBLE_SHOW_CUSTOM_STATS": "1", "ANSIBLE_FORKS": str(len(self.hosts)), **ansible_settings(self.folder)}
        with (self.folder / "said").open("wb") as said:
            run = subprocess.Popen(words, stdout=said, stderr=subprocess.STDOUT, env=environment, cwd=BUILD, start_new_session=True)
        try:
            yield run
        finally:
            kill_all(run.pid)
            run.wait()

    def see_a_reboot_through(self, name, while_held):
        """From its notice to its end. C(while_held) is true once, while the event has started."""
        with self.held(name) as run:
            assert while_held()
            self.ctl("complete", "E1")
            assert run.wait(patient(300)) == 0, self.said()
        (event,) = run_facts(self.said())["graceful_azure"]
        assert (event["outcome"], {host: told["state"] for host, told in event["hosts"].items()}) == ("completed", {name: "restored"})
        assert [approval["Vm"] for approval in self.event()["Approvals"]] == [name]
        assert self.records() == set()

    def event(self):
        (event,) = json.loads(self.nodes[AZURE].must("curl", "--silent", "http://127.0.0.1:8169/events"))
        return event

    def started(self):
        return self.event()["EventStatus"] == "Started"

    def said(self):
        return (self.folder / "said").read_text(errors="replace")


def test_twenty_vms_behind_two_haproxy(tmp_path):
    """Of the README."""
    webs, balancers = [f"web{number:02}" for number in range(1, 21)], ("lb1", "lb2")
    with Site(tmp_path, printed("README.md", "web"), webs, balancers) as site:
        servers = "".join(f"    server {name} {site.nodes[name].address}:80\n" for name in webs)
        (tmp_path / "haproxy.cfg").write_text(HAPROXY + servers)
        for name in webs:
            site.nodes[name].start(sys.executable, "-c", WEB, "80")
        for name in balancers:
            site.nodes[name].must("mkdir", "/run/haproxy")
            site.nodes[name].start("haproxy", "-f", str(tmp_path / "haproxy.cfg"))

        def states(balancer):
            """Of each server: whether it is up, and whether nobody has taken it out."""
            rows = [line.split() for line in site.nodes[balancer].run(sys.executable, "-c", STATES).stdout.splitlines()]
            return {row[3]: (row[5] == "2", row[6] == "0") for row in rows if len(row) > 6 and row[3] in webs}

        def out():
            """The servers that are out on both; the same on both."""
            one, other = ({name for name, state in states(each).items() if not all(state)} for each in balancers)
            return one if one == other and all(set(states(each)) == set(webs) for each in balancers) else None

        until(lambda: out() == set(), 30)
        site.see_a_reboot_through("web07", lambda: out() == {"web07"})
        until(lambda: out() == set(), 30)


def test_five_vms_behind_an_azure_load_balancer_by_probe(tmp_path):
    """Of the page on health probes. The balancer itself has no part in it: the answer that it gets does."""
    webs = [f"web{number}" for number in range(1, 6)]
    with Site(tmp_path, printed("docs/health-probe.md", "web"), webs) as site:
        for name in webs:
            site.nodes[name].must("mkdir", "-p", "/var/www")
            site.nodes[name].start(sys.executable, "-c", WEB, "8080")

        def passing():
            words = ("curl", "--silent", "--output", "/dev/null", "--write-out", "%{http_code}", "http://localhost:8080/health")
            return {name for name in webs if site.nodes[name].run(*words).stdout == "200"}

        until(lambda: passing() == set(webs), 30)
        site.see_a_reboot_through("web2", lambda: passing() == set(webs) - {"web2"})
        assert passing() == set(webs)


@needs_program("sudo", packages="sudo")
def test_two_vms_whose_probe_has_a_port_of_its_own(tmp_path):
    """Of Get started. The balancer probes each host all the time, and its probes are no clients."""
    webs = ["web1", "web2"]
    with Site(tmp_path, printed("docs/getting-started.md", "web", "type: health_probe"), webs) as site:
        for name in webs:
            node = site.nodes[name]
            node.must("mkdir", "-p", "/var/www")
            for port in ("80", "8081"):
                node.start(sys.executable, "-c", WEB, port)
            site.nodes[AZURE].start(sys.executable, "-c", PROBE, node.address, "8081", log=tmp_path / f"probes-{name}")

        def passing():
            """The hosts whose last probe passed."""
            return {name for name in webs if (tmp_path / f"probes-{name}").read_text(errors="replace").split()[-1:] == ["200"]}

        until(lambda: passing() == set(webs), 30)
        site.see_a_reboot_through("web2", lambda: passing() == {"web1"})
        until(lambda: passing() == set(webs), 30)


def test_two_reboots_at_once_leave_one_vm_in_the_pool(tmp_path):
    """Of the page on health probes, with two VMs, and with the figures of a balancer that notices sooner."""
    inventory = printed("docs/health-probe.md", "web").replace("web[1:5]", "web[1:2]").replace("margin: 10", "interval: 1")
    webs = ["web1", "web2"]
    with Site(tmp_path, inventory, webs) as site:
        for name in webs:
            site.nodes[name].must("mkdir", "-p", "/var/www")
            site.nodes[name].start(sys.executable, "-c", WEB, "8080")
            site.ctl("add", "Reboot", name, "ImpactSeconds=2", "SettleSeconds=1")
        seen = []
        with site.running() as run:
            while run.poll() is None:
                out = {name for name in webs if site.nodes[name].run("test", "-e", "/var/www/maintenance").returncode == 0}
                if seen[-1:] != [out]:
                    seen.append(out)
                time.sleep(0.1)
        assert run.returncode == 0, site.said()
        assert sorted(map(sorted, seen)) == [[], [], [], ["web1"], ["web2"]], (seen, site.said())
        assert {event["outcome"] for event in run_facts(site.said())["graceful_azure"]} == {"completed"}
        assert site.records() == set()


@patroni.NEEDED
@needs_program("setpriv", packages="util-linux")
def test_three_members_of_patroni(tmp_path):
    """Of its page."""
    names = ["db1", "db2", "db3"]
    user = pwd.getpwnam("postgres")
    with Site(tmp_path, printed("docs/duty-patroni.md", "databases"), names) as site:
        as_user = ("setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--init-groups", "--")
        azure = site.nodes[AZURE]
        peer, etcd = (f"http://{azure.address}:{port}" for port in (2380, 2379))
        words = ["--data-dir", "/var/etcd", "--listen-client-urls", etcd, "--advertise-client-urls", etcd, "--listen-peer-urls", peer]
        azure.start("etcd", *words, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}", "--unsafe-no-fsync")
        for name in names:
            node = site.nodes[name]
            node.must("sh", "-c", "mkdir -p /run/postgresql /var/postgresql && chown postgres: /run/postgresql /var/postgresql && chmod 700 /var/postgresql")
            configuration = {
                **patroni.CONFIGURATION,
                "name": name,
                "etcd3": {"host": f"{azure.address}:2379"},
                "restapi": {"listen": "0.0.0.0:8008", "connect_address": f"{node.address}:8008"},
                "postgresql": {
                    "listen": "0.0.0.0:5432",
                    "connect_address": f"{node.address}:5432",
                    "data_dir": "/var/postgresql/data",
                    "bin_dir": str(patroni.SERVERS[-1].parent),
                    "authentication": patroni.AUTHENTICATION,
                    "parameters": {"unix_socket_directories": "/run/postgresql", "fsync": "off"},
                    "pg_hba": ["host all all 0.0.0.0/0 trust", "host replication all 0.0.0.0/0 trust"],
                    "pgpass": "/run/postgresql/pgpass",
                },
            }
            node.must("tee", "/var/patroni.yml", input=json.dumps(configuration))
            node.start(*as_user, patroni.PATRONI, "/var/patroni.yml", log=tmp_path / f"patroni-{name}.log")

        def members():
            told = site.nodes["db1"].run("curl", "--silent", "http://localhost:8008/cluster").stdout
            return {member["name"]: member for member in json.loads(told)["members"]} if told else {}

        def leader():
            return next((name for name, member in members().items() if member["role"] == "leader"), None)

        def is_whole():
            found = members()
            healthy = [member for member in found.values() if member["state"] in ("running", "streaming") and member.get("lag", 0) == 0]
            return leader() and len(healthy) == len(names)

        until(is_whole, 120, pause=0.5)
        former = leader()
        site.see_a_reboot_through(former, lambda: leader() in set(names) - {former})
        assert leader() != former


def test_a_host_is_given_back_without_ansible(tmp_path):
    """By what the page says to type for HAProxy and for a health file, after a run was killed."""
    page = (ROOT / "docs" / "when-something-is-wrong.md").read_text().partition("### Without Ansible")[2].partition("\n### ")[0]
    (of_haproxy,) = (block for block in re.findall(r"^```shell\n(.*?)^```", page, re.DOTALL | re.MULTILINE) if "set server" in block)
    (of_file,) = re.findall(r"^\| `file`, `out` \| `(.*)` \|", page, re.MULTILINE)
    duties = "[{type: health_probe, action: file, file: /var/www/maintenance}, {type: haproxy, hosts: [lb1]}]"
    inventory = (
        f"web:\n  hosts:\n    web1:\n    web2:\n  vars:\n    graceful_azure_ports: [80]\n    graceful_azure_duties: {duties}\nbalancers:\n  hosts:\n    lb1:\n"
    )
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "socat.py").write_text(SOCAT)
    for name, words in (("sudo", 'exec "$@"'), ("socat", f'exec {sys.executable} {programs}/socat.py "$@"')):
        (programs / name).write_text(f"#!/bin/sh\n{words}\n")
        (programs / name).chmod(0o755)
    with Site(tmp_path, inventory, ["web1", "web2"], ["lb1"]) as site:
        web, balancer = site.nodes["web1"], site.nodes["lb1"]
        (tmp_path / "haproxy.cfg").write_text(HAPROXY + "".join(f"    server {name} {site.nodes[name].address}:80\n" for name in site.hosts))
        for name in site.hosts:
            site.nodes[name].must("mkdir", "-p", "/var/www")
            site.nodes[name].start(sys.executable, "-c", WEB, "80")
        balancer.must("mkdir", "/run/haproxy")
        balancer.start("haproxy", "-f", str(tmp_path / "haproxy.cfg"))

        def serves():
            told = balancer.run(sys.executable, "-c", STATES).stdout
            return any(line.split()[3:7:3] == ["web1", "0"] for line in told.splitlines()) and web.run("test", "-e", "/var/www/maintenance").returncode != 0

        until(serves, 30)
        with site.held("web1"):
            assert not serves() and site.records() == {"web1", "lb1"}
        await_requests()
        for node, lines in ((web, of_file), (balancer, of_haproxy)):
            node.must("env", f"PATH={programs}:{os.environ['PATH']}", "sh", "-ec", lines)
            node.must("sh", "-c", "rm /var/lib/graceful_azure/*.json")
        assert serves() and site.records() == set()
        command_line = ["ansible-playbook", "-i", str(site.folder / "inventory.yml"), "-i", str(site.folder / "here.json"), "graceful.azure.holds"]
        said = must_pass(*command_line, "-e", "target=web", env=ansible_settings(site.folder), timeout=200)
        assert "Nothing is held" in said
