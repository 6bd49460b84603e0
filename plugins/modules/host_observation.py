#!/usr/bin/python
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_observation
short_description: "Internal: look at a host, and return faults as data"
version_added: 1.0.0
description:
  - Internal to the playbooks of this collection. Options and results may change with every release.
    Elsewhere use M(graceful.azure.scheduled_events_info) and M(graceful.azure.connections_info).
  - Reads the scheduled events, the connections to the host and the records of holds on it. It never fails and
    never makes a host unreachable, because the passes must go on whatever happens to one host.
  - With O(wait) the look also contains the pause between two passes. The host itself waits, so that a new event ends the pause at once.
extends_documentation_fragment:
  - graceful.azure._attributes
  - graceful.azure._imds
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details:
      - Nothing is changed, except that the folder O(state_dir) is made if missing and that O(journal) is written. Check mode does neither.
  idempotent:
    support: full
options:
  ports:
    description:
      - Local TCP ports whose connections are counted.
    type: list
    elements: int
    default: []
  state_dir:
    description:
      - The folder of the records of holds on this host.
    type: path
    default: /var/lib/graceful_azure
  timeout:
    description:
      - Seconds that one answer of the metadata service may take.
    type: float
    default: 5
  wait:
    description:
      - How many seconds the look goes on until there is something new. It reads the metadata service once a second.
    type: float
    default: 0
  known:
    description:
      - RV(fingerprint) of an earlier look. Everything that differs from it is new.
    type: str
    default: ''
  await_idle:
    description:
      - Whether the look also ends when nobody was connected in two counts in a row.
    type: bool
    default: false
  at_least:
    description:
      - For how many seconds the look goes on even if O(await_idle) is fulfilled. It goes on reading the metadata service while a look at a balancer
        waits.
    type: float
    default: 0
  ignored_peers:
    description:
      - Addresses whose connections O(await_idle) ignores, such as those that a balancer keeps open.
    type: list
    elements: str
    default: []
  heard:
    description:
      - The O(ports) on which somebody was seen listening before. If nobody does now, whoever did was stopped, so O(await_idle) does not wait for
        them.
    type: list
    elements: int
    default: []
  told_apart:
    description:
      - Addresses, such as those of a balancer. RV(connections) also tells the ports from which their connections come.
    type: list
    elements: str
    default: []
  expected:
    description:
      - Ids of events. If the metadata service no longer lists one of them, the look reads the service again after a second. So one look is
        enough to see twice that an event is over.
    type: list
    elements: str
    default: []
  ask:
    description:
      - What must answer before the host goes back into its balancer. It is asked once at the end of the look, if an event that has
        not started affects the host and the host has no record of a hold. So a mistake in these settings is found while the
        host still serves.
      - Without O(ask.url) and O(ask.port) nothing is asked.
    type: dict
    default: {}
    suboptions:
      url:
        description:
          - An C(http) or C(https) URL. A status from 200 to 399 is an answer.
        type: str
      port:
        description:
          - A TCP port that must accept a connection.
        type: int
      host:
        description:
          - The name or address to which O(ask.port) belongs.
        type: str
        default: localhost
      validate_certs:
        description:
          - Whether the certificate of an C(https) URL must be valid.
        type: bool
        default: true
      always:
        description:
          - Whether to ask even if no event affects the host.
        type: bool
        default: false
      held:
        description:
          - Whether to ask even if the host is held, as long as an event is still to come.
        type: bool
        default: false
      back:
        description:
          - Whether to ask only if one of O(expected) is gone. The host may go back then.
        type: bool
        default: false
  steps:
    description:
      - Duties that were handed over. At its end the look also tells which of them are on again.
      - Each has a C(type) and C(names). The type C(iis) has C(sites) and C(pools), the type C(tasks) has C(record) and C(file), and a member of a cluster
        has C(options).
    type: list
    elements: dict
    default: []
  marks:
    description:
      - Duties of types whose clusters tell by name what C(graceful.azure) has taken out, in the same form. At its end the look asks these clusters.
      - What bears that name and has no record is one of RV(holds), with C(marked), if it tells its events. If it tells none, it is RV(fatal).
    type: list
    elements: dict
    default: []
  journal:
    description:
      - Fields of an entry that is written to the journal of systemd on the host before the look, with C(graceful-azure) as its C(SYSLOG_IDENTIFIER).
        On a host without such a journal, and in check mode, nothing is written.
    type: dict
    default: {}
