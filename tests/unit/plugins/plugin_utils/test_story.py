# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The story of a run: what is told of events, hosts and acts, and the report made of it."""

from __future__ import annotations

import copy
import json
import os
import re
import time
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import pytest
from ansible import constants
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.plan import plan
from ansible_collections.graceful.azure.plugins.plugin_utils._run.passes import line_of
from ansible_collections.graceful.azure.plugins.plugin_utils._story import files, story
from ansible_collections.graceful.azure.plugins.plugin_utils._story.history import history
from ansible_collections.graceful.azure.plugins.plugin_utils._story.journal import stories
from ansible_collections.graceful.azure.plugins.plugin_utils._story.page import MEANINGS, _template, exact, history_lines, history_page, page
from jinja2 import Environment

from tests.support.model import Model

SCHEMA = json.loads((Path(__file__).parents[4] / "docs" / "report.schema.json").read_text())


class Told(Model):
    """The model, with the story that a run would keep, and its journal."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.story = story.begin(self.run, self.names)
        self.journal = []

    def decide(self):
        self.number += 1
        world = copy.deepcopy(self.world())
        self.outcome = plan(copy.deepcopy(world))
        self.memory = self.outcome["memory"]
        line = line_of(world, self.outcome)
        self.journal.append(json.dumps(line))
        story.add(self.story, line, self.memory)
        story.end(self.story, self.outcome["finished"], self.outcome["failed_run"], self.outcome["messages"])

    def report(self):
        found = story.as_report(self.story)
        jsonschema.validate(json.loads(json.dumps(found)), SCHEMA)
        return found

    def whole_life(self, event_id="e1"):
        self.go()
        self.announce(event_id, "web1")
        self.until(lambda _outcome: self.posted)
        self.go()
        self.start(event_id)
        self.go()
        self.over(event_id)
        self.finish()
        return self.report()


def texts(report, kind, host=None):
    return [entry["text"] for entry in report["entries"] if entry["kind"] == kind and (host is None or entry["host"] == host)]


def test_an_event_that_was_not_approved_says_why():
    told = Told()
    told.go()
    told.announce("e1", "web1", "vm_elsewhere")
    for _pass in range(6):
        told.go()
    told.start("e1")
    told.go()
    told.over("e1")
    told.finish()
    report, why = told.report(), "not approved by us: vm_elsewhere is none of the targets"
    assert texts(report, "outcome") == [f"Reboot e1: not_approved ({why})"] and report["events"][0]["unapproved"] == why
    assert f"over, not approved by us: {why}" in page(report) and f"Outcome: over, not approved by us ({why})." in page(report)
    told = Told()
    assert told.whole_life()["events"][0]["unapproved"] is None


def test_the_whole_life_of_an_event():
    site = Told(hosts=3)
    report = site.whole_life()
    (event,) = report["events"]
    assert event["outcome"] == "completed" and event["event_type"] == "Reboot"
    assert event["seen"] < event["approved"] < event["started"] < event["gone"]
    assert texts(report, "event") == ["Reboot e1 appeared", "Reboot e1 was approved", "Reboot e1 started", "Reboot e1 is over"]
    assert [text.split(":")[0] for text in texts(report, "act", "web1")] == ["goes out of its balancer", "approves", "is brought back"]
    web1, web2, _web3 = report["hosts"]
    assert [state["state"] for state in web1["states"]] == ["in_service", "draining", "ready", "approved", "started", "restoring", "restored"]
    assert [state["until"] for state in web1["states"]][:-1] == [state["from"] for state in web1["states"]][1:]
    (span,) = web1["out"]
    assert event["seen"] <= span["from"] < event["approved"] and span["until"] >= event["gone"]
    assert web1["seconds_out"] == span["until"] - span["from"]
    assert web2["out"] == [] and web2["seconds_out"] == 0
    assert report["run"]["finished"] and not report["run"]["failed"]


def test_a_host_that_is_back_before_the_others_of_its_event_is_out_no_more():
    site = Told(hosts=2, min_in_service=0)
    site.announce("e1", "web1", "web2")
    site.until(lambda _outcome: site.posted)
    site.start("e1")
    site.go()
    site.go()
    site.over("e1")
    site.refuse["web2", "restore_service"] = "the balancer does not answer"
    site.until(lambda outcome: outcome["hosts"]["web1"]["state"] == "restored")
    site.announce("e2", "web1")
    site.until(lambda _outcome: len(site.posted) == 2)
    web1, web2 = site.report()["hosts"]
    first, second = web1["out"]
    assert first["until"] < second["from"] and second["until"] is None
    assert [span["until"] for span in web2["out"]] == [None]


def test_a_reason_that_differs_only_in_numbers_is_told_once():
    site = Told()
    site.announce("e1", "web1")
    site.servers["lb1"]["web1"]["sessions"] = 30
    for _pass in range(10):
        site.go()
        site.servers["lb1"]["web1"]["sessions"] -= 1
    (draining,) = [state for state in site.report()["hosts"][0]["states"] if state["state"] == "draining"]
    assert sum("session" in said["reason"] for said in draining["reasons"]) == 1


def test_a_step_that_fails_is_told():
    site = Told()
    site.announce("e1", "web1")
    site.refuse["web1", "load_balancer"] = "the socket refused"
    for _pass in range(4):
        site.go()
    assert any("the socket refused" in text for text in texts(site.report(), "failure", "web1"))


def test_the_journal_tells_the_same_story():
    site = Told(hosts=2)
    live = site.whole_life()
    ((told, sentence),) = list(stories(site.journal))
    assert sentence is None
    from_journal = story.as_report(told)
    jsonschema.validate(json.loads(json.dumps(from_journal)), SCHEMA)
    assert from_journal["hosts"] == live["hosts"] and from_journal["events"] == live["events"]
    assert [entry["text"] for entry in from_journal["entries"]] == [entry["text"] for entry in live["entries"]]


def test_a_journal_that_was_cut_off_tells_what_is_whole():
    site = Told(hosts=2)
    site.whole_life()
    cut = [*site.journal[:5], site.journal[5][:100], "[]", '{"world": {}, "hosts": {}}']
    found = list(stories(cut))
    assert [sentence for told, sentence in found if told is None] == ["line 6 is cut off or no JSON", "line 7 holds no pass", "line 8 holds no pass"]
    (told,) = [told for told, _sentence in found if told]
    assert told["run"]["passes"] == 5 and not told["run"]["finished"]


def test_several_runs_in_one_journal():
    site = Told(hosts=2)
    site.whole_life()
    first = site.journal
    site.killed()
    site.journal, site.story = [], story.begin(site.run, site.names)
    site.whole_life("e2")
    found = [told for told, _sentence in stories(first + site.journal)]
    assert [list(told["events"]) for told in found] == [["e1"], ["e2"]]


def killed_after_approval(hosts=2, passes=0):
    """A run that is killed when it has approved e1, as far as it told, and the run after it, which has not begun."""
    site = Told(hosts=hosts)
    site.announce("e1", "web1")
    site.until(lambda _outcome: site.posted)
    for _pass in range(passes):
        site.go()
    before = site.report()
    site.killed()
    site.now += 30
    site.run["started"] = site.now
    site.story, site.journal = story.begin(site.run, site.names), []
    return site, before


def test_the_time_of_an_approval_by_an_earlier_run_is_unknown():
    site, _before = killed_after_approval(passes=1)
    site.go()
    report = site.report()
    (event,) = report["events"]
    assert event["approved"] is None and event["before_run"] == ["seen", "approved"]
    assert texts(report, "event") == ["Reboot e1 was there already"]
    site.start("e1")
    site.go()
    site.over("e1")
    site.finish()
    report = site.report()
    (event,) = report["events"]
    assert event["approved"] is None and event["outcome"] == "completed" and event["before_run"] == ["seen", "approved"]
    assert texts(report, "event") == ["Reboot e1 was there already", "Reboot e1 started", "Reboot e1 is over"]
    assert all(entry["time"] >= report["run"]["started"] for entry in report["entries"])


def test_what_had_started_before_the_run_is_told_so():
    site, _before = killed_after_approval(passes=1)
    site.start("e1")
    site.go()
    (event,) = site.report()["events"]
    assert sorted(event["before_run"]) == ["approved", "seen", "started"]
    assert texts(site.report(), "event") == ["Reboot e1 was there already", "Reboot e1 had started already"]
    assert event["approved"] is None and event["started"] >= event["seen"]


def test_a_start_that_was_read_before_the_pass_is_told_after_the_event_appeared():
    site = Told(hosts=2)
    over = {"event_id": "e1", "event_type": "Reboot", "resources": ["vm_web1"], "outcome": "in_progress", "hosts": {}}
    memory = {"events": {"e1": {"event_type": "Reboot", "first_seen": site.now, "seen_started": site.now - 0.3}}}
    story.add(site.story, {"time": site.now, "pass": 2, "hosts": {}, "events": [over], "world": {}}, memory)
    assert texts(story.as_report(site.story), "event") == ["Reboot e1 appeared", "Reboot e1 started"]


def test_an_approval_that_is_known_together_with_the_start_was_no_later():
    """A look reads the start before the pass that learns of both is planned."""
    site = Told(hosts=1)
    step = {"role": "approve_event", "state": "approved", "event_ids": ["e1"]}
    ready = {"state": "ready", "reason": "is being approved", "events": ["e1"], "step": step}
    started = {"state": "started", "reason": "out", "events": ["e1"]}
    event = {"event_id": "e1", "event_type": "Reboot", "resources": ["vm_web1"], "outcome": "in_progress", "hosts": {}}
    memory = {"events": {"e1": {"event_type": "Reboot", "first_seen": site.now}}}
    story.add(site.story, {"time": site.now, "pass": 2, "hosts": {"web1": ready}, "events": [event], "world": {}}, memory)
    memory["events"]["e1"].update(approved_at=site.now + 2, seen_started=site.now + 1.7)
    world = {"results": {"web1": {"approve_event": {"done": True, "approved": ["e1"]}}}}
    story.add(site.story, {"time": site.now + 2, "pass": 3, "hosts": {"web1": started}, "events": [event], "world": world}, memory)
    report = story.as_report(site.story)
    (told,) = report["events"]
    assert told["approved"] == told["started"] == site.now + 1.7 == report["hosts"][0]["states"][-1]["from"]
    order = [(entry["kind"], entry["text"].split(":")[0]) for entry in report["entries"] if entry["time"] > site.now]
    assert order == [("act", "approves"), ("event", "Reboot e1 was approved"), ("event", "Reboot e1 started"), ("state", "started")]


def test_a_host_is_not_out_before_it_was_told_to_go():
    """Records have whole seconds, so the time in one may be too early."""
    site = Told(hosts=2)
    site.go()
    site.now += 0.7
    site.announce("e1", "web1")
    site.until(lambda _outcome: site.posted)
    report = site.report()
    web1, order = report["hosts"][0], [entry["text"].split(":")[0] for entry in report["entries"] if entry["host"] == "web1"]
    draining = next(state["from"] for state in web1["states"] if state["state"] == "draining")
    assert web1["out"][0]["from"] >= draining and order.index("draining") < order.index("goes out of its balancer")


def test_what_appears_during_the_run_was_not_there_before():
    (event,) = Told(hosts=2).whole_life()["events"]
    assert event["before_run"] == []


def test_the_cause_stands_before_what_follows_and_approved_before_started():
    site = Told(hosts=2)
    site.go()
    site.announce("e1", "web1")
    site.until(lambda _outcome: site.posted)
    site.start("e1")  # before the pass that learns of the approval
    site.go()
    site.over("e1")
    site.finish()
    report = site.report()
    (event,) = report["events"]
    assert event["approved"] <= event["started"]
    times = [entry["time"] for entry in report["entries"]]
    assert times == sorted(times)
    order = [(entry["kind"], entry["text"].split(":")[0]) for entry in report["entries"]]
    assert order.index(("event", "Reboot e1 appeared")) < order.index(("state", "draining")) < order.index(("act", "goes out of its balancer"))
    assert order.index(("act", "approves")) < order.index(("event", "Reboot e1 was approved")) < order.index(("event", "Reboot e1 started"))
    assert order.index(("event", "Reboot e1 started")) < order.index(("state", "started"))
    assert order.index(("event", "Reboot e1 is over")) < order.index(("state", "restoring")) < order.index(("outcome", "Reboot e1"))
    web1 = report["hosts"][0]
    (went_out,) = [entry["time"] for entry in report["entries"] if entry["text"].startswith("goes out of its balancer")]
    assert went_out == web1["out"][0]["from"]
    (started,) = [state["from"] for state in web1["states"] if state["state"] == "started"]
    assert started == event["started"] and web1["drain_limit"] == 120


def names_of(taken_over):
    return taken_over and (taken_over["report"], taken_over["out"])


def test_a_run_continues_one_that_did_not_finish(tmp_path):
    site, before = killed_after_approval(hosts=3, passes=1)
    killed_at = before["run"]["started"]
    path, _is_new = files.write(str(tmp_path), {**before, "events": {e["event_id"]: e for e in before["events"]}, "hosts": told_hosts(before), "steps": {}})
    found = files.unfinished(str(tmp_path), site.now, site.names)
    assert names_of(found) == (Path(path).name, ["web1"])
    assert found["started"] == killed_at and found["updated"] == before["run"]["updated"]
    (event,) = found["events"]
    assert event == {"event_id": "e1", **{field: before["events"][0][field] for field in ("seen", "approved", "started", "not_before")}}
    site.story = story.begin(site.run, site.names, found)
    site.go()
    assert site.report()["run"]["continues"] == found
    # Not for other hosts, nor for a run that began earlier, nor after a run of these hosts that finished.
    assert files.unfinished(str(tmp_path), site.now, ["db1"]) is None and files.unfinished(str(tmp_path), killed_at, site.names) is None
    assert files.unfinished(str(tmp_path / "none"), site.now, site.names) is None
    site.start("e1")
    site.go()
    site.over("e1")
    site.finish()
    files.write(str(tmp_path), site.story)
    assert files.unfinished(str(tmp_path), site.now + 60, site.names) is None


def told_hosts(report):
    return {host["name"]: {key: value for key, value in host.items() if key not in ("name", "seconds_out")} for host in report["hosts"]}


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "[" * 100000,
        lambda text: "[]",
        lambda text: text.replace('"version": 1', '"version": 2'),
        lambda text: json.dumps(dict(json.loads(text), hosts=[{"name": ["web1"]}])),
        lambda text: json.dumps(dict(json.loads(text), run=dict(json.loads(text)["run"], updated=float("nan")))),
        lambda text: json.dumps(dict(json.loads(text), run=dict(json.loads(text)["run"], started=True))),
        lambda text: json.dumps(dict(json.loads(text), events=[dict(json.loads(text)["events"][0], seen=1e300)])),
    ],
)
def test_a_damaged_report_is_ignored(tmp_path, damage):
    site, _before = killed_after_approval()
    first = Told(hosts=2)
    first.announce("e1", "web1")
    for _pass in range(3):
        first.go()
    path = Path(files.write(str(tmp_path), first.story)[0]).with_suffix(".json")
    assert files.unfinished(str(tmp_path), site.now, site.names)
    path.write_text(damage(path.read_text()))
    assert files.unfinished(str(tmp_path), site.now, site.names) is None


def test_what_could_hold_up_a_run_that_begins_is_not_read(tmp_path, monkeypatch):
    site = Told(hosts=2)
    site.announce("e1", "web1")
    for _pass in range(3):
        site.go()
    later = site.now + 1000
    files.write(str(tmp_path), site.story)
    os.mkfifo(tmp_path / "report-20270115T080001.000Z.json")  # newer, and nobody writes into it
    (tmp_path / "report-20270115T080002.000Z.json").mkdir()
    assert files.unfinished(str(tmp_path), later, site.names)
    size = max(path.stat().st_size for path in tmp_path.glob("*.json") if path.is_file())
    monkeypatch.setattr(files, "MOST_BYTES", size - 1)
    assert files.unfinished(str(tmp_path), later, site.names) is None
    monkeypatch.setattr(files, "MOST_BYTES", size)
    monkeypatch.setattr(files, "MOST_REPORTS", 2)
    assert files.unfinished(str(tmp_path), later, site.names) is None


def test_an_approval_whose_end_is_unknown_was_before_the_run():
    """The run was killed between its record and the answer of the service, and the event is over before the next run looks."""
    site = Told(hosts=2)
    memory = {"events": {"e1": {"event_type": "Reboot", "first_seen": site.now, "approving": True}}}
    over = {"event_id": "e1", "event_type": "Reboot", "resources": ["vm_web1"], "outcome": "completed", "hosts": {}}
    for tried, expected in (([], ["approved"]), (["e1"], [])):
        told = story.begin(site.run, site.names)
        told["tried"] = tried
        story.add(told, {"time": site.now, "pass": 2, "hosts": {}, "events": [over], "world": {}}, memory)
        assert story.as_report(told)["events"][0]["before_run"] == expected


class Page(HTMLParser):
    """What a page loads, and its text."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.words, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag in ("script", "img", "link", "iframe", "object") or "src" in given or "href" in given or any(name.startswith("on") for name in given):
            self.loads.append((tag, given))

    def handle_data(self, data):
        self.words.append(data)


