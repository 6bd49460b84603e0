# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a step does without its role: which modules run where, which of them are due, and what their results mean."""

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._duties.both_sides.tasks import FORMER_RECORD
from ansible_collections.graceful.azure.plugins.plugin_utils._own_files import args_of, file_due, result_of
from ansible_collections.graceful.azure.plugins.plugin_utils._planning.acts import needs_files
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.without_role import UNFINISHED, is_due, judge

from tests.support.model import SOCKET, Model, service, tasks

BACK = {"servers": [{"backend": "www", "server": "web1", "admin_state": "ready", "held_by": []}], "conflicts": [], "waiting_for": []}
OUT = {"servers": [{"backend": "www", "server": "web1", "admin_state": "drain", "held_by": ["e1"]}], "conflicts": [], "refused": [], "waiting_for": []}


@pytest.fixture(name="model")
def make_model():
    model = Model(balancers=("lb1", "lb2"), restore_service={"timeout": 300.0, "ask": {"url": "http://localhost/"}})
    model.run.update(forks=5, sleep=1.0)
    return model


def acts(model, name="web1"):
    """What a host does in the next pass: the machine, the part and the options of each act."""
    return [(turn.get("machine"), act["part"], act["args"]) for turn in model.outcome["turns"][name] for act in turn.get("acts", ())]


def parts(model, name="web1"):
    return [(machine, part) for machine, part, _args in acts(model, name)]


def due(part, model, before):
    """Whether an act is due, the one at the first of the balancers among them."""
    return is_due({"part": part, "balancer": 0, "args": {"state": "absent"}}, "web1", model.settings["web1"]["load_balancers"], before)


