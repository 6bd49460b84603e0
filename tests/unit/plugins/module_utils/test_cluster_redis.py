# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Redis servers that Sentinel watches, in a model of both. What it answers looks like what a real Redis 7.0.15 answered."""

from __future__ import annotations

import json
import re
import socket

import jsonschema
import pytest
from ansible_collections.graceful.azure.plugins.module_utils import _cluster_redis
from ansible_collections.graceful.azure.plugins.module_utils._cluster import MemberError, check_options
from ansible_collections.graceful.azure.plugins.module_utils._cluster_redis import ANSWER_SECONDS, Redis

from tests.support.calls import ScriptedMachine, call
from tests.support.checkout import ROOT
from tests.support.service import EVENT

HERE = ("127.0.0.1", 6379)
SENTINEL = ("127.0.0.1", 26379)
# Sentinel knows the servers by other addresses than the one by which this host reaches its own.
ONE, TWO, THREE = ("10.0.0.1", 6379), ("10.0.0.2", 6379), ("10.0.0.3", 6379)


class Says(str):
    """A simple answer, such as OK."""


class Complains(str):
    """An answer that is an error."""


HANGS, CLOSES, NONSENSE = object(), object(), object()


def coded(answer):
    if isinstance(answer, Says):
        return b"+%s\r\n" % answer.encode()
    if isinstance(answer, Complains):
        return b"-%s\r\n" % answer.encode()
    if isinstance(answer, int):
        return b":%d\r\n" % answer
    if answer is None:
        return b"$-1\r\n"
    if isinstance(answer, str):
        return b"$%d\r\n%s\r\n" % (len(answer.encode()), answer.encode())
    return b"*%d\r\n" % len(answer) + b"".join(map(coded, answer))


class Socket:
    """A connection to the model. What comes is cut into pieces, as a network may."""

    def __init__(self, model, address):
        self.model = model
        self.address = address
        self.received = b""
        self.open = True

    def settimeout(self, seconds):
        assert 0 < seconds <= ANSWER_SECONDS

    def getsockname(self):
        return ("127.0.0.1" if self.address in (HERE, SENTINEL) else "10.0.0.1", 40000)

    def getpeername(self):
        return self.address

    def sendall(self, text):
        words = re.findall(rb"\$[0-9]+\r\n(.*?)\r\n", text, re.DOTALL)
        answer = self.model.answer(self.address, [word.decode() for word in words])
        self.received = {NONSENSE: b"HTTP/1.1 400 Bad Request\r\n\r\n", HANGS: None, CLOSES: b""}.get(answer) if not _plain(answer) else coded(answer)

    def recv(self, _number):
        if self.received is None:
            raise socket.timeout("timed out")
        piece, self.received = self.received[:7], self.received[7:]
        return piece

    def close(self):
        self.open = False
        self.model.closed += 1


def _plain(answer):
    return answer is None or isinstance(answer, (str, int, list))


class Node:
    def __init__(self, run_id, master=None):
        self.run_id = run_id
        self.master = master
        self.priority = "100"
        self.told_priority = None  # what Sentinel still believes
        self.offset = 1000
        self.replid = "8f2c"
        self.flags = "slave" if master else "master"
        self.link = "ok"


