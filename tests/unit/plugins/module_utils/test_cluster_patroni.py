# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Members of a cluster of Patroni, with answers that a real Patroni 3.0.2 gave."""

from __future__ import annotations

import copy
import json

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._cluster import AttemptFailed, MemberError, check_options
from ansible_collections.graceful.azure.plugins.module_utils._cluster_patroni import Patroni
from ansible_collections.graceful.azure.plugins.module_utils._duties import cluster as duties

from tests.support.calls import ScriptedMachine, call
from tests.support.service import EVENT

URL = "http://127.0.0.1:8008"
REST = {"api_url": "http://127.0.0.1:22922/patroni", "host": "127.0.0.1", "port": 22921}
CLUSTER = {
    "members": [
        {"name": "db1", "role": "leader", "state": "running", **REST, "timeline": 1},
        {"name": "db2", "role": "replica", "state": "running", **REST, "timeline": 1, "lag": 0},
        {"name": "db3", "role": "replica", "state": "running", **REST, "timeline": 1, "lag": 0},
    ]
}
# While db1 becomes a replica, and after that.
SWITCHING = {
    "members": [
        {"name": "db1", "role": "replica", "state": "stopping", **REST, "lag": "unknown"},
        {"name": "db2", "role": "replica", "state": "running", **REST, "timeline": 1, "lag": 69104},
        {"name": "db3", "role": "leader", "state": "running", **REST, "timeline": 2},
    ]
}
SWITCHED = {
    "members": [
        {"name": "db1", "role": "replica", "state": "running", **REST, "timeline": 2, "lag": 0},
        {"name": "db2", "role": "replica", "state": "running", **REST, "timeline": 2, "lag": 0},
        {"name": "db3", "role": "leader", "state": "running", **REST, "timeline": 2},
    ]
}
PLANNED = {"at": "2026-11-25T00:54:38.996440+00:00", "from": "db1", "to": "db3"}
STREAMS = {"usename": "replicator", "client_addr": "127.0.0.1", "state": "streaming", "sync_state": "async", "sync_priority": 0}
# Of 3.0.2; later ones have the name, too.
ABOUT = {
    "state": "running",
    "role": "master",
    "timeline": 1,
    "replication": [{"application_name": "db2", **STREAMS}, {"application_name": "db3", **STREAMS}],
    "patroni": {"version": "3.0.2", "scope": "shop"},
}


class Tools:
    """Answers as Patroni gave them. A function or an error in place of an answer is called or raised."""

    def __init__(self, cluster=None, leads=True):
        self.answers = {
            ("GET", "/cluster"): (200, json.dumps(cluster or CLUSTER)),
            ("GET", "/leader"): (200 if leads else 503, json.dumps(ABOUT)),
            ("GET", "/patroni"): (200, json.dumps(ABOUT)),
            ("POST", "/switchover"): (200, 'Successfully switched over to "db3"'),
        }
        self.sent = []
        self.asked = []

    def request(self, method, url, body=None, headers=None, seconds=None, tls=None):
        assert url.startswith(URL) and seconds <= 5 and tls is None
        self.asked.append((method, url[len(URL) :]))
        if method == "POST":
            self.sent.append((body, headers))
        answer = self.answers[(method, url[len(URL) :])]
        if isinstance(answer, Exception):
            raise answer
        return answer() if callable(answer) else answer

    def switch(self):
        self.become(SWITCHED)
        return 200, 'Successfully switched over to "db3"'

    def become(self, cluster, leads=False):
        self.answers[("GET", "/cluster")] = (200, json.dumps(cluster))
        self.answers[("GET", "/leader")] = (200 if leads else 503, json.dumps(ABOUT))

    @staticmethod
    def secret(path):
        return {"/etc/secret": "open sesame"}[path]

    @staticmethod
    def boot_id():
        return "boot-1"


def patroni(tools, **options):
    checked, mistakes = check_options(Patroni, {"member": "db1", **options})
    assert mistakes == []
    return Patroni(checked, tools)


