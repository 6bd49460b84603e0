# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two hosts behind a real HAProxy, for whoever runs the playbooks, and what no run may leave."""

from __future__ import annotations

import pytest

from tests.support.patience import until
from tests.support.processes import dead_helpers, helpers, marked_helpers
from tests.support.site import Site


@pytest.fixture(name="site")
def make_site(tmp_path):
    site = Site(tmp_path)
    yield site
    site.close()


@pytest.fixture(scope="session", autouse=True)
def no_helper_is_left():
    """Within a minute of the last run, whatever ended the runs."""
    before = dead_helpers()
    with marked_helpers(of_all=True) as marks:
        yield
    until(lambda: not helpers(marks), 60, "the end of all helpers")
    until(lambda: dead_helpers() <= before, 5, "the end of their folders")