class Model:
    """Three servers and the Sentinel of the first. ``switch_after``: seconds that a failover takes, or None if it never ends."""

    def __init__(self, switch_after=0.8):
        self.now = 0.0
        self.nodes = {ONE: Node("aaa"), TWO: Node("bbb", ONE), THREE: Node("ccc", ONE)}
        self.named = ONE
        self.switch_after = switch_after
        self.failover = None  # when it began
        self.flags = "master"
        self.sentinels = ["sentinel", "sentinel"]  # the flags of the others
        self.paused = 0.0
        self.version = "7.0.15"
        self.wanted = 0  # how many replicas must keep up with a master that takes writes
        self.config_file = ""
        self.answers = {}  # words of a command: what is answered in place of what the model says
        self.told = []
        self.opened = self.closed = 0
        self.passwords = {HERE: None, SENTINEL: None}

    # What the member uses

    def connect(self, address, seconds):
        assert seconds <= 5
        if address in self.answers:
            answer = self.answers[address]
            raise answer if isinstance(answer, Exception) else answer("idna")
        self.opened += 1
        return Socket(self, address)

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        if self.failover is not None and self.switch_after is not None and self.now - self.failover >= self.switch_after:
            # What Sentinel does: one that may be promoted becomes the master, and the others follow it. The former master does later.
            self.named, self.failover = TWO, None
            self.nodes[TWO].master = None
            self.nodes[THREE].master = TWO

    @staticmethod
    def secret(path):
        return {"/etc/redis-secret": "open", "/etc/sentinel-secret": "sesame"}[path]

    @staticmethod
    def boot_id():
        return "boot-1"

    # What the servers answer

    def answer(self, address, words):
        for length in range(len(words), 0, -1):
            if tuple(words[:length]) in self.answers:
                return self.answers[tuple(words[:length])]
        if words[0] == "AUTH":
            self.told.append((address, *words))
            return Says("OK")
        if words[0] == "SENTINEL":
            assert address == SENTINEL
            return getattr(self, "sentinel_" + words[1].lower().replace("-", "_"))(*words[2:])
        node = self.nodes[address if address in self.nodes else ONE]
        if words[0] not in ("ROLE", "INFO") and words[:2] != ["CONFIG", "GET"]:
            assert address == HERE, "only the server of this host is told anything"
            self.told.append(" ".join(words))
        return getattr(self, words[0].lower())(node, *words[1:])

    def sentinel_get_master_addr_by_name(self, name):
        return [self.named[0], str(self.named[1])] if name == "shop" else None

    def sentinel_ckquorum(self, _name):
        return Says("OK 3 usable Sentinels. Quorum and failover authorization can be reached")

    def sentinel_sentinels(self, _name):
        return [["name", f"s{number}", "flags", flags] for number, flags in enumerate(self.sentinels)]

    def sentinel_master(self, name):
        flags = self.flags + (",failover_in_progress,force_failover" if self.failover is not None else "")
        return ["name", name, "ip", self.named[0], "port", str(self.named[1]), "flags", flags, "num-slaves", "2", "quorum", "2"]

    def sentinel_replicas(self, _name):
        return [
            ["name", "%s:%d" % address, "ip", address[0], "port", str(address[1]), "runid", node.run_id, "flags", node.flags]
            + ["master-link-status", node.link, "slave-priority", node.told_priority or node.priority, "slave-repl-offset", "12"]
            for address, node in self.nodes.items()
            if address not in (self.named, HERE)
        ]

    def sentinel_failover(self, _name):
        self.failover = self.now
        self.told.append("failover")
        return Says("OK")

    def role(self, node):
        if node.master is None:
            return ["master", node.offset, []]
        return ["slave", node.master[0], node.master[1], "connected", node.offset]

    def info(self, node, section):
        if section == "server":
            return f"# Server\r\nredis_version:{self.version}\r\nrun_id:{node.run_id}\r\nconfig_file:{self.config_file}\r\n"
        if node.master is None:
            replicas = [(address, one) for address, one in self.nodes.items() if one.master == ONE]
            lines = [f"slave{number}:ip={self.announced(address)},port={address[1]},state=online" for number, (address, one) in enumerate(replicas)]
            lines = ["role:master", *lines]
            if self.wanted:
                following = [one for one in self.nodes.values() if one.master and self.nodes[one.master] is node]
                lines.append(f"min_slaves_good_slaves:{sum(one.link == 'ok' for one in following)}")
        else:
            link = "up" if node.link == "ok" else "down"
            lines = ["role:slave", f"master_host:{node.master[0]}", f"master_link_status:{link}", f"slave_repl_offset:{node.offset}"]
            lines.append(f"slave_priority:{node.priority}")
        return "\r\n".join(["# Replication", *lines, f"master_replid:{node.replid}", f"master_repl_offset:{node.offset}", ""])

    @staticmethod
    def announced(address):
        """How the master names a replica."""
        return address[0]

    def config(self, node, verb, name=None, value=None):
        if verb == "GET":
            return [name, {"replica-priority": node.priority, "min-replicas-to-write": str(self.wanted)}[name]]
        if verb == "SET":
            node.priority = value
        return Says("OK")

    def client(self, _node, verb, *words):
        if verb == "PAUSE":
            self.paused = self.now + int(words[0]) / 1000
        elif verb == "UNPAUSE":
            self.paused = 0.0
        return 3 if verb == "KILL" else Says("OK")

    def replicaof(self, node, host, port):
        node.master = (host, int(port))
        return Says("OK")


@pytest.fixture
def model(monkeypatch):
    one = Model()
    monkeypatch.setattr(Redis, "connect", staticmethod(one.connect))
    monkeypatch.setattr(Redis, "monotonic", staticmethod(one.monotonic))
    monkeypatch.setattr(Redis, "sleep", staticmethod(one.sleep))
    yield one
    assert one.opened == one.closed, "a connection was left open"


def redis(model, **options):
    checked, mistakes = check_options(Redis, {"master": "shop", **options})
    assert mistakes == []
    return Redis(checked, model)


def out(model, **options):
    this = redis(model, **options)
    this.out(this.look())
    return this.look()


def be_replica(model):
    """The server of this host is a replica of the second one."""
    model.named = TWO
    model.nodes[TWO].master, model.nodes[TWO].flags = None, "master"
    model.nodes[ONE].master, model.nodes[ONE].flags = TWO, "slave"
    model.nodes[THREE].master = TWO


# A look


