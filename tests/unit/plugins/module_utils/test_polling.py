# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._polling import check_seconds, poll


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self):
        self.now = 100.0
        self.slept = []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


def run(answers, timeout, pause=1.0):
    clock = Clock()
    answers = iter(answers)
    seen, elapsed = poll(lambda: next(answers), lambda seen: seen == "good", timeout, pause, clock.monotonic, clock.sleep)
    return seen, elapsed, clock.slept


def test_satisfied_at_once_does_not_sleep():
    assert run(["good"], 10) == ("good", 0.0, [])


def test_one_look_without_a_timeout():
    assert run(["bad"], 0) == ("bad", 0.0, [])


def test_looks_until_satisfied():
    assert run(["bad", "bad", "good"], 10) == ("good", 2.0, [1.0, 1.0])


def test_the_last_pause_is_cut_and_a_last_look_follows():
    assert run(["bad", "bad", "bad", "worse"], 2.5) == ("worse", 2.5, [1.0, 1.0, 0.5])


@pytest.mark.parametrize("value", [-1.0, -0.001, float("nan"), float("inf"), float("-inf")])
def test_what_is_no_length_of_time(value):
    with pytest.raises(ValueError, match=r"^timeout is \S+; it must be a number of seconds, 0 or more\.$"):
        check_seconds("timeout", value)


def test_lengths_of_time():
    assert check_seconds("timeout", 0.0) == 0.0
    assert check_seconds("timeout", 1e9) == 1e9
    with pytest.raises(ValueError, match=r"^request_timeout is 0\.0; it must be a number of seconds, 0\.1 or more\.$"):
        check_seconds("request_timeout", 0.0, least=0.1)
