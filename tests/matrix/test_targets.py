# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What runs on hosts, with every Python that hosts may have, from the newest ansible-core that still allows it."""

from __future__ import annotations

import subprocess

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._handle import CALLS

from tests.matrix import environments
from tests.support.checkout import ROOT
from tests.support.nginx import NEEDED, Nginx
from tests.support.patience import patient
from tests.support.playbook import Playbook
from tests.support.ports import free_port
from tests.support.pretended_slurm import idle, pretend
from tests.support.receiver import TOKEN, Webhook
from tests.support.roles import pretend_systemctl
from tests.support.simulator import SHORT, Simulator
from tests.support.site import Site
from tests.support.watcher import Watcher, noted, noting

pytestmark = pytest.mark.timeout(2 * environments.MAKE_SECONDS + 300)

# The work of these is done on the controller.
NOT_ON_HOSTS = {
    "alone",
    "azure_event_acknowledge",
    "check_awx_setup",
    "check_settings",
    "history",
    "plan",
    "plan_by_hand",
    "rehearse",
    "replay",
    "report",
    "turn",
}
# These run on hosts and balancers, so each of them must be tried with every Python.
ON_HOSTS = {
    "connections_info",
    "duty",
    "duty_info",
    "machine",
    "scheduled_events_approve",
    "scheduled_events_info",
    "scheduled_events_wait",
    "task_hold",
}
# What hosts and balancers are asked besides. Azure is asked by the controller, and IIS runs on Windows hosts.
ASKED = set(CALLS) - {"azure_load_balancer_hold", "azure_load_balancer_info", "iis_hold", "task_hold"}

# Prints what cannot be compiled, and leaves nothing in the checkout.
COMPILE = """
import os, py_compile, sys
for path in sys.argv[2:]:
    py_compile.compile(path, cfile=os.path.join(sys.argv[1], "compiled"), doraise=True)
print("%d.%d" % sys.version_info[:2])
"""


def every_python(test):
    return pytest.mark.long(pytest.mark.parametrize("version", list(environments.TARGETS))(test))


def test_every_module_is_known_here():
    assert ON_HOSTS | NOT_ON_HOSTS == {path.stem for path in (ROOT / "plugins" / "modules").glob("*.py")}


@pytest.fixture(name="python")
def make_python(version):
    return environments.target(version)


@pytest.fixture(name="programs")
def make_programs(version):
    return environments.core(environments.TARGETS[version])


@every_python
def test_it_compiles(tmp_path, version, python):
    files = [path for folder in ("modules", "module_utils") for path in sorted((ROOT / "plugins" / folder).rglob("*.py"))]
    files += [path for role in ("event_watcher", "imds_simulator") for path in sorted((ROOT / "roles" / role / "files").rglob("*.py"))]
    assert len(files) > 20
    done = subprocess.run([python, "-c", COMPILE, tmp_path, *files], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, version), done.stderr


@every_python
def test_the_watcher(tmp_path, python):
    """From an event to its end, with every kind of thread, process and file that it uses."""
    with Simulator(["www_1"]) as simulator, Webhook() as webhook:
        watcher = Watcher(tmp_path, simulator.urls["www_1"], python=str(python), action="run", command=noting(tmp_path / "ran"))
        watcher.set(fast_path=noting(tmp_path / "out"), fast_path_undo=noting(tmp_path / "back"))
        try:
            process = watcher.start()
            event_id = simulator.post_event(EventType="Preempt", NoticeSeconds=None)
            watcher.wait_for("action_done")
            watcher.wait_for("fast_path_done")
            assert watcher.run("--status").returncode == 0
            simulator.cancel(event_id)
            watcher.wait_for("action_done", 2)
            watcher.wait_for("fast_path_undone")
            process.terminate()
            assert process.wait(patient(5)) == 0
            assert [document["why"] for document in noted(tmp_path / "ran")] == ["appeared", "gone"]
            simulator.post_event()
            watcher.set(action="eda", url=webhook.url, secret_file=watcher.secret(TOKEN), fast_path=[], fast_path_undo=[])
            assert watcher.run("--once").returncode == 0
            assert len(webhook.seen) == 1
        finally:
            watcher.close()


@pytest.fixture(name="site")
def make_site(tmp_path, python, programs):
    site = Site(tmp_path, python=python, programs=programs)
    yield site
    site.close()


