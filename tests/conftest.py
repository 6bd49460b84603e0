# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The surroundings of all tests: the set-up's programs and collections, and nothing of the user's.

ansible-test runs the tests in tests/unit with surroundings of its own. It reads no pyproject.toml, so what they need of it is set here.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path

import hypothesis
import pytest

try:
    import pytest_timeout
except ImportError:  # ansible-test does not install it
    pytest_timeout = None

UNDER_ANSIBLE_TEST = __name__.startswith("ansible_collections.")

if UNDER_ANSIBLE_TEST:
    checkout = Path(__file__).resolve().parents[1]
    sys.path += [str(checkout / folder) for folder in ("roles/event_watcher/files", "roles/imds_simulator/files", ".")]
else:
    from tests.support.checkout import BUILD, ROOT, SURROUNDINGS

    (BUILD / "module-code").mkdir(parents=True, exist_ok=True)
    os.environ.update(
        SURROUNDINGS,
        HYPOTHESIS_STORAGE_DIRECTORY=str(BUILD / "hypothesis"),
        MODULE_CODE_CACHE=str(BUILD / "module-code"),
        PATH=os.pathsep.join([str(BUILD / "venv" / "bin"), os.environ["PATH"], "/usr/sbin", "/sbin"]),
    )
    # With it, Python reads its program from standard input byte by byte, as Ansible sends a module: more than half of the CPU of a module's start.
    os.environ.pop("PYTHONUNBUFFERED", None)

from tests.support.patience import MOST, patient  # noqa: E402

# Where /tmp is in memory, as in Debian 13, no records of holds may lie there. The folder beside it outlasts a reboot on every system.
TEMPORARY = "/tmp"
with contextlib.suppress(OSError):
    if any(line.split()[1:3] == ["/tmp", "tmpfs"] for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()):
        TEMPORARY = "/var/tmp"
        os.environ.setdefault("TMPDIR", TEMPORARY)
        tempfile.tempdir = None

hypothesis.settings.register_profile("long", max_examples=5000, deadline=None)
# The same cases each time, so that what is found by chance is found by those who look for it.
# Its own limit for one case is set before anybody knows how slow the machine will be meanwhile.
hypothesis.settings.register_profile("sample", derandomize=True, deadline=200 * MOST)
# What measures coverage slows all tests down.
hypothesis.settings.register_profile("coverage", derandomize=True, deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "sample"))


def pytest_configure(config):
    if UNDER_ANSIBLE_TEST:
        for mark in ("long: takes minutes", "timeout: the limit of a test, where pytest-timeout is installed"):
            config.addinivalue_line("markers", mark)
        config.option.markexpr = "not long"


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_timeout_set_timer(item, settings):
    return pytest_timeout.pytest_timeout_set_timer(item, settings._replace(timeout=patient(settings.timeout)))


def _shares_nothing(path):
    """Whether no fixture of a file lasts longer than a test, and no test counts the processes that others start."""
    return 'scope="' not in (ROOT / path).read_text(encoding="utf-8") and path != "tests/integration/test_nginx_hold.py"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    if config.getvalue("dist") == "loadfile":
        from xdist.scheduler import LoadFileScheduling

        class ByFile(LoadFileScheduling):
            """A file's tests stay together, but for those that share nothing and take long: these are dealt one by one."""

            def _split_scope(self, nodeid):
                path = super()._split_scope(nodeid)
                return nodeid if path == "tests/checks/test_sanity.py" or path.startswith("tests/integration/") and _shares_nothing(path) else path

        return ByFile(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    # ansible-test forks for each test. Unless each is the last one, a fork ends without stopping what a fixture has started for the whole file.
    forked = item.config.pluginmanager.get_plugin("ansible_forked")
    return forked and forked.pytest_runtest_protocol(item, None)


@pytest.fixture
def tmp_path(request, tmp_path):
    """Pytest's own, or one beside it where a module says OPEN_TO_ALL: every new session closes pytest's to other users."""
    if not getattr(request.module, "OPEN_TO_ALL", False):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="graceful-azure-", dir=TEMPORARY) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
