# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Drawings as a reader sees them: their words can be read, and none lies upon another or beyond the edge."""

from __future__ import annotations

import pytest
from ansible_collections.graceful.azure.plugins.plugin_utils._duties import all_types
from ansible_collections.graceful.azure.plugins.plugin_utils._story.history import history
from ansible_collections.graceful.azure.plugins.plugin_utils._story.page import history_page, page

from tests.demo import records, timeline
from tests.support import browser
from tests.support.checkout import ROOT

MARGIN = 16  # of a page on a phone
SMALLEST = 12  # in pixels
WRONG = """
[...document.querySelectorAll("svg")].flatMap(svg => {
    const scale = svg.viewBox.baseVal?.width ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
    const texts = [...svg.querySelectorAll("text")].filter(text => text.getBoundingClientRect().width);
    const places = texts.map(text => text.getBoundingClientRect());
    const edge = svg.getBoundingClientRect();
    const wrong = [];
    texts.forEach((text, one) => {
        const [words, place] = [text.textContent.trim(), places[one]];
        const size = parseFloat(getComputedStyle(text).fontSize) * scale;
        if (size < SMALLEST) wrong.push(`${words}: ${size.toFixed(1)} pixels high`);
        if (place.left < edge.left || place.right > edge.right || place.top < edge.top || place.bottom > edge.bottom) wrong.push(`${words}: cut off`);
        for (let other = 0; other < one; other++) {
            const beside = places[other];
            // A line of text is higher than its letters.
            const apart = place.left >= beside.right || beside.left >= place.right || place.top + 4 >= beside.bottom || beside.top + 4 >= place.bottom;
            if (!apart) wrong.push(`${words}: touches ${texts[other].textContent.trim()}`);
        }
    });
    return wrong;
})
"""

# A label of an event, and what is drawn of another one.
CROSSED = """
[...document.querySelectorAll(`text[fill="${EVENT}"]`)].flatMap(text => {
    const place = text.getBoundingClientRect();
    const drawn = [...document.querySelectorAll(`line[stroke="${EVENT}"], path[fill="${EVENT}"]`)].map(each => each.getBoundingClientRect());
    // A line of text is higher than its letters.
    const crossed = drawn.filter(each => each.left < place.right && place.left < each.right && each.top + 2 < place.bottom && place.top + 2 < each.bottom);
    return crossed.length ? [text.textContent] : [];
})
""".replace("${EVENT}", timeline.EVENT)

pytestmark = pytest.mark.skipif(not browser.program(), reason="no browser: apt-get install chromium")


@pytest.fixture(name="chromium", scope="module")
def make_chromium():
    with browser.Browser() as chromium:
        yield chromium


@pytest.fixture(name="wrong")
def make_wrong(chromium, tmp_path):
    """What is wrong with the words of the drawings in a page."""

    def wrong(text, size, smallest=SMALLEST):
        file = tmp_path / "page.html"
        file.write_text(text, encoding="utf-8")
        chromium.open(file.as_uri(), size)
        return chromium.run(WRONG.replace("SMALLEST", str(smallest)))

    return wrong


@pytest.mark.parametrize("size", [browser.PHONE, browser.WIDE])
@pytest.mark.parametrize("name", ["overview", "event-life", "host-life"])
def test_a_drawing_can_be_read_on_a_phone(wrong, name, size):
    drawing = (ROOT / "docs" / f"{name}.svg").read_text(encoding="utf-8")
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><body style="margin: {MARGIN}px">'
    assert wrong(f"{head}<style>svg {{ max-width: 100%; height: auto }}</style>{drawing}", size) == []


def test_the_overview_names_all_that_gives_work_to_a_vm():
    """But for the user's own task files, and what is not in front of a VM but on it."""
    words = (ROOT / "docs" / "overview.svg").read_text(encoding="utf-8").lower()
    named = {"azure_load_balancer": "azure load balancer", "health_probe": "health probe", "redis_sentinel": "redis"}
    for name in sorted({*all_types.TRAFFIC, *all_types.ON_HOST} - {all_types.CUSTOM, all_types.NONE, "service", "tasks", "iis"}):
        assert f"{named.get(name, name)}" in words.partition("</style>")[2], name
    assert "application gateway" in words.partition("</style>")[2]


