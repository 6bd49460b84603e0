# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the playbook holds shows and what it releases. Pure.

Three questions, in the order in which the playbook asks them: what does the user want (C(read_options)), where are the records
of a target (C(read_places)), and what follows from the looks there (C(decide)).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import APPROVED, NOTES, TASK
from ansible_collections.graceful.azure.plugins.module_utils._spellings import fold
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import TRAFFIC, settings_of, types
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.listed import DUTIES, written
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.traffic import TrafficDuty
from ansible_collections.graceful.azure.plugins.plugin_utils._former_variables import mistakes_in
from ansible_collections.graceful.azure.plugins.plugin_utils._options import check_boolean
from ansible_collections.graceful.azure.plugins.plugin_utils._options import read_options as read_entry
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import seconds
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.events import REHEARSAL, RULE_OF_REHEARSAL, label_of
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.turns import TRIES
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.verdicts import Kind, Reason, Verdict, no
from ansible_collections.graceful.azure.plugins.plugin_utils._settings import ADDRESS, name_in_azure, observe_timeout
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.results import too_slow
from ansible_collections.graceful.azure.plugins.plugin_utils._text import clock, legible, printable
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json, Variables

SWITCHES = ("release", "repair", "gone", "json")
VARIABLES = (
    ADDRESS,
    DUTIES,
)
"""What tells where a host's servers are held."""
NOTHING = "Nothing is released."
HOST = TrafficDuty()
"""Shows the records of a host itself."""
NOUNS = {kind: noun for duty in types().values() for kind, noun in duty.nouns.items()}
"""What the kinds of records are called, if they are not called by their own name."""
HELD_NOTES = [f"{TASK} {name}" for name in NOTES]
"""Records that say how far a run has come. Nothing was changed for them."""


class Options(NamedTuple):
    """What the user asked for. No list means all."""

    release: bool = False
    event_ids: list[str] | None = None
    gone: bool = False
    repair: bool = False
    servers: list[str] | None = None
    json: bool = False


OPTIONS = tuple(f"holds_{name}" for name in Options._fields)


class Target(NamedTuple):
    """A target, by the results of the looks at it: that at the host itself, and each at a balancer with its C(place)."""

    host: Json
    balancers: list[Json]


def read_options(values: Variables) -> tuple[Options | None, list[str]]:
    """The options, and every mistake as a sentence. C(values): the variables whose names begin with C(holds_)."""
    mistakes: list[str] = []
    unknown = [name for name in values if name not in OPTIONS]
    if unknown:
        mistakes.append(f"holds has no option {', '.join(unknown)}. It has {', '.join(OPTIONS)}")
    read: dict[str, Any] = {}
    for option in SWITCHES:
        read[option] = check_boolean(mistakes, f"holds_{option}", values.get(f"holds_{option}", False))
    for option, noun in (("event_ids", "event"), ("servers", "server")):
        name = f"holds_{option}"
        if name not in values:
            continue
        read[option] = _read_names(values[name])
        if read[option] is None:
            mistakes.append(f"{name}: {values[name]!r} is no list of names")
        elif not read[option]:
            mistakes.append(f"{name} is empty. Name at least one {noun}, or leave it out for all")
    return None if mistakes else Options(**read), [f"{mistake}. {NOTHING}" for mistake in mistakes]


def _read_names(value: Any) -> list[str] | None:
    """The names in a list, or in a text with commas between them; None where it is neither."""
    entries = value.split(",") if isinstance(value, str) else [] if value is None else value
    if not isinstance(entries, (list, tuple)) or not all(isinstance(entry, (str, int)) and not isinstance(entry, bool) for entry in entries):
        return None
    return [name for name in (str(entry).strip() for entry in entries) if name]


