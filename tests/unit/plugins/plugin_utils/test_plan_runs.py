# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long a run goes on, and what it leaves behind at its end."""

from __future__ import annotations

from tests.support.model import Model


class TestAnEventThatIsApprovedUnprepared:
    """A host is out for a reboot when another event comes that a rule has approved without preparing."""

    def out(self, *named, **more):
        rules = [{"name": "freezes", "when": "event_type == 'Freeze'", "action": "approve"}]
        model = Model(rules=rules, **more)
        model.announce("e1", "web1", notice=600.0)
        model.until(lambda outcome: model.posted)
        model.announce("e2", *named, event_type="Freeze", notice=86400.0)
        model.start("e1")
        model.go()
        return model

    def test_that_is_not_ours_to_approve_keeps_nobody_out(self):
        model = self.out("web1", "vm_other")
        model.over("e1")
        model.until(lambda _outcome: model.in_rotation("web1"), 10)
        assert not model.held("web1") and [event_id for _at, event_id, _by in model.posted] == ["e1"]

    def test_that_has_started_keeps_it_out_whoever_approved(self):
        model = self.out("web1", "vm_other")
        model.start("e2")
        model.over("e1")
        for _pass in range(10):
            model.go()
        assert model.in_rotation("web1") == []
        model.over("e2")
        assert not model.finish()["failed_run"] and model.in_rotation("web1") == ["lb1"]

    def test_that_is_ours_is_approved_while_the_host_is_out(self):
        model = self.out("web1")
        model.over("e1")
        for _pass in range(10):
            model.go()
            assert model.in_rotation("web1") == []
        assert [event_id for _at, event_id, _by in model.posted] == ["e1", "e2"]
        model.over("e2")
        assert not model.finish()["failed_run"] and model.in_rotation("web1") == ["lb1"]


class TestTargetsThatMayBeOff:
    def test_the_only_target(self):
        model = Model(hosts=1, may_be_off=True)
        model.hosts["web1"]["silent"] = True
        outcome = model.go()
        assert outcome["finished"] and outcome["messages"] == [] and outcome["unread"] == {"web1": "timed out"}

    def test_nobody_is_reached_and_one_of_them_may_not_be_off(self):
        model = Model()
        model.settings["web1"]["may_be_off"] = True
        for host in model.hosts.values():
            host["silent"] = True
        outcome = model.finish()
        assert "none of the targets could be reached" in outcome["messages"]
