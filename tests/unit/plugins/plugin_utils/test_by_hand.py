# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the playbook holds shows and releases, without any machine."""

from __future__ import annotations

import time

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._by_hand import Options, Target, decide, lines, read_options, read_places, released
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.all_types import TRAFFIC
from ansible_collections.graceful.azure.plugins.plugin_utils._duties.traffic import TrafficDuty
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.places import NextLook

SOCKET = "/run/haproxy/admin.sock"
SILENT = {"reached": False, "error": "No route to host"}


def server(name, *events, path=None, **more):
    """A record of a server that is held."""
    return {
        "kind": "haproxy_server",
        "subject": {"backend": "www", "server": name, "socket": SOCKET, "pid": 1},
        "found": {"admin_state": "ready"},
        "left": {"admin_state": "drain"},
        "events": {event: {} for event in events or ("E1",)},
        "path": path or f"/state/{name}.json",
        **more,
    }


def service(name, *events):
    return {
        "kind": "service",
        "subject": {"name": name},
        "found": {"active": True},
        "left": {"active": False},
        "events": {event: {} for event in events or ("E1",)},
        "path": f"/state/service-{name}.json",
    }


def place_at(machine, socket, server="web1", absent="unknown"):
    # It waits for nothing. So a look at what is silent says so, and is not cut off.
    options = {"socket": socket, "servers": [server], "absent": absent, "addresses": [], "timeout": 0.0}
    return {"machine": machine, "key": f"{machine} {socket}", "provider": "haproxy", "server": server, "module": "haproxy_info", "options": options, "tries": 3}


def look(*holds, machine="lb1", socket=SOCKET, others=(), **more):
    place = place_at(machine, socket)
    return {"reached": True, "holds": list(holds), "other_holds": list(others), "absent": False, "place": place, **more}


def broken(machine="lb1", socket=SOCKET, **more):
    """A look at a balancer that did not come to an end."""
    place = place_at(machine, socket)
    return {"reached": False, "error": "No route to host", "place": place, **more}


def host(*holds, **more):
    return {"reached": True, "holds": list(holds), "events": [{"event_id": "E1", "event_status": "Scheduled"}], **more}


class Site:
    """Targets behind lb1, and what belongs to them."""

    def __init__(self, **seen):
        self.seen = {
            name: Target(of_host, [dict(balancer, place=dict(balancer["place"], server=name)) for balancer in balancers])
            for name, (of_host, balancers) in seen.items()
        }
        self.owned = {"lb1": {"web1", "web2"}, "lb2": set()}
        self.left = False
        self.doubts = []

    def decide(self, **options):
        return decide(Options(**options), self.seen, self.left, lambda machine: self.owned[machine], self.doubts)


class TestOptions:
    def test_nothing_is_asked_for(self):
        assert read_options({}) == (Options(), [])

    @pytest.mark.parametrize("value", [True, "true", "yes", 1, "1", "on"])
    def test_switches(self, value):
        options, mistakes = read_options({"holds_release": value, "holds_gone": value, "holds_repair": value})
        assert mistakes == [] and options == Options(release=True, gone=True, repair=True)

    @pytest.mark.parametrize("name", ["holds_release", "holds_gone", "holds_repair"])
    @pytest.mark.parametrize("value", ["maybe", "", None, [], 2])
    def test_what_is_neither_true_nor_false(self, name, value):
        options, mistakes = read_options({name: value})
        assert options is None and mistakes == [f"{name}: {value!r} is neither true nor false. Nothing is released."]

    @pytest.mark.parametrize(("name", "option"), [("holds_event_ids", "event_ids"), ("holds_servers", "servers")])
    @pytest.mark.parametrize(("value", "names"), [("a, B,", ["a", "B"]), (["a", " B "], ["a", "B"]), ([5], ["5"])])
    def test_lists(self, name, option, value, names):
        assert read_options({name: value}) == (Options(**{option: names}), [])

    @pytest.mark.parametrize(("name", "noun"), [("holds_event_ids", "event"), ("holds_servers", "server")])
    @pytest.mark.parametrize("value", ["", None, [], ",", [""], " "])
    def test_an_empty_list_is_not_everything(self, name, noun, value):
        options, mistakes = read_options({name: value})
        assert options is None and mistakes == [f"{name} is empty. Name at least one {noun}, or leave it out for all. Nothing is released."]

    @pytest.mark.parametrize("value", [True, 5, {"a": 1}, [["a"]], [None]])
    def test_what_is_no_list(self, value):
        options, mistakes = read_options({"holds_event_ids": value})
        assert options is None and mistakes == [f"holds_event_ids: {value!r} is no list of names. Nothing is released."]

    def test_every_mistake_is_told(self):
        _options, mistakes = read_options({"holds_relase": True, "holds_gone": "x", "holds_servers": ""})
        assert len(mistakes) == 3 and mistakes[0] == (
            "holds has no option holds_relase. It has holds_release, holds_event_ids, holds_gone, holds_repair, holds_servers, holds_json. Nothing is released."
        )


