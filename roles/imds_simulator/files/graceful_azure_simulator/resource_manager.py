# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in for Azure Resource Manager: load balancers, their backend address pools and tags, acknowledgements of scheduled events, and tokens.

It is strict where a client may be careless. Every request needs a token and a known api-version. A write with an old ETag is refused. A pool is
written as the request has it, so what a client leaves out is lost. A write is an operation that takes time, and another one meanwhile is refused.

What it does not know of Azure it does not have. Requests below /control need no token and are for tests:

    GET    /control/load-balancers   everything as it is now
    POST   /control/load-balancers   replaces one load balancer, as an operator would
    GET    /control/acknowledgements the scheduled events that were acknowledged
    GET    /control/requests         every request seen
    POST   /control/faults           {"Method": "PUT", "Path": "part of the path", "Times": 2, "Fault": {"Status": 429, "Headers": {"Retry-After": "3"}}},
                                     or {"Delay": s}, or {"Drop": true} as the fault. DELETE clears them
    POST   /control/settings         operation_seconds, fail_operations, token_seconds, denied (actions that are answered with 403), clients (one whose
                                     secret is null has expired), keep_states (a write without adminState keeps it)
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn
from urllib.parse import parse_qs, urlsplit

from .acknowledgements import COMPUTE, PATH, Acknowledgements
from .azure_refusals import Refusal, no_resource, unknown_version

NETWORK_VERSIONS = ("2022-05-01", "2023-09-01", "2024-01-01", "2024-05-01", "2025-05-01")
TAGS_VERSIONS = ("2021-04-01",)
IDENTITY_VERSIONS = ("2018-02-01",)
ADMIN_STATES = ("None", "Up", "Down")
TAG_LIMIT, TAG_VALUE_LIMIT = 50, 256
BODY_LIMIT = 1 << 20
# Members of a pool that lie on network interfaces are named by Azure. They are changed at the interface alone.
OF_INTERFACES = "networkInterfaceIPConfiguration"


