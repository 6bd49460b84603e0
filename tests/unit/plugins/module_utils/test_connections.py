# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys

import pytest
from ansible_collections.graceful.azure.plugins.module_utils import _connection_tracking
from ansible_collections.graceful.azure.plugins.module_utils._connections import ConnectionsError, counted, parse_address, parse_table, udp_among
from ansible_collections.graceful.azure.plugins.module_utils._pools import Pool, not_in_pools

from tests.support.ports import listener

HEADING = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def kernel_address(address, port):
    """An address as the kernel of this machine prints it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    packed = socket.inet_pton(family, address)
    words = struct.unpack("=%dI" % (len(packed) // 4), packed)
    return "".join("%08X" % word for word in words) + ":%04X" % port


def line(local, remote, state="01", unsent=0):
    return "   0: %s %s %s %08X:00000000 00:00000000 00000000  1000        0 12345 1 0000 20 4 30 10 -1\n" % (
        kernel_address(*local),
        kernel_address(*remote),
        state,
        unsent,
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
    assert parse_table(table(line((local, 8080), (remote, 40000))), {8080}).connections == [(8080, peer, 40000)]


def test_only_the_local_port_counts():
    text = table(line(("10.0.0.5", 40000), ("10.0.0.7", 8080)), line(("10.0.0.5", 8081), ("10.0.0.7", 40001)))
    assert parse_table(text, {8080}).connections == []


@pytest.mark.parametrize(("state", "unsent"), [("01", 0), ("03", 0), ("08", 0), ("04", 1), ("09", 70000), ("0B", 1)])
def test_who_waits_for_an_answer_counts(state, unsent):
    # 03 is SYN_RECV: the client may have sent its request, and the queue of the application is full. 08 is CLOSE_WAIT: the client has sent its request
    # and closed its own side. In 04 (FIN_WAIT1), 09 (LAST_ACK) and 0B (CLOSING) the application has closed, and the kernel still sends.
    assert parse_table(table(line(("10.0.0.5", 8080), ("10.0.0.7", 40000), state, unsent)), {8080}).connections == [(8080, "10.0.0.7", 40000)]


@pytest.mark.parametrize("state", ["02", "04", "05", "06", "07", "09", "0A", "0B", "0C"])
def test_no_other_connections_count(state):
    # 06 is TIME_WAIT, 0A is LISTEN. What 04, 09 and 0B have sent was acknowledged.
    assert parse_table(table(line(("10.0.0.5", 8080), ("10.0.0.7", 40000), state)), {8080}).connections == []


def test_an_empty_table():
    assert parse_table("", {8080}) == parse_table(HEADING, {8080}) == ([], {})


@pytest.mark.parametrize("bad", ["nonsense", "0: 0100007F:1F90 0100007F", "0: 0100007F:xx 0100007F:1F90 01", "0: 0100007F:1F90 0100007F0100007F:1F90 01"])
def test_a_line_that_makes_no_sense_is_an_error(bad):
    with pytest.raises(ConnectionsError, match="cannot be understood"):
        parse_table(HEADING + bad + "\n", {8080})


@pytest.fixture(name="proc")
def make_proc(tmp_path):
    """A folder like /proc, with tables of the test's making."""

    def write(**files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return str(tmp_path)

    return write


def listens(address, port):
    return line((address, port), ("::" if ":" in address else "0.0.0.0", 0), "0A")


def uncounted(proc, *ports):
    """Why each of these ports cannot be counted, and whether that is because nobody listens."""
    return {each["port"]: (each["why"], each["unheard"]) for each in counted(ports, proc).uncounted}


def test_connections_are_counted_by_port_and_peer(proc):
    seen = counted(
        [80, 443],
        proc(
            net__tcp=table(line(("10.0.0.5", 80), ("10.0.0.7", 4000)), line(("10.0.0.5", 80), ("10.0.0.7", 4001)), line(("10.0.0.5", 443), ("10.0.0.8", 4002))),
            net__tcp6=table(line(("::ffff:10.0.0.5", 80), ("::ffff:10.0.0.7", 4003)), line(("2001:db8::5", 80), ("2001:db8::7", 4004))),
        ),
    )
    assert seen.connections == [
        {"port": 80, "peer": "10.0.0.7", "count": 3},
        {"port": 80, "peer": "2001:db8::7", "count": 1},
        {"port": 443, "peer": "10.0.0.8", "count": 1},
    ]


def test_a_kernel_without_ipv6(proc):
    seen = counted([80], proc(net__tcp=table(line(("10.0.0.5", 80), ("10.0.0.7", 4000)), listens("0.0.0.0", 80))))
    assert seen == ([{"port": 80, "peer": "10.0.0.7", "count": 1}], [])


def test_no_table_at_all(tmp_path):
    with pytest.raises(ConnectionsError, match="Linux only"):
        counted([80], str(tmp_path))


def test_a_table_that_cannot_be_read(tmp_path):
    (tmp_path / "net" / "tcp").mkdir(parents=True)
    with pytest.raises(ConnectionsError, match="cannot be read: Is a directory"):
        counted([80], str(tmp_path))


@pytest.mark.parametrize("address", ["0.0.0.0", "10.0.0.5", "127.0.0.1", "::", "::1", "::ffff:10.0.0.5", "2001:db8::5"])
def test_whoever_listens_wherever_is_heard(proc, address):
    name = "net__tcp6" if ":" in address else "net__tcp"
    assert uncounted(proc(**dict({"net__tcp": table()}, **{name: table(listens(address, 80))})), 80) == {}


def test_a_port_on_which_nobody_listens_cannot_be_counted(proc):
    tables = proc(net__tcp=table(listens("0.0.0.0", 8080)), net__udp=table(), net__udp6=table(line(("::", 443), ("::", 0), "07")))
    assert uncounted(tables, 8080, 8081, 443) == {
        8081: ("nobody listens on it, and no connection to it is forwarded elsewhere", True),
        443: ("it is a UDP port, and only TCP is counted", True),
    }


def test_ports_to_which_clients_may_come_over_udp(proc):
    tables = proc(net__udp=table(line(("127.0.0.1", 53), ("0.0.0.0", 0), "07")), net__udp6=table(line(("::", 443), ("::", 0), "07")))
    assert udp_among([443, 8080, 53], tables) == [53, 443]


def test_the_file_of_the_connection_tracking(proc, monkeypatch):
    def refuse():
        raise _connection_tracking.TrackingError("Operation not permitted")

    monkeypatch.setattr(_connection_tracking, "_dump", refuse)
    lines = [
        "ipv4     2 tcp      6 431999 ESTABLISHED src=10.0.0.9 dst=10.0.0.5 sport=4000 dport=80 src=172.30.0.2 dst=10.0.0.9 sport=8080 dport=4000"
        " [ASSURED] mark=0 zone=0 use=2",
        # With counters, forwarded by a short cut, not answered yet, and IPv6.
        "ipv4     2 tcp      6 100 TIME_WAIT src=10.0.0.9 dst=10.0.0.5 sport=4001 dport=80 packets=6 bytes=400 src=172.30.0.2 dst=10.0.0.9 sport=8080"
        " dport=4001 packets=4 bytes=300 [ASSURED] mark=0 zone=0 use=2",
        "ipv4     2 tcp      6 src=10.0.0.9 dst=10.0.0.5 sport=4002 dport=80 src=172.30.0.2 dst=10.0.0.9 sport=8080 dport=4002 [OFFLOAD] mark=0 use=3",
        "ipv4     2 tcp      6 118 SYN_SENT src=10.0.0.9 dst=10.0.0.5 sport=4003 dport=80 [UNREPLIED] src=172.30.0.2 dst=10.0.0.9 sport=8080 dport=4003 use=2",
        "ipv6     10 tcp      6 59 CLOSE_WAIT src=2001:db8::9 dst=2001:db8::5 sport=4004 dport=80 src=fd00::2 dst=2001:db8::9 sport=8080 dport=4004 use=2",
        # The host's own sockets have this one, this is not TCP, of another port, and the host is the client.
        "ipv4     2 tcp      6 431999 ESTABLISHED src=10.0.0.9 dst=10.0.0.5 sport=4005 dport=80 src=10.0.0.5 dst=10.0.0.9 sport=80 dport=4005 use=2",
        "ipv4     2 udp      17 30 src=10.0.0.9 dst=10.0.0.5 sport=4006 dport=80 src=172.30.0.2 dst=10.0.0.9 sport=8080 dport=4006 use=2",
        "ipv4     2 tcp      6 431999 ESTABLISHED src=10.0.0.9 dst=10.0.0.5 sport=80 dport=81 src=172.30.0.2 dst=10.0.0.9 sport=8080 dport=80 use=2",
        "ipv4     2 tcp      6 431999 ESTABLISHED src=10.0.0.5 dst=10.96.0.1 sport=4007 dport=80 src=10.0.0.7 dst=10.0.0.5 sport=6443 dport=4007 use=2",
    ]
    tables = proc(
        net__nf_conntrack="\n".join(lines) + "\n",
        sys__net__netfilter__nf_conntrack_count="9\n",
        net__fib_trie="Main:\n     |-- 10.0.0.5\n        /32 host LOCAL\n",
    )
    assert [tuple(each) for each in _connection_tracking.forwarded([80], tables)] == [
        (80, "10.0.0.9", 4000, 3, 431999, "10.0.0.5"),
        (80, "10.0.0.9", 4001, 7, 100, "10.0.0.5"),
        (80, "10.0.0.9", 4002, 3, 0, "10.0.0.5"),
        (80, "10.0.0.9", 4003, 1, 118, "10.0.0.5"),
        (80, "2001:db8::9", 4004, 5, 59, "2001:db8::5"),
    ]
    with pytest.raises(_connection_tracking.TrackingError, match="not permitted"):
        _connection_tracking.forwarded([80], proc(net__nf_conntrack=""))


def attribute(kind, content):
    return struct.pack("=HH", 4 + len(content), kind) + content + bytes(-len(content) % 4)


def one_way(source, destination, source_port, port):
    """One direction of a TCP connection, as the kernel tells it by netlink."""
    addresses = attribute(1, attribute(1, bytes(source)) + attribute(2, bytes(destination)))
    ports = attribute(1, b"\6") + attribute(2, source_port.to_bytes(2, "big")) + attribute(3, port.to_bytes(2, "big"))
    return addresses + attribute(2, ports)


def test_what_is_forwarded_by_a_short_cut_is_in_use(proc, monkeypatch):
    """Of a connection in a flowtable of nftables, the kernel tells neither the time nor the state by netlink, either."""
    ends = attribute(1, one_way((10, 0, 0, 9), (10, 0, 0, 5), 4002, 80)) + attribute(2, one_way((172, 30, 0, 2), (10, 0, 0, 9), 8080, 4002))
    told = [ends, ends + attribute(4, attribute(1, attribute(1, b"\7"))) + attribute(7, (100).to_bytes(4, "big"))]
    monkeypatch.setattr(_connection_tracking, "_dump", lambda: told)
    seen = _connection_tracking.forwarded([80], proc(sys__net__netfilter__nf_conntrack_count="9\n", net__fib_trie="Main:\n"))
    assert [(each.state, each.left, each.is_open) for each in seen] == [(3, 0, True), (7, 100, False)]


@pytest.mark.parametrize(("interface", "default", "count"), [("lo", "eth0", 0), ("lo", "lo", 1), ("eth0", "eth0", 1)])
def test_a_pod_is_no_client_of_the_host(proc, monkeypatch, interface, default, count):
    """It is connected to the address of a service of its cluster, on a port that the host has, too. Others may come to such an address from outside."""
    line = "ipv4     2 tcp      6 431999 ESTABLISHED src=10.42.0.5 dst=10.43.0.1 sport=4000 dport=443 src=10.0.0.5 dst=10.42.0.5 sport=6443 dport=4000 use=2\n"
    monkeypatch.setattr(_connection_tracking, "_dump", list)
    monkeypatch.setattr(_connection_tracking, "_told", lambda _messages, _ports: list(_connection_tracking._written(line)))
    network, mask = (int.from_bytes(bytes(numbers), sys.byteorder) for numbers in ((10, 42, 0, 0), (255, 255, 255, 0)))
    tables = proc(
        sys__net__netfilter__nf_conntrack_count="9\n",
        net__fib_trie="Main:\n     |-- 10.0.0.5\n        /32 host LOCAL\n",
        net__route="Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
        f"{default} 00000000 0100000A 0003 0 0 0 00000000 0 0 0\n{interface} {network:08X} 00000000 0001 0 0 0 {mask:08X} 0 0 0\n",
    )
    assert len(_connection_tracking.forwarded([443], tables)) == count


@pytest.mark.parametrize(("interface", "default", "count"), [("lo", "eth0", 0), ("lo", "lo", 1), ("eth0", "eth0", 1)])
def test_a_pod_with_an_ipv6_address_is_no_client_of_the_host(proc, monkeypatch, interface, default, count):
    line = "ipv6     10 tcp      6 59 ESTABLISHED src=fd00:42::5 dst=fd00:43::1 sport=4000 dport=443 src=fd00:1::7 dst=fd00:42::5 sport=6443 dport=4000 use=2\n"
    monkeypatch.setattr(_connection_tracking, "_dump", list)
    monkeypatch.setattr(_connection_tracking, "_told", lambda _messages, _ports: list(_connection_tracking._written(line)))

    def route(network, length, flags, name):
        digits = socket.inet_pton(socket.AF_INET6, network).hex()
        return f"{digits} {length:02x} {'0' * 32} 00 {'0' * 32} 00000100 00000001 00000000 {flags} {name}\n"

    # The kernel's own routes refuse the rest, and lead to the host's addresses. Only those of packets to others tell where a pod is.
    routes = route("fd00:42::", 64, "00000001", interface) + route("::", 0, "00000003", default) + route("::", 0, "00200200", "lo")
    routes += route("fd00:42::5", 128, "80200001", "eth1")
    tables = proc(sys__net__netfilter__nf_conntrack_count="9\n", net__fib_trie="Main:\n", net__ipv6_route=routes)
    assert len(_connection_tracking.forwarded([443], tables)) == count


class TestForwarded:
    """The kernel forwards connections, and whether its connection tracking can be read."""

    TRACKED = _connection_tracking.Forwarded(80, "10.0.0.9", 4000, 3, 431999, "10.0.0.4")

    @pytest.fixture(autouse=True)
    def _track(self, monkeypatch):
        self.told = [self.TRACKED]

        def forwarded(ports, proc):
            if isinstance(self.told, str):
                raise _connection_tracking.TrackingError(self.told)
            return self.told

        monkeypatch.setattr(_connection_tracking, "forwarded", forwarded)

    def test_what_is_forwarded_counts_though_somebody_else_listens(self, proc):
        # Such as docker-proxy, which serves the host alone.
        seen = counted([80], proc(net__tcp=table(listens("0.0.0.0", 80), line(("10.0.0.5", 80), ("10.0.0.7", 4001)))))
        assert seen == ([{"port": 80, "peer": "10.0.0.7", "count": 1}, {"port": 80, "peer": "10.0.0.9", "count": 1}], [])

    def test_a_forwarded_port_needs_no_listener(self, proc):
        seen = counted([80], proc(net__tcp=table()))
        assert seen == ([{"port": 80, "peer": "10.0.0.9", "count": 1}], [])
        self.told = [self.TRACKED._replace(state=_connection_tracking.TIME_WAIT)]
        assert counted([80], proc(net__tcp=table())) == ([], [])

    def test_what_cannot_be_read_is_not_idle(self, proc):
        self.told = "Operation not permitted"
        tables = proc(net__tcp=table(listens("0.0.0.0", 80), listens("127.0.0.1", 81)), sys__net__ipv4__conf__all__forwarding="1\n")
        why = "it may be forwarded elsewhere, and the kernel's connection tracking cannot be read (Operation not permitted):"
        why += " it needs root, and CAP_NET_ADMIN in a container"
        assert uncounted(tables, 80, 81, 82) == {
            80: (why, False),
            # Whoever connects to a loopback address is on this machine, so 81 can be counted.
            82: ("nobody listens on it, and only root can tell whether it is forwarded elsewhere", True),
        }

    @pytest.mark.parametrize("family", ["ipv4", "ipv6"])
    def test_a_host_that_forwards_nothing_needs_no_tracking(self, proc, family):
        self.told = "Operation not permitted"
        assert uncounted(proc(**{"net__tcp": table(listens("0.0.0.0", 80)), f"sys__net__{family}__conf__eth0__forwarding": "0\n"}), 80) == {}
        assert set(uncounted(proc(**{f"sys__net__{family}__conf__eth0__forwarding": "1\n"}), 80)) == {80}

    @pytest.mark.parametrize(("module", "known"), [("xt_REDIRECT", False), ("nft_redir", False), ("nft_nat", False), ("nf_nat", True), ("nft_reject", True)])
    def test_what_is_led_to_another_port_here_needs_no_forwarding(self, proc, module, known):
        """Nobody but root sees that a client of port 80 is connected to port 8080, though somebody listens on port 80, too."""
        self.told = "Operation not permitted"
        modules = "nf_conntrack 1 1 - Live 0x0\n%s 16384 1 - Live 0x0000000000000000\n" % module
        tables = proc(net__tcp=table(listens("0.0.0.0", 80)), sys__net__ipv4__conf__eth0__forwarding="0\n", modules=modules)
        assert (uncounted(tables, 80) == {}) is known

    def test_ipvs_without_tracking(self, proc):
        self.told = []
        services = "IP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\nTCP  0A000005:0050 rr\nUDP  0A000005:0051 rr\n"
        tables = proc(net__tcp=table(listens("0.0.0.0", 80), listens("0.0.0.0", 81)), net__ip_vs=services, sys__net__ipv4__vs__conntrack="0\n")
        assert {port: unheard for port, (_why, unheard) in uncounted(tables, 80, 81).items()} == {80: False}
        assert uncounted(proc(sys__net__ipv4__vs__conntrack="1\n"), 80, 81) == {}


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
        assert counted([port]) == ([], [])
        with socket.create_connection((connect, port)) as client:
            accepted, _address = server.accept()
            assert counted([port]).connections == [{"port": port, "peer": peer, "count": 1}]
            # Closed by this side first, which leaves the connection in TIME_WAIT here.
            accepted.close()
            client.recv(1)
        assert counted([port]) == ([], [])
    assert [each["unheard"] for each in counted([port]).uncounted] == [True]


def test_an_answer_that_the_kernel_still_sends_counts():
    """The application has written its answer and closed. The client reads slowly."""
    with listener() as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted, _address = server.accept()
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            accepted.setblocking(False)
            sent = 0
            with contextlib.suppress(BlockingIOError):
                while True:
                    sent += accepted.send(b"x" * 65536)
            accepted.close()
            assert counted([port]).connections == [{"port": port, "peer": "127.0.0.1", "count": 1}]
            while client.recv(1 << 20):
                pass
        assert sent > 65536 and counted([port]).connections == []


def test_a_handshake_that_waits_for_the_application_counts():
    """The application has stopped accepting. The client is connected, and may have sent its request."""
    with listener() as server:
        server.listen(0)
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)), socket.socket() as late:
            late.setblocking(False)
            late.connect_ex(("127.0.0.1", port))
            assert counted([port]).connections[0]["count"] >= 1