def test_the_master_is_not_out(model):
    seen = redis(model).look()
    assert (seen.member, seen.ours, seen.serves, seen.foreign) == ("127.0.0.1:6379", False, True, None)
    assert seen.left == "127.0.0.1:6379 is the master of shop"
    assert seen.state == {"role": "master", "priority": 100, "master": "10.0.0.1:6379"}


def test_a_replica_is_drained_and_may_be_asked_to_lead(model):
    be_replica(model)
    seen = redis(model).look()
    assert (seen.ours, seen.serves, seen.left) == (False, True, None)
    assert seen.state == {"role": "replica", "priority": 100, "master": "10.0.0.2:6379"}


def test_a_replica_that_is_never_promoted_is_out(model):
    be_replica(model)
    model.nodes[ONE].priority = "0"
    seen = redis(model).look()
    assert (seen.ours, seen.serves, seen.left) == (True, False, None)


def test_a_master_is_not_out_whatever_its_priority(model):
    model.nodes[ONE].priority = "0"
    assert not redis(model).look().ours


def test_a_former_master_that_sentinel_has_not_told_yet_is_not_drained(model):
    model.named = TWO
    model.nodes[TWO].master = None
    model.nodes[ONE].priority = "0"
    seen = redis(model).look()
    assert (seen.ours, seen.left) == (False, "127.0.0.1:6379 does not follow the new master 10.0.0.2:6379 yet")


@pytest.mark.parametrize("force", [False, True])
def test_the_master_of_something_else_is_never_told_to_follow(model, tmp_path, force):
    """With a wrong master or address it would lose all that it has."""
    model.named = TWO
    model.nodes[TWO].master = None
    del model.nodes[THREE]
    model.nodes[HERE] = Node("zzz")
    said = "127.0.0.1:6379 is a master, and Sentinel at 127.0.0.1:26379 does not know it as a server of shop: see the options master and address"
    assert redis(model).look().left == said and spare(model) == said
    if force:
        with pytest.raises(MemberError, match=re.escape(said)):
            hold(model, tmp_path, force=True)
    else:
        assert hold(model, tmp_path)["waiting_for"] == said
    assert model.told == [] and model.nodes[HERE].priority == "100"


def test_a_former_master_is_known_by_its_address_if_it_started_anew(model):
    model.named = TWO
    model.nodes[TWO].master = None
    model.answers["SENTINEL", "REPLICAS"] = [["name", "x", "ip", ONE[0], "port", "6379", "runid", "", "flags", "slave,disconnected"]]
    assert redis(model).look().left == "127.0.0.1:6379 does not follow the new master 10.0.0.2:6379 yet"


def test_a_replica_that_sentinel_names_is_not_drained(model):
    model.nodes[ONE].master = TWO
    seen = redis(model).look()
    assert (seen.ours, seen.left) == (False, "Sentinel still names 127.0.0.1:6379 as the master of shop")


def test_a_name_that_sentinel_does_not_know(model):
    with pytest.raises(MemberError, match=r"Sentinel at 127\.0\.0\.1:26379 watches no master with the name mymaster \(option master\)\."):
        redis(model, master="mymaster").look()


def test_passwords_are_read_from_files_and_never_told(model):
    redis(model, username="me", password_file="/etc/redis-secret", sentinel_password_file="/etc/sentinel-secret").look()
    assert model.told == [(HERE, "AUTH", "me", "open"), (SENTINEL, "AUTH", "sesame"), (ONE, "AUTH", "me", "open")]
    model.answers[("AUTH",)] = Complains("WRONGPASS invalid username-password pair or user is disabled.")
    with pytest.raises(MemberError) as told:
        redis(model, username="me", password_file="/etc/redis-secret").look()
    assert str(told.value) == "Redis at 127.0.0.1:6379 refused AUTH: WRONGPASS invalid username-password pair or user is disabled."


