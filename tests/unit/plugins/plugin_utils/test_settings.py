# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._settings import read_settings

OURS = {"load_balancer_provider": "none"}


@pytest.mark.parametrize(("given", "name"), [("web_0", "web_0"), (7, "7"), (0, "0"), ("", None), (None, None)])
def test_the_name_in_azure_is_a_text(given, name):
    settings, mistakes = read_settings({"web1": dict(OURS, graceful_azure_resource_name=given)}, {"web1"})
    assert mistakes == []
    assert settings["web1"]["resource_name"] == name


def test_texts_and_numbers_mean_the_same():
    """Before core 2.19 a template yields the text of a number."""
    values = {
        "graceful_azure_min_in_service": 2,
        "drain_host_ports": [80, 443],
        "drain_host_timeout": 60,
        "restore_service_port": 80,
        "restore_service_timeout": 1.5,
        "graceful_azure_rules": [{"name": "late", "lead_time": 600}],
    }
    texts = {name: str(value) if not isinstance(value, list) else value for name, value in values.items()}
    texts.update(drain_host_ports=["80", "443"], graceful_azure_rules=[{"name": "late", "lead_time": "600"}])
    numbers = read_settings({"web1": dict(OURS, **values)}, {"web1"})
    assert numbers[1] == []
    assert read_settings({"web1": dict(OURS, **texts)}, {"web1"}) == numbers
