"""Curves between boxes, with the same shape as in the page (`wireOf` and `tipOf` in `assets/device_lanes.js`)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

FAR_END = (0.85, 0.78, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)
MIDDLE = (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8)
"""Possible positions of a curve's label, as shares of its length, the best first."""
_STEPS = 40
"""Number of straight segments for measuring a curve's length."""


class End(NamedTuple):
    """A point at the edge of a box, and the direction away from it."""

    x: float
    y: float
    dx: int
    dy: int


class Curve:
    """A cubic curve from `start` to `end`, perpendicular to the edges of both boxes."""

    def __init__(self, start: End, end: End) -> None:
        self.start, self.end = start, end
        distance = math.hypot(end.x - start.x, end.y - start.y)
        reach = max(22, min(90, distance / 2.4))
        handles = [(end.x + end.dx * reach, end.y + end.dy * reach) for end in (start, end)]
        self._points = ((start.x, start.y), *handles, (end.x, end.y))

    @property
    def path(self) -> str:
        """The data of an SVG path."""
        first, *others = (f"{x:.1f} {y:.1f}" for x, y in self._points)
        return f"M{first}C{' '.join(others)}"

    def tip(self, size: float) -> str:
        """Return the path of an arrow's tip at the curve's end."""
        x, y, dx, dy = self.end
        side = size * 0.6
        corners = (
            (x + dx * size - dy * side, y + dy * size + dx * side),
            (x + dx * size + dy * side, y + dy * size - dx * side),
        )
        return f"M{x:.1f} {y:.1f}" + "".join(f"L{a:.1f} {b:.1f}" for a, b in corners) + "Z"

    def labelled(self, leaving: int, coming: int) -> Iterator[tuple[float, float]]:
        """Yield possible positions of the curve's label, best first: near the end with fewer curves.

        `leaving` and `coming` are the numbers of curves at its two ends.
        """
        shares = FAR_END if leaving > coming else FAR_END[::-1] if leaving < coming else MIDDLE
        return map(self._point_at, shares)

    def _point_at(self, share: float) -> tuple[float, float]:
        wanted = share * self._lengths[-1]
        step = next(number for number, length in enumerate(self._lengths) if length >= wanted)
        before = self._lengths[step - 1] if step else 0.0
        part = (wanted - before) / ((self._lengths[step] - before) or 1)
        return self._point((step + part) / _STEPS)

    @cached_property
    def _lengths(self) -> list[float]:
        """Length of the curve from its start to the end of each straight segment."""
        points = [self._point(number / _STEPS) for number in range(_STEPS + 1)]
        found, total = [], 0.0
        for one, two in pairwise(points):
            total += math.dist(one, two)
            found.append(total)
        return found

    def _point(self, t: float) -> tuple[float, float]:
        weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3)
        x, y = (sum(weight * point[axis] for weight, point in zip(weights, self._points, strict=True)) for axis in (0, 1))
        return x, y
