# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keeps two connections to a port of IPv4's loopback open until the file "end" is in the folder. The file "port" has the port's number.

It goes on listening: where nobody does, connections cannot be counted. It ends after a minute.
"""

from __future__ import annotations

import os
import socket
import sys
import time

folder = sys.argv[1]
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen(2)
clients = [socket.create_connection(listener.getsockname()) for _number in range(2)]
servers = [listener.accept()[0] for _client in clients]
with open(os.path.join(folder, "port.new"), "w") as file:
    file.write(str(listener.getsockname()[1]))
os.rename(os.path.join(folder, "port.new"), os.path.join(folder, "port"))
deadline = time.monotonic() + 60
while time.monotonic() < deadline and not os.path.exists(os.path.join(folder, "end")):
    time.sleep(0.1)
for each in clients + servers:
    each.close()
time.sleep(max(0.0, deadline - time.monotonic()))