WITHOUT_MARGIN = '<meta charset="utf-8"><body style="margin: 0">'


def test_the_picture_of_the_demo_can_be_read(wrong, chromium):
    drawing = (ROOT / "docs" / "demo.svg").read_text(encoding="utf-8")
    assert wrong(WITHOUT_MARGIN + drawing, browser.WIDE, smallest=11) == []
    assert chromium.run(CROSSED) == []


def test_labels_of_events_in_it_stand_apart_whatever_their_length(wrong, chromium):
    times = [(0, 4), (2, 9), (9, 3), (9.5, 20), (22, 4), (30, 2), (44, 12), (57, 3), (58, 2)]
    kinds = [("Redeploy", "completed", ["web1"]), ("Terminate", "cancelled", ["web1", "web2"]), ("Freeze", "cancelled", ["web1", "web2", "web3"])]
    events = []
    for number, (at, lasts) in enumerate(times):
        kind, outcome, names = kinds[number % 3]
        moments = {"appeared": at, "approved": at + 1, "started": at + 1.5, "gone": at + lasts}
        events.append({"number": number, "event_type": kind, "outcome": outcome, "resources": names, **moments})
    lanes = {name: [records.Segment(records.IN_SERVICE, 0, 60)] for name in ("web1", "web2", "web3")}
    drawing = timeline.draw("Title", [timeline.Part("One", lanes, [], [], events)], 0, 60, 240)
    assert wrong(WITHOUT_MARGIN + drawing, browser.WIDE, smallest=11) == []
    assert chromium.run(CROSSED) == []


def report_of(names):
    """A report in which each of some hosts went through an event, the last one with a long name."""
    started = 1_800_000_000.0
    states = ("draining", "ready", "approved", "started", "restoring", "restored")
    told = [
        {"state": state, "event_id": "e1", "from": started + 20 * place, "until": started + 20 * (place + 1), "reasons": []}
        for place, state in enumerate(states)
    ]
    moments = {"seen": started, "approved": started + 40, "started": started + 60, "gone": started + 80}
    event = {
        "event_id": "e1", "event_type": "Reboot", "event_source": None, "resources": names, "description": None, "duration_in_seconds": None,
        "not_before": None, "before_run": [], "outcome": "completed", "hosts": {name: {"state": "restored", "reason": ""} for name in names}, **moments,
    }  # fmt: skip
    run = {"started": started, "updated": started + 120, "passes": 9, "check": False, "finished": True, "failed": False, "messages": [], "continues": None}
    out = [{"from": started, "until": started + 100}]
    hosts = [{"name": name, "resource_name": name, "drain_limit": 60, "states": told, "out": out} for name in names]
    return {"run": run, "hosts": hosts, "events": [event], "entries": []}


@pytest.mark.parametrize("size", [browser.PHONE, (641, 844), browser.WIDE])
def test_the_history_fits(wrong, chromium, size):
    report = report_of(["web1", "web2"])
    assert wrong(history_page(history([report]), [report]), size) == []
    assert chromium.run("document.documentElement.scrollWidth") <= size[0]
    assert chromium.run("document.querySelectorAll('svg circle').length") > 3


@pytest.mark.parametrize("size", [browser.PHONE, (641, 844), browser.WIDE])
def test_the_lanes_of_a_report_fit_and_their_labels_stand_apart(wrong, chromium, size):
    names = ["web1", "web2", "a-host-with-a-very-long-name.of-a-subdomain.of-a-domain.example.com"]
    assert wrong(page(report_of(names)), size) == []
    assert chromium.run("document.documentElement.scrollWidth") <= size[0]
    # The whole width is for the time.
    widths = chromium.run("[...document.querySelectorAll('.lanes line.out')].map(line => line.getBoundingClientRect().width / innerWidth)")
    assert len(widths) == len(names) and min(widths) > 0.7
