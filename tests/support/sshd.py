# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An sshd of ours with keys of its own, and how Ansible reaches what it serves."""

from __future__ import annotations

import os
import subprocess

from tests.support.processes import find_program

SSHD = find_program("sshd")


def make_keys(folder):
    """The host's key and the user's, who is let in by it."""
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    (folder / "user.pub").rename(folder / "authorized_keys")


def command(folder, *addresses, name="sshd_config", more=""):
    """The words that start an sshd which listens at these addresses, in the foreground. Its configuration lies in the folder, beside the keys."""
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    (folder / name).write_text(
        "".join(f"ListenAddress {address}\n" for address in addresses)
        + f"HostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized_keys\nPidFile none\n{more}"
        "StrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\nSubsystem sftp internal-sftp\n"
    )
    return [SSHD, "-D", "-e", "-f", folder / name]


def reached(folder):
    """The variables of the inventory by which Ansible is let in."""
    return {
        "ansible_ssh_private_key_file": str(folder / "user"),
        "ansible_ssh_common_args": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o IdentitiesOnly=yes",
    }
