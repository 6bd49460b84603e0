# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The demo leaves nothing behind, however it ends, and does not mind another one beside it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tests.support.patience import patient, until
from tests.support.processes import command_of, descendants, start_of

pytestmark = pytest.mark.timeout(400)

RUN = ROOT / "tests" / "demo" / "run.py"


class Demo:
    """make demo as a process, with its screen in a file."""

    def __init__(self, folder, output):
        folder.mkdir()
        self.screen = folder / "screen"
        # Short, since the demo's HAProxy has its socket there.
        self.temporary = Path(tempfile.mkdtemp(prefix="demo-"))
        with self.screen.open("wb") as stream:
            self.process = subprocess.Popen(
                [sys.executable, RUN, "--output", output],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                env=dict(os.environ, TMPDIR=str(self.temporary)),
                start_new_session=True,
            )

    def text(self):
        return self.screen.read_text(encoding="utf-8")

    def until(self, words):
        until(lambda: words in self.text() or self.process.poll() is not None, 180, self.text, 0.1)
        assert words in self.text(), self.text()


@pytest.fixture
def start(tmp_path):
    """Starts a demo in a folder of its own; all of them write to the same output."""
    demos = []

    def one():
        demos.append(Demo(tmp_path / str(len(demos)), tmp_path / "output"))
        return demos[-1]

    yield one
    for demo in demos:
        if demo.process.poll() is None:
            demo.process.terminate()
            demo.process.wait(patient(60))
        shutil.rmtree(demo.temporary)


def await_end(processes):
    until(lambda: not any(start_of(pid) == started for pid, started in processes.items()), 10, "the end of what it has started")


@pytest.mark.parametrize(
    "inherited",
    [
        # The other one needs all that this one needs, and a handler that is set although the signal was ignored.
        pytest.param(signal.SIG_DFL, id="in the foreground", marks=pytest.mark.long),
        pytest.param(signal.SIG_IGN, id="in the background of a shell"),
    ],
)
def test_interrupted_in_the_middle_of_an_event(start, inherited):
    # A shell without job control starts what it runs in the background with SIGINT ignored, and so does `make test &` the demo.
    before = signal.signal(signal.SIGINT, inherited)
    try:
        demo = start()
    finally:
        signal.signal(signal.SIGINT, before)
    demo.until("web1 set to drain")
    processes = descendants(demo.process.pid)
    assert len(processes) >= 8
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(patient(60)) == 130
    assert "Traceback" not in demo.text()
    await_end(processes)
    assert list(demo.temporary.iterdir()) == []


@pytest.mark.long
def test_two_side_by_side_one_of_them_killed(start, tmp_path):
    first, second = start(), start()
    first.until("event 1, Reboot of web1: announced")
    second.until("event 1, Reboot of web1: announced")
    assert (tmp_path / "output" / "inventory.yml").exists()
    assert (tmp_path / "output-2" / "inventory.yml").exists()
    ours = {pid: started for pid, started in descendants(first.process.pid).items() if "ansible" not in " ".join(command_of(pid))}
    first.process.kill()
    first.process.wait(patient(10))
    # Servers, HAProxy, simulator and load go with it; the playbook ends when it finds nobody to talk to.
    await_end(ours)
    second.until("web1 set to drain")
    second.process.terminate()
    assert second.process.wait(patient(60)) == 130