def places_of(*duties):
    return read_places("web1", {"graceful_azure_duties": list(duties)})


class TestTarget:
    def test_behind_haproxy(self):
        places, mistakes = places_of({"type": "haproxy", "hosts": ["lb 1", "lb2"], "server": "one"})
        assert mistakes == [] and places == [place_at(name, SOCKET, "one") for name in ("lb 1", "lb2")]

    def test_of_its_duties(self):
        edge = {"type": "haproxy", "hosts": ["edge"], "server": "shop", "socket": "/s"}
        duties = ["app", edge, {"type": "tasks", "out": "x"}, 7, {"type": "haproxy", "hosts": ["lb1"]}, {"type": ["haproxy"]}]
        places, mistakes = places_of(*duties)
        found = [(place["machine"], place["server"], place["options"]["socket"]) for place in places]
        assert mistakes == [] and found == [("edge", "shop", "/s"), ("lb1", "web1", SOCKET)]
        assert places_of() == ([], [])

    def test_an_empty_text_is_not_set(self):
        places, mistakes = places_of({"type": "haproxy", "hosts": ["lb1"], "server": "", "socket": "", "absent": ""})
        assert mistakes == [] and places == [place_at("lb1", SOCKET)]

    def test_what_is_set(self):
        places, _mistakes = places_of({"type": "haproxy", "hosts": ["lb1"], "socket": "/s", "absent": "no_traffic", "server": 5})
        assert places == [place_at("lb1", "/s", "5", "no_traffic")]

    @pytest.mark.parametrize(
        ("duties", "said"),
        [
            ("lb1", "graceful_azure_duties: 'lb1' is not a list"),
            ([{"type": "haproxy", "hosts": "lb1"}], "graceful_azure_duties[0].hosts: 'lb1' is a text; it must be a list"),
            ([{"type": "haproxy", "hosts": {"lb1": {}}}], "graceful_azure_duties[0].hosts: {'lb1': {}} cannot be read as a list"),
        ],
    )
    def test_what_is_no_list(self, duties, said):
        places, (mistake,) = read_places("web1", {"graceful_azure_duties": duties})
        assert places == [] and mistake.startswith(f"web1: {said}")

    @pytest.mark.parametrize("kind", ["tasks", "service", "f5", "", None, ["haproxy"], {}])
    def test_behind_anything_else(self, kind):
        assert places_of({"type": kind, "hosts": "lb1"}) == ([], [])

    @pytest.mark.parametrize(
        ("entry", "said"),
        [
            ({"type": "haproxy", "backends": 5}, "backends: 5 is a single value; it must be a list"),
            ({"type": "nginx", "files": 5}, "files: 5 is a single value; it must be a list"),
            ({"type": "haproxy", "absent": "no-traffic"}, "absent: 'no-traffic' is none of unknown, no_traffic; did you mean no_traffic?"),
        ],
    )
    def test_a_mistake_in_an_entry_does_not_hide_where_it_is(self, entry, said):
        places, mistakes = places_of({"hosts": ["lb1"], **entry})
        assert mistakes == [f"web1: graceful_azure_duties[0].{said}"] and [(place["machine"], place["server"]) for place in places] == [("lb1", "web1")]


