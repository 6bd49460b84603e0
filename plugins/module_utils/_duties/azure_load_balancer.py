# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host's address in a backend pool of Azure Load Balancer. It is no duty of a machine: it is asked wherever Azure Resource Manager can be reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._azure_access import ACCESS, azure_argument_spec
from ansible_collections.graceful.azure.plugins.module_utils._azure_load_balancer import (
    PoolAddresses,
    Pools,
    TagStore,
    balancer_of,
    members_of,
    notice_of,
    ports_of,
    ways_past,
)
from ansible_collections.graceful.azure.plugins.module_utils._azure_resource_manager import AzureError, Client, TimeOverError
from ansible_collections.graceful.azure.plugins.module_utils._conditions import ALREADY_OUT, CHANGED_MEANWHILE, GOING_BACK, UNDER_WAY
from ansible_collections.graceful.azure.plugins.module_utils._duties.both_sides.azure_load_balancer import (
    OPTIONS,
    azure_address,
    not_counted,
    option_mistakes,
    way_past,
)
from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import IN, MOVING, OUT, Call, Duty, holding, least_of, outcome
from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Engine
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import HELD, HoldError, Request, hold_argument_spec, holders, is_noted, utc_now
from ansible_collections.graceful.azure.plugins.module_utils._polling import check_seconds
from ansible_collections.graceful.azure.plugins.module_utils._spellings import DOWN, called, in_rotation, last_part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._duties.duty import Act
    from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine

# Seconds that a look may take.
LOOK_LIMIT = 5.0
# Seconds that a step needs for its requests. No step begins later.
REQUESTS_SECONDS = 5.0


class AzureLoadBalancerDuty(Duty):
    type = "azure_load_balancer"
    traffic = True
    by_controller = True
    driver_errors = (AzureError,)
    # With the defaults of the client.
    options = dict(OPTIONS, **{name: spec for name, spec in azure_argument_spec().items() if name in ACCESS})
    own_mistakes = staticmethod(option_mistakes)

    @classmethod
    def mistakes(cls, name: str, options: dict[str, Any]) -> Iterator[tuple[str, str]]:
        if not (options.get("address") or options.get("ip_address")):
            yield "address", "not set; give this or ip_address: the name or the IP address that the host has in the pool"
        yield from super().mistakes(name, options)

    def look(self) -> dict[str, Any]:
        machine = self.machine
        pools = Pools(Client(self._access, LOOK_LIMIT, machine.monotonic, machine.sleep), dry=machine.check_mode)
        where = [self.given["pool"]], self.given["address"] or None, self.given["ip_address"] or None
        driver = PoolAddresses(pools, TagStore(pools), Request(True, []), *where)
        driver.check()
        pool = self.given["pool"]
        body, balancer = pools.read(pool), pools.balancer(balancer_of(pool))
        ((_name, address, record),) = driver.things_in(pool, body, balancer.get("tags") or {})
        if address is None:
            return self.unseen("The pool %s has no address %s any more." % (self._short, self._known_as))
        condition = driver.condition(record, address)
        settled = is_settled(address, record)
        is_moving = condition in (UNDER_WAY, GOING_BACK) or not settled
        place = "%s in pool %s" % (self._known_as, self._short)
        shown = {"pool": address.pool, "name": address.name, "ip_address": address.ip, "admin_state": address.state, "settled": settled}
        past, doubts = self._past(balancer, body, address.name)
        return self.seen(
            MOVING if is_moving else OUT if address.state == DOWN else IN,
            address.state != DOWN,
            busy=[*azure_address(place, shown), *past],
            held_by=holders(record),
            why={
                CHANGED_MEANWHILE: ["somebody else set %s to %s while it was held" % (place, address.state)],
                ALREADY_OUT: ["somebody else has %s in %s" % (place, DOWN)],
            }.get(condition, []),
            doubts=doubts,
            details=dict(shown, condition=condition, record=record, unread=pools.unread),
        )

    def _past(self, balancer: dict[str, Any], body: dict[str, Any], name: str) -> tuple[list[str], list[str]]:
        """What sends connections to the address whatever its state is, in sentences, and what may: where no ports are known, nobody knows which ones count."""
        pool, ports = self.given["pool"], set(self.machine.ports)
        ways = [way for way in ways_past(balancer, pool, members_of(body)) if way["of"] == name]
        sure = [way for way in ways if 0 in way["ports"] or not ports.isdisjoint(way["ports"])]
        others = sorted(set(ports_of(balancer, pool)) - {0, *ports}) if ports else []
        doubts = [way_past(pool, way)[1] for way in ways if not ports and way not in sure]
        return [way_past(pool, way)[1] for way in sure], [*doubts, *([not_counted(pool, others)] if others else [])]

    def change(self, act: Act) -> dict[str, Any]:
        params = dict(self._access, pools=[self.given["pool"]], min_in_service=act.min_in_service)
        engine = _change(params, self.machine, act.request, max(act.timeout, REQUESTS_SECONDS))
        up = act.request.present and any(hold.there is not None and hold.there.state != DOWN for hold in engine.current)
        return outcome(engine, still=[in_rotation("%s in pool %s" % (self._known_as, self._short))] if up else [])

    @property
    def _access(self) -> dict[str, Any]:
        return dict(dict.fromkeys(azure_argument_spec()), **self.given)

    @property
    def _known_as(self) -> str:
        return str(self.given["address"] or self.given["ip_address"])

    @property
    def _short(self) -> str:
        return last_part(self.given["pool"])


