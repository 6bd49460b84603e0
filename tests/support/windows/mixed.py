# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two Linux hosts and two modelled Windows hosts behind one HAProxy."""

from __future__ import annotations

import threading

from tests.support.site import Site
from tests.support.windows.inventory import fetch_collections, surroundings, variables
from tests.support.windows.model import ModelledHost

STATE_DIR = r"%ProgramData%\graceful_azure"
NAMES = ("web1", "web2", "win1", "win2")
ON_DUTY = {"W3SVC": "Running", "Cart": "Running", "Spooler": "Stopped", "Shop": "Started", "ShopPool": "Started"}
OFF_DUTY = {"W3SVC": "Stopped", "Cart": "Stopped", "Spooler": "Stopped", "Shop": "Stopped", "ShopPool": "Stopped"}


def make_host(folder):
    """A modelled host that has these duties."""
    return ModelledHost.make(
        folder,
        services={
            "W3SVC": {"status": "Running", "dependents": ["Cart"]},
            "Cart": {"status": "Running"},
            "Spooler": {"status": "Stopped", "start": "Manual"},
        },
        sites={"Shop": {"state": "Started"}},
        pools={"ShopPool": {"state": "Started"}},
    )


def settings(host, url, traffic):
    """The variables of such a host. ``url``: its metadata service. ``traffic``: its duties that bring traffic."""
    return {
        **variables(host, url),
        "graceful_azure_state_dir": STATE_DIR,
        "graceful_azure_duties": [*traffic, {"type": "iis", "name": "shop", "sites": ["Shop"], "pools": ["ShopPool"]}, "w3svc", "Spooler"],
    }


class Mixed:
    """The site, its Windows hosts, and what Azure does to them when an event starts."""

    def __init__(self, folder, **of_site):
        fetch_collections()
        self.site = Site(folder, NAMES, **of_site)
        self.site.environment = surroundings()
        self.hosts = {name: make_host(folder / name) for name in NAMES if name.startswith("win")}
        self.simulator = self.site.simulator
        self.write()
        self.over = threading.Event()
        self.seen = {}
        self.thread = threading.Thread(target=self._hit)
        self.thread.start()

    def write(self, traffic=None, **of_windows):
        """C(traffic): the duty of the Windows hosts that brings traffic, if it is not HAProxy."""
        traffic = [traffic] if traffic else self.site.duties()
        of_hosts = {name: {**settings(host, self.simulator.urls[name], traffic), **of_windows} for name, host in self.hosts.items()}
        self.site.write_inventory({}, **of_hosts)

    def _hit(self):
        while not self.over.wait(0.1):
            for event in self.simulator.events():
                key = (event["EventId"], event["EventStatus"])
                if event["EventStatus"] == "Started" and key not in self.seen:
                    self.seen[key] = {name: self.duties(name) for name in self.hosts}
                    for name in event["Resources"]:
                        if name in self.hosts and event["EventType"] != "Freeze":
                            self.hosts[name].reboot(0.5)

    def duties(self, name):
        return self.hosts[name].duties()

    def count_calls(self):
        return sum(len(host.calls()) for host in self.hosts.values())

    def check_nothing_is_left(self):
        for name, host in self.hosts.items():
            assert host.mistakes() == []
            assert host.records() == {}
            assert self.duties(name) == ON_DUTY
        assert self.site.records() == []
        assert self.site.admin_states() == dict.fromkeys(NAMES, "ready")

    def close(self):
        self.over.set()
        self.thread.join()
        self.site.close()
