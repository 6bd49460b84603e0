# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real Prometheus with node_exporters and an Alertmanager, and what Grafana would ask it for a dashboard."""

from __future__ import annotations

import json
import re
import shutil
import urllib.parse
import urllib.request

import pytest
import yaml

from tests.support.checkout import ROOT
from tests.support.patience import patient, until
from tests.support.ports import free_port
from tests.support.processes import Processes

RULES = ROOT / "docs" / "monitoring" / "graceful_azure.rules.yml"
DASHBOARD = ROOT / "docs" / "monitoring" / "grafana-dashboard.json"
# Debian's packages, and the program in each.
PROGRAMS = ("prometheus", "prometheus-alertmanager", "prometheus-node-exporter")
# Before each of these Grafana writes two backslashes.
MEANT = re.compile(r"[$^*{}\[\]+?.()|]")
MISSING = [name for name in PROGRAMS if not shutil.which(name)]
needs_prometheus = pytest.mark.skipif(bool(MISSING), reason=f"not there: apt-get install {' '.join(MISSING)}")


def answer(url, **parameters):
    """What the web server of one of the programs answers. A value that is a list is given several times."""
    # No proxy: all of them are on this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{url}?{urllib.parse.urlencode(parameters, doseq=True)}", timeout=patient(30)) as found:
        return json.load(found)


def is_up(url):
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5):
            return True
    except OSError:
        return False


class Prometheus:
    """``textfiles`` are the folders that a node_exporter each reads, by the name of its instance. ``alerts_to`` is the address of a webhook."""

    def __init__(self, folder, textfiles, rules=None, alerts_to=None):
        self.folder = folder
        folder.mkdir()
        self._processes = Processes(folder)
        try:
            self._start(textfiles, rules, alerts_to)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._processes.close()

    def _start(self, textfiles, rules, alerts_to):
        settings = {"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}}
        scrapes = []
        for name, textfile in textfiles.items():
            textfile.mkdir(parents=True, exist_ok=True)
            port = free_port()
            self._program(
                "prometheus-node-exporter", name, "--collector.disable-defaults", "--collector.textfile", f"--collector.textfile.directory={textfile}",
                f"--web.listen-address=127.0.0.1:{port}",
            )  # fmt: skip
            scrapes.append({"targets": [f"127.0.0.1:{port}"], "labels": {"instance": name}})
        settings["scrape_configs"] = [{"job_name": "node", "static_configs": scrapes}]
        if rules:
            settings["rule_files"] = [str(rules)]
        if alerts_to:
            self.alertmanager = self._start_alertmanager(alerts_to)
            settings["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [self.alertmanager.partition("//")[2]]}]}]}
        path = self.folder / "prometheus.yml"
        path.write_text(yaml.safe_dump(settings))
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._program(
            "prometheus", "prometheus", f"--config.file={path}", f"--storage.tsdb.path={self.folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}",
        )  # fmt: skip
        until(lambda: is_up(f"{self.url}/-/ready"), 60, "Prometheus is ready")

    def _start_alertmanager(self, alerts_to):
        path = self.folder / "alertmanager.yml"
        route = {"receiver": "hook", "group_by": ["alertname"], "group_wait": "1s", "group_interval": "1s", "repeat_interval": "1h"}
        path.write_text(yaml.safe_dump({"route": route, "receivers": [{"name": "hook", "webhook_configs": [{"url": alerts_to}]}]}))
        port = free_port()
        self._program(
            "prometheus-alertmanager", "alertmanager", f"--config.file={path}", f"--storage.path={self.folder / 'alerts'}",
            f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=",
        )  # fmt: skip
        url = f"http://127.0.0.1:{port}"
        until(lambda: is_up(f"{url}/-/ready"), 60, "Alertmanager is ready")
        return url

    def _program(self, program, name, *arguments):
        self._processes.start(name, program, *arguments, cwd=str(self.folder))

    def query(self, expression, at=None):
        """The series of an expression at a moment: labels and value."""
        found = answer(f"{self.url}/api/v1/query", query=expression, **({} if at is None else {"time": at}))
        return [(series["metric"], float(series["value"][1])) for series in found["data"]["result"]]

    def query_range(self, expression, begin, end, step=1):
        """The series of an expression over a time: labels, and pairs of time and value."""
        found = answer(f"{self.url}/api/v1/query_range", query=expression, start=begin, end=end, step=step)
        return [(series["metric"], [(at, float(value)) for at, value in series["values"]]) for series in found["data"]["result"]]

    def label_values(self, metric, label):
        return answer(f"{self.url}/api/v1/label/{label}/values", **{"match[]": metric})["data"]


class Dashboard:
    """A dashboard as Grafana opens it: its variables have their values, and each panel asks with them."""

    def __init__(self, path, prometheus):
        self.content = json.loads(path.read_text())
        self._prometheus = prometheus
        self.values = {
            variable["name"]: self._values(variable["query"]["query"]) for variable in self.content["templating"]["list"] if variable["type"] == "query"
        }

    def _values(self, query):
        metric, label = re.fullmatch(r"label_values\((.+), (\w+)\)", query).groups()
        return self._prometheus.label_values(metric, label)

    def filled_in(self, expression):
        """The expression with all values of each variable, as Grafana writes them for a comparison with a pattern."""
        for name, values in self.values.items():
            shown = "|".join(MEANT.sub(r"\\\\\g<0>", value) for value in values)
            expression = expression.replace(f"${name}", shown if len(values) == 1 else f"({shown})")
        assert "$" not in expression, expression
        return expression

    def shown(self, panel, begin, end, now):
        """The series of each query of a panel, by its refId: labels and values. A query of one moment is made at the moment C(now)."""
        return {target["refId"]: self._series(target, begin, end, now) for target in panel["targets"]}

    def _series(self, target, begin, end, now):
        expression = self.filled_in(target["expr"])
        if target.get("instant"):
            return [(labels, [value]) for labels, value in self._prometheus.query(expression, now)]
        return [(labels, [value for _at, value in values]) for labels, values in self._prometheus.query_range(expression, begin, end)]
