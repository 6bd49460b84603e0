# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pages of docs/ on how to begin, followed word for word on fresh guests. What comes from the network lies on the guest: the Debian
packages in its image, those of Python in a folder that pip knows, the collection in a repository that git finds at its address."""

from __future__ import annotations

import json
import os
import posixpath
import re
import shlex
import time
from pathlib import Path

import pytest

from tests.bed import kernel
from tests.support.awx import fetch_collection
from tests.support.awx_jobs import JobsAwx
from tests.support.checkout import BUILD
from tests.support.guests import booted
from tests.support.pages import PACKAGES, REPOSITORY, STAYS, Terminal, blocks, files_of, lines_of, prepare, start_nginx, steps
from tests.support.patience import until
from tests.support.receiver import certificate, without_key
from tests.support.simulator import SHORT

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

HOME = "/etc/graceful-azure"
TRIAL = "graceful_azure_imds_url: http://127.0.0.1:8171"
PASS = "PLAY [Handle scheduled events]"


@pytest.fixture(name="guest")
def make_guest(tmp_path):
    with booted(tmp_path, packages=PACKAGES) as guest:
        prepare(guest)
        yield guest


@pytest.fixture(name="terminal")
def make_terminal(guest):
    opened = []

    def terminal(name):
        opened.append(Terminal.on(guest, name))
        return opened[-1]

    yield terminal
    for each in opened:
        each.close()


def write(guest, path, text):
    guest.says(f"cat > {posixpath.join(HOME, path)}", text.encode())


def install(terminal):
    """The page for one VM, as far as it installs."""
    ((_kind, text),) = blocks("docs/one-vm.md", "2. Install")
    for line in text.splitlines():
        terminal.run(line)


def seen_through(guest, event_id=None):
    """The simulator's last event, or that one, if it is over and was approved."""
    events = json.loads(guest.says("curl --silent http://127.0.0.1:8169/events"))
    event = events[-1] if event_id is None else next(event for event in events if event["EventId"] == event_id)
    return event["EventStatus"] == "Completed" and [approval["Vm"] for approval in event["Approvals"]] == ["web1"]


def test_one_vm_and_no_controller(guest, terminal):
    start_nginx(guest)
    shell = terminal("shell")
    todo = iter(steps("one-vm.md"))
    for kind, *said in todo:
        if kind == "file":
            write(guest, *said)
        elif STAYS.match(said[0]):
            shell.type(said[0])
            break
        else:
            shell.run(said[0])
    assert re.findall(r"^HTTP/1.1 ([0-9]+)", shell.text(), re.MULTILINE) == ["503", "200"]
    began = time.monotonic()
    until(lambda: guest.ssh("curl --silent --fail --output /dev/null http://localhost:8081/").returncode == 22, 60, shell.text)
    print(f"the probe fails after {time.monotonic() - began:.1f} s")
    until(lambda: guest.ssh("systemctl is-active nginx").stdout == b"inactive\n", 60, shell.text)
    until(lambda: "]: restored: " in shell.text(), 120, shell.text)
    print(f"restored after {time.monotonic() - began:.1f} s")
    until(lambda: seen_through(guest), 60, shell.text)
    until(lambda: guest.ssh("curl --silent --fail http://localhost:8081/ && curl --silent --fail http://localhost/").returncode == 0, 60, shell.text)
    until(lambda: guest.ssh("ls /var/lib/graceful_azure/*.json").returncode != 0, 30, shell.text)
    assert guest.ssh("ls /var/lib/out-of-service").returncode != 0

    shell.interrupt()
    inventory = files_of("one-vm.md")[f"{HOME}/inventory.yml"]
    write(guest, "inventory.yml", "".join(line for line in inventory.splitlines(keepends=True) if TRIAL not in line))
    for kind, line in todo:
        assert kind == "line"
        shell.run(line)
    assert "host www_1" in guest.says("graceful-azure-watcher --status")
    assert "Nothing is held for web1." in shell.text()


