# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the benchmark of the drain steps judges a member that is taken through an event, and what it tells."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
import yaml

from tests.bench import proven, sights, steps
from tests.support.cluster_members import KINDS


def run(drained=2.0, back=1.0, lost=0, longest_gap=None, **more):
    return {
        "drained": drained,
        "approved": drained + 1,
        "back": back,
        "ended": back + 1,
        "what": "writes",
        "done": 100,
        "lost": lost,
        "longest_gap": longest_gap,
    } | more


def row_of(told, what):
    (row,) = [row for row in steps.rows_of("redis", told) if what in row["what"]]
    return row


def test_a_figure_is_the_middle_of_the_runs_beside_that_of_the_peer():
    told = {"ours": [run(1.0), run(2.0), run(9.0)], "peer": [run(4.0)] * 3}
    row = row_of(told, "drained")
    assert row["what"] == "redis: visible to drained (3 runs each), ratio 0.50"
    assert (row["ours"], row["peer"]) == ("2.00 s (1.00-9.00)", "4.00 s (4.00-4.00)")
    assert row["figures"]["ours"] == [1.0, 2.0, 9.0]


def test_there_is_no_ratio_of_next_to_nothing():
    row = row_of({"ours": [run(back=0.02)], "peer": [run(back=0.01)]}, "back")
    assert row["what"] == "redis: gone to back" and row["figures"]["ratio"] is None


@pytest.mark.parametrize(("ours", "peer", "ok"), [(0, 7, True), (1, 0, False)])
def test_only_what_ours_loses_is_a_failure(ours, peer, ok):
    row = row_of({"ours": [run(lost=0), run(lost=ours)], "peer": [run(), run(lost=peer)]}, "lost")
    assert row["ok"] is ok
    assert (row["ours"], row["peer"]) == (f"{ours} of 200", f"{peer} of 200")


def test_the_longest_pause_of_clients_is_told_where_it_is_measured():
    row = row_of({"ours": [run(longest_gap=1.0), run(longest_gap=2.0)], "peer": [run(), run()]}, "lost")
    assert (row["ours"], row["peer"]) == ("0 of 200, longest pause 1.50 s (1.00-2.00)", "0 of 200")


class Scripted(sights.Sight):
    """Its looks find what a test says."""

    def __init__(self, answers):
        super().__init__(SimpleNamespace(cluster=None, nodes=("web1", "web2")), "web1")
        self._answers = iter(answers)

    def is_out(self):
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer == "out"

    def is_back(self):
        return False


def test_a_look_that_fails_tells_nothing():
    sight = Scripted([ConnectionError("it is down"), "in", "out"])
    assert [sight._look()[1:] for _number in range(3)] == [(False, False), (False, False), (True, False)]


def test_the_first_look_from_a_moment_on_counts():
    sight = Scripted([])
    sight.seen[:] = [(1.0, True, False), (2.0, False, False), (3.0, True, False), (4.0, True, True)]
    assert sight.when("out", 0.0) == 1.0
    assert sight.when("out", 1.5) == 3.0
    assert sight.when("back", 0.0) == 4.0
    assert sight.when("back", 4.5) is None


def test_what_a_node_of_rabbitmq_writes_down(tmp_path):
    sight = sights.OfRabbitMQ(SimpleNamespace(cluster=SimpleNamespace(folder=tmp_path), nodes=("web1", "web2")), "web1")
    lines = ["1000 false 2 1 true", "1100 true 2 0 true", "1200 true 0 1 true", "1300 true 0 0 true", "1400 {badrpc,nodedown} -1 -1 {badrpc,nodedown}"]
    sight._file.write_text("\n".join([*lines, "1500 false 0 0 true", "16"]))
    looks = sight._told()
    assert [when for when, out, _back in looks if out] == [1.3]
    assert [when for when, _out, back in looks if back] == [1.0, 1.5]
    assert looks[-1][0] == 1.5


def test_each_type_has_a_sight_and_a_peer():
    assert set(sights.SIGHTS) == set(KINDS) == {path.stem for path in steps.PEERS.glob("*.yml")}


@pytest.mark.parametrize("path", sorted(steps.PEERS.glob("*.yml")), ids=lambda path: path.stem)
def test_a_peer_uses_nothing_of_the_collection(path):
    (play,) = yaml.safe_load(path.read_text())
    text = path.read_text() + "".join((steps.PEERS.parent / "tasks" / name).read_text() for name in ("wait_for_event.yml", "approve_and_wait.yml"))
    assert not re.search(r"graceful\.azure\.", text)
    # It waits for its event first, and approves once.
    assert play["tasks"][0]["ansible.builtin.import_tasks"] == "../tasks/wait_for_event.yml"
    assert [task for task in play["tasks"] if task.get("ansible.builtin.import_tasks") == "../tasks/approve_and_wait.yml"]


def test_what_is_missing_for_a_type_is_told(monkeypatch):
    missing = pytest.mark.skipif(True, reason="no consul: apt-get install consul")
    monkeypatch.setattr(KINDS["consul"], "needed", (missing,))
    monkeypatch.setattr(steps, "NEEDED", [])
    rows = steps.steps(SimpleNamespace(folder=None), ("consul",))
    assert [(row["what"], row["ours"]) for row in rows[1:]] == [("consul", "not run: no consul: apt-get install consul")]


def told_rows(kind, told):
    return [dict(row, part="steps", at="2026-11-25T10:00:00Z") for row in steps.rows_of(kind, told)]


def test_the_page_has_a_line_for_each_type():
    rows = [{"part": "steps", "what": "the machine", "ours": "2 cores", "peer": "", "figures": {"machine": "2 cores"}, "at": "2026-11-24T10:00:00Z"}]
    rows += told_rows("redis", {"ours": [run(1.0), run(2.0, longest_gap=1.5)], "peer": [run(4.0), run(5.0, lost=3)]})
    rows += told_rows("consul", {"ours": [run(), run()], "peer": [run(), run()]})
    rows += [{"part": "steps", "what": "slurm", "ours": "not run: no slurmctld", "peer": "", "at": "2026-11-25T10:00:00Z"}]
    rows += [{"part": "reboot", "what": "other", "ours": "", "ok": False}]
    text = proven.render_steps(rows)
    assert text.startswith("Measured from 2026-11-24 to 2026-11-25 on 2 cores. Each figure is the median of 2 runs, with the range.")
    assert "| `redis` | 1.5 s (1.0-2.0) | 4.5 s (4.0-5.0) | 2.5 s (2.0-3.0) | 5.5 s (5.0-6.0) | 1.0 s (1.0-1.0) |" in text
    assert "| `redis` | writes | 0 of 200 | 3 of 200 | 1.5 s (1.5-1.5) |  |" in text
    assert text.count("| `consul` |") == 2 and "other" not in text
    assert text.endswith("- slurm: not run: no slurmctld")


def test_the_page_has_its_marks():
    assert proven.written_into(proven.STEPS_PAGE.read_text(), "new").count("new\n") == 1
