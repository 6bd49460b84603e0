# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filters target and target_needs_variables, of use in the playbooks of this collection alone; see the files .yml beside it."""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.plugin_utils._target import TargetError, needs_variables, resolve

# A playbook asks several times for the same; what the inventory says does not change meanwhile.
_ANSWER = {}


def target(value, groups, hostvars=None, unknown="fail"):
    if unknown not in ("fail", "ignore"):
        return {"pattern": "", "problem": f"handle_events_unknown_targets: {unknown!r} is neither fail nor ignore"}
    asked = (str(value), hostvars is None, unknown, sorted((name, tuple(hosts)) for name, hosts in groups.items()))
    if _ANSWER.get("asked") != asked:
        try:
            found = {"pattern": resolve(value, groups, hostvars, unknown == "ignore"), "problem": ""}
        except TargetError as error:
            found = {"pattern": "", "problem": str(error)}
        _ANSWER.update(asked=asked, found=found)
    return _ANSWER["found"]


def target_needs_variables(value, groups):
    return needs_variables(value, groups)


class FilterModule:
    def filters(self):
        return {"target": target, "target_needs_variables": target_needs_variables}
