# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Of which changes people are told, once each, and what is wrong with the settings for it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time

import pytest
import yaml
from ansible_collections.graceful.azure.plugins.action.plan import ActionModule
from ansible_collections.graceful.azure.plugins.plugin_utils._notify import send
from ansible_collections.graceful.azure.plugins.plugin_utils._notify.changes import DAY, changes, names, notification, still
from ansible_collections.graceful.azure.plugins.plugin_utils._notify.messages import message, mistakes_in
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.plan import plan
from ansible_collections.graceful.azure.plugins.plugin_utils._story import story

from tests.support.chats import MOST_BYTES, TeamsWorkflow
from tests.support.chats import mistakes_in as teams_refuses
from tests.support.model import Model
from tests.support.patience import patient
from tests.support.receiver import Receiver


class Told(Model):
    """The model, with what people would be told."""

    def __init__(self, told=None, **settings):
        super().__init__(**settings)
        self.story = story.begin(self.run, self.names)
        self.told = {} if told is None else told
        self.texts = []

    def decide(self):
        self.number += 1
        world = json.loads(json.dumps(self.world()))
        self.outcome = plan(json.loads(json.dumps(world)))
        self.memory = self.outcome["memory"]
        passed = ActionModule._line(world, self.outcome)
        story.add(self.story, passed, self.memory)
        story.end(self.story, self.outcome["finished"], self.outcome["failed_run"], self.outcome["messages"])
        for key, change in changes(self.story, passed, self.memory, self.told):
            self.told[key] = self.now
            self.texts.append(change["text"])
            assert change["time"] == self.now


def whole_life(site):
    site.go()
    site.announce("E1", "web1", "web2")
    site.until(lambda _outcome: site.posted)
    site.go()
    site.start("E1")
    site.go()
    site.over("E1")
    site.finish()


def test_an_event_is_told_of_three_times():
    site = Told(hosts=4)
    whole_life(site)
    begun, approved, over = site.texts
    assert begun.startswith("Reboot E1: web1") and "out of service; it may start at 20" in begun
    assert approved == "Reboot E1: approved for web1, web2"
    assert over == "Reboot E1: completed; web1, web2 back in service"


def test_a_second_run_does_not_say_it_again():
    first = Told(hosts=3)
    first.announce("E1", "web1")
    first.until(lambda _outcome: first.posted)
    first.go()
    assert len(first.texts) == 2
    first.killed()
    first.story = story.begin(first.run, first.names)
    for _pass in range(5):
        first.go()
    assert len(first.texts) == 2
    first.over("E1")
    first.finish()
    assert first.texts[2:] == ["Reboot E1: completed; web1 back in service"]


def test_an_event_that_is_left_alone_is_not_told_of():
    site = Told(hosts=2, rules=[{"name": "none", "when": None, "action": "ignore", "lead_time": None, "on_drain_timeout": "hold"}])
    site.announce("E1", "web1")
    site.go()
    site.over("E1")
    site.finish()
    assert site.texts == []


def test_that_a_person_is_needed_is_told_once_for_each_reason():
    site = Told(hosts=3)
    site.hosts["web2"]["fatal"] = "folder /x cannot be written (try 1)"
    for number in range(10):
        site.hosts["web2"]["fatal"] = f"folder /x cannot be written (try {number})"
        site.go()
    assert site.texts == ["web2 needs a person: folder /x cannot be written (try 0)"]
    site.hosts["web2"]["fatal"] = "the record is damaged"
    site.go()
    assert site.texts[1:] == ["web2 needs a person: the record is damaged"]
    # The end of the run adds nothing to that.
    site.finish()
    assert len(site.texts) == 2 and site.story["run"]["failed"]


def test_what_is_tried_again_is_told_from_what_waits_for_a_person():
    """It may pass by itself, as here."""
    site = Told(hosts=2)
    site.refuse["web1", "load_balancer"] = "the socket is busy"
    site.announce("E1", "web1")
    site.until(lambda outcome: outcome["hosts"]["web1"]["state"] == "needs_person", 60)
    assert site.texts[1:] == ["web1 may need a person (Reboot E1): the socket is busy; each pass tries again"]
    del site.refuse["web1", "load_balancer"]
    site.until(lambda _outcome: site.posted)


def test_a_run_that_fails_says_why():
    site = Told(hosts=2)
    for name in site.names:
        site.hosts[name]["silent"] = True
    site.finish()
    (text,) = site.texts
    assert text.startswith("The run failed: ") and "web1" in text


