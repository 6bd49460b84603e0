# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses in backend pools of Azure Load Balancer, and holds on them: the driver for the engine of holds.

The records are tags of the load balancer. A run on any controller finds them, and asks no VM for them.

A pool is written only with the ETag under which it was read, and its record is read after that. Azure changes the ETag with every write to the load
balancer. So the pool is written only if nobody changed the pool or a record since both were seen.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import hashlib
import json
import random
import zlib
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.graceful.azure.plugins.module_utils._azure_resource_manager import (
    ENDED,
    AzureError,
    AzureRefusedError,
    ChangedError,
    NotFoundError,
    NotPermittedError,
    check_id,
)
from ansible_collections.graceful.azure.plugins.module_utils._conditions import ALREADY_OUT, AS_LEFT, CHANGED_MEANWHILE, GOING_BACK, NONE, UNDER_WAY
from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Driver
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import (
    CHANGING,
    HELD,
    PHASES,
    RESTORING,
    HoldError,
    holders,
    new_record,
    same_content,
)
from ansible_collections.graceful.azure.plugins.module_utils._minimum import shortage, stays
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import AZURE_ADDRESS
from ansible_collections.graceful.azure.plugins.module_utils._spellings import DOWN, POOL, POOL_EXAMPLE, called, last_part

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._azure_resource_manager import Client
    from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Hold
    from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Events, Record, Request

NETWORK_VERSION = "2024-05-01"
TAGS_VERSION = "2021-04-01"

INTERFACE = (
    r"(?P<interface>/subscriptions/[^/?#%\s]+/resourceGroups/[^/?#%\s]+/providers/Microsoft\.Network/networkInterfaces/[^/?#%\s]+)"
    r"/ipConfigurations/(?P<name>[^/?#%\s]+)\Z"
)

# The address has no adminState, or null.
NOT_SET = "absent"

# What Azure allows: tags of one resource, and characters of a tag's value.
TAG_LIMIT = 50
VALUE_LIMIT = 256
PREFIX = "graceful-azure-"
# How often a change is written before it is given up.
WRITES = 2
# A reason is for people. A longer one would cost a tag of its own.
REASON_LIMIT = 60

# After another program's write, the pool is read again. The pause before that, in seconds, grows up to the second figure.
PAUSE, PAUSE_MOST = 0.2, 2.0
# Seconds between two reads that are to say the same.
AGAIN_SECONDS = 1.0


class Address(NamedTuple):
    pool: str
    name: str
    ip: str | None
    state: str
    # Whether Azure did what it was told last, and whether it will not do it any more. With neither, it is still at work.
    settled: bool
    failed: bool


