# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The HTTP client of the instance metadata service. It does not know what events mean.

The service's address is link-local. So the client uses no proxy and no file with credentials, and follows no redirect. Every answer is limited in
time and in size.
"""

from __future__ import annotations

import json
import math
import platform
import re
import socket
import sys
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from ansible_collections.graceful.azure.plugins.module_utils._events import API_VERSIONS, DEFAULT_API_VERSION, clip, parse_time
from ansible_collections.graceful.azure.plugins.module_utils._spellings import mistake_in_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping
    from typing import Any, NoReturn

HAS_REQUESTS = True
try:
    import requests
    from requests import Session
    from requests.adapters import HTTPAdapter
    from urllib3.connection import HTTPConnection
    from urllib3.connectionpool import HTTPConnectionPool
    from urllib3.exceptions import HTTPError
except ImportError:
    HAS_REQUESTS = False
    # Only so that the classes below can be defined. None is used without the packages.
    HTTPAdapter = HTTPConnection = HTTPConnectionPool = Session = object  # type: ignore[assignment, misc]

DEFAULT_URL = "http://169.254.169.254"
DEFAULT_REQUEST_TIMEOUT = 10.0

EVENTS_PATH = "/metadata/scheduledevents"
NAME_PATH = "/metadata/instance/compute/name"
NAME_API_VERSION = "2021-02-01"
# Seconds that the service may take to tell this host's name where the settings have one, too.
NAME_SECONDS = 2.0

# A service that is there accepts the connection at once. But one second has turned out to be too short.
CONNECT_TIMEOUT = 3.0
# Seconds for which a request is repeated at most, whatever the deadline. The longest row of retries takes less.
PATIENCE = 90.0
# A caller that asks again by itself waits at most so many seconds, whatever the service's Retry-After says.
RATE_MOST = 60.0
# A longer Retry-After counts as so many seconds. Services send numbers of any length.
_RETRY_AFTER_MOST = 1e9
# In bytes. A document of 1,000 events with 20 resources each has 2 MB.
BODY_LIMIT = 8 * 1024 * 1024
IS_IT = "Is imds_url the address of the metadata service?"

# Seconds before the first, second, ... retry, by the kind of failure. After the last entry there is no retry.
_PASSING = (1, 2, 4)
_UPDATING = (1, 2, 4, 8, 11, 11, 11, 11, 11)  # 70 in all
_TOO_MANY = (2, 4, 8, 16)


class Answer(NamedTuple):
    body: bytes
    service_time: datetime


class ImdsError(Exception):
    """A request to the service failed. The message is a whole sentence for a person."""

    # Whether the same request may succeed later.
    passing = False
    # Seconds to wait before the next request. They are 0 unless a retry did not fit into the time that was left.
    retry_in = 0.0
    # Whether an earlier try of the same request may have been accepted, because its answer was incomplete or an error of the service itself.
    unsure = False

    def __init__(self, message: str, url: str | None = None, status: int | None = None, body: str | None = None) -> None:
        super().__init__(message)
        self.url = url
        self.status = status
        self.body = body


class ImdsSetupError(ImdsError, ValueError):
    """No request could be sent: an option has a wrong value, or the Python package requests is missing."""


class ImdsUnreachableError(ImdsError):
    """No complete answer came. The connection was refused, reset, silent or too slow."""

    passing = True


def no_time_left(method: str, url: str) -> ImdsUnreachableError:
    return ImdsUnreachableError(f"{method} {url} was not asked: no time was left.", url)


def check_encoding(method: str, url: str, status: int, encoding: str) -> None:
    """A compressed body is never decoded, because a kilobyte may become gigabytes. Raises ImdsProtocolError."""
    if encoding.strip().lower() not in ("", "identity"):
        raise ImdsProtocolError(
            f"{method} {url} answered {status} with the Content-Encoding {clip(encoding.strip())}, which was not requested. {IS_IT}", url, status
        )


def check_length(method: str, url: str, status: int, body: bytes) -> None:
    """Raises ImdsProtocolError."""
    if len(body) > BODY_LIMIT:
        raise ImdsProtocolError(f"{method} {url} answered with more than {BODY_LIMIT >> 20} MB. {IS_IT}", url, status)


class ImdsStatusError(ImdsError):
    """The service answered with an error status."""

    status: int

    @property
    def passing(self) -> bool:  # type: ignore[override]  # here the status tells, and nobody sets it
        return self.status in (404, 410, 429) or self.status >= 500


class ImdsProtocolError(ImdsError):
    """The answer does not come from a metadata service."""


def imds_argument_spec() -> dict[str, dict[str, Any]]:
    return {
        "imds_url": {"type": "str", "default": DEFAULT_URL},
        "api_version": {"type": "str", "default": DEFAULT_API_VERSION, "choices": list(API_VERSIONS)},
        "request_timeout": {"type": "float", "default": DEFAULT_REQUEST_TIMEOUT},
        "resource_name": {"type": "str"},
    }


def client_from_params(params: Mapping[str, Any]) -> ImdsClient:
    """A client for the options of imds_argument_spec(). Raises ImdsSetupError, whose message names the wrong option."""
    return ImdsClient(params["imds_url"], params["api_version"], params["request_timeout"])


def check_seconds(option: str, value: Any, above: bool = False) -> float:
    """An option's number of seconds as a float. Raises ImdsSetupError if it cannot be used."""
    mistake = mistake_in_seconds(value, above=above)
    if mistake:
        raise ImdsSetupError(f"{option} {mistake}.")
    return float(value)


