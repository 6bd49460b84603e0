# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Azure Resource Manager: how it is reached, and how an event is approved through it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ansible_collections.graceful.azure.plugins.module_utils._azure_access import ACCESS
from ansible_collections.graceful.azure.plugins.module_utils._spellings import OWNER_EXAMPLE, OWNER_OF_EVENTS
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json, Options

CONTROLLER = "localhost"
"""The machine that asks Azure."""
OF_INSTANCE = re.compile(r"(.*/virtualMachineScaleSets/[^/]+)/virtualMachines/[^/]+\Z", re.IGNORECASE)


def access_of(options: Options) -> dict[str, str]:
    """The options of the modules that are set."""
    return {name: str(options[name]) for name in ACCESS if options.get(name)}


class AzureApproval:
    """Approves an event for the resource that it belongs to. See C(approve_event.py) for what is asked of it."""

    title = "Azure Resource Manager"

    def mistakes(self, resource: str | None) -> Iterator[str]:
        instance = OF_INSTANCE.match(str(resource))
        if not resource:
            yield "not set; approvals through azure_resource_manager need the resource id of the VM, its scale set or its availability set"
        elif instance:
            yield f"{resource!r} is an instance of a scale set; give the scale set, {instance[1]}"
        elif not re.match(OWNER_OF_EVENTS, str(resource), re.IGNORECASE):
            yield f"{resource!r} is not a resource id such as {OWNER_EXAMPLE}, nor one of a scale set or an availability set"

    def settings(self, resource: str | None, access: Options) -> Json:
        return {"resource": str(resource or ""), "access": access_of(access)}

    def act(self, settings: Json, event_ids: Sequence[str], **more: Any) -> tuple[str, str, Options]:
        """The machine, the module and its options."""
        return CONTROLLER, "azure_event_acknowledge", dict(settings["access"], resource_id=settings["resource"], event_ids=event_ids, **more)
