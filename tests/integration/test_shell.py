# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""make shell: what one types there works, and nothing is left when it ends."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tests.support.patience import patient, until
from tests.support.processes import descendants, kill, marked

pytestmark = pytest.mark.timeout(400)

SHELL = ROOT / "tests" / "demo" / "shell.py"
PROMPT = "(graceful.azure)"
# Of the text that says what is there and what to type.
LAST_LINE = "stops everything\n"


@pytest.fixture(name="temporary")
def make_temporary():
    """A folder with a short path, since the HAProxy of the shell has its socket there. Its path is in the environment of every process of the shell."""
    folder = Path(tempfile.mkdtemp(prefix="shell-"))
    yield folder
    for pid in marked(str(folder)):
        kill(pid)
    await_end(folder)
    shutil.rmtree(folder)


def await_end(temporary):
    until(lambda: not list(marked(str(temporary))), 10, "the end of what it has started")


def nothing_is_left(temporary):
    """No process, a moment after the end, and no file."""
    await_end(temporary)
    return not list(temporary.iterdir())


def run(tmp_path, temporary, commands):
    """The shell without a terminal, with these commands as its standard input: its status and what it printed."""
    process = subprocess.run(
        [sys.executable, SHELL, "--output", tmp_path / "shell"],
        input=commands,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=patient(300),
        check=False,
        env=dict(os.environ, TMPDIR=str(temporary)),
    )
    return process.returncode, process.stdout


def test_commands_from_a_pipe(tmp_path, temporary):
    commands = "type -p ansible-playbook\nsimulator add Reboot web1 EventId=E1\nsimulator events\necho $ANSIBLE_INVENTORY\nsleep 1000 &\nexit 7\n"
    status, output = run(tmp_path, temporary, commands)
    assert status == 7, output
    text, said = output.split(LAST_LINE)
    assert text.count("http://127.0.0.1:") == 3
    assert str(Path(sys.executable).with_name("ansible-playbook")) in said
    assert "E1" in said and "Scheduled" in said
    assert Path(said.splitlines()[-1]) == tmp_path / "shell" / "inventory.yml"
    assert nothing_is_left(temporary)


def test_a_server_that_cannot_be_started_again_is_told_and_the_shell_goes_on(tmp_path, temporary):
    log = tmp_path / "shell" / "web1.log"
    event = "simulator add Reboot web1 EventStatus=Started ImpactSeconds=0.5"
    commands = f"rm {log}\nmkdir {log}\n{event}\nsleep {patient(6)}\necho goes on\nexit 7\n"
    status, output = run(tmp_path, temporary, commands)
    assert status == 7, output
    assert output.count(f"shell: web1 does not run and was not started again, see {log}") == 1
    assert output.endswith("goes on\n")
    assert nothing_is_left(temporary)


@pytest.mark.long
def test_what_the_text_says_to_type_handles_an_event(tmp_path, temporary):
    status, output = run(
        tmp_path,
        temporary,
        "simulator add Reboot web1 EventId=E1 ImpactSeconds=2 SettleSeconds=1\n"
        "ansible-playbook graceful.azure.handle_events -e target=web -e handle_events_wait=false && echo 'one pass: done'\n"
        "ansible-playbook graceful.azure.holds -e target=web\n"
        "ansible-playbook graceful.azure.handle_events -e target=web && echo 'to its end: done'\n"
        "simulator events\n"
        "ansible-playbook graceful.azure.holds -e target=web\n",
    )
    assert status == 0, output
    held, said = output.split("one pass: done\n")[1].split("to its end: done\n")
    assert "web1: HAProxy server web/web1 on balancer" in held and "Nothing is held for web2." in held
    assert "Completed" in said and "Nothing is held for web1." in said
    assert nothing_is_left(temporary)


class Terminal:
    """The shell in a terminal of its own."""

    def __init__(self, tmp_path, temporary):
        self.shown = b""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            command = [sys.executable, str(SHELL), "--output", str(tmp_path / "shell")]
            os.execve(command[0], command, dict(os.environ, TMPDIR=str(temporary), HOME=str(tmp_path)))

    def until(self, text):
        deadline = time.monotonic() + patient(180)
        while text.encode() not in self.shown:
            assert time.monotonic() < deadline, self.shown.decode()
            if select.select([self.terminal], [], [], 0.2)[0]:
                self.shown += os.read(self.terminal, 4096)

    def type(self, line):
        self.shown = b""
        os.write(self.terminal, line.encode() + b"\n")

    def status(self):
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_in_a_terminal(tmp_path, temporary):
    (tmp_path / ".bashrc").write_text("PATH=/usr/bin:/bin\nPS1='mine '\n")
    terminal = Terminal(tmp_path, temporary)
    terminal.until(PROMPT)
    terminal.type("type -p ansible-playbook simulator")
    terminal.until(str(tmp_path / "shell" / "bin" / "simulator"))
    assert str(Path(sys.executable).parent) in terminal.shown.decode()
    # How the last command ended is nobody's failure.
    terminal.type("false; exit")
    terminal.until("exit\r\n")
    assert terminal.status() == 0
    os.close(terminal.terminal)
    assert nothing_is_left(temporary)


def test_a_terminal_that_is_closed(tmp_path, temporary):
    terminal = Terminal(tmp_path, temporary)
    terminal.until(PROMPT)
    # Web servers, HAProxy, simulator, load and bash.
    assert len(descendants(terminal.pid)) >= 7
    os.close(terminal.terminal)
    assert terminal.status() == 130
    assert nothing_is_left(temporary)
