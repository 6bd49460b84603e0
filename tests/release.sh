#!/usr/bin/env bash
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Makes a release of the version in galaxy.yml, checks it and stops. It publishes nothing and commits nothing.

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=$PWD/build/venv/bin
out=$PWD/build/release
PATH=$bin:$PATH

die() { echo "release: $*" >&2; exit 1; }

version=$(sed -n 's/^version: *//p' galaxy.yml)
[ -z "$(git status --porcelain)" ] || die "there are changes that are not committed; commit or undo them first"
! grep -q "^  $version:" changelogs/changelog.yaml || die "$version is in the changelog already; set the next version in galaxy.yml"
[ -n "$(ls changelogs/fragments)" ] || die "there is nothing in changelogs/fragments, so nothing has changed since the last release"

antsibull-changelog lint
antsibull-changelog release
antsibull-changelog lint-changelog-yaml changelogs/changelog.yaml

rm -rf "$out"
mkdir -p "$out"
ansible-galaxy collection build --output-path "$out"
package=$out/graceful-azure-$version.tar.gz

# What users do with it: install it without a network, and read what it says.
ansible-galaxy collection install --offline --collections-path "$out/installed" "$package"
ANSIBLE_COLLECTIONS_PATH=$out/installed ansible-doc graceful.azure.scheduled_events_info > /dev/null

echo
echo "CHANGELOG.md tells what is new in $version. Read it, commit the changes, and tag the commit:"
echo "    git tag --annotate $version --message $version"
echo "Then publish the package:"
echo "    ansible-galaxy collection publish $package"
