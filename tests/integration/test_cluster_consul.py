# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes of a real Consul, taken out for an event and given back: by the module, and by handle_events."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request

import pytest

from tests.support.cluster_bed import EVENT, Bed, only
from tests.support.cluster_site import NEEDED as ROOT_NEEDED
from tests.support.cluster_site import ClusterSite
from tests.support.consul import NEEDS, Clients, Consul
from tests.support.needs import NEEDS_IPV6
from tests.support.patience import patient, until
from tests.support.processes import frozen
from tests.support.serving import Handler, Server, Serving
from tests.support.simulator import SHORT

# tests/unit/plugins/module_utils/test_cluster_consul.py holds the same with recorded answers, in a second.
pytestmark = [NEEDS, pytest.mark.long, pytest.mark.timeout(300)]

OURS = "graceful.azure"


def is_ours(agent):
    return (agent.reason() or "").startswith(OURS + " (")


class ConsulBed(Bed):
    def __init__(self, cluster, folder):
        super().__init__(cluster, folder, type="consul", name="discovery", timeout=10)

    def arguments(self, host="web1", options=None, **more):
        """C(options): those that the step has besides its own."""
        return super().arguments(host, options={**self.cluster[host].options, **(options or {})}, **more)


@pytest.fixture(name="consul", scope="module")
def make_consul(tmp_path_factory):
    with Consul(tmp_path_factory.mktemp("consul")) as consul:
        yield consul


@pytest.fixture(name="bed")
def make_bed(consul, tmp_path):
    for agent in consul:
        # What a test left that failed.
        agent.maintain(False)
    yield ConsulBed(consul, tmp_path)
    assert {agent.name: agent.reason() for agent in consul} == dict.fromkeys(consul.agents)
    consul.settled()


def test_out_drained_and_back(bed):
    dry = bed.hold(check=True)
    assert dry["changed"] and bed.records() == [] and bed.cluster["web1"].reason() is None
    held = bed.hold()
    assert held["done"] and held["changed"] and only(held)["condition"] == "held", held
    # The cluster knows it at the moment that the module ends.
    assert bed.cluster.passing(asked="web2") == {"web2", "web3"} and is_ours(bed.cluster["web1"])
    assert [record["found"] for record in bed.records()] == [{"maintenance": False, "reason": None}]
    again = bed.hold()
    assert again["done"] and not again["changed"]
    assert only(bed.hold(event_ids=["another"]))["held_by"] == [EVENT, "another"]
    assert only(bed.release(event_ids=["another"]))["condition"] == "held"
    released = bed.release()
    assert released["done"] and released["changed"] and released["conflicts"] == [] and only(released)["serves"]
    assert bed.records() == [] and not bed.release()["changed"]


def test_clients_lose_no_request(bed):
    """They ask Consul before each request. The web server of the node that is out is gone for a while, and no client meets it."""
    web = bed.cluster["web1"].web
    with Clients(bed.cluster, "web2") as clients:
        until(lambda: clients.answered.get("web1"), 30)
        assert bed.hold()["done"]
        time.sleep(0.2)
        before = clients.answered["web1"]
        web.status = 500
        time.sleep(1.5)
        assert clients.answered["web1"] == before
        web.status = 200
        assert bed.release()["done"]
        until(lambda: clients.answered["web1"] > before, 30)
    assert clients.failed == [] and sum(clients.answered.values()) > 50, clients.answered


def test_a_lost_record(bed):
    bed.see_a_lost_record_given_back()


def test_an_operator_s_maintenance_stays(bed):
    bed.cluster["web1"].maintain(True, "new disks, ask Ann")
    held = bed.hold()
    assert held["done"] and not held["changed"] and only(held)["condition"] == "taken_out_by_others" and bed.records() == []
    assert only(held)["state"] == {"maintenance": True, "reason": "new disks, ask Ann"}
    assert not bed.release()["changed"] and bed.cluster["web1"].reason() == "new disks, ask Ann"
    bed.cluster["web1"].maintain(False)


