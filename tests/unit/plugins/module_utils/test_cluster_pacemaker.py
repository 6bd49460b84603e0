# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node of Pacemaker, with what Pacemaker 2.1.5 answered (C(pacemaker_answers))."""

from __future__ import annotations

import pathlib
import re

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._cluster import MemberError, check_options
from ansible_collections.graceful.azure.plugins.module_utils._cluster_pacemaker import Pacemaker

from tests.support.cluster import ScriptedTools

ANSWERS = pathlib.Path(__file__).parent / "pacemaker_answers"

# The second node is in standby, what has failed there is counted, and the third one is out for another event.
CIB = """<cib have-quorum="1"><configuration><crm_config/><nodes>
<node id="2" uname="web2"><instance_attributes id="n2">
<nvpair id="n2s" name="standby" value="on"/><nvpair id="n2z" name="zone" value="2"/></instance_attributes></node>
</nodes><resources/><constraints><rsc_location id="graceful-azure-web3" rsc-pattern=".*" node="web3" score="-INFINITY"/></constraints></configuration>
<status><node_state id="2"><transient_attributes id="2"><instance_attributes id="s2">
<nvpair id="f" name="fail-count-r1#start_0" value="INFINITY"/></instance_attributes>
</transient_attributes></node_state></status></cib>"""


def answer(name):
    return (ANSWERS / name).read_text()


@pytest.fixture(name="tools")
def make_tools():
    tools = ScriptedTools()
    tools.says("crm_node", 0, "web1\n", "")
    tools.says("crm_mon", 0, answer("two_nodes.xml"), "")
    tools.says("cibadmin --query", 0, CIB, "")
    tools.says("cibadmin --query --scope", 0, answer("no_constraints.xml"), "")
    tools.says("corosync-quorumtool", 0, answer("quorum.txt"), "")
    return tools


def look(tools, **options):
    member = Pacemaker(options, tools)
    return member, member.look()


def resource(name, on=None, role="Started", managed="true", agent="ocf:pacemaker:Dummy"):
    """What crm_mon says of a resource, and of the node on which it runs."""
    node = f"<node name='{on}'/>" if on else ""
    return f"<resource id='{name}' resource_agent='{agent}' role='{role}' active='{'true' if on else 'false'}' managed='{managed}'>{node}</resource>"


def status_with(resources, of="two_nodes.xml"):
    return re.sub(r"<resources>.*</resources>", lambda _found: f"<resources>{resources}</resources>", answer(of), flags=re.DOTALL)


def simulates(tools, *ends):
    """Let each simulation end with such resources. Returns what they were given."""
    given = []

    def simulate(call):
        given.append(pathlib.Path(call.split("--xml-file ")[1].split()[0]).read_text())
        tools.says("crm_mon", 0, status_with(ends[len(given) - 1]), "")
        return 0, "", ""

    tools.says("crm_simulate", simulate)
    return given


