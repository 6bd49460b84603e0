# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""haproxy_hold against a real HAProxy. The servers of these configurations need not answer."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest
from ansible_collections.graceful.azure.plugins.module_utils import _haproxy
from ansible_collections.graceful.azure.plugins.module_utils._duties import haproxy as haproxy_duty
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_servers import HaproxyError

from tests.support.calls import call, hold_server
from tests.support.dns import Dns
from tests.support.haproxy import rows_of, starting
from tests.support.module import run_module, run_program
from tests.support.patience import patient, until
from tests.support.ports import free_port, listener
from tests.support.web import Web

# Some of it runs as another user.
OPEN_TO_ALL = True

READY, MAINT, MAINT_BY_CONFIGURATION, DRAIN = 0, 1, 5, 8

SECTIONS = """
backend www
  server web1 127.0.0.1:1 weight 10
  server web2 127.0.0.1:2 weight 20
  server web3 127.0.0.1:3 disabled
backend api
  server web1 127.0.0.1:1
"""


@pytest.fixture
def start(tmp_path):
    with starting(tmp_path, SECTIONS) as start:
        yield start


@pytest.fixture
def hold(tmp_path):
    def hold(haproxy, ids=("A",), state="present", check=False, sleep=time.sleep, **more):
        return hold_server(haproxy.socket, tmp_path, ids, state, check, more, sleep=sleep)

    return hold


@pytest.fixture
def release(hold):
    def release(haproxy, ids=None, **more):
        return hold(haproxy, ids, "absent", **more)

    return release


def conditions(result):
    return {server["backend"]: server["condition"] for server in result["servers"]}


class TestEveryState:
    def test_out_and_back(self, start, hold, release):
        haproxy = start()
        before = haproxy.servers()
        result = hold(haproxy)
        assert result["changed"] and conditions(result) == {"www": "held", "api": "held"}
        assert haproxy.flags("www", "web1") == (DRAIN, 10)
        assert haproxy.flags("www", "web2") == (READY, 20)
        assert [s["status"] for s in result["servers"]] == ["DRAIN", "DRAIN"]
        assert not hold(haproxy)["changed"]
        result = release(haproxy)
        assert result["changed"] and conditions(result) == {"www": "none", "api": "none"}
        assert haproxy.servers() == before
        assert not release(haproxy)["changed"]

    def test_back_in_backends_that_are_no_longer_named(self, start, hold, release):
        haproxy = start()
        before = haproxy.servers()
        hold(haproxy)
        assert conditions(release(haproxy, backends=["www"], ids=["B"])) == {"www": "held"}
        result = release(haproxy, backends=["www"], ids=["A"])
        assert result["changed"] and conditions(result) == {"www": "none", "api": "none"}
        assert haproxy.servers() == before

    def test_also_where_it_leads_to_another_address_of_the_host(self, start, hold, release):
        """What the record says of its host decides. Another host may have the name there, too."""
        haproxy = start("backend www\n  server web1 127.0.0.1:1\nbackend api\n  server web1 127.0.0.2:1\n")
        before = haproxy.servers()
        hold(haproxy, event_details={"A": {"host": "web1"}})
        assert conditions(release(haproxy, backends=["www"], ids=["A"], host="web9")) == {"www": "none"}
        hold(haproxy, event_details={"A": {"host": "web1"}})
        assert conditions(release(haproxy, backends=["www"], ids=["A"], host="web1")) == {"www": "none", "api": "none"}
        assert haproxy.servers() == before

    @pytest.mark.parametrize("state", ["drain", "maint"])
    def test_an_operators_state_stays(self, start, hold, release, state):
        haproxy = start()
        haproxy.ask("set server www/web1 state " + state)
        before = haproxy.servers()
        result = hold(haproxy, backends=["www"])
        assert not result["changed"] and conditions(result) == {"www": "already_out"}
        release(haproxy)
        assert haproxy.servers() == before

    def test_disabled_in_the_configuration(self, start, hold, release):
        haproxy = start()
        assert conditions(hold(haproxy, server="web3")) == {"www": "already_out"}
        release(haproxy, server="web3")
        assert haproxy.flags("www", "web3") == (MAINT_BY_CONFIGURATION, 1)

    def test_disabled_in_the_configuration_and_enabled_since(self, start, hold, release):
        haproxy = start()
        haproxy.ask("set server www/web3 state ready")
        before = haproxy.servers()
        assert conditions(hold(haproxy, server="web3")) == {"www": "held"}
        release(haproxy, server="web3")
        assert haproxy.servers() == before

    def test_no_address(self, start, hold):
        haproxy = start("resolvers r\n  nameserver x 127.0.0.1:1\nbackend www\n  server web1 nowhere.invalid:80 resolvers r init-addr none\n")
        result = hold(haproxy)
        assert conditions(result) == {"www": "held"}
        assert result["servers"][0]["admin_state"] == "maint"

    def test_the_same_name_in_several_backends_that_track_each_other(self, start, hold, release):
        haproxy = start(
            "backend a\n  server web1 127.0.0.1:1 track b/web1\n"
            "backend b\n  server web1 127.0.0.1:1 check inter 1h\n"
            "backend c\n  server web1 127.0.0.1:1 track b/web1\n  server other 127.0.0.1:1 track b/web1\n"
        )
        before = haproxy.servers()
        assert conditions(hold(haproxy)) == {"a": "held", "b": "held", "c": "held"}
        assert not hold(haproxy)["changed"]
        assert haproxy.flags("c", "other")[0] != READY  # it goes where what it tracks goes
        result = release(haproxy)
        assert result["conflicts"] == [] and haproxy.servers() == before

    @pytest.mark.parametrize("weight", ["7", "50%", "0", "256"])
    def test_a_weight_set_by_hand(self, start, hold, release, weight):
        haproxy = start("backend www\n  server web1 127.0.0.1:1 weight 30 slowstart 60s\n  server web2 127.0.0.1:1\n")
        haproxy.ask("set server www/web1 weight " + weight)
        before = haproxy.servers()
        hold(haproxy)
        release(haproxy)
        assert haproxy.servers() == before

    def test_unix_sockets_and_ipv6(self, start, hold, release):
        haproxy = start("backend www\n  server web1 unix@/nowhere\nbackend api\n  server web1 [::1]:80\n")
        assert conditions(hold(haproxy)) == {"www": "held", "api": "held"}
        assert conditions(release(haproxy)) == {"www": "none", "api": "none"}