def words_of(report):
    """The text of the page, without its style."""
    return " ".join(" ".join(Page(page(report)).words).partition("Scheduled events:")[2].split())


def test_the_page_needs_nothing_else_and_shows_every_entry():
    site = Told(hosts=3)
    report = site.whole_life()
    shown, text = Page(page(report)), words_of(report)
    assert shown.loads == []
    for entry in report["entries"]:
        said = entry["text"].replace("Reboot e1", "Reboot of vm_web1")
        assert (said.partition(": ")[2] if entry["kind"] == "state" else said) in text
    assert "Outcome: completed." in text and "2 more hosts were in service all the time: web2, web3." in text
    assert "Nothing to do: every event is over, and every host is in service." in text
    assert "At most 1 of 3 hosts was out of service at the same time (first at 08:00:" in text and "The collection sees no requests" in text
    assert "15 min before its NotBefore" in text and "source: Platform; expected duration not told" in text
    assert "in_progress" not in text and "by us" not in text


def test_the_processes_of_a_run_compile_the_page_once(tmp_path, monkeypatch):
    """Each pass is a process of its own, and so begins without what a former one keeps in its memory."""
    monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(tmp_path))
    compiled, report = [], Told().report()
    generate = Environment._generate
    monkeypatch.setattr(
        Environment, "_generate", lambda self, source, name, *given, **more: compiled.append(name) or generate(self, source, name, *given, **more)
    )
    pages = set()
    for _pass in range(3):
        _template.cache_clear()
        pages.add(page(report))
    assert sorted(compiled) == ["page.html.j2", "style.css.j2"] and len(pages) == 1
    _template.cache_clear()


