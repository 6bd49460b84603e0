# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in for AWX's API: objects that can be made, found and changed, as far as the modules of awx.awx ask for it."""

from __future__ import annotations

import http.server
import itertools
import json
import threading
import urllib.parse

VERSION = "24.6.1"
PREFIX = "/api/v2/"
# What hangs on an object by addresses of its own: lists of ids, and documents.
ASSOCIATIONS = ("credentials", "labels", "instance_groups", *(f"notification_templates_{when}" for when in ("started", "success", "error")))
DOCUMENTS = ("survey_spec",)


class Awx:
    """``objects`` are the objects by their kind and id, ``changes`` every request that changed something."""

    def __init__(self, token="the token"):
        self.token = token
        self.objects = {}
        self.hanging = {}
        self.changes = []
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def add(self, kind, /, **fields):
        """A new object; its id."""
        number = next(self._ids)
        related = {name: f"{PREFIX}{kind}/{number}/{name}/" for name in (*ASSOCIATIONS, *DOCUMENTS)}
        made = {"id": number, "type": kind.rstrip("s"), "url": f"{PREFIX}{kind}/{number}/", "related": related, "summary_fields": {}, **fields}
        if kind == "projects":
            # A new project fetches its files at once.
            made.update(scm_revision="", summary_fields={"current_update": {"id": self.add("project_updates", status="successful")}})
        if kind == "inventory_sources":
            related["update"] = f"{made['url']}update/"
        self.objects.setdefault(kind, {})[number] = made
        return number

    def one(self, kind, name):
        (found,) = [item for item in self.objects.get(kind, {}).values() if item["name"] == name]
        return found

    def hangs(self, kind, name, what):
        return self.hanging.get((kind, self.one(kind, name)["id"], what))

    # Requests

    def answer(self, method, path, query, document):
        """(status, document) as AWX answers."""
        parts = path[len(PREFIX):].strip("/").split("/")
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
            return 200, pool[number]
        if parts[2] == "launch":
            return self._launch(kind, number, document["extra_vars"])
        if parts[2] == "update":
            update = self.add("inventory_updates", status="successful", finished="now", failed=False)
            return 202, self.objects["inventory_updates"][update]
        return self._hanging(method, (kind, number, parts[2]), document)

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
        found = [
            item
            for item in pool.values()
            if all(str(item.get(name)) == value for name, value in query.items() if "__" not in name)
        ]
        return {"count": len(found), "next": None, "previous": None, "results": found}

    def _handler(self):
        awx = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                size = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(size)
                path, _mark, query = self.path.partition("?")
                if self.headers.get("Authorization") != f"Bearer {awx.token}":
                    status, document = 401, {"detail": "Authentication credentials were not provided."}
                else:
                    with awx._lock:
                        given = json.loads(body) if body else {}
                        if self.command != "GET":
                            awx.changes.append((self.command, path, given))
                        status, document = awx.answer(self.command, path, dict(urllib.parse.parse_qsl(query)), given)
                content = b"" if document is None else json.dumps(document).encode()
                self.send_response(status)
                self.send_header("X-API-Product-Name", "AWX")
                self.send_header("X-API-Product-Version", VERSION)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PATCH = answer

            def log_message(self, *_arguments):
                pass

        return Handler