def test_what_is_in_none_of_the_pools():
    connections = [
        {"port": 80, "peer": "10.0.0.4", "count": 3, "peer_ports": [1, 2, 3]},
        {"port": 443, "peer": "10.0.0.4", "count": 2, "peer_ports": [4, 5]},
        {"port": 80, "peer": "10.0.0.9", "count": 1},
    ]

    def counts(*pools):
        return [(other["port"], other["peer"], other["count"]) for other in not_in_pools(connections, pools)]

    assert counts() == [(80, "10.0.0.4", 3), (443, "10.0.0.4", 2), (80, "10.0.0.9", 1)]
    assert counts(Pool("10.0.0.4"), Pool("10.0.0.9", [7])) == []  # nobody has told from which ports the last one comes
    # Two balancers on one machine, and a pool that has lost a connection since.
    assert counts(Pool("10.0.0.4", [1, 3, 9]), Pool("10.0.0.4", [5])) == [(80, "10.0.0.4", 1), (443, "10.0.0.4", 1), (80, "10.0.0.9", 1)]
    assert counts(Pool("10.0.0.4", None, 4), Pool("10.0.0.9", None, 0)) == [(443, "10.0.0.4", 1), (80, "10.0.0.9", 1)]
    # A number of connections to a port says nothing about those to another, or to one that is not counted.
    assert counts(Pool("10.0.0.4", None, 5, 80)) == [(443, "10.0.0.4", 2), (80, "10.0.0.9", 1)]
    assert counts(Pool("10.0.0.4", None, 5, 8080)) == counts()
    # Nor do the ports from which they come. Where its port is translated on the way, it is known by these all the same.
    connections[1]["peer_ports"] = [1, 5]
    assert counts(Pool("10.0.0.4", [1], None, 80)) == [(80, "10.0.0.4", 2), (443, "10.0.0.4", 2), (80, "10.0.0.9", 1)]
    assert counts(Pool("10.0.0.4", [5], None, 8443)) == [(80, "10.0.0.4", 3), (443, "10.0.0.4", 1), (80, "10.0.0.9", 1)]
    connections[1]["peer_ports"] = [4, 5]
    assert counts(Pool("10.0.0.4", None, 2, 80), Pool("10.0.0.4", None, 2)) == [(443, "10.0.0.4", 1), (80, "10.0.0.9", 1)]
    assert counts(Pool("10.0.0.4", [1, 2]), Pool("10.0.0.4", None, 2)) == [(443, "10.0.0.4", 1), (80, "10.0.0.9", 1)]


def test_a_connection_that_the_kernel_lists_twice_counts_once():
    """If others come and go while the table is read, a line may come again."""
    once, elsewhere = line(("10.0.0.5", 8080), ("10.0.0.7", 40000)), line(("10.0.0.6", 8080), ("10.0.0.7", 40000))
    assert parse_table(table(once, elsewhere, once), {8080}).connections == [(8080, "10.0.0.7", 40000)] * 2
