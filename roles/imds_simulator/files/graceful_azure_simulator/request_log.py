# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The log of the requests that the metadata services saw, in memory."""

from __future__ import annotations

import array
import threading
import time


class RequestLog:
    """Every request seen. It is stored in columns: a day with a request each second takes two megabytes."""

    def __init__(self, clock):
        self.clock = clock
        self.lock = threading.Lock()
        self.texts, self.numbers = [], {}  # names of VMs, methods and paths, each stored once
        self.times = array.array("d")
        self.columns = tuple(array.array("I") for _column in ("Vm", "Method", "Path"))
        self.statuses = array.array("H")  # 0: no answer yet, or never one
        self.last = time.monotonic()  # real time of the last request, at first of the start

    def _number(self, text):
        if text not in self.numbers:
            self.numbers[text] = len(self.texts)
            self.texts.append(text)
        return self.numbers[text]

    def saw(self, vm, request):
        """Records a request. Returns its number for ``answered``."""
        with self.lock:
            self.last = time.monotonic()
            self.times.append(self.clock.time())
            for column, text in zip(self.columns, (vm, request.method, request.target)):
                column.append(self._number(text))
            self.statuses.append(0)
            return len(self.times) - 1

    def answered(self, number, status):
        with self.lock:
            self.statuses[number] = status

    def seen(self, last=None):
        """All requests, or the last ones."""
        with self.lock:
            count = len(self.times)
            return [
                {
                    "Time": self.times[number],
                    **{name: self.texts[column[number]] for name, column in zip(("Vm", "Method", "Path"), self.columns)},
                    "Status": self.statuses[number] or None,
                }
                for number in range(max(0, count - (count if last is None else last)), count)
            ]
