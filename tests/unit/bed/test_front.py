# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the balancer in front of booted guests says, which is what tests judge by, and what follows Azure's administrative states."""

from __future__ import annotations

import pytest

from tests.bed import follower, front

CONNECTION = '2026-11-24T20:36:53.028617+00:00 {"accepted": 1795552602.802, "server": "web3", "connect": 0, "lasted": 10227, "end": "--"}'
MOMENT = 1795552613.028617


def test_a_connection():
    assert front.read_line(CONNECTION) == {"time": MOMENT, "accepted": 1795552602.802, "server": "web3", "connect": 0.0, "lasted": 10.227, "end": "--"}


@pytest.mark.parametrize(
    "text, state",
    [
        ("is DOWN via probe/web1. 2 active and 0 backup servers left.", "DOWN"),
        ("is UP via probe/web1. 3 active and 0 backup servers online.", "UP"),
        ("enters drain state. 1 active and 0 backup servers online.", "DRAIN"),
        ("is UP (leaving forced drain).", "UP"),
        ("said something else", None),
    ],
)
def test_a_state(text, state):
    told = front.read_line(f"2026-11-24T20:36:53.028617+00:00 Server web/web1 {text}")
    assert told == {"time": MOMENT, "server": "web1", "state": state, "said": text}


@pytest.mark.parametrize(
    "line",
    [
        "[WARNING]  (16285) : Server web/web1 is DOWN via probe/web1.",
        # What is said of the probe is said of the server once more.
        "2026-11-24T20:36:53.028617+00:00 Server probe/web1 is DOWN, reason: Layer7 wrong status.",
        "",
    ],
)
def test_other_lines(line):
    assert front.read_line(line) is None


class Line:
    """A connection to the stand-in that tells these administrative states of one address, one after the other."""

    def __init__(self, *states):
        self.states = list(states)

    def request(self, *_asked):
        pass

    def getresponse(self):
        return self

    def read(self):
        state = self.states.pop(0)
        properties = {"ipAddress": "10.0.0.4", **({} if state is None else {"adminState": state})}
        pool = {"properties": {"loadBalancerBackendAddresses": [{"name": "a", "properties": properties}]}}
        return follower.json.dumps([{"properties": {"backendAddressPools": [pool]}}]).encode()


def test_only_a_change_is_told(monkeypatch):
    told = []
    line = Line(None, "None", "Down", "Down", "Up", None)
    monkeypatch.setattr(follower.ssl, "create_default_context", lambda cafile: None)
    monkeypatch.setattr(follower.http.client, "HTTPSConnection", lambda *_place, **_more: line)
    monkeypatch.setattr(follower, "tell", lambda path, command: told.append(command))
    monkeypatch.setattr(follower.time, "sleep", lambda seconds: None)
    with pytest.raises(IndexError):
        follower.follow("https://127.0.0.1:1", "ca", "socket", {"10.0.0.4": "web1"})
    assert told == [
        # Open connections live on, and the probe counts again.
        "enable health probe/web1",
        "set server web/web1 state drain",
        "disable health probe/web1",
        "set server probe/web1 health up",
        "set server web/web1 state ready",
        "enable health probe/web1",
        "set server web/web1 state ready",
    ]
