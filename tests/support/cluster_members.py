# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Members of real clusters, one class for each type of drain step, all with the interface of ``Members``.

Whoever takes a member through an event needs no more than this::

    kind = KINDS["redis"]
    with kind.started(folder) as cluster:
        members = kind(cluster)
        site = ClusterSite(another_folder, members.nodes, **members.step)
        before, name = members.state(), members.chosen()
        with members.clients():
            ...  # post an event for the host ``name``, start handle_events
            members.reboot(site, name)  # when the event is Started
            ...  # complete the event, see handle_events end
        assert members.state() == before and site.records() == []
"""

from __future__ import annotations

import abc
import contextlib

from tests.support import consul, redis_sentinel
from tests.support.site import wait_until


class Members(abc.ABC):
    """The members of one cluster that runs. C(cluster): what C(started) gave.

    C(needed): the marks of a test that starts the cluster. Besides, a ClusterSite needs root.
    C(step): the options of the drain step that all hosts share, for C(ClusterSite(folder, members.nodes, **members.step)).
    C(nodes): the members that events may name, by the names of their hosts. Each has C(name), C(options) (those of the step that are this host's own),
    C(start()) and C(stop()).
    """

    needed: tuple = ()
    step: dict = {}

    def __init__(self, cluster, nodes=None):
        self.cluster = cluster
        self.nodes = cluster.nodes if nodes is None else nodes

    @staticmethod
    @abc.abstractmethod
    def started(folder):
        """A context in which the cluster runs. C(folder) is empty and belongs to the cluster. Everything is ended when the context is left."""

    @abc.abstractmethod
    def chosen(self):
        """The name of the host that an event hits hardest: it leads, or it has work."""

    @abc.abstractmethod
    def state(self):
        """What the step may change of the cluster, to be compared with ``==``. It waits until all members are back and the cluster is whole."""

    def reboot(self, site, name):
        """Reboot that host of the ClusterSite, as Azure does when an event has started. It may return before the member is back in its cluster."""
        site.reboot(name)

    @abc.abstractmethod
    def clients(self):
        """A context in which clients use the cluster. When it is left, it waits until they are served, and fails if they have lost anything."""


class OfRedis(Members):
    """Clients add numbers to a set. Every number that was acknowledged is in it."""

    needed = (redis_sentinel.NEEDED,)
    step = {"name": "cache", "type": "redis"}

    @staticmethod
    def started(folder):
        return contextlib.closing(redis_sentinel.Sentinels(folder))

    def chosen(self):
        """The master, which has a role to hand over."""
        return self.cluster.master().name

    def state(self):
        self.cluster.await_whole()
        return {name: node.priority for name, node in self.nodes.items()}

    @contextlib.contextmanager
    def clients(self):
        # The numbers begin anew each time.
        self.cluster.master().ask("DEL", "written")
        writers = redis_sentinel.Writers(self.cluster, pause=0.03)
        try:
            yield
            before = len(writers.acknowledged)
            wait_until(lambda: len(writers.acknowledged) > before + 50, 30, "writes are acknowledged")
        finally:
            writers.stop()
        assert writers.lost() == []


class OfConsul(Members):
    """Clients ask Consul where the service is, and then the service. Every request is answered."""

    needed = (consul.NEEDS,)
    step = {"name": "discovery", "type": "consul"}

    def __init__(self, cluster):
        # The clients ask the third one.
        super().__init__(cluster, {name: cluster[name] for name in ("web1", "web2")})

    @staticmethod
    def started(folder):
        return consul.Consul(folder)

    def chosen(self):
        return "web1"

    def state(self):
        self.cluster.settled()
        return {agent.name: agent.reason() for agent in self.cluster}

    def reboot(self, site, name):
        web = self.cluster[name].web
        web.status = 500
        site.reboot(name)
        self.cluster.settled(set(self.cluster.agents) - {name})
        web.status = 200

    @contextlib.contextmanager
    def clients(self):
        with consul.Clients(self.cluster, "web3") as clients:
            yield
        assert clients.failed == [] and clients.answered


KINDS = {kind.step["type"]: kind for kind in (OfRedis, OfConsul)}