def test_schedules(guest, terminal):
    """The timer, the service that waits, and the line of cron, also when a run lasts longer than a minute."""
    install(terminal("shell"))
    web1 = {"ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3", "graceful_azure_duties": []}
    write(guest, "inventory.yml", json.dumps({"web": {"hosts": {"web1": web1}}}))
    for path, text in files_of("run-it.md", "A schedule", "A playbook that waits").items():
        write(guest, path, text)

    def freeze():
        event_id = guest.event(EventType="Freeze", **SHORT)
        return lambda: [event for event in json.loads(guest.bed("events")) if event["EventId"] == event_id and event["EventStatus"] == "Completed"]

    timer = terminal("timer")
    is_over = freeze()
    for line in lines_of("run-it.md", "A schedule"):
        if STAYS.match(line):
            timer.type(line)
        else:
            timer.run(line)
    until(is_over, 240, timer.text)
    # The guest was frozen, and may not answer at once. A run that the timer has just started would handle the next event, too.
    until(lambda: guest.ssh("systemctl disable --now graceful-azure.timer && systemctl stop graceful-azure.service").returncode == 0, 60)
    # journalctl --follow begins with the last ten lines.
    assert "TASK [" in timer.text() and PASS in guest.says("journalctl --output=cat --unit=graceful-azure.service")

    is_over = freeze()
    guest.says("systemctl daemon-reload && systemctl start graceful-azure-watch.service")
    until(is_over, 240)
    until(lambda: guest.ssh("systemctl stop graceful-azure-watch.service").returncode == 0, 60)
    assert PASS in guest.says("journalctl --output=cat --unit=graceful-azure-watch.service")

    def passes():
        return guest.says("journalctl --output=cat --identifier=graceful-azure").count(PASS)

    every_minute = "* * * * * root "
    (table,) = (text for _kind, text in blocks("docs/run-it.md", "A schedule") if every_minute in text)
    line = next(line for line in table.splitlines() if line.startswith(every_minute))
    command = line.partition(" root ")[2].strip()
    # As cron starts it: not by bash.
    guest.says(f"printf '%s\\n' {shlex.quote(command)} > /root/line; sh /root/line & sh /root/line & wait", seconds=200)
    until(passes, 20)
    assert passes() == 1
    guest.says("cat > /etc/cron.d/graceful-azure", f"{table}\n".encode())
    until(lambda: passes() == 2, 120)


def test_event_driven_ansible(guest, terminal):
    """Both rulebooks, each with an event. Where the page has lines for what runs in front, they are for a second shell; a new line for the
    first, or a new file, comes after Ctrl-C."""
    first, second = terminal("first"), terminal("second")
    running, add = None, None

    def see_an_event():
        before, began = first.text().count("web1): completed"), time.monotonic()
        second.run(add)
        until(lambda: first.text().count("web1): completed") > before, 240, first.text)
        print(f"{running}: completed after {time.monotonic() - began:.1f} s")
        until(lambda: seen_through(guest), 30, first.text)
        return 1

    def start(line):
        before = len(first.text())
        first.type(line)
        # The pass at the start, which finds no event.
        until(lambda: "PLAY RECAP" in first.text()[before:], 240, first.text)

    def end():
        if not seen:
            see_an_event()
        first.interrupt()

    seen = 0
    for kind, *said in steps("eda.md", "1. Install", "2. Try it with a simulated event", "3. The same with a watcher"):
        line = said[0]
        if kind == "line" and "/events" in line:
            add = line
            seen += see_an_event()
            continue
        if running:
            end()
            running = None
        if kind == "file":
            write(guest, *said)
        elif STAYS.match(line):
            running, seen = line, 0
            start(line)
        else:
            first.run(line)
    assert "webhook" in running
    end()
    assert guest.lines("action_done") and not guest.lines("action_refused") and "Traceback" not in first.text()


class OwnMachine:
    """Where docs/run-it.md has its reader sit: in the network of the guests, with ssh to them by their names in Azure's place."""

    def __init__(self, guests, folder, pem):
        self.folder = folder
        programs = folder / "bin"
        programs.mkdir()
        hosts = ("web1", "web2", "lb1")
        (folder / "ssh_config").write_text(
            "".join(f"Host {name}\nHostName {guests.address(name)}\nUser azureuser\n" for name in hosts)
            + f"Host *\nIdentityFile {guests.folder}/key\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n"
        )
        network = kernel.NAMESPACES / guests.namespace
        for name in ("ssh", "sftp", "scp"):
            (programs / name).write_text(f'#!/bin/sh\nexec nsenter --net={network} /usr/bin/{name} -F {folder}/ssh_config "$@"\n')
            (programs / name).chmod(0o755)
        (folder / "hosts").write_text(f"127.0.0.1 localhost\n{guests.gateway} awx.example.com\n")
        self.environment = {"PATH": f"{programs}:{os.environ['PATH']}"}
        # Both of these read it, requests too.
        self.environment |= dict.fromkeys(("SSL_CERT_FILE", "CURL_CA_BUNDLE"), str(pem))
        self.environment["ANSIBLE_COLLECTIONS_PATH"] = f"{BUILD / 'collections'}:{fetch_collection()}"
        enter = f"cd {folder} && mount --bind {folder}/hosts /etc/hosts && exec bash"
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        self.terminal = Terminal(["nsenter", f"--net={network}", "unshare", "--mount", "env", *variables, "sh", "-c", enter], folder / "terminal.txt")


