"""The page of a memory study."""

from __future__ import annotations

from dataclasses import replace

from placesim.inspection.memory_requirements import MemoryStudy
from placesim.report.pictures.shell import Shell, page_json
from placesim.report.text.memory import device_labels, memory_document, requirements

SHELL = Shell(
    kind="memory",
    command="placesim memory",
    about="memory use of a TensorFlow graph per device. Works offline.",
    main=("memory.html",),
    styles=("memory.css",),
    scripts=("ticks.js", "memory.js"),
)


def memory_page(study: MemoryStudy, top: int) -> str:
    """Return the whole page, with the fullest device first; each device has at most `top` rows of holders."""
    data = memory_document(replace(study, devices=study.by_fullness), top)
    data |= {"short": device_labels(study), "requirements": list(requirements(study))}
    return SHELL.page(study.name, {"study": page_json(data)})