def check_url(url: object) -> str:
    """The base URL without its trailing slash. Raises ImdsSetupError if it is not a base URL."""
    wrong = f"imds_url: {clip(url)} is not the base URL of a metadata service such as {DEFAULT_URL}: "
    if not isinstance(url, str) or re.search(r"[\x00-\x20\x7f\\]", url.strip()):
        raise ImdsSetupError(wrong + "it contains blanks or other characters that are not allowed in a URL.")
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ImdsSetupError(wrong + f"{error}.") from None
    if parts.scheme.lower() != "http":
        raise ImdsSetupError(wrong + "it must begin with http://.")
    if not host or port == 0:
        raise ImdsSetupError(wrong + "it has no {0}.".format("usable port" if host else "host"))
    if parts.username is not None or "?" in url or "#" in url:
        raise ImdsSetupError(wrong + "it must have no user, query or fragment.")
    return url.strip().rstrip("/")


class ImdsClient:
    """Asks one metadata service. Threads must not share it.

    The arguments C(deadline) and C(retry_until) are times of the client's monotonic clock. No call waits beyond C(deadline). Without it, only the
    number of retries limits a call. After C(retry_until), no request is repeated.
    """

    def __init__(
        self,
        imds_url: str = DEFAULT_URL,
        api_version: str = DEFAULT_API_VERSION,
        request_timeout: float = DEFAULT_REQUEST_TIMEOUT,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not HAS_REQUESTS:
            raise ImdsSetupError(missing_requests())
        self.imds_url = check_url(imds_url)
        if api_version not in API_VERSIONS:
            raise ImdsSetupError("api_version: {0} is not one of {1}.".format(clip(api_version), ", ".join(API_VERSIONS)))
        self.api_version = api_version
        self.request_timeout = check_seconds("request_timeout", request_timeout, above=True)
        self.monotonic = monotonic
        self.sleep = sleep
        self._time_limit = _TimeLimit(monotonic)
        self._session: _Session | None = None

    def get_events(self, deadline: float | None = None, retry_until: float = math.inf, request_timeout: float | None = None) -> Answer:
        """Ask for the document. The body of the answer is empty if the service sent none."""
        return self._ask("GET", self._events_url(), deadline, success=(200,), retry_until=retry_until, request_timeout=request_timeout)

    def post_events(self, document: object, deadline: float | None = None, before_again: Callable[[bool], object] | None = None) -> None:
        """Send an approval. If this raises no error, the service has accepted it. The answer says no more.

        C(before_again) is called before the request is sent again, with whether the service may have accepted it already. If it raises, that is not done.
        """
        self._ask("POST", self._events_url(), deadline, success=range(200, 300), document=document, before_again=before_again)

    def get_resource_name(self, deadline: float | None = None, retry_until: float = math.inf) -> str:
        """Ask for the name of this host in Resources."""
        url = f"{self.imds_url}{NAME_PATH}?api-version={NAME_API_VERSION}&format=text"
        name = self._decode(self._ask("GET", url, deadline, success=(200,), retry_until=retry_until).body, url).strip()
        if not re.match(r"[^\x00-\x1f\x7f<>{}\[\]\"]{1,255}\Z", name):
            raise ImdsProtocolError(f"{url} answered {clip(name)}, which is not the name of a host.", url, 200, name)
        return name

    def decode_json(self, body: bytes) -> Any:
        """Parse the body of an answer as JSON."""
        url = self._events_url()
        text = self._decode(body, url)
        try:
            return json.loads(text, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            reason = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
            raise ImdsProtocolError(
                f"{url} answered with something that is not JSON ({reason}): {clip(text)}. {IS_IT}",
                url,
                200,
                text,
            ) from None

    def protocol_error(self, reason: object, body: bytes) -> ImdsProtocolError:
        """The error to raise if the result of decode_json() has the wrong shape."""
        url = self._events_url()
        text = self._decode(body, url)
        message = f"{url} answered with something that is not a document of Scheduled Events: {reason}. It begins {clip(text)}."
        return ImdsProtocolError(message, url, 200, text)

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _events_url(self) -> str:
        return f"{self.imds_url}{EVENTS_PATH}?api-version={self.api_version}"

    @staticmethod
    def _decode(body: bytes, url: str) -> str:
        try:
            return body.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ImdsProtocolError(f"{url} answered with something that is not UTF-8: {error}.", url, 200, repr(body[:200])) from None

    def _ask(
        self,
        method: str,
        url: str,
        deadline: float | None,
        success: Container[int],
        document: object = None,
        retry_until: float = math.inf,
        request_timeout: float | None = None,
        before_again: Callable[[bool], object] | None = None,
    ) -> Answer:
        if request_timeout is None:
            request_timeout = self.request_timeout
        patience_ends = self.monotonic() + PATIENCE + request_timeout
        if deadline is None:
            deadline = patience_ends
        retry_until = min(deadline, retry_until, patience_ends)
        attempt = 0
        unsure = False
        while True:
            retry_after: float | None = None
            error: ImdsError
            try:
                status, headers, body = self._exchange(method, url, deadline, request_timeout, document)
                if status in success:
                    return Answer(body, _date(headers))
                error = _status_error(method, url, status, headers, body)
                if status == 429:
                    retry_after = told_to_wait(headers)
            except ImdsUnreachableError as caught:
                error = caught
            error.unsure = unsure
            unsure = unsure or (error.status or 500) >= 500
            delays = _delays(error)
            if attempt >= len(delays):
                raise error
            delay = delays[attempt] if retry_after is None else retry_after
            if self.monotonic() + delay >= retry_until:
                error.retry_in = delay
                raise error
            self.sleep(delay)
            if before_again:
                before_again(unsure)
            attempt += 1

    def _exchange(self, method: str, url: str, deadline: float, request_timeout: float, document: object) -> tuple[int, Mapping[str, str], bytes]:
        """Send one request and read the whole answer. Raises ImdsUnreachableError."""
        seconds = min(request_timeout, deadline - self.monotonic())
        if seconds <= 0:
            raise no_time_left(method, url)
        self._time_limit.end = self.monotonic() + seconds
        if self._session is None:
            self._session = _session(self._time_limit)
        data = None
        headers = {"Metadata": "true", "Accept-Encoding": "identity"}
        if document is not None:
            data = json.dumps(document).encode("utf-8")
            headers["Content-Type"] = "application/json"
        try:
            response = self._session.request(
                method,
                url,
                data=data,
                headers=headers,
                allow_redirects=False,
                stream=True,
                timeout=(min(CONNECT_TIMEOUT, seconds), seconds),
            )
            try:
                return response.status_code, response.headers, self._read(method, url, response)
            finally:
                response.close()
        except requests.exceptions.InvalidURL as error:
            raise ImdsSetupError(f"imds_url: {clip(self.imds_url)} is not the base URL of a metadata service: {innermost(error)}.") from None
        except (requests.exceptions.RequestException, HTTPError, OSError, UnicodeError) as error:
            reason = innermost(error)
            if self.monotonic() >= self._time_limit.end:
                reason = f"no whole answer within {seconds:.3g} s"
        raise ImdsUnreachableError(f"{method} {url} failed: {reason}.", url)

    def _read(self, method: str, url: str, response: requests.Response) -> bytes:
        body = b""
        check_encoding(method, url, response.status_code, response.headers.get("Content-Encoding", ""))
        for chunk in response.raw.stream(65536, decode_content=False):
            body += chunk
            check_length(method, url, response.status_code, body)
        wanted = response.headers.get("Content-Length", "")
        if wanted.isdigit() and len(body) < int(wanted):
            raise ImdsUnreachableError(f"{method} {url} failed: the answer broke off after {len(body)} of {wanted} bytes.", url)
        return body


class _TimeLimit:
    """Holds the time at which the current answer must be complete."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.monotonic = monotonic
        self.end = math.inf


class _Socket(socket.socket):
    """A socket with a deadline. The timeout of an ordinary socket starts again with each byte that arrives."""

    time_limit: _TimeLimit

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        seconds = self.time_limit.end - self.time_limit.monotonic()
        if seconds <= 0:
            raise socket.timeout("timed out")
        self.settimeout(seconds)
        return super().recv_into(*args, **kwargs)


class _Connection(HTTPConnection):
    time_limit: _TimeLimit

    def connect(self) -> None:
        super().connect()
        seconds = self.sock.gettimeout()
        bounded = _Socket(fileno=self.sock.detach())
        bounded.time_limit = self.time_limit
        bounded.settimeout(seconds)
        self.sock = bounded


class _Adapter(HTTPAdapter):
    def __init__(self, time_limit: _TimeLimit) -> None:
        self._time_limit = time_limit
        super().__init__(pool_connections=1, pool_maxsize=1, max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)

        class Connection(_Connection):
            time_limit = self._time_limit

        class Pool(HTTPConnectionPool):
            ConnectionCls = Connection

        self.poolmanager.pool_classes_by_scheme = {"http": Pool}


class _Session(Session):
    def get_redirect_target(self, resp: requests.Response) -> None:
        """Always None. Otherwise the package requests would read and decode the whole answer to find the next request."""
        return None


def _session(time_limit: _TimeLimit) -> _Session:
    session = _Session()
    session.trust_env = False
    session.proxies = {}
    session.mount("http://", _Adapter(time_limit))
    return session


def _delays(error: ImdsError) -> tuple[int, ...]:
    if isinstance(error, ImdsUnreachableError):
        return _PASSING
    if error.status == 410:
        return _UPDATING
    if error.status == 429:
        return _TOO_MANY
    if error.passing:
        return _PASSING
    return ()


def _status_error(method: str, url: str, status: int, headers: Mapping[str, str], body: bytes) -> ImdsError:
    said = body[:2000].decode("utf-8", "replace").strip()
    tail = f": {clip(said)}" if said else ""
    if 300 <= status < 400:
        where = clip(headers.get("Location", "nowhere"))
        message = "{0} {1} answered {2}, a redirect to {3}, which is not followed. " + IS_IT
        return ImdsProtocolError(message.format(method, url, status, where), url, status, said)
    if status < 300:
        return ImdsProtocolError(f"{method} {url} answered {status}, which is not a document{tail}.", url, status, said)
    return ImdsStatusError(f"{method} {url} answered {status}{tail}.", url, status, said)


def _date(headers: Mapping[str, str]) -> datetime:
    """The time by the service's clock. If the answer has no time, the time by the host's own clock, which may be wrong."""
    try:
        return parse_time(headers.get("Date", ""))
    except ValueError:
        return datetime.now(timezone.utc)


def told_to_wait(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, by an answer's Retry-After in seconds or as a date; None if it does not say."""
    value = headers.get("Retry-After", "").strip()
    if re.match(r"[0-9]+\Z", value):
        return int(value) if len(value) < 10 else _RETRY_AFTER_MOST
    try:
        return max(0.0, (parse_time(value) - _date(headers)).total_seconds())
    except ValueError:
        return None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def missing_requests() -> str:
    """A full sentence for whoever must install requests."""
    return (
        "The Python package requests is missing on {0} for {1}. Install python3-requests (Debian, Ubuntu: apt-get; RHEL and its like: dnf),"
        " or run: {1} -m pip install requests".format(platform.node(), sys.executable)
    )


def innermost(error: BaseException) -> str:
    """The innermost reason of a nested exception, in a few words."""
    while True:
        inner = getattr(error, "reason", None) or next((arg for arg in error.args if isinstance(arg, Exception)), None)
        if not isinstance(inner, Exception):
            break
        error = inner
    text = getattr(error, "strerror", None) or " ".join(str(arg) for arg in error.args if isinstance(arg, str)) or type(error).__name__
    # Before the reason, urllib3 writes the address of an object.
    return clip(re.sub(r"^(?:<.* at 0x[0-9a-f]+>|\w+\([^)]*\)): ", "", text))[1:-1]
