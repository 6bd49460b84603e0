# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The event source: what it hands on of what services show, and which arguments it takes."""

from __future__ import annotations

import asyncio
import logging
import os
import socketserver
import threading
import time

import pytest

from tests.support.eda import names_in
from tests.support.patience import patient
from tests.support.simulator import Simulator

SOURCE = names_in("event_source", "scheduled_events")
ArgumentError, View, main, read_arguments = (SOURCE[name] for name in ("ArgumentError", "View", "main", "read_arguments"))


def event(event_id="E1", *resources, status="Scheduled", event_type="Reboot", not_before="2026-11-21T12:00:00Z"):
    return {"event_id": event_id, "event_type": event_type, "event_status": status, "resources": list(resources or ["vm-1"]), "not_before": not_before}


def told(changes):
    return [(change["change"], change["scheduled_event"]["event_id"]) for change in changes]


class Numbered(View):
    """Each document has a number of its own, which grows with time, unless a number is given."""

    def update(self, imds_url, events, now, *incarnation):
        return super().update(imds_url, events, now, *(incarnation or [now]))


def view(**arguments):
    return Numbered(read_arguments(arguments))


class TestView:
    def test_an_event_appears_changes_and_goes(self):
        seen = view()
        assert told(seen.update("a", [event()], 0)) == [("appeared", "E1")]
        assert seen.update("a", [event()], 1) == []
        assert told(seen.update("a", [event(status="Started", not_before=None)], 2)) == [("changed", "E1")]
        (gone,) = seen.update("a", [], 3)
        assert gone["change"] == "gone" and gone["scheduled_event"]["event_status"] == "Started" and gone["target"] == "vm-1"
        assert told(seen.update("a", [event()], 4)) == [("appeared", "E1")]

    def test_one_answer_without_the_event_may_be_wrong(self):
        seen = view()
        assert told(seen.update("a", [event()], 0, 5)) == [("appeared", "E1")]
        # An empty body, as often as it comes; then two documents.
        assert [seen.update("a", [], now, None) for now in (1, 2, 3)] == [[]] * 3
        assert seen.update("a", [], 4, 5) == []
        assert told(seen.update("a", [], 5, 5)) == [("gone", "E1")]
        # An older document, and then the newer one again.
        assert told(seen.update("a", [event()], 6, 7)) == [("appeared", "E1")]
        assert [seen.update("a", *answer) for answer in (([], 7, 6), ([event()], 8, 7), ([], 9, 6))] == [[]] * 3
        assert told(seen.update("a", [], 10, 8)) == [("gone", "E1")]

    def test_what_stands_is_told_again(self):
        seen = view(reminder=60)
        moments = [now for now in range(15000) if told(seen.update("a", [event()], now)) == [("standing", "E1")]]
        # Never more of them than runs of an hour can take.
        assert moments == [60, 180, 420, 900, 1860, 3780, 7380, 10980, 14580]
        assert told(seen.update("a", [event(status="Started")], 15000)) == [("changed", "E1")]
        assert told(seen.update("a", [event(status="Started")], 15060)) == [("standing", "E1")]

    def test_an_event_of_another_type_is_told_and_is_not_over(self):
        seen = view(event_types=["Freeze"])
        assert told(seen.update("a", [event(event_type="Freeze")], 0)) == [("appeared", "E1")]
        (changed,) = seen.update("a", [event(event_type="Redeploy")], 1)
        assert (changed["change"], changed["scheduled_event"]["event_type"]) == ("changed", "Redeploy")
        assert told(seen.update("a", [], 2)) == [("gone", "E1")]
        assert seen.update("a", [event(event_type="Redeploy")], 3) == []

    def test_whom_an_event_names_no_more_is_a_target_until_it_is_over(self):
        """That host may still be out, if its run was killed."""
        seen = view()
        assert told(seen.update("a", [event("E1", "vm-1", "vm-2")], 0)) == [("appeared", "E1")]
        (changed,) = seen.update("a", [event("E1", "vm-1")], 1)
        assert (changed["change"], changed["target"], changed["scheduled_event"]["resources"]) == ("changed", "vm-1:vm-2", ["vm-1"])
        (gone,) = seen.update("a", [], 2)
        assert (gone["change"], gone["target"], gone["lane"]) == ("gone", "vm-1:vm-2", "vm-1,vm-2")

    def test_or_never(self):
        seen = view(reminder=0)
        assert sum(len(seen.update("a", [event()], now)) for now in range(0, 10000, 10)) == 1

    def test_two_services_of_one_set(self):
        seen = view()
        assert told(seen.update("a", [event()], 0)) == [("appeared", "E1")]
        assert seen.update("b", [event(event_id="e1")], 0) == []
        assert told(seen.update("b", [event(status="Started")], 1)) == [("changed", "E1")]
        # The first has not heard of it yet.
        assert seen.update("a", [event()], 1) == []
        assert seen.update("b", [], 2) == []
        assert told(seen.update("a", [], 3)) == [("gone", "E1")]

    @pytest.mark.parametrize(("interval", "seconds"), [(1.0, 60), (30.0, 90)])
    def test_a_service_that_never_answers_again_keeps_no_event_standing(self, interval, seconds):
        """As that of a VM that was deleted, the last time that it was shown."""
        seen = view(interval=interval, reminder=0)
        assert told(seen.update("a", [event()], 0)) == [("appeared", "E1")]
        assert [seen.update("b", [event()], now) for now in (0, 1)] == [[], []]
        assert [now for now in range(2, 200) if told(seen.update("b", [], now)) == [("gone", "E1")]] == [seconds]
        # Should it do so all the same.
        assert told(seen.update("a", [event()], 300)) == [("appeared", "E1")]
        assert told(seen.update("a", [], 301)) == [("gone", "E1")]

    def test_what_one_has_told_is_over_counts_although_another_shows_it_once_more(self):
        """That one lags, and never answers again."""
        seen = view(reminder=0)
        assert told(seen.update("a", [event()], 0)) == [("appeared", "E1")]
        assert [seen.update("b", events, now) for now, events in ((0, [event()]), (2, []), (3, []))] == [[], [], []]
        assert seen.update("a", [event()], 3.5) == []
        assert [now for now in range(4, 200) if told(seen.update("b", [], now)) == [("gone", "E1")]] == [64]

    def test_a_service_of_another_set_ends_nothing_of_one_that_is_silent(self):
        seen = view(reminder=0)
        assert told(seen.update("a", [event()], 0)) == [("appeared", "E1")]
        assert [seen.update("b", [], now) for now in range(200)] == [[]] * 200

    def test_services_that_differ_tell_no_change_again_and_again(self):
        """In the order or the spelling of the names, or for as long as one lags."""
        seen = view(reminder=0)
        assert told(seen.update("a", [event("E1", "vm-1", "vm-2")], 0)) == [("appeared", "E1")]
        assert seen.update("b", [event("E1", "VM-2", "vm-1")], 0) == []
        moved = event("E1", "vm-1", "vm-2", not_before="2026-11-21T12:05:00Z")
        assert told(seen.update("a", [moved], 1)) == [("changed", "E1")]
        answers = [("b", event("E1", "vm-1", "vm-2")), ("a", moved)] * 5 + [("b", moved)]
        assert [seen.update(url, [shown], 2) for url, shown in answers] == [[]] * 11
        # And back again.
        assert told(seen.update("b", [event("E1", "vm-1", "vm-2")], 3)) == [("changed", "E1")]

    def test_whom_one_service_alone_names_is_a_target_all_the_same(self):
        seen = view(reminder=0)
        first, other = event("E1", "vm-1"), event("E1", "vm-1", "vm-2")
        assert [change["target"] for change in seen.update("a", [first], 0) + seen.update("b", [other], 0)] == ["vm-1", "vm-1:vm-2"]
        assert seen.update("a", [first], 1) == seen.update("b", [other], 1) == []

    def test_a_lane_has_the_runs_for_the_same_hosts_alone(self):
        """No host waits for the end of a run that does not have it: as one that an event names later, or that shared an event with the other before."""
        seen = view()
        events = [event("E1", "vm-1")]

        def lanes():
            return [change["lane"] for change in seen.update("a", list(events), 0)]

        assert lanes() == ["vm-1"]
        events[:] = [event("E1", "vm-1", "VM-2")]
        assert lanes() == ["vm-1,vm-2"]
        events += [event("E2", "vm-2"), event("E3", "vm-2", "vm-1")]
        assert lanes() == ["vm-2", "vm-1,vm-2"]

    @pytest.mark.parametrize("name", ["all:!web1", "~.*", "&web", "web[0]", "a,b", "{{ lookup('pipe', 'id') }}", "@/etc/hosts", "-x", "*", ""])
    def test_a_name_that_is_more_than_a_name(self, name, caplog):
        with caplog.at_level(logging.WARNING):
            (appeared,) = view().update("a", [event("E1", name, "vm-2")], 0)
        assert appeared["target"] == "vm-2" and "left out" in caplog.text

    @pytest.mark.parametrize("text", ["{{ lookup('pipe', 'id') }}", "{% raw %}", "two words", "red\x1b[31m", "a\nb", "$(id)", "x" * 300, ""])
    def test_no_text_of_the_service_gets_into_the_variables_of_a_playbook(self, text, caplog):
        told = dict(event(text or " ", text, "vm-2", status=text, event_type=text, not_before=text), description=text)
        told.update(event_source=text, resource_type=text, duration_in_seconds=9, seconds_until_not_before=7.5, affects_host=None)
        seen = view()
        with caplog.at_level(logging.WARNING):
            changes = seen.update("a", [told], 0) + seen.update("a", [], 1)
        assert [change["change"] for change in changes] == ["appeared", "gone"]
        for change in changes:
            handed = change["scheduled_event"]
            assert handed["resources"] == ["vm-2"] and (handed["duration_in_seconds"], handed["seconds_until_not_before"]) == (9, 7.5)
            assert not [name for name in ("event_type", "event_status", "event_source", "resource_type", "not_before") if handed[name] is not None]
            assert change["lane"] == "vm-2" and handed["event_id"].startswith("odd-")
            assert "description" not in handed and (text or "description") not in repr(change)
        assert all(character.isprintable() for record in caplog.records for character in record.getMessage())

    def test_what_is_handed_on_of_an_ordinary_event(self):
        whole = dict(event(), event_source="Platform", resource_type="VirtualMachine", duration_in_seconds=-1, description="Maintenance of the host.")
        (appeared,) = view().update("a", [whole], 0)
        handed = appeared["scheduled_event"]
        assert handed.pop("seconds_until_not_before") is None
        assert handed == {name: value for name, value in whole.items() if name != "description"}

    def test_only_what_was_asked_for(self):
        events = [event("E1", "vm-1"), event("E2", "vm-2", event_type="Freeze"), event("E3", "vm-3", event_type=None)]
        assert told(view(resources=["VM-2"]).update("a", events, 0)) == [("appeared", "E2")]
        assert told(view(event_types=["reboot"]).update("a", events, 0)) == [("appeared", "E1")]