@every_python
def test_a_reboot_from_notice_to_the_end(site):
    site.see_a_reboot_through()


@pytest.fixture(name="simulator")
def make_simulator(python):
    # The simulator is made for these Pythons, too.
    with Simulator(["vm-1"], python=str(python)) as running:
        yield running


def module(module_name, **arguments):
    return {f"graceful.azure.{module_name}": arguments}


def asked(call, **args):
    return module("machine", call=call, args=args)


@pytest.fixture(name="nginx")
def make_nginx(tmp_path, site):
    folder = tmp_path / "nginx"
    folder.mkdir()
    servers = " ".join(f"server 127.0.0.1:{site.listeners[name].port};" for name in site.names)
    running = Nginx(folder, http=f"  upstream shop {{ {servers} }}\n  server {{ listen 127.0.0.1:{free_port()}; location / {{ proxy_pass http://shop; }} }}")
    yield running
    running.stop()


def tasks_for(tmp_path, site, simulator, nginx):
    """Every module at work, the tasks in the order in which a host is taken out and back."""
    event_id = simulator.post_event(EventType="Reboot", Resources=["vm-1"], NoticeSeconds=None, **SHORT)
    imds = {"imds_url": simulator.urls["vm-1"]}
    state = {"state_dir": str(tmp_path / "state-of-modules")}
    held = dict(state, event_ids=[event_id])
    server = {"socket": site.haproxy.socket, "server": "web1"}
    port = site.listeners["web1"].port
    systemctl = {"environment": {"PATH": f"{tmp_path}/bin:/usr/sbin:/usr/bin:/sbin:/bin"}}
    services = {"services": ["web", "worker"], "timeout": patient(10)}
    probe = dict(state, action="file", file=str(tmp_path / "maintenance"))
    upstream = {"configuration": str(nginx.configuration)}
    duties = [
        {"type": "nginx", "hosts": ["here"], "server": f"127.0.0.1:{port}", **upstream},
        {"type": "health_probe", "action": "file", "file": probe["file"]},
    ]
    return event_id, {
        "facts": {"ansible.builtin.setup": {"gather_subset": ["!all", "!min", "python"]}},
        "info": module("scheduled_events_info", query="[?event_type == 'Reboot']", **imds),
        "present": module("scheduled_events_wait", state="scheduled", timeout=patient(10), **imds),
        "observed": asked("host_observation", ports=[port], **imds, **state),
        "taken_out": asked("haproxy_hold", **server, **held),
        "balancer": asked("haproxy_info", socket=site.haproxy.socket, servers=["web1"], timeout=patient(10), **state),
        "handed_over": dict(asked("cluster_hold", type="slurm", name="batch", options={"node": "web1"}, timeout=patient(10), **held), **systemctl),
        "taken_back": dict(asked("cluster_hold", type="slurm", name="batch", state="absent", timeout=patient(10), **held), **systemctl),
        "answer_fails": asked("health_probe_hold", **probe, event_ids=[event_id]),
        "probed": asked("health_probe_info", **probe, ports=[port], notice=0.1),
        "answer_passes": asked("health_probe_hold", state="absent", state_dir=state["state_dir"], event_ids=[event_id]),
        "marked_down": asked("nginx_hold", server=f"127.0.0.1:{port}", **upstream, **held),
        "upstream": asked("nginx_info", servers=[f"127.0.0.1:{port}"], timeout=patient(10), **upstream, **state),
        "marked_up": asked("nginx_hold", server=f"127.0.0.1:{port}", state="absent", **upstream, **held),
        "off": module("duty", duties=duties, timeout=patient(10), **held),
        "seen": module("duty_info", duties=duties, **state),
        "on": module("duty", duties=duties, state="back", timeout=patient(10), **held),
        "connections": module("connections_info", ports=[port], timeout=patient(10)),
        "noted": module("task_hold", name=["drain_host_before"], done=True, **held),
        "predicted": dict(asked("service_hold", **services, **held), check_mode=True, **systemctl),
        "stopped": dict(asked("service_hold", **services, **held), **systemctl),
        "without_ids": asked("service_hold", services=["web"], **state),
        "to_approve": dict(module("scheduled_events_approve", event_ids=[event_id], **imds), check_mode=True),
        "approved": asked("approval_hold", event_ids=[event_id], ready_resources=["vm-1"], **imds, **state),
        "absent": module("scheduled_events_wait", event_ids=[event_id], state="absent", timeout=patient(30), **imds),
        "started": dict(asked("service_hold", state="absent", timeout=patient(10), **held), **systemctl),
        "forgotten": module("task_hold", name=["drain_host_before", "approved"], state="absent", **held),
        "answer": asked("wait_for_answer", url=f"http://127.0.0.1:{port}/", port=port, host="127.0.0.1", request_timeout=patient(2)),
        "repaired": asked("hold_repair", state_dir=str(tmp_path / "damaged")),
        "taken_in": asked("haproxy_hold", state="absent", **server, **held),
    }