class Pools:
    """The pools of load balancers, as far as holds need them. With ``dry`` changes are kept in memory."""

    def __init__(self, client: Client, dry: bool = False) -> None:
        self._client = client
        self._dry = dry
        # In check mode: the states that addresses were told to have, by pool and name, and the tags of load balancers.
        self._told: dict[tuple[str, str], str] = {}
        self._tags: dict[str, dict[str, str]] = {}
        # The private addresses of IP configurations of network interfaces.
        self._ips: dict[str, str | None] = {}
        # Sentences about the network interfaces that this identity cannot read.
        self.unread: list[str] = []

    @property
    def left(self) -> float:
        return self._client.left

    def sleep(self, seconds: float) -> None:
        self._client.sleep(seconds)

    def read(self, pool: str) -> dict[str, Any]:
        return self._client.get(pool, NETWORK_VERSION)

    def addresses(self, pool: str, body: dict[str, Any]) -> list[Address]:
        """The addresses of a pool that was read."""
        properties = body.get("properties") or {}
        provisioning = properties.get("provisioningState", "Succeeded")
        found = []
        for entry in members_of(body):
            name, of_entry = entry.get("name"), entry.get("properties") or {}
            told = self._told.get((pool.lower(), name))
            state = told or of_entry.get("adminState") or NOT_SET
            settled, failed = bool(told) or provisioning == "Succeeded", not told and provisioning in ENDED and provisioning != "Succeeded"
            found.append(Address(pool, name, of_entry.get("ipAddress"), state, settled, failed))
        return found

    def ip_of_interface(self, entry: dict[str, Any]) -> str | None:
        """The private address of a member on a network interface, or None. Azure does not always show it in the pool."""
        configuration = ((entry.get("properties") or {}).get("networkInterfaceIPConfiguration") or {}).get("id")
        if not configuration or "/networkinterfaces/" not in configuration.lower() or "/virtualmachinescalesets/" in configuration.lower():
            return None
        if configuration not in self._ips:
            parts = check_id("networkInterfaceIPConfiguration", configuration, INTERFACE, "that of an IP configuration")
            self._ips[configuration] = None
            try:
                interface = self._client.get(parts["interface"], NETWORK_VERSION)
            except (NotFoundError, NotPermittedError) as error:
                # It may be another host's, which does not keep this one from its event.
                self.unread.append(str(error))
                return None
            for each in (interface.get("properties") or {}).get("ipConfigurations") or []:
                if each.get("name", "").lower() == parts["name"].lower():
                    self._ips[configuration] = (each.get("properties") or {}).get("privateIPAddress")
        return self._ips[configuration]

    def write(self, pool: str, body: dict[str, Any], name: str, state: str) -> str | None:
        """Give one address a state, and write back everything else as it was read. Returns the address of the operation, or None if Azure is done."""
        if self._dry:
            self._told[pool.lower(), name] = state
            return None
        changed = copy.deepcopy(body)
        for entry in changed["properties"]["loadBalancerBackendAddresses"]:
            if entry.get("name") == name:
                entry.setdefault("properties", {})
                if state == NOT_SET:
                    entry["properties"].pop("adminState", None)
                else:
                    entry["properties"]["adminState"] = state
        changed["properties"].pop("provisioningState", None)
        return self._client.put(pool, NETWORK_VERSION, changed, body["etag"])

    def follow(self, operation: str, pool: str, seconds: float) -> bool:
        """Whether Azure has ended the operation within so many seconds."""
        return self._client.follow(operation, pool, seconds)

    def balancer(self, balancer: str) -> dict[str, Any]:
        return self._client.get(balancer, NETWORK_VERSION)

    def tags(self, balancer: str) -> dict[str, str]:
        if balancer.lower() in self._tags:
            return self._tags[balancer.lower()]
        return self.balancer(balancer).get("tags") or {}

    def change_tags(self, balancer: str, operation: str, tags: dict[str, str]) -> None:
        """Merge or delete these tags and leave all others alone, also those that another host writes now."""
        if self._dry:
            now = dict(self.tags(balancer))
            for key, value in tags.items():
                now.pop(key, None)
                if operation == "Merge":
                    now[key] = value
            self._tags[balancer.lower()] = now
            return
        path = balancer + "/providers/Microsoft.Resources/tags/default"
        self._client.patch(path, TAGS_VERSION, {"operation": operation, "properties": {"tags": tags}})


def members_of(body: dict[str, Any]) -> list[Any]:
    """The addresses of a pool as Azure shows them."""
    return (body.get("properties") or {}).get("loadBalancerBackendAddresses") or []


def notice_of(balancer: dict[str, Any], pool: str) -> float:
    """After how many seconds the probes of a pool must have noticed that a member answers again; 0 if it has none. No C(probeThreshold) counts as 1."""
    wanted = {_id_of(rule.get("probe")) for rule in _rules_of(balancer, pool)}
    there = (balancer.get("properties") or {}).get("probes") or []
    probes = [probe.get("properties") or {} for probe in there if _id_of(probe) in wanted]
    # What answers just too late for one probe is seen by the next, and each may take as long as an interval.
    return max((float(probe.get("intervalInSeconds") or 0) * ((probe.get("probeThreshold") or 1) + 2) for probe in probes), default=0.0)