def changed(cluster, name, **fields):
    """A copy in which one member has other fields."""
    found = copy.deepcopy(cluster)
    next(member for member in found["members"] if member["name"] == name).update(fields)
    return found


def without(cluster, *names):
    return {"members": [member for member in cluster["members"] if member["name"] not in names]}


# A look


def test_a_leader_is_not_out():
    seen = patroni(Tools()).look()
    assert (seen.member, seen.ours, seen.foreign, seen.left) == ("db1", False, None, "db1 is the leader")
    assert seen.state["role"] == "leader" and seen.state["leader"] == "db1"
    assert all(isinstance(value, (str, bool, type(None))) for value in seen.state.values())


def test_a_replica_is_out_while_another_leads():
    seen = patroni(Tools(leads=False), member="db2").look()
    assert (seen.member, seen.ours, seen.left) == ("db2", True, None)


@pytest.mark.parametrize("state", ["starting", "start failed", "stopped", "crashed", "", None])
def test_a_leader_whose_server_does_not_run_leads_nobody(state):
    seen = patroni(Tools(changed(CLUSTER, "db1", state=state), leads=False), member="db2").look()
    assert (seen.ours, seen.left) == (True, f"PostgreSQL on db1, the leader, is {state or 'in no state that is known'}")
    standby = changed(CLUSTER, "db1", role="standby_leader", state="in archive recovery")
    assert patroni(Tools(standby, leads=False), member="db2").look().left is None


STRICT = {"synchronous_mode": True, "synchronous_mode_strict": True}
SYNC = changed(CLUSTER, "db2", role="sync_standby")


def look_at_synchronous(cluster, config=None):
    config = config or STRICT
    tools = Tools(cluster, leads=False)
    tools.answers["GET", "/config"] = (200, json.dumps(config))
    return patroni(tools, member="db2").look()


@pytest.mark.parametrize("mode", [STRICT, {**STRICT, "synchronous_mode": "quorum"}])
@pytest.mark.parametrize("role", ["sync_standby", "quorum_standby"])
def test_a_replica_without_which_nobody_could_write_is_not_drained(mode, role):
    """The other one has just been rebooted. The event of this one would stop all writes."""
    seen = look_at_synchronous(changed(changed(SYNC, "db2", role=role), "db3", state="starting"), mode)
    assert seen.ours and seen.left == "without db2, the leader would refuse writes (synchronous_mode_strict): db3 is starting"


def test_tags_that_are_none_say_nothing():
    assert "db3 is starting" in look_at_synchronous(changed(SYNC, "db3", state="starting", tags=["nosync"])).left


@pytest.mark.parametrize(
    ("cluster", "config"),
    [
        pytest.param(SYNC, STRICT, id="another one follows"),
        pytest.param(changed(SYNC, "db3", state="streaming"), STRICT, id="as later Patronis call it"),
        pytest.param(without(SYNC, "db3"), STRICT, id="no waiting helps"),
        pytest.param(changed(SYNC, "db3", state="starting", tags={"nosync": True}), STRICT, id="no waiting helps, since it may not be synchronous"),
        pytest.param(changed(SYNC, "db3", state="starting"), {"synchronous_mode": True}, id="not strict"),
        pytest.param(changed(SYNC, "db3", state="starting"), {"synchronous_mode_strict": True}, id="asynchronous"),
        pytest.param(changed(CLUSTER, "db3", state="starting"), STRICT, id="not synchronous itself"),
    ],
)
def test_a_replica_that_others_replace_is_drained(cluster, config):
    assert look_at_synchronous(cluster, config).left is None


def test_the_node_itself_knows_sooner_that_it_leads():
    assert patroni(Tools(SWITCHED, leads=True)).look().left == "db1 is the leader"


def test_what_the_others_know_counts_as_well():
    assert patroni(Tools(CLUSTER, leads=False)).look().left == "db1 is the leader"


def test_a_former_leader_is_not_drained_before_it_is_a_replica():
    for state in ("stopping", "stopped", "starting", "restarting"):
        seen = patroni(Tools(changed(SWITCHING, "db1", state=state), leads=False)).look()
        assert (seen.ours, seen.left) == (True, f"PostgreSQL on db1 is {state}, and must run again first")


