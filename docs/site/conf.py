# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How Sphinx makes the site from the pages of the repository. build.sh runs it."""

from __future__ import annotations

import html
import re
from pathlib import Path

import yaml
from docutils import nodes
from sphinx import addnodes

HERE = Path(__file__).parent
REPOSITORY = "https://github.com/graceful-azure/graceful.azure"
ANSIBLE = "https://docs.ansible.com/projects/ansible/latest/"
ANSIBLE_PAGES = {
    "action_plugins": "plugins/action.html",
    "ansible_configuration_settings": "reference_appendices/config.html",
    "callback_plugins": "plugins/callback.html",
    "common_return_values": "reference_appendices/common_return_values.html",
}
"""The labels in Ansible's own documentation to which the pages of antsibull-docs refer."""

project = "graceful.azure"
author = "the graceful.azure authors"
copyright = f"2026, {author}"
version = release = yaml.safe_load((HERE.parents[1] / "galaxy.yml").read_text(encoding="utf-8"))["version"]

extensions = ["myst_parser", "sphinx_antsibull_ext"]
include_patterns = ["*.md", "docs/*.md", "roles/*/README.md", "reference/**"]
suppress_warnings = [
    "misc.highlighting_failure",  # what Pygments cannot colour, such as Bicep, is shown without colours
]
highlight_language = "text"
pygments_style = "default"
pygments_dark_style = "github-dark"

# The pages are written for GitHub's Markdown.
myst_enable_extensions = ["alert"]
myst_heading_anchors = 6

html_theme = "furo"
html_title = f"graceful.azure {version}"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_use_index = False  # it would have a few variables of the environment and nothing else
html_theme_options = {"source_repository": REPOSITORY, "source_branch": "main", "source_directory": ""}

CHILDREN = {
    "docs/behind-azure": ["docs/health-probe", "docs/azure-load-balancer"],
    "docs/clusters": [
        "docs/duty-consul",
        "docs/duty-kubernetes",
        "docs/duty-pacemaker",
        "docs/duty-patroni",
        "docs/duty-rabbitmq",
        "docs/duty-redis",
        "docs/duty-slurm",
        "docs/your-own-duty",
    ],
}
"""Pages that stand below another one in the navigation. All others are listed in index.md."""


FOR_DEVELOPERS = re.compile(r"\]\((?:\.\./)*(?:docs/)?(architecture\.md|tests/\w+\.md)(#[\w-]+)?\)")
"""Links to pages that are in the repository and not on the site."""


def ansible_page(app, env, node, content):
    """A link to Ansible's own documentation. Its list of labels is on the network, and the site is built without one."""
    label = node["reftarget"]
    module = re.match(r"ansible_collections\.ansible\.builtin\.(\w+_module)$", label)
    page = f"collections/ansible/builtin/{module[1]}.html" if module else ANSIBLE_PAGES.get(label)
    return page and nodes.reference("", "", content, refuri=ANSIBLE + page, internal=False)


def add_children(app, docname, source):
    if docname in CHILDREN:
        names = "\n".join(f"/{name}" for name in CHILDREN[docname])
        source[0] += f"\n\n```{{toctree}}\n:hidden:\n\n{names}\n```\n"


def lead_to_repository(app, docname, source):
    def there(found):
        path = found[1] if found[1].startswith("tests/") else f"docs/{found[1]}"
        return f"]({REPOSITORY}/blob/main/{path}{found[2] or ''})"

    source[0] = FOR_DEVELOPERS.sub(there, source[0])


def lead_to_reference(app, docname, source):
    """The argument specs of a role have a page of their own here."""
    source[0] = source[0].replace("](meta/argument_specs.yml)", f"](../../reference/{docname.split('/')[-2]}_role.rst)") if "roles/" in docname else source[0]


def without_source(app, pagename, templatename, context, doctree):
    """The first page and the pages of modules are not those of the repository, so there is no page of theirs to edit."""
    if pagename == "index" or pagename.startswith("reference/"):
        context["theme_source_repository"] = ""


NAME_IN_TABLE, NAME_IN_LINE, LINE = 15, 28, 36
"""How many characters of code a column of a table has on a phone, most of a line, and a line."""


def breakable(name, mark="<wbr>"):
    """Not within an IP address, and not before the end of a file's name. A path may be broken anywhere."""
    name = re.sub(r"(?<=\w[_:=-])(?=\w)|(?<=\w\.)(?=[^\W\d]\w{3})|(?<=[\w%]\\|//)(?=\w)", mark, name)
    return re.sub(r"(?<=\w/)(?=\w)", '<wbr class="anywhere">', name)


def mark_breaks(app, pagename, templatename, context, doctree):
    """Marks where a long name may be broken, which is after a sign that joins its words, and what must not be. site.css does the rest."""

    def marked(name):
        length = len(html.unescape(name[0]))
        if length <= NAME_IN_TABLE:
            return name[0] if name[0].isalnum() else f'<span class="whole">{name[0]}</span>'
        if name[0].isalnum():
            return re.sub(r"(?<=[a-z])(?=[A-Z])", "<wbr>", name[0])
        option, rest = re.match(r"(-+\w+)?(.*)", name[0], re.DOTALL).groups()
        rest = breakable(rest, '<wbr class="anywhere">' if length > LINE else "<wbr>")
        rest = f'<span class="whole">{option}</span>{rest}' if option else rest
        return f'<span class="line">{rest}</span>' if length <= NAME_IN_LINE else rest

    if "body" in context:
        body = re.sub(r'(?<=<span class="pre">)[^<]+', marked, context["body"])
        context["body"] = re.sub(r"(?<=<h1>)[^<]+", lambda title: breakable(title[0]), body)


def name_in_menu(app, docname, source):
    """Modules, plugins and roles, whose titles are too long for the menu: C(duty module)."""
    if docname == "reference/index":
        source[0] = re.sub(r"^    (\w+)_(module|callback|filter|lookup|role)$", r"    \1 \2 <\1_\2>", source[0], flags=re.MULTILINE)


def name_neighbours(app, pagename, templatename, context, doctree):
    """The pages before and after this one have the names that they have in the menu."""
    trees = [tree for toc in app.env.tocs.values() for tree in toc.findall(addnodes.toctree)]
    names = {page: name for tree in trees for name, page in tree["entries"] if name}
    _above, former, later = app.builder.relations.get(pagename) or (None, None, None)
    for side, page in (("prev", former), ("next", later)):
        if context.get(side) and page in names:
            context[side] = {**context[side], "title": breakable(html.escape(names[page]))}


def setup(app):
    app.connect("source-read", add_children)
    app.connect("source-read", lead_to_repository)
    app.connect("source-read", lead_to_reference)
    app.connect("source-read", name_in_menu)
    app.connect("html-page-context", without_source)
    app.connect("html-page-context", mark_breaks)
    app.connect("html-page-context", name_neighbours)
    app.connect("missing-reference", ansible_page)
