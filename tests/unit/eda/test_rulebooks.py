# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rulebooks' variables, as ansible-rulebook makes arguments of sources of them."""

from __future__ import annotations

import jinja2
import pytest
import yaml
from ansible_rulebook.util import substitute_variables

from tests.support.checkout import ROOT

RULEBOOKS = ROOT / "extensions" / "eda" / "rulebooks"


def arguments(rulebook, source, **variables):
    """What this source is given."""
    (ruleset,) = yaml.safe_load((RULEBOOKS / f"{rulebook}.yml").read_text())
    (given,) = [one[source] for one in ruleset["sources"] if source in one]
    return substitute_variables(given, variables)


def webhook(**variables):
    return arguments("webhook", "eda.builtin.webhook", **variables)


@pytest.mark.parametrize("secret", ["a secret", 12345, "12345", "1e5", "None", "it's <odd> & \"quoted\" \\ {{ é", "[1]"])
def test_a_secret_is_a_text(secret):
    assert webhook(webhook_hmac_secret=secret)["hmac_secret"] == str(secret)


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({}, "'webhook_hmac_secret' is undefined"),
        ({"webhook_hmac_secret": ""}, "webhook_hmac_secret_must_not_be_empty"),
        ({"webhook_hmac_secret": None}, "webhook_hmac_secret_must_not_be_empty"),
        ({"webhook_hmac_secret": "a secret", "webhook_port": "http"}, "webhook_port_must_be_a_number"),
        ({"webhook_hmac_secret": "a secret", "webhook_port": [5000]}, "webhook_port_must_be_a_number"),
    ],
)
def test_bad_input(variables, named):
    with pytest.raises(jinja2.UndefinedError, match=named):
        webhook(**variables)


def test_defaults_and_what_is_given():
    assert (webhook(webhook_hmac_secret="x")["port"], webhook(webhook_hmac_secret="x")["host"]) == (5000, "0.0.0.0")
    assert webhook(webhook_hmac_secret="x", webhook_port="5001", webhook_host="127.0.0.1")["port"] == 5001
    assert arguments("handle_events", "graceful.azure.scheduled_events") == {"imds_urls": ["http://169.254.169.254"]}
    assert arguments("handle_events", "graceful.azure.scheduled_events", imds_urls="http://x")["imds_urls"] == "http://x"


@pytest.mark.parametrize("rulebook", ["handle_events", "webhook"])
def test_the_hosts_to_begin_with(rulebook):
    assert [arguments(rulebook, "eda.builtin.generic", **given)["payload"][0]["target"] for given in ({}, {"target": "web"})] == ["all", "web"]
