# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Commands with a time limit, which run_command of AnsibleModule does not have. The program C(timeout) ends them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    # The method of AnsibleModule: it returns the exit code, the output and the errors.
    RunCommand = Callable[..., tuple[int, str, str]]

# What C(timeout) exits with if the time was over, by itself or because it was killed.
TIMED_OUT = (124, 137, -9)


def run_limited(
    run_command: RunCommand, seconds: float, command: Sequence[str], called: str, failure: Callable[[str], Exception], **options: Any
) -> tuple[int, str, str]:
    """What C(run_command) returns of a command that runs for so many seconds at most. C(called): what sentences call it. C(failure): makes the error
    to raise if it does not run or end.
    """
    try:
        status, said, complained = run_command(["timeout", "-k", "1", "%g" % seconds, *command], handle_exceptions=False, **options)
    except OSError as error:
        raise failure("%s cannot be run: %s." % (called, error.strerror)) from error
    if status in TIMED_OUT:
        raise failure("%s did not end within %g seconds." % (called, seconds))
    return status, said, complained
