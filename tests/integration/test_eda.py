# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rulebooks under the real ansible-rulebook, from an event to the end of it."""

from __future__ import annotations

import functools
import hashlib
import hmac
import itertools
import json
import shutil
import threading
import time
import urllib.error
import urllib.request

import pytest

from tests.support.checkout import BUILD
from tests.support.patience import patient, until
from tests.support.playbook import ansible_settings
from tests.support.ports import free_port
from tests.support.programs import Rulebook
from tests.support.service import Service
from tests.support.simulator import SHORT
from tests.support.site import Site

pytestmark = pytest.mark.skipif(not shutil.which("java"), reason="ansible-rulebook needs Java: apt-get install default-jre-headless")

# A number, for all that YAML and Jinja know.
SECRET = "12345"


# Three for events, and one that stays in service.
SITE = functools.partial(Site, names=("web1", "web2", "web3", "web4"))


@pytest.fixture(name="start")
def starter(site):
    started = []

    def start(name, environment=None, **variables):
        # The balancer has no metadata service.
        variables["target"] = "web"
        started.append(Rulebook(site.folder, site.inventory, name, environment=dict(ansible_settings(site.folder), **environment or {}), **variables))
        return started[-1]

    yield start
    for rulebook in started:
        rulebook.close()


@pytest.mark.timeout(240)
@pytest.mark.long
def test_what_was_left(site, start):
    """A run is killed, its event ends, and so does ansible-rulebook; the next one puts the host back, though no event stands and its service takes longer
    to come up than a pass. What is new is not held up by that."""
    up = threading.Event()
    up.set()

    def answer(handler):
        handler.send_response(200 if up.is_set() else 503)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    with Service(answer) as service:
        site.write_inventory(web1={"graceful_azure_health_url": f"{service.url}/"})
        event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], ImpactSeconds=None)
        run = site.start("handle_events")
        site.simulator.wait_for(event_id, "Started", 60)
        site.kill(run)
        # It answered before the event, or the run would not have taken the host out.
        assert service.seen
        up.clear()
        service.seen.clear()
        site.simulator.complete(event_id)
        assert site.admin_states()["web1"] == "drain"
        start("handle_events", imds_urls=list(site.simulator.urls.values()))
        until(lambda: service.seen, 90, "the service asked")
        later = site.simulator.post_event(EventType="Freeze", Resources=["web2"], ImpactSeconds=5, SettleSeconds=1)
        site.simulator.wait_for(later, "Completed", 60)
        assert site.admin_states()["web1"] == "drain"
        up.set()
        site.await_state("web1", "ready", 30)
        until(lambda: site.records() == [], 60, "nothing held any more")
    assert site.admin_states() == dict.fromkeys(site.names, "ready")


@pytest.mark.long
@pytest.mark.timeout(240)
def test_what_the_metadata_service_shows(site, start):
    """Two hosts side by side, and a second event for one of them while it is out, which names a third that no run had before."""
    rulebook = start("handle_events", imds_urls=list(site.simulator.urls.values()))
    first = site.simulator.post_event(EventType="Reboot", Resources=["web1"], ImpactSeconds=None)
    site.await_state("web1", "drain", 90)
    until(lambda: site.simulator.event(first)["Approvals"], 60, "the first approved")
    # The first goes on until it is told to end: nobody waits for it.
    named = (["web2"], ["web1", "web3"])
    later = [site.simulator.post_event(EventType="Freeze", Resources=names, ImpactSeconds=2, SettleSeconds=1) for names in named]
    site.simulator.wait_for(later[0], "Completed", 60)
    site.await_state("web2", "ready", 60)
    assert site.admin_states()["web1"] == "drain"
    site.simulator.wait_for(later[1], "Completed", 60)
    site.await_state("web3", "ready", 60)
    assert site.admin_states()["web1"] == "drain"
    site.simulator.complete(first)
    site.await_state("web1", "ready", 60)
    for event_id, names in zip([first, *later], [["web1"], *named]):
        approvers = site.simulator.approvers(event_id)
        assert approvers and set(approvers) <= set(names)
    assert "Traceback" not in rulebook.text(), rulebook.text()


def reporter(start, by="hmac_secret", **more):
    """Reports as watchers send them, to a rulebook that has just begun."""
    port = free_port()
    rulebook = start("webhook", webhook_port=port, webhook_host="127.0.0.1", **{f"webhook_{by}": SECRET}, **more)

    def report(target, *event_ids, secret=SECRET, gone=(), **more):
        events = [{"event_id": event_id, "event_status": "Scheduled", "resources": target.split(","), "not_before": None} for event_id in [*event_ids, *gone]]
        told = {"source": "graceful.azure.event_watcher", "target": target, "events": events[: len(event_ids)], "gone": events[len(event_ids) :]}
        body = json.dumps({**told, **more}).encode()
        signature = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        shown = {"X-Hub-Signature-256": signature} if by == "hmac_secret" else {"Authorization": f"Bearer {secret}"}
        request = urllib.request.Request(f"http://127.0.0.1:{port}/endpoint", body, {"Content-Type": "application/json", **shown})
        try:
            with urllib.request.urlopen(request, timeout=patient(5)) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None

    report.rulebook = rulebook
    until(lambda: report("web1", "E1", secret="another") is not None, 90, "the webhook")
    return report


