# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which ansible-core runs here, and is it supported?

C(requires_ansible) in C(meta/runtime.yml) only makes Ansible warn, and the run goes on.
"""

from __future__ import annotations

import re

from ansible import release

OLDEST = (2, 17)


def too_old() -> list[str]:
    """A sentence if this ansible-core is older than the oldest one that is supported; in a list."""
    numbers = tuple(int(number) for number in re.findall(r"\d+", release.__version__)[:2])
    if numbers >= OLDEST:
        return []
    return [f"graceful.azure needs ansible-core {'.'.join(map(str, OLDEST))} or later, and this is ansible-core {release.__version__}"]
