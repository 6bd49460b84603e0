# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action behind M(graceful.azure.check_awx_setup); see its module."""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.plugin_utils._awx_setup import check, explain_refusal, read_setup
from ansible_collections.graceful.azure.plugins.plugin_utils._controller_action import ControllerAction
from ansible_collections.graceful.azure.plugins.plugin_utils._core import too_old
from ansible_collections.graceful.azure.plugins.plugin_utils._text import failure
from ansible_collections.graceful.azure.plugins.plugin_utils._variables import resolve


class ActionModule(ControllerAction):
    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        _validated, args = self.validate_argument_spec(argument_spec={"made": {"type": "dict", "default": {}}, "refused": {"type": "str"}})
        result["changed"] = False
        if args["refused"] is not None:
            return dict(result, **failure([explain_refusal(args["refused"])]))
        values, unresolved = resolve(self._templar, [name for name in task_vars if name.startswith("awx_setup_")], task_vars)
        mistakes = [f"{mistake}." for mistake in (*too_old(), *unresolved.values())] or list(check(values))
        if mistakes:
            return dict(result, **failure(mistakes))
        return dict(result, **read_setup(values, args["made"]))
