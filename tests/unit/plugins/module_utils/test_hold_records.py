# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import stat
import subprocess
import sys
import threading

import pytest
from ansible_collections.graceful.azure.plugins.module_utils import _hold_records
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import (
    HELD,
    HoldError,
    Request,
    Store,
    check_writable,
    holders,
    list_records,
    new_record,
    put_aside,
    record_name,
    scan_records,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.support.killed import Killed
from tests.support.patience import patient

# Some of it runs as another user.
OPEN_TO_ALL = True
SUBJECT = {"name": "custom"}
EVENT = {"since": "2026-01-01T00:00:00Z", "reason": "Reboot", "details": {}}


def task(name="custom", **more):
    return dict(new_record("task", {"name": name}, {}, {}, {"A": EVENT}, done=False), **more)


def member(**more):
    subject = {"type": "redis", "name": "cache", "member": "127.0.0.1:6379"}
    return dict(new_record("cluster", subject, {}, {}, {"A": EVENT}, boot_id="b", options={}), **more)


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch):
    """What this machine tells as its id: nothing, unless the test says so."""
    told = []
    monkeypatch.setattr(_hold_records, "machine_id", lambda: told[-1] if told else None)
    return told


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "state")


@pytest.fixture
def store(folder):
    store = Store(folder)
    with store.locked(create=True):
        pass
    return store


def put(store, record):
    with store.locked(create=True):
        store.write(record)
    return store.path(record["kind"], record["subject"])


class TestRecord:
    def test_it_is_there_as_written_and_a_person_can_read_it(self, store):
        path = put(store, task())
        assert store.read("task", SUBJECT) == dict(task(), path=path)
        assert list_records(store.state_dir) == [dict(task(), path=path)]
        text = open(path).read()
        assert json.loads(text) == task()
        assert '\n  "phase": "changing",\n' in text and text.endswith("}\n")

    def test_it_names_the_machine_and_another_machine_refuses_it(self, store, machine):
        machine.append("12" * 16)
        path = put(store, task())
        assert store.read("task", SUBJECT)["machine"] == "12" * 16
        machine.append(None)  # not everybody may read it
        assert len(list_records(store.state_dir)) == 1
        machine.append("ab" * 16)
        with pytest.raises(HoldError, match=f"{path} was made on another machine: on {'12' * 16}, and this one is {'ab' * 16}.*graceful_azure_state_dir"):
            list_records(store.state_dir)
        assert put_aside(store.state_dir)[0] == [] and os.path.exists(path)

    def test_one_from_before_records_named_the_machine(self, store, machine):
        put(store, task())
        machine.append("ab" * 16)
        (record,) = list_records(store.state_dir)
        assert "machine" not in record

    def test_folder_and_record_are_for_their_owner_alone(self, store):
        path = put(store, task())
        assert stat.S_IMODE(os.stat(store.state_dir).st_mode) == 0o700
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600

    def test_missing_folders_above_are_made_too(self, tmp_path):
        put(Store(str(tmp_path / "a" / "b" / "state")), task())
        assert len(list_records(str(tmp_path / "a" / "b" / "state"))) == 1

    def test_no_folder_holds_nothing(self, folder):
        store = Store(folder)
        with store.locked():
            assert store.read("task", SUBJECT) is None
            assert store.records() == []
        assert list_records(folder) == []
        assert not os.path.exists(folder)

    def test_deleted_is_gone_and_twice_is_no_mistake(self, store):
        put(store, task())
        store.delete(task())
        store.delete(task())
        assert os.listdir(store.state_dir) == []

    def test_several_lie_beside_each_other(self, store):
        for name in ("b", "a"):
            put(store, task(name))
        assert [record["subject"]["name"] for record in store.records("task")] == ["a", "b"]
        assert store.records("service") == []

    def test_what_a_writer_left_half_done_is_no_record_and_in_nobodys_way(self, store):
        path = put(store, task())
        leftover = os.path.join(store.state_dir, _hold_records.TEMPORARY + os.path.basename(path))
        with open(leftover, "w") as stream:
            stream.write("{")
        assert len(list_records(store.state_dir)) == 1
        put(store, task(done=True))
        assert os.listdir(store.state_dir) == [os.path.basename(path)]

    @given(
        st.dictionaries(
            st.text(min_size=1),
            st.fixed_dictionaries(
                {
                    "since": st.text(),
                    "reason": st.text(),
                    "details": st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text()),
                }
            ),
        ),
        st.text(),
    )
    def test_any_text_survives(self, tmp_path_factory, events, name):
        store = Store(str(tmp_path_factory.mktemp("records")))
        record = task(name, events=events)
        path = put(store, record)
        assert os.path.dirname(path) == store.state_dir
        assert store.read("task", {"name": name}) == dict(record, path=path)


