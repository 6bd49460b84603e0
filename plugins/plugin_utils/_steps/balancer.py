# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the results of the modules for one kind of balancer mean. Private to the collection; pure."""

from __future__ import annotations


class Balancer:
    """One kind of balancer. This base class is also used for hosts that have no balancer.

    C(settings): one balancer of a host, as in the settings that the plan reads: C(provider), C(hosts), C(server), C(state), ...
    C(direction): V(out) or V(in).
    C(acts): the registered results of the modules that change it. C(looks): those of the module that looks at it.
    """

    def judge(self, settings, direction, acts, check_mode=False):
        """The C(load_balancer_result)."""
        return {"done": True, "changed": False, "reason": "no load balancer knows this host", "failed_hosts": [], "conflicts": []}

    def needs_tasks(self, direction, acts):
        """Whether task files of the user must run in that direction."""
        return False

    def looks_at(self, settings):
        """The machines on which M(graceful.azure.haproxy_info) must run."""
        return []

    def busy(self, settings, looks):
        """Sentences: which requests the balancer still has for the host, or that this is unknown."""
        return []

    def pool_addresses(self, settings, looks):
        """The addresses from which the balancer keeps idle connections to the host."""
        return []
