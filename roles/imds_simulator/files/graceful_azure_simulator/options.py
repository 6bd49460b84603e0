# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command line of the simulator: its options, and the VMs that they describe."""

from __future__ import annotations

import argparse
import sys

from .checks import a_count, a_scale, an_int, seconds, some_seconds
from .option_types import Parser, a_command, a_compute_field, a_named_address, an_address, an_option
from .output import announce
from .scenario_library import SCENARIOS
from .vms import Vm

# What --realistic stands for.
REALISTIC = {"first_answer": 120, "events_after": 300, "disable_after": 86400, "rate": 5, "domains": 5}


class ListScenarios(argparse.Action):
    """--list-scenarios: prints the library and ends."""

    def __call__(self, parser, *_arguments):
        told = announce("\n".join(f"{name}\n    {scenario['about']}\n    {scenario['source']}" for name, scenario in SCENARIOS.items()))
        sys.exit(0 if told else 1)


def parse_arguments(arguments):
    """The options. A mistake ends the process with one line on standard error."""
    parser = Parser(
        description="Simulates the Scheduled Events of Azure's metadata service, for tests. See also: imds_simulator.py ctl --help",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--vm", action="append", default=[], type=a_named_address, dest="vms", metavar="NAME=ADDRESS:PORT", help="a VM and where its metadata service listens"
    )
    parser.add_argument(
        "--control", type=an_address, default="127.0.0.1:0", metavar="ADDRESS:PORT", help="where the control address listens (a free port of 127.0.0.1)"
    )
    parser.add_argument("--scenario", metavar="NAME|FILE", help="events and faults that come by themselves: one of the library, or a file of JSON")
    parser.add_argument("--on-start", type=a_command, metavar="COMMAND", help="run when an event starts, with the event as JSON on standard input")
    parser.add_argument("--on-gone", type=a_command, metavar="COMMAND", help="run when an event is gone, completed or cancelled")
    parser.add_argument("--command-timeout", type=an_option(some_seconds), default=600, metavar="SECONDS", help="a command is ended after that (600)")
    parser.add_argument("--allow-commands", action="store_true", help="events of the control address may bring commands, too")
    parser.add_argument(
        "--background", metavar="DIRECTORY", help="once everything listens, go on in the background, with imds_simulator.pid and .log in this directory"
    )
    parser.add_argument("--end-after", type=an_option(some_seconds), metavar="SECONDS", help="end by itself after so many real seconds")
    parser.add_argument(
        "--end-unasked", type=an_option(some_seconds), metavar="SECONDS", help="end by itself when no metadata service was asked for so many real seconds"
    )
    time_group = parser.add_argument_group("time")
    time_group.add_argument("--time-scale", type=an_option(a_scale), default=1.0, metavar="FACTOR", help="time runs that fast; 0 stands still (1)")
    time_group.add_argument("--seed", type=an_option(an_int, int), metavar="NUMBER", help="makes faults with a probability come the same way again")
    vm_group = parser.add_argument_group("VMs")
    vm_group.add_argument(
        "--compute", action="append", default=[], type=a_compute_field, metavar="[NAME/]FIELD=VALUE", help="what the instance endpoint tells of all VMs, or one"
    )
    vm_group.add_argument(
        "--domains", type=an_option(a_count, int), metavar="NUMBER", help="deals the VMs over so many update domains, of which an event hits one alone"
    )
    habits = parser.add_argument_group("what the real service does, too; all times are simulated")
    habits.add_argument("--realistic", action="store_true", help=" ".join(f"--{name.replace('_', '-')} {value}" for name, value in REALISTIC.items()))
    habits.add_argument("--first-answer", type=an_option(seconds), metavar="SECONDS", help="the first request is answered that late")
    habits.add_argument("--events-after", type=an_option(seconds), metavar="SECONDS", help="events are shown so long after the first request")
    habits.add_argument("--disable-after", type=an_option(seconds), metavar="SECONDS", help="switched off after so long without a request")
    habits.add_argument("--rate", type=an_option(a_count, int), metavar="NUMBER", help="answers 429 to more requests a (real) second and VM")
    parser.add_argument("--list-scenarios", action=ListScenarios, nargs=0, help="tells the scenarios of the library, and ends")
    parser.add_argument("--check", metavar="FILE", help="tells every mistake in a scenario file, and ends; without --vm any names of VMs will do")
    options = parser.parse_args(arguments)
    if not options.vms and options.check is None:
        parser.error("the following arguments are required: --vm")
    names = set()
    for name, _address in options.vms:
        if name.lower() in names:
            parser.error(f"argument --vm: the name {name!r} is given twice")
        names.add(name.lower())
    for name, _field, _value in options.compute:
        if name is not None and name.lower() not in names:
            parser.error(f"argument --compute: there is no VM {name!r}")
    if options.realistic:
        for name, value in REALISTIC.items():
            if getattr(options, name) is None:
                setattr(options, name, value)
    return options


def vms_of(options, scenario):
    """The VMs, with what options and scenario say about them."""
    return [Vm(name, number, _fields_of(name, number, options, scenario)) for number, (name, _address) in enumerate(options.vms)]


def _fields_of(name, number, options, scenario):
    """The fields given for a VM: by --domains, then the scenario, then --compute for every VM, then --compute for this one."""
    told = {"platformUpdateDomain": str(number % options.domains)} if options.domains else {}
    told.update(scenario.vms.get(name, {}))
    for of_this_one in (False, True):
        told.update((field, value) for of, field, value in options.compute if (of is not None and of.lower() == name.lower() if of_this_one else of is None))
    return told
