# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the benchmark makes of the journal of a run with nothing to do."""

from __future__ import annotations

import pytest

from tests.bench.figures import idle_passes, idle_rows
from tests.bench.stage import StageError


def journal(*passes):
    """Entries of passes of these lengths, each with what its two hosts waited; None: the look was ended by the news of another."""
    entries, now = [], 1000.0
    for lasted, *waited in passes:
        hosts = {f"web{number}": {"began": now, "waited": pause or 0.0, **({"ended": True} if pause is None else {})} for number, pause in enumerate(waited)}
        # One was looked at whatever the others were told.
        hosts["web9"] = {"began": now, "waited": max(pause or 0.0 for pause in waited)}
        entries.append({"time": now + 0.2, "world": {"hosts": hosts}})
        now += lasted
    return entries


def test_an_idle_pass_is_what_it_lasted_less_its_pause():
    # The first begins with the run. One that did not wait is no idle one. The last has not ended.
    whole, looks, pauses = idle_passes(journal((1, 0.0, 0.0), (3.0, 2.5, 2.5), (1.0, 0.0, 0.1), (4.25, 4.0, None), (9, 1.0, 1.0)))
    assert [round(seconds, 3) for seconds in whole] == [0.5, 0.25]
    assert [round(seconds, 3) for seconds in looks] == [0.2] * 5 and pauses == [0.0, 2.5, 0.1, 4.0, 1.0]


def test_the_row():
    (row,) = idle_rows(journal((1, 0.0), (3.0, 2.5), (2.0, 1.75), (1, 0.0)))
    assert row["ok"] and row["what"].endswith("(median, range of 2)") and row["ours"] == "0.38 s (0.25-0.50)"


@pytest.mark.parametrize("passes", [[], [(1, 0.0)], [(2, 0.0)] * 20])
def test_a_machine_on_which_no_pass_waits_is_told(passes):
    with pytest.raises(StageError, match=f"none of {len(passes)} passes waited: this machine is too slow or too busy"):
        idle_rows(journal(*passes))


def test_a_pass_in_which_every_look_was_ended_is_no_idle_one():
    (entry,) = journal((1, 0.0))
    for host in entry["world"]["hosts"].values():
        host.update(ended=True)
    entry["world"]["hosts"]["web8"] = {"began": 1000.0, "waited": 3.0, "ended": True}
    entry["world"]["hosts"]["web7"] = {"began": 1000.0, "waited": 0.0, "rested": True}
    assert idle_passes([dict(entry, world={"hosts": {**entry["world"]["hosts"], "web6": {"began": 1000.0, "waited": 0.0}}})])[0] == []
