# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import subprocess

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._addresses import network_of, own_addresses
from ansible_collections.graceful.azure.plugins.module_utils._spellings import endpoint

FIB_TRIE = """\
Local:
  +-- 0.0.0.0/0 3 0 5
     +-- 127.0.0.0/8 2 0 2
           |-- 127.0.0.0
              /8 host LOCAL
           |-- 127.0.0.1
              /32 host LOCAL
        |-- 127.255.255.255
           /32 link BROADCAST
     +-- 10.0.0.0/24 2 0 2
        |-- 10.0.0.0
           /24 link UNICAST
        |-- 10.0.0.4
           /32 host LOCAL
        |-- 169.254.0.7
           /32 host LOCAL
        |-- 10.0.0.255
           /32 link BROADCAST
"""
IF_INET6 = """\
00000000000000000000000000000001 01 80 10 80       lo
20010db8000000000000000000000004 02 40 00 82     eth0
fe8000000000000000fc00fffe000001 02 40 20 80     eth0
"""


def test_as_the_kernel_tells_them(tmp_path):
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "fib_trie").write_text(FIB_TRIE)
    (tmp_path / "net" / "if_inet6").write_text(IF_INET6)
    assert own_addresses(str(tmp_path)) == ["10.0.0.4", "2001:db8::4"]


def test_where_nothing_can_be_read(tmp_path):
    assert own_addresses(str(tmp_path)) == [] and network_of(str(tmp_path)) is None


def test_those_of_this_machine():
    told = json.loads(subprocess.run(["ip", "-json", "address"], stdout=subprocess.PIPE, check=True).stdout)
    known = {info["local"] for link in told for info in link["addr_info"] if info["scope"] == "global"}
    assert set(own_addresses()) >= known
    assert len(network_of()) == 16


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("10.0.0.4:80", ("10.0.0.4", 80)),
        ("[2001:db8::1]:8300", ("2001:db8::1", 8300)),
        ("2001:DB8:0:0::1:8300", ("2001:db8::1", 8300)),
        ("[::ffff:10.0.0.4]:80", ("10.0.0.4", 80)),
        ("web1:80", None),
        ("10.0.0.4", None),
        ("10.0.0.4:0", None),
        ("10.0.0.4:65536", None),
        ("None:8300", None),
        ("", None),
    ],
)
def test_an_address_with_a_port_is_the_same_in_every_spelling(text, found):
    assert endpoint(text) == found
