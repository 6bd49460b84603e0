# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""nginx_hold and nginx_info against a real nginx."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import math
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

import pytest
from ansible_collections.graceful.azure.plugins.module_utils import _nginx_hold
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Store
from ansible_collections.graceful.azure.plugins.module_utils._nginx import Nginx as RunningNginx

from tests.support import backend, load
from tests.support.module import PROGRAM as MODULE_PROGRAM
from tests.support.module import killed, run_module, run_program
from tests.support.nginx import NEEDED, PROGRAM, STREAM_NEEDED, Nginx
from tests.support.patience import patient, until
from tests.support.ports import accepts, free_port, listener, taken
from tests.support.processes import children, command_of, commands, frozen
from tests.support.receiver import certificate
from tests.support.serving import Handler, Server, Serving

pytestmark = NEEDED
# Some of it runs as another user.
OPEN_TO_ALL = True

UP = """\
# The shop.
upstream shop {{
  least_conn;
  server 127.0.0.1:{one}   weight=2 ; # mine; "keep this"
  server   "127.0.0.1:{two}"  max_fails=1
      fail_timeout=2s;	# over two lines
}}
upstream api {{ keepalive 4; server 127.0.0.1:{one} max_fails=3; server 127.0.0.1:{two}; }}
"""
SITE = """\
server {{
  listen 127.0.0.1:{door};
  location / {{ proxy_pass http://shop; }}
  location /api/ {{ proxy_pass http://api/; proxy_http_version 1.1; proxy_set_header Connection ""; }}
}}
"""
# nginx asks for an answer piece by piece.
SLICES = "slice 4; proxy_set_header Range $slice_range; proxy_http_version 1.1;"


class Bed:
    """nginx in front of two servers. The upstreams are in an included file, which a symbolic link leads to."""

    def __init__(self, folder, start=None, **more):
        self.folder = folder
        self.ports = {name: free_port() for name in ("one", "two", "door", "stream")}
        self.one, self.two = ("127.0.0.1:%d" % self.ports[name] for name in ("one", "two"))
        (folder / "conf.d").mkdir(parents=True)
        files = {"sites/up.conf": UP.format(**self.ports), "conf.d/site.conf": SITE.format(**self.ports)}
        (folder / "conf.d" / "up.conf").symlink_to("../sites/up.conf")
        more = {name: text.format(**self.ports) for name, text in more.items()}
        self.nginx = Nginx(folder, http="  include conf.d/*.conf;", files=files, start=start, **more)
        self.up = folder / "sites" / "up.conf"
        self.found = self.up.read_bytes()
        self.state_dir = folder / "state"
        self.backends = []

    def serve(self):
        for name in ("one", "two"):
            command = [sys.executable, backend.__file__, "--name", name, "--port", str(self.ports[name])]
            self.backends.append(subprocess.Popen(command))
        for name in ("one", "two"):
            until(lambda port=self.ports[name]: accepts(port), 10, name, 0.02)

    def close(self):
        for process in self.backends:
            process.kill()
            process.wait()
        self.nginx.stop()

    def arguments(self, **more):
        return dict({"configuration": str(self.nginx.configuration), "state_dir": str(self.state_dir)}, **more)

    def hold(self, ids=("A",), state="present", check=False, **more):
        ids = {} if ids is None else {"event_ids": list(ids)}
        return run_module("nginx_hold", self.arguments(**{"server": self.one, "state": state, **ids, **more}), check)

    def info(self, **more):
        return run_module("nginx_info", self.arguments(**dict({"servers": [self.one]}, **more)))

    def ours(self):
        """What a look tells of the lines of the first server."""
        return [server for server in self.info()["servers"] if server["server"] == self.one]

    def records(self):
        return [json.loads(path.read_text()) for path in sorted(self.state_dir.glob("*.json"))]

    def answers(self, number=20, path="/"):
        found = Counter()
        for _number in range(number):
            with urllib.request.urlopen("http://127.0.0.1:%d%s" % (self.ports["door"], path), timeout=patient(5)) as answer:
                found[answer.headers["X-Backend"]] += 1
        return found


def told_by_changed(code, module, arguments):
    """What a module says after this code has changed what it is made of."""
    return json.loads(run_program(code + MODULE_PROGRAM, module, "-1", given=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}))()[0])


def without_marks(text):
    """As a version before marks has left a file."""
    return re.sub(r"# Held by graceful\.azure[^\n]*\n[ \t]*", "", text)


@pytest.fixture(name="bed")
def make_bed(tmp_path):
    bed = Bed(tmp_path / "nginx")
    yield bed
    bed.close()


def test_a_hold_takes_every_line_out_with_one_reload_and_gives_each_back_exactly(bed):
    bed.serve()
    assert set(bed.answers()) == {"one", "two"}
    os.chmod(bed.up, 0o640)
    workers = bed.nginx.workers()
    out = bed.hold()
    assert (out["changed"], out["conflicts"], [server["condition"] for server in out["servers"]]) == (True, [], ["held", "held"])
    text = bed.up.read_text()
    assert "server 127.0.0.1:%d   weight=2 down ; # mine" % bed.ports["one"] in text
    assert "server 127.0.0.1:%d max_fails=3 down;" % bed.ports["one"] in text
    assert not bed.nginx.workers() & workers
    assert bed.answers() == {"two": 20}
    assert bed.answers(path="/api/") == {"two": 20}
    reloads = (bed.folder / "error.log").read_text().count("SIGHUP")
    assert reloads == 1
    assert (bed.folder / "conf.d" / "up.conf").is_symlink()
    assert bed.up.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in bed.up.parent.iterdir()] == ["up.conf"]

    again = bed.hold()
    assert not again["changed"]
    second = bed.hold(["B"])
    assert second["changed"]
    assert not bed.hold(["A"], "absent")["servers"][0]["condition"] == "none"
    assert bed.answers() == {"two": 20}
    assert (bed.folder / "error.log").read_text().count("SIGHUP") == reloads

    back = bed.hold(["b"], "absent")
    assert (back["changed"], back["conflicts"]) == (True, [])
    assert bed.up.read_bytes() == bed.found
    assert bed.records() == []
    assert set(bed.answers()) == {"one", "two"}
    assert not bed.hold(None, "absent")["changed"]


def test_check_mode_says_what_would_be_done_and_touches_nothing(bed):
    workers = bed.nginx.workers()
    told = bed.hold(check=True)
    assert told["changed"]
    assert [server["down"] for server in told["servers"]] == [True, True]
    assert (bed.up.read_bytes(), bed.nginx.workers(), bed.state_dir.exists()) == (bed.found, workers, False)
    bed.hold()
    left = bed.up.read_bytes()
    told = bed.hold(None, "absent", check=True)
    assert told["changed"]
    assert [view["line"] for view in told["diff"]["after"].values()] == [
        "server 127.0.0.1:%d   weight=2 ;" % bed.ports["one"],
        "server 127.0.0.1:%d max_fails=3;" % bed.ports["one"],
    ]
    assert bed.up.read_bytes() == left


@STREAM_NEEDED
def test_servers_in_stream_and_in_the_main_file(tmp_path):
    port, other = free_port(), free_port()
    stream = f"upstream s {{ server 127.0.0.1:{port}; server 127.0.0.1:{other}; }} server {{ listen 127.0.0.1:{free_port()}; proxy_pass s; }}"
    http = f"upstream h {{ server 127.0.0.1:{port}; server 127.0.0.1:{other} backup; }}"
    nginx = Nginx(tmp_path, http=http, stream=stream)
    try:
        found = nginx.configuration.read_bytes()
        arguments = {"configuration": str(nginx.configuration), "state_dir": str(tmp_path / "state"), "server": f"127.0.0.1:{port}"}
        out = run_module("nginx_hold", dict(arguments, event_ids=["A"]))
        assert [(server["context"], server["text"]) for server in out["servers"]] == [
            ("http", f"server 127.0.0.1:{port} down;"),
            ("stream", f"server 127.0.0.1:{port} down;"),
        ]
        assert run_module("nginx_hold", dict(arguments, state="absent"))["changed"]
        assert nginx.configuration.read_bytes() == found
    finally:
        nginx.stop()


@STREAM_NEEDED
def test_a_list_of_servers_that_several_upstreams_include(tmp_path):
    ports = {"one": free_port(), "two": free_port()}
    files = {"list.inc": "server 127.0.0.1:{one};\nserver 127.0.0.1:{two};\n".format(**ports)}
    http = "upstream a { include list.inc; } upstream b { ip_hash; include list.inc; }"
    nginx = Nginx(tmp_path, http=http, stream="upstream s { include list.inc; }", files=files)
    try:
        arguments = {"configuration": str(nginx.configuration), "state_dir": str(tmp_path / "state"), "server": "127.0.0.1:%d" % ports["one"]}
        out = run_module("nginx_hold", dict(arguments, event_ids=["A"]))
        seen = [(server["context"], server["upstream"], server["condition"]) for server in out["servers"]]
        assert seen == [("http", "a, b", "held"), ("stream", "s", "held")]
        assert without_marks((tmp_path / "list.inc").read_text()).splitlines()[0] == "server 127.0.0.1:%d down;" % ports["one"]
        assert run_module("nginx_hold", dict(arguments, state="absent"))["conflicts"] == []
        assert (tmp_path / "list.inc").read_text() == files["list.inc"]
    finally:
        nginx.stop()


