# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The configuration of a process of HAProxy, and whether one runs at all, from folders like /proc."""

from __future__ import annotations

import os
import time

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_absent import runs_no_haproxy
from ansible_collections.graceful.azure.plugins.module_utils._haproxy_configuration import (
    backends_cut_in_maint,
    backends_served_in_drain,
    backends_served_in_maint,
    configuration_files,
    destinations,
    is_never_served,
)

CONFIGURATION = """
global
  maxconn 100
frontend in
  use-server not-here if TRUE
backend plain
  balance roundrobin # use-server in a comment
  server web1 192.0.2.1:80
backend pinned
    use-server web1 if { path /mine }
listen "kept"
  option prefer-last-server
listen desktops
  persist rdp-cookie(msts)
backend other
  no option prefer-last-server
resolvers r
  use-server x
"""


PAST_SERVERS = """
defaults
  option transparent
listen old
  dispatch 192.0.2.1:80 # dispatch 192.0.2.9:80
frontend in
  dispatch 192.0.2.2:80
backend any
  server any 0.0.0.0
defaults plain
backend "pinned"
  dispatch "$HOST:80"
  http-request set-dst ipv4(192.0.2.3)
"""


@pytest.fixture(name="process")
def make_process(tmp_path):
    def process(*words, comm="haproxy", pid="100", stat="S"):
        folder = tmp_path / "proc" / pid
        folder.mkdir(parents=True)
        (folder / "cmdline").write_bytes(b"\0".join(word.encode() for word in words) + b"\0")
        (folder / "comm").write_text(comm + "\n")
        (folder / "stat").write_text(f"{pid} ({comm}) {stat} 1")
        (tmp_path / "work").mkdir(exist_ok=True)
        (folder / "cwd").symlink_to(tmp_path / "work")
        return str(tmp_path / "proc")

    return process


class TestDestinations:
    def test_what_sends_requests_past_the_servers(self, process, tmp_path):
        path = tmp_path / "haproxy.cfg"
        path.write_text(PAST_SERVERS)
        found = destinations(100, (), process("haproxy", "-f", str(path)))
        assert found == ((("old", "192.0.2.1:80"), ("pinned", "$HOST:80")), {"old", "any"}, ())

    @pytest.mark.parametrize("directive", ["lua-load /x.lua", "lua-load-per-thread /x.lua"])
    def test_lua_may_connect_anywhere(self, process, tmp_path, directive):
        path = tmp_path / "haproxy.cfg"
        path.write_text("global\n  %s\n" % directive)
        assert destinations(100, (), process("haproxy", "-f", str(path))) == ((), set(), (directive,))

    @pytest.mark.parametrize(
        "code, connects",
        [
            ("core.register_action('cors', {'http-res'}, function(txn) txn:done() end)", False),
            ("local s = core.tcp()", True),
            ("local c = core.httpclient()", True),
            ("local other = require('other')", True),
        ],
    )
    def test_lua_whose_code_can_be_read(self, process, tmp_path, code, connects):
        path, lua = tmp_path / "haproxy.cfg", tmp_path / "x.lua"
        path.write_text("global\n  lua-load %s now\n" % lua)
        lua.write_text(code + "\n")
        assert destinations(100, (), process("haproxy", "-f", str(path))).lua == (("lua-load %s" % lua,) if connects else ())

    def test_what_cannot_be_read_tells_nothing(self, process):
        assert destinations(100, (), process("haproxy", "-f", "/not/there.cfg")) == ((), set(), ())


