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
import os
import time

from tests.support import consul, kubernetes, pacemaker, patroni, rabbitmq, redis_sentinel, slurm
from tests.support.nodes import NODES
from tests.support.patience import until


class Lost(AssertionError):
    """Clients of a cluster lost something, or would have if they had asked."""


def _nothing(lost):
    """``lost`` is empty, or this fails."""
    if lost:
        raise Lost(lost)


class Got:
    """What clients got. C(what) they count, how many of these were C(done), which of them were C(lost), and for how many seconds at most they got nothing."""

    def __init__(self, what):
        self.what = what
        self.done, self.lost, self.longest_gap = 0, [], None


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
        """Reboot that host of the ClusterSite, as Azure does when an event has started. It may return before the member is back in its cluster.

        It raises ``Lost`` if the member is still needed.
        """
        site.reboot(name)

    @contextlib.contextmanager
    def clients(self):
        """A context in which clients use the cluster. When it is left, it waits until they are served, and raises ``Lost`` if they have lost anything."""
        with self.use() as got:
            yield got
        _nothing(got.lost)

    @abc.abstractmethod
    def use(self):
        """The same, but it raises nothing: it gives a ``Got``, which is filled in when the context is left."""


class OfRedis(Members):
    """Clients add numbers to a set. Every number that was acknowledged is in it."""

    needed = (redis_sentinel.NEEDED,)
    step = redis_sentinel.STEP

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
    def use(self):
        # The numbers begin anew each time.
        self.cluster.master().ask("DEL", "written")
        writers, got = redis_sentinel.Writers(self.cluster, pause=0.03), Got("writes")
        try:
            yield got
            before = len(writers.acknowledged)
            until(lambda: len(writers.acknowledged) > before + 50, 30, "writes are acknowledged")
        finally:
            writers.stop()
        got.done, got.lost, got.longest_gap = len(writers.acknowledged), writers.lost(), writers.longest_gap


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
        _nothing({name} & self.cluster.passing(asked="web3"))
        web = self.cluster[name].web
        web.status = 500
        site.reboot(name)
        self.cluster.settled(set(self.cluster.agents) - {name})
        web.status = 200

    @contextlib.contextmanager
    def use(self):
        got = Got("requests")
        with consul.Clients(self.cluster, "web3") as clients:
            yield got
        assert clients.answered
        got.done, got.lost = sum(clients.answered.values()), clients.failed


class _Apart:
    """A node in namespaces of its own, as a host of Ansible: Ansible's modules run on this machine, and the programs of the cluster in the node."""

    def __init__(self, cluster, name, programs, folder, **options):
        self.name, self.options = name, options
        self._cluster, self._programs, self._folder = cluster, programs, folder
        self.surroundings = {"PATH": f"{folder}:{os.environ['PATH']}"}
        self._enter()

    def _enter(self):
        self._cluster[self.name].wrappers(self._folder, self._programs)

    def stop(self):
        """Take its power away."""
        self._cluster[self.name].halt()

    def start(self):
        self._cluster.boot(self.name)
        self._enter()
        self._cluster.start(self._cluster[self.name])


