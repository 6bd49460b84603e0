# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Puts the parts together and runs them until a signal comes."""

from __future__ import annotations

import json
import os
import select
import time

from .commands import Commands
from .control import Control
from .listener import CONNECTION_LIMIT, Listener
from .metadata_service import MetadataService
from .options import vms_of
from .output import STANDARD_ERROR, announce, complain
from .play import Play, complain_of_strangers
from .process import allow_files, ended_by_signals, go_to_background, in_background, is_at
from .refusals import Refused
from .scale_set import Habits, ScaleSet
from .scenario_files import chosen_scenario, told_of_option
from .scenarios import Scenario
from .simulated_time import Clock


def serve(options):
    """The simulator, from its start to its end. Returns the exit status."""
    ending = ended_by_signals()
    names = [name for name, _address in options.vms]
    commands = Commands(options.on_start, options.on_gone, options.command_timeout)
    clock = Clock(options.time_scale)
    habits = Habits(options.first_answer or 0, options.events_after or 0, options.disable_after, options.rate, options.domains is not None)
    try:
        scenario = Scenario() if options.scenario is None else chosen_scenario(options.scenario, names)
        vms = vms_of(options, scenario)
        scale_set = ScaleSet(commands.started, commands.gone, clock, habits, options.seed, {vm.name.lower(): vm.domain for vm in vms})
        try:
            planned = scenario.events(vms, habits.one_domain)
        except Refused as refused:
            raise told_of_option(options.scenario, refused) from None
        for fault in scenario.faults:
            scale_set.faults.add(fault)
        allow_files((len(names) + 1) * (CONNECTION_LIMIT + 50))
        listeners = [Listener(address, MetadataService(vm, scale_set).answer, clock.time) for vm, (_name, address) in zip(vms, options.vms)]
        urls = dict(zip(names, (listener.url for listener in listeners)))
        listeners.append(Listener(options.control, Control(scale_set, vms, urls, options.allow_commands).answer, clock.time))
        line = json.dumps({"vms": urls, "control": listeners[-1].url})
        pid_file = go_to_background(options.background, line) if options.background is not None else None
    except Refused as error:
        complain(str(error))
        return 2

    complain_of_strangers(planned, names, "scenario")
    Play(scale_set, planned)
    for act in (STANDARD_ERROR.run, scale_set.timetable.run, commands.run, *(listener.run for listener in listeners)):
        in_background(act)
    announce(line)
    await_end(ending, options, scale_set.log)
    commands.leave()
    STANDARD_ERROR.end()
    if pid_file is not None and is_at(*pid_file):
        os.unlink(pid_file[1])
    return 0


def await_end(ending, options, log):
    """Waits for a signal, or until the time of an option to end is over."""
    began = time.monotonic()
    while True:
        ends = [] if options.end_after is None else [began + options.end_after]
        ends += [] if options.end_unasked is None else [log.last + options.end_unasked]
        left = min(ends) - time.monotonic() if ends else None
        if left is not None and left <= 0 or select.select([ending], [], [], left)[0]:
            return
