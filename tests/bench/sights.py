# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When has a member of a cluster given up its role, and when does it serve as before? Seen from outside, in the words of the product.

The same looks judge whatever takes the member through its event. They ask the other members where that is possible, and share no code with the collection.
"""

from __future__ import annotations

import contextlib
import json
import time
from xml.etree import ElementTree

from tests.support.meanwhile import Meanwhile
from tests.support.patience import until


class Sight(Meanwhile):
    """Looks at one member again and again, every C(pause) seconds. C(members): of tests/support/cluster_members.py."""

    # How to say what the looks wait for.
    drained = ""
    pause = 0.05

    def __init__(self, members, name):
        self.members, self.cluster, self.name = members, members.cluster, name
        self.others = [other for other in members.nodes if other != name]
        self.seen = []
        super().__init__()

    def _run(self):
        while not self._ends.is_set():
            self.seen.append(self._look())
            self._ends.wait(self.pause)

    def _look(self):
        """When the look ended, and what it told: that the member is out, that it is back, or neither. If the member cannot be asked, it is neither."""
        found = {}
        for what, look in (("out", self.is_out), ("back", self.is_back)):
            try:
                found[what] = look()
            except Exception:  # noqa: BLE001 members that go down fail in many ways; a look that failed told nothing
                found[what] = False
        return time.time(), found["out"], found["back"]

    def when(self, what, since, until=None):
        """The first look from a moment on that found the member out, or back; None if there is none."""
        place = {"out": 1, "back": 2}[what]
        return next((look[0] for look in list(self.seen) if look[0] >= since and look[place] and (until is None or look[0] <= until)), None)

    def await_up(self, seconds=120):
        """Until the product runs on the member again after a reboot, so that all that is left is up to whoever takes it through the event."""

        def is_up():
            with contextlib.suppress(Exception):  # as above
                return self.is_up()

        until(is_up, seconds, f"{self.name} comes up", pause=0.1)

    def is_out(self):
        raise NotImplementedError

    def is_back(self):
        raise NotImplementedError

    def is_up(self):
        """By default a member comes back by itself."""
        return self.is_back()


class OfRedis(Sight):
    drained = "a replica, and Sentinel names another master"

    def __init__(self, members, name):
        super().__init__(members, name)
        self._node, self._other = self.cluster[name], self.cluster[self.others[0]]
        self._priority = self._node.priority

    def is_out(self):
        return self._named() != self._node.port and self._node.role == "slave"

    def is_back(self):
        role = self._node.ask("ROLE")
        return (role[0] == "master" or role[3] == "connected") and self._node.priority == self._priority

    def _named(self):
        return int(self._other.ask_sentinel("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "shop")[1])


class OfConsul(Sight):
    drained = "no server of Consul offers its service"

    def is_out(self):
        return all(self.name not in self.cluster.passing(asked=agent.name) for agent in self.cluster)

    def is_back(self):
        return all(self.name in self.cluster.passing(asked=agent.name) for agent in self.cluster)

    def is_up(self):
        """Its agent has its services and their checks from its disk, and the servers know it."""
        agent = self.cluster[self.name]
        (check,) = [check for check in agent.get("/v1/agent/checks").values() if check["ServiceName"] == "web"]
        return check["Status"] == "passing" and bool(agent.get(f"/v1/health/node/{self.name}"))


class OfPacemaker(Sight):
    drained = "no resource runs on it"
    pause = 0.15

    def is_out(self):
        return self._node().get("resources_running") == "0"

    def is_back(self):
        """Nothing forbids it to run resources."""
        node = self._node()
        if not self._is_online(node) or node.get("standby") != "false":
            return False
        constraints = ElementTree.fromstring(self.cluster.constraints(self.cluster[self.others[0]]))
        return not any(found.get("node") == self.name and found.get("score") == "-INFINITY" for found in constraints.iter("rsc_location"))

    def is_up(self):
        return self._is_online(self._node())

    @staticmethod
    def _is_online(node):
        return node.get("online") == "true" and node.get("pending") == "false"

    def _node(self):
        (node,) = [node for node in self.cluster.status(self.cluster[self.others[0]]).findall("./nodes/node") if node.get("name") == self.name]
        return node


class OfSlurm(Sight):
    drained = "drained, and no job has it"
    pause = 0.1

    def is_out(self):
        return "DRAIN" in self.cluster.state(self.name) and not self.cluster.jobs(f"--nodelist={self.name}")

    def is_back(self):
        return self.cluster.state(self.name) in ("IDLE", "MIXED", "ALLOCATED")

    def is_up(self):
        state = self.cluster.state(self.name)
        return state.startswith(("IDLE", "MIXED", "ALLOCATED")) and "NOT_RESPONDING" not in state


class OfPatroni(Sight):
    drained = "a replica that runs, and another one leads"

    def is_out(self):
        other = self.cluster[self.others[0]]
        leaders = [member["name"] for member in json.loads(other.read("/cluster")[1])["members"] if member["role"] == "leader"]
        return len(leaders) == 1 and leaders != [self.name] and self._is_replica()

    def is_back(self):
        return self._is_replica() or self.cluster[self.name].read("/leader")[0] == 200

    def _is_replica(self):
        return self.cluster[self.name].read("/replica")[0] == 200


# One process in another node looks. The command line tools start a virtual machine of Erlang for each look.
LOOP = """
T = '{node}',
Count = fun(L) when is_list(L) -> length(L); (_) -> -1 end,
Ask = fun(M, F, A) -> rpc:call(T, M, F, A, 2000) end,
Loop = fun(Loop) ->
  case filelib:is_file("{file}.stop") of
    true -> ok;
    false ->
      Mode = Ask(rabbit_maintenance, is_being_drained_local_read, [T]),
      Leads = Count(Ask(rabbit_amqqueue, list_local_leaders, [])),
      Clients = Count(Ask(rabbit_networking, local_connections, [])),
      Line = io_lib:format("~p ~p ~p ~p ~p~n", [os:system_time(millisecond), Mode, Leads, Clients, Ask(rabbit, is_running, [])]),
      file:write_file("{file}", Line, [append]),
      timer:sleep(100),
      Loop(Loop)
  end