class TestWhatIsDone:
    def test_it_goes_out_on_every_balancer(self, model):
        model.announce("e1", "web1")
        model.go()
        assert parts(model) == [("lb1", "balancer"), ("lb2", "balancer")]
        args = acts(model)[0][2]
        assert args["state"] == "present" and args["event_ids"] == ["e1"] and args["reason"] == "Reboot e1" and "e1" in args["event_details"]
        assert (args["server"], args["socket"], args["min_in_service"], args["timeout"]) == ("web1", SOCKET, 1, 0)
        assert "backends" not in args and "out_state" not in args and "addresses" not in args, "what is not set is the module's own default"

    def test_it_is_looked_at_after_that_and_no_other_look_delays_it(self, model):
        model.announce("e1", "web1")
        model.go()
        turns = model.outcome["turns"]["web1"]
        found = [("acts" in turn, turn.get("machine"), turn["options"]["timeout"]) for turn in turns]
        assert found == [(True, "lb1", 0.0), (True, "lb2", 0.0), (False, None, 5.0)]

    def test_the_services_stop_and_that_is_recorded(self, model):
        model.settings["web1"]["drain_host"]["steps"] = [service("shop")]
        model.announce("e1", "web1")
        model.until(lambda outcome: (outcome["hosts"]["web1"]["step"] or {}).get("role") == "drain_host")
        assert parts(model) == [(None, "steps"), (None, "drained")]
        assert acts(model)[0][2]["services"] == ["shop"] and acts(model)[1][2]["name"] == ["drained"] and acts(model)[1][2]["done"] is True

    def test_the_approval(self, model):
        model.announce("e1", "web1")
        model.until(lambda outcome: (outcome["hosts"]["web1"]["step"] or {}).get("role") == "approve_event")
        ((machine, part, args),) = acts(model)
        assert (machine, part, args["event_ids"], args["ready_resources"]) == (None, "sent", ["e1"], ["vm_web1"])
        assert args["timeout"] == 5.0 and args["ready_until"] > model.now and args["resource_name"] == "vm_web1"

    def restored(self, model):
        model.announce("e1", "web1")
        model.until(lambda outcome: model.posted)
        model.start("e1")
        model.go()
        model.over("e1")
        model.until(lambda outcome: (outcome["hosts"]["web1"]["step"] or {}).get("role") == "restore_service")

    def test_the_way_back(self, model):
        self.restored(model)
        assert parts(model) == [(None, "answer"), ("lb1", "balancer"), ("lb2", "balancer"), (None, "forgotten"), (None, "restoring")]
        answer, balancer, _other, forgotten, restoring = (args for _machine, _part, args in acts(model))
        assert answer == {"url": "http://localhost/"} and balancer["state"] == "absent" and "reason" not in balancer
        assert forgotten["name"] == ["approved"] and restoring["name"] == ["restoring"] and restoring["state"] == "present"
        names = [turn["name"] for turn in model.outcome["turns"]["web1"] if "acts" in turn]
        assert names == ["ask whether web1 answers", "put web1 back on lb1", "put web1 back on lb2", "update the records on web1"]

    @pytest.mark.parametrize("balancers", [("lb1", "lb2"), ("lb 1", "lb 2")])
    def test_each_balancer_is_looked_at_after_its_act_and_by_nobody_else(self, model, balancers):
        run, restore = model.run, model.settings["web1"]["restore_service"]
        model = Model(balancers=balancers, restore_service=restore)
        model.run.update(run)
        self.restored(model)
        looks = [(turn["key"], "acts" in turn) for turns in model.outcome["turns"].values() for turn in turns if "options" in turn and "machine" in turn]
        assert looks == [(f"{name} {SOCKET}", True) for name in balancers]

    def test_what_the_look_has_asked_is_not_asked_again(self, model):
        look = model.observe_host
        model.observe_host = lambda name: dict(look(name), unanswered=None)
        self.restored(model)
        assert "answer" not in [part for _machine, part in parts(model)]

    def test_what_has_to_be_started_is_asked_afterwards(self, model):
        model.settings["web1"]["drain_host"]["steps"] = [service("shop")]
        look = model.observe_host
        model.observe_host = lambda name: dict(look(name), unanswered=None)
        self.restored(model)
        assert parts(model)[:2] == [(None, "steps"), (None, "answer")]

    def test_nothing_in_check_mode(self, model):
        model.run["check"] = True
        model.announce("e1", "web1")
        outcome = model.go()
        assert outcome["hosts"]["web1"]["step"]["role"] == "load_balancer" and acts(model) == []


def done(part, item=None, **result):
    return dict(result, part=part, **({"item": item} if item else {}))


OUT_FILE, BACK_FILE = {"record": "queue", "path": "/out.yml"}, {"record": "queue", "path": "/in.yml"}
QUEUE = tasks("queue", **{"in": "/in.yml"})


