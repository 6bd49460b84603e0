# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names that lead elsewhere, and sockets that have another path, on a real HAProxy. The servers need not answer."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys

import pytest
from ansible_collections.graceful.azure.plugins.module_utils import _haproxy_beside
from ansible_collections.graceful.azure.plugins.module_utils._duties.all_types import read
from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine

from tests.support.calls import call, hold_server
from tests.support.checkout import BUILD
from tests.support.dns import Dns
from tests.support.haproxy import rows_of, starting
from tests.support.patience import until
from tests.support.ports import free_port
from tests.support.web import Web

TWO = """
backend www
  server web1 127.0.0.2:80
  server web2 127.0.0.3:80
backend api
  server app1 127.0.0.2:80
  server app2 127.0.0.3:80
"""


@pytest.fixture
def start(tmp_path):
    with starting(tmp_path, TWO) as start:
        yield start


@pytest.fixture
def hold(tmp_path):
    def hold(path, ids=("A",), state="present", check=False, **more):
        return hold_server(path, tmp_path, ids, state, check, more)

    return hold


@pytest.fixture
def look(tmp_path):
    def look(path, names=("web1",), **more):
        params = {"socket": path, "servers": list(names), "state_dir": str(tmp_path / "state")}
        return call("haproxy_info", dict(params, **more))

    return look


def out(haproxy):
    """The servers that are not ready."""
    return sorted("%s/%s" % (backend, server) for backend, server, flags, _weight in haproxy.servers() if flags)


def places(seen):
    return {"%s/%s" % (server["backend"], server["server"]): server for server in seen["servers"]}


class TestOtherNames:
    def test_taken_out_and_given_back_with_the_one_it_is_for(self, start, hold, look):
        haproxy = start()
        result = hold(haproxy.socket, addresses=["127.0.0.2:80"])
        assert out(haproxy) == ["api/app1", "www/web1"] and result["changed"]
        assert [(s["server"], s["for_server"], s["leads_to"]) for s in result["servers"]] == [
            ("web1", None, {"address": "127.0.0.2", "port": 80}),
            ("app1", "web1", {"address": "127.0.0.2", "port": 80}),
        ]
        assert not hold(haproxy.socket, addresses=["127.0.0.2:80"])["changed"]
        # Known without the option from now on.
        assert places(look(haproxy.socket))["api/app1"]["for_server"] == "web1"
        hold(haproxy.socket, ids=["B"], addresses=["127.0.0.2:80"])
        hold(haproxy.socket, ids=["A"], state="absent")
        assert out(haproxy) == ["api/app1", "www/web1"]
        result = hold(haproxy.socket, ids=["B"], state="absent")
        assert out(haproxy) == [] and result["conflicts"] == [] and look(haproxy.socket)["holds"] == []

    def test_only_in_the_backends_named(self, start, hold):
        haproxy = start()
        hold(haproxy.socket, addresses=["127.0.0.2"], backends=["www"])
        assert out(haproxy) == ["www/web1"]

    def test_another_port_is_another_service(self, start, hold):
        haproxy = start()
        hold(haproxy.socket, addresses=["127.0.0.2:81", "[::1]:80"])
        assert out(haproxy) == ["www/web1"]

    def test_a_backend_of_another_name_alone_has_no_minimum(self, start, hold):
        haproxy = start("backend www\n  server web1 127.0.0.2:80\n  server web2 127.0.0.3:80\nbackend admin\n  server admin 127.0.0.2:80\n")
        assert hold(haproxy.socket, addresses=["127.0.0.2:80"], min_in_service="1")["refused"] == []
        assert out(haproxy) == ["admin/admin", "www/web1"]

    @pytest.mark.usefixtures("all_answer")
    def test_both_count_for_the_minimum(self, start, hold):
        haproxy = start("backend www\n  server web1 127.0.0.2:80\n  server again 127.0.0.2:80\n  server web2 127.0.0.3:80\n  server web3 127.0.0.4:80\n")
        result = hold(haproxy.socket, addresses=["127.0.0.2:80"], min_in_service="3")
        assert result["refused"] == ["web1 stays: 3 of 4 in service in www, 3 must stay."] and out(haproxy) == []
        assert hold(haproxy.socket, addresses=["127.0.0.2:80"], min_in_service="2")["refused"] == []
        assert out(haproxy) == ["www/again", "www/web1"]

    def test_an_operators_maintenance_stays(self, start, hold):
        haproxy = start()
        haproxy.ask("set server api/app1 state maint")
        hold(haproxy.socket, addresses=["127.0.0.2:80"])
        hold(haproxy.socket, ids=None, state="absent")
        assert out(haproxy) == ["api/app1"]

    def test_check_mode(self, start, hold):
        haproxy = start()
        result = hold(haproxy.socket, addresses=["127.0.0.2:80"], check=True)
        assert result["changed"] and len(result["servers"]) == 2 and out(haproxy) == []

    def test_put_right_after_a_restart(self, start, hold, look):
        haproxy = start()
        hold(haproxy.socket, addresses=["127.0.0.2:80"])
        haproxy.restart()
        assert places(look(haproxy.socket))["api/app1"]["condition"] == "lost"
        result = hold(haproxy.socket, addresses=["127.0.0.2:80"])
        assert out(haproxy) == ["api/app1", "www/web1"] and all(server["put_right"] for server in result["servers"])
        hold(haproxy.socket, ids=None, state="absent")
        assert out(haproxy) == []

    @pytest.mark.parametrize("wrong", ["web1", "10.0.0.4:", "10.0.0.4:99999", "10.0.0:80", "", "[::1]:x"])
    def test_what_is_no_address(self, start, hold, wrong):
        haproxy = start()
        with pytest.raises(ValueError, match="addresses: .* is neither an IP address nor one with a port"):
            hold(haproxy.socket, addresses=[wrong])
        assert out(haproxy) == []


