# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ansible-test sanity of the installed ansible-core, on a copy of the checkout and without ignore files."""

from __future__ import annotations

import fcntl
import re
import subprocess
import sys
from pathlib import Path

import ansible_test
import pytest

from tests.support.ansible_test import copy_checkout, path_of_real_pythons
from tests.support.checkout import BUILD, must_pass

# Where ansible-test itself keeps its virtual environments, for every checkout of this user.
CACHE = Path.home() / ".ansible" / "test"

# pslint: needs PowerShell. test_powershell.py parses our scripts.
SKIPPED = ["pslint"]

# ansible-test fills its virtual environments with this script, which it fetches from a host of its own.
# The wheel of the same pip from the package registry does the same.
GET_PIP = """\
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), {wheel!r}))

from pip._internal.cli.main import main

sys.exit(main(["install"] + [argument for argument in sys.argv[1:] if argument not in ("--no-setuptools", "--no-wheel")]))
"""


def fill_pip_cache():
    source = (Path(ansible_test.__path__[0]) / "_internal" / "python_requirements.py").read_text()
    version = re.search(r"pip='([0-9.]+)'", source).group(1)
    script = CACHE / "cache" / f"get_pip_{version.replace('.', '_')}.py"
    if script.exists():
        return
    script.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", script.parent, f"pip=={version}"], check=True)
    wheel = next(script.parent.glob(f"pip-{version}-*.whl"))
    script.write_text(GET_PIP.format(wheel=wheel.name))


@pytest.mark.timeout(600)
def test_sanity():
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "graceful-azure.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        copy = copy_checkout(BUILD / "sanity")
        fill_pip_cache()
        command = ["ansible-test", "sanity", "--local", "--color", "no"]
        for name in SKIPPED:
            command += ["--skip-test", name]
        said = must_pass(*command, cwd=copy, env={"PATH": path_of_real_pythons()}, timeout=570, telling="ERROR|FATAL")
    assert "All targets skipped" not in said, said
