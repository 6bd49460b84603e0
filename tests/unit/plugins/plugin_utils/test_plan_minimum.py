# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which servers count for the minimum in service, where the balancer does not check them."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType, SimpleNamespace

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import TRAFFIC
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.minimum import below_minimum
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import BALANCER, CONNECTION, NOBODY, Group, Place
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.turns import _ask
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.verdicts import Kind, Reason

from tests.support.model import Model

NAMES = ("web1", "web2")
GROUP = Group(("pool",), "pool web", tuple({"server": name, "in_service": True, "backup": False} for name in NAMES))
ASK = MappingProxyType({"url": "http://localhost/health"})


def target(name, health, asked=False, unanswered=None, ask=ASK, silent=False):
    place = Place(f"{name} in pool web", serves=True, group=GROUP, member=name, health=health)
    settings = SimpleNamespace(min_in_service=1, restore_service=SimpleNamespace(ask=ask))
    seen = SimpleNamespace(asked=asked, unanswered=unanswered, is_silent=silent)
    known = {"why_silent": "no route to host", "held_ids": set(), "events": [], "balancers": [], "blind": ()}
    return SimpleNamespace(name=name, places=(place,), settings=settings, observation=seen, **known)


@pytest.mark.parametrize(("least", "is_read", "waits"), [(1, False, True), (1, True, False), ("0%", False, False)])
def test_who_is_in_a_pool_is_not_known_while_the_host_cannot_tell_its_health_answer(least, is_read, waits):
    """It goes out of both balancers with one step, and nobody counts again before its answer fails."""
    host, why = target("web1", BALANCER), Reason(Kind.UNREAD, "the health answer (/run/out): timed out")
    haproxy, probe = TRAFFIC["haproxy"], TRAFFIC["health_probe"]
    host.places = tuple(replace(host.places[0], balancer=(kind, {}), serves=False) for kind in [haproxy, *([probe] if is_read else [])])
    host.balancers, host.blind, host.settings.min_in_service = [(haproxy, {}), (probe, {})], (why,), least
    assert below_minimum(host, {"web1": host}, ()) == (why if waits else None)
    assert below_minimum(host, {"web1": host}, (), held=True) is None


@pytest.mark.parametrize(
    ("health", "other", "short"),
    [
        (NOBODY, {"asked": True}, None),
        (NOBODY, {"asked": True, "unanswered": "status 500"}, "1 of 2 in service in pool web (web2: status 500), 1 must stay"),
        # The next look asks it, within seconds.
        (NOBODY, {}, "the next look asks whether web2 answers"),
        # There is nothing to ask.
        (NOBODY, {"ask": {}}, None),
        # It cannot be reached, so it may be dead, and its balancer does not tell that.
        (NOBODY, {"silent": True}, "1 of 2 in service in pool web (web2: no route to host), 1 must stay"),
        (NOBODY, {"silent": True, "ask": {}}, "1 of 2 in service in pool web (web2: no route to host), 1 must stay"),
        (CONNECTION, {"silent": True}, None),
        (BALANCER, {"silent": True}, None),
        # Something accepts its connections, and what it answers says more.
        (CONNECTION, {}, None),
        (CONNECTION, {"asked": True, "unanswered": "status 500"}, "1 of 2 in service in pool web (web2: status 500), 1 must stay"),
        # The balancer has a check of its own.
        (BALANCER, {"asked": True, "unanswered": "status 500"}, None),
    ],
)
def test_a_target_that_does_not_answer_does_not_count(health, other, short):
    hosts = {"web1": target("web1", health), "web2": target("web2", health, **other)}
    assert below_minimum(hosts["web1"], hosts, set()) == (Reason(Kind.MINIMUM if "must stay" in short else Kind.LOOK, short) if short else None)


def test_a_server_that_haproxy_has_not_checked_yet_does_not_count():
    """After a reload it is up until its first check, whatever it is. So a host that waits for it would go out with each reload."""
    model, told = Model(hosts=2), "{}: its last check by HAProxy has not passed"
    model.servers["lb1"]["web2"]["unsure"] = told.format("web2")
    model.announce("e1", "web1", notice=900.0)
    for _pass in range(4):
        model.go()
    said = model.outcome["hosts"]["web1"]
    assert (said["state"], said["reason"]) == ("waiting", f"it is too early to count www on lb1 ({told.format('web2')})")
    assert model.in_rotation("web1") == ["lb1"]
    # Whether it has been checked itself does not matter.
    model.servers["lb1"]["web2"]["unsure"], model.servers["lb1"]["web1"]["unsure"] = None, told.format("web1")
    model.until(lambda outcome: not model.in_rotation("web1"))
    # Where HAProxy has lost that it was out, it does not wait: what runs there may be stopped already.
    model.servers["lb1"]["web2"]["unsure"] = told.format("web2")
    server = model.servers["lb1"]["web1"]
    server["process"], server["admin_state"] = server["process"] + 1, "ready"
    model.until(lambda outcome: not model.in_rotation("web1"), passes=3)


@pytest.mark.parametrize(("least", "waits"), [(1, True), ("50%", True), (0, False), ("0%", False)])
def test_an_event_is_not_approved_unprepared_while_nobody_knows_who_stays_in_service(least, waits):
    model = Model(balancers=("lb1", "lb2"), min_in_service=least, rules=[{"name": "quick", "action": "approve"}])
    model.down_balancers["lb2"] = {"reached": False, "error": "timed out"}
    model.servers["lb2"]["web2"]["up"] = False
    model.announce("e1", "web1")
    outcome = model.go()
    assert bool(model.posted) is not waits
    if waits:
        assert outcome["hosts"]["web1"]["reason"] == "balancer lb2: timed out"
        model.servers["lb2"]["web2"]["up"] = True
        model.down_balancers.clear()
        model.until(lambda outcome: model.posted, passes=3)


@pytest.mark.parametrize(
    ("health", "events", "asked"),
    [
        (NOBODY, [True], {**ASK, "always": True}),
        (CONNECTION, [True], {**ASK, "always": True}),
        (BALANCER, [True], ASK),
        (NOBODY, [False], ASK),
        (NOBODY, [], ASK),
    ],
)
def test_while_an_event_stands_every_target_is_asked_whose_balancer_does_not_check_it(health, events, asked):
    host = target("web2", health)
    host.settings.drain_host = SimpleNamespace(steps=[])
    host.settings.restore_service.before = ""
    host.events, host.answer = [], None
    standing = {number: SimpleNamespace(standing=standing) for number, standing in enumerate(events)}
    observed = SimpleNamespace(events=standing, run=SimpleNamespace(check=False))
    assert _ask(host, SimpleNamespace(observed=observed, step=lambda _host: None)) == asked
