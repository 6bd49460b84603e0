# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The examples of every public module, filter and lookup: the modules accept their arguments, and what they read of a result is documented."""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import re
import textwrap

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.graceful.azure.plugins.plugin_utils._settings import read_settings

from tests.support.checkout import ROOT, must_pass
from tests.support.pages import blocks
from tests.support.public import public_plugins

PLUGINS = {f"{plugin.kind} {plugin.name}": plugin for plugin in public_plugins().values()}
OURS = "graceful.azure."
# Imported before any test runs: some start Ansible's own loader of collections, which imports nothing that it did not find itself.
MODULES = {
    plugin.name: importlib.import_module(f"ansible_collections.graceful.azure.plugins.modules.{plugin.name}")
    for plugin in PLUGINS.values()
    if plugin.kind == "module"
}
CONDITIONS = ("mutually_exclusive", "required_together", "required_one_of", "required_if", "required_by")
# What a value stands for that is known only when the task runs.
STAND_INS = {"int": 1, "float": 1.0, "bool": True, "dict": {}, "list": []}
# What every result has, whatever the module.
ALWAYS = {"changed", "failed", "skipped", "msg", "diff"}
# These take whatever they are given.
FREE = {"ansible.builtin.include_tasks", "ansible.builtin.set_fact"}


def tasks_of(entries, defaults=None):
    """The tasks of an example as pairs of a task and the defaults of its block, whether it consists of tasks or of plays."""
    for entry in entries:
        known = {**(defaults or {}), **entry.get("module_defaults", {})}
        inner = entry.get("tasks") or entry.get("block")
        if inner:
            yield from tasks_of(inner, known)
        else:
            yield entry, known


def tasks(name):
    return list(tasks_of(yaml.safe_load(PLUGINS[name].examples)))


def module_of(task):
    (module,) = (key for key in task if "." in key)
    return module


class Called(Exception):
    """What a module said about its options."""


@functools.cache
def options_of(module):
    """The argument spec of a module and its conditions. Those of Ansible are made from what it documents."""
    if module.startswith(OURS):
        code = MODULES[module.removeprefix(OURS)]

        def tell(**given):
            raise Called(given)

        with pytest.MonkeyPatch.context() as patch, pytest.raises(Called) as called:
            patch.setattr(code, "AnsibleModule", tell)
            code.main()
        (given,) = called.value.args
        return given["argument_spec"], {key: given.get(key) for key in CONDITIONS}
    documented = json.loads(must_pass("ansible-doc", "--json", module))[module]["doc"]["options"]
    kept = ("type", "elements", "choices", "required", "aliases")
    return {name: {key: option[key] for key in kept if key in option} for name, option in documented.items()}, {}


def known_later(value):
    return isinstance(value, str) and "{{" in value


def stood_in(value, option):
    if known_later(value):
        return STAND_INS.get(option.get("type", "str"), "x")
    if isinstance(value, list):
        return [stood_in(entry, {"type": option.get("elements", "str")}) for entry in value]
    return value


def mistakes(task, defaults=()):
    """What the task's module has against its arguments."""
    module = module_of(task)
    if module in FREE:
        return []
    spec, conditions = options_of(module)
    shared = {name: value for key, values in dict(defaults).items() for name, value in values.items() if key.startswith("group/") or key == module}
    given = {**{name: value for name, value in shared.items() if name in spec}, **(task[module] or {})}
    given = {name: stood_in(value, spec.get(name, {})) for name, value in given.items()}
    return ArgumentSpecValidator(spec, **conditions).validate(given).error_messages


@pytest.mark.parametrize("name", PLUGINS)
def test_there_are_two_at_least(name):
    plugin = PLUGINS[name]
    called = f"{OURS}{plugin.name}"
    using = [task for task, _defaults in tasks(name) if (called in task if plugin.kind == "module" else called in json.dumps(task))]
    assert len(using) >= 2


@pytest.mark.parametrize("name", PLUGINS)
def test_the_modules_accept_their_arguments(name):
    assert {task["name"]: found for task, defaults in tasks(name) if (found := mistakes(task, defaults))} == {}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"name": ["mine"], "event_id": ["a"]}, "event_id"),
        ({"name": ["mine"]}, "event_ids"),
        ({"event_ids": ["a"]}, "name"),
        ({"name": ["mine"], "event_ids": ["a"], "state": "down"}, "state"),
        ({"name": ["mine"], "event_ids": ["{{ a }}"], "done": "{{ b }}", "this_boot": "maybe"}, "this_boot"),
    ],
)
def test_a_mistake_would_be_found(arguments, said):
    assert said in " ".join(mistakes({"name": "Take it out", f"{OURS}task_hold": arguments}))


def read_of(text, registered):
    """The keys of a registered result that a text reads."""
    return set(re.findall(rf"\b{registered}\.(\w+)", text))


