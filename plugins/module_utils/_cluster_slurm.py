# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node of Slurm that runs jobs. It is drained: no new job comes, and those that run go on. The reason of the drain tells whose it is."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._cluster import (
    OWNER,
    Member,
    MemberError,
    SeenMember,
    ids_in,
    last_line,
    runs,
    short_name,
    with_ids,
)
from ansible_collections.graceful.azure.plugins.module_utils._spellings import MOST_NAMED, NAME, NAME_IS_OF

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

REASON = "%s: Azure scheduled event" % OWNER
# Slurm waits for its controller for 10 seconds by default, and then says so.
SECONDS = 15.0
# Base states of a node that gets no jobs, whoever set them.
DOWN = ("DOWN", "ERROR", "FUTURE", "UNKNOWN")


class Slurm(Member):
    type = "slurm"
    title = "Slurm"
    bears_name = True
    options = {"node": {"type": "str"}, "requeue": {"type": "bool", "default": False}}
    # Jobs may run for hours, and the queue goes on with the other nodes.
    one_by_one = False

    @classmethod
    def mistakes(cls, options: dict[str, Any]) -> Iterator[tuple[str, str]]:
        node = options.get("node")
        if node is not None and not NAME.match(node):
            yield "node", "%r is no name of a single node; %s" % (node, NAME_IS_OF)

    def look(self) -> SeenMember:
        node = self.options.get("node") or os.uname().nodename.split(".")[0]
        told = self._show(node)
        state = re.search(r" State=(\S+)", told)
        if not told.startswith("NodeName=%s " % node) or state is None:
            raise MemberError("`scontrol show node %s` told no state: %s." % (node, told.strip()[:200] or "nothing"))
        self._check_machine(node, told)
        # In some versions a star marks a node that does not respond.
        flags = [flag.rstrip("*~#!%$@^-") for flag in state[1].split("+")]
        # Who set it and when follows, and perhaps what else the node has, such as a comment or a reservation.
        noted = re.search(r" Reason=(.*?)(?: \[[^\[\]@\s]+@[^\[\]]*\](?: .*)?|\s*)$", told, re.DOTALL)
        reason = noted[1] if noted else ""
        jobs = self._jobs(node)
        is_drained = any(flag in ("DRAIN", "DRAINED", "DRAINING") for flag in flags)
        ours = is_drained and reason.startswith(OWNER)
        foreign = None
        if not ours and (is_drained or flags[0] in DOWN):
            foreign = "Slurm has the node %s as %s, and not because of %s%s." % (node, state[1], OWNER, " (%s)" % reason if reason else "")
        left = "%s on %s" % (runs(len(jobs), "job"), node) if jobs else None
        allocated = re.search(r" CPUAlloc=(\d+)", told)
        if not jobs and allocated and int(allocated[1]):
            # With PrivateData=jobs, squeue shows other users' jobs to operators alone.
            left = "%s CPUs of %s are allocated, and squeue shows no job there. See whether this user may see all jobs" % (allocated[1], node)
        self._responds = "NOT_RESPONDING" not in flags and "*" not in state[1]
        return SeenMember(
            node, ours, not (ours or foreign), foreign, left, {"state": state[1], "reason": reason, "jobs": len(jobs)}, ids_in(reason) if ours else ()
        )

    def out(self, seen: SeenMember) -> None:
        if not seen.ours:
            self._run("scontrol", "update", "nodename=%s" % seen.member, "state=drain", "reason=%s" % with_ids(REASON, self.event_ids))
        for job in self._jobs(seen.member) if self.options["requeue"] else ():
            # Whether a job may be requeued is the job's to say. Those that may not are what is left.
            self.tools.run(["scontrol", "requeue", job], SECONDS)

    def back(self, seen: SeenMember, found: dict[str, Any]) -> None:
        if not self._responds:
            raise MemberError("The slurmd of the node %s does not respond to the controller yet." % seen.member)
        self._run("scontrol", "update", "nodename=%s" % seen.member, "state=resume")

    def _check_machine(self, node: str, told: str) -> None:
        """A wrong name would drain another machine's node and leave ours. ``told``: what Slurm says of the node.

        The slurmd of this machine tells its host name, and the controller that of the node's slurmd.
        """
        there = re.search(r" NodeHostName=(\S+)", told)
        code, out, _err = self.tools.run(["scontrol", "show", "slurmd"], SECONDS) if self.options.get("node") else (1, "", "")
        here = None if code else re.search(r"^Hostname\s*= *(\S+)", out, re.MULTILINE)
        if there and here and short_name(there[1]) != short_name(here[1]):
            raise MemberError(
                "The slurmd of this machine runs on %s, and that of the node %s on %s. See whether the option node is right." % (here[1], node, there[1])
            )

    def _show(self, node: str) -> str:
        try:
            return self._run("scontrol", "show", "node", node, "--oneliner")
        except MemberError as error:
            code, out, _err = self.tools.run(["scontrol", "show", "node", "--oneliner"], SECONDS) if "not found" in str(error) else (1, "", "")
            names = [] if code else re.findall(r"^NodeName=(\S+)", out, re.MULTILINE)
            if not names:
                raise
            raise MemberError("%s There are %s. Set the option node." % (error, ", ".join(names[:MOST_NAMED]))) from None

    def _jobs(self, node: str) -> list[str]:
        """The jobs that have the node."""
        told = self._run("squeue", "--noheader", "--nodelist=%s" % node, "--format=%A %T")
        jobs = [line.split() for line in told.splitlines() if line.strip()]
        if not all(len(job) == 2 and job[0].isdigit() for job in jobs):
            raise MemberError("`squeue --nodelist=%s` told no list of jobs: %s." % (node, told.strip()[:200]))
        return [number for number, state in jobs if state != "PENDING"]

    def _run(self, *argv: str) -> str:
        code, out, err = self.tools.run(list(argv), SECONDS)
        if code:
            raise MemberError("`%s` failed: %s." % (" ".join(argv[:3]), last_line(err or out, code)))
        return out
