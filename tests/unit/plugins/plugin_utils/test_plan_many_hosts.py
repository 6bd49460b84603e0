# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a pass costs grows with the hosts times their servers, and not faster. Calls of functions are counted, so no machine is too slow for this."""

from __future__ import annotations

import sys

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import TRAFFIC, settings_of
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.addresses import addresses_of
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import MachineObservation
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.plan import plan

from tests.support.model import Model
from tests.support.nginx import line_told


def calls(function):
    """How many functions it calls, itself and all below."""
    count = 0

    def note(_frame, event, _argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def address(number):
    return f"10.0.0.{number + 1}"


def behind_haproxy(count):
    document = Model(hosts=count).world()
    for number, look in enumerate(document["hosts"].values()):
        look["addresses"] = [address(number)]
    (balancer,) = document["balancers"].values()
    for number, server in enumerate(balancer["servers"]):
        server.update(address=address(number), port=80)
    return lambda: plan(document)


def behind_nginx(count):
    nginx, hosts, asked, lines = TRAFFIC["nginx"], [], [], []
    for number in range(count):
        name, text = f"web{number}", f"{address(number)}:80"
        settings = settings_of("nginx", {"hosts": ["lb1"], "server": text}, name)
        hosts.append(type("Host", (), {"name": name, "addresses": [address(number)], "ports": [80], "network": None, "balancers": [(nginx, settings)]})())
        asked.append((hosts[-1], settings))
        lines.append(line_told(text, leads_to=[{"address": address(number), "port": 80}], line=number))
    look = {"reached": True, "servers": lines, "passes": [], "beside": {}, "files": {}, "present": [], "configuration": "/nginx.conf", "holds": []}
    machines = {"lb1 nginx": MachineObservation("lb1 nginx", look, None)}
    return lambda: list(nginx.traffic_of_all(asked, machines, addresses_of(hosts)))


@pytest.mark.parametrize("behind", [behind_haproxy, behind_nginx])
def test_twice_as_many_hosts_cost_four_times_as_much_at_most(behind):
    assert calls(behind(40)) < 4.5 * calls(behind(20))