@pytest.mark.parametrize("state", ["running", "streaming", "in archive recovery", "creating replica", "start failed", "crashed"])
def test_nothing_is_lost_with_a_replica_in_any_other_state(state):
    assert patroni(Tools(changed(SWITCHED, "db1", state=state), leads=False)).look().left is None


def test_a_server_that_somebody_stopped_in_a_paused_cluster_stays_down():
    cluster = dict(changed(SWITCHED, "db1", state="stopped"), pause=True)
    assert patroni(Tools(cluster, leads=False)).look().left is None


def test_nothing_is_drained_while_nobody_leads():
    cluster = changed(SWITCHED, "db3", role="replica")
    assert patroni(Tools(cluster, leads=False)).look().left == "no other member is the leader yet"


def test_a_standby_leader_leads():
    seen = patroni(Tools(changed(CLUSTER, "db1", role="standby_leader"))).look()
    assert (seen.ours, seen.left) == (False, "db1 is the leader")


def test_the_name_comes_from_patroni_if_it_tells_one():
    tools = Tools()
    tools.answers[("GET", "/patroni")] = (200, json.dumps(dict(ABOUT, patroni={"version": "4.0.4", "scope": "shop", "name": "db1"})))
    assert patroni(tools, member=None).look().member == "db1"


def test_else_it_is_the_name_of_the_host(monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "db1")
    assert patroni(Tools(), member=None).look().member == "db1"


def test_a_host_that_is_no_member_is_told_who_is():
    with pytest.raises(MemberError, match=r"no member web1 \(option member\)\. Its members: db1, db2, db3\."):
        patroni(Tools(), member="web1").look()


@pytest.mark.parametrize("answer", [(502, "<html>Bad gateway</html>"), (200, "<html>"), (200, "[]"), (200, "null"), (503, "")])
def test_nonsense_is_no_look(answer):
    tools = Tools()
    tools.answers[("GET", "/cluster")] = answer
    with pytest.raises(MemberError, match=rf"GET {URL}/cluster was answered with status {answer[0]}, not as Patroni does"):
        patroni(tools).look()


@pytest.mark.parametrize("members", [None, {}, ["db1"], [{"role": "leader"}]])
def test_members_without_names_are_no_look(members):
    with pytest.raises(MemberError, match="does not tell the members"):
        patroni(Tools({"members": members})).look()


def test_a_leader_endpoint_that_answers_otherwise_is_no_look():
    tools = Tools()
    tools.answers[("GET", "/leader")] = (404, "not here")
    with pytest.raises(MemberError, match=f"GET {URL}/leader was answered with status 404: not here"):
        patroni(tools).look()


def test_a_silent_patroni_is_told():
    tools = Tools()
    tools.answers[("GET", "/cluster")] = MemberError("GET http://127.0.0.1:8008/cluster was not answered within 4 seconds.")
    with pytest.raises(MemberError, match="was not answered"):
        patroni(tools).look()


# Whether the cluster can spare it


def spare(cluster, member="db1", leads=True):
    this = patroni(Tools(cluster, leads), member=member)
    return this.spare(this.look())


def test_a_leader_can_be_spared_if_another_member_can_lead():
    assert spare(CLUSTER) is None
    assert spare(changed(CLUSTER, "db2", state="stopped", lag="unknown")) is None


def test_a_leader_cannot_be_spared_if_no_other_member_can_lead():
    cluster = changed(changed(CLUSTER, "db2", state="stopped", lag="unknown"), "db3", tags={"nofailover": True})
    assert spare(cluster) == "no other member can become the leader: db2 is stopped, db3 is running and has the tag nofailover"
    assert spare(without(CLUSTER, "db2", "db3")) == "no other member can become the leader: there is no other one"
    assert "db3 is running" in spare(changed(without(CLUSTER, "db2"), "db3", lag="unknown"))


