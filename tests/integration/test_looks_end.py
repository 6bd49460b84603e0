# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Looks that last a minute end at once when there is something to do, and whenever nobody waits for them any more."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.support.far_host import FarHost
from tests.support.needs import FAR_HOST as NEEDS
from tests.support.patience import patient, until
from tests.support.playbook import Playbook
from tests.support.processes import descendants, helpers, is_running, marked_helpers
from tests.support.simulator import SHORT, Simulator

pytestmark = pytest.mark.timeout(300)


def looks_in_helpers(marks):
    """The forks of these helpers, which look and wait. The helpers themselves wait for another request."""
    return helpers(marks, forks=True)


def waiting_run(site):
    """A run all of whose hosts are being looked at, and whose next act is a minute away."""
    process = site.start("watch_events")
    names = site.names
    until(lambda: min(len(site.simulator.requests(name)) for name in names) >= 5, 60, "looks that last")
    return process


@pytest.mark.parametrize("way", ["pipelining", pytest.param("files", marks=pytest.mark.long)])
@pytest.mark.parametrize("end", ["interrupted", "killed"])
def test_no_look_outlives_its_run(site, monkeypatch, way, end):
    """The workers have a session of their own, so that neither signal reaches them. The looks are forks of the helpers of the hosts."""
    if way == "files":
        inventory = site.inventory.read_text()
        site.inventory.write_text(inventory.replace('"ansible_connection": "local"', '"ansible_connection": "local", "ansible_pipelining": false'))
    with marked_helpers() as marks:
        process = waiting_run(site)
    until(lambda: len(looks_in_helpers(marks)) == len(site.names), 10, "a look at each host at once")
    started = descendants(process.pid)
    assert len(started) >= 4
    if end == "interrupted":
        process.send_signal(signal.SIGINT)
    else:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=patient(30))
    killed = time.monotonic()
    until(lambda: not any(map(is_running, [*started, *looks_in_helpers(marks)])), 5, "the end of all that it started")
    # A look would go on for most of a minute.
    assert time.monotonic() - killed < min(patient(5), 30)
    asked = len(site.simulator.requests())
    time.sleep(2.5)
    assert len(site.simulator.requests()) == asked
    # Nothing of the modules is left on the host but what Ansible itself leaves if it is killed.
    if end == "interrupted" and way == "pipelining":
        assert list((site.folder / "tmp").glob("ansible-tmp-*")) == []


def test_an_event_of_one_host_is_acted_on_at_once(site):
    """Whose own look sees it; the other host's look would last for most of a minute."""
    process = waiting_run(site)
    event_id = site.simulator.post_event(EventType="Freeze", Resources=["web1"], **SHORT)
    began = time.monotonic()
    site.await_state("web1", "drain", 30)
    assert time.monotonic() - began < min(patient(20), 38)
    run = site.finish(process)
    assert run.status == 0 and run.event(event_id)["outcome"] == "completed", run.output


class TestOverSsh:
    pytestmark = NEEDS

    @pytest.fixture
    def host(self, tmp_path):
        folder = tmp_path / "host"
        folder.mkdir()
        running = FarHost(folder)
        yield running
        running.close_connections(tmp_path / "cp")
        running.close()

    @pytest.mark.parametrize("pipelining", [True, False])
    def test_a_look_that_another_ends_ends_on_its_host_too(self, tmp_path, host, pipelining):
        near = Simulator(["near"])
        news = tmp_path / "news"
        variables = {"ansible_connection": "local", "graceful_azure_imds_url": near.urls["near"], "graceful_azure_state_dir": str(tmp_path / "near")}
        far = dict(host.variables, graceful_azure_state_dir=str(tmp_path / "far"), ansible_pipelining=pipelining)
        playbook = Playbook(tmp_path, {"near": variables, "far": far})
        # What a service without events shows is known to both.
        turn = {"name": "here", "read_at": None, "options": {"wait": 60, "known": "{{ known }}"}}
        look = {
            "graceful.azure.turn": {
                "turn": turn,
                "news": str(news),
                "state_dir": "{{ graceful_azure_state_dir }}",
                "imds_url": "{{ graceful_azure_imds_url | default(omit) }}",
            },
            "vars": {"known": "{{ first.fingerprint }}"},
        }
        now = {"turn": {"name": "here", "options": {}}, "imds_url": "{{ graceful_azure_imds_url | default(omit) }}"}
        first = {"name": "first", "graceful.azure.turn": now}
        process = playbook.start([first, dict(look, name="looked")], environment={"ANSIBLE_SSH_CONTROL_PATH_DIR": str(tmp_path / "cp")})
        try:
            until(lambda: min(len(near.requests("near")), len(host_requests(host))) >= 4, 60, "looks that last")
            near.post_event(EventType="Reboot", Resources=["near"])
            began = time.monotonic()
            done = playbook.finish(process)
            assert time.monotonic() - began < min(patient(15), 45), done.output
            assert done["near"]["looked"]["events"] and done["far"]["looked"].get("ended") is True, (done["far"]["looked"], done.output)
            asked = len(host_requests(host))
            time.sleep(4)
            assert len(host_requests(host)) <= asked + 1
        finally:
            near.close()


def host_requests(host):
    """What the metadata service of the far host was asked."""
    return host.simulator.requests()
