# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""haproxy_info against a real HAProxy, with requests under way."""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.client
import os
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest
from ansible_collections.graceful.azure.plugins.module_utils import _haproxy, _haproxy_configuration, _haproxy_former_processes, _hold_records
from ansible_collections.graceful.azure.plugins.module_utils._connections import counted
from ansible_collections.graceful.azure.plugins.module_utils._duties import haproxy as haproxy_duty
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_former_processes import answering_processes
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_servers import HaproxyError, source_address
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import HoldError

from tests.support.calls import call, hold_server
from tests.support.haproxy import Haproxy
from tests.support.meanwhile import Meanwhile
from tests.support.module import run_module
from tests.support.patience import patient, until
from tests.support.ports import free_port, listener
from tests.support.processes import children, commands
from tests.support.slow_web import SlowWeb

# Some of it runs as another user.
OPEN_TO_ALL = True


@pytest.fixture
def web():
    web = SlowWeb()
    yield web
    web.close()


class Balancer:
    """A HAProxy with one server at ``web``, and clients of it."""

    def __init__(self, folder, web, options="", backend="", frontend="", sections="", **more):
        self.port = free_port()
        self.folder = folder
        self.state_dir = str(folder / "state")
        sections = sections + (
            "frontend in\n  bind 127.0.0.1:%d\n%s  default_backend www\n"
            "backend www\n%s  server web1 127.0.0.1:%d %s\n  server web2 127.0.0.1:1 disabled\n" % (self.port, frontend, backend, web.port, options)
        )
        self.haproxy = Haproxy(folder, sections, **more)
        self._clients = []

    def get(self, path):
        """Ask in the background; the status comes with the returned function."""
        answer = []

        def ask():
            client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
            with contextlib.closing(client):
                client.request("GET", path)
                answer.append(client.getresponse().status)

        thread = threading.Thread(target=ask)
        thread.start()
        self._clients.append(thread)

        def status():
            thread.join(patient(30))
            return answer[0]

        return status

    def info(self, timeout=0.0, **more):
        params = {"socket": self.haproxy.socket, "servers": ["web1"], "state_dir": self.state_dir, "timeout": timeout}
        return call("haproxy_info", dict(params, **more))

    def hold(self, state="present", **more):
        return hold_server(self.haproxy.socket, self.folder, state=state, params={"reason": "", **more})

    def until(self, condition):
        until(lambda: condition(self.server()), 10, self.server)

    def until_accepted(self, clients):
        """Until HAProxy has so many clients. Those that connect are none before it knows them."""
        until(lambda: self.haproxy.stat("in", "FRONTEND", "scur") == str(clients), 10)

    def server(self, name="web1"):
        return {server["server"]: server for server in self.info()["servers"]}[name]

    def close(self):
        self.haproxy.stop()
        for client in self._clients:
            client.join(patient(30))


@pytest.fixture
def balancer(tmp_path, web):
    balancers = []

    def start(*arguments, **more):
        balancers.append(Balancer(tmp_path, web, *arguments, **more))
        return balancers[-1]

    yield start
    web.go.set()
    for one in balancers:
        one.close()


