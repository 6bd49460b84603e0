# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the instance endpoint says about a VM, and names of VMs. Pure."""

from __future__ import annotations

import uuid

from .refusals import Refused, Unfit


class Vm:
    """What the instance endpoint says about a VM. ``told`` has those fields of ``compute`` that the user gave."""

    def __init__(self, name, number, told=None):
        told = told or {}
        self.name = name
        vm_id = uuid.uuid5(uuid.NAMESPACE_OID, name)
        compute = {
            "azEnvironment": "AzurePublicCloud",
            "location": "westeurope",
            "name": name,
            "offer": "simulated",
            "osType": "Linux",
            "placementGroupId": "",
            "platformFaultDomain": str(number % 3),
            "platformUpdateDomain": str(number),
            "provider": "Microsoft.Compute",
            "publisher": "simulated",
            "resourceGroupName": "simulated",
            "resourceId": "",
            "sku": "simulated",
            "subscriptionId": "00000000-0000-0000-0000-000000000000",
            "tags": "",
            "version": "1",
            "vmId": str(vm_id),
            "vmScaleSetName": "simulated",
            "vmSize": "Standard_D2s_v5",
            "zone": "",
            **told,
        }
        if "resourceId" not in told:
            group = f"/subscriptions/{compute['subscriptionId']}/resourceGroups/{compute['resourceGroupName']}"
            compute["resourceId"] = f"{group}/providers/Microsoft.Compute/virtualMachines/{compute['name']}"
        if compute["tags"]:
            pairs = [tag.partition(":") for tag in compute["tags"].split(";") if tag]
            compute["tagsList"] = [{"name": name, "value": value} for name, _mark, value in pairs]
        self.domain = compute["platformUpdateDomain"]
        self.instance = {
            "compute": compute,
            "network": {
                "interface": [
                    {
                        "ipv4": {
                            "ipAddress": [{"privateIpAddress": f"10.0.{number // 250}.{number % 250 + 4}", "publicIpAddress": ""}],
                            "subnet": [{"address": "10.0.0.0", "prefix": "16"}],
                        },
                        "ipv6": {"ipAddress": []},
                        "macAddress": "000D3A" + vm_id.hex[:6].upper(),
                    }
                ]
            },
        }


COMPUTE_FIELDS = [name for name in Vm("", 0).instance["compute"] if name != "name"]


def a_vm_of(names):
    """A check for the name of a VM. If ``names`` is None, it accepts every name."""

    def a_vm(name):
        if name is None or (names is None and isinstance(name, str)):
            return name
        for vm in names or []:
            if isinstance(name, str) and vm.lower() == name.lower():
                return vm
        raise Unfit(f"one of the VMs ({', '.join(names or [])}) or null")

    return a_vm


def strangers_to(vms, names):
    """Those of the names that no VM has, each once."""
    known = {vm.lower() for vm in vms}
    return list(dict.fromkeys(name for name in names if name.lower() not in known))


def refuse_two_domains(names, domains):
    """``domains`` has the update domain of each VM, by its name in lower case."""
    hit = {domains[name.lower()] for name in names if name.lower() in domains}
    if len(hit) > 1:
        raise Refused(f"An event hits VMs of one update domain; these are of the domains {', '.join(sorted(hit))}.")
