"""Repair of assignments whose peaks exceed their limits, worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from placesim.planning.methods import peak_repair
from placesim.planning.methods.peak_repair import lower_peaks

FREED = {1: 4.0, 2: 1.0}
SECONDS = {1: 1.0, 2: 0.5}


class ToyPeaks:
    """Peaks that each moved group lowers by a fixed number of bytes."""

    excess = 4.0

    def takes(self, move: Mapping[int, int], most: float) -> bool:
        after = max(0.0, self.excess - sum(FREED[group] for group in move))
        if after > most:
            return False
        self.excess = after
        return True


def test_what_costs_the_least_time_for_its_memory_moves_first(monkeypatch: pytest.MonkeyPatch) -> None:
    # group 1 frees all 4 bytes for 1 s; group 2 takes half of the time, but twice as much for each byte
    moves: list[tuple[float, dict[int, int]]] = [(4.0 - FREED[group], {group: 0}) for group in FREED]
    monkeypatch.setattr(peak_repair, "_helpful", lambda *given: moves)

    def rate(sets: Sequence[Mapping[int, int]]) -> list[float]:
        return [sum(SECONDS[group] for group in moved) for moved in sets]

    peaks: Any = ToyPeaks()
    assert lower_peaks(peaks, lambda number: iter(()), rate, lambda moved: True, lambda: False) == {1: 0}