@pytest.mark.parametrize(
    "where, answer, told",
    [
        (("ROLE",), Complains("NOAUTH Authentication required."), "Redis at 127.0.0.1:6379 refused ROLE: NOAUTH Authentication required."),
        (("ROLE",), HANGS, "Redis at 127.0.0.1:6379 did not answer ROLE within 3 seconds."),
        (("ROLE",), CLOSES, "Redis at 127.0.0.1:6379 did not answer ROLE: it closed the connection."),
        (("ROLE",), NONSENSE, "Redis at 127.0.0.1:6379 answered ROLE with something that Redis does not send."),
        (("ROLE",), ["sentinel", ["shop"]], "Redis at 127.0.0.1:6379 is neither a master nor a replica: ROLE says ['sentinel', ['shop']]."),
        (("ROLE",), Says("PONG"), "Redis at 127.0.0.1:6379 is neither a master nor a replica"),
        (("CONFIG", "GET"), [], "Redis at 127.0.0.1:6379 does not tell its replica-priority: []."),
        (("CONFIG", "GET"), Complains("ERR unknown command 'CONFIG'"), "refused CONFIG GET: ERR unknown command 'CONFIG'."),
        (("SENTINEL", "GET-MASTER-ADDR-BY-NAME"), ["10.0.0.1"], "does not tell the address of the master shop: ['10.0.0.1']."),
        (("SENTINEL",), Complains("ERR unknown command 'SENTINEL'"), "Sentinel at 127.0.0.1:26379 refused SENTINEL GET-MASTER-ADDR-BY-NAME: ERR unknown"),
        (("INFO",), "nothing", "Redis at 127.0.0.1:6379 does not tell its run_id in INFO server."),
        (HERE, ConnectionRefusedError(111, "Connection refused"), "Redis at 127.0.0.1:6379 cannot be reached: Connection refused."),
        (SENTINEL, TimeoutError("timed out"), "Sentinel at 127.0.0.1:26379 cannot be reached: timed out."),
        (ONE, "web1..example.com".encode, "Redis at 10.0.0.1:6379 cannot be reached: "),
        (ONE, OSError(113, "No route to host"), "Redis at 10.0.0.1:6379 cannot be reached: No route to host."),
    ],
)
def test_what_cannot_be_known_is_told(model, where, answer, told):
    model.answers[where] = answer
    with pytest.raises(MemberError) as error:
        redis(model).look()
    assert told in str(error.value)


def test_an_endless_answer_is_cut_off(model, monkeypatch):
    monkeypatch.setattr(_cluster_redis, "ANSWER_LIMIT", 1000)
    model.answers[("INFO",)] = "x" * 2000
    with pytest.raises(MemberError, match="something that Redis does not send"):
        redis(model).look()
    model.answers[("INFO",)] = Says("x" * 2000)
    with pytest.raises(MemberError, match="something that Redis does not send"):
        redis(model).look()


# Whether the cluster can spare it


def spare(model):
    this = redis(model)
    return this.spare(this.look())


def test_a_master_can_be_spared_if_all_replicas_follow(model):
    assert spare(model) is None


def test_a_master_without_a_replica_that_could_lead_cannot_be_spared(model):
    model.nodes[TWO].priority = "0"
    model.nodes[THREE].flags = "slave,s_down"
    assert spare(model) == "no replica of shop can become its master: Sentinel knows none that is up and has a priority above 0"


def test_sentinel_may_choose_a_replica_that_is_not_linked(model):
    model.nodes[THREE].link = "err"
    assert spare(model) == "10.0.0.3:6379 may become the master of shop and is not linked to it"
    model.nodes[THREE].priority = "0"
    assert spare(model) is None


def test_a_replica_that_has_just_gone_out_for_another_event_is_not_chosen(model):
    """Sentinel asks for its priority only every ten seconds."""
    model.nodes[THREE].priority, model.nodes[THREE].told_priority = "0", "100"
    told = "Sentinel does not know yet that Redis at 10.0.0.3:6379 never becomes the master of shop"
    assert spare(model) == told
    with pytest.raises(MemberError, match=f"was not told to hand over: {told}"):
        out(model)
    assert model.told == []
    model.nodes[THREE].told_priority = "0"
    assert spare(model) is None and out(model).ours


def test_sentinels_that_are_too_few(model):
    said = "NOQUORUM 1 usable Sentinels. Not enough available Sentinels to reach the specified quorum for this master"
    model.answers[("SENTINEL", "CKQUORUM")] = Complains(said)
    assert spare(model) == ("the Sentinels of shop could not agree on another master: Sentinel at 127.0.0.1:26379 refused SENTINEL CKQUORUM: %s" % said)


@pytest.mark.parametrize("role", ["master", "replica"])
def test_the_sentinel_of_the_host_goes_with_it(model, role):
    """CKQUORUM counts it."""
    if role == "replica":
        model.nodes[ONE].master, model.nodes[TWO].master, model.named = TWO, None, TWO
    assert spare(model) is None
    model.sentinels[0] = "s_down,sentinel"
    needed = "without the Sentinel of this host, the others of shop could not agree on another master: 1 of 2 is up, and 2 are needed"
    assert spare(model) == needed
    model.answers[("SENTINEL", "SENTINELS")] = 3
    with pytest.raises(MemberError, match="does not tell the other Sentinels of shop"):
        spare(model)
    del model.answers[("SENTINEL", "SENTINELS")]
    # Of two, no waiting helps.
    model.sentinels = ["s_down,sentinel"]
    assert spare(model) is None


def test_a_failover_of_somebody_else_is_waited_for(model):
    model.failover = 0.0
    assert spare(model) == "a failover of shop is under way"


def test_a_replica_can_be_spared_while_the_master_is_up(model):
    be_replica(model)
    assert spare(model) is None
    model.flags = "master,s_down"
    assert spare(model) == "Sentinel does not reach 10.0.0.2:6379, the master of shop (s_down)"