@pytest.mark.parametrize(
    ("tags", "never"),
    [
        ({"failover_priority": 0}, "failover_priority: 0"),
        ({"failover_priority": "0"}, "failover_priority: 0"),
        ({"failover_priority": -1}, "failover_priority: -1"),
        ({"failover_priority": 0.4}, "failover_priority: 0"),
        ({"failover_priority": 0, "nofailover": None}, "failover_priority: 0"),
        ({"failover_priority": 5, "nofailover": True}, "nofailover"),
        ({"nofailover": "true"}, "nofailover"),
        # As Patroni takes them.
        ({"nofailover": "false"}, "nofailover"),
        ({"failover_priority": 0, "nofailover": False}, None),
        ({"failover_priority": 1}, None),
        ({"failover_priority": "high"}, None),
        ({"nosync": True, "noloadbalance": True}, None),
        ({}, None),
        (None, None),
    ],
)
def test_the_tags_with_which_a_member_never_leads(tags, never):
    cluster = changed(changed(CLUSTER, "db2", tags=tags), "db3", state="stopped")
    said = never and f"no other member can become the leader: db2 is running and has the tag {never}, db3 is stopped"
    assert spare(cluster) == said


def test_a_member_that_may_lead_and_gets_nothing_is_no_candidate():
    """db2 streams and never leads. db3 may lead and is 900 kB behind: all of that would be lost."""
    tools = Tools(changed(changed(CLUSTER, "db2", tags={"failover_priority": 0}), "db3", lag=900000))
    tools.answers[("GET", "/patroni")] = (200, json.dumps(dict(ABOUT, replication=[{"application_name": "db2", **STREAMS}])))
    this = patroni(tools)
    assert this.spare(this.look()) == "db1 does not stream what is written there to any member that can become the leader (db3)"


def test_in_synchronous_mode_only_a_synchronous_member_can_lead():
    cluster = changed(CLUSTER, "db2", role="sync_standby")
    assert patroni(Tools(cluster)).look().state["candidate"] == "db2" and spare(cluster) is None
    assert spare(changed(cluster, "db2", state="stopped")) == "no other member can become the leader: db2 is stopped, db3 is running"


def test_a_member_that_patroni_cannot_ask_is_no_candidate():
    cluster = changed(changed(CLUSTER, "db2", api_url=None), "db3", api_url=None)
    assert spare(cluster).startswith("no other member can become the leader: ")


def test_another_member_than_the_one_that_answers():
    tools = Tools()
    tools.answers[("GET", "/leader")] = (200, json.dumps(dict(ABOUT, patroni={"version": "4.0.4", "scope": "shop", "name": "db1"})))
    with pytest.raises(MemberError, match=rf"^Patroni at {URL} is the member db1, not db2 \(option member\)\.$"):
        patroni(tools, member="db2").look()
    assert patroni(tools).look().member == "db1"


def test_a_planned_switchover_is_not_cancelled():
    """Patroni keeps one switchover, so a second one would take the place of the first."""
    said = "a switchover is planned for 2026-11-25T00:54:38.996440+00:00, and another one now would cancel it"
    assert spare(dict(CLUSTER, scheduled_switchover=PLANNED)) == said


def test_nobody_is_disturbed_in_a_paused_cluster():
    assert spare(dict(CLUSTER, pause=True)) == "the cluster is paused (maintenance mode): somebody works on it"


@pytest.mark.parametrize(
    ("replication", "enough"),
    [
        ([{"application_name": "db2", **STREAMS}], True),
        ([{"application_name": "db2", **STREAMS, "state": "catchup"}, {"application_name": "db3", **STREAMS, "state": "backup"}], False),
        # A program that archives what is written, and a member with the tag nofailover.
        ([{"application_name": "pg_receivewal", **STREAMS}, {"application_name": "db3", **STREAMS}], False),
        ([], False),
        (None, False),
        ("nonsense", False),
    ],
)
def test_a_leader_stays_if_it_streams_to_nobody_who_can_lead(replication, enough):
    """Seen with 3.0.2: a replica whose slot was not there yet had a lag of 0, became the leader, and all that was written in the last seconds was lost."""
    tools = Tools(changed(CLUSTER, "db3", tags={"nofailover": True}))
    tools.answers[("GET", "/patroni")] = (200, json.dumps(dict(ABOUT, replication=replication)))
    this = patroni(tools)
    said = this.spare(this.look())
    assert said == (None if enough else "db1 does not stream what is written there to any member that can become the leader (db2)")


