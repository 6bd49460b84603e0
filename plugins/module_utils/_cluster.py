# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Members of clusters, and holds on them: the driver for the engine of holds.

A C(Member) knows one type of cluster: how to ask for its state, and how to take the member out and let it serve again. C(Members) knows the life of a
hold, for all types. A member is drained when its cluster says so, whatever the exit code of the command was that took it out.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shlex
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.errors import UnsupportedError
from ansible_collections.graceful.azure.plugins.module_utils._conditions import AS_LEFT, CHANGED_MEANWHILE, NONE, REBOOTED
from ansible_collections.graceful.azure.plugins.module_utils._file_systems import machine_id
from ansible_collections.graceful.azure.plugins.module_utils._health_check import https_context
from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import AGAIN, Driver, DriverError, this_boot
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import CHANGING, HELD, RESTORING, holders, new_record
from ansible_collections.graceful.azure.plugins.module_utils._record_kinds import CLUSTER
from ansible_collections.graceful.azure.plugins.module_utils._spellings import plural, reason_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import IO, Any

    from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import Hold, RecordReader
    from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Events, Record, Request

# The name that whatever we set in a cluster bears.
OWNER = "graceful.azure"
# Seconds for one command or request, and for a bare connection. The most that is read of an output.
CALL_SECONDS = 10.0
CONNECT_SECONDS = 1.0
OUTPUT_LIMIT = 16 << 20
# What an event's id must be to be told in a cluster, and how many of them are: a reason of Slurm may be cut off after 255 characters.
PLAIN_ID = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\Z")
IDS = 4

# The field of a record that says that nobody asked whether the cluster can spare the member.
FORCED = "forced"

# Conditions, besides those of every thing.
DRAINING = "draining"
RETURNING = "returning"
TAKEN_OUT = "taken_out_by_others"


class SeenMember(NamedTuple):
    """What a look at a member tells."""

    # Its name in the cluster. The record keeps it.
    member: str
    # Whether what we set is there, with our name. If it cannot bear a name: whether it is there.
    ours: bool
    # Whether it may serve: nobody has taken it out.
    serves: bool
    # A full sentence if somebody else took it out. Then nothing is set and nothing given back. Where what we set bears no name, it also says so of what is
    # ours: the record decides.
    foreign: str | None
    # A phrase about what is still on it, such as "2 resources run on web1". None if it is drained.
    left: str | None
    # JSON values: what a diff shows, and what the record keeps from before the change.
    state: dict[str, Any]
    # The ids of the events that are told with our name, also where somebody else has undone what bore it and left the name.
    events: tuple[str, ...] = ()

    @property
    def is_named(self) -> bool:
        """Whether anything there bears our name."""
        return self.ours or bool(self.events)


class MemberError(DriverError):
    """The cluster cannot be asked, or refuses; the text is a full sentence that names the program or the URL."""


class AttemptFailed(MemberError):
    """What was tried to take the member out failed, and others felt it: writes had to wait, or the leader stepped down and came back."""


