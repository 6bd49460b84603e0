# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Slack and Teams, as far as they take messages. Both are strict: what the real ones would refuse or not show is refused."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import socketserver
import threading

from tests.support.receiver import Receiver, certificate

MOST_BYTES = 28 * 1024


class TeamsWorkflow(Receiver):
    """The webhook of a workflow "Send webhook alerts to a channel". C(cards) are those that it posted.

    It takes a request at once (202) and looks at it later. What it cannot post goes to C(failed), of which the sender is told nothing. C(look): called with
    each card; says what is wrong with it.
    """

    path = "/powerautomate/automations/direct/workflows/0123/triggers/manual/paths/invoke?api-version=1&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig=s3cr3t_-"

    def __init__(self, look=lambda _card: "", **options):
        self.look = look
        self.cards = []
        self.failed = []
        super().__init__(**options)

    def answer(self, request):
        if request["path"] != self.path:
            return 401, {"error": {"code": "AuthorizationFailed", "message": "The authentication credentials are not valid."}}
        if request["headers"].get("Content-Type", "").partition(";")[0] != "application/json":
            return 415, b""
        if len(request["body"]) > MOST_BYTES:
            return 413, b""
        try:
            message = json.loads(request["body"])
        except ValueError:
            return 400, {"error": {"code": "InvalidRequestContent"}}
        mistakes = mistakes_in(message, self.look)
        if mistakes:
            self.failed.append(mistakes)
        else:
            self.cards += [attachment["content"] for attachment in message["attachments"]]
        return 202, b""


def mistakes_in(message, look=lambda _card: ""):
    """Why the workflow does not post it."""
    if not isinstance(message, dict) or message.get("type") != "message" or not isinstance(message.get("attachments"), list):
        return "no message with attachments"
    for attachment in message["attachments"]:
        if attachment.get("contentType") != "application/vnd.microsoft.card.adaptive":
            return "no adaptive card"
        card = attachment.get("content")
        if card.get("type") != "AdaptiveCard" or not re.fullmatch(r"1\.[0-5]", card.get("version", "")) or not card.get("body"):
            return "the card has no type, body or version that Teams knows"
        mistake = look(card)
        if mistake:
            return mistake
    return ""


class Slack(Receiver):
    """Slack at its own names, for programs whose environment is C(environment). C(posted_messages): what came, with the channel that it was for.

    A proxy leads to it, and only to it: nothing else is reached from there.
    """

    NAMES = ("slack.com", "hooks.slack.com")
    WEBHOOK = "T0AAAAAAA/B0BBBBBBB/cCcCcCcCcCcCcCcCcCcCcCcC"
    BOT = "xoxb-1-2-abc"
    CHANNELS = ("#ops", "C0DDDDDDD")
    # What chat.postMessage takes of what anybody here sends.
    TAKEN = {"text": str, "channel": str, "username": str, "icon_url": str, "link_names": int, "parse": str, "blocks": list, "attachments": list}
    MOST_CHARACTERS = 40_000

    def __init__(self, folder):
        self.messages = []
        tls = certificate(folder, *self.NAMES)
        super().__init__(tls=tls)
        self._proxy = _Proxy(self.NAMES, self.port)
        self.environment = {"https_proxy": f"http://127.0.0.1:{self._proxy.port}", "no_proxy": "127.0.0.1", "SSL_CERT_FILE": str(tls)}

    def close(self):
        self._proxy.close()
        super().close()

    def answer(self, request):
        as_webhook = request["headers"]["Host"] == "hooks.slack.com" and request["path"].startswith("/services/")
        if request["method"] != "POST" or not (as_webhook or (request["headers"]["Host"] == "slack.com" and request["path"] == "/api/chat.postMessage")):
            return 404, b"no_such_path"
        why, message = self.look(request)
        if as_webhook:
            if request["path"] != f"/services/{self.WEBHOOK}":
                return 403, b"invalid_token"
            if why:
                return 400, why.encode()
            self.messages.append(("the webhook's own", message["text"]))
            return 200, b"ok"
        if request["headers"].get("Authorization") != f"Bearer {self.BOT}":
            why = "invalid_auth"
        elif not why and message.get("channel") not in self.CHANNELS:
            why = "channel_not_found"
        if why:
            return 200, {"ok": False, "error": why}
        self.messages.append((message["channel"], message["text"]))
        return 200, {"ok": True, "channel": "C0DDDDDDD", "ts": "1795552200.000100", "message": {"type": "message", "text": message["text"]}}

    def look(self, request):
        """The message, and why it is not taken."""
        if request["headers"].get("Content-Type", "").partition(";")[0] != "application/json":
            return "invalid_form_data", None
        try:
            message = json.loads(request["body"])
        except ValueError:
            return "invalid_payload", None
        if not isinstance(message, dict) or any(not isinstance(value, self.TAKEN.get(name, ())) for name, value in message.items()):
            return "invalid_payload", None
        text = message.get("text")
        if not text:
            return "no_text", None
        if len(text) > self.MOST_CHARACTERS:
            return "msg_too_long", None
        # What is between these two has a meaning for Slack, and nobody here means it.
        if re.search(r"[<>]|&(?!amp;|lt;|gt;)", text):
            return "text_is_not_escaped", None
        return "", message


class _Proxy:
    """Takes CONNECT to these names, and leads to a port of 127.0.0.1."""

    def __init__(self, names, port):
        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                method, _blank, rest = self.rfile.readline().decode("latin-1").partition(" ")
                while self.rfile.readline().strip():
                    pass
                if method != "CONNECT" or rest.split(" ")[0] not in [f"{name}:443" for name in names]:
                    self.wfile.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
                    return
                self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                with socket.create_connection(("127.0.0.1", port)) as other:
                    threading.Thread(target=_pass_on, args=(other, self.connection), daemon=True).start()
                    _pass_on(self.connection, other)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


def _pass_on(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
