#!/usr/bin/env bash
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Fails if the commits since BASE change what users run, and bring no changelog fragment. Public CI runs it for pull requests:
#     tests/changelog_fragment.sh BASE

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

changed() { git diff --name-only "$@"; }

since=$(git merge-base "$1" HEAD)
users=$(changed "$since" HEAD -- extensions/eda meta playbooks plugins roles)
fragments=$(changed --diff-filter=AM "$since" HEAD -- changelogs/fragments)
if [ -n "$users" ] && [ -z "$fragments" ]; then
    echo "These files are for users, and nothing in changelogs/fragments says what changes for them:" >&2
    echo "$users" >&2
    echo "Add a fragment. If users notice nothing, give the pull request the label skip-changelog." >&2
    exit 1
fi
