# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.
# Do not use this from other collections or standalone plugins/modules!

"""Looks at the drain steps of a host that was drained: is what they took out of duty still out? Nothing is changed.

A record only says what was done. Since then somebody may have started a service again, or the host was booted anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import DriverError
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import HoldError, Request

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ansible_collections.graceful.azure.plugins.module_utils._hold_engine import RecordReader
    from ansible_collections.graceful.azure.plugins.module_utils._iis import IisManager
    from ansible_collections.graceful.azure.plugins.module_utils._systemd import ServiceManager

TASK = "task"


class StepLooks:
    """``services`` and ``iis``: what knows the services of the host, and its IIS if it has one. ``tools``: how clusters are asked; None for the usual."""

    def __init__(
        self,
        store: RecordReader,
        boot_id: str,
        services: ServiceManager,
        iis: IisManager | None = None,
        tools: Any = None,
        errors: tuple[type[Exception], ...] = (),
    ) -> None:
        self._store = store
        self._boot_id = boot_id
        self._services = services
        self._iis = iis
        self._tools = tools
        self._errors = (DriverError, HoldError, ValueError) + errors
        # No event is put on record by a look.
        self._request = Request(True, [])

    def still_on(self, steps: Iterable[dict[str, Any]]) -> list[str]:
        """What is not out of duty, in sentences. What cannot be looked at is not known to be out."""
        found = []
        for step in steps:
            try:
                found.extend(self._look(step))
            except self._errors as error:
                found.append("%s cannot be looked at: %s" % (", ".join(step.get("names") or [step["type"]]), str(error).rstrip(".")))
        return found

    def marks(self, steps: Iterable[dict[str, Any]], details: dict[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
        """What bears our name in the clusters of these steps and has no record: the records that it tells, and sentences where it tells no event.

        ``details``: what is known of its events. A cluster that cannot be asked is asked in the next run.
        """
        found, unknown = [], []
        for step in steps:
            try:
                member, driver = self._member(step)
                record = driver.marked(details)
            except self._errors:
                continue
            if record is None:
                continue
            mark = "%s (%s): %s" % (member.title, step["names"][0], record["subject"]["member"])
            if record["events"]:
                found.append(dict(record, path=mark, marked=True))
            else:
                unknown.append(
                    "%s was taken out by graceful.azure (%s), its record is gone, and nothing tells for which event. See whether it should serve, and put it"
                    " back with the module cluster_hold (state: absent, type and options)" % (mark, _told(record["found"]))
                )
        return found, unknown

    def _look(self, step: dict[str, Any]) -> list[str]:
        if step["type"] == "service":
            return self._look_at_services(step)
        if step["type"] == "iis":
            return self._look_at_iis(step)
        if step["type"] == "tasks":
            return self._look_at_tasks(step)
        return self._look_at_member(step)

    def _look_at_services(self, step: dict[str, Any]) -> list[str]:
        from ansible_collections.graceful.azure.plugins.module_utils._systemd import Services

        return Services(self._services, self._store, self._request, step["names"]).still_on()

    def _look_at_iis(self, step: dict[str, Any]) -> list[str]:
        from ansible_collections.graceful.azure.plugins.module_utils._iis import POOL, SITE, Things

        if self._iis is None:
            raise ValueError("IIS runs on Windows hosts only, and this is none.")
        things = [(SITE, name) for name in step.get("sites", ())] + [(POOL, name) for name in step.get("pools", ())]
        return Things(self._iis, self._store, self._request, things).still_on()

    def _look_at_tasks(self, step: dict[str, Any]) -> list[str]:
        record = self._store.read(TASK, {"name": step["record"]})
        if record is None or not record["done"]:
            return ["%s has not run to its end" % step["file"]]
        return [] if record.get("boot_id") == self._boot_id else ["%s did not run since the host was booted anew" % step["file"]]

    def _look_at_member(self, step: dict[str, Any]) -> list[str]:
        member, driver = self._member(step)
        return ["%s (%s): %s" % (member.title, step["names"][0], sentence) for sentence in driver.still_on()]

    def _member(self, step: dict[str, Any]) -> tuple[Any, Any]:
        from ansible_collections.graceful.azure.plugins.module_utils._cluster import Members, Tools, check_options
        from ansible_collections.graceful.azure.plugins.module_utils._cluster_types import TYPES

        if step["type"] not in TYPES:
            raise ValueError("this release knows no duty of the type %s." % step["type"])
        kind, name = TYPES[step["type"]], step["names"][0]
        options = check_options(kind, step["options"])[0]
        member = kind(options, self._tools or Tools())
        return member, Members(member, self._store, self._request, step["type"], name, options, self._boot_id)


def _told(state: dict[str, Any]) -> str:
    """What a cluster says, in words."""
    return ", ".join("%s: %s" % (key, value) for key, value in sorted(state.items()))
