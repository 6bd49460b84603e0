# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Many VMs, many connections, long runs; and requests of any kind to both addresses."""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.client
import itertools
import json
import resource
import socket
import time

import hypothesis
import hypothesis.strategies as st
import pytest

from tests.support.asking import EVENTS_PATH, METADATA, address_of, ask, document
from tests.support.patience import patient
from tests.support.simulator import Simulator

GET = b"GET /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\nMetadata: true\r\n\r\n"
VERSIONS = ["2017-03-01", "2017-08-01", "2017-11-01", "2019-01-01", "2019-04-01", "2019-08-01", "2020-07-01"]


def resident(simulator):
    """Its memory, in MB."""
    with open(f"/proc/{simulator.process.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024


def cpu_seconds(simulator):
    with open(f"/proc/{simulator.process.pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def ends_within_a_second(simulator):
    begun = time.monotonic()
    simulator.process.terminate()
    assert simulator.process.wait(patient(5)) == 0
    assert time.monotonic() - begun < 1


def poll(simulator, seconds):
    """Every VM's service is asked once a second on a kept connection; how long answers took."""
    urls = list(simulator.urls.values())
    begun, over = time.monotonic(), time.monotonic() + seconds

    def ask_some(number):
        took = []
        connections = {url: http.client.HTTPConnection(*address_of(url), timeout=patient(20)) for url in urls[number::10]}
        due = begun + number / 10
        while due < over:
            time.sleep(max(0, due - time.monotonic()))
            for connection in connections.values():
                asked = time.monotonic()
                connection.request("GET", EVENTS_PATH + "?api-version=2020-07-01", headers=METADATA)
                answer = connection.getresponse()
                assert answer.status == 200
                answer.read()
                took.append(time.monotonic() - asked)
            due += 1
        for connection in connections.values():
            connection.close()
        return took

    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        return sorted(itertools.chain.from_iterable(pool.map(ask_some, range(10))))


def five_hundred(seconds):
    with Simulator([f"vm-{number}" for number in range(500)]) as simulator:
        simulator.post_event(Resources=["vm-0"])
        before, begun = cpu_seconds(simulator), time.monotonic()
        took = poll(simulator, seconds)
        share = (cpu_seconds(simulator) - before) / (time.monotonic() - begun)
        assert len(took) >= 500 * seconds
        # Of so many ports one may have been somebody else's a moment ago, whose client still asks there.
        assert len(simulator.requests()) >= len(took)
        half, most = (took[len(took) * part // 100] * 1000 for part in (50, 99))
        print(f"{len(took)} answers, half within {half:.1f} ms, 99 of 100 within {most:.1f} ms, {share:.2f} cores, {resident(simulator):.0f} MB")
        ends_within_a_second(simulator)


def test_five_hundred_vms():
    five_hundred(1)


@pytest.mark.long
def test_five_hundred_vms_for_a_minute():
    five_hundred(60)


@pytest.fixture
def many_files():
    """This process may have as many files open as the kernel lets it. A shell of most systems, and ansible-test, allow 1,024."""
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))


def test_a_thousand_idle_connections_do_not_stop_the_next(many_files):
    with Simulator(["a"]) as simulator, contextlib.ExitStack() as stack:
        host = address_of(simulator.urls["a"])
        idle = [stack.enter_context(socket.create_connection(host, timeout=patient(5))) for _number in range(1100)]
        assert ask(simulator.urls["a"]).status == 200
        # The newest of them still serve.
        idle[-1].sendall(GET)
        assert idle[-1].recv(4096).startswith(b"HTTP/1.1 200")
        ends_within_a_second(simulator)


def memory_over(requests):
    """How the memory grows over so many requests and a tenth as many events' documents."""
    with Simulator(["a", "b"], options=["--time-scale", "60"]) as simulator:

        def ask_many(count):
            connection = http.client.HTTPConnection(*address_of(simulator.urls["a"]), timeout=patient(20))
            for number in range(count):
                if number % 1000 == 0:
                    simulator.post_event(NoticeSeconds=30, ImpactSeconds=7, SettleSeconds=5)
                connection.request("GET", EVENTS_PATH + "?api-version=2020-07-01", headers=METADATA)
                connection.getresponse().read()
            connection.close()

        ask_many(1000)
        before = resident(simulator)
        ask_many(requests)
        return resident(simulator) - before


def test_memory_is_flat():
    assert memory_over(4000) < 3


@pytest.mark.long
@pytest.mark.timeout(600)
def test_memory_is_flat_over_an_hour_of_ten_vms():
    assert memory_over(36000) < 5


# Any request

fuzz = hypothesis.settings(deadline=None, suppress_health_check=list(hypothesis.HealthCheck), max_examples=hypothesis.settings.default.max_examples)


@pytest.fixture(scope="module")
def simulator(tmp_path_factory):
    log = tmp_path_factory.mktemp("simulator") / "log"
    with log.open("wb") as file, Simulator(["a", "b"], stderr=file, options=["--time-scale", "0"]) as simulator:
        yield simulator
    # No traceback, whatever came.
    assert log.read_text() == ""


header_sets = st.lists(
    st.sampled_from([("Metadata", "true"), ("metadata", "TRUE"), ("Metadata", "false"), ("Metadata", ""), ("X-Forwarded-For", "1.2.3.4"), ("Accept", "*/*")]),
    max_size=3,
)
parameters = st.tuples(
    st.sampled_from(["api-version", "API-Version", "format", "x"]),
    st.sampled_from([*VERSIONS, "latest", "", "2020-07-02", "text", "%00"]),
)
paths = st.sampled_from(
    [EVENTS_PATH, EVENTS_PATH.title(), EVENTS_PATH + "/", "/metadata/instance", "/metadata/versions", "/", "/metadata//scheduledevents", "/%2e"]
)


@fuzz
@hypothesis.given(st.sampled_from(["GET", "GET", "GET", "PUT", "HEAD", "OPTIONS", "get"]), paths, st.lists(parameters, max_size=3), header_sets)
def test_a_200_is_only_given_where_it_is_due(simulator, method, path, query, headers):
    lines = [f"{method} {path}?{'&'.join(map('='.join, query))} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "Connection: close", "", ""]
    with socket.create_connection(address_of(simulator.urls["a"]), timeout=patient(5)) as sock:
        sock.sendall("\r\n".join(lines).encode())
        received = b"".join(iter(lambda: sock.recv(65536), b""))
    status = int(received.split(b" ")[1])
    names = [name.lower() for name, _value in query]
    metadata = [value for name, value in headers if name.lower() == "metadata"]
    polite = metadata[:1] in (["true"], ["TRUE"]) and "X-Forwarded-For" not in dict(headers) and len(set(names)) == len(names)
    version = {name.lower(): value for name, value in query}.get("api-version")
    due = {
        EVENTS_PATH: version in VERSIONS,
        "/metadata/instance": bool(version),
        "/metadata/versions": True,
    }.get(path.lower(), False)
    assert (status == 200) == (method == "GET" and polite and due)
    assert status == 200 or 400 <= status < 500


control_paths = st.sampled_from(
    "/events /faults /requests /state /clock /scenarios /disable / /events/x/start /requests?last=1 /requests?last=x /nothing".split()
)
names = st.sampled_from(
    "EventType Resources NoticeSeconds FurtherImpacts OnStart Impact Name events faults Scale Step Next Fault Cut Slow Probability Vm Domain".split()
)
numbers = st.sampled_from([0, 1, -1, 1.5, 10**12])
values = numbers | st.none() | st.text(max_size=5) | st.sampled_from(["Reboot", "a", "redeploy", True, [], ["a"], {}, [{"EventType": "x", "Vm": 1}]])
deep = st.recursive(values, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=4)
bodies = st.dictionaries(names, deep, max_size=4)


@fuzz
@hypothesis.given(st.sampled_from(["GET", "POST", "POST", "POST", "DELETE", "PUT"]), control_paths, bodies.map(json.dumps) | st.binary(max_size=30))
def test_the_control_address_answers_anything_with_json(simulator, method, path, body):
    answer = ask(simulator.control, method, path, version=None, headers={}, body=body)
    assert answer.status in (200, 201, 400, 403, 404, 405, 409)
    if (method, path) != ("GET", "/"):
        value = json.loads(answer.body)
        assert answer.status < 400 or isinstance(value["error"], str)
    simulator.clear_faults()
    simulator.ask("POST", "/clock", {"Scale": 0})
    assert isinstance(document(simulator.urls["a"])["Events"], list)
