# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbooks with hosts whose inventory says what they hand over: graceful_azure_duties."""

from __future__ import annotations

import json

import pytest

from tests.support.patience import patient
from tests.support.site import Site

FORMER = {"drain_host_ports": "graceful_azure_ports", "restore_service_url": "graceful_azure_health_url"}


@pytest.fixture(name="site")
def make_site(tmp_path):
    site = Site(tmp_path)
    try:
        content = json.loads(site.inventory.read_text())
        web = content["all"]["children"]["web"]
        web["vars"] = {"graceful_azure_duties": [{"type": "haproxy", "hosts": ["lb1"], "socket": site.haproxy.socket}]}
        for name, variables in web["hosts"].items():
            web["hosts"][name] = {FORMER.get(key, key): value for key, value in variables.items()}
        site.inventory.write_text(json.dumps(content))
        yield site
    finally:
        site.close()


def test_a_reboot_from_notice_to_the_end(site):
    run = site.see_a_reboot_through()
    assert "web1" in run.output and "takes the place of" not in run.output


def test_check_mode_and_what_is_held(site):
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], NoticeSeconds=None)
    run = site.run("handle_events", "--check")
    assert run.status == 0 and event_id in run.output and site.records() == [], run.output
    run = site.run("handle_events", handle_events_timeout=patient(20), graceful_azure_rules=[{"name": "wait", "action": "prepare"}])
    assert site.admin_states()["web1"] == "drain", run.output
    run = site.run("holds")
    assert run.status == 0 and event_id in run.output and "www/web1" in run.output, run.output


def test_a_mistake_is_told_before_anything_is_done(site):
    run = site.run(graceful_azure_duties=[{"type": "haproxy", "hosts": ["lb1"], "sokket": "/s"}])
    assert run.status == 2 and "web1, web2: graceful_azure_duties[0]: there is no option sokket; did you mean socket?" in run.output, run.output
