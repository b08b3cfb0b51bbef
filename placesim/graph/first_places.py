"""First places of numbers in a column."""

from __future__ import annotations

import numpy as np

from placesim.graph.graph import Integers


def first_places(numbers: Integers, count: int) -> Integers:
    """Return the index of the first occurrence of each number from 0 to count - 1; -1 for a number that does not occur."""
    found = np.full(count, -1)
    found[numbers[::-1]] = np.arange(len(numbers))[::-1]  # numpy keeps the last of several assignments
    return found
