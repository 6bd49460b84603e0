# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sends notifications by Apprise, as a process of its own that no run waits for. All that knows Apprise is here.

The standard input has JSON, either of two. C(urls) by label: nothing is sent, and the standard output has a sentence by the label of each URL that Apprise
does not take. Or C(messages) as C(entries.py) makes them, C(seconds) that all of them may take, and C(result), the file to which a sentence is written for each
message that could not be sent.

URLs hold secrets. So they are neither on a command line nor in what comes out of here, and what Apprise logs stays here: it has parts of them in it.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import re
import signal
import sys
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

APPRISE: Any
try:
    APPRISE = importlib.import_module("apprise")
except ImportError:
    APPRISE = None

NAME = "graceful.azure"
SECONDS_OF_ONE = 20.0
"""How long one message may take, with the second try."""
PAUSE = 2.0
SECONDS_OF_ANSWER = 8.0
"""How long a service may take to answer, unless its URL says it. One that answers later gets the message twice."""


class OutOfTime(BaseException):
    """All messages together have taken too long."""


class Log(logging.Handler):
    """What Apprise logs."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        logger = logging.getLogger("apprise")
        logger.handlers, logger.propagate = [self], False

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def service(url: str) -> Any:
    """What sends to this URL, or None if Apprise cannot read it. No file of a configuration is read here, and no list of URLs."""
    APPRISE.URLBase.socket_read_timeout = SECONDS_OF_ANSWER
    asset = APPRISE.AppriseAsset(
        app_id=NAME,
        image_url_mask="",  # pictures would be fetched from elsewhere
        default_service_retry=1,
        default_service_wait=PAUSE,
        service_timeout=SECONDS_OF_ONE,
    )
    return APPRISE.Apprise.instantiate(url, asset=asset)


def mistake(url: str) -> str | None:
    """Why Apprise does not take it."""
    log = Log()
    if service(url) is None:
        is_web = url.lower().startswith(("http://", "https://"))
        hint = "; a webhook that takes JSON is jsons:// in place of https://, and json:// in place of http://" if is_web else ""
        return f"url: Apprise cannot read it, or needs another Python package for it{hint}"
    if any(text.startswith("Dropped ") for text in log.texts):
        return "url: Apprise does not understand one of its recipients"
    return None


def send(message: Mapping[str, str]) -> str | None:
    """Send it. Returns why it was not sent."""
    log = Log()
    there = service(message["url"])
    if there is None:
        return "Apprise cannot read its url"
    sender = APPRISE.Apprise(asset=there.asset)
    sender.add(there)
    sent = sender.notify(body=message["text"], title=message["title"], notify_type=message["type"], body_format="text")
    if sent:
        return None
    if sent.status == APPRISE.AppriseResultStatus.TIMEOUT:
        return f"no end within {SECONDS_OF_ONE:g} s"
    statuses = re.findall(r"\berror=([1-5]\d\d)\b", "\n".join(log.texts))
    return f"the service answered HTTP {statuses[-1]}" if statuses else "Apprise could not send it"


def send_all(messages: Iterable[Mapping[str, str]], seconds: int) -> list[list[str]]:
    """Send these. Returns label and reason of each that was not sent."""
    left, failed = list(messages), []

    def end(_number: int, _frame: object) -> NoReturn:
        raise OutOfTime

    signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        while left:
            why = send(left[0])
            if why:
                failed.append([left[0]["label"], why])
            del left[0]
        signal.alarm(0)
    except OutOfTime:
        failed.extend([message["label"], f"no end within {seconds} s, with those before it"] for message in left)
    return failed


def main() -> None:
    given = json.load(sys.stdin)
    if "urls" in given:
        found = {label: mistake(url) for label, url in given["urls"].items()}
        json.dump({label: why for label, why in found.items() if why}, sys.stdout)
        return
    failed = send_all(given["messages"], int(given["seconds"]))
    with open(f"{given['result']}.new", "w", encoding="utf-8") as stream:
        json.dump(failed, stream)
    os.replace(f"{given['result']}.new", given["result"])
    # A thread of Apprise may go on for what has taken too long.
    os._exit(0)


if __name__ == "__main__":
    main()