@pytest.fixture(name="two_hosts")
def make_two_hosts(tmp_path):
    """nginx in front of two hosts, 127.0.0.11 and 127.0.0.12, each with two ports and in several spellings."""
    web, api = free_port(), free_port()
    upstreams = {
        "web": [f"127.0.0.11:{web}", f"127.0.0.12:{web}"],
        "api": [f"127.0.0.11:{api}", f"127.0.0.12:{api}"],
        "six": [f"[::ffff:127.0.0.11]:{web}", f"[::ffff:127.0.0.12]:{web}"],
        "alone": [f"127.0.0.11:{api}"],
    }
    text = "".join("upstream %s { %s }\n" % (name, " ".join(f"server {each};" for each in lines)) for name, lines in upstreams.items())
    literal = f"proxy_pass http://127.0.0.11:{api};"
    nginx = Nginx(
        tmp_path / "nginx", http="include up.conf; server { listen 127.0.0.1:%d; location / { %s } }" % (free_port(), literal), files={"up.conf": text}
    )
    nginx.up, nginx.web, nginx.api, nginx.literal = tmp_path / "nginx" / "up.conf", web, api, literal
    nginx.arguments = {"configuration": str(nginx.configuration), "state_dir": str(tmp_path / "state")}
    yield nginx
    nginx.stop()


def test_all_lines_that_lead_to_the_same_host_go_and_come_together(two_hosts):
    nginx, web, api = two_hosts, two_hosts.web, two_hosts.api
    found = nginx.up.read_text()
    server = f"127.0.0.11:{web}"
    out = run_module("nginx_hold", dict(nginx.arguments, server=server, event_ids=["A"]))
    text = without_marks(nginx.up.read_text())
    lines = [f"127.0.0.11:{web}", f"127.0.0.11:{api}", f"[::ffff:127.0.0.11]:{web}", f"127.0.0.11:{api}"]
    assert [(each["server"], each["for_server"]) for each in out["servers"]] == [(each, server if each.endswith(str(api)) else None) for each in lines]
    assert text == found.replace(f"127.0.0.11:{web};", f"127.0.0.11:{web} down;").replace(f"127.0.0.11:{api};", f"127.0.0.11:{api} down;").replace(
        f"[::ffff:127.0.0.11]:{web};", f"[::ffff:127.0.0.11]:{web} down;"
    )
    assert (nginx.folder / "error.log").read_text().count("SIGHUP") == 1
    seen = run_module("nginx_info", dict(nginx.arguments, servers=[server]))
    assert {(each["upstream"], each["condition"]) for each in seen["servers"] if each["leads_to"][0]["address"] == "127.0.0.11"} == {
        (upstream, "held") for upstream in ("web", "api", "six", "alone")
    }
    assert [(each["text"], each["leads_to"]) for each in seen["passes"]] == [(nginx.literal, [{"address": "127.0.0.11", "port": api}])]
    assert run_module("nginx_hold", dict(nginx.arguments, server=server, state="absent", event_ids=["A"]))["conflicts"] == []
    assert nginx.up.read_text() == found


def test_where_hosts_share_an_address_the_task_says_what_goes(two_hosts):
    nginx, web, api = two_hosts, two_hosts.web, two_hosts.api
    server = f"127.0.0.11:{web}"
    out = run_module("nginx_hold", dict(nginx.arguments, server=server, addresses=[], event_ids=["A"]), check=True)
    assert [each["upstream"] for each in out["servers"]] == ["web", "six"]
    out = run_module("nginx_hold", dict(nginx.arguments, server=server, addresses=[f"127.0.0.12:{api}"], event_ids=["A"]), check=True)
    assert [each["server"] for each in out["servers"]] == [server, f"127.0.0.12:{api}", f"[::ffff:127.0.0.11]:{web}"]


def test_a_request_by_a_variable_is_seen_where_it_goes(two_hosts):
    """Nobody knows before the request where it leads. As long as it lasts, nginx is connected to the host."""
    nginx, door = two_hosts, free_port()
    with socket.create_server(("127.0.0.11", 0)) as application:
        nginx.up.write_text(nginx.up.read_text() + "server { listen 127.0.0.1:%d; location / { proxy_pass http://$arg_to; } }\n" % door)
        nginx.reload()
        arguments = dict(nginx.arguments, servers=[f"127.0.0.11:{nginx.web}"], addresses=["127.0.0.11", "127.0.0.12"])
        seen = run_module("nginx_info", arguments)
        assert [each["unresolved"] for each in seen["passes"]] == ["the address 'http://$arg_to' is not known before the request", None]
        assert seen["beside"] == {"127.0.0.11": 0, "127.0.0.12": 0}
        with socket.create_connection(("127.0.0.1", door)) as client:
            client.sendall(b"GET /?to=127.0.0.11:%d HTTP/1.1\r\nHost: x\r\n\r\n" % application.getsockname()[1])
            with application.accept()[0]:
                assert run_module("nginx_info", arguments)["beside"] == {"127.0.0.11": 1, "127.0.0.12": 0}
        until(lambda: run_module("nginx_info", arguments)["beside"] == {"127.0.0.11": 0, "127.0.0.12": 0}, 30)


def test_a_host_that_is_a_client_of_nginx_is_not_busy_by_that(bed):
    """Its connection to nginx comes from its address, and stays open as long as it asks."""
    bed.serve()
    with socket.create_connection(("127.0.0.1", bed.ports["door"]), source_address=("127.0.0.7", 0)) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.recv(1000).startswith(b"HTTP/1.1 200")
        assert bed.info(addresses=["127.0.0.7"])["beside"] == {"127.0.0.7": 0}


def test_an_address_with_a_port_behind_a_variable_is_no_upstream(bed):
    """Without a port, nginx takes the name for that of the upstream, and every line is followed."""
    bed.serve()
    site = bed.folder / "conf.d" / "site.conf"
    text = "upstream 127.0.0.1 { server %s; server %s backup; }\n" % (bed.two, bed.one)
    text += site.read_text().replace("location /api/", "location /port { set $to %s; proxy_pass http://$to; }\n  location /api/" % bed.one)
    site.write_text(text.replace("location /api/", "location /name { set $at 127.0.0.1; proxy_pass http://$at; }\n  location /api/"))
    bed.nginx.reload()
    bed.hold()
    assert (set(bed.answers(5, "/name")), set(bed.answers(5, "/port"))) == ({"two"}, {"one"})
    found = [(line["text"], line["leads_to"]) for line in bed.info()["passes"]]
    assert found == [("proxy_pass http://$to;", [{"address": "127.0.0.1", "port": bed.ports["one"]}])]


def test_the_last_server_that_answers_stays(bed):
    """The other one has crashed: its line has no C(down), and nothing accepts its connections."""
    bed.serve()
    assert bed.hold(min_in_service=1, check=True)["refused"] == []
    crashed = bed.backends.pop()
    crashed.kill()
    crashed.wait()
    (two,) = [server for server in bed.info()["servers"] if server["server"] == bed.two and server["upstream"] == "shop"]
    assert two["silent"] == "port %d of 127.0.0.1: Connection refused" % bed.ports["two"]
    assert bed.hold(min_in_service=1)["refused"] == [
        f"{bed.one} stays: 1 of 2 in service in upstream {name} ({two['silent']}), 1 must stay." for name in ("shop", "api")
    ]
    assert bed.up.read_bytes() == bed.found
    assert bed.hold(server=bed.two, min_in_service=1, check=True)["refused"] == [], "what does not answer may go"


def test_where_no_server_answers_the_lines_decide(bed):
    """Perhaps they take connections from nginx alone, such as with C(proxy_bind) and a firewall. Otherwise all hosts could go out at once."""
    assert {server["silent"] for server in bed.info()["servers"]} == {None}
    assert bed.hold(min_in_service=1, check=True)["refused"] == []
    refused = [f"{bed.one} stays: 2 of 2 in service in upstream {name}, 2 must stay." for name in ("shop", "api")]
    assert bed.hold(min_in_service=2)["refused"] == refused


def test_an_operators_down_is_never_touched(bed):
    bed.up.write_text(bed.up.read_text().replace("max_fails=3;", "max_fails=3 down;"))
    bed.nginx.reload()
    found = bed.up.read_bytes()
    out = bed.hold()
    assert [server["condition"] for server in out["servers"]] == ["held", "already_out"]
    assert [server["condition"] for server in bed.ours()] == ["held", "already_out"]
    bed.hold(None, "absent")
    assert bed.up.read_bytes() == found


def test_an_operators_down_that_nginx_has_not_loaded_is_told(bed):
    bed.up.write_text(bed.up.read_text().replace("weight=2 ;", "weight=2 down;"))
    server = bed.info()["servers"][0]
    assert (server["condition"], server["loaded"], server["in_service"], server["idle"]) == ("already_out", False, True, False)
    # Also where nobody looks after that.
    bed.up.write_text(bed.up.read_text().replace("max_fails=3;", "max_fails=3 down;"))
    told = bed.hold()["waiting_for"]
    assert len(told) == 2 and all(each.endswith("was changed after nginx has loaded it: reload nginx") for each in told)
    bed.nginx.reload()
    assert bed.hold()["waiting_for"] == []
    server = bed.info()["servers"][0]
    assert (server["condition"], server["loaded"], server["in_service"]) == ("already_out", True, False)


@pytest.mark.parametrize("way", ["link", "include", "folder"])
def test_an_operators_older_file_that_nginx_has_not_loaded_is_told(bed, way):
    """The file with the parameter is older than the workers. What leads to it is not."""
    bed.serve()
    maintenance = bed.folder / "maintenance" / "up.conf"
    maintenance.parent.mkdir()
    maintenance.write_text(bed.up.read_text().replace("server %s " % bed.one, "server %s down " % bed.one))
    if way == "folder":
        (bed.folder / "now").symlink_to("sites")
        (bed.folder / "conf.d" / "up.conf").unlink()
        (bed.folder / "conf.d" / "up.conf").symlink_to("../now/up.conf")
    bed.nginx.reload()
    if way == "include":
        text = bed.nginx.configuration.read_text()
        bed.nginx.configuration.write_text(text.replace("include conf.d/*.conf;", "include conf.d/site.conf; include maintenance/up.conf;"))
    else:
        link = bed.folder / "now" if way == "folder" else bed.folder / "conf.d" / "up.conf"
        link.unlink()
        link.symlink_to("maintenance" if way == "folder" else "../maintenance/up.conf")
    assert "one" in bed.answers(40)
    seen = bed.ours()
    assert {server["file"] for server in seen} == {str(maintenance)}
    assert [(server["in_service"], server["idle"]) for server in seen] == [(True, False)] * 2
    bed.nginx.reload()
    assert [server["in_service"] for server in bed.ours()] == [False, False]


