# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""service_hold on a booted guest with a systemd of its own."""

from __future__ import annotations

import json
import os

import ansible
import pytest

from tests.support.checkout import BUILD
from tests.support.guests import booted
from tests.support.module import PROGRAM
from tests.support.patience import until

pytestmark = pytest.mark.timeout(300)  # the first time the image is built

# db (disabled) takes shop (enabled) along, and shop its exporter; slow needs three seconds to stop and to start.
UNITS = {
    "db.service": "[Service]\nExecStart=/bin/sleep infinity\n",
    "shop.service": "[Unit]\nRequires=db.service\nAfter=db.service\n[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n",
    "exporter.service": "[Unit]\nBindsTo=shop.service\nAfter=shop.service\n[Service]\nExecStart=/bin/sleep infinity\n",
    "idle.service": "[Unit]\nPartOf=db.service\n[Service]\nExecStart=/bin/sleep infinity\n",
    "slow.service": "[Service]\nExecStartPre=/bin/sleep 3\nExecStart=/bin/sleep infinity\nExecStop=/bin/sleep 3\n",
    "broken.service": "[Unit]\nConditionPathExists=/nowhere\n[Service]\nExecStart=/bin/sleep infinity\n",
    "job.timer": "[Timer]\nOnActiveSec=0\nAccuracySec=1ms\n",
    "both.target": "[Unit]\nWants=slow.service green.service\n",
    "long.timer": "[Timer]\nOnActiveSec=0\nAccuracySec=1ms\n",
    "long.service": "[Service]\nExecStart=/bin/sh -c 'echo ran >> /run/long; until test -e /run/finish; do sleep 0.1; done'\n",
    "talk.socket": "[Socket]\nListenStream=/run/talk\n",
    "talk.service": "[Service]\nExecStart=/bin/sleep infinity\n",
    "each.socket": "[Socket]\nListenStream=/run/each\nAccept=yes\n",
    "each@.service": "[Service]\nExecStart=/bin/sleep infinity\n",
    "blue.service": "[Unit]\nConflicts=green.service\nConflicts=spare.service\nOnSuccess=spare.service\n[Service]\nExecStart=/bin/sleep infinity\n",
    "green.service": "[Service]\nExecStart=/bin/sleep infinity\n",
    "spare.service": "[Service]\nExecStart=/bin/sleep infinity\n",
    "disk.service": "[Service]\nExecStart=/bin/sleep infinity\n",
    "srv.mount": "[Unit]\nRequires=disk.service\nAfter=disk.service\n[Mount]\nWhat=tmpfs\nWhere=/srv\nType=tmpfs\n",
    "reader.service": "[Unit]\nRequiresMountsFor=/srv\n[Service]\nWorkingDirectory=/srv\nExecStart=/bin/sleep infinity\n",
    "job.service": "[Unit]\nRequires=disk.service\nAfter=disk.service\n[Service]\nType=oneshot\n"
    "ExecStart=/bin/sh -c 'echo ran >> /run/job; until test -e /run/finish; do sleep 0.1; done'\n",
}