@pytest.mark.parametrize("leads", [True, False])
def test_a_server_without_which_writes_would_be_refused(model, leads):
    """While another replica is down, the master would have too few that keep up with it."""
    if not leads:
        be_replica(model)
    model.wanted = 1
    assert spare(model) is None
    model.nodes[THREE].priority, model.nodes[THREE].link, model.nodes[THREE].flags = "0", "err", "slave,s_down"
    assert spare(model) == (
        "without 127.0.0.1:6379, the master of shop would refuse writes: 0 replicas would keep up with it, and it wants 1 (min-replicas-to-write)"
    )
    model.wanted = 2
    # Two that follow are never left, so no waiting helps.
    assert spare(model) is None


def test_a_replica_that_does_not_keep_up_is_not_needed_for_writes(model):
    be_replica(model)
    model.wanted, model.nodes[ONE].link = 1, "err"
    assert spare(model) is None


def test_a_master_that_does_not_tell_how_many_replicas_it_wants(model):
    model.wanted = 1
    model.answers["CONFIG", "GET", "min-replicas-to-write"] = ["min-replicas-to-write", "some"]
    with pytest.raises(MemberError, match="Redis at 127.0.0.1:6379 does not tell its min-replicas-to-write"):
        spare(model)


# Out


def test_the_order_loses_no_write(model):
    """No write is taken from the failover on, and none is acknowledged that a replica lacks."""
    seen = out(model)
    assert model.told == [
        "CLIENT PAUSE 5000 WRITE",
        "CLIENT PAUSE 30000 WRITE",
        "failover",
        "REPLICAOF 10.0.0.2 6379",
        "CONFIG REWRITE",
        "CLIENT KILL TYPE normal",
        "CLIENT UNPAUSE",
        "CONFIG SET replica-priority 0",
    ]
    assert (seen.ours, seen.serves, seen.left) == (True, False, None)


def test_a_replica_is_only_told_its_priority(model):
    be_replica(model)
    seen = out(model)
    assert model.told == ["CONFIG SET replica-priority 0"]
    assert (seen.ours, seen.left) == (True, None)


def test_replicas_that_are_behind_are_waited_for(model):
    model.nodes[THREE].offset = 990
    step, waited = model.sleep, []

    def sleep(seconds):
        step(seconds)
        waited.append(seconds)
        if model.now > 1 and model.failover is None:
            model.nodes[THREE].offset = 1000
        assert "failover" not in model.told or model.nodes[THREE].offset == 1000

    Redis.sleep = staticmethod(sleep)
    assert out(model).ours and sum(waited) > 1


def test_replicas_that_stay_behind_end_it(model):
    model.nodes[THREE].offset = 990
    with pytest.raises(MemberError) as told:
        out(model)
    assert str(told.value) == ("Redis at 127.0.0.1:6379 was not told to hand over: writes waited for 3 seconds, and Redis at 10.0.0.3:6379 lacks 10 bytes.")
    assert model.told == ["CLIENT PAUSE 5000 WRITE", "CLIENT UNPAUSE"]


def test_a_replica_that_is_never_promoted_may_be_behind(model):
    model.nodes[THREE].offset, model.nodes[THREE].priority = 990, "0"
    assert out(model).ours


def test_the_master_may_name_its_replicas_in_another_way(model):
    """Where they announce names and Sentinel resolves them, and always with IPv6: ::1:6379 there, [::1]:6379 here."""
    model.announced = lambda address: f"redis-{address[0][-1]}.example"
    assert spare(model) is None
    assert out(model).ours


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"replid": "77aa"}, "Redis at 10.0.0.3:6379 does not replicate 127.0.0.1:6379"),
        ({"master": None}, "Redis at 10.0.0.3:6379 does not replicate 127.0.0.1:6379"),
        ({"offset": 1000 - (16 << 20) - 1}, "Redis at 10.0.0.3:6379 lacks 16777217 bytes"),
    ],
)
def test_writes_are_not_made_to_wait_for_a_replica_that_cannot_get_them(model, change, told):
    vars(model.nodes[THREE]).update(change)
    if model.nodes[THREE].offset < 0:
        for node in model.nodes.values():
            node.offset += 1 << 25
    assert spare(model) == f"writes are not made to wait, because a replica cannot get all of them soon: {told}"
    with pytest.raises(MemberError, match=f"was not told to hand over: {told}"):
        out(model)
    assert model.told == []


def test_a_replica_that_cannot_be_asked_is_waited_for(model):
    step = model.connect

    def connect(address, seconds):
        if address == THREE:
            raise OSError(113, "No route to host")
        return step(address, seconds)

    Redis.connect = staticmethod(connect)
    assert spare(model) == (
        "Sentinel may make any of these replicas the master of shop, and one does not tell how much it has: "
        "Redis at 10.0.0.3:6379 cannot be reached: No route to host"
    )


