"""Execution: partitioned runs give what unpartitioned ones give, tensors are dropped in time, numpy stays silent."""

from __future__ import annotations

import tracemalloc
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placesim.core.errors import DeadlineExceededError
from placesim.graph.session_steps import Fetch, GraphStep
from placesim.ops.process.denormals import flushing_denormals
from placesim.runtime.executors.ordered_executor import Executor
from tests.runtime.sessions.graphs import fetch, make_session


def chain(length: int, size: int = 1) -> list[dict[str, Any]]:
    first = {"op": "Const", "name": "n0", "value": 1.0, "shape": [size]}
    return [first, *({"op": "Neg", "name": f"n{i}", "inputs": [f"n{i - 1}"]} for i in range(1, length))]


BINARY = ("Add", "Sub", "Mul", "Maximum", "Minimum")


@st.composite
def dags(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A random graph of elementwise ops, each with a random device."""
    count = draw(st.integers(1, 12))
    nodes: list[dict[str, Any]] = [{"op": "Const", "name": "c0", "value": [1.5, -2.0]}]
    for i in range(1, count + 1):
        op = draw(st.sampled_from(BINARY))
        inputs = [f"c{draw(st.integers(0, i - 1))}" for _ in range(2)]
        nodes.append(
            {"op": op, "name": f"c{i}", "inputs": inputs, "device": draw(st.sampled_from(["/cpu:0", "/cpu:1", "/gpu:0"]))}
        )
    return nodes


@pytest.mark.slow
@given(dags())
def test_partitioned_execution_equals_unpartitioned(nodes: list[dict[str, Any]]) -> None:
    last = nodes[-1]["name"]
    alone = [{k: v for k, v in node.items() if k != "device"} for node in nodes]
    spread = fetch(make_session(nodes, cpu=2, gpu=1), last)
    np.testing.assert_array_equal(spread, fetch(make_session(alone), last))


def test_stores_are_separate_and_a_tensor_reaches_another_device_by_a_transfer() -> None:
    nodes = [
        {"op": "Const", "name": "a", "value": 1.0, "device": "/cpu:0"},
        {"op": "Neg", "name": "b", "inputs": ["a"], "device": "/cpu:1"},
        {"op": "Neg", "name": "c", "inputs": ["b"], "device": "/cpu:2"},
    ]
    session = make_session(nodes, cpu=3)
    prepared = session.prepare(GraphStep((Fetch("c"),)))
    assert [(t.tensor, t.src[-5:], t.dst[-5:]) for t in prepared.partitions.transfers] == [
        ("a:0", "CPU:0", "CPU:1"),
        ("b:0", "CPU:1", "CPU:2"),
        ("c:0", "CPU:2", "CPU:0"),
    ]
    for part in prepared.partitions.parts:
        for node in part.graph.nodes:
            assert all(part.graph.nodes[i] is not node for i in node.input_nodes)
    assert fetch(session, "c") == 1.0


def test_peak_memory_follows_the_width_and_not_the_length() -> None:
    size = 1 << 18
    session = make_session([{"op": "Placeholder", "name": "n0", "dtype": "float32"}, *chain(64)[1:]])
    value = np.ones(size, np.float32)
    fetch(session, "n63", n0=value)
    tracemalloc.start()
    fetch(session, "n63", n0=value)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * value.nbytes


def test_numpy_warns_nobody() -> None:
    session = make_session([{"op": "Log", "name": "l", "inputs": [[-1.0, 0.0]]}, {"op": "Exp", "name": "e", "inputs": [1e4]}])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        logarithm, power = fetch(session, "l", "e")
    assert np.isnan(logarithm[0])
    assert logarithm[1] == -np.inf
    assert power == np.inf


def test_denormals_are_flushed_only_within() -> None:
    tiny = np.float32(1e-40)
    with flushing_denormals():
        assert np.add(tiny, np.float32(0)) == 0
    assert np.add(tiny, np.float32(0)) > 0


@pytest.mark.slow
def test_a_timeout_ends_a_step() -> None:
    session = make_session(chain(20_000), operation_timeout_in_ms=1)

    def run_often() -> None:
        for _ in range(200):
            fetch(session, "n19999")

    with pytest.raises(DeadlineExceededError, match="Timed out waiting for notification"):
        run_often()


@pytest.mark.slow
def test_progress_counts_up_to_all_nodes() -> None:
    session = make_session(chain(9000))
    seen: list[int] = []
    session.run(GraphStep((Fetch("n8999"),)), progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 9001  # and the result's own node


def test_a_plain_graph_runs_in_the_flat_executor() -> None:
    session = make_session(chain(3))
    session.run(GraphStep((Fetch("n2"),)))
    assert isinstance(next(iter(session._prepared.values())).executor, Executor)


SCALARS: dict[str, list[Any]] = {
    "float32": [3e38, -3e38, 1e-38, float("inf"), 0.0, -0.0, 0.1],
    "float64": [1e308, 1e-308, float("nan"), -0.0, 0.1],
    "int32": [2**31 - 1, -(2**31), 7],
    "int64": [2**63 - 1, -(2**63), 7],
    "float16": [60000.0, 0.1],
    "uint8": [255, 7],
}


@pytest.mark.parametrize("dtype", SCALARS)
@pytest.mark.parametrize(("op", "function"), [("AddV2", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Add", np.add)])
def test_scalars_are_computed_as_arrays_are(op: str, function: Any, dtype: str) -> None:
    pairs = [(x, y) for x in SCALARS[dtype] for y in SCALARS[dtype]]
    nodes: list[dict[str, Any]] = []
    for i, pair in enumerate(pairs):
        nodes += [{"op": "Const", "name": f"{n}{i}", "value": v, "dtype": dtype} for n, v in zip("xy", pair, strict=True)]
        nodes += [
            {"op": op, "name": f"once{i}", "inputs": [f"x{i}", f"y{i}"]},
            {"op": op, "name": f"twice{i}", "inputs": [f"once{i}", f"y{i}"]},
            {"op": op, "name": f"thrice{i}", "inputs": [f"twice{i}", f"once{i}"]},
        ]
    session = make_session(nodes)
    names = [f"{name}{i}" for i in range(len(pairs)) for name in ("once", "twice", "thrice")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = session.run(GraphStep(tuple(map(Fetch, names)))).values
    with flushing_denormals():
        x, y = (np.array([pair[side] for pair in pairs], dtype) for side in (0, 1))
        once = function(x, y)
        twice = function(once, y)
        expected = np.stack([once, twice, function(twice, once)], 1).reshape(-1)
    assert {np.asarray(value.value).dtype for value in found} == {np.dtype(dtype)}
    assert [np.asarray(value.value).tobytes() for value in found] == [value.tobytes() for value in expected]
