# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host hands over (graceful_azure_duties) and what belongs to it: what is wrong with that, and what the plan reads."""

from __future__ import annotations

import re

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import settings_of, types
from ansible_collections.graceful.azure.plugins.plugin_utils._settings import GIVEN, OF_DUTIES, names_for_role, names_for_run, read_role, read_settings

from tests.support.checkout import ROOT

HOSTS = {"web1", "web2", "lb1", "lb2"}
HAPROXY = {"type": "haproxy", "hosts": ["lb1"]}
PROBE = {"type": "health_probe", "action": "file", "file": "/run/maintenance"}
POOL = "/subscriptions/S/resourceGroups/RG/providers/Microsoft.Network/loadBalancers/LB/backendAddressPools/web"
PACEMAKER = {"type": "pacemaker", "name": "ha"}
SET = "/subscriptions/S/resourceGroups/RG/providers/Microsoft.Compute/virtualMachineScaleSets/web"


@pytest.fixture(name="folder")
def make_folder(tmp_path):
    for name in ("out.yml", "back.yml"):
        (tmp_path / name).write_text("")
    return str(tmp_path)


def read(*entries, folder="/", **more):
    settings, mistakes = read_settings({"web1": {"graceful_azure_duties": list(entries), **more}}, HOSTS, folder)
    return settings["web1"], [mistake.removeprefix("web1: ") for mistake in mistakes]


