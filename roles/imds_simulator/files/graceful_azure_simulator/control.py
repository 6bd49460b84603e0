# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The control address: answers its requests, and changes events, faults and the clock."""

from __future__ import annotations

import re
import urllib.parse

from .checks import a_scale, a_text, checked, seconds, true
from .event_fields import MOVES, checked_event
from .fault_fields import checked_fault
from .http_messages import HTML_TYPE, Response, allow, json_response
from .json_input import parse_json
from .page import PAGE
from .play import Play
from .refusals import Refused, shown
from .scenario_library import SCENARIOS
from .scenarios import checked_scenario, known_scenario
from .vms import strangers_to


class Control:
    """Answers the requests to the control address."""

    def __init__(self, scale_set, vms, urls, commands_allowed):
        self.scale_set = scale_set
        self.vms = vms
        self.urls = urls  # of the VMs' metadata services, by name
        self.names = [vm.name for vm in vms]
        self.commands_allowed = commands_allowed
        self.places = {
            "events": (self._events, "GET", "POST"),
            "faults": (self._faults, "GET", "POST", "DELETE"),
            "requests": (self._requests, "GET"),
            "state": (self._state, "GET"),
            "clock": (self._clock, "GET", "POST"),
            "scenarios": (self._scenarios, "GET", "POST"),
            "disable": (self._disable, "POST"),
        }

    def answer(self, request):
        if request.problem:
            raise request.problem
        refuse_other_pages(request)
        if request.method == "HEAD":
            request.method = "GET"
        path = [urllib.parse.unquote(part) for part in request.path.split("/")[1:]]
        if path == [""] and request.method == "GET":
            return Response(200, PAGE.encode(), HTML_TYPE)
        if len(path) == 1 and path[0] in self.places:
            act, *methods = self.places[path[0]]
            allow(request, *methods)
            return act(request)
        if len(path) == 3 and path[0] == "events" and path[2] in MOVES:
            allow(request, "POST")
            return json_response(200, self.scale_set.move(path[1], *MOVES[path[2]]))
        raise Refused(f"There is nothing at this path: see /events, /events/ID/start, /complete and /cancel, /{', /'.join(list(self.places)[1:])}.", 404)

    def _events(self, request):
        if request.method == "GET":
            return json_response(200, self.scale_set.reports())
        event = checked_event(parse_json(request.body))
        self._refuse_commands([event])
        told = {"EventId": self.scale_set.add(event)}
        return json_response(201, {**told, **self._not_simulated(event["Resources"])})

    def _not_simulated(self, resources):
        """The names that no VM here has: the test has more VMs, or it made a typing error."""
        names = strangers_to(self.names, resources)
        return {"NotSimulated": names} if names else {}

    def _faults(self, request):
        if request.method == "GET":
            return json_response(200, self.scale_set.faults.reports())
        if request.method == "DELETE":
            self.scale_set.faults.clear()
            return json_response(200, {"Faults": 0})
        return json_response(201, {"Faults": self.scale_set.faults.add(checked_fault(parse_json(request.body), self.names))})

    def _requests(self, request):
        last = request.parameter("last")
        if last and not re.fullmatch("[0-9]{1,9}", last):
            raise Refused(f"last must be an integer from 0 to 999999999, not {shown(last)}.")
        return json_response(200, self.scale_set.log.seen(int(last) if last else None))

    def _state(self, request):
        with self.scale_set.changed:
            state = {
                **self._time(),
                "On": self.scale_set.on_since is not None,
                "DocumentIncarnation": self.scale_set.documents.incarnation,
                "Vms": {vm.name: {"Url": self.urls[vm.name], "Domain": vm.domain} for vm in self.vms},
                "Events": [event.report() for event in self.scale_set.events],
            }
        return json_response(200, {**state, "Faults": self.scale_set.faults.reports(), "Requests": self.scale_set.log.seen(50)})

    def _time(self):
        timetable = self.scale_set.timetable
        with self.scale_set.changed:
            return {"Time": timetable.clock.time(), "Scale": timetable.clock.scale, "Next": timetable.next()}

    def _clock(self, request):
        if request.method == "POST":
            wish = checked(parse_json(request.body), "The clock", {"Scale": a_scale, "Step": seconds, "Next": true})
            if not wish or ("Step" in wish and "Next" in wish):
                raise Refused("The clock needs Scale, or one of Step and Next.")
            timetable = self.scale_set.timetable
            with self.scale_set.changed:
                # The scale comes last, so that a refusal changes nothing.
                if "Next" in wish:
                    timetable.step_to_next()
                if "Step" in wish:
                    timetable.step(wish["Step"])
                if "Scale" in wish:
                    timetable.set_scale(wish["Scale"])
        return json_response(200, self._time())

    def _scenarios(self, request):
        if request.method == "GET":
            return json_response(200, SCENARIOS)
        wish = parse_json(request.body)
        if isinstance(wish, dict) and "Name" in wish:
            name = checked(wish, "A scenario", {"Name": a_text})["Name"]
            if name not in SCENARIOS:
                raise Refused(f"There is no scenario {shown(name)}; known are {', '.join(SCENARIOS)}.", 404)
            scenario = known_scenario(name, self.names)
        else:
            scenario = checked_scenario(wish, self.names)
            self._refuse_commands(scenario.entries)
        if scenario.vms:
            raise Refused("What is told of VMs is told at the start: see --scenario.")
        planned = scenario.events(self.vms, self.scale_set.habits.one_domain)
        for fault in scenario.faults:
            self.scale_set.faults.add(fault)
        Play(self.scale_set, planned)
        told = {"Events": len(planned), "Faults": len(scenario.faults)}
        return json_response(201, {**told, **self._not_simulated([name for event in planned for name in event.fields["Resources"]])})

    def _disable(self, request):
        self.scale_set.switch_off()
        return json_response(200, {"DocumentIncarnation": 1})

    def _refuse_commands(self, events):
        # Everybody who reaches this address could act as the user who runs the simulator.
        if not self.commands_allowed and any(event.keys() & {"OnStart", "OnGone"} for event in events):
            raise Refused("OnStart and OnGone are taken from here with --allow-commands alone.", 403)


def refuse_other_pages(request):
    """Refuses pages of other sites in a browser, also of a site whose name leads to this address."""
    origin, host = request.headers.get("origin"), request.headers.get("host", [""])[0]
    if origin is None:
        return
    name = re.sub(r":[0-9]*$", "", host)
    if origin != [f"http://{host}"] or not re.fullmatch(r"localhost|[0-9.]+|\[[0-9A-Fa-f:.]+\]", name):
        raise Refused("Only this page itself may ask from a browser, by its number or localhost.", 403)
