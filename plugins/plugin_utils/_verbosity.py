# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What people see of results that only the collection itself reads."""

from __future__ import annotations

from ansible.utils.display import Display
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json

HIDDEN = "_ansible_verbose_override"
INSIDE = 3
"""From this verbosity on (C(-vvv)), people see such results."""


def kept_inside(result: Json) -> Json:
    """Have Ansible show this result only with C(-vvv). A whole plan is of no use to whoever wants to see a little more."""
    return result if Display().verbosity >= INSIDE else dict(result, **{HIDDEN: True})