class TestWhatThePlanReads:
    def test_the_names_of_all_variables_are_resolved(self):
        wanted = {
            "graceful_azure_duties",
            "graceful_azure_ports",
            "graceful_azure_drain_timeout",
            "graceful_azure_health_url",
            "graceful_azure_approve_through",
        }
        assert wanted <= names_for_run()
        assert {"graceful_azure_duties", "graceful_azure_ports"} <= names_for_role("drain_host") and "graceful_azure_duties" not in names_for_role(
            "approve_event"
        )

    def test_several_balancers(self):
        nginx = {"type": "nginx", "hosts": ["lb1"], "server": "10.0.0.4:80", "files": ["/etc/nginx/up.conf"], "configuration": "/etc/nginx/nginx.conf"}
        azure = {"type": "azure_load_balancer", "pool": POOL, "address": "a", "client_id": "c"}
        settings, mistakes = read(nginx, azure, PROBE, graceful_azure_ports=[80])
        assert mistakes == []
        assert settings["load_balancers"] == [
            dict(settings_of(kind, options, "web1"), quiet=3.0, **more)
            for kind, options, more in (("nginx", nginx, {}), ("azure_load_balancer", azure, {}), ("health_probe", PROBE, {"ports": [80]}))
        ]

    def test_the_other_variables(self):
        new = {
            "graceful_azure_ports": [80],
            "graceful_azure_drain_timeout": 60,
            "graceful_azure_health_url": "https://localhost/",
            "graceful_azure_health_port": 443,
            "graceful_azure_health_address": "10.0.0.4",
            "graceful_azure_health_validate_certs": False,
            "graceful_azure_health_unanswered": "warn",
            "graceful_azure_restore_timeout": 30,
            "graceful_azure_approve_through": "azure_resource_manager",
            "graceful_azure_approve_resource": SET,
            "graceful_azure_approve_access": {"client_id": "c", "auth_source": "msi"},
        }
        settings, mistakes = read(**new)
        assert mistakes == []
        assert settings["drain_host"] == {"ports": [80], "timeout": 60, "steps": []}
        ask = {"validate_certs": False, "url": "https://localhost/", "port": 443, "host": "10.0.0.4"}
        assert settings["restore_service"] == {"timeout": 30, "unanswered": "warn", "ask": ask}
        access = {"client_id": "c", "auth_source": "msi"}
        assert settings["outside"] == {"through": "azure_resource_manager", "title": "Azure Resource Manager", "resource": SET, "access": access}

    def test_a_text_is_a_service(self):
        assert read("app")[0] == read({"type": "service", "name": "app"})[0]
        assert [step["name"] for step in read("app")[0]["drain_host"]["steps"]] == ["app"]

    def test_duties_before_traffic_come_first_and_those_after_it_wait(self, folder):
        tasks = {"type": "tasks", "out": "out.yml", "back": "back.yml"}
        settings, mistakes = read(
            {**tasks, "name": "queue"}, PACEMAKER, HAPROXY, PROBE, {**tasks, "name": "db"}, "app", folder=folder, graceful_azure_ports=[80]
        )
        assert mistakes == []
        assert [(step["name"], step["idle"], step.get("first")) for step in settings["drain_host"]["steps"]] == [
            ("queue", False, True),
            ("ha", False, True),
            ("db", True, None),
            ("app", True, None),
        ]
        assert [balancer["provider"] for balancer in settings["load_balancers"]] == ["haproxy", "health_probe"]
        assert settings["drain_host"]["steps"][0]["in"] == f"{folder}/back.yml"

    def test_without_traffic_a_service_waits_for_the_ports_of_the_host(self):
        steps = read(PACEMAKER, "app")[0]["drain_host"]["steps"]
        assert [(step["name"], step["idle"], step.get("first")) for step in steps] == [("ha", False, None), ("app", True, None)]

    def test_task_files_may_bring_traffic(self, folder):
        settings, mistakes = read({"type": "tasks", "name": "f5", "traffic": True, "out": "out.yml", "back": "back.yml"}, "app", folder=folder)
        assert mistakes == [] and settings["drain_host"]["steps"][0]["idle"]
        (balancer,) = settings["load_balancers"]
        assert (balancer["provider"], balancer["out"], balancer["back"]) == ("custom", f"{folder}/out.yml", f"{folder}/back.yml")

    def test_the_defaults_of_a_type_are_those_of_its_options(self):
        (balancer,) = read(HAPROXY)[0]["load_balancers"]
        assert balancer["socket"] == types()["haproxy"].options["socket"]["default"] and balancer["server"] == "web1" and balancer["quiet"] == 3

    def test_a_whole_number_may_be_a_text(self):
        """Before core 2.19 a template yields the text of a number."""
        probe = {**PROBE, "interval": "3", "threshold": "4", "margin": "1.5"}
        assert read(probe, graceful_azure_ports=["80"]) == read({**PROBE, "interval": 3, "threshold": 4, "margin": 1.5}, graceful_azure_ports=[80])


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (7, "[0]: 7 is neither a dictionary nor the name of a service"),
        (None, "[0]: None is neither a dictionary nor"),
        ([HAPROXY], "[0]: [{'type': 'haproxy', 'hosts': ['lb1']}] is neither a dictionary nor"),
        ({}, "[0].type: not set; there are haproxy, nginx, health_probe, azure_load_balancer, service, tasks, iis, pacemaker"),
        ({"type": None}, "[0].type: not set; there are haproxy"),
        ({"type": ["haproxy"]}, "[0].type: ['haproxy'] is no type of duty; did you mean haproxy?; there are haproxy"),
        ({"type": "haprxy"}, "[0].type: 'haprxy' is no type of duty; did you mean haproxy?; there are haproxy"),
        ({"type": "custom"}, "[0].type: 'custom' is no type of duty"),
        ({"type": "haproxy"}, "[0].hosts: not set; give the inventory names of the machines on which the balancer runs"),
        ({**HAPROXY, "hosts": None}, "[0].hosts: not set; give the inventory names"),
        ({**HAPROXY, "hosts": []}, "[0].hosts: empty; give the inventory names"),
        ({**HAPROXY, "hosts": "lb1"}, "[0].hosts: 'lb1' is a text; it must be a list"),
        ({**HAPROXY, "hosts": {"a": 1}}, "[0].hosts: {'a': 1} cannot be read as a list"),
        ({**HAPROXY, "hosts": [["lb1"]]}, "[0].hosts: ['lb1'] cannot be read as a text"),
        ({**HAPROXY, "hosts": ["lb9"]}, "[0].hosts: 'lb9' is not in the inventory"),
        ({**HAPROXY, "sokket": "/s"}, "[0]: there is no option sokket; did you mean socket?; for the type haproxy there are type, name, hosts, server, socket"),
        ({**HAPROXY, 7: "/s"}, "[0]: there is no option 7; for the type haproxy there are type"),
        ({**HAPROXY, "haproxy_socket": "/s"}, "[0]: there is no option haproxy_socket"),
        ({**HAPROXY, "socket": "run/admin.sock"}, "[0].socket: 'run/admin.sock' is not an absolute path; write one that begins with /"),
        ({**HAPROXY, "socket": ["/s"]}, "[0].socket: ['/s'] cannot be read as a path"),
        ({**HAPROXY, "server": {"a": 1}}, "[0].server: {'a': 1} cannot be read as a text"),
        ({**HAPROXY, "state": "down"}, "[0].state: 'down' is none of drain, maint"),
        ({**HAPROXY, "state": "drian"}, "[0].state: 'drian' is none of drain, maint; did you mean drain?"),
        ({**HAPROXY, "quiet": -1}, "[0].quiet: -1 is not a number of seconds from 0 up"),
        ({**HAPROXY, "quiet": True}, "[0].quiet: True is not a number of seconds from 0 up"),
        ({**HAPROXY, "quiet": None}, "[0].quiet: null is not a number; leave it out for the default"),
        ({**HAPROXY, "quiet": [3]}, "[0].quiet: [3] is not a number of seconds from 0 up"),
        ({**HAPROXY, "name": "a b"}, "[0].name: 'a b' is not a plain word"),
        ({**HAPROXY, "name": {}}, "[0].name: {} is not a plain word"),
        ({**HAPROXY, "name": True}, "[0].name: True is not a plain word"),
        ({"type": "health_probe"}, "[0].action: not set; write one of file, service, command, responder, iis_site"),
        ({**PROBE, "file": None}, "[0].file: not set; action: file needs it"),
        ({**PROBE, "threshold": 1.5}, "[0].threshold: 1.5 cannot be read as a whole number"),
        ({**PROBE, "threshold": True}, "[0].threshold: True cannot be read as a whole number"),
        ({"type": "azure_load_balancer"}, "[0].pool: not set; give the resource id of the backend address pool"),
        ({"type": "azure_load_balancer", "pool": "web"}, "[0].pool: 'web' is not a resource id such as"),
        ({"type": "service"}, "[0].name: not set; it is the name of the unit"),
        ("", "[0].name: not set; it is the name of the unit"),
        ("worker@", "[0].name: 'worker@' is a template; name an instance of it"),
        ({"type": "iis"}, "[0].name: not set; without sites and pools it is the name of a site"),
        ({"type": "iis", "name": "shop", "sites": [" "]}, "[0].sites: [' '] has an empty name"),
        ({"type": "tasks"}, "[0]: neither out nor back is set; give at least one task file"),
        ({"type": "tasks", "out": "none.yml"}, "[0].out: there is no task file /none.yml"),
        ({"type": "tasks", "out": ["none.yml"]}, "[0].out: ['none.yml'] cannot be read as a path"),
        ({**PACEMAKER, "node": "a b"}, "[0].node: 'a b' is no name of a node"),
        ({**PACEMAKER, "cluster": " "}, "[0].cluster: ' ' is no name; give all hosts of one cluster the same name"),
        ({"type": "slurm", "requeue": "maybe"}, "[0].requeue: 'maybe' cannot be read as true or false"),
    ],
)
def test_what_is_wrong_with_an_entry(entry, said):
    mistakes = read(entry, graceful_azure_ports=[80])[1]
    assert mistakes and mistakes[0].startswith(f"graceful_azure_duties{said}"), mistakes
    assert all(mistake.startswith("graceful_azure_duties[0]") for mistake in mistakes)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        (["app", "app.service"], "[1].name: 'app.service' stands in graceful_azure_duties[0] already; give each entry a name of its own"),
        ([HAPROXY, {**HAPROXY, "hosts": ["lb2"]}], "[1].name: 'haproxy' stands in graceful_azure_duties[0] already; give each entry a name of its own"),
        (
            [PROBE, {**PROBE, "name": "other"}],
            "[1]: only one entry may be of the type health_probe, because all that is held of a host's health answers goes back together;"
            " graceful_azure_duties[0] is one",
        ),
        (
            [HAPROXY, "app", {**HAPROXY, "name": "edge"}],
            "[1]: it brings no traffic and stands between entries that do. It would wait until the host is idle, and the host is not while"
            " graceful_azure_duties[2] brings traffic. Put it before all entries that bring traffic, or after them",
        ),
    ],
)
def test_what_is_wrong_with_entries_beside_each_other(entries, said):
    assert read(*entries, graceful_azure_ports=[80])[1] == [f"graceful_azure_duties{said}"]


