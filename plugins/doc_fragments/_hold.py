# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this document fragment is **PRIVATE** to the collection. It can have breaking changes at any time.
# Do not use this from other collections or standalone plugins/modules!

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
      - Ids of the events for which the hold is made or released. They are kept as given. Upper and lower case do not matter when they are compared.
      - Required for O(state=present). Without it, O(state=absent) releases the hold for every event.
      - An empty list is an error.
    type: list
    elements: str
  event_details:
    description:
      - What else to keep in the record about the events, as a dictionary for each event id.
      - If the hold has an id already, what is given here replaces what was kept for it.
    type: dict
    default: {}
  reason:
    description:
      - The reason, for the person who reads the record. It is kept with the ids that this call adds.
    type: str
    default: ""
  state_dir:
    description:
      - The folder for records on the machine on which this module runs. Each hold is a readable JSON file.
      - It is made if missing, and only its owner can read it. It is never made in check mode or for O(state=absent).
      - It must belong to root or to the user who runs the task, and must not be writable by everybody.
    type: path
    default: /var/lib/graceful_azure
"""
