# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ansible-test sanity of the installed ansible-core, on copies of the checkout and without ignore files."""

from __future__ import annotations

import shutil
from pathlib import Path

import ansible_test
import pytest
from ansible_test._util.target.common.constants import CONTROLLER_PYTHON_VERSIONS, REMOTE_ONLY_PYTHON_VERSIONS

from tests.support.ansible_test import CACHE, copy_checkout, fill_pip_cache, path_of_real_pythons
from tests.support.checkout import BUILD, alone, must_pass

# pslint: needs PowerShell. test_powershell.py parses our scripts.
SKIPPED = ["pslint"]
# Each of them takes as long as all others together, and tests/conftest.py has them run side by side.
LONG = ["import", "pylint"]
# What users get. It is less than half of the Python files, and pylint takes as long for the tests as for the rest.
PACKAGED = ["plugins/", "roles/", "extensions/"]
PYTHONS = [python for python in (*REMOTE_ONLY_PYTHON_VERSIONS, *CONTROLLER_PYTHON_VERSIONS) if shutil.which(f"python{python}", path=path_of_real_pythons())]


# What imports with the oldest and with the newest Python does so with those between them.
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("part", "pythons", "paths"),
    [
        pytest.param("import", [PYTHONS[0], PYTHONS[-1]], [], id="import"),
        pytest.param("pylint", [None], PACKAGED, id="pylint"),
        pytest.param("others", [None], [], id="others"),
        pytest.param("import", PYTHONS[1:-1], [], id="import with every other Python", marks=pytest.mark.long),
        pytest.param("pylint", [None], [], id="pylint_of_all", marks=pytest.mark.long),
    ],
)
def test_sanity(part, pythons, paths):
    choice = [word for name in [*SKIPPED, *LONG] for word in ("--skip-test", name)] if part == "others" else ["--test", part]
    # The environments that ansible-test makes are this part's alone.
    with alone(CACHE / f"graceful-azure-{part}.lock"):
        copy = copy_checkout(BUILD / "sanity" / part)
        fill_pip_cache(Path(ansible_test.__path__[0]))
        for python in pythons:
            command = ["ansible-test", "sanity", "--local", "--color", "no", *choice, *(["--python", python] if python else []), *paths]
            said = must_pass(*command, cwd=copy, env={"PATH": path_of_real_pythons()}, timeout=570, telling="ERROR|FATAL")
            assert "All targets skipped" not in said, said