def test_task_files_stand_for_any_number_of_balancers(folder):
    tasks = {"type": "tasks", "out": "out.yml", "back": "back.yml", "traffic": True}
    settings, mistakes = read({**tasks, "name": "cdn"}, HAPROXY, tasks, folder=folder)
    assert mistakes == []
    assert [(balancer["provider"], balancer.get("records")) for balancer in settings["load_balancers"]] == [
        # An older version had one such duty, and one name for its record.
        ("custom", ["load_balancer_step_cdn", "load_balancer_custom"]),
        ("haproxy", None),
        ("custom", ["load_balancer_step_tasks"]),
    ]
    (mistake,) = read(tasks, tasks, folder=folder)[1]
    assert mistake.startswith("graceful_azure_duties[1].name: 'tasks' stands in graceful_azure_duties[0] already")
    (mistake,) = read({"type": "tasks", "traffic": True, "out": "out.yml"}, folder=folder)[1]
    assert mistake == "graceful_azure_duties[0]: with traffic: true, both task files are needed, out and back"


def test_two_hosts_that_are_the_same_server():
    hosts = {"web1": {"graceful_azure_duties": ["app", {**HAPROXY, "server": "web"}]}, "web2": {"graceful_azure_duties": [{**HAPROXY, "server": "web"}]}}
    assert read_settings(hosts, HOSTS)[1] == ["web2: graceful_azure_duties[0].server: 'web' on lb1 is web1's server already. Each host needs its own"]


