"""Kernels that a calibration times: each node's own."""

from __future__ import annotations

from placesim.runtime.executors.thread_pools import ThreadPools
from placesim.studies.calibration.case_timing import StepTimer, profile_kernels, random_feeds
from placesim.studies.calibration.cases import chain_graph


def test_nodes_after_a_product_are_timed_one_by_one() -> None:
    graph = chain_graph(3, "Neg")
    timings = StepTimer(graph, ThreadPools(), random_feeds(graph)).time_nodes(0.0)
    assert {"m0", "m1", "n0", "n1", "n2"} <= set(timings)
    assert all(timing.seconds > 0 and timing.spread >= 1 for timing in timings.values())


def test_a_load_knows_the_bytes_that_a_step_touches() -> None:
    loads = profile_kernels(chain_graph(2, "Neg")).loads
    assert {load.step_bytes for load in loads.values()} == {
        4 * 4 * 4 * (1 + 3)
    }  # the placeholder, and a product's three matrices
