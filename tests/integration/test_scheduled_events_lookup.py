# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lookup scheduled_events_wait reads the events of the machine that runs Ansible, and of no other by mistake."""

from __future__ import annotations

import pytest

from tests.support.checkout import copy_files
from tests.support.playbook import Playbook
from tests.support.simulator import Simulator

EVENT = "11111111-2222-3333-4444-555555555555"

# Nothing here ever connects to it: a lookup runs where Ansible runs.
REMOTE = {"ansible_connection": "ssh", "ansible_host": "198.51.100.1"}

NAME = "graceful.azure.scheduled_events_wait"
# The event is there already, so none of them waits.
DEFAULT = f"query('{NAME}', timeout=30, sleep=0.1)"
EXPLICIT = f"query('{NAME}', timeout=30, sleep=0.1, imds_url=url)"


@pytest.fixture(scope="module")
def simulator():
    with Simulator(["vm-1", "vm-2"]) as running:
        running.post_event(EventId=EVENT, EventType="Reboot", Resources=["vm-1"], NoticeSeconds=None)
        yield running


@pytest.fixture(scope="module")
def environment(simulator, tmp_path_factory):
    """Ansible with a copy of the collection in which the simulator stands for 169.254.169.254, which no test asks."""
    folder = tmp_path_factory.mktemp("collections")
    copy = folder / "ansible_collections" / "graceful" / "azure"
    copy_files(copy, ("galaxy.yml", "meta", "plugins"))
    fragment = copy / "plugins" / "doc_fragments" / "_imds.py"
    text = fragment.read_text()
    assert text.count("default: http://169.254.169.254") == 1
    fragment.write_text(text.replace("default: http://169.254.169.254", f"default: {simulator.urls['vm-1']}"))
    return {"ANSIBLE_COLLECTIONS_PATH": str(folder)}


@pytest.fixture
def run(tmp_path, simulator, environment):
    """Runs tasks for one host of an inventory, or for several; each task is a name, an expression and keywords."""
    hosts = {
        "here": {"ansible_connection": "local", "its": "{{ " + DEFAULT + " }}"},
        "far": dict(REMOTE, its="{{ " + DEFAULT + " }}"),
        "other": REMOTE,
        "set": dict(REMOTE, graceful_azure_imds_url="{{ url }}"),
        "localhost": {"ansible_connection": "local"},
    }
    playbook = Playbook(tmp_path, hosts, url=simulator.urls["vm-1"])

    def call(host, *tasks, environment_more=None, **options):
        written = [dict({"name": name, "ansible.builtin.debug": {"msg": "{{ " + expression + " }}"}}, **keywords) for name, expression, keywords in tasks]
        before = len(simulator.requests())
        done = playbook.run(written, hosts=host, environment=dict(environment, **(environment_more or {})), **options)
        assert "Traceback" not in done.output
        done.asked = len(simulator.requests()) > before
        return done

    return call


def message(result):
    """What a person reads of a failed task, with or without loop."""
    return " ".join(str(part.get("msg")) for part in [result, *result.get("results", [])])


def refused(result, *words):
    assert result["failed"], result
    for word in ("the machine that runs Ansible", f"Use the module {NAME}", "option imds_url", *words):
        assert word in message(result)


def found(result):
    assert not result.get("failed"), result
    (event,) = result["msg"]
    assert (event["event_id"], event["affects_host"], event["resources"]) == (EVENT, True, ["vm-1"])


def on(host, *tasks):
    """Tasks of this host alone, in a run for more hosts."""
    return [
        (name, expression, {**keywords, "when": [f"inventory_hostname == '{host}'", *([keywords["when"]] if "when" in keywords else [])]})
        for name, expression, keywords in tasks
    ]


def test_where_it_knows_whose_service_it_is(run):
    done = run(
        "here:far:localhost:set",
        *on(
            "here",
            ("plain", DEFAULT, {}),
            ("body", DEFAULT, {"loop": [1]}),
            ("ids", f"query('{NAME}', '{EVENT.upper()}', timeout=30)", {}),
        ),
        *on("localhost", ("by_keyword", DEFAULT, {"connection": "local"})),
        # An explicit URL, on any host.
        ("explicit", EXPLICIT, {}),
        ("delegated", EXPLICIT, {"delegate_to": "localhost"}),
        ("loop", "[item]", {"loop": "{{ " + EXPLICIT + " }}"}),
        ("delegated_loop", "[item]", {"loop": "{{ " + EXPLICIT + " }}", "delegate_to": "localhost"}),
        # The URL from a variable, of the host or of the task.
        *on(
            "set",
            ("variable", DEFAULT, {}),
            ("task_variable", DEFAULT, {"vars": {"graceful_azure_imds_url": "{{ url }}"}}),
            ("variable_loop", "[item]", {"loop": "{{ " + DEFAULT + " }}"}),
            ("with_itself", "[item]", {f"with_{NAME}": [EVENT]}),
        ),
    )
    here, far, there = done["here"], done["far"], done["set"]
    for result in (here["plain"], here["ids"], here["body"]["results"][0], done["localhost"]["by_keyword"]):
        found(result)
    for host in (here, far):
        for result in (host["explicit"], host["delegated"], host["loop"]["results"][0], host["delegated_loop"]["results"][0]):
            found(result)
    for result in (there["variable"], there["task_variable"], there["variable_loop"]["results"][0], there["with_itself"]["results"][0]):
        found(result)
    assert done.asked


