# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Windows hosts: the modules of the collection over a modelled host. Options and results of foreign modules are checked against their documentation."""

from __future__ import annotations

import base64
import contextlib
import json
import ntpath
import re
import time
import types

import jsonschema
import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible_collections.graceful.azure.plugins.module_utils import _iis, _stopped_in_order, _systemd
from ansible_collections.graceful.azure.plugins.module_utils._events import parse_time
from ansible_collections.graceful.azure.plugins.module_utils._health_actions import KEPT, record_in
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import SIZE_LIMIT
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms import windows, windows_connections, windows_iis, windows_records, windows_services
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.by_platform import is_absolute, is_windows, told_by
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms.needed import lacking

from tests.support.checkout import ROOT
from tests.support.patience import patient
from tests.support.windows.action import Action, Killed
from tests.support.windows.inventory import fetch_collections
from tests.support.windows.model import EVERYBODY, FULL, PROGRAM_DATA, READ, ModelledHost

FOLDER = r"C:\ProgramData\graceful_azure"
URI = "ansible.windows.win_uri"
POWERSHELL = "ansible.windows.win_powershell"
HEALTH = r"C:\inetpub\health\out.txt"
AT_ONCE = {"stop_seconds": 0.0, "start_seconds": 0.0}
SERVICES = {
    "W3SVC": {"status": "Running", "dependents": ["Cart"], **AT_ONCE},
    "Cart": {"status": "Running", **AT_ONCE},
    "Spooler": {"status": "Stopped", **AT_ONCE},
}
IIS = {"sites": {"Shop": {"state": "Started"}, "Health": {"state": "Started"}}, "pools": {"ShopPool": {"state": "Started", **AT_ONCE}}}


@pytest.fixture(scope="module", autouse=True)
def _collections(request):
    try:
        fetch_collections()
    except PermissionError:
        if not request.config.pluginmanager.has_plugin("ansible_forked"):
            raise
        pytest.skip("in a container of ansible-test, nothing can be written beside the tests, and nothing can be fetched")


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    for driver in (_iis.Things, _systemd.Services):
        monkeypatch.setattr(driver, "pause", 0.01)


@pytest.fixture(params=[False, True], ids=["plain", "terse"])
def host(request, tmp_path):
    """Once as PowerShell should return things, and once with one thing for a list, texts for numbers, CRLF and a BOM."""
    return ModelledHost.make(tmp_path / "host", services=json.loads(json.dumps(SERVICES)), terse=request.param, **json.loads(json.dumps(IIS)))


def states(host):
    state = host.state()
    found = {name: one["status"] for name, one in state["services"].items()}
    return {**found, **{name: one["state"] for kind in ("sites", "pools") for name, one in state[kind].items()}}


def until_done(action, module, /, seconds=8.0, **args):
    """Take steps until the module says that it is done."""
    deadline = time.monotonic() + patient(seconds)
    while True:
        result = action.run(module, pause=time.sleep, **args)
        assert not result.get("failed"), result
        if result["done"] or module == "task_hold" or time.monotonic() > deadline:
            return result
        time.sleep(0.01)


def reply(status=200, content="", **more):
    told = {"changed": False, "url": "u", "elapsed": 0.1, "status_code": status, "content": content, "date": "Tue, 24 Nov 2026 12:00:00 GMT"}
    return dict(told, **({} if status == 200 else {"failed": True, "msg": f"Status code of request '{status}' is not in list"}), **more)


def document(*events):
    standing = [{"EventId": event_id, "EventType": "Reboot", "EventStatus": "Scheduled", "Resources": ["win1"], "NotBefore": ""} for event_id in events]
    return json.dumps({"DocumentIncarnation": 7, "Events": standing})


class TestServices:
    def test_with_those_that_depend_on_them(self, host):
        action = Action(host)
        result = until_done(action, "service_hold", services=["w3svc", "Spooler"], event_ids=["E1"])
        # The host's own spelling, the dependent first, and what did not run is not held.
        assert [(one["name"], one["condition"]) for one in result["services"]] == [("Cart", "held"), ("W3SVC", "held"), ("Spooler", "not_running")]
        assert states(host)["W3SVC"] == states(host)["Cart"] == "Stopped"
        (cart, w3svc) = sorted(host.records().values(), key=lambda record: record["order"])
        assert cart["along_with"] == "W3SVC" and w3svc["phase"] == "held"
        assert not until_done(action, "service_hold", services=["W3SVC"], event_ids=["e1"])["changed"]
        result = until_done(action, "service_hold", state="absent", event_ids=["E1"])
        assert result["changed"] and result["conflicts"] == [] and host.records() == {}
        assert states(host)["W3SVC"] == states(host)["Cart"] == "Running" and states(host)["Spooler"] == "Stopped"

    def test_started_by_somebody_else_or_by_a_boot(self, host):
        action = Action(host)
        until_done(action, "service_hold", services=["Cart"], event_ids=["E1"])
        with host.change() as state:
            state["services"]["Cart"]["status"] = "Running"
        result = action.run("service_hold", services=["Cart"], event_ids=["E1"])
        told = ["Cart was started by somebody else while it was held, and was stopped once more."]
        assert result["conflicts"] == told
        until_done(action, "service_hold", services=["Cart"], event_ids=["E1"])
        assert states(host)["Cart"] == "Stopped"
        host.reboot(0)
        result = until_done(action, "service_hold", state="absent")
        assert result["conflicts"] == told and states(host)["Cart"] == "Running"

    def test_a_look_tells_whether_it_is_still_down(self, host):
        until_done(Action(host), "service_hold", services=["Cart"], event_ids=["E1"])
        Action(host).run("task_hold", name=["drain_host_before"], event_ids=["E1"], done=True, this_boot=True)
        duties = [{"type": "service", "name": "cart"}, {"type": "tasks", "name": "drain_host_before", "out": "out.yml"}]

        def look():
            return Action(host, {URI: reply(content=document())}).run("host_observation", resource_name="win1", duties=duties)

        seen = look()
        assert seen["still_on"] == [] and seen["boot_id"]
        with host.change() as state:
            state["services"]["Cart"]["status"] = "Running"
        assert look()["still_on"] == ["Cart is active again, although it was stopped for the event"]
        host.reboot(0)
        again = look()
        assert again["boot_id"] != seen["boot_id"]
        assert "Cart is active since the host was booted anew" in again["still_on"]
        assert "out.yml did not run since the host was booted anew" in again["still_on"]

    def test_records_tell_the_time_by_the_hosts_own_clock(self, host):
        """By which they are read, too."""
        with host.change() as state:
            state["clock_ahead"] = -3600.0
        until_done(Action(host), "service_hold", services=["Cart"], event_ids=["E1"])
        Action(host).run("task_hold", name=["drained"], event_ids=["E1"], done=True)
        seen = Action(host, {URI: reply(content=document())}).run("host_observation", resource_name="win1")
        times = [parse_time(record["events"]["E1"]["since"]).timestamp() for record in seen["holds"]]
        assert len(times) == 2 and all(abs(parse_time(seen["time"]).timestamp() - at) < 60 for at in times)

    def test_one_that_was_disabled_meanwhile(self, host):
        action = Action(host)
        until_done(action, "service_hold", services=["Cart"], event_ids=["E1"])
        with host.change() as state:
            state["services"]["Cart"]["start"] = "Disabled"
        result = action.run("service_hold", state="absent")
        assert result["conflicts"] == ["Cart was running when it was stopped and is disabled now: it was not started."]

    def test_one_that_does_not_exist(self, host):
        result = Action(host).run("service_hold", services=["Nope"], event_ids=["E1"])
        assert result["failed"] and result["msg"] == "There is no service 'Nope' on this host (option services)."
        assert host.records() == {} and FOLDER.lower() not in host.state()["folders"]

    def test_check_mode_changes_nothing(self, host):
        before = host.state()
        result = Action(host, check_mode=True).run("service_hold", services=["W3SVC"], event_ids=["E1"])
        assert result["changed"] and result["done"]
        assert host.state() == before

    def test_a_state_that_nobody_knows_counts_as_running(self, host):
        with host.change() as state:
            state["services"]["Cart"]["status"] = "Odd"
        result = Action(host).run("service_hold", services=["Cart"], event_ids=["E1"])
        assert result["changed"] and host.records()


