# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The watcher itself: reads once a second, asks what is to be started, starts it, and says so."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time

from ansible_collections.graceful.azure.plugins.module_utils._absence import READ_AGAIN, Absences
from ansible_collections.graceful.azure.plugins.module_utils._events import READ_SECONDS
from ansible_collections.graceful.azure.plugins.module_utils._imds import NAME_SECONDS, RATE_MOST, ImdsClient, ImdsError
from ansible_collections.graceful.azure.plugins.module_utils._spellings import fold
from ansible_collections.graceful.azure.plugins.module_utils._waiting import FIRST_ANSWER_TIMEOUT, Reader
from ansible_collections.graceful.azure.plugins.module_utils._watcher_settings import RUN, SOURCE

from . import actions, notes, system
from .decision import ASTRAY, BUSY, DONE, FAILED, HOLD, OUT, TAKEN, UNDO, Decider, FastPath
from .settings import LOCK, STATUS

REQUEST_SECONDS = 10.0
# With the longest request it must be alive again.
WATCHDOG_RESERVE = 20.0
FAST_SECONDS = 30.0
# Status and metrics are written on every change, and this often.
REPORT_SECONDS = 10.0
# While the same thing goes wrong, it is said again, or tried again, this often.
REMIND_SECONDS = 60.0
ONCE_SECONDS = 30.0


class Stop(BaseException):
    """Somebody wants the watcher to end."""


def say(level, what, **fields):
    prefix = f"<{level}>" if os.environ.get("JOURNAL_STREAM") else ""
    # Without systemd, its log may be a file on a disk that is full, or a pipe that nobody reads any more.
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(prefix + notes.line(what, fields) + "\n")
        sys.stderr.flush()


