"""End times of transfers over shared links.

A transfer waits for the sum of its route's latencies, and then shares the links of its route by max-min fairness.  The links
are filled one after another, the link with the smallest rate per transfer first. The rates of the transfers on this link are
then subtracted from their other links (progressive filling; Bertsekas and Gallager, Data Networks, 6.5.2). Transfers on one
route have equal rates and are kept together: one number for all of them is the amount that each transfer has moved since the
first one began. The cost of a start or end is therefore proportional to the number of connected routes, not to the number of
transfers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from placesim.core.errors import InvalidArgumentError

ROUTE_ENDS = -1
"""Marks the end of a route's first transfer in the list of changes, in place of a transfer's number."""


class Link(NamedTuple):
    """A link: `bandwidth` in bytes per second (infinite: transfers never wait for it), `latency` in seconds."""

    name: str
    bandwidth: float
    latency: float = 0.0


class Traffic(NamedTuple):
    """Bytes carried by a link, and the seconds during which it carried at least one transfer, without latencies."""

    bytes: float
    busy_seconds: float


class Flow(NamedTuple):
    """A transfer of bytes that begins at `start` (seconds) over links, given by number.

    A link that the route names twice is used twice.
    """

    start: float
    bytes: float
    route: tuple[int, ...]


def check_links(links: Sequence[Link]) -> None:
    """Raise InvalidArgumentError if a bandwidth is not above 0, or a latency is not a finite number of at least 0."""
    for link in links:
        if not link.bandwidth > 0:
            raise InvalidArgumentError(f"link {link.name!r} has a bandwidth of {link.bandwidth} bytes/s: it must be above 0")
        if not 0 <= link.latency < math.inf:
            raise InvalidArgumentError(f"link {link.name!r} has a latency of {link.latency} s: it must be finite, 0 or more")


def check_bytes(transfer: int, num_bytes: float) -> None:
    """Raise InvalidArgumentError if a size is not finite or is below 0."""
    if not 0 <= num_bytes < math.inf:
        raise InvalidArgumentError(f"transfer {transfer} has {num_bytes} bytes: it must be a finite number, 0 or more")


def check_route(transfer: int, route: Sequence[int], links: Sequence[Link]) -> None:
    """Raise InvalidArgumentError if a route names a link that does not exist."""
    for number in route:
        if not 0 <= number < len(links):
            raise InvalidArgumentError(f"transfer {transfer} takes link {number}: there are {len(links)}, numbered from 0")


def route_latency(route: Sequence[int], links: Sequence[Link]) -> float:
    """Return the seconds that a transfer waits before its first byte moves."""
    return math.fsum(links[number].latency for number in route)


def byte_seconds(route: Sequence[int], links: Sequence[Link]) -> float:
    """Return the seconds per byte of a transfer that shares no links."""
    return max((times / links[number].bandwidth for number, times in Counter(route).items()), default=0.0)


class _Crossing(NamedTuple):
    """A link on a route, with the number of times that the route uses it."""

    link: _LinkState
    times: int


@dataclass(slots=True, eq=False)
class _LinkState:
    """State of a link: the routes whose transfers use it now, and scratch values for dividing its bandwidth."""

    number: int
    bandwidth: float
    routes: dict[_Route, None] = field(default_factory=dict)
    busy_seconds: float = 0.0
    busy_since: float = 0.0
    free: float = 0.0
    takers: int = 0


@dataclass(slots=True, eq=False)
class _Route:
    """The current transfers of one route.

    - At time `at`, each transfer has moved `moved` bytes since the first transfer began, and continues at `rate`.
    - `due` has an entry per transfer: the value of `moved` at which the transfer ends.
    - `next_end` is the time at which the first transfer ends at this rate.
    - `bytes` is the total of all past and current transfers of the route.
    """

    crossings: tuple[_Crossing, ...]
    latency: float
    bytes: float = 0.0
    due: list[tuple[float, int, int]] = field(default_factory=list)
    rate: float = 0.0
    moved: float = 0.0
    at: float = 0.0
    next_end: float = math.inf
    settled: bool = False

    def move_to(self, time: float) -> None:
        """Update the moved bytes to a time."""
        self.moved += self.rate * (time - self.at)
        self.at = time


class SharedLinks:
    """Links and their current transfers, simulated from change to change.

    The constructor raises InvalidArgumentError as `check_links` does.
    """

    def __init__(self, links: Sequence[Link]) -> None:
        check_links(links)
        self._links = links
        self._states = [_LinkState(number, link.bandwidth) for number, link in enumerate(links)]
        self._routes: dict[tuple[int, ...], _Route] = {}
        self._changes: list[tuple[float, int, _Route, int, float]] = []
        self._changed: dict[_LinkState, None] = {}
        self._alone: dict[_Route, None] = {}
        self._ended: list[tuple[float, int]] = []
        self._count = 0
        self._now = 0.0

    @property
    def now(self) -> float:
        """Time of the last change."""
        return self._now

    def begin(self, time: float, transfer: int, num_bytes: float, route: Sequence[int]) -> None:
        """Begin a transfer at `time`, which may not be before the last simulated change; `transfer` is its number, 0 or more.

        Raises InvalidArgumentError for an unknown link, a time that is past, or a size that is not finite or below 0.
        """
        check_bytes(transfer, num_bytes)
        if not self._now <= time < math.inf:
            raise InvalidArgumentError(f"transfer {transfer} begins at {time} s, before the current time {self._now} s")
        taken = self._routes.get(tuple(route)) or self._new_route(transfer, tuple(route))
        if time > self._now:
            self._run(time)
        taken.bytes += num_bytes
        if taken.latency:
            self._note(time + taken.latency, taken, transfer, num_bytes)
        else:
            self._share(time, taken, transfer, num_bytes)

    def next_change(self) -> float:
        """Return the next time at which a latency or transfer ends, if no other begins earlier; infinity if none runs."""
        return self._ended[0][0] if self._ended else self._next()

    def advance(self, until: float) -> list[tuple[float, int]]:
        """Simulate up to a time.  Return the end and number of each transfer that ended, in order of their ends."""
        self._run(until)
        ended, self._ended = self._ended, []
        return ended

    def traffic(self) -> tuple[Traffic, ...]:
        """Return the bytes assigned to each link, and how long the link was in use until the last change."""
        num_bytes = [0.0] * len(self._links)
        for numbers, route in self._routes.items():
            for number in numbers:
                num_bytes[number] += route.bytes
        return tuple(
            Traffic(moved, state.busy_seconds + (self._now - state.busy_since if state.routes else 0.0))
            for moved, state in zip(num_bytes, self._states, strict=True)
        )

    def _new_route(self, transfer: int, numbers: tuple[int, ...]) -> _Route:
        check_route(transfer, numbers, self._links)
        times = Counter(numbers)
        states = self._states
        crossings = tuple(_Crossing(states[link], n) for link, n in times.items() if states[link].bandwidth < math.inf)
        route = self._routes[numbers] = _Route(crossings, route_latency(numbers, self._links))
        return route

    def _note(self, time: float, route: _Route, transfer: int, num_bytes: float) -> None:
        self._count += 1
        heappush(self._changes, (time, self._count, route, transfer, num_bytes))

    def _next(self) -> float:
        """Divide the links if needed, and return the time of the next change."""
        if self._alone:
            self._give_all()
        if self._changed:
            self._share_out()
        changes = self._changes
        while changes and changes[0][3] == ROUTE_ENDS and changes[0][2].next_end != changes[0][0]:
            heappop(changes)
        return changes[0][0] if changes else math.inf

    def _run(self, until: float) -> None:
        """Simulate all changes up to a time."""
        changes = self._changes
        while (time := self._next()) <= until and changes:
            # all changes of one moment are made before the links are divided again
            while changes and changes[0][0] == time:
                _, _, route, transfer, num_bytes = heappop(changes)
                if transfer != ROUTE_ENDS:
                    self._share(time, route, transfer, num_bytes)
                elif route.next_end == time:
                    self._end(time, route)

    def _share(self, time: float, route: _Route, transfer: int, num_bytes: float) -> None:
        """Start sharing links with a transfer whose latency has ended."""
        self._now = time
        if not num_bytes or not route.crossings:
            self._ended.append((time, transfer))
            return
        if route.due:
            route.move_to(time)
        else:
            route.moved, route.at, route.rate = 0.0, time, 0.0
        self._count += 1
        heappush(route.due, (route.moved + num_bytes, self._count, transfer))
        route.next_end = math.inf
        for link, _ in route.crossings:
            if not link.routes:
                link.busy_since = time
            link.routes[route] = None
        self._change(route)

    def _end(self, time: float, route: _Route) -> None:
        """End the transfers of a route that finish first.

        `moved` is set to exactly the amount at which they end, so that rounding errors do not accumulate.
        """
        self._now = time
        due = route.due
        route.moved, route.at, route.next_end = due[0][0], time, math.inf
        while due and due[0][0] == route.moved:
            self._ended.append((time, heappop(due)[2]))
        if due:
            self._change(route)
            return
        for link, _ in route.crossings:
            del link.routes[route]
            if link.routes:
                self._changed[link] = None
            else:
                link.busy_seconds += time - link.busy_since

    def _change(self, route: _Route) -> None:
        """Note that a route's transfers have changed.  If the route shares none of its links, it affects no other."""
        for link, _ in route.crossings:
            if len(link.routes) > 1:
                self._changed.update([(link, None) for link, _ in route.crossings])
                return
        self._alone[route] = None

    def _give_all(self) -> None:
        """Give routes that are alone on their links the full bandwidth."""
        for route in self._alone:
            count = len(route.due)
            # a route that was added later is handled when its links are divided
            rate = min([link.bandwidth / (times * count) for link, times in route.crossings]) if count else 0.0
            if count and (rate != route.rate or route.next_end == math.inf):
                self._set_rate(route, rate)
        self._alone.clear()

    def _share_out(self) -> None:
        """Recompute the rates of routes connected with a changed link, by progressive filling."""
        links, routes = self._connected()
        waiting = [(link.free / link.takers, link.number) for link in links]
        heapify(waiting)
        level = 0.0
        while waiting:
            share, number = heappop(waiting)
            full = self._states[number]
            if not full.takers or share != full.free / full.takers:
                continue
            # the rate per transfer never falls while links are filled; a smaller rate is a rounding error
            level = max(level, share)
            for route in full.routes:
                if route.settled:
                    continue
                route.settled = True
                for link, times in route.crossings:
                    taken = times * len(route.due)
                    link.takers -= taken
                    link.free -= level * taken
                    if link.takers and link is not full:
                        heappush(waiting, (link.free / link.takers, link.number))
                if level != route.rate or route.next_end == math.inf:
                    self._set_rate(route, level)
        for route in routes:
            route.settled = False

    def _connected(self) -> tuple[list[_LinkState], list[_Route]]:
        """Return the links and routes that are connected with a changed link, and reset these links for a new division."""
        links = [link for link in self._changed if link.routes]
        found = set(links)
        self._changed = {}
        routes: dict[_Route, None] = {}
        for link in links:
            link.free = link.bandwidth
            link.takers = 0
            for route in link.routes:
                if route not in routes:
                    routes[route] = None
                    for other, _ in route.crossings:
                        if other not in found:
                            found.add(other)
                            links.append(other)
        for route in routes:
            for link, times in route.crossings:
                link.takers += times * len(route.due)
        return links, list(routes)

    def _set_rate(self, route: _Route, rate: float) -> None:
        route.move_to(self._now)
        route.rate = rate
        route.next_end = self._now + (route.due[0][0] - route.moved) / rate
        self._note(route.next_end, route, ROUTE_ENDS, 0.0)


def transfer_ends(links: Sequence[Link], flows: Sequence[Flow]) -> list[float]:
    """Return the time in seconds at which each flow ends.  Raises InvalidArgumentError as `SharedLinks` does."""
    shared = SharedLinks(links)
    for number in sorted(range(len(flows)), key=lambda number: flows[number].start):
        start, num_bytes, route = flows[number]
        shared.begin(start, number, num_bytes, route)
    ends = [0.0] * len(flows)
    for time, number in shared.advance(math.inf):
        ends[number] = time
    return ends
