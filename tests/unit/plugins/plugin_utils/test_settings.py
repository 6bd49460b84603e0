# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from datetime import datetime, timezone
from pathlib import Path

import pytest
import yaml
from ansible.errors import AnsibleUndefinedVariable
from ansible.plugins.loader import init_plugin_loader
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import TRAFFIC
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.traffic import TrafficDuty
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.acts import needs_files
from ansible_collections.graceful.azure.plugins.plugin_utils._settings import (
    DUTIES,
    NOTIFY,
    OF_HOSTS,
    OF_RUNS,
    ROLES,
    check_boolean,
    check_path,
    forbidden,
    misspelt,
    names_for_run,
    read_role,
    read_settings,
    role_options,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._variables import resolve

PAGE = Path(__file__).parents[4] / "docs" / "settings.md"
SETTINGS = Path(__file__).parents[4] / "plugins" / "plugin_utils" / "_settings.py"
FOLDER = Path(__file__).parents[4] / "roles"
OURS = {"graceful_azure_duties": []}


@pytest.mark.parametrize(("given", "name"), [("web_0", "web_0"), (7, "7"), (0, "0"), ("", None), (None, None)])
def test_the_name_in_azure_is_a_text(given, name):
    settings, mistakes = read_settings({"web1": dict(OURS, graceful_azure_resource_name=given)}, {"web1"})
    assert mistakes == []
    assert settings["web1"]["resource_name"] == name


def test_texts_and_numbers_mean_the_same():
    """Before core 2.19 a template yields the text of a number."""
    values = {
        "graceful_azure_min_in_service": 2,
        "graceful_azure_ports": [80, 443],
        "graceful_azure_drain_timeout": 60,
        "graceful_azure_health_port": 80,
        "graceful_azure_restore_timeout": 1.5,
        "graceful_azure_rules": [{"name": "late", "lead_time": 600}],
    }
    texts = {name: str(value) if not isinstance(value, list) else value for name, value in values.items()}
    texts.update(graceful_azure_ports=["80", "443"], graceful_azure_rules=[{"name": "late", "lead_time": "600"}])
    numbers = read_settings({"web1": dict(OURS, **values)}, {"web1"})
    assert numbers[1] == []
    assert read_settings({"web1": dict(OURS, **texts)}, {"web1"}) == numbers


def test_what_is_wrong_for_several_hosts_is_said_once():
    hosts = {"web1": dict(OURS, graceful_azure_drain_timeout="soon"), "web2": dict(OURS, graceful_azure_drain_timeout="soon"), "web3": OURS}
    assert read_settings(hosts, set(hosts))[1] == ["web1, web2: graceful_azure_drain_timeout: 'soon' is not a number of seconds from 0 up"]


def test_a_balancer_among_the_targets():
    hosts = {"lb1": {}, "web1": {DUTIES: [{"type": "haproxy", "hosts": ["lb1"]}]}}
    (mistake,) = read_settings(hosts, set(hosts))[1]
    assert mistake.startswith("lb1: a balancer of the others") and "target" in mistake


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("graceful_azure_port", "graceful_azure_ports"),
        ("graceful_azure_min_in_servce", "graceful_azure_min_in_service"),
        ("handle_event_timeout", "handle_events_timeout"),
        ("graceful_azur_rules", "graceful_azure_rules"),
        ("graceful_azure_health_ulr", "graceful_azure_health_url"),
        ("gracefull_azure_ports", "graceful_azure_ports"),
        ("graceful_azure_dutys", "graceful_azure_duties"),
        ("grateful_azure_rules", "graceful_azure_rules"),
    ],
)
def test_a_slip_of_the_pen(name, meant):
    assert misspelt({"web1": {name: 1}, "web2": {name: 1}}) == [f"web1, web2: nothing reads the variable {name}; is {meant} meant?"]


OURS_OR_THEIRS = ("graceful_azure_ports", "load_balancer_name", "load_balancer_result", "graceful_azure_state_dir", "approve_event_reason", "drain_hosts")


