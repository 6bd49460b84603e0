# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The nginx that runs on this machine: its processes, the test of its configuration, and the reload.

No other socket or page tells about it: open-source nginx shows neither its upstreams nor their requests.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import time
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.graceful.azure.plugins.module_utils._nginx_connections import listening
from ansible_collections.graceful.azure.plugins.module_utils._proc import (
    has_same_file,
    namespace,
    parent,
    process_ids,
    read,
    started_ticks,
    stat_fields,
    status_field,
)
from ansible_collections.graceful.azure.plugins.module_utils._timeout import run_limited

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._timeout import RunCommand

TEST_SECONDS = 30
# How long the new workers may take to start. A large configuration takes the master longer: see C(Nginx.reload).
RELOAD_SECONDS = 5.0
LOOK_SECONDS = 0.02
# For how long a worker that was just started may bear the title of its master, and a new master process may have no worker.
NEW_SECONDS = 1.0
# Within so many seconds both clocks are read. A busy machine is given so many tries.
SAME_MOMENT = 0.001
CLOCK_READINGS = 10

MASTER = "nginx: master process "
WORKER = "nginx: worker process"
LEAVING = WORKER + " is shutting down"
# The options of nginx that take a value, which may follow C(-q) in the same word. The title of the process has lost the quotes around the value.
OPTION = re.compile(r"(?:^|\s)-q*([cpeg])\s*(.*?)(?=\s+-q*[cpeg]|\s+-[?hvVtTqs]+(?:\s|$)|\s*$)", re.DOTALL)
# Where the arguments of a process begin and its environment ends, in C(stat_fields).
ARGUMENTS, ENVIRONMENT_END = 45, 48


class Worker(NamedTuple):
    """A worker process."""

    pid: int
    # In ticks of the kernel since the machine booted.
    started: int
    # Whether it is shutting down.
    leaving: bool
    # The process id of its master, and when that started. Nothing is known of one that was killed.
    master: tuple[int, int | None]


class NginxError(Exception):
    """nginx cannot be found or asked, or does not do what it is told; the text is a full sentence."""


class NginxRefused(NginxError):
    """nginx refused a configuration."""


