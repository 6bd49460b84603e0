# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The entries of C(handle_events_notify): what is wrong with them, and what each of them sends. Pure.

No sentence here tells more of a URL than how it begins, because the rest may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible.module_utils.compat.version import LooseVersion
from ansible_collections.graceful.azure.plugins.plugin_utils._notify.changes import TITLES, Change, message
from ansible_collections.graceful.azure.plugins.plugin_utils._settings import NOTIFY
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json

OPTIONS = ("url", "changes")
OLDEST = "2.0.1"
"""The first version of Apprise that has Slack show our texts as they are. With those before, a text like <!channel> calls everybody."""
OLD_FORMS = {
    "webhook": "jsons://HOST/PATH?+HEADER=VALUE",
    "mail": "mailtos://USER:PASSWORD@HOST?from=SENDER&to=TO",
    "slack": "slack://TOKEN/#CHANNEL",
    "teams": "the https:// address of the workflow",
}
"""What replaces an entry with a type, as entries were before 1.0.0. It goes away in 2.0."""


def mistakes_in(entries: Any) -> list[str]:
    """What is wrong with the form of the entries, as sentences."""
    if not isinstance(entries, list):
        return [f"{NOTIFY}: it must be a list of dictionaries, each with a url"]
    return [f"{_label(number, entry)}: {mistake}" for number, entry in enumerate(entries) for mistake in _mistakes_in(entry)]


def urls(entries: Any) -> dict[str, str]:
    """The URL of each entry that is in the right form, by what the entry is called in sentences."""
    return {label: url for label, url, _entry in _in_form(entries)}


def lacking(version: str | None, python: str) -> list[str]:
    """Whether Apprise itself is missing. C(version): the one that is there. C(python): with which it must be installed."""
    if version is not None and LooseVersion(version) >= LooseVersion(OLDEST):
        return []
    has = "has no Python package apprise" if version is None else f"has an old Python package apprise ({version})"
    return [f"{NOTIFY}: the controller {has}. Version {OLDEST} or later is needed ({python} -m pip install 'apprise>={OLDEST}')"]


def messages(entries: Any, queue: Sequence[Change]) -> Iterator[Json]:
    """What is sent of these changes, as C(send.py) takes it: for each entry those that it wants."""
    for label, url, entry in _in_form(entries):
        wanted = [change for change in queue if change["state"] in entry.get("changes", TITLES)]
        if wanted:
            yield {"label": label, "url": url, **message(wanted)}


def _in_form(entries: Any) -> Iterator[tuple[str, str, Json]]:
    """The entries in the right form, each with what it is called in sentences and its URL."""
    for number, entry in enumerate(entries if isinstance(entries, list) else ()):
        if not list(_mistakes_in(entry)):
            yield _label(number, entry), entry["url"].strip(), entry


def _mistakes_in(entry: Any) -> Iterator[str]:
    if not isinstance(entry, Mapping):
        yield "it is not a dictionary with a url"
        return
    kind = str(entry.get("type"))
    if kind in OLD_FORMS:
        yield f"there is no type any more. In place of {kind}, set url to {OLD_FORMS[kind]}. The option states is now changes, and there are no templates"
        return
    for key in entry:
        if key not in OPTIONS:
            # A URL in a wrong place is a secret, too.
            named = key if isinstance(key, str) and key.isidentifier() else "of this name"
            yield f"it has no option {named}; there are {' and '.join(OPTIONS)}"
    url = entry.get("url")
    if not isinstance(url, str) or not url.strip():
        yield "url: it must be a text, one Apprise URL such as slack://TOKEN/#CHANNEL"
    elif not url.strip().isprintable():
        yield "url: it must be one line"
    elif re.search(r"[\s,;]\s*[A-Za-z]\w*://", url.strip()):
        yield "url: it has more than one URL; write one entry for each"
    changes = entry.get("changes", list(TITLES))
    if not isinstance(changes, list) or not changes or [change for change in changes if change not in list(TITLES)]:
        yield f"changes: {changes!r} must be a list of some of {', '.join(TITLES)}"


def _label(number: int, entry: Any) -> str:
    """How it is called in sentences."""
    url = entry.get("url") if isinstance(entry, Mapping) else None
    begins = re.match(r"\s*([A-Za-z]\w{,19})://", url) if isinstance(url, str) else None
    return f"{NOTIFY}[{number}]" + (f" ({begins[1].lower()})" if begins else "")
