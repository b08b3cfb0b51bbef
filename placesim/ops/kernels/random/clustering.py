"""Drawing of centers for k-means from the points; points far from the centers drawn so far are more likely.

Source: TensorFlow's clustering ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor
from placesim.ops.kernels.philox import Philox, WordStream
from placesim.ops.kernels.shapes import Dims, ShapeContext


class _Centers:
    """The points drawn so far, and half the squared distance of each point to the nearest of them, `[n]`."""

    def __init__(self, points: Tensor, seed: int) -> None:
        self._points, self._words = points, WordStream(Philox(seed, 0))
        self._half_squares = np.square(points).sum(axis=1) * np.float32(0.5)
        self._distances = np.full(len(points), np.inf, np.float32)
        self._totals = self._distances
        self.chosen: list[int] = []

    def add(self, tries: int) -> None:
        """Draw this number of points, and add the one with which the sum of the distances is smallest."""
        if self.chosen:
            self._totals = np.cumsum(self._distances)
        best, least, distances = 0, np.inf, self._distances
        for _ in range(tries):
            index = self._draw()
            found = np.minimum(self._distances, self._distances_from(index))
            if tries == 1 or found.sum() < least:
                best, least, distances = index, found.sum(), found
        self._distances = distances
        self.chosen.append(best)

    def _distances_from(self, index: int) -> Tensor:
        # BLAS rounds otherwise than TensorFlow, and each of two close points is often as good as the other
        products = (self._points * self._points[index]).sum(axis=1)
        found: Tensor = self._half_squares - products + self._half_squares[index]
        return found

    def _draw(self) -> int:
        count = len(self._points)
        if not self.chosen:
            return self._words.below(count, 64)
        while True:
            total = self._totals[-1]
            if total > 0:
                drawn = np.float32(self._words.float32()) * total
                index = min(int(np.searchsorted(self._totals, drawn, "right")), count - 1)
            else:
                index = self._words.below(count, 64)
            if index not in self.chosen:
                return index


def draw_centers(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """KmeansPlusPlusInitialization: (points `[n, size]`, scalars k, seed, number of retries) -> k of the points `[k, size]`.

    A negative number of retries is 2 + log(k). Raises InvalidArgumentError for other ranks, and unless 0 < k <= n.
    """
    points, *scalars = inputs
    if points.ndim != 2:
        raise InvalidArgumentError("Input points should be a matrix.")
    for name, value in zip(("num_to_sample", "seed", "num_retries_per_sample"), scalars, strict=True):
        if value.ndim:
            raise InvalidArgumentError(f"Input {name} should be a scalar.")
    count, seed, retries = map(int, scalars)
    if not len(points):
        raise InvalidArgumentError("Expected points.rows() > 0.")
    if count <= 0:
        raise InvalidArgumentError("Expected num_to_sample > 0.")
    if count > len(points):
        raise InvalidArgumentError(f"Expected num_to_sample <= points.rows(). {count} vs {len(points)}.")
    tries = 1 + (retries if retries >= 0 else 2 + int(log(count)))
    centers = _Centers(points, seed)
    for _ in range(count):
        # TensorFlow counts the tries in 32 bits; without a try, the first point is chosen
        centers.add((tries + (1 << 31)) % (1 << 32) - (1 << 31))
    return (points[centers.chosen],)


def draw_from_chain(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """KMC2ChainInitialization: (distances `[n]`, a scalar seed) -> the position at which a Markov chain over them ends.

    Raises InvalidArgumentError for other ranks and for no distances.
    """
    distances, seed = inputs
    if distances.ndim != 1:
        raise InvalidArgumentError("Input distances should be a vector.")
    if seed.ndim:
        raise InvalidArgumentError("Input seed should be a scalar.")
    if not len(distances):
        raise InvalidArgumentError("Expected distances_tensor.size() > 0.")
    words, state = WordStream(Philox(int(seed), 0)), 0
    for index in range(1, len(distances)):
        if distances[index] > np.float32(words.float32()) * distances[state]:
            state = index
    return (np.asarray(state, np.int64),)


def _infer_centers(_: ShapeContext) -> Sequence[Dims]:
    return (None,)


def _infer_position(_: ShapeContext) -> Sequence[Dims]:
    return ((),)


TABLE: Table = {
    "KmeansPlusPlusInitialization": Kernel(draw_centers, _infer_centers),
    "KMC2ChainInitialization": Kernel(draw_from_chain, _infer_position),
}