class TestLook:
    def test_a_node_that_serves(self, tools):
        _member, seen = look(tools)
        assert (seen.member, seen.ours, seen.serves, seen.foreign, seen.left) == ("web1", False, True, None, "2 resources run on web1")
        assert seen.state == {"constraint": False, "online": True, "standby": False, "maintenance": False, "resources": 2}

    def test_a_node_that_we_took_out(self, tools):
        tools.says("crm_mon", 0, answer("out.xml"), "")
        tools.says("cibadmin --query --scope", 0, answer("constraints.xml"), "")
        _member, seen = look(tools)
        assert (seen.ours, seen.serves, seen.foreign, seen.left) == (True, False, None, None)

    def test_what_stops_runs_until_it_has_stopped(self, tools):
        """crm_mon counts it nowhere meanwhile."""
        tools.says("crm_mon", 0, answer("out.xml"), "")
        tools.says("cibadmin --query --scope", 0, answer("constraints.xml"), "")
        tools.says("cibadmin --query --xpath", 0, answer("stopping.xml"), "")
        _member, seen = look(tools)
        assert (seen.ours, seen.left, seen.state["resources"]) == (True, "2 resources run on web1", 2)

    def test_a_section_that_is_not_there(self, tools):
        tools.says("cibadmin --query --scope", 105, "", "Call cib_query failed (-6): No such device or address")
        assert not look(tools)[1].ours

    def test_a_node_in_standby(self, tools):
        tools.says("crm_mon", 0, answer("standby.xml"), "")
        _member, seen = look(tools)
        assert (seen.ours, seen.serves, seen.foreign, seen.left) == (False, False, "Somebody else put the node web1 into standby.", None)

    def test_maintenance_mode_moves_nothing(self, tools):
        tools.says("crm_mon", 0, answer("maintenance.xml"), "")
        _member, seen = look(tools)
        assert seen.left == "1 resource runs on web1, and Pacemaker moves nothing, because maintenance mode is on"

    def test_another_name(self, tools):
        with pytest.raises(MemberError, match="This machine is the node web1 of the cluster, and not web2. See whether the option node is right."):
            look(tools, node="web2")
        tools.says("crm_node", 0, "web2\n", "")
        assert look(tools, node="web2")[1].left == "1 resource runs on web2"
        with pytest.raises(MemberError, match="The cluster has no node web3; it has web1, web2. Set the option node."):
            look(tools, node="web3")

    def test_the_hold_of_another_node_is_not_ours(self, tools):
        tools.says("crm_mon", 0, answer("out.xml"), "")
        tools.says("cibadmin --query --scope", 0, answer("constraints.xml"), "")
        tools.says("crm_node", 0, "web2\n", "")
        with pytest.raises(MemberError, match="This machine is the node web2 of the cluster, and not web1"):
            look(tools, node="web1")


