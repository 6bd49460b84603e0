# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An ansible-core that is too old is refused before anything is done."""

from __future__ import annotations

import pytest
import yaml
from ansible import release
from ansible.plugins.action import ActionBase
from ansible_collections.graceful.azure.plugins.action import check_awx_setup, check_settings, plan_by_hand
from ansible_collections.graceful.azure.plugins.plugin_utils._core import OLDEST, too_old

from tests.support.checkout import ROOT

TOLD = "graceful.azure needs ansible-core 2.17 or later, and this is ansible-core 2.16.14"


@pytest.mark.parametrize("version", ["2.9.27", "2.16.14", "2.16.0rc1"])
def test_old_ones(monkeypatch, version):
    monkeypatch.setattr(release, "__version__", version)
    assert too_old() == [TOLD.replace("2.16.14", version)]


@pytest.mark.parametrize("version", ["2.17.0", "2.17.0b1", "2.21.1", "2.22.0.dev0", "3.0.0"])
def test_others(monkeypatch, version):
    monkeypatch.setattr(release, "__version__", version)
    assert too_old() == []


def test_the_collection_says_the_same():
    numbers = ".".join(map(str, OLDEST))
    assert yaml.safe_load((ROOT / "meta/runtime.yml").read_text())["requires_ansible"] == f">={numbers}.0"
    assert f"`ansible-core` {numbers} or later" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    ("module", "args"), [(check_settings, {}), (check_settings, {"role": "drain_host"}), (plan_by_hand, {"phase": "options"}), (check_awx_setup, {})]
)
def test_the_first_action_of_each_playbook_refuses_it(monkeypatch, module, args):
    """None of them gets as far as to read a variable that is not there."""
    monkeypatch.setattr(release, "__version__", "2.16.14")
    monkeypatch.setattr(ActionBase, "run", lambda *_arguments, **_more: {})
    action = module.ActionModule.__new__(module.ActionModule)
    action._task = type("Task", (), {"args": args})()
    action._templar = None
    action.validate_argument_spec = lambda argument_spec: (None, {"made": {}, "refused": None, **args})
    monkeypatch.setattr(module, "resolve", lambda *_arguments: ({}, {}))
    result = action.run(None, {"hostvars": {}, "ansible_play_hosts": []})
    assert result["failed"] and result["msg"].startswith(TOLD)
