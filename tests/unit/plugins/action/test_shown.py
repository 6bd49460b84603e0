# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whatever the metadata service sends, no line that is shown holds a raw control character."""

from __future__ import annotations

import json
import random
import types

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.graceful.azure.plugins.action import plan, replay
from ansible_collections.graceful.azure.plugins.filter.printable import FilterModule
from ansible_collections.graceful.azure.plugins.plugin_utils._text import printable

from tests.support.model import Model

CONTROL = ["\n", "\r", "\t", "\x00", "\x1b[2K\x1b[1A", "\x1b]0;title\x07", "\x7f", "\x85", "\x9b31m"]
NASTY = [*CONTROL, "\u2028", "\u2029", "\u202e", "\u2066", "\u200f", "\ufeff", "\ud800"]


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("web1  restored", "web1  restored"),
        ("Müller 日本 ✓", "Müller 日本 ✓"),
        ("a\nb\r\x1b[1mc", "a\\nb\\r\\x1b[1mc"),
        ("\u2028\u202e\x9b\x7f", "\\u2028\\u202e\\x9b\\x7f"),
        ("\ud800", "\\ud800"),
        ({"a\n": ["b\n", ("c\n", 1, None)]}, {"a\\n": ["b\\n", ["c\\n", 1, None]]}),
    ],
)
def test_what_is_printable(text, safe):
    assert printable(text) == safe
    assert FilterModule().filters()["printable"](text) == safe


class Screen:
    """What a person sees of a run: lines that are displayed, and those parts of the result that tasks show."""

    def __init__(self, monkeypatch):
        self.lines = []
        for module in (plan, replay):
            monkeypatch.setattr(module.display, "display", lambda line, color=None: self.lines.append(line))
            monkeypatch.setattr(module.display, "warning", self.lines.append)
        monkeypatch.setattr(ActionBase, "run", lambda self, tmp=None, task_vars=None: {})

    def see(self, model, last, check_mode):
        action = plan.ActionModule.__new__(plan.ActionModule)
        action._task, action._templar = types.SimpleNamespace(args={}, check_mode=check_mode), None
        turn = {"name": "web1", "options": {}}
        known = {name: {"graceful_azure_turns": {"results": [dict(model.observe_host(name), turn=turn)]}} for name in model.names}
        hostvars = types.SimpleNamespace(raw_get=known.get)
        variables = {"ansible_play_hosts": list(known), "ansible_play_hosts_all": list(known), "hostvars": hostvars, "graceful_azure_plan": last}
        result = action.run(task_vars=variables)
        self.lines += [*result["table"], *result["messages"], *result.get("warnings", ())]
        return result


def nasty_text(chance):
    return "".join(chance.choice([*NASTY, "e", "web1", " restored "]) for _part in range(chance.randrange(1, 6)))


@pytest.mark.parametrize("seed", range(60))
def test_no_line_is_forged(monkeypatch, tmp_path, seed):
    chance = random.Random(seed)
    screen = Screen(monkeypatch)
    model = Model()
    for name in model.names:
        if chance.random() < 0.3:
            model.hosts[name]["azure_name"] = name + nasty_text(chance)
    for number in range(3):
        named = chance.sample([*model.names, nasty_text(chance)], 2)
        model.announce(f"{number}{nasty_text(chance)}", *named, event_type=nasty_text(chance), description=nasty_text(chance))
    run = {"started": model.now, "timeout": 60.0, "wait": False, "watch": False, "forks": 5, "sleep": 1.0}
    last = {"settings": model.settings, "run": run, "with_files": False, "turns": {}, "number": 0, "memory": {}, "seen": {"hosts": {}, "balancers": {}}}
    for _pass in range(3):
        last = screen.see(model, last, check_mode=chance.random() < 0.5)
    assert screen.lines
    assert [line for line in screen.lines if not line.isprintable()] == []
    assert {event["event_id"] for event in last["events"]} <= set(model.events), "data for machines keeps the original text"


def test_a_journal_is_shown_safely_too(monkeypatch, tmp_path):
    screen = Screen(monkeypatch)
    model = Model()
    model.announce("e\n1", "web1", event_type="Reboot\x1b[2K")
    model.go()
    outcome = model.outcome
    hosts = {name: dict(decision, reason="a\nb") for name, decision in outcome["hosts"].items()}
    line = {"time": model.now, "pass": 1, "hosts": hosts, "events": outcome["events"], "world": model.world()}
    (tmp_path / "journal").write_text(json.dumps(line) + "\n")
    action = replay.ActionModule.__new__(replay.ActionModule)
    action.validate_argument_spec = lambda argument_spec: (None, {"journal": str(tmp_path / "journal"), "number": None})
    action.run()
    assert screen.lines and [line for line in screen.lines if not line.isprintable()] == []
