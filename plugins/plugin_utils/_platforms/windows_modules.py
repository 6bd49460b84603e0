# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The modules of this collection as they run for a Windows host: on the controller.

Options, decisions and results are those of the modules themselves. Only what they read and change is another machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleConnectionFailure
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.graceful.azure.plugins.module_utils._approving import ApprovalRefusedError
from ansible_collections.graceful.azure.plugins.module_utils._connections import ConnectionsError
from ansible_collections.graceful.azure.plugins.module_utils._duties.all_types import FILES
from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine
from ansible_collections.graceful.azure.plugins.module_utils._handle import OF_MACHINES, answer, handle
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import DEFAULT_STATE_DIR, HoldError, Request, utc_now
from ansible_collections.graceful.azure.plugins.module_utils._imds import ImdsError
from ansible_collections.graceful.azure.plugins.module_utils._selection import SelectionError
from ansible_collections.graceful.azure.plugins.modules import (
    connections_info,
    duty,
    duty_info,
    machine,
    scheduled_events_approve,
    scheduled_events_info,
    scheduled_events_wait,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import ON_HOST
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.by_platform import Pause, plain_paths
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.windows import STATE_DIR, Windows, WindowsError
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.windows_connections import counted
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.windows_health_probe import WindowsHealth
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.windows_host import ThisWindowsHost, ask, clock_of
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.windows_http import WindowsImdsClient
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.windows_iis import WindowsIis
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.windows_records import WindowsStore, anew, put_aside, read_files, records_in
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.windows_services import WindowsServices
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json, Options, Variables

if TYPE_CHECKING:
    from ansible.plugins.action import ActionBase

ERRORS = (ImdsError, SelectionError, ApprovalRefusedError, HoldError, ConnectionsError, WindowsError, ValueError)
"""What a module says in its result. Everything else is a mistake of ours, or a lost connection."""
DUTIES = ("health_probe", *(kind for kind, duty in ON_HOST.items() if duty.windows))
"""The types of duties of a Windows host."""
CALLS = (*OF_MACHINES, *(call for kind in DUTIES for call in FILES[kind]))
"""What a Windows host can be asked (C(_handle.py))."""


def run(action: ActionBase, name: str, args: Options, task_vars: Variables, pause: Pause | None = None) -> Json:
    """Run a module, or answer a call. Returns the result."""
    if name == "machine":
        params, mistakes = _check(machine.OPTIONS, machine.CONDITIONS, args)
        if mistakes:
            return {"failed": True, "changed": False, "msg": mistakes}
        if params["request"] is None:
            return run(action, params["call"], params["args"], task_vars)
        return answer_request(action, params["request"], task_vars, pause)
    if name in CALLS:
        windows = Windows(action, task_vars, pause)
        return answer(name, _with_folder(args), _machines(windows), _spec_of)
    if name not in MODULES:
        return _unknown(name)
    module, conditions, call = MODULES[name]
    params, mistakes = _check(module.argument_spec(), conditions, args)
    if mistakes:
        return {"failed": True, "changed": False, "msg": mistakes}
    windows = Windows(action, task_vars, pause)
    try:
        return call(windows, params)
    except ERRORS as error:
        return {"failed": True, "changed": False, "msg": str(error)}


def _unknown(name: object) -> Json:
    return {"failed": True, "changed": False, "msg": f"graceful.azure.{name} does not run on Windows hosts."}


def answer_request(action: ActionBase, request: Json, task_vars: Variables, pause: Pause | None = None) -> Json:
    """What the module machine returns for a request to a machine that runs modules."""
    acts, looks = request.get("acts") or [], [request["look"]] if request.get("look") else []
    unknown = [each.get("call") for each in [*acts, *looks] if each.get("call") not in CALLS]
    if unknown:
        return _unknown(unknown[0])
    acts, looks = ([dict(each, args=_with_folder(each.get("args"))) for each in some] for some in (acts, looks))
    # What the first acts came to is told even if the host goes down before the last, or before the look.
    lost = (AnsibleConnectionFailure,) if acts else ()
    return handle({"acts": acts, "look": next(iter(looks), None)}, _machines(Windows(action, task_vars, pause), lost), _spec_of)


def _machines(windows: Windows, lost: tuple[type[Exception], ...] = ()) -> Callable[[Mapping[str, Any]], WindowsMachine]:
    return lambda params: WindowsMachine(windows, params, windows.check_mode, lost)


def _check(spec: Options, conditions: Options, args: Options) -> tuple[Options, str]:
    """The options in their types, and what is wrong with them."""
    checked = ArgumentSpecValidator(_spec_of(spec), **conditions).validate(_with_folder(args))
    return checked.validated_parameters, "; ".join(checked.error_messages)


def _spec_of(spec: Options) -> Options:
    """A path is one of the host, so nothing is made of it here."""
    spec = plain_paths(spec)
    if "default" in spec.get("state_dir", {}):
        spec["state_dir"]["default"] = STATE_DIR
    return spec


def _with_folder(args: Any) -> Any:
    if not isinstance(args, dict):
        return args  # which is a mistake
    given = {key: value for key, value in args.items() if not key.startswith("_ansible_")}
    if given.get("state_dir") == DEFAULT_STATE_DIR:
        given["state_dir"] = STATE_DIR  # in place of the default of other hosts
    return given


class WindowsMachine(Machine):
    """What duties need of a Windows host."""

    errors: tuple[type[Exception], ...] = (WindowsError,)

    def __init__(self, windows: Windows, params: Mapping[str, Any], check_mode: bool, lost: tuple[type[Exception], ...] = ()) -> None:
        super().__init__(None, params.get("state_dir") or STATE_DIR, check_mode, params.get("ports") or (), windows.monotonic, windows.pause)
        self._windows = windows
        self.lost = lost

    @staticmethod
    def refuses(kind: str) -> str:
        return "" if kind in DUTIES else f"{kind} is not possible on a Windows host; there is {', '.join(DUTIES)}"

    spec_of = staticmethod(plain_paths)

    def store(self) -> WindowsStore:
        return WindowsStore(self._windows, self.state_dir, dry=self.check_mode)

    def services(self) -> WindowsServices:
        return WindowsServices(self._windows)

    def iis(self) -> WindowsIis:
        return WindowsIis(self._windows)

    def health(self) -> WindowsHealth:
        return WindowsHealth(self._windows, self.state_dir)

    def boot_id(self) -> str:
        return self._windows.boot()

    def client(self, params: Mapping[str, Any]) -> WindowsImdsClient:
        return WindowsImdsClient(self._windows, dict(params))

    def clock(self) -> Callable[[], float]:
        return clock_of(self._windows)

    def now(self) -> str:
        return utc_now(self.clock()())

    def request(self, params: Mapping[str, Any]) -> Request:
        return Request.from_params(params, self.now)

    def answers(self, asked: Mapping[str, Any], seconds: float) -> str | None:
        return ask(self._windows, dict(asked), seconds)

    def host(self, params: Mapping[str, Any]) -> ThisWindowsHost:
        return ThisWindowsHost(self._windows, dict(params))

    def put_aside(self) -> Any:
        return put_aside(self._windows, self.state_dir, self.check_mode)

    def note(self, entry: Json) -> bool:
        # There is no journal to write to.
        return True

    def take(self, step: Callable[[], Json]) -> Json:
        return anew(step)


def _client(windows: Windows) -> Callable[[Options], WindowsImdsClient]:
    return lambda params: WindowsImdsClient(windows, params)


def _with_warnings(result: Json, warnings: Iterable[str]) -> Json:
    return dict(result, warnings=list(warnings)) if warnings else result


def _info(windows: Windows, params: Options) -> Json:
    return _with_warnings(*scheduled_events_info.run(params, _client(windows)))


def _approve(windows: Windows, params: Options) -> Json:
    return _with_warnings(*scheduled_events_approve.run(params, windows.check_mode, _client(windows)))


def _wait(windows: Windows, params: Options) -> Json:
    return _with_warnings(*scheduled_events_wait.run(params, windows.check_mode, _client(windows)))


def _duty(windows: Windows, params: Options) -> Json:
    return dict(duty.run(params, WindowsMachine(windows, params, windows.check_mode)))


def _connections(windows: Windows, params: Options) -> Json:
    def records(state_dir: str) -> list[Json]:
        windows.want(folder=state_dir)
        seen = windows.look(files=True)
        return records_in(read_files(seen), seen.folder.path)

    return dict(connections_info.run(params, windows.check_mode, lambda ports, told_apart: counted(windows, ports, told_apart), records), changed=False)


MODULES: dict[str, tuple[ModuleType, Options, Callable[[Windows, Options], Json]]] = {
    "connections_info": (connections_info, {}, _connections),
    "duty": (duty, {"required_if": duty.REQUIRED_IF}, _duty),
    "duty_info": (duty_info, {}, lambda windows, params: dict(duty_info.run(params, WindowsMachine(windows, params, True)))),
    "scheduled_events_approve": (scheduled_events_approve, {}, _approve),
    "scheduled_events_info": (scheduled_events_info, {}, _info),
    "scheduled_events_wait": (scheduled_events_wait, {}, _wait),
}
"""By name: the module, the conditions of its options, and what runs in its place."""
