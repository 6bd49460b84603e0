# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A module of the collection as a process of its own, the way a host runs it, or in the process of the test."""

from __future__ import annotations

import array
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from unittest import mock

from ansible.module_utils import basic

from tests.support.patience import patient

# Ansible sends a module's arguments on its standard input; core 2.19 and later want to know the profile of serialisation.
PROGRAM = """
import io, json, os, runpy, sys
user, sys.path[:0] = int(sys.argv[2]), sys.argv[3:]
import ansible.module_utils.basic as basic
for name in ("_ANSIBLE_PROFILE",):
    if hasattr(basic, name):
        setattr(basic, name, "legacy")
called = sys.argv[1]
module = "ansible_collections.graceful.azure.plugins.modules."
from ansible_collections.graceful.azure.plugins.module_utils._handle import CALLS
if called in CALLS:
    # Something that a machine is asked.
    args = json.load(sys.stdin)["ANSIBLE_MODULE_ARGS"]
    given = {"_ansible_check_mode": args.pop("_ansible_check_mode", False), "call": called, "args": args}
    sys.stdin = io.TextIOWrapper(io.BytesIO(json.dumps({"ANSIBLE_MODULE_ARGS": given}).encode()))
    called = "machine"
module += called
__import__(module)
if called == "machine":
    # What it needs is loaded later, by a user who may not read it here.
    for load in CALLS.values():
        load()
if user >= 0:
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
sys.argv[1:] = []
sys.modules[module].main()
"""

# Loads what modules import, and forks for each: to load it takes most of a module's time. It ends when nobody has the other end of its socket any more.
SERVER = """
import array, gc, io, json, os, socket, sys
control, sys.path[:0] = socket.socket(fileno=int(sys.argv[1])), sys.argv[2:]
import ansible.module_utils.basic
import ansible_collections.graceful.azure.plugins.modules.machine
from ansible_collections.graceful.azure.plugins.module_utils._handle import CALLS
for load in CALLS.values():
    load()
gc.freeze()
while True:
    message, sent = control.recvmsg(1, socket.CMSG_SPACE(12))[:2]
    if not message:
        sys.exit()
    files = array.array("i", sent[0][2])
    if os.fork() == 0:
        break
    for number in files:
        os.close(number)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
control.close()
for number, file in enumerate(files[1:], 1):
    os.dup2(file, number)
    os.close(file)
# Its end tells that of the process.
asked = socket.socket(fileno=files[0])
told = json.loads(b"".join(iter(lambda: asked.recv(1 << 16), b"")))
os.environ.clear()
os.environ.update(told["environment"])
sys.argv, sys.stdin = ["-c", *told["words"]], io.TextIOWrapper(io.BytesIO(told["input"].encode()))
exec(told["program"])
"""
# A call within the collection kills the process. What is left is what a SIGKILL there leaves.
KILLED = """
import importlib, os, signal
module, name, text, left, after = {module!r}, {name!r}, {text!r}, {number!r}, {after!r}
owner = importlib.import_module(module)
*path, last = name.split(".")
for part in path:
    owner = getattr(owner, part)
before = getattr(owner, last)
def call(*words, **named):
    global left
    fits = text in " ".join(map(str, words[1:]))
    left -= fits
    if fits and left == 0 and not after:
        os.kill(os.getpid(), signal.SIGKILL)
    answer = before(*words, **named)
    if fits and left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return answer
setattr(owner, last, call)
"""
# Where each test runs in a fork of its own, that fork would need a server of its own.
MAIN = os.getpid()
_SERVERS = []


def run_module(name, arguments, check=False, user=None, wait=True, prefix=()):
    """The result of a module, or of something else that a machine can be asked. Without ``wait``: a function that waits for it.

    ``user`` is the id to run as, for root alone. ``prefix`` is a command that runs another.
    """
    words = (name, str(-1 if user is None else user))
    given = json.dumps({"ANSIBLE_MODULE_ARGS": dict(arguments, _ansible_check_mode=check)})
    communicate = _started(prefix, words, given) if prefix or os.getpid() != MAIN else run_program(PROGRAM, *words, given=given)

    def finish():
        said, complained = communicate()
        try:
            return json.loads(said)
        except ValueError:
            raise AssertionError("%s said %r and %r" % (name, said, complained)) from None

    return finish() if wait else finish


def _started(prefix, words, given):
    """Starts a module. Returns a function that waits for what it says and complains of."""
    command = [*prefix, sys.executable, "-c", PROGRAM, *words, *sys.path]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/")
    process.stdin.write(given)
    process.stdin.close()
    process.stdin = None
    return lambda: process.communicate(timeout=patient(60))


def run_program(program, *words, given=""):
    """The same for another program that has modules loaded: its text, the words of its command line, and its input. Who was killed says nothing."""
    asks, asked = socket.socketpair()
    files = [tempfile.TemporaryFile() for _number in range(2)]
    with asked:
        sent = array.array("i", [asked.fileno(), *(file.fileno() for file in files)])
        _server().sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, sent)])
    asks.settimeout(patient(60))
    asks.sendall(json.dumps({"program": program, "words": words, "input": given, "environment": dict(os.environ)}).encode())
    asks.shutdown(socket.SHUT_WR)

    def communicate():
        with contextlib.ExitStack() as stack:
            for each in (asks, *files):
                stack.enter_context(each)
            if asks.recv(1):
                raise AssertionError("a module says nothing there")
            texts = []
            for file in files:
                file.seek(0)
                texts.append(file.read().decode())
            return texts

    return communicate


def killed(name, arguments, method, text="", number=1, after=False):
    """Run a module up to the C(number)-th call of a function, or of a method, whose other arguments have this text, and kill it before or after that call.

    Whether it came so far.
    """
    start = KILLED.format(module=method.__module__, name=method.__qualname__, text=text, number=number, after=after)
    said, complained = run_program(start + PROGRAM, name, "-1", given=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}))()
    assert not complained, complained
    return not said


def _server():
    if not _SERVERS:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-c", SERVER, str(its.fileno()), *sys.path]
        with its:
            apart = {"cwd": "/", "stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "start_new_session": True}
            process = subprocess.Popen(command, pass_fds=[its.fileno()], **apart)
        _SERVERS.append((ours, process))
    return _SERVERS[0][0]


def arguments_are(arguments):
    """As long as this context lasts, every module that starts in this process takes these arguments."""
    sent = json.dumps({"ANSIBLE_MODULE_ARGS": arguments}).encode()
    # Cores 2.17 and 2.18 have no profile of serialisation, and no ansible.module_utils.testing.
    return mock.patch.multiple(basic, create=True, _ANSIBLE_ARGS=sent, _ANSIBLE_PROFILE="legacy")
