# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lookup scheduled_events_wait reads the events of the machine that runs Ansible, and of no other by mistake."""

from __future__ import annotations

import shutil

import pytest

from tests.support.checkout import ROOT
from tests.support.playbook import Playbook
from tests.support.simulator import Simulator

EVENT = "11111111-2222-3333-4444-555555555555"

# Nothing here ever connects to it: a lookup runs where Ansible runs.
REMOTE = {"ansible_connection": "ssh", "ansible_host": "198.51.100.1"}

NAME = "graceful.azure.scheduled_events_wait"
DEFAULT = f"query('{NAME}', timeout=2, sleep=0.1)"
# The machine that runs Ansible, and another one.
BOTH = "here:far"
EXPLICIT = f"query('{NAME}', timeout=2, sleep=0.1, imds_url=url)"


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
    copy.mkdir(parents=True)
    for name in ("galaxy.yml", "meta", "plugins"):
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, copy / name)
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


def test_on_the_vm_itself(run):
    done = run("here", ("plain", DEFAULT, {}), ("body", DEFAULT, {"loop": [1]}), ("ids", f"query('{NAME}', '{EVENT.upper()}', timeout=2)", {}))
    found(done["plain"])
    found(done["ids"])
    found(done["body"]["results"][0])
    assert done.asked


def test_on_the_vm_itself_by_the_keyword(run):
    found(run("localhost", ("plain", DEFAULT, {"connection": "local"}))["plain"])


def test_a_remote_host(run):
    done = run(
        "far",
        ("plain", DEFAULT, {}),
        ("body", DEFAULT, {"loop": [1]}),
        ("keyword", DEFAULT, {"connection": "local"}),
        ("variable", "its", {}),
        ("when", "1", {"when": f"{DEFAULT} | length > 0"}),
        ("nothing", f"query('{NAME}', imds_url=none)", {}),
    )
    for name in ("plain", "body", "keyword", "variable"):
        refused(done[name], "ansible_connection is ssh")
    refused(done["when"])
    refused(done["nothing"])
    assert not done.asked


def test_delegated(run):
    # To whom it is delegated does not matter: the host that the task is for is another one.
    done = run(
        BOTH,
        ("far", DEFAULT, {"delegate_to": "far"}),
        ("local", DEFAULT, {"delegate_to": "localhost"}),
        ("item", DEFAULT, {"delegate_to": "{{ item }}", "loop": ["other"]}),
        ("task_variable", "own", {"delegate_to": "other", "vars": {"own": "{{ " + DEFAULT + " }}"}}),
    )
    for host in BOTH.split(":"):
        for name in ("far", "local", "item", "task_variable"):
            refused(done[host][name], "delegated")
    assert not done.asked


def test_in_loops_it_cannot_know(run):
    expression = "{{ " + DEFAULT + " }}"
    ways = {"loop": {"loop": expression}, "items": {"with_items": expression}, "itself": {f"with_{NAME}": [EVENT]}}
    delegates = {"plain": {}, "other": {"delegate_to": "other"}, "local": {"delegate_to": "localhost"}}
    tasks = {f"{way}_{delegate}": dict(ways[way], **delegates[delegate]) for way in ways for delegate in delegates}
    done = run(BOTH, *[(name, "item", keywords) for name, keywords in tasks.items()])
    for host in BOTH.split(":"):
        for name in tasks:
            refused(done[host][name], "loop")
    assert not done.asked


def test_variables_of_other_hosts(run):
    done = run("localhost", ("far", "hostvars.far.its", {}), ("here", "hostvars.here.its", {}))
    refused(done["far"])
    refused(done["here"])
    assert not done.asked


def test_an_explicit_url(run):
    done = run(
        BOTH,
        ("plain", EXPLICIT, {}),
        ("delegated", EXPLICIT, {"delegate_to": "localhost"}),
        ("loop", "[item]", {"loop": "{{ " + EXPLICIT + " }}"}),
        ("delegated_loop", "[item]", {"loop": "{{ " + EXPLICIT + " }}", "delegate_to": "localhost"}),
    )
    for host in BOTH.split(":"):
        found(done[host]["plain"])
        found(done[host]["delegated"])
        found(done[host]["loop"]["results"][0])
        found(done[host]["delegated_loop"]["results"][0])


def test_the_url_from_a_variable(run):
    done = run(
        "set",
        ("plain", DEFAULT, {}),
        ("task", DEFAULT, {"vars": {"graceful_azure_imds_url": "{{ url }}"}}),
        ("loop", "[item]", {"loop": "{{ " + DEFAULT + " }}"}),
        ("with_itself", "[item]", {f"with_{NAME}": [EVENT]}),
    )
    found(done["plain"])
    found(done["task"])
    found(done["loop"]["results"][0])
    found(done["with_itself"]["results"][0])


def test_the_url_from_the_environment(run, simulator):
    done = run("far", ("plain", DEFAULT, {}), environment_more={"GRACEFUL_AZURE_IMDS_URL": simulator.urls["vm-1"]})
    found(done["plain"])


def test_the_url_from_the_configuration(run, simulator, tmp_path):
    (tmp_path / "own.cfg").write_text(f"[graceful_azure]\nimds_url = {simulator.urls['vm-1']}\n")
    done = run("far", ("plain", DEFAULT, {}), environment_more={"ANSIBLE_CONFIG": str(tmp_path / "own.cfg")})
    found(done["plain"])


def test_a_controller_of_the_same_set(run, simulator):
    call = f"query('{NAME}', timeout=1, sleep=0.1, imds_url=other_url, resource_name=%s)"
    done = run(
        "far",
        ("named", call % "'VM-1'", {}),
        ("itself", call % "none", {}),
        arguments=["-e", f"other_url={simulator.urls['vm-2']}"],
    )
    found(done["named"])
    assert "Timed out after" in message(done["itself"])


def test_ids_and_states(run):
    call = f"query('{NAME}', %s, imds_url=url, timeout=1, sleep=0.1)"
    done = run(
        "far",
        ("upper", call % f"'{EVENT.upper()}'", {}),
        ("list", call % f"['x', '{EVENT}']", {}),
        ("other_id", call % "'x'", {}),
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
