# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two web servers on free ports of loopback, which answer with their names, web1 and web2. Under /slow they wait until the file "finish" is there.

The file "ports" gets their ports. They end after ten minutes.
"""

from __future__ import annotations

import os
import socketserver
import threading
import time
from http.server import BaseHTTPRequestHandler

ends = time.monotonic() + 600


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        while self.path == "/slow" and time.monotonic() < ends and not os.path.exists("finish"):
            time.sleep(0.1)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.server.name.encode())

    def log_message(self, *_what):
        pass


# Not http.server's own, which asks a name server who this machine is.
class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True


servers = []
for name in ("web1", "web2"):
    server = Server(("127.0.0.1", 0), Handler)
    server.name = name
    threading.Thread(target=server.serve_forever, daemon=True).start()
    servers.append(server)
with open("ports.new", "w") as file:
    file.write(" ".join(str(server.server_address[1]) for server in servers))
os.rename("ports.new", "ports")
time.sleep(600)
