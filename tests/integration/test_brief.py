# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The callback brief: it shows what is there to be read, and nothing of what did nothing."""

from __future__ import annotations

import re

from tests.support.playbook import Playbook

BRIEF = {"ANSIBLE_STDOUT_CALLBACK": "graceful.azure.brief"}


def test_what_debug_says_is_shown_and_what_did_nothing_is_not(tmp_path):
    tasks = [
        {"name": "one", "ansible.builtin.debug": {"msg": "one text"}},
        {"name": "each", "ansible.builtin.debug": {"msg": "text {{ item }}"}, "loop": ["first", "second"]},
        {"name": "skipped", "ansible.builtin.debug": {"msg": "no text"}, "when": False},
        {"name": "verbose", "ansible.builtin.debug": {"msg": "only with -v", "verbosity": 1}},
        {"name": "fact", "ansible.builtin.set_fact": {"known": 1}},
        {"name": "facts", "ansible.builtin.set_fact": {"known": "{{ item }}"}, "loop": [1, 2]},
        {"name": "held", "ansible.builtin.assert": {"that": "known == 2", "success_msg": "the assertion held"}},
        {"name": "changed", "ansible.builtin.command": {"cmd": "true"}},
    ]
    run = Playbook(tmp_path).run(tasks, environment=BRIEF)
    assert run.status == 0, run.output
    assert '"msg": "one text"' in run.output and "changed: [here]" in run.output, run.output
    assert re.findall(r'\(item=(\w+)\) => \{\s+"msg": "text (\w+)"', run.output) == [("first", "first"), ("second", "second")], run.output
    shown = re.findall(r"^TASK \[(\w+)\]", run.output, re.MULTILINE)
    assert shown[:3] == ["one", "each", "changed"] and not {"skipped", "verbose", "fact", "facts", "held"} & set(shown), run.output
    assert "no text" not in run.output and "only with -v" not in run.output and "the assertion held" not in run.output, run.output


def test_an_error_of_the_collection_is_told_once(tmp_path):
    tasks = [{"name": "refused", "graceful.azure.plan_by_hand": {"phase": "options"}}, {"name": "wrong", "ansible.builtin.fail": {"msg": "no"}}]
    run = Playbook(tmp_path, holds_release="maybe").run(tasks, environment=BRIEF)
    assert run.output.count("'maybe' is neither true nor false") == 1 and "Origin" not in run.output.partition("TASK [wrong]")[0], run.output


def test_holds_shows_what_is_held(site, monkeypatch):
    monkeypatch.setenv("ANSIBLE_STDOUT_CALLBACK", BRIEF["ANSIBLE_STDOUT_CALLBACK"])
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"])
    assert site.run(handle_events_wait=False).status == 0
    shown = site.run("holds")
    assert shown.status == 0 and "web1: HAProxy server www/web1 on lb1 (" in shown.output and event_id in shown.output, shown.output
    assert "Nothing is held for web2." in shown.output and "Nothing is held for web1." not in shown.output
    assert "Look at the hosts" not in shown.output and "skipping: [" not in shown.output, shown.output


def test_v_shows_no_plan_and_vvv_does(site):
    site.simulator.post_event(EventType="Reboot", Resources=["web1"])
    shown = site.run("handle_events", "-v", handle_events_wait=False)
    assert shown.status == 0 and '"turns"' not in shown.output and "web1: next goes out of its balancer" in shown.output, shown.output
    assert shown.output.count("web1, web2: events are read at http://") == 1, shown.output
    assert '"turns"' in site.run("handle_events", "-vvv", handle_events_wait=False).output
