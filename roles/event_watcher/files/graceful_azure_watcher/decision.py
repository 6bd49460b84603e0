# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What to start when. Pure: it is told what was read, what ended and what time it is, and starts nothing itself.

Level, not edge: what stands is compared with what an action that succeeded has seen. Only an action that began after the
last change counts. A read that failed is never told here, so nothing is gone because of it.
"""

from __future__ import annotations

from collections import namedtuple

from ansible_collections.graceful.azure.plugins.module_utils._events import telling
from ansible_collections.graceful.azure.plugins.module_utils._spellings import fold

# How an action ended.
DONE = "done"  # it came to its end, or the receiver has taken it over
TAKEN = "taken"  # the receiver has taken it over, and what became of it is asked soon
BUSY = "busy"  # an earlier one is still under way: nothing was begun
FAILED = "failed"  # it may have begun something
REFUSED = "refused"  # it has certainly begun nothing
ASTRAY = "astray"  # it has begun something, but not what it was told

# Seconds from one failure to the next try: 1, 2, 4, ... but no more than this.
RETRY_MOST = 30.0
# The same once the event is gone, and only what was begun for it is to be finished.
FINISH_MOST = 300.0
BUSY_PAUSE = 15.0
# An event can stand for days before it begins.
REPEAT_MOST = 900.0
# A second of which depends whether a host is out in time.
FAST_RETRY_MOST = 5.0

OUT = "out"
UNDO = "undo"
HOLD = "hold"

# why: appeared, changed, gone, retry, busy or repeat. events: those that stand. gone: those for which something was begun.
Task = namedtuple("Task", ("why", "events", "gone"))


def back_off(failures, most):
    return min(2.0 ** min(failures - 1, 30), most)


class Decider:
    """One action at a time, for all events that name this host.

    ``unfinished`` are the events for which an earlier process began something, and whose end no action has seen through.
    """

    def __init__(self, repeat, unfinished=()):
        self.repeat = repeat
        self.events = {}
        self._known = None
        self.begun = {_key(event): event for event in unfinished}
        self.running = None
        self.failures = 0
        self.next_at = None
        self._taken = 0
        self._failed = False
        self._why = None
        self._changes = 0
        self._running_changes = 0
        self._running_new = []

    @property
    def unfinished(self):
        """What the next process must know."""
        return list(self.begun.values())

    @property
    def failing(self):
        """Whether the last action failed and there is still something to be done. Not known before one has ended."""
        return self._failed and bool(self.events or self.begun)

    def observe(self, events, now, doubtful=()):
        """What an answer showed; returns what has changed, as pairs of a word and the event.

        ``doubtful`` are the keys of events that it did not show and that may stand all the same: they are as they were.
        """
        # What failed for events that are over says nothing of those that come.
        self._failed = self.failing
        found = {_key(event): event for event in events}
        before = dict(self.begun) if self._known is None else self._known
        kept = {key: event for key, event in before.items() if key in doubtful and key not in found}
        changes = []
        for key, event in found.items():
            if key not in before:
                changes.append(("appeared", event))
            elif telling(before[key]) != telling(event):
                changes.append(("changed", event))
            elif key not in self.events:
                changes.append(("stands", event))
        changes += [("gone", event) for key, event in before.items() if key not in found and key not in kept]
        # What nobody has shown to this process is neither there nor gone.
        self.events = dict(found, **{key: event for key, event in kept.items() if key in self.events})
        self._known = dict(found, **kept)
        if changes:
            self._changes += 1
            self._why = changes[0][0]
            self.failures = self._taken = 0
            self.next_at = now
        return changes

    def due(self, now):
        """The task to start now, or None."""
        gone = self._gone()
        if self.running is not None or not (self.events or gone) or now < self.next_at:
            return None
        return Task(self._why, list(self.events.values()), gone)

    def started(self, task):
        self.running = task
        self._running_changes = self._changes
        self._running_new = [key for key in map(_key, task.events) if key not in self.begun]
        for event in task.events:
            self.begun[_key(event)] = event

    def ended(self, outcome, now):
        task, self.running = self.running, None
        if outcome == REFUSED:
            for key in self._running_new:
                self.begun.pop(key, None)
        elif outcome == DONE:
            for key in map(_key, task.gone):
                if key not in self.events:
                    self.begun.pop(key, None)
        if outcome != TAKEN:
            self._failed = outcome in (FAILED, REFUSED, ASTRAY)
        elif not self._taken:
            # A launch is a success, but for one that follows a job that failed: that one has to come to a good end first.
            self._failed = False
        if self._running_changes != self._changes:
            self.next_at = now
            return
        if self._failed and outcome != TAKEN:
            self.failures += 1
            self._why = "retry"
            pause = back_off(self.failures, RETRY_MOST if self.events else FINISH_MOST)
            # What is begun is no less for being wrong: as seldom as if it had been right.
            self.next_at = now + (max(pause, self._pause()) if outcome == ASTRAY else pause)
            return
        if outcome == TAKEN:
            # Twice as long each time: each may have been a job that came to nothing.
            pause = min(BUSY_PAUSE * 2 ** min(self._taken, 10), self._pause())
            self._taken += 1
        elif outcome == BUSY:
            pause = BUSY_PAUSE
        else:
            self.failures = self._taken = 0
            pause = self._pause()
        self._why = "repeat" if outcome == DONE else "busy"
        self.next_at = now + pause

    def _gone(self):
        return [event for key, event in self.begun.items() if key not in self._known] if self._known is not None else []

    def _pause(self):
        """Until the action runs again although nothing has changed: the sooner it begins, the shorter."""
        ahead = [event["seconds_until_not_before"] if event["event_status"] == "Scheduled" else None for event in self.events.values()]
        if not ahead or None in ahead:
            return self.repeat
        return max(self.repeat, min(REPEAT_MOST, min(ahead) / 10))


def _key(event):
    return fold(event["event_id"])


class FastPath:
    """The command that takes this host out at once, and the one that undoes it, under one hold."""

    def __init__(self, types, held=(), done=False):
        self._types = {name.lower() for name in types}
        self.take(held, done)
        self.running = None
        self.failures = 0
        self._next_at = None
        self._wanted = {}

    def take(self, held, done):
        """What is on record. Whether these events are over, the next answers tell."""
        self.held = {fold(event_id): event_id for event_id in held}
        self.done = done
        self._named = None

    def observe(self, events, doubtful=()):
        """What an answer showed: the events that name this host. ``doubtful``: the keys of those that it did not show and that may stand all the same."""
        wanted = {_key(event): event["event_id"] for event in events if (event["event_type"] or "").lower() in self._types}
        wanted.update((key, event_id) for key, event_id in self._wanted.items() if key in doubtful)
        if set(wanted) - set(self._wanted):
            self._next_at = None
        self._wanted = wanted
        self._named = bool(events or doubtful)

    def due(self, now):
        """OUT or UNDO where that command is to start, HOLD where one more event holds what is done already, or None."""
        if self.running or self._named is None or (self._next_at is not None and now < self._next_at):
            return None
        if self._wanted and not self.done:
            return OUT
        if set(self._wanted) - set(self.held):
            return HOLD
        return UNDO if self.held and not self._named else None

    def hold(self):
        """Whoever wants it now holds it from now on; returns all ids that hold it."""
        for key, event_id in self._wanted.items():
            self.held.setdefault(key, event_id)
        return list(self.held.values())

    def started(self, what):
        self.running = what
        self.done = False

    def ended(self, succeeded, now):
        what, self.running = self.running, None
        if not succeeded:
            self.failures += 1
            self._next_at = now + back_off(self.failures, FAST_RETRY_MOST)
            return
        self.failures = 0
        self._next_at = None
        if what == OUT:
            self.done = True
        else:
            self.held = {}
