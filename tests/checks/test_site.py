# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The documentation site as a reader meets it: built without a warning, with every link and anchor, and with nothing from elsewhere."""

from __future__ import annotations

import re
import shutil
import urllib.parse
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.support import browser
from tests.support.checkout import BUILD, ROOT, checkout_files, must_pass
from tests.support.public import plugin_files

SITE = BUILD / "site"

# A build takes a minute on two cores.
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


class Page(HTMLParser):
    """C(ids): the anchors. C(links): where it leads. C(loads): what a browser fetches to show it. C(text): what a reader sees.

    C(headings): their levels, from above to below. C(mute): pictures without words for those who cannot see them.
    """

    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.loads, self.text, self.title = set(), [], [], [], ""
        self.headings, self.mute = [], []
        self._within = []
        self.feed(path.read_text(encoding="utf-8"))
        self.text = "".join(self.text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self._within = [*self._within, tag] if tag in ("script", "style", "title") else self._within
        self.ids |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag in ("h1", "h2", "h3", "h4", "h5", "h6"):
            self.headings.append(int(tag[1]))
        elif tag == "img" and not given.get("alt"):
            self.mute.append(given.get("src"))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and set(given["rel"].split()) & {"stylesheet", "icon", "preload", "prefetch"}:
            self.loads.append(given["href"])
        elif tag in ("script", "img", "iframe", "object") and (given.get("src") or given.get("data")):
            self.loads.append(given.get("src") or given["data"])

    def handle_endtag(self, tag):
        if self._within and self._within[-1] == tag:
            self._within.pop()

    def handle_data(self, data):
        if not self._within:
            self.text.append(data)
        elif self._within[-1] == "title":
            self.title += data


@pytest.fixture(scope="module")
def pages():
    shutil.rmtree(SITE, ignore_errors=True)  # with what is left of pages that are gone
    must_pass("make", "docs", timeout=890)
    return {path: Page(path) for path in sorted(SITE.rglob("*.html"))}


def is_elsewhere(target):
    return bool(urllib.parse.urlsplit(target).scheme or urllib.parse.urlsplit(target).netloc)


def resolved(page, target):
    """The file to which a relative link leads, and the anchor."""
    parts = urllib.parse.urlsplit(target)
    path = (page.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else page
    return path, urllib.parse.unquote(parts.fragment)


def is_internal(path):
    return 'short_description: "Internal: ' in (ROOT / path).read_text(encoding="utf-8")


def test_every_page_of_users_and_every_public_plugin_and_role_is_there(pages):
    """What is for developers is in the repository alone."""
    there = {str(path.relative_to(SITE).with_suffix("")) for path in pages}
    of_repository = {
        str(path.with_suffix(""))
        for path in checkout_files()
        if path.suffix == ".md" and (path.parent.name in ("", "docs") or path.match("roles/*/README.md")) and path.name != "architecture.md"
    }
    plugins = {path: f"reference/{path.stem}_{kind}" for path, kind in plugin_files().items()}
    internal = {page for path, page in plugins.items() if is_internal(path)}
    public = {*plugins.values()} - internal
    roles = {f"reference/{path.name}_role" for path in (ROOT / "roles").iterdir()}
    assert len(of_repository) > 40 and len(plugins) > 20 and len(public) > 10 and len(internal) > 5 and len(roles) > 5
    assert sorted((of_repository | public | roles) - there) == []
    assert sorted((internal | {"docs/architecture", "tests/FAULTS"}) & there) == []


def test_every_link_and_anchor_resolves(pages):
    wrong = []
    for page, found in pages.items():
        for target in found.links + found.loads:
            if is_elsewhere(target):
                continue
            path, anchor = resolved(page, target)
            if not path.exists() or anchor and path in pages and anchor not in pages[path].ids:
                wrong.append((str(page.relative_to(SITE)), target))
    assert wrong == []


def test_a_browser_fetches_nothing_from_elsewhere(pages):
    assert [(str(page.relative_to(SITE)), target) for page, found in pages.items() for target in found.loads if is_elsewhere(target)] == []
    sheets = [path for path in SITE.rglob("*.css") if "url(http" in path.read_text(encoding="utf-8").replace('"', "").replace("'", "")]
    assert sheets == []


def test_the_search_needs_no_server_and_knows_the_pages(pages):
    assert "_static/searchtools.js" in (SITE / "search.html").read_text(encoding="utf-8")
    index = (SITE / "searchindex.js").read_text(encoding="utf-8")
    assert '"docs/when-something-is-wrong"' in index and '"reference/scheduled_events_wait_module"' in index


def test_what_github_draws_is_drawn_here(pages):
    page = SITE / "docs" / "windows.html"
    assert "[!WARNING]" not in pages[page].text and 'class="admonition warning"' in page.read_text(encoding="utf-8")
    assert not any('class="highlight-mermaid' in path.read_text(encoding="utf-8") for path in pages)


def test_the_neighbours_of_a_page_have_the_names_that_the_menu_has(pages):
    """Titles of modules are sentences, which the menu has no room for."""
    neighbours = 0
    for page in pages:
        text = page.read_text(encoding="utf-8").replace("<wbr>", "")
        menu = text.partition('class="sidebar-tree"')[2].partition("<article")[0]
        names = dict(re.findall(r'<a class="(?:current )?reference internal" href="([^"#]+)">(.*?)</a>', menu))
        assert not [name for name in names.values() if "\N{EN DASH}" in name], page
        for target, name in re.findall(r'<a class="(?:next|prev)-page" href="([^"]+)">.*?class="title">(.*?)</div>', text, re.DOTALL):
            assert name in (names.get(target), "Home"), (page, target)
            neighbours += 1
    assert neighbours > len(pages)


def test_no_title_is_that_of_another_page(pages):
    """In the navigation and in the results of a search, nobody could tell them apart."""
    titles = {}
    for page, found in pages.items():
        titles.setdefault(found.title.strip(), []).append(str(page.relative_to(SITE)))
    assert {title: found for title, found in titles.items() if len(found) > 1} == {}


def test_headings_leave_out_no_level_and_pictures_have_words(pages):
    for page, found in pages.items():
        steps = list(zip([0, *found.headings], found.headings))
        assert all(later <= former + 1 for former, later in steps) and found.headings.count(1) <= 1, (page, found.headings)
        assert found.mute == [], page


@pytest.mark.skipif(not browser.program(), reason="no browser: apt-get install chromium")
def test_on_a_phone_nothing_is_cut_off_and_all_text_can_be_read_light_and_dark(pages):
    script = Path(__file__).with_name("looks.js").read_text(encoding="utf-8")
    wrong = []
    with browser.Browser() as chromium:
        for page in pages:
            for dark in (False, True):
                chromium.open(page.as_uri(), browser.PHONE, dark)
                wrong += [(str(page.relative_to(SITE)), "dark" if dark else "light", what) for what in chromium.run(script)]
    assert wrong == []
