# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a role begins that is used alone."""

from __future__ import annotations

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible_collections.graceful.azure.plugins.action import alone


class Play:
    connection = "paramiko"


def begin(patch, role="load_balancer", **known):
    action = alone.ActionModule.__new__(alone.ActionModule)
    action._task = type("Task", (), {"get_play": staticmethod(Play), "check_mode": False})
    action._templar, action._loader = None, DataLoader()
    patch.setattr(alone, "of_hosts", lambda names, _hostvars, _task: {name: {"lb1": {"ansible_connection": "local"}, "lb2": {}}[name] for name in names})
    patch.setattr(alone, "resolve", lambda _templar, _names, variables: (known, {}))
    return action._begin(role, {"hostvars": {"lb1": {}, "lb2": {}}, "playbook_dir": "/", "inventory_hostname": "web1"})


HAPROXY = {"graceful_azure_duties": [{"type": "haproxy", "hosts": ["lb1", "lb2"]}], "load_balancer_state": "out"}


def test_how_its_machines_are_reached(monkeypatch):
    """The play says how all are reached, or one says it of itself. What the play sets counts, too."""
    begun = begin(monkeypatch, **HAPROXY, load_balancer_event_ids=["E1"])
    assert (begun["connection"], begun["unsaid_connections"], begun["failure"]) == ("paramiko", ["lb2"], "")
    assert [turn["machine"] for turn in begun["turns"]["web1"]] == ["lb1", "lb2"]
    assert [act["args"]["server"] for turn in begun["turns"]["web1"] for act in turn["acts"]] == ["web1", "web1"]


def test_with_a_mistake_nothing_begins(monkeypatch):
    begun = begin(monkeypatch, graceful_azure_duties="web", load_balancer_state="out")
    assert begun["finished"] and begun["failure"].startswith("graceful_azure_duties: 'web' is not a list")
    assert not begun["result"]["done"] and begun["unsaid_connections"] == []


@pytest.mark.parametrize("role", ["restore_service", "drain_host"])
def test_others_look_first(monkeypatch, role):
    begun = begin(monkeypatch, role, graceful_azure_duties=["app"])
    (turn,) = begun["turns"]["web1"]
    assert "options" in turn and "acts" not in turn and not begun["finished"]


REASON = "web1 is not restored; it stays out of its load balancer; http://web1/: Connection refused"


@pytest.mark.parametrize(
    ("failure", "told"),
    [(f"{REASON}; start it", {"failed": True, "msg": f"{REASON}; start it"}), ("", {"msg": "web1 is restored"})],
)
def test_the_end_is_one_sentence(monkeypatch, failure, told):
    """An assertion also showed what it compares."""
    action = alone.ActionModule.__new__(alone.ActionModule)
    action._task = type("Task", (), {"args": {"phase": "end"}})
    monkeypatch.setattr(alone.ControllerAction, "run", lambda _self, _tmp, _variables: {})
    last = {"failure": failure, "result": {"reason": "web1 is restored"}}
    assert action.run(None, {"graceful_azure_alone": last}) == {"changed": False, "_ansible_verbose_always": True, **told}


def test_lines_are_shown_and_not_registered(monkeypatch):
    shown = []
    action = alone.ActionModule.__new__(alone.ActionModule)
    action._task = type("Task", (), {"args": {"phase": "pass"}})
    monkeypatch.setattr(alone.ControllerAction, "run", lambda _self, _tmp, _variables: {})
    monkeypatch.setattr(alone.display, "display", shown.append)
    monkeypatch.setattr(alone, "one_pass", lambda *_arguments: {"finished": True, "failure": "", "lines": ["web1  restoring"]})
    result = action.run(None, {"graceful_azure_alone": {"connection": "ssh", "unsaid_connections": [], "passes": 0}})
    assert shown == ["web1  restoring"] and "lines" not in result
