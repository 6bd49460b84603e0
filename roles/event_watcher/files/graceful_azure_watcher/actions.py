# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The actions. Each is begun at once and looked at with poll(), which tells how it ended; nobody waits for one."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from urllib.parse import urlsplit

from ansible_collections.graceful.azure.plugins.module_utils._events import HOST_NAME, OVER, SERVING, clip
from ansible_collections.graceful.azure.plugins.module_utils._spellings import fold, reason_of
from ansible_collections.graceful.azure.plugins.module_utils._watcher_settings import AWX, EDA, FILE, HMAC, HOST_CONFIG_KEY, JOB_TEMPLATE, RUN, SOURCE

from . import system
from .decision import ASTRAY, BUSY, DONE, FAILED, REFUSED, TAKEN
from .settings import SettingsError

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 20.0
# For a whole request, whatever the receiver does.
REQUEST_SECONDS = 30.0
BODY_LIMIT = 1 << 20
# Between SIGTERM and SIGKILL.
GRACE_SECONDS = 10.0

# All VMs of an event launch for all of them. The first name does at once, the others a little later, and find its job there.
TURN_SECONDS = 3.0
TURNS = 5
# A template may have many jobs for other events, or of a schedule: what is looked for must not leave the page because of them.
_ACTIVE_JOBS = "jobs/?status__in=new,pending,waiting,running&order_by=-id&page_size=50"
_ENDED_JOBS = "jobs/?status=successful&order_by=-finished&page_size=50"
# Of the jobs that may have finished an event that is gone, so many are asked for their result.
_RESULTS_ASKED = 3
_FINISHED = "a job has finished it already: nothing is held on this host any more"


def target_of(task):
    """The names of all VMs of the task's events as a host pattern, and the names that can be in none."""
    names = list(dict.fromkeys(name for event in task.events + task.gone for name in event["resources"]))
    return ",".join(name for name in names if HOST_NAME.match(name)), [name for name in names if not HOST_NAME.match(name)]


def document_of(task, host, version, target=None):
    """What commands, webhooks and files are told. C(target): the host pattern of the settings, in place of the names of the VMs."""
    return {
        "source": SOURCE,
        "version": version,
        "host": host,
        "why": task.why,
        "target": target or target_of(task)[0],
        "events": task.events,
        "gone": task.gone,
    }


class Follow:
    """What is remembered from one action to the next, to ask what became of it before another is begun."""

    def __init__(self, state_dir):
        self._state_dir = state_dir
        self.ended_well = False
        # The id of the job that was launched last, until its end is known, and the events that stood and were gone then.
        self.job = None
        self.posted = None
        # The events that hold something on this host now (None: that cannot be told), and those of which that was seen to end last.
        self.held = None
        self._recorded = set()

    def look(self):
        """Read the records on this host."""
        # Only once there is an event: until then it need not be in memory.
        from .hold import look

        self.held, last = look(self._state_dir)
        self._recorded |= last

    def is_posted(self, wanted, ended):
        """Whether the last job was launched for all of these."""
        return self.posted is not None and wanted <= self.posted[0] and ended <= self.posted[1]

    def is_held(self, ids):
        """Whether any of them holds anything on this host, or may."""
        return self.held is None or bool(ids & self.held)

    def still_holds(self, ids):
        """Whether a new look shows that any of them holds anything on this host; None: that cannot be told."""
        if not ids:
            return False
        self.look()
        return None if self.held is None else self.is_held(ids)

    def is_settled(self, ids):
        """Whether a run has given this host back for all of them. That none is held says it only of those that were seen to be."""
        return bool(ids) and ids <= self._recorded and not self.is_held(ids)


def ids_of(events):
    return {fold(event["event_id"]) for event in events}


