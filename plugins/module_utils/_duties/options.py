# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the options of several types of duties have in common, for the plan and for the machine that acts. Pure.

The options of each type are in C(both_sides), those of the members of clusters in their own files. An option is as in an argument specification. Besides,
the settings read C(means) (what to write if it is not set) and C(or_text) (whether a text with commas may stand for the list).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._polling import mistake_in_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    Specs = dict[str, dict[str, Any]]
    # Pairs of an option and a sentence. Without an option it is about the whole entry.
    Mistakes = Iterator[tuple[str, str]]

# What the name of a service may be, with the dollar of named instances on Windows.
SERVICE = re.compile(r"[A-Za-z0-9:_.\\@$][A-Za-z0-9:_.\\@$-]*\Z")
# The address from which the probes of Azure Load Balancer come.
AZURE_PROBE = "168.63.129.16"

MACHINES = "give the inventory names of the machines on which the balancer runs"
HOSTS: dict[str, Any] = {"type": "list", "elements": "str", "required": True, "means": MACHINES}
# Seconds for which no new request may have come before a host that is out counts as drained.
QUIET: dict[str, Any] = {"type": "float", "default": 3}


def common_mistakes(specs: Specs, options: Mapping[str, Any]) -> Mistakes:
    """What is wrong with numbers of seconds and with C(hosts), whatever the type. C(options): with the defaults of those not set."""
    for option, spec in specs.items():
        mistake = mistake_in_seconds(options[option]) if spec["type"] == "float" and options.get(option) is not None else ""
        if mistake:
            yield option, mistake
    if options.get("hosts") == []:
        yield "hosts", "empty; %s" % MACHINES
