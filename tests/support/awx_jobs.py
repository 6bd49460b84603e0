# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An AWX that can be set up and that runs what is launched: the stand-in of its API, over TLS, with jobs by ansible-runner."""

from __future__ import annotations

import http.server
import json
import ssl
import threading
import urllib.parse
from datetime import datetime, timezone

from tests.support.awx import PREFIX, Awx
from tests.support.processes import kill_all
from tests.support.programs import Job


class JobsAwx(Awx):
    """It listens with the socket ``listening``. ``project`` are the project's files, ``inventory`` is a file, which
    each job reads anew; ``environment`` is that of its jobs."""

    users = ("admin", "watcher")

    def __init__(self, folder, pem, listening, environment):
        super().__init__()
        self.close()
        self.folder = folder
        self.environment = environment
        self.project = self.inventory = None
        for kind, name in (("organizations", "Default"), ("credentials", "ssh")):
            self.add(kind, name=name)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler(), bind_and_activate=False)
        self._server.socket.close()
        self._server.socket = context.wrap_socket(listening, server_side=True, do_handshake_on_connect=False)
        self.processes = []
        self.serve(self._server)

    def __exit__(self, *_):
        for job in self.processes:
            if job.process.poll() is None:
                kill_all(job.process.pid)
        self.close()

    def ended(self, template):
        """The first job of a template, once it has ended."""
        wanted = self.one("job_templates", template)["id"]
        jobs = [job for job in self.objects.get("jobs", {}).values() if job["job_template"] == wanted]
        return jobs[0] if jobs and jobs[0]["finished"] else None

    def answer(self, method, path, query, document):
        parts = path[len(PREFIX) :].strip("/").split("/")
        if parts[0] == "job_templates" and len(parts) > 1:
            if not parts[1].isdigit():
                # By name and organization.
                name, _plus, organization = urllib.parse.unquote(parts[1]).partition("++")
                assert organization == "Default"
                parts[1] = str(self.one("job_templates", name)["id"])
            if parts[2:] == ["jobs"]:
                return 200, self._jobs_of(int(parts[1]), query)
        return super().answer(method, PREFIX + "/".join(parts) + "/", query, document)

    def _jobs_of(self, template, query):
        wanted = query.get("status__in") or query.get("status")
        jobs = [job for job in self.objects.get("jobs", {}).values() if job["job_template"] == template and job["status"] in wanted.split(",")]
        jobs.sort(key=lambda job: job[query["order_by"].lstrip("-")], reverse=True)
        return {"count": len(jobs), "results": jobs[: int(query["page_size"])]}

    def _launch(self, kind, number, variables):
        template = self.objects[kind][number]
        ignored = {} if template.get("ask_variables_on_launch") else variables
        status, answer = super()._launch(kind, number, {} if ignored else variables)
        if status == 201:
            job = self.objects["jobs"][answer["id"]]
            job.update(job_template=number, status="running", finished="")
            folder = self.folder / f"job-{job['id']}"
            process = Job(folder, self.inventory, self.environment, playbook=(template["playbook"], self.project), **json.loads(job["extra_vars"]))
            self.processes.append(process)
            threading.Thread(target=self._await, args=(job, process), daemon=True).start()
            answer.update(job=job["id"], ignored_fields={"extra_vars": ignored} if ignored else {})
        return status, answer

    @staticmethod
    def _await(job, process):
        output, _nothing = process.process.communicate()
        status = "successful" if process.process.returncode == 0 else "failed"
        job.update(said=output, status=status, finished=datetime.now(timezone.utc).isoformat())