class Machine:
    """A booted guest with the collection's modules on it; each is run there as a process of its own."""

    def __init__(self, guest):
        self.guest, self.shell = guest, guest.says
        core = os.path.dirname(os.path.dirname(ansible.__file__))
        of_core = ["ansible/" + name for name in ("__init__.py", "_vendor", "release.py", "module_utils")]
        ours = ["ansible_collections/graceful/azure/plugins/" + name for name in ("modules", "module_utils")]
        guest.unpack(["--exclude=__pycache__", "-C", core, *of_core, "-C", str(BUILD / "collections"), "--dereference", *ours], "/opt/lib")
        self.shell("cat > /opt/lib/run.py", PROGRAM.encode())

    def hold(self, services=None, state="present", event_ids=("A",), timeout=30, check=False, user=-1, **more):
        arguments = {"state": state, "timeout": timeout, **more}
        if event_ids is not None:
            arguments["event_ids"] = list(event_ids)
        if services is not None:
            arguments["services"] = services
        return self.ask("service_hold", user, check, **arguments)

    def still_on(self, *services):
        """What a look at the host tells of duties."""
        return self.ask("host_observation", timeout=2, duties=[{"type": "service", "name": name} for name in services])["still_on"]

    def ask(self, call, user=-1, check=False, **args):
        return self.module("machine", user, call=call, args=args, _ansible_check_mode=check)

    def module(self, name, user=-1, **arguments):
        done = self.guest.ssh("python3 /opt/lib/run.py %s %d /opt/lib" % (name, user), json.dumps({"ANSIBLE_MODULE_ARGS": arguments}).encode(), 90)
        try:
            return json.loads(done.stdout)
        except ValueError:
            raise AssertionError(done.stdout) from None

    def reboot(self):
        ask = "cat /proc/sys/kernel/random/boot_id"
        before = self.shell(ask)
        self.guest.bed("reboot", "web1")

        def is_back():
            said = self.guest.ssh(ask)
            return said.returncode == 0 and said.stdout.decode().strip() != before

        until(is_back, 60, "it comes back", 0.2)
        self.guest.ssh("systemctl is-system-running --wait", seconds=90)

    def release(self, event_ids=None, **more):
        return self.hold(None, "absent", event_ids, **more)

    def states(self):
        names = sorted(name for name in UNITS if "@" not in name)
        shown = self.shell("systemctl show --property=ActiveState,UnitFileState -- " + " ".join(names))
        return dict(zip(names, shown.split("\n\n")))


@pytest.fixture(scope="module")
def guest(tmp_path_factory):
    with booted(tmp_path_factory.mktemp("bed")) as guests:
        guest = Machine(guests)
        guest.shell("mkdir -p /usr/local/lib/systemd/system")
        for name, text in UNITS.items():
            guest.shell(f"cat > /usr/local/lib/systemd/system/{name}", text.encode())
        guest.shell("systemctl daemon-reload; systemctl enable shop; systemctl start shop exporter slow talk.socket talk.service")
        yield guest


def conditions(result):
    assert not result.get("failed"), result
    return {service["name"]: service["condition"] for service in result["services"]}


def test_with_everything_that_stops_along(guest):
    before = guest.states()
    assert "ActiveState=active" in before["db.service"] and "ActiveState=inactive" in before["idle.service"]
    predicted = guest.hold(["db"], check=True)
    assert guest.states() == before
    result = guest.hold(["db"])
    held = {"exporter.service": "held", "shop.service": "held", "db.service": "held"}
    assert conditions(result) == conditions(predicted) == held
    assert result["changed"] and result["done"]
    assert {name for name, state in guest.states().items() if state != before[name]} == set(held)
    assert not guest.hold(["db"])["changed"]
    result = guest.release()
    assert conditions(result) == {"db.service": "none", "shop.service": "none", "exporter.service": "none"}
    assert guest.states() == before
    assert guest.shell("ls -A /var/lib/graceful_azure") == ""
    assert not guest.release()["changed"]


def test_as_a_duty(guest):
    """Also what stops along, and in the order of the list."""
    before = guest.states()
    duties = {"duties": ["slow", "db"], "timeout": 30}
    seen = guest.module("duty_info", duties=duties["duties"])["duties"]
    assert [(each["state"], each["serves"], each["held_by"], each["problem"]) for each in seen] == [("in", True, [], None)] * 2
    predicted = guest.module("duty", event_ids=["A"], _ansible_check_mode=True, **duties)
    assert predicted["changed"] and guest.states() == before
    out = guest.module("duty", event_ids=["A"], **duties)
    assert out["done"] and [(each["state"], each["serves"], each["held_by"]) for each in out["duties"]] == [("out", False, ["A"])] * 2, out
    assert out["diff"] == predicted["diff"] and set(out["diff"]["after"]["db"]) == {"exporter.service", "shop.service", "db.service"}
    assert guest.module("duty", event_ids=["A"], **duties)["changed"] is False
    guest.shell("systemctl start db")
    (seen,) = guest.module("duty_info", duties=["db"])["duties"]
    assert seen["state"] == "changing" and seen["why"] == ["somebody else has started db.service while it was held"]
    guest.shell("systemctl stop db")
    back = guest.module("duty", state="back", **duties)
    assert back["done"] and [act["name"] for act in back["acts"]] == ["db", "slow"] and guest.states() == before
    unknown = guest.module("duty_info", duties=["nowhere"])["duties"][0]
    assert unknown["state"] == "unknown" and "knows no unit 'nowhere.service'" in unknown["problem"]