def read_places(name: str, variables: Variables, known_hosts: Container[str] | None = None) -> tuple[list[Json], list[str]]:
    """Where the records of a host are, and every mistake as a sentence. C(variables): those of C(VARIABLES) that are set.
    C(known_hosts): every inventory name, if it matters.

    There is one place for each look at a balancer, as a turn.
    """
    mistakes = mistakes_in(variables)
    entries = written(variables[DUTIES], mistakes) if variables.get(DUTIES) is not None else []
    places: list[Json] = []
    for entry, called in entries:
        provider = TRAFFIC.get(entry["type"]) if isinstance(entry, dict) and isinstance(entry.get("type"), str) else None
        if not provider or not provider.has_records_elsewhere:
            continue
        entry, _wrong = read_entry(entry, provider.options, called, mistakes)
        hosts = entry.get("hosts") or ()
        mistakes.extend(f"{called('hosts')}: {host!r} is not in the inventory" for host in hosts if known_hosts and host not in known_hosts)
        places.extend(_places_of(name, variables.get(ADDRESS), provider, entry))
    return places, [f"{name}: {mistake}" for mistake in mistakes]


def look_at_host(name: str, variables: Variables) -> tuple[Json, list[str]]:
    """The look at a host, as a turn, and every mistake as a sentence. C(variables): those that are set, among them of the look."""
    mistakes: list[str] = []
    given = {"resource_name": name_in_azure(variables), "timeout": observe_timeout(variables, mistakes)}
    options = {option: value for option, value in given.items() if value is not None}
    return {"name": name, "options": options, "tries": TRIES}, [f"{name}: {mistake}" for mistake in mistakes]


def _places_of(name: str, address: str | None, provider: TrafficDuty, entry: Json) -> list[Json]:
    """The places at one balancer. C(entry): it as in C(graceful_azure_duties)."""
    settings = settings_of(provider.name, entry, name, address)
    looks = provider.looks([(name, settings)], {}, lambda _host, _key: [])
    known = {"provider": provider.name, "server": settings["server"]}
    # A look that waits for nothing also ends in time if what it asks is silent.
    return [dict(known, machine=look.machine, key=look.key, module=look.module, options=dict(look.options, timeout=0.0), tries=TRIES) for look in looks]


def decide(
    options: Options,
    targets: dict[str, Target],
    left: bool,
    owners: Callable[[str], Collection[str]],
    doubts: Sequence[str],
) -> Json:
    """What is shown and released.

    C(targets): those in the play, by name. C(left): whether other targets have left the play, for which nobody looked.
    C(owners): a function from a balancer to the names of all servers there that belong to a host of the inventory.
    C(doubts): sentences about hosts of the inventory for which that is not known.
    """
    looks = _by_place(look for target in targets.values() for look in target.balancers)
    strays = _strays(looks, owners)
    wrong = _wrong_events(options, targets, looks, left) + _wrong_servers(options, looks, strays, doubts)
    released = options.release and not wrong
    hosts = {name: _of_host(name, target, released and options.servers is None, options) for name, target in targets.items()}
    if released and options.servers:
        # Whoever of the targets comes first acts for all: balancers are shared.
        next(iter(hosts.values()))["give_back"] = [
            _give_back(options, look["place"], record) for look, record in strays if _names(look, record)[0] in options.servers
        ]
    return {
        "mistakes": printable(wrong),
        "hosts": hosts,
        "strays": [
            dict(
                _of_balancer(look, record),
                balancer=f"{_machine(look)}, held for no host of the inventory",
                server=legible(_names(look, record)[0]),
                target=next(name for name, target in targets.items() if look["place"]["key"] in (each["place"]["key"] for each in target.balancers)),
            )
            for look, record in strays
        ],
        "unclaimed": _unclaimed(looks),
    }


def _by_place(looks: Iterable[Json]) -> dict[str, Json]:
    """Each look once, whichever targets share it; the one that the balancer answered, if there is one."""
    by_place: dict[str, Json] = {}
    for look in sorted(looks, key=lambda look: "holds" not in look):
        by_place.setdefault(look["place"]["key"], look)
    return by_place


