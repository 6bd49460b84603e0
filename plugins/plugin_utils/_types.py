# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names for the data that the parts hand to each other, for annotations.

Most of this data is JSON: what modules take and return, and what a plan says. Nothing is checked here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]
"""A dictionary of JSON."""
Options = dict[str, Any]
"""The options of a module or a role, by their names."""
Specs = dict[str, Json]
"""Options by their names, each as an argument spec has it."""
Result = Mapping[str, Any]
"""What a module or an action returned, as a task registers it."""
BalancerSettings = dict[str, Any]
"""The settings of one balancer of a host, see C(_duties/traffic.py). Only its type reads them."""
DrainStep = dict[str, Any]
"""A normalised drain step, see C(_duties/on_host.py)."""
StepGroup = dict[str, Any]
"""Drain steps that are one call, see C(groups_out) in C(_duties/groups.py)."""
StepJson = dict[str, Any]
"""The step of a host in a pass, see C(Step.as_json) in C(_planning/steps.py)."""
Act = dict[str, Any]
"""One call of a module, see C(_planning/acts.py)."""
Acts = list[tuple[str | None, list[Act]]]
"""The acts of a step in order, with the machine on which they are carried out. None is the host itself."""
Turn = dict[str, Any]
"""What a host does in a pass at one machine, see C(_planning/turns.py)."""
Arrived = dict[str, Any]
"""How many requests have come to a place that is out, and since when none has, see C(_arrivals) in C(_planning/judgement.py)."""
Variables = dict[str, Any]
"""The variables of a host, by their names."""
