# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A module of the collection as a process of its own, the way a host runs it, or in the process of the test."""

from __future__ import annotations

import json
import subprocess
import sys
from unittest import mock

from ansible.module_utils import basic

from tests.support.patience import patient

# Ansible sends a module's arguments on its standard input; core 2.19 and later want to know the profile of serialisation.
PROGRAM = """
import io, json, os, runpy, sys
user, sys.path[:0] = int(sys.argv[2]), sys.argv[3:]
import ansible.module_utils.basic as basic
for name in ("_ANSIBLE_PROFILE",):
    if hasattr(basic, name):
        setattr(basic, name, "legacy")
called = sys.argv[1]
module = "ansible_collections.graceful.azure.plugins.modules."
from ansible_collections.graceful.azure.plugins.module_utils._handle import CALLS
if called in CALLS:
    # Something that a machine is asked.
    args = json.load(sys.stdin)["ANSIBLE_MODULE_ARGS"]
    given = {"_ansible_check_mode": args.pop("_ansible_check_mode", False), "call": called, "args": args}
    sys.stdin = io.TextIOWrapper(io.BytesIO(json.dumps({"ANSIBLE_MODULE_ARGS": given}).encode()))
    called = "machine"
module += called
__import__(module)
if called == "machine":
    # What it needs is loaded later, by a user who may not read it here.
    for load in CALLS.values():
        load()
if user >= 0:
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
sys.argv[1:] = []
sys.modules[module].main()
"""


def run_module(name, arguments, check=False, user=None, wait=True, prefix=()):
    """The result of a module, or of something else that a machine can be asked. Without ``wait``: a function that waits for it.

    ``user`` is the id to run as, for root alone. ``prefix`` is a command that runs another.
    """
    process = subprocess.Popen(
        [*prefix, sys.executable, "-c", PROGRAM, name, str(-1 if user is None else user), *sys.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
    )
    process.stdin.write(json.dumps({"ANSIBLE_MODULE_ARGS": dict(arguments, _ansible_check_mode=check)}))
    process.stdin.close()
    process.stdin = None

    def finish():
        said, complained = process.communicate(timeout=patient(60))
        try:
            return json.loads(said)
        except ValueError:
            raise AssertionError("%s said %r and %r" % (name, said, complained)) from None

    return finish() if wait else finish


def arguments_are(arguments):
    """As long as this context lasts, every module that starts in this process takes these arguments."""
    sent = json.dumps({"ANSIBLE_MODULE_ARGS": arguments}).encode()
    # Cores 2.17 and 2.18 have no profile of serialisation, and no ansible.module_utils.testing.
    return mock.patch.multiple(basic, create=True, _ANSIBLE_ARGS=sent, _ANSIBLE_PROFILE="legacy")
