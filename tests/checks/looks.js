/*
Copyright (c) 2026, the graceful.azure authors
GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
SPDX-License-Identifier: GPL-3.0-or-later
*/

// What is wrong with the looks of a page of the site, a sentence for each. test_site.py runs it in a browser.
(() => {
    const wrong = new Set();
    const words = (text) => text.trim().replace(/\s+/g, " ").slice(0, 40);

    // The theme cuts off what is wider than the page. These may be wider, since each of them can be moved sideways.
    const movable = "pre, .table-wrapper, p:has(> img)";
    for (const box of document.querySelectorAll(movable)) {
        if (box.scrollWidth > box.clientWidth + 1 && !["auto", "scroll"].includes(getComputedStyle(box).overflowX)) {
            wrong.add(`cannot be moved sideways: ${words(box.textContent)}`);
        }
    }
    for (const element of document.querySelectorAll("article *")) {
        const place = element.getBoundingClientRect();
        if (place.width > 1 && place.right > innerWidth + 1 && !element.parentElement.closest(movable)) {
            wrong.add(`ends at ${Math.round(place.right)} of ${innerWidth} pixels: <${element.localName}> ${words(element.textContent)}`);
        }
    }

    // Beside the text of a page of up to three columns there is nothing to look for.
    for (const table of document.querySelectorAll("article table.docutils:not(.ansible-option-table)")) {
        const box = table.closest(".table-wrapper");
        if (table.rows[0].cells.length <= 3 && box.scrollWidth > box.clientWidth + 1) {
            wrong.add(`${box.scrollWidth} of ${box.clientWidth} pixels: ${words(table.textContent)}`);
        }
    }
    // A name in code is broken only where it has been marked, and a short one nowhere.
    const lines = (node) => {
        const range = document.createRange();
        range.selectNodeContents(node);
        return new Set([...range.getClientRects()].filter((place) => place.width > 1).map((place) => Math.round(place.bottom))).size;
    };
    for (const name of document.querySelectorAll("article code .pre, .related-pages .title")) {
        if (name.localName === "span" && name.textContent.length <= 15 && lines(name) > 1) {
            wrong.add(`a short name is broken: ${name.textContent}`);
        }
        const parts = document.createTreeWalker(name, NodeFilter.SHOW_TEXT);
        while (parts.nextNode()) {
            if (/^\w+$/.test(parts.currentNode.data) && lines(parts.currentNode) > 1) {
                wrong.add(`a word is broken: ${name.textContent}`);
            }
        }
    }

    // Colours are written in many ways, so a canvas says what they are.
    const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
    const colour = (text) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = text;
        canvas.fillRect(0, 0, 1, 1);
        const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
        return [red, green, blue, alpha / 255];
    };
    const upon = (front, back) => [0, 1, 2].map((i) => front[i] * front[3] + back[i] * (1 - front[3])).concat(1);
    const background = (element) => {
        const own = element ? colour(getComputedStyle(element).backgroundColor) : [255, 255, 255, 1];
        return own[3] === 1 ? own : upon(own, background(element.parentElement));
    };
    // The contrast as WCAG 2 defines it. Its level AA wants 4.5, and 3 for large text.
    const luminance = (rgb) => {
        const [red, green, blue] = rgb.slice(0, 3).map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const element = texts.currentNode.parentElement;
        const style = getComputedStyle(element);
        if (!texts.currentNode.data.trim() || !element.getClientRects().length || style.visibility === "hidden" || element.closest("svg, script, style")) {
            continue;
        }
        const behind = background(element);
        const [less, more] = [luminance(behind), luminance(upon(colour(style.color), behind))].sort((a, b) => a - b);
        const contrast = (more + 0.05) / (less + 0.05);
        const size = parseFloat(style.fontSize);
        if (contrast < (size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5)) {
            wrong.add(`contrast ${contrast.toFixed(1)}, ${style.color} on ${behind.map(Math.round)}: ${words(texts.currentNode.data)}`);
        }
    }
    return [...wrong];
})();
