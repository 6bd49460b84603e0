# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""HTTP as a Windows host sends it: the client of its metadata service, and its own answers.

Each request is one call of C(win_uri). That module also sends requests in check mode, so nothing here sends an approval then.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from ansible_collections.graceful.azure.plugins.module_utils._health_check import split_url, told_status
from ansible_collections.graceful.azure.plugins.module_utils._imds import (
    ImdsClient,
    ImdsUnreachableError,
    check_encoding,
    check_length,
    no_time_left,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.windows import Windows, as_list, as_number
from ansible_collections.graceful.azure.plugins.plugin_utils._text import as_text, first_line
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json, Options

MODULE = "ansible.windows.win_uri"
START = 3.0
"""Seconds that a Windows host may need to start a module. An approval is not sent unless they are left."""
HEADERS = {"Date": "date", "Retry-After": "retry_after", "Location": "location"}
"""Headers of an answer, and the keys under which the module returns them."""
_PREFIX = re.compile(r"Unhandled exception occurred when sending web request\. Exception: ")


class WindowsImdsClient(ImdsClient):
    """The client of the metadata service of a Windows host. Everything but the request itself is that of other hosts."""

    def __init__(self, windows: Windows, params: Options) -> None:
        super().__init__(params["imds_url"], params["api_version"], params["request_timeout"], monotonic=windows.monotonic, sleep=windows.pause)
        self._windows = windows

    def _exchange(self, method: str, url: str, deadline: float, request_timeout: float, document: Any) -> tuple[int, dict[str, str], bytes]:
        left = deadline - self.monotonic()
        if left <= (0 if document is None else START):
            raise no_time_left(method, url)
        args = {"url": url, "url_method": method, "headers": {"Metadata": "true"}, "return_content": True}
        if document is not None:
            if self._windows.check_mode:
                raise AssertionError("check mode sends nothing")
            args.update(body=json.dumps(document), content_type="application/json")
            left -= START
        result = _ask(self._windows, args, min(request_timeout, left))
        status = _status(result)
        if status is None:
            raise ImdsUnreachableError(f"{method} {url} failed: {_why(result)}.", url)
        check_encoding(method, url, status, as_text(result.get("content_encoding")))
        body = as_text(result.get("content")).encode("utf-8", "replace")
        check_length(method, url, status, body)
        headers = {name: as_text(next(iter(as_list(result.get(key))), "")) for name, key in HEADERS.items()}
        return status, {name: value for name, value in headers.items() if value}, body


def ask_url(windows: Windows, url: str, seconds: float, validate_certs: bool) -> str | None:
    """None if the URL answers the host with a status 2xx or 3xx, otherwise why not."""
    return status_of(windows, url, seconds, validate_certs)[1]


def status_of(windows: Windows, url: str, seconds: float, validate_certs: bool) -> tuple[int | None, str | None]:
    """The status of the answer, None if there is none, and what C(ask_url) returns."""
    split_url(url)
    result = _ask(windows, {"url": url, "url_method": "GET", "http_agent": "graceful.azure", "validate_certs": bool(validate_certs)}, seconds)
    status = _status(result)
    if status is None:
        return None, f"{url}: {_why(result)}"
    return status, told_status(url, status)


def ask_port(windows: Windows, host: str, port: int, seconds: float) -> str | None:
    """None if something accepts connections of the host on the port, otherwise why not."""
    whole = max(1, math.floor(seconds))
    result = windows.module("ansible.windows.win_wait_for", {"host": host, "port": port, "state": "started", "timeout": whole, "connect_timeout": whole})
    return f"port {port} of {host}: {first_line(result.get('msg'))}" if result.get("failed") else None


def _ask(windows: Windows, args: Options, seconds: float) -> Json:
    """The module takes whole seconds. No proxy is used, and no redirect is followed."""
    return windows.module(MODULE, dict(args, use_proxy=False, follow_redirects="none", url_timeout=max(1, math.floor(seconds))))


def _status(result: Json) -> int | None:
    """The status of the answer; None if there was none. The module fails if it is not 200, and returns it all the same."""
    try:
        status = int(as_number(result.get("status_code")))
    except (TypeError, ValueError):
        return None
    return status if 100 <= status <= 599 else None


def _why(result: Json) -> str:
    return _PREFIX.sub("", first_line(result.get("msg"))).rstrip(".")
