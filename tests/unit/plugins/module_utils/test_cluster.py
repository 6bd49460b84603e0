# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Members of clusters: the life of a hold with a made-up member, and the tools with which members ask."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time

import pytest
from ansible_collections.graceful.azure.plugins.module_utils import _cluster
from ansible_collections.graceful.azure.plugins.module_utils._cluster import MemberError, Tools, ids_in, tls_context, with_ids
from ansible_collections.graceful.azure.plugins.module_utils._cluster_types import TYPES
from ansible_collections.graceful.azure.plugins.module_utils._duties import cluster
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import CHANGING, HELD, RESTORING, Request, Store

from tests.support.calls import ScriptedMachine
from tests.support.cluster import Bell, ScriptedTools
from tests.support.patience import patient, until
from tests.support.processes import is_running
from tests.support.serving import Handler, Server, Serving

DEFAULTS = {
    "state": "present",
    "event_ids": ["A"],
    "event_details": {},
    "reason": "",
    "type": "bell",
    "name": "gong",
    "options": {},
    "force": False,
    "timeout": 0.0,
}


def test_ids_in_a_text():
    text = with_ids("graceful.azure", ["602d9444-d2cd-49c7-8624-8643e7171297", "a b", "x)", "my.id", "a..b", ""])
    assert text == "graceful.azure (602d9444-d2cd-49c7-8624-8643e7171297, my.id)"
    assert ids_in(text) == ("602d9444-d2cd-49c7-8624-8643e7171297", "my.id")
    assert with_ids("ours", ["a b"]) == "ours" and ids_in("ours") == () == ids_in("ours (a b)")
    # A reason of Slurm has no more room.
    assert len(with_ids("graceful.azure: Azure scheduled event", ["602d9444-d2cd-49c7-8624-8643e7171297"] * 9)) < 255


class Clock:
    """Time that passes only while somebody waits."""

    def __init__(self, then=lambda: None):
        self.now, self.then = 0.0, then

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.then()


class Bed:
    def __init__(self, folder):
        Bell.build()
        self.folder = folder
        self.tools = ScriptedTools()

    def call(self, check=False, waiting=lambda: None, **params):
        given, params = params, dict(DEFAULTS, state_dir=str(self.folder), **params)
        if params["state"] == "absent":
            params = dict(params, **{key: None for key in ("type", "name", "options") if key not in given})
        store = Store(str(self.folder), dry=check)
        clock = Clock(waiting)
        machine = ScriptedMachine(store, self.tools, check_mode=check, monotonic=clock.monotonic, sleep=clock.sleep)
        return cluster.hold(params, machine, Request.from_params(params), {"bell": Bell})

    def out(self, **params):
        return self.call(**params)

    def back(self, **params):
        return self.call(**dict({"state": "absent", "type": None, "name": None, "event_ids": None}, **params))

    def still_on(self):
        """What a look at the host tells."""
        duty = cluster.class_of(Bell)("gong", {"tower": "north", "height": None}, ScriptedMachine(Store(str(self.folder)), self.tools))
        return [sentence.removeprefix("The tower (gong): ") for sentence in duty.still_on()]

    @property
    def records(self):
        return Store(str(self.folder)).records("cluster")

    def leave(self, **changes):
        """As a run that was killed leaves the record."""
        (record,) = self.records
        Store(str(self.folder)).write(dict(record, **changes))


@pytest.fixture(name="bed")
def make_bed(tmp_path):
    (tmp_path / "state").mkdir(0o700)
    return Bed(tmp_path / "state")


def condition(result):
    (member,) = result["members"]
    return member["condition"]


