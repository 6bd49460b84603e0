# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An AWX that can be set up and that runs what is launched: the stand-in of its API, over TLS, with jobs by ansible-runner."""

from __future__ import annotations

import json
import urllib.parse

from tests.support.awx import PREFIX, Awx
from tests.support.processes import kill_all
from tests.support.programs import Job
from tests.support.receiver import listed, now
from tests.support.serving import Server


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
        self.processes = []
        self.serve(Server(self._handler(), listening=listening, tls=pem))

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
        return listed([job for job in self.objects.get("jobs", {}).values() if job["job_template"] == template], query)

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
            process.on_end(lambda said, status: job.update(said=said, status=status, finished=now()))
            answer.update(job=job["id"], ignored_fields={"extra_vars": ignored} if ignored else {})
        return status, answer