class OfPacemaker(Members):
    """Three resources. Each runs on one node at most, none fails, and nothing runs on a node that goes down."""

    needed = (*NODES, pacemaker.NEEDS)
    step = {"name": "ha", "type": "pacemaker"}
    # Seconds for which a resource may run nowhere. It moves in one, and this machine may be busy.
    LONGEST_GAP = 15.0

    def __init__(self, cluster):
        folder = next(iter(cluster)).folder
        super().__init__(cluster, {node.name: _Apart(cluster, node.name, pacemaker.PROGRAMS, folder / f"programs-{node.name}") for node in cluster})

    @staticmethod
    def started(folder):
        return pacemaker.Cluster(folder)

    def chosen(self):
        """The node on which most runs."""
        running = self.cluster.running(next(iter(self.cluster)))
        return max(running, key=running.get)

    def state(self):
        for node in self.cluster:
            until(lambda node=node: self.cluster.online(node) == set(self.nodes), 90, pause=0.3)
            until(lambda node=node: sum(self.cluster.running(node).values()) == self.cluster.resources, 60, pause=0.3)
        return {node.name: self.cluster.settings(node) for node in self.cluster}

    def reboot(self, site, name):
        places = self.cluster.places(self.cluster[name])
        assert len(places) == self.cluster.resources
        _nothing({resource: nodes for resource, nodes in places.items() if name in nodes})
        super().reboot(site, name)

    @contextlib.contextmanager
    def use(self):
        got = Got("looks at the resources")
        (other,) = set(self.nodes) - {self.chosen()}
        with pacemaker.Watch(self.cluster, self.cluster[other]) as watch:
            yield got
            looks = watch.looks
            until(lambda: watch.looks > looks + 1, 30)
        got.done, got.lost, got.longest_gap = watch.looks, watch.twice + self.cluster.failures(self.cluster[other]), watch.longest_gap
        if got.longest_gap >= self.LONGEST_GAP:
            got.lost.append(f"a resource ran nowhere for {got.longest_gap:.1f} s")


class OfSlurm(Members):
    """A user submits jobs all the time, and one of them has the node when the event comes. Every job is done exactly once."""

    needed = (*NODES, slurm.NEEDS)
    step = {"name": "batch", "type": "slurm"}
    # Seconds that the job takes which has the node. It is still there when the node is to go out.
    LONG = 10

    def __init__(self, cluster):
        self._folder = cluster["ctl"].folder
        programs = {name: self._folder / f"programs-{name}" for name in cluster.workers}
        super().__init__(cluster, {name: _Apart(cluster, name, slurm.PROGRAMS, folder, node=name) for name, folder in programs.items()})
        self._count = 0

    @staticmethod
    def started(folder):
        return slurm.Cluster(folder)

    def chosen(self):
        return "web1"

    def state(self):
        # For a moment after it is resumed, the controller does not know whether a node responds.
        until(lambda: all(self.cluster.state(name) in ("IDLE", "MIXED", "ALLOCATED") for name in self.nodes), 60, pause=0.3)
        return {name: self.cluster.reason(name) for name in self.nodes}

    @contextlib.contextmanager
    def use(self):
        self._count += 1
        got = Got("jobs")
        with slurm.Submitter(self.cluster, self._folder / f"jobs-{self._count}") as user:
            number = user.submit(self.LONG, f"--nodelist={self.chosen()}")
            until(lambda: self.cluster.jobs().get(number, ["gone"])[0] == "RUNNING", 60, pause=0.3)
            yield got
            # The node gets jobs again.
            user.submit(1, f"--nodelist={self.chosen()}")
        got.lost, got.done = list(user.not_done_once().items()), len(user.numbers)


class OfPatroni(Members):
    """Clients insert numbers. Every number that was acknowledged is there."""

    needed = (patroni.NEEDED,)
    step = patroni.STEP

    @staticmethod
    def started(folder):
        # PostgreSQL's own user must get into the folder, and does not get into those of the tests.
        return contextlib.closing(patroni.Cluster())

    def chosen(self):
        """The leader, which has a role to hand over."""
        return self.cluster.leader()

    def state(self):
        self.cluster.await_whole()
        return self.cluster.settings()

    def reboot(self, site, name):
        """Its power is lost. A leader that is shut down in an orderly way would hand over by itself."""
        _nothing(f"the leader {name}" if self.cluster.leader() == name else None)
        self.nodes[name].end()
        site.boot(name)
        time.sleep(1)
        self.nodes[name].start()

    @contextlib.contextmanager
    def use(self):
        writers, got = patroni.Writers(self.cluster), Got("rows")
        try:
            until(lambda: len(writers.acknowledged()) > 50, 60, "the writers write")
            yield got
            before = len(writers.acknowledged())
            until(lambda: len(writers.acknowledged()) > before + 50, 60, "writes are acknowledged")
        finally:
            writers.stop()
        got.done, got.lost, got.longest_gap = len(writers.acknowledged()), writers.lost(), writers.longest_gap()


