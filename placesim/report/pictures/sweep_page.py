"""The page of a sweep."""

from __future__ import annotations

from placesim.prediction.sweep_rows import Sweep
from placesim.report.pictures.shell import Shell, page_json
from placesim.report.text.sweep import sweep_document

SHELL = Shell(
    kind="sweep",
    command="placesim sweep",
    about="step times of a TensorFlow graph for many combinations of options. Works offline.",
    main=("sweep.html",),
    styles=("sweep.css",),
    scripts=("ticks.js", "sweep.js"),
)


def sweep_page(sweep: Sweep) -> str:
    """Return the complete page, with the JSON document as its data."""
    return SHELL.page(sweep.name, {"sweep": page_json(sweep_document(sweep))})
