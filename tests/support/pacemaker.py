# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster of Pacemaker and Corosync in namespaces of this machine."""

from __future__ import annotations

import contextlib
import time
from xml.etree import ElementTree

from tests.support.meanwhile import Meanwhile
from tests.support.nodes import Nodes, needs
from tests.support.patience import until

PROGRAMS = ("crm_mon", "crm_node", "cibadmin", "crm_attribute", "crm_simulate", "corosync-quorumtool")
NEEDS = needs("corosync", "pacemakerd", *PROGRAMS, packages="pacemaker pacemaker-cli-utils corosync")
FOLDERS = ("/etc/corosync", "/var/lib/corosync", "/var/lib/pacemaker", "/var/log")
# The cluster begins with it. Otherwise its first node would wait for 20 s before it leads.
CIB = """<cib validate-with="pacemaker-3.9" epoch="1" num_updates="0" admin_epoch="0"><configuration>
<crm_config><cluster_property_set id="options">
<nvpair id="o1" name="stonith-enabled" value="false"/><nvpair id="o2" name="dc-deadtime" value="2s"/>
</cluster_property_set></crm_config><nodes/><resources>%s</resources><constraints/></configuration><status/></cib>
"""
DUMMY = """<primitive id="r%d" class="ocf" provider="pacemaker" type="Dummy"><operations>
<op id="r%d-m" name="monitor" interval="10s"/></operations></primitive>"""


class Cluster(Nodes):
    """Nodes that run Pacemaker, with resources r1, r2, ..."""

    def __init__(self, folder, names=("web1", "web2"), resources=3):
        super().__init__(folder, names, FOLDERS)
        self.resources = resources

    def __enter__(self):
        super().__enter__()
        try:
            for node in self:
                self.start(node)
            first = next(iter(self))
            until(lambda: self.online(first) == set(self.nodes), 60, pause=0.5)
            until(lambda: sum(self.running(first).values()) == self.resources, 60, pause=0.5)
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self, node):
        """Start the daemons of a node."""
        configuration = node.folder / node.name / "0" / "corosync.conf"
        members = "".join(f"node {{\n ring0_addr: {one.address}\n name: {one.name}\n nodeid: {number + 1}\n}}\n" for number, one in enumerate(self))
        two = "two_node: 1\n wait_for_all: 0\n" if len(self.nodes) == 2 else ""
        configuration.write_text(
            "totem {\n version: 2\n cluster_name: test\n transport: udpu\n token: 1000\n}\n"
            f"nodelist {{\n{members}}}\nquorum {{\n provider: corosync_votequorum\n {two}}}\n"
            "logging {\n to_logfile: yes\n logfile: /var/log/corosync.log\n to_syslog: no\n}\n"
        )
        own = [f"/var/lib/pacemaker/{folder}" for folder in ("cib", "pengine", "blackbox")]
        node.must("mkdir", "-p", "/var/log/pacemaker", "/run/crm", "/run/resource-agents", *own)
        cib = node.folder / node.name / "2" / "cib" / "cib.xml"
        if not cib.exists():
            cib.write_text(CIB % "".join(DUMMY % (number, number) for number in range(1, self.resources + 1)))
        node.must("chown", "-R", "hacluster:haclient", "/var/log/pacemaker", "/run/crm", "/var/lib/pacemaker")
        node.must("corosync")
        until(lambda: node.run("corosync-quorumtool", "-s").returncode in (0, 1, 2), 20)
        node.start("pacemakerd")

    def status(self, node):
        said = node.run("crm_mon", "--output-as=xml", "--one-shot").stdout
        with contextlib.suppress(ElementTree.ParseError):
            return ElementTree.fromstring(said)
        return ElementTree.Element("none")

    def online(self, node):
        return {found.get("name") for found in self.status(node).findall("./nodes/node") if found.get("online") == "true" and found.get("pending") == "false"}

    def running(self, node):
        """How many resources run on each node, as that node says."""
        return {found.get("name"): int(found.get("resources_running")) for found in self.status(node).findall("./nodes/node")}

    def places(self, node):
        """The nodes on which each resource runs, as that node says."""
        found = self.status(node).findall("./resources//resource")
        return {resource.get("id"): [on.get("name") for on in resource.findall("node")] for resource in found}

    def promoted_on(self, node):
        """The nodes on which something is promoted, as that node says."""
        found = [resource for resource in self.status(node).iter("resource") if resource.get("role") in ("Promoted", "Master")]
        return [on.get("name") for resource in found for on in resource.findall("node")]

    def failures(self, node):
        """What went wrong with resources, as the cluster remembers it."""
        return [dict(failure.attrib) for failure in self.status(node).findall("./failures/failure")]

    def settings(self, node):
        """What the configuration says of the cluster, its nodes and their resources, as that node keeps it. What a node in standby has is here, too."""
        return {scope: node.run("cibadmin", "--query", "--scope", scope).stdout for scope in ("crm_config", "nodes", "resources", "constraints")}

    def constraints(self, node):
        """The whole section of constraints, as the cluster keeps it."""
        return node.run("cibadmin", "--query", "--scope", "constraints").stdout


class Watch(Meanwhile):
    """Where resources run, looked at again and again from a node of which others leave the power on."""

    def __init__(self, cluster, node, pause=0.2):
        self.looks = 0
        self.twice = []
        self.longest_gap = 0.0
        self._cluster, self._node, self._pause = cluster, node, pause
        super().__init__()

    def _run(self):
        ran = {}
        while not self._ends.wait(self._pause):
            places, now = self._cluster.places(self._node), time.monotonic()
            self.looks += bool(places)
            self.twice += [(resource, nodes) for resource, nodes in places.items() if len(nodes) > 1]
            for resource, nodes in places.items():
                before = ran.setdefault(resource, now)
                if nodes:
                    self.longest_gap, ran[resource] = max(self.longest_gap, now - before), now
