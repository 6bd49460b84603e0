# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A mail server at a free port of 127.0.0.1, which keeps what it gets. It offers STARTTLS, and takes mail from known users only where it is told to."""

from __future__ import annotations

import email
import email.policy
import ssl

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from tests.support.ports import free_port


class MailServer:
    """C(messages): what came, as parsed messages. C(users): the password of each user who may send, and then only over TLS.

    C(certificate): the file with certificate and key for STARTTLS.
    """

    def __init__(self, certificate=None, users=None):
        self.messages = []
        self.envelopes = []
        options = {"hostname": "127.0.0.1", "port": free_port()}
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            options["tls_context"] = context
        if users:
            self._users = {(name.encode(), password.encode()) for name, password in users.items()}
            options.update(auth_required=True, authenticator=self._authenticate)
        self._controller = Controller(self, **options)
        self.port = options["port"]

    def __enter__(self):
        self._controller.start()
        return self

    def __exit__(self, *_):
        self._controller.stop()

    def _authenticate(self, _server, _session, _envelope, _mechanism, given):
        return AuthResult(success=(given.login, given.password) in self._users, handled=False)

    # The name is aiosmtpd's.
    async def handle_DATA(self, _server, session, envelope):
        self.messages.append(email.message_from_bytes(envelope.content, policy=email.policy.default))
        self.envelopes.append({"from": envelope.mail_from, "to": envelope.rcpt_tos, "tls": session.ssl is not None, "user": session.authenticated})
        return "250 kept"
