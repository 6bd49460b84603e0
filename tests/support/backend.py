# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A small web server: the application that the load asks for.

``GET /`` is answered at once, ``GET /slow`` after two seconds. The answer to ``GET /long`` begins at once and ends after four
seconds. ``GET /endless`` says something every second and never comes to its end. Connections are kept open, as an application behind a
balancer does, or closed after so many answers as web servers also do. It knows nothing of events: it is killed, stopped and started again
from outside, as a VM is.
"""

import argparse
import asyncio

SLOW_SECONDS = 2.0
LONG_SECONDS = 4.0
BACKLOG = 4096


class WebConnection(asyncio.Protocol):
    """One HTTP/1.1 connection; requests have no body."""

    def __init__(self, name, most=None):
        self.left = most
        self.body = "answered by {0}\n".format(name).encode()
        self.head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-Backend: {0}\r\nContent-Length: {1}\r\n".format(name, len(self.body)).encode()
        self.received = b""
        self.transport = None

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.received += data
        while b"\r\n\r\n" in self.received:
            head, self.received = self.received.split(b"\r\n\r\n", 1)
            closing = b"connection: close" in head.lower()
            if head.startswith(b"GET /endless "):
                self.transport.write(self.head.split(b"Content-Length")[0] + b"Transfer-Encoding: chunked\r\n\r\n")
                self.go_on()
            elif head.startswith(b"GET /slow "):
                asyncio.get_running_loop().call_later(SLOW_SECONDS, self.answer, closing)
            elif head.startswith(b"GET /long "):
                self.answer(closing, LONG_SECONDS)
            else:
                self.answer(closing)

    def go_on(self):
        if not self.transport.is_closing():
            self.transport.write(b"1\r\n.\r\n")
            asyncio.get_running_loop().call_later(1.0, self.go_on)

    def answer(self, closing, seconds=0.0):
        """Answer, with the end of the body so many seconds after its beginning."""
        if self.transport.is_closing():
            return
        if self.left is not None:
            self.left -= 1
            closing = closing or self.left <= 0
        head = self.head + (b"Connection: close\r\n\r\n" if closing else b"\r\n")
        if seconds:
            self.transport.write(head + self.body[:1])
            asyncio.get_running_loop().call_later(seconds, self.finish, self.body[1:], closing)
        else:
            self.finish(head + self.body, closing)

    def finish(self, data, closing):
        if not self.transport.is_closing():
            self.transport.write(data)
            if closing:
                self.transport.close()


async def serve(name, address, port, most):
    # The world keeps the port reserved with a socket of its own while this server is down, hence reuse_port.
    server = await asyncio.get_running_loop().create_server(
        lambda: WebConnection(name, most), address, port, backlog=BACKLOG, reuse_address=True, reuse_port=True
    )
    await server.serve_forever()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--name", required=True)
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--requests-per-connection", type=int, help="close a connection after so many answers")
    arguments = parser.parse_args()
    try:
        asyncio.run(serve(arguments.name, arguments.address, arguments.port, arguments.requests_per_connection))
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
