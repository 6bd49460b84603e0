# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Of which changes people are told, once each, and what is wrong with the settings for it."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleError
from ansible_collections.graceful.azure.plugins.plugin_utils._notify import notices, send
from ansible_collections.graceful.azure.plugins.plugin_utils._notify.changes import DAY, MOST_CHARACTERS, changes, message, names, still
from ansible_collections.graceful.azure.plugins.plugin_utils._notify.entries import OLD_FORMS, lacking, messages, mistakes_in, urls
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.plan import plan
from ansible_collections.graceful.azure.plugins.plugin_utils._run.passes import line_of
from ansible_collections.graceful.azure.plugins.plugin_utils._story import story

from tests.support.model import Model
from tests.support.patience import patient
from tests.support.receiver import Receiver, drip


class Told(Model):
    """The model, with what people would be told."""

    def __init__(self, told=None, **settings):
        super().__init__(**settings)
        self.story = story.begin(self.run, self.names)
        self.told = {} if told is None else told
        self.texts = []
        self.titles = []

    def decide(self):
        self.number += 1
        world = json.loads(json.dumps(self.world()))
        self.outcome = plan(json.loads(json.dumps(world)))
        self.memory = self.outcome["memory"]
        passed = line_of(world, self.outcome)
        story.add(self.story, passed, self.memory)
        story.end(self.story, self.outcome["finished"], self.outcome["failed_run"], self.outcome["messages"])
        for key, change in changes(self.story, passed, self.memory, self.told):
            self.told[key] = self.now
            self.texts.append(change["text"])
            self.titles.append(change["title"])


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
    assert site.titles[1:] == ["Approved: web1, web2", "Back in service: web1, web2"]


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


def test_who_comes_back_after_a_person_was_needed_is_told_of():
    site = Told(hosts=4)
    site.announce("E1", "web1", "web2")
    site.until(lambda _outcome: site.posted)
    site.refuse["web1", "restore_service"] = "it does not answer"
    site.over("E1")
    site.finish()
    del site.refuse["web1", "restore_service"]
    for _run in range(2):
        site.killed()
        site.story = story.begin(site.run, site.names)
        site.finish()
    assert site.texts[2] == "Reboot E1: completed, but web1 needs a person; web2 back in service"
    assert site.texts[4:] == ["Reboot E1: completed; web1, web2 back in service"]


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


def test_a_mistake_of_several_hosts_is_told_once():
    site = Told(hosts=2)
    for name in site.names:
        site.hosts[name]["fatal"] = "folder /x cannot be written"
    site.finish()
    assert site.texts == ["web1, web2 need a person: folder /x cannot be written"] and site.story["run"]["failed"]


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
    assert text.startswith("The run failed: ") and "web1" in text and site.titles == ["The run failed"]


def test_what_still_needs_a_person_is_told_again_after_a_day():
    told = {"needs_person e1 web1 x": 0.0, "failed x": 0.0, "approved e1": 0.0}
    assert still(told, DAY - 1) == told
    assert list(still(told, DAY)) == ["approved e1"] and still(told, 31 * DAY) == {}
    # It was told while the clock was a year ahead.
    assert still(dict.fromkeys(told, 365 * DAY), 0.0) == {}


def test_many_hosts_are_counted():
    assert names(["web1"]) == "web1" and names(f"web{number}" for number in range(12)).endswith("web9 and 2 more")


