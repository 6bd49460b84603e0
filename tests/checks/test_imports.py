# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which file of plugins/ imports which, as docs/architecture.md says."""

from __future__ import annotations

import ast
import functools
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.support.checkout import ROOT

PLUGINS = ROOT / "plugins"
OURS = "ansible_collections.graceful.azure.plugins."
FILES = sorted(path.relative_to(PLUGINS).as_posix() for path in PLUGINS.rglob("*.py"))

# What is seen of hosts, machines and events, what results say, and what a duty is in general: each duty reads it.
BASES = tuple(f"plugin_utils/_duties/{name}.py" for name in ("duty", "on_host", "servers", "traffic"))
LISTS = tuple(f"plugin_utils/_duties/{name}.py" for name in ("groups", "listed", "all_types"))
SEEN = (
    *BASES,
    *(f"plugin_utils/_planning/{name}.py" for name in ("addresses", "document", "events", "hosts", "memory", "places", "verdicts")),
    *(f"plugin_utils/_steps/{name}.py" for name in ("azure_resource_manager", "events", "results")),
)
DUTIES = tuple(path for path in FILES if path.startswith("plugin_utils/_duties/") and path not in BASES)
SIDES = ("module_utils", "plugin_utils")
# On the machine's side, a file for each type. The others are what all of them share.
SHARED = ("duty", "in_order", "machine", "options", "all_types", "stopped")
TYPES = tuple(path for path in FILES if path.rpartition("/")[0] == "module_utils/_duties" and Path(path).stem not in SHARED)
BOTH_SIDES = tuple(path for path in FILES if path.startswith("module_utils/_duties/both_sides/"))
KINDS = [Path(path).stem for path in TYPES]
DECIDING = tuple(path for path in FILES if path.split("/")[1] in ("_planning", "_steps") and path not in SEEN)
# From the top, as on that page. A file belongs to the first layer with a pattern that fits.
LAYERS = [
    ("action/*", "filter/*", "modules/*", "lookup/*", "plugin_utils/_platforms/*"),
    DECIDING,
    DUTIES,
    SEEN,
    ("module_utils/_handle.py",),
    ("module_utils/_duties/in_order.py",),
    tuple(f"module_utils/_{name}.py" for name in ("answer", "approval_record", "host_look")),
    ("module_utils/_duties/all_types.py",),
    TYPES,
    ("module_utils/_duties/*",),
    tuple(f"module_utils/_{name}*.py" for name in (*KINDS, "health_actions", "stopped_in_order", "systemd")),
    ("module_utils/_hold_engine.py",),
    ("module_utils/*",),
]
PURE_UTILS = [
    *BOTH_SIDES,
    *(f"module_utils/_{name}.py" for name in ("azure_access", "conditions", "duties/options", "events", "nginx_lines", "pools", "record_kinds", "spellings")),
]
PURE = [path for path in FILES if path.startswith("plugin_utils/") and path.split("/")[1] in ("_planning", "_duties", "_steps")]


