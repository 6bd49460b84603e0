# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The provider health_probe: what its options say, and what a look means."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._duties.both_sides.health_probe import health_answer
from ansible_collections.graceful.azure.plugins.plugin_utils._duties import health_probe as words
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import TRAFFIC, settings_of
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import MachineObservation
from ansible_collections.graceful.azure.plugins.plugin_utils._settings import read_settings
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.load_balancer import judge

PROVIDER = TRAFFIC["health_probe"]
HOST = {
    "type": "health_probe",
    "action": "file",
    "file": "/run/maintenance",
    "graceful_azure_ports": [8080],
    "graceful_azure_health_url": "http://localhost:8080/ready",
}
"""The options of the duty, and the variables of the host beside it."""
RESPONDER = {
    "action": "responder",
    "responder_port": 8079,
    "responder_url": "http://localhost:8080/health",
}


def read(**changed):
    given = {key: value for key, value in {**HOST, **changed}.items() if value is not None}
    variables = {key: given.pop(key) for key in list(given) if key.startswith("graceful_azure_")}
    return read_settings({"web1": {**variables, "graceful_azure_duties": [given]}}, {"web1"})


def mistakes(**changed):
    return read(**changed)[1]


def test_what_is_right():
    assert mistakes() == []
    settings, _none = read()
    (balancer,) = settings["web1"]["load_balancers"]
    assert (balancer["notice"], balancer["ports"], balancer["peer"], balancer["host"]) == (12.0, [8080], ["168.63.129.16", "fe80::1234:5678:9abc"], "web1")
    assert balancer["given"] == {"file": "/run/maintenance", "file_means": "out"}


@pytest.mark.parametrize("peers", [["168.63.129.16", "10.0.0.10"], "168.63.129.16, 10.0.0.10"])
def test_several_may_only_check(peers):
    """Such as HAProxy between the balancer and the application. None of their connections is a request."""
    given = {"peer": peers}
    assert mistakes(**given) == []
    settings, _none = read(**given)
    (balancer,) = settings["web1"]["load_balancers"]
    (next_look,) = PROVIDER.looks([("web1", balancer)], {}, None)
    seen = MachineObservation(next_look.key, {**look(), "quiet_for": 5.0, "closed_ago": 60.0, "clock": 1.0}, None)
    ((place,),) = (told.places for told in PROVIDER.traffic_of_all([(None, balancer)], {next_look.key: seen}, None))
    known = ["168.63.129.16", "10.0.0.10"]
    assert (balancer["peer"], [pool.address for pool in place.pools], next_look.options["peer"]) == (known, known, known)


def test_the_untouched_answer_may_be_asked_before_the_host_comes_back():
    asked = "http://localhost:8078/"
    assert mistakes(**RESPONDER, responder_untouched_port=8078, graceful_azure_health_url=asked) == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"action": None}, "graceful_azure_duties[0].action: not set; write one of file, service"),
        ({"file": None}, "graceful_azure_duties[0].file: not set; action: file needs it"),
        ({"file": "maintenance"}, "graceful_azure_duties[0].file: 'maintenance' is not an absolute path"),
        ({"action": "command"}, "graceful_azure_duties[0].command_out: not set"),
        ({"action": "iis_site"}, "graceful_azure_duties[0].iis_site: not set; action: iis_site"),
        ({"interval": 0}, "graceful_azure_duties[0].interval: 0 is not a number of seconds greater than 0"),
        ({"interval": "often"}, "graceful_azure_duties[0].interval: 'often' is not a number of seconds"),
        ({"threshold": 0}, "graceful_azure_duties[0].threshold: 0 is not a whole number from 1 up"),
        ({"margin": -1}, "graceful_azure_duties[0].margin: -1 is not a number of seconds from 0 up"),
        ({"peer": "azure"}, "graceful_azure_duties[0].peer: 'azure' is not an IP address"),
        ({"peer": ["10.0.0.9", "haproxy1"]}, "graceful_azure_duties[0].peer: 'haproxy1' is not an IP address"),
        ({"file_means": "in"}, "graceful_azure_duties[0].url: not set"),
        ({"url": "localhost/health"}, "graceful_azure_duties[0].url: 'localhost/health' is not like"),
        ({"interval": 59}, "graceful_azure_drain_timeout: 120 s, but the balancer notices only after 120 s"),
        ({"graceful_azure_drain_timeout": 12}, "graceful_azure_drain_timeout: 12 s, but the balancer notices only after 12 s"),
        ({"graceful_azure_ports": None}, "graceful_azure_ports: not set; health_probe needs the ports"),
        (
            {"url": "http://127.0.0.1:8080/ready"},
            "graceful_azure_health_url: 'http://localhost:8080/ready' is the health answer that is made to fail",
        ),
        (
            {"url": "http://[::]:8080/ready"},
            "graceful_azure_health_url: 'http://localhost:8080/ready' is the health answer that is made to fail",
        ),
        (
            {"url": "http://[0:0::1]:8080/ready"},
            "graceful_azure_health_url: 'http://localhost:8080/ready' is the health answer that is made to fail",
        ),
        (
            {
                "action": "responder",
                "responder_port": 8079,
                "responder_url": "http://localhost:8080/health",
                "graceful_azure_health_url": "http://localhost:8079",
            },
            "graceful_azure_health_url: 'http://localhost:8079' is the health answer that is made to fail",
        ),
        (
            # No page of a site answers while it is stopped.
            {
                "action": "iis_site",
                "iis_site": "Health",
                "url": "http://localhost:8081/health",
                "graceful_azure_health_url": "http://localhost:8081/ready",
            },
            "graceful_azure_health_url: 'http://localhost:8081/ready' is the health answer that is made to fail",
        ),
        (
            {
                "action": "responder",
                "responder_port": 8079,
                "responder_url": "http://localhost:8079/",
            },
            "graceful_azure_duties[0].responder_url: the responder itself answers there",
        ),
        ({**RESPONDER, "responder_port": 70000}, "graceful_azure_duties[0].responder_port: 70000 is not a TCP port"),
        (
            {**RESPONDER, "responder_untouched_port": 0},
            "graceful_azure_duties[0].responder_untouched_port: 0 is not a TCP port from 1 to 65535",
        ),
        (
            {**RESPONDER, "responder_untouched_port": 8079},
            "graceful_azure_duties[0].responder_untouched_port: 8079 is responder_port, too",
        ),
        (
            {**RESPONDER, "responder_untouched_port": 8080},
            "graceful_azure_ports: 8080 is responder_untouched_port",
        ),
        (
            {**RESPONDER, "responder_untouched_port": 8078, "url": "http://localhost:8078/"},
            "graceful_azure_duties[0].url: 'http://localhost:8078/' is the untouched answer",
        ),
        (
            {**RESPONDER, "responder_untouched_port": 8078, "responder_url": "http://localhost:8078/"},
            "graceful_azure_duties[0].responder_url: the responder itself answers there",
        ),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_changed(changed, said):
    assert any(said in mistake for mistake in mistakes(**changed)), mistakes(**changed)


