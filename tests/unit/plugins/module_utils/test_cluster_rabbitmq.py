# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node of RabbitMQ, with what RabbitMQ 3.10.8 answered (C(rabbitmq_answers))."""

from __future__ import annotations

import json
import pathlib

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._cluster import MemberError, check_options
from ansible_collections.graceful.azure.plugins.module_utils._cluster_rabbitmq import LEADERS, RabbitMQ

from tests.support.cluster import ScriptedTools

ANSWERS = pathlib.Path(__file__).parent / "rabbitmq_answers"
STATUS = "rabbitmq-diagnostics --formatter json status"
CLUSTER = "rabbitmqctl --formatter json cluster_status"
QUORUM = "rabbitmq-diagnostics --formatter json check_if_node_is_quorum_critical"
MIRROR = "rabbitmq-diagnostics --formatter json check_if_node_is_mirror_sync_critical"
EVAL = f"rabbitmqctl eval {LEADERS}"
# What is read of the status.
NEEDED = ("listeners", "totals", "is_under_maintenance", "pid")
STOPPED = """Error: this command requires the 'rabbit' app to be running on the target node. Start it with 'rabbitmqctl start_app'.
Arguments given:
\t--formatter json status
"""
UNREACHABLE = """Error: unable to perform an operation on node 'rabbit@web1'. Please see diagnostics information and suggestions below.

Most common reasons for this are:
"""


def answer(name):
    return (ANSWERS / name).read_text()


def changed(name, **changes):
    return json.dumps(dict(json.loads(answer(name)), **changes))


class Tools(ScriptedTools):
    """C(open): the ports that take connections."""

    open = ()
    tried = ()

    def accepts(self, host, port):
        self.tried = [*self.tried, (host, port)]
        return port in self.open


@pytest.fixture(name="tools")
def make_tools():
    tools = Tools()
    tools.says(STATUS, 0, answer("serving.json"), "")
    tools.says(CLUSTER, 0, answer("cluster.json"), "")
    tools.says(QUORUM, 0, answer("quorum_ok.json"), "")
    tools.says(MIRROR, 0, answer("quorum_ok.json"), "")
    tools.says(EVAL, 0, "0\n", "")
    return tools


def look(tools, **options):
    member = RabbitMQ(options, tools)
    return member, member.look()


def spare(tools):
    member, seen = look(tools)
    return member.spare(seen)


class TestTheOptionNode:
    """A wrong name would put another machine's node into maintenance mode."""

    def look(self, tools, host, there, name="web1\n", own="10.0.0.4 fd00::4 \n"):
        tools.says("rabbitmq-diagnostics --node", 0, answer("serving.json"), "")
        tools.says("hostname", 0, name, "")
        tools.says("hostname --all-ip-addresses", 0, own, "")
        tools.says("getent ahosts", 0 if there else 2, there, "")
        return look(tools, node=f"rabbit@{host}")[1].member

    def test_that_of_another_machine(self, tools):
        told = "^The node rabbit@web2 is on 10.0.0.5, fd00::5, which is no address of this machine .web1.. See whether the option node is right.$"
        with pytest.raises(MemberError, match=told):
            self.look(tools, "web2", "10.0.0.5  STREAM web2\n10.0.0.5  DGRAM\nfd00::5  STREAM web2\n")
        assert not any("rabbitmq" in call for call in tools.calls)

    @pytest.mark.parametrize(
        ("host", "more"),
        [
            ("WEB1.example.com", {"there": "10.9.9.9  STREAM web1\n"}),
            ("localhost", {"there": "10.9.9.9  STREAM x\n"}),
            ("mq", {"there": "fd00:0::4  STREAM mq\n"}),
            ("mq", {"there": "127.0.1.1  STREAM mq\n"}),
            # Nobody tells where it is.
            ("mq", {"there": ""}),
            ("mq", {"there": "10.9.9.9  STREAM mq\n", "own": ""}),
        ],
    )
    def test_its_own(self, tools, host, more):
        assert self.look(tools, host, **more) == f"rabbit@{host}"


