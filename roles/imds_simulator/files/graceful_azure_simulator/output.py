# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Standard output and standard error."""

from __future__ import annotations

import contextlib
import os
import sys
import threading

UNREAD_LIMIT = 1024 * 1024  # what standard error has not taken yet. More is dropped


class StandardError:
    """Standard error. Its reader may be slow, or never read. Once ``run`` runs, no other thread waits for that."""

    def __init__(self):
        self.changed = threading.Condition()
        self.running = False
        self.unread = bytearray()

    def write(self, data):
        if not self.running:
            self._write(data)
            return
        with self.changed:
            if len(self.unread) + len(data) <= UNREAD_LIMIT:
                self.unread += data
                self.changed.notify_all()

    def run(self):
        self.running = True
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.unread)
                data = bytes(self.unread)
            self._write(data)
            with self.changed:
                del self.unread[: len(data)]
                self.changed.notify_all()

    def end(self):
        """Waits a short time for what is still to be written."""
        with self.changed:
            self.changed.wait_for(lambda: not self.unread, 0.3)

    @staticmethod
    def _write(data):
        with contextlib.suppress(OSError):
            os.write(2, data)


STANDARD_ERROR = StandardError()


def complain(message):
    """Writes one line on standard error."""
    STANDARD_ERROR.write(f"imds_simulator.py: {' '.join(message.split())}\n".encode("ascii", "backslashreplace"))


def announce(line):
    """Prints lines on standard output. False if that fails; standard error says why."""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    try:
        print(line.encode(encoding, "backslashreplace").decode(encoding), flush=True)
    except OSError as error:
        # A reader that is gone wants no message. Python would try to write again when it ends.
        if not isinstance(error, BrokenPipeError):
            complain(f"standard output: {error.strerror}")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True
