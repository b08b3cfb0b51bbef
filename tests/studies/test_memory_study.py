"""The search for the largest batch: the last that fits, in few walks."""

from __future__ import annotations

import math

import pytest

from placesim.studies.memory_study import find_last


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
