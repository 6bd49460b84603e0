# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What check mode says of each event."""

from __future__ import annotations

import re

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.preview import not_looked_at
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.steps import step_words

from tests.support.model import Model


def shown(model):
    """The text of the first pass in check mode, without moments of the clock."""
    model.run["check"] = True
    outcome = model.go()
    del model.run["check"]
    lines = [*outcome["preview"], *not_looked_at(outcome["unread"], outcome["told"])]
    return re.sub(r"\d\d:\d\d:\d\d \S+", "TIME", "\n".join(lines))


def test_no_event():
    assert "No event stands. Looked at: web1, web2, lb1." in shown(Model())
    assert "No event stands. Looked at: 11 hosts, lb1." in shown(Model(hosts=11))


def test_a_balancer_that_was_slow_once_is_looked_at_once_more():
    model = Model(balancers=("lb1",))
    model.run.update(check=True, wait=False)
    model.down_balancers["lb1"] = {"reached": False, "error": "did not finish its answer within 11 s"}
    assert not model.go()["finished"]
    model.down_balancers.clear()
    outcome = model.go()
    assert outcome["finished"] and not outcome["failed_run"]
    model.killed()
    model.down_balancers["lb1"] = {"reached": False, "error": "no route"}
    model.go()
    outcome = model.go()
    assert outcome["finished"] and outcome["failed_run"]


@pytest.mark.parametrize("machine", ["balancer", "host"])
def test_a_look_that_takes_too_long_is_repeated_for_as_long_as_a_run_would(machine):
    model = Model(balancers=("lb1",))
    model.run.update(check=True, wait=False)
    model.pass_seconds = 11.0

    def is_slow(slow):
        model.hosts["web1"]["slow"] = slow and machine == "host"
        if slow and machine == "balancer":
            model.down_balancers["lb1"] = {"reached": False, "cut_off": 11.0, "error": "the machine is reached, but did not finish its answer within 11 s"}
        else:
            model.down_balancers.clear()

    is_slow(True)
    passes = 0
    while not model.go()["finished"]:
        passes += 1
        # It is asked again at once.
        looked_at = [turn["name"] for turns in model.outcome["turns"].values() for turn in turns if "options" in turn]
        assert "look at web1" in looked_at and any("lb1" in name for name in looked_at)
    assert passes == 3 and model.outcome["failed_run"]
    model.killed()
    model.go()
    is_slow(False)
    outcome = model.go()
    assert outcome["finished"] and not outcome["failed_run"], outcome["messages"]


def test_nobody_can_tell_where_no_service_was_read():
    model = Model()
    for host in model.hosts.values():
        host["service_silent"] = True
    text = shown(model)
    assert "No event stands" not in text and "not known: web1, web2 could not be read" in text


@pytest.mark.parametrize("name", ["web2", "fd00::1", "a: b"])
def test_a_host_that_is_told_of_in_a_message_is_not_told_of_once_more(name):
    model = Model()
    for group in (model.settings, model.hosts):
        group[name] = group.pop("web2")
    model.names[1] = name
    model.hosts[name]["silent"] = True
    model.run.update(check=True, wait=False)
    outcome = model.go()
    text = "\n".join([*outcome["messages"], *outcome["preview"], *not_looked_at(outcome["unread"], outcome["told"])])
    assert text.count(f"{name}: it cannot be reached") == 1 and f"{name} could not be read: " not in text


def test_a_known_type_without_rules():
    model = Model()
    model.announce("e1", "web1", "web2")
    text = shown(model)
    assert "Reboot e1 (vm_web1, vm_web2): Scheduled, not before TIME (in 15 min)" in text
    assert "rule 'built-in: known event type' decides (no other rule is met): out of the balancer and drained, then approved" in text
    assert "preparing begins at once; web2 waits, see below; to be ready by TIME" in text
    late = "if one is not drained in time, it goes on draining, and the event is approved once it is idle"
    assert f"approved when all of its hosts are ready; {late}" in text
    # Its time to drain begins when it is out.
    assert "web1: draining: next it goes out of its balancer\n" in text
    assert "web2: waiting: 1 of 2 in service in www on lb1 (web1 goes out), 1 must stay; goes out at the latest at TIME" in text


