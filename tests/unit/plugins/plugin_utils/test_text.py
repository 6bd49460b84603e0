# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._text import LAST_SECOND, clock, is_url, joined, shows_connections


@pytest.mark.parametrize(
    ("address", "wanted"),
    [
        ("http://localhost:8080/health", True),
        ("https://[::1]:8443/", True),
        ("HTTPS://example.com", True),
        ("localhost:8080", False),
        ("ftp://example.com", False),
        ("http:///health", False),
        ("http://a:0/", False),
        ("http://a:b/", False),
        ("http://[::1/", False),
        ("http://a/b c", False),
        ("http://a/\n", False),
        (None, False),
    ],
)
def test_the_address_of_something_that_is_asked(address, wanted):
    assert is_url(address) is wanted


def test_what_a_person_types_to_see_connections():
    assert shows_connections([80, 443]) == "ss -tnp 'sport = :80 or sport = :443' (Windows: netstat -n)"


def test_sentences_become_one_whose_full_stop_stands_at_the_end():
    assert joined(["web1 was touched.", "nothing else", "wait ...", "Put it back."]) == "web1 was touched; nothing else; wait ...; Put it back."
    assert (joined(["One."]), joined([])) == ("One.", "")


def test_a_time_beyond_all_calendars():
    """Such as the end of graceful_azure_drain_timeout: 1e300."""
    assert clock(1e300, 0.0) == clock(LAST_SECOND, 0.0)
