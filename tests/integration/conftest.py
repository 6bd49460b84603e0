# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two hosts behind a real HAProxy, for whoever runs the playbooks, and what no run may leave."""

from __future__ import annotations

import os

import pytest
from ansible_collections.graceful.azure.plugins.module_utils import _haproxy_hold

from tests.support.far_host import FarHost
from tests.support.patience import until
from tests.support.processes import helper_folders, helpers, marked_helpers
from tests.support.roles import RoleBed
from tests.support.site import Site


@pytest.fixture(name="site")
def make_site(tmp_path, request):
    """That of a file is what it calls C(SITE)."""
    site = getattr(request.module, "SITE", Site)(tmp_path)
    yield site
    site.close()


@pytest.fixture
def all_answer(monkeypatch):
    """Nothing listens where the servers of a HAProxy lead. For the module, something does."""
    monkeypatch.setattr(_haproxy_hold, "silent_places", dict.fromkeys)


@pytest.fixture(scope="module")
def whole_bed(tmp_path_factory, request):
    """For roles. That of a file is what it calls C(BED)."""
    bed = getattr(request.module, "BED", RoleBed)(tmp_path_factory.mktemp("bed"))
    yield bed
    bed.close()


@pytest.fixture
def bed(whole_bed):
    whole_bed.reset()
    return whole_bed


@pytest.fixture
def tasks(bed):
    """Task files of the user, each done at its second round, and a log of the rounds."""
    bed.task_file("before")
    return bed.task_file("after")


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """One that goes away."""
    running = FarHost(tmp_path_factory.mktemp("host"))
    yield running
    running.close()


@pytest.fixture(scope="session", autouse=True)
def no_helper_is_left():
    """Within a minute of the last run, whatever ended the runs."""
    folders = set()
    with marked_helpers(of_all=True) as marks:
        yield lambda: folders.update(helper_folders(marks))
    until(lambda: not helpers(marks), 60, "the end of all helpers")
    assert [folder for folder in folders if os.path.exists(folder)] == []


@pytest.fixture(autouse=True)
def helpers_of_the_test(no_helper_is_left):
    """Notes which of them live on after it."""
    yield
    no_helper_is_left()
