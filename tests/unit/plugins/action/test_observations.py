# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host does in its turn, and how often a metadata service is asked; the clock is the test's."""

from __future__ import annotations

import types
from unittest import mock

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.graceful.azure.plugins.action import turn
from ansible_collections.graceful.azure.plugins.module_utils import _handle
from ansible_collections.graceful.azure.plugins.module_utils._duties.machine import Machine
from ansible_collections.graceful.azure.plugins.plugin_utils import _look_action, _news
from ansible_collections.graceful.azure.plugins.plugin_utils._verbosity import kept_inside

KEY = "lb1 /run/haproxy/admin.sock"
EVENT = {"event_id": "E1", "event_status": "Scheduled", "resources": ["VM_web1"]}


class Scene:
    """Turns of one host. Its module's looks, with what they were told, and at which seconds they began."""

    def __init__(self, monkeypatch, tmp_path):
        self.now = 1000.0
        self.looks = []
        self.told = {"fingerprint": "a", "age": 0.0, "events": [], "servers": [], "level": "admin"}
        self.news = str(tmp_path / "news")
        clock = types.SimpleNamespace(time=lambda: self.now, sleep=self.sleep, monotonic=lambda: self.now)
        for module in (_look_action, _news, turn):
            monkeypatch.setattr(module, "time", clock)
        monkeypatch.setattr(_handle, "answer", self.answer)
        monkeypatch.setattr(ActionBase, "run", lambda self, tmp=None, task_vars=None: {})

    def sleep(self, seconds):
        assert seconds >= 0
        self.now += seconds

    def execute(self, module_name, module_args, task_vars):
        assert module_name == "graceful.azure.machine"
        if self.told.get("unreachable"):
            return dict(self.told)
        return _handle.handle(module_args["request"], lambda _params: Machine(monotonic=lambda: self.now, sleep=self.sleep))

    def answer(self, call, args, *_machine):
        self.looks.append((self.now - 1000.0, call, args))
        return dict(self.told)

    def run(self, module, args):
        action = module.ActionModule.__new__(module.ActionModule)
        action._task = types.SimpleNamespace(args=args)
        action._execute_module = self.execute
        action._connection = types.SimpleNamespace(_shell=types.SimpleNamespace(tmpdir=None))
        action._templar = types.SimpleNamespace(template=lambda value: value)
        return action.run(task_vars={"inventory_hostname": "web1", "graceful_azure_helper": False})

    def take(self, found, **args):
        return self.run(turn, dict({"turn": found, "news": self.news, "known": [["e0", "Scheduled"]]}, **args))

    def heard(self):
        return _news.News(self.news).end()

    @property
    def moments(self):
        return [moment for moment, _name, _args in self.looks]


@pytest.fixture(name="scene")
def make_scene(monkeypatch, tmp_path):
    return Scene(monkeypatch, tmp_path)


class TestHost:
    def look(self, scene, read_at=None, **args):
        return scene.take({"name": "web1", "options": {}, "read_at": read_at}, **args)

    def test_no_more_than_one_read_a_second(self, scene):
        read_at = None
        for interval in (1, 0, 0.2, 1):
            read_at = self.look(scene, read_at, interval=interval)["at"]
        assert scene.moments == [0.0, 1.0, 2.0, 3.0]

    def test_the_second_counts_from_the_last_read(self, scene):
        scene.told["age"] = 0.5
        self.look(scene, self.look(scene)["at"])
        assert scene.moments == [0.0, 0.5]

    def test_passes_that_lie_further_apart(self, scene):
        read_at = None
        for _pass in range(3):
            read_at = self.look(scene, read_at, interval=30)["at"]
        assert scene.moments == [0.0, 30.0, 60.0]

    @pytest.mark.parametrize("back", [0.5, 3600.0])
    def test_a_clock_that_was_set_back_lasts_no_longer_than_an_interval(self, scene, back):
        read_at = self.look(scene)["at"]
        scene.now -= back
        self.look(scene, read_at)
        assert len(scene.looks) == 2 and scene.now <= 1001.0 - back

    def test_what_the_module_is_told(self, scene):
        found = {"name": "web1", "options": {"wait": 2.0, "known": "a"}, "read_at": None}
        scene.take(found, imds_url="http://127.0.0.1:1", state_dir="/s")
        told = {"wait": 2.0, "known": "a", "imds_url": "http://127.0.0.1:1", "state_dir": "/s"}
        assert scene.looks == [(0.0, "host_observation", told)]

    def test_a_new_event_is_told_to_the_others(self, scene):
        scene.told.update(fingerprint="b", events=[dict(EVENT, event_id="E0")])
        self.look(scene)
        assert not scene.heard()
        scene.told.update(fingerprint="c", events=[EVENT])
        self.look(scene)
        assert scene.heard()

    @pytest.mark.parametrize("events", [None, []])
    def test_whoever_sees_no_event_has_no_news(self, scene, events):
        """Be it that one is over, or that the service cannot be read."""
        scene.told.update(fingerprint="none", events=events)
        self.look(scene)
        assert not scene.heard()

    def test_a_host_that_cannot_be_reached_is_told_apart_from_one_that_shows_nothing(self, scene):
        scene.told = {"unreachable": True, "msg": "no route"}
        assert self.look(scene)["fingerprint"] == _look_action.UNREACHED

    def test_a_pause_asks_nobody(self, scene):
        assert scene.take({"name": "web1", "pause": 1.0}) == kept_inside({"changed": False})
        assert scene.looks == [] and scene.now == 1001.0

    @pytest.mark.parametrize(
        ("args", "seconds"),
        [
            ({}, 5.0),
            ({"timeout": 2}, 2.0),
            ({"timeout": "2", "wait": "4"}, 8.0),
            ({"timeout": 2, "wait": 60}, 64.0),
            ({"timeout": 2, "ask": {"port": 1}}, 6.0),
            ({"timeout": 2, "duties": [{"type": "service", "name": "web"}]}, 12.0),
        ],
    )
    def test_how_long_it_may_take(self, scene, monkeypatch, args, seconds):
        limits = []
        monkeypatch.setattr(_look_action.LookAction, "look", lambda self, name, args, task_vars, seconds, *_more: limits.append(seconds) or {})
        scene.take({"name": "web1", "options": args})
        assert limits == [seconds]


