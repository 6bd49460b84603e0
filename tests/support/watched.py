# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A booted VM whose watcher starts one of the four kinds of action: behind a balancer, under load, from an event to its end."""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

from tests.bed import kernel
from tests.support.guests import install_ansible
from tests.support.pages import HEALTH, files_of, start_nginx
from tests.support.patience import patient, until
from tests.support.programs import Job, Rulebook
from tests.support.receiver import KEY, TOKEN, Awx, certificate, without_key

KINDS = ("run", "awx", "eda", "file")
PLAYBOOK = "/opt/graceful-azure/bin/ansible-playbook --inventory=/etc/graceful-azure/inventory.yml --extra-vars=target=web1 graceful.azure.handle_events"
TOLD = "/var/lib/told/events.json"
# What a user says of the hosts.
SETTINGS = {
    "graceful_azure_duties": [{"type": "haproxy", "hosts": ["lb1"]}, "web.service"],
    "graceful_azure_ports": [8080],
    "graceful_azure_health_url": "http://127.0.0.1:8080/",
}
# The kind "file" tells, and something of the user's acts: here a unit of systemd.
UNITS = {
    "handle.path": f"[Path]\nPathChanged={TOLD}\n\n[Install]\nWantedBy=multi-user.target\n",
    "handle.service": f"[Service]\nType=oneshot\nExecStart={PLAYBOOK}\n",
}
# What docs/one-vm.md has for a Spot VM.
FLAG = "/var/lib/out-at-once"
FAST_PATH = {"fast_path": ["touch", FLAG], "fast_path_undo": ["rm", "-f", FLAG]}
# The health probe of docs/one-vm.md, which its web server answers beside the application.
PROBE_PORT = 8081
# Run on the balancer: each state that the administrator's commands and its checks give a server, with its time.
LOOK = """
import socket, time
last = {}
while True:
    with socket.socket(socket.AF_UNIX) as asked:
        asked.connect("/run/haproxy/admin.sock")
        asked.sendall(b"show servers state\\n")
        text = b"".join(iter(lambda: asked.recv(65536), b"")).decode()
    for fields in map(str.split, text.splitlines()):
        if len(fields) > 6 and fields[0].isdigit() and last.get(fields[3]) != fields[5:7]:
            last[fields[3]] = fields[5:7]
            print(time.time(), fields[3], fields[6], fields[5], flush=True)
    time.sleep(0.02)
"""


class RunningAwx(Awx):
    """An AWX that starts what it is asked for, as the real one does: by ansible-runner."""

    def __init__(self, folder, inventory, **receiver):
        self.folder, self.inventory = folder, inventory
        super().__init__(**receiver)

    def add_job(self, variables, status="running"):
        job = super().add_job(variables, status)
        name = f"job-{job['id']}"

        def ended(said, status):
            (self.folder / f"{name}.txt").write_text(said)
            self.end(job, status)

        Job(self.folder / name, self.inventory, **variables).on_end(ended)
        return job

    def first_tasks(self, started):
        """Of each job, the seconds to its playbook's first task: from the line in the watcher's journal that says that its action
        was started (``started`` has the times of these), and from the launch as it was received."""
        launches = [request["time"] for request in self.posted() if request["path"].endswith("/launch/")]
        told = {"said": [], "received": []}
        for job, received in zip(self.jobs, launches, strict=True):
            events = map(json.loads, (path.read_text() for path in (self.folder / f"job-{job['id']}").glob("artifacts/job/job_events/*.json")))
            begun = min(datetime.fromisoformat(event["created"]) for event in events if event["event"] == "playbook_on_task_start")
            begun = begun.replace(tzinfo=begun.tzinfo or timezone.utc).timestamp()
            told["said"].append(begun - said_before(received, started))
            told["received"].append(begun - received)
        return told


def said_before(received, started):
    """The last time before a launch was received. The line and the request go out at once, so it may be some milliseconds later, too."""
    return max(when for when in started if when <= received + 0.1)


