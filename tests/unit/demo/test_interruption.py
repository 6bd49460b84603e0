# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whoever presses Ctrl-C in the demo gets the prompt back, whenever the signal arrives."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.demo.stage import Interruption
from tests.support.processes import Processes

# Needs a second to end after the signal that asks it to, and says when that begins and ends.
SLOW = """
import signal, sys, time
def tell():
    print(time.monotonic(), file=sys.stderr, flush=True)
signal.signal(signal.SIGTERM, lambda number, frame: (tell(), time.sleep(1), tell(), sys.exit(0)))
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture(name="interruption")
def make_interruption():
    before = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    yield Interruption()
    for number, handler in before:
        signal.signal(number, handler)


class Deleted(io.RawIOBase):
    """A signal comes while it is being deleted, as it may come while an answer of the simulator is."""

    def close(self):
        if not self.closed:
            io.RawIOBase.close(self)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0)


def test_an_interruption_that_python_drops_is_not_lost(interruption):
    interruption.install()
    interruption.check()
    Deleted()
    with pytest.raises(KeyboardInterrupt):
        interruption.check()


def test_it_comes_where_a_shell_had_it_ignored(interruption):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    interruption.install()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)


def test_a_second_one_does_not_cut_the_cleaning_short(interruption):
    interruption.install()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.05)


def test_all_processes_end_side_by_side(tmp_path):
    processes = Processes(tmp_path)
    running = [processes.start(str(number), sys.executable, "-I", "-S", "-c", SLOW, stdout=subprocess.PIPE) for number in range(4)]
    for process in running:
        process.stdout.readline()
    processes.close()
    assert [process.returncode for process in running] == [0, 0, 0, 0]
    begun, ended = zip(*(map(float, (tmp_path / f"{number}.log").read_text().split()) for number in range(4)))
    assert max(begun) < min(ended)


def test_a_process_whose_end_was_not_awaited_is_ended_with_the_others(tmp_path, monkeypatch):
    processes = Processes(tmp_path)
    process = processes.start("stubborn", sys.executable, "-I", "-S", "-c", SLOW, stdout=subprocess.PIPE)
    process.stdout.readline()

    def interrupted(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(process, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            processes.stop(process)
    processes.close()
    assert process.returncode == 0