class TestServedInDrain:
    def test_the_backends_with_such_a_directive(self, process, tmp_path):
        path = tmp_path / "haproxy.cfg"
        path.write_text(CONFIGURATION)
        assert backends_served_in_drain([100], (), process("haproxy", "-Ws", "-f", str(path), "-p", "/run/x.pid")) == {"pinned", "kept", "desktops"}

    @pytest.mark.parametrize(
        "text, expected",
        [
            ("defaults\n option prefer-last-server\nbackend a\nbackend b\n no option prefer-last-server", {"a"}),
            ("defaults\n persist rdp-cookie\ndefaults\n mode tcp\nbackend a", set()),
            ("defaults kept\n option prefer-last-server\ndefaults\nbackend a from kept\nbackend b", {"a"}),
            ("defaults kept\n option prefer-last-server\ndefaults more from kept\nlisten a", {"a"}),
            ("defaults kept\n option prefer-last-server\ndefaults more from kept\n no option prefer-last-server\nlisten a\nlisten b from kept", {"b"}),
            ("defaults\n option prefer-last-server\nfrontend in\nglobal\nbackend a", {"a"}),
            ("backend a\nfrontend in\n option prefer-last-server", set()),
        ],
    )
    def test_what_backends_take_from_defaults(self, process, tmp_path, text, expected):
        path = tmp_path / "haproxy.cfg"
        path.write_text(text)
        assert backends_served_in_drain([100], (), process("haproxy", "-f", str(path))) == expected

    def test_defaults_hold_for_the_files_after_them(self, process, tmp_path):
        (tmp_path / "1.cfg").write_text("defaults\n option prefer-last-server\n")
        (tmp_path / "2.cfg").write_text("backend a\n")
        assert backends_served_in_drain([100], (), process("haproxy", "-f", str(tmp_path / "1.cfg"), "-f", str(tmp_path / "2.cfg"))) == {"a"}

    def test_the_files_of_a_container(self, process, tmp_path):
        proc = process("haproxy", "-f", "/only/in/the/container.cfg")
        inside = tmp_path / "container" / "only" / "in" / "the"
        inside.mkdir(parents=True)
        (inside / "container.cfg").write_text(CONFIGURATION)
        (tmp_path / "proc" / "100" / "root").symlink_to(tmp_path / "container")
        assert "pinned" in backends_served_in_drain([100], (), proc)

    def test_a_link_in_a_container_leads_to_a_file_of_the_container(self, process, tmp_path):
        proc = process("haproxy", "-f", "/etc/haproxy.cfg")
        (tmp_path / "container" / "etc").mkdir(parents=True)
        (tmp_path / "container" / "etc" / "haproxy.cfg").symlink_to("/only/in/the/container.cfg")
        (tmp_path / "container" / "only" / "in" / "the").mkdir(parents=True)
        (tmp_path / "container" / "only" / "in" / "the" / "container.cfg").write_text(CONFIGURATION)
        (tmp_path / "proc" / "100" / "root").symlink_to(tmp_path / "container")
        assert "pinned" in backends_served_in_drain([100], (), proc)

    def test_files_of_every_kind(self, process, tmp_path):
        (tmp_path / "work" / "sub").mkdir(parents=True)
        folder = tmp_path / "work" / "sub" / "conf.d"
        folder.mkdir()
        for name in ("b.cfg", "a.cfg", "c.txt", ".hidden.cfg"):
            (folder / name).touch()
        proc = process("haproxy", "-C", "sub", "-f", "one.cfg", "-f", "conf.d", "--", "/last.cfg")
        base = str(tmp_path / "work" / "sub")
        expected = [base + "/one.cfg", base + "/conf.d/a.cfg", base + "/conf.d/b.cfg", "/last.cfg"]
        assert [os.path.normpath(path) for path in configuration_files(100, proc)] == expected

    @pytest.mark.parametrize("words", [(), ("haproxy",), ("haproxy", "-f"), ("haproxy", "-f", "/nowhere"), ("haproxy", "-f", "/proc/self/mem")])
    def test_what_cannot_be_read_tells_nothing(self, process, words):
        assert backends_served_in_drain([100], (), process(*words)) == set()
        assert backends_served_in_drain([101], (), process(*words, pid="7")) == set()

    def test_a_fifo_does_not_stop_it(self, process, tmp_path):
        os.mkfifo(tmp_path / "fifo.cfg")
        assert backends_served_in_drain([100], (), process("haproxy", "-f", str(tmp_path / "fifo.cfg"))) == set()


class TestRunsNoHaproxy:
    def test_no_process_of_it(self, process):
        process("/sbin/init", comm="systemd", pid="1")
        assert runs_no_haproxy(process("/usr/bin/python3", comm="python3"))

    @pytest.mark.parametrize("comm, word", [("haproxy", "haproxy"), ("hapee-lb", "/opt/hapee-2.8/sbin/hapee-lb"), ("x", "/usr/sbin/haproxy")])
    def test_a_process_of_it(self, process, comm, word):
        process("/sbin/init", comm="systemd", pid="1")
        assert not runs_no_haproxy(process(word, comm=comm))

    def test_what_reads_its_figures_is_none_of_it(self, process):
        process("/sbin/init", comm="systemd", pid="1")
        assert runs_no_haproxy(process("/usr/local/bin/haproxy_exporter", comm="haproxy_exporte"))

    def test_one_that_has_ended_and_is_not_collected_yet(self, process):
        process("/sbin/init", comm="systemd", pid="1")
        assert runs_no_haproxy(process("haproxy", stat="Z"))

    def test_where_others_processes_are_hidden_it_is_not_known(self, process):
        assert not runs_no_haproxy(process("/usr/bin/python3", comm="python3"))


