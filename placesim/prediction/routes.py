"""Routes of transfers over the machine's links.

Routes never pass through a device's memory.  The chosen route passes the fewest hosts and networks.  Ties are broken by the
largest bandwidth of the narrowest link, then the fewest links, the lowest latency, and the order of the links.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from placesim.machine.links import Vertex
from placesim.machine.timelines.bandwidth_sharing import Link

_NO_LINK = -1


class _Edge(NamedTuple):
    """An edge to a vertex over the link with this number.

    An edge out of a shared medium has the number _NO_LINK, because the edge into the medium already counts the link.
    """

    to: int
    link: int


class Routes:
    """Vertices and the links between them. Found routes are cached."""

    def __init__(self) -> None:
        self.links: list[Link] = []
        self._numbers: dict[Vertex, int] = {}
        self._vertices: list[Vertex] = []
        self._edges: list[list[_Edge]] = []
        self._widths: dict[int, dict[int, tuple[int, float]]] = {}
        self._ways: dict[tuple[int, float], dict[int, tuple[int, int]]] = {}

    def add(self, link: Link) -> int:
        """Add a link and return its number; `connect` sets its ends."""
        self.links.append(link)
        return len(self.links) - 1

    def connect(self, first: Vertex, second: Vertex, link: int) -> None:
        """Add an edge from the first vertex to the second vertex over a link."""
        to = self._number(second)
        self._edges[self._number(first)].append(_Edge(to, link))

    def share(self, ends: Sequence[Vertex], link: int) -> None:
        """Connect all pairs of vertices by one link, a shared medium."""
        medium = self._number(Vertex(None, f"switch:#{link}"))
        for end in ends:
            number = self._number(end)
            self._edges[number].append(_Edge(medium, link))
            self._edges[medium].append(_Edge(number, _NO_LINK))

    def _number(self, vertex: Vertex) -> int:
        found = self._numbers.get(vertex)
        if found is None:
            found = self._numbers[vertex] = len(self._vertices)
            self._vertices.append(vertex)
            self._edges.append([])
        return found

    def find(self, source: Vertex, target: Vertex) -> tuple[int, ...] | None:
        """Return the links from one vertex to another, in order; None if they are not connected."""
        start, end = self._number(source), self._number(target)
        widths = self._widths.get(start)
        if widths is None:
            widths = self._widths[start] = self._widest(start)
        if end not in widths:
            return None
        width = widths[end][1]
        ways = self._ways.get((start, width))
        if ways is None:
            ways = self._ways[start, width] = self._shortest(start, width)
        found: list[int] = []
        while end != start:
            end, link = ways[end]
            if link != _NO_LINK:
                found.append(link)
        return tuple(reversed(found))

    def passes_host(self, source: Vertex, target: Vertex) -> bool:
        """Return whether the route between two vertices passes a host or a network."""
        self.find(source, target)
        found = self._widths[self._number(source)].get(self._number(target))
        return found is not None and found[0] > 0

    def _cost(self, number: int) -> int:
        """Return the cost of passing a vertex: 1 for a host or a network, 0 for a switch."""
        return 0 if self._vertices[number].name.startswith("switch:") else 1

    def _widest(self, start: int) -> dict[int, tuple[int, float]]:
        """Return for each vertex the fewest hosts and networks on a route to it, and the largest bandwidth of such routes."""
        found: dict[int, tuple[int, float]] = {start: (0, float("inf"))}
        done: set[int] = set()
        waiting = [(0, -float("inf"), start)]
        while waiting:
            hosts, negative, at = heappop(waiting)
            if at in done:
                continue
            done.add(at)
            if at != start:
                hosts += self._cost(at)
            for to, link in self._edges[at]:
                reached = hosts, -negative if link == _NO_LINK else min(-negative, self.links[link].bandwidth)
                known = found.get(to)
                if known is None or (reached[0], -reached[1]) < (known[0], -known[1]):
                    found[to] = reached
                    if not self._vertices[to].is_gpu:
                        heappush(waiting, (reached[0], -reached[1], to))
        return found

    def _shortest(self, start: int, width: float) -> dict[int, tuple[int, int]]:
        """Return for each vertex the previous vertex and link on the best route with links of at least `width` bytes/s."""
        found: dict[int, tuple[int, int]] = {}
        best: dict[int, tuple[int, int, float]] = {start: (0, 0, 0.0)}
        waiting = [(0, 0, 0.0, start)]
        while waiting:
            hosts, number, latency, at = heappop(waiting)
            if (hosts, number, latency) != best[at]:
                continue
            if at != start:
                hosts += self._cost(at)
            for to, link in self._edges[at]:
                if link == _NO_LINK:
                    reached = hosts, number, latency
                elif self.links[link].bandwidth < width:
                    continue
                else:
                    reached = hosts, number + 1, latency + self.links[link].latency
                if to not in best or reached < best[to]:
                    best[to] = reached
                    found[to] = at, link
                    if not self._vertices[to].is_gpu:
                        heappush(waiting, (*reached, to))
        return found
