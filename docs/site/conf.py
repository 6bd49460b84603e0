# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How Sphinx makes the site from the pages of the repository. build.sh runs it."""

from __future__ import annotations

import re
from pathlib import Path

import mmdr
import yaml
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

HERE = Path(__file__).parent
REPOSITORY = "https://github.com/graceful-azure/graceful.azure"
WIDEST_DIAGRAM = 1100
"""In pixels. A diagram that is wider is drawn from top to bottom, so that its text can be read."""

project = "graceful.azure"
author = "the graceful.azure authors"
copyright = f"2026, {author}"
version = release = yaml.safe_load((HERE.parents[1] / "galaxy.yml").read_text(encoding="utf-8"))["version"]

extensions = ["myst_parser", "sphinx_antsibull_ext"]
include_patterns = ["*.md", "docs/*.md", "roles/*/README.md", "tests/*.md", "reference/**"]
# A page that several pages name on the way there is found by its first place in the navigation.
suppress_warnings = ["toc.not_readable"]
highlight_language = "text"
pygments_style = "default"
pygments_dark_style = "github-dark"

# The pages are written for GitHub's Markdown.
myst_enable_extensions = ["alert"]
myst_fence_as_directive = ["mermaid"]
myst_heading_anchors = 6

html_theme = "furo"
html_title = f"graceful.azure {version}"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"source_repository": REPOSITORY, "source_branch": "main", "source_directory": ""}


class Mermaid(SphinxDirective):
    """Draws a diagram into the page, so that the reader's browser needs no program for it."""

    has_content = True

    def run(self):
        text = "\n".join(self.content)
        drawn = mmdr.render(text).svg()
        if float(re.search(r"max-width: ?([\d.]+)px", drawn)[1]) > WIDEST_DIAGRAM:
            drawn = mmdr.render(re.sub(r"\bLR\b", "TB", text)).svg()
        # Its styles and arrows are found by its id, which must differ from that of another diagram on the page.
        drawn = drawn.replace("merman", f"diagram-{self.env.new_serialno('diagram')}")
        return [nodes.raw("", f'<div class="diagram">{drawn}</div>', format="html")]


def setup(app):
    app.add_directive("mermaid", Mermaid)
