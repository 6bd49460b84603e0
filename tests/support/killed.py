# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run that is killed at any moment."""

from __future__ import annotations

import contextlib


class Killed(BaseException):
    """Stands for SIGKILL: nothing of the code catches it."""


class Budget:
    def __init__(self, left):
        self.left = left

    def spend(self):
        if self.left == 0:
            raise Killed
        self.left -= 1


class Limited:
    """A store, a balancer or a program that is killed before or after its n-th act."""

    def __init__(self, target, budget, acts):
        self._target, self._budget, self._acts = target, budget, acts

    def __getattr__(self, name):
        value = getattr(self._target, name)
        if name not in self._acts:
            return value

        def act(*args):
            self._budget.spend()
            result = value(*args)
            self._budget.spend()
            return result

        return act


def hold_killed(hold, acts, model, store, budget, **more):
    """A hold that is killed when its budget is spent; whether it came to its end. C(acts): those of the model that cost."""
    budget = Budget(budget)
    with contextlib.suppress(Killed):
        hold(Limited(model, budget, acts), Limited(store, budget, ("replace", "write", "delete")), **more)
        return True
    return False
