# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Prints one line for each server of the local HAProxy: administrative state, weights, and whether it is up."""

import socket

with socket.socket(socket.AF_UNIX) as client:
    client.connect("/run/haproxy/admin.sock")
    client.sendall(b"show servers state\n")
    text = b"".join(iter(lambda: client.recv(65536), b"")).decode()

dummy, heads, *rows = text.splitlines()
columns = heads[2:].split()
for row in rows:
    if row:
        server = dict(zip(columns, row.split()))
        up = "up" if server["srv_op_state"] == "2" else "down"
        print("{be_name}/{srv_name} admin={srv_admin_state} weight={srv_uweight}/{srv_iweight}".format(**server), up)
