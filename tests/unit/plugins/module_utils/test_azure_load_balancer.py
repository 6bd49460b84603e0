# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Holds on addresses of Azure Load Balancer, against the stand-in for the resource manager within the same process. Its time is scripted."""

from __future__ import annotations

import copy
import sys
import time
from email.utils import formatdate
from types import SimpleNamespace

import pytest
import requests
import urllib3
from ansible_collections.graceful.azure.plugins.module_utils import _azure_load_balancer as balancer
from ansible_collections.graceful.azure.plugins.module_utils import _azure_resource_manager as arm
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import HoldError

from tests.support.azure import BALANCER, EVENT, LB, MEMBERS, OTHER_EVENT, POOL, member
from tests.support.azure_here import Here
from tests.support.calls import call
from tests.support.service import Clock


@pytest.fixture(name="azure")
def fixture_azure(monkeypatch):
    azure = Here()
    # Every session of requests sends through it.
    monkeypatch.setattr(requests.sessions, "HTTPAdapter", lambda: azure)
    return azure


@pytest.mark.parametrize("name, found", [("a", "absent"), ("b", "None"), ("d", "Up")])
def test_an_address_goes_out_and_comes_back_exactly_as_it_was(azure, name, found):
    before = azure.balancer()
    out = azure.hold(name)
    assert (out["changed"], out["done"], out["addresses"][0]["condition"]) == (True, True, "held")
    assert out["addresses"][0]["found"] == {"admin_state": found}
    assert azure.state(name) == "Down"
    back = azure.release(name)
    assert (back["changed"], back["done"], back["addresses"][0]["condition"]) == (True, True, "none")
    after = azure.balancer()
    assert azure.members() == MEMBERS
    assert after["tags"] == before["tags"] == {"owner": "me"}
    assert after["properties"]["backendAddressPools"][0]["properties"]["drainPeriodInSeconds"] == 7


def test_null_is_no_state(azure):
    """The record would be taken for a damaged one."""
    azure.act("a", None)
    azure.act("b", None)
    assert azure.hold()["addresses"][0]["found"] == {"admin_state": "absent"}
    assert not azure.hold()["changed"] and azure.state("a") == "Down"
    assert [(each["admin_state"], each["condition"]) for each in looked_at(azure, "b")] == [("absent", "none")]
    azure.release()
    assert azure.state("a") == "absent" and azure.state("b") is None and azure.balancer()["tags"] == {"owner": "me"}


def test_a_second_call_changes_and_writes_nothing(azure):
    azure.hold()
    writes = azure.writes()
    assert not azure.hold()["changed"]
    assert azure.writes() == writes
    azure.release()
    writes = azure.writes()
    assert not azure.release()["changed"]
    assert azure.writes() == writes


def test_the_record_is_written_before_the_pool(azure):
    azure.hold()
    assert [method for method, _status in azure.writes()] == ["PATCH", "PUT", "PATCH"]


def test_check_mode_predicts_and_writes_nothing(azure):
    told = azure.hold(check_mode=True)
    assert told["changed"] and told["diff"]["after"]["web a"] == {"admin_state": "Down", "held_by": [EVENT]}
    assert told["diff"]["before"]["web a"] == {"admin_state": "absent", "held_by": []}
    assert not azure.writes()
    azure.hold()
    writes = azure.writes()
    assert azure.release(check_mode=True)["diff"]["after"]["web a"] == {"admin_state": "absent", "held_by": []}
    assert azure.writes() == writes


def test_it_stays_out_until_the_last_event_is_released(azure):
    azure.hold()
    azure.hold(event_ids=[OTHER_EVENT])
    assert azure.release()["addresses"][0]["held_by"] == [OTHER_EVENT]
    assert azure.state("a") == "Down"
    azure.release(event_ids=[OTHER_EVENT.upper()])
    assert azure.state("a") == "absent"


def test_many_events_need_several_tags_and_leave_none(azure):
    events = ["%08d-d2cd-49c7-8624-8643e7171297" % number for number in range(9)]
    azure.hold(event_ids=events)
    assert all(len(value) <= 256 for value in azure.balancer()["tags"].values())
    azure.release(event_ids=events[1:])
    assert azure.hold(event_ids=events[:1])["addresses"][0]["held_by"] == events[:1]
    azure.release(event_ids=None)
    assert azure.balancer()["tags"] == {"owner": "me"}


def test_what_an_operator_took_out_is_not_touched(azure):
    assert azure.hold("c")["addresses"][0]["condition"] == "already_out"
    assert azure.release("c")["changed"] is False
    assert azure.state("c") == "Down" and not azure.writes()


def test_what_an_operator_changed_meanwhile_is_reported_and_left(azure):
    azure.hold()
    azure.act("a", "Up")
    assert azure.hold()["conflicts"] and azure.state("a") == "Up"
    told = azure.release()
    assert "somebody else set a" in told["conflicts"][0]
    assert azure.state("a") == "Up" and azure.balancer()["tags"] == {"owner": "me"}


def test_what_an_operator_changed_meanwhile_is_told_while_another_event_holds_it(azure):
    azure.hold(event_ids=[EVENT, OTHER_EVENT])
    azure.act("a", "Up")
    told = azure.release()
    assert "somebody else set a" in told["conflicts"][0] and told["addresses"][0]["condition"] == "changed_meanwhile"
    assert azure.state("a") == "Up" and told["addresses"][0]["held_by"] == [OTHER_EVENT]


def test_a_change_that_was_cut_off_is_continued(azure):
    azure.fault({"Status": 400}, Method="PUT")
    with pytest.raises(arm.AzureRefusedError):
        azure.hold()
    assert azure.balancer()["tags"] == {"owner": "me"}, "a refused change leaves no record"
    # The record is there, and the pool was not written.
    azure.fault({"Drop": True}, Method="PUT", times=99)
    with pytest.raises(arm.TimeOverError):
        azure.hold(timeout=2.0)
    assert len(azure.balancer()["tags"]) == 2 and azure.state("a") == "absent"
    azure.control("DELETE", "faults")
    assert azure.hold()["addresses"][0]["condition"] == "held"


