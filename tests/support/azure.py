# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-in for Azure Resource Manager as a process that serves TLS, with one load balancer whose pool has four addresses."""

from __future__ import annotations

import contextlib
import json
import shutil
import ssl
import subprocess
import sys
import urllib.request

import pytest

from tests.support.patience import patient
from tests.support.service import EVENT
from tests.support.simulator import AZURE_SCRIPT

NEEDED = pytest.mark.skipif(shutil.which("openssl") is None, reason="the stand-in makes its certificate with openssl")

LB = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Network/loadBalancers/lb"
POOL = LB + "/backendAddressPools/web"
COMPUTE = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute"
SET = COMPUTE + "/virtualMachineScaleSets/web"
ACKNOWLEDGE = "Microsoft.Maintenance/scheduledevents/acknowledge/action"
OTHER_EVENT = "702d9444-d2cd-49c7-8624-8643e7171297"


def member(name, ip, **more):
    return {"name": name, "properties": {"ipAddress": ip, **more}}


MEMBERS = [
    member("a", "10.0.0.4"),
    member("b", "10.0.0.5", adminState="None"),
    member("c", "10.0.0.6", adminState="Down"),
    member("d", "10.0.0.7", adminState="Up"),
]


def balancer(members):
    """A load balancer with these in its pool."""
    pool = {"name": "web", "properties": {"drainPeriodInSeconds": 7, "loadBalancerBackendAddresses": members}}
    return {"id": LB, "name": "lb", "tags": {"owner": "me"}, "properties": {"backendAddressPools": [pool]}}


BALANCER = balancer(MEMBERS)


class StandIn:
    """What tests do with a stand-in."""

    # What the modules take as their clock.
    clock = {}

    def __init__(self, url, ca_file):
        self.url, self.ca_file = url, ca_file

    def environment(self):
        """The credentials, as the environment of the controller has them."""
        return {"AZURE_CLIENT_ID": "app", "AZURE_SECRET": "right", "AZURE_TENANT": "tenant"}

    def log_in(self, monkeypatch):
        """As long as a test lasts, the environment has them."""
        for name, value in self.environment().items():
            monkeypatch.setenv(name, value)

    def access(self):
        """Where it is, as a duty or an approval is told."""
        return {"arm_url": self.url, "login_url": self.url, "ca_file": self.ca_file}

    def control(self, method, path, body=None):
        raise NotImplementedError

    def fault(self, fault, times=1, **more):
        self.control("POST", "faults", {"Fault": fault, "Times": times, **more})

    def settings(self, **settings):
        self.control("POST", "settings", settings)

    def balancer(self):
        return self.control("GET", "load-balancers")[0]

    def members(self):
        return self.balancer()["properties"]["backendAddressPools"][0]["properties"]["loadBalancerBackendAddresses"]

    def state(self, name):
        return next(each for each in self.members() if each["name"] == name)["properties"].get("adminState", "absent")

    def act(self, name, state):
        """What an operator does."""
        resource = self.balancer()
        for each in resource["properties"]["backendAddressPools"][0]["properties"]["loadBalancerBackendAddresses"]:
            if each["name"] == name:
                each["properties"]["adminState"] = state
        self.control("POST", "load-balancers", resource)

    def acknowledged(self):
        """The events that were acknowledged, each as often as it was."""
        return [each["EventId"] for each in self.control("GET", "acknowledgements")]

    def writes(self):
        return [(each["Method"], each["Status"]) for each in self.control("GET", "requests") if each["Method"] in ("PUT", "PATCH")]

    def params(self, **more):
        known = dict.fromkeys(("subscription_id", "client_id", "secret", "tenant", "profile", "address", "ip_address"))
        known.update(auth_source="auto", cloud_environment="AzureCloud", client_id="app", secret="right", tenant="tenant")
        known.update(arm_url=self.url, login_url=self.url, identity_url=self.url, ca_file=self.ca_file)
        known.update(pools=[POOL], state="present", event_ids=[EVENT], reason="a test", timeout=20.0, event_details={}, servers=[])
        return dict(known, **more)

    def hold(self, name="a", check_mode=False, **more):
        return self._run(self.params(address=name, **more), check_mode)

    def release(self, name="a", check_mode=False, **more):
        return self._run(self.params(address=name, state="absent", **more), check_mode)

    def _run(self, params, check_mode):
        # Whoever only starts the stand-in needs no collection on the path.
        from tests.support.calls import call

        return call("azure_load_balancer_hold", params, check_mode, **self.clock)


class Process(StandIn):
    """The stand-in as a process, which was started with the words of ``command``."""

    def __init__(self, process):
        told = json.loads(process.stdout.readline())
        super().__init__(told["url"], told["ca_file"])

    def params(self, **more):
        return super().params(**{"timeout": patient(20.0), **more})

    def control(self, method, path, body=None):
        request = urllib.request.Request(self.url + "/control/" + path, method=method, data=None if body is None else json.dumps(body).encode())
        with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=self.ca_file), timeout=patient(10)) as answer:
            return json.load(answer)


def command(folder, *arguments, resources=(BALANCER,), compute=()):
    """The words that start the stand-in."""
    (folder / "lbs.json").write_text(json.dumps(list(resources)))
    (folder / "compute.json").write_text(json.dumps(list(compute)))
    words = (sys.executable, AZURE_SCRIPT, "--load-balancers", folder / "lbs.json", "--compute", folder / "compute.json")
    return [*map(str, (*words, "--client", "app=right", "--certificate-dir", folder, *arguments))]


@contextlib.contextmanager
def stand_in(folder, *arguments, resources=(BALANCER,), compute=()):
    with subprocess.Popen(command(folder, *arguments, resources=resources, compute=compute), stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Process(process)
        finally:
            process.terminate()
            process.wait(patient(10))