class OfRabbitMQ(Members):
    """A client publishes with confirms. Every message that was confirmed is in its queue."""

    needed = tuple(rabbitmq.NEEDS)
    step = {"name": "queues", "type": "rabbitmq"}

    @staticmethod
    def started(folder):
        return rabbitmq.RabbitMQ(folder)

    def chosen(self):
        """The node that leads most queues."""
        return max(self.nodes, key=lambda name: self.nodes[name].leads())

    def state(self):
        self.cluster.settled(120)
        return {name: (node.is_out(), node.queues()) for name, node in self.nodes.items()}

    def reboot(self, site, name):
        _nothing(self.nodes[name].leads())
        super().reboot(site, name)

    @contextlib.contextmanager
    def use(self):
        self.cluster.empty()
        got = Got("messages")
        with rabbitmq.Publisher(self.cluster) as publisher:
            yield got
            before = len(publisher.confirmed)
            until(lambda: len(publisher.confirmed) > before + 50, 60, "messages are confirmed")
        got.done, got.lost, got.longest_gap = len(publisher.confirmed), sorted(publisher.missing()), publisher.longest_gap


class _Kubelet:
    """A node of the stand-in, as a host."""

    def __init__(self, cluster, name):
        self.name, self.options = name, cluster.options(name)
        self._cluster, self._boot_id, self._runs = cluster, None, True

    def booted(self, boot_id):
        self._boot_id = boot_id
        if self._runs:
            self._cluster.booted(self.name, boot_id)

    def stop(self):
        self._runs = False
        self._cluster.set_ready(self.name, False)

    def start(self):
        self._runs = True
        self._cluster.booted(self.name, self._boot_id)
        self._cluster.set_ready(self.name, True)


class OfKubernetes(Members):
    """Two workloads with budgets, which are honoured all the time, also while the node is down. An operator has cordoned another node, which stays so."""

    needed = (kubernetes.NEEDED,)
    step = {"name": "k8s", "type": "kubernetes"}
    # What the step may be answered, and what a request has that was killed before its answer.
    ANSWERS = {200, 201, 404, 409, 429, None}

    def __init__(self, cluster):
        super().__init__(cluster, {name: _Kubelet(cluster, name) for name in ("web1", "web2")})

    @staticmethod
    @contextlib.contextmanager
    def started(folder):
        with kubernetes.Cluster(folder, nodes=("web1", "web2", "web3"), grace=0.3, starting=0.3) as cluster:
            for name in ("web1", "web2"):
                cluster.usual_pods(name)
            cluster.workload("cart", 3, on="web1")
            cluster.budget("cart", 2)
            cluster.workload("db", 2, on="web1", kind="StatefulSet")
            cluster.budget("db", 1)
            cluster.cordon("web3")
            yield cluster

    def chosen(self):
        """The node with most pods."""
        return max(self.nodes, key=lambda name: len(self.cluster.pods_on(name)))

    def state(self):
        """What a hold may change of each node."""
        until(lambda: (self.cluster.ready("cart"), self.cluster.ready("db")) == (3, 2), 30)
        nodes = {name: self.cluster.node(name) for name in self.cluster.nodes}
        return {name: (node["spec"], node["metadata"]["annotations"], node["metadata"]["labels"]) for name, node in nodes.items()}

    def reboot(self, site, name):
        _nothing([pod for pod in self.cluster.pods_on(name) if pod.startswith(("cart", "db"))])
        super().reboot(site, name)

    @contextlib.contextmanager
    def use(self):
        asked, got = len(self.cluster.requests), Got("budgets")
        with kubernetes.Watch(self.cluster) as watch:
            yield got
        got.done, got.lost = len(watch.least), watch.broken()
        assert {status for _method, _path, status in self.cluster.requests[asked:]} <= self.ANSWERS


KINDS = {kind.step["type"]: kind for kind in (OfRedis, OfConsul, OfPacemaker, OfSlurm, OfPatroni, OfRabbitMQ, OfKubernetes)}