def test_a_change_whose_record_does_not_say_that_it_is_done_is_noted_by_the_next_call(azure):
    azure.fault({"Drop": True}, Method="PUT", times=99)
    with pytest.raises(arm.TimeOverError):
        azure.hold(timeout=2.0)
    azure.control("DELETE", "faults")
    # Azure made the change, and the run was cut off before it heard of that.
    azure.act("a", "Down")
    assert [(each["condition"], each["noted"]) for each in looked_at(azure, "a")] == [("held", False)]
    azure.hold()
    assert [(each["condition"], each["noted"]) for each in looked_at(azure, "a")] == [("held", True)]
    azure.act("a", "None")
    assert "somebody else set a" in azure.hold()["conflicts"][0] and azure.state("a") == "None"


def looked_at(azure, name):
    return [each for each in call("azure_load_balancer_info", azure.params())["addresses"] if each["name"] == name]


def test_an_operation_that_lasts_is_continued_by_a_later_call(azure):
    azure.settings(operation_seconds=4)
    told = azure.hold(timeout=3.0)
    assert (told["done"], told["changed"]) == (False, True) and "still changing" in told["waiting_for"]
    assert azure.hold(timeout=20.0)["done"]
    azure.release(timeout=20.0)
    assert azure.members() == MEMBERS


def test_an_operation_that_fails_is_told(azure):
    azure.settings(fail_operations=1)
    with pytest.raises(arm.AzureError, match="ended as Failed: InternalServerError"):
        azure.hold()
    assert azure.state("a") == "absent"
    assert azure.hold()["addresses"][0]["condition"] == "held"


@pytest.mark.parametrize("status", [409, 429, 503])
def test_what_passes_is_tried_again(azure, status):
    azure.fault({"Status": status, "Headers": {"Retry-After": "1"}}, Method="PUT")
    assert azure.hold()["done"]
    assert azure.time.slept[0] == 1


@pytest.mark.parametrize("method, status, times", [("PUT", 412, 2), ("GET", 503, 3), ("PATCH", 500, 2), ("PUT", 409, 2)])
def test_what_passes_without_a_word_of_when_is_tried_again(azure, method, status, times):
    azure.settings(operation_seconds=3)
    azure.fault({"Status": status}, times=times, Method=method)
    assert azure.hold()["done"]
    assert azure.state("a") == "Down"
    assert azure.release()["done"]
    assert azure.members() == MEMBERS and azure.balancer()["tags"] == {"owner": "me"}


def test_retry_after_may_be_a_date(azure):
    azure.fault({"Status": 429, "Headers": {"Retry-After": formatdate(time.time() + 2, usegmt=True)}}, Method="GET")
    assert azure.hold()["done"]
    assert 1 <= azure.time.slept[0] <= 2


def test_a_retry_that_does_not_fit_is_told_at_once(azure):
    azure.fault({"Status": 429, "Code": "TooManyRequests", "Headers": {"Retry-After": "300"}}, Method="GET")
    with pytest.raises(arm.TimeOverError, match="429 TooManyRequests"):
        azure.hold(timeout=10.0)
    assert azure.time.slept == []


@pytest.mark.parametrize(
    "action, scope",
    [
        ("Microsoft.Network/loadBalancers/read", LB),
        ("Microsoft.Network/loadBalancers/backendAddressPools/read", POOL),
        ("Microsoft.Network/loadBalancers/backendAddressPools/write", POOL),
        ("Microsoft.Resources/tags/write", LB),
    ],
)
def test_a_lacking_right_is_named(azure, action, scope):
    azure.settings(denied=[action])
    with pytest.raises(arm.NotPermittedError, match="lacks the action %s on the scope %s" % (action, scope)):
        azure.hold()
    assert azure.state("a") == "absent" and azure.balancer()["tags"] == {"owner": "me"}


OPERATION_RIGHT = "Microsoft.Network/locations/operations/read"


def test_the_right_to_read_how_a_change_ends_is_named_and_the_record_stays(azure):
    azure.settings(denied=[OPERATION_RIGHT])
    said = (
        f"accepted the change of {POOL}, and does not tell how it ends. The identity lacks the action {OPERATION_RIGHT} on the scope /subscriptions/[^/ ]+\\."
    )
    with pytest.raises(arm.AzureError, match=said) as error:
        azure.hold()
    assert not isinstance(error.value, arm.AzureRefusedError), "the change itself was not refused"
    goes_on_after_a_refusal(azure)


@pytest.mark.parametrize("status", [400, 403, 404])
def test_a_refusal_after_the_change_keeps_the_record(azure, status):
    """The address would stay Down for ever: the next call would take it for somebody else's."""
    azure.fault({"Status": status}, Method="GET", Path="/operations/")
    with pytest.raises(arm.AzureError):
        azure.hold()
    goes_on_after_a_refusal(azure)


@pytest.mark.parametrize("what", ["read of the pool", "second record"])
def test_so_does_one_of_a_later_request(azure, monkeypatch, what):
    follow = arm.Client.follow

    def refuse_afterwards(client, *args):
        ended = follow(client, *args)
        azure.fault({"Status": 403}, **({"Method": "GET", "Path": "/backendAddressPools/"} if what == "read of the pool" else {"Method": "PATCH"}))
        return ended

    monkeypatch.setattr(arm.Client, "follow", refuse_afterwards)
    with pytest.raises(arm.NotPermittedError):
        azure.hold()
    monkeypatch.undo()
    monkeypatch.setattr(requests.sessions, "HTTPAdapter", lambda: azure)
    goes_on_after_a_refusal(azure)


