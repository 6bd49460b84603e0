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


def _call(text):
    """A call on the Windows host that the event names, as the modelled connection reports it."""
    return r"'win1', '%s" % text


def _write(record):
    """Its record of this name is written or deleted."""
    return _call(r"win_powershell write \w+ \w+ %s-[0-9a-f]+\.json'" % record)


CALL = "modelled_windows.call"
SITE, POOL, CART, WEB, DRAINED, APPROVED = map(_write, ("iis-site-Shop", "iis-pool-ShopPool", "service-Cart", "service-W3SVC", "task-drained", "task-approved"))

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

WINDOWS = {
    "nothing": (CALL, SITE, 1),
    "the record of the site alone": (CALL, POOL, 1),
    "records, neither the site nor the pool": (CALL, _call("website stopped"), 1),
    "site, not its second record": (CALL, SITE, 2),
    "site, not the pool": (CALL, _call("web_app_pool stopped"), 1),
    "pool, not its second record": (CALL, POOL, 2),
    "nothing of the services": (CALL, CART, 1),
    "the record of one service alone": (CALL, WEB, 1),
    "records, not the services": (CALL, _call("win_powershell service stop"), 1),
    "the service that depends, not its second record": (CALL, CART, 2),
    "the service that depends alone": (CALL, _call("win_powershell service stop"), 2),
    "services, not the last second record": (CALL, WEB, 2),
    "nothing says that it is drained": (CALL, DRAINED, 1),
    "no record of the approval": (CALL, APPROVED, 1),
    "record, not the approval": (CALL, _call("win_uri POST"), 1),
    "approval, not its second record": (CALL, APPROVED, 2),
    "back: nothing": (CALL, WEB, 3),
    "back: record, not the service": (CALL, _call("win_powershell service start"), 1),
    "back: service, and its record stays": (CALL, WEB, 4),
    "back: one service alone": (CALL, CART, 3),
    "back: record, not the service that depends": (CALL, _call("win_powershell service start"), 2),
    "back: services, and a record stays": (CALL, CART, 4),
    "back: nothing of IIS": (CALL, POOL, 3),
    "back: record, not the pool": (CALL, _call("web_app_pool started"), 1),
    "back: pool, and its record stays": (CALL, POOL, 4),
    "back: pool, not the site": (CALL, SITE, 3),
    "back: record, not the site": (CALL, _call("website started"), 1),
    "back: site, and its record stays": (CALL, SITE, 4),
    "back: what says that it was approved stays": (CALL, APPROVED, 3),
    "back: what says that it was drained stays": (CALL, DRAINED, 2),
}
"""Before each call that changes something on a Windows host while it is taken through a Freeze."""
REQUESTS = {f"request {number}": ("os.fork", "", number) for number in range(1, 21)}
"""The requests of a run to the helpers of its machines. Each of them is answered by a fork, so no answer has begun yet."""
ALL = {**POINTS, "windows": WINDOWS, "haproxy": REQUESTS}

for _points in ALL.values():
    for _event, _pattern, _nth in _points.values():
        re.compile(_pattern)
