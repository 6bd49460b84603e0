# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the service of a host answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._health_check import asked_spec, split_url
from ansible_collections.graceful.azure.plugins.module_utils._polling import check_seconds
from ansible_collections.graceful.azure.plugins.module_utils._spellings import check_port

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine

REQUIRED_ONE_OF = [("url", "port")]


def argument_spec() -> dict[str, Any]:
    return dict(asked_spec(), request_timeout={"type": "float", "default": 2})


def ask_once(params: Mapping[str, Any], machine: Machine) -> dict[str, Any]:
    """That there is no answer is a result, too."""
    _check(params)
    reason = machine.answers(params, params["request_timeout"])
    return {"changed": False, "answered": reason is None, "reason": reason}


def _check(params: Mapping[str, Any]) -> None:
    """Raises ValueError where an option's value cannot be right."""
    check_seconds("request_timeout", params["request_timeout"], least=0.1)
    if params["url"] is not None:
        split_url(params["url"])
    if params["port"] is not None:
        check_port("port", params["port"])
