# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What both sides know of a host's health answer: the options of a duty, what is wrong with them, and the sentences about what keeps a host busy. Pure."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._conditions import ALREADY_OUT, FAILING, IN, NONE, OUT
from ansible_collections.graceful.azure.plugins.module_utils._duties.options import AZURE_PROBES, QUIET
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import may_have_passed
from ansible_collections.graceful.azure.plugins.module_utils._spellings import canonical, plural, port_mistake

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._duties.options import Mistakes, Specs

# What each action of a health probe needs.
NEEDS = {
    "file": ("file",),
    "service": ("service",),
    "command": ("command_out", "command_back"),
    "responder": ("responder_port", "responder_url"),
    "iis_site": ("iis_site",),
}
# The actions that stop what answers.
STOPPED = ("service", "iis_site")
ONCE = "all that is held of a host's health answers goes back together"
CORRECT = "set url of health_probe to what the balancer asks"
OPTIONS: Specs = {
    "action": {"type": "str", "choices": [*NEEDS], "required": True},
    "pool": {"type": "str"},
    "file": {"type": "path"},
    "file_means": {"type": "str", "choices": [OUT, IN], "default": OUT},
    "service": {"type": "str"},
    "command_out": {"type": "str"},
    "command_back": {"type": "str"},
    "responder_port": {"type": "int"},
    "responder_url": {"type": "str"},
    "responder_untouched_port": {"type": "int"},
    "responder_state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "responder_python": {"type": "path", "default": "/usr/bin/python3"},
    "iis_site": {"type": "str"},
    "interval": {"type": "float", "default": 5},
    "threshold": {"type": "int", "default": 2},
    "margin": {"type": "float", "default": 2},
    "url": {"type": "str"},
    "peer": {"type": "list", "elements": "str", "default": AZURE_PROBES, "or_text": True},
    "quiet": QUIET,
}


def option_mistakes(name: str, options: Mapping[str, Any]) -> Mistakes:
    action = options.get("action") or ""
    for option in NEEDS.get(action, ()):
        if not options.get(option):
            yield option, "not set; action: %s needs it" % action
    if options["interval"] == 0:
        yield "interval", "0 is not a number of seconds greater than 0; give the figure of the balancer's probe"
    if options["threshold"] < 1:
        yield "threshold", "%d is not a whole number from 1 up; give the figure of the balancer's probe" % options["threshold"]
    for option in ("responder_port", "responder_untouched_port"):
        mistake = "" if options.get(option) is None else port_mistake(options[option])
        if mistake:
            yield option, mistake
    for option in NEEDS["command"]:
        command = options.get(option)
        try:
            if command and not shlex.split(command):
                yield option, "%r has no words" % command
        except ValueError as error:
            yield option, "%r cannot be split into words: %s" % (command, error)
    for address in options.get("peer") or ():
        try:
            canonical(address.strip())
        except ValueError:
            yield "peer", "%r is not an IP address" % (address,)


def acted_on(options: Mapping[str, Any]) -> str:
    """What the action of a health probe acts on, as users know it."""
    on = next((options[option] for option in NEEDS.get(options["action"], ())), None) or ""
    return "port %s" % on if options["action"] == "responder" else str(on)


def probed_url(options: Mapping[str, Any]) -> str | None:
    """Where the answer of a health probe is asked; None if it is not."""
    return options["url"] or ("http://localhost:%s/" % options["responder_port"] if options["action"] == "responder" else None)


def notice_of(options: Mapping[str, Any]) -> float:
    """After how many seconds the balancer of a health probe must have noticed."""
    return round(float(options["interval"] * options["threshold"] + options["margin"]), 3)


