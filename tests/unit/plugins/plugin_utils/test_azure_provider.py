# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the provider azure_load_balancer makes of a look, and what its options may be."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._by_hand import read_places
from ansible_collections.graceful.azure.plugins.plugin_utils._duties import azure_load_balancer as words
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import TRAFFIC, settings_of
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.addresses import Addresses
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import MachineObservation, Record, RecordedEvent
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import CHANGED, FREE, HELD
from ansible_collections.graceful.azure.plugins.plugin_utils._settings import read_role, read_settings
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.load_balancer import judge

POOL = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Network/loadBalancers/lb/backendAddressPools/web"
PROVIDER = TRAFFIC["azure_load_balancer"]
ENTRY = {"pool": POOL, "address": "a", "arm_url": "https://arm.example"}
SETTINGS = settings_of("azure_load_balancer", ENTRY, "web1")
KEY = f"localhost {POOL.lower()}"


def address(name="a", state="absent", condition="none", settled=True, **more):
    known = {"pool": POOL, "name": name, "ip_address": "10.0.0.4", "admin_state": state, "settled": settled, "found": None, "held_by": []}
    return {**known, "condition": condition, **more}


def traffic(*addresses, settings=SETTINGS, **more):
    result = {"addresses": list(addresses), "at": 5.0, **more}
    return PROVIDER.traffic(settings, None, {KEY: MachineObservation(KEY, result, None)}, None)


@pytest.mark.parametrize(
    "seen, rotates, condition, must_go_out",
    [
        (address(), True, FREE, True),
        (address(state="Up"), True, FREE, True),
        (address(state="Down", condition="already_out"), False, FREE, False),
        (address(state="Down", condition="held", held_by=["E1"]), False, HELD, False),
        # The run that took it out was cut off before it could say so.
        (address(state="Down", condition="held", held_by=["E1"], noted=False), False, HELD, True),
        # Azure has not finished: nobody knows whether connections still come.
        (address(state="Down", condition="changing", settled=False), True, HELD, True),
        # Another event begins while the address is given back.
        (address(state="Down", condition="restoring"), False, HELD, True),
        (address(state="Up", condition="changed_meanwhile", held_by=["E1"]), True, CHANGED, False),
    ],
)
def test_what_a_state_means(seen, rotates, condition, must_go_out):
    (place,) = traffic(seen).places
    assert (place.in_rotation, place.condition, place.must_go_out) == (rotates, condition, must_go_out)
    assert bool(place.busy) == rotates
    assert bool(place.conflict) == (condition == CHANGED)


OTHER = POOL.replace("/web", "/api")
WAY = {"at": POOL.upper(), "of": "a", "pool": OTHER, "name": "x", "rule": None, "ports": [8080, 8081]}
NAT = {"at": POOL, "of": "a", "pool": None, "name": None, "rule": "direct", "ports": [8080]}


@pytest.mark.parametrize(
    ("way", "pools", "ports", "said"),
    [
        (
            WAY,
            [POOL],
            [8080],
            "x in pool api of lb is the same address, and its rules send connections to port 8080, 8081: add a duty azure_load_balancer with this pool",
        ),
        (
            dict(WAY, ports=[0]),
            [POOL],
            [1],
            "x in pool api of lb is the same address, and its rules send connections to all ports: add a duty azure_load_balancer with this pool",
        ),
        (NAT, [POOL, OTHER], [8080], "inbound NAT rule direct of lb sends connections to port 8080 of it, whatever the administrative state is"),
        (
            dict(NAT, probed=False),
            [POOL],
            [8080],
            "load balancing rule direct of lb has no probe, so it sends connections to port 8080 of it, whatever the administrative state is: give it a probe",
        ),
        (dict(NAT, probed=False), [POOL], [443], None),
        # The host has another address, in the same pool and in another one. One that two targets have tells nothing.
        (
            dict(WAY, pool=POOL),
            [POOL, OTHER],
            [8080],
            "x in pool web of lb leads to it, too, and its rules send connections to port 8080, 8081: add a duty azure_load_balancer with this pool and the"
            " address x",
        ),
        (
            dict(WAY, of=None, ip_address="FD00:0::4"),
            [POOL],
            [8080],
            "x in pool api of lb leads to it, too, and its rules send connections to port 8080, 8081: add a duty azure_load_balancer with this pool and the"
            " address x",
        ),
        (dict(WAY, of=None, ip_address="172.17.0.1"), [POOL], [8080], None),
        (dict(WAY, of=None, ip_address="10.0.0.5"), [POOL], [8080], None),
        (dict(WAY, of=None, ip_address="fd00::4"), [POOL, OTHER], [8080], None),
        # It is the host's own address in the pool.
        (dict(WAY, of=None, ip_address="10.0.0.4", pool=POOL, name="a"), [POOL], [8080], None),
        # The other pool has a duty of its own, the port is another service's, or it is another member's.
        (WAY, [POOL, OTHER.lower()], [8080], None),
        (WAY, [POOL], [443], None),
        (NAT, [POOL], [443], None),
        (dict(WAY, of="b"), [POOL], [8080], None),
    ],
)
def test_what_the_load_balancer_sends_past_the_pool_keeps_the_host_in_rotation(way, pools, ports, said):
    host = SimpleNamespace(name="web1", ports=ports, balancers=[(PROVIDER, dict(SETTINGS, pool=pool)) for pool in pools])
    result = {"addresses": [address(state="Down", condition="held", held_by=["E1"]), address("b")], "at": 5.0, "past": [way]}
    owners = {"10.0.0.4": {"web1"}, "fd00::4": {"web1"}, "172.17.0.1": {"web1", "web2"}, "10.0.0.5": {"web2"}}
    found = PROVIDER.traffic(SETTINGS, host, {KEY: MachineObservation(KEY, result, None)}, Addresses(owners, {}, True))
    (pool, *past) = found.places
    assert not pool.in_rotation and not found.serves
    assert [(place.in_rotation, place.busy, place.stays, place.must_go_out) for place in past] == ([(True, (said,), said, False)] if said else [])


