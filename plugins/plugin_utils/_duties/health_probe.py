# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A balancer that decides by the host's own health answer. Pure.

The machine that is looked at and changed is the host itself. Its records lie there, too, so the look at the host reads them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ansible_collections.graceful.azure.plugins.module_utils._conditions import ALREADY_OUT, FAILING, LOST, NONE, UNDER_WAY
from ansible_collections.graceful.azure.plugins.module_utils._duties.both_sides.health_probe import (
    NEEDS,
    ONCE,
    OPTIONS,
    STOPPED,
    acted_on,
    health_answer,
    is_wrong,
    may_send,
    not_passing,
    notice_of,
    option_mistakes,
    passes_at_url,
    probed_url,
    seen_out,
    why_stuck,
    why_wrong,
)
from ansible_collections.graceful.azure.plugins.module_utils._duties.options import SERVICE_NAME
from ansible_collections.graceful.azure.plugins.module_utils._minimum import asks_for_none
from ansible_collections.graceful.azure.plugins.module_utils._pools import Pool
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import HEALTH_PROBE, may_have_passed
from ansible_collections.graceful.azure.plugins.module_utils._spellings import LOOPBACK, fold, listed, normal_address
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.traffic import CONDITIONS, TWO_WAYS, TrafficDuty, notices_in
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.addresses import Addresses
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import NOT_LOOKED_AT, MachineObservation, Machines, Record
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import (
    CHANGED,
    HELD,
    MAINTENANCE,
    NOBODY,
    Count,
    Group,
    NextLook,
    Place,
    SearchedAt,
    Traffic,
    unread,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.verdicts import Kind
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.results import (
    UNREACHABLE,
    RoleResult,
    gathered,
    is_failed,
    is_unreachable,
    role_result,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._text import is_url, joined
from ansible_collections.graceful.azure.plugins.plugin_utils._types import BalancerSettings, Json, Options, Result, StepJson

if TYPE_CHECKING:
    from ansible_collections.graceful.azure.plugins.plugin_utils._planning.hosts import Host


ITSELF = ("localhost", *LOOPBACK, "0.0.0.0", "::")
"""Where the host reaches itself. At another loopback address, somebody else may answer at the same port."""
RECENT = 5.0
"""Seconds: what was closed so short a time before a look may have come after the look before."""


def place_name(settings: BalancerSettings) -> str:
    return f"the health answer ({settings['on']})"


ITS_NAME = "<the host's name>"
"""What stands for the name of a host where pools are compared."""
Pooled = tuple[tuple[str, str], ...]
"""What tells a pool: pairs of an option and its value."""


def _key(settings: BalancerSettings) -> str:
    """The inventory name of the host, and what is looked at there."""
    return f"{settings['host']} {HEALTH_PROBE}-{str(settings['on']).replace(' ', '_')}"


class HealthProbeDuty(TrafficDuty):
    name = HEALTH_PROBE
    kind = HEALTH_PROBE
    module = "health_probe_hold"
    things = "health answer"
    nouns = {HEALTH_PROBE: "health answer"}
    needs_ports = "the balancer does not tell what it still sends, so connections are counted on the host"
    title = "the balancer"
    once = ONCE
    still_out = "still fails"
    options = OPTIONS
    own_mistakes = staticmethod(option_mistakes)
    sees_pool = False
    answers_checks = True
    may_forget = True

    def settings(self, options: Options, host: str) -> BalancerSettings:
        action = options["action"]
        given = {name: options[name] for name in (*NEEDS.get(action, ()), *(("file_means",) if action == "file" else ())) if name != "responder_url"}
        return {
            "host": host,
            "name": str(options.get("name") or HEALTH_PROBE),
            "action": action,
            "pool": str(options["pool"] or ""),
            "given": given,
            "on": acted_on(options),
            "url": probed_url(options),
            "peer": [address.strip() for address in options["peer"]],
            "untouched_port": options["responder_untouched_port"],
            "notice": notice_of(options),
            "ports": [],
        }

    def with_ports(self, settings: BalancerSettings, ports: Iterable[int]) -> BalancerSettings:
        return dict(settings, ports=list(ports))

    def mistakes(self, options: Options) -> Iterator[tuple[str, str]]:
        action = options.get("action")
        yield from super().mistakes(options)
        unit = options.get("service") or ""
        if unit and not SERVICE_NAME.match(unit):
            yield "service", f"{unit!r} is not the name of a service"
        port, untouched = options.get("responder_port"), options.get("responder_untouched_port")
        if untouched and untouched == port:
            yield (
                "responder_untouched_port",
                f"{untouched} is responder_port, too; give another port, because the answer on that one fails while the host is held",
            )
        for name in ("url", "responder_url"):
            if options.get(name) and not is_url(options[name]):
                yield name, f"{options[name]!r} is not like http://localhost:8080/health"
        if any(number and _is_at(options.get("responder_url"), number) for number in (port, untouched)):
            yield "responder_url", "the responder itself answers there; give the address of the application's own health"
        if untouched and _is_at(options.get("url"), untouched):
            yield (
                "url",
                f"{options['url']!r} is the untouched answer, which passes while the host is held; give the address that the balancer probes",
            )
        if action == "file" and options.get("file_means") == "in" and not options.get("url"):
            yield (
                "url",
                "not set; with file_means: in, a wrong path would look like an operator's maintenance, so the answer itself must be asked",
            )

    def beside(
        self,
        settings: BalancerSettings,
        ports: Sequence[int] | None = None,
        asked: Options | None = None,
        timeout: float | None = None,
    ) -> Iterator[tuple[str, str]]:
        yield from super().beside(settings, ports, asked, timeout)
        if ports and settings["action"] == "responder" and settings["given"]["responder_port"] in ports:
            yield "ports", "the responder's own port is among them; probes come there for ever"
        if ports and settings["untouched_port"] in ports:
            yield (
                "ports",
                f"{settings['untouched_port']} is responder_untouched_port; whoever asks for health there would keep the host busy for ever. Give only the"
                " ports on which the application serves",
            )
        if timeout is not None and timeout <= settings["notice"]:
            yield (
                "drain_timeout",
                f"{timeout:g} s, but the balancer notices only after {settings['notice']:g} s (interval x threshold + margin of health_probe), so the host"
                " would never count as drained in time; set it to more than that, and to as much more as connections may last",
            )
        asked = asked or {}
        url = asked.get("url")
        if url and _is_made_to_fail(url, settings):
            yield (
                "health_url",
                f"{url!r} is the health answer that is made to fail; it cannot pass while the host is held, so the host would never come back. Give another"
                " address that tells whether the application works",
            )

        port = asked.get("port")
        if port and settings["action"] in STOPPED and settings["url"] and _address(settings["url"])[:2] == _at(asked.get("host"), port):
            yield (
                "health_port",
                f"{port} is the port of {settings['on']} (url of health_probe), which is stopped while the host is held, so the host would never come back."
                " Give another port that tells whether the application works",
            )

    def asks_before(self, settings: BalancerSettings) -> bool:
        return bool(settings["url"])

    def sharers(self, settings: BalancerSettings) -> str:
        return f"the pool {settings['pool']}" if settings["pool"] else "those that share its requests"

    def noticed_after(self, settings: BalancerSettings) -> float:
        return float(settings["notice"])

    def judge(self, settings: BalancerSettings, direction: str, acts: Sequence[Result]) -> RoleResult:
        act = acts[0] if acts else {}
        out = direction == "out"
        answers = act.get("answers") or ()
        failed = is_unreachable(act) or is_failed(act) or not acts
        waits = list(act.get("waiting_for") or ())
        passing = out and any(answer["state"] != FAILING for answer in answers)
        if is_unreachable(act):
            trouble = [UNREACHABLE]
        elif failed:
            trouble = [str(act.get("msg") or "the host was not asked")]
        else:
            trouble = [*waits, *gathered(acts, "conflicts")]
        done = not failed and not waits and not passing and (bool(answers) or not out)
        return role_result(done, joined(trouble) or _state(answers, out), acts, [settings["host"]] if failed else [])

    def traffic_of_all(self, asked: Sequence[tuple[Host, BalancerSettings]], machines: Machines, addresses: Addresses) -> Iterator[Traffic]:
        pools = _pools(asked)
        groups = _groups(asked, pools, machines)
        apart = dict(_apart(asked, pools))
        shared = dict(_shared_files(asked, machines))
        for (host, settings), pool in zip(asked, pools):
            doubts = tuple(filter(None, [apart.get(settings["host"])]))
            traffic = _traffic(settings, host, machines, groups.get(pool))
            yield replace(traffic, doubts=doubts, mistakes=(*traffic.mistakes, *filter(None, [shared.get(settings["host"])])))

    def records(self, settings: BalancerSettings, machines: Machines) -> Iterable[tuple[Record, MachineObservation]]:
        # The look at the host has read those on its disk.
        machine = machines[_key(settings)]
        found = zip(machine.records or (), machine.result.get("holds") or ())
        return [(record, machine) for record, told in found if told.get("from_mark")]

    def looks(self, settings: Sequence[tuple[str, BalancerSettings]], waits: Mapping[str, float], searched: SearchedAt) -> Iterator[NextLook]:
        for name, values in settings:
            options = {
                "action": values["action"],
                **values["given"],
                "notice": values["notice"],
                "url": values["url"],
                "ports": values["ports"],
                "peer": values["peer"],
            }
            wait_for = [name] if name in waits else []
            yield NextLook(_key(values), values["host"], "health_probe_info", options, wait_for, waits.get(name, 0.0))

    def read(self, result: Json, options: Options) -> Json:
        problem = result.get("problem") or result.get("state_dir_problem")
        return dict(result, fatal=problem, answer=None) if problem else result

    def acts(self, settings: BalancerSettings, direction: str, hold: Options, step: StepJson) -> Iterator[tuple[str, str, Options]]:
        # The records know what was changed, also if the settings are others by now. Only a file can tell it where the record is gone.
        options = dict(settings["given"], action=settings["action"]) if direction == "out" or settings["action"] in ("file", "responder") else {}
        if direction == "out" and settings["url"]:
            options["url"] = settings["url"]
        yield settings["host"], self.module, dict(options, **hold)

    def spots(self, settings: BalancerSettings) -> Iterator[tuple[str, str]]:
        # The records tell what was made to fail, and all of it passes again together.
        yield settings["host"], "its health answer"

    def shown(self, record: Json) -> dict[str, str]:
        return {"held": f"{HEALTH_PROBE} {record['subject']['action']} {record['subject']['on']}", "socket": "none"}


def _state(answers: Sequence[Json], out: bool) -> str:
    if not answers:
        return "no health answer is held"
    said = [f"{answer['told']}" for answer in answers]
    held = any(answer["held_by"] for answer in answers)
    if out and not held:
        return f"the health answer fails already ({'; '.join(said)})"
    return f"the health answer is {'held' if held else 'not held'} ({'; '.join(said)})"


def _address(url: Any) -> tuple[str, Any, str, str]:
    """The host, port and path of a URL, in a form in which they can be compared."""
    parts = urlsplit(str(url))
    return (*_at(parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)), parts.path or "/", parts.query)


def _at(host: Any, port: Any) -> tuple[str, Any]:
    host = str(host or "localhost").lower()
    host = normal_address(host) or host
    return "localhost" if host in ITSELF else host, port


def _is_made_to_fail(url: Any, settings: BalancerSettings) -> bool:
    """Whether the answer at this URL cannot pass while the host is held, as far as the settings tell."""
    if not is_url(url):
        return False
    if settings["action"] == "responder" and _is_at(url, settings["given"]["responder_port"]):
        return True
    if not settings["url"] or not is_url(settings["url"]):
        return False
    # The responder answers 503 on every path, and a unit or a site that is stopped answers on none.
    parts = 2 if settings["action"] in ("responder", *STOPPED) else None
    return _address(url)[:parts] == _address(settings["url"])[:parts]


def _is_at(url: Any, port: Any) -> bool:
    return bool(url) and is_url(url) and _address(url)[:2] == ("localhost", port)


def _traffic(settings: BalancerSettings, host: Host, machines: Machines, group: Group | None) -> Traffic:
    machine = machines[_key(settings)]
    result = machine.result
    if result.get("answer") is None:
        why = unread(place_name(settings), result)
        if why.kind is Kind.UNREAD and not host.observation.reached:
            # The host is silent, or about to be. That is told of the host, and nothing can be done at its health answer.
            place = Place(place_name(settings), settings["host"], in_rotation=True, busy=(why.text,), group=group, member=settings["server"], health=NOBODY)
            return Traffic((place,), serves=False)
        return Traffic(serves=False, unread=(why,))
    seen_out_since = _seen_out_since(host, result)
    if seen_out_since is not None:
        machine = replace(machine, result=_as_seen(result, seen_out_since, settings))
    place = replace(_place(settings, machine, group), seen_out_since=seen_out_since)
    return Traffic((place,), serves=result["answer"]["state"] != FAILING)


def _seen_out_since(host: Host, look: Result) -> float | None:
    """Since when the passes have seen that somebody else makes the answer fail, by the controller's clock. None: nobody does."""
    at: float | None = look.get("at")
    if look["answer"]["condition"] != ALREADY_OUT or at is None:
        return None
    # It may have passed since a boot.
    known = host.memory.seen_out_since if host.memory.boot_id == host.observation.boot_id else None
    return at if known is None else min(known, at)


def _as_seen(look: Result, since: float, settings: BalancerSettings) -> Json:
    """The look, with the time for which the answer has failed as all passes have seen it. Where nothing else tells it, each look counts from itself."""
    failing_for = max(look["answer"]["failing_for"] or 0.0, look["at"] - since)
    left = max(0.0, float(settings["notice"]) - failing_for)
    return {**look, "answer": {**look["answer"], "failing_for": failing_for}, "notice_left": left}


def _shared_files(asked: Sequence[tuple[Host, BalancerSettings]], machines: Machines) -> Iterator[tuple[str, str]]:
    """Pairs of a host and a sentence: another one has the same health file, such as on a share. Who is held is given back all the same."""
    sharers: dict[str, list[BalancerSettings]] = {}
    held = set()
    for _host, settings in asked:
        look = machines[_key(settings)].result
        known = look.get("file_id")  # other actions and Windows hosts have none
        if known and look.get("answer"):
            sharers.setdefault(known, []).append(settings)
            held.update([known] if look["answer"]["held_by"] else [])
    for known, sharing in sharers.items():
        for settings in sharing if len(sharing) > 1 and known not in held else ():
            others = listed([other["host"] for other in sharing if other is not settings])
            yield (
                settings["host"],
                f"{settings['host']} and {others} have the same health file ({settings['on']}): they are one machine, or share it over a network. While it"
                " keeps one of them out, the answers of all fail. Give each a file of its own",
            )


def _pools(asked: Sequence[tuple[Host, BalancerSettings]]) -> list[Pooled]:
    """For each host what tells its pool. A host whose settings are like nobody's may have its own name in them."""
    written = [_written_pool(settings) for _host, settings in asked]
    alike = Counter(written)
    return [
        tuple((option, _unnamed(value, (settings["host"], host.resource_name))) for option, value in key) if alike[key] < 2 <= len(alike) else key
        for key, (host, settings) in zip(written, asked)
    ]


def _written_pool(settings: BalancerSettings) -> Pooled:
    """What the hosts of one balancer have in common, as far as settings tell: pairs of an option and its value."""
    if settings["pool"]:
        return (("pool", settings["pool"]),)
    _name, port, path, query = _address(settings["url"] or "")
    return (
        ("name", settings.get("name", HEALTH_PROBE)),
        ("action", settings["action"]),
        *((option, str(value)) for option, value in sorted(settings["given"].items())),
        ("interval x threshold + margin", f"{settings['notice']:g}"),
        ("graceful_azure_ports", ", ".join(map(str, settings["ports"]))),
        ("port of url", str(port)),
        ("path of url", f"{path}?{query}" if query else path),
    )


def _unnamed(text: str, names: Iterable[str | None]) -> str:
    """The text without the names of its host, long or short, where they stand as words of their own."""
    words = {word.lower() for name in names if name for word in (name, name.partition(".")[0])}
    there = sorted((re.escape(word) for word in words if word in text.lower()), key=len, reverse=True)
    return re.sub(rf"(?<![A-Za-z0-9])(?:{'|'.join(there)})(?![A-Za-z0-9])", ITS_NAME, text, flags=re.IGNORECASE) if there else text


def _apart(asked: Sequence[tuple[Host, BalancerSettings]], pools: Sequence[Pooled]) -> Iterator[tuple[str, str]]:
    """Pairs of a host and a sentence: its settings make it a pool of its own, although there are other duties of the same name."""
    by_name: dict[str, dict[Pooled, list[Host]]] = {}
    for (host, settings), pool in zip(asked, pools):
        by_name.setdefault(settings.get("name", HEALTH_PROBE), {}).setdefault(pool, []).append(host)
    for found in (found for found in by_name.values() if len(found) > 1):
        single = {pool: hosts[0] for pool, hosts in found.items() if len(hosts) == 1 and "pool" not in dict(pool)}
        # The settings may have a name that the host has not told yet. Without a minimum, it does not matter.
        alone = [(pool, host) for pool, host in single.items() if host.resource_name and not asks_for_none(host.settings.min_in_service)]
        if not alone:
            continue
        mine, host = alone[0]
        theirs = next((pool for pool in found if pool != mine), mine)
        so_do = f", and so {'does' if len(alone) == 2 else 'do'} {listed([each.name for _pool, each in alone[1:]])}" if alone[1:] else ""
        yield (
            host.name,
            f"it counts as a pool of its own for graceful_azure_min_in_service{so_do}, because the duties health_probe are not alike"
            f" ({_difference(dict(mine), dict(theirs), found[theirs][0].name)}). So the minimum does not keep it in service. Set the option pool in each of"
            " these duties: the same where one balancer probes them, another where not",
        )


def _difference(mine: Mapping[str, str], theirs: Mapping[str, str], name: str) -> str:
    """What another host has set otherwise. C(name): that host's."""
    options = ("pool",) if "pool" in theirs else dict.fromkeys((*mine, *theirs))
    told = ((option, mine.get(option) or "not set", theirs.get(option) or "not set") for option in options)
    return "; ".join(f"{option}: {here}, on {name}: {there}" for option, here, there in told if here != there)


def pools_cut(targets: Iterable[str], others: Iterable[str], duties_of: Callable[[str], Any]) -> list[str]:
    """Sentences: hosts that seem to be behind the probe of a target, and are no targets. Nobody looks at these, so nobody counts them.

    C(others): the other hosts of the inventory. C(duties_of): C(graceful_azure_duties) of a host, in which templates are not resolved.
    """
    members: dict[str, list[str]] = {}
    for name in sorted(targets):
        for entry in _as_written(duties_of(name), name):
            members.setdefault(entry, []).append(name)
    left: dict[str, list[str]] = {}
    for name in sorted(others) if members else ():
        for entry in set(members).intersection(_as_written(duties_of(name), name)):
            left.setdefault(entry, []).append(name)
    told = (
        f"{listed(members[entry])}: {listed(names)} {'has' if len(names) == 1 else 'have'} the same duty health_probe and no place in the target. So this run"
        " cannot see how many hosts of the pool are in service, and another run may take out another one at the same time. Give all of them as target (with"
        " a watcher: event_watcher_target)"
        for entry, names in sorted(left.items())
    )
    return list(dict.fromkeys(told))


def _as_written(duties: Any, host: str) -> set[str]:
    """Those of this type as they are written, and without the host's own name, as texts to compare."""
    entries = duties if isinstance(duties, (list, tuple)) else ()
    found = [entry for entry in entries if isinstance(entry, dict) and entry.get("type") == HEALTH_PROBE]
    texts = [f"pool {entry['pool']}" if entry.get("pool") else repr(sorted(map(str, entry.items()))) for entry in found]
    return {*texts, *(_unnamed(text, [host]) for text in texts)}


def _groups(asked: Sequence[tuple[Host, BalancerSettings]], pools: Sequence[Pooled], machines: Machines) -> dict[Pooled, Group]:
    """The targets that are one pool. None for a host alone: others may be behind its balancer, but none that waiting would bring back."""
    members: dict[Pooled, list[tuple[Host, BalancerSettings]]] = {}
    for one, pool in zip(asked, pools):
        members.setdefault(pool, []).append(one)
    return {
        pool: Group(
            tuple(f"{option} {value}" for option, value in pool), _pool_name(*pool[0]), tuple(_server(host, settings, machines) for host, settings in found)
        )
        for pool, found in members.items()
        if len(found) > 1
    }


def _pool_name(option: str, value: str) -> str:
    return f"the pool {value}" if option == "pool" else f"the pool of the duty {value}"


def _server(host: Host, settings: BalancerSettings, machines: Machines) -> Json:
    """A host in its group. C(silent): why its balancer may send it nothing, although nobody keeps it out. C(early): whether that may be over in a moment.
    C(joins_in): after how many seconds it is, where that is known."""
    result = machines[_key(settings)].result
    name, silent, left, joins_in = settings["server"], None, _joins_in(host, settings, result), None
    if result.get("answer") is None:
        silent = unread(name, result).text
    elif not _passes(result):
        said = (result.get("probe") or {}).get("said")
        silent = f"{name}: {said}" if said and result["answer"]["state"] != FAILING else None
    elif left > 0:
        silent, joins_in = f"{name}: the balancer notices within {math.ceil(left)} s that it passes", left
    early = result is NOT_LOOKED_AT.result or result.get("answer") is not None and _passes(result) and silent is not None
    in_service = silent is None and _passes(result)
    return {"server": name, "in_service": in_service, "backup": False, "silent": silent, "early": early, "joins_in": joins_in}


def _joins_in(host: Host, settings: BalancerSettings, look: Result) -> float:
    """Seconds after which the balancer must have noticed that a host answers again. Where another run has seen it come back, the host itself tells that."""
    known = look.get("passing_for")
    # None: it fails, or was not looked at.
    return notices_in(host, look, float(settings["notice"]), math.inf if known is None else float(known))


def _passes(look: Result) -> bool:
    """Whether the probe gets a good answer, as far as is known."""
    return look["answer"]["state"] != FAILING and passes_at_url(look) is not False


def _place(settings: BalancerSettings, machine: MachineObservation, group: Group | None) -> Place:
    result = machine.result
    answer, label, url = result["answer"], place_name(settings), settings["url"]
    condition = CONDITIONS[answer["condition"]]
    in_rotation = may_send(result)
    new = bool(result.get("new_connections"))
    count = out_since = None
    if not in_rotation:
        # What came since the look before is not counted by anybody, but what was closed a moment before this look tells of it.
        recent = result["closed_ago"] < result["quiet_for"] + RECENT
        process = f"came before {result['clock']}" if new or recent else "nothing came"
        count = Count(process, result["clock"], 0, result["quiet_for"], result.get("at"))
        failing_for, at = answer["failing_for"], result.get("at")
        out_since = None if failing_for is None or at is None else at - max(0.0, failing_for - float(settings["notice"]))
    return Place(
        name=label,
        machine=settings["host"],
        in_rotation=in_rotation,
        noticing=bool(result["notice_left"]),
        out_since=out_since,
        state=MAINTENANCE if answer["condition"] == ALREADY_OUT else answer["state"],
        serves=_passes(result),
        may_serve=answer["state"] != FAILING,
        busy=health_answer(label, result, url),
        booting=health_answer(label, result, url, may_boot=True),
        count=count,
        seen=machine.looked_at,
        looks=machine.looks(proves=bool(machine.waited_for) and result["idle"]),
        condition=condition,
        held_by=frozenset(map(fold, answer["held_by"])),
        must_go_out=_must_go_out(result, condition),
        passes=answer["condition"] == NONE and passes_at_url(result) is True,
        untold=not_passing(result) or "",
        wrong=why_stuck(result, url),
        by_others=seen_out(label, result, url),
        still_out=f"{label} is still to be put back; {why_wrong(result, url)}" if is_wrong(result) else "",
        group=group,
        member=settings["server"],
        # What its probe sees is known of the targets alone.
        health=NOBODY,
        # The connections of those who only check are no requests.
        pools=tuple(map(Pool, settings["peer"])),
        # The balancer probes it: it gets nothing before its answer passes.
        checked=settings["action"] != "command",
        conflict=f"somebody else let {label} pass again: left as it is. {_way_on(settings)}" if condition == CHANGED else "",
    )


def _way_on(settings: BalancerSettings) -> str:
    """What a person can do where somebody else let the answer pass."""
    if settings["action"] not in ("file", "responder"):
        return TWO_WAYS
    # A file that a person makes would be that person's own, and nothing would remove it after the event.
    return (
        f"Release it with graceful.azure.holds -e target={settings['host']} -e holds_release=true. A run then takes the host out again while an event names it"
    )


def _must_go_out(look: Result, condition: str) -> bool:
    """Whether the role load_balancer has something to do, whoever holds it."""
    if condition == CHANGED:
        return False
    answer = look["answer"]
    # If its release has begun, if the host was booted anew, if the run that made it fail was cut off or if it passes only since, the record must be
    # written again.
    passes_since = not may_have_passed(answer.get("found")) and passes_at_url(look) is True
    is_old = condition == HELD and (answer["restoring"] or not answer["noted"] or passes_since)
    return answer["condition"] in (NONE, LOST, UNDER_WAY) or is_old
