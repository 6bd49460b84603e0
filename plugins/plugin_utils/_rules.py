# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules that say what is done for an event. Pure, no I/O.

C(check_rules) checks the whole list before it is used and returns every mistake as a sentence. C(rules_of) turns the name of a preset into its
list. C(rule_for) finds the rule that decides for an event, and needs a list without mistakes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypedDict

from ansible_collections.graceful.azure.plugins.module_utils._events import EVENT_TYPES
from ansible_collections.graceful.azure.plugins.module_utils._selection import compile_expression
from ansible_collections.graceful.azure.plugins.module_utils._spellings import mistake_in_seconds
from ansible_collections.graceful.azure.plugins.plugin_utils._rule_expression import RULE_KEYS, UNKNOWN_LENGTH, expression_mistakes, is_true, names_unknown
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json


class _OptionalKeys(TypedDict, total=False):
    when: str | None
    action: str
    lead_time: float | None
    on_drain_timeout: str


class RuleGiven(_OptionalKeys):
    """A rule as the user writes it."""

    name: str


class _Defaults(TypedDict):
    when: str | None
    action: str
    lead_time: float | None
    on_drain_timeout: str


class Rule(_Defaults):
    """A rule, completed with defaults."""

    name: str


ACTIONS = ("prepare_and_approve", "prepare", "approve", "ignore")
_LONG = 10**9
"""Seconds that no interruption takes."""
ON_DRAIN_TIMEOUT = ("hold", "approve")

_DEFAULTS: _Defaults = {"when": None, "action": "prepare_and_approve", "lead_time": None, "on_drain_timeout": "hold"}

PRESETS: dict[str, list[RuleGiven]] = {
    # Azure's own sample approves events at once if a user asked for them or if they are short. It only logs all others, at the place where it says
    # that the application's own handling belongs.
    "azure_sample": [
        {"name": "azure_sample: asked for by a user", "when": "event_source == 'User'", "action": "approve"},
        {
            "name": "azure_sample: a freeze of less than 9 s",
            "when": "event_type == 'Freeze' && duration_in_seconds >= `0` && duration_in_seconds < `9`",
            "action": "approve",
        },
        {"name": "azure_sample: anything else", "action": "ignore"},
    ],
}
"""Rule lists that have a name. The variable takes the name instead of a list."""

# These decide if none of the user's rules does.
_KNOWN: Rule = {**_DEFAULTS, "name": "built-in: known event type"}
_UNKNOWN: Rule = {**_DEFAULTS, "name": "built-in: unknown event type", "action": "prepare"}
UNASKED: Rule = {**_DEFAULTS, "name": "built-in: a rule cannot be asked of it", "action": "prepare"}
"""Decides if one of the user's rules cannot be evaluated for an event."""
KEPT = "when its hosts were prepared"
"""Stands for the expression of a rule that decided in a former run, and is known by what was held then."""
BUILT_IN = tuple(rule["name"] for rule in (_KNOWN, _UNKNOWN, UNASKED))


def _check_rule(rule: dict[Any, Any], label: str) -> list[str]:
    mistakes = []
    unknown = sorted(str(key) for key in rule if key not in _DEFAULTS and key != "name")
    for key in unknown:
        mistakes.append(f"{label}: unknown key {key!r}; a rule has {', '.join(('name', *_DEFAULTS))}")
    for key, choices in (("action", ACTIONS), ("on_drain_timeout", ON_DRAIN_TIMEOUT)):
        value = rule.get(key, choices[0])
        if value not in choices:
            mistakes.append(f"{label}: {key} {value!r} is not one of {', '.join(choices)}")
    lead_time = rule.get("lead_time")
    if lead_time not in (None, "") and mistake_in_seconds(lead_time):
        mistakes.append(f"{label}: lead_time {lead_time!r} is not a number of seconds from 0 up")
    when = rule.get("when")
    if when is not None:
        if not isinstance(when, str):
            mistakes.append(f"{label}: when {when!r} is not a JMESPath expression (a string)")
        else:
            mistakes.extend(f"{label}: when: {mistake}" for mistake in expression_mistakes(when))
    return mistakes


def check_rules(rules: Any) -> list[str]:
    """All mistakes in a rule list. Each is a sentence with the name of the rule. The list is empty if there are none."""
    if rules is None or isinstance(rules, str) and rules in PRESETS:
        return []
    if not isinstance(rules, (list, tuple)):
        return [f"graceful_azure_rules: {rules!r} is neither a list of rules nor a preset ({', '.join(PRESETS)})"]
    mistakes: list[str] = []
    names: set[str] = set()
    for number, rule in enumerate(rules, start=1):
        if not isinstance(rule, dict):
            mistakes.append(f"graceful_azure_rules: rule {number}: {rule!r} is not a dictionary")
            continue
        name = rule.get("name")
        label = f"graceful_azure_rules: rule {number} ({name})"
        if not isinstance(name, str) or not name.strip():
            label = f"graceful_azure_rules: rule {number}"
            mistakes.append(f"{label}: name is required, a string")
        elif name in names:
            mistakes.append(f"{label}: another rule has the same name")
        else:
            names.add(name)
        mistakes.extend(_check_rule(rule, label))
    return mistakes


def rules_of(value: str | list[RuleGiven] | None) -> list[RuleGiven]:
    """The list of rules for the value of a variable that has no mistakes: a list, or the name of a preset."""
    if isinstance(value, str) and value:
        return PRESETS[value]
    return [_read(rule) for rule in value or ()]


def _read(rule: RuleGiven) -> RuleGiven:
    """Before core 2.19, templates yield only texts."""
    told = rule.get("lead_time")
    return {**rule, "lead_time": float(told) if told else None} if isinstance(told, str) else rule


def rule_for(rules: Iterable[RuleGiven] | None, event: Json) -> Rule:
    """The first rule whose C(when) is true for the event, completed with defaults. If there is none, a built-in rule."""
    for rule in rules or ():
        when = rule.get("when")
        if when is None or _holds(when, event) and not _takes_for_short(when, event):
            return {**_DEFAULTS, **rule}
    return (_KNOWN if event["event_type"] in EVENT_TYPES else _UNKNOWN).copy()


def _holds(when: str, event: Json) -> bool:
    return is_true(compile_expression(when, RULE_KEYS).search(event))


def _takes_for_short(when: str, event: Json) -> bool:
    """Whether an expression that is true for an event is so only because the number of an unknown length, -1, is less than every limit."""
    if event.get("duration_in_seconds") != UNKNOWN_LENGTH or names_unknown(when):
        return False
    return _holds(when, dict(event, duration_in_seconds=0)) and not _holds(when, dict(event, duration_in_seconds=_LONG))


def kept_rule(details: Json) -> Rule:
    """The rule that decided when a hold was put, as far as the details of the hold say."""
    return {**_DEFAULTS, "name": str(details.get("rule")), "when": KEPT, "action": details["action"]}
