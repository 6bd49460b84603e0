# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the provider nginx makes of its looks, and what the roles say about it."""

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import Entry, MachineObservation, Record
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import CHANGED, FREE, HELD
from ansible_collections.graceful.azure.plugins.plugin_utils._providers.registry import PROVIDERS
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.load_balancer import BALANCERS, judge, settings_of

NGINX, WORDS = PROVIDERS["nginx"], BALANCERS["nginx"]
ONE, TWO = "10.0.0.4:80", "10.0.0.5:80"
UP = "/etc/nginx/up.conf"


def settings(**more):
    return settings_of({"provider": "nginx", "hosts": ["lb1"], "server": ONE, **more}, "web1")


def server(name=ONE, **more):
    line = {"context": "http", "upstream": "shop", "server": name, "file": UP, "line": 2, "text": f"server {name};", "double": False}
    state = {"down": False, "backup": False, "loaded": True, "in_service": True, "connections": 0, "former": 0, "uncounted": None, "idle": False}
    hold = {"condition": "none", "found": None, "left": None, "held_by": [], "noted": True, "restoring": False, "quiet_for": 0.0}
    return {**line, **state, **hold, **more}


def out(**more):
    return server(**{"down": True, "in_service": False, "condition": "held", "held_by": ["E1"], "idle": True, **more})


def look(*servers, **more):
    return {"reached": True, "servers": list(servers), "files": {}, "present": [ONE, TWO], "configuration": "/etc/nginx/nginx.conf", "holds": [], **more}


def traffic(*servers, of=None, **more):
    machines = {"lb1 nginx": MachineObservation("lb1 nginx", look(*servers, **more), None)}
    return NGINX.traffic(of or settings(), None, {}, machines, None)


@pytest.mark.parametrize(
    ("seen", "in_rotation", "must_go_out", "condition", "busy"),
    [
        (server(), True, True, FREE, "10.0.0.4:80 in upstream shop on lb1 is in rotation"),
        (out(), False, False, HELD, None),
        (out(connections=2), False, False, HELD, "2 connections of nginx to 10.0.0.4:80 in upstream shop on lb1"),
        (out(former=1), False, False, HELD, "1 client of workers from before the reload may still go to 10.0.0.4:80 in upstream shop on lb1"),
        (out(uncounted="why"), False, False, HELD, "10.0.0.4:80 in upstream shop on lb1: why"),
        (out(restoring=True), False, True, HELD, None),
        # The run that took it out was cut off before it could say so.
        (out(noted=False), False, True, HELD, None),
        (server(condition="lost", held_by=["E1"]), True, True, HELD, "10.0.0.4:80 in upstream shop on lb1 is in rotation"),
        (server(condition="changed_meanwhile", held_by=["E1"]), True, False, CHANGED, "10.0.0.4:80 in upstream shop on lb1 is in rotation"),
        (server(down=True, in_service=False, condition="already_out"), False, False, FREE, None),
        (
            server(down=True, loaded=False, condition="already_out"), True, False, FREE,
            "10.0.0.4:80 in upstream shop on lb1 has the parameter down, but the configuration was changed after nginx has loaded it: reload nginx",
        ),
    ],
)  # fmt: skip
def test_a_place(seen, in_rotation, must_go_out, condition, busy):
    found = traffic(seen, server(TWO))
    (place,) = found.places
    assert (place.in_rotation, place.must_go_out, place.condition) == (in_rotation, must_go_out, condition)
    assert place.busy == ((busy,) if busy else ())
    assert found.mistakes == ()
    assert [other["server"] for other in place.group.servers] == [f"{UP} {ONE}", f"{UP} {TWO}"]
    assert place.member == f"{UP} {ONE}"


@pytest.mark.parametrize(
    ("servers", "more", "mistake"),
    [
        ([server(TWO)], {}, "balancer lb1: no upstream has a server '10.0.0.4:80' (load_balancer_server); there are 10.0.0.4:80, 10.0.0.5:80"),
        ([server(double=True)], {}, "balancer lb1: upstream shop has the server '10.0.0.4:80' more than once: leave one of the lines"),
        (
            [server(), server(file="/etc/nginx/other.conf")],
            {},
            "balancer lb1: upstream shop has the server '10.0.0.4:80' more than once: leave one of the lines",
        ),
        ([server()], {"configuration_problem": "[emerg] no"}, "balancer lb1: the configuration of nginx has a mistake already: [emerg] no"),
    ],
)
def test_a_mistake(servers, more, mistake):
    assert traffic(*servers, **more).mistakes == (mistake,)


def test_a_mistake_in_the_configuration_does_not_matter_where_nothing_is_to_be_changed():
    assert traffic(out(), configuration_problem="[emerg] no").mistakes == ()


def test_files():
    of = settings(nginx_files=["/link.conf", "/none.conf"])
    found = traffic(server(), server(file="/other.conf", upstream="api"), of=of, files={"/link.conf": UP, "/none.conf": None})
    assert [place.name for place in found.places] == ["10.0.0.4:80 in upstream shop on lb1"]
    assert found.mistakes == ("balancer lb1: /none.conf is not part of the configuration /etc/nginx/nginx.conf of nginx (load_balancer_nginx_files)",)


