# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The site with hosts behind Azure Load Balancer, that is, its strict stand-in."""

from __future__ import annotations

import contextlib

from tests.support.azure import MEMBERS, POOL, stand_in
from tests.support.simulator import SHORT
from tests.support.site import Site

ADDRESS = {"web1": "a", "web2": "d"}


class AzureSite(Site):
    """The site with a pool of Azure in place of its HAProxy. web1 has no state there, and web2 has Up."""

    def __init__(self, folder):
        super().__init__(folder)
        self._stack = contextlib.ExitStack()
        self.azure = self._stack.enter_context(stand_in(folder))
        self.environment = self.azure.environment()
        self.write()

    def write(self, duties=None, own=(), of_hosts=(), **more):
        """``duties``: what the hosts hand over, by default the address in the pool, with ``more`` options. ``own``: the addresses of hosts. ``of_hosts``:
        more variables of hosts."""
        hosts = {name: {"azure_name": address} for name, address in {**ADDRESS, **dict(own)}.items()}
        for name, variables in dict(of_hosts).items():
            hosts[name].update(variables)
        self.write_inventory({"graceful_azure_duties": duties or [self.duty(**more)]}, **hosts)

    def duty(self, **more):
        return {"type": "azure_load_balancer", "pool": POOL, "address": "{{ azure_name }}", **self.azure.access(), **more}

    def reboot(self, *names, **more):
        return self.simulator.post_event(**{"EventType": "Reboot", "Resources": list(names), **SHORT, **more})

    def is_as_found(self):
        return self.azure.members() == MEMBERS and self.azure.balancer()["tags"] == {"owner": "me"}

    def asked(self):
        """All requests to the stand-in."""
        return self.azure.control("GET", "requests")

    def requests(self, method):
        return [each for each in self.asked() if each["Method"] == method]

    def close(self):
        super().close()
        self._stack.close()
