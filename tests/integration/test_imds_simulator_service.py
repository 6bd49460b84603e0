# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role imds_simulator on a booted guest, where it makes a service of systemd."""

from __future__ import annotations

import json

import pytest

from tests.support.guests import booted

ASK_CONTROL = b"""
import urllib.request
print(urllib.request.urlopen("http://127.0.0.1:8169/state", timeout=5).read().decode())
"""


@pytest.mark.long
@pytest.mark.timeout(500)  # the first time the image is built
def test_the_role_of_the_simulator_makes_a_service(tmp_path):
    """Beside the guest's own metadata service, at another port of the same address."""
    variables = {
        "imds_simulator_vms": {'100% $me "q"': "169.254.169.254:8171"},
        "imds_simulator_control": "127.0.0.1:8169",
        "imds_simulator_options": ["--time-scale", 0],
        "imds_simulator_on_start": "sh -c 'echo \"$0 %n\"' it",
    }
    with booted(tmp_path) as guest:

        def role(**more):
            changes, _said = guest.play({**variables, **more}, roles=["graceful.azure.imds_simulator"])
            return changes > 0

        def state():
            return guest.says("systemctl is-enabled imds_simulator; systemctl is-active imds_simulator; python3 -", ASK_CONTROL)

        assert role()
        enabled, active, told = state().split("\n", 2)
        assert (enabled, active) == ("enabled", "active")
        assert list(json.loads(told)["Vms"]) == ['100% $me "q"']
        assert not role()
        assert guest.says("systemctl kill --signal=KILL imds_simulator; sleep 0.5; systemctl is-active imds_simulator || true") == "failed"
        assert role(imds_simulator_scenario="redeploy")
        assert state().split("\n")[1] == "active"
        assert role(imds_simulator_state="absent")
        assert guest.ssh("systemctl cat imds_simulator").returncode != 0
        assert guest.says("ls /var/lib | grep -c imds_simulator || true") == "0"
        assert not role(imds_simulator_state="absent")