class TestTaskFiles:
    """The record is put, the pass runs the file, and the next pass records that it is done. Until then nothing comes that stands later."""

    @pytest.fixture(name="step")
    def make_step(self):
        return {"event_ids": ["e1"], "event_details": {"e1": {}}, "reason": "Reboot e1"}

    def test_out(self, model):
        assert not needs_files(model.settings)
        model.settings["web1"]["drain_host"]["steps"] = [QUEUE, service("shop")]
        assert needs_files(model.settings)
        model.announce("e1", "web1")
        model.until(lambda outcome: (outcome["hosts"]["web1"]["step"] or {}).get("idle"))
        (act, shop, drained) = [act for turn in model.outcome["turns"]["web1"] for act in turn.get("acts", ())]
        assert (act["part"], act["module"], act["args"]["name"], act["args"]["this_boot"]) == ("steps", "task_hold", ["queue"], True)
        assert act["file"] == OUT_FILE and "done" not in act["args"] and shop["args"]["services"] == ["shop"] and drained["part"] == "drained"

    @pytest.mark.parametrize(
        ("given", "file", "wanted"),
        [
            # The record as it was found, the file that ran and said it is done, and whether the act is done.
            ({"done": False}, None, False),
            ({"done": False}, "other", False),
            ({"done": True}, None, True),
            ({"done": True}, "queue", True),
        ],
    )
    def test_what_an_act_that_goes_out_comes_to(self, given, file, wanted):
        act = {"part": "steps", "args": {"state": "present", "name": ["queue"]}, "file": OUT_FILE}
        assert args_of(act, file) == dict(act["args"], **({"done": True} if file == "queue" else {}))
        result = result_of(act, dict(given), file)
        assert result["done"] is wanted and (file_due([result]) == (None if wanted else OUT_FILE))
        assert wanted or result["waiting_for"] == "/out.yml has not set graceful_azure_done"

    @pytest.mark.parametrize(("last", "file", "wanted"), [(True, None, False), (True, "queue", True), (False, None, True)])
    def test_what_an_act_that_comes_back_comes_to(self, last, file, wanted):
        act = {"part": "steps", "args": {"state": "absent", "name": ["queue"]}, "file": BACK_FILE}
        done = {"state": "absent", "name": ["drained", "queue"], "done": True}
        assert args_of(act, file) == (done if file else {"state": "absent", "name": ["queue"], "done": False})
        result = result_of(act, {"done": False, "last": last}, file)
        assert result["done"] is wanted and (file_due([result]) == (None if wanted else BACK_FILE))

    @pytest.mark.parametrize("trouble", ["failed", "unreachable"])
    def test_no_file_runs_where_its_record_could_not_be_put(self, trouble):
        act = {"part": "steps", "args": {"state": "present", "name": ["queue"]}, "file": OUT_FILE}
        assert file_due([result_of(act, {trouble: True}, None)]) is None

    def test_it_runs_once_for_each_pass_in_which_the_step_is_taken(self, model):
        model.settings["web1"]["drain_host"]["steps"] = [QUEUE]
        model.announce("e1", "web1")
        model.until(lambda outcome: (outcome["hosts"]["web1"]["step"] or {}).get("role") == "drain_host")
        assert model.outcome["files"] == {}, "its record is not there yet"
        for _pass in range(2):
            model.hosts["web1"]["tasks"].pop("queue", None)
            model.hosts["web1"]["tasks"].pop("drained", None)
            model.results["web1"]["drain_host"] = {"done": False, "file": OUT_FILE}
            model.go()
            assert model.outcome["files"] == {"web1": dict(OUT_FILE, event_ids=["e1"])}
        model.over("e1")
        model.results["web1"]["drain_host"] = {"done": False, "file": OUT_FILE}
        assert model.go()["files"] == {}, "the step is not taken any more"

    def test_back_in_reverse_order(self, model):
        outer = tasks("first_file", first=True, **{"in": "/first.yml"})
        model.settings["web1"]["drain_host"]["steps"] = [outer, QUEUE, service("shop")]
        model.announce("e1", "web1")
        model.until(lambda outcome: model.posted)
        model.start("e1")
        model.go()
        model.over("e1")
        model.until(lambda outcome: (outcome["hosts"]["web1"]["step"] or {}).get("role") == "restore_service")
        wanted = [(None, "steps"), (None, "steps"), (None, "answer"), ("lb1", "balancer"), ("lb2", "balancer"), (None, "last"), (None, "forgotten")]
        assert parts(model) == [*wanted, (None, "restoring")]
        shop, queue, *_others = acts(model)
        assert "services" not in shop[2] and queue[2]["name"] == ["queue"] and acts(model)[5][2]["name"] == ["first_file"]

    def test_one_that_only_comes_back_has_a_record_of_its_own(self, model):
        model.settings["web1"]["drain_host"]["steps"] = [tasks("welcome", out="", **{"in": "/in.yml"})]
        model.announce("e1", "web1")
        model.until(lambda outcome: model.posted)
        model.start("e1")
        model.go()
        model.over("e1")
        model.until(lambda outcome: (outcome["hosts"]["web1"]["step"] or {}).get("role") == "restore_service")
        (args,) = [args for _machine, part, args in acts(model) if part == "steps"]
        assert (args["state"], args["name"], args["done"], args["event_ids"], args["reason"]) == ("present", ["welcome"], False, ["e1"], "Reboot e1")
        assert "welcome" in next(args["name"] for _machine, part, args in acts(model) if part == "forgotten")
        # It may undo what has no way back of its own, so events that came meanwhile have that done again, once it has run.
        (args,) = [args for _machine, part, args in acts(model) if part == "undone"]
        assert (args["state"], args["name"], args["done"]) == ("absent", ["drained"], True)
        assert due("undone", model, [done("steps", done=True, has_run=True)]) and not due("undone", model, [done("steps", done=True)])

    def test_a_balancer_of_the_users_own(self, model):
        model.settings["web1"]["load_balancers"] = [
            {"provider": "custom", "hosts": [], "server": "web1", "out": "/o.yml", "back": "/i.yml", "quiet": 1.0, "records": [FORMER_RECORD]}
        ]
        model.announce("e1", "web1")
        model.go()
        (act,) = [act for turn in model.outcome["turns"]["web1"] for act in turn.get("acts", ())]
        assert (act["part"], act["module"], act["balancer"]) == ("balancer", "task_hold", 0)
        assert act["args"]["name"] == ["load_balancer_custom"] and act["file"] == {"record": "load_balancer_custom", "path": "/o.yml"}
        unanswered = [done("answer", answered=False, reason="503")]
        assert not due("last", model, unanswered) and due("restoring", model, unanswered)

    def test_several_balancers_of_the_users_own(self, model):
        """Each has its record and its files. They come back in reverse order, also from what an older version recorded."""

        def own(name, *former):
            files = {"out": f"/{name}_out.yml", "back": f"/{name}_back.yml"}
            return {"provider": "custom", "hosts": [], "server": "web1", "quiet": 1.0, "records": [f"load_balancer_step_{name}", *former], **files}

        def told():
            found = [act for turn in model.outcome["turns"]["web1"] for act in turn.get("acts", ()) if act["part"] == "balancer"]
            return [(act["balancer"], act["args"]["name"], act["file"]["record"], act["file"]["path"]) for act in found]

        def record(name):
            entry = {"since": None, "details": {"resources": ["vm_web1"]}}
            return {"kind": "task", "subject": {"name": name}, "events": {"e1": entry}, "done": True}

        shown, held = model.observe_host, []
        model.observe_host = lambda name: {**shown(name), "holds": list(map(record, held))} if name == "web1" else shown(name)
        cdn, dns = "load_balancer_step_cdn", "load_balancer_step_dns"
        model.settings["web1"]["load_balancers"] = [own("cdn", "load_balancer_custom"), own("dns")]
        model.announce("e1", "web1")
        model.decide()
        assert told() == [(0, [cdn], cdn, "/cdn_out.yml"), (1, [dns], dns, "/dns_out.yml")]
        for of_one in (["load_balancer_custom"], [dns], [cdn]):
            held[:] = of_one
            model.decide()
            assert told() != [], "the other is not out yet"
        held[:] = ["load_balancer_custom", dns]
        model.decide()
        assert told() == []
        model.start("e1")
        model.over("e1")
        for _look in range(3):
            model.now += 2
            model.decide()
        assert told() == [(1, [dns], dns, "/dns_back.yml"), (0, [cdn, "load_balancer_custom"], cdn, "/cdn_back.yml")]


