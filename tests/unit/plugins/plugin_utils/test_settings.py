# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from ansible.errors import AnsibleUndefinedVariable
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar, trust_as_template
from ansible_collections.graceful.azure.plugins.plugin_utils._settings import (
    ROLES,
    check_boolean,
    check_path,
    forbidden,
    misspelt,
    read_settings,
    role_options,
    unresolved,
)

RUN = Path(__file__).parents[4] / "playbooks" / "tasks" / "run.yml"
FOLDER = Path(__file__).parents[4] / "roles"
OURS = {"load_balancer_provider": "none"}


@pytest.mark.parametrize(("given", "name"), [("web_0", "web_0"), (7, "7"), (0, "0"), ("", None), (None, None)])
def test_the_name_in_azure_is_a_text(given, name):
    settings, mistakes = read_settings({"web1": dict(OURS, graceful_azure_resource_name=given)}, {"web1"})
    assert mistakes == []
    assert settings["web1"]["resource_name"] == name


def test_texts_and_numbers_mean_the_same():
    """Before core 2.19 a template yields the text of a number."""
    values = {
        "graceful_azure_min_in_service": 2,
        "drain_host_ports": [80, 443],
        "drain_host_timeout": 60,
        "restore_service_port": 80,
        "restore_service_timeout": 1.5,
        "graceful_azure_rules": [{"name": "late", "lead_time": 600}],
    }
    texts = {name: str(value) if not isinstance(value, list) else value for name, value in values.items()}
    texts.update(drain_host_ports=["80", "443"], graceful_azure_rules=[{"name": "late", "lead_time": "600"}])
    numbers = read_settings({"web1": dict(OURS, **values)}, {"web1"})
    assert numbers[1] == []
    assert read_settings({"web1": dict(OURS, **texts)}, {"web1"}) == numbers


def test_what_is_wrong_for_several_hosts_is_said_once():
    hosts = {"web1": dict(OURS, drain_host_timeout="soon"), "web2": dict(OURS, drain_host_timeout="soon"), "web3": OURS}
    assert read_settings(hosts, set(hosts))[1] == ["web1, web2: drain_host_timeout: 'soon' is not a number of seconds from 0 up"]


def test_a_balancer_among_the_targets():
    hosts = {"lb1": {}, "web1": dict(OURS, load_balancer_provider="haproxy", load_balancer_hosts=["lb1"], load_balancer_server="web1")}
    (mistake,) = read_settings(hosts, set(hosts))[1]
    assert mistake.startswith("lb1: a balancer of the others") and "target" in mistake


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("drain_host_port", "drain_host_ports"),
        ("graceful_azure_min_in_servce", "graceful_azure_min_in_service"),
        ("handle_event_timeout", "handle_events_timeout"),
        ("graceful_azur_rules", "graceful_azure_rules"),
        ("restore_service_ulr", "restore_service_url"),
        ("drian_host_ports", "drain_host_ports"),
        ("restore_servce_url", "restore_service_url"),
        ("grateful_azure_rules", "graceful_azure_rules"),
    ],
)
def test_a_slip_of_the_pen(name, meant):
    assert misspelt({"web1": {name: 1}, "web2": {name: 1}}) == [f"web1, web2: nothing reads the variable {name}; is {meant} meant?"]


OURS_OR_THEIRS = ("drain_host_ports", "load_balancer_name", "load_balancer_result", "graceful_azure_state_dir", "approve_event_reason", "drain_hosts")


