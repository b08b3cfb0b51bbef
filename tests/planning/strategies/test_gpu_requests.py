"""Requests of GPUs for the nodes of replicas and stages."""

from __future__ import annotations

import pytest

from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.planning.strategies.gpu_requests import GpuRequests


@pytest.mark.parametrize(
    ("op", "device", "requested"),
    [
        ("Neg", "", "/device:GPU:2"),
        ("Neg", "/job:worker/task:1", "/job:worker/task:1/device:GPU:2"),
        ("Neg", "/job:worker/gpu:0", "/job:worker/device:GPU:2"),
        # whoever asks for another device knows why
        ("Neg", "/job:worker/device:CPU:0", "/job:worker/device:CPU:0"),
        # without a kernel on a GPU, only the task stays
        ("StringJoin", "/job:worker/gpu:0", "/job:worker"),
        ("StringJoin", "", ""),
    ],
)
def test_a_gpu_is_requested_where_a_node_can_run_on_one(op: str, device: str, requested: str) -> None:
    is_text = op == "StringJoin"
    nodes = [
        {"op": "Const", "name": "x", "value": "a" if is_text else 1.0},
        {"op": op, "name": "y", "inputs": ["x"], "device": device},
    ]
    graph = graph_file_from_mapping({"nodes": nodes}, "test").graph
    assert GpuRequests(graph).request(graph.nodes[graph.ids["y"]], 2) == requested
