# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The client of Azure Resource Manager: tokens, requests that are repeated where that may help, and operations that take time.

It knows no kind of resource. Every error says which resource was asked for, and what would be right.
"""

from __future__ import annotations

import configparser
import os
import random
import re
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ansible.module_utils.basic import missing_required_lib
from ansible_collections.graceful.azure.plugins.module_utils._azure_access import CLOUDS, IDENTITY_URL
from ansible_collections.graceful.azure.plugins.module_utils._imds import innermost, missing_requests, told_to_wait

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

HAS_REQUESTS = True
try:
    import requests
except ImportError:
    HAS_REQUESTS = False

CREDENTIALS_FILE = "~/.azure/credentials"

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
PAUSE_MOST = 30.0
# A token is not used any more so many seconds before it ends.
TOKEN_MARGIN = 60.0
PASSING = (408, 409, 429, 500, 502, 503, 504)
# Of the refusals with 409, these do not pass by themselves.
LASTING = ("ScopeLocked", "ReadOnlyDisabledSubscription")
# Every other status below 400 comes from something in between, or from an address that is no resource manager.
DONE = (200, 201, 202)
ENDED = ("Succeeded", "Failed", "Canceled")
_LACKING = re.compile(r"perform action '([^']+)'.*? (?:over scope|on the linked scope\(s\)|on scope) '([^']+)'", re.DOTALL)


class AzureError(Exception):
    """A request failed; the text is one or more full sentences."""

    def __init__(self, message: str, status: int | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class AuthenticationError(AzureError):
    """There are no credentials, or Azure does not accept them."""


class NoIdentityError(AuthenticationError):
    """This machine has no managed identity, or cannot reach the address that gives its tokens."""


class AzureRefusedError(AzureError):
    """Azure refused the request, and changed nothing because of it."""


class NotPermittedError(AzureRefusedError):
    """The identity lacks an action on a scope."""


class NotFoundError(AzureRefusedError):
    """The resource does not exist."""


class ChangedError(AzureError):
    """Somebody else changed the resource since it was read (412)."""


class TimeOverError(AzureError):
    """The time was over before Azure did what it was asked for. The same request may succeed later."""


class Client:
    """Requests to one resource manager. ``seconds``: how long all requests together may take."""

    def __init__(
        self,
        params: Mapping[str, Any],
        seconds: float = 60.0,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        if not HAS_REQUESTS:
            raise AzureError(missing_requests())
        arm_url, login_url = CLOUDS[params["cloud_environment"]]
        self.arm_url = _checked_url("arm_url", params.get("arm_url") or arm_url)
        self._monotonic = monotonic
        self._sleep = sleep
        self._deadline = monotonic() + seconds
        self._session = requests.Session()
        # Otherwise requests would send what ~/.netrc has for the host in place of the token.
        self._session.auth = lambda request: request
        # It is given to every request, because requests prefers REQUESTS_CA_BUNDLE to what a session has.
        self._verify = params.get("ca_file") or None
        if params.get("ca_file"):
            if not os.path.isfile(params["ca_file"]):
                raise AzureError(
                    "ca_file %s is not a file. Name the file of the certificates that the resource manager's one is signed with." % params["ca_file"]
                )
        login_url = _checked_url("login_url", params.get("login_url") or login_url)
        self._tokens = Tokens(params, login_url, self.arm_url, self._send, os.environ if environ is None else environ)
        # The token, if there is one, and until when it can be used.
        self._token: tuple[str | None, float] = (None, 0.0)

    @property
    def left(self) -> float:
        return self._deadline - self._monotonic()

    def sleep(self, seconds: float) -> None:
        self._sleep(seconds)

    def get(self, path: str, api_version: str) -> dict[str, Any]:
        found: dict[str, Any] = self._call("GET", path, api_version).json()
        return found

    def patch(self, path: str, api_version: str, body: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = self._call("PATCH", path, api_version, body).json()
        return found

    def post(self, path: str, api_version: str) -> dict[str, Any]:
        """Ask for an action of a resource. Its answer may be empty."""
        return _json_of(self._call("POST", path, api_version, may_be_empty=True)) or {}

    def put(self, path: str, api_version: str, body: dict[str, Any], etag: str) -> str | None:
        """Write a resource that was read with this ETag. Returns the address of the operation, or None if it is done."""
        answer = self._call("PUT", path, api_version, body, {"If-Match": etag})
        return answer.headers.get("Azure-AsyncOperation")

    def follow(self, operation: str, what: str, seconds: float) -> bool:
        """Whether the operation succeeded within so many seconds. It is an error if it failed or was cancelled."""
        here, there = urlsplit(self.arm_url), urlsplit(operation)
        if (here.scheme, here.netloc.lower()) != (there.scheme, there.netloc.lower()):
            raise AzureError(
                "Azure named %s as the address of an operation, which does not lie on %s. It gets no token of ours." % (operation[:200], self.arm_url)
            )
        # What the caller writes afterwards needs time as well.
        ends = min(self._monotonic() + seconds, self._deadline - 2)
        pause = 0.2
        while True:
            try:
                answer = self._call("GET", operation, None)
            except AzureRefusedError as refused:
                # The change itself was not refused.
                raise AzureError(
                    "Azure accepted the change of %s, and does not tell how it ends. %s" % (what, refused), refused.status, refused.code
                ) from refused
            status = answer.json().get("status")
            if status == "Succeeded":
                return True
            if status in ENDED:
                error = answer.json().get("error") or {}
                raise AzureError(
                    "Azure accepted the change of %s, and then it ended as %s: %s %s" % (what, status, error.get("code", "no code"), error.get("message", "")),
                    code=error.get("code"),
                )
            # Retry-After says how often Azure wants to be asked. A short first pause costs it one request.
            wait = min(pause, PAUSE_MOST)
            if self._monotonic() + wait >= ends:
                return False
            self._sleep(wait)
            pause = min(pause * 2, max(told_to_wait(answer.headers) or 2.0, 1.0))

    def _call(
        self,
        method: str,
        path: str,
        api_version: str | None,
        body: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        may_be_empty: bool = False,
    ) -> requests.Response:
        url = path if path.startswith("http") else self.arm_url + path
        if api_version:
            url += "?api-version=" + api_version
        renewed = False
        while True:
            sent = dict(headers or {}, Authorization="Bearer " + self._bearer(), Accept="application/json")
            answer = self._send(method, url, json=body, headers=sent)
            if answer.status_code == 401 and not renewed:
                renewed, self._token = True, (None, 0.0)
                continue
            if answer.status_code >= 400:
                raise _error_of(method, path, answer)
            is_empty = may_be_empty and not answer.content.strip()
            if answer.status_code not in DONE:
                raise AzureError(
                    "%s %s was answered with %d, which is no answer of the resource manager. Is there a proxy in between?" % (method, url, answer.status_code),
                    answer.status_code,
                )
            if not is_empty and not isinstance(_json_of(answer), dict):
                raise AzureError("%s %s was answered with %d and no JSON object. Is this the resource manager?" % (method, url, answer.status_code))
            return answer

    def _bearer(self) -> str:
        token, ends = self._token
        if token is None or self._monotonic() >= ends:
            token, seconds = self._tokens.new()
            ends = self._monotonic() + max(seconds - TOKEN_MARGIN, seconds / 2)
            self._token = (token, ends)
        return token

    def _send(self, method: str, url: str, passing: tuple[int, ...] = PASSING, session: requests.Session | None = None, **more: Any) -> requests.Response:
        """One request, repeated while a failure may pass and there is time."""
        pause = 0.25
        while True:
            left = self.left
            if left <= 0:
                raise TimeOverError("The time was over before %s was asked." % url)
            answer: requests.Response | None = None
            error: requests.exceptions.RequestException | None = None
            try:
                answer = (session or self._session).request(
                    method, url, timeout=(min(CONNECT_SECONDS, left), min(ANSWER_SECONDS, max(left, 0.5))), allow_redirects=False, verify=self._verify, **more
                )
                if answer.status_code not in passing or answer.status_code == 409 and _said(answer)[0] in LASTING:
                    return answer
            except requests.exceptions.SSLError as raised:
                raise AzureError(
                    "%s does not show a certificate that can be trusted: %s. For a stand-in, give its certificate in ca_file." % (url, innermost(raised))
                ) from raised
            except requests.exceptions.RequestException as raised:
                error = raised
            # Two hosts that were refused together do not come again together.
            wait = (None if answer is None else told_to_wait(answer.headers)) or pause * (1 + random.random())
            if wait >= self.left:
                if answer is None:
                    if error is None:
                        raise AssertionError
                    raise TimeOverError("%s %s was not answered in time: %s." % (method, url, innermost(error)))
                code, message = _said(answer)
                raise TimeOverError(
                    "%s %s was still refused with %d %s when the time was over: %s" % (method, url, answer.status_code, code, message), answer.status_code, code
                )
            self._sleep(wait)
            pause = min(pause * 2, 8.0)


class Tokens:
    """Where tokens come from: a service principal, azure-identity, or a managed identity."""

    def __init__(self, params: Mapping[str, Any], login_url: str, audience: str, send: Callable[..., requests.Response], environ: Mapping[str, str]) -> None:
        self._params = params
        self._login_url = login_url
        self._audience = audience
        self._send = send
        self._environ = environ
        # The object of azure-identity that gives tokens.
        self._credential: Any = None

    def new(self) -> tuple[str, float]:
        """A token, and the seconds for which it can be used."""
        source = self._params["auth_source"]
        if source == "msi":
            return self._managed_identity()
        if source == "cli":
            return self._azure_identity("AzureCliCredential")
        known, lacking = self._principal(source)
        if not lacking:
            return self._service_principal(**known)
        if source != "auto" or any(self._params.get(key) for key in ("secret", "tenant")):
            raise AuthenticationError(
                "The credentials of the service principal are not complete: %s is missing (auth_source %s)." % (", ".join(lacking), source)
            )
        try:
            import azure.identity  # noqa: F401  pylint: disable=unused-import
        except ImportError:
            try:
                return self._managed_identity()
            except NoIdentityError as error:
                raise AuthenticationError("There are no credentials. %s %s" % (self._not_found(), error)) from error
        return self._azure_identity("DefaultAzureCredential")

    def _not_found(self) -> str:
        """A sentence for people: where no service principal was found, and what to set."""
        names = ("AZURE_CLIENT_ID", "AZURE_SECRET", "AZURE_TENANT")
        missing = [name for name, value in zip(names, self._of_environment().values()) if not value]
        said = "none of them is set" if len(missing) == len(names) else "not set: " + ", ".join(missing)
        return "Set %s (%s), or write a section [%s] with client_id, secret and tenant into %s, or install azure-identity." % (
            ", ".join(names), said, self._profile, CREDENTIALS_FILE
        )  # fmt: skip

    def _of_environment(self) -> dict[str, str | None]:
        environ = self._environ
        return {
            "client_id": environ.get("AZURE_CLIENT_ID"),
            "secret": environ.get("AZURE_SECRET") or environ.get("AZURE_CLIENT_SECRET"),
            "tenant": environ.get("AZURE_TENANT") or environ.get("AZURE_TENANT_ID"),
        }

    def _principal(self, source: str) -> tuple[dict[str, str], list[str]]:
        of_environment = self._of_environment()
        of_options = {key: self._params.get(key) for key in of_environment}
        ways = {"env": [of_environment], "credential_file": [self._of_file()] if source == "credential_file" else []}
        lacking: list[str] = []
        for found in ways.get(source) or [of_options, of_environment, self._of_file()]:
            missing = sorted(key for key, value in found.items() if not value)
            if not missing:
                return {key: value for key, value in found.items() if value}, []
            lacking = lacking or missing
        return {}, lacking

    @property
    def _profile(self) -> str:
        return self._params.get("profile") or self._environ.get("AZURE_PROFILE") or "default"

    def _of_file(self) -> dict[str, str | None]:
        parser = configparser.RawConfigParser()
        try:
            parser.read(os.path.expanduser(CREDENTIALS_FILE))
        except configparser.Error as error:
            raise AuthenticationError("%s cannot be read: %s." % (CREDENTIALS_FILE, _short(error))) from error
        found = dict(parser.items(self._profile)) if parser.has_section(self._profile) else {}
        return {key: found.get(key) for key in ("client_id", "secret", "tenant")}

    def _service_principal(self, client_id: str, secret: str, tenant: str) -> tuple[str, float]:
        if not re.match(r"[A-Za-z0-9.-]+\Z", tenant):
            raise AuthenticationError("tenant is %r; it must be the id or the domain of a tenant." % tenant)
        form = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": secret, "scope": self._audience + "/.default"}
        answer = self._send("POST", "%s/%s/oauth2/v2.0/token" % (self._login_url, tenant), data=form)
        return _token_of(answer, "service principal %s of tenant %s" % (client_id, tenant))

    def _managed_identity(self) -> tuple[str, float]:
        url = _checked_url("identity_url", self._params.get("identity_url") or IDENTITY_URL) + "/metadata/identity/oauth2/token"
        asked = {"api-version": "2018-02-01", "resource": self._audience + "/"}
        if self._params.get("client_id"):
            asked["client_id"] = self._params["client_id"]
        # The address is link-local: a proxy would ask for another machine's identity.
        with requests.Session() as session:
            session.trust_env = False
            try:
                answer = self._send("GET", url, passing=PASSING + (404, 410), session=session, params=asked, headers={"Metadata": "true"})
            except TimeOverError as error:
                raise NoIdentityError("No managed identity answers: %s" % error) from error
        return _token_of(answer, "managed identity")

    def _azure_identity(self, kind: str) -> tuple[str, float]:
        try:
            import azure.identity
        except ImportError as error:
            raise AuthenticationError("auth_source is cli: " + missing_required_lib("azure-identity")) from error
        try:
            if self._credential is None:
                options = {} if kind == "AzureCliCredential" else {"authority": self._login_url}
                if options and self._params.get("client_id"):
                    options["managed_identity_client_id"] = self._params["client_id"]
                self._credential = getattr(azure.identity, kind)(**options)
            token = self._credential.get_token(self._audience + "/.default")
        except Exception as error:  # azure-identity raises errors of many libraries  # pylint: disable=broad-exception-caught
            raise AuthenticationError("azure-identity (%s) got no token: %s" % (kind, _short(error))) from error
        return token.token, token.expires_on - time.time()


def check_id(option: str, value: str, pattern: str, example: str) -> dict[str, str]:
    """The parts of a resource id, or an error that says what an id looks like. It becomes part of a URL."""
    found = re.match(pattern, value, re.IGNORECASE)
    if not found:
        raise AzureError("%s is %r; it must be a resource id such as %s." % (option, value, example))
    return found.groupdict()


def _checked_url(option: str, url: str) -> str:
    try:
        parts = urlsplit(url)
        is_address = bool(parts.hostname) and parts.port != 0 and not parts.query and "@" not in parts.netloc
    except ValueError:
        is_address = False
    if not is_address or parts.scheme != "https" and not (option == "identity_url" and parts.scheme == "http"):
        raise AzureError("%s is %r; it must be an address such as https://management.azure.com. Tokens are sent there, so http is refused." % (option, url))
    return url.rstrip("/")


def _token_of(answer: requests.Response, whose: str) -> tuple[str, float]:
    body = _json_of(answer)
    if answer.status_code == 200 and isinstance(body, dict) and isinstance(body.get("access_token"), str):
        try:
            return body["access_token"], float(body.get("expires_in", 300))
        except (TypeError, ValueError):
            return body["access_token"], 300.0
    of_error = body if isinstance(body, dict) else {}
    said = str(of_error.get("error_description") or of_error.get("error") or "HTTP %d" % answer.status_code)
    hints = {
        "AADSTS7000222": "The secret has expired: make a new one.",
        "AADSTS7000215": "The secret is wrong.",
        "AADSTS90002": "The tenant does not exist in this cloud: check tenant and cloud_environment.",
        "AADSTS700016": "The tenant does not know this client_id: check tenant and client_id.",
        "Identity not found": "This machine has no such managed identity: assign one, or check client_id.",
    }
    hint = next((text for key, text in hints.items() if re.search(key + r"(?!\d)", said)), "")
    raise AuthenticationError("The %s gets no token. %s Azure says: %s" % (whose, hint, said[:300]), answer.status_code)


def _error_of(method: str, path: str, answer: requests.Response) -> AzureError:
    status = answer.status_code
    code, message = _said(answer)
    if status == 401:
        hint = "The token is not accepted."
        if "Tenant" in code:
            hint = "The token is of the wrong tenant: check tenant and the subscription in the resource id."
        return AuthenticationError("%s %s: %s Azure says: %s: %s" % (method, path, hint, code, message), status, code)
    if status == 403:
        found = _LACKING.search(message)
        if found:
            text = "The identity lacks the action %s on the scope %s. Give it a role that has this action." % found.groups()
        else:
            text = "%s %s is not permitted. Azure says: %s: %s" % (method, path, code, message)
        return NotPermittedError(text, status, code)
    if status == 404:
        return NotFoundError("%s does not exist, or the identity may not know of it. Azure says: %s: %s" % (path, code, message), status, code)
    if status == 412:
        return ChangedError("%s was changed by somebody else since it was read." % path, status, code)
    kind = AzureRefusedError if 400 <= status < 500 else AzureError
    return kind("%s %s was refused with %d. Azure says: %s: %s" % (method, path, status, code, message), status, code)


def _said(answer: requests.Response) -> tuple[str, str]:
    body = _json_of(answer)
    error = body.get("error") if isinstance(body, dict) else None
    if isinstance(error, dict):
        return str(error.get("code", "no code")), str(error.get("message", ""))[:1000]
    return "no code", (answer.text or "")[:200]


def _json_of(answer: requests.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return None


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
