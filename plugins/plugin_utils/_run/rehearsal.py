# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A rehearsal: an event that is made up, on one host after the other. What may be rehearsed, and the table at the end. Private to the collection; pure."""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.graceful.azure.plugins.module_utils._events import DEFAULT_API_VERSION, EVENT_TYPES
from ansible_collections.graceful.azure.plugins.module_utils._minimum import asks_for_none
from ansible_collections.graceful.azure.plugins.module_utils._spellings import listed
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import TRAFFIC
from ansible_collections.graceful.azure.plugins.plugin_utils._options import read_options
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import read_document
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.events import REHEARSAL, RULE_OF_REHEARSAL
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.hosts import Host
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.judgement import LET_IT_ANSWER
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.minimum import below_minimum
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.observation import observe
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.status import DRAINED
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.turns import machine_looks, without
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.events import RESERVE
from ansible_collections.graceful.azure.plugins.plugin_utils._text import clock, columns, duration, joined
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json, Options, Specs, Turn, Variables

OPTIONS: Specs = {
    "rehearse_event_type": {"type": "str", "choices": list(EVENT_TYPES), "default": "Reboot"},
    "rehearse_notice": {"type": "float", "default": 900.0},
}
SET_HERE = ("graceful_azure_imds_url", "graceful_azure_rules", "graceful_azure_approve_through")
"""Variables of hosts that mean something else in a rehearsal."""
RULES = [{"name": RULE_OF_REHEARSAL, "action": "prepare_and_approve"}]
LEAST_NOTICE = 30.0
WITHIN_DRAIN = 60.0
"""Seconds beyond the time for draining after which a host is given back."""
MARGIN = 60.0
"""Seconds between the end of that and the moment from which the minimum in service would no longer count."""
WAIT_MORE = 30.0
"""Seconds beyond the time in which a balancer must have noticed that others are back, in which a host waits for those if they fail once more."""
POOL_EVERY = 10.0
"""Seconds between two looks at the others of a pool that no balancer tells, while a host is out."""
WHEN_OTHERS_SERVE = "run it again when enough others are in service"
NOTICES = (LEAST_NOTICE, 600.0, 900.0)
STAGES = ("out", "drained", "approved", "back")
REQUESTS = "requests to its backends"
"""A column that is there if anybody tells it of any host."""
HEAD = ("host", *STAGES, REQUESTS, "notices that are too short")
NO_FIGURE = "-"


def read(values: Variables, extra: Collection[str]) -> tuple[Options, list[str]]:
    """The options, and every mistake as a sentence. C(extra): the names of all extra variables, which are stronger than any other."""
    mistakes: list[str] = []
    options, wrong = read_options(values, OPTIONS, str, mistakes)
    if "rehearse_notice" not in wrong and options["rehearse_notice"] < LEAST_NOTICE:
        mistakes.append(f"rehearse_notice: {options['rehearse_notice']:g} is less than the shortest notice of Azure, {LEAST_NOTICE:g} s")
    mistakes.extend(f"{name}: given as an extra variable; the rehearsal sets it itself, leave it out" for name in SET_HERE if name in extra)
    return options, mistakes


def times_of(options: Options, drain_timeout: float, restore_timeout: float) -> Json:
    """How long a host has until it is given back (C(timeout)), the notice of the event (C(notice)), how long giving it back may take (C(back)), and when the
    simulator ends if nobody has asked it meanwhile (C(end_unasked)) and in any case (C(end_after)).

    The event itself never comes: the minimum in service counts until shortly before it.
    """
    timeout = min(options["rehearse_notice"], drain_timeout + WITHIN_DRAIN)
    back = restore_timeout + MARGIN
    return {
        "timeout": timeout,
        "notice": timeout + drain_timeout + RESERVE + MARGIN,
        "back": back,
        # A task file of the user's own may take all of that time, in which no pass asks.
        "end_unasked": timeout + MARGIN,
        "end_after": timeout + 2 * back + MARGIN,
    }


def event(options: Options, begun: Json) -> Json:
    """The event, as the simulator takes it. C(begun): what C(times_of) returned for the host, with its C(resource_name)."""
    return {
        "EventType": options["rehearse_event_type"],
        "Resources": [begun["resource_name"]],
        "Description": REHEARSAL,
        "NoticeSeconds": begun["notice"],
        "ImpactSeconds": 0,
        "SettleSeconds": 0,
    }


def if_interrupted(name: str, target: str) -> str:
    """What a person must know before a host goes out. C(target): that of the rehearsal.

    An interrupted run can tell it no more. Ansible sends SIGINT to its workers, which end at once, and calls no method of a callback; an action's own handler
    would have a second at most, and what it shows is lost as soon as the main process has stopped to read from its workers.
    """
    return f"{name}: goes out of duty now. If you interrupt this rehearsal, have graceful.azure.handle_events -e target={shlex.quote(target)} give it back"