def goes_on_after_a_refusal(azure):
    azure.control("DELETE", "faults")
    azure.settings(denied=[])
    azure.time.sleep(5)
    assert azure.state("a") == "Down" and len(azure.balancer()["tags"]) > 1
    assert azure.hold()["addresses"][0]["condition"] == "held"
    azure.release()
    assert azure.members() == MEMBERS and azure.balancer()["tags"] == {"owner": "me"}


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"secret": "wrong"}, "The secret is wrong"),
        ({"tenant": "elsewhere"}, "The tenant does not exist"),
        ({"client_id": "nobody"}, "does not know this client_id"),
        ({"secret": None}, "secret is missing"),
        ({"tenant": "a/b"}, "id or the domain"),
        ({"arm_url": "http://127.0.0.1"}, "http is refused"),
        ({"arm_url": "https://[::1"}, "arm_url is 'https://\\[::1'; it must be an address"),
        ({"arm_url": "https://arm.example:x"}, "arm_url is 'https://arm.example:x'; it must be an address"),
        ({"ca_file": "/missing"}, "is not a file"),
        ({"pools": [LB]}, "must be a resource id such as"),
        ({"pools": [POOL + "x"]}, "does not exist"),
        ({"address": "z"}, "has no address named z. Its addresses are: a, b, c, d"),
    ],
)
def test_bad_input_is_told_before_anything_is_changed(azure, wrong, said):
    with pytest.raises((arm.AzureError, ValueError), match=said):
        call("azure_load_balancer_hold", azure.params(**{"address": "a", **wrong}))
    assert not azure.writes()


def test_an_expired_secret_is_told(azure):
    azure.settings(clients={"app": None})
    with pytest.raises(arm.AuthenticationError, match="has expired"):
        azure.hold()


def test_an_expired_token_is_renewed(azure):
    azure.fault({"Status": 401, "Code": "ExpiredAuthenticationToken"}, Method="GET")
    assert azure.hold()["done"]


def test_a_managed_identity_gives_the_token(azure):
    assert azure.hold(auth_source="msi", client_id=None, secret=None, tenant=None)["done"]
    with pytest.raises(arm.AuthenticationError, match="no such managed identity"):
        azure.release(auth_source="msi", client_id="other")


@pytest.mark.parametrize(
    "given, said",
    [
        ({}, "none of them is set"),
        ({"AZURE_CLIENT_ID": "app", "AZURE_CLIENT_SECRET": "x"}, "not set: AZURE_TENANT"),
        ({"AZURE_TENANT": "t"}, "not set: AZURE_CLIENT_ID, AZURE_SECRET"),
    ],
)
def test_without_credentials_it_is_told_what_to_set(monkeypatch, given, said):
    clock = Clock()

    class Nowhere(requests.adapters.BaseAdapter):
        def send(self, request, **options):
            connection = urllib3.connection.HTTPConnection("169.254.169.254")
            reason = urllib3.exceptions.NewConnectionError(connection, "Failed to establish a new connection: [Errno 101] Network is unreachable")
            raise requests.exceptions.ConnectionError(urllib3.exceptions.MaxRetryError(None, request.url, reason))

        def close(self):
            """There is nothing to close."""

    monkeypatch.setattr(requests.sessions, "HTTPAdapter", Nowhere)
    monkeypatch.setitem(sys.modules, "azure.identity", None)
    monkeypatch.setenv("HOME", "/nowhere")
    params = {"auth_source": "auto", "cloud_environment": "AzureCloud", "profile": "shop"}
    client = arm.Client(params, 5.0, clock.monotonic, clock.sleep, environ=given)
    with pytest.raises(arm.AuthenticationError) as told:
        client.get("/subscriptions/s", "2024-05-01")
    assert str(told.value) == (
        f"There are no credentials. Set AZURE_CLIENT_ID, AZURE_SECRET, AZURE_TENANT ({said}), or write a section [shop] with client_id, secret and tenant"
        " into ~/.azure/credentials, or install azure-identity. No managed identity answers: GET http://169.254.169.254/metadata/identity/oauth2/token"
        " was not answered in time: Failed to establish a new connection: [Errno 101] Network is unreachable."
    )


def test_the_address_is_found_by_its_ip_also_when_it_is_gone(azure):
    azure.hold(None, ip_address="10.0.0.5")
    assert azure.state("b") == "Down"
    resource = azure.balancer()
    addresses = resource["properties"]["backendAddressPools"][0]["properties"]["loadBalancerBackendAddresses"]
    addresses[:] = [each for each in addresses if each["name"] != "b"]
    azure.control("POST", "load-balancers", resource)
    told = azure.release(None, ip_address="10.0.0.5")
    assert "not in the pool" in told["conflicts"][0] and azure.balancer()["tags"] == {"owner": "me"}


def rename(azure, old, new, **state):
    """An operator deletes a member, and adds it again under another name."""
    resource = azure.balancer()
    addresses = resource["properties"]["backendAddressPools"][0]["properties"]["loadBalancerBackendAddresses"]
    addresses[:] = [member(new, each["properties"]["ipAddress"], **state) if each["name"] == old else each for each in addresses]
    azure.control("POST", "load-balancers", resource)


@pytest.mark.parametrize("event_ids", [[EVENT], None])
def test_a_release_forgets_the_hold_of_the_name_that_the_ip_address_had_before(azure, event_ids):
    """Its tag would stay for ever, and each run would try to release it."""
    azure.hold(None, ip_address="10.0.0.4")
    rename(azure, "a", "a2")
    told = azure.release(None, ip_address="10.0.0.4", event_ids=event_ids, check_mode=True)
    assert told["changed"] and len(azure.balancer()["tags"]) > 1
    told = azure.release(None, ip_address="10.0.0.4", event_ids=event_ids)
    assert told["changed"] and told["done"] and told["conflicts"] == [f"a is not in the pool {POOL} any more: there is nothing to give back."]
    assert azure.balancer()["tags"] == {"owner": "me"} and azure.state("a2") == "absent"
    assert not azure.release(None, ip_address="10.0.0.4", event_ids=event_ids)["changed"]


def test_a_hold_of_the_new_name_is_given_back_with_it(azure):
    azure.hold(None, ip_address="10.0.0.4")
    rename(azure, "a", "a2", adminState="None")
    told = azure.hold(None, ip_address="10.0.0.4")
    assert [each["name"] for each in told["addresses"]] == ["a2"] and azure.state("a2") == "Down" and told["conflicts"] == []
    azure.release(None, ip_address="10.0.0.4")
    assert azure.state("a2") == "None" and azure.balancer()["tags"] == {"owner": "me"}


