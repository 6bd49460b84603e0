# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The helper as a process, and its client as the command that the controller runs."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import zipfile

import pytest
from ansible_collections.graceful.azure.plugins.module_utils import _helper, _helper_client

from tests.support.patience import patient, until
from tests.support.processes import helpers, marked_helpers

# Stands for a module: it has an archive, a secret in its environment, and goes on as the helper.
MODULE = r"""
import json, os, sys, time
options = json.loads(sys.argv[1])
sys.path[:0] = options["path"]
from ansible_collections.graceful.azure.plugins.module_utils import _helper
for name, value in options["constants"].items():
    setattr(_helper, name, value)
if options["hidden"] is False:
    _helper.stat_fields = lambda *_names: []
if options["hangs"]:
    _helper.Listener = lambda _name, _places: time.sleep(60)
if options["thread"]:
    import threading
    threading.Thread(target=time.sleep, args=[60], daemon=True).start()
if options["user"]:
    import ctypes
    os.setuid(options["user"])
    # As after the exec of sudo: the process may read what the kernel tells of it.
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)


def write(path, text):
    with open(path, "a") as file:
        file.write(text)


def handle(request, still_wanted):
    began = time.monotonic()
    if "wait" in request:
        write(request["file"], "waits ")
        try:
            while time.monotonic() - began < request["wait"]:
                time.sleep(0.02)
                still_wanted()
        finally:
            write(request["file"], "ended ")
        return {"waited": time.monotonic() - began}
    if "act" in request:
        write(request["file"], "begun ")
        while not os.path.exists(request["act"]):
            time.sleep(0.02)
        write(request["file"], "done ")
    elif "large" in request:
        return "x" * request["large"]
    elif "error" in request:
        {"exit": sys.exit, "key": {}.__getitem__}[request["error"]](request["error"])
    elif "close" in request:
        opened.close()
        loaded.close()
        kept.sendall(b"stray")
    elif "set" in request:
        os.environ["LEFT"] = handle.left = "behind"
    elif "load" in request:
        was_there = "ansible_late.late" in sys.modules
        from ansible_late.late import word
        return {"word": word, "was_there": was_there}
    return {
        "request": request,
        "pid": os.getpid(),
        "session": os.getsid(0),
        "secret": os.environ.get("SECRET"),
        "folder": os.getcwd(),
        "left": [os.environ.get("LEFT"), getattr(handle, "left", None)],
        "environment": open("/proc/self/environ", "rb").read().decode().replace("\0", ""),
        "command": open("/proc/self/cmdline", "rb").read().decode().replace("\0", ""),
        "output": [os.readlink("/proc/self/fd/%d" % number) for number in range(3)],
    }


import socket
opened, loaded, (kept, other) = open("/proc/self/stat"), open("/proc/self/maps"), socket.socketpair()
print(json.dumps(_helper.start(options["name"], handle, options["places"])))
sys.stdout.flush()
"""
IS_ROOT = os.geteuid() == 0
NOBODY = 65534
FOR_ROOT = pytest.mark.skipif(not IS_ROOT, reason="only root can be another user: sudo make test")


