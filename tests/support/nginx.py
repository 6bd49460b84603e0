# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real nginx with a configuration of its own, and what a look at one tells of a line."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.patience import until
from tests.support.processes import children, command_of, find_program

PROGRAM = os.environ.get("GRACEFUL_AZURE_NGINX") or find_program("nginx")
STREAM_MODULE = Path("/usr/lib/nginx/modules/ngx_stream_module.so")
NEEDED = pytest.mark.skipif(not PROGRAM, reason="no nginx: apt-get install nginx-light libnginx-mod-stream")
STREAM_NEEDED = pytest.mark.skipif(not STREAM_MODULE.exists(), reason="no module stream of nginx: apt-get install libnginx-mod-stream")
START_SECONDS = 20
# When a process started is known in hundredths of a second, and when a file was written in not much less.
TICKS = 0.02

TOP = """\
{modules}
{user}
pid {folder}/nginx.pid;
error_log {folder}/error.log notice;
worker_processes 2;
{more}
events {{ worker_connections 1024; }}
"""
# The names of nginx's own folders for what it cannot keep in memory.
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def line_told(server, **more):
    """A server in an upstream as a look tells of it: in service and not held. ``more``: other values of its fields."""
    line = {"context": "http", "upstream": "shop", "server": server, "file": "/up.conf", "line": 2, "text": f"server {server};", "double": False}
    state = {
        "down": False,
        "backup": False,
        "loaded": True,
        "in_service": True,
        "connections": 0,
        "own_ports": {},
        "former": 0,
        "uncounted": None,
        "idle": False,
    }
    hold = {"condition": "none", "found": None, "left": None, "held_by": [], "noted": True, "restoring": False, "quiet_for": 0.0}
    found = {"for_server": None, "unresolved": None, "never_out": None, "silent": None, "leads_to": []}
    return {**line, **state, **hold, **found, **more}


class Nginx:
    """nginx in the foreground. ``files`` are further files of the configuration, by their paths in the folder.

    ``start`` starts a process as Processes.start does. Whoever gives that ends the process, too.
    """

    def __init__(self, folder, http="", stream="", files=None, more="", start=None):
        self.folder = Path(folder)
        self._start_process = start or self._popen
        self.configuration = self.folder / "nginx.conf"
        self._process = None
        for name, text in (files or {}).items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        modules = f"load_module {STREAM_MODULE};" if stream and STREAM_MODULE.exists() else ""
        top = TOP.format(modules=modules, user="user root;" if os.geteuid() == 0 else "", folder=self.folder, more=more)
        temporary = "".join(f"  {name}_temp_path {self.folder}/{name};\n" for name in TEMPORARY if name in ("client_body", "proxy"))
        # A slow machine's requests last longer than nginx would wait: 60 s.
        text = top + f"http {{\n  access_log off;\n  proxy_read_timeout 10m;\n{temporary}{http}\n}}\n" + (f"stream {{\n{stream}\n}}\n" if stream else "")
        self.configuration.write_text(text)
        self.start()

    def start(self):
        time.sleep(TICKS)
        words = ("-p", str(self.folder), "-c", str(self.configuration), "-e", str(self.folder / "error.log"), "-g", "daemon off;")
        self._process = self._start_process("nginx", PROGRAM, *words)
        until(lambda: self.workers() or self._process.poll() is not None, START_SECONDS, self._said, pause=0.02)
        assert self._process.poll() is None, self._said()
        time.sleep(TICKS)

    def _popen(self, _name, *command):
        with (self.folder / "output.log").open("ab") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def _said(self):
        return (self.folder / "error.log").read_text()

    @property
    def pid(self):
        return self._process.pid

    def titles(self):
        """The titles of its processes besides the master, by process id."""
        return {pid: " ".join(command_of(pid)) for pid in children(self.pid)}

    def workers(self):
        """The ids of the workers that serve."""
        return {pid for pid, title in self.titles().items() if title == "nginx: worker process"}

    def leaving(self):
        """The ids of the workers that are shutting down."""
        return {pid for pid, title in self.titles().items() if title == "nginx: worker process is shutting down"}

    def reload(self):
        """The files as they are now are older than the new workers, and what is written from now on is younger."""
        time.sleep(TICKS)
        before = self.workers()
        self._process.send_signal(signal.SIGHUP)
        until(lambda: (found := self.workers()) and not found & before, START_SECONDS, self._said, pause=0.02)
        time.sleep(TICKS)

    def stop(self):
        if self._process and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