@pytest.mark.parametrize(("ports", "told"), [([8080], None), ([0], None), (None, None), ([8080, 8443], "8443"), ([80, 443, 8080], "80, 443")])
def test_a_port_of_a_rule_that_is_not_counted_is_told(ports, told):
    """Azure counts nothing, so who is connected there would keep nobody from the event."""
    host = SimpleNamespace(name="web1", ports=[8080], balancers=[(PROVIDER, SETTINGS)])
    found = PROVIDER.traffic(SETTINGS, host, {KEY: MachineObservation(KEY, {"addresses": [address(ports=ports)], "at": 5.0}, None)}, None)
    said = f"the rules of pool web send connections to port {told} of it, which graceful_azure_ports does not have"
    assert [doubt.partition(":")[0] for doubt in found.doubts] == ([said] if told else [])


def test_an_address_with_a_duty_of_its_own_is_no_way_past():
    host = SimpleNamespace(name="web1", ports=[8080], balancers=[(PROVIDER, SETTINGS), (PROVIDER, dict(SETTINGS, server="x"))])
    result = {"addresses": [address(state="Down"), address("x", state="Down")], "at": 5.0, "past": [dict(WAY, pool=POOL)]}
    assert len(PROVIDER.traffic(SETTINGS, host, {KEY: MachineObservation(KEY, result, None)}, Addresses({}, {}, True)).places) == 1


def test_what_is_being_given_back_does_not_serve_yet():
    others = [address("b", condition="restoring", settled=False), address("c", condition="restoring", state="Down"), address("d", settled=False)]
    (place,) = traffic(address(), *others).places
    assert [(server["server"], server["in_service"]) for server in place.group.servers] == [("a", True), ("b", False), ("c", False), ("d", True)]
    assert place.serves and not traffic(address(condition="restoring", settled=False)).places[0].serves


@pytest.mark.parametrize(
    ("unserved", "back_at", "more", "left"),
    [
        (True, None, {}, 15),
        (False, 100.0, {}, 10),
        (False, 80.0, {}, None),
        (False, None, {}, None),  # whoever did not go out in this run
        (True, None, {"admin_state": "Up"}, None),
        (True, None, {"notice": 0.0}, None),
    ],
)
def test_a_target_that_is_back_counts_when_azure_must_have_noticed(unserved, back_at, more, left):
    hosts = [SimpleNamespace(name=name, memory=SimpleNamespace(unserved=False, back_at=None), ports=[], balancers=[]) for name in "ab"]
    hosts[1].memory = SimpleNamespace(unserved=unserved, back_at=back_at)
    asked = [(host, dict(SETTINGS, server=host.name, host=host.name)) for host in hosts]
    result = {"addresses": [address(notice=15.0), address("b", **{"notice": 15.0, **more})], "at": 105.0}
    found = list(PROVIDER.traffic_of_all(asked, {KEY: MachineObservation(KEY, result, None)}, None))
    servers = {server["server"]: server for server in found[0].places[0].group.servers}
    assert servers["a"]["in_service"] and servers["b"]["in_service"] == (left is None)
    assert servers["b"]["silent"] == (None if left is None else f"b: Azure notices within {left} s that it answers") and servers["b"]["early"] == bool(left)


def test_the_minimum_goes_along_on_the_way_out_alone():
    step = {"min_in_service": 2}
    least = [options.get("min_in_service") for way in ("out", "in") for _machine, _module, options in PROVIDER.acts(SETTINGS, way, {"state": "present"}, step)]
    assert least == [2, None]


