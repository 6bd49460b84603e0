# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""tests/release.sh and tests/changelog_fragment.sh in a copy of the checkout."""

from __future__ import annotations

import os
import subprocess
import tarfile

import pytest

from tests.support.checkout import ROOT, copy_files


def run(copy, *command):
    environment = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.org"}
    return subprocess.run(command, cwd=copy, check=False, capture_output=True, text=True, env=dict(os.environ, **environment))


@pytest.fixture(name="copy")
def make_copy(tmp_path):
    copy = tmp_path / "copy"
    copy_files(copy)
    (copy / "build").mkdir()
    (copy / "build" / "venv").symlink_to(ROOT / "build" / "venv")
    for command in (["git", "init", "--quiet"], ["git", "add", "--all"], ["git", "commit", "--quiet", "--message", "all"]):
        assert run(copy, *command).returncode == 0
    return copy


# Changelog, package and installation are in test_collection.py.
@pytest.mark.long
def test_a_release_is_made_and_not_published(copy):
    (version,) = [line.split()[1] for line in (copy / "galaxy.yml").read_text().splitlines() if line.startswith("version:")]
    made = run(copy, "tests/release.sh")
    assert made.returncode == 0, made.stderr
    package = copy / "build" / "release" / f"graceful-azure-{version}.tar.gz"
    assert package.exists() and f"ansible-galaxy collection publish {package}" in made.stdout
    assert f'href="#v{version.replace(".", "-")}"' in (copy / "CHANGELOG.md").read_text()
    assert list((copy / "changelogs" / "fragments").iterdir()) == []
    # What antsibull-changelog keeps for itself is neither committed nor shipped.
    assert "plugin-cache" not in run(copy, "git", "status", "--porcelain", "--untracked-files").stdout
    with tarfile.open(package) as archive:
        assert [name for name in archive.getnames() if "plugin-cache" in name] == []
    # What is to be committed stops a second release, and so does a version that there is already.
    assert "not committed" in run(copy, "tests/release.sh").stderr
    assert run(copy, "git", "add", "--all").returncode == 0 and run(copy, "git", "commit", "--quiet", "--message", version).returncode == 0
    assert f"{version} is in the changelog already" in run(copy, "tests/release.sh").stderr


def test_a_pull_request_that_changes_something_for_users_needs_a_fragment(copy):
    def change(path, text):
        (copy / path).write_text(text)
        assert run(copy, "git", "add", "--all").returncode == 0 and run(copy, "git", "commit", "--quiet", "--message", path).returncode == 0
        return run(copy, "tests/changelog_fragment.sh", base)

    base = run(copy, "git", "rev-parse", "HEAD").stdout.strip()
    assert change("docs/when-something-is-wrong.md", "nothing that users run").returncode == 0
    refused = change("plugins/modules/plan.py", "something that they do")
    assert refused.returncode == 1 and "plugins/modules/plan.py\n" in refused.stderr and "docs" not in refused.stderr
    assert change("changelogs/fragments/another.yml", "bugfixes: [plan - something.]").returncode == 0
