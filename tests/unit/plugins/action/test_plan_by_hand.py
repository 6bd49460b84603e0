# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which variables the playbook holds reads, and whose."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleUndefinedVariable
from ansible_collections.graceful.azure.plugins.action.plan_by_hand import ActionModule


def behind(**options):
    return {"graceful_azure_duties": [{"type": "haproxy", "hosts": ["lb1"], **options}]}


BEHIND = behind()
LOOK = {"reached": True, "holds": []}


class Hostvars(dict):
    raw_get = dict.__getitem__


class Templar:
    """A text in two braces is the name of a variable."""

    def __init__(self, variables=None):
        self.variables = variables

    def copy_with_new_env(self, available_variables):
        return Templar(available_variables)

    def template(self, value):
        if isinstance(value, list):
            return list(map(self.template, value))
        if isinstance(value, dict):
            return {key: self.template(inner) for key, inner in value.items()}
        if not isinstance(value, str) or not value.startswith("{{"):
            return value
        if value.strip("{ }") not in self.variables:
            raise AnsibleUndefinedVariable(f"'{value.strip('{ }')}' is undefined")
        return self.variables[value.strip("{ }")]


@pytest.fixture(name="action")
def make_action():
    action = ActionModule.__new__(ActionModule)
    action._templar = Templar()
    return action


def task_vars(hostvars, active, first=None, **more):
    name = first or active[0]
    play = {"ansible_play_hosts": active, "ansible_play_hosts_all": active, "inventory_hostname": name, "hostvars": Hostvars(hostvars)}
    return {**hostvars[name], **play, **more}


class TestOptions:
    def test_what_is_set_for_the_play_counts(self, action):
        found = action._options(task_vars({"web1": {}, "web2": {}}, ["web1", "web2"], holds_release=True, holds_servers="{{ mine }}", mine="web4, web5"))
        assert found == {"options": {"release": True, "repair": False, "gone": False, "json": False, "event_ids": None, "servers": ["web4", "web5"]}}

    def test_one_for_each_host_is_refused(self, action):
        for hosts in ({"web1": {}, "web2": {"holds_release": True}}, {"web1": {"holds_release": True}, "web2": {"holds_release": False}}):
            found = action._options(task_vars(hosts, ["web1", "web2"]))
            assert found == {"failed": True, "msg": "holds_release differs between the targets; give it once for all of them. Nothing is released."}
        # Whoever is no target has no say.
        assert "failed" not in action._options(task_vars({"web1": {}, "web2": {"holds_release": True}}, ["web1"]))

    def test_what_cannot_be_resolved_is_not_taken_for_not_set(self, action):
        found = action._options(task_vars({"web1": {}}, ["web1"], holds_release=True, holds_event_ids="{{ mine }}", holds_gon=1))
        assert found["failed"] and found["msg"] == (
            "holds_event_ids: '{{ mine }}' cannot be resolved: 'mine' is undefined. Nothing is released."
            " holds has no option holds_gon. It has holds_release, holds_event_ids, holds_gone, holds_repair, holds_servers, holds_json. Nothing is released."
        )


class TestPlaces:
    def test_each_machine_has_its_own_folder(self, action):
        hosts = {
            "web1": {**behind(hosts=["lb1", "lb2"]), "graceful_azure_state_dir": "/web"},
            "lb1": {"graceful_azure_state_dir": "{{ own }}", "own": "/own"},
            "lb2": {},
        }
        found = action._places(task_vars(hosts, ["web1"]))
        folders = {"web1": "/web", "lb1": "/own", "lb2": None}
        assert found["machines"] == [{"name": name, "state_dir": folder} for name, folder in folders.items()]
        assert [(place["machine"], place["options"].get("state_dir")) for place in found["places"]] == [("lb1", "/own"), ("lb2", None)]

    def test_a_host_that_is_its_own_balancer(self, action):
        found = action._places(task_vars({"web1": {**behind(hosts=["web1"]), "graceful_azure_state_dir": "/web"}}, ["web1"]))
        assert len(found["machines"]) == 1 and found["places"][0]["options"]["state_dir"] == "/web"

    def test_the_look_at_a_host_is_tried_again_and_may_take_as_long_as_is_set(self, action):
        assert action._places(task_vars({"web1": {}}, ["web1"]))["look"] == {"name": "web1", "options": {}, "tries": 3}
        empty = {"handle_events_observe_timeout": "", "graceful_azure_resource_name": ""}
        assert action._places(task_vars({"web1": empty}, ["web1"]))["look"]["options"] == {}
        set_for_it = {"handle_events_observe_timeout": "30", "graceful_azure_resource_name": "vm1"}
        look = action._places(task_vars({"web1": set_for_it}, ["web1"]))["look"]
        assert look["options"] == {"timeout": 30.0, "resource_name": "vm1"}

    @pytest.mark.parametrize(
        ("of_host", "of_balancer", "said"),
        [
            (behind(hosts=["lb9"]), {}, "web1: graceful_azure_duties[0].hosts: 'lb9' is not in the inventory"),
            (behind(hosts="lb1"), {}, "web1: graceful_azure_duties[0].hosts: 'lb1' is a text; it must be a list"),
            ({"handle_events_observe_timeout": "x"}, {}, "web1: handle_events_observe_timeout: 'x' is not a number of seconds from 0.1 up"),
            ({"graceful_azure_duties": "{{ x }}"}, {}, "web1: graceful_azure_duties: '{{ x }}' cannot be resolved: 'x' is undefined"),
            ({}, {"graceful_azure_state_dir": "{{ x }}"}, "lb1: graceful_azure_state_dir: '{{ x }}' cannot be resolved: 'x' is undefined"),
        ],
    )
    def test_what_is_wrong_is_told(self, action, of_host, of_balancer, said):
        found = action._places(task_vars({"web1": {**BEHIND, **of_host}, "lb1": of_balancer}, ["web1"]))
        assert found == {"failed": True, "msg": f"{said}. Nothing is released for web1."}


