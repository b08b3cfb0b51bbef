"""What the executor adds to the kernels, and what whole models cost.

`python -m tests.benchmarks.executor_bench` prints ratios; both sides of each are measured in this run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.session_steps import Config, Fetch, GraphStep
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.runtime.sessions.session import GraphSession
from tests.benchmarks.models_bench import open_model, scalar_adds

NODES = 100_000


def best_of(times: int, run: Callable[[], object]) -> float:
    """The shortest of several runs, in seconds."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return min(found)


def bare_adds() -> None:
    """The loop that any graph of adds has to be measured against."""
    add, value, one = np.add, np.array(0.0, np.float32), np.array(1.0, np.float32)
    for _ in range(NODES):
        value = add(value, one)


def measure_overhead() -> None:
    """A chain of scalar adds, its second and later steps, against a bare loop over `np.add`."""
    session, step = open_model(scalar_adds(NODES))
    session.run(step)
    ours, bare = best_of(7, lambda: session.run(step)), best_of(7, bare_adds)
    print(
        f"overhead, {NODES:,} scalar adds: {ours * 1e3:.1f} ms, bare np.add loop {bare * 1e3:.1f} ms, ratio {ours / bare:.2f}"
    )


def measure_threads(size: int = 2048) -> None:
    """Two independent products with two inter-op threads and one intra-op thread, against one and one."""
    nodes: list[Any] = [
        {"op": "Placeholder", "name": "x", "dtype": "float32"},
        *({"op": "MatMul", "name": name, "inputs": ["x", "x"]} for name in ("a", "b")),
    ]
    from placesim.graph.session_steps import Feed
    from placesim.runtime.executors.thread_pools import ThreadPools

    x = np.random.default_rng(0).standard_normal((size, size)).astype(np.float32)
    seconds = {}
    for threads in (1, 2):
        config = Config(inter_op_parallelism_threads=threads, intra_op_parallelism_threads=1)
        graph = graph_file_from_mapping({"nodes": nodes}).graph
        session = GraphSession(graph, build_devices([TaskInventory()]), config, pools=ThreadPools())
        step = GraphStep((Fetch("a"), Fetch("b")), (Feed("x", x),))
        session.run(step)
        seconds[threads] = best_of(5, lambda session=session, step=step: session.run(step))  # type: ignore[misc]
    ratio = seconds[2] / seconds[1]
    print(
        f"threads, two MatMul of {size}: 1 and 1 {seconds[1] * 1e3:.0f} ms, "
        f"2 and 1 {seconds[2] * 1e3:.0f} ms, ratio {ratio:.2f}"
    )


def main() -> None:
    measure_overhead()
    measure_threads()


if __name__ == "__main__":
    main()
