# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  state:
    description:
      - V(present) makes the change and records it as a hold. V(absent) releases the hold.
    type: str
    choices: [present, absent]
    default: present
  event_ids:
    description:
      - Ids of the events for which the hold is made or released. They are kept as given. When they are compared, upper and lower case do not matter.
      - Required for O(state=present). Without this option, O(state=absent) releases the hold for every event.
      - An empty list is an error.
    type: list
    elements: str
  event_details:
    description:
      - What else to record about the events, as a dictionary for each event id.
      - If the hold already has an id, the new details replace the old ones.
    type: dict
    default: {}
  reason:
    description:
      - The reason, for people who read the record. It is recorded for the ids that this call adds.
    type: str
    default: ""
  state_dir:
    description:
      - The folder for records on the machine on which this module runs. The record of each hold is a JSON file.
      - A missing folder is created so that only its owner can read it. It is never created in check mode or for O(state=absent).
      - It must belong to root or to the user who runs the task, and must not be writable by everybody.
    type: path
    default: /var/lib/graceful_azure
"""
