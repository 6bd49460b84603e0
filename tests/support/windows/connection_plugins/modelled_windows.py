# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A connection to a modelled Windows host, for the real ansible-core.

It reads which module is to run, and with which arguments, out of what Ansible would send to PowerShell. It checks them against the module's own
documentation, and has the model answer.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = """
name: modelled_windows
short_description: A modelled Windows host
description:
  - For tests alone.
author: The graceful.azure authors (@graceful-azure)
options:
  folder:
    description: The folder of the model.
    type: str
    vars:
      - name: modelled_windows_folder
"""

sys.path.insert(0, str(Path(__file__).resolve().parents[4]))

from tests.support.windows.documented import mistakes_in, options_of  # noqa: E402
from tests.support.windows.inventory import words  # noqa: E402
from tests.support.windows.model import ModelledHost, Unreachable, answer, script_name  # noqa: E402

SEPARATOR = b"\0\0\0\0"


def read_call(payload):
    """The arguments of the module that the payload is to run, as it would get them. They are in its last part."""
    manifest = json.loads(payload.rpartition(SEPARATOR)[2])
    if "module_args" in manifest:
        return manifest["module_args"]  # before core 2.19
    (variable,) = [one for one in manifest["actions"][-1]["params"]["Variables"] if one["Name"] == "complex_args"]
    return variable["Value"]


class Connection(ConnectionBase):
    transport = "modelled_windows"
    module_implementation_preferences = (".ps1", ".exe", "")
    has_pipelining = True
    always_pipeline_modules = True
    allow_executable = False

    def __init__(self, *args, **kwargs):
        self._shell_type = "powershell"
        super().__init__(*args, **kwargs)

    def _connect(self):
        self._connected = True
        return self

    def exec_command(self, cmd, in_data=None, sudoable=True):
        host = ModelledHost(self.get_option("folder"))
        if in_data is None:
            raise AssertionError(f"a bare command: {cmd[:200]}")
        args = read_call(in_data)
        module = args["_ansible_module_name"]
        check_mode = bool(args.get("_ansible_check_mode"))
        given = {key: value for key, value in args.items() if not key.startswith("_ansible_")}
        mistakes = [f"{module}: {mistake}" for mistake in mistakes_in(options_of(os.environ["MODELLED_WINDOWS_COLLECTIONS"], module), given)]
        told = {**given, "script": script_name(given["script"])} if "script" in given else given
        call = {"module": module, "args": told, "check_mode": check_mode, "mistakes": mistakes}
        # For whoever kills the controller before a certain call (tests/chaos/points.py).
        sys.audit("modelled_windows.call", host.folder.name, words(call))
        host.note(call)
        try:
            result = {"failed": True, "msg": "; ".join(mistakes)} if mistakes else answer(host, module, given, check_mode)
        except Unreachable:
            raise AnsibleConnectionFailure("winrm connection error: the host does not answer") from None
        except AssertionError as error:
            host.note({"module": module, "args": {}, "check_mode": check_mode, "mistakes": [str(error)]})
            raise
        return 0, json.dumps(result).encode(), b""

    def put_file(self, in_path, out_path):
        raise AssertionError(f"a file would be sent: {in_path}")

    def fetch_file(self, in_path, out_path):
        raise AssertionError(f"a file would be fetched: {in_path}")

    def reset(self):
        self._connected = False

    def close(self):
        self._connected = False