class TestSpare:
    def test_another_node_can_take_over(self, tools):
        member, seen = look(tools)
        assert member.spare(seen) is None

    def test_nobody_else_is_online(self, tools):
        tools.says("crm_mon", 0, answer("alone.xml"), "")
        member, seen = look(tools)
        assert member.spare(seen) == "Pacemaker has no other node that is online and may run what runs on web1"

    def test_the_other_is_in_standby_or_ours(self, tools):
        tools.says("crm_mon", 0, answer("standby.xml"), "")
        tools.says("crm_node", 0, "web2\n", "")
        member, seen = look(tools, node="web2")
        assert "no other node" in member.spare(seen)
        tools.says("crm_mon", 0, answer("two_nodes.xml"), "")
        tools.says("cibadmin --query --scope", 0, answer("constraints.xml"), "")
        member, seen = look(tools, node="web2")
        assert "no other node" in member.spare(seen)

    def test_what_would_run_nowhere(self, tools):
        """Another node is online, and does not take it now. Pacemaker's own simulation tells that."""
        all_there = "".join(resource(name, "web2") for name in ("r1", "r2", "r3"))
        given = simulates(tools, resource("r1") + resource("r2", "web2") + resource("r3"), all_there)
        member, seen = look(tools)
        assert member.spare(seen) == "without web1, Pacemaker would run this nowhere (crm_simulate): r1, r3"
        ours = '<rsc_location id="graceful-azure-web1" rsc-pattern=".*" node="web1" score="-INFINITY" />'
        assert [text.count(ours) for text in given] == [1, 1]
        passes = ("standby", "fail-count", "graceful-azure-web3")
        assert [[word in text for word in (*passes, "zone")] for text in given] == [[True, True, True, True], [False, False, False, True]]

    def test_what_no_other_node_may_run(self, tools):
        """Waiting would not help."""
        simulates(tools, resource("r2", "web2"), resource("r2", "web2"))
        member, seen = look(tools)
        assert member.spare(seen) is None

    def test_an_offline_node_may_come_back(self, tools):
        node = re.search(r"<node name=\"web2\".*?/>", answer("two_nodes.xml"))[0]
        third = node.replace("web2", "web3").replace('online="true"', 'online="false"')
        tools.says("crm_mon", 0, answer("two_nodes.xml").replace(node, node + third), "")
        simulates(tools, "", resource("r1", "web3"))
        member, seen = look(tools)
        assert member.spare(seen).endswith(": r1")
        first, second = (call for call in tools.calls if call.startswith("crm_simulate"))
        assert "--node-up" not in first and second.endswith(" --node-up web3")

    @pytest.mark.parametrize(
        ("here", "there", "told"),
        [
            (resource("a", "web1", "Promoted"), resource("a", "web2", "Unpromoted"), "a (promoted)"),
            (resource("a", "web1", "Master"), resource("a", "web2", "Slave"), "a (promoted)"),
            (resource("a", "web1", "Promoted"), resource("a", "web2", "Promoted"), None),
            (resource("a", "web1", "Promoted"), resource("a"), "a"),
            # The copies of a clone that are told apart, and those of a bundle.
            (resource("a:0", "web1"), resource("a:1", "web2"), None),
            (
                f"<bundle id='b'><replica>{resource('a-0', 'web1')}</replica></bundle>",
                f"<bundle id='b'><replica>{resource('a-1', 'web2')}</replica></bundle>",
                None,
            ),
            (f"<group id='g'>{resource('a', 'web1')}</group>", f"<group id='g'>{resource('a')}</group>", "a"),
            # A fence device works without being started, and what is not managed is not moved.
            (resource("a", "web1", agent="stonith:fence_azure_arm"), "", None),
            (resource("a", "web1", managed="false"), "", None),
        ],
    )
    def test_what_counts_as_running(self, tools, here, there, told):
        tools.says("crm_mon", 0, status_with(here), "")
        simulates(tools, there, here.replace("web1", "web2"))
        member, seen = look(tools)
        assert member.spare(seen) == (told and f"without web1, Pacemaker would run this nowhere (crm_simulate): {told}")

    @pytest.mark.parametrize(
        ("call", "said", "told"),
        [
            (
                "crm_simulate",
                MemberError("The program crm_simulate is not installed, or not in the PATH."),
                "The program crm_simulate is not installed, or not",
            ),
            ("crm_simulate", (1, "", "crm_simulate: Could not parse it\n"), "`crm_simulate` failed: crm_simulate: Could not parse it"),
            ("cibadmin --query", (1, "", "Connection to the CIB manager failed\n"), "`cibadmin --query` failed: Connection to the CIB manager failed"),
            ("cibadmin --query", (0, "<cib/>", ""), "`cibadmin --query` told no configuration"),
        ],
    )
    def test_what_nobody_can_simulate(self, tools, call, said, told):
        member, seen = look(tools)
        tools.answers[call] = said
        assert member.spare(seen).startswith(f"nothing tells whether other nodes would run what runs on web1: {told}")

    def test_without_quorum(self, tools):
        tools.says("crm_mon", 0, answer("two_nodes.xml").replace('with_quorum="true"', 'with_quorum="false"'), "")
        member, seen = look(tools)
        assert member.spare(seen) == "the cluster has no quorum"

    def test_its_vote_is_needed(self, tools):
        tools.says("corosync-quorumtool", 0, answer("quorum.txt").replace("Quorum:           1", "Quorum:           2"), "")
        member, seen = look(tools)
        assert member.spare(seen) == "without web1 the cluster would lose its quorum: it has 2 votes and needs 2"

    def test_the_vote_of_a_node_that_somebody_else_took_out(self, tools):
        """A node in standby votes. Nothing runs there that another one would have to take."""
        tools.says("crm_mon", 0, answer("standby.xml"), "")
        member, seen = look(tools)
        assert seen.foreign and member.still_needed(seen) is None
        tools.says("corosync-quorumtool", 0, answer("quorum.txt").replace("Quorum:           1", "Quorum:           2"), "")
        assert member.still_needed(seen) == "without web1 the cluster would lose its quorum: it has 2 votes and needs 2"
        tools.says("crm_mon", 0, answer("standby.xml").replace('with_quorum="true"', 'with_quorum="false"'), "")
        member, seen = look(tools)
        assert member.still_needed(seen) == "the cluster has no quorum"

    @pytest.mark.parametrize(("votes", "needed", "stays"), [(1, 2, True), (2, 2, True), (1, 1, False)])
    def test_a_node_that_is_out_for_another_event_counts_as_gone(self, tools, votes, needed, stays):
        """It votes until it is rebooted. Nobody else may go meanwhile, also if another run has taken it out."""
        node = re.search(r"<node name=\"web2\".*?(?:/>|</node>)", answer("two_nodes.xml"), re.DOTALL)[0]
        tools.says("crm_mon", 0, answer("two_nodes.xml").replace(node, node + node.replace("web2", "web3").replace('id="2"', 'id="3"')), "")
        tools.says("cibadmin --query --scope", 0, answer("constraints.xml").replace("web1", "web3"), "")
        said = (
            answer("quorum.txt").replace("Total votes:      2", f"Total votes:      {2 + votes}").replace("Quorum:           1", f"Quorum:           {needed}")
        )
        tools.says("corosync-quorumtool", 0, f"{said.rstrip()}\n         3          {votes} web3\n", "")
        member, seen = look(tools)
        told = f"without web1 and web3, which is out already, the cluster would lose its quorum: it has {2 + votes} votes and needs {needed}"
        assert member.spare(seen) == (told if stays else None)

    @pytest.mark.parametrize("line", ["3          2 web3.example.com", "3          2 10.0.0.6", "7          2 10.0.0.6"])
    def test_the_votes_of_a_node_that_corosync_calls_otherwise(self, tools, line):
        """It has two, and not one. Where it is not found at all, it may have as many as any other."""
        node = re.search(r"<node name=\"web2\".*?(?:/>|</node>)", answer("two_nodes.xml"), re.DOTALL)[0]
        tools.says("crm_mon", 0, answer("two_nodes.xml").replace(node, node + node.replace("web2", "web3").replace('id="2"', 'id="3"')), "")
        tools.says("cibadmin --query --scope", 0, answer("constraints.xml").replace("web1", "web3"), "")
        said = answer("quorum.txt").replace("Total votes:      2", "Total votes:      4").replace("Quorum:           1", "Quorum:           2")
        tools.says("corosync-quorumtool", 0, f"{said.rstrip()}\n         {line}\n", "")
        member, seen = look(tools)
        assert member.spare(seen) == "without web1 and web3, which is out already, the cluster would lose its quorum: it has 4 votes and needs 2"

    def test_votes_that_nobody_tells(self, tools):
        """They are no reason to go."""
        tools.says("corosync-quorumtool", MemberError("The program corosync-quorumtool is not installed, or not in the PATH."))
        member, seen = look(tools)
        assert member.spare(seen) == (
            "nothing tells whether the cluster needs the vote of web1: The program corosync-quorumtool is not installed, or not in the PATH"
        )
        tools.says("corosync-quorumtool", 1, "", "Cannot initialize QUORUM service\n")
        assert member.spare(seen) == "corosync-quorumtool does not tell whether the cluster needs the vote of web1: Cannot initialize QUORUM service"

    def test_a_cluster_without_votes(self, tools):
        tools.says("corosync-quorumtool", 0, answer("quorum.txt").split("Votequorum")[0], "")
        member, seen = look(tools)
        assert member.spare(seen) is None

    def test_a_remote_node_has_no_vote(self, tools):
        tools.says("crm_mon", 0, answer("two_nodes.xml").replace('type="member"', 'type="remote"'), "")
        tools.says("corosync-quorumtool", MemberError("The program corosync-quorumtool is not installed, or not in the PATH."))
        member, seen = look(tools)
        assert member.spare(seen) is None

    def test_a_node_with_several_votes(self, tools):
        said = answer("quorum.txt").replace("Total votes:      2", "Total votes:      3").replace("Quorum:           1", "Quorum:           2")
        tools.says("corosync-quorumtool", 0, said, "")
        member, seen = look(tools)
        assert member.spare(seen) is None
        tools.says("corosync-quorumtool", 0, said.replace("1 web1 (local)", "2 web1 (local)"), "")
        assert member.spare(seen) == "without web1 the cluster would lose its quorum: it has 3 votes and needs 2"