def test_one_step_of_a_slow_service(guest):
    before = guest.states()
    # It does not stop before it may.
    guest.shell(
        "rm -f /run/enough; mkdir /run/systemd/system/slow.service.d;"
        " printf '[Service]\\nExecStop=/bin/sh -c \"until test -e /run/enough; do sleep 0.1; done\"\\n' > /run/systemd/system/slow.service.d/x.conf;"
        " systemctl daemon-reload"
    )
    result = guest.hold(["slow", "shop"], timeout=0)
    assert not result["done"] and result["waiting_for"] == "slow.service is deactivating"
    assert conditions(result) == {"slow.service": "stopping", "exporter.service": "stopping", "shop.service": "stopping"}
    guest.shell("touch /run/enough")
    result = guest.hold(["slow", "shop"])
    assert set(conditions(result).values()) == {"held"} and result["done"]
    guest.shell("rm -r /run/systemd/system/slow.service.d; systemctl daemon-reload")
    result = guest.release(timeout=0)
    assert not result["done"] or conditions(result)["slow.service"] == "none"
    assert guest.release()["done"]
    assert guest.states() == before


def test_cancelled_while_it_stops(guest):
    before = guest.states()
    assert not guest.hold(["slow"], timeout=0)["done"]
    assert guest.release()["done"]
    assert guest.states() == before


def test_somebody_starts_it_in_the_same_boot(guest):
    guest.hold(["shop"])
    guest.shell("systemctl start shop")
    assert guest.still_on("shop") == ["shop.service is active again, although it was stopped for the event"]
    result = guest.hold(["shop"])
    assert conditions(result)["shop.service"] == "held" and result["done"] and guest.still_on("shop") == []
    assert result["conflicts"] == ["shop.service was started by somebody else while it was held, and was stopped once more."]
    guest.shell("systemctl start shop")
    result = guest.hold(["shop"], timeout=0)
    assert conditions(result)["shop.service"] == "changed_meanwhile" and not result["changed"]
    said = "shop.service was stopped twice for the event and is active again: end what starts it, or take it out of graceful_azure_duties"
    assert result["waiting_for"] == said and guest.still_on("shop") == [said]
    result = guest.release()
    assert "shop.service was stopped and is active again in the same boot" in result["conflicts"][0]
    assert guest.shell("systemctl is-active shop exporter || true").split() == ["active", "active"]


def test_a_socket_would_start_it_again(guest):
    before = guest.states()
    result = guest.hold(["talk"])
    assert conditions(result) == {"talk.socket": "held", "talk.service": "held"}
    result = guest.release()
    assert conditions(result) == {"talk.socket": "none", "talk.service": "none"}
    assert guest.states() == before


def test_a_socket_that_is_named(guest):
    """Its service would serve on, and while it does, systemd refuses to start the socket again."""
    before = guest.states()
    result = guest.hold(["talk.socket"])
    assert conditions(result) == {"talk.socket": "held", "talk.service": "held"} and guest.still_on("talk.socket") == []
    result = guest.release()
    assert conditions(result) == {"talk.socket": "none", "talk.service": "none"} and result["conflicts"] == []
    assert guest.states() == before


def test_the_job_of_a_timer_ends_first(guest):
    guest.shell("rm -f /run/finish; systemctl start job.timer; until systemctl is-active job | grep -q activating; do sleep 0.1; done")
    said = "job.timer is inactive, and job.service, which it has started, is activating"
    assert guest.hold(["job.timer"])["waiting_for"] == said and guest.still_on("job.timer") == [said]
    guest.shell("touch /run/finish")
    assert guest.hold(["job.timer"], timeout=20)["done"] and guest.still_on("job.timer") == []
    assert guest.release()["conflicts"] == []
    guest.shell("systemctl stop job.timer disk; rm /run/finish /run/job")


def test_the_job_of_a_timer_ends_first_whatever_its_type(guest):
    guest.shell("rm -f /run/finish; systemctl start long.timer; until systemctl is-active long; do sleep 0.1; done")
    said = "long.timer is inactive, and long.service, which it has started, is active"
    assert guest.hold(["long.timer"])["waiting_for"] == said and guest.still_on("long.timer") == [said]
    guest.shell("touch /run/finish")
    assert guest.hold(["long.timer"], timeout=20)["done"] and guest.shell("cat /run/long") == "ran"
    assert guest.release()["conflicts"] == []
    guest.shell("systemctl stop long.timer long; rm /run/finish /run/long")


