# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node of Consul, with what Consul 1.8.7 answered."""

from __future__ import annotations

import json

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._cluster import MemberError, check_options
from ansible_collections.graceful.azure.plugins.module_utils._cluster_consul import Consul

from tests.support.cluster import ScriptedTools

URL = "http://127.0.0.1:8500"
EMPTY = {"Node": "web1", "Output": "", "ServiceID": "", "ServiceName": "", "ServiceTags": [], "Definition": {}, "CreateIndex": 0, "ModifyIndex": 0}
SERF = dict(EMPTY, CheckID="serfHealth", Name="Serf Health Status", Status="passing", Notes="", Output="Agent alive and reachable", Type="")
WEB = dict(EMPTY, CheckID="service:web", Name="Service 'web' check", Status="passing", Notes="", ServiceID="web", ServiceName="web", Type="tcp")


def maintenance(reason):
    return dict(EMPTY, CheckID="_node_maintenance", Name="Node Maintenance Mode", Status="critical", Notes=reason, Type="maintenance")


def member_of(name, port, status=1, role="consul"):
    tags = {"acls": "0", "build": "1.8.7:", "dc": "dc1", "expect": "3", "port": str(port), "role": role, "vsn": "2"}
    return {"Name": name, "Addr": "10.0.0.1", "Port": 8301, "Tags": tags, "Status": status}


def offer(node, *statuses):
    return {"Node": {"Node": node, "Address": "10.0.0.1"}, "Service": {"Service": "web", "Port": 80}, "Checks": [{"Status": status} for status in statuses]}


class World:
    """The answers of an agent and its servers."""

    def __init__(self):
        self.tools = ScriptedTools()
        self.config = {"Datacenter": "dc1", "NodeName": "web1", "Server": True, "Version": "1.8.7"}
        self.checks = {"service:web": WEB}
        self.catalog = [SERF, WEB]
        self.services = {"web": {"ID": "web", "Service": "web", "Port": 80}, "web-2": {"ID": "web-2", "Service": "web", "Port": 81}}
        self.peers = ["10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:3"]
        self.members = [member_of("web1", 1), member_of("web2", 2), member_of("web3", 3), member_of("app1", 4, role="node")]
        self.servers = []
        self.critical = []
        self.offers = [offer("web1", "passing", "passing"), offer("web2", "passing", "passing"), offer("web3", "critical", "passing")]

    def member(self, **options):
        said = {
            "/v1/agent/self": {"Config": self.config, "Member": {}},
            "/v1/agent/checks": self.checks,
            "/v1/health/node/web1": self.catalog,
            "/v1/health/state/critical": self.critical,
            "/v1/agent/services": self.services,
            "/v1/status/peers": self.peers,
            "/v1/agent/members": self.members,
            "/v1/health/service/web": self.offers,
            "/v1/operator/raft/configuration": {"Servers": self.servers, "Index": 1},
        }
        for path, answer in said.items():
            self.tools.says(f"GET {URL}{path}", 200, json.dumps(answer))
        self.tools.says(f"PUT {URL}/v1/agent/maintenance", 200, "")
        return Consul(check_options(Consul, options)[0], self.tools)

    def look(self):
        return self.member().look()

    def spare(self):
        member = self.member()
        return member.spare(member.look())


@pytest.fixture(name="world")
def make_world():
    return World()


class TestLook:
    def test_a_node_that_serves(self, world):
        seen = world.look()
        assert (seen.member, seen.ours, seen.serves, seen.foreign, seen.left) == ("web1", False, True, None, "web1 is not in maintenance mode")
        assert seen.state == {"maintenance": False, "reason": None}
        assert world.tools.calls == [f"GET {URL}/v1/agent/self", f"GET {URL}/v1/agent/checks"]

    def test_a_node_that_we_took_out(self, world):
        world.checks["_node_maintenance"] = maintenance("graceful.azure")
        world.catalog.insert(0, maintenance("graceful.azure"))
        seen = world.look()
        assert (seen.ours, seen.serves, seen.foreign, seen.left) == (True, False, None, None)
        assert seen.state == {"maintenance": True, "reason": "graceful.azure"} and seen.events == ()
        world.checks["_node_maintenance"] = maintenance("graceful.azure (A, my.id)")
        seen = world.look()
        assert seen.ours and seen.events == ("A", "my.id")

    def test_servers_that_do_not_know_yet(self, world):
        world.checks["_node_maintenance"] = maintenance("graceful.azure")
        assert world.look().left == "Consul's servers do not know yet that web1 is in maintenance mode"
        member = world.member()
        world.tools.says(f"GET {URL}/v1/health/node", 500, "No cluster leader")
        assert member.look().left == (
            "Consul's servers do not tell whether they still offer the services of web1. "
            f"GET {URL}/v1/health/node/web1 was answered with status 500 (No cluster leader)"
        )

    @pytest.mark.parametrize("reason", ["", "new disks", "graceful.azure.example", "Maintenance mode is enabled for this node, but no reason was provided."])
    def test_a_node_that_somebody_else_took_out(self, world, reason):
        world.checks["_node_maintenance"] = maintenance(reason)
        world.catalog.insert(0, maintenance(reason))
        seen = world.look()
        assert (seen.ours, seen.serves, seen.left) == (False, False, None)
        assert seen.foreign == f"The node web1 is in maintenance mode already, with the reason {reason!r}."


