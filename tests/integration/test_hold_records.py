# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The format of records: as the schema describes it, and as the version before wrote it.

The files in hold_records/ were written by the modules of commit 66b06d6, against a real HAProxy and a systemctl that only pretends. What is
another machine's in them is made this machine's: the socket, the process of HAProxy, the boot.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess

import jsonschema
import pytest
from ansible_collections.graceful.azure.plugins.module_utils._approval_record import ApprovalRecords
from ansible_collections.graceful.azure.plugins.module_utils._haproxy import Haproxy as Socket
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import Request, Store, read_record, record_name

from tests.support.calls import call, hold_server
from tests.support.checkout import ROOT
from tests.support.haproxy import Haproxy
from tests.support.module import run_module
from tests.support.ports import free_port, listener
from tests.support.roles import RoleBed, pretend_systemctl

BEFORE = ROOT / "tests" / "integration" / "hold_records"
FILES = sorted(BEFORE.glob("*/*.json"))
SCHEMA = json.loads((ROOT / "docs" / "hold-record.schema.json").read_text())
E1, E2 = "602d9444-d2cd-49c7-8624-8643e7171297", "3474C1DD-0917-49F4-85F7-84B9E366719B"
READY, MAINT, DRAIN = 0, 1, 8

SECTIONS = """
backend www
  server web1 127.0.0.11:8080
  server web2 127.0.0.12:8080
  server vm-0004 127.0.0.11:8080
backend checked
  server web1 127.0.0.11:8080 check inter 1h
backend asked
  server web1 127.0.0.11:8080 agent-check agent-inter 1h agent-port 1
backend sticky
  cookie SRV insert
  server web1 127.0.0.11:8080 cookie web1
"""


def validate(record):
    jsonschema.validate(record, SCHEMA, jsonschema.Draft202012Validator)


class TestSchema:
    def test_it_is_one(self):
        jsonschema.Draft202012Validator.check_schema(SCHEMA)

    def test_every_field_is_described(self):
        def resolve(field):
            while "description" not in field and "$ref" in field:
                target = SCHEMA
                for step in field["$ref"][2:].split("/"):
                    target = target[step]
                field = target
            return field

        def walk(schema, where):
            for name, field in schema.get("properties", {}).items():
                assert len(resolve(field).get("description", "")) > 10, (*where, name)
                walk(field, (*where, name))
            if isinstance(schema.get("additionalProperties"), dict):
                walk(schema["additionalProperties"], (*where, "*"))

        for name, schema in {"": SCHEMA, **SCHEMA["$defs"]}.items():
            assert schema["description"]
            walk(schema, (name,))

    @pytest.mark.parametrize(
        "change",
        [
            {"version": 2},
            {"kind": "nginx_server"},
            {"phase": "lost"},
            {"events": {}},
            {"events": {"A": {"since": "today", "reason": "", "details": {}}}},
            {"process": None},
            {"note": "not described"},
            {"found": {"admin_state": "drain", "weight": 1}},
        ],
    )
    def test_what_is_none(self, change):
        record = json.loads(next((BEFORE / "drain").iterdir()).read_text())
        validate(record)
        with pytest.raises(jsonschema.ValidationError):
            validate(dict(record, **change))


@pytest.mark.parametrize("path", FILES, ids=lambda path: "%s: %s" % (path.parent.name, path.name.rpartition("-")[0]))
def test_a_record_of_the_version_before_is_read(path):
    record = read_record(str(path))
    assert record_name(record["kind"], record["subject"]) == path.name
    del record["path"]
    validate(record)


class Site:
    """A HAProxy, units that only pretend to run, and the state folder, which is one for all of them."""

    def __init__(self, folder):
        self.folder = folder
        self.state_dir = folder / "state"
        self.units = folder / "units"
        self.units.mkdir()
        (folder / "haproxy").mkdir()
        self.haproxy = Haproxy(folder / "haproxy", SECTIONS)

    def bring(self, *cases, process=None):
        """Put the records of the version before into the state folder."""
        self.state_dir.mkdir(mode=0o700)
        for case in cases:
            for path in (BEFORE / case).iterdir():
                record = of_this_machine(json.loads(path.read_text()), self.haproxy, process)
                (self.state_dir / record_name(record["kind"], record["subject"])).write_text(json.dumps(record))

    def hold(self, state="present", event_ids=(E1,), **more):
        return hold_server(self.haproxy.socket, self.folder, event_ids, state, params={"reason": "", **more})

    def release(self, event_ids=None, **more):
        return self.hold("absent", event_ids, **more)

    def services(self, state="absent", event_ids=(E1,), **more):
        arguments = {"state": state, "event_ids": list(event_ids), "state_dir": str(self.state_dir), "timeout": 20, **more}
        return run_module("service_hold", arguments)

    def run_units(self, **states):
        for name, state in states.items():
            (self.units / (name.replace("_", "-") + ".service")).write_text(state + "\n")

    def started(self):
        return [line.split()[1] for line in (self.units / "log").read_text().splitlines() if line.startswith("start")]

    def left(self):
        return sorted(path.name for path in self.state_dir.iterdir())


