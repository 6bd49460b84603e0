# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""make shell: a shell beside web servers behind HAProxy, with a metadata service for each, to try the playbooks in.

What the simulator starts is done to the servers. When the shell ends, everything is stopped, also what was started in the shell. Ends with the status of
the shell if that reads its commands from a file or a pipe.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.demo import records  # noqa: E402
from tests.demo.live import Live  # noqa: E402
from tests.demo.playbook import Journal  # noqa: E402
from tests.demo.screen import Screen  # noqa: E402
from tests.demo.stage import INTERRUPTION, Azure, Watcher, measured, take_folder  # noqa: E402
from tests.support import playbook  # noqa: E402
from tests.support.processes import kill, marked  # noqa: E402
from tests.support.simulator import SCRIPT, SimulatorError  # noqa: E402
from tests.support.world import World, WorldError  # noqa: E402

HOSTS = ("web1", "web2", "web3")
# Enough to see on the page whether a request fails.
REQUESTS_PER_SECOND = 30
# The bed looks at its events and at HAProxy so often. It is not measured, so it need not cost more.
LOOK_SECONDS = 0.2
# The page for a browser shows so much of the past.
SHOWN_SECONDS = 300.0
# What was started in the shell has so long to end when it is asked to.
PATIENCE_SECONDS = 5.0

TEXT = """
Three web servers behind HAProxy, under a light load, with a metadata service for each. All of it ends with this shell.

  {live}
      shows hosts, events and requests as they happen
  {simulator}/
      is the simulator of the metadata services: add events, move them on, make the services fail
  {application}
      is the application behind HAProxy
  {inventory}
      is the inventory. ansible-playbook finds it by itself

Announce an event, and handle it: drain, approve, wait until it is over, put the server back.

  simulator add Reboot web1
  ansible-playbook graceful.azure.handle_events -e target=web

More to try:

  simulator add Freeze web1 web2 ImpactSeconds=4
  ansible-playbook graceful.azure.handle_events -e target=web --check
                                                  says what would be done, and changes nothing
  ansible-playbook graceful.azure.handle_events -e target=web -e handle_events_wait=false
                                                  takes one pass, so that an event can be followed step by step
  ansible-playbook graceful.azure.holds -e target=web
                                                  shows what is held, and why
  ansible-playbook graceful.azure.watch_events -e target=web &
                                                  waits for the next event and handles it
  simulator events                                lists the events; cancel, start and complete ID move one on
  simulator --help                                tells the rest
  exit                                            stops everything
"""

# Debian's own file for interactive shells may change PATH, so it comes first.
RC = """\
[ ! -r ~/.bashrc ] || . ~/.bashrc
PATH={path}:$PATH
PS1='(graceful.azure) \\w\\$ '
"""


def write_program(path, *words):
    """A program that runs these words, with its own arguments behind them."""
    path.write_text('#!/bin/sh\nexec {0} "$@"\n'.format(shlex.join(map(str, words))), encoding="utf-8")
    path.chmod(0o755)


def start_shell(world, folder, inventory):
    """bash in this terminal, or with the commands of our standard input."""
    programs = folder / "bin"
    programs.mkdir()
    write_program(programs / "simulator", sys.executable, SCRIPT, "ctl")
    path = "{0}:{1}".format(programs, Path(sys.executable).parent)
    rc = folder / "bashrc"
    rc.write_text(RC.format(path=shlex.quote(path)), encoding="utf-8")
    environment = playbook.surroundings(
        playbook.write_configuration(folder),
        world.socket_folder,
        ANSIBLE_INVENTORY=str(inventory),
        ANSIBLE_STDOUT_CALLBACK="graceful.azure.brief",
        IMDS_SIMULATOR_CONTROL=world.simulator.control,
        PATH="{0}:{1}".format(path, os.environ.get("PATH", os.defpath)),
    )
    return subprocess.Popen(["bash", "--rcfile", str(rc)], env=environment, cwd=ROOT)


class Ended:
    """Tells of each web server that has ended, unless the end of an impact is about to start it again."""

    def __init__(self, world, tell):
        self.world = world
        self.tell = tell
        self.told = set()

    def tick(self):
        coming_back = {impact["host"] for _at, _act, impact in self.world.due}
        for name, process in self.world.web.items():
            if name in coming_back or process.poll() is None:
                self.told.discard(name)
            elif name not in self.told:
                self.told.add(name)
                self.tell("{0} does not run and was not started again, see {1}".format(name, self.world.folder / (name + ".log")))


def play(world, folder):
    """Runs the bed until the shell ends; its status."""
    # While the shell has the terminal, nothing is printed but what spoils the play. The page shows everything that is said.
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        screen = Screen(nowhere)
        azure, watcher = Azure(world, screen), Watcher(world, screen)
        journal = Journal(folder / "journal.jsonl")
        begin = screen.zero = time.time()

        def warn(words):
            screen.say("host", words)
            print("shell: {0}".format(words), file=sys.stderr, flush=True)

        def so_far():
            """What was recorded in the last minutes."""
            now = time.time()
            return {
                "axis": records.Axis(begin),
                "begin": max(begin, now - SHOWN_SECONDS),
                "end": now,
                "events": azure.events,
                "numbers": dict(azure.numbers),
                "journal": list(journal.entries),
                **measured(world),
            }

        ended = Ended(world, warn)
        with Live("graceful.azure: servers to play with", folder / "live.log", HOSTS, screen.lines) as live:
            inventory = world.write_inventory(folder / "inventory.yml", {"handle_events_journal": str(journal.file.path)})
            world.start_load("load", REQUESTS_PER_SECOND)
            live.show("The servers", so_far)
            print(text(world, live, inventory), flush=True)
            shell = start_shell(world, folder, inventory)
            try:
                while shell.poll() is None:
                    for look in (watcher.tick, azure.tick, journal.read, ended.tick):
                        # Whoever plays may have stopped HAProxy or the simulator. A server may not start. The lines that two runs write at once to the
                        # journal may be mixed up. The shell goes on.
                        with contextlib.suppress(OSError, SimulatorError, ValueError):
                            look()
                    time.sleep(LOOK_SECONDS)
            finally:
                end_shell(shell, str(world.socket_folder))
            return shell.returncode


def text(world, live, inventory):
    """What is there, and what to type."""
    return TEXT.format(
        live=live.url() if live.server else live.address(),
        simulator=world.simulator.control,
        application="http://127.0.0.1:{0}/".format(world.port("haproxy")),
        inventory=os.path.relpath(inventory, ROOT),
    )


def end_shell(shell, mark):
    """Ends the shell, unless it has ended, and whatever was started in it. All of these bear the mark in their environment."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    if shell.poll() is None:
        # An interactive shell does not heed SIGTERM.
        shell.send_signal(signal.SIGHUP)
    for pid in marked(mark):
        kill(pid, signal.SIGTERM)
    while list(marked(mark)) and time.monotonic() < deadline:
        shell.poll()
        time.sleep(0.05)
    for pid in marked(mark):
        kill(pid)
    shell.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "shell", help="folder for all that it writes; emptied first")
    arguments = parser.parse_args()
    # A terminal that is closed ends it, too.
    INTERRUPTION.install(signal.SIGHUP)
    interactive = sys.stdin.isatty()
    try:
        folder = take_folder(arguments.output.resolve())
        with World(folder, HOSTS) as world:
            world.start()
            status = play(world, folder)
    except (WorldError, SimulatorError) as error:
        print("shell: {0}".format(error), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    # How the last command of a person ended says nothing about the bed.
    return 0 if interactive else status


if __name__ == "__main__":
    sys.exit(main())
