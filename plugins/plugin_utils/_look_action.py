# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The base of actions that look at a machine: a host, or a balancer's machine. Private to the collection.

A machine may be silent, half dead or set up wrong. The passes of the playbook handle_events must go on all the same, so a look never fails. Its
result says so instead:

C(reached) whether the module ran there
C(error)   what went wrong
C(fatal)   what a person must mend

A look changes nothing, so it does no harm to end one early. It has a time limit for machines that answer and never finish. A look that waits also
ends as soon as another look has news (C(_news.py)).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleAuthenticationFailure, AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.registry import OVERHEAD, is_windows, run_module
from ansible_collections.graceful.azure.plugins.plugin_utils._text import first_line, last_words
from ansible_collections.graceful.azure.plugins.plugin_utils._time_limit import CutOffError, TimeLimit, pause
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json, Options, Variables

if TYPE_CHECKING:
    from ansible_collections.graceful.azure.plugins.plugin_utils._duties.traffic import TrafficDuty
    from ansible_collections.graceful.azure.plugins.plugin_utils._news import News

GRACE = 4.0
"""Seconds that a look may take beyond the time of its module: to connect, to start and to answer."""
GRACE_EACH = 1.0
"""Seconds more for each look that the controller may run at the same time."""
INTERVAL = 1.0
"""The shortest time in seconds between two reads of one metadata service. Azure advises it for polling."""
ANSWER = 4.0
"""Seconds that the host's own service may take to answer, if it is asked."""
STEP = 10.0
"""Seconds that the look at a drain step may take. A cluster that cannot be reached takes so long."""
SOCKET = 5.0
"""Seconds that HAProxy may take to answer, including the search for its command line."""
UNREACHED = "unreached"
"""The fingerprint of the events of a host that could not be read."""


def _signalled(result: Json) -> bool:
    """Whether a signal ended the module's process, as in a reboot. Otherwise the module failed by itself."""
    return "module_stdout" in result and (result.get("rc", 0) >= 128 or result.get("rc", 0) < 0)


def of_others(records: Iterable[Json], task_vars: Variables) -> str | None:
    """A sentence if another host of the inventory has records where this one has its own. A name that the inventory lacks is one that a host had before."""
    paths: dict[str, str] = {}
    for record in records:
        for entry in record["events"].values():
            host = (entry.get("details") or {}).get("host")
            if host and host != task_vars["inventory_hostname"]:
                paths.setdefault(host, record["path"])
    others = [other for other in paths if other in task_vars["hostvars"]]
    if not others:
        return None
    return (
        f"its folder has records of {' and '.join(others)} ({paths[others[0]]}): they are one machine, or share the folder over a network. See that they"
        f" are released for {' and '.join(others)}, then leave one name out of the inventory, or give each a graceful_azure_state_dir of its own"
    )


