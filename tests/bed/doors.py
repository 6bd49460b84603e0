# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The metadata service at 169.254.169.254 inside each guest's network namespace.

The simulator runs outside the guests, as the service does. Each guest has a door to it: a socket that listens in the
guest's namespace, whose connections are carried to that VM's port of the simulator. A door does not go through the
guest's network card, so it is open while the guest's network is silent.
"""

from __future__ import annotations

import asyncio

from tests.bed import kernel

ADDRESS = "169.254.169.254"
PORT = 80


async def open_door(namespace, port):
    """Carry connections from a namespace's metadata address to a local port of this process's own network."""
    kernel.ip(f"address add {ADDRESS}/32 dev lo", namespace=namespace)

    async def carry(reader, writer):
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))

    return await asyncio.start_server(carry, sock=kernel.listening_socket(namespace, ADDRESS, PORT))


async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass  # one side has gone, so the other is told
    writer.close()
