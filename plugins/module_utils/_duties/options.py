# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of an entry of C(graceful_azure_duties) by its type, and what is wrong with them, for the plan and for the machine that acts. Pure.

An option is as in an argument specification. Besides, the settings read C(means) (what to write if it is not set) and C(or_text) (whether a text with commas
may stand for the list). The options of the members of clusters are in their own files.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._polling import check_seconds
from ansible_collections.graceful.azure.plugins.module_utils._spellings import POOL, POOL_EXAMPLE, canonical

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    Specs = dict[str, dict[str, Any]]
    Mistakes = Iterator[tuple[str, str]]

SOCKET = "/run/haproxy/admin.sock"
# The address from which the probes of Azure Load Balancer come.
AZURE_PROBE = "168.63.129.16"

# What each action of a health probe needs.
NEEDS = {
    "file": ("file",),
    "service": ("service",),
    "command": ("command_out", "command_back"),
    "responder": ("responder_port", "responder_url"),
    "iis_site": ("iis_site",),
}
# How Azure is reached. No secret is among them, because entries are shown and written down.
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
MACHINES = "give the inventory names of the machines on which the balancer runs"
HOSTS: dict[str, Any] = {"type": "list", "elements": "str", "required": True, "means": MACHINES}
# Seconds for which no new request may have come before a host that is out counts as drained.
QUIET: dict[str, Any] = {"type": "float", "default": 3}

OPTIONS: dict[str, Specs] = {
    "haproxy": {
        "hosts": HOSTS,
        "server": {"type": "str"},
        "socket": {"type": "path", "default": SOCKET},
        "backends": {"type": "list", "elements": "str"},
        "state": {"type": "str", "choices": ["drain", "maint"]},
        "quiet": QUIET,
        "hard_stop_after": {"type": "float"},
        "absent": {"type": "str", "choices": ["unknown", "no_traffic"], "default": "unknown"},
    },
    "nginx": {
        "hosts": HOSTS,
        "server": {"type": "str"},
        "files": {"type": "list", "elements": "path"},
        "configuration": {"type": "path"},
        "quiet": QUIET,
    },
    "health_probe": {
        "action": {"type": "str", "choices": [*NEEDS], "required": True},
        "file": {"type": "path"},
        "file_means": {"type": "str", "choices": ["out", "in"], "default": "out"},
        "service": {"type": "str"},
        "command_out": {"type": "str"},
        "command_back": {"type": "str"},
        "responder_port": {"type": "int"},
        "responder_url": {"type": "str"},
        "responder_untouched_port": {"type": "int"},
        "responder_state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "responder_python": {"type": "path", "default": "/usr/bin/python3"},
        "iis_site": {"type": "str"},
        "interval": {"type": "float", "default": 5},
        "threshold": {"type": "int", "default": 2},
        "margin": {"type": "float", "default": 2},
        "url": {"type": "str"},
        "peer": {"type": "list", "elements": "str", "default": [AZURE_PROBE], "or_text": True},
        "quiet": QUIET,
    },
    "azure_load_balancer": {
        "pool": {"type": "str", "required": True, "means": "give the resource id of the backend address pool"},
        "address": {"type": "str"},
        "ip_address": {"type": "str"},
        "quiet": QUIET,
        **ACCESS,
    },
    # The files are on the controller.
    "tasks": {"out": {"type": "path"}, "back": {"type": "path"}, "traffic": {"type": "bool", "default": False}},
    "service": {},
    "iis": {"sites": {"type": "list", "elements": "str"}, "pools": {"type": "list", "elements": "str"}},
}
# What a name may be.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")
# How the names of the records of tasks begin: of those that take a host off, of those that only put it back, and of those that bring traffic.
OUT_RECORD, BACK_RECORD, TRAFFIC_RECORD = "drain_host_step_", "restore_service_step_", "load_balancer_step_"
# The name of the last in versions that allowed a host only one.
FORMER_RECORD = "load_balancer_custom"
# Tasks of these names have the records of the options that there were before.
OUT_NAMES, BACK_NAMES = ("drain_host_before", "drain_host_after"), ("restore_service_before", "restore_service_after")
SERVICE_NAME = re.compile(r"[A-Za-z0-9:_.\\@$][A-Za-z0-9:_.\\@$-]*\Z")


