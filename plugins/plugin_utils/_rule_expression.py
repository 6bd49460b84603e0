# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is wrong with the C(when) of a rule, told before any event stands. Private to the collection; pure.

JMESPath takes nearly everything and yields null or false where a word is misspelt or types do
not fit, so that a rule would silently never decide. Here the parsed expression is walked with
what is known of an event: the types of its fields, and the words that some of them take. Only
what can never be meant is a mistake. An event type that nobody knows yet is none.

Then it is asked of events that may come, since a function fails on a field that is null only
when such an event stands. What is guarded against it passes by itself.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import random
import re
from dataclasses import dataclass

from ansible_collections.graceful.azure.plugins.module_utils._events import EVENT_KEYS, EVENT_STATUSES, EVENT_TYPES, clip
from ansible_collections.graceful.azure.plugins.module_utils._selection import SelectionError, _nodes, compile_expression

# What a rule may look up: null without backticks is a key that no event has, and so is null, as it is meant.
RULE_KEYS = (*EVENT_KEYS, "null")

_ANY = frozenset(("string", "number", "boolean", "array", "object", "null"))
_NULL = frozenset(("null",))
_NO_CONSTANT = object()
_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_DATE_BEGINS = re.compile(r"\d{4}(-\d\d(-\d\d(T[0-9:.]*Z?)?)?)?")
_OPERATORS = {"eq": "==", "ne": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_NAMED = "a rule is asked only for the hosts that the event names, so that affects_host is always true"
_ARTICLES = {"string": "a string", "number": "a number", "boolean": "true or false", "array": "a list", "object": "an object", "null": "null"}

# What is null in events of every version, once they have started, and what can be said in its place. What only an old version
# lacks is null in all of its events: there a rule that breaks is told with the first of them, which it does not approve.
_INSTEAD = {"not_before": "''", "seconds_until_not_before": "`0`"}
# More events than these are not made for one expression.
_MOST_EVENTS = 5000


@dataclass(frozen=True, eq=False)
class _Kind:
    """What is known of a value before there is one."""

    types: frozenset = _ANY
    words: tuple = ()             # the strings that it is known to take
    closed: bool = False          # whether it takes no others
    constant: object = _NO_CONSTANT
    element: _Kind | None = None    # of a list
    keys: dict | None = None        # of an object
    date: bool = False

    @property
    def is_constant(self):
        return self.constant is not _NO_CONSTANT


def _kind(*types, **more):
    return _Kind(types=frozenset(types), **more)


# Only event_id is in every version's document; a list that is missing is an empty one. Rules are asked for the hosts that the event names.
_EVENT = _kind(
    "object",
    keys={
        "event_id": _kind("string"),
        "event_type": _kind("string", "null", words=EVENT_TYPES),
        "event_status": _kind("string", "null", words=EVENT_STATUSES, closed=True),
        "event_source": _kind("string", "null", words=("Platform", "User"), closed=True),
        "resource_type": _kind("string", "null", words=("VirtualMachine",), closed=True),
        "resources": _kind("array", element=_kind("string")),
        "not_before": _kind("string", "null", date=True),
        "description": _kind("string", "null"),
        "duration_in_seconds": _kind("number", "null"),
        "affects_host": _kind("boolean", constant=True),
        "seconds_until_not_before": _kind("number", "null"),
    },
)

_RESULTS = {
    "abs": ("number",), "avg": ("number", "null"), "ceil": ("number",), "contains": ("boolean",), "ends_with": ("boolean",),
    "floor": ("number",), "join": ("string",), "keys": ("array",), "length": ("number",), "map": ("array",), "merge": ("object",),
    "starts_with": ("boolean",), "sum": ("number",), "to_array": ("array",), "to_number": ("number", "null"), "to_string": ("string",),
    "values": ("array",),
}  # fmt: skip
_TYPE_NAMES = _kind("string", words=("string", "number", "boolean", "array", "object", "null"), closed=True)


def expression_mistakes(text):
    """Every mistake in the C(when) of a rule, each a sentence; an empty list where there is none."""
    try:
        import jmespath
        from jmespath.exceptions import JMESPathError

        parsed = jmespath.compile(text).parsed
    except ImportError:
        parsed = None  # compile_expression says what to install
    except (JMESPathError, RecursionError):
        parsed = None
    reader = _Reader()
    try:
        if parsed is not None:
            reader.read(parsed)
        if not reader.mistakes:
            compile_expression(text, RULE_KEYS)
            reader.mistakes = _failures(text)
    except SelectionError as error:
        return [f"{error}{_hint(text)}"]
    except RecursionError:
        reader.mistakes = [f"{clip(text)} is nested too deeply"]
    return list(dict.fromkeys(reader.mistakes))


def is_true(value):
    """Truth as JMESPath has it: null, false and everything empty are false, numbers never are."""
    return value is not None and value is not False and value not in ("", [], {})


@functools.cache
def _failures(text):
    """What fails for an event that may come, a sentence each. Hosts have the same rules, so that the same is asked for every one."""
    import jmespath
    from jmespath.exceptions import JMESPathError
    from jmespath.visitor import TreeInterpreter

    class Asker(TreeInterpreter):
        def visit_function_expression(self, node, value):
            calls.append(node)
            result = super().visit_function_expression(node, value)
            calls.pop()
            return result

    asker = Asker()
    parsed = jmespath.compile(text).parsed
    found = {}  # per innermost call that fails: which of its fields were null, the first such event, and the error
    for event in _events(parsed):
        calls = []
        try:
            asker.visit(parsed, event)
        except (JMESPathError, RecursionError, TypeError, ValueError) as error:
            call = calls[-1] if calls else parsed
            null = frozenset(name for name in _fields(call) if calls and name in _INSTEAD and event[name] is None)
            found.setdefault(id(call), (call, {}))[1].setdefault(null, (event, error))
    return [
        _fails_at_null(call, [name for name in EVENT_KEYS if name in null]) if null else _fails(parsed, *which)
        for call, failures in found.values()
        for null, which in failures.items()
        if not any(less < null for less in failures)
    ]


def _fails_at_null(call, names):
    return (
        f"{_written(call)} fails where {' and '.join(names)} {'is' if len(names) == 1 else 'are'} null, as once the event has started;"
        f" write {_written(_with_instead(call, names))}, or {' && '.join(names)} && {_written(call)}"
    )


def _fails(parsed, event, error):
    fields = _fields(parsed)
    shown = ", ".join(f"{name} {json.dumps(event[name])}" for name in EVENT_KEYS if name in fields)
    return f"cannot be evaluated for an event with {shown}: {' '.join(str(error).split())}"


def _fields(node):
    return {each["value"] for each in _nodes(node) if each["type"] == "field"}


def _with_instead(node, names):
    """A node with what can be said in place of these fields."""
    if node["type"] == "field" and node["value"] in names:
        return dict(node, value=f"{node['value']} || {_INSTEAD[node['value']]}")
    return dict(node, children=[_with_instead(child, names) if isinstance(child, dict) else child for child in node["children"]])


def _events(parsed):
    """Events that may come, as far as the fields differ that an expression looks at: what it says of them itself is among their values."""
    fields = _fields(parsed)
    said = [node["value"] for node in _nodes(parsed) if node["type"] == "literal"]
    said = [value for each in said for value in (each if isinstance(each, list) else [each])]
    texts = list(dict.fromkeys(value for value in said if isinstance(value, str)))
    dates = [text for text in texts if _DATE_BEGINS.fullmatch(text)]
    near = sorted({value + step for value in said if isinstance(value, (int, float)) and not isinstance(value, bool) for step in (-1, 0, 1)})
    values = {
        "event_id": ["602d9444-d2cd-49c7-8624-8643e7171297"],
        "event_type": list(dict.fromkeys((*EVENT_TYPES, *texts))),
        "event_status": EVENT_STATUSES,
        "event_source": ["Platform", "User"],
        "resource_type": ["VirtualMachine"],
        "resources": [["vm_0"], [*texts, "vm_0", "vm_1"]],
        "not_before": ["2026-01-31T12:00:00Z", *dates, None],
        "description": ["Host server is undergoing maintenance.", *texts, " ".join(texts)],
        "duration_in_seconds": [5, -1, 0, *near],
        "affects_host": [True],
        "seconds_until_not_before": [900.0, *near, None],
    }
    columns = [options if name in fields else options[:1] for name, options in values.items()]
    rows = itertools.product(*columns)
    if math.prod(len(options) for options in columns) > _MOST_EVENTS:
        some = random.Random(0)
        rows = ([some.choice(options) for options in columns] for _number in range(_MOST_EVENTS))
    return (dict(zip(values, row)) for row in rows)


def _hint(text):
    """What people write who know other languages, and what JMESPath has for it."""
    bare = re.sub(r"'[^']*'|`[^`]*`|\"[^\"]*\"", "''", text)
    if re.search(r"(==|!=|<=?|>=?)\s*-?\d", bare):
        return " Numbers stand in backticks, such as `5`."
    if re.search(r"[^=!<>]=[^=]", bare):
        return " Equal is written ==."
    if re.search(r"\b(and|or|not|in)\b", bare):
        return " JMESPath has &&, ||, ! and contains(list, value)."
    return ""


def _written(node):
    """A node as a person would write it, as far as that is short."""
    kind, children = node["type"], node["children"]
    if kind == "field":
        text = node["value"]
    elif kind == "literal":
        text = f"'{node['value']}'" if isinstance(node["value"], str) else f"`{json.dumps(node['value'])}`"
    elif kind == "current":
        text = "@"
    elif kind == "identity":
        text = "the event"
    elif kind == "function_expression":
        text = f"{node['value']}({', '.join(_written(child) for child in children)})"
    elif kind == "subexpression":
        text = ".".join(_written(child) for child in children)
    elif kind == "index_expression" and children[1]["type"] == "index":
        text = f"{_written(children[0])}[{children[1]['value']}]"
    elif kind == "comparator":
        text = f"{_written(children[0])} {_OPERATORS[node['value']]} {_written(children[1])}"
    elif kind == "not_expression":
        text = f"!{_written(children[0])}"
    elif kind in ("or_expression", "and_expression"):
        text = "(" + f" {'||' if kind == 'or_expression' else '&&'} ".join(_written(child) for child in children) + ")"
    elif kind == "multi_select_list":
        text = f"[{', '.join(_written(child) for child in children)}]"
    elif kind in ("projection", "filter_projection", "flatten"):
        text = _written(children[0]) + {"projection": "[*]", "filter_projection": "[?...]", "flatten": "[]"}[kind]
    elif kind == "multi_select_dict":
        text = "{" + ", ".join(f"{child['value']}: {_written(child['children'][0])}" for child in children) + "}"
    else:
        text = "..."
    return text if len(text) <= 120 else text[:117] + "..."


def _sides(node):
    """What stands between the signs of a || b || c, or of a | b | c."""
    left, right = node["children"]
    return [*(_sides(left) if left["type"] == node["type"] else [left]), right]


def _one_of(comparison, subject, sides):
    """The condition that a value is one of these texts; None where they are none, or it is no comparison for equality."""
    if comparison["value"] in ("eq", "ne") and all(side["type"] == "literal" and isinstance(side["value"], str) for side in sides):
        return f"{'!' if comparison['value'] == 'ne' else ''}contains([{', '.join(_written(side) for side in sides)}], {_written(subject)})"
    return None


def _types_in_words(kind):
    types = sorted(kind.types - _NULL) or ["null"]
    return " or ".join(_ARTICLES[name] for name in types)


def _of_constant(value):
    if value is None:
        return _kind("null", constant=None)
    if isinstance(value, bool):
        return _kind("boolean", constant=value)
    if isinstance(value, (int, float)):
        return _kind("number", constant=value)
    if isinstance(value, str):
        return _kind("string", constant=value)
    if isinstance(value, list):
        return _kind("array", constant=value, element=_union([_of_constant(entry) for entry in value]))
    return _kind("object", constant=value, keys={key: _of_constant(entry) for key, entry in value.items()})


def _union(kinds):
    """What is known of a value that is one of these."""
    if len(kinds) == 1:
        return kinds[0]
    return _Kind(types=frozenset().union(*(kind.types for kind in kinds)) if kinds else _ANY)


def _alternative(left, right):
    """What is known of left || right."""
    types = left.types - _NULL | right.types
    extra = (right.constant,) if isinstance(right.constant, str) else right.words
    if left.words and extra:
        return _Kind(types=types, words=left.words + extra, closed=left.closed and (right.closed or right.is_constant))
    return _Kind(types=types)


class _Reader:
    """Walks a parsed expression; C(mistakes) holds what it finds."""

    def __init__(self):
        self.mistakes = []
        self.made = set()     # keys of objects that the expression itself makes
        self.functions = {}
        self.path = []        # the nodes from the top to the one that is walked

    def read(self, parsed):
        from jmespath.functions import Functions

        self.functions = Functions.FUNCTION_TABLE
        self._note_made(parsed)
        self._condition(parsed, _EVENT)

    def _note_made(self, node):
        if node["type"] == "key_val_pair":
            self.made.add(node["value"])
        for child in node["children"]:
            if isinstance(child, dict):
                self._note_made(child)

    def _condition(self, node, scope):
        """Walk what is asked for its truth alone; returns what is known of its value."""
        if node["type"] in ("or_expression", "and_expression"):
            for child in node["children"]:
                kind = self._condition(child, scope)
                if node["type"] == "or_expression" and kind.constant is True:
                    because = "" if child["type"] == "literal" else f": {_NAMED}"
                    self.mistakes.append(f"{_written(node)} is always true, since {_written(child)} is; leave that out{because}")
            return _Kind()
        if node["type"] == "pipe":
            scope = self._piped(node, scope)
            return _Kind() if scope is None else self._condition(_sides(node)[-1], scope)
        kind = self._walk(node, scope)
        if kind.types == {"number"}:
            self.mistakes.append(f"{_written(node)} is a number, and every number is true in JMESPath, 0 too; compare it, such as {_written(node)} > `0`")
        elif kind.is_constant and kind.constant is not True and is_true(kind.constant) or node["type"] in ("multi_select_list", "multi_select_dict"):
            self.mistakes.append(f"{_written(node)} stands alone and is always true; {self._compared(kind.constant)}")
        return kind

    @staticmethod
    def _compared(constant):
        """The comparison that was probably meant by something that stands alone."""
        words = constant if isinstance(constant, list) else [constant]
        if not all(isinstance(word, str) for word in words):
            return "join conditions with && or ||"
        owners = {_fold(word): (name, word) for name, kind in _EVENT.keys.items() for word in kind.words}
        names, words = zip(*(owners.get(_fold(word), ("event_type", word)) for word in words))
        listed = ", ".join(f"'{word}'" for word in words)
        meant = f"contains([{listed}], {names[0]})" if isinstance(constant, list) else f"{names[0]} == {listed}"
        return f"say what it is compared with, such as {meant}"

    def _walk(self, node, scope):
        """Note the mistakes below a node; returns what is known of its value."""
        self.path.append(node)
        kind = getattr(self, "_walk_" + node["type"], self._walk_unknown)(node, scope)
        self.path.pop()
        return kind

    def _walk_unknown(self, node, _scope):
        for child in node["children"]:
            if isinstance(child, dict):
                self._walk(child, _Kind())
        return _Kind()

    def _walk_field(self, node, scope):
        name = node["value"]
        if name == "null" and name not in self.made:
            return _of_constant(None)
        if name in ("true", "false") and name not in self.made:
            self.mistakes.append(f"{name} stands in backticks: `{name}`")
            return _Kind()
        if name not in EVENT_KEYS and name not in self.made:
            self.mistakes.append(
                f"the word {clip(name)} is not a key of an event, so it would never match. "
                f"Put strings in single quotes, such as 'Freeze'. The keys are {', '.join(EVENT_KEYS)}"
            )
            return _Kind()
        if "object" not in scope.types:
            self.mistakes.append(f"{name} is looked up in {_types_in_words(scope)}, which has no keys, so it is always null")
            return _Kind()
        if scope.keys is None:
            return _Kind()
        if name not in scope.keys:
            self.mistakes.append(f"{name} is looked up in an object that has no such key, only {', '.join(scope.keys)}, so it is always null")
            return _Kind()
        return self._maybe(scope.keys[name], "null" in scope.types)

    @staticmethod
    def _maybe(kind, null):
        return _Kind(kind.types | _NULL, kind.words, kind.closed, element=kind.element, keys=kind.keys, date=kind.date) if null else kind

    @staticmethod
    def _walk_current(_node, scope):
        return scope

    _walk_identity = _walk_current

    @staticmethod
    def _walk_literal(node, _scope):
        return _of_constant(node["value"])

    def _walk_chain(self, node, scope):
        for child in node["children"]:
            scope = self._walk(child, scope)
        return scope

    _walk_subexpression = _walk_index_expression = _walk_chain

    def _walk_pipe(self, node, scope):
        scope = self._piped(node, scope)
        return _Kind() if scope is None else self._walk(_sides(node)[-1], scope)

    def _piped(self, node, scope):
        """What a pipe hands to its last side; None, and a mistake, where | is written for or."""
        first, *others = _sides(node)
        scope = self._walk(first, scope)
        if scope.types <= {"boolean", "null"} and not any(each["type"] == "current" for side in others for each in _nodes(side)):
            meant = _one_of(first, first["children"][0], [first["children"][1], *others]) if first["type"] == "comparator" else None
            meant = meant or " || ".join(_written(side) for side in (first, *others))
            self.mistakes.append(f"{_written(first)} | {_written(others[0])}: | passes on the result of the left side and does not mean 'or'; write {meant}")
            return None
        for side in others[:-1]:
            scope = self._walk(side, scope)
        return scope

    def _element(self, kind, what):
        """What is known of the entries of a list; a mistake where it is none."""
        if "array" in kind.types:
            return kind.element or _Kind()
        if kind is _EVENT:
            self.mistakes.append("a rule's when is asked of one event, not of a list of events; write the condition without the brackets around it")
            return kind
        self.mistakes.append(f"{what} is {_types_in_words(kind)} and no list, so it has no entries")
        return _Kind()

    def _walk_index(self, _node, scope):
        return self._maybe(self._element(scope, "what stands before the brackets"), True)

    def _walk_slice(self, _node, scope):
        if "string" in scope.types:
            return _Kind(types=scope.types)
        return _kind("array", element=self._element(scope, "what stands before the brackets"))

    def _walk_projection(self, node, scope):
        left, right = node["children"]
        element = self._element(self._walk(left, scope), _written(left))
        return _kind("array", "null", element=self._walk(right, element))

    def _walk_filter_projection(self, node, scope):
        left, right, condition = node["children"]
        element = self._element(self._walk(left, scope), _written(left))
        self._condition(condition, element)
        return _kind("array", "null", element=self._walk(right, element))

    def _walk_flatten(self, node, scope):
        (left,) = node["children"]
        element = self._element(self._walk(left, scope), _written(left))
        return _kind("array", "null", element=element if "array" not in element.types else _Kind())

    def _walk_value_projection(self, node, scope):
        left, right = node["children"]
        self._walk(left, scope)
        return _kind("array", "null", element=self._walk(right, _Kind()))

    def _walk_or_expression(self, node, scope):
        sides = _sides(node)
        known, *kinds = [self._walk(side, scope) for side in sides]
        for number, kind in enumerate(kinds):
            if known.is_constant and is_true(known.constant):
                self.mistakes.append(f"{_written(node)} is always {_written(sides[number])}; write {self._apart(node, sides)}")
                return known
            known = _alternative(known, kind)
        return known

    def _apart(self, node, sides):
        """What was probably meant by the alternatives in place of one value: the condition once for each."""
        around = self.path[-2] if len(self.path) > 1 else None
        if around is not None and around["type"] in ("comparator", "function_expression"):
            if around["type"] == "comparator":
                (subject,) = [child for child in around["children"] if child is not node]
                meant = _one_of(around, subject, sides)
                if meant:
                    return meant
            each = (dict(around, children=[side if child is node else child for child in around["children"]]) for side in sides)
            return (" && " if around["value"] == "ne" else " || ").join(_written(one) for one in each)
        return ", ".join(_written(side) for side in sides)

    def _walk_and_expression(self, node, scope):
        return _Kind(types=frozenset().union(*(self._walk(child, scope).types for child in node["children"])))

    def _walk_not_expression(self, node, scope):
        (child,) = node["children"]
        kind = self._condition(child, scope)
        if kind.constant is True and child["type"] != "literal":
            self.mistakes.append(f"{_written(node)} is never true: {_NAMED}")
        return _kind("boolean")

    def _walk_multi_select_list(self, node, scope):
        kinds = [self._walk(child, scope) for child in node["children"]]
        constant = [kind.constant for kind in kinds] if all(kind.is_constant for kind in kinds) else _NO_CONSTANT
        return _kind("array", element=_union(kinds), constant=constant)

    def _walk_multi_select_dict(self, node, scope):
        return _kind("object", keys={child["value"]: self._walk(child["children"][0], scope) for child in node["children"]})

    def _walk_comparator(self, node, scope):
        left, right = (self._walk(child, scope) for child in node["children"])
        if node["value"] in ("eq", "ne"):
            self._equal(node, left, right)
            return _kind("boolean")
        self._ordered(node, left, right)
        return _kind("boolean", "null")

    def _equal(self, node, left, right):
        always = "is never true" if node["value"] == "eq" else "is always true"
        if not left.types & right.types:
            self.mistakes.append(f"{_written(node)} {always}: {self._difference(node, left, right)}")
            return
        for one, other in ((left, right), (right, left)):
            if one.element and isinstance(other.constant, list) and other.constant:
                if not one.element.types & other.element.types:
                    self.mistakes.append(f"{_written(node)} {always}: the entries of the list are {_types_in_words(one.element)} each")
                    return
            said = self._no_such_word(one, other.constant, lambda word, text: word == text)
            if said is None and one.date and isinstance(other.constant, str) and not _DATE.fullmatch(other.constant):
                said = "not_before is written in UTC, such as '2026-01-31T12:00:00Z'"
            if said:
                self.mistakes.append(f"{_written(node)} {always}: {said}")
                return
            named = one.constant is True and any(child["type"] != "literal" for child in node["children"])
            if named and other.constant is (node["value"] == "ne"):
                self.mistakes.append(f"{_written(node)} is never true: {_NAMED}")
                return

    def _ordered(self, node, left, right):
        if not any(name in left.types and name in right.types for name in ("number", "string")):
            self.mistakes.append(f"{_written(node)} is never true: {self._difference(node, left, right)}")
            return
        for one, other in ((left, right), (right, left)):
            if one.date and isinstance(other.constant, str) and not _DATE_BEGINS.fullmatch(other.constant):
                self.mistakes.append(
                    f"{_written(node)} compares texts, letter by letter: not_before is written in UTC, such as '2026-01-31T12:00:00Z', or a beginning of that"
                )

    @staticmethod
    def _difference(node, left, right):
        """Why two values of these types never meet, and what is probably meant."""
        sides = (node["children"][0], left, right), (node["children"][1], right, left)
        for written, kind, other in sides:
            name = _written(written)
            plain = not kind.is_constant or written["type"] == "field"
            text = other.constant if isinstance(other.constant, str) else None
            if plain and kind.types == {"array"} and other.types - _NULL == {"string"}:
                wanted = f"'{text}'" if text is not None else "..."
                return f"{name} is a list; write {'!' if node['value'] == 'ne' else ''}contains({name}, {wanted})"
            if plain and kind.date and "number" in other.types:
                return "not_before is a date, such as '2026-01-31T12:00:00Z'; what is left until then is in seconds_until_not_before"
            if plain and kind.types - _NULL == {"number"} and text is not None and re.fullmatch(r"\s*-?\d+(\.\d+)?\s*", text):
                return f"{name} is a number, which stands in backticks: `{text.strip()}`"
            if plain and kind.types - _NULL == {"boolean"} and text is not None and text.strip().lower() in ("true", "false"):
                return f"{name} is true or false, which stands in backticks: `{text.strip().lower()}`"
        for written, _itself, other in sides:
            if other.types == _NULL:
                return f"{_written(written)} is never null"
        plain = [(written, kind) for written, kind, _other in sides if not kind.is_constant or written["type"] == "field"]
        described = [f"{_written(written)} is {_types_in_words(kind)}" for written, kind in plain]
        constants = [_types_in_words(kind) for written, kind, _other in sides if kind.is_constant and written["type"] != "field"]
        return " and ".join(described + ([f"not {constants[0]}"] if described and constants else [])) or "these constants never change"

    @staticmethod
    def _no_such_word(kind, text, meets):
        """Why none of the words that a value takes meets the text; None where one may."""
        if not kind.words or not isinstance(text, str) or any(meets(word, text) for word in kind.words):
            return None
        close = [word for word in kind.words if meets(_fold(word), _fold(text))]
        if close:
            begins = close[0].lower().find(text.strip().lower())
            right = close[0][begins:begins + len(text.strip())] if begins >= 0 else close[0]
            return f"upper and lower case and blanks count; write '{right}'"
        return f"it is one of {', '.join(kind.words)}" if kind.closed else None

    def _walk_expref(self, node, _scope):
        self._walk(node["children"][0], _Kind())
        return _Kind(types=frozenset(("expref",)))

    def _walk_function_expression(self, node, scope):
        name, children = node["value"], node["children"]
        kinds = [None if child["type"] == "expref" else self._walk(child, scope) for child in children]
        elements = [kind.element for kind in kinds if kind and kind.element]
        for number, child in enumerate(children):
            if kinds[number] is None:
                self._walk(child["children"][0], elements[0] if elements else _Kind())
                kinds[number] = _Kind(types=frozenset(("expref",)))
        if name not in self.functions:
            self.mistakes.append(f"JMESPath has no function {clip(name)}; it has {', '.join(sorted(self.functions))}")
            return _Kind()
        if not self._arguments_fit(node, kinds):
            return _Kind()
        if name in ("contains", "starts_with", "ends_with"):
            self._finds(node, *kinds)
        return self._result(name, kinds)

    def _arguments_fit(self, node, kinds):
        signature = list(self.functions[node["value"]]["signature"])
        variadic = bool(signature) and bool(signature[-1].get("variadic"))
        if len(kinds) < len(signature) or len(kinds) > len(signature) and not variadic:
            wanted = f"{len(signature)}{' or more' if variadic else ''}"
            self.mistakes.append(f"{_written(node)} has {len(kinds)} argument{'' if len(kinds) == 1 else 's'}, and the function takes {wanted}")
            return False
        fits = True
        for number, kind in enumerate(kinds):
            allowed = {name.partition("-")[0] for name in signature[min(number, len(signature) - 1)]["types"]}
            if allowed and not kind.types & allowed:
                wanted = " or ".join(_ARTICLES.get(name, "an expression such as &@") for name in sorted(allowed))
                self.mistakes.append(f"{_written(node)} cannot be evaluated: {_written(node['children'][number])} is {_types_in_words(kind)} and not {wanted}")
                fits = False
        return fits

    def _finds(self, node, subject, search):
        """A search that can find nothing."""
        if "array" not in subject.types:
            if "string" not in search.types:
                self.mistakes.append(f"{_written(node)} cannot be evaluated: {_written(node['children'][1])} is {_types_in_words(search)} and no string")
                return
            meets = {
                "contains": lambda word, text: text in word,
                "starts_with": lambda word, text: word.startswith(text),
                "ends_with": lambda word, text: word.endswith(text),
            }[node["value"]]
            said = self._no_such_word(subject, search.constant, meets)
            said = said or self._no_such_word(search, subject.constant, lambda word, text: meets(text, word))
            if said:
                self.mistakes.append(f"{_written(node)} is never true: {said}")
        elif "string" not in subject.types and subject.element:
            self._finds_entry(node, subject, search)

    def _finds_entry(self, node, subject, search):
        if subject.constant == []:
            return
        if not subject.element.types & search.types:
            self.mistakes.append(
                f"{_written(node)} is never true: the entries of {_written(node['children'][0])} are {_types_in_words(subject.element)}"
                f" and {_written(node['children'][1])} is {_types_in_words(search)}"
            )
            return
        pairs = [(subject.element, search.constant)]
        if subject.is_constant:
            pairs.extend((search, entry) for entry in subject.constant)
        for kind, text in pairs:
            said = self._no_such_word(kind, text, lambda word, text: word == text)
            if said:
                self.mistakes.append(f"{_written(node)} never finds '{text}': {said}")

    @staticmethod
    def _result(name, kinds):
        first = kinds[0]
        if name in _RESULTS:
            element = _kind("string") if name == "keys" else first if name == "to_array" and "array" not in first.types else None
            return _Kind(types=frozenset(_RESULTS[name]), element=element)
        if name == "type":
            return _TYPE_NAMES
        if name == "not_null":
            known = kinds[0]
            for kind in kinds[1:]:
                known = _alternative(known, kind)
            return known
        if name in ("sort", "sort_by", "reverse"):
            return _Kind(types=first.types & {"array", "string"}, element=first.element)
        if name in ("max", "min", "max_by", "min_by"):
            return _Reader._maybe(first.element or _Kind(), True)
        return _Kind()


def _fold(text):
    return text.strip().lower()