class Tools:
    """What a member asks its cluster with. Each call ends after its seconds."""

    def run(self, argv: list[str], seconds: float = CALL_SECONDS, env: dict[str, str] | None = None) -> tuple[int, str, str]:
        """Run a program and return its exit code, its output and its errors. A secret belongs into ``env``: everybody may read ``argv``."""
        told = shlex.quote(os.path.basename(argv[0])) + "".join(" " + shlex.quote(word) for word in argv[1:])
        told = told if len(told) <= 120 else told[:117] + "..."
        # Files in place of pipes: a service that the program starts may keep a pipe open.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            try:
                # run_command of AnsibleModule has no time limit.
                process = subprocess.Popen(  # pylint: disable=ansible-bad-function
                    argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True, env=dict(_environment(), **env or {})
                )
            except FileNotFoundError:
                raise MemberError("The program %s is not installed, or not in the PATH." % argv[0]) from None
            except OSError as error:
                raise MemberError("The program %s cannot be run: %s." % (argv[0], reason_of(error))) from error
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                raise MemberError("`%s` did not end within %g seconds." % (told, seconds)) from None
            finally:
                _end(process)
            return code, _text(out), _text(err)

    def run_all(self, commands: list[list[str]], seconds: float = CALL_SECONDS) -> list[tuple[int, str, str] | MemberError]:
        """Run several programs side by side. Returns for each what ``run`` returns, or the error that it would raise."""
        outcomes: list[tuple[int, str, str] | MemberError] = [MemberError("`%s` was not run." % argv[0]) for argv in commands]

        def run_one(number: int) -> None:
            try:
                outcomes[number] = self.run(commands[number], seconds)
            except MemberError as error:
                outcomes[number] = error

        threads = [threading.Thread(target=run_one, args=(number,)) for number in range(len(commands))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return outcomes

    def request(
        self, method: str, url: str, body: Any = None, headers: dict[str, str] | None = None, seconds: float = CALL_SECONDS, tls: ssl.SSLContext | None = None
    ) -> tuple[int, str]:
        """Send one HTTP request and return the status and the text of the answer. Proxies and redirects are not followed.

        ``body``: text or bytes are sent as they are, anything else as JSON. ``tls``: what ``tls_context`` returned.
        """
        headers = dict(headers or {})
        if body is not None and not isinstance(body, (str, bytes)):
            body = json.dumps(body)
            if not any(name.lower() == "content-type" for name in headers):
                headers["Content-Type"] = "application/json"
        if isinstance(body, str):
            body = body.encode("utf-8")
        answer: list[tuple[int, str] | Exception] = []
        # The timeout of a socket begins anew with every byte, so a thread bounds the whole exchange.
        thread = threading.Thread(target=_exchange, args=(answer, method, url, body, headers, seconds, tls), daemon=True)
        thread.start()
        thread.join(seconds)
        shown = _without_login(url)
        # The socket may give up in the same moment as the thread that waits for it.
        if not answer or isinstance(getattr(answer[0], "reason", answer[0]), socket.timeout):
            raise MemberError("%s %s was not answered within %g seconds." % (method, shown, seconds))
        if isinstance(answer[0], Exception):
            raise MemberError("%s %s failed: %s." % (method, shown, reason_of(answer[0]))) from answer[0]
        return answer[0]

    def accepts(self, host: str, port: int) -> bool:
        """Whether somebody accepts TCP connections there, or may: who has too much to do does not answer in time."""
        try:
            socket.create_connection((host, port), CONNECT_SECONDS).close()
        except socket.timeout:
            return True
        except (OSError, UnicodeError):  # UnicodeError: the host is no name that can be looked up
            return False
        return True

    def secret(self, path: str) -> str:
        """The first line of a file of this host. No option has a secret itself: options go into records and journals."""
        try:
            with open(path, encoding="utf-8") as stream:
                found = stream.readline(65536).strip()
        except (OSError, ValueError) as error:
            raise MemberError("The file %s cannot be read: %s." % (path, reason_of(error))) from error
        if not found:
            raise MemberError("The first line of the file %s is empty." % path)
        return found

    boot_id = staticmethod(this_boot)
    machine_id = staticmethod(machine_id)


# Paths of files on the host, for ``https``.
TLS_OPTIONS: dict[str, Any] = {"ca_cert": {"type": "path"}, "client_cert": {"type": "path"}, "client_key": {"type": "path", "no_log": False}}


def tls_mistakes(options: dict[str, Any], has_certificate: bool = False) -> Iterator[tuple[str, str]]:
    """What is wrong with ``TLS_OPTIONS``. ``has_certificate``: a client certificate may come from elsewhere."""
    if options.get("client_key") and not (options.get("client_cert") or has_certificate):
        yield "client_cert", "it is missing, and client_key needs it"


def tls_context(ca_cert: str | None = None, validate_certs: bool = True, client_cert: str | None = None, client_key: str | None = None) -> ssl.SSLContext:
    """The context for requests to an ``https`` URL. The arguments are paths, but for ``validate_certs``."""
    try:
        context = https_context(validate_certs, ca_cert or None)
        if client_cert:
            context.load_cert_chain(client_cert, client_key or None)
    except (OSError, ValueError) as error:
        files = ", ".join(str(path) for path in (ca_cert, client_cert, client_key) if path)
        raise MemberError("The certificates cannot be used (%s): %s." % (files, reason_of(error))) from error
    return context


class Member:
    """This host as a member of one type of cluster. Its methods raise ``MemberError`` where the cluster cannot be asked or refuses."""

    type = ""
    # As people call it.
    title = ""
    # The argument specification of its own options. None of them is a secret: an option may name a file of the host that has it.
    options: dict[str, Any] = {}
    # Whether what ``out`` sets is there after the host was booted anew.
    survives_reboot = True
    # Whether members of one cluster go out one after the other.
    one_by_one = True
    # Whether there is nothing to give back: a member that handed over its role does not get it back.
    undoes_itself = False
    # Whether what it sets bears the collection's name. Then it is known and given back where the record is lost.
    bears_name = False
    # The events for which ``out`` is called. Where what it sets has room for a text, the text tells them.
    event_ids: tuple[str, ...] = ()
    # Whether it takes no connections while it is out. Then it comes back before whatever asks whether the host answers, also if it stands first.
    closes = False
    # Whether ``out`` only gives a role to another member, so that this one serves on as the others do.
    hands_over = False
    # Whether ``out`` is called again in every step as long as something is left on it.
    goes_on = False

    def __init__(self, options: dict[str, Any], tools: Tools) -> None:
        self.options = options
        self.tools = tools

    @classmethod
    def mistakes(cls, options: dict[str, Any]) -> Iterable[tuple[str, str]]:
        """What is wrong with its options besides their types: pairs of an option and a sentence."""
        return ()

    def url(self, path: str) -> str:
        """A URL of what answers for it, where its option ``url`` names that."""
        return "%s%s" % (self.options["url"].rstrip("/"), path)

    def tls(self) -> ssl.SSLContext | None:
        """The context for requests to that URL; None if it needs none."""
        files: dict[str, Any] = {name: self.options.get(name) for name in TLS_OPTIONS}
        return tls_context(**files) if urlsplit(self.options["url"]).scheme == "https" else None

    def look(self) -> SeenMember:
        """Ask the cluster. Returns what is ``SeenMember``."""
        raise NotImplementedError

    def life(self, boot_id: str) -> str:
        """What ends when the change of ``out`` may be lost: this boot, or also this process if a program keeps the change in memory. ``look`` comes first."""
        return boot_id

    def spare(self, seen: SeenMember) -> str | None:
        """A full sentence why the cluster cannot spare this member now; None if it can."""

    def still_needed(self, seen: SeenMember) -> str | None:
        """The same of a member that is out and on which nothing is left: its vote may be needed, or its copy of the data.

        It is asked until the event is approved, because other members may fail meanwhile.
        """

    def attempt(self, seen: SeenMember) -> str | None:
        """If ``out`` would begin something that others feel should it fail: on what its success depends, as a text to compare. Else None.

        What failed is tried again only when this text is another one, or once more with force.
        """

    def out(self, seen: SeenMember) -> None:
        """Take it out, with our name, in one call if possible. Raises ``AttemptFailed`` if an ``attempt`` failed.

        It is called again, even if what it sets is there, after a run was killed in it. Then it does what is left to do.
        """
        raise NotImplementedError

    def back(self, seen: SeenMember, found: dict[str, Any]) -> None:
        """Remove what is ours, or give back what was ``found``. The member may serve again; it need not be leader again."""
        raise NotImplementedError

    def is_back(self, seen: SeenMember, found: dict[str, Any]) -> bool:
        """Whether nothing is left to give back. What bears no name may have been set before us: then it stays."""
        return not seen.ours

    def forget(self, seen: SeenMember) -> None:
        """Remove our name where somebody else has undone what bore it. Otherwise, what others set later would be taken for ours."""


def short_name(host: str) -> str:
    """The name of a host without its domain, as host names are compared."""
    return host.strip().partition(".")[0].lower()


def with_ids(text: str, event_ids: Iterable[str]) -> str:
    """A text of ours with the ids of events, as far as they are plain and there is room."""
    told = plain_ids(event_ids)
    return "%s (%s)" % (text, ", ".join(told)) if told else text


def plain_ids(event_ids: Iterable[str]) -> list[str]:
    """The first of these ids that every cluster takes as they are."""
    return [event_id for event_id in event_ids if PLAIN_ID.match(event_id)][:IDS]


def ids_in(text: str) -> tuple[str, ...]:
    """The ids that ``with_ids`` has put into a text."""
    found = re.search(r"\(([^()]*)\)\s*\Z", text)
    return tuple(event_id for event_id in found[1].split(", ") if PLAIN_ID.match(event_id)) if found else ()


def check_options(member: type[Member], options: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The options of a type of member in their types, with defaults, and what is wrong with them: pairs of an option (or an empty text) and a sentence."""
    checked = ArgumentSpecValidator(member.options).validate(options)
    mistakes = [(name, "there is no such option, only %s" % ", ".join(sorted(member.options))) for name in sorted(checked.unsupported_parameters)]
    mistakes += [("", error.msg.rstrip(".")) for error in checked.errors if not isinstance(error, UnsupportedError)]
    return checked.validated_parameters, mistakes or list(member.mistakes(checked.validated_parameters))


class DryMember:
    """A member that obeys at once and in memory only: for check mode."""

    goes_on = False
    event_ids: tuple[str, ...] = ()

    def __init__(self, member: Member) -> None:
        self._member = member
        self._out: bool | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._member, name)

    def look(self) -> SeenMember:
        seen = self._member.look()
        if self._out is None:
            return seen
        return seen._replace(ours=self._out, serves=not self._out, left=None if self._out else seen.left)

    def out(self, seen: SeenMember) -> None:
        self._out = True

    def back(self, seen: SeenMember, found: dict[str, Any]) -> None:
        self._out = False

    def is_back(self, seen: SeenMember, found: dict[str, Any]) -> bool:
        return not self._out

    def forget(self, seen: SeenMember) -> None:
        """There is nothing to remove."""


def condition_of(record: Record | None, seen: SeenMember, boot_id: str, survives_reboot: bool = True) -> str:
    """What became of a hold.

    none                 nobody says that it should not serve, or what was ours is removed
    taken_out_by_others  somebody else took it out
    draining             is to be taken out, or something is left on it
    held                 is out and drained, as we left it
    returning            what is ours is to be removed
    rebooted             may serve again because the host was booted anew, or the program that had kept what we set
    changed_meanwhile    what we set is gone: somebody else acted. It is taken out once more, and a second time only a person decides
    """
    if record is None:
        return TAKEN_OUT if seen.foreign else NONE
    if record["phase"] == RESTORING:
        return RETURNING if seen.ours else NONE
    if seen.ours:
        return AS_LEFT if seen.left is None else DRAINING
    if record["phase"] == CHANGING:
        return DRAINING
    return REBOOTED if record["boot_id"] != boot_id and not survives_reboot else CHANGED_MEANWHILE


class Members(Driver[SeenMember]):
    """The hold on one member. ``options``: those of the member. The record keeps them, so that the member can be given back by the record alone."""

    Refused = MemberError
    pause = 1.0

    def __init__(
        self,
        member: Member | DryMember,
        store: RecordReader,
        request: Request,
        type_name: str,
        step_name: str,
        options: dict[str, Any],
        boot_id: str,
        force: bool = False,
    ) -> None:
        self._member = member
        self._store = store
        self._request = request
        self._type = type_name
        self._name = step_name
        self._options = options
        self._boot_id = boot_id
        self._force = force

    def look(self) -> list[tuple[str, SeenMember, Record | None]]:
        seen = self._member.look()
        record = self._store.read(CLUSTER, self._subject(seen))
        if record is None and self._member.bears_name and (seen.is_named if not self._request.present else seen.events and not seen.ours):
            # The record is lost, such as with a disk, and what was set is elsewhere, or somebody else has undone it.
            record = self._told_by(seen, {})
        return [(self._name, seen, record)]

    def marked(self, details: dict[str, Any]) -> Record | None:
        """The record of what bears our name and has no record, as far as it tells. ``details``: what is known of its events."""
        if not self._member.bears_name:
            return None
        seen = self._member.look()
        # The step may have been renamed meanwhile.
        known = any((record["subject"]["type"], record["subject"]["member"]) == (self._type, seen.member) for record in self._store.records(CLUSTER))
        return self._told_by(seen, details) if seen.is_named and not known else None

    def _told_by(self, seen: SeenMember, details: dict[str, Any]) -> Record:
        events: Events = {event_id: {"since": self._request.now, "reason": "", "details": dict(details)} for event_id in seen.events}
        return dict(new_record(CLUSTER, self._subject(seen), seen.state, {}, events, boot_id=self._life, options=self._options), phase=HELD)

    def condition(self, record: Record | None, seen: SeenMember) -> str:
        return condition_of(record, seen, self._life, self._member.survives_reboot)

    def view(self, record: Record | None, seen: SeenMember) -> dict[str, Any]:
        return seen.state

    def describe(self, hold: Hold[SeenMember]) -> dict[str, Any]:
        """What the module returns of a member."""
        return {
            "type": self._type,
            "name": self._name,
            "member": hold.seen.member,
            "serves": hold.seen.serves,
            "left": hold.seen.left,
            "state": hold.seen.state,
            "found": hold.shown["found"] if hold.shown else None,
            "held_by": holders(hold.record),
            "condition": self.came_to(hold, hold.seen),
        }

    def untouched(self, hold: Hold[SeenMember]) -> bool:
        try:
            return self._request.present and not self._member.look().ours
        except MemberError:
            return False

    def put(self, hold: Hold[SeenMember], events: Events) -> Iterator[Record | None]:
        record, seen = hold.record, hold.seen
        is_held = record is not None and record["phase"] == HELD
        if self._is_theirs(seen, record):
            # It is drained all the same. There is nothing to give back.
            hold.waiting_for = seen.left or self._needed(seen)
            yield None
            return
        was_changed = record is not None and self.condition(record, seen) == CHANGED_MEANWHILE
        if record is not None and was_changed and (seen.foreign or record.get(AGAIN)):
            # It is out, by somebody else, or it was taken out twice and somebody wants it in.
            if seen.foreign:
                hold.tell(self.conflict(hold))
            hold.waiting_for = (seen.left or self._needed(seen)) if seen.foreign else self._stays_in(seen)
            yield dict(record, events=events)
            return
        why = self._kept_in(seen, record)
        if why:
            hold.waiting_for = why
            yield record and dict(record, events=events)
            return
        # Shortly before the impact nobody asks, also not in the looks that follow.
        forced = {FORCED: True} if self._force else {}
        if record is not None:
            record = dict({key: value for key, value in record.items() if key != FORCED}, **forced)
        was_begun = record is not None and record["phase"] == CHANGING
        is_due = not seen.ours or was_begun or seen.left is not None and self._member.goes_on
        attempt = self._member.attempt(seen) if is_due else None
        if record is None:
            more = dict({"boot_id": self._life, "options": self._options}, **forced)
            record = new_record(CLUSTER, self._subject(seen), seen.state, {}, events, **more)
        elif is_held and seen.ours:
            record = dict(record, events=events)
        else:
            if record["boot_id"] != self._life:
                record = {key: value for key, value in record.items() if key != AGAIN}
            record = dict(record, phase=CHANGING, boot_id=self._life, events=events)
        if attempt is not None:
            record.pop("failed_attempt", None)
        if was_changed:
            # What somebody else has set meanwhile is what it goes back to.
            record.update(found=seen.state, **{AGAIN: True})
            hold.tell(self._told_again(seen))
        yield record
        if is_due:
            failure = None
            self._member.event_ids = tuple(holders(record))
            try:
                self._member.out(seen)
            except AttemptFailed as error:
                attempt = attempt or self._member.attempt(seen)
                if attempt is None:
                    raise
                failure = str(error)
                record = dict(record, failed_attempt=self._failed(attempt, failure))
                yield record
            hold.acted = hold.acted or not seen.ours
            hold.seen = seen = self._member.look()
            if failure is None and attempt is not None and not seen.ours:
                # It may go on. If it ends without success, it is not begun again.
                record = dict(record, failed_attempt=self._failed(attempt, "%s still, although it was told to hand over." % seen.left))
                yield record
            elif failure is not None and self._member.attempt(seen) is not None:
                hold.waiting_for = record["failed_attempt"]["reason"]
                return
        if seen.left is not None:
            hold.waiting_for = seen.left
        elif not seen.ours:
            hold.waiting_for = "%s does not show yet that %s is out" % (self._member.title, seen.member)
        elif not is_due:
            hold.waiting_for = self._needed(seen)
        if seen.ours and record["phase"] == CHANGING:
            record = dict(record, phase=HELD)
            record.pop("failed_attempt", None)
            yield record

    def _needed(self, seen: SeenMember) -> str | None:
        """Why a member that is out must not go down yet, in a sentence. Shortly before the impact, nobody asks."""
        return None if self._force else self._member.still_needed(seen)

    def _failed(self, attempt: str, why: str) -> dict[str, Any]:
        again = "" if self._force else ", or when the impact is near"
        reason = "%s Tried at %s; tried again when the other members change%s" % (why, self._request.now, again)
        return {"attempt": attempt, "forced": self._force, "reason": reason}

    def give_back(self, hold: Hold[SeenMember], record: Record) -> Iterator[Record | None]:
        seen = hold.seen
        was_changed = self.condition(record, seen) == CHANGED_MEANWHILE
        if was_changed:
            hold.tell(self.conflict(hold))
        elif record.get(AGAIN):
            hold.tell(self._told_again(seen))
        if seen.ours and not self._member.undoes_itself:
            yield dict(record, phase=RESTORING)
            self._member.back(seen, record["found"])
            hold.acted = True
            hold.seen = self._member.look()
            if not self._member.is_back(hold.seen, record["found"]):
                hold.waiting_for = "%s does not show yet that %s may serve again" % (self._member.title, hold.seen.member)
                return
        elif not seen.ours:
            self._member.forget(seen)
        yield None

    def why_on(self, seen: SeenMember, record: Record | None) -> list[str]:
        """Why the member is not out and drained, in sentences. ``seen`` and ``record``: as a look has returned them."""
        if (seen.ours or seen.foreign) and seen.left is None:
            return self._why_needed(seen) if self._is_theirs(seen, record) or not (record or {}).get(FORCED) else []
        condition = self.condition(record, seen)
        if condition == CHANGED_MEANWHILE and record is not None and not seen.foreign:
            return [self._stays_in(seen) if record.get(AGAIN) else "%s is in again, although it was taken out for the event" % seen.member]
        if condition == REBOOTED:
            return ["%s is in again since it was booted or restarted" % seen.member]
        try:
            why = self._kept_in(seen, record)
        except MemberError:
            why = None
        return [why or seen.left or "%s is not out" % seen.member]

    def _why_needed(self, seen: SeenMember) -> list[str]:
        """Why a member that is out must not go down, in sentences."""
        try:
            why = self._member.still_needed(seen)
        except MemberError as error:
            why = str(error).rstrip(".")
        return [why] if why else []

    @staticmethod
    def _is_theirs(seen: SeenMember, record: Record | None) -> bool:
        """Whether somebody else took it out. Where what we set bears no name, the record decides."""
        return bool(seen.foreign) and (record is None or not (seen.ours or record["phase"] == HELD))

    def _kept_in(self, seen: SeenMember, record: Record | None) -> str | None:
        """Why it is not taken out now, in a sentence: the cluster cannot spare it, or an attempt failed. None if it is out, is going out, or may go."""
        failed = record.get("failed_attempt") if record is not None else None
        attempt = self._member.attempt(seen) if failed is not None else None
        if seen.ours or failed is not None and attempt is None:
            return None
        why = None if self._force else self._member.spare(seen)
        if why is None and failed is not None and failed["attempt"] == attempt and (failed["forced"] or not self._force):
            # Nothing has changed on which it depends, so it would fail again. Force is worth one more attempt.
            return str(failed["reason"])
        return why

    def stuck(self) -> Exception:
        return MemberError("%s does not do what it is told." % self._member.title)

    @property
    def _life(self) -> str:
        return self._member.life(self._boot_id)

    def _subject(self, seen: SeenMember) -> dict[str, Any]:
        return {"type": self._type, "name": self._name, "member": seen.member}

    def _stays_in(self, seen: SeenMember) -> str:
        return "%s was taken out twice for the event and is in again: end what puts it back, or take it out of graceful_azure_duties" % seen.member

    def _told_again(self, seen: SeenMember) -> str:
        return "%s: somebody else put %s back while it was held, and it was taken out once more." % (self._member.title, seen.member)

    def conflict(self, hold: Hold[SeenMember]) -> str:
        return "%s: %s was taken out, and what took it out is gone: somebody else acted, so it was not touched." % (self._member.title, hold.seen.member)


def _environment() -> dict[str, str]:
    env = dict(os.environ, LC_ALL="C")
    env["PATH"] = ":".join([env.get("PATH") or os.defpath, "/usr/local/sbin", "/usr/sbin", "/sbin"])
    return env


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what is left of a program that did not end by itself."""
    if process.returncode is None:
        # It may belong to somebody else by now, or wait for a disk. The error that led here counts.
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except OSError:
                process.kill()
            process.wait(5)


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read(OUTPUT_LIMIT).decode("utf-8", "replace")


def _exchange(
    answer: list[tuple[int, str] | Exception], method: str, url: str, body: bytes | None, headers: dict[str, str], seconds: float, tls: ssl.SSLContext | None
) -> None:
    try:
        parts = urlsplit(url)
        path = (parts.path or "/") + ("?" + parts.query if parts.query else "")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("it is no URL that begins with http:// or https:// and a host")
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            connection = http.client.HTTPSConnection(parts.hostname, parts.port, timeout=seconds, context=tls or ssl.create_default_context())
        else:
            connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=seconds)
        try:
            connection.request(method, path, body=body, headers=headers)
            response = connection.getresponse()
            answer.append((response.status, response.read(OUTPUT_LIMIT).decode("utf-8", "replace")))
        finally:
            connection.close()
    except (OSError, http.client.HTTPException, ValueError) as error:
        answer.append(error)


def _without_login(url: str) -> str:
    before, at, after = url.rpartition("@")
    return before.split("://")[0] + "://" + after if at and "://" in before else url


def wrong_url(url: Any, *schemes: str) -> str | None:
    """Why this is no base URL with one of the schemes; None if it is one."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except (AttributeError, TypeError, ValueError) as error:
        return "is no URL: %s" % error
    if parts.scheme not in schemes or not parts.hostname or port == 0:
        return "does not begin with %s and a host" % " or ".join("%s://" % scheme for scheme in schemes)
    if parts.query or parts.fragment or "@" in parts.netloc or re.search(r"\s", url):
        return "has more than a host, a port and a path"
    return None


def parsed(text: str) -> Any:
    """What an answer says in JSON; None if it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def runs(number: int, noun: str) -> str:
    return "%s %s" % (plural(number, noun), "runs" if number == 1 else "run")


def first_line(text: str, code: int) -> str:
    """The first line of what a program said, which may be followed by its usage. ``code``: what it exited with."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0].rstrip(".")[:300] if lines else "it exited with %d and said nothing" % code


def last_line(text: str, code: int) -> str:
    """The last one, if what comes before is how it got there."""
    return first_line("\n".join(text.splitlines()[::-1]), code)