def test_a_replica_that_answers_late_is_not_believed(model):
    """The pause of the writes may be over by then."""
    ask = model.answer

    def answer(address, words):
        model.now += 1.6 if address in (TWO, THREE) else 0
        return ask(address, words)

    model.answer = answer
    with pytest.raises(MemberError, match="writes waited for 3 seconds, and the replicas did not tell in time how much they have"):
        out(model)
    assert "failover" not in model.told and model.paused == 0


def test_another_address_of_the_same_server_is_no_new_master(model):
    """The address of a name changed during the failover."""
    model.nodes[("redis1.example", 6379)] = model.nodes[ONE]
    step = model.sleep

    def sleep(seconds):
        step(seconds)
        if model.failover is not None:
            model.named = ("redis1.example", 6379)

    Redis.sleep = staticmethod(sleep)
    assert out(model).ours
    assert [word for word in model.told if word.startswith("REPLICAOF")] == ["REPLICAOF 10.0.0.2 6379"]


@pytest.mark.parametrize("code", ["NOGOODSLAVE No suitable replica to promote", "ERR no"])
def test_a_refused_failover_lets_the_writes_go_on(model, code):
    model.answers[("SENTINEL", "FAILOVER")] = Complains(code)
    with pytest.raises(MemberError, match=f"refused SENTINEL FAILOVER: {code}"):
        out(model)
    assert model.paused == 0 and model.told[-1] == "CLIENT UNPAUSE"


def test_a_failover_that_goes_on_already_is_waited_for(model):
    model.failover = 0.0
    assert out(model).ours
    assert model.told[0] == "CLIENT PAUSE 30000 WRITE" and "failover" not in model.told


def test_another_failover_in_the_same_moment_is_as_good(model):
    """It was not there yet when we looked for one."""

    def refuse(_name):
        model.failover = model.now
        return Complains("INPROG Failover already in progress")

    model.sentinel_failover = refuse
    assert out(model).ours


@pytest.mark.parametrize("answer", [HANGS, CLOSES])
def test_writes_go_on_waiting_if_nobody_knows_whether_the_failover_began(model, answer):
    model.answers[("SENTINEL", "FAILOVER")] = answer
    with pytest.raises(MemberError, match="did not answer SENTINEL FAILOVER"):
        out(model)
    assert model.paused == 30 and model.told[-1] == "CLIENT PAUSE 30000 WRITE"


def test_a_failover_that_sentinel_gives_up(model):
    model.switch_after = None
    step = model.sleep

    def sleep(seconds):
        step(seconds)
        if model.now > 2:
            model.failover = None

    Redis.sleep = staticmethod(sleep)
    with pytest.raises(MemberError, match=r"Sentinel at 127\.0\.0\.1:26379 gave up the failover of shop\. See its log\."):
        out(model)
    assert model.paused == 0


def test_a_failover_that_takes_longer_than_a_step_is_continued(model):
    model.switch_after = 10
    seen = out(model)
    assert (seen.ours, seen.left) == (False, "127.0.0.1:6379 is the master of shop")
    assert model.now < 7 and model.paused >= model.now + 20
    assert "CONFIG SET replica-priority 0" not in model.told
    assert out(model).ours
    assert model.told.count("failover") == 1


def test_a_step_that_was_killed_is_continued(model):
    """The failover was done, and nobody told the former master."""
    model.named = TWO
    model.nodes[TWO].master, model.nodes[TWO].replid = None, "77aa"
    assert spare(model) is None
    assert out(model).ours
    assert model.told[0] == "REPLICAOF 10.0.0.2 6379" and "failover" not in model.told


def test_a_server_that_started_anew_is_not_made_its_own_replica(model):
    """Sentinel may know it by its former run_id still. It is asked at the address that Sentinel names."""
    model.nodes[ONE].run_id = "ddd"
    assert redis(model).look().left == "127.0.0.1:6379 is the master of shop"


@pytest.mark.parametrize("version", ["6.0.16", "5.0.3", ""])
def test_an_old_redis_cannot_let_writes_wait(model, version):
    model.version = version
    with pytest.raises(MemberError, match=f"has version {version or 'unknown'}: .* from 6.2 on"):
        out(model)
    assert model.told == []
    be_replica(model)
    assert out(model).ours, "a replica has no writes"


def test_a_configuration_that_cannot_be_written_is_no_hindrance(model):
    model.answers[("CONFIG", "REWRITE")] = Complains("ERR The server is running without a config file")
    assert out(model).ours


# Back


def back(model, found):
    this = redis(model)
    this.back(this.look(), found)
    seen = this.look()
    return this.is_back(seen, found)


def test_the_priority_that_was_found_comes_back(model):
    be_replica(model)
    model.nodes[ONE].priority = "0"
    assert back(model, {"role": "master", "priority": 25})
    assert model.told == ["CONFIG SET replica-priority 25"]


def test_a_priority_of_zero_that_was_found_stays(model):
    be_replica(model)
    model.nodes[ONE].priority = "0"
    assert back(model, {"role": "replica", "priority": 0})