class Nginx:
    """The master process of nginx, found in the list of processes.

    ``configuration``: the main configuration file, or None for the only nginx on this machine. ``run_command``: the method of AnsibleModule.
    """

    def __init__(
        self,
        run_command: RunCommand,
        configuration: str | None = None,
        proc: str = "/proc",
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._run_command = run_command
        self._wanted = configuration
        self._proc = proc
        self._monotonic = monotonic
        self._sleep = sleep
        # The master process. ``find`` finds it.
        self.pid: int
        # Former master processes, whose workers are all shutting down.
        self.former: list[int] = []
        # The configuration files of other nginx on this machine, by their master processes.
        self.others: dict[int, str] = {}
        # Workers that are shutting down and whose master process was killed.
        self._leaving_strays: list[Worker] = []
        self._test_seconds = 0.0

    def find(self) -> Nginx:
        """Find the master process and its configuration file."""
        deadline = self._monotonic() + NEW_SECONDS
        known, mine = self._masters()
        # One that has its own title by now was a new worker when the list was made.
        while any(self._is_new(pid, mine) or not self._title(pid).startswith(MASTER) for pid in mine) and self._monotonic() < deadline:
            self._sleep(LOOK_SECONDS)
            known, mine = self._masters()
        self.pid = self._one_that_serves(mine, known)
        self.former = [pid for pid in mine if pid != self.pid]
        self.others = {pid: configuration for pid, configuration in known.items() if pid not in mine}
        self.started = started_ticks(self.pid, self._proc)
        self.configuration = known[self.pid]
        self.arguments = arguments(self._title(self.pid)[len(MASTER) :])
        if "p" in self.arguments:
            self.arguments["p"] = self._from_its_folder(self.pid, self.arguments["p"])
        strays = self._strays()
        while strays and self._monotonic() < deadline:
            self._sleep(LOOK_SECONDS)
            strays = self._strays()
        if strays:
            raise NginxError(
                "Worker process %d of nginx has no master process any more, which was killed. It goes on with what that one had loaded, and takes requests"
                " on a port of process %d. End it (kill -QUIT %d)." % (strays[0].pid, self.pid, strays[0].pid)
            )
        return self

    def _strays(self) -> list[Worker]:
        """Workers without a master process that take requests on a port of ours, as C(reuseport) lets them. They never load anything again."""
        found = self._without_master()
        workers = [worker for worker in found if not worker.leaving]
        self._leaving_strays = [worker for worker in found if worker.leaving]
        ours = listening(self.pid, self._proc) if workers else set()
        theirs = [listening(worker.pid, self._proc) for worker in workers]
        return [worker for worker, ports in zip(workers, theirs) if ours is None or ports is None or ours & ports]

    def _without_master(self) -> list[Worker]:
        """The workers whose master process was killed. Those of containers do not count."""
        found = []
        for pid in pids(self._proc):
            title = self._title(pid)
            if not title.startswith(WORKER) or not self._has_our_program(pid):
                continue
            master, since = parent(pid, self._proc), started_ticks(pid, self._proc)
            if master is not None and since is not None and not self._title(master).startswith(MASTER.strip()):
                found.append(Worker(pid, since, title.startswith(LEAVING), (0, None)))
        return found

    def _is_new(self, pid: int, mine: list[int]) -> bool:
        """Whether a process that another master process has started is a worker without its own title yet, or a master process without workers yet."""
        return self._title(pid).startswith(MASTER) and parent(pid, self._proc) in mine and not self._workers_of([pid])

    def _masters(self) -> tuple[dict[int, str], list[int]]:
        """The configuration files of the master processes of this machine, and those that were asked for, at least one."""
        known: dict[int, str] = {}
        strange: list[int] = []
        elsewhere: list[int] = []
        cut: list[int] = []
        for pid in pids(self._proc):
            title = self._title(pid)
            if not title.startswith(MASTER):
                continue
            if not self._has_our_program(pid):
                elsewhere.append(pid)
            elif not self._is_trusted(pid):
                strange.append(pid)
            elif self._is_cut(pid, title):
                cut.append(pid)
            else:
                configuration = self._configuration_of(pid, title[len(MASTER) :])
                if has_same_file(pid, configuration, self._proc) is False:
                    elsewhere.append(pid)
                else:
                    known[pid] = configuration
        mine = [pid for pid in known if self._wanted is None or os.path.realpath(known[pid]) == os.path.realpath(self._wanted)]
        if cut and (self._wanted is None or not mine):
            raise NginxError(
                "Which configuration process %d of nginx has cannot be read: it was started with too small an environment for its title, which is cut off."
                " Start it with a variable of at least 30 characters in its environment." % cut[0]
            )
        if not mine and strange:
            raise NginxError(
                "Process %d calls itself the master process of nginx and belongs to another user. User id %d does not run the program of another user: run"
                " the task as that user (ansible_become: true, ansible_become_user)%s."
                % (strange[0], os.geteuid(), ", or start the nginx with the configuration %s" % self._wanted if self._wanted else "")
            )
        if not mine:
            raise NginxError(self._none(known, elsewhere))
        return known, mine

    def _none(self, known: dict[int, str], elsewhere: list[int]) -> str:
        """Why there is no nginx, a sentence."""
        also = (
            ". An nginx with other files than this machine has at the same paths, such as that of a container (process %s), does not count: run the task"
            " where it runs" % ", ".join(map(str, elsewhere))
            if elsewhere
            else ""
        )
        strays = self._without_master()
        if strays:
            also += ". Worker process %d of nginx goes on without its master process, which was killed: end it (kill -QUIT %d)" % (strays[0].pid, strays[0].pid)
        if self._wanted is None and not elsewhere and not strays:
            return "No nginx runs on this machine: there is no master process of nginx. Start it, or see whether this is the right machine."
        if self._wanted is None:
            return "No nginx runs on this machine%s." % also
        others = (
            "; those that run have %s. Start it, or correct the option configuration" % ", ".join(sorted(known.values()))
            if known
            else "; start it"
            if not elsewhere and not strays
            else ""
        )
        return "No nginx with the configuration %s runs on this machine%s%s." % (self._wanted, others, also)

    def _one_that_serves(self, mine: list[int], known: dict[int, str]) -> int:
        """The master process whose workers take requests.

        When its program is replaced, nginx starts the new one from the former one. Both serve until one of them is told to quit. That one goes on
        until its last request has ended.
        """
        if len(mine) == 1:
            return mine[0]
        serving = [pid for pid in mine if any(not worker.leaving for worker in self._workers_of([pid]))]
        several = len({os.path.realpath(known[pid]) for pid in mine}) > 1
        if len(serving) == 1 and not several:
            started_by_it = [pid for pid in mine if parent(pid, self._proc) == serving[0]]
            if started_by_it:
                # It would start more workers, without reading anything.
                raise NginxError(
                    "Process %d of nginx does not read its configuration as long as process %d runs, which it started to replace its program, and which was"
                    " told to quit. Wait until the last request of that one has ended, or end it." % (serving[0], started_by_it[0])
                )
            return serving[0]
        new = [pid for pid in serving if parent(pid, self._proc) in serving]
        if several:
            then = "name the configuration of one of them"
        elif new:
            then = (
                "process %d was started from process %d to replace its program, and both serve. Send the signal QUIT to one of them: to the former one, or to"
                " the new one to go back" % (new[0], parent(new[0], self._proc) or 0)
            )
        else:
            then = "one of them is to end first"
        raise NginxError(
            "%d master processes of nginx run on this machine (%s): %s."
            % (len(mine), ", ".join("process %d with %s" % (pid, known[pid]) for pid in mine), then)
        )

    @property
    def process(self) -> dict[str, Any]:
        return {"pid": self.pid, "started": self.started}

    def workers(self) -> list[Worker]:
        """The worker processes, those that are shutting down too, also of former master processes."""
        return self._workers_of([self.pid, *self.former]) + self._leaving_strays

    def _workers_of(self, masters: list[int]) -> list[Worker]:
        found = []
        begun = {pid: started_ticks(pid, self._proc) for pid in masters}
        for pid in pids(self._proc):
            title, master = self._title(pid), parent(pid, self._proc)
            if title.startswith(WORKER) and master in begun:
                since = started_ticks(pid, self._proc)
                if since is not None:
                    found.append(Worker(pid, since, title.startswith(LEAVING), (master, begun[master])))
        return found

    def check(self) -> str:
        """Test the configuration as it is on disk. Returns what nginx has read. Raises C(NginxRefused) with what nginx says."""
        began = self._monotonic()
        command = [self._program(self.pid), "-T", "-q"]
        for option, value in self.arguments.items():
            command += ["-" + option, value]
        enter = self._enter()
        status, said, complained = self._call("nginx -t", enter + command)
        if enter and status and complained.startswith("nsenter:"):
            # Not even root may do that in some containers.
            status, said, complained = self._call("nginx -t", command)
        self._test_seconds = self._monotonic() - began
        if status:
            told = [line for line in complained.splitlines() if "[emerg]" in line or "[alert]" in line] or [complained]
            raise NginxRefused("nginx -t refuses it: %s" % " ".join(" ".join(told).split()))
        return said

    def _enter(self) -> list[str]:
        """The words before a command that is to see the files as nginx does, which may have mounts of its own."""
        its, ours = namespace(self.pid, "mnt", self._proc), namespace("self", "mnt", self._proc)
        program = shutil.which("nsenter")
        if its is None or ours is None or its == ours or program is None:
            return []
        return [program, "--mount=" + os.path.join(self._proc, str(self.pid), "ns", "mnt"), "--"]

    def reload(self) -> list[Worker]:
        """Let the master read its configuration, and wait until new workers have taken over. Returns the new ones.

        Raises C(NginxRefused) if the former workers go on. That is all that nginx shows, besides a line in its error log.
        """
        masters = [self.pid, *self.former]
        before = {worker.pid for worker in self._workers_of(masters)}
        self.hang_up()
        # The master must read the configuration and start its workers; the test has shown how long reading takes.
        deadline = self._monotonic() + RELOAD_SECONDS + 2 * self._test_seconds
        while True:
            # A worker that has its title by now counts.
            untitled = any(self._is_new(pid, [self.pid]) for pid in pids(self._proc))
            workers = self._workers_of(masters)
            new = [worker for worker in workers if worker.pid not in before and not worker.leaving]
            if new and not untitled and not any(worker.pid in before and not worker.leaving for worker in workers):
                return new
            if self._monotonic() >= deadline:
                raise NginxRefused(
                    "nginx (process %d) was told to reload and its former workers go on, so it did not take the new configuration. Its error log"
                    " says why." % self.pid
                )
            self._sleep(LOOK_SECONDS)

    def hang_up(self) -> None:
        """Tell the master to reload."""
        self.signal(signal.SIGHUP)

    def signal(self, number: int) -> None:
        """Send the master a signal. With 0, nothing is sent, and an error tells that it could not be."""
        ended = NginxError("nginx (process %d) has ended." % self.pid)
        if started_ticks(self.pid, self._proc) != self.started:
            raise ended
        try:
            os.kill(self.pid, number)
        except PermissionError:
            found = self.pid, os.geteuid()
            raise NginxError("nginx (process %d) takes no signal from user id %d: set ansible_become: true for that machine." % found) from None
        except ProcessLookupError:
            raise ended from None

    def _program(self, pid: int) -> str:
        """The program that a process runs."""
        with contextlib.suppress(OSError):
            path = os.readlink(os.path.join(self._proc, str(pid), "exe"))
            # If a package was upgraded, the new program must read the configuration, too: a restart starts that one.
            path = path[: -len(" (deleted)")] if path.endswith(" (deleted)") else path
            if os.path.exists(path):
                return path
        return "nginx"

    def _call(self, called: str, command: list[str]) -> tuple[int, str, str]:
        return run_limited(self._run_command, TEST_SECONDS, command, called, NginxError, environ_update={"LC_ALL": "C"})

    def _title(self, pid: int) -> str:
        return read(self._proc, pid, "cmdline").replace("\0", " ").strip()

    def _is_cut(self, pid: int, title: str) -> bool:
        """Whether the end of a title may be missing. nginx writes it over its arguments and its environment, and has no other room."""
        fields = stat_fields(pid, self._proc)
        try:
            room = int(fields[ENVIRONMENT_END]) - int(fields[ARGUMENTS])
        except (IndexError, ValueError):
            return False
        # Without the right to look, both are 0.
        return 0 < room <= len(title.encode("utf-8", "surrogateescape")) + 2

    def _has_our_program(self, pid: int) -> bool:
        """Whether the program of a process is one of this machine, and not of a container. Unknown counts as ours: only root may look.

        Another mount namespace does not tell: settings of systemd such as C(PrivateTmp) give a unit one.
        """
        program = self._program(pid)
        return has_same_file(pid, program if os.path.isabs(program) else "/", self._proc) is not False

    def _is_trusted(self, pid: int) -> bool:
        """Whether a process is root's or our own. Its program is run, and every user may call a process of theirs nginx.

        All user ids count, so that a user's call of a program with the rights of root is not taken for root's.
        """
        uids = status_field(pid, "Uid", self._proc).split()
        return bool(uids) and {int(uid) for uid in uids} <= {0, os.geteuid()}

    def _configuration_of(self, pid: int, command: str) -> str:
        given = arguments(command)
        prefix, default = given.get("p"), given.get("c")
        if prefix is None or default is None:
            built = self._built(pid)
            prefix, default = prefix or built.get("prefix", "/usr/local/nginx"), default or built.get("conf-path", "conf/nginx.conf")
        return os.path.join(self._from_its_folder(pid, prefix), default)

    def _from_its_folder(self, pid: int, path: str) -> str:
        with contextlib.suppress(OSError):
            return os.path.join(os.readlink(os.path.join(self._proc, str(pid), "cwd")), path)
        return path

    def version(self) -> tuple[int, ...]:
        """The version of nginx, or of what is built on it."""
        found = re.search(r"^nginx version: \S+?/([0-9]+(?:\.[0-9]+)*)", self._about(self.pid), re.MULTILINE)
        return tuple(map(int, found.group(1).split("."))) if found else ()

    def _built(self, pid: int) -> dict[str, str]:
        """The paths that were set when the program of a process was built."""
        return dict(re.findall(r"--(prefix|conf-path)=(\S+)", self._about(pid)))

    def _about(self, pid: int) -> str:
        """What the program of a process says of itself."""
        status, said, complained = self._call("nginx -V", [self._program(pid), "-V"])
        if status:
            raise NginxError("nginx -V failed: %s" % " ".join(complained.split()))
        return said + complained


def arguments(command: str) -> dict[str, str]:
    """The options with which nginx was started, from the title of its master process."""
    return {name: value.strip() for name, value in OPTION.findall(command) if value.strip()}


def pids(proc: str = "/proc") -> list[int]:
    found = process_ids(proc)
    if not found:
        raise NginxError("The processes of this machine cannot be read (%s): this needs Linux." % proc)
    return found


def started_by_clock(ticks: int) -> float:
    """When a process that started then did so by the clock. In a container, /proc/uptime may tell since when that one runs, and not the machine.

    Both clocks are read in one moment: what passes between the two readings would make the start too early.
    """
    readings = []
    for _dummy in range(CLOCK_READINGS):
        wall, up = time.time(), time.clock_gettime(time.CLOCK_BOOTTIME)
        readings.append(wall - up)
        if time.time() - wall <= SAME_MOMENT:
            break
    return max(readings) + ticks / float(os.sysconf("SC_CLK_TCK"))
