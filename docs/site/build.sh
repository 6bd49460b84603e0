#!/usr/bin/env bash
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Builds the documentation site in build/site, from the pages of the repository and from the documentation of modules, plugins and roles. Every warning is
# an error. `make docs` runs it.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
umask 022 # antsibull-docs writes only to a folder that nobody else may write

bin=$PWD/build/venv/bin
pages=build/site-source
export PATH="$bin:$PATH"
export ANSIBLE_HOME=$PWD/build/ansible-home ANSIBLE_COLLECTIONS_PATH=$PWD/build/collections

# The pages keep their places, so that the links between them hold. They keep their times, so that Sphinx reads again only what has changed.
mkdir -p $pages/reference
find $pages -mindepth 1 -maxdepth 1 ! -name reference -exec rm -r {} +
cp -p ./*.md COPYING docs/site/index.md $pages
cp -rp docs roles $pages
rm $pages/docs/architecture.md # for developers, who have the repository

antsibull-docs collection --use-current --squash-hierarchy --cleanup everything --fail-on-error --dest-dir $pages/reference graceful.azure
# What is internal has no page here.
grep -l -- ' -- Internal: ' $pages/reference/*_{module,filter}.rst | while read -r page; do
    rm "$page"
    sed -i "/^    $(basename "$page" .rst)\$/d" $pages/reference/index.rst
done
sed -i '/ -- Internal: /d' $pages/reference/index.rst
sphinx-build -q -W --keep-going -c docs/site -d build/site-doctrees $pages build/site
echo "The site is in $PWD/build/site/index.html"
