# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading nginx's configuration files, and changing one line of them."""

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.module_utils._hold_records import new_record
from ansible_collections.graceful.azure.plugins.module_utils._nginx import arguments
from ansible_collections.graceful.azure.plugins.module_utils._nginx_configuration import (
    MARK_LIMIT,
    Configuration,
    ConfigurationError,
    decode,
    directives,
    encode,
    matching,
    put_back,
    taken_out,
    words_of,
)
from ansible_collections.graceful.azure.plugins.module_utils._nginx_hold import condition_of, mark_of, record_in


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
        ("a ${{b} c;", [("a", "${{b}", "c")]),
        ("a $ {b;}", [("a", "$"), ("b",), ()]),
    ],
)
def test_words(text, words):
    assert [tuple(word.text for word in directive.words) for directive in directives(text)] == words


LUA_CODE = [
    "",
    'ngx.say("ok")',
    'if x then y = "}" -- }\n z = { 1 } end',
    "local t = { a = { b = {} } }",
    "s = 'it\\'s }' .. \"\\\"}\" .. '\\\\'",
    "-- it's one brace: }\nx = 1",
    "--[[ } it's\n } ]] x = 1",
    "--[==[ } ]] ]=] } ]==] x = 1",
    "---[[ no long comment }\nx = 1",
    "-- [[ no long comment }\nx = 1",
    "x = [[ } \" ' ]] .. [==[ }]] ]=] ]==]",
    "x = t[t[1]] - -1",
    "x = a[ [[}]] ]",
    "local u = 'upstream b { server x:1; }'",
]


@pytest.mark.parametrize("code", LUA_CODE)
def test_a_block_of_lua_code_is_skipped(code):
    text = "init_by_lua_block { %s\n} set_by_lua_block $a {%s\n} a b;" % (code, code)
    found = [(tuple(word.text for word in directive.words), directive.ends) for directive in directives(text)]
    assert found == [(("init_by_lua_block",), "{"), ((), "}"), (("set_by_lua_block", "$a"), "{"), ((), "}"), (("a", "b"), ";")]


@pytest.mark.parametrize(
    "text", ["a b", "a 'b;", ";", "a }", "x_by_lua_block { a", "x_by_lua_block { '}", "x_by_lua_block { [=[ ]] }", "x_by_lua_block { --[[ }"]
)
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


FILES = ("shop", "shop~", "#shop#", ".shop.swp", "b.conf", "B.conf", "1.conf", "a*b", "a\\b", "[x]", "\u00e9.conf")


@pytest.mark.parametrize(
    ("mask", "found"),
    [
        ("*.conf", ["1.conf", "B.conf", "b.conf", "\u00e9.conf"]),
        ("[^.#]*", ["1.conf", "B.conf", "[x]", "a*b", "a\\b", "b.conf", "shop", "shop~", "\u00e9.conf"]),
        ("[!.#]*p", ["shop"]),
        ("*[^~]", ["#shop#", "1.conf", "B.conf", "[x]", "a*b", "a\\b", "b.conf", "shop", "\u00e9.conf"]),
        ("[[:alpha:]].conf", ["B.conf", "b.conf"]),
        ("[[:digit:]]*", ["1.conf"]),
        (r"a\**", ["a*b"]),
        (r"[\[]*", ["[x]"]),
        ("{b,B}.con[f]", []),
        ("??.conf", ["\u00e9.conf"]),
        ("none*", []),
    ],
)
def test_a_mask_is_read_as_the_c_library_does(tmp_path, mask, found):
    for name in FILES:
        (tmp_path / name).write_text("")
    assert [path.rpartition("/")[2] for path in matching(str(tmp_path) + "/" + mask)] == found


def test_a_block_geo_takes_names_as_they_are(tmp_path):
    (tmp_path / "[1]").write_text("10.0.0.0/8 1;")
    (tmp_path / "nginx.conf").write_text("http { geo $a { include [1]; } }")
    assert [path.rpartition("/")[2] for path in Configuration(str(tmp_path / "nginx.conf")).files] == ["nginx.conf", "[1]"]


