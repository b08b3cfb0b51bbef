"""Groups of ops that are computed together: what is fused, that no bit of a result tells, and that errors and traces don't."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import placesim
from placesim.core.dtypes import DOUBLE, FLOAT
from placesim.graph.session_steps import Feed, Fetch, GraphStep
from placesim.ops.kernels import load_kernels
from placesim.ops.registry import load_registry
from placesim.runtime.executors import fusion, ordered_executor
from placesim.runtime.executors.ordered_executor import Executor
from placesim.runtime.recording.kernel_timing import MeasuredNode, Measurements
from tests.runtime.sessions.graphs import assert_same_mistake, fetch, make_session

Node = dict[str, Any]
CONV: list[Node] = [
    {"op": "Placeholder", "name": "x", "dtype": "float32"},
    {"op": "Placeholder", "name": "w", "dtype": "float32"},
    {"op": "Conv2D", "name": "conv", "inputs": ["x", "w"], "attrs": {"strides": [1, 1, 1, 1], "padding": "SAME"}},
]
RANDOM = np.random.default_rng(7)
FOLLOWERS: dict[int, list[str]] = {1: [], 2: []}
"""By the number of their inputs: the ops that are done in the memory of what came before them."""
for name, kernel in sorted(load_kernels().items()):
    op_def = load_registry().op(name)
    if kernel.in_place is not None and op_def is not None:
        FOLLOWERS[len(op_def.inputs)].append(name)


def normal(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def given(name: str) -> Node:
    return {"op": "Placeholder", "name": name, "dtype": "float32"}


def binary(op: str, name: str, first: str, second: str) -> Node:
    return {"op": op, "name": name, "inputs": [first, second]}


def layer(channels: int, size: int = 40) -> tuple[list[Node], dict[str, Any]]:
    """A convolution with bias, folded normalization, residual sum and activation, and what it is fed."""
    nodes = [
        *map(given, ("bias", "scale", "shift", "rest")),
        *CONV,
        binary("BiasAdd", "biased", "conv", "bias"),
        binary("Mul", "scaled", "scale", "biased"),
        binary("AddV2", "shifted", "scaled", "shift"),
        binary("Sub", "summed", "rest", "shifted"),
        {"op": "Relu6", "name": "bent", "inputs": ["summed"]},
        {"op": "Identity", "name": "out", "inputs": ["bent"]},
    ]
    feeds = {
        "x": normal(2, size, size, 5),
        "w": normal(3, 3, 5, channels),
        "bias": normal(channels),
        "scale": normal(1, 1, 1, channels),
        "shift": normal(channels),
        "rest": normal(2, size, size, channels),
    }
    return nodes, feeds


def followers_done(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows by how many followers each group does at once, from now on."""
    done: list[int] = []
    begin = fusion.FusionGroup._begin

    def told(group: fusion.FusionGroup, output: Any) -> Any:
        finish = begin(group, output)
        if group._done:
            done.append(group._done)
        return finish

    monkeypatch.setattr(fusion.FusionGroup, "_begin", told)
    return done