def test_a_target_that_leaves_its_services(guest):
    """Without PartOf= in a service, stopping its target does not stop it."""
    guest.shell("systemctl start both.target")
    said = "both.target is inactive, and green.service, which it has started, is active"
    assert guest.hold(["both.target", "slow"], timeout=20)["waiting_for"] == said and guest.still_on("both.target")
    assert guest.hold(["both.target", "slow"], later=["green"])["done"] and guest.still_on("both.target", "green") == ["green.service is active"]
    assert guest.hold(["both.target", "slow", "green"], timeout=20)["done"] and guest.still_on("both.target") == []
    assert guest.release(timeout=20)["conflicts"] == []
    assert guest.shell("systemctl is-active both.target slow green").split() == ["active"] * 3
    guest.shell("systemctl stop both.target green")


def test_somebody_starts_the_service_of_a_held_socket(guest):
    """systemd refuses to start the socket then; what else is held comes back."""
    guest.hold(["slow", "talk"])
    guest.shell("systemctl start talk.service")
    result = guest.release()
    assert conditions(result) == {"talk.socket": "changed_meanwhile", "talk.service": "changed_meanwhile", "slow.service": "none"}
    assert result["done"] and len(result["conflicts"]) == 2, result
    assert "talk.service, which it triggers, is active: systemd refuses to start it now" in result["conflicts"][0]
    assert guest.shell("ls -A /var/lib/graceful_azure") == ""
    assert "refusing" in guest.shell("systemctl start talk.socket 2>&1 || journalctl -n 5 --no-pager -u talk.socket")
    guest.shell("systemctl stop talk.service; systemctl start talk.socket talk.service")


def test_somebody_starts_what_excludes_a_held_service(guest):
    guest.shell("systemctl start blue")
    assert guest.hold(["blue"])["done"]
    guest.shell("systemctl start green")
    result = guest.release()
    assert result["done"] and "somebody else has started green.service since" in result["conflicts"][0]
    assert guest.shell("systemctl is-active blue green || true").split() == ["inactive", "active"]
    assert guest.shell("ls -A /var/lib/graceful_azure") == ""
    guest.shell("systemctl stop green")


def test_what_its_own_stop_starts_does_not_keep_it_off(guest):
    guest.shell("systemctl stop spare; systemctl start blue")
    assert guest.hold(["blue"])["done"]
    assert guest.shell("systemctl is-active blue spare || true").split() == ["inactive", "active"]
    assert guest.release()["conflicts"] == []
    assert guest.shell("systemctl is-active blue spare || true").split() == ["active", "inactive"]
    guest.shell("systemctl stop blue; systemctl stop spare")


def test_a_socket_with_an_instance_for_each_connection(guest):
    """An instance that runs is no reason for systemd to refuse the socket."""
    guest.shell(
        "systemctl start each.socket;"
        " python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('/run/each')\";"
        " until systemctl show -p Triggers --value each.socket | grep each@; do sleep 0.1; done"
    )
    guest.hold(["each.socket"])
    running = guest.shell("systemctl list-units --plain --no-legend --state=active 'each@*'")
    assert running
    result = guest.release()
    assert conditions(result) == {"each.socket": "none"} and result["conflicts"] == []
    assert guest.shell("systemctl list-units --plain --no-legend --state=active 'each@*'") == running
    guest.shell("systemctl stop each.socket 'each@*'")


def test_released_while_the_service_of_a_socket_still_stops(guest):
    """The socket is refused as long as the service is on its way down."""
    before = guest.states()
    guest.shell(
        "mkdir /run/systemd/system/talk.service.d;"
        " printf '[Service]\\nExecStop=/bin/sleep 5\\n' > /run/systemd/system/talk.service.d/x.conf; systemctl daemon-reload"
    )
    assert not guest.hold(["talk"], timeout=0)["done"]
    result = guest.release()
    assert result["done"] and result["conflicts"] == [], result
    guest.shell("rm -r /run/systemd/system/talk.service.d; systemctl daemon-reload")
    assert guest.states() == before


