# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A model of a Windows host: services, IIS, connections, files, clock and boots, in one file of JSON that all processes share.

``ModelledHost`` is for the test. The connection plugin beside this file has each module of Ansible answered by ``answer``. HTTP is done for real.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import http.client
import json
import ntpath
import os
import time
import urllib.error
import urllib.request
from functools import cache
from pathlib import Path

SYSTEM, ADMINISTRATORS, EVERYBODY = "S-1-5-18", "S-1-5-32-544", "S-1-1-0"
USER = "S-1-5-21-1-2-3-500"
FULL, READ = 0x1F01FF, 0x1200A9
PROGRAM_DATA = r"C:\ProgramData"
VARIABLES = {"%programdata%": PROGRAM_DATA, "%systemdrive%": "C:"}
ROOT = Path(__file__).resolve().parents[3]
SCRIPTS = [*(ROOT / "plugins" / "plugin_utils" / "_platforms" / "scripts").glob("*.ps1"), *(ROOT / "playbooks" / "files").glob("*.ps1")]
NEW = {
    "services": {},
    "sites": {},
    "pools": {},
    "connections": [],
    "unheard": [],
    "files": {},
    "changed": {},
    "folders": {"c:\\": {}, "c:\\programdata": {}, "c:\\inetpub\\health": {}},
    "addresses": ["10.0.0.21", "fe80::1%5", "2001:db8::21"],
    "admin": True,
    "boot": 1,
    "booted": 0.0,
    "down_until": 0.0,
    "slow": 0.0,
    "clock_ahead": 0.0,
    "terse": False,
    "denied": [],
}


class Unreachable(Exception):
    """Nobody answers."""


class ModelledHost:
    """One host. ``folder`` has its state, and what was called in it."""

    def __init__(self, folder):
        self.folder = Path(folder)

    @classmethod
    def make(cls, folder, **state):
        host = cls(folder)
        host.folder.mkdir(parents=True)
        # Hosts are different machines, also where they were booted at the same moment.
        host._write({**json.loads(json.dumps(NEW)), "computer": host.folder.name.upper(), "booted": time.time() - 3600, **state})
        return host

    @contextlib.contextmanager
    def change(self):
        """The state, which is written when the block ends."""
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            state = json.loads((self.folder / "state.json").read_text(encoding="utf-8"))
            _pass_time(state)
            yield state
            self._write(state)

    def state(self):
        """The state at this moment. What is done with it changes nothing."""
        state = json.loads((self.folder / "state.json").read_text(encoding="utf-8"))
        _pass_time(state)
        return state

    def _write(self, state):
        new = self.folder / "state.new"
        new.write_text(json.dumps(state, indent=1), encoding="utf-8")
        os.replace(new, self.folder / "state.json")

    def calls(self):
        """Every module that ran: name, arguments and whether it was check mode."""
        path = self.folder / "calls.jsonl"
        # The last line may just be being written.
        return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]] if path.exists() else []

    def mistakes(self):
        """Everything that a real module would not have understood."""
        return [mistake for call in self.calls() for mistake in call["mistakes"]]

    def records(self):
        """The records of holds, by name of file."""
        files = self.state()["files"]
        return {ntpath.basename(path): json.loads(base64.b64decode(content)) for path, content in files.items() if path.endswith(".json")}

    def reboot(self, seconds=1.0):
        """The host goes away and comes back as it starts by itself."""
        with self.change() as state:
            state.update(boot=state["boot"] + 1, booted=time.time(), down_until=time.time() + seconds, connections=[])
            for service in state["services"].values():
                service.update(status="Running" if service.get("start", "Automatic") == "Automatic" else "Stopped", then=None)
            for thing in [*state["sites"].values(), *state["pools"].values()]:
                thing.update(state="Started", then=None)

    def freeze(self, seconds):
        """The host answers nobody for a while, and goes on."""
        with self.change() as state:
            state["down_until"] = max(state["down_until"], time.time() + seconds)

    def duties(self):
        """The services, sites and pools, with their states."""
        state = self.state()
        services = {name: one["status"] for name, one in state["services"].items()}
        return {**services, **{name: one["state"] for kind in ("sites", "pools") for name, one in state[kind].items()}}

    def note(self, call):
        # Unbuffered, so that each line is written at once.
        with (self.folder / "calls.jsonl").open("ab", buffering=0) as file:
            file.write(json.dumps(call).encode() + b"\n")


def _pass_time(state):
    now = time.time()
    for thing in [*state["services"].values(), *state["sites"].values(), *state["pools"].values()]:
        if thing.get("then") and now >= thing["then"][0]:
            thing[thing["then"][1]] = thing["then"][2]
            thing["then"] = None


