# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filter by which the roles ask for a judgement."""

from __future__ import annotations

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.graceful.azure.plugins.filter import judge as plugin

judge = plugin.FilterModule().filters()["judge"]


def test_all_that_can_be_asked_is_documented():
    documented = yaml.safe_load(plugin.DOCUMENTATION)["options"]["_input"]["choices"]
    assert sorted(documented) == sorted([*plugin.STEPS, *plugin.TIMES])


def test_a_role():
    told = judge("load_balancer", settings={"provider": "none", "hosts": [], "server": "web1"}, direction="out")
    assert told["result"]["reason"] == "no load balancer knows this host"


def test_what_depends_on_the_time(monkeypatch):
    monkeypatch.setattr(plugin.time, "time", lambda: 1000.0)
    assert judge("rounds", until=1010.0, timeout=10.0, wait=True)["left"] == 10.0


def test_a_time_that_is_none():
    with pytest.raises(AnsibleFilterError, match="'tomorrow' is not a time"):
        judge("deadline", timeout=10.0, events={"events": [], "details": {"E1": {"not_before": "tomorrow"}}})
