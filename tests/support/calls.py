# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a machine can be asked, in the process of the test."""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine
from ansible_collections.graceful.azure.plugins.module_utils._handle import CALLS, answer
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import DEFAULT_STATE_DIR
from ansible_collections.graceful.azure.plugins.module_utils._imds import ImdsClient


def load_calls():
    """Load what calls need. Else that is loaded when one is first asked, and Ansible's own loader, which a test may have started, finds none of it."""
    for load in CALLS.values():
        load()


load_calls()


def call(name, params, check=False, run_command=None, machine=None, **of_machine):
    """The result of one call; its errors are raised. It waits for nothing unless told so. ``of_machine``: arguments of C(Machine)."""
    called = CALLS[name]()
    given = {**{option: spec.get("default") for option, spec in called.spec.items()}, "timeout": 0.0, **params}
    there = machine or Machine(run_command, given.get("state_dir") or DEFAULT_STATE_DIR, check, **of_machine)
    return called.run(given, there)


def hold_server(socket, folder, ids=("A",), state="present", check=False, params=None, **of_machine):
    """haproxy_hold of the server web1, with records in the folder "state" of this one. C(params): other options."""
    given = {"state": state, "event_ids": None if ids is None else list(ids), "reason": "a test", "state_dir": str(folder / "state")}
    return call("haproxy_hold", {**given, "socket": socket, "server": "web1", **(params or {})}, check, **of_machine)


def told(name, args, check=False, **of_machine):
    """The same with options as a user writes them, and with what goes wrong in the result. ``of_machine``: arguments of C(ScriptedMachine)."""

    def machine(params):
        return ScriptedMachine(run_command=_no_command, state_dir=params.get("state_dir") or DEFAULT_STATE_DIR, check_mode=check, **of_machine)

    return answer(name, args, machine)


def _no_command(command, **_more):
    raise AssertionError(command)


class ScriptedMachine(Machine):
    """A machine on which some things are the test's: with a C(clock), no time passes in its client. ``more``: arguments of C(Machine)."""

    def __init__(self, store=None, tools=None, boot_id=None, clock=None, **more):
        super().__init__(**more)
        self._store, self._tools, self._boot_id, self._clock = store, tools, boot_id, clock

    def store(self):
        return self._store or super().store()

    def tools(self):
        return self._tools or super().tools()

    def boot_id(self):
        return self._boot_id or super().boot_id()

    def client(self, params):
        if self._clock is None:
            return super().client(params)
        return ImdsClient(params["imds_url"], params["api_version"], params["request_timeout"], self._clock.monotonic, self._clock.sleep)
