# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the provider nginx makes of its looks, and what the roles say about it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._pools import not_in_pools
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import TRAFFIC, settings_of
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.addresses import addresses_of
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import MachineObservation, Record, RecordedEvent
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.judgement import judge_drain
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import CHANGED, FREE, HELD
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.verdicts import Kind, Reason
from ansible_collections.graceful.azure.plugins.plugin_utils._settings import read_settings
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.load_balancer import judge

from tests.support.nginx import line_told

NGINX, WORDS = TRAFFIC["nginx"], TRAFFIC["nginx"]
ONE, TWO = "10.0.0.4:80", "10.0.0.5:80"
UP = "/etc/nginx/up.conf"


def settings(**more):
    return settings_of("nginx", {"hosts": ["lb1"], "server": ONE, **more}, "web1")


def server(name=ONE, **more):
    leads_to = [leads(name)] if name[-1:].isdigit() and ":" in name else []
    return line_told(name, **{"leads_to": leads_to, "file": UP, **more})


def leads(text):
    address, _colon, port = text.rpartition(":")
    return {"address": address.strip("[]"), "port": int(port)}


class Target:
    """A host as the provider sees it."""

    ports, network = (), None

    def __init__(self, name="web1", of=None, addresses=None, ports=(), network=None):
        self.name, self.addresses, self.ports, self.network = name, addresses, ports, network
        self.balancers = [(NGINX, of or settings())]


def out(name=ONE, **more):
    return server(name, **{"down": True, "in_service": False, "condition": "held", "held_by": ["E1"], "idle": True, **more})


def look(*servers, **more):
    seen = {"servers": list(servers), "passes": [], "beside": {}, "files": {}, "present": [ONE, TWO], "configuration": "/etc/nginx/nginx.conf", "holds": []}
    return {"reached": True, **seen, **more}


def traffic(*servers, of=None, target=None, others=(), **more):
    machines = {"lb1 nginx": MachineObservation("lb1 nginx", look(*servers, **more), None)}
    host = target or Target(of=of)
    asked = [(host, of or settings()), *((other, balancer) for other in others for _provider, balancer in other.balancers)]
    return next(NGINX.traffic_of_all(asked, machines, addresses_of([host, *others])))


