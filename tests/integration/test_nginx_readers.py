# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reader of nginx's configuration against others: crossplane, and nginx itself (nginx -T), on configurations that are made up and on real ones."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from pathlib import Path

import crossplane
import pytest
from ansible_collections.graceful.azure.plugins.module_utils._nginx_configuration import Configuration
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.nginx import NEEDED, PROGRAM
from tests.support.patience import patient

SHIPPED = Path("/etc/nginx/nginx.conf")

# Words of a server's line as people write them: plain, in quotes, with escapes.
ADDRESSES = st.sampled_from(("10.0.0.4", "10.0.0.4:8080", '"10.0.0.5:80"', "'10.0.0.5'", "[::1]:80", '"[fd00::1]:8080"', "unix:/run/app.sock", "127.0.0.1:81"))
PARAMETERS = st.sampled_from(("down", "backup", "weight=2", '"weight=3"', "max_fails=0", "fail_timeout=2s", "'fail_timeout=1s'", "max_conns=5"))
GAPS = st.sampled_from((" ", "  ", "\t", "\n    ", " # a comment; with { signs }\n  ", "\r\n"))
# What stands beside the upstreams and must not be taken for one.
NOISE = (
    "",
    "# upstream none { server 1.1.1.1; }\n",
    'map $uri $a { default 0; server 1; \'~^/x{2}\' "a;b"; "it\'s" 2; }\n',
    "geo $b { default 0; 10.0.0.0/8 1; }\n",
    "server { listen unix:s.sock; location / { return 200 'upstream u { server 1.1.1.1; }'; } }\n",
    'server { listen unix:s.sock; if ($http_a ~* "x{1,2}\\\\}") { return 200 "${http_b}c"; } location ~ \'^/a{2}$\' { return 204; } }\n',
    "log_format NAME 'a \"b\" \\'c\\' ; { } #';\n",
    "types { text/html html; }\n",
)
# Masks, and the names of the files that stand in one folder for all of them.
MASKS = ("*.conf", "[^.#]*", "[!a]*.conf", "[[:alpha:]]*", "*[!~]", "?.conf", "[a-c].conf", "a.conf", "*\\.conf", "[[:digit:]]*")
NAMES = st.lists(
    st.sampled_from(("a.conf", "b.conf", "é.conf", "B.conf", "1.conf", "shop", "shop~", "#shop#", ".shop.swp", "x y.conf", "[1].conf")), unique=True
)


@st.composite
def upstreams(draw, names):
    """The text of some upstreams."""
    found = []
    for _number in range(draw(st.integers(0, 3))):
        lines = []
        for address in draw(st.lists(ADDRESSES, min_size=1, max_size=3)):
            parameters = draw(st.lists(PARAMETERS, max_size=3, unique_by=lambda word: word.strip("\"'").partition("=")[0]))
            # nginx refuses backup servers alone, and some of them with down.
            words = ["server", address, *(word for word in parameters if word != "backup")]
            gaps = [draw(GAPS) for _word in words]
            lines.append("".join(itertools.chain.from_iterable(zip(words, gaps)))[: -len(gaps[-1])] + draw(st.sampled_from(("", " ", "\n"))) + ";")
        found.append("upstream %s {%s%s}\n" % (next(names), draw(st.sampled_from(("", " ", "\n", "\n  least_conn;\n"))), draw(GAPS).join(lines)))
    return draw(st.sampled_from(NOISE)).replace("NAME", next(names)) + "".join(found)


@st.composite
def configurations(draw):
    """Texts by their names. The main one is nginx.conf."""
    names = ("u%d" % number for number in itertools.count())
    files = {"sites/" + name: draw(upstreams(names)) for name in draw(NAMES)}
    mask = draw(st.sampled_from(MASKS))
    include = draw(st.sampled_from(("include sites/%s;", "include 'sites/%s';", 'include "sites/%s" ;'))) % mask
    # Without the file, its name alone would be a mistake.
    files.setdefault("sites/a.conf", "")
    return dict(files, **{"nginx.conf": "events { }\nhttp {\n  access_log off;\n%s  %s\n}\n" % (draw(upstreams(names)), include)})