def answer(host, module, args, check_mode):
    """What the module returns."""
    state = host.state()
    if time.time() < state["down_until"]:
        raise Unreachable
    time.sleep(state["slow"])
    if module in state["denied"]:
        return {"failed": True, "changed": False, "msg": "Access is denied"}
    if module == "ansible.windows.win_uri":
        return _uri(args)
    if module == "ansible.windows.win_wait_for":
        return _wait_for(state, args)
    with host.change() as state:
        result = _MODULES[module](state, args, check_mode)
    return result


def _uri(args):
    """The request, for real. The module sends it in check mode, too."""
    if args.get("use_proxy") is not False or args.get("follow_redirects") != "none":
        raise AssertionError("a request would go through a proxy, or follow a redirect")

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *args):
            return None

    body = args["body"].encode() if "body" in args else None
    headers = {**(args.get("headers") or {}), "User-Agent": args.get("http_agent", "ansible-httpget")}
    if "content_type" in args:
        headers["Content-Type"] = args["content_type"]
    request = urllib.request.Request(args["url"], body, headers, method=args.get("url_method", "GET"))
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), Stay)
    try:
        with opener.open(request, timeout=args.get("url_timeout", 30)) as reply:
            status, told, content = reply.status, reply.headers, reply.read()
    except urllib.error.HTTPError as error:
        status, told, content = error.code, error.headers, error.read()
    except (OSError, http.client.HTTPException) as error:  # the second where an answer is cut off
        said = str(getattr(error, "reason", None) or error)
        said = f"Unhandled exception occurred when sending web request. Exception: {said}"
        return {"failed": True, "changed": False, "elapsed": 0.1, "url": args["url"], "msg": said}
    result = {"changed": False, "elapsed": 0.1, "url": args["url"], "status_code": status, "status_description": told.get("Reason", "OK"), "msg": "OK"}
    result.update({_snake(key): value for key, value in told.items()})
    if args.get("return_content"):
        result["content"] = content.decode("utf-8", "replace")
    if status not in args.get("status_code", [200]):
        result.update(failed=True, msg=f"Status code of request '{status}' is not in list of valid status codes 200 : '{status}'.")
    return result


def _snake(header):
    word = header.replace("-", "")
    return "".join(f"_{letter.lower()}" if letter.isupper() and number else letter.lower() for number, letter in enumerate(word))


def _wait_for(state, args):
    there = args["port"] in state.get("listens", [])
    return {"changed": False, "elapsed": 0.0} if there else {"failed": True, "changed": False, "msg": "timeout while waiting for port to start listening"}


@cache
def _known_scripts():
    """The names of our scripts, by their digests."""
    return {hashlib.sha256(path.read_bytes().strip()).hexdigest(): path.stem for path in SCRIPTS}


def script_name(text):
    return _known_scripts().get(hashlib.sha256(text.strip().encode()).hexdigest())


def _powershell(state, args, check_mode):
    text = args["script"]
    name = script_name(text)
    if name is None:
        raise AssertionError(f"a script that is none of ours: {text[:80]!r}")
    if check_mode and "SupportsShouldProcess" not in text:
        return {"changed": True, "msg": "skipped, running in check mode", "output": [], "error": [], "result": {}, "host_out": "", "host_err": ""}
    try:
        told = _SCRIPTS[name](state, **args["parameters"])
    except ScriptError as error:
        said = {"exception": {"message": str(error)}, "output": f"{error}\r\n"}
        return {"failed": True, "changed": True, "msg": f"Unhandled exception while executing module: {error}", "output": [], "error": [said], "result": {}}
    if state["terse"]:
        text = "\ufeff" + json.dumps(_terse(told)).replace(", ", ",\r\n ") + "\r\n"
        return {"changed": name != "look", "output": text, "error": None, "result": {}, "host_out": "", "host_err": ""}
    return {"changed": name != "look", "output": [json.dumps(told)], "error": [], "result": {}, "host_out": "", "host_err": ""}


def _terse(value):
    """A value as PowerShell may turn it: one thing instead of a list of it, null instead of an empty list, numbers as texts."""
    if isinstance(value, dict):
        return {key: _terse(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_terse(entry) for entry in value] if len(value) > 1 else _terse(value[0]) if value else None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value).replace(".", ",")
    return str(value) if isinstance(value, bool) else value


class ScriptError(Exception):
    """A terminating error of a script."""


def expand(path):
    head, slash, tail = path.partition("\\")
    return VARIABLES.get(head.lower(), head) + slash + tail