class TestChange:
    def test_out_and_back(self, tools):
        member, seen = look(tools)
        member.out(seen)
        constraint = '<rsc_location id="graceful-azure-web1" rsc-pattern=".*" node="web1" score="-INFINITY"/>'
        assert tools.calls[-1] == f"cibadmin --modify --allow-create --scope constraints --xml-text {constraint}"
        member.back(seen, seen.state)
        assert tools.calls[-1] == "cibadmin --delete --xpath //rsc_location[@id='graceful-azure-web1']"

    def test_the_constraint_tells_its_events(self, tools):
        member, seen = look(tools)
        member.event_ids = ("602d9444-d2cd", "a b", "my.id")
        member.out(seen)
        assert 'id="graceful-azure-web1.602d9444-d2cd..my.id" rsc-pattern' in tools.calls[-1]
        entries = "".join(
            f'<rsc_location id="graceful-azure-{name}" rsc-pattern=".*" node="{node}" score="-INFINITY"/>'
            for name, node in (("web1.602d9444-d2cd..my.id", "web1"), ("web1.example", "web1.example"), ("web1-2", "web1"))
        )
        tools.says("cibadmin --query --scope", 0, f"<constraints>{entries}</constraints>", "")
        seen = member.look()
        assert seen.ours and seen.events == ("602d9444-d2cd", "my.id")
        calls = len(tools.calls)
        member.out(seen)
        assert len(tools.calls) == calls, "it is there already"
        member.back(seen, seen.state)
        assert tools.calls[calls:] == ["cibadmin --delete --xpath //rsc_location[@id='graceful-azure-web1.602d9444-d2cd..my.id']"]

    def test_a_refusal(self, tools):
        member, seen = look(tools)
        tools.says("cibadmin --modify", 13, "", "Call cib_modify failed (-13): Permission denied\n")
        with pytest.raises(MemberError, match=r"`cibadmin --modify` failed: Call cib_modify failed \(-13\): Permission denied."):
            member.out(seen)

    @pytest.mark.parametrize("agent", ["azure-events-az", "azure-events"])
    def test_beside_an_agent_that_approves_events(self, tools, agent):
        resource = f'<resources><resource id="health" resource_agent="ocf:heartbeat:{agent}"/>'
        tools.says("crm_mon", 0, answer("two_nodes.xml").replace("<resources>", resource), "")
        member, seen = look(tools)
        with pytest.raises(MemberError, match="The cluster has the resource health, which handles scheduled events itself"):
            member.out(seen)


