"""Thread pools as TensorFlow keeps them (section 11); results do not depend on them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from placesim.core.errors import InvalidArgumentError
from placesim.graph.session_steps import Config, ThreadPoolOptions
from placesim.runtime.executors import dataflow
from placesim.runtime.executors.dataflow_executor import DataflowExecutor
from placesim.runtime.executors.frames import Visit
from placesim.runtime.executors.thread_pools import ThreadPools, default_inter_op, runs_ops_in_parallel
from tests.runtime.sessions.graphs import fetch, make_session


def test_the_first_session_makes_the_shared_pool() -> None:
    pools = ThreadPools()
    first = pools.inter_op(Config(inter_op_parallelism_threads=3))
    assert first is not None
    assert first._max_workers == 3
    assert pools.inter_op(Config(inter_op_parallelism_threads=7)) is first


def test_a_session_of_its_own_pool() -> None:
    pools = ThreadPools()
    config = Config(inter_op_parallelism_threads=2, use_per_session_threads=True)
    assert pools.inter_op(config) is not pools.inter_op(config)


def test_no_pool_runs_in_the_caller() -> None:
    assert ThreadPools().inter_op(Config(inter_op_parallelism_threads=-1)) is None


def test_named_pools_are_shared_and_keep_their_size() -> None:
    pools = ThreadPools()
    config = Config(
        session_inter_op_thread_pool=(ThreadPoolOptions(2, "a"), ThreadPoolOptions(2, "a"), ThreadPoolOptions(3, "a"))
    )
    shared = pools.inter_op(config, 0)
    assert shared is not None
    assert shared._max_workers == 2
    assert pools.inter_op(config, 1) is shared
    message = "Pool a configured previously with num_threads=2; cannot re-configure with num_threads=3"
    with pytest.raises(InvalidArgumentError, match=message):
        pools.inter_op(config, 2)
    with pytest.raises(InvalidArgumentError, match="Invalid inter_op_thread_pool: 5"):
        pools.inter_op(config, 5)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_results_do_not_depend_on_the_number_of_threads(threads: int) -> None:
    rng = np.random.default_rng(0)
    nodes = [
        {"op": "Placeholder", "name": "x", "dtype": "float32"},
        *({"op": "MatMul", "name": f"m{i}", "inputs": ["x", "x"]} for i in range(6)),
        {"op": "AddN", "name": "sum", "inputs": [f"m{i}" for i in range(6)]},
    ]
    session = make_session(nodes, inter_op_parallelism_threads=threads, use_per_session_threads=True)
    x = rng.standard_normal((160, 160)).astype(np.float32)
    found = fetch(session, "sum", x=x)
    np.testing.assert_array_equal(found, fetch(make_session(nodes, inter_op_parallelism_threads=-1), "sum", x=x))
    executor = next(iter(session._prepared.values())).executor
    assert isinstance(executor, DataflowExecutor) == (threads > 1)


def test_which_pool_is_asked_for() -> None:
    pools = ThreadPools()
    plain, listed = Config(inter_op_parallelism_threads=1), Config(session_inter_op_thread_pool=(ThreadPoolOptions(2, ""),) * 2)
    assert pools.inter_op(plain, -1) is pools.inter_op(plain, 0)
    for config, index in ((plain, 1), (plain, -2), (listed, 2), (listed, -1)):
        with pytest.raises(InvalidArgumentError, match=f"^Invalid inter_op_thread_pool: {index}$"):
            pools.inter_op(config, index)
    unnamed = pools.inter_op(listed, 1)
    assert unnamed is not None
    assert unnamed._max_workers == 2
    assert pools.inter_op(listed, 1) is not unnamed


@pytest.mark.parametrize(
    ("config", "environment", "is_parallel"),
    [
        (Config(), None, False),
        (Config(inter_op_parallelism_threads=1), "3", False),
        (Config(inter_op_parallelism_threads=2), None, True),
        (Config(), "2", True),
        (Config(), "1", False),
        (Config(), "two", False),
        (Config(use_per_session_threads=True), None, True),
        (Config(use_per_session_threads=True, inter_op_parallelism_threads=1), None, False),
        (Config(session_inter_op_thread_pool=(ThreadPoolOptions(1, ""),)), None, True),
    ],
)
def test_whether_ops_run_at_the_same_time(
    config: Config, environment: str | None, is_parallel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if environment is None:
        monkeypatch.delenv("TF_NUM_INTEROP_THREADS", raising=False)
    else:
        monkeypatch.setenv("TF_NUM_INTEROP_THREADS", environment)
    assert runs_ops_in_parallel(config) is is_parallel


def test_the_numbers_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placesim.runtime.executors.thread_pools.available_processors", lambda: 5)
    for name in ("TF_NUM_INTEROP_THREADS", "TF_NUM_INTRAOP_THREADS"):
        monkeypatch.delenv(name, raising=False)
    assert [default_inter_op(Config()), default_inter_op(Config(inter_op_parallelism_threads=3))] == [5, 3]
    monkeypatch.setenv("TF_NUM_INTEROP_THREADS", "4")
    assert [default_inter_op(Config()), default_inter_op(Config(inter_op_parallelism_threads=3))] == [4, 3]


def test_the_first_session_sizes_the_threads_inside_an_op(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placesim.runtime.executors.thread_pools.available_processors", lambda: 5)
    sizes: list[int] = []
    monkeypatch.setattr("placesim.runtime.executors.thread_pools.IntraOpPool", sizes.append)
    for environment, wanted in (("0", 0), ("3", 0), ("3", 2), ("-1", 0)):
        monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", environment)
        ThreadPools().intra_op(Config(intra_op_parallelism_threads=wanted))
    assert sizes == [5, 3, 2, 5]


@pytest.mark.parametrize(("products", "passed"), [(1, 0), (2, 2)])
def test_a_node_alone_runs_in_the_calling_thread(products: int, passed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []
    compute = dataflow.DataflowRun._compute_in_pool

    def compute_in_pool(self: dataflow.DataflowRun, visit: Visit, values: Sequence[object]) -> None:
        names.append(visit.node.name)
        compute(self, visit, values)

    monkeypatch.setattr(dataflow.DataflowRun, "_compute_in_pool", compute_in_pool)
    nodes = [
        {"op": "Placeholder", "name": "x", "dtype": "float32"},
        {"op": "MatMul", "name": "first", "inputs": ["x", "x"]},
        *({"op": "MatMul", "name": f"m{i}", "inputs": ["first", "first"]} for i in range(products)),
        {"op": "AddN", "name": "sum", "inputs": [f"m{i}" for i in range(products)]},
    ]
    session = make_session(nodes, inter_op_parallelism_threads=2, use_per_session_threads=True)
    fetch(session, "sum", x=np.ones((128, 128), np.float32))
    assert len(names) == passed
    assert "first" not in names
