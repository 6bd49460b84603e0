# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A web server in the process of the test, with requests under way for as long as the test wants."""

from __future__ import annotations

import threading

from tests.support.patience import patient
from tests.support.serving import Handler, Server, Serving


class SlowWeb(Serving):
    """It answers with a text. Answers to /slow come when C(go) is set."""

    def __init__(self, text="ok"):
        self.go = threading.Event()
        web = self

        class Answer(Handler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                if self.path == "/slow":
                    web.go.wait(patient(20))
                self.reply(200, text.encode())

        server = Server(Answer)
        self.port = server.server_port
        self.serve(server)

    def close(self):
        self.go.set()
        super().close()
