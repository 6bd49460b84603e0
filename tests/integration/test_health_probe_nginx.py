# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The configuration of nginx on docs/getting-started.md: while the file is there, the health answer fails, and connections close after their next request."""

from __future__ import annotations

import http.client
import http.server

import pytest

from tests.support.nginx import NEEDED, Nginx
from tests.support.pages import blocks
from tests.support.ports import free_port
from tests.support.serving import Handler, Server, Serving

pytestmark = NEEDED


class Application(Handler):
    """Answers what it was asked."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.reply(200, f"{self.command} {self.path} {self.body().decode()}".encode())

    do_POST = do_GET


@pytest.fixture
def port(tmp_path):
    """That of nginx before an application, with the page's configuration and the file in the folder of the test."""
    application, serving = Server(Application), Serving()
    serving.serve(application)
    port, probed = free_port(), free_port()
    (text,) = (text for kind, text in blocks("docs/getting-started.md", "Behind Azure Load Balancer or Application Gateway") if kind == "nginx")
    places = {
        "listen 80;": f"listen 127.0.0.1:{port};",
        "listen 8081;": f"listen 127.0.0.1:{probed};",
        ":3000": f":{application.server_port}",
        "/var/www/": f"{tmp_path}/",
    }
    for there, here in places.items():
        assert there in text
        text = text.replace(there, here)
    nginx = Nginx(tmp_path, http=text)
    yield port
    nginx.stop()
    serving.close()


def test_connections_close_while_the_file_is_there(tmp_path, port):
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=20)

    def ask(method, path, body=None):
        client.request(method, path, body)
        answer = client.getresponse()
        return answer.status, answer.read().decode(), client.sock is not None

    assert ask("GET", "/health")[0] == 200
    assert ask("GET", "/cart?item=1") == (200, "GET /cart?item=1 ", True)
    # On the connection that was open before.
    (tmp_path / "maintenance").touch()
    assert ask("GET", "/cart?item=2") == (200, "GET /cart?item=2 ", False)
    assert ask("POST", "/order", "two") == (200, "POST /order two", False)
    assert ask("GET", "/health")[0] == 503
    client.close()
    (tmp_path / "maintenance").unlink()
    assert ask("GET", "/health")[0] == 200
    assert ask("GET", "/cart") == (200, "GET /cart ", True)
