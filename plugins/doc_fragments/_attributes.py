# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    # A module for which something else is true says so in its own attributes.
    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying the target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in C(check_mode)), when in diff mode.
    support: none
  idempotent:
    description: When run twice in a row outside check mode, with the same arguments, the second invocation indicates no change.
    support: full
  platform:
    description: Target OS/families that can be operated against.
    support: full
    platforms: linux
"""

    # For modules that also run for Windows hosts. It comes before the first one, because what comes first counts.
    WINDOWS = r"""
options: {}
attributes:
  platform:
    support: partial
    platforms: linux, windows
    details:
      - On Windows hosts it is experimental. It runs on the controller there, and needs the collection C(ansible.windows).
"""

    # For the modules of each action group.
    AZURE_RESOURCE_MANAGER = r"""
options: {}
attributes:
  action_group:
    description: Use C(group/graceful.azure.azure_resource_manager) in C(module_defaults) to set defaults for this module.
    support: full
    membership:
      - graceful.azure.azure_resource_manager
"""

    IMDS = r"""
options: {}
attributes:
  action_group:
    description: Use C(group/graceful.azure.imds) in C(module_defaults) to set defaults for this module.
    support: full
    membership:
      - graceful.azure.imds
"""