class TestNames:
    def test_a_person_knows_what_it_is(self):
        name = record_name("haproxy_server", {"socket": "/run/s", "backend": "www", "server": "web1"})
        assert name.startswith("haproxy_server-www-web1-") and name.endswith(".json")

    def test_the_socket_counts(self):
        one = record_name("haproxy_server", {"socket": "/run/1", "backend": "www", "server": "web1"})
        other = record_name("haproxy_server", {"socket": "/run/2", "backend": "www", "server": "web1"})
        assert one != other

    @given(st.text())
    def test_every_name_stays_in_the_folder(self, name):
        made = record_name("task", {"name": name})
        assert os.path.basename(made) == made and not made.startswith(".") and len(made.encode()) < 255

    @pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "a\nb", "x" * 5000, "", "\ud800", "a\0b"])
    def test_hostile_names(self, store, name):
        path = put(store, task(name))
        assert os.path.dirname(path) == store.state_dir
        assert store.read("task", {"name": name})["subject"] == {"name": name}

    def test_names_that_look_alike_do_not_share_a_file(self):
        assert record_name("task", {"name": "a b"}) != record_name("task", {"name": "a_b"})


class TestDamage:
    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"", "it is empty"),
            (b"\n", "it is empty"),
            (json.dumps(task(), indent=2).encode()[:150], "not complete JSON"),
            (b"\xff\xfe", "not complete JSON"),
            (b"[" * 100000, "not complete JSON"),
            (b"[]", "not a JSON object"),
            (b"{}", "its version is None"),
            (json.dumps(task(version=True)).encode(), "its version is True"),
            (json.dumps(task(version="1")).encode(), "its version is '1'"),
            (json.dumps(task(version=0)).encode(), "its version is 0"),
            (json.dumps(task(version=2)).encode(), "has version 2, written by a newer release"),
            (json.dumps(task(kind=3)).encode(), "its kind is not a string"),
            (json.dumps(task(events=[])).encode(), "its events is not an object"),
            (json.dumps(task(events={"A": 1})).encode(), "its event 'A' is not an object"),
            (json.dumps(task(events={"A": dict(EVENT, details=3)})).encode(), "its event 'A' is not an object"),
            (json.dumps(task(phase="sleeping")).encode(), "its phase is 'sleeping'"),
            (json.dumps(task(subject={})).encode(), "its subject has no usable name"),
            (json.dumps(task(done="yes")).encode(), "its done is not usable"),
            (json.dumps(member(failed_attempt=[])).encode(), "its failed_attempt is not usable"),
            (json.dumps(member(failed_attempt={"attempt": "x", "forced": "no", "reason": "y"})).encode(), "its failed_attempt is not usable"),
            (b"x" * (_hold_records.SIZE_LIMIT + 1), "it is larger than"),
        ],
    )
    def test_it_is_named_and_nothing_is_done(self, store, content, said):
        path = put(store, task())
        good = put(store, task("other"))
        with open(path, "wb") as stream:
            stream.write(content)
        for look in (lambda: store.read("task", SUBJECT), lambda: list_records(store.state_dir)):
            with pytest.raises(HoldError) as caught:
                look()
            assert path in str(caught.value) and said in str(caught.value)
            assert "Nothing was touched" in str(caught.value)
            assert caught.value.path == path
        assert open(path, "rb").read() == content
        records, problems = scan_records(store.state_dir)
        assert [record["path"] for record in records] == [good]
        assert [problem.path for problem in problems] == [path]

    @pytest.mark.parametrize(
        ("kind", "subject", "more"),
        [
            ("haproxy_server", {"socket": "s", "backend": "b"}, {"process": {"pid": 1, "started": 2}}),
            ("haproxy_server", {"socket": "s", "backend": "b", "server": "x"}, {"process": {"pid": "1", "started": 2}}),
            ("haproxy_server", {"socket": "s", "backend": "b", "server": "x"}, {}),
            ("service", {"service": "a.service"}, {"order": 0}),
            ("service", {"service": "a.service"}, {"order": "0", "boot_id": "b"}),
        ],
    )
    def test_every_kind_has_its_fields(self, store, kind, subject, more):
        states = {"admin_state": "ready", "weight": 1, "active_state": "active"}
        path = os.path.join(store.state_dir, "x.json")
        with open(path, "w") as stream:
            json.dump(new_record(kind, subject, states, states, {}, **more), stream)
        with pytest.raises(HoldError, match="x.json"):
            list_records(store.state_dir)

    def test_a_record_under_anothers_name(self, store):
        path = put(store, task())
        os.rename(path, store.path("task", {"name": "other"}))
        with pytest.raises(HoldError, match="it is about task"):
            store.read("task", {"name": "other"})
        with pytest.raises(HoldError, match="it is about task"):
            list_records(store.state_dir)

    def test_a_copy_of_a_record(self, store):
        """As somebody makes it before a repair. It would hold for ever, because its release removes the record of the right name."""
        path = put(store, task())
        copy = os.path.join(store.state_dir, "task-before.json")
        shutil.copy(path, copy)
        records, problems = scan_records(store.state_dir)
        assert [record["path"] for record in records] == [path]
        assert [problem.path for problem in problems] == [copy]
        assert str(problems[0]).startswith(
            "The record %s cannot be used: it is about task %r, whose record is %s. Nothing was touched" % (copy, SUBJECT, os.path.basename(path))
        )
        ((told,), _left) = put_aside(store.state_dir)
        assert told["path"] == copy and list_records(store.state_dir) == records

    @pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
    def test_something_else_in_its_place(self, store, make):
        path = store.path("task", SUBJECT)
        make(path)
        with pytest.raises(HoldError) as caught:
            store.read("task", SUBJECT)
        assert path in str(caught.value)

    def test_a_link_in_its_place_is_not_followed(self, store, tmp_path):
        secret = tmp_path / "secret"
        secret.write_text(json.dumps(task()))
        path = store.path("task", SUBJECT)
        os.symlink(secret, path)
        with pytest.raises(HoldError, match="symbolic link"):
            store.read("task", SUBJECT)
        store.write(task())  # replaces the link, not what it points to
        assert not os.path.islink(path) and json.loads(secret.read_text()) == task()

    def test_a_link_in_the_place_of_the_temporary_file_is_not_followed(self, store, tmp_path):
        victim = tmp_path / "victim"
        victim.write_text("precious")
        name = record_name("task", SUBJECT)
        os.symlink(victim, os.path.join(store.state_dir, _hold_records.TEMPORARY + name))
        put(store, task())
        assert victim.read_text() == "precious"

    def test_somebody_elses_file_is_not_believed(self, store, monkeypatch):
        path = put(store, task())
        owner = os.stat(path).st_uid
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
        monkeypatch.setattr(os, "fstat", lambda fd, real=os.fstat: os.stat_result(real(fd)[:4] + (owner + 2,) + real(fd)[5:]))
        with pytest.raises(HoldError, match="it belongs to user id"):
            _hold_records.read_record(path)


