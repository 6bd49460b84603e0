# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stories of the runs in a journal. Pure.

A line of the journal does not say what the plan remembered after that pass. The line after it does, because its pass began with that. The last pass of a
run is planned again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ansible_collections.graceful.azure.plugins.module_utils._events import IN_PROGRESS
from ansible_collections.graceful.azure.plugins.plugin_utils._replay import ReplayError, planned, read_pass
from ansible_collections.graceful.azure.plugins.plugin_utils._story import story
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json


def stories(lines: Iterable[str]) -> Iterator[tuple[story.Story, None] | tuple[None, str]]:
    """Yield the story of each run, and C((None, sentence)) for each line that holds no pass, as C((story, None))."""
    told: story.Story = {}
    waiting: story.PassLine | None = None
    for number, line in enumerate(lines, start=1):
        try:
            passed = read_pass(line)
            run = passed["world"]["run"]
            moment = passed["time"], passed["pass"], run["started"], passed["events"]
        except (ReplayError, KeyError, TypeError) as error:
            yield None, f"line {number} {error if isinstance(error, ReplayError) else 'holds no pass'}"
            continue
        is_same = waiting is not None and moment[2] == told["run"]["started"]
        if waiting is not None:
            _add(told, waiting, passed["world"].get("memory") if is_same else None)
            if not is_same:
                yield _ended(told), None
        if not is_same:
            told = story.begin(run, list(passed["hosts"]))
        waiting = passed
    if waiting is not None:
        _add(told, waiting, None)
        yield _ended(told), None


def _add(told: story.Story, passed: story.PassLine, memory: Json | None) -> None:
    story.add(told, passed, _memory_after(passed) if memory is None else memory)


def _memory_after(passed: story.PassLine) -> Json:
    try:
        memory: Json = planned(passed)["memory"]
    except ReplayError:
        # A journal of another version. What the pass began with is nearly the same.
        memory = passed["world"].get("memory") or {}
    return memory


def _ended(told: story.Story) -> story.Story:
    """A journal does not say that a run has ended. It has if nothing is left to do, or if a person is needed."""
    states = [host["states"][-1]["state"] for host in told["hosts"].values() if host["states"]]
    needs_person = "needs_person" in states
    is_through = all(event["outcome"] != IN_PROGRESS for event in told["events"].values())
    story.end(told, is_through or needs_person, needs_person, [])
    return told