class TestFaults:
    def test_a_cluster_that_does_not_run(self, tools):
        tools.says("crm_mon", 102, answer("stopped.xml"), "")
        with pytest.raises(MemberError, match="`crm_mon` cannot ask the cluster: crm_mon: Connection to cluster failed: Connection refused."):
            look(tools)
        tools.says("crm_node", 102, "", "error: Could not connect to controller: Connection refused\n")
        with pytest.raises(MemberError, match="`crm_node --name` does not tell the name of this node: error: Could not connect"):
            look(tools)

    @pytest.mark.parametrize("said", ["", "nonsense", "<a/>", answer("two_nodes.xml")[:500]])
    def test_nonsense(self, tools, said):
        tools.says("crm_mon", 0, said, "")
        with pytest.raises(MemberError, match="`crm_mon`"):
            look(tools)
        tools.says("crm_mon", 0, answer("two_nodes.xml"), "")
        tools.says("cibadmin --query --scope", 0, "nonsense", "")
        with pytest.raises(MemberError, match="`cibadmin --query --scope constraints` failed: nonsense"):
            look(tools)

    @pytest.mark.parametrize("node", ["a b", "x'] | //*['", "-x", ""])
    def test_a_name_that_is_none(self, node):
        (mistake,) = check_options(Pacemaker, {"node": node})[1]
        assert mistake[0] == "node" and "is no name of a node" in mistake[1]
