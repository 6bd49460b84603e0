# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The base of actions that run on the controller alone: they reach no host."""

from __future__ import annotations

from ansible.plugins.action import ActionBase


class ControllerAction(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False

    STRETCH = 50
    """So many passes of one host are includes inside each other, which die at about 240. Then the next stretch begins."""

    def goes_on(self, finished: bool, passes: int) -> bool:
        """Whether the next pass of one host is an include in this one."""
        return not finished and passes % self.STRETCH > 0
