# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report of a real run, and the same from its journal."""

from __future__ import annotations

import contextlib
import json
import socket
import time

import jsonschema
import pytest

from tests.support.checkout import ROOT
from tests.support.patience import patient, until
from tests.support.site import Site

pytestmark = pytest.mark.timeout(300)

SCHEMA = json.loads((ROOT / "docs" / "report.schema.json").read_text())


def reports(folder):
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("report-*.json"))]
    for report in found:
        jsonschema.validate(report, SCHEMA, jsonschema.Draft202012Validator)
    return found


def metrics(path):
    rows = [line.rpartition(" ") for line in path.read_text().splitlines() if not line.startswith("#")]
    return {name.replace("graceful_azure_", ""): float(value) for name, _blank, value in rows}


def test_a_run_that_is_killed_and_the_one_after_it(site):
    folder, journal = site.folder / "reports", site.folder / "journal"
    prom = site.folder / "node-exporter" / "web.prom"
    settings = {"handle_events_report": str(folder), "handle_events_journal": str(journal), "handle_events_metrics": str(prom)}
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], ImpactSeconds=None, SettleSeconds=1)
    killed = site.start("handle_events", **settings)
    site.simulator.wait_for(event_id, "Started", 60)
    until(lambda: any('"state": "started"' in path.read_text() for path in folder.glob("*.json")), 30, "the report tells of it")
    # With the next look, everything is written that the pass before it has told.
    looked = len(site.simulator.requests("web1"))
    until(lambda: len(site.simulator.requests("web1")) > looked, 60, "it looks again")
    site.kill(killed)
    found = metrics(prom)
    assert found['runs_total{group="web"}'] == found['run_in_progress{group="web"}'] == found['hosts_out{group="web"}'] == 1
    assert time.time() - found['host_held_since_timestamp_seconds{group="web",host="web1"}'] < patient(60)
    process = site.start("handle_events", **settings)
    until(lambda: len(list(folder.glob("*.json"))) == 2, 60, "the next run tells of what it found")
    site.simulator.complete(event_id)
    run = site.finish(process)
    assert run.status == 0, run.output
    first, second = reports(folder)
    assert not first["run"]["finished"] and "or it was killed" in sorted(folder.glob("*.html"))[0].read_text()
    assert second["run"]["finished"] and not second["run"]["failed"]
    (event,) = second["events"]
    assert event["event_id"] == event_id and event["outcome"] == "completed" and event["gone"]
    pages = sorted(folder.glob("*.html"))
    assert second["run"]["continues"]["report"] == pages[0].name and f'href="{pages[0].name}"' in pages[1].read_text()
    # It was approved before this run, which does not know when.
    assert first["run"]["continues"] is event["approved"] is None and all(entry["time"] >= second["run"]["started"] for entry in second["entries"])
    (web1,) = [host for host in second["hosts"] if host["name"] == "web1"]
    # The run that was killed took it out.
    assert web1["out"][0]["from"] < second["run"]["started"] and web1["out"][-1]["until"] and web1["states"][-1]["state"] == "restored"
    assert any(entry["kind"] == "act" and entry["text"].startswith("is brought back") for entry in second["entries"])
    found = metrics(prom)
    assert found['runs_total{group="web"}'] == 2 and found['run_in_progress{group="web"}'] == found['hosts_out{group="web"}'] == 0
    assert found['events_over_total{group="web",outcome="completed",type="Reboot"}'] == 1
    assert prom.stat().st_mode & 0o777 == 0o644 and list(prom.parent.iterdir()) == [prom]
    page = sorted(folder.glob("*.html"))[1]
    assert str(page) in run.output and event_id in page.read_text()

    # The same from the journal, whose last line is cut in half.
    with journal.open("a") as lines:
        lines.write('{"time": 1')
    written = site.run("report", report_journal=str(journal), report_folder=str(site.folder / "again"))
    assert written.status == 0 and "is cut off" in " ".join(written.output.split()), written.output
    again = reports(site.folder / "again")
    assert [report["events"] for report in again] == [first["events"], second["events"]]
    assert [entry["text"] for entry in again[1]["entries"]] == [entry["text"] for entry in second["entries"]]
    assert again[1]["run"]["continues"]["report"] == pages[0].name
    assert "changed=0" in site.run("report", report_journal=str(journal), report_folder=str(site.folder / "again")).output

    # What both say of the event, beside a file that is no report.
    (folder / "report-none.json").write_text('{"version": 1}')
    told = site.run("history", history_folder=str(folder), history_page=str(site.folder / "history.html"))
    assert told.status == 0 and "1 event in the reports of 2 runs" in told.output and "1 (1 completed)" in told.output, told.output
    assert "report-none.json is no report" in " ".join(told.output.split())
    assert "1 (1 completed)" in (site.folder / "history.html").read_text()


