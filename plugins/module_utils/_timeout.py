# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Commands with a time limit, which run_command of AnsibleModule does not have. The program C(timeout) ends them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    # The method of AnsibleModule: it returns the exit code, the output and the errors.
    RunCommand = Callable[..., tuple[int, str, str]]

# What C(timeout) exits with if the time was over, by itself or because it was killed.
TIMED_OUT = (124, 137, -9)


def with_time_limit(seconds: float, command: Sequence[str]) -> list[str]:
    """The command that runs this one for so many seconds at most."""
    return ["timeout", "-k", "1", "%g" % seconds, *command]