CHANGE = {"state": "draining", "title": "Out of service: web1", "text": "Reboot E1: web1 goes out of service"}
SLACK = "slack://xoxb-1-2-s3cr3t/#ops"


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"url": SLACK}, ": it must be a list of dictionaries, each with a url"),
        ([SLACK], "[0]: it is not a dictionary with a url"),
        ([{"url": SLACK}, {}], "[1]: url: it must be a text, one Apprise URL such as slack://TOKEN/#CHANNEL"),
        ([{"url": [SLACK]}], "[0]: url: it must be a text"),
        ([{"url": " "}], "[0]: url: it must be a text"),
        ([{"url": f"{SLACK}, mailto://s3cr3t@example.com"}], "[0] (slack): url: it has more than one URL; write one entry for each"),
        ([{"url": f"{SLACK}\n{SLACK}"}], "[0] (slack): url: it must be one line"),
        ([{"url": SLACK, "states": ["failed"]}], "[0] (slack): it has no option states; there are url and changes"),
        ([{"url": SLACK, "tags": "x"}], "[0] (slack): it has no option tags"),
        ([{"url": SLACK, SLACK: []}], "[0] (slack): it has no option of this name; there are url and changes"),
        (
            [{"url": SLACK, "changes": ["drained"]}],
            "[0] (slack): changes: ['drained'] must be a list of some of draining, approved, restored, needs_person, failed",
        ),
        ([{"url": SLACK, "changes": []}], "[0] (slack): changes: [] must be"),
        ([{"url": SLACK, "changes": [["failed"]]}], "[0] (slack): changes: [['failed']] must be"),
        ([{"url": SLACK, "changes": "failed"}], "[0] (slack): changes: 'failed' must be"),
    ],
)
def test_mistakes(entries, said):
    (mistake,) = mistakes_in(entries)
    assert mistake.startswith(f"handle_events_notify{said}") and "s3cr3t" not in mistake


# This goes away in 2.0.
@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ({"type": "webhook", "url": "https://s3cr3t.example.com/", "headers": {"A": "s3cr3t"}}, "jsons://HOST/PATH?+HEADER=VALUE"),
        ({"type": "mail", "to": "ops@example.com", "password": "s3cr3t", "states": ["failed"]}, "mailtos://USER:PASSWORD@HOST?from=SENDER&to=TO"),
        ({"type": "slack", "token": "s3cr3t", "channel": "#ops"}, "slack://TOKEN/#CHANNEL"),
        ({"type": "teams", "webhook": "https://x/s3cr3t", "template": "s3cr3t"}, "the https:// address of the workflow"),
    ],
)
def test_an_entry_in_the_old_form_is_told_its_url(entry, url):
    (mistake,) = mistakes_in([entry])
    assert f"there is no type any more. In place of {entry['type']}, set url to {url}. " in mistake and "s3cr3t" not in mistake
    assert OLD_FORMS[entry["type"]] == url and urls([entry]) == {}


def test_what_is_right_has_no_mistake():
    entries = [{"url": SLACK}, {"url": "json://[::1]:80/a,b?+A=b\n", "changes": ["failed"]}]
    assert mistakes_in(entries) == []
    assert urls(entries) == {"handle_events_notify[0] (slack)": SLACK, "handle_events_notify[1] (json)": "json://[::1]:80/a,b?+A=b"}


def test_without_apprise_nobody_is_told():
    (missing,) = lacking(None, "/usr/bin/python3")
    assert missing.startswith("handle_events_notify: the controller has no Python package apprise. ")
    assert missing.endswith("(/usr/bin/python3 -m pip install 'apprise>=2.0.1')")
    (old,) = lacking("1.13.1", "python3")
    assert "an old Python package apprise (1.13.1). Version 2.0.1 or later is needed" in old
    assert lacking("2.0.1", "python3") == lacking("2.10", "python3") == []


def test_each_entry_gets_what_it_wants():
    failed = {"state": "failed", "title": "The run failed", "text": "The run failed: x"}
    entries = [{"url": SLACK}, {"url": "json://a", "changes": ["failed"]}, {"url": "json://b", "changes": ["approved"]}, {"url": None}]
    first, second = messages(entries, [CHANGE, failed])
    assert first == {
        "label": "handle_events_notify[0] (slack)",
        "url": SLACK,
        "title": "Out of service: web1 (and 1 more change)",
        "text": f"{CHANGE['text']}\n\n{failed['text']}",
        "type": "failure",
    }
    assert second == {"label": "handle_events_notify[1] (json)", "url": "json://a", "title": "The run failed", "text": "The run failed: x", "type": "failure"}
    assert message([CHANGE])["type"] == "info"


def test_a_text_is_no_longer_than_services_take():
    text = message([dict(CHANGE, text=f"{number} {'x' * 200}") for number in range(500)])["text"]
    kept = text.split("\n\n")
    assert kept[-1] == f"... and {500 - len(kept) + 1} more" and kept[0].startswith("0 ") and len(text) < MOST_CHARACTERS * 1.1
    assert message([dict(CHANGE, text="x" * 100_000)])["text"].endswith("x ...")


