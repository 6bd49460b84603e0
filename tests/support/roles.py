# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A bed to run roles on: two HAProxies, two hosts with a web server each, their metadata services, all on loopback.

The machines differ in their Python interpreter, a small script that sets what is theirs: the socket of HAProxy
and a systemctl that only pretends.
"""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import os
import re
import subprocess
import sys
import threading

import yaml

from tests.support.haproxy import Haproxy
from tests.support.inventory import behind_haproxy, state_dir, web_host
from tests.support.patience import patient, until
from tests.support.playbook import ansible_settings
from tests.support.ports import free_port
from tests.support.processes import forget_records
from tests.support.serving import Handler, Server, Serving
from tests.support.simulator import Simulator
from tests.support.web import Web

RUN_SECONDS = 100
HOSTS = ("web1", "web2")
BALANCERS = ("lb1", "lb2")

# Units are files with their state; stopping one that is called slow-... takes a second.
SYSTEMCTL = """\
#!/bin/sh
units={units}
verb=$1; shift
while [ "${{1#-}}" != "$1" ]; do shift; done
for unit; do
  case $verb in
  show)
    if [ -e "$units/$unit.until" ] && [ "$(date +%s%N)" -ge "$(cat "$units/$unit.until")" ]; then
      echo inactive > "$units/$unit"; rm "$units/$unit.until"
    fi
    echo "ActiveState=$(cat "$units/$unit" 2>/dev/null || echo inactive)"
    [ -e "$units/$unit" ] && echo LoadState=loaded || echo LoadState=not-found
    echo Job=0; echo ;;
  stop)
    echo "stop $unit" >> "$units/log"
    case $unit in
    slow-*) echo deactivating > "$units/$unit"; echo $(($(date +%s%N) + 2500000000)) > "$units/$unit.until" ;;
    *) echo inactive > "$units/$unit" ;;
    esac ;;
  start)
    echo "start $unit" >> "$units/log"; echo active > "$units/$unit" ;;
  esac
done
"""


def pretend_systemctl(folder, units):
    """Write a systemctl that only pretends, with its units in that folder; returns the folder for PATH."""
    program = folder / "bin" / "systemctl"
    program.parent.mkdir()
    program.write_text(SYSTEMCTL.format(units=units))
    program.chmod(0o755)
    return program.parent


def haproxy(*machines, **options):
    """An entry of a host's duties. C(machines): by default lb1."""
    return {**behind_haproxy("$HAPROXY_SOCKET", machines or ["lb1"]), **options}


def duties(*entries):
    """What a host hands over, as a variable of a role's step."""
    return {"graceful_azure_duties": list(entries)}


def out(*event_ids, **more):
    """The step of the role load_balancer that takes the host out."""
    return "load_balancer", {"load_balancer_state": "out", "load_balancer_event_ids": list(event_ids) or ["E1"], **more}


def back(*event_ids, **more):
    """That which puts it back, for these events or for all."""
    ids = {"load_balancer_event_ids": list(event_ids)} if event_ids else {}
    return "load_balancer", {"load_balancer_state": "in", **ids, **more}


def write_noting_tasks(path, word, log, is_done=True):
    """A task file of the user that notes a word where the services are noted, and is done at once, or never."""
    done = {"name": "Done", "ansible.builtin.set_fact": {"graceful_azure_done": is_done}}
    path.write_text(yaml.safe_dump([{"name": "Note", "ansible.builtin.shell": f"echo {word} >> {log}"}, done]))


class Errands(Serving):
    """Functions of the test that a playbook has run, one URL for each."""

    def __init__(self):
        errands = self
        self.functions = []
        self.error = None

        class Answer(Handler):
            def do_GET(self):
                try:
                    errands.functions[int(self.path[1:])]()
                except AssertionError as error:
                    # Raised again where the test is.
                    errands.error = error
                self.reply(200 if errands.error is None else 500)

        self.serve(Server(Answer))
        self.url = f"http://127.0.0.1:{self._server.server_port}"


class Step:
    """What one role of a run came to: its result, and the message where it failed."""

    def __init__(self, said):
        self.result = said["result"]
        self.failure = said["failure"]


class Run:
    def __init__(self, status, output, said):
        self.status = status
        self.output = output
        self.steps = [Step(entry) for entry in said]

    @property
    def step(self):
        (step,) = self.steps
        return step

    @property
    def changed(self):
        return int(re.search(r"changed=(\d+)", self.output).group(1))


