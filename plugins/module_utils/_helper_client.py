# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Asks the helper of a run (C(_helper.py)). The controller sends the text of this file to Python as a command, with the request on standard input.

It is the whole price of a request, so it imports next to nothing, not even C(socket). Any Python 3 will do.

It writes lines that begin with C(graceful_azure): C(none) and why, if no helper was asked; C(asked) before it sends the request; C(answer) and the
JSON. If there is nothing after C(asked), nobody knows what became of the request.
"""

import _socket
import os
import select
import sys

# Seconds in which a helper that lives says so, also on a busy machine.
ALIVE = 3.0
# Milliseconds between two empty lines. C(sudo) and C(ssh) only notice a closed connection when they write to it.
LINE_EACH = 1000
REFUSED = 111


def main() -> None:
    kind, path = sys.argv[1:]
    request = b"".join(iter(lambda: os.read(0, 1 << 20), b""))
    helper = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    helper.settimeout(ALIVE)
    why = "the helper does not answer"
    try:
        helper.connect(path)
        peer = helper.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
        if int.from_bytes(peer[4:8], sys.byteorder) != os.geteuid():
            say("none", b"another user listens there")
            return
        if helper.recv(1) == b"h":
            ask(helper, kind.encode() + len(request).to_bytes(8, "big") + request)
            return
    except OSError as error:
        if isinstance(error, _socket.timeout) or error.errno == REFUSED:
            remove(path)
        why = str(error)
    say("none", why.encode())


def ask(helper: _socket.socket, request: bytes) -> None:
    say("asked")
    try:
        helper.sendall(request)
        answer = received(helper)
    except OSError:
        return
    if len(answer) >= 8 and len(answer) == 8 + int.from_bytes(answer[:8], "big"):
        say("answer", answer[8:])


def received(helper: _socket.socket) -> bytes:
    poll = select.poll()
    poll.register(helper.fileno(), select.POLLIN)
    poll.register(1, 0)
    helper.settimeout(None)
    parts = []  # type: list[bytes]
    while True:
        found = dict(poll.poll(LINE_EACH))
        if 1 in found:
            raise SystemExit(1)
        if not found:
            os.write(1, b"\n")
            continue
        part = helper.recv(1 << 20)
        if not part:
            return b"".join(parts)
        parts.append(part)


def remove(path: str) -> None:
    """The socket of a helper that was killed or hangs. One that hangs ends when it finds that out."""
    try:
        os.unlink(path)
        os.rmdir(os.path.dirname(path))
    except OSError:
        pass


def say(word: str, told: bytes = b"") -> None:
    sys.stdout.buffer.write(b"graceful_azure %s %s\n" % (word.encode(), told))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
