"""What depends on constants alone is computed once for all steps: what that is, and that nothing else tells."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import placesim
from placesim.core.errors import OpError
from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.session_steps import Config, Feed, Fetch, GraphStep
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.ops.kernels import KernelTable, load_kernels
from placesim.runtime.executors import constant_folding
from placesim.runtime.executors.fusion import find_groups, find_heads
from placesim.runtime.executors.ordered_executor import Executor
from placesim.runtime.executors.shared_operands import LARGE_OPERAND
from placesim.runtime.recording.kernel_timing import MeasuredNode, Measurements
from placesim.runtime.sessions.session import GraphSession
from tests.runtime.dask.law import GRAPHS, Case, fixed_seeds, graph_case, outcome, recorded_cases
from tests.runtime.dask.test_law import RECORDED, SLOW
from tests.runtime.sessions.graphs import fetch, make_session

Node = dict[str, Any]
Counted = Callable[[str], list[int]]
WAYS: list[dict[str, Any]] = [{}, {"inter_op_parallelism_threads": 2}]
"""Configs of steps in a fixed order, and of steps by their data where there is enough work."""


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """A function of an op: a list that grows by one with each run of its kernel."""

    def count(op: str) -> list[int]:
        table, runs = load_kernels(), list[int]()
        kernel = table[op]
        assert isinstance(table, KernelTable)

        def told(*given: Any) -> Sequence[Any]:
            runs.append(1)
            return kernel.compute(*given)

        monkeypatch.setitem(table._found, op, kernel._replace(compute=told, direct=None))
        return runs

    return count


def const(name: str, value: Any, dtype: str = "float32") -> Node:
    return {"op": "Const", "name": name, "value": value, "dtype": dtype}


def op(kind: str, name: str, *inputs: Any, **more: Any) -> Node:
    return {"op": kind, "name": name, "inputs": list(inputs), **more}


X: Node = {"op": "Placeholder", "name": "x", "dtype": "float32"}
SCALED = [X, const("a", [4.0, 16.0]), op("Rsqrt", "r", "a"), op("Tanh", "t", "r"), op("Mul", "y", "x", "t")]
FLOAT = {"T": "float32"}
LOOP = [
    {**const("start", 0.0), "attrs": {}},
    {**const("limit", 4.0), "attrs": {}},
    op("Enter", "enter", "start", attrs={"T": "float32", "frame_name": "w"}),
    op("Enter", "most", "limit", attrs={"T": "float32", "frame_name": "w", "is_constant": True}),
    op("Merge", "merge", "enter", "next", attrs={"T": "float32", "N": 2}),
    op("Less", "less", "merge", "most", attrs=FLOAT),
    op("LoopCond", "cond", "less"),
    op("Switch", "switch", "merge", "cond", attrs=FLOAT),
    op("Identity", "body", "switch:1", attrs=FLOAT),
    {**const("half", 0.5), "inputs": ["^body"]},
    op("Exp", "e", "half", attrs=FLOAT),
    op("Add", "add", "body", "e", attrs=FLOAT),
    op("NextIteration", "next", "add", attrs=FLOAT),
    op("Exit", "exit", "switch", attrs=FLOAT),
]


@pytest.mark.parametrize("config", WAYS)
def test_it_is_computed_once_for_all_steps(config: dict[str, Any], counted: Counted) -> None:
    counts = [counted(name) for name in ("Rsqrt", "Tanh", "Mul")]
    for folds, expected in ((False, [3, 3, 3]), (True, [1, 1, 3])):
        session = make_session(SCALED, do_constant_folding=folds, **config)
        for x in range(3):
            np.testing.assert_array_equal(fetch(session, "y", x=np.float32(x)), x * np.tanh(np.array([0.5, 0.25], np.float32)))
        assert [len(runs) for runs in counts] == expected
        for runs in counts:
            runs.clear()


def test_in_loops_and_branches(counted: Counted) -> None:
    runs = counted("Exp")
    for folds, expected in ((False, 6), (True, 1)):
        session = make_session(LOOP, raw=True, do_constant_folding=folds)
        assert [fetch(session, "exit:0") for _ in range(2)] == pytest.approx([3 * np.exp(0.5)] * 2)
        assert len(runs) == expected
        runs.clear()


def test_in_the_bodies_of_functions(counted: Counted) -> None:
    runs = counted("Exp")
    function = {
        "name": "F",
        "inputs": {"x": "float"},
        "nodes": [const("c", 2.0), op("Exp", "e", "c"), op("Mul", "m", "x", "e")],
        "outputs": "m",
    }
    graph = {"functions": [function], "nodes": [X, op("StatefulPartitionedCall", "call", "x", attrs={"f": "F"})]}
    devices = build_devices([TaskInventory()])
    session = GraphSession(graph_file_from_mapping(graph).graph, devices, Config(do_constant_folding=True))
    assert [fetch(session, "call", x=np.float32(x)) for x in (1, 2)] == pytest.approx([np.exp(2), 2 * np.exp(2)])
    assert len(runs) == 1


@pytest.mark.parametrize(
    ("nodes", "kind"),
    [
        ([op("RandomUniform", "n", [2], attrs={"dtype": "float32"})], "RandomUniform"),
        ([X, op("Neg", "n", "x")], "Neg"),
        ([{"op": "VariableV2", "name": "v", "dtype": "float32", "attrs": {"shape": []}}, op("Neg", "n", "v")], "Neg"),
        ([const("c", True, "bool"), op("Switch", "s", 1.0, "c"), op("Neg", "n", "s:1")], "Neg"),
        ([const("c", "name", "string"), op("ReadFile", "n", "c")], "ReadFile"),
        (
            [
                const("c", 3, "int32"),
                op("TensorListReserve", "l", [2], "c", attrs={"element_dtype": "float32", "shape_type": "int32"}),
                op("TensorListLength", "n", "l"),
            ],
            "TensorListLength",
        ),
        ([op("Fill", "n", [constant_folding.LARGEST_BYTES // 4 + 1], 1.0)], "Fill"),
    ],
)
def test_what_is_left_to_each_step(nodes: list[Node], kind: str, counted: Counted, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "name").write_bytes(b"text")
    runs = counted(kind)
    session = GraphSession(
        graph_file_from_mapping({"nodes": nodes}).graph,
        build_devices([TaskInventory()]),
        Config(do_constant_folding=True),
        directory=tmp_path,
        initial_values={"v": np.float32(1)} if kind == "Neg" and nodes[0]["name"] == "v" else {},
    )
    feeds = (Feed("x", 1.0),) if nodes[0] is X else ()
    for _ in range(3):
        session.run(GraphStep((Fetch("n"),), feeds))
    assert len(runs) == 3 + (kind == "Fill")  # of which the size is not known before


@pytest.mark.slow
def test_large_results_of_what_is_as_large_are_kept(counted: Counted) -> None:
    size = constant_folding.LARGEST_BYTES // 4 + 1
    fills, negations = counted("Fill"), counted("Neg")
    session = make_session(
        [op("Reshape", "c", [0.5], [1]), const("big", [0.0] * size), op("Neg", "n", "big")], do_constant_folding=True
    )
    for _ in range(2):
        assert len(fetch(session, "n")) == size
    assert (len(fills), len(negations)) == (0, 1)


@pytest.mark.parametrize("config", WAYS)
def test_it_may_be_fetched_and_fed(config: dict[str, Any]) -> None:
    session = make_session(SCALED, do_constant_folding=True, **config)
    root, tanh = np.array([0.5, 0.25], np.float32), np.tanh(np.array([0.5, 0.25], np.float32))
    for _ in range(2):
        fetched = fetch(session, "y", "r", "t", "a", x=np.float32(1))
        for value, expected in zip(fetched, (tanh, root, tanh, [4, 16]), strict=True):
            np.testing.assert_array_equal(value, expected)
            value += 1  # it is the caller's own
        np.testing.assert_array_equal(fetch(session, "y", x=np.float32(1), r=np.array([0, 0], np.float32)), [0, 0])
        np.testing.assert_array_equal(fetch(session, "r"), root)
        assert fetch(session, "^t") == ()


@pytest.mark.parametrize("config", WAYS)
def test_an_error_is_that_of_the_step(config: dict[str, Any]) -> None:
    nodes = [
        *SCALED,
        const("none", [0, 0], "int32"),
        op("FloorDiv", "bad", [1, 2], "none"),
        op("Cast", "after", "bad", attrs={"DstT": "float32"}),
        op("Add", "end", "y", "after"),
        op("CheckNumerics", "early", "x", attrs={"message": "x"}),
        {**op("Add", "both", "y", "after"), "control_inputs": ["early"]},
    ]
    for name, x in (("end", 1.0), ("both", 1.0), ("both", np.nan)):
        told = []
        for folds in (False, True):
            session = make_session(nodes, do_constant_folding=folds, **config)
            for _ in range(2):
                with pytest.raises(OpError) as caught:
                    fetch(session, name, x=np.float32(x))
                told.append((str(caught.value), caught.value.node, caught.value.device))
            np.testing.assert_array_equal(fetch(session, "r"), [0.5, 0.25])
        assert len(set(told)) == 1


def test_what_waits_for_another_node_makes_its_readers_wait() -> None:
    nodes = [
        {"op": "VariableV2", "name": "v", "dtype": "float32", "attrs": {"shape": []}},
        op("Assign", "init", "v", 1.0),
        op("AssignAdd", "add", "v", 1.0),
        {**op("Neg", "n", 0.0), "control_inputs": ["add"]},
        {**op("Identity", "read", "v"), "control_inputs": ["n"]},
    ]
    session = make_session(nodes, do_constant_folding=True)
    fetch(session, "^init")
    assert [fetch(session, "read") for _ in range(3)] == [2, 3, 4]


def test_an_op_after_a_folded_product_writes_nowhere_else(counted: Counted) -> None:
    runs = counted("MatMul")
    nodes = [X, const("m", np.eye(40).tolist()), op("MatMul", "p", "m", "m"), op("AddV2", "s", "p", "x"), op("Relu", "y", "s")]
    session = make_session(nodes, do_constant_folding=True)
    for x in (1.0, -0.5, 0.0):
        np.testing.assert_array_equal(fetch(session, "y", x=np.float32(x)), np.maximum(np.eye(40) + x, 0))
    assert len(runs) == 1


@pytest.mark.parametrize("is_fed", [True, False])
def test_products_that_share_an_operand(is_fed: bool) -> None:
    side = int(LARGE_OPERAND**0.5) + 2
    operand = np.random.default_rng(0).standard_normal((side, side)).astype(np.float32)
    nodes: list[Node] = [X, {**X, "name": "w"} if is_fed else const("w", operand.tolist()), const("axis", 1, "int32")]
    for i in range(3):
        nodes += [const(f"c{i}", [[float(i)] * (side - 2)] * 2), op("Tanh", f"t{i}", f"c{i}")]
        for product, rest in ((f"p{i}", "x"), (f"q{i}", [[1.0, 2.0]] * 2)):
            nodes += [op("ConcatV2", f"j{product}", f"t{i}", rest, "axis", attrs={"N": 2})]
            nodes += [op("MatMul", product, f"j{product}", "w")]
    found = []
    for folds in (False, True):
        session = make_session(nodes, do_constant_folding=folds)
        for x in (0.5, 2.0):
            feeds = {"x": np.full((2, 2), x, np.float32)} | ({"w": operand} if is_fed else {})
            found.append(np.array(fetch(session, "p0", "p1", "p2", "q0", "q1", "q2", **feeds)))
    np.testing.assert_allclose(found[:2], found[2:], rtol=1e-5, atol=1e-5)


def test_a_tensor_goes_to_another_device_once(counted: Counted) -> None:
    sums = counted("AddV2")
    nodes = [
        X,
        op("Exp", "e", [1.0], device="/cpu:0"),
        op("AddV2", "far", "e", [1.0], device="/cpu:1"),
        op("Mul", "y", "far", "x", device="/cpu:0"),
    ]
    session, plain = (make_session(nodes, cpu=2, do_constant_folding=folds) for folds in (True, False))
    found = [[fetch(one, "y", x=np.float32(x)).tobytes() for x in (1, 2)] for one in (session, plain)]
    assert found[0] == found[1]
    assert len(sums) == 1 + 2
    step = GraphStep((Fetch("y"),), (Feed("x", 1.0),))
    assert session.prepare(step).partitions.transfers == plain.prepare(step).partitions.transfers


def test_a_measured_step_computes_every_node() -> None:
    session = make_session(SCALED, do_constant_folding=True)
    step = GraphStep((Fetch("y"),), (Feed("x", 1.0),))
    fetched = session.resolve_fetches(step)
    session.run(step)
    measurements = Measurements()
    session.run_resolved(fetched, session._resolve_feeds(step, fetched), measurements)
    run = [measurements.nodes[number] for number in measurements.runs[::4]]
    assert {"a", "r", "t", "y"} <= {node.node.name for node in run if isinstance(node, MeasuredNode)}


@st.composite
def graphs(draw: st.DrawFn) -> list[Node]:
    """Elementwise ops of constants and of what is fed, on several devices, some after others."""
    nodes = [X, const("n0", [1.5, -2.0]), const("n1", [[0.5], [3.0]])]
    for i in range(2, draw(st.integers(3, 14))):
        kind = draw(st.sampled_from(("Add", "Sub", "Mul", "Maximum", "SquaredDifference", "Neg", "Tanh", "Identity", "MatMul")))
        inputs = [draw(st.sampled_from(["x", *(f"n{j}" for j in range(i))])) for _ in range(1 if kind in _UNARY else 2)]
        node = op(kind, f"n{i}", *inputs, device=draw(st.sampled_from(["/cpu:0", "/cpu:1", "/gpu:0"])))
        if draw(st.booleans()):
            node["control_inputs"] = [draw(st.sampled_from(["x", *(f"n{j}" for j in range(i))]))]
        nodes.append(node)
    return nodes


_UNARY = ("Neg", "Tanh", "Identity")


@pytest.mark.slow
@given(graphs(), st.sampled_from(WAYS))
def test_random_graphs_give_the_same_to_the_bit(nodes: list[Node], config: dict[str, Any]) -> None:
    names = [node["name"] for node in nodes[-3:]]
    found = []
    for folds in (False, True):
        session = make_session(nodes, cpu=2, gpu=1, do_constant_folding=folds, **config)
        values: list[Any] = []
        for x in (1.0, -0.25):
            try:
                values += [value.tobytes() for value in fetch(session, *names, x=np.full((2, 2), x, np.float32))]
            except OpError as error:
                values.append((str(error), error.node))
        found.append(values)
    assert found[0] == found[1]


def differing(case: Case, folder: Path) -> bool:
    """Whether anything of a case tells that constants were folded."""
    folding_case = case._replace(config=replace(case.config, do_constant_folding=True))
    return outcome(case, GraphSession, folder) != outcome(folding_case, GraphSession, folder)


@pytest.mark.slow
def test_examples_and_recorded_models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(secrets, "randbits", secrets.randbits)
    fixed_seeds()
    cases = [*(graph_case(path) for path in GRAPHS if path.stem not in SLOW), *recorded_cases()]
    cases = [case for case in cases if case.name in RECORDED or case.name.startswith("graphs/")]
    assert len(cases) > len(RECORDED)
    assert [case.name for case in cases if differing(case, tmp_path)] == []


# --- where it is asked for --------------------------------------------------------------------------------------------


def test_the_option_and_the_config(counted: Counted, tmp_path: Path) -> None:
    runs = counted("Rsqrt")
    graph: dict[str, Any] = {"nodes": SCALED, "run": [{"fetch": ["y"], "feed": {"x": 1.0}, "repeat": 3}]}
    asked = graph | {"config": {"graph_options": {"optimizer_options": {"do_constant_folding": True}}}}
    reports = []
    for asking, optimize, expected in ((graph, None, 3), (graph, True, 1), (asked, None, 1), (asked, False, 3)):
        reports.append(placesim.run(asking, optimize=optimize, log_placement=True, cpu=2).text())
        assert len(runs) == expected
        runs.clear()
    assert len(set(reports)) == 1


def test_memory_is_that_of_all_nodes() -> None:
    graph: dict[str, Any] = {"nodes": SCALED, "run": [{"fetch": ["y"], "feed": {"x": 1.0}, "repeat": 3}]}
    plain, folded = (placesim.run(graph, optimize=optimize, gpu=1, memory_limit="64MiB") for optimize in (False, True))
    assert plain.document() == folded.document()


def test_without_it_constants_and_their_identities_need_no_step() -> None:
    nodes = [X, const("a", [1.0, 2.0]), op("Identity", "read", "a"), op("Neg", "n", "read"), op("Mul", "y", "x", "n")]
    nodes.append(op("Identity", "passed", "n"))
    session = make_session(nodes)
    for x in range(2):
        np.testing.assert_array_equal(fetch(session, "y", "passed", x=np.float32(x)), [[-x, -2 * x], [-1, -2]])
    (prepared,) = session._prepared.values()
    assert isinstance(prepared.executor, Executor)
    program = prepared.executor.programs[0]
    ran = [program.instructions[index].node.name for _, index in prepared.executor._unfolded]
    assert {"a", "read"}.isdisjoint(ran)
    assert {"n", "y", "passed"}.issubset(ran)


def test_small_tensors_from_constants_come_first_and_live_while_they_are_read() -> None:
    nodes = [
        X,
        op("MatMul", "product", "x", "x"),
        const("scale", [0.25, 4.0]),
        op("Rsqrt", "r", "scale"),
        op("Mul", "s", "r", "scale"),
        op("Sub", "difference", "s", "r"),
        op("Mul", "scaled", "product", "s"),
        op("AddV2", "moved", "scaled", "r"),
        op("AddV2", "y", "moved", "difference"),
    ]
    session = make_session(nodes)
    for x in (np.eye(2, dtype=np.float32), np.ones((2, 2), np.float32)):
        np.testing.assert_array_equal(fetch(session, "y", x=x), x @ x * [0.5, 2] + [0.5, 2])
    (prepared,) = session._prepared.values()
    assert isinstance(prepared.executor, Executor)
    executor = prepared.executor
    ran = [executor.programs[0].instructions[index].node.name for _, index in executor._unfolded]
    assert ran[:3] == ["r", "s", "difference"]
    assert ran.index("product") > 3
    heads = find_heads(executor.programs, executor._unfolded)
    (followers,) = find_groups(executor.programs, executor._unfolded, heads).values()
    assert [follower.instruction.node.name for follower in followers] == ["scaled", "moved", "y"]


@pytest.mark.parametrize(
    "late",
    [
        op("Mul", "n", "c", "k"),  # too large
        {**op("Neg", "n", "k"), "inputs": ["k", "^x"]},
        op("FloorDiv", "n", "i", "i"),  # of integers, which may fail
        op("Neg", "n", "x"),
        op("Sum", "n", "k", 0),
        op("ReluGrad", "n", "k", "k1"),  # of different shapes, which fails
    ],
)
def test_other_nodes_keep_their_place(late: Node) -> None:
    size = constant_folding.SMALL_SIZE + 1
    nodes = [X, const("c", [1.0] * size), const("k", [0.5]), const("i", [2], "int32"), op("MatMul", "first", "x", "x"), late]
    nodes.insert(1, const("k1", [[0.5]]))
    session = make_session(nodes)
    with suppress(OpError):
        fetch(session, "first", "n", x=np.ones((1, 1), np.float32))
    (prepared,) = session._prepared.values()
    assert isinstance(prepared.executor, Executor)
    executor = prepared.executor
    order = [pair for pair in executor.schedule.order if pair in executor._unfolded]
    assert executor._unfolded == order
