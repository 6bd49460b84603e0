# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The inventory of a world: what a user would write, with each host's own address of the metadata service since all share one machine."""

from __future__ import annotations

import contextlib
import json
import sys

import yaml

LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}


# What one of the machines has that cannot be reached, with a port at which nobody listens.
UNREACHABLE = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 9}


@contextlib.contextmanager
def changed(path):
    """What is in an inventory of JSON. It is written as it is at the end."""
    content = json.loads(path.read_text())
    yield content
    path.write_text(json.dumps(content))


def state_dir(folder, name):
    return {"graceful_azure_state_dir": str(folder / "state" / name)}


def web_host(folder, name, url, port):
    """The variables of a host whose metadata service has that URL, and whose web server listens at that port of 127.0.0.1."""
    return {
        "graceful_azure_imds_url": url,
        **state_dir(folder, name),
        "graceful_azure_ports": [port],
        "graceful_azure_health_url": f"http://127.0.0.1:{port}/",
    }


def behind_haproxy(socket, balancers=("lb1",), **options):
    """The duty of a host behind that HAProxy, which runs on these machines."""
    return {"type": "haproxy", "hosts": list(balancers), "socket": socket, **options}


def write_inventory(path, hosts, duties, balancers, variables=None, everybody=None):
    """``hosts`` are the web servers and ``balancers`` the machines of HAProxy, each by its name with its variables; ``duties`` are what all web servers
    hand over, ``variables`` are more of theirs, ``everybody`` are all machines', by default that they are on this one. The ending .yml makes it YAML as
    people write it."""
    groups = {"balancers": {"hosts": balancers}, "web": {"vars": {"graceful_azure_duties": duties, **(variables or {})}, "hosts": hosts}}
    content = {"all": {"vars": LOCAL if everybody is None else everybody, "children": groups}}
    text = yaml.safe_dump(content, sort_keys=False, explicit_start=True) if path.suffix == ".yml" else json.dumps(content)
    path.write_text(text, encoding="utf-8")
    return path
