# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The collection as Ansible and its tools see it: lint, changelog, documentation, package."""

from __future__ import annotations

import functools
import json
import re
import tarfile

import pytest
import yaml

from tests.support.checkout import ROOT, checkout_files, must_pass
from tests.support.public import KINDS, plugin_files

# Each action group, and the option that all of its modules have and no others.
GROUPS = {"azure_resource_manager": "arm_url", "imds": "imds_url"}
INTERNAL = "Internal to the playbooks of this collection. Options and results may change with every release."

# Galaxy runs ansible-lint on the package, so the settings of that are in it.
FOR_DEVELOPERS = re.compile(
    r"\.(?!ansible-lint$)|(tests|extensions/molecule|docs/site)/|docs/pictures/site-|(Makefile|antsibull-nox\.toml|galaxy\.yml|noxfile\.py|pyproject\.toml)$"
)

PLUGINS = sorted({(kind, f"graceful.azure.{path.stem}") for path, kind in plugin_files().items()})


@pytest.mark.timeout(300)
def test_ansible_lint():
    must_pass("ansible-lint", timeout=290)


def test_changelog():
    must_pass("antsibull-changelog", "lint")
    must_pass("antsibull-changelog", "lint-changelog-yaml", "changelogs/changelog.yaml")


def test_documentation():
    lint = ("antsibull-docs", "lint-collection-docs", "--plugin-docs", "--validate-collection-refs", "all", ".")
    try:
        must_pass(*lint)
    except pytest.fail.Exception as failure:
        # It writes into a folder of a random name, and takes a name that ends with an underscore for a link: 1 of 37.
        if 'Unknown target name: "antsibull-docs-' not in str(failure):
            raise
        must_pass(*lint)


def test_the_next_release_lists_what_is_new():
    """Its notes leave out what bears a later version than galaxy.yml. Those of the first release also leave out what bears an earlier one."""
    claimed = {
        (str(path), tuple(map(int, version.split("."))))
        for path in checkout_files()
        if path.parts[0] == "plugins" or path.match("roles/*/meta/argument_specs.yml")
        for version in re.findall(r"^ *version_added: *['\"]?([\d.]+)", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
    }
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))
    next_release = tuple(map(int, galaxy["version"].split(".")))
    assert len(claimed) > 20
    assert sorted(name for name, version in claimed if version > next_release) == []
    released = yaml.safe_load((ROOT / "changelogs" / "changelog.yaml").read_text(encoding="utf-8"))["releases"]
    assert released or {version for _name, version in claimed} == {next_release}


def test_package(tmp_path):
    """The package holds what users need and nothing else, installs, and every plugin's documentation shows."""
    must_pass("ansible-galaxy", "collection", "build", "--output-path", str(tmp_path))
    (package,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(package) as archive:
        names = {member.name for member in archive if not member.isdir()}
    assert names == {"MANIFEST.json", "FILES.json"} | {path.as_posix() for path in checkout_files() if not FOR_DEVELOPERS.match(path.as_posix())}

    collections = tmp_path / "collections"
    env = {"ANSIBLE_COLLECTIONS_PATH": str(collections)}
    must_pass("ansible-galaxy", "collection", "install", "--offline", "-p", str(collections), str(package), env=env)
    for kind in KINDS.values():
        named = [name for a_kind, name in PLUGINS if a_kind == kind]
        assert named, kind
        shown = json.loads(must_pass("ansible-doc", "--json", "--type", kind, *named, env=env))
        assert set(shown) == set(named)


@functools.cache
def documentation(kind):
    """What ansible-doc says of all plugins of a kind, by their names."""
    return json.loads(must_pass("ansible-doc", "--json", "--type", kind, *(name for a_kind, name in PLUGINS if a_kind == kind)))


def test_what_the_list_of_contents_leaves_out_is_said_to_be_internal():
    """In the list of ansible-doc, and in the first words of its page. Callbacks are not called by name."""
    kinds = [kind for kind in KINDS.values() if kind != "callback"]
    shown = {(kind, name.rpartition(".")[2]): page["doc"] for kind in kinds for name, page in documentation(kind).items()}
    contents = (ROOT / "docs" / "playbooks.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"^\| module, lookup, filter \|.*?\n\n", contents, re.MULTILINE | re.DOTALL)
    listed = {
        (found[1] or "module", name)
        for row in table.splitlines()[2:]
        for found in [re.match(r"\| (?:(lookup|filter) )?", row)]
        for name in re.findall(r"`(\w+)`", row.split(" | ")[0])
    }
    assert listed <= set(shown)
    wrong = [
        name
        for name, doc in shown.items()
        if {doc["short_description"].startswith("Internal: "), doc["description"][0].startswith(INTERNAL)} != {name not in listed}
    ]
    assert wrong == []


def test_no_playbook_takes_a_target_that_cannot_be_resolved_for_all_hosts():
    texts = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "playbooks").glob("*.yml")}
    assert "accept_windows.yml" in texts and [name for name, text in texts.items() if re.search(r"\btarget *\| *default", text)] == []


@pytest.mark.parametrize("playbook", ["handle_events", "holds", "rehearse"])
def test_a_silent_host_is_tried_once(playbook):
    """As many tries as a user's ansible.cfg says would each cost the whole time.

    Each playbook says so itself, because YAML has no word for another file's part.
    """
    plays = yaml.safe_load((ROOT / "playbooks" / f"{playbook}.yml").read_text(encoding="utf-8"))
    bounds = [play["vars"] for play in plays if "ansible_ssh_timeout" in (play.get("vars") or {})]
    names = ("ansible_ssh_timeout", "ansible_ssh_retries", "ansible_ssh_extra_args")
    assert {tuple(map(each.get, names)) for each in bounds} == {(4, 0, "-o ServerAliveInterval=1 -o ServerAliveCountMax=2")}


@pytest.mark.parametrize(("group", "option"), GROUPS.items())
def test_action_group_holds_every_module_that_asks_the_service(group, option):
    """module_defaults for the group reach them all, and their pages say so. What is part of a playbook alone has no need of it."""
    pages = {name.rpartition(".")[2]: page["doc"] for name, page in documentation("module").items()}
    asking = [name for name, page in pages.items() if option in page["options"] and not page["short_description"].startswith("Internal: ")]
    saying = [name for name, page in pages.items() if f"graceful.azure.{group}" in page["attributes"].get("action_group", {}).get("membership", ())]
    assert sorted(action_groups()[group]) == sorted(asking) == sorted(saying)


def test_every_action_group_is_checked():
    assert set(action_groups()) == set(GROUPS)


def action_groups():
    return yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text(encoding="utf-8"))["action_groups"]