def ports_of(balancer: dict[str, Any], pool: str) -> list[int]:
    """To which ports of its members the load balancing rules of a pool send TCP connections. 0 stands for all ports."""
    return sorted({int(rule.get("backendPort") or 0) for rule in _rules_of(balancer, pool) if str(rule.get("protocol")).lower() != "udp"})


def _rules_of(balancer: dict[str, Any], pool: str) -> list[dict[str, Any]]:
    """What the load balancing rules that send to a pool say."""
    rules = [rule.get("properties") or {} for rule in (balancer.get("properties") or {}).get("loadBalancingRules") or []]
    return [rule for rule in rules if pool.lower() in _targets_of(rule)]


def ways_past(balancer: dict[str, Any], pool: str, members: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """How else a load balancer sends connections to members of a pool, each with the ports to which it does; 0 stands for all ports.

    What is not C(Down) in any of its pools and has the same IP address or network interface, and what no state keeps from anything: inbound NAT rules, and
    rules that have no probe. What has another IP address than all members is told, too, without C(of): a host may have several.
    """
    properties = balancer.get("properties") or {}
    pools = properties.get("backendAddressPools") or []
    known_by: dict[str, list[Any]] = {}
    for member in members:
        for text in _identity(member):
            known_by.setdefault(text, []).append(member.get("name"))

    def same_as(entries: Iterable[dict[str, Any]]) -> list[Any]:
        return list(dict.fromkeys(name for entry in entries for text in sorted(_identity(entry)) for name in known_by.get(text, ())))

    def reached(targets: set[str], down: bool = False) -> list[Any]:
        """The members to which what is sent to these pools comes. C(down): of other pools, only by what is C(Down) there: the rest is told as such."""
        others = [entry for other in pools if _id_of(other) in targets for entry in members_of(other)]
        there = same_as(entry for entry in others if not down or (entry.get("properties") or {}).get("adminState") == DOWN)
        return list(dict.fromkeys([*([member.get("name") for member in members] if pool.lower() in targets else []), *there]))

    rules: dict[str, set[int]] = {}
    found: list[dict[str, Any]] = []
    for rule in properties.get("loadBalancingRules") or []:
        of_rule = rule.get("properties") or {}
        port = int(of_rule.get("backendPort") or 0)
        targets = _targets_of(of_rule)
        for target in targets:
            rules.setdefault(target, set()).add(port)
        if not _id_of(of_rule.get("probe")):
            way = {"pool": None, "name": None, "rule": rule.get("name"), "ports": [port], "probed": False}
            found += [dict(way, of=name) for name in reached(targets, down=True)]
    for other in pools:
        there = members_of(other)
        ports = rules.get(_id_of(other), set())
        is_own = _id_of(other) == pool.lower()
        for entry in there if ports else ():
            name, of_entry = entry.get("name"), entry.get("properties") or {}
            if of_entry.get("adminState") == DOWN:
                continue
            same = [member for member in same_as([entry]) if not (is_own and member == name)]
            way = {"pool": other["id"], "name": name, "ip_address": of_entry.get("ipAddress"), "rule": None, "ports": sorted(ports)}
            found += [dict(way, of=member) for member in same] or ([dict(way, of=None)] if way["ip_address"] else [])
    for rule in properties.get("inboundNatRules") or []:
        of_rule = rule.get("properties") or {}
        way = {"pool": None, "name": None, "rule": rule.get("name"), "ports": [int(of_rule.get("backendPort") or 0)]}
        interface = _interface(_id_of(of_rule.get("backendIPConfiguration")))
        names = [*reached({_id_of(of_rule.get("backendAddressPool"))} - {""}), *known_by.get(interface, ())]
        found += [dict(way, of=name) for name in dict.fromkeys(names)]
    return found


def _targets_of(rule: dict[str, Any]) -> set[str]:
    """The ids of the pools of a load balancing rule."""
    return {_id_of(target) for target in [rule.get("backendAddressPool"), *(rule.get("backendAddressPools") or [])]}


def _id_of(reference: dict[str, Any] | None) -> str:
    return str((reference or {}).get("id") or "").lower()


def _interface(configuration: str) -> str:
    """The network interface of an IP configuration."""
    return configuration.partition("/ipconfigurations/")[0]


def _identity(entry: dict[str, Any]) -> set[str]:
    """What a member is known by in every pool: its IP address, and its network interface."""
    properties = entry.get("properties") or {}
    interface = _interface(_id_of(properties.get("networkInterfaceIPConfiguration")))
    return {text for text in (called(properties.get("ipAddress")), interface) if text}


class TagStore:
    """The records as tags of the load balancers. Each tag's value has at most 256 characters, so a record may need several."""

    def __init__(self, pools: Pools) -> None:
        self._pools = pools

    @contextlib.contextmanager
    def locked(self, create: bool = False) -> Iterator[bool]:
        # The ETag takes the place of a lock: there is no lock that all controllers know.
        yield True

    def read(self, pool: str, name: str) -> Record | None:
        return record_in(self._pools.tags(balancer_of(pool)), pool, name)

    def records(self, pool: str, tags: dict[str, str] | None = None) -> list[Record]:
        """All records about addresses in a pool, each with the place where it lies. C(tags): those of its load balancer, if it was read already."""
        if tags is None:
            tags = self._pools.tags(balancer_of(pool))
        found = []
        for name in _named_in(tags, pool):
            record = record_in(tags, pool, name)
            if record is not None:
                found.append(dict(record, path="the tags %s* of %s" % (key_of(pool, name), balancer_of(pool))))
        return found

    def replace(self, record: Record | None, wanted: Record | None) -> None:
        if same_content(record, wanted):
            return
        known = wanted or record
        if known is None:
            raise AssertionError("otherwise both have the same content")
        subject = known["subject"]
        pool, name = subject["pool"], subject["address"]
        balancer, key = balancer_of(pool), key_of(pool, name)
        now = self._pools.tags(balancer)
        if wanted is None:
            # Only what was read is deleted. If another run has added an event meanwhile, its record stays.
            if key + "0" in now and _content_at(now, key, balancer) == json.loads(json.dumps(_content_of(known))):
                self._pools.change_tags(balancer, "Delete", {each: value for each, value in now.items() if each.startswith(key)})
            return
        wanted = _joined(record, wanted, record_in(now, pool, name))
        tags = tags_of(wanted, key)
        if len(set(now) | set(tags)) > TAG_LIMIT:
            raise HoldError(
                "The load balancer %s has %d tags. The record of this hold needs %d more, and Azure allows %d. Nothing was changed. Remove tags that are no "
                "longer needed." % (balancer, len(now), len(set(tags) - set(now)), TAG_LIMIT)
            )
        self._pools.change_tags(balancer, "Merge", tags)


def _named_in(tags: dict[str, str], pool: str, ip: str | None = None) -> list[str]:
    """The names of the addresses in a pool that have records, or that have records about this IP address."""
    names: list[str] = []
    for key in tags:
        if not key.startswith(PREFIX) or not key.endswith("-0"):
            continue
        content = _content_at(tags, key[:-1], balancer_of(pool))
        if content.get("p", "").lower() == last_part(pool).lower() and (ip is None or called(ip) == called(content.get("i"))):
            names.append(content.get("a", ""))
    return names


def _joined(read: Record | None, wanted: Record, now: Record | None) -> Record:
    """What is to be written: the wanted record, with what another run has done to its events since it was read."""
    known, there = ({} if record is None else json.loads(json.dumps(_content_of(record))) for record in (read, now))
    if known == there:
        return wanted
    subject = wanted["subject"]
    events: Events = {}
    if now is not None and RESTORING not in (wanted["phase"], now["phase"]):
        before = read["events"] if read else {}
        events = {key: entry for key, entry in now["events"].items() if key in wanted["events"] or key not in before}
        events.update((key, entry) for key, entry in wanted["events"].items() if key not in before)
    if not events:
        raise ChangedError("Another run has changed the hold on %s in %s meanwhile. The next call continues." % (subject["address"], subject["pool"]))
    return dict(wanted, events=events)


def balancer_of(pool: str) -> str:
    return check_id("pool", pool, POOL, POOL_EXAMPLE)["balancer"]


def key_of(pool: str, name: str) -> str:
    """What the names of a record's tags begin with. It has only characters that Azure allows there."""
    identity = json.dumps([pool.lower(), name])
    return "%s%s-" % (PREFIX, hashlib.sha256(identity.encode()).hexdigest()[:12])


def _content_of(record: Record) -> dict[str, Any]:
    return {
        "v": 1,
        "p": last_part(record["subject"]["pool"]),
        "a": record["subject"]["address"],
        "i": record.get("ip"),
        "s": record["phase"],
        "f": record["found"]["admin_state"],
        "e": {event_id: [entry["since"], entry["reason"][:REASON_LIMIT], entry.get("details") or {}] for event_id, entry in record["events"].items()},
    }


def tags_of(record: Record, key: str) -> dict[str, str]:
    """The tags of a record, by name. Tags have little room, so the record is compressed."""
    text = base64.b64encode(zlib.compress(json.dumps(_content_of(record), separators=(",", ":")).encode(), 9)).decode()
    room = VALUE_LIMIT - 12
    pieces = [text[start : start + room] for start in range(0, len(text), room)]
    # Only the first says how many there are. Tags of a longer record from before are left over and count no more.
    pieces[0] = "%d:%s:%s" % (len(pieces), _digest(text), pieces[0])
    return {"%s%d" % (key, number): piece for number, piece in enumerate(pieces)}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def record_in(tags: dict[str, str], pool: str, name: str) -> Record | None:
    """The record of this address in a load balancer's tags, or None."""
    key = key_of(pool, name)
    if key + "0" not in tags:
        return None
    content = _content_at(tags, key, balancer_of(pool))
    events = {event_id: {"since": since, "reason": reason, "details": details} for event_id, (since, reason, details) in content["e"].items()}
    record = new_record(AZURE_ADDRESS, {"pool": pool, "address": name}, {"admin_state": content["f"]}, {"admin_state": DOWN}, events, ip=content["i"])
    return dict(record, phase=content["s"])


def _content_at(tags: dict[str, str], key: str, balancer: str) -> dict[str, Any]:
    try:
        count, digest, text = tags[key + "0"].split(":", 2)
        text += "".join(tags["%s%d" % (key, number)] for number in range(1, int(count)))
        content: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(text)).decode())
        if _digest(text) == digest and content["s"] in PHASES and content["v"] == 1 and isinstance(content["f"], str) and isinstance(content["e"], dict):
            return content
    except (ValueError, KeyError, TypeError, zlib.error):
        pass
    raise HoldError(
        "The tags %s* of the load balancer %s are damaged: they are not a record of a hold as this release writes it. Nothing was touched because of them. "
        "Delete them, and see to the administrative state of the address by hand." % (key, balancer)
    )


