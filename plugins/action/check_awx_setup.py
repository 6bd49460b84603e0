# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action behind M(graceful.azure.check_awx_setup); see its module."""

from __future__ import annotations

from ansible.plugins.action import ActionBase
from ansible_collections.graceful.azure.plugins.plugin_utils._awx_setup import check
from ansible_collections.graceful.azure.plugins.plugin_utils._text import printable
from ansible_collections.graceful.azure.plugins.plugin_utils._variables import resolve


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        self.validate_argument_spec(argument_spec={})
        values, unresolved = resolve(self._templar, [name for name in task_vars if name.startswith("awx_setup_")], task_vars)
        # The values are not returned: there may be secrets among them.
        mistakes = [f"{mistake}." for mistake in unresolved.values()] or check(values)
        if mistakes:
            result.update(failed=True, msg=printable(" ".join(mistakes)))
        return dict(result, changed=False)
