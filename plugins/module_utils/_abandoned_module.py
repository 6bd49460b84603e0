# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ends a module that waits, when nobody reads its output any more.

A look may end on the controller long before its time is over: another host has news, or the run was interrupted or killed. Ansible then closes
the connection without telling the module. The module must not go on waiting on the host for a minute.
"""

from __future__ import annotations

import errno
import os
import select

STDOUT = 1
CLOSED = (errno.EPIPE, errno.EIO, errno.EBADF, errno.ECONNRESET)


def end_unless_read() -> None:
    """End this process if the reader of its output is gone. A module that waits calls this about twice a second.

    It writes an empty line, because C(sudo) and C(ssh) only notice a closed connection when they write to it. Ansible skips empty lines before the
    JSON of a module.
    """
    if _is_hung_up(STDOUT):
        raise SystemExit(1)
    try:
        os.write(STDOUT, b"\n")
    except OSError as error:
        if error.errno in CLOSED:
            # Not os._exit: Ansible's own code around the module removes its files.
            raise SystemExit(1) from None


def _is_hung_up(output: int) -> bool:
    poll = select.poll()
    poll.register(output, 0)  # POLLERR and POLLHUP are told in any case
    return any(events & (select.POLLERR | select.POLLHUP) for _file, events in poll.poll(0))