class TestDuties:
    ENTRIES = (
        {"type": "health_probe", "action": "file", "file": HEALTH, "interval": 0.5, "threshold": 1, "margin": 0},
        "Cart",
        {"type": "iis", "sites": ["Shop"]},
    )

    def test_out_and_back(self, host):
        entries = list(self.ENTRIES)
        seen = Action(host).run("duty_info", duties=entries)
        assert not seen.get("failed"), seen
        assert [each["state"] for each in seen["duties"]] == ["in", "in", "in"]
        assert Action(host, check_mode=True).run("duty", duties=entries, event_ids=["E1"])["changed"] and host.records() == {}
        out = until_done(Action(host), "duty", duties=entries, event_ids=["E1"], timeout=5)
        assert [(each["state"], each["held_by"]) for each in out["duties"]] == [("out", ["E1"])] * 3
        assert states(host)["Cart"] == states(host)["Shop"] == "Stopped"
        assert not until_done(Action(host), "duty", duties=entries, event_ids=["e1"], timeout=5)["changed"]
        back = until_done(Action(host), "duty", duties=entries, state="back", timeout=5)
        assert [each["state"] for each in back["duties"]] == ["in", "in", "in"] and host.records() == {}
        assert states(host)["Cart"] == "Running" and states(host)["Shop"] == "Started"

    def test_only_what_such_a_host_can_have(self, host):
        """What it asks for on Linux would be done on the controller."""
        for entry in ({"type": "haproxy", "hosts": ["win1"], "server": "win1"}, {"type": "consul"}):
            result = Action(host).run("duty", duties=[entry], event_ids=["E1"])
            assert result["failed"] and "is not possible on a Windows host; there is health_probe, service, tasks, iis" in result["msg"]


class TestIis:
    def test_sites_before_pools_and_back_in_reverse(self, host):
        action = Action(host)
        result = until_done(action, "iis_hold", sites=["Shop"], pools=["ShopPool"], event_ids=["E1"])
        assert [(one["type"], one["condition"]) for one in result["things"]] == [("site", "held"), ("pool", "held")]
        assert (states(host)["Shop"], states(host)["ShopPool"]) == ("Stopped", "Stopped")
        assert [args["name"] for name, args in action.calls if name in ("microsoft.iis.website", "microsoft.iis.web_app_pool")] == ["Shop", "ShopPool"]
        result = until_done(action, "iis_hold", state="absent")
        assert [one["type"] for one in result["things"]] == ["pool", "site"] and host.records() == {}
        assert (states(host)["Shop"], states(host)["ShopPool"]) == ("Started", "Started")

    def test_a_pool_with_requests_under_way_is_waited_for(self, host, monkeypatch):
        monkeypatch.setattr(_stopped_in_order, "QUICK_SECONDS", 0.0)
        with host.change() as state:
            state["pools"]["ShopPool"]["stop_seconds"] = 60
        action = Action(host)
        result = action.run("iis_hold", pools=["ShopPool"], event_ids=["E1"])
        for _again in range(8):
            result = action.run("iis_hold", pools=["ShopPool"], event_ids=["E1"])
        assert not result["done"] and result["waiting_for"] == "pool ShopPool is stopping"
        # It is told once, since IIS refuses a second time.
        assert [name for name, _args in action.calls].count("microsoft.iis.web_app_pool") == 1

    def test_what_does_not_exist_is_not_made(self, host):
        for things in ({"sites": ["Nope"]}, {"pools": ["Nope"]}):
            result = Action(host).run("iis_hold", event_ids=["E1"], **things)
            assert result["failed"] and result["msg"].startswith("IIS has no ")
        assert host.records() == {}

    def test_what_did_not_run_is_not_started(self, host):
        with host.change() as state:
            state["sites"]["Shop"]["state"] = "Stopped"
        until_done(Action(host), "iis_hold", sites=["Shop"], event_ids=["E1"])
        until_done(Action(host), "iis_hold", state="absent")
        assert states(host)["Shop"] == "Stopped"

    def test_check_mode_and_a_conflict(self, host):
        before = host.state()
        assert Action(host, check_mode=True).run("iis_hold", sites=["Shop"], event_ids=["E1"])["changed"]
        assert host.state() == before
        until_done(Action(host), "iis_hold", sites=["Shop"], event_ids=["E1"])
        with host.change() as state:
            state["sites"]["Shop"]["state"] = "Started"
        assert "somebody else" in Action(host).run("iis_hold", state="absent")["conflicts"][0]


HOLDS = {
    "service_hold": {"services": ["W3SVC"]},
    "iis_hold": {"sites": ["Shop"], "pools": ["ShopPool"]},
    "task_hold": {"name": ["drained"], "done": True},
    "health_probe_hold": {"action": "file", "file": HEALTH},
    "health_probe_hold of a site": {"action": "iis_site", "iis_site": "Health"},
}
"""What each module is told, by its name and what else there is to say."""