def record_of_tasks(name: str, options: Mapping[str, Any]) -> str:
    """The name of the record of a duty of task files."""
    if options.get("traffic"):
        return TRAFFIC_RECORD + name
    return name if name in OUT_NAMES + BACK_NAMES else (OUT_RECORD if options.get("out") else BACK_RECORD) + name


def acted_on(options: Mapping[str, Any]) -> str:
    """What the action of a health probe acts on, as users know it."""
    on = next((options[option] for option in NEEDS.get(options["action"], ())), None) or ""
    return "port %s" % on if options["action"] == "responder" else str(on)


def probed_url(options: Mapping[str, Any]) -> str | None:
    """Where the answer of a health probe is asked; None if it is not."""
    return options["url"] or ("http://localhost:%s/" % options["responder_port"] if options["action"] == "responder" else None)


def notice_of(options: Mapping[str, Any]) -> float:
    """After how many seconds the balancer of a health probe must have noticed."""
    return round(float(options["interval"] * options["threshold"] + options["margin"]), 3)


def mistakes_in(kind: str, name: str, options: Mapping[str, Any]) -> Mistakes:
    """What is wrong with the options of an entry besides their types: pairs of an option and a sentence. ``options``: with the defaults of those not set."""
    for option, spec in OPTIONS.get(kind, {}).items():
        if spec["type"] == "float" and options.get(option) is not None:
            yield from _no_seconds(option, options[option])
    if options.get("cluster") is not None and not options["cluster"].strip():
        yield "cluster", "%r is no name; give all hosts of one cluster the same name" % options["cluster"]
    if options.get("hosts") == []:
        yield "hosts", "empty; %s" % MACHINES
    if kind == "health_probe":
        yield from _of_health_probe(options)
    elif kind == "azure_load_balancer":
        yield from _of_pool(options)
    elif kind == "tasks":
        if not (options.get("out") or options.get("back")):
            yield "", "neither out nor back is set; give at least one task file"
    elif kind == "service":
        stem = name[: -len(".service")] if name.endswith(".service") else name
        if stem.endswith("@"):
            yield "name", "%r is a template; name an instance of it, such as %s1" % (name, stem)
    elif kind == "iis":
        for option in ("sites", "pools"):
            if not all(each.strip() for each in options.get(option) or ()):
                yield option, "%r has an empty name" % (options[option],)


def _no_seconds(option: str, value: float) -> Mistakes:
    try:
        check_seconds(option, value)
    except ValueError as error:
        yield option, str(error)[len(option) + 1 :].rstrip(".")


def _of_health_probe(options: Mapping[str, Any]) -> Mistakes:
    action = options.get("action") or ""
    for option in NEEDS.get(action, ()):
        if not options.get(option):
            yield option, "not set; action: %s needs it" % action
    if options["interval"] == 0:
        yield "interval", "0 is not a number of seconds greater than 0; give the figure of the balancer's probe"
    if options["threshold"] < 1:
        yield "threshold", "%d is not a whole number from 1 up; give the figure of the balancer's probe" % options["threshold"]
    for option in ("responder_port", "responder_untouched_port"):
        if options.get(option) is not None and not 1 <= options[option] <= 65535:
            yield option, "%r is not a TCP port from 1 to 65535" % options[option]
    for option in NEEDS["command"]:
        command = options.get(option)
        try:
            if command and not shlex.split(command):
                yield option, "%r has no words" % command
        except ValueError as error:
            yield option, "%r cannot be split into words: %s" % (command, error)
    for address in options.get("peer") or ():
        try:
            canonical(address.strip())
        except ValueError:
            yield "peer", "%r is not an IP address" % (address,)


def _of_pool(options: Mapping[str, Any]) -> Mistakes:
    if options.get("pool") and not re.match(POOL, options["pool"], re.IGNORECASE):
        yield "pool", "%r is not a resource id such as %s" % (options["pool"], POOL_EXAMPLE)
    if options.get("address") and options.get("ip_address"):
        yield "address", "excludes ip_address; give one of them"
    yield from access_mistakes(options)


def access_mistakes(options: Mapping[str, Any]) -> Mistakes:
    """Addresses to which no token may be sent."""
    for option in ("arm_url", "login_url"):
        url = options.get(option)
        if url and not str(url).startswith("https://"):
            yield option, "%r does not begin with https://; tokens are sent there" % url