def test_a_host_may_be_known_by_its_ip_address():
    settings = settings_of("azure_load_balancer", {**ENTRY, "address": "", "ip_address": "10.0.0.4"}, "web1")
    assert [place.member for place in traffic(address("x"), settings=settings).places] == ["x"]
    ((_machine, module, options),) = PROVIDER.acts(settings, "out", {"state": "present"}, {})
    assert (module, options["ip_address"], "address" in options) == ("azure_load_balancer_hold", "10.0.0.4", False)
    twice = traffic(address("x"), address("y"), settings=settings)
    assert not twice.places and "2 addresses have it (x, y)" in twice.mistakes[0]


@pytest.mark.parametrize(
    "name, ansible_host, known_as",
    [
        ("web1", "10.0.0.4", {"ip_address": "10.0.0.4"}),
        ("web1", "fd00::4", {"ip_address": "fd00::4"}),
        ("10.0.0.9", "10.0.0.4", {"ip_address": "10.0.0.4"}),
        ("10.0.0.9", None, {"ip_address": "10.0.0.9"}),
        ("web1", "web1.example", {"address": "web1"}),
        ("web1", None, {"address": "web1"}),
    ],
)
def test_how_a_host_is_known_if_nothing_else_is_set(name, ansible_host, known_as):
    variables = {"graceful_azure_duties": [{"type": "azure_load_balancer", "pool": POOL}], "graceful_azure_ports": [80]}
    variables.update({"ansible_host": ansible_host} if ansible_host else {})
    settings, mistakes = read_settings({name: variables}, {name})
    assert mistakes == []
    of_role, mistakes = read_role("load_balancer", name, {**variables, "load_balancer_state": "out"}, {name})
    assert mistakes == [] and of_role["load_balancers"][0]["known_as"] == known_as
    (balancer,) = settings[name]["load_balancers"]
    (known,) = known_as.values()
    assert (balancer["server"], balancer["known_as"]) == (known, known_as)
    ((place,), _mistakes) = read_places(name, variables)
    assert place["options"]["servers"] == [known]


def test_what_is_set_counts_before_the_ansible_host():
    assert settings_of("azure_load_balancer", ENTRY, "web1", "10.0.0.9")["known_as"] == {"address": "a"}
    assert settings_of("azure_load_balancer", {**ENTRY, "address": "", "ip_address": "10.0.0.4"}, "web1", "10.0.0.9")["known_as"] == {"ip_address": "10.0.0.4"}


def test_an_address_that_is_not_there_forbids_every_step():
    told = traffic(address("b"))
    assert told.mistakes == (
        "the pool web has no address 'a' (option address or ip_address, otherwise ansible_host if it is an IP address,"
        " otherwise the inventory name); its addresses are b",
    )
    assert not told.serves


def test_if_an_ip_address_is_not_there_those_that_are_there_are_told():
    settings = settings_of("azure_load_balancer", {**ENTRY, "address": "", "ip_address": "10.0.0.9"}, "web1")
    result = {"addresses": [dict(address("b"), ip_address="10.0.0.5"), dict(address("c"), ip_address=None)]}
    (said,) = words.mistakes_in(settings, result)
    assert said.endswith("its addresses are b (10.0.0.5), c (IP address not known)")
    (said,) = words.mistakes_in(settings, dict(result, unread=["x: refused"]))
    assert said.endswith("c (IP address not known); a member may be it whose network interface cannot be read: x: refused")


@pytest.mark.parametrize("known_by, value", [("address", "a"), ("ip_address", "10.0.0.4")])
def test_two_hosts_with_one_address_are_told_with_the_option_that_says_so(known_by, value):
    duties = [{"type": "azure_load_balancer", "pool": POOL, known_by: value}]
    hosts = {name: {"graceful_azure_duties": duties, "graceful_azure_ports": [80]} for name in ("web1", "web2")}
    assert read_settings(hosts, set(hosts))[1] == [
        f"web2: graceful_azure_duties[0].{known_by}: {value!r} on pool web is web1's server already. Each host needs its own"
    ]


@pytest.mark.parametrize("passing", [False, True])
def test_what_cannot_be_read_is_no_observation(passing):
    result = PROVIDER.read({"reached": True, "addresses": None, "holds": None, "problem": "No.", "passing": passing}, {})
    told = PROVIDER.traffic(SETTINGS, None, {KEY: MachineObservation(KEY, result, None)}, None)
    assert [reason.text for reason in told.unread] == ["a in pool web: No."]
    assert told.is_helpless is not passing
    assert not told.serves and not told.places