class TestSpare:
    def test_another_node_offers_the_service(self, world):
        assert world.spare() is None

    def test_nobody_else_passes(self, world):
        world.offers[1] = offer("web2", "passing", "warning")
        assert world.spare() == "web1 is the only node that Consul offers for the service web: it does not pass its checks on web2, web3"

    def test_many_others_are_counted(self, world):
        world.offers[1:] = [offer(f"web{number}", "critical") for number in range(2, 8)]
        assert world.spare().endswith("it does not pass its checks on web2, web3, web4 and 3 more")

    def test_a_node_that_is_not_offered_itself(self, world):
        world.offers = [offer("web1", "critical"), offer("web2", "critical")]
        assert world.spare() is None

    def test_a_node_that_is_offered_with_a_warning(self, world):
        world.offers = [offer("web1", "warning"), offer("web2", "critical")]
        assert world.spare() == "web1 is the only node that Consul offers for the service web: it does not pass its checks on web2"

    @pytest.mark.parametrize("offers", [[], [offer("web2", "passing")]])
    def test_a_service_of_which_the_servers_tell_nothing(self, world, offers):
        """Consul leaves out what the token may not read."""
        world.offers = offers
        assert world.spare() == "Consul's servers do not tell that web1 has the service web. See whether the token may read it"

    def test_a_service_that_nobody_else_has(self, world):
        world.offers = [offer("web1", "passing")]
        assert world.spare() is None

    def test_a_server_that_the_majority_needs(self, world):
        world.members[2] = member_of("web3", 3, status=4)
        assert world.spare() == "without web1 the servers of Consul would lose their majority: 1 of the other 2 answer, and 2 are needed"
        world.config["Server"] = False
        assert world.spare() is None

    def test_the_vote_of_a_server_that_somebody_else_took_out(self, world):
        """Maintenance mode takes no vote. That nobody else offers its services is what somebody wanted."""
        world.checks["_node_maintenance"], world.offers = maintenance("a new disk"), [offer("web1", "critical"), offer("web2", "critical")]
        member = world.member()
        assert member.still_needed(member.look()) is None
        world.members[2]["Status"] = 4
        member = world.member()
        told = "without web1 the servers of Consul would lose their majority: 1 of the other 2 answer, and 2 are needed"
        assert member.still_needed(member.look()) == told

    @pytest.mark.parametrize("reason", ["graceful.azure (E1)", "graceful.azure"])
    def test_a_server_that_is_out_for_another_event_counts_as_gone(self, world, reason):
        """It answers until it is rebooted. Nobody else may go meanwhile, also if another run has taken it out."""
        world.critical = [dict(maintenance(reason), Node="web2")]
        assert world.spare() == (
            "without web1 the servers of Consul would lose their majority: 1 of the other 2 answer and stay (web2 is out for an event), and 2 are needed"
        )
        world.critical.append(dict(maintenance(reason), Node="web3"))
        assert "0 of the other 2 answer and stay (web2, web3 are out for an event), and 2 are needed" in (world.spare() or "")
        world.critical = [dict(maintenance(reason), Node="app1"), dict(maintenance("a new disk"), Node="web2"), dict(WEB, Node="web3", Status="critical")]
        assert world.spare() is None

    def test_too_few_that_answer_are_told_without_a_leader(self, world):
        world.members[2] = member_of("web3", 3, status=4)
        member = world.member()
        world.tools.says(f"GET {URL}/v1/health/state/critical", 500, "No cluster leader")
        assert "would lose their majority: 1 of the other 2 answer" in member.spare(member.look())

    @pytest.mark.parametrize("number", [2, 3])
    def test_a_server_that_is_too_new_to_vote(self, world, number):
        """So a real Consul says it, after a dead server was removed: two vote, and the third one will."""
        world.servers = [{"Node": f"web{n}", "Address": f"10.0.0.1:{n}", "Leader": False, "Voter": n != number} for n in (1, 2, 3)]
        assert world.spare() == "without web1 the servers of Consul would lose their majority: 1 of the other 1 answer, and 2 are needed"
        world.servers = [dict(server, Voter=True) for server in world.servers]
        assert world.spare() is None

    def test_this_node_is_too_new_to_vote(self, world):
        world.servers = [{"Node": "web1", "Address": "10.0.0.1:1", "Voter": False}]
        world.members[2]["Status"] = 4
        assert world.spare() is None

    def test_a_server_without_an_address_makes_no_other_new(self, world):
        world.servers, world.peers[2] = [{"Node": "web4", "Address": "", "Voter": False}], "web3:8300"
        assert world.spare() == "without web1 the servers of Consul would lose their majority: 1 of the other 2 answer, and 2 are needed"

    @pytest.mark.parametrize("status", [403, 404, 500])
    def test_only_operators_are_told_who_is_too_new(self, world, status):
        member = world.member()
        world.tools.says(f"GET {URL}/v1/operator", status, "Permission denied")
        if status == 500:
            with pytest.raises(MemberError, match="configuration was answered with status 500"):
                member.spare(member.look())
        else:
            assert member.spare(member.look()) is None

    @pytest.mark.parametrize("peers", [["10.0.0.1:1"], ["10.0.0.1:1", "10.0.0.1:2"], ["10.0.0.1:2", "10.0.0.1:3"]])
    def test_where_no_waiting_helps_or_it_does_not_vote(self, world, peers):
        world.peers = peers
        world.members = [member_of("web1", 1), member_of("web2", 2, status=3), member_of("web3", 3, status=3)]
        assert world.spare() is None