def unreached(real: Json) -> str:
    """A sentence if a host cannot be reached; otherwise empty. C(real): the result of M(graceful.azure.scheduled_events_info)."""
    return f"it cannot be reached: {real.get('msg')}; run it again when it can, or leave it out of the target" if real.get("unreachable") else ""


def standing(real: Json) -> str:
    """A sentence if the metadata service of a host shows an event; otherwise empty. C(real): as above."""
    events = [f"{event['event_type']} {event['event_id']} ({', '.join(event['resources'] or ())})" for event in real.get("events") or ()]
    return f"its metadata service shows {', '.join(events)}: rehearse when no event stands" if events else ""


def held(looks: Iterable[Json]) -> str:
    """A sentence if a duty of a host is held; otherwise empty. C(looks): results of M(graceful.azure.duty_info)."""
    found = sorted({event for look in looks for each in look.get("duties") or () for event in each["held_by"]})
    return f"it is held for {', '.join(found)}: have graceful.azure.handle_events give it back, or see graceful.azure.holds" if found else ""


def unread(looks: Iterable[Json]) -> str:
    """A sentence if a machine could not be looked at; otherwise empty. C(looks): as above, each with the machine as C(item)."""
    found = [f"{look['item']}: {look.get('msg') or 'no answer'}" for look in looks if "duties" not in look]
    return f"its duties could not be looked at ({joined(found)}): run it again when these machines answer" if found else ""


def unproven(looks: Iterable[Json]) -> str:
    """A sentence if a duty that is on could not be taken off, or nobody could tell that it is; otherwise empty. C(looks): as above."""
    found = [
        f"{each['name']} on {look['item']}: {each['problem']}"
        for look in looks
        for each in look.get("duties") or ()
        if each["state"] == "in" and each["problem"]
    ]
    return joined(dict.fromkeys(found))


def unanswered(answer: Json) -> str:
    """A sentence if a host would not go back; otherwise empty. C(answer): what it answered to what it is asked before that."""
    if answer.get("answered", True):
        return ""
    return f"it does not answer what it is asked before it goes back on duty ({answer['reason']}), so it would stay out; {LET_IT_ANSWER}"


def counted(looks: Mapping[str, Json]) -> dict[str, list[Any]]:
    """How many requests the balancers of a host have had for all of its backends, per look with the process that counts. Only HAProxy tells it."""
    found = {}
    for key, look in looks.items():
        servers = [server for server in look.get("servers") or () if "total_sessions" in server]
        if look.get("reached") and servers:
            found[key] = [look.get("process"), sum(server["total_sessions"] for server in servers)]
    return found


def requests(before: Mapping[str, Sequence[Any]], after: Mapping[str, Sequence[Any]]) -> int | None:
    """How many came in between. None if nobody tells it, or if a process that counts was replaced."""
    if not before or any(key not in after or after[key][0] != process for key, (process, _total) in before.items()):
        return None
    return sum(int(after[key][1] - total) for key, (_process, total) in before.items())


def reached(name: str, story: Json, announced: float) -> Json:
    """After how many seconds a host was out, drained, approved and back. C(story): see C(_story/story.py). None for what it did not come to."""
    host = story["hosts"][name]
    spans = host["out"]
    since = [state["from"] for state in host["states"] if state["state"] in DRAINED]
    approvals = [event["approved"] for event in story["events"].values() if event["approved"] is not None]
    moments = {
        "out": spans[0]["from"] if spans else None,
        "drained": min(since) if since else None,
        "approved": min(approvals) if approvals else None,
        "back": spans[-1]["until"] if spans and approvals else None,
    }
    return {stage: None if at is None else max(0.0, at - announced) for stage, at in moments.items()}


def unseen_return(name: str, state: str | None, found: Json) -> Iterator[str]:
    """A line if no pass has seen that the host was back, since the last steps of a run that ends are followed by none. C(state): that of the last pass.
    C(found): what the table gets."""
    if found["times"]["back"] is not None and state != "restored" and not found["differences"]:
        yield f"{name}: back on duty. Its time was over before a pass could say so"


def differences(before: Iterable[Json], after: Iterable[Json]) -> Iterator[str]:
    """What was not as it was found, a sentence each. C(before), C(after): looks as above."""
    found, now = (
        {(look["item"], each["type"], each["name"]): each for look in looks for each in look.get("duties") or ()} for looks in (list(before), list(after))
    )
    for (machine, kind, name), each in found.items():
        called = f"{name if name == kind else f'{kind} {name}'} on {machine}"
        other = now.get((machine, kind, name))
        if other is None:
            yield f"{called}: could not be looked at afterwards"
            continue
        if other["state"] != each["state"] or other["serves"] != each["serves"]:
            yield f"{called}: found {_words(each)}, now {_words(other)}"
        if other["held_by"]:
            yield f"{called}: still held"
        yield from (f"{called}: {why}" for why in other["why"] if why not in each["why"])