class TestRelease:
    def release(self, action, others, hosts=("web1",), **options):
        holds = [
            {"kind": "haproxy_server", "subject": {"backend": "www", "server": name}, "found": {}, "left": {}, "events": {"E1": {}}, "path": f"/{name}"}
            for name in ("web1", "web2")
        ]
        place = {"machine": "lb1", "key": "lb1 /s", "provider": "haproxy", "server": "web1", "options": {"socket": "/s", "absent": "unknown"}}
        seen = {
            "graceful_azure_to_look_at": {"places": [place]},
            "graceful_azure_host": LOOK,
            "graceful_azure_balancers": {"results": [{"reached": True, "holds": holds, "other_holds": [], "place": place}]},
        }
        given = {"release": True, "repair": False, "gone": False, "json": False, "event_ids": None, "servers": None, **options}
        found = task_vars({"web1": seen, **others}, ["web1"], graceful_azure_options={"options": given})
        return action._release(dict(found, ansible_play_hosts_all=list(hosts)))

    @pytest.mark.parametrize(
        ("others", "strays"),
        [
            ({"web2": BEHIND}, []),
            ({"app": {**behind(server="{{ own }}"), "own": "web2"}}, []),
            ({"web2": behind(server="another")}, ["web2"]),
            ({"web2": behind(hosts=["lb2"])}, ["web2"]),
            ({"web2": {"graceful_azure_duties": [{"type": "tasks", "out": "x", "back": "y", "traffic": True}]}}, ["web2"]),
            ({}, ["web2"]),
        ],
    )
    def test_whose_server_it_is(self, action, others, strays):
        found = self.release(action, others)
        assert [stray["held"] for stray in found["strays"]] == [f"haproxy_server www/{name}" for name in strays]

    def test_a_host_of_which_that_cannot_be_told_keeps_its_servers(self, action):
        hosts = {"app": {"graceful_azure_duties": "{{ own }}"}}
        (said,) = self.release(action, hosts, servers=["web2"])["mistakes"]
        why = "app: graceful_azure_duties: '{{ own }}' cannot be resolved: 'own' is undefined"
        assert said == f"{why}. It may own what holds_servers names. Nothing is released."
        assert self.release(action, hosts)["mistakes"] == []

    def test_a_mistake_of_a_host_that_is_no_target_keeps_nothing_else_from_being_released(self, action):
        hosts = {"app": behind(server="web2", backends=5)}
        (doubt, _wrong) = self.release(action, hosts, servers=["web2"])["mistakes"]
        assert doubt.startswith("app: graceful_azure_duties[0].backends: 5 is a single value; it must be a list. It may own what holds_servers names.")
        found = self.release(action, hosts)
        assert (found["mistakes"], found["strays"], found["hosts"]["web1"]["release"]) == ([], [], "everything")

    def test_a_host_that_left_may_hold_anything(self, action):
        assert self.release(action, {"web2": BEHIND}, event_ids=["typo"])["mistakes"] != []
        assert self.release(action, {"web2": BEHIND}, ("web1", "web2"), event_ids=["typo"])["mistakes"] == []
