# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a module of another collection documents, and whether a call of it is one that it understands.

The check is stricter than Ansible's: nothing is converted. A number that is given as a text is a mistake here.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import yaml

TYPES = {"str": str, "path": str, "bool": bool, "int": int, "float": (int, float), "list": list, "dict": dict, "raw": object}


@cache
def options_of(collections, module):
    """The options of a module, by name. ``collections``: the folder that has ansible_collections."""
    namespace, name, short = module.split(".")
    plugins = Path(collections) / "ansible_collections" / namespace / name / "plugins"
    sidecar = plugins / "modules" / f"{short}.yml"
    if sidecar.exists():
        told = yaml.safe_load(sidecar.read_text(encoding="utf-8"))["DOCUMENTATION"]
    else:
        told = yaml.safe_load(_constant(plugins / "modules" / f"{short}.py", "DOCUMENTATION"))
    options = {}
    for fragment in told.get("extends_documentation_fragment") or ():
        if fragment.startswith(f"{namespace}.{name}."):
            text = _constant(plugins / "doc_fragments" / f"{fragment.rpartition('.')[2]}.py", "DOCUMENTATION")
            options.update(yaml.safe_load(text)["options"])
    for key, option in (told.get("options") or {}).items():
        options[key] = {**options.get(key, {}), **option}
    return options


def _constant(path, name):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Assign) and [target.id for target in node.targets if isinstance(target, ast.Name)] == [name]:
            return ast.literal_eval(node.value)
    raise AssertionError(f"{path} has no {name}")


def mistakes_in(options, args, where=""):
    """A sentence for each thing that the module would not understand."""
    names = {alias: name for name, option in options.items() for alias in [name, *(option.get("aliases") or ())]}
    for key, value in args.items():
        if key not in names:
            yield f"{where}there is no option {key}"
            continue
        option = options[names[key]]
        yield from _wrong(option, value, f"{where}{key}")
    for name, option in options.items():
        if option.get("required") and not any(alias in args for alias, meant in names.items() if meant == name):
            yield f"{where}{name} is required"


def _wrong(option, value, where):
    kind = option.get("type", "str")
    if not isinstance(value, TYPES[kind]) or (kind in ("int", "float") and isinstance(value, bool)):
        yield f"{where} is {value!r}, which is no {kind}"
        return
    if option.get("choices") and value not in option["choices"]:
        yield f"{where} is {value!r}, none of {option['choices']}"
    if kind == "list" and option.get("elements"):
        for entry in value:
            yield from _wrong({"type": option["elements"]}, entry, f"an entry of {where}")
    if kind == "dict" and option.get("suboptions"):
        yield from mistakes_in(option["suboptions"], value, f"{where}.")