class Bed:
    """A folder in which helpers listen."""

    def __init__(self, folder, marks):
        self.folder = folder
        self.marks = marks

    @property
    def path(self):
        return os.path.join(self.folder, "graceful_azure-here", "s")

    def start(self, places=None, path=(), hidden=True, user=None, thread=False, hangs=False, **constants):
        """What the module was told of its helper."""
        options = {"name": "here", "places": places or [self.folder], "path": [*path, *sys.path], "constants": constants, "hidden": hidden, "user": user}
        options.update(thread=thread, hangs=hangs)
        environment = dict(os.environ, SECRET="hunter2")
        command = [sys.executable, "-c", MODULE, json.dumps(options)]
        done = subprocess.run(command, capture_output=True, timeout=patient(20), env=environment, check=False)
        assert not done.stderr
        return json.loads(done.stdout.decode())

    def command(self, kind="a", first=""):
        with open(_helper_client.__file__) as file:
            return [sys.executable, "-I", "-S", "-c", first + file.read(), kind, self.path]

    def begin(self, request, kind="a"):
        """A client that has sent its request."""
        client = subprocess.Popen(self.command(kind), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        client.stdin.write(json.dumps(request).encode())
        client.stdin.close()
        client.stdin = None
        return client

    @staticmethod
    def end(client):
        """The lines of a client by their first words; the answer is read."""
        said, complaint = client.communicate(timeout=patient(20))
        assert not complaint
        lines = [line[len("graceful_azure ") :].partition(" ") for line in said.decode().split("\n") if line]
        told = {word: text for word, _space, text in lines}
        if "answer" in told:
            told["answer"] = json.loads(told["answer"])
        return told

    def tell(self, request, kind="a"):
        return self.end(self.begin(request, kind))

    def ask(self, request, kind="a"):
        return self.tell(request, kind)["answer"]

    def connect(self):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(patient(5))
        client.connect(self.path)
        assert client.recv(1) == b"h"
        return client

    def processes(self):
        return helpers(self.marks)

    def helper(self):
        """The process that listens."""
        (pid,) = helpers(self.marks, forks=False)
        return pid

    def is_gone(self):
        return not self.processes() and os.listdir(self.folder) == []

    def close(self):
        for pid in self.processes():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        until(lambda: not self.processes(), 5)
        shutil.rmtree(self.folder)


@pytest.fixture
def bed():
    # A path of a socket has 107 bytes at most.
    with marked_helpers() as marks:
        one = Bed(tempfile.mkdtemp(prefix="ga-", dir="/tmp"), marks)
        yield one
        one.close()


@pytest.fixture
def notes(tmp_path):
    """A file of what was done, as words."""
    path = tmp_path / "notes"
    path.write_text("")
    return path


def words(notes):
    return notes.read_text().split()


def test_a_helper_answers_and_shows_nothing_of_the_task(bed):
    assert bed.start() is None
    answer = bed.ask({"a": ["ü", 1]})
    assert answer["request"] == {"a": ["ü", 1]}
    assert answer["secret"] == "hunter2"  # what the task has set counts for what runs for it
    assert answer["environment"] == ""
    assert answer["command"] == "graceful_azure helper"
    assert answer["folder"] == "/"
    assert answer["output"] == [os.devnull] * 3
    helper = bed.helper()
    assert answer["session"] == helper != os.getsid(0)
    with open("/proc/%d/environ" % helper, "rb") as environment:
        assert environment.read().strip(b"\0") == b""
    assert stat.S_IMODE(os.stat(os.path.dirname(bed.path)).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(bed.path).st_mode) == 0o600


def test_nothing_of_a_request_is_left_for_the_next(bed):
    bed.start()
    assert bed.ask({"set": 1})["left"] == ["behind", "behind"]
    assert bed.ask({})["left"] == [None, None]


def test_what_the_module_has_left_open_harms_nobody(bed):
    """It closes and writes to the numbers of its files, which might be those of others by now."""
    bed.start()
    assert bed.ask({"close": 1})["msg"] == "OSError: [Errno 88] Socket operation on non-socket"
    assert bed.ask({})["request"] == {}


def test_what_is_loaded_later_comes_from_memory_and_is_there_for_the_next(bed, tmp_path):
    archive = str(tmp_path / "module.zip")
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("ansible_late/__init__.py", "")
        opened.writestr("ansible_late/late.py", "from ansible_late import later\nword = later.word")
        opened.writestr("ansible_late/later.py", "word = 'found'")
    assert bed.start(path=[archive]) is None
    os.unlink(archive)
    assert bed.ask({"load": 1}) == {"word": "found", "was_there": False}
    until(lambda: bed.ask({"load": 1}) == {"word": "found", "was_there": True}, 5)


def test_at_the_farewell_waits_end_and_nothing_is_left(bed, notes):
    bed.start()
    waiting = bed.begin({"wait": patient(30), "file": str(notes)})
    until(lambda: words(notes) == ["waits"], 5)
    assert bed.ask({}, "f") == {}
    began = time.monotonic()
    assert bed.end(waiting)["answer"]["msg"] == "SystemExit: Nobody waits for the answer any more."
    assert time.monotonic() - began < patient(5)
    until(bed.is_gone, 5)


def test_no_request_waits_for_another(bed, notes):
    bed.start()
    waiting = bed.begin({"wait": patient(30), "file": str(notes)})
    until(lambda: words(notes) == ["waits"], 5)
    assert bed.ask({})["request"] == {}
    assert words(notes) == ["waits"]
    waiting.kill()
    waiting.communicate()


def test_a_wait_ends_when_nobody_waits_for_it_any_more(bed, notes):
    bed.start()
    waiting = bed.begin({"wait": patient(30), "file": str(notes)})
    until(lambda: words(notes) == ["waits"], 5)
    waiting.kill()
    waiting.communicate()
    until(lambda: words(notes) == ["waits", "ended"], 5)
    assert bed.ask({})["request"] == {}


def test_a_client_ends_when_nobody_reads_what_it_writes(bed, notes):
    bed.start()
    waiting = bed.begin({"wait": patient(30), "file": str(notes)})
    until(lambda: words(notes) == ["waits"], 5)
    waiting.stdout.close()
    until(lambda: words(notes) == ["waits", "ended"], 5)
    waiting.stderr.close()
    assert waiting.wait(patient(5)) == 1


def test_an_empty_line_a_second_tells_that_a_client_waits(bed, notes):
    """Otherwise sudo and sshd would not notice that the connection is gone."""
    bed.start()
    waiting = bed.begin({"wait": patient(30), "file": str(notes)})
    assert [waiting.stdout.readline() for _line in range(3)] == [b"graceful_azure asked \n", b"\n", b"\n"]
    waiting.kill()
    waiting.communicate()


@pytest.mark.parametrize("end", ["client", "helper", "told"])
def test_an_act_goes_on_to_its_end(bed, notes, end, tmp_path):
    bed.start()
    enough = tmp_path / "enough"
    acting = bed.begin({"act": str(enough), "file": str(notes)})
    until(lambda: words(notes) == ["begun"], 5)
    if end == "client":
        acting.kill()
        acting.communicate()
        enough.touch()
    else:
        os.kill(bed.helper(), signal.SIGKILL if end == "helper" else signal.SIGTERM)
        until(lambda: not helpers(bed.marks, forks=False), 5)
        enough.touch()
        assert bed.end(acting)["answer"]["request"]["act"] == str(enough)
    until(lambda: words(notes) == ["begun", "done"], 5)


def test_a_wait_ends_when_the_helper_was_killed(bed, notes):
    bed.start()
    waiting = bed.begin({"wait": patient(30), "file": str(notes)})
    until(lambda: words(notes) == ["waits"], 5)
    os.kill(bed.helper(), signal.SIGKILL)
    began = time.monotonic()
    assert bed.end(waiting)["answer"]["msg"] == "SystemExit: Nobody waits for the answer any more."
    assert time.monotonic() - began < patient(5)
    until(lambda: not bed.processes(), 5)


def test_sigterm_ends_it_at_once_and_leaves_nothing(bed):
    bed.start()
    os.kill(bed.helper(), signal.SIGTERM)
    until(bed.is_gone, 5)
    assert bed.tell({}) == {"none": "[Errno 2] No such file or directory"}


def test_it_ends_when_its_socket_was_removed(bed):
    bed.start()
    os.unlink(bed.path)
    until(lambda: not bed.processes(), 5)


def test_it_ends_when_its_socket_was_replaced_and_leaves_the_other_alone(bed):
    bed.start()
    os.unlink(bed.path)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(bed.path)
    until(lambda: not bed.processes(), 5)
    assert os.path.exists(bed.path)


def test_it_ends_some_seconds_after_the_last_request(bed, notes):
    stay = patient(0.5)  # a client must have started by then
    bed.start(STAY=stay, TICK=0.1)
    began = time.monotonic()
    bed.ask({"wait": 0.8, "file": str(notes)})
    until(bed.is_gone, 5 + stay)
    assert time.monotonic() - began >= 0.8 + stay


class Script(_helper.Helper):
    """A helper whose time and whose requests are those of the test."""

    def __init__(self, script):
        self.now = 0.0
        self.script = list(script)
        super().__init__(self, None, lambda: self.now)

    def is_there(self):
        return True

    def _has_served(self):
        served, self.forks = self.script.pop(0) if self.script else (False, {})
        self.now += _helper.TICK
        return served


@pytest.mark.parametrize(
    "script, ends",
    [
        ([], 52.0),
        ([(True, {}), (False, {})], 53.0),
        ([(False, {})] * 51 + [(True, {})], 104.0),
        # Somebody waits for a minute.
        ([(True, {5: 1})] + [(False, {5: 1})] * 59, 112.0),
    ],
)
def test_how_long_it_stays(script, ends, monkeypatch):
    monkeypatch.setattr(signal, "signal", lambda *_handler: None)
    monkeypatch.setattr(_helper.gc, "freeze", lambda: None)
    helper = Script(script)
    helper.serve()
    assert helper.now == ends


def test_a_second_one_of_the_same_name_is_not_started(bed):
    assert bed.start() is None
    first = bed.helper()
    assert bed.start() is None
    until(lambda: len(bed.processes()) == 1, 5)
    assert bed.helper() == first
    assert bed.ask({})["request"] == {}


def test_the_client_removes_what_a_killed_one_has_left(bed):
    bed.start()
    os.kill(bed.helper(), signal.SIGKILL)
    until(lambda: not bed.processes(), 5)
    assert bed.tell({}) == {"none": "[Errno 111] Connection refused"}
    assert bed.is_gone()
    assert bed.start() is None
    assert bed.ask({})["request"] == {}


def test_the_next_one_removes_what_killed_ones_have_left(bed):
    """Nobody may be left who asks."""
    folders = {name: os.path.join(bed.folder, _helper.PREFIX + name) for name in ("old", "new", "here", "records")}
    for folder in folders.values():
        os.mkdir(folder, 0o700)
        with socket.socket(socket.AF_UNIX) as killed:
            killed.bind(os.path.join(folder, "s"))
    with open(os.path.join(folders["records"], "service.json"), "w") as record:
        record.write("{}")
    long_ago = time.time() - _helper.STALE - 1
    for name in ("old", "records"):
        os.utime(folders[name], (long_ago, long_ago))
    assert bed.start() is None
    assert sorted(os.listdir(bed.folder)) == ["graceful_azure-here", "graceful_azure-new", "graceful_azure-records"]
    assert sorted(os.listdir(folders["records"])) == ["s", "service.json"], "it is somebody's own"
    assert bed.ask({})["request"] == {}


def test_one_that_hangs_is_left_to_itself(bed):
    bed.start()
    first = bed.helper()
    os.kill(first, signal.SIGSTOP)
    began = time.monotonic()
    assert bed.tell({}) == {"none": "timed out"}
    assert _helper_client.ALIVE <= time.monotonic() - began < _helper_client.ALIVE + patient(2)
    assert os.listdir(bed.folder) == []
    assert bed.start() is None
    assert bed.ask({})["request"] == {}
    os.kill(first, signal.SIGCONT)
    until(lambda: first not in bed.processes(), 5)
    assert bed.ask({})["request"] == {}


@pytest.mark.parametrize("made", ["open place", "open folder", "link", "file", "no place"])
def test_no_helper_where_others_could_get_in(bed, made, tmp_path):
    folder, place = os.path.dirname(bed.path), bed.folder
    if made == "open place":
        os.chmod(place, 0o777)
    elif made == "open folder":
        os.mkdir(folder)
        os.chmod(folder, 0o755)
    elif made == "link":
        os.symlink(str(tmp_path), folder)
    elif made == "file":
        place = str(tmp_path / "file")
        (tmp_path / "file").write_text("")
    else:
        place = str(tmp_path / "none")
    why = {
        "open place": "others may change what is in it",
        "open folder": "somebody else has made graceful_azure-here",
        "link": "Not a directory",
        "file": "Not a directory",
        "no place": "No such file or directory",
    }[made]
    assert bed.start([place]) == "No folder for its socket can be made (%s: %s)." % (place, why)
    until(lambda: not bed.processes(), 5)


def test_the_next_place_is_taken_where_one_cannot_be_had(bed, tmp_path):
    assert bed.start([str(tmp_path / "none"), bed.folder]) is None
    assert bed.ask({})["request"] == {}


@FOR_ROOT
def test_nothing_is_executed_in_the_place(bed):
    """Such as /run and /tmp where they are mounted with noexec."""
    if subprocess.call(["mount", "-t", "tmpfs", "-o", "noexec,mode=0755", "none", bed.folder]) != 0:
        pytest.skip("nothing can be mounted here, such as in a container")
    try:
        with open(os.path.join(bed.folder, "program"), "w") as program:
            program.write("#!/bin/sh\n")
        os.chmod(program.name, 0o755)
        with pytest.raises(PermissionError):
            subprocess.call([program.name])
        os.unlink(program.name)
        assert bed.start() is None
        assert bed.ask({})["request"] == {}
        assert bed.ask({}, "f") == {}
        until(bed.is_gone, 5)
    finally:
        subprocess.check_call(["umount", "--lazy", bed.folder])


def test_no_helper_whose_environment_could_be_seen(bed):
    assert bed.start(hidden=False) == "The kernel does not tell where the environment of a process lies, so nobody can hide it."
    until(bed.is_gone, 5)


def test_no_helper_while_the_module_has_threads(bed):
    """The locks that they hold would never be released in a fork."""
    assert bed.start(thread=True) == ""
    assert bed.is_gone()


def test_a_process_that_does_not_come_so_far_is_no_helper(bed):
    assert bed.start(hangs=True, START=0.1) == "Its process did not listen in time."
    until(lambda: not bed.processes(), 5)


@FOR_ROOT
def test_another_user_gets_no_answer_even_if_he_gets_in(bed):
    bed.start()
    for path, mode in ((bed.folder, 0o755), (os.path.dirname(bed.path), 0o755), (bed.path, 0o666)):
        os.chmod(path, mode)
    client = subprocess.run(bed.command(first="import os, select, _socket; os.setuid(%d)\n" % NOBODY), input=b"{}", stdout=subprocess.PIPE, check=False)
    assert client.stdout == b"graceful_azure none another user listens there\n"
    code = "import os, socket, sys; os.setuid(%d); s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print(s.recv(9))" % NOBODY
    stranger = subprocess.run([sys.executable, "-c", code, bed.path], stdout=subprocess.PIPE, check=False)
    assert stranger.stdout.strip() == b"b''"
    assert bed.ask({})["request"] == {}


@FOR_ROOT
def test_nobody_is_told_a_request_but_the_own_user(bed):
    """Where everybody may make folders, somebody else may have made that of the helper."""
    os.chmod(bed.folder, 0o1777)
    os.chown(bed.folder, 0, 0)
    assert bed.start(user=NOBODY) is None
    assert bed.tell({"secret": 1}) == {"none": "another user listens there"}
    assert bed.start() == "No folder for its socket can be made (%s: somebody else has made graceful_azure-here)." % bed.folder


@pytest.mark.parametrize(
    "sent, told",
    [
        (b"a" + _helper.LENGTH.pack(_helper.REQUEST_LIMIT + 1), "ValueError: The request has 8388609 bytes; 8388608 are allowed."),
        (b"x" + _helper.LENGTH.pack(2) + b"{}", "ValueError: Nobody knows the request b'x'."),
        (b"a" + _helper.LENGTH.pack(7) + b"{", "ValueError: The request is cut off."),
        (b"a", "ValueError: The request is cut off."),
        (b"", "ValueError: The request is cut off."),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "ValueError: The request has "),
        (b"a" + _helper.LENGTH.pack(2) + b"\xff\xfe", "UnicodeDecodeError: "),
        (b"a" + _helper.LENGTH.pack(2) + b"{,", "JSONDecodeError: "),
    ],
)
def test_what_is_no_request_is_refused_and_the_next_answered(bed, sent, told):
    bed.start()
    with bed.connect() as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        size = _helper.LENGTH.unpack(client.recv(_helper.LENGTH.size))[0]
        answer = json.loads(client.recv(size).decode())
    assert answer["failed"] is True
    assert answer["msg"].startswith(told)
    assert bed.ask({})["request"] == {}


