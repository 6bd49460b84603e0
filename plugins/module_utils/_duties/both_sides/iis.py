# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What both sides know of sites and pools of IIS: the options of a duty, and what is wrong with them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._duties.options import Mistakes, Specs

OPTIONS: Specs = {"sites": {"type": "list", "elements": "str"}, "pools": {"type": "list", "elements": "str"}}
NEEDS_NAME = "without sites and pools it is the name of a site"


def option_mistakes(name: str, options: Mapping[str, Any]) -> Mistakes:
    for option in ("sites", "pools"):
        if not all(each.strip() for each in options.get(option) or ()):
            yield option, "%r has an empty name" % (options[option],)
