# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the service of a host answers, asked until it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._health_check import split_url
from ansible_collections.graceful.azure.plugins.module_utils._polling import check_seconds, poll

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import Machine

PAUSE_SECONDS = 1.0
REQUIRED_ONE_OF = [("url", "port")]


def argument_spec() -> dict[str, Any]:
    return {
        "url": {"type": "str"},
        "port": {"type": "int"},
        "host": {"type": "str", "default": "localhost"},
        "timeout": {"type": "float", "default": 0},
        "request_timeout": {"type": "float", "default": 2},
        "validate_certs": {"type": "bool", "default": True},
    }


def await_answer(params: Mapping[str, Any], machine: Machine) -> dict[str, Any]:
    """The result; with ``failed`` if there was no answer in time."""
    _check(params)
    timeout = 0 if machine.check_mode else params["timeout"]
    reason, elapsed = poll(lambda: machine.answers(params, params["request_timeout"]), lambda reason: reason is None, timeout, PAUSE_SECONDS)
    result = {"changed": False, "answered": reason is None, "reason": reason, "elapsed": round(elapsed, 3)}
    if timeout and reason is not None:
        result.update(failed=True, msg="No answer within %g s: %s" % (timeout, reason))
    return result


def _check(params: Mapping[str, Any]) -> None:
    """Raises ValueError where an option's value cannot be right."""
    check_seconds("timeout", params["timeout"])
    check_seconds("request_timeout", params["request_timeout"], least=0.1)
    if params["url"] is not None:
        split_url(params["url"])
    if params["port"] is not None and not 1 <= params["port"] <= 65535:
        raise ValueError("port: %d is not a TCP port, which goes from 1 to 65535" % params["port"])