def test_a_client_that_sends_nothing_harms_nobody(bed):
    bed.start(SEND=patient(0.6))  # also for those who send something
    with bed.connect() as silent:
        assert bed.ask({})["request"] == {}
        size = _helper.LENGTH.unpack(silent.recv(_helper.LENGTH.size))[0]
        assert json.loads(silent.recv(size).decode())["failed"] is True


def test_a_client_that_takes_no_answer_harms_nobody(bed):
    bed.start(SEND=patient(0.6))
    with bed.connect() as silent:
        body = json.dumps({"large": 1 << 22}).encode()
        silent.sendall(b"a" + _helper.LENGTH.pack(len(body)) + body)
        assert bed.ask({})["request"] == {}
        until(lambda: len(bed.processes()) == 1, 5)


def test_answers_have_their_limit(bed):
    bed.start(ANSWER_LIMIT=1 << 20)
    assert len(bed.ask({"large": (1 << 20) - 2})) == (1 << 20) - 2
    answer = bed.ask({"large": 1 << 20})
    assert answer["msg"] == "ValueError: The answer has 1048578 bytes; 1048576 are allowed."


@pytest.mark.parametrize("error, told", [("exit", "SystemExit: exit"), ("key", "KeyError: 'key'")])
def test_a_failure_is_told_as_one(bed, error, told):
    bed.start()
    answer = bed.ask({"error": error})
    assert (answer["failed"], answer["msg"]) == (True, told)
    assert "handle(request" in answer["exception"]
    assert bed.ask({})["request"] == {}


