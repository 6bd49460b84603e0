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

import jinja2
import jsonschema
import pytest
import yaml
from ansible_collections.graceful.azure.plugins.action import plan_by_hand
from ansible_collections.graceful.azure.plugins.module_utils._events import API_VERSIONS, EVENT_TYPES
from ansible_collections.graceful.azure.plugins.plugin_utils import _awx_setup, _by_hand, _settings
from ansible_collections.graceful.azure.plugins.plugin_utils._run import rehearsal
from ansible_collections.graceful.azure.plugins.plugin_utils._run.passes import CARRIED_ON

from tests.support.checkout import ROOT, checkout_files
from tests.support.pages import blocks

DOCS = sorted((ROOT / "docs").glob("*.md"))
FAULTS = ROOT / "tests" / "FAULTS.md"
# What lies in the folder of a developer alone is not there for readers.
FILES = {ROOT / path for path in checkout_files()}
PLACES = FILES | {folder for path in FILES for folder in path.parents if folder.is_relative_to(ROOT)}
# The first page of the site lies at its root, so its links begin there. The build of the site checks them.
PAGES = sorted(path for path in FILES if path.suffix == ".md" and path != ROOT / "docs" / "site" / "index.md")
WRONG = (ROOT / "docs" / "when-something-is-wrong.md").read_text()
SAID = WRONG.partition("\n## What a run says\n")[2]
MESSAGES = re.findall(r"^\| `([^`]+)`[^|]* \|", SAID, re.MULTILINE)
NAMED = r"`([\w/]+\.py)::([\w:]+)`( \(long)?"
NAMED_TESTS = sorted(set(re.findall(NAMED, FAULTS.read_text())))


def test_the_table_of_faults_names_a_test_in_every_row():
    rows = [line for line in FAULTS.read_text().splitlines() if line.startswith("| ") and not line.startswith(("| **", "| fault"))]
    assert len(rows) > 20 and all("::" in row for row in rows)
    # The test below looks at all that are named.
    assert len(re.findall(r"::\w+`", FAULTS.read_text())) == len(re.findall(NAMED, FAULTS.read_text()))


def test_every_fault_that_users_read_about_has_a_row_there():
    """Beginning with the same words, in the part of the same name."""
    tested = faults(FAULTS.read_text(), r"\| \*\*(.+)\*\*")
    # The messages of runs stand in the same tables.
    told = [fault for fault in faults(SAID, "### (.+)") if not fault[1].startswith("`")]
    assert len(told) > 35 and len(told) + len(MESSAGES) > 90
    assert [row for row in told if not any(part == row[0] and fault.startswith(row[1]) for part, fault in tested)] == []


def faults(text, heading):
    """Of each row of its tables, the part of the text and the fault, which begins with a small letter in one of them."""
    part, found = None, []
    for line in text.splitlines():
        if begins := re.match(heading, line):
            part = begins[1]
        elif line.startswith("| ") and not line.startswith(("| fault |", "| message ")):
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


@pytest.mark.parametrize(
    ("name", "after", "before"),
    [
        ("eda.md", "", "## 4. Handle real events"),
        ("one-vm.md", "", "## Good to know"),
        ("run-it.md", "", "## A playbook that waits"),
        ("run-it.md", "## A watcher, and AWX", "## Good to know about AWX"),
        ("windows.md", "", "## What is known, and what is not"),
    ],
)
def test_what_people_read_first_fits_on_two_screens(name, after, before):
    """Of the pages to begin with, what is followed step by step. What is wider than a screen takes two lines of it."""
    page = (ROOT / "docs" / name).read_text()
    assert after in page and before in page
    lines = page.partition(after)[2].partition(before)[0].splitlines() if after else page.partition(before)[0].splitlines()
    assert sum(max(1, math.ceil(len(line) / 150)) for line in lines) <= 100


def test_every_page_is_linked_from_another():
    pages = {document: document.read_text() for document in [*DOCS, ROOT / "README.md"]}
    links = {(document, (document.parent / target).resolve()) for document, text in pages.items() for target in re.findall(r"\]\(([^)#]+\.md)", text)}
    linked = {target for document, target in links if target != document}
    assert [document.name for document in DOCS if document not in linked] == []


def test_the_collection_is_installed_by_one_command_everywhere():
    texts = [page.read_text() for page in [*DOCS, ROOT / "README.md", *(ROOT / "roles").glob("*/README.md")]]
    commands = [command for text in texts for command in re.findall(r"ansible-galaxy collection install [^\n]*graceful-azure[^\n]*", text)]
    # Upgraded, or together with a collection of others.
    said = {re.sub(r"--upgrade |awx\.awx:\S+ ", "", command) for command in commands}
    assert len(commands) > 4 and said == {"ansible-galaxy collection install git+https://github.com/graceful-azure/graceful.azure.git"}


def is_for_developers(page):
    return page == ROOT / "docs" / "architecture.md" or page.is_relative_to(ROOT / "tests")