def begin(settings, task, host, version, run_lock, monotonic=time.monotonic, follow=None):
    """The action of the settings for this task, begun."""
    document = document_of(task, host, version, settings.target)
    follow = follow or Follow(settings.state_dir)
    # Of other VMs this host's records tell nothing.
    finished = follow.ended_well and all(map(_alone, task.gone)) and follow.is_settled(ids_of(task.gone))
    if settings.action == RUN and not task.events and finished:
        return Ended(DONE, "the command has finished it already, and nothing is held on this host any more")
    if settings.action == RUN:
        return _begin_run(settings, document, run_lock, monotonic)
    if settings.action == FILE:
        return _write(settings.path, document)
    if not document["target"]:
        return Ended(REFUSED, "none of the names in Resources can be the name of a host")
    try:
        secret = settings.secret()
    except SettingsError as error:
        return Ended(REFUSED, str(error))
    if settings.action == AWX and settings.auth == HOST_CONFIG_KEY and not any(map(_alone, task.events + task.gone)):
        return Ended(REFUSED, "the event names other VMs too, and a provisioning callback starts a job for this one alone: give a token")
    works = {AWX: _call_back if settings.auth == HOST_CONFIG_KEY else _launch, EDA: _post}
    return Request(settings, works[settings.action], (settings, secret, document, follow), monotonic)


class Ended:
    """An action that took no time."""

    def __init__(self, outcome, text):
        self._result = (outcome, text)

    def poll(self):
        return self._result

    def stop(self):
        pass


def _write(path, document):
    """The action file: the journal has said it already, a file says it to programs."""
    if path:
        try:
            system.write_whole(path, json.dumps(document, indent=2) + "\n")
        except OSError as error:
            return Ended(REFUSED, f"{path} cannot be written: {error.strerror}")
    return Ended(DONE, path or "journal")


# Commands


def _begin_run(settings, document, run_lock, monotonic):
    try:
        lock = system.lock(run_lock)
    except system.Locked:
        return Ended(BUSY, "a command that an earlier watcher started still runs")
    except OSError as error:
        return Ended(REFUSED, f"{run_lock} cannot be locked: {error.strerror}")
    return Command(settings.command, document, settings.command_timeout, lock, monotonic)


class Command:
    """A command of the user's in a process group of its own, with the document on its standard input.

    The child keeps ``lock`` open, so that a watcher that follows one that was killed knows that it still runs.
    """

    def __init__(self, argv, document, seconds, lock=None, monotonic=time.monotonic):
        self._monotonic = monotonic
        self._end = monotonic() + seconds
        self._seconds = seconds
        self._lock = lock
        self._killed_at = None
        self._process = None
        self._error = None
        try:
            with _input(document) as stream:
                self._process = subprocess.Popen(argv, stdin=stream, stdout=_output(), start_new_session=True, pass_fds=() if lock is None else (lock,))
        except (OSError, ValueError) as error:
            self._error = f"{argv[0]} cannot be started: {reason_of(error)}"
            self._give_back()

    def poll(self):
        """None while it runs; else how it ended, and in words."""
        if self._process is None:
            return (REFUSED, self._error)
        status = self._process.poll()
        now = self._monotonic()
        if status is None:
            if self._killed_at is None and now >= self._end:
                self._killed_at = now
                system.end_group(self._process)
            elif self._killed_at is not None and now >= self._killed_at + GRACE_SECONDS:
                system.end_group(self._process, signal.SIGKILL)
            return None
        self._give_back()
        if self._killed_at is not None:
            return (FAILED, f"ended by force after {self._seconds:g} s")
        if status == 0:
            return (DONE, "status 0")
        return (FAILED, f"signal {-status}" if status < 0 else f"status {status}")

    def stop(self):
        """End it and all that it started, because the watcher ends."""
        if self._process is None or self._process.poll() is not None:
            return
        system.end_group(self._process)
        try:
            self._process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            system.end_group(self._process, signal.SIGKILL)
            self._process.wait()
        self._give_back()

    def _give_back(self):
        if self._lock is not None:
            system.unlock(self._lock)
            self._lock = None


