# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rulebooks under the real ansible-rulebook, from an event to the end of it."""

from __future__ import annotations

import hashlib
import hmac
import json
import shutil
import time
import urllib.error
import urllib.request

import pytest

from tests.support.haproxy import free_port
from tests.support.playbook import ansible_settings
from tests.support.programs import Rulebook
from tests.support.site import Site, wait_until

pytestmark = pytest.mark.skipif(not shutil.which("java"), reason="ansible-rulebook needs Java: apt-get install default-jre-headless")

SECRET = "no other"


@pytest.fixture(name="site")
def three_hosts(tmp_path):
    """Three, since one stays in service."""
    site = Site(tmp_path, names=("web1", "web2", "web3"))
    yield site
    site.close()


@pytest.fixture(name="start")
def starter(site):
    started = []

    def start(name, **variables):
        started.append(Rulebook(site.folder, site.inventory, name, environment=ansible_settings(site.folder), **variables))
        return started[-1]

    yield start
    for rulebook in started:
        rulebook.close()


def is_over(site, event_id):
    return site.simulator.event(event_id)["History"][-1]["Status"] == "Completed"


@pytest.mark.long
@pytest.mark.timeout(240)
def test_what_the_metadata_service_shows(site, start):
    """Two hosts side by side, and a second event for one of them while it is out."""
    rulebook = start("handle_events", imds_urls=list(site.simulator.urls.values()))
    first = site.simulator.post_event(EventType="Reboot", Resources=["web1"], ImpactSeconds=None)
    site.await_state("web1", "drain", 90)
    wait_until(lambda: site.simulator.event(first)["Approvals"], 60, "the first approved")
    # The first goes on until it is told to end: nobody waits for it.
    later = [site.simulator.post_event(EventType="Freeze", Resources=[name], ImpactSeconds=2, SettleSeconds=1) for name in ("web2", "web1")]
    wait_until(lambda: is_over(site, later[0]), 60, "the second over")
    site.await_state("web2", "ready", 60)
    assert site.admin_states()["web1"] == "drain"
    wait_until(lambda: is_over(site, later[1]), 60, "the third over")
    assert site.admin_states()["web1"] == "drain"
    site.simulator.ask("POST", f"/events/{first}/complete")
    site.await_state("web1", "ready", 60)
    for event_id, name in zip([first, *later], ["web1", "web2", "web1"]):
        assert {approval["Vm"] for approval in site.simulator.event(event_id)["Approvals"]} == {name}
    assert "Traceback" not in rulebook.text(), rulebook.text()


@pytest.mark.timeout(240)
def test_what_a_watcher_reports(site, start):
    """Reports as watchers send them: signed or not, once by each VM of the event, and again."""
    port = free_port()
    rulebook = start("webhook", webhook_hmac_secret=SECRET, webhook_port=port, webhook_host="127.0.0.1")

    def report(target, secret=SECRET, **more):
        body = json.dumps(dict({"source": "graceful.azure.event_watcher", "target": target, "events": [], "gone": []}, **more)).encode()
        signature = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        headers = {"Content-Type": "application/json", "X-Hub-Signature-256": signature}
        try:
            with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/", body, headers), timeout=5) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None

    wait_until(lambda: report("web1", secret="another") is not None, 90, "the webhook")
    assert report("web1", secret="another") in (401, 403)
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1", "web2"], ImpactSeconds=1, SettleSeconds=1)
    assert [report("web1:web2", host=name) for name in ("web1", "web2", "web1")] == [200] * 3
    assert report("web1", source="somebody else") == 200
    wait_until(lambda: is_over(site, event_id), 90, "the event over")
    site.await_state("web1", "ready", 60)
    site.await_state("web2", "ready", 60)
    wait_until(lambda: site.records() == [], 60, "nothing held any more")
    time.sleep(1)
    assert rulebook.runs() == 1, rulebook.text()
