# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Approves events: reads them again, decides, and sends one request."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._absence import READ_AGAIN, Absences
from ansible_collections.graceful.azure.plugins.module_utils._events import PREVIEW, clip, sort_for_approval, types_meant
from ansible_collections.graceful.azure.plugins.module_utils._imds import ImdsStatusError
from ansible_collections.graceful.azure.plugins.module_utils._selection import check_event_ids
from ansible_collections.graceful.azure.plugins.module_utils._spellings import READY_LONG_AGO, fold
from ansible_collections.graceful.azure.plugins.module_utils._waiting import Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._imds import ImdsClient
    from ansible_collections.graceful.azure.plugins.module_utils._waiting import Reading

# How often the events are read and approved, because the document may change in between.
ATTEMPTS = 3
# How often they are read for one attempt, if a document or an empty body does not show an event and nothing proves that it is over.
READS = 3
# If the time is limited, so many seconds are reserved for the request itself.
POST_SECONDS = 1.0


class ApprovalRefusedError(Exception):
    """The event must not be approved, or not by this host."""


def decide(
    reading: Reading, event_ids: list[str], allow_other_hosts: bool, ready: list[str] | None = None, types: dict[str, Any] | None = None
) -> tuple[list[str], list[dict[str, str]]]:
    """Returns the ids to approve, and the other ids with the reasons. Raises ApprovalRefusedError."""
    approve, leave, refused = sort_for_approval(
        reading.events, event_ids, lambda event: allow_other_hosts or bool(event["affects_host"]), reading.resource_name, ready, types
    )
    for option, why, is_ours in refused:
        more = "" if is_ours else " The option allow_other_hosts permits it."
        raise ApprovalRefusedError("%s: %s. Nothing was approved.%s" % (option, why, more))
    return approve, leave


class Approval:
    """Approves some events, all with one request."""

    def __init__(
        self,
        client: ImdsClient,
        reader: Reader,
        event_ids: list[str],
        allow_other_hosts: bool = False,
        ready: list[str] | None = None,
        types: dict[str, Any] | None = None,
    ) -> None:
        self.client = client
        self.reader = reader
        self.event_ids = event_ids
        self.allow_other_hosts = allow_other_hosts
        self.ready = ready
        self.types = types
        self.absences = Absences(map(fold, event_ids))
        self.now = time.time  # the clock of the host
        self.unsure = False  # whether an earlier try may have been accepted although the last one was refused

    @classmethod
    def from_params(cls, client: ImdsClient, params: Mapping[str, Any]) -> Approval:
        """Make one from the options of a module. Raises SelectionError."""
        unique = {fold(event_id): event_id for event_id in reversed(check_event_ids(params["event_ids"]))}
        others = params.get("allow_other_hosts", False)
        reader = Reader(client, params["resource_name"], ask_name=not others)
        return cls(client, reader, list(reversed(list(unique.values()))), others, params["ready_resources"], types_meant(params.get("event_details")))

    def send(
        self,
        check_mode: bool = False,
        before_post: Callable[[list[str]], object] | None = None,
        deadline: float | None = None,
        ready_until: float | None = None,
    ) -> tuple[list[str], list[dict[str, str]], list[str]]:
        """Send the approval. Returns what was approved, what was not and why, and the warnings.

        ``before_post`` is called with the ids that are about to be sent. ``deadline`` is a time of the client's clock. Nothing is sent in the last
        second before it, and nothing waits beyond it. ``ready_until`` is a time of this machine's clock. Nothing is sent after it.
        """
        try:
            return self._send(check_mode, before_post, deadline, ready_until)
        except ApprovalRefusedError as error:
            if not self.unsure:
                raise
            raise ApprovalRefusedError(f"{error} But an earlier request that the metadata service did not answer rightly may have been accepted.") from None

    def _send(
        self, check_mode: bool, before_post: Callable[[list[str]], object] | None, deadline: float | None, ready_until: float | None
    ) -> tuple[list[str], list[dict[str, str]], list[str]]:
        refused: tuple[ImdsStatusError, dict[str, object]] | None = None
        last_post = None if deadline is None else deadline - POST_SECONDS

        def check_time() -> None:
            if last_post is not None and self.client.monotonic() > last_post:
                raise ApprovalRefusedError("No time was left to approve. Nothing was approved.")
            if ready_until is not None and self.now() > ready_until:
                raise ApprovalRefusedError(READY_LONG_AGO)

        def check_again(unsure: bool) -> None:
            # The service may take a minute until it answers rightly, and a document that it updates meanwhile may name more VMs.
            self.unsure = self.unsure or unsure
            self._decide(last_post)
            check_time()

        for _dummy in range(ATTEMPTS):
            # An approval cannot be taken back, so the events are read again immediately before it.
            reading, approve, leave = self._decide(last_post)
            document: dict[str, object] = {"StartRequests": [{"EventId": event_id} for event_id in approve]}
            if self.client.api_version == PREVIEW:
                document["DocumentIncarnation"] = str(reading.document_incarnation)
            if approve and not check_mode:
                if refused and refused[1] == document:
                    break
                if before_post:
                    before_post(approve)
                check_time()
                try:
                    self.client.post_events(document, deadline, check_again)
                except ImdsStatusError as error:
                    self.unsure = self.unsure or error.unsure
                    if error.status != 400:
                        raise
                    # If one of the events has gone meanwhile, the service refuses all of them. Then there is a new document.
                    refused = (error, document)
                    continue
            return approve, leave, reading.warnings
        if refused is None:
            raise AssertionError("only a refusal ends the loop without a return")
        raise refused[0]

    def _decide(self, last_post: float | None) -> tuple[Reading, list[str], list[dict[str, str]]]:
        """What the events are now, and which of them may be approved."""
        reading = self._read(last_post)
        return (reading, *decide(reading, self.event_ids, self.allow_other_hosts, self.ready, self.types))

    def _read(self, last_post: float | None) -> Reading:
        """Read until it is known of each event whether it stands: who is told that one is over may put its hosts back. Raises ApprovalRefusedError."""
        monotonic, doubtful = self.client.monotonic, set()
        for attempt in range(READS):
            if attempt:
                if last_post is not None and monotonic() + READ_AGAIN > last_post:
                    break
                self.client.sleep(READ_AGAIN)
            reading = self.reader.read(last_post, name_needed_by=None if self.allow_other_hosts else "approving")
            shown = {fold(event["event_id"]) for event in reading.events}
            doubtful = self.absences.note(shown.intersection(map(fold, self.event_ids)), monotonic(), reading.proves)
            if not doubtful:
                return reading
        unknown = ", ".join(clip(event_id) for event_id in self.event_ids if fold(event_id) in doubtful)
        raise ApprovalRefusedError(
            f"event_ids: the metadata service does not show {unknown}, and not yet that it is over either: that takes two documents a second apart, and an"
            " answer with an empty body is none. Nothing was approved. Try again."
        )
