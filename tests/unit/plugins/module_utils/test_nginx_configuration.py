# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading nginx's configuration files, and changing one line of them."""

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._nginx import arguments
from ansible_collections.graceful.azure.plugins.module_utils._nginx_configuration import (
    Configuration,
    ConfigurationError,
    decode,
    directives,
    encode,
    put_back,
    taken_out,
    words_of,
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a b;", [("a", "b")]),
        ("a 'b c' \"d;{}#\";", [("a", "b c", "d;{}#")]),
        ("a b# c;", [("a", "b#", "c")]),
        ("a # b;\n c;", [("a", "c")]),
        (r"a b\ c\;d;", [("a", r"b\ c\;d")]),
        (r'a "x\"y\n";', [("a", 'x"y\n')]),
        ("a ${b}c;", [("a", "${b}c")]),
        ("a b}c;", [("a", "b}c")]),
        ("a{b c;}", [("a",), ("b", "c"), ()]),
        ('content_by_lua_block { if x then y = "}" -- }\n z = { 1 } end } a b;', [("content_by_lua_block",), ("a", "b")]),
    ],
)
def test_words(text, words):
    assert [tuple(word.text for word in directive.words) for directive in directives(text)] == words


@pytest.mark.parametrize("text", ["a b", "a 'b;", ";", "a }", "x_by_lua_block { a"])
def test_what_nginx_refuses_is_an_error(text):
    with pytest.raises(ConfigurationError):
        list(directives(text))


@pytest.mark.parametrize(
    ("line", "out"),
    [
        ("server a;", "server a down;"),
        ("server 'a'  weight=2 ;", "server 'a'  weight=2 down ;"),
        ("server a # a comment;\n  backup\n;", "server a # a comment;\n  backup down\n;"),
        ("server\ta\n;", "server\ta down\n;"),
    ],
)
def test_a_line_that_is_taken_out_and_put_back_is_what_it_was(line, out):
    assert taken_out(line) == out
    assert put_back(out) == line
    assert "down" in words_of(out)


def test_only_a_parameter_is_removed():
    assert put_back("server down weight=1 down;") == "server down weight=1;"
    assert put_back("server down;") == "server down;"


def test_bytes_that_are_no_utf_8_stay():
    data = b"server \xff\xfe; # \xe9"
    assert encode(decode(data)) == data


def test_servers_of_upstreams_are_found_wherever_they_are(tmp_path):
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "a.conf").write_text('upstream a { server "x:1" weight=2; server y:1 down; }\n')
    (tmp_path / "conf.d" / ".hidden.conf").write_text("upstream hidden { server x:1; }")
    (tmp_path / "list").write_text("server x:1 backup;\n")
    (tmp_path / "nginx.conf").write_text(
        "# server x;\nhttp { include conf.d/*.conf;\n server { listen 1; location / { return 200 'upstream b { server x:1; }'; } }\n"
        " upstream c { include list; } upstream d { include list; }\n}\nstream{upstream s{server h:1;}}\nmail { server { listen 2; } }\n"
    )
    found = Configuration(str(tmp_path / "nginx.conf"))
    told = [(server.context, server.upstream, server.address, server.line, server.down, server.backup) for server in found.servers]
    assert told == [
        ("http", "a", "x:1", 1, False, False),
        ("http", "a", "y:1", 1, True, False),
        ("http", "c, d", "x:1", 1, False, True),
        ("stream", "s", "h:1", 6, False, False),
    ]
    assert sorted(path.rpartition("/")[2] for path in found.files) == ["a.conf", "list", "nginx.conf"]


def test_a_file_that_includes_itself_is_told(tmp_path):
    (tmp_path / "nginx.conf").write_text("include nginx.conf;")
    with pytest.raises(ConfigurationError, match="included by itself"):
        Configuration(str(tmp_path / "nginx.conf"))


def test_a_file_that_is_missing_is_told(tmp_path):
    (tmp_path / "nginx.conf").write_text("include none.conf;")
    with pytest.raises(ConfigurationError, match=r"none\.conf cannot be read: No such file or directory"):
        Configuration(str(tmp_path / "nginx.conf"))


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("/usr/sbin/nginx", {}),
        ("nginx -g daemon on; master_process on;", {"g": "daemon on; master_process on;"}),
        ("nginx -p /a -c /b/n.conf -e stderr -g daemon off; -q", {"p": "/a", "c": "/b/n.conf", "e": "stderr", "g": "daemon off;"}),
        ("nginx -c/b/n.conf", {"c": "/b/n.conf"}),
    ],
)
def test_the_options_of_a_running_nginx(command, options):
    assert dict(arguments(command)) == options
