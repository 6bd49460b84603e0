# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a target means, asked of Ansible's own inventory."""

from __future__ import annotations

import pytest
from ansible import context
from ansible.errors import AnsibleFilterError
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible_collections.graceful.azure.plugins.filter.target import target
from ansible_collections.graceful.azure.plugins.plugin_utils._target_pattern import TargetError, find_hosts, needs_variables

ODD = ["web1,1001", "2001:db8::11", "web:1"]
GROUPS = {
    "web": ["web1", "web2", "web3"],
    "db": ["db1", "web3"],
    "balancers": ["lb1"],
    "odd": ODD,
    "nobody": [],
    "all": ["web1", "web2", "web3", "db1", "lb1", *ODD],
    "ungrouped": [],
}
DUTIES = "graceful_azure_duties"
VARIABLES = {
    **{name: {} for name in GROUPS["all"]},
    "web1": {"graceful_azure_resource_name": "vmss-1.x", DUTIES: [{"type": "haproxy", "hosts": ["lb1"]}]},
    "web2": {"graceful_azure_resource_name": "same"},
    "web3": {"graceful_azure_resource_name": "Same"},
    "db1": {"graceful_azure_resource_name": "vm,1"},
}


@pytest.fixture(name="inventory", scope="module")
def make_inventory():
    inventory = InventoryManager(DataLoader(), parse=False)
    for group, names in GROUPS.items():
        inventory.add_group(group)
        for name in names:
            inventory.add_host(name, group)
    return inventory


@pytest.mark.parametrize(
    ("target", "hosts"),
    [
        ("web", "web1 web2 web3"),
        ("web1,web2", "web1 web2"),
        ("web1:web2", "web1 web2"),
        (" web1 , web2 ", "web1 web2"),
        (["web1", "db1"], "web1 db1"),
        ("web:!web2", "web1 web3"),
        ("web:&db", "web3"),
        ("web,!VMSS-1.X", "web2 web3"),
        ("web[0]", "web1"),
        ("web[1:2]", "web2 web3"),
        ("web[-1]", "web3"),
        ("w*2", "web2"),
        ("~web[12]$", "web1 web2"),
        ("VMSS-1.X:db1", "web1 db1"),
        ("WEB2", "web2"),
        ("same", "web2 web3"),
        ("db,&same", "web3"),
        ("nobody,web1", "web1"),
        ("web1,1001", "web1,1001"),
        ("web1,1001,web1", "web1,1001 web1"),
        ("web1,1001:2001:db8::11:web:1", "web1,1001 2001:db8::11 web:1"),
        ("odd,!web1,1001", "2001:db8::11 web:1"),
        (["web1,1001", "2001:db8::11"], "web1,1001 2001:db8::11"),
        ("web:web1", "web1 web2 web3"),
        # The README's own inventory: a group of VMs, and one of their balancers.
        ("all", "web1 web2 web3 db1 web1,1001 2001:db8::11 web:1"),
        ("all:!odd", "web1 web2 web3 db1"),
        ("!odd", "web1 web2 web3 db1"),
        ("all,lb1", "web1 web2 web3 db1 web1,1001 2001:db8::11 web:1"),
        ("lb1", "lb1"),
        # A colon or a comma in a regular expression.
        ("~web(?:1|2)$", "web1 web2"),
        ("~web\\d{1,1}$:db1", "web1 web2 web3 db1"),
        ("~d[a-b]$,!~db(?:1)", "web3"),
        ("web,!~web[2,3]$", "web1"),
        ("~[^]x:]eb[12]$", "web1 web2"),
        # A name that Azure gives.
        ("VM,1", "db1"),
        ("web1,vm,1:web2", "web1 web2 db1"),
        ("web3,db1,!vm,1", "web3"),
        (["vm,1", "web1"], "web1 db1"),
    ],
)
def test_what_a_target_means(inventory, target, hosts):
    found = [host.name for host in inventory.get_hosts(find_hosts(target, GROUPS, VARIABLES))]
    # A name with a comma in it is a name of its own here, too.
    assert sorted(found) == sorted(hosts.split(" "))


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("web1,webb", "target web1,webb: webb matches no host, by its name in the inventory or by graceful_azure_resource_name"),
        ("webb", "target webb matches no host, by its name in the inventory or by graceful_azure_resource_name"),
        ("web,!webb:dbb", "target web,!webb:dbb: webb, dbb matches no host"),
        ("web1,webb[0]", "webb[0] matches no host"),
        (["web1", "web2,1001"], "target web1,web2,1001: 1001 matches no host"),
        ("", "target is empty"),
    ],
)
def test_a_part_that_nobody_knows(target, said):
    with pytest.raises(TargetError, match="^") as error:
        find_hosts(target, GROUPS, VARIABLES)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("[", "target [: [ has a bracket without its counterpart; write web[0:1]"),
        ("web1[", "target web1[: web1[ has a bracket without its counterpart"),
        ("web,!web[1", "target web,!web[1: !web[1 has a bracket without its counterpart"),
        ("~[", "target ~[: ~[ is not a regular expression: unterminated"),
        ("~web[1", "target ~web[1: ~web[1 is not a regular expression: unterminated"),
        ("~web(1,web2", "~web(1,web2 is not a regular expression: missing )"),
        ("web,&~*", "&~* is not a regular expression: nothing to repeat"),
        ("~", "target ~: ~ means every name; write a regular expression after ~"),
        ("web,!", "target web,!: ! matches no host"),
    ],
)
@pytest.mark.parametrize("unknown", ["fail", "ignore"])
def test_a_pattern_that_cannot_be_understood(target, said, unknown):
    """Ansible leaves out what it does not understand: web1[ would mean web1, and [ everybody."""
    assert needs_variables(target, GROUPS) in (True, False)
    with pytest.raises(TargetError, match="^") as error:
        find_hosts(target, GROUPS, VARIABLES, unknown)
    assert said in str(error.value)