class PoolAddresses(Driver[Address]):
    """One host's addresses, one in each pool. ``name`` or ``ip`` says which."""

    Refused = AzureRefusedError

    def __init__(
        self,
        pools: Pools,
        store: TagStore,
        request: Request,
        ids: list[str],
        name: str | None = None,
        ip: str | None = None,
        seconds: float = 0.0,
        min_in_service: int | str | None = None,
    ) -> None:
        self._pools = pools
        self._store = store
        self._request = request
        self._ids = ids
        self._name = name
        self._ip = ip
        self._seconds = seconds
        self._min_in_service = min_in_service
        # The pools that were read a second time because the release would forget a hold.
        self._seen_twice: set[str] = set()

    def check(self) -> None:
        for pool in self._ids:
            balancer_of(pool)

    def look(self) -> list[tuple[str, Address | None, Record | None]]:
        found = []
        # Pools of several load balancers may bear one name.
        unique = len({last_part(each).lower() for each in self._ids}) == len(self._ids)
        for pool in self._ids:
            short = last_part(pool)
            things = self._look_at(pool)
            if any(self._would_drop(record, address) for _name, address, record in things) and pool not in self._seen_twice:
                # One answer may be older than what was written before, or show a pool that somebody writes just now.
                self._seen_twice.add(pool)
                self._pools.sleep(max(0.0, min(AGAIN_SECONDS, self._pools.left)))
                things = self._look_at(pool)
            found += [("%s %s" % (short if unique else pool, name), address, record) for name, address, record in things]
        return found

    def _look_at(self, pool: str) -> list[tuple[str, Address | None, Record | None]]:
        return self.things_in(pool, self._pools.read(pool), self._pools.tags(balancer_of(pool)))

    def things_in(self, pool: str, body: dict[str, Any], tags: dict[str, str]) -> list[tuple[str, Address | None, Record | None]]:
        """The host's address in a pool, and what a release is to forget: the records of names that its IP address had before, and that are gone.

        C(body), C(tags): what was read of the pool, and of its load balancer.
        """
        address = self._find(pool, body)
        recorded: list[str] = []
        if self._name is None and (address is None or not self._request.present):
            names = {each.name for each in self._pools.addresses(pool, body)}
            try:
                recorded = [name for name in _named_in(tags, pool, self._ip) if name not in names]
            except HoldError:
                # A damaged record of another host keeps no address from coming back.
                if address is None:
                    raise
        if address:
            name: str | None = address.name
        else:
            name = self._name or (recorded[0] if len(recorded) == 1 else None)
        things = [] if name is None else [(name, address, record_in(tags, pool, name))]
        if not self._request.present:
            former = [(each, None, record_in(tags, pool, each)) for each in recorded if each != name]
            things += [thing for thing in former if thing[2] is not None and self._request.taken_from(thing[2]["events"]) != thing[2]["events"]]
        if not any(thing[1:] != (None, None) for thing in things):
            raise AzureError(self._not_there(pool, body))
        return things

    def _would_drop(self, record: Record | None, address: Address | None) -> bool:
        """Whether the release ends with nothing to give back, and forgets the hold."""
        return record is not None and not self._request.present and (address is None or self.condition(record, address) == CHANGED_MEANWHILE)

    def condition(self, record: Record | None, seen: Address) -> str:
        """What became of a hold.

        none               is not held, and nobody took it out
        already_out        was Down before we came: it is somebody else's, and not touched
        changing           is to be set to Down, or Azure is doing it
        held               is Down, as we left it
        restoring          is to be given back, or Azure is doing it
        changed_meanwhile  somebody else set it to another state
        """
        if record is None:
            return ALREADY_OUT if seen.state == DOWN else NONE
        found = record["found"]["admin_state"]
        if record["phase"] == RESTORING:
            if _is_state(seen.state, found):
                return NONE if seen.settled else GOING_BACK
            return GOING_BACK if seen.state == DOWN else CHANGED_MEANWHILE
        if seen.state == DOWN:
            return AS_LEFT if record["phase"] == HELD or seen.settled else UNDER_WAY
        return UNDER_WAY if record["phase"] == CHANGING and _is_state(seen.state, found) else CHANGED_MEANWHILE

    view_of_none = {"admin_state": None}

    def view(self, record: Record | None, seen: Address) -> dict[str, Any]:
        return {"admin_state": seen.state}

    def describe(self, hold: Hold[Address]) -> dict[str, Any]:
        return {
            "pool": self._pool(hold),
            "name": hold.there.name if hold.there else self._subject(hold)["address"],
            "admin_state": hold.there.state if hold.there else None,
            "found": hold.shown["found"] if hold.shown else None,
            "held_by": holders(hold.record),
            "condition": CHANGED_MEANWHILE if hold.conflict else self.condition(hold.record, hold.there) if hold.there else NONE,
        }

    def shortages(self, holds: list[Hold[Address]]) -> list[str]:
        leaving = [hold.there for hold in holds if hold.there and hold.condition in (NONE, UNDER_WAY) and hold.there.state != DOWN]
        short = (self._short(seen.pool, seen.name, self._pools.read(seen.pool)) for seen in leaving)
        return [told for told in short if told]

    def _short(self, pool: str, name: str, body: dict[str, Any]) -> str | None:
        """A sentence if too few addresses would stay in service. One that is being given back gets nothing before Azure has finished."""
        if self._min_in_service is None:
            return None
        returning = {record["subject"]["address"] for record in self._store.records(pool) if record["phase"] == RESTORING}
        members = [
            {"server": each.name, "in_service": each.state != DOWN and each.name not in returning, "backup": False}
            for each in self._pools.addresses(pool, body)
        ]
        short = shortage(self._min_in_service, name, members, "pool " + last_part(pool))
        return stays(name, short) if short else None

    def untouched(self, hold: Hold[Address]) -> bool:
        # Azure may refuse what is asked of it after it has taken the change, such as the status of the operation. Only the record then says whose it is.
        return self._request.present and not hold.acted and hold.seen.state != DOWN

    def put(self, hold: Hold[Address], events: Events) -> Iterator[Record | None]:
        record, seen = hold.record, hold.seen
        condition = self.condition(record, seen)
        if condition == ALREADY_OUT:
            return
        if record is not None and condition == CHANGED_MEANWHILE:
            hold.tell(self.conflict(hold))
            yield dict(record, events=events)
            return
        if record is None:
            subject = {"pool": seen.pool, "address": seen.name}
            record = new_record(AZURE_ADDRESS, subject, {"admin_state": seen.state}, {"admin_state": DOWN}, events, ip=seen.ip or self._ip)
        else:
            record = dict(record, events=events, phase=CHANGING if record["phase"] == RESTORING else record["phase"])
        before = hold.record
        yield record
        if record["phase"] == CHANGING:
            if not self._change(hold, record, DOWN):
                return
            record = dict(record, phase=HELD)
            yield record
        if not same_content(before, record):
            self._note_other_run(hold, record)

    def give_back(self, hold: Hold[Address], record: Record) -> Iterator[Record | None]:
        seen = hold.seen
        condition = self.condition(record, seen)
        if condition == CHANGED_MEANWHILE:
            hold.tell(self.conflict(hold))
            yield None
            return
        found = record["found"]["admin_state"]
        if _is_state(seen.state, found) and seen.settled:
            # Nothing was changed yet, or everything is back.
            yield None
            return
        record = dict(record, phase=RESTORING)
        yield record
        if self._change(hold, record, found):
            yield None

    def gone(self, hold: Hold[Address]) -> str | None:
        subject = self._subject(hold)
        return "%s is not in the pool %s any more: there is nothing to give back." % (subject["address"], subject["pool"])

    def stuck(self) -> Exception:
        return AzureError("The addresses were changed again and again while this ran. Does another program change them?")

    def _change(self, hold: Hold[Address], record: Record, state: str) -> bool:
        """Write the pool. Returns whether the address has this state and Azure is done."""
        pool, name = record["subject"]["pool"], record["subject"]["address"]
        written, pause = 0, PAUSE
        while True:
            body = self._pools.read(pool)
            # The record is read after the pool, whose ETag is then the older one. If either is changed from now on, Azure refuses the write.
            if self._note_other_run(hold, record):
                return False
            address = next((each for each in self._pools.addresses(pool, body) if each.name == name), None)
            if address is None or not _is_state(address.state, hold.seen.state) and not _is_state(address.state, state):
                # Somebody acted since it was looked at. The next look judges.
                hold.look_again = True
                return False
            hold.seen = address
            # A change that failed may show the state that was wanted all the same. Only another write mends that.
            if _is_state(address.state, state) and not address.failed:
                if not address.settled:
                    hold.waiting_for = _still_changing(pool)
                return address.settled
            # Another run may have taken out another address since, and Azure takes this write only if nobody has changed what was read here.
            short = self._short(pool, name, body) if state == DOWN and not written else None
            if short:
                hold.waiting_for = short
                return False
            if written == WRITES:
                shown = "the provisioning state of a change that failed" if address.failed else address.state
                raise AzureError("Azure accepted the change of %s in %s to %s, and shows %s all the same." % (name, pool, state, shown))
            try:
                # Azure may keep a state that a write leaves out. None means the same, and says so.
                operation = self._pools.write(pool, body, name, "None" if written and state == NOT_SET else state)
            except ChangedError:
                # Two controllers that were refused together do not come again together.
                wait = pause * (0.5 + random.random())
                if self._pools.left <= wait:
                    raise
                self._pools.sleep(wait)
                pause = min(pause * 2, PAUSE_MOST)
                continue
            hold.acted = True
            written += 1
            if operation is not None and not self._pools.follow(operation, pool, self._seconds):
                hold.waiting_for = _still_changing(pool)
                hold.seen = address._replace(state=state, settled=False)
                return False
            # What counts is what Azure shows now.

    def _note_other_run(self, hold: Hold[Address], record: Record) -> bool:
        """Note whether another run has written the record at the same time. Nothing locks it."""
        pool, name = record["subject"]["pool"], record["subject"]["address"]
        read = self._store.read(pool, name)
        if read is not None and (read["phase"], read["found"], set(read["events"])) == (record["phase"], record["found"], set(record["events"])):
            return False
        hold.waiting_for = "another run changes the hold on %s in %s" % (name, pool)
        return True

    def _find(self, pool: str, body: dict[str, Any]) -> Address | None:
        addresses = self._pools.addresses(pool, body)
        if self._name is not None:
            found = [each for each in addresses if called(each.name) == called(self._name)]
        else:
            found = [each for each in addresses if called(each.ip) == called(self._ip)]
            if not found:
                # One that shows its IP address is not asked for it, and none is asked after the host's own is found.
                names = (each.get("name") for each in members_of(body) if called(self._pools.ip_of_interface(each)) == called(self._ip))
                first = next(names, None)
                found = [each for each in addresses if each.name == first]
        if len(found) > 1:
            listed = ", ".join(each.name for each in found)
            raise AzureError("%s is in the pool %s %d times (%s). Name one of them in address." % (self._ip, pool, len(found), listed))
        return found[0] if found else None

    def _not_there(self, pool: str, body: dict[str, Any]) -> str:
        names = ", ".join(str(each.name) for each in self._pools.addresses(pool, body)) or "none"
        unread = "".join(" A member may be it whose network interface cannot be read: %s" % each for each in self._pools.unread[:3])
        what = "named %s" % self._name if self._name is not None else "with the IP address %s" % self._ip
        return "The pool %s has no address %s. Its addresses are: %s. Check the option address or ip_address.%s" % (
            pool,
            what,
            names[:1000],
            unread,
        )

    def _pool(self, hold: Hold[Address]) -> str:
        return hold.there.pool if hold.there else str(self._subject(hold)["pool"])

    @staticmethod
    def _subject(hold: Hold[Address]) -> dict[str, Any]:
        """What an address that is gone was: it has a record, or it would be an error."""
        if hold.shown is None:
            raise AssertionError
        subject: dict[str, Any] = hold.shown["subject"]
        return subject

    def conflict(self, hold: Hold[Address]) -> str:
        return "somebody else set %s in %s to %s: it was left as it is" % (hold.seen.name, hold.seen.pool, hold.seen.state)


def _still_changing(pool: str) -> str:
    return "Azure is still changing %s" % pool


def _is_state(one: str, other: str) -> bool:
    """Azure may show a state that is not set as None."""
    return one == other or {one, other} == {NOT_SET, "None"}
