# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The library of scenarios: data alone. Each names the page or thread from which its times come."""

from __future__ import annotations

DOCS = "https://learn.microsoft.com/en-us/azure/virtual-machines/linux/scheduled-events"
SCENARIOS = {
    "live-migration": {
        "about": "A VM is moved to another node with its memory: a freeze of 5 s, known 15 minutes ahead, gone after 10 minutes.",
        "source": DOCS + "#example-responses and its rough time line",
        "events": [
            {
                "EventType": "Freeze",
                "Vm": 1,
                "NoticeSeconds": 900,
                "ImpactSeconds": 7,
                "SettleSeconds": 593,
                "DurationInSeconds": 5,
                "Description": "Virtual machine is being paused because of a memory-preserving Live Migration operation.",
            }
        ],
    },
    "short-notice-freeze": {
        "about": "A freeze that is announced 319 s ahead instead of 15 minutes.",
        "source": "https://github.com/MicrosoftDocs/azure-docs/issues/39758",
        "events": [
            {
                "EventType": "Freeze",
                "Vm": 1,
                "NoticeSeconds": 319,
                "ImpactSeconds": 7,
                "SettleSeconds": 593,
                "Description": "Host server is undergoing maintenance.",
            }
        ],
    },
    "host-reboot": {
        "about": "The host is rebooted, and with it the VM: 15 minutes of notice.",
        "source": DOCS + "#event-scheduling",
        "events": [
            {
                "EventType": "Reboot",
                "Vm": 1,
                "NoticeSeconds": 900,
                "ImpactSeconds": 120,
                "SettleSeconds": 480,
                "Description": "Host server is undergoing maintenance.",
            }
        ],
    },
    "user-reboot": {
        "about": "Somebody restarts the VM in the portal: it waits 872 s, unless approved.",
        "source": "https://github.com/scylladb/scylla-cluster-tests/issues/5608",
        "events": [
            {
                "EventType": "Reboot",
                "Vm": 1,
                "NoticeSeconds": 872,
                "ImpactSeconds": 60,
                "SettleSeconds": 30,
                "EventSource": "User",
                "Description": "Virtual machine is going to be restarted as requested by authorized user.",
            }
        ],
    },
    "redeploy": {
        "about": "The VM is moved to another node without its memory and its temporary disk: 10 minutes of notice.",
        "source": DOCS + "#event-scheduling",
        "events": [
            {
                "EventType": "Redeploy",
                "Vm": 1,
                "NoticeSeconds": 600,
                "ImpactSeconds": 300,
                "SettleSeconds": 300,
                "Description": "Host server is undergoing maintenance.",
            }
        ],
    },
    "user-redeploy": {
        "about": "Somebody redeploys the VM: 10 minutes, unless approved.",
        "source": DOCS + "#user-initiated-maintenance",
        "events": [
            {
                "EventType": "Redeploy",
                "Vm": 1,
                "NoticeSeconds": 600,
                "ImpactSeconds": 300,
                "SettleSeconds": 60,
                "EventSource": "User",
                "Description": "Virtual machine is going to be redeployed as requested by authorized user.",
            }
        ],
    },
    "spot-eviction": {
        "about": "A Spot VM is evicted: 30 s of notice, and it does not come back.",
        "source": "https://learn.microsoft.com/en-us/azure/virtual-machines/spot-vms#eviction-policy",
        "events": [{"EventType": "Preempt", "Vm": 1, "NoticeSeconds": 30, "ImpactSeconds": 30, "SettleSeconds": 30, "Description": ""}],
    },
    "spot-eviction-5s": {
        "about": "A Spot VM is evicted with 5 s of notice: often less than 10 s are seen.",
        "source": "https://github.com/Azure/karpenter-provider-azure/issues/1769",
        "events": [{"EventType": "Preempt", "Vm": 1, "NoticeSeconds": 5, "ImpactSeconds": 30, "SettleSeconds": 30, "Description": ""}],
    },
    "scale-in": {
        "about": "A scale set deletes a VM, here the first: the user's setting of 5 minutes, unless approved.",
        "source": "https://learn.microsoft.com/en-us/azure/virtual-machine-scale-sets/virtual-machine-scale-sets-terminate-notification",
        "events": [{"EventType": "Terminate", "Vm": 1, "NoticeSeconds": 300, "ImpactSeconds": 60, "SettleSeconds": 30, "Description": ""}],
    },
    "cancelled": {
        "about": "A reboot that Azure calls off after 5 minutes: from Scheduled to gone, no impact.",
        "source": DOCS + "#event-scheduling",
        "events": [{"EventType": "Reboot", "Vm": 1, "NoticeSeconds": 900, "CancelSeconds": 300, "Description": "Host server is undergoing maintenance."}],
    },
    "predicted-failure": {
        "about": "Hardware that will fail: a move that is announced 7 days ahead, and best not waited for.",
        "source": DOCS + "#event-scheduling (the type of the event is assumed)",
        "events": [
            {
                "EventType": "Redeploy",
                "Vm": 1,
                "NoticeSeconds": 604800,
                "ImpactSeconds": 300,
                "SettleSeconds": 300,
                "Description": "Virtual machine is running on degraded hardware.",
            }
        ],
    },
    "hardware-failure": {
        "about": "The host fails: a reboot that is Started at once, 10 minutes of it.",
        "source": DOCS
        + "#event-scheduling; the 10 minutes: https://learn.microsoft.com/en-us/troubleshoot/azure/virtual-machines/windows/understand-vm-reboot",
        "events": [
            {
                "EventType": "Reboot",
                "Vm": 1,
                "EventStatus": "Started",
                "ImpactSeconds": 600,
                "SettleSeconds": 60,
                "Description": "Virtual machine has encountered a failure.",
            }
        ],
    },
    "repeated-freeze": {
        "about": "A freeze of 6 s that stays Started for 5 minutes, with two more short impacts meanwhile.",
        "source": "https://github.com/Azure/AKS/issues/3719 (the length); " + DOCS + "#high-level-overview (further impacts)",
        "events": [
            {
                "EventType": "Freeze",
                "Vm": 1,
                "NoticeSeconds": 900,
                "ImpactSeconds": 6,
                "FurtherImpacts": [90, 200],
                "SettleSeconds": 294,
                "DurationInSeconds": 6,
                "Description": "Host server is undergoing maintenance.",
            }
        ],
    },
    "reboot-becomes-freeze": {
        "about": "A reboot is announced; what comes is a freeze.",
        "source": DOCS + "#event-properties",
        "events": [
            {
                "EventType": "Reboot",
                "Impact": "Freeze",
                "Vm": 1,
                "NoticeSeconds": 900,
                "ImpactSeconds": 9,
                "SettleSeconds": 591,
                "Description": "Host server is undergoing maintenance.",
            }
        ],
    },
    "overlapping": {
        "about": "A freeze of one VM; a second event for the same VM and one for another are announced before it is over.",
        "source": DOCS + "#query-for-events (several in one document); the times are assumed",
        "events": [
            {"EventType": "Freeze", "Vm": 1, "NoticeSeconds": 900, "ImpactSeconds": 7, "SettleSeconds": 593, "DurationInSeconds": 5},
            {"After": 300, "EventType": "Reboot", "Vm": 1, "NoticeSeconds": 900, "ImpactSeconds": 120, "SettleSeconds": 180},
            {"After": 420, "EventType": "Redeploy", "Vm": 2, "NoticeSeconds": 600, "ImpactSeconds": 300, "SettleSeconds": 60, "EventSource": "User"},
        ],
    },
    "whole-domain": {
        "about": "All VMs of one update domain at once.",
        "source": "https://learn.microsoft.com/en-us/azure/virtual-machines/availability-set-overview",
        "events": [
            {
                "EventType": "Reboot",
                "Domain": 1,
                "NoticeSeconds": 900,
                "ImpactSeconds": 120,
                "SettleSeconds": 480,
                "Description": "Host server is undergoing maintenance.",
            }
        ],
    },
    "os-image-upgrade": {
        "about": "A scale set gets a new OS image, one update domain after the other; each waits 15 minutes, unless approved.",
        "source": "https://learn.microsoft.com/en-us/javascript/api/@azure/arm-compute/osimagenotificationprofile (the type of the event is assumed)",
        "events": [
            {
                "EventType": "Reboot",
                "Domain": "each",
                "NoticeSeconds": 900,
                "ImpactSeconds": 180,
                "SettleSeconds": 60,
                "EventSource": "User",
                "Description": "Virtual machine is going to get a new OS image.",
            }
        ],
    },
    "other-tenants": {
        "about": "A freeze that is approved, but waits 4 minutes for the other tenants of the node.",
        "source": DOCS + "#start-an-event; the 4 minutes are assumed",
        "events": [
            {
                "EventType": "Freeze",
                "Vm": 1,
                "NoticeSeconds": 900,
                "ApprovalSeconds": 240,
                "ImpactSeconds": 7,
                "SettleSeconds": 593,
                "DurationInSeconds": 5,
                "Description": "Host server is undergoing maintenance.",
            }
        ],
    },
}
