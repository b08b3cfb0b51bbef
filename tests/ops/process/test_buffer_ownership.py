"""Updates in place: a variable's memory takes its new value where nobody could tell, and only there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from placesim.core.dtypes import FLOAT
from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.session_steps import Config, Feed, Fetch, GraphStep
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.ops.kernels.device_resources import VariableResource
from placesim.ops.kernels.state.optimizers import PART_BYTES
from placesim.ops.process.buffer_ownership import may_overwrite, ops_side_by_side, own_all
from placesim.ops.process.memory_limit import ProcessMemory
from placesim.runtime.executors.thread_pools import ThreadPools
from placesim.runtime.sessions.session import GraphSession
from tests.runtime.sessions.graphs import fetch, make_session

LARGE = PART_BYTES // 4 * 3 + 5
"""Elements of a variable that is updated in several parts, the last of them shorter."""
NODES: list[Any] = [
    {"op": "Placeholder", "name": "start", "dtype": "float32"},
    {"op": "Placeholder", "name": "grad", "dtype": "float32"},
    {"op": "VariableV2", "name": "var", "dtype": "float32", "attrs": {"shape": [LARGE]}},
    {"op": "VariableV2", "name": "accum", "dtype": "float32", "attrs": {"shape": [LARGE]}},
    {"op": "Assign", "name": "init", "inputs": ["var", "start"]},
    {"op": "Assign", "name": "init_accum", "inputs": ["accum", "start"]},
    {"op": "Identity", "name": "read", "inputs": ["var"]},
    {"op": "ApplyMomentum", "name": "train", "inputs": ["var", "accum", 0.5, "grad", 0.25]},
    {"op": "AssignAdd", "name": "add", "inputs": ["var", "grad"]},
    {"op": "ScatterAdd", "name": "scatter", "inputs": ["var", [1, 1], [1.0, 2.0]]},
    {"op": "ScatterNdAdd", "name": "scatter_nd", "inputs": ["var", [[1], [1]], [1.0, 2.0]]},
    {"op": "SparseApplyMomentum", "name": "train_rows", "inputs": ["var", "accum", 0.5, [1.0, 2.0], [1, 3], 0.25]},
    {"op": "VarHandleOp", "name": "handle", "attrs": {"dtype": "float32", "shape": [LARGE]}},
    {"op": "AssignVariableOp", "name": "assign", "inputs": ["handle", "start"], "attrs": {"dtype": "float32"}},
    {"op": "AssignSubVariableOp", "name": "subtract", "inputs": ["handle", "grad"], "attrs": {"dtype": "float32"}},
    {"op": "ReadVariableOp", "name": "value", "inputs": ["handle"], "attrs": {"dtype": "float32"}},
]


class Run:
    """A session on `NODES`, its variables filled with the same random numbers."""

    def __init__(self, config: Config | None = None) -> None:
        random = np.random.default_rng(0)
        self.start, self.grad = (random.standard_normal(LARGE).astype(np.float32) for _ in range(2))
        graph = graph_file_from_mapping({"nodes": NODES}).graph
        self.session = GraphSession(graph, build_devices([TaskInventory()]), config, pools=ThreadPools())
        self.step("init", "init_accum", "assign")

    def step(self, *names: str) -> list[Any]:
        feeds = (Feed("start", self.start), Feed("grad", self.grad))
        return [value.value for value in self.session.run(GraphStep(tuple(map(Fetch, names)), feeds)).values]

    def variable(self, name: str) -> VariableResource:
        (state,) = self.session._states.values()
        return state.resources.variables()[name]


def momentum_steps(start: Any, grad: Any, count: int) -> Any:
    """The variable after so many steps, as TensorFlow computes each element."""
    var, accum = start, start
    for _ in range(count):
        accum = accum * np.float32(0.25) + grad
        var = var - accum * np.float32(0.5)
    return var


def address(variable: VariableResource) -> int:
    assert isinstance(variable.value, np.ndarray)
    return int(variable.value.__array_interface__["data"][0])


UPDATES = ("train", "add", "scatter", "scatter_nd", "train_rows")


@pytest.mark.parametrize("update", UPDATES)
def test_what_only_a_variable_holds_is_updated_in_place(update: str) -> None:
    run = Run()
    run.step(f"^{update}")
    before = address(run.variable("var"))
    run.step(f"^{update}")
    assert address(run.variable("var")) == before


def test_an_update_in_place_gives_what_one_of_fresh_memory_gives() -> None:
    run = Run()
    before = address(run.variable("var"))
    for _ in range(3):
        run.step("^train")
    assert address(run.variable("var")) == before
    np.testing.assert_array_equal(run.step("read")[0], momentum_steps(run.start, run.grad, 3))


@pytest.mark.parametrize("update", UPDATES)
def test_what_was_fetched_stays_as_it_was(update: str) -> None:
    run = Run()
    (held,) = run.step("read")
    copy = held.copy()
    run.step(f"^{update}")
    np.testing.assert_array_equal(held, copy)
    assert not np.array_equal(run.step("read")[0], copy)


def test_a_part_of_what_was_fetched_stays_too() -> None:
    run = Run()
    part = run.step("read")[0][3:5]
    copy = part.copy()
    run.step("^train")
    np.testing.assert_array_equal(part, copy)


def test_a_resource_variable_does_not_change_what_it_was_assigned() -> None:
    run = Run()
    copy = run.start.copy()
    run.step("subtract")
    np.testing.assert_array_equal(run.start, copy)
    before = address(run.variable("handle"))
    run.step("subtract")  # the first one gave it memory of its own
    assert address(run.variable("handle")) == before
    np.testing.assert_array_equal(run.step("value")[0], copy - run.grad - run.grad)


def test_ops_that_run_side_by_side_overwrite_nothing() -> None:
    run = Run(Config(inter_op_parallelism_threads=2))
    before = address(run.variable("var"))
    run.step("^train", "subtract")
    assert address(run.variable("var")) != before
    np.testing.assert_array_equal(run.step("read")[0], momentum_steps(run.start, run.grad, 1))


def holders(value: Any) -> Sequence[Any]:
    return (value, value[1:], memoryview(value))


@pytest.mark.parametrize("which", range(3))
def test_any_further_holder_forbids_it(which: int) -> None:
    variable = VariableResource("v", FLOAT, np.zeros(8, np.float32))
    assert may_overwrite(variable)
    holder = holders(variable.value)[which]
    assert not may_overwrite(variable)
    del holder
    assert may_overwrite(variable)


def test_memory_of_others_is_not_written() -> None:
    frozen = np.zeros(8, np.float32)
    frozen.flags.writeable = False
    for value in (frozen, np.zeros((4, 4), np.float32)[:, :2], np.frombuffer(bytes(32), np.float32), np.float32(1), None):
        variable = VariableResource("v", FLOAT, value)  # type: ignore[arg-type]
        del value
        assert not may_overwrite(variable)
    with ops_side_by_side():
        assert not may_overwrite(VariableResource("v", FLOAT, np.zeros(8, np.float32)))


@pytest.mark.parametrize("threads", [0, 2])
def test_what_is_fetched_is_the_callers_own(threads: int) -> None:
    nodes: list[Any] = [
        {"op": "Placeholder", "name": "x", "dtype": "float32"},
        {"op": "Const", "name": "c", "value": [1.0, 2.0]},
        {"op": "Identity", "name": "same", "inputs": ["c"]},
        {"op": "Reshape", "name": "column", "inputs": ["c", [2, 1]]},
        {"op": "VariableV2", "name": "v", "dtype": "float32", "attrs": {"shape": [2]}},
        {"op": "Assign", "name": "init", "inputs": ["v", "x"]},
    ]
    session, fed = make_session(nodes, inter_op_parallelism_threads=threads), np.array([1, 2], np.float32)
    fetch(session, "init", x=fed)
    for _ in range(2):
        for value in fetch(session, "c", "same", "column", "v", "x", x=fed):
            assert value.ravel().tolist() == [1, 2]
            value += 1
    assert fed.tolist() == [1, 2]


def test_what_only_the_results_hold_is_not_copied() -> None:
    kept = np.zeros(4)
    results = {0: np.zeros(3), 1: np.zeros(6).reshape(2, 3), 2: kept, 3: kept[1:]}
    before = {index: value.ctypes.data for index, value in results.items()}
    own_all(results, ProcessMemory())
    assert [results[index].ctypes.data == before[index] for index in results] == [True, True, False, False]


def test_what_there_is_no_room_to_copy_may_only_be_read() -> None:
    kept = np.zeros(1 << 22)
    results = {0: kept}
    own_all(results, ProcessMemory(limit=1 << 20))
    assert np.shares_memory(results[0], kept)
    assert (results[0].flags.writeable, kept.flags.writeable) == (False, True)
