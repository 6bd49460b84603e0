# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Slack and Teams, as far as they take messages. Both are strict: what the real ones would refuse or not show is refused.

They have their own names and TLS. C(Proxy) leads programs there.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import socketserver
import threading

from tests.support.receiver import Receiver, certificate
from tests.support.serving import Serving

MOST_BYTES = 28 * 1024


class TeamsWorkflow(Receiver):
    """The webhook of a workflow "Send webhook alerts to a channel". C(cards) are those that it posted.

    It takes a request at once (202) and looks at it later. What it cannot post goes to C(failed), of which the sender is told nothing. C(look): called with
    each card; says what is wrong with it.
    """

    NAMES = ("default0123.00.environment.api.powerplatform.com",)
    path = "/powerautomate/automations/direct/workflows/0123/triggers/manual/paths/invoke?api-version=1&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig=s3cr3t_-"

    def __init__(self, folder, look=lambda _card: ""):
        self.look = look
        self.cards = []
        self.failed = []
        self.tls = certificate(folder, *self.NAMES)
        super().__init__(tls=self.tls)
        self.address = f"https://{self.NAMES[0]}:443{self.path}"

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
        # Teams' own. With entities it would call people, and nobody here means to.
        if card.get("msteams", {"width": "full"}) != {"width": "full"}:
            return "the card calls people"
        mistake = look({name: value for name, value in card.items() if name != "msteams"})
        if mistake:
            return mistake
    return ""


class Slack(Receiver):
    """C(messages): what came, each with the channel that it was for, its title and its text."""

    NAMES = ("slack.com", "hooks.slack.com")
    WEBHOOK = "T0AAAAAAA/B0BBBBBBB/cCcCcCcCcCcCcCcCcCcCcCcC"
    BOT = "xoxb-1-2-abc"
    CHANNELS = ("#ops", "C0DDDDDDD")
    # What chat.postMessage takes of what anybody here sends.
    TAKEN = {"text": str, "channel": str, "username": str, "icon_url": str, "mrkdwn": bool, "attachments": list}
    OF_ATTACHMENTS = {"title": str, "text": str, "color": str, "footer": str, "ts": (int, float)}
    MOST_CHARACTERS = 40_000

    def __init__(self, folder):
        self.messages = []
        self.tls = certificate(folder, *self.NAMES)
        super().__init__(tls=self.tls)

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
            self.keep("the webhook's own", message)
            return 200, b"ok"
        if request["headers"].get("Authorization") != f"Bearer {self.BOT}":
            why = "invalid_auth"
        elif not why and message.get("channel") not in self.CHANNELS:
            why = "channel_not_found"
        if why:
            return 200, {"ok": False, "error": why}
        self.keep(message["channel"], message)
        return 200, {"ok": True, "channel": "C0DDDDDDD", "ts": "1795552200.000100", "message": {"type": "message", "text": message.get("text", "")}}

    def keep(self, channel, message):
        shown = message.get("attachments") or [message]
        self.messages += [(channel, part.get("title", ""), part["text"]) for part in shown]

    def look(self, request):
        """The message, and why it is not taken."""
        if request["headers"].get("Content-Type", "").partition(";")[0] != "application/json":
            return "invalid_form_data", None
        try:
            message = json.loads(request["body"])
        except ValueError:
            return "invalid_payload", None
        if not _has_only(message, self.TAKEN):
            return "invalid_payload", None
        parts = message.get("attachments", [])
        if not all(_has_only(part, self.OF_ATTACHMENTS) for part in parts):
            return "invalid_attachments", None
        texts = [part.get(name, "") for part in (message, *parts) for name in ("title", "text", "footer")]
        if not any(part.get("text") for part in (message, *parts)):
            return "no_text", None
        if sum(map(len, texts)) > self.MOST_CHARACTERS:
            return "msg_too_long", None
        # What is between these two has a meaning for Slack, and nobody here means it.
        if any(re.search(r"[<>]|&(?!amp;|lt;|gt;)", text) for text in texts):
            return "text_is_not_escaped", None
        return "", message


def _has_only(value, types):
    """Whether this is a dictionary with these keys at most, each with a value of its type."""
    return isinstance(value, dict) and all(name in types and isinstance(inner, types[name]) for name, inner in value.items())


class Proxy(Serving):
    """Leads programs whose environment is C(environment) to these receivers by their names, and nowhere else. C(trusted): other certificates."""

    def __init__(self, folder, *receivers, trusted=()):
        ports = {f"{name}:443": receiver.port for receiver in receivers for name in receiver.NAMES}

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                method, _blank, rest = self.rfile.readline().decode("latin-1").partition(" ")
                while self.rfile.readline().strip():
                    pass
                if method != "CONNECT" or rest.split(" ")[0] not in ports:
                    self.wfile.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
                    return
                self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                with socket.create_connection(("127.0.0.1", ports[rest.split(" ")[0]])) as other:
                    threading.Thread(target=_pass_on, args=(other, self.connection), daemon=True).start()
                    _pass_on(self.connection, other)

        known = folder / "known.pem"
        known.write_text("".join(path.read_text() for path in (*(receiver.tls for receiver in receivers), *trusted)))
        self.serve(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler))
        address = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.environment = {"https_proxy": address, "no_proxy": "127.0.0.1", "REQUESTS_CA_BUNDLE": str(known), "SSL_CERT_FILE": str(known)}


def _pass_on(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
