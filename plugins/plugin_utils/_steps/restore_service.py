# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How far the role restore_service has come. Private to the collection; pure."""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.plugin_utils._steps.results import NOTHING, UNREACHABLE, is_changed, is_skipped, is_unreachable

ENDED = ("approved", "drained", "restoring", "restore_service_before", "restore_service_after", "drain_host_before", "drain_host_after")
"""The records that end with this role, those of other roles among them."""


def judge(host, services=NOTHING, answer=NOTHING, balancer=None, unfinished="", check_mode=False):
    """The C(restore_service_result): C(done), C(changed), C(reason), C(failed_hosts), C(conflicts).

    C(host): its name in the inventory.
    C(services): the result of M(graceful.azure.service_hold) on the host.
    C(answer): the result of M(graceful.azure.wait_for_answer) on the host.
    C(balancer): the C(load_balancer_result) of giving the host back; None, or any, as long as C(may_go_back) does not allow that.
    C(unfinished): the user's task file that has not done its job yet.

    A module that was not run because there is nothing to start or to ask is as good as done: leave its result out.
    """
    given_back = balancer if balancer and may_go_back(services, answer, unfinished) else {}
    left = _left(services, answer, given_back, unfinished)
    conflicts = [*(services.get("conflicts") or ()), *(given_back.get("conflicts") or ())]
    said = ["not restored" if left else "restored", *left, *conflicts]
    return {
        "done": check_mode or not left,
        "changed": is_changed(services) or is_changed(given_back),
        "reason": f"{host} is {'; '.join(said)}",
        "failed_hosts": list(given_back.get("failed_hosts") or ()),
        "conflicts": conflicts,
    }


def progress(host, services, answer, balancer, records=(), present=None, files=(), **more):
    """What the tasks of the role go by.

    C(records): the results of M(graceful.azure.task_hold) that recorded the user's tasks. C(files): the names of these.
    C(present): the kinds of records that the host has; None if nobody knows.

    Returns C(result) (the C(restore_service_result)), C(starts) (whether there may be services to start), C(before_done) (whether the tasks that come
    first were done by an earlier step), C(up) (whether everything runs that has to answer), C(may_go_back), C(given_back), and C(forgets) (the records
    to be removed, also those of task files that are set no more).
    """
    unfinished = more.get("unfinished", "")
    goes_back = may_go_back(services, answer, unfinished)
    return {
        "result": judge(host, services, answer, balancer, **more),
        "starts": present is None or "service" in present,
        "before_done": any(record.get("done") and not is_changed(record) and record["item"] == "restore_service_before" for record in records),
        "up": is_up(services, unfinished),
        "may_go_back": goes_back,
        "given_back": goes_back and bool((balancer or {}).get("done")),
        "forgets": [name for name in ENDED if present is None or name in present or name in files],
    }


def is_up(services=NOTHING, unfinished=""):
    """Whether everything runs on the host that has to answer."""
    return not unfinished and bool(services.get("done", is_skipped(services)))


def may_go_back(services=NOTHING, answer=NOTHING, unfinished=""):
    """Whether requests may be sent to the host again."""
    return is_up(services, unfinished) and bool(answer.get("answered", is_skipped(answer)))


def _left(services, answer, given_back, unfinished):
    if unfinished:
        return [f"{unfinished} has not set restore_service_done"]
    if is_unreachable(services) or is_unreachable(answer):
        return [UNREACHABLE]
    if not is_up(services):
        return [services.get("waiting_for") or "its services do not run yet"]
    if not may_go_back(services, answer):
        return ["it stays out of its load balancer", answer.get("reason") or "it was not asked"]
    return [] if given_back.get("done") else [given_back.get("reason") or "it is not given back yet"]