class TestBeforeItsBalancers:
    """What stands before all that brings traffic is taken off first, and looked at before the host goes out."""

    @pytest.fixture(name="model")
    def make_model(self):
        model = Model(drain_host={"steps": [service("agent.service", first=True, idle=False), service("shop")]})
        model.run.update(forks=5, sleep=1.0)
        return model

    def test_out_and_back(self, model):
        model.announce("e1", "web1")
        model.go()
        ((_machine, part, args), (_host, record, recorded)) = acts(model)
        assert (part, args["services"], record, recorded["name"]) == ("steps", ["agent.service"], "drained", ["ready_to_leave"])
        assert model.in_rotation("web1") == ["lb1"]
        assert [look["name"] for turn in model.outcome["turns"]["web1"] for look in turn.get("options", {}).get("duties", ())] == ["agent.service"]
        model.until(lambda outcome: (outcome["hosts"]["web1"]["step"] or {}).get("role") == "load_balancer")
        model.until(lambda outcome: model.posted)
        model.start("e1")
        model.go()
        model.over("e1")
        model.until(lambda outcome: (outcome["hosts"]["web1"]["step"] or {}).get("role") == "restore_service")
        assert [part for _machine, part in parts(model)] == ["steps", "balancer", "last", "forgotten", "restoring"]

    def test_what_is_on_again_is_taken_off_before_it_leaves(self, model):
        model.announce("e1", "web1")
        model.hosts["web1"]["on"] = ["agent.service is active"]
        model.go()
        model.hosts["web1"]["on"] = ["agent.service is active"]
        for _pass in range(3):
            assert model.go()["hosts"]["web1"]["step"]["first"] and model.in_rotation("web1") == ["lb1"]
            model.hosts["web1"]["on"] = ["agent.service is active"]

    def test_the_minimum_counts_before_anything_is_taken_off(self, model):
        model.servers["lb1"]["web2"]["up"] = False
        model.announce("e1", "web1")
        outcome = model.go()
        assert outcome["hosts"]["web1"]["state"] == "waiting" and acts(model) == []

    def test_shortly_before_the_impact_nothing_keeps_it_in_its_balancers(self, model):
        model.announce("e1", "web1", notice=300.0)
        for _pass in range(3):
            model.hosts["web1"]["on"] = ["agent.service is active"]
            assert model.go()["hosts"]["web1"]["step"]["role"] == "drain_host"
        model.now += 200.0
        model.hosts["web1"]["on"] = ["agent.service is active"]
        model.go()
        assert parts(model) == [(None, "along"), ("lb1", "balancer")] and model.in_rotation("web1") == []
        balancers = model.settings["web1"]["load_balancers"]
        act = {"part": "balancer", "balancer": 0, "args": {"state": "present"}}
        assert is_due(act, "web1", balancers, [done("along", done=False, waiting_for="agent.service stops")]), "whatever becomes of it"

    def test_a_run_of_one_step_looks_once_more(self, model):
        model.run["wait"] = False
        model.run["look_twice"] = True
        model.announce("e1", "web1")
        model.go()
        model.killed()
        assert not model.go()["finished"], "whether it is still off is not known yet"
        assert model.go()["hosts"]["web1"]["step"]["role"] == "load_balancer"