def test_a_folder_that_was_moved_there_is_not_loaded(bed):
    """Its files are older than the workers of nginx, which have never read them."""
    shutil.copytree(bed.up.parent, bed.folder / "new")
    with_down = bed.found.decode().replace(" ; #", " down ; #").replace("max_fails=3", "max_fails=3 down")
    (bed.folder / "new" / "up.conf").write_text(with_down)
    bed.nginx.reload()
    bed.up.parent.rename(bed.folder / "old")
    (bed.folder / "new").rename(bed.up.parent)

    def seen():
        return [(server["condition"], server["in_service"]) for server in bed.ours()]

    assert seen() == [("already_out", True)] * 2
    bed.nginx.reload()
    assert seen() == [("already_out", False)] * 2


def test_what_somebody_else_wrote_meanwhile_stays(bed):
    bed.hold()
    edited = "# a new first line\n" + bed.up.read_text().replace("least_conn;", "ip_hash;") + "# a new last line\n"
    bed.up.write_text(edited.replace("   weight=2 down ;", "\tweight=2   down;"))
    back = bed.hold(None, "absent")
    assert back["conflicts"] == []
    text = bed.up.read_text()
    assert text.startswith("# a new first line\n") and text.endswith("# a new last line\n")
    assert "server 127.0.0.1:%d\tweight=2;" % bed.ports["one"] in text
    assert "down" not in text


def test_a_line_that_somebody_else_changed_is_a_conflict_and_stays(bed):
    bed.hold()
    changed = bed.up.read_text().replace("weight=2 down", "weight=5 down").replace("max_fails=3 down", "max_fails=3")
    bed.up.write_text(changed)
    told = bed.hold(["B"])
    assert [server["condition"] for server in told["servers"]] == ["changed_meanwhile"] * 2
    back = bed.hold(None, "absent")
    # The other line is as it was found, and nginx has loaded it now.
    assert len(back["conflicts"]) == 1
    assert "weight=5 down" in back["conflicts"][0]
    assert bed.up.read_text() == without_marks(changed)
    assert bed.records() == []


def test_a_file_that_somebody_else_wrote_anew_is_compared_with_what_nginx_has_loaded(bed):
    """Configuration management writes its template, and the reload does not come."""
    bed.serve()
    bed.hold()
    # A second hold, with a reload of its own.
    bed.hold(server=bed.two, event_ids=["B"])
    bed.hold(["B"], "absent", server=bed.two)
    bed.up.write_bytes(bed.found)
    assert bed.answers() == {"two": 20}
    seen = bed.ours()
    assert {(server["condition"], server["loaded"], server["in_service"], server["idle"]) for server in seen} == {("changed_meanwhile", False, False, False)}
    told = bed.hold(["C"])
    assert (len(told["conflicts"]), bed.up.read_bytes()) == (2, bed.found)
    workers = bed.nginx.workers()
    assert bed.hold(None, "absent", check=True)["changed"]
    assert (bed.nginx.workers(), len(bed.records())) == (workers, 2)
    back = bed.hold(None, "absent")
    assert (back["changed"], back["conflicts"], bed.records(), bed.up.read_bytes()) == (True, [], [], bed.found)
    assert set(bed.answers()) == {"one", "two"}
    assert not bed.nginx.workers() & workers


def test_a_file_that_somebody_else_wrote_anew_and_that_nginx_has_loaded_is_a_conflict(bed):
    bed.hold()
    bed.up.write_bytes(bed.found)
    bed.nginx.reload()
    workers = bed.nginx.workers()
    seen = bed.ours()
    assert {(server["condition"], server["loaded"], server["in_service"]) for server in seen} == {("changed_meanwhile", True, True)}
    assert len(bed.hold(None, "absent")["conflicts"]) == 2
    assert bed.nginx.workers() == workers, "nginx has it already"


def test_a_held_line_that_nginx_has_lost_is_loaded_again(bed):
    bed.hold()
    left = bed.up.read_bytes()
    bed.up.write_bytes(bed.found)
    bed.nginx.reload()
    bed.up.write_bytes(left)
    seen = bed.ours()
    assert {(server["condition"], server["loaded"], server["in_service"]) for server in seen} == {("held", False, True)}
    assert bed.hold()["changed"]
    assert [server["in_service"] for server in bed.ours()] == [False, False]
    assert not bed.hold()["changed"]


def test_a_server_that_moved_to_another_file_is_loaded_with_the_release(bed):
    bed.serve()
    bed.hold()
    (bed.folder / "conf.d" / "new.conf").write_bytes(bed.found)
    (bed.folder / "conf.d" / "up.conf").unlink()
    bed.up.unlink()
    assert bed.answers() == {"two": 20}
    assert len(bed.hold(None, "absent")["conflicts"]) == 2
    assert set(bed.answers()) == {"one", "two"}


def frame(kind, flags, stream, content=b""):
    """A frame of HTTP/2."""
    return len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + content


def headers(method, path):
    """The header of a request: what the static table has, and a path and a host."""
    return bytes([method, 0x86, 0x04, len(path)]) + path + b"\x01\x01x"


def test_half_a_request_of_http2_counts_although_its_client_has_a_server_for_another(bed):
    """The worker from before the reload sends it to the server that is out, when it has all of it."""
    get, post, ends, starts = 0x82, 0x83, 0x05, 0x04
    with contextlib.closing(listener()) as slow:
        port = free_port()
        (bed.folder / "conf.d" / "two.conf").write_text(
            "server { listen 127.0.0.1:%d http2; location / { proxy_pass http://shop; } location /slow { proxy_pass http://127.0.0.1:%d; } }\n"
            % (port, slow.getsockname()[1])
        )
        bed.nginx.reload()
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0))
            client.sendall(frame(1, ends, 1, headers(get, b"/slow")) + frame(1, starts, 3, headers(post, b"/")) + frame(0, 0, 3, b"half"))
            with slow.accept()[0]:
                bed.hold()
                server = bed.info()["servers"][0]
                assert (server["former"], server["idle"]) == (1, False)
        until(lambda: bed.info()["servers"][0]["idle"], 30)


@pytest.mark.parametrize("again", [False, True])
def test_a_link_that_leads_to_another_file_since_the_hold_leaves_nothing_loaded(bed, again):
    """As where each release of a configuration has a folder of its own. nginx was not reloaded, and still has the parameter."""
    bed.serve()
    bed.hold()
    new, link = bed.folder / "sites" / "new.conf", bed.folder / "conf.d" / "up.conf"
    new.write_bytes(bed.found)
    link.unlink()
    link.symlink_to("../sites/new.conf")
    if again:
        assert bed.hold()["changed"]
    assert set(bed.answers()) == {"two"} and bed.info()["other_holds"] == []
    released = bed.hold(state="absent")
    assert released["changed"] and [told.split(" of ", 1)[0] for told in released["conflicts"]] == [
        "%s is no longer in upstream %s" % (bed.one, upstream) for upstream in ("api", "shop")
    ]
    assert set(bed.answers(40)) == {"one", "two"} and bed.records() == [] and new.read_bytes() == bed.found
    # If the link leads back one day, our comment tells whose the parameter is.
    link.unlink()
    link.symlink_to("../sites/up.conf")
    bed.nginx.reload()
    assert bed.hold(state="absent")["changed"] and bed.up.read_bytes() == bed.found


def test_a_record_of_a_former_version_is_known_by_its_first_worker(bed):
    bed.hold()
    for path in bed.state_dir.glob("*.json"):
        record = json.loads(path.read_text())
        del record["process"]["last_worker"]
        path.write_text(json.dumps(record))
    assert [server["in_service"] for server in bed.ours()] == [False, False]
    bed.up.write_bytes(bed.found)
    assert [server["in_service"] for server in bed.ours()] == [False, False]
    assert bed.hold(None, "absent")["conflicts"] == []


@pytest.mark.parametrize("again", [False, True])
def test_a_hold_in_an_upstream_that_was_renamed_comes_back(bed, again):
    bed.hold()
    for path in (bed.up, bed.folder / "conf.d" / "site.conf"):
        path.write_text(path.read_text().replace("upstream shop", "upstream store").replace("http://shop", "http://store"))
    bed.nginx.reload()
    seen = {server["upstream"]: server["condition"] for server in bed.ours()}
    assert seen == {"store": "held", "api": "held"}
    if again:
        assert bed.hold(["B"])["conflicts"] == []
        assert len(bed.records()) == 2
    told = bed.hold(None, "absent")
    assert told["conflicts"] == []
    assert bed.up.read_bytes() == bed.found.replace(b"upstream shop", b"upstream store")
    assert bed.records() == []


def test_a_hold_in_a_file_that_one_more_upstream_includes_comes_back(bed):
    shared = bed.folder / "shared"
    shared.write_text("server %s;\nserver %s;\n" % (bed.one, bed.two))
    found = shared.read_bytes()
    bed.up.write_text("upstream shop { include shared; }\nupstream api { include shared; }\n")
    bed.nginx.reload()
    bed.hold()
    bed.up.write_text(bed.up.read_text() + "upstream more { include shared; }\n")
    bed.nginx.reload()
    told = bed.hold(None, "absent")
    assert (told["conflicts"], shared.read_bytes(), bed.records()) == ([], found, [])