def _output():
    """Standard output of the watcher is for people who ask it something; what a command says goes to the log."""
    return 2


def _input(document):
    # A pipe would have to be fed by somebody, and a disk may be busy just then.
    stream = open(os.memfd_create("events"), "w+b") if hasattr(os, "memfd_create") else tempfile.TemporaryFile()
    stream.write(json.dumps(document).encode())
    stream.seek(0)
    return stream


# Requests


class Request:
    """Work with HTTP requests in a thread of its own. Whatever the receiver does, it is over after REQUEST_SECONDS of talking."""

    def __init__(self, settings, work, arguments, monotonic=time.monotonic):
        self.settings = settings
        self._monotonic = monotonic
        self._end = None
        self._tap = None
        self._was_cut = False
        self._tap_lock = threading.Lock()
        self._stopped = threading.Event()
        # For a thread that dies of what nobody has thought of; its traceback goes to the journal.
        self._result = (FAILED, f"{_where(settings.url)}: ended by a mistake in the watcher")
        self.sent = False
        self._thread = threading.Thread(target=self._run, args=(work, arguments), daemon=True)
        self._thread.start()

    def poll(self):
        if self._thread.is_alive():
            end = self._end
            if end is not None and self._monotonic() >= end:
                self._cut()
            return None
        return self._result

    def stop(self):
        self._stopped.set()
        self._cut()
        self._thread.join(1)

    def wait_a_turn(self, seconds):
        self._stopped.wait(seconds)

    def ask(self, method, url, headers, body=None):
        """The status and the body of an answer. Raises OSError or http.client.HTTPException if there is none."""
        if self._stopped.is_set():
            raise OSError("the watcher ends")
        self._end = self._monotonic() + REQUEST_SECONDS
        parts = urlsplit(url)
        if parts.scheme == "https":
            context = ssl.create_default_context(cafile=self.settings.ca_file)
            connection = _Tls(self, parts.hostname, parts.port, timeout=CONNECT_SECONDS, context=context)
        else:
            connection = _Plain(self, parts.hostname, parts.port, timeout=CONNECT_SECONDS)
        try:
            connection.connect()
            connection.sock.settimeout(ANSWER_SECONDS)
            self.sent = self.sent or method == "POST"
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request(method, target, body, dict(headers, **{"User-Agent": SOURCE, "Connection": "close"}))
            answer = connection.getresponse()
            said = answer.read(BODY_LIMIT)
            if self._was_cut:
                raise socket.timeout
            if answer.length and len(said) < BODY_LIMIT:
                raise http.client.IncompleteRead(said, answer.length)
            # http.client asks for no encoding and decodes none. What comes encoded all the same is not looked at; its status counts.
            encoded = answer.getheader("Content-Encoding", "identity").strip().lower() not in ("", "identity")
            return answer.status, b"" if encoded else said
        finally:
            self._end = None
            connection.close()
            self.tap(None)

    def tap(self, sock):
        """Keep a second handle of the connection: shut down there, it ends in the thread too."""
        with self._tap_lock:
            if self._tap is not None:
                self._tap.close()
            self._tap = sock.dup() if sock is not None else None

    def _cut(self):
        self._was_cut = True
        with self._tap_lock:
            if self._tap is not None:
                try:
                    self._tap.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def _run(self, work, arguments):
        try:
            self._result = work(self, *arguments)
        except (OSError, ValueError, http.client.HTTPException) as error:
            self._result = (FAILED if self.sent else REFUSED, f"{_where(self.settings.url)}: {_why(error)}")


class _Plain(http.client.HTTPConnection):
    def __init__(self, request, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._request = request

    def connect(self):
        http.client.HTTPConnection.connect(self)
        self._request.tap(self.sock)


class _Tls(http.client.HTTPSConnection):
    def __init__(self, request, *args, context, **kwargs):
        super().__init__(*args, context=context, **kwargs)
        self._request = request
        self._tls = context

    def connect(self):
        http.client.HTTPConnection.connect(self)
        self._request.tap(self.sock)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self.host)


