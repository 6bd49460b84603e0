# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The power of a booted guest fails before each request that a run sends it, from the first look to the last.

What is under way there is lost, and so is its helper; its boot id is another one, and its enabled services run again. The records on its disk stay.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.support.checkout import ROOT
from tests.support.guests import booted
from tests.support.patience import patient, until
from tests.support.playbook import ansible_settings, run_facts

pytestmark = [pytest.mark.long, pytest.mark.timeout(3000)]

MOLECULE = ROOT / "extensions" / "molecule"
# More requests than a Reboot sends to the host that it names. The looks in which nothing comes are many and alike.
MOST = 16
SERVICES = "web.service worker.service spare.service"
# Ansible's ssh. Before the request of this number to web1, the power of web1 fails.
SSH = """#!/bin/sh
case "$*" in
*{address}*)
  echo >> {count}
  if [ "$(wc -l < {count})" -eq {number} ]; then {reset} >&2; fi ;;
esac
exec {ssh} "$@"
"""


def state_of(guests):
    """What must be the same afterwards."""

    def servers():
        shown = guests.bed("front-state")
        return None if "down" in shown.lower() or "up 1/" in shown.lower() else json.loads(shown)

    shown = until(servers, 40, "the balancer's checks", pause=1)
    return shown, guests.says(f"systemctl is-active {SERVICES}; find /var/lib/graceful_azure -name '*.json' 2>/dev/null; true")


def test_the_power_of_a_host_fails_before_each_request(tmp_path):
    with booted(tmp_path, web=2, front="haproxy") as guests:
        before = state_of(guests)
        tried = 0
        for number in range(1, MOST + 1):
            count = tmp_path / f"requests-{number}"
            reset = f"{sys.executable} {ROOT}/tests/bed/bed.py --folder {tmp_path} reset web1"
            ssh = tmp_path / "counting-ssh"
            ssh.write_text(SSH.format(address=guests.address("web1"), count=count, number=number, reset=reset, ssh=guests.folder / "ssh"))
            ssh.chmod(0o755)
            event = guests.event(ImpactSeconds=4, SettleSeconds=1)
            run = subprocess.run(
                [
                    "ansible-playbook",
                    *("-i", str(tmp_path / "inventory.yml"), "-i", str(MOLECULE / "shared" / "inventory"), "-i", str(MOLECULE / "overlapping" / "inventory")),
                    "graceful.azure.handle_events",
                    *("-e", json.dumps({"target": "web", "ansible_ssh_executable": str(ssh), "handle_events_timeout": patient(150)})),
                ],
                env=dict(os.environ, ANSIBLE_SHOW_CUSTOM_STATS="1", **ansible_settings(tmp_path)),
                cwd=str(ROOT),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=patient(300),
                check=False,
            )
            told = f"its power failed before request {number}:\n{run.stdout[-6000:]}"
            assert run.returncode == 0, told
            (entry,) = run_facts(run.stdout)["graceful_azure"]
            (seen,) = [one for one in json.loads(guests.bed("events")) if one["EventId"] == event]
            assert [approval["Vm"] for approval in seen["Approvals"]] == ["www_1"], told
            assert [step["Status"] for step in seen["History"]] == ["Scheduled", "Started", "Completed"], told
            assert (entry["event_id"].lower(), entry["outcome"]) == (event.lower(), "completed"), told
            assert state_of(guests) == before, told
            if not count.exists() or len(count.read_text()) < number:
                break
            tried = number
        assert tried >= 8, "a Reboot has more requests than that"
