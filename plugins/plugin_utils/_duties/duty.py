# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What one type of duty says of its entries in C(graceful_azure_duties). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ansible_collections.graceful.azure.plugins.module_utils._duties.options import common_mistakes
from ansible_collections.graceful.azure.plugins.module_utils._spellings import NAME
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Options, Specs


class Duty:
    """One type."""

    name: str = ""
    options: Specs = {}
    """The options of an entry besides C(type) and C(name), as an argument spec has them. Those of the type C(path) are on another machine than the
    controller, or see C(task_files)."""
    task_files: tuple[str, ...] = ()
    """Its options that name task files of the user's own, which are on the controller."""
    once = ""
    """Why only one duty of a host may be of this type; empty if there may be several."""
    name_pattern = NAME
    """What C(name) may be."""
    needs_name = ""
    """Why the name cannot be left out; empty if it can."""

    module = ""
    """The call that puts and releases its hold on the host itself; empty if that is on another machine."""
    things = ""
    """What people call what that call takes off duty, in a line that does not name each."""
    nouns: Mapping[str, str] = {}
    """What people call the kinds of its records, if not by their own names."""

    def brings_traffic(self, options: Options) -> bool:
        """Whether requests come to the host through it."""
        return False

    def mistakes(self, options: Options) -> Iterator[tuple[str, str]]:
        """What is wrong with its options besides types and choices: pairs of an option and a sentence.

        C(options): those that are set in their types, the defaults of the others, and C(name).
        """
        yield from common_mistakes(self.options, options)
        yield from self.own_mistakes(str(options["name"]), options)

    @staticmethod
    def own_mistakes(name: str, options: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
        """What both sides know of that: C(option_mistakes) of the file of the type in C(module_utils/_duties/both_sides)."""
        return ()
