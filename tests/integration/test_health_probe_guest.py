# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The responder and a unit that answers the probe, on a booted guest with a systemd of its own."""

from __future__ import annotations

import pytest

from tests.support.guests import booted
from tests.support.patience import patient

pytestmark = pytest.mark.timeout(400)  # the first time the image is built

PORT, UNTOUCHED, ANSWERS = 8079, 8077, 8078
SSH = 22  # a port that somebody else has
# A unit that answers the probe.
ANSWER = f"[Service]\nExecStart=/usr/bin/python3 -I -m http.server {ANSWERS}\nDynamicUser=yes\n"


@pytest.fixture(name="guest", scope="module")
def make_guest(tmp_path_factory):
    with booted(tmp_path_factory.mktemp("bed")) as guest:
        guest.says("cat > /etc/systemd/system/answer.service && systemctl daemon-reload", ANSWER.encode())
        yield guest


def play(guest, *tasks):
    """Whether the tasks went well, and what was printed."""
    try:
        return True, guest.play({}, tasks=tasks)[1]
    except pytest.fail.Exception as failure:
        return False, str(failure)


def await_answers(guest, before="true"):
    """Until the unit that answers the probe listens. To systemd, it has started before that."""
    guest.says(f"{before}; timeout {patient(30)} bash -c 'until : < /dev/tcp/127.0.0.1/{ANSWERS}; do sleep 0.1; done' 2>&1")


def status(guest, *ports):
    """What is answered on the responder's port, or on these, with words between them."""
    opened = f"u.urlopen('http://127.0.0.1:{{}}/', timeout={patient(5)})"
    ask = f"try: print({opened}.status)\nexcept e.HTTPError as error: print(error.code)\nexcept OSError: print('none')"
    code = "\n".join(["import urllib.request as u, urllib.error as e", *map(ask.format, ports or (PORT,))])
    return " ".join(guest.says("python3 -I -", code.encode()).split())


def responder(state="present", port=PORT, **more):
    probe = {"type": "health_probe", "action": "responder", "responder_url": f"http://127.0.0.1:{ANSWERS}/"}
    return {
        "ansible.builtin.include_role": {"name": "graceful.azure.load_balancer", "tasks_from": "responder"},
        "vars": {"graceful_azure_duties": [{**probe, "responder_state": state, "responder_port": port, **more}]},
    }


def hold(state, **options):
    return {"graceful.azure.machine": {"call": "health_probe_hold", "args": {"state": state, "event_ids": ["A"], **options}}}


THROUGH_RESPONDER = {"action": "responder", "responder_port": PORT}


def test_the_responder_from_its_installation_to_its_end(guest):
    await_answers(guest, "systemctl start answer")
    went_well, said = play(guest, hold("present", **THROUGH_RESPONDER))
    assert not went_well and "The responder is not installed here" in said
    went_well, said = play(guest, responder(port=SSH))
    assert not went_well and f"The responder cannot listen on port {SSH}" in said and "in use" in said
    went_well, said = play(guest, responder())
    assert went_well, said
    went_well, said = play(guest, responder())
    assert went_well and "changed=0" in said, said
    assert status(guest) == "200"
    went_well, said = play(guest, hold("present", action="responder", responder_port=8075))
    assert not went_well and "The responder is not installed here for port 8075" in said
    # It runs as a user of its own.
    assert guest.says(f"ps -o user= -p $(systemctl show -P MainPID graceful-azure-responder-{PORT}.service)") != "root"
    went_well, said = play(guest, hold("present", **THROUGH_RESPONDER))
    assert went_well and status(guest) == "503", said
    went_well, said = play(guest, responder("absent"))
    assert not went_well and "holds this host out of its load balancer" in said
    # Also after it was started anew.
    guest.says(f"systemctl restart graceful-azure-responder-{PORT}.service")
    assert status(guest) == "503"
    assert play(guest, hold("absent"))[0] and status(guest) == "200"
    guest.says("systemctl stop answer")
    assert status(guest) == "503"
    await_answers(guest, "systemctl start answer")
    went_well, said = play(guest, responder("absent"))
    assert went_well and status(guest) == "none", said
    assert play(guest, responder("absent"))[0]


def untouched(port):
    return responder(responder_untouched_port=port)


# Its answers are in test_probe_responder.py, without systemd.
@pytest.mark.long
def test_the_untouched_answer_comes_moves_and_goes(guest):
    await_answers(guest, "systemctl start answer")
    went_well, said = play(guest, untouched(PORT))
    assert not went_well and f"responder_untouched_port: {PORT} is responder_port, too" in said
    went_well, said = play(guest, untouched(SSH))
    assert not went_well and f"cannot listen on port {SSH}" in said and "responder_untouched_port" in said
    assert guest.says("ls /etc/systemd/system | grep -c responder || true") == "0"
    # Beside a responder that is there already and answers the probe all the time.
    assert play(guest, responder())[0] and status(guest) == "200"
    went_well, said = play(guest, untouched(UNTOUCHED))
    assert went_well, said
    went_well, said = play(guest, untouched(UNTOUCHED))
    assert went_well and "changed=0" in said, said
    assert play(guest, hold("present", **THROUGH_RESPONDER))[0]
    assert status(guest, PORT, UNTOUCHED) == "503 200"
    # It is the application's own health.
    guest.says("systemctl stop answer")
    assert status(guest, UNTOUCHED) == "503"
    await_answers(guest, "systemctl start answer")
    # Another port, and the hold stands on.
    went_well, said = play(guest, untouched(8076))
    assert went_well and status(guest, PORT, UNTOUCHED, 8076) == "503 none 200", said
    assert play(guest, hold("absent"))[0]
    # Somebody has ended its socket.
    guest.says(f"systemctl stop graceful-azure-responder-{PORT}-untouched.socket; systemctl restart graceful-azure-responder-{PORT}.service")
    assert play(guest, untouched(8076))[0] and status(guest, 8076) == "200"
    went_well, said = play(guest, responder())
    assert went_well and status(guest, PORT, 8076) == "200 none", said
    assert play(guest, untouched(UNTOUCHED))[0] and play(guest, responder("absent"))[0]
    assert status(guest, PORT, UNTOUCHED) == "none none"
    assert guest.says("ls -A /etc/systemd/system /etc/systemd/system/sockets.target.wants 2>/dev/null | grep -c responder || true") == "0"
    assert "changed=0" in play(guest, responder("absent"))[1]


# It is in test_health_probe.py of the module_utils.
@pytest.mark.long
def test_a_unit_that_answers_the_probe(guest):
    await_answers(guest, "systemctl start answer")
    went_well, said = play(guest, hold("present", action="service", service="nothing"))
    assert not went_well and "systemd knows no unit 'nothing.service' (option service)" in said
    assert status(guest, ANSWERS) == "200"
    assert play(guest, hold("present", action="service", service="answer"))[0] and status(guest, ANSWERS) == "none"
    assert "changed=0" in play(guest, hold("present", action="service", service="answer"))[1]
    assert play(guest, hold("absent"))[0]
    await_answers(guest)
    assert status(guest, ANSWERS) == "200" and guest.says("ls -A /var/lib/graceful_azure") == ""