@pytest.mark.parametrize(("target", "part"), [("web,&elsewhere", "&elsewhere"), ("web,!elsewhere", "!elsewhere"), ("web:&elsewhere:nobody", "&elsewhere")])
def test_what_narrows_a_target_is_never_ignored(target, part):
    with pytest.raises(TargetError, match=f"{part} matches no host; a part with ! or & narrows the target"):
        find_hosts(target, GROUPS, VARIABLES, unknown="ignore")


@pytest.mark.parametrize("target", ["nobody", "~nob(?:ody)", "web:!web", "web,&lb1", "x*", "web[9]", "web[5:7]", ["nobody"]])
@pytest.mark.parametrize("unknown", ["fail", "ignore"])
def test_a_target_without_a_host(target, unknown):
    """Ansible would say so, and end with success."""
    with pytest.raises(TargetError, match="^") as error:
        find_hosts(target, GROUPS, VARIABLES, unknown)
    shown = target if isinstance(target, str) else ",".join(target)
    assert str(error.value) == f"target {shown} matches no host, by its name in the inventory or by graceful_azure_resource_name"


@pytest.mark.parametrize("unknown", ["ingore", True])
def test_unknown_parts_fail_or_are_ignored_and_nothing_else(unknown):
    with pytest.raises(TargetError, match=f"handle_events_unknown_targets: {unknown!r} is neither fail nor ignore"):
        find_hosts("web", GROUPS, VARIABLES, unknown)


@pytest.mark.parametrize(("unknown", "is_reported"), [(None, True), ("", True), ("ignore", False), ("ignore", True)])
def test_who_may_name_strangers(unknown, is_reported):
    """Whoever reports an event, unless it is said otherwise."""
    assert find_hosts("web1,elsewhere", GROUPS, VARIABLES, unknown, is_reported) == "web1"


@pytest.mark.parametrize(("unknown", "is_reported"), [(None, False), ("", False), ("fail", False), ("fail", True)])
def test_who_may_not(unknown, is_reported):
    with pytest.raises(TargetError, match="elsewhere matches no host"):
        find_hosts("web1,elsewhere", GROUPS, VARIABLES, unknown, is_reported)


