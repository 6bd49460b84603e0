# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What nine versions of HAProxy answer to the commands that are used, in haproxy_answers/VERSION.txt.

Each file says where its answers come from: a real HAProxy, or the sources of a version that could not be had. All have
the same configuration:

    resolvers dns
      nameserver one 127.0.0.1:1
    backend www
      cookie SRV insert indirect
      server web1 192.0.2.11:8080 weight 10 cookie a check inter 100s
      server web2 192.0.2.12:8080 weight 20 cookie b backup             # set to drain
      server web3 [2001:db8::13]:8080 disabled
      server web4 unknown.invalid:8080 resolvers dns init-addr none
      server web5 192.0.2.15:8080 agent-check agent-port 1 agent-inter 100s
      server web6 192.0.2.16
    backend api
      stick-table type ip size 1k expire 1m
      stick on src
      server web1 192.0.2.11:8081 track www/web1
"""

from __future__ import annotations

import re
import time
from collections import Counter
from pathlib import Path

import pytest
from ansible_collections.graceful.azure.plugins.module_utils import _haproxy
from ansible_collections.graceful.azure.plugins.module_utils._haproxy import Haproxy, HaproxyRefused
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_former_processes import Former
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_servers import HaproxyError

ANSWERS = Path(__file__).with_name("haproxy_answers")
VERSIONS = sorted(path.stem for path in ANSWERS.glob("*.txt"))

# From 2.4 on HAProxy tells when it started; before, that is now less the time that it has been up.
SINCE_START_TIME = "2.4"


class Answering(Haproxy):
    """A socket that answers as that version does."""

    def __init__(self, version):
        super().__init__("/run/haproxy/admin.sock")
        parts = re.split("^> (.*)\n", (ANSWERS / (version + ".txt")).read_text(), flags=re.MULTILINE)
        self.answers = dict(zip(parts[1::2], parts[2::2]))

    def command(self, line):
        return "".join(self.answers[one] for one in line.split(";"))


@pytest.fixture(params=VERSIONS)
def version(request):
    return request.param


@pytest.fixture
def haproxy(version, monkeypatch):
    # Whatever runs under that process id on this machine is no HAProxy.
    monkeypatch.setattr(_haproxy, "former_connections", lambda *arguments: Former(Counter(), None))
    return Answering(version)


@pytest.fixture
def look(haproxy):
    return haproxy.look()


def test_all_of_them_are_here():
    assert {"1.8", "2.0", "2.2", "2.4", "2.6", "2.8", "3.0", "3.2"} <= set(VERSIONS)


def test_the_process(look, version):
    assert look.process.pid == 4711
    exact = version >= SINCE_START_TIME
    assert look.process.exact == exact
    assert abs(look.process.started - (1795392480 if exact else time.time())) <= 2


def test_the_servers(look):
    seen = {
        key: (server.admin_state, server.forced, server.operational, server.weight, server.backup, server.in_service) for key, server in look.servers.items()
    }
    assert seen == {
        ("www", "web1"): ("ready", "ready", "up", 10, False, True),
        ("www", "web2"): ("drain", "drain", "up", 20, True, False),
        ("www", "web3"): ("maint", "maint", "down", 1, False, False),
        ("www", "web4"): ("maint", "ready", "down", 1, False, False),
        ("www", "web5"): ("ready", "ready", "up", 1, False, True),
        ("www", "web6"): ("ready", "ready", "up", 1, False, True),
        ("api", "web1"): ("ready", "ready", "up", 1, False, True),
    }


def test_where_they_are(look):
    assert {key: (server.address, server.port) for key, server in look.servers.items()} == {
        ("www", "web1"): ("192.0.2.11", 8080),
        ("www", "web2"): ("192.0.2.12", 8080),
        ("www", "web3"): ("2001:db8::13", 8080),
        # Its name does not resolve. Up to 2.0 its address is an empty field, since then a dash.
        ("www", "web4"): (None, 8080),
        ("www", "web5"): ("192.0.2.15", 8080),
        # It takes the client's port.
        ("www", "web6"): ("192.0.2.16", None),
        ("api", "web1"): ("192.0.2.11", 8081),
    }


def test_nothing_is_under_way(look):
    assert {(server.sessions, server.queue, server.settled) for server in look.servers.values()} == {(0, 0, True)}


def test_which_backends_are_sticky(haproxy, look):
    """One has a cookie, the other a table that stores servers."""
    assert haproxy.sticky_backends(look) == {"www", "api"}


def test_a_table_that_stores_no_server_is_none(haproxy, look):
    """The message is the same everywhere, but for the number of the filter before it."""
    haproxy.answers["show table api data.server_id is 0"] = "Filter entry #1: Data type not stored in this table\n\n"
    assert haproxy.sticky_backends(look) == {"www"}
    haproxy.answers["show table api data.server_id is 0"] = "Data type not stored in this table\n\n"
    assert haproxy.sticky_backends(look) == {"www"}


def test_what_the_socket_allows(haproxy, version):
    """1.8 cannot be asked; it refuses the command itself."""
    assert haproxy.level() == (None if version == "1.8" else "admin")


def test_a_command_that_it_refuses(haproxy):
    with pytest.raises(HaproxyRefused, match=r"refuses to set www/web9 to drain: No such server\."):
        haproxy.set_state("www", "web9", "drain")


def test_several_processes(haproxy, version):
    """nbproc was there until 2.4. Since then there is always one."""
    haproxy.answers["show info"] = haproxy.answers["show info"].replace("Nbproc: 1\n", "Nbproc: 2\n")
    with pytest.raises(HaproxyError, match="runs as 2 processes"):
        haproxy.look()


def test_an_answer_that_breaks_off_is_none(haproxy):
    """Wherever it breaks off, servers may be missing."""
    whole = "".join(haproxy.answers[command] for command in ("show info", "show servers state", "show stat -1 6 -1"))
    for cut in range(0, len(whole) - 1, 7):
        haproxy.command = lambda line, cut=cut: whole[:cut]
        with pytest.raises(HaproxyError):
            haproxy.look()
