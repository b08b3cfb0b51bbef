"""The page of the studio: an editor of a graph file beside its placement, which a local server answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placesim.report.pictures.shell import Shell, compress_json

SHELL = Shell(
    kind="studio",
    command="placesim",
    about="a graph file and its placement, which change together.",
    main=("studio.html",),
    styles=("studio.css",),
    scripts=("studio.js",),
    is_served=True,
)


def studio_page(start: Mapping[str, Any]) -> str:
    """Return the whole page; `start` is the data that it opens with."""
    return SHELL.page(str(start["name"]), {"packed-data": compress_json(start)})