def health_answer(place: str, look: Mapping[str, Any], url: str | None, may_boot: bool = False) -> tuple[str, ...]:
    """What keeps a host from being idle, as far as its health answer and new connections tell. ``may_boot``: whether it may boot where nobody answers."""
    answer = look["answer"]
    if answer["state"] != FAILING:
        return ("%s passes" % place,)
    found = []
    if is_wrong(look):
        found.append(why_wrong(look, url))
    if is_untold(look) and may_boot and not look["probe"]["answered"]:
        found.append("%s: it probably still boots" % look["probe"]["said"])
    elif is_untold(look):
        found.append("%s: %s, so nothing tells that the probe fails now; %s" % (look["probe"]["said"], *_why_untold(answer)))
    if look["notice_left"]:
        found.append("the balancer notices within %d s" % math.ceil(look["notice_left"]))
    elif look.get("new_connections"):
        found.extend(
            "%s came to port %s%s from %s" % (plural(entry["count"], "new connection"), entry["port"], ", the last" * (entry["count"] > 1), entry["peer"])
            for entry in look["new_connections"]
        )
    return tuple(found)


def _why_untold(answer: Mapping[str, Any]) -> tuple[str, str]:
    """Why nobody can tell that the answer fails, and what to do."""
    if answer["condition"] == ALREADY_OUT:
        # Nobody could have seen it pass. It may only be booting.
        return "somebody else has taken it out, and nobody answers there", "start what should answer, or %s" % CORRECT
    return "it was not seen to pass before", CORRECT


def passes_at_url(look: Mapping[str, Any]) -> bool | None:
    """Whether the URL answers as the probe wants it; None if nobody asked there."""
    probe = look.get("probe")
    return bool(probe["passes"]) if probe else None


def is_wrong(look: Mapping[str, Any]) -> bool:
    """Whether the answer passes although it was made to fail."""
    return look["answer"]["state"] == FAILING and passes_at_url(look) is True


def why_wrong(look: Mapping[str, Any], url: str | None) -> str:
    """What a person must mend if the answer passes although it was made to fail."""
    answer = look["answer"]
    done = "its command was run" if answer["action"] == "command" else answer["told"]
    return "%s still passes although %s: it is not what the answer depends on (action and what belongs to it), or url is not what the probe asks" % (url, done)


def why_stuck(look: Mapping[str, Any], url: str | None) -> str:
    """The same once its balancer must have noticed, or if somebody else has taken it out; otherwise empty. Nothing but a person ends this."""
    is_ours = look["answer"]["condition"] != ALREADY_OUT
    return why_wrong(look, url) if is_wrong(look) and not (is_ours and look["notice_left"]) else ""


def seen_out(place: str, look: Mapping[str, Any], url: str | None) -> str:
    """A phrase: what tells that the answer fails. Only where the URL was asked, it is known whether it does."""
    passes, told = passes_at_url(look), "%s: %s" % (place, look["answer"]["told"])
    return "%s fails" % place if passes is False else "%s, but %s passes" % (told, url) if passes else told


def may_send(look: Mapping[str, Any]) -> bool:
    """Whether the balancer may still send new connections, as far as is known."""
    return look["answer"]["state"] != FAILING or bool(look["notice_left"]) or is_wrong(look) or is_untold(look)


def is_untold(look: Mapping[str, Any]) -> bool:
    """Whether nobody can tell that the answer fails: the URL does not pass, and did not before the hold."""
    answer = look["answer"]
    if answer["state"] != FAILING or passes_at_url(look) is not False:
        return False
    if answer["condition"] == ALREADY_OUT:
        # Who has taken it out has seen to that. But nobody at all answers neither a probe nor a request.
        return not look["probe"]["answered"] and answer["action"] not in STOPPED
    return not may_have_passed(answer.get("found"))


def not_passing(look: Mapping[str, Any]) -> str | None:
    """A sentence if the answer does not pass although nothing makes it fail; otherwise None."""
    if passes_at_url(look) is not False or look["answer"]["condition"] != NONE or look["probe"].get("fast_path"):
        return None
    return "%s, although nothing makes it fail: until it has passed, the host never counts as out, and is not approved; start what should answer, or %s" % (
        look["probe"]["said"],
        CORRECT,
    )
