# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the user's commands when an event starts or is gone."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shlex
import signal
import subprocess
import tempfile
import time

from .output import STANDARD_ERROR, complain
from .process import in_background

OUTPUT_LIMIT = 4096  # bytes that are kept of the end of what a command printed


class Commands:
    """Starts the user's commands in the order of the events, and waits for none of them."""

    def __init__(self, on_start=None, on_gone=None, limit=600):
        self.on_start, self.on_gone, self.limit = on_start, on_gone, limit
        self.wanted = queue.SimpleQueue()
        self.pipes = {}  # from which output of commands still comes, by their file numbers

    def started(self, event):
        self._want(event, event.on_start or self.on_start)

    def gone(self, event):
        self._want(event, event.on_gone or self.on_gone)

    def _want(self, event, command):
        if not command:
            return
        report = event.report()
        record = {"Time": event.clock.time(), "Command": command, "Seconds": None, "ExitStatus": None, "Problem": None, "Output": ""}
        event.commands.append(record)
        self.wanted.put((command, report, record))

    def run(self):
        """Starts what is wanted, for ever."""
        while True:
            command, report, record = self.wanted.get()
            parts = shlex.split(command)
            try:
                # A file: a command that does not read its input would block a pipe.
                with tempfile.TemporaryFile() as stdin:
                    stdin.write(json.dumps(report).encode() + b"\n")
                    stdin.seek(0)
                    process = subprocess.Popen(parts, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
                in_background(self._pass_on, process.stdout, record)
                in_background(self._await, process, record)
            except (OSError, ValueError) as error:
                record["Problem"] = f"cannot be run: {os.strerror(error.errno) if isinstance(error, OSError) else error}"
                complain(f"{parts[0]} {record['Problem']}")

    def _await(self, process, record):
        begun = time.monotonic()
        try:
            process.wait(self.limit)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            record["Problem"] = f"was ended after {self.limit:g} s"
            complain(f"{record['Command']} {record['Problem']}")
        record["Seconds"] = round(time.monotonic() - begun, 3)
        record["ExitStatus"] = process.returncode

    def _pass_on(self, pipe, record):
        """Writes what a command prints to standard error, and keeps the end of it."""
        number = pipe.fileno()
        self.pipes[number] = pipe
        kept = b""
        while True:
            data = os.read(number, 65536)
            if not data:
                break
            kept = (kept + data)[-OUTPUT_LIMIT:]
            record["Output"] = kept.decode(errors="replace")
            STANDARD_ERROR.write(data)
        del self.pipes[number]
        pipe.close()

    def leave(self):
        """Starts a ``cat`` for each command that still runs. Without a reader, the command would die when it prints."""
        for pipe in list(self.pipes.values()):
            with contextlib.suppress(OSError, ValueError):
                subprocess.Popen(["cat"], stdin=pipe, stdout=2)