def hold_spec() -> dict[str, Any]:
    """The options of C(hold)."""
    return dict(
        hold_argument_spec(),
        **azure_argument_spec(),
        **AzureLoadBalancerDuty.spec("address", "ip_address"),
        # The records are tags. Other calls have a folder of records.
        state_dir={"type": "path"},
        pools={"type": "list", "elements": "str", "required": True},
        min_in_service={"type": "str"},
        timeout={"type": "float", "default": 60},
    )


def hold(params: Mapping[str, Any], machine: Machine, request: Request) -> dict[str, Any]:
    """Take an address out in several pools, or put it back."""
    timeout = check_seconds("timeout", params["timeout"])
    if not params["pools"]:
        raise ValueError("pools is an empty list: name at least one backend address pool.")
    engine = _change(params, machine, request, timeout)
    result = engine.result("addresses")
    return dict(result, refused=engine.refused, done=result["done"] and not engine.refused)


def _change(params: Mapping[str, Any], machine: Machine, request: Request, seconds: float) -> Engine[Any]:
    """C(params): the options of C(hold). C(seconds): for all of it."""
    pools = Pools(Client(params, seconds, machine.monotonic, machine.sleep), dry=machine.check_mode)
    store = TagStore(pools)
    where = params["pools"], params["address"] or None, params["ip_address"] or None
    driver = PoolAddresses(pools, store, request, *where, seconds, least_of(params))
    engine = Engine(driver, store, request, machine.monotonic, machine.sleep)
    engine.run(0.0 if machine.check_mode else max(seconds - REQUESTS_SECONDS, 0.0))
    return engine


def info_spec() -> dict[str, Any]:
    """The options of C(info)."""
    return dict(
        azure_argument_spec(),
        pools={"type": "list", "elements": "str", "required": True},
        servers={"type": "list", "elements": "str", "default": []},
        wait_for={"type": "list", "elements": "str", "default": []},
        quiet={"type": "float", "default": 0},
        timeout={"type": "float", "default": 60},
        state_dir={"type": "path"},
    )


def info(params: Mapping[str, Any]) -> dict[str, Any]:
    """A look at several pools. An error is told as C(problem)."""
    try:
        return _info(params)
    except (AzureError, HoldError, ValueError) as error:
        passing = isinstance(error, TimeOverError) or (getattr(error, "status", None) or 0) >= 500
        return {"changed": False, "addresses": None, "holds": None, "time": utc_now(), "problem": str(error), "passing": passing, "unread": []}


def _info(params: Mapping[str, Any]) -> dict[str, Any]:
    pools = Pools(Client(params, check_seconds("timeout", params["timeout"]) or LOOK_LIMIT))
    store = TagStore(pools)
    driver = PoolAddresses(pools, store, Request(True, []), params["pools"])
    driver.check()
    found: list[dict[str, Any]] = []
    holds: list[dict[str, Any]] = []
    past: list[dict[str, Any]] = []
    for pool in params["pools"]:
        body = pools.read(pool)
        balancer = pools.balancer(balancer_of(pool))
        records = {record["subject"]["address"]: record for record in store.records(pool, balancer.get("tags") or {})}
        notice, ports = notice_of(balancer, pool), ports_of(balancer, pool)
        addresses = _with_ips(pools, pools.addresses(pool, body), body, params["servers"])
        for address in addresses:
            record = records.get(address.name)
            found.append(
                {
                    "pool": pool,
                    "name": address.name,
                    "ip_address": address.ip or (record or {}).get("ip"),
                    "admin_state": address.state,
                    "settled": is_settled(address, record),
                    "found": record["found"] if record else None,
                    "held_by": holders(record),
                    "noted": is_noted(record),
                    "condition": driver.condition(record, address),
                    "notice": notice,
                    "ports": ports,
                }
            )
        past += [dict(way, at=pool) for way in ways_past(balancer, pool, members_of(body))]
        for name, record in sorted(records.items()):
            known = next((server for server in params["servers"] if called(server) in (called(name), called(record.get("ip")))), name)
            shown = {key: record[key] for key in ("kind", "subject", "found", "left", "events", "path")}
            holds.append(dict(shown, for_server=known))
    return {"changed": False, "addresses": found, "holds": holds, "past": past, "time": utc_now(), "problem": None, "passing": False, "unread": pools.unread}


def is_settled(address: Any, record: Any) -> bool:
    """Whether Azure has finished. Once the record says so, what goes on in the pool is about others."""
    return bool(address.settled or (address.failed if record is None else record["phase"] == HELD))


def _with_ips(pools: Pools, addresses: Iterable[Any], body: dict[str, Any], servers: Iterable[str]) -> list[Any]:
    """The addresses, and the IP addresses that only network interfaces know, as far as servers are not found without them."""
    entries = {entry.get("name"): entry for entry in members_of(body)}
    addresses = list(addresses)
    missing = set(map(called, servers)).difference(called(text) for address in addresses for text in (address.name, address.ip))
    found = []
    for address in addresses:
        if missing and not address.ip:
            address = address._replace(ip=pools.ip_of_interface(entries[address.name]))
            missing.discard(called(address.ip))
        found.append(address)
    return found


DUTIES: dict[str, type[Duty]] = {"azure_load_balancer": AzureLoadBalancerDuty}
ONE = [("address", "ip_address")]
CALLS: dict[str, Callable[[], Call]] = {
    "azure_load_balancer_hold": lambda: holding(hold_spec(), hold, AzureLoadBalancerDuty.driver_errors, required_one_of=ONE, mutually_exclusive=ONE),
    "azure_load_balancer_info": lambda: Call(info_spec(), lambda params, machine: info(params)),
}
