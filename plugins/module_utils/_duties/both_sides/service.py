# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What both sides know of services: what their names may be. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._spellings import without_service

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._duties.options import Mistakes

NEEDS_NAME = "it is the name of the unit"


def option_mistakes(name: str, options: Mapping[str, Any]) -> Mistakes:
    stem = without_service(name)
    if stem.endswith("@"):
        yield "name", "%r is a template; name an instance of it, such as %s1" % (name, stem)