class TestShown:
    def test_what_is_held_for_each_host(self):
        balancer = look(server("web2"), server("spare", for_server="web1"), server("web1"))
        outcome = Site(web1=(host(service("shop")), [balancer]), web2=(host(), [balancer])).decide()
        told = {name: [record["held"] for record in of_host["shown"]] for name, of_host in outcome["hosts"].items()}
        assert told == {
            "web1": ["service shop", "haproxy_server www/web1", "haproxy_server www/spare (together with web1)"],
            "web2": ["haproxy_server www/web2"],
        }
        assert outcome["hosts"]["web1"]["shown"][1] == {
            "held": "haproxy_server www/web1",
            "socket": SOCKET,
            "machine": "lb1",
            "found": {"admin_state": "ready"},
            "left": {"admin_state": "drain"},
            "for_events": {"E1": {}},
            "record": "/state/web1.json",
        }
        assert outcome["hosts"]["web1"]["shown"][0]["socket"] == "none"
        assert outcome["strays"] == outcome["unclaimed"] == outcome["mistakes"] == []

    def test_a_line_of_nginx(self):
        """Its file is called a file, and Ansible shows the text as JSON, which doubles each backslash."""
        line = "server\t10.0.0.4:80\n  max_fails=2;\x1b\u202e"
        record = {
            "kind": "nginx_server",
            "subject": {"context": "http", "upstream": "www", "server": "10.0.0.4:80", "file": "/etc/nginx/conf.d/www.conf"},
            "found": {"line": line},
            "left": {"line": "server 10.0.0.4:80 down;"},
            "events": {"E1": {}},
            "path": "/state/www.json",
        }
        balancer = look(record)
        balancer["place"] = dict(balancer["place"], provider="nginx")
        ((shown,),) = [of_host["shown"] or outcome["strays"] for outcome in [Site(web1=(host(), [balancer])).decide()] for of_host in outcome["hosts"].values()]
        assert shown.pop("balancer", None) in (None, "lb1, held for no host of the inventory")
        shown = {key: value for key, value in shown.items() if key not in ("server", "target")}
        assert shown == {
            "held": "nginx_server www/10.0.0.4:80 (http)",
            "file": "/etc/nginx/conf.d/www.conf",
            "machine": "lb1",
            "found": {"line": "server 10.0.0.4:80   max_fails=2;<U+001B><U+202E>"},
            "left": {"line": "server 10.0.0.4:80 down;"},
            "for_events": {"E1": {}},
            "record": "/state/www.json",
        }

    def test_a_server_that_is_held_for_itself_is_shown_once(self):
        outcome = Site(web1=(host(), [look(server("web1", for_server="web1"))])).decide()
        assert len(outcome["hosts"]["web1"]["shown"]) == 1

    def test_no_text_forges_a_line(self):
        forged = server("web1", "E1\nweb2 is free", path="/state/\u202e.json")
        forged["events"]["E1\nweb2 is free"] = {"description": "\x1b[2J"}
        outcome = Site(web1=(host(fatal="a\u2028b"), [look(forged), broken(error="c\nd")])).decide()
        (shown,) = outcome["hosts"]["web1"]["shown"]
        assert shown["for_events"] == {"E1 web2 is free": {"description": "<U+001B>[2J"}} and shown["record"] == "/state/<U+202E>.json"
        assert [machine["why"] for machine in outcome["hosts"]["web1"]["unread"]] == ["a\\u2028b", "c\\nd"]

    @pytest.mark.parametrize(
        ("seen", "nothing", "unread"),
        [
            ((host(), [look()]), True, []),
            ((host(), []), True, []),
            # The metadata service is silent; what is held was read.
            ((host(error="no answer"), []), True, [("web1", "no answer")]),
            ((host(service("shop")), []), False, []),
            ((host(), [look(server("web1"))]), False, []),
            ((SILENT, [look()]), False, [("web1", "No route to host")]),
            ((host(fatal="a record", holds=None, error="no answer"), []), False, [("web1", "a record")]),
            ((host(), [look(), broken("lb2")]), False, [(f"lb2 {SOCKET}", "No route to host")]),
            ((host(), [look(fatal="no level")]), False, [(f"lb1 {SOCKET}", "no level")]),
            ((host(), [look(absent=True, error="no HAProxy runs there")]), False, [(f"lb1 {SOCKET}", "no HAProxy runs there")]),
        ],
    )
    def test_nothing_is_held_only_where_all_was_read(self, seen, nothing, unread):
        of_host = Site(web1=seen).decide()["hosts"]["web1"]
        assert of_host["nothing"] == nothing and [(machine["label"], machine["why"]) for machine in of_host["unread"]] == unread