def test_hosts_of_one_pool_share_one_look_and_no_secret_is_in_it():
    other = settings_of("azure_load_balancer", {**ENTRY, "address": "b"}, "web2")
    (look,) = PROVIDER.looks([("web1", SETTINGS), ("web2", other)], {"web1": 3.0}, lambda *_: ())
    assert (look.key, look.machine, look.wait_for) == (KEY, "localhost", [])
    assert look.options == {"pools": [POOL], "servers": ["a", "b"], "arm_url": "https://arm.example"}


def test_an_address_of_two_hosts_is_looked_at_once():
    (look,) = PROVIDER.looks([("web1", SETTINGS), ("web2", SETTINGS)], {}, lambda *_: ())
    assert look.options["servers"] == ["a"]


def test_what_could_be_read_is_the_observation():
    seen = {"problem": None, "addresses": [address()], "holds": []}
    assert PROVIDER.read(seen, {}) == seen


def test_records_are_those_of_the_host():
    def record(name, **more):
        return Record("azure_address", {"pool": POOL, "address": name}, {"E1": RecordedEvent("2026-11-24T12:00:00Z")}, **more)

    machine = MachineObservation(KEY, {}, [record("a"), record("b"), record("c", for_server="a")])
    assert [found.subject["address"] for found, _machine in PROVIDER.records(SETTINGS, {KEY: machine})] == ["a", "c"]


@pytest.mark.parametrize("known", [{"address": "A"}, {"address": "", "ip_address": "2001:DB8:0::4"}])
def test_a_host_is_known_in_any_spelling(known):
    settings = settings_of("azure_load_balancer", {**ENTRY, **known}, "web1")
    (place,) = traffic(address(ip_address="2001:db8::4"), address("b", ip_address="2001:db8::5"), settings=settings).places
    assert place.member == "a"
    record = Record("azure_address", {"pool": POOL, "address": "a"}, {"E1": RecordedEvent("2026-11-24T12:00:00Z")}, for_server="2001:db8::4")
    assert [found for found, _machine in PROVIDER.records(settings, {KEY: MachineObservation(KEY, {}, [record])})] == [record]


def test_the_minimum_counts_the_addresses_of_the_pool():
    (place,) = traffic(address(), address("b"), address("c", state="Down")).places
    assert [server["in_service"] for server in place.group.servers] == [True, True, False]
    assert place.group.name == "pool web"


@pytest.mark.parametrize(
    "direction, act, done, reason",
    [
        ("out", {"done": True, "addresses": [address(state="Down", held_by=["E1"])]}, True, "a in pool web is held (Down)"),
        ("in", {"done": True, "addresses": [address()]}, True, "a in pool web is not held (absent)"),
        ("out", {"done": False, "waiting_for": "Azure is still changing web", "addresses": [address(state="Down")]}, False, "Azure is still changing web"),
        ("out", {"done": True, "conflicts": ["somebody else set a"], "addresses": [address(state="Up")]}, False, "somebody else set a"),
        ("out", {"failed": True, "msg": "No right."}, False, "No right."),
        ("in", {"failed": True, "msg": "No right."}, False, "No right."),
    ],
)
def test_the_result_of_the_role(direction, act, done, reason):
    result = judge(SETTINGS, direction, [act])
    assert (result["done"], result["reason"]) == (done, reason)


@pytest.mark.parametrize(
    "more, said",
    [
        ({"pool": ""}, "graceful_azure_duties[0].pool: not set"),
        ({"pool": "web"}, "graceful_azure_duties[0].pool: 'web' is not a resource id such as"),
        ({"pool": POOL + "?x"}, "is not a resource id such as"),
        ({"ip_address": "10.0.0.4"}, "graceful_azure_duties[0].address: excludes ip_address"),
        ({"address": "", "ip_address": "web1"}, "graceful_azure_duties[0].ip_address: 'web1' is not an IP address"),
        ({"arm_url": "http://arm.example"}, "graceful_azure_duties[0].arm_url: 'http://arm.example' does not begin with https://"),
        ({"ca_file": "ca.pem"}, "graceful_azure_duties[0].ca_file: 'ca.pem' is not an absolute path"),
        ({"auth_source": "guess"}, "graceful_azure_duties[0].auth_source: 'guess' is none of auto, cli, credential_file, env, msi"),
    ],
)
def test_options_that_cannot_be_right(more, said):
    variables = {"graceful_azure_duties": [{"type": "azure_load_balancer", **ENTRY, **more}], "load_balancer_state": "out"}
    assert any(said in mistake for mistake in read_role("load_balancer", "web1", variables, {"web1"})[1])


def test_ports_are_needed_because_azure_counts_nothing():
    ((option, said),) = TRAFFIC["azure_load_balancer"].beside(SETTINGS, [])
    assert option == "ports" and said.startswith("not set")
    assert not list(TRAFFIC["azure_load_balancer"].beside(SETTINGS, [80]))
    assert not list(TRAFFIC["azure_load_balancer"].beside(SETTINGS))