def test_a_hold_of_the_former_name_for_another_event_stays(azure):
    azure.hold(None, ip_address="10.0.0.4", event_ids=[OTHER_EVENT])
    rename(azure, "a", "a2")
    assert not azure.release(None, ip_address="10.0.0.4")["changed"] and len(azure.balancer()["tags"]) > 1


def test_a_damaged_record_of_another_host_keeps_no_address_from_coming_back(azure):
    azure.hold(None, ip_address="10.0.0.4")
    azure.hold("b")
    resource = azure.balancer()
    resource["tags"][balancer.key_of(POOL, "b") + "0"] = "1:x:y"
    azure.control("POST", "load-balancers", resource)
    assert not azure.hold(None, ip_address="10.0.0.4")["changed"]
    azure.release(None, ip_address="10.0.0.4")
    assert azure.state("a") == "absent"


def test_several_former_names_are_forgotten_when_the_address_is_gone(azure):
    azure.hold(None, ip_address="10.0.0.4")
    rename(azure, "a", "a2")
    azure.hold(None, ip_address="10.0.0.4")
    rename(azure, "a2", "a3")
    resource = azure.balancer()
    del resource["properties"]["backendAddressPools"][0]["properties"]["loadBalancerBackendAddresses"][0]
    azure.control("POST", "load-balancers", resource)
    assert len(azure.release(None, ip_address="10.0.0.4")["conflicts"]) == 2 and azure.balancer()["tags"] == {"owner": "me"}


@pytest.mark.parametrize(("name", "ip"), [("B", None), (None, "2001:DB8:0:0::5")])
def test_names_have_no_case_and_ip_addresses_many_spellings(azure, name, ip):
    resource = azure.balancer()
    for each in resource["properties"]["backendAddressPools"][0]["properties"]["loadBalancerBackendAddresses"]:
        if each["name"] == "b":
            each["properties"]["ipAddress"] = "2001:db8::5"
    azure.control("POST", "load-balancers", resource)
    azure.hold(name, **({"ip_address": ip} if ip else {}))
    assert azure.state("b") == "Down"
    azure.release(name, **({"ip_address": ip} if ip else {}))
    assert azure.state("b") != "Down" and azure.balancer()["tags"] == {"owner": "me"}


def test_members_on_network_interfaces_keep_their_fields(azure):
    resource = copy.deepcopy(BALANCER)
    members = resource["properties"]["backendAddressPools"][0]["properties"]["loadBalancerBackendAddresses"]
    for each in members:
        each["properties"]["networkInterfaceIPConfiguration"] = {"id": "/subscriptions/s/nic/" + each["name"]}
    azure.control("POST", "load-balancers", resource)
    azure.hold()
    azure.release()
    assert azure.members() == members


def test_a_damaged_record_is_told_and_nothing_is_touched(azure):
    azure.hold()
    resource = azure.balancer()
    key = balancer.key_of(POOL, "a") + "0"
    resource["tags"][key] = resource["tags"][key][:-3]
    azure.control("POST", "load-balancers", resource)
    writes = azure.writes()
    for act in (azure.hold, azure.release):
        with pytest.raises(HoldError, match="are damaged"):
            act()
    assert azure.writes() == writes


def test_no_room_for_another_tag_is_told_before_the_change(azure):
    resource = azure.balancer()
    resource["tags"] = {"tag%d" % number: "" for number in range(50)}
    azure.control("POST", "load-balancers", resource)
    with pytest.raises(HoldError, match="Azure allows 50"):
        azure.hold()
    assert not azure.writes() and azure.state("a") == "absent"


def test_info_shows_all_addresses_and_who_holds_them(azure):
    azure.hold()
    writes = azure.writes()
    told = call("azure_load_balancer_info", azure.params())
    assert [(each["name"], each["admin_state"], each["condition"], each["held_by"]) for each in told["addresses"]] == [
        ("a", "Down", "held", [EVENT]),
        ("b", "None", "none", []),
        ("c", "Down", "already_out", []),
        ("d", "Up", "none", []),
    ]
    assert azure.writes() == writes


def test_a_member_on_a_network_interface_is_found_by_its_ip(azure):
    interface = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Network/networkInterfaces/nic"
    resource = copy.deepcopy(BALANCER)
    properties = {"networkInterfaceIPConfiguration": {"id": interface + "/ipConfigurations/first"}}
    resource["properties"]["backendAddressPools"][0]["properties"]["loadBalancerBackendAddresses"] = [{"name": "x", "properties": properties}]
    azure.control("POST", "load-balancers", resource)
    configurations = [{"name": "first", "properties": {"privateIPAddress": "10.0.0.9"}}]
    azure.control("POST", "load-balancers", {"id": interface, "properties": {"ipConfigurations": configurations}})
    azure.hold(None, ip_address="10.0.0.9")
    assert azure.state("x") == "Down"
    azure.release(None, ip_address="10.0.0.9")
    assert azure.members() == [{"name": "x", "properties": properties}]


def test_a_later_run_learns_from_the_record_what_the_event_was(azure):
    details = {"event_type": "Reboot", "resources": ["web_0", "web_1"], "not_before": "2026-11-24T12:00:00Z", "action": "prepare", "rule": "né"}
    azure.hold(event_details={EVENT: details})
    (record,) = call("azure_load_balancer_info", azure.params(servers=["10.0.0.4"]))["holds"]
    assert record["events"][EVENT]["details"] == details
    assert (record["subject"], record["for_server"]) == ({"pool": POOL, "address": "a"}, "10.0.0.4")
    assert record["path"].startswith("the tags graceful-azure-") and record["path"].endswith(LB)
    azure.release()
    assert azure.balancer()["tags"] == {"owner": "me"}


def test_an_event_that_another_run_adds_during_a_release_stays(azure):
    azure.hold()
    client = arm.Client(azure.params(), 20.0)
    pools = balancer.Pools(client)
    store = balancer.TagStore(pools)
    old = store.read(POOL, "a")
    azure.hold(event_ids=[OTHER_EVENT])
    store.replace(old, None)
    assert set(store.read(POOL, "a")["events"]) == {EVENT, OTHER_EVENT}


