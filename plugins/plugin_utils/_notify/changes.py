# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The changes that people are told of. Pure.

Each has a key. What is in the list of the keys that were told is not told again, so that runs which find the same do not say it again and again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ansible_collections.graceful.azure.plugins.module_utils._events import IN_PROGRESS
from ansible_collections.graceful.azure.plugins.module_utils._spellings import fold, listed, plural
from ansible_collections.graceful.azure.plugins.plugin_utils._comparable import comparable
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.ending import outcome_words
from ansible_collections.graceful.azure.plugins.plugin_utils._story.story import PassLine, Story, approval_is_known, held_since, label, standing_event
from ansible_collections.graceful.azure.plugins.plugin_utils._text import joined
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json

Change = dict[str, str]
"""One change: its C(state), and its C(title) and C(text) as people read them."""
TITLES = {
    "draining": "Out of service",
    "approved": "Approved",
    "restored": "Back in service",
    "needs_person": "Needs attention",
    "failed": "The run failed",
}
"""The title of a change, by what it can be, as in the option C(changes). The text is a sentence."""
ALARMING = ("needs_person", "failed")
"""What a service shows as a failure, such as in red."""
MOST_CHARACTERS = 10_000
"""How long the text of a message may be. One change has half of it at most. Teams takes 28 KB, with all that is around it."""
DAY = 86400.0
KEPT = {"needs_person": DAY, "failed": DAY}
"""For how long such a change is not told again. What still needs a person a day later is."""
KEPT_EVENTS = 30 * DAY
MOST_HOSTS = 10
"""How many hosts a sentence names."""


def changes(story: Story, passed: PassLine, memory: Json, sent: Mapping[str, float]) -> list[tuple[str, Change]]:
    """What is new in a pass, as C((key, change)). C(sent): per key of what was sent, when."""
    new = [*_of_events(story, passed, memory), *_of_persons(story, passed), *_of_run(story, passed)]
    return [(key, change) for key, change in new if key not in sent]


def still(sent: Mapping[str, float], now: float) -> dict[str, float]:
    """What was sent recently enough not to be sent again. A clock that was ahead for a while keeps nothing for longer."""
    return {key: at for key, at in sent.items() if abs(now - at) < KEPT.get(key.split(" ")[0], KEPT_EVENTS)}


def message(new: Sequence[Change]) -> dict[str, str]:
    """What is sent of these changes: C(title), C(text) with a paragraph for each of them, and C(type) as Apprise names it."""
    # Teams shows lines without an empty one between them as a single line.
    text = "\n\n".join(_as_many_as_fit([change["text"] for change in new]))
    more = f" (and {plural(len(new) - 1, 'more change')})" if len(new) > 1 else ""
    alarming = any(change["state"] in ALARMING for change in new)
    return {"title": f"{new[0]['title']}{more}", "text": text, "type": "failure" if alarming else "info"}


def _as_many_as_fit(texts: Sequence[str]) -> Iterator[str]:
    left = MOST_CHARACTERS
    for number, text in enumerate(texts):
        text = text if len(text) <= MOST_CHARACTERS // 2 else f"{text[: MOST_CHARACTERS // 2]} ..."
        left -= len(text)
        if left < 0:
            yield f"... and {len(texts) - number} more"
            return
        yield text


def names(hosts: Iterable[str]) -> str:
    return listed(list(hosts), MOST_HOSTS)


def _change(state: str, text: str, hosts: Iterable[str]) -> Change:
    # Nothing in a title comes from Azure: not every service shows a title as it is.
    told = names(hosts)
    return {"state": state, "title": f"{TITLES[state]}: {told}" if told else TITLES[state], "text": text}


def _of_events(story: Story, passed: PassLine, memory: Json) -> Iterator[tuple[str, Change]]:
    held = {name: held_since(name, passed, memory) for name in passed["hosts"]}
    for result in passed["events"]:
        event = story["events"][result["event_id"]]
        key = fold(result["event_id"])
        # A run that takes one step does not see any more that the host is out.
        out = [name for name, host in result["hosts"].items() if key in held.get(name, {}) or host["state"] == "draining"]
        if out:
            when = f"; it may start at {event['not_before']}" if event["not_before"] and event["started"] is None else ""
            yield f"draining {key}", _change("draining", f"{label(event)}: {names(out)} {'goes' if len(out) == 1 else 'go'} out of service{when}", out)
        if approval_is_known(event) and result["outcome"] == IN_PROGRESS:
            yield f"approved {key}", _change("approved", f"{label(event)}: approved for {names(result['hosts'])}", result["hosts"])
        back = [name for name, host in result["hosts"].items() if host["state"] == "restored"]
        if result["outcome"] != IN_PROGRESS and back:
            over = outcome_words(result["outcome"], result["hosts"], description=event["description"])
            # A host that a person was needed for may come back later than the others.
            yield f"restored {key} {','.join(back)}", _change("restored", f"{label(event)}: {over}; {names(back)} back in service", back)


def _of_persons(story: Story, passed: PassLine) -> Iterator[tuple[str, Change]]:
    groups: dict[tuple[str | None, str, bool], list[str]] = {}
    for name, decision in passed["hosts"].items():
        if decision["state"] == "needs_person":
            event_id = standing_event(decision)
            groups.setdefault((event_id, decision["reason"], decision["tried_again"]), []).append(name)
    for (event_id, reason, tried_again), hosts in groups.items():
        event = story["events"].get(event_id) if event_id else None
        called = f" ({label(event)})" if event else ""
        needs = "may need" if tried_again else "needs" if len(hosts) == 1 else "need"
        text = f"{names(hosts)} {needs} a person{called}: {reason}"
        yield f"needs_person {fold(event_id or '')} {','.join(hosts)} {comparable(reason)}", _change("needs_person", text, hosts)


def _of_run(story: Story, passed: PassLine) -> Iterator[tuple[str, Change]]:
    """That a run failed, unless all that it would say is said of its hosts."""
    run = story["run"]
    if run["finished"] and run["failed"] and passed["of_run"]:
        text = joined(passed["of_run"])
        yield f"failed {comparable(text)}", _change("failed", f"The run failed: {text}", [])