def test_what_an_operator_ended_or_took_over_is_told_and_left(bed):
    assert bed.hold()["done"]
    bed.cluster["web1"].maintain(False)
    told = bed.hold()
    assert told["conflicts"] and told["changed"] and told["done"] and is_ours(bed.cluster["web1"])
    bed.cluster["web1"].maintain(False)
    told = bed.hold(timeout=0)
    assert not told["changed"] and not told["done"] and only(told)["condition"] == "changed_meanwhile"
    bed.cluster["web1"].maintain(True, "mine now")
    released = bed.release()
    assert released["conflicts"] and bed.records() == [] and bed.cluster["web1"].reason() == "mine now"
    bed.cluster["web1"].maintain(False)


def test_a_service_that_nobody_else_offers_is_waited_for(bed):
    others = [bed.cluster[name] for name in ("web2", "web3")]
    for agent in others:
        agent.maintain(True, "new disks")
    until(lambda: bed.cluster.passing(asked="web2") == {"web1"}, 30)
    waiting = bed.hold(timeout=0)
    assert waiting["waiting_for"] == "web1 is the only node that Consul offers for the service web: it does not pass its checks on web2, web3"
    assert not waiting["changed"] and bed.records() == []
    assert bed.hold(force=True)["done"] and bed.cluster.passing(asked="web2") == set()
    for agent in others:
        agent.maintain(False)
    assert bed.release()["done"]


def test_servers_that_are_out_for_an_event_count_as_gone(bed):
    assert bed.hold("web2")["done"] and bed.hold("web3", force=True)["done"]
    waiting = bed.hold(timeout=0)
    assert "0 of the other 2 answer and stay (web2, web3 are out for an event)" in waiting["waiting_for"]
    assert not waiting["changed"] and len(bed.records()) == 2
    assert bed.hold(force=True)["done"] and bed.cluster.passing(asked="web2") == set()
    assert all(bed.release(name)["done"] for name in ("web1", "web2", "web3"))


def test_a_server_that_the_majority_needs_is_waited_for(bed):
    bed.cluster.kill("web3")
    try:
        until(lambda: "the servers of Consul would lose their majority" in str(bed.hold(timeout=0, check=True).get("waiting_for")), 30, pause=0.5)
        assert bed.hold(timeout=0)["waiting_for"] == ("without web1 the servers of Consul would lose their majority: 1 of the other 2 answer, and 2 are needed")
        assert bed.records() == []
    finally:
        bed.cluster.start("web3")
    bed.cluster.settled()
    assert bed.hold()["done"]
    # Another one fails when it is out already.
    bed.cluster.kill("web3")
    try:
        until(lambda: "without web1 the servers of Consul would lose their majority" in str(bed.hold(timeout=0).get("waiting_for")), 30, pause=0.5)
        assert is_ours(bed.cluster["web1"])
        assert bed.hold(force=True)["done"]
    finally:
        bed.cluster.start("web3")
    bed.cluster.settled({"web2", "web3"})
    assert bed.hold()["done"] and bed.release()["done"]


@NEEDS_IPV6
def test_the_majority_with_ipv6(tmp_path):
    """Its servers name their peers in brackets, and their members without."""
    with Consul(tmp_path, bind="::1") as consul:
        bed, agent = ConsulBed(consul, tmp_path / "state"), consul["web1"]
        assert all(peer.startswith("[::1]:") for peer in agent.get("/v1/status/peers"))
        assert {member["Addr"] for member in agent.get("/v1/agent/members")} == {"::1"}
        assert bed.hold()["done"] and bed.release()["done"]
        consul.kill("web3")
        told = "without web1 the servers of Consul would lose their majority: 1 of the other 2 answer, and 2 are needed"
        until(lambda: bed.hold(timeout=0, check=True).get("waiting_for") == told, 30, pause=0.5)


