# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One look at a machine, told as data whatever happens to it. Private to the collection.

The passes of the playbook handle_events must go on when a machine is silent, half dead or set
up wrong, so a look never fails: C(reached) says whether the module ran there, C(error) what
went wrong, C(fatal) what a person must mend. A machine that answers and does not come to an end
is cut off: nothing is changed by a look, so what goes on there does no harm. For the same reason
a look that waits may be ended as soon as another one has news (C(News)).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

from ansible.errors import AnsibleAuthenticationFailure, AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase

GRACE = 4.0
"""Seconds that a look may take beyond those that its module needs: to connect, to begin and to answer."""
GRACE_EACH = 1.0
"""The same, for each look more that the controller may have to do at the same time."""
TICK = 0.1
"""Seconds between two looks at the clock, and at whether there are news."""
READ = 1.5
"""Seconds after news within which a look at a host that they name has read them, too: it reads once a second."""
INTERVAL = 1.0
"""Seconds that lie at least between two reads of one metadata service: Azure's advice for polling."""
ANSWER = 4.0
"""Seconds that the host's own service may take to answer, where it is asked."""
SOCKET = 5.0
"""Seconds that HAProxy may take to answer, and its command line to be found."""
UNREACHED = "unreached"
"""In place of a fingerprint, where there is none."""


class _CutOffError(BaseException):
    """A look's time is over. Connections try again after an Exception, so this is none."""


class _Limit:
    """Ends what runs under it after so many seconds, and the processes that are waited for there.

    C(is_unwanted) may end it sooner, but only while it waits for a connection: everything else is short, and may be half done.
    """

    def __init__(self, seconds, is_unwanted=None):
        self.seconds = seconds
        self.is_unwanted = is_unwanted
        self.parent = os.getppid()
        self.over = False
        self.ended = False

    def __enter__(self):
        self.began = time.monotonic()
        self.handler = signal.signal(signal.SIGALRM, self._tick)
        self.left = signal.setitimer(signal.ITIMER_REAL, min(TICK, self.seconds), TICK)[0]
        return self

    def __exit__(self, *_error):
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self.handler)
        if self.left:
            # The keyword timeout of the task, which has the same clock.
            signal.setitimer(signal.ITIMER_REAL, max(0.001, self.left - (time.monotonic() - self.began)))
        if self.over:
            raise _CutOffError from None

    def _tick(self, _signal, frame):
        if not self.over:
            self.over = time.monotonic() - self.began >= self.seconds
        if not self.over and self._is_given_up() and _waits(frame):
            self.over = self.ended = True
        if not self.over:
            return
        # Once is not enough where something on the way turns it into another error and tries again.
        signal.setitimer(signal.ITIMER_REAL, 1.0, 1.0)
        while frame:
            for value in list(frame.f_locals.values()):
                if isinstance(value, subprocess.Popen) and value.pid:
                    value.terminate()
            frame = frame.f_back
        raise _CutOffError

    def _is_given_up(self):
        # A run that was killed leaves its workers behind, which have a session of their own.
        return os.getppid() != self.parent or bool(self.is_unwanted and self.is_unwanted())


def _waits(frame):
    """Whether a connection runs a command: its method of that name is on the stack."""
    while frame:
        if frame.f_code.co_name in ("exec_command", "put_file"):
            return True
        frame = frame.f_back
    return False


class News:
    """A file on the controller, one for each pass, by which a look that has seen a new event ends all others.

    It does not exist until then. Each line holds the names in Azure that new events have. C(known): pairs of an event's id and status that are
    nothing new.
    """

    def __init__(self, path, known=()):
        self.path = path
        self.known = known
        self.since = None

    def tell_events(self, events, expected=()):
        """What a look has seen. That an event is over is news of those alone who expect it: others may lag behind, and would tell it pass by pass."""
        new = [event for event in events if [event["event_id"].lower(), event["event_status"]] not in self.known]
        if new or not {event_id.lower() for event_id in expected} <= {event["event_id"].lower() for event in events}:
            self.tell({name.lower() for event in new for name in event["resources"]})

    def tell(self, names=()):
        """That there is something to be done, and the names of those whom a look will tell that by itself."""
        try:
            # In one write, so that nobody reads half a line.
            with open(self.path, "ab", buffering=0) as file:
                file.write(json.dumps(sorted(names)).encode() + b"\n")
        except OSError:
            pass  # the others look to the end of their time

    def end(self, name=None):
        """Whether they end the look at a host of that name in Azure. One that they name reads them itself in a moment, and needs no second look then."""
        try:
            with open(self.path, encoding="utf-8") as file:
                names = [name for line in file for name in json.loads(line)]
        except (OSError, ValueError):
            return False
        if self.since is None:
            self.since = time.monotonic()
        return (name or "").lower() not in names or time.monotonic() - self.since >= READ


