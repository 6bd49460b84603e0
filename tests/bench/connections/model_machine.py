# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ansible's way to a machine of tests/bench/model.py, which answers the requests of a run as a helper does."""

from __future__ import annotations

import json
import os
import socket

from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = r"""
name: model_machine
short_description: reaches a machine that is only modelled
description: Hands each request of a run to the process that plays the machines.
author: the graceful.azure authors
"""

MARK = "graceful_azure"


class Connection(ConnectionBase):
    transport = "model_machine"
    has_pipelining = True
    has_tty = False

    def _connect(self):
        self._connected = True
        return self

    def exec_command(self, cmd, in_data=None, sudoable=True):
        if not in_data:
            return 0, b"", b""
        with socket.socket(socket.AF_UNIX) as there:
            there.connect(os.environ["BENCH_MODEL"])
            there.sendall(json.dumps([self._play_context.remote_addr, in_data.decode()]).encode() + b"\n")
            said = b"".join(iter(lambda: there.recv(1 << 20), b""))
        return 0, f"{MARK} asked\n{MARK} answer {said.decode()}\n".encode(), b""

    def put_file(self, in_path, out_path):
        """Nothing is kept there."""

    def fetch_file(self, in_path, out_path):
        raise NotImplementedError

    def close(self):
        self._connected = False
