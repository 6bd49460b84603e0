# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The roles load_balancer and drain_host with a real nginx, alone and behind a HAProxy."""

from __future__ import annotations

import pytest

from tests.support.nginx import NEEDED, Nginx
from tests.support.ports import free_port
from tests.support.roles import RoleBed, back, duties, haproxy, out

pytestmark = NEEDED


class NginxBed(RoleBed):
    """On lb2 an nginx runs, too."""

    def __init__(self, folder):
        super().__init__(folder)
        (folder / "nginx").mkdir()
        lines = "".join(f"server 127.0.0.1:{web.port}; # {name}\n" for name, web in self.webs.items())
        http = f"upstream www {{\n{lines}}}\nserver {{ listen 127.0.0.1:{free_port()}; location / {{ proxy_pass http://www; }} }}"
        self.nginx = Nginx(folder / "nginx", http=http)
        self.found = self.text()
        self.server = f"127.0.0.1:{self.webs['web1'].port}"

    def text(self):
        return self.nginx.configuration.read_text()

    def close(self):
        self.nginx.stop()
        super().close()


BED = NginxBed


def test_out_and_in(bed):
    file = str(bed.nginx.configuration)
    entry = {"type": "nginx", "hosts": ["lb2"], "server": bed.server, "configuration": file, "files": [file]}
    nginx = duties(entry)

    def is_out():
        assert f"{bed.server} down; # web1" in bed.text()

    wrong = duties(dict(entry, server="10.0.0.4:1", files=[]))
    refused = dict(nginx, load_balancer_min_in_service="2", load_balancer_timeout=0)
    run = bed.run(out("E1", **nginx), is_out, out("E1", **nginx), ("drain_host", nginx), back(**nginx), out("E1", **wrong), out("E1", **refused))
    first, second, drained, last, unknown, short = run.steps
    assert (first.result["done"], first.result["changed"], first.result["reason"]) == (True, True, f"{bed.server} is held (www on lb2: down)"), run.output
    assert (second.result["done"], second.result["changed"]) == (True, False)
    assert drained.result["done"], run.output
    assert (last.result["done"], last.result["reason"]) == (True, f"{bed.server} is not held (www on lb2: in rotation)")
    assert "has a server '10.0.0.4:1'" in unknown.failure
    assert short.failure == f"lb2: {bed.server} stays: 2 of 2 in service in upstream www, 2 must stay."
    assert bed.text() == bed.found
    assert bed.records("lb2") == {}

    predicted = bed.run(out("E1", **nginx), check=True, arguments=["--diff"])
    assert predicted.step.result["done"] and predicted.step.result["changed"]
    assert f"{bed.server} down;" in predicted.output
    assert bed.text() == bed.found


# The order of a list is in test_steps.py.
@pytest.mark.long
def test_behind_haproxy(bed):
    nginx = {"type": "nginx", "hosts": ["lb2"], "server": bed.server, "configuration": str(bed.nginx.configuration)}
    several = duties(haproxy(server="web1"), nginx)

    def is_out():
        assert bed.admin("lb1") == 8
        assert f"{bed.server} down; # web1" in bed.text()

    run = bed.run(out("E1", **several), is_out, ("drain_host", several), back(**several), host="web3")
    taken, drained, last = run.steps
    assert taken.result["reason"] == f"web1 is held (www on lb1: drain); {bed.server} is held (www on lb2: down)", run.output
    assert drained.result["done"], run.output
    assert last.result["done"], run.output
    assert bed.admin("lb1") == 0
    assert bed.text() == bed.found