def test_a_mount_and_who_uses_it_stop_along(guest):
    guest.shell("systemctl start reader")
    before = guest.states()
    result = guest.hold(["disk"])
    assert conditions(result) == {"reader.service": "held", "srv.mount": "held", "disk.service": "held"} and result["done"]
    assert guest.shell("findmnt -n /srv || true") == ""
    assert not guest.hold(["disk"])["changed"]
    result = guest.release()
    assert conditions(result) == {"disk.service": "none", "srv.mount": "none", "reader.service": "none"} and result["conflicts"] == []
    assert guest.states() == before
    guest.shell("systemctl stop reader srv.mount disk")


@pytest.mark.parametrize("timeout", [0, 30])
def test_a_oneshot_is_started_once_and_runs_to_its_end(guest, timeout):
    guest.shell("rm -f /run/job /run/finish; systemctl start --no-block job; until test -e /run/job; do sleep 0.1; done")
    assert conditions(guest.hold(["disk"])) == {"job.service": "held", "disk.service": "held"}
    if timeout:
        guest.shell("touch /run/finish")
    result = guest.release(timeout=timeout)
    assert conditions(result)["job.service"] == ("not_running" if timeout else "starting")
    guest.shell("touch /run/finish")

    def release():
        nonlocal result
        if not result["done"]:
            result = guest.release(timeout=timeout)
        return result["done"]

    until(release, 20)
    assert result["done"] and result["conflicts"] == [] and guest.shell("ls -A /var/lib/graceful_azure") == ""
    assert guest.shell("cat /run/job").split() == ["ran", "ran"]
    assert guest.shell("systemctl is-active job disk || true").split() == ["inactive", "active"]
    guest.shell("systemctl stop disk")


def test_it_cannot_be_started_any_more(guest):
    before = guest.states()
    guest.hold(["db"])
    guest.shell(
        "systemctl mask exporter; mkdir /run/systemd/system/shop.service.d;"
        " printf '[Unit]\\nConditionPathExists=/nowhere\\n' > /run/systemd/system/shop.service.d/x.conf; systemctl daemon-reload"
    )
    result = guest.release()
    assert result["failed"] and "shop.service was started and is inactive" in result["msg"], result
    guest.shell("rm -r /run/systemd/system/shop.service.d; systemctl daemon-reload")
    result = guest.release()
    assert result["conflicts"] == ["exporter.service was running when it was stopped and is masked now: it was not started."]
    guest.shell("systemctl unmask exporter; systemctl start exporter")
    assert guest.states() == before


@pytest.mark.parametrize(
    ("services", "said"),
    [(["shop", "nope"], "systemd knows no unit 'nope.service' (option services)."), (["a; reboot"], "not the name of a systemd unit")],
)
def test_mistakes(guest, services, said):
    before = guest.states()
    result = guest.hold(services)
    assert result["failed"] and said in result["msg"]
    assert guest.states() == before


def test_without_the_rights(guest):
    before = guest.states()
    result = guest.hold(["shop"], state_dir="/var/tmp/records", user=65534)
    assert result["failed"] and "lacks the rights: set ansible_become: true for that machine" in result["msg"], result
    assert guest.states() == before and guest.shell("ls -A /var/tmp/records") == ""


def test_booted_anew(guest):
    """shop is enabled and comes up by itself, with db that it requires; the others are started again."""
    before = guest.states()
    guest.hold(["slow", "db"])
    guest.reboot()
    assert guest.still_on("slow", "db") == [f"{name}.service is active since the host was booted anew" for name in ("shop", "db")]
    result = guest.hold(["db"])
    held = dict.fromkeys(["exporter.service", "shop.service", "db.service"], "held")
    assert conditions(result) == held and result["conflicts"] == [] and guest.still_on("slow", "db") == []
    result = guest.release()
    assert result["done"] and result["conflicts"] == []
    after = guest.states()
    # The sockets of this test were not enabled, and nobody held them.
    assert {name: state for name, state in after.items() if "talk" not in name} == {name: state for name, state in before.items() if "talk" not in name}
    result = guest.hold(["shop"], event_ids=["B"])
    assert conditions(result)["shop.service"] == "held"
    guest.release()