class TestWhatIsDue:
    """One after the other: whatever did not come about keeps what comes after it from being done."""

    @pytest.mark.parametrize(
        ("before", "wanted"),
        [
            ([], {"answer", "balancer", "restoring"}),
            ([done("steps", done=False, waiting_for="shop starts")], {"restoring"}),
            ([done("steps", failed=True, msg="no systemd")], {"restoring"}),
            ([done("steps", unreachable=True)], {"restoring"}),
            ([done("steps", done=True)], {"answer", "balancer", "restoring"}),
            ([done("answer", answered=False, reason="503")], {"answer", "restoring"}),
            ([done("answer", answered=True)], {"answer", "balancer", "restoring"}),
            ([done("answer", answered=True), done("balancer", "lb1", **BACK)], {"answer", "balancer", "restoring"}),
            ([done("balancer", "lb1", **BACK), done("balancer", "lb2", unreachable=True)], {"answer", "balancer", "restoring"}),
            ([done("balancer", "lb1", **BACK), done("balancer", "lb2", **{**BACK, "waiting_for": ["DOWN"]})], {"answer", "balancer", "restoring"}),
            ([done("balancer", "lb1", **BACK), done("balancer", "lb2", **BACK)], {"answer", "balancer", "forgotten"}),
        ],
    )
    def test_the_way_back(self, model, before, wanted):
        assert {part for part in ("answer", "balancer", "forgotten", "restoring") if due(part, model, before)} == wanted

    @pytest.mark.parametrize(
        ("services", "wanted"), [({"done": True}, True), ({"done": False}, False), ({"failed": True}, False), ({"unreachable": True}, False)]
    )
    def test_a_host_whose_services_run_is_not_drained(self, model, services, wanted):
        assert due("drained", model, [done("steps", **services)]) is wanted