@pytest.mark.parametrize("interval", [0, "0", -1, True, "often", "nan", "inf"])
def test_a_wrong_interval_is_told_once(interval):
    (told,) = mistakes(interval=interval)
    assert told.startswith("web1: graceful_azure_duties[0].interval: ") and str(interval) in told


SERVICE = {
    "action": "service",
    "service": "health",
    "url": "http://127.0.0.1:8081/health",
}


@pytest.mark.parametrize(
    ("changed", "option"),
    [
        (dict(RESPONDER, graceful_azure_health_url="http://localhost:8079/health"), "graceful_azure_health_url"),
        (dict(RESPONDER, graceful_azure_health_url="http://127.0.0.1:8079/?x=1"), "graceful_azure_health_url"),
        (dict(RESPONDER, graceful_azure_health_url="http://localhost:8079/", url="http://10.0.0.4:8079/"), "graceful_azure_health_url"),
        (dict(SERVICE, graceful_azure_health_url="http://localhost:8081/ready"), "graceful_azure_health_url"),
        (dict(SERVICE, graceful_azure_health_url=None, graceful_azure_health_port=8081), "graceful_azure_health_port"),
    ],
)
def test_an_answer_that_cannot_pass_while_the_host_is_held_is_refused(changed, option):
    assert any(mistake.startswith(f"web1: {option}: ") and "never come back" in mistake for mistake in mistakes(**changed)), mistakes(**changed)


@pytest.mark.parametrize(
    "changed",
    [
        dict(RESPONDER, graceful_azure_health_url="http://localhost:8080/ready"),
        dict(SERVICE, graceful_azure_health_url="http://localhost:8080/ready"),
        dict(SERVICE, graceful_azure_health_url=None, graceful_azure_health_port=8080),
        dict(SERVICE, graceful_azure_health_url=None, graceful_azure_health_port=8081, graceful_azure_health_address="10.0.0.4"),
        # Nobody knows what the unit answers.
        dict(SERVICE, graceful_azure_health_url=None, graceful_azure_health_port=8081, url=None),
    ],
)
def test_an_answer_that_may_pass_while_the_host_is_held_is_not_refused(changed):
    assert mistakes(**changed) == []


def answer(**more):
    return {
        "action": "file", "on": "/run/maintenance", "state": "failing", "told": "/run/maintenance is there", "held_by": ["E1"], "condition": "held",
        "failing_for": 3.0, "noted": True, "restoring": False, **more,
    }  # fmt: skip


def look(notice_left=0.0, probe=None, new=(), **more):
    return {"answer": answer(**more), "notice_left": notice_left, "probe": probe, "new_connections": list(new), "connections": [], "idle": True}


SETTINGS = settings_of("health_probe", {"action": "file", "file": "/run/maintenance", "url": "http://localhost:8080/health"}, "web1")


