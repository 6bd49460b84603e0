# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Servers in threads of the test's process."""

from __future__ import annotations

import http.server
import ssl
import subprocess
import sys
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


class Server(http.server.ThreadingHTTPServer):
    """At a port of 127.0.0.1, by default a free one. Clients may come many at once, and hang up.

    C(listening): a socket that listens already. C(tls): a file with certificate and key.
    """

    request_queue_size = 128

    def __init__(self, handler, port=0, listening=None, tls=None):
        super().__init__(("127.0.0.1", port), handler, bind_and_activate=listening is None)
        if listening is not None:
            self.socket.close()
            self.socket = listening
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls)
            self.encrypt(context)

    def encrypt(self, context):
        # The handshake belongs to the connection's own thread.
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Handler(http.server.BaseHTTPRequestHandler):
    # Whole answers at once: in two pieces the second waits 40 ms for the receipt of the first.
    wbufsize = -1

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except OSError:
            # A client that had enough of it.
            self.close_connection = True

    def body(self):
        """What came with the request."""
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def reply(self, status, content=b"", headers=()):
        """C(headers): more of them, or others in place of those that every answer has."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **dict(headers)}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_arguments):
        pass


def certificate_and_key(folder, name, *more):
    """The files of a certificate and its key. C(more): words of openssl."""
    cert, key = folder / f"{name}.crt", folder / f"{name}.key"
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    words = ["openssl", "req", "-x509", *kind, "-keyout", str(key), "-out", str(cert), *more]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return cert, key
