# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the plan takes in and gives out besides its decisions: the document is checked at the door, the memory is readable JSON."""

from __future__ import annotations

import copy
import json

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import DocumentError, read_document
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.memory import read_memory, write_memory
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.plan import plan

from tests.support.model import Model


@pytest.fixture(name="model")
def make_model():
    """Two hosts, one of which drains for an event."""
    model = Model()
    model.announce("E1", "web1")
    model.go()
    model.go()
    model.number += 1
    return model


@pytest.mark.parametrize(
    ("path", "told"),
    [
        (("now",), "the document has no now"),
        (("run", "started"), "run has no started"),
        (("settings", "web1", "rules"), "settings of web1 has no rules"),
        (("settings", "web1", "drain_host", "timeout"), "drain_host in settings of web1 has no timeout"),
        (("hosts", "web1", "events", 0, "event_status"), "look at web1 has no event_status"),
        (("hosts", "web1", "at"), "look at web1 does not tell when it was made"),
        (("memory", "events", "e1", "first_seen"), "memory of event e1 has no first_seen"),
    ],
)
def test_what_is_missing_is_told_by_name(model, path, told):
    document = json.loads(json.dumps(model.world()))
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    with pytest.raises(DocumentError, match=told):
        plan(document)


def test_what_is_no_dictionary_is_told_by_name(model):
    with pytest.raises(DocumentError, match="run is 'soon' and no dictionary"):
        plan(dict(model.world(), run="soon"))


def test_what_nobody_knows_is_left_out(model):
    document = model.world()
    document["run"]["colour"] = document["hosts"]["web1"]["colour"] = "green"
    assert read_document(document).observations["web1"].reached


def test_a_plan_writes_into_nothing_that_it_was_given(model):
    document = model.world()
    before = copy.deepcopy(document)
    plan(document)
    assert document == before


def test_the_memory_is_json_and_the_same_when_it_is_read_and_written_again(model):
    model.go()
    memory = json.loads(json.dumps(model.memory))
    assert write_memory(read_memory(memory, model.names)) == memory
    assert memory["hosts"]["web1"]["last_step"]["role"] and memory["events"]["e1"]["rule"]["name"]


@pytest.mark.parametrize(("written", "answer"), [({}, None), ({"unanswered": None}, ""), ({"unanswered": "503"}, "503")])
def test_whether_a_host_was_asked_is_remembered(written, answer):
    memory = {"hosts": {"web1": written}, "events": {}}
    read = read_memory(memory, ["web1"])
    assert read.hosts["web1"].answer == answer and write_memory(read)["hosts"]["web1"] == dict(written, looks=0)
