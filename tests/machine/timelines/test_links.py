"""Shared links: worked cases, and a plain reference that shares everything out anew for each transfer, in fractions."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placesim.core.errors import InvalidArgumentError
from placesim.machine.timelines.bandwidth_sharing import Flow, Link, SharedLinks, Traffic, transfer_ends

GIGABYTE = 1e9


def reference_rates(links: Sequence[Link], routes: dict[int, tuple[int, ...]]) -> dict[int, Fraction]:
    """Max-min rates by the book: fill all alike until a link is full, settle its transfers, go on with the others."""
    free = [Fraction(link.bandwidth) for link in links]
    rates: dict[int, Fraction] = {}
    while left := {name: route for name, route in routes.items() if name not in rates}:
        takers = [sum(route.count(link) for route in left.values()) for link in range(len(links))]
        shares = {link: free[link] / takers[link] for link in range(len(links)) if takers[link]}
        full = min(shares, key=lambda link: shares[link])
        for name, route in left.items():
            if full in route:
                rates[name] = shares[full]
                for link in route:
                    free[link] -= shares[full]
    return rates


def reference_ends(links: Sequence[Link], flows: Sequence[Flow]) -> list[Fraction]:
    """When each flow ends, without rounding."""
    arrivals = {
        name: Fraction(flow.start) + sum(Fraction(links[link].latency) for link in flow.route)
        for name, flow in enumerate(flows)
    }
    left = {name: Fraction(flow.bytes) for name, flow in enumerate(flows)}
    ends: dict[int, Fraction] = {}
    now = Fraction(0)
    while left:
        under_way = [name for name in left if arrivals[name] <= now]
        for name in under_way:
            if not left[name] or not flows[name].route:
                ends[name] = now
                del left[name]
        rates = reference_rates(links, {name: flows[name].route for name in under_way if name in left})
        moments = [now + left[name] / rate for name, rate in rates.items()]
        moments += [arrivals[name] for name in left if arrivals[name] > now]
        if not moments:
            break
        then = min(moments)
        for name, rate in rates.items():
            left[name] -= rate * (then - now)
        now = then
    return [ends[name] for name in range(len(flows))]


@st.composite
def flow_cases(draw: st.DrawFn) -> tuple[list[Link], list[Flow]]:
    latencies = st.sampled_from([0.0, 0.0, 1e-6, 0.001])
    bandwidths = st.one_of(st.sampled_from([1e9, 2e9, 3e9]), st.floats(1e8, 5e10))
    links = [Link(f"l{i}", draw(bandwidths), draw(latencies)) for i in range(draw(st.integers(1, 6)))]
    flow = st.builds(
        Flow,
        st.one_of(st.just(0.0), st.floats(0, 0.5)),
        st.one_of(st.sampled_from([0, 1, 1000, 10**8]), st.integers(1, 10**9)),
        st.lists(st.integers(0, len(links) - 1), max_size=4).map(tuple),
    )
    return links, draw(st.lists(flow, min_size=1, max_size=12))


@pytest.mark.slow
@given(flow_cases())
def test_ends_are_those_of_the_reference(case: tuple[list[Link], list[Flow]]) -> None:
    links, flows = case
    assert transfer_ends(links, flows) == pytest.approx([float(end) for end in reference_ends(links, flows)], rel=1e-9, abs=0)


@pytest.mark.slow
@given(flow_cases(), st.randoms(use_true_random=False))
def test_the_order_in_which_flows_are_given_changes_nothing(case: tuple[list[Link], list[Flow]], rng: random.Random) -> None:
    links, flows = case
    order = list(range(len(flows)))
    rng.shuffle(order)
    shuffled = transfer_ends(links, [flows[number] for number in order])
    assert shuffled == pytest.approx([transfer_ends(links, flows)[number] for number in order], rel=1e-12)


@pytest.mark.slow
@given(flow_cases())
def test_a_link_without_limit_and_latency_changes_nothing(case: tuple[list[Link], list[Flow]]) -> None:
    links, flows = case
    more = [Flow(flow.start, flow.bytes, (*flow.route, len(links))) for flow in flows]
    assert transfer_ends([*links, Link("free", math.inf)], more) == transfer_ends(links, flows)


@pytest.mark.slow
@given(flow_cases())
def test_strangers_change_no_bit(case: tuple[list[Link], list[Flow]]) -> None:
    """Only what is connected with a change is shared out anew."""
    links, flows = case
    twice = [Flow(flow.start * 0.7, flow.bytes, tuple(link + len(links) for link in flow.route)) for flow in flows]
    assert transfer_ends([*links, *links], [*flows, *twice])[: len(flows)] == transfer_ends(links, flows)


@pytest.mark.parametrize(
    ("links", "flows", "ends"),
    [
        pytest.param([(GIGABYTE, 0)], [(0, 1e9, (0,))], [1], id="alone"),
        pytest.param([(GIGABYTE, 0.5)], [(1, 1e9, (0,))], [2.5], id="latency first"),
        pytest.param([(GIGABYTE, 0)], [(0, 1e9, (0,)), (0, 1e9, (0,))], [2, 2], id="half each"),
        pytest.param([(GIGABYTE, 0)], [(0, 1e9, (0,)), (0.5, 1e9, (0,))], [1.5, 2], id="one begins later"),
        pytest.param([(GIGABYTE, 0)], [(0, 1e9, (0,)), (0, 2e9, (0,))], [2, 3], id="one ends earlier"),
        pytest.param(
            [(GIGABYTE, 0), (4 * GIGABYTE, 0)],
            [(0, 1e9, (0, 1)), (0, 1e9, (0,)), (0, 7e9, (1,))],
            [2, 2, 2],
            id="what another link keeps back is free for the rest",
        ),
        pytest.param([(GIGABYTE, 0.25)], [(0, 1e9, (0, 0))], [2.5], id="the same link twice"),
        pytest.param([(GIGABYTE, 0.25)], [(0, 0, (0,))], [0.25], id="no bytes take the latency"),
        pytest.param([], [(3, 1e9, ())], [3], id="no links take no time"),
        pytest.param([(GIGABYTE, 0), (GIGABYTE, 1)], [(0, 1e9, (0, 1)), (0, 1e9, (0,))], [2, 1], id="no share before arrival"),
    ],
)
def test_worked_cases(
    links: list[tuple[float, float]], flows: list[tuple[float, float, tuple[int, ...]]], ends: list[float]
) -> None:
    named = [Link(f"l{number}", *figures) for number, figures in enumerate(links)]
    assert transfer_ends(named, [Flow(*flow) for flow in flows]) == ends


def test_traffic_is_what_was_carried_and_how_long_a_link_was_in_use() -> None:
    shared = SharedLinks([Link("a", GIGABYTE), Link("b", 2 * GIGABYTE), Link("c", GIGABYTE)])
    shared.begin(0.0, 0, 1e9, (0, 1))
    shared.begin(5.0, 1, 2e9, (1,))
    assert shared.advance(2.0) == [(1.0, 0)]
    assert shared.advance(math.inf) == [(6.0, 1)]
    assert shared.traffic() == (Traffic(1e9, 1.0), Traffic(3e9, 2.0), Traffic(0.0, 0.0))


def test_changes_are_told_in_time_and_nothing_is_told_twice() -> None:
    shared = SharedLinks([Link("a", GIGABYTE, 0.5)])
    assert shared.next_change() == math.inf
    shared.begin(0.0, 7, 1e9, (0,))
    assert shared.next_change() == 0.5
    assert shared.advance(1.0) == []
    assert shared.next_change() == 1.5
    assert shared.advance(1.5) == [(1.5, 7)]
    assert shared.advance(9.0) == []
    assert shared.next_change() == math.inf


@pytest.mark.parametrize(
    ("link", "said"),
    [
        (Link("up", 0.0), "link 'up' has a bandwidth of 0.0 bytes/s: it must be above 0"),
        (Link("up", -1.0), "bandwidth of -1.0"),
        (Link("up", math.nan), "bandwidth of nan"),
        (Link("up", 1.0, -1e-6), "link 'up' has a latency of -1e-06 s: it must be finite, 0 or more"),
        (Link("up", 1.0, math.inf), "latency of inf"),
        (Link("up", 1.0, math.nan), "latency of nan"),
    ],
)
def test_links_that_make_no_sense_are_refused(link: Link, said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        SharedLinks([link])


@pytest.mark.parametrize(
    ("flow", "said"),
    [
        (Flow(0, -1, (0,)), "transfer 0 has -1 bytes: it must be a finite number, 0 or more"),
        (Flow(0, math.inf, (0,)), "has inf bytes"),
        (Flow(0, 1, (1,)), "transfer 0 takes link 1: there are 1, numbered from 0"),
        (Flow(0, 1, (-1,)), "takes link -1"),
        (Flow(-1, 1, (0,)), "transfer 0 begins at -1 s, before the current time 0.0 s"),
        (Flow(math.nan, 1, (0,)), "begins at nan s"),
    ],
)
def test_transfers_that_make_no_sense_are_refused(flow: Flow, said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        transfer_ends([Link("a", 1.0)], [flow])
