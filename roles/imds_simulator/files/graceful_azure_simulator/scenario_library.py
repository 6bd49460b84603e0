# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The library of scenarios: data alone. Each names the page or thread from which its times come."""

from __future__ import annotations

DOCS = "https://learn.microsoft.com/en-us/azure/virtual-machines/linux/scheduled-events"
HOST_MAINTENANCE = "Host server is undergoing maintenance."
BY_USER = "Virtual machine is going to be %s as requested by authorized user."


def _event(kind, notice, impact=None, settle=None, description=None, vm=1, **more):
    """An event of a scenario, with its times in seconds."""
    fields = {"EventType": kind, "Vm": vm, "NoticeSeconds": notice, "ImpactSeconds": impact, "SettleSeconds": settle, "Description": description, **more}
    return {name: value for name, value in fields.items() if value is not None}


SCENARIOS = {
    "live-migration": {
        "about": "A VM is moved to another node with its memory: a freeze of 5 s, known 15 minutes ahead, gone after 10 minutes.",
        "source": DOCS + "#example-responses and its rough time line",
        "events": [
            _event("Freeze", 900, 7, 593, "Virtual machine is being paused because of a memory-preserving Live Migration operation.", DurationInSeconds=5),
        ],
    },
    "short-notice-freeze": {
        "about": "A freeze that is announced 319 s ahead instead of 15 minutes.",
        "source": "https://github.com/MicrosoftDocs/azure-docs/issues/39758",
        "events": [_event("Freeze", 319, 7, 593, HOST_MAINTENANCE)],
    },
    "host-reboot": {
        "about": "The host is rebooted, and with it the VM: 15 minutes of notice.",
        "source": DOCS + "#event-scheduling",
        "events": [_event("Reboot", 900, 120, 480, HOST_MAINTENANCE)],
    },
    "user-reboot": {
        "about": "Somebody restarts the VM in the portal: it waits 872 s, unless approved.",
        "source": "https://github.com/scylladb/scylla-cluster-tests/issues/5608",
        "events": [_event("Reboot", 872, 60, 30, BY_USER % "restarted", EventSource="User")],
    },
    "redeploy": {
        "about": "The VM is moved to another node without its memory and its temporary disk: 10 minutes of notice.",
        "source": DOCS + "#event-scheduling",
        "events": [_event("Redeploy", 600, 300, 300, HOST_MAINTENANCE)],
    },
    "user-redeploy": {
        "about": "Somebody redeploys the VM: 10 minutes, unless approved.",
        "source": DOCS + "#user-initiated-maintenance",
        "events": [_event("Redeploy", 600, 300, 60, BY_USER % "redeployed", EventSource="User")],
    },
    "spot-eviction": {
        "about": "A Spot VM is evicted: 30 s of notice, and it does not come back.",
        "source": "https://learn.microsoft.com/en-us/azure/virtual-machines/spot-vms#eviction-policy",
        "events": [_event("Preempt", 30, 30, 30, "")],
    },
    "spot-eviction-5s": {
        "about": "A Spot VM is evicted with 5 s of notice: often less than 10 s are seen.",
        "source": "https://github.com/Azure/karpenter-provider-azure/issues/1769",
        "events": [_event("Preempt", 5, 30, 30, "")],
    },
    "scale-in": {
        "about": "A scale set deletes a VM, here the first: the user's setting of 5 minutes, unless approved.",
        "source": "https://learn.microsoft.com/en-us/azure/virtual-machine-scale-sets/virtual-machine-scale-sets-terminate-notification",
        "events": [_event("Terminate", 300, 60, 30, "")],
    },
    "cancelled": {
        "about": "A reboot that Azure calls off after 5 minutes: from Scheduled to gone, no impact.",
        "source": DOCS + "#event-scheduling",
        "events": [_event("Reboot", 900, None, None, HOST_MAINTENANCE, CancelSeconds=300)],
    },
    "predicted-failure": {
        "about": "Hardware that will fail: a move that is announced 7 days ahead, and best not waited for.",
        "source": DOCS + "#event-scheduling (the type of the event is assumed)",
        "events": [_event("Redeploy", 604800, 300, 300, "Virtual machine is running on degraded hardware.")],
    },
    "hardware-failure": {
        "about": "The host fails: a reboot that is Started at once, 10 minutes of it.",
        "source": DOCS
        + "#event-scheduling; the 10 minutes: https://learn.microsoft.com/en-us/troubleshoot/azure/virtual-machines/windows/understand-vm-reboot",
        "events": [_event("Reboot", None, 600, 60, "Virtual machine has encountered a failure.", EventStatus="Started")],
    },
    "repeated-freeze": {
        "about": "A freeze of 6 s that stays Started for 5 minutes, with two more short impacts meanwhile.",
        "source": "https://github.com/Azure/AKS/issues/3719 (the length); " + DOCS + "#high-level-overview (further impacts)",
        "events": [_event("Freeze", 900, 6, 294, HOST_MAINTENANCE, FurtherImpacts=[90, 200], DurationInSeconds=6)],
    },
    "reboot-becomes-freeze": {
        "about": "A reboot is announced; what comes is a freeze.",
        "source": DOCS + "#event-properties",
        "events": [_event("Reboot", 900, 9, 591, HOST_MAINTENANCE, Impact="Freeze")],
    },
    "overlapping": {
        "about": "A freeze of one VM; a second event for the same VM and one for another are announced before it is over.",
        "source": DOCS + "#query-for-events (several in one document); the times are assumed",
        "events": [
            _event("Freeze", 900, 7, 593, DurationInSeconds=5),
            _event("Reboot", 900, 120, 180, After=300),
            _event("Redeploy", 600, 300, 60, vm=2, After=420, EventSource="User"),
        ],
    },
    "whole-domain": {
        "about": "All VMs of one update domain at once.",
        "source": "https://learn.microsoft.com/en-us/azure/virtual-machines/availability-set-overview",
        "events": [_event("Reboot", 900, 120, 480, HOST_MAINTENANCE, vm=None, Domain=1)],
    },
    "os-image-upgrade": {
        "about": "A scale set gets a new OS image, one update domain after the other; each waits 15 minutes, unless approved.",
        "source": "https://learn.microsoft.com/en-us/javascript/api/@azure/arm-compute/osimagenotificationprofile (the type of the event is assumed)",
        "events": [_event("Reboot", 900, 180, 60, "Virtual machine is going to get a new OS image.", vm=None, Domain="each", EventSource="User")],
    },
    "other-tenants": {
        "about": "A freeze that is approved, but waits 4 minutes for the other tenants of the node.",
        "source": DOCS + "#start-an-event; the 4 minutes are assumed",
        "events": [_event("Freeze", 900, 7, 593, HOST_MAINTENANCE, ApprovalSeconds=240, DurationInSeconds=5)],
    },
}