class LoadBalancers:
    """The resources and what is done to them. Every method is one atomic act."""

    def __init__(self, resources, operation_seconds=0.2, clients=(), tenant="tenant", monotonic=time.monotonic):
        self._lock = threading.RLock()
        self._monotonic = monotonic
        self._resources = {}
        self._operations = {}
        self._running = {}
        self._tokens = {}
        self.operation_seconds = operation_seconds
        self.fail_operations = 0
        self.clients = dict(clients)
        self.tenant = tenant
        self.token_seconds = 3600
        self.denied = []
        self.keep_states = False
        for resource in resources:
            self.set(resource)

    # Tests

    def set(self, resource):
        with self._lock:
            resource = copy.deepcopy(resource)
            resource.setdefault("tags", {})
            # Network interfaces may be in the list as well. They are only read.
            for pool in resource["properties"].get("backendAddressPools", []):
                pool.setdefault("id", "%s/backendAddressPools/%s" % (resource["id"], pool["name"]))
                pool["properties"].setdefault("provisioningState", "Succeeded")
            resource["properties"].setdefault("provisioningState", "Succeeded")
            self._resources[resource["id"].lower()] = resource
            self._touch(resource)

    def all(self):
        with self._lock:
            self._settle()
            return copy.deepcopy(list(self._resources.values()))

    # Tokens

    def new_token(self):
        with self._lock:
            token = "token-" + uuid.uuid4().hex
            self._tokens[token] = self._monotonic() + self.token_seconds
            return {"token_type": "Bearer", "expires_in": self.token_seconds, "access_token": token}

    def check_token(self, header):
        with self._lock:
            if not header:
                raise Refusal(401, "AuthenticationFailed", "Authentication failed. The 'Authorization' header is missing.")
            kind, _space, token = header.partition(" ")
            if kind != "Bearer" or token not in self._tokens:
                raise Refusal(401, "InvalidAuthenticationToken", "The access token is invalid.")
            if self._tokens[token] <= self._monotonic():
                raise Refusal(401, "ExpiredAuthenticationToken", "The access token expiry UTC time is earlier than current UTC time.")

    def check_rights(self, action, scope):
        with self._lock:
            if action in self.denied:
                raise Refusal(
                    403,
                    "AuthorizationFailed",
                    "The client 'test' with object id '1' does not have authorization to perform action '%s' over scope '%s' or the scope is "
                    "invalid. If access was recently granted, please refresh your credentials." % (action, scope),
                )

    # Resources

    def get(self, path):
        with self._lock:
            return copy.deepcopy(self._find(path))

    def put_pool(self, path, body, if_match):
        with self._lock:
            balancer, pool = self._find_balancer(path), self._find(path)
            self._check_free(balancer)
            self._check_match(balancer, if_match)
            properties = body.get("properties")
            if not isinstance(properties, dict):
                raise Refusal(400, "InvalidRequestFormat", "Cannot parse the request: properties is missing.")
            old = pool["properties"].get("loadBalancerBackendAddresses", [])
            new = properties.get("loadBalancerBackendAddresses", [])
            self._check_members(old, new)
            # Read-only fields are Azure's. Everything else is as the request has it.
            kept = {key: pool["properties"][key] for key in ("loadBalancingRules", "backendIPConfigurations") if key in pool["properties"]}
            before = pool["properties"]
            pool["properties"] = dict(copy.deepcopy(properties), provisioningState="Updating")
            pool["properties"].update(kept)
            if self.keep_states:
                states = {entry["name"]: entry["properties"]["adminState"] for entry in old if "adminState" in entry.get("properties", {})}
                for entry in pool["properties"].get("loadBalancerBackendAddresses", []):
                    if entry["name"] in states:
                        entry.setdefault("properties", {}).setdefault("adminState", states[entry["name"]])
            return self._begin(balancer, pool, before), copy.deepcopy(pool)

    def change_tags(self, scope, operation, tags):
        with self._lock:
            balancer = self._find(scope)
            if "tags" not in balancer:
                raise Refusal(400, "InvalidRequestFormat", "The resource has no tags.")
            self._check_free(balancer)
            now = dict(balancer["tags"])
            if operation == "Merge":
                now.update(tags)
            elif operation == "Replace":
                now = dict(tags)
            elif operation == "Delete":
                now = {key: value for key, value in now.items() if tags.get(key) != value}
            else:
                raise Refusal(400, "InvalidTagsOperation", "The operation is unknown: %r." % (operation,))
            for key, value in now.items():
                if not isinstance(value, str) or len(value) > TAG_VALUE_LIMIT or len(key) > 512 or re.search(r"[<>%&\\?/]", key):
                    raise Refusal(400, "InvalidTag", "The tag %r is not valid." % key)
            if len(now) > TAG_LIMIT:
                raise Refusal(400, "InvalidTags", "The resource has %d tags; %d are allowed." % (len(now), TAG_LIMIT))
            balancer["tags"] = now
            self._touch(balancer)
            return dict(now)

    def operation(self, number):
        with self._lock:
            self._settle()
            if number not in self._operations:
                raise Refusal(404, "OperationNotFound", "The operation was not found.")
            operation = self._operations[number]
            answer = {"status": operation["status"]}
            if operation["status"] == "Failed":
                answer["error"] = {"code": "InternalServerError", "message": "An error occurred."}
            return answer

    def _settle(self):
        """End the operations whose time has come."""
        for key, (number, pool, ends) in list(self._running.items()):
            if self._monotonic() < ends:
                continue
            failed = self._operations[number]["fails"]
            self._operations[number]["status"] = "Failed" if failed else "Succeeded"
            if failed:
                pool["properties"] = self._operations[number]["before"]
            pool["properties"]["provisioningState"] = "Failed" if failed else "Succeeded"
            del self._running[key]
            self._touch(self._resources[key])

    def _begin(self, balancer, pool, before):
        number = uuid.uuid4().hex
        fails = self.fail_operations > 0
        self.fail_operations -= fails
        self._operations[number] = {"status": "InProgress", "fails": fails, "before": before}
        self._running[balancer["id"].lower()] = (number, pool, self._monotonic() + self.operation_seconds)
        self._touch(balancer)
        return number

    def _check_members(self, old, new):
        for entry in new:
            state = (entry.get("properties") or {}).get("adminState") or "None"
            if state not in ADMIN_STATES:
                raise Refusal(400, "InvalidRequestFormat", "adminState %r is not one of %s." % (state, ", ".join(ADMIN_STATES)))
        names = [entry.get("name") for entry in new]
        if len(set(names)) != len(names) or not all(names):
            raise Refusal(400, "InvalidRequestFormat", "The names of the addresses are missing or not unique.")

        def of_interfaces(entries):
            return {entry["name"]: entry["properties"][OF_INTERFACES] for entry in entries if OF_INTERFACES in entry.get("properties", {})}

        if of_interfaces(old) and (of_interfaces(old) != of_interfaces(new) or len(old) != len(new)):
            raise Refusal(400, "ModificationOfNICIpConfigBackendPoolNotSupported", "The members of a pool of network interfaces cannot be changed here.")

    def _check_free(self, balancer):
        self._settle()
        if balancer["id"].lower() in self._running:
            raise Refusal(409, "AnotherOperationInProgress", "Another operation on this or a dependent resource is in progress.", {"Retry-After": "1"})

    def _check_match(self, balancer, if_match):
        if if_match not in (None, "*", balancer["etag"]):
            raise Refusal(412, "PreconditionFailed", "Precondition If-Match failed: the resource has another ETag.")

    def _find_balancer(self, path):
        return self._find(re.split("/backendaddresspools", path, flags=re.IGNORECASE)[0])

    def _find(self, path):
        self._settle()
        parts = re.split("/backendaddresspools/", path, flags=re.IGNORECASE)
        balancer = self._resources.get(parts[0].lower())
        if balancer is None:
            raise no_resource(parts[0])
        if len(parts) == 1:
            return balancer
        for pool in balancer["properties"]["backendAddressPools"]:
            if pool["name"].lower() == parts[1].lower():
                return pool
        raise Refusal(404, "NotFound", "Resource %s not found." % path)

    def _touch(self, balancer):
        """A new ETag, which the load balancer and its pools share."""
        balancer["etag"] = 'W/"%s"' % uuid.uuid4()
        for pool in balancer["properties"].get("backendAddressPools", []):
            pool["etag"] = balancer["etag"]


