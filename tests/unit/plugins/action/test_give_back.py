# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from types import SimpleNamespace

from ansible_collections.graceful.azure.plugins.action.give_back import ActionModule


def test_the_module_of_the_provider_runs_with_its_options(monkeypatch):
    action = ActionModule.__new__(ActionModule)
    action._task = SimpleNamespace(args={"module": "haproxy_hold", "options": {"server": "web1", "state": "absent"}})
    action._connection = SimpleNamespace()
    asked = []
    monkeypatch.setattr("ansible.plugins.action.ActionBase.run", lambda self, tmp=None, task_vars=None: {})

    def execute(**how):
        asked.append(how)
        return {"changed": True, "conflicts": []}

    action._execute_module = execute
    assert action.run(task_vars={"a": 1}) == {"changed": True, "conflicts": []}
    assert asked == [{"module_name": "graceful.azure.haproxy_hold", "module_args": {"server": "web1", "state": "absent"}, "task_vars": {"a": 1}}]
