# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The responder and a unit that answers the probe, on a booted guest with a systemd of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.support.checkout import must_pass
from tests.support.patience import patient
from tests.support.playbook import ansible_settings

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="real hosts are booted by root alone: sudo make test"),
    pytest.mark.timeout(400),  # the first time the image is built
]

PORT, UNTOUCHED, ANSWERS = 8079, 8077, 8078
SSH = 22  # a port that somebody else has
# A unit that answers the probe.
ANSWER = f"[Service]\nExecStart=/usr/bin/python3 -I -m http.server {ANSWERS}\nDynamicUser=yes\n"


class Guest:
    def __init__(self, folder):
        self.folder = folder

    def bed(self, *words):
        return must_pass(sys.executable, "tests/bed/bed.py", "--folder", str(self.folder), "--web", "1", "--balancers", "0", *words, timeout=300)

    def play(self, *tasks):
        """The tasks on the guest: whether they went well, and what was printed."""
        play = [{"hosts": "web1", "gather_facts": False, "tasks": list(tasks)}]
        path = self.folder / "play.yml"
        path.write_text(json.dumps(play))
        environment = dict(os.environ, **ansible_settings(self.folder))
        done = subprocess.run(
            ["ansible-playbook", "-i", str(self.folder / "inventory.yml"), str(path)],
            capture_output=True, text=True, env=environment, cwd=str(self.folder), timeout=patient(120), check=False,
        )  # fmt: skip
        return done.returncode == 0, done.stdout + done.stderr

    def shell(self, line):
        shown = {"ansible.builtin.debug": {"msg": "<<{{ said.stdout }}>>"}}
        went_well, said = self.play({"name": "sh", "ansible.builtin.shell": line, "register": "said"}, shown)
        assert went_well, said
        return said.partition("<<")[2].partition(">>")[0]

    def await_answers(self, before="true"):
        """Until the unit that answers the probe listens. To systemd, it has started before that."""
        self.shell(f"{before}; timeout {patient(30)} bash -c 'until : < /dev/tcp/127.0.0.1/{ANSWERS}; do sleep 0.1; done' 2>&1")

    def status(self, *ports):
        """What is answered on the responder's port, or on these, with words between them."""
        opened = f"u.urlopen('http://127.0.0.1:{{}}/', timeout={patient(5)})"
        ask = f"try: print({opened}.status)\nexcept e.HTTPError as error: print(error.code)\nexcept OSError: print('none')"
        code = "\n".join(["import urllib.request as u, urllib.error as e", *map(ask.format, ports or (PORT,))])
        return " ".join(self.shell(f"python3 -I - <<'END'\n{code}\nEND").split("\\n"))


@pytest.fixture(name="guest", scope="module")
def make_guest(tmp_path_factory):
    guest = Guest(tmp_path_factory.mktemp("bed"))
    try:
        guest.bed("up")
        guest.shell(f"cat > /etc/systemd/system/answer.service <<'END'\n{ANSWER}END\nsystemctl daemon-reload")
        yield guest
    finally:
        guest.bed("down")


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
    guest.await_answers("systemctl start answer")
    went_well, said = guest.play(hold("present", **THROUGH_RESPONDER))
    assert not went_well and "The responder is not installed here" in said
    went_well, said = guest.play(responder(port=SSH))
    assert not went_well and f"The responder cannot listen on port {SSH}" in said and "in use" in said
    went_well, said = guest.play(responder())
    assert went_well, said
    went_well, said = guest.play(responder())
    assert went_well and "changed=0" in said, said
    assert guest.status() == "200"
    went_well, said = guest.play(hold("present", action="responder", responder_port=8075))
    assert not went_well and "The responder is not installed here for port 8075" in said
    # It runs as a user of its own.
    assert guest.shell(f"ps -o user= -p $(systemctl show -P MainPID graceful-azure-responder-{PORT}.service)") != "root"
    went_well, said = guest.play(hold("present", **THROUGH_RESPONDER))
    assert went_well and guest.status() == "503", said
    went_well, said = guest.play(responder("absent"))
    assert not went_well and "holds this host out of its load balancer" in said
    # Also after it was started anew.
    guest.shell(f"systemctl restart graceful-azure-responder-{PORT}.service")
    assert guest.status() == "503"
    assert guest.play(hold("absent"))[0] and guest.status() == "200"
    guest.shell("systemctl stop answer")
    assert guest.status() == "503"
    guest.await_answers("systemctl start answer")
    went_well, said = guest.play(responder("absent"))
    assert went_well and guest.status() == "none", said
    assert guest.play(responder("absent"))[0]


def untouched(port):
    return responder(responder_untouched_port=port)


# Its answers are in test_probe_responder.py, without systemd.
@pytest.mark.long
def test_the_untouched_answer_comes_moves_and_goes(guest):
    guest.await_answers("systemctl start answer")
    went_well, said = guest.play(untouched(PORT))
    assert not went_well and f"responder_untouched_port: {PORT} is responder_port, too" in said
    went_well, said = guest.play(untouched(SSH))
    assert not went_well and f"cannot listen on port {SSH}" in said and "responder_untouched_port" in said
    assert guest.shell("ls /etc/systemd/system | grep -c responder || true") == "0"
    # Beside a responder that is there already and answers the probe all the time.
    assert guest.play(responder())[0] and guest.status() == "200"
    went_well, said = guest.play(untouched(UNTOUCHED))
    assert went_well, said
    went_well, said = guest.play(untouched(UNTOUCHED))
    assert went_well and "changed=0" in said, said
    assert guest.play(hold("present", **THROUGH_RESPONDER))[0]
    assert guest.status(PORT, UNTOUCHED) == "503 200"
    # It is the application's own health.
    guest.shell("systemctl stop answer")
    assert guest.status(UNTOUCHED) == "503"
    guest.await_answers("systemctl start answer")
    # Another port, and the hold stands on.
    went_well, said = guest.play(untouched(8076))
    assert went_well and guest.status(PORT, UNTOUCHED, 8076) == "503 none 200", said
    assert guest.play(hold("absent"))[0]
    # Somebody has ended its socket.
    guest.shell(f"systemctl stop graceful-azure-responder-{PORT}-untouched.socket; systemctl restart graceful-azure-responder-{PORT}.service")
    assert guest.play(untouched(8076))[0] and guest.status(8076) == "200"
    went_well, said = guest.play(responder())
    assert went_well and guest.status(PORT, 8076) == "200 none", said
    assert guest.play(untouched(UNTOUCHED))[0] and guest.play(responder("absent"))[0]
    assert guest.status(PORT, UNTOUCHED) == "none none"
    assert guest.shell("ls -A /etc/systemd/system /etc/systemd/system/sockets.target.wants 2>/dev/null | grep -c responder || true") == "0"
    assert "changed=0" in guest.play(responder("absent"))[1]


# It is in test_health_probe.py of the module_utils.
@pytest.mark.long
def test_a_unit_that_answers_the_probe(guest):
    guest.await_answers("systemctl start answer")
    went_well, said = guest.play(hold("present", action="service", service="nothing"))
    assert not went_well and "systemd knows no unit 'nothing.service' (option service)" in said
    assert guest.status(ANSWERS) == "200"
    assert guest.play(hold("present", action="service", service="answer"))[0] and guest.status(ANSWERS) == "none"
    assert "changed=0" in guest.play(hold("present", action="service", service="answer"))[1]
    assert guest.play(hold("absent"))[0]
    guest.await_answers()
    assert guest.status(ANSWERS) == "200" and guest.shell("ls -A /var/lib/graceful_azure") == ""