def test_a_host_that_a_killed_run_has_taken_out_is_not_said_to_go_out():
    model = Model()
    model.announce("e1", "web1")
    model.until(lambda outcome: not model.in_rotation("web1"))
    model.killed()
    # The record still lacks this one.
    model.announce("e2", "web1", event_type="Freeze")
    text = shown(model)
    assert "web1: draining: out of its balancer, and its record there would be completed" in text
    assert "goes out of its balancer" not in text


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"action": "ignore"}, ["left alone", "web1: in_service"]),
        ({"action": "approve"}, ["approved without preparing", "web1: waiting", "next it approves"]),
        ({"action": "prepare"}, ["never approved by us", "preparing begins at once", "web1: draining"]),
        ({"lead_time": 60}, ["preparing begins TIME (in 14 min)", "web1: waiting", "60 s before NotBefore"]),
        ({"on_drain_timeout": "approve"}, ["or not drained in time (on_drain_timeout: approve)"]),
    ],
)
def test_what_a_rule_means(rule, words):
    model = Model(rules=[dict({"name": "mine", "when": "event_type == 'Reboot'"}, **rule)])
    model.announce("e1", "web1")
    text = shown(model)
    assert "rule 'mine' decides (when: event_type == 'Reboot')" in text
    for word in words:
        assert word in text


def test_what_waits_does_not_begin_at_once():
    model = Model()
    model.announce("e1", "web1")
    assert "preparing begins at once; to be ready by TIME" in shown(model)
    model.until(lambda _outcome: model.held("web1"))
    assert "preparing has begun; to be ready by TIME" in shown(model)
    model.announce("e2", "web2")
    text = shown(model)
    assert "preparing waits, see below; to be ready by TIME" in text and "web2: waiting: " in text


def test_an_unknown_type():
    model = Model()
    model.announce("e1", "web1", event_type="Teleport")
    text = shown(model)
    assert "rule 'built-in: unknown event type' decides" in text
    assert "never approved by us" in text


def test_one_that_has_started():
    model = Model()
    model.announce("e1", "web1", status="Started")
    text = shown(model)
    assert "Reboot e1 (vm_web1): Started" in text and " has decided (" in text
    assert "nothing is left to approve, hosts go back when the event is gone" in text
    assert "preparing begins" not in text


@pytest.mark.parametrize(("check", "being"), [(True, "would be put back"), (False, "is being put back")])
def test_what_a_killed_run_began(check, being):
    """Its rule is on record. Check mode puts nothing back."""
    model = Model()
    model.announce("e1", "web1")
    model.until(lambda _outcome: model.posted)
    model.start("e1")
    model.killed()
    assert "' decided, when its hosts were prepared" in shown(model)
    model.over("e1")
    model.run["check"] = check
    assert model.go()["hosts"]["web1"]["reason"] == f"www/web1 on lb1 {being}"


@pytest.mark.parametrize(
    ("unknown_resources", "words"),
    [("hold", "not approved by us: elsewhere is none of the targets"), ("ignore", "elsewhere is none of the targets and not asked")],
)
def test_a_stranger(unknown_resources, words):
    model = Model(unknown_resources=unknown_resources)
    model.announce("e1", "web1", "elsewhere")
    assert words in shown(model)


def test_a_stranger_that_one_of_the_hosts_minds():
    model = Model(unknown_resources="ignore")
    model.settings["web2"]["unknown_resources"] = "hold"
    model.announce("e1", "web1", "web2", "elsewhere")
    assert "not approved by us: elsewhere is none of the targets" in shown(model)


def test_an_event_that_names_no_target_comes_last():
    model = Model()
    model.announce("e1", "elsewhere", notice=60)
    model.announce("e2", "web1")
    text = shown(model)
    assert "Reboot e1 (elsewhere): Scheduled" in text
    assert text.endswith("names none of the targets: left alone")


