# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The look that a run saves when acts have told what they left: it must be the look that it would have been."""

from __future__ import annotations

import ast

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.without_role import after_release

from tests.support.checkout import ROOT
from tests.support.model import AFTER, BEFORE, Model, service


class Compared(Model):
    """A model that asks both: the function, and the machine itself."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.compared = 0

    def _look(self, name):
        last, step = self.seen.get(name), (self.outcome or {}).get("hosts", {}).get(name, {}).get("step")
        seen = super()._look(name)
        if seen.get("by_acts") and step:
            self.compared += 1
            assert after_release(last, step["event_ids"], step["records"])["holds"] == self.records(name)
        return seen


@pytest.mark.parametrize("steps", [[], [service()], [BEFORE, service(), AFTER]])
@pytest.mark.parametrize("hosts", [["web1"], ["web1", "web2"]])
def test_a_life(steps, hosts):
    model = Compared(hosts=2, drain_host={"steps": steps})
    model.announce("e1", *hosts, notice=600.0)
    model.until(lambda outcome: model.posted)
    model.start("e1")
    model.go()
    model.over("e1")
    assert not model.finish()["failed_run"]
    assert all(model.in_rotation(name) == ["lb1"] for name in model.names)
    assert model.compared


def record(name, *event_ids, kind="task"):
    return {"kind": kind, "subject": {"name": name}, "events": {event_id: {} for event_id in event_ids}}


@pytest.mark.parametrize(
    ("holds", "records", "left"),
    [
        ([record("drained", "E1")], ["drained"], []),
        # Ids are compared without case.
        ([record("drained", "e1")], ["drained"], []),
        # Another event holds it, too.
        ([record("drained", "E1", "E2")], ["drained"], [record("drained", "E2")]),
        ([record("drained", "E2")], [], [record("drained", "E2")]),
        # The approval stays until no other host is held.
        ([record("approved", "E1"), record("drained", "E1")], ["drained"], [record("approved", "E1")]),
        ([record("approved", "E1"), record("drained", "E1")], ["approved", "drained"], []),
        # A service of that name is no approval.
        ([record("approved", "E1", kind="service")], [], []),
    ],
)
def test_what_is_left(holds, records, left):
    look = {"reached": True, "at": 5.0, "holds": holds}
    assert after_release(look, ["E1"], records) == {"reached": True, "at": 5.0, "holds": left}


def test_the_model_has_nothing_of_what_it_judges():
    """Otherwise a mistake there is invisible."""
    tree = ast.parse((ROOT / "tests/support/model.py").read_text())
    imported = [(node.module, name.name) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for name in node.names]
    ours = [found for found in imported if (found[0] or "").startswith("ansible_collections")]
    assert ours == [("ansible_collections.graceful.azure.plugins.plugin_utils._planning.plan", "plan")]