def test_what_still_needs_a_person_is_told_again_after_a_day():
    told = {"needs_person e1 web1 x": 0.0, "failed x": 0.0, "approved e1": 0.0}
    assert still(told, DAY - 1) == told
    assert list(still(told, DAY)) == ["approved e1"] and still(told, 31 * DAY) == {}


def test_many_hosts_are_counted():
    assert names(["web1"]) == "web1" and names(f"web{number}" for number in range(12)).endswith("web9 and 2 more")


CHANGE = {"state": "draining", "text": "Reboot E1: web1", "hosts": ["web1"]}
MAIL = {"type": "mail", "to": ["ops@example.com"]}


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"type": "mail"}, "must be a list of dictionaries"),
        (["mail"], "[0]: it is not a dictionary"),
        ([MAIL, {"type": "pager"}], "[1]: type: 'pager' is none of webhook, mail, slack, teams"),
        ([{"type": "webhook"}], "[0]: webhook needs url"),
        ([{"type": "webhook", "url": "example.com/hook"}], "url: 'example.com/' must begin with https://"),
        ([{"type": "webhook", "url": "https://example.com:port/"}], "must begin with https://"),
        ([{"type": "teams", "webhook": "ftp://example.com"}], "webhook: 'example.com' must begin"),
        ([dict(MAIL, adress="x")], "[0]: mail has no option adress; there are type, states, template, to, cc, "),
        ([dict(MAIL, states=["drained"])], "states: ['drained'] must be a list of some of draining, approved, restored, needs_person, failed"),
        ([dict(MAIL, states=[])], "states: [] must be"),
        ([dict(MAIL, states="failed")], "states: 'failed' must be"),
        ([{"type": "webhook", "url": "https://x", "template": '{"text": "a "b" c"}'}], "template: it does not yield JSON"),
        ([{"type": "webhook", "url": "https://x", "headers": ["A: b"]}], "headers: it must be a dictionary"),
        ([{"type": "webhook", "url": "https://x", "headers": {"A": "b\nC: d"}}], "headers: 'A' is no name of a header, or its value is more than one line"),
    ],
)
def test_mistakes(entries, said):
    (mistake,) = mistakes_in(entries, True)
    assert mistake.startswith("handle_events_notify") and said in mistake


def test_what_is_right_has_no_mistake():
    text = {"type": "webhook", "url": "https://x", "template": "plain", "headers": {"content-type": "text/plain"}}
    others = [{"type": "slack", "token": "x"}, {"type": "teams", "webhook": "https://x/y"}, {"type": "webhook", "url": "http://[::1]:80/"}]
    assert mistakes_in([MAIL, *others, text], True) == []


def test_without_the_collection_there_is_no_mail():
    (mistake,) = mistakes_in([{"type": "webhook", "url": "https://x"}, MAIL, {"type": "teams", "webhook": "https://x"}], False)
    assert mistake.startswith("handle_events_notify[1]: mail needs the collection community.general on the controller")


def test_what_is_sent():
    told = notification([CHANGE, dict(CHANGE, text="second\nline")])
    assert told["title"] == "Reboot E1: web1 (and 1 more)"
    hook = message({"type": "webhook", "url": "https://user:secret@example.com/token"}, told)
    assert json.loads(hook["body"]) == dict(told, source="graceful.azure") and hook["headers"] == {"Content-Type": "application/json"}
    assert hook["label"] == "webhook to example.com"
    assert message({"type": "webhook", "url": "https://x", "template": {"a": 1}}, told)["body"] == '{"a": 1}'
    plain = {"type": "webhook", "url": "https://x", "headers": {"Content-Type": "text/plain"}, "template": "x"}
    assert message(plain, told)["headers"] == {"Content-Type": "text/plain"} and message(plain, told)["body"] == "x"
    mail = message(dict(MAIL, host="smtp"), told)
    assert mail["module"] == "community.general.mail"
    assert mail["options"] == {"to": ["ops@example.com"], "host": "smtp", "subject": told["title"], "body": told["text"]}
    assert message({"type": "slack", "token": "x", "channel": "#ops"}, told)["options"] == {"token": "x", "channel": "#ops", "msg": told["text"]}


def test_slack_takes_no_text_for_a_command():
    told = notification([dict(CHANGE, text="<!channel> & all")])
    options = message({"type": "slack", "token": "x"}, told)["options"]
    assert options["msg"] == "&lt;!channel&gt; &amp; all"
    # A template of the user may have them.
    options = message({"type": "slack", "token": "x", "template": "<https://x|look>"}, told)["options"]
    assert options["msg"] == "<https://x|look>"