def test_servers_without_a_majority_do_not_know(bed):
    """The agent of the node takes the change, and nobody else learns of it: the node is not drained."""
    for name in ("web2", "web3"):
        bed.cluster.kill(name)
    try:
        told = bed.hold(force=True)
        # The agent answers late or, on a busy machine, too late.
        late = "/v1/agent/maintenance?enable=true&reason=graceful.azure was not answered within 10 seconds"
        unknown = "Consul's servers do not tell whether they still offer the services of web1. GET "
        assert late in told.get("msg", "") or not told["done"] and told["waiting_for"].startswith(unknown), told
        assert is_ours(bed.cluster["web1"]) and len(bed.records()) == 1
    finally:
        for name in ("web2", "web3"):
            bed.cluster.start(name)
    held = until(lambda: only(bed.hold(timeout=30)), 60)
    assert held["condition"] == "held" and held["left"] is None
    assert bed.release()["done"]


def test_a_reboot_of_the_node(bed):
    """The agent keeps the mode on its disk: the node comes back, and nobody is sent to it until it is given back."""
    assert bed.hold()["done"]
    bed.cluster.kill("web1")
    assert "Connection refused" in bed.release(timeout=0)["waiting_for"]
    bed.cluster.start("web1")
    bed.cluster.settled({"web2", "web3"})
    assert is_ours(bed.cluster["web1"])
    assert only(bed.hold())["condition"] == "held"
    released = bed.release()
    assert released["done"] and released["conflicts"] == []


class Killer(Serving):
    """An agent's address that kills the module beside a change: just before the agent is told, or just after it."""

    def __init__(self, agent, pid_file):
        self.when = None
        killer = self

        class Answer(Handler):
            def do_PUT(self):
                if killer.when == "before":
                    return killer.kill()
                status, text = agent.ask(self.command, self.path)
                if killer.when == "after":
                    return killer.kill()
                return self.reply(status, text.encode())

            def do_GET(self):
                status, text = agent.ask("GET", self.path)
                self.reply(status, text.encode())

        self._pid_file = pid_file
        # The module writes its own id before it starts.
        self.prefix = ("sh", "-c", f'echo $$ > {pid_file}; exec "$@"', "sh")
        self.serve(Server(Answer))
        self.options = {"url": f"http://127.0.0.1:{self._server.server_port}"}

    def kill(self):
        self.when = None
        os.kill(int(self._pid_file.read_text()), signal.SIGKILL)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("way", ["present", "absent"])
def test_killed_beside_the_change(bed, tmp_path, way, when):
    killer = Killer(bed.cluster["web1"], tmp_path / "pid")
    try:
        if way == "absent":
            assert bed.hold(options=killer.options)["done"]
        killer.when = when
        with pytest.raises(AssertionError):
            bed.hold(options=killer.options, state=way, prefix=killer.prefix)
        (record,) = bed.records()
        assert record["phase"] == ("changing" if way == "present" else "restoring")
        assert (is_ours(bed.cluster["web1"])) == ((way, when) in (("present", "after"), ("absent", "before")))
        if way == "present":
            assert only(bed.hold(options=killer.options))["condition"] == "held"
        released = bed.release()
        assert released["done"] and released["conflicts"] == [] and bed.records() == []
    finally:
        killer.close()


def test_an_agent_that_hangs(bed):
    with frozen(bed.cluster["web1"].process.pid):
        failed = bed.hold()
        assert failed["failed"] and "Consul (discovery): GET " in failed["msg"] and "was not answered within 10 seconds" in failed["msg"], failed
    assert bed.records() == []


