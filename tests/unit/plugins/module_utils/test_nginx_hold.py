# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Holds on lines of nginx, in real files, with an nginx that is made up."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace

import pytest
from ansible_collections.graceful.azure.plugins.module_utils import _nginx_hold
from ansible_collections.graceful.azure.plugins.module_utils._duties.nginx import NginxWatch, still_served
from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Engine
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Request, Store
from ansible_collections.graceful.azure.plugins.module_utils._nginx import NginxRefused, Worker
from ansible_collections.graceful.azure.plugins.module_utils._nginx_configuration import Configuration
from ansible_collections.graceful.azure.plugins.module_utils._nginx_hold import NginxServers, replace_file, sort_records
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import NGINX_SERVER

FOUND = "http {\n  upstream shop {\n    server 10.0.0.4:80 weight=2;\n    server 10.0.0.5:80;\n  }\n}\n"


class Nginx:
    """A master process with one worker, which takes whatever is in the file."""

    def __init__(self, path):
        self.configuration = str(path)
        self.path = path
        self.pid, self.started = 1, 1
        self.process = {"pid": 1, "started": 1}
        self.others = {}
        self.reloads = 0
        self.begun = 2

    def find(self):
        return self

    def check(self):
        return "# configuration file %s:\n%s\n" % (self.path, self.path.read_text())

    def workers(self):
        return [Worker(2 + self.reloads, self.begun, False, (1, 1))]

    def reload(self):
        self.reloads += 1
        # The file is older than the worker, whatever a tick of the kernel is.
        self.begun = max(self.begun, int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))) + 2
        return self.workers()


class Bed:
    def __init__(self, folder):
        self.path = folder / "nginx.conf"
        self.path.write_text(FOUND)
        self.nginx = Nginx(self.path)
        self.store = Store(str(folder / "state"))

    def act(self, present, ids=("A",), server="10.0.0.4:80"):
        request = Request(present, list(ids) if ids else None)
        servers = NginxServers(self.nginx, self.store, request, server)
        engine = Engine(servers, self.store, request)
        engine.run()
        return engine

    def records(self):
        return self.store.records(NGINX_SERVER)


@pytest.fixture
def bed(tmp_path):
    (tmp_path / "state").mkdir()
    return Bed(tmp_path)


def test_what_is_held_comes_back_to_the_byte(bed):
    assert bed.act(True).conflicts == [] and " down;" in bed.path.read_text()
    assert bed.act(False).conflicts == [] and bed.path.read_text() == FOUND and bed.records() == []


def test_a_line_that_went_with_it_comes_back_whatever_the_spelling_of_its_address_is_by_now(bed):
    found = FOUND.replace("http {", "http {\n  upstream api { server 10.0.0.4:81; }")
    bed.path.write_text(found)
    bed.act(True)
    assert bed.path.read_text().count(" down;") == 2
    bed.act(False, server="10.0.0.4")
    assert bed.path.read_text() == found and bed.records() == []


@pytest.mark.parametrize("forgotten", [False, True])
@pytest.mark.parametrize("made_of", ["weight=2", "weight=3", "weight=3 down"])
def test_what_somebody_else_made_of_the_line_stays_and_our_comment_goes(bed, made_of, forgotten):
    """Also where nothing but the comment is left of the hold, and its record is lost."""
    bed.act(True)
    bed.path.write_text(bed.path.read_text().replace("weight=2 down;", made_of + ";"))
    bed.nginx.reload()
    assert "Held by graceful.azure" in bed.path.read_text()
    if forgotten:
        (record,) = bed.records()
        bed.store.delete(record)
    reloads = bed.nginx.reloads
    again = bed.act(True, ["B"])
    assert len(again.conflicts) == 1 and bed.nginx.reloads == reloads, "whoever wants it so is heard"
    (record,) = bed.records()
    assert sorted(record["events"]) == ["A", "B"]
    assert len(bed.act(False, ["A"]).conflicts) == 1 and "Held by graceful.azure" in bed.path.read_text()
    assert len(bed.act(False, ["B"]).conflicts) == 1
    assert bed.path.read_text() == FOUND.replace("weight=2", made_of) and bed.records() == []
    assert not bed.act(False, None).changed


@pytest.mark.parametrize("present", [True, False])
def test_a_comment_without_its_parameter_tells_that_somebody_was_there_after_a_run_was_cut_off(bed, present):
    bed.act(True)
    (record,) = bed.records()
    bed.store.replace(record, dict(record, phase="changing" if present else "restoring"))
    bed.path.write_text(bed.path.read_text().replace(" down;", ";"))
    bed.nginx.reload()
    assert len(bed.act(present).conflicts) == 1 and "weight=2;" in bed.path.read_text()
    bed.act(False)
    assert bed.path.read_text() == FOUND and bed.records() == []


