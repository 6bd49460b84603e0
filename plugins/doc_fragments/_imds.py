# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this document fragment is **PRIVATE** to the collection. It can have breaking changes at any time.
# Do not use this from other collections or standalone plugins/modules!

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  imds_url:
    description:
      - Base URL of the instance metadata service.
      - Neither a proxy nor a redirect is followed.
    type: str
    default: http://169.254.169.254
  api_version:
    description:
      - Version of the service's API. Whatever the version, events are returned in the same shape; a field that the version lacks is null.
    type: str
    default: "2020-07-01"
    choices:
      - "2017-03-01"
      - "2017-08-01"
      - "2017-11-01"
      - "2019-01-01"
      - "2019-04-01"
      - "2019-08-01"
      - "2020-07-01"
  request_timeout:
    description:
      - Seconds for one HTTP answer, from connecting to its last byte. Connecting itself has a short limit of its own.
      - A wait gives the very first answer 120 seconds, since the first request ever enables the service.
      - A request that failed in passing is repeated, with growing pauses.
    type: float
    default: 10
  resource_name:
    description:
      - This host's name in C(Resources), which is the name of the Azure resource and not the hostname. It is compared without case.
      - A lookup on a controller of the same set is given the name of the VM that is meant.
      - It is asked from the service when not given, which costs a second request.
    type: str
requirements:
  - requests
  - jmespath (for JMESPath expressions alone)
notes:
  - The metadata service is reachable from inside the VM alone, and tells the events of that VM's scale set or availability set.
  - The first request ever enables Scheduled Events for the VM, and may take up to two minutes to be answered.
  - Once anybody asks, reboots that users themselves ask Azure for are announced as events, too, and wait for an approval or
    for their C(NotBefore).
"""

    # For lookups, whose options have more sources.
    LOOKUP = r"""
options:
  imds_url:
    vars:
      - name: graceful_azure_imds_url
    ini:
      - section: graceful_azure
        key: imds_url
    env:
      - name: GRACEFUL_AZURE_IMDS_URL
"""