@pytest.mark.parametrize("marked", [True, False])
def test_of_two_equal_lines_in_renamed_upstreams_only_their_marks_tell_which_is_held(bed, marked):
    found = "upstream shop {{ server {0}; server {1}; }}\nupstream api {{ server {0}; server {1}; }}\n".format(bed.one, bed.two)
    bed.up.write_text(found)
    bed.nginx.reload()
    bed.hold()
    held = bed.up.read_text() if marked else without_marks(bed.up.read_text())
    left = held.replace("upstream shop", "upstream a").replace("upstream api", "upstream b")
    bed.up.write_text(left)
    site = bed.folder / "conf.d" / "site.conf"
    site.write_text(site.read_text().replace("http://shop", "http://a").replace("http://api", "http://b"))
    told = bed.hold(None, "absent")
    assert len(told["conflicts"]) == 2
    assert bed.up.read_text() == (found.replace("upstream shop", "upstream a").replace("upstream api", "upstream b") if marked else left)


def test_a_line_that_somebody_else_removed_is_a_conflict(bed):
    bed.hold()
    bed.up.write_text("".join(line for line in bed.up.read_text().splitlines(True) if "mine" not in line))
    back = bed.hold(None, "absent")
    assert ["no longer in upstream shop" in conflict for conflict in back["conflicts"]] == [True]
    assert bed.records() == []
    assert "down" not in bed.up.read_text()


def test_a_configuration_that_nginx_refuses_before_the_change_is_told(bed):
    found = bed.up.read_bytes()
    strange = found.replace(b"least_conn;", b"least_conn; zone shop 8k;")
    bed.up.write_bytes(strange)
    told = bed.hold()
    assert told["failed"]
    assert "has a mistake already" in told["msg"]
    assert bed.up.read_bytes() == strange
    assert not list(bed.state_dir.glob("*.json"))


BREAKER = """
from ansible_collections.graceful.azure.plugins.module_utils import _nginx
check, calls = _nginx.Nginx.check, []
def broken(self):
    calls.append(1)
    if len(calls) == 2:
        with open(%r, "w") as stream:
            stream.write("upstrea m;")
    return check(self)
_nginx.Nginx.check = broken
"""


@pytest.mark.parametrize("state", ["present", "absent"])
def test_a_configuration_that_nginx_refuses_with_the_change_is_put_back(bed, state):
    """Here another file is broken by somebody else just when ours is written."""
    if state == "absent":
        bed.hold()
    found, records, workers = bed.up.read_bytes(), bed.records(), bed.nginx.workers()
    broken = bed.folder / "conf.d" / "broken.conf"
    told = told_by_changed(BREAKER % str(broken), "nginx_hold", bed.arguments(server=bed.one, event_ids=["A"], state=state))
    assert 'nginx -t refuses it: nginx: [emerg] unknown directive "upstrea"' in told["msg"]
    assert "The files are as they were." in told["msg"]
    assert (bed.up.read_bytes(), bed.records(), bed.nginx.workers()) == (found, records, workers)
    broken.unlink()
    assert bed.hold(["A"], state)["changed"]
    assert (bed.up.read_bytes() == bed.found) == (state == "absent")


def test_a_reload_that_does_not_come_is_noticed_and_undone(bed):
    workers = bed.nginx.workers()
    with frozen(bed.nginx.pid):
        told = bed.hold()
    assert "its former workers go on" in told["msg"]
    assert "The files are as they were." in told["msg"]
    assert bed.up.read_bytes() == bed.found
    assert bed.records() == []
    until(lambda: bed.nginx.workers() and not bed.nginx.workers() & workers, 20, "the reload that comes late loads the files as they were")
    bed.hold()
    with frozen(bed.nginx.pid):
        left, workers = bed.up.read_bytes(), bed.nginx.workers()
        told = bed.hold(None, "absent")
    assert told["failed"]
    assert bed.up.read_bytes() == left
    assert [record["phase"] for record in bed.records()] == ["held", "held"]
    until(lambda: bed.nginx.workers() and not bed.nginx.workers() & workers, 20, "the reload that comes late")
    assert bed.hold(None, "absent")["changed"]
    assert bed.up.read_bytes() == bed.found


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"server": "10.0.0.4:8080"}, "No upstream in the configuration {conf} of the running nginx has a server '10.0.0.4:8080' (option server)"),
        ({"files": ["{folder}/none.conf"]}, "The file {folder}/none.conf does not exist"),
        ({"files": ["{folder}/other.conf"]}, "The file {folder}/other.conf is not part of the configuration {conf}"),
        ({"files": ["{folder}/conf.d/site.conf"]}, "{folder}/conf.d/site.conf has no server"),
        ({"configuration": "{folder}/other.conf"}, "No nginx with the configuration {folder}/other.conf runs on this machine"),
        ({"min_in_service": "two"}, "min_in_service"),
    ],
)
def test_bad_input_is_told_before_anything_is_changed(bed, options, told):
    (bed.folder / "other.conf").write_text("# nothing\n")
    names = {"folder": str(bed.folder), "conf": str(bed.nginx.configuration)}
    filled = {key: [text.format(**names) for text in value] if isinstance(value, list) else value.format(**names) for key, value in options.items()}
    result = bed.hold(**filled)
    assert told.format(**names) in result["msg"]
    assert (bed.up.read_bytes(), list(bed.state_dir.glob("*.json"))) == (bed.found, [])


def test_the_same_server_twice_in_one_upstream_is_told(bed):
    bed.up.write_text(bed.up.read_text().replace("least_conn;", "server 127.0.0.1:%d;" % bed.ports["one"]))
    told = bed.hold()
    assert "more than once in upstream shop (lines 3 and 4)" in told["msg"]
    assert not list(bed.state_dir.glob("*.json"))


def test_an_nginx_that_does_not_run_is_told(bed):
    bed.nginx.stop()
    assert "runs on this machine" in bed.hold()["msg"]


def test_of_several_nginx_the_configuration_names_one(bed, tmp_path):
    (tmp_path / "other").mkdir()
    other = Nginx(tmp_path / "other", http="upstream u { server 127.0.0.1:1; }")
    try:
        told = run_module("nginx_info", {"servers": [bed.one], "state_dir": str(bed.state_dir)})
        assert "master processes of nginx run on this machine" in told["msg"]
        assert "name the configuration of one of them" in told["msg"]
        bed.hold()
        seen = run_module("nginx_info", {"servers": [bed.one], "state_dir": str(bed.state_dir), "configuration": str(other.configuration)})
        assert (seen["holds"], len(seen["other_holds"])) == ([], 2)
        assert "No upstream in the configuration" in bed.hold(configuration=str(other.configuration))["msg"]
    finally:
        other.stop()


def is_master(file):
    """Whether the process that this file names has the title of a master process of nginx by now."""
    return file.exists() and " ".join(command_of(file.read_text().strip())).startswith("nginx: master")


def test_an_nginx_whose_options_cannot_be_read_is_told(bed):
    """Without an environment, nginx has no room for its whole title. It must not be taken for one with the configuration that is built in."""
    bed.nginx.stop()
    try:
        subprocess.run(["env", "-i", PROGRAM, "-p", bed.folder, "-c", bed.nginx.configuration], check=True)
        until(lambda: is_master(bed.folder / "nginx.pid"), 10)
        assert "which is cut off" in bed.info()["msg"]
        assert "which is cut off" in bed.hold()["msg"]
    finally:
        os.kill(int((bed.folder / "nginx.pid").read_text()), signal.SIGTERM)


def test_the_files_are_those_that_nginx_reads(bed):
    """Its masks are those of glob(3), and it shortens no path."""
    sites = bed.folder / "sites"
    # Nginx does not mind which bytes a comment has.
    (sites / "shop").write_bytes(b"upstream more { server %s; server %s; } # \xff\xe9" % (bed.one.encode(), bed.two.encode()))
    (sites / "shop~").write_text("upstream backup { server %s; }" % bed.one)
    (bed.folder / "conf.d" / "site.conf").write_text("include sites/[^#]*[[:lower:]];\n" + (bed.folder / "conf.d" / "site.conf").read_text())
    (sites / "up.conf").rename(sites / "up")
    (bed.folder / "conf.d" / "up.conf").unlink()
    bed.nginx.reload()
    seen = bed.info(files=[str(sites / "shop"), str(sites / "shop~")])
    assert [server["upstream"] for server in seen["servers"] if server["server"] == bed.one] == ["more", "shop", "api"]
    assert seen["files"] == {str(sites / "shop"): str(sites / "shop"), str(sites / "shop~"): None}


LIES = """
from ansible_collections.graceful.azure.plugins.module_utils import _nginx_configuration
_nginx_configuration.matching = lambda pattern: []
"""


@pytest.mark.parametrize("module", ["nginx_info", "nginx_hold"])
def test_other_files_than_nginx_reads_are_told_before_anything_is_changed(bed, module):
    more = {"event_ids": ["A"], "server": bed.one} if module == "nginx_hold" else {"servers": [bed.one]}
    main = bed.nginx.configuration
    main.write_text(main.read_text().replace("conf.d/*.conf", "conf.d/site.conf; include sites/up.conf; include sites/more*"))
    (bed.folder / "sites" / "more").write_text("upstream more { server %s; }" % bed.one)
    told = told_by_changed(LIES, module, bed.arguments(**more))
    assert "cannot be read as nginx reads it" in told["msg"]
    assert "nginx reads the file %s/sites/more, which was not found" % bed.folder in told["msg"]
    assert (bed.records(), bed.up.read_bytes()) == ([], bed.found)