def of_this_machine(record, haproxy, process=None):
    if record["kind"] == "haproxy_server":
        now = process or Socket(haproxy.socket).look().process
        record["subject"]["socket"] = os.path.realpath(haproxy.socket)
        record["process"] = {"pid": now.pid, "started": now.started}
    if record["kind"] == "service":
        with open("/proc/sys/kernel/random/boot_id") as stream:
            record["boot_id"] = stream.read().strip()
    return record


@pytest.fixture
def site(tmp_path, monkeypatch):
    site = Site(tmp_path)
    monkeypatch.setenv("PATH", "%s:%s" % (pretend_systemctl(tmp_path, site.units), os.environ["PATH"]))
    yield site
    site.haproxy.stop()


# What the version before had told HAProxy when it wrote the records, and which server that was.
HELD = {
    "drain": (["set server www/web1 state drain"], "www", DRAIN),
    "maint": (["set server sticky/web1 state maint"], "sticky", MAINT),
    "agent": (["disable agent asked/web1", "set server asked/web1 state drain"], "asked", DRAIN),
    "another_server": (["set server www/web1 state drain", "set server www/vm-0004 state drain"], "www", DRAIN),
    # It was killed on the way from drain to maint.
    "onward": (["set server www/web1 state drain"], "www", DRAIN),
}


class TestServersOfTheVersionBefore:
    @pytest.mark.parametrize("case", HELD)
    def test_released(self, site, case):
        before = site.haproxy.servers()
        agents = site.haproxy.ask("show servers state asked")
        told, backend, flags = HELD[case]
        for line in told:
            assert not site.haproxy.ask(line).strip()
        site.bring(case)
        assert site.haproxy.flags(backend, "web1")[0] == flags
        result = site.release([E1.upper(), E2.lower()])
        assert result["changed"] and result["conflicts"] == [] and result["waiting_for"] == []
        assert site.haproxy.servers() == before and site.left() == []
        if case == "agent":
            assert site.haproxy.ask("show servers state asked").split()[-10:] == agents.split()[-10:]
        if case == "another_server":
            assert {server["server"]: server["for_server"] for server in result["servers"] if server["backend"] == "www"} == {"web1": None, "vm-0004": None}

    @pytest.mark.parametrize("case", HELD)
    def test_held_for_one_event_more(self, site, case):
        for line in HELD[case][0]:
            site.haproxy.ask(line)
        site.bring(case)
        backend = HELD[case][1]
        held = sorted(set(json.loads(next((BEFORE / case).iterdir()).read_text())["events"]) | {"later"})
        result = site.hold(event_ids=["later"], backends=[backend])
        assert result["conflicts"] == [] and {server["condition"] for server in result["servers"]} == {"held"}
        assert sorted(result["servers"][0]["held_by"]) == held
        result = site.release(["later"], backends=[backend])
        assert result["servers"][0]["condition"] == "held" and site.haproxy.flags(backend, "web1")[0] != READY
        site.release()
        assert site.haproxy.flags(backend, "web1")[0] == READY and site.left() == []

    def test_one_event_of_two(self, site):
        site.haproxy.ask("set server www/web1 state drain")
        site.bring("drain")
        assert site.release([E1])["servers"][0]["held_by"] == [E2] and site.haproxy.flags("www", "web1")[0] == DRAIN
        assert site.release([E2])["changed"] and site.haproxy.flags("www", "web1")[0] == READY

    def test_one_that_was_recorded_and_never_taken_out(self, site):
        site.bring("intent")
        assert site.release()["conflicts"] == [] and site.left() == [] and site.haproxy.flags("www", "web1")[0] == READY

    @pytest.mark.parametrize(("case", "state"), [("restoring", "maint"), ("checking", "drain")])
    def test_one_that_was_being_given_back(self, site, case, state):
        site.haproxy.ask("set server checked/web1 health down")
        site.haproxy.ask("set server checked/web1 state " + state)
        site.bring(case)
        (waiting,) = site.release()["waiting_for"]
        assert waiting.startswith("checked/web1 waits in drain until HAProxy's health check passes")
        site.haproxy.ask("set server checked/web1 health up")
        result = site.release()
        assert result["waiting_for"] == result["conflicts"] == [] and site.haproxy.flags("checked", "web1")[0] == READY and site.left() == []

    @pytest.mark.parametrize("case", ["restoring", "checking"])
    def test_one_that_was_being_given_back_and_is_held_again(self, site, case):
        site.haproxy.ask("set server checked/web1 health down")
        site.haproxy.ask("set server checked/web1 state " + ("maint" if case == "restoring" else "drain"))
        site.bring(case)
        result = site.hold(event_ids=[E2], backends=["checked"])
        assert result["servers"][0]["held_by"] == [E2] and result["conflicts"] == [] and site.haproxy.flags("checked", "web1")[0] == MAINT

    def test_somebody_changed_it(self, site):
        site.haproxy.ask("set server www/web1 state maint")
        site.bring("drain")
        assert "www/web1 was left in drain and is in maint now" in site.release()["conflicts"][0]
        assert site.haproxy.flags("www", "web1")[0] == MAINT and site.left() == []

    @pytest.mark.parametrize("case", ["drain", "maint", "another_server"])
    def test_haproxy_was_reloaded_since(self, site, case):
        process = Socket(site.haproxy.socket).look().process
        site.haproxy.reload()
        site.bring(case, process=process)
        result = site.hold(addresses=["127.0.0.11"] if case == "another_server" else [])
        assert [server["put_right"] for server in result["servers"] if server["backend"] == HELD[case][1]] == [True] * len(list((BEFORE / case).iterdir()))
        assert site.release()["conflicts"] == [] and site.left() == []


