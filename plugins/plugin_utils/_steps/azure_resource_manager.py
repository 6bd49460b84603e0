# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Azure Resource Manager: how it is reached, and how an event is approved through it. Private to the collection; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json, Options

CONTROLLER = "localhost"
"""The machine that asks Azure."""
ACCESS = ("auth_source", "client_id", "profile", "cloud_environment", "arm_url", "login_url", "identity_url", "ca_file")
"""How Azure is reached: options of the modules, and of the roles with the prefix C(azure_). No secret is among them, because settings go into the journal."""
RESOURCE = re.compile(
    r"/subscriptions/[^/?#%\s]+/resourceGroups/[^/?#%\s]+/providers/Microsoft\.Compute/"
    r"(virtualMachines|virtualMachineScaleSets|availabilitySets)/[^/?#%\s]+\Z",
    re.IGNORECASE,
)
RESOURCE_EXAMPLE = "/subscriptions/S/resourceGroups/RG/providers/Microsoft.Compute/virtualMachines/VM"
OF_INSTANCE = re.compile(r"(.*/virtualMachineScaleSets/[^/]+)/virtualMachines/[^/]+\Z", re.IGNORECASE)


def access_of(entry: Options) -> dict[str, str]:
    """The options of the modules that are set. C(entry): the values of a role, by their names without the prefix of the role."""
    return {name: str(entry[f"azure_{name}"]) for name in ACCESS if entry.get(f"azure_{name}")}


def access_mistakes(entry: Options, prefix: str) -> Iterator[str]:
    """Sentences about addresses to which no token may be sent. C(prefix): that of the role's variables."""
    for name in ("arm_url", "login_url"):
        url = entry.get(f"azure_{name}")
        if url and not str(url).startswith("https://"):
            yield f"{prefix}azure_{name}: {url!r} does not begin with https://; tokens are sent there"


class Approval:
    """Approves an event for the resource that it belongs to. See C(approve_event.py) for what is asked of it."""

    title = "Azure Resource Manager"
    paths = ("azure_ca_file",)

    def mistakes(self, entry: Options) -> Iterator[str]:
        resource = entry.get("azure_resource")
        instance = OF_INSTANCE.match(str(resource))
        if not resource:
            yield (
                "approve_event_azure_resource: not set; approve_event_through: azure_resource_manager needs the resource id of the VM, its scale set or its"
                " availability set"
            )
        elif instance:
            yield f"approve_event_azure_resource: {resource!r} is an instance of a scale set; give the scale set, {instance[1]}"
        elif not RESOURCE.match(str(resource)):
            yield f"approve_event_azure_resource: {resource!r} is not a resource id such as {RESOURCE_EXAMPLE}, nor one of a scale set or an availability set"
        yield from access_mistakes(entry, "approve_event_")

    def settings(self, entry: Options) -> Json:
        return {"resource": str(entry.get("azure_resource") or ""), "access": access_of(entry)}

    def act(self, settings: Json, event_ids: Sequence[str], **more: Any) -> tuple[str, str, Options]:
        """The machine, the module and its options."""
        return CONTROLLER, "azure_event_acknowledge", dict(settings["access"], resource_id=settings["resource"], event_ids=event_ids, **more)
