# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A balancer that decides by the host's own health answer: what a look at the host (module health_probe_info) means. Private to the collection; pure.

The machine that is looked at and changed is the host itself. Its records lie there, too, so the look at the host reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._duties.words import health_answer
from ansible_collections.graceful.azure.plugins.module_utils._pools import Pool
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.addresses import Addresses
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import NOT_LOOKED_AT, Entry, MachineObservation, Machines, Record
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.events import fold
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import (
    CHANGED,
    FREE,
    HELD,
    Count,
    NextLook,
    Place,
    Provider,
    Searched,
    Traffic,
    unread,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.verdicts import Kind
from ansible_collections.graceful.azure.plugins.plugin_utils._steps import health_probe as words
from ansible_collections.graceful.azure.plugins.plugin_utils._types import BalancerSettings, Json, Options, StepJson

if TYPE_CHECKING:
    from ansible_collections.graceful.azure.plugins.plugin_utils._planning.hosts import Host

KIND = "health_probe"
CONDITIONS = {"none": FREE, "already_out": FREE, "held": HELD, "changing": HELD, "lost": HELD, "changed_meanwhile": CHANGED}


def _key(settings: BalancerSettings) -> str:
    """The inventory name of the host, and what is looked at there."""
    return f"{settings['host']} {KIND}-{str(settings['on']).replace(' ', '_')}"


class HealthProbe(Provider):
    name = "health_probe"
    title = "the balancer"
    may_forget = True

    def traffic(self, settings: BalancerSettings, host: Host, hosts: dict[str, Host], machines: Machines, addresses: Addresses) -> Traffic:
        machine = machines.get(_key(settings)) or NOT_LOOKED_AT
        result = machine.result
        if result.get("answer") is None:
            why = unread(words.place_name(settings), result)
            if why.kind is Kind.UNREAD and not host.observation.reached:
                # The host is silent, or about to be. That is told of the host, and nothing can be done at its health answer.
                return Traffic((Place(words.place_name(settings), settings["host"], in_rotation=True, busy=(why.text,)),), serves=False)
            return Traffic(serves=False, unread=(why,))
        place = _place(settings, machine)
        return Traffic((place,), serves=result["answer"]["state"] != "failing")

    def records(self, settings: BalancerSettings, machines: Machines) -> Iterable[tuple[Record, MachineObservation]]:
        # The look at the host has read those on its disk.
        machine = machines.get(_key(settings)) or NOT_LOOKED_AT
        found = zip(machine.records or (), machine.result.get("holds") or ())
        return [(record, machine) for record, told in found if told.get("from_mark")]

    def out_since(self, record: Record, entry: Entry, is_new: bool) -> tuple[str | None, ...] | None:
        return (entry.since,) if record.kind == KIND else None

    def looks(self, settings: Sequence[tuple[str, BalancerSettings]], waits: Mapping[str, float], searched: Searched) -> Iterator[NextLook]:
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
        yield settings["host"], "health_probe_hold", dict(options, **hold)

    def shows(self, result: Json, act: Json) -> bool:
        answers, seen = act.get("answers") or (), result.get("answer")
        if not seen or not answers:
            return False
        held_by = {fold(event_id) for answer in answers for event_id in answer["held_by"]}
        return {fold(event_id) for event_id in seen["held_by"]} == held_by

    def after_release(self, result: Json, act: Json, event_ids: Iterable[str]) -> Json | None:
        told = next((answer for answer in act.get("answers") or () if result.get("answer") and answer["on"] == result["answer"]["on"]), None)
        if not told or told["held_by"] or act.get("waiting_for") or result.get("answer") is None:
            return None
        holds = [record for record in result["holds"] if record["subject"].get("on") != told["on"]]
        return dict(result, answer=told, notice_left=None if told["state"] != "failing" else 0.0, probe=None, holds=holds)

    def shown(self, record: Json) -> dict[str, str]:
        return {"held": f"{KIND} {record['subject']['action']} {record['subject']['on']}", "socket": "none"}


def _place(settings: BalancerSettings, machine: MachineObservation) -> Place:
    result = machine.result
    answer, label = result["answer"], words.place_name(settings)
    condition = CONDITIONS[answer["condition"]]
    in_rotation = words.may_send(result)
    new = bool(result.get("new_connections"))
    count = None
    if not in_rotation:
        # What came since the look before is not counted by anybody, but what was closed a moment before this look tells of it.
        recent = result["closed_ago"] < result["quiet_for"] + words.RECENT
        process = f"came before {result['clock']}" if new or recent else "nothing came"
        count = Count(process, result["clock"], 0, result["quiet_for"], result.get("at"))
    return Place(
        name=label,
        machine=settings["host"],
        in_rotation=in_rotation,
        state="maintenance" if answer["condition"] == "already_out" else answer["state"],
        serves=answer["state"] != "failing",
        busy=health_answer(words.place_name(settings), result, settings["url"], words.PREFIX),
        count=count,
        seen=machine.looked_at,
        looks=machine.looks(twice=bool(machine.waited_for) and result["idle"]),
        condition=condition,
        held_by=frozenset(map(fold, answer["held_by"])),
        must_go_out=_must_go_out(answer, condition),
        member=settings["server"],
        # The connections of those who only check are no requests.
        pools=tuple(map(Pool, settings["peer"])),
        # The balancer probes it: it gets nothing before its answer passes.
        checked=settings["action"] != "command",
        conflict=f"somebody else let {label} pass again: left as it is" if condition == CHANGED else "",
    )


def _must_go_out(answer: Json, condition: str) -> bool:
    """Whether the role load_balancer has something to do, whoever holds it."""
    if condition == CHANGED:
        return False
    # If its release has begun, if the host was booted anew or if the run that made it fail was cut off, the record must be written again.
    is_old = condition == HELD and (answer["restoring"] or not answer["noted"])
    return answer["condition"] in ("none", "lost", "changing") or is_old
