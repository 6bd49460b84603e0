# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook rehearse, against a real HAProxy under load. The simulator of the site stands for Azure's real service."""

from __future__ import annotations

import os
import re
import signal

import pytest

from tests.support.patience import until
from tests.support.processes import commands
from tests.support.receiver import Receiver
from tests.support.site import FrontClients
from tests.support.world import reserve_port

# A run of seconds takes minutes where the machine has much else to do.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(autouse=True)
def have_own_temporary(tmp_path, monkeypatch):
    """What the hosts keep for a rehearsal is the test's own."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def simulators(site):
    """The simulators that rehearsals of a site have started, each with its command line."""

    def is_one(words):
        return any(word.startswith(str(site.folder)) and word.endswith(".rehearse/simulator.zip") for word in words)

    return {pid: words for pid, words in commands().items() if is_one(words)}


# That one host is rehearsed after the other shows in test_what_a_killed_rehearsal_leaves_is_given_back_by_the_next_run, too.
@pytest.mark.parametrize("names", [("web1",), pytest.param(("web1", "web2"), marks=pytest.mark.long)], ids=len)
def test_a_rehearsal_loses_nothing_and_gives_everything_back(site, names):
    reads = len(site.simulator.requests())
    run = site.run("rehearse", "--check")
    assert run.status == 0, run.output
    for name in site.names:
        assert f"{name}: its metadata service answers (version 2020-07-01, this VM is {name}, document 1), no event stands" in run.output, run.output
        assert f"{name}: a Reboot would take it off haproxy on lb1 (now in, serving), drain it, approve the event at a simulator, and put it back" in run.output
        assert f"{name}: it goes out only if 1 of each backend would stay in service (graceful_azure_min_in_service)" in run.output
    assert site.admin_states() == dict.fromkeys(site.names, "ready")
    assert not (site.folder / "state").exists(), run.output

    with FrontClients(f"{site.folder}/proxy/front.sock") as clients, Receiver() as receiver:
        site.write_inventory({"handle_events_notify": [{"url": f"json://127.0.0.1:{receiver.port}/"}]})
        run = site.run("rehearse", target=",".join(names))
        assert run.status == 0, run.output
        # The event is made up.
        assert receiver.posted() == []
    assert clients.asked > 20 and clients.lost == []
    assert site.admin_states() == dict.fromkeys(site.names, "ready")
    assert site.records() == []
    assert run.output.count("back as it was found") == run.output.count("If you interrupt this rehearsal, have graceful.azure.handle_events") == len(names)
    for name in names:
        row = re.search(rf"^{name}  +(\S+)  +(\S+)  +(\S+)  +(\S+)  +(\d+)  ", run.output, re.MULTILINE)
        assert row, run.output
        seconds = [float(each) for each in row.groups()[:4]]
        assert seconds == sorted(seconds) and seconds[0] > 0 and int(row[5]) > 0
    assert re.search(r"^Everything is as it was found\.$", run.output, re.MULTILINE)
    # The real service was only read.
    assert {request["Method"] for request in site.simulator.requests()[reads:]} == {"GET"}
    assert site.simulator.events() == []
    until(lambda: simulators(site) == {}, 5, "the simulator ends")
    assert list(site.folder.glob("*.rehearse")) == []


def test_a_real_event_and_wrong_options_are_refused(site):
    event_id = site.simulator.post_event(EventType="Freeze", Resources=["web2"])
    run = site.run("rehearse")
    assert run.status == 2, run.output
    assert f"web2: its metadata service shows Freeze {event_id} (web2): rehearse when no event stands" in run.output, run.output
    assert site.admin_states() == dict.fromkeys(site.names, "ready")
    run = site.run("rehearse", rehearse_event_type="Rebot", rehearse_notice=5, graceful_azure_imds_url="http://127.0.0.1:1")
    assert run.status == 2, run.output
    assert "rehearse_event_type: 'Rebot'" in run.output, run.output
    assert "rehearse_notice: 5 is less than the shortest notice of Azure, 30 s" in run.output
    assert "graceful_azure_imds_url: given as an extra variable" in run.output
    assert site.simulator.event(event_id)["Approvals"] == []
    assert site.records() == []


def test_a_name_that_azure_contradicts_is_refused(site):
    """A run refuses it, too."""
    run = site.run("rehearse", graceful_azure_resource_name="web1")
    assert run.status == 2, run.output
    assert "web2: graceful_azure_resource_name is web1, and its metadata service calls this VM web2: set that, or leave it out" in run.output, run.output
    assert "web1: graceful_azure_resource_name" not in run.output and site.admin_states() == dict.fromkeys(site.names, "ready")


def test_a_host_that_would_not_go_back_is_refused(site):
    with reserve_port() as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/"
        site.write_inventory(web1={"graceful_azure_health_url": url})
        run = site.run("rehearse", "--check")
    assert run.status == 2 and f"web1: it does not answer what it is asked before it goes back on duty ({url}: Connection refused)" in run.output, run.output
    assert "web2: " not in run.output.partition("would stay out")[2]


def test_what_a_killed_rehearsal_leaves_is_given_back_by_the_next_run(site):
    process = site.start("rehearse")
    site.await_state("web1", "drain", 60)
    site.kill(process)
    left = simulators(site)
    try:
        assert site.admin_states() == {"web1": "drain", "web2": "ready"} and site.records() != []
        run = site.run("rehearse")
        assert run.status == 2 and re.search(r"web1: it is held for \S+: have graceful\.azure\.handle_events give it back", run.output), run.output
        run = site.run()
        assert run.status == 0, run.output
        assert re.search(r"^rehearsed Reboot \S+ \(web1\): over\n    web1: restored, back as it was found$", run.output, re.MULTILINE), run.output
        assert site.admin_states() == dict.fromkeys(site.names, "ready")
        assert site.records() == []
        # Nobody must end what it has left running.
        assert len(left) == 1
        words = next(iter(left.values()))
        assert float(words[words.index("--end-unasked") + 1]) <= 240 and float(words[words.index("--end-after") + 1]) < 1200
    finally:
        for pid in left:
            os.kill(pid, signal.SIGTERM)
        until(lambda: simulators(site) == {}, 5, "the simulator ends")
    until(lambda: list(site.folder.glob("*.rehearse")) == [], 5, "its folder is gone")