class TestActs:
    """They are done before the look, each only as long as those before it allow, those of the host's earlier turns among them."""

    SETTINGS = {"provider": "haproxy", "hosts": ["lb1"], "server": "web1"}
    BACK = {"servers": [], "conflicts": [], "waiting_for": []}

    @pytest.fixture(autouse=True)
    def _nothing_done(self, monkeypatch):
        monkeypatch.setattr(turn, "_done", {})

    def take(self, scene, *parts, machine=None, look=None):
        acts = [{"part": part, "module": f"{part}_module", "args": {"state": "absent"}, "balancer": 0} for part in parts]
        found = dict({"machine": machine} if machine else {}, name="web1", acts=acts, balancers=[self.SETTINGS])
        return scene.take(dict(found, options=look) if look is not None else found, number=3, state_dir="/s", imds_url="http://127.0.0.1:1")

    def test_before_the_look(self, scene):
        seen = self.take(scene, "steps", look={"known": "a"})
        assert [(name, args) for _moment, name, args in scene.looks] == [
            ("steps_module", {"state": "absent", "state_dir": "/s"}),
            ("host_observation", {"known": "a", "state_dir": "/s", "imds_url": "http://127.0.0.1:1"}),
        ]
        assert [act["part"] for act in seen["acts"]] == ["steps"] and seen["reached"]

    def test_an_approval_on_a_windows_host_has_more_time(self, scene, monkeypatch):
        asked = []
        monkeypatch.setattr(turn, "is_windows", lambda *_who: True)
        monkeypatch.setattr(_look_action, "ask_machine", lambda _action, request, *_more: asked.extend(request["acts"]) or {"acts": [{"approved": []}]})
        sent = {"part": "sent", "module": "approval_hold", "args": {"timeout": 5.0, "ready_until": 9.0}}
        scene.take({"name": "web1", "acts": [sent], "balancers": []}, number=3)
        assert [(act["call"], act["args"]) for act in asked] == [("approval_hold", {"timeout": 25.0, "ready_until": 9.0})]

    def test_in_the_order_of_the_turns(self, scene):
        scene.told = {"done": True, "changed": True}
        assert self.take(scene, "steps")["changed"] is True
        scene.told = self.BACK
        (act,) = self.take(scene, "balancer", machine="lb1")["acts"]
        assert act["item"] == "lb1"
        assert [act["part"] for act in self.take(scene, "forgotten", "restoring")["acts"]] == ["forgotten"]

    def test_not_after_one_that_did_not_come_about(self, scene):
        scene.told = {"done": False}
        self.take(scene, "steps")
        assert self.take(scene, "balancer", machine="lb1") == kept_inside({"changed": False})
        assert [act["part"] for act in self.take(scene, "forgotten", "restoring")["acts"]] == ["restoring"]

    @pytest.mark.parametrize(("error", "told"), [(AnsibleConnectionFailure("no route"), "unreachable"), (AnsibleError("no space"), "failed")])
    def test_what_goes_wrong_is_data(self, scene, error, told):
        def execute(module_name, module_args, task_vars):
            raise error

        scene.execute = execute
        (act,) = self.take(scene, "steps")["acts"]
        assert act[told] is True and act["msg"]

    def test_what_ansible_shows(self, scene):
        scene.told = {"done": True, "changed": True, "diff": {"before": 1, "after": 2}, "warnings": ["w"], "invocation": {}}
        seen = self.take(scene, "steps")
        assert seen["diff"] == [{"before": 1, "after": 2}] and seen["warnings"] == ["w"]
        assert seen["acts"] == [{"done": True, "changed": True, "part": "steps", "ended_at": 1000.0, "balancer": 0}]


