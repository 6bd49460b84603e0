# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role event_watcher: what it refuses, and as root what it does on a booted guest."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys

import pytest
import yaml
from graceful_azure_watcher.settings import DEFAULTS, Settings

from tests.bed import kernel
from tests.matrix import environments
from tests.support.checkout import ROOT, must_pass
from tests.support.guests import ENTRY, booted
from tests.support.patience import until
from tests.support.playbook import play_here
from tests.support.receiver import TOKEN, Webhook, certificate, without_key

TEMPLATE = "https://awx.example.com/api/v2/job_templates/7/"
COPY = "ansible.builtin.copy"
NOTHING_THERE = ("/usr/local/lib/graceful-azure-watcher", "/etc/graceful-azure-watcher", "/etc/systemd/system/graceful-azure-watcher.service")

# What is wrong, and what the role must say of it.
REFUSED = {
    "platform": ({"graceful_azure_platform": "windows", "action": "file"}, "here is a Windows host, and the watcher is a service of systemd."),
    "shell": ({"ansible_shell_type": "powershell", "action": "file"}, "here is a Windows host"),
    "nothing": ({}, "event_watcher_action is not given: it must be one of run, awx, eda, file."),
    "unknown kind": ({"action": "mail"}, "event_watcher_action is 'mail': it must be one of"),
    "no command": ({"action": "run"}, "event_watcher_action run needs event_watcher_command."),
    "a line": ({"action": "run", "command": "/usr/bin/handle --now"}, "must be lists, like [touch, /run/out]."),
    "an empty word": ({"action": "run", "command": ["/usr/bin/handle", ""]}, "A word of event_watcher_command, event_watcher_fast_path or"),
    "a list in it": ({"action": "file", "fast_path": ["touch", ["/run/out"]]}, "is empty, or neither text nor a number."),
    "scheme": ({"action": "eda", "url": "gopher://eda.example.com/", "secret": "s"}, "event_watcher_url must be like https://"),
    "password": ({"action": "eda", "url": "https://me:hidden@eda.example.com/", "secret": "s"}, "must not carry a user name or password"),
    "unencrypted": ({"action": "eda", "url": "http://eda.example.com/", "secret": "s"}, "would send the token unencrypted"),
    "no template": ({"action": "awx", "url": "https://awx.example.com/", "secret": "s"}, "must be that of a job template"),
    "auth": ({"action": "awx", "url": TEMPLATE, "auth": "hmac", "secret": "s"}, "event_watcher_auth is 'hmac': with event_watcher_action awx it must be"),
    "no secret": ({"action": "awx", "url": TEMPLATE}, "exactly one of the two must be given"),
    "two secrets": ({"action": "awx", "url": TEMPLATE, "secret": "s", "secret_file": "/etc/key"}, "exactly one of the two must be given"),
    "newline": ({"action": "awx", "url": TEMPLATE, "secret": "first\nsecond"}, "event_watcher_secret must be one line"),
    "unreadable": ({"action": "awx", "url": TEMPLATE, "secret_file": "/nowhere/key"}, "/nowhere/key is not on the VM."),
    "open": ({"action": "awx", "url": TEMPLATE, "secret_file": "/etc/hostname"}, "/etc/hostname can be read by others"),
    "folder": ({"action": "file", "directory": "/etc"}, "/etc holds other things: event_watcher_directory must be"),
    "relative": ({"action": "awx", "url": TEMPLATE, "secret_file": "key"}, "must be an absolute path, or credential:NAME"),
    "seconds": ({"action": "file", "repeat": 0}, "event_watcher_repeat must be a number of seconds from 1 up, not 0"),
    "python": ({"action": "file", "python": "/nowhere/python"}, "/nowhere/python cannot run the watcher"),
    "one type": ({"action": "file", "fast_path": ["out"], "fast_path_types": "Preempt"}, "must be lists, like"),
    "type": ({"action": "file", "fast_path_types": ["Panic"]}, "value of event_watcher_fast_path_types must be one or more of"),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("words", [(), ("--check",)], ids=["run", "check mode"])
def test_a_machine_without_systemd_is_refused_before_anything_is_written(tmp_path, words):
    places = {f"__event_watcher_{name}": str(tmp_path / place) for name, place in PLACES.items()}
    given = {"event_watcher_directory": str(tmp_path / "code"), "event_watcher_action": "eda", "event_watcher_url": "https://eda.example.com/"}
    given.update(places, event_watcher_secret="s3cret", __event_watcher_systemd_folder=str(tmp_path / "nowhere"))
    play_here(tmp_path, [*tasks_of("here", given), keep_said(tmp_path)], *words, vars={"said": {}})
    said = json.loads((tmp_path / "said.json").read_text())["here"]
    assert f"systemd does not run this machine (there is no {tmp_path}/nowhere)" in said and '"Without systemd"' in said
    assert {path.name for path in tmp_path.iterdir()} == {"play.yml", "said.json"}


@pytest.mark.long
@pytest.mark.timeout(300)
def test_what_is_refused(tmp_path):
    """Each with a sentence, and with nothing changed."""
    # One set of tasks for each case: a variable of a loop would not be undefined where a case does not give it.
    for number, (case, (variables, _said)) in enumerate(REFUSED.items()):
        given = {name if name.startswith(("graceful", "ansible")) else f"event_watcher_{name}": value for name, value in variables.items()}
        (tmp_path / f"case{number}.yml").write_text(json.dumps(tasks_of(case, given)))
    tasks = [{"ansible.builtin.include_tasks": f"case{number}.yml"} for number in range(len(REFUSED))]
    play_here(tmp_path, [*tasks, keep_said(tmp_path)], "--check", vars={"said": {}})
    said = json.loads((tmp_path / "said.json").read_text())
    assert {case: said[case] for case, (_variables, wanted) in REFUSED.items() if wanted not in said[case]} == {}
    assert not any("hidden" in text or "first" in text for text in said.values())
    assert not any(os.path.exists(path) for path in NOTHING_THERE)


@pytest.mark.timeout(environments.MAKE_SECONDS + 300)
@pytest.mark.parametrize("core", ["own", "oldest"])
def test_what_is_put_there(tmp_path, core):
    """Settings that the watcher takes, from numbers too; and a unit whose commands of the user's make files as they would by hand."""
    role = ROOT / "roles" / "event_watcher"
    cases = {
        "run": {"event_watcher_action": "run", "event_watcher_command": ["/usr/bin/handle", "--port", 8080]},
        "fast": {"event_watcher_action": "file", "event_watcher_fast_path": ["touch", 1], "graceful_azure_resource_name": 7},
        "file": {"event_watcher_action": "file"},
    }
    programs = None if core == "own" else environments.core(environments.oldest_core())
    content = next(task for task in yaml.safe_load((role / "tasks/present.yml").read_text()) if task["name"] == "Put the settings there")[COPY]["content"]
    tasks = []
    for case, given in cases.items():
        for name, text in (("json", content), ("unit", "{{ lookup('template', unit) }}")):
            tasks.append({COPY: {"content": text, "dest": str(tmp_path / f"{case}.{name}")}, "vars": given})
    play = {
        "vars_files": [str(role / "defaults/main.yml"), str(role / "vars/main.yml")],
        "vars": {"unit": str(role / "templates/graceful-azure-watcher.service.j2")},
    }
    play_here(tmp_path, tasks, programs=programs, **play)
    settings = {case: Settings(dict(DEFAULTS, **json.loads((tmp_path / f"{case}.json").read_text()))) for case in cases}
    assert settings["run"].command == ["/usr/bin/handle", "--port", "8080"]
    assert (settings["fast"].fast_path, settings["fast"].resource_name) == (["touch", "1"], "7")
    assert {case: "UMask=0077" in (tmp_path / f"{case}.unit").read_text() for case in cases} == {"run": False, "fast": False, "file": True}


# Where the role puts what the user cannot choose, for a role that is run on the machine of the tests.
PLACES = {
    "unit_file": "unit",
    "command_file": "command",
    "config_directory": "etc",
    "config_file": "etc/config.json",
    "data_directory": "data",
    "run_directory": "run",
}


@pytest.mark.long
@pytest.mark.timeout(environments.MAKE_SECONDS + 300)
def test_what_is_removed(tmp_path):
    """What was put there, and what it wrote; nothing else of a folder that is shared, nothing at all of one that is another's."""
    shared, theirs = tmp_path / "shared", tmp_path / "theirs"
    ours = ("shared/_imds.py", "shared/settings.py", "shared/VERSION", "shared/__pycache__/settings.pyc", "etc/secret", "data/state.json", "command")
    others = ("shared/more/notes.py", "theirs/settings.py", "theirs/VERSION", "never-written.json")
    for path in (tmp_path / name for name in (*ours, *others, "told.json", "watcher.prom")):
        path.parent.mkdir(exist_ok=True, parents=True)
        path.touch()
    settings = {"action": "file", "path": str(tmp_path / "told.json"), "textfile": str(tmp_path / "watcher.prom"), "command": []}
    tasks = []
    for folder, former in ((shared, settings), (theirs, dict(settings, action="run", path=str(tmp_path / "never-written.json"), textfile=str(shared)))):
        tasks += [
            {"ansible.builtin.file": {"path": str(tmp_path / "etc"), "state": "directory"}},
            {COPY: {"content": "{{ former | to_nice_json }}", "dest": str(tmp_path / "etc/config.json")}, "vars": {"former": former}},
            {"ansible.builtin.include_role": {"name": ENTRY}, "vars": {"event_watcher_state": "absent", "event_watcher_directory": str(folder)}},
        ]
    places = {f"__event_watcher_{name}": str(tmp_path / place) for name, place in PLACES.items()}
    # The oldest, which makes of text that looks like data what it looks like.
    play_here(tmp_path, tasks, "-e", json.dumps(places), programs=environments.core(environments.oldest_core()))
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()} == {*others, "play.yml"}
    assert not (shared / "__pycache__").exists() and not (tmp_path / "etc").exists()


