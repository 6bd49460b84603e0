# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster of a real RabbitMQ as processes of this machine, and a publisher that counts what RabbitMQ has confirmed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.checkout import BUILD
from tests.support.meanwhile import Meanwhile
from tests.support.patience import patient, until
from tests.support.ports import free_port
from tests.support.processes import Processes

try:
    import pika
except ImportError:
    pika = None

UNPACKED = BUILD / "unpacked/usr/lib"
HOME = next((path for path in (Path("/usr/lib/rabbitmq"), UNPACKED / "rabbitmq") if (path / "bin/rabbitmq-server").exists()), None)
NEEDS = [
    pytest.mark.skipif(not HOME, reason="no RabbitMQ in /usr/lib, and tests/setup.sh long could not unpack Debian's"),
    pytest.mark.skipif(not pika, reason="no pika: pip install pika"),
]
START_SECONDS = 300
# Queues that have a majority, and one that has no copy elsewhere.
QUORUM = tuple(f"orders{number}" for number in range(6))
PLAIN = "scratch"


class Node:
    """One node of RabbitMQ."""

    enter = ()

    def __init__(self, cluster, name):
        self.cluster = cluster
        self.name = name
        self.node = f"{name}@localhost"
        self.options = {"node": self.node}
        # How the command line tools find it.
        self.surroundings = cluster.environment
        self.port, self._between = free_port(), free_port()
        self.process = None

    @property
    def environment(self):
        folder = self.cluster.folder / self.name
        return {
            **self.cluster.environment,
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._between),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(self.cluster.folder / "rabbitmq"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none +A 4",
        }

    def start(self):
        """Start the node, and wait until it serves."""
        self.process = self.cluster.processes.start(self.name, HOME / "bin/rabbitmq-server", env=dict(os.environ, **self.environment))

    def wait(self):
        # It listens when all else is there.
        until(self.listens, START_SECONDS, lambda: f"{self.node} runs: {(self.cluster.folder / f'{self.name}.log').read_text()[-3000:]}", pause=0.5)

    def stop(self):
        """End it at once, as a host that loses its power."""
        self.cluster.processes.stop(self.process, signal.SIGKILL)

    def run(self, program, *words):
        command = [str(HOME / "bin" / program), "--node", self.node, *words]
        return subprocess.run(command, env=dict(os.environ, **self.cluster.environment), capture_output=True, text=True, timeout=patient(240), check=False)

    def must(self, program, *words):
        done = self.run(program, *words)
        assert done.returncode == 0, (self.node, program, words, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout

    def listens(self):
        try:
            self.connect().close()
        except (pika.exceptions.AMQPError, OSError):
            return False
        return True

    def connect(self):
        login = pika.PlainCredentials("guest", "guest")
        return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port, "/", login, socket_timeout=5, blocked_connection_timeout=20))

    def is_out(self):
        return "true" in self.must("rabbitmqctl", "eval", "rabbit_maintenance:is_being_drained_local_read(node()).")

    def queues(self):
        """The names of all queues that it knows."""
        return sorted(self.must("rabbitmqctl", "--quiet", "list_queues", "--no-table-headers", "name").split())

    def leads(self):
        """How many queues with a majority it leads."""
        return int(self.must("rabbitmqctl", "eval", "length(rabbit_amqqueue:list_local_leaders())."))


class RabbitMQ:
    """A cluster with one node for each name, and the queues QUORUM and PLAIN. C(environment) is what the command line tools need."""

    def __init__(self, folder, names=("web1", "web2", "web3")):
        self.folder = folder
        self.processes = Processes(folder)
        self._names_port = free_port()
        self.environment = {
            "PATH": f"{HOME / 'bin'}:{UNPACKED.parent / 'bin'}:{os.environ['PATH']}",
            "HOME": str(folder),
            "ERL_ROOTDIR": str(UNPACKED / "erlang") if HOME == UNPACKED / "rabbitmq" else "/usr/lib/erlang",
            "ERL_EPMD_PORT": str(self._names_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_CTL_ERL_ARGS": "+S 1:1 +sbwt none",
        }
        self.nodes = {name: Node(self, name) for name in names}

    def __enter__(self):
        cookie = self.folder / ".erlang.cookie"
        cookie.write_text("crumbs")
        cookie.chmod(0o400)
        peers = "".join(f"cluster_formation.classic_config.nodes.{number} = {node.node}\n" for number, node in enumerate(self, 1))
        (self.folder / "rabbitmq.conf").write_text(f"cluster_formation.peer_discovery_backend = classic_config\n{peers}")
        try:
            # Otherwise the nodes start it all at once, and some do not find it.
            self.processes.start("epmd", "epmd", env=dict(os.environ, **self.environment))
            for node in self:
                (self.folder / node.name).mkdir()
                node.start()
            for node in self:
                node.wait()
            self._declare()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error):
        for process in self.processes.running:
            self.processes.running[process] = signal.SIGKILL
        self.processes.close()

    def __getitem__(self, name):
        return self.nodes[name]

    def __iter__(self):
        return iter(self.nodes.values())

    def _declare(self):
        for number, node in enumerate(self):
            connection = node.connect()
            channel = connection.channel()
            # A queue is led by the node at which it is declared.
            for queue in QUORUM[number :: len(self.nodes)]:
                channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum", "x-queue-leader-locator": "client-local"})
            if number == 0:
                channel.queue_declare(PLAIN, durable=True)
            connection.close()

    def empty(self):
        """Throw all messages away."""
        connection = next(iter(self)).connect()
        channel = connection.channel()
        for queue in QUORUM:
            channel.queue_purge(queue)
        connection.close()

    def settled(self, seconds=60):
        """Wait until all nodes serve, and all copies of the queues are there."""

        def is_whole():
            return not any(node.run("rabbitmq-diagnostics", "check_if_node_is_quorum_critical").returncode or node.is_out() for node in self)

        until(is_whole, seconds, "every node is back", pause=0.5)


class Publisher(Meanwhile):
    """A client that publishes with confirms, and goes to another node when it loses its connection. What is not confirmed is published again."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.confirmed = []
        self.lost_connections = 0
        self.longest_gap = 0.0
        super().__init__()

    def _run(self):
        channel, number, last = None, 0, time.monotonic()
        ports = list(self.cluster)
        while not self._ends.is_set():
            try:
                if channel is None:
                    channel = ports[0].connect().channel()
                    channel.confirm_delivery()
                text = f"{number}"
                properties = pika.BasicProperties(delivery_mode=2)
                channel.basic_publish("", QUORUM[number % len(QUORUM)], text.encode(), properties, mandatory=True)
            except (pika.exceptions.AMQPError, OSError):
                self.lost_connections += channel is not None
                channel, ports = None, ports[1:] + ports[:1]
                time.sleep(0.05)
                continue
            self.confirmed.append(text)
            self.longest_gap, last = max(self.longest_gap, time.monotonic() - last), time.monotonic()
            number += 1
            time.sleep(0.01)
        with contextlib.suppress(pika.exceptions.AMQPError, AttributeError, OSError):
            channel.connection.close()

    def missing(self):
        """What was confirmed and is in no queue. It takes all out of the queues."""
        found = set()
        connection = next(iter(self.cluster)).connect()
        channel = connection.channel()
        for queue in QUORUM:
            for _method, _properties, body in channel.consume(queue, auto_ack=True, inactivity_timeout=2):
                if body is None:
                    break
                found.add(body.decode())
            channel.cancel()
        connection.close()
        return set(self.confirmed) - found