@pytest.mark.parametrize(
    ("seen", "in_rotation", "must_go_out", "condition", "busy"),
    [
        (server(), True, True, FREE, "10.0.0.4:80 in upstream shop on lb1 is in rotation"),
        (out(), False, False, HELD, None),
        (out(connections=2), False, False, HELD, "2 connections of nginx to 10.0.0.4:80 in upstream shop on lb1"),
        # The client of that request counts as one of a former worker, too.
        (out(connections=2, former=1), False, False, HELD, "2 connections of nginx to 10.0.0.4:80 in upstream shop on lb1"),
        (out(former=1), False, False, HELD, "1 client of workers from before the reload may still go to 10.0.0.4:80 in upstream shop on lb1"),
        (out(uncounted="why"), False, False, HELD, "10.0.0.4:80 in upstream shop on lb1: why"),
        (out(restoring=True), False, True, HELD, None),
        # The run that took it out was cut off before it could say so.
        (out(noted=False), False, True, HELD, None),
        (server(condition="lost", held_by=["E1"]), True, True, HELD, "10.0.0.4:80 in upstream shop on lb1 is in rotation"),
        (server(condition="changed_meanwhile", held_by=["E1"]), True, False, CHANGED, "10.0.0.4:80 in upstream shop on lb1 is in rotation"),
        (
            server(condition="changed_meanwhile", in_service=False, loaded=False, held_by=["E1"]), True, False, CHANGED,
            "somebody else removed the parameter down from 10.0.0.4:80 in upstream shop on lb1: the next reload of nginx puts it into rotation",
        ),
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
        ([server(TWO)], {}, "balancer lb1: no upstream has a server '10.0.0.4:80' (option server); there are 10.0.0.4:80, 10.0.0.5:80"),
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


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("is_line", [False, True])
def test_what_may_lead_to_another_host_with_the_same_address_is_told(known, is_line):
    """It stays in rotation: another host that nobody has read may have that address as well."""
    target, other = Target(addresses=["10.0.0.4", "10.0.0.200"]), Target("web2", of=settings(server=TWO), addresses=["10.0.0.5"] if known else None)
    strange = {"text": "proxy_pass http://10.0.0.200;", "file": UP, "line": 7, "leads_to": [leads("10.0.0.200:80")], "unresolved": None}
    lines = [server(), server(TWO), *([server("10.0.0.200:80", upstream="api")] if is_line else [])]
    found = traffic(*lines, target=target, others=[other], passes=[] if is_line else [strange])
    label = "10.0.0.200:80 in upstream api on lb1" if is_line else f"proxy_pass http://10.0.0.200 in {UP}, line 7, on lb1"
    assert [place.name for place in found.places] == ["10.0.0.4:80 in upstream shop on lb1", *([label] if known else [])]
    if is_line:
        second = Target(of=settings(server="10.0.0.200:80"), addresses=target.addresses)
        assert traffic(*lines, target=target, others=[other, second]).doubts == (), "a duty of its own"
    assert [said.split(", and stays")[0] for said in found.doubts] == ([] if known else [f"{label} leads to 10.0.0.200:80, which is an address of web1"])


def test_files():
    of = settings(files=["/link.conf", "/none.conf"])
    found = traffic(server(), server(file="/other.conf", upstream="api"), of=of, files={"/link.conf": UP, "/none.conf": None})
    assert [place.name for place in found.places] == ["10.0.0.4:80 in upstream shop on lb1"]
    assert found.mistakes == ("balancer lb1: /none.conf is not part of the configuration /etc/nginx/nginx.conf of nginx (option files)",)


@pytest.mark.parametrize("at", [ONE, "10.0.0.4:9000"])
@pytest.mark.parametrize("is_line", [False, True])
def test_what_files_leaves_out_at_the_same_place_is_told(at, is_line):
    """It sends requests to the host all the same. Where it has another port, the settings may leave it out because it is another host's."""
    of, literally = settings(files=["/other.conf"]), literal(f"proxy_pass http://{at};", at)
    # A name that leads there, too.
    found = traffic(server(file="/other.conf"), *([server("app.internal:80", leads_to=[leads(at)], **API)] if is_line else []), of=of,
                    passes=[] if is_line else [literally])  # fmt: skip
    assert [place.busy for place in found.places] == [("10.0.0.4:80 in upstream shop on lb1 is in rotation",)]
    label = "app.internal:80 in upstream api on lb1" if is_line else f"proxy_pass http://{at} in {UP}, line 7, on lb1"
    told = f"{label} leads to 10.0.0.4:80, as web1's own server does, and stays in rotation, because the option files leaves it out"
    more = "Its requests keep web1 from its event, and more may come after the approval"
    hint = "add its file, or leave out the option" if is_line else "leave out the option"
    assert found.doubts == ((f"{told}. {more}: {hint}",) if at == ONE else ())


def test_what_files_leaves_out_for_another_duty_of_the_host_is_not_told():
    of, host = settings(files=["/other.conf"]), Target()
    host.balancers = [(NGINX, of), (NGINX, settings(files=[UP]))]
    assert traffic(server(file="/other.conf"), server(**API), of=of, target=host).doubts == ()
    assert traffic(server(file="/other.conf"), out(**API), of=of).doubts == (), "it is out"


def test_another_port_of_an_address_that_several_targets_share_is_told():
    """As behind address translation. It stays in rotation, unless a duty names it."""
    mine, others = settings(server="198.51.100.7:8001"), [Target("web2", settings(server="198.51.100.7:8002"))]
    lines = [server("198.51.100.7:8001"), server("198.51.100.7:8002"), server("198.51.100.7:9001", **API), server("198.51.100.8:9001", **API)]
    found = traffic(*lines, of=mine, others=others)
    assert [place.member for place in found.places] == [f"{UP} 198.51.100.7:8001"]
    assert found.doubts == (
        "198.51.100.7:9001 in upstream api on lb1 leads to 198.51.100.7:9001, where web1 has another port, and stays in rotation: behind address"
        " translation, each port may be another machine's. If it is web1, give that a duty nginx with this server",
    )
    for name in ("web1", "web2"):
        assert traffic(*lines, of=mine, others=[*others, Target(name, settings(server="198.51.100.7:9001"))]).doubts == ()
    # Only the port tells who is behind a loopback address.
    lines = [server(f"127.0.0.1:{port}") for port in (8001, 8002, 9001)]
    assert traffic(*lines, of=settings(server="127.0.0.1:8001"), others=[Target("web2", settings(server="127.0.0.1:8002"))]).doubts == ()


def test_a_look_that_failed_tells_nothing():
    machines = {"lb1 nginx": MachineObservation("lb1 nginx", NGINX.read({"reached": False, "error": "no route"}, {}), None)}
    (told,) = NGINX.traffic_of_all([(Target(), settings())], machines, addresses_of([]))
    assert told.unread == (Reason(Kind.UNREAD, "balancer lb1: no route"),)
    without_rights = NGINX.read(look(server(), rights_problem="become"), {})
    assert (without_rights["servers"], without_rights["fatal"]) == (None, "become")


def test_looks_and_acts():
    mine, other = settings(files=[UP]), settings(server=TWO)
    (found,) = NGINX.looks([("web1", mine), ("web2", other)], {"web1": 3.0}, lambda _host, _key: ())
    assert (found.key, found.machine, found.module, found.options) == (
        "lb1 nginx",
        "lb1",
        "nginx_info",
        {"servers": [ONE, TWO], "files": [UP], "addresses": []},
    )
    assert (found.wait_for, found.quiet) == ([ONE], 3.0)
    ((machine, module, options),) = NGINX.acts(mine, "out", {"state": "present", "event_ids": ["E1"]}, {"min_in_service": 1})
    assert (machine, module) == ("lb1", "nginx_hold")
    assert options == {"server": ONE, "addresses": [], "files": [UP], "configuration": None, "min_in_service": 1, "state": "present", "event_ids": ["E1"]}


def test_records():
    subject = {"context": "http", "upstream": "shop", "server": ONE, "file": UP}
    record = Record("nginx_server", subject, {"E1": RecordedEvent("2026-11-24T03:00:00Z", {})})
    machine = MachineObservation("lb1 nginx", look(out()), [record])
    assert [found for found, _machine in NGINX.records(settings(), {"lb1 nginx": machine})] == [record]
    assert list(NGINX.records(settings(server=TWO), {"lb1 nginx": machine})) == []
    narrowed = settings(files=["/other.conf"])
    assert [found for found, _machine in NGINX.records(narrowed, {"lb1 nginx": machine})] == [record], "it was held before the files were named"
    assert NGINX.out_since(record, record.events["E1"], True) == ("2026-11-24T03:00:00Z",)
    raw = {"kind": "nginx_server", "subject": subject}
    assert NGINX.names(raw) == (ONE, ONE)
    assert NGINX.shown(raw) == {"held": "nginx_server shop/10.0.0.4:80 (http)", "file": UP}
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
    told = judge(settings(), "out", [dict(held, waiting_for=["nothing can take it out."])])
    assert (told["done"], told["reason"]) == (False, "lb1: nothing can take it out.")
    told = judge(settings(hosts=["lb1", "lb2"]), "out", [held, {"item": "lb2", "failed": True, "msg": "nginx -t refuses it"}])
    assert (told["done"], told["failed_hosts"], told["reason"]) == (False, ["lb2"], "lb2: nginx -t refuses it")


def test_mistakes_in_the_options():
    given = {"type": "nginx", "hosts": [], "files": ["up.conf"]}
    assert read_settings({"web1": {"graceful_azure_duties": [given]}}, {"web1"})[1] == [
        "web1: graceful_azure_duties[0].files: 'up.conf' is not an absolute path; write one that begins with /",
        "web1: graceful_azure_duties[0].hosts: empty; give the inventory names of the machines on which the balancer runs",
    ]


def test_hosts_of_one_balancer_share_a_look_that_waits_for_those_that_drain():
    of_both = {"configuration": "/etc/nginx/own.conf", "files": [UP]}
    hosts = [("web1", settings(**of_both)), ("web2", settings(**dict(of_both, server=TWO))), ("web3", settings(**dict(of_both, server=TWO)))]
    (look,) = NGINX.looks(hosts, {"web2": 2.0, "web3": 5.0}, lambda _host, _key: ())
    assert (look.machine, look.module, look.wait_for, look.quiet) == ("lb1", "nginx_info", [TWO], 5.0)
    assert look.options == {"configuration": "/etc/nginx/own.conf", "servers": [ONE, TWO], "files": [UP], "addresses": []}


API = {"upstream": "api"}


@pytest.mark.parametrize(
    "other",
    [
        server("10.0.0.4:81", **API),
        server("web1.internal", leads_to=[leads(ONE)], **API),
        server("10.0.0.4", leads_to=[leads(ONE)], **API),
        server("10.0.0.4", leads_to=[leads(ONE)]),
        # It was taken out with it, and its name leads elsewhere by now.
        server("web1.internal", leads_to=[leads("10.0.0.9:80")], for_server=ONE, **API),
    ],
)
def test_every_line_that_leads_to_the_same_host_is_its_place(other):
    found = traffic(server(), other, server(TWO), server("10.0.0.5:81", **API))
    assert [(place.in_rotation, place.must_go_out, place.owner) for place in found.places] == [(True, True, None)] * 2
    assert found.mistakes == ()
    step = {"addresses": {"lb1": [place.leads_to for place in found.places if place.leads_to]}}
    ((_machine, _module, options),) = NGINX.acts(settings(), "out", {}, step)
    at = other["leads_to"][0]
    assert options["addresses"] in ([f"{at['address']}:{at['port']}"], [])
    # Without the addresses, the module still finds what has the same place.
    assert options["addresses"] or at == leads(ONE)


def test_another_address_of_the_same_host_is_its_place_too():
    host = Target(addresses=["10.0.0.4", "2001:db8::4"])
    found = traffic(server(), server("[2001:db8::4]:80", **API), target=host, others=[Target("web2", settings(server=TWO), ["10.0.0.5"])])
    assert [place.leads_to for place in found.places] == ["", "[2001:db8::4]:80"]


@pytest.mark.parametrize(
    ("own", "line"),
    [
        # On loopback, and where another host has the address too, only the port tells.
        ("127.0.0.1:8001", "127.0.0.1:8002"),
        ("[::1]:8001", "[::1]:8002"),
        (ONE, "10.0.0.4:8002"),
        (ONE, "10.0.0.5:80"),
    ],
)
def test_what_leads_elsewhere_is_not(own, line):
    mine, other = settings(server=own), Target("web2", settings(server="10.0.0.4:8003"))
    found = traffic(server(own), server(line, **API), server("10.0.0.4:8003", **API), of=mine, others=[other])
    assert [place.member for place in found.places] == [f"{UP} {own}"]


def test_a_line_that_leads_to_two_targets_is_left_to_a_person():
    both = server("web.internal", leads_to=[leads(ONE), leads(TWO)], **API)
    found = traffic(server(), server(TWO), both, others=[Target("web2", settings(server=TWO))])
    assert [(place.leads_to, place.owner, place.must_go_out) for place in found.places] == [("", None, True), (ONE, "web2", False)]


def test_a_name_that_does_not_resolve_is_told():
    unknown = server("app.internal", leads_to=[], unresolved="'app.internal' does not resolve (Name or service not known)", **API)
    (place,) = traffic(server(), unknown).places
    assert place.note == "nobody knows whether app.internal in upstream api on lb1 leads to it: 'app.internal' does not resolve (Name or service not known)"


def test_a_directive_of_which_nobody_knows_where_it_leads_is_told():
    unknown = dict(literal("proxy_pass http://$target;"), unresolved="the address 'http://$target' is not known before the request")
    found = traffic(server(), passes=[unknown])
    (place,) = found.places
    # Before the event, too.
    assert found.doubts == (place.note,)
    assert place.note == (
        "nobody knows whether proxy_pass http://$target in /etc/nginx/up.conf, line 7, on lb1 leads to it: the address 'http://$target' is not known"
        " before the request"
    )
    assert not place.busy or place.busy == ("10.0.0.4:80 in upstream shop on lb1 is in rotation",)


def test_a_server_that_nothing_takes_out_stays_in_rotation_and_is_told():
    why = "balancer_by_lua_block of upstream shop chooses servers whatever their lines say"
    told = f"nothing can take 10.0.0.4:80 in upstream shop on lb1 out: {why}"
    for line, must_go_out in ((server(never_out=why), True), (out(never_out=why, in_service=True, idle=False), False)):
        (place,) = traffic(line).places
        assert (place.in_rotation, place.must_go_out, place.busy, place.stays) == (True, must_go_out, (told,), told)


def test_a_host_is_busy_while_nginx_is_connected_to_it_without_an_upstream():
    host = Target(addresses=["10.0.0.4", "10.1.0.4"])
    (place,) = traffic(out(), target=host, beside={"10.0.0.4": 0, "10.1.0.4": 2, "10.0.0.5": 1}).places
    assert place.busy == ("2 connections of nginx on lb1 to 10.1.0.4, without an upstream",)
    assert not place.in_rotation


def test_a_line_shares_its_requests_with_all_lines_of_its_upstream():
    """The first two are in a file that both upstreams include."""
    both = {"upstream": "shop, api"}
    first, second = traffic(server(**both), server(TWO, **both), server("10.0.0.6:80", **API), server(ONE, line=9, file="/b.conf", **API)).places
    assert [other["server"].split()[1] for other in first.group.servers] == [ONE, TWO]
    assert [other["server"].split()[1] for other in second.group.servers] == [ONE, TWO, "10.0.0.6:80", ONE]


def literal(text, *leads_to, path=UP):
    return {"context": "http", "text": text, "file": path, "line": 7, "unresolved": None, "leads_to": [leads(each) for each in leads_to]}


def test_an_address_in_proxy_pass_stays_in_rotation_and_is_told():
    admin = literal("proxy_pass http://10.0.0.4:9000;", "10.0.0.4:9000")
    found = traffic(server(), server(TWO), passes=[admin, literal("proxy_pass http://10.0.0.5:9000;", "10.0.0.5:9000")])
    _line, place = found.places
    assert (place.in_rotation, place.must_go_out) == (True, False)
    assert place.busy == (place.stays,)
    assert place.stays == (
        "proxy_pass http://10.0.0.4:9000 in /etc/nginx/up.conf, line 7, on lb1 sends requests to it without an upstream,"
        " and nothing can take it out there: put the address into an upstream"
    )
    of = settings(files=["/other.conf"])
    assert len(traffic(server(file="/other.conf"), of=of, passes=[admin]).places) == 1, "the settings limit what is looked at"


def test_a_server_that_does_not_answer_does_not_count_for_the_minimum():
    dead = server(TWO, silent="port 80 of 10.0.0.5: Connection refused")
    (place,) = traffic(server(), dead).places
    assert [(other["in_service"]) for other in place.group.servers] == [True, False]
    assert place.serves
    (place,) = traffic(dead, of=settings(server=TWO)).places
    assert (place.serves, place.in_rotation) == (False, True)


def test_connections_of_nginx_are_told_once():
    """Not again as those to the port of the host."""
    (place,) = traffic(out(connections=2, own_ports={"10.0.0.10": [40000, 40002]}), server(TWO)).places
    at_host = [{"peer": "10.0.0.10", "port": 80, "count": 3, "peer_ports": [40000, 40001, 40002]}, {"peer": "10.0.0.9", "port": 80, "count": 1}]
    assert place.pools == () and [(left["peer"], left["count"]) for left in not_in_pools(at_host, place.told)] == [("10.0.0.10", 1), ("10.0.0.9", 1)]


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (1, ["1 connection of nginx to 10.0.0.4:80 in upstream shop on lb1", "1 connection from 10.0.0.9 on port 80"]),
        (0, ["1 connection from 10.0.0.10 on port 80", "1 connection from 10.0.0.9 on port 80"]),
    ],
)
def test_what_comes_from_a_busy_nginx_is_no_second_reason(left, said):
    """nginx tells its connections at another moment than the host. One that has begun or ended between the two is known to one alone."""
    places = traffic(out(connections=left, own_ports={"10.0.0.10": [40000]}), server(TWO)).places
    at_host = [{"peer": peer, "port": 80, "count": 1, "peer_ports": [40001]} for peer in ("10.0.0.10", "10.0.0.9")]
    observation = SimpleNamespace(is_silent=False, connections=at_host, ended=False, looks=0, boot_id=None, is_new=True, at=1.0)
    host = SimpleNamespace(
        places=places, ports=[80], observation=observation, not_counted_yet=[], uncounted=[], blind=(), events=[],
        settings=SimpleNamespace(quiet=3.0, outside=False), memory=SimpleNamespace(looks=0, boot_id=None), traffic=SimpleNamespace(not_running={}),
    )  # fmt: skip
    assert [reason.text for reason in judge_drain(host, 1.0).busy] == said


def test_the_lines_that_went_with_it_are_waited_for():
    held = out("10.0.0.4:81", for_server=ONE, connections=1, **API)
    _own, place = traffic(out(), held, server(TWO)).places
    assert place.busy == ("1 connection of nginx to 10.0.0.4:81 in upstream api on lb1",)


def test_two_spellings_of_one_address_are_one_server():
    of = settings(server="10.0.0.4")
    (place,) = traffic(server(), of=of).places
    assert (place.by_name, place.leads_to) == (True, "")
    assert list(WORDS.claims(of)) == list(WORDS.claims(settings()))
