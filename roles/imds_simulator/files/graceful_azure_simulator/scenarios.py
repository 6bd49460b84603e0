# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A scenario: its check, and the events that it stands for on given VMs. Pure."""

from __future__ import annotations

import collections

from .checks import a_list, a_text, an_id, checked, is_int, seconds
from .event_fields import EVENT_CHECKS
from .fault_fields import checked_fault
from .refusals import Refused, Unfit, collected, shown
from .scenario_library import SCENARIOS
from .vms import COMPUTE_FIELDS, a_vm_of, refuse_two_domains


def one_or_each(value):
    if value != "each" and not (is_int(value) and value > 0):
        raise Unfit('a positive integer or "each"')
    return value


ENTRY_CHECKS = {
    "After": seconds,
    "Name": an_id,
    "Follows": an_id,
    "Between": seconds,
    "Vm": one_or_each,
    "Domain": one_or_each,
    **EVENT_CHECKS,
}
# An event of a scenario: the number of its entry, the seconds until it appears, the index of the event whose end it waits for, and its fields.
Planned = collections.namedtuple("Planned", "entry wait follows fields")


class Scenario:
    """A checked scenario: entries of events, faults, and fields of VMs."""

    def __init__(self, entries=(), faults=(), vms=None):
        self.entries, self.faults, self.vms = list(entries), list(faults), vms or {}

    def events(self, vms, one_domain):
        """The events in order. The refusal names every entry that asks for a VM or domain that does not exist."""
        mistakes, planned = [], []
        last = {}  # the index of the last event of each entry that has a name
        for number, entry in enumerate(self.entries, 1):
            fields = {name: value for name, value in entry.items() if name in EVENT_CHECKS}
            wait, follows = entry.get("After", 0), last[entry["Follows"]] if "Follows" in entry else None
            hit = []
            with collected(mistakes, f"event {number}: "):
                hit = self._resources(entry, vms, one_domain)
            for resources in hit:
                planned.append(Planned(number, wait, follows, {**fields, "Resources": resources}))
                wait, follows = entry.get("Between", 0), len(planned) - 1
            if "Name" in entry:
                last[entry["Name"]] = follows
        if mistakes:
            raise Refused(mistakes)
        return planned

    @staticmethod
    def _resources(entry, vms, one_domain):
        """The names of the VMs, for each event that the entry stands for."""
        if "Resources" in entry:
            if one_domain:
                refuse_two_domains(entry["Resources"], {vm.name.lower(): vm.domain for vm in vms})
            return [entry["Resources"]]
        names = [[vm.name] for vm in vms]
        if "Domain" in entry:
            domains = list(dict.fromkeys(vm.domain for vm in vms))
            names = [[vm.name for vm in vms if vm.domain == domain] for domain in domains]
        field = "Domain" if "Domain" in entry else "Vm"
        chosen = entry[field]
        if chosen == "each":
            return names
        if chosen > len(names):
            raise Refused(f"{field} {chosen} is asked for, but there {'is' if len(names) == 1 else 'are'} only {len(names)}.")
        return [names[chosen - 1]]


def checked_entry(value, known):
    """An entry of a scenario. ``known`` has the names of the entries above it."""
    mistakes, entry = [], {}
    with collected(mistakes):
        entry = checked(value, "An event", ENTRY_CHECKS, ["EventType"])
    if isinstance(value, dict):
        chosen = [name for name in ("Resources", "Vm", "Domain") if name in value]
        if not chosen:
            mistakes.append("An event needs the field Resources, Vm or Domain.")
        elif len(chosen) > 1:
            mistakes.append(f"An event has both {chosen[0]} and {chosen[1]}.")
        if entry.get("Name") in known:
            mistakes.append(f"Name {shown(entry['Name'])} is given twice.")
        if "Follows" in entry and entry["Follows"] not in known:
            mistakes.append(f"Follows must be the Name of an event above, not {shown(entry['Follows'])}.")
    if mistakes:
        raise Refused(mistakes)
    return entry


def checked_scenario(value, names):
    """A scenario. If ``names`` is None, it may name any VM. The refusal has every mistake with its place."""

    def told_of_vms(value):
        if not isinstance(value, dict):
            raise Unfit("an object")
        return value

    mistakes, entries, faults, vms = [], [], [], {}
    with collected(mistakes):
        checked(value, "A scenario", {"events": a_list, "faults": a_list, "vms": told_of_vms, "about": a_text, "source": a_text, "$schema": a_text})

    def items(name, kind):
        items = value.get(name) if isinstance(value, dict) else None
        return items if isinstance(items, kind) else kind()

    known = set()
    for number, entry in enumerate(items("events", list), 1):
        with collected(mistakes, f"event {number}: "):
            entries.append(checked_entry(entry, known))
        if isinstance(entry, dict) and isinstance(entry.get("Name"), str):
            known.add(entry["Name"])
    for number, fault in enumerate(items("faults", list), 1):
        with collected(mistakes, f"fault {number}: "):
            faults.append(checked_fault(fault, names))
    for name, told in items("vms", dict).items():
        with collected(mistakes, f"vms {shown(name)}: "):
            try:
                vms[a_vm_of(names)(name)] = checked(told, "A VM", dict.fromkeys(COMPUTE_FIELDS, a_text))
            except Unfit as error:
                mistakes.append(f"vms {shown(name)}: The name must be {error}.")
    if mistakes:
        raise Refused(mistakes)
    return Scenario(entries, faults, vms)


def known_scenario(name, names):
    """A scenario of the library."""
    return checked_scenario(SCENARIOS[name], names)
