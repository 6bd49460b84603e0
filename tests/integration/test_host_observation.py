# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A look at a host whose sshd lives and whose programs do not come to an end, as with a disk that stalls."""

from __future__ import annotations

import contextlib
import os
import signal

from tests.support.needs import FAR_HOST as NEEDS
from tests.support.patience import until
from tests.support.playbook import Playbook
from tests.support.processes import commands

pytestmark = NEEDS


def running(text):
    """Command lines that hold the text."""
    return [line for line in map(" ".join, commands().values()) if text in line]


def test_a_host_that_does_not_come_to_an_end_is_cut_off(tmp_path, host):
    stalled = tmp_path / "stalled"
    stalled.write_text(f"#!/bin/sh\necho $$ >> {tmp_path}/pids\nexec sleep 50\n")
    stalled.chmod(0o755)
    playbook = Playbook(tmp_path, {"far": host.variables})
    look = {"graceful.azure.turn": {"turn": {"name": "far", "options": {"timeout": 0.1}}}, "vars": {"ansible_python_interpreter": str(stalled)}}
    environment = {"ANSIBLE_SSH_CONTROL_PATH_DIR": str(tmp_path / "cp"), "ANSIBLE_SSH_RETRIES": "3"}
    done = playbook.run([dict(look, name="looked")], environment=environment)
    try:
        seen = done["looked"]
        assert done.status == 0 and seen["reached"] is False and "fatal" not in seen, done.output
        assert "did not finish its answer within 5.1 s" in seen["error"]
        # Begun once, though three tries more were allowed, and nothing is left of it on the controller but the connection that later tasks share.
        assert len((tmp_path / "pids").read_text().split()) == 1
        until(lambda: all("[mux]" in line for line in running(str(tmp_path / "cp"))), 5, lambda: running(str(tmp_path / "cp")))
    finally:
        host.close_connections(tmp_path / "cp")
        for pid in (tmp_path / "pids").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
