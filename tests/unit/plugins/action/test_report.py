# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the actions report and history say where there is nothing to read."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.graceful.azure.plugins.action import history, report


def failure(module, **args):
    action = module.ActionModule.__new__(module.ActionModule)
    action._task = SimpleNamespace(args=args, async_val=0, check_mode=False)
    action._connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="/tmp/x"))
    result = action.run(task_vars={})
    assert result["failed"] and not result["changed"]
    return result["msg"]


@pytest.mark.parametrize(
    "name, said",
    [
        ("empty", "{0}/empty holds no pass"),
        ("nowhere", "{0}/nowhere: No such file or directory"),
    ],
)
def test_a_journal_without_a_pass(tmp_path, name, said):
    (tmp_path / "empty").write_text("")
    assert failure(report, journal=str(tmp_path / name), folder=str(tmp_path / "reports")) == said.format(tmp_path)
    assert not (tmp_path / "reports").exists()


@pytest.mark.parametrize(
    "name, said",
    [
        ("file", "history_folder: {0}/file is no folder; name the one that handle_events_report names"),
        ("folder", "history_folder: {0}/folder has no report; runs write reports there with handle_events_report"),
    ],
)
def test_a_folder_without_reports(tmp_path, name, said):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    assert failure(history, folder=str(tmp_path / name)) == said.format(tmp_path)
