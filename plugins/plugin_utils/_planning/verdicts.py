# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a judgement returns: whether it holds, why, and until when. Pure.

The sentence is written where the decision falls. Whoever needs to know what a sentence is about asks for its kind, and never reads the sentence.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from ansible_collections.graceful.azure.plugins.plugin_utils._text import joined


class Kind(Enum):
    """What a reason is about."""

    NOTHING = "nothing"  # there is nothing to tell of the host
    LATE = "late"  # the host was still not drained when its time was over
    LOOK = "look"  # the host is idle, and a second look follows at once
    STATE = "state"  # how far a host or an event has come
    ACT = "act"  # the step that is being taken for it, and no more than that
    RECORD = "record"  # the same, where no more than a record is left to be written
    NOTE = "note"  # other news of a place
    MISTAKE = "mistake"  # only a person can mend it
    BALANCER = "balancer"  # the same, on the machine of a balancer that other hosts may be behind, too
    UNREAD = "unread"  # what could not be read may be read soon
    CONFLICT = "conflict"  # somebody else acted
    FAILURE = "failure"  # the last step failed
    BUSY = "busy"  # what keeps the host from being idle
    NOT_YET = "not_yet"  # the same, only because the next look has yet to count the connections on one of its ports
    STEP = "step"  # the host has a step to take, or its drain steps are not done
    ANSWER = "answer"  # the host does not answer restore_service
    SIBLING = "sibling"  # another host of the event is not ready, or would not come back
    MINIMUM = "minimum"  # too few servers would stay in service
    TURN = "turn"  # another member of the cluster is out
    TIME = "time"  # it is too early
    RULE = "rule"  # what the rule says
    STRANGER = "stranger"  # the event names a VM that is no target
    DOUBT = "doubt"  # what the event means, or who can approve it, is not certain


class Reason(NamedTuple):
    kind: Kind
    text: str
    booting: str = ""  # what is said instead once the event has started, if the host probably still boots


class Verdict(NamedTuple):
    """C(why): the weightiest reason first. C(until): when the verdict may be another; None if nobody knows."""

    holds: bool
    why: tuple[Reason, ...] = ()
    until: float | None = None

    @property
    def text(self) -> str:
        return words(self.why)

    def about(self, *kinds: Kind) -> Reason | None:
        """The first reason of one of these kinds."""
        return next((reason for reason in self.why if reason.kind in kinds), None)


def no(*why: Reason, until: float | None = None) -> Verdict:
    return Verdict(False, why, until)


def words(why: Iterable[Reason]) -> str:
    """The reasons as people read them."""
    return joined(reason.text for reason in why)


def reasons(kind: Kind, sentences: Iterable[str]) -> tuple[Reason, ...]:
    """A reason for each of these sentences that is not empty."""
    return tuple(Reason(kind, sentence) for sentence in sentences if sentence)