def test_a_state_that_azure_keeps_although_it_was_left_out_is_given_back_as_none(azure):
    azure.settings(keep_states=True)
    azure.hold()
    assert azure.release()["done"]
    assert azure.state("a") == "None"
    assert azure.balancer()["tags"] == {"owner": "me"}


def set_provisioning_state(azure, state):
    resource = azure.balancer()
    resource["properties"]["backendAddressPools"][0]["properties"]["provisioningState"] = state
    azure.control("POST", "load-balancers", resource)


@pytest.mark.parametrize("state", ["Updating", "Failed", "Canceled"])
def test_what_others_do_to_the_pool_puts_no_held_host_back_into_rotation(azure, state):
    azure.hold()
    set_provisioning_state(azure, state)
    (mine,) = looked_at(azure, "a")
    assert (mine["admin_state"], mine["condition"], mine["settled"]) == ("Down", "held", True)
    writes = azure.writes()
    assert azure.hold()["done"] and azure.writes() == writes


@pytest.mark.parametrize("state, settled", [("Updating", False), ("Failed", True), ("Canceled", True)])
def test_what_an_operator_took_out_is_out_when_azure_has_ended(azure, state, settled):
    set_provisioning_state(azure, state)
    assert [(each["condition"], each["settled"]) for each in looked_at(azure, "c")] == [("already_out", settled)]


@pytest.mark.parametrize("state", ["Failed", "Canceled"])
def test_a_change_that_failed_after_it_showed_is_written_again(azure, state):
    azure.settings(operation_seconds=4)
    assert not azure.hold(timeout=3.0)["done"]
    azure.settings(operation_seconds=0)
    azure.act("a", "Down")
    set_provisioning_state(azure, state)
    assert [(each["condition"], each["settled"]) for each in looked_at(azure, "a")] == [("changing", False)]
    told = azure.hold(timeout=9.0)
    assert told["done"] and told["addresses"][0]["condition"] == "held"
    assert [(each["condition"], each["settled"]) for each in looked_at(azure, "a")] == [("held", True)]


def test_a_release_that_failed_after_it_showed_is_written_again(azure):
    azure.hold()
    azure.settings(operation_seconds=4)
    assert not azure.release(timeout=3.0)["done"]
    azure.settings(operation_seconds=0)
    azure.act("a", "None")
    set_provisioning_state(azure, "Failed")
    assert azure.release(timeout=9.0)["done"]
    assert azure.balancer()["tags"] == {"owner": "me"}


def test_412_again_and_again_is_no_storm(azure):
    azure.fault({"Status": 412}, Method="PUT", times=10**6)
    with pytest.raises(arm.ChangedError):
        azure.hold(timeout=15.0)
    assert len(azure.control("GET", "requests")) < 60
    slept = azure.time.slept
    assert 0.1 <= slept[0] <= 0.3 and max(slept) <= 3.0 and len(set(slept)) > 1


def test_a_lock_on_the_load_balancer_is_told_at_once(azure):
    azure.fault({"Status": 409, "Code": "ScopeLocked"}, Method="PUT", times=10**6)
    with pytest.raises(arm.AzureRefusedError, match="ScopeLocked"):
        azure.hold()
    assert azure.time.slept == [] and azure.balancer()["tags"] == {"owner": "me"}


def on_interfaces(azure, *members):
    """A pool of members on network interfaces. Each member: its name, the resource group of its interface, and its IP address, or None if it is gone."""
    resource = copy.deepcopy(BALANCER)
    entries = []
    for name, group, ip in members:
        interface = f"/subscriptions/s/resourceGroups/{group}/providers/Microsoft.Network/networkInterfaces/{name}"
        entries.append({"name": name, "properties": {"networkInterfaceIPConfiguration": {"id": interface + "/ipConfigurations/ip"}}})
        configurations = [{"name": "ip", "properties": {"privateIPAddress": ip}}]
        if ip:
            azure.control("POST", "load-balancers", {"id": interface, "properties": {"ipConfigurations": configurations}})
    resource["properties"]["backendAddressPools"][0]["properties"]["loadBalancerBackendAddresses"] = entries
    azure.control("POST", "load-balancers", resource)


@pytest.mark.parametrize("status", [403, 404])
def test_an_interface_that_cannot_be_read_hides_no_other_host(azure, status):
    on_interfaces(azure, ("x", "other", "10.0.0.8" if status == 403 else None), ("y", "rg", "10.0.0.9"), ("z", "rg", "10.0.0.10"))
    if status == 403:
        azure.fault({"Status": 403}, Method="GET", Path="networkInterfaces/x", times=99)
    assert azure.hold(None, ip_address="10.0.0.9")["addresses"][0]["name"] == "y"
    seen = call("azure_load_balancer_info", azure.params(servers=["10.0.0.9"]))
    assert [(each["name"], each["ip_address"]) for each in seen["addresses"]] == [("x", None), ("y", "10.0.0.9"), ("z", None)]
    asked = [each["Path"] for each in azure.control("GET", "requests")]
    assert not any("networkInterfaces/z" in path for path in asked), "the host's own was found before"
    # If the host's own is not found, it may be the one that cannot be read.
    with pytest.raises(arm.AzureError, match="cannot be read: .*networkInterfaces/x"):
        azure.hold(None, ip_address="10.0.0.8")
    seen = call("azure_load_balancer_info", azure.params(servers=["10.0.0.8"]))
    (said,) = seen["unread"]
    assert "networkInterfaces/x" in said


def test_two_controllers_that_add_events_to_one_hold_lose_none(azure, monkeypatch):
    """Both have read the record before either writes it."""
    azure.hold(event_ids=["E0"])
    replace, others = balancer.TagStore.replace, []

    def replace_after_the_other(self, record, wanted):
        if wanted is not None and "E1" in wanted["events"] and not others:
            others.append(azure.hold(event_ids=["E2"])["addresses"][0]["held_by"])
        return replace(self, record, wanted)

    monkeypatch.setattr(balancer.TagStore, "replace", replace_after_the_other)
    told = azure.hold(event_ids=["E1"])
    monkeypatch.undo()
    assert others == [["E0", "E2"]] and told["done"]
    assert set(told["addresses"][0]["held_by"]) == {"E0", "E1", "E2"}


