"""The page of a time study."""

from __future__ import annotations

from placesim.prediction.time_breakdown import TimeStudy
from placesim.report.pictures.shell import Button, Shell, compress_json
from placesim.report.pictures.timing_data import timing_document

LANES = ("looks.js", "span_data.js", "span_rows.js", "lanes.js", "box_looks.js", "span_tip.js", "timing_tables.js")
"""Scripts of pages with a timeline."""
COLOURS = (("op", "op type"), ("scope", "scope"), ("kind", "kind of work"))
BUTTONS = (
    Button("nearer", "+", "Zoom in (+)", "Nearer"),
    Button("farther", "&minus;", "Zoom out (-)", "Farther"),
    Button("fit", "Fit", "Fit the whole step (f)"),
    Button("lit", "Path", "Highlight the critical path (c)", is_switch=True),
    Button("arrows", "Arrows", "Show transfer arrows (a)", is_switch=True),
)
SHELL = Shell(
    kind="timing",
    command="placesim simulate",
    about="predicted step time of a TensorFlow graph. Works offline.",
    main=("timing.html", "lanes_keys.html"),
    styles=("timing.css",),
    scripts=(*LANES, "timing.js"),
    finds="Find a node",
    colours=COLOURS,
    buttons=BUTTONS,
    has_keys=True,
)


def timing_page(study: TimeStudy, top: int) -> str:
    """Return the whole page; each table has at most `top` rows."""
    return SHELL.page(study.name, {"packed-data": compress_json(timing_document(study, top))})
