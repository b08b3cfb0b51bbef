"""A study of time -> one HTML page that needs nothing else, in the manner of `html_page`'s and from its parts."""

from __future__ import annotations

import html
from string import Template

from placesim.escapes import escape_line
from placesim.prediction.study import TimeStudy
from placesim.report.pictures.html_page import packed, page_asset, page_json
from placesim.report.pictures.timing_data import timing_document

SCRIPTS = ("data.js", "looks.js", "element.js", "span_data.js", "span_rows.js", "lanes.js", "timing_tables.js", "timing.js")
"""The page's scripts, in the order in which they stand on it."""


def timing_page(study: TimeStudy, top: int) -> str:
    """The whole page; each table has `top` rows at most."""
    document = timing_document(study, top)
    return Template(page_asset("timing.html")).substitute(
        title=html.escape(escape_line(study.name)),
        style=page_asset("page.css") + page_asset("timing.css"),
        data=packed(page_json(document).encode()),
        script="\n".join(map(page_asset, SCRIPTS)),
    )