class TestFolder:
    def test_a_file_where_it_should_be(self, tmp_path):
        place = tmp_path / "state"
        place.write_text("")
        for act in (lambda: list_records(str(place)), lambda: put(Store(str(place)), task()), lambda: check_writable(str(place))):
            with pytest.raises(HoldError) as caught:
                act()
            assert str(place) in str(caught.value)

    def test_a_file_where_its_parent_should_be(self, tmp_path):
        (tmp_path / "file").write_text("")
        place = str(tmp_path / "file" / "state")
        for act in (lambda: put(Store(place), task()), lambda: check_writable(place), lambda: list_records(place)):
            with pytest.raises(HoldError) as caught:
                act()
            assert place in str(caught.value)

    def test_one_that_everybody_can_write(self, tmp_path):
        place = tmp_path / "state"
        place.mkdir()
        place.chmod(0o1777)
        for act in (lambda: list_records(str(place)), lambda: put(Store(str(place)), task())):
            with pytest.raises(HoldError, match="writable by everybody"):
                act()

    def test_one_that_belongs_to_somebody_else(self, tmp_path, monkeypatch):
        owner = os.stat(tmp_path).st_uid
        if owner == 0:
            os.chown(tmp_path, 12345, -1)
            owner = 12345
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
        with pytest.raises(HoldError) as caught:
            list_records(str(tmp_path))
        assert "belongs to user id %d" % owner in str(caught.value)

    def test_a_link_to_a_folder_of_ones_own_is_fine_and_a_dangling_one_is_not(self, tmp_path):
        (tmp_path / "real").mkdir(mode=0o700)
        link = tmp_path / "link"
        link.symlink_to(tmp_path / "real")
        put(Store(str(link)), task())
        assert len(list_records(str(link))) == 1
        link.unlink()
        link.symlink_to(tmp_path / "nowhere")
        with pytest.raises(HoldError, match="symbolic link to a place that is missing"):
            put(Store(str(link)), task())

    def test_checking_makes_nothing(self, folder):
        check_writable(folder)
        assert not os.path.exists(folder)
        check_writable(folder, create=True)
        assert os.path.isdir(folder)

    def test_one_that_cannot_be_written(self):
        # Nobody can make a folder there, whoever runs the test.
        with pytest.raises(HoldError) as caught:
            put(Store("/proc/graceful"), task())
        assert "/proc/graceful" in str(caught.value)

    @pytest.mark.parametrize(
        ("flag", "blocks", "all_files", "files", "said"),
        [
            (os.ST_RDONLY, 9, 10, 9, "read-only"),
            (0, 0, 10, 9, "is full"),
            (0, 9, 10, 0, "takes no more files"),
            (0, 9, 0, 0, None),
            (0, 9, 10, 9, None),
        ],
    )
    def test_the_file_system_is_looked_at(self, store, monkeypatch, flag, blocks, all_files, files, said):
        class Status:
            f_blocks, f_flag, f_files = 10, flag, all_files
            f_bfree = f_bavail = blocks
            f_ffree = f_favail = files

        monkeypatch.setattr(os, "statvfs", lambda path: Status)
        if said is None:
            return check_writable(store.state_dir)
        with pytest.raises(HoldError, match=said):
            check_writable(store.state_dir)

    def test_one_whose_disk_is_not_mounted(self, store, monkeypatch):
        """Nothing is read or written at its place: what is held is recorded on the disk."""
        monkeypatch.setattr(_hold_records, "missing_mount", lambda path: "/srv/data")
        for act in (
            lambda: check_writable(store.state_dir),
            lambda: check_writable(store.state_dir, create=True),
            lambda: list_records(store.state_dir),
            lambda: put(store, task()),
        ):
            with pytest.raises(HoldError, match="/etc/fstab mounts at /srv/data, and that is not mounted"):
                act()
        assert os.listdir(store.state_dir) == [] if os.path.exists(store.state_dir) else True

    def test_one_that_a_reboot_empties(self, tmp_path, monkeypatch):
        """Refused before anything is made, in check mode, too. What is held there already is released."""
        monkeypatch.setattr(_hold_records, "why_lost", lambda path: "lies in memory, so a reboot empties it")
        place = tmp_path / "state"
        for act in (
            lambda: check_writable(str(place)),
            lambda: check_writable(str(place), create=True),
            lambda: put(Store(str(place)), task()),
            lambda: put(Store(str(place), dry=True), task()),
        ):
            with pytest.raises(HoldError, match=r"in memory.*such as /var/lib/graceful_azure \(graceful_azure_state_dir\)"):
                act()
        assert not place.exists()
        place.mkdir(0o700)
        store = Store(str(place))
        store.write(task())
        check_writable(str(place), create=True)
        with store.locked():
            store.delete(store.read("task", SUBJECT))
        # What a write that was cut off has left is no record.
        (place / (_hold_records.TEMPORARY + "task.json")).touch()
        with pytest.raises(HoldError, match="in memory"):
            check_writable(str(place))

    def test_without_the_rights(self, tmp_path):
        """As another user, in a process of its own when the test runs as root."""
        place = tmp_path / "state"
        place.mkdir()
        place.chmod(0o500)
        program = (
            "import os, sys\n"
            "sys.path[:0] = sys.argv[2:]\n"
            "from ansible_collections.graceful.azure.plugins.module_utils import _hold_records\n"
            "if os.getuid() == 0: os.setuid(65534)\n"
            "for act in (lambda: _hold_records.check_writable(sys.argv[1]), lambda: _hold_records.Store(sys.argv[1]).write(%r)):\n"
            "    try: act()\n"
            "    except _hold_records.HoldError as error: print(error)\n" % (task(),)
        )
        if os.getuid() == 0:
            os.chown(place, 65534, -1)
        done = subprocess.run([sys.executable, "-c", program, str(place), *sys.path], capture_output=True, text=True, check=False)
        assert done.stdout.splitlines() == [
            "The state folder %s cannot be written by user id %d. Set ansible_become: true for that machine, or name a folder that this "
            "user may write (graceful_azure_state_dir)." % (place, 65534 if os.getuid() == 0 else os.getuid()),
            "The record %s cannot be written: Permission denied." % Store(str(place)).path("task", SUBJECT),
        ], done.stderr