def test_durations_on_the_page_agree_with_its_times():
    site = Told(hosts=2)
    report = site.whole_life()
    report["hosts"][0]["out"] = [{"from": 1_800_000_000.97, "until": 1_800_000_017.02}]
    assert "08:00:00 to 08:00:17" in words_of(report) and "web1 for 17 s" in words_of(report)
    assert [exact(seconds) for seconds in (0, 119, 120, 200, 7199, 7200, 90000, 172800, 190800)] == [
        "0 s", "119 s", "2 min", "3 min 20 s", "119 min 59 s", "2 h", "25 h", "2 days", "2 days 5 h",
    ]  # fmt: skip


def test_the_page_of_a_run_that_continues_another():
    site, before = killed_after_approval(passes=1)
    site.start("e1")
    site.go()
    text = words_of(site.report())
    assert "it was there already when this run first looked at 08:00:" in text and "approved before this run began" in text
    assert "(began before this run)" in text and "not back yet: started" in text and "-" not in text.partition("What happened")[2].split(". ")[0]
    site.story["run"]["continues"] = found = story.continued("report-20270115T080000.000Z.html", before, site.names)
    site.over("e1")
    site.finish()
    report = site.report()
    (event,) = before["events"]
    seen, approved = (time.strftime("%H:%M:%S", time.localtime(event[field])) for field in ("seen", "approved"))
    text, shown = words_of(report), Page(page(report))
    assert [given["href"] for _tag, given in shown.loads] == [found["report"]]
    assert "Continues a run that did not finish: report-20270115T080000.000Z.html , last written 2027-01-15" in text
    assert "It took over what was out of service then: web1." in text
    assert f"an earlier run saw it at {seen}; approved at {approved} by the earlier run" in text and "15 min before its NotBefore" in text