class TestWhatItMeans:
    def judged(self, model, role, *results, state="out"):
        return judge(role, state, ["e1"], "web1", model.settings["web1"]["load_balancers"], list(results))

    def test_out(self, model):
        result, failure = self.judged(model, "load_balancer", done("balancer", "lb1", changed=True, **OUT), done("balancer", "lb2", **OUT))
        assert result["done"] and result["changed"] and failure is None
        assert result["reason"] == "web1 is held (www on lb1: drain) (www on lb2: drain)"

    def test_a_balancer_that_cannot_be_reached_is_no_failure(self, model):
        result, failure = self.judged(model, "load_balancer", done("balancer", "lb1", **OUT), done("balancer", "lb2", unreachable=True))
        assert failure is None and not result["done"] and result["failed_hosts"] == ["lb2"] and "lb2 cannot be reached." in result["reason"]

    def test_a_balancer_that_refuses_is_one(self, model):
        result, failure = self.judged(model, "load_balancer", done("balancer", "lb1", **OUT), done("balancer", "lb2", failed=True, msg="no socket"))
        assert result == UNFINISHED and failure == "lb2: no socket"

    def test_the_approval(self, model):
        result, failure = self.judged(model, "approve_event", done("sent", approved=["e1"], not_approved=[], changed=True))
        assert result["approved"] == ["e1"] and result["reason"] == "approved e1" and failure is None
        assert self.judged(model, "approve_event", done("sent", failed=True, msg="410"))[1] == "410"
        result, failure = self.judged(model, "approve_event", done("sent", unreachable=True, msg="gone"))
        assert not result["done"] and failure is None

    def test_the_services(self, model):
        result, failure = self.judged(model, "drain_host", done("steps", done=True, changed=True), done("drained", changed=True))
        assert result["done"] and result["changed"] and failure is None
        result, failure = self.judged(model, "drain_host", done("steps", done=False, waiting_for="shop stops"))
        assert not result["done"] and "shop stops" in result["reason"]

    def test_the_way_back(self, model):
        balancers = [done("balancer", "lb1", **BACK), done("balancer", "lb2", **BACK)]
        result, failure = self.judged(model, "restore_service", done("answer", answered=True), *balancers, done("forgotten", changed=True))
        assert result["done"] and result["reason"] == "web1 is restored" and failure is None
        result, failure = self.judged(model, "restore_service", done("answer", answered=False, reason="503"), done("restoring", changed=True))
        assert not result["done"] and "503" in result["reason"] and failure is None
        failed = done("steps", failed=True, msg="no systemd"), done("restoring", failed=True, msg="read-only")
        result, failure = self.judged(model, "restore_service", *failed)
        assert failure == "no systemd"
        result, failure = self.judged(model, "restore_service", done("answer", failed=True, msg="no such URL"))
        assert failure == "web1 is not restored; it stays out of its load balancer; no such URL"