def unshared(script, *words):
    """A script that runs with mounts of its own."""
    return subprocess.Popen(["unshare", "--mount", "--propagation", "slave", "sh", "-c", script, *words], start_new_session=True)


UNSHARED = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="only root can mount")


@UNSHARED
def test_an_nginx_with_mounts_of_its_own_is_found_if_it_has_the_same_files(tmp_path):
    """PrivateTmp and other settings of its unit do that."""

    def start(_name, *command):
        return unshared('mount -t tmpfs none "$0" && exec "$@"', tmp_path / "nginx" / "own", *command)

    (tmp_path / "nginx" / "own").mkdir(parents=True)
    bed = Bed(tmp_path / "nginx", start=start)
    try:
        assert os.readlink("/proc/%d/ns/mnt" % bed.nginx.pid) != os.readlink("/proc/self/ns/mnt")
        assert [server["condition"] for server in bed.hold()["servers"]] == ["held", "held"]
        assert [server["in_service"] for server in bed.ours()] == [False, False]
        assert bed.hold(None, "absent")["changed"]
        # What nginx reads in a mount of its own cannot be read from here.
        own = bed.folder / "own"
        up = Path("/proc/%d/root%s/up.conf" % (bed.nginx.pid, own))
        up.write_text("upstream hidden { server %s; }" % bed.one)
        main = bed.nginx.configuration
        main.write_text(main.read_text().replace("  include", "  include %s/*.conf; include" % own, 1))
        assert "nginx reads the file %s/up.conf, which was not found" % own in bed.info()["msg"]
        assert "so nothing was changed" in bed.hold()["msg"]
    finally:
        bed.close()


@UNSHARED
def test_an_nginx_with_other_files_at_the_same_paths_is_not_taken_for_ours(tmp_path):
    def start(_name, *command):
        script = 'mount -t tmpfs none "$0" && echo "$1" > "$0/nginx.conf" && shift && exec "$@"'
        return unshared(script, folder, (folder / "nginx.conf").read_text(), *command)

    folder = tmp_path / "nginx"
    folder.mkdir()
    nginx = Nginx(folder, http="upstream u { server 127.0.0.1:1; }", start=start)
    try:
        told = run_module("nginx_info", {"servers": ["127.0.0.1:1"], "configuration": str(nginx.configuration), "state_dir": str(tmp_path / "state")})
        assert "No nginx with the configuration %s runs on this machine" % nginx.configuration in told["msg"]
        assert "An nginx with other files than this machine has at the same paths, such as that of a container (process" in told["msg"]
        assert str(nginx.pid) in told["msg"]
    finally:
        nginx.stop()


def in_the_background(bed):
    """Starts nginx anew, so that its program can be replaced: in the foreground, nginx ignores USR2. Returns its master process, a function that lists all
    of them, and one that waits for the other master process."""
    bed.nginx.stop()
    subprocess.run([PROGRAM, "-p", bed.folder, "-c", bed.nginx.configuration], check=True)

    def masters():
        titles = {pid: " ".join(words) for pid, words in commands().items()}
        return {pid for pid, title in titles.items() if title.startswith("nginx: master") and str(bed.nginx.configuration) in title}

    def with_workers(known=()):
        # A worker bears its master's title for a moment. A master without workers may miss a signal.
        return [pid for pid in masters().difference(known) if children(pid)]

    (former,) = until(with_workers, 30)
    return former, masters, lambda: until(lambda: with_workers({former}), 30)[0]


def test_a_former_master_process_that_comes_back_has_not_loaded_the_hold(bed):
    """The program is replaced, and the new one fails after the host was taken out. The former one goes on with what it has read long ago."""
    former, masters, replacement = in_the_background(bed)

    def seen():
        return [server["in_service"] for server in bed.info().get("servers", ()) if server["server"] == bed.one]

    try:
        os.kill(former, signal.SIGUSR2)
        new = replacement()
        os.kill(former, signal.SIGWINCH)
        until(seen, 30)
        assert bed.hold()["process"]["pid"] == new
        assert seen() == [False, False]
        os.kill(new, signal.SIGQUIT)
        until(lambda: masters() == {former} and seen(), 30)
        assert seen() == [True, True]
        assert bed.hold()["process"]["pid"] == former
        assert seen() == [False, False]
        assert bed.hold(None, "absent")["changed"]
        assert bed.up.read_bytes() == bed.found
    finally:
        for pid in masters():
            os.kill(pid, signal.SIGTERM)