def _signalled(result):
    """Whether a module's process was ended from outside, as a reboot does, rather than failed."""
    return "module_stdout" in result and (result.get("rc", 0) >= 128 or result.get("rc", 0) < 0)


def _first_line(text):
    lines = [line.strip() for line in str(text).splitlines() if line.strip()]
    return lines[0] if lines else "no message"


class LookAction(ActionBase):
    """Runs a module once and returns its result, or a result that says why there is none."""

    TRANSFERS_FILES = False

    def look(self, module_name, module_args, task_vars, seconds, is_unwanted=None):
        """The module's result with C(reached) and C(began) (controller's clock, Unix seconds) added. It may take C(seconds).

        If C(is_unwanted()) came true meanwhile, C(ended) is true, and nothing else is known.
        """
        began = time.time()
        beside = min(int(task_vars.get("ansible_forks") or 1), len(task_vars.get("ansible_play_hosts_all") or [1]))
        seconds += GRACE + GRACE_EACH * beside
        limit = _Limit(seconds, is_unwanted)
        try:
            with limit:
                result = self._execute_module(module_name=f"graceful.azure.{module_name}", module_args=module_args, task_vars=task_vars)
        except _CutOffError:
            if limit.ended:
                self._connection.close()
                return {"ended": True, "changed": False, "began": began}
            self._connection._shell.tmpdir = None
            result = {"reached": False, "cut_off": seconds, "error": f"it answers, and the look did not come to its end within {seconds:g} s"}
        except AnsibleAuthenticationFailure as error:
            result = {"reached": False, "fatal": _first_line(error), "error": _first_line(error)}
        except AnsibleConnectionFailure as error:
            self._connection._shell.tmpdir = None  # nothing can be tidied up there
            result = {"reached": False, "error": _first_line(error)}
        except (AnsibleError, OSError) as error:
            result = {"reached": False, "fatal": _first_line(error), "error": _first_line(error)}
        else:
            result = self._told(result)
        result.setdefault("changed", False)
        result["began"] = began
        return result

    @staticmethod
    def _told(result):
        """What a module said, as data."""
        if result.get("unreachable"):
            return {"reached": False, "error": _first_line(result.get("msg"))}
        if not result.get("failed"):
            return dict(result, reached=True)
        said = _first_line(result.get("msg"))
        if "module_stdout" in result:
            said = _first_line(result.get("module_stderr") or result.get("module_stdout") or said)
        failure = {"reached": False, "error": said}
        if not _signalled(result):
            failure["fatal"] = said
        # What it could tell all the same.
        failure.update((key, result[key]) for key in ("other_holds",) if key in result)
        return failure

    def look_at_host(self, args, task_vars, news=None, read_at=None, interval=INTERVAL):
        """A look at the task's host with C(host_observation). C(news): the C(News) that end it, or that it has for the others.

        C(read_at): when its metadata service was last read.
        """
        # Where the clock was set back nothing is known of how long ago it was.
        since = time.time() - (read_at or 0)
        time.sleep(max(0.0, min(interval, interval - since)))
        timeout, wait, name = float(args.get("timeout", 5)), float(args.get("wait", 0)), args.get("resource_name")
        # The metadata service is read once more at the end of the wait, and again where an expected event is gone.
        seconds = timeout + wait + (timeout if wait else 0) + (timeout + INTERVAL if args.get("expected") else 0) + (ANSWER if args.get("ask") else 0)
        result = self.look("host_observation", args, task_vars, seconds, (lambda: news.end(name)) if news and wait else None)
        if result.get("ended"):
            return result
        if news and result.get("events") is not None:
            news.tell_events(result["events"], args.get("expected") or ())
        return dict(result, fingerprint=result.get("fingerprint", UNREACHED), at=time.time() - result.get("age", 0.0))

    def look_at_balancer(self, module, args, task_vars, news=None):
        """A look at the task's machine, on which a balancer runs. C(news): the C(News) that end it."""
        wait = float(args.get("timeout", 0))
        result = self.look(module, args, task_vars, wait + SOCKET, news.end if news and wait else None)
        if result.get("ended"):
            return result
        result["at"] = time.time()
        if result.get("absent"):
            result["error"] = "no HAProxy runs there"
        if result["reached"] and result["level"] not in (None, "admin"):
            result["fatal"] = f"the HAProxy socket {args['socket']} allows only the level {result['level']}; admin is needed"
        elif result["reached"] and result.get("state_dir_problem"):
            result["fatal"] = result["state_dir_problem"]
        if result.get("fatal"):
            result["servers"] = None
        return result

    def cleanup(self, force=False):
        """Tidy up; a machine that went silent meanwhile is no error of the look."""
        try:
            super().cleanup(force=force)
        except AnsibleConnectionFailure:
            pass
