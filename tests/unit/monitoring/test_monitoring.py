# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The metrics of runs and of the watcher, the alerts and the dashboard, as promtool reads them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest
import yaml
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.plan import plan
from ansible_collections.graceful.azure.plugins.plugin_utils._story import metrics, story
from graceful_azure_watcher import notes

from tests.support.checkout import BUILD, ROOT
from tests.support.model import Model
from tests.support.patience import patient
from tests.support.prometheus import DASHBOARD, RULES

PROMTOOL = shutil.which("promtool", path=str(BUILD)) or shutil.which("promtool")
OF_WATCHER = {
    "version": "1", "settings": "5e7", "host": "www_1", "action": "awx", "doing": "", "error": None, "written": 1795273200.5, "last_answer_age": 0.4,
    "action_failing": True, "fast_path_failing": False, "seconds_until_not_before": 12.5, "fast_path_held": [], "answers": 5, "errors": 1,
    "actions_started": 2, "actions_failed": 1, "fast_path_started": 1, "fast_path_failed": 0,
    "events": [{"event_id": "E1", "type": "Reboot", "status": "Scheduled", "not_before": None, "resources": "www_1"}],
}  # fmt: skip

needs_promtool = pytest.mark.skipif(not PROMTOOL, reason="promtool is not there: tests/setup.sh test fetches it where Debian's packages can be had")


def promtool(*arguments, **given):
    run = subprocess.run([PROMTOOL, *map(str, arguments)], capture_output=True, text=True, timeout=patient(60), check=False, **given)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout + run.stderr


class Measured(Model):
    """The model, with the metrics that its run would write."""

    def __init__(self, before="", **settings):
        super().__init__(**settings)
        self.story = story.begin(self.run, self.names)
        self.before = metrics.read(before)
        self.planned_at = None
        self.text = ""

    def decide(self):
        self.number += 1
        self.planned_at = self.now
        world = json.loads(json.dumps(self.world()))
        self.outcome = plan(json.loads(json.dumps(world)))
        self.memory = self.outcome["memory"]
        passed = {"time": self.now, "pass": self.number, "hosts": self.outcome["hosts"], "events": self.outcome["events"], "world": world}
        story.add(self.story, passed, self.memory)
        story.end(self.story, self.outcome["finished"], self.outcome["failed_run"], self.outcome["messages"])
        self.text = metrics.metrics("web", self.story, passed, self.memory, self.before)

    def value(self, name, **labels):
        """The value of a series, None if there is none."""
        shown = ",".join(f'{label}="{value}"' for label, value in sorted(dict(labels, group="web").items()))
        found = re.search(rf"^graceful_azure_{name}\{{{re.escape(shown)}\}} (.*)$", self.text, re.MULTILINE)
        return float(found[1]) if found else None


def whole_life(before=""):
    site = Measured(before, hosts=3)
    site.go()
    site.announce("e1", "web1")
    site.until(lambda _outcome: site.posted)
    site.go()
    return site


def test_a_run_with_an_event():
    site = whole_life()
    assert site.value("events", type="Reboot", status="Scheduled") == 1
    assert site.value("host_not_before_timestamp_seconds", host="web1") == site.memory["events"]["e1"]["not_before_at"]
    # From 0 on, or Prometheus would not see the first one.
    assert [site.value("events_over_total", type="Reboot", outcome=outcome) for outcome in ("completed", "cancelled", "not_approved")] == [0, 0, 0]
    assert site.value("hosts_out") == 1 and site.value("holds") == 1
    assert site.value("host_held_since_timestamp_seconds", host="web1") == site.memory["hosts"]["web1"]["held_since"]["e1"]
    assert site.value("host_held_since_timestamp_seconds", host="web2") is None
    assert site.value("host_state", host="web1", state="approved") == 1 and site.value("host_state", host="web1", state="draining") is None
    assert site.value("hosts", state="approved") == 1 and site.value("hosts", state="in_service") == 2
    assert site.value("run_in_progress") == 1 and site.value("runs_total") == 1 and site.value("last_run_failed") == 0
    assert site.value("last_pass_timestamp_seconds") == site.planned_at == site.value("host_last_answer_timestamp_seconds", host="web3")
    site.start("e1")
    site.go()
    assert site.value("events", type="Reboot", status="Started") == 1
    assert site.value("host_not_before_timestamp_seconds", host="web1") is None
    site.over("e1")
    site.finish()
    assert site.value("run_in_progress") == 0 and site.value("hosts_out") == 0 and site.value("hosts", state="restored") == 1
    assert site.value("events_over_total", type="Reboot", outcome="completed") == 1
    assert not [line for line in site.text.splitlines() if line.startswith("graceful_azure_events{")]