class TestOut:
    def test_it_is_held_when_nothing_is_left(self, bed):
        Bell.rings = 3
        result = bed.out()
        assert (result["done"], result["waiting_for"], condition(result)) == (False, "it rings 3 more times", "draining")
        assert result["changed"] and result["diff"]["before"]["gong"]["flag"] is None and result["diff"]["after"]["gong"]["flag"] == "ours"
        (record,) = bed.records
        assert record["subject"] == {"type": "bell", "name": "gong", "member": "north"} and record["options"] == {"tower": "north", "height": None}
        assert (record["found"], record["phase"], record["boot_id"]) == ({"flag": None, "rings": 3}, HELD, "first")
        again = bed.out()
        assert not again["changed"] and not again["done"] and Bell.log == ["out"]
        Bell.rings = 0
        result = bed.out()
        assert (result["done"], result["changed"], condition(result)) == (True, False, "held")

    def test_it_waits_as_long_as_is_asked(self, bed):
        Bell.rings = 3

        def ring():
            Bell.rings -= 1

        assert bed.out(timeout=2.0, waiting=ring)["waiting_for"] == "it rings 1 more times"
        assert bed.out(timeout=2.0, waiting=ring)["done"]

    def test_in_a_short_wait_it_asks_more_often(self, bed):
        Bell.rings = 9

        def ring():
            Bell.rings -= 1

        assert bed.out(timeout=1.0, waiting=ring)["waiting_for"] == "it rings 5 more times"
        Bell.rings = 0
        assert bed.out(timeout=1.0)["done"]
        Bell.rings = 1
        assert not bed.out(timeout=0.0, waiting=ring)["done"] and Bell.rings == 1

    def test_what_somebody_else_took_out_is_left_to_them(self, bed):
        Bell.flag, Bell.rings = "Quasimodo", 1
        result = bed.out()
        assert (result["done"], condition(result), result["changed"]) == (False, "taken_out_by_others", False)
        Bell.rings = 0
        assert bed.out()["done"] and bed.records == [] and Bell.log == []
        assert bed.back()["done"] and Bell.flag == "Quasimodo"

    def test_what_somebody_else_took_out_may_be_needed_still(self, bed):
        """Such as for its vote."""
        Bell.flag, Bell.needed = "Quasimodo", "two bells must hang"
        result = bed.out()
        assert (result["done"], result["waiting_for"], bed.records, Bell.log) == (False, "two bells must hang", [], [])
        assert bed.still_on() == ["two bells must hang"]
        # Shortly before the impact, nobody asks any more.
        assert bed.out(force=True)["done"]
        Bell.needed = MemberError("The tower does not answer.")
        assert bed.still_on() == ["The tower does not answer"]
        Bell.needed = None
        assert bed.out()["done"] and bed.still_on() == []

    def test_what_is_ours_may_be_needed_since_then(self, bed):
        """Another member has failed after it was taken out."""
        assert bed.out()["done"] and bed.still_on() == []
        Bell.needed = "two bells must hang"
        result = bed.out()
        assert (result["done"], result["waiting_for"], result["changed"], Bell.log) == (False, "two bells must hang", False, ["out"])
        assert bed.still_on() == ["two bells must hang"]
        # Shortly before the impact, nobody asks any more, and the look that follows does not either.
        assert bed.out(force=True)["done"] and bed.still_on() == [] and bed.records[0]["forced"]
        # The next event is not near.
        assert bed.out(event_ids=["B"])["waiting_for"] == "two bells must hang" and bed.still_on() == ["two bells must hang"]
        # Somebody else has taken it over.
        Bell.flag = "Quasimodo"
        assert bed.out()["waiting_for"] == "two bells must hang" and bed.still_on() == ["two bells must hang"]
        Bell.needed, Bell.flag = None, "ours"
        assert bed.out()["done"] and bed.still_on() == []
        assert bed.back()["done"] and Bell.flag is None
        Bell.spared, Bell.needed = False, "two bells must hang"
        assert bed.out(force=True)["done"] and bed.still_on() == []

    def test_a_change_that_bears_no_name_is_ours_if_the_record_says_so(self, bed, monkeypatch):
        look = Bell.look
        flagged = "Somebody put a flag on it."
        monkeypatch.setattr(Bell, "look", lambda self: look(self)._replace(ours=Bell.flag is not None, foreign=flagged if Bell.flag else None))
        Bell.flag = "Quasimodo"
        result = bed.out()
        assert (result["done"], condition(result), bed.records) == (True, "taken_out_by_others", [])
        assert bed.back()["done"] and Bell.log == []
        Bell.flag = None
        assert condition(bed.out()) == "held" and condition(bed.out(event_ids=["B"])) == "held"
        bed.leave(phase=CHANGING)
        assert condition(bed.out()) == "held"
        assert bed.back()["conflicts"] == [] and Bell.flag is None and bed.records == []

    def test_what_cannot_be_spared_waits_without_a_record(self, bed):
        Bell.spared = False
        result = bed.out()
        assert (result["waiting_for"], result["changed"], bed.records, Bell.log) == ("no other bell rings", False, [], [])
        assert bed.out(force=True)["done"] and Bell.flag == "ours"
        # Who is out is not asked about again.
        assert bed.out()["done"]

    def test_a_refusal_leaves_no_record(self, bed):
        Bell.spared = "refuses"
        with pytest.raises(MemberError, match=r"The tower \(gong\): The tower refuses the flag."):
            bed.out()
        assert bed.records == []

    def test_a_tool_that_is_missing_changes_nothing(self, bed):
        Bell.broken = True
        with pytest.raises(MemberError, match=r"The tower \(gong\): The program bell is not installed."):
            bed.out()
        assert bed.records == []

    def test_our_flag_without_a_record_is_taken_over(self, bed):
        """A wiped disk loses the record, and the cluster keeps what was set."""
        Bell.flag = "ours"
        assert bed.out()["done"] and Bell.log == []
        assert bed.back()["changed"] and Bell.flag is None

    def test_check_mode(self, bed):
        Bell.rings = 2
        result = bed.out(check=True)
        assert result["changed"] and Bell.flag is None and bed.records == []
        Bell.spared = False
        assert bed.out(check=True)["waiting_for"] == "no other bell rings"

    def test_a_second_event_joins(self, bed):
        bed.out()
        assert bed.out(event_ids=["B"])["members"][0]["held_by"] == ["A", "B"]
        assert not bed.back(event_ids=["A"])["members"][0]["serves"]
        assert bed.back(event_ids=["B"])["members"][0]["serves"]