def test_backends_whose_servers_lose_their_sessions_in_maintenance(process, tmp_path):
    path = tmp_path / "haproxy.cfg"
    end = "on-marked-down shutdown-sessions"
    path.write_text(
        f"defaults\n  default-server check {end}\nbackend a\n  server web1 192.0.2.1\ndefaults\nbackend b\n  server web1 192.0.2.1 {end} check\n"
        f"backend c\n  server-template web 3 192.0.2.1 {end}\nbackend d\n  server web1 192.0.2.1 on-marked-up shutdown-backup-sessions\n  description {end}\n"
    )
    assert backends_cut_in_maint([100], (), process("haproxy", "-f", str(path))) == {"a", "b", "c"}


def test_a_backend_that_is_named_by_an_environment_variable(process, tmp_path):
    """Its name is known to HAProxy alone, so each that it may have counts."""
    path = tmp_path / "h.cfg"
    line = "  server w 192.0.2.1 on-marked-down shutdown-sessions\n"
    path.write_text(f'backend "${{APP}}_www"\n{line}  option persist\n  use-server w if TRUE\n  dispatch 192.0.2.1:80\nbackend api\nbackend off\n{line}')
    known, proc = ["shop_www", "shop_wwwx", "api", "off"], process("haproxy", "-f", str(path))
    assert backends_cut_in_maint([100], known, proc) == {"shop_www", "off"}
    assert backends_served_in_maint(100, known, proc) == backends_served_in_drain([100], known, proc) == {"shop_www"}
    assert destinations(100, known, proc).dispatches == (("shop_www", "192.0.2.1:80"),)


def test_what_is_no_comment(process, tmp_path):
    """A # begins one wherever it stands, but not in quotes and not behind a backslash."""
    path = tmp_path / "haproxy.cfg"
    end = "on-marked-down shutdown-sessions"
    path.write_text(
        f'backend a\n  server w 192.0.2.1 cookie "a\\"#1" {end}\nbackend b\n  server w 192.0.2.1 cookie a\\#1 {end}\n'
        f"backend c\n  \"serv\"er w 192.0.2.1 cookie '\\#'1 on-marked-d'own' shutdown-sessions#it ends here\n"
        f"backend d\n  server w 192.0.2.1 cookie a#1' {end}\nbackend e\n  server w 192.0.2.1 cookie '#' # {end}\n"
    )
    assert backends_cut_in_maint([100], (), process("haproxy", "-f", str(path))) == {"a", "b", "c"}


def test_backends_whose_servers_get_requests_in_maintenance(process, tmp_path):
    path = tmp_path / "h.cfg"
    path.write_text(
        "defaults\n  option persist\nbackend a\nbackend b\n  no option persist\n"
        "defaults\nbackend c\n  force-persist if { src 192.0.2.1 }\nbackend d\n  use-server x if TRUE\n"
    )
    assert backends_served_in_maint(100, (), process("haproxy", "-f", str(path))) == {"a", "c"}


def test_a_configuration_of_which_a_part_cannot_be_read_tells_nothing(process, tmp_path):
    path = tmp_path / "h.cfg"
    path.write_text("backend a\n")
    assert backends_served_in_maint(100, (), process("haproxy", "-f", str(path), "-f", str(tmp_path / "none.cfg"))) is None


