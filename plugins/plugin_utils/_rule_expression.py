# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds mistakes in the C(when) of a rule before there is an event. Pure.

JMESPath accepts nearly everything. If a word is misspelt or types do not match, it yields null or false, and the rule would silently never decide.
So jmespath evaluates the expression here for a few sample events, and every value is noted. If a comparison or a call does not make sense for any
of these values, that is a mistake.
"""

from __future__ import annotations

import functools
import json
import operator
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ansible_collections.graceful.azure.plugins.module_utils._events import EVENT_KEYS, EVENT_STATUSES, EVENT_TYPES, clip
from ansible_collections.graceful.azure.plugins.module_utils._selection import SelectionError, nodes_of, parse_expression, unknown_words

try:
    from jmespath.exceptions import JMESPathError
    from jmespath.functions import TYPES_MAP, Functions
    from jmespath.visitor import TreeInterpreter
except ImportError:
    TreeInterpreter = object  # parse_expression says what to install

Node = dict[str, Any]
"""A node of a parsed expression, as jmespath makes it: C(type), C(children) and perhaps C(value)."""

# The words that a rule may look up. The word null without backticks is a key that no event has. So its value is null, as its author meant.
RULE_KEYS = (*EVENT_KEYS, "null")
UNKNOWN_LENGTH = -1
"""How Azure tells of an interruption of unknown length."""

_FULL = {
    "event_id": "602d9444-d2cd-49c7-8624-8643e7171297", "event_type": "Freeze", "event_status": "Scheduled", "event_source": "Platform",
    "resource_type": "VirtualMachine", "resources": ["vm_0"], "not_before": "2026-01-31T12:00:00Z", "description": "Host server is undergoing maintenance.",
    "duration_in_seconds": 5, "affects_host": True, "seconds_until_not_before": 900.0,
}  # fmt: skip
# Keys that are null in every version once an event has started, and what to write in place of null.
_NULL_ONCE_STARTED = {"not_before": "''", "seconds_until_not_before": "`0`"}
_STARTED = dict(_FULL, event_status="Started", **dict.fromkeys(_NULL_ONCE_STARTED))
_SAMPLES = [dict(more, event_type=word, event_source=source) for more in (_FULL, _STARTED) for word in EVENT_TYPES for source in ("Platform", "User")]
_SAMPLES.append(dict(_FULL, resources=["vm_0", "vm_1"]))
# Each lacks one field, as events of an old version may. If only these cannot be evaluated, that is no mistake: everybody writes contains(description, 'x').
_INCOMPLETE = tuple(dict(_FULL, **{name: [] if name == "resources" else None}) for name in EVENT_KEYS if name not in ("event_id", "affects_host"))

_WORDS = {"event_type": EVENT_TYPES, "event_status": EVENT_STATUSES, "event_source": ("Platform", "User"), "resource_type": ("VirtualMachine",)}
_KEY_OF_WORD = {word.lower(): (name, word) for name, words in _WORDS.items() for word in words}
_TYPES = {"string": "a string", "number": "a number", "boolean": "true or false", "array": "a list", "object": "an object", "null": "null", "expref": "&..."}
# Sets of words that are complete. Event types are not among them, because Azure may add one.
_COMPLETE_SETS = (EVENT_STATUSES, _WORDS["event_source"], _WORDS["resource_type"], tuple(_TYPES))
_ALL_WORDS = {*EVENT_TYPES}.union(*_COMPLETE_SETS)
_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_DATE_BEGINS = re.compile(r"(\d{4}(-\d\d(-\d\d(T[0-9:.]*Z?)?)?)?)?")
_ALWAYS_NAMED = "a rule is checked only for the hosts that the event names, so affects_host is always true"
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.eq,
    "contains": operator.contains,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
}
_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_SYNTAX = {
    "field": "{value}", "current": "@", "identity": "", "subexpression": "{0}.{1}", "index_expression": "{0}{1}", "index": "[{value}]",
    "slice": "[from:to:step]",
    "comparator": "{0} {value} {1}", "not_expression": "!{0}", "or_expression": "({0} || {1})", "and_expression": "({0} && {1})", "pipe": "{0} | {1}",
    "projection": "{0}[*]", "filter_projection": "{0}[?{2}]", "flatten": "{0}[]", "key_val_pair": "{value}: {0}", "expref": "&{0}",
    "function_expression": "{value}({all})", "multi_select_list": "[{all}]", "multi_select_dict": "{{{all}}}",
}  # fmt: skip


def expression_mistakes(text: str) -> list[str]:
    """All mistakes in the C(when) of a rule, as sentences. The list is empty if there are none."""
    return list(_mistakes(text))


@functools.lru_cache(maxsize=1000)
def names_unknown(text: str) -> bool:
    """Whether an expression itself has the number of an unknown length."""
    values = [each["value"] for each in nodes_of(parse_expression(text).parsed) if each["type"] == "literal"]
    return any(str(UNKNOWN_LENGTH) in map(str, value if isinstance(value, list) else [value]) for value in values)


def is_true(value: object) -> bool:
    """Whether JMESPath takes the value as true. Null, false and everything empty are false. Numbers are always true."""
    return value is not None and value is not False and value not in ("", [], {})


@functools.lru_cache(maxsize=1000)
def _mistakes(text: str) -> tuple[str, ...]:
    # Cached, because most hosts have the same rules.
    try:
        parsed = parse_expression(text).parsed
        checker = _Checker()
        for event in (*_SAMPLES, *_INCOMPLETE):
            checker.event, checker.reached = event, event not in _INCOMPLETE
            checker.visit(parsed, event)
        mistakes = [*unknown_words(parsed, RULE_KEYS), *checker.misused.values(), *checker.mistakes(parsed)]
        return tuple(dict.fromkeys(mistakes or checker.breaks.values()))
    except SelectionError as error:
        return (f"{error}{_hint(text)}",)
    except RecursionError:
        return (f"{clip(text)} is nested too deeply",)


def _hint(text: str) -> str:
    """A hint for people who wrote the expression as in another language: what JMESPath has instead."""
    bare = re.sub(r"'[^']*'|`[^`]*`|\"[^\"]*\"", "''", text)
    if re.search(r"(==|!=|<=?|>=?)\s*-?\d", bare):
        return " Numbers stand in backticks, such as `5`."
    if re.search(r"[^=!<>]=[^=]", bare):
        return " Equal is written ==."
    return " JMESPath has &&, ||, ! and contains(list, value)." if re.search(r"\b(and|or|not|in)\b", bare) else ""


def _source(node: Node) -> str:
    """The source text of a node, shortened if it is long."""
    kind: str = node["type"]
    value: Any = node.get("value")
    if kind == "literal":
        text = f"'{value}'" if isinstance(value, str) else f"`{json.dumps(value)}`"
    else:
        around = "({})" if kind in ("comparator", "not_expression") else "{}"
        parts = [around.format(_source(child)) if child["type"] == "comparator" else _source(child) for child in _children(node)]
        text = _SYNTAX.get(kind, "...").format(*parts, value=_SIGNS.get(value, value), all=", ".join(parts))
    return text if len(text) <= 120 else text[:117] + "..."


def _children(node: Node) -> list[Node]:
    return [child for child in node["children"] if isinstance(child, dict)]  # a slice has numbers


def _sides(node: Node) -> list[Node]:
    """The operands of a || b || c, a && b && c, or a | b | c."""
    left, right = node["children"]
    return [*(_sides(left) if left["type"] == node["type"] else [left]), right]


def _fields(node: Node) -> set[str]:
    return {each["value"] for each in nodes_of(node) if each["type"] == "field"}


def _is_text(node: Node) -> bool:
    return node["type"] == "literal" and isinstance(node["value"], str)


def _constants(node: Node) -> list[Any]:
    """The values of the literals in a node: its own value if it is a literal, or those that it lists."""
    literals = [each["value"] for each in (node, *_children(node)) if each["type"] == "literal" and node["type"] in ("literal", "multi_select_list")]
    return literals[0] if len(literals) == 1 and isinstance(literals[0], list) else literals


def _for_each(around: Node | None, node: Node, values: Sequence[Node]) -> str:
    """What the author probably meant by several values in place of one: the condition around them, repeated for each value."""
    if around is None or around["type"] not in ("comparator", "function_expression"):
        return ", ".join(_source(value) for value in values)
    children, negative = around["children"], around["value"] == "ne"
    place = children.index(node)
    if around["value"] in ("eq", "ne") and all(_is_text(value) for value in values):
        return f"{'!' if negative else ''}contains([{', '.join(_source(value) for value in values)}], {_source(children[1 - place])})"
    return (" && " if negative else " || ").join(_source(dict(around, children=[*children[:place], value, *children[place + 1 :]])) for value in values)


def _may_tell_of(left: Node, right: Node) -> bool:
    """Whether two conditions may depend on each other, because they read the same keys. The status and the times of an event change together."""
    mine, its = ({"event_status" if name in _NULL_ONCE_STARTED else name for name in _fields(side)} for side in (left, right))
    return not mine or not mine <= set(RULE_KEYS) or bool(mine & its)


def _types(values: Iterable[Any]) -> set[str]:
    return {TYPES_MAP[type(value).__name__] for value in values}


def _in_words(types: set[str]) -> str:
    return " or ".join(_TYPES[name] for name in sorted(types - {"null"}) or ["null"])


class _Checker(TreeInterpreter):
    """Evaluates an expression for events and notes all values. Where jmespath would raise an error, it goes on with null."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: defaultdict[int, list[tuple[Any, Any]]] = defaultdict(list)  # per node: what it was evaluated on, and its value
        self.misused: dict[int, str] = {}  # per call that fails although nothing is null: a sentence
        self.breaks: dict[int, str] = {}  # per node that fails for an event: a sentence
        self.event: dict[str, Any] = {}
        self.reached = True

    def visit(self, node: Node, value: Any = None) -> Any:
        result, before = None, len(self.breaks)
        try:
            result = super().visit(node, value)
        except (JMESPathError, TypeError, ValueError) as error:
            given = [self.seen[id(each)][-1][1] for child in _children(node) for each in nodes_of(child) if self.seen[id(each)]]
            if node.get("value") in Functions.FUNCTION_TABLE and None not in given:
                self.misused[id(node)] = f"{_source(node)} cannot be evaluated: {self._types_of(*_children(node))}: {error}"
            elif self.reached and before == len(self.breaks):
                self.breaks.setdefault(id(node), self._why_it_breaks(node, error))
        self.seen[id(node)].append((value, result))
        return result

    def _visit_sides(self, node: Node, value: Any) -> Any:
        # All sides are evaluated, so that everything is checked. If a side fails, that is no mistake as long as a condition before it keeps jmespath
        # from evaluating it. A condition on another field does not count, because some event may meet it.
        reached, ends = self.reached, node["type"] == "or_expression"
        before: list[tuple[Any, Any]] = []
        for side in _sides(node):
            self.reached = reached and not any(is_true(result) is ends and _may_tell_of(other, side) for other, result in before)
            before.append((side, self.visit(side, value)))
            self.seen[id(node)].append(before[-1])
        self.reached = reached
        return next((result for _side, result in before if is_true(result) is ends), before[-1][1])

    visit_or_expression = visit_and_expression = _visit_sides

    def _why_it_breaks(self, node: Node, error: Exception) -> str:
        null, written = [name for name in _NULL_ONCE_STARTED if name in _fields(node) and self.event[name] is None], _source(node)
        if not null:
            shown = ", ".join(f"{name} {json.dumps(self.event[name])}" for name in EVENT_KEYS if name in _fields(node))
            return f"{written} cannot be evaluated{' for an event with ' if shown else ''}{shown}: {error}"
        guarded = re.sub(rf"\b({'|'.join(null)})\b", lambda name: f"{name[0]} || {_NULL_ONCE_STARTED[name[0]]}", written)
        names, are = " and ".join(null), "is" if len(null) == 1 else "are"
        return f"{written} fails where {names} {are} null, as once the event has started; write {guarded}, or {' && '.join(null)} && {written}"

    def mistakes(self, node: Node, around: Node | None = None, truth_only: bool = True) -> Iterator[str]:
        """The mistakes in a node and in all nodes below it. C(truth_only): whether only the truth of the node's value matters."""
        kind = node["type"]
        found = list(getattr(self, f"_{kind}", lambda *_: ())(node, around, truth_only)) or list(self._alone(node, truth_only))
        yield from found
        for place, child in enumerate([] if found and kind == "pipe" else _children(node)):
            same = kind in ("or_expression", "and_expression") or (kind, place) == ("pipe", 1)
            yield from self.mistakes(child, node, truth_only and same or kind == "not_expression" or (kind, place) == ("filter_projection", 2))

    def _values(self, node: Node) -> list[Any]:
        return [value for _scope, value in self.seen[id(node)]]

    def _entries(self, node: Node) -> list[Any]:
        return [entry for value in self._values(node) if isinstance(value, list) for entry in value]

    def _known_types(self, node: Node) -> set[str]:
        """The types of a node's values. The set is empty if all values were null, as for an entry that no sample has."""
        types = _types(self._values(node))
        return types if types != {"null"} or node["type"] == "literal" or node.get("value") == "null" else set()

    def _alone(self, node: Node, truth_only: bool) -> Iterator[str]:
        kind, values = node["type"], self._values(node)
        if not any(is_true(value) for value in values) and _fields(node) == {"affects_host"}:
            yield f"{_source(node)} is never true: {_ALWAYS_NAMED}"
        elif truth_only and kind not in ("and_expression", "or_expression", "pipe") and _types(values) == {"number"}:
            yield f"{_source(node)} is a number, and every number is true in JMESPath, 0 too; compare it, such as {_source(node)} > `0`"
        elif truth_only and (kind.startswith("multi_select") or kind == "literal" and node["value"] is not True and is_true(node["value"])):
            words, meant = _constants(node), "join conditions with && or ||"
            if words and len(words) >= len(node["children"]) and all(isinstance(word, str) for word in words):
                known = [_KEY_OF_WORD.get(word.strip().lower(), ("event_type", word)) for word in words]
                name, listed = known[0][0], ", ".join(f"'{word}'" for _name, word in known)
                meant = "say what it is compared with, such as " + (f"{name} == {listed}" if _is_text(node) else f"contains([{listed}], {name})")
            yield f"{_source(node)} stands alone and is always true; {meant}"

    def _field(self, node: Node, _around: Node | None, _truth_only: bool) -> Iterator[str]:
        scopes = [scope for scope, _value in self.seen[id(node)] if scope is not None]
        if node["value"] in EVENT_KEYS and scopes and not any(isinstance(scope, dict) and node["value"] in scope for scope in scopes):
            yield f"{node['value']} is looked up in {_in_words(_types(scopes))}, which has no such key, so it is always null"

    def _list(self, node: Node, _around: Node | None, _truth_only: bool) -> Iterator[str]:
        left = node["children"][0]
        types = self._known_types(left)
        if types and "array" not in types:
            name = _source(left) or "an event"
            yield f"{name} is {_in_words(types)} and not a list, so it has no entries; when is evaluated for one event, not for a list of events"

    _index_expression = _projection = _filter_projection = _flatten = _list

    def _pipe(self, node: Node, _around: Node | None, _truth_only: bool) -> Iterator[str]:
        first, *others = _sides(node)
        if self._known_types(first) - {"null"} == {"boolean"} and not any(each["type"] == "current" for side in others for each in nodes_of(side)):
            texts = [*first["children"][1:], *others]
            if first["type"] == "comparator" and all(_is_text(text) for text in texts):
                meant = _for_each(first, texts[0], texts)
            else:
                meant = " || ".join(_source(side) for side in (first, *others))
            yield f"{_source(first)} | {_source(others[0])}: | passes on the result of the left side and does not mean 'or'; write {meant}"

    def _or_expression(self, node: Node, around: Node | None, truth_only: bool) -> Iterator[str]:
        sides = [] if around and around["type"] == "or_expression" else _sides(node)
        for side in sides if truth_only else sides[:-1]:
            constant = side["type"] == "literal" and is_true(side["value"])
            if truth_only and (side["value"] is True if constant else side.get("value") == "affects_host"):
                yield f"{_source(node)} is always true, because {_source(side)} is; leave that out{'' if constant else f': {_ALWAYS_NAMED}'}"
            elif constant and not truth_only:
                yield f"{_source(node)} is always {_source(side)}; write {_for_each(around, node, sides)}"
                break

    def _comparator(self, node: Node, _around: Node | None, _truth_only: bool) -> Iterator[str]:
        sides, sign, always = node["children"], node["value"], "is always true" if node["value"] == "ne" else "is never true"
        mine, its = (self._known_types(side) for side in sides)
        if mine and its and not mine & its & (set(_TYPES) if sign in ("eq", "ne") else {"number", "string"}):
            meant = self._suggestion(sign, *sides) or self._suggestion(sign, *reversed(sides)) or self._types_of(*sides)
            yield f"{_source(node)} {always}: {meant}"
            return
        entries = [_types(self._entries(side)) - {"null"} for side in sides]
        if all(entries) and not entries[0] & entries[1]:
            yield f"{_source(node)} {always}: the entries of the list are {_in_words(entries[0])} each"
        for one, other in (sides, reversed(sides)):
            for text in _constants(other):
                why = self._why_no_match(one, text, _COMPARISONS.get(sign))
                if why:
                    yield f"{_source(node)} {always if sign in _COMPARISONS else 'compares texts letter by letter'}: {why}"

    def _types_of(self, *nodes: Node) -> str:
        return " and ".join(f"{_source(node)} is {_in_words(self._known_types(node))}" for node in nodes)

    def _suggestion(self, sign: str, one: Node, other: Node) -> str | None:
        """What the author probably meant, if the types of the two sides never match."""
        mine, its, name = self._known_types(one) - {"null"}, self._known_types(other), _source(one)
        bare = other["value"].strip().lower() if _is_text(other) else ""
        if one["type"] == "literal":
            return None
        if mine == {"array"} and its - {"null"} == {"string"}:
            return f"{name} is a list; write {'!' if sign == 'ne' else ''}contains({name}, {_source(other)})"
        if "number" in its and all(_DATE.fullmatch(str(value)) for value in self._values(one) if value is not None):
            return f"{name} is a date, such as '2026-01-31T12:00:00Z'; what is left until then is in seconds_until_not_before"
        if mine == {"number"} and re.fullmatch(r"-?\d+(\.\d+)?", bare) or mine == {"boolean"} and bare in ("true", "false"):
            return f"{name} is {_in_words(mine)}, which stands in backticks: `{bare}`"
        return f"{name} is never null" if its == {"null"} else None

    def _why_no_match(self, node: Node, text: Any, matches: Callable[[Any, Any], Any] | None) -> str | None:
        """Why no value of a node can match this text, or None if one can. C(matches): the comparison, or None for one such as <."""
        said = {each["value"] for each in nodes_of(node) if _is_text(each)}
        words = list(dict.fromkeys(value for value in self._values(node) + self._entries(node) if isinstance(value, str)))
        rest = set(words) - said - {""}
        if not isinstance(text, str) or not rest or text in words:
            return None
        if all(_DATE.fullmatch(word) for word in rest):
            right = matches not in (None, operator.eq) or (_DATE if matches else _DATE_BEGINS).fullmatch(text)
            return None if right else f"{_source(node)} is written in UTC, such as '2026-01-31T12:00:00Z'{'' if matches else ', or a beginning of that'}"
        if not matches or not rest <= _ALL_WORDS or any(matches(word, text) for word in words):
            return None
        bare = text.strip().lower()
        for word in words:
            if matches(word.strip().lower(), bare):
                begins = word.lower().find(bare)
                return f"upper and lower case and blanks count; write '{word[begins : begins + len(bare)] if begins >= 0 else word}'"
        return next((f"it is one of {', '.join(each)}" for each in _COMPLETE_SETS if rest <= set(each)), None)

    def _function_expression(self, node: Node, _around: Node | None, _truth_only: bool) -> Iterator[str]:
        if node["value"] not in _COMPARISONS or len(node["children"]) != 2:
            return
        subject, search = node["children"]
        entries, types = _types(self._entries(subject)), self._known_types(search)
        if entries - {"null"} and types and not entries & types:
            yield f"{_source(node)} is never true: the entries of {_source(subject)} are {_in_words(entries)} and {self._types_of(search)}"
            return
        matches = operator.eq if entries else _COMPARISONS[node["value"]]
        for one, other, each in ((subject, search, matches), (search, subject, lambda word, text: matches(text, word))):
            for text in _constants(other):
                why = self._why_no_match(one, text, each)
                if why:
                    yield f"{_source(node)} never finds '{text}': {why}" if each is not matches else f"{_source(node)} is never true: {why}"