class TestKilled:
    def test_between_record_and_change(self, bed):
        bed.out()
        bed.leave(phase=CHANGING)
        Bell.flag = None
        assert bed.out()["done"] and Bell.flag == "ours" and bed.records[0]["phase"] == HELD

    def test_between_change_and_record(self, bed):
        bed.out()
        bed.leave(phase=CHANGING)
        assert bed.out()["done"] and bed.records[0]["phase"] == HELD and bed.records[0]["found"]["flag"] is None

    def test_before_the_change_and_the_event_is_over(self, bed):
        bed.out()
        bed.leave(phase=CHANGING)
        Bell.flag, Bell.log = None, []
        result = bed.back()
        assert (result["done"], result["conflicts"], bed.records, Bell.log) == (True, [], [], [])

    @pytest.mark.parametrize("flag", ["ours", None])
    def test_on_the_way_back(self, bed, flag):
        bed.out()
        bed.leave(phase=RESTORING)
        Bell.flag = flag
        assert bed.back()["done"] and bed.records == [] and Bell.flag is None

    def test_on_the_way_back_and_a_new_event_comes(self, bed):
        bed.out()
        bed.leave(phase=RESTORING)
        Bell.flag = None
        result = bed.out(event_ids=["B"])
        assert result["members"][0]["held_by"] == ["B"] and Bell.flag == "ours" and bed.records[0]["found"]["flag"] is None

    def test_taken_out_by_others_before_we_could(self, bed):
        bed.out()
        bed.leave(phase=CHANGING)
        Bell.flag = "Quasimodo"
        assert condition(bed.out()) == "taken_out_by_others" and bed.records == []


