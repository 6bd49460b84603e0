# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Holds on the members of a real cluster, put and released on its hosts."""

from __future__ import annotations

import json

from tests.support.module import run_module
from tests.support.service import EVENT


def arguments_of(step, folder, node, state="present", **more):
    """Of a hold on this node, with its record in the folder "state" of this one."""
    return {**step, "options": node.options, "state": state, "event_ids": [EVENT], "state_dir": str(folder / "state"), **more}


def hold_of(step, folder, node, state="present", check=False, **more):
    return run_module("cluster_hold", arguments_of(step, folder, node, state, **more), check)


class Bed:
    """Each host has a folder for its records. C(given): what all calls have in common: the type, the name of the hold, and how long a call may wait.

    A node of the cluster tells C(options), the options of its drain step, and C(enter), the words before a command that runs there.
    """

    def __init__(self, cluster, folder, **given):
        self.cluster = cluster
        self.folder = folder
        self._given = given

    def arguments(self, host="web1", **more):
        return {"event_ids": [EVENT], "state_dir": str(self.folder / host), "options": self.cluster[host].options, **self._given, **more}

    def hold(self, host="web1", check=False, prefix=(), wait=True, **more):
        return run_module("cluster_hold", self.arguments(host, **more), check=check, prefix=[*self.cluster[host].enter, *prefix], wait=wait)

    def release(self, host="web1", **more):
        return self.hold(host, state="absent", **more)

    def see_a_lost_record_given_back(self):
        """The disk with the records was lost. The cluster tells for which event the member is out."""
        assert self.hold()["done"]
        for path in self.folder.glob("*/*.json"):
            path.unlink()
        kept = self.release(event_ids=["another"])
        assert not kept["changed"] and only(kept)["held_by"] == [EVENT], kept
        back = self.release()
        assert back["changed"] and back["done"] and back["conflicts"] == [] and self.records() == [], back

    def records(self):
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob("*/*.json"))]


def only(result):
    """The one member that a call was about."""
    assert not result.get("failed"), result
    return result["members"][0]