class TestKilled:
    """The controller dies before any call that it makes on the host. The next run does the rest."""

    @pytest.mark.parametrize("case", [pytest.param(name, marks=pytest.mark.long) if name == "iis_hold" else name for name in HOLDS])
    def test_out_and_back(self, tmp_path, case):
        hosts, module, told = iter(range(1000)), case.partition(" ")[0], HOLDS[case]

        def fresh():
            return ModelledHost.make(tmp_path / str(next(hosts)), services=json.loads(json.dumps(SERVICES)), **json.loads(json.dumps(IIS)))

        start = states(fresh())
        for way in ("present", "absent"):
            number = 0
            while True:
                host = fresh()
                if way == "absent":
                    until_done(Action(host), module, event_ids=["E1"], **told)
                out = states(host)
                given = {"state": way, "event_ids": ["E1"]}
                killed = Action(host, dies_before=number)
                try:
                    until_done(killed, module, **given, **told)
                except Killed:
                    pass
                else:
                    break
                # What was changed is on record: whoever is out is held.
                if states(host) != start:
                    assert host.records(), number
                until_done(Action(host), module, **given, **told)
                if way == "present":
                    assert host.records() and (states(host) != start or case in ("task_hold", "health_probe_hold"))
                    out = states(host)
                    until_done(Action(host), module, state="absent", event_ids=["E1"], **told)
                assert (states(host), host.records()) == (start, {}), (way, number, out)
                number += 1
            assert number >= 2


class TestRecords:
    def hold(self, host, **more):
        return Action(host).run("task_hold", name=["x"], event_ids=["E1"], **more)

    def test_where_and_how(self, host):
        assert self.hold(host)["changed"]
        (path,) = host.state()["files"]
        assert path.startswith(FOLDER + "\\task-x-") and json.loads(base64.b64decode(host.state()["files"][path]))["version"] == 1
        rights = host.state()["folders"][FOLDER.lower()]["rights"]
        assert set(rights) == {"S-1-5-18", "S-1-5-32-544"}

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"{", "is not complete JSON"),
            (b"", "it is empty"),
            (b'{"version": 9}', "newer release"),
            (b"!denied", "cannot be read"),
            (b" " * (SIZE_LIMIT + 1), f"it is larger than {SIZE_LIMIT} bytes"),
        ],
        ids=["cut", "empty", "newer", "denied", "large"],
    )
    def test_a_damaged_one_is_named_and_nothing_is_done(self, host, content, said):
        self.hold(host)
        with host.change() as state:
            (path,) = state["files"]
            state["files"][path] = content.decode() if content.startswith(b"!") else base64.b64encode(content).decode()
        for module, args in (("task_hold", {"name": ["x"]}), ("service_hold", {"services": ["Cart"]})):
            result = Action(host).run(module, event_ids=["E1"], **args)
            assert result["failed"] and said in result["msg"] and path in result["msg"]
        assert states(host)["Cart"] == "Running"
        look = Action(host, {URI: reply(content=document())}).run("host_observation", resource_name="win1")
        assert look["holds"] is None and path in look["fatal"] and look["events"] == []

    @pytest.mark.parametrize("check_mode", [True, False])
    def test_damaged_ones_are_put_aside(self, host, check_mode):
        self.hold(host)
        Action(host).run("task_hold", name=["y", "z"], event_ids=["E1"])
        with host.change() as state:
            damaged, newer, whole = sorted(state["files"])
            state["files"].update({damaged: base64.b64encode(b"{").decode(), newer: base64.b64encode(b'{"version": 9}').decode()})
        before = host.state()["files"]
        result = Action(host, check_mode=check_mode).run("hold_repair")
        (told,) = result["put_aside"]
        assert result["changed"] and told["path"] == damaged and re.fullmatch(re.escape(damaged) + r"\.damaged-[0-9TZ-]+", told["to"])
        assert "is not complete JSON" in told["problem"] and "newer release" in result["left"][0] and len(result["left"]) == 1
        if check_mode:
            assert host.state()["files"] == before
            return
        assert host.state()["files"] == {told["to"]: before[damaged], newer: before[newer], whole: before[whole]}
        # It holds nothing any more, and what was not damaged is still read.
        again = Action(host).run("hold_repair")
        assert not again["changed"] and again["put_aside"] == [] and again["left"] == result["left"]

    def test_what_is_put_aside_is_not_read_again(self, host):
        self.hold(host)
        with host.change() as state:
            state["files"] = dict.fromkeys(state["files"], "")
        assert Action(host).run("hold_repair")["changed"]
        assert self.hold(host)["changed"] and len(host.records()) == 1

    def test_a_folder_that_cannot_be_trusted_is_not_repaired(self, host):
        with host.change() as state:
            state["folders"][FOLDER.lower()] = {"rights": {EVERYBODY: FULL, "S-1-5-18": FULL}}
            state["files"][FOLDER + r"\task-x-0123456789.json"] = ""
        assert "may be written by S-1-1-0" in Action(host).run("hold_repair")["msg"] and len(host.state()["files"]) == 1
        assert Action(host).run("hold_repair", state_dir="/srv/x")["failed"]

    def test_they_are_of_the_published_schema(self, host):
        schema = json.loads((ROOT / "docs" / "hold-record.schema.json").read_text(encoding="utf-8"))
        for case, args in HOLDS.items():
            until_done(Action(host), case.partition(" ")[0], event_ids=["E1"], **args)
        records = host.records()
        assert {record["kind"] for record in records.values()} == {"service", "iis", "task", "health_probe"}
        assert {record["subject"].get("action") for record in records.values()} == {None, "file", "iis_site"}
        for record in records.values():
            jsonschema.validate(record, schema)

    def test_an_editor_of_windows(self, host):
        self.hold(host)
        with host.change() as state:
            (path,) = state["files"]
            text = base64.b64decode(state["files"][path]).decode().replace("\n", "\r\n")
            state["files"][path] = base64.b64encode(b"\xef\xbb\xbf" + text.encode()).decode()
        assert self.hold(host, done=True)["held"] and len(host.records()) == 1

    @pytest.mark.parametrize(
        ("folder", "said"),
        [
            ({"rights": {EVERYBODY: FULL, "S-1-5-18": FULL}}, "may be written by S-1-1-0"),
            ({"owner": "S-1-5-21-9-9-9-1001"}, "belongs to S-1-5-21-9-9-9-1001"),
            ({"kind": "link"}, "is a link"),
            ({"kind": "unreadable", "error": "Access is denied."}, "cannot be reached: Access is denied."),
        ],
    )
    def test_a_folder_that_cannot_be_trusted(self, host, folder, said):
        with host.change() as state:
            state["folders"][FOLDER.lower()] = folder
        result = self.hold(host)
        assert result["failed"] and said in result["msg"] and FOLDER in result["msg"] and host.records() == {}

    def test_others_may_read(self, host):
        with host.change() as state:
            state["folders"][FOLDER.lower()] = {"rights": {EVERYBODY: READ, "S-1-5-18": FULL}}
        assert self.hold(host)["changed"]

    @pytest.mark.parametrize(("fault", "said"), [({"locked": True}, "is locked by another process"), ({"full": True}, "not enough space on the disk")])
    def test_what_cannot_be_written(self, host, fault, said):
        with host.change() as state:
            state.update(fault)
        result = self.hold(host)
        assert result["failed"] and said in result["msg"] and "cannot be written" in result["msg"]
        assert Action(host).run("service_hold", services=["Cart"], event_ids=["E1"])["failed"] and states(host)["Cart"] == "Running"

    def test_whoever_is_faster_is_not_overwritten(self, host):
        """Another controller puts its event on the record between our look and our write. Both are on it in the end."""
        self.hold(host)
        action = Action(host)
        other = iter([lambda: Action(host).run("task_hold", name=["x"], event_ids=["E2"])])

        def call(args):
            if "IO.FileOptions]::WriteThrough" in args["script"]:
                next(other, lambda: None)()
            return answer_of(args)

        def answer_of(args):
            del action.answers[POWERSHELL]
            try:
                return action._execute_module(POWERSHELL, args, {})
            finally:
                action.answers[POWERSHELL] = call

        action.answers[POWERSHELL] = call
        result = action.run("task_hold", name=["x"], event_ids=["E3"])
        assert not result.get("failed"), result
        assert sorted(next(iter(host.records().values()))["events"]) == ["E1", "E2", "E3"]

    def test_no_administrator(self, host):
        with host.change() as state:
            state["admin"] = False
        look = Action(host, {URI: reply(content=document())}).run("host_observation", resource_name="win1")
        assert r"VM\azureuser, who is no administrator" in look["fatal"]

    def test_a_path_of_another_kind_of_host(self, host):
        assert "is not an absolute path of a Windows host" in self.hold(host, state_dir="/srv/state")["msg"]