@pytest.mark.long
@pytest.mark.timeout(240)
def test_what_a_watcher_reports(site, start):
    """Reports signed or not, once by each VM of the event, and again for as long as it stands; and one of another host beside that."""
    # With room for three runs.
    report = reporter(start, environment={"EDA_MAX_CONCURRENT_ACTIONS": "3"})
    assert report("web1", "E1", secret="another") in (401, 403)
    # The run for what was left, which need not be waited for, but takes time of its own.
    until(lambda: "PLAY RECAP" in report.rulebook.text(), 90, "the first run")
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1", "web2"], ImpactSeconds=None)
    assert report("web1,web2", event_id, source="somebody else") == 200
    assert report("{{ lookup('pipe', 'touch " + str(site.folder / "found") + "') }}", "E2") == 200
    assert [report("web1,web2", event_id, host=name, why="repeat") for name in ("web1", "web2") * 5] == [200] * 10
    until(lambda: site.simulator.event(event_id)["Approvals"], 90, "the event approved")
    # Nobody waits for the first.
    other = site.simulator.post_event(EventType="Freeze", Resources=["web3"], **SHORT)
    assert report("web3", other) == 200
    site.simulator.wait_for(other, "Completed", 60)
    site.await_state("web3", "ready", 60)
    assert site.admin_states()["web1"] == site.admin_states()["web2"] == "drain"
    site.simulator.complete(event_id)
    until(lambda: site.records() == [], 60, "nothing held any more")
    assert site.admin_states() == dict.fromkeys(site.names, "ready")
    time.sleep(1)
    # One of them when it started.
    assert report.rulebook.runs() == 3, report.rulebook.text()
    assert not (site.folder / "found").exists()


@pytest.mark.timeout(120)
def test_mistakes_end_it_before_anything_runs(start):
    """An argument of a wrong type, and a webhook that anybody could use."""
    rulebooks = [start("handle_events", imds_urls="http://x"), start("webhook", webhook_port=free_port(), webhook_host="127.0.0.1")]
    for rulebook, wanted in zip(rulebooks, ("imds_urls is 'http://x'; it must be a list of URLs", "Give one of token and hmac_secret")):
        assert rulebook.process.wait(patient(100)) != 0
        assert wanted in rulebook.text() and rulebook.runs() == 0


def instead(site, task):
    """The rulebook webhook with a playbook of one task, tried again sooner."""
    # ansible-rulebook copies its whole folder.
    playbook = site.folder / "playbook" / "instead.json"
    playbook.parent.mkdir()
    playbook.write_text(json.dumps([{"hosts": "web1", "gather_facts": False, "tasks": [{"ansible.builtin.shell": task}]}]))
    rulebook = site.folder / "instead.yml"
    text = (BUILD / "collections/ansible_collections/graceful/azure/extensions/eda/rulebooks/webhook.yml").read_text()
    rulebook.write_text(text.replace("name: graceful.azure.handle_events", f"name: {playbook}").replace("delay: 10", "delay: 1"))
    return rulebook


@pytest.mark.timeout(120)
def test_by_token_and_a_run_that_fails_is_tried_again(site, start):
    log = site.folder / "log"
    log.touch()
    task = f"echo {{{{ target }}}} >> {log}; [ $(grep -c '^{{{{ target }}}}$' {log}) -gt 1 ]"
    report = reporter(start, by="token", rulebook=instead(site, task))
    assert report("web1", "E1", secret="another") == 401
    assert report("web1", "E1") == 200
    until(lambda: len(log.read_text().split()) == 4, 60, "four runs")
    time.sleep(2)
    # The one at the start, too.
    assert sorted(log.read_text().split()) == ["web", "web", "web1", "web1"]


def runs_of(log):
    """[hosts, begin, end] of each run of the playbook below."""
    runs = []
    for line in log.read_text().splitlines():
        word, target, when = line.split()
        if word == "begin":
            runs.append([set(target.split(",")), int(when), None])
        else:
            next(run for run in runs if run[0] == set(target.split(",")) and run[2] is None)[2] = int(when)
    return runs


@pytest.mark.long
@pytest.mark.timeout(240)
def test_lanes(site, start):
    """A playbook that only takes its time: never two runs for the same hosts, and no host waits for a run that does not have it."""
    log = site.folder / "log"
    tell = "echo %s {{ target }} $(date +%%s%%N) >> " + str(log)
    task = "; ".join([tell % "begin", "sleep {{ 20 if target == 'web1' else 1 }}", tell % "end"])
    report = reporter(start, rulebook=instead(site, task))
    targets = ("web1", "web2", "web1,web2", "web2", "web1", "web2,web1", "web3")
    for event_id, target in enumerate(targets):
        assert report(target, str(event_id)) == 200
    until(lambda: log.exists() and log.read_text().count("end") == 1 + len(targets), 180, "every run")
    runs = [run for run in runs_of(log) if run[0] != {"web"}]
    together = [(one[0], other[0]) for one, other in itertools.combinations(runs, 2) if one[1] < other[2] and other[1] < one[2]]
    assert not [one for one, other in together if one == other]
    first = next(run for run in runs if run[0] == {"web1"})
    # An event that names one more than that of a run under way, and one for a host that shared an event with its host.
    assert {frozenset(hosts) for hosts, begin, _end in runs if begin < first[2]} == {
        frozenset(names) for names in (["web1"], ["web2"], ["web1", "web2"], ["web3"])
    }
    assert [hosts for hosts, begin, _end in runs if begin >= first[2]] == [{"web1"}]
