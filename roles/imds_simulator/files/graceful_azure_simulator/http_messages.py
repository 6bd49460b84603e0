# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests and responses of HTTP as values. Pure."""

from __future__ import annotations

import json
import re
import urllib.parse

from .refusals import Refused

# What the name of a header or method may consist of, and the value of a header: regular expressions.
TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
HEADER_TEXT = r"[\t\x20-\x7e\xa0-\xff]*"

JSON_TYPE = {"Content-Type": "application/json; charset=utf-8"}
HTML_TYPE = {"Content-Type": "text/html; charset=utf-8"}


class Request:
    """A request. ``problem`` is the refusal if its body could not be read."""

    def __init__(self, method, target, headers):
        self.method = method
        self.target = target
        self.path, _mark, query = re.sub(r"^(?i:https?)://[^/?]*", "", target).partition("?")
        self.query = [(name.lower(), value) for name, value in urllib.parse.parse_qsl(query, keep_blank_values=True)]
        self.headers = headers  # lists of values by lower-case name
        self.body = b""
        self.problem = None
        self.hung_up = None  # a function that says whether the client is gone

    def parameter(self, name):
        return next((value for key, value in self.query if key == name), "")


class Response:
    """An answer. Its own headers replace those that the connection adds."""

    def __init__(self, status, body=b"", headers=None):
        self.status = status
        self.body = body
        self.headers = headers or {}
        self.sending = {}  # what a fault does to the sending
        self.clock_off = 0  # seconds by which a fault makes the header Date wrong


def json_response(status, value, headers=None):
    return Response(status, json.dumps(value).encode(), {**JSON_TYPE, **(headers or {})})


def refusal(refused):
    """The answer with the error of a refusal."""
    return json_response(refused.status, {"error": str(refused), **refused.more}, refused.headers)


def allow(request, *methods):
    """Refuses every other method."""
    if request.method not in methods:
        raise Refused(f"The methods here are {', '.join(methods)}.", 405, {"Allow": ", ".join(methods)})
