# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What both sides know of members of clusters, whatever their type: the option of a duty that all have, and what is wrong with it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._duties.options import Mistakes, Specs

OPTIONS: Specs = {"cluster": {"type": "str"}}


def option_mistakes(name: str, options: Mapping[str, Any]) -> Mistakes:
    cluster = options.get("cluster")
    if cluster is not None and not cluster.strip():
        yield "cluster", "%r is no name; give all hosts of one cluster the same name" % cluster
