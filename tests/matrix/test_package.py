# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The package as users get it: what Galaxy says of it, what it needs of an execution environment, and an event that it handles where nothing else is.

What is in it is in tests/checks/test_collection.py.
"""

from __future__ import annotations

import os
import re
import signal

import pytest

from tests.matrix import environments
from tests.support.checkout import ROOT, must_pass
from tests.support.ports import free_port
from tests.support.site import Site

pytestmark = [pytest.mark.long, pytest.mark.timeout(2 * environments.MAKE_SECONDS + 600)]

GALAXY = ("galaxy-importer >= 0.4.30, < 0.5", "ansible-builder >= 3.1, < 4")
TOLD = re.compile("WARNING|ERROR|CRITICAL")


@pytest.fixture(name="package", scope="module")
def make_package(tmp_path_factory):
    folder = tmp_path_factory.mktemp("package")
    must_pass("ansible-galaxy", "collection", "build", "--output-path", str(folder))
    (package,) = folder.glob("*.tar.gz")
    return package


@pytest.fixture(name="installed", scope="module")
def install(tmp_path_factory, package):
    """A path of collections that was empty before."""
    folder = tmp_path_factory.mktemp("installed")
    must_pass("ansible-galaxy", "collection", "install", "--offline", "-p", str(folder), str(package), env={"ANSIBLE_COLLECTIONS_PATH": str(folder)})
    return folder


@pytest.fixture(name="galaxy", scope="module")
def make_galaxy():
    return environments.core(environments.newest_core(), GALAXY, "galaxy")


@pytest.fixture(name="declared", scope="module")
def introspect(installed, galaxy):
    """The Python packages with which an execution environment with the collection is built."""
    python, system = installed / "python.txt", installed / "system.txt"
    must_pass(galaxy / "ansible-builder", "introspect", f"--write-pip={python}", f"--write-bindep={system}", str(installed))
    assert not system.exists()
    return [line.partition("#")[0].strip() for line in python.read_text().splitlines() if line]


def test_galaxy_imports_it_without_a_warning(tmp_path, galaxy, package):
    settings = {
        "GALAXY_IMPORTER_CHECK_REQUIRED_TAGS": "true",
        "GALAXY_IMPORTER_TMP_ROOT_DIR": str(tmp_path),
        "PATH": f"{galaxy}:/usr/bin:/bin",
    }
    said = must_pass(galaxy / "python", "-m", "galaxy_importer.main", str(package), cwd=tmp_path, env=settings, timeout=590)
    assert "ansible-lint run complete" in said and "Collection loading complete" in said, said
    assert [line for line in said.splitlines() if TOLD.match(line)] == []


def test_an_execution_environment_gets_what_the_requirements_list(declared):
    assert declared == ["jmespath >= 1.0", "requests >= 2.20"]


@pytest.mark.parametrize("core", [environments.oldest_core, environments.newest_core])
def test_it_handles_an_event_with_what_it_declares_and_nothing_else(tmp_path, monkeypatch, installed, declared, core):
    programs = environments.core(core(), declared, "declared")
    monkeypatch.setenv("ANSIBLE_COLLECTIONS_PATH", str(installed))
    site = Site(tmp_path, python=programs / "python", programs=programs)
    try:
        site.see_a_reboot_through()
    finally:
        site.close()


@pytest.mark.parametrize("core", [environments.oldest_core, environments.newest_core])
def test_the_playbook_that_public_ci_runs_in_execution_environments(tmp_path, installed, declared, core):
    programs = environments.core(core(), declared, "declared")
    ports = ("-e", f"ee_imds_port={free_port()}", "-e", f"ee_control_port={free_port()}")
    # Its folder is there, and with it the pid of a simulator that a failure leaves behind.
    env = {"ANSIBLE_COLLECTIONS_PATH": str(installed), "TMPDIR": str(tmp_path)}
    try:
        said = must_pass(programs / "ansible-playbook", ROOT / "tests" / "ee" / "see_an_event_through.yml", *ports, env=env, timeout=500)
        assert "Reboot E1 (web1): completed" in said, said
    finally:
        for pid in tmp_path.rglob("imds_simulator.pid"):
            os.kill(int(pid.read_text()), signal.SIGTERM)
