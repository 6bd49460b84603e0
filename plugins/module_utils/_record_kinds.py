# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kinds of records: what those of each have, and what they tell. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Mapping
    from typing import Any, Union

    # What isinstance takes.
    Types = Union[type[Any], tuple[type[Any], ...]]

# The names of the kinds. Of no type of duty are notes, and members of clusters of any type.
HAPROXY_SERVER, NGINX_SERVER, SERVICE, IIS, HEALTH_PROBE = "haproxy_server", "nginx_server", "service", "iis", "health_probe"
TASK, CLUSTER = "task", "cluster"
# Its records are tags in Azure, and no files.
AZURE_ADDRESS = "azure_address"

# The names of the records that are notes: what they hold changes nothing on the machine, it tells the next run how far the host has come.

# The role approve_event approved through this VM.
APPROVED = "approved"
# What stands before the host's balancers in its duties is done, so it may go out of these.
READY_TO_LEAVE = "ready_to_leave"
# All drain steps of the host are done.
DRAINED = "drained"
# One step of the role restore_service was not enough to restore the host.
BEING_RESTORED = "restoring"
# All of them, in the order in which they end.
NOTES = (APPROVED, READY_TO_LEAVE, DRAINED, BEING_RESTORED)

# The watcher's fast path keeps the host out. Nothing else writes or removes it.
FAST_PATH = "event_watcher_fast_path"

NUMBER = (int, float)


class RecordKind(NamedTuple):
    """What the records of a kind have besides what all have."""

    # The fields of their objects, by the names of these.
    objects: dict[str, dict[str, Types]]
    fields: dict[str, Types] = {}
    # Objects that they need not have, each with its fields.
    optional: dict[str, dict[str, Types]] = {}
    # Whether they lie on a machine of a balancer. All others are about the VM on which they lie.
    of_balancer: bool = False
    # Whether they are written only once the host was idle, unless their details say that it was not. They prove it also if a person put the hold, and of
    # ports that the host had not then.
    when_idle: bool = False


KINDS = {
    HAPROXY_SERVER: RecordKind(
        {
            "subject": {"socket": str, "backend": str, "server": str},
            "found": {"admin_state": str, "weight": int},
            "left": {"admin_state": str, "weight": int},
            "process": {"pid": int, "started": NUMBER, "identity": (str, type(None))},
        },
        of_balancer=True,
    ),
    NGINX_SERVER: RecordKind(
        {"subject": {"context": str, "upstream": str, "server": str, "file": str}, "found": {"line": str}, "left": {"line": str}}, of_balancer=True
    ),
    SERVICE: RecordKind(
        {"subject": {"service": str}, "found": {"active_state": str}, "left": {"active_state": str}},
        {"boot_id": str, "order": int},
        when_idle=True,
    ),
    IIS: RecordKind({"subject": {"type": str, "name": str}, "found": {"state": str}, "left": {"state": str}}, {"boot_id": str, "order": int}, when_idle=True),
    CLUSTER: RecordKind(
        {"subject": {"type": str, "name": str, "member": str}},
        {"boot_id": str, "options": dict},
        {"failed_attempt": {"attempt": str, "forced": bool, "reason": str}},
    ),
    TASK: RecordKind({"subject": {"name": str}}, {"done": bool}),
    HEALTH_PROBE: RecordKind(
        {"subject": {"action": str, "on": str}, "found": {"state": str}, "left": {"state": str}},
        {"boot_id": str, "clock": NUMBER},
    ),
}


def kind_of(kind: str) -> RecordKind:
    """Another release may know more kinds."""
    return KINDS.get(kind, RecordKind({}))


def heard_by(kind: str, name: str | None, details: dict[str, Any], ports: Iterable[int]) -> set[int]:
    """The ports that could be counted before, by one event in the record of a hold. If nobody listens there now, whoever did was stopped.

    What was stopped on an idle host is proof that all of them could be counted. For other records, C(details) tell it.
    """
    if kind_of(kind).when_idle and details.get("idle") is not False or (kind, name) == (TASK, DRAINED):
        return set(ports)
    told = details.get("heard")
    return {port for port in told if isinstance(port, int)} if isinstance(told, list) else set()


def heard_in(records: Iterable[Mapping[str, Any]], ports: Collection[int]) -> set[int]:
    """The same by all records of a machine, as they are on disk."""
    return {
        port
        for record in records
        for entry in record["events"].values()
        for port in heard_by(record["kind"], record["subject"].get("name"), entry.get("details") or {}, ports)
    }


def was_posted(details: Mapping[str, Any] | None) -> bool:
    """Whether an event on record as approved was sent for sure, by its details. They say no until the request was accepted."""
    return bool((details or {}).get("posted", True))


def still_uncounted(uncounted: Iterable[dict[str, Any]], heard: Container[int]) -> list[dict[str, Any]]:
    """The entries of ports that cannot be counted, without those where somebody listened before (C(heard)) and nobody does now."""
    return [each for each in uncounted if not (each["unheard"] and each["port"] in heard)]


def why_uncounted(uncounted: Iterable[dict[str, Any]]) -> list[str]:
    return ["port %(port)d cannot be counted: %(why)s" % each for each in uncounted]


def may_have_passed(found: Mapping[str, Any] | None) -> bool:
    """Whether the URL passed before the hold or since, or nobody asked there. C(found): that of the record of a health probe."""
    known = found or {}
    return bool(known.get("passed", known.get("answered", True)))  # older releases only noted whether anybody answered