def both(nodes: Sequence[Node], feeds: dict[str, Any], *names: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[int]]:
    """What both ways fetch, which must be the same to the bit, and how many followers each group did at once."""
    done = followers_done(monkeypatch)
    fused = fetch(make_session(nodes), *names, **feeds)
    count = len(done)
    apart = fetch(make_session(nodes, fuses_ops=False), *names, **feeds)
    assert len(done) == count
    for one, other in zip(*((found if isinstance(found, tuple) else (found,)) for found in (fused, apart)), strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.tobytes() == other.tobytes()
    return fused, done


@pytest.mark.parametrize("channels", [1, 3, 64, 1500])
def test_results_are_the_same_to_the_bit(channels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, feeds = layer(channels, size=40 if channels < 100 else 7)
    feeds["rest"][0, 0, 0, 0], feeds["rest"][1, 3, 2, 0], feeds["shift"][0] = np.nan, -np.inf, -0.0
    _, done = both(nodes, feeds, "out", monkeypatch=monkeypatch)
    assert done == [5]


@pytest.mark.parametrize("op", FOLLOWERS[1])
def test_activations(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [given("a"), given("b"), binary("MatMul", "head", "a", "b"), {"op": op, "name": "bent", "inputs": ["head"]}]
    _, done = both(nodes, {"a": normal(300, 20), "b": normal(20, 999)}, "bent", monkeypatch=monkeypatch)
    assert done == [1]


@pytest.mark.parametrize(
    ("op", "left", "right", "parts"),
    [
        ("MatMul", (1100, 200), (200, 300), [slice(0, 550), slice(550, 1100)]),
        ("MatMul", (20, 800), (800, 2100), [slice(0, 20)]),  # cut by columns
        ("BatchMatMulV2", (3, 2, 600, 20), (3, 1, 20, 700), [slice(1200 * i, 1200 * i + 1200) for i in range(3)]),
        ("BatchMatMulV2", (4, 1, 200, 60), (4, 3, 60, 300), [slice(600 * i, 600 * i + 600) for i in range(4)]),
    ],
)
def test_a_large_product_does_it_to_the_rows_of_each_part(
    op: str, left: Any, right: Any, parts: list[slice], monkeypatch: pytest.MonkeyPatch
) -> None:
    finished: list[slice] = []
    finish = fusion._finish

    def told(applied: Any, flat: Any, channels: int, rows: slice) -> None:
        finished.append(rows)
        finish(applied, flat, channels, rows)

    monkeypatch.setattr(fusion, "_finish", told)
    nodes = [
        *map(given, ("a", "b", "row", "half")),
        binary(op, "head", "a", "b"),
        binary("Mul", "scaled", "head", "half"),
        binary("AddV2", "moved", "scaled", "row"),
        {"op": "Softmax", "name": "end", "inputs": ["moved"]},
    ]
    feeds = {"a": normal(*left), "b": normal(*right), "row": normal(right[-1]), "half": np.float32(0.5)}
    _, done = both(nodes, feeds, "end", monkeypatch=monkeypatch)
    assert done == [3]
    assert sorted(finished, key=lambda rows: rows.start) == parts


@pytest.mark.slow
@pytest.mark.parametrize("op", sorted({*FOLLOWERS[2]} - {"BiasAdd"}))
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("shape", [(), (1,), (6,), (1, 6), (50, 6), (1, 1)])
def test_operands(op: str, is_first: bool, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("head", "other") if is_first else ("other", "head")
    nodes = [*map(given, ("a", "b", "other")), binary("MatMul", "head", "a", "b"), binary(op, "end", *names)]
    feeds = {"a": normal(50, 4), "b": normal(4, 6), "other": normal(*shape)}
    _, done = both(nodes, feeds, "end", monkeypatch=monkeypatch)
    assert done == [1]


@pytest.mark.parametrize("shape", [(3, 50, 6), (50, 1), (1, 50, 6)])
def test_an_operand_that_broadcasts_otherwise_is_left_to_its_own_turn(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [
        *map(given, ("a", "b", "other")),
        binary("MatMul", "head", "a", "b"),
        {"op": "Tanh", "name": "bent", "inputs": ["head"]},
        binary("AddV2", "sum", "bent", "other"),
        {"op": "Relu", "name": "end", "inputs": ["sum"]},
    ]
    feeds = {"a": normal(50, 4), "b": normal(4, 6), "other": normal(*shape)}
    _, done = both(nodes, feeds, "end", monkeypatch=monkeypatch)
    assert done == [1]


def test_one_executor_does_what_fits_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    done = followers_done(monkeypatch)
    nodes = [
        *map(given, ("a", "b", "other")),
        binary("MatMul", "head", "a", "b"),
        binary("AddV2", "sum", "head", "other"),
        {"op": "Relu", "name": "end", "inputs": ["sum"]},
    ]
    session = make_session(nodes)
    for shape in ((6,), (2, 5, 6), (5, 6)):
        feeds = {"a": normal(5, 4), "b": normal(4, 6), "other": normal(*shape)}
        expected = np.maximum(feeds["a"] @ feeds["b"] + feeds["other"], 0)
        np.testing.assert_allclose(fetch(session, "end", **feeds), expected, rtol=1e-6, atol=1e-6)
    assert done == [2, 2]


def test_other_types_are_computed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for dtype, expected in ((DOUBLE, [2]), (FLOAT, [2])):
        nodes = [{"op": "Placeholder", "name": name, "dtype": dtype.name} for name in ("a", "b", "c")] + [
            binary("MatMul", "head", "a", "b"),
            binary("Mul", "sum", "head", "c"),
            {"op": "Relu", "name": "end", "inputs": ["sum"]},
        ]
        feeds = {name: normal(5, 5).astype(dtype.numpy) for name in "abc"}
        assert both(nodes, feeds, "end", monkeypatch=monkeypatch)[1][-1:] == expected
    nodes = [{"op": "Placeholder", "name": name, "dtype": "int32"} for name in "abc"]
    nodes += [binary("MatMul", "head", "a", "b"), binary("Mul", "end", "head", "c")]
    done = both(nodes, {name: np.arange(9, dtype=np.int32).reshape(3, 3) for name in "abc"}, "end", monkeypatch=monkeypatch)[1]
    assert done == []


@pytest.mark.parametrize(
    ("feed", "value"), [("bias", normal(7)), ("scale", normal(2)), ("shift", normal(3, 1, 1, 9)), ("w", normal(3, 3, 4, 8))]
)
def test_a_mistake_names_the_same_node(feed: str, value: Any) -> None:
    nodes, feeds = layer(8, size=6)
    feeds[feed] = value
    assert_same_mistake(nodes, "out", **feeds)


@pytest.mark.parametrize("inner", ["conv", "biased", "shifted", "summed"])
def test_inner_nodes_may_be_fetched_and_fed(inner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, feeds = layer(8, size=6)
    (_, value), done = both(nodes, feeds, "out", inner, monkeypatch=monkeypatch)
    ranks = ["conv", "biased", "scaled", "shifted", "summed", "bent"]
    assert sum(done) == ranks.index(inner)  # up to the node that is fetched, and no further
    done.clear()
    fed = {**feeds, inner: value + 1}
    both(nodes, fed, "out", monkeypatch=monkeypatch)
    assert not done


def test_what_is_there_only_later_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    chain: list[Node] = [{"op": "Identity", "name": "i0", "inputs": ["late"]}]
    chain += [{"op": "Identity", "name": f"i{i}", "inputs": [f"i{i - 1}"]} for i in range(1, 5)]
    nodes = [
        *map(given, ("a", "b", "late")),
        *chain,
        binary("MatMul", "head", "a", "b"),
        {"op": "Relu", "name": "bent", "inputs": ["head"]},
        binary("AddV2", "end", "bent", "i4"),
    ]
    _, done = both(nodes, {"a": normal(3, 4), "b": normal(4, 6), "late": normal(6)}, "end", monkeypatch=monkeypatch)
    assert done == [1]


def test_an_update_in_between_is_seen() -> None:
    nodes: list[Node] = [
        given("a"),
        {"op": "VariableV2", "name": "v", "dtype": "float32", "attrs": {"shape": [6]}},
        {"op": "Const", "name": "zero", "value": [0.0] * 6, "dtype": "float32"},
        {"op": "Const", "name": "ones", "value": [1.0] * 6, "dtype": "float32"},
        {"op": "Assign", "name": "init", "inputs": ["v", "zero"]},
        {"op": "Identity", "name": "read", "inputs": ["v"]},
        {"op": "AssignAdd", "name": "add", "inputs": ["v", "ones"]},
        binary("MatMul", "head", "a", "a"),
        {"op": "AddV2", "name": "end", "inputs": ["head", "read"], "control_inputs": ["add"]},
    ]
    values = []
    for fuses in (True, False):
        session = make_session(nodes, fuses_ops=fuses)
        fetch(session, "^init")
        values.append(fetch(session, "end", a=np.eye(6, dtype=np.float32)))
    np.testing.assert_array_equal(values[0], np.eye(6) + 1)
    np.testing.assert_array_equal(*values)


def test_a_step_that_is_measured_tells_of_every_node() -> None:
    nodes, feeds = layer(8, size=6)
    session, step = make_session(nodes), GraphStep((Fetch("out"),), tuple(Feed(*pair) for pair in feeds.items()))
    fetched, measurements = session.resolve_fetches(step), Measurements()
    session.run_resolved(fetched, session._resolve_feeds(step, fetched), measurements)
    nodes_run = [measurements.nodes[number] for number in measurements.runs[::4]]
    names = {run.node.name for run in nodes_run if isinstance(run, MeasuredNode)}
    assert {"conv", "biased", "scaled", "shifted", "summed", "bent"} <= names


def test_nothing_is_looked_for_where_there_is_no_head() -> None:
    session = make_session([given("a"), {"op": "Relu", "name": "end", "inputs": ["a"]}])
    fetch(session, "end", a=normal(3))
    (prepared,) = session._prepared.values()
    assert isinstance(prepared.executor, Executor)
    programs, order = prepared.executor.programs, prepared.executor.schedule.order
    assert fusion.find_heads(programs, order) == []
    assert fusion.find_groups(programs, order, []) == {}


def test_the_option_turns_it_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "graph.yaml"
    file.write_text("nodes:\n- {op: MatMul, name: m, inputs: [[[1.0]], [[-2.0]]]}\n- {op: Relu, name: end, inputs: [m]}\n")
    asked: list[int] = []

    def told(*args: Any) -> Any:
        asked.append(1)
        return fusion.find_groups(*args)

    monkeypatch.setattr(ordered_executor, "find_groups", told)
    for no_fusion in (False, True):
        report = placesim.run(file, no_fusion=no_fusion)
        assert report.error is None
        assert len(asked) == 1  # by the first of the two
