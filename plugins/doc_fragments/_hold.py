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
      - V(present) puts the hold, V(absent) releases it.
    type: str
    choices: [present, absent]
    default: present
  event_ids:
    description:
      - Ids of the events for which the hold is put or released. Ids are kept as given and compared without case.
      - Required for O(state=present). With O(state=absent) leaving it out releases the hold for every event.
      - An empty list is an error.
    type: list
    elements: str
  event_details:
    description:
      - What else to keep in the record about the events, a dictionary for each event id.
      - What is given for an id that is on the hold already takes the place of what was kept.
    type: dict
    default: {}
  reason:
    description:
      - Why the hold is put, for the person who reads the record. It is kept with the ids that this call adds.
    type: str
    default: ""
  state_dir:
    description:
      - The folder of the records on the machine on which this module runs, one readable JSON file for each hold.
      - It is made when it is missing, for its owner alone, but never in check mode and never for O(state=absent).
      - It must belong to root or to the user who runs the task, and must not be writable by everybody.
    type: path
    default: /var/lib/graceful_azure
"""