def lines_of_crossplane(path):
    """The servers of the upstreams, as crossplane reads them: the context, the upstream and the words of each line."""
    (whole,) = crossplane.parse(str(path), combine=True, catch_errors=False, strict=False, check_ctx=False, check_args=False)["config"]
    found = []
    for context in whole["parsed"]:
        for upstream in context.get("block") or ():
            if context["directive"] in ("http", "stream") and upstream["directive"] == "upstream":
                servers = (line for line in upstream["block"] if line["directive"] == "server")
                found.extend((context["directive"], upstream["args"][0], line["args"]) for line in servers)
    return found


def our_lines(read):
    return [(server.context, server.upstream, list(server.words[1:])) for server in read.servers]


def write(folder, files):
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    (folder / "sites").mkdir(exist_ok=True)
    return folder / "nginx.conf"


def dump(path, more="pid nginx.pid; error_log error.log;"):
    """What nginx reads, and why it refuses the configuration."""
    command = [PROGRAM, "-T", "-q", "-p", path.parent, "-c", path, "-g", more]
    told = subprocess.run(command, capture_output=True, check=False, timeout=patient(30), cwd=path.parent)
    return told.stdout.decode("utf-8", "surrogateescape"), told.stderr.decode()


@given(files=configurations())
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_crossplane_reads_the_same_servers(tmp_path_factory, files):
    # All in one file: crossplane asks Python which files a mask names.
    text = files.pop("nginx.conf").replace("  include", "  # include").rstrip("}\n") + "\n" + "".join(files.values()) + "}\n"
    path = write(tmp_path_factory.getbasetemp() / "crossplane", {"nginx.conf": text})
    assert our_lines(Configuration(str(path))) == lines_of_crossplane(path)


@NEEDED
@given(files=configurations())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_nginx_reads_the_same_files(tmp_path_factory, files):
    path = write(tmp_path_factory.getbasetemp() / "nginx", files)
    read, refused = dump(path)
    assert read, refused
    found = Configuration(str(path))
    assert found.differs_from(read) is None
    # Not one more, either.
    assert all("# configuration file %s:" % name in read for name in found.names)


@NEEDED
@pytest.mark.skipif(not SHIPPED.exists(), reason="no configuration of Debian's nginx")
def test_what_the_package_ships_is_read_as_nginx_reads_it(tmp_path):
    folder = tmp_path / "nginx"
    shutil.copytree(SHIPPED.parent, folder, symlinks=True)
    (folder / "modules").symlink_to("/usr/lib/nginx/modules")
    for path in folder.rglob("*"):
        if path.is_symlink() and str(path.readlink()).startswith("/etc/nginx"):
            target = path.readlink()
            path.unlink()
            path.symlink_to(folder / target.relative_to("/etc/nginx"))
        elif path.is_file() and not path.is_symlink():
            text = path.read_text().replace("/etc/nginx", str(folder)).replace("/run/", "%s/" % folder).replace("/var/log/nginx", str(folder))
            path.write_text(text.replace("listen 80", "listen unix:s.sock").replace("listen [::]:80", "listen unix:t.sock"))
    (folder / "conf.d" / "shop.conf").write_text("upstream shop { server 10.0.0.4:8080 weight=2; server 10.0.0.5:8080 down; }\n")
    read, refused = dump(folder / "nginx.conf", "")
    assert read, refused
    found = Configuration(str(folder / "nginx.conf"))
    assert found.differs_from(read) is None
    assert our_lines(found) == lines_of_crossplane(folder / "nginx.conf")
    assert [server.address for server in found.servers] == ["10.0.0.4:8080", "10.0.0.5:8080"]