class TestDisk:
    """Whatever the disk does, the old record or the new one is there, whole."""

    @pytest.mark.parametrize("call", ["open", "write", "fsync", "rename"])
    @pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT])
    def test_an_error_names_the_record_and_leaves_the_old_one(self, store, monkeypatch, call, number):
        path = put(store, task())
        real = getattr(os, call)

        def failing(*args, **kwargs):
            if call == "open" and not args[1] & os.O_CREAT:
                return real(*args, **kwargs)
            raise OSError(number, os.strerror(number))

        with store.locked(create=True), monkeypatch.context() as patch:
            patch.setattr(os, call, failing)
            with pytest.raises(HoldError) as caught:
                store.write(task(done=True))
        assert str(caught.value) == "The record %s cannot be written: %s." % (path, os.strerror(number))
        assert store.read("task", SUBJECT)["done"] is False
        assert os.listdir(store.state_dir) == [os.path.basename(path)]

    def test_a_disk_that_is_full_after_some_bytes(self, store):
        """A real limit of the kernel's, in a process of its own."""
        path = put(store, task())
        program = (
            "import resource, signal, sys\n"
            "sys.path[:0] = sys.argv[2:]\n"
            "from ansible_collections.graceful.azure.plugins.module_utils import _hold_records\n"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (50, 50))\n"
            "try: _hold_records.Store(sys.argv[1]).write(%r)\n"
            "except _hold_records.HoldError as error: print(error)\n" % (task(done=True),)
        )
        done = subprocess.run([sys.executable, "-c", program, store.state_dir, *sys.path], capture_output=True, text=True, check=False)
        assert done.stdout == "The record %s cannot be written: File too large.\n" % path, done.stderr
        assert store.read("task", SUBJECT)["done"] is False
        assert os.listdir(store.state_dir) == [os.path.basename(path)]

    @pytest.mark.parametrize("after", [False, True])
    @pytest.mark.parametrize("call", ["open", "write", "fsync", "rename", "close", "unlink"])
    def test_a_kill_at_any_call(self, store, monkeypatch, call, after):
        put(store, task())
        real = getattr(os, call)

        def killing(*args, **kwargs):
            with contextlib.suppress(OSError):
                if after:
                    real(*args, **kwargs)
            raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(os, call, killing)
            with pytest.raises(Killed):
                store.write(task(done=True))
        assert store.read("task", SUBJECT)["done"] in (False, True)
        put(store, task(done=True))
        assert [record["done"] for record in list_records(store.state_dir)] == [True]

    def test_short_writes(self, store, monkeypatch):
        monkeypatch.setattr(os, "write", lambda fd, data, real=os.write: real(fd, data[:7]))
        put(store, task())
        assert store.read("task", SUBJECT)["done"] is False