class TestNeverServedInMaint:
    """Whether a process has certainly loaded nothing that sends requests to a server that is out."""

    BOOT = 1_700_000_000

    @pytest.fixture(name="is_proved")
    def make(self, tmp_path):
        """Asked of process 100, a worker that started so many seconds after its files were written, and of its master."""
        self.cfg = tmp_path / "haproxy.cfg"
        self.cfg.write_text("defaults\n  mode http\nbackend a\n  option redispatch\n  server web1 ${IP}:80 check\n")
        proc = tmp_path / "proc"

        def is_proved(*words, after=60.0, root="/", master="haproxy", path=None, state="maint"):
            for pid, parent, comm in ((100, 99, "haproxy"), (99, 1, master)):
                folder = proc / str(pid)
                folder.mkdir(parents=True)
                named = words or ("haproxy", "-Ws", "-f", str(path or self.cfg))
                (folder / "cmdline").write_bytes(b"\0".join(word.encode() for word in named) + b"\0")
                (folder / "comm").write_text(comm + "\n")
                (folder / "status").write_text(f"PPid:\t{parent}\n")
                ticks = (time.time() + after - self.BOOT) * os.sysconf("SC_CLK_TCK")
                (folder / "stat").write_text(" ".join([str(pid), f"({comm})", "S", str(parent), *["0"] * 17, str(int(ticks)), "0"]))
                (folder / "root").symlink_to("/" if pid == 99 else root)
                (folder / "cwd").symlink_to(tmp_path)
            (proc / "stat").write_text(f"btime {self.BOOT}\n")
            return is_never_served(100, state, str(proc))

        return is_proved

    @pytest.mark.parametrize("state", ["drain", "maint"])
    def test_a_plain_configuration_that_is_older_than_the_process(self, is_proved, state):
        assert is_proved(state=state)

    @pytest.mark.parametrize(
        "line",
        [
            "option persist",
            "no option persist",
            "force-persist if { src 192.0.2.1 }",
            'option "persist"',
            "opt\\ion per'sist'",
            "use-server web1 if TRUE",
            "option prefer-last-server",
            "persist rdp-cookie",
            "option ${MORE}",
            '"$LINE"',
            ".if defined(X)\n  option persist\n.endif",
            "dispatch 192.0.2.1:80",
            "option transparent",
            "http-request set-dst hdr(x)",
            "lua-load /etc/x.lua",
        ],
    )
    @pytest.mark.parametrize("state", ["drain", "maint"])
    def test_what_may_send_something_or_be_anything(self, is_proved, line, state):
        self.cfg.write_text(f"backend a\n  {line}\n")
        assert not is_proved(state=state)

    @pytest.mark.parametrize(
        "line",
        [
            "cookie S insert",
            "server web1 192.0.2.1:80 cookie w1",
            "stick on src",
            "stick match src",
            "stick store-request src",
            "'sti'ck on src",
            "appsession S",
        ],
    )
    @pytest.mark.parametrize("state", ["drain", "maint"])
    def test_what_binds_clients_to_a_server_sends_them_there_in_drain(self, is_proved, line, state):
        self.cfg.write_text(f"backend a\n  {line}\n")
        assert is_proved(state=state) == (state == "maint")

    def test_a_table_that_only_counts_binds_nobody(self, is_proved):
        self.cfg.write_text("backend a\n  stick-table type ip size 1m store http_req_rate(10s)\n  http-request track-sc0 src\n")
        assert is_proved(state="drain")

    @pytest.mark.parametrize("after", [-60.0, 0.0, 1.0])
    def test_a_file_that_is_not_older_than_the_process_need_not_be_loaded(self, is_proved, after):
        assert not is_proved(after=after)

    def test_a_link_that_leads_to_an_old_file(self, is_proved, tmp_path):
        link = tmp_path / "link.cfg"
        link.symlink_to(self.cfg)
        assert is_proved(path=link)

    def test_a_file_of_that_name_in_another_root(self, is_proved, tmp_path):
        """Of the worker in a chroot the master tells, unless it is no HAProxy: who starts a container has our files."""
        (tmp_path / "jail").mkdir()
        assert not is_proved(root=str(tmp_path / "jail"), master="containerd-shim")

    def test_the_master_of_a_worker_in_a_chroot(self, is_proved, tmp_path):
        (tmp_path / "jail").mkdir()
        assert is_proved(root=str(tmp_path / "jail"))

    def test_every_file_is_read(self, is_proved, tmp_path):
        more = tmp_path / "conf.d"
        more.mkdir()
        (more / "b.cfg").write_text("backend b\n  option persist\n")
        assert not is_proved("haproxy", "-f", str(self.cfg), "-f", str(more))

    def test_a_folder_without_a_file_and_one_that_is_not_there(self, is_proved, tmp_path):
        (tmp_path / "conf.d").mkdir()
        assert is_proved("haproxy", "-f", str(self.cfg), "--", str(tmp_path / "conf.d"))

    @pytest.mark.parametrize("words", [["haproxy"], ["haproxy", "-f", "/none.cfg"], ["haproxy", "-f", "/dev/null"]])
    def test_what_cannot_be_read(self, is_proved, words):
        assert not is_proved(*words)

    def test_one_that_is_gone(self, tmp_path):
        assert not is_never_served(100, "maint", str(tmp_path))
