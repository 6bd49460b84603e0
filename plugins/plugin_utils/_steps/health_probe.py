# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A balancer that decides by the host's own health answer: what its options say, and what the results of its modules mean. Private to the collection;
pure."""

from __future__ import annotations

import ipaddress
import math
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from ansible_collections.graceful.azure.plugins.module_utils._pools import Pool
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.balancer import AZURE_PROBE, Balancer
from ansible_collections.graceful.azure.plugins.plugin_utils._steps.results import (
    UNREACHABLE,
    RoleResult,
    gathered,
    is_changed,
    is_failed,
    is_skipped,
    is_unreachable,
)
from ansible_collections.graceful.azure.plugins.plugin_utils._text import is_url, plural
from ansible_collections.graceful.azure.plugins.plugin_utils._types import BalancerSettings, Json, Options, Result

INTERVAL, THRESHOLD, MARGIN = 5.0, 2, 2.0
NEEDS = {
    "file": ("health_probe_file",),
    "service": ("health_probe_service",),
    "command": ("health_probe_command_out", "health_probe_command_in"),
    "responder": ("health_probe_responder_port", "health_probe_responder_url"),
    "iis_site": ("health_probe_iis_site",),
}
"""What each action needs, by the options without their prefix."""
LOOPBACK = ("localhost", "127.0.0.1", "::1", "0.0.0.0")
UNIT = re.compile(r"[A-Za-z0-9:_.\\@$-]+\Z")
RECENT = 5.0
"""Seconds: what was closed so short a time before a look may have come after the look before."""


def place_name(settings: BalancerSettings) -> str:
    return f"the health answer ({settings['on']})"


def still_there(settings: BalancerSettings, look: Result) -> tuple[str, ...]:
    """Sentences: what keeps the host from being idle, as far as its health answer and new connections tell."""
    answer = look["answer"]
    if answer["state"] != "failing":
        return (f"{place_name(settings)} passes",)
    found = []
    if is_wrong(look):
        found.append(
            f"{settings['url']} still passes although {_what(answer)}: it is not what the answer depends on (load_balancer_health_probe_action and what"
            " belongs to it), or load_balancer_health_probe_url is not what the probe asks"
        )
    if look["notice_left"]:
        found.append(f"the balancer notices within {math.ceil(look['notice_left'])} s")
    elif look.get("new_connections"):
        found.extend(f"{plural(entry['count'], 'new connection')} came to port {entry['port']}" for entry in look["new_connections"])
    return tuple(found)


def is_wrong(look: Result) -> bool:
    """Whether the answer passes although it was made to fail."""
    return look["answer"]["state"] == "failing" and bool((look.get("probe") or {}).get("passes"))


def _what(answer: Json) -> str:
    return "its command was run" if answer["action"] == "command" else str(answer["told"])


def may_send(look: Result) -> bool:
    """Whether the balancer may still send new connections, as far as is known."""
    return look["answer"]["state"] != "failing" or bool(look["notice_left"]) or is_wrong(look)


class HealthProbe(Balancer):
    once = True  # all that is held of a host's health answers goes back together

    def paths(self, entry: Options) -> Iterable[str]:
        return ("health_probe_file",)

    def settings(self, entry: Options, host: str) -> BalancerSettings:
        action = entry.get("health_probe_action") or None
        port = entry.get("health_probe_responder_port") or None
        interval, threshold = _number(entry, "interval", INTERVAL), _number(entry, "threshold", THRESHOLD)
        of_file = {"file": str(entry.get("health_probe_file") or ""), "file_means": entry.get("health_probe_file_means") or "out"}
        of_command = {"command_out": str(entry.get("health_probe_command_out") or ""), "command_in": str(entry.get("health_probe_command_in") or "")}
        given = {
            "file": of_file,
            "service": {"service": str(entry.get("health_probe_service") or "")},
            "command": of_command,
            "responder": {"responder_port": port},
            "iis_site": {"iis_site": str(entry.get("health_probe_iis_site") or "")},
        }.get(action or "", {})
        url = entry.get("health_probe_url") or (f"http://localhost:{port}/" if action == "responder" else None)
        return {
            "host": host,
            "action": action,
            "given": given,
            "on": f"port {port}" if action == "responder" else next(iter(given.values()), ""),
            "url": url and str(url),
            "peer": _peers(entry),
            "untouched_port": entry.get("health_probe_responder_untouched_port") or None,
            "notice": round(interval * threshold + _number(entry, "margin", MARGIN), 3),
            "ports": [],
        }

    def with_ports(self, settings: BalancerSettings, ports: Iterable[int]) -> BalancerSettings:
        return dict(settings, ports=list(ports))

    def mistakes(self, entry: Options) -> Iterator[str]:
        action = entry.get("health_probe_action")
        if not action:
            yield f"load_balancer_health_probe_action: not set; provider health_probe needs one of {', '.join(NEEDS)}"
        yield from (
            f"load_balancer_{name}: not set; load_balancer_health_probe_action: {action} needs it"
            for name in NEEDS.get(action or "", ())
            if not entry.get(name)
        )
        yield from _wrong_figures(entry)
        unit = str(entry.get("health_probe_service") or "")
        if unit and not UNIT.match(unit):
            yield f"load_balancer_health_probe_service: {unit!r} is not the name of a systemd unit"
        for name in NEEDS["command"]:
            yield from _wrong_command(name, entry.get(name))
        port, untouched = entry.get("health_probe_responder_port"), entry.get("health_probe_responder_untouched_port")
        for name, number in (("port", port), ("untouched_port", untouched)):
            if number is not None and number != "" and not (isinstance(number, int) and 1 <= number <= 65535):
                yield f"load_balancer_health_probe_responder_{name}: {number!r} is not a TCP port from 1 to 65535"
        if untouched and untouched == port:
            yield (
                f"load_balancer_health_probe_responder_untouched_port: {untouched} is load_balancer_health_probe_responder_port, too; give another port,"
                " because the answer on that one fails while the host is held"
            )
        for name in ("health_probe_url", "health_probe_responder_url"):
            if entry.get(name) and not is_url(entry[name]):
                yield f"load_balancer_{name}: {entry[name]!r} is not like http://localhost:8080/health"
        if any(number and _is_at(entry.get("health_probe_responder_url"), number) for number in (port, untouched)):
            yield "load_balancer_health_probe_responder_url: the responder itself answers there; give the address of the application's own health"
        if untouched and _is_at(entry.get("health_probe_url"), untouched):
            yield (
                f"load_balancer_health_probe_url: {entry['health_probe_url']!r} is the untouched answer, which passes while the host is held; give the"
                " address that the balancer probes"
            )
        if action == "file" and entry.get("health_probe_file_means") == "in" and not entry.get("health_probe_url"):
            yield (
                "load_balancer_health_probe_url: not set; with load_balancer_health_probe_file_means: in, a wrong path would look like an operator's"
                " maintenance, so the answer itself must be asked"
            )
        for address in _peers(entry):
            try:
                ipaddress.ip_address(address)
            except ValueError:
                yield f"load_balancer_health_probe_peer: {address!r} is not an IP address"

    def beside(
        self,
        settings: BalancerSettings,
        ports: Sequence[int] | None = None,
        asked: Options | None = None,
        timeout: float | None = None,
    ) -> Iterator[str]:
        if ports is not None and not ports:
            yield (
                "drain_host_ports: not set; provider health_probe needs the ports on which the application serves: the balancer does not tell what it"
                " still sends, so connections are counted on the host"
            )
        if ports and settings["action"] == "responder" and settings["given"]["responder_port"] in ports:
            yield "drain_host_ports: the responder's own port is among them; probes come there for ever"
        if ports and settings["untouched_port"] in ports:
            yield (
                f"drain_host_ports: {settings['untouched_port']} is load_balancer_health_probe_responder_untouched_port; whoever asks for health there would"
                " keep the host busy for ever. Give only the ports on which the application serves"
            )
        if timeout is not None and timeout <= settings["notice"]:
            yield (
                f"drain_host_timeout: {timeout:g} s, but the balancer notices only after {settings['notice']:g} s (load_balancer_health_probe_interval x"
                " load_balancer_health_probe_threshold + load_balancer_health_probe_margin), so the host would never count as drained in time; set"
                " drain_host_timeout to more than that, and to as much more as connections may last"
            )
        asked = asked or {}
        url = asked.get("url")
        if url and _is_made_to_fail(url, settings):
            yield (
                f"restore_service_url: {url!r} is the health answer that is made to fail; it cannot pass while the host is held, so the host would"
                " never come back. Give another address that tells whether the application works"
            )

        port = asked.get("port")
        if port and settings["action"] in ("service", "iis_site") and settings["url"] and _address(settings["url"])[:2] == _at(asked.get("host"), port):
            yield (
                f"restore_service_port: {port} is the port of {settings['on']} (load_balancer_health_probe_url), which is stopped while the host is held, so"
                " the host would never come back. Give another port that tells whether the application works"
            )

    def claims(self, settings: BalancerSettings) -> tuple[()]:
        return ()

    def judge(self, settings: BalancerSettings, direction: str, acts: Sequence[Result], check_mode: bool = False) -> RoleResult:
        act = acts[0] if acts else {}
        out = direction == "out"
        answers = act.get("answers") or ()
        failed = is_unreachable(act) or is_failed(act) or not acts
        waits = list(act.get("waiting_for") or ())
        passing = out and not check_mode and any(answer["state"] != "failing" for answer in answers)
        if is_unreachable(act):
            trouble = [UNREACHABLE]
        elif failed:
            trouble = [str(act.get("msg") or "the host was not asked")]
        else:
            trouble = [*waits, *gathered(acts, "conflicts")]
        return {
            "done": not failed and not waits and not passing and (bool(answers) or not out),
            "changed": any(map(is_changed, acts)),
            "reason": "; ".join(trouble) or _state(answers, out),
            "failed_hosts": [settings["host"]] if failed else [],
            "conflicts": gathered(acts, "conflicts"),
        }

    def looks_at(self, settings: BalancerSettings) -> list[str]:
        return [settings["host"]]

    def busy(self, settings: BalancerSettings, looks: Sequence[Result]) -> list[str]:
        return [sentence for look in looks for sentence in _busy(settings, look)]

    def pools(self, settings: BalancerSettings, looks: Sequence[Result]) -> list[Pool]:
        return [Pool(address) for address in settings["peer"]]


def _busy(settings: BalancerSettings, look: Result) -> list[str]:
    if is_unreachable(look):
        return [UNREACHABLE]
    if is_failed(look):
        return [str(look.get("msg"))]
    if is_skipped(look):
        return []
    if look.get("problem") or look.get("state_dir_problem"):
        return [look.get("problem") or look["state_dir_problem"]]
    found = list(still_there(settings, look))
    if look.get("connections") and not found:
        found = [f"{plural(entry['count'], 'connection')} from {entry['peer']} on port {entry['port']}" for entry in look["connections"]]
    return found if found or look["idle"] else ["connections came until just now"]


def _state(answers: Sequence[Json], out: bool) -> str:
    if not answers:
        return "no health answer is held"
    said = [f"{answer['told']}" for answer in answers]
    held = any(answer["held_by"] for answer in answers)
    if out and not held:
        return f"the health answer fails already ({'; '.join(said)})"
    return f"the health answer is {'held' if held else 'not held'} ({'; '.join(said)})"


def _peers(entry: Options) -> list[str]:
    """The addresses of those who only check the host."""
    peers = entry.get("health_probe_peer") or [AZURE_PROBE]
    return [str(address).strip() for address in (peers.split(",") if isinstance(peers, str) else peers)]


def _number(entry: Options, name: str, default: float) -> float:
    value = entry.get(f"health_probe_{name}")
    try:
        number = float(default if value is None or value == "" or isinstance(value, bool) else value)
    except (TypeError, ValueError):
        return default
    return number if math.isfinite(number) and number >= 0 else default


def _wrong_figures(entry: Options) -> Iterator[str]:
    """Sentences about figures of the probe that cannot be right. What is no number of seconds from 0 up, or no whole number, is told by the types."""
    for name, least, words in (("interval", None, "a number of seconds greater than 0"), ("threshold", 1, "a whole number from 1 up")):
        value: Any = entry.get(f"health_probe_{name}")
        try:
            number = float(value)
        except (TypeError, ValueError):
            continue
        if not isinstance(value, bool) and (number == 0 or least is not None and number < least):
            yield f"load_balancer_health_probe_{name}: {value!r} is not {words}; give the figure of the balancer's probe"


def _wrong_command(name: str, command: Any) -> Iterator[str]:
    try:
        if command and not shlex.split(str(command)):
            yield f"load_balancer_{name}: {command!r} has no words"
    except ValueError as error:
        yield f"load_balancer_{name}: {command!r} cannot be split into words: {error}"


def _address(url: Any) -> tuple[str, Any, str, str]:
    """The host, port and path of a URL, in a form in which they can be compared."""
    parts = urlsplit(str(url))
    return (*_at(parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)), parts.path or "/", parts.query)


def _at(host: Any, port: Any) -> tuple[str, Any]:
    host = str(host or "localhost").lower()
    return "localhost" if host in LOOPBACK else host, port


def _is_made_to_fail(url: Any, settings: BalancerSettings) -> bool:
    """Whether the answer at this URL cannot pass while the host is held, as far as the settings tell."""
    if not is_url(url):
        return False
    if settings["action"] == "responder" and _is_at(url, settings["given"]["responder_port"]):
        return True
    if not settings["url"] or not is_url(settings["url"]):
        return False
    # The responder answers 503 on every path, and a unit or a site that is stopped answers on none.
    parts = 2 if settings["action"] in ("responder", "service", "iis_site") else None
    return _address(url)[:parts] == _address(settings["url"])[:parts]


def _is_at(url: Any, port: Any) -> bool:
    return bool(url) and is_url(url) and _address(url)[:2] == ("localhost", port)
