# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A server in a thread of the test's process."""

from __future__ import annotations

import http.server
import threading


class Serving:
    """One that serves until it is closed."""

    def serve(self, server):
        self._server = server
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    # Whole answers at once: in two pieces the second waits 40 ms for the receipt of the first.
    wbufsize = -1

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except OSError:
            # A client that had enough of it.
            self.close_connection = True

    def log_message(self, *_arguments):
        pass
