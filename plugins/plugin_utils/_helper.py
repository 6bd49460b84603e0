# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the controller asks the helper of a run on a machine.

The first request to a machine is a module, whose process goes on as the helper (C(module_utils/_helper.py)). Later ones are a command that asks it.
Nothing is remembered from request to request: the name of the helper follows from the run, the machine, the user, the environment of the task and
the code. Where no helper of that name answers, the module runs, and starts one.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shlex
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ansible import constants as C
from ansible.errors import AnsibleConnectionFailure
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.release import __version__
from ansible_collections.graceful.azure.plugins.module_utils import _helper, _helper_client
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json, Options, Variables

if TYPE_CHECKING:
    from ansible.plugins.action import ActionBase

VARIABLE = "graceful_azure_helper"
PLACES = tuple(place.replace("%d", "*") for place in _helper.PLACES)
"""As the shell finds them. Whose the helper is that listens there, the client asks the kernel."""
PYTHONS = ("/usr/bin/python3", "/usr/libexec/platform-python", "python3")
"""What the client runs with, if Ansible does not say which Python there is."""
NONE, ASKED, ANSWER = "none", "asked", "answer"
MARK = "graceful_azure "

COMMAND = """for s in {sockets}; do if [ -S "$s" ]; then for p in {pythons}; do \
if command -v "$p" >/dev/null 2>&1; then exec "$p" -I -S -c {code} {kind} "$s" {request}; fi; done; fi; done; {drain}echo {mark}{none}"""


class Told(NamedTuple):
    """What a command told. C(answer): None if there is none. C(ran): whether the command ran at all. C(asked): whether the request was sent."""

    answer: Json | None
    ran: bool
    asked: bool
    why: str


def ask(action: ActionBase, args: Options, task_vars: Variables, run: Callable[[Options], Json]) -> Json:
    """The answer to the request in C(args), by the helper or else by the module.

    C(run) runs the module with the options that it is given. Where no helper can be had, C(by_module) is true and a warning says why. Ansible shows it
    once in a run.
    """
    machine, variables = machine_of(action, task_vars)
    body = json.dumps(args, default=str).encode()
    if not _is_wanted(action, variables):
        return dict(run(args), by_module=True)
    why: str | None
    if len(body) > _helper.REQUEST_LIMIT:
        result, why = run(args), f"A request has {len(body)} bytes; {_helper.REQUEST_LIMIT} are allowed."
    else:
        name = name_of(action, machine)
        told = command(action, name, variables, _helper.ASK, body)
        if told.answer is not None:
            return told.answer
        if told.asked:
            # It may have been carried out.
            raise AnsibleConnectionFailure(f"The process that answers on the machine has ended before it answered{told.why and ': ' + told.why}")
        result = run(dict(args, helper=name))
        why = result.pop("helper", None)
    if why is not None:
        result["by_module"] = True
    if why:
        result["warnings"] = [
            *(result.get("warnings") or ()),
            f"{machine}: no helper process answers there, so each task starts Python anew, which takes longer and harms nothing. {why}",
        ]
    return result


def farewell(action: ActionBase, task_vars: Variables) -> None:
    """Tell the helper on the task's machine that the run is over. Where none answers, nothing is to be done."""
    machine, variables = machine_of(action, task_vars)
    if _is_wanted(action, variables):
        command(action, name_of(action, machine), variables, _helper.FAREWELL, b"{}")


def machine_of(action: ActionBase, task_vars: Variables) -> tuple[str, Variables]:
    """The name and the variables of the machine on which a task runs."""
    host = task_vars.get("inventory_hostname", "")
    machine = getattr(action._task, "delegate_to", None)
    if machine and machine != host:
        return machine, (task_vars.get("ansible_delegated_vars") or {}).get(machine) or {}
    return host, task_vars


