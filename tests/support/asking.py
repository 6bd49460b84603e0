# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Asking metadata services and the simulator's control address, one request at a time."""

from __future__ import annotations

import http.client
import json
import socket
import types
import urllib.parse

from tests.support.patience import patient

METADATA = types.MappingProxyType({"Metadata": "true"})
EVENTS_PATH = "/metadata/scheduledevents"


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def json(self):
        return json.loads(self.body)


def address_of(url):
    parts = urllib.parse.urlsplit(url)
    return parts.hostname, parts.port


def ask(url, method="GET", path=EVENTS_PATH, version="2020-07-01", query="", headers=METADATA, body=None):
    """One request; a body that is no string or bytes is sent as JSON."""
    if version is not None:
        query = "&".join(filter(None, [f"api-version={version}", query]))
    if body is not None and not isinstance(body, (str, bytes)):
        body = json.dumps(body)
    connection = http.client.HTTPConnection(*address_of(url), timeout=patient(10))
    try:
        connection.request(method, f"{path}?{query}" if query else path, body, headers)
        return Answer(connection.getresponse())
    finally:
        connection.close()


def control(simulator, method, path, body=None):
    return ask(simulator.control, method, path, version=None, headers={}, body=body)


def document(url, version="2020-07-01"):
    answer = ask(url, version=version)
    assert answer.status == 200
    return answer.json


def approve(url, *event_ids, version="2020-07-01", headers=METADATA, **more):
    return ask(url, "POST", version=version, headers=headers, body={"StartRequests": [{"EventId": event_id} for event_id in event_ids], **more})


def talk(url, *sent):
    """Everything that comes back for bytes sent raw by a client that sends no more."""
    with socket.create_connection(address_of(url), timeout=patient(5)) as sock:
        for data in sent:
            sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        return everything_from(sock)


def everything_from(sock):
    received = b""
    while True:
        data = sock.recv(65536)
        if not data:
            return received
        received += data


def status_of(received):
    return int(received.split(b" ", 2)[1]) if received else None
