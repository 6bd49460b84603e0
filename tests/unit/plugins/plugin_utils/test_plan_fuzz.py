# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whatever documents the services show, one after the other: no pass fails, and nothing malformed is approved."""

from __future__ import annotations

from datetime import datetime, timezone

import hypothesis.strategies as st
from ansible_collections.graceful.azure.plugins.module_utils._events import API_VERSIONS, EventsError, parse_document
from hypothesis import given, settings

from tests.support.model import Model

DOCUMENTS = 10
"""Pairs of documents in one life, the two never the same; the long profile thus shows 100,000."""
PASSES = 4
"""Passes that see a document before the next one: enough to approve what can be approved."""
VMS = ("vm_web1", "vm_web2")
KNOWN_TYPES = ("Freeze", "Reboot", "Redeploy", "Preempt", "Terminate")

odd = st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.sampled_from(["", " ", "Scheduled", "vm_web1", "{{ x }}", "\n;'\"", "\ud800", "0"])
keys = st.sampled_from(["EventId", "Events", "x"])
junk = st.recursive(odd, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=2), max_leaves=4)
sound = {
    "EventId": st.sampled_from(["A", "a", "B", "602d9444-d2cd-49c7-8624-8643e7171297"]),
    "EventType": st.sampled_from(["Reboot", "Freeze", "Redeploy", "Preempt", "Terminate", "Upgrade"]),
    "ResourceType": st.just("VirtualMachine"),
    "Resources": st.lists(st.sampled_from([*VMS, "VM_WEB1", "_vm_web1", "elsewhere"]), max_size=3),
    "EventStatus": st.sampled_from(["Scheduled", "Scheduled", "Started", "Completed", "scheduled"]),
    "NotBefore": st.sampled_from(["Fri, 15 Jan 2027 08:20:00 GMT", "2027-01-15T09:00:00Z", "", "soon", "Mon, 99 Foo 2027 99:99:99 GMT"]),
    "Description": st.text(max_size=5),
    "EventSource": st.sampled_from(["Platform", "User"]),
    "DurationInSeconds": st.integers(-1, 9),
}
# Mostly sound, so that what is odd stands where it is taken seriously.
half_sound = st.fixed_dictionaries({}, optional={name: st.one_of(good, good, good, junk) for name, good in sound.items()})
events = st.one_of(st.fixed_dictionaries(sound), st.fixed_dictionaries(sound), half_sound, junk)
# So sound that one of the right type may be approved: beside such a one, and after it, nothing else must be.
ready = {
    "Resources": st.lists(st.sampled_from(VMS), min_size=1, max_size=2),
    "EventStatus": st.just("Scheduled"),
    "NotBefore": st.sampled_from(["Fri, 15 Jan 2027 08:20:00 GMT", "2027-01-15T09:00:00Z"]),
}
some = st.lists(events, max_size=3) | st.lists(st.fixed_dictionaries({**sound, **ready}), min_size=1, max_size=2)
documents = st.one_of(*[st.fixed_dictionaries({"DocumentIncarnation": st.integers(0, 9) | junk, "Events": some})] * 4, junk)

# The two are shown by one service each, or one after the other by both.
pairs = st.tuples(documents, documents, st.booleans()).filter(lambda pair: pair[0] != pair[1])


class Fed(Model):
    """Its services show whatever they were given."""

    def __init__(self):
        super().__init__()
        self.shown = {}

    def observe_host(self, name):
        seen = super().observe_host(name)
        parsed, _document = self.shown[name]
        if parsed is None:
            seen.update(events=None, error="no document")
        else:
            seen.update(events=parsed.events, document_incarnation=parsed.incarnation)
        return seen

    def _approve_event(self, name, step):
        ready = {resource.lower() for resource in step["ready_resources"]}
        for event_id in step["event_ids"]:
            told = {host: self._told(host, event_id) for host in self.names}
            named = [resource.lower().lstrip("_") for resource in told[name]["Resources"]]
            if f"vm_{name}" not in named or not ready.issuperset(named):
                # Where two services contradict each other about one event, the role goes by this one, and refuses.
                assert told["web1"] and told["web2"] and told["web1"]["Resources"] != told["web2"]["Resources"]
                self.results[name]["failure"] = {"pass": self.number, "message": "not ready"}
                return
            assert set(named) <= set(VMS)
            assert told[name]["EventStatus"].lower() == "scheduled"
            assert any(raw["EventType"] in KNOWN_TYPES for raw in told.values() if raw)
            self.posted.append((self.now, event_id, name))
        self.results[name]["approve_event"] = {"done": True, "approved": step["event_ids"], "reason": "approved"}

    def _told(self, name, event_id):
        """What one service shows of an event, or None."""
        events, document = self.shown[name]
        found = [] if events is None else [raw for raw in document["Events"] if raw["EventId"].lower() == event_id.lower()]
        return found[0] if found else None


def parsed(document, version, name, now):
    try:
        return parse_document(document, version, name, datetime.fromtimestamp(now, timezone.utc)), document
    except EventsError:
        return None, document


def test_whatever_is_shown():
    approved = []

    @settings(deadline=None)
    @given(st.sampled_from(API_VERSIONS), st.lists(pairs, min_size=DOCUMENTS, max_size=DOCUMENTS))
    def live(version, shown):
        model = Fed()
        for first, second, together in shown:
            for showing in ((first, first), (second, second)) if together else ((first, second),):
                for name, document in zip(model.names, showing):
                    model.shown[name] = parsed(document, version, f"vm_{name}", model.now)
                for _pass in range(PASSES):
                    model.go()
        approved.extend(model.posted)

    live()
    assert approved, "nothing of it could be approved: it proves little that nothing malformed was"