def test_an_event_that_another_controller_overwrote_is_added_again(azure, monkeypatch):
    """The other's write comes between our look at the tags and our write, or right after it."""
    azure.hold(event_ids=["E0"])
    change, others = balancer.Pools.change_tags, []

    def change_before_the_other(self, *arguments):
        change(self, *arguments)
        if not others:
            others.append(azure.balancer()["tags"])
            old = azure.balancer()
            old["tags"] = tags
            azure.control("POST", "load-balancers", old)

    tags = azure.balancer()["tags"]
    monkeypatch.setattr(balancer.Pools, "change_tags", change_before_the_other)
    told = azure.hold(event_ids=["E1"])
    assert others and told["done"] and set(told["addresses"][0]["held_by"]) == {"E0", "E1"}
    assert set(looked_at(azure, "a")[0]["held_by"]) == {"E0", "E1"}


def test_a_release_gives_nothing_back_that_another_controller_has_just_held(azure, monkeypatch):
    azure.hold(event_ids=["E0"])
    replace, others = balancer.TagStore.replace, []

    def replace_after_the_other(self, record, wanted):
        if wanted is not None and wanted["phase"] == "restoring" and not others:
            others.append(True)
            azure.hold(event_ids=["E2"])
        return replace(self, record, wanted)

    monkeypatch.setattr(balancer.TagStore, "replace", replace_after_the_other)
    with pytest.raises(arm.ChangedError, match="Another run has changed the hold on a"):
        azure.release(event_ids=["E0"])
    assert azure.state("a") == "Down"
    assert azure.release(event_ids=["E0"])["addresses"][0]["held_by"] == ["E2"]


def client_of(monkeypatch, *answers, **params):
    """A client whose requests get these answers, each a status and a text. Whoever asks for a token gets one."""
    clock, left = Clock(), list(answers)

    class Scripted(requests.adapters.BaseAdapter):
        def send(self, request, **options):
            answer = requests.Response()
            token = 200, '{"access_token": "t", "expires_in": 3600}'
            answer.status_code, text = token if "/oauth2/" in request.url else left.pop(0)
            answer._content, answer.url = text.encode(), request.url
            return answer

        def close(self):
            """There is nothing to close."""

    monkeypatch.setattr(requests.sessions, "HTTPAdapter", Scripted)
    known = {"auth_source": "auto", "cloud_environment": "AzureCloud", "client_id": "app", "secret": "right", "tenant": "t", "arm_url": "https://arm.example"}
    return arm.Client({**known, **params}, 5.0, clock.monotonic, clock.sleep, environ={})


@pytest.mark.parametrize(
    "status, text, error, said",
    [
        (401, '{"error": {"code": "InvalidAuthenticationTokenTenant"}}', arm.AuthenticationError, "The token is of the wrong tenant: check tenant"),
        (401, '{"error": {"code": "InvalidAuthenticationToken"}}', arm.AuthenticationError, "not accepted. Azure says: InvalidAuthenticationToken"),
        (400, "<html>", arm.AzureRefusedError, "was refused with 400. Azure says: no code: <html>"),
        (200, "[]", arm.AzureError, "was answered with 200 and no JSON object. Is this the resource manager"),
    ],
)
def test_what_another_answer_means(monkeypatch, status, text, error, said):
    # A token that is not accepted is renewed once.
    client = client_of(monkeypatch, (status, text), (status, text))
    with pytest.raises(error, match=said):
        client.get("/subscriptions/s", "2024-05-01")


@pytest.mark.parametrize("status", [100, 203, 204, 206, 301, 302, 304, 307, 399])
@pytest.mark.parametrize("text", ["", '{"status": "Succeeded"}'])
def test_no_other_status_counts_as_done(monkeypatch, status, text):
    """An approval that a proxy answers is none, and no change is."""
    client = client_of(monkeypatch, *[(status, text)] * 5)
    for ask in (
        lambda: client.post("/subscriptions/s", "2024-05-01"),
        lambda: client.get("/subscriptions/s", "2024-05-01"),
        lambda: client.put("/subscriptions/s", "2024-05-01", {}, "1"),
        lambda: client.patch("/subscriptions/s", "2024-05-01", {}),
        lambda: client.follow("https://arm.example/operations/1", "the pool", 5.0),
    ):
        with pytest.raises(arm.AzureError, match=f"was answered with {status}, which is no answer of the resource manager") as error:
            ask()
        assert not isinstance(error.value, arm.AzureRefusedError)


@pytest.mark.parametrize("status, text", [(200, ""), (200, "{}"), (201, "{}"), (202, "")])
def test_an_acknowledgement_may_be_answered_with_nothing(monkeypatch, status, text):
    assert client_of(monkeypatch, (status, text)).post("/subscriptions/s", "2025-11-01") == {}


@pytest.mark.parametrize("text", ["", "<html>", "[]"])
def test_the_status_of_an_operation_is_an_object(monkeypatch, text):
    client = client_of(monkeypatch, (200, text))
    with pytest.raises(arm.AzureError, match="no JSON object"):
        client.follow("https://arm.example/operations/1", "the pool", 5.0)


def test_an_operation_that_lies_elsewhere_gets_no_token(monkeypatch):
    client = client_of(monkeypatch)
    with pytest.raises(arm.AzureError, match="It gets no token of ours"):
        client.follow("https://elsewhere.example/operations/1", "the pool", 5.0)


@pytest.fixture(name="identity")
def fixture_identity(monkeypatch):
    """The package azure-identity, which this machine need not have. Its credentials tell how they are asked."""
    asked = []

    class Credential:
        def __init__(self, **options):
            asked.append(options)

        def get_token(self, scope):
            asked.append(scope)
            if len(asked) > 2:
                raise RuntimeError("Please run az login")
            return SimpleNamespace(token="t", expires_on=time.time())

    package = SimpleNamespace(AzureCliCredential=Credential, DefaultAzureCredential=Credential)
    monkeypatch.setitem(sys.modules, "azure", SimpleNamespace(identity=package))
    monkeypatch.setitem(sys.modules, "azure.identity", package)
    return asked