class Faults:
    """What tests ask for: answers with a status, with a delay, or none at all."""

    def __init__(self):
        self._lock = threading.Lock()
        self._faults = []
        self.requests = []

    def add(self, fault):
        with self._lock:
            self._faults.append(dict(fault))

    def clear(self):
        with self._lock:
            del self._faults[:]

    def take(self, method, path):
        with self._lock:
            for fault in self._faults:
                if fault.get("Method") in (None, method) and fault.get("Path", "") in path and fault.get("Times", 1) > 0:
                    fault["Times"] = fault.get("Times", 1) - 1
                    return fault["Fault"]
        return None

    def note(self, method, path, status):
        with self._lock:
            self.requests.append({"Time": time.time(), "Method": method, "Path": path, "Status": status})


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    balancers = events = faults = url = None

    def setup(self):
        # The handshake is this thread's work, so that a client that does not speak keeps nobody else waiting.
        self.request.settimeout(30)
        self.request.do_handshake()
        super().setup()

    def log_message(self, format, *args):
        pass

    def handle_any(self):
        split = urlsplit(self.path)
        try:
            length = int(self.headers.get("Content-Length") or 0)
        except ValueError:
            length = BODY_LIMIT + 1
        if not 0 <= length <= BODY_LIMIT:
            self.close_connection = True
            self.answer(413, {"error": {"code": "RequestTooLarge", "message": "The body is too large."}})
            return
        data = self.rfile.read(length)
        status, body, headers = 500, {}, {}
        try:
            if not split.path.startswith("/control/"):
                fault = self.faults.take(self.command, split.path)
                if fault:
                    time.sleep(fault.get("Delay", 0))
                    if fault.get("Drop"):
                        self.faults.note(self.command, self.path, None)
                        self.close_connection = True
                        return
                    if "Status" in fault:
                        message = fault.get("Message", "A fault was asked for.")
                        raise Refusal(fault["Status"], fault.get("Code", "Fault"), message, fault.get("Headers"))
            status, body, headers = self.route(split.path, {k: v[-1] for k, v in parse_qs(split.query).items()}, data)
        except Refusal as refusal:
            status, headers = refusal.status, refusal.headers
            body = {"error": {"code": refusal.code, "message": refusal.message}}
            if "oauth2" in split.path:
                body = {"error": refusal.code, "error_description": refusal.message}
        if not split.path.startswith("/control/"):
            self.faults.note(self.command, self.path, status)
        self.answer(status, body, headers)

    do_GET = do_PUT = do_PATCH = do_POST = do_DELETE = handle_any

    def answer(self, status, body, headers=None):
        data = json.dumps(body).encode()
        self.send_response(status)
        for key, value in dict({"Content-Type": "application/json"}, **(headers or {})).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def route(self, path, query, data):
        method, balancers = self.command, self.balancers
        if path.startswith("/control/"):
            return self.control(method, path, data)
        if path == "/metadata/identity/oauth2/token" and method == "GET":
            if self.headers.get("Metadata") != "true":
                raise Refusal(400, "invalid_request", "Required metadata header not specified")
            if query.get("api-version") not in IDENTITY_VERSIONS or not query.get("resource"):
                raise Refusal(400, "invalid_request", "api-version or resource is missing")
            if query.get("client_id", "identity") not in ("identity",) + tuple(balancers.clients):
                raise Refusal(400, "invalid_request", "Identity not found")
            token = balancers.new_token()
            return 200, dict(token, expires_in=str(token["expires_in"])), {}
        if path.endswith("/oauth2/v2.0/token") and method == "POST":
            return self.token(path.split("/")[1], {k: v[-1] for k, v in parse_qs(data.decode("latin-1")).items()})
        balancers.check_token(self.headers.get("Authorization"))
        version = query.get("api-version")
        if version is None:
            raise Refusal(400, "MissingApiVersionParameter", "The api-version query parameter (?api-version=) is required for all requests.")
        if PATH.match(path):
            return 200, self.events.answer(method, path, version, balancers.check_rights), {}
        tags = "/providers/microsoft.resources/tags/default"
        known = TAGS_VERSIONS if path.lower().endswith(tags) else NETWORK_VERSIONS
        if version not in known:
            raise unknown_version(version, known)
        operation = re.match(r".*/operations/([0-9a-f]+)\Z", path)
        if operation and method == "GET":
            balancers.check_rights("Microsoft.Network/locations/operations/read", "/".join(path.split("/")[:3]))
            return 200, balancers.operation(operation.group(1)), {"Retry-After": "1"}
        if path.lower().endswith(tags):
            scope = path[: -len(tags)]
            if method != "PATCH":
                raise Refusal(405, "MethodNotAllowed", "The stand-in knows PATCH here.")
            balancers.check_rights("Microsoft.Resources/tags/write", scope)
            body = self.body(data)
            changed = balancers.change_tags(scope, body.get("operation"), (body.get("properties") or {}).get("tags") or {})
            return 200, {"id": path, "properties": {"tags": changed}}, {}
        if method == "GET" and "/networkinterfaces/" in path.lower():
            balancers.check_rights("Microsoft.Network/networkInterfaces/read", path)
            return 200, balancers.get(path), {}
        action = "Microsoft.Network/loadBalancers/" + ("backendAddressPools/" if "/backendaddresspools/" in path.lower() else "")
        if method == "GET":
            balancers.check_rights(action + "read", path)
            resource = balancers.get(path)
            return 200, resource, {"ETag": resource["etag"]}
        if method == "PUT" and "/backendaddresspools/" in path.lower():
            balancers.check_rights(action + "write", path)
            number, pool = balancers.put_pool(path, self.body(data), self.headers.get("If-Match"))
            where = "%s/subscriptions/%s/providers/Microsoft.Network/locations/x/operations/%s?api-version=%s" % (
                self.url,
                path.split("/")[2],
                number,
                version,
            )
            return 200, pool, {"Azure-AsyncOperation": where, "Retry-After": "1"}
        raise Refusal(405, "MethodNotAllowed", "The stand-in does not know %s here." % method)

    def token(self, tenant, form):
        if tenant != self.balancers.tenant:
            raise Refusal(400, "invalid_request", "AADSTS90002: Tenant '%s' not found." % tenant)
        if form.get("grant_type") != "client_credentials" or not form.get("scope", "").endswith("/.default"):
            raise Refusal(400, "invalid_request", "AADSTS900144: The request body must contain grant_type and scope.")
        if form.get("client_id") not in self.balancers.clients:
            raise Refusal(400, "unauthorized_client", "AADSTS700016: Application '%s' was not found in the directory." % form.get("client_id"))
        secret = self.balancers.clients[form["client_id"]]
        if secret is None:
            raise Refusal(401, "invalid_client", "AADSTS7000222: The provided client secret keys for app are expired.")
        if secret != form.get("client_secret"):
            raise Refusal(401, "invalid_client", "AADSTS7000215: Invalid client secret provided.")
        return 200, self.balancers.new_token(), {}

    def control(self, method, path, data):
        balancers, faults = self.balancers, self.faults
        if (method, path) == ("GET", "/control/load-balancers"):
            return 200, balancers.all(), {}
        if (method, path) == ("POST", "/control/load-balancers"):
            balancers.set(self.body(data))
            return 201, {}, {}
        if (method, path) == ("GET", "/control/acknowledgements"):
            return 200, self.events.all(), {}
        if (method, path) == ("GET", "/control/requests"):
            return 200, faults.requests, {}
        if (method, path) == ("POST", "/control/faults"):
            faults.add(self.body(data))
            return 201, {}, {}
        if (method, path) == ("DELETE", "/control/faults"):
            faults.clear()
            return 200, {}, {}
        if (method, path) == ("POST", "/control/settings"):
            for key, value in self.body(data).items():
                if key not in ("operation_seconds", "fail_operations", "denied", "clients", "token_seconds", "keep_states"):
                    raise Refusal(400, "Unknown", "There is no setting %s." % key)
                setattr(balancers, key, value)
            return 200, {}, {}
        raise Refusal(404, "NotFound", "The control address does not know %s %s." % (method, path))

    def body(self, data):
        try:
            body = json.loads(data.decode("utf-8"))
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise Refusal(400, "InvalidRequestContent", "The request content was invalid and could not be deserialized.")
        return body


