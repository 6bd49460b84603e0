# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node of Slurm, with what Slurm 22.05.8 answered."""

from __future__ import annotations

import os

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._cluster import MemberError, check_options
from ansible_collections.graceful.azure.plugins.module_utils._cluster_slurm import Slurm

from tests.support.cluster import ScriptedTools

NODE = (
    "NodeName=web1 Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=2 CPUTot=2 CPULoad=13.22 AvailableFeatures=(null) ActiveFeatures=(null)"
    " Gres=(null) NodeAddr=10.99.0.2 NodeHostName=web1 Version=22.05.8 OS=Linux 6.1.0 #1 SMP PREEMPT_DYNAMIC @0  RealMemory=1 AllocMem=0"
    " FreeMem=15972 Sockets=2 Boards=1 State=%s ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=main "
    " BootTime=2026-11-24T20:12:54 SlurmdStartTime=2026-11-25T00:22:10 LastBusyTime=2026-11-25T00:22:10 CfgTRES=cpu=2,mem=1M,billing=2 AllocTRES="
    " CapWatts=n/a CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s%s\n"
)
OURS = " Reason=graceful.azure: Azure scheduled event [root@2026-11-25T00:22:13]"
DRAIN = "scontrol update nodename=web1 state=drain reason=graceful.azure: Azure scheduled event"


class Tools(ScriptedTools):
    def node(self, state, reason=""):
        self.says("scontrol show node", 0, NODE % (state, reason), "")


@pytest.fixture(name="tools")
def make_tools():
    tools = Tools()
    tools.node("IDLE")
    tools.says("squeue", 0, "", "")
    return tools


def look(tools, **options):
    member = Slurm(dict({"node": "web1", "requeue": False}, **options), tools)
    return member, member.look()


class TestLook:
    def test_a_node_that_serves(self, tools):
        _member, seen = look(tools)
        assert seen == ("web1", False, True, None, None, {"state": "IDLE", "reason": "", "jobs": 0}, ())

    def test_the_name_of_the_host(self, tools, monkeypatch):
        monkeypatch.setattr(os, "uname", lambda: type("Uname", (), {"nodename": "web1.example.com"}))
        assert look(tools, node=None)[1].member == "web1"

    @pytest.mark.parametrize(("said", "left"), [("1 RUNNING\n", "1 job runs on web1"), ("1 RUNNING\n2 COMPLETING\n3 PENDING\n", "2 jobs run on web1")])
    def test_jobs(self, tools, said, left):
        tools.node("MIXED")
        tools.says("squeue", 0, said, "")
        assert look(tools)[1].left == left

    def test_jobs_that_this_user_may_not_see(self, tools):
        tools.says("scontrol show node", 0, (NODE % ("MIXED+DRAIN", OURS)).replace("CPUAlloc=0", "CPUAlloc=2"), "")
        assert look(tools)[1].left == "2 CPUs of web1 are allocated, and squeue shows no job there. See whether this user may see all jobs"
        tools.says("squeue", 0, "1 RUNNING\n", "")
        assert look(tools)[1].left == "1 job runs on web1"

    @pytest.mark.parametrize("state", ["IDLE+DRAIN", "MIXED+DRAIN", "DOWN+DRAIN", "DOWN+DRAIN+NOT_RESPONDING", "DOWN*+DRAIN"])
    def test_ours(self, tools, state):
        tools.node(state, OURS)
        _member, seen = look(tools)
        assert (seen.ours, seen.serves, seen.foreign) == (True, False, None) and seen.state["reason"] == "graceful.azure: Azure scheduled event"
        assert seen.events == ()
        tools.node(state, OURS.replace("event [", "event (A, my.id) ["))
        assert look(tools)[1].events == ("A", "my.id")

    @pytest.mark.parametrize("after", [" ReservationName=maint_1", " Comment=new disk [sda] Extra=rack 7 InstanceId=i-1 InstanceType=big ReservationName=x"])
    def test_what_may_follow_the_reason(self, tools, after):
        """The mark tells its events also where Slurm tells more of the node behind it."""
        tools.node("IDLE+DRAIN", OURS.replace("event [", "event (A, my.id) [") + after)
        _member, seen = look(tools)
        assert (seen.ours, seen.events) == (True, ("A", "my.id")) and seen.state["reason"] == "graceful.azure: Azure scheduled event (A, my.id)"
        tools.node("IDLE+DRAIN", " Reason=disk [sda] is broken [root@2026-11-25T00:22:18]" + after)
        assert look(tools)[1].foreign.endswith("graceful.azure (disk [sda] is broken).")

    def test_somebody_else_s(self, tools):
        tools.node("IDLE+DRAIN", " Reason=disk [sda] is broken [root@2026-11-25T00:22:18]")
        _member, seen = look(tools)
        assert (seen.ours, seen.serves) == (False, False)
        assert seen.foreign == "Slurm has the node web1 as IDLE+DRAIN, and not because of graceful.azure (disk [sda] is broken)."

    def test_the_node_of_another_machine(self, tools):
        """It would be drained, and the host with it never."""
        tools.says("scontrol show slurmd", 0, "Actual CPUs              = 2\nHostname                 = web2\nSlurmd PID               = 28\n", "")
        with pytest.raises(
            MemberError, match="^The slurmd of this machine runs on web2, and that of the node web1 on web1. See whether the option node is right.$"
        ):
            look(tools)
        assert "scontrol update" not in " ".join(tools.calls)

    @pytest.mark.parametrize(
        ("code", "said"),
        [(0, "Hostname                 = WEB1.example.com\n"), (1, ""), (0, "nothing that is known\n")],
    )
    def test_its_own_node_and_a_machine_whose_slurmd_is_silent(self, tools, code, said):
        tools.says("scontrol show slurmd", code, said, "")
        assert look(tools)[1].member == "web1"

    @pytest.mark.parametrize("state", ["DOWN", "DOWN*", "DOWN+NOT_RESPONDING"])
    def test_a_node_that_is_down(self, tools, state):
        tools.node(state)
        assert look(tools)[1].foreign == f"Slurm has the node web1 as {state}, and not because of graceful.azure."


