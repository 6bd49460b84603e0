# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A mail server at a free port of 127.0.0.1, which keeps what it gets."""

from __future__ import annotations

import email
import email.policy
import socketserver
import threading


class MailServer:
    """C(messages): what came, as parsed messages."""

    def __init__(self):
        self.messages = []
        server = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                self.wfile.write(b"220 here\r\n")
                for line in self.rfile:
                    word = line.strip().upper()
                    if word.startswith(b"EHLO"):
                        self.wfile.write(b"250-here\r\n250 8BITMIME\r\n")
                    elif word == b"DATA":
                        self.wfile.write(b"354 go on\r\n")
                        self.take()
                    elif word == b"QUIT":
                        self.wfile.write(b"221 bye\r\n")
                        return
                    else:
                        self.wfile.write(b"250 ok\r\n")

            def take(self):
                lines = []
                for line in self.rfile:
                    if line == b".\r\n":
                        break
                    lines.append(line)
                server.messages.append(email.message_from_bytes(b"".join(lines), policy=email.policy.default))
                self.wfile.write(b"250 kept\r\n")

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        # Who has left without a word is no error.
        self._server.handle_error = lambda *_arguments: None
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
