# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.
# Do not use this from other collections or standalone plugins/modules!

"""Which boot of the machine this is."""

from __future__ import annotations

BOOT_ID = "/proc/sys/kernel/random/boot_id"


def read_boot_id() -> str:
    """The id of this boot; empty if the machine does not tell it."""
    try:
        with open(BOOT_ID) as stream:
            return stream.read().strip()
    except OSError:
        return ""