def test_where_it_cannot_know_it_refuses_and_asks_nobody(run):
    expression = "{{ " + DEFAULT + " }}"
    delegated = {
        "far": (DEFAULT, {"delegate_to": "far"}),
        "local": (DEFAULT, {"delegate_to": "localhost"}),
        "item": (DEFAULT, {"delegate_to": "{{ item }}", "loop": ["other"]}),
        "task_variable": ("own", {"delegate_to": "other", "vars": {"own": expression}}),
    }
    ways = {"loop": {"loop": expression}, "items": {"with_items": expression}, "itself": {f"with_{NAME}": [EVENT]}}
    delegates = {"plain": {}, "other": {"delegate_to": "other"}, "local": {"delegate_to": "localhost"}}
    loops = {f"{way}_{delegate}": dict(ways[way], **delegates[delegate]) for way in ways for delegate in delegates}
    done = run(
        "here:far:localhost",
        *on(
            "far",
            ("plain", DEFAULT, {}),
            ("body", DEFAULT, {"loop": [1]}),
            ("keyword", DEFAULT, {"connection": "local"}),
            ("variable", "its", {}),
            ("condition", "1", {"when": f"{DEFAULT} | length > 0"}),
            ("nothing", f"query('{NAME}', imds_url=none)", {}),
        ),
        # To whom it is delegated does not matter: the host that the task is for is another one.
        *((f"delegated_{name}", *task) for name, task in delegated.items()),
        *((name, "item", keywords) for name, keywords in loops.items()),
        *on("localhost", ("of_far", "hostvars.far.its", {}), ("of_here", "hostvars.here.its", {})),
    )
    far, localhost = done["far"], done["localhost"]
    for name in ("plain", "body", "keyword", "variable"):
        refused(far[name], "ansible_connection is ssh")
    refused(far["condition"])
    refused(far["nothing"])
    for host in (done["here"], far):
        for name in delegated:
            refused(host[f"delegated_{name}"], "delegated")
        for name in loops:
            refused(host[name], "loop")
    refused(localhost["of_far"])
    refused(localhost["of_here"])
    assert not done.asked


def test_the_url_from_the_environment(run, simulator):
    done = run("far", ("plain", DEFAULT, {}), environment_more={"GRACEFUL_AZURE_IMDS_URL": simulator.urls["vm-1"]})
    found(done["plain"])


def test_the_url_from_the_configuration(run, simulator, tmp_path):
    (tmp_path / "own.cfg").write_text(f"[graceful_azure]\nimds_url = {simulator.urls['vm-1']}\n")
    done = run("far", ("plain", DEFAULT, {}), environment_more={"ANSIBLE_CONFIG": str(tmp_path / "own.cfg")})
    found(done["plain"])


def test_a_controller_of_the_same_set(run, simulator):
    call = f"query('{NAME}', timeout=%d, sleep=0.1, imds_url=other_url, resource_name=%s)"
    done = run(
        "far",
        ("named", call % (30, "'VM-1'"), {}),
        ("itself", call % (1, "none"), {}),
        arguments=["-e", f"other_url={simulator.urls['vm-2']}"],
    )
    found(done["named"])
    assert "Timed out after" in message(done["itself"])


def test_ids_and_states(run):
    call = f"query('{NAME}', %s, imds_url=url, sleep=0.1)"
    done = run(
        "far",
        ("upper", call % f"'{EVENT.upper()}'", {}),
        ("list", call % f"['x', '{EVENT}']", {}),
        ("other_id", call % "'x', timeout=1", {}),
        ("absent", call % "['x'], state='absent'", {}),
        ("states", call % f"'{EVENT}', state=['absent', 'started', 'scheduled']", {}),
        ("text", call % f"'{EVENT}', state='absent,scheduled'", {}),
        ("jmespath", call % "query=\"[?event_type == 'Reboot']\"", {}),
        ("types", call % "event_types=['Freeze'], state='absent'", {}),
        ("not_mine", call % "affecting_host_only=false, event_statuses='Scheduled'", {}),
    )
    for name in ("upper", "list", "states", "text", "jmespath", "not_mine"):
        found(done[name])
    assert done["absent"]["msg"] == []
    assert done["types"]["msg"] == []
    assert "Timed out after" in message(done["other_id"])


def test_check_mode_does_not_wait(run):
    done = run(
        "far",
        ("present", f"query('{NAME}', imds_url=url)", {}),
        ("absent", f"query('{NAME}', imds_url=url, state='absent', timeout=0)", {}),
        arguments=["--check"],
    )
    found(done["present"])
    found(done["absent"])


def test_what_cannot_be_meant(run):
    wrong = {
        "option": ("stat='absent'", ["stat", "state"]),
        "timeout": ("timeout=-1", ["timeout", "-1"]),
        "text": ("timeout='soon'", ["timeout", "soon"]),
        "not_a_number": ("timeout='nan'", ["timeout", "nan"]),
        "state": ("state='gone'", ["state", "gone"]),
        "version": ("api_version='latest'", ["api_version", "latest"]),
        "types": ("event_types=['Restart']", ["event_types", "Restart"]),
        "jmespath": ("query='[?event_type == Freeze]'", ["query", "'Freeze'"]),
        "address": ("imds_url='https://h'", ["imds_url", "https://h"]),
        "ids": ("[]", ["event_ids", "empty"]),
    }
    done = run("far", *[(name, f"query('{NAME}', {option}{'' if 'imds_url' in option else ', imds_url=url'})", {}) for name, (option, _words) in wrong.items()])
    for name, (_option, words) in wrong.items():
        assert done[name]["failed"], name
        for word in words:
            assert word in message(done[name])