def name_of(action: ActionBase, machine: str) -> str:
    """The name of the helper that this task may ask. Nobody else has it: no other run, machine, user, mode or environment, and no other version of the code."""
    users = [str(action._get_remote_user()), str(action._connection.become and action.get_become_option("become_user"))]
    modes = [str(action._task.check_mode), str(action._task.diff)]
    # That folder is one of this run alone.
    parts = [socket.gethostname(), C.DEFAULT_LOCAL_TMP, machine, *users, *modes, action._compute_environment_string(), _code()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


@functools.cache
def _code() -> str:
    """What tells this version of what a machine is sent from any other."""
    folder = os.path.dirname(_helper.__file__)
    files = [os.path.join(found, name) for found, _folders, names in os.walk(folder) for name in names if name.endswith(".py")]
    stamps = [(path, status.st_size, status.st_mtime_ns) for path in sorted(files) for status in (os.stat(path),)]
    return json.dumps([__version__, stamps])


@functools.cache
def _client() -> str:
    """The program of the client, without what only people read."""
    with open(_helper_client.__file__, encoding="utf-8") as file:
        lines = [line for line in file.read().split('"""', 2)[2].splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return "\n".join(lines)


def command(action: ActionBase, name: str, variables: Variables, kind: bytes, body: bytes) -> Told:
    """Run the client on the machine of the task. C(body): the request, which is not on the command line, since anybody may read that."""
    python = _python(action, variables)
    told = Told(None, False, False, "")

    def run(request: str, drain: str, in_data: bytes | None) -> Told:
        said = action._low_level_execute_command(
            COMMAND.format(
                sockets=" ".join(f"{place}/{_helper.PREFIX}{name}/{_helper.SOCKET}" for place in PLACES),
                pythons=" ".join(map(shlex.quote, [python] if python else PYTHONS)),
                code=shlex.quote(_client()),
                kind=kind.decode(),
                mark=MARK,
                none=NONE,
                request=request,
                drain=drain,
            ),
            in_data=in_data,
        )
        return read(said["stdout"], said["stderr"])

    connection = action._connection
    takes_input = connection.has_pipelining and (not connection.become or connection.become.pipelining)
    if takes_input:
        told = run("", "cat >/dev/null; ", body)
    if not told.ran and (connection.become or not takes_input) and not connection.is_pipelining_enabled():
        # As with a module: some connections, and sudo and su where they want a terminal, leave no standard input to a command.
        folder = connection._shell.tmpdir or action._make_tmp_path()
        path = connection._shell.join_path(folder, "request")
        action._transfer_data(path, body)
        action._fixup_perms2([folder, path], execute=False)
        told = run(f"<{shlex.quote(path)}", "", None)
    return told


def read(stdout: str, stderr: str = "") -> Told:
    """What the client told. Before and between its lines, there may be those of others."""
    lines = [line[len(MARK) :].rstrip("\r").partition(" ") for line in stdout.split("\n") if line.startswith(MARK)]
    told = {word.strip(): text for word, _space, text in lines}
    ran = bool(told.keys() & {NONE, ASKED, ANSWER})
    if ANSWER in told:
        try:
            answer = json.loads(told[ANSWER])
        except ValueError:
            answer = None
        return Told(answer, True, True, "") if isinstance(answer, dict) else Told(None, True, True, "its answer is no JSON")
    return Told(None, ran, ASKED in told, told.get(NONE, "").strip() or " ".join(stderr.split())[-300:])


def _is_wanted(action: ActionBase, variables: Variables) -> bool:
    return bool(boolean(action._templar.template(variables.get(VARIABLE, True)), strict=False))


def _python(action: ActionBase, variables: Variables) -> str:
    """The Python of the machine, as the inventory says or as Ansible has found it; nothing if that is unknown."""
    said = action._templar.template(variables.get("ansible_python_interpreter") or "")
    found = said if str(said).startswith("/") else (variables.get("ansible_facts") or {}).get("discovered_interpreter_python") or ""
    return str(found)