class TestService:
    """The metadata service."""

    def info(self, host, answer, **more):
        action = Action(host, {URI: answer})
        return action, action.run("scheduled_events_info", resource_name="win1", **more)

    def test_how_it_is_asked(self, host):
        action, result = self.info(host, reply(content="\ufeff" + document("E1")), request_timeout=2.9)
        assert [event["event_id"] for event in result["events"]] == ["E1"] and result["document_incarnation"] == 7
        ((_name, args),) = action.calls
        assert args == {
            "url": "http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01",
            "url_method": "GET",
            "headers": {"Metadata": "true"},
            "return_content": True,
            "use_proxy": False,
            "follow_redirects": "none",
            "url_timeout": 2,
        }

    @pytest.mark.parametrize(
        ("answer", "said"),
        [
            (reply(302, location="http://elsewhere/"), "answered 302, a redirect to 'http://elsewhere/', which is not followed"),
            (reply(403, content="no"), "answered 403: 'no'"),
            (reply(content="<html>"), "not JSON"),
            (reply(content="{}"), "not a document of Scheduled Events"),
            (reply(content="x", content_encoding="gzip"), "Content-Encoding 'gzip', which was not requested. Is imds_url the address"),
            ({"failed": True, "msg": "Unhandled exception occurred when sending web request. Exception: The operation has timed out"}, "has timed out"),
        ],
    )
    def test_what_is_no_document(self, host, answer, said):
        _action, result = self.info(host, answer)
        assert result["failed"] and said in result["msg"]

    def test_it_comes_back(self, host):
        answers = iter([reply(503), reply(410), reply("200", content=document("E1"))])
        _action, result = self.info(host, lambda args: next(answers))
        assert [event["event_id"] for event in result["events"]] == ["E1"]

    @pytest.mark.parametrize("module", ["scheduled_events_approve", "approval_hold"])
    def test_check_mode_sends_nothing(self, host, module):
        methods = []

        def answer(args):
            methods.append(args["url_method"])
            return reply(content=document("E1"))

        ready = {"ready_resources": ["win1"]} if module == "approval_hold" else {}
        result = Action(host, {URI: answer}, check_mode=True).run(module, event_ids=["E1"], resource_name="win1", **ready)
        assert result["approved"] == ["E1"] and result["changed"] and methods == ["GET"] and host.records() == {}

    def test_an_approval_is_on_record_before_it_is_sent(self, host):
        seen = []

        def answer(args):
            seen.append((args["url_method"], [event["details"]["posted"] for record in host.records().values() for event in record["events"].values()]))
            return reply(content=document("E1"))

        result = Action(host, {URI: answer}).run("approval_hold", event_ids=["E1"], ready_resources=["win1"], resource_name="win1", timeout=30)
        assert result["approved"] == ["E1"] and seen == [("GET", []), ("POST", [False])]
        assert [event["details"]["posted"] for record in host.records().values() for event in record["events"].values()] == [True]

    def test_a_refused_approval_leaves_no_record(self, host):
        def answer(args):
            return reply(content=document("E1")) if args["url_method"] == "GET" else reply(403)

        result = Action(host, {URI: answer}).run("approval_hold", event_ids=["E1"], ready_resources=["win1"], resource_name="win1")
        assert result["failed"] and host.records() == {}

    def test_too_late_by_the_hosts_own_clock(self, host):
        with host.change() as state:
            state["clock_ahead"] = 3600.0
        methods = []

        def answer(args):
            methods.append(args["url_method"])
            return reply(content=document("E1"))

        args = {"event_ids": ["E1"], "ready_resources": ["win1"], "resource_name": "win1"}
        late = Action(host, {URI: answer}).run("approval_hold", ready_until=time.time() + 60, **args)
        assert "too long ago" in late["msg"] and methods == ["GET"] and host.records() == {}
        assert Action(host, {URI: answer}).run("approval_hold", ready_until=time.time() + 3660, **args)["approved"] == ["E1"]

    def test_no_time_for_an_approval(self, host):
        def answer(args):
            assert args["url_method"] == "GET"
            return reply(content=document("E1"))

        result = Action(host, {URI: answer}).run("approval_hold", event_ids=["E1"], ready_resources=["win1"], resource_name="win1", timeout=3.0)
        assert result["failed"] and "time" in result["msg"]

    def test_a_wait_reads_again(self, host):
        answers = iter([reply(content=document()), reply(503), reply(content=document("E1"))])
        result = Action(host, {URI: lambda args: next(answers)}).run("scheduled_events_wait", resource_name="win1", timeout=60)
        assert result["outcome"] == "present"


