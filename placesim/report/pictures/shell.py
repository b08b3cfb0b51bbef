"""The frame of all pages: each is one complete HTML file that needs no network and no second file.

The frame, `assets/shell.html`, has a header with a title and optionally a search field, a choice of colours, and buttons. The
contents of the page follow. Styles and scripts are copied from `assets/` unchanged; data is compressed, and the browser
decompresses it. The same input gives the same bytes.
"""

from __future__ import annotations

import gzip
import html
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any, NamedTuple, TypeVar

from placesim.core.escaping import escape_json, escape_line
from placesim.report.palette import CATEGORIES, GREY, HOLDERS, HUES, PAGE, PATTERNS

PARTS = ("data.js", "element.js", "shell.js", "drawn.js")
"""Scripts of all pages, which come before a page's own scripts."""
FINDER = "finder.js"
Value = TypeVar("Value")


class Button(NamedTuple):
    """A header button: its id, text, tooltip and label. A switch is on when the page opens."""

    name: str
    text: str
    title: str
    label: str = ""
    is_switch: bool = False


PICTURES = (
    Button("svg", "SVG", "Save this view as SVG"),
    Button("png", "PNG", "Save this view as PNG"),
)
"""Buttons that save a picture; all pages with a picture have these buttons."""


class Shell(NamedTuple):
    """The parts of a page that do not depend on its data.

    `kind` is the page's class for styles, `about` the comment at its beginning, and `finds` the label of its search field.
    `colours` and `arrangements` are the choices of colours and of layouts, as pairs of value and text. `main`, `styles` and
    `scripts` are files in `assets/`, which are added to the files of all pages. With `is_served`, the page may ask the server
    that it comes from.
    """

    kind: str
    command: str
    about: str
    main: tuple[str, ...]
    styles: tuple[str, ...]
    scripts: tuple[str, ...]
    finds: str = ""
    colours: tuple[tuple[str, str], ...] = ()
    arrangements: tuple[tuple[str, str], ...] = ()
    buttons: tuple[Button, ...] = ()
    has_keys: bool = False
    needs_blobs: bool = False
    is_served: bool = False

    def assets(self) -> tuple[str, ...]:
        """Return the names of the files in `assets/` that make up the page."""
        finder = ("finder.html", FINDER) if self.finds else ()
        return ("shell.html", "page.css", *self.main, *self.styles, *PARTS, *finder, *self.scripts)

    def page(self, name: str, data: Mapping[str, str], unscripted: str = "") -> str:
        """Return the complete page; `data` are its data elements by id.

        `unscripted` is HTML that a browser shows if it runs no scripts.
        """
        scripts = (*PARTS, *((FINDER,) if self.finds else ()), *self.scripts)
        blobs = (" blob:; worker-src blob:", " blob:") if self.needs_blobs else ("", "")
        return Template(page_asset("shell.html")).substitute(
            about=self.about,
            blob_scripts=blobs[0],
            blob_images=blobs[1],
            connections="; connect-src 'self'" if self.is_served else "",
            title=html.escape(escape_line(name)),
            command=self.command,
            style=_colour_styles() + "".join(map(page_asset, ("page.css", *self.styles))),
            kind=self.kind,
            finder=Template(page_asset("finder.html")).substitute(finds=self.finds) if self.finds else "",
            tools=_choice("arrangement", "Arranged", self.arrangements) + _choice("mode", "Colour by", self.colours),
            buttons="".join(map(_button, (*self.buttons, *PICTURES))),
            help=_button(Button("help", "?", "Keyboard and legend (?)")) if self.has_keys else "",
            unscripted=f"<p>This page needs scripts; {self.command} also writes its facts as text or JSON.</p>{unscripted}",
            main="".join(map(page_asset, self.main)),
            data="\n".join(_data(key, text) for key, text in data.items()),
            script="\n".join((_colour_script(), *map(page_asset, scripts))),
        )


def _colour_styles() -> str:
    """Return the page's colours as CSS variables, for light and dark mode."""
    light, dark = (" ".join(f"--{name}: {codes[is_dark]};" for name, codes in PAGE.items()) for is_dark in (False, True))
    held = " ".join(f"--{kind}: {hue.code};" for kind, hue in (HOLDERS | CATEGORIES).items())
    return f":root {{ {light} {held} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"


def _colour_script() -> str:
    """Return the colours and patterns of devices as constants for a page's scripts."""
    constants = {"PALETTE": [hue.code for hue in HUES], "GREY": GREY.code, "PATTERNS": PATTERNS}
    return "".join(f"const {name} = {json.dumps(value)};\n" for name, value in constants.items())


def _choice(name: str, label: str, choices: Sequence[tuple[str, str]]) -> str:
    """Return a selection field with this id, or an empty text if there is no choice."""
    options = "".join(f'      <option value="{value}">{text}</option>\n' for value, text in choices)
    return f'  <label>{label}\n    <select id="{name}">\n{options}    </select>\n  </label>\n' if choices else ""


def _button(button: Button) -> str:
    label = f' aria-label="{button.label}"' if button.label else ""
    pressed = ' aria-pressed="true"' if button.is_switch else ""
    return f'    <button id="{button.name}" title="{button.title}"{label}{pressed}>{button.text}</button>\n'


def _data(key: str, text: str) -> str:
    """Return an element with compressed data or JSON, escaped so that `</script>` can't end it."""
    kind = "text/plain" if key.startswith("packed-") else "application/json"
    held = text.replace("<", "\\u003c")
    return f'<script type="{kind}" id="{key}">{held}</script>'


class ValueTable(dict[Value, int]):
    """Numbers values in the order of their first use; a page stores each distinct value once."""

    def number(self, value: Value) -> int:
        return self.setdefault(value, len(self))


def page_json(document: Mapping[str, Any]) -> str:
    """Return a JSON document for a page's scripts."""
    return escape_json(json.dumps(document, ensure_ascii=False, separators=(",", ":")))


def compress_json(document: Mapping[str, Any]) -> str:
    """Return compressed JSON, for large data in a page."""
    return compress_data(page_json(document).encode())


def compress_data(data: bytes) -> str:
    """Return compressed bytes in base64, the form that pages contain."""
    return b64encode(gzip.compress(data, 7, mtime=0)).decode("ascii")


@cache
def compress_asset(name: str) -> str:
    """Return a library's file, compressed; each file is compressed only once."""
    return compress_data(page_asset(name).encode())


def page_asset(name: str) -> str:
    """Return the content of a page's asset file."""
    return (files("placesim.report") / "assets" / name).read_text("utf-8")
