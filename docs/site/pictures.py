# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Takes the pictures in docs/pictures: of the site, and of the reports of two real runs, of which docs/report.md shows some.

Needs Chromium and pngquant. Run it after these, from the root of the repository:

    make docs
    make demo
    build/venv/bin/python -m pytest -m long tests/integration/test_report.py -k goes_well --basetemp build/pictures
    build/venv/bin/python docs/site/pictures.py
"""

from __future__ import annotations

import functools
import http.server
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.support.browser import Browser  # noqa: E402

BUILD = ROOT / "build"
WIDE, PHONE = 1280, 390
MOST_BYTES = 150_000
SEARCHED = "document.querySelectorAll('#search-results p.context').length > 20"


class Picture(NamedTuple):
    """A page of which a picture is taken, when a condition in JavaScript is met."""

    name: str
    page: str  # a pattern below build
    width: int
    height: int
    dark: bool = False
    query: str = ""
    ready: str = "true"


PICTURES = (
    Picture("site-first-page", "site/index.html", WIDE, 1050),
    Picture("site-module", "site/reference/scheduled_events_wait_module.html", WIDE, 1250),
    Picture("site-search", "site/search.html", WIDE, 800, query="?q=drain", ready=SEARCHED),
    Picture("site-diagrams-dark", "site/docs/how-it-decides.html", WIDE, 1250, dark=True),
    Picture("site-phone", "site/docs/when-something-is-wrong.html", PHONE, 1100),
    Picture("site-phone-dark", "site/docs/windows.html", PHONE, 1100, dark=True),
    Picture("report-demo", "demo/reports/report-*.html", WIDE, 1500),
    Picture("report-trouble", "pictures/*0/reports/report-*.html", WIDE, 1500),
    Picture("report-trouble-phone-dark", "pictures/*0/reports/report-*.html", PHONE, 1100, dark=True),
)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_arguments):
        pass


def take(browser, address, picture):
    """The picture as PNG with a palette."""
    pages = sorted(BUILD.glob(picture.page))
    if len(pages) != 1:
        raise SystemExit(f"{picture.name}: build/{picture.page} is {len(pages)} files instead of one; see the head of this file")
    browser.open(f"{address}/{pages[0].relative_to(BUILD)}{picture.query}", (picture.width, picture.height), picture.dark)
    browser.until(picture.ready)
    return subprocess.run(["pngquant", "--strip", "--speed", "1", "64", "-"], input=browser.picture(), stdout=subprocess.PIPE, check=True).stdout


def main():
    # A page that is no file may read others, as the search does for its excerpts.
    handler = functools.partial(Quiet, directory=BUILD)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, Browser() as browser:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        for picture in PICTURES:
            drawn = take(browser, address, picture)
            if len(drawn) > MOST_BYTES:
                raise SystemExit(f"{picture.name} would have {len(drawn)} bytes, more than {MOST_BYTES}")
            (ROOT / "docs" / "pictures" / (picture.name + ".png")).write_bytes(drawn)
            print(f"{picture.name}: {len(drawn)} bytes")
        server.shutdown()


if __name__ == "__main__":
    main()