@pytest.mark.parametrize("text, written", [("replica-priority 0\n", True), ("slave-priority 0\r\n", True), ("replica-priority 10\n", False), ("", False)])
def test_a_file_that_sentinel_had_written_is_put_right(model, tmp_path, text, written):
    """Sentinel has each server that it tells to follow another one write its file, with our priority in it."""
    model.config_file = str(tmp_path / "redis.conf")
    (tmp_path / "redis.conf").write_text("port 6379\n# replica-priority 0\n" + text)
    be_replica(model)
    model.nodes[ONE].priority = "0"
    assert back(model, {"role": "master", "priority": 100})
    assert ("CONFIG REWRITE" in model.told) is written


def test_a_file_that_cannot_be_read_may_have_our_priority(model, tmp_path):
    """Such as that of a Redis in a container, or one that only another user may read."""
    model.config_file = str(tmp_path / "redis.conf")
    be_replica(model)
    model.nodes[ONE].priority = "0"
    assert back(model, {"role": "master", "priority": 100})
    assert model.told == ["CONFIG SET replica-priority 100", "CONFIG REWRITE"]


# The options


@pytest.mark.parametrize("value", ["127.0.0.1", "6379", "127.0.0.1:", ":6379", "host:0", "host:65536", "a b:1", "redis://h:1", "::1:6379"])
def test_what_is_no_address(value):
    for option in ("address", "sentinel"):
        assert check_options(Redis, {option: value})[1] == [(option, f"{value!r} is no host with a port, such as 127.0.0.1:6379")]


@pytest.mark.parametrize("value, address", [("redis1.example:6379", ("redis1.example", 6379)), ("[::1]:6379", ("::1", 6379)), ("h:65535", ("h", 65535))])
def test_addresses(model, value, address):
    assert check_options(Redis, {"address": value})[1] == []
    model.answers[address] = ConnectionRefusedError(111, "Connection refused")
    with pytest.raises(MemberError) as told:
        redis(model, address=value).look()
    assert str(told.value) == f"Redis at {value} cannot be reached: Connection refused."


# The life of a hold


def hold(model, folder, state="present", check=False, **more):
    params = {"type": "redis", "name": "cache", "options": {"master": "shop"}, "state": state, "event_ids": [EVENT], "event_details": {}}
    params.update({"reason": "", "state_dir": str(folder), "force": False, "timeout": 0}, **more)
    return call("cluster_hold", params, machine=ScriptedMachine(tools=model, state_dir=str(folder), check_mode=check))


def test_out_and_back(model, tmp_path):
    assert hold(model, tmp_path, check=True)["changed"]
    assert model.told == [] and not list(tmp_path.iterdir())
    taken = hold(model, tmp_path)
    assert taken["changed"] and taken["done"] and taken["members"][0]["condition"] == "held"
    assert taken["members"][0]["found"] == {"role": "master", "priority": 100, "master": "10.0.0.1:6379"}
    again = hold(model, tmp_path)
    assert not again["changed"] and again["done"]
    given = hold(model, tmp_path, "absent")
    assert given["changed"] and given["done"] and given["conflicts"] == []
    assert model.nodes[ONE].priority == "100" and model.nodes[ONE].master == TWO
    assert not hold(model, tmp_path, "absent")["changed"]


def test_writes_wait_once_and_not_in_every_pass(model, tmp_path):
    """Until something changes, and once more when the impact is near. Each call is a run of its own."""
    model.nodes[THREE].offset = 990
    first = hold(model, tmp_path)
    assert not first["done"] and "writes waited for 3 seconds, and Redis at 10.0.0.3:6379 lacks 10 bytes. Tried at 20" in first["waiting_for"]
    for _pass in range(3):
        again = hold(model, tmp_path)
        assert (again["waiting_for"], again["changed"]) == (first["waiting_for"], False)
    assert model.told == ["CLIENT PAUSE 5000 WRITE", "CLIENT UNPAUSE"]
    assert first["waiting_for"].endswith("; tried again when the other members change, or when the impact is near")
    near = [hold(model, tmp_path, force=True)["waiting_for"] for _pass in range(3)]
    assert model.told.count("CLIENT PAUSE 5000 WRITE") == 2 and near[0] == near[2] and near[0].endswith("; tried again when the other members change")
    model.nodes[THREE].priority = "0"
    taken = hold(model, tmp_path)
    assert taken["done"] and taken["members"][0]["condition"] == "held"
    assert [set(json.loads(path.read_text())) & {"failed_attempt"} for path in tmp_path.glob("*.json")] == [set()]


def test_a_failover_that_ends_between_two_passes_is_not_begun_again(model, tmp_path):
    model.switch_after = None
    assert hold(model, tmp_path)["waiting_for"] == "127.0.0.1:6379 is the master of shop"
    assert hold(model, tmp_path)["waiting_for"] == "127.0.0.1:6379 is the master of shop", "it goes on, and writes go on waiting"
    model.failover = None
    for _pass in range(2):
        assert "127.0.0.1:6379 is the master of shop still, although it was told to hand over. Tried at 20" in hold(model, tmp_path)["waiting_for"]
    assert model.told.count("failover") == 1
    model.switch_after = 0.8
    assert hold(model, tmp_path, force=True)["done"] and model.told.count("failover") == 2


