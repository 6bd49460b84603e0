# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is typed: the watcher itself, --once, --check, --status."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections import namedtuple

from ansible_collections.graceful.azure.plugins.module_utils._imds import ImdsSetupError

from . import notes, settings, system
from .watch import Watcher

CONFIG = "/etc/graceful-azure-watcher/config.json"
# As in sysexits.h: another one runs, and: the settings are wrong.
EXIT_LOCKED = 75
EXIT_CONFIG = 78
# Of --status, beside 0.
EXIT_TROUBLE = 1
EXIT_NOT_RUNNING = 3
# The status is written every ten seconds, and a silent service takes ten more.
STALE_SECONDS = 45.0


Arguments = namedtuple("Arguments", ("config", "once", "check", "status"))


def main(folder):
    arguments = parse(sys.argv[1:])
    version = installed_version(folder)
    try:
        values = settings.read(arguments.config)
        if arguments.status:
            return show_status(values, version)
        watcher = Watcher(settings.Settings(values, in_unit=not arguments.check), version)
        if arguments.check:
            return 0
        if arguments.once:
            return 0 if watcher.once() else 1
        watcher.run()
    except (settings.SettingsError, ImdsSetupError) as error:
        return _fail(error, EXIT_CONFIG)
    except system.Locked as error:
        return _fail(f"Another watcher runs already: {error} is locked.", EXIT_LOCKED)
    return 0


def parse(words):
    if not words:
        # What the service is started with.
        return Arguments(CONFIG, once=False, check=False, status=False)
    # For people alone: the service would keep it in memory for ever.
    import argparse

    parser = argparse.ArgumentParser(prog="graceful-azure-watcher", description="Starts the handling of scheduled events of this VM.")
    parser.add_argument("--config", default=CONFIG, help=f"the settings, {CONFIG} by default")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--once", action="store_true", help="look once, start what is due, wait for its end")
    what.add_argument("--check", action="store_true", help="say what is wrong with the settings, and start nothing")
    what.add_argument("--status", action="store_true", help="say what the watcher sees and does; 0: well, 1: trouble, 3: not running")
    return parser.parse_args(words)


def _fail(error, status):
    sys.stderr.write(f"graceful-azure-watcher: {notes.clean(error)}\n")
    return status


def installed_version(folder):
    """The collection's version, and a digest of the very files: copies can be of any state."""
    digest = hashlib.sha256()
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py"):
            digest.update(system.read_regular(os.path.join(folder, name)))
    try:
        version = system.read_regular(os.path.join(folder, "VERSION")).decode("utf-8").strip()
    except (OSError, ValueError):
        version = "unknown"
    return f"{version}+{digest.hexdigest()[:12]}"


def show_status(chosen, version):
    running = system.is_locked(os.path.join(chosen["run_dir"], settings.LOCK))
    state = None
    try:
        state = json.loads(system.read_regular(os.path.join(chosen["run_dir"], settings.STATUS)).decode("utf-8"))
    except (OSError, ValueError):
        pass
    if state is not None and state["last_answer_age"] is not None:
        state["last_answer_age"] += max(0.0, time.time() - state["written"])
    print("\n".join(notes.status(state, version, running, settings.digest(chosen))))
    if running is False:
        return EXIT_NOT_RUNNING
    return 0 if running and state is not None and _is_well(state) else EXIT_TROUBLE


def _is_well(state):
    answered = state["last_answer_age"] is not None and state["last_answer_age"] < STALE_SECONDS and not state["error"]
    # One that still runs as an older version may not say so.
    return answered and not state.get("action_failing") and not state.get("fast_path_failing")
