# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The words for what drivers see, which both sides compare. Pure."""

from __future__ import annotations

# The condition of a thing: what became of the hold on it. Every driver may tell these.
NONE = "none"
AS_LEFT = "held"
CHANGED_MEANWHILE = "changed_meanwhile"
# Those that some may tell. What each driver means by them, it says itself.
ALREADY_OUT, LOST, REBOOTED = "already_out", "lost", "rebooted"
# Our change, or its end, is under way.
UNDER_WAY, GOING_BACK = "changing", "restoring"

# The state of a health answer.
PASSING, FAILING = "passing", "failing"

# What the file of a health answer says of the host if it is there.
OUT, IN = "out", "in"

# The administrative state of a server of HAProxy.
READY, DRAIN, MAINT = "ready", "drain", "maint"