def test_the_page_of_a_run_that_was_killed_says_what_to_do():
    site, before = killed_after_approval(passes=1)
    text = words_of(before)
    assert "it still goes on, or it was killed" in text and "If there is a later report of these hosts, read that one." in text
    assert "Until then web1 may still be out of service." in text and "not over yet" in text
    assert "Nothing to do" not in text and "Nothing to do" not in words_of(site.report())


def test_the_page_says_who_needs_a_person():
    site = Told()
    site.announce("e1", "web1")
    site.refuse["web1", "load_balancer"] = "the socket refused"
    site.until(lambda outcome: outcome["hosts"]["web1"]["state"] == "needs_person")
    text = words_of(site.report())
    assert "To do: web1 needs a person: the socket refused" in text


def test_the_page_says_when_the_time_to_drain_was_over():
    site = Told(hosts=2, drain_host={"timeout": 6.0})
    site.announce("e1", "web1")
    site.servers["lb1"]["web1"]["sessions"] = 1
    for _pass in range(8):
        site.go()
    assert "; it was not drained." in words_of(site.report())
    site.servers["lb1"]["web1"]["sessions"] = 0
    site.until(lambda _outcome: site.posted)
    report = site.report()
    late = next(said["at"] for state in report["hosts"][0]["states"] for said in state["reasons"] if "not drained in time" in said["reason"])
    ready = next(state["from"] for state in report["hosts"][0]["states"] if state["state"] == "ready")
    at, drained = (time.strftime("%H:%M:%S", time.localtime(moment)) for moment in (late, ready))
    assert f"web1 had not drained when its limit of 6 s passed at {at}; it was drained at {drained}." in words_of(report)


