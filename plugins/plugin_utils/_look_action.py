# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The base of actions that look at a machine: a host, or a balancer's machine.

A machine may be silent, half dead or set up wrong. The passes of the playbook handle_events must go on all the same, so a look never fails. Its
result says so instead:

C(reached)   whether the module ran there
C(error)     what went wrong
C(fatal)     what a person must mend
C(seems_off) whether nothing answered at its address

A look changes nothing, so it does no harm to end one early. It has a time limit for machines that answer and never finish. A look that waits also
ends as soon as another look has news (C(_news.py)).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleAuthenticationFailure, AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.graceful.azure.plugins.module_utils._events import READ_SECONDS
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.by_platform import OVERHEAD, ask_machine, is_windows
from ansible_collections.graceful.azure.plugins.plugin_utils._text import first_line, last_words, was_killed
from ansible_collections.graceful.azure.plugins.plugin_utils._time_limit import CutOffError, TimeLimit, pause
from ansible_collections.graceful.azure.plugins.plugin_utils._types import Json, Options, Variables

if TYPE_CHECKING:
    from ansible_collections.graceful.azure.plugins.plugin_utils._duties.traffic import TrafficDuty
    from ansible_collections.graceful.azure.plugins.plugin_utils._news import News

ACT = 60.0
"""Seconds that an act may take besides those for which it waits."""
GRACE = 4.0
"""Seconds that a look may take beyond the time of its module: to connect, to start and to answer."""
GRACE_EACH = 1.0
"""Seconds more for each look that the controller may run at the same time."""
ANSWER = 4.0
"""Seconds that the host's own service may take to answer, if it is asked."""
STEP = 10.0
"""Seconds that the look at a drain step may take. A cluster that cannot be reached takes so long."""
SOCKET = 5.0
"""Seconds that HAProxy may take to answer, including the search for its command line."""
UNREACHABLE, FAILED = "unreachable", "failed"
"""What Ansible calls a task whose machine could not be reached, and one that went wrong."""
OF_ALL = ("journal_missed", "by_module", "ansible_facts", "warnings", "deprecations")
"""What an answer says besides its acts and its look: also how it came about, and what Ansible found out about the machine."""
OF_MACHINES_OFF = ("timed out", "no route to host", "unreachable")
"""What ssh and the like say where nothing answers. Their exit status tells this and a refusal by the machine alike."""
UNREACHED = "unreached"
"""The fingerprint of the events of a host that could not be read."""


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


def _unreached(said: object) -> Json:
    """The result of a look at a machine that could not be reached. C(said): what the connection said."""
    error = first_line(said)
    return {"reached": False, "error": error, "seems_off": any(words in error.lower() for words in OF_MACHINES_OFF)}


def request_of(look: Json | None, acts: Sequence[Json], journal: Any = None) -> Json:
    """What a machine is asked, see C(_handle.py)."""
    request: Json = {"acts": list(acts)} if acts else {}
    return {**request, **({"look": look} if look else {}), **({"journal": journal} if journal else {})}


def rest_of(turn: Json, interval: float) -> float:
    """Seconds until the metadata service of a host may be read again. If the clock was set back, nobody knows how long ago that was."""
    since = time.time() - (turn.get("read_at") or 0)
    return max(0.0, min(interval, interval - since))


def after_rest(args: Options, rest: float) -> Options:
    """The options of a look at a host that begins so many seconds after the look at its balancers: the two end together all the same."""
    return dict(args, at_least=max(0.0, args["at_least"] - rest)) if args.get("at_least") else args


def grace(task_vars: Variables) -> float:
    """Seconds that a request may take beyond the time of what is asked."""
    beside = min(int(task_vars.get("ansible_forks") or 1), len(task_vars.get("ansible_play_hosts_all") or [1]))
    return GRACE + GRACE_EACH * beside


def host_seconds(args: Options) -> float:
    """How long a look at a host may take."""
    timeout, wait = float(args.get("timeout", 5)), float(args.get("wait", 0))
    # The metadata service is read once more after the wait, and again if an expected event is gone.
    seconds = timeout + wait + (timeout if wait else 0) + (timeout + READ_SECONDS if args.get("expected") else 0) + (ANSWER if args.get("ask") else 0)
    return seconds + STEP * sum(len(args.get(which) or ()) for which in ("duties", "before", "marks"))


def balancer_seconds(args: Options) -> float:
    """How long a look at a balancer may take."""
    return float(args.get("timeout", 0)) + SOCKET


