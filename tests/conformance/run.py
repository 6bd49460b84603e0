# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Does a metadata service do what is known of Scheduled Events? One case for each fact, over HTTP alone.

    run.py --url http://169.254.169.254           on a real VM: requests that read, and no others
    run.py --url ... --malformed                  also requests that the service should refuse
    run.py --control http://127.0.0.1:8169        on the simulator: all cases, with events of its own

Without --malformed nothing is posted. Nothing is ever approved without --control. The numbers are those of
tests/SIMULATOR.md. The standard library of Python 3.7 is all it needs. It ends with 0 if no case failed.
"""

from __future__ import annotations

import argparse
import collections
import email.utils
import http.client
import json
import re
import sys
import time
import urllib.parse
from pathlib import Path

EVENTS = "/metadata/scheduledevents"
NEWEST, PREVIEW = "2020-07-01", "2017-03-01"
INSTANCE_VERSION = "2021-02-01"  # the instance endpoint has versions of its own
PATIENCE = 5.0  # for what becomes of an event of the simulator
PAUSE = 0.25  # before each request to a service that may answer five a second
FIRST = ["EventId", "EventType", "ResourceType", "Resources", "EventStatus", "NotBefore"]
FIELDS = {
    "2017-03-01": FIRST,
    "2017-08-01": FIRST,
    "2017-11-01": FIRST,
    "2019-01-01": FIRST,
    "2019-04-01": [*FIRST, "Description"],
    "2019-08-01": [*FIRST, "Description", "EventSource"],
    "2020-07-01": [*FIRST, "Description", "EventSource", "DurationInSeconds"],
}
RFC_1123 = "(Mon|Tue|Wed|Thu|Fri|Sat|Sun), [0-9]{2} (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT"
VECTORS = Path(__file__).resolve().parent / "vectors"

# What a case needs: a service to read, one that may be sent what it refuses, or a simulator's control address.
READS, MALFORMED, CONTROL = "reads", "malformed", "control"
CASES = collections.OrderedDict()
Case = collections.namedtuple("Case", "number needs title act")
Answer = collections.namedtuple("Answer", "status headers body")


class Unlike(Exception):
    """The service is unlike the fact."""


def case(number, needs):
    def note(act):
        assert number not in CASES, number
        CASES[number] = Case(number, needs, act.__doc__.strip(), act)
        return act

    return note


def expect(right, *told):
    if not right:
        raise Unlike(" ".join(map(str, told)))


def equal(found, wanted, what=""):
    expect(found == wanted, what, "is", repr(found)[:300], "instead of", repr(wanted)[:300])


def parsed(answer):
    try:
        return json.loads(answer.body.decode("utf-8"))
    except ValueError:
        raise Unlike("the answer is no JSON: " + repr(answer.body[:200])) from None


def send(base, method, path, query=(), headers=(), body=None):
    """One request on a connection of its own: no proxy, no redirect, nothing but what is given here."""
    parts = urllib.parse.urlsplit(base if "://" in base else "http://" + base)
    connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=130)
    query = "&".join(query if isinstance(query, (list, tuple)) else [query])
    try:
        connection.request(method, path + ("?" + query if query else ""), body, dict(headers))
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read())
    finally:
        connection.close()


class Service:
    """The metadata service of one VM."""

    def __init__(self, url, pause=0):
        self.url = url
        self.pause = pause

    def ask(self, method="GET", path=EVENTS, version=NEWEST, query=(), headers=(("Metadata", "true"),), body=None):
        time.sleep(self.pause)
        query = (["api-version=" + version] if version is not None else []) + list(query)
        return send(self.url, method, path, query, headers, body)

    def document(self, version=NEWEST):
        answer = self.ask(version=version)
        equal(answer.status, 200, "the status")
        return parsed(answer)

    def events(self, version=NEWEST):
        return self.document(version)["Events"]

    def approve(self, *ids, **more):
        body = dict(more.pop("fields", {}), StartRequests=[{"EventId": event_id} for event_id in ids])
        return self.ask("POST", body=json.dumps(body).encode(), **more)

    def name(self):
        return self.ask(path="/metadata/instance/compute/name", version=INSTANCE_VERSION, query=["format=text"]).body.decode()


class Simulator:
    """The simulator's control address, and the services of its VMs."""

    def __init__(self, url, patience=PATIENCE):
        self.url = url
        self.patience = patience
        vms = self.ask("GET", "/state")["Vms"]
        self.services = {name: Service(vm["Url"]) for name, vm in vms.items()}
        self.names = list(vms)
        self.domains = {}
        for name, vm in vms.items():
            self.domains.setdefault(vm["Domain"], []).append(name)

    @property
    def first(self):
        return self.services[self.names[0]]

    def ask(self, method, path, value=None):
        answer = send(self.url, method, path, body=None if value is None else json.dumps(value).encode())
        expect(answer.status < 300, "the control address answers", answer.status, answer.body.decode())
        return parsed(answer)

    def clear(self):
        """No event, no fault, real time."""
        self.ask("DELETE", "/faults")
        self.ask("POST", "/clock", {"Scale": 1})
        while True:
            standing = [event for event in self.ask("GET", "/events") if event["EventStatus"] in ("Scheduled", "Started")]
            if not standing:
                return
            for event in standing:
                try:
                    self.move(event["EventId"], "cancel" if event["EventStatus"] == "Scheduled" else "complete")
                except Unlike:
                    pass  # the case before has approved it, and it has just started

    def add(self, **fields):
        whole = {"EventType": "Reboot", "Resources": [self.names[0]], "NoticeSeconds": None, "ImpactSeconds": None}
        return self.ask("POST", "/events", dict(whole, **fields))["EventId"]

    def move(self, event_id, move):
        return self.ask("POST", "/events/{}/{}".format(urllib.parse.quote(event_id, safe=""), move))

    def fault(self, **fault):
        self.ask("POST", "/faults", {"Fault": fault, "Times": 1})

    def stop_time(self):
        """Until the end of the case only steps let time pass, however long requests take."""
        self.ask("POST", "/clock", {"Scale": 0})

    def step(self, seconds):
        self.ask("POST", "/clock", {"Step": seconds})

    def report(self, event_id):
        return [event for event in self.ask("GET", "/events") if event["EventId"] == event_id][-1]

    def until(self, event_id, status):
        deadline = time.monotonic() + self.patience
        while self.report(event_id)["EventStatus"] != status:
            expect(time.monotonic() < deadline, "the event is not", status, "after", self.patience, "s")
            time.sleep(0.02)


