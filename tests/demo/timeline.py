# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The demo's picture, drawn from the records: one lane per host, with the collection above and without it below."""

from __future__ import annotations

from html import escape
from typing import NamedTuple

from tests.demo import records
from tests.support.load import OK

WIDTH = 1280
LEFT = 76
RIGHT = 104
BAR = 22
SPARK = 20
LIFE = 22
LANE_GAP = 15

COLOURS = {
    records.IN_SERVICE: "#a9dcb8",
    records.DRAINING: "#f6cf65",
    records.READY: "#ee8f3c",
    records.APPROVED: "#a8dbe0",
    records.STARTED: "#98a4b3",
    records.RESTORING: "#6aa5e6",
    records.IMPACT: "#3d4450",
    records.DEAD: "#dcb9c4",
}
# In the words of the report.
MEANINGS = (
    (records.IN_SERVICE, "in service"),
    (records.DRAINING, "draining: gets nothing new, ends what is under way"),
    (records.READY, "ready: drained, not approved yet"),
    (records.APPROVED, "approved: waits for the start"),
    (records.STARTED, "started: the impact may come, or is there"),
    (records.RESTORING, "restoring: takes its duties back"),
    (records.IMPACT, "impact: the server is dead or frozen"),
    (records.DEAD, "held for dead by HAProxy's health check"),
)
IMPACT_WORDS = {"Freeze": "freeze", "Reboot": "reboot", "Redeploy": "redeploy", "Preempt": "evicted"}
INK = "#1f2630"
FAINT = "#6b7685"
RED = "#d6202f"
EVENT = "#5a3fa0"
FONT = "font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif\""


class Part(NamedTuple):
    """One run: with the collection, or the control. All times are seconds on the picture's axis."""

    heading: str
    lanes: dict
    impacts: list
    requests: list
    events: list
    gaps: list = ()  # stretches that were left out


class Page:
    """Elements of the picture, collected from top to bottom."""

    def __init__(self, begin, end, rate):
        self.begin = begin
        self.end = end
        self.rate = rate
        self.elements = []

    def x(self, time):
        share = (time - self.begin) / (self.end - self.begin)
        return LEFT + min(1.0, max(0.0, share)) * (WIDTH - LEFT - RIGHT)

    def add(self, text):
        self.elements.append(text)

    def text(self, x, y, words, size=12, fill=INK, **more):
        attributes = "".join(' {0}="{1}"'.format(key.replace("_", "-"), value) for key, value in more.items())
        self.add('<text x="{0:.1f}" y="{1:.1f}" font-size="{2}" fill="{3}"{4}>{5}</text>'.format(x, y, size, fill, attributes, escape(words)))

    def box(self, x, y, width, height, fill, title=None, **more):
        attributes = "".join(' {0}="{1}"'.format(key.replace("_", "-"), value) for key, value in more.items())
        inside = "<title>{0}</title>".format(escape(title)) if title else ""
        self.add(
            '<rect x="{0:.1f}" y="{1:.1f}" width="{2:.1f}" height="{3:.1f}" fill="{4}"{5}>{6}</rect>'.format(x, y, width, height, fill, attributes, inside)
        )

    def line(self, x1, y1, x2, y2, stroke, width=1.0, title=None, **more):
        attributes = "".join(' {0}="{1}"'.format(key.replace("_", "-"), value) for key, value in more.items())
        inside = "<title>{0}</title>".format(escape(title)) if title else ""
        self.add(
            '<line x1="{0:.1f}" y1="{1:.1f}" x2="{2:.1f}" y2="{3:.1f}" stroke="{4}" stroke-width="{5}"{6}>{7}</line>'.format(
                x1, y1, x2, y2, stroke, width, attributes, inside
            )
        )


def life_rows(events, host, page):
    """The events of a host, spread over as few rows as keep their labels apart: a list of rows."""
    rows = []
    for event in sorted((event for event in events if host in event["resources"]), key=lambda event: event["appeared"]):
        for row in rows:
            if label_place(page, row[-1])[1] + 8 < label_place(page, event)[0] and row[-1]["gone"] < event["appeared"]:
                row.append(event)
                break
        else:
            rows.append([event])
    return rows


def event_label(event):
    label = "event {0}: {1}".format(event["number"], event["event_type"])
    if len(event["resources"]) > 1:
        label += " of " + " and ".join(event["resources"])
    return label + (", cancelled" if event["outcome"] == "cancelled" else "")


