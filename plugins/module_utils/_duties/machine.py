# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What duties need of the machine on which this runs."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._hold_records import DEFAULT_STATE_DIR, Request, Store, utc_now

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._timeout import RunCommand

    Errors = tuple[type[Exception], ...]


class Machine:
    """The machine on which this runs. Another platform has a class of its own."""

    # What else may go wrong in a duty there.
    errors: Errors = ()
    # What says that it cannot be reached any more.
    lost: Errors = ()

    def __init__(
        self,
        run_command: RunCommand | None = None,
        state_dir: str = DEFAULT_STATE_DIR,
        check_mode: bool = False,
        ports: Iterable[int] = (),
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        still_wanted: Callable[[], None] = lambda: None,
    ) -> None:
        """``still_wanted``: what a wait calls about twice a second. It ends the wait, by an exception, if nobody waits for the answer any more."""
        self.state_dir = state_dir
        self.check_mode = check_mode
        # Those on which the host serves.
        self.ports = list(ports)
        self.monotonic = monotonic
        self.sleep = sleep
        self.still_wanted = still_wanted
        self._run_command = run_command

    @property
    def run_command(self) -> RunCommand:
        if self._run_command is None:
            raise ValueError("This duty is one of a machine, and nothing runs on it here.")
        return self._run_command

    def rest(self, deadline: float, pause: float, sooner: float = math.inf) -> bool:
        """Wait until the next look of one that waits, which may be due sooner. Returns whether there was time for all of the pause."""
        left = deadline - self.monotonic()
        self.still_wanted()
        self.sleep(max(0.0, min(pause, left, sooner)))
        return left >= pause

    @staticmethod
    def refuses(kind: str) -> str:
        """Why there is no duty of this type on such a machine; empty if there is."""
        return "IIS runs on Windows hosts only, and this is none" if kind == "iis" else ""

    @staticmethod
    def spec_of(options: dict[str, Any]) -> dict[str, Any]:
        """The argument specification of options whose paths are on this machine."""
        return options

    # What only some duties need is loaded by those: each run of a module starts Python anew.

    def store(self) -> Any:
        """Its records."""
        return Store(self.state_dir, dry=self.check_mode)

    def services(self) -> Any:
        """What knows its services."""
        from ansible_collections.graceful.azure.plugins.module_utils._systemd import Systemd

        return Systemd(self.run_command)

    def iis(self) -> Any:
        """What knows its IIS."""
        raise ValueError(self.refuses("iis") + ".")

    def health(self) -> Any:
        """What holds of its health answers need."""
        from ansible_collections.graceful.azure.plugins.module_utils._health_probe import Health

        return Health(self.run_command)

    def tools(self) -> Any:
        """How its clusters are asked."""
        from ansible_collections.graceful.azure.plugins.module_utils._cluster import Tools

        return Tools()

    def boot_id(self) -> str:
        from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import this_boot

        return this_boot()

    def client(self, params: Mapping[str, Any]) -> Any:
        """The client of its metadata service."""
        from ansible_collections.graceful.azure.plugins.module_utils._imds import client_from_params

        return client_from_params(params)

    def clock(self) -> Callable[[], float]:
        """Its clock, in seconds since 1970."""
        return time.time

    def now(self) -> str:
        """The time by its clock, as its records have it."""
        return utc_now()

    def request(self, params: Mapping[str, Any]) -> Request:
        """To put or release holds on it."""
        return Request.from_params(params)

    def answers(self, asked: Mapping[str, Any], seconds: float) -> str | None:
        """None if the port and the URL answer, otherwise why not."""
        from ansible_collections.graceful.azure.plugins.module_utils._health_check import ask

        return ask(asked, seconds)

    def host(self, params: Mapping[str, Any]) -> Any:
        """What a look at a host reads of it."""
        from ansible_collections.graceful.azure.plugins.module_utils._this_host import ThisHost

        return ThisHost(params, self.check_mode)

    def put_aside(self) -> Any:
        """Put damaged records aside. Returns those, and the problems that are left."""
        from ansible_collections.graceful.azure.plugins.module_utils._hold_records import put_aside

        return put_aside(self.state_dir, self.check_mode)

    def note(self, entry: dict[str, Any]) -> bool:
        """Write an entry to its journal, if it has one. Returns whether that was done."""
        from ansible_collections.graceful.azure.plugins.module_utils import _journald

        return _journald.write(entry)

    def take(self, step: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Take a step, and anew where nothing locks the records and somebody else has changed one meanwhile. The step makes its own store."""
        # Here, the folder of the records is locked.
        return step()