@pytest.mark.parametrize(
    ("ours", "theirs", "owner"),
    [
        ({"type": "slurm", "node": "n1"}, {"type": "slurm", "node": "n1"}, "web1"),
        ({"type": "rabbitmq", "node": "rabbit@mq1"}, {"type": "rabbitmq", "node": "rabbit@mq1"}, "web1"),
        ({"type": "patroni", "member": "n1"}, {"type": "patroni", "member": "n1", "cluster": "patroni"}, "web1"),
        # A host goes by its own name where nothing else is said.
        ({"type": "pacemaker"}, {"type": "pacemaker", "node": "web1"}, "web1"),
        ({"type": "pacemaker"}, {"type": "pacemaker", "node": "web2"}, None),
        ({"type": "slurm"}, {"type": "slurm"}, None),
        ({"type": "slurm", "node": "n1", "cluster": "east"}, {"type": "slurm", "node": "n1", "cluster": "west"}, None),
        ({"type": "redis"}, {"type": "redis"}, None),
        ({"type": "redis", "address": "localhost:6379"}, {"type": "redis", "address": "localhost:6379"}, None),
        ({"type": "redis", "address": "10.0.0.9:6379"}, {"type": "redis", "address": "10.0.0.9:6379"}, "web1"),
        ({"type": "patroni", "url": "http://[::1]:8008"}, {"type": "patroni", "url": "http://[::1]:8008"}, None),
        ({"type": "patroni", "url": "http://0.0.0.0:8008"}, {"type": "patroni", "url": "http://0.0.0.0:8008"}, None),
        ({"type": "patroni"}, {"type": "patroni", "url": "http://db:8008"}, None),
        # Such as that of the leader, whoever it is.
        ({"type": "patroni", "url": "http://db:8008"}, {"type": "patroni", "url": "http://db:8008"}, "web1"),
    ],
)
def test_two_hosts_that_are_the_same_member(ours, theirs, owner):
    mistakes = read_settings({"web1": {"graceful_azure_duties": [ours]}, "web2": {"graceful_azure_duties": [theirs]}}, HOSTS)[1]
    assert len(mistakes) == (owner is not None), mistakes
    option = next((name for name in ("member", "url", "address") if name in theirs), "node")
    assert all(mistake.startswith(f"web2: graceful_azure_duties[0].{option}: {theirs[option]!r} of the {theirs['type']} cluster ") for mistake in mistakes)
    assert all(f" is {owner}'s already; " in mistake for mistake in mistakes)


@pytest.mark.parametrize("given", ["app", {"type": "service", "name": "app"}, 7, "", {}])
def test_what_is_no_list(given):
    (mistake,) = read_settings({"web1": {"graceful_azure_duties": given}}, HOSTS)[1]
    assert mistake.startswith(f"web1: graceful_azure_duties: {given!r} is not a list; write one such as [{{type: haproxy, hosts: [lb1]}}") and "[]" in mistake