def _holds(looks: Iterable[Json]) -> list[Json]:
    return [record for look in looks for record in look.get("holds") or ()]


def _provider(look: Json) -> TrafficDuty:
    return TRAFFIC[look["place"]["provider"]]


def _names(look: Json, record: Json) -> tuple[str, str]:
    """The server that a record holds, and the one for which it does."""
    return _provider(look).names(record)


def _give_back(options: Options, place: Json, record: Json) -> Json:
    """How a record is released: C(machine), C(module), its C(options), C(path)."""
    module, values = TRAFFIC[place["provider"]].give_back(record, place["options"])
    more = {"event_ids": options.event_ids, "state_dir": place["options"].get("state_dir")}
    values = {**values, **{key: value for key, value in more.items() if value}}
    return {"machine": place["machine"], "module": module, "options": values, "path": record["path"]}


def _strays(looks: dict[str, Json], owners: Callable[[str], Collection[str]]) -> list[tuple[Json, Json]]:
    """Each record for no host of the inventory, with the look that found it. Two looks may show the same."""
    strays: dict[tuple[str, str], tuple[Json, Json]] = {}
    for look in looks.values():
        machine = look["place"]["machine"]
        for record in look.get("holds") or ():
            if _names(look, record)[1] not in owners(machine):
                strays.setdefault((machine, record["path"]), (look, record))
    return list(strays.values())


def _unclaimed(looks: dict[str, Json]) -> list[Json]:
    """Records on the balancers that no look claims."""
    claimed = {(look["place"]["machine"], record["path"]) for look in looks.values() for record in _holds([look])}
    unclaimed = {}
    for look in looks.values():
        machine = look["place"]["machine"]
        for record in look.get("other_holds") or ():
            if (machine, record["path"]) not in claimed:
                note = f"It lies on {_machine(look)} and {_provider(look).unclaimed}"
                unclaimed[machine, record["path"]] = dict(_of_balancer(look, record), note=note)
    return list(unclaimed.values())


def _machine(look: Json) -> str:
    return str(printable(look["place"]["machine"]))


def _of_balancer(look: Json, record: Json) -> Json:
    """A record that a look at a balancer found, as a person reads it."""
    provider = _provider(look)
    changed = provider.changed(look, record)
    shown = _shown(record, provider, look["place"]["machine"])
    return dict(shown, changed=legible(dict(zip(("expected", "found"), changed)))) if changed else shown


def _shown(record: Json, provider: TrafficDuty, machine: str) -> Json:
    """A record as a person reads it. C(machine): where it lies."""
    shown: Json = legible(
        {
            **provider.shown(record),
            "machine": machine,
            "found": record["found"],
            "left": record["left"],
            "for_events": record["events"],
            "record": record["path"],
        }
    )
    return shown


def _may_release(name: str, target: Target, gone: bool) -> Verdict:
    """Whether what is held for a target may be released. C(gone): whether the user says that it is gone for good."""
    host = target.host
    if host.get("of_others"):
        return no(Reason(Kind.MISTAKE, f"{name}: {printable(host['fatal'])}. Nothing is released"))
    if host["reached"] or gone:
        return Verdict(True)
    if "cut_off" in host:
        return no(Reason(Kind.UNREAD, f"{too_slow(name, str(printable(host['error'])))}. {NOTHING}"))
    why = (
        f"{name} cannot be reached ({printable(host['error'])}): nothing is released. If it is gone for good,"
        " holds_gone: true gives back its servers on the balancers and leaves the host itself alone"
    )
    return no(Reason(Kind.UNREAD, why))


