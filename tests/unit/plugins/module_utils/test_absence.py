# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._absence import APART, Absence, Absences, is_over

EMPTY = None  # in place of the number of a document: an answer with an empty body


@pytest.mark.parametrize(
    ("times", "incarnation", "shown_in", "over"),
    [
        ([], None, 5, False),
        ([1.0], 5, 5, False),
        ([1.0], 6, 5, True),
        # An older document, or a service that began to count again: that alone does not tell which.
        ([1.0], 4, 5, False),
        ([1.0, 2.0], 4, 5, True),
        # Nobody knows which document showed it.
        ([1.0], 6, None, False),
        ([1.0, 2.0], 6, None, True),
        ([1.0, 2.0], None, None, True),
        # Two answers at once may be one that was kept somewhere.
        ([1.0, 1.0 + APART / 2], 5, 5, False),
    ],
)
def test_when_an_event_is_over(times, incarnation, shown_in, over):
    assert is_over(times, incarnation, shown_in) is over


def proved(*answers):
    """Whether the absence is proved after answers a second apart: each says whether it shows the event, and the number of its document."""
    absence = Absence()
    for at, (is_shown, incarnation) in enumerate(answers):
        absence.note(is_shown, float(at), incarnation)
    return absence.is_proved


def test_what_answers_one_after_the_other_prove():
    assert not proved((True, 5), (False, EMPTY))
    assert not proved((True, 5), *[(False, EMPTY)] * 9)
    assert not proved((True, 5), (False, 5))
    assert proved((True, 5), (False, 5), (False, 5))
    assert proved((True, 5), (False, 6))
    # An empty body neither helps nor harms.
    assert not proved((True, 5), (False, EMPTY), (False, 5))
    assert proved((True, 5), (False, 5), (False, EMPTY), (False, 5))
    # An answer of another node, which lags behind, and comes again and again between those that are right.
    assert not proved((True, 5), (False, 4), (True, 5), (False, 4), (True, 5), (False, 4))
    # It was never seen.
    assert not proved((False, 5))
    assert proved((False, 5), (False, 5))


def test_each_event_has_its_own_absence():
    absences = Absences(["known"])
    assert absences.note(["a", "b"], 0.0, 5) == {"known"}
    assert absences.note(["b"], 1.0, EMPTY) == {"known", "a"}
    assert absences.note(["b"], 2.0, 5) == {"a"}
    assert absences.note(["b"], 3.0, 5) == set()
    assert absences.note([], 4.0, 6) == set()
    # It comes again, and is over again only by what is read afterwards.
    assert absences.note(["a"], 5.0, 7) == set()
    assert absences.note([], 6.0, 7) == {"a"}
