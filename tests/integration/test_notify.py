# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Notifications of real runs, to a real web server and a real mail server."""

from __future__ import annotations

import json
import os
import socket
import threading
import time

import pytest

from tests.support.checkout import BUILD
from tests.support.mail import MailServer
from tests.support.others import fetch
from tests.support.receiver import Receiver

pytestmark = pytest.mark.timeout(300)

PACKAGE = "ansible==12.3.0"
PREPARE = [{"name": "all", "action": "prepare"}]


@pytest.fixture(autouse=True)
def have_own_home(tmp_path, monkeypatch):
    """What was told is kept in Ansible's home."""
    monkeypatch.setenv("ANSIBLE_HOME", str(tmp_path / "home"))


@pytest.fixture(name="receiver")
def start_receiver():
    with Receiver() as receiver:
        yield receiver


def said(run):
    return " ".join(run.output.split())


def test_an_event_from_its_beginning_to_its_end(site, receiver):
    template = '{"text": {{ graceful_azure_notification.text | to_json }}, "team": "{{ team }}", "count": {{ graceful_azure_notification.changes | length }}}'
    with Receiver() as other, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        entries = [
            {"type": "webhook", "url": receiver.url},
            {"type": "webhook", "url": other.url, "headers": {"Authorization": "Bearer {{ secret }}"}, "states": ["restored"], "template": template},
            {"type": "webhook", "url": f"http://127.0.0.1:{nobody.getsockname()[1]}/token", "states": ["draining"]},
        ]
        site.write_inventory({"handle_events_notify": entries, "secret": "s3cret", "team": "web"})
        run = site.see_a_reboot_through()
        (restored,) = other.posted()
    assert [[change["state"] for change in document["changes"]] for document in receiver.documents()] == [["draining"], ["approved"], ["restored"]]
    begun = receiver.documents()[0]
    assert begun["source"] == "graceful.azure" and begun["changes"][0]["hosts"] == ["web1"] and begun["text"] == begun["title"] == begun["changes"][0]["text"]
    assert json.loads(restored["body"]) == {"text": receiver.documents()[2]["text"], "team": "web", "count": 1}
    assert restored["headers"]["Authorization"] == "Bearer s3cret" and "s3cret" not in run.output
    assert said(run).count("handle_events_notify[2] (webhook to 127.0.0.1): not sent: Connection refused") == 1 and "/token" not in run.output


def test_what_is_found_again_is_not_told_again(site, receiver):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}/"
        site.write_inventory({"handle_events_notify": [{"type": "webhook", "url": receiver.url}]}, web1={"restore_service_url": url})
        site.simulator.post_event(EventType="Reboot", Resources=["web1"])
        for _number in range(2):
            run = site.run(handle_events_wait=False)
            assert run.status == 2, run.output
    (document,) = receiver.documents()
    assert [change["state"] for change in document["changes"]] == ["needs_person"] and "Connection refused" in document["text"]
    # Check mode tells nobody.
    site.simulator.post_event(EventType="Reboot", Resources=["web2"])
    site.run("handle_events", "--check")
    assert len(receiver.documents()) == 1


def test_a_receiver_that_does_not_answer_holds_up_nothing(site, receiver):
    hangs = threading.Event()
    receiver.answers = [lambda _handler: hangs.wait(60) and None] * 4
    site.write_inventory({"handle_events_notify": [{"type": "webhook", "url": receiver.url}]})
    began = time.time()
    run = site.see_a_reboot_through()
    hangs.set()
    # It was asked first thing, and its first answer would have taken 2 times 10 s.
    assert receiver.posted()[0]["time"] - began < 20
    assert "some notifications may not have been sent, because they take longer than 10 s" in said(run)


@pytest.mark.parametrize(
    ("entry", "mistake"),
    [
        ({"type": "webhook", "url": "example.com"}, "handle_events_notify[0]: url: 'example.com' must begin with https://"),
        ({"type": "mail", "to": "ops"}, "mail needs the collection community.general on the controller"),
        ({"type": "webhook", "url": "https://x", "template": "{{ txt }}"}, "handle_events_notify: it cannot be resolved: "),
        ({"type": "webhook", "url": "https://x", "template": '"{{ graceful_azure_notification.text }}"'}, "template: it does not yield JSON"),
    ],
)
def test_a_mistake_is_told_before_anything_is_done(site, entry, mistake):
    site.simulator.post_event(EventType="Reboot", Resources=["web1"])
    site.write_inventory({"handle_events_notify": [entry]})
    run = site.run()
    assert run.status == 2 and mistake in said(run) and site.admin_states()["web1"] == "ready", run.output


# Of these, test_a_webhook and test_no_text_is_a_template in test_notify.py of the unit tests hold the same for the process that sends.
@pytest.mark.long
def test_mail_and_teams(site, receiver, monkeypatch):
    """By the real modules, each of which is a process of Ansible."""
    others = BUILD / "others"
    fetch(PACKAGE, "community.general", others)
    monkeypatch.setenv("ANSIBLE_COLLECTIONS_PATH", f"{BUILD / 'collections'}{os.pathsep}{others}")
    forged = "Odd {{ 7 * 7 }}"
    with MailServer() as mail:
        entries = [
            {"type": "mail", "to": ["ops@example.com"], "sender": "azure@example.com", "host": "127.0.0.1", "port": mail.port},
            {"type": "mail", "to": "boss@example.com", "host": "127.0.0.1", "port": mail.port, "template": "{{ graceful_azure_notification.text }}!"},
            {"type": "teams", "webhook": receiver.url},
            {"type": "slack", "token": "xoxb-none"},
        ]
        site.write_inventory({"handle_events_notify": entries, "graceful_azure_rules": PREPARE})
        event_id = site.simulator.post_event(EventType=forged, Resources=["web1"])
        run = site.run(handle_events_wait=False)
        assert run.status == 0 and site.admin_states()["web1"] == "drain", run.output
        end = time.monotonic() + 60
        while (len(mail.messages) < 2 or not receiver.posted()) and time.monotonic() < end:
            time.sleep(0.2)
    first, second = mail.messages
    text = f"{forged} {event_id}: web1 goes out of service"
    assert first["To"] == "ops@example.com" and first["From"] == "azure@example.com" and text in first["Subject"] and text in first.get_body().get_content()
    assert second["To"] == "boss@example.com" and second.get_body().get_content().strip().endswith("!")
    (card,) = receiver.documents()
    assert text in card["text"] and text in card["summary"]
