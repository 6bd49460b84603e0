# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The faults that apply now, and which of them a request meets."""

from __future__ import annotations

import random
import threading

from .fault_fields import ANSWERS


class Faults:
    """The faults of all services, in the order given."""

    def __init__(self, timetable, seed=None):
        self.clock, self.timetable = timetable.clock, timetable
        self.seed = seed
        self.lock = threading.Lock()
        self.faults = []
        self.added = 0

    def add(self, fault):
        with self.lock:
            self.added += 1
            seed = fault.get("Seed", None if self.seed is None else f"{self.seed} {self.added}")
            begin = self.clock.passed() + fault.get("After", 0)
            fault = {**fault, "random": random.Random(seed), "begin": begin, "end": begin + fault.get("For", float("inf"))}
            self.faults.append(fault)
            count = len(self.faults)
        # Nothing is to be done when a fault begins or ends, but GET /clock tells when that is.
        if "After" in fault:
            self.timetable.later(fault["After"], lambda: None, alive=lambda: self._stands(fault))
        if "For" in fault:
            self.timetable.later(fault.get("After", 0) + fault["For"], lambda: None, alive=lambda: self._stands(fault))
        return count

    def _stands(self, fault):
        with self.lock:
            return any(standing is fault for standing in self.faults)

    def clear(self):
        with self.lock:
            self.faults.clear()

    def reports(self):
        with self.lock:
            now = self.clock.passed()
            return [{name: value for name, value in fault.items() if name[0].isupper()} for fault in self.faults if now < fault["end"]]

    def meet(self, vm, method):
        """All faults that hit a request, as one: delays add up, and a fault that answers is the last."""
        met = {}
        with self.lock:
            now = self.clock.passed()
            for fault in list(self.faults):
                if not self._applies(fault, vm, method, now):
                    continue
                for name, value in fault["Fault"].items():
                    met[name] = met.get(name, 0) + value if name.startswith("Delay") else value
                if met.keys() & ANSWERS.keys():
                    break
        return met

    # The caller holds the lock.
    def _applies(self, fault, vm, method, now):
        if fault["Vm"] not in (None, vm) or fault["Method"] not in (None, method) or not fault["begin"] <= now < fault["end"]:
            return False
        if fault.get("Skip"):
            fault["Skip"] -= 1
            return False
        if "Probability" in fault and fault["random"].random() >= fault["Probability"]:
            return False
        if fault["Times"] is not None:
            fault["Times"] -= 1
            if fault["Times"] == 0:
                self.faults.remove(fault)
        return True
