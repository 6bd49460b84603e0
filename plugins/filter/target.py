# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filters target and target_needs_variables. Only the playbooks of this collection use them. The files target*.yml document them."""

from __future__ import annotations

from ansible import context
from ansible.errors import AnsibleFilterError
from ansible_collections.graceful.azure.plugins.plugin_utils._target_pattern import TargetError, find_hosts, needs_variables

# The last answer, because a playbook asks the same several times. The inventory does not change in the meantime.
_ANSWER = {}


def target(value, groups, hostvars=None, unknown=None, is_reported=False):
    # ansible-lint, and Galaxy with it, checks the syntax without an inventory.
    if context.CLIARGS.get("syntax") and not groups["all"]:
        return "all"
    asked = (str(value), hostvars is None, unknown, is_reported, sorted((name, tuple(hosts)) for name, hosts in groups.items()))
    if _ANSWER.get("asked") != asked:
        try:
            pattern = find_hosts(value, groups, hostvars, unknown, is_reported)
        except TargetError as error:
            raise AnsibleFilterError(str(error)) from None
        _ANSWER.update(asked=asked, pattern=pattern)
    return _ANSWER["pattern"]


def target_needs_variables(value, groups):
    return needs_variables(value, groups)


class FilterModule:
    def filters(self):
        return {"target": target, "target_needs_variables": target_needs_variables}
