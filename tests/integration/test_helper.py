# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests to machines by the real Ansible: the first by a module, the others by the helper that it leaves for as long as the run."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import shutil
import signal

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._helper import PREFIX
from ansible_collections.graceful.azure.plugins.plugin_utils._helper import PLACES

from tests.support.checkout import ROOT, copy_files
from tests.support.meanwhile import Meanwhile
from tests.support.needs import FAR_HOST
from tests.support.patience import patient, until
from tests.support.playbook import Playbook
from tests.support.processes import descendants, helper_folders, helpers, kill, marked_helpers
from tests.support.site import Site
from tests.support.sudo_host import PASSWORD, USERS, SudoHost

pytestmark = pytest.mark.timeout(120)

PLUGINS = ROOT / "tests" / "support" / "helper"
ENVIRONMENT = {"ANSIBLE_LIBRARY": str(PLUGINS / "library"), "ANSIBLE_ACTION_PLUGINS": str(PLUGINS / "action_plugins")}
OFTEN = (("pipelining", "root", "password"), ("files", "service7", "free"))
SUDO = [*FAR_HOST, pytest.mark.skipif(not (shutil.which("sudo") and shutil.which("openssl")), reason="no sudo or openssl: apt-get install sudo openssl")]


def ask(name, do="echo", **request):
    return {"name": name, "asked": {"request": dict(request, do=do)}}


FAREWELL = ask("farewell", "farewell")


class Bed:
    """Runs requests, and knows which helpers they have left."""

    def __init__(self, folder, marks):
        self.folder = folder
        self.marks = marks
        self.folders = set()

    def playbook(self, inventory=None, **variables):
        return Playbook(self.folder, inventory, **variables)

    def run(self, tasks, playbook=None, environment=None, **options):
        done = (playbook or self.playbook()).run(tasks, environment=dict(ENVIRONMENT, **(environment or {})), **options)
        names = set(re.findall(r'"name": "([0-9a-f]{16})"', json.dumps(done.results)))
        self.folders.update(f"{place}/{PREFIX}{name}" for place in PLACES for name in names)
        return done

    def processes(self):
        return helpers(self.marks)

    def note(self):
        """The folders of those that live now, such as after a run that told nothing."""
        self.folders.update(helper_folders(self.marks))

    def is_clean(self):
        self.note()
        return not self.processes() and not any(map(glob.glob, self.folders))


@pytest.fixture
def bed(tmp_path):
    with marked_helpers() as marks:
        one = Bed(tmp_path, marks)
        yield one
        for pid in one.processes():
            kill(pid, signal.SIGTERM)
        until(one.is_clean, 5, "the end of all helpers")


@pytest.fixture(params=[True, False], ids=["pipelining", "files"])
def pipelining(request):
    return request.param


def came_from(result):
    assert "starts Python anew" not in " ".join(result.get("warnings") or ())
    return "helper" if result["is_helper"] else "module"


def test_the_first_request_is_a_module_and_the_others_ask_its_process(bed):
    asked = [
        ask("second", text="ü"),
        ask("loads", "load"),
        ask("again", "load"),
        ask("fails", "raise", text="no such thing"),
        ask("large", "large", size=1 << 20),
    ]
    done = bed.run([ask("first"), *asked, FAREWELL])
    assert [came_from(done[name]) for name in ("first", "second", "loads", "again", "large")] == ["module", *["helper"] * 4]
    assert done["second"]["request"]["text"] == "ü"
    assert "haproxy" in done["loads"]["types"]
    assert len(done["large"]["text"]) == 1 << 20
    # A failure is that of a module.
    assert (done["fails"]["failed"], done["fails"]["msg"]) == (True, "ValueError: no such thing")
    until(bed.is_clean, 5, "the end of the helper")


def test_it_shows_nothing_of_the_task(bed):
    environment = {"SECRET_OF_THE_TASK": "hunter2"}
    done = bed.run([dict(ask(name, "tell", variable="SECRET_OF_THE_TASK"), environment=environment) for name in ("first", "second")] + [FAREWELL])
    assert [done[name]["has"] for name in ("first", "second")] == ["hunter2", "hunter2"]
    assert "hunter2" in done["first"]["shown"]
    assert done["second"]["shown"] == ""
    assert done["second"]["command"] == "graceful_azure helper"
    assert done["second"]["folder"] == "/"