def keep_said(folder):
    return {COPY: {"content": "{{ said | to_json }}", "dest": str(folder / "said.json")}, "check_mode": False}


def tasks_of(case, given):
    keep = "{{ said | combine({%s: %s}) }}"
    why = "ansible_failed_result.msg | string ~ ansible_failed_result.argument_errors | default('') | string"
    return [
        {
            "vars": {"event_watcher_python": sys.executable, **given},
            "block": [
                {"ansible.builtin.include_role": {"name": ENTRY}},
                {"ansible.builtin.set_fact": {"said": keep % (repr(case), "'nothing'")}},
            ],
            "rescue": [{"ansible.builtin.set_fact": {"said": keep % (repr(case), why)}}],
        }
    ]


# On a guest


@pytest.fixture(scope="module", name="guest")
def make_guest(tmp_path_factory):
    with booted(tmp_path_factory.mktemp("bed")) as guest:
        yield guest


@pytest.mark.long
@pytest.mark.timeout(900)
def test_installed_changed_killed_and_removed(guest):
    closed = {"action": "eda", "auth": "hmac", "url": "http://198.18.0.9:5000/endpoint", "secret": "s3cret-s3cret"}
    changes, _said = guest.role("--check", **closed)
    assert changes > 3
    assert guest.ssh("ls " + " ".join(NOTHING_THERE)).stdout.count(b"No such file") == len(NOTHING_THERE)

    changes, said = guest.role("--diff", "-vvv", **closed)
    assert changes > 3
    assert "s3cret-s3cret" not in said
    assert guest.role("--diff", **closed)[0] == 0
    assert guest.says("stat --format='%a %U' /etc/graceful-azure-watcher/secret") == "600 root"
    assert "s3cret" not in guest.says("cat /etc/graceful-azure-watcher/config.json /proc/$(systemctl show --value -p MainPID graceful-azure-watcher)/cmdline")
    until(lambda: guest.ssh("graceful-azure-watcher --status").returncode == 0, 20)
    assert "host www_1" in guest.says("graceful-azure-watcher --status")
    exposure = guest.says("systemd-analyze security --no-pager graceful-azure-watcher | tail -n 1")
    print(exposure, "memory", guest.shows("MemoryCurrent"))
    assert float(re.search(r"([0-9.]+) (?:OK|MEDIUM)", exposure).group(1)) < 3

    # The closed unit can do its work: call, and write where it must.
    event_id = guest.event()
    until(lambda: guest.lines("action_refused"), 20)
    guest.says("mkdir -p /var/lib/node")
    told = {"action": "file", "path": "/var/lib/node/told.json", "textfile": "/var/lib/node/watcher.prom"}
    changes, _said = guest.role(**told)
    assert changes >= 3  # settings, unit, the secret that is needed no more, the restart
    assert guest.ssh("test -e /etc/graceful-azure-watcher/secret").returncode == 1
    until(lambda: event_id in guest.ssh("cat /var/lib/node/told.json").stdout.decode(), 20)
    assert 'graceful_azure_watcher_events{status="Scheduled",type="Reboot"} 1' in guest.says("cat /var/lib/node/watcher.prom")
    assert not guest.lines("not_written") + guest.lines("state_not_saved")
    assert guest.role(**told)[0] == 0

    # Killed and stopped short: the service manager has it back.
    guest.says("systemctl kill --signal=KILL graceful-azure-watcher")
    until(lambda: int(guest.shows("NRestarts")) == 1 and guest.shows("ActiveState") == "active", 30)
    guest.says("systemctl kill --signal=STOP graceful-azure-watcher")
    until(lambda: int(guest.shows("NRestarts")) == 2 and guest.shows("ActiveState") == "active", 90)

    # Other code: told, replaced, running.
    before = guest.says("graceful-azure-watcher --status").splitlines()[0]
    guest.says("echo '# older' >> /usr/local/lib/graceful-azure-watcher/_imds.py")
    assert "restart it" in guest.ssh("graceful-azure-watcher --status").stdout.decode()
    assert guest.role(**told)[0] == 2
    assert guest.says("graceful-azure-watcher --status").splitlines()[0] == before

    # Settings that it cannot start with are refused, and it goes on with its own. What other settings do not have it write is removed.
    with pytest.raises(pytest.fail.Exception, match="failed to validate"):
        guest.role("-e", "graceful_azure_imds_url=gopher://nowhere", **told)
    assert guest.role(**told)[0] == 0
    guest.role(action="file", textfile="/var/lib/node/other.prom")
    until(lambda: guest.says("ls /var/lib/node") == "other.prom", 20)

    # What a command makes has the mode that it has by hand; what the watcher makes has its own.
    guest.role(action="run", command=["touch", "/root/made"], fast_path=["touch", "/root/out"], fast_path_types=["Reboot"])
    until(lambda: guest.ssh("test -e /root/made -a -e /root/out").returncode == 0, 30)
    assert guest.says("stat --format=%a /root/made /root/out /run/graceful-azure-watcher/status.json").split() == ["644"] * 3
    assert guest.says("stat --format=%a /var/lib/graceful-azure-watcher/state.json /var/lib/graceful-azure-watcher").split() == ["600", "700"]

    assert guest.role("--check", state="absent")[0] > 1
    assert guest.shows("ActiveState") == "active"
    changes, said = guest.role(state="absent")
    assert changes > 1 and "web1 is out by the watcher's fast path for " in said
    assert guest.ssh("ls " + " ".join(NOTHING_THERE)).stdout.count(b"No such file") == len(NOTHING_THERE)
    must_pass(*shlex.split(re.search("ansible web1 .* state=absent'", said).group()), "-i", str(guest.folder / "inventory.yml"))
    changes, said = guest.role(state="absent")
    assert changes == 0 and "fast path for" not in said


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_secret_as_a_credential_of_systemd(guest, tmp_path):
    """By a drop-in of the user's. The unit is closed, and the file is for root alone."""
    pem = certificate(tmp_path, "eda.test")
    guest.says("cat > /etc/eda.pem", without_key(pem))
    guest.says(f"echo {guest.gateway} eda.test >> /etc/hosts; mkdir -p /etc/systemd/system/graceful-azure-watcher.service.d")
    guest.says("umask 077; cat > /root/token", f"{TOKEN}\n".encode())
    guest.says("cat > /etc/systemd/system/graceful-azure-watcher.service.d/token.conf", b"[Service]\nLoadCredential=token:/root/token\n")
    with Webhook(tls=pem, listening=kernel.listening_socket(guest.namespace, guest.gateway, 0)) as webhook:
        given = {"action": "eda", "url": f"https://eda.test:{webhook.port}/endpoint", "ca_file": "/etc/eda.pem", "secret_file": "credential:token"}
        guest.role(**given)
        until(lambda: guest.ssh("graceful-azure-watcher --status").returncode == 0, 20)
        event_id = guest.event()
        until(lambda: event_id in [event["event_id"] for document in webhook.documents() for event in document["events"]], 20)
        assert {request["headers"]["Authorization"] for request in webhook.posted()} == {f"Bearer {TOKEN}"}
        until(lambda: [line for line in guest.lines("action_done") if line["kind"] == "eda"], 20)
        assert guest.ssh("test -e /etc/graceful-azure-watcher/secret").returncode == 1
        assert guest.role(**given)[0] == 0
        guest.role(state="absent")
    guest.says("rm -r /etc/systemd/system/graceful-azure-watcher.service.d")
