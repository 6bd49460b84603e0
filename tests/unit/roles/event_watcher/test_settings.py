# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the watcher refuses to start with, and how it says so."""

from __future__ import annotations

import json
import os

import pytest
from graceful_azure_watcher.settings import DEFAULTS, Settings, SettingsError, read, read_secret

TEMPLATE = "https://awx.example.com/api/v2/job_templates/7/"


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret"
    path.write_text("s3cret\n")
    path.chmod(0o600)
    return path


def mistakes(**values):
    with pytest.raises(SettingsError) as caught:
        Settings(dict(DEFAULTS, **values))
    return str(caught.value)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "action is not given"),
        ({"action": "mail"}, "action is 'mail': it must be one of run, awx, eda, file."),
        ({"action": "run"}, "needs command"),
        ({"action": "run", "command": "reboot now"}, "command must be a list"),
        ({"action": "run", "command": ["a", ""]}, "command must be a list"),
        ({"action": "run", "command": ["a", "b\0"]}, "command must be a list"),
        ({"action": "run", "command": ["a", 8080]}, "command must be a list"),
        ({"action": "file", "fast_path_types": "Preempt"}, "fast_path_types must be a list of Freeze, Reboot,"),
        ({"action": "file", "fast_path_types": ["Preempt", 5]}, "fast_path_types must be a list"),
        ({"action": "file", "fast_path_types": ["Panic"]}, "fast_path_types must be a list"),
        ({"action": "file", "fast_path": ["true"], "fast_path_types": []}, "fast_path_types is empty, so fast_path would never run."),
        ({"action": "file", "resource_name": 7}, "resource_name must be text, not 7."),
        ({"action": "file", "state_dir": None}, "state_dir must be text, not None."),
        ({"action": "eda", "url": "https://eda.example.com/", "secret_file": 7}, "secret_file must be text, not 7."),
        ({"action": "file", "fast_path_undo": ["in"]}, "no fast_path that it undoes"),
        ({"action": "file", "repeat": 0}, "repeat must be a number of seconds from 1 up, not 0."),
        ({"action": "file", "command_timeout": float("nan")}, "command_timeout must be a number"),
        ({"action": "file", "colour": "red"}, "colour: no such setting"),
        ({"action": "awx", "auth": "hmac"}, "must be one of token, host_config_key"),
        ({"action": "eda", "auth": "host_config_key"}, "must be one of token, hmac"),
        ({"action": "eda"}, "needs url"),
        ({"action": "file", "target": "all:!web1"}, "target must be the name of a group or a host, or several with commas between them, not 'all:!web1'."),
        ({"action": "file", "target": 7}, "target must be text, not 7."),
        ({"action": "awx", "auth": "host_config_key", "target": "web"}, "target is of no use with auth host_config_key"),
        ({"action": "eda", "url": "https://eda.example.com/"}, "needs secret_file"),
    ],
)
def test_mistakes(values, said):
    assert said in mistakes(**values)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://awx.example.com/", "must be like https://"),
        ("awx.example.com", "must be like https://"),
        ("https:///x", "must be like https://"),
        ("https://awx.example.com:0/", "must be like https://"),
        ("https://awx.example.com:x/", "cannot be understood"),
        ("https://awx.example.com/a b", "must be like https://"),
        ("http://awx.example.com/api/v2/job_templates/7/", "would send the token unencrypted"),
        ("http://127.0.0.1.example.com/api/v2/job_templates/7/", "would send the token unencrypted"),
        ("https://awx.example.com/", "must be that of a job template"),
        (TEMPLATE + "launch/", "must be that of a job template"),
    ],
)
def test_addresses(secret, url, said):
    assert said in mistakes(action="awx", url=url, secret_file=str(secret))


def test_a_password_in_an_address_is_not_repeated(secret):
    said = mistakes(action="awx", url="https://me:hidden@awx.example.com/api/v2/job_templates/7/", secret_file=str(secret))
    assert "must not carry" in said and "hidden" not in said


@pytest.mark.parametrize(
    "values",
    [
        {"action": "awx", "url": TEMPLATE},
        {"action": "awx", "url": TEMPLATE, "target": "web,db1.example.com"},
        {"action": "awx", "url": "https://aap.example.com/api/controller/v2/job_templates/drain++Default/", "auth": "host_config_key"},
        {"action": "awx", "url": "http://127.0.0.1:8043/api/v2/job_templates/7"},
        {"action": "eda", "url": "http://eda.example.com:5000/endpoint", "auth": "hmac"},
        {"action": "eda", "url": "http://[::1]:5000/"},
        {"action": "eda", "url": "http://[0:0::1]:5000/"},
    ],
)
def test_what_is_right(secret, values):
    assert Settings(dict(DEFAULTS, secret_file=str(secret), **values)).secret() == "s3cret"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"one\ntwo\n", "more than one line"),
        (b"one\r\n\r\n", "more than one line"),
        (b"with blank", "no header can carry"),
        ("größe".encode(), "no header can carry"),
        (b"x" * 5000, "longer than"),
    ],
)
def test_a_secret_that_cannot_be_one(secret, content, said):
    secret.write_bytes(content)
    with pytest.raises(SettingsError, match=said) as caught:
        read_secret(str(secret))
    assert "one" not in str(caught.value).replace("more than one line", "")


def test_a_secret_that_others_can_read(secret):
    for mode in (0o640, 0o604, 0o620):
        secret.chmod(mode)
        with pytest.raises(SettingsError, match="can be read by others"):
            read_secret(str(secret))


def test_a_secret_that_is_not_there(tmp_path, monkeypatch):
    with pytest.raises(SettingsError, match="No such file"):
        read_secret(str(tmp_path / "nothing"))
    with pytest.raises(SettingsError, match="not a regular file"):
        read_secret(str(tmp_path))
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(SettingsError, match="not a regular file"):
        read_secret(str(tmp_path / "pipe"))
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    with pytest.raises(SettingsError, match="no such credential"):
        read_secret("credential:token")


def test_a_credential_is_looked_at_in_the_unit_alone(monkeypatch):
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    values = dict(DEFAULTS, action="eda", url="https://eda.example.com/", secret_file="credential:token")
    with pytest.raises(SettingsError, match="no such credential"):
        Settings(values)
    Settings(values, in_unit=False)
    with pytest.raises(SettingsError, match="No such file"):
        Settings(dict(values, secret_file="/nowhere/token"), in_unit=False)


def test_a_credential_of_the_service_manager(secret, tmp_path, monkeypatch):
    # Where a service has a user of its own, systemd opens it by an ACL, which shows as rights of the group.
    secret.chmod(0o440)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert read_secret("credential:secret") == "s3cret"
    with pytest.raises(SettingsError, match="no such credential"):
        read_secret("credential:../secret")


@pytest.mark.parametrize("content", ["", "[]", "{"])
def test_a_file_that_is_none(tmp_path, content):
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(SettingsError, match=r"config\.json"):
        read(str(path))
    path.write_text(json.dumps({"action": "file"}))
    assert Settings(read(str(path))).repeat == 60