def test_a_failover_that_is_given_up_in_a_later_pass(model, tmp_path):
    model.switch_after = None
    hold(model, tmp_path)
    ends, step = model.now + 1, model.sleep

    def sleep(seconds):
        step(seconds)
        if model.now > ends:
            model.failover = None

    Redis.sleep = staticmethod(sleep)
    for _pass in range(3):
        assert "gave up the failover of shop. See its log. Tried at 20" in hold(model, tmp_path)["waiting_for"]
    assert model.told.count("failover") == 1


def test_an_attempt_that_failed_leaves_nothing_when_the_event_is_over(model, tmp_path):
    model.nodes[THREE].offset = 990
    hold(model, tmp_path)
    (path,) = tmp_path.glob("*.json")
    jsonschema.validate(json.loads(path.read_text()), json.loads((ROOT / "docs" / "hold-record.schema.json").read_text()))
    given = hold(model, tmp_path, "absent")
    assert given["done"] and given["conflicts"] == [] and not list(tmp_path.iterdir())
    assert model.nodes[ONE].priority == "100"


def test_writes_that_may_not_be_paused_are_tried_again(model, tmp_path):
    """It hurts nobody, and the rights may be given meanwhile."""
    model.answers[("CLIENT", "PAUSE")] = Complains("NOPERM this user has no permissions to run the 'client|pause' command")
    with pytest.raises(MemberError, match="NOPERM"):
        hold(model, tmp_path)
    del model.answers[("CLIENT", "PAUSE")]
    assert hold(model, tmp_path)["done"]


def test_a_priority_that_somebody_else_set_is_left_alone(model, tmp_path):
    hold(model, tmp_path)
    model.nodes[ONE].priority = "50"
    assert hold(model, tmp_path)["conflicts"] and model.nodes[ONE].priority == "0"
    model.nodes[ONE].priority = "50"
    assert not hold(model, tmp_path)["done"]
    assert hold(model, tmp_path, "absent")["conflicts"]
    assert model.nodes[ONE].priority == "50"


def test_a_priority_of_zero_that_somebody_else_set_needs_no_hold(model, tmp_path):
    be_replica(model)
    model.nodes[ONE].priority = "0"
    taken = hold(model, tmp_path)
    assert taken["done"] and not taken["changed"] and taken["members"][0]["condition"] == "taken_out_by_others"
    given = hold(model, tmp_path, "absent")
    assert given["done"] and given["conflicts"] == [] and model.told == []


def test_a_priority_of_zero_is_no_proof_that_writes_go_on_without_it(model, tmp_path):
    """Such a replica never leads, and counts for min-replicas-to-write as any other."""
    be_replica(model)
    model.nodes[ONE].priority, model.wanted = "0", 1
    assert hold(model, tmp_path)["done"]
    model.nodes[THREE].link, model.nodes[THREE].flags = "err", "slave,s_down"
    taken = hold(model, tmp_path)
    assert not taken["done"] and "the master of shop would refuse writes" in taken["waiting_for"] and model.told == []


def test_a_master_whose_priority_is_zero_hands_over_and_keeps_it(model, tmp_path):
    model.nodes[ONE].priority = "0"
    assert hold(model, tmp_path)["members"][0]["condition"] == "held"
    given = hold(model, tmp_path, "absent")
    assert given["done"] and given["conflicts"] == [] and model.nodes[ONE].priority == "0"


@pytest.mark.parametrize("boot", ["boot-1", "boot-2"])
def test_redis_forgets_the_priority_when_it_starts_anew(model, tmp_path, boot):
    """With the host, or without."""
    hold(model, tmp_path)
    model.nodes[ONE].priority, model.nodes[ONE].run_id = "100", "ddd"
    model.boot_id = lambda: boot
    told = hold(model, tmp_path)
    assert told["done"] and told["conflicts"] == [] and model.nodes[ONE].priority == "0"
    model.nodes[ONE].priority, model.nodes[ONE].run_id = "100", "eee"
    told = hold(model, tmp_path, "absent")
    assert told["done"] and told["conflicts"] == [] and model.nodes[ONE].priority == "100"


def test_a_redis_that_starts_still_is_waited_for_when_the_event_is_over(model, tmp_path):
    hold(model, tmp_path)
    model.answers[HERE] = ConnectionRefusedError(111, "Connection refused")
    waits = hold(model, tmp_path, "absent")
    assert not waits["done"] and "cannot be reached: Connection refused" in waits["waiting_for"]
    del model.answers[HERE]
    assert hold(model, tmp_path, "absent")["done"]
