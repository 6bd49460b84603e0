# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the lines of nginx lead, and which of them lead to the same host."""

from __future__ import annotations

import socket
import threading

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._connections import ConnectionsError
from ansible_collections.graceful.azure.plugins.module_utils._nginx_addresses import Resolver, leads_to
from ansible_collections.graceful.azure.plugins.module_utils._nginx_configuration import Configuration
from ansible_collections.graceful.azure.plugins.module_utils._spellings import is_same_host, place_json, place_of, place_text, spelled

from tests.support.patience import patient


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("10.0.0.4", "10.0.0.4:80"),
        ("Web1.Internal", "web1.internal.:80"),
        ("[2001:DB8::0:4]:8080", "[2001:db8::4]:8080"),
        ("[::ffff:10.0.0.4]", "10.0.0.4:80"),
        # Decimal, as nginx reads it.
        ("010.000.0.010:8080", "10.0.0.10:8080"),
    ],
)
def test_spellings_of_one_address(one, other):
    assert spelled(one) == spelled(other)


@pytest.mark.parametrize(("one", "other"), [("10.0.0.4", "10.0.0.4:81"), ("unix:/run/a", "unix:/run/A"), ("web1", "web2")])
def test_other_addresses(one, other):
    assert spelled(one) != spelled(other)


@pytest.mark.parametrize(
    ("place", "others", "same"),
    [
        (("10.0.0.4", 80), [], True),
        (("10.0.0.4", 81), [], True),
        # Another host has a line with this address.
        (("10.0.0.4", 81), [("10.0.0.4", 82)], False),
        (("10.0.0.5", 80), [], False),
        (("127.0.0.1", 8001), [], True),
        (("127.0.0.1", 8002), [], False),
        (("127.0.0.11", 8002), [], True),
        ("/run/app.sock", [], True),
        ("/run/other.sock", [], False),
    ],
)
def test_the_same_host(place, others, same):
    own = {("10.0.0.4", 80), ("127.0.0.1", 8001), ("127.0.0.11", 8001), "/run/app.sock"}
    assert is_same_host(place, own, others) is same


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("10.0.0.010:8080", ("10.0.0.10", 8080)),
        # The kernel takes these for the machine itself.
        ("0.0.0.0:8080", ("127.0.0.1", 8080)),
        ("[::]:8080", ("::1", 8080)),
    ],
)
def test_where_connections_to_an_address_go(address, place):
    assert leads_to(address, "http") == {place}


def test_where_the_servers_of_a_service_are_is_not_known():
    """The name may have an address of its own, to which nginx sends nothing."""
    line = "server localhost service=http resolve;"
    server = Configuration("nginx.conf", lambda _path: b"http { upstream a { %s server localhost:81 resolve; } }" % line.encode()).servers
    resolver = Resolver()
    assert resolver.why_unknown(server[0].target, "http") == "the servers of 'localhost' are those of a service in the DNS, which nginx alone asks for"
    assert resolver.known_places(server[0].target, "http") == set() and ("127.0.0.1", 81) in resolver.known_places(server[1].target, "http")


def test_places_as_json_and_text():
    for place, text in ((("2001:db8::4", 80), "[2001:db8::4]:80"), (("10.0.0.4", 1), "10.0.0.4:1"), ("/run/a", "unix:/run/a")):
        assert place_of(place_json(place)) == place
        assert place_text(place) == text


def test_names_are_resolved_once_and_side_by_side():
    asked, over = [], threading.Event()

    def getaddrinfo(host, port, **more):
        asked.append(host)
        if host == "slow":
            over.wait(patient(20))
        if host == "unknown":
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, 1, 6, "", ("10.0.0.4", port)), (socket.AF_INET6, 1, 6, "", ("fe80::1%eth0", port, 0, 2))]

    resolver = Resolver(getaddrinfo, seconds=patient(0.3))
    resolver.learn([("slow", "http"), ("unknown", "http"), ("web1:8080", "stream"), ("unix:/run/a", "http")])
    assert resolver.places("web1:8080", "stream") == {("10.0.0.4", 8080), ("fe80::1", 8080)}
    assert resolver.known_places("unix:/run/a", "http") == {"/run/a"}
    for name, said in (("slow", "no answer in time"), ("unknown", "Name or service not known")):
        with pytest.raises(ConnectionsError, match=said):
            resolver.places(name, "http")
    with pytest.raises(ConnectionsError, match="no port"):
        resolver.places("10.0.0.4", "stream")
    assert sorted(asked) == ["slow", "unknown", "web1"]
    over.set()