class TestWhatItSees:
    def test_all_servers_of_the_backends_that_have_those_named(self, tmp_path):
        answers = listener()
        haproxy = Haproxy(
            tmp_path,
            f"backend www\n  server web1 127.0.0.1:{answers.getsockname()[1]}\n  server web2 127.0.0.2:2 backup weight 7\n"
            "backend other\n  server db 127.0.0.1:3\n"
            "backend sticky\n  cookie S insert\n  server web1 127.0.0.1:4 cookie a\n",
        )
        try:
            params = {"socket": haproxy.socket, "servers": ["web1", "web9"], "state_dir": str(tmp_path / "state"), "timeout": 0.0, "wait_for": None}
            seen = call("haproxy_info", params)
            as_user = call("haproxy_info", dict(params, socket=haproxy.user_socket))
        finally:
            haproxy.stop()
            answers.close()
        assert seen["backends"] == [{"backend": "www", "sticky": False}, {"backend": "sticky", "sticky": True}]
        assert [(s["backend"], s["server"]) for s in seen["servers"]] == [("www", "web1"), ("www", "web2"), ("sticky", "web1")]
        assert seen["known_servers"] == ["other/db", "sticky/web1", "www/web1", "www/web2"]
        assert seen["missing"] == ["web9"] and not seen["idle"] and seen["holds"] == [] and seen["state_dir_problem"] is None
        assert seen["level"] == "admin" and as_user["level"] == "user"
        assert seen["servers"][1] == {
            "backend": "www",
            "server": "web2",
            "address": "127.0.0.2",
            "port": 2,
            "source_address": None,
            "connections": 0,
            "own_ports": None,
            "shared": [],
            "beside": 0,
            "nothing_comes": False,
            "retries": 0,
            "admin_state": "ready",
            "operational": "up",
            "backup": True,
            "in_service": False,
            # Nobody checks it, and nothing listens there.
            "silent": "port 2 of 127.0.0.2: Connection refused",
            "unsure": None,
            "unresolved": False,
            "returns_by_itself": False,
            "returns_by_agent": False,
            "checked": False,
            "process_noted": True,
            "noted": True,
            "restoring": False,
            "awaits_sessions": False,
            "status": "no check",
            "weight": 7,
            "sessions": 0,
            "queue": 0,
            "uncounted": None,
            "total_sessions": 0,
            "arrived": None,
            "quiet_for": 0.0,
            "agent": None,
            "idle": True,
            "condition": "none",
            "found": None,
            "left": None,
            "held_by": [],
            "leads_to": None,
            "for_server": None,
        }
        assert not (tmp_path / "state").exists()

    def test_what_takes_no_traffic_is_not_in_service(self, balancer):
        one = balancer("check inter 100ms fall 1 rise 1")
        assert one.server()["in_service"] and not one.server("web2")["in_service"]
        one.haproxy.ask("set server www/web1 weight 0")
        assert not one.server()["in_service"]
        one.haproxy.ask("set server www/web1 weight 1")
        # Or the next check would have it up again.
        one.haproxy.ask("disable health www/web1")
        one.haproxy.ask("set server www/web1 health stopping")
        assert (one.server()["operational"], one.server()["in_service"]) == ("stopping", False)
        one.haproxy.ask("set server www/web1 health down")
        assert not one.server()["in_service"]

    def test_what_became_of_a_hold(self, balancer):
        one = balancer()
        assert one.server("web2")["condition"] == "already_out"
        one.hold()
        assert one.server()["condition"] == "held" and one.server()["held_by"] == ["A"]
        (record,) = one.info()["holds"]
        assert record["subject"]["server"] == "web1" and os.path.exists(record["path"])
        one.haproxy.ask("set server www/web1 state ready")
        assert one.server()["condition"] == "changed_meanwhile"
        one.haproxy.ask("set server www/web1 state drain")
        one.haproxy.reload()
        assert one.server()["condition"] == "lost" and one.server()["in_service"]
        one.hold()
        assert one.server()["condition"] == "held"

    def test_it_never_sees_a_hold_half_put(self, balancer, monkeypatch):
        """One look begins at each command and each write of a hold that is put, and of one that is released."""
        one = balancer()
        seen, looks, steps = [], [], iter(())

        def looked_at(kind, name):
            call = getattr(kind, name)

            def begin(*arguments, **more):
                if threading.current_thread() is threading.main_thread() and next(steps, False):
                    looks.append(pool.submit(lambda: one.server()["condition"]))
                    concurrent.futures.wait(looks, 0.05)
                return call(*arguments, **more)

            monkeypatch.setattr(kind, name, begin)

        looked_at(_haproxy.Haproxy, "command")
        looked_at(_hold_records.Store, "write")
        looked_at(_hold_records.Store, "delete")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            for state, other in (("present", "absent"), ("absent", "present")):
                for due in range(100):
                    steps = iter([False] * due + [True])
                    one.hold(state)
                    if not looks:
                        break
                    seen.append(looks.pop().result(patient(20)))
                    steps = iter(())
                    one.hold(other)
                assert due > 5
        assert set(seen) == {"none", "held"}

    def test_the_first_hold_of_all_is_put_just_after_the_look(self, balancer, monkeypatch):
        """Before it there is no folder that could be locked."""
        one = balancer()
        looked = []
        look = haproxy_duty.Haproxy.look

        def look_and_be_overtaken(haproxy):
            seen = look(haproxy)
            looked.append(seen)
            if len(looked) == 1:
                monkeypatch.setattr(haproxy_duty.Haproxy, "look", look)
                one.hold()
            return seen

        monkeypatch.setattr(haproxy_duty.Haproxy, "look", look_and_be_overtaken)
        assert one.server()["condition"] == "held"

    def test_a_damaged_record(self, balancer, tmp_path):
        one = balancer()
        one.hold()
        (path,) = (tmp_path / "state").iterdir()
        path.write_text("{")
        with pytest.raises(HoldError) as caught:
            one.info()
        assert str(path) in str(caught.value)

    def test_a_state_folder_that_cannot_be_written(self, balancer, tmp_path):
        """As another user, when the test runs as root."""
        one = balancer()
        state = tmp_path / "state"
        state.mkdir()
        state.chmod(0o500)
        user = 65534 if os.getuid() == 0 else None
        if user:
            os.chown(state, user, -1)
            os.chmod(one.haproxy.user_socket, 0o666)
        arguments = {"socket": one.haproxy.user_socket, "servers": ["web1"], "state_dir": str(state)}
        result = run_module("haproxy_info", arguments, user=user)
        assert result["state_dir_problem"] == (
            "The state folder %s cannot be written by user id %d. Set ansible_become: true for that machine, or name a folder that this "
            "user may write (graceful_azure_state_dir)." % (state, user or os.getuid())
        )


