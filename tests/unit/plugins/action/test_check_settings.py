# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a run begins, and what is told at its begin."""

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.action.check_settings import begin_run, is_partial, read_elsewhere, too_few_forks
from ansible_collections.graceful.azure.plugins.plugin_utils._settings import read_settings
from ansible_collections.graceful.azure.plugins.plugin_utils._variables import unsaid_connections

ARGS = {"wait": True, "timeout": 60, "sleep": 1, "observe_timeout": 5}


class Hostvars(dict):
    raw_get = dict.get


def begin(check_mode=False, variables=None, **args):
    """What the passes begin with, and the mistakes in the options of the run."""
    settings, mistakes = read_settings({"web0": dict({"graceful_azure_duties": []}, **variables or {})}, {"web0"})
    return begin_run(dict(ARGS, **args), settings, mistakes, 5, check_mode), mistakes


@pytest.mark.parametrize(("hosts", "forks", "rounds"), [(5, 1, 5), (100, 5, 20), (21, 5, 5)])
def test_too_few_forks(hosts, forks, rounds):
    (warning,) = too_few_forks(hosts, forks)
    assert f"{forks} forks for {hosts} hosts" in warning and f"in {rounds} rounds" in warning


@pytest.mark.parametrize(("hosts", "forks"), [(4, 1), (20, 5), (100, 25), (1, 1)])
def test_enough_forks(hosts, forks):
    assert too_few_forks(hosts, forks) == []


@pytest.mark.parametrize("forks", [None, 1, 5])
def test_the_forks_of_the_run(forks):
    settings, mistakes = read_settings({"web0": {"graceful_azure_duties": []}}, {"web0"})
    assert begin_run(ARGS, settings, mistakes, forks)["run"]["forks"] == (forks or 1)


@pytest.mark.parametrize("option", ["journal", "report", "metrics"])
@pytest.mark.parametrize("given", [7, True, ["/x"]])
def test_what_is_no_path(option, given):
    mistakes = []
    begin_run(dict(ARGS, **{option: given}), {}, mistakes, 5, check_mode=True)
    assert mistakes == [f"handle_events_{option}: {given!r} cannot be read as a path"]


def test_whether_others_behind_balancers_are_no_targets():
    settings = {"web1": {"load_balancers": [{"hosts": ["lb1"]}]}}
    everybody = Hostvars(web1={}, lb1={"graceful_azure_duties": []}, db1={}, web2={"graceful_azure_duties": [{"type": "haproxy", "hosts": ["lb1"]}]})
    assert is_partial(settings, everybody)
    assert is_partial(settings, Hostvars(web1={}, web2={"graceful_azure_duties": "{{ theirs }}"}))
    assert not is_partial(settings, Hostvars(web1={}, lb1={"graceful_azure_duties": []}, db1={"graceful_azure_duties": ["postgresql"]}))
    assert not is_partial(dict(settings, web2=settings["web1"]), everybody)


@pytest.mark.parametrize("url", [None, "http://169.254.169.254", "http://169.254.169.254:80/"])
def test_nothing_is_said_of_the_service_of_azure(url):
    assert read_elsewhere({"web1": url}) == []


def test_a_simulator_that_a_trial_has_left_is_named():
    (line,) = read_elsewhere({"web1": "http://10.0.0.1:8171", "web2": "http://10.0.0.1:8172", "web3": None})
    assert line == (
        "web1, web2: events are read at http://10.0.0.1:8171, http://10.0.0.1:8172 (graceful_azure_imds_url), not at Azure's address 169.254.169.254."
        " Remove it after a trial: as long as it is set, no real event is seen."
    )
    (line,) = read_elsewhere({f"web{number}": f"http://127.0.0.1:{8000 + number}" for number in range(9)})
    assert line.startswith("web0, web1, web2 and 6 more: events are read at http://127.0.0.1:8000, ") and " and 6 more (graceful_azure_imds_url)" in line


@pytest.mark.parametrize(("check_mode", "wait", "twice"), [(False, True, False), (False, "no", True), (True, False, False), (True, True, False)])
def test_a_run_of_one_step_looks_twice(check_mode, wait, twice):
    begun, mistakes = begin(check_mode=check_mode, wait=wait)
    assert (begun["run"]["look_twice"], mistakes) == (twice, [])


@pytest.mark.parametrize(("option", "least"), [("timeout", "0"), ("sleep", "0"), ("observe_timeout", "0.1")])
def test_true_is_not_a_second(option, least):
    assert begin(**{option: True})[1] == [f"handle_events_{option}: True is not a number of seconds from {least} up"]


def test_with_a_mistake_nothing_begins():
    begun, mistakes = begin(wait="maybe")
    assert mistakes == ["handle_events_wait: 'maybe' is neither true nor false"] and begun["turns"] == {}


@pytest.mark.parametrize("check_mode", [False, True])
def test_a_journal_that_cannot_be_written_is_found_before_the_first_pass(tmp_path, check_mode):
    (mistake,) = begin(check_mode, journal=str(tmp_path / "none" / "journal"))[1]
    assert "handle_events_journal" in mistake and "No such file" in mistake


@pytest.mark.parametrize(
    "option, path, said",
    [
        ("report", "/proc/version/reports", "must be a folder in which files can be written: "),
        ("metrics", "/tmp/web.txt", "must be a file whose name ends with .prom"),
        ("metrics", "/tmp/.prom", "must be a file whose name ends with .prom"),
        ("metrics", "/proc/version/x.prom", "cannot be written: "),
    ],
)
def test_report_and_metrics_that_cannot_be_written_are_found_before_the_first_pass(option, path, said):
    (mistake,) = begin(**{option: path})[1]
    assert mistake.startswith(f"handle_events_{option}: {path!r} {said}")


@pytest.mark.parametrize(
    "connections, unsaid",
    [
        ({"web1": None, "lb1": None}, []),
        ({"web1": None, "lb1": "ssh"}, []),
        ({"web1": "local", "lb1": "local"}, []),
        # After localhost, Ansible would reach the others as it has reached localhost.
        ({"web1": None, "web2": "ssh", "lb1": None, "localhost": "local"}, ["lb1", "web1"]),
        ({"web1": "{{ how }}", "lb1": None}, ["lb1"]),
    ],
)
def test_whoever_does_not_say_how_it_is_reached_is_told_where_others_are_reached_otherwise(connections, unsaid):
    machines = {name: {"ansible_connection": how} for name, how in connections.items()}
    assert unsaid_connections(machines, "ssh") == unsaid
