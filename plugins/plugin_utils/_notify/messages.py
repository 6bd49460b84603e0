# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The entries of C(handle_events_notify): what is wrong with them, and what each of them sends. Private to the collection; pure."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from ansible_collections.graceful.azure.plugins.plugin_utils._notify.changes import STATES, Notification
from ansible_collections.graceful.azure.plugins.plugin_utils._settings import NOTIFY
from ansible_collections.graceful.azure.plugins.plugin_utils._text import is_url
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json

Entry = dict[str, Any]
"""One entry of C(handle_events_notify)."""

OF_TEMPLATES = "graceful_azure_notification"
"""The variable that templates of the user read."""
COLLECTION = "community.general"
COMMON = ("type", "states", "template")
WEBHOOK, TEAMS = "webhook", "teams"
REQUIRED = {WEBHOOK: "url", "mail": "to", "slack": "token", TEAMS: "webhook"}
"""Per type the option that must be given."""
OPTIONS: dict[str, tuple[str, ...]] = {
    WEBHOOK: ("url", "headers"),
    "mail": ("to", "cc", "sender", "host", "port", "username", "password", "secure"),
    "slack": ("token", "channel", "domain"),
    TEAMS: ("webhook",),
}
"""Per type its own options. Those of mail and Slack are options of the module below."""
MODULES = {"mail": "mail", "slack": "slack"}
JSON = "application/json"
ADAPTIVE_CARD = "application/vnd.microsoft.card.adaptive"
CARD_VERSION = "1.2"
"""The first version of cards that has all that is used here. Teams takes it everywhere."""
MOST_BYTES = 20_000
"""How long the texts of a card may be. Teams takes messages up to 28 KB."""
ALARMING = ("needs_person", "failed")
"""The states whose changes a card shows in red."""


def mistakes_in(entries: Any, is_installed: bool) -> list[str]:
    """What is wrong with the entries, as sentences. C(is_installed): whether the collection that has the modules is there."""
    if not isinstance(entries, list):
        return [f"{NOTIFY}: it must be a list of dictionaries, each with a type"]
    mistakes: list[str] = []
    for number, entry in enumerate(entries):
        mistakes.extend(f"{NOTIFY}[{number}]: {mistake}" for mistake in _mistakes_in(entry, is_installed))
    return mistakes


def _mistakes_in(entry: Any, is_installed: bool) -> list[str]:
    if not isinstance(entry, dict):
        return ["it is not a dictionary"]
    kind = entry.get("type")
    if kind not in OPTIONS:
        return [f"type: {kind!r} is none of {', '.join(OPTIONS)}"]
    known = (*COMMON, *OPTIONS[kind])
    mistakes = [f"{kind} has no option {key}; there are {', '.join(known)}" for key in entry if key not in known]
    if not entry.get(REQUIRED[kind]):
        mistakes.append(f"{kind} needs {REQUIRED[kind]}")
    states = entry.get("states", list(STATES))
    if not isinstance(states, list) or not states or [state for state in states if state not in STATES]:
        mistakes.append(f"states: {states!r} must be a list of some of {', '.join(STATES)}")
    if kind in MODULES and not is_installed:
        mistakes.append(f"{kind} needs the collection {COLLECTION} on the controller (ansible-galaxy collection install {COLLECTION})")
    address = entry.get("url") if kind == WEBHOOK else entry.get("webhook")
    if address and not is_url(address):
        mistakes.append(f"{REQUIRED[kind]}: {_host(address)!r} must begin with https:// or http:// and a name")
    if kind == WEBHOOK and not mistakes:
        mistakes.extend(_webhook_mistakes(entry))
    return mistakes


def _webhook_mistakes(entry: Entry) -> Iterator[str]:
    headers = entry.get("headers") or {}
    if not isinstance(headers, dict):
        yield "headers: it must be a dictionary of texts"
        return
    for name, value in headers.items():
        if any(not str(text).isprintable() for text in (name, value)) or not str(name) or set(str(name)) & set(": "):
            yield f"headers: {name!r} is no name of a header, or its value is more than one line"
    if _content_type(headers) == JSON and "template" in entry:
        try:
            json.loads(_text(entry["template"]))
        except ValueError as error:
            hint = f"write texts as {{{{ {OF_TEMPLATES}.text | to_json }}}}, without quotes, or set headers.Content-Type"
            yield f"template: it does not yield JSON ({error}); {hint}"


