# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Dashboard and alerts with a real Prometheus and Alertmanager, which read what a real run and a real watcher wrote, and with the types of Grafana."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.support.checkout import BUILD, ROOT
from tests.support.others import unpack
from tests.support.patience import patient, until
from tests.support.prometheus import DASHBOARD, RULES, Dashboard, Prometheus, needs_prometheus
from tests.support.receiver import Receiver
from tests.support.watcher import HURRY, Watcher

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

GALAXY = yaml.safe_load((ROOT / "galaxy.yml").read_text())
# Two runs are needed to see the counters move.
RUNS = 2


@pytest.fixture(name="watcher")
def make_watcher(tmp_path, site):
    watcher = Watcher(tmp_path / "watcher", site.simulator.urls["web1"], constants=HURRY, action="run", command=[sys.executable, "-c", "pass"])
    (tmp_path / "web1").mkdir()
    watcher.set(textfile=tmp_path / "web1" / "watcher.prom")
    watcher.start()
    until(Path(watcher.settings["textfile"]).exists, 30, "the watcher has written")
    yield watcher
    watcher.close()


def names_in(legend):
    return re.findall(r"\{\{(\w+)\}\}", legend)


@needs_prometheus
def test_no_panel_is_empty(site, watcher, tmp_path):
    written = tmp_path / "ctl" / "web.prom"
    began = time.time()
    with Prometheus(tmp_path / "prometheus", {"ctl": written.parent, "web1": watcher.folder.parent / "web1"}) as prometheus:
        for _number in range(RUNS):
            site.simulator.post_event(EventType="Reboot", Resources=["web1"], ImpactSeconds=4, SettleSeconds=2)
            run = site.run(handle_events_metrics=str(written))
            assert run.status == 0, run.output
        # Other hosts, handled by runs of their own.
        (written.parent / "db.1-eu.prom").write_text(written.read_text().replace('group="web"', 'group="db.1-eu"'))
        until(lambda: prometheus.label_values("graceful_azure_hosts", "group") == ["db.1-eu", "web"], 30, "both files are read")
        until(lambda: prometheus.query('graceful_azure_events_over_total{group="web"} == 2'), 30, "the end is read")
        # The last of the moments that are asked for is not before that.
        ended = time.time() + 1
        # The host is back somewhat later than its event is gone.
        ((_labels, out),) = prometheus.query_range('graceful_azure_hosts_out{group="web"} == 1 and on (group) graceful_azure_events{group="web"}', began, ended)
        dashboard = Dashboard(DASHBOARD, prometheus)
        assert dashboard.values == {"group": ["db.1-eu", "web"]}
        shown = {}
        for panel in dashboard.content["panels"]:
            series = shown[panel["title"]] = dashboard.shown(panel, began, ended, now=out[len(out) // 2][0])
            for target in panel["targets"]:
                name = f"{panel['title']} {target['refId']}"
                assert series[target["refId"]], f"{name} is empty"
                for labels, values in series[target["refId"]]:
                    assert not any(map(math.isnan, values)), f"{name} is no number"
                    assert set(names_in(target.get("legendFormat", ""))) <= set(labels), f"{name}: its legend has no {labels}"

    def one(title):
        ((_labels, (value,)),) = shown[title]["A"]
        return value

    assert one("Hosts out") == one("Events that stand") == 1 and one("Need a person") == one("Last run") == 0
    assert 0 < one("Longest out") < 60 and 0 <= one("Last pass") < 60
    ((row, _value),) = shown["Hosts that are out or wait"]["A"]
    assert row["host"] == "web1" and row["state"] in ("draining", "ready", "approved", "started", "restoring")
    states = {labels["state"]: max(values) for labels, values in shown["Hosts by state"]["A"]}
    # One host of each group.
    assert states["restored"] == 2 and states["needs_person"] == 0 and "in_service" not in states
    over = {(labels["type"], labels["outcome"]): values[-1] for labels, values in shown["Events that are over, per day"]["A"]}
    # The first of its kind counts, too.
    assert over["Reboot", "completed"] == pytest.approx(RUNS, rel=0.2) and over["Reboot", "cancelled"] == 0
    assert all(max(values) < 30 for series in shown["Silence of the metadata service"].values() for _labels, values in series)


def samples(now):
    """The files of a controller and of two VMs in the night in which everything goes wrong."""
    of_run = {
        'host_held_since_timestamp_seconds{group="web",host="web1"}': now - 7200,
        'host_state{group="web",host="web2",state="needs_person"}': 1,
        'host_state{group="web",host="web3",state="draining"}': 1,
        'host_not_before_timestamp_seconds{group="web",host="web3"}': now + 60,
        'host_last_answer_timestamp_seconds{group="web",host="web4"}': now - 600,
        'last_pass_timestamp_seconds{group="web"}': now,
        'last_run_failed{group="web"}': 1,
    }
    of_watcher = {"watcher_action_failing": 1, "watcher_written_timestamp_seconds": now, "watcher_last_answer_timestamp_seconds": now - 300}
    dead = {"watcher_written_timestamp_seconds": now - 300, "watcher_last_answer_timestamp_seconds": now - 300}
    for name, values in {"ctl": of_run, "web5": of_watcher, "web6": dead}.items():
        yield name, "".join(f"graceful_azure_{series} {value}\n" for series, value in values.items())


# By its summary, the host or machine that each alert is about.
ALERTS = {
    ("GracefulAzureHeldTooLong", "web1 has been out of its load balancers for 2h"),
    ("GracefulAzureNeedsPerson", "web2 needs a person"),
    ("GracefulAzureNeedsPerson", "The last run for web on ctl failed"),
    ("GracefulAzureNeedsPerson", "What the watcher on web5 starts fails"),
    ("GracefulAzureDeadlineNear", "web3 is not ready for its event, which may start in "),
    ("GracefulAzureServiceSilent", "The metadata service of web4 does not answer"),
    ("GracefulAzureServiceSilent", "The metadata service of web5 does not answer"),
    ("GracefulAzureWatcherDead", "The watcher on web6 has written nothing for 5m"),
}


@needs_prometheus
def test_each_alert_says_whom_it_is_about_and_what_to_do(tmp_path):
    # promtool checks how long each waits (tests/unit/monitoring).
    rules = yaml.safe_load(RULES.read_text())
    for rule in rules["groups"][0]["rules"]:
        rule.pop("for", None)
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(rules))
    folders = {}
    for name, text in samples(time.time()):
        folders[name] = tmp_path / name
        folders[name].mkdir()
        (folders[name] / "graceful.prom").write_text(text)
    with Receiver() as receiver, Prometheus(tmp_path / "prometheus", folders, tmp_path / "rules.yml", receiver.url):

        def alerts():
            return [alert for document in receiver.documents() for alert in document["alerts"] if alert["status"] == "firing"]

        def told():
            return {(alert["labels"]["alertname"], alert["annotations"]["summary"]) for alert in alerts()}

        def missing():
            return {(name, words) for name, words in ALERTS if not any(name == other and summary.startswith(words) for other, summary in told())}

        until(lambda: not missing(), 60, "all alerts have come")
        assert len(told()) == len(ALERTS), told()
        for alert in alerts():
            labels, notes = alert["labels"], alert["annotations"]
            assert labels["severity"] in ("warning", "critical") and labels["instance"] in folders
            assert not re.search(r"<no value>|<error|%!|  |\n", " ".join(notes.values())), notes
            page, _mark, heading = notes["runbook_url"].removeprefix(f"{GALAXY['repository']}/blob/main/").partition("#")
            headings = [
                re.sub(r"[^\w -]", "", line.lstrip("# ")).replace(" ", "-").lower() for line in (ROOT / page).read_text().splitlines() if line.startswith("#")
            ]
            assert not heading or heading in headings, notes["runbook_url"]


# What Grafana itself publishes: the types of dashboards, per version of Grafana. They drop what they do not know.
TYPES = {"10.1": "grafana-foundation-sdk==1769699998!10.1.0", "11.6": "grafana-foundation-sdk==1769699379!11.6.0", "12": "grafana-foundation-sdk==1769699241"}
READ = """
import json, sys
sys.path.insert(0, sys.argv[1])
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import dashboard, prometheus
register_default_plugins()
read = dashboard.Dashboard.from_json(json.load(sys.stdin))
assert all(isinstance(target, prometheus.Dataquery) for panel in read.panels for target in panel.targets)
print(JSONEncoder().encode(read))
"""


def dropped(ours, theirs, path=""):
    """What is not in theirs as it is in ours."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name, value in ours.items():
            yield from dropped(value, theirs.get(name, "nothing"), f"{path}.{name}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from dropped(one, other, f"{path}[{number}]")
    elif ours != theirs:
        yield f"{path}: {ours!r}"


@pytest.mark.parametrize("version", TYPES)
def test_grafana_knows_all_that_the_dashboard_says(version):
    folder = unpack(TYPES[version], BUILD / "others")

    def read(content):
        run = subprocess.run(
            [sys.executable, "-I", "-c", READ, folder], input=json.dumps(content), capture_output=True, text=True, timeout=patient(60), check=False
        )
        assert run.returncode == 0, run.stderr
        return list(dropped(content, json.loads(run.stdout)))

    content = json.loads(DASHBOARD.read_text())
    # The licence.
    del content["__comment"]
    assert read(content) == []
    content["panels"][0]["targets"][0]["legend"] = "x"
    assert read(content) == [".panels[0].targets[0].legend: 'x'"]
