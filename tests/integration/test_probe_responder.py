# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The responder as a process of its own, before a real web server."""

from __future__ import annotations

import contextlib
import http.client
import socket
import sys

import pytest

from tests.support.checkout import ROOT
from tests.support.patience import patient, until
from tests.support.ports import accepts, free_port
from tests.support.processes import Processes
from tests.support.web import Web

PROGRAM = ROOT / "roles" / "load_balancer" / "files" / "probe_responder.py"


class Responder:
    def __init__(self, folder, web):
        self.port, self.untouched, self.hold, self.web = free_port(), free_port(), folder / "hold" / "out", web
        self.hold.parent.mkdir()
        self.processes = Processes(folder)
        words = (
            "--url",
            f"http://127.0.0.1:{web.port}/health",
            "--hold",
            self.hold,
            "--port",
            self.port,
            "--untouched-port",
            self.untouched,
            "--seconds",
            "30",
        )
        self.process = self.processes.start("responder", sys.executable, "-I", "-S", PROGRAM, *words)
        until(lambda: accepts(self.port) and accepts(self.untouched), 10, "the responder listens")

    def ask(self, method="GET", port=None):
        return ask(port or self.port, method)


def ask(port, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patient(10))
    try:
        connection.request(method, "/any")
        answer = connection.getresponse()
        assert answer.getheader("Connection") == "close"
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.fixture(name="responder")
def make_responder(tmp_path):
    web = Web()
    responder = Responder(tmp_path, web)
    yield responder
    responder.processes.close()
    web.close()


def test_it_passes_the_applications_health_on(responder):
    assert responder.ask() == (200, "OK\n") and responder.ask("HEAD") == (200, "")
    responder.web.status = 500
    assert responder.ask()[0] == 500


def test_a_hold_makes_it_fail_at_once(responder):
    responder.hold.write_text("")
    assert responder.ask() == (503, "held for a scheduled event\n")
    responder.hold.unlink()
    assert responder.ask()[0] == 200


def test_the_untouched_answer_is_the_applications_health_whatever_is_held(responder):
    assert responder.ask(port=responder.untouched) == (200, "OK\n")
    responder.hold.write_text("")
    assert responder.ask()[0] == 503 and responder.ask(port=responder.untouched) == (200, "OK\n")
    responder.web.status = 500
    assert responder.ask(port=responder.untouched)[0] == 500


def test_systemd_says_which_socket_is_untouched(tmp_path):
    """As systemd does it: both sockets are open, and the environment names them."""
    web = Web()
    processes = Processes(tmp_path)
    hold = tmp_path / "out"
    hold.write_text("")
    listeners = [socket.create_server(("127.0.0.1", 0)) for _each in range(2)]
    # They become the descriptors 3 and 4 of the process, whose number the environment must name.
    begin = (
        f"import os; os.dup2({listeners[0].fileno()}, 300); os.dup2({listeners[1].fileno()}, 301); os.dup2(300, 3); os.dup2(301, 4);"
        "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='2', LISTEN_FDNAMES='untouched:other.socket');"
        "import sys; os.execv(sys.executable, [sys.executable] + sys.argv[1:])"
    )
    words = ("-I", "-S", PROGRAM, "--url", f"http://127.0.0.1:{web.port}/health", "--hold", hold)
    try:
        processes.start("responder", sys.executable, "-c", begin, *words, pass_fds=[listener.fileno() for listener in listeners])
        answers = [ask(listener.getsockname()[1])[0] for listener in listeners]
        assert answers == [200, 503]
    finally:
        processes.close()
        web.close()
        for listener in listeners:
            listener.close()


def test_what_it_cannot_read_is_no_hold(responder):
    # The place of its folder is taken by a file, so nothing can be told of the hold.
    responder.hold.parent.rmdir()
    responder.hold.parent.write_text("")
    assert responder.ask()[0] == 200


def test_an_application_that_does_not_answer_fails(responder):
    responder.web.close()
    status, why = responder.ask()
    assert status == 503 and why.startswith("the application cannot be asked")


def test_what_is_no_request_is_refused(responder):
    assert responder.ask("POST")[0] == 405
    with socket.create_connection(("127.0.0.1", responder.port), patient(10)) as connection:
        # It need not read all of that before it answers and closes.
        with contextlib.suppress(ConnectionError):
            connection.sendall(b"x" * 20000)
            assert connection.recv(12) in (b"HTTP/1.1 400", b"")
    assert responder.ask()[0] == 200


def test_it_ends_when_it_is_told(responder):
    # It listens before it heeds signals. Once it answers, it does.
    assert responder.ask()[0] == 200
    assert responder.processes.stop(responder.process) == 0
