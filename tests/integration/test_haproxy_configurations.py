# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""HAProxy as people configure it: one configuration each, with requests through it, and what is promised for it.

tests/matrix runs this file with other versions of HAProxy. Where a version lacks a feature the test says what that
version does instead.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import subprocess
import threading

import pytest

from tests.support.haproxy import PROGRAM, Haproxy
from tests.support.module import run_module
from tests.support.patience import patient, until
from tests.support.ports import free_port
from tests.support.slow_web import SlowWeb


def version_of_the_program():
    said = subprocess.run([PROGRAM, "-v"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return tuple(map(int, re.search(r"version (\d+)\.(\d+)", said).groups()))


CLIENTS = ["client-%d" % number for number in range(24)]


class Balancer:
    """A HAProxy before web1, web2 and web3. In the configuration {web1} stands for the address of that web server."""

    def __init__(self, folder, sections, more="", **how):
        self.state_dir = str(folder / "state")
        self.web = {name: SlowWeb(name) for name in ("web1", "web2", "web3")}
        self.port = free_port()
        self._threads = []
        try:
            addresses = {name: "127.0.0.1:%d" % web.port for name, web in self.web.items()}
            self.haproxy = Haproxy(folder, sections.format(front="127.0.0.1:%d" % self.port, **addresses), more, **how)
        except BaseException:
            self._close_webs()
            raise
        self.version = version_of_the_program()

    def get(self, path="/", **headers):
        """(name of the server that answered, cookie)."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        with contextlib.closing(client):
            client.request("GET", path, headers=headers)
            answer = client.getresponse()
            return answer.read().decode(), (answer.getheader("Set-Cookie") or "").partition(";")[0]

    def servers_of(self, header, values):
        return {value: self.get(**{header: value})[0] for value in values}

    def in_background(self, path="/slow"):
        thread = threading.Thread(target=self.get, args=(path,))
        thread.start()
        self._threads.append(thread)

    def module(self, name, **options):
        result = run_module(name, dict(options, socket=self.haproxy.socket, state_dir=self.state_dir))
        if result.get("failed"):
            raise AssertionError(result["msg"])
        return result

    def hold(self, server="web1", **options):
        return self.module("haproxy_hold", server=server, event_ids=["A"], **options)

    def release(self, server="web1"):
        """As the module's own example: where the backend has checks, it waits until they pass."""
        result = self.module("haproxy_hold", server=server, state="absent")
        assert result["waiting_for"] == []
        return result

    def info(self, **options):
        return self.module("haproxy_info", servers=["web1"], **options)

    def server(self, name="web1", backend="www"):
        return next(one for one in self.info()["servers"] if (one["backend"], one["server"]) == (backend, name))

    def until(self, condition):
        until(condition, 10, lambda: self.info()["servers"])

    def close(self):
        for web in self.web.values():
            web.go.set()
        for thread in self._threads:
            thread.join(patient(20))
        self.haproxy.stop()
        self._close_webs()

    def _close_webs(self):
        for web in self.web.values():
            web.close()


@pytest.fixture
def balancer(tmp_path):
    with contextlib.ExitStack() as stack:

        def start(*arguments, **how):
            one = Balancer(tmp_path, *arguments, **how)
            stack.callback(one.close)
            return one

        yield start


FRONT = "frontend in\n  bind {front}\n  default_backend www\n"
THREE = "  server web1 {web1}\n  server web2 {web2}\n  server web3 {web3}\n"


def admin_states(result):
    return {server["backend"]: server["admin_state"] for server in result["servers"]}


class TestKnownClients:
    """Promised: a server that known clients come back to goes to maintenance, and they are served elsewhere."""

    @pytest.mark.parametrize(
        "sections",
        [
            FRONT + "backend www\n  stick-table type string len 32 size 1k expire 1m\n  stick on hdr(client)\n" + THREE,
            FRONT + "backend table\n  stick-table type string len 32 size 1k expire 1m\n" + "backend www\n  stick on hdr(client) table table\n" + THREE,
            FRONT
            + "backend www\n  stick-table type string len 32 size 1k expire 1m\n"
            + "  stick match hdr(client)\n  stick store-request hdr(client)\n"
            + THREE,
        ],
        ids=["stick on", "a table elsewhere", "match and store"],
    )
    def test_stick_tables(self, balancer, sections):
        one = balancer(sections)
        before = one.servers_of("client", CLIENTS)
        assert set(before.values()) == {"web1", "web2", "web3"}
        assert one.servers_of("client", CLIENTS) == before
        assert admin_states(one.hold()) == {"www": "maint"}
        assert set(one.servers_of("client", CLIENTS).values()) == {"web2", "web3"}
        assert one.info(timeout=10, wait_for=["web1"])["idle"]
        one.release()
        one.until(lambda: one.server()["in_service"])
        # Who came meanwhile stays where he is now; new clients come to it.
        assert "web1" in one.servers_of("client", ["new-%d" % number for number in range(24)]).values()

    @pytest.mark.parametrize("cookie", ["cookie SRV insert", "cookie SRV insert indirect nocache", "cookie SRV insert dynamic\n  dynamic-cookie-key x"])
    def test_cookies(self, balancer, cookie):
        given = ["cookie " + name if "dynamic" not in cookie else "" for name in ("a", "b", "c")]
        servers = "".join("  server web%d {web%d} %s\n" % (number, number, word) for number, word in enumerate(given, 1))
        one = balancer(FRONT + "backend www\n  %s\n" % cookie + servers)
        cookies = dict(one.get() for _request in range(12))
        assert set(cookies) == {"web1", "web2", "web3"}
        assert one.get(Cookie=cookies["web1"])[0] == "web1"
        assert admin_states(one.hold()) == {"www": "maint"}
        assert {one.get(Cookie=cookies["web1"])[0] for _request in range(6)} <= {"web2", "web3"}
        one.release()
        one.until(lambda: one.server()["in_service"])
        assert one.get(Cookie=cookies["web1"])[0] == "web1"


class TestHashes:
    """Promised: no key leads to a server that is out, and each leads back to where it led before."""

    @pytest.mark.parametrize("balance", ["balance hdr(client)", "balance hash hdr(client)", "balance uri whole"])
    @pytest.mark.parametrize("kind", ["consistent", "map-based"])
    def test_a_key_leads_back_to_its_server(self, balancer, balance, kind):
        sections = FRONT + "backend www\n  %s\n  hash-type %s\n" % (balance, kind) + THREE
        if balance.startswith("balance hash") and version_of_the_program() < (2, 6):
            with pytest.raises(AssertionError, match="only supports"):
                balancer(sections)
            return
        one = balancer(sections)

        def led():
            return {client: one.get("/" + client, client=client)[0] for client in CLIENTS}

        before = led()
        assert set(before.values()) == {"web1", "web2", "web3"}
        assert admin_states(one.hold()) == {"www": "drain"}
        meanwhile = led()
        assert set(meanwhile.values()) == {"web2", "web3"}
        if kind == "consistent":
            assert {client: name for client, name in meanwhile.items() if before[client] != "web1"} == {
                client: name for client, name in before.items() if name != "web1"
            }
        one.release()
        one.until(lambda: one.server()["in_service"])
        assert led() == before

    def test_balance_source(self, balancer):
        """All requests come from one address, and so to one server."""
        one = balancer(FRONT + "backend www\n  balance source\n  hash-type consistent\n" + THREE)
        (name,) = {one.get()[0] for _request in range(6)}
        one.hold(name)
        (other,) = {one.get()[0] for _request in range(6)}
        assert other != name
        one.release(name)
        one.until(lambda: one.server(name)["in_service"])
        assert {one.get()[0] for _request in range(6)} == {name}


class TestSlowstart:
    def test_it_counts_as_in_service_and_its_own_weight_is_kept(self, balancer):
        """Promised: its share grows as HAProxy was told; the weight that somebody set is not touched."""
        one = balancer(FRONT + "backend www\n  default-server slowstart 60s check inter 50ms rise 1 weight 50\n" + THREE)
        one.until(lambda: one.server()["status"] == "UP")
        one.haproxy.ask("set server www/web1 weight 40")
        assert admin_states(one.hold(out_state="maint")) == {"www": "maint"}
        one.release()
        one.until(lambda: one.server()["in_service"])
        seen = one.server()
        assert (seen["admin_state"], seen["weight"]) == ("ready", 40)
        assert int(one.haproxy.stat("www", "web1", "throttle")) < 100


class TestBackup:
    """Promised: backup servers serve when no other does, and do not count as servers in service."""

    BACKEND = "backend www\n  server web1 {web1}\n  server web2 {web2} backup\n  server web3 {web3} backup\n"

    def test_the_last_that_is_no_backup_goes_out(self, balancer):
        one = balancer(FRONT + self.BACKEND)
        assert {one.get()[0] for _request in range(6)} == {"web1"}
        refused = one.hold(min_in_service=1)
        assert refused["refused"] and refused["servers"][0]["admin_state"] == "ready"
        one.hold()
        assert {one.get()[0] for _request in range(6)} == {"web2"}
        one.release()
        one.until(lambda: one.server()["in_service"])
        assert {one.get()[0] for _request in range(6)} == {"web1"}

    @pytest.mark.parametrize("option", ["", "  option allbackups\n"])
    def test_a_backup_goes_out(self, balancer, option):
        one = balancer(FRONT + self.BACKEND + option)
        assert one.hold("web2", min_in_service=1)["refused"] == []
        assert {one.get()[0] for _request in range(6)} == {"web1"}
        one.hold()
        assert {one.get()[0] for _request in range(6)} == {"web3"}


class TestTrack:
    SECTIONS = (
        "frontend in\n  bind {front}\n  use_backend api if {{ path_beg /api }}\n  default_backend www\n"
        "backend www\n"
        + THREE.replace("}\n", "}} check inter 50ms\n").replace("}}", "}")
        + "backend api\n  server web1 {web1} track www/web1\n  server web2 {web2} track www/web2\n"
    )

    def test_it_goes_out_of_both_and_comes_back_to_both(self, balancer):
        one = balancer(self.SECTIONS)
        one.hold()
        assert one.server(backend="api")["admin_state"] != "ready"
        assert {one.get(path)[0] for path in ("/", "/api") * 6} <= {"web2", "web3"}
        one.release()
        one.until(lambda: one.server()["in_service"] and one.server(backend="api")["in_service"])
        assert {"web1"} <= {one.get("/api")[0] for _request in range(6)}

    def test_what_is_tracked_takes_the_other_along(self, balancer):
        """Promised: where only the tracked one is held, the other shows as out, and as no one's hold. It serves again with the tracked one."""
        one = balancer(self.SECTIONS)
        one.hold(backends=["www"])
        tracking = one.server(backend="api")
        assert (tracking["admin_state"], tracking["condition"], tracking["held_by"]) == (one.server()["admin_state"], "none", [])
        assert tracking["returns_by_itself"]
        assert {one.get("/api")[0] for _request in range(6)} == {"web2"}

    @pytest.mark.parametrize("state", ["maint", "drain"])
    def test_what_is_out_with_the_tracked_one_stays_out(self, balancer, state):
        """Somebody else had taken the tracked one out, and puts it back in the middle of the event."""
        one = balancer(self.SECTIONS)
        one.haproxy.ask(f"set server www/web1 state {state}")
        one.until(lambda: one.server(backend="api")["admin_state"] == state)
        assert one.hold(backends=["api"])["servers"][0]["condition"] == "held"
        one.haproxy.ask("set server www/web1 state ready")
        one.until(lambda: one.server()["in_service"])
        assert {one.get("/api")[0] for _request in range(6)} == {"web2"}
        one.release()
        one.until(lambda: one.server(backend="api")["in_service"])


class TestTcp:
    def test_a_connection_keeps_it_busy_until_it_ends(self, balancer):
        """Promised: a connection is a session, however little goes over it; new ones go elsewhere."""
        one = balancer(
            "frontend in\n  mode tcp\n  bind {front}\n  default_backend www\nbackend www\n  mode tcp\n  server web1 {web1}\n  server web2 {web2} backup\n"
        )
        with socket.create_connection(("127.0.0.1", one.port)) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(1000)
            one.hold()
            assert one.server()["sessions"] == 1 and not one.info(timeout=0.7)["idle"]
            assert one.get()[0] == "web2"
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(1000)
        assert one.info(timeout=10, wait_for=["web1"])["idle"]
        one.release()
        one.until(lambda: one.server()["in_service"])
        assert one.get()[0] == "web1"


class TestDynamicServers:
    """`add server` and `del server`: since 2.5, as an experiment in 2.4."""

    def test_one_is_added_while_a_hold_stands(self, balancer):
        one = balancer(FRONT + "backend www\n  balance roundrobin\n  server web1 {web1}\n  server web2 {web2}\n")
        one.hold()
        said = one.haproxy.ask("add server www/web3 127.0.0.1:%d" % one.web["web3"].port)
        if one.version < (2, 5):
            assert "Unknown command" in said
            return
        one.haproxy.ask("enable server www/web3")
        assert {one.get()[0] for _request in range(6)} == {"web2", "web3"}
        assert one.server()["condition"] == "held"
        assert one.hold("web3")["servers"][0]["condition"] == "held"
        assert {one.get()[0] for _request in range(6)} == {"web2"}
        one.release("web3")
        one.release()
        one.until(lambda: all(server["in_service"] for server in one.info()["servers"]))
        assert {one.get()[0] for _request in range(6)} == {"web1", "web2", "web3"}

    def test_one_is_deleted_while_its_hold_stands(self, balancer):
        """Promised: the hold stays known; releasing it says that there is nothing to put back."""
        one = balancer(FRONT + "backend www\n  balance roundrobin\n  server web1 {web1}\n  server web2 {web2}\n")
        one.hold(out_state="maint")
        said = one.haproxy.ask("del server www/web1")
        if one.version < (2, 5):
            assert "Unknown command" in said
            return
        assert "deleted" in said
        seen = one.info()
        assert seen["missing"] == ["web1"] and [record["subject"]["server"] for record in seen["holds"]] == ["web1"]
        released = one.release()
        assert released["conflicts"] == ["www/web1 is no longer in HAProxy: the hold on it was dropped."]
        assert one.info()["holds"] == []

    def test_one_is_deleted_and_comes_back_while_its_hold_stands(self, balancer):
        """Promised: a new server begins in maintenance, as HAProxy has it; it is not in rotation before the hold is released."""
        one = balancer(FRONT + "backend www\n  balance roundrobin\n  server web1 {web1}\n  server web2 {web2}\n")
        one.hold(out_state="maint")
        said = one.haproxy.ask("del server www/web1")
        if one.version < (2, 5):
            assert "Unknown command" in said
            return
        one.haproxy.ask("add server www/web1 127.0.0.1:%d" % one.web["web1"].port)
        assert one.hold(out_state="maint")["servers"][0]["condition"] == "held"
        assert {one.get()[0] for _request in range(6)} == {"web2"}
        one.release()
        one.until(lambda: one.server()["in_service"])
        assert {one.get()[0] for _request in range(6)} == {"web1", "web2"}

    def test_the_new_one_is_somebody_elses_where_the_hold_had_left_drain(self, balancer):
        """Promised: nothing is sent to it. Its maintenance was not set by the hold, so it is reported and stays."""
        one = balancer(FRONT + "backend www\n  balance roundrobin\n  server web1 {web1}\n  server web2 {web2}\n")
        one.hold()
        one.haproxy.ask("set server www/web1 state maint")
        if "deleted" not in one.haproxy.ask("del server www/web1"):
            assert one.version < (2, 5)
            return
        one.haproxy.ask("add server www/web1 127.0.0.1:%d" % one.web["web1"].port)
        again = one.hold()
        assert (again["servers"][0]["condition"], len(again["conflicts"])) == ("changed_meanwhile", 1)
        assert len(one.release()["conflicts"]) == 1 and one.server()["admin_state"] == "maint"
        assert {one.get()[0] for _request in range(6)} == {"web2"}


class TestThreadsAndProcesses:
    def test_several_threads(self, balancer):
        """Promised: the sessions of all threads count."""
        one = balancer(FRONT + "backend www\n  server web1 {web1}\n  server web2 {web2} backup\n", "  nbthread 4\n")
        assert "Nbthread: 4" in one.haproxy.ask("show info")
        for _request in range(12):
            one.in_background()
        one.until(lambda: one.server()["sessions"] == 12)
        one.hold()
        assert not one.info(timeout=0.7)["idle"]
        assert one.get()[0] == "web2"
        one.web["web1"].go.set()
        assert one.info(timeout=10, wait_for=["web1"])["idle"]

    def test_several_processes(self, balancer):
        """Promised: refused by name. Each process has servers of its own, and the socket leads to one of them."""
        sections = FRONT + "backend www\n  server web1 {web1}\n"
        if version_of_the_program() >= (2, 5):
            with pytest.raises(AssertionError, match="nbproc"):
                balancer(sections, "  nbproc 2\n", master=True)
            return
        one = balancer(sections, "  nbproc 2\n", master=True)
        for name, options in (("haproxy_info", {"servers": ["web1"]}), ("haproxy_hold", {"server": "web1", "event_ids": ["A"]})):
            with pytest.raises(AssertionError, match=r"runs as 2 processes \(nbproc\), each with servers of its own"):
                one.module(name, **options)