def test_a_hundred_at_once(bed):
    bed.start()
    clients = [bed.begin({"number": number}) for number in range(100)]
    assert [bed.end(client)["answer"]["request"]["number"] for client in clients] == list(range(100))
    until(lambda: len(bed.processes()) == 1, 5)


def test_more_than_it_handles_at_once_wait_for_their_turn(bed, notes):
    bed.start(AT_ONCE=2)
    waiting = [bed.begin({"wait": 0.3, "file": str(notes)}) for _number in range(5)]
    assert all(bed.end(client)["answer"]["waited"] >= 0.3 for client in waiting)
    at_once = list(itertools.accumulate(1 if word == "waits" else -1 for word in words(notes)))
    assert max(at_once) == 2 and len(at_once) == 10


def test_what_waited_for_its_turn_is_not_begun_when_nobody_waits_for_it_any_more(bed, notes, tmp_path):
    bed.start(AT_ONCE=1)
    late = tmp_path / "late"
    late.write_text("")
    enough = tmp_path / "enough"
    first = bed.begin({"act": str(enough), "file": str(notes)})
    until(lambda: words(notes) == ["begun"], 5)
    second = bed.begin({"act": str(enough), "file": str(late)})
    assert second.stdout.readline() == b"graceful_azure asked \n"
    time.sleep(0.1)
    second.kill()
    second.communicate()
    enough.touch()
    bed.end(first)
    assert bed.ask({})["request"] == {} and words(late) == []


def test_nobody_waits_for_the_output_of_the_helper(bed):
    """Ansible reads a module's output to its end, which comes when the last process closes it."""
    began = time.monotonic()
    assert bed.start() is None  # reads to the end
    assert bed.processes()
    assert time.monotonic() - began < patient(5)
