# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the benchmark of the providers judges an event, and what it writes into tests/PROVEN.md and docs/proven.md."""

from __future__ import annotations

import pytest

from tests.bench import proven, providers
from tests.bench.providers import KINDS, PROVIDERS, Provider, Span

NGINX = next(provider for provider in PROVIDERS if provider.name == "nginx")
HAPROXY = PROVIDERS[0]
REBOOT, NO_NOTICE = KINDS[0], next(kind for kind in KINDS if not kind.notice)


def request(start, backend="web1", outcome="ok", connection="new", door="load", seconds=0.0):
    return {"start": start, "seconds": seconds, "outcome": outcome, "backend": backend, "kind": "fast", "connection": connection, "door": door}


def served(*moments, **more):
    return [request(moment, **more) for moment in moments]


def test_only_what_began_in_its_time_counts():
    rows = [*served(9, 21, outcome="status 502"), *served(10, 11, 19), request(12, "", "no connection", seconds=1.5), request(13, "web2")]
    told = providers.outcome(Span(10, 20), rows, [])
    assert (told["requests"], told["failed"], told["failed_new"], told["failed_kept"], told["longest_pause"]) == (5, 1, 1, 0, 1.5)
    assert told["out"] == 8 and told["last_new"] == 1


def test_a_balancer_that_forwards_connections_tells_when_the_last_came():
    # Requests on a connection that is kept come on for three seconds, and one that came before the event counts for nothing.
    rows = served(10, 11, 12, 13, 19, connection="kept")
    log = [{"server": "web1", "accepted": accepted} for accepted in (9.5, 10.5, 19.001)]
    log += [{"server": "web2", "accepted": 12}, {"server": "web1", "state": "UP"}]
    assert providers.outcome(Span(10, 20), rows, log)["last_new"] == 0.5
    assert providers.outcome(Span(10, 20), rows, log[:1])["last_new"] == 0


def test_of_two_in_a_row_the_last_counts():
    rows = served(10, 11, 19) + served(10, 14, 19, door="load-2")
    assert providers.outcome(Span(10, 20), rows, [{"server": "web1", "accepted": 10.5}])["last_new"] == 4


@pytest.mark.parametrize(
    ("provider", "kind", "failed", "right"),
    [
        (HAPROXY, REBOOT, {}, True),
        (HAPROXY, REBOOT, {"kept": 1}, False),
        (NGINX, REBOOT, {"kept": 1}, True),
        (NGINX, REBOOT, {"new": 1}, False),
        (HAPROXY, NO_NOTICE, {"new": 1}, None),
    ],
)
def test_what_must_not_fail(provider, kind, failed, right):
    rows = served(10, 19) + [request(11, "", "no connection", connection) for connection in failed]
    assert providers.is_right(kind, providers.outcome(Span(10, 20, 0), rows, []), provider) is right
    assert providers.is_right(kind, providers.outcome(Span(10, 20, 2), rows, []), provider) is False


def test_a_load_is_read_as_it_grows(tmp_path):
    path = tmp_path / "load.csv"
    path.write_text("start,seconds,outcome,backend,kind,connection\n1.0,0.1,ok,web1,fast,new\n2.0,0.1,o")
    requests = providers.Requests(tmp_path)
    assert [row["start"] for row in requests.read()] == [1.0]
    with path.open("a") as stream:
        stream.write("k,web2,slow,kept\n")
    assert [(row["start"], row["outcome"], row["door"]) for row in requests.read()] == [(1.0, "ok", "load"), (2.0, "ok", "load")]
    requests.close()


def rows_of(provider, kind, **failed):
    span = providers.outcome(Span(10, 20, 0), served(10, 11, 19) + [request(12, "", "no", connection) for connection in failed.get("lost", ())], [])
    control = None if kind.cancelled else providers.outcome(Span(10, 20), served(10, 19) + served(12, outcome="no"), [])
    return {"part": "providers", **providers.row(provider, kind, span, control, 500)}


def test_the_page_has_a_line_for_each_event():
    rows = [{"part": "providers", "figures": {"machine": "2 cores"}}, {"part": "reboot", "what": "other", "ours": "", "ok": False}]
    rows += [rows_of(provider, kind) for provider in PROVIDERS for kind in KINDS]
    text = proven.render(rows)
    assert "The machine: 2 cores." in text and "other" not in text and "not as it should be" not in text
    for provider in PROVIDERS:
        assert f"### {proven.NAMES[provider.name]}, 500 requests/s" in text
    for kind in KINDS:
        assert text.count(f"| {kind.name} | 3 | 0 | 0.0 s | 8.0 s | 1.0 s |") == len(PROVIDERS)
    assert text.count("| nothing happens |") == len(PROVIDERS) and text.count("| 3 | 1 | 0.0 s | 9.0 s |") == 6 * (len(PROVIDERS) - 1)
    assert text.count("| 3 | 1 of new, 0 of kept connections | 0.0 s | 9.0 s |") == 6


def test_what_was_missed_is_shown_and_nginx_tells_its_connections_apart():
    text = proven.render([rows_of(NGINX, REBOOT, lost=("new", "kept")), rows_of(HAPROXY, REBOOT, lost=("kept",))])
    assert "| 1 of new, 1 of kept connections |" in text
    assert "not as it should be" in text and "- haproxy, Reboot: 1 of 4 failed" in text


def test_the_sums_are_those_of_all_events_with_notice():
    rows = [rows_of(provider, kind) for provider in PROVIDERS for kind in KINDS] + [rows_of(NGINX, REBOOT, lost=("new", "kept"))]
    told = [kind for kind in KINDS if kind.name != "no notice"]
    lines = proven.sums(rows).splitlines()
    assert len(lines) == 2 + len(PROVIDERS) and len(told) == len(KINDS) - 1
    (nginx,), (haproxy,) = ([line for line in lines if line.startswith(f"| {name} |")] for name in ("nginx", "HAProxy"))
    with_impact = len([kind for kind in told if not kind.cancelled])
    assert haproxy == f"| HAProxy | {3 * len(told)} | 0 | {with_impact} of {3 * with_impact} | 1.0 to 1.0 s | 0 | 1 |"
    assert nginx.startswith(f"| nginx | {3 * len(told) + 5} | 1 of new, 1 of kept connections |")


def test_it_is_written_between_the_marks():
    page = f"before\n{proven.BEGIN}\nold\n{proven.END}\nafter\n"
    assert proven.written_into(page, "new") == f"before\n{proven.BEGIN}\n\nnew\n\n{proven.END}\nafter\n"
    with pytest.raises(ValueError, match="lacks the marks"):
        proven.written_into("before\n", "new")
    for page in (proven.PAGE, proven.SUMS_PAGE):
        assert proven.BEGIN in page.read_text() and proven.END in page.read_text()


def test_every_provider_has_a_name_on_the_page():
    assert set(proven.NAMES) == {provider.name for provider in PROVIDERS} and all(isinstance(provider, Provider) for provider in PROVIDERS)