class TestLook:
    def test_the_folder_of_two_names_for_one_host_is_one(self, host):
        def folder(**options):
            return Action(host, {URI: reply(content=document())}).run("host_observation", resource_name="win1", **options)["state_folder"]

        assert folder() == folder() and folder()["path"] and folder()["id"] != folder(state_dir="C:\\other")["id"]

    def test_one_look(self, host):
        with host.change() as state:
            state["connections"] = [
                [443, "10.0.0.9", 50000, "Established"],
                [443, "::ffff:10.0.0.9", 50001, "CloseWait"],
                [443, "fe80::1%12", 50002, "Established"],
                [443, "2001:db8::9", 50003, "TimeWait"],
                [80, "10.0.0.9", 50004, "Established"],
            ]
        action = Action(host, {URI: reply(content=document("E1"))})
        look = action.run("host_observation", ports=[443], resource_name="win1")
        assert look["connections"] == [{"port": 443, "peer": "10.0.0.9", "count": 2}, {"port": 443, "peer": "fe80::1", "count": 1}]
        assert look["addresses"] == ["10.0.0.21", "2001:db8::21"] and look["holds"] == [] and "fatal" not in look
        assert [name for name, _args in action.calls] == [POWERSHELL, URI]

    def test_a_port_on_which_nobody_listens(self, host):
        with host.change() as state:
            state["unheard"] = [8080]
        action = Action(host, {URI: reply(content=document("E1"))})
        look = action.run("host_observation", ports=[443, 8080], resource_name="win1")
        assert look["uncounted"] == [{"port": 8080, "why": "nobody listens on it", "unheard": True}]
        assert action.run("connections_info", ports=[443, 8080])["left"] == ["port 8080 cannot be counted: nobody listens on it"]
        assert action.run("connections_info", ports=[443, 8080], heard=[8080], state_dir="/var/lib/graceful_azure")["idle"] is True

    def test_it_ends_when_there_is_news(self, host):
        answers = iter([document(), document(), document("E1")])
        action = Action(host, {URI: lambda args: reply(content=next(answers))})
        first = action.run("host_observation", resource_name="win1")
        waits = []

        def pause(seconds):
            waits.append(seconds)
            action_clock[0] += seconds

        action_clock = [0.0]
        action.answers[URI] = lambda args: reply(content=next(answers))
        look = _look(action, action_clock, pause, resource_name="win1", wait=60, known=first["fingerprint"])
        assert [event["event_id"] for event in look["events"]] == ["E1"]
        # Nothing is to be drained, so the host is asked every five seconds.
        assert waits == [5.0]

    def test_it_ends_when_nobody_is_connected(self, host):
        clock, waits = [0.0], []

        def pause(seconds):
            waits.append(seconds)
            clock[0] += seconds
            if len(waits) == 2:
                with host.change() as state:
                    state["connections"] = []

        with host.change() as state:
            state["connections"] = [[80, "10.0.0.9", 1, "Established"]]
        action = Action(host, {URI: lambda args: reply(content=document("E1"))})
        known = action.run("host_observation", resource_name="win1")["fingerprint"]
        look = _look(action, clock, pause, resource_name="win1", wait=30, known=known, ports=[80], await_idle=True)
        # By this clock a look takes no time. After one of a tenth of a second, the pause is a second.
        assert look["connections"] == [] and look["looks"] == 2 and waits == [0.2, 0.2, 0.2]

    def test_the_hosts_own_answer(self, host):
        def answer(args):
            return reply(content=document("E1")) if "metadata" in args["url"] else reply(503)

        ask = {"url": "http://localhost:8080/health", "port": 8080}
        with host.change() as state:
            state["listens"] = [8080]
        look = Action(host, {URI: answer}).run("host_observation", resource_name="win1", ask=ask)
        assert look["unanswered"] == "http://localhost:8080/health: status 503"
        with host.change() as state:
            state["listens"] = []
        look = Action(host, {URI: answer}).run("host_observation", resource_name="win1", ask=ask)
        assert look["unanswered"].startswith("port 8080 of localhost: ")
        assert Action(host, {URI: reply(204)}).run("wait_for_answer", url="http://localhost/")["answered"]

    @pytest.mark.parametrize("output", [[], ["{}"], ["no JSON"], None, [json.dumps({"user": 1})]])
    def test_what_cannot_be_understood(self, host, output):
        told = {"changed": False, "output": output, "error": []}
        look = Action(host, {POWERSHELL: told}).run("host_observation", resource_name="win1")
        assert look["failed"] and "look.ps1 told" in look["msg"]

    def test_a_script_that_fails_and_a_host_that_goes_away(self, host):
        told = {"failed": True, "msg": "m", "error": [{"exception": {"message": "Access is denied"}}], "output": []}
        assert "Access is denied" in Action(host, {POWERSHELL: told}).run("task_hold", name=["x"], event_ids=["E1"])["msg"]
        with pytest.raises(AnsibleConnectionFailure):
            Action(host, {POWERSHELL: {"module_stdout": "", "rc": 1}}).run("task_hold", name=["x"], event_ids=["E1"])

        def away(args):
            raise AnsibleError("winrm send_input failed")

        with pytest.raises(AnsibleConnectionFailure, match="send_input"):
            Action(host, {POWERSHELL: away}).run("task_hold", name=["x"], event_ids=["E1"])

    def test_the_collection_is_missing(self, host):
        def missing(args):
            raise AnsibleError("The module ansible.windows.win_powershell was not found in configured module paths")

        result = Action(host, {POWERSHELL: missing}).run("task_hold", name=["x"], event_ids=["E1"])
        assert "ansible-galaxy collection install 'ansible.windows:>=3.8.0'" in result["msg"]


def _look(action, clock, pause, **args):
    """A look by a scripted clock."""
    whole = windows.time
    windows_class = windows.Windows.__init__.__defaults__
    windows.Windows.__init__.__defaults__ = (None, lambda: clock[0])
    try:
        return action.run("host_observation", pause=pause, **args)
    finally:
        windows.Windows.__init__.__defaults__ = windows_class
        windows.time = whole


URL = "http://localhost:8080/health"


@pytest.mark.parametrize(
    ("module", "args", "kind", "name", "told"),
    [
        ("service_hold", {"services": ["Cart"]}, "services", "Cart", "Cart was stopped and is active again in the same boot: somebody else started it"),
        ("iis_hold", {"sites": ["Shop"]}, "sites", "Shop", "site Shop was stopped and is started again in the same boot: somebody else started it"),
        ("iis_hold", {"pools": ["ShopPool"]}, "pools", "ShopPool", "pool ShopPool was stopped and is started again in the same boot: somebody else started it"),
        ("health_probe_hold", {"action": "iis_site", "iis_site": "Health"}, "sites", "Health", "somebody else changed it, so it was not touched."),
    ],
)
def test_what_somebody_else_changed_is_told_while_another_event_holds_it(host, module, args, kind, name, told):
    until_done(Action(host), module, event_ids=["E1", "E2"], **args)
    with host.change() as state:
        state[kind][name]["status" if kind == "services" else "state"] = "Running" if kind == "services" else "Started"
    result = Action(host).run(module, state="absent", event_ids=["E1"])
    assert told in result["conflicts"][0] and len(result["conflicts"]) == 1
    assert [list(record["events"]) for record in host.records().values()] == [["E2"]] and states(host)[name] in ("Running", "Started")