@pytest.mark.parametrize(
    "params, options",
    [
        ({"auth_source": "cli"}, {}),
        ({"secret": None, "tenant": None}, {"authority": "https://login.microsoftonline.com", "managed_identity_client_id": "app"}),
        ({"client_id": None, "secret": None, "tenant": None}, {"authority": "https://login.microsoftonline.com"}),
    ],
)
def test_azure_identity_is_asked_once_for_a_credential_and_again_for_each_token(monkeypatch, identity, params, options):
    monkeypatch.setenv("HOME", "/nowhere")
    client = client_of(monkeypatch, (200, "{}"), **params)
    assert client.get("/subscriptions/s", "2024-05-01") == {}
    assert identity == [options, "https://arm.example/.default"]
    # The first token is too old by now.
    with pytest.raises(arm.AuthenticationError, match="got no token: Please run az login"):
        client.get("/subscriptions/s", "2024-05-01")
    assert identity == [options, *["https://arm.example/.default"] * 2]


def serving(azure):
    return [name for name in "abd" if azure.state(name) != "Down"]


def test_too_few_others_refuse_the_hold(azure):
    """Three of four are in service."""
    assert azure.hold("a", min_in_service="2")["refused"] == []
    told = azure.hold("b", min_in_service="2")
    assert (told["changed"], told["refused"]) == (False, ["b stays: 2 of 4 in service in pool web (a is out; c is out), 2 must stay."])
    assert serving(azure) == ["b", "d"] and len(azure.balancer()["tags"]) == 2
    assert azure.hold("b", min_in_service="50%")["refused"] and azure.hold("b", min_in_service="1")["refused"] == []
    # What is out already is held for further events.
    assert azure.hold("a", event_ids=[OTHER_EVENT], min_in_service="3")["addresses"][0]["held_by"] == [EVENT, OTHER_EVENT]


def test_what_is_given_back_counts_when_azure_has_finished(azure):
    azure.hold("a", timeout=20.0)
    azure.settings(operation_seconds=4)
    assert not azure.release("a", timeout=3.0)["done"] and azure.state("a") != "Down"
    assert azure.hold("b", min_in_service="2", timeout=3.0)["refused"] == ["b stays: 2 of 4 in service in pool web (a is out; c is out), 2 must stay."]
    assert azure.release("a", timeout=20.0)["done"] and azure.hold("b", min_in_service="2", timeout=20.0)["done"]


def test_two_controllers_take_out_no_server_too_many(azure, monkeypatch):
    """Each has seen two others in service. Azure takes only the first write of both."""
    write, other = balancer.Pools.write, []

    def write_after_another(pools, pool, body, name, *more):
        if not other:
            other.append(name)
            azure.hold("b", min_in_service="2")
        return write(pools, pool, body, name, *more)

    monkeypatch.setattr(balancer.Pools, "write", write_after_another)
    told = azure.hold("a", min_in_service="2")
    monkeypatch.setattr(balancer.Pools, "write", write)
    assert other and not told["done"] and told["refused"] == ["a stays: 2 of 4 in service in pool web (b is out; c is out), 2 must stay."]
    assert serving(azure) == ["a", "d"] and azure.hold("a", min_in_service="1")["done"]
    azure.release("a")
    azure.release("b")
    assert azure.members() == MEMBERS and azure.balancer()["tags"] == {"owner": "me"}


NIC = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Network/networkInterfaces/nic1"


def pool_of(name, *entries):
    return {"name": name, "id": f"{LB}/backendAddressPools/{name}", "properties": {"loadBalancerBackendAddresses": list(entries)}}


def on_interface(name, configuration, nic=NIC, **more):
    return {"name": name, "properties": {"networkInterfaceIPConfiguration": {"id": f"{nic}/ipConfigurations/{configuration}"}, **more}}


def rule(port, *pools, plural=False, **more):
    ids = [{"id": f"{LB}/backendAddressPools/{name}"} for name in pools]
    known = {"backendPort": port, "probe": {"id": f"{LB}/probes/health"}}
    return {"name": f"r{port}", "properties": {**known, **({"backendAddressPools": ids} if plural else {"backendAddressPool": ids[0]}), **more}}


def test_other_pools_and_inbound_nat_rules_that_lead_to_a_member_are_told():
    """The administrative state counts for one pool, and for no inbound NAT rule."""
    pools = [
        pool_of("web", *MEMBERS, on_interface("e", "one")),
        pool_of("API", member("x", "10.0.0.4"), member("y", "10.0.0.6"), member("z", "10.0.0.9")),
        pool_of("six", on_interface("six", "v6", NIC.upper())),
        pool_of("out", member("o", "10.0.0.4")),
        pool_of("down", member("o", "10.0.0.4", adminState="Down")),
    ]
    rules = [rule(80, "web"), rule(8080, "api"), rule(8081, "API", plural=True), rule(0, "six"), rule(80, "down")]
    nat = [
        {"name": "all", "properties": {"backendAddressPool": {"id": POOL.lower()}, "backendPort": 22}},
        {"name": "one", "properties": {"backendIPConfiguration": {"id": NIC + "/ipConfigurations/one"}, "backendPort": 23}},
        {"name": "strange", "properties": {"backendIPConfiguration": {"id": NIC + "2/ipConfigurations/one"}, "backendPort": 24}},
    ]
    resource = {"properties": {"backendAddressPools": pools, "loadBalancingRules": rules, "inboundNatRules": nat}}
    members = pools[0]["properties"]["loadBalancerBackendAddresses"]
    found = [(way["of"], (way["pool"] or "").rpartition("/")[2], way["name"], way["rule"], way["ports"]) for way in balancer.ways_past(resource, POOL, members)]
    assert found == [
        *((None, "web", each["name"], None, [80]) for each in MEMBERS if each["properties"].get("adminState") != "Down"),
        ("a", "API", "x", None, [8080, 8081]),
        ("c", "API", "y", None, [8080, 8081]),
        (None, "API", "z", None, [8080, 8081]),
        ("e", "six", "six", None, [0]),
        *((each["name"], "", None, "all", [22]) for each in members),
        ("e", "", None, "one", [23]),
    ]


