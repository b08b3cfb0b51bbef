"""The page of the studio: an editor of a graph file beside its placement, which a local server answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placesim.report.pictures.shell import Shell, compress_json

EDITOR = "studio-editor.min.js"
"""CodeMirror and our use of it, bundled by `make studio-editor`; a shared page has no editor."""
SHARED = Shell(
    kind="studio",
    command="placesim",
    about="a TensorFlow graph and its placement, shared from `placesim studio`. Works offline.",
    main=("studio.html",),
    styles=("timing.css", "studio.css"),
    scripts=(
        "looks.js",
        "span_data.js",
        "span_rows.js",
        "lanes.js",
        "box_looks.js",
        "span_tip.js",
        "studio_placement.js",
        "studio_history.js",
        "studio_server.js",
        "studio_menu.js",
        "studio_board.js",
        "studio_panel.js",
        "studio_step.js",
        "studio_links.js",
        "studio_machine.js",
        "studio_plan.js",
        "studio_words.js",
        "studio_saving.js",
        "studio.js",
    ),
    has_keys=True,
)
SHELL = SHARED._replace(
    about="""a graph file and its placement, which change together.
  Contains CodeMirror 6, MIT licence, https://codemirror.net""",
    scripts=(EDITOR, *SHARED.scripts),
    is_served=True,
)


def studio_page(start: Mapping[str, Any]) -> str:
    """Return the whole page; `start` is the data that it opens with."""
    shell = SHELL if start["is_live"] else SHARED
    return shell.page(str(start["name"]), {"packed-data": compress_json(start)})