class TestStickySessions:
    def out(self, haproxy, hold, **more):
        hold(haproxy, **more)
        return {backend: flags for backend, server, flags, weight in haproxy.servers() if server == "web1"}

    def test_by_cookie_and_by_table(self, start, hold, release):
        haproxy = start(
            "backend plain\n  server web1 127.0.0.1:1\n"
            "backend cookie\n  cookie SRV insert\n  server web1 127.0.0.1:1 cookie a\n"
            "backend dynamic\n  cookie SRV insert dynamic\n  dynamic-cookie-key k\n  server web1 127.0.0.1:1\n"
            "backend table\n  stick-table type ip size 1k\n  stick on src\n  server web1 127.0.0.1:1\n"
            "backend counts\n  stick-table type ip size 1k store http_req_rate(10s)\n"
            "  http-request track-sc0 src\n  server web1 127.0.0.1:1\n"
        )
        before = haproxy.servers()
        assert self.out(haproxy, hold) == {
            "plain": DRAIN,
            "cookie": MAINT,
            "dynamic": MAINT,
            "table": MAINT,
            "counts": DRAIN,
        }
        release(haproxy)
        assert haproxy.servers() == before

    def test_by_a_table_that_lies_elsewhere(self, start, hold):
        haproxy = start(
            "backend www\n  stick on src table shared\n  server web1 127.0.0.1:1\n"
            "backend api\n  server web1 127.0.0.1:1\n"
            "backend shared\n  stick-table type ip size 1k\n"
        )
        assert self.out(haproxy, hold) == {"www": MAINT, "api": MAINT}

    def test_by_a_table_among_peers(self, start, hold):
        haproxy = start(
            "peers those\n  peer here 127.0.0.1:%d\n  table t type ip size 1k\n"
            "backend www\n  stick on src table those/t\n  server web1 127.0.0.1:1\n" % free_port()
        )
        assert self.out(haproxy, hold) == {"www": MAINT}

    def test_as_asked(self, start, hold):
        haproxy = start("backend cookie\n  cookie SRV insert\n  server web1 127.0.0.1:1 cookie a\n")
        assert self.out(haproxy, hold, out_state="drain") == {"cookie": DRAIN}
        assert self.out(haproxy, hold, out_state="maint") == {"cookie": MAINT}

    def test_what_a_backend_says_whose_name_is_in_the_environment(self, start, hold, monkeypatch):
        monkeypatch.setenv("APP", "shop")
        haproxy = start('listen "${APP}_www"\n  bind 127.0.0.1:%d\n  use-server web1 if TRUE\n  server web1 127.0.0.1:1\n' % free_port())
        assert self.out(haproxy, hold) == {"shop_www": MAINT}

    @pytest.mark.parametrize("is_tracking", [False, True])
    def test_what_maint_would_cut_is_over_first(self, start, hold, release, is_tracking, tmp_path):
        """on-marked-down shutdown-sessions counts for a server that goes to maint, too, also because the one that it tracks does."""
        with listener() as server, socket.socket() as client:
            port, at = server.getsockname()[1], free_port()
            sticky, cuts = "  stick-table type ip size 1k\n  stick on src\n", "on-marked-down shutdown-sessions"
            known = f"backend known\n{sticky}  server web1 127.0.0.1:{port} check inter 1h\n"
            # What is quoted is no comment.
            first, more = (f"  default-server {cuts}\n", "track known/web1") if is_tracking else (sticky, f'cookie "a#1" {cuts}')
            haproxy = start(f"listen db\n  mode tcp\n  bind 127.0.0.1:{at}\n{first}  server web1 127.0.0.1:{port} {more}\n{known if is_tracking else ''}")
            place = "known" if is_tracking else "db"
            client.connect(("127.0.0.1", at))
            client.settimeout(patient(5))
            server.settimeout(patient(5))
            served, _peer = server.accept()
            with served:
                result = hold(haproxy, timeout=0)
                told = f"{place}/web1 stays in drain until its sessions are over (1): on-marked-down shutdown-sessions would cut them in maint"
                assert (result["done"], result["waiting_for"]) == (False, [told]) and haproxy.flags(place, "web1")[0] == DRAIN
                assert not hold(haproxy, timeout=0)["done"]
                seen = call("haproxy_info", {"servers": ["web1"], "socket": haproxy.socket, "state_dir": str(tmp_path / "state")})["servers"]
                assert [(each["condition"], each["awaits_sessions"]) for each in seen if each["sessions"]] == [("held", not is_tracking)]
                served.sendall(b"an answer")
                assert client.recv(100) == b"an answer"
            assert client.recv(100) == b""
        until(lambda: hold(haproxy, timeout=0)["done"], 10)
        assert haproxy.flags(place, "web1")[0] == MAINT
        if not is_tracking:  # otherwise its check decides
            assert release(haproxy)["done"] and haproxy.flags(place, "web1")[0] == READY


@pytest.mark.parametrize("master", [False, True], ids=["plain", "master-worker"])
class TestAnotherProcess:
    @pytest.mark.parametrize("how", ["reload", "restart"])
    def test_put_right(self, start, hold, release, how, master):
        haproxy = start(master=master)
        before = haproxy.servers()
        first = hold(haproxy)
        getattr(haproxy, how)()
        assert haproxy.servers() == before
        result = hold(haproxy)
        assert result["changed"] and [server["put_right"] for server in result["servers"]] == [True, True]
        assert result["process"] != first["process"]
        assert haproxy.flags("www", "web1") == (DRAIN, 10)
        assert not hold(haproxy)["changed"]
        release(haproxy)
        assert haproxy.servers() == before

    def test_released_after_it(self, start, hold, release, master, tmp_path):
        haproxy = start(master=master)
        hold(haproxy)
        haproxy.reload()
        before = haproxy.servers()
        result = release(haproxy)
        assert result["changed"] and result["conflicts"] == [] and haproxy.servers() == before
        assert list((tmp_path / "state").iterdir()) == []

    def test_its_configuration_disables_the_server(self, start, hold, release, master):
        haproxy = start(master=master)
        hold(haproxy, out_state="maint")
        haproxy.configure(SECTIONS.replace("web1 127.0.0.1:1 weight 10", "web1 127.0.0.1:1 weight 10 disabled"))
        haproxy.reload()
        assert conditions(hold(haproxy)) == {"www": "already_out", "api": "held"}
        release(haproxy)
        assert haproxy.flags("www", "web1") == (MAINT_BY_CONFIGURATION, 10)

    def test_it_took_over_the_state(self, start, hold, release, master, tmp_path):
        """server-state-file: the reload loses nothing."""
        saved = tmp_path / "saved"
        loading = SECTIONS.replace("backend www\n", "backend www\n  load-server-state-from-file global\n")
        haproxy = start(loading, more="  server-state-file %s\n" % saved, master=master)
        before = haproxy.servers()
        hold(haproxy, backends=["www"])
        saved.write_text(haproxy.ask("show servers state"))
        haproxy.reload()
        assert haproxy.flags("www", "web1") == (DRAIN, 10)
        result = hold(haproxy, backends=["www"])
        assert not result["changed"] and not result["servers"][0]["put_right"]
        release(haproxy)
        assert haproxy.servers() == before

    def test_the_server_is_gone(self, start, hold, release, master, tmp_path):
        haproxy = start(master=master)
        hold(haproxy)
        haproxy.configure(SECTIONS.partition("backend api")[0])
        haproxy.reload()
        assert conditions(hold(haproxy)) == {"www": "held"}
        result = release(haproxy)
        assert result["conflicts"] == ["api/web1 is no longer in HAProxy: the hold on it was dropped."]
        assert list((tmp_path / "state").iterdir()) == []


def test_a_look_is_of_one_process(start, tmp_path):
    """As in a reload, where each connection may come to either of them."""
    new, former = start(), start()
    former.ask("set server www/web1 state drain")
    expected = {int(re.search(r"^Pid: (\d+)", haproxy.ask("show info"), re.MULTILINE).group(1)): flags for haproxy, flags in ((new, READY), (former, DRAIN))}
    with reloaded_socket(tmp_path / "both.sock", [new, former, former, new]) as path:
        for _round in range(4):
            look = _haproxy.Haproxy(path).look()
            assert look.servers["www", "web1"].flags == expected[look.process.pid]
            assert look.backends_of("web1") == ["www", "api"] and look.servers["www", "web3"].flags == MAINT_BY_CONFIGURATION


@pytest.mark.parametrize("port", ["{}", "none", "-1000", "+1000"])
def test_what_a_former_process_serves_whatever_the_port(start, hold, port):
    with socket.create_server(("127.0.0.1", 0)) as web:
        own = web.getsockname()[1]
        asked = own if port in ("{}", "none") else own - int(port)
        address = "127.0.0.1" if port == "none" else "127.0.0.1:" + port.format(own)
        haproxy = start(
            "frontend f\n  mode tcp\n  bind 127.0.0.2:%d\n  default_backend b\n"
            "backend b\n  mode tcp\n  server web1 %s\n  server web2 127.0.0.1:%d disabled\n  server web3 127.0.0.3 disabled\n" % (asked, address, free_port())
        )

        def sessions():
            return [hold(haproxy, server=name)["servers"][0]["sessions"] for name in ("web1", "web2", "web3")]

        with socket.create_connection(("127.0.0.2", asked)) as client:
            with web.accept()[0]:
                haproxy.reload()
                held = sessions()
            client.recv(1)
        # Whether it is web2's cannot be told where the port may be an offset, but it can where a server has the port.
        assert held == [1, 0 if port == "{}" else 1, 0]
        until(lambda: sessions() == [0, 0, 0], 5, sessions)


@pytest.fixture
def dns():
    server = Dns()
    yield server
    server.close()


def await_flags(haproxy, server, expected):
    """Wait until the server has these flags; flags of the backend www."""
    until(lambda: haproxy.flags("www", server)[0] == expected, 10, lambda: haproxy.flags("www", server))