def test_a_host_that_is_out_a_second_time_is_so_since_then():
    site = whole_life()
    first = site.value("host_held_since_timestamp_seconds", host="web1")
    site.over("e1")
    site.until(lambda outcome: outcome["hosts"]["web1"]["state"] == "restored")
    site.announce("e2", "web1")
    site.until(lambda _outcome: site.value("hosts_out") == 1)
    site.go()
    assert site.value("holds") == 1 and site.value("host_held_since_timestamp_seconds", host="web1") > first + 1
    out = site.story["hosts"]["web1"]["out"]
    assert [span["until"] is None for span in out] == [False, True] and out[1]["from"] >= out[0]["until"]


def test_the_next_run_counts_on():
    first = whole_life()
    first.over("e1")
    first.finish()
    second = Measured(first.text, hosts=3)
    second.go()
    assert second.value("runs_total") == 2 and second.value("runs_failed_total") == 0
    assert second.value("events_over_total", type="Reboot", outcome="completed") == 1
    # Its passes do not add up.
    second.go()
    assert second.value("runs_total") == 2


def test_an_event_that_holds_a_host_for_many_runs_is_counted_once():
    site = whole_life()
    site.refuse["web1", "restore_service"] = "it does not answer"
    site.over("e1")
    for _run in range(2):
        site.finish()
        assert site.outcome["failed_run"] and site.outcome["events"][0]["outcome"] == "completed"
        assert site.value("events_over_total", type="Reboot", outcome="completed") == 1
        site.killed()
        site.story, site.before = story.begin(site.run, site.names), metrics.read(site.text)
    if PROMTOOL:
        promtool("check", "metrics", input=site.text)
    # It is forgotten after a while, and at once if it stands again.
    site.hosts["web1"]["tasks"].clear()
    site.servers["lb1"]["web1"].update(admin_state="ready", record=None)
    assert "# counted e1" in site.text
    site.announce("E1", "web1")
    site.go()
    assert "# counted" not in site.text


def test_a_service_that_is_silent():
    site = Measured(hosts=2)
    site.go()
    heard = site.planned_at
    site.hosts["web1"]["service_silent"] = True
    for _pass in range(3):
        site.go()
    assert site.value("host_last_answer_timestamp_seconds", host="web1") == heard < site.planned_at
    assert site.value("host_last_answer_timestamp_seconds", host="web2") == site.planned_at
    # A run that never heard it knows it from the run before. Without that, it is never.
    for before, answer in ((site.text, heard), ("", 0)):
        later = Measured(before, hosts=2)
        later.hosts["web1"]["service_silent"] = True
        later.go()
        assert later.value("host_last_answer_timestamp_seconds", host="web1") == answer
    off = Measured(hosts=2, may_be_off=True)
    off.hosts["web1"]["service_silent"] = True
    off.go()
    assert off.value("host_last_answer_timestamp_seconds", host="web1") is None


def test_an_event_that_is_left_alone_is_no_deadline():
    site = Measured(hosts=2, rules=[{"name": "none", "when": None, "action": "ignore", "lead_time": None, "on_drain_timeout": "hold"}])
    site.announce("e1", "web1")
    site.go()
    assert site.value("host_not_before_timestamp_seconds", host="web1") is None and site.value("events", type="Reboot", status="Scheduled") == 1


@pytest.mark.parametrize("text", ["", "no metrics\n", 'graceful_azure_runs_total{group="web"} many\n', "graceful_azure_runs_total{", "\x00\ufffd"])
def test_a_file_that_is_not_ours_counts_nothing(text):
    assert metrics.read(text) == {}


def test_foreign_text_stays_in_its_label():
    site = Measured(hosts=2)
    site.announce("e1", "web1", event_type='Odd"} 7\nline\\')
    site.go()
    (line,) = [line for line in site.text.splitlines() if line.startswith("graceful_azure_events{")]
    assert line == r'graceful_azure_events{group="web",status="Scheduled",type="Odd\"} 7\nline\\"} 1'
    assert metrics.read(site.text)[line.rpartition(" ")[0]] == 1
    if PROMTOOL:
        promtool("check", "metrics", input=site.text)


@needs_promtool
def test_promtool_finds_nothing_wrong_with_the_metrics():
    site = whole_life()
    site.over("e1")
    site.finish()
    for text in (whole_life().text, site.text, notes.metrics(OF_WATCHER)):
        assert promtool("check", "metrics", input=text) == ""


def named(expression):
    return set(re.findall(r"\bgraceful_azure_[a-z_]+", expression))


def expressions():
    for rule in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]:
        yield rule["expr"]
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        yield from (target["expr"] for target in panel["targets"])


def test_alerts_and_dashboard_name_only_metrics_that_are_written():
    site = whole_life()
    held = site.text
    site.over("e1")
    site.finish()
    written = set(re.findall(r"^# TYPE (\w+)", held + site.text + notes.metrics(OF_WATCHER), re.MULTILINE))
    for expression in expressions():
        assert named(expression) and named(expression) <= written, expression
    page = (ROOT / "docs" / "monitoring.md").read_text()
    assert {name for name in written if f"`{name}`" not in page} == set()