def _of_host(name: str, target: Target, released: bool, options: Options) -> Json:
    """What is shown of a target, and what is released for it."""
    held = [(look, record, *_names(look, record)) for look in target.balancers for record in look.get("holds") or ()]
    # First what is held under its name, then what was taken out with it.
    by_name = [(look, record) for look, record, holds, _owner in held if holds == look["place"]["server"]]
    led = [(look, record) for look, record, holds, owner in held if holds != look["place"]["server"] == owner]
    shown = [_shown(record, TRAFFIC.get(record["kind"], HOST), name) for record in target.host.get("holds") or ()] + [
        _of_balancer(look, record) for look, record in by_name + led
    ]
    unread = [
        {"label": label, "why": printable(look.get("fatal", look.get("error")))}
        for label, look in [(name, target.host), *((look["place"]["key"], look) for look in target.balancers)]
        if "fatal" in look or "error" in look
    ]
    known = target.host["reached"] and "fatal" not in target.host and not any("fatal" in look or "error" in look for look in target.balancers)
    release = _may_release(name, target, options.gone) if released else Verdict(False)
    return {
        "shown": shown,
        "still": _still_named(target.host, shown, options),
        **_before_release(target.host, shown),
        "nothing": known and not shown,
        "unread": unread,
        "refused": release.text,
        "release": "" if not release.holds else "everything" if target.host["reached"] else "servers",
        "give_back": [],
    }


def _wrong_events(options: Options, targets: dict[str, Target], looks: dict[str, Json], left: bool) -> list[str]:
    """A sentence where events are named for which nothing is held. A machine that cannot be read may have it, unless it is gone for good."""
    if not options.release or options.event_ids is None or left:
        return []
    balancers = [look for target in targets.values() for look in target.balancers]
    hosts = [target.host for target in targets.values()]
    if any("fatal" in look for look in hosts + balancers) or any(look.get("holds") is None for look in balancers):
        return []
    if not options.gone and not all(look["reached"] for look in hosts):
        return []
    records = _holds(hosts) + _holds(looks.values()) + [record for look in looks.values() for record in look.get("other_holds") or ()]
    held = {fold(event_id) for record in records for event_id in record["events"]}
    unknown = [event_id for event_id in options.event_ids if fold(event_id) not in held]
    return [f"holds_event_ids names {', '.join(unknown)}, for which nothing is held. {NOTHING}"] if unknown else []


def _wrong_servers(options: Options, looks: dict[str, Json], strays: Iterable[tuple[Json, Json]], doubts: Iterable[str]) -> list[str]:
    """Sentences about servers that are named and are not held, or are held for a host of the inventory."""
    if options.servers is None:
        return []
    ours = {_names(look, record)[0] for look, record in strays}
    held = {_names(look, record)[0] for look in looks.values() for record in _holds([look])}
    wrong = [f"{doubt}. It may own what holds_servers names. {NOTHING}" for doubt in doubts]
    for name in options.servers:
        if name not in ours:
            why = "it belongs to a host of the inventory, give that host as target" if name in held else "no record on the balancers of the targets names it"
            wrong.append(f"holds_servers names '{name}': {why}. {NOTHING}")
    return wrong


def _still_named(host: Json, shown: Iterable[Json], options: Options) -> list[str]:
    """The events that hold something, are to be released, and are still shown by the host's metadata service. C(shown): what is held."""
    labels = {
        fold(event_id): _label(event_id, told) for record in shown for event_id, told in record["for_events"].items() if _is_meant(event_id, options.event_ids)
    }
    standing = {fold(str(event["event_id"])) for event in host.get("events") or ()}
    return [label for event_id, label in labels.items() if event_id in standing]