class TestNamesThatDoNotResolve:
    UNRESOLVED = 32
    SECTIONS = "backend www\n  server-template web 3 web.test:8080 resolvers ours init-addr none\n"

    @pytest.mark.parametrize(("out_state", "flags"), [("drain", DRAIN), ("maint", MAINT)])
    def test_one_that_is_out_only_because_of_that_is_held_until_the_event_is_over(self, start, hold, release, dns, out_state, flags):
        haproxy = start(dns.resolvers() + self.SECTIONS)
        await_flags(haproxy, "web1", self.UNRESOLVED)
        result = hold(haproxy, out_state=out_state)
        assert result["changed"] and conditions(result) == {"www": "held"}
        assert result["servers"][0]["found"]["admin_state"] == "ready"
        assert not hold(haproxy, out_state=out_state)["changed"]
        dns.addresses[:] = ["127.0.0.2"]
        await_flags(haproxy, "web1", flags)
        dns.addresses[:] = []
        await_flags(haproxy, "web1", flags | self.UNRESOLVED)
        result = release(haproxy)
        assert result["changed"] and result["conflicts"] == []
        assert haproxy.flags("www", "web1")[0] == self.UNRESOLVED
        dns.addresses[:] = ["127.0.0.2"]
        await_flags(haproxy, "web1", READY)

    def test_an_operators_maintenance_stays(self, start, hold, dns):
        haproxy = start(dns.resolvers() + self.SECTIONS)
        await_flags(haproxy, "web1", self.UNRESOLVED)
        haproxy.ask("set server www/web1 state maint")
        assert conditions(hold(haproxy)) == {"www": "already_out"}
        assert haproxy.flags("www", "web1")[0] == self.UNRESOLVED | MAINT

    def test_it_is_held_again_after_a_restart(self, start, hold, dns):
        haproxy = start(dns.resolvers() + self.SECTIONS)
        await_flags(haproxy, "web1", self.UNRESOLVED)
        hold(haproxy)
        haproxy.restart()
        await_flags(haproxy, "web1", self.UNRESOLVED)
        result = hold(haproxy)
        assert conditions(result) == {"www": "held"} and result["servers"][0]["put_right"]

    @pytest.mark.usefixtures("all_answer")
    def test_slots_without_an_address_are_not_counted(self, start, hold, dns):
        dns.addresses[:] = ["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"]
        haproxy = start(dns.resolvers() + self.SECTIONS.replace("web 3", "web 20"))
        for number in range(1, 5):
            await_flags(haproxy, "web%d" % number, READY)
        assert hold(haproxy, server="web1", min_in_service="50%")["refused"] == []
        assert hold(haproxy, server="web2", min_in_service="50%")["refused"] == []
        assert hold(haproxy, server="web3", min_in_service="50%")["refused"] == [
            "web3 stays: 2 of 4 in service in www (web1 is in drain; web2 is in drain), 2 must stay."
        ]


class TestMinimumInService:
    def test_a_server_that_nobody_checks_and_that_does_not_answer_does_not_count(self, start, hold):
        """For HAProxy it is up."""
        with contextlib.closing(listener()) as web:
            port, dead = web.getsockname()[1], free_port()
            haproxy = start(f"backend www\n  server web1 127.0.0.1:{port}\n  server web2 127.0.0.1:{dead}\n  server web3 127.0.0.1 disabled\n")
            why = f"port {dead} of 127.0.0.1: Connection refused"
            assert hold(haproxy, min_in_service="1")["refused"] == [f"web1 stays: 1 of 3 in service in www ({why}; web3 is in maint), 1 must stay."]
            assert haproxy.flags("www", "web1")[0] == READY
            assert hold(haproxy, server="web2", min_in_service="1")["refused"] == [], "what does not answer may go"
            haproxy.ask("set server www/web3 state ready")
            assert hold(haproxy, min_in_service="1")["refused"] == [], "one without a port of its own cannot be asked and counts"

    def test_where_no_server_of_a_backend_answers_their_states_decide(self, start, hold):
        """Perhaps they take connections from HAProxy alone, such as with `source` and a firewall. Otherwise all hosts could go out at once."""
        with contextlib.closing(listener()) as web:
            port, dead = web.getsockname()[1], free_port()
            haproxy = start(
                f"backend www\n  server web1 127.0.0.1:{dead}\n  server web2 127.0.0.1:{dead}\n"
                f"backend api\n  server web1 127.0.0.1:{port}\n  server web2 127.0.0.1:{port}\n"
            )
            assert hold(haproxy, min_in_service="1", backends=["www"], check=True)["refused"] == []
            assert hold(haproxy, min_in_service="2", backends=["www"])["refused"] == ["web1 stays: 2 of 2 in service in www, 2 must stay."]

    def test_a_silent_agent_tells_nothing(self, start, hold):
        """HAProxy leaves its server up, and so is each that takes over the state of that one."""
        with contextlib.closing(listener()) as web:
            port, dead = web.getsockname()[1], free_port()
            haproxy = start(
                f"backend www\n  server web1 127.0.0.1:{port}\n  server web2 127.0.0.1:{dead} agent-check agent-port {dead} agent-inter 100\n"
                f"backend api\n  server web1 127.0.0.1:{port}\n  server web3 127.0.0.1:{dead} track www/web2\n"
            )
            why = f"port {dead} of 127.0.0.1: Connection refused"
            refused = [f"web1 stays: 1 of 2 in service in {backend} ({why}), 1 must stay." for backend in ("www", "api")]
            assert hold(haproxy, min_in_service="1")["refused"] == refused

    def test_a_server_that_takes_over_checks_is_watched(self, start, hold):
        """It is not asked: HAProxy notices that it is down."""
        with contextlib.closing(listener()) as web:
            port, dead = web.getsockname()[1], free_port()
            haproxy = start(
                f"backend www\n  server web1 127.0.0.1:{port}\n  server web2 127.0.0.1:{dead} track seen/web\n"
                f"backend seen\n  server web 127.0.0.1:{port} check inter 100\n"
            )
            until(lambda: hold(haproxy, min_in_service="1")["refused"] == [], 10, "the first check")

    @pytest.mark.parametrize("tracks", [False, True])
    def test_a_server_that_haproxy_has_not_checked_yet_does_not_count(self, start, hold, tracks):
        """After each start and reload, all servers are up until their first check, the dead too. The checks are spread over their interval."""
        with contextlib.closing(listener()) as web:
            port, dead = web.getsockname()[1], free_port()
            checked = f"backend seen\n  server web1 127.0.0.1:{port} check inter 40s\n  server web2 127.0.0.1:{dead} check inter 40s\n"
            tracking = f"backend www\n  server web1 127.0.0.1:{port} track seen/web1\n  server web2 127.0.0.1:{dead} track seen/web2\n"
            haproxy = start(checked + tracking if tracks else checked)
            backend = "www" if tracks else "seen"
            why = "UP 1/3" if tracks else "UP 1/3: INI"
            told = f"web1 stays: 1 of 2 in service in {backend} (web2: its last check by HAProxy has not passed ({why})), 1 must stay."
            until(lambda: "L4OK" in haproxy.ask("show stat"), 10, "the check of web1")
            assert hold(haproxy, min_in_service="1", backends=[backend])["refused"] == [told] and haproxy.flags(backend, "web1")[0] == READY
            # It may go itself, whatever the check will say.
            assert hold(haproxy, server="web2", min_in_service="1", backends=[backend], check=True)["refused"] == []
            # Where HAProxy has lost that it was out, it does not wait: what runs there may be stopped already.
            assert hold(haproxy, min_in_service="0", backends=[backend])["refused"] == []
            haproxy.restart()
            assert hold(haproxy, min_in_service="1", backends=[backend])["refused"] == [] and haproxy.flags(backend, "web1")[0] != READY

    def test_a_server_whose_checks_have_begun_to_fail_does_not_count(self, start, hold):
        """HAProxy takes it out only after several, as when its application is started anew."""
        with contextlib.closing(listener()) as web:
            dies = listener()
            port, dead = web.getsockname()[1], dies.getsockname()[1]
            haproxy = start(f"backend www\n  server web1 127.0.0.1:{port} check inter 100\n  server web2 127.0.0.1:{dead} check inter 500 fall 99\n")
            until(lambda: hold(haproxy, min_in_service="1", check=True)["refused"] == [], 10, "both are checked")
            dies.close()
            until(lambda: "Connection refused" in haproxy.ask("show stat"), 10, "the first check that fails")
            (told,) = hold(haproxy, min_in_service="1")["refused"]
            assert told.startswith("web1 stays: 1 of 2 in service in www (web2: its last check by HAProxy has not passed (UP 9"), told
            assert haproxy.states("www")["web2"].up

    @pytest.mark.usefixtures("all_answer")
    def test_one_backend_that_would_be_short_forbids_all(self, start, hold, tmp_path):
        haproxy = start()
        before = haproxy.servers()
        result = hold(haproxy, min_in_service="1")
        assert result["refused"] == ["web1 stays: 1 of 1 in service in api, 1 must stay."]
        assert not result["changed"] and conditions(result) == {"www": "none", "api": "none"} and haproxy.servers() == before
        assert list((tmp_path / "state").iterdir()) == []
        assert hold(haproxy, min_in_service="1", check=True)["refused"] == result["refused"]
        assert hold(haproxy, min_in_service="0")["refused"] == []

    @pytest.mark.usefixtures("all_answer")
    def test_what_is_out_already_is_held_for_one_more_event(self, start, hold, release):
        haproxy = start()
        hold(haproxy)
        assert hold(haproxy, ["B"], min_in_service="100%")["servers"][0]["held_by"] == ["A", "B"]
        # It is back in rotation, and so it would have to go out anew.
        haproxy.reload()
        assert len(hold(haproxy, ["B"], min_in_service="100%")["refused"]) == 2
        assert not release(haproxy, min_in_service="100%")["refused"]

    def test_what_somebody_else_put_back_is_left_to_that(self, start, hold):
        haproxy = start()
        hold(haproxy)
        haproxy.ask("set server www/web1 state ready")
        result = hold(haproxy, min_in_service="100%")
        assert result["refused"] == [] and len(result["conflicts"]) == 1

    @pytest.mark.parametrize("least", ["many", "-1", "101%", "1.5", ""])
    def test_what_is_no_minimum(self, start, hold, least):
        with pytest.raises(ValueError, match="min_in_service: '%s' is neither a number of servers from 0 up nor a percentage" % least):
            hold(start(), min_in_service=least)