def test_a_folder_that_a_link_leads_to_is_left_by_its_own_way_up(tmp_path):
    """nginx does not shorten paths, and the folder above a link's target is another one."""
    (tmp_path / "real" / "conf").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real/conf")
    (tmp_path / "real" / "nginx.conf").write_text("include a.conf;")
    (tmp_path / "real" / "a.conf").write_text("user a;")
    found = Configuration(str(tmp_path / "link" / ".." / "nginx.conf"))
    assert sorted(found.files) == [str(tmp_path / "real" / "a.conf"), str(tmp_path / "real" / "nginx.conf")]


class TestWhatNginxReads:
    @pytest.fixture(name="read")
    def make(self, tmp_path):
        (tmp_path / "nginx.conf").write_text("http { include a.conf; }")
        (tmp_path / "a.conf").write_text("upstream u { server x:1; } # \u00e9")
        return Configuration(str(tmp_path / "nginx.conf"))

    @staticmethod
    def dump(read, *names):
        return "".join("# configuration file %s/%s:\n%s\n" % (read.path.rpartition("/")[0], name, text) for name, text in names)

    MAIN = ("nginx.conf", "http { include a.conf; }")
    MORE = ("a.conf", "upstream u { server x:1; } # \u00e9")

    def test_the_same(self, read):
        assert read.differs_from(self.dump(read, self.MAIN, self.MORE)) is None

    def test_one_more(self, read):
        assert "nginx reads the file %s/b.conf" % read.path.rpartition("/")[0] in read.differs_from(self.dump(read, self.MAIN, self.MORE, ("b.conf", "")))

    def test_one_less(self, read):
        assert "nginx does not read the file" in read.differs_from(self.dump(read, self.MAIN))

    def test_other_contents(self, read):
        assert "with other contents" in read.differs_from(self.dump(read, self.MAIN, ("a.conf", "upstream u { server x:2; }")))

    def test_something_else(self, read):
        assert "cannot be understood" in read.differs_from("Segmentation fault")

    def test_a_comment_that_looks_like_a_heading(self, tmp_path):
        """People make a configuration of what nginx -T printed."""
        text = "# configuration file /none:\nhttp {}\n"
        (tmp_path / "nginx.conf").write_text(text)
        read = Configuration(str(tmp_path / "nginx.conf"))
        assert read.differs_from(self.dump(read, ("nginx.conf", text))) is None


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
        ("nginx -qc /b/n.conf", {"c": "/b/n.conf"}),
        ("nginx -p /b -qqcn.conf -gdaemon off; -estderr", {"p": "/b", "c": "n.conf", "g": "daemon off;", "e": "stderr"}),
        ("nginx -c /b/n.conf -tq", {"c": "/b/n.conf"}),
    ],
)
def test_the_options_of_a_running_nginx(command, options):
    assert dict(arguments(command)) == options


PASSES = """
stream { upstream s { server 10.0.0.4:1; } server { proxy_pass 10.0.0.4:5432; } server { proxy_pass s; } server { listen 53 udp; proxy_pass s; } }
http {
  map $host $target { default 10.0.0.4:9001; hostnames; *.internal shop; }
  upstream shop { server 10.0.0.4:80; }
  server {
    set $api "10.0.0.4:9002";
    set $other $host;
    location /a { proxy_pass http://10.0.0.4/x; }
    location /b { proxy_pass https://[2001:db8::4]; }
    location /c { fastcgi_pass unix:/run/app.sock; }
    location /d { proxy_pass http://unix:/run/app.sock:/path; }
    location /e { proxy_pass http://$target; }
    location /f { proxy_pass https://${api}/f; }
    location /g { grpc_pass grpc://web1.internal:50051; }
    location /h { proxy_pass http://shop/; }
    location /i { proxy_pass http://shop:80; }
    location /j { proxy_pass http://$other; }
  }
}
"""


