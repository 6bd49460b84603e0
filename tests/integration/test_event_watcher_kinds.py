# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each kind of action of the watcher, on booted guests behind a real HAProxy under load: nothing is lost."""

from __future__ import annotations

import time

import pytest

from tests.support.guests import booted
from tests.support.pages import PACKAGES
from tests.support.patience import until
from tests.support.watched import KINDS, measure, measure_fast_path, watched_under_load


@pytest.fixture(scope="module", name="guests")
def make_guests(tmp_path_factory):
    with booted(tmp_path_factory.mktemp("bed"), web=2, balancers=1) as guests:
        yield guests


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", KINDS)
def test_a_reboot_and_a_freeze(guests, kind):
    """The reboot ends a playbook that runs on the VM in the middle; the watcher comes back with the VM and goes on."""
    out, load, _first_tasks = measure(guests, kind, ["Reboot", "Freeze"])
    print(f"{kind}: out of rotation {out[0]:.1f} and {out[1]:.1f} s after the event was visible; {load['requests_total']} requests")
    assert load["requests_total"] > 500
    assert load["failures"] == []
    assert guests.ssh("ls /var/lib/graceful_azure/*.json", name="lb1").returncode != 0


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_minute_without_a_receiver_and_one_without_the_metadata_service(guests):
    """The event is handled once both are back: the watcher goes on trying, and takes silence for no news."""
    with watched_under_load(guests, "eda") as watched:
        # What other tests of these guests had logged is not this one's.
        before = {what: len(guests.lines(what)) for what in ("action_refused", "no_answer")}
        watched.end_rulebook()
        first = watched.announce("Freeze")
        time.sleep(60)
        watched.start_rulebook()
        # The rulebook's first run looks at what was left before it, beside the event's own: both may approve.
        watched.see_through(first, runs=2)
        watched.rest()
        watched.ask_simulator("/faults", {"Fault": {"Drop": True}, "For": 60})
        began = time.monotonic()
        watched.see_through(watched.announce("Freeze"), 210)
        assert time.monotonic() - began > 60
        logged = {what: len(guests.lines(what)) - count for what, count in before.items()}
        assert logged["action_refused"] >= 3 and logged["no_answer"] >= 1, watched.said()
    assert watched.load["failures"] == []


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_watcher_killed_while_a_host_drains(guests):
    """systemd ends the playbook with it and starts it again; what it had begun comes to its end."""
    with watched_under_load(guests, "run") as watched:
        event_id = watched.announce("Freeze")
        until(lambda: watched.state() != "0", 30, watched.said)
        pid, restarts = guests.shows("MainPID"), int(guests.shows("NRestarts"))
        guests.says(f"kill -KILL {pid}")
        event = watched.event(event_id)
        assert event["EventStatus"] == "Scheduled" and event["Approvals"] == [] and watched.state() != "0", watched.said()
        watched.see_through(event_id)
        assert int(guests.shows("NRestarts")) == restarts + 1 and guests.shows("MainPID") != pid
        until(lambda: guests.ssh("graceful-azure-watcher --status").returncode == 0, 60, watched.said)
        held = {name: guests.ssh("ls /var/lib/graceful_azure/*.json", name=name).stdout.decode() for name in ("web1", "lb1")}
        assert all("No such file" in said for said in held.values()), held
    assert watched.load["requests_total"] > 500 and watched.load["failures"] == []


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_fast_path_of_a_spot_vm(tmp_path):
    """By docs/one-vm.md: it fails the health probe, the balancer takes the VM out, and 30 s later nobody misses it."""
    with booted(tmp_path, web=2, balancers=1, packages=PACKAGES) as guests:
        took, load = measure_fast_path(guests, 2)
    print(f"answer to command, command to DOWN: {took}; {load['requests_total']} requests")
    # Checked once a second, out when it fails twice, and a second to spare.
    assert max(down for _command, down in took) <= 2 + 1
    assert max(command for command, _down in took) <= 1
    assert load["requests_total"] > 5000 and load["failures"] == []
