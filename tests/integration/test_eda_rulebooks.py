# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rulebooks' variables, as ansible-rulebook makes arguments of sources of them, and what their rules hand on."""

from __future__ import annotations

import asyncio
import ssl
import urllib.error
import urllib.request

import pytest
import yaml
from ansible_rulebook.util import substitute_variables

from tests.support.checkout import ROOT
from tests.support.eda import names_in
from tests.support.patience import patient
from tests.support.ports import free_port
from tests.support.receiver import certificate

RULEBOOKS = ROOT / "extensions" / "eda" / "rulebooks"
WEBHOOK = names_in("event_source", "watcher_webhook")
ArgumentError, main, read_arguments = (WEBHOOK[name] for name in ("ArgumentError", "main", "read_arguments"))
SECRETS = ["a secret", 12345, "12345", "1e5", "None", 'it\'s <odd> & "quoted" \\ {{ é', "[1]"]


def ruleset(rulebook):
    (one,) = yaml.safe_load((RULEBOOKS / f"{rulebook}.yml").read_text())
    return one


def arguments(rulebook, source, **variables):
    """What this source is given."""
    (given,) = [one[source] for one in ruleset(rulebook)["sources"] if source in one]
    return substitute_variables(given, variables)


def webhook(**variables):
    """What the rulebook has listen, with these variables."""
    return read_arguments(arguments("webhook", "graceful.azure.watcher_webhook", **variables))


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("name", ["hmac_secret", "token"])
def test_a_secret_is_a_text(name, secret):
    # The other must not be there at all, or nobody could come in.
    assert webhook(**{f"webhook_{name}": secret}) == {name: str(secret), "port": 5000}


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, "Give one of token and hmac_secret"),
        ({"webhook_hmac_secret": ""}, "Give one of token and hmac_secret"),
        ({"webhook_hmac_secret": None, "webhook_token": None}, "Give one of token and hmac_secret"),
        ({"webhook_hmac_secret": "a secret", "webhook_token": "another"}, "and not both"),
        ({"webhook_hmac_secret": "a secret", "webhook_port": "http"}, "port is 'http'"),
        ({"webhook_hmac_secret": "a secret", "webhook_port": [5000]}, "a number from 1 to 65535"),
        ({"webhook_hmac_secret": "a secret", "webhook_port": 65536}, "a number from 1 to 65535"),
        ({"webhook_hmac_secret": "a secret", "webhook_port": True}, "port is True"),
        ({"webhook_hmac_secret": "a secret", "webhook_host": ["0.0.0.0"]}, "host must be text"),
        ({"webhook_hmac_secret": "a secret", "webhook_keyfile": "/key"}, "no certfile"),
    ],
)
def test_bad_input(variables, wanted):
    with pytest.raises(ArgumentError) as caught:
        webhook(**variables)
    assert wanted in str(caught.value) and "a secret" not in str(caught.value)


def test_an_argument_that_is_none_and_a_secret_that_is_no_text():
    with pytest.raises(ArgumentError, match=r"tokens: there is no such argument; .* token must be text\.") as caught:
        read_arguments({"tokens": "x", "token": 987})
    assert "987" not in str(caught.value)


def test_defaults_and_what_is_given():
    given = {"webhook_token": "x", "webhook_port": "5001", "webhook_host": "127.0.0.1", "webhook_certfile": "/cert", "webhook_keyfile": "/key"}
    assert webhook(**given) == {"token": "x", "port": 5001, "host": "127.0.0.1", "certfile": "/cert", "keyfile": "/key"}
    assert arguments("handle_events", "graceful.azure.scheduled_events") == {"imds_urls": ["http://169.254.169.254"]}
    assert arguments("handle_events", "graceful.azure.scheduled_events", imds_urls="http://x")["imds_urls"] == "http://x"


def test_https(tmp_path):
    """By token, with a certificate and its key in one file."""
    port, pem = free_port(), certificate(tmp_path, "localhost")

    def post(token):
        request = urllib.request.Request(f"https://localhost:{port}/x", b"{}", {"Content-Type": "application/json", "Authorization": f"Bearer {token}"})
        try:
            with urllib.request.urlopen(request, timeout=patient(5), context=ssl.create_default_context(cafile=pem)) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    async def play():
        queue = asyncio.Queue()
        task = asyncio.create_task(main(queue, {"token": "right", "port": port, "host": "127.0.0.1", "certfile": str(pem)}))
        while True:
            try:
                answers = [await asyncio.to_thread(post, token) for token in ("wrong", "right")]
                break
            except urllib.error.URLError:
                await asyncio.sleep(0.05)
        task.cancel()
        return answers, queue.qsize()

    assert asyncio.run(asyncio.wait_for(play(), patient(20))) == ([401, 200], 1)


@pytest.mark.parametrize("rulebook", ["handle_events", "webhook"])
def test_the_hosts_to_begin_with(rulebook):
    assert [arguments(rulebook, "eda.builtin.generic", **given)["payload"][0]["target"] for given in ({}, {"target": "web"})] == ["all", "web"]


@pytest.mark.parametrize("rulebook", ["handle_events", "webhook"])
@pytest.mark.parametrize(("target", "lane"), [("1e5", "1e5"), ("12:13", "12,13"), ("web-1,web-2", "web-1,web-2")])
def test_names_stay_names_whatever_they_look_like(rulebook, target, lane):
    (handle,) = ruleset(rulebook)["rules"]
    run, event = handle["action"]["run_playbook"], {"change": "reported", "target": target, "lane": lane}
    assert substitute_variables(run["extra_vars"], {"event": event}) == {"target": target, "handle_events_unknown_targets": "ignore"}
    assert substitute_variables(run["lock"], {"event": event}) == lane
