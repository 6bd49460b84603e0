# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""On which file system does a folder lie? Whether it stays over a reboot, and whether two folders are one. And how a file gets to the disk.

What cannot be told is None. C(proc) is the folder of the kernel's files.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import json
import os
import re
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.graceful.azure.plugins.module_utils._proc import read, read_boot_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

IN_MEMORY = ("tmpfs", "ramfs", "rootfs", "devtmpfs")
DISKS_IN_MEMORY = re.compile(r"/dev/z?ram\d")
NETWORK = ("nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "fuse.glusterfs", "9p", "virtiofs")

# Azure's temporary disk: the links that the rules for udev of its agents make, and the file that Azure puts into it.
TEMPORARY_DISKS = ("/dev/disk/cloud/azure_resource*", "/dev/disk/azure/resource*", "/dev/disk/azure/local/*/*")
LOSS_WARNING = "DATALOSS_WARNING_README.txt"


class Mount(NamedTuple):
    point: str
    kind: str
    source: str
    options: str


def mount_of(path: str, proc: str = "/proc") -> Mount | None:
    """What is mounted where this path is. The path need not exist."""
    real = os.path.realpath(path)
    found = None
    for line in read(proc, "self", "mountinfo").splitlines():
        # From "man 5 proc": the optional fields end with a hyphen.
        before, _hyphen, after = line.partition(" - ")
        place, what = before.split(" "), after.split(" ")
        if len(place) < 5 or len(what) < 3:
            continue
        point = _plain(place[4])
        # Of two mounts at one point, the later one hides the other.
        if (real + "/").startswith(point.rstrip("/") + "/") and (found is None or len(point) >= len(found.point)):
            found = Mount(point, what[0], _plain(what[1]), what[2])
    return found


def why_lost(path: str, proc: str = "/proc", temporary_disks: Sequence[str] = TEMPORARY_DISKS) -> str | None:
    """The end of a sentence about a path whose files would be lost while the machine is in use; None if nothing tells that."""
    mount = mount_of(path, proc)
    if mount is None:
        return None
    if mount.kind in IN_MEMORY or DISKS_IN_MEMORY.match(mount.source):
        return "lies in memory (%s on %s), so a reboot empties it" % (mount.kind, mount.point)
    if mount.kind == "overlay":
        upper = re.search(r"(?:^|,)upperdir=((?:[^,\\]|\\.)+)", mount.options)
        # In a container, the upper folder is out of sight.
        above = _plain(upper.group(1)) if upper else ""
        return why_lost(above, proc, temporary_disks) if os.path.isdir(above) and mount_of(above, proc) != mount else None
    # The temporary disk may also be the one from which an ephemeral VM runs. Then there is no better place.
    if mount.point != "/" and (os.path.exists(os.path.join(mount.point, LOSS_WARNING)) or _is_temporary_disk(mount.source, temporary_disks)):
        return "lies on Azure's temporary disk (%s), which is empty after Azure has moved the VM" % mount.point
    return None


def missing_mount(path: str, proc: str = "/proc", fstab: str = "/etc/fstab") -> str | None:
    """Where the machine mounts a file system by itself, below which this path lies, and which is not mounted: what the path shows now is another folder.

    Azure advises C(nofail) for data disks, so that a machine starts without them, and may have them later.
    """
    path, real = os.path.normpath(path), os.path.realpath(path)
    for line in read(fstab).splitlines():
        fields = line.split()
        if len(fields) < 3 or line.lstrip().startswith("#") or "noauto" in "".join(fields[3:4]).split(","):
            continue
        point = os.path.normpath(_plain(fields[1]))
        # No other mount point is looked at: on a server that is gone, that would never end.
        if any((name + "/").startswith(point + "/") for name in (path, real)):
            point, mount = os.path.realpath(point), mount_of(real, proc)
            # Something else may be mounted below, as in a container with the file of its image.
            if mount and (real + "/").startswith(point + "/") and not (mount.point + "/").startswith(point + "/"):
                return point
    return None


def identity_of(path: str, proc: str = "/proc") -> str | None:
    """An id of the folder that this path names. Two names of one machine have the same, and so have two machines that share the folder over a network.

    A folder that is missing is known by its path from the nearest folder that exists.
    """
    there, missing = os.path.realpath(path), ""
    while not os.path.isdir(there):
        there, name = os.path.split(there)
        missing = os.path.join(name, missing)
    mount = mount_of(there, proc)
    # The numbers of devices are each kernel's own, and differ from boot to boot.
    boot = read_boot_id(proc)
    try:
        status = os.stat(there)
    except OSError:
        return None
    if mount and mount.kind in NETWORK:
        file_system = [mount.source]
    elif boot:
        file_system = [boot, str(status.st_dev)]
    else:
        return None
    return hashlib.sha256(json.dumps([*file_system, status.st_ino, missing]).encode()).hexdigest()[:16]


def machine_id(path: str = "/sys/class/dmi/id/product_uuid") -> str | None:
    """The id that Azure gives to this VM. It stays over reboots and redeployments, and no copy of an image has it. Only root may read it."""
    return machine_id_in(read(path))


def machine_id_in(text: str) -> str | None:
    """Such an id as others tell it."""
    digits = text.strip().replace("-", "").lower()
    if not re.match(r"[0-9a-f]{32}\Z", digits):
        return None
    # Kernels differ in the order of its first bytes, and an update may bring another kernel.
    first, second, third = ("".join(reversed(re.findall("..", part))) for part in (digits[:8], digits[8:12], digits[12:16]))
    return min(digits, first + second + third + digits[16:])


def write_all(fd: int, data: bytes, durable: bool = True) -> None:
    """Write all of it. C(durable): and have it on the disk."""
    while data:
        data = data[os.write(fd, data) :]
    if durable:
        os.fsync(fd)


def replace_by(temporary: str, path: str, data: bytes, prepare: Callable[[int], object] | None = None, durable: bool = True) -> None:
    """Replace a file at once by another one, or make it. That is made at the path C(temporary), in the same folder, where a call that was cut off leaves it.

    C(prepare): what is done with its descriptor before it has the data.
    """
    try:
        remove(temporary)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            if prepare is not None:
                prepare(fd)
            write_all(fd, data, durable)
        finally:
            os.close(fd)
        os.rename(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            remove(temporary)
        raise


def remove(path: str) -> None:
    """Remove a file if it is there."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def sync_folder(path: str) -> None:
    """Have the names of the files in a folder on the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems know no sync of a folder
            raise
    finally:
        os.close(fd)


def _is_temporary_disk(source: str, patterns: Sequence[str]) -> bool:
    device = os.path.realpath(source)
    return any(os.path.realpath(link) == device for pattern in patterns for link in glob.glob(pattern))


def _plain(text: str) -> str:
    """The text without the escapes of the kernel."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), text)