class TestTheWayBack:
    """Out of maintenance HAProxy's own checks decide, where it has any."""

    SECTIONS = """
frontend in
  bind 127.0.0.1:{front}
  default_backend www
backend www
  option httpchk
  retries 0
  server web1 127.0.0.1:{port} check inter {inter} rise 2 fall {fall}
  server web2 127.0.0.1:{other}
backend unchecked
  server web1 127.0.0.1:{port}
backend tracking
  server web1 127.0.0.1:{port} track www/web1
"""

    @pytest.fixture
    def bed(self, start):
        class Bed:
            def __init__(self):
                self.webs = []
                self.front, self.port, self.other = free_port(), free_port(), free_port()

            def start(self, fall=3, inter="200ms"):
                sections = TestTheWayBack.SECTIONS.format(front=self.front, port=self.port, other=self.other, fall=fall, inter=inter)
                self.haproxy = start(sections)
                return self.haproxy

            def serve(self, port):
                self.webs.append(Web("HTTP/1.0", port))

            def ask(self):
                try:
                    with urllib.request.urlopen("http://127.0.0.1:%d/" % self.front, timeout=patient(5)) as answer:
                        return answer.status
                except urllib.error.HTTPError as error:
                    return error.code

        bed = Bed()
        yield bed
        for web in bed.webs:
            web.close()

    @pytest.mark.parametrize("fall", [1, 3])
    def test_no_request_fails_where_the_application_comes_late(self, bed, hold, release, fall):
        bed.serve(bed.other)
        haproxy = bed.start(fall)
        hold(haproxy, out_state="maint", backends=["www"])
        asked, over = [], threading.Event()

        def ask():
            while not over.is_set():
                asked.append(bed.ask())

        client = threading.Thread(target=ask, daemon=True)
        client.start()
        began = time.monotonic()
        late = threading.Timer(1.5, bed.serve, [bed.port])
        late.start()
        until(lambda: asked, 10, "the first answer")
        result = release(haproxy, backends=["www"], timeout=patient(20.0))
        took = time.monotonic() - began
        before = len(asked)
        until(lambda: len(asked) > before + 50, 20, "the next answers, of both servers")
        over.set()
        client.join()
        late.join()
        assert set(asked) == {200}
        assert result["changed"] and result["waiting_for"] == [] and conditions(result) == {"www": "none"}
        # Two checks, 200 ms apart, after it answers.
        assert took > 1.6 and haproxy.flags("www", "web1")[0] == READY
        assert result["diff"]["before"]["www/web1"]["admin_state"] == "maint"

    def test_each_step(self, bed, hold, release, tmp_path):
        haproxy = bed.start()
        hold(haproxy, out_state="maint", backends=["www"])

        def step(changed):
            result = release(haproxy, backends=["www"])
            assert result["changed"] == changed and conditions(result) == {"www": "held"}
            (waiting,) = result["waiting_for"]
            assert waiting.startswith("www/web1 waits in drain until HAProxy's health check passes (DOWN")
            assert haproxy.flags("www", "web1")[0] == DRAIN
            return waiting

        step(True)
        until(lambda: "Connection refused" in step(False), 10, "a check that fails")
        bed.serve(bed.port)
        assert release(haproxy, backends=["www"], timeout=patient(5.0))["waiting_for"] == []
        assert haproxy.flags("www", "web1")[0] == READY and list((tmp_path / "state").iterdir()) == []

    @pytest.mark.parametrize("timeout, state", [(0.0, DRAIN), (20.0, READY)])
    def test_check_mode_predicts_what_comes_next(self, bed, hold, release, timeout, state):
        # No check passes while the step is taken that does not wait for one.
        haproxy = bed.start(inter="200ms" if timeout else "1h")
        bed.serve(bed.port)
        hold(haproxy, out_state="maint", backends=["www"])
        predicted = hold(haproxy, None, "absent", check=True, backends=["www"], timeout=timeout)
        assert haproxy.flags("www", "web1")[0] == MAINT
        result = release(haproxy, backends=["www"], timeout=timeout)
        assert haproxy.flags("www", "web1")[0] == state
        for key in ("changed", "diff", "conflicts"):
            assert predicted[key] == result[key], key
        for one in (predicted, result):
            assert [told[:51] for told in one["waiting_for"]] == ([] if timeout else ["www/web1 waits in drain until HAProxy's health chec"])

    def test_check_mode_does_not_wait(self, bed, hold, release):
        haproxy = bed.start()
        hold(haproxy, out_state="maint", backends=["www"])
        assert release(haproxy, backends=["www"])["waiting_for"]
        began = time.monotonic()
        assert hold(haproxy, None, "absent", check=True, backends=["www"], timeout=60.0)["waiting_for"]
        assert time.monotonic() - began < 10 and haproxy.flags("www", "web1")[0] == DRAIN

    @pytest.mark.parametrize("released", [None, ("A",)], ids=["all", "one event"])
    @pytest.mark.parametrize("later", ["A", "B"], ids=["the same event", "another"])
    def test_a_hold_that_is_put_while_a_release_waits_stays(self, bed, hold, released, later):
        """What held the server is released, and nothing that comes later."""
        haproxy = bed.start()
        hold(haproxy, ("A",), out_state="maint", backends=["www"])

        def comes_later(seconds):
            if not bed.webs:
                hold(haproxy, (later,), backends=["www"])
                bed.serve(bed.port)
            time.sleep(seconds)

        result = hold(haproxy, released, "absent", backends=["www"], timeout=patient(5.0), sleep=comes_later)
        assert bed.webs
        (server,) = result["servers"]
        assert server["held_by"] == [later] and result["waiting_for"] == [] and haproxy.flags("www", "web1")[0] != READY

    def test_one_whose_machine_is_gone_for_good_is_given_back_at_once(self, bed, hold, release, tmp_path):
        """It is down until a check passes, and nobody is sent there."""
        bed.serve(bed.other)
        haproxy = bed.start()
        hold(haproxy, out_state="maint", backends=["www"])
        result = release(haproxy, backends=["www"], timeout=0.0, await_checks=False)
        assert result["waiting_for"] == [] and haproxy.flags("www", "web1")[0] == READY and list((tmp_path / "state").iterdir()) == []
        assert result["servers"][0]["status"].startswith("DOWN") and {bed.ask() for _request in range(4)} == {200}

    def test_one_whose_checks_need_what_comes_back_after_it_does_not_wait_for_them(self, bed, hold, release, tmp_path):
        """Such as a listener that stands before the balancer in the duties. It gets nothing before a check passes."""
        bed.serve(bed.other)
        haproxy = bed.start()
        hold(haproxy, out_state="maint", backends=["www"])
        result = release(haproxy, backends=["www"], timeout=0.0, checked_later=True)
        assert result["waiting_for"] == [] and haproxy.flags("www", "web1")[0] == READY and list((tmp_path / "state").iterdir()) == []
        assert result["servers"][0]["status"].startswith("DOWN") and {bed.ask() for _request in range(4)} == {200}
        bed.serve(bed.port)
        until(lambda: haproxy.states("www")["web1"].up, 10, "up again")

    @pytest.mark.parametrize("noticed", [False, True], ids=["no check has failed yet", "checks have begun to fail"])
    def test_one_that_is_gone_for_good_and_was_in_drain_gets_nobody_either(self, bed, hold, noticed):
        bed.serve(bed.other)
        bed.serve(bed.port)
        haproxy = bed.start(fall=9)
        hold(haproxy, out_state="drain", backends=["www"])
        time.sleep(0.3)
        bed.webs[-1].close()
        time.sleep(0.6 if noticed else 0.0)
        arguments = {"backends": ["www"], "timeout": 0.0, "await_checks": False}
        predicted = hold(haproxy, None, "absent", check=True, **arguments)
        result = hold(haproxy, None, "absent", **arguments)
        assert result["waiting_for"] == [] and haproxy.flags("www", "web1")[0] == READY and result["servers"][0]["status"].startswith("DOWN")
        assert {bed.ask() for _request in range(8)} == {200}
        for key in ("changed", "diff", "conflicts", "waiting_for"):
            assert predicted[key] == result[key], key

    def test_where_nothing_checks_it_comes_back_at_once(self, bed, hold, release):
        haproxy = bed.start()
        hold(haproxy, out_state="maint", backends=["unchecked"])
        result = release(haproxy, backends=["unchecked"])
        assert result["waiting_for"] == [] and haproxy.flags("unchecked", "web1")[0] == READY

    def test_one_that_tracks_follows_the_other(self, bed, hold, release):
        haproxy = bed.start()
        hold(haproxy, out_state="maint", backends=["www", "tracking"])
        result = release(haproxy, backends=["www", "tracking"])
        assert [one[:8] for one in result["waiting_for"]] == ["www/web1"]
        assert {s["backend"]: s["admin_state"] for s in result["servers"]} == {"www": "drain", "tracking": "drain"}
        bed.serve(bed.port)
        result = release(haproxy, timeout=patient(5.0))
        assert {s["backend"]: s["admin_state"] for s in result["servers"] if s["backend"] != "unchecked"} == {"www": "ready", "tracking": "ready"}

    @staticmethod
    def until_operational(haproxy, *states):
        until(lambda: next(rows_of(haproxy.ask("show servers state www")))["srv_op_state"] in states, 10, pause=0.02)

    def test_while_its_checks_fail_and_it_still_counts_as_up_it_waits(self, bed, hold, release, tmp_path):
        bed.serve(bed.port)
        haproxy = bed.start(fall=20)
        hold(haproxy, out_state="drain", backends=["www"])
        time.sleep(0.3)
        bed.webs[0].close()
        until(lambda: "Connection refused" in haproxy.ask("show stat www 4 -1"), 10, "the first of twenty checks", 0.02)
        (waiting,) = release(haproxy, backends=["www"])["waiting_for"]
        assert "Connection refused" in waiting and haproxy.flags("www", "web1")[0] == DRAIN
        # It ends either way.
        assert release(haproxy, backends=["www"], timeout=patient(10))["waiting_for"] == []
        self.until_operational(haproxy, "0")
        assert haproxy.flags("www", "web1")[0] == READY and list((tmp_path / "state").iterdir()) == []

    def test_out_of_drain_it_comes_back_at_once(self, bed, hold, release):
        """It was checked all the time, and HAProxy sends nobody to a server that is down."""
        haproxy = bed.start()
        hold(haproxy, out_state="drain", backends=["www"])
        self.until_operational(haproxy, "0")
        assert release(haproxy, backends=["www"])["waiting_for"] == []
        assert haproxy.flags("www", "web1")[0] == READY

    def test_checks_that_are_switched_off_meanwhile(self, bed, hold, release):
        haproxy = bed.start()
        hold(haproxy, out_state="maint", backends=["www"])
        assert release(haproxy, backends=["www"])["waiting_for"]
        haproxy.ask("disable health www/web1")
        assert not release(haproxy, backends=["www"])["waiting_for"] and haproxy.flags("www", "web1")[0] == READY
        # As HAProxy itself takes a server that it does not check.
        self.until_operational(haproxy, "2")

    def test_held_again_meanwhile(self, bed, hold, release):
        haproxy = bed.start()
        hold(haproxy, out_state="maint", backends=["www"])
        release(haproxy, backends=["www"])
        result = hold(haproxy, ["B"], backends=["www"])
        assert haproxy.flags("www", "web1")[0] == MAINT and result["servers"][0]["held_by"] == ["B"]
        assert release(haproxy, ["B"], backends=["www"])["waiting_for"] and haproxy.flags("www", "web1")[0] == DRAIN

    @pytest.mark.parametrize("state", ["ready", "maint"])
    def test_somebody_acts_meanwhile(self, bed, hold, release, state, tmp_path):
        haproxy = bed.start()
        hold(haproxy, out_state="maint", backends=["www"])
        release(haproxy, backends=["www"])
        haproxy.ask("set server www/web1 state " + state)
        result = release(haproxy, backends=["www"])
        assert len(result["conflicts"]) == 1
        assert haproxy.flags("www", "web1")[0] == {"ready": READY, "maint": MAINT}[state]
        bed.serve(bed.port)
        time.sleep(1)
        release(haproxy, backends=["www"])
        assert haproxy.flags("www", "web1")[0] == {"ready": READY, "maint": MAINT}[state]
        assert list((tmp_path / "state").iterdir()) == []

    def test_a_reload_meanwhile(self, bed, hold, release, tmp_path):
        haproxy = bed.start()
        hold(haproxy, out_state="maint", backends=["www"])
        release(haproxy, backends=["www"])
        haproxy.reload()
        result = release(haproxy, backends=["www"])
        assert (result["waiting_for"], result["conflicts"], conditions(result)) == ([], [], {"www": "none"})
        assert haproxy.flags("www", "web1")[0] == READY and list((tmp_path / "state").iterdir()) == []

    def test_check_mode_says_how_it_ends(self, bed, hold, release):
        haproxy = bed.start()
        hold(haproxy, out_state="maint", backends=["www"])
        result = release(haproxy, backends=["www"], check=True, timeout=30.0)
        assert result["changed"] and result["waiting_for"] == [] and conditions(result) == {"www": "none"}
        assert haproxy.flags("www", "web1")[0] == MAINT


