# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Event filter for ansible-rulebook: what the watchers of the role event_watcher report to a webhook, once."""

from __future__ import annotations

import logging
import re
import sys
import time
from pathlib import Path

DOCUMENTATION = r"""
---
short_description: Removes repeated reports of watchers
description:
  - Every VM that an event names reports it, and again every minute while the event stands. This filter passes on the first report of anything new,
    also of one for another C(event_watcher_target).
    While nothing changes, it passes on one more after 5 minutes, after 10, 20 and 40 more minutes, and then every hour.
  - A VM may lag behind the others and still report an event that has started or is gone. Such a report is nothing new.
  - A report that is passed on becomes RV(change), RV(target) and RV(lane). Nothing else of it is passed on, so that no text of
    a sender gets into the variables of a playbook. All other reports become the change V(nothing).
  - A malformed report is refused with a warning. So is a report whose target contains more than names of hosts.
"""

EXAMPLES = r"""
- graceful.azure.watcher_webhook:
    hmac_secret: "{{ webhook_hmac_secret | string | tojson }}"
  filters:
    - graceful.azure.watcher_reports:
"""

RETURN = r"""
change:
  description: V(reported) or V(nothing).
  type: str
target:
  description: A host pattern for all hosts that the reported events name, by their names in Azure.
  type: str
lane:
  description: As the event source C(graceful.azure.scheduled_events) returns it.
  type: str
"""

# ansible-rulebook runs this file by its path, and knows nothing of collections. Theirs is the folder above ansible_collections.
sys.path.append(str(Path(__file__).absolute().parents[7]))

from ansible_collections.graceful.azure.extensions.eda.plugins.event_source.scheduled_events import (  # noqa: E402
    REMINDER,
    REMINDER_MOST,
    is_behind,
    lane_of,
    next_pause,
)
from ansible_collections.graceful.azure.plugins.module_utils._absence import LAG  # noqa: E402
from ansible_collections.graceful.azure.plugins.module_utils._events import HOST_NAME, clip, telling  # noqa: E402
from ansible_collections.graceful.azure.plugins.module_utils._spellings import fold  # noqa: E402
from ansible_collections.graceful.azure.plugins.module_utils._watcher_settings import SOURCE  # noqa: E402

logger = logging.getLogger(__name__)

NOTHING = {"change": "nothing"}
GONE = "gone"
# After so many seconds without a report, an event is forgotten. Those that stand are told again sooner.
KEPT_SECONDS = 2 * REMINDER_MOST


def find_mistake(report):
    """What is wrong with a report, or None."""
    target, events, gone = report.get("target"), report.get("events"), report.get("gone")
    if not isinstance(target, str) or not all(HOST_NAME.match(name) for name in re.split("[,:]", target)):
        return "target must be names of hosts"
    if not isinstance(events, list) or not isinstance(gone, list) or not all(map(_is_event, events + gone)):
        return "events and gone must be lists of events with event_id and resources"
    return None if events + gone else "it has no event"


def _is_event(event):
    if not isinstance(event, dict) or not isinstance(event.get("event_id"), str) or not isinstance(event.get("resources"), list):
        return False
    return all(isinstance(name, str) for name in event["resources"])


class Reports:
    """Which reports are new. Pure: reports and a clock in."""

    def __init__(self):
        # Per event and target of the settings: what was told, by whom and since when; what each VM said last; when it was told last, and how long until
        # it is told again.
        self.told = {}

    def take(self, report, now):
        """What a report becomes."""
        if not isinstance(report, dict) or report.get("source") != SOURCE:
            return NOTHING
        mistake = find_mistake(report)
        if mistake:
            logger.warning("a watcher's report is refused: %s: %s", mistake, clip(report, 300))
            return NOTHING
        self.told = {key: told for key, told in self.told.items() if now - told["at"] < KEPT_SECONDS}
        names = re.split("[,:]", report["target"])
        target, host = _target_given(report, names), str(report.get("host"))
        shown = {(fold(event["event_id"]), target): telling(event) for event in report["events"]}
        shown.update({(fold(event["event_id"]), target): GONE for event in report["gone"]})
        shown = {key: self.told[key]["what"] if self._is_late(key, what, host, now) else what for key, what in shown.items()}
        changed = [key for key, what in shown.items() if self._is_changed(key, what, host)]
        due = [key for key in shown if key not in changed and now - self.told[key]["at"] >= self.told[key]["pause"]]
        for key, what in shown.items():
            told = self.told.setdefault(key, {"said": {}})
            if key in changed:
                told.update(what=what, host=host, since=now, pause=REMINDER)
            elif key in due:
                told["pause"] = next_pause(told["pause"])
            told["said"][host] = what
            if changed or due:
                told["at"] = now
        return {"change": "reported", "target": report["target"], "lane": lane_of(names)} if changed or due else NOTHING

    def _is_late(self, key, what, host, now):
        """Whether this VM only has not heard yet what another has told."""
        told = self.told.get(key)
        if told is None or what == GONE:
            return False
        if told["what"] == GONE:
            return told["host"] != host and now - told["since"] < LAG
        return is_behind(told["what"][0], what[0])

    def _is_changed(self, key, what, host):
        """Whether that is news. What a VM has said before is none, although another has told something else since: it lags, or they differ for ever."""
        told = self.told.get(key)
        return told is None or told["what"] != what and (told["what"] == GONE or told["said"].get(host) != what)


def _target_given(report, names):
    """The target of the sender's settings; empty if these are the hosts of its events, which every VM of an event reports."""
    named = {name.lower() for event in report["events"] + report["gone"] for name in event["resources"] if HOST_NAME.match(name)}
    given = {name.lower() for name in names}
    return () if given == named else tuple(sorted(given))


REPORTS = Reports()


def main(event):
    """What ansible-rulebook calls."""
    return dict(REPORTS.take(event.get("payload"), time.monotonic()))