class LookAction(ActionBase):
    """Asks a machine, and returns what it answers, or a result that says why it did not."""

    TRANSFERS_FILES = False

    def ask(self, request: Json, task_vars: Variables, seconds: float, is_unwanted: Callable[[], bool] | None = None) -> Json:
        """The results of the C(acts), and that of the C(look) with C(reached) and C(began) (Unix seconds by the controller's clock) added.

        C(request): see C(_handle.py). Its look may take C(seconds), and each act C(ACT) more. If C(is_unwanted()) became true meanwhile, the look has
        C(ended), and nothing else but C(watched), the end of the look.
        """
        began = time.time()
        acts = request.get("acts") or []
        of_look = seconds + grace(task_vars) + (OVERHEAD if is_windows(self, task_vars) else 0.0)
        seconds = of_look + sum(ACT + float(act["args"].get("timeout") or 0.0) for act in acts)
        limit = TimeLimit(seconds, is_unwanted, must_finish=bool(acts))
        # It says for how long the machine is spared, which need not be as long as acts may take.
        unfinished = {"reached": False, "cut_off": of_look, "error": f"the machine is reached, but did not finish its answer within {seconds:g} s"}
        answer: Json = {}
        try:
            with limit:
                answer = ask_machine(self, request, task_vars, pause)
        except CutOffError:
            if limit.ended:
                self._connection.close()
                return {"acts": [], "look": {"ended": True, "changed": False, "began": began, "watched": time.time()}}
            self._connection._shell.tmpdir = None
            lost, failure = UNREACHABLE, unfinished
        except AnsibleAuthenticationFailure as error:
            lost, failure = UNREACHABLE, {"reached": False, "fatal": first_line(error), "error": first_line(error)}
        except AnsibleConnectionFailure as error:
            self._connection._shell.tmpdir = None  # the temporary folder cannot be removed there
            lost, failure = UNREACHABLE, _unreached(error)
        except (AnsibleError, OSError) as error:
            lost, failure = FAILED, {"reached": False, "fatal": first_line(error), "error": first_line(error)}
        else:
            lost = UNREACHABLE if answer.get("unreachable") else FAILED
            failure = self._told(answer) if answer.get("failed") or answer.get("unreachable") else {}
        if failure:
            answer = {"acts": [{lost: True, "changed": False, "msg": failure["error"]} for _act in acts]}
            look = failure
        else:
            look = self._told(answer.get("look") or {})
            if time.time() - began > seconds + GRACE:
                # The controller was suspended, and the limit did not count that. What the machine saw before may not be so any more.
                look = unfinished
        look.update({key: answer[key] for key in OF_ALL if key in answer})
        look.setdefault("changed", False)
        return {"acts": answer["acts"], "look": dict(look, began=began)}

    def look(self, call: str, args: Options, task_vars: Variables, seconds: float, is_unwanted: Callable[[], bool] | None = None, journal: Any = None) -> Json:
        """The result of one look. C(journal): what the journal of the machine is told before."""
        look: Json = self.ask(request_of({"call": call, "args": args}, (), journal), task_vars, seconds, is_unwanted)["look"]
        return look

    @staticmethod
    def _told(result: Json) -> Json:
        """A result with C(reached), and with C(error) and C(fatal) if it failed."""
        if result.get("unreachable"):
            return _unreached(result.get("msg"))
        if not result.get("failed"):
            return dict(result, reached=True)
        said = last_words(result) if "module_stdout" in result else first_line(result.get("msg"))
        failure = {"reached": False, "error": said}
        if not ("module_stdout" in result and was_killed(result)):
            failure["fatal"] = said
        # These are told all the same.
        failure.update((key, result[key]) for key in ("other_holds",) if key in result)
        return failure

    def look_at_host(self, args: Options, task_vars: Variables, news: News | None, turn: Json, interval: float) -> Json:
        """Look at the task's host.

        C(news): the C(News) that end this look, and to which it adds what it sees. C(turn): what the plan says of the look, see C(_planning/turns.py).
        """
        rest = rest_of(turn, interval)
        time.sleep(rest)
        args = after_rest(args, rest)
        wait, name = float(args.get("wait", 0)), args.get("resource_name")
        given = {option: value for option, value in args.items() if option != "journal"}
        unwanted = (lambda: news.end(name)) if news and wait else None
        result = self.look("host_observation", given, task_vars, host_seconds(args), unwanted, args.get("journal"))
        return result if result.get("ended") else self.seen_of_host(result, args, task_vars, news, turn)

    def seen_of_host(self, result: Json, args: Options, task_vars: Variables, news: News | None, turn: Json) -> Json:
        """What a look at the task's host means here. C(result): that of the look. The other arguments: as for C(look_at_host)."""
        others = of_others(result.get("holds") or (), task_vars)
        if others:
            # They say what was done for another, so they do not count for this host.
            result.update(holds=None, fatal=others, of_others=True)
        if news and result.get("events") is not None:
            # An empty body tells nothing of the events that the service has shown before.
            shown = {} if result.get("empty_body") else turn.get("shown")
            news.tell_events(result["events"], args.get("expected", ()), shown, turn.get("not_shown", ()))
        return dict(result, fingerprint=result.get("fingerprint", UNREACHED), at=time.time() - result.get("age", 0.0))

    def look_at_balancer(self, provider: TrafficDuty, call: str, args: Options, task_vars: Variables, news: News | None) -> Json:
        """Look at the task's machine, on which a balancer of that C(TrafficDuty) runs. C(news): the C(News) that end this look."""
        unwanted = news.end if news and float(args.get("timeout", 0)) else None
        result = self.look(call, args, task_vars, balancer_seconds(args), unwanted)
        return result if result.get("ended") else provider.read(dict(result, at=time.time()), args)

    def cleanup(self, force: bool = False) -> None:
        """Tidy up. If the machine cannot be reached any more, the look has not failed for that."""
        try:
            super().cleanup(force=force)
        except AnsibleConnectionFailure:
            pass