def label_place(page, event):
    """From where to where the label of an event reaches: from its beginning, or as far to the right as there is room."""
    width = 7 * len(event_label(event))
    begin = min(page.x(event["appeared"]) - 3, WIDTH - 10 - width)
    return begin, begin + width


def draw_life(page, event, y):
    """An event from visible to gone, with its approval and its start."""
    first, final = page.x(event["appeared"]), page.x(event["gone"])
    page.text(label_place(page, event)[0], y - 4, event_label(event), 11, EVENT)
    title = "{0}: visible at {1:.1f} s, gone at {2:.1f} s".format(event_label(event), event["appeared"], event["gone"])
    page.line(first, y + 3, final, y + 3, EVENT, 1.6, title)
    page.line(first, y - 1, first, y + 7, EVENT, 1.6)
    page.line(final, y - 1, final, y + 7, EVENT, 1.6)
    if event["approved"] is not None:
        at = page.x(event["approved"])
        page.add(
            '<path d="M{0:.1f} {1:.1f} l4.5 4.5 l-4.5 4.5 l-4.5 -4.5 z" fill="{2}"><title>{3}</title></path>'.format(
                at, y - 1.5, EVENT, escape("approved at {0:.1f} s, started at {1:.1f} s".format(event["approved"], event["started"] or 0))
            )
        )


def draw_spark(page, host, part, y):
    """How many answers per second a host gave."""
    points = records.per_second(part.requests, page.begin, page.end, lambda request: request["outcome"] == OK and request["backend"] == host)
    width = points[1][0] - points[0][0]
    base = y + SPARK
    path = "M{0:.1f} {1:.1f}".format(page.x(page.begin), base)
    for time, rate in points:
        height = base - min(1.0, rate / page.rate) * SPARK
        path += " L{0:.1f} {1:.1f} L{2:.1f} {1:.1f}".format(page.x(time), height, page.x(time + width))
    path += " L{0:.1f} {1:.1f} Z".format(page.x(page.end), base)
    page.add('<path d="{0}" fill="#79b78d" fill-opacity="0.55"/>'.format(path))


def draw_lane(page, host, part, y):
    """One host; the place below it."""
    rows = life_rows(part.events, host, page)
    for number, row in enumerate(rows):
        for event in row:
            draw_life(page, event, y + number * LIFE + 12)
    lane = y + len(rows) * LIFE + (3 if rows else 0)
    if part.events and not rows:
        lane += LIFE
    page.text(LEFT - 10, lane + BAR / 2 + 4.5, host, 13, text_anchor="end", font_weight="600")
    labels = []
    for segment in part.lanes[host]:
        first, final = page.x(segment.begin), page.x(segment.end)
        word = segment.state
        if word == records.IMPACT:
            middle = (segment.begin + segment.end) / 2
            kinds = [impact["type"] for impact in part.impacts if impact["host"] == host and impact["begin"] <= middle <= impact["end"]]
            word = IMPACT_WORDS.get(kinds[-1], "impact") if kinds else "impact"
        title = "{0}: {1} from {2:.1f} s to {3:.1f} s".format(host, word, segment.begin, segment.end)
        page.box(first, lane, final - first, BAR, COLOURS[segment.state], title)
        if final - first > 7.2 * len(word) + 6 and segment.state != records.IN_SERVICE:
            labels.append(((first + final) / 2, word, "#ffffff" if segment.state == records.IMPACT else INK, COLOURS[segment.state]))
    draw_spark(page, host, part, lane + BAR + 3)
    for begin, end in part.gaps:
        page.box(page.x(begin), lane, page.x(end) - page.x(begin), BAR, "#ffffff", "nothing happens here: left out")
        page.line(page.x(begin) + 2, lane + BAR / 2, page.x(end) - 2, lane + BAR / 2, FAINT, 1, stroke_dasharray="2 4")
    failed = [request for request in part.requests if request["outcome"] != OK and request["backend"] == host]
    draw_failed(page, failed, lane - 3, BAR + 6)
    for middle, word, colour, ground in labels:
        halo = {"stroke": ground, "stroke_width": 3, "paint_order": "stroke"}
        page.text(middle, lane + BAR / 2 + 4, word, 11, colour, text_anchor="middle", pointer_events="none", **halo)
    words = "{0} failed".format(len(failed))
    page.text(WIDTH - RIGHT + 12, lane + BAR / 2 + 4.5, words, 13, RED if failed else FAINT, font_weight="600" if failed else "400")
    return lane + BAR + 3 + SPARK + LANE_GAP


