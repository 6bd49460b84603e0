# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The responder to health probes: what it costs, beside a hand-written one on Python's http.server and beside nginx, which do the same.

Each asks the same application for its health, looks for the file that holds the host, and closes the connection after each answer, as it does for a
load balancer.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

from tests.bench.stage import StageError, cpu_of
from tests.support import backend, nginx
from tests.support.checkout import ROOT
from tests.support.patience import patient, until
from tests.support.ports import free_port
from tests.support.processes import Processes, descendants

PROGRAM = ROOT / "roles" / "load_balancer" / "files" / "probe_responder.py"
# As somebody would write it in a quarter of an hour.
HAND_WRITTEN = """
import http.server, os, sys, urllib.request
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        try:
            status = 503 if os.path.exists(sys.argv[3]) else urllib.request.urlopen(sys.argv[2], timeout=4).status
        except OSError:
            status = 503
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *words):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"""
NGINX = "keepalive_timeout 0; server {{ listen 127.0.0.1:{port}; location / {{ if (-f {hold}) {{ return 503; }} proxy_pass {url}; }} }}"
# Asks so many times, one after the other or with a pause, on a new connection each; prints the seconds that it took, and how many answers were 200.
PROBES = """
import json, socket, sys, time
port, count, pause = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
good, began = 0, time.monotonic()
for number in range(count):
    with socket.create_connection(("127.0.0.1", port), 10) as probe:
        probe.sendall(b"GET / HTTP/1.1\\r\\nHost: probe\\r\\nConnection: close\\r\\n\\r\\n")
        answer = b"".join(iter(lambda: probe.recv(4096), b""))
    good += answer.split(b" ", 2)[1] == b"200"
    time.sleep(max(0.0, began + (number + 1) * pause - time.monotonic()) if pause else 0)
print(json.dumps({"seconds": time.monotonic() - began, "good": good}))
"""
WARM_UP, MANY, AT_ONCE = 50, 2000, 3
SPAN, PER_SECOND = 20, 5


def probe(port, count, pause=0.0, at_once=1):
    """Answers a second, of so many who ask at once."""
    command = [sys.executable, "-I", "-S", "-c", PROBES, str(port), str(count), str(pause)]
    clients = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _each in range(at_once)]
    told = [json.loads(client.communicate(timeout=patient(120))[0]) for client in clients]
    if sum(each["good"] for each in told) != count * at_once:
        raise StageError(f"port {port}: not every probe was answered with 200: {told}")
    return count * at_once / max(each["seconds"] for each in told)


def megabytes(pid):
    """The most memory that it and what it started have had."""
    peaks = []
    for each in (pid, *descendants(pid)):
        with open(f"/proc/{each}/status", encoding="utf-8") as status:
            peaks += [int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM")]
    return sum(peaks)


def measure(pid, port):
    probe(port, WARM_UP)
    before = cpu_of(pid)
    probe(port, MANY)
    each = (cpu_of(pid) - before) / MANY
    before, began = cpu_of(pid), time.monotonic()
    probe(port, SPAN * PER_SECOND, 1 / PER_SECOND)
    share = (cpu_of(pid) - before) / (time.monotonic() - began)
    most = probe(port, MANY, at_once=AT_ONCE)
    return {"milliseconds": 1000 * each, "percent": 100 * share, "most": most, "megabytes": megabytes(pid)}


def responder(stage):
    """CPU for one probe and at five a second, memory, and how many probes it answers."""
    folder = stage.folder / "responder"
    folder.mkdir()
    processes, told = Processes(folder), {}
    application, hold = free_port(), folder / "out"
    url = f"http://127.0.0.1:{application}/"
    ports = {"ours": free_port(), "http.server": free_port(), "nginx": free_port()}
    commands = {
        "ours": (sys.executable, "-I", "-S", PROGRAM, "--url", url, "--hold", hold, "--port", ports["ours"]),
        "http.server": (sys.executable, "-I", "-c", HAND_WRITTEN, ports["http.server"], url, hold),
    }
    web_server = None
    try:
        processes.start("application", sys.executable, backend.__file__, "--name", "application", "--port", application)
        until(lambda: answers(application), 15)
        for who, command in commands.items():
            process = processes.start(who, *command)
            until(lambda port=ports[who]: answers(port), 15)
            told[who] = measure(process.pid, ports[who])
            processes.stop(process)
        if nginx.PROGRAM:
            web_server = nginx.Nginx(folder, NGINX.format(port=ports["nginx"], hold=hold, url=url))
            told["nginx"] = measure(web_server.pid, ports["nginx"])
    finally:
        if web_server:
            web_server.stop()
        processes.close()
    peers = [who for who in told if who != "ours"]

    def figure(what, key, words, ok=None):
        return {
            "what": f"the responder: {what}",
            "ours": words.format(told["ours"][key]),
            "peer": ", ".join(f"{who} {words.format(told[who][key])}" for who in peers),
            "ok": ok,
            "figures": told,
        }

    return [
        figure("CPU for one probe, the application asked each time", "milliseconds", "{:.2f} ms"),
        figure(f"CPU at {PER_SECOND} probes a second", "percent", "{:.2f} % of a core"),
        figure("memory", "megabytes", "{:.1f} MB", told["ours"]["megabytes"] <= 64),
        figure(f"most probes a second ({AT_ONCE} who ask at once, on the same cores)", "most", "{:,.0f}"),
    ]


def answers(port):
    try:
        probe(port, 1)
    except (StageError, ValueError, subprocess.SubprocessError):
        return False
    return True
