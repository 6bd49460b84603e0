# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whole events while metadata services fail, answer with an empty body and lag behind each other, while hosts are silent and runs are killed.

Some targets may be of another set and bear the names of VMs that the event means. Each life is chosen by its seed.
"""

from __future__ import annotations

import copy
import random

import pytest

from tests.support.model import Model

TROUBLES = ("silent", "service_silent", "empty_body")
RULES = ([], [], [{"name": "prepare", "action": "prepare"}], [{"name": "approve", "action": "approve"}], [{"name": "late", "lead_time": 60}])


class Life:
    """One event from its first sight to its end, and three hosts whose services come and go."""

    def __init__(self, seed, killed, one_step):
        self.random = random.Random(seed)
        self.killed, self.one_step = killed, one_step
        rules = self.random.choice(RULES)
        self.approves_prepared = not rules or rules[0]["name"] == "late"
        self.model = Model(hosts=3, min_in_service=0, unknown_resources=self.random.choice(["hold", "ignore"]), rules=rules)
        if one_step:
            self.model.run.update(wait=False, look_twice=True)
        for name in self.model.names:
            self.model.settings[name]["resource_name"] = f"vm_{name}"
        self.past = {}  # per host: until when its service shows what was there before it failed, and what that was
        self.observe, self.model.observe_host = self.model.observe_host, self.observe_with_lag

    def observe_with_lag(self, name):
        until, events, incarnation = self.past.get(name, (0.0, None, None))
        if self.model.now >= until:
            return self.observe(name)
        now = self.model.events, self.model.incarnation
        self.model.events, self.model.incarnation = events, incarnation
        try:
            return self.observe(name)
        finally:
            self.model.events, self.model.incarnation = now

    def troubled(self, name):
        return any(self.model.hosts[name][trouble] for trouble in TROUBLES)

    def fails(self, name):
        self.model.hosts[name][self.random.choice(TROUBLES)] = True
        self.past[name] = (0.0, copy.deepcopy(self.model.events), self.model.incarnation)

    def recovers(self, name):
        self.model.hosts[name].update(dict.fromkeys(TROUBLES, False))
        if self.random.random() < 0.5:
            self.past[name] = (self.model.now + self.random.uniform(1, 8), *self.past[name][1:])

    def services_change(self, failing):
        for name in self.model.names:
            if self.troubled(name):
                if self.random.random() < 0.2:
                    self.recovers(name)
            elif failing and self.random.random() < 0.04:
                self.fails(name)

    def announce(self):
        """The VMs that the event means; names of others may be among those that it bears."""
        model = self.model
        shown = [name for name in model.names if self.random.random() >= 0.2] or model.names
        named = [name for name in model.names if self.random.random() < 0.5] or [self.random.choice(model.names)]
        if not set(named) & set(shown):
            named.append(shown[0])
        model.announce("e1", *named, notice=self.random.choice([120, 300]), shown_to=shown)
        return [name for name in named if name in shown]

    def go(self):
        if self.killed and self.random.random() < 0.04:
            self.model.killed()
        outcome = self.model.go()
        if outcome["finished"] and (self.one_step or "e1" in self.model.events):
            self.model.killed()  # the next run begins
        return outcome

    def play(self):
        model = self.model
        for _pass in range(self.random.randrange(1, 6)):
            self.go()
        meant = self.announce()
        for _pass in range(self.random.randrange(8, 40)):
            self.services_change(failing=True)
            posted = len(model.posted)
            in_rotation = [name for name in meant if model.in_rotation(name)]
            self.go()
            assert len(model.posted) == posted or not self.approves_prepared or not in_rotation, "approved while a host was in rotation"
        if self.random.random() < 0.85:
            model.start("e1")
            out = {name for name in meant if not model.in_rotation(name)}
            for _pass in range(self.random.randrange(5, 30)):
                self.services_change(failing=True)
                self.go()
                assert all(not model.in_rotation(name) for name in out), "back in rotation in mid-impact"
                out.update(name for name in meant if not model.in_rotation(name))
        model.over("e1")
        for number in range(80):
            self.services_change(failing=False)
            for name in model.names if number == 20 else ():
                model.hosts[name].update(dict.fromkeys(TROUBLES, False))
            outcome = self.go()
            if outcome["finished"] and not self.one_step:
                break
        assert outcome["finished"], outcome["hosts"]
        assert all(model.in_rotation(name) for name in model.names), "a host was left out"


KINDS = {"waiting": (False, False), "killed": (True, False), "one step": (False, True)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(8))
def test_a_life(seed, kind):
    Life(seed, *KINDS[kind]).play()


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_many_lives(kind):
    for seed in range(8, 400):
        try:
            Life(seed, *KINDS[kind]).play()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
