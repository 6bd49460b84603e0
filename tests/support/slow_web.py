# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A web server in the process of the test, with requests under way for as long as the test wants."""

from __future__ import annotations

import http.server
import threading

from tests.support.patience import patient


class SlowWeb(http.server.ThreadingHTTPServer):
    """It answers with a text. Answers to /slow come when C(go) is set."""

    daemon_threads = True
    request_queue_size = 50

    def __init__(self, text="ok"):
        self.go = threading.Event()
        web = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                if self.path == "/slow":
                    web.go.wait(patient(20))
                self.send_response(200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *arguments):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.port = self.server_address[1]
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()

    def handle_error(self, request, client_address):
        pass  # a balancer may hang up

    def close(self):
        self.go.set()
        self.shutdown()
        self.thread.join()
        self.server_close()
