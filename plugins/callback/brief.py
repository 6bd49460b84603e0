# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: brief
type: stdout
short_description: Ansible's default output, without tasks that did nothing
version_added: 1.0.0
author:
  - The graceful.azure authors (@graceful-azure)
description:
  - Shows the same as the callback C(ansible.builtin.default), but leaves out included files and tasks that were skipped or changed nothing.
  - Messages of C(ansible.builtin.debug), such as those of C(graceful.azure.holds), are shown.
  - With this callback, C(graceful.azure.handle_events) shows what it decides, what it changes, what fails and how the events ended.
  - If a task of this collection fails, it is not shown where that task is written.
  - Choose it with C(ANSIBLE_STDOUT_CALLBACK=graceful.azure.brief). A collection cannot choose it for you.
extends_documentation_fragment:
  - default_callback
  - result_format_callback
"""

import contextlib

from ansible.playbook.task_include import TaskInclude
from ansible.plugins.callback.default import CallbackModule as Default


class CallbackModule(Default):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "graceful.azure.brief"

    def set_options(self, task_keys=None, var_options=None, direct=None):
        quiet = {"display_ok_hosts": False, "display_skipped_hosts": False}
        super().set_options(task_keys=task_keys, var_options=var_options, direct=dict(direct or {}, **quiet))

    def v2_runner_on_ok(self, result):
        if not isinstance(_task(result), TaskInclude):
            with self._show(result):
                super().v2_runner_on_ok(result)

    def v2_runner_item_on_ok(self, result):
        with self._show(result):
            super().v2_runner_item_on_ok(result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        # Where in this collection a task of its own is written helps nobody, and the error itself follows.
        if _task(result).action.startswith("graceful.azure.") and self._display.verbosity < 3:
            _values(result).pop("exception", None)
        super().v2_runner_on_failed(result, ignore_errors)

    def v2_playbook_on_include(self, included_file):
        """Show nothing. The tasks of the file are shown instead."""

    @contextlib.contextmanager
    def _show(self, result):
        """Show a result that people should read, such as a warning or the message of debug. An assertion that succeeded is not such a result, nor is a
        role that succeeded."""
        always = _values(result).get("_ansible_verbose_always") and _task(result).action.rpartition(".")[2] not in ("assert", "alone")
        told = always or _values(result).get("warnings")
        self.set_option("display_ok_hosts", bool(told))
        try:
            yield
        finally:
            self.set_option("display_ok_hosts", False)


# Before core 2.19, a result has no public attributes for these.


def _task(result):
    return result.task if hasattr(result, "task") else result._task


def _values(result):
    return result.result if hasattr(result, "result") else result._result