@pytest.mark.parametrize("name", OURS_OR_THEIRS)
def test_names_that_are_right_or_a_users_own(name):
    assert misspelt({"web1": {name: 1}}) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"graceful_azure_ports": 80}, "graceful_azure_ports: 80 is a single value; it must be a list"),
        ({"graceful_azure_health_port": "+80"}, "graceful_azure_health_port: '+80' is not a TCP port from 1 to 65535"),
        ({"graceful_azure_health_port": " 80"}, "graceful_azure_health_port: ' 80' is not a TCP port from 1 to 65535"),
        ({"graceful_azure_ports": "80,443"}, "graceful_azure_ports: '80,443' is a text; it must be a list"),
        ({"graceful_azure_health_validate_certs": "maybe"}, "graceful_azure_health_validate_certs"),
        ({"graceful_azure_health_url": "localhost:8080/health"}, "graceful_azure_health_url: url must be like http://localhost:8080/health"),
        ({"graceful_azure_health_url": "http://::1:8080/health"}, "graceful_azure_health_url: url must have an IPv6 address in brackets"),
        ({"graceful_azure_health_url": "http://localhost:0/"}, "graceful_azure_health_url: url must have a port from 1 to 65535"),
        ({"graceful_azure_health_url": "http://localhost:99999/"}, "graceful_azure_health_url: url 'http://localhost:99999/' cannot be understood"),
        ({"graceful_azure_health_address": "[::1]"}, "graceful_azure_health_address: '[::1]' is neither a name nor an IP address"),
        ({"graceful_azure_health_address": "web1..example.com"}, "graceful_azure_health_address: 'web1..example.com' is neither"),
        ({"graceful_azure_health_address": "http://web"}, "graceful_azure_health_address: 'http://web' is neither"),
        ({"graceful_azure_health_address": "localhost:80"}, "graceful_azure_health_address: 'localhost:80' is neither"),
        ({"graceful_azure_health_unanswered": "ask"}, "graceful_azure_health_unanswered: 'ask' is none of refuse, warn"),
        ({"graceful_azure_imds_url": "127.0.0.1:8080"}, "graceful_azure_imds_url: '127.0.0.1:8080' is not the base URL of a metadata service"),
        ({"graceful_azure_state_dir": "state"}, "graceful_azure_state_dir: 'state' is not an absolute path"),
        (
            {"graceful_azure_health_port": "abc", "graceful_azure_health_url": "http://localhost/"},
            "graceful_azure_health_port: 'abc' cannot be read as a whole number",
        ),
        ({"graceful_azure_health_port": "²"}, "graceful_azure_health_port: '²' cannot be read as a whole number"),
        ({"graceful_azure_health_port": 70000}, "graceful_azure_health_port: 70000 is not a TCP port from 1 to 65535"),
        ({"load_balancer_timeout": "soon"}, "load_balancer_timeout: 'soon' is not a number of seconds from 0 up"),
        ({"approve_event_timeout": 0}, "approve_event_timeout: 0 is not a number of seconds from 0.001 up"),
        (
            {"graceful_azure_duties": [{"type": "tasks", "traffic": True, "out": "good.yml", "back": "none.yml"}]},
            "graceful_azure_duties[0].back: there is no task file {base}/none.yml",
        ),
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
    (mistake,) = read_settings({"web1": {DUTIES: [{"type": "tasks", "back": "tasks.yml"}]}}, {"web1"}, str(tmp_path))[1]
    assert mistake.startswith(f"web1: graceful_azure_duties[0].back: {tmp_path}/tasks.yml: ") and said in mistake


INCLUDES = "- include_tasks: {file: other.yml, apply: {tags: a}}\n- import_tasks: other.yml\n- include_role: {name: x}\n  vars: {a: 1}\n"


@pytest.mark.parametrize("text", ["", "---\n", INCLUDES])
def test_a_task_file_that_can(tmp_path, text):
    (tmp_path / "tasks.yml").write_text(text)
    assert read_settings({"web1": {DUTIES: [{"type": "tasks", "out": "tasks.yml"}]}}, {"web1"}, str(tmp_path))[1] == []


@pytest.mark.parametrize("option", ["out", "back"])
def test_a_task_file_must_be_run_by_the_passes(tmp_path, option):
    (tmp_path / "tasks.yml").write_text("")
    assert not needs_files(read_settings({"web1": OURS}, {"web1"}, str(tmp_path))[0])
    assert needs_files(read_settings({"web1": {DUTIES: [{"type": "tasks", option: "tasks.yml"}]}}, {"web1"}, str(tmp_path))[0])


