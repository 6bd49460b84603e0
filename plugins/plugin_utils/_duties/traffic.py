# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a type of duty says that brings traffic to a host. Pure.

Such a type turns the observations of its machines into places, and returns the options of the next looks at them. It knows no other type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ansible_collections.graceful.azure.plugins.module_utils._conditions import ALREADY_OUT, AS_LEFT, CHANGED_MEANWHILE, GOING_BACK, LOST, NONE, UNDER_WAY
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.duty import Duty
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import CHANGED, FREE, HELD, NextLook, Place, SearchedAt, Traffic
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.results import RoleResult, role_result
from ansible_collections.graceful.azure.plugins.plugin_utils._types import BalancerSettings, Json, Options, Result, StepJson

if TYPE_CHECKING:
    from ansible_collections.graceful.azure.plugins.plugin_utils._planning.addresses import Addresses
    from ansible_collections.graceful.azure.plugins.plugin_utils._planning.document import MachineObservation, Machines, Record, RecordedEvent
    from ansible_collections.graceful.azure.plugins.plugin_utils._planning.hosts import Host

Claim = tuple[str, tuple[Any, ...], str | None]
"""See C(TrafficDuty.claims)."""
CONDITIONS = {
    **dict.fromkeys((NONE, ALREADY_OUT), FREE),
    **dict.fromkeys((AS_LEFT, LOST, UNDER_WAY, GOING_BACK), HELD),
    CHANGED_MEANWHILE: CHANGED,
}
"""The conditions of things in the results of looks, and what they mean for the plan."""
TWO_WAYS = (
    "Set it back, and the next run goes on; or release it with the playbook graceful.azure.holds (-e holds_release=true), and it stays as it is until a run"
    " takes it out again"
)
"""What a person can do where somebody else has changed what is held."""