class TestTokens:
    """With access control: what the token must be allowed, and what the error says if it is not."""

    POLICY = 'agent "web1" { policy = "read" } node "web1" { policy = "write" } service "web" { policy = "read" } node_prefix "" { policy = "read" }'

    @pytest.fixture(name="guarded", scope="class")
    @classmethod
    def make_guarded(cls, tmp_path_factory):
        acl = {"enabled": True, "default_policy": "deny", "tokens": {"master": "root", "agent": "root"}}
        with Consul(tmp_path_factory.mktemp("guarded"), ("web1",), "root", acl=acl) as consul:
            yield consul

    def make_token(self, agent, rules):
        def put(path, **body):
            request = urllib.request.Request(agent.url + path, json.dumps(body).encode(), {"X-Consul-Token": "root"}, method="PUT")
            with urllib.request.urlopen(request, timeout=5) as answer:
                return json.load(answer)

        name = f"p{time.monotonic_ns()}"
        put("/v1/acl/policy", Name=name, Rules=rules)
        return put("/v1/acl/token", Policies=[{"Name": name}])["SecretID"]

    def test_what_is_needed(self, guarded, tmp_path):
        bed, agent = ConsulBed(guarded, tmp_path), guarded["web1"]
        token = tmp_path / "token"
        token.write_text(self.make_token(agent, self.POLICY) + "\n")
        held = bed.hold(options={"token_file": str(token)})
        assert held["done"] and is_ours(agent)
        # The record names the file and has no secret.
        assert token.read_text().strip() not in json.dumps(bed.records())
        assert bed.release()["done"] and agent.reason() is None

    def test_what_is_refused(self, guarded, tmp_path):
        bed, agent = ConsulBed(guarded, tmp_path), guarded["web1"]
        anonymous = bed.hold()
        assert "/v1/agent/self was answered with status 403 (Permission denied)." in anonymous["msg"]
        token = tmp_path / "token"
        token.write_text(self.make_token(agent, self.POLICY.replace("write", "read")))
        refused = bed.hold(options={"token_file": str(token)})
        assert "PUT " in refused["msg"] and "was answered with status 403 (Permission denied)." in refused["msg"], refused
        assert bed.records() == []


class TestEvents:
    """The playbook handle_events, from the notice to the end, under clients that ask Consul."""

    pytestmark = ROOT_NEEDED

    @pytest.fixture(name="site")
    def make_site(self, bed, tmp_path):
        site = ClusterSite(tmp_path, {name: bed.cluster[name] for name in ("web1", "web2")}, name="discovery", type="consul")
        with Clients(bed.cluster, "web3") as clients:
            yield site
            bed.cluster.settled()
        site.close()
        assert clients.failed == [] and clients.answered["web1"] > 10, clients.answered

    def test_reboot(self, bed, site):
        web = bed.cluster["web1"].web

        def reboot(name):
            web.status = 500
            site.reboot(name)
            bed.cluster.settled({"web2", "web3"})
            web.status = 200

        site.see_through("Reboot", "web1", reboot)

    def test_freeze(self, bed, site):
        agent = bed.cluster["web1"]

        def freeze(_name):
            agent.web.status = 500
            with frozen(agent.process.pid):
                time.sleep(5)
            agent.web.status = 200

        site.see_through("Freeze", "web1", freeze)

    def test_cancelled(self, bed, site):
        site.see_cancelled("web1", lambda: is_ours(bed.cluster["web1"]))

    def test_one_after_the_other(self, bed, site):
        """web2 waits until web1 is back."""
        events = [site.simulator.post_event(EventType="Reboot", Resources=[name], **SHORT) for name in ("web1", "web2")]
        together = []
        process = site.start("handle_events", handle_events_timeout=patient(150))
        while process.poll() is None:
            together.append({name for name in ("web1", "web2") if is_ours(bed.cluster[name])})
            time.sleep(0.1)
        run = site.finish(process)
        assert run.status == 0 and {run.event(event)["outcome"] for event in events} == {"completed"}, run.output
        assert {"web1"} in together and {"web2"} in together and {"web1", "web2"} not in together
        assert "members of the consul cluster discovery go out one after the other" in run.output and site.records() == []

    def test_a_run_that_is_killed_is_continued(self, bed, site):
        event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], **SHORT)
        process = site.start("handle_events")
        until(lambda: is_ours(bed.cluster["web1"]), 100, "web1 is out")
        site.kill(process)
        run = site.run(handle_events_timeout=patient(150))
        assert run.status == 0 and run.event(event_id)["hosts"]["web1"]["state"] == "restored", run.output
        assert site.records() == []