def span(begin, end):
    return {"from": begin, "until": end}


@pytest.mark.parametrize(
    ("out", "events", "shared"),
    [
        # One after the other, the second while the host is brought back for the first.
        ([span(10, 90)], {"a": (5, 40), "b": (60, 80)}, {"a": [span(10, 60)], "b": [span(60, 90)]}),
        # Both at once, and one within the other.
        ([span(10, 90)], {"a": (5, 40), "b": (8, 80)}, {"a": [span(10, 40)], "b": [span(40, 90)]}),
        ([span(10, 90)], {"a": (5, 80), "b": (20, 40)}, {"a": [span(10, 90)]}),
        # None of them is over.
        ([span(10, None)], {"a": (5, None), "b": (20, None)}, {"a": [span(10, None)]}),
        ([span(10, None)], {"a": (5, 30), "b": (20, None)}, {"a": [span(10, 30)], "b": [span(30, None)]}),
        # Out twice.
        ([span(10, 20), span(50, 60)], {"a": (5, 15), "b": (45, 55)}, {"a": [span(10, 20)], "b": [span(50, 60)]}),
        ([], {"a": (5, 15)}, {}),
    ],
)
def test_time_out_of_service_is_shared_between_the_events(out, events, shared):
    told = [{"event_id": name, "seen": seen, "gone": gone, "hosts": {"web1": {}}} for name, (seen, gone) in events.items()]
    assert story.shares({"name": "web1", "out": out}, told) == shared
    assert story.shares({"name": "web2", "out": out}, told) == {}