def test_what_cannot_be_resolved_is_not_taken_for_not_set():
    class Templar:
        def copy_with_new_env(self, available_variables):
            return self

        def template(self, value):
            if "typo" in str(value):
                raise AnsibleUndefinedVariable("'typo' is undefined")
            return value

    variables = {"graceful_azure_rules": "{{ typo }}", DUTIES: "{{ typo }}", "graceful_azure_health_url": "http://web1/", "theirs": "{{ typo }}"}
    values, unresolved = resolve(Templar(), names_for_run(), variables)
    assert values == {"graceful_azure_health_url": "http://web1/"}
    # Nor is it told twice, as a required option that is missing.
    duties, rules = read_settings({"web1": values}, {"web1"}, unresolved={"web1": unresolved})[1]
    assert "web1: graceful_azure_rules: '{{ typo }}' cannot be resolved" in rules and "'typo' is undefined" in rules
    assert "web1: graceful_azure_duties: '{{ typo }}' cannot be resolved" in duties


@pytest.mark.parametrize(("given", "said"), [(None, "null"), ("", "an empty text")])
def test_nothing_is_no_number(given, said):
    (mistake,) = read_settings({"web1": dict(OURS, graceful_azure_drain_timeout=given)}, {"web1"})[1]
    assert mistake == f"web1: graceful_azure_drain_timeout: {said} is not a number; leave it out for the default"


def test_extra_variables_that_the_passes_set():
    (mistake,) = forbidden({"load_balancer_min_in_service": 2, "graceful_azure_drain_timeout": 5, "target": "web"})
    assert mistake == "load_balancer_min_in_service: given as an extra variable; the passes set it themselves, leave it out"
    # A task file that is not done would count as done.
    (mistake,) = forbidden({"graceful_azure_done": True})
    assert forbidden({"graceful_azure_done": True, "load_balancer_state": "out"}, alone=True) == [mistake]


@pytest.mark.parametrize("address", ["localhost", "web-1.example.com", "web_1", "10.0.0.4", "::1", "fe80::1%eth0"])
def test_addresses_that_can_be_asked(address):
    assert read_settings({"web1": dict(OURS, graceful_azure_health_port=80, graceful_azure_health_address=address)}, {"web1"})[1] == []


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({}, {}),
        ({"graceful_azure_health_port": "80"}, {"port": 80, "host": "localhost", "validate_certs": True}),
        ({"graceful_azure_health_port": 80, "graceful_azure_health_address": "::1"}, {"port": 80, "host": "::1", "validate_certs": True}),
        ({"graceful_azure_health_url": "https://web/", "graceful_azure_health_validate_certs": "no"}, {"url": "https://web/", "validate_certs": False}),
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


def test_whether_a_machine_has_a_helper():
    for value in (True, "no", None):
        assert read_settings({"web1": dict(OURS, graceful_azure_helper=value)}, {"web1"})[1] == []
    mistakes = read_settings({"web1": dict(OURS, graceful_azure_helper="perhaps")}, {"web1"})[1]
    assert mistakes == ["web1: graceful_azure_helper: 'perhaps' is neither true nor false"]


def test_messages_name_no_classes_and_say_nothing_twice():
    wrong = {"graceful_azure_may_be_off": "maybe", DUTIES: [{"type": "haproxy", "hosts": "lb1", "backends": {"www": 1}}]}
    (*mistakes,) = read_settings({"web1": wrong}, {"web1"})[1]
    assert "class" not in " ".join(mistakes) and sum("duties[0].hosts" in mistake for mistake in mistakes) == 1
    assert "web1: graceful_azure_may_be_off: 'maybe' is neither true nor false" in mistakes
    assert sum("graceful_azure_duties[0].backends: {'www': 1} cannot be read as a list" in mistake for mistake in mistakes) == 1


SET = "/subscriptions/S/resourceGroups/RG/providers/Microsoft.Compute/virtualMachineScaleSets/web"
OUTSIDE = {
    "graceful_azure_approve_through": "azure_resource_manager",
    "graceful_azure_approve_resource": SET,
    "approve_event_witness": "lb1",
    "graceful_azure_resource_name": "web_1",
}


