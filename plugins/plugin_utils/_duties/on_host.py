# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a type of drain step has to tell. Pure.

A drain step is one thing that is taken out of duty on a host besides its balancer, and put back later. Its module is a driver of the hold engine: it
looks, acts and looks again, and records what it found. It returns C(done) (what it has read back, never what a command's exit said), C(waiting_for),
C(conflicts) and C(changed). It tells what a reboot has undone, and waits where the rest of a cluster does not allow it to act.
"""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.graceful.azure.plugins.plugin_utils._duties.duty import Duty
from ansible_collections.graceful.azure.plugins.plugin_utils._types import DrainStep, Json, Options, StepGroup, StepJson


class HostDuty(Duty):
    """One type of duty that brings no traffic.

    A normalised step has C(name), C(type), C(idle) (whether the host must be idle first), C(first) (if it goes out before the host leaves its balancers),
    C(out) and C(in) (whether anything is done in that direction), and what else C(step) puts in.
    """

    record = ""
    """The kind of its records. What is on record and not in the settings any more is put back all the same."""
    common = False
    """Whether any host may have its records. Otherwise a host has some only if its settings or its records say so, and others are not asked."""
    bears_name = False
    """Whether what it sets bears the collection's name, so that it can be undone although its record is lost."""
    needs_idle = True
    """Whether such a step, and all after it, wait until the host is idle."""
    together = False
    """Whether steps that stand together are one call."""
    asks_first = False
    """Whether the module asks others for leave before it acts. Then it has the option C(force)."""
    closes = False
    """Whether it takes no connections while it is out. Then it comes back before whatever asks whether the host answers, also if it stands first."""
    hands_over = False
    """Whether another host takes over what it does, and this one serves on as the others do. Their balancers may send requests to that one alone."""
    windows = False
    """Whether such a step may be one of a Windows host."""

    def places(self, options: Options) -> Iterable[tuple[str, str, str | None]]:
        """Where it is one of several, such as a cluster; an option that says which one the host is there, and its value, or None if it goes by the host's
        own name."""
        return ()

    def step(self, options: Options) -> DrainStep:
        """What a normalised step has besides C(name), C(type) and C(idle). C(options): those of its entry in C(graceful_azure_duties), and C(name)."""
        return {**{key: options.get(key) for key in self.options}, "out": True, "in": True}

    def looks(self, group: StepGroup) -> list[Options]:
        """Its entries, as a look at the host needs them to tell whether it is off duty (C(module_utils/_duties/all_types.py))."""
        return [{"type": self.name, "name": step["name"], **{key: step[key] for key in self.options}} for step in group["steps"]]

    def acts(self, group: StepGroup, hold: Options, step: StepJson) -> Options:
        """The options of its module. C(hold): those that say what is held or released. C(step): the step of the host to which that belongs."""
        raise NotImplementedError

    def file(self, group: StepGroup, hold: Options) -> Json | None:
        """The task file of the user's own that such an act waits for, see C(_own_files.py); None if there is none."""
        return None