class TestArguments:
    def test_defaults(self):
        assert read_arguments({"eda_feedback_queue": object(), "resources": None})["imds_urls"] == ["http://169.254.169.254"]

    @pytest.mark.parametrize(
        ("name", "value", "wanted"),
        [
            ("imds_url", "http://x", "there is no such argument"),
            ("imds_urls", "http://x", "a list of URLs"),
            ("imds_urls", [], "at least one"),
            ("resources", "vm-1", "a list of names"),
            ("resources", [], "at least one"),
            ("event_types", [1], "a list of Freeze, Reboot,"),
            ("event_types", [], "at least one"),
            ("event_types", ["Reboot", "Rebot"], "a list of Freeze, Reboot,"),
            ("interval", "1", "a number of seconds from 0.2"),
            ("interval", 0, "a number of seconds from 0.2"),
            ("request_timeout", float("nan"), "a number of seconds from 0.1"),
            ("reminder", True, "0 for never"),
        ],
    )
    def test_bad_input(self, name, value, wanted):
        with pytest.raises(ArgumentError) as caught:
            read_arguments({name: value})
        assert name in str(caught.value) and wanted in str(caught.value)

    def test_all_mistakes_at_once(self):
        with pytest.raises(ArgumentError) as caught:
            read_arguments({"interval": -1, "reminder": -1, "wait": 1})
        assert all(name in str(caught.value) for name in ("interval", "reminder", "wait"))

    @pytest.mark.parametrize(("arguments", "name"), [({"imds_urls": ["ftp://x"]}, "imds_url"), ({"api_version": "latest"}, "api_version")])
    def test_what_the_transport_refuses(self, arguments, name):
        with pytest.raises(ValueError, match=name):
            asyncio.run(main(None, arguments))


