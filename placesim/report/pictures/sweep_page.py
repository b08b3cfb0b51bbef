"""A sweep -> one HTML page that needs nothing else, in the manner of `html_page`'s and from its parts."""

from __future__ import annotations

import html
from string import Template

from placesim.escapes import escape_line
from placesim.prediction.sweeps import Sweep
from placesim.report.pictures.html_page import page_asset, page_json
from placesim.report.text.sweep import sweep_document


def sweep_page(sweep: Sweep) -> str:
    """The whole page; what it shows stands in it as the JSON form has it."""
    return Template(page_asset("sweep.html")).substitute(
        title=html.escape(escape_line(sweep.name)),
        style=page_asset("page.css") + page_asset("sweep.css"),
        # no `</script>` in it may end the element
        data=page_json(sweep_document(sweep)).replace("<", "\\u003c"),
        script=page_asset("data.js") + page_asset("sweep.js"),
    )
