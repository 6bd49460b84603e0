# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What runs on a host in place of a module of this collection.

On Linux that is the module itself. On Windows it is the same Python on the controller (C(windows.py)), which reaches the host by modules of others.
"""

from __future__ import annotations

import ntpath
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from ansible.errors import AnsibleError
from ansible_collections.graceful.azure.plugins.plugin_utils import _helper
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json, Options, Variables

if TYPE_CHECKING:
    from ansible.plugins.action import ActionBase

Pause = Callable[[float], None]
"""Waits on the controller for some seconds."""
VARIABLE = "graceful_azure_platform"
LINUX, WINDOWS = "linux", "windows"
PLATFORMS = (LINUX, WINDOWS)
CONNECTIONS = ("winrm", "psrp")
"""Connections to Windows hosts. With others, such as ssh, the shell tells."""
SHELLS = ("powershell", "cmd")
OVERHEAD = 20.0
"""Seconds more that a look or an approval may take on a Windows host: it consists of several modules, each of which must first be started."""

_WINDOWS_PATH = re.compile(r"([A-Za-z]:[\\/]|%[A-Za-z_()0-9]+%[\\/]).*")


def is_windows_path(path: str) -> bool:
    """Whether a path is an absolute one of a Windows host. It may begin with a variable of that host."""
    return bool(_WINDOWS_PATH.fullmatch(path))


def is_absolute(path: str) -> bool:
    """Whether a path on some machine is absolute there: the platform of a machine is not known before it is reached."""
    return path.startswith(("/", "~", "$")) or is_windows_path(path)


def is_windows(action: ActionBase, task_vars: Variables | None) -> bool:
    """Whether the machine on which this task runs is a Windows host: as its variable says, or else as the shell of its connection does."""
    _machine, variables = _helper.machine_of(action, task_vars or {})
    said = variables.get(VARIABLE)
    if said is None:
        return getattr(getattr(action._connection, "_shell", None), "_IS_WINDOWS", False) is True
    said = action._templar.template(said)
    if said not in PLATFORMS:
        raise AnsibleError(no_platform(said))
    return bool(said == WINDOWS)


def no_platform(said: object) -> str:
    return f"{VARIABLE}: {said!r} is none of {', '.join(PLATFORMS)}"


def told_by(variables: Variables) -> str:
    """The platform of a host as its variables tell it before anybody connects. Others are taken for Linux until they are reached."""
    if variables.get(VARIABLE) is not None:
        return str(variables[VARIABLE])
    is_one = variables.get("ansible_connection") in CONNECTIONS or variables.get("ansible_shell_type") in SHELLS
    return WINDOWS if is_one else LINUX


def run_module(action: ActionBase, module: str, args: Options, task_vars: Variables) -> Json:
    """Run a module of this collection, or what stands for it on the host's platform."""
    if not is_windows(action, task_vars):
        result: Json = action._execute_module(module_name=f"graceful.azure.{module}", module_args=args, task_vars=task_vars)
        return result
    # Nobody else needs it.
    from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.windows_modules import run

    return run(action, module, args, task_vars)


def ask_machine(action: ActionBase, request: Json, task_vars: Variables, pause: Pause | None = None) -> Json:
    """The answer of the task's machine to a request (C(_handle.py)): C(acts) and C(look), or C(failed) or C(unreachable) if there is none.

    C(by_module) is true if each request starts modules there. C(pause): how to wait on the controller for some seconds.
    """
    if not is_windows(action, task_vars):
        return _helper.ask(action, {"request": request}, task_vars, lambda args: run_module(action, "machine", args, task_vars))
    from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.windows_modules import answer_request

    return dict(answer_request(action, request, task_vars, pause), by_module=True)


def farewell(action: ActionBase, task_vars: Variables) -> None:
    """Tell the task's machine that it is asked no more."""
    if not is_windows(action, task_vars):
        _helper.farewell(action, task_vars)


def script(name: str) -> str:
    """The text of one of our scripts."""
    with open(os.path.join(os.path.dirname(__file__), "scripts", f"{name}.ps1"), encoding="ascii") as file:
        return file.read()


def parent_of(path: str) -> str:
    """The folder in which a file of a Windows host is."""
    return ntpath.dirname(path)


def plain_paths(options: Options) -> Options:
    """An argument spec whose paths are texts: they are not on the controller, so nothing is made of them here."""

    def plain(option: Options) -> Options:
        return {key: "str" if key in ("type", "elements") and value == "path" else value for key, value in option.items()}

    return {name: plain(option) for name, option in options.items()}
