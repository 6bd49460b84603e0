# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A Slurm cluster in namespaces of this machine: a controller and nodes that run jobs."""

from __future__ import annotations

from tests.support.meanwhile import Meanwhile
from tests.support.nodes import Nodes, needs
from tests.support.patience import until

PROGRAMS = ("scontrol", "squeue")
NEEDS = needs("slurmctld", "slurmd", "munged", *PROGRAMS, packages="slurmctld slurmd slurm-client munge")
FOLDERS = ("/etc/slurm", "/etc/munge", "/var/lib/munge", "/var/lib/slurm", "/var/log")
CONFIGURATION = """ClusterName=test
SlurmctldHost=ctl
AuthType=auth/munge
SlurmUser=root
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurmctld.log
SlurmdLogFile=/var/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=1
SlurmdTimeout=10
SchedulerParameters=sched_interval=2,batch_sched_delay=0
MpiDefault=none
%s
PartitionName=main Nodes=ALL Default=YES State=UP
"""


class Cluster(Nodes):
    """Nodes web1, web2, ... and the controller ctl, which runs no jobs."""

    def __init__(self, folder, names=("web1", "web2")):
        super().__init__(folder, ["ctl", *names], FOLDERS)
        self.workers = list(names)

    def __enter__(self):
        super().__enter__()
        try:
            for node in self:
                self.start(node)
            until(lambda: all(self.state(name) == "IDLE" for name in self.workers), 60, pause=0.3)
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self, node):
        """Start the daemons of a node."""
        folder = node.folder / node.name
        lines = "".join(f"NodeName={name} NodeAddr={self.nodes[name].address} CPUs=2 RealMemory=1000 State=UNKNOWN\n" for name in self.workers)
        (folder / "0" / "slurm.conf").write_text(CONFIGURATION % lines)
        (folder / "0" / "cgroup.conf").write_text("CgroupAutomount=no\n")
        (folder / "1" / "munge.key").write_bytes(b"graceful.azure: only for tests. " * 4)
        (folder / "1" / "munge.key").chmod(0o400)
        node.must("mkdir", "-p", "/run/munge", "/var/log/munge", "/var/lib/slurm/slurmctld", "/var/lib/slurm/slurmd")
        node.must("chown", "-R", "munge:munge", "/run/munge", "/var/log/munge", "/etc/munge", "/var/lib/munge")
        node.must("chmod", "755", "/run/munge")
        node.must("runuser", "-u", "munge", "--", "munged")
        node.start(*(["slurmctld", "-D"] if node.name == "ctl" else ["slurmd", "-D", "-N", node.name]))

    def state(self, name):
        """The state of a node, as the controller says."""
        said = self["ctl"].run("scontrol", "show", "node", name, "--oneliner").stdout
        return said.partition(" State=")[2].split(" ")[0]

    def reason(self, name):
        """Why a node is drained or down, as the controller says; empty if nobody gave a reason."""
        said = self["ctl"].must("scontrol", "show", "node", name, "--oneliner")
        return said.partition(" Reason=")[2].partition(" [")[0].strip()

    def submit(self, script, *options):
        """Start a job, which runs these commands. Returns its number."""
        return self["ctl"].must("sbatch", "--parsable", "--ntasks=1", "--output=/dev/null", *options, "--wrap", script).strip()

    def jobs(self, *options):
        """Per job its state and its node."""
        lines = self["ctl"].must("squeue", "--noheader", "--format=%A %T %N", *options).splitlines()
        return {line.split()[0]: line.split()[1:] for line in lines}


class Submitter(Meanwhile):
    """A user who submits one short job after the other. Each writes into a file of its own when it begins and when it ends, with the name of its node."""

    def __init__(self, cluster, folder, pause=0.7):
        self.numbers = []
        self._cluster, self._folder, self._pause = cluster, folder, pause
        super().__init__()
        folder.mkdir()

    def submit(self, seconds, *options):
        file = f"{self._folder}/$SLURM_JOB_ID"
        script = f"echo begins on $(hostname) >> {file}; sleep {seconds}; echo ends on $(hostname) >> {file}"
        # A job that is requeued would wait for two minutes.
        self.numbers.append(self._cluster.submit(script, "--no-requeue", *options))
        return self.numbers[-1]

    def _run(self):
        while not self._ends.wait(self._pause):
            self.submit(1)

    def not_done_once(self):
        """What the jobs wrote that were not done exactly once, by their numbers. It waits until no job is left."""
        until(lambda: self._cluster.jobs() == {}, 90)
        written = {number: self._written(number) for number in self.numbers}
        return {number: lines for number, lines in written.items() if [line.split()[0] for line in lines] != ["begins", "ends"]}

    def _written(self, number):
        path = self._folder / number
        return path.read_text().splitlines() if path.exists() else []