def test_a_host_in_two_events_is_out_once():
    site = Told(hosts=2)
    site.announce("e1", "web1", notice=600.0)
    site.until(lambda _outcome: site.posted)
    site.announce("e2", "web1", notice=900.0)
    site.start("e1")
    for _pass in range(20):
        site.go()
    lane = site.report()["hosts"][0]
    # The impact of the first is told, whatever the second needs.
    assert (lane["states"][-1]["state"], lane["states"][-1]["event_id"]) == ("started", "e1")
    site.over("e1")
    site.until(lambda _outcome: len(site.posted) == 2)
    site.start("e2")
    for _pass in range(10):
        site.go()
    site.over("e2")
    site.finish()
    report = site.report()
    web1 = report["hosts"][0]
    assert set(story.shares(web1, report["events"])) == {"e1", "e2"}
    both = [part for parts in story.shares(web1, report["events"]).values() for part in parts]
    assert round(sum(part["until"] - part["from"] for part in both), 1) == web1["seconds_out"]
    told = history([report])["Reboot"].as_json()["out"]
    assert told["count"] == 2 and told["worst"] < web1["seconds_out"]
    words = words_of(report)
    lasted = re.findall(r"out of service: web1 for (\d+) s", words)
    assert len(lasted) == 2 and abs(sum(map(int, lasted)) - web1["seconds_out"]) <= 2


def test_an_event_that_azure_withdraws():
    site = Told(hosts=2)
    site.announce("e1", "web1")
    site.servers["lb1"]["web1"]["sessions"] = 1
    for _pass in range(3):
        site.go()
    site.over("e1")
    site.finish()
    text = words_of(site.report())
    assert "withdrawn by Azure before it was approved, noticed at 08:00:" in text and "Outcome: cancelled." in text


