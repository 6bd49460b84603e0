# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the watcher calls: an AWX that answers as the real one does, a webhook, and any answer that a test wants."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
import urllib.parse
from datetime import datetime, timezone

from tests.support.serving import Handler, Server, Serving, certificate_and_key

TOKEN = "t0ken"
KEY = "h0st-config-key"


def certificate(folder, name, *others):
    """A certificate for that name and perhaps others, and its key, in one file."""
    path = folder / f"{name}.pem"
    names = ",".join(f"DNS:{one}" for one in (name, *others))
    path.write_text("".join(part.read_text() for part in certificate_and_key(folder, name, "-subj", f"/CN={name}", "-addext", f"subjectAltName={names}")))
    return path


def without_key(pem):
    """The certificate alone, for who is to trust it."""
    end = b"-----END CERTIFICATE-----\n"
    return pem.read_bytes().partition(end)[0] + end


class Receiver(Serving):
    """Answers with ``answer(request)``: status, body and perhaps headers, None for no answer at all. ``answers`` come first, one after the other.

    It listens at a free port of 127.0.0.1, or with the socket ``listening``.

    A request has ``method``, ``path``, ``headers``, ``body`` (bytes) and ``time``; all are kept in ``seen``.
    """

    path = "/"

    def __init__(self, tls=None, port=0, listening=None):
        self.seen = []
        self.answers = []
        self.at_once = self.most_at_once = 0
        self._lock = threading.Lock()
        receiver = self

        class Answer(Handler):
            def setup(self):
                super().setup()
                if tls:
                    self.request.settimeout(10)

            def do_GET(self):
                receiver.handle(self)

            do_POST = do_GET

        server = Server(Answer, port, listening, tls)
        self.port = server.socket.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://{'localhost' if tls else '127.0.0.1'}:{self.port}{self.path}"
        self.serve(server)

    def posted(self):
        return [request for request in self.seen if request["method"] == "POST"]

    def documents(self):
        return [json.loads(request["body"]) for request in self.posted()]

    def handle(self, handler):
        with self._lock:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            request = {"method": handler.command, "path": handler.path, "headers": handler.headers, "body": handler.body(), "time": time.time()}
            self.seen.append(request)
            answer = self.answers.pop(0) if self.answers else self.answer(request)
            if callable(answer):
                answer = answer(handler)
            if answer is None:
                return
            status, body, *headers = answer
            handler.reply(status, body if isinstance(body, bytes) else json.dumps(body).encode(), headers)
        finally:
            with self._lock:
                self.at_once -= 1

    def answer(self, request):
        return 200, b""


def drip(stop):
    """An answer that never ends, until the event is set: each read of it gets something."""

    def answer(handler):
        handler.wfile.flush()
        while not stop.wait(0.2):
            handler.connection.sendall(b"H")

    return answer


class Webhook(Receiver):
    """A webhook as Event-Driven Ansible's: by token, or by signature."""

    path = "/endpoint"

    def answer(self, request):
        signature = request["headers"].get("X-Hub-Signature-256")
        if signature is not None:
            wanted = "sha256=" + hmac.new(KEY.encode(), request["body"], hashlib.sha256).hexdigest()
            return (200, b"endpoint") if hmac.compare_digest(signature, wanted) else (401, b"HMAC verification failed")
        return (200, b"endpoint") if request["headers"].get("Authorization") == f"Bearer {TOKEN}" else (401, b"Invalid authorization token")


def now():
    return datetime.now(timezone.utc).isoformat()


def listed(jobs, query):
    """A list of jobs as AWX answers it, as far as anybody here asks for one."""
    order, size = query.pop("order_by"), int(query.pop("page_size"))
    wanted = query.pop("status__in", None) or query.pop("status", None)
    assert query == {} and order[0] == "-" and size <= 200
    found = [job for job in jobs if wanted is None or job["status"] in wanted.split(",")]
    found.sort(key=lambda job: job[order[1:]], reverse=True)
    return {"count": len(found), "results": found[:size]}


ACTIVE = ("pending", "waiting", "running")


