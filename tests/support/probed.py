# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The application of backend.py with a health answer that depends on a file, as applications behind a probe have it.

``GET /health`` answers 503 while the file is there (``--means out``) or is missing (``--means in``). While it does, each answer of the application
closes its connection, so that kept connections end. ``--probe-port`` is one more port for the health answer.
"""

import argparse
import asyncio
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from backend import BACKLOG, WebConnection


class ProbedConnection(WebConnection):
    def __init__(self, name, fails):
        super().__init__(name)
        self.fails = fails

    def data_received(self, data):
        if data.startswith(b"GET /health "):
            status = b"503 Service Unavailable" if self.fails() else b"200 OK"
            self.transport.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            self.transport.close()
        else:
            super().data_received(data)

    def answer(self, closing, seconds=0.0):
        super().answer(closing or self.fails(), seconds)


async def serve(arguments):
    def fails():
        return os.path.exists(arguments.file) == (arguments.means == "out")

    loop = asyncio.get_running_loop()
    for port in filter(None, (arguments.port, arguments.probe_port)):
        server = await loop.create_server(
            lambda: ProbedConnection(arguments.name, fails), arguments.address, port, backlog=BACKLOG, reuse_address=True, reuse_port=True
        )
    await server.serve_forever()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--name", required=True)
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--probe-port", type=int)
    parser.add_argument("--file", required=True)
    parser.add_argument("--means", default="out")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