class TestNamesThatMove:
    @pytest.mark.usefixtures("all_answer")
    def test_the_name_is_given_another_address_while_it_is_held(self, start, hold, look):
        haproxy = start()
        hold(haproxy.socket)
        haproxy.ask("set server www/web1 addr 127.0.0.3 port 80")
        haproxy.ask("set server api/app2 addr 127.0.0.2 port 80")
        seen = places(look(haproxy.socket))
        assert seen["www/web1"]["leads_to"] == {"address": "127.0.0.2", "port": 80} and seen["www/web1"]["address"] == "127.0.0.3"
        # The backend api has no web1, but a server that leads where web1 led.
        assert seen["api/app2"]["address"] == "127.0.0.2" and seen["api/app2"]["in_service"]
        assert not hold(haproxy.socket)["changed"]
        assert look(haproxy.socket)["holds"][0]["leads_to"] == {"address": "127.0.0.2", "port": 80}
        result = hold(haproxy.socket, ids=None, state="absent")
        assert out(haproxy) == [] and result["conflicts"] == []

    def test_dns_gives_the_name_another_address_over_a_restart(self, start, hold, look):
        """The hold was put for the machine that had the name before; after a restart the address is in another slot."""
        dns = Dns("127.0.0.2")
        try:
            haproxy = start(dns.resolvers() + "backend www\n  server-template web 3 web.test:80 resolvers ours init-addr none\n")
            until(lambda: addresses(haproxy)[0] == "127.0.0.2", 10)
            hold(haproxy.socket)
            dns.addresses[:] = ["127.0.0.3"]
            haproxy.restart()
            until(lambda: addresses(haproxy)[0] == "127.0.0.3", 10)
            dns.addresses.append("127.0.0.2")
            until(lambda: "127.0.0.2" in addresses(haproxy)[1:], 10)
            seen = places(look(haproxy.socket))
            assert (seen["www/web1"]["condition"], seen["www/web1"]["leads_to"]) == ("lost", {"address": "127.0.0.2", "port": 80})
            (slot,) = [server["server"] for server in seen.values() if server["address"] == "127.0.0.2"]
            hold(haproxy.socket, addresses=["127.0.0.2:80"])
            assert out_by_us(haproxy) == ["www/web1", "www/" + slot]
            assert look(haproxy.socket)["servers"][0]["leads_to"] == {"address": "127.0.0.2", "port": 80}
            hold(haproxy.socket, ids=None, state="absent")
            assert out_by_us(haproxy) == []
        finally:
            dns.close()


