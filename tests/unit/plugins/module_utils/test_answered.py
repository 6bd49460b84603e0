# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the kernel tells of connections on which something has come back."""

from __future__ import annotations

import os
import socket
import time

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._answered import answered


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_what_has_come_back_and_what_was_sent_since(family, address):
    with socket.create_server((address, 0), family=family) as server, socket.create_connection(server.getsockname()[:2]) as client:
        inode = str(os.fstat(client.fileno()).st_ino)
        with server.accept()[0] as other:
            client.sendall(b"question")
            other.recv(100)
            assert answered({inode}) == (set(), set())
            time.sleep(0.02)
            other.sendall(b"answer")
            client.recv(100)
            assert answered({inode}) == ({inode}, {inode})
            time.sleep(0.02)
            client.sendall(b"another question")
            assert answered({inode}) == ({inode}, set())
            assert answered({"1"}) == (set(), set())
