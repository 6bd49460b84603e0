# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._minimum import minimum, parse_minimum, shortage


@pytest.mark.parametrize(("given", "meant"), [(0, 0), (2, 2), ("2", 2), (" 50% ", "50%"), ("0%", "0%"), ("100%", "100%")])
def test_what_is_a_minimum(given, meant):
    assert parse_minimum(given) == meant


@pytest.mark.parametrize("given", [True, -1, 1.5, "", "many", "101%", "-5%", "%", "²", "5²%", None])
def test_what_is_none(given):
    with pytest.raises(ValueError, match="neither a number of servers from 0 up nor a percentage"):
        parse_minimum(given)


@pytest.mark.parametrize(("value", "servers", "least"), [(1, 5, 1), ("50%", 5, 3), ("50%", 4, 2), ("0%", 4, 0), ("100%", 3, 3)])
def test_how_many(value, servers, least):
    assert minimum(value, servers) == least


def backend(*states):
    """Servers a, b, ... as they are told: serves, down, or either as backup."""
    return [{"server": name, "in_service": "serves" in state, "backup": "backup" in state} for name, state in zip("abcdef", states)]


IMPOSSIBLE = "2 of 2 in service in www, 3 must stay: the backend has 2 servers, so this can never be met (graceful_azure_min_in_service)"


@pytest.mark.parametrize(
    ("least", "states", "leaving", "short"),
    [
        (1, ["serves", "serves"], (), None),
        (1, ["serves", "serves"], ("b",), "1 of 2 in service in www, 1 must stay"),
        (1, ["serves", "down"], (), "1 of 2 in service in www (b is out), 1 must stay"),
        (3, ["serves", "serves"], (), IMPOSSIBLE),
        (0, ["serves"], (), None),
        (0, ["serves", "serves backup"], (), None),
        ("50%", ["serves", "serves", "serves"], (), None),
        ("50%", ["serves", "serves", "down"], (), "2 of 3 in service in www (c is out), 2 must stay"),
        (1, ["serves", "serves backup"], (), "1 of 1 in service in www, 1 must stay"),
        ("50%", ["serves", "serves", "down backup", "down backup"], (), None),
        (1, ["serves backup", "serves"], (), None),
        (1, ["serves backup", "down"], (), "1 of 2 in service in www (b is out), 1 must stay"),
    ],
)
def test_whether_one_more_may_leave(least, states, leaving, short):
    assert shortage(least, "a", backend(*states), "www", leaving) == short


def test_an_unresolved_slot_is_not_in_the_base_and_one_that_is_down_is():
    slots = [{"server": str(number), "in_service": False, "backup": False, "unresolved": True} for number in range(16)]
    assert shortage("50%", "a", backend("serves", "serves", "serves", "down") + slots, "www") is None
    assert shortage("50%", "a", backend("serves", "serves", "down", "down") + slots, "www") == "2 of 4 in service in www (c is out; d is out), 2 must stay"


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"silent": "10.0.0.5:80 does not accept connections"}, "10.0.0.5:80 does not accept connections"),
        ({"out": "b is out for its Reboot", "admin_state": "drain"}, "b is out for its Reboot"),
        ({"admin_state": "maint", "operational": "down"}, "b is in maint"),
        ({"admin_state": "ready", "operational": "down"}, "b is down"),
        ({"admin_state": "ready", "operational": "up"}, "b is out"),
    ],
)
def test_who_is_out_is_named_with_the_reason(told, why):
    servers = [*backend("serves"), {"server": "b", "in_service": False, "backup": False, **told}]
    assert shortage(1, "a", servers, "www") == "1 of 2 in service in www (%s), 1 must stay" % why