class Silent(socketserver.BaseRequestHandler):
    """Takes a request and never answers."""

    def handle(self):
        self.server.asked.release()
        self.server.end.wait(patient(20))


def test_services_that_are_silent_keep_no_other_waiting():
    """More of them than asyncio has threads of its own."""

    async def play(simulator, urls, asked):
        queue = asyncio.Queue()
        task = asyncio.create_task(main(queue, {"imds_urls": [*urls, *simulator.urls.values()], "request_timeout": 20}))
        for _url in urls:
            assert await asyncio.to_thread(asked.acquire, timeout=patient(10))
        event_id = simulator.post_event(EventType="Freeze", Resources=["web-1"], NoticeSeconds=None)
        change = await asyncio.wait_for(queue.get(), patient(10))
        task.cancel()
        return event_id, change

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Silent) as server, Simulator(["web-1"]) as simulator:
        server.asked, server.end, server.daemon_threads = threading.Semaphore(0), threading.Event(), True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        number = (os.cpu_count() or 1) + 5
        urls = [f"http://127.0.0.1:{server.server_address[1]}/{index}" for index in range(number)]
        event_id, change = asyncio.run(play(simulator, urls, server.asked))
        server.end.set()
        server.shutdown()
    assert change["scheduled_event"]["event_id"] == event_id