# Without it, HAProxy closes half of its idle connections to a server every five seconds.
KEEPS = "pool-purge-delay 1h"


class TestIdle:
    def test_a_request_under_way(self, balancer, web):
        one = balancer()
        status = one.get("/slow")
        one.until(lambda server: server["sessions"] == 1)
        one.hold()
        began = time.monotonic()
        seen = one.info(timeout=0.7)
        assert not seen["idle"] and 0.7 <= time.monotonic() - began < 3
        web.go.set()
        began = time.monotonic()
        assert one.info(timeout=patient(10.0))["idle"]
        assert 0.2 <= time.monotonic() - began < 5
        assert status() == 200

    def test_which_connections_are_its_own(self, balancer, web):
        """They are kept for the next request. Those of others on its machine are not among them."""
        one = balancer(KEEPS)
        assert one.get("/")() == 200
        assert one.server()["own_ports"] is None, "it is in rotation"
        one.hold()
        with socket.create_connection(("127.0.0.1", web.port)):
            server = one.server()
            peers = [connection["peer_ports"] for connection in counted([web.port], told_apart=["127.0.0.1"]).connections]
        assert server["idle"] and server["connections"] == 1
        assert len(server["own_ports"]["127.0.0.1"]) == 1 and len(peers[0]) == 2 and set(server["own_ports"]["127.0.0.1"]) < set(peers[0])

    def test_a_request_of_another_server_at_the_same_place(self, balancer, web):
        """It comes over a connection of HAProxy's own, as those that are only kept. The option backends may leave its backend out."""
        one = balancer(frontend="  use_backend api if { path /slow }\n", sections=f"backend api\n  server app1 127.0.0.1:{web.port}\n")
        status = one.get("/slow")
        until(lambda: {server["server"]: server["sessions"] for server in one.info()["servers"]}.get("app1") == 1, 10)
        one.hold(backends=["www"])
        assert one.server("app1")["admin_state"] == "ready"
        server = one.server()
        assert (server["sessions"], server["shared"], server["idle"]) == (0, [["api/app1", 1]], False)
        web.go.set()
        assert status() == 200
        one.until(lambda server: server["idle"] and server["shared"] == [])

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a module as another user, or make a network")
    def test_which_connections_are_its_own_cannot_be_told(self, balancer, web):
        one = balancer(KEEPS)
        assert one.get("/")() == 200
        one.hold()
        os.chmod(one.haproxy.socket, 0o666)
        for more in ({"user": 65534}, {"prefix": ("unshare", "--net")}):
            result = run_module("haproxy_info", {"socket": one.haproxy.socket, "servers": ["web1"], "state_dir": one.state_dir + "-other"}, **more)
            server = next(server for server in result["servers"] if server["server"] == "web1")
            assert (server["own_ports"], server["connections"]) == (None, 1)

    def test_two_looks_running(self, balancer):
        one = balancer()
        began = time.monotonic()
        assert one.info(timeout=60.0)["idle"]
        assert 0.2 <= time.monotonic() - began < 30
        assert not one.info(timeout=0.1)["idle"]  # too short for two

    def test_only_those_that_are_waited_for(self, balancer, web):
        one = balancer()
        status = one.get("/slow")
        one.until(lambda server: server["sessions"] == 1)
        # A server that is not there keeps nobody from waiting for another one.
        seen = one.info(timeout=10.0, servers=["web1", "web2", "web9"], wait_for=["web2"])
        assert seen["idle"] and seen["missing"] == ["web9"]
        assert {server["server"]: server["idle"] for server in seen["servers"] if server["backend"] == "www"} == {"web1": False, "web2": True}
        web.go.set()
        assert status() == 200

    def test_requests_in_its_queue(self, balancer, web):
        one = balancer("maxconn 1")
        first = one.get("/slow")
        one.until(lambda server: server["sessions"] == 1)
        one.haproxy.ask("set server www/web2 state maint")
        second = one.get("/slow")
        # A request that any server may take waits in the backend's queue, and is none of this server's.
        until(lambda: one.haproxy.stat("www", "BACKEND", "qcur") == "1", 5)
        assert not one.info()["idle"]
        web.go.set()
        assert one.info(timeout=patient(10.0))["idle"]
        assert (first(), second()) == (200, 200)

    def test_an_unknown_server_cannot_be_waited_for(self, balancer):
        with pytest.raises(HaproxyError, match="has a server 'web9'"):
            balancer().info(timeout=1.0, servers=["web9"])

    @pytest.mark.parametrize("timeout", [0.0, 1.0])
    @pytest.mark.parametrize("servers", [["web1"], ["web1", "wbe1"]])
    def test_a_slip_of_the_pen_is_no_idle_server(self, balancer, servers, timeout):
        with pytest.raises(HaproxyError, match=r"server 'wbe1' \(option wait_for\)"):
            balancer().info(timeout=timeout, servers=servers, wait_for=["wbe1"])
        assert not balancer().info(servers=["wbe1"])["idle"]

    @pytest.mark.parametrize("timeout", [-1.0, float("nan"), float("inf")])
    def test_no_number_of_seconds(self, balancer, timeout):
        with pytest.raises(ValueError, match="timeout is"):
            balancer().info(timeout=timeout)

    def test_haproxy_restarted_meanwhile(self, balancer):
        one = balancer()
        restart = threading.Timer(0.3, one.haproxy.restart)
        restart.start()
        try:
            assert one.info(timeout=patient(5.0))["idle"]
        finally:
            restart.join()


