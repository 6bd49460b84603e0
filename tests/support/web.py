# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A web server in a thread of the test, whose answers the test decides. The one that is a process, and may be killed, is backend.py."""

from __future__ import annotations

import time

from tests.support.serving import Handler, Server, Serving


class Web(Serving):
    """A web server that answers with its status, if need be later. ``protocol`` HTTP/1.0 closes the connection after each answer."""

    def __init__(self, protocol="HTTP/1.1", port=0):
        web = self
        web.status = 200
        web.held = {}

        class Answer(Handler):
            protocol_version = protocol

            def do_GET(self):
                # Until the test lets it go, or as long as the query says.
                query = self.path.partition("?")[2]
                if query in web.held:
                    web.held[query].wait(600)
                else:
                    time.sleep(float(query or 0))
                self.reply(web.status)

            do_POST = do_OPTIONS = do_GET

        server = Server(Answer, port)
        self.port = server.server_port
        self.serve(server)


class SwitchedWeb(Web):
    """One whose answer fails as long as one of these files is there."""

    def __init__(self, *files):
        self.files = files
        super().__init__("HTTP/1.0")

    @property
    def status(self):
        return 503 if any(file.exists() for file in self.files) else 200

    @status.setter
    def status(self, value):
        assert value == 200
