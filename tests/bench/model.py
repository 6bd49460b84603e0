# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Many hosts of which only what they answer is there: what a pass over them costs the controller alone.

Real hosts that this machine plays would be the limit themselves. Here one process answers for all of them, by the same C(handle) as a helper, and asks a
real HAProxy. Its metadata services are one document in its memory. Ansible reaches it by connections/model_machine.py, so it starts no Python and no ssh.
"""

from __future__ import annotations

import json
import select
import socketserver
import sys
import threading
from datetime import datetime, timezone
from pathlib import Path

from ansible_collections.graceful.azure.plugins.module_utils import _this_host
from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine
from ansible_collections.graceful.azure.plugins.module_utils._handle import handle
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import DEFAULT_STATE_DIR
from ansible_collections.graceful.azure.plugins.module_utils._imds import Answer, ImdsClient


class UnwantedError(BaseException):
    """Nobody waits for the answer any more."""


class Documents:
    """What the metadata services of all hosts answer."""

    def __init__(self, path):
        self.path = path
        self._read = (None, b"")

    def body(self):
        changed = self.path.stat().st_mtime_ns
        if changed != self._read[0]:
            self._read = (changed, self.path.read_bytes())
        return self._read[1]


class Client(ImdsClient):
    """It reads from memory and takes every approval. Nothing goes over a network."""

    documents = None

    def get_events(self, deadline=None, retry_until=0.0, request_timeout=None):
        return Answer(self.documents.body(), datetime.now(timezone.utc))

    def post_events(self, document, deadline=None, before_again=None):
        """Whoever approves is believed, and the event stands."""

    def _ask(self, *request, **more):
        raise AssertionError("a modelled machine asks nobody")


class Requests(socketserver.StreamRequestHandler):
    def handle(self):
        host, text = json.loads(self.rfile.readline())
        request = json.loads(text).get("request")
        if request is None:
            self.wfile.write(b"{}")
            return

        def still_wanted():
            if select.select([self.connection], [], [], 0)[0]:
                raise UnwantedError

        def machine(params):
            return Machine(None, params.get("state_dir") or DEFAULT_STATE_DIR, still_wanted=still_wanted)

        try:
            answer = dict(handle(request, machine), changed=False)
            self.wfile.write(json.dumps(answer, default=str).encode())
        except (UnwantedError, BrokenPipeError):
            pass


class Server(socketserver.ThreadingUnixStreamServer):
    request_queue_size = 1024
    daemon_threads = True


def main():
    """Plays the machines until it is ended. The arguments: the path of its socket, and that of the document."""
    path, document = sys.argv[1:]
    Client.documents = Documents(Path(document))
    _this_host.client_from_params = lambda params: Client(params["imds_url"], params["api_version"])
    threading.stack_size(1 << 20)
    with Server(path, Requests) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
