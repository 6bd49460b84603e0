# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plays a scenario on a scale set."""

from __future__ import annotations

from .output import complain
from .refusals import Refused
from .vms import strangers_to


class Play:
    """A scenario that is being played: each event comes at its time, or some time after the end of another."""

    def __init__(self, scale_set, planned):
        self.scale_set = scale_set
        self.planned = planned
        self._add_after(None)

    def _add_after(self, ended):
        for place, event in enumerate(self.planned):
            if event.follows == ended:
                self.scale_set.timetable.later(event.wait, self._add, place, event)

    def _add(self, place, event):
        try:
            self.scale_set.add(event.fields, then=lambda: self._add_after(place))
        except Refused as error:
            complain(f"scenario: event {event.entry}: {error}")
            self._add_after(place)  # the events that follow it come all the same


def complain_of_strangers(planned, vms, where):
    """Says which names in a scenario no VM here has. They are allowed, but may be typing errors."""
    for event in planned:
        for name in strangers_to(vms, event.fields["Resources"]):
            complain(f"{where}: event {event.entry} hits {name}, which is none of the VMs here")