class TestSomebodyActed:
    @pytest.mark.parametrize("state", ["ready", "maint"])
    def test_reported_and_untouched(self, start, hold, release, state, tmp_path):
        haproxy = start()
        hold(haproxy)
        haproxy.ask("set server www/web1 state " + state)
        before = haproxy.flags("www", "web1")
        result = hold(haproxy)
        assert not result["changed"] and len(result["conflicts"]) == 1
        assert conditions(result) == {"www": "changed_meanwhile", "api": "held"}
        result = release(haproxy)
        assert result["conflicts"][0].startswith("www/web1 was left in drain and is in %s now" % state)
        assert haproxy.flags("www", "web1") == before
        assert haproxy.flags("api", "web1") == (READY, 1)
        assert list((tmp_path / "state").iterdir()) == []


class TestCheckMode:
    def test_it_predicts_and_touches_nothing(self, start, hold, release, tmp_path):
        haproxy = start()
        before = haproxy.servers()
        acts = [(hold, {}), (hold, {}), (hold, {"ids": ["B"]}), (release, {"ids": ["A"]}), (release, {}), (release, {})]
        for number, (act, arguments) in enumerate(acts):
            predicted = act(haproxy, check=True, **arguments)
            if number == 0:
                assert not (tmp_path / "state").exists() and haproxy.servers() == before
            done = act(haproxy, **arguments)
            for result in (predicted, done):
                for server in result["servers"]:
                    del server["status"]  # HAProxy's own words are not predicted
            assert predicted == done

    def test_the_difference_is_shown(self, start, hold):
        assert hold(start(), backends=["www"], check=True)["diff"] == {
            "before": {"www/web1": {"admin_state": "ready", "weight": 10, "held_by": []}},
            "after": {"www/web1": {"admin_state": "drain", "weight": 10, "held_by": ["A"]}},
        }