@needs_promtool
def test_promtool_reads_every_expression_of_the_dashboard(tmp_path):
    rules = [{"record": f"x{number}", "expr": text.replace("$group", "web")} for number, text in enumerate(expressions())]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"SUCCESS: {len(rules)} rules found" in promtool("check", "rules", tmp_path / "rules.yml")


def test_panels_of_the_dashboard_do_not_overlap():
    taken = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken and at["x"] + at["w"] <= 24
        taken |= cells


RUN = 'instance="ctl",group="web"'
HOST = f'{RUN},host="web1"'
WATCHER = 'instance="web1"'
CASES = {
    # Per alert: the series, one value a minute from minute 0 on, and the first minute at which it fires, if it does.
    "GracefulAzureHeldTooLong": [
        ({f"host_held_since_timestamp_seconds{{{HOST}}}": "0x90"}, 61),
        # It was given back after 30 minutes.
        ({f"host_held_since_timestamp_seconds{{{HOST}}}": "0x30 stale"}, None),
    ],
    "GracefulAzureNeedsPerson": [
        ({f'host_state{{{HOST},state="needs_person"}}': "_x5 1x85"}, 5),
        ({f"last_run_failed{{{RUN}}}": "0x9 1x80"}, 10),
        ({f"watcher_action_failing{{{WATCHER}}}": "1x90"}, 0),
        ({f'host_state{{{HOST},state="draining"}}': "1x90", f"last_run_failed{{{RUN}}}": "0x90", f"watcher_action_failing{{{WATCHER}}}": "0x90"}, None),
    ],
    "GracefulAzureServiceSilent": [
        # The watcher lives and the service answered last at minute 5.
        ({f"watcher_written_timestamp_seconds{{{WATCHER}}}": "0+60x90", f"watcher_last_answer_timestamp_seconds{{{WATCHER}}}": "0+60x5 300x85"}, 9),
        ({f"watcher_written_timestamp_seconds{{{WATCHER}}}": "0+60x90", f"watcher_last_answer_timestamp_seconds{{{WATCHER}}}": "0+60x90"}, None),
        # Both have stopped: this is the alert for a dead watcher.
        ({f"watcher_written_timestamp_seconds{{{WATCHER}}}": "300x90", f"watcher_last_answer_timestamp_seconds{{{WATCHER}}}": "299x90"}, None),
        ({f"last_pass_timestamp_seconds{{{RUN}}}": "0+60x90", f"host_last_answer_timestamp_seconds{{{HOST}}}": "0x90"}, 7),
        ({f"last_pass_timestamp_seconds{{{RUN}}}": "0+60x90", f"host_last_answer_timestamp_seconds{{{HOST}}}": "0x90",
          f'host_state{{{HOST},state="started"}}': "1x90"}, None),
        # No run goes on.
        ({f"last_pass_timestamp_seconds{{{RUN}}}": "60x90", f"host_last_answer_timestamp_seconds{{{HOST}}}": "59x90"}, None),
    ],
    "GracefulAzureDeadlineNear": [
        ({f"host_not_before_timestamp_seconds{{{HOST}}}": "1800x90", f'host_state{{{HOST},state="draining"}}': "1x90"}, 29),
        ({f"host_not_before_timestamp_seconds{{{HOST}}}": "1800x90", f'host_state{{{HOST},state="ready"}}': "1x90"}, None),
    ],
    "GracefulAzureWatcherDead": [
        ({f"watcher_written_timestamp_seconds{{{WATCHER}}}": "0+60x10 600x80"}, 13),
        ({f"watcher_written_timestamp_seconds{{{WATCHER}}}": "0+60x90"}, None),
    ],
}  # fmt: skip
LAST_MINUTE = 80


@needs_promtool
@pytest.mark.parametrize(("alert", "series", "minute"), [(alert, *case) for alert, cases in CASES.items() for case in cases])
def test_an_alert(tmp_path, alert, series, minute):
    """It fires at that minute and not the minute before, and never where it should not."""
    fires = {LAST_MINUTE: False} if minute is None else {minute: True, **({minute - 1: False} if minute else {})}
    expected = [{"eval_time": f"{at}m", "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)',
                 "exp_samples": [{"labels": "{}", "value": int(does)}]} for at, does in fires.items()]  # fmt: skip
    case = {"interval": "1m", "input_series": [{"series": f"graceful_azure_{name}", "values": values} for name, values in series.items()]}
    (tmp_path / "test.yml").write_text(yaml.safe_dump({
        "rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [dict(case, promql_expr_test=expected)],
    }))  # fmt: skip
    promtool("test", "rules", tmp_path / "test.yml")


def test_every_alert_is_tried():
    assert {rule["alert"] for rule in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]} == set(CASES) and len(CASES) == 5
