# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which processes are those of nginx, from a folder like /proc."""

from __future__ import annotations

import os
import sys

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._nginx import LOOK_SECONDS, NEW_SECONDS, Nginx, NginxError

MASTER, WORKER = "nginx: master process nginx -p %s -c nginx.conf", "nginx: worker process"
FORMER, NEW = 100, 103


class Machine:
    """One on which nginx runs: a master process with a worker."""

    def __init__(self, folder):
        self.folder, self.proc, self.now, self.later = folder, folder / "proc", 0.0, {}
        (folder / "nginx.conf").write_text("")
        self.start(FORMER, 1, MASTER % folder)
        self.start(101, FORMER, WORKER)

    def start(self, pid, parent, title):
        process = self.proc / str(pid)
        process.mkdir(parents=True)
        for name, target in (("exe", sys.executable), ("root", "/"), ("cwd", str(self.folder))):
            os.symlink(target, str(process / name))
        (process / "stat").write_text("%d (nginx) S %d %s" % (pid, parent, " ".join(["0"] * 17 + [str(pid)] + ["0"] * 30)))
        (process / "status").write_text("Uid:" + "\t%d" % os.geteuid() * 4)
        self.rename(pid, title)

    def rename(self, pid, title):
        (self.proc / str(pid) / "cmdline").write_text(title)

    def sleep(self, seconds):
        self.now += seconds
        for act in self.later.pop(round(self.now / LOOK_SECONDS), ()):
            act()

    def nginx(self):
        return Nginx(None, str(self.folder / "nginx.conf"), str(self.proc), lambda: self.now, self.sleep)

    def find(self):
        found = self.nginx().find()
        return found.pid, found.former


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_one_master_process_is_found_at_once(machine):
    assert machine.find() == (FORMER, []) and machine.now == 0


def test_a_new_worker_bears_the_title_of_its_master_for_a_moment(machine):
    """nginx forks it first. It is not a process that replaces the program."""
    machine.start(NEW, FORMER, MASTER % machine.folder)
    machine.later = {3: [lambda: machine.rename(NEW, WORKER)]}
    assert machine.find() == (FORMER, []) and machine.now < NEW_SECONDS


def test_a_new_worker_that_got_its_title_after_it_was_listed_replaces_nothing(machine, monkeypatch):
    machine.start(NEW, FORMER, MASTER % machine.folder)
    masters = Nginx._masters

    def listed(nginx):
        found = masters(nginx)
        machine.rename(NEW, WORKER)
        return found

    monkeypatch.setattr(Nginx, "_masters", listed)
    assert machine.find() == (FORMER, []) and machine.now < NEW_SECONDS


def test_a_master_process_that_replaces_another_has_no_workers_for_a_moment(machine):
    machine.start(NEW, FORMER, MASTER % machine.folder)
    machine.later = {3: [lambda: machine.start(104, NEW, WORKER), lambda: machine.rename(101, WORKER + " is shutting down")]}
    assert machine.find() == (NEW, [FORMER])


def test_nobody_waits_for_its_workers_for_long(machine):
    machine.start(NEW, FORMER, MASTER % machine.folder)
    with pytest.raises(NginxError, match="Process %d of nginx does not read its configuration as long as process %d runs" % (FORMER, NEW)):
        machine.find()
    assert NEW_SECONDS <= machine.now < NEW_SECONDS + 2 * LOOK_SECONDS


def test_a_reload_is_over_when_every_new_worker_has_its_title(machine, monkeypatch):
    """The record of a hold says when the first and the last of them started."""
    nginx = machine.nginx().find()

    def reload(_nginx):
        machine.start(102, FORMER, MASTER % machine.folder)
        machine.start(NEW, FORMER, WORKER)
        machine.rename(101, WORKER + " is shutting down")
        machine.later = {3: [lambda: machine.rename(102, WORKER)]}

    monkeypatch.setattr(Nginx, "hang_up", reload)
    assert [worker.pid for worker in nginx.reload()] == [102, NEW]


@pytest.mark.parametrize(("asked", "said"), [("check", "nginx -t did not end within 30 seconds."), ("version", "nginx -V did not end within 30 seconds.")])
def test_a_program_that_does_not_end(machine, asked, said):
    nginx = Nginx(lambda words, **_more: (124, "", ""), str(machine.folder / "nginx.conf"), str(machine.proc)).find()
    with pytest.raises(NginxError, match=f"^{said}$"):
        getattr(nginx, asked)()


STRAY = 90


class TestAMasterProcessWasKilled:
    """Its workers go on, and another master process may have been started since."""

    def stray(self, machine, title=WORKER, port="0050"):
        machine.start(STRAY, 1, title)
        for pid, at in ((FORMER, "0050"), (STRAY, port)):
            (machine.proc / str(pid) / "net").mkdir()
            (machine.proc / str(pid) / "net" / "tcp").write_text("head\n0: 00000000:%s 00000000:0000 0A 0:0 0:0 0 0 0 %d 1\n" % (at, pid))
            (machine.proc / str(pid) / "fd").mkdir()
            os.symlink("socket:[%d]" % pid, str(machine.proc / str(pid) / "fd" / "3"))

    def test_a_worker_on_our_port_is_told(self, machine):
        self.stray(machine)
        told = r"^Worker process 90 of nginx has no master process any more.* on a port of process 100\. End it \(kill -QUIT 90\)\.$"
        with pytest.raises(NginxError, match=told):
            machine.find()

    def test_one_that_ends_in_time_is_not(self, machine):
        """As with a master process that ends just now."""
        self.stray(machine)
        machine.later = {3: [lambda: machine.rename(STRAY, "")]}
        assert machine.find() == (FORMER, []) and machine.now < NEW_SECONDS

    def test_a_worker_on_another_port_is_anothers(self, machine):
        self.stray(machine, port="0051")
        assert machine.find() == (FORMER, []) and machine.now == 0

    def test_one_that_is_shutting_down_is_one_from_before_a_reload(self, machine):
        self.stray(machine, WORKER + " is shutting down")
        nginx = machine.nginx().find()
        assert [(worker.pid, worker.leaving, worker.master) for worker in nginx.workers()] == [(101, False, (FORMER, FORMER)), (STRAY, True, (0, None))]

    def test_without_another_master_process_the_worker_is_told(self, machine):
        self.stray(machine)
        machine.rename(FORMER, "")
        told = r"^No nginx with the configuration .* runs on this machine\. Worker process 90 of nginx goes on without its master"
        with pytest.raises(NginxError, match=told):
            machine.find()
