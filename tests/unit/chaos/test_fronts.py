# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the observer is told of the balancers, and the points at which a run behind them is killed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.chaos import fronts, killer
from tests.chaos.killer import Case
from tests.chaos.points import POINTS, WINDOWS
from tests.chaos.scenarios import ALL

PORTS = {"web1": 8001, "web2": 8002}


def test_connections_that_were_broken_off_have_failed():
    lines = ["connection web1 1000.250 1500 --", "connection web2 1001.000 20 SD", "connection <NOSRV> 1002.000 0 SC", "connection web1 1003.000 9 CD", "else"]
    rows = fronts.read_connections("\n".join(lines))
    assert [(row["backend"], row["status"]) for row in rows] == [("web1", 200), ("web2", 503), ("<NOSRV>", 503), ("web1", 200)]
    assert (rows[0]["start"], rows[0]["seconds"]) == (1000.25, 1.5)


class TestNginx:
    @pytest.fixture(name="front")
    def make_front(self, tmp_path, monkeypatch):
        front = fronts.Nginx(tmp_path, PORTS)
        monkeypatch.setattr(front, "port", PORTS.get)
        front.nginx = SimpleNamespace(configuration=tmp_path / "nginx.conf")
        front.out = set()
        yield front
        front.close()

    def look(self, front, monkeypatch, text, changed, *started):
        front.nginx.configuration.write_text(text)
        os.utime(front.nginx.configuration, (changed, changed))
        monkeypatch.setattr(front, "_serving_since", lambda: list(started))
        return front.look()[0]["web/web1"][0]

    def test_a_host_is_out_when_no_worker_has_the_old_file(self, front, monkeypatch):
        up, down = "server 127.0.0.1:8001;\nserver 127.0.0.1:8002 down;", "server 127.0.0.1:8001 weight=2 down; # web1\nserver 127.0.0.1:8002;"
        assert self.look(front, monkeypatch, up, 100, 200, 200) == "ready"
        assert self.look(front, monkeypatch, down, 300, 200, 200) == "ready"
        assert self.look(front, monkeypatch, down, 300, 200, 301) == "ready"
        assert self.look(front, monkeypatch, down, 300, 301, 301) == "out"
        # The way back: one worker that has read the new file may send.
        assert self.look(front, monkeypatch, up, 400, 301, 301) == "out"
        assert self.look(front, monkeypatch, up, 400) == "out"
        assert self.look(front, monkeypatch, up, 400, 301, 401) == "ready"

    def test_its_log(self, front, tmp_path):
        lines = ["127.0.0.1:8001 1000.500 0.250 200", "127.0.0.1:8001, 127.0.0.1:8002 1001.000 1.000 200", "web 1002.000 0.000 502", "- 1003.000 0.100 499"]
        (tmp_path / "requests.log").write_text("\n".join(lines) + "\n")
        rows = front.rows()
        assert [(row["backend"], row["start"], row["status"]) for row in rows] == [
            ("web1", 1000.25, 200),
            ("web2", 1000.0, 200),
            ("", 1002.0, 502),
            ("", 1002.9, 200),
        ]


@pytest.mark.parametrize("front", POINTS)
def test_each_point_of_a_provider_is_a_case(front):
    cases = dict(killer.behind(front, "1"))
    assert [case.point for case in cases.values() if case.point and case.scenario == f"{front}_reboot"] == list(POINTS[front])
    assert 10 <= len(cases) <= 14
    assert {ALL[case.scenario].front for case in cases.values()} == {front}
    assert {case.company for case in cases.values()} == {"none", "after", "along"}
    assert len({case.seed for case in cases.values()}) == len(cases)


