"""Division of a forward pass into segments for recomputation, chosen so that few bytes stay in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

EVENNESS = 1e-3
"""Weight of equal segment sizes, relative to the bytes that leave segments."""


def cut_segments(held: Sequence[int], leaving: Sequence[int], count: int | None) -> list[int]:
    """Return the places at which segments begin, the first of which is 0.

    `held` has for each node, in order, the bytes of its tensor that gradients read. `leaving` has for each place, and for the
    end, the bytes of tensors that are made before it, and read at it or later. Each segment has at most 1 / `count` of the held
    bytes, or the bytes of the largest tensor if these are more. Among these divisions, the one with the fewest leaving bytes is
    chosen. The default of `count` is the square root of the number of tensors, where large tensors count more.
    """
    sizes = np.array(held, np.float64)
    total, nodes = max(float(sizes.sum()), 1.0), len(sizes)
    if count is None:
        count = max(2, round(total / max(float(np.linalg.norm(sizes)), 1.0)))
    shares = np.cumsum([0, *(sizes / total + EVENNESS / max(nodes, 1))])
    limit = max(1 / max(count, 1), float(sizes.max(initial=0)) / total) + 2 * EVENNESS
    kept = np.array(leaving) / total
    costs, starts = np.zeros(nodes + 1), [0] * (nodes + 1)
    for end in range(1, nodes + 1):
        first = min(int(np.searchsorted(shares, shares[end] - limit)), end - 1)
        found = costs[first:end] + kept[first:end] + EVENNESS * (shares[end] - shares[first:end]) ** 2
        starts[end] = first + int(np.argmin(found))
        costs[end] = found[starts[end] - first]
    places = [starts[nodes]]
    while places[-1]:
        places.append(starts[places[-1]])
    return places[::-1]
