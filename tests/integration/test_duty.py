# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The modules duty and duty_info against a real HAProxy, a real nginx and a cluster of Redis. The services are those of a systemctl that only pretends."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import socket
import subprocess
import threading
import time
import urllib.request

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.graceful.azure.plugins.module_utils import _health_probe
from ansible_collections.graceful.azure.plugins.module_utils._connections import Counted
from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine
from ansible_collections.graceful.azure.plugins.module_utils._new_connections import Arrivals
from ansible_collections.graceful.azure.plugins.modules import duty, duty_info

from tests.support import nginx as support_nginx
from tests.support import redis_sentinel
from tests.support.haproxy import Haproxy, starting
from tests.support.module import run_module
from tests.support.nginx import Nginx
from tests.support.patience import patient, until
from tests.support.playbook import Playbook
from tests.support.ports import free_port
from tests.support.roles import pretend_systemctl
from tests.support.web import Web

SECTIONS = """
frontend door
  bind 127.0.0.1:{door}
  default_backend www
backend www
  server web1 127.0.0.1:{one}
  server web2 127.0.0.1:{two}
"""


class Bed:
    """A machine with a balancer and services. C(units): what runs there."""

    machine = Machine

    def __init__(self, folder, units=("app",)):
        self.folder = folder
        self.units = folder / "units"
        self.units.mkdir()
        for unit in units:
            (self.units / (unit + ".service")).write_text("active")
        self.path = f"{pretend_systemctl(folder, self.units)}:{os.environ['PATH']}"
        self.state_dir = str(folder / "state")

    def run(self, module, duties, check=False, **options):
        """Run a module in this process: each start of Python would take longer than what it does."""
        spec = module.argument_spec()
        checked = ArgumentSpecValidator(spec, required_if=getattr(module, "REQUIRED_IF", None)).validate(
            {"duties": duties, "state_dir": self.state_dir, **options}
        )
        assert not checked.error_messages
        params = checked.validated_parameters
        return module.run(params, self.machine(self.run_command, self.state_dir, check or module is duty_info, params["ports"]))

    def run_command(self, command, environ_update=None, **_options):
        done = subprocess.run(command, env={**os.environ, "PATH": self.path, **(environ_update or {})}, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def out(self, duties, event_ids=("A",), **more):
        return self.run(duty, duties, event_ids=list(event_ids), reason="a test", **more)

    def back(self, duties, **more):
        return self.run(duty, duties, state="back", **more)

    def look(self, duties):
        return {each["name"]: each for each in self.run(duty_info, duties)["duties"]}

    def records(self):
        return {record["kind"]: record for record in (json.loads(path.read_text()) for path in (self.folder / "state").glob("*.json"))}

    def is_active(self, unit="app"):
        return (self.units / (unit + ".service")).read_text().strip() == "active"


@pytest.fixture(name="bed")
def make_bed(tmp_path):
    return Bed(tmp_path)


def states(result):
    assert not result.get("failed"), result
    return {each["name"]: (each["state"], each["held_by"]) for each in result["duties"]}


class TestHaproxy:
    @pytest.fixture(name="site")
    def make_site(self, tmp_path):
        with contextlib.closing(Web()) as one, contextlib.closing(Web()) as two:
            ports = {"door": free_port(), "one": one.port, "two": two.port}
            (tmp_path / "haproxy").mkdir()
            haproxy = Haproxy(tmp_path / "haproxy", SECTIONS.format(**ports))
            haproxy.ports, haproxy.one = ports, one
            haproxy.entry = {"type": "haproxy", "hosts": ["lb1"], "server": "web1", "socket": haproxy.socket, "quiet": 0}
            yield haproxy
            haproxy.stop()

    def test_out_of_the_balancer_then_the_service_and_back_in_reverse(self, site, bed):
        duties = [site.entry, "app"]
        before = bed.look(duties)
        assert before["haproxy"]["state"] == "in" and before["haproxy"]["serves"] and before["haproxy"]["busy"] == ["www/web1 is in rotation"]
        assert before["app"]["state"] == "in" and before["app"]["problem"] is None
        predicted = bed.out(duties, check=True)
        assert predicted["changed"] and predicted["done"] and not bed.records() and bed.is_active()
        assert states(predicted) == {"haproxy": ("in", []), "app": ("in", [])}
        out = bed.out(duties)
        assert out["changed"] and out["done"] and out["diff"] == predicted["diff"], out
        assert [(act["name"], act["to"], act["done"]) for act in out["acts"]] == [("haproxy", "out", True), ("app", "out", True)]
        assert states(out) == {"haproxy": ("out", ["A"]), "app": ("out", ["A"])}
        assert all(each["busy"] == each["why"] == [] and not each["serves"] for each in out["duties"])
        assert site.states("www")["web1"].admin == "drain" and not bed.is_active()
        assert not bed.out(duties)["changed"]
        assert bed.out(duties, ["B"])["changed"]
        kept = bed.back(duties, event_ids=["a"])
        assert kept["changed"] and states(kept) == {"haproxy": ("out", ["B"]), "app": ("out", ["B"])}
        assert bed.back(duties, check=True)["changed"] and not bed.is_active()
        back = bed.back(duties)
        assert back["changed"] and back["done"] and [act["name"] for act in back["acts"]] == ["app", "haproxy"]
        assert states(back) == {"haproxy": ("in", []), "app": ("in", [])}
        assert bed.records() == {} and not bed.back(duties)["changed"]

    def test_a_service_goes_on_until_the_last_request_has_ended(self, site, bed):
        site.one.held["slow"] = threading.Event()
        site.ask("set server www/web2 state maint")
        client = threading.Thread(target=urllib.request.urlopen, args=("http://127.0.0.1:%d/?slow" % site.ports["door"],))
        client.start()
        until(lambda: site.stat("www", "web1", "scur") == "1", 30)
        duties = [site.entry, "app"]
        busy = bed.out(duties, timeout=0)
        assert not busy["done"] and busy["waiting_for"] == ["1 session, 0 queued at www/web1"]
        assert bed.is_active() and states(busy) == {"haproxy": ("out", ["A"]), "app": ("in", [])}
        assert [(act["name"], act["done"]) for act in busy["acts"]] == [("haproxy", True), ("app", False)]
        began = time.monotonic()
        timer = threading.Timer(1.5, site.one.held["slow"].set)
        timer.start()
        assert bed.out(duties, timeout=patient(20))["done"] and not bed.is_active()
        assert 1.5 <= time.monotonic() - began < patient(15)
        client.join()

    def test_others_who_act_are_told_and_left_alone(self, site, bed):
        assert bed.out([site.entry])["done"]
        site.ask("set server www/web1 state ready")
        seen = bed.look([site.entry])["haproxy"]
        assert seen["state"] == "in" and seen["why"] == ["somebody else set www/web1 to ready; the hold had left it in drain"]
        again = bed.out([site.entry, "app"], timeout=0)
        assert not again["done"] and again["waiting_for"] == ["www/web1 is in rotation"] and len(again["conflicts"]) == 1 and bed.is_active()

    def test_as_processes(self, site, bed):
        """As a host runs the modules. A mistake touches nothing."""
        known = {"duties": [site.entry], "state_dir": bed.state_dir}
        out = run_module("duty", {**known, "event_ids": ["A"]})
        assert out["changed"] and states(out) == states(run_module("duty_info", known)) == {"haproxy": ("out", ["A"])}
        mistaken = run_module("duty", {**known, "duties": [site.entry, {"type": "service", "name": "app", "sockt": "x"}], "state": "back"})
        assert mistaken["failed"] and mistaken["msg"] == "duties[1]: there is no option sockt; for the type service there are type, name."
        assert states(bed.run(duty_info, [site.entry])) == {"haproxy": ("out", ["A"])}

    def test_by_tasks_of_ansible(self, site, bed, tmp_path):
        """Each machine does what is its own. The server is called as the host."""
        duties = [{key: value for key, value in site.entry.items() if key != "server"}, "app"]
        hosts = {name: {"ansible_connection": "local", "folder": str(tmp_path / name)} for name in ("web1", "lb1")}
        playbook = Playbook(tmp_path, hosts, duties=duties)
        given = {"duties": "{{ duties }}", "event_ids": ["A"]}
        here, there = {"state_dir": "{{ folder }}"}, {"state_dir": "{{ hostvars.lb1.folder }}"}
        look = {"graceful.azure.duty_info": {"duties": "{{ duties }}", **there}, "delegate_to": "lb1"}
        tasks = [
            {"name": "out", "graceful.azure.duty": {**given, **there}, "delegate_to": "lb1"},
            {"name": "seen", **look},
            {"name": "host", "graceful.azure.duty": {**given, **here}, "check_mode": True, "diff": True},
            {"name": "back", "graceful.azure.duty": {**given, **there, "state": "back"}, "delegate_to": "lb1"},
            {"name": "mistaken", "graceful.azure.duty": {"duties": [{"type": "haproxy"}], "state": "back", **here}},
        ]
        done = playbook.run(tasks, hosts="web1", environment={"PATH": bed.path})
        assert states(done["out"]) == states(done["seen"]) == {"haproxy": ("out", ["A"])}, done.output
        assert [each["name"] for each in done["out"]["left_out"]] == ["app"] and [each["name"] for each in done["host"]["left_out"]] == ["haproxy"]
        assert done["host"]["changed"] and bed.is_active() and states(done["host"]) == {"app": ("in", [])}
        assert states(done["back"]) == {"haproxy": ("in", [])} and not list((tmp_path / "lb1").iterdir()) and not (tmp_path / "web1").exists()
        assert done["mistaken"]["failed"] and done["mistaken"]["msg"] == "duties[0]: missing required arguments: hosts."

    def test_the_minimum_stays(self, site, bed):
        refused = bed.out([site.entry, "app"], min_in_service="2")
        assert not refused["changed"] and refused["waiting_for"] == ["web1 stays: 2 of 2 in service in www, 2 must stay."]
        assert states(refused) == {"haproxy": ("in", []), "app": ("in", [])}

    def test_what_cannot_be_looked_at(self, site, bed):
        seen = bed.look([dict(site.entry, server="web9"), dict(site.entry, name="other", socket="/nowhere/admin.sock"), "unheard-of"])
        assert {each["state"] for each in seen.values()} == {"unknown"} and all(each["busy"] for each in seen.values())
        assert seen["haproxy"]["problem"] == "No backend of HAProxy on socket %s has a server 'web9' (option server)." % site.socket
        assert "/nowhere/admin.sock" in seen["other"]["problem"] and "unheard-of" in seen["unheard-of"]["problem"]
        (named,) = bed.look([dict(site.entry, backends=["www", "wwv"])]).values()
        assert named["state"] == "in" and named["problem"].startswith("None of the backends wwv of HAProxy on socket ")
        failed = bed.out([dict(site.entry, server="web9"), "app"])
        assert failed["failed"] and failed["msg"].startswith("haproxy: No backend of HAProxy") and bed.is_active()
        assert states(dict(failed, failed=False))["app"] == ("in", [])

    def test_what_todays_modules_held_is_given_back(self, site, bed):
        """The other way round as well: the records are the same."""
        held = {"event_ids": ["A"], "state_dir": bed.state_dir}
        run_module("haproxy_hold", {"server": "web1", "socket": site.socket, **held})
        assert states(bed.run(duty_info, [site.entry])) == {"haproxy": ("out", ["A"])}
        assert bed.back([site.entry])["changed"] and bed.records() == {}
        bed.out([site.entry])
        assert run_module("haproxy_hold", {"server": "web1", "socket": site.socket, "state": "absent", **held})["changed"] and bed.records() == {}


def test_what_may_lead_to_the_host_past_its_servers_of_haproxy_is_a_doubt(tmp_path, bed):
    sections = "backend www\n  server web1 127.0.0.1:1\nbackend any\n  server past 0.0.0.0:0\n"
    with starting(tmp_path, sections) as start:
        duty_of = {"type": "haproxy", "hosts": ["lb1"], "server": "web1", "socket": start().socket}
        seen = bed.look([duty_of])["haproxy"]
        assert seen["doubts"] == ["nobody knows whether server past in any leads to it: it takes the address from the request"]
        # A rehearsal refuses a host with a problem.
        assert seen["problem"] is None
        assert bed.look([dict(duty_of, backends=["www"])])["haproxy"]["doubts"] == []


@pytest.mark.parametrize(
    ("other", "backends", "busy", "doubts"),
    [
        ("127.0.0.1:1", None, ["api/other, which leads to 127.0.0.1:1 too, is in rotation"], []),
        ("127.0.0.1:1", ["www"], [], ["api/other leads to 127.0.0.1:1, as web1's own server does, and stays in rotation, because the option backends"]),
        # Only the port tells who is behind a loopback address.
        ("127.0.0.1:3", None, [], []),
        ("10.0.0.4:3", None, [], ["api/other leads to 10.0.0.4:3, where web1 has another port, and stays in rotation"]),
        ("10.0.0.4:3", ["www"], [], []),
    ],
)
def test_what_leads_to_the_host_under_another_name(tmp_path, bed, other, backends, busy, doubts):
    """A run takes it out with the host. The module goes by the name."""
    sections = f"backend www\n  server web1 {other[:-1]}1\nbackend api\n  server other {other}\n  server web2 127.0.0.1:2\n"
    with starting(tmp_path, sections) as start:
        duty_of = {"type": "haproxy", "hosts": ["lb1"], "server": "web1", "socket": start().socket, "backends": backends, "quiet": 0}
        assert bed.look([duty_of])["haproxy"]["busy"] == ["www/web1 is in rotation", *busy]
        left = bed.out([duty_of, "app"], timeout=1)
        assert (left["done"], left["waiting_for"], bed.is_active()) == (not busy, busy, bool(busy))
        seen = bed.look([duty_of])["haproxy"]
        assert seen["busy"] == busy and [said[: len(doubt)] for said, doubt in zip(seen["doubts"], doubts)] == doubts
        assert len(seen["doubts"]) == len(doubts)
        both = [duty_of, dict(duty_of, name="api", server="other", backends=None)]
        assert bed.out(both)["done"]
        assert not any(each["busy"] or each["doubts"] for each in bed.look(both).values())


@support_nginx.NEEDED
def test_what_may_lead_to_the_host_past_its_lines_of_nginx_is_a_doubt(tmp_path, bed):
    (tmp_path / "nginx").mkdir()
    door = "server { listen 127.0.0.1:%d; location / { proxy_pass http://$arg_to; } }" % free_port()
    nginx = Nginx(tmp_path / "nginx", http="upstream shop { server 127.0.0.1:1; server 127.0.0.1:2; }\n" + door)
    try:
        duty_of = {"type": "nginx", "hosts": ["lb1"], "server": "127.0.0.1:1", "configuration": str(nginx.configuration)}
        seen = bed.look([duty_of])["nginx"]
        assert seen["problem"] is None and [doubt.partition(" in ")[0] for doubt in seen["doubts"]] == ["nobody knows whether proxy_pass http://$arg_to"]
    finally:
        nginx.stop()


@support_nginx.NEEDED
def test_nginx(tmp_path, bed):
    with contextlib.closing(Web()) as one, contextlib.closing(Web()) as two:
        ports = {"door": free_port(), "one": one.port, "two": two.port}
        servers = "upstream shop { server 127.0.0.1:%(one)d; server 127.0.0.1:%(two)d; }"
        door = "server { listen 127.0.0.1:%(door)d; location / { proxy_pass http://shop; } }"
        (tmp_path / "nginx").mkdir()
        nginx = Nginx(tmp_path / "nginx", http=(servers + door) % ports)
        try:
            duties = [{"type": "nginx", "hosts": ["lb1"], "server": "127.0.0.1:%d" % one.port, "configuration": str(nginx.configuration), "quiet": 0}, "app"]
            before = bed.look(duties)["nginx"]
            place = "127.0.0.1:%d in upstream shop" % one.port
            assert before["state"] == "in" and before["serves"] and before["busy"] == [place + " is in rotation"] and before["problem"] is None
            missing = bed.look([dict(duties[0], files=[str(nginx.configuration), "/etc/nginx/shop"])])["nginx"]
            assert missing["state"] == "in" and missing["problem"] == "/etc/nginx/shop has no server %r in an upstream (option server)." % duties[0]["server"]
            predicted = bed.out(duties, check=True)
            assert predicted["changed"] and states(predicted)["nginx"] == ("in", [])
            out = bed.out(duties, min_in_service="1")
            assert out["done"] and out["diff"] == predicted["diff"] and states(out) == {"nginx": ("out", ["A"]), "app": ("out", ["A"])}
            assert not bed.out(duties)["changed"]
            back = bed.back(duties)
            assert back["done"] and states(back) == {"nginx": ("in", []), "app": ("in", [])} and bed.records() == {}
        finally:
            nginx.stop()


@support_nginx.NEEDED
def test_a_line_of_nginx_in_a_file_that_the_option_leaves_out_is_a_doubt(tmp_path, bed):
    """It sends requests to the same place when the host's own line is out."""
    (tmp_path / "nginx").mkdir()
    upstreams = {"shop.conf": "upstream shop { server 127.0.0.1:1; server 127.0.0.1:2; }", "api.conf": "upstream api { server localhost:1; }"}
    nginx = Nginx(tmp_path / "nginx", http="include shop.conf; include api.conf;", files=upstreams)
    try:
        shop, api = ([str(tmp_path / "nginx" / name)] for name in upstreams)
        duty_of = {"type": "nginx", "hosts": ["lb1"], "server": "127.0.0.1:1", "configuration": str(nginx.configuration), "files": shop, "quiet": 0}
        assert bed.out([duty_of])["done"]
        (said,) = bed.look([duty_of])["nginx"]["doubts"]
        told = "localhost:1 in upstream api leads to 127.0.0.1:1, as 127.0.0.1:1's own server does, and stays in rotation"
        assert said.startswith(f"{told}, because the option files leaves it out")
        both = dict(duty_of, files=shop + api)
        assert bed.out([both])["done"] and bed.look([both])["nginx"]["doubts"] == []
    finally:
        nginx.stop()


def test_a_health_answer_that_a_balancer_asks_for(tmp_path, bed):
    mark = tmp_path / "out"
    duties = [{"type": "health_probe", "action": "file", "file": str(mark), "interval": 2, "threshold": 1, "margin": 1, "quiet": 0}, "app"]
    assert bed.look(duties)["health_probe"]["busy"] == ["the health answer (%s) passes" % mark]
    assert bed.out(duties, check=True)["changed"] and not mark.exists()
    early = bed.out(duties, timeout=0, ports=[free_port()])
    assert mark.exists() and not early["done"] and early["waiting_for"][0].startswith("the balancer notices within") and bed.is_active()
    # Until the balancer must have noticed, it serves.
    assert early["duties"][0]["state"] == "out" and early["duties"][0]["serves"]
    assert bed.out(duties, timeout=10)["done"] and not bed.is_active()
    back = bed.back(duties)
    assert back["done"] and states(back) == {"health_probe": ("in", []), "app": ("in", [])} and not mark.exists()


def test_what_stops_before_the_health_answer_may_be_what_passes(tmp_path, bed, monkeypatch):
    """Asked only after that, it would never have been seen to pass."""
    with contextlib.closing(Web()) as web:

        def run_command(*args, run=bed.run_command, **options):
            done = run(*args, **options)
            web.status = 200 if bed.is_active() else 503
            return done

        monkeypatch.setattr(bed, "run_command", run_command)
        probe = {"type": "health_probe", "action": "file", "file": str(tmp_path / "out"), "interval": 0.1, "threshold": 1, "margin": 0, "quiet": 0}
        probe["url"] = f"http://127.0.0.1:{web.port}/"
        out = bed.out(["app", probe], timeout=20)
        assert out["done"] and states(out) == {"app": ("out", ["A"]), "health_probe": ("out", ["A"])} and web.status == 503, out
        until(lambda: bed.look([probe])["health_probe"]["busy"] == [], 10, "a health answer that counts as out")


def test_a_port_on_which_nobody_listens_is_never_idle(tmp_path, bed):
    """A number that is wrong: what else serves may have clients. A service that was stopped has been heard before."""
    probe = {"type": "health_probe", "action": "file", "file": str(tmp_path / "out"), "interval": 0.1, "threshold": 1, "margin": 0, "quiet": 0}
    with socket.socket() as application:
        application.bind(("127.0.0.1", 0))
        port = application.getsockname()[1]
        out = bed.out([probe, "app"], timeout=1, ports=[port])
        assert not out["done"] and bed.is_active() and out["waiting_for"][0].startswith(f"port {port} cannot be counted: nobody listens on it"), out
        application.listen()
        assert bed.out([probe, "app"], timeout=10, ports=[port])["done"] and not bed.is_active()
    again = bed.out([probe, "app"], timeout=1, ports=[port])
    assert again["done"] and not again["changed"] and states(again)["health_probe"] == ("out", ["A"]), again


def test_a_connection_between_two_looks_keeps_the_host_busy(tmp_path, bed, monkeypatch):
    """It takes 0.1 s, and its client closes it, so it leaves no trace."""
    now = [1000.0]

    class Tables(Arrivals):
        def read(self):
            is_there = 0.2 <= now[0] % 0.5 < 0.3
            return {(80, "10.0.0.9", int(now[0] * 2), "10.0.0.4"): None} if is_there else {}, now[0]

    monkeypatch.setattr(_health_probe, "Arrivals", Tables)
    monkeypatch.setattr(_health_probe, "counted", lambda ports: Counted([], []))
    monkeypatch.setattr(_health_probe.Health, "clock", staticmethod(lambda: now[0]))
    entry = {"type": "health_probe", "action": "file", "file": str(tmp_path / "out"), "interval": 0.1, "threshold": 1, "margin": 0, "quiet": 1}

    def sleep(seconds):
        now[0] += seconds

    monkeypatch.setattr(bed, "machine", functools.partial(Machine, monotonic=lambda: now[0], sleep=sleep))
    out = bed.out([entry, "app"], ports=[80], timeout=10)
    assert not out["done"] and bed.is_active() and out["waiting_for"] == ["1 new connection came to port 80 from 10.0.0.9"]


def test_an_operators_maintenance_stays(tmp_path, bed):
    mark = tmp_path / "out"
    mark.write_text("by hand")
    entry = {"type": "health_probe", "action": "file", "file": str(mark)}
    out = bed.out([entry])
    assert out["done"] and not out["changed"] and states(out) == {"health_probe": ("out", [])}
    assert out["duties"][0]["why"] == ["somebody else has made the health answer fail (%s is there)" % mark]
    assert not bed.back([entry])["changed"] and mark.read_text() == "by hand"


@redis_sentinel.NEEDED
@pytest.mark.timeout(120)
def test_a_member_of_a_cluster(tmp_path, bed):
    (tmp_path / "redis").mkdir()
    with contextlib.closing(redis_sentinel.Sentinels(tmp_path / "redis")) as cluster:
        duties = [{"type": "redis", "name": "cache", **cluster["redis1"].options}, "app"]
        assert bed.look(duties)["cache"]["state"] == "in"
        assert bed.out(duties, check=True)["changed"] and bed.is_active()
        out = bed.out(duties, timeout=60)
        assert out["done"] and states(out) == {"cache": ("out", ["A"]), "app": ("out", ["A"])}, out
        assert not bed.out(duties, timeout=60)["changed"]
        back = bed.back(duties, timeout=60)
        assert back["done"] and states(back) == {"cache": ("in", []), "app": ("in", [])} and bed.records() == {}