def _before_release(host: Json, shown: Iterable[Json]) -> Json:
    """What to know about the events that hold something before anything is given back: sentences about those whose impact may come at any time (C(imminent))
    and those that are not shown (C(over)), and whether none is shown (C(is_over)). C(shown): what is held."""
    # An empty body tells of no event that it is over.
    events = None if host.get("empty_body") else host.get("events")
    started = {fold(str(event["event_id"])): event.get("event_status") == "Started" for event in events or ()}
    labels, approved = {}, set()
    for record in shown:
        for event_id, told in record["for_events"].items():
            labels[fold(event_id)] = _label(event_id, told)
            if record["held"] == f"{TASK} {APPROVED}":
                approved.add(fold(event_id))
    imminent, over = [], []
    for event_id, label in labels.items():
        if events is not None and event_id not in started:
            over.append(f"{label} is no longer shown by its metadata service.")
        elif started.get(event_id) or event_id in approved or events is None:
            why = "has started" if started.get(event_id) else "was approved" if event_id in approved else "may have started"
            imminent.append(f"{label} {why}: the impact may come at any time, so leave the host out.")
    return {"imminent": imminent, "over": over, "is_over": len(over) == len(labels)}


def lines(options: Options, decided: Json, command: str, run: str, now: float) -> Iterator[str]:
    """What people read: a line for each thing, and below it what to type. C(decided): see C(decide). C(command): how this playbook was called, without what
    it was asked for. C(run): the run of events that gives back whatever may go back. C(now): the controller's clock."""
    unread: set[tuple[str, str]] = set()  # balancers are shared
    for name, of_host in decided["hosts"].items():
        held = [record for record in of_host["shown"] if not _is_note(record)]
        for record in held:
            yield f"{name}: {_line(record, now)}"
            yield from _changed(record)
        yield from (f"{name}: {line}" for line in _notes(filter(_is_note, of_host["shown"]), now))
        release = f"{command} -e target={shlex.quote(name)} -e holds_release=true"
        changed = [record for record in held if "changed" in record]
        if changed:
            yield from _two_ways(name, changed, release)
        if of_host["nothing"]:
            yield f"Nothing is held for {name}."
        silent = {(machine["label"], machine["why"]) for machine in of_host["unread"]} - unread
        yield from (f"{label} could not be read: {why}" for label, why in sorted(silent))
        if silent:
            yield "    What is held there is not known. Run it again."
        unread |= silent
        if not options.release and held and not changed:
            yield from (f"    {sentence}" for sentence in of_host["imminent"] + of_host["over"])
            what = "give it back" if of_host["is_over"] else "go on with the event, and give it back when that is over"
            yield f"    To {what}, run: {run}"
            when = "Only if you know that the impact is over" if of_host["imminent"] else "To give it back now, whatever the event does"
            yield f"    {when}, stop what starts runs, then: {release}"
    for record in decided["strays"]:
        yield f"No host of the inventory: {_line(record, now)}"
        if not options.release:
            server = shlex.quote(record["server"])
            yield f"    To give it back: {command} -e target={shlex.quote(record['target'])} -e holds_release=true -e holds_servers={server}"
    for record in decided["unclaimed"]:
        yield f"Not looked at: {_line(record, now)}"
        yield f"    {record['note']} The record: {record['record']}"


def _line(record: Json, now: float) -> str:
    """What is held, where, how it was and is, since when and for which events."""
    where = next((f" ({record[key]})" for key in ("socket", "file") if record.get(key, "none") != "none"), "")
    change = [
        f"was set to {_words(left)} (before: {_words(record['found'][key])})" for key, left in record["left"].items() if record["found"].get(key, left) != left
    ]
    return f"{_thing(record)} on {record['machine']}{where}: {', '.join([*change, f'for {_events(record, now)}'])}"


def _thing(record: Json) -> str:
    """What is held."""
    kind, _blank, name = record["held"].partition(" ")
    return f"{NOUNS.get(kind, kind)} {name}"


def _events(record: Json, now: float) -> str:
    return " and ".join(f"{_label(event_id, told)}{_since(told, now)}" for event_id, told in record["for_events"].items())


def _is_note(record: Json) -> bool:
    return record["held"] in HELD_NOTES