def test_what_gets_requests_although_its_line_says_down_is_not_done(bed):
    """Whoever uses the role load_balancer or the module duty alone may not look after that."""
    bed.path.write_text(FOUND.replace("weight=2", "down"))
    later = int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")) + 2
    for begun, told in ((1, "10.0.0.4:80 in upstream shop has the parameter down, but the configuration was changed"), (later, None)):
        bed.nginx.begun = begun
        engine = bed.act(True)
        found = still_served(engine, engine.request)
        assert [told and each[: len(told)] for each in found] == ([told] if told else [])
    bed.path.write_text(FOUND.replace("upstream shop {", "upstream shop {\n    balancer_by_lua_block { ngx.say() }"))
    engine = bed.act(True)
    told = "nothing can take 10.0.0.4:80 in upstream shop out: balancer_by_lua_block of upstream shop chooses servers whatever their lines say"
    assert still_served(engine, engine.request) == [told] and bed.path.read_text().count(" down;") == 1
    engine = bed.act(False)
    assert still_served(engine, engine.request) == []


@pytest.mark.parametrize("full", [False, True])
def test_a_disk_that_is_full_on_the_way_back_keeps_no_other_file_changed(bed, tmp_path, monkeypatch, full):
    """And nginx, which may take the change yet, is told to read the files once more."""
    other = tmp_path / "other.conf"
    other.write_text(FOUND[len("http {\n") : -len("}\n")])
    bed.path.write_text("http { include %s; upstream one { server 10.0.0.4:80; } }" % other)
    first, found = bed.path.read_text(), other.read_text()
    told, calls = [], []

    def refuse():
        raise NginxRefused("nginx did not take it.")

    def replace(path, data):
        calls.append(path)
        if full and len(calls) == 3:
            raise OSError(28, "No space left on device", path)
        replace_file(path, data)

    monkeypatch.setattr(bed.nginx, "check", lambda: "".join("# configuration file %s:\n%s\n" % (each, each.read_text()) for each in (bed.path, other)))
    monkeypatch.setattr(bed.nginx, "reload", refuse)
    monkeypatch.setattr(bed.nginx, "hang_up", lambda: told.append(1), raising=False)
    monkeypatch.setattr(_nginx_hold, "replace_file", replace)
    left = "Not all files are as they were" if full else "The files are as they were"
    with pytest.raises(NginxRefused, match="nginx did not take it. %s." % left):
        bed.act(True)
    assert len(calls) == 4 and told == [1]
    assert (bed.path.read_text() == first) + (other.read_text() == found) == (1 if full else 2)
    assert len(bed.records()) == (2 if full else 0)


def test_a_file_system_without_attributes(bed, monkeypatch):
    def none(path):
        raise OSError(95, "Operation not supported", path)

    monkeypatch.setattr(os, "listxattr", none)
    replace_file(str(bed.path), b"new")
    assert bed.path.read_bytes() == b"new"


def test_the_comment_of_another_line_tells_nothing(bed):
    bed.act(True)
    (record,) = bed.records()
    bed.store.delete(record)
    bed.path.write_text("".join(line for line in bed.path.read_text().splitlines(True) if "10.0.0.4:80 weight=2 down;" not in line))
    configuration = bed.path.read_text()
    assert configuration.count("Held by graceful.azure") == 1 and "10.0.0.5" in configuration
    assert sort_records([], Configuration(str(bed.path))) == ({}, [])


def test_from_where_nginx_was_connected_is_told_of_all_looks_of_one_that_waits():
    """The host counts its connections at another moment, and takes none of these for a client of its own."""
    server = {"context": "http", "upstream": "shop", "server": "10.0.0.4:80", "file": "/etc/nginx/nginx.conf", "idle": False}
    watch = NginxWatch(lambda: 0.0)
    for ports in ({"10.0.0.10": [40001, 40000]}, {"10.0.0.10": [40001, 40002], "10.0.0.11": [50000]}, {}):
        watch.saw(SimpleNamespace(servers=[dict(server, own_ports=ports)]))
    assert watch.ports(("http", "shop", "10.0.0.4:80", "/etc/nginx/nginx.conf")) == {"10.0.0.10": [40000, 40001, 40002], "10.0.0.11": [50000]}
    assert watch.ports(("http", "shop", "10.0.0.5:80", "/etc/nginx/nginx.conf")) == {}


def test_what_is_loaded_does_not_depend_on_how_long_the_look_takes(tmp_path, monkeypatch):
    """The reload followed the change at once, and the machine has no time for us between the two clocks."""
    bed = Bed(tmp_path)
    configuration = Configuration(bed.nginx.configuration)
    bed.nginx.reload()

    def slow(names, changed_at=_nginx_hold.changed_at):
        changed = changed_at(names)
        time.sleep(0.1)
        return changed

    monkeypatch.setattr(_nginx_hold, "changed_at", slow)
    (server,) = [server for server in configuration.servers if server.target == "10.0.0.4:80"]
    assert _nginx_hold.Loaded(bed.nginx, configuration).has(server, None)