end,
spawn(fun() -> Loop(Loop) end), ok.
"""


class OfRabbitMQ(Sight):
    drained = "in maintenance mode, leads no quorum queue, and has no client"
    _count = 0

    def __init__(self, members, name):
        super().__init__(members, name)
        OfRabbitMQ._count += 1
        self._file = self.cluster.folder / f"looks-{OfRabbitMQ._count}"

    def __enter__(self):
        # Its own node goes down.
        self.cluster[self.others[0]].must("rabbitmqctl", "eval", LOOP.format(node=self.cluster[self.name].node, file=self._file))
        return super().__enter__()

    def __exit__(self, *error):
        self._file.with_name(self._file.name + ".stop").touch()
        super().__exit__(*error)

    def _run(self):
        while not self._ends.is_set():
            self.seen[:] = self._told()
            self._ends.wait(0.2)

    def _told(self):
        lines = self._file.read_text().splitlines(keepends=True) if self._file.exists() else []
        # Whatever is not known has more words.
        looks = [line.split() for line in lines if line.endswith("\n") and len(line.split()) == 5]
        return [(int(when) / 1000, (mode, leads, clients) == ("true", "0", "0"), (mode, up) == ("false", "true")) for when, mode, leads, clients, up in looks]

    def is_up(self):
        return bool(self.seen) and time.time() - self.seen[-1][0] < 1 and self.seen[-1][2]


class OfKubernetes(Sight):
    drained = "cordoned, and no pod is on it but those that every node has"
    pause = 0.02

    def is_out(self):
        usual = {f"{kind}-{self.name}" for kind in ("proxy", "etcd", "job")}
        return self.cluster.is_cordoned(self.name) and set(self.cluster.pods_on(self.name)) <= usual

    def is_back(self):
        return not self.cluster.is_cordoned(self.name) and self.is_up()

    def is_up(self):
        return next(part["status"] for part in self.cluster.node(self.name)["status"]["conditions"] if part["type"] == "Ready") == "True"


SIGHTS = {
    "pacemaker": OfPacemaker,
    "slurm": OfSlurm,
    "patroni": OfPatroni,
    "rabbitmq": OfRabbitMQ,
    "redis": OfRedis,
    "consul": OfConsul,
    "kubernetes": OfKubernetes,
}