def refused(answer, status=400):
    equal(answer.status, status, "the status")
    error = parsed(answer)
    expect(isinstance(error, dict) and isinstance(error.get("error"), str), "the answer names no error:", error)
    return error


# Transport


@case("T1", READS)
def gets_the_events(service):
    """GET /metadata/scheduledevents with an api-version is answered with JSON."""
    answer = service.ask()
    equal(answer.status, 200, "the status")
    expect(answer.headers.get_content_type() == "application/json", answer.headers["Content-Type"])
    parsed(answer)


@case("T2", READS)
def needs_the_header(service):
    """Without the header Metadata: true a request is refused with 400."""
    for headers in ((), (("Metadata", "false"),)):
        refused(service.ask(headers=headers))


@case("T3", READS)
def header_of_any_case(service):
    """The header's value is taken in any case."""
    for value in ("true", "True", "TRUE"):
        equal(service.ask(headers=[("Metadata", value)]).status, 200, "the status for " + value)


@case("T4", MALFORMED)
def post_needs_the_header(service):
    """A POST without the header is refused, since 2017-08-01."""
    for version in list(FIELDS)[1:]:
        refused(service.approve("00000000-0000-0000-0000-000000000000", version=version, headers=()))


@case("T5", CONTROL)
def preview_posts_without_the_header(simulator):
    """A POST of the preview is taken without the header."""
    event_id = simulator.add()
    incarnation = simulator.first.document(PREVIEW)["DocumentIncarnation"]
    equal(simulator.first.approve(event_id, version=PREVIEW, headers=(), fields={"DocumentIncarnation": str(incarnation)}).status, 200)


@case("T6", CONTROL)
def type_of_the_body(simulator):
    """The type of an approval's body does not matter."""
    event_id = simulator.add()
    for kind in ("application/json", "application/x-www-form-urlencoded", None):
        headers = [("Metadata", "true")] + ([("Content-Type", kind)] if kind else [])
        equal(simulator.first.approve(event_id, headers=headers).status, 200, "the status for {}".format(kind))


@case("T7", READS)
def forwarded(service):
    """A request with X-Forwarded-For is refused."""
    refused(service.ask(headers=[("Metadata", "true"), ("X-Forwarded-For", "10.0.0.1")]))


@case("T8", READS)
def repeated(service):
    """A request with a repeated query parameter is refused."""
    refused(service.ask(query=["api-version=" + NEWEST]))


