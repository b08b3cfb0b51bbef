"""Snapshots and inquiries for tests, of graphs as text, in the tests' data and in `graphs/`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

from placesim.formats.sources.loading import load
from placesim.inspection.explaining.inquiry import Inquiry, inquire
from placesim.inspection.snapshot import Snapshot, snapshot_of
from placesim.machine.options import make_options
from placesim.studies.simulation.simulation import SimulationStage, simulate
from tests.placement.corpus import read_cases

ROOT = Path(__file__).parent.parent.parent
LOCAL = "/job:localhost/replica:0/task:0/device:"
GPU, CPU = f"{LOCAL}GPU:0", f"{LOCAL}CPU:0"


def snapshot(source: str | Path, name: str = "g.yaml", **options: Any) -> Snapshot:
    """A graph file's text, or a path, placed and partitioned."""
    loaded = load(source, str(source)) if isinstance(source, Path) else load(StringIO(source), name)
    report = simulate(loaded, make_options(options), SimulationStage.PARTITIONED)
    assert report.error is None or report.error.exit_code == 1, report.error
    return snapshot_of(str(source) if isinstance(source, Path) else name, report)


def inquiry(source: str | Path, **options: Any) -> Inquiry:
    """The inquiry into a graph."""
    found = inquire(snapshot(source, **options))
    assert found is not None
    return found


def corpus_snapshots(name: str, largest: int, wants_error: bool) -> Iterator[tuple[str, Snapshot]]:
    """Cases of the corpus with at most so many nodes, as snapshots."""
    for case in read_cases(name):
        failed = case["expect"]["error"] is not None
        if len(case["graph"]["nodes"]) <= largest and failed == wants_error:
            text = json.dumps({**case["graph"], "run": []}, indent=1)
            yield case["id"], snapshot(text, case["id"])