def former_processes(pid):
    return _haproxy_former_processes.former_processes(answering_processes(pid, None))


@pytest.mark.parametrize("master", [False, True], ids=["plain", "master-worker"])
class TestFormerProcess:
    def test_its_requests_count_until_they_end(self, balancer, web, master):
        one = balancer(master=master)
        one.get("/")()
        status = one.get("/slow")
        one.until(lambda server: server["sessions"] == 1)
        former = one.info()["process"]["pid"]
        one.haproxy.reload()
        current = one.info()["process"]["pid"]
        assert former in former_processes(current)
        one.haproxy.reload()
        assert former in former_processes(one.info()["process"]["pid"])
        one.hold()
        # HAProxy itself says that there is none.
        assert one.haproxy.stat("www", "web1", "scur") == "0"
        assert one.server()["sessions"] >= 1 and not one.info(timeout=1.2)["idle"]
        web.go.set()
        assert status() == 200
        assert one.info(timeout=patient(10.0))["idle"]

    def test_its_clients_count_until_they_are_gone(self, balancer, master):
        """It still has the server as ready, and sends there what they ask."""
        one = balancer(frontend="  option idle-close-on-response\n", master=master)
        with contextlib.ExitStack() as stack:
            idle, half = clients = [stack.enter_context(socket.create_connection(("127.0.0.1", one.port), 10)) for _number in range(2)]
            idle.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200" in idle.recv(4096)
            half.sendall(b"GET / HTTP/1.1\r\n")
            one.until_accepted(2)
            former = one.info()["process"]["pid"]
            one.haproxy.reload()
            one.hold()
            told = "2 clients of process %d of HAProxy from before a reload may still send requests to it" % former
            assert one.server()["uncounted"] == told
            assert not one.server()["idle"] and not one.info(timeout=1.2)["idle"]
            half.sendall(b"Host: x\r\n\r\n")
            assert b"200" in half.recv(4096)
            for client in clients:
                client.close()
            assert one.info(timeout=patient(10.0))["idle"]

    def test_clients_of_one_in_which_the_server_was_out_do_not_count(self, balancer, web, master):
        one = balancer(frontend="  option idle-close-on-response\n", master=master)
        with contextlib.closing(socket.create_connection(("127.0.0.1", one.port), 10)) as half:
            half.sendall(b"GET / HTTP/1.1\r\n")
            one.until_accepted(1)
            one.hold()
            former = one.info()["process"]["pid"]
            one.haproxy.reload()
            assert one.hold()["changed"]
            assert one.info(timeout=patient(10.0))["idle"]
            assert str(former) in map(str, former_processes(one.info()["process"]["pid"]))
            half.sendall(b"Host: x\r\n\r\n")
            assert b" 503 " in half.recv(4096)

    def test_another_haproxy_at_the_same_servers_does_not_count(self, balancer, web, master, tmp_path):
        one = balancer(master=master)
        (tmp_path / "other").mkdir()
        other = Balancer(tmp_path / "other", web, master=master)
        try:
            status = other.get("/slow")
            other.until(lambda server: server["sessions"] == 1)
            assert one.server()["sessions"] == 0
            web.go.set()
            assert status() == 200
        finally:
            other.close()


