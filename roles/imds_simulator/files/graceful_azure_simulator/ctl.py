# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command ctl: talks to the control address of a simulator that runs.

It shares with the services only what checks the fields and files that a user gives.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import urllib.parse

from .checks import a_count
from .documents import iso_time
from .event_fields import EVENT_CHECKS, MOVES
from .fault_fields import FAULT_AROUND, FAULT_CHECKS
from .json_input import parse_json
from .option_types import Parser, an_option
from .output import announce, complain
from .refusals import Refused, Unfit
from .scenario_files import read_file
from .scenario_library import SCENARIOS

CONTROL = "http://127.0.0.1:8169"
TYPES = ("Freeze", "Reboot", "Redeploy", "Preempt", "Terminate")
"""Those that Azure documents. A test may want another one."""


def ctl(arguments):
    """The command ctl. Returns the exit status."""
    options = parse_ctl_arguments(arguments)
    try:
        value = ask(options.control, *ctl_request(options))
    except Refused as refused:
        complain(str(refused))
        return 1
    if options.command == "add" and options.type not in TYPES:
        complain(f"The event is of type {options.type!r}, none of {', '.join(TYPES)}.")
    return 0 if announce("\n".join(ctl_lines(options, value))) else 1


def parse_ctl_arguments(arguments):
    """The options of ctl and of its command."""
    # These may stand before the command and after it.
    anywhere = Parser(add_help=False, argument_default=argparse.SUPPRESS)
    where = f"where it is (the environment's IMDS_SIMULATOR_CONTROL, or {CONTROL})"
    anywhere.add_argument("--control", metavar="URL|ADDRESS:PORT", help=where)
    anywhere.add_argument("--json", action="store_const", const=True, help="print the answer as it came")
    parser = Parser(prog="imds_simulator.py ctl", description="Talks to the control address of a simulator that runs.", parents=[anywhere], allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(name, told, **arguments):
        made = commands.add_parser(name, help=told, description=told, parents=[anywhere], allow_abbrev=False)
        for argument, more in arguments.items():
            made.add_argument(argument, **more)

    command("events", "lists every event ever")
    command("add", "adds an event: its type, the VMs, other fields", type={}, more={"nargs": "+", "metavar": "VM|FIELD=VALUE"})
    for move in MOVES:
        command(move, f"{move}s an event now", id={})
    command("play", "plays a scenario", scenario={"metavar": "NAME|FILE"})
    command("fault", "adds a fault: its fields and those of Fault", more={"nargs": "+", "metavar": "FIELD=VALUE"})
    command("clear-faults", "ends all faults")
    command("requests", "lists the last requests", last={"nargs": "?", "type": an_option(a_count, int), "default": 20})
    command("clock", "shows the clock, or sets it", wish={"nargs": "?", "metavar": "next|step=SECONDS|scale=FACTOR"})
    command("disable", "switches the service off, as after a day without a request")
    command("state", "shows everything")
    control = os.environ.get("IMDS_SIMULATOR_CONTROL", CONTROL)
    return parser.parse_args(arguments, argparse.Namespace(control=control, json=False))


def ctl_request(options):
    """The method, path and body that a command stands for."""
    name = options.command
    if name in MOVES:
        return "POST", f"/events/{urllib.parse.quote(os.fsencode(options.id), safe='')}/{name}", None
    if name == "add":
        resources = [text for text in options.more if "=" not in text]
        before = {"EventType": options.type, **({"Resources": resources} if resources else {})}
        known = {field: check for field, check in EVENT_CHECKS.items() if field not in before}
        event = {**before, **given_fields([text for text in options.more if "=" in text], known)}
        if "Resources" not in event:
            raise Refused("An event needs a VM.")
        return "POST", "/events", event
    if name == "fault":
        given = given_fields(options.more, {**FAULT_AROUND, **FAULT_CHECKS})
        around = {field: given.pop(field) for field in FAULT_AROUND if field in given}
        return "POST", "/faults", {**around, "Fault": given}
    if name == "play":
        if options.scenario in SCENARIOS:
            return "POST", "/scenarios", {"Name": options.scenario}
        return "POST", "/scenarios", parse_json(read_file(options.scenario, options.scenario))
    if name == "clock" and options.wish:
        wish, mark, number = options.wish.partition("=")
        return "POST", "/clock", {wish.title(): value_of(number) if mark else True}
    paths = {
        "clear-faults": ("DELETE", "/faults", None),
        "disable": ("POST", "/disable", None),
        "requests": ("GET", f"/requests?last={getattr(options, 'last', '')}", None),
    }
    return paths.get(name, ("GET", f"/{name}", None))


def given_fields(texts, known):
    """Fields of the command line, each as NAME=VALUE. ``known`` has the check of each."""
    given = {}
    for text in texts:
        name, mark, value = text.partition("=")
        if name not in known or not mark:
            raise Refused(f"{text!r} is not FIELD=VALUE with one of the fields {', '.join(known)}.")
        if name in given:
            raise Refused(f"{name} is given twice.")
        given[name] = value_for(value, known[name])
    return given


def value_for(text, check):
    """The value that a field takes: JSON, or the text itself."""
    for value in (value_of(text), text):
        with contextlib.suppress(Unfit):
            check(value)
            return value
    return value_of(text)  # the control address will refuse it


def value_of(text):
    """A value of the command line: JSON, or else the text itself."""
    try:
        return parse_json(os.fsencode(text))
    except Refused:
        return text


def ask(base, method, path, body):
    """The answer of the control address."""
    import http.client  # takes a while, and only ctl needs it
    import urllib.error
    import urllib.request

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    where = base if "://" in base else f"http://{base}"
    try:
        request = urllib.request.Request(where.rstrip("/") + path, None if body is None else json.dumps(body).encode(), method=method)
        try:
            with opener.open(request, timeout=30) as answer:
                return json.loads(answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                raise Refused(f"{error.code}: {told_error(error.read().decode(errors='replace'))}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Refused(f"{base} does not answer: {getattr(error, 'reason', error)}") from None


def told_error(text):
    """The message of an answer with an error."""
    try:
        return json.loads(text)["error"]
    except (ValueError, KeyError, TypeError):
        return text


def ctl_lines(options, value):
    """The lines that a command prints."""
    if options.json or options.command not in ("events", "requests"):
        return [json.dumps(value, indent=None if options.json else 2)]
    if options.command == "requests":
        return [f"{iso_time(entry['Time'])}  {entry['Vm']}  {entry['Method']} {entry['Path']}  {entry['Status'] or 'no answer'}" for entry in value]
    lines = []
    for event in value:
        lines.append(f"{event['EventId']}  {event['EventType']}  {event['EventStatus']}  {', '.join(event['Resources'])}")
        lines += [f"    {iso_time(entry['Time'])}  {entry['Status']}" for entry in event["History"]]
        lines += [f"    {iso_time(entry['Time'])}  approved through {entry['Vm']}" for entry in event["Approvals"]]
        for command in event["Commands"]:
            end = command["Problem"] or ("runs" if command["ExitStatus"] is None else f"exit status {command['ExitStatus']}")
            lines += [f"    {iso_time(command['Time'])}  {command['Command']}: {end}", *(f"        {line}" for line in command["Output"].splitlines())]
    return lines or ["no events so far"]