def _entry(state, path, limit):
    told = {"path": path, "kind": "missing", "content": "", "error": "", "changed": state["changed"].get(path.lower(), 1.0)}
    found = state["folders"].get(path.lower())
    if found is not None:
        return dict(told, kind=found.get("kind", "folder"), error=found.get("error", ""))
    content = _find(state, path)
    if content is None:
        return told
    if content.startswith("!"):
        return dict(told, kind="unreadable", error=content[1:])
    if len(base64.b64decode(content)) > limit:
        return dict(told, kind="large")
    return dict(told, kind="file", content=content)


def _find(state, path):
    return next((content for known, content in state["files"].items() if known.lower() == path.lower()), None)


def _look(state, Folder="", Files=(), Services=(), Ports=(), Watch=0.0, *, Limit):
    told = {"user": r"VM\azureuser", "sid": USER, "admin": state["admin"], "computer": state["computer"], "owner": "", "rights": [], "records": [], "free": -1}
    if Folder:
        folder = expand(Folder)
        told.update(folder=_entry(state, folder, Limit), free=50 << 30)
        if told["folder"]["kind"] == "folder":
            known = state["folders"][folder.lower()]
            told["owner"] = known.get("owner", ADMINISTRATORS)
            rights = known.get("rights", {SYSTEM: FULL, ADMINISTRATORS: FULL})
            told["rights"] = [{"sid": sid, "rights": right, "allow": True} for sid, right in rights.items()]
            inside = [path for path in state["files"] if ntpath.dirname(path).lower() == folder.lower() and path.lower().endswith(".json")]
            told["records"] = [_entry(state, path, Limit) for path in inside]
    told["files"] = [_entry(state, expand(path), Limit) for path in Files]
    wanted = {name.lower() for name in Services}
    named = {name: one for name, one in state["services"].items() if name.lower() in wanted}
    for name in [*named]:
        named.update({other: state["services"][other] for other in _dependents(state, name)})
    told["services"] = [
        {"name": name, "status": one["status"], "start": one.get("start", "Automatic"), "dependents": _dependents(state, name)}
        for name, one in sorted(named.items())
    ]
    lines = [f"{port} {peer} {peer_port} {status}" for port, peer, peer_port, status in state["connections"] if port in Ports]
    told["samples"] = [{"at": at, "lines": lines} for at in ([0.001] if not (Watch and Ports) else [0.001, Watch])]
    now = time.time() + state["clock_ahead"]
    told.update(listening=[port for port in Ports or () if port not in state["unheard"]], udp=[])
    told.update(addresses=state["addresses"], boot=f"2026112400000{state['boot']:04d}", clock=time.time() - state["booted"], now=now)
    return told


def _dependents(state, name):
    found = list(state["services"][name].get("dependents", []))
    for other in found:
        found += [more for more in state["services"][other].get("dependents", []) if more not in found]
    return found


def _write(state, Folder, Path, Expected, Content, MoveTo, Seconds):
    folder, path = expand(Folder), expand(Path)
    if state.get("full"):
        raise ScriptError("There is not enough space on the disk.")
    state["folders"].setdefault(folder.lower(), {"owner": ADMINISTRATORS, "rights": {SYSTEM: FULL, ADMINISTRATORS: FULL}})
    if state.get("locked"):
        return {"written": False, "found": "", "locked": False, "error": "The process cannot access the file", "path": path}
    content = _find(state, path)
    found = "" if content is None else hashlib.sha256(base64.b64decode(content)).hexdigest()
    if found != Expected:
        return {"written": False, "found": found, "locked": True, "error": "", "path": path}
    state["files"] = {known: value for known, value in state["files"].items() if known.lower() != path.lower()}
    if MoveTo:
        if _find(state, expand(MoveTo)) is not None:
            raise ScriptError("Cannot create a file when that file already exists.")
        state["files"][expand(MoveTo)] = content
    elif Content:
        if ntpath.dirname(path).lower() not in state["folders"]:
            raise ScriptError("Could not find a part of the path.")
        state["files"][path] = Content
    return {"written": True, "found": found, "locked": True, "error": "", "path": path}


