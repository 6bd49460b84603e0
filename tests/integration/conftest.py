# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two hosts behind a real HAProxy, for whoever runs the playbooks."""

from __future__ import annotations

import pytest

from tests.support.site import Site


@pytest.fixture(name="site")
def make_site(tmp_path):
    site = Site(tmp_path)
    yield site
    site.close()
