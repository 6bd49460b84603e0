# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the watcher says: lines for the journal, metrics for Prometheus, words for people. Pure."""

from __future__ import annotations

import json
import re

INFO, WARNING, ERROR = 6, 4, 3
_PLAIN = re.compile(r"[A-Za-z0-9_.:,/@+%-]+\Z")


def clean(value):
    """A text on one line that paints no terminal: what comes from the service, a receiver or a setting may hold anything."""
    return "".join(character if character.isprintable() else character.encode("unicode_escape").decode() for character in str(value))


def line(what, fields):
    """One line of key=value; a value with anything unusual is quoted as in JSON, which escapes all that clean() would."""
    return " ".join([f"what={what}"] + [f"{key}={_value(value)}" for key, value in fields.items() if value is not None])


def _value(value):
    text = f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return text if _PLAIN.match(text) else json.dumps(text)


def event_fields(event):
    return {
        "event_id": event["event_id"],
        "type": event["event_type"],
        "status": event["event_status"],
        "source": event["event_source"],
        "not_before": event["not_before"],
        "resources": ",".join(event["resources"]),
    }


def metrics(state):
    """The text of a file for Prometheus' node exporter."""
    standing = {}
    for event in state["events"]:
        key = (event["type"] or "", event["status"] or "")
        standing[key] = standing.get(key, 0) + 1
    rows = [
        ("info", "gauge", "The watcher's version and action", {(("action", state["action"]), ("version", state["version"])): 1}),
        ("events", "gauge", "Events that stand and name this host", {(("status", s), ("type", t)): n for (t, s), n in standing.items()}),
        ("seconds_until_not_before", "gauge", "Until the first of them may begin", _one(state["seconds_until_not_before"])),
        ("not_before_timestamp_seconds", "gauge", "When the first of them may begin, by this machine's clock", _one(_not_before(state))),
        ("last_answer_age_seconds", "gauge", "Since the metadata service last answered", _one(state["last_answer_age"])),
        ("last_answer_timestamp_seconds", "gauge", "When it did, in Unix time; 0: not yet", {(): _answered_at(state)}),
        ("written_timestamp_seconds", "gauge", "When the watcher wrote this file, as it does every 10 s", {(): round(state["written"], 3)}),
        ("answers_total", "counter", "Answers of the metadata service", _one(state["answers"])),
        ("errors_total", "counter", "Requests to the metadata service that failed", _one(state["errors"])),
        ("actions_started_total", "counter", "Actions started", {(("kind", state["action"]),): state["actions_started"]}),
        ("actions_failed_total", "counter", "Actions that failed", {(("kind", state["action"]),): state["actions_failed"]}),
        ("action_failing", "gauge", "1 where the last action failed and there is still something to be done", _one(int(state["action_failing"]))),
        ("fast_path_started_total", "counter", "Commands of the fast path started", _one(state["fast_path_started"])),
        ("fast_path_failed_total", "counter", "Commands of the fast path that failed", _one(state["fast_path_failed"])),
        ("fast_path_failing", "gauge", "1 where the last of them failed, or its record cannot be read or written", _one(int(state["fast_path_failing"]))),
        ("fast_path_held", "gauge", "Events for which the fast path holds this host out", _one(len(state["fast_path_held"]))),
    ]
    lines = []
    for name, kind, words, values in rows:
        full = f"graceful_azure_watcher_{name}"
        lines += [f"# HELP {full} {words}.", f"# TYPE {full} {kind}"]
        for labels, value in sorted(values.items()):
            shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
            lines.append(f"{full}{{{shown}}} {value}" if shown else f"{full} {value}")
    return "\n".join(lines) + "\n"


def _one(value):
    return {} if value is None else {(): value}


def _answered_at(state):
    """Unlike an age this goes on telling the truth when nobody rewrites the file."""
    age = state["last_answer_age"]
    return 0 if age is None else round(state["written"] - age, 3)


def _not_before(state):
    """Counted from the answer that told how many seconds are left."""
    seconds, age = state["seconds_until_not_before"], state["last_answer_age"]
    return None if seconds is None or age is None else round(state["written"] - age + seconds, 3)


def _escaped(text):
    text = "\n".join(map(clean, text.split("\n")))
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def status(state, installed, running, settings):
    """For people: what is so, in lines. ``state`` is what the watcher last wrote, or None; ``running`` is None where it cannot be told."""
    words = {True: "running", False: "not running", None: "perhaps running: this user may not look"}
    lines = [f"graceful-azure-watcher {installed}, {words[running]}"]
    if state is None or not running:
        return lines
    if state["version"] != installed:
        lines.append(f"  it still runs as version {state['version']}: restart it")
    elif state["settings"] != settings:
        lines.append("  it still runs with the settings as they were when it was started: restart it")
    age = state["last_answer_age"]
    answered = "the metadata service has not answered yet" if age is None else f"the metadata service answered {age:.0f} s ago"
    lines.append(f"  host {state['host'] or 'not known yet'}, {answered}" + (f" ({state['error']})" if state["error"] else ""))
    for event in state["events"]:
        when = f", not before {event['not_before']}" if event["not_before"] else ""
        lines.append(f"  {event['type']} {event['event_id']} {event['status']}{when}: {event['resources']}")
    if not state["events"]:
        lines.append("  no event names this host")
    lines.append(f"  action {state['action']}: {state['doing']}; {state['actions_started']} started, {state['actions_failed']} failed")
    if state.get("fast_path_failing"):
        lines.append("  the last command of the fast path failed, or its record cannot be read or written; this is tried again")
    if state["fast_path_held"]:
        lines.append(f"  out by the fast path for {', '.join(state['fast_path_held'])}")
    return [clean(text) for text in lines]