def test_every_page_has_its_place_in_the_navigation_of_the_site():
    named = "".join((ROOT / "docs" / "site" / name).read_text() for name in ("index.md", "conf.py"))
    places = set(re.findall(r'[^\s<>"]+', named))
    # What is for developers is in the repository alone.
    pages = [page.relative_to(ROOT) for page in PAGES if not page.is_relative_to(ROOT / ".github") and not is_for_developers(page)]
    assert [str(page) for page in pages if str(page.with_suffix("")) not in places] == []


def test_the_page_on_records_follows_the_schema():
    """Its example is a record, it names every field that all records have, and the schema describes the others."""
    page = (ROOT / "docs" / "records.md").read_text()
    schema = json.loads((ROOT / "docs" / "hold-record.schema.json").read_text())
    (example,) = (text for kind, text in blocks("docs/records.md") if kind == "json")
    jsonschema.validate(json.loads(example), schema)
    common = set.intersection(*(set(kind["properties"]) for kind in schema["$defs"].values() if "kind" in kind.get("properties", ())))
    assert {"kind", "subject", "found", "left", "events"} <= common and sorted(name for name in common if f"`{name}`" not in page) == []
    assert undescribed(schema) == set()


def undescribed(schema):
    """The names of properties, at any depth, of which nothing is said."""
    if isinstance(schema, list):
        return {found for part in schema for found in undescribed(part)}
    if not isinstance(schema, dict):
        return set()
    found = {each for each, said in schema.get("properties", {}).items() if not {"description", "title", "$ref"} & set(said)}
    # A condition speaks of what is described elsewhere.
    return found | {each for key, part in schema.items() if key != "if" for each in undescribed(part)}


def test_the_messages_that_are_explained_are_those_of_the_code():
    """What stands between two "..." on the page, the code says in the same words."""
    assert len(MESSAGES) > 50
    code = "\n".join(path.read_text() for folder in ("plugins/plugin_utils", "plugins/module_utils") for path in sorted((ROOT / folder).rglob("*.py")))
    # A text may be cut over two lines of code.
    code = re.sub(r'"\s+f?"', "", re.sub(r"\{[^{}]*\}|%[ds]", "...", code))
    pieces = {piece.strip(" :;,()") for message in MESSAGES for piece in message.split("...")}
    assert sorted(piece for piece in pieces if piece not in code) == []


class OfPlaybooks(yaml.SafeLoader):
    """Reads a playbook. What it marks as unsafe, Ansible does not read as a template."""


OfPlaybooks.add_constructor("!unsafe", lambda _loader, _node: None)

PLAYBOOKS = {path.stem: path for path in sorted((ROOT / "playbooks").glob("*.yml"))}
CONDITIONS = ("when", "that", "until", "changed_when", "failed_when")
NOT_OF_USERS = re.compile("_|ansible_|(groups|hostvars|inventory_hostname|item|lookup|omit|query)$")
"""What is internal, and what Ansible itself has."""
OF_RUNS = {*_settings.names_for_run(), _settings.NOTIFY}
READ_BY_ACTIONS = {
    "handle_events": OF_RUNS,
    "watch_events": OF_RUNS,
    "holds": {*_by_hand.OPTIONS, *_by_hand.VARIABLES, plan_by_hand.FOLDER},
    "awx": {*_awx_setup.SETTINGS},
    "rehearse": {*rehearsal.OPTIONS},
}
"""The variables that actions read without a word in the playbook."""


def texts(value, key=None):
    """Every text in a part of a playbook, as a template."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from texts(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner, key)
    elif isinstance(value, str):
        yield f"{{{{ {value} }}}}" if key in CONDITIONS else value


def parts(value):
    """Every dictionary in a part of a playbook, the outer ones first."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict):
        yield value
    for each in inner:
        yield from parts(each)


def files_of(path, known=()):
    """A playbook or a file of tasks, with all that it imports or includes."""
    content = yaml.load(path.read_text(encoding="utf-8"), OfPlaybooks)
    found = {path: content}
    for part in parts(content):
        for key, name in part.items():
            # The task files of users are none of ours.
            is_ours = re.search(r"\.(import|include)_(playbook|tasks)$", key) and isinstance(name, str)
            # A name may be a template, which stands for several.
            for each in path.parent.glob(re.sub(r"{{.*}}", "*", name)) if is_ours else ():
                if each not in {*known, *found}:
                    found.update(files_of(each, {*known, *found}))
    return found


@functools.cache
def variables_of(playbook):
    """The variables that a playbook reads and does not set itself."""
    content = list(files_of(PLAYBOOKS[playbook]).values())
    read, own = set(READ_BY_ACTIONS.get(playbook, ())), set()
    for text in texts(content):
        names = jinja2.Environment().parse(text).find_all(jinja2.nodes.Name)
        read |= {name.name for name in names if name.ctx == "load"}
    for part in parts(content):
        own |= set(part.get("vars") or ()) | set(part.get("ansible.builtin.set_fact") or ()) | {part.get(key) for key in ("register", "loop_var")}
    return {name for name in read - own if not NOT_OF_USERS.match(name)}


