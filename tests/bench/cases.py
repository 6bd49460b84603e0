# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cases in which a hand-written playbook goes wrong: each as a row, ours beside it on the same bed."""

from __future__ import annotations

import signal
import socket
import time

from tests.bench.figures import OURS, PEER
from tests.bench.stage import StageError
from tests.demo import records

HANDLE = "graceful.azure.handle_events"


class Clinger:
    """A client whose answer does not end until it hangs up: what keeps a server from being drained."""

    def __init__(self, stage, host):
        """Asks until the answer comes from that host."""
        for _attempt in range(200):
            self.connection = socket.create_connection(("127.0.0.1", stage.world.port("haproxy")), 5)
            self.connection.sendall(b"GET /endless HTTP/1.1\r\nHost: bench\r\n\r\n")
            if "x-backend: {0}\r".format(host) in self.connection.recv(4096).decode().lower():
                return
            self.connection.close()
        raise StageError("no endless answer from {0}".format(host))

    def hang_up(self):
        self.connection.close()


def both(stage, what, case, right, **facts):
    """The case with each of the two; right(outcome) says whether an outcome is as it should be."""
    told = {}
    for who, name in (("ours", OURS), ("peer", PEER)):
        stage.clear()
        stage.begin()
        try:
            told[who] = case(stage, name, **facts)
        finally:
            requests = stage.end()
        told[who]["failed"] = records.count_failed(requests)
    stage.clear()
    words = {who: "; ".join("{0}".format(value) for value in (outcome["words"], failed_words(outcome)) if value) for who, outcome in told.items()}
    return [{"what": what, **words, "ok": right(told["ours"]), "peer_ok": right(told["peer"]), "figures": told}]


def failed_words(outcome):
    return "{0} requests failed".format(outcome["failed"]) if outcome["failed"] else ""


def started(stage, name, *arguments):
    """The playbook, waiting for an event."""
    process = stage.play(name, *arguments)
    stage.rest(5.0)
    return process


def ended(stage, process, seconds):
    """Lets the playbook come to its end, or ends it after so many seconds; its exit code, None where it had to be ended."""
    try:
        return stage.finish(process, seconds)
    except StageError:
        stage.stop(process)
        return None


def code_words(code):
    return "the run did not end" if code is None else "the run ended with {0}".format(code)


def two_in_one_event(stage):
    """Two VMs in one event, one of them slow to drain."""

    def case(stage, name):
        process = started(stage, name, "-e", "peer_strategy=free")
        clinger = Clinger(stage, "web2")
        event_id = stage.announce("Reboot", ["web1", "web2"], impact=4)
        stage.until(lambda: stage.admin("web1") != "ready" and stage.admin("web2") != "ready", "both out")
        stage.rest(10)
        early = stage.approved(event_id) is not None
        clinger.hang_up()
        stage.until(lambda: stage.is_over(event_id), "the event's end")
        ended(stage, process, 40)
        return {"words": "approved while one was not drained" if early else "approved when both were drained", "early": early}

    return both(stage, "two VMs in one event, one slow (the peer with strategy: free)", case, lambda told: not told["early"])


def fast_beside_slow(stage, slow=15.0):
    """Two events, one host drains at once and one slowly: when is the quick one approved?"""

    def case(stage, name):
        process = started(stage, name)
        clinger = Clinger(stage, "web2")
        slow_id = stage.announce("Reboot", ["web2"], impact=4)
        quick_id = stage.announce("Reboot", ["web1"], impact=4)
        visible = stage.visible(quick_id)
        until = time.monotonic() + slow
        stage.until(lambda: time.monotonic() > until, "the slow one", slow + 10)
        clinger.hang_up()
        stage.until(lambda: stage.approved(quick_id) is not None, "the approval")
        stage.until(lambda: stage.is_over(quick_id) and stage.is_over(slow_id), "the events' end")
        ended(stage, process, 40)
        seconds = stage.approved(quick_id) - visible
        return {"words": "approved after {0:.1f} s".format(seconds), "seconds": seconds}

    return both(stage, "a quick host beside one that takes {0:.0f} s to drain".format(slow), case, lambda told: told["seconds"] < slow)


def operators_maintenance(stage):
    """The server is in an operator's maintenance when the event comes."""

    def case(stage, name):
        stage.set_server("web1", "state maint")
        process = started(stage, name)
        event_id = stage.announce("Reboot", ["web1"], impact=4)
        stage.until(lambda: stage.is_over(event_id), "the event's end")
        code = ended(stage, process, 40)
        left = stage.admin("web1")
        return {"words": "left in maintenance" if left == "maint" else "put into service ({0})".format(left), "left": left, "code": code}

    return both(stage, "a server in an operator's maintenance", case, lambda told: told["left"] == "maint")


def endless_drain(stage):
    """A session that never ends; the event starts by itself."""

    def case(stage, name):
        process = started(stage, name, "-e", "drain_seconds=10", "-e", "graceful_azure_drain_timeout=10")
        clinger = Clinger(stage, "web1")
        event_id = stage.announce("Reboot", ["web1"], impact=4, notice=35)
        stage.until(lambda: stage.is_over(event_id), "the event's end")
        clinger.hang_up()
        code = ended(stage, process, 40)
        stage.rest(3)
        return state_after(stage, "web1", code, stage.approved(event_id) is not None)

    return both(stage, "a drain that never ends", case, lambda told: told["left"] == "ready" and not told["approved"])


def state_after(stage, host, code, approved=False):
    left = stage.admin(host)
    words = "back in service" if left == "ready" else "left in {0}".format(left)
    return {"words": "{0}, {1}{2}".format(words, code_words(code), ", approved" if approved else ""), "left": left, "code": code, "approved": approved}


def cancelled_in_mid_drain(stage):
    """Azure cancels the event while the server is being drained."""

    def case(stage, name):
        process = started(stage, name)
        clinger = Clinger(stage, "web1")
        event_id = stage.announce("Reboot", ["web1"], impact=4)
        stage.until(lambda: stage.admin("web1") != "ready", "web1 out")
        stage.rest(2)
        stage.cancel(event_id)
        stage.rest(2)
        clinger.hang_up()
        code = ended(stage, process, 30)
        return state_after(stage, "web1", code)

    return both(stage, "cancelled while draining", case, lambda told: told["left"] == "ready" and told["code"] == 0)


def killed_after_approval(stage):
    """The controller dies after the approval; somebody starts the playbook again once the event is gone."""

    def case(stage, name):
        process = started(stage, name)
        event_id = stage.announce("Reboot", ["web1"], impact=4)
        stage.until(lambda: stage.approved(event_id) is not None, "the approval")
        stage.stop(process, signal.SIGKILL)
        stage.until(lambda: stage.is_over(event_id), "the event's end")
        # The peer's playbook waits for the next event, ours puts right what it finds and ends.
        code = ended(stage, stage.play(HANDLE if name == OURS else name), 40)
        return state_after(stage, "web1", code)

    return both(stage, "killed after the approval, run again when the event is gone", case, lambda told: told["left"] == "ready")


CASES = {
    "two": two_in_one_event,
    "quick": fast_beside_slow,
    "maintenance": operators_maintenance,
    "endless": endless_drain,
    "cancelled": cancelled_in_mid_drain,
    "killed": killed_after_approval,
}