class TestBack:
    def test_nothing_on_record_asks_nobody(self, bed):
        Bell.broken = True
        assert bed.back() == {"changed": False, "members": [], "done": True, "waiting_for": None, "conflicts": [], "diff": {"before": {}, "after": {}}}

    def test_as_found(self, bed):
        bed.out(options={"tower": "south"})
        result = bed.back()
        assert result["changed"] and result["done"] and Bell.flag is None and bed.records == []
        assert (result["members"][0]["member"], result["members"][0]["found"], condition(result)) == ("south", {"flag": None, "rings": 0}, "none")
        assert not bed.back()["changed"]

    def test_of_one_name_or_type(self, bed):
        bed.out()
        assert bed.back(name="other")["members"] == [] and bed.back(type="other", name="gong")["members"] == []
        assert bed.back(type="bell", name="gong")["changed"]

    def test_our_flag_without_a_record_is_given_back(self, bed, monkeypatch):
        """The disk with the records was lost, and the cluster keeps what was set."""
        asked = {"type": "bell", "name": "gong", "options": {"tower": "south"}}
        Bell.flag = "ours"
        # Others may have set what bears no name.
        assert bed.back(**asked)["members"] == [] and Bell.flag == "ours"
        monkeypatch.setattr(Bell, "bears_name", True)
        assert bed.back(check=True, **asked)["changed"] and Bell.flag == "ours"
        result = bed.back(**asked)
        assert result["changed"] and result["done"] and Bell.flag is None and bed.records == []
        Bell.flag = "somebody"
        assert bed.back(**asked)["members"] == [] and Bell.flag == "somebody"
        Bell.broken = True
        assert bed.back(**asked)["done"]

    def test_our_flag_tells_its_events(self, bed, monkeypatch):
        monkeypatch.setattr(Bell, "bears_name", True)
        bed.out(event_ids=["A", "B"])
        assert Bell.told == ("A", "B")
        for path in bed.folder.glob("*.json"):
            path.unlink()
        asked = {"type": "bell", "name": "gong", "options": {}}
        # The other event holds it on, and now there is a record again.
        assert bed.back(event_ids=["B"], **asked)["done"] and Bell.flag == "ours"
        assert [list(record["events"]) for record in bed.records] == [["A"]]
        assert bed.back(event_ids=["a"])["changed"] and Bell.flag is None and bed.records == []

    def test_what_somebody_else_changed_is_told_and_left(self, bed):
        bed.out()
        Bell.flag = None
        result = bed.out()
        told = "The tower: somebody else put north back while it was held, and it was taken out once more."
        assert result["conflicts"] == [told] and condition(result) == "held" and result["done"] and Bell.flag == "ours"
        Bell.flag = None
        result = bed.out()
        assert condition(result) == "changed_meanwhile" and not result["done"] and Bell.flag is None
        assert result["waiting_for"].startswith("north was taken out twice for the event and is in again")
        result = bed.back()
        assert result["conflicts"] == ["The tower: north was taken out, and what took it out is gone: somebody else acted, so it was not touched."]
        assert bed.records == [] and Bell.log == ["out", "out"]

    def test_what_somebody_else_changed_is_told_while_another_event_holds_it(self, bed):
        bed.out(event_ids=["A", "B"])
        Bell.flag = None
        result = bed.back(event_ids=["A"])
        assert result["conflicts"] == ["The tower: north was taken out, and what took it out is gone: somebody else acted, so it was not touched."]
        assert condition(result) == "changed_meanwhile" and Bell.log == ["out"] and [list(record["events"]) for record in bed.records] == [["B"]]

    def test_it_goes_back_to_what_somebody_else_set(self, bed):
        Bell.rings = 2
        assert bed.out()["changed"] and bed.records[0]["found"] == {"flag": None, "rings": 2}
        Bell.flag, Bell.rings = None, 0
        assert bed.out()["conflicts"] and bed.records[0]["found"] == {"flag": None, "rings": 0}

    def test_after_a_reboot(self, bed, monkeypatch):
        monkeypatch.setattr(Bell, "survives_reboot", False)
        bed.out()
        Bell.flag, bed.tools.boot = None, "second"
        assert bed.back(check=True)["conflicts"] == []
        result = bed.out(event_ids=["B"])
        assert result["done"] and Bell.flag == "ours" and bed.records[0]["boot_id"] == "second"
        Bell.flag, bed.tools.boot = None, "third"
        result = bed.back()
        assert (result["conflicts"], condition(result), bed.records) == ([], "none", [])

    def test_after_a_restart_of_what_keeps_the_change(self, bed, monkeypatch):
        """It lies in the memory of a program, which may start anew in the same boot."""
        monkeypatch.setattr(Bell, "survives_reboot", False)
        monkeypatch.setattr(Bell, "life", lambda self, boot_id: f"{boot_id}, process {process}")
        process = 1
        bed.out()
        Bell.flag, process = None, 2
        result = bed.out()
        assert (result["done"], result["conflicts"], Bell.flag, bed.records[0]["boot_id"]) == (True, [], "ours", "first, process 2")
        Bell.flag = None
        assert bed.out()["conflicts"] and Bell.flag == "ours"

    def test_what_does_not_come_back_by_itself_is_waited_for(self, bed, monkeypatch):
        bed.out()
        monkeypatch.setattr(Bell, "back", lambda self, seen, found: None)
        result = bed.back()
        assert result["waiting_for"] == "The tower does not show yet that north may serve again" and bed.records[0]["phase"] == RESTORING

    def test_what_undoes_itself_is_not_touched(self, bed, monkeypatch):
        monkeypatch.setattr(Bell, "undoes_itself", True)
        bed.out()
        assert bed.back()["done"] and Bell.log == ["out"] and bed.records == []

    def test_a_cluster_that_still_starts_is_waited_for(self, bed):
        bed.out()
        Bell.broken = True
        result = bed.back()
        assert (result["done"], result["waiting_for"]) == (False, "The tower (gong): The program bell is not installed")

        def start():
            Bell.broken = False

        assert bed.back(timeout=10.0, waiting=start)["done"] and Bell.flag is None