def _where(url):
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _why(error):
    if isinstance(error, socket.timeout):
        return "no answer in time"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid: {error.verify_message}"
    if isinstance(error, http.client.HTTPException):
        return f"no whole answer ({type(error).__name__})"
    return reason_of(error)


def _judge(status, body):
    """How a request ended that was answered with this status."""
    if 200 <= status < 300:
        return DONE, f"status {status}"
    # A gateway that waited in vain does not know what became of the request.
    return FAILED if status >= 500 else REFUSED, f"status {status}{_quoted(body)}"


def _quoted(body):
    said = clip(body[:300].decode("utf-8", "replace").strip()) if body.strip() else ""
    return f": {said}" if said else ""


def _parsed(text):
    """What the JSON says; None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None


# EDA: a webhook


def _post(request, settings, secret, document, _follow):
    body = json.dumps(document).encode()
    headers = {"Content-Type": "application/json"}
    if settings.auth == HMAC:
        headers["X-Hub-Signature-256"] = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    else:
        headers["Authorization"] = f"Bearer {secret}"
    return _judge(*request.ask("POST", settings.url, headers, body))


# AWX


def _alone(event):
    """Whether it names this VM and no other. All of a task's events name it."""
    return len({name.lower() for name in event["resources"]}) == 1


def _judge_awx(status, body):
    if status != 201 and 200 <= status < 300:
        return FAILED, f"status {status}, where AWX says 201{_quoted(body)}"
    return _judge(status, body)


def _call_back(request, settings, secret, document, follow):
    wanted, ended = ids_of(document["events"]), ids_of(document["gone"])
    if follow.held is None and follow.is_posted(wanted, ended):
        follow.posted = None
        return FAILED, "what its job has come to cannot be told: the records on this host cannot be read"
    spared = _is_called_back(document, wanted, ended, follow)
    if spared:
        follow.posted = None
        return DONE, spared
    # As JSON and with extra_vars, be it empty: anything else is refused where the template asks for variables.
    body = json.dumps({"host_config_key": secret, "extra_vars": {}}).encode()
    status, answer = request.ask("POST", _below(settings.url, "callback/"), {"Content-Type": "application/json"}, body)
    pending = status == 400 and b"already pending" in answer
    outcome, text = (BUSY, "a job for this host is under way") if pending else _judge_awx(status, answer)
    if outcome == DONE:
        # What becomes of the job is shown to nobody who has only this key. What it does to this host is recorded on it.
        follow.posted = (wanted, ended)
        outcome = TAKEN
    others = [event["event_id"] for event in document["events"] + document["gone"] if not _alone(event)]
    return outcome, text + (f"; it is not for {', '.join(others)}, which other VMs share: give a token" if others else "")


def _is_called_back(document, wanted, ended, follow):
    """Why no job is to be asked for: the last one has had its effect; else None."""
    if not wanted and follow.is_settled(ended):
        return _FINISHED
    if not follow.is_posted(wanted, ended):
        return None
    if ended and follow.is_held(ended):
        return None
    if all(event["event_status"] != "Scheduled" or follow.is_held({fold(event["event_id"])}) for event in document["events"]):
        return "its job was begun" if wanted else "its job was begun, and nothing is held on this host any more"
    return None