@pytest.mark.parametrize("given", [{}, {"graceful_azure_duties": None}, {"graceful_azure_ports": [80]}])
def test_what_is_not_said_at_all(given):
    (mistake,) = read_settings({"web1": given}, HOSTS)[1]
    assert mistake.startswith("web1: graceful_azure_duties: not set; ") and "{type: haproxy, hosts: [lb1]}" in mistake and mistake.endswith("or [] for nothing")


def test_a_balancer_among_the_targets_needs_none():
    (mistake,) = read_settings({"web1": {"graceful_azure_duties": [HAPROXY]}, "lb1": {"graceful_azure_ports": [80]}}, HOSTS)[1]
    assert mistake.startswith("lb1: a balancer of the others, and no target")
    # One that says what it hands over itself may be one.
    assert read_settings({"web1": {"graceful_azure_duties": [HAPROXY]}, "lb1": {"graceful_azure_duties": []}}, HOSTS)[1] == []


def test_what_cannot_be_resolved_is_told_once():
    unresolved = {"web1": {"graceful_azure_duties": "graceful_azure_duties: '{{ typo }}' cannot be resolved: 'typo' is undefined"}}
    assert read_settings({"web1": {}}, HOSTS, unresolved=unresolved)[1] == [f"web1: {unresolved['web1']['graceful_azure_duties']}"]
    assert read_role("drain_host", "web1", {}, HOSTS, unresolved=unresolved["web1"])[1] == [*unresolved["web1"].values()]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"graceful_azure_ports": 80}, "graceful_azure_ports: 80 is a single value; it must be a list"),
        ({"graceful_azure_ports": ["http"]}, "graceful_azure_ports: 'http' cannot be read as a whole number"),
        ({"graceful_azure_ports": [[80]]}, "graceful_azure_ports: [80] cannot be read as a whole number"),
        ({"graceful_azure_ports": [70000]}, "graceful_azure_ports: 70000 is not a TCP port from 1 to 65535"),
        ({"graceful_azure_drain_timeout": "soon"}, "graceful_azure_drain_timeout: 'soon' is not a number of seconds from 0 up"),
        ({"graceful_azure_drain_timeout": None}, "graceful_azure_drain_timeout: null is not a number; leave it out for the default"),
        ({"graceful_azure_restore_timeout": {}}, "graceful_azure_restore_timeout: {} is not a number of seconds"),
        ({"graceful_azure_health_url": "localhost/"}, "graceful_azure_health_url: url must be like"),
        ({"graceful_azure_health_port": "+80"}, "graceful_azure_health_port: '+80' is not a TCP port"),
        ({"graceful_azure_health_port": "web"}, "graceful_azure_health_port: 'web' cannot be read as a whole number"),
        ({"graceful_azure_health_address": "[::1]"}, "graceful_azure_health_address: '[::1]' is neither a name nor an IP address"),
        ({"graceful_azure_health_validate_certs": "maybe"}, "graceful_azure_health_validate_certs: 'maybe' cannot be read as true or false"),
        ({"graceful_azure_health_unanswered": "ask"}, "graceful_azure_health_unanswered: 'ask' is none of refuse, warn"),
        ({"graceful_azure_approve_through": "pigeon"}, "graceful_azure_approve_through: 'pigeon' is none of metadata_service, azure_resource_manager"),
        (
            {"graceful_azure_approve_through": "azure_resource_manager"},
            "graceful_azure_approve_resource: not set; approvals through azure_resource_manager need",
        ),
        ({"graceful_azure_approve_access": "msi"}, "graceful_azure_approve_access: 'msi' cannot be read as a dictionary"),
        ({"graceful_azure_approve_access": {"auth_sorce": "msi"}}, "graceful_azure_approve_access: there is no option auth_sorce; did you mean auth_source?"),
        ({"graceful_azure_approve_access": {"auth_source": "guess"}}, "graceful_azure_approve_access.auth_source: 'guess' is none of auto, cli"),
        ({"graceful_azure_approve_access": {"ca_file": "ca.pem"}}, "graceful_azure_approve_access.ca_file: 'ca.pem' is not an absolute path"),
    ],
)
def test_what_is_wrong_with_the_other_variables(given, said):
    (mistake,) = read(**given)[1]
    assert mistake.startswith(said)


