"""The example graph files of placesim, in `graphs/` of a clone or of an installation."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from placesim.core.errors import UsageError
from placesim.core.suggestions import SIMILAR_AMONG_FEW, did_you_mean

ENDING = ".yaml"
_INSTALLED = Path("share") / "placesim" / "graphs"
"""Folder of the examples in an installation, relative to the folder of its packages or data."""


def titles() -> dict[str, str]:
    """Return the first sentence of each example, by name."""
    return {name: _title(path.read_text(encoding="utf-8")) for name, path in sorted(_paths().items())}


def read_example(name: str) -> str:
    """Return the text of an example by its name, with or without extension. Raises UsageError for an unknown name."""
    name, known = name.removesuffix(ENDING), _paths()
    if name not in known:
        listed = ", ".join(sorted(known)) or "none, as graphs/ was not installed"
        near = did_you_mean(name, known, SIMILAR_AMONG_FEW)
        raise UsageError(f"no such example: got '{name}', expected one of {listed}{near}")
    return known[name].read_text(encoding="utf-8")


def _paths() -> dict[str, Path]:
    above = Path(__file__).parents[3]
    for folder in (above / "graphs", above / _INSTALLED, Path(sysconfig.get_path("data")) / _INSTALLED):
        found = {path.stem: path for path in folder.glob("*" + ENDING)}
        if found:
            return found
    return {}


def _title(text: str) -> str:
    """Return the first sentence of the comment at the start of a file."""
    words = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        words.append(line.removeprefix("#").strip())
    return " ".join(words).partition(". ")[0].rstrip(".") + "."