def _launch(request, settings, secret, document, follow):
    headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
    standing, gone = ([event["event_id"] for event in document[name]] for name in ("events", "gone"))
    request.wait_a_turn(_turn(document) * TURN_SECONDS)
    may_look, found = _find_job(request, settings.url, headers, document, follow)
    if found is not None:
        return found
    variables = {"target": document["target"], "graceful_azure_event_ids": standing, "graceful_azure_gone_event_ids": gone}
    status, answer = request.ask("POST", _below(settings.url, "launch/"), headers, json.dumps({"extra_vars": variables}).encode())
    outcome, text = _judge_launch(answer, variables) if status == 201 else _judge_awx(status, answer)
    if outcome == DONE and may_look:
        follow.job, follow.posted = _parsed(answer)["id"], (ids_of(document["events"]), ids_of(document["gone"]))
        outcome = TAKEN
    elif outcome == DONE and follow.still_holds(ids_of(document["gone"])):
        # What becomes of the job is not shown. What it does to this host is recorded on it.
        outcome = TAKEN
    return outcome, text


def _judge_launch(answer, variables):
    """How a launch ended that was answered with 201: AWX says so, too, where it has left variables out."""
    reply = _parsed(answer)
    ignored = reply.get("ignored_fields") or {} if isinstance(reply, dict) else None
    dropped = ignored.get("extra_vars") or {} if isinstance(ignored, dict) else None
    if not isinstance(dropped, dict) or not reply.get("id"):
        return FAILED, f"status 201, but not with a job as AWX describes it{_quoted(answer)}"
    lost = [name for name in variables if name in dropped]
    if lost:
        return ASTRAY, f"job {reply['id']} was launched without {', '.join(lost)}: the template must have ask_variables_on_launch"
    return DONE, f"job {reply['id']}"


def _turn(document):
    """This VM's place among those that the same event names."""
    own = (document["host"] or "").lower()
    named = [[name.lower() for name in event["resources"]] for event in document["events"] + document["gone"]]
    # What a disk with the state of another VM tells of does not name this one.
    return min([names.index(own) for names in named if own in names] + [TURNS])


def _find_job(request, url, headers, document, follow):
    """Whether the jobs may be looked at; and how it ended where a job is at work on the same, has finished it or has failed, else None."""
    wanted, ended = ids_of(document["events"]), ids_of(document["gone"])
    status, answer = request.ask("GET", _below(url, _ACTIVE_JOBS), headers)
    jobs = _listed(answer) if status == 200 else None
    may_look = jobs is not None and all(isinstance(job, dict) for job in jobs)
    for job, for_standing, for_gone in _jobs(status, answer):
        if wanted | ended <= for_standing | for_gone and _serves(job, document["target"]):
            if job.get("id") != follow.job:
                # Somebody's later one: what became of the own one matters no more.
                follow.job = None
            return may_look, (BUSY, f"job {job.get('id')} is under way")
    if may_look and follow.job is not None:
        found = _judge_job(request, url, headers, follow.job, wanted, ended)
        if found is None and follow.is_posted(wanted, ended):
            text = f"job {follow.job}, of whose end nothing can be read"
            # Only this host's records can tell it then.
            found = (DONE, text) if follow.still_holds(ended) is False else (FAILED, f"{text}: this host is not given back")
        elif found and found[0] == DONE and follow.still_holds(ended):
            found = FAILED, f"{found[1]}, but this host is not given back"
        if not found or found[0] != BUSY:
            follow.job = None
        if found:
            return may_look, found
    if wanted:
        return may_look, None
    if all(map(_alone, document["gone"])) and follow.is_settled(ended):
        return may_look, (DONE, _FINISHED)
    found = _find_ended(request, url, headers, ended, document["target"])
    if found and found[0] == DONE and follow.still_holds(ended) is not False:
        # Whatever it has done, another one is to give this host back.
        found = None
    return may_look, found


def _find_ended(request, url, headers, ended, target):
    """How a successful job ended that has finished these events, which are gone, for this target."""
    asked = []
    for job, for_standing, for_gone in _jobs(*request.ask("GET", _below(url, _ENDED_JOBS), headers)):
        if not _serves(job, target):
            continue
        if ended <= for_gone:
            return DONE, f"job {job.get('id')}"
        if ended <= for_standing | for_gone:
            asked.append(job.get("id"))
    for number in asked[:_RESULTS_ASKED]:
        found = _judge_job(request, url, headers, number, set(), ended)
        if found and found[0] in (DONE, BUSY):
            return found
    return None