def test_a_task_with_another_environment_has_another_helper(bed):
    """Settings of an earlier task do not go along."""
    told = [
        dict(ask(name, "tell", variable="COLOUR"), environment={"COLOUR": colour})
        for name, colour in (("a", "red"), ("b", "blue"), ("c", "red"), ("d", "blue"))
    ]
    done = bed.run(told)
    assert [(came_from(done[name]), done[name]["has"]) for name in "abcd"] == [("module", "red"), ("module", "blue"), ("helper", "red"), ("helper", "blue")]


def test_each_host_of_one_machine_has_its_own(bed):
    hosts = {name: {"ansible_connection": "local"} for name in ("web1", "web2")}
    done = bed.run([ask("first"), ask("second"), dict(ask("delegated"), delegate_to="web1"), FAREWELL], bed.playbook(hosts))
    for host in hosts:
        assert [came_from(done[host][name]) for name in ("first", "second", "delegated")] == ["module", "helper", "helper"]
    until(bed.is_clean, 5, "the end of the helpers")


def test_another_run_has_another_helper(bed):
    for _run in range(2):
        done = bed.run([ask("first"), ask("second")])
        assert [came_from(done[name]) for name in ("first", "second")] == ["module", "helper"]


@pytest.mark.parametrize("end", ["KILL", pytest.param("TERM", marks=pytest.mark.long), "STOP"])
def test_a_helper_that_is_gone_or_hangs_is_replaced(bed, end):
    kill_it = {"name": "kill", "ansible.builtin.shell": f"kill -{end} {{{{ second.leader }}}}; sleep 0.3"}
    go_on = {"name": "go_on", "ansible.builtin.shell": "kill -CONT {{ second.leader }}; sleep 1.5"} if end == "STOP" else FAREWELL
    done = bed.run([ask("first"), ask("second"), kill_it, ask("third"), ask("fourth"), go_on, FAREWELL])
    assert [came_from(done[name]) for name in ("first", "second", "third", "fourth")] == ["module", "helper"] * 2
    until(bed.is_clean, 5, "the end of both")


def test_what_was_sent_is_not_sent_again(bed):
    """Nobody knows whether it was carried out. To Ansible that is a connection that broke."""
    done = bed.run([ask("first"), dict(ask("dies", "die"), ignore_unreachable=True), ask("third"), FAREWELL])
    assert done["dies"]["unreachable"] is True
    assert "has ended before it answered" in done["dies"]["msg"]
    assert came_from(done["third"]) == "helper"


def test_a_connection_that_leaves_no_standard_input_to_commands(bed):
    """Such as paramiko's."""
    plugins = bed.folder / "connections"
    plugins.mkdir()
    (plugins / "deaf.py").write_text(
        "from ansible.plugins.connection.local import DOCUMENTATION, Connection as Local\n\n\n"
        "class Connection(Local):\n    transport = 'deaf'\n    has_pipelining = False\n\n"
        "    def exec_command(self, cmd, in_data=None, sudoable=True):\n        assert in_data is None\n"
        "        return super().exec_command(cmd, None, sudoable)\n"
    )
    playbook = bed.playbook({"here": {"ansible_connection": "deaf"}})
    done = bed.run([ask("first"), ask("second", text="x"), FAREWELL], playbook, {"ANSIBLE_CONNECTION_PLUGINS": str(plugins)})
    assert [came_from(done[name]) for name in ("first", "second")] == ["module", "helper"]
    assert done["second"]["request"]["text"] == "x"
    until(bed.is_clean, 5, "the end of the helper")


# The variable is that of test_a_run_comes_to_the_same_with_helpers_and_without.
@pytest.mark.parametrize("way", [pytest.param("variable", marks=pytest.mark.long), "extra"])
def test_without_a_helper_each_request_is_a_module(bed, way):
    here = {"ansible_connection": "local", **({"graceful_azure_helper": False} if way == "variable" else {})}
    arguments = ["-e", "graceful_azure_helper=no"] if way == "extra" else []
    done = bed.run([ask("first", text="a"), ask("second", text="b"), FAREWELL], bed.playbook({"here": here}), arguments=arguments)
    for name, text in (("first", "a"), ("second", "b")):
        assert done[name]["is_helper"] is False
        assert not done[name].get("warnings")
        assert done[name]["request"]["text"] == text
    until(bed.is_clean, 5, "that nothing is there")