# What changes something on a Windows host, from out to back after a Freeze, as a run made it.
CHANGES = """
write writes False iis-site-Shop-fefa8f6f50.json
write writes False iis-pool-ShopPool-171db85505.json
website stopped Shop
write writes True iis-site-Shop-fefa8f6f50.json
web_app_pool stopped ShopPool
write writes True iis-pool-ShopPool-171db85505.json
write writes False service-Cart-d3eb6e8e4f.json
write writes False service-W3SVC-b91d01db65.json
service stop Cart
write writes True service-Cart-d3eb6e8e4f.json
service stop W3SVC
write writes True service-W3SVC-b91d01db65.json
write writes False task-drained-24c53d8b74.json
write writes False task-approved-b41bd9329c.json
win_uri POST body http://127.0.0.1:44245/metadata/scheduledevents?api-version=2020-07-01
write writes True task-approved-b41bd9329c.json
write writes True service-W3SVC-b91d01db65.json
service start W3SVC
write deletes True service-W3SVC-b91d01db65.json
write writes True service-Cart-d3eb6e8e4f.json
service start Cart
write deletes True service-Cart-d3eb6e8e4f.json
write writes True iis-pool-ShopPool-171db85505.json
web_app_pool started ShopPool
write deletes True iis-pool-ShopPool-171db85505.json
write writes True iis-site-Shop-fefa8f6f50.json
website started Shop
write deletes True iis-site-Shop-fefa8f6f50.json
write deletes True task-approved-b41bd9329c.json
write deletes True task-drained-24c53d8b74.json
""".split("\n")[1:-1]


def test_each_call_that_changes_something_on_a_windows_host_is_a_point():
    calls = [repr(("win1", call if call.startswith(("we", "win_uri")) else f"win_powershell {call}")) for call in CHANGES]
    found = []
    for _event, pattern, nth in WINDOWS.values():
        numbers = [number for number, call in enumerate(calls) if re.search(pattern, call)]
        found.append(numbers[nth - 1])
    # Each once, and in this order.
    assert found == list(range(len(calls)))
    assert not any(re.search(pattern, call.replace("win1", "win2")) for _event, pattern, _nth in WINDOWS.values() for call in calls)


def test_each_of_these_points_is_a_case():
    cases = dict(killer.of_windows("1"))
    assert [case.point for case in cases.values() if case.point] == list(WINDOWS)
    assert {ALL[case.scenario].front for case in cases.values()} == {"windows"}
    assert {case.company for case in cases.values()} == {"none", "after", "along"} and {case.who for case in cases.values()} == {"all", "alone"}
    assert len({case.seed for case in cases.values()}) == len(cases)


def test_a_helper_is_killed_at_each_request_and_around_each_record():
    cases = list(dict(killer.of_helpers("1")).values())
    assert {case.who for case in cases} == {"helper", "connection"} and len({case.seed for case in cases}) == len(cases)
    killed = {front: [case.point for case in cases if ALL[case.scenario].front == front] for front in ("haproxy", *POINTS)}
    assert killed.pop("haproxy") == 2 * [f"request {number}" for number in range(1, 21)]
    assert killed.pop("azure") == []
    assert all(any(point.startswith("back: ") for point in points) and any("second record" in point for point in points) for points in killed.values())


def test_a_second_try_kills_a_helper_at_an_earlier_request():
    case = Case("reboot", "x", point="request 20", who="helper", company="along")
    assert killer.again(case, {}) == Case("reboot", "x/again", point="request 10", who="helper", company="after")
    assert killer.again(Case("reboot", "x", point="request 1", who="helper"), {}).point == "request 1"


def test_a_run_with_windows_hosts_is_killed_at_each_task():
    tasks = {"Check": 1, killer.TURN: 7, "Plan": 7, "End": 6}
    cases = [killer.at_a_task("windows_reboot", number, killer.WINDOWS_KILLS, "1", {"trace": tasks}) for number in range(killer.WINDOWS_KILLS)]
    places = [(case.task, case.occurrence) for case in cases]
    assert set(places) == {("Check", 1), ("Plan", 1), ("Plan", 7), ("End", 1), ("End", 6), *((killer.TURN, number) for number in range(2, 8))}
    assert len(set(cases)) == len(cases)


