# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options as users write them, checked: their types, choices and limits, and what is a port, a path or an address. Pure.

A mistake is a sentence that begins with what people call the option.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible.module_utils.common.validation import check_type_bool, check_type_dict, check_type_int, check_type_list
from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.graceful.azure.plugins.module_utils._spellings import NOT_ABSOLUTE, is_lookable, meant, mistake_in_seconds, port_mistake
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.by_platform import is_absolute
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json, Options, Specs

Called = Callable[[str], str]
"""What people call an option of which the name is known: by the variable, or by the entry of a list in which it stands."""
TYPES = {
    **{"bool": "true or false", "int": "a whole number", "float": "a number", "list": "a list", "dict": "a dictionary"},
    **{"str": "a text", "path": "a path"},
}


def read_options(given: Mapping[str, Any], specs: Specs, called: Called, mistakes: list[str], elsewhere: Iterable[str] = ()) -> tuple[Options, set[str]]:
    """The options in their types, with the defaults of those that are not set; and the names of those that are wrong.

    C(elsewhere): the paths that are none of another machine, so they need not be absolute.
    """
    read: Options = {}
    wrong = set()
    for option, spec in specs.items():
        found: list[str] = []
        read[option] = _read(given, option, spec, called(option), found)
        if spec["type"] == "path" and option not in elsewhere and not found:
            check_path(found, called(option), read[option])
        if spec.get("elements") == "path":
            for path in read[option] or ():
                check_path(found, called(option), path)
        if found:
            wrong.add(option)
            mistakes.extend(found)
    return read, wrong


def is_set(value: Any) -> bool:
    """Null and an empty text stand for what is not set, as templates yield them."""
    return value is not None and not (isinstance(value, str) and not value)


def _read(given: Mapping[str, Any], option: str, spec: Json, called: str, mistakes: list[str]) -> Any:
    value, default, kind = given.get(option), spec.get("default"), spec["type"]
    if not is_set(value):
        if spec.get("required"):
            means = f"write one of {', '.join(spec['choices'])}" if "choices" in spec else spec.get("means")
            mistakes.append(f"{called}: not set" + (f"; {means}" if means else ""))
        elif option in given and default is not None and kind not in ("str", "path"):
            mistakes.append(f"{called}: {'null' if value is None else 'an empty text'} is not {TYPES[kind]}; leave it out for the default")
        return default
    if kind == "float":
        return check_number(mistakes, called, value, spec.get("least", 0.0), default)
    if kind == "list" and not spec.get("or_text") and isinstance(value, (str, bool, int, float)):
        mistakes.append(f"{called}: {value!r} is {'a text' if isinstance(value, str) else 'a single value'}; it must be a list")
        return default
    try:
        read = _CONVERTED[kind](value)
    except (TypeError, ValueError):
        mistakes.append(f"{called}: {value!r} cannot be read as {TYPES[kind]}")
        return default
    if kind == "list":
        read = list(_elements(read, spec.get("elements", "raw"), called, mistakes))
    if "choices" in spec and read not in spec["choices"]:
        mistakes.append(f"{called}: {value!r} is none of {', '.join(spec['choices'])}{meant(value, spec['choices'])}")
        return default
    return read


def _elements(values: Iterable[Any], kind: str, called: str, mistakes: list[str]) -> Iterable[Any]:
    for value in values:
        try:
            yield _CONVERTED[kind](value)
        except (TypeError, ValueError):
            mistakes.append(f"{called}: {value!r} cannot be read as {TYPES[kind]}")


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple, dict, set)):
        raise TypeError
    return str(value)


def _whole_number(value: Any) -> int:
    if isinstance(value, bool) or value in (math.inf, -math.inf):
        raise TypeError
    return int(check_type_int(value))


_CONVERTED: dict[str, Callable[[Any], Any]] = {
    **{"str": _text, "path": _text, "int": _whole_number, "bool": check_type_bool, "list": check_type_list, "dict": check_type_dict},
    "raw": lambda value: value,
}


def check_number(mistakes: list[str], called: str, value: Any, least: float = 0.0, default: float | None = None) -> float | None:
    """A number of seconds from C(least) up; the default after a mistake was noted."""
    if not mistake_in_seconds(value, least):
        return float(value)
    mistakes.append(f"{called}: {value!r} is not a number of seconds from {least:g} up")
    return default if default is None else float(default)


def port(value: Any) -> int | None:
    """The number of a TCP port, or None."""
    return None if port_mistake(value) else int(str(value))


def check_port(mistakes: list[str], called: str, value: Any) -> None:
    mistake = port_mistake(value)
    if mistake:
        mistakes.append(f"{called}: {mistake}")


def check_boolean(mistakes: list[str], name: str, value: Any) -> bool:
    """Whether it is true. What is neither true nor false is a mistake; the filter C(bool) would take it for false."""
    try:
        return bool(boolean(value))
    except TypeError:
        mistakes.append(f"{name}: {value!r} is neither true nor false")
        return False


def check_path(mistakes: list[str], name: str, value: Any, where: str = "") -> None:
    """A path on another machine must be absolute: the working folder of a module is another one in each run. C(~) and C($HOME) are the machine's own."""
    if is_set(value) and (not isinstance(value, str) or not is_absolute(value)):
        mistakes.append(f"{where}{name}: {NOT_ABSOLUTE % (value,)}")


def check_address(mistakes: list[str], name: str, address: str) -> None:
    """A name or a bare IP address, as it can be connected to."""
    try:
        ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        if ":" in address or not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9.])?", address) or not is_lookable(address):
            mistakes.append(f"{name}: {address!r} is neither a name nor an IP address; write it without a scheme, brackets or a port")


def check_imds_url(mistakes: list[str], url: Any) -> None:
    if url is None:
        return
    # Only here: the client brings a library that takes longer to load than all the rest.
    from ansible_collections.graceful.azure.plugins.module_utils._imds import ImdsSetupError, check_url

    try:
        check_url(url)
    except ImdsSetupError as error:
        mistakes.append(f"graceful_azure_{error}")