class TestSeveralBalancers:
    """The outermost goes first, and comes back last; the host is out when it is out of all."""

    @pytest.fixture(name="model")
    def make_row(self):
        model = Model(load_balancers=[{"hosts": ["edge"]}, {"hosts": ["lb1"]}], balancers=("edge", "lb1"))
        model.run.update(forks=5, sleep=1.0)
        return model

    def test_the_whole_life_of_an_event(self, model):
        model.servers["lb1"]["web1"]["sessions"] = 2
        model.announce("e1", "web1")
        model.go()
        assert [(machine, act["balancer"]) for machine, act in self.at_balancers(model)] == [("edge", 0), ("lb1", 1)]
        model.go()
        assert "2 sessions" in model.outcome["hosts"]["web1"]["reason"] and model.posted == []
        model.servers["lb1"]["web1"]["sessions"] = 0
        model.until(lambda outcome: model.posted)
        assert model.in_rotation("web1") == []
        model.start("e1")
        model.go()
        model.over("e1")
        model.until(lambda outcome: (outcome["hosts"]["web1"]["step"] or {}).get("role") == "restore_service")
        assert [(machine, act["balancer"]) for machine, act in self.at_balancers(model)] == [("lb1", 1), ("edge", 0)]
        assert not model.finish()["failed_run"] and model.in_rotation("web1") == ["edge", "lb1"]

    def test_the_minimum_counts_at_each(self, model):
        model.servers["edge"]["web2"]["up"] = False
        model.announce("e1", "web1")
        model.go()
        assert model.outcome["hosts"]["web1"]["state"] == "waiting" and model.in_rotation("web1") == ["edge", "lb1"]

    def test_one_that_cannot_be_read_keeps_it_from_being_approved(self, model):
        model.down_balancers["edge"] = {"error": "no route"}
        model.announce("e1", "web1")
        for _pass in range(8):
            model.go()
        assert model.posted == [] and model.in_rotation("web1") == ["edge"]

    def test_a_killed_run_is_continued(self, model):
        model.announce("e1", "web1")
        model.until(lambda outcome: model.posted)
        model.killed()
        model.over("e1")
        assert not model.finish()["failed_run"] and model.in_rotation("web1") == ["edge", "lb1"]

    @staticmethod
    def at_balancers(model):
        return [(turn["machine"], act) for turn in model.outcome["turns"]["web1"] for act in turn.get("acts", ()) if act["part"] == "balancer"]

    ROW = [{"provider": "haproxy", "hosts": ["edge"], "server": "web1"}, {"provider": "haproxy", "hosts": ["lb1"], "server": "web1"}]

    @pytest.mark.parametrize(
        ("number", "state", "before", "wanted"),
        [
            (1, "present", [done("balancer", "edge", balancer=0, **OUT)], True),
            (1, "present", [done("balancer", "edge", balancer=0, **{**OUT, "refused": ["too few"]})], False),
            (1, "present", [done("balancer", "edge", balancer=0, unreachable=True)], True),
            (0, "present", [], True),
            (1, "absent", [], True),
            (0, "absent", [], False),
            (0, "absent", [done("balancer", "lb1", balancer=1, **BACK)], True),
            (0, "absent", [done("balancer", "lb1", balancer=1, **{**BACK, "waiting_for": ["DOWN"]})], False),
        ],
    )
    def test_whose_turn_it_is(self, number, state, before, wanted):
        act = {"part": "balancer", "balancer": number, "args": {"state": state}}
        assert is_due(act, "web1", self.ROW, before) is wanted

    def test_what_it_means(self):
        edge, inner = done("balancer", "edge", balancer=0, **OUT), done("balancer", "lb1", balancer=1, changed=True, **OUT)
        result, failure = judge("load_balancer", "out", ["e1"], "web1", self.ROW, [edge, inner])
        assert result["done"] and result["changed"] and failure is None
        assert result["reason"] == "web1 is held (www on edge: drain); web1 is held (www on lb1: drain)"
        result, failure = judge("load_balancer", "out", ["e1"], "web1", self.ROW, [dict(edge, unreachable=True), inner])
        assert not result["done"] and result["failed_hosts"] == ["edge"] and result["reason"] == "edge cannot be reached."