@pytest.mark.parametrize("name", PLUGINS)
def test_what_is_read_of_a_result_is_documented(name):
    returned = {plugin.name: set(plugin.returned) for plugin in PLUGINS.values() if plugin.kind == "module"}
    unknown = []
    for task, _defaults in tasks(name):
        module = module_of(task)
        if "register" in task and module.startswith(OURS):
            keys = read_of(PLUGINS[name].examples, task["register"])
            unknown += [f"{task['register']}.{key}" for key in keys - returned[module.removeprefix(OURS)] - ALWAYS]
            assert keys or re.search(rf"\b{task['register']} is ", PLUGINS[name].examples), f"{task['register']} is registered for nothing"
    assert unknown == []


@pytest.mark.timeout(300)
def test_they_are_playbooks_that_ansible_lint_accepts(tmp_path):
    """All in one file: ansible-lint starts Ansible for each."""
    plays = []
    for name, plugin in PLUGINS.items():
        text = plugin.examples.strip("\n").removeprefix("---\n")
        if "\n  hosts: " not in text:
            text = f"- name: Examples of {name}\n  hosts: all\n  gather_facts: false\n  tasks:\n{textwrap.indent(text, '    ')}"
        plays.append(text)
        for task, _defaults in tasks(name):
            if module_of(task) == "ansible.builtin.include_tasks":
                (tmp_path / task[module_of(task)]).write_text("---\n- name: Do it\n  ansible.builtin.debug:\n")
    playbook = tmp_path / "examples.yml"
    playbook.write_text("---\n" + "\n\n".join(plays) + "\n")
    assert len(yaml.safe_load(playbook.read_text())) >= len(PLUGINS)
    # ansible-lint keeps its stand-ins for modules in the folder of the project or in Ansible's home, and removes them at its end. Those of the checkout are
    # another run's.
    arguments = ("--config-file", ROOT / ".ansible-lint", "--project-dir", tmp_path)
    must_pass("ansible-lint", *arguments, playbook, cwd=tmp_path, env={"ANSIBLE_HOME": str(tmp_path / "home")}, timeout=290)


PAGES = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("examples/*/inventory.yml"), *(ROOT / "roles").glob("*/README.md"), ROOT / "README.md"])


def inventories(page):
    """The inventories on a page: blocks of YAML whose entries are groups. Or the one that a file is."""
    if page.suffix == ".yml":
        yield yaml.safe_load(page.read_text(encoding="utf-8"))
        return
    for text in (text for kind, text in blocks(page) if kind == "yaml"):
        groups = None
        with contextlib.suppress(yaml.YAMLError):
            groups = yaml.safe_load(text)
        if isinstance(groups, dict) and any(isinstance(group, dict) and {"hosts", "children"} & set(group) for group in groups.values()):
            yield groups


def variables_of(groups, inherited=None, found=None):
    """The variables of each host of an inventory. What is known only to Ansible is made up."""
    found = {} if found is None else found
    for group in groups.values():
        given = {**(inherited or {}), **((group or {}).get("vars") or {})}
        for name, own in ((group or {}).get("hosts") or {}).items():
            said = {**found.get(name, {}), **given, **(own or {})}
            text = json.dumps(said)
            texts = {known: value for known, value in said.items() if isinstance(value, str)}
            for known, value in {**texts, "inventory_dir": "/site", "inventory_hostname": name, "ansible_host": name}.items():
                text = text.replace(f"{{{{ {known} }}}}", value)
            found[name] = json.loads(text)
        variables_of((group or {}).get("children") or {}, given, found)
    return found


OF_TARGETS = ("graceful_azure_duties", "load_balancer_", "drain_host_")
WITH_INVENTORY = [page for page in PAGES if list(inventories(page))]


def test_the_pages_have_inventories():
    assert {"README.md", "duty-patroni.md", "windows.md", "one-vm.md", "inventory.yml"} <= {page.name for page in WITH_INVENTORY}


@pytest.mark.parametrize("page", WITH_INVENTORY, ids=lambda page: str(page.relative_to(ROOT)))
def test_an_inventory_is_right_as_it_is_printed(page):
    for groups in inventories(page):
        hosts = variables_of(groups)
        targets = {name: values for name, values in hosts.items() if any(key.startswith(OF_TARGETS) for key in values)}
        # The task files that a page shows beside it are not there.
        assert [mistake for mistake in read_settings(targets, set(hosts))[1] if "there is no task file /site/" not in mistake] == []


@pytest.mark.parametrize("page", WITH_INVENTORY, ids=lambda page: str(page.relative_to(ROOT)))
def test_an_inventory_sets_no_port_that_a_balancer_tells(page):
    telling = {"haproxy", "nginx"}
    for groups in inventories(page):
        for name, values in variables_of(groups).items():
            kinds = {duty["type"] for duty in values.get("graceful_azure_duties", ()) if isinstance(duty, dict)}
            assert not (kinds & telling and "graceful_azure_ports" in values), name