class TestLook:
    def test_a_node_that_serves(self, tools):
        _member, seen = look(tools)
        assert (seen.member, seen.ours, seen.serves, seen.foreign) == ("rabbit@web1", False, True, None)
        assert seen.left == "rabbit@web1 is not in maintenance mode"
        assert seen.state == {"maintenance": False, "connections": 0} and tools.calls == [STATUS]

    def test_a_node_in_maintenance_mode_may_be_anybody_s(self, tools):
        tools.says(STATUS, 0, answer("drained.json"), "")
        _member, seen = look(tools)
        assert (seen.ours, seen.serves, seen.left) == (True, False, None)
        assert seen.foreign == "The node rabbit@web1 is in maintenance mode already."
        # RabbitMQ lists the listeners all the same, so they are tried: those of clients, and not that of the nodes.
        assert tools.tried == [("127.0.0.1", 5672), ("127.0.0.1", 61613), ("::1", 15672), ("127.0.0.1", 15672)]

    def test_a_listener_of_all_addresses_where_the_host_has_no_ipv6(self, tools):
        """With the sysctl disable_ipv6 nothing leads to ::1, and a listener at :: goes on taking connections over IPv4."""
        tools.says(STATUS, 0, answer("drained.json"), "")
        tools.accepts = lambda host, port: (host, port) == ("127.0.0.1", 15672)
        assert look(tools)[1].left == "rabbit@web1 still takes client connections at port 15672"

    def test_what_is_left(self, tools):
        tools.says(STATUS, 0, changed("drained.json", totals={"connection_count": 1}), "")
        assert look(tools)[1].left == "1 client connection to rabbit@web1"
        tools.says(STATUS, 0, changed("drained.json", totals={"connection_count": 3}), "")
        assert look(tools)[1].left == "3 client connections to rabbit@web1"
        tools.says(STATUS, 0, answer("drained.json"), "")
        tools.open = (5672,)
        assert look(tools)[1].left == "rabbit@web1 still takes client connections at port 5672"
        tools.open = ()
        tools.says(EVAL, 0, "1\n", "")
        assert look(tools)[1].left == "1 quorum queue is still led by rabbit@web1"
        tools.says(EVAL, 0, "12\n", "")
        assert look(tools)[1].left == "12 quorum queues are still led by rabbit@web1"

    def test_a_restart_of_rabbitmq_is_told_apart(self, tools):
        member, _seen = look(tools)
        before = member.life("boot")
        assert before.startswith("boot, process ") and member.life("another") != before
        tools.says(STATUS, 0, changed("serving.json", pid=4711), "")
        member, _seen = look(tools)
        assert member.life("boot") == "boot, process 4711"

    def test_another_name(self, tools):
        tools.says("rabbitmq-diagnostics --formatter json status", 64, "", STOPPED)
        tools.says("rabbitmq-diagnostics --node bunny@web1 --formatter json status", 0, answer("serving.json"), "")
        assert look(tools, node="bunny@web1")[1].member == "bunny@web1"
        long = "rabbitmq-diagnostics --node rabbit@web1.example.com --longnames --formatter json status"
        tools.says(long, 0, answer("serving.json"), "")
        look(tools, node="rabbit@web1.example.com")
        assert tools.calls[-1] == long