def test_rules_that_differ():
    model = Model()
    model.settings["web2"]["rules"] = [{"name": "other", "action": "ignore"}]
    model.announce("e1", "web1", "web2")
    text = shown(model)
    assert "graceful_azure_rules differ between its hosts (web1, web2)" in text
    assert "decides" not in text


def test_what_is_still_held_for_an_event_that_is_over():
    model = Model()
    model.announce("e1", "web1")
    model.until(lambda outcome: not model.in_rotation("web1"))
    model.over("e1")
    model.killed()
    model.now += 5
    text = shown(model)
    assert "Reboot e1 (vm_web1): over, known only by what is still held for it" in text
    assert "web1: draining: its metadata service no longer shows the event; it is brought back once a second look shows the same" in text
    text = shown(model)
    assert "web1: restoring" in text and "next it is brought back" in text


def test_what_was_put_back_by_hand_and_is_named_again():
    model = Model(min_in_service=0)
    model.announce("e1", "web1")
    model.until(lambda outcome: not model.in_rotation("web1"))
    model.over("e1")
    model.killed()
    model.servers["lb1"]["web1"]["admin_state"] = "ready"
    model.now += 60
    model.announce("e2", "web1")
    model.go()
    assert "next it forgets what was held for an event that is over" in shown(model)


@pytest.mark.parametrize("later", ["it names others", "it has gone since"])
def test_what_is_held_for_an_event_that_stands_in_a_document_and_not_for_us(later):
    model = Model()
    model.announce("e1", "web1")
    model.until(lambda outcome: not model.in_rotation("web1"))
    model.killed()
    model.now += 5
    if later == "it names others":
        model.events["e1"]["resources"] = ["vm_elsewhere"]
    else:
        model.seen["web2"] = model.observe_host("web2")
        model.rests("web2")
        model.number = 2
        model.expects_nothing("web1")
        model.number = 1
        model.over("e1")
    text = shown(model)
    assert "Reboot e1" in text and "over, known only by what is still held for it" in text and "once a second look shows the same" in text
    assert "web1: restoring" in shown(model)


@pytest.mark.parametrize(
    ("decided", "words"),
    [
        ({"role": "load_balancer", "state": "out"}, "goes out of its balancer"),
        ({"role": "load_balancer", "state": "in"}, "forgets what was held for an event that is over"),
        ({"role": "approve_event", "state": "approved"}, "approves"),
        ({"role": "approve_event", "state": "approved", "through": "web2"}, "is approved through web2"),
    ],
)
def test_what_a_host_does_next_in_words(decided, words):
    assert step_words(decided) == words


@pytest.mark.parametrize("check", [False, True])
def test_which_faults_the_table_tells(check):
    """A mistake of two hosts stands in the lines of both, also those of two events; that of a host that no event names in none. A rule stands in the
    preview alone."""
    model = Model(hosts=4)
    model.run["check"] = check
    model.settings["web1"]["rules"] = [{"name": "live", "when": "contains(description, 'live')"}]
    model.announce("e1", "web1", "web2", description=None)
    model.announce("e2", "web3")
    model.go()
    for name, fatal in {"web2": "cut in half", "web3": "cut in half", "web4": "broken"}.items():
        model.hosts[name]["fatal"] = fatal
    faults = {fault["text"]: fault["in_table"] for fault in model.go()["faults"]}
    rule, differ = (next(text for text in faults if words in text) for words in ("a rule cannot be asked of", "differ between its hosts"))
    assert faults == {rule: check, differ: True, "web2, web3: cut in half": True, "web4: broken": False}


def test_whoever_works_on_a_host_hears_that_its_event_would_be_approved():
    model = Model(hosts=2)
    model.servers["lb1"]["web1"].update(admin_state="maint")
    model.announce("e1", "web1")
    model.announce("e2", "web2")
    told = {line.partition(":")[0].strip(): line for line in shown(model).splitlines() if line.startswith("    web")}
    assert "nothing of ours keeps it out, but an operator's maintenance does" in told["web1"] and "nothing of ours" not in told["web2"]