@pytest.fixture(name="site")
def make_site(tmp_path):
    with booted(tmp_path / "bed", web=2, balancers=1, packages=PACKAGES) as guests:
        for name in ("web1", "web2", "lb1"):
            guests.says(
                "useradd --create-home azureuser && echo 'azureuser ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/azureuser"
                " && cp -r /root/.ssh ~azureuser && chown -R azureuser: ~azureuser/.ssh",
                name=name,
            )
        yield guests


def test_awx(site, tmp_path):
    """From the set-up to a job. AWX itself is a stand-in of its API, which runs the jobs that are launched by ansible-runner, as AWX does. So these
    are not AWX's: how it fetches the project and fills its inventory, its users' rights, its schedule."""
    folder = tmp_path / "own"
    folder.mkdir()
    pem = certificate(folder, "awx.example.com")
    own = OwnMachine(site, folder, pem)
    # The guests trust it as they do any certificate.
    for name in ("web1", "web2"):
        site.says("cat > /usr/local/share/ca-certificates/awx.crt && update-ca-certificates", without_key(pem), name=name)
        site.says(f"echo '{site.gateway} awx.example.com' >> /etc/hosts", name=name)
    listening = kernel.listening_socket(site.namespace, site.gateway, 443)
    with JobsAwx(folder, pem, listening, own.environment) as awx:
        try:
            follow_awx(site, own, awx)
        finally:
            own.terminal.close()


def follow_awx(site, own, awx):
    (inventory,) = (text for _kind, text in blocks("docs/getting-started.md") if text.startswith("# inventory.yml"))
    addresses = {address: site.address(name) for name, address in re.findall(r"(\w+): {ansible_host: ([0-9.]+)}", inventory)}
    for written, meant in addresses.items():
        inventory = inventory.replace(written, meant)
    # The application of the guests.
    inventory = inventory.replace("[80]", "[8080]").replace("127.0.0.1/health", "127.0.0.1:8080/health")
    awx.inventory = own.folder / "inventory.yml"
    on_trial = re.sub("(web1: {.*)}", rf"\1, {TRIAL}}}", inventory)
    assert on_trial.count(TRIAL) == 1
    awx.inventory.write_text(on_trial)
    page = (Path(BUILD).parent / "docs" / "run-it.md").read_text()
    awx.project = dict(re.findall(r"\| `(\w+\.yml)` +\| `(- import_playbook: .*?)` +\|", page))
    assert set(awx.project) == {"handle_events.yml", "holds.yml"}

    password = shlex.quote(awx.password)
    replaced = {"CONTROLLER_PASSWORD=...": f"CONTROLLER_PASSWORD={password}", "--user watcher": f"--user watcher:{password}", **addresses}
    token, begun = None, False
    for kind, *said in steps("run-it.md", "A watcher, and AWX"):
        line = said[0]
        if kind == "file":
            (own.folder / line).write_text(said[1])
            continue
        if line.startswith("ansible-galaxy collection install"):
            # From the network, and here already.
            assert "awx.awx:24.6.1" in line and REPOSITORY in line
            continue
        for written, meant in replaced.items():
            line = line.replace(written, meant)
        if "WATCHER_TOKEN" in line:
            token = json.loads(re.findall(r'^{.*"token".*}$', own.terminal.text(), re.MULTILINE)[-1])["token"]
            line = line.replace("WATCHER_TOKEN=...", f"WATCHER_TOKEN={shlex.quote(token)}")
        own.terminal.run(line)
        begun = begun or "/events" in line
    assert begun
    journal = "journalctl --output=cat --unit=graceful-azure-watcher"
    job = until(lambda: awx.ended("Handle scheduled events"), 120, lambda: own.terminal.text() + site.says(journal))
    assert json.loads(job["extra_vars"])["target"] == "web1"
    assert job["status"] == "successful" and "completed" in job["said"].rpartition("TASK [")[2], job["said"]
    assert seen_through(site)
    assert site.ssh("ls /var/lib/graceful_azure/*.json", name="lb1").returncode != 0

    # The trial over.
    awx.inventory.write_text(inventory)
    own.terminal.run(f"WATCHER_TOKEN={shlex.quote(token)} ansible-playbook -i inventory.yml watcher.yml")
    own.terminal.run("ansible-playbook -i inventory.yml -e imds_simulator_state=absent simulator.yml")
    until(lambda: "host www_1" in site.ssh("graceful-azure-watcher --status").stdout.decode(), 30)
