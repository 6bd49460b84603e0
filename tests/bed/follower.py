# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tells the balancer of tests/bed/front.py what Azure's would do for the administrative states of the pool.

    follower.py URL CA-FILE SOCKET ADDRESS=SERVER ...

Down: no new connections, and open ones live on. Up: the probe does not count. None, or no state: the probe decides.
Each change is one line of JSON on standard output.
"""

import http.client
import json
import socket
import ssl
import sys
import time
import urllib.parse

POLL_SECONDS = 0.2
COMMANDS = {
    "Down": ("enable health probe/{0}", "set server web/{0} state drain"),
    "Up": ("disable health probe/{0}", "set server probe/{0} health up", "set server web/{0} state ready"),
    "None": ("enable health probe/{0}", "set server web/{0} state ready"),
}


def read_states(line):
    """The administrative states in the pool, by IP address."""
    line.request("GET", "/control/load-balancers")
    (balancer,) = json.loads(line.getresponse().read())
    (pool,) = balancer["properties"]["backendAddressPools"]
    members = pool["properties"]["loadBalancerBackendAddresses"]
    return {member["properties"]["ipAddress"]: member["properties"].get("adminState", "None") for member in members}


def tell(path, command):
    """One command for the balancer, which answers with a blank line where all is well."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        client.connect(path)
        client.sendall(command.encode() + b"\n")
        if answer := b"".join(iter(lambda: client.recv(4096), b"")).strip():
            raise OSError(f"{command}: {answer.decode()}")


def follow(url, ca_file, path, servers):
    line = http.client.HTTPSConnection(urllib.parse.urlsplit(url).netloc, timeout=5, context=ssl.create_default_context(cafile=ca_file))
    # As the balancer starts.
    known = dict.fromkeys(servers, "None")
    while True:
        for address, state in read_states(line).items():
            if state != known[address]:
                for command in COMMANDS[state]:
                    tell(path, command.format(servers[address]))
                known[address] = state
                print(json.dumps({"time": time.time(), "server": servers[address], "admin": state}), flush=True)
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    follow(*sys.argv[1:4], dict(pair.split("=") for pair in sys.argv[4:]))