def _judge_job(request, url, headers, number, wanted, ended):
    """What became of a job, as an action's end; False where it has not done with all of these events, None where it cannot be read."""
    if isinstance(number, bool) or not isinstance(number, int):
        return None
    address = JOB_TEMPLATE.sub(f"/jobs/{number}/", url)
    status, answer = request.ask("GET", address, headers)
    job = _parsed(answer) if status == 200 else None
    if status >= 500:
        return BUSY, f"job {number} cannot be asked for its end just now: status {status}"
    if not isinstance(job, dict) or not isinstance(job.get("status"), str):
        return None
    if job["status"] in ("failed", "error"):
        return FAILED, f"job {number} has failed{_quoted(str(job.get('job_explanation') or '').encode('utf-8', 'replace'))}"
    if job["status"] == "canceled":
        # Somebody's will, or AWX's. What it left must be finished, but not in haste.
        return ASTRAY, f"job {number} was cancelled"
    if job["status"] != "successful" or job.get("event_processing_finished") is False:
        # Its result comes with the last of its output.
        return BUSY, f"job {number} is under way"
    if not wanted <= _named(job, "graceful_azure_event_ids") or (ended and not _is_run(job)):
        return False
    if ended <= _named(job, "graceful_azure_gone_event_ids") | _finished(job):
        return DONE, f"job {number} has finished it"
    return False


def _finished(job):
    """The ids of the events that are over by a job's result, with every one of their hosts back in service."""
    artifacts = job.get("artifacts")
    entries = artifacts.get("graceful_azure") if isinstance(artifacts, dict) else None
    found = set()
    for entry in entries if isinstance(entries, list) else []:
        hosts = entry.get("hosts") if isinstance(entry, dict) else None
        if not isinstance(hosts, dict) or not hosts or entry.get("outcome") not in OVER:
            continue
        back = all(isinstance(host, dict) and host.get("state") in SERVING for host in hosts.values())
        if back and isinstance(entry.get("event_id"), str):
            found.add(fold(entry["event_id"]))
    return found


def _listed(answer):
    """The list in an answer; None where it has none."""
    reply = _parsed(answer)
    jobs = reply.get("results") if isinstance(reply, dict) else None
    return jobs if isinstance(jobs, list) else None


def _jobs(status, answer):
    """The jobs of an answer, each with the ids of the events that stood and of those that were gone when it was launched."""
    jobs = [job for job in (_listed(answer) if status == 200 else None) or () if isinstance(job, dict)]
    return [(job, _named(job, "graceful_azure_event_ids"), _named(job, "graceful_azure_gone_event_ids")) for job in jobs]


def _is_run(job):
    """A check does nothing."""
    return job.get("job_type", "run") == "run"


def _serves(job, target):
    """Whether a job does for all of this host pattern what one of this watcher's would do."""
    pattern = _variable(job, "target")
    if not _is_run(job) or not isinstance(pattern, str):
        return False
    theirs, own = _parts(pattern), _parts(target)
    # What a pattern excludes or intersects makes it smaller.
    return own <= theirs and not any(part[0] in "!&" for part in theirs - own)


def _parts(pattern):
    """The parts of a host pattern. Their order is of no account, as in Ansible."""
    return set(filter(None, re.split(r"[,:;\s]+", pattern)))


def _variable(job, name):
    """One of a job's variables, which are JSON in a string."""
    variables = _parsed(job.get("extra_vars"))
    return variables.get(name) if isinstance(variables, dict) else None


def _named(job, variable):
    """The ids of events in a job's variable."""
    value = _variable(job, variable)
    return {fold(event_id) for event_id in value if isinstance(event_id, str)} if isinstance(value, list) else set()


def _below(url, name):
    return url.rstrip("/") + "/" + name