class Server(ThreadingMixIn, HTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        """A client that goes away is no news."""


def certificate(folder, address):
    """A new certificate for this address: the path of its file and that of its key."""
    crt, key = os.path.join(folder, "ca.pem"), os.path.join(folder, "key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-keyout", key, "-out", crt, "-subj", "/CN=azure-simulator"]
    subprocess.run(command + ["-addext", "subjectAltName=IP:%s,DNS:localhost" % address], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return crt, key


def read_list(path):
    """The JSON list in a file; an empty one without a file."""
    if not path:
        return []
    with open(path) as stream:
        return json.load(stream)


def main(arguments):
    parser = argparse.ArgumentParser(prog="azure_simulator.py", description="A strict stand-in for Azure Resource Manager, for tests.")
    parser.add_argument("--load-balancers", metavar="FILE", help="a JSON list of load balancers as Azure returns them")
    parser.add_argument("--compute", metavar="FILE", help="a JSON list of VMs, scale sets and availability sets: id, vms, events")
    parser.add_argument("--imds-control", metavar="URL", help="the control address of an imds_simulator.py; an acknowledgement starts the event there")
    parser.add_argument("--listen", metavar="ADDRESS:PORT", default="127.0.0.1:0")
    parser.add_argument("--tenant", default="tenant")
    parser.add_argument("--client", metavar="ID=SECRET", action="append", default=[], help="a service principal that may ask for tokens")
    parser.add_argument("--operation-seconds", metavar="S", type=float, default=0.2, help="how long a write takes")
    parser.add_argument("--certificate-dir", metavar="FOLDER", help="where the certificate is made (a new temporary folder)")
    options = parser.parse_args(arguments)
    try:
        resources, compute = read_list(options.load_balancers), read_list(options.compute)
        if not all(COMPUTE.match(each["id"]) for each in compute):
            raise ValueError("--compute: an id is not that of a VM, a scale set or an availability set")
        events = Acknowledgements(compute, options.imds_control)
        clients = [pair.split("=", 1) for pair in options.client]
        balancers = LoadBalancers(resources, options.operation_seconds, clients, options.tenant)
        address, _colon, port = options.listen.rpartition(":")
        folder = options.certificate_dir or tempfile.mkdtemp(prefix="azure-simulator-")
        crt, key = certificate(folder, address)
        handler = type("Bound", (Handler,), {"balancers": balancers, "events": events, "faults": Faults()})
        server = Server((address, int(port)), handler)
    except (OSError, ValueError, KeyError, TypeError, subprocess.CalledProcessError) as error:
        print("azure_simulator.py: %s" % error, file=sys.stderr)
        return 2
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(crt, key)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.socket.settimeout(None)
    handler.url = "https://%s:%d" % (address, server.server_address[1])
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    print(json.dumps({"url": handler.url, "ca_file": crt}), flush=True)
    server.serve_forever()
    return 0
