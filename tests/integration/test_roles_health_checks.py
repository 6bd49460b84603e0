# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The roles against a real HAProxy that checks its servers: out of maintenance its checks decide."""

from __future__ import annotations

import functools
import threading

from tests.support.roles import RoleBed, back, duties, haproxy, out

BED = functools.partial(RoleBed, backend="  option httpchk GET /\n", options="check inter 200ms rise 2 fall 2")
READY, DRAIN = 0, 8
WAITS = "www/web1 waits in drain until HAProxy's health check passes (DOWN"


OUT = out("E1", **duties(haproxy(state="maint")))


def answers(bed, status):
    bed.webs["web1"].status = status


def test_load_balancer_in_steps_and_alone(bed):
    answers(bed, 503)
    step = back(load_balancer_wait=False)
    late = threading.Timer(3.0, answers, [bed, 200])

    def see():
        assert bed.admin() == DRAIN and bed.records("lb1") == {"web1": ["E1"]}
        late.start()

    run = bed.run(OUT, step, step, see, back())
    late.join()
    assert run.status == 0, run.output
    results = [one.result for one in run.steps[1:]]
    assert [(one["done"], one["changed"]) for one in results] == [(False, True), (False, False), (True, True)]
    assert all(WAITS in one["reason"] for one in results[:2])
    assert bed.admin() == READY and bed.records("lb1") == {}


def test_restore_service_in_steps_and_alone(bed):
    answers(bed, 503)
    step = ("restore_service", {"restore_service_wait": False, "graceful_azure_health_url": "", "restore_service_event_ids": ["E1"]})
    alone = ("restore_service", {"graceful_azure_health_url": "", "graceful_azure_restore_timeout": 2})
    run = bed.run(OUT, step, alone, lambda: answers(bed, 200), alone)
    first, failed, back = run.steps[1:]
    assert not first.result["done"] and first.result["reason"].startswith("web1 is not restored; ") and WAITS in first.result["reason"], run.output
    assert WAITS in failed.failure and back.result["done"], run.output
    assert bed.admin() == READY and bed.records("lb1") == {}