def nodes_of(tree, at_run_time):
    """The nodes of a file. C(at_run_time): without what only a type checker reads."""
    for node in ast.iter_child_nodes(tree):
        if not (at_run_time and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            yield from nodes_of(node, at_run_time)


@functools.cache
def imported(path, at_run_time=False):
    """The modules that a file imports, those of the collection as files of FILES."""
    found = set()
    for node in nodes_of(ast.parse((PLUGINS / path).read_text(encoding="utf-8")), at_run_time):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "whole names, as everywhere"
            # A name in a package is a module, too.
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    files = {name: name[len(OURS) :].replace(".", "/") + ".py" for name in found if name.startswith(OURS)}
    return {files.get(name, name) for name in found if name not in files or files[name] in FILES}


def bodies_of(path):
    """What the functions of a file do, each with its name. Without a docstring, and only of those that do more than pass something on."""
    for node in ast.walk(ast.parse((PLUGINS / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            body = "\n".join(map(ast.dump, node.body[ast.get_docstring(node) is not None :]))
            if len(body) > 150:
                yield body, f"{path}: {node.name}"


def test_no_two_files_have_the_same_function():
    found = {}
    for path in FILES:
        for body, name in bodies_of(path):
            found.setdefault(body, []).append(name)
    assert [names for names in found.values() if len({name.partition(":")[0] for name in names}) > 1] == []


def sentences_in(path):
    """The texts of a file that people may read. A docstring is none of them."""
    tree = ast.parse((PLUGINS / path).read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings and len(node.value) > 35 and " " in node.value:
            yield node.value


def test_no_two_files_have_the_same_sentence():
    """Otherwise one of them is changed some day, and the other is not."""
    found = {}
    for path in FILES:
        for sentence in sentences_in(path):
            found.setdefault(sentence, set()).add(path)
    assert {sentence: paths for sentence, paths in found.items() if len(paths) > 1} == {}


def classes_in(path):
    """The classes of a file that others may import. What Ansible looks for has the same name in each file."""
    found = (node.name for node in ast.parse((PLUGINS / path).read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef))
    return [name for name in found if name not in ("ActionModule", "CallbackModule", "FilterModule", "LookupModule", "ModuleDocFragment")]


def test_no_two_classes_have_the_same_name():
    """Only the two sides of a duty have: that of the machine and that of the controller."""
    found = {}
    for path in FILES:
        for name in classes_in(path):
            found.setdefault(name, []).append(path)
    several = {name: sorted(paths) for name, paths in found.items() if len(paths) > 1}
    twins = {name: paths for name, paths in several.items() if name.endswith("Duty") and paths == [f"{side}/_duties/{Path(paths[0]).name}" for side in SIDES]}
    assert twins and several == twins


def layer(path):
    return next((number for number, patterns in enumerate(LAYERS) if any(fnmatch(path, pattern) for pattern in patterns)), None)


def test_every_layer_has_files_that_import_others():
    """Otherwise the tests below would find nothing."""
    found = {(layer(path), layer(name)) for path in FILES for name in imported(path) if name in FILES}
    assert {above for above, _below in found} >= set(range(len(LAYERS)))


@pytest.mark.parametrize("path", [path for path in FILES if layer(path) is not None])
def test_imports_go_down(path):
    assert [name for name in sorted(imported(path)) if name in FILES and layer(name) is not None and layer(name) < layer(path)] == []


@pytest.mark.parametrize("path", PURE)
def test_what_decides_does_not_know_ansible(path):
    assert [name for name in sorted(imported(path)) if name.split(".")[0] == "ansible"] == []


@pytest.mark.parametrize("path", [path for path in PURE if "/_duties/" in path and path not in LISTS])
def test_no_duty_of_the_controller_knows_another(path):
    assert [name for name in sorted(imported(path)) if name.startswith("plugin_utils/_duties/") and name not in BASES] == []


@pytest.mark.parametrize("path", TYPES)
def test_no_duty_knows_another(path):
    assert [name for name in sorted(imported(path)) if name in TYPES] == []


@pytest.mark.parametrize("path", BOTH_SIDES)
def test_what_both_sides_know_of_a_type_is_read_by_both_and_by_no_other_type(path):
    readers = [name for name in FILES if path in imported(name) and name in (*TYPES, *BOTH_SIDES, *DUTIES) and name not in LISTS]
    own = [f"{side}/_duties/{Path(path).name}" for side in SIDES]
    # Where nothing brings traffic, the records of tasks tell since when a host is out.
    assert readers == sorted([*own, *(["plugin_utils/_duties/nothing.py"] if path.endswith("/tasks.py") else [])])


@pytest.mark.parametrize("path", [path for path in PURE if "/_steps/" in path])
def test_steps_import_no_driver_and_no_client(path):
    assert {name for name in imported(path) if name.startswith("module_utils/")} <= set(PURE_UTILS)


@pytest.mark.parametrize("path", PURE_UTILS)
def test_what_steps_import_of_modules_touches_nothing(path):
    known = {"__future__", "collections", "datetime", "difflib", "functools", "ipaddress", "math", "re", "shlex", "typing"}
    assert {name.split(".")[0] for name in imported(path) if name not in FILES} <= known


def sent_with(path, at_run_time):
    """The files that a module imports, itself and through others."""
    found, left = set(), [path]
    while left:
        new = {name for name in imported(left.pop(), at_run_time) if name in FILES} - found
        found |= new
        left += new
    return found


@pytest.mark.parametrize("path", [path for path in FILES if path.startswith("modules/")])
def test_no_file_is_sent_to_a_host_for_its_types_alone(path):
    """Ansible sends with a module what that imports, also what only a type checker reads."""
    assert sent_with(path, at_run_time=False) == sent_with(path, at_run_time=True)


TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PAGE = {Path(name).name for name in re.findall(r"`([^`\s]+\.py)`", TEXT) if "<name>" not in name}
PLACES = sorted(set(re.findall(r"`(\w+)` (?:in|of) `([\w/]+\.py)`", TEXT)))


@pytest.mark.parametrize("folder", ["plugins/module_utils", "plugins/plugin_utils", "plugins/plugin_utils/_planning"])
def test_every_file_of_these_rooms_is_on_the_page(folder):
    named = [name.replace("<type>", kind) for name in PAGE for kind in KINDS]
    there = [path.name for path in (ROOT / folder).glob("*.py")]
    assert there and [name for name in there if not any(fnmatch(name, pattern) for pattern in named)] == []


def test_every_file_that_the_page_names_is_there():
    there = {path.name for folder in ("docs", "plugins", "roles", "tests") for path in (ROOT / folder).rglob("*.py")}
    assert PAGE and [name for name in PAGE if "<type>" not in name and not any(fnmatch(other, name) for other in there)] == []


@pytest.mark.parametrize(("name", "path"), PLACES)
def test_what_the_page_says_is_in_a_file_is_made_there(name, path):
    texts = [(PLUGINS / file).read_text(encoding="utf-8") for file in FILES if f"/{file}".endswith(f"/{path}")]
    assert any(re.search(rf"^\s*(?:(?:def|class) )?{name}\b(?:\(|:| =)", text, re.MULTILINE) for text in texts)
