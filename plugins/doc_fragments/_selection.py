# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  event_types:
    description:
      - Only events of these types.
    type: list
    elements: str
    choices: [Freeze, Reboot, Redeploy, Preempt, Terminate]
  event_statuses:
    description:
      - Only events with one of these statuses. There is no status for an event that is over, because it is no longer listed.
    type: list
    elements: str
    choices: [Scheduled, Started]
  affecting_host_only:
    description:
      - Only events whose C(Resources) name this host. The service also lists the events of the host's neighbours.
    type: bool
  query:
    description:
      - A JMESPath expression for the list of events that the other options select. The events have the same keys as in the result. The expression must
        return a list of these events.
      - A word that is not a key of an event is an error, because a comparison with it would never match. Put strings in single quotes.
    type: str
"""

    # For modules. A lookup takes the event ids as its terms.
    EVENT_IDS = r"""
options:
  event_ids:
    description:
      - Only events with these ids. Upper and lower case do not matter. An empty list is an error.
    type: list
    elements: str
"""

    # The default is different for reading and for waiting.
    AFFECTING_ANY = r"""
options:
  affecting_host_only:
    default: false
"""

    AFFECTING_HOST = r"""
options:
  affecting_host_only:
    default: true
"""

    WAIT = r"""
options:
  state:
    description:
      - The states that end the wait. If several are reached, the outcome is the first one in the order given.
      - V(present) - a selected event is listed.
      - V(scheduled) - at least one selected event has that status.
      - V(started) - at least one selected event has that status.
      - V(absent) - no selected event is listed. An event that is over is no longer listed. One answer may be wrong or old, so this takes two documents
        in a row, at least half a second apart. One document is enough if its C(DocumentIncarnation) is greater than that of the last document that
        listed a selected event. An answer with an empty body is not a document and proves nothing.
    type: list
    elements: str
    choices: [present, scheduled, started, absent]
    default: [present]
  timeout:
    description:
      - Seconds for the whole wait. V(0) sets no limit.
      - Timing out is a failure.
    type: float
    default: 300
  sleep:
    description:
      - Seconds between two reads. The service allows five requests a second for each VM, counting all clients.
      - The read that confirms V(absent) comes after half a second at the earliest and after one second at the latest.
    type: float
    default: 1
  delay:
    description:
      - Seconds to wait before the first read. They count towards O(timeout).
    type: float
    default: 0
"""
