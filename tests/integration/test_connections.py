# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Connections that a host forwards to a container, with the kernel's own rules."""

from __future__ import annotations

import os

import pytest

from tests.support.module import run_module
from tests.support.patience import patient
from tests.support.published_port import CLIENT, NEEDS, PORT, PublishedPort

pytestmark = NEEDS


@pytest.fixture(scope="module", name="world")
def make_world():
    world = PublishedPort()
    yield world
    world.close()


WITHOUT_RIGHT = ["setpriv", "--bounding-set", "-net_admin"]


def look(world, user=None, prefix=(), **options):
    return run_module("connections_info", dict(options, ports=[PORT]), user=user, prefix=[*world.enter(world.host), *prefix])


def test_connections_of_a_published_port(world):
    never = look(world)
    assert never["count"] == 0 and never["idle"] is False and never["heard"] == []
    assert never["left"] == [f"port {PORT} cannot be counted: nobody listens on it, and no connection to it is forwarded elsewhere"]

    caller = world.call()
    busy = look(world)
    assert busy["connections"] == [{"port": PORT, "peer": CLIENT, "count": 1, "ignored": False}]
    assert (busy["idle"], busy["uncounted"], busy["heard"]) == (False, [], [PORT])
    assert look(world, ignored_peers=[CLIENT])["idle"] is True

    # Root in a container has no right for netlink. The kernel may have a file.
    if os.path.exists("/proc/net/nf_conntrack"):
        assert look(world, prefix=WITHOUT_RIGHT) == busy
    # Nobody but root may read what is forwarded, and nobody listens on the host itself.
    said = look(world, user=65534)
    assert said["idle"] is False and said["left"] == [
        f"port {PORT} cannot be counted: nobody listens on it, and only root can tell whether it is forwarded elsewhere"
    ]

    caller.kill()
    caller.wait()
    world.server.kill()
    world.server.wait()
    # Both sides have gone, and the kernel tells it: the port is forwarded, and idle.
    ended = look(world, timeout=patient(5), heard=busy["heard"])
    assert (ended["count"], ended["idle"], ended["uncounted"]) == (0, True, [])