def states_of(entry: Entry) -> Collection[str]:
    states: Collection[str] = entry.get("states", STATES)
    return states


def message(entry: Entry, notification: Notification) -> Json:
    """What is sent for an entry whose templates saw this notification, as C(send.py) takes it."""
    kind = entry["type"]
    about = {"label": _label(entry)}
    if kind == TEAMS:
        return dict(about, url=str(entry["webhook"]), headers={"Content-Type": JSON}, body=json.dumps(_teams_message(entry, notification)))
    text = _text(entry["template"]) if "template" in entry else notification["text"]
    if kind == WEBHOOK:
        body = text if "template" in entry else json.dumps({"source": "graceful.azure", **notification})
        headers = {str(name): str(value) for name, value in (entry.get("headers") or {}).items()}
        headers = {**{name: value for name, value in headers.items() if name.lower() != "content-type"}, "Content-Type": _content_type(headers)}
        return dict(about, url=str(entry["url"]), headers=headers, body=body)
    options = {key: value for key, value in entry.items() if key not in COMMON}
    if kind == "mail":
        options.update(subject=" ".join(notification["title"].split()), body=text)
    else:
        options.update(msg=text if "template" in entry else _literal_for_slack(text))
    return dict(about, module=f"{COLLECTION}.{MODULES[kind]}", options=options)


def _literal_for_slack(text: str) -> str:
    """The text as Slack shows it as it is. Else a text like <!channel> would call everybody."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _teams_message(entry: Entry, notification: Notification) -> Json:
    """An Adaptive Card, as the webhook of a workflow in Teams takes it. Teams formats what a template of the user yields, but no text of ours."""
    if "template" in entry:
        body: list[Json] = [{"type": "TextBlock", "wrap": True, "text": _cut(_text(entry["template"]), MOST_BYTES)}]
    else:
        body = list(_paragraphs(notification))
    card = {"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": CARD_VERSION, "body": body}
    return {"type": "message", "attachments": [{"contentType": ADAPTIVE_CARD, "contentUrl": None, "content": card}]}


def _paragraphs(notification: Notification) -> Iterator[Json]:
    """One for each line of each change, as many as a card may have."""
    left = MOST_BYTES
    for number, change in enumerate(notification["changes"]):
        for line in filter(None, _cut(change["text"], MOST_BYTES // 2).split("\n")):
            paragraph = _paragraph(line, alarming=change["state"] in ALARMING)
            left -= _bytes(paragraph)
            if left < 0:
                yield _paragraph(f"... and {len(notification['changes']) - number} more", alarming=False)
                return
            yield paragraph


def _paragraph(text: str, alarming: bool) -> Json:
    run = {"type": "TextRun", "text": text, **({"color": "attention"} if alarming else {})}
    return {"type": "RichTextBlock", "inlines": [run]}


def _cut(text: str, most: int) -> str:
    # In JSON, a character is twelve bytes long at most.
    return text if _bytes(text) <= most else f"{text[: most // 12]} ..."


def _bytes(value: Any) -> int:
    return len(json.dumps(value))


def _label(entry: Entry) -> str:
    """How it is called in warnings. An address may hold a secret, so only its host is told."""
    told: dict[str, Callable[[], Any]] = {
        WEBHOOK: lambda: _host(entry["url"]),
        "mail": lambda: entry["to"],
        "slack": lambda: entry.get("channel"),
        TEAMS: lambda: _host(entry["webhook"]),
    }
    where = told[entry["type"]]()
    return f"{entry['type']} to {', '.join(where) if isinstance(where, list) else where}" if where else str(entry["type"])


def _content_type(headers: Mapping[Any, Any]) -> str:
    return next((str(value) for name, value in headers.items() if str(name).lower() == "content-type"), JSON)


def _text(value: Any) -> str:
    """A template may yield more than text."""
    return value if isinstance(value, str) else json.dumps(value)


def _host(address: Any) -> str:
    try:
        parts = urllib.parse.urlsplit(str(address))
        return parts.hostname or str(address)[:12]
    except ValueError:
        return str(address)[:12]