def test_addresses_in_passes_are_found(tmp_path):
    (tmp_path / "nginx.conf").write_text(PASSES)
    configuration = Configuration(str(tmp_path / "nginx.conf"))
    assert [(each.context, each.address) for each in configuration.passes if not each.unknown] == [
        ("stream", "10.0.0.4:5432"),
        ("http", "10.0.0.4"),
        ("http", "[2001:db8::4]:443"),
        ("http", "unix:/run/app.sock"),
        ("http", "unix:/run/app.sock"),
        ("http", "10.0.0.4:9001"),
        ("http", "10.0.0.4:9002"),
        ("http", "web1.internal:50051"),
    ]
    assert configuration.passes[5].text == "proxy_pass http://$target;"
    assert [(each.text, each.unknown) for each in configuration.passes if each.unknown] == [
        ("proxy_pass http://$other;", "the address 'http://$host' is not known before the request")
    ]
    assert configuration.has_udp


@pytest.mark.parametrize(
    ("text", "several", "quic"),
    [
        ("server { listen 443 ssl; mirror off; ssi off; http2 off; location / { ssi_types *; auth_request /a; js_import a.js; } }", True, False),
        ("server { listen 443 ssl; mirror off; ssi off; http2 off; location / { ssi_types *; auth_request /a; } }", False, False),
        ("server { listen 443 ssl http2; }", True, False),
        ("http2 on;", True, False),
        ("server { listen 443 quic; }", True, True),
        ("server { location / { mirror /copy; } }", True, False),
        ("server { location / { ssi on; } }", True, False),
        ("server { location / { add_after_body /foot; } }", True, False),
        ("server { location / { slice 1m; } }", True, False),
        ("server { location / { slice 0; } }", False, False),
        ("proxy_cache_background_update on;", True, False),
        ("server { location / { access_by_lua_block { local a = '}' } } }", True, False),
        ("server { location / { content_by_lua_file a.lua; } }", True, False),
    ],
)
def test_whether_a_client_may_have_connections_to_several_servers(tmp_path, text, several, quic):
    (tmp_path / "nginx.conf").write_text("http { %s }" % text)
    configuration = Configuration(str(tmp_path / "nginx.conf"))
    assert (configuration.has_several, configuration.has_quic) == (several, quic)