class LookAction(ActionBase):
    """Runs a module once and returns its result, or a result that says why there is none."""

    TRANSFERS_FILES = False

    def look(
        self,
        module_name: str,
        module_args: Options,
        task_vars: Variables,
        seconds: float,
        is_unwanted: Callable[[], bool] | None = None,
    ) -> Json:
        """The module's result with C(reached) and C(began) (Unix seconds by the controller's clock) added. The module may take C(seconds).

        If C(is_unwanted()) became true while it ran, C(ended) is true. Then the result holds nothing else but C(watched), the end of the look.
        """
        began = time.time()
        beside = min(int(task_vars.get("ansible_forks") or 1), len(task_vars.get("ansible_play_hosts_all") or [1]))
        seconds += GRACE + GRACE_EACH * beside + (OVERHEAD if is_windows(self, task_vars) else 0.0)
        limit = TimeLimit(seconds, is_unwanted)
        try:
            with limit:
                result = run_module(self, module_name, module_args, task_vars, pause)
        except CutOffError:
            if limit.ended:
                self._connection.close()
                return {"ended": True, "changed": False, "began": began, "watched": time.time()}
            self._connection._shell.tmpdir = None
            result = {"reached": False, "cut_off": seconds, "error": f"it answers, and the look did not come to its end within {seconds:g} s"}
        except AnsibleAuthenticationFailure as error:
            result = {"reached": False, "fatal": first_line(error), "error": first_line(error)}
        except AnsibleConnectionFailure as error:
            self._connection._shell.tmpdir = None  # the temporary folder cannot be removed there
            result = {"reached": False, "error": first_line(error)}
        except (AnsibleError, OSError) as error:
            result = {"reached": False, "fatal": first_line(error), "error": first_line(error)}
        else:
            result = self._told(result)
        result.setdefault("changed", False)
        result["began"] = began
        return result

    @staticmethod
    def _told(result: Json) -> Json:
        """The module's result with C(reached), and with C(error) and C(fatal) if it failed."""
        if result.get("unreachable"):
            return {"reached": False, "error": first_line(result.get("msg"))}
        if not result.get("failed"):
            return dict(result, reached=True)
        said = last_words(result) if "module_stdout" in result else first_line(result.get("msg"))
        failure = {"reached": False, "error": said}
        if not _signalled(result):
            failure["fatal"] = said
        # A module that fails still returns these.
        failure.update((key, result[key]) for key in ("other_holds",) if key in result)
        return failure

    def look_at_host(
        self,
        args: Options,
        task_vars: Variables,
        news: News | None = None,
        turn: Json | Iterable[tuple[str, Any]] = (),
        interval: float = INTERVAL,
    ) -> Json:
        """Look at the task's host with C(host_observation).

        C(news): the C(News) that end this look, and to which it adds what it sees. C(turn): what the plan says of the look, see C(_planning/turns.py).
        """
        turn = dict(turn)
        # If the clock was set back, nobody knows how long ago that was.
        since = time.time() - (turn.get("read_at") or 0)
        time.sleep(max(0.0, min(interval, interval - since)))
        timeout, wait, name = float(args.get("timeout", 5)), float(args.get("wait", 0)), args.get("resource_name")
        # The module reads the metadata service once more after the wait, and again if an expected event is gone.
        seconds = timeout + wait + (timeout if wait else 0) + (timeout + INTERVAL if args.get("expected") else 0) + (ANSWER if args.get("ask") else 0)
        seconds += STEP * len([*(args.get("steps") or ()), *(args.get("marks") or ())])
        result = self.look("host_observation", args, task_vars, seconds, (lambda: news.end(name)) if news and wait else None)
        if result.get("ended"):
            return result
        others = of_others(result.get("holds") or (), task_vars)
        if others:
            # They say what was done for another, so they do not count for this host.
            result.update(holds=None, fatal=others, of_others=True)
        if news and result.get("events") is not None:
            # An empty body tells nothing of the events that the service has shown before.
            shown = {} if result.get("empty_body") else turn.get("shown")
            news.tell_events(result["events"], args.get("expected", ()), shown, turn.get("not_shown", ()))
        return dict(result, fingerprint=result.get("fingerprint", UNREACHED), at=time.time() - result.get("age", 0.0))

    def look_at_balancer(self, provider: TrafficDuty, module: str, args: Options, task_vars: Variables, news: News | None = None) -> Json:
        """Look at the task's machine, on which a balancer of that C(TrafficDuty) runs. C(news): the C(News) that end this look."""
        wait = float(args.get("timeout", 0))
        result = self.look(module, args, task_vars, wait + SOCKET, news.end if news and wait else None)
        if result.get("ended"):
            return result
        return provider.read(dict(result, at=time.time()), args)

    def cleanup(self, force: bool = False) -> None:
        """Tidy up. If the machine cannot be reached any more, the look has not failed for that."""
        try:
            super().cleanup(force=force)
        except AnsibleConnectionFailure:
            pass