class Watcher:
    def __init__(self, settings, version, monotonic=time.monotonic, sleep=time.sleep):
        self.settings = settings
        self.version = version
        self._monotonic = monotonic
        self._sleep = sleep
        self._client = ImdsClient(settings.imds_url, request_timeout=REQUEST_SECONDS)
        self._reader = Reader(self._client, settings.resource_name)
        self._state_file = os.path.join(settings.data_dir, "state.json")
        self._written = []
        self.decider = Decider(settings.repeat)
        self._hold = self._load_hold()
        self.fast = None
        # Whether the record of the fast path could not be read, and when it is read next.
        self._is_unread = False
        self._read_record_at = float("-inf")
        # Whether the record of the fast path says something else than what is so; when it is tried again, and what was said of it when.
        self._is_unrecorded = False
        self._record_at = float("-inf")
        self._record_said = None
        self._absences = Absences()
        self._doubtful = set()
        self._emptied = False
        # When the service is asked next for this VM's name. Never again once it has told that.
        self._ask_name_at = float("-inf")
        self._action = None
        self._follow = actions.Follow(settings.state_dir)
        self._command = None
        self._reported_at = None
        self._last_answer = None
        self._error = None
        self._error_said_at = None
        self._silent_since = None
        self._silent_reads = 0
        self._leave_until = monotonic()
        self._stopping = False
        self._waiting = False
        self.counts = dict.fromkeys(("answers", "errors", "actions_started", "actions_failed", "fast_path_started", "fast_path_failed"), 0)
        self.last = "nothing to do yet"

    # From beginning to end

    def run(self):
        """Watch until SIGTERM. Raises system.Locked if another watcher does."""
        lock = self._begin()
        # What an earlier one wrote tells nothing of this one.
        self.report()
        say(notes.INFO, "started", version=self.version, action=self.settings.action, imds_url=self.settings.imds_url)
        system.notify("READY=1")
        try:
            next_at = self._monotonic()
            while not self._stopping:
                self.tick()
                system.notify("WATCHDOG=1")
                # A read that took long costs the ticks that it took, and shifts none.
                now = self._monotonic()
                next_at += READ_SECONDS * max(1, -int((next_at - now) // READ_SECONDS))
                self._wait(self._sleep, max(0.0, next_at - now))
        except Stop:
            pass
        finally:
            system.notify("STOPPING=1")
            self._stop_running()
            say(notes.INFO, "ended")
            system.unlock(lock)

    def once(self):
        """One look and what is due because of it, to its end. Whether all went well."""
        lock = self._begin()
        try:
            start = self._monotonic()
            options = {"deadline": start + FIRST_ANSWER_TIMEOUT, "retry_until": start + ONCE_SECONDS, "request_timeout": FIRST_ANSWER_TIMEOUT}
            if not self.read(**options):
                return False
            if self._doubtful:
                self._wait(self._sleep, READ_AGAIN)
                if not self.read(**options):
                    return False
            self.act()
            while self._action is not None or self._command is not None:
                self._wait(self._sleep, 0.05)
                self._look_at_running()
            self.report()
            return self.counts["actions_failed"] + self.counts["fast_path_failed"] == 0 and not (self._is_unrecorded or self._is_unread)
        except Stop:
            self._stop_running()
            return False
        finally:
            # What has ended since it was started; what has not is for the next look.
            self._save_state()
            system.unlock(lock)

    def _begin(self):
        """Have the lock, then what an earlier process has left; returns the lock."""
        for folder, mode in ((self.settings.run_dir, 0o755), (self.settings.data_dir, 0o700)):
            os.makedirs(folder, mode, exist_ok=True)
        lock = system.lock(os.path.join(self.settings.run_dir, LOCK))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        self.load()
        return lock

    def load(self):
        self._written = self._load_state()
        self.decider = Decider(self.settings.repeat, self._written)
        self._absences = Absences(self.decider.begun)
        self.fast = FastPath(self.settings.fast_path_types) if self._hold is not None else None
        self._read_record()

    def _stop_running(self):
        for running in (self._command, self._action):
            if running is not None:
                running.stop()

    def _on_signal(self, number, frame):
        self._stopping = True
        if self._waiting:
            # Only from where nothing is half done.
            raise Stop

    def _wait(self, call, *args, **kwargs):
        """A call that may take long, and that SIGTERM ends."""
        self._waiting = True
        try:
            if self._stopping:
                raise Stop
            return call(*args, **kwargs)
        finally:
            self._waiting = False

    # A tick

    def tick(self):
        if self._monotonic() >= self._leave_until:
            self.read(retry_until=self._monotonic(), request_timeout=self._patience())
        self.act()

    def act(self):
        self._start_fast_path()
        self._look_at_running()
        self._start_action()
        self._save_state()
        if self._reported_at is None or self._monotonic() >= self._reported_at + REPORT_SECONDS:
            self.report()

    def read(self, **options):
        """Ask the service, and take over what it says; whether it answered."""
        try:
            reading = self._wait(self._reader.read, name_needed_by="the watcher", **options)
        except ImdsError as error:
            self._note_error(error)
            return False
        if self._monotonic() >= self._ask_name_at and self._is_called_otherwise():
            return self.read(**options)
        now = self._monotonic()
        self.counts["answers"] += 1
        self._last_answer = now
        if self._silent_since is not None:
            say(notes.INFO, "answers_again", seconds=now - self._silent_since)
        if self._error is not None or self._silent_reads or self.counts["answers"] == 1:
            self._set_watchdog(REQUEST_SECONDS)
            self._reported_at = None
        self._error = self._silent_since = self._error_said_at = None
        self._silent_reads = 0
        naming = [event for event in reading.events if event["affects_host"]]
        doubtful = self._doubtful = self._absences.note([fold(event["event_id"]) for event in naming], now, reading.proves)
        changes = self.decider.observe(naming, now, doubtful)
        if self.fast is not None:
            self.fast.observe(naming, doubtful)
            self._start_fast_path()
        if any(what == "gone" for what, _event in changes):
            # What is recorded now is what a run has yet to give back.
            self._follow.look()
        for what, event in changes:
            say(notes.INFO, what, **notes.event_fields(event))
        if reading.empty_body and doubtful and not self._emptied:
            say(notes.WARNING, "doubt", text="the service answered with an empty body, which ends no event", events=",".join(sorted(doubtful)))
        self._emptied = reading.empty_body
        for warning in reading.warnings if changes else ():
            say(notes.WARNING, "doubt", text=warning)
        if changes:
            self._reported_at = None
        return True

    def _is_called_otherwise(self):
        """Whether the service calls this host otherwise than the settings, which may have another one's name. Then that counts from now on."""
        given = self.settings.resource_name
        try:
            told = self._wait(self._client.get_resource_name, self._client.monotonic() + NAME_SECONDS, float("-inf")) if given else None
        except ImdsError:
            self._ask_name_at = self._monotonic() + REMIND_SECONDS
            return False
        self._ask_name_at = float("inf")
        if told is None or told.lower() in (given.strip().lower(), (self._reader.resource_name or "").lower()):
            return False
        say(notes.ERROR, "wrong_name", text=f"resource_name is {given}, and the metadata service calls this VM {told}. That counts: correct the setting")
        self._reader.resource_name = told
        return True

    def _patience(self):
        """The service takes its time for the first answer ever, which a restart must not wait for every time."""
        if self._last_answer is not None or not self._silent_reads:
            return REQUEST_SECONDS
        seconds = min(REQUEST_SECONDS * 2**self._silent_reads, FIRST_ANSWER_TIMEOUT)
        self._set_watchdog(seconds)
        return seconds

    @staticmethod
    def _set_watchdog(seconds):
        system.notify(f"WATCHDOG_USEC={int((seconds + WATCHDOG_RESERVE) * 1e6)}")

    def _note_error(self, error):
        now = self._monotonic()
        self.counts["errors"] += 1
        self._silent_reads += 1
        if self._silent_since is None:
            self._silent_since = now
        if error.status == 429:
            self._leave_until = now + min(error.retry_in, RATE_MOST)
        if self._error_said_at is None or now >= self._error_said_at + REMIND_SECONDS:
            self._error_said_at = now
            self._reported_at = None
            say(notes.WARNING, "no_answer", seconds=now - self._silent_since, text=error)
        self._error = str(error)

    # The action

    def _start_action(self):
        task = self.decider.due(self._monotonic())
        if task is None:
            return
        self.decider.started(task)
        # Before it is: whoever comes after a sudden end must know of it.
        self._save_state()
        self.counts["actions_started"] += 1
        lock = os.path.join(self.settings.run_dir, "run.lock")
        self._follow.look()
        self._action = actions.begin(self.settings, task, self._reader.resource_name, self.version, lock, follow=self._follow)
        ids = {name: ",".join(event["event_id"] for event in getattr(task, name)) or None for name in ("events", "gone")}
        target, left_out = actions.target_of(task)
        say(notes.INFO, "action_started", kind=self.settings.action, why=task.why, target=target or None, **ids)
        if left_out:
            say(notes.WARNING, "names_left_out", text="no names that a host pattern can hold", names=",".join(left_out))
        self.last = f"running since {_clock()} ({task.why})"
        self._reported_at = None
        self._look_at_running()

    def _look_at_running(self):
        now = self._monotonic()
        ended = self._action.poll() if self._action is not None else None
        if ended is not None:
            self._action = None
            outcome, text = ended
            outcome = self._doubt(outcome)
            self.decider.ended(outcome, now)
            self._follow.ended_well = outcome == DONE
            outcome = {ASTRAY: FAILED, TAKEN: DONE}.get(outcome, outcome)
            failed = outcome not in (DONE, BUSY)
            self.counts["actions_failed"] += failed
            say(notes.ERROR if failed else notes.INFO, f"action_{outcome}", kind=self.settings.action, text=text)
            self.last = f"{outcome} at {_clock()} ({text})"
            self._reported_at = None
        ended = self._command.poll() if self._command is not None else None
        if ended is not None:
            self._command = None
            self._end_fast_path(ended, now)

    def _doubt(self, outcome):
        """A command that ended well and left this host held for an event that is over has taken one step of more: it is run again."""
        gone = actions.ids_of(self.decider.running.gone)
        if outcome == DONE and self.settings.action == RUN and gone:
            self._follow.look()
            if self._follow.held is not None and self._follow.is_held(gone):
                return TAKEN
        return outcome

    # The fast path

    def _load_hold(self):
        if not self.settings.fast_path:
            return None
        # Most have none, and need not keep it in memory.
        from .hold import FastHold

        return FastHold(self.settings.state_dir)

    def _read_record(self):
        """What an earlier process holds. Its record may not be there yet, on a disk that is mounted late, or a person may have to mend it first."""
        now = self._monotonic()
        if self.fast is None or self.fast.held or now < self._read_record_at:
            return
        self._read_record_at = now + REPORT_SECONDS
        try:
            held, done = self._hold.read()
            self._is_unread = False
        except self._hold.Error as error:
            self._is_unread = True
            self._say_of_record(error)
            return
        if held:
            self.fast.take(held, done)
            self._absences.expect(self.fast.held)

    def _start_fast_path(self):
        if self.fast is None:
            return
        now = self._monotonic()
        what = self.fast.due(now)
        if what != OUT and now < self._record_at:
            return
        if what is None:
            self._read_record()
            if self._is_unrecorded:
                self._record(list(self.fast.held.values()), done=self.fast.done)
            return
        ids = self.fast.hold() if what != UNDO else list(self.fast.held.values())
        # The hold must outlive whatever happens during the undoing.
        if what != OUT and not self._record(ids, done=what == HOLD) and what == UNDO:
            return
        if what == HOLD:
            say(notes.INFO, "fast_path_held", events=",".join(ids))
            return
        argv = self.settings.fast_path if what == OUT else self.settings.fast_path_undo
        self.fast.started(what)
        if not argv:
            self._end_fast_path((DONE, "nothing to undo"), self._monotonic())
            return
        document = {"source": SOURCE, "why": what, "events": list(self.decider.events.values())}
        self._command = actions.Command(argv, document, FAST_SECONDS)
        if what == OUT:
            # Begun before it is recorded: a disk that is slow must not cost the little time that there is.
            self._record(ids, done=False)
        self.counts["fast_path_started"] += 1
        say(notes.INFO, f"fast_path_{what}", events=",".join(ids))
        self._reported_at = None

    def _end_fast_path(self, ended, now):
        outcome, text = ended
        what = self.fast.running
        if outcome == DONE and what == UNDO and not self._record([], done=False):
            # Undone again, and recorded then: until that, the record holds the host.
            outcome, text = FAILED, "what it has undone is still recorded"
        self.fast.ended(outcome == DONE, now)
        if outcome != DONE:
            self.counts["fast_path_failed"] += 1
            say(notes.ERROR, "fast_path_failed", command=what, text=text)
        elif what == OUT:
            self._record(list(self.fast.held.values()), done=True)
            say(notes.INFO, "fast_path_done")
        else:
            say(notes.INFO, "fast_path_undone")
        self._reported_at = None

    def _record(self, ids, done):
        """Whether it could be done. If not, it is tried again at the next look."""
        now = self._monotonic()
        try:
            self._hold.write(ids, done, self.decider.events.values())
            self._is_unrecorded, self._is_unread, self._record_said = False, False, None
        except self._hold.Error as error:
            self._is_unrecorded, self._record_at = True, now + READ_SECONDS / 2
            self._say_of_record(error)
        return not self._is_unrecorded

    def _say_of_record(self, error):
        now = self._monotonic()
        if self._record_said is None or now >= self._record_said + REMIND_SECONDS:
            self._record_said = now
            self._reported_at = None
            say(notes.ERROR, "fast_path_record", text=error)

    # What is kept and shown

    def _load_state(self):
        """The events for which an earlier process began something."""
        try:
            events = json.loads(system.read_regular(self._state_file).decode("utf-8"))["begun"]
            return [dict(_NOT_KNOWN, **event) for event in events if isinstance(event["event_id"], str) and _are_names(event["resources"])]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            say(notes.WARNING, "state_lost", path=self._state_file, text=f"{type(error).__name__}: {error}")
            return []

    def _save_state(self):
        begun = self.decider.unfinished
        if [event["event_id"] for event in begun] == [event["event_id"] for event in self._written]:
            return
        try:
            system.write_whole(self._state_file, json.dumps({"begun": begun}) + "\n", 0o600, durable=True)
            self._written = begun
        except OSError as error:
            if self._reported_at is None:
                say(notes.ERROR, "state_not_saved", path=self._state_file, text=error.strerror)

    def report(self):
        now = self._monotonic()
        self._reported_at = now
        state = self.state(now)
        for path, text in ((os.path.join(self.settings.run_dir, STATUS), json.dumps(state)), (self.settings.textfile, notes.metrics(state))):
            if path:
                try:
                    system.write_whole(path, text)
                except OSError as error:
                    say(notes.WARNING, "not_written", path=path, text=error.strerror)

    def state(self, now):
        events = list(self.decider.events.values())
        ahead = [event["seconds_until_not_before"] for event in events if event["seconds_until_not_before"] is not None]
        return dict(
            self.counts,
            version=self.version,
            settings=self.settings.digest,
            pid=os.getpid(),
            written=time.time(),
            host=self._reader.resource_name,
            action=self.settings.action,
            doing=self.last,
            error=self._error,
            last_answer_age=None if self._last_answer is None else round(now - self._last_answer, 3),
            action_failing=self.decider.failing,
            fast_path_failing=self.fast is not None and (self.fast.failures > 0 or self._is_unrecorded or self._is_unread),
            seconds_until_not_before=min(ahead) if ahead else None,
            events=[notes.event_fields(event) for event in events],
            fast_path_held=list(self.fast.held.values()) if self.fast is not None else [],
        )


# What is read of an event beside its id and resources.
_NOT_KNOWN = dict.fromkeys(("event_type", "event_status", "event_source", "not_before"))


def _are_names(value):
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _clock():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
