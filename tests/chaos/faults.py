# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the metadata services do wrong in a run: what the simulator is told of it beforehand, and whether it came to that.

A fault is a dictionary: {"vm" (None: any), "method", "nth", "times", "fault"}, for some requests running of one kind, or
{"turns": [fault, ...], "offset"}, for every second request of every VM, each time another.
"""

from __future__ import annotations

STATUSES = (400, 404, 405, 410, 429, 500, 503)
FAULTS = {
    **{f"status_{status}": {"Status": status, "Body": "{}"} for status in STATUSES},
    "delay": {"Delay": 3.0},
    "long_delay": {"Delay": 12.0},
    "drop": {"Drop": True},
    # An approval that is carried out, and nobody hears of it.
    "drop_answer": {"DropAnswer": True},
    # The length that is told is not the body's: the connection ends before it.
    "cut": {"Status": 200, "Body": '{"DocumentIncarnation": 1, "Ev', "Headers": {"Content-Length": "400"}},
    "html": {"Status": 200, "Body": "<html><body>Sign in to the network</body></html>"},
    "no_list": {"Status": 200, "Body": '{"DocumentIncarnation": 2, "Events": {"EventId": "x"}}'},
    "null": {"Status": 200, "Body": "null"},
}
OF_WINDOWS = {
    **FAULTS,
    "empty": {"Status": 200, "Body": ""},
    # Nobody listens there.
    "redirect": {"Status": 302, "Body": "", "Headers": {"Location": "http://127.0.0.1:9/metadata/scheduledevents?api-version=2020-07-01"}},
}
"""What the metadata service of a Windows host does wrong."""
TURNS = 60
"""Faults in turn for each VM: for more requests than a run has."""


def in_turn(fault, number):
    """What the request of this number, from 1, of any VM meets where every second one meets something, or None."""
    half, odd = divmod(number + fault["offset"], 2)
    return None if odd else fault["turns"][half % len(fault["turns"])]


def orders(fault, hosts):
    """The fault as the simulator's control address takes it."""
    if "turns" not in fault:
        return [{"Vm": fault["vm"], "Method": fault["method"], "Fault": fault["fault"], "Times": fault["times"], "Skip": fault["nth"] - 1}]
    found = []
    passed = 0
    for number in range(1, 2 * TURNS + 1):
        wrong = in_turn(fault, number)
        if wrong:
            found += [{"Vm": vm, "Fault": wrong, "Times": 1, "Skip": passed} for vm in hosts]
        # A request that was answered in the service's place passes by the faults that come after.
        passed += not (wrong and wrong.keys() & {"Status", "Drop"})
    return found


def meetings(fault, requests):
    """Those of the simulator's list of requests that meet the fault, each with what it is to meet."""
    asked = [request for request in requests if "scheduledevents" in request["Path"].lower()]
    if "turns" in fault:
        wrong = []
        for vm in {request["Vm"] for request in asked}:
            own = [request for request in asked if request["Vm"] == vm][: 2 * TURNS]
            wrong += [(request, in_turn(fault, number)) for number, request in enumerate(own, 1) if in_turn(fault, number)]
        return wrong
    own = [request for request in asked if fault["vm"] in (None, request["Vm"]) and request["Method"] == fault["method"]]
    return [(request, fault["fault"]) for request in own[fault["nth"] - 1 :][: fault["times"]]]


def met(fault, requests):
    """Whether requests came for the fault, and were answered as it has it."""
    wrong = meetings(fault, requests)
    return bool(wrong) and all(_as_told(request["Status"], told) for request, told in wrong)


def _as_told(status, wrong):
    if wrong.keys() & {"Drop", "DropAnswer"}:
        return status is None
    # One that is late is answered as ever, or to nobody.
    return status == wrong.get("Status", status)