author:
  - The graceful.azure authors (@graceful-azure)
"""

EXAMPLES = r"""
- name: Look at the host
  graceful.azure.host_observation:
    ports: [80]
  register: graceful_azure_host
"""

RETURN = r"""
reached:
  description: Whether the module ran on the host.
  returned: always
  type: bool
  sample: true
error:
  description: What went wrong when the host or its metadata service was read.
  returned: when it could not be read
  type: str
  sample: "Failed to connect to the host via ssh: connect to host 10.0.0.4 port 22: No route to host"
fatal:
  description: What a person must repair before anything can be done there.
  returned: when there is such a thing
  type: str
  sample: The state folder /var/lib/graceful_azure cannot be written by user id 1000.
at:
  description: When the metadata service was last read, or else when the look ended, by the controller's clock in seconds since 1970.
  returned: always
  type: float
  sample: 1795243046.25
began:
  description: When the look began, by the controller's clock in seconds since 1970.
  returned: always
  type: float
  sample: 1795243045.75
age:
  description: Seconds from the last read of the metadata service to the end of the look.
  returned: when the host was reached
  type: float
  sample: 0.02
waited:
  description: Seconds that the look took longer because of O(wait).
  returned: when the host was reached
  type: float
  sample: 0.0
looks:
  description: In how many counts in a row nobody was connected.
  returned: when the host was reached
  type: int
  sample: 1
fingerprint:
  description: A digest of what the metadata service showed, to compare with another look.
  returned: when the host was reached
  type: str
  sample: 5d41402abc4b2a76
time:
  description: The host's own clock, ISO 8601 in UTC.
  returned: when the host was reached
  type: str
  sample: "2026-11-21T06:53:03Z"
addresses:
  description: The host's own IP addresses, without loopback and link-local addresses.
  returned: when the host was reached
  type: list
  elements: str
  sample: [10.0.0.4]
network:
  description: An id of the host's network. It differs between machines, and between containers on one machine.
  returned: when the host was reached
  type: str
  sample: 5d41402abc4b2a76
resource_name:
  description: The host's name in C(Resources). Null if its service was not read or does not give it.
  returned: when the host was reached
  type: str
  sample: web_0
events:
  description: The events as M(graceful.azure.scheduled_events_info) returns them. Null if the service was not read.
  returned: when the host was reached
  type: list
  elements: dict
  sample: []
passing:
  description: Whether RV(error) of the metadata service may go away by itself.
  returned: when the service was not read
  type: bool
  sample: true
document_incarnation:
  description: The number of the document.
  returned: when the service was read
  type: int
  sample: 7
empty_body:
  description: Whether the service answered with an empty body. It is read as a document without events.
  returned: when the service was read
  type: bool
  sample: false
steady:
  description: For how many seconds every read of this look has shown the same of the O(expected) events. 0 if there was only one such read.
  returned: when the service was read
  type: float
  sample: 1.0
unanswered:
  description: Why what O(ask) names did not answer. Null if it answered.
  returned: when it was asked
  type: str
  sample: "http://localhost:8080/health: status 404"
boot_id:
  description: Which boot of the host this is. Empty if the host does not tell it.
  returned: when the host was reached
  type: str
  sample: 4d7f1f26-3b0b-4b8e-9d0c-3a0f2f0c5b11
still_on:
  description: What is not out of duty of the O(steps), or cannot be looked at, in sentences.
  returned: when O(steps) were looked at
  type: list
  elements: str
  sample: ["worker.service is active again, although it was stopped for the event"]
connections:
  description:
    - Connections by local port and peer. Null if they could not be counted. For a peer of O(told_apart) also the ports from which they come, as C(peer_ports).
  returned: when the host was reached
  type: list
  elements: dict
  sample:
    - port: 80
      peer: 10.0.0.9
      count: 3
