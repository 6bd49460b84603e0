# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The names of the records that are notes: what they hold changes nothing on the machine, it tells the next run how far the host has come. Pure."""

from __future__ import annotations

# The role approve_event approved through this VM.
APPROVED = "approved"
# What stands before the host's balancers in its duties is done, so it may go out of these.
READY_TO_LEAVE = "ready_to_leave"
# All drain steps of the host are done.
DRAINED = "drained"
# One step of the role restore_service was not enough to restore the host.
RESTORING = "restoring"