@pytest.mark.parametrize("kind", ["virtualMachines", "virtualMachineScaleSets", "availabilitySets", "VIRTUALMACHINES"])
def test_approvals_from_outside(kind):
    resource = SET.replace("virtualMachineScaleSets", kind)
    given = {**OURS, **OUTSIDE, "graceful_azure_approve_resource": resource, "graceful_azure_approve_access": {"client_id": "app"}}
    settings, mistakes = read_settings({"web1": given}, {"web1"})
    assert mistakes == []
    found = settings["web1"]["outside"]
    assert found == {"through": "azure_resource_manager", "title": "Azure Resource Manager", "resource": resource, "access": {"client_id": "app"}}


@pytest.mark.parametrize("through", [None, "", "metadata_service"])
def test_approvals_go_through_a_vm_by_default(through):
    given = {**OURS, "graceful_azure_approve_resource": SET, "graceful_azure_approve_through": through}
    settings, mistakes = read_settings({"web1": given}, {"web1"})
    assert settings["web1"]["outside"] is None and mistakes == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"graceful_azure_approve_resource": None}, "graceful_azure_approve_resource: not set; approvals through azure_resource_manager need"),
        ({"graceful_azure_approve_resource": "web"}, "graceful_azure_approve_resource: 'web' is not a resource id such as /subscriptions/S/"),
        ({"graceful_azure_approve_resource": SET + "/x"}, "is not a resource id such as"),
        ({"graceful_azure_approve_resource": SET + "?a=b"}, "is not a resource id such as"),
        ({"graceful_azure_approve_resource": SET.replace("Compute", "Network")}, "is not a resource id such as"),
        ({"graceful_azure_approve_resource": SET + "/virtualMachines/0"}, f"is an instance of a scale set; give the scale set, {SET}"),
        ({"graceful_azure_approve_access": {"login_url": "http://x"}}, "graceful_azure_approve_access.login_url: 'http://x' does not begin with https://"),
        ({"graceful_azure_approve_through": "pigeon"}, "graceful_azure_approve_through: 'pigeon' is none of metadata_service, azure_resource_manager"),
    ],
)
def test_approvals_from_outside_that_cannot_work(given, said):
    (mistake,) = read_settings({"web1": {**OURS, **OUTSIDE, **given}}, {"web1"})[1]
    assert said in mistake


def of_role(role, **given):
    """What a role that is used alone says of its variables before its first task."""
    variables = yaml.safe_load((FOLDER / role / "defaults" / "main.yml").read_text())
    variables.update({DUTIES: [{"type": "haproxy", "hosts": ["lb1"]}], "load_balancer_state": "in"}, **given)
    return read_role(role, "web1", variables, {"web1", "lb1"}, "/")[1]


@pytest.mark.parametrize("name", sorted(name for name, option in role_options().items() if option["type"] in ("int", "float", "bool")))
def test_every_number_and_every_switch_that_a_role_declares_is_checked(name):
    (mistake,) = read_settings({"web1": dict(OURS, **{name: "²"})}, {"web1"})[1]
    assert mistake.startswith(f"web1: {name}: '²' ")


def test_what_is_read_is_declared():
    """By the argument spec of a role; what is not declared there has no type and no default."""
    read = set(re.findall(rf'"((?:{"|".join(ROLES)})_\w+)"', SETTINGS.read_text(encoding="utf-8")))
    assert read and read <= set(role_options(all_of_them=True))


@pytest.mark.parametrize("role", ROLES)
def test_a_role_that_is_used_alone_has_nothing_to_say_of_what_is_right(role):
    assert of_role(role) == []


@pytest.mark.parametrize("given", ["", None, "²", {"a": {}}, ["²"]])
@pytest.mark.parametrize("name", sorted(role_options()))
def test_a_role_that_is_used_alone_says_what_the_playbook_says(name, given):
    """The same functions check for both, so nothing is refused by one that the other lets pass."""
    role = next(role for role in ROLES if name.startswith(role))
    variables = {DUTIES: [{"type": "haproxy", "hosts": ["lb1"]}], name: given}
    mistakes = read_settings({"web1": variables}, {"web1", "lb1"}, "/")[1]
    assert all(name in mistake for mistake in mistakes), mistakes
    assert [f"web1: {mistake}" for mistake in of_role(role, **{name: given})] == mistakes


