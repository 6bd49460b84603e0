# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Selects events by the user's options. Pure."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from ansible.module_utils.basic import missing_required_lib
from ansible_collections.graceful.azure.plugins.module_utils._events import EVENT_KEYS, EVENT_STATUSES, EVENT_TYPES, clip, json_type

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from typing import Any, Literal

    from ansible_collections.graceful.azure.plugins.module_utils._events import ScheduledEvent

    # The fields of an event that options select by.
    Tested = Literal["event_id", "event_type", "event_status"]
    # A node of a parsed expression, as jmespath makes it: its type, its children, and in most types a value.
    Node = dict[str, Any]


class SelectionError(ValueError):
    """The selection is wrong. The message tells a person why."""


def selection_argument_spec(affecting_host_only: bool) -> dict[str, dict[str, Any]]:
    return {
        "event_ids": {"type": "list", "elements": "str"},
        "event_types": {"type": "list", "elements": "str", "choices": list(EVENT_TYPES)},
        "event_statuses": {"type": "list", "elements": "str", "choices": list(EVENT_STATUSES)},
        "affecting_host_only": {"type": "bool", "default": affecting_host_only},
        "query": {"type": "str"},
    }


def check_event_ids(event_ids: list[str] | None) -> list[str]:
    """Strip blanks from the ids. Raises SelectionError if the list is empty or has an empty id."""
    if not event_ids:
        raise SelectionError("event_ids: the list is empty. Give at least one id, or leave the option out where that is allowed.")
    ids = [event_id.strip() for event_id in event_ids]
    if not all(ids):
        raise SelectionError(f"event_ids: {clip(event_ids)} contains an empty id.")
    return ids


class Selection:
    """Selects events by the options of selection_argument_spec(). An option that is None selects all."""

    def __init__(
        self,
        event_ids: list[str] | None = None,
        event_types: list[str] | None = None,
        event_statuses: list[str] | None = None,
        affecting_host_only: bool = False,
        query: str | None = None,
    ) -> None:
        self.affecting_host_only = affecting_host_only
        self._tests: list[tuple[Tested, set[str]]] = []
        if event_ids is not None:
            self._keep("event_id", check_event_ids(event_ids))
        if event_types is not None:
            self._keep("event_type", _check_choices("event_types", event_types, EVENT_TYPES))
        if event_statuses is not None:
            self._keep("event_status", _check_choices("event_statuses", event_statuses, EVENT_STATUSES))
        self._query: Expression | None = None
        if query is not None:
            try:
                self._query = compile_expression(query, EVENT_KEYS)
            except SelectionError as error:
                raise SelectionError(f"query: {error}") from None

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Selection:
        return cls(**{name: params[name] for name in selection_argument_spec(False)})

    def _keep(self, key: Tested, values: list[str]) -> None:
        self._tests.append((key, {value.lower() for value in values}))

    def apply(self, events: list[ScheduledEvent]) -> list[ScheduledEvent]:
        """Select from the events that the service lists."""
        selected = [
            event
            for event in events
            if (event["affects_host"] or not self.affecting_host_only) and all((event[key] or "").lower() in values for key, values in self._tests)
        ]
        if self._query is None:
            return selected
        try:
            result = self._query.search(selected)
        except SelectionError as error:
            raise SelectionError(f"query: {error}") from None
        return _check_result(self._query.text, result, selected)


class Expression:
    """A JMESPath expression."""

    def __init__(self, text: str, compiled: Any, error_class: type[Exception]) -> None:
        self.text = text
        self.parsed = compiled.parsed
        self._compiled = compiled
        self._error_class = error_class

    def search(self, value: object) -> Any:
        try:
            return self._compiled.search(value)
        except (self._error_class, RecursionError, TypeError, ValueError) as error:
            # For 5 < 'a', contains('text', null) or a slice with step 0, jmespath raises Python's own errors.
            raise SelectionError(f"{clip(self.text)} cannot be evaluated: {_one_line(error)}.") from None


def parse_expression(text: str) -> Expression:
    """Parse an Expression without a check of its names. Raises SelectionError if it is not valid JMESPath."""
    try:
        import jmespath
        from jmespath.exceptions import JMESPathError
    except ImportError:
        raise SelectionError(missing_required_lib("jmespath")) from None
    try:
        compiled = jmespath.compile(text)
        list(nodes_of(compiled.parsed))
    except (JMESPathError, RecursionError) as error:
        raise SelectionError(f"{clip(text)} is not a JMESPath expression: {_one_line(error)}.") from None
    return Expression(text, compiled, JMESPathError)


def unknown_words(parsed: Node, keys: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each unknown function and for each name in a parsed expression that is not one of the keys.

    In JMESPath the value of an unknown word is null. So event_type == Freeze without quotes would always be false. jmespath would report an unknown
    function only when there is an event.
    """
    from jmespath.functions import Functions

    nodes = list(nodes_of(parsed))
    made = {node["value"] for node in nodes if node["type"] == "key_val_pair"}
    for kind, word in [(node["type"], node.get("value", "")) for node in nodes]:
        if kind == "function_expression" and word not in Functions.FUNCTION_TABLE:
            yield f"JMESPath has no function {clip(word)}; it has {', '.join(sorted(Functions.FUNCTION_TABLE))}"
        elif kind == "field" and word not in made and word not in keys:
            near = difflib.get_close_matches(word.lower(), keys, n=1, cutoff=0.85) or [key for key in keys if word.lower() in key.split("_")]
            meant = f"Do you mean {near[0]}? " if near else f"{word} stands in backticks: `{word}`. " if word in ("true", "false", "null") else ""
            yield (
                f"the word {clip(word)} is not a key of an event, so it would never match. {meant}"
                f"Put strings in single quotes, such as 'Freeze'. The keys are {', '.join(key for key in keys if key != 'null')}"
            )


def compile_expression(text: str, keys: Collection[str]) -> Expression:
    """Parse an Expression for values with these keys. Raises SelectionError if it is not valid JMESPath or has an unknown name."""
    expression = parse_expression(text)
    for mistake in unknown_words(expression.parsed, keys):
        raise SelectionError(f"{clip(text)}: {mistake}.")
    return expression


def nodes_of(node: Node) -> Iterator[Node]:
    """Yield every node of a parsed expression."""
    yield node
    for child in node["children"]:
        if isinstance(child, dict):
            yield from nodes_of(child)


def _check_choices(option: str, values: list[str], choices: Sequence[str]) -> list[str]:
    if not values:
        raise SelectionError(f"{option}: the list is empty. Give at least one of {', '.join(choices)}, or leave the option out.")
    for value in values:
        if value not in choices:
            raise SelectionError(f"{option}: {clip(value)} is not one of {', '.join(choices)}.")
    return values


def _check_result(text: str, result: object, events: list[ScheduledEvent]) -> list[ScheduledEvent]:
    known = {event["event_id"]: event for event in events}
    if not isinstance(result, list):
        raise SelectionError(f"query: {clip(text)} yields {json_type(result)} instead of a list of events.")
    for entry in result:
        if not isinstance(entry, dict) or known.get(entry.get("event_id", "")) != entry:
            raise SelectionError(f"query: {clip(text)} yields a list whose entries are not events, such as {clip(entry)}.")
    return result


def _one_line(error: Exception) -> str:
    # The messages of jmespath have several lines, with an arrow below the wrong place, and show the whole value.
    text = " ".join(str(error).split()).rstrip(".")
    return text if len(text) <= 300 else text[:300] + "..."