class RoleBed:
    def __init__(self, folder, backend="", options=""):
        """``backend`` is more of the configuration of the backend, ``options`` of each of its servers."""
        self.folder = folder
        self.webs = {name: Web() for name in HOSTS}
        self.errands = Errands()
        self.simulator = Simulator(HOSTS)
        self.front = {}
        self.haproxy = {}
        for name in BALANCERS:
            self.front[name] = free_port()
            place = folder / name
            place.mkdir()
            servers = "".join(f"  server {host} 127.0.0.1:{web.port} {options}\n" for host, web in self.webs.items())
            self.haproxy[name] = Haproxy(
                place, f"frontend in\n  bind 127.0.0.1:{self.front[name]}\n  default_backend www\nbackend www\n  http-reuse never\n{backend}{servers}"
            )
        self.units = folder / "units"
        self._write_programs()
        self.inventory = folder / "inventory.json"

    def _write_programs(self):
        programs = pretend_systemctl(self.folder, self.units)
        for name in (*HOSTS, *BALANCERS):
            interpreter = self.folder / f"python-{name}"
            socket = self.haproxy[name].socket if name in BALANCERS else ""
            interpreter.write_text(f'#!/bin/sh\nHAPROXY_SOCKET={socket} PATH={programs}:$PATH exec {sys.executable} "$@"\n')
            interpreter.chmod(0o755)

    def _write_inventory(self):
        machines = {
            name: {"ansible_connection": "local", "ansible_python_interpreter": str(self.folder / f"python-{name}"), **state_dir(self.folder, name)}
            for name in (*HOSTS, *BALANCERS)
        }
        for name, web in self.webs.items():
            machines[name].update(web_host(self.folder, name, self.simulator.urls[name], web.port), **duties(haproxy()))
        # A host that has no balancer in the inventory.
        machines["web3"] = {key: machines["web1"][key] for key in ("ansible_connection", "ansible_python_interpreter", "graceful_azure_imds_url")}
        machines["web3"]["graceful_azure_state_dir"] = str(self.state_dir("web3"))
        machines["silent"] = {"ansible_host": "127.0.0.1", "ansible_port": free_port()}
        machines["dead"] = {"ansible_connection": "ssh", **machines["silent"]}
        self.inventory.write_text(json.dumps({"all": {"hosts": machines, "children": {"web": {"hosts": dict.fromkeys(HOSTS)}}}}))

    def state_dir(self, name):
        return self.folder / "state" / name

    def reset(self):
        """To be called before each test: all is as it was at the beginning, and events that stand are ended."""
        self._write_inventory()
        for folder in (self.folder / "state", self.units):
            forget_records(folder)
        self.units.mkdir()
        for name in HOSTS:
            self.webs[name].status = 200
            for haproxy in self.haproxy.values():
                haproxy.ask(f"set server www/{name} state ready")
        self.simulator.reset()
        self._former = {event["EventId"] for event in self.simulator.events()}

    def close(self):
        self.errands.close()
        self.simulator.close()
        for haproxy in self.haproxy.values():
            haproxy.stop()
        for web in self.webs.values():
            web.close()

    def event(self, *resources, **fields):
        """An event that nothing but an approval moves on."""
        return self.simulator.post_event(Resources=list(resources), **{"NoticeSeconds": None, "ImpactSeconds": None, **fields})

    def posted(self):
        """The events that were approved since the beginning."""
        return [event["EventId"] for event in self.simulator.events() if event["Approvals"] and event["EventId"] not in self._former]

    def task_file(self, name):
        """A task file of the user that does its job at its second round; returns its log, a word for each round."""
        log = self.folder / "tasks.log"
        work = f"echo {name} >> {log}; grep -c {name} {log}"
        done = f"{{{{ lookup('ansible.builtin.pipe', '{work}') | int >= 2 }}}}"
        task = {"name": "Work", "ansible.builtin.set_fact": {"graceful_azure_done": done}, "when": "not ansible_check_mode"}
        (self.folder / f"{name}.yml").write_text(yaml.safe_dump([task]))
        log.write_text("")
        return log

    def noted(self, word, is_done=True):
        """The name of a task file that notes a word."""
        write_noting_tasks(self.folder / f"{word}.yml", word, self.units / "log", is_done)
        return f"{word}.yml"

    def unit(self, name, state=None):
        """The state of a service. C(state): another one from now on."""
        path = self.units / f"{name}.service"
        if state:
            path.write_text(state + "\n")
        return path.read_text().strip()

    def log(self):
        """What was stopped, started and noted, in order."""
        path = self.units / "log"
        return path.read_text().splitlines() if path.exists() else []

    def admin(self, balancer="lb1", host="web1"):
        """The administrative flags of a server: 0 ready, 1 maintenance, 8 drain."""
        return self.haproxy[balancer].flags("www", host)[0]

    def records(self, name):
        """What is held on a machine: the names of tasks, servers and services, and the events of each."""
        found = {}
        for path in sorted(self.state_dir(name).glob("*.json")):
            record = json.loads(path.read_text())
            subject = record["subject"]
            found[subject.get("name") or subject.get("server") or subject.get("service")] = sorted(record["events"])
        return found

    def hosts_on_record(self, name):
        """The hosts that the records on a machine name."""
        records = [json.loads(path.read_text()) for path in self.state_dir(name).glob("*.json")]
        return {entry["details"].get("host") for record in records for entry in record["events"].values()}

    @contextlib.contextmanager
    def request(self, seconds=None, balancer="lb1", host="web1", direct=False):
        """A request under way to a host, through a balancer or past it; yields a list for the answer's status.

        It lasts until the end of the block, or as many seconds as it is told.
        """
        held = self.webs[host].held
        query = str(seconds or f"hold{len(held)}")
        if seconds is None:
            held[query] = threading.Event()
        others = [name for name in HOSTS if name != host]
        for name in others:
            self.haproxy[balancer].ask(f"set server www/{name} state maint")
        connection = http.client.HTTPConnection("127.0.0.1", self.webs[host].port if direct else self.front[balancer], timeout=600)
        connection.request("GET", f"/?{query}")
        if not direct:
            until(lambda: self.haproxy[balancer].stat("www", host, "scur") != "0", 5, f"{host} has the request", pause=0.01)
        for name in others:
            self.haproxy[balancer].ask(f"set server www/{name} state ready")
        status = []

        def read():
            status.append(connection.getresponse().status)
            connection.close()

        reader = threading.Thread(target=read)
        reader.start()
        try:
            yield status
        finally:
            if seconds is None:
                held[query].set()
            reader.join()

    def let_go(self):
        """Have the requests to web1 end that last until then."""
        for event in self.webs["web1"].held.values():
            event.set()

    def run(self, *steps, check=False, arguments=(), host="web1", rolespec=True, within=()):
        """Run roles one after the other on one host, whatever becomes of them.

        ``within`` is a command that runs ansible-playbook, with its own arguments.
        A step is (role, variables), or a function of the test that is called between two of them.
        """
        self.errands.functions, self.errands.error = list(steps), None
        tasks = []
        for number, step in enumerate(steps):
            tasks.extend([self._errand(number)] if callable(step) else self._tasks(number, *step, rolespec=rolespec))
        said = self.folder / "said.json"
        said.unlink(missing_ok=True)
        tell = {"dest": str(said), "content": "{{ said | to_json }}"}
        tasks.append({"name": "Tell", "ansible.builtin.copy": tell, "check_mode": False, "changed_when": False, "diff": False, "delegate_to": HOSTS[0]})
        # As in the playbooks, where a host that cannot be reached stays in the play.
        play = {"hosts": host, "gather_facts": False, "ignore_unreachable": host == "dead", "vars": {"said": []}, "tasks": tasks}
        run = self.play([play], *(["--check"] if check else []), *arguments, within=within)
        if self.errands.error is not None:
            raise self.errands.error
        return Run(run.returncode, run.stdout, json.loads(said.read_text()) if said.exists() else [])

    def _errand(self, number):
        lookup = f"{{{{ lookup('ansible.builtin.url', '{self.errands.url}/{number}', use_proxy=False, timeout=60) }}}}"
        return {"name": f"Step {number}", "ansible.builtin.set_fact": {"errand": lookup}}

    @staticmethod
    def _tasks(number, role, variables, rolespec):
        include = {"name": f"graceful.azure.{role}", "rolespec_validate": rolespec}

        def keep(failure):
            entry = f"{{'result': {role}_result | default({{}}), 'failure': {failure}}}"
            return {"name": f"End step {number}", "ansible.builtin.set_fact": {"said": f"{{{{ said + [{entry}] }}}}"}}

        run = {"name": f"Step {number}", "ansible.builtin.include_role": include, "vars": variables}
        return [{"name": f"Step {number}", "block": [run, keep("''")], "rescue": [keep("ansible_failed_result.msg")]}]

    def play(self, plays, *arguments, within=()):
        playbook = self.folder / "play.yml"
        playbook.write_text(plays if isinstance(plays, str) else yaml.safe_dump(plays, sort_keys=False))
        return subprocess.run(
            [*within, "ansible-playbook", "-i", str(self.inventory), str(playbook), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=patient(RUN_SECONDS),
            check=False,
            env=dict(os.environ, **ansible_settings(self.folder)),
        )