def test_a_master_process_that_cannot_reload_is_told_before_anything_is_changed(bed):
    """The program is replaced and the replacement is taken back (HUP, QUIT). A request keeps the new process. Until it ends, HUP only starts workers."""
    bed.serve()
    former, masters, replacement = in_the_background(bed)
    try:
        os.kill(former, signal.SIGUSR2)
        new = replacement()
        os.kill(former, signal.SIGWINCH)
        until(lambda: "servers" in bed.info(), 30)
        with socket.create_connection(("127.0.0.1", bed.ports["door"])) as client:
            client.sendall(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(1)
            os.kill(former, signal.SIGHUP)
            until(lambda: "both serve" in bed.info().get("msg", ""), 30)
            os.kill(new, signal.SIGQUIT)
            until(lambda: "both serve" not in bed.info().get("msg", ""), 30)
            for told in (bed.info(), bed.hold()):
                assert "Process %d of nginx does not read its configuration as long as process %d runs" % (former, new) in told["msg"]
            assert bed.up.read_bytes() == bed.found
        until(lambda: masters() == {former}, 30)
        assert bed.hold()["changed"]
    finally:
        for pid in masters():
            os.kill(pid, signal.SIGTERM)


def test_a_former_master_process_that_goes_on_does_not_block(bed):
    """The program is replaced (USR2, QUIT). A download, or a WebSocket, keeps the former master process."""
    bed.serve()
    former, masters, replacement = in_the_background(bed)

    def message():
        return bed.info().get("msg", "")

    with socket.create_connection(("127.0.0.1", bed.ports["door"])) as client:
        client.sendall(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.recv(1)
        os.kill(former, signal.SIGUSR2)
        try:
            until(lambda: "both serve" in message(), 30)
            new = replacement()
            # Both serve. The former one would not know what is changed.
            for told in (bed.info(), bed.hold()):
                assert "process %d was started from process %d to replace its program, and both serve" % (new, former) in told["msg"]
            os.kill(former, signal.SIGQUIT)
            until(lambda: not message(), 30)
            held = bed.hold()
            assert ([server["condition"] for server in held["servers"]], held["process"]["pid"]) == (["held", "held"], new)
            seen = bed.ours()
            assert [server["in_service"] for server in seen] == [False, False]
            # What the former one still does counts until it is gone.
            assert former in masters()
            assert sum(server["connections"] for server in bed.info()["servers"]) > 0
            client.close()
            until(lambda: masters() == {new}, 30)
            assert bed.hold(None, "absent")["changed"]
        finally:
            for pid in masters():
                os.kill(pid, signal.SIGTERM)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize(
    ("protect", "undo", "told"),
    [
        (["chattr", "+i"], ["chattr", "-i"], "cannot be changed, not even by root: see whether it is immutable (lsattr)"),
        (["mount", "--bind", "{path}"], ["umount"], "is mounted by itself, as Docker does with a single file, and cannot be replaced: mount its folder"),
    ],
)
def test_a_file_that_cannot_be_replaced_is_told_before_anything_is_changed(bed, protect, undo, told):
    if subprocess.run([word.format(path=bed.up) for word in protect] + [str(bed.up)], stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("%s does not work here" % protect[0])
    try:
        bed.nginx.reload()
        expected = "%s %s" % (bed.up, told)
        assert bed.info()["rights_problem"] == expected
        assert [bed.hold(check=check)["msg"] for check in (True, False)] == ["Nothing was changed: %s." % expected] * 2
        assert bed.records() == [] and bed.up.read_bytes() == bed.found
    finally:
        subprocess.run([*undo, str(bed.up)], check=True)


def test_a_file_that_another_nginx_reads_too_is_told_before_anything_is_changed(bed, tmp_path):
    """That one would go on without the change. With a duty for each, one reload would undo what the record says of the other."""
    (tmp_path / "other").mkdir()
    other = Nginx(tmp_path / "other", http=f"include {bed.up}; server {{ listen 127.0.0.1:{free_port()}; location / {{ proxy_pass http://shop; }} }}")
    try:
        expected = "another nginx (process %d with %s) reads %s, too, and would go on without the change: give each nginx a file of its own"
        expected %= other.pid, other.configuration, bed.up
        assert bed.info()["rights_problem"] == expected
        assert [bed.hold(check=check)["msg"] for check in (True, False)] == ["Nothing was changed: %s." % expected] * 2
        assert bed.records() == [] and bed.up.read_bytes() == bed.found
    finally:
        other.stop()
    bed.hold()
    assert bed.info()["idle"]


def test_workers_whose_master_process_was_killed_and_that_still_take_requests_are_told(bed):
    """With reuseport, another nginx can be started beside them, and they never load anything again."""
    bed.serve()
    site = bed.folder / "conf.d" / "site.conf"
    site.write_text(site.read_text().replace(";", " reuseport;", 1))
    bed.nginx.stop()
    bed.nginx.start()
    strays = bed.nginx.workers()
    try:
        os.kill(bed.nginx.pid, signal.SIGKILL)
        bed.nginx._process.wait()
        assert "goes on without its master process, which was killed: end it (kill -QUIT" in bed.info()["msg"]
        bed.nginx.start()
        for result in (bed.info(), bed.hold(), bed.hold(check=True)):
            assert re.match(r"Worker process (%s) of nginx has no master process any more" % "|".join(map(str, strays)), result["msg"])
        assert bed.up.read_bytes() == bed.found
        for stray in strays:
            os.kill(stray, signal.SIGQUIT)
        until(lambda: "msg" not in bed.info(), 20)
        bed.hold()
        assert bed.info()["idle"] and set(bed.answers(50)) == {"two"}
    finally:
        for stray in strays:
            with contextlib.suppress(ProcessLookupError):
                os.kill(stray, signal.SIGKILL)


def test_without_the_rights_it_is_told_before_anything_is_changed(bed):
    bed.folder.chmod(0o755)
    seen = run_module("nginx_info", bed.arguments(servers=[bed.one]), user=65534)
    assert "takes no signal from user id 65534" in seen["rights_problem"]
    told = run_module("nginx_hold", bed.arguments(server=bed.one, event_ids=["A"]), user=65534)
    assert told["failed"]
    assert bed.up.read_bytes() == bed.found


IMPOSTOR = """
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **words) {
    for (int i = 1; i < count; i++)
        if (!strcmp(words[i], "-V") || !strcmp(words[i], "-t")) {
            FILE *proof = fopen(PROOF, "a");
            fprintf(proof, "uid %d\\n", (int)geteuid());
            fclose(proof);
            return 0;
        }
    sleep(60);
    return 0;
}
"""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("gcc"), reason="needs root and a compiler")
@pytest.mark.parametrize("module", ["nginx_info", "nginx_hold"])
def test_the_program_of_another_user_is_never_run(tmp_path, module):
    """Every user may call a process the master process of nginx."""
    proof, program = tmp_path / "proof", tmp_path / "program"
    (tmp_path / "program.c").write_text(IMPOSTOR)
    subprocess.run(["gcc", f'-DPROOF="{proof}"', "-o", program, tmp_path / "program.c"], check=True)
    title = f"nginx: master process nginx -p {tmp_path}"
    impostor = subprocess.Popen([title], executable=program, user=65534, group=65534)
    try:
        more = {"server": "127.0.0.1:1", "event_ids": ["A"]} if module == "nginx_hold" else {"servers": ["127.0.0.1:1"]}
        told = run_module(module, {"configuration": str(tmp_path / "nginx.conf"), "state_dir": str(tmp_path / "state"), **more})
        assert not proof.exists(), "root ran the program of another user: %s" % proof.read_text()
        assert "calls itself the master process of nginx and belongs to another user" in told["msg"]
    finally:
        impostor.kill()
        impostor.wait()


def test_files_limit_the_hold(bed):
    more = bed.folder / "conf.d" / "more.conf"
    more.write_text("upstream more { server 127.0.0.1:%d; server 127.0.0.1:%d; }\n" % (bed.ports["one"], bed.ports["two"]))
    found = more.read_bytes()
    bed.hold(files=[str(more)])
    assert b"down" in more.read_bytes()
    assert bed.up.read_bytes() == bed.found
    bed.hold(None, "absent", files=[str(more)])
    assert more.read_bytes() == found


def test_a_hold_in_a_file_that_is_not_named_any_more_comes_back(bed):
    more = bed.folder / "conf.d" / "more.conf"
    more.write_text("upstream more { server 127.0.0.1:%d; server 127.0.0.1:%d; }\n" % (bed.ports["one"], bed.ports["two"]))
    bed.nginx.reload()
    found = more.read_bytes()
    bed.hold()
    assert more.read_bytes() != found
    bed.hold(["A"], "absent", files=[str(bed.up)])
    assert (more.read_bytes(), bed.up.read_bytes(), bed.records()) == (found, bed.found, [])


def test_too_few_others_refuse_the_hold(bed):
    bed.serve()
    told = bed.hold(min_in_service="2")
    assert told["refused"] == [
        f"{bed.one} stays: 2 of 2 in service in upstream shop, 2 must stay.",
        f"{bed.one} stays: 2 of 2 in service in upstream api, 2 must stay.",
    ]
    assert bed.up.read_bytes() == bed.found
    assert bed.hold(min_in_service="50%")["refused"] == []
    assert "1 of 2 in service" in bed.hold(server=bed.two, min_in_service=1)["refused"][0]


CALLS = {
    "write": Store.write,
    "delete": Store.delete,
    "check": RunningNginx.check,
    "reload": RunningNginx.reload,
    "hang_up": RunningNginx.hang_up,
    "replace_file": _nginx_hold.replace_file,
}
# Before and after each change; of what lies between them, some in make test.
POINTS = [
    ("write", 1, True),
    ("replace_file", 1, True),
    ("hang_up", 1, True),
    ("delete", 1, True),
    *(
        pytest.param(point, marks=pytest.mark.long)
        for point in [("write", 1, False), ("write", 2, True), ("replace_file", 2, True), ("check", 2, True), ("reload", 1, True), ("write", 3, True)]
    ),
]


def is_killed(bed, point, **options):
    """Kill the module at the call of that name and number, before or after it. Whether it came so far."""
    name, number, after = point
    return killed("nginx_hold", bed.arguments(server=bed.one, **options), CALLS[name], number=number, after=after)


@pytest.fixture(name="two_files")
def make_two_files(tmp_path):
    bed = Bed(tmp_path / "nginx")
    bed.more = bed.folder / "conf.d" / "more.conf"
    bed.more.write_text("upstream more { server 127.0.0.1:%d; server 127.0.0.1:%d; }\n" % (bed.ports["one"], bed.ports["two"]))
    bed.nginx.reload()
    yield bed
    bed.close()


@pytest.mark.parametrize("point", POINTS, ids=str)
def test_a_hold_that_was_killed_is_continued_and_given_back_exactly(two_files, point):
    bed = two_files
    bed.serve()
    found = bed.up.read_bytes(), bed.more.read_bytes()
    assert is_killed(bed, point, event_ids=["A"]) or point[0] == "delete"
    seen = bed.ours()
    if point[0] in ("hang_up", "reload"):
        assert [(server["condition"], server["noted"]) for server in seen] == [("held", False)] * 3
    told = bed.hold()
    assert [server["noted"] for server in bed.ours()] == [True] * 3
    assert told["conflicts"] == []
    assert [server["condition"] for server in told["servers"]] == ["held"] * 3
    assert [record["phase"] for record in bed.records()] == ["held"] * 3
    assert bed.answers() == {"two": 20}
    bed.hold(None, "absent")
    assert (bed.up.read_bytes(), bed.more.read_bytes(), bed.records()) == (*found, [])
    assert set(bed.answers()) == {"one", "two"}
    assert not list(bed.folder.rglob(".*.graceful_azure"))


@pytest.mark.parametrize("point", POINTS, ids=str)
def test_a_hold_that_was_killed_and_is_not_needed_any_more_is_given_back_exactly(two_files, point):
    bed = two_files
    bed.serve()
    found = bed.up.read_bytes(), bed.more.read_bytes()
    is_killed(bed, point, event_ids=["A"])
    told = bed.hold(None, "absent")
    assert told["conflicts"] == []
    assert (bed.up.read_bytes(), bed.more.read_bytes(), bed.records()) == (*found, [])
    assert set(bed.answers()) == {"one", "two"}


@pytest.mark.parametrize("again", ["absent", "present"])
@pytest.mark.parametrize("point", POINTS, ids=str)
def test_a_release_that_was_killed_is_continued(two_files, point, again):
    bed = two_files
    bed.serve()
    found = bed.up.read_bytes(), bed.more.read_bytes()
    bed.hold()
    assert is_killed(bed, point, state="absent")
    if again == "present":
        told = bed.hold(["B"])
        assert told["conflicts"] == []
        assert [record["phase"] for record in bed.records()] == ["held"] * 3
        assert bed.answers() == {"two": 20}
    told = bed.hold(None, "absent")
    assert told["conflicts"] == []
    assert (bed.up.read_bytes(), bed.more.read_bytes(), bed.records()) == (*found, [])
    assert set(bed.answers()) == {"one", "two"}


def test_two_at_once_hold_both_servers(bed):
    bed.up.write_text(bed.up.read_text().replace("upstream api", "upstream third { server 127.0.0.1:1; server %s; }\nupstream api" % bed.one))
    bed.nginx.reload()
    found = bed.up.read_bytes()
    first = run_module("nginx_hold", bed.arguments(server=bed.one, event_ids=["A"]), wait=False)
    second = run_module("nginx_hold", bed.arguments(server=bed.two, event_ids=["B"]), wait=False)
    assert first()["changed"] and second()["changed"]
    assert bed.up.read_text().count(" down") == 5
    back = [run_module("nginx_hold", bed.arguments(server=server, state="absent"), wait=False) for server in (bed.one, bed.two)]
    assert all(finish()["changed"] for finish in back)
    assert bed.up.read_bytes() == found


def test_a_look_waits_for_what_the_former_workers_still_do(bed):
    bed.serve()
    clients = [socket.create_connection(("127.0.0.1", bed.ports["door"]), timeout=patient(10)) for _number in range(8)]
    for client in clients:
        client.sendall(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
    for client in clients:
        assert client.recv(4096)
    bed.hold()
    # The servers of shop are those of api, too, which keeps connections: so something must come back after all that was sent.
    until(lambda: not bed.info()["servers"][0]["former"], 20)
    seen = bed.info()["servers"][0]
    assert (seen["in_service"], seen["idle"], seen["former"]) == (False, False, 0)
    # Of two equal servers one has the double weight.
    assert 4 <= seen["connections"] <= 6
    assert not bed.info(timeout=1)["idle"]
    finish = run_module("nginx_info", bed.arguments(servers=[bed.one], timeout=20, quiet=1), wait=False)
    time.sleep(1)
    for client in clients:
        client.close()
    waited = finish()["servers"][0]
    assert (waited["idle"], waited["quiet_for"] >= 1) == (True, True)


def test_connections_that_nginx_keeps_to_the_server_go_with_the_reload(bed):
    bed.serve()
    bed.answers(path="/api/")
    assert bed.info()["servers"][0]["connections"] > 0
    bed.hold()
    assert bed.info(timeout=patient(10), quiet=1)["idle"]
    assert bed.info()["servers"][0]["connections"] == 0


@pytest.mark.skipif(shutil.which("openssl") is None, reason="a certificate is made with openssl")
def test_encrypted_connections_that_nginx_keeps_to_the_server_go_with_the_reload(bed, tmp_path):
    """Those of former workers, too, and those that were kept after a request that the reload has met."""
    begun, go_on, pem = threading.Event(), threading.Event(), certificate(tmp_path, "127.0.0.1")

    class Answer(Handler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            if self.path == "/slow":
                begun.set()
                go_on.wait(patient(10))
            self.reply(200, b"ok")

    with contextlib.ExitStack() as servers:
        for port in (bed.ports["one"], bed.ports["two"]):
            servers.enter_context(Serving()).serve(Server(Answer, port, tls=pem))
        bed.up.write_text(bed.up.read_text().replace("server %s; }" % bed.two, "server %s backup; }" % bed.two))
        site = bed.folder / "conf.d" / "site.conf"
        site.write_text(site.read_text().replace("http://api/", "https://api/"))
        bed.nginx.reload()
        assert bed.answers(path="/api/") and bed.info()["servers"][0]["connections"] > 0
        slow = "http://127.0.0.1:%d/api/slow" % bed.ports["door"]
        client = threading.Thread(target=lambda: urllib.request.urlopen(slow, timeout=patient(20)).close(), daemon=True)
        client.start()
        assert begun.wait(patient(10))
        bed.hold()
        assert not bed.info()["idle"], "the request is still there"
        go_on.set()
        client.join()
        assert bed.info(timeout=patient(10), quiet=1)["idle"]
        assert [server["connections"] for server in bed.ours()] == [0, 0]


@STREAM_NEEDED
def test_a_connection_through_stream_lives_on_and_counts(tmp_path):
    upstream = "upstream s {{ server 127.0.0.1:{one}; server 127.0.0.1:{two} backup; }}"
    bed = Bed(tmp_path / "nginx", stream=upstream + " server {{ listen 127.0.0.1:{stream}; proxy_pass s; }}")
    try:
        bed.serve()
        client = socket.create_connection(("127.0.0.1", bed.ports["stream"]), timeout=patient(5))
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"X-Backend: one" in client.recv(4096)
        bed.hold()
        # One for each line of the server, because they have the same address.
        assert {(server["connections"], server["former"], server["idle"]) for server in bed.ours()} == {(1, 0, False)}
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"X-Backend: one" in client.recv(4096)
        client.close()
        assert bed.info(timeout=patient(10))["idle"]
    finally:
        bed.close()


@STREAM_NEEDED
def test_sessions_of_udp_count(tmp_path):
    """nginx keeps a connected socket for each client until proxy_timeout is over."""
    door, lasts = free_port(), math.ceil(patient(5))
    stream = "upstream names {{ server 127.0.0.1:{stream}; }} server {{ listen 127.0.0.1:%d udp; proxy_pass names; proxy_timeout %ds; }}" % (door, lasts)
    bed = Bed(tmp_path / "nginx", stream=stream)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            server.bind(("127.0.0.1", bed.ports["stream"]))
            server.settimeout(patient(5))
            client.sendto(b"question", ("127.0.0.1", door))
            server.recvfrom(100)
            name = "127.0.0.1:%d" % bed.ports["stream"]
            bed.hold(server=name)
            seen = bed.info(servers=[name])["servers"][0]
            assert (seen["connections"], seen["in_service"], seen["idle"]) == (1, False, False)
            assert bed.info(servers=[name], timeout=20 + lasts)["idle"]
    finally:
        bed.close()


def test_a_request_that_was_begun_before_the_reload_may_still_go_to_the_server(bed):
    """The whole request is read before nginx chooses a server. The former worker chooses by the former configuration."""
    bed.serve()
    clients = []
    for _number in range(8):
        client = socket.create_connection(("127.0.0.1", bed.ports["door"]), timeout=patient(10))
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nab")
        clients.append(client)
    until(lambda: taken(bed.ports["door"]) == 8, 10)
    bed.hold()
    seen = bed.info()["servers"][0]
    assert (seen["connections"], seen["former"], seen["idle"]) == (0, 8, False)
    answered = Counter()
    for client in clients:
        client.sendall(b"cd")
        answered.update(word for word in (b"X-Backend: one", b"X-Backend: two") if word in client.recv(4096))
        client.close()
    assert answered[b"X-Backend: one"] > 0, "this is why such a client keeps the host busy"
    assert bed.info(timeout=patient(20))["idle"]


@pytest.mark.parametrize("way", ["silent", "kept", "unreachable"])
def test_a_request_that_another_server_does_not_answer_may_still_go_to_the_server(bed, way):
    """When the other one fails, or takes too long, the former worker tries again by the former configuration."""
    site = bed.folder / "conf.d" / "site.conf"
    with contextlib.closing(listener()) as other:
        address = "127.0.0.1:%d" % other.getsockname()[1]
        if way == "unreachable":
            # Its queue is full, so that nobody answers who connects.
            other.listen(0)
            waiting = [socket.socket() for _number in range(3)]
            for one in waiting:
                one.setblocking(False)
                one.connect_ex(other.getsockname())
        text = "upstream again { server %s backup; server %s;%s }\n" % (bed.one, address, " keepalive 4;" if way == "kept" else "")
        text += site.read_text().replace("http://shop;", 'http://again; proxy_http_version 1.1; proxy_set_header Connection "";')
        site.write_text(text)
        bed.nginx.reload()
        with socket.create_connection(("127.0.0.1", bed.ports["door"]), timeout=patient(10)) as client:
            begun = b"HTTP/1.1 200 OK\r\nX-Backend: other\r\nContent-Length: 4\r\n\r\n"
            upstream = None
            if way == "kept":
                client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                upstream = other.accept()[0]
                upstream.recv(4096)
                upstream.sendall(begun + b"done")
                assert b"done" in client.recv(4096)
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            if way == "silent":
                upstream = other.accept()[0]
            if upstream:
                upstream.recv(4096)
            until(lambda: taken(bed.ports["door"]) == 1, 10)
            bed.hold()
            server = bed.info()["servers"][0]
            assert (server["connections"], server["former"], server["idle"]) == (0, 1, False)
            if upstream:
                # So much that nginx passes some of it on.
                upstream.sendall(begun.replace(b"Length: 4", b"Length: 100000") + b"x" * 50000)
                until(lambda: bed.info()["servers"][0]["idle"], 20)
                upstream.close()


@pytest.mark.parametrize(("begun", "more"), [(b"HTTP/1.1 200 OK\r\nContent-", ""), (b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-3/8\r\n", SLICES)])
def test_a_request_whose_answer_another_server_has_only_begun_may_still_go_to_the_server(bed, begun, more):
    """Nothing was passed on to the client as yet, or a further piece of the answer is asked for."""
    with contextlib.closing(listener()) as other:
        address = "127.0.0.1:%d" % other.getsockname()[1]
        site = bed.folder / "conf.d" / "site.conf"
        text = "upstream again { server %s; server %s backup; }\n" % (address, bed.one)
        site.write_text(text + site.read_text().replace("http://shop;", "http://again; " + more))
        bed.nginx.reload()
        with socket.create_connection(("127.0.0.1", bed.ports["door"]), timeout=patient(10)) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            with contextlib.closing(other.accept()[0]) as upstream:
                upstream.recv(4096)
                upstream.sendall(begun + (b"Content-Length: 4\r\n\r\nab" if more else b""))
                bed.hold()
                (server,) = (each for each in bed.info()["servers"] if each["upstream"] == "again" and each["server"] == bed.one)
                assert (server["connections"], server["former"], server["idle"]) == (0, 1, False)
                if not more:
                    upstream.sendall(b"Length: 100000\r\n\r\n" + b"x" * 50000)
                    assert bed.info(timeout=patient(20))["idle"]
                    # What nginx has and does not pass on before it has more of it changes nothing.
                    upstream.sendall(b"x")
                    assert bed.info()["idle"]


@pytest.mark.parametrize("more", ["proxy_ignore_client_abort on;", "proxy_cache answers; proxy_cache_valid 1h;"])
def test_a_request_that_was_begun_counts_although_nginx_reads_on_for_a_client_that_is_gone(bed, more):
    """Its connection to another server is no sign that the one client that is left has its server."""
    bed.serve()
    main = bed.nginx.configuration
    main.write_text(main.read_text().replace("worker_processes 2", "worker_processes 1"))
    with contextlib.closing(listener()) as other, socket.socket() as begun:
        site = bed.folder / "conf.d" / "site.conf"
        text = "proxy_cache_path %s/cache keys_zone=answers:1m;\n" % bed.folder
        passes = "location /long { proxy_pass http://127.0.0.1:%d; %s }\n  location /api/" % (other.getsockname()[1], more)
        site.write_text(text + site.read_text().replace("location /api/", passes))
        bed.nginx.reload()
        with socket.create_connection(("127.0.0.1", bed.ports["door"]), timeout=patient(10)) as client:
            client.sendall(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
            upstream = other.accept()[0]
            upstream.recv(4096)
            upstream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"x" * 10000)
            client.recv(4096)
            # It is reset, so that nginx has no connection to it any more.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        begun.settimeout(patient(10))
        begun.connect(("127.0.0.1", bed.ports["door"]))
        begun.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nab")
        until(lambda: taken(bed.ports["door"]) == 1, 10)
        bed.hold()
        server = bed.info()["servers"][0]
        assert (server["connections"], server["former"], server["idle"]) == (0, 1, False)
        upstream.close()


def test_a_client_of_another_server_that_was_upgraded_does_not_count(bed):
    """A websocket is never sent elsewhere, whoever has spoken last."""
    with contextlib.closing(listener()) as other:
        address = "127.0.0.1:%d" % other.getsockname()[1]
        site = bed.folder / "conf.d" / "site.conf"
        text = "upstream again { server %s; server %s backup; }\n" % (address, bed.one)
        upgrade = "http://again; proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;"
        site.write_text(text + site.read_text().replace("http://shop;", upgrade))
        bed.nginx.reload()
        with socket.create_connection(("127.0.0.1", bed.ports["door"]), timeout=patient(10)) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n")
            with contextlib.closing(other.accept()[0]) as upstream:
                upstream.recv(4096)
                upstream.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n")
                client.recv(4096)
                client.sendall(b"a message")
                upstream.recv(4096)
                bed.hold()
                assert bed.info(timeout=patient(20))["idle"]


def test_a_request_that_was_begun_on_a_unix_socket_counts_too(bed):
    door = str(bed.folder / "door")
    site = bed.folder / "conf.d" / "site.conf"
    site.write_text(site.read_text().replace("location / {", "listen unix:%s;\n  location / {" % door))
    bed.nginx.reload()
    bed.serve()
    clients = []
    for _number in range(8):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(patient(10))
        client.connect(door)
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
        clients.append(client)
    # What the worker has not read yet.
    until(lambda: not any(fcntl.ioctl(client, termios.TIOCOUTQ, b"\0" * 4).strip(b"\0") for client in clients), 10)
    bed.hold()
    seen = bed.info()["servers"][0]
    assert (seen["connections"], seen["former"], seen["idle"]) == (0, 8, False)
    answered = Counter()
    for client in clients:
        client.sendall(b"Connection: close\r\n\r\n")
        answered.update(word for word in (b"X-Backend: one", b"X-Backend: two") if word in client.recv(4096))
        client.close()
    assert answered[b"X-Backend: one"] > 0, "this is why such a client keeps the host busy"
    assert bed.info(timeout=patient(20))["idle"]


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="only root can make a network")
def test_a_request_to_a_unix_socket_of_a_container_counts(bed):
    """There, the socket has another path."""
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/out/app.sock"
        code = "import os, socket; s = socket.socket(socket.AF_UNIX); s.bind('%s/in/app.sock'); s.listen(8)" % folder
        code += "; os.chmod('%s/in/app.sock', 0o666); c = [s.accept() for _ in range(9)]" % folder
        for name in ("out", "in"):
            os.mkdir(os.path.join(folder, name))
        os.chmod(folder, 0o755)
        inside = 'mount --bind "$0/out" "$0/in" && exec "$1" -c "$2"'
        container = subprocess.Popen(["unshare", "--net", "--mount", "sh", "-c", inside, folder, sys.executable, code])
        try:
            until(lambda: os.path.exists(path) and os.stat(path).st_mode & 0o2, 30)
            bed.up.write_text("upstream shop { server unix:%s; server %s; }\nupstream api { server %s; }\n" % (path, bed.two, bed.two))
            bed.nginx.reload()
            with contextlib.ExitStack() as stack:
                clients = [stack.enter_context(socket.create_connection(("127.0.0.1", bed.ports["door"]))) for _number in range(2)]
                for client in clients:
                    client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                until(lambda: taken(bed.ports["door"]) == 2, 10)
                bed.hold(server="unix:" + path)
                seen = bed.info(servers=["unix:" + path])["servers"][0]
                assert (seen["in_service"], seen["connections"], seen["idle"]) == (False, 0, False)
                why = "who listens on %s cannot be seen from here, as with a container, and 2 connections may be to it"
                assert seen["uncounted"] == why % path
            assert bed.info(servers=["unix:" + path], timeout=patient(20))["idle"]
        finally:
            container.kill()
            container.wait()


def test_no_request_on_a_connection_of_its_own_fails_while_the_server_goes_out_and_comes_back(bed, tmp_path):
    bed.serve()
    outcomes, stop = Counter(), threading.Event()

    def ask():
        while not stop.is_set():
            try:
                with urllib.request.urlopen("http://127.0.0.1:%d/" % bed.ports["door"], timeout=patient(5)) as answer:
                    outcomes[answer.headers["X-Backend"]] += 1
            except (OSError, urllib.error.URLError) as error:
                outcomes["failed: %s" % error] += 1

    threads = [threading.Thread(target=ask) for _number in range(4)]
    for thread in threads:
        thread.start()
    for number in itertools.count(1):
        bed.hold()
        time.sleep(0.2)
        bed.hold(None, "absent")
        time.sleep(0.2)
        if number >= 4 and sum(outcomes.values()) > 200:
            break
    stop.set()
    for thread in threads:
        thread.join()
    assert set(outcomes) == {"one", "two"}


def test_the_load_with_kept_connections_fails_only_where_the_reload_closed_one(bed, tmp_path):
    """What a reload costs clients that keep their connections: docs/nginx.md has the figures."""
    bed.serve()
    records = tmp_path / "load.csv"
    process = subprocess.Popen(load.command(bed.ports["door"], 100, 10, records), stdout=subprocess.DEVNULL)
    time.sleep(1)
    for _round in range(3):
        bed.hold()
        time.sleep(0.5)
        bed.hold(None, "absent")
        time.sleep(0.5)
    process.terminate()
    process.wait(patient(30))
    rows = load.read_requests(records)
    failed = [row for row in rows if row["outcome"] != load.OK]
    assert len(rows) > 200
    assert {row["connection"] for row in failed} <= {"kept"}
    assert {row["outcome"] for row in failed} <= {"closed without an answer"}
    print("requests %d, failed %d of them on kept connections" % (len(rows), len(failed)))


def test_records_follow_their_schema(bed):
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((Path(__file__).parents[2] / "docs" / "hold-record.schema.json").read_text())
    bed.hold()
    assert len(bed.records()) == 2
    for record in bed.records():
        jsonschema.validate(record, schema)


def forget(bed):
    """The disk with the records was replaced."""
    shutil.rmtree(bed.state_dir)


def test_a_line_whose_record_is_lost_is_known_by_its_mark_and_given_back_exactly(bed):
    bed.serve()
    details = {"A": {"event_type": "Reboot", "resources": ["web_1"], "host": "web1", "rule": "a; } # \n" + "b" * 50}}
    bed.hold(event_details=details, reason="Reboot")
    assert bed.up.read_text().count("# Held by graceful.azure") == 2 and "server b" not in bed.up.read_text()
    forget(bed)
    look = bed.info()
    mine = [server for server in look["servers"] if server["server"] == bed.one]
    assert [(server["condition"], server["held_by"], server["noted"]) for server in mine] == [("held", ["A"], False)] * 2
    assert [record["events"]["A"]["details"] for record in look["holds"]] == [details["A"]] * 2
    assert not bed.state_dir.exists()

    # Another event needs it as well, so the records are made again.
    assert bed.hold(["B"])["conflicts"] == []
    assert [sorted(record["events"]) for record in bed.records()] == [["A", "B"]] * 2 and bed.records()[0]["events"]["A"]["details"] == details["A"]
    assert bed.answers() == {"two": 20}
    forget(bed)
    back = bed.hold(["A"], state="absent")
    assert (back["changed"], back["conflicts"]) == (True, [])
    assert bed.up.read_bytes() == bed.found and bed.records() == [] and set(bed.answers()) == {"one", "two"}


def test_a_mark_tells_only_of_its_own_line(bed):
    text = bed.found.decode().replace("weight=2 ;", "weight=2 down ;")
    bed.up.write_text(text)
    bed.nginx.reload()
    bed.hold()
    held = bed.up.read_text()
    assert held.count("# Held by graceful.azure") == 1
    forget(bed)
    # The operator's line never had a mark. The other one is not as the hold left it any more.
    bed.up.write_text(held.replace("max_fails=3 down", "max_fails=4 down"))
    bed.nginx.reload()
    ours = bed.ours()
    assert [(server["condition"], server["held_by"]) for server in ours] == [("already_out", []), ("changed_meanwhile", ["A"])]
    back = bed.hold(state="absent")
    assert len(back["conflicts"]) == 1 and bed.up.read_text() == text.replace("max_fails=3", "max_fails=4 down")


@pytest.mark.parametrize("forgotten", [False, True])
def test_somebody_removes_the_parameter_and_leaves_our_comment(bed, forgotten):
    bed.serve()
    bed.hold()
    bed.up.write_text(bed.up.read_text().replace(" down", ""))
    bed.nginx.reload()
    if forgotten:
        forget(bed)
    ours = bed.ours()
    assert [(server["condition"], server["held_by"], server["in_service"]) for server in ours] == [("changed_meanwhile", ["A"], True)] * 2
    assert len(bed.hold(["B"])["conflicts"]) == 2 and set(bed.answers()) == {"one", "two"}
    back = bed.hold(None, "absent")
    assert (back["changed"], len(back["conflicts"])) == (True, 2)
    assert (bed.up.read_bytes(), bed.records(), bed.hold(state="absent")["changed"]) == (bed.found, [], False)


def test_a_hold_of_a_release_without_marks_is_given_back_exactly(bed):
    bed.hold()
    bed.up.write_text(without_marks(bed.up.read_text()))
    bed.nginx.reload()
    assert bed.hold(state="absent")["conflicts"] == [] and bed.up.read_bytes() == bed.found
