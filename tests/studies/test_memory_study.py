"""The search for the largest batch: the last that fits, in few walks."""

from __future__ import annotations

import math
from typing import Any

import pytest

import placesim
from placesim.report.memory_report import MemoryReport
from placesim.studies.dry_run import search_dry_run
from placesim.studies.memory_study import find_last

GRAPH = {
    "devices": {"cpu": 1, "gpu": {"count": 1, "memory": "2GiB"}},
    "nodes": [
        {"op": "Placeholder", "name": "x", "dtype": "float", "shape": [-1, 256]},
        *(
            {"op": "Tanh", "name": f"h{layer}", "inputs": [f"h{layer - 1}" if layer else "x"], "device": "/gpu:0"}
            for layer in range(8)
        ),
        {"op": "AddN", "name": "sum", "inputs": [f"h{layer}" for layer in range(8)], "device": "/gpu:0"},
    ],
    "fetch": ["sum"],
}


def test_the_largest_batch_is_found_in_few_dry_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int | None] = []

    def watched(loaded: Any, options: Any, *more: Any, **others: Any) -> Any:
        tried.append(options.batch)
        return search_dry_run(loaded, options, *more, **others)

    monkeypatch.setattr("placesim.studies.memory_study.search_dry_run", watched)
    largest = placesim.memory(GRAPH, batch="auto").study.batch
    assert largest is not None
    assert len(tried) <= 7  # 40 if numbers are doubled and bisected
    for batch, most in ((largest + 1, 7), (1_000_000, 7)):
        tried.clear()
        with pytest.raises(placesim.ResourceExhaustedError) as refused:
            placesim.memory(GRAPH, batch=batch)
        assert isinstance(refused.value.report, MemoryReport)
        assert refused.value.report.study.fitting_batch == largest
        assert len(tried) <= most


class Limit:
    """What fits up to a number, and the numbers that were tried."""

    def __init__(self, last: int) -> None:
        self._last = last
        self.tried: list[int] = []

    def fits(self, number: int) -> bool:
        self.tried.append(number)
        return number <= self._last


@pytest.mark.parametrize("high", [2, 3, 4096])
def test_without_a_guess_it_bisects(high: int) -> None:
    for last in {1, max(1, high // 3), high - 1}:
        limit = Limit(last)
        assert find_last(limit.fits, 1, high) == last
        assert len(limit.tried) <= math.ceil(math.log2(high - 1))


@pytest.mark.parametrize(
    ("last", "guess", "most"), [(100, 100, 2), (100, 101, 2), (100, 98, 5), (100, 612, 17), (99_999, 7, 24), (1, 99_000, 24)]
)
def test_near_a_guess_it_takes_few(last: int, guess: int, most: int) -> None:
    limit = Limit(last)
    assert find_last(limit.fits, 1, 100_000, guess) == last
    assert limit.tried[0] == guess
    assert len(limit.tried) <= most


UNDECIDED: dict[str, Any] = {
    "devices": {"cpu": 1, "gpu": 1},
    "nodes": [
        {"op": "Placeholder", "name": "p", "dtype": "bool", "shape": []},
        {"op": "Fill", "name": "a", "inputs": [[64, 64], 1.0]},
        {
            "cond": {
                "if": "p",
                "then": {"op": "Identity", "inputs": ["a"]},
                "else": {"op": "ConcatV2", "inputs": ["a", "a", 0]},
            },
            "name": "c",
        },
    ],
    "fetch": ["c"],
}


def test_every_report_has_the_peaks_of_a_memory_study() -> None:
    peaks = {usage.device: usage.peak for usage in placesim.memory(UNDECIDED).memory}
    shown = {row["device"]: row["peak"] for row in placesim.show(UNDECIDED, memory=True).table("memory")}
    assert shown == peaks
    (finding,) = placesim.check(UNDECIDED, {"max-peak-memory": {"bytes": "20KiB", "device": "GPU"}}).findings
    assert f"holds {peaks['/job:localhost/replica:0/task:0/device:GPU:0']} bytes" in str(finding.message)
    with pytest.raises(placesim.UsageError, match="no such loop: got 'l' in --iterations"):
        placesim.show(UNDECIDED, memory=True, iterations={"l": 3})