class Awx(Receiver):
    """One job template of an AWX. ``jobs`` are its jobs, the newest last; a test ends them by their status, or by ``end()``.

    ``survey`` has the names of its questions, and of each whether it is required. ``hosts`` are those of its inventory with the caller's address.
    """

    path = "/api/v2/job_templates/7/"

    def __init__(self, *args, ask_variables=True, survey=None, may_look=True, allow_simultaneous=True, hosts=("www_1",), **kwargs):
        self.jobs = []
        self.ask_variables = ask_variables
        self.survey = survey or {}
        self.may_look = may_look
        self.allow_simultaneous = allow_simultaneous
        self.hosts = hosts
        super().__init__(*args, **kwargs)

    def answer(self, request):
        path, _mark, query = request["path"].partition("?")
        if path == self.path + "callback/" and request["method"] == "POST":
            return self.call_back(request)
        if request["headers"].get("Authorization") != f"Bearer {TOKEN}":
            return 401, {"detail": "Authentication credentials were not provided."}
        if path == self.path + "jobs/" and request["method"] == "GET":
            if not self.may_look:
                return 403, {"detail": "You do not have permission to perform this action."}
            return 200, self.list_jobs(dict(urllib.parse.parse_qsl(query)))
        if path.startswith("/api/v2/jobs/") and request["method"] == "GET":
            found = [job for job in self.jobs if path == f"/api/v2/jobs/{job['id']}/"] if self.may_look else []
            return (200, found[0]) if found else (404, {"detail": "No Job matches the given query."})
        if path == self.path + "launch/" and request["method"] == "POST":
            return self.launch(json.loads(request["body"])["extra_vars"])
        return 404, {"detail": "The requested resource could not be found."}

    def launch(self, variables):
        missing = self.missing(variables)
        if missing:
            return 400, {"variables_needed_to_start": [f"'{name}' value missing" for name in missing]}
        taken = self.taken(variables)
        dropped = {name: value for name, value in variables.items() if name not in taken}
        job = self.add_job(taken)
        return 201, {"job": job["id"], "id": job["id"], "ignored_fields": {"extra_vars": dropped} if dropped else {}}

    def missing(self, variables):
        return [name for name, required in self.survey.items() if required and name not in variables]

    def taken(self, variables):
        """What a job gets of them."""
        return {name: value for name, value in variables.items() if self.ask_variables or name in self.survey}

    def list_jobs(self, query):
        return listed(self.jobs, query)

    def call_back(self, request):
        """A provisioning callback. What is refused is looked at in AWX's order."""
        as_json = request["headers"].get("Content-Type") == "application/json"
        body = json.loads(request["body"]) if as_json else dict(urllib.parse.parse_qsl(request["body"].decode()))
        if body.get("host_config_key") != KEY:
            return 403, {"detail": "You do not have permission to perform this action."}
        if not self.hosts:
            return 400, {"msg": "No matching host could be found!"}
        if len(self.hosts) > 1:
            return 400, {"msg": "Multiple hosts matched the request!"}
        variables = body.get("extra_vars") if as_json else None
        if (self.ask_variables and variables is None) or self.missing(variables or {}):
            return 400, {"msg": "Cannot start automatically, user input required!"}
        if any(job["status"] in ACTIVE and job["limit"] == self.hosts[0] for job in self.jobs):
            return 400, {"msg": "Host callback job already pending."}
        # Without ask_variables even what the survey asks for is lost.
        job = self.add_job(variables if self.ask_variables else dict.fromkeys(self.survey, ""))
        job["limit"] = self.hosts[0]
        return 201, b"", ("Location", f"/api/v2/jobs/{job['id']}/")

    def add_job(self, variables, status="running"):
        """A new job, which waits for the others where the template has them do so."""
        if not self.allow_simultaneous and any(job["status"] in ACTIVE for job in self.jobs):
            status = "pending"
        job = {"id": 100 + len(self.jobs), "status": status, "finished": "", "limit": "", "extra_vars": json.dumps(variables)}
        job.update(job_type="run", job_explanation="", artifacts={}, event_processing_finished=True)
        self.jobs.append(job)
        return job

    def end(self, job, status="successful"):
        job.update(status=status, finished=now())