def over_ipv6(world):
    """The same, as a real Consul says it: members have bare addresses, peers are written with brackets."""
    for number, member in enumerate(world.members, 1):
        member.update(Addr=f"2001:db8::{number}")
        member["Tags"]["port"] = "8300"
    world.peers = [f"[2001:db8::{number}]:8300" for number in (1, 2, 3)]


class TestWhoVotes:
    def test_with_ipv6(self, world):
        over_ipv6(world)
        assert world.spare() is None
        world.members[2]["Status"] = 4
        assert world.spare() == "without web1 the servers of Consul would lose their majority: 1 of the other 2 answer, and 2 are needed"

    def test_an_address_in_another_spelling(self, world):
        over_ipv6(world)
        world.peers[0] = "[2001:0DB8:0::1]:8300"
        world.members[2]["Status"] = 4
        assert "would lose their majority" in world.spare()

    def test_a_server_that_was_built_anew_under_another_name(self, world):
        world.members.append(member_of("web3-old", 3, status=3))
        assert world.spare() is None
        world.members.insert(0, member_of("web1-old", 1, status=3))
        world.members[3]["Status"] = 4
        assert "would lose their majority: 1 of the other 2 answer" in world.spare()

    def test_a_token_that_may_not_read_other_nodes(self, world):
        """Consul leaves out what the token may not read, so this node seems to be the only one. Everybody may read the peers."""
        world.config["Server"] = False
        world.offers = world.offers[:1]
        assert world.spare() is None
        world.members = [member for member in world.members if member["Name"] == "web1"]
        assert world.spare() == (
            "nobody can tell whether other nodes have the service web: nothing is known of Consul's servers 10.0.0.1:2, 10.0.0.1:3."
            " See whether the token may read all nodes"
        )

    def test_a_node_that_is_not_found_among_the_peers(self, world):
        """One of the peers may be this node, so it is not taken for a server without a vote."""
        del world.members[0]
        assert world.spare() == (
            "no voting server of Consul has the address of web1, and nothing is known of 10.0.0.1:1. See whether the token may read all nodes"
        )

    @pytest.mark.parametrize("peers", [[], [1, 2, 3]])
    def test_peers_that_are_not_told(self, world, peers):
        world.peers = peers
        assert world.spare().startswith("Consul's servers do not tell who votes: they name ")

    @pytest.mark.parametrize("tag", ["read_replica", "nonvoter"])
    def test_servers_without_a_vote_are_no_majority(self, world, tag):
        for number in (5, 6):
            world.members.append(member_of(f"replica{number}", number))
            world.members[-1]["Tags"][tag] = "1"
            world.peers.append(f"10.0.0.1:{number}")
        assert world.spare() is None
        world.members[2]["Status"] = 4
        assert world.spare() == "without web1 the servers of Consul would lose their majority: 1 of the other 2 answer, and 2 are needed"
        world.members[0]["Tags"][tag] = "1"
        world.peers.append("10.0.0.9:9")
        assert world.spare() is None