def still_there(look):
    return health_answer(words.place_name(SETTINGS), look, SETTINGS["url"])


def test_what_is_still_there():
    assert still_there(look()) == () and not words.may_send(look())
    assert still_there(look(notice_left=8.2)) == ("the balancer notices within 9 s",)
    assert words.may_send(look(notice_left=8.2))
    assert still_there(look(new=[{"port": 8080, "count": 3, "peer": "10.0.0.10"}])) == ("3 new connections came to port 8080, the last from 10.0.0.10",)
    assert still_there(look(new=[{"port": 80, "count": 1, "peer": "10.0.0.10"}])) == ("1 new connection came to port 80 from 10.0.0.10",)
    wrong = look(probe={"passes": True, "said": None})
    assert words.may_send(wrong) and "http://localhost:8080/health still passes although /run/maintenance is there" in still_there(wrong)[0]
    assert still_there(look(state="passing")) == ("the health answer (/run/maintenance) passes",)


def test_the_result_of_the_role():
    out = judge(SETTINGS, "out", [{"answers": [answer()], "changed": True, "waiting_for": [], "conflicts": []}])
    assert out == {
        "done": True, "changed": True, "reason": "the health answer is held (/run/maintenance is there)", "failed_hosts": [], "conflicts": [],
    }  # fmt: skip
    back = judge(SETTINGS, "in", [{"answers": [], "changed": False, "waiting_for": [], "conflicts": []}])
    assert back["done"] and back["reason"] == "no health answer is held"
    failed = judge(SETTINGS, "out", [{"failed": True, "msg": "There is no folder."}])
    assert not failed["done"] and failed["reason"] == "There is no folder." and failed["failed_hosts"] == ["web1"]


@pytest.mark.parametrize(("result", "helpless"), [({"fatal": "no folder"}, True), ({"error": "too late"}, False)])
def test_an_answer_of_a_host_that_is_there_and_cannot_be_read_is_no_observation(result, helpless):
    settings, _none = read()
    (balancer,) = settings["web1"]["load_balancers"]
    (next_look,) = PROVIDER.looks([("web1", balancer)], {}, None)
    host = SimpleNamespace(observation=SimpleNamespace(reached=True))
    (told,) = PROVIDER.traffic_of_all([(host, balancer)], {next_look.key: MachineObservation(next_look.key, result, None)}, None)
    assert (told.serves, told.places, told.is_helpless) == (False, (), helpless)
    assert told.unread[0].text.endswith(f": {next(iter(result.values()))}")


def test_a_release_names_the_file_that_knows_what_the_record_knew():
    settings, _none = read()
    (balancer,) = settings["web1"]["load_balancers"]
    held = {"event_ids": ["E1"], "state": "present"}
    (out,) = PROVIDER.acts(balancer, "out", held, {})
    assert out == ("web1", "health_probe_hold", {"action": "file", "file": "/run/maintenance", "file_means": "out", **held})
    # Who answers there is recorded with the hold.
    (out,) = PROVIDER.acts(SETTINGS, "out", held, {})
    assert out[2]["url"] == SETTINGS["url"]
    released = {"event_ids": ["E1"], "state": "absent"}
    (back,) = PROVIDER.acts(balancer, "in", released, {})
    assert back == ("web1", "health_probe_hold", {"action": "file", "file": "/run/maintenance", "file_means": "out", **released})
    # The others leave nothing that could tell it.
    (back,) = PROVIDER.acts(dict(balancer, action="service"), "in", released, {})
    assert back == ("web1", "health_probe_hold", released)


def test_how_a_record_is_shown():
    record = {"subject": {"action": "file", "on": "/run/maintenance"}}
    assert PROVIDER.shown(record)["held"] == "health_probe file /run/maintenance"


def test_a_pool_of_which_some_are_no_targets():
    """As in a job that a watcher launches for the VMs of one event."""
    probed = {"type": "health_probe", "action": "file", "file": "/run/out", "url": "http://{{ ansible_host }}/health"}
    another, beside = dict(probed, name="another"), [dict(probed), "app"]
    everybody = {"web1": [dict(probed)], "web2": [dict(probed)], "web3": [another], "web4": beside, "db1": "{{ theirs }}", "lb1": None}

    def told(*targets):
        return words.pools_cut(targets, set(everybody).difference(targets), everybody.get)

    (warning,) = told("web1")
    assert warning.startswith("web1: web2, web4 have the same duty health_probe and no place in the target") and "event_watcher_target" in warning
    assert told("web1", "web2", "web4") == told("web3") == told("lb1") == []
    # A template has written the hosts' names, or the pool has a name.
    everybody.update(web1=[dict(probed, file="/srv/web1/out")], web2=[dict(probed, file="/srv/web2/out")])
    assert [each.startswith("web1: web2 has the same duty") for each in told("web1")] == [True]
    everybody.update(web2=[dict(another, pool="shop")], web3=[dict(probed, pool="shop")])
    assert [each.startswith("web2: web3 has the same duty") for each in told("web2")] == [True]