CANNOT = "url: Apprise cannot read it, or needs another Python package for it"
READ = {
    SLACK: None,
    "https://hooks.slack.com/services/T0AAAAAAA/B0BBBBBBB/cCcCcCcCcCcCcCcCcCcCcCcC": None,
    "mailto://smtp.example.com:25?from=azure@example.com&to=ops@example.com": None,
    "pager://s3cr3t": CANNOT,
    "slack://s3cr3t": CANNOT,
    "xoxb-1-2-s3cr3t": CANNOT,
    "https://example.com/s3cr3t": f"{CANNOT}; a webhook that takes JSON is jsons:// in place of https://, and json:// in place of http://",
    "mailtos://azure:s3cr3t@smtp.example.com?to=ops": "url: Apprise does not understand one of its recipients",
    # What Apprise itself would take elsewhere: a file with its configuration.
    "file:///etc/s3cr3t.yml": CANNOT,
    "include s3cr3t.yml": CANNOT,
}


def test_apprise_reads_the_urls_before_anything_is_done():
    given = {str(number): url for number, url in enumerate(READ)}
    assert notices._not_read(given) == [f"{number}: {READ[url]}" for number, url in given.items() if READ[url]]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("'channel' is undefined", "'channel' is undefined"),
        (f"template error while templating string: no filter named 'wrong'. String: {SLACK}{{{{ 1 | wrong }}}}", "no filter named 'wrong'"),
        (f"Unexpected templating type error occurred on ({SLACK}{{{{ none + 1 }}}}): unsupported operand", "a template in it is wrong"),
        ("Decryption failed on s3cr3t", "Decryption failed"),
    ],
)
def test_what_ansible_says_of_a_template_is_told_without_its_text(said, why):
    class Templar:
        def copy_with_new_env(self, available_variables):
            return self

        def template(self, _value):
            raise AnsibleError(said)

    (mistake,) = notices.mistakes(Templar(), {"handle_events_notify": [{"url": f"{SLACK}{{{{ x }}}}"}]})
    assert mistake == f"handle_events_notify: it cannot be resolved: {why}"


