# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each kind of action of the watcher, on booted guests behind a real HAProxy under load: nothing is lost."""

from __future__ import annotations

import json
import time

import pytest

from tests.support.guests import booted
from tests.support.watched import KINDS, Watched, measure


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
    watched = Watched(guests, "eda")
    try:
        guests.bed("load-start")
        # What other tests of these guests had logged is not this one's.
        before = {what: len(guests.lines(what)) for what in ("action_refused", "no_answer")}
        watched.end_rulebook()
        first = watched.announce("Freeze")
        time.sleep(60)
        watched.start_rulebook()
        watched.see_through(first)
        watched.ask_simulator("/faults", {"Fault": {"Drop": True}, "For": 60})
        began = time.monotonic()
        watched.see_through(watched.announce("Freeze"), 210)
        assert time.monotonic() - began > 60
        assert json.loads(guests.bed("load-stop"))["failures"] == []
        logged = {what: len(guests.lines(what)) - count for what, count in before.items()}
        assert logged["action_refused"] >= 3 and logged["no_answer"] >= 1, watched.said()
    finally:
        watched.close()