def addresses(haproxy):
    return [row["srv_addr"] for row in rows_of(haproxy.ask("show servers state"))]


def out_by_us(haproxy):
    return sorted("%s/%s" % (backend, server) for backend, server, flags, _weight in haproxy.servers() if flags & 9)


class TestWhoseRecord:
    def records(self, tmp_path):
        return sorted((tmp_path / "state").glob("*.json"))

    def second(self, haproxy):
        """A second socket of the same process."""
        return str(haproxy.folder / "second.sock")

    def test_known_and_released_through_a_second_socket_of_the_process(self, start, hold, look, tmp_path):
        haproxy = start(second=True)
        hold(haproxy.socket)
        seen = look(self.second(haproxy))
        assert places(seen)["www/web1"]["condition"] == "held" and len(seen["holds"]) == 1 and seen["other_holds"] == []
        assert hold(self.second(haproxy), ids=["B"])["servers"][0]["held_by"] == ["A", "B"]
        assert len(self.records(tmp_path)) == 1
        hold(self.second(haproxy), ids=None, state="absent")
        assert out(haproxy) == [] and self.records(tmp_path) == []

    def test_known_through_the_second_socket_after_a_reload(self, start, hold, look, tmp_path):
        haproxy = start(second=True)
        hold(haproxy.socket)
        haproxy.restart()
        assert places(look(self.second(haproxy)))["www/web1"]["condition"] == "lost"
        assert hold(self.second(haproxy))["servers"][0]["put_right"]
        assert out(haproxy) == ["www/web1"] and len(self.records(tmp_path)) == 1
        hold(haproxy.socket, ids=None, state="absent")
        assert out(haproxy) == [] and self.records(tmp_path) == []

    @pytest.mark.parametrize("how", ["restart", "reload"])
    def test_the_socket_gets_another_path(self, start, hold, look, tmp_path, how):
        haproxy = start()
        hold(haproxy.socket)
        old = haproxy.socket
        configuration = haproxy._configuration
        configuration.write_text(configuration.read_text().replace("admin.sock", "new.sock"))
        haproxy.socket = str(haproxy.folder / "new.sock")
        if how == "restart":
            haproxy.restart()
        else:
            haproxy.start("-sf", str(haproxy._processes[-1].pid))
            until(lambda: haproxy._processes[0].poll() is not None, 10)
        if os.path.exists(old):
            os.unlink(old)
        seen = look(haproxy.socket)
        assert places(seen)["www/web1"]["condition"] == "lost" and seen["other_holds"] == []
        hold(haproxy.socket)
        assert out(haproxy) == ["www/web1"]
        (path,) = self.records(tmp_path)
        assert json.loads(path.read_text())["subject"]["socket"] == haproxy.socket
        hold(haproxy.socket, ids=None, state="absent")
        assert out(haproxy) == [] and self.records(tmp_path) == []

    def test_two_haproxys_with_the_same_names(self, start, hold, look, tmp_path):
        one, two = start(), start()
        hold(one.socket)
        seen = look(two.socket)
        assert places(seen)["www/web1"]["condition"] == "none" and seen["holds"] == [] and len(seen["other_holds"]) == 1
        hold(two.socket, ids=["B"])
        assert len(self.records(tmp_path)) == 2
        # Whoever is restarted gets its own hold back, and no other.
        two.restart()
        assert places(look(two.socket))["www/web1"]["held_by"] == ["B"]
        assert places(look(one.socket))["www/web1"]["held_by"] == ["A"]
        one.restart()
        assert places(look(one.socket))["www/web1"]["held_by"] == ["A"]
        hold(one.socket)
        hold(two.socket, ids=["B"])
        hold(one.socket, ids=None, state="absent")
        assert out(one) == [] and out(two) == ["www/web1"]
        hold(two.socket, ids=None, state="absent")
        assert out(two) == [] and self.records(tmp_path) == []

    def test_two_haproxys_change_paths(self, start, hold, look, tmp_path):
        """The path of one leads to the other now. The process decides, while it runs."""
        haproxy = start(second=True)
        hold(haproxy.socket)
        other = start()
        os.rename(other.socket, haproxy.socket)
        seen = look(haproxy.socket)
        assert places(seen)["www/web1"]["condition"] == "none" and len(seen["other_holds"]) == 1
        hold(haproxy.socket, ids=["B"])
        assert len(self.records(tmp_path)) == 2
        assert places(look(self.second(haproxy)))["www/web1"]["held_by"] == ["A"]
        hold(self.second(haproxy), ids=None, state="absent")
        assert places(look(haproxy.socket))["www/web1"]["held_by"] == ["B"]
        hold(haproxy.socket, ids=None, state="absent")
        assert self.records(tmp_path) == []

    def test_the_clock_was_set_since(self, start, hold, look, tmp_path):
        """The start of a process is a date, so another clock gives another one. The process is the same."""
        haproxy = start(second=True)
        hold(haproxy.socket)
        (path,) = self.records(tmp_path)
        record = json.loads(path.read_text())
        record["process"]["started"] -= 100
        path.write_text(json.dumps(record))
        haproxy.ask("set server www/web1 state ready")
        assert places(look(haproxy.socket))["www/web1"]["condition"] == "changed_meanwhile"
        # It still runs, so the record does not belong to the HAProxy that has its path now.
        other = start()
        os.rename(other.socket, haproxy.socket)
        seen = look(haproxy.socket)
        assert places(seen)["www/web1"]["condition"] == "none" and len(seen["other_holds"]) == 1

    def test_a_record_of_the_release_before(self, start, hold, look, tmp_path):
        """It does not say where the server led, and is filed by the socket."""
        haproxy = start()
        hold(haproxy.socket)
        (path,) = self.records(tmp_path)
        record = json.loads(path.read_text())
        del record["leads_to"]
        path.write_text(json.dumps(record))
        assert places(look(haproxy.socket))["www/web1"]["condition"] == "held"
        haproxy.restart()
        assert places(look(haproxy.socket))["www/web1"]["condition"] == "lost"
        hold(haproxy.socket)
        assert self.records(tmp_path) == [path]
        hold(haproxy.socket, ids=None, state="absent")
        assert out(haproxy) == [] and self.records(tmp_path) == []

    def test_one_whose_haproxy_is_gone_is_shown_and_not_touched(self, start, hold, look, tmp_path):
        gone, other = start(), start(TWO.replace("127.0.0.2:80", "127.0.0.2:%d" % free_port()))
        hold(gone.socket)
        gone.stop()
        seen = look(other.socket)
        assert seen["holds"] == [] and [record["subject"]["socket"] for record in seen["other_holds"]] == [gone.socket]
        hold(other.socket, ids=None, state="absent")
        assert len(self.records(tmp_path)) == 1


