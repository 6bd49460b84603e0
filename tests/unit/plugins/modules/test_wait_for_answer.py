# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.module_utils import _health_check

from tests.support.calls import told


def run(**args):
    return told("wait_for_answer", args)


@pytest.fixture
def service(monkeypatch):
    """What a URL and a port say, try by try (None: they answer; the last stays), and what was asked."""

    class Service:
        def __init__(self):
            self.url = [None]
            self.port = [None]
            self.asked = []

        def ask(self, which, *asked):
            self.asked.append(asked)
            answers = getattr(self, which)
            return answers.pop(0) if len(answers) > 1 else answers[0]

    service = Service()
    monkeypatch.setattr(_health_check, "ask_url", lambda *asked: service.ask("url", *asked))
    monkeypatch.setattr(_health_check, "ask_port", lambda *asked: service.ask("port", *asked))
    return service


def test_a_url_that_answers(service):
    result = run(url="http://localhost/health", validate_certs=False, request_timeout=1.5)
    assert result == {"changed": False, "answered": True, "reason": None}
    assert service.asked == [("http://localhost/health", 1.5, False)]


def test_a_port_that_answers(service):
    assert run(port=5432)["answered"] is True
    assert service.asked == [("localhost", 5432, 2.0)]


def test_both_must_answer(service):
    service.url = ["status 503"]
    assert run(port=80, url="http://localhost")["answered"] is False
    service.url, service.port = [None], ["refused"]
    assert run(port=80, url="http://localhost")["answered"] is False


def test_one_try_that_fails_is_no_failure(service):
    service.url = ["status 503", None]
    result = run(url="http://localhost")
    assert "failed" not in result
    assert (result["answered"], result["reason"]) == (False, "status 503")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({}, "one of the following is required: url, port"),
        ({"url": "localhost"}, "url must be like http://localhost:8080/health, not 'localhost'"),
        ({"port": 0}, "port: 0 is not a TCP port from 1 to 65535"),
        ({"port": 80, "request_timeout": 0}, "request_timeout is 0.0; it must be a number of seconds, 0.1 or more."),
    ],
)
def test_bad_input(service, args, message):
    result = run(**args)
    assert result["failed"] is True
    assert result["msg"] == message
    assert service.asked == []