class TestSpare:
    def test_the_others_serve(self, tools):
        assert spare(tools) is None
        assert tools.calls == [STATUS, CLUSTER, QUORUM, MIRROR]

    def test_another_is_in_maintenance_mode(self, tools):
        told = json.loads(answer("cluster_drained.json"))["maintenance_status"]
        states = {"rabbit@web1": "not under maintenance", "rabbit@web2": told["rabbit@web1"], "rabbit@web3": "not under maintenance"}
        tools.says(CLUSTER, 0, changed("cluster.json", maintenance_status=states), "")
        assert spare(tools) == "without rabbit@web1, 1 of the 3 nodes of the cluster would serve, and 2 are needed"

    def test_a_node_that_somebody_else_took_out_has_its_copies_of_the_queues(self, tools):
        tools.says(STATUS, 0, answer("drained.json"), "")
        member, seen = look(tools)
        assert seen.foreign and member.still_needed(seen) is None
        tools.says(CLUSTER, 0, changed("cluster.json", running_nodes=["rabbit@web1", "rabbit@web3"]), "")
        assert member.still_needed(seen) == "without rabbit@web1, 1 of the 3 nodes of the cluster would serve, and 2 are needed"

    def test_a_node_that_the_cluster_calls_otherwise(self, tools):
        """It would be counted among those that stay."""
        tools.says(CLUSTER, 0, changed("cluster.json", disk_nodes=["rabbit@web1.example", "rabbit@web2"]), "")
        assert spare(tools) == "the cluster of rabbit@web1 does not have it among its nodes, rabbit@web1.example, rabbit@web2"
        tools.says(CLUSTER, 0, changed("cluster.json", disk_nodes=[]), "")
        assert spare(tools) == "the cluster of rabbit@web1 does not have it among its nodes, of which it tells none"

    def test_another_does_not_run(self, tools):
        tools.says(CLUSTER, 0, changed("cluster.json", running_nodes=["rabbit@web1", "rabbit@web3"]), "")
        assert spare(tools) == "without rabbit@web1, 1 of the 3 nodes of the cluster would serve, and 2 are needed"

    def test_two_nodes(self, tools):
        two = {"disk_nodes": ["rabbit@web1", "rabbit@web2"]}
        tools.says(CLUSTER, 0, changed("cluster.json", **two), "")
        assert spare(tools) is None
        tools.says(CLUSTER, 0, changed("cluster.json", running_nodes=["rabbit@web1"], **two), "")
        assert spare(tools) == "without rabbit@web1, 0 of the 2 nodes of the cluster would serve, and 1 are needed"

    def test_alone_no_waiting_helps(self, tools):
        tools.says(CLUSTER, 0, changed("cluster.json", disk_nodes=["rabbit@web1"], running_nodes=["rabbit@web1"]), "")
        assert spare(tools) is None

    def test_a_split_cluster(self, tools):
        tools.says(CLUSTER, 0, changed("cluster.json", partitions={"rabbit@web1": ["rabbit@web2"]}), "")
        assert spare(tools) == "the cluster of rabbit@web1 is split: its nodes do not see each other"

    def test_rabbitmq_4_has_no_memory_nodes(self, tools):
        told = json.loads(answer("cluster.json"))
        del told["ram_nodes"]
        tools.says(CLUSTER, 0, json.dumps(told), "")
        assert spare(tools) is None

    def test_queues_that_would_lose_their_majority(self, tools):
        # RabbitMQ prints this among the errors.
        tools.says(QUORUM, 69, "", answer("quorum_critical.json"))
        assert spare(tools) == (
            "without rabbit@web1, queues would lose their majority: queue 'q21' in vhost '/', queue 'q00' in vhost 'two', queue 'q11' in vhost 'two' and 9 more"
        )

    def test_mirrors_that_are_not_in_sync(self, tools):
        told = {"message": "", "queues": [{"readable_name": "queue 'm' in vhost '/'", "type": "classic"}], "result": "error"}
        tools.says(MIRROR, 69, "", json.dumps(told))
        assert spare(tools) == "without rabbit@web1, queues have no other mirror in sync: queue 'm' in vhost '/'"
        tools.says(MIRROR, 64, "", "\nCommand 'check_if_node_is_mirror_sync_critical' not found. \n")
        assert spare(tools) is None

    @pytest.mark.parametrize("code, out, err", [(64, "", "Command 'x' not found."), (69, "", ""), (69, '{"queues": 1}', ""), (70, "", '{"queues": []}')])
    def test_a_check_that_does_not_tell(self, tools, code, out, err):
        tools.says(QUORUM, code, out, err)
        with pytest.raises(MemberError, match="^`rabbitmq-diagnostics check_if_node_is_quorum_critical` failed: "):
            spare(tools)