@case("T9", READS)
def no_redirect(service):
    """The service itself redirects nowhere."""
    for path, version in ((EVENTS, NEWEST), ("/metadata/instance", INSTANCE_VERSION), ("/metadata/versions", None)):
        answer = service.ask(path=path, version=version)
        expect(not 300 <= answer.status < 400, path, "answers", answer.status)


@case("T10", CONTROL)
def each_its_own(simulator):
    """Each VM has a service of its own, which tells that VM's name."""
    for name, service in simulator.services.items():
        equal(service.name(), name)


# Versions


@case("V1", READS)
def seven_versions(service):
    """All seven versions are served."""
    for version in FIELDS:
        equal(service.ask(version=version).status, 200, "the status for " + version)


@case("V2", CONTROL)
def fields_of_versions(simulator):
    """Each version shows its own fields and no others; only the EventId is there for certain."""
    simulator.add()
    for version, fields in FIELDS.items():
        (event,) = simulator.first.events(version)
        equal(sorted(event), sorted(fields), version)


@case("V3", CONTROL)
def underscores(simulator):
    """The preview's names of resources bear a leading underscore, those of later versions do not."""
    simulator.add(Resources=["FrontEnd_IN_0"])
    for version in FIELDS:
        equal(simulator.first.events(version)[0]["Resources"], ["_FrontEnd_IN_0" if version == PREVIEW else "FrontEnd_IN_0"], version)


@case("V4", CONTROL)
def approval_of_the_preview(simulator):
    """An approval of the preview carries the DocumentIncarnation."""
    event_id = simulator.add()
    incarnation = simulator.first.document(PREVIEW)["DocumentIncarnation"]
    refused(simulator.first.approve(event_id, version=PREVIEW))
    equal(simulator.first.approve(event_id, version=PREVIEW, fields={"DocumentIncarnation": str(incarnation)}).status, 200)