class TrafficDuty(Duty):
    """One type of duty that brings traffic. This base class is also that of a host to which nothing brings any.

    C(settings): what C(settings) made of an entry: C(provider), C(hosts), C(server), C(state), ...
    C(options): the options of an entry, with C(name). C(host): the host's name in the inventory.
    C(direction): V(out) or V(in).
    C(acts): the registered results of the modules that change it. C(looks): those of the module that looks at it.
    """

    needs_ports = ""
    """Why C(graceful_azure_ports) must be set, a sentence; empty if the balancer itself tells which connections are left."""
    title = ""
    """The name that people read."""
    kind = ""
    """The kind of the records that tell since when a host is out."""
    tasks: tuple[str, ...] = ()
    """Names of the records that its role leaves on a host for the user's own tasks."""
    has_records_elsewhere = False
    """Whether C(looks) finds its holds: they are not on the host itself."""
    unclaimed = ""
    """Sentences for the playbook holds about a record that no look claims. They go on after "It lies on <machine> and"."""
    still_out = "is still out of rotation"
    """What is said of a place that is held although its event is over, after its name."""
    by_others = "is in {state}"
    """The same for a place that somebody else has taken out."""
    sees_pool = True
    """Whether a look at its machine tells of all servers that share the requests. Otherwise each of them must be looked at."""
    counts_again = False
    """Whether whoever takes a host out there counts first which of the others serve. Otherwise only a run does."""
    answers_checks = False
    """Whether it is the host's own answer, for which the checks of its other balancers may ask as well."""
    may_forget = False
    """Whether the balancer may lose its state and put a host back into rotation. Then the time for which the host is out begins again."""

    def traffic(self, settings: BalancerSettings, host: Host, machines: Machines, addresses: Addresses) -> Traffic:
        """The C(Traffic) of a host at one balancer with these settings.

        C(machines): all observations of machines, by key. C(addresses): which target has which address.
        """
        return Traffic()

    def traffic_of_all(self, asked: Sequence[tuple[Host, BalancerSettings]], machines: Machines, addresses: Addresses) -> Iterable[Traffic]:
        """The same for all hosts that have such a duty, in their order. It is asked once in a pass: here is the place for what they have in common."""
        return (self.traffic(settings, host, machines, addresses) for host, settings in asked)

    def sharers(self, settings: BalancerSettings) -> str:
        """Words for those that share its requests, among which the minimum in service counts; empty if it does not count them."""
        return ""

    def left_by(self, settings: BalancerSettings) -> str:
        """The command that shows on its machine which requests to the host are left; empty if there is none."""
        return ""

    def records(self, settings: BalancerSettings, machines: Machines) -> Iterable[tuple[Record, MachineObservation]]:
        """The records on its machines that are about the host with these settings, each with its C(MachineObservation)."""
        return ()

    def out_since(self, record: Record, entry: RecordedEvent, is_new: bool) -> tuple[str | None, ...] | None:
        """Dates for this event of a record: the host has been out since the last of them. None if the record does not tell that.

        C(is_new): whether this run sees the event for the first time.
        """
        return (entry.since,) if record.kind == self.kind else None

    def arrived(self, settings: BalancerSettings, place: Place, came: int, begun: float) -> str:
        """The sentence that C(came) requests have come to a place since C(begun), although it is out."""
        return ""

    def went(self, way: str, came: int, begun: float) -> str:
        """The sentence that C(came) requests may have gone past the host's places since C(begun). C(way): what sent them, see C(Place.past)."""
        return ""

    def looks(self, settings: Sequence[tuple[str, BalancerSettings]], waits: Mapping[str, float], searched: SearchedAt) -> Iterable[NextLook]:
        """A C(NextLook) for each of its machines, for the next pass.

        C(settings): pairs of a host and the settings of one of its balancers. C(waits): the hosts whose last requests the look waits for, with the
        seconds without a new request that must pass. C(searched): a function that returns the addresses of a host, by its name and the key of a look.
        """
        return []

    def read(self, result: Json, options: Options) -> Json:
        """The result of a look at one of its machines, with C(error) or C(fatal) if it is of no use. C(options): those of the look."""
        return result

    def acts(self, settings: BalancerSettings, direction: str, hold: Options, step: StepJson) -> Iterable[tuple[str | None, str, Options]]:
        """The acts that take a host out or in: for each machine its name (None: the host itself), a module and the options.

        C(hold): the options of a hold. C(step): the step as JSON.
        """
        return []

    def file(self, settings: BalancerSettings, direction: str) -> Json | None:
        """The task file of the user's own that these acts wait for, see C(_own_files.py); None if there is none."""
        return None

    def names(self, record: Json) -> tuple[str, str]:
        """The name that a record on its machine holds, and the name of the host there for which it does: what leads to the same host is taken out with it."""
        name = record["subject"]["server"]
        return name, record.get("for_server") or name

    def shown(self, record: Json) -> dict[str, str]:
        """What a record holds, for the playbook holds: C(held), and the C(socket) of the balancer, if there is one."""
        return {"held": f"{record['kind']} {'/'.join(map(str, record['subject'].values()))}", "socket": "none"}

    def changed(self, look: Json, record: Json) -> tuple[str, str] | None:
        """What a record expects and what a look found instead, if somebody else has changed it since, for the playbook holds."""
        return None

    def give_back(self, record: Json, options: Options) -> tuple[str, Options]:
        """The module and its options that release a record for good, by hand. C(options): those of the look that found it."""
        raise NotImplementedError

    def noticed_after(self, settings: BalancerSettings) -> float:
        """Seconds after which its balancer must have noticed that a host is back, where nobody can see that there."""
        return 0.0

    def spots(self, settings: BalancerSettings) -> Iterable[tuple[str, str]]:
        """Where these settings have a host taken out: pairs of a machine and a phrase for people. The records of the host keep the phrase of what is held, so
        it must be the same in each run."""
        return ()

    def asks_before(self, settings: BalancerSettings) -> bool:
        """Whether a look before the host goes out may find that nobody could tell that it is out (C(untold) of C(Place))."""
        return False

    def brings_traffic(self, options: Options) -> bool:
        return True

    def settings(self, options: Options, host: str) -> BalancerSettings:
        """Its own settings, besides those that all kinds have (C(settings_of) in C(all_types.py)). C(host): the host's name in the inventory."""
        return {}

    def completed(self, options: Options, host: str, address: str | None) -> Options:
        """The options, with what is known of the host where it is not set.

        C(host): the host's name in the inventory. C(address): its C(ansible_host), or None.
        """
        return dict(options, server=options.get("server") or host) if "server" in self.options else options

    def beside(
        self,
        settings: BalancerSettings,
        ports: Sequence[int] | None = None,
        asked: Options | None = None,
        timeout: float | None = None,
    ) -> Iterable[tuple[str, str]]:
        """What is wrong with other variables of the host because of this balancer: pairs of a variable, without C(graceful_azure_), and a sentence.

        None stands for what the caller does not know. C(ports), C(timeout): C(graceful_azure_ports) and C(graceful_azure_drain_timeout). C(asked): what
        must answer before the host goes back, as the modules take it.
        """
        if self.needs_ports and ports is not None and not ports:
            yield "ports", f"not set; {self.name} needs the ports on which the application serves: {self.needs_ports}"

    def with_ports(self, settings: BalancerSettings, ports: Iterable[int]) -> BalancerSettings:
        """Its settings, with what it needs of the role drain_host."""
        return settings

    def known_by(self, settings: BalancerSettings) -> str:
        """The option that tells which one of the balancer's servers the host is."""
        return "server"

    def claims(self, settings: BalancerSettings) -> Iterable[Claim]:
        """What belongs to this host alone, so that no other host may have it.

        Three things each: where it is (a name for people), what it is, and which part of it is claimed, or None for all of it.
        """
        return ()

    def judge(self, settings: BalancerSettings, direction: str, acts: Sequence[Result]) -> RoleResult:
        """The C(load_balancer_result)."""
        return role_result(True, "no load balancer knows this host")


def left_as_it_is(by_others: str) -> str:
    """The sentences about what somebody else has changed while it was held. C(by_others): what was done to what, and what was expected."""
    return f"somebody else {by_others}: left as it is. {TWO_WAYS}"


def notices_in(host: Host, look: Result, notice: float, otherwise: float) -> float:
    """In how many seconds a balancer that asks a host must have noticed that it answers again; 0 or less: it has.

    C(notice): the seconds that it takes. C(otherwise): for how many seconds the host has answered, if this run does not know when it came back.
    """
    back_at, at = host.memory.back_at, look.get("at")
    answering_for = 0.0 if host.memory.unserved else otherwise if back_at is None or at is None else at - back_at
    return notice - answering_for