uncounted:
  description: The ports whose connections cannot be counted.
  returned: when the host was reached
  type: list
  elements: dict
  contains:
    port:
      description: The port.
      returned: always
      type: int
      sample: 8080
    why:
      description: Why, as a phrase.
      returned: always
      type: str
      sample: nobody listens on it, and no connection to it is forwarded elsewhere
    unheard:
      description: Whether that is so because nobody listens. It is also so after the service was stopped.
      returned: always
      type: bool
      sample: true
  sample: []
holds:
  description: Every record of a hold on this host, as it is in its file. Null if the records could not be read.
  returned: when the host was reached
  type: list
  elements: dict
  sample: []
state_folder:
  description: The folder of the records, and an id that two hosts with the same folder share. The id is null if it cannot be told.
  returned: when the host was reached
  type: dict
  sample: {path: /var/lib/graceful_azure, id: 5d41402abc4b2a76}
journal_missed:
  description: Whether the journal was too busy to take the entry in O(journal). It may be sent again.
  returned: when the journal was too busy
  type: bool
  sample: true
"""

import hashlib
import json
import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.graceful.azure.plugins.module_utils import _journald
from ansible_collections.graceful.azure.plugins.module_utils._abandoned_module import end_unless_read
from ansible_collections.graceful.azure.plugins.module_utils._addresses import network_of, own_addresses
from ansible_collections.graceful.azure.plugins.module_utils._connections import ConnectionsError, counted, parse_address
from ansible_collections.graceful.azure.plugins.module_utils._file_systems import identity_of
from ansible_collections.graceful.azure.plugins.module_utils._health_check import AddressError, ask_port, ask_url
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import (
    DEFAULT_STATE_DIR,
    OF_BALANCERS,
    HoldError,
    Store,
    check_writable,
    list_records,
    utc_now,
)
from ansible_collections.graceful.azure.plugins.module_utils._imds import (
    ImdsError,
    client_from_params,
    imds_argument_spec,
)
from ansible_collections.graceful.azure.plugins.module_utils._proc import read_boot_id
from ansible_collections.graceful.azure.plugins.module_utils._waiting import Reader

# Seconds between two reads of the metadata service, as Azure advises for polling.
READ_SECONDS = 1.0
# Seconds between two counts of the connections.
LOOK_SECONDS = 0.5
IDLE_LOOKS = 2
# Seconds for an answer of the host's own service, once for its port and once for its URL. M(graceful.azure.wait_for_answer) allows the same time.
ANSWER_SECONDS = 2.0


class ThisHost:
    """What a look reads of the machine on which it runs. C(create): whether the folder of the records is made if missing."""

    read_seconds = READ_SECONDS
    look_seconds = LOOK_SECONDS

    def __init__(self, params, create, run_command=None):
        self.params = params
        self.create = create
        self.run_command = run_command

    def records(self):
        """Every record, also those of other kinds of machines. Raises HoldError, also if no record could be written."""
        check_writable(self.params["state_dir"], self.create)
        return list_records(self.params["state_dir"])

    def client(self):
        return client_from_params(self.params)

    def connections(self):
        return counted(self.params["ports"], told_apart=self.params["told_apart"])

    def ask(self):
        """None if what the option ask names answers, otherwise why not."""
        return ask_service(self.params["ask"])

    def still_on(self):
        """Which duties are not handed over any more, in sentences."""
        return self._step_looks().still_on(self.params["steps"])

    def marks(self, details):
        """What bears our name in clusters and has no record, and sentences where it tells no event."""
        return self._step_looks().marks(self.params["marks"], details)

    def _step_looks(self):
        # Most looks need none of it, and each look starts Python anew.
        from ansible_collections.graceful.azure.plugins.module_utils._step_looks import StepLooks
        from ansible_collections.graceful.azure.plugins.module_utils._systemd import Systemd

        return StepLooks(Store(self.params["state_dir"], dry=True), read_boot_id(), Systemd(self.run_command))

    def facts(self):
        folder = self.params["state_dir"]
        return {
            "time": utc_now(),
            "addresses": own_addresses(),
            "network": network_of(),
            "state_folder": {"path": folder, "id": identity_of(folder)},
            "boot_id": read_boot_id(),
        }


class Look:
    """One look at a host, which may wait for news. C(fatal) tells a mistake, C(error) a fault that may pass."""

    def __init__(self, params, create, monotonic=time.monotonic, sleep=time.sleep, still_wanted=lambda: None, host=None):
        self.params = params
        self.host = host or ThisHost(params, create)
        self.still_wanted = still_wanted  # ends the process if nobody waits for its result any more
        self.monotonic = monotonic
        self.sleep = sleep
        self.seen = {"events": None, "resource_name": None, "connections": None, "holds": []}
        self.looks = 0
        self.began = None
        self.read_at = None
        self.expected = {event_id.lower() for event_id in params["expected"]}
        self.shown = None  # what the last read showed: whether the body was empty, and which of the expected events
        self.shown_since = None  # when a read of this look showed that first

    def run(self):
        """Everything that was read. Returns when there is news, or the time to wait is over."""
        seen = self.seen
        self._see_records()
        if self._make_reader():
            # The events are read even if a record is damaged, so that the end of an event is known.
            self._read()
        if "fatal" not in seen:
            self._count()
            began = self.began = self.monotonic()
            if self._lacks_expected():
                self.sleep(READ_SECONDS)
                self._read()
                self._count()
            while "fatal" not in seen and not self._has_news() and self.monotonic() - began < self.params["wait"]:
                self.still_wanted()
                self.sleep(max(0.0, min(self.host.look_seconds, began + self.params["wait"] - self.monotonic())))
                if self.monotonic() - self.read_at >= self.host.read_seconds:
                    self._read()
                    if self._lacks_expected() and self.shown_since == self.read_at:
                        self.sleep(READ_SECONDS)
                        self._read()
                self._count()
            seen.update(waited=self.monotonic() - began, looks=self.looks)
            if seen["waited"] >= LOOK_SECONDS:
                self._see_records()
            if self._is_to_ask():
                seen["unanswered"] = self.host.ask()
            if self.params["steps"]:
                seen["still_on"] = self.host.still_on()
            # A record may have been damaged during the look. Then nobody knows what is held.
            if self.params["marks"] and seen["holds"] is not None:
                self._see_marks()
            seen["age"] = self.monotonic() - self.read_at
        seen.update(self.host.facts(), fingerprint=self._fingerprint())
        return seen

    def _is_to_ask(self):
        """Whether to ask the host for an answer: if an event is about to take it out.

        A host that is held does not serve, so it is asked only if its answer should not have changed. A host whose event has started goes out whatever
        it answers.
        """
        ask = self.params["ask"]
        if not (ask.get("url") or ask.get("port")) or "fatal" in self.seen:
            return False
        if ask.get("back"):
            return self._lacks_expected()
        coming = [event for event in self.seen["events"] or () if event["affects_host"] and event["event_status"] != "Started"]
        if self.seen["holds"]:
            return bool(coming and ask.get("held"))
        return bool(coming or ask.get("always"))

    def _see_records(self):
        try:
            # A balancer may run on this host or, in tests, share its folder. The look at the balancer returns its records.
            self.seen["holds"] = [record for record in self.host.records() if record["kind"] not in OF_BALANCERS]
        except HoldError as error:
            # None says that the holds are unknown, and not that there are none.
            self.seen.update(holds=None, fatal=str(error))

    def _see_marks(self):
        name = self.seen["resource_name"] or self.params["resource_name"]
        # An event of Azure names VMs. One that names none is a person's.
        found, unknown = self.host.marks({"resources": [name]} if name else {})
        self.seen["holds"] = self.seen["holds"] + found
        if unknown:
            self.seen["fatal"] = "; ".join(unknown)

    def _make_reader(self):
        try:
            self.reader = Reader(self.host.client(), self.params["resource_name"], insists=True)
            self.ignored = {parse_address(peer) for peer in self.params["ignored_peers"]}
        except (ConnectionsError, ValueError) as error:
            self.seen["fatal"] = str(error)
            return False
        return True

    def _read(self):
        for name in ("error", "passing"):
            self.seen.pop(name, None)
        try:
            reading = self.reader.read(self.monotonic() + self.params["timeout"])
        except ImdsError as error:
            self.seen.update(events=None, resource_name=None, error=str(error), passing=error.passing)
            self.read_at = self.monotonic()
            self.shown = None
        else:
            self.read_at = self.monotonic()
            shown = (reading.empty_body, self.expected & {event["event_id"].lower() for event in reading.events})
            if shown != self.shown:
                self.shown, self.shown_since = shown, self.read_at
            self.seen.update(
                events=reading.events,
                resource_name=reading.resource_name,
                document_incarnation=reading.document_incarnation,
                empty_body=reading.empty_body,
                steady=self.read_at - self.shown_since,
            )

    def _lacks_expected(self):
        """Whether an expected event is missing in the last read."""
        return self.shown is not None and self.shown[1] != self.expected

    def _count(self):
        try:
            found = self.host.connections()
        except ConnectionsError as error:
            self.seen["fatal"] = str(error)
            return
        self.seen.update(connections=found.connections, uncounted=found.uncounted, ports=sorted(self.params["ports"]))
        hidden = any(not (each["unheard"] and each["port"] in self.params["heard"]) for each in found.uncounted)
        busy = hidden or any(connection["peer"] not in self.ignored for connection in found.connections)
        self.looks = 0 if busy else self.looks + 1

    def _has_news(self):
        return self._fingerprint() != self.params["known"] or self._is_idle()

    def _is_idle(self):
        return self.params["await_idle"] and self.looks >= IDLE_LOOKS and self.monotonic() - self.began >= self.params["at_least"]

    def _fingerprint(self):
        events = self.seen["events"]
        if events is not None:
            names = ("event_id", "event_type", "event_status", "resources", "not_before")
            events = [[event[name] for name in names] for event in events]
        return hashlib.sha256(json.dumps(events).encode()).hexdigest()[:16]


def ask_service(ask):
    """None if the port and the URL answer, otherwise why not."""
    reason = None
    if ask.get("port"):
        reason = ask_port(ask["host"], ask["port"], ANSWER_SECONDS)
    if reason is None and ask.get("url"):
        try:
            reason = ask_url(ask["url"], ANSWER_SECONDS, ask["validate_certs"])
        except AddressError as error:
            reason = str(error)
    return reason


def argument_spec():
    return dict(
        imds_argument_spec(),
        ports={"type": "list", "elements": "int", "default": []},
        state_dir={"type": "path", "default": DEFAULT_STATE_DIR},
        timeout={"type": "float", "default": 5},
        wait={"type": "float", "default": 0},
        known={"type": "str", "default": "", "no_log": False},
        await_idle={"type": "bool", "default": False},
        at_least={"type": "float", "default": 0},
        ignored_peers={"type": "list", "elements": "str", "default": []},
        heard={"type": "list", "elements": "int", "default": []},
        told_apart={"type": "list", "elements": "str", "default": []},
        expected={"type": "list", "elements": "str", "default": []},
        steps={"type": "list", "elements": "dict", "default": []},
        marks={"type": "list", "elements": "dict", "default": []},
        journal={"type": "dict", "default": {}},
        ask={
            "type": "dict",
            "default": {},
            "options": {
                "url": {"type": "str"},
                "port": {"type": "int"},
                "host": {"type": "str", "default": "localhost"},
                "validate_certs": {"type": "bool", "default": True},
                "always": {"type": "bool", "default": False},
                "held": {"type": "bool", "default": False},
                "back": {"type": "bool", "default": False},
            },
        },
    )


def main():
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    missed = {}
    if module.params["journal"] and not module.check_mode and not _journald.write(module.params["journal"]):
        missed = {"journal_missed": True}
    create = not module.check_mode
    host = ThisHost(module.params, create, module.run_command)
    look = Look(module.params, create, still_wanted=end_unless_read, host=host)
    module.exit_json(changed=False, **look.run(), **missed)


if __name__ == "__main__":
    main()
