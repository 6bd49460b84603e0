# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The collection's part of the demo: ansible-playbook that waits for events and handles them."""

from __future__ import annotations

import json
import os
import re
import signal

from tests.support.checkout import ROOT
from tests.support.playbook import program, surroundings, write_configuration

PLAYBOOK = "graceful.azure.watch_events"


# A line of the playbook's account begins with the time of day.
ACCOUNT = re.compile(r"\d\d:\d\d:\d\d(?: \S+)?  (.+)")
TROUBLE = ("fatal:", "[ERROR]", "ERROR", "Traceback")
LONGEST = 160


def account(line, numbers):
    """What a person needs of a line that ansible-playbook printed; None when that is nothing.

    numbers is a dict of event id and its number in the demo, which is shown instead.
    """
    told = ACCOUNT.match(line)
    if told:
        words = " ".join(told.group(1).split())
        for event_id, number in numbers.items():
            words = words.replace(event_id, "(event {0}):".format(number))
        return words
    if line.startswith(TROUBLE):
        return line.rstrip() if len(line) <= LONGEST else line[:LONGEST] + "..."
    return None


class Growing:
    """A file that another process adds lines to. It need not be there yet."""

    def __init__(self, path):
        self.path = path
        self.position = 0

    def new_lines(self):
        """The whole lines that came since the last call."""
        if not self.path.exists():
            return
        with open(self.path, encoding="utf-8", errors="replace") as stream:
            stream.seek(self.position)
            while (line := stream.readline()).endswith("\n"):
                self.position = stream.tell()
                yield line


class Journal:
    """The journal of runs, as far as it was read. ``entries`` has one for each pass: time, event_ids seen, hosts with their state."""

    def __init__(self, path):
        self.file = Growing(path)
        self.entries = []

    def read(self):
        """Reads the passes that came since the last call."""
        for line in self.file.new_lines():
            entry = json.loads(line)
            event_ids = [event["event_id"] for event in entry["events"]]
            self.entries.append({"time": entry["time"], "event_ids": event_ids, "hosts": entry["hosts"]})


def start_playbook(processes, command, environment):
    """ansible-playbook, with all it prints in playbook.log."""
    # SIGINT, for which it tidies up.
    return processes.start("playbook", *command, env=environment, cwd=str(ROOT), end_with=signal.SIGINT)


class Playbook:
    """Runs the playbook as a service would: it waits for an event, handles that round and ends, and is started again."""

    def __init__(self, world, folder, inventory_path, screen):
        self.processes = world.processes
        self.folder = folder
        self.temporary = world.socket_folder
        self.screen = screen
        self.journal = Journal(folder / "journal.jsonl")
        self.log = Growing(folder / "playbook.log")
        self.process = None
        self.failed = False
        self.configuration = write_configuration(folder)
        written = ("-e", "handle_events_journal=" + str(self.journal.file.path), "-e", "handle_events_report=" + str(folder / "reports"))
        self.command = [program(), "-i", inventory_path, PLAYBOOK, "-e", "target=web", *written]

    @property
    def running(self):
        return self.process is not None

    @property
    def watching(self):
        """Whether it has looked at the hosts for the first time."""
        return bool(self.journal.entries)

    def tick(self, wanted, numbers):
        """Shows what it said, reads its journal; starts it when wanted and not running; notes how it ended."""
        if self.process is None:
            if wanted and not self.failed:
                self.screen.say("ansible", "ansible-playbook -i {0} {1} -e target=web".format(os.path.relpath(self.command[2]), PLAYBOOK))
                self.process = start_playbook(self.processes, self.command, surroundings(self.configuration, self.temporary))
            return
        code = self.process.poll()
        self.show(numbers)
        self.journal.read()
        if code is not None:
            self.processes.stop(self.process)
            self.process = None
            self.failed = code != 0
            self.screen.say("ansible", "ended with {0}".format(code))

    def show(self, numbers):
        for line in self.log.new_lines():
            words = account(line, numbers)
            if words:
                self.screen.say("ansible", words)

    def stop(self):
        if self.process is not None:
            self.processes.stop(self.process)
            self.process = None
            self.journal.read()
