# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Points in a change at which a run is killed, just before the module does what is named: an event of Python's audit, a pattern that its arguments
have, and which of these, counted over all processes of the controller.

The names say what was done and what was not. Each change begins with a record and ends with one; on the way back the last record goes.
"""

from __future__ import annotations

import re

# A record comes by its last name when it is written, and goes by it when it is deleted.
NGINX, PROBE, HAPROXY = (r"/%s[^/]*\.json'" % kind for kind in ("nginx_server", "health_probe", "haproxy_server"))
FILE = r"-health'"

POINTS = {
    "nginx": {
        "nothing": ("os.rename", NGINX, 1),
        "record, not the file": ("os.rename", r"/nginx\.conf'", 1),
        "file, not the reload": ("os.kill", r", 1\)", 1),
        "reload, not the second record": ("os.rename", NGINX, 2),
        "back: nothing": ("os.rename", NGINX, 3),
        "back: record, not the file": ("os.rename", r"/nginx\.conf'", 2),
        "back: file, not the reload": ("os.kill", r", 1\)", 2),
        "back: reload, and the record stays": ("os.remove", NGINX, 1),
    },
    "probe": {
        "nothing": ("os.rename", PROBE, 1),
        "record, not the file": ("open", FILE, 1),
        "file, not the second record": ("os.rename", PROBE, 2),
        "back: nothing": ("os.rename", PROBE, 3),
        "back: record, not the file": ("os.remove", FILE, 1),
        "back: file, and the record stays": ("os.remove", PROBE, 1),
    },
    "azure": {
        "nothing": ("http.client.send", r"^PATCH ", 1),
        "record, not the pool": ("http.client.send", r"^PUT ", 1),
        "pool, Azure not done": ("http.client.send", r"^GET .*/operations/", 1),
        "Azure done, not the second record": ("http.client.send", r"^PATCH ", 2),
        "back: nothing": ("http.client.send", r"^PATCH ", 3),
        "back: record, not the pool": ("http.client.send", r"^PUT ", 2),
        "back: pool, Azure not done": ("http.client.send", r"^GET .*/operations/", 2),
        "back: Azure done, and the record stays": ("http.client.send", r"^PATCH ", 4),
    },
    "row": {
        "the first balancer alone, no second record": ("os.rename", PROBE, 2),
        "the first record of the second": ("os.rename", HAPROXY, 1),
        "the second balancer, not its second record": ("os.rename", HAPROXY, 2),
        "back: nothing": ("os.rename", HAPROXY, 3),
        "back: the second, and its record stays": ("os.remove", HAPROXY, 1),
        "back: the first, and its record stays": ("os.remove", PROBE, 1),
    },
}

for _points in POINTS.values():
    for _event, _pattern, _nth in _points.values():
        re.compile(_pattern)
