# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the documents under docs/ and the index of faults in tests/FAULTS.md name is there."""

from __future__ import annotations

import ast
import functools
import json
import math
import re

import jsonschema
import pytest

from tests.support.checkout import ROOT, checkout_files

DOCS = sorted((ROOT / "docs").glob("*.md"))
FAULTS = ROOT / "tests" / "FAULTS.md"
# What lies in the folder of a developer alone is not there for readers.
FILES = {ROOT / path for path in checkout_files()}
PLACES = FILES | {folder for path in FILES for folder in path.parents if folder.is_relative_to(ROOT)}
# The first page of the site lies at its root, so its links begin there. The build of the site checks them.
PAGES = sorted(path for path in FILES if path.suffix == ".md" and path != ROOT / "docs" / "site" / "index.md")
USERS_FAULTS = ROOT / "docs" / "faults.md"
NAMED = r"`([\w/]+\.py)::([\w:]+)`( \(long)?"
NAMED_TESTS = sorted(set(re.findall(NAMED, FAULTS.read_text())))


def test_the_table_of_faults_names_a_test_in_every_row():
    rows = [line for line in FAULTS.read_text().splitlines() if line.startswith("| ") and not line.startswith(("| **", "| fault"))]
    assert len(rows) > 20 and all("::" in row for row in rows)
    # The test below looks at all that are named.
    assert len(re.findall(r"::\w+`", FAULTS.read_text())) == len(re.findall(NAMED, FAULTS.read_text()))


def test_every_fault_that_users_read_about_has_a_row_there():
    """Beginning with the same words, in the part of the same name."""
    tested = faults(FAULTS, r"\| \*\*(.+)\*\*")
    told = faults(USERS_FAULTS, "## (.+)")
    assert len(told) > 50
    assert [row for row in told if not any(part == row[0] and fault.startswith(row[1]) for part, fault in tested)] == []


def faults(document, heading):
    """Of each row of its tables, the part of the document and the fault, which begins with a small letter in one of them."""
    part, found = None, []
    for line in document.read_text().splitlines():
        if begins := re.match(heading, line):
            part = begins[1]
        elif line.startswith("| ") and not line.startswith(("| fault |", "| what happens |")):
            fault = line.split(" | ")[0][2:]
            found.append((part, fault[0].lower() + fault[1:]))
    return found


@functools.cache
def parsed(path):
    return ast.parse((ROOT / "tests" / path).read_text())


@pytest.mark.parametrize(("path", "name", "long"), NAMED_TESTS)
def test_that_test_is_there_and_as_long_as_it_says(path, name, long):
    node = parsed(path)
    # A mark of the file or of a class is one of its tests, too.
    marks = re.findall(r"pytest\.mark\.\w+", "".join(ast.unparse(each) for each in node.body if ast.unparse(each).startswith("pytestmark = ")))
    for part in name.split("::"):
        there = {child.name: child for child in node.body if isinstance(child, (ast.ClassDef, ast.FunctionDef))}
        assert part in there
        node = there[part]
        marks += [ast.unparse(decorator) for decorator in node.decorator_list]
    some_of_it = any("pytest.param" in mark and "mark.long" in mark for mark in marks)
    assert some_of_it or bool(long) == ("pytest.mark.long" in marks)


@pytest.mark.parametrize("document", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text()):
        assert target.startswith("https://") or (document.parent / target).resolve() in PLACES, target


@pytest.mark.parametrize("document", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_a_heading_that_is_there(document):
    for target, heading in re.findall(r"\]\(((?!https:)[^)#]*)#([^)]+)\)", document.read_text()):
        text = (document.parent / target).read_text() if target else document.read_text()
        text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
        # As GitHub makes them.
        headings = [re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
        assert heading in headings, (target, heading)


@pytest.mark.parametrize("name", ["awx.md", "cron.md", "eda.md", "one-vm.md", "windows.md"])
def test_what_people_read_first_fits_on_two_screens(name):
    """What is wider than a screen takes two lines of it."""
    lines = (ROOT / "docs" / name).read_text().splitlines()
    assert sum(max(1, math.ceil(len(line) / 150)) for line in lines) <= 100


def test_every_page_is_linked_from_another():
    pages = {document: document.read_text() for document in [*DOCS, ROOT / "README.md"]}
    links = {(document, (document.parent / target).resolve()) for document, text in pages.items() for target in re.findall(r"\]\(([^)#]+\.md)", text)}
    linked = {target for document, target in links if target != document}
    assert [document.name for document in DOCS if document not in linked] == []


def test_every_page_has_its_place_in_the_navigation_of_the_site():
    named = "".join((ROOT / "docs" / "site" / name).read_text() for name in ("index.md", "conf.py"))
    places = set(re.findall(r'[^\s<>"]+', named))
    pages = [page.relative_to(ROOT) for page in PAGES if ROOT / ".github" not in page.parents]
    assert [str(page) for page in pages if str(page.with_suffix("")) not in places] == []


def test_the_page_on_records_follows_the_schema():
    """Its example is a record, and it names every field that a record may have."""
    page = (ROOT / "docs" / "records.md").read_text()
    schema = json.loads((ROOT / "docs" / "hold-record.schema.json").read_text())
    (example,) = re.findall(r"^```json\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    jsonschema.validate(json.loads(example), schema)
    assert sorted(name for name in fields(schema) if f"`{name}`" not in page) == []


def fields(schema):
    """The names of all properties, at any depth."""
    if isinstance(schema, list):
        return {name for part in schema for name in fields(part)}
    if not isinstance(schema, dict):
        return set()
    return set(schema.get("properties", ())) | {name for part in schema.values() for name in fields(part)}


def test_the_page_on_messages_follows_the_code():
    """What stands between two "..." on the page, the code says in the same words."""
    page = (ROOT / "docs" / "messages.md").read_text()
    said = re.findall(r"^\| `([^`]+)`[^|]* \|", page, re.MULTILINE)
    assert len(said) > 40
    code = "\n".join(path.read_text() for folder in ("plugins/plugin_utils", "plugins/module_utils") for path in sorted((ROOT / folder).rglob("*.py")))
    # A text may be cut over two lines of code.
    code = re.sub(r'"\s+f?"', "", re.sub(r"\{[^{}]*\}|%[ds]", "...", code))
    pieces = {piece.strip(" :;,()") for message in said for piece in message.split("...")}
    assert sorted(piece for piece in pieces if piece not in code) == []
