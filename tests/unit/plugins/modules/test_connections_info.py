# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import socket

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._connections import Counted
from ansible_collections.graceful.azure.plugins.modules import connections_info

from tests.support.module import arguments_are
from tests.support.ports import listener


def run(capsys, **args):
    """What the module prints, as Ansible reads it."""
    with arguments_are(args), pytest.raises(SystemExit):
        connections_info.main()
    result = json.loads(capsys.readouterr().out)
    result.pop("invocation", None)  # ansible-core 2.19 still adds it here
    return result


@pytest.fixture
def connections(monkeypatch):
    """The connections that the kernel shows, look by look; the last stay."""
    looks = []

    def counted(ports, told_apart):
        look = looks.pop(0) if len(looks) > 1 else looks[0]
        found = [dict(each) for each in look if each["port"] in ports]
        return Counted([each for each in found if "peer" in each], [each for each in found if "why" in each])

    monkeypatch.setattr(connections_info, "counted", counted)
    monkeypatch.setattr(connections_info, "LOOK_SECONDS", 0.001)
    return looks


def peer(address, port=8080, count=1):
    return {"port": port, "peer": address, "count": count}


def test_nobody_is_connected(capsys, connections):
    connections.append([])
    result = run(capsys, ports=[8080])
    assert result == {"changed": False, "connections": [], "count": 0, "uncounted": [], "heard": [8080], "idle": True, "left": []}


def test_who_is_connected(capsys, connections):
    connections.append([peer("10.0.0.7", count=2), peer("10.0.0.8"), peer("10.0.0.7", port=443), peer("10.0.0.7", port=22)])
    result = run(capsys, ports=[443, 8080])
    assert (result["count"], result["idle"]) == (4, False)
    assert result["left"] == ["1 connection on port 443", "3 connections on port 8080"]
    assert {"port": 8080, "peer": "10.0.0.7", "count": 2, "ignored": False} in result["connections"]
    assert not any(connection["port"] == 22 for connection in result["connections"])


@pytest.mark.parametrize("ignored", ["10.0.0.4", "::ffff:10.0.0.4", "::FFFF:0a00:0004"])
def test_ignored_peers(capsys, connections, ignored):
    connections.append([peer("10.0.0.4", count=13)])
    result = run(capsys, ports=[8080], ignored_peers=[ignored, "2001:db8::1"])
    assert (result["count"], result["idle"], result["left"]) == (0, True, [])
    assert result["connections"] == [{"port": 8080, "peer": "10.0.0.4", "count": 13, "ignored": True}]


@pytest.mark.parametrize(
    ("pool", "left"),
    [
        ({"ports": [40001, 40002, 40003]}, []),
        ({"ports": [40001, 40009]}, ["1 connection on port 8080"]),
        ({"ports": []}, ["2 connections on port 8080"]),
        ({"at_most": 2}, []),
        ({"at_most": 1}, ["1 connection on port 8080"]),
        ({}, []),
    ],
)
def test_what_a_balancer_has_itself_does_not_count_and_others_on_its_machine_do(capsys, connections, pool, left):
    connections.append([dict(peer("10.0.0.4", count=2), peer_ports=[40001, 40002])])
    result = run(capsys, ports=[8080], pools=[dict(pool, address="::ffff:10.0.0.4")])
    assert result["left"] == left and result["idle"] == (not left)
    assert result["connections"] == [dict(peer("10.0.0.4", count=2), ignored=not left)]


def test_it_waits_until_nobody_is_connected(capsys, connections):
    connections.extend([[peer("10.0.0.7", count=2)], [peer("10.0.0.7")], []])
    result = run(capsys, ports=[8080], timeout=60)
    assert result["idle"] and len(connections) == 1


def test_a_time_out_is_no_failure(capsys, connections):
    connections.append([peer("10.0.0.7")])
    result = run(capsys, ports=[8080], timeout=0.01)
    assert "failed" not in result
    assert (result["idle"], result["left"]) == (False, ["1 connection on port 8080"])