def card(*changes, **options):
    """The card of a message for Teams. The workflow takes it, or the test fails."""
    sent_as = message({"type": "teams", "webhook": "https://example.com/workflows/1?sig=s3cr3t", **options}, notification(list(changes)))
    assert sent_as["url"] == "https://example.com/workflows/1?sig=s3cr3t" and sent_as["label"] == "teams to example.com"
    assert sent_as["headers"] == {"Content-Type": "application/json"} and len(sent_as["body"]) < MOST_BYTES
    document = json.loads(sent_as["body"])
    assert teams_refuses(document) == ""
    (attachment,) = document["attachments"]
    return attachment["content"]


def test_a_card_has_each_line_as_it_is():
    failed = dict(CHANGE, state="failed", text="The run failed: [x](https://x)\n\n**a** <b>")
    runs = [paragraph["inlines"][0] for paragraph in card(CHANGE, failed)["body"]]
    assert [run["text"] for run in runs] == [CHANGE["text"], "The run failed: [x](https://x)", "**a** <b>"]
    assert [run.get("color") for run in runs] == [None, "attention", "attention"]


def test_a_card_may_be_formatted_by_a_template():
    assert card(CHANGE, template="**Azure**")["body"] == [{"type": "TextBlock", "wrap": True, "text": "**Azure**"}]


def test_a_card_is_not_longer_than_teams_takes():
    body = card(*[dict(CHANGE, text=f"{number} {'ö' * 200}") for number in range(500)])["body"]
    assert body[-1]["inlines"][0]["text"] == f"... and {500 - len(body) + 1} more" and body[0]["inlines"][0]["text"].startswith("0 ")
    for long in ("\U0001f600" * 100_000, "x" * 100_000):
        assert card(dict(CHANGE, text=long))["body"][0]["inlines"][0]["text"].endswith(" ...")
        assert card(CHANGE, template=long)["body"][0]["text"].endswith(" ...")


@pytest.mark.parametrize("text", ["{{ 7 * 7 }}", "größe \U0001f600", "a\nb: [c]\t'\"\\", "\x7f\x85\u2028", "\ud800"])
def test_no_text_is_a_template_or_more_than_a_text(text):
    class Loader(yaml.SafeLoader):
        pass

    Loader.add_constructor("!unsafe", lambda loader, node: ("unsafe", loader.construct_scalar(node)))
    read = yaml.load(f"x: {send._as_yaml([text, 1, None])}", Loader=Loader)
    assert read == {"x": [("unsafe", text.replace("\ud800", "?")), 1, None]}


def sent(tmp_path, *messages, seconds=60):
    """What the process says that sends these."""
    result = tmp_path / "failed.json"
    given = json.dumps({"messages": messages, "seconds": seconds, "result": str(result)})
    subprocess.run([sys.executable, send.__file__], input=given, text=True, check=True, timeout=patient(60))
    return json.loads(result.read_text())


def hook(url, label="hook"):
    return {"label": label, "url": url, "headers": {"X-Token": "s"}, "body": '{"text": "größe"}'}


def test_a_webhook(tmp_path):
    with Receiver() as receiver:
        assert sent(tmp_path, hook(receiver.url)) == []
        (request,) = receiver.posted()
    assert request["headers"]["X-Token"] == "s" and json.loads(request["body"]) == {"text": "größe"}


def test_teams_gets_each_message_once(tmp_path):
    """Its workflows answer 202, not 200."""
    with TeamsWorkflow() as teams:
        assert sent(tmp_path, message({"type": "teams", "webhook": teams.url}, notification([CHANGE]))) == []
        assert len(teams.seen) == len(teams.cards) == 1 and teams.failed == []


def test_a_webhook_that_refuses_is_asked_twice_and_does_not_stop_the_next(tmp_path):
    with Receiver() as receiver, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        receiver.answers = [(500, b""), (403, b""), (200, b"")]
        refused = hook(f"http://127.0.0.1:{nobody.getsockname()[1]}/", "nobody")
        assert sent(tmp_path, hook(receiver.url), refused, hook(receiver.url)) == [["hook", "HTTP 403"], ["nobody", "Connection refused"]]
        assert len(receiver.posted()) == 3


def test_one_that_never_ends_takes_no_longer_than_it_may(tmp_path):
    stop = threading.Event()

    def drip(handler):
        handler.wfile.flush()
        while not stop.wait(0.2):
            handler.connection.sendall(b"H")

    began = time.monotonic()
    with Receiver() as receiver:
        receiver.answers = [drip]
        said = sent(tmp_path, hook(receiver.url), hook(receiver.url, "second"), seconds=1)
        assert said == [["hook", "not sent within 1 s"], ["second", "not sent within 1 s"]]
        stop.set()
    assert time.monotonic() - began < 10