# Renames two files after the other, in two processes, as a controller and its module do.
RENAMES = """
import os, subprocess, sys
os.rename("a", "b")
subprocess.call([sys.executable, "-c", "import os; os.rename('c', 'other'); os.rename('b', 'a'); os.rename('a', 'b')"])
os.rename("b", "last")
"""


def test_a_point_is_counted_over_all_processes_and_kills_before_it_is_passed(tmp_path):
    for name in "ac":
        (tmp_path / name).write_text("")
    point = {"event": "os.rename", "pattern": "'[ab]'", "nth": 3, "count": str(tmp_path / "count"), "who": "all"}
    environment = {**os.environ, "CHAOS_POINT": json.dumps(point), "PYTHONPATH": str(killer.HERE / "plugins" / "points")}
    ended = subprocess.run([sys.executable, "-c", RENAMES], cwd=tmp_path, env=environment, check=False)
    assert ended.returncode == -9
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "count", "other"]


# A helper, and its process for a request, by the names that the kernel shows.
HELPER = """
import os, sys
python = sys.argv[1]
work = "import os; os.rename('a', 'b')"
helper = f"import os; os.spawnv(os.P_WAIT, {python!r}, ['graceful_azure helper', '-c', {work!r}]); open('helper', 'w')"
print(os.spawnv(os.P_WAIT, python, ["graceful_azure helper", "-c", helper]))
"""


def test_a_helper_is_killed_with_what_works_for_it_and_nobody_else(tmp_path):
    (tmp_path / "a").write_text("")
    point = {"event": "os.rename", "pattern": "'a'", "nth": 1, "count": str(tmp_path / "count"), "who": "helper"}
    environment = {**os.environ, "CHAOS_POINT": json.dumps(point), "PYTHONPATH": str(killer.HERE / "plugins" / "points")}
    words = [sys.executable, "-c", HELPER, sys.executable]
    done = subprocess.run(words, cwd=tmp_path, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    assert done.stdout == "-9\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "count"]


def test_connections_are_cut_and_whoever_answers_goes_on(tmp_path):
    """The second of three processes is a client."""
    point = {"event": "os.rename", "pattern": "'a'", "nth": 1, "count": str(tmp_path / "count"), "who": "connection"}
    environment = {**os.environ, "CHAOS_POINT": json.dumps(point), "PYTHONPATH": str(killer.HERE / "plugins" / "points")}
    (tmp_path / "a").write_text("")
    client, other = "import _socket, time; time.sleep(60)", "import time; time.sleep(1)"
    asked = f"started = [subprocess.Popen([sys.executable, '-I', '-S', '-c', code]) for code in ({client!r}, {other!r})]"
    done = subprocess.run(
        [sys.executable, "-c", f"import os, subprocess, sys, time; {asked}; time.sleep(0.5); os.rename('a', 'b'); print(*(each.wait() for each in started))"],
        cwd=tmp_path,
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert done.stdout == "-9 0\n" and (tmp_path / "b").exists()


def test_requests_are_forks_of_helpers_alone(tmp_path):
    point = {"event": "os.fork", "pattern": "", "nth": 2, "count": str(tmp_path / "count"), "who": "helper"}
    environment = {**os.environ, "CHAOS_POINT": json.dumps(point), "PYTHONPATH": str(killer.HERE / "plugins" / "points")}
    forks = "import os\nfor number in '123':\n    pid = os.fork()\n    if not pid:\n        open(number, 'w')\n        os._exit(0)\n    os.waitpid(pid, 0)"
    for name, status, left in (("python", 0, ["1", "2", "3"]), ("graceful_azure helper", -9, ["1", "2", "3", "count"])):
        done = subprocess.run([name, "-c", forks], executable=sys.executable, cwd=tmp_path, env=environment, check=False)
        assert done.returncode == status
        assert sorted(path.name for path in tmp_path.iterdir()) == left
    assert (tmp_path / "count").read_text() == ".."