def _words(each: Json) -> str:
    serves = {True: ", serving", False: ", not serving"}.get(each["serves"], "")
    return f"{each['state']}{serves}"


def service_line(name: str, real: Json) -> str:
    """What is known of the real service of a host."""
    if real.get("failed") or real.get("unreachable") or "events" not in real:
        return f"{name}: its metadata service could not be read: {real.get('msg') or 'no answer'}"
    called = f", this VM is {real['resource_name']}" if real.get("resource_name") else ""
    return f"{name}: its metadata service answers (version {DEFAULT_API_VERSION}{called}, document {real['document_incarnation']}), no event stands"


def preview_lines(name: str, looks: Iterable[Json], options: Options, settings: Json) -> Iterator[str]:
    """What a rehearsal would do with a host. C(settings): those of a run."""
    found = [(f"{each['name']} on {look['item']}", each) for look in looks for each in look.get("duties") or ()]
    duties = [f"{called} ({each['problem'] or f'now {_words(each)}'})" for called, each in found]
    event = f"a {options['rehearse_event_type']}"
    yield f"{name}: {event} would take it off {', '.join(duties) or 'no duty'}, drain it, approve the event at a simulator, and put it back"
    minimum, sharers = settings["min_in_service"], [TRAFFIC[each["provider"]].sharers(each) for each in settings["load_balancers"]]
    among = " and ".join(dict.fromkeys(filter(None, sharers)))
    if among and not asks_for_none(minimum):
        yield f"{name}: it goes out only if {minimum} of {among} would stay in service (graceful_azure_min_in_service)"


def table(hosts: Mapping[str, Json], options: Options) -> Iterator[str]:
    """The closing table. C(hosts): per host what C(ActionModule) of C(rehearse) left: C(times), C(requests), C(problem), C(differences), C(real)."""
    rows = [HEAD, *(_row(name, found) for name, found in hosts.items() if "times" in found)]
    told = [column for column, head in enumerate(HEAD) if head != REQUESTS or any(row[column] != NO_FIGURE for row in rows[1:])]
    yield f"{options['rehearse_event_type']} rehearsed. Seconds after its announcement:"
    yield from columns([[row[column] for column in told] for row in rows])
    for name, found in hosts.items():
        yield service_line(name, found["real"])
    for name, found in hosts.items():
        if found.get("problem"):
            yield f"{name}: {found['problem']}"
        yield from (f"{name}: not as found: {each}" for each in found.get("differences") or ())
    if hosts and all("times" in found and not found.get("differences") for found in hosts.values()):
        yield "Everything is as it was found."


def _row(name: str, found: Json) -> tuple[str, ...]:
    times = found["times"]
    figures = [NO_FIGURE if times[stage] is None else f"{times[stage]:.1f}" for stage in STAGES]
    came = NO_FIGURE if found["requests"] is None else str(found["requests"])
    return (name, *figures, came, _too_late(times["drained"]))


def _too_late(drained: float | None) -> str:
    """For which usual notices the host would not be drained in time."""
    if drained is None:
        return "all: it was not drained"
    late = [duration(notice) for notice in NOTICES if drained > notice]
    return ", ".join(late) if late else "none"


def unnoticed(name: str, hosts: Mapping[str, Json], now: float) -> tuple[float, list[str]]:
    """How many seconds a host must wait until the balancers must have noticed that those before it are back, and the line that says so.

    C(hosts): as above, each with C(noticed_at). Before that, its balancer may send nothing to them.
    """
    left = {other: found["noticed_at"] - now for other, found in hosts.items() if (found.get("noticed_at") or 0.0) > now}
    if not left:
        return 0.0, []
    last = max(left, key=lambda other: left[other])
    return left[last], [f"{name}: waits {math.ceil(left[last])} s, until the balancer must have noticed that {last} is back"]


def pool_turns(name: str, plan: Json) -> list[Turn]:
    """The looks at a host and at the other targets of its pools, where its balancers do not tell which of them serve.

    C(plan): what the check of the settings returned, and in C(told) per target its C(resource_name), and in C(unanswered) why it does not answer, if it was
    asked.
    """
    hosts = _met(plan, {}, plan["run"]["started"])
    pools = {place.group.key for place in hosts[name].places if place.group and not place.balancer[0].sees_pool}
    members = [(host.name, place.balancer[1]) for host in hosts.values() for place in host.places if place.group and place.group.key in pools]
    looks = machine_looks(members)
    return [*looks, *({"name": look["name"], "machine": look["machine"], "farewell": True} for look in looks if look["machine"] != name)]