@case("V5", CONTROL)
def iso_in_the_preview(simulator):
    """NotBefore of the preview is ISO 8601."""
    simulator.add()
    expect(re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", simulator.first.events(PREVIEW)[0]["NotBefore"]))


@case("V6", READS)
def latest(service):
    """latest is no version."""
    refused(service.ask(version="latest"))


@case("V7", READS)
def bad_version(service):
    """An unknown version is refused with 400 and JSON that names newer ones."""
    error = refused(service.ask(version="2016-01-01"))
    expect(any(isinstance(value, list) and value for value in error.values()), "no versions in", error)


@case("V8", READS)
def no_version(service):
    """A request without a version is refused with 400."""
    refused(service.ask(version=None))


# The document


@case("D1", READS)
def shape(service):
    """The document is an object with DocumentIncarnation and a list of Events."""
    document = service.document()
    equal(sorted(document), ["DocumentIncarnation", "Events"])
    expect(isinstance(document["Events"], list))


@case("D2", READS)
def incarnation(service):
    """DocumentIncarnation is an integer."""
    number = service.document()["DocumentIncarnation"]
    expect(isinstance(number, int) and not isinstance(number, bool))


@case("D3", CONTROL)
def incarnation_grows(simulator):
    """DocumentIncarnation grows when the events change, and only then, and is the same on all VMs."""
    seen = []

    def look():
        documents = [service.document() for service in simulator.services.values()] * 2
        expect(all(document == documents[0] for document in documents), "the VMs' documents differ")
        seen.append(documents[0]["DocumentIncarnation"])

    look()
    event_id = simulator.add()
    for move in ("start", "complete"):
        look()
        look()
        simulator.move(event_id, move)
    look()
    expect(seen[0] < seen[1] == seen[2] < seen[3] == seen[4] < seen[5], seen)


@case("D4", READS)
def same_incarnation_same_events(service):
    """Documents of the same incarnation have the same events."""
    documents = [service.document() for _time in range(2)]
    if documents[0]["DocumentIncarnation"] == documents[1]["DocumentIncarnation"]:
        equal(documents[0], documents[1])


@case("D5", CONTROL)
def incarnations_start_again(simulator):
    """Incarnations start again after the service was switched off."""
    simulator.move(simulator.add(), "cancel")
    before = simulator.first.document()["DocumentIncarnation"]
    simulator.ask("POST", "/disable")
    expect(simulator.first.document()["DocumentIncarnation"] < before)


@case("D6", CONTROL)
def empty_is_healthy(simulator):
    """Without an event the list is empty."""
    equal(simulator.first.events(), [])


@case("D7", CONTROL)
def empty_body(simulator):
    """On request: a 200 with an empty body."""
    simulator.fault(Empty=True)
    answer = simulator.first.ask()
    equal((answer.status, answer.body), (200, b""))


@case("D8", READS)
def entity_tags(service):
    """An ETag given back in If-None-Match is answered with 304."""
    tag = service.ask().headers["ETag"]
    expect(tag, "there is no ETag")
    answer = service.ask(headers=[("Metadata", "true"), ("If-None-Match", tag)])
    equal((answer.status, answer.body), (304, b""))


@case("D9", CONTROL)
def entity_tags_of_approvals(simulator):
    """If-None-Match on an approval means nothing."""
    event_id = simulator.add()
    tag = simulator.first.ask().headers["ETag"]
    equal(simulator.first.approve(event_id, headers=[("Metadata", "true"), ("If-None-Match", tag)]).status, 200)


@case("D10", READS)
def documented_fields(service):
    """No event has a field that is not documented."""
    for event in service.events():
        expect(set(event) <= set(FIELDS[NEWEST]), sorted(event))


@case("D11", CONTROL)
def types(simulator):
    """The types Freeze, Reboot, Redeploy, Preempt and Terminate, and on request any other."""
    kinds = ["Freeze", "Reboot", "Redeploy", "Preempt", "Terminate", "Unheard"]
    for kind in kinds:
        simulator.add(EventType=kind)
    equal([event["EventType"] for event in simulator.first.events()], kinds)
    equal({event["ResourceType"] for event in simulator.first.events()}, {"VirtualMachine"})


@case("D12", CONTROL)
def all_see_all(simulator):
    """Every VM of the set sees the events of all the others."""
    event_id = simulator.add(Resources=[simulator.names[-1]])
    for service in simulator.services.values():
        equal([event["EventId"] for event in service.events()], [event_id])


@case("D15", READS)
def name_as_text(service):
    """The VM's name is to be had as text from the instance endpoint."""
    answer = service.ask(path="/metadata/instance/compute/name", version=INSTANCE_VERSION, query=["format=text"])
    equal(answer.status, 200)
    expect(re.fullmatch(r"\S+", answer.body.decode()), answer.body)
    equal(answer.headers.get_content_type(), "text/plain")


@case("D16", CONTROL)
def names_in_resources(simulator):
    """The names in Resources are those that the instance endpoint tells."""
    simulator.add(Resources=simulator.names[:1])
    equal(simulator.first.events()[0]["Resources"], [simulator.first.name()])


@case("D17", CONTROL)
def statuses(simulator):
    """EventStatus is Scheduled, then Started; an event that is over is gone."""
    event_id = simulator.add()
    equal(simulator.first.events()[0]["EventStatus"], "Scheduled")
    simulator.move(event_id, "start")
    equal(simulator.first.events()[0]["EventStatus"], "Started")
    simulator.move(event_id, "complete")
    equal(simulator.first.events(), [])


@case("D18", CONTROL)
def not_before(simulator):
    """NotBefore is RFC 1123 in GMT, in the future, of the clock that Date shows."""
    simulator.add(NoticeSeconds=900)
    answer = simulator.first.ask()
    not_before = parsed(answer)["Events"][0]["NotBefore"]
    expect(re.fullmatch(RFC_1123, not_before), not_before)
    ahead = email.utils.parsedate_to_datetime(not_before) - email.utils.parsedate_to_datetime(answer.headers["Date"])
    expect(895 <= ahead.total_seconds() <= 900, ahead)


@case("D19", CONTROL)
def not_before_of_started(simulator):
    """NotBefore is empty once Started."""
    simulator.move(simulator.add(), "start")
    for version in FIELDS:
        equal(simulator.first.events(version)[0]["NotBefore"], "", version)


@case("D20", CONTROL)
def not_earlier(simulator):
    """An event that nobody approves does not start before NotBefore, and starts then."""
    simulator.stop_time()
    event_id = simulator.add(NoticeSeconds=600)
    simulator.step(598)
    equal(simulator.first.events()[0]["EventStatus"], "Scheduled")
    simulator.step(3)
    equal(simulator.first.events()[0]["EventStatus"], "Started")
    equal(simulator.first.events()[0]["EventId"], event_id)


@case("D21", CONTROL)
def iso_dates(simulator):
    """On request: ISO 8601 in other versions, too; and a NotBefore whose weekday is wrong."""
    simulator.add()
    simulator.fault(IsoDates=True)
    expect(simulator.first.events()[0]["NotBefore"].endswith("Z"))
    simulator.add(NotBefore="Tue, 19 Sep 2016 18:29:47 GMT")
    equal(simulator.first.events()[1]["NotBefore"], "Tue, 19 Sep 2016 18:29:47 GMT")


@case("D22", CONTROL)
def sources(simulator):
    """EventSource is Platform or User."""
    for source in ("Platform", "User"):
        simulator.add(EventSource=source)
    equal([event["EventSource"] for event in simulator.first.events()], ["Platform", "User"])


@case("D23", CONTROL)
def durations(simulator):
    """DurationInSeconds is a number: seconds, 0 for none, -1 for unknown; on request a string of one."""
    for duration in (9, 0, -1):
        simulator.add(DurationInSeconds=duration)
    equal([event["DurationInSeconds"] for event in simulator.first.events()], [9, 0, -1])
    simulator.fault(StringNumbers=True)
    equal([event["DurationInSeconds"] for event in simulator.first.events()], ["9", "0", "-1"])


@case("D24", CONTROL)
def ids(simulator):
    """EventId is the same from Scheduled to gone, in the case given."""
    event_id = simulator.add(EventId="c7061bac-AFDC-4513-B24B-AA5F13A16123")
    for _move in ("start", "complete"):
        equal(simulator.first.events()[0]["EventId"], event_id)
        simulator.move(event_id.upper(), _move)
    expect(re.fullmatch("[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", simulator.add()))


@case("D25", CONTROL)
def incarnation_as_text(simulator):
    """On request: an incarnation that is a string."""
    simulator.fault(StringNumbers=True)
    expect(isinstance(simulator.first.document()["DocumentIncarnation"], str))


# The life of an event


@case("L1", CONTROL)
def approval_starts(simulator):
    """An approval starts an event before NotBefore."""
    event_id = simulator.add(NoticeSeconds=900)
    equal(simulator.first.approve(event_id).status, 200)
    simulator.until(event_id, "Started")


@case("L2", CONTROL)
def completed(simulator):
    """An event whose impact is over is gone."""
    event_id = simulator.add(NoticeSeconds=10, ImpactSeconds=7, SettleSeconds=593)
    simulator.step(11)
    simulator.step(590)
    equal(len(simulator.first.events()), 1)
    simulator.step(11)
    equal(simulator.first.events(), [])
    equal(simulator.report(event_id)["EventStatus"], "Completed")


@case("L3", CONTROL)
def cancelled(simulator):
    """An event may go from Scheduled to gone, without an impact."""
    event_id = simulator.add(NoticeSeconds=900, CancelSeconds=300)
    simulator.step(301)
    equal(simulator.first.events(), [])
    equal(simulator.report(event_id)["Impacts"], [])


@case("L4", CONTROL)
def hardware_failure(simulator):
    """A hardware failure is a Reboot that is Started at once."""
    simulator.ask("POST", "/scenarios", {"Name": "hardware-failure"})
    simulator.step(1)
    (event,) = simulator.first.events()
    equal((event["EventType"], event["EventStatus"], event["NotBefore"]), ("Reboot", "Started", ""))


def notice_of(simulator, name):
    """How far ahead the first event of a scenario is announced."""
    simulator.stop_time()
    simulator.ask("POST", "/scenarios", {"Name": name})
    simulator.step(0.5)
    answer = simulator.first.ask()
    event = parsed(answer)["Events"][-1]
    ahead = email.utils.parsedate_to_datetime(event["NotBefore"]) - email.utils.parsedate_to_datetime(answer.headers["Date"])
    return event["EventType"], ahead.total_seconds()


@case("L5", CONTROL)
def notices(simulator):
    """Notice is 15 minutes for Freeze and Reboot, 10 for Redeploy, 5 to 15 for Terminate, 30 s for Preempt."""
    wanted = {"live-migration": 900, "host-reboot": 900, "redeploy": 600, "scale-in": 300, "spot-eviction": 30}
    for name, seconds in wanted.items():
        _kind, ahead = notice_of(simulator, name)
        expect(seconds - 3 <= ahead <= seconds, name, ahead)


@case("L6", CONTROL)
def shorter_notices(simulator):
    """Less notice has been seen: 5 minutes for Freeze, under 10 s for Preempt."""
    for name, kind, most in (("short-notice-freeze", "Freeze", 330), ("spot-eviction-5s", "Preempt", 10)):
        found, ahead = notice_of(simulator, name)
        expect(found == kind and ahead < most, name, found, ahead)


@case("L7", CONTROL)
def predicted_failure(simulator):
    """A predicted hardware failure is announced days ahead."""
    expect(notice_of(simulator, "predicted-failure")[1] > 2 * 86400)


@case("L8", CONTROL)
def typical(simulator):
    """Typical: 15 minutes, 7 s of impact, 10 minutes from Started to gone."""
    simulator.ask("POST", "/scenarios", {"Name": "live-migration"})
    simulator.step(905)
    equal([event["EventStatus"] for event in simulator.first.events()], ["Started"])
    simulator.step(580)
    equal(len(simulator.first.events()), 1)
    simulator.step(30)
    equal(simulator.first.events(), [])


@case("L9", READS)
def date(service):
    """The header Date tells the service's clock."""
    for answer in (service.ask(), service.ask(headers=())):
        expect(re.fullmatch(RFC_1123, answer.headers["Date"] or ""), answer.headers["Date"])


@case("L10", CONTROL)
def further_impacts(simulator):
    """While Started further impacts may follow; the document does not change."""
    event_id = simulator.add(EventStatus="Started", FurtherImpacts=[60, 120])
    before = simulator.first.document()
    simulator.step(200)
    equal(simulator.first.document(), before)
    equal(len(simulator.report(event_id)["Impacts"]), 3)


@case("L11", CONTROL)
def approved_for_all(simulator):
    """An approval by one VM starts the event for all its Resources, and any VM of the set may approve."""
    names = max(simulator.domains.values(), key=len)
    event_id = simulator.add(Resources=names)
    equal(simulator.services[simulator.names[-1]].approve(event_id).status, 200)
    simulator.until(event_id, "Started")
    for service in simulator.services.values():
        equal([(event["EventStatus"], event["Resources"]) for event in service.events()], [("Started", names)])


@case("L12", CONTROL)
def other_tenants(simulator):
    """An approved event may wait for other tenants."""
    event_id = simulator.add(NoticeSeconds=900, ApprovalSeconds=240)
    equal(simulator.first.approve(event_id).status, 200)
    simulator.step(230)
    equal(simulator.first.events()[0]["EventStatus"], "Scheduled")
    simulator.step(20)
    equal(simulator.first.events()[0]["EventStatus"], "Started")


@case("L13", CONTROL)
def user_events_wait(simulator):
    """A user's reboot waits about 15 minutes and a redeploy 10, unless approved."""
    for name, least, most in (("user-reboot", 840, 900), ("user-redeploy", 590, 600)):
        expect(least <= notice_of(simulator, name)[1] <= most, name)
        event = simulator.first.events()[-1]
        equal((event["EventSource"], event["EventStatus"]), ("User", "Scheduled"))
        simulator.first.approve(event["EventId"])
        simulator.until(event["EventId"], "Started")


@case("L14", CONTROL)
def image_upgrade(simulator):
    """A scale set's new OS image comes one update domain after the other."""
    before = len(simulator.ask("GET", "/events"))
    simulator.ask("POST", "/scenarios", {"Name": "os-image-upgrade"})
    for _domain in simulator.domains:
        simulator.step(1)
        equal(len(simulator.first.events()), 1)
        simulator.step(1139)
        simulator.step(1)
    events = simulator.ask("GET", "/events")[before:]
    equal([event["Resources"] for event in events[: len(simulator.domains)]], list(simulator.domains.values()))


@case("L15", CONTROL)
def one_domain(simulator):
    """An event never names VMs of two update domains."""
    names = [names[0] for names in simulator.domains.values()][:2]
    answer = send(simulator.url, "POST", "/events", body=json.dumps({"EventType": "Reboot", "Resources": names}).encode())
    refused(answer)
    equal(simulator.first.events(), [])


@case("L16", CONTROL)
def several(simulator):
    """Several events stand in one document, Scheduled and Started mixed, each with a life of its own."""
    ids = [simulator.add(Resources=[name]) for name in (simulator.names * 3)[:3]]
    simulator.move(ids[1], "start")
    equal([(event["EventId"], event["EventStatus"]) for event in simulator.first.events()], list(zip(ids, ["Scheduled", "Started", "Scheduled"])))
    simulator.move(ids[1], "complete")
    equal([event["EventId"] for event in simulator.first.events()], [ids[0], ids[2]])


@case("L19", CONTROL)
def reboot_becomes_freeze(simulator):
    """A Reboot may turn out a freeze; the document says Reboot."""
    simulator.ask("POST", "/scenarios", {"Name": "reboot-becomes-freeze"})
    simulator.step(1)
    equal(simulator.first.events()[0]["EventType"], "Reboot")
    equal(simulator.report(simulator.first.events()[0]["EventId"])["Impact"], "Freeze")


# Approval


@case("A1", CONTROL)
def several_approvals(simulator):
    """One approval may name several events."""
    ids = [simulator.add() for _time in range(3)]
    equal(simulator.first.approve(*ids).status, 200)
    for event_id in ids:
        simulator.until(event_id, "Started")


@case("A2", CONTROL)
def approved_already(simulator):
    """An approval of any event that stands is answered with 200, also when approved already, also when Started."""
    event_id = simulator.add()
    for service in simulator.services.values():
        equal(service.approve(event_id).status, 200)
    simulator.until(event_id, "Started")
    equal(simulator.first.approve(event_id.lower()).status, 200)


@case("A3", MALFORMED)
def malformed_approvals(service):
    """A malformed payload is refused with 400."""
    for body in (b"", b"{", b"[]", b"{}", b'{"StartRequests": 1}', b'{"StartRequests": [{}]}'):
        refused(service.ask("POST", body=body))


@case("A4", MALFORMED)
def unknown_approval(service):
    """An approval of an unknown event is refused with 400."""
    refused(service.approve("00000000-0000-0000-0000-000000000000"))


@case("A5", CONTROL)
def no_body(simulator):
    """An approval is told by its status; there is no body."""
    equal(simulator.first.approve(simulator.add()).body, b"")


@case("A6", CONTROL)
def stale_incarnation(simulator):
    """An approval of the preview for another incarnation is refused, and does nothing."""
    event_id = simulator.add()
    incarnation = simulator.first.document(PREVIEW)["DocumentIncarnation"]
    refused(simulator.first.approve(event_id, version=PREVIEW, fields={"DocumentIncarnation": str(incarnation - 1)}))
    equal(simulator.report(event_id)["Approvals"], [])


@case("A7", CONTROL)
def all_or_nothing(simulator):
    """An approval that names one event that is gone starts none."""
    event_id, gone = simulator.add(), simulator.add()
    simulator.move(gone, "cancel")
    refused(simulator.first.approve(event_id, gone))
    equal(simulator.report(event_id)["Approvals"], [])


# Errors


@case("E1", MALFORMED)
def other_methods(service):
    """Other methods are refused with 405."""
    for method in ("PUT", "DELETE"):
        equal(service.ask(method).status, 405, method)


@case("E2", READS)
def other_paths(service):
    """Other paths are not found."""
    equal(service.ask(path="/metadata/no-such-thing").status, 404)


@case("E3", CONTROL)
def passing_errors(simulator):
    """On request: 404, 410, 429 and 5xx that pass, with Retry-After."""
    for status in (404, 410, 429, 500, 503):
        simulator.fault(Status=status, Headers={"Retry-After": "2"})
        answer = simulator.first.ask()
        equal((answer.status, answer.headers["Retry-After"]), (status, "2"))
        equal(simulator.first.ask().status, 200)


@case("E4", CONTROL)
def drops_and_delays(simulator):
    """On request: connections that are dropped, answers that are late."""
    simulator.fault(Drop=True)
    try:
        simulator.first.ask()
    except (OSError, http.client.HTTPException):
        pass
    else:
        raise Unlike("there was an answer")
    simulator.fault(Delay=0.3)
    begun = time.monotonic()
    simulator.first.ask()
    expect(time.monotonic() - begun >= 0.3)


# The instance endpoint


@case("I1", READS)
def instance_fields(service):
    """The instance endpoint tells name, scale set, location, zone, resource id, placement group and tags."""
    compute = parsed(service.ask(path="/metadata/instance/compute", version="2021-02-01"))
    for name in ("name", "vmScaleSetName", "location", "zone", "resourceId", "placementGroupId", "tags", "vmId"):
        expect(isinstance(compute.get(name), str), name, "is", compute.get(name))


@case("I2", READS)
def versions(service):
    """/metadata/versions lists the versions."""
    versions = parsed(service.ask(path="/metadata/versions", version=None))["apiVersions"]
    expect(versions and all(re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", version) for version in versions), versions)


# The vectors


@case("X1", CONTROL)
def vectors(simulator):
    """The documented example of each version comes out of it."""
    for path in sorted(VECTORS.glob("20??-??-??.json")):
        wanted = json.loads(path.read_text())
        reach_incarnation(simulator, wanted["DocumentIncarnation"] - 1)
        for event in wanted["Events"]:
            fields = dict(event, Resources=[name.lstrip("_") for name in event["Resources"]])
            simulator.add(**fields)
        same_document(simulator.first.document(path.stem), wanted, path.name)
        simulator.clear()


@case("X2", CONTROL)
def vectors_step_by_step(simulator):
    """The documented lives come out of it, document by document."""
    for path in sorted(VECTORS.glob("[a-z]*.json")):
        simulator.ask("POST", "/disable")
        before, alive = set(), {}
        for wanted in json.loads(path.read_text()):
            for event in wanted["Events"]:
                if event["EventId"] not in alive:
                    alive[event["EventId"]] = event
                    simulator.add(**{name: value for name, value in event.items() if value != ""})
                elif event["EventStatus"] == "Started":
                    simulator.move(event["EventId"], "start")
            for event_id in before - {event["EventId"] for event in wanted["Events"]}:
                simulator.move(event_id, "cancel" if alive[event_id]["EventStatus"] == simulator.report(event_id)["EventStatus"] == "Scheduled" else "complete")
            before = {event["EventId"] for event in wanted["Events"]}
            same_document(simulator.first.document(), wanted, path.name)
        simulator.clear()


@case("X3", CONTROL)
def vectors_of_approvals(simulator):
    """The documented approvals are taken."""
    for version in (PREVIEW, NEWEST):
        body = json.loads((VECTORS / (version + ".approve.json")).read_text())
        reach_incarnation(simulator, 4)
        event_id = simulator.add(EventId=body["StartRequests"][0]["EventId"])
        equal(simulator.first.ask("POST", version=version, body=json.dumps(body).encode()).status, 200, version)
        simulator.until(event_id, "Started")
        simulator.clear()


def reach_incarnation(simulator, wanted):
    """A document of that incarnation (1, 3 or more), without an event."""
    simulator.ask("POST", "/disable")
    current = simulator.first.document()["DocumentIncarnation"]
    while current < wanted:
        event_id = simulator.add()
        for move in ["cancel"] if (wanted - current) % 2 == 0 else ["start", "complete"]:
            simulator.move(event_id, move)
        current = simulator.first.document()["DocumentIncarnation"]
    equal(current, wanted, "the incarnation")


def same_document(found, wanted, what):
    """The same fields, and each the same, byte for byte."""
    equal(found["DocumentIncarnation"], wanted["DocumentIncarnation"], what)
    equal([sorted(event) for event in found["Events"]], [sorted(event) for event in wanted["Events"]], what)
    for event, wanted_event in zip(found["Events"], wanted["Events"]):
        for name, value in wanted_event.items():
            equal(json.dumps(event[name]), json.dumps(value), what + " " + name)


# Running


def run(one, service, simulator):
    """None, or how the service is unlike the fact of the case."""
    target = simulator if one.needs == CONTROL else service
    if simulator is not None:
        simulator.clear()
    try:
        one.act(target)
    except Unlike as unlike:
        return str(unlike) or "it is not so"
    except (OSError, http.client.HTTPException) as error:
        return "{}: {}".format(type(error).__name__, error)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        return "an answer of another shape: {}: {}".format(type(error).__name__, error)
    return None


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", help="the metadata service (the simulator's first VM, with --control)")
    parser.add_argument("--malformed", action="store_true", help="send requests that the service should refuse, too")
    parser.add_argument("--control", help="the simulator's control address: all cases")
    parser.add_argument("--patience", type=float, default=PATIENCE, help="for how many seconds to wait for what becomes of an event of the simulator")
    parser.add_argument("--case", action="append", help="only the case of this number")
    parser.add_argument("--list", action="store_true", help="lists the cases, and ends")
    options = parser.parse_args(arguments)
    if options.list:
        for one in CASES.values():
            print("{:4} {:10} {}".format(one.number, one.needs, one.title))
        return 0
    if not options.url and not options.control:
        parser.error("where? give --url or --control")
    try:
        simulator = Simulator(options.control, options.patience) if options.control else None
    except (OSError, http.client.HTTPException, Unlike, KeyError, TypeError, ValueError) as error:
        print("{} is no control address of a simulator: {}: {}".format(options.control, type(error).__name__, error), file=sys.stderr)
        return 2
    service = Service(options.url, 0 if simulator else PAUSE) if options.url else simulator.first
    failed = 0
    for one in CASES.values():
        if options.case and one.number not in options.case:
            continue
        if simulator is None and (one.needs == CONTROL or (one.needs == MALFORMED and not options.malformed)):
            print("{:4} not asked ({}): {}".format(one.number, one.needs, one.title))
            continue
        unlike = run(one, service, simulator)
        failed += unlike is not None
        print("{:4} {}: {}".format(one.number, "as known" if unlike is None else "UNLIKE", one.title))
        if unlike is not None:
            print("     " + unlike)
    print("{} unlike what is known".format(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
