"""A picture -> one HTML page that needs nothing else: no network, no second file.

The page's own styles and scripts stand in it as they are in `assets/`; the two libraries and the data are compressed, for the
browser to unpack.  The same picture gives the same bytes.
"""

from __future__ import annotations

import gzip
import html
import json
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

from placesim.escapes import escape_json, escape_line
from placesim.inspection.picturing.picture import Picture
from placesim.report.pictures.page_data import page_document

SCRIPTS = ("data.js", "looks.js", "element.js", "graph.js", "tree.js", "panels.js", "page.js")
"""The page's own scripts, in the order in which they stand on it."""
LIBRARIES = {"cytoscape": "cytoscape.min.js", "elk_api": "elk-api.js", "elk_worker": "elk-worker.min.js"}
"""The places of the libraries in the template, and their files."""


def html_page(picture: Picture) -> str:
    """The whole page."""
    parts = {name: packed_asset(file) for name, file in LIBRARIES.items()}
    return Template(page_asset("page.html")).substitute(
        parts,
        title=html.escape(escape_line(picture.name)),
        style=page_asset("page.css"),
        script="\n".join(map(page_asset, SCRIPTS)),
        data=packed(page_json(page_document(picture)).encode()),
    )


def page_json(document: Mapping[str, Any]) -> str:
    """What a page's scripts read."""
    return escape_json(json.dumps(document, ensure_ascii=False, separators=(",", ":")))


def packed(data: bytes) -> str:
    """Bytes as a page carries them: compressed, in base64."""
    return b64encode(gzip.compress(data, 9, mtime=0)).decode("ascii")


@cache
def packed_asset(name: str) -> str:
    """A library's file, compressed once."""
    return packed(page_asset(name).encode())


def page_asset(name: str) -> str:
    """A file of a page's, as it stands beside this package."""
    return (files("placesim.report") / "assets" / name).read_text("utf-8")