def too_few(name: str, plan: Json, looks: Mapping[str, Json], now: float, held: bool = False) -> str:
    """A sentence if too few others of its pools would serve without a host; otherwise empty. C(looks): what C(pool_turns) have returned, by key.
    C(held): whether it is out already."""
    hosts = _met(plan, looks, now)
    short = below_minimum(hosts[name], hosts, (), held) if looks else None
    # What is wrong with its own places, the passes tell.
    return joined([*(() if held else hosts[name].traffic.mistakes), *([short.text] if short else [])])


def coming_back(name: str, plan: Json, looks: Mapping[str, Json], now: float) -> tuple[float, list[str]]:
    """How many seconds a host must wait until enough others of its pools serve, and the line that says so. No time if waiting does not help. The arguments:
    as for C(too_few)."""
    noticed = {key: dict(look, passing_for=None) for key, look in looks.items()}
    if too_few(name, plan, noticed, now):
        return 0.0, []
    places = _met(plan, looks, now)[name].places
    joining = {server["server"]: server["joins_in"] for place in places if place.group for server in place.group.servers if server.get("joins_in")}
    joining.pop(name, None)
    seconds = max(joining.values(), default=0.0)
    if not joining:
        return 0.0, []
    names = f"{listed(list(joining))} {'is' if len(joining) == 1 else 'are'}"
    return seconds, [f"{name}: waits until {clock(now + seconds, now)}, when the balancer must have noticed that {names} back"]


def begin_in_pool(name: str, begun: Json, looks: Mapping[str, Json], now: float) -> tuple[Json, float, list[str]]:
    """What the phase C(pool) returns, the seconds that it waits before that, and lines. C(begun): what the phase before has returned. C(looks): as above."""
    short = too_few(name, begun, looks, now)
    if not short:
        return dict(begun, begins=True, again=False), 0.0, []
    seconds, lines = coming_back(name, begun, looks, now)
    until = begun.get("wait_until") or now + seconds + WAIT_MORE
    if not seconds or now + seconds > until:
        return {"begins": False, "rehearsed": {"real": begun["real"], "problem": f"not begun: {short}; {WHEN_OTHERS_SERVE}"}}, 0.0, []
    return dict(begun, begins=False, again=True, wait_until=until), seconds, lines


def watched(name: str, result: Json, begun: Json, now: float) -> tuple[Json, list[str]]:
    """What a pass of a rehearsal returned, and lines. While the host is out, the others of its pools must serve as they had to before: otherwise the passes
    end, and the host goes back. Its event is made up, so it need not stay out.

    C(begun): what the phase C(begin) returned.
    """
    decision, looks = result["hosts"][name], result["seen"]["balancers"]
    if result["finished"] or result.get("to_do") or not decision["events"] or decision["state"] not in ("draining", "ready", "needs_person"):
        return result, []
    others = [turn for turn in begun["turns"][name] if "key" in turn and turn["machine"] != name]
    mine = result["turns"][name]
    if any(turn["key"] not in looks or now - looks[turn["key"]]["at"] >= POOL_EVERY for turn in others):
        # A look at the host may wait, so they come after it.
        mine = [*mine, *others]
    short = too_few(name, begun, looks, now, held=True) if all(turn["key"] in looks for turn in others) else ""
    if short:
        hosts = {**result["hosts"], name: dict(decision, step=None)}
        why = f"put back before its approval: {short}; {WHEN_OTHERS_SERVE}"
        ended = {"finished": True, "hosts": hosts, "turns": {name: []}, "files": {}, "broken_off": why}
        return {**result, **ended}, [f"{name}: goes back on duty now: {short}"]
    if (decision["step"] or {}).get("role") == "approve_event" and any(looks.get(turn["key"], {}).get("rested", True) for turn in others):
        # It is approved in the next pass, if they still serve.
        mine = [*(without(turn, "acts") for turn in result["turns"][name] if "options" in turn), *others]
    return {**result, "turns": {name: mine}}, []


def _met(plan: Json, looks: Mapping[str, Json], now: float) -> dict[str, Host]:
    """All targets, as far as their settings and these looks tell. Places that nobody has looked at are there, too."""
    hosts = {name: plan["told"].get(name, {}) for name in plan["settings"]}
    return observe(read_document({"now": now, "pass": 0, "run": plan["run"], "settings": plan["settings"], "hosts": hosts, "balancers": looks})).hosts


def not_approved(decision: Json, times: Json, timeout: float) -> str:
    """Why a host did not come to its approval. C(decision): that of the last pass."""
    again = "; run it again when that is over" if decision["state"] == "waiting" else ""
    return f"not approved within {duration(timeout)}: {decision['reason']}{again}" if times["approved"] is None else ""