@every_python
@NEEDED
def test_every_module_at_work(tmp_path, version, python, programs, site, simulator, nginx):
    units = tmp_path / "units"
    units.mkdir()
    for name in ("web.service", "worker.service"):
        (units / name).write_text("active\n")
    programs_there = pretend_systemctl(tmp_path, units)
    (tmp_path / "slurm").mkdir()
    pretend(tmp_path / "slurm", programs_there)
    idle(tmp_path / "slurm")
    (tmp_path / "damaged").mkdir(mode=0o700)
    (tmp_path / "damaged" / "task-x.json").write_text("{")
    event_id, tasks = tasks_for(tmp_path, site, simulator, nginx)
    untouched = nginx.configuration.read_bytes()
    used = {key[len("graceful.azure.") :] for task in tasks.values() for key in task if key.startswith("graceful.azure.")}
    assert used == ON_HOSTS
    assert {task["graceful.azure.machine"]["call"] for task in tasks.values() if "graceful.azure.machine" in task} == ASKED

    playbook = Playbook(tmp_path, ansible_python_interpreter=str(python))
    done = playbook.run([dict(task, name=name) for name, task in tasks.items()], command=str(programs / "ansible-playbook"))
    assert "Traceback" not in done.output
    assert {name for name in tasks if done[name].get("failed")} == {"without_ids"}, done.output
    ran = done["facts"]["ansible_facts"]["ansible_python"]
    assert (ran["executable"], f"{ran['version']['major']}.{ran['version']['minor']}") == (str(python), version)

    assert [event["event_id"] for event in done["info"]["events"]] == [event_id]
    assert (done["present"]["outcome"], done["absent"]["outcome"]) == ("scheduled", "absent")
    assert done["observed"]["events"][0]["affects_host"] is True
    assert "fatal" not in done["observed"] and "error" not in done["observed"]
    assert done["taken_out"]["servers"][0]["admin_state"] == "drain"
    assert done["balancer"]["idle"] is True
    assert done["handed_over"]["done"] and done["taken_back"]["changed"] and (tmp_path / "slurm" / "log").read_text().split() == ["drain", "resume"]
    assert done["answer_fails"]["answers"][0]["condition"] == done["probed"]["answer"]["condition"] == "held"
    assert done["answer_passes"]["changed"] and not (tmp_path / "maintenance").exists()
    assert done["marked_down"]["servers"][0]["condition"] == "held" and done["upstream"]["idle"] is True
    assert done["marked_up"]["changed"] and nginx.configuration.read_bytes() == untouched
    assert done["off"]["done"] and [each["state"] for each in done["seen"]["duties"]] == ["out", "out"] and done["on"]["changed"]
    assert done["connections"]["idle"] is True
    assert done["noted"]["done"] and done["noted"]["changed"]
    assert done["predicted"]["changed"] and done["stopped"]["changed"] and done["stopped"]["done"]
    assert "event_ids" in done["without_ids"]["msg"]
    assert done["to_approve"]["approved"] == done["approved"]["approved"] == [event_id]
    assert done["started"]["changed"] and done["started"]["done"]
    assert (units / "log").read_text().split() == "stop web.service stop worker.service start worker.service start web.service".split()
    assert done["forgotten"]["changed"]
    assert done["answer"]["answered"] is True
    assert [record["path"] for record in done["repaired"]["put_aside"]] == [str(tmp_path / "damaged" / "task-x.json")]
    assert done["taken_in"]["servers"][0]["admin_state"] == "ready"
    assert site.admin_states() == {"web1": "ready", "web2": "ready"}
    assert list((tmp_path / "state-of-modules").glob("*.json")) == []