class TestHealthFile:
    OUT = {"action": "file", "file": HEALTH}

    def test_its_presence_means_out(self, host):
        result = Action(host).run("health_probe_hold", event_ids=["E1"], **self.OUT)
        assert result["answers"][0]["condition"] == "held" and result["done"]
        content = base64.b64decode(host.state()["files"][HEALTH])
        assert list(record_in(content, "file", HEALTH)["events"]) == ["E1"]
        assert Action(host).run("health_probe_hold", state="absent")["changed"]
        assert host.state()["files"] == {}

    def test_its_absence_means_out(self, host):
        with host.change() as state:
            state["files"][HEALTH] = base64.b64encode(b"all is well").decode()
        means = dict(self.OUT, file_means="in")
        Action(host).run("health_probe_hold", event_ids=["E1"], **means)
        assert HEALTH not in host.state()["files"] and HEALTH + KEPT in host.state()["files"]
        Action(host).run("health_probe_hold", state="absent")
        assert host.state()["files"] == {HEALTH: base64.b64encode(b"all is well").decode()}

    @pytest.mark.parametrize(
        ("answer", "passes", "answered"),
        [(reply(200), True, True), (reply(404), False, True), ({"failed": True, "msg": "Unable to connect to the remote server"}, False, False)],
    )
    def test_whether_the_url_passes_is_recorded(self, host, answer, passes, answered):
        action = Action(host, {URI: answer})
        assert action.run("health_probe_hold", event_ids=["E1"], url=URL, **self.OUT)["answers"][0]["found"]["passed"] is passes
        probe = action.run("health_probe_info", url=URL, **self.OUT)["probe"]
        assert (probe["passes"], probe["answered"]) == (passes, answered)

    def test_an_operators_own_file_stays(self, host):
        with host.change() as state:
            state["files"][HEALTH] = base64.b64encode(b"patching").decode()
        assert Action(host).run("health_probe_hold", event_ids=["E1"], **self.OUT)["answers"][0]["condition"] == "already_out"
        Action(host).run("health_probe_hold", state="absent")
        assert host.records() == {} and HEALTH in host.state()["files"]

    @pytest.mark.parametrize(
        ("file_ago", "folder_ago", "told"),
        [
            (100.0, 200.0, 100.0),
            (5000.0, 3.0, 3.0),  # moved there with the times that it had
            (1e9, 1e9, 7000.0),  # no longer than since the boot
            (-30.0, 100.0, 0.0),  # the clock was set back
        ],
    )
    def test_since_when_an_operators_own_file_is_there(self, host, file_ago, folder_ago, told):
        with host.change() as state:
            state["files"][HEALTH] = base64.b64encode(b"patching").decode()
            state["booted"] = time.time() - 7000
            state["changed"] = {HEALTH.lower(): time.time() - file_ago, ntpath.dirname(HEALTH).lower(): time.time() - folder_ago}
        look = Action(host).run("health_probe_info", notice=12, **self.OUT)
        assert look["answer"]["condition"] == "already_out" and look["answer"]["failing_for"] == pytest.approx(told, abs=2)
        assert look["notice_left"] == pytest.approx(max(0.0, 12 - told), abs=2) and look["idle"] == (told > 12)

    @pytest.mark.parametrize(("changed_ago", "told"), [(30.0, 30.0), (1e9, 7000.0)])
    def test_for_how_long_it_has_passed_since_a_hold_was_released(self, host, changed_ago, told):
        Action(host).run("health_probe_hold", event_ids=["E1"], **self.OUT)
        Action(host).run("health_probe_hold", state="absent")
        with host.change() as state:
            state["booted"] = time.time() - 7000
            state["changed"] = {ntpath.join(PROGRAM_DATA, "graceful_azure").lower(): time.time() - changed_ago}
        assert Action(host).run("health_probe_info", **self.OUT)["passing_for"] == pytest.approx(told, abs=2)

    def test_since_when_the_file_of_an_operator_is_gone(self, host):
        with host.change() as state:
            state["booted"] = time.time() - 7000
            state["changed"] = {ntpath.dirname(HEALTH).lower(): time.time() - 4}
        look = Action(host).run("health_probe_info", notice=12, **dict(self.OUT, file_means="in"))
        assert look["answer"]["condition"] == "already_out" and look["notice_left"] == pytest.approx(8, abs=2)

    def test_a_time_that_is_not_told_is_waited_for_in_full(self, host):
        with host.change() as state:
            state["files"][HEALTH] = base64.b64encode(b"patching").decode()
            state["changed"] = {HEALTH.lower(): 0.0}
            state["services"] = {"Web": {"status": "Stopped"}}
        for answer in (self.OUT, {"action": "service", "service": "Web"}):
            look = Action(host).run("health_probe_info", notice=12, **answer)
            assert look["answer"]["condition"] == "already_out" and look["notice_left"] == pytest.approx(12, abs=2) and not look["idle"]

    @pytest.mark.parametrize("answer", [OUT, {"action": "service", "service": "Web"}, {"action": "iis_site", "iis_site": "Health"}])
    def test_the_balancer_has_noticed_what_is_held_for_long_enough(self, host, answer):
        with host.change() as state:
            state["services"] = {"Web": {"status": "Running"}}
        until_done(Action(host), "health_probe_hold", event_ids=["E1"], **answer)
        look = Action(host).run("health_probe_info", notice=12, **answer)
        assert look["answer"]["condition"] == "held" and look["notice_left"] == pytest.approx(12, abs=patient(2))
        with host.change() as state:
            state["booted"] -= 100
        look = Action(host).run("health_probe_info", notice=12, **answer)
        assert look["answer"]["condition"] == "held" and look["notice_left"] == 0 and look["idle"]

    def test_how_the_look_tells_that_it_is_idle(self, host):
        Action(host).run("health_probe_hold", event_ids=["E1"], **self.OUT)
        look = Action(host).run("health_probe_info", ports=[80], notice=0, **self.OUT)
        assert look["idle"] and look["answer"]["condition"] == "held" and look["connections"] == [] and len(look["holds"]) == 1
        with host.change() as state:
            state["connections"] = [[80, "168.63.129.16", 1, "Established"], [80, "10.0.0.9", 1, "Established"]]
        look = Action(host).run("health_probe_info", ports=[80], notice=0, **self.OUT)
        assert not look["idle"] and look["connections"] == [{"port": 80, "peer": "10.0.0.9", "count": 1}]

    def test_what_an_operator_took_out_a_moment_ago(self, host):
        """The balancer needs its time to notice, whoever made the answer fail. The folder tells of a file that was moved there with its old times."""
        for file_ago, folder_ago, left in ((2.0, 500.0, 10.0), (500.0, 2.0, 10.0), (500.0, 500.0, 0.0)):
            with host.change() as state:
                state["files"][HEALTH] = base64.b64encode(b"patching").decode()
                state["changed"] = {HEALTH.lower(): time.time() - file_ago, HEALTH.lower().rpartition("\\")[0]: time.time() - folder_ago}
            look = Action(host).run("health_probe_info", ports=[80], notice=12, **self.OUT)
            assert look["answer"]["condition"] == "already_out" and look["notice_left"] == pytest.approx(left, abs=patient(1.0))

    def test_what_the_record_says_of_the_file_counts(self, host):
        Action(host).run("health_probe_hold", event_ids=["E1"], **self.OUT)
        look = Action(host).run("health_probe_info", ports=[80], **dict(self.OUT, file_means="in"))
        assert look["answer"]["condition"] == "held"

    def test_what_the_host_asks_itself_is_no_new_connection(self, host):
        with host.change() as state:
            state["connections"] = [[80, peer, 1, "Established"] for peer in ("127.0.0.1", "::1", "10.0.0.21")]

        def answer(args):
            with host.change() as state:
                state["connections"].append([80, "127.0.0.1", 2, "TimeWait"])
            return reply(503)

        Action(host).run("health_probe_hold", event_ids=["E1"], **self.OUT)
        more = {"ports": [80], "notice": 0, "url": "http://localhost/health", "peer": "10.0.0.21"}
        look = Action(host, {URI: answer}).run("health_probe_info", **more, **self.OUT)
        assert look["idle"] and look["new_connections"] == [] and look["connections"] == []

    def test_what_is_not_possible(self, host):
        def said(**args):
            return Action(host).run("health_probe_hold", event_ids=["E1"], **args)["msg"]

        assert "command is not possible on a Windows host; there are file, service and iis_site." in said(action="command", command_out="a", command_back="b")
        assert "action is iis_site but all of the following are missing: iis_site" in said(action="iis_site")
        assert "there is no folder" in said(action="file", file=r"C:\nowhere\f")
        assert said(action="service", service="Nope") == "There is no service 'Nope' on this host (option service)."
        assert said(action="service", service="a/b") == "'a/b' is not the name of a Windows service (option service)."
        assert "not an absolute path" in said(action="file", file="/srv/f")


