# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.
# Do not use this from other collections or standalone plugins/modules!

"""What duties need of the machine on which this runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._hold_records import DEFAULT_STATE_DIR, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import Errors
    from ansible_collections.graceful.azure.plugins.module_utils._timeout import RunCommand


class ThisMachine:
    """The machine on which this runs. Another platform has a class of its own."""

    errors: Errors = ()

    def __init__(
        self,
        run_command: RunCommand | None = None,
        state_dir: str = DEFAULT_STATE_DIR,
        check_mode: bool = False,
        ports: Iterable[int] = (),
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.state_dir = state_dir
        self.check_mode = check_mode
        self.ports = list(ports)
        self.monotonic = monotonic
        self.sleep = sleep
        self._run_command = run_command

    @property
    def run_command(self) -> RunCommand:
        if self._run_command is None:
            raise ValueError("This duty is one of a machine, and nothing runs on it here.")
        return self._run_command

    @staticmethod
    def refuses(kind: str) -> str:
        return "IIS runs on Windows hosts only, and this is none" if kind == "iis" else ""

    @staticmethod
    def spec_of(options: dict[str, Any]) -> dict[str, Any]:
        return options

    # What only some duties need is loaded by those: each run of a module starts Python anew.

    def store(self) -> Any:
        return Store(self.state_dir, dry=self.check_mode)

    def services(self) -> Any:
        from ansible_collections.graceful.azure.plugins.module_utils._systemd import Systemd

        return Systemd(self.run_command)

    def iis(self) -> Any:
        raise NotImplementedError("no duty here needs it")

    def health(self) -> Any:
        from ansible_collections.graceful.azure.plugins.module_utils._duties.health_probe import LookedAt

        return LookedAt(self.run_command)

    def tools(self) -> Any:
        from ansible_collections.graceful.azure.plugins.module_utils._cluster import Tools

        return Tools()

    def boot_id(self) -> str:
        from ansible_collections.graceful.azure.plugins.module_utils._proc import read_boot_id

        return read_boot_id()

    def take(self, step: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        # The folder of the records is locked.
        return step()