class Watched:
    """web1 and its watcher; ``guests`` has a second web server and the balancer lb1, too. Everything ends with close()."""

    def __init__(self, guests, kind):
        self.guests = guests
        self.kind = kind
        # One bed may see the same kind more than once.
        self.folder = Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=guests.folder))
        self.stack = contextlib.ExitStack()
        self.namespace = guests.namespace
        self.address = guests.gateway
        self.role = getattr(self, f"_{kind}")()
        self.changes = self.folder / "changes"
        with self.changes.open("wb") as changes:
            look = subprocess.Popen([*guests.reach("lb1"), "python3 -u -"], stdin=subprocess.PIPE, stdout=changes, stderr=subprocess.STDOUT)
        look.stdin.write(LOOK.encode())
        look.stdin.close()
        self.stack.callback(look.wait)
        self.stack.callback(look.kill)
        until(lambda: self.state() == "0", 15)
        guests.role(**self.role)
        until(lambda: guests.ssh("graceful-azure-watcher --status").returncode == 0, 30)

    def close(self):
        self.guests.role(state="absent")
        self.stack.close()

    # The kinds: what stands ready, and what the watcher is told

    def _run(self):
        self._ansible_on_the_vm()
        return {"action": "run", "command": PLAYBOOK.split()}

    def _file(self):
        self._ansible_on_the_vm()
        self.guests.says("mkdir -p /var/lib/told")
        for name, text in UNITS.items():
            self.guests.says(f"cat > /etc/systemd/system/{name}", text.encode())
        self.guests.says("systemctl daemon-reload && systemctl enable --now handle.path")
        self.stack.callback(self.guests.says, "systemctl disable --now handle.path")
        return {"action": "file", "path": TOLD}

    def _awx(self):
        pem = certificate(self.folder, "awx.test")
        listening = kernel.listening_socket(self.namespace, self.address, 0)
        awx = self.awx = self.stack.enter_context(RunningAwx(self.folder, self._inventory(), tls=pem, listening=listening))
        self.guests.says(f"sed -i /awx.test/d /etc/hosts && echo {self.address} awx.test >> /etc/hosts")
        self.guests.says("cat > /etc/awx.pem", without_key(pem))
        return {"action": "awx", "url": f"https://awx.test:{awx.port}{awx.path}", "secret": TOKEN, "ca_file": "/etc/awx.pem"}

    def _eda(self):
        self.start_rulebook()
        self.stack.callback(self.end_rulebook)
        return {"action": "eda", "auth": "hmac", "url": f"http://{self.address}:5000/endpoint", "secret": KEY}

    def end_rulebook(self):
        self.rulebook.close()

    def start_rulebook(self):
        before = ["nsenter", f"--net={kernel.NAMESPACES / self.namespace}"]
        settings = {"webhook_host": self.address, "webhook_port": 5000, "webhook_hmac_secret": KEY, "target": "web"}
        self.rulebook = Rulebook(self.folder, self._inventory(), "webhook", before, **settings)
        connect = f"import socket; socket.create_connection(({self.address!r}, 5000), 1)"
        until(lambda: self.guests.ssh(f'python3 -c "{connect}"').returncode == 0, 90, self.rulebook.text)

    def _fast_path(self):
        """Nobody but the fast path acts: no playbook runs, and nothing is approved."""
        health = files_of("one-vm.md")[HEALTH].replace("    return 200;", f"    if (-f {FLAG}) {{ return 503; }}\n    return 200;")
        for name in ("web1", "web2"):
            self.guests.says(f"cat > {HEALTH}", health.encode(), name=name)
            start_nginx(self.guests, name)
        self.guests.says(f"sed -i 's/weight 100$/& port {PROBE_PORT}/' /etc/haproxy/haproxy.cfg && systemctl restart haproxy", name="lb1")
        return {"action": "file", **FAST_PATH}

    def _inventory(self):
        """For Ansible on the controller."""
        inventory = self.guests.inventory()
        inventory["children"]["web"]["vars"] = SETTINGS
        path = self.folder / "inventory.yml"
        path.write_text(json.dumps({"all": inventory}))
        return path

    def _ansible_on_the_vm(self):
        if self.guests.ssh("test -e /opt/graceful-azure/bin/ansible-playbook").returncode != 0:
            install_ansible(self.guests)
            self.guests.says("install -m 600 /dev/stdin /root/.ssh/balancer", (self.guests.folder / "key").read_bytes())
            host = {**SETTINGS, "ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3", "graceful_azure_resource_name": "www_1"}
            balancer = {
                "ansible_host": self.guests.address("lb1"),
                "ansible_user": "root",
                "ansible_python_interpreter": "/usr/bin/python3",
                "ansible_ssh_private_key_file": "/root/.ssh/balancer",
                "ansible_ssh_common_args": self.guests.inventory()["vars"]["ansible_ssh_common_args"],
            }
            inventory = {"all": {"hosts": {"web1": host, "lb1": balancer}}}
            self.guests.says("cat > /etc/graceful-azure/inventory.yml", json.dumps(inventory).encode())

    # What happens

    def states(self):
        """Of web1 on the balancer, each with the time since when."""
        return [(when, state) for when, state, _checked in self._changes()]

    def _changes(self):
        rows = [line.split() for line in self.changes.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return [(float(row[0]), row[2], row[3] == "2") for row in rows if len(row) == 4 and row[1] == "web1"]

    def is_up(self):
        """Whether the balancer's checks have web1 up."""
        return self._changes()[-1][2]

    def down_after(self, moment):
        """When the balancer's checks took web1 out first after that; None while they have not."""
        return next((when for when, _state, up in self._changes() if when >= moment and not up), None)

    def state(self):
        return self.states()[-1][1] if self.states() else None

    def ask_simulator(self, path, body=None):
        return self.guests.ask_simulator(path, body)

    def announce(self, event_type, notice=900):
        impact = 8 if event_type == "Reboot" else 3
        event = {"EventType": event_type, "Resources": ["www_1"], "NoticeSeconds": notice, "ImpactSeconds": impact, "SettleSeconds": 1}
        return self.ask_simulator("/events", event)["EventId"]

    def event(self, event_id):
        (event,) = [event for event in self.ask_simulator("/events") if event["EventId"] == event_id]
        return event

    def at_work(self):
        """Whether a run of the playbook is under way: it would take the next event for its own, which is then not what was started for it."""
        if self.kind == "awx":
            return any(job["status"] == "running" for job in self.awx.jobs)
        if self.kind == "eda":
            return self.rulebook.runs() > self.rulebook.text().count("PLAY RECAP")
        return self.guests.ssh("pgrep --full [h]andle_events").returncode == 0

    def rest(self):
        """Waits until nothing has been at work for three seconds on end: what was over is often looked at once more."""
        idle_since = time.monotonic()
        deadline = idle_since + patient(120)
        while time.monotonic() < idle_since + 3:
            if self.at_work():
                idle_since = time.monotonic()
            assert idle_since < deadline, f"{self.kind}: a run does not end\n{self.said()}"
            time.sleep(0.3)

    def see_through(self, event_id, seconds=150, runs=1):
        """An event to its end: seconds from its notice until web1 was out of rotation. C(runs) side by side may each approve it."""
        deadline = time.monotonic() + patient(seconds)
        while True:
            time.sleep(0.5)
            event = self.event(event_id)
            if event["EventStatus"] == "Completed" and self.state() == "0":
                break
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.kind}: {event['EventType']} is {event['EventStatus']}, web1 {self.states()}\n{self.said()}")
        began = event["History"][0]["Time"]
        approvals = [approval["Vm"] for approval in event["Approvals"]]
        assert approvals and approvals == ["www_1"] * min(len(approvals), runs), event["Approvals"]
        return next(when for when, state in self.states() if when >= began and state != "0") - began

    def see_evicted(self):
        """A Preempt with the notice of a Spot VM, to its end: seconds from the answer that showed it until the fast path's command ran,
        and from then until the balancer had web1 down."""
        event_id = self.announce("Preempt", notice=30)
        began = self.event(event_id)["History"][0]["Time"]
        down = until(lambda: self.down_after(began), 20, self.said)
        # What the command makes says when it ran.
        ran = float(self.guests.says(f"stat --format=%.9Y {FLAG}"))
        shown = max(request["Time"] for request in self.ask_simulator("/requests") if request["Vm"] == "www_1" and began <= request["Time"] <= ran)
        event = until(lambda: (event := self.event(event_id))["EventStatus"] == "Completed" and event, 60, self.said)
        assert event["Approvals"] == []
        # It stayed out while the VM was off and when it came back: the flag is on the disk.
        assert not [when for when, _state, up in self._changes() if up and down < when < event["History"][-1]["Time"]]
        until(self.is_up, 60, self.said)
        assert self.guests.ssh(f"test -e {FLAG}").returncode == 1
        return ran - shown, down - ran

    def said(self):
        """What may explain a failure."""
        journal = self.guests.ssh("journalctl --output=cat --lines=60 --unit=graceful-azure-watcher --unit=handle.service").stdout.decode(errors="replace")
        return "\n".join([journal, *(path.read_text(errors="replace")[-4000:] for path in sorted(self.folder.glob("*.txt")))])


@contextlib.contextmanager
def watched_under_load(guests, kind):
    """A Watched for as long as it lasts; what became of the requests is in its ``load`` afterwards."""
    watched = Watched(guests, kind)
    try:
        guests.bed("load-start")
        yield watched
        watched.load = json.loads(guests.bed("load-stop"))
    finally:
        watched.close()


def measure(guests, kind, event_types):
    """Sees these events through under load; the seconds until out of rotation of each, what became of the requests, and with AWX
    the seconds from a launch to the first task, see RunningAwx.first_tasks."""
    with watched_under_load(guests, kind) as watched:
        out = []
        for event_type in event_types:
            watched.rest()
            out.append(watched.see_through(watched.announce(event_type)))
        watched.rest()
        first_tasks = watched.awx.first_tasks([line["time"] for line in guests.lines("action_started")]) if kind == "awx" else {}
    return out, watched.load, first_tasks


def measure_fast_path(guests, rounds):
    """Evictions under load, one after the other: what see_evicted tells of each, and what became of the requests."""
    with watched_under_load(guests, "fast_path") as watched:
        took = [watched.see_evicted() for _round in range(rounds)]
    return took, watched.load