class TestHealthSite:
    """A site of IIS answers the probe."""

    OUT = {"action": "iis_site", "iis_site": "Health"}

    def hold(self, host, **more):
        return Action(host).run("health_probe_hold", pause=time.sleep, event_ids=["E1"], **{**self.OUT, **more})

    def look(self, host, **more):
        return Action(host).run("health_probe_info", **{"ports": [80], **self.OUT, **more})

    def change(self, host, state):
        with host.change() as found:
            found["sites"]["Health"]["state"] = state

    def test_it_is_stopped_and_started(self, host):
        before = states(host)
        result = self.hold(host)
        assert result["done"] and result["changed"] and result["answers"][0]["condition"] == "held"
        assert result["answers"][0]["told"] == "site Health is stopped" and states(host) == dict(before, Health="Stopped")
        assert not self.hold(host)["changed"]
        look = self.look(host)
        assert look["answer"]["condition"] == "held" and look["idle"] and look["problem"] is None
        assert self.look(host, notice=12)["notice_left"] == pytest.approx(12, abs=2)
        result = Action(host).run("health_probe_hold", state="absent")
        assert result["done"] and result["changed"] and states(host) == before and host.records() == {}
        assert not Action(host).run("health_probe_hold", state="absent")["changed"]

    def test_check_mode(self, host):
        before = host.state()
        action = Action(host, check_mode=True)
        result = action.run("health_probe_hold", event_ids=["E1"], **self.OUT)
        assert result["changed"] and host.state() == before
        assert {name for name, _args in action.calls} == {"ansible.windows.win_powershell", "microsoft.iis.website_info"}
        (after,) = [diff["after"] for diff in result["diff"]] if isinstance(result["diff"], list) else [result["diff"]["after"]]
        assert "failing" in str(after)

    def test_one_that_an_operator_has_stopped_stays(self, host):
        self.change(host, "Stopped")
        assert self.hold(host)["answers"][0]["condition"] == "already_out" and host.records() == {}
        # IIS does not tell since when, so the time counts from the look.
        look = self.look(host, notice=12)
        assert look["answer"]["condition"] == "already_out" and look["notice_left"] == pytest.approx(12, abs=2)
        Action(host).run("health_probe_hold", state="absent")
        assert states(host)["Health"] == "Stopped"

    def test_somebody_else_has_started_it(self, host):
        self.hold(host)
        self.change(host, "Started")
        assert self.look(host)["answer"]["condition"] == "changed_meanwhile"
        result = Action(host).run("health_probe_hold", state="absent")
        assert "somebody else changed it" in result["conflicts"][0] and states(host)["Health"] == "Started" and host.records() == {}

    @pytest.mark.parametrize("stays_stopped", [True, False])
    def test_a_reboot(self, host, stays_stopped):
        before = states(host)
        self.hold(host)
        host.reboot(0.0)
        if stays_stopped:
            self.change(host, "Stopped")
        assert self.look(host)["answer"]["condition"] == ("held" if stays_stopped else "lost")
        assert self.hold(host)["answers"][0]["condition"] == "held" and states(host)["Health"] == "Stopped"
        Action(host).run("health_probe_hold", state="absent")
        assert states(host)["Health"] == before["Health"] and host.records() == {}

    def test_its_state_on_the_way(self, host):
        """IIS tells a site's state also by its number."""
        self.hold(host)
        for state, condition in (("Stopping", "changed_meanwhile"), ("2", "changed_meanwhile"), ("Stopped", "held"), ("3", "held")):
            self.change(host, state)
            assert self.look(host)["answer"]["condition"] == condition

    def test_one_that_is_not_there(self, host):
        result = self.hold(host, iis_site="Nowhere")
        assert result["failed"] and "IIS has no site Nowhere (option iis_site)." in result["msg"] and host.records() == {}
        look = self.look(host, iis_site="Nowhere")
        assert look["problem"] == "IIS has no site Nowhere (option iis_site)." and not look["idle"] and look["answer"] is None
        self.hold(host)
        with host.change() as state:
            del state["sites"]["Health"]
        result = Action(host).run("health_probe_hold", state="absent")
        assert "is not there any more: it was not started" in result["conflicts"][0] and host.records() == {}

    def test_an_iis_that_does_not_obey(self, host):
        with host.change() as state:
            state["denied"] = ["microsoft.iis.website"]
        result = self.hold(host)
        assert "The site Health was not stopped: Access is denied" in str(result) and states(host)["Health"] == "Started"
        with host.change() as state:
            state["denied"] = ["microsoft.iis.website_info"]
        assert "The site Health cannot be looked at: Access is denied" in self.look(host)["msg"]

    @pytest.mark.parametrize("state, is_refused", [("Started", True), ("Stopping", False), ("Stopped", False)])
    def test_a_module_that_failed_after_its_work_is_no_refusal(self, state, is_refused):
        """The record would go, and the site would stay stopped."""
        shown = ["Started", state]

        def module(name, args):
            return {"failed": True, "msg": "lost"} if name == "microsoft.iis.website" else {"site": [{"name": "Health", "state": shown.pop(0)}]}

        iis = windows_iis.WindowsIis(types.SimpleNamespace(boot="1", module=module, monotonic=lambda: 0.0))
        with pytest.raises(_iis.IisRefused, match="was not stopped: lost") if is_refused else contextlib.nullcontext():
            iis.stop((_iis.SITE, "Health"))

    @pytest.mark.parametrize("state, is_refused", [("Running", True), ("StopPending", False), ("Stopped", False)])
    def test_so_is_none_of_a_service(self, state, is_refused):
        def tell(name, verb):
            raise windows.WindowsError("The answer was lost.")

        found = types.SimpleNamespace(name="Shop", status=state, start="2", dependents=())
        host = types.SimpleNamespace(boot="1", forget=lambda: None, look=lambda: types.SimpleNamespace(services=[found]), tell_service=tell)
        services = windows_services.WindowsServices(host)
        with pytest.raises(_systemd.SystemdRefused, match="Shop was not told to stop: The answer was lost") if is_refused else contextlib.nullcontext():
            services.stop("Shop")

    def test_an_action_that_no_windows_host_has_is_a_problem_of_the_look(self, host):
        look = self.look(host, action="responder", responder_port=8079)
        assert look["problem"] and "responder is not possible on a Windows host" in look["problem"]


