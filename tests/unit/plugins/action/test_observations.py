# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How often hosts and balancers are looked at; the clock is the test's."""

from __future__ import annotations

import types

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.graceful.azure.plugins.action import balancer_observation, host_observation

KEY = "lb1 /run/haproxy/admin.sock"


class Scene:
    """Passes of one host. Its module's looks, with what they were told, and at which seconds they began."""

    def __init__(self, monkeypatch):
        self.now = 1000.0
        self.looks = []
        self.told = {"fingerprint": "a", "age": 0.0}
        self.last = None
        clock = types.SimpleNamespace(time=lambda: self.now, sleep=self.sleep, monotonic=lambda: self.now)
        for module in (host_observation, balancer_observation):
            monkeypatch.setattr(module, "time", clock)
        monkeypatch.setattr("ansible_collections.graceful.azure.plugins.plugin_utils._look.time", clock)
        monkeypatch.setattr(ActionBase, "run", lambda self, tmp=None, task_vars=None: {})

    def sleep(self, seconds):
        assert seconds >= 0
        self.now += seconds

    def execute(self, module_name, module_args, task_vars):
        self.looks.append((self.now - 1000.0, module_args))
        return dict(self.told)

    def run(self, module, args, task_vars):
        action = module.ActionModule.__new__(module.ActionModule)
        action._task = types.SimpleNamespace(args=args)
        action._execute_module = self.execute
        return action.run(task_vars=task_vars)

    @property
    def moments(self):
        return [moment for moment, _args in self.looks]


class HostScene(Scene):
    def look(self, **args):
        """One pass, in which nothing takes any time but the look's own waits."""
        self.last = self.run(host_observation, args, {} if self.last is None else {"graceful_azure_host": self.last})
        return self.last


class BalancerScene(Scene):
    def look(self, news=False, **args):
        hosts = {"web1": {"graceful_azure_host": {"news": news}}, "web2": {"graceful_azure_host": {"news": False}}}
        task_vars = {"look": {"key": KEY}, "hostvars": types.SimpleNamespace(raw_get=hosts.get), "ansible_play_hosts_all": list(hosts)}
        if self.last:
            task_vars["graceful_azure_balancers"] = {"results": [dict(self.last, look={"key": KEY})]}
        self.last = self.run(balancer_observation, dict({"socket": "/run/haproxy/admin.sock"}, **args), task_vars)
        return self.last


@pytest.fixture(name="host")
def make_host(monkeypatch):
    return HostScene(monkeypatch)


@pytest.fixture(name="balancer")
def make_balancer(monkeypatch):
    scene = BalancerScene(monkeypatch)
    scene.told = {"servers": [], "level": "admin"}
    return scene


class TestHost:
    def test_no_more_than_one_read_a_second(self, host):
        for interval in (1, 0, 0.2, 1):
            host.look(interval=interval)
        assert host.moments == [0.0, 1.0, 2.0, 3.0]

    def test_the_second_counts_from_the_last_read(self, host):
        host.told["age"] = 0.5
        host.look()
        host.look()
        assert host.moments == [0.0, 0.5]

    def test_passes_that_lie_further_apart(self, host):
        for _pass in range(3):
            host.look(interval=30)
        assert host.moments == [0.0, 30.0, 60.0]

    def test_whoever_rests_is_not_asked(self, host):
        seen = host.look()
        for second in (1.0, 2.0, 3.0):
            host.now = 1000.0 + second
            assert host.look(rest=4.0) == dict(seen, rested=True, news=False)
        host.now = 1004.0
        assert host.look(rest=4.0)["rested"] is False
        assert host.moments == [0.0, 4.0]

    @pytest.mark.parametrize("back", [0.5, 3600.0])
    def test_a_clock_that_was_set_back_ends_the_rest(self, host, back):
        host.look()
        host.now -= back
        assert host.look(rest=4.0)["rested"] is False
        assert len(host.looks) == 2 and host.now <= 1001.0 - back

    def test_what_is_new_and_what_is_passed_on(self, host):
        assert host.look()["news"] is True
        assert host.look(wait=2.0)["news"] is False
        host.told["fingerprint"] = "b"
        assert host.look(interval=1, rest=0)["news"] is True
        assert [args for _moment, args in host.looks] == [{"known": ""}, {"wait": 2.0, "known": "a"}, {"known": "a"}]

    def test_a_look_that_was_cut_off_is_not_begun_again_at_once(self, host):
        host.look()
        host.now += 5
        host.last.update(began=1000.0, cut_off=5.0, at=1005.0)
        assert [host.look()["rested"] for _pass in range(6)] == [True] * 5 + [False]
        assert host.moments == [0.0, 10.0]
        host.last.update(cut_off=5.0)
        host.now -= 3600
        assert host.look()["rested"] is False

    @pytest.mark.parametrize(("args", "seconds"), [({}, 5.0), ({"timeout": 2}, 2.0), ({"timeout": "2", "wait": "4"}, 8.0)])
    def test_how_long_it_may_take(self, host, monkeypatch, args, seconds):
        limits = []
        monkeypatch.setattr(host_observation.ActionModule, "look", lambda self, name, args, task_vars, seconds: limits.append(seconds) or {})
        host.look(**args)
        assert limits == [seconds]


class TestBalancer:
    def test_a_look_of_ones_own_outside_the_passes(self, balancer):
        args = {"socket": "/run/haproxy/admin.sock", "servers": ["web1"]}
        for _look in range(2):
            assert balancer.run(balancer_observation, args, {})["rested"] is False
        assert [asked["servers"] for _moment, asked in balancer.looks] == [["web1"], ["web1"]]

    def test_without_a_rest_it_is_looked_at_in_each_pass(self, balancer):
        assert [balancer.look()["rested"] for _pass in range(3)] == [False] * 3
        assert len(balancer.looks) == 3

    def test_while_nobody_sees_anything_new_it_is_left_in_peace(self, balancer):
        seen = balancer.look(rest=4.0)
        for second in (0.0, 2.0, 3.9):
            balancer.now = 1000.0 + second
            assert balancer.look(rest=4.0) == dict(seen, rested=True)
        balancer.now = 1004.0
        assert balancer.look(rest=4.0)["rested"] is False
        assert balancer.moments == [0.0, 4.0]

    def test_news_of_any_host_ends_the_rest(self, balancer):
        balancer.look(rest=4.0)
        assert balancer.look(news=True, rest=4.0)["rested"] is False

    @pytest.mark.parametrize("back", [0.5, 3600.0])
    def test_a_clock_that_was_set_back_ends_the_rest(self, balancer, back):
        balancer.look(rest=4.0)
        balancer.now -= back
        assert balancer.look(rest=4.0)["rested"] is False

    def test_a_look_that_was_cut_off_is_not_begun_again_at_once(self, balancer):
        balancer.look()
        balancer.last.update(cut_off=5.0)
        for second, rested in ((5.0, True), (9.9, True), (10.0, False)):
            balancer.now = 1000.0 + second
            assert balancer.look()["rested"] is rested
