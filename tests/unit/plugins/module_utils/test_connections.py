# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import socket
import struct
import sys

import pytest
from ansible_collections.graceful.azure.plugins.module_utils import _connections
from ansible_collections.graceful.azure.plugins.module_utils._connections import ConnectionsError, established, parse_address, parse_table

from tests.support.ports import listener

HEADING = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def kernel_address(address, port):
    """An address as the kernel of this machine prints it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    packed = socket.inet_pton(family, address)
    words = struct.unpack("=%dI" % (len(packed) // 4), packed)
    return "".join("%08X" % word for word in words) + ":%04X" % port


def line(local, remote, state="01"):
    return "   0: %s %s %s 00000000:00000000 00:00000000 00000000  1000        0 12345 1 0000 20 4 30 10 -1\n" % (
        kernel_address(*local),
        kernel_address(*remote),
        state,
    )


def table(*lines):
    return HEADING + "".join(lines)


def test_addresses_are_printed_in_the_order_of_the_machine():
    # So that kernel_address above is itself checked against a line seen on x86.
    if sys.byteorder == "little":
        assert kernel_address("127.0.0.1", 8080) == "0100007F:1F90"


@pytest.mark.parametrize(
    ("local", "remote", "peer"),
    [
        ("10.0.0.5", "10.0.0.7", "10.0.0.7"),
        ("2001:db8::5", "2001:db8::7", "2001:db8::7"),
        ("::ffff:10.0.0.5", "::ffff:10.0.0.7", "10.0.0.7"),
        ("::1", "::1", "::1"),
        ("fe80::1", "fe80::abcd:ef01:2345:6789", "fe80::abcd:ef01:2345:6789"),
    ],
)
def test_peers_of_either_family(local, remote, peer):
    assert parse_table(table(line((local, 8080), (remote, 40000))), {8080}) == [(8080, peer)]


def test_only_the_local_port_counts():
    text = table(line(("10.0.0.5", 40000), ("10.0.0.7", 8080)), line(("10.0.0.5", 8081), ("10.0.0.7", 40001)))
    assert parse_table(text, {8080}) == []


@pytest.mark.parametrize("state", ["01", "08"])
def test_who_waits_for_an_answer_counts(state):
    # 08 is CLOSE_WAIT: the client has sent its request and closed its own side.
    assert parse_table(table(line(("10.0.0.5", 8080), ("10.0.0.7", 40000), state)), {8080}) == [(8080, "10.0.0.7")]


@pytest.mark.parametrize("state", ["02", "03", "04", "05", "06", "07", "09", "0A", "0B", "0C"])
def test_no_other_connections_count(state):
    # 06 is TIME_WAIT, 0A is LISTEN.
    assert parse_table(table(line(("10.0.0.5", 8080), ("10.0.0.7", 40000), state)), {8080}) == []


def test_an_empty_table():
    assert parse_table("", {8080}) == []
    assert parse_table(HEADING, {8080}) == []


@pytest.mark.parametrize("bad", ["nonsense", "0: 0100007F:1F90 0100007F", "0: 0100007F:xx 0100007F:1F90 01", "0: 0100007F:1F90 0100007F0100007F:1F90 01"])
def test_a_line_that_makes_no_sense_is_an_error(bad):
    with pytest.raises(ConnectionsError, match="cannot be understood"):
        parse_table(HEADING + bad + "\n", {8080})


def test_established_counts_by_port_and_peer(tmp_path):
    v4, v6 = tmp_path / "tcp", tmp_path / "tcp6"
    v4.write_text(table(line(("10.0.0.5", 80), ("10.0.0.7", 4000)), line(("10.0.0.5", 80), ("10.0.0.7", 4001)), line(("10.0.0.5", 443), ("10.0.0.8", 4002))))
    v6.write_text(table(line(("::ffff:10.0.0.5", 80), ("::ffff:10.0.0.7", 4003)), line(("2001:db8::5", 80), ("2001:db8::7", 4004))))
    assert established([80, 443], str(v4), str(v6)) == [
        {"port": 80, "peer": "10.0.0.7", "count": 3},
        {"port": 80, "peer": "2001:db8::7", "count": 1},
        {"port": 443, "peer": "10.0.0.8", "count": 1},
    ]


def test_a_kernel_without_ipv6(tmp_path):
    (tmp_path / "tcp").write_text(table(line(("10.0.0.5", 80), ("10.0.0.7", 4000))))
    assert established([80], str(tmp_path / "tcp"), str(tmp_path / "tcp6")) == [{"port": 80, "peer": "10.0.0.7", "count": 1}]


def test_no_table_at_all(tmp_path):
    with pytest.raises(ConnectionsError, match="Linux only"):
        established([80], str(tmp_path / "tcp"), str(tmp_path / "tcp6"))


def test_a_table_that_cannot_be_read(tmp_path):
    (tmp_path / "tcp").mkdir()
    with pytest.raises(ConnectionsError, match="cannot be read: Is a directory"):
        established([80], str(tmp_path / "tcp"), str(tmp_path / "tcp6"))


@pytest.mark.parametrize(("given", "form"), [("10.0.0.7", "10.0.0.7"), ("::FFFF:10.0.0.7", "10.0.0.7"), ("2001:DB8:0::7", "2001:db8::7")])
def test_one_form_for_an_address(given, form):
    assert parse_address(given) == form


@pytest.mark.parametrize("given", ["lb1", "", "10.0.0", "10.0.0.7:80", "{{ x }}"])
def test_what_is_no_address(given):
    with pytest.raises(ConnectionsError, match="is not an IPv4 or IPv6 address"):
        parse_address(given)


@pytest.mark.parametrize(
    ("family", "listen", "connect", "peer"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1", "127.0.0.1"),
        (socket.AF_INET6, "::1", "::1", "::1"),
        (socket.AF_INET6, "::", "127.0.0.1", "127.0.0.1"),
    ],
)
def test_real_connections(family, listen, connect, peer):
    if family == socket.AF_INET6 and not os.path.exists("/proc/net/if_inet6"):
        pytest.skip("no IPv6 on this machine")
    with listener(listen, only_ipv6=listen != "::") as server:
        port = server.getsockname()[1]
        assert established([port]) == []
        with socket.create_connection((connect, port)) as client:
            accepted, _address = server.accept()
            assert established([port]) == [{"port": port, "peer": peer, "count": 1}]
            # Closed by this side first, which leaves the connection in TIME_WAIT here.
            accepted.close()
            client.recv(1)
        assert established([port]) == []


def test_the_kernels_tables_are_the_default():
    assert (_connections.TABLE_V4, _connections.TABLE_V6) == ("/proc/net/tcp", "/proc/net/tcp6")