@pytest.mark.long
def test_a_run_in_which_not_all_goes_well(tmp_path):
    """docs/report.md shows pictures of this report."""
    waits = {"graceful_azure_drain_timeout": 12, "graceful_azure_restore_timeout": 15}
    with contextlib.closing(Site(tmp_path, ("web1", "web2", "web3", "web4"), waits)) as site:
        lasts = {"ImpactSeconds": 6, "SettleSeconds": 3}
        well = site.simulator.post_event(EventType="Reboot", Resources=["web1"], Description="Virtual machine is going to be restarted.", **lasts)
        # A client of web2 never ends, and the event comes at NotBefore.
        client = socket.create_connection(("127.0.0.1", site.listeners["web2"].port))
        busy = site.simulator.post_event(EventType="Freeze", Resources=["web2"], NoticeSeconds=45, **lasts)
        process = site.start("handle_events", handle_events_report=str(site.folder / "reports"), handle_events_timeout=patient(120))
        until(lambda: site.simulator.event(well)["Approvals"], 60, "web1 approved")
        broken = site.simulator.post_event(EventType="Redeploy", Resources=["web3"], **lasts)
        until(lambda: site.simulator.event(broken)["Approvals"], 60, "web3 approved")
        site.listeners["web3"].status = 503  # it does not survive the move
        site.simulator.wait_for(busy, "Started", 60)
        client.close()
        run = site.finish(process)
        assert run.status != 0, run.output
        (report,) = reports(site.folder / "reports")
        outcomes = {event["event_id"]: event["outcome"] for event in report["events"]}
        assert outcomes == {well: "completed", busy: "not_approved", broken: "completed"}
        hosts = {host["name"]: host["states"] for host in report["hosts"]}
        assert {name: states[-1]["state"] for name, states in hosts.items()} == {
            "web1": "restored",
            "web2": "restored",
            "web3": "needs_person",
            "web4": "in_service",
        }
        said = {name: " ".join(told["reason"] for state in states for told in state["reasons"]) for name, states in hosts.items()}
        assert "not drained in time (on_drain_timeout: hold)" in said["web2"] and "not restored within 15 s" in said["web3"], said


@pytest.mark.parametrize(
    ("playbook", "variables", "said"),
    [
        ("handle_events", {"handle_events_report": "/proc/version/reports"}, "handle_events_report: '/proc/version/reports' must be a folder"),
        ("report", {"report_folder": "x"}, "report_journal: the path of a journal is needed"),
        ("history", {"history_folder": "/dev/null"}, "history_folder: /dev/null is no folder"),
    ],
)
def test_what_cannot_be_written_or_read_is_said(site, playbook, variables, said):
    run = site.run(playbook, **variables)
    assert run.status != 0 and said in " ".join(run.output.split()), run.output


def test_check_mode_writes_nothing(site):
    site.simulator.post_event(EventType="Reboot", Resources=["web1"])
    run = site.run("handle_events", "--check", handle_events_report=str(site.folder / "reports"), handle_events_metrics=str(site.folder / "x.prom"))
    assert run.status == 0 and not (site.folder / "reports").exists() and not (site.folder / "x.prom").exists(), run.output