def test_a_former_process_with_another_command_line(balancer, tmp_path):
    """As after an upgrade of the program. Its clients count, and its record is known."""
    one = balancer(frontend="  option idle-close-on-response\n")
    with contextlib.closing(socket.create_connection(("127.0.0.1", one.port), 10)) as half:
        half.sendall(b"GET / HTTP/1.1\r\n")
        one.until_accepted(1)
        former = one.info()["process"]["pid"]
        one.haproxy.start("-q", "-sf", str(former))
        one.hold()
        assert one.server()["uncounted"] == "1 client of process %d of HAProxy from before a reload may still send requests to it" % former
        one.haproxy.start("-sf", str(one.info()["process"]["pid"]))
        assert one.hold()["changed"] and one.info()["other_holds"] == []
        half.sendall(b"Host: x\r\n\r\n")
        assert b" 200 " in half.recv(4096)
    assert one.info(timeout=patient(10.0))["idle"]


@pytest.mark.parametrize("put_back", [False, True])
def test_a_former_process_with_a_master_says_whether_the_server_is_out(balancer, web, put_back):
    """Somebody puts the server back right before the reload. The record does not know."""
    one = balancer(frontend="  option idle-close-on-response\n", master="socket")
    with contextlib.closing(socket.create_connection(("127.0.0.1", one.port), 10)) as half:
        half.sendall(b"GET / HTTP/1.1\r\n")
        one.until_accepted(1)
        one.hold()
        former = one.info()["process"]["pid"]
        if put_back:
            one.haproxy.ask("set server www/web1 state ready")
        one.haproxy.reload()
        assert one.hold()["changed"]
        told = "1 client of process %d of HAProxy from before a reload may still send requests to it" % former
        assert one.server()["uncounted"] == (told if put_back else None)
        assert one.info(timeout=1.2 if put_back else 10.0)["idle"] != put_back
        half.sendall(b"Host: x\r\n\r\n")
        assert (b" 200 " if put_back else b" 503 ") in half.recv(4096)


def test_a_reload_that_keeps_the_state(balancer, tmp_path):
    """load-server-state-from-file. Once the hold was seen in the new process, an operator who acts there is told from a loss."""
    states = tmp_path / "states"
    states.write_text("")
    one = balancer("", more="  server-state-file %s\n" % states, backend="  load-server-state-from-file global\n")
    one.hold()
    assert one.server()["process_noted"]
    states.write_text(one.haproxy.ask("show servers state"))
    one.haproxy.reload()
    server = one.server()
    assert (server["condition"], server["admin_state"], server["process_noted"]) == ("held", "drain", False)
    again = one.hold()
    assert not again["changed"] and one.server()["process_noted"]
    one.haproxy.ask("set server www/web1 state ready")
    server = one.server()
    assert server["condition"] == "changed_meanwhile"
    assert one.hold()["conflicts"] and one.server()["admin_state"] == "ready"