class TestLock:
    def test_the_second_waits_for_the_first(self, store):
        order = []
        inside, leave = threading.Event(), threading.Event()

        def first():
            with store.locked():
                inside.set()
                leave.wait(patient(5))
                order.append("first")

        def second():
            with Store(store.state_dir).locked():
                order.append("second")

        threads = [threading.Thread(target=first)]
        threads[0].start()
        inside.wait(patient(5))
        threads.append(threading.Thread(target=second))
        threads[1].start()
        leave.set()
        for thread in threads:
            thread.join(patient(5))
        assert order == ["first", "second"]

    def test_it_does_not_wait_for_ever(self, store):
        clock = [0.0]

        def sleep(seconds):
            clock[0] += seconds

        impatient = Store(store.state_dir, lock_seconds=3, monotonic=lambda: clock[0], sleep=sleep)
        with store.locked(), pytest.raises(HoldError) as caught:
            with impatient.locked():
                pass
        assert str(caught.value) == ("The state folder %s is locked by another process for more than 3 seconds." % store.state_dir)
        assert 3 <= clock[0] < 4

    def test_a_file_system_without_locks(self, store, monkeypatch):
        def refuse(fd, how):
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

        monkeypatch.setattr(fcntl, "flock", refuse)
        with pytest.raises(HoldError, match="cannot be locked: No locks available"):
            with store.locked():
                pass

    def test_who_is_killed_leaves_it_open(self, store):
        program = (
            "import os, signal, sys\n"
            "sys.path[:0] = sys.argv[2:]\n"
            "from ansible_collections.graceful.azure.plugins.module_utils import _hold_records\n"
            "with _hold_records.Store(sys.argv[1]).locked(): os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        done = subprocess.run([sys.executable, "-c", program, store.state_dir, *sys.path], capture_output=True, check=False)
        assert done.returncode == -9, done.stderr
        with Store(store.state_dir, lock_seconds=0).locked():
            pass


class TestDry:
    def test_nothing_is_written_and_yet_seen(self, folder):
        store = Store(folder, dry=True)
        with store.locked(create=True):
            store.write(task())
            assert store.read("task", SUBJECT)["done"] is False
            assert [record["subject"] for record in store.records()] == [SUBJECT]
            store.delete(task())
            assert store.read("task", SUBJECT) is None and store.records() == []
        assert not os.path.exists(folder)

    def test_what_is_on_disk_stays(self, store):
        put(store, task())
        dry = Store(store.state_dir, dry=True)
        dry.delete(task())
        assert dry.records() == []
        assert len(store.records()) == 1


class TestRequest:
    def params(self, **more):
        return dict({"state": "present", "event_ids": ["A"], "event_details": {}, "reason": ""}, **more)

    @pytest.mark.parametrize(
        ("params", "said"),
        [
            ({"event_ids": None}, "event_ids is required when state is present"),
            ({"event_ids": []}, "event_ids is an empty list. Name at least one event."),
            ({"event_ids": [], "state": "absent"}, "leave the option out to release"),
            ({"event_ids": ["A", " "]}, "event_ids contains an empty id"),
            ({"event_details": {"A": 3}}, "event_details['A'] is 3; it must be a dictionary."),
            ({"event_details": {"A": {"x": {1}}}}, "event_details['A'] cannot be written as JSON."),
        ],
    )
    def test_mistakes(self, params, said):
        with pytest.raises(ValueError) as caught:
            Request.from_params(self.params(**params))
        assert said in str(caught.value)

    def test_ids_are_kept_as_given_and_compared_without_case(self):
        events = Request(True, ["Abc"], "why", now="T1").added_to({})
        assert events == {"Abc": {"since": "T1", "reason": "why", "details": {}}}
        again = Request(True, ["aBC", "x", "X"], "other", now="T2").added_to(events)
        assert again == dict(events, x={"since": "T2", "reason": "other", "details": {}})
        assert list(Request(False, ["ABC"]).taken_from(again)) == ["x"]
        assert Request(False, None).taken_from(again) == {}

    def test_details_follow_what_is_given(self):
        request = Request.from_params(self.params(event_details={"a": {"status": "Scheduled"}}))
        events = request.added_to({})
        assert events["A"]["details"] == {"status": "Scheduled"}
        without = Request.from_params(self.params()).added_to(events)
        assert without == events
        started = Request.from_params(self.params(event_details={"A": {"status": "Started"}})).added_to(events)
        assert started["A"]["details"] == {"status": "Started"} and started["A"]["since"] == events["A"]["since"]
        # What tells nothing of the event itself leaves what another run has recorded of it.
        named = Request.from_params(self.params(event_details={"A": {"host": "web1"}})).added_to(started)
        assert named["A"]["details"] == {"status": "Started", "host": "web1"}

    def test_holders_come_in_the_order_in_which_they_came(self):
        record = task(phase=HELD, events={"B": dict(EVENT, since="1"), "C": dict(EVENT, since="3"), "A": dict(EVENT, since="2")})
        assert holders(record) == ["B", "A", "C"]
        assert holders(None) == []


class TestTooLarge:
    DETAILS = {"a": {"text": "x" * _hold_records.SIZE_LIMIT}}

    def test_refused_before_anything_is_written(self, tmp_path):
        with pytest.raises(HoldError, match="would make a record of 10.* bytes; .* are allowed. Nothing was changed"):
            Request(True, ["A"], details=self.DETAILS).added_to({})

    def test_events_that_are_there_already_are_no_reason_to_refuse(self):
        events = {"A": {"since": "2026-01-01T00:00:00Z", "reason": "", "details": {"text": "x" * (_hold_records.SIZE_LIMIT - 9000)}}}
        assert Request(True, ["A"]).added_to(events) == events

    def test_what_is_allowed_can_be_read_back_in_every_phase(self, tmp_path):
        store = Store(str(tmp_path))
        request = Request(True, ["A"], details={"a": {"text": "x" * (_hold_records.SIZE_LIMIT - _hold_records.ROOM - 500)}})
        record = new_record("task", {"name": "n"}, {}, {}, request.added_to({}), done=False)
        for phase in _hold_records.PHASES:
            store.write(dict(record, phase=phase))
            assert store.read("task", {"name": "n"})["phase"] == phase

    @pytest.mark.parametrize("dry", [False, True])
    def test_never_written_and_the_former_record_stays(self, tmp_path, dry):
        store = Store(str(tmp_path), dry=dry)
        record = new_record("task", {"name": "n"}, {}, {}, {}, done=False)
        store.write(record)
        with pytest.raises(HoldError, match="can be read back, so it was not written"):
            store.write(dict(record, found={"text": "x" * _hold_records.SIZE_LIMIT}))
        assert store.read("task", {"name": "n"})["found"] == {}


class TestFolderThatCannotBeUsed:
    def refuse(self, monkeypatch, name, error=errno.EACCES):
        def refused(*_arguments, **_options):
            raise OSError(error, os.strerror(error))

        monkeypatch.setattr(_hold_records.os, name, refused)

    def test_it_cannot_be_listed(self, store, monkeypatch):
        self.refuse(monkeypatch, "listdir")
        with pytest.raises(HoldError, match="cannot be read: Permission denied"):
            scan_records(store.state_dir)

    def test_it_cannot_be_opened(self, store, monkeypatch):
        self.refuse(monkeypatch, "open")
        with pytest.raises(HoldError, match="cannot be opened: Permission denied"), store.locked():
            pass

    def test_it_may_not_be_written(self, store, monkeypatch):
        monkeypatch.setattr(_hold_records.os, "access", lambda *_arguments: False)
        with pytest.raises(HoldError, match="cannot be written by user id"):
            check_writable(store.state_dir)

    def test_a_record_that_goes_meanwhile_is_none(self, store, monkeypatch):
        monkeypatch.setattr(_hold_records.os, "listdir", lambda _folder: ["task-gone-0.json"])
        assert scan_records(store.state_dir) == ([], [])


class TestPutAside:
    @pytest.fixture(name="damaged")
    def damage(self, store):
        path = put(store, task())
        with open(path, "w") as record:
            record.write('{"version": 1, "ki')
        return path

    def test_what_is_damaged_holds_nothing_any_more_and_the_rest_is_left(self, store, damaged):
        newer = os.path.join(store.state_dir, "task-newer-0.json")
        with open(newer, "w") as record:
            record.write('{"version": 99}')
        whole = put(store, task("whole"))
        ((told,), (left,)) = put_aside(store.state_dir)
        assert told["path"] == damaged and "not complete JSON" in told["problem"] and newer in str(left)
        assert sorted(os.listdir(store.state_dir)) == sorted(map(os.path.basename, (told["to"], newer, whole)))
        assert put_aside(store.state_dir)[0] == []

    def test_a_dry_run_tells_and_renames_nothing(self, store, damaged):
        assert [told["path"] for told in put_aside(store.state_dir, dry=True)[0]] == [damaged]
        assert os.path.exists(damaged)

    def test_a_folder_that_cannot_be_synced_is_an_error_unless_its_file_system_knows_no_sync(self, store, damaged, monkeypatch):
        errors = [errno.EINVAL, errno.EIO]

        def sync(_fd):
            raise OSError(errors[0], os.strerror(errors.pop(0)))

        monkeypatch.setattr(_hold_records.os, "fsync", sync)
        ((told,), _left) = put_aside(store.state_dir)
        assert not os.path.exists(damaged)
        os.rename(told["to"], damaged)
        with pytest.raises(HoldError, match=f"{damaged} cannot be renamed: Input/output error"):
            put_aside(store.state_dir)