class TestBadInput:
    def fails(self, hold, haproxy, said, **more):
        before = haproxy.servers()
        with pytest.raises((HaproxyError, ValueError)) as caught:
            hold(haproxy, **more)
        assert said in str(caught.value)
        assert haproxy.servers() == before

    def test_no_socket(self, start, hold, tmp_path):
        self.fails(hold, start(), "There is no HAProxy socket %s/nowhere." % tmp_path, socket=str(tmp_path / "nowhere"))

    def test_nobody_listens(self, start, hold, tmp_path):
        path = str(tmp_path / "dead.sock")
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(path)
        self.fails(hold, start(), "Nobody listens on the HAProxy socket " + path, socket=path)

    def test_a_file_in_its_place(self, start, hold, tmp_path):
        (tmp_path / "file").write_text("")
        self.fails(hold, start(), "Nobody listens on the HAProxy socket", socket=str(tmp_path / "file"))

    def test_a_path_that_is_too_long(self, start, hold, tmp_path):
        self.fails(hold, start(), "cannot be used: AF_UNIX path too long", socket=str(tmp_path / ("x" * 200)))

    @pytest.mark.parametrize("level", ["user", "operator"])
    def test_a_socket_that_allows_too_little(self, start, hold, level):
        haproxy = start()
        path = getattr(haproxy, level + "_socket")
        self.fails(hold, haproxy, "%s allows only the level %s" % (path, level), socket=path)

    @pytest.mark.parametrize("name", ["web1; disable server www/web2", "web1\nshow info", "", "web 1", "#1"])
    def test_hostile_names(self, start, hold, name):
        self.fails(hold, start(), repr(name), server=name)
        self.fails(hold, start(), repr(name), backends=[name])

    def test_unknown_names(self, start, hold):
        haproxy = start()
        self.fails(hold, haproxy, "has a server 'web9'", server="web9")
        self.fails(hold, haproxy, "has no backend 'nope'", backends=["nope"])
        self.fails(hold, haproxy, "The backend 'api' of HAProxy", server="web2", backends=["www", "api"])

    @pytest.mark.parametrize("says", [b"", b"Hello\n", b"x" * 1000])
    def test_something_else_listens(self, start, hold, tmp_path, says):
        with silent_socket(tmp_path / "other.sock", says) as path:
            self.fails(hold, start(), path, socket=path)

    def test_it_accepts_and_never_answers(self, start, hold, tmp_path):
        haproxy = start()
        with silent_socket(tmp_path / "silent.sock", None) as path:
            began = time.monotonic()
            self.fails(hold, haproxy, "did not answer 'show cli level' on socket %s within 3 seconds" % path, socket=path)
            assert time.monotonic() - began < 5

    def test_its_queue_is_full(self, start, hold, tmp_path):
        path = str(tmp_path / "full.sock")
        with socket.socket(socket.AF_UNIX) as full, socket.socket(socket.AF_UNIX) as first:
            full.bind(path)
            full.listen(0)
            first.connect(path)
            self.fails(hold, start(), "did not answer", socket=path)

    def test_without_the_rights(self, start, tmp_path):
        """A process of another user, when the test runs as root."""
        haproxy = start()
        if os.getuid():
            os.chmod(haproxy.socket, 0)
        result = run_module(
            "haproxy_hold",
            {"socket": haproxy.socket, "server": "web1", "event_ids": ["A"], "state_dir": str(tmp_path / "state")},
            user=65534 if os.getuid() == 0 else None,
        )
        user = os.getuid() or 65534
        assert result["failed"] and result["msg"].startswith(
            "User id %d may not use the HAProxy socket %s. Set ansible_become: true for that machine" % (user, haproxy.socket)
        )

    def test_a_state_folder_that_cannot_be_written(self, start, hold):
        haproxy = start()
        before = haproxy.servers()
        result = run_module("haproxy_hold", {"socket": haproxy.socket, "server": "web1", "event_ids": ["A"], "state_dir": "/proc/graceful"})
        assert result["failed"] and "/proc/graceful" in result["msg"]
        assert haproxy.servers() == before

    def test_a_record_cut_in_half(self, start, hold, release, tmp_path):
        haproxy = start()
        hold(haproxy, backends=["www"])
        (path,) = (tmp_path / "state").iterdir()
        path.write_bytes(path.read_bytes()[:100])
        for act in (hold, release):
            with pytest.raises(Exception, match="not complete JSON") as caught:
                act(haproxy)
            assert str(path) in str(caught.value)
        assert haproxy.flags("www", "web1") == (DRAIN, 10) and haproxy.flags("api", "web1") == (READY, 1)


class TestTogether:
    def test_two_at_once_on_one_server(self, start, tmp_path):
        """Real processes, many times: everybody's event is on the hold, and the server is out once."""
        haproxy = start()
        ids = ["event-%d" % number for number in range(6)]
        common = {"socket": haproxy.socket, "server": "web1", "state_dir": str(tmp_path / "state")}
        modules = [run_module("haproxy_hold", dict(common, event_ids=[i]), wait=False) for i in ids]
        results = [finish() for finish in modules]
        assert [result.get("msg") for result in results] == [None] * len(ids)
        records = [json.loads(path.read_text()) for path in (tmp_path / "state").iterdir()]
        assert [sorted(record["events"]) for record in records] == [ids, ids]
        assert haproxy.flags("www", "web1") == (DRAIN, 10)
        modules = [run_module("haproxy_hold", dict(common, event_ids=[i], state="absent"), wait=False) for i in ids]
        assert sum(finish()["changed"] for finish in modules) == len(ids)
        assert haproxy.flags("www", "web1") == (READY, 10)
        assert list((tmp_path / "state").iterdir()) == []

    def test_two_at_once_on_two_servers_of_which_one_must_stay(self, start, tmp_path):
        """Two controllers, each of which has seen both in service."""
        with contextlib.closing(listener()) as one, contextlib.closing(listener()) as two:
            ports = one.getsockname()[1], two.getsockname()[1]
            haproxy = start("backend www\n  server web1 127.0.0.1:%d\n  server web2 127.0.0.1:%d\n  server sorry 127.0.0.1:3 backup\n" % ports)
            common = {"socket": haproxy.socket, "state_dir": str(tmp_path / "state"), "min_in_service": 1}
            for _round in range(3):
                modules = {n: run_module("haproxy_hold", dict(common, server=n, event_ids=["for " + n]), wait=False) for n in ("web1", "web2")}
                results = {name: finish() for name, finish in modules.items()}
                (out,) = [name for name, result in results.items() if result["changed"]]
                (stays,) = {"web1", "web2"} - {out}
                assert results[out]["refused"] == [] and haproxy.flags("www", out)[0] == DRAIN
                assert results[stays]["refused"] == [f"{stays} stays: 1 of 2 in service in www ({out} is in drain), 1 must stay."]
                assert results[stays]["servers"][0]["condition"] == "none" and haproxy.flags("www", stays)[0] == READY
                assert len(list((tmp_path / "state").iterdir())) == 1
                run_module("haproxy_hold", dict(common, server=out, state="absent"))

    # After each call it is in test_haproxy.py, on a HAProxy that is made up.
    @pytest.mark.parametrize("stride", [7, pytest.param(1, marks=[pytest.mark.long, pytest.mark.timeout(600)])])
    def test_killed_on_the_way_from_drain_to_maint(self, start, hold, release, tmp_path, stride):
        """What the killed one had not got to is in drain, and is as much ours as what it had got to."""
        haproxy = start()
        before = haproxy.servers()
        params = {"server": "web1", "socket": haproxy.socket, "state_dir": str(tmp_path / "state"), "event_ids": ["B"], "out_state": "maint"}
        survived = False
        calls = 0
        while not survived:
            for again in (hold, release):
                hold(haproxy, out_state="drain")
                survived = survives(calls, params)
                if again is hold:
                    result = hold(haproxy, ["B"], out_state="maint")
                    assert conditions(result) == {"www": "held", "api": "held"} and result["conflicts"] == []
                    assert haproxy.flags("www", "web1") == (MAINT, 10) and haproxy.flags("api", "web1") == (MAINT, 1)
                assert release(haproxy)["conflicts"] == []
                assert haproxy.servers() == before
            calls += stride
        assert calls > 20

    @pytest.mark.parametrize("stride", [5, pytest.param(1, marks=[pytest.mark.long, pytest.mark.timeout(600)])])
    def test_killed_processes(self, start, hold, release, tmp_path, stride):
        """SIGKILL before one of its calls of the kernel's, one after the other; the next run puts it right."""
        haproxy = start()
        before = haproxy.servers()
        params = {"server": "web1", "socket": haproxy.socket, "state_dir": str(tmp_path / "state")}
        survived = False
        calls = 0
        while not survived:
            survived = survives(calls, params)
            result = hold(haproxy)
            assert conditions(result) == {"www": "held", "api": "held"} and result["conflicts"] == []
            assert haproxy.flags("www", "web1") == (DRAIN, 10) and haproxy.flags("api", "web1") == (DRAIN, 1)
            assert release(haproxy)["conflicts"] == []
            assert haproxy.servers() == before
            calls += stride
        assert calls > 30