class TestFormerProcessNotCounted:
    """A long request in the former process, and something in the way of who counts."""

    @pytest.fixture
    def reloaded(self, balancer, web):
        def reloaded(reload=Haproxy.reload, **more):
            one = balancer(**more)
            one.get("/")()
            one.slow = one.get("/slow")
            one.until(lambda server: server["sessions"] == 1)
            reload(one.haproxy)
            one.hold()
            assert one.haproxy.stat("www", "web1", "scur") == "0"
            return one

        return reloaded

    @staticmethod
    def seen(one, *prefix, user=None, **more):
        arguments = {"socket": one.haproxy.socket, "servers": ["web1"], "state_dir": one.state_dir, **more}
        result = run_module("haproxy_info", arguments, user=user, prefix=prefix)
        return next(server for server in result["servers"] if server["server"] == "web1")

    def ends(self, one, web, look):
        web.go.set()
        assert one.slow() == 200
        until(lambda: look()["idle"], 20, look, pause=0.2)
        assert look()["uncounted"] is None

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a module as another user")
    @pytest.mark.parametrize("master", [False, True], ids=["plain", "master-worker"])
    def test_without_the_rights(self, reloaded, web, master):
        one = reloaded(master=master)
        os.chmod(one.haproxy.socket, 0o666)
        os.chown(one.state_dir, 65534, 65534)
        for name in os.listdir(one.state_dir):
            os.chown(os.path.join(one.state_dir, name), 65534, 65534)

        def look():
            return self.seen(one, user=65534)

        server = look()
        assert not server["idle"] and "user id 65534 may not count its connections" in server["uncounted"]
        self.ends(one, web, look)

    def test_another_name(self, reloaded, web, tmp_path):
        program = shutil.copy(shutil.which("haproxy"), tmp_path / "hapee-lb")
        one = reloaded(program=program, master=True)
        server = one.server()
        assert server["sessions"] >= 1 and "1 client of process" in server["uncounted"] and not server["idle"]
        self.ends(one, web, one.server)

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a pid namespace")
    def test_from_another_container(self, reloaded, web):
        one = reloaded()

        def look(**more):
            return self.seen(one, "unshare", "--pid", "--fork", "--mount-proc", **more)

        server = look()
        assert not server["idle"] and "cannot be seen from here" in server["uncounted"]
        web.go.set()
        assert one.slow() == 200
        assert not look()["idle"] and not look(hard_stop_after=60.0)["idle"]
        time.sleep(1.1)
        with_past = look(hard_stop_after=-10.0)
        assert with_past["idle"] and with_past["uncounted"] is None

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a pid namespace")
    def test_a_container_seen_from_outside(self, reloaded, web, tmp_path):
        inside = tmp_path / "inside"
        inside.write_text('#!/bin/sh\nexec unshare --pid --fork --mount-proc --kill-child haproxy "$@"\n')
        inside.chmod(0o755)

        def reload(haproxy):
            before = haproxy.ask("show info").split("Pid: ")[1].split()[0]
            lines = {pid: " ".join(words) for pid, words in commands().items()}
            (master,) = children(next(pid for pid, line in lines.items() if "unshare" in line and str(haproxy.folder) in line))
            os.kill(master, signal.SIGUSR2)
            until(lambda: "Pid: %s\n" % before not in haproxy.ask("show info"), 10)

        one = reloaded(reload, program=str(inside), master=True)
        assert one.info()["process"]["pid"] < 20
        server = one.server()
        assert server["sessions"] >= 1 and "1 client of process" in server["uncounted"]
        self.ends(one, web, one.server)


def test_source_address_on_a_real_network():
    """The kernel names the address that it would send from, or none where there is no way."""
    route = subprocess.run(["ip", "-4", "-o", "route", "get", "192.0.2.1"], capture_output=True, text=True, check=False)
    words = route.stdout.split()
    own = words[words.index("src") + 1] if "src" in words else None
    assert source_address("192.0.2.1", 80) == own


class Clients(Meanwhile):
    """Clients that ask every 0.2 s, one of them over one connection kept open."""

    def __init__(self, port, path="/", cookie=None):
        super().__init__()
        self._port, self._path, self._headers = port, path, {"Cookie": cookie} if cookie else {}

    def _run(self):
        while not self._ends.wait(0.2):
            client = http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)
            with contextlib.closing(client), contextlib.suppress(OSError, http.client.HTTPException):
                for _request in range(2):
                    client.request("GET", self._path, headers=self._headers)
                    client.getresponse().read()


