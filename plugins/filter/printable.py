# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Text from outside, made safe to show on a terminal."""

from __future__ import annotations

DOCUMENTATION = r"""
name: printable
short_description: Text from outside, made safe to show on a terminal
version_added: 0.1.0
description:
  - Writes each character that is not printable as an escape, such as V(\\n), V(\\x1b) or V(\\u2028). These are control characters, the
    begin of a terminal's commands, separators of lines, and marks that turn the direction of the text.
  - Descriptions and names in scheduled events come from whoever can schedule an event. Shown raw, they could forge lines of the output.
  - For what a person reads. Data for machines should keep the original text.
author:
  - The graceful.azure authors (@graceful-azure)
options:
  _input:
    description:
      - A text, or a dictionary or list with texts in it at any depth. Everything else stays as it is.
    type: raw
    required: true
"""

EXAMPLES = r"""
- name: Show what Azure says of the events
  ansible.builtin.debug:
    msg: "{{ event.description | graceful.azure.printable }}"
  loop: "{{ scheduled.events }}"
  loop_control:
    loop_var: event
    label: "{{ event.event_id | graceful.azure.printable }}"
"""

RETURN = r"""
_value:
  description: The same with every character printable.
  type: raw
  sample: Reboot\nweb1  restored
"""

from ansible_collections.graceful.azure.plugins.plugin_utils._text import printable


class FilterModule:
    def filters(self):
        return {"printable": printable}
