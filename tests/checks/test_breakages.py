# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The promises are kept by few lines. Each of these breakages loses one of them, and the tests must tell.

A breakage is made in a copy of the project, and the tests of that place run there. They pass without it, as ``make test`` shows.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NamedTuple

import pytest

from tests.support.checkout import BUILD, ROOT, copy_files
from tests.support.patience import patient

COPIED = ("plugins", "roles", "playbooks", "meta", "tests", "galaxy.yml", "pyproject.toml", "extensions", "docs", "README.md")
PLAN = "plugins/plugin_utils/_planning"
MACHINE = "plugins/module_utils"
TESTS = "tests/unit/plugins"
PLAN_TESTS = TESTS + "/plugin_utils/test_plan.py"


class Breakage(NamedTuple):
    """In a file, one text is replaced by another. These tests are to fail."""

    promise: str
    file: str
    text: str
    broken: str
    tests: str


BREAKAGES = [
    Breakage(
        "an answer with an empty body ends no event",
        MACHINE + "/_waiting.py",
        "return None if self.empty_body else self.document_incarnation",
        "return self.document_incarnation",
        TESTS + "/module_utils/test_waiting.py",
    ),
    Breakage(
        "nothing is approved before it is drained",
        f"{PLAN}/judgement.py",
        "    if drain.idle_looks < LOOKS:\n",
        "    if False:\n",
        PLAN_TESTS,
    ),
    Breakage(
        "nobody goes back while the event is Started",
        f"{PLAN}/judgement.py",
        "    if event.standing:\n        return False\n    if any(",
        "    if event.status == 'Started':\n        return True\n    if any(",
        PLAN_TESTS,
    ),
    Breakage(
        "one at a time changes the records of a machine",
        f"{MACHINE}/_hold_records.py",
        "fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "pass",
        f"{TESTS}/module_utils/test_hold_records.py",
    ),
    Breakage(
        "an event waits for all hosts that it names",
        f"{PLAN}/approval.py",
        "unready = [host for host in members if",
        "unready = [host for host in members[:1] if",
        PLAN_TESTS,
    ),
    Breakage(
        "a host is drained after two idle looks",
        f"{MACHINE}/_duties/options.py",
        "LOOKS = 2\n",
        "LOOKS = 1\n",
        PLAN_TESTS,
    ),
    Breakage(
        "a read that failed tells nothing",
        f"{PLAN}/hosts.py",
        "return self.observation.events is not None",
        "return True",
        PLAN_TESTS,
    ),
    Breakage(
        "what is changed was recorded before",
        f"{MACHINE}/_hold_engine.py",
        "hold.record, self._move(hold))",
        "hold.record, iter(list(self._move(hold))))",
        f"{TESTS}/module_utils/test_hold_engine.py {TESTS}/module_utils/test_haproxy.py",
    ),
    Breakage(
        "a host approves no event of others",
        f"{MACHINE}/_approving.py",
        'lambda event: allow_other_hosts or bool(event["affects_host"])',
        "lambda event: True",
        f"{TESTS}/modules",
    ),
    Breakage(
        "the plan keeps the minimum in service",
        f"{PLAN}/candidates.py",
        "short = None if least is None else below_minimum(host, observed.hosts, leaving)",
        "short = None",
        PLAN_TESTS,
    ),
    Breakage(
        "the balancer keeps the minimum in service",
        f"{MACHINE}/_haproxy_hold.py",
        "        if self._min_in_service is None:\n",
        "        if True:\n",
        "tests/integration/test_haproxy_hold.py",
    ),
    Breakage(
        "what somebody else has set is left alone",
        f"{MACHINE}/_haproxy_hold.py",
        "            return CHANGED_MEANWHILE\n",
        "            return AS_LEFT\n",
        "tests/integration/test_haproxy_hold.py",
    ),
    Breakage(
        "an event that names a stranger is not approved",
        f"{PLAN}/approval.py",
        "    if not event.strangers or all(host",
        "    if True or all(host",
        PLAN_TESTS,
    ),
    Breakage(
        "an event is read anew before it is approved",
        f"{MACHINE}/_approving.py",
        "            reading = self.reader.read(",
        "            reading = self.once = vars(self).get('once') or self.reader.read(",
        f"{TESTS}/modules",
    ),
    Breakage(
        "an event that is told in two ways is not approved",
        f"{PLAN}/approval.py",
        "if len(event.versions) > 1:",
        "if False:",
        PLAN_TESTS,
    ),
]
IN_SHORT = ("nothing is approved before it is drained", "what is changed was recorded before")


@pytest.fixture(name="copy", scope="module")
def make_copy(tmp_path_factory):
    """A copy of the project's files that is a collection, too."""
    folder = tmp_path_factory.mktemp("broken") / "project"
    copy_files(folder, COPIED)
    collections = folder / "build" / "collections" / "ansible_collections" / "graceful"
    collections.mkdir(parents=True)
    (collections / "azure").symlink_to(folder, target_is_directory=True)
    (folder / "build" / "venv").symlink_to(BUILD / "venv", target_is_directory=True)
    return folder


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda one: one.promise)
def test_a_breakage_has_its_place(breakage):
    """The long test finds it once only. Whoever changes the line is to hear of it at once."""
    assert (ROOT / breakage.file).read_text(encoding="utf-8").count(breakage.text) == 1


@pytest.mark.timeout(600)
@pytest.mark.parametrize("breakage", [pytest.param(one, id=one.promise, marks=() if one.promise in IN_SHORT else pytest.mark.long) for one in BREAKAGES])
def test_a_breakage_is_noticed(copy, breakage):
    path = copy / breakage.file
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole.replace(breakage.text, breakage.broken), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *breakage.tests.split()]
    try:
        done = subprocess.run(
            command, cwd=copy, env=dict(os.environ, HYPOTHESIS_PROFILE="sample"), capture_output=True, text=True, timeout=patient(590), check=False
        )
    finally:
        path.write_text(whole, encoding="utf-8")
    assert done.returncode == 1 and "\nFAILED " in done.stdout, done.stdout[-3000:]
