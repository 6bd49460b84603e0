# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The site with hosts behind Azure Load Balancer, that is, its strict stand-in."""

from __future__ import annotations

import contextlib

from tests.support.azure import MEMBERS, POOL, stand_in
from tests.support.site import Site

ADDRESS = {"web1": "a", "web2": "d"}


class AzureSite(Site):
    """The site with a pool of Azure in place of its HAProxy. web1 has no state there, and web2 has Up."""

    def __init__(self, folder, azure, **more):
        super().__init__(folder)
        self.azure = azure
        self.write(**more)

    def write(self, own=(), of_hosts=(), **more):
        options = {"load_balancer_provider": "azure_load_balancer", "load_balancer_hosts": [], "load_balancer_azure_pool": POOL, **self.azure.options()}
        addresses = {name: {"load_balancer_azure_address": address} for name, address in {**ADDRESS, **dict(own)}.items()}
        for name, variables in dict(of_hosts).items():
            addresses[name].update(variables)
        self.write_inventory({**options, **more}, **addresses)

    def reboot(self, *names, **more):
        return self.simulator.post_event(**{"EventType": "Reboot", "Resources": list(names), "ImpactSeconds": 1, "SettleSeconds": 1, **more})

    def is_as_found(self):
        return self.azure.members() == MEMBERS and self.azure.balancer()["tags"] == {"owner": "me"}

    def asked(self):
        """All requests to the stand-in."""
        return self.azure.control("GET", "requests")

    def requests(self, method):
        return [each for each in self.asked() if each["Method"] == method]


@contextlib.contextmanager
def azure_site(folder, monkeypatch):
    with stand_in(folder) as azure:
        for name, value in azure.environment().items():
            monkeypatch.setenv(name, value)
        site = AzureSite(folder, azure)
        try:
            yield site
        finally:
            site.close()