class TestMistakes:
    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"tower": "leaning"}, "options.tower: 'leaning' is no tower"),
            ({"towre": "north"}, r"^options.towre: there is no such option, only height, tower\.$"),
            ({"height": "high"}, "height"),
        ],
    )
    def test_options(self, bed, options, said):
        with pytest.raises(ValueError, match=said):
            bed.out(options=options)
        assert bed.records == []

    def test_an_empty_name(self, bed):
        with pytest.raises(ValueError, match="name is empty"):
            bed.out(name=" ")

    @pytest.mark.parametrize("member", TYPES.values())
    def test_no_type_has_a_secret_among_its_options(self, member):
        assert not any(option.get("no_log") for option in member.options.values())
        assert member.type and member.title and not {"name", "type", "cluster"} & set(member.options)


class Answer(Handler):
    def do_PUT(self):
        body = self.body().decode()
        if self.path == "/hang":
            time.sleep(3)
        told = json.dumps({"body": body, "type": self.headers.get("Content-Type"), "path": self.path}).encode()
        self.send_response(409)
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        if self.path == "/drip":
            for byte in told:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                time.sleep(0.2)
        else:
            self.wfile.write(told)


@pytest.fixture(name="web", scope="module")
def serve():
    server, serving = Server(Answer), Serving()
    serving.serve(server)
    yield f"http://127.0.0.1:{server.server_port}"
    serving.close()


