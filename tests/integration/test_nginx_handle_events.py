# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbooks and the roles with hosts behind a real nginx."""

from __future__ import annotations

import contextlib
import re
import shutil
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.module import run_module
from tests.support.nginx import NEEDED, Nginx
from tests.support.patience import patient, until
from tests.support.ports import free_port
from tests.support.simulator import SHORT
from tests.support.site import Site

pytestmark = NEEDED


class NginxSite(Site):
    """The site with nginx in place of its HAProxy."""

    def __init__(self, folder, literal=False):
        super().__init__(folder)
        (folder / "nginx").mkdir()
        servers = "".join(f"  server 127.0.0.1:{listener.port}; # {name}\n" for name, listener in self.listeners.items())
        self.door = free_port()
        # A page that reaches one host without an upstream.
        self.literal = f"proxy_pass http://127.0.0.1:{self.listeners['web2'].port}"
        page = f"location /admin {{ {self.literal}; }}" if literal else ""
        http = f"upstream www {{\n{servers}}}\nserver {{ listen 127.0.0.1:{self.door}; location / {{ proxy_pass http://www; }} {page} }}"
        self.nginx = Nginx(folder / "nginx", http=http)
        self.found = self.nginx.configuration.read_bytes()
        duty = {"type": "nginx", "hosts": ["lb1"], "configuration": str(self.nginx.configuration)}
        # The lines of nginx tell the ports.
        known = {
            name: {"graceful_azure_ports": None, "graceful_azure_duties": [dict(duty, server=f"127.0.0.1:{web.port}")]} for name, web in self.listeners.items()
        }
        self.write_inventory(**known)

    def is_out(self, name):
        return f"server 127.0.0.1:{self.listeners[name].port} down; # {name}" in self.nginx.configuration.read_text()

    def close(self):
        super().close()
        self.nginx.stop()


SITE = NginxSite


def test_a_reboot_is_seen_through(site):
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], **SHORT)
    process = site.start("handle_events")
    until(lambda: site.is_out("web1"), 60, "web1 out")
    assert not site.is_out("web2")
    run = site.finish(process)
    assert run.status == 0, run.output
    assert run.event(event_id)["outcome"] == "completed"
    assert {name: said["state"] for name, said in run.event(event_id)["hosts"].items()} == {"web1": "restored"}
    assert site.simulator.approvers(event_id) == ["web1"]
    assert site.nginx.configuration.read_bytes() == site.found
    assert site.records() == []


def test_one_request_is_one_reason(site):
    """It is a connection of nginx, a client of a former worker, and a connection to the host's port."""
    site.simulator.post_event(EventType="Reboot", Resources=["web1"], **SHORT)
    # Longer than a look waits.
    seconds = patient(9)
    url = f"http://127.0.0.1:{site.door}/?{seconds}"
    over = threading.Event()

    def ask():
        while not over.is_set():
            urllib.request.urlopen(url, timeout=seconds * 4).close()

    # Whenever web1 goes out, some of their requests have only begun there.
    with ThreadPoolExecutor(8) as pool:
        clients = []
        for _each in range(8):
            clients.append(pool.submit(ask))
            time.sleep(seconds / 8)
        try:
            run = site.run()
        finally:
            over.set()
    for client in clients:
        client.result()
    assert run.status == 0, run.output
    place = f"127.0.0.1:{site.listeners['web1'].port} in upstream www on lb1"
    told = [line.split("  ")[4] for line in run.output.splitlines() if "  draining  " in line]
    busy = [reason for reason in told if "connection" in reason and "is in rotation" not in reason]
    assert busy and all(re.fullmatch(rf"\d connections? of nginx to {place}", reason) for reason in busy), told


# A killed module is in test_nginx_hold.py.
@pytest.mark.long
def test_a_run_that_was_killed_is_continued_and_the_playbook_holds_shows_and_releases(site):
    site.simulator.post_event(EventType="Reboot", Resources=["web1"], ImpactSeconds=600)
    process = site.start("handle_events")
    until(lambda: site.is_out("web1"), 60, "web1 out")
    site.kill(process)
    shown = site.run("holds")
    assert shown.status == 0, shown.output
    assert "nginx server www/127.0.0.1:%d (http)" % site.listeners["web1"].port in shown.output
    released = site.run("holds", holds_release=True)
    assert released.status == 0, released.output
    until(lambda: site.nginx.configuration.read_bytes() == site.found, 5, "the line as it was")
    assert not [path for path in site.records() if path.name.startswith("nginx_server")]


# The hold itself is in test_nginx_hold.py.
@pytest.mark.long
def test_a_line_whose_record_is_lost_is_given_back_by_the_next_run(site):
    """The disk with the records was replaced, and the configuration came from a copy."""
    name = f"127.0.0.1:{site.listeners['web1'].port}"
    held = {"server": name, "configuration": str(site.nginx.configuration), "state_dir": str(site.folder / "state" / "lost")}
    details = {"A": {"event_type": "Reboot", "resources": ["web1"]}}
    run_module("nginx_hold", dict(held, event_ids=["A"], event_details=details))
    shutil.rmtree(site.folder / "state" / "lost")
    assert site.is_out("web1")
    run = site.run()
    assert run.status == 0, run.output
    assert site.nginx.configuration.read_bytes() == site.found and site.records() == []


def test_a_mistake_in_the_configuration_is_told_and_nothing_is_changed(site):
    time.sleep(0.05)
    text = site.nginx.configuration.read_text().replace("upstream www {", "upstream www { least_con;")
    site.nginx.configuration.write_text(text)
    event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], ImpactSeconds=600)
    run = site.run(handle_events_timeout=patient(8))
    assert run.status != 0
    assert "unknown directive" in run.output
    assert "least_con" in run.output
    assert site.nginx.configuration.read_text() == text
    assert site.simulator.event(event_id)["Approvals"] == []


def test_an_address_without_an_upstream_is_told_before_the_event(tmp_path):
    with contextlib.closing(NginxSite(tmp_path, literal=True)) as site:
        event_id = site.simulator.post_event(EventType="Reboot", Resources=["web2"], ImpactSeconds=600)
        checked = site.run("handle_events", "--check")
        assert checked.status != 0
        assert f"web2: {site.literal} in {site.nginx.configuration}, line " in checked.output
        assert f"web1: clients are counted on port {site.listeners['web1'].port}, because lb1 sends requests there" in checked.output
        run = site.run(handle_events_timeout=patient(8))
        assert site.is_out("web2"), "it goes out of what it can go out of"
        assert f"{site.literal} in {site.nginx.configuration}, line " in run.output
        assert site.simulator.event(event_id)["Approvals"] == []
