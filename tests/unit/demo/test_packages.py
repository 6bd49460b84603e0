# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""make demo and make shell install few packages, tests/requirements-demo.txt. Their programs import no others."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.support.checkout import ROOT

IMPORTS = """
import json, sys, sysconfig
at_start = set(sys.modules)
import tests.demo.run, tests.demo.shell
site = sysconfig.get_path("purelib")
files = {name: getattr(sys.modules[name], "__file__", None) or "" for name in set(sys.modules) - at_start}
print(json.dumps([name for name, file in files.items() if file.startswith(site)]))
"""


def test_the_demo_and_the_shell_import_only_what_comes_with_ansible():
    done = subprocess.run([sys.executable, "-c", IMPORTS], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    packages = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert packages <= {"yaml", "_yaml"}