def draw_failed(page, requests, y, height):
    for request in requests:
        title = "{0} request of {1:.2f} s: {2} after {3:.2f} s".format(request["kind"], request["start"], request["outcome"], request["seconds"])
        page.line(page.x(request["start"]), y, page.x(request["start"]), y + height, RED, 1.3, title, stroke_opacity="0.75")


def draw_part(page, part, y):
    """A heading and its lanes; the place below them."""
    failed = records.count_failed(part.requests)
    page.text(LEFT - 60, y + 6, part.heading, 16, font_weight="600")
    page.text(
        WIDTH - 24,
        y + 6,
        "{0:,} requests, {1:,} failed".format(len(part.requests), failed),
        16,
        RED if failed else "#1d7a3e",
        text_anchor="end",
        font_weight="700",
    )
    top = y + 22
    grid = len(page.elements)
    y = top + 6
    for host in part.lanes:
        y = draw_lane(page, host, part, y)
    strays = [request for request in part.requests if request["outcome"] != OK and request["backend"] not in part.lanes]
    if strays:
        page.text(LEFT - 10, y + 11, "cut off", 12, FAINT, text_anchor="end")
        draw_failed(page, strays, y, 14)
        page.text(WIDTH - RIGHT + 12, y + 11, "{0} failed".format(len(strays)), 13, RED, font_weight="600")
        y += 14 + LANE_GAP
    bottom = y - LANE_GAP / 2
    lines = []
    step = 5 if page.end - page.begin < 80 else 10
    second = int(page.begin // step + 1) * step
    while second < page.end:
        lines.append('<line x1="{0:.1f}" y1="{1}" x2="{0:.1f}" y2="{2:.1f}" stroke="#e3e7ec" stroke-width="1"/>'.format(page.x(second), top, bottom))
        page.text(page.x(second), bottom + 14, "{0} s".format(second), 11, FAINT, text_anchor="middle")
        second += step
    page.elements[grid:grid] = lines
    return bottom + 44


def draw_legend(page, y):
    x = LEFT - 60
    for state, meaning in MEANINGS:
        length = 26 + 6.4 * len(meaning) + 22
        if x + length > WIDTH - 20:
            x, y = LEFT - 60, y + 22
        page.box(x, y - 11, 18, 14, COLOURS[state])
        page.text(x + 25, y, meaning, 12)
        x += length
    x, y = LEFT - 60, y + 24
    for number in (3, 8, 13):
        page.line(x + number, y - 12, x + number, y + 3, RED, 1.3)
    page.text(x + 25, y, "failed request, at the time it began", 12)
    x += 275
    page.line(x, y - 4, x + 34, y - 4, EVENT, 1.6)
    page.line(x, y - 8, x, y, EVENT, 1.6)
    page.line(x + 34, y - 8, x + 34, y, EVENT, 1.6)
    page.add('<path d="M{0} {1} l4.5 4.5 l-4.5 4.5 l-4.5 -4.5 z" fill="{2}"/>'.format(x + 20, y - 8.5, EVENT))
    page.text(x + 42, y, "the event, from visible to gone; the diamond is its approval", 12)
    x += 430
    page.add('<path d="M{0} {1} v-8 h8 v4 h8 v4 z" fill="#79b78d" fill-opacity="0.55"/>'.format(x, y + 1))
    page.text(x + 24, y, "answers per second given by this host (full height: the whole load)", 12)
    return y + 22


def draw(title, parts, begin, end, rate):
    """The whole picture as text of an SVG file; rate is the load in requests per second."""
    page = Page(begin, end, rate)
    page.text(LEFT - 60, 34, title, 20, font_weight="700")
    page.text(
        LEFT - 60,
        56,
        "Seconds since the first event became visible; both runs on one axis. Everything drawn was recorded; where nothing happened the control is cut short.",
        12.5,
        FAINT,
    )
    y = 92
    for part in parts:
        y = draw_part(page, part, y)
    height = draw_legend(page, y)
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1:.0f}" width="{0}" height="{1:.0f}" role="img" {2}>'.format(WIDTH, height, FONT),
            "<title>{0}</title>".format(escape(title)),
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            *page.elements,
            "</svg>",
            "",
        ]
    )