class TestLines:
    COMMAND = "ansible-playbook graceful.azure.holds"
    RUN = "ansible-playbook graceful.azure.handle_events -e target=web"
    WAYS = (
        f"    To go on with the event, and give it back when that is over, run: {RUN}",
        f"    To give it back now, whatever the event does, stop what starts runs, then: {COMMAND} -e target=web1 -e holds_release=true",
    )
    NOW = 1764140830.0  # 2025-11-26 07:07:10 UTC

    def said(self, site, **options):
        return list(lines(Options(**options), site.decide(**options), self.COMMAND, self.RUN, self.NOW))

    @pytest.fixture(autouse=True)
    def in_utc(self, monkeypatch):
        monkeypatch.setenv("TZ", "UTC")
        time.tzset()
        yield
        monkeypatch.undo()
        time.tzset()

    def held(self, name="web1", **more):
        told = {"since": "2025-11-26T07:00:00Z", "reason": "Reboot E1", "details": {"event_type": "Reboot"}}
        return dict(server(name, **more), events={"E1": told})

    def test_what_where_since_when_for_which_event_and_what_to_type(self):
        site = Site(web1=(host(service("shop")), [look(self.held())]), web2=(host(), [look()]))
        assert self.said(site) == [
            "web1: service shop on web1: was set to false (before: true), for E1",
            f"web1: HAProxy server www/web1 on lb1 ({SOCKET}): was set to drain (before: ready), for Reboot E1 since 07:00:00 UTC",
            *self.WAYS,
            "Nothing is held for web2.",
        ]

    @pytest.mark.parametrize(
        ("events", "approved", "why"),
        [
            ([{"event_id": "e1", "event_status": "Started"}], False, " has started: the impact may come at any time, so leave the host out."),
            ([{"event_id": "e1", "event_status": "Scheduled"}], True, " was approved: the impact may come at any time, so leave the host out."),
            ([{"event_id": "e1", "event_status": "Scheduled"}], False, None),
            ([], True, " is no longer shown by its metadata service."),
            # That service does not answer.
            (None, True, " was approved: the impact may come at any time, so leave the host out."),
            (None, False, " may have started: the impact may come at any time, so leave the host out."),
        ],
    )
    def test_whoever_gives_back_hears_whether_the_impact_may_come(self, events, approved, why):
        told = self.held()["events"]
        note = dict(service("shop"), kind="task", subject={"name": "approved"}, found={}, left={}, events=told)
        of_host = host(*([note] if approved else []), events=events)
        said = self.said(Site(web1=(of_host, [look(self.held())])))
        assert [line for line in said if line.startswith("    Reboot")] == ([f"    Reboot E1{why}"] if why else [])
        is_coming = bool(why) and "impact" in why
        now, only = "To give it back now, whatever the event does", "Only if you know that the impact is over"
        run = f"    To give it back, run: {self.RUN}" if events == [] else self.WAYS[0]
        assert tuple(said[-2:]) == (run, self.WAYS[1].replace(now, only) if is_coming else self.WAYS[1])

    def test_an_empty_body_tells_nobody_that_the_event_is_over(self):
        said = self.said(Site(web1=(host(events=[], empty_body=True), [look(self.held())])))
        assert said[-3:-1] == ["    Reboot E1 may have started: the impact may come at any time, so leave the host out.", self.WAYS[0]]

    def test_what_somebody_else_has_changed(self):
        seen = {"backend": "www", "server": "web1", "condition": "changed_meanwhile", "admin_state": "maint"}
        said = self.said(Site(web1=(host(), [look(self.held(), servers=[seen])])))
        assert said[1:] == [
            "    Somebody else changed it: expected drain, found maint. Nothing changes it as long as that is so.",
            "    There are two ways on. Let it be put back: set it to drain again. The next run does the rest.",
            f"    Or keep it as it is, and give back all else that is held for web1: {self.COMMAND} -e target=web1 -e holds_release=true",
        ]
        assert len(self.said(Site(web1=(host(), [look(self.held(), servers=[dict(seen, condition="held")])])))) == 3
        # One command does both, so it is told once.
        both = self.said(Site(web1=(host(service("shop")), [look(self.held(), servers=[seen])])))
        assert len([line for line in both if "holds_release=true" in line]) == 1
        other = self.held(subject={"backend": "api", "server": "web1", "socket": SOCKET, "pid": 1})
        both = self.said(Site(web1=(host(), [look(self.held(), other, servers=[seen, dict(seen, backend="api")])])))
        assert len([line for line in both if "Somebody else" in line]) == 2
        assert both[-2:] == [
            "    There are two ways on. Let them be put back: set each to what was expected again. The next run does the rest.",
            f"    Or keep them as they are, and give back all else that is held for web1: {self.COMMAND} -e target=web1 -e holds_release=true",
        ]

    def test_a_balancer_that_cannot_be_read_is_told_once_for_all_its_hosts(self):
        site = Site(web1=(host(), [broken(error="refused")]), web2=(host(), [broken(error="refused")]))
        assert len([line for line in self.said(site) if "could not be read" in line]) == 1

    def test_notes_share_a_line_which_says_that_there_is_nothing_to_put_back(self):
        notes = [dict(service("shop"), kind="task", subject={"name": name}, found={}, left={}) for name in ("approved", "drained")]
        line = "web1: records with nothing to put back: approved, drained, for E1. A run deletes them once the event is over and the host is back"
        assert self.said(Site(web1=(host(*notes), []))) == [line]
        both = self.said(Site(web1=(host(*notes, service("shop"), events=[]), [])))
        said = ["web1: service shop on web1: was set to false (before: true)", "web1: records with nothing to put back: approved"]
        assert [text.partition(",")[0] for text in both[:2]] == said
        assert both[2:4] == ["    E1 is no longer shown by its metadata service.", f"    To give it back, run: {self.RUN}"] and both[4] == self.WAYS[1]
        mine = self.said(Site(web1=(host(dict(notes[0], subject={"name": "cdn"})), [])))
        assert mine[0] == "web1: note cdn on web1: for E1" and "holds_release=true" in mine[2]

    def test_a_health_answer(self):
        record = dict(service("shop"), kind="health_probe", subject={"action": "file", "on": "/run/out"}, found={"state": "passing"}, left={"state": "failing"})
        assert self.said(Site(web1=(host(record), [])))[0].startswith("web1: health answer file /run/out on web1: was set to failing (before: passing), for ")

    def test_what_belongs_to_no_host_and_what_was_not_looked_at(self):
        said = self.said(Site(web1=(host(), [look(server("web4"), others=[server("y")])])))
        assert said[1].startswith("No host of the inventory: HAProxy server www/web4 on lb1 ")
        assert said[2] == f"    To give it back: {self.COMMAND} -e target=web1 -e holds_release=true -e holds_servers=web4"
        assert said[3].startswith("Not looked at: HAProxy server www/y on lb1 ") and said[4].endswith("The record: /state/y.json")

    def test_what_could_not_be_read(self):
        assert self.said(Site(web1=(SILENT, []))) == ["web1 could not be read: No route to host", "    What is held there is not known. Run it again."]

    @pytest.mark.parametrize("standing", [True, False])
    def test_after_the_release(self, standing):
        events = [{"event_id": "e1"}] if standing else []
        decided = Site(web1=(host(events=events), [look(self.held())])).decide(release=True)
        said = list(released("web1", decided["hosts"]["web1"], [], False))
        assert said[0] == "web1: released and put back as it was found: HAProxy server www/web1 on lb1."
        assert [line.partition(". ")[0] for line in said[1:]] == (["web1: Reboot E1 still names it"] if standing else [])
        said = list(released("web1", decided["hosts"]["web1"], ["it was left alone"], True))
        assert said[:2] == ["web1: would be released, with its record deleted: HAProxy server www/web1 on lb1.", "web1: it was left alone"]

    def test_after_a_release_for_one_of_two_events(self):
        record = self.held()
        record["events"]["E2"] = dict(record["events"]["E1"], reason="Reboot E2")
        events = [{"event_id": "e1"}, {"event_id": "e2"}]
        decided = Site(web1=(host(events=events), [look(record)])).decide(release=True, event_ids=["e1"])
        said = list(released("web1", decided["hosts"]["web1"], [], False, ["e1"]))
        assert said[0] == "web1: stays held: HAProxy server www/web1 on lb1 for Reboot E2."
        assert [line.partition(". ")[0] for line in said[1:]] == ["web1: Reboot E1 still names it"]


