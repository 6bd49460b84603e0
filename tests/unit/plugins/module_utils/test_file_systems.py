# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._file_systems import IN_MEMORY, identity_of, machine_id, missing_mount, mount_of, why_lost

DISK = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"


@pytest.fixture
def proc(tmp_path):
    """A function that writes what is mounted, and returns the folder of the kernel's files."""

    def write(*lines, boot="4fd7"):
        folder = tmp_path / "proc"
        (folder / "self").mkdir(parents=True, exist_ok=True)
        (folder / "self" / "mountinfo").write_text(DISK + "".join(line + "\n" for line in lines))
        (folder / "sys/kernel/random").mkdir(parents=True, exist_ok=True)
        (folder / "sys/kernel/random/boot_id").write_text(boot + "\n")
        return str(folder)

    return write


def mounted(point, kind="tmpfs", source="tmpfs", options="rw"):
    return f"40 27 0:30 / {point} rw,nosuid shared:7 - {kind} {source} {options}"


@pytest.mark.skipif(not os.path.exists("/dev/shm"), reason="no tmpfs is mounted by default here")
def test_this_machine():
    assert mount_of("/dev/shm").kind == "tmpfs" and "a reboot empties it" in why_lost("/dev/shm/there/is/none")
    assert mount_of("/proc/self").point == "/proc"


@pytest.mark.parametrize("kind", IN_MEMORY)
def test_in_memory(proc, kind):
    assert why_lost("/run/graceful_azure", proc(mounted("/run", kind))) == f"lies in memory ({kind} on /run), so a reboot empties it"


def test_only_what_lies_there(proc):
    assert why_lost("/runner/state", proc(mounted("/run"))) is None
    assert why_lost("/run/state/held", proc(mounted("/run"), mounted("/run/state", "ext4", "/dev/sdc1"))) is None
    assert why_lost("/srv/state", proc(mounted("/srv", "ext4", "/dev/sdc1"), mounted("/srv"))) is not None
    assert why_lost("/srv/my state/x", proc(mounted("/srv/my\\040state"))) is not None


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("/dev/sdc1 /srv/data ext4 defaults,nofail 0 2", "/srv/data"),
        ("  UUID=1 /srv/data/ xfs", "/srv/data"),
        ("/dev/sdc1 /srv/data/held ext4 defaults 0 2", "/srv/data/held"),
        ("/dev/sdc1 /srv/my\\040data ext4 defaults 0 2", None),
        ("/dev/sdc1 /srv/data ext4 rw,noauto 0 0", None),
        ("# /dev/sdc1 /srv/data ext4 defaults 0 2", None),
        ("/dev/sdc1 /srv/dat ext4 defaults 0 2", None),
        ("/dev/sdc1 / ext4 defaults 0 1", None),
        ("/dev/sdc2 none swap sw 0 0", None),
        ("odd", None),
    ],
)
def test_a_disk_that_is_not_mounted(proc, tmp_path, line, found):
    """As one that the machine may start without, a moment after the start. What lies at its place is another folder."""
    fstab = tmp_path / "fstab"
    fstab.write_text(f"/dev/sda1 / ext4 defaults 0 1\n{line}\n")
    assert missing_mount("/srv/data/held/state", proc(), str(fstab)) == found
    point = found or "/srv"
    assert missing_mount("/srv/data/held/state", proc(mounted(point, "ext4", "/dev/sdc1")), str(fstab)) is None
    assert missing_mount("/srv/data/held/state", proc(mounted("/srv/data/held/state", "ext4", "/dev/sdd1")), str(fstab)) is None
    # Nobody can tell without the kernel's list.
    assert missing_mount("/srv/data/held/state", str(tmp_path / "none"), str(fstab)) is None
    assert missing_mount("/srv/data/held/state", proc(), str(tmp_path / "none")) is None


def test_a_disk_below_one_that_is_not_mounted(proc, tmp_path, monkeypatch):
    """As where the agent's line for Azure's temporary disk stayed after a resize to a VM without one. No other mount point is looked at: on a server that is
    gone, that would never end."""
    fstab = tmp_path / "fstab"
    fstab.write_text("/dev/sda1 / ext4 defaults 0 1\nnas:/home /srv/home nfs hard 0 0\n/dev/sdb1 /mnt auto defaults,nofail 0 2\n/dev/sdc1 /mnt/data ext4\n")
    looked_at, lstat = [], os.lstat
    monkeypatch.setattr(os, "lstat", lambda path, **more: looked_at.append(str(path)) or lstat(path, **more))
    assert missing_mount("/mnt/data/state", proc(mounted("/mnt/data", "ext4", "/dev/sdc1")), str(fstab)) is None
    assert missing_mount("/mnt/data", proc(mounted("/mnt/data", "ext4", "/dev/sdc1")), str(fstab)) is None
    assert missing_mount("/mnt/data/state", proc(mounted("/mnt", "ext4", "/dev/sdb1")), str(fstab)) == "/mnt/data"
    assert missing_mount("/mnt/state", proc(mounted("/mnt/data", "ext4", "/dev/sdc1")), str(fstab)) == "/mnt"
    assert {path.split("/")[1] for path in looked_at} >= {"mnt"} and not [path for path in looked_at if path.startswith("/srv")]


