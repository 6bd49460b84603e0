# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads files with scenarios, and the command --check."""

from __future__ import annotations

from .json_input import parse_json
from .options import vms_of
from .output import announce, complain
from .play import complain_of_strangers
from .refusals import Refused
from .scenario_library import SCENARIOS
from .scenarios import checked_scenario, known_scenario


def read_file(path, place):
    """The bytes of a file that was given instead of a name of the library. ``place`` is where the refusal says that it is."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise Refused(f"{place}: {error.strerror}, and no scenario of the library: {', '.join(SCENARIOS)}.") from None


def chosen_scenario(name, names):
    """The scenario of the option --scenario: one of the library, or a file."""
    if name in SCENARIOS:
        return known_scenario(name, names)
    content = read_file(name, f"--scenario {name}")
    try:
        return checked_scenario(parse_json(content), names)
    except Refused as refused:
        raise told_of_option(name, refused) from None


def told_of_option(name, refused):
    """A refusal whose mistakes say that they are those of the option --scenario."""
    return Refused([f"--scenario {name}: {mistake}" for mistake in refused.mistakes])


def check_scenario(options):
    """The command --check: prints every mistake. Returns the exit status."""
    path, names = options.check, [name for name, _address in options.vms]
    try:
        with open(path, "rb") as file:
            scenario = checked_scenario(parse_json(file.read()), names or None)
        if names:
            complain_of_strangers(scenario.events(vms_of(options, scenario), options.domains is not None), names, path)
    except OSError as error:
        complain(f"{path}: {error.strerror}")
        return 2
    except Refused as refused:
        for mistake in refused.mistakes:
            complain(f"{path}: {mistake}")
        return 1
    events, faults = (f"{len(found)} {name}{'' if len(found) == 1 else 's'}" for found, name in ((scenario.entries, "event"), (scenario.faults, "fault")))
    return 0 if announce(f"{path}: {events}, {faults}, no mistakes") else 1