def test_a_replica_can_be_spared_while_there_is_a_leader():
    assert spare(CLUSTER, "db2", leads=False) is None
    assert spare(dict(CLUSTER, pause=True), "db2", leads=False) is None
    assert spare(changed(CLUSTER, "db1", role="replica"), "db2", leads=False) == "the cluster has no leader now"


# Out


def out(tools, **options):
    this = patroni(tools, **options)
    this.out(this.look())


def test_a_leader_is_told_to_hand_over():
    tools = Tools()
    out(tools)
    assert tools.sent == [({"leader": "db1"}, {})]


def test_with_a_login():
    tools = Tools()
    out(tools, username="operator", password_file="/etc/secret")
    assert tools.sent == [({"leader": "db1"}, {"Authorization": "Basic b3BlcmF0b3I6b3BlbiBzZXNhbWU="})]


def test_in_a_paused_cluster_the_best_candidate_is_named():
    """Only with force: Patroni chooses none then."""
    for cluster, best in (
        (CLUSTER, "db2"),
        (changed(CLUSTER, "db2", lag=16), "db3"),
        (changed(CLUSTER, "db2", lag="unknown"), "db3"),
        (changed(CLUSTER, "db2", tags={"nofailover": True}), "db3"),
        (changed(CLUSTER, "db3", role="sync_standby"), "db3"),
    ):
        tools = Tools(dict(cluster, pause=True))
        out(tools)
        assert tools.sent[0][0] == {"leader": "db1", "candidate": best}


def test_a_replica_is_told_nothing():
    tools = Tools(leads=False)
    out(tools, member="db2")
    assert tools.sent == []


def test_a_switchover_that_goes_on_is_not_asked_for_again():
    tools = Tools(changed(CLUSTER, "db1", state="stopping"))
    out(tools)
    assert tools.sent == []


def test_a_switchover_that_takes_longer_than_a_step_goes_on():
    tools = Tools()
    tools.answers[("POST", "/switchover")] = MemberError("POST http://127.0.0.1:8008/switchover was not answered within 4 seconds.")
    with pytest.raises(AttemptFailed, match="was not answered"):
        out(tools)


@pytest.mark.parametrize(
    "answer, message",
    [
        ((412, "switchover is not possible: no good candidates have been found"), "was refused with status 412: switchover is not possible: no good"),
        ((503, "Switchover failed"), "was refused with status 503: Switchover failed"),
        ((401, "no auth header received"), "needs a login: see the options username and password_file"),
    ],
)
def test_a_refusal_is_told(answer, message):
    tools = Tools()
    tools.answers[("POST", "/switchover")] = answer
    with pytest.raises(MemberError, match=message):
        out(tools)


# The options


@pytest.mark.parametrize(
    "options, option, problem",
    [
        ({"url": "127.0.0.1:8008"}, "url", "'127.0.0.1:8008' does not begin with http:// or https:// and a host; write"),
        ({"url": "http://me:secret@db1:8008"}, "url", "has more than a host, a port and a path; write"),
        ({"url": "http://db1:8008/a b"}, "url", "has more than a host, a port and a path; write"),
        ({"username": "me"}, "password_file", "it is missing, and username needs it"),
        ({"password_file": "/etc/secret"}, "username", "it is missing, and password_file needs it"),
        ({"client_key": "/etc/key"}, "client_cert", "it is missing, and client_key needs it"),
        ({"node": "db1"}, "node", "there is no such option, only "),
    ],
)
def test_a_mistake_in_the_options(options, option, problem):
    ((told, sentence),) = check_options(Patroni, options)[1]
    assert told == option and problem in sentence


