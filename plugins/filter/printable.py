# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Makes text from outside safe to show on a terminal."""

from __future__ import annotations

DOCUMENTATION = r"""
name: printable
short_description: Make text from outside safe to show on a terminal
version_added: 1.0.0
description:
  - Replaces each unprintable character by an escape, such as V(\\n), V(\\x1b) or V(\\u2028). Unprintable are control characters, characters that begin a
    command of the terminal, line separators, and marks that change the direction of the text.
  - Descriptions and names in scheduled events come from whoever can schedule an event. Shown raw, they could forge lines of the output.
  - Use it for text that people read. Data for machines should keep the original text.
author:
  - The graceful.azure authors (@graceful-azure)
options:
  _input:
    description:
      - A text, or a dictionary or list that contains texts at any depth. Everything else stays as it is.
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

- name: Show a whole list of events
  ansible.builtin.debug:
    msg: "{{ scheduled.events | graceful.azure.printable }}"

- name: Show them to whoever logs in
  ansible.builtin.copy:
    content: |
      {% for event in scheduled.events | graceful.azure.printable %}
      {{ event.event_type }} of {{ event.resources | join(', ') }}: {{ event.description }}
      {% endfor %}
    dest: /etc/motd.d/scheduled_events
    mode: "0644"
"""

RETURN = r"""
_value:
  description: The same value with only printable characters.
  type: raw
  sample: Reboot\nweb1  restored
"""

from ansible_collections.graceful.azure.plugins.plugin_utils._text import printable


class FilterModule:
    def filters(self):
        return {"printable": printable}
