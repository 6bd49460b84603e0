# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  imds_url:
    description:
      - Base URL of the instance metadata service.
      - No proxy is used, and no redirect is followed.
    type: str
    default: http://169.254.169.254
  api_version:
    description:
      - Version of the service's API. Events have the same shape for every version. A field that does not exist in a version is null.
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
      - Seconds for one HTTP answer, from connecting to its last byte. For connecting alone there is a shorter limit.
      - A wait allows 120 seconds for the very first answer, because the first request ever switches the service on.
      - After an error that may go away, the request is repeated with growing pauses.
    type: float
    default: 10
  resource_name:
    description:
      - This host's name in C(Resources). It is the name of the Azure resource, not the hostname. Upper and lower case do not matter.
      - For a lookup on a controller in the same set, give the name of the VM that you mean.
      - Without this option, the service is asked for the name. This costs a second request.
    type: str
requirements:
  - requests
  - jmespath (only for JMESPath expressions)
notes:
  - Only the VM itself can reach its metadata service. The service lists the events of the VM's whole scale set or availability set.
  - The first request ever switches Scheduled Events on for the VM. Its answer may take up to two minutes.
  - As soon as anybody asks the service, Azure also announces the reboots that users start themselves. These then wait for an approval or for
    their C(NotBefore).
"""

    # For lookups, whose options can also come from variables, the configuration and the environment.
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