@pytest.mark.parametrize("url", ["http://127.0.0.1:8008", "https://db1.example", "http://[::1]:8008", "http://db1:8008/patroni/"])
def test_addresses_of_the_api(url):
    assert check_options(Patroni, {"url": url})[1] == []


# The life of a hold


def hold(tools, folder, state="present", check=False, **more):
    params = {"type": "patroni", "name": "db", "options": {"member": "db1"}, "state": state, "event_ids": [EVENT], "event_details": {}}
    params.update({"reason": "", "state_dir": str(folder), "force": False, "timeout": 0}, **more)
    return call("cluster_hold", params, machine=ScriptedMachine(tools=tools, state_dir=str(folder), check_mode=check))


def test_out_and_back(tmp_path):
    tools = Tools()
    tools.answers[("POST", "/switchover")] = tools.switch
    predicted = hold(tools, tmp_path, check=True)
    assert predicted["changed"] and tools.sent == [] and not list(tmp_path.iterdir())
    taken = hold(tools, tmp_path)
    assert taken["changed"] and taken["done"] and taken["conflicts"] == []
    assert taken["members"][0]["found"]["role"] == "leader"
    again = hold(tools, tmp_path)
    assert not again["changed"] and again["done"]
    assert len(tools.sent) == 1
    given = hold(tools, tmp_path, "absent")
    assert given["changed"] and given["done"] and given["conflicts"] == []
    assert len(tools.sent) == 1, "nobody is made the leader again"
    assert not hold(tools, tmp_path, "absent")["changed"]


def test_a_slow_switchover_is_waited_for(tmp_path):
    tools = Tools()

    def later():
        tools.become(SWITCHING)
        raise MemberError("POST http://127.0.0.1:8008/switchover was not answered within 4 seconds.")

    tools.answers[("POST", "/switchover")] = later
    taken = hold(tools, tmp_path)
    assert not taken["done"] and taken["waiting_for"] == "PostgreSQL on db1 is stopping, and must run again first"
    tools.become(SWITCHED)
    assert hold(tools, tmp_path)["done"]
    assert len(tools.sent) == 1


def test_a_refused_switchover_leaves_no_record(tmp_path):
    tools = Tools()
    tools.answers[("POST", "/switchover")] = (412, "switchover is not possible: no good candidates have been found")
    with pytest.raises(MemberError, match=r"Patroni \(db\): POST .*412"):
        hold(tools, tmp_path)
    assert hold(tools, tmp_path, "absent")["members"] == []


def test_a_cluster_that_cannot_spare_the_leader_is_waited_for(tmp_path):
    tools = Tools(without(CLUSTER, "db2", "db3"))
    waits = hold(tools, tmp_path)
    assert not waits["changed"] and not waits["done"] and waits["waiting_for"].startswith("no other member")
    assert tools.sent == []


def test_an_act_and_a_look_give_one_reason(tmp_path):
    """Otherwise the lines of a run tell two in turn."""

    def still_on(tools):
        return duties.DUTIES["patroni"]("db", check_options(Patroni, {"member": "db1"})[0], ScriptedMachine(tools=tools, state_dir=str(tmp_path))).still_on()

    tools = Tools(without(CLUSTER, "db2", "db3"))
    assert still_on(tools) == [f"Patroni (db): {hold(tools, tmp_path)['waiting_for']}"]
    # A switchover that brought no other leader.
    tools = Tools()
    tools.answers[("POST", "/switchover")] = (503, "Switchover failed")
    hold(tools, tmp_path)
    told = hold(tools, tmp_path)["waiting_for"]
    assert "Switchover failed" in told and still_on(tools) == [f"Patroni (db): {told}"]
    tools.become(SWITCHING)
    assert still_on(tools) == ["Patroni (db): PostgreSQL on db1 is stopping, and must run again first"]
    tools.answers[("GET", "/patroni")] = (500, "")
    tools.become(CLUSTER, leads=True)
    assert still_on(tools) == ["Patroni (db): db1 is the leader"]