@pytest.mark.parametrize(
    ("more", "target", "addresses"),
    [
        ("", "http://10.0.0.4:8080$request_uri", ["10.0.0.4:8080"]),
        ("", "http://10.0.0.4:8080$1", ["10.0.0.4:8080"]),
        ("", "http://10.0.0.4$uri", ["10.0.0.4"]),
        ("", "http://10.0.0.4$1", ["10.0.0.4"]),
        ("", "http://web1$request_uri", ["web1"]),
        ("", "http://10.0.0.4:8080?a=$a", ["10.0.0.4:8080"]),
        ("", "http://[2001:db8::4]:80$request_uri", ["[2001:db8::4]:80"]),
        # The host is known, only its port is not.
        ("", "http://10.0.0.4:$server_port", ["10.0.0.4:0"]),
        ("", "http://127.0.0.1:$server_port", [None]),
        ("", "http://10.0.0.$1", [None]),
        ("", "http://web$n", [None]),
        ("", "http://$http_x", [None]),
        # Code gives it its value.
        ("set $a '';", "http://$a", [None]),
        ("set $a 10.0.0.4; set $b http://$a:81;", "$b", ["10.0.0.4:81"]),
        ("set $a $b; set $b $a;", "http://$a", [None]),
        ("map $host $a { default $b; } map $uri $b { default 10.0.0.4; }", "http://$a", ["10.0.0.4"]),
        ("map $host $a { include values; }", "http://$a$request_uri", ["10.0.0.4:82"]),
        ("map $host $a { ~^(?<n>.)$ 10.0.0.$n; default 10.0.0.4:83; }", "http://$a", [None, "10.0.0.4:83"]),
        ("geo $remote_addr $a { proxy 10.9.0.1; default 10.0.0.4; }", "http://$a", ["10.0.0.4"]),
        ("split_clients $uri $a { 50% 10.0.0.4; * 10.0.0.5; }", "http://$a", ["10.0.0.4", "10.0.0.5"]),
        (
            "upstream shop { server a; } map $host $a { %s default 10.0.0.4; }" % "".join("%d shop;" % number for number in range(300)),
            "http://$a",
            ["10.0.0.4"],
        ),
        ("map $host $a { default ''; b.internal 10.0.0.4; }", "http://$a", ["10.0.0.4"]),
        ("upstream Shop { server a; }", "http://shop$request_uri", []),
        # Behind a variable, nginx takes an address with a port for that of a host and not for the name of an upstream.
        ("upstream shop { server a; }", "http://shop:8080$request_uri", ["shop:8080"]),
        ("upstream shop { server a; } set $a shop:8080;", "http://$a", ["shop:8080"]),
        ("upstream shop { server a; } set $a shop; set $a shop:443;", "https://$a", ["shop:443"]),
        ("upstream shop { server a; } set $a shop;", "https://$a", []),
        # Something else may give it another value.
        ("upstream shop { server a; } set $a shop; auth_request_set $a $upstream_http_x;", "http://$a", [None]),
        ("upstream shop { server a; } set $a shop; server_name ~^(?<a>.+)[.]x$;", "http://$a", [None]),
        ("upstream shop { server a; } map $uri $a { default shop; } keyval $uri $a zone=x;", "http://$a", [None]),
        ("upstream shop { server a; } set $a shop; access_by_lua_block { ngx.var.a = 'b' }", "http://$a", [None]),
        ("upstream shop { server a; } set $a shop; header_filter_by_lua_block { }", "http://$a", []),
        ("upstream shop { server a; } map $uri $a { default shop; } access_by_lua_file x.lua;", "http://$a", []),
    ],
)
def test_addresses_in_passes_with_variables(tmp_path, more, target, addresses):
    (tmp_path / "values").write_text("default 10.0.0.4:82;")
    # Not each of these may stand here, but where they stand does not matter.
    (tmp_path / "nginx.conf").write_text("http { %s server { location / { proxy_pass %s; } } }" % (more, target))
    found = Configuration(str(tmp_path / "nginx.conf")).passes
    assert sorted("" if each.unknown else each.address for each in found) == [address or "" for address in addresses]


UPSTREAMS = """
http {
  upstream lua { server a:1; server b:1; balancer_by_lua_block { local t = { } } }
  upstream file { balancer_by_lua_file x.lua; server a:1; }
  upstream fair { fair; server a:1; }
  upstream two { fair; server a:1; server b:1; }
  upstream plain { ip_hash; server a:1; }
}
"""


def test_what_chooses_servers_whatever_their_lines_say_is_known(tmp_path, monkeypatch):
    """The code in Lua, and C(fair) in an upstream with one server, as tried with the modules of Debian 12."""
    (tmp_path / "nginx.conf").write_text(UPSTREAMS)
    configuration = Configuration(str(tmp_path / "nginx.conf"))
    servers = configuration.servers
    assert [(server.upstream, configuration.never_out(server)) for server in servers] == [
        ("lua", "balancer_by_lua_block of upstream lua chooses servers whatever their lines say"),
        ("lua", "balancer_by_lua_block of upstream lua chooses servers whatever their lines say"),
        ("file", "balancer_by_lua_file of upstream file chooses servers whatever their lines say"),
        ("fair", "fair of upstream fair chooses servers whatever their lines say"),
        ("two", None),
        ("two", None),
        ("plain", None),
    ]
    monkeypatch.setattr(Configuration, "servers", property(lambda self: pytest.fail("all servers were walked")))
    assert configuration.never_out(servers[0]) and not configuration.never_out(servers[-1])
    monkeypatch.undo()
    # It may send requests to a host that has no line.
    assert [(each.text, each.unknown, each.line) for each in configuration.passes] == [
        ("balancer_by_lua_block of upstream lua", "its code chooses where requests go", 3),
        ("balancer_by_lua_file of upstream file", "its code chooses where requests go", 4),
    ]