class TestRecordsOfNobody:
    def test_once_for_each_balancer(self):
        one, two = look(server("web4"), server("web1")), look(server("web4"), machine="lb2")
        outcome = Site(web1=(host(), [one, two]), web2=(host(), [one, two])).decide()
        assert [(record["held"], record["balancer"]) for record in outcome["strays"]] == [
            ("haproxy_server www/web4", "lb1, held for no host of the inventory"),
            ("haproxy_server www/web4", "lb2, held for no host of the inventory"),
        ]

    def test_two_sockets_of_one_haproxy_show_it_once(self):
        outcome = Site(web1=(host(), [look(server("web4"))]), web2=(host(), [look(server("web4"), socket="/other.sock")])).decide()
        assert len(outcome["strays"]) == 1

    def test_what_was_taken_out_together_belongs_to_the_same(self):
        outcome = Site(web1=(host(), [look(server("spare", for_server="web2"), server("web2", for_server="web4"))])).decide()
        assert [record["held"] for record in outcome["strays"]] == ["haproxy_server www/web2 (together with web4)"]

    def test_a_haproxy_that_was_not_looked_at(self):
        # What one socket does not claim, another socket on that machine does.
        first = look(server("web1"), others=[server("x"), server("y")])
        second = look(server("x"), socket="/other.sock", others=[server("web1"), server("y")])
        outcome = Site(web1=(host(), [first]), web2=(host(), [second])).decide()
        (record,) = outcome["unclaimed"]
        assert record["held"] == "haproxy_server www/y" and record["note"].startswith("It lies on lb1 and belongs to none of the HAProxy sockets that were")
        assert [stray["held"] for stray in outcome["strays"]] == ["haproxy_server www/x"]

    def test_a_haproxy_that_did_not_answer_for_one_target_and_did_for_another(self):
        records = [server("web1"), server("web4")]
        outcome = Site(web1=(host(), [broken(other_holds=records)]), web2=(host(), [look(*records)])).decide()
        assert outcome["unclaimed"] == [] and [record["held"] for record in outcome["strays"]] == ["haproxy_server www/web4"]

    def test_a_haproxy_that_is_gone(self):
        outcome = Site(web1=(host(), [broken(other_holds=[server("web1")])])).decide()
        assert [record["held"] for record in outcome["unclaimed"]] == ["haproxy_server www/web1"]