def test_with_force_the_cluster_is_not_asked(tmp_path):
    tools = Tools(dict(CLUSTER, scheduled_switchover=PLANNED))
    tools.answers[("POST", "/switchover")] = tools.switch
    assert hold(tools, tmp_path, force=True)["done"]


def test_a_leader_that_was_made_so_again_hands_over_once_more_and_then_is_left_alone(tmp_path):
    tools = Tools()
    tools.answers[("POST", "/switchover")] = tools.switch
    hold(tools, tmp_path)
    tools.become(CLUSTER, leads=True)
    told = hold(tools, tmp_path)
    assert told["conflicts"] and told["done"] and len(tools.sent) == 2
    tools.become(CLUSTER, leads=True)
    told = hold(tools, tmp_path)
    assert not told["done"] and len(tools.sent) == 2
    assert hold(tools, tmp_path, "absent")["conflicts"]


def test_after_a_reboot_a_leader_hands_over_again(tmp_path):
    tools = Tools()
    tools.answers[("POST", "/switchover")] = tools.switch
    hold(tools, tmp_path)
    tools.become(CLUSTER, leads=True)
    tools.boot_id = lambda: "boot-2"
    told = hold(tools, tmp_path)
    assert told["done"] and told["conflicts"] == [] and len(tools.sent) == 2


@pytest.mark.parametrize(
    "answer", [(503, "Switchover failed"), (503, "Switchover status unknown"), MemberError("POST http://127.0.0.1:8008/switchover was not answered.")]
)
def test_a_switchover_that_brought_no_other_leader_is_not_asked_for_in_every_pass(tmp_path, answer):
    """Each call is a run of its own."""
    tools = Tools()
    tools.answers[("POST", "/switchover")] = answer
    told = hold(tools, tmp_path)["waiting_for"]
    assert "POST http://127.0.0.1:8008/switchover was " in told and ". Tried at 20" in told
    assert hold(tools, tmp_path)["waiting_for"] == told and len(tools.sent) == 1
    assert hold(tools, tmp_path, force=True)["waiting_for"] != told and len(tools.sent) == 2
    hold(tools, tmp_path, force=True)
    assert len(tools.sent) == 2
    # Somebody does something about it.
    tools.become(changed(CLUSTER, "db2", tags={"nofailover": True}), leads=True)
    tools.answers[("POST", "/switchover")] = tools.switch
    assert hold(tools, tmp_path)["done"] and len(tools.sent) == 3


def test_a_switchover_that_was_not_answered_and_goes_on(tmp_path):
    tools = Tools()
    tools.answers[("POST", "/switchover")] = MemberError("POST http://127.0.0.1:8008/switchover was not answered within 4 seconds.")
    assert not hold(tools, tmp_path)["done"]
    tools.become(SWITCHING)
    assert hold(tools, tmp_path)["waiting_for"] == "PostgreSQL on db1 is stopping, and must run again first"
    tools.become(SWITCHED)
    taken = hold(tools, tmp_path)
    assert taken["done"] and taken["members"][0]["condition"] == "held" and len(tools.sent) == 1
    assert hold(tools, tmp_path, "absent")["done"] and not list(tmp_path.iterdir())


@pytest.mark.parametrize("answer", [(412, "switchover is not possible: no good candidates have been found"), (503, "failed to write failover key into DCS")])
def test_a_switchover_that_did_not_begin_is_asked_for_again(tmp_path, answer):
    tools = Tools()
    tools.answers[("POST", "/switchover")] = answer
    for _pass in range(2):
        with pytest.raises(MemberError, match="was refused with status"):
            hold(tools, tmp_path)
    assert len(tools.sent) == 2 and not list(tmp_path.iterdir())


@pytest.mark.parametrize("scheme", ["https", "HTTPS"])
def test_the_certificates_are_used_however_the_url_is_written(scheme):
    with pytest.raises(MemberError, match="The certificates cannot be used .*/none.pem"):
        patroni(Tools(), url=scheme + "://127.0.0.1:8008", ca_cert="/none.pem").look()