class TestNews:
    """When the news of one look end another."""

    @pytest.fixture
    def news(self, scene):
        return _news.News(scene.news)

    def test_none(self, news):
        assert not news.end() and not news.end("vm_web1")

    def test_whoever_is_not_named_is_ended_at_once(self, news):
        news.tell_events([EVENT])
        assert news.end() and news.end("vm_web2")

    def test_whoever_is_named_reads_it_first(self, scene, news):
        news.tell_events([EVENT])
        assert not news.end("vm_WEB1")
        scene.now += _news.READ
        assert news.end("vm_WEB1")

    def test_that_an_event_has_started_is_news(self, news):
        news.known = [["e1", "Scheduled"]]
        news.tell_events([EVENT])
        assert not news.end()
        news.tell_events([dict(EVENT, event_status="Started")])
        assert news.end()

    def test_what_the_host_is_the_last_to_show_is_news_if_it_bears_its_name(self, news):
        news.known = [["e1", "Scheduled"]]
        news.tell_events([EVENT], not_shown=["e2"])
        assert not news.end()
        news.tell_events([EVENT], not_shown=["e1"])
        assert news.end()

    def test_what_the_host_has_shown_and_shows_no_more_is_news(self, scene):
        found = {"name": "web1", "options": {"timeout": 5.0, "wait": 4.0}, "shown": {"E9": ["vm_web2"]}}
        scene.take(found, news=scene.news, known=[["e1", "Scheduled"]])
        news = _news.News(scene.news)
        assert news.end()
        # Whoever it named reads first that it is gone.
        assert not news.end("VM_web2")
        scene.now += _news.READ
        assert news.end("VM_web2")

    def test_without_news_a_look_that_waits_opens_nothing(self, monkeypatch, tmp_path):
        """Each asks ten times a second."""
        opened = mock.Mock(side_effect=FileNotFoundError)
        monkeypatch.setattr("builtins.open", opened)
        ended = _news.News(str(tmp_path / "news")).end()
        monkeypatch.undo()
        assert not ended and not opened.mock_calls

    def test_an_empty_body_is_no_news_of_what_the_host_has_shown(self, scene):
        scene.told["empty_body"] = True
        found = {"name": "web1", "options": {"timeout": 5.0, "wait": 4.0}, "shown": {"E9": ["vm_web2"]}}
        scene.take(found, news=scene.news, known=[["e1", "Scheduled"]])
        assert not _news.News(scene.news).end()

    def test_half_a_line_is_read_again(self, scene, news):
        with open(scene.news, "w", encoding="utf-8") as file:
            file.write('{"names": ')
        assert not news.end()

    def test_a_folder_that_is_gone_ends_nothing(self, tmp_path):
        news = _news.News(str(tmp_path / "gone" / "news"))
        news.tell()
        assert not news.end()


LOOK_BY_HAND = {"machine": "lb1", "key": KEY, "provider": "haproxy", "module": "haproxy_info", "options": {"socket": "/s", "servers": ["web1"]}}


class TestBalancer:
    def test_it_is_looked_at_with_its_own_module(self, scene):
        found = {"name": KEY, "machine": "lb1", "key": KEY, "provider": "haproxy", "module": "haproxy_info", "options": {"socket": "/s", "timeout": 0.0}}
        assert scene.take(found, imds_url="http://127.0.0.1:1", state_dir="/lb")["reached"]
        assert scene.looks == [(0.0, "haproxy_info", {"socket": "/s", "timeout": 0.0, "state_dir": "/lb"})]

    def test_a_look_outside_the_passes(self, scene):
        scene.take(LOOK_BY_HAND)
        assert [name for _moment, name, _args in scene.looks] == ["haproxy_info"]

    @pytest.mark.parametrize(
        ("told", "wanted"),
        [
            ({"level": "user"}, {"fatal": "HAProxy socket /s allows only the level user; admin is needed", "servers": None}),
            ({"state_dir_problem": "read-only"}, {"fatal": "read-only", "servers": None}),
            ({"absent": True, "level": None}, {"error": "no HAProxy runs there", "servers": []}),
        ],
    )
    def test_what_makes_it_of_no_use(self, scene, told, wanted):
        scene.told.update(told)
        seen = scene.take(LOOK_BY_HAND)
        assert {key: seen[key] for key in wanted} == wanted
