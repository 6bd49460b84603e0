# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the first call of a run says besides its mistakes, and what no pass may stumble over."""

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.action import plan
from ansible_collections.graceful.azure.plugins.action.plan import ActionModule

ARGS = {"wait": True, "timeout": 60, "sleep": 1, "observe_timeout": 5}


def check(hosts, forks, **args):
    known = {f"web{number}": {"graceful_azure_settings": {"load_balancer_provider": "none"}} for number in range(hosts)}
    return ActionModule._check(dict(ARGS, **args), known, list(known), forks)


@pytest.mark.parametrize(("hosts", "forks", "rounds"), [(5, 1, 5), (100, 5, 20), (21, 5, 5)])
def test_too_few_forks(hosts, forks, rounds):
    (warning,) = check(hosts, forks)["warnings"]
    assert f"{forks} forks for {hosts} hosts" in warning and f"in {rounds} rounds" in warning


@pytest.mark.parametrize(("hosts", "forks"), [(4, 1), (20, 5), (100, 25), (1, None)])
def test_enough_forks(hosts, forks):
    assert check(hosts, forks)["warnings"] == []


def test_whether_others_behind_balancers_are_no_targets():
    class Hostvars(dict):
        raw_get = dict.get

    settings = {"web1": {"load_balancer": {"hosts": ["lb1"]}}}
    everybody = Hostvars(web1={}, lb1={"load_balancer_hosts": []}, db1={}, web2={"load_balancer_hosts": ["lb1"]})
    assert ActionModule._is_partial(settings, {"web1": {}}, everybody)
    assert not ActionModule._is_partial(settings, {"web1": {}, "web2": {}}, everybody)


def test_a_socket_that_is_set_for_the_balancer_alone():
    class Hostvars(dict):
        raw_get = dict.get

    class Templar:
        def copy_with_new_env(self, available_variables):
            return self

        def template(self, text):
            return "/run/haproxy/admin.sock" if text == "{{ run_dir }}/admin.sock" else text

    action = ActionModule.__new__(ActionModule)
    action._templar = Templar()
    settings = {name: {"load_balancer": {"hosts": ["lb1", "lb2"], "socket": "/run/haproxy/admin.sock"}} for name in ("web1", "web2")}
    own = {"load_balancer_haproxy_socket": "/run/own.sock"}
    theirs = {"load_balancer_haproxy_socket": "{{ run_dir }}/admin.sock"}
    (told,) = action._balancers_sockets(settings, Hostvars(lb1=own, lb2=theirs))
    assert told.startswith("lb1: nothing reads load_balancer_haproxy_socket ('/run/own.sock')") and "'/run/haproxy/admin.sock'" in told
    # One that is a target too is its own.
    assert list(action._balancers_sockets(dict(settings, lb1=settings["web1"]), Hostvars(lb1=own))) == []


def test_a_run_of_one_step_may_look_for_as_long_as_no_session_is_to_come():
    known = {"web0": {"graceful_azure_settings": {"load_balancer_provider": "none", "load_balancer_quiet": 600}}}
    rounds = ActionModule._check(dict(ARGS, wait=False), known, list(known), 5)["rounds"]
    assert rounds**4 >= 2 * 600


@pytest.mark.parametrize(("option", "least"), [("timeout", "0"), ("sleep", "0"), ("observe_timeout", "0.1")])
def test_true_is_not_a_second(option, least):
    assert check(1, 5, **{option: True})["mistakes"] == [f"handle_events_{option}: True is not a number of seconds from {least} up"]


def test_a_journal_that_cannot_be_written_is_found_before_the_first_pass(tmp_path):
    (mistake,) = check(1, 5, journal=str(tmp_path / "none" / "journal"))["mistakes"]
    assert "handle_events_journal" in mistake and "No such file" in mistake


def test_check_mode_writes_no_journal(tmp_path):
    journal = tmp_path / "journal"
    host = {"reached": True, "events": [], "resource_name": "vm"}
    known = {"web0": {"graceful_azure_settings": {"load_balancer_provider": "none"}, "graceful_azure_host": host}}
    checked = ActionModule._check(dict(ARGS, journal=str(journal)), known, list(known), 5, check_mode=True)
    assert checked["mistakes"] == []
    ActionModule.__new__(ActionModule)._pass({"journal": str(journal)}, known, checked)
    assert not journal.exists()
    # A pass in earnest writes it.
    ActionModule.__new__(ActionModule)._pass({"journal": str(journal)}, known, dict(checked, run=dict(checked["run"], check=False)))
    assert journal.exists()


def test_check_mode_tells_a_journal_that_cannot_be_written(tmp_path):
    known = {"web0": {"graceful_azure_settings": {"load_balancer_provider": "none"}}}
    (mistake,) = ActionModule._check(dict(ARGS, journal=str(tmp_path / "none" / "journal")), known, list(known), 5, check_mode=True)["mistakes"]
    assert "handle_events_journal" in mistake and "No such file" in mistake


def test_a_journal_that_fills_the_disk_does_not_end_the_run():
    hosts = {"web0": {"graceful_azure_host": {"reached": True, "events": [], "resource_name": "vm"}}}
    action = ActionModule.__new__(ActionModule)
    result = action._pass({"journal": "/dev/full"}, hosts, check(1, 5))
    assert "handle_events_journal" in result["warnings"][0] and result["hosts"]["web0"]["state"] == "in_service"


def shown(monkeypatch, seconds, state="waiting"):
    """When a host's line is shown while it waits for so long without a change, a pass each second."""
    moments = []
    memory = {}
    monkeypatch.setattr(plan.display, "display", lambda line, color=None: moments.append(now))
    for now in range(seconds):
        decision = {"state": state, "reason": "rule begins later", "event": "Reboot e1", "since": 0, "until": None}
        outcome = {"hosts": {"web0": decision}, "memory": {}}
        ActionModule._tell(outcome, {"memory": memory}, {"now": float(now)})
        memory = outcome["memory"]
    return moments


def test_who_waits_is_told_again_and_again_but_ever_more_seldom(monkeypatch):
    moments = shown(monkeypatch, 7200)
    gaps = [later - earlier for earlier, later in zip(moments, moments[1:])]
    assert gaps[0] == 5 and gaps == sorted(gaps) and gaps[-1] == 300
    assert len(moments) < 70


def test_who_is_back_is_told_once(monkeypatch):
    assert shown(monkeypatch, 100, state="restored") == [0]


@pytest.mark.parametrize(
    ("planned", "result"),
    [
        ({"finished": True, "failed_run": False, "messages": []}, {}),
        ({"finished": True, "failed_run": True, "messages": ["web1: broken", "web2: off"]}, {"failed": True, "msg": "web1: broken; web2: off"}),
        ({"finished": False, "failed_run": False, "messages": []}, {"failed": True, "msg": "the run ended before everything was done; start it again"}),
    ],
)
def test_the_end_of_a_run_is_shown_in_lines(monkeypatch, planned, result):
    lines = []
    monkeypatch.setattr(plan.display, "display", lambda line, color=None: lines.append(line))
    assert ActionModule._close(dict(planned, table=["Reboot e1 (web1): completed", "    web1: restored"])) == result
    assert lines == ["Reboot e1 (web1): completed", "    web1: restored"]