def _notes(records: Iterable[Json], now: float) -> Iterator[str]:
    """A line for the notes of the same events. C(records): those of a host that are notes."""
    alike: dict[tuple[str, ...], list[Json]] = {}
    for record in records:
        alike.setdefault(tuple(record["for_events"]), []).append(record)
    for found in alike.values():
        names = ", ".join(record["held"].partition(" ")[2] for record in found)
        yield f"records with nothing to put back: {names}, for {_events(found[0], now)}. A run deletes them once the event is over and the host is back"


def _words(state: Any) -> str:
    """A state as people read it. That of nginx is a whole line."""
    text = state.strip().rstrip(";") if isinstance(state, str) else str(state).lower()
    return f'"{text}"' if " " in text else text


def _label(event_id: str, told: Json) -> str:
    """An event as people read it, with the reason of the hold if that says more. C(told): what a record says about it."""
    kind, reason = (told.get("details") or {}).get("event_type"), told.get("reason")
    is_rehearsed = (told.get("details") or {}).get("rule") == RULE_OF_REHEARSAL
    label = label_of(kind, event_id, REHEARSAL if is_rehearsed else None) if kind else event_id
    return f"{label} ({reason})" if reason and reason != label else label


def _is_meant(event_id: str, event_ids: Collection[str] | None) -> bool:
    """Whether what an event holds is to be released. C(event_ids): None for all."""
    return event_ids is None or fold(event_id) in set(map(fold, event_ids))


def _since(told: Json, now: float) -> str:
    since = seconds(told.get("since"))
    return "" if since is None else f" since {clock(since, now)}"


def _changed(record: Json) -> Iterator[str]:
    if "changed" in record:
        expected, found = record["changed"]["expected"], record["changed"]["found"]
        yield f"    Somebody else changed it: expected {expected}, found {found}. Nothing changes it as long as that is so."


def _two_ways(name: str, changed: Sequence[Json], release: str) -> Iterator[str]:
    """Both ways on, where somebody else has changed what is held. C(changed): what. C(release): what to type."""
    them, are, expected = ("it", "it is", changed[0]["changed"]["expected"]) if len(changed) == 1 else ("them", "they are", "what was expected")
    each = "it" if len(changed) == 1 else "each"
    yield f"    There are two ways on. Let {them} be put back: set {each} to {expected} again. The next run does the rest."
    yield f"    Or keep {them} as {are}, and give back all else that is held for {name}: {release}"


def released(name: str, of_host: Json, conflicts: Sequence[str], check: bool, event_ids: Collection[str] | None = None) -> Iterator[str]:
    """What people read after the release. C(of_host): what was decided for the host. C(conflicts): what somebody else had changed, in sentences.
    C(event_ids): the events for which it was released, None for all."""
    things: list[str] = []
    notes: list[str] = []
    held: list[str] = []
    for record in of_host["shown"]:
        others = [_label(event_id, told) for event_id, told in record["for_events"].items() if not _is_meant(event_id, event_ids)]
        thing = f"{_thing(record)}{'' if record['machine'] == name else ' on ' + record['machine']}"
        (held if others else notes if _is_note(record) else things).append(f"{thing} for {' and '.join(others)}" if others else thing)
    things = things or notes
    if things:
        # What somebody else has changed stays as it is, and only its record is deleted: that is what has changed on the machine.
        how = f", {'with its record' if len(things) == 1 else 'with their records'} deleted" if conflicts else " and put back as it was found"
        yield f"{name}: {'would be ' if check else ''}released{how}: {', '.join(things)}."
    if held:
        yield f"{name}: {'would stay' if check else 'stays'} held: {', '.join(held)}."
    yield from (f"{name}: {conflict}" for conflict in conflicts)
    for label in of_host["still"]:
        yield (
            f"{name}: {label} still names it. The next run takes it out again, and a run or a watcher that is at work does so at once."
            " If it is to stay in service, end these, or let a rule of graceful_azure_rules ignore the event."
        )