class TestChange:
    def test_out_and_back(self, world):
        member = world.member()
        seen = member.look()
        member.out(seen)
        assert world.tools.calls[-1] == f"PUT {URL}/v1/agent/maintenance?enable=true&reason=graceful.azure"
        member.event_ids = ("A", "my.id")
        member.out(seen)
        assert world.tools.calls[-1] == f"PUT {URL}/v1/agent/maintenance?enable=true&reason=graceful.azure+%28A%2C+my.id%29"
        member.back(seen, seen.state)
        assert world.tools.calls[-1] == f"PUT {URL}/v1/agent/maintenance?enable=false"

    def test_a_refusal(self, world):
        member = world.member()
        seen = member.look()
        world.tools.says(f"PUT {URL}/v1/agent/maintenance", 403, "Permission denied\n")
        with pytest.raises(MemberError, match=r"^PUT .*/v1/agent/maintenance\?enable=false was answered with status 403 \(Permission denied\).$"):
            member.back(seen, seen.state)


class TestFaults:
    def test_an_agent_that_does_not_run(self):
        with pytest.raises(MemberError, match="^GET http://127.0.0.1:8500/v1/agent/self failed: Connection refused.$"):
            Consul({"url": URL + "/"}, ScriptedTools()).look()

    @pytest.mark.parametrize("said", ["", "<html>", "[]", "{}", '{"Config": {"NodeName": "web1"}}', '{"Config": {"NodeName": 1, "Server": true}}'])
    def test_nonsense_about_itself(self, world, said):
        member = world.member()
        world.tools.says(f"GET {URL}/v1/agent/self", 200, said)
        with pytest.raises(MemberError, match="^The answer to GET http://127.0.0.1:8500/v1/agent/self is not what an agent of Consul says: "):
            member.look()

    @pytest.mark.parametrize("said", ["[]", '{"_node_maintenance": {}}', '{"_node_maintenance": []}', '{"_node_maintenance": {"Notes": 1}}'])
    def test_nonsense_about_its_checks(self, world, said):
        member = world.member()
        world.tools.says(f"GET {URL}/v1/agent/checks", 200, said)
        with pytest.raises(MemberError, match="/v1/agent/checks is not what an agent of Consul says: "):
            member.look()

    @pytest.mark.parametrize("said", ["{}", "[1]", '[{"Node": {}, "Checks": []}]', '[{"Node": {"Node": "web1"}, "Checks": [1]}]'])
    def test_nonsense_about_a_service(self, world, said):
        member = world.member()
        seen = member.look()
        world.tools.says(f"GET {URL}/v1/health/service/web", 200, said)
        with pytest.raises(MemberError, match="/v1/health/service/web is not what an agent of Consul says: "):
            member.spare(seen)

    def test_a_proxy_in_its_place(self, world):
        member = world.member()
        world.tools.says(f"GET {URL}/v1/agent/self", 502, "<h1>Bad Gateway</h1>" * 40)
        with pytest.raises(MemberError, match=r"was answered with status 502 \(<h1>Bad Gateway") as told:
            member.look()
        assert len(str(told.value)) < 350


class TestOptions:
    def test_a_token_is_read_on_the_host(self, world):
        headers = []
        world.tools.request = lambda method, url, headers=None, tls=None, kept=headers: kept.append((headers, tls)) or (200, "{}")
        with pytest.raises(MemberError):
            world.member(token_file="/etc/consul.d/token").look()
        with pytest.raises(MemberError):
            world.member().look()
        assert headers == [({"X-Consul-Token": "secret"}, None), (None, None)]
        with pytest.raises(MemberError):
            world.member(url="HTTPS://127.0.0.1:8501").look()
        assert headers[2][1].check_hostname

    @pytest.mark.parametrize(
        "options, option, told",
        [
            ({"url": "consul:8500"}, "url", "does not begin with http:// or https:// and a host"),
            ({"url": "http://a:b"}, "url", "is no URL"),
            ({"url": "http://a:0"}, "url", "does not begin with http:// or https:// and a host"),
            ({"url": "http://u:p@a"}, "url", "has more than a host, a port and a path"),
            ({"url": "http://a/?b"}, "url", "has more than a host, a port and a path"),
            ({"client_key": "/k"}, "client_cert", "it is missing, and client_key needs it"),
        ],
    )
    def test_mistakes(self, options, option, told):
        ((found, problem),) = check_options(Consul, options)[1]
        assert found == option and told in problem

    def test_a_name_with_other_letters(self, world):
        world.config["NodeName"] = "web 1/ä"
        world.checks["_node_maintenance"] = maintenance("graceful.azure")
        world.member().look()
        assert world.tools.calls[-1] == f"GET {URL}/v1/health/node/web%201%2F%C3%A4"