def tables_of_variables(text):
    """The rows of the tables of variables in a text: each variable with the cell that has its type and its default."""
    rows = {}
    for table in re.findall(r"^\| variable \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE):
        for line in table.splitlines():
            names, kind = line.strip("| ").split(" | ")[:2]
            rows.update(dict.fromkeys(re.findall(r"`(\w+)`", names), kind))
    return rows


@functools.cache
def sections_of_playbooks():
    """The sections of the page on playbooks by their headings."""
    parts = re.split(r"^## (.+)$", (ROOT / "docs" / "playbooks.md").read_text(), flags=re.MULTILINE)[1:]
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    return {name: text for name, text in sections.items() if " " not in name}


def documented(playbook, known=()):
    """The variables in the tables of a section, and in those of the pages and sections to which it refers."""
    text = sections_of_playbooks()[playbook]
    found = set(tables_of_variables(text))
    for target in re.findall(r"\]\(([^)#]+\.md)", text):
        found |= set(tables_of_variables((ROOT / "docs" / target).read_text()))
        # The README of a role leads to its argument specs.
        spec = (ROOT / "docs" / target).parent / "meta" / "argument_specs.yml"
        if spec.exists():
            found |= set(yaml.safe_load(spec.read_text(encoding="utf-8"))["argument_specs"]["main"]["options"])
    for other in {*re.findall(r"\]\(#(\w+)\)", text)} - {playbook, *known}:
        found |= documented(other, {playbook, *known})
    return found


def test_the_page_on_playbooks_has_a_section_for_each():
    assert sorted(sections_of_playbooks()) == sorted(PLAYBOOKS)


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_the_page_on_playbooks_has_each_variable_that_is_read_and_no_other(playbook):
    assert sorted(variables_of(playbook) - documented(playbook)) == []
    assert sorted(set(tables_of_variables(sections_of_playbooks()[playbook])) - variables_of(playbook)) == []


def test_the_page_on_playbooks_names_only_variables_that_there_are():
    known = {name for playbook in PLAYBOOKS for name in variables_of(playbook)}
    for spec in (ROOT / "roles").glob("*/meta/argument_specs.yml"):
        for entry in yaml.safe_load(spec.read_text(encoding="utf-8"))["argument_specs"].values():
            known |= set(entry["options"])
    known |= set(CARRIED_ON)
    roles = [path.name for path in (ROOT / "roles").iterdir()]
    beginnings = ("graceful_azure", "target", *(f"{name}_" for name in (*PLAYBOOKS, *roles)))
    named = {name for text in sections_of_playbooks().values() for name in re.findall(r'(?:`|-e |"|\()(\w*[a-z])\b', text)}
    assert len(named & known) > 30
    assert sorted(name for name in named - known if name.startswith(beginnings)) == []


def test_the_page_on_playbooks_says_the_same_as_that_on_settings():
    """The types and defaults, also those in the playbooks themselves."""
    others = tables_of_variables((ROOT / "docs" / "settings.md").read_text())
    here = {name: kind for text in sections_of_playbooks().values() for name, kind in tables_of_variables(text).items()}
    assert {name: kind for name, kind in here.items() if others.get(name, kind) != kind} == {}
    for path in (ROOT / "playbooks").rglob("*.yml"):
        for name, default in re.findall(r"(\w+) \| default\((\d+|true|false)\)", path.read_text(encoding="utf-8")):
            assert name not in here or here[name].endswith(f", {default}"), name


# A list of them with what stands between them: quotes, commas, dashes, tags, words, a line of a table.
OF_TYPES = re.compile(r"Freeze(?:[^A-Z\n]{1,14}[A-Z][a-z]+){2,}")
OF_VERSIONS = re.compile(r"2017-03-01(?:\D{1,60}\d{4}-\d\d-\d\d){2,}")


@pytest.mark.parametrize(
    ("pattern", "word", "known", "places"),
    [(OF_TYPES, r"[A-Z][a-z]+", EVENT_TYPES, 8), (OF_VERSIONS, r"\d{4}-\d\d-\d\d", API_VERSIONS, 3)],
    ids=["types of events", "API versions"],
)
def test_each_list_has_all_that_the_code_knows(pattern, word, known, places):
    """In options, on pages and in the simulator: whoever adds one in _events.py is told where else it stands."""
    folders = tuple(ROOT / name for name in ("plugins", "roles", "docs", "playbooks", "extensions"))
    texts = {path: path.read_text() for path in FILES if path.suffix in (".py", ".yml", ".md") and any(path.is_relative_to(folder) for folder in folders)}
    found = {(path, tuple(re.findall(word, listed))) for path, text in texts.items() for listed in pattern.findall(re.sub(r"\b[CV]\(", "", text))}
    lists = [(path, listed) for path, listed in found if listed[1] == known[1]]
    assert len(lists) >= places and [(path.relative_to(ROOT).as_posix(), listed) for path, listed in lists if listed != known] == []