@pytest.mark.parametrize(
    ("entry", "more", "said"),
    [
        (PROBE, {}, "graceful_azure_ports: not set; health_probe needs the ports on which the application serves"),
        ({"type": "azure_load_balancer", "pool": POOL}, {}, "graceful_azure_ports: not set; azure_load_balancer needs the ports"),
        (
            PROBE,
            {"graceful_azure_ports": [80], "graceful_azure_drain_timeout": 12},
            "graceful_azure_drain_timeout: 12 s, but the balancer notices only after 12",
        ),
        (
            {**PROBE, "url": "http://localhost/health"},
            {"graceful_azure_ports": [80], "graceful_azure_health_url": "http://localhost/health"},
            "graceful_azure_health_url: 'http://localhost/health' is the health answer that is made to fail",
        ),
    ],
)
def test_what_a_duty_needs_of_the_other_variables(entry, more, said):
    (mistake,) = read(entry, **more)[1]
    assert mistake.startswith(said)


@pytest.mark.parametrize("role", ["load_balancer", "drain_host", "restore_service"])
def test_a_role_that_is_used_alone_checks_what_it_reads(role):
    state = {"load_balancer": "out", "drain_host": "drained"}
    given = {"graceful_azure_duties": [HAPROXY, "app"], **({f"{role}_state": state[role]} if role in state else {})}
    assert read_role(role, "web1", given, HOSTS)[1] == []
    assert read_role(role, "web1", {**given, "graceful_azure_duties": [{**HAPROXY, "hosts": ["lb9"]}]}, HOSTS)[1] == [
        "graceful_azure_duties[0].hosts: 'lb9' is not in the inventory"
    ]
    (mistake,) = read_role(role, "web1", {key: value for key, value in given.items() if key != "graceful_azure_duties"}, HOSTS)[1]
    assert mistake.startswith("graceful_azure_duties: not set; ")


PAGE = (ROOT / "docs" / "duties.md").read_text(encoding="utf-8")


def rows(text):
    """The cells of the tables in a text, by the names in their first cells. Names that share a row share its type or have one each."""
    found = {}
    for line in text.splitlines():
        if line.startswith("| `"):
            names, kind = line.strip("| ").split(" | ")[:2]
            names, kinds = re.findall(r"`(\w+)`", names), kind.split("; ")
            found.update(zip(names, kinds * (len(names) // len(kinds)), strict=True))
    return found


def kind_of(spec):
    """The type of an option as the page tells it, or its choices."""
    if "choices" in spec:
        *others, last = (f"`{choice}`" for choice in spec["choices"])
        return f"{', '.join(others)} or {last}"
    return f"list of {spec['elements']}" if "elements" in spec else spec["type"]


def check_row(name, said, spec):
    assert said.startswith(f"{kind_of(spec)}, "), (name, said)
    default = spec.get("default")
    if spec.get("required"):
        assert said.endswith(", required"), name
    elif default not in (None, {}, []):
        shown = str(default).lower().replace("'", "") if isinstance(default, bool | list) else f"{default:g}" if isinstance(default, float) else str(default)
        assert said.endswith((f", {shown}", f", `{shown}`")), (name, said)
    else:
        assert not said.endswith(", required"), name


@pytest.mark.parametrize("kind", [kind for kind in types() if types()[kind].options])
def test_the_page_has_each_option_of_a_type(kind):
    (section,) = re.findall(rf"^### {kind}\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL)
    options = types()[kind].options
    assert set(rows(section)) == set(options)
    for name, said in rows(section).items():
        check_row(name, said, options[name])


def test_the_page_has_each_variable():
    section = PAGE.split("## Connections, health and approval")[1]
    assert set(rows(section)) == set(OF_DUTIES)
    for name, said in rows(section).items():
        if name != "graceful_azure_duties":
            check_row(name, said, GIVEN[name.removeprefix("graceful_azure_")])


def test_the_page_names_each_type():
    (section,) = re.findall(r"^## The types\n(.*?)(?=^###)", PAGE, re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"\[`(\w+)`\]\(#", section)) == set(types())