class TestTools:
    def test_a_program(self):
        assert Tools().run(["sh", "-c", "echo out; echo err >&2; exit 3"]) == (3, "out\n", "err\n")
        assert Tools().run(["sh", "-c", 'echo "$WORD $LC_ALL"; cat'], env={"WORD": "hidden"})[1] == "hidden C\n"

    def test_a_missing_program(self):
        with pytest.raises(MemberError, match="The program no-such-program is not installed, or not in the PATH."):
            Tools().run(["no-such-program", "x"])

    def test_programs_run_side_by_side(self, tmp_path):
        # Each waits until the other one has begun.
        script = "touch $0; for _try in $(seq 200); do [ -e $1 ] && echo there && exit 3; sleep 0.05; done"
        first, second = str(tmp_path / "first"), str(tmp_path / "second")
        outcomes = Tools().run_all([["sh", "-c", script, first, second], ["sh", "-c", script, second, first], ["no-such-program"]], 20)
        assert outcomes[:2] == [(3, "there\n", "")] * 2
        assert isinstance(outcomes[2], MemberError) and "no-such-program is not installed" in str(outcomes[2])

    def test_a_program_that_hangs_ends_with_all_that_it_started(self, tmp_path):
        began, limit = time.monotonic(), patient(0.3)
        with pytest.raises(MemberError, match=f"`sh -c .*` did not end within {limit:g} seconds."):
            Tools().run(["sh", "-c", f"sleep 30 & echo $! > {tmp_path}/pid; wait"], seconds=limit)
        assert time.monotonic() - began < 3 + limit
        until(lambda: not is_running(int((tmp_path / "pid").read_text())), 10)

    @pytest.mark.parametrize("belongs_to_another", [False, True])
    def test_a_program_that_cannot_be_ended_hides_no_error(self, monkeypatch, belongs_to_another):
        """It waits for a disk, or belongs to another user."""

        class Process:
            pid, returncode = 1 << 30, None

            def __init__(self, *_args, **_more):
                pass

            def wait(self, seconds):
                raise subprocess.TimeoutExpired("x", seconds)

            def kill(self):
                raise PermissionError(1, "Operation not permitted")

        def signal_all(pid, number):
            if belongs_to_another:
                raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(_cluster.subprocess, "Popen", Process)
        monkeypatch.setattr(_cluster.os, "killpg", signal_all)
        with pytest.raises(MemberError, match="`ask` did not end within 1 seconds."):
            Tools().run(["ask"], seconds=1)

    def test_what_a_program_leaves_running_keeps_nobody(self):
        began = time.monotonic()
        code, out, _err = Tools().run(["sh", "-c", "sleep 3 & echo done"])
        assert (code, out) == (0, "done\n") and time.monotonic() - began < 2

    def test_a_request(self, web):
        status, text = Tools().request("PUT", web + "/a?b=c", body={"x": 1})
        assert status == 409 and json.loads(text) == {"body": '{"x": 1}', "type": "application/json", "path": "/a?b=c"}
        assert json.loads(Tools().request("PUT", web, body="text", headers={"Content-Type": "a/b"})[1])["type"] == "a/b"

    @pytest.mark.parametrize("path", ["/hang", "/drip"])
    def test_a_request_that_hangs(self, web, path):
        began = time.monotonic()
        with pytest.raises(MemberError, match=f"PUT {web}{path} .*(was not answered within 0.5 seconds|timed out)"):
            Tools().request("PUT", web + path, seconds=0.5)
        assert time.monotonic() - began < 2

    def test_a_request_that_nobody_answers(self):
        with pytest.raises(MemberError, match="GET http://127.0.0.1:1/x failed: Connection refused."):
            Tools().request("GET", "http://name:word@127.0.0.1:1/x")
        with pytest.raises(MemberError, match="it is no URL that begins with http:// or https://"):
            Tools().request("GET", "ftp://127.0.0.1/")
        with pytest.raises(MemberError, match="GET https:///x failed: it is no URL that begins with http:// or https:// and a host"):
            Tools().request("GET", "https:///x")

    def test_a_port_that_does_not_answer_in_time_may_take_connections(self, monkeypatch):
        """Its queue of new connections is full. One where nobody listens refuses at once."""
        monkeypatch.setattr(_cluster, "CONNECT_SECONDS", 0.3)
        with contextlib.ExitStack() as stack:
            server = stack.enter_context(socket.socket())
            server.bind(("127.0.0.1", 0))
            place = server.getsockname()
            assert not Tools().accepts(*place)
            server.listen(0)
            assert Tools().accepts(*place)
            for _each in range(4):
                client = stack.enter_context(socket.socket())
                client.setblocking(False)
                client.connect_ex(place)
            assert Tools().accepts(*place)

    def test_nobody_is_at_a_name_that_cannot_be_looked_up(self):
        assert not Tools().accepts("web1..example.com", 80)

    def test_a_file_with_a_secret(self, tmp_path):
        (tmp_path / "token").write_text("abc \nrest\n")
        assert Tools().secret(str(tmp_path / "token")) == "abc"
        (tmp_path / "empty").write_text("\n")
        with pytest.raises(MemberError, match="The first line of the file .*/empty is empty."):
            Tools().secret(str(tmp_path / "empty"))
        with pytest.raises(MemberError, match="The file .*/none cannot be read: No such file or directory."):
            Tools().secret(str(tmp_path / "none"))

    def test_certificates_that_cannot_be_used(self, tmp_path):
        with pytest.raises(MemberError, match="The certificates cannot be used"):
            tls_context(ca_cert=str(tmp_path / "none"))
        assert not tls_context(validate_certs=False).check_hostname

    def test_the_boot(self):
        assert Tools().boot_id() == open("/proc/sys/kernel/random/boot_id").read().strip() and os.path.exists("/proc")