class TestServicesOfTheVersionBefore:
    def test_released(self, site):
        site.run_units(app="inactive", shop="inactive", db="inactive")
        site.bring("services")
        result = site.services()
        assert result["done"] and result["conflicts"] == [] and site.left() == []
        assert site.started() == ["db.service", "shop.service", "app.service"]

    def test_together_with_the_one_that_it_stopped_along_with(self, site):
        site.run_units(app="inactive", shop="inactive", db="inactive")
        site.bring("services")
        assert site.services(services=["db"])["done"] and site.started() == ["db.service", "shop.service"]
        assert [name.rpartition("-")[0] for name in site.left()] == ["service-app.service"]

    def test_one_that_was_being_stopped(self, site):
        site.run_units(slow_app="inactive", app="active")
        site.bring("services_stopping")
        result = site.services(state="present", services=["slow-app", "app"], event_ids=[E2])
        assert {service["name"]: service["condition"] for service in result["services"]} == {"slow-app.service": "held", "app.service": "held"}
        assert all(sorted(service["held_by"]) == sorted([E1, E2]) for service in result["services"])
        result = site.services(event_ids=[E1, E2])
        assert result["done"] and result["conflicts"] == [] and site.started() == ["app.service", "slow-app.service"] and site.left() == []

    def test_one_that_was_being_started(self, site):
        site.run_units(app="inactive")
        site.bring("services_restoring")
        assert site.services()["done"] and site.started() == ["app.service"] and site.left() == []

    def test_somebody_started_it(self, site):
        site.run_units(app="active", shop="inactive", db="inactive")
        site.bring("services")
        result = site.services()
        assert len(result["conflicts"]) == 1 and site.started() == ["db.service", "shop.service"] and site.left() == []


class TestTasksOfTheVersionBefore:
    def params(self, site, names, **more):
        return dict(
            {"name": names, "state": "absent", "done": None, "this_boot": False, "event_ids": [E1], "event_details": {}, "reason": "", "state_dir": str(site)},
            **more,
        )

    @pytest.mark.parametrize("case", ["tasks", "drained"])
    def test_released(self, site, case):
        site.bring(case)
        names = [record["subject"]["name"] for record in Store(str(site.state_dir)).records()]
        begun = call("task_hold", self.params(site.state_dir, names, done=False))
        assert begun["held"] and begun["last"] and not begun["done"]
        ended = call("task_hold", self.params(site.state_dir, names, done=True))
        assert ended["changed"] and ended["held_by"] == [] and site.left() == []

    def test_what_is_done_stays_done_for_one_event_more(self, site):
        site.bring("tasks")
        result = call("task_hold", self.params(site.state_dir, ["load_balancer_custom"], state="present", event_ids=[E2]))
        assert result["done"] and sorted(result["held_by"]) == sorted([E1, E2])

    def test_an_approval(self, site):
        site.bring("approval")
        record = ApprovalRecords(Store(str(site.state_dir)), Request(True, [E1, E2]))
        # E1 was accepted; of E2 nobody can tell.
        record.begin([E1, E2])
        assert record.added == [E2]
        record.end([])
        assert self.posted(site) == {E1: True, E2: False}
        record.end([E2])
        assert self.posted(site) == {E1: True, E2: True}
        assert call("task_hold", self.params(site.state_dir, ["approved"], event_ids=[E1, E2]))["held"] and site.left() == []

    @staticmethod
    def posted(site):
        (record,) = Store(str(site.state_dir)).records()
        return {event_id: entry["details"]["posted"] for event_id, entry in record["events"].items()}