@pytest.mark.parametrize(
    ("role", "given", "said"),
    [
        ("drain_host", {DUTIES: [{"type": "haproxy", "hosts": []}]}, "graceful_azure_duties[0].hosts: empty; give the inventory names"),
        ("drain_host", {"graceful_azure_drain_timeout": -1}, "graceful_azure_drain_timeout: -1 is not a number of seconds from 0 up"),
        ("restore_service", {"restore_service_wait": "maybe"}, "restore_service_wait: 'maybe' cannot be read as true or false"),
        ("drain_host", {"drain_host_state": "gone"}, "drain_host_state: 'gone' is none of drained, running"),
        ("load_balancer", {"load_balancer_state": None}, "load_balancer_state: not set; write one of out, in"),
        ("load_balancer", {"load_balancer_event_details": "none"}, "load_balancer_event_details: 'none' cannot be read as a dictionary"),
        ("approve_event", {"approve_event_event_ids": "e1"}, "approve_event_event_ids: 'e1' is a text; it must be a list"),
        *((role, {f"{role}_event_details": {"e1": 5}}, f"{role}_event_details['e1']: 5 is not a dictionary") for role in ROLES),
        *(
            (
                role,
                {f"{role}_event_details": {"e1": {"not_before": given}}},
                f"{role}_event_details['e1'].not_before: {given!r} is not a time; write one such as 2026-11-21T20:00:00Z",
            )
            for role in ROLES
            for given in ("tonight", 5)
        ),
        ("restore_service", {"graceful_azure_health_port": float("inf")}, "graceful_azure_health_port: inf cannot be read as a whole number"),
        ("approve_event", {"approve_event_ready_resources": []}, "approve_event_ready_resources: an empty list; name at least one, or leave it out"),
        ("approve_event", {**OUTSIDE, "approve_event_witness": None}, "approve_event_witness: not set; a host that cannot be asked needs another target"),
        ("approve_event", {**OUTSIDE, "approve_event_witness": "web9"}, "approve_event_witness: 'web9' is not in the inventory"),
        ("approve_event", {**OUTSIDE, "graceful_azure_resource_name": ""}, "graceful_azure_resource_name: not set; approvals from outside need"),
        (
            "approve_event",
            {**OUTSIDE, "graceful_azure_approve_resource": None},
            "graceful_azure_approve_resource: not set; approvals through azure_resource_manager need",
        ),
        *((role, {f"{role}_event_ids": []}, f"{role}_event_ids: an empty list; name at least one, or leave it out") for role in ROLES),
        *((role, {"graceful_azure_state_dir": "state"}, "graceful_azure_state_dir: 'state' is not an absolute path") for role in ROLES),
    ],
)
def test_what_a_role_that_is_used_alone_refuses(role, given, said):
    (mistake,) = of_role(role, **given)
    assert said in mistake


@pytest.mark.parametrize(
    ("role", "given"),
    [
        # Services are started again whatever the balancer is, and an approval has nothing to do with it.
        ("drain_host", {"drain_host_state": "running", DUTIES: None}),
        ("approve_event", {DUTIES: "lb1"}),
        # The modules take a text, as it may come from the command line; the playbook holds hands on null.
        ("restore_service", {"restore_service_event_ids": "e1,e2"}),
        ("load_balancer", {"load_balancer_event_ids": None}),
        ("approve_event", OUTSIDE),
        ("approve_event", {"graceful_azure_approve_resource": "read by nobody", "approve_event_witness": "web9"}),
        ("load_balancer", {"graceful_azure_ports": "none of its business"}),
    ],
)
def test_what_a_role_that_is_used_alone_lets_pass(role, given):
    assert of_role(role, **given) == []


def test_what_a_role_is_told_of_events_may_be_written_without_quotes():
    """In YAML, an id of digits is a number then, and a time is one of Python's."""
    given = {"load_balancer_state": "out", DUTIES: [], "load_balancer_event_details": {5: {"not_before": datetime(2026, 11, 21, 20, tzinfo=timezone.utc)}}}
    settings, mistakes = read_role("load_balancer", "web1", given, {"web1"})
    assert mistakes == [] and settings["used"]["event_details"] == {"5": {"not_before": "2026-11-21 20:00:00+00:00"}}