class TestChange:
    def test_out(self, tools):
        member, seen = look(tools)
        assert member.spare(seen) is None
        member.out(seen)
        assert tools.calls[-1] == DRAIN

    def test_jobs_are_requeued_if_that_is_wanted(self, tools):
        tools.says("squeue", 0, "7 RUNNING\n8 RUNNING\n", "")
        member, seen = look(tools, requeue=True)
        tools.says("scontrol requeue 7", 1, "", "Requested operation is presently disabled for job 7\n")
        member.out(seen)
        assert tools.calls[-4:] == [DRAIN, "squeue --noheader --nodelist=web1 --format=%A %T", "scontrol requeue 7", "scontrol requeue 8"]

    def test_a_run_that_was_killed_goes_on_with_the_jobs(self, tools):
        tools.node("MIXED+DRAIN", OURS)
        tools.says("squeue", 0, "7 RUNNING\n", "")
        member, seen = look(tools, requeue=True)
        member.out(seen)
        assert DRAIN not in tools.calls and tools.calls[-1] == "scontrol requeue 7"

    def test_back(self, tools):
        tools.node("DOWN+DRAIN", OURS)
        member, seen = look(tools)
        member.back(seen, {})
        assert tools.calls[-1] == "scontrol update nodename=web1 state=resume"

    def test_a_node_that_still_boots_is_not_resumed(self, tools):
        tools.node("DOWN+DRAIN+NOT_RESPONDING", OURS)
        member, seen = look(tools)
        with pytest.raises(MemberError, match="The slurmd of the node web1 does not respond to the controller yet."):
            member.back(seen, {})

    def test_a_refusal(self, tools):
        member, seen = look(tools)
        tools.says("scontrol update", 1, "", "slurm_update error: Invalid user id\n")
        with pytest.raises(MemberError, match="`scontrol update nodename=web1` failed: slurm_update error: Invalid user id."):
            member.out(seen)


class TestFaults:
    @pytest.mark.parametrize(
        ("answer", "said"),
        [
            ((1, "Node web9 not found\n", ""), "`scontrol show node` failed: Node web9 not found."),
            ((1, "", "slurm_load_node error: Unable to contact slurm controller (connect failure)\n"), "Unable to contact slurm controller"),
            ((0, "", ""), "`scontrol show node web1` told no state: nothing."),
            ((0, "nonsense", ""), "`scontrol show node web1` told no state: nonsense."),
            ((0, NODE.replace("web1", "web2") % ("IDLE", ""), ""), "told no state"),
        ],
    )
    def test_scontrol(self, tools, answer, said):
        tools.says("scontrol show node", *answer)
        with pytest.raises(MemberError) as error:
            look(tools)
        assert said in str(error.value)

    def test_a_node_that_nobody_knows_is_told_with_those_that_there_are(self, tools):
        tools.says("scontrol show node --oneliner", 0, "NodeName=web1 Arch=x86_64\nNodeName=web2 Arch=x86_64\n", "")
        tools.says("scontrol show node web", 1, "Node web1 not found\n", "")
        with pytest.raises(MemberError, match=r"Node web1 not found\. There are web1, web2\. Set the option node\."):
            look(tools)

    def test_squeue(self, tools):
        tools.says("squeue", 0, "what is this\n", "")
        with pytest.raises(MemberError, match="`squeue --nodelist=web1` told no list of jobs: what is this."):
            look(tools)

    @pytest.mark.parametrize("node", ["a b", "web[1-3]", "-x", "", "ALL,"])
    def test_a_name_that_is_none(self, node):
        (mistake,) = check_options(Slurm, {"node": node})[1]
        assert mistake[0] == "node" and "is no name of a single node" in mistake[1]