class TestRelease:
    def site(self, **seen):
        balancer = look(server("web1"), server("web2", "E2"), server("web4", "E4"))
        return Site(**{"web1": (host(), [balancer]), "web2": (host(service("shop", "E3")), [balancer]), **seen})

    def released(self, outcome):
        return {name: of_host["release"] for name, of_host in outcome["hosts"].items() if of_host["release"]}

    def test_nothing_unless_it_is_asked_for(self):
        for options in ({}, {"gone": True}, {"event_ids": ["typo"]}, {"servers": ["web4"]}):
            outcome = self.site().decide(**options)
            assert self.released(outcome) == {} and outcome["mistakes"] == []
            assert all(of_host["give_back"] == [] and of_host["refused"] == "" for of_host in outcome["hosts"].values())

    def test_everything_of_the_targets(self):
        outcome = self.site().decide(release=True)
        assert self.released(outcome) == {"web1": "everything", "web2": "everything"} and outcome["hosts"]["web1"]["give_back"] == []

    def test_a_silent_host_is_not_taken_for_gone(self):
        outcome = self.site(web1=(SILENT, [])).decide(release=True)
        assert self.released(outcome) == {"web2": "everything"} and outcome["hosts"]["web1"]["refused"] == (
            "web1 cannot be reached (No route to host): nothing is released. If it is gone for good, holds_gone: true gives back its servers"
            " on the balancers and leaves the host itself alone"
        )
        outcome = self.site(web1=(SILENT, [])).decide(release=True, gone=True)
        assert self.released(outcome) == {"web1": "servers", "web2": "everything"} and outcome["hosts"]["web1"]["refused"] == ""

    def test_a_host_that_answers_is_not_called_out_of_reach(self):
        slow = {"reached": False, "cut_off": 5.0, "error": "the machine is reached, but did not finish its answer within 5 s"}
        refused = self.site(web1=(slow, [])).decide(release=True)["hosts"]["web1"]["refused"]
        assert refused == (
            "web1 is slow: the machine is reached, but did not finish its answer within 5 s. Run it again, or set handle_events_observe_timeout, such as to 30."
            " Nothing is released."
        )

    def test_records_of_another_host_are_not_released(self):
        others = {"reached": True, "of_others": True, "fatal": "its folder has records of app1", "holds": None}
        outcome = self.site(web1=(others, [])).decide(release=True)
        assert self.released(outcome) == {"web2": "everything"}
        assert outcome["hosts"]["web1"]["refused"] == "web1: its folder has records of app1. Nothing is released"

    def test_servers_of_nobody_and_nothing_else(self):
        outcome = self.site(web2=(SILENT, [])).decide(release=True, servers=["web4"], event_ids=["E4"])
        assert outcome["mistakes"] == [] and self.released(outcome) == {} and outcome["hosts"]["web2"]["refused"] == ""
        options = {"server": "web4", "backends": ["www"], "socket": SOCKET, "absent": "unknown", "state": "absent", "await_checks": False}
        back = {"machine": "lb1", "module": "haproxy_hold", "options": {**options, "event_ids": ["E4"]}, "path": "/state/web4.json"}
        assert [of_host["give_back"] for of_host in outcome["hosts"].values()] == [[back], []]

    @pytest.mark.parametrize("release", [True, False])
    def test_servers_that_are_not_held_or_belong_to_a_host(self, release):
        outcome = self.site().decide(release=release, servers=["web4", "web9", "web1"])
        assert outcome["mistakes"] == [
            "holds_servers names 'web9': no record on the balancers of the targets names it. Nothing is released.",
            "holds_servers names 'web1': it belongs to a host of the inventory, give that host as target. Nothing is released.",
        ]
        assert self.released(outcome) == {} and outcome["hosts"]["web1"]["give_back"] == []

    def test_nobody_knows_whose_server_it_is(self):
        site = self.site()
        site.doubts = ["web9: graceful_azure_duties: '{{ x }}' cannot be resolved: 'x' is undefined"]
        assert site.decide(release=True)["mistakes"] == []
        outcome = site.decide(release=True, servers=["web4"])
        assert outcome["mistakes"] == [f"{site.doubts[0]}. It may own what holds_servers names. Nothing is released."]
        assert outcome["hosts"]["web1"]["give_back"] == []


