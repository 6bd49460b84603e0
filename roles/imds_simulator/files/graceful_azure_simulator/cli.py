# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Chooses what the command line asks for: ctl, --check, or the services."""

from __future__ import annotations

from .ctl import ctl
from .options import parse_arguments
from .process import keep_standard_streams_taken
from .scenario_files import check_scenario
from .serve import serve


def main(arguments):
    """Does what the arguments ask for. Returns the exit status."""
    keep_standard_streams_taken()
    if arguments[:1] == ["ctl"]:
        return ctl(arguments[1:])
    options = parse_arguments(arguments)
    if options.check is not None:
        return check_scenario(options)
    return serve(options)
