"""Fitted constants of the cost formulas, by family of work, read from the tables of `fitted-constants.txt`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from placesim.prediction.cost_constants import RowsConstants, Spread, StepsConstants, StreamConstants, TiledConstants


def _read_tables() -> dict[str, dict[str, list[float]]]:
    """Return the values of each table by family; a table begins with a line of its name and its columns' names."""
    tables = Path(__file__).with_name("fitted-constants.txt").read_text("utf-8").split("\n\n")[2:]
    found: dict[str, dict[str, list[float]]] = {}
    for table in tables:
        (name, *_), *rows = (re.split(" {2,}", line) for line in table.splitlines())
        found[name] = {family: list(map(float, values)) for family, *values in rows}
    return found


_TABLES = _read_tables()
_SHARED = {name: value for name, (value,) in _TABLES["SHARED"].items()}
SUSTAINED_OPERATIONS_PER_JOULE_NM = _SHARED.pop("sustained")
"""Float32 operations per joule that boards at their power limit reach, times the feature size of their process in nm."""
BANDWIDTH_SHARE: Mapping[str, float] = _SHARED
"""Share of the data sheet's bandwidth that copying reaches, by kind of memory; for CPUs, it is assumed."""
TILED: Mapping[str, TiledConstants] = {family: TiledConstants(*row) for family, row in _TABLES["TILED"].items()}
STREAMS: Mapping[str, StreamConstants] = {family: StreamConstants(*row) for family, row in _TABLES["STREAMS"].items()}
ROWS: Mapping[str, RowsConstants] = {family: RowsConstants(*row) for family, row in _TABLES["ROWS"].items()}
STEPS: Mapping[str, StepsConstants] = {family: StepsConstants(*row) for family, row in _TABLES["STEPS"].items()}
MEASURED_GPUS = frozenset(_TABLES["DEVICES"])
"""Models of the catalogue of which at least 150 kernels, or 20 steps of networks, have a part in the constants."""
SPREAD: Mapping[str, Spread] = {family: Spread(low, high) for family, (low, high, _) in _TABLES["SPREAD"].items()}