class TestDocumented:
    """What Microsoft's reference of .NET and IIS says: the names and the numbers of each state. PowerShell gives one or the other."""

    @pytest.mark.parametrize(
        ("status", "active_state"),
        [
            # System.ServiceProcess.ServiceControllerStatus
            *((("Stopped", 1), "inactive"), (("StartPending", 2), "activating"), (("StopPending", 3), "deactivating"), (("Running", 4), "active")),
            *((("ContinuePending", 5), "activating"), (("PausePending", 6), "deactivating"), (("Paused", 7), "inactive")),
        ],
    )
    def test_services(self, status, active_state):
        for told in status:
            unit = windows_services._unit("a", windows.WindowsServiceState("A", str(told), "Automatic", ()))
            assert (unit.name, unit.active_state, unit.load_state) == ("A", active_state, "loaded")
        # System.ServiceProcess.ServiceStartMode
        for start in ("Disabled", 4):
            assert windows_services._unit("a", windows.WindowsServiceState("A", "Stopped", str(start), ())).load_state == "disabled"

    def test_connections(self):
        # System.Net.NetworkInformation.TcpState
        names = "Unknown Closed Listen SynSent SynReceived Established FinWait1 FinWait2 CloseWait Closing LastAck TimeWait DeleteTcb".split()
        for number, name in enumerate(names):
            found = [windows_connections.connections_in([f"80 10.0.0.9 4000 {told}"], {80}) for told in (name, number)]
            assert found[0] == found[1] and bool(found[0]) == (name in ("Established", "CloseWait", "SynReceived", "FinWait1", "Closing", "LastAck"))

    def test_iis(self):
        # Microsoft.Web.Administration.ObjectState
        for number, name in enumerate(("Starting", "Started", "Stopping", "Stopped")):
            assert windows_iis.STATES[str(number)] == windows_iis.STATES[name.lower()] == name.lower()
        assert "4" not in windows_iis.STATES and "unknown" not in windows_iis.STATES

    @pytest.mark.parametrize(
        ("rights", "changes"),
        [
            # System.Security.AccessControl.FileSystemRights, with Synchronize as Windows adds it
            *((2032127, True), (197055 | 1048576, True), (278 | 1048576, True), (64, True), (262144, True), (524288, True)),
            *((131241 | 1048576, False), (131209, False), (1048576, False)),
            # The generic rights that some tools set
            *((0x10000000, True), (0x40000000, True), (-2147483648, False)),
        ],
    )
    def test_rights(self, rights, changes):
        assert bool(rights & windows_records.CHANGES) == changes


def test_the_plan_names_no_operating_system():
    folder = ROOT / "plugins" / "plugin_utils" / "_planning"
    text = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    assert re.findall(r"(?i)windows|linux|powershell|winrm|_platforms", text) == []


class TestPlatform:
    def action(self, shell, delegate_to=None):
        action = Action(None)
        action._connection = types.SimpleNamespace(_shell=types.SimpleNamespace(_IS_WINDOWS=shell))
        action._task.delegate_to = delegate_to
        action._templar = types.SimpleNamespace(template=lambda value: value)
        return action

    def test_the_shell_tells_or_the_variable(self):
        assert is_windows(self.action(True), {}) and not is_windows(self.action(False), {})
        assert not is_windows(self.action(True), {"graceful_azure_platform": "linux"})
        assert is_windows(self.action(False), {"graceful_azure_platform": "windows"})
        with pytest.raises(AnsibleError, match="is none of linux, windows"):
            is_windows(self.action(False), {"graceful_azure_platform": "beos"})

    def test_a_balancer_has_its_own(self):
        variables = {"inventory_hostname": "win1", "graceful_azure_platform": "windows", "ansible_delegated_vars": {"lb1": {}}}
        assert not is_windows(self.action(False, "lb1"), variables)
        assert is_windows(self.action(False, "win1"), variables)

    def test_paths(self):
        assert all(map(is_absolute, ["/srv", "~/x", r"C:\x", "c:/x", r"%ProgramData%\x"]))
        assert not any(map(is_absolute, ["srv", r"x\y", "C:x", "%ProgramData%"]))

    def test_what_the_controller_lacks(self):
        steps = {"win1": [{"type": "iis"}], "win2": [], "web1": [{"type": "iis"}]}
        settings = {name: {"drain_host": {"steps": steps[name]}, "load_balancers": [{"provider": "haproxy"}]} for name in steps}
        hosts = {"win1": {"ansible_connection": "psrp"}, "win2": {"ansible_shell_type": "cmd"}, "web1": {}}
        assert [told_by(variables) for variables in hosts.values()] == ["windows", "windows", "linux"]
        assert list(lacking(hosts, settings, lambda name: "99.0")) == []
        told = list(lacking(hosts, settings, {"ansible.windows": "2.5.0"}.get))
        assert told[0].startswith("win1, win2: the controller has an old ansible.windows (2.5.0)")
        assert told[1].startswith("win1: the controller has no microsoft.iis") and len(told) == 2
        assert list(lacking({"web1": {}}, settings, lambda name: None)) == []

    def test_a_health_answer(self):
        def told(action, versions):
            settings = {"win1": {"drain_host": {"steps": []}, "load_balancers": [{"provider": "health_probe", "action": action}]}}
            return list(lacking({"win1": {"graceful_azure_platform": "windows"}}, settings, versions.get))

        assert told("file", {"ansible.windows": "3.8.0"}) == []
        assert told("iis_site", {"ansible.windows": "3.8.0", "microsoft.iis": "1.3.0"}) == []
        (said,) = told("iis_site", {"ansible.windows": "3.8.0"})
        assert said.startswith("win1: the controller has no microsoft.iis")
        (said,) = told("command", {"ansible.windows": "3.8.0"})
        assert said == "win1: the option action: command is not possible on a Windows host; there are file, service and iis_site."