def test_a_look_that_failed_tells_nothing():
    machines = {"lb1 nginx": MachineObservation("lb1 nginx", NGINX.read({"reached": False, "error": "no route"}, {}), None)}
    assert NGINX.traffic(settings(), None, {}, machines, None).unread == ("balancer lb1: no route",)
    without_rights = NGINX.read(look(server(), rights_problem="become"), {})
    assert (without_rights["servers"], without_rights["fatal"]) == (None, "become")


def test_looks_and_acts():
    mine, other = settings(nginx_files=[UP]), settings(server=TWO)
    (found,) = NGINX.looks([("web1", mine), ("web2", other)], {"web1": 3.0}, lambda _host, _key: ())
    assert (found.key, found.machine, found.module, found.options) == ("lb1 nginx", "lb1", "nginx_info", {"servers": [ONE, TWO], "files": [UP]})
    assert (found.wait_for, found.quiet) == ([ONE], 3.0)
    ((machine, module, options),) = NGINX.acts(mine, "out", {"state": "present", "event_ids": ["E1"]}, {"min_in_service": 1})
    assert (machine, module) == ("lb1", "nginx_hold")
    assert options == {"server": ONE, "files": [UP], "configuration": None, "min_in_service": 1, "state": "present", "event_ids": ["E1"]}
    assert NGINX.shows(look(out()), {"servers": [out()]})
    assert not NGINX.shows(look(server()), {"servers": [out()]})


def test_records():
    subject = {"context": "http", "upstream": "shop", "server": ONE, "file": UP}
    record = Record("nginx_server", subject, {"E1": Entry("2026-11-24T03:00:00Z", {})})
    machine = MachineObservation("lb1 nginx", look(out()), [record])
    assert [found for found, _machine in NGINX.records(settings(), {"lb1 nginx": machine})] == [record]
    assert list(NGINX.records(settings(server=TWO), {"lb1 nginx": machine})) == []
    narrowed = settings(nginx_files=["/other.conf"])
    assert [found for found, _machine in NGINX.records(narrowed, {"lb1 nginx": machine})] == [record], "it was held before the files were named"
    assert NGINX.out_since(record, record.events["E1"], True) == ("2026-11-24T03:00:00Z",)
    raw = {"kind": "nginx_server", "subject": subject}
    assert NGINX.names(raw) == (ONE, ONE)
    assert NGINX.shown(raw) == {"held": "nginx_server shop/10.0.0.4:80 (http)", "socket": UP}
    assert NGINX.give_back(raw, {"configuration": "/n.conf"}) == (
        "nginx_hold",
        {"server": ONE, "files": [UP], "state": "absent", "configuration": "/n.conf"},
    )


def test_the_result_of_the_role():
    held = dict(look(out()), item="lb1", changed=True, conflicts=[], refused=[])
    assert judge(settings(), "out", [held]) == {
        "done": True, "changed": True, "reason": "10.0.0.4:80 is held (shop on lb1: down)", "failed_hosts": [], "conflicts": [],
    }  # fmt: skip
    refused = dict(look(server()), item="lb1", conflicts=[], refused=["it stays: too few."])
    told = judge(settings(), "out", [refused])
    assert (told["done"], told["reason"]) == (False, "lb1: it stays: too few.")
    told = judge(settings(hosts=["lb1", "lb2"]), "out", [held, {"item": "lb2", "failed": True, "msg": "nginx -t refuses it"}])
    assert (told["done"], told["failed_hosts"], told["reason"]) == (False, ["lb2"], "lb2: nginx -t refuses it")


def test_what_is_left_for_the_role():
    assert WORDS.busy(settings(), [dict(look(out(connections=1)), item="lb1")]) == ["1 connection of nginx to 10.0.0.4:80 in upstream shop on lb1"]
    assert WORDS.busy(settings(), [dict(look(out(idle=False)), item="lb1")]) == ["lb1 was busy until just now"]
    assert WORDS.busy(settings(), [dict(look(out()), item="lb1")]) == []
    assert WORDS.busy(settings(), [{"item": "lb1", "unreachable": True}]) == ["lb1 cannot be reached"]


def test_mistakes_in_the_options():
    said = list(WORDS.mistakes({"hosts": [], "nginx_files": ["up.conf"]}))
    assert said == [
        "load_balancer_hosts: empty; provider nginx needs the inventory names of the machines on which the balancer runs",
        "load_balancer_nginx_files: 'up.conf' is not an absolute path; write one that begins with /",
    ]


def test_hosts_of_one_balancer_share_a_look_that_waits_for_those_that_drain():
    of_both = {"nginx_configuration": "/etc/nginx/own.conf", "nginx_files": [UP]}
    hosts = [("web1", settings(**of_both)), ("web2", settings(**dict(of_both, server=TWO))), ("web3", settings(**dict(of_both, server=TWO)))]
    (look,) = NGINX.looks(hosts, {"web2": 2.0, "web3": 5.0}, None)
    assert (look.machine, look.module, look.wait_for, look.quiet) == ("lb1", "nginx_info", [TWO], 5.0)
    assert look.options == {"configuration": "/etc/nginx/own.conf", "servers": [ONE, TWO], "files": [UP]}