def test_a_nat_rule_and_a_rule_without_a_probe_lead_to_a_member_through_another_pool():
    """An inbound NAT rule may have a pool of its own. Without a probe, C(Down) means nothing in any pool."""
    own = [member("a", "10.0.0.4"), on_interface("e", "one")]
    pools = [
        pool_of("web", *own),
        pool_of("nat", member("n", "10.0.0.4"), on_interface("f", "two")),
        pool_of("api", member("x", "10.0.0.4", adminState="Down")),
    ]
    nat = [{"name": "each", "properties": {"backendAddressPool": {"id": f"{LB}/backendAddressPools/NAT"}, "backendPort": 8080}}]
    rules = [rule(80, "web"), rule(81, "api"), rule(82, "api", probe=None)]
    resource = {"properties": {"backendAddressPools": pools, "loadBalancingRules": rules, "inboundNatRules": nat}}
    found = [(way["of"], way["rule"], way["ports"]) for way in balancer.ways_past(resource, POOL, own) if way["rule"]]
    assert found == [("a", "r82", [82]), ("a", "each", [8080]), ("e", "each", [8080])]


def test_another_address_of_the_same_machine_in_the_pool_is_told():
    """A network interface may be in one pool with several IP configurations. The administrative state counts for one of them."""
    entries = [on_interface("e", "one"), on_interface("f", "two"), on_interface("g", "one", NIC + "2"), on_interface("h", "three", adminState="Down")]
    resource = {"properties": {"backendAddressPools": [pool_of("web", *entries)], "loadBalancingRules": [rule(80, "web")]}}
    found = [(way["of"], way["name"], way["ports"]) for way in balancer.ways_past(resource, POOL, entries)]
    assert found == [("f", "e", [80]), ("h", "e", [80]), ("e", "f", [80]), ("h", "f", [80])]


@pytest.mark.parametrize(("probe", "seconds"), [({"intervalInSeconds": 5}, 15.0), ({"intervalInSeconds": 5, "probeThreshold": 3, "numberOfProbes": 9}, 25.0)])
def test_how_long_a_probe_may_take_to_notice(probe, seconds):
    probes = [{"id": f"{LB}/probes/Health", "properties": probe}, {"id": f"{LB}/probes/other", "properties": {"intervalInSeconds": 60}}]
    resource = {"properties": {"loadBalancingRules": [rule(80, "WEB", plural=True), rule(81, "api")], "probes": probes}}
    assert balancer.notice_of(resource, POOL) == seconds
    assert balancer.notice_of({"properties": {"loadBalancingRules": [rule(80, "web")]}}, POOL) == balancer.notice_of({}, POOL) == 0.0


def test_to_which_ports_the_rules_of_a_pool_lead():
    rules = [rule(80, "WEB", plural=True), rule(443, "web", protocol="Tcp"), rule(53, "web", protocol="Udp"), rule(81, "api"), rule(0, "web", protocol="All")]
    assert balancer.ports_of({"properties": {"loadBalancingRules": rules}}, POOL) == [0, 80, 443]
    assert balancer.ports_of({}, POOL) == []


@pytest.mark.parametrize("probe", [{}, {"probe": None}])
def test_a_rule_without_a_probe_does_not_follow_the_administrative_state(probe):
    """Azure says so in its page about that state."""
    without = rule(8080, "WEB", plural=True)
    del without["properties"]["probe"]
    without["properties"].update(probe)
    resource = {
        "properties": {"backendAddressPools": [pool_of("web", *MEMBERS[:2])], "loadBalancingRules": [rule(80, "web"), without, rule(0, "api", probe=None)]}
    }
    way = {"pool": None, "name": None, "rule": "r8080", "ports": [8080], "probed": False}
    found = [found for found in balancer.ways_past(resource, POOL, MEMBERS[:2]) if found["of"] or found["rule"]]
    assert found == [dict(way, of="a"), dict(way, of="b")]


def test_a_look_tells_what_leads_past_a_pool(azure):
    resource = azure.balancer()
    resource["properties"]["backendAddressPools"].append(pool_of("api", member("x", "10.0.0.5")))
    resource["properties"]["loadBalancingRules"] = [rule(8080, "api")]
    azure.control("POST", "load-balancers", resource)
    told = call("azure_load_balancer_info", azure.params())
    assert told["past"] == [
        {"at": POOL, "of": "b", "pool": LB + "/backendAddressPools/api", "name": "x", "ip_address": "10.0.0.5", "rule": None, "ports": [8080]}
    ]
    assert call("azure_load_balancer_info", azure.params(pools=[LB + "/backendAddressPools/nothing"]))["problem"]


@pytest.mark.parametrize("way", ["state", "gone"])
def test_one_old_answer_makes_no_release_forget_a_hold(azure, monkeypatch, way):
    """The address would stay Down for ever: no record would say that it is ours."""
    azure.hold()
    read, old = balancer.Pools.read, []

    def read_old(pools, pool):
        body = read(pools, pool)
        if not old:
            old.append(pool)
            members = body["properties"]["loadBalancerBackendAddresses"]
            if way == "state":
                del members[0]["properties"]["adminState"]
            else:
                del members[0]
        return body

    monkeypatch.setattr(balancer.Pools, "read", read_old)
    told = azure.release()
    assert told["done"] and told["conflicts"] == [] and azure.state("a") == "absent" and azure.balancer()["tags"] == {"owner": "me"}


def test_what_two_reads_say_is_believed(azure):
    azure.hold()
    azure.act("a", "Up")
    began = azure.time.monotonic()
    told = azure.release()
    assert len(told["conflicts"]) == 1 and azure.state("a") == "Up" and azure.time.monotonic() - began >= balancer.AGAIN_SECONDS
