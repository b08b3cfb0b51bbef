"""Settings of the documentation site: the manual's pages, the commands from click, and the Python API from docstrings."""

from __future__ import annotations

import re
from importlib.metadata import version as version_of

from sphinx.application import Sphinx

project = "placesim"
release = version = version_of("placesim")
copyright = "the placesim authors, Apache-2.0"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_click"]
html_theme = "furo"
html_title = f"placesim {release}"
html_show_sphinx = False
html_show_copyright = False
myst_heading_anchors = 4
smartquotes = False  # `--` is an option
autodoc_typehints = "description"
autodoc_typehints_format = "short"
highlight_language = "none"
default_role = "literal"  # docstrings and help texts have names between single backquotes
linkcheck_anchors = False
# a console's lines hold what a shell prints, which is no language that a highlighter knows
suppress_warnings = ["misc.highlighting_failure"]

_REFERENCE = re.compile(r"`placesim manual ([a-z0-9-]+)((?: [^`]*)?)`(?!\])")


def link_references(app: Sphinx, name: str, text: list[str]) -> None:
    """Turn `placesim manual TOPIC` in a page's sentences into a link to that page."""

    def link(found: re.Match[str]) -> str:
        topic = found[1]
        return f"[{found[0]}]({topic}.md)" if topic in app.env.found_docs and topic != name else found[0]

    parts = re.split(r"(^```.*?^```)", text[0], flags=re.MULTILINE | re.DOTALL)
    text[0] = "".join(part if part.startswith("```") else _REFERENCE.sub(link, part) for part in parts)


def set_command_examples(app: Sphinx, ctx: object, lines: list[str]) -> None:
    """Set the indented lines of a command's help as literal text; elsewhere escape `*` and `:`, which mean something there."""
    found: list[str] = []
    is_literal = False
    for line in lines:
        if not line.startswith("|"):
            found.append(re.sub(r"[*:]", r"\\\g<0>", line))
            is_literal = False
        elif not is_literal:
            found += [line.removeprefix("|").strip(), "", "::", ""]
            is_literal = True
        else:
            found.append(f"   {line.removeprefix('|').removeprefix(' ')}")
    lines[:] = found


def set_examples(app: Sphinx, what: str, name: str, found: object, options: object, lines: list[str]) -> None:
    """Mark indented examples of a docstring as Python."""
    for at in range(len(lines) - 1, 0, -1):
        if lines[at].startswith("    ") and lines[at - 1] == "" and not lines[max(at - 2, 0)].startswith("    "):
            lines[at:at] = [".. code-block:: python", ""]


def setup(app: Sphinx) -> None:
    """Register the hooks."""
    app.connect("source-read", link_references)
    app.connect("autodoc-process-docstring", set_examples)
    app.connect("sphinx-click-process-description", set_command_examples)