def test_an_apprise_that_fails_is_told_without_what_it_says(monkeypatch, tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("import sys\nsys.exit(sys.stdin.read())\n")
    monkeypatch.setattr(notices, "SEND", str(broken))
    assert notices._not_read({"label": SLACK}) == ["handle_events_notify: Apprise could not be asked about the URLs (CalledProcessError)"]


class Variables:
    """A templar without templates, unless one cannot be resolved."""

    def __init__(self):
        self.why = ""

    def copy_with_new_env(self, available_variables):
        return self

    def template(self, value):
        if self.why:
            raise AnsibleError(self.why)
        return value


class TestWhatCannotBeSentNow:
    @pytest.fixture(autouse=True)
    def prepare(self, tmp_path, monkeypatch):
        self.trouble, self.started = [], []
        self.home, self.temporary, self.templar = tmp_path / "home", tmp_path / "temporary", Variables()
        self.temporary.mkdir()
        monkeypatch.setattr(notices.C, "ANSIBLE_HOME", str(self.home))
        monkeypatch.setattr(notices.tempfile, "tempdir", str(self.temporary))
        monkeypatch.setattr(notices.subprocess, "Popen", self.popen)
        self.notices = notices.begin()

    def popen(self, command, **_options):
        if self.trouble:
            raise self.trouble.pop()
        self.started.append(io.BytesIO())
        self.started[-1].close = lambda: None
        return SimpleNamespace(stdin=self.started[-1])

    def send(self, *changes, send=notices._send):
        self.notices["queue"].extend(changes)
        return send(self.notices, self.templar, {"handle_events_notify": [{"url": SLACK}]})

    def texts(self):
        return [message["text"] for stream in self.started for message in json.loads(stream.getvalue())["messages"]]

    def test_it_is_sent_with_the_next_change(self):
        self.trouble = [OSError(11, "Resource temporarily unavailable")]
        assert self.send(CHANGE) == ["handle_events_notify: Resource temporarily unavailable"]
        assert self.notices["queue"] == [CHANGE] and not self.home.exists() and list(self.temporary.iterdir()) == []
        assert self.send(dict(CHANGE, text="another")) == []
        assert self.texts() == [f"{CHANGE['text']}\n\nanother"] and self.notices["queue"] == []

    def test_variables_that_have_no_value_for_a_while(self):
        self.templar.why = "'x' is undefined"
        assert self.send(CHANGE) == ["handle_events_notify: it cannot be resolved: 'x' is undefined"]
        self.templar.why = ""
        assert self.send() == [] and self.texts() == [CHANGE["text"]]

    def test_the_end_of_a_run_does_not_wait_for_it(self):
        self.trouble = [OSError(28, "No space left on device", "/tmp/x")] * 100
        began = time.monotonic()
        assert self.send(CHANGE, send=notices.end) == ["handle_events_notify: No space left on device: /tmp/x"]
        assert time.monotonic() - began < notices.PATIENCE / 2
        # The next run tells it: nothing says that it was told.
        assert not self.home.exists()


def sent(tmp_path, *to_send, seconds=60):
    """What the process says that sends these."""
    result = tmp_path / "failed.json"
    given = json.dumps({"messages": to_send, "seconds": seconds, "result": str(result)})
    done = subprocess.run([sys.executable, send.__file__], input=given, text=True, check=True, timeout=patient(60), capture_output=True)
    assert done.stdout == ""
    return json.loads(result.read_text())


def hook(url, label="hook"):
    return {"label": label, "url": url.replace("http://", "json://"), "title": "Out of service: web1", "text": "größe <b> {{ 7 * 7 }}", "type": "failure"}


def test_a_webhook(tmp_path):
    with Receiver() as receiver:
        assert sent(tmp_path, hook(f"{receiver.url}hooks/1?+X-Token=s3cr3t&:text=web")) == []
        (request,) = receiver.posted()
    document = json.loads(request["body"])
    assert request["path"] == "/hooks/1" and request["headers"]["X-Token"] == "s3cr3t"
    assert (document["title"], document["message"], document["type"]) == ("Out of service: web1", "größe <b> {{ 7 * 7 }}", "failure")


def test_one_that_refuses_is_asked_twice_and_does_not_stop_the_next(tmp_path):
    with Receiver() as receiver, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        receiver.answers = [(500, b"s3cr3t"), (403, b"s3cr3t"), (200, b"")]
        refused = hook(f"http://127.0.0.1:{nobody.getsockname()[1]}/s3cr3t", "nobody")
        said = sent(tmp_path, hook(receiver.url), refused, hook(receiver.url))
        assert said == [["hook", "the service answered HTTP 403"], ["nobody", "Apprise could not send it"]]
        assert len(receiver.posted()) == 3


def test_one_that_answers_late_gets_it_once(tmp_path):
    with Receiver() as receiver:
        # Apprise itself would try again after 4 s.
        receiver.answers = [lambda _handler: time.sleep(5) or (202, b"")]
        assert sent(tmp_path, hook(receiver.url)) == []
        assert len(receiver.posted()) == 1


def test_one_that_never_ends_takes_no_longer_than_it_may(tmp_path):
    stop = threading.Event()
    began = time.monotonic()
    with Receiver() as receiver:
        receiver.answers = [drip(stop)]
        said = sent(tmp_path, hook(receiver.url), hook(receiver.url, "second"), seconds=1)
        why = "no end within 1 s, with those before it"
        assert said == [["hook", why], ["second", why]]
        stop.set()
    assert time.monotonic() - began < patient(10)


def test_one_that_never_ends_does_not_hold_up_the_next(monkeypatch):
    stop = threading.Event()
    monkeypatch.setattr(send, "SECONDS_OF_ONE", 0.5)
    with Receiver() as receiver:
        receiver.answers = [drip(stop)]
        assert send.send(hook(receiver.url)) == "no end within 0.5 s"
        monkeypatch.setattr(send, "SECONDS_OF_ONE", patient(20))
        assert send.send(hook(receiver.url)) is None
        stop.set()


def test_what_apprise_logs_stays_in_the_process(tmp_path):
    """It has parts of URLs in it."""
    code = (
        f"import logging, runpy; logging.basicConfig(filename={str(tmp_path / 'all.log')!r}, level=1); runpy.run_path({send.__file__!r}, run_name='__main__')"
    )
    asked = subprocess.run([sys.executable, "-c", code], input=json.dumps({"urls": {"x": "slack://s3cr3t"}}), text=True, capture_output=True, check=True)
    assert json.loads(asked.stdout) == {"x": CANNOT} and asked.stderr == "" and "s3cr3t" not in (tmp_path / "all.log").read_text()