PAST = """
backend www
  server web1 127.0.0.2:{port}
  server web2 127.0.0.3:{port}
listen old
  bind 127.0.0.1:{old}
  dispatch 127.0.0.2:{port}
listen any
  bind 127.0.0.1:{any}
  http-request set-dst ipv4(127.0.0.2)
  http-request set-dst-port int({to})
  server any 0.0.0.0:0
"""


class TestPastServers:
    """Requests that reach a host without a server of its own. No state of a server stops them."""

    @pytest.fixture
    def listening(self):
        sockets = [socket.create_server(("127.0.0.2", 0)) for _number in range(2)]
        yield [one.getsockname()[1] for one in sockets]
        for one in sockets:
            one.close()

    @staticmethod
    def ask(port):
        client = socket.create_connection(("127.0.0.1", port))
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        return client

    @pytest.fixture
    def begin(self, start, listening):
        def begin(to=0):
            ports = {"port": listening[0], "old": free_port(), "any": free_port(), "to": listening[to]}
            return start(PAST.format(**ports)), ports

        return begin

    def test_told_before_an_event(self, begin, look):
        haproxy, ports = begin()
        seen = look(haproxy.socket, addresses=["127.0.0.2"])
        assert seen["passes"] == [
            {"backend": "any", "text": "server any", "leads_to": [], "unresolved": "it takes the address from the request", "total": 0},
            {
                "backend": "old",
                "text": "dispatch 127.0.0.2:%d" % ports["port"],
                "leads_to": [{"address": "127.0.0.2", "port": ports["port"]}],
                "unresolved": None,
                "total": 0,
            },
        ]
        haproxy.ask("set server any/any state maint")
        assert [each["text"] for each in look(haproxy.socket)["passes"]] == ["dispatch 127.0.0.2:%d" % ports["port"]]

    @pytest.mark.parametrize("way", ["old", "any"])
    def test_a_request_under_way_is_none_of_the_pool(self, begin, look, hold, way):
        haproxy, ports = begin()
        hold(haproxy.socket)
        assert [server["beside"] for server in look(haproxy.socket)["servers"] if server["server"] == "web1"] == [0]
        with self.ask(ports[way]):
            until(lambda: places(look(haproxy.socket))["www/web1"]["beside"] == 1, 10, "it is seen")
            duty = read({"type": "haproxy", "hosts": ["x"], "server": "web1", "socket": haproxy.socket}, Machine).on(Machine(None)).see()
            assert "1 request under way to where www/web1 leads, of no server there" in duty["busy"]
            assert any("dispatch" in sentence and "nothing can take it out" in sentence for sentence in duty["busy"])

    @pytest.mark.parametrize("way", ["server", "transparent"])
    def test_a_request_that_is_over_before_the_next_look(self, start, look, hold, way):
        """Nobody has seen where it went."""
        web, door = Web(), free_port()
        directives = {
            "server": "  http-request set-dst ipv4(127.0.0.1)\n  http-request set-dst-port int(%d)\n  server any 0.0.0.0:0\n" % web.port,
            "transparent": "  http-request set-dst ipv4(127.0.0.1)\n  http-request set-dst-port int(%d)\n  option transparent\n" % web.port,
        }
        text = {"server": "server any", "transparent": "option transparent"}[way]
        try:
            haproxy = start(
                "backend www\n  server web1 127.0.0.1:%d\n  server web2 127.0.0.3:%d\nlisten any\n  bind 127.0.0.1:%d\n  mode http\n%s"
                % (web.port, web.port, door, directives[way])
            )
            hold(haproxy.socket)
            options = {"type": "haproxy", "hosts": ["x"], "server": "web1", "socket": haproxy.socket}
            duty, other = (read(dict(options, **more), Machine).on(Machine(None)) for more in ({}, {"backends": ["www"]}))
            assert duty.see()["busy"] == other.see()["busy"] == []
            client = http.client.HTTPConnection("127.0.0.1", door, timeout=5)
            for count in (1, 2):
                client.request("GET", "/")
                assert client.getresponse().read() is not None
                assert duty.see()["busy"] == ["1 request came through %s in any since the last look, and nobody knows whether to it" % text]
                assert other.see()["busy"] == [], "whoever names the backends knows that the others do not lead to it"
                assert [line["total"] for line in look(haproxy.socket)["passes"]] == [count]
            assert duty.see()["busy"] == []
            client.close()
        finally:
            web.close()

    def test_to_another_port_of_the_host(self, begin, look, hold):
        haproxy, ports = begin(to=1)
        hold(haproxy.socket)
        with self.ask(ports["any"]):
            until(lambda: look(haproxy.socket, addresses=["127.0.0.2"])["beside"] == {"127.0.0.2": 1}, 10, "it is seen")
            assert places(look(haproxy.socket))["www/web1"]["beside"] == 0

    def test_a_check_under_way_is_none(self, start, look, hold, listening):
        """The server accepts and never answers, so that a check is under way nearly always."""
        port = listening[0]
        haproxy = start(
            "backend www\n  option httpchk\n  timeout check 20s\n  server web1 127.0.0.2:%d check inter 100ms\n  server web2 127.0.0.3:%d\n"
            "listen any\n  bind 127.0.0.1:%d\n  server any 0.0.0.0:0\n" % (port, port, free_port())
        )
        hold(haproxy.socket)
        until(lambda: places(look(haproxy.socket))["www/web1"]["own_ports"], 10, "a check begins")
        assert places(look(haproxy.socket))["www/web1"]["beside"] == 0

    def test_a_request_at_a_server_that_led_there_before(self, start, look, hold, listening):
        """With server-template, DNS does that: the session is that of the slot, wherever it leads now."""
        port, door = listening[0], free_port()
        haproxy = start(
            "listen www\n  bind 127.0.0.1:%d\n  server web1 127.0.0.3:%d disabled\n  server web2 127.0.0.2:%d\n" % (door, port, port),
        )
        with self.ask(door):
            until(lambda: haproxy.stat("www", "web2", "scur") == "1", 10)
            haproxy.ask("set server www/web2 addr 127.0.0.3 port %d" % port)
            haproxy.ask("set server www/web1 addr 127.0.0.2 port %d" % port)
            haproxy.ask("set server www/web1 state ready")
            hold(haproxy.socket)
            server = places(look(haproxy.socket))["www/web1"]
            assert (server["sessions"], server["beside"]) == (0, 1)

    @pytest.mark.parametrize("mode", ["mode tcp", "http-reuse never", "http-reuse always", "option http-server-close"])
    def test_idle_connections_of_the_pool_are_none(self, start, look, hold, mode):
        web, door = Web(), free_port()
        try:
            haproxy = start(
                "listen www\n  bind 127.0.0.1:%d\n  %s\n  server web1 127.0.0.1:%d check inter 50ms\nlisten any\n  bind 127.0.0.1:%d\n  server any 0.0.0.0:0\n"
                % (door, mode, web.port, free_port())
            )
            clients = [http.client.HTTPConnection("127.0.0.1", door) for _number in range(6)]
            for client in clients:
                client.request("GET", "/")
                client.getresponse().read()
            hold(haproxy.socket)
            for _look in range(3):
                assert places(look(haproxy.socket))["www/web1"]["beside"] == 0
            for client in clients:
                client.close()
        finally:
            web.close()

    def test_without_the_right_to_look_at_its_connections(self, begin, look, hold, monkeypatch):
        haproxy, ports = begin()
        hold(haproxy.socket)
        monkeypatch.setattr(_haproxy_beside, "own_connections", lambda running: None)
        with self.ask(ports["any"]):
            until(lambda: places(look(haproxy.socket))["www/web1"]["beside"] == 1, 10, "it is seen")

    def test_haproxy_does_not_tell(self, begin, look, hold, monkeypatch):
        haproxy, ports = begin()
        hold(haproxy.socket)
        with self.ask(ports["any"]):
            until(lambda: haproxy.ask("show sess all").count("addr=127.0.0.2:"), 10)

            def fails(_haproxy):
                raise _haproxy_beside.HaproxyError("too long")

            monkeypatch.setattr("ansible_collections.graceful.azure.plugins.module_utils._haproxy.Haproxy.streams", fails)
            assert places(look(haproxy.socket))["www/web1"]["beside"] is None


def test_an_address_on_the_loopback_interface_is_not_the_hosts_own():
    """Every VM behind an Azure Load Balancer with Floating IP has the frontend's address there."""
    code = "from ansible_collections.graceful.azure.plugins.module_utils._addresses import own_addresses; import json; print(json.dumps(own_addresses()))"
    commands = [
        "ip link set lo up",
        "ip link add net0 type veth peer name net1",
        "ip address add 192.0.2.7/24 dev net0",
        "ip address add 192.0.2.200/32 dev lo",
        "ip address add 192.0.2.201/32 dev lo label lo:1",
        "ip -6 address add 2001:db8::7/64 dev net0",
        "ip -6 address add 2001:db8::200/128 dev lo",
        f"{sys.executable} -c '{code}'",
    ]
    environment = dict(os.environ, PYTHONPATH=str(BUILD / "collections"))
    done = subprocess.run(["unshare", "--net", "sh", "-ec", "\n".join(commands)], env=environment, check=True, stdout=subprocess.PIPE, text=True)
    assert json.loads(done.stdout) == ["192.0.2.7", "2001:db8::7"]
