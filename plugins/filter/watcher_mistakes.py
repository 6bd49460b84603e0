# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tells the role event_watcher what is wrong with its variables."""

from __future__ import annotations

DOCUMENTATION = r"""
name: watcher_mistakes
short_description: "Internal: what is wrong with the variables of the role event_watcher"
version_added: 1.0.0
description:
  - Internal to the playbooks of this collection. Options and results may change with every release.
author:
  - The graceful.azure authors (@graceful-azure)
options:
  _input:
    description:
      - The variables without their prefix, as the user gave them.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: See what is wrong
  ansible.builtin.set_fact:
    mistakes: "{{ variables | graceful.azure.watcher_mistakes }}"
"""

RETURN = r"""
_value:
  description: Whole sentences; none if nothing is wrong.
  type: list
  elements: str
"""

from ansible_collections.graceful.azure.plugins.plugin_utils._watcher_setup import mistakes


class FilterModule:
    def filters(self):
        return {"watcher_mistakes": mistakes}
