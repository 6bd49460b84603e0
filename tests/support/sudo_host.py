# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An sshd on loopback whose users and whose sudo are those of the test: a mount namespace with files of its own in /etc. Root alone can make one."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.support import sshd
from tests.support.patience import until
from tests.support.ports import accepts, free_port

PYTHON = "/usr/bin/python3"
PASSWORD = "correct horse"
USERS = {"operator7": 41007, "service7": 41008}
FILES = ("passwd", "group", "shadow", "sudoers")


class SudoHost:
    """C(variables): how Ansible logs in as the first of C(USERS). C(sudoers): the lines of sudo's settings."""

    def __init__(self, sudoers):
        # Its users must get in, so it is no folder of pytest.
        self.folder = folder = Path(tempfile.mkdtemp(prefix="ga-sudo-", dir="/tmp"))
        folder.chmod(0o711)
        remote = folder / "remote"
        remote.mkdir()
        remote.chmod(0o1777)
        etc = folder / "etc"
        etc.mkdir()
        for name in FILES[:3]:
            shutil.copy(f"/etc/{name}", etc / name)
        hashed = subprocess.run(["openssl", "passwd", "-6", PASSWORD], capture_output=True, text=True, check=True).stdout.strip()
        for name, number in USERS.items():
            home = folder / name
            home.mkdir(mode=0o700)
            os.chown(home, number, number)
            lines = {"passwd": f"{name}:x:{number}:{number}::{home}:/bin/sh", "group": f"{name}:x:{number}:", "shadow": f"{name}:{hashed}:19000:0:99999:7:::"}
            for file, line in lines.items():
                with (etc / file).open("a") as opened:
                    opened.write(line + "\n")
        (etc / "sudoers").write_text(f"root ALL=(ALL:ALL) ALL\n{sudoers}\n")
        (etc / "sudoers").chmod(0o440)
        sshd.make_keys(folder)
        (folder / "authorized_keys").chmod(0o644)
        port = free_port()
        mounts = "; ".join(f"mount --bind {etc}/{name} /etc/{name}" for name in FILES)
        command = ["unshare", "--mount", "sh", "-ec", mounts + '; exec "$@"', "sh", *sshd.command(folder, f"127.0.0.1:{port}")]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: accepts(port), 5, "sshd")
        self.variables = {
            "ansible_host": "127.0.0.1",
            "ansible_port": port,
            "ansible_user": "operator7",
            "ansible_python_interpreter": PYTHON,
            # For users that sudo changes to, if modules are sent as files.
            "ansible_remote_tmp": str(remote),
            "ansible_shell_allow_world_readable_temp": True,
            **sshd.reached(folder),
        }

    def close(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder)