def test_directives_of_other_modules_that_pass_requests_on_are_found(tmp_path):
    (tmp_path / "nginx.conf").write_text("http { server { location / { redis2_pass 10.0.0.4:6379; } } } mail { auth_http 10.0.0.4:9000/auth; }")
    # To which server of mail a client is passed on, only the answer of auth_http tells.
    told = [("10.0.0.4:6379", None), ("", "its answer tells where each client is passed on"), ("10.0.0.4:9000", None)]
    assert [(each.address, each.unknown) for each in Configuration(str(tmp_path / "nginx.conf")).passes] == told


def test_more_values_than_can_be_looked_at_are_told(tmp_path):
    text = "http { %s server { location / { proxy_pass http://$a$b$c; } } }"
    (tmp_path / "nginx.conf").write_text(text % " ".join("map $host $%s { %s }" % (name, " ".join("%d %d;" % (i, i) for i in range(99))) for name in "abc"))
    assert [each.unknown for each in Configuration(str(tmp_path / "nginx.conf")).passes] == ["its address has too many values"]


def server_in(folder, text):
    path = folder / "nginx.conf"
    path.write_bytes(text.encode())
    (server,) = Configuration(str(path)).servers
    return server


EVENT = {"since": "2026-11-25T21:00:00Z", "reason": "Reboot", "details": {"resources": ["web_1"], "host": "web1", "rule": "a; } \n\u2028 #"}}


@pytest.mark.parametrize(
    "events", [{"A": EVENT}, {str(number): EVENT for number in range(12)}, {"A": dict(EVENT, details=dict(EVENT["details"], targets=["x"] * 900))}]
)
@pytest.mark.parametrize(
    "text",
    ["http {\n\tupstream a {\r\n\t  server\n  b ; # mine\r\n}}", "http{upstream a{server b;}}", "http {upstream a {keepalive 1;   server b weight=2;\n}}"],
)
def test_a_mark_tells_what_its_record_says_and_goes_with_it(tmp_path, text, events):
    server = server_in(tmp_path, text)
    assert server.mark is None and record_in(server) is None
    record = new_record("nginx_server", {}, {"line": server.text}, {}, events, for_server="other")
    mark = mark_of(record)
    assert len(mark) <= MARK_LIMIT and "\n" not in mark and mark.isascii()
    held = text[: server.begin] + mark + "\n" + server.indent + taken_out(server.text) + text[server.end :]
    left = server_in(tmp_path, held)
    told = record_in(left)
    assert (told["found"]["line"], told["left"]["line"], told["for_server"]) == (server.text, left.text, "other")
    assert list(told["events"]) == sorted(events) and all(entry["since"] == EVENT["since"] for entry in told["events"].values())
    if len(events) == 1:
        assert told["events"]["A"]["details"].items() >= {"resources": ["web_1"], "host": "web1"}.items()
    assert held[: left.begin] + server.text + held[left.end :] == text
    # It tells what was left, also where somebody else has changed the line since.
    for other in (held.replace(" down", ""), held.replace(" down", " down max_fails=7")):
        changed = server_in(tmp_path, other)
        assert record_in(changed) == told and condition_of(told, changed) == "changed_meanwhile"
    # What somebody else wrote there, or no longer has, is not ours.
    for other in (held[: left.start] + "server c down;" + held[left.end :], held.replace('"events":{', '"events":'), held.replace('"since"', '"s"')):
        assert record_in(server_in(tmp_path, other)) is None


def test_a_mark_that_would_be_too_long_is_left_out():
    assert mark_of(new_record("nginx_server", {}, {"line": "server a;"}, {}, {"x" * MARK_LIMIT: EVENT})) == ""
