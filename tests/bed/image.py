# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The disk image that all guests share: a small Debian with what web servers and balancers need."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

SUITE = "bookworm"
PACKAGES = (
    "dbus",
    "haproxy",
    "iproute2",
    "nginx-light",
    "openssh-server",
    "python3",
    "python3-jmespath",
    "python3-requests",
    "systemd",
    "systemd-sysv",
)
LEFT_OUT = ("/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/man/*")
# Started at boot by their packages, here on some guests alone.
SWITCHED_ON_LATER = ("haproxy.service", "nginx.service")
# Started at boot by their packages; here they only take time.
NOT_AT_BOOT = (
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "dpkg-db-backup.timer",
    "fstrim.timer",
    "getty.target",
    "systemd-pstore.service",
)


def image(folder, more=()):
    """The path of the image, with more packages where some are named, which is built when it is not there yet. It is never written to afterwards."""
    recipe = hashlib.sha256(Path(__file__).read_bytes() + " ".join(more).encode()).hexdigest()[:12]
    path = folder / f"image-{recipe}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "image.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            print(f"building {path} (half a minute)", flush=True)
            unfinished = folder / "unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            build(unfinished, folder / "image.log", more)
            unfinished.rename(path)
    return path


def build(root, log, more):
    # With mounts of its own: nothing stays mounted under the folder, however it ends.
    command = ["unshare", "--mount", "mmdebstrap", "--variant=apt", "--mode=root", "--include=" + ",".join([*PACKAGES, *more])]
    command += [f"--dpkgopt=path-exclude={pattern}" for pattern in LEFT_OUT]
    # Nobody needs the image after a crash of this machine.
    command.append("--dpkgopt=force-unsafe-io")
    # Where /bin is a link from the start, no package has to make it one, which would bring a whole Perl.
    command.append("--hook-directory=/usr/share/mmdebstrap/hooks/merged-usr")
    # Java links pages of the manual into a folder that is left out.
    command.append('--essential-hook=mkdir --parents "$1/usr/share/man/man1"')
    with log.open("w") as stream:
        done = subprocess.run([*command, SUITE, root], stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, check=False)
    if done.returncode != 0:
        raise OSError(f"mmdebstrap ended with {done.returncode}, see {log}")

    # systemd-nspawn makes the devices.
    shutil.rmtree(root / "dev")
    (root / "dev").mkdir()
    for unit in NOT_AT_BOOT:
        (root / "etc/systemd/system" / unit).unlink(missing_ok=True)
        (root / "etc/systemd/system" / unit).symlink_to("/dev/null")
    for unit in SWITCHED_ON_LATER:
        (root / "etc/systemd/system/multi-user.target.wants" / unit).unlink(missing_ok=True)
    (root / "etc/resolv.conf").unlink(missing_ok=True)
    (root / "etc/hostname").unlink(missing_ok=True)
    # A look-up of a name fails at once instead of waiting for a server that does not exist.
    (root / "etc/resolv.conf").write_text("nameserver 127.0.0.1\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
