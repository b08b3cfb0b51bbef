"""Reader of the finished rows of a written sweep, which are then not simulated again."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from placesim.core.errors import UsageError
from placesim.core.files.reader import read_stream_path
from placesim.prediction.sweep_rows import RESULTS, Sweep, SweepIdentity, SweepRow, Value
from placesim.report.text.sweep import IDENTITY
from placesim.studies.sweeping.axes import value_of

PAGE_DATA = re.compile(rb'<script type="application/json" id="sweep">(.*?)</script>', re.DOTALL)
"""Element of the page that contains the JSON form."""
_PASSING = ("UnavailableError: ", "InternalError: ")
"""Prefixes of temporary errors; rows with such errors are simulated again."""
_TEXTS = ("peak_device", "bound", "error")
_COUNTS = ("peak_bytes", "limit_bytes", "transfers", "transfer_bytes")


def read_finished_rows(
    path: Path, form: str, keys: Sequence[str], identity: SweepIdentity
) -> dict[tuple[Value, ...], SweepRow]:
    """Map settings to the finished rows of a file; empty if the file is missing or from another version of placesim.

    Raises UsageError for a file with other content, and for a path that can't be written.
    """
    if not path.parent.is_dir() or path.is_dir():
        raise UsageError(f"cannot write {path}: got no folder {path.parent} or a folder, expected a writable path")
    if not path.is_file():  # a missing file, or a special file such as /dev/stdout
        return {}
    try:
        data = read_stream_path(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot read {path}: got '{reason}', expected a sweep to resume, or no such file") from None
    if not data.strip():
        return {}
    found = read_sweep(data, form)
    if found is None:
        raise _refused(path, f"got no sweep in format {form}")
    for what, ours, theirs in (
        ("another graph", identity.graph, found.identity.graph),
        ("other options", identity.options, found.identity.options),
        (f"other keys, {', '.join(found.keys) or 'none'}", tuple(keys), found.keys),
    ):
        if ours != theirs:
            raise _refused(path, f"got a sweep of {what}")
    if found.identity.version != identity.version:
        return {}
    return {row.settings: row for row in found.rows if not (row.error or "").startswith(_PASSING)}


def _refused(path: Path, got: str) -> UsageError:
    error = UsageError(f"cannot resume {path}: {got}, expected rows of this sweep")
    error.help = ("choose another `--output`, or remove the file",)
    return error


def read_sweep(data: bytes, form: str) -> Sweep | None:
    """Parse a sweep in a format (`csv`, `json` or `html`). Returns None if the data is not a sweep."""
    try:
        if form == "csv":
            return _from_csv(data.decode())
        if form == "html":
            found = PAGE_DATA.search(data)
            return None if found is None else _from_document(json.loads(found[1]))
        return _from_document(json.loads(data))
    except (ValueError, KeyError, TypeError, RecursionError, UsageError, csv.Error):
        return None


def _from_csv(text: str) -> Sweep | None:
    lines = list(csv.reader(io.StringIO(text)))
    head = lines[0] if lines else []
    end = len(head) - len(RESULTS) - len(IDENTITY)
    if end < 0 or tuple(head[end:]) != (*RESULTS, *IDENTITY) or len(lines) < 2:
        return None
    keys = tuple(head[:end])
    rows = []
    for line in lines[1:]:
        values = dict(zip(head, line, strict=True))
        results = {name: _csv_value(name, values[name]) for name in RESULTS}
        rows.append(_row(tuple(value_of(key, values[key]) for key in keys), results))
    return Sweep("", keys, tuple(rows), SweepIdentity(*lines[1][end + len(RESULTS) :]))


def _csv_value(name: str, text: str) -> Any:
    if not text:
        return None
    if name == "fits":
        return {"true": True, "false": False}[text]
    return text if name in _TEXTS else int(text) if name in _COUNTS else float(text)


def _from_document(document: Any) -> Sweep:
    keys = tuple(map(str, document["keys"]))
    identity = SweepIdentity(*(str(document[name]) for name in SweepIdentity._fields))
    rows = tuple(_row(tuple(_checked(key, row[key]) for key in keys), row) for row in document["rows"])
    return Sweep(str(document["name"]), keys, rows, identity)


def _checked(key: str, value: Any) -> Value:
    if value_of(key, "true" if value is True else "false" if value is False else str(value)) != value:
        raise ValueError(f"{key} is {value!r}")
    return value  # type: ignore[no-any-return]  # it equals a `Value`


def _row(settings: tuple[Value, ...], results: Mapping[str, Any]) -> SweepRow:
    """Return a row of a written sweep. Raises TypeError or ValueError for results that no simulation has."""
    for name in RESULTS:
        value = results[name]
        kinds: tuple[type, ...] = (
            (str,) if name in _TEXTS else (bool,) if name == "fits" else (int,) if name in _COUNTS else (float, int)
        )
        if value is None:
            continue
        if not isinstance(value, kinds) or (isinstance(value, bool) and name != "fits"):
            raise TypeError(f"{name} is {value!r}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{name} is {value!r}")
    return SweepRow(settings, **{name: results[name] for name in RESULTS})