@pytest.mark.parametrize("name", OURS_OR_THEIRS)
def test_names_that_are_right_or_a_users_own(name):
    assert misspelt({"web1": {name: 1}}) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"load_balancer_provider": "haproxy", "load_balancer_hosts": "lb1"}, "load_balancer_hosts: 'lb1' is a text; it must be a list"),
        ({"drain_host_services": "nginx"}, "drain_host_services: 'nginx' is a text; it must be a list"),
        ({"drain_host_ports": 80}, "drain_host_ports: 80 is a single value; it must be a list"),
        ({"restore_service_port": "+80"}, "restore_service_port: '+80' is not a TCP port from 1 to 65535"),
        ({"restore_service_port": " 80"}, "restore_service_port: ' 80' is not a TCP port from 1 to 65535"),
        ({"drain_host_ports": "80,443"}, "drain_host_ports: '80,443' is a text; it must be a list"),
        ({"restore_service_validate_certs": "maybe"}, "restore_service_validate_certs"),
        ({"restore_service_url": "localhost:8080/health"}, "restore_service_url: url must be like http://localhost:8080/health"),
        ({"restore_service_url": "http://::1:8080/health"}, "restore_service_url: url must have an IPv6 address in brackets"),
        ({"restore_service_url": "http://localhost:0/"}, "restore_service_url: url must have a port from 1 to 65535"),
        ({"restore_service_url": "http://localhost:99999/"}, "restore_service_url: url 'http://localhost:99999/' cannot be understood"),
        ({"restore_service_address": "[::1]"}, "restore_service_address: '[::1]' is neither a name nor an IP address"),
        ({"restore_service_address": "http://web"}, "restore_service_address: 'http://web' is neither"),
        ({"restore_service_address": "localhost:80"}, "restore_service_address: 'localhost:80' is neither"),
        ({"restore_service_unanswered": "ask"}, "restore_service_unanswered must be one of: refuse, warn"),
        ({"load_balancer_haproxy_socket": "run/admin.sock"}, "load_balancer_haproxy_socket: 'run/admin.sock' is not an absolute path"),
        ({"graceful_azure_imds_url": "127.0.0.1:8080"}, "graceful_azure_imds_url: '127.0.0.1:8080' is not the base URL of a metadata service"),
        ({"graceful_azure_state_dir": "state"}, "graceful_azure_state_dir: 'state' is not an absolute path"),
        ({"restore_service_port": "abc", "restore_service_url": "http://localhost/"}, "restore_service_port: 'abc' cannot be read as a whole number"),
        ({"restore_service_port": "²"}, "restore_service_port: '²' cannot be read as a whole number"),
        ({"restore_service_port": 70000}, "restore_service_port: 70000 is not a TCP port from 1 to 65535"),
        ({"load_balancer_timeout": "soon"}, "load_balancer_timeout: 'soon' is not a number of seconds from 0 up"),
        ({"approve_event_timeout": 0}, "approve_event_timeout: 0 is not a number of seconds from 0.001 up"),
        ({"drain_host_before": "none.yml"}, "drain_host_before: there is no task file {base}/none.yml"),
        ({"load_balancer_provider": "custom", "load_balancer_custom_out": "good.yml", "load_balancer_custom_in": "none.yml"}, "there is no task file"),
    ],
)
def test_what_a_role_would_refuse_in_every_step_is_refused_before_the_first(tmp_path, given, said):
    (tmp_path / "good.yml").write_text("- ansible.builtin.meta: noop\n")
    _settings, mistakes = read_settings({"web1": dict(OURS, **given)}, {"web1", "lb1"}, str(tmp_path))
    assert len(mistakes) == 1 and said.format(base=tmp_path) in mistakes[0], mistakes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- ansible.builtin.command: [\n", ""),
        ("hosts: all\n", "it does not contain a list of tasks"),
        ("- gather everything\n", "'gather everything' is not a task"),
        ("- block:\n    - ansible.builtin.meta: noop\n  rescue:\n    - ansible.builtin.meta: noop\n      whn: y\n", "'whn' is not"),
    ],
)
def test_a_task_file_that_cannot_be_loaded(tmp_path, text, said):
    """Included in mid-run it would end that for all hosts."""
    # As ansible-playbook does before all else: without it no module's name can be looked up.
    init_plugin_loader()
    (tmp_path / "tasks.yml").write_text(text)
    (mistake,) = read_settings({"web1": dict(OURS, restore_service_after="tasks.yml")}, {"web1"}, str(tmp_path))[1]
    assert mistake.startswith(f"web1: restore_service_after: {tmp_path}/tasks.yml: ") and said in mistake


INCLUDES = "- include_tasks: {file: other.yml, apply: {tags: a}}\n- import_tasks: other.yml\n- include_role: {name: x}\n  vars: {a: 1}\n"


@pytest.mark.parametrize("text", ["", "---\n", INCLUDES])
def test_a_task_file_that_can(tmp_path, text):
    (tmp_path / "tasks.yml").write_text(text)
    assert read_settings({"web1": dict(OURS, drain_host_after="tasks.yml")}, {"web1"}, str(tmp_path))[1] == []


def test_what_a_default_would_take_for_not_set():
    def template(text, _name):
        if "typo" in text:
            raise AnsibleUndefinedVariable("'typo' is undefined")

    hosts = {"web1": {"graceful_azure_rules": "{{ typo }}", "restore_service_url": "http://{{ right }}/", "drain_host_timeout": None, "theirs": "{{ typo }}"}}
    mistakes = unresolved(hosts, template)
    assert len(mistakes) == 2
    assert "web1: drain_host_timeout: null is not a number; leave it out" in mistakes[0]
    assert "web1: graceful_azure_rules: '{{ typo }}' cannot be resolved" in mistakes[1] and "'typo' is undefined" in mistakes[1]


def test_extra_variables_that_the_passes_set():
    (mistake,) = forbidden({"load_balancer_min_in_service": 2, "drain_host_timeout": 5, "target": "web"})
    assert mistake == "load_balancer_min_in_service: given as an extra variable; the passes set it themselves, leave it out"


def test_the_playbook_reads_every_option_that_the_roles_have():
    """What it does not read is checked when the host is out already."""
    text = RUN.read_text(encoding="utf-8")
    (read,) = [task["ansible.builtin.set_fact"]["graceful_azure_settings"] for task in yaml.safe_load(text) if "ansible.builtin.set_fact" in task]
    assert set(role_options()) - set(read) == set()
    assert [name for name, value in read.items() if value != f"{{{{ {name} | default(none) }}}}"] == []
    ours = set(re.findall(r"graceful_azure_\w+", " ".join(read)))
    names = ("imds_url", "resource_name", "rules", "min_in_service", "unknown_resources", "may_be_off", "state_dir")
    assert ours == {f"graceful_azure_{name}" for name in names}