@pytest.mark.parametrize("name", ["lb1", "LB1", "db"], ids=["a host", "a host in other letters", "a group"])
def test_whoever_reports_an_event_means_names_in_azure(inventory, name):
    """Another host, or a group, may have the same name in the inventory. Who types it means that."""
    variables = dict(VARIABLES, web2={"graceful_azure_resource_name": name.lower()})
    for options in ({"is_reported": True}, {"unknown": "ignore"}):
        found = [host.name for host in inventory.get_hosts(find_hosts(f"{name},elsewhere", GROUPS, variables, **options))]
        assert "web2" in found and set(found) - {"web2"} == {"lb1": {"lb1"}, "db": {"db1", "web3"}}[name.lower()]
    found = [host.name for host in inventory.get_hosts(find_hosts(name, GROUPS, variables))]
    assert ("web2" in found) is (name == "LB1")


def test_whoever_reports_an_event_names_strangers_too():
    assert find_hosts("elsewhere:web1", GROUPS, VARIABLES, unknown="ignore") == "web1"
    with pytest.raises(TargetError, match="elsewhere"):
        find_hosts("elsewhere", GROUPS, VARIABLES, unknown="ignore")


@pytest.mark.parametrize(
    ("target", "needed"),
    [("web", False), ("web1,1001", False), ("w*:~x", False), ("web[0:1]", False), ("localhost", False), ("all", True), ("!web", True), ("VMSS-1.X", True)],
)
def test_when_the_variables_of_hosts_are_needed(target, needed):
    assert needs_variables(target, GROUPS) is needed


@pytest.mark.parametrize(
    "duties",
    [
        [{"type": "haproxy", "hosts": ["lb1"]}, "shop.service"],
        [{"type": "azure_load_balancer"}, {"type": "nginx", "hosts": ["lb1"]}],
    ],
)
def test_balancers_in_a_list(inventory, duties):
    variables = dict(VARIABLES, web1={DUTIES: duties})
    pattern = find_hosts("all", GROUPS, variables)
    assert "lb1" not in {host.name for host in inventory.get_hosts(pattern)} and len(inventory.get_hosts(pattern)) == len(GROUPS["all"]) - 1
    assert find_hosts("all", GROUPS, dict(variables, lb1={DUTIES: duties})) == "all"
    # Mistakes are told when the settings are checked.
    assert find_hosts("all", GROUPS, dict(VARIABLES, web1={DUTIES: ["nginx"]}, web2={DUTIES: "nginx"})) == "all"


@pytest.mark.parametrize(
    "variables",
    [
        {DUTIES: []},
        {DUTIES: [{"type": "haproxy", "hosts": ["lb1"]}]},
    ],
)
def test_a_balancer_that_is_handled_itself(variables):
    assert find_hosts("all", GROUPS, dict(VARIABLES, lb1=variables)) == "all"


class TestFilter:
    def test_it_gives_a_pattern_and_refuses_what_is_wrong(self):
        assert target("web1,VMSS-1.X", GROUPS, VARIABLES) == "web1,web1"
        with pytest.raises(AnsibleFilterError, match="target webb matches no host, by its name"):
            target("webb", GROUPS, VARIABLES)
        with pytest.raises(AnsibleFilterError, match="'maybe' is neither fail nor ignore"):
            target("web1", GROUPS, VARIABLES, unknown="maybe")

    def test_it_remembers_what_it_was_asked_and_not_more(self):
        assert target("web1,elsewhere", GROUPS, VARIABLES, is_reported=True) == "web1"
        with pytest.raises(AnsibleFilterError, match="elsewhere"):
            target("web1,elsewhere", GROUPS, VARIABLES)
        # Before the first play has begun there are no variables.
        with pytest.raises(AnsibleFilterError, match="VMSS"):
            target("VMSS-1.X", GROUPS)
        assert target("VMSS-1.X", GROUPS, VARIABLES) == "web1"
        assert target("web", dict(GROUPS, web=["web1"]), VARIABLES) == "web"

    def test_a_check_of_the_syntax_needs_no_inventory(self, monkeypatch):
        nobody = {"all": [], "ungrouped": []}
        with pytest.raises(AnsibleFilterError, match="target all matches no host"):
            target("all", nobody)
        monkeypatch.setattr(context, "CLIARGS", {"syntax": True})
        assert target("all", nobody) == target("web1", nobody) == "all"
        with pytest.raises(AnsibleFilterError, match="target webb matches no host"):
            target("webb", GROUPS)