def survives(calls, params):
    """Whether haproxy_hold with these options came to its end before so many of its calls of the kernel's, where it is killed."""
    said, complained = run_program(KILLED, str(calls), json.dumps(params))()
    assert said in ("", "survived") and not complained, complained
    return bool(said)


KILLED = """
import json, os, signal, socket, sys
left, params = int(sys.argv[1]), json.loads(sys.argv[2])
from tests.support.calls import call
def counting(real):
    def act(*args, **kwargs):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)
    return act
for name in ("open", "write", "fsync", "rename", "unlink", "mkdir"):
    setattr(os, name, counting(getattr(os, name)))
socket.socket.connect = counting(socket.socket.connect)
socket.socket.sendall = counting(socket.socket.sendall)
common = dict(state="present", event_ids=["A"], event_details={}, reason="", backends=None, out_state=None, min_in_service=None)
call("haproxy_hold", dict(common, **params))
print("survived", end="")
"""


class silent_socket:
    """A socket that says something else, or nothing at all, to everybody who comes."""

    def __init__(self, path, says):
        self.path, self._says = str(path), says

    def __enter__(self):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self.path)
        self._socket.listen(20)
        self._socket.settimeout(0.1)
        self._stopped = threading.Event()
        self._open = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        return self.path

    def _serve(self):
        while not self._stopped.is_set():
            try:
                connection = self._socket.accept()[0]
            except TimeoutError:
                continue
            if self._says is None:
                self._open.append(connection)
                continue
            # Who has read enough hangs up.
            with connection, contextlib.suppress(ConnectionError):
                connection.recv(1000)
                connection.sendall(self._says)

    def __exit__(self, *exception):
        self._stopped.set()
        self._thread.join()
        for connection in self._open:
            connection.close()
        self._socket.close()


class reloaded_socket(silent_socket):
    """A socket whose connections come to several HAProxies, one after the other."""

    def __init__(self, path, haproxies):
        super().__init__(path, None)
        self._haproxies = itertools.cycle(haproxies)

    def _serve(self):
        while not self._stopped.is_set():
            try:
                connection = self._socket.accept()[0]
            except TimeoutError:
                continue
            with connection:
                line = connection.recv(1000).decode()
                connection.sendall(next(self._haproxies).ask(line.rstrip("\n")).encode())


class Agent:
    """A TCP agent that answers every question with the same word, and counts the questions."""

    def __init__(self, word=b"ready\n"):
        self.word = word
        self.asked = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.1)
        self.port = self._listener.getsockname()[1]
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        while not self._stopped.is_set():
            try:
                connection = self._listener.accept()[0]
            except TimeoutError:
                continue
            self.asked += 1
            with connection, contextlib.suppress(OSError):
                connection.sendall(self.word)

    def until_asked(self, times=2):
        wanted = self.asked + times
        until(lambda: self.asked >= wanted, 5, "it is asked", pause=0.02)

    def close(self):
        self._stopped.set()
        self._thread.join()
        self._listener.close()


@pytest.fixture
def agent():
    agent = Agent()
    yield agent
    agent.close()