class TestChange:
    def test_out_and_back(self, tools):
        member, seen = look(tools)
        member.out(seen)
        assert tools.calls[-1] == "rabbitmq-upgrade drain"
        member.back(seen, seen.state)
        assert tools.calls[-1] == "rabbitmq-upgrade revive"

    def test_after_it_went_out_the_queues_are_asked_for_together_with_the_state(self, tools):
        member, seen = look(tools)
        member.out(seen)
        tools.says(STATUS, 0, answer("drained.json"), "")
        tools.says(EVAL, 0, "2\n", "")
        del tools.calls[:]
        assert member.look().left == "2 quorum queues are still led by rabbit@web1"
        assert tools.calls == [STATUS, EVAL]
        # What only one of the two tells is not lost: a node that is not drained has left nothing.
        tools.says(STATUS, 0, answer("serving.json"), "")
        assert member.look().left == "rabbit@web1 is not in maintenance mode"
        tools.says(STATUS, 0, answer("drained.json"), "")
        tools.says(EVAL, 69, "", UNREACHABLE)
        with pytest.raises(MemberError, match="^`rabbitmqctl eval` failed: unable to perform an operation on node 'rabbit@web1'. Please see"):
            member.look()

    def test_a_refusal(self, tools):
        member, seen = look(tools)
        tools.says("rabbitmq-upgrade drain", 69, "", UNREACHABLE)
        with pytest.raises(MemberError, match="^`rabbitmq-upgrade drain` failed: unable to perform an operation on node 'rabbit@web1'. Please see"):
            member.out(seen)


class TestFaults:
    def test_rabbitmq_does_not_run(self, tools):
        tools.says(STATUS, 64, "", STOPPED)
        with pytest.raises(MemberError, match="^`rabbitmq-diagnostics status` failed: this command requires the 'rabbit' app to be running"):
            look(tools)
        tools.says(STATUS, 69, "", UNREACHABLE)
        with pytest.raises(MemberError, match="failed: unable to perform an operation on node 'rabbit@web1'"):
            look(tools)
        tools.says(STATUS, MemberError("`rabbitmq-diagnostics` did not end within 20 seconds."))
        with pytest.raises(MemberError, match="did not end"):
            look(tools)

    @pytest.mark.parametrize("said", ["", "nonsense", "[]", "{}", answer("serving.json")[:300], *(changed("serving.json", **{key: None}) for key in NEEDED)])
    def test_nonsense_about_itself(self, tools, said):
        tools.says(STATUS, 0, said, "")
        with pytest.raises(MemberError, match="^The answer to `rabbitmq-diagnostics status` is not what RabbitMQ says: "):
            look(tools)
        tools.says(STATUS, 0, changed("serving.json", listeners=[{}]), "")
        with pytest.raises(MemberError, match="listeners, totals or the pid are not there"):
            look(tools)

    def test_a_warning_before_the_answer(self, tools):
        tools.says(STATUS, 0, "warning: an old version of Erlang\n" + answer("serving.json"), "")
        assert look(tools)[1].member == "rabbit@web1"

    @pytest.mark.parametrize("said", ["", "{}", changed("cluster.json", maintenance_status=[]), changed("cluster.json", disk_nodes=None)])
    def test_nonsense_about_the_cluster(self, tools, said):
        tools.says(CLUSTER, 0, said, "")
        with pytest.raises(MemberError, match="^The answer to `rabbitmqctl cluster_status` is not what RabbitMQ says: "):
            spare(tools)

    @pytest.mark.parametrize("said", ["", "{error,badarg}", "-1"])
    def test_nonsense_about_the_queues(self, tools, said):
        tools.says(STATUS, 0, answer("drained.json"), "")
        tools.says(EVAL, 0, said, "")
        with pytest.raises(MemberError, match="^The answer to `rabbitmqctl eval` is not what RabbitMQ says: "):
            look(tools)

    @pytest.mark.parametrize("node", ["web1", "a b@web1", "rabbit@", "-n@web1;x", ""])
    def test_a_name_that_is_none(self, node):
        ((option, problem),) = check_options(RabbitMQ, {"node": node})[1]
        assert option == "node" and "is no name of a node; write it like rabbit@web1" in problem