def test_a_service_that_wants_to_be_left_alone_for_a_day(monkeypatch):
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)
        raise asyncio.CancelledError

    with Simulator(["web-1"]) as simulator:
        simulator.fault({"Status": 429, "Headers": {"Retry-After": "86400"}})
        monkeypatch.setattr(asyncio, "sleep", sleep)
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(main(asyncio.Queue(), {"imds_urls": list(simulator.urls.values())}))
    assert 50 < pauses[0] <= 60


ENCODED = {"Status": 200, "Body": "not gzip", "Headers": {"Content-Encoding": "gzip, gzip"}}


@pytest.mark.parametrize("fault", [{"Status": 503, "Body": "\x1b[31m\nAll is well"}, ENCODED])
def test_what_a_service_says_instead_is_logged_on_one_line(caplog, fault):
    async def play(simulator):
        task = asyncio.create_task(main(asyncio.Queue(), {"imds_urls": list(simulator.urls.values()), "interval": 0.2, "request_timeout": patient(2)}))
        while not caplog.records:
            await asyncio.sleep(0.02)
        task.cancel()

    with caplog.at_level(logging.WARNING), Simulator(["web-1"]) as simulator:
        simulator.fault(fault)
        asyncio.run(asyncio.wait_for(play(simulator), patient(10)))
    assert caplog.records[0].getMessage().isprintable()
    if fault["Status"] == 200:
        assert "Content-Encoding" in caplog.text


def test_a_service_that_errs_tells_nothing(caplog):
    """Against a service: the event stays while it errs, and goes when it answers without it."""

    async def play(simulator):
        queue = asyncio.Queue()
        task = asyncio.create_task(main(queue, {"imds_urls": list(simulator.urls.values()), "interval": 0.2, "request_timeout": patient(2)}))
        event_id = simulator.post_event(EventType="Freeze", Resources=["web-1"], NoticeSeconds=None)
        changes = [await asyncio.wait_for(queue.get(), patient(10))]
        simulator.fault({"Status": 500})
        simulator.ask("POST", f"/events/{event_id}/cancel")
        began = time.monotonic()
        while "500" not in caplog.text and time.monotonic() - began < patient(10):
            await asyncio.sleep(0.05)
        assert queue.empty()
        simulator.clear_faults()
        changes.append(await asyncio.wait_for(queue.get(), patient(10)))
        task.cancel()
        return event_id, changes

    with caplog.at_level(logging.WARNING), Simulator(["web-1"]) as simulator:
        event_id, changes = asyncio.run(play(simulator))
    assert told(changes) == [("appeared", event_id), ("gone", event_id)]
    assert "answers again" in caplog.text