class TestEventsForWhichNothingIsHeld:
    def said(self, event_ids=("e1", "Typo"), left=False, seen=None, **options):
        site = Site(web1=(host(service("shop", "E1")), [look()]), web2=seen or (host(), []))
        site.left = left
        outcome = site.decide(release=True, event_ids=list(event_ids), **options)
        assert not outcome["mistakes"] or all(of_host["release"] == "" for of_host in outcome["hosts"].values())
        return outcome["mistakes"]

    def test_they_are_refused(self):
        assert self.said() == ["holds_event_ids names Typo, for which nothing is held. Nothing is released."]
        assert self.said(["E1"]) == []

    @pytest.mark.parametrize(
        "seen",
        [
            (host(service("x", "TYPO")), []),
            (host(), [look(server("z", "typo"), machine="lb2")]),
            (host(), [look(others=[server("z", "typo")], machine="lb2")]),
        ],
    )
    def test_any_machine_may_have_it(self, seen):
        assert self.said(seen=seen) == []

    def test_a_machine_that_cannot_be_read_may_have_it(self):
        for seen in [
            (SILENT, []),
            (host(fatal="a record", holds=None), []),
            (host(), [broken("lb2")]),
            (host(), [broken("lb2", fatal="no socket", other_holds=[])]),
            (host(), [look(fatal="no level")]),
        ]:
            assert self.said(seen=seen) == [], seen
        assert self.said(left=True) == []

    def test_a_machine_that_is_gone_for_good_has_nothing(self):
        assert self.said(seen=(SILENT, []), gone=True) != []
        # A HAProxy that does not run sends nobody anywhere, and its records were read.
        assert self.said(seen=(host(), [look(absent=True, error="no HAProxy runs there")])) != []