class TestAgentCheck:
    """An agent that answers `ready` every 100 ms undid every hold."""

    @pytest.fixture
    def haproxy(self, start, agent):
        # HAProxy 2.2 has to send something, or the kernel holds the connection back for 200 ms, which is longer than it waits.
        haproxy = start(
            "backend www\n  server web1 127.0.0.1:1 agent-check agent-inter 100ms agent-send x agent-port %d\n  server web2 127.0.0.1:1\n" % agent.port
        )
        agent.until_asked()
        return haproxy

    @staticmethod
    def stays_out(haproxy, seconds=0.6):
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            assert haproxy.flags("www", "web1")[0] in (DRAIN, MAINT)
            time.sleep(0.02)

    @pytest.mark.parametrize("state", ["drain", "maint"])
    def test_it_does_not_undo_a_hold_and_is_given_back(self, haproxy, agent, hold, release, state):
        result = hold(haproxy, out_state=state)
        assert conditions(result) == {"www": "held"} and result["servers"][0]["agent"] == "disabled"
        assert result["servers"][0]["found"] == {"admin_state": "ready", "weight": 1, "agent": "enabled"}
        self.stays_out(haproxy)
        assert not hold(haproxy, out_state=state)["changed"]
        result = release(haproxy)
        assert result["servers"][0]["agent"] == "enabled" and haproxy.flags("www", "web1")[0] == READY
        agent.until_asked()

    @pytest.mark.parametrize("word", ["drain", "maint"])
    def test_a_server_that_it_has_taken_out_is_not_put_back_in_mid_event(self, haproxy, agent, hold, release, word):
        flags = {"drain": DRAIN, "maint": MAINT}[word]
        agent.word = word.encode() + b"\n"
        agent.until_asked()
        assert hold(haproxy, check=True)["servers"][0]["agent"] == "disabled"
        result = hold(haproxy)
        assert conditions(result) == {"www": "held"} and result["servers"][0]["agent"] == "disabled" and haproxy.flags("www", "web1")[0] == flags
        assert result["servers"][0]["found"] == {"admin_state": word, "weight": 1, "agent": "enabled"}
        assert not hold(haproxy, out_state="maint")["changed"] and haproxy.flags("www", "web1")[0] == flags, "it stays as somebody else wants it"
        agent.word = b"ready\n"
        self.stays_out(haproxy)
        result = release(haproxy)
        assert result["servers"][0]["agent"] == "enabled" and result["conflicts"] == []
        agent.until_asked()
        assert haproxy.flags("www", "web1")[0] == READY

    def test_a_server_that_a_person_puts_back_is_taken_out(self, haproxy, agent, hold, release):
        """As one without an agent that was out already."""
        agent.word = b"up\n"
        haproxy.ask("set server www/web1 state maint")
        hold(haproxy)
        haproxy.ask("set server www/web1 state ready")
        result = hold(haproxy)
        assert conditions(result) == {"www": "held"} and result["conflicts"] == [] and not result["servers"][0]["put_right"]
        assert haproxy.flags("www", "web1")[0] == DRAIN
        result = release(haproxy)
        assert result["servers"][0]["agent"] == "enabled" and haproxy.flags("www", "web1")[0] == READY

    def test_it_is_disabled_again_after_a_reload(self, haproxy, agent, hold, release):
        hold(haproxy)
        haproxy.reload()
        agent.until_asked()
        result = hold(haproxy)
        assert conditions(result) == {"www": "held"} and result["servers"][0]["put_right"]
        self.stays_out(haproxy)
        release(haproxy)
        agent.until_asked()

    def test_one_that_was_disabled_stays_so(self, haproxy, agent, hold, release):
        haproxy.ask("disable agent www/web1")
        assert hold(haproxy)["servers"][0]["found"] == {"admin_state": "ready", "weight": 1}
        assert release(haproxy)["servers"][0]["agent"] == "disabled"

    def test_a_hold_of_the_version_before_has_it_disabled_now(self, haproxy, agent, hold, release, tmp_path):
        haproxy.ask("disable agent www/web1")
        hold(haproxy)
        (record,) = (tmp_path / "state").iterdir()
        content = json.loads(record.read_text())
        del content["total_sessions"]
        record.write_text(json.dumps(content))
        agent.word = b"up\n"  # as before it answers `ready`
        haproxy.ask("enable agent www/web1")
        assert hold(haproxy)["servers"][0]["agent"] == "disabled"
        assert release(haproxy)["servers"][0]["agent"] == "enabled"

    def test_it_is_given_back_where_somebody_else_put_the_server_back(self, haproxy, agent, hold, release):
        hold(haproxy)
        haproxy.ask("set server www/web1 state ready")
        assert conditions(hold(haproxy)) == {"www": "changed_meanwhile"}
        result = release(haproxy)
        assert len(result["conflicts"]) == 1
        agent.until_asked()

    @pytest.mark.parametrize(("at", "word"), [*((at, "ready") for at in range(1, 5)), (1, "drain"), (2, "drain")])
    @pytest.mark.parametrize("going", ["out", "in"])
    def test_killed_between_any_two_commands(self, haproxy, agent, hold, release, monkeypatch, at, word, going):
        """Whoever comes next brings it to the same end."""
        agent.word = word.encode() + b"\n"
        agent.until_asked()
        if going == "in":
            hold(haproxy)
        told = []
        command = _haproxy.Haproxy.command

        class Killed(BaseException):
            pass

        def counted(self, line):
            if line.startswith(("set server", "disable agent", "enable agent")):
                told.append(line)
                if len(told) == (at + 1) // 2 and at % 2:
                    raise Killed  # before it
                answer = command(self, line)
                if len(told) == at // 2 and not at % 2:
                    raise Killed  # after it
                return answer
            return command(self, line)

        with monkeypatch.context() as patched:
            patched.setattr(_haproxy.Haproxy, "command", counted)
            with pytest.raises(Killed):
                hold(haproxy) if going == "out" else release(haproxy)
        agent.word = b"ready\n"
        if going == "out":
            assert conditions(hold(haproxy)) == {"www": "held"}
            self.stays_out(haproxy, 0.3)
        result = release(haproxy)
        agent.until_asked()
        assert result["conflicts"] == [] and haproxy.flags("www", "web1")[0] == READY


class TestMaster:
    def test_its_socket_is_named_as_what_it_is(self, tmp_path):
        folder = tmp_path / "haproxy"
        folder.mkdir()
        (folder / "haproxy.cfg").write_text(
            "global\n  stats socket %s/admin.sock level admin\ndefaults\n  timeout connect 1s\n  timeout client 1s\n  timeout server 1s\n"
            "backend www\n  server web1 127.0.0.1:1\n" % folder
        )
        master = subprocess.Popen(
            ["haproxy", "-W", "-S", str(folder / "master.sock"), "-f", str(folder / "haproxy.cfg")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            # While it loads it resets connections.
            until(lambda: (folder / "admin.sock").exists() and _haproxy.Haproxy(str(folder / "master.sock"))._is_master(), 10, pause=0.02)
            with pytest.raises(HaproxyError, match="the socket of HAProxy's master process .-S., .* Name the stats socket of the worker"):
                _haproxy.Haproxy(str(folder / "master.sock"), command_seconds=0.5).look()
            with pytest.raises(HaproxyError, match="master process"):
                _haproxy.Haproxy(str(folder / "master.sock"), command_seconds=0.5).level()
            assert _haproxy.Haproxy(str(folder / "admin.sock")).level() == "admin"
        finally:
            os.killpg(master.pid, signal.SIGTERM)
            master.wait(patient(5))

    @pytest.mark.parametrize("text", ["@1", "@!4711", "/run/haproxy-master.sock @1", "/run/haproxy/@1"])
    def test_a_prefix_of_it_is_refused_by_name(self, text):
        with pytest.raises(ValueError, match="a prefix for HAProxy's master socket"):
            _haproxy.socket_path(text)


class Gone:
    """A HAProxy that does not run."""

    socket = None


class TestAbsent:
    @pytest.fixture
    def nobody(self, monkeypatch):
        monkeypatch.setattr(haproxy_duty, "runs_no_haproxy", lambda: True)

    @staticmethod
    def stopped(haproxy):
        haproxy.stop()
        return haproxy

    def test_where_none_runs_there_is_nothing_to_do(self, start, hold, release, nobody, tmp_path):
        haproxy = self.stopped(start())
        result = hold(haproxy, absent="no_traffic")
        assert result["absent"] and not result["changed"] and result["servers"] == []
        with pytest.raises(HaproxyError):
            hold(haproxy)
        haproxy.start()
        assert conditions(hold(haproxy, absent="no_traffic")) == {"www": "held", "api": "held"}
        # It becomes passive during the event: there is nothing to put back.
        self.stopped(haproxy)
        assert release(haproxy, ["B"], absent="no_traffic")["changed"] is False
        Gone.socket = str(tmp_path / "other.sock")  # the path in the settings was changed meanwhile
        assert list(release(Gone, absent="no_traffic", backends=["www"], check=True)["diff"]["before"]) == ["www/web1"]
        # Backends that are no longer named do not matter to the events.
        released = release(Gone, ["A"], absent="no_traffic", backends=["other"])
        assert released["changed"] and not release(Gone, absent="no_traffic")["changed"]
        held = {"admin_state": None, "weight": None, "held_by": ["A"]}
        assert released["diff"]["before"] == {"www/web1": held, "api/web1": held}
        assert released["diff"]["after"] == {"www/web1": dict(held, held_by=[]), "api/web1": dict(held, held_by=[])}
        assert list((tmp_path / "state").iterdir()) == []

    def test_a_hold_that_is_put_while_a_release_waits_stays(self, start, hold, nobody, tmp_path):
        """The hold comes for the same event, and then HAProxy ends."""
        haproxy = start("backend www\n  server web1 127.0.0.1:1 check inter 1h\n")
        hold(haproxy, out_state="maint")

        def meanwhile(_seconds):
            hold(haproxy)
            self.stopped(haproxy)

        result = hold(haproxy, ["A"], "absent", timeout=30.0, absent="no_traffic", sleep=meanwhile)
        assert result["absent"] and result["diff"]["after"]["www/web1"]["held_by"] == ["A"]
        (record,) = (tmp_path / "state").iterdir()
        assert json.loads(record.read_text())["phase"] == "held"

    def test_another_haproxy_on_the_machine_is_one(self, start, hold):
        haproxy = self.stopped(start())
        start()
        with pytest.raises(HaproxyError, match="Nobody listens|There is no HAProxy socket"):
            hold(haproxy, absent="no_traffic")

    def test_a_socket_that_does_not_answer_is_not_absent(self, hold, nobody, tmp_path):
        path = tmp_path / "mute.sock"
        with socket.socket(socket.AF_UNIX) as mute:
            mute.bind(str(path))
            mute.listen()

            class Mute:
                socket = str(path)

            with pytest.raises(HaproxyError, match="did not answer"):
                hold(Mute, absent="no_traffic")