def test_check_mode_looks_once(capsys, connections):
    connections.extend([[peer("10.0.0.7")], []])
    assert run(capsys, ports=[8080], timeout=60, _ansible_check_mode=True)["idle"] is False


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"ports": []}, "ports is empty: name at least one local TCP port"),
        ({"ports": [0]}, "ports: 0 is not a TCP port from 1 to 65535"),
        ({"ports": [80, 65536]}, "ports: 65536 is not a TCP port from 1 to 65535"),
        ({"ports": [80], "timeout": -1}, "timeout is -1.0; it must be a number of seconds, 0 or more."),
        ({"ports": [80], "timeout": "nan"}, "timeout is nan; it must be a number of seconds, 0 or more."),
        ({"ports": [80], "ignored_peers": ["lb1"]}, "ignored_peers: 'lb1' is not an IPv4 or IPv6 address"),
    ],
)
def test_bad_input(capsys, args, message):
    result = run(capsys, **args)
    assert result["failed"] is True
    assert result["msg"] == message


class TestUncounted:
    UNHEARD = {"port": 8080, "why": "nobody listens on it", "unheard": True}
    HIDDEN = {"port": 8080, "why": "it may be forwarded elsewhere", "unheard": False}

    @pytest.mark.parametrize("entry", [UNHEARD, HIDDEN])
    def test_is_not_idle_and_says_why(self, capsys, connections, entry):
        connections.append([entry])
        result = run(capsys, ports=[8080])
        assert (result["count"], result["idle"], result["heard"]) == (0, False, [])
        assert result["uncounted"] == [{"port": 8080, "why": entry["why"]}]
        assert result["left"] == [f"port 8080 cannot be counted: {entry['why']}"]

    def test_a_service_that_was_stopped_is_idle(self, capsys, connections):
        connections.append([self.UNHEARD])
        result = run(capsys, ports=[8080], heard=[8080])
        assert result["idle"] is True and result["heard"] == [8080]

    def test_a_stopped_listener_does_not_hide_what_is_forwarded(self, capsys, connections):
        connections.append([self.HIDDEN])
        assert run(capsys, ports=[8080], heard=[8080])["idle"] is False

    @pytest.mark.parametrize(
        ("kind", "subject", "details", "idle"),
        [
            ("service", {"service": "app.service"}, {}, True),
            ("service", {"service": "app.service"}, {"idle": False, "heard": []}, False),
            ("service", {"service": "app.service"}, {"idle": False, "heard": [8080]}, True),
            ("task", {"name": "drained"}, {}, True),
            ("task", {"name": "drain_host_before"}, {}, False),
            ("task", {"name": "drain_host_before"}, {"heard": [8080]}, True),
            ("task", {"name": "drain_host_before"}, {"heard": [8081]}, False),
            ("task", {"name": "drain_host_before"}, {"heard": "8080"}, False),
        ],
    )
    def test_a_record_tells_what_could_be_counted_before(self, capsys, connections, monkeypatch, kind, subject, details, idle):
        record = {"kind": kind, "subject": subject, "events": {"E1": {"since": "", "reason": "", "details": details}}}
        monkeypatch.setattr(connections_info.run, "__defaults__", (None, lambda folder: [record] if folder == "/there" else []))
        connections.append([self.UNHEARD])
        assert run(capsys, ports=[8080], state_dir="/there")["idle"] is idle
        assert run(capsys, ports=[8080])["idle"] is False


@pytest.mark.parametrize(("args", "named"), [({"ports": ["http"]}, "ports"), ({"ports": [80], "timeout": "soon"}, "timeout"), ({}, "ports")])
def test_input_of_a_wrong_type(capsys, args, named):
    result = run(capsys, **args)
    assert result["failed"] is True and named in result["msg"]


def test_no_kernel_table(capsys, monkeypatch):
    monkeypatch.setattr(connections_info.counted, "__defaults__", ("/nowhere", ()))
    result = run(capsys, ports=[8080])
    assert result["failed"] is True and result["msg"] == "/nowhere/net/tcp does not exist: connections can be counted on Linux only"


def test_a_real_connection(capsys):
    with listener() as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            result = run(capsys, ports=[port])
    assert result["connections"] == [{"port": port, "peer": "127.0.0.1", "count": 1, "ignored": False}]


def test_a_real_connection_whose_client_has_sent_its_request_and_closed_its_side(capsys):
    with listener() as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client, server.accept()[0] as serving:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            client.shutdown(socket.SHUT_WR)
            while serving.recv(100):
                pass
            busy = run(capsys, ports=[port])
            serving.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
        idle = run(capsys, ports=[port])
    assert (busy["idle"], [one["count"] for one in busy["connections"]]) == (False, [1])
    assert idle["idle"]