def test_two_events_of_one_kind_keep_the_beginning_of_their_ids():
    site = Told(hosts=2)
    for event_id in ("E5E7C050-1F21", "1E5331C7-7310"):
        site.announce(event_id, "web1")
    site.go()
    text = words_of(site.report())
    assert "Reboot of vm_web1 (E5E7C050) was there already" in text and "Reboot of vm_web1 (1E5331C7) was there already" in text


def test_many_events_are_counted_in_the_heading_and_folded():
    site = Told(hosts=9, min_in_service=0)
    site.go()
    for number in range(8):
        site.announce(f"e{number}", f"web{number + 1}", event_type="Freeze" if number else "Reboot")
    site.go()
    text = page(site.report())
    assert "<h1>Scheduled events: 1 x Reboot, 7 x Freeze</h1>" in text and "<summary>2 more events</summary>" in text
    assert all(f"Freeze of vm_web{number}: seen at" in text for number in range(2, 9))


def test_the_picture_has_a_sample_of_each_line_in_its_legend():
    text = page(Told(hosts=2).whole_life())
    legend = text.partition('class="legend')[2].partition("</p>")[0]
    for kind in ("out", "event", "event start", "event over"):
        assert f'class="{kind}"' in legend and f'class="{kind.replace("event", "event seen") if kind == "event" else kind}"' in text
    colours = dict(re.findall(r"--([a-z_]+): (#[0-9a-f]{6})", text.partition("@media")[0]))
    assert len({colours[state] for state in MEANINGS}) == len(MEANINGS)


@pytest.mark.parametrize("evil", ["<script>alert(1)</script>", "{{ 7 * 7 }}", '" onload="x', "a\x1b[31mb"])
def test_text_from_outside_stays_text(evil):
    site = Told(hosts=2)
    site.announce("e1", "web1", description=evil, event_type=evil)
    for _pass in range(3):
        site.go()
    shown = Page(page(site.report()))
    assert shown.loads == [] and "49" not in "".join(shown.words) and "\x1b" not in "".join(shown.words)


def test_a_run_without_an_event():
    site = Told(hosts=2)
    site.go()
    text = " ".join(Page(page(site.report())).words)
    assert "No event named any of the hosts." in text and "All hosts were in service all the time: web1, web2." in text


def test_files_are_replaced_as_a_whole(tmp_path):
    site = Told(hosts=2)
    site.go()
    path, is_new = files.write(str(tmp_path / "reports"), site.story)
    assert is_new and files.write(str(tmp_path / "reports"), site.story) == (path, False)
    site.announce("e1", "web1")
    site.go()
    assert files.write(str(tmp_path / "reports"), site.story) == (path, True)
    assert sorted(entry.name for entry in (tmp_path / "reports").iterdir()) == ["report-20270115T080000.000Z.html", "report-20270115T080000.000Z.json"]
    assert json.loads(Path(path).with_suffix(".json").read_text())["events"][0]["event_id"] == "e1"


def test_what_many_reports_say_of_each_type():
    reports = []
    for number, sessions in enumerate((0, 3)):
        site = Told(hosts=2)
        site.servers["lb1"]["web1"]["sessions"] = sessions
        site.go()
        site.announce(f"e{number}", "web1")
        for _pass in range(4):
            site.go()
        site.servers["lb1"]["web1"]["sessions"] = 0
        site.until(lambda _outcome, site=site: site.posted)
        site.go()
        if number == 1:
            # The run is killed, and the next one reports the rest.
            reports.append(site.report())
            site.killed()
            site.story = story.begin(site.run, site.names)
        site.start(f"e{number}")
        site.go()
        site.over(f"e{number}")
        site.finish()
        reports.append(site.report())
    found = history(reports)
    told = found["Reboot"].as_json()
    assert told["events"] == 2 and told["outcomes"] == {"completed": 2} and told["needs_person"] == 0
    assert told["notice"] == {"count": 2, "median": 900.0, "worst": 900.0}
    assert told["drain"]["count"] == 2 and told["drain"]["worst"] > told["drain"]["median"] > 0
    assert told["out"]["count"] == 2 and told["out"]["worst"] >= told["drain"]["worst"] + told["impact"]["median"]
    first, head, row = history_lines(found, len(reports))
    assert "2 events in the reports of 3 runs" in first and "2 (2 completed)" in row and head.startswith("type")
    shown = Page(history_page(found, reports))
    assert shown.loads == [] and "2 (2 completed)" in " ".join(shown.words)
