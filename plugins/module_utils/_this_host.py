# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a look at a host reads of the machine on which it runs."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._addresses import network_of, own_addresses
from ansible_collections.graceful.azure.plugins.module_utils._connections import counted, udp_among
from ansible_collections.graceful.azure.plugins.module_utils._events import READ_SECONDS
from ansible_collections.graceful.azure.plugins.module_utils._file_systems import identity_of
from ansible_collections.graceful.azure.plugins.module_utils._health_check import ANSWER_SECONDS, ask, ask_url
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import check_writable, list_records, utc_now
from ansible_collections.graceful.azure.plugins.module_utils._imds import client_from_params
from ansible_collections.graceful.azure.plugins.module_utils._proc import read_boot_id

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._connections import Counted
    from ansible_collections.graceful.azure.plugins.module_utils._imds import ImdsClient

# Seconds between two counts of the connections.
LOOK_SECONDS = 0.5


class ThisHost:
    read_seconds = READ_SECONDS
    look_seconds = LOOK_SECONDS

    def __init__(self, params: Mapping[str, Any], check_mode: bool) -> None:
        self.params = params
        self.check_mode = check_mode

    def records(self) -> list[dict[str, Any]]:
        """Every record, also those of other kinds of machines. Raises HoldError, also if no record could be written."""
        check_writable(self.params["state_dir"], not self.check_mode)
        return list_records(self.params["state_dir"])

    def client(self) -> ImdsClient:
        return client_from_params(self.params)

    def connections(self) -> Counted:
        return counted(self.params["ports"], told_apart=self.params["told_apart"])

    def ask(self) -> str | None:
        """None if what the option ask names answers, otherwise why not."""
        # The host's own duties may count its new connections, and this is none.
        return ask(self.params["ask"], ANSWER_SECONDS, of_url=functools.partial(ask_url, leave_no_trace=True))

    def facts(self) -> dict[str, Any]:
        folder = self.params["state_dir"]
        return {
            "time": utc_now(),
            "addresses": own_addresses(),
            "network": network_of(),
            "state_folder": {"path": folder, "id": identity_of(folder)},
            "boot_id": read_boot_id(),
            "udp": udp_among(self.params["ports"]),
        }
