# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A web server in a thread of the test, whose answers the test decides. The one that is a process, and may be killed, is backend.py."""

from __future__ import annotations

import http.server
import time

from tests.support.serving import Serving


class Web(Serving):
    """A web server that answers with its status, if need be later. ``protocol`` HTTP/1.0 closes the connection after each answer."""

    def __init__(self, protocol="HTTP/1.1"):
        web = self
        web.status = 200
        web.held = {}

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = protocol

            def do_GET(self):
                # Until the test lets it go, or as long as the query says.
                query = self.path.partition("?")[2]
                if query in web.held:
                    web.held[query].wait(600)
                else:
                    time.sleep(float(query or 0))
                self.send_response(web.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_POST = do_GET

            def log_message(self, *_arguments):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        # A connection that HAProxy resets is none of the tests' business.
        self._server.handle_error = lambda *_arguments: None
        self._server.socket.listen(64)
        self.port = self._server.server_address[1]
        self.serve(self._server)
