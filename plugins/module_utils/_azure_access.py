# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options that say how Azure is reached, with the names that azure.azcollection uses. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

# For each cloud the address of the resource manager and that of the service that gives tokens.
CLOUDS = {
    "AzureCloud": ("https://management.azure.com", "https://login.microsoftonline.com"),
    "AzureChinaCloud": ("https://management.chinacloudapi.cn", "https://login.chinacloudapi.cn"),
    "AzureUSGovernment": ("https://management.usgovcloudapi.net", "https://login.microsoftonline.us"),
}
IDENTITY_URL = "http://169.254.169.254"
# The options of a host and of its duties. No secret is among them, because entries are shown and written down.
ACCESS: dict[str, dict[str, Any]] = {
    "auth_source": {"type": "str", "choices": ["auto", "cli", "credential_file", "env", "msi"]},
    "client_id": {"type": "str"},
    "profile": {"type": "str"},
    "cloud_environment": {"type": "str", "choices": sorted(CLOUDS)},
    "arm_url": {"type": "str"},
    "login_url": {"type": "str"},
    "identity_url": {"type": "str"},
    "ca_file": {"type": "path"},
}
DEFAULTS = {"auth_source": "auto", "cloud_environment": "AzureCloud", "identity_url": IDENTITY_URL}


def azure_argument_spec() -> dict[str, dict[str, Any]]:
    """The options of every module that speaks to Azure."""
    known = {name: dict(spec, default=DEFAULTS[name]) if name in DEFAULTS else spec for name, spec in ACCESS.items()}
    return dict(known, subscription_id={"type": "str"}, secret={"type": "str", "no_log": True}, tenant={"type": "str"})


def access_mistakes(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Addresses to which no token may be sent."""
    for option in ("arm_url", "login_url"):
        url = options.get(option)
        if url and not str(url).startswith("https://"):
            yield option, "%r does not begin with https://; tokens are sent there" % url