def test_a_disk_that_is_not_mounted_behind_a_link(proc, tmp_path):
    (tmp_path / "link").symlink_to("/srv")
    fstab = tmp_path / "fstab"
    for point, path in ((f"{tmp_path}/link/data", f"{tmp_path}/link/data/state"), ("/srv/data", f"{tmp_path}/link/data/state")):
        fstab.write_text(f"/dev/sdc1 {point} ext4 defaults\n")
        assert missing_mount(path, proc(), str(fstab)) == "/srv/data"
        assert missing_mount(path, proc(mounted("/srv/data", "ext4", "/dev/sdc1")), str(fstab)) is None


def test_a_disk_in_memory(proc):
    assert why_lost("/srv/state", proc(mounted("/srv", "ext4", "/dev/zram1"))) is not None


def test_a_link_into_memory(proc, tmp_path):
    (tmp_path / "link").symlink_to("/run")
    assert why_lost(str(tmp_path / "link" / "state"), proc(mounted("/run"))) is not None


def test_an_overlay_whose_upper_folder_is_in_memory(proc, tmp_path):
    upper = tmp_path / "upper"
    upper.mkdir()
    lines = [mounted("/live", "overlay", "overlay", f"rw,lowerdir=/a,upperdir={upper},workdir=/w")]
    assert why_lost("/live/state", proc(*lines)) is None
    assert why_lost("/live/state", proc(*lines, mounted(tmp_path))) is not None
    # In a container, it is out of sight.
    assert why_lost("/live/state", proc(mounted("/live", "overlay", "overlay", "rw,lowerdir=/a,upperdir=/not/here/upper,workdir=/w"))) is None


def test_the_temporary_disk_of_azure(proc, tmp_path):
    device, point = tmp_path / "sdb1", tmp_path / "resource"
    device.touch()
    point.mkdir()
    (tmp_path / "azure_resource-part1").symlink_to(device)
    links = [str(tmp_path / "azure_resource*")]
    there = proc(mounted(point, "ext4", device))
    assert why_lost(str(point / "state"), there, links) == f"lies on Azure's temporary disk ({point}), which is empty after Azure has moved the VM"
    assert why_lost(str(point / "state"), there, ()) is None
    (point / "DATALOSS_WARNING_README.txt").touch()
    assert why_lost(str(point / "state"), there, ()) is not None
    # An ephemeral VM has no better place.
    assert why_lost("/state", proc(mounted("/", "ext4", device)), links) is None


def test_nothing_can_be_told(tmp_path):
    assert (mount_of("/x", str(tmp_path)), why_lost("/x", str(tmp_path)), identity_of("/", str(tmp_path))) == (None, None, None)


class TestIdentity:
    def test_of_one_folder_by_several_names(self, proc, tmp_path):
        there = proc()
        (tmp_path / "link").symlink_to(tmp_path)
        state = tmp_path / "state"
        before = identity_of(str(state), there)
        assert before == identity_of(str(tmp_path / "link" / "state"), there) != identity_of(str(tmp_path / "other"), there)
        state.mkdir()
        assert identity_of(str(state), there) == identity_of(str(tmp_path / "link" / "state"), there) != identity_of(str(tmp_path), there)

    def test_of_a_disk_on_two_machines(self, proc, tmp_path):
        one, other = identity_of(str(tmp_path), proc(boot="one")), identity_of(str(tmp_path), proc(boot="other"))
        assert one != other

    def test_of_a_folder_that_machines_share(self, proc, tmp_path):
        shared = mounted(tmp_path, "nfs4", "files:/export")
        one, other = identity_of(str(tmp_path), proc(shared, boot="one")), identity_of(str(tmp_path), proc(shared, boot="other"))
        assert one == other


def test_the_id_of_a_machine(tmp_path):
    told = tmp_path / "product_uuid"
    assert machine_id(str(told)) is None
    told.write_text("12345678-9ABC-DEF0-1122-334455667788\n")
    one = machine_id(str(told))
    # After an update of its kernel.
    told.write_text("78563412-bc9a-f0de-1122-334455667788\n")
    assert machine_id(str(told)) == one == "123456789abcdef01122334455667788"
    told.write_text("Not Settable\n")
    assert machine_id(str(told)) is None