USE_SERVER = "  use-server web1 if { path /mine }\n"
PERSIST = "  option persist\n  cookie S insert indirect nocache\n"
STICK = "  stick-table type ip size 1k\n  stick on src\n"
FORCE = "  force-persist if { path / }\n  cookie S insert indirect nocache\n"


class TestArrivals:
    """A server that is out and still gets requests is told apart from one that gets none."""

    @pytest.fixture
    def served(self, tmp_path, web):
        """HAProxy with such directives in its backend, and clients that reach web1 through them."""
        stack = contextlib.ExitStack()

        def start(directives, clients, mode="", server="", cookies=("cookie w1", "cookie w2"), **more):
            port = free_port()
            one = Balancer.__new__(Balancer)
            one.port, one.folder, one.state_dir, one._clients = port, tmp_path, str(tmp_path / "state"), []
            one.haproxy = Haproxy(
                tmp_path,
                "frontend in\n%s  bind 127.0.0.1:%d\n  default_backend www\nbackend www\n%s%s"
                "  server web1 127.0.0.1:%d %s %s\n  server web2 127.0.0.1:%d %s\n"
                % (mode, port, mode, directives, web.port, cookies[0], server, web.port, cookies[1]),
                **more,
            )
            stack.callback(one.close)
            if clients is not None:
                stack.enter_context(Clients(port, **clients))
            return one

        with stack:
            yield start

    def test_use_server_is_seen_in_the_configuration(self, served):
        one = served(USE_SERVER, {"path": "/mine"})
        assert one.hold()["servers"][0]["admin_state"] == "maint"
        assert one.info(timeout=patient(4.0), quiet=1.0)["idle"] and one.server()["arrived"] == 0

    def test_use_server_that_cannot_be_read_goes_on_to_maint(self, served, monkeypatch):
        monkeypatch.setattr("ansible_collections.graceful.azure.plugins.module_utils._haproxy_hold.backends_served_in_drain", lambda pids, known: set())
        one = served(USE_SERVER, {"path": "/mine"})
        assert one.hold()["servers"][0]["admin_state"] == "drain"
        assert not one.info(timeout=2.0, quiet=1.0)["idle"]
        # Between two requests.
        one.until(lambda server: server["arrived"] >= 4 and server["sessions"] == 0)
        held = one.hold()
        assert held["changed"] and held["servers"][0]["admin_state"] == "maint" and held["servers"][0]["condition"] == "held"
        assert one.info(timeout=patient(4.0), quiet=1.0)["idle"]
        one.hold("absent")
        assert one.server()["admin_state"] == "ready"

    def test_drain_that_the_user_chose_stays_and_is_not_idle(self, served):
        one = served(USE_SERVER, {"path": "/mine"})
        one.hold(out_state="drain")
        assert not one.info(timeout=2.0, quiet=1.0)["idle"]
        held = one.hold(out_state="drain")
        assert not held["changed"] and held["servers"][0]["admin_state"] == "drain" and held["servers"][0]["arrived"] > 0

    def test_counters_that_a_person_clears_hide_nothing(self, served):
        one = served(USE_SERVER, {"path": "/mine"})
        one.hold(out_state="drain")
        one.haproxy.ask("clear counters all")
        one.until(lambda server: server["arrived"] > 0)

    @pytest.mark.parametrize("directives", [PERSIST, FORCE], ids=["option persist", "force-persist"])
    def test_clients_that_persist_reach_it_in_maint(self, served, directives):
        one = served(directives, {"cookie": "S=w1"})
        assert one.hold()["servers"][0]["admin_state"] == "maint"
        seen = one.info(timeout=2.0, quiet=1.0)["servers"][0]
        assert not seen["idle"] and seen["arrived"] > 0
        one.until(lambda server: server["arrived"] >= 4)

    @pytest.fixture
    def loaded(self, monkeypatch):
        """The files were written just before HAProxy was started, and are taken for those that it has loaded."""
        monkeypatch.setattr(_haproxy_configuration, "OLDER", -60.0)

    @pytest.mark.parametrize(("state", "master"), [("maint", False), ("maint", True), ("drain", False), ("drain", True)])
    def test_two_idle_looks_are_enough_if_nothing_can_come(self, served, loaded, state, master):
        one = served("", {}, cookies=("", ""), master=master)
        one.hold(out_state=state)
        began = time.monotonic()
        seen = one.info(timeout=patient(5.0), quiet=600.0)
        assert seen["idle"] and seen["servers"][0]["nothing_comes"] and time.monotonic() - began >= 0.2
        assert not seen["servers"][1]["nothing_comes"], "it is in rotation"
        # A reload may have changed the configuration, and lost the hold.
        one.haproxy.reload()
        assert not one.server()["nothing_comes"]
        one.hold(out_state=state)
        assert one.server()["nothing_comes"]

    @pytest.mark.parametrize("state", ["maint", "drain"])
    def test_a_connection_that_is_tried_again_after_a_second(self, served, loaded, state):
        """HAProxy tries it at the same server, though that is out, and shows no session meanwhile."""
        one = served("  retries 100\n", None, cookies=("", ""))
        closed_port = free_port()
        one.haproxy.ask("set server www/web2 state maint")
        one.haproxy.ask("set server www/web1 addr 127.0.0.1 port %d" % closed_port)
        status = one.get("/")
        one.until(lambda server: server["retries"])
        one.hold(out_state=state)
        server = one.server()
        assert server["sessions"] == 0 and not server["nothing_comes"]
        assert not one.info(timeout=0.6, quiet=600.0)["idle"]
        with socket.create_server(("127.0.0.1", closed_port)) as late:
            late.settimeout(patient(10))
            connection = late.accept()[0]
            with connection:
                assert connection.recv(1000)
                connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
        assert status() == 200 and one.server()["arrived"] >= 1

    def test_nothing_is_tried_again_a_second_later(self, served, loaded):
        one = served("  retries 1\n", None, cookies=("", ""))
        one.haproxy.ask("set server www/web2 state maint")
        one.haproxy.ask("set server www/web1 addr 127.0.0.1 port %d" % free_port())
        assert one.get("/")() == 503
        one.hold(out_state="maint")
        assert not one.server()["nothing_comes"]
        began = time.monotonic()
        assert one.info(timeout=patient(5.0), quiet=600.0)["idle"] and time.monotonic() - began >= 1.2

    def test_a_configuration_that_was_written_just_now_need_not_be_loaded(self, served):
        one = served("", {})
        one.hold(out_state="maint")
        assert not one.info(timeout=1.2, quiet=600.0)["idle"] and not one.server()["nothing_comes"]

    @pytest.mark.parametrize(("directives", "state"), [(USE_SERVER, "maint"), (PERSIST, "maint"), (FORCE, "maint"), ("", "drain"), (STICK, "drain")])
    def test_where_something_may_come_the_time_counts(self, served, loaded, directives, state):
        one = served(directives, None, cookies=("cookie w1", "") if state == "maint" or not directives else ("", ""))
        one.hold(out_state=state)
        assert not one.info(timeout=1.2, quiet=600.0)["idle"] and not one.server()["nothing_comes"]

    def test_in_an_operators_maintenance_it_counts(self, served, loaded):
        one = served("", None)
        one.haproxy.ask("set server www/web1 state maint")
        assert not one.server()["nothing_comes"]

    @pytest.mark.parametrize("kind", ["http", "tcp"])
    def test_every_request_and_every_connection_counts_and_no_health_check(self, served, kind):
        http_mode = "  http-reuse always\n  option httpchk GET /\n"
        one = served(http_mode if kind == "http" else "", None, "  mode tcp\n" if kind == "tcp" else "", "check inter 50ms")
        time.sleep(0.5)
        before = one.server()["total_sessions"], one.server("web2")["total_sessions"]
        assert before == (0, 0)
        client = http.client.HTTPConnection("127.0.0.1", one.port, timeout=5)
        with contextlib.closing(client):
            for _request in range(6):
                client.request("GET", "/")
                client.getresponse().read()
        total = one.server()["total_sessions"] + one.server("web2")["total_sessions"]
        assert total == (6 if kind == "http" else 1)

    def test_after_a_reload_it_cannot_be_told(self, served):
        one = served("", None)
        one.hold()
        assert one.server()["arrived"] == 0
        one.haproxy.reload()
        assert one.server()["arrived"] is None
        one.hold()
        assert one.server()["arrived"] == 0
