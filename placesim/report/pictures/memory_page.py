"""A study of memory -> one HTML page that needs nothing else, in the manner of `html_page`'s and from its parts."""

from __future__ import annotations

import html
from string import Template

from placesim.escapes import escape_line
from placesim.inspection.memory_study import MemoryStudy
from placesim.report.pictures.html_page import page_asset, page_json
from placesim.report.text.memory import device_labels, memory_document, requirements


def memory_page(study: MemoryStudy, top: int) -> str:
    """The whole page; each device has `top` rows of holders."""
    labels = device_labels(study)
    data = memory_document(study, top) | {"short": labels, "requirements": list(requirements(study))}
    return Template(page_asset("memory.html")).substitute(
        title=html.escape(escape_line(study.name)),
        style=page_asset("page.css") + page_asset("memory.css"),
        # no `</script>` in it may end the element
        data=page_json(data).replace("<", "\\u003c"),
        script=page_asset("data.js") + page_asset("memory.js"),
    )
