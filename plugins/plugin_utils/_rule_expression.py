# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is wrong with the C(when) of a rule, told before any event stands. Private to the collection; pure.

JMESPath takes nearly everything and yields null or false where a word is misspelt or types do
not fit, so that a rule would silently never decide. Here the parsed expression is walked with
what is known of an event: the types of its fields, and the words that some of them take. Only
what can never be meant is a mistake. An event type that nobody knows yet is none.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from ansible_collections.graceful.azure.plugins.module_utils._events import EVENT_KEYS, EVENT_STATUSES, EVENT_TYPES, clip
from ansible_collections.graceful.azure.plugins.module_utils._selection import SelectionError, compile_expression

_ANY = frozenset(("string", "number", "boolean", "array", "object", "null"))
_NULL = frozenset(("null",))
_NO_CONSTANT = object()
_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_DATE_BEGINS = re.compile(r"\d{4}(-\d\d(-\d\d(T[0-9:.]*Z?)?)?)?")
_OPERATORS = {"eq": "==", "ne": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_ARTICLES = {"string": "a string", "number": "a number", "boolean": "true or false", "array": "a list", "object": "an object", "null": "null"}


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


# Only event_id is in every version's document; a list that is missing is an empty one.
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
        "affects_host": _kind("boolean", "null"),
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
    except RecursionError:
        reader.mistakes = [f"{clip(text)} is nested too deeply"]
    if not reader.mistakes:
        try:
            compile_expression(text, EVENT_KEYS)
        except SelectionError as error:
            return [f"{error}{_hint(text)}"]
    return list(dict.fromkeys(reader.mistakes))


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
        """Walk what is asked for its truth alone."""
        if node["type"] in ("or_expression", "and_expression", "not_expression"):
            for child in node["children"]:
                self._condition(child, scope)
            return
        kind = self._walk(node, scope)
        if node["type"] == "literal" and isinstance(node["value"], str) and node["value"]:
            self.mistakes.append(f"{_written(node)} stands alone and is always true; say what it is compared with, such as {self._owner(node)}")
        elif kind.types == {"number"}:
            self.mistakes.append(f"{_written(node)} is a number, and every number is true in JMESPath, 0 too; compare it, such as {_written(node)} > `0`")

    @staticmethod
    def _owner(node):
        """The comparison that was probably meant by a word alone."""
        text = node["value"]
        for name, kind in _EVENT.keys.items():
            for word in kind.words:
                if _fold(word) == _fold(text):
                    return f"{name} == '{word}'"
        return f"event_type == '{text}'"

    def _walk(self, node, scope):
        """Note the mistakes below a node; returns what is known of its value."""
        return getattr(self, "_walk_" + node["type"], self._walk_unknown)(node, scope)

    def _walk_unknown(self, node, _scope):
        for child in node["children"]:
            if isinstance(child, dict):
                self._walk(child, _Kind())
        return _Kind()

    def _walk_field(self, node, scope):
        name = node["value"]
        if name not in EVENT_KEYS and name not in self.made:
            self.mistakes.append(
                f"the word {clip(name)} is no key of an event, so it would never match. "
                f"Strings stand in single quotes, such as 'Freeze'; the keys are {', '.join(EVENT_KEYS)}"
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

    _walk_subexpression = _walk_index_expression = _walk_pipe = _walk_chain

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
        left, right = (self._walk(child, scope) for child in node["children"])
        return _alternative(left, right)

    def _walk_and_expression(self, node, scope):
        return _Kind(types=frozenset().union(*(self._walk(child, scope).types for child in node["children"])))

    def _walk_not_expression(self, node, scope):
        self._condition(node["children"][0], scope)
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
            plain = not kind.is_constant
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
        described = [f"{_written(written)} is {_types_in_words(kind)}" for written, kind, _other in sides if not kind.is_constant]
        constants = [_types_in_words(kind) for _node, kind, _other in sides if kind.is_constant]
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
