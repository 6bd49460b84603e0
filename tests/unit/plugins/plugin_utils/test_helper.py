# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the controller asks a helper, and what it does where there is none."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from types import SimpleNamespace
from unittest import mock

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.graceful.azure.plugins.module_utils import _helper as on_machine
from ansible_collections.graceful.azure.plugins.plugin_utils import _helper

ANSWER = 'graceful_azure asked \n\n\ngraceful_azure answer {"acts": [], "look": {"text": "\\u00fc"}}\n'
NONE = "graceful_azure none no socket\n"


class Action:
    """An action whose commands are answered by the test. C(said): what they print, or what they raise."""

    def __init__(self, *said, pipelining=True, has_pipelining=True, become=None, delegate_to=None, environment="", user="admin", become_user=None):
        self.said = list(said)
        self.commands = []
        self.modules = []
        self.become_user = become_user
        self.user = user
        self.environment = environment
        self._task = SimpleNamespace(delegate_to=delegate_to, check_mode=False, diff=False)
        shell = SimpleNamespace(tmpdir=None, join_path=os.path.join)
        self._connection = SimpleNamespace(has_pipelining=has_pipelining, become=become, is_pipelining_enabled=lambda: pipelining, _shell=shell)
        self._templar = SimpleNamespace(template=lambda value: value)
        self.files = {}

    def _low_level_execute_command(self, command, in_data=None):
        self.commands.append((command, in_data))
        said = self.said.pop(0)
        if isinstance(said, Exception):
            raise said
        stdout, stderr = said if isinstance(said, tuple) else (said, "")
        return {"rc": 0, "stdout": stdout, "stderr": stderr}

    def _get_remote_user(self):
        return self.user

    def get_become_option(self, _name):
        return self.become_user

    def _compute_environment_string(self):
        return self.environment

    def _make_tmp_path(self):
        return "/home/admin/.ansible/tmp/1"

    def _transfer_data(self, path, data):
        self.files[path] = data

    def _fixup_perms2(self, paths, execute):
        self.files["readable"] = (paths, execute)

    def ask(self, request=None, told=None, **variables):
        def run(args):
            self.modules.append(args)
            return dict({"acts": [], "by": "module"}, **(told or {}))

        return _helper.ask(self, {"request": request or {"acts": []}}, {"inventory_hostname": "web1", **variables}, run)


def test_the_helper_is_asked_with_the_request_on_standard_input():
    action = Action(ANSWER)
    assert action.ask({"secret": "hunter2"}) == {"acts": [], "look": {"text": "ü"}}
    ((command, in_data),) = action.commands
    assert "hunter2" not in command
    assert json.loads(in_data) == {"request": {"secret": "hunter2"}}
    assert action.modules == []


@pytest.mark.parametrize("said", [NONE, "", ("", "sh: 1: exec: /usr/bin/python3: not found"), "motd\ngraceful_azure none [Errno 111] Connection refused\r\n"])
def test_where_no_helper_answers_a_module_runs_and_is_told_its_name(said):
    action = Action(said)
    assert action.ask() == {"acts": [], "by": "module"}
    assert action.modules == [{"request": {"acts": []}, "helper": _helper.name_of(action, "web1")}]


@pytest.mark.parametrize(
    "said", ["graceful_azure asked \n", "graceful_azure asked \ngraceful_azure answer {", "graceful_azure asked \ngraceful_azure answer []"]
)
def test_what_was_sent_is_not_sent_again(said):
    action = Action(said)
    with pytest.raises(AnsibleConnectionFailure, match="has ended before it answered"):
        action.ask()
    assert action.modules == []


def test_a_connection_that_fails_is_told_as_it_is():
    action = Action(AnsibleConnectionFailure("no route to host"))
    with pytest.raises(AnsibleConnectionFailure, match="no route to host"):
        action.ask()
    assert action.modules == []


def test_a_warning_says_why_a_machine_has_none():
    action = Action(NONE, delegate_to="lb1")
    result = action.ask(told={"helper": "No folder for its socket can be made (/tmp: Read-only file system).", "warnings": ["old"]})
    assert "helper" not in result and result["by_module"]
    assert result["warnings"] == [
        "old",
        "lb1: no helper process answers there, so each task starts Python anew, which takes longer and harms nothing."
        " No folder for its socket can be made (/tmp: Read-only file system).",
    ]


