"""The page of a placement, with the two libraries that lay it out and draw it."""

from __future__ import annotations

from placesim.inspection.picturing.picture import Picture
from placesim.report.pictures.page_data import page_document
from placesim.report.pictures.shell import Button, Shell, compress_asset, compress_json

LIBRARIES = {"cytoscape": "cytoscape.min.js", "elk-api": "elk-api.js", "elk-worker": "elk-worker.min.js"}
"""The libraries' names in the page, and their files."""
SHELL = Shell(
    kind="show",
    command="placesim",
    about="""a placement of a TensorFlow graph. Works offline.
  Contains two compressed libraries:
    Cytoscape.js 3.34.4, MIT licence, https://github.com/cytoscape/cytoscape.js
    elkjs 0.12.1, Eclipse Public License 2.0 (https://www.eclipse.org/legal/epl-2.0/), source: https://github.com/kieler/elkjs""",
    main=("page.html",),
    styles=("show.css",),
    scripts=("looks.js", "lane_places.js", "device_lanes.js", "graph.js", "tree.js", "panels.js", "page.js"),
    finds="Find an op or a scope",
    colours=(
        ("device", "device"),
        ("requested", "requested device"),
        ("moved", "not on requested device"),
        ("op", "op type"),
        ("bytes", "bytes"),
    ),
    arrangements=(("lanes", "by device"), ("scopes", "by scope")),
    buttons=(
        Button("fit", "Fit", "Fit to window (f)"),
        Button("fold", "Fold", "Collapse to the initial view (c)"),
    ),
    has_keys=True,
    needs_blobs=True,
)


def html_page(picture: Picture) -> str:
    """Return the whole page."""
    libraries = {f"packed-{name}": compress_asset(file) for name, file in LIBRARIES.items()}
    return SHELL.page(picture.name, libraries | {"packed-data": compress_json(page_document(picture))})