class Gates(TrafficDuty):
    """A made-up balancer: a park with a gate for each host, which one porter keeps."""

    name = "gates"
    has_records_elsewhere = True
    unclaimed = "nobody keeps it."

    def looks(self, settings, waits, searched):
        return [NextLook("the porter", "lb1", "gates_info", {"gates": [values["server"] for _name, values in settings]})]

    def names(self, record):
        return record["subject"]["gate"], record["subject"]["gate"]

    def give_back(self, record, options):
        return "gates_hold", {"gate": record["subject"]["gate"], "state": "absent"}


class TestAMadeUpProvider:
    @pytest.fixture(autouse=True)
    def register(self, monkeypatch):
        monkeypatch.setitem(TRAFFIC, "gates", Gates())

    def gate(self, name):
        return dict(service("x"), kind="gate", subject={"gate": name}, path=f"/state/gate-{name}.json")

    def test_its_holds_are_shown_and_released(self):
        places, mistakes = read_places("web1", {"graceful_azure_duties": [{"type": "gates"}]})
        wanted = {"provider": "gates", "server": "web1", "machine": "lb1", "key": "the porter", "module": "gates_info", "tries": 3}
        wanted["options"] = {"gates": ["web1"], "timeout": 0.0}
        assert (places, mistakes) == ([wanted], [])
        seen = {"reached": True, "holds": [self.gate("web1"), self.gate("web4")], "other_holds": [self.gate("web7")], "place": places[0]}
        outcome = Site(web1=(host(), [seen])).decide(release=True, servers=["web4"])
        assert [(record["held"], record["socket"]) for record in outcome["hosts"]["web1"]["shown"]] == [("gate web1", "none")]
        assert [record["held"] for record in outcome["strays"]] == ["gate web4"]
        assert [record["note"] for record in outcome["unclaimed"]] == ["It lies on lb1 and nobody keeps it."]
        (back,) = outcome["hosts"]["web1"]["give_back"]
        assert back == {"machine": "lb1", "module": "gates_hold", "options": {"gate": "web4", "state": "absent"}, "path": "/state/gate-web4.json"}