def test_the_code_of_another_version_is_not_asked(bed):
    """What is sent to machines is changed in mid-run."""
    collection = bed.folder / "ansible_collections" / "graceful" / "azure"
    copy_files(collection, ("galaxy.yml", "plugins"))
    changed = {"name": "changed", "ansible.builtin.shell": f"echo >>{collection}/plugins/module_utils/_proc.py"}
    environment = {"ANSIBLE_COLLECTIONS_PATH": str(bed.folder)}
    done = bed.run([ask("first"), ask("second"), changed, ask("third"), ask("fourth")], environment=environment)
    assert [came_from(done[name]) for name in ("first", "second", "third", "fourth")] == ["module", "helper"] * 2


@pytest.mark.parametrize("end", ["controller", pytest.param("all", marks=pytest.mark.long), "interrupted"])
def test_the_wait_and_the_helper_end_when_the_controller_is_killed(bed, end):
    """Its workers have sessions of their own."""
    notes = bed.folder / "notes"
    playbook = bed.playbook()
    waits = ask("waits", "wait", seconds=patient(100), file=str(notes))
    process = playbook.start([ask("first"), waits], environment=ENVIRONMENT)
    until(lambda: len(bed.processes()) == 2, 20, "a request that waits")
    started = descendants(process.pid)
    if end == "interrupted":
        process.send_signal(signal.SIGINT)
    else:
        kill(process.pid)
        for pid in started if end == "all" else ():
            if pid not in bed.processes():
                kill(pid)
    if end == "controller":
        # Nobody has told the worker. What limits looks notices it (C(_time_limit.py)); here the test does.
        for pid in started:
            if pid not in bed.processes():
                kill(pid, signal.SIGTERM)
    process.communicate(timeout=patient(20))
    until(notes.exists, 5, "the end of the wait")
    until(bed.is_clean, 8, "the end of the helper")


def test_an_act_goes_on_when_the_controller_is_killed(bed):
    notes = bed.folder / "notes"
    process = bed.playbook().start([ask("first"), ask("acts", "act", seconds=2, file=str(notes), text="x")], environment=ENVIRONMENT)
    until(notes.exists, 20, "an act that has begun")
    for pid in [process.pid, *descendants(process.pid)]:
        if pid not in bed.processes():
            kill(pid)
    process.communicate(timeout=patient(20))
    until(lambda: notes.read_text() == "begun x\ndone x\n", 5, "the end of the act")
    until(bed.is_clean, 8, "the end of the helper")


class Seen(Meanwhile):
    """The helpers that a run has had."""

    def __init__(self, bed):
        super().__init__()
        self.bed = bed
        self.leaders = set()

    def _run(self):
        while not self._ends.wait(0.1):
            self.bed.note()
            for pid in self.bed.processes():
                with contextlib.suppress(ProcessLookupError):
                    self.leaders.add(os.getsid(pid))


# With helpers, all others that see an event through come to the same.
@pytest.mark.parametrize("is_wanted", [pytest.param(True, marks=pytest.mark.long), False])
def test_a_run_comes_to_the_same_with_helpers_and_without(bed, is_wanted):
    """At its end the machines are told, so that nothing of it stays there."""
    with contextlib.closing(Site(bed.folder)) as site:
        site.write_inventory(**{name: {"graceful_azure_helper": is_wanted} for name in (*site.names, "lb1")})
        with Seen(bed) as seen:
            run = site.see_a_reboot_through()
        assert "starts Python anew" not in run.output
        # Of each host, and of the machine of HAProxy.
        assert len(seen.leaders) == (3 if is_wanted else 0)
        until(bed.is_clean, 2, "the end of the helpers")


# -- over ssh ----------------------------------------------------------------------------------------------------------------------------------------


