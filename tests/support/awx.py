# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""AWX: a stand-in for its API, with objects that can be made, found, changed and removed as far as awx.awx asks for it; and a real one.

To have a stand-in to itself: python -m tests.support.awx
"""

from __future__ import annotations

import base64
import itertools
import json
import threading
import urllib.parse

import requests

from tests.support.checkout import BUILD
from tests.support.others import fetch
from tests.support.patience import patient, until
from tests.support.serving import Handler, Server, Serving

VERSION = "24.6.1"
PREFIX = "/api/v2/"
# What hangs on an object by addresses of its own: lists of ids, and documents.
ASSOCIATIONS = ("credentials", "labels", "instance_groups", *(f"notification_templates_{when}" for when in ("started", "success", "error")))
DOCUMENTS = ("survey_spec",)


def fetch_collection():
    """The folder that has the collection awx.awx of that version."""
    folder = BUILD / "others"
    fetch("ansible==12.3.0", "awx.awx", folder)
    return folder


class Awx(Serving):
    """``objects`` are the objects by their kind and id, ``changes`` every request that changed something but who is logged in."""

    real = False
    organization = "Default"
    password = "the password"
    users = ("admin",)

    def __init__(self, token="the token"):
        self.token = token
        self.tokens = {}
        self.objects = {}
        self.hanging = {}
        self.changes = []
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self.serve(Server(self._handler()))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def add(self, kind, /, **fields):
        """A new object; its id."""
        number = next(self._ids)
        related = {name: f"{PREFIX}{kind}/{number}/{name}/" for name in (*ASSOCIATIONS, *DOCUMENTS)}
        made = {"id": number, "type": kind.rstrip("s"), "url": f"{PREFIX}{kind}/{number}/", "related": related, "summary_fields": {}, **fields}
        if kind == "projects":
            # A new project fetches its files at once.
            made.update(scm_revision="", status="successful", summary_fields={"current_update": {"id": self.add("project_updates", status="successful")}})
        if kind == "inventory_sources":
            related["update"] = f"{made['url']}update/"
        self.objects.setdefault(kind, {})[number] = made
        return number

    def found(self, kind, name, **more):
        return [item for item in self.objects.get(kind, {}).values() if all(item.get(field) == value for field, value in {"name": name, **more}.items())]

    def one(self, kind, name, **more):
        (found,) = self.found(kind, name, **more)
        return found

    def hangs(self, kind, name, what, **more):
        return self.hanging.get((kind, self.one(kind, name, **more)["id"], what))

    def launch(self, template, variables):
        """The status of the answer to a launch."""
        return self.answer("POST", f"{template['url']}launch/", {}, {"extra_vars": variables})[0]

    # Requests

    def knows(self, authorization):
        """Whether that is a token, or a user and the password."""
        return authorization in (f"Bearer {token}" for token in (self.token, *self.tokens.values())) or self._is_user(authorization)

    def _is_user(self, authorization):
        return authorization in ("Basic " + base64.b64encode(f"{user}:{self.password}".encode()).decode() for user in self.users)

    def log_in_or_out(self, method, path, authorization):
        """A token is given for a password alone."""
        if not self._is_user(authorization):
            return 401, {"detail": "Authentication credentials were not provided."}
        if method == "DELETE":
            del self.tokens[int(path.strip("/").rpartition("/")[2])]
            return 204, None
        number = next(self._ids)
        self.tokens[number] = f"token-{number}"
        return 201, {"id": number, "token": self.tokens[number]}

    def answer(self, method, path, query, document):
        """(status, document) as AWX answers."""
        parts = path[len(PREFIX) :].strip("/").split("/")
        if parts == ["unified_job_templates"]:
            pool = {**self.objects.get("job_templates", {}), **self.objects.get("projects", {})}
            return 200, self._list(pool, query)
        kind = parts[0]
        pool = self.objects.get(kind, {})
        if len(parts) == 1:
            if method == "POST":
                if not document.get("name"):
                    return 400, {"name": ["This field is required."]}
                number = self.add(kind, **document)
                return 201, self.objects[kind][number]
            return 200, self._list(pool, query)
        number = int(parts[1])
        if number not in pool:
            return 404, {"detail": "Not found."}
        if len(parts) == 2:
            if method == "PATCH":
                pool[number].update(document)
            if method == "DELETE":
                self._remove(kind, number)
                return 204, None
            return 200, pool[number]
        if parts[2] == "launch":
            return self._launch(kind, number, document["extra_vars"])
        if parts[2] == "update":
            update = self.add("inventory_updates", status="successful", finished="now", failed=False)
            return 202, self.objects["inventory_updates"][update]
        return self._hanging(method, (kind, number, parts[2]), document)

    def _remove(self, kind, number):
        """An object, and what of others refers to it."""
        del self.objects[kind][number]
        if kind == "inventories":
            sources = self.objects.get("inventory_sources", {})
            for source in [source for source, item in sources.items() if item["inventory"] == number]:
                self._remove("inventory_sources", source)
        for (_kind, _number, what), hanging in self.hanging.items():
            if what.startswith(kind) and number in hanging:
                hanging.remove(number)

    def _launch(self, kind, number, variables):
        """A job, unless an answer to a question of the survey is too long."""
        survey = self.hanging.get((kind, number, "survey_spec"), {}).get("spec", [])
        wrong = [
            f"'{question['variable']}' value {variables[question['variable']]} is too large (must be no more than {question['max']})."
            for question in survey
            if question["type"] == "text" and len(variables.get(question["variable"], "")) > question["max"]
        ]
        if wrong:
            return 400, {"variables_needed_to_start": wrong}
        job = self.add("jobs", extra_vars=json.dumps(variables), status="pending")
        return 201, {**self.objects["jobs"][job], "ignored_fields": {}}

    def _hanging(self, method, key, document):
        if key[2] in DOCUMENTS:
            if method == "POST":
                self.hanging[key] = document
            return 200, self.hanging.get(key, {})
        ids = self.hanging.setdefault(key, [])
        if method == "POST":
            if document.get("disassociate"):
                ids.remove(document["id"])
            elif document["id"] not in ids:
                ids.append(document["id"])
            return 204, None
        return 200, {"count": len(ids), "next": None, "previous": None, "results": [{"id": number} for number in ids]}

    @staticmethod
    def _list(pool, query):
        """What is as all that is asked for, and as one of what is asked for with or__. Other look-ups find everything."""
        any_of = {name[len("or__") :]: value for name, value in query.items() if name.startswith("or__")}
        found = [
            item
            for item in pool.values()
            if all(str(item.get(name)) == value for name, value in query.items() if "__" not in name)
            and (not any_of or any(str(item.get(name)) == value for name, value in any_of.items()))
        ]
        return {"count": len(found), "next": None, "previous": None, "results": found}

    def _handler(self):
        awx = self

        class Answer(Handler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                body = self.body()
                path, _mark, query = self.path.partition("?")
                authorization = self.headers.get("Authorization")
                if path.startswith(f"{PREFIX}tokens/"):
                    with awx._lock:
                        status, document = awx.log_in_or_out(self.command, path, authorization)
                elif not awx.knows(authorization):
                    status, document = 401, {"detail": "Authentication credentials were not provided."}
                else:
                    with awx._lock:
                        given = json.loads(body) if body else {}
                        if self.command != "GET":
                            awx.changes.append((self.command, path, given))
                        status, document = awx.answer(self.command, path, dict(urllib.parse.parse_qsl(query)), given)
                content = b"" if document is None else json.dumps(document).encode()
                product = {"X-API-Product-Name": "AWX", "X-API-Product-Version": VERSION}
                self.reply(status, content, {**product, "Content-Type": "application/json"})

            do_GET = do_POST = do_PATCH = do_DELETE = answer

        return Answer


class RealAwx:
    """An AWX somewhere. What a test makes is in an organization of its own, which goes with all that is in it at the end."""

    real = True
    changes = ()

    def __init__(self, url, token):
        self.url = url.rstrip("/")
        self.token = token
        self.organization = "Tests of graceful.azure"
        self.close()
        self._organization = self.add("organizations", name=self.organization)

    def ask(self, method, path, document=None, query=None, good=(200, 201, 202, 204)):
        path = path if path.startswith("/") else PREFIX + path
        headers = {"Authorization": f"Bearer {self.token}"}
        answer = requests.request(method, self.url + path, json=document, params=query, headers=headers, timeout=patient(30))
        assert answer.status_code in good, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def add(self, kind, /, **fields):
        if kind == "credentials":
            (machine,) = self.found("credential_types", "Machine")
            fields.update(credential_type=machine["id"], organization=self._organization)
        made = self.ask("POST", f"{kind}/", fields)
        if kind == "projects":
            # It fetches its files at once.
            self._wait(lambda: self.ask("GET", made["url"])["status"] == "successful", "the project has its files")
        return made["id"]

    def one(self, kind, name, **more):
        (found,) = self.found(kind, name, **more)
        return found

    def hangs(self, kind, name, what, **more):
        answer = self.ask("GET", f"{self.one(kind, name, **more)['url']}{what}/")
        return answer if what in DOCUMENTS else [item["id"] for item in answer["results"]]

    def launch(self, template, variables):
        """The status of the answer to a launch, whose job is ended."""
        self.ask("POST", f"{template['url']}launch/", {"extra_vars": variables})
        self._end_jobs(template)
        return 201

    def close(self):
        for organization in self.found("organizations", self.organization):
            here = {"organization": organization["id"]}
            templates = self.ask("GET", "job_templates/", query=here)["results"]
            for template in templates:
                for schedule in self.ask("GET", "schedules/", query={"unified_job_template": template["id"]})["results"]:
                    self.ask("DELETE", schedule["url"])
            for template in templates:
                self._end_jobs(template)
                self.ask("DELETE", template["url"])
            for kind in ("inventories", "projects", "notification_templates", "credentials"):
                for item in self.ask("GET", f"{kind}/", query=here)["results"]:
                    self.ask("DELETE", item["url"])
            self._wait(lambda: not self.ask("GET", "inventories/", query=here)["count"], "the inventories are gone")  # noqa: B023
            self.ask("DELETE", organization["url"])

    def found(self, kind, name, **more):
        query = {"name": name, **more}
        if kind in ("inventories", "projects", "job_templates", "notification_templates", "credentials"):
            query["organization"] = self._organization
        elif kind == "schedules":
            query["unified_job_template__organization"] = self._organization
        elif kind == "inventory_sources":
            query["inventory__organization"] = self._organization
        return self.ask("GET", f"{kind}/", query=query)["results"]

    def _end_jobs(self, template):
        def running():
            return self.ask("GET", f"{template['url']}jobs/", query={"status__in": "pending,waiting,running"})["results"]

        for job in running():
            # It may have ended by itself.
            self.ask("POST", f"jobs/{job['id']}/cancel/", good=(202, 405))
        self._wait(lambda: not running(), "no job runs")

    @staticmethod
    def _wait(condition, what):
        until(condition, 120, what, pause=1)


if __name__ == "__main__":
    stand_in = Awx()
    for a_kind, a_name in (("organizations", stand_in.organization), ("credential_types", "Machine")):
        stand_in.add(a_kind, name=a_name)
    print(f"GRACEFUL_AZURE_AWX_URL={stand_in.url} GRACEFUL_AZURE_AWX_TOKEN='{stand_in.token}'", flush=True)
    threading.Event().wait()
