# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Azure Resource Manager: how it is reached, and how an event is approved through it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json, Options, Specs

CONTROLLER = "localhost"
"""The machine that asks Azure."""
ACCESS: Specs = {
    "auth_source": {"type": "str", "choices": ["auto", "cli", "credential_file", "env", "msi"]},
    "client_id": {"type": "str"},
    "profile": {"type": "str"},
    "cloud_environment": {"type": "str", "choices": ["AzureChinaCloud", "AzureCloud", "AzureUSGovernment"]},
    "arm_url": {"type": "str"},
    "login_url": {"type": "str"},
    "identity_url": {"type": "str"},
    "ca_file": {"type": "path"},
}
"""How Azure is reached: options of the modules and of the settings. No secret is among them, because settings go into the journal."""
RESOURCE = re.compile(
    r"/subscriptions/[^/?#%\s]+/resourceGroups/[^/?#%\s]+/providers/Microsoft\.Compute/"
    r"(virtualMachines|virtualMachineScaleSets|availabilitySets)/[^/?#%\s]+\Z",
    re.IGNORECASE,
)
RESOURCE_EXAMPLE = "/subscriptions/S/resourceGroups/RG/providers/Microsoft.Compute/virtualMachines/VM"
OF_INSTANCE = re.compile(r"(.*/virtualMachineScaleSets/[^/]+)/virtualMachines/[^/]+\Z", re.IGNORECASE)


def access_of(options: Options) -> dict[str, str]:
    """The options of the modules that are set."""
    return {name: str(options[name]) for name in ACCESS if options.get(name)}


def access_mistakes(options: Options) -> Iterator[tuple[str, str]]:
    """Addresses to which no token may be sent: pairs of an option and a sentence."""
    for name in ("arm_url", "login_url"):
        url = options.get(name)
        if url and not str(url).startswith("https://"):
            yield name, f"{url!r} does not begin with https://; tokens are sent there"


class Approval:
    """Approves an event for the resource that it belongs to. See C(approve_event.py) for what is asked of it."""

    title = "Azure Resource Manager"

    def mistakes(self, resource: str | None) -> Iterator[str]:
        instance = OF_INSTANCE.match(str(resource))
        if not resource:
            yield "not set; approvals through azure_resource_manager need the resource id of the VM, its scale set or its availability set"
        elif instance:
            yield f"{resource!r} is an instance of a scale set; give the scale set, {instance[1]}"
        elif not RESOURCE.match(str(resource)):
            yield f"{resource!r} is not a resource id such as {RESOURCE_EXAMPLE}, nor one of a scale set or an availability set"

    def settings(self, resource: str | None, access: Options) -> Json:
        return {"resource": str(resource or ""), "access": access_of(access)}

    def act(self, settings: Json, event_ids: Sequence[str], **more: Any) -> tuple[str, str, Options]:
        """The machine, the module and its options."""
        return CONTROLLER, "azure_event_acknowledge", dict(settings["access"], resource_id=settings["resource"], event_ids=event_ids, **more)