def written_keys(written):
    """The fields of these records. The store adds one last, where the machine tells its id."""
    return {"machine"}.union(*written)


class TestWhatIsWritten:
    """Each record is compared with the schema before it goes to disk."""

    @pytest.fixture
    def written(self, monkeypatch):
        written = []
        write = Store.write

        def compare(store, record):
            content = {key: value for key, value in record.items() if key != "path"}
            validate(json.loads(json.dumps(content)))
            written.append(content)
            write(store, record)

        monkeypatch.setattr(Store, "write", compare)
        return written

    def test_of_servers(self, site, written):
        site.hold(addresses=["127.0.0.11"], event_details={E1: {"resources": ["web_1"]}})
        site.hold(event_ids=[E2], out_state="maint")
        site.haproxy.ask("set server checked/web1 health down")
        assert site.release()["waiting_for"]
        site.hold(backends=["checked"])
        site.release()
        with listener() as server:
            at, leads_to = free_port(), "127.0.0.1:%d" % server.getsockname()[1]
            sticky = "mode tcp\n  stick-table type ip size 1k\n  stick on src\n  server web1 %s on-marked-down shutdown-sessions\n" % leads_to
            site.haproxy.configure(f"listen db\n  bind 127.0.0.1:{at}\n  {sticky}")
            site.haproxy.reload()
            with socket.create_connection(("127.0.0.1", at)), server.accept()[0]:
                site.hold(timeout=0)
            site.release()
        assert {record["phase"] for record in written} == {"changing", "held", "restoring"}
        fields = SCHEMA["$defs"]["haproxy_server"]["properties"]
        assert written_keys(written) == set(fields)
        assert {key for record in written for key in record["found"]} == set(fields["found"]["properties"])

    def test_of_services(self, site, written):
        def run_command(command, environ_update, handle_exceptions):
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            return done.returncode, done.stdout, done.stderr

        more = '[ "$unit" = db.service ] && echo BoundBy=shop.service; echo Type=oneshot; echo RemainAfterExit=no; '
        systemctl = site.folder / "bin" / "systemctl"
        systemctl.write_text(systemctl.read_text().replace("echo Job=0;", more + "echo Job=0;"))
        site.run_units(shop="active", db="active")
        params = {"state": "present", "services": ["db"], "event_ids": [E1], "event_details": {}, "reason": "", "state_dir": str(site.state_dir)}
        params["timeout"] = 5.0
        call("service_hold", params, run_command=run_command)
        site.run_units(shop="active", db="active")
        call("service_hold", params, run_command=run_command)
        call("service_hold", dict(params, state="absent"), run_command=run_command)
        assert {record["phase"] for record in written} == {"changing", "held", "restoring"} and site.left() == []
        assert written_keys(written) == set(SCHEMA["$defs"]["service"]["properties"])

    def test_of_tasks(self, site, written):
        params = {"name": ["mine"], "state": "present", "done": None, "event_ids": [E1], "event_details": {}, "reason": "why", "state_dir": str(site.state_dir)}
        params["this_boot"] = True
        for more in ({}, {"done": True}, {"event_ids": [E2]}, {"state": "absent"}, {"state": "absent", "event_ids": [E2], "done": False}):
            call("task_hold", dict(params, **more))
        record = ApprovalRecords(Store(params["state_dir"]), Request.from_params(params))
        record.begin([E1])
        record.end([E1])
        assert {record["phase"] for record in written} == {"changing", "held"}
        assert written_keys(written) == set(SCHEMA["$defs"]["task"]["properties"])


def test_a_role_gives_back_what_the_version_before_held(tmp_path):
    """A server, services and the records beside them, as after an upgrade in the middle of an event."""
    bed = RoleBed(tmp_path)
    try:
        bed.reset()
        for name in ("app", "shop", "db"):
            bed.unit(name, "inactive")
        bed.haproxy["lb1"].ask("set server www/web1 state drain")
        for machine, cases in (("lb1", ["drain"]), ("web1", ["services", "drained", "approval"])):
            bed.state_dir(machine).mkdir(parents=True, mode=0o700)
            for path in (path for case in cases for path in (BEFORE / case).iterdir()):
                record = of_this_machine(json.loads(path.read_text()), bed.haproxy["lb1"])
                (bed.state_dir(machine) / record_name(record["kind"], record["subject"])).write_text(json.dumps(record))
        run = bed.run(("restore_service", {"restore_service_event_ids": [E1, E2]}))
        assert run.status == 0 and run.step.result["done"] and run.step.result["conflicts"] == [], run.output
        assert bed.admin() == 0 and bed.records("lb1") == bed.records("web1") == {}
        assert [bed.unit(name) for name in ("app", "shop", "db")] == ["active"] * 3
    finally:
        bed.close()
        shutil.rmtree(tmp_path, ignore_errors=True)