class TestSudo:
    pytestmark = SUDO

    @pytest.fixture
    def host(self):
        made = []

        def make(sudoers):
            made.append(SudoHost(sudoers))
            return made[0]

        yield make
        made[0].close()

    def run(self, bed, host, pipelining, tasks, **variables):
        told = dict(host.variables, ansible_pipelining=pipelining, **variables)
        return bed.run(tasks, bed.playbook({"far": told}))

    def test_the_user_who_logs_in(self, bed, host, pipelining):
        done = self.run(bed, host(""), pipelining, [ask("first"), ask("second", "tell"), FAREWELL])
        assert [came_from(done[name]) for name in ("first", "second")] == ["module", "helper"]
        assert done["second"]["uid"] == USERS["operator7"]
        until(bed.is_clean, 5, "the end of the helper")

    @pytest.mark.parametrize(
        "way, user, password",
        [
            pytest.param(way, user, password, marks=() if (way, user, password) in OFTEN else pytest.mark.long)
            for way in ("pipelining", "files")
            for user in ("root", "service7")
            for password in ("password", "free")
        ],
    )
    def test_sudo(self, bed, host, way, user, password):
        sudoers = "Defaults use_pty\nDefaults timestamp_timeout=0\noperator7 ALL=(ALL:ALL) %sALL" % ("" if password == "password" else "NOPASSWD: ")
        tasks = [dict(task, become=True, become_user=user) for task in (ask("first"), ask("second", "tell"), ask("third"), FAREWELL)]
        done = self.run(bed, host(sudoers), way == "pipelining", tasks, **({"ansible_become_password": PASSWORD} if password == "password" else {}))
        assert [came_from(done[name]) for name in ("first", "second", "third")] == ["module", "helper", "helper"]
        assert done["second"]["uid"] == USERS.get(user, 0)
        until(bed.is_clean, 5, "the end of the helper")

    @pytest.mark.parametrize("password", [pytest.param(True, id="password"), pytest.param(False, id="free", marks=pytest.mark.long)])
    def test_a_sudo_that_wants_a_terminal(self, bed, host, password):
        """Modules are sent as files then, because pipelining leaves no terminal. So is the request."""
        sudoers = "Defaults requiretty\nDefaults timestamp_timeout=0\noperator7 ALL=(ALL:ALL) %sALL" % ("" if password else "NOPASSWD: ")
        tasks = [dict(task, become=True) for task in (ask("first"), ask("second", "tell"), ask("third", text="ü"), FAREWELL)]
        done = self.run(bed, host(sudoers), False, tasks, **({"ansible_become_password": PASSWORD} if password else {}))
        assert [came_from(done[name]) for name in ("first", "second", "third")] == ["module", "helper", "helper"]
        assert done["second"]["uid"] == 0
        assert done["third"]["request"]["text"] == "ü"
        until(bed.is_clean, 5, "the end of the helper")

    @pytest.mark.parametrize("user", [pytest.param(name, marks=pytest.mark.long if name == "operator7" else ()) for name in USERS])
    def test_su(self, bed, host, user):
        made = host("")
        made.variables["ansible_user"] = "root" if user == "service7" else "service7"
        tasks = [dict(task, become=True, become_method="su", become_user=user) for task in (ask("first"), ask("second", "tell"), FAREWELL)]
        done = self.run(bed, made, True, tasks, ansible_become_password=PASSWORD)
        assert [came_from(done[name]) for name in ("first", "second")] == ["module", "helper"]
        assert done["second"]["uid"] == USERS[user]
        until(bed.is_clean, 5, "the end of the helper")

    def test_each_user_has_a_helper(self, bed, host):
        users = ["operator7", "root", "service7"]
        tasks = []
        for turn, do in (("first", "tell"), ("second", "tell"), ("last", "farewell")):
            for user in users:
                tasks.append(dict(ask(f"{turn}_{user}", do, stay=patient(5)), become=user != "operator7", become_user=user))
        done = self.run(bed, host("operator7 ALL=(ALL:ALL) NOPASSWD: ALL"), True, tasks)
        for user in users:
            assert [came_from(done[f"{turn}_{user}"]) for turn in ("first", "second")] == ["module", "helper"]
            assert done[f"second_{user}"]["uid"] == USERS.get(user, 0)
