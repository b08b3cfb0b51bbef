"""Kernels that a calibration times: each node's own."""

from __future__ import annotations

from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.runtime.executors.thread_pools import ThreadPools
from placesim.studies.calibration.case_timing import StepTimer, kernel_loads, random_feeds, record_step
from placesim.studies.calibration.networks import build_graphs


def test_nodes_after_a_product_are_timed_one_by_one() -> None:
    placed = [("x", [256, 256]), ("b", [256])]
    nodes = [{"op": "Placeholder", "name": name, "dtype": "float32", "shape": dims} for name, dims in placed]
    nodes += [
        {"op": "MatMul", "name": "m", "inputs": ["x", "x"]},
        {"op": "BiasAdd", "name": "a", "inputs": ["m", "b"]},
        {"op": "Relu", "name": "r", "inputs": ["a"]},
        {"op": "NoOp", "name": "all", "inputs": ["^r"]},
    ]
    graph = graph_file_from_mapping({"nodes": nodes}).graph
    timings = StepTimer(graph, ThreadPools(), random_feeds(graph)).time_nodes(0.0)
    assert {"m", "a", "r"} <= set(timings)
    assert all(timing.seconds > 0 and timing.spread >= 1 for timing in timings.values())


def test_a_load_knows_the_bytes_that_a_step_touches() -> None:
    (graph,) = build_graphs(["negations 2"]).values()
    loads = kernel_loads(record_step(graph))
    assert {load.step_bytes for load in loads.values()} == {
        4 * 4 * 4 * (1 + 3)
    }  # the placeholder, and a product's three matrices