@pytest.mark.parametrize("address", ["localhost", "web-1.example.com", "web_1", "10.0.0.4", "::1", "fe80::1%eth0"])
def test_addresses_that_can_be_asked(address):
    assert read_settings({"web1": dict(OURS, restore_service_port=80, restore_service_address=address)}, {"web1"})[1] == []


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({}, {}),
        ({"restore_service_port": "80"}, {"port": 80, "host": "localhost", "validate_certs": True}),
        ({"restore_service_port": 80, "restore_service_address": "::1"}, {"port": 80, "host": "::1", "validate_certs": True}),
        ({"restore_service_url": "https://web/", "restore_service_validate_certs": "no"}, {"url": "https://web/", "validate_certs": False}),
    ],
)
def test_what_is_asked_before_an_event(given, asked):
    settings, mistakes = read_settings({"web1": dict(OURS, **given)}, {"web1"})
    assert mistakes == [] and settings["web1"]["restore_service"]["ask"] == asked


@pytest.mark.parametrize("value", ["maybe", "", None, 2, "ja", [], {}])
def test_what_is_neither_true_nor_false(value):
    mistakes = []
    assert check_boolean(mistakes, "handle_events_wait", value) is False
    assert mistakes == [f"handle_events_wait: {value!r} is neither true nor false"]


@pytest.mark.parametrize(("value", "meant"), [(True, True), ("no", False), ("True", True), (0, False), ("on", True)])
def test_what_is_true_or_false(value, meant):
    mistakes = []
    assert (check_boolean(mistakes, "handle_events_wait", value), mistakes) == (meant, [])


@pytest.mark.parametrize("value", ["/var/lib/graceful_azure", "~/state", "$HOME/state", None, ""])
def test_folders_of_records(value):
    mistakes = []
    check_path(mistakes, "graceful_azure_state_dir", value)
    assert mistakes == []


@pytest.mark.parametrize("value", ["state", "./state", "../state", 7])
def test_folders_of_records_that_are_refused(value):
    mistakes = []
    check_path(mistakes, "graceful_azure_state_dir", value, "balancer lb1: ")
    assert mistakes == [f"balancer lb1: graceful_azure_state_dir: {value!r} is not an absolute path; write one that begins with /"]


@pytest.mark.parametrize(("value", "meant"), [(True, True), ("yes", True), ("false", False), (None, False)])
def test_a_host_that_may_be_off(value, meant):
    settings, mistakes = read_settings({"web1": dict(OURS, graceful_azure_may_be_off=value)}, {"web1"})
    assert mistakes == [] and settings["web1"]["may_be_off"] is meant


def test_messages_name_no_classes_and_say_nothing_twice():
    wrong = dict(OURS, graceful_azure_may_be_off="maybe", drain_host_services="nginx", load_balancer_haproxy_backends={"www": 1})
    (*mistakes,) = read_settings({"web1": wrong}, {"web1"})[1]
    assert "class" not in " ".join(mistakes) and sum("drain_host_services" in mistake for mistake in mistakes) == 1
    assert "web1: graceful_azure_may_be_off: 'maybe' is neither true nor false" in mistakes
    assert sum("load_balancer_haproxy_backends: {'www': 1} cannot be read as a list" in mistake for mistake in mistakes) == 1


def mistakes_of_role(role, variables):
    """What the checks of the role itself say, before its first task."""
    known = {"inventory_hostname": "web1", "playbook_dir": "/", "hostvars": {"web1": {}, "lb1": {}}}
    for name in ROLES:
        for folder in ("defaults", "vars"):
            known.update(DataLoader().load_from_file(str(FOLDER / name / folder / "main.yml"), trusted_as_template=True))
    known.update({f"{role}_state": {"load_balancer": "in", "drain_host": "drained"}.get(role)}, **variables)
    return Templar(DataLoader(), variables=known).template(trust_as_template(f"{{{{ __{role}_mistakes }}}}"))


@pytest.mark.parametrize("given", ["", "²"])
@pytest.mark.parametrize("name", sorted(role_options()))
def test_the_check_refuses_what_the_role_would_refuse(name, given):
    """The role says so when the host is out already."""
    role = next(role for role in ROLES if name.startswith(role))
    variables = {"load_balancer_provider": "haproxy", "load_balancer_hosts": ["lb1"], name: given}
    mistakes = read_settings({"web1": variables}, {"web1", "lb1"}, "/")[1]
    assert all(name in mistake for mistake in mistakes), mistakes
    if given == "" or role_options()[name]["type"] in ("int", "float", "bool"):
        assert bool(mistakes_of_role(role, variables)) is bool(mistakes), mistakes