def _service(state, Name, Verb):
    name = next((known for known in state["services"] if known.lower() == Name.lower()), None)
    if name is None:
        raise ScriptError(f"There is no service {Name}.")
    one = state["services"][name]
    if Verb == "stop":
        running = [other for other in _dependents(state, name) if state["services"][other]["status"] != "Stopped"]
        if running:
            raise ScriptError(f"Cannot stop service '{name}' because it has dependent services. It can only be stopped if force flag is specified.")
        one.update(status="StopPending", then=[time.time() + one.get("stop_seconds", 0.3), "status", "Stopped"])
    else:
        if one["status"] != "Stopped":
            raise ScriptError(f"Cannot start service {name} on computer '.'.")
        if one.get("start") == "Disabled":
            raise ScriptError(f"Cannot start service {name} on computer '.'. It is disabled.")
        one.update(status="StartPending", then=[time.time() + one.get("start_seconds", 0.3), "status", "Running"])
    return {"told": Verb, "name": name}


def _test_service(state, Program):
    """The program of a service that the acceptance playbook makes."""
    path = expand(Program)
    state["folders"].setdefault(ntpath.dirname(path).lower(), {})
    state["files"].setdefault(path, base64.b64encode(b"MZ").decode())
    state["files"].setdefault(ntpath.join(ntpath.dirname(path), "ready.txt"), base64.b64encode(b"ready").decode())
    return {"program": path}


_SCRIPTS = {"look": _look, "write": _write, "service": _service, "test_service": _test_service}


def _win_service(state, args, check_mode):
    """Services are made and removed by the acceptance playbook alone."""
    services, name = state["services"], args["name"]
    if args["state"] == "absent":
        services.pop(name, None)
        return {"changed": True}
    services[name] = {"status": "Running", "dependents": []}
    for other in args.get("dependencies", []):
        services[other]["dependents"].append(name)
    return {"changed": True}


def _win_file(state, args, check_mode):
    inside = expand(args["path"]).lower()
    for kind in ("files", "folders"):
        state[kind] = {path: value for path, value in state[kind].items() if not (path.lower() + "\\").startswith(inside + "\\")}
    return {"changed": True}


def _website_info(state, args, check_mode):
    sites = state["sites"]
    names = [args["name"]] if args.get("name") else list(sites)
    found = [
        {"name": name, "site_id": 1, "state": sites[name]["state"], "application_pool": sites[name].get("pool", "DefaultAppPool"), "bindings": []}
        for name in names
        if name in sites
    ]
    return {"changed": False, "exists": bool(found), "site": found}


def _pool_info(state, args, check_mode):
    pools = state["pools"]
    names = [args["name"]] if args.get("name") else list(pools)
    found = [{"name": name, "attributes": {"name": name, "state": pools[name]["state"], "queueLength": 1000}} for name in names if name in pools]
    return {"changed": False, "exists": bool(found), "app_pools": found}


def _website(state, args, check_mode):
    site = state["sites"].get(args["name"])
    if args["state"] == "absent":
        state["sites"].pop(args["name"], None)
        return {"changed": True}
    if site is None and "physical_path" in args:
        site = state["sites"][args["name"]] = {"state": "Stopped"}
    if site is None:
        return {"failed": True, "changed": False, "msg": "missing required arguments: physical_path"}
    wanted = {"started": "Started", "stopped": "Stopped"}[args["state"]]
    changed = site["state"] != wanted
    if changed and not check_mode:
        site["state"] = wanted
    return {"changed": changed}


def _pool(state, args, check_mode):
    if args["state"] == "absent":
        state["pools"].pop(args["name"], None)
        return {"changed": True}
    if args["name"] not in state["pools"] and args["name"].startswith("graceful-azure-test"):
        state["pools"][args["name"]] = {"state": "Stopped"}
    if args["name"] not in state["pools"]:
        # The module makes it. That is a trap, unless it is the acceptance playbook that wants it.
        raise AssertionError(f"the pool {args['name']} would have been made")
    pool = state["pools"][args["name"]]
    if args["state"] == "stopped" and pool["state"] == "Stopping":
        return {"failed": True, "changed": False, "msg": "Failed to stop Web App Pool: The service cannot accept control messages at this time."}
    changed = pool["state"] != ("Started" if args["state"] == "started" else "Stopped")
    if changed and not check_mode:
        if args["state"] == "stopped":
            pool.update(state="Stopping", then=[time.time() + pool.get("stop_seconds", 0.3), "state", "Stopped"])
        else:
            pool.update(state="Started", then=None)
    return {"changed": changed}


_MODULES = {
    "ansible.windows.win_file": _win_file,
    "ansible.windows.win_powershell": _powershell,
    "ansible.windows.win_service": _win_service,
    "microsoft.iis.website": _website,
    "microsoft.iis.website_info": _website_info,
    "microsoft.iis.web_app_pool": _pool,
    "microsoft.iis.web_app_pool_info": _pool_info,
}