@pytest.mark.parametrize("value", [False, "no", "false", 0])
def test_the_user_may_do_without(value):
    action = Action()
    assert action.ask(graceful_azure_helper=value) == {"acts": [], "by": "module", "by_module": True}
    assert action.modules == [{"request": {"acts": []}}]


def test_that_is_a_variable_of_the_machine():
    action = Action(ANSWER, delegate_to="lb1")
    delegated = {"lb1": {"graceful_azure_helper": True}, "web1": {}}
    assert action.ask(graceful_azure_helper=False, ansible_delegated_vars=delegated)["look"]


def test_a_request_that_is_too_large_for_it_goes_by_module(monkeypatch):
    monkeypatch.setattr(on_machine, "REQUEST_LIMIT", 20)
    result = Action().ask({"acts": ["x" * 20]})
    assert result["by"] == "module"
    assert result["warnings"][0].endswith("A request has 47 bytes; 20 are allowed.")


SUDO, SU = SimpleNamespace(pipelining=True), SimpleNamespace(pipelining=False)


@pytest.mark.parametrize(
    "options, said, ways",
    [
        ({}, [ANSWER], ["input"]),
        ({"become": SUDO}, [ANSWER], ["input"]),
        ({"become": SUDO, "pipelining": False}, [ANSWER], ["input"]),
        ({"become": SUDO, "pipelining": False}, [("", "sudo: sorry, you must have a terminal to run sudo"), ANSWER], ["input", "file"]),
        # The command ran, so a terminal would change nothing.
        ({"become": SUDO, "pipelining": False}, [NONE], ["input"]),
        ({"become": SUDO}, [("", "sudo: a password is required")], ["input"]),
        ({"become": SU, "pipelining": False}, [ANSWER], ["file"]),
        ({"has_pipelining": False, "pipelining": False}, [ANSWER], ["file"]),
        ({"pipelining": False}, [""], ["input"]),
    ],
)
def test_how_the_request_gets_there(options, said, ways):
    action = Action(*said, **options)
    result = action.ask({"acts": [1]})
    assert ("look" in result) == (said[-1] == ANSWER)
    assert ["file" if in_data is None else "input" for _command, in_data in action.commands] == ways
    if "file" in ways:
        path = "/home/admin/.ansible/tmp/1/request"
        assert json.loads(action.files[path]) == {"request": {"acts": [1]}}
        assert action.files["readable"] == (["/home/admin/.ansible/tmp/1", path], False)
        assert f"<{path}" in action.commands[-1][0]


def test_nobody_else_has_its_name(monkeypatch):
    def name(machine="web1", **options):
        _helper._code.cache_clear()
        return _helper.name_of(Action(**options), machine)

    names = [name(), name("web2"), name(user="operator"), name(become=SUDO, become_user="root"), name(become=SUDO, become_user="www"), name(environment="A=1 ")]
    monkeypatch.setattr(_helper, "__version__", "2.99")
    names.append(name())
    with mock.patch.object(_helper.os, "walk", lambda _folder: [(os.path.dirname(_helper.__file__), [], ["_helper.py"])]):
        names.append(name())
    monkeypatch.setattr(_helper.C, "DEFAULT_LOCAL_TMP", "/another/run")
    names.append(name())
    assert len(set(names)) == len(names)
    assert name() == names[-1]
    assert {len(each) for each in names} == {16}


@pytest.mark.parametrize(
    "variables, pythons",
    [
        ({"ansible_python_interpreter": "/opt/python"}, ["/opt/python"]),
        ({"ansible_python_interpreter": "/opt/my python"}, ["/opt/my python"]),
        ({"ansible_python_interpreter": "auto", "ansible_facts": {"discovered_interpreter_python": "/usr/bin/python3.9"}}, ["/usr/bin/python3.9"]),
        ({}, list(_helper.PYTHONS)),
    ],
)
def test_the_python_of_the_client(variables, pythons):
    action = Action(NONE)
    action.ask(**variables)
    (command, _in_data) = action.commands[0]
    assert f"for p in {' '.join(map(shlex.quote, pythons))}; do" in command


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
def test_the_command_in_a_shell_where_no_helper_is(shell):
    """No Python starts for that."""
    if not shutil.which(shell):
        pytest.skip(f"no {shell}")
    action = Action(NONE)
    action.ask(ansible_python_interpreter="/does/not/exist")
    words = [shell, "sh"] if shell == "busybox" else [shell]
    done = subprocess.run([*words, "-c", action.commands[0][0]], input=b"x" * 10**6, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"graceful_azure none\n", b"")