def test_a_role_has_no_minimum_where_nothing_counts_it():
    """Each host would go out, whoever else serves."""
    probe = {"type": "health_probe", "action": "file", "file": "/run/out"}
    for duties, least, is_wrong in (
        ([probe], "1", True),
        ([probe], "0%", False),
        ([probe, {"type": "haproxy", "hosts": ["lb1"]}], "1", False),
        (["app"], "1", False),
    ):
        mistakes = of_role("load_balancer", load_balancer_state="out", load_balancer_min_in_service=least, **{DUTIES: duties})
        assert [mistake.partition(", and")[0] for mistake in mistakes] == (["load_balancer_min_in_service: set"] if is_wrong else [])


def test_a_step_with_task_files_needs_the_events(tmp_path):
    (tmp_path / "tasks.yml").write_text("[]\n")
    given = {DUTIES: [{"type": "tasks", "back": str(tmp_path / "tasks.yml")}], "restore_service_wait": False}
    (mistake,) = of_role("restore_service", **given)
    assert mistake.startswith("restore_service_event_ids: not set; steps (restore_service_wait: false) with task files of your own need it")
    assert of_role("restore_service", restore_service_event_ids=["e1"], **given) == []


def test_a_role_tells_what_cannot_be_resolved():
    unresolved = {DUTIES: "graceful_azure_duties: '{{ typo }}' cannot be resolved: 'typo' is undefined"}
    assert read_role("load_balancer", "web1", {"load_balancer_state": "out"}, {"web1"}, unresolved=unresolved)[1] == [unresolved[DUTIES]]


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"hosts": ["graceful_azure_ports"]}, "graceful_azure_duties[0].hosts: 'graceful_azure_ports' is not in the inventory"),
        ({"quiet": "the host's quiet"}, 'graceful_azure_duties[0].quiet: "the host\'s quiet" is not a number of seconds from 0 up'),
    ],
)
def test_a_value_is_told_as_it_was_written_also_if_it_is_the_name_of_an_option(entry, told):
    (mistake,) = read_settings({"web1": {DUTIES: [{"type": "haproxy", "hosts": ["web1"], **entry}]}}, {"web1"})[1]
    assert mistake == f"web1: {told}"


def test_what_the_page_of_settings_names_is_what_is_read():
    """Of the settings that belong to no role. What is read and not told, or told and not read, is a mistake."""
    rows = [line.split("|")[1] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    told = {name for row in rows for name in re.findall(r"`((?:graceful_azure|handle_events)_\w+)`", row)}
    assert told == {*OF_HOSTS, *OF_RUNS, NOTIFY}


class Gates(TrafficDuty):
    """A made-up balancer with options of its own, and one porter for all."""

    once = "it has one porter"
    options = {"porter": {"type": "str", "required": True}, "hinges": {"type": "int", "default": 2}, "server": {"type": "str"}}

    def settings(self, options, host):
        return {"porter": options["porter"], "of": host}

    def mistakes(self, options):
        if options["hinges"] < 1:
            yield "hinges", "0; a gate needs one"

    def claims(self, settings):
        yield "the park", settings["server"], None


def test_a_made_up_balancer_reads_its_own_options(monkeypatch):
    monkeypatch.setitem(TRAFFIC, "gates", Gates())
    gates = {"type": "gates", "server": "north", "porter": "Bill"}
    settings, mistakes = read_settings({"web1": {DUTIES: [{**gates, "hinges": 0}]}, "web2": {DUTIES: [gates]}}, {"web1", "web2"}, "/")
    assert mistakes == [
        "web1: graceful_azure_duties[0].hinges: 0; a gate needs one",
        "web2: graceful_azure_duties[0].server: 'north' on the park is web1's server already. Each host needs its own",
    ]
    wanted = {"provider": "gates", "hosts": [], "server": "north", "porter": "Bill", "of": "web2", "quiet": 3.0}
    assert settings["web2"]["load_balancers"] == [wanted]
    _settings, mistakes = read_settings({"web1": {DUTIES: [gates, {**gates, "name": "back"}]}}, {"web1"}, "/")
    assert mistakes == [
        "web1: graceful_azure_duties[1]: only one entry may be of the type gates, because it has one porter; graceful_azure_duties[0] is one",
    ]
