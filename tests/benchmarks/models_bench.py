"""Whole models: time of a step, peak memory, and the share of the time that is spent outside kernels.

`python -m tests.benchmarks.models_bench`.  AlexNet and ResNet50 are the graphs that TensorFlow's Python API built (the
tests' own copy of the corpus); the LSTM and the transformer block are written here.
"""

from __future__ import annotations

import gzip
import json
import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.session_steps import Feed, Fetch, GraphStep
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.runtime.executors.ordered_executor import Executor
from placesim.runtime.executors.program import Instruction
from placesim.runtime.sessions.session import GraphSession

DATA = Path(__file__).parent.parent / "data" / "placement-models.jsonl.gz"
Mapping = dict[str, Any]


class Model(NamedTuple):
    """A graph, the nodes that initialise its variables, what a step fetches, and what it is fed."""

    name: str
    graph: Mapping
    initializers: Sequence[str]
    fetches: Sequence[str]
    feeds: Mapping


def recorded(name: str) -> Mapping:
    """A graph of the corpus."""
    with gzip.open(DATA, "rt") as lines:
        return next(case["graph"] for case in map(json.loads, lines) if case["id"] == name)


def alexnet(name: str, fetches: Sequence[str]) -> Model:
    rng = np.random.default_rng(0)
    feeds = {"x": rng.random((16, 227, 227, 3), np.float32), "y": np.zeros(16, np.int32)}
    return Model(name, recorded("alexnet-ref-cpu"), ["init"], fetches, feeds)


def resnet50() -> Model:
    graph = recorded("keras-resnet50-gpu1")
    placeholder = next(node for node in graph["nodes"] if node["op"] == "Placeholder")
    placeholder["attrs"]["shape"] = [1, 224, 224, 3]
    last = next(node["name"] for node in graph["nodes"] if node["op"] == "Softmax")
    feeds = {"x": np.random.default_rng(0).random((1, 224, 224, 3), np.float32)}
    return Model("ResNet50 forward, batch 1", graph, [], [f"{last}:0"], feeds)


def lstm(steps: int = 100, batch: int = 32, units: int = 512) -> Model:
    """An unrolled LSTM: one product of `[batch, 2 * units]` with `[2 * units, 4 * units]` a step, and its gates."""
    nodes: list[Mapping] = [
        {"op": "Placeholder", "name": "x", "dtype": "float32"},
        {"op": "Placeholder", "name": "kernel", "dtype": "float32"},
        {"op": "Const", "name": "h0", "value": 0.0, "shape": [batch, units]},
        {"op": "Const", "name": "c0", "value": 0.0, "shape": [batch, units]},
    ]
    for t in range(steps):
        gates = [{"op": "Sigmoid", "name": f"s{gate}_{t}", "inputs": [f"g{t}:{i}"]} for i, gate in enumerate("ifo")]
        nodes += [
            {"op": "ConcatV2", "name": f"xh{t}", "inputs": ["x", f"h{t}", 1]},
            {"op": "MatMul", "name": f"z{t}", "inputs": [f"xh{t}", "kernel"]},
            {"op": "Split", "name": f"g{t}", "inputs": [1, f"z{t}"], "attrs": {"num_split": 4}},
            *gates,
            {"op": "Tanh", "name": f"j{t}", "inputs": [f"g{t}:3"]},
            {"op": "Mul", "name": f"keep{t}", "inputs": [f"c{t}", f"sf_{t}"]},
            {"op": "Mul", "name": f"new{t}", "inputs": [f"si_{t}", f"j{t}"]},
            {"op": "AddV2", "name": f"c{t + 1}", "inputs": [f"keep{t}", f"new{t}"]},
            {"op": "Tanh", "name": f"t{t}", "inputs": [f"c{t + 1}"]},
            {"op": "Mul", "name": f"h{t + 1}", "inputs": [f"t{t}", f"so_{t}"]},
        ]
    rng = np.random.default_rng(0)
    feeds = {
        "x": rng.standard_normal((batch, units)).astype(np.float32),
        "kernel": (rng.standard_normal((2 * units, 4 * units)) / 32).astype(np.float32),
    }
    return Model(f"LSTM, {steps} steps, batch {batch}", {"nodes": nodes}, [], [f"h{steps}:0"], feeds)


def transformer(batch: int = 8, length: int = 128, width: int = 512, heads: int = 8) -> Model:
    """A transformer block: attention and a feed-forward layer, each with its residual sum."""
    depth = width // heads
    nodes: list[Mapping] = [{"op": "Placeholder", "name": "x", "dtype": "float32"}]
    feeds: Mapping = {"x": np.random.default_rng(0).standard_normal((batch, length, width)).astype(np.float32)}
    for name, shape in {"q": (width, width), "k": (width, width), "v": (width, width), "o": (width, width)}.items():
        feeds[f"w{name}"] = np.full(shape, 0.01, np.float32)
    feeds |= {"w1": np.full((width, 4 * width), 0.01, np.float32), "w2": np.full((4 * width, width), 0.01, np.float32)}
    nodes += [{"op": "Placeholder", "name": name, "dtype": "float32"} for name in feeds if name != "x"]
    nodes.append({"op": "Reshape", "name": "rows", "inputs": ["x", [batch * length, width]]})
    for name in "qkv":
        nodes += [
            {"op": "MatMul", "name": f"{name}_rows", "inputs": ["rows", f"w{name}"]},
            {"op": "Reshape", "name": f"{name}_split", "inputs": [f"{name}_rows", [batch, length, heads, depth]]},
            {"op": "Transpose", "name": name, "inputs": [f"{name}_split", [0, 2, 1, 3]]},
        ]
    nodes += [
        {"op": "BatchMatMulV2", "name": "scores", "inputs": ["q", "k"], "attrs": {"adj_y": True}},
        {"op": "Mul", "name": "scaled", "inputs": ["scores", depth**-0.5]},
        {"op": "Softmax", "name": "weights", "inputs": ["scaled"]},
        {"op": "BatchMatMulV2", "name": "mixed", "inputs": ["weights", "v"]},
        {"op": "Transpose", "name": "joined", "inputs": ["mixed", [0, 2, 1, 3]]},
        {"op": "Reshape", "name": "joined_rows", "inputs": ["joined", [batch * length, width]]},
        {"op": "MatMul", "name": "attention", "inputs": ["joined_rows", "wo"]},
        {"op": "AddV2", "name": "first", "inputs": ["rows", "attention"]},
        {"op": "MatMul", "name": "wide", "inputs": ["first", "w1"]},
        {"op": "Relu", "name": "bent", "inputs": ["wide"]},
        {"op": "MatMul", "name": "narrow", "inputs": ["bent", "w2"]},
        {"op": "AddV2", "name": "second", "inputs": ["first", "narrow"]},
    ]
    return Model(f"transformer block, batch {batch} x {length}", {"nodes": nodes}, [], ["second:0"], feeds)


def scalar_adds(count: int = 100_000, *, is_fed: bool = False) -> Model:
    """A chain of additions of scalars: what a node costs beside its kernel.

    The chain begins with a constant; if `is_fed`, with a placeholder of unknown shape.
    """
    first = {"op": "Placeholder", "name": "n0", "dtype": "float32"} if is_fed else {"op": "Const", "name": "n0", "value": 0.0}
    nodes: list[Mapping] = [{"op": "Const", "name": "one", "value": 1.0}, first]
    nodes += [{"op": "AddV2", "name": f"n{i}", "inputs": [f"n{i - 1}", "one"]} for i in range(1, count + 1)]
    feeds = {"n0": np.float32(0)} if is_fed else {}
    return Model(f"{count:,} scalar adds{', fed' if is_fed else ''}", {"nodes": nodes}, [], [f"n{count}:0"], feeds)


def open_model(model: Model) -> tuple[GraphSession, GraphStep]:
    """A session with its variables initialised, and the step to measure."""
    file = graph_file_from_mapping(model.graph, model.name)
    devices = build_devices(file.inventory or [TaskInventory()])
    session = GraphSession(file.graph, devices, file.config, bare_fetch_is_target=True)
    if model.initializers:
        session.run(GraphStep(tuple(map(Fetch, model.initializers))))
    return session, GraphStep(tuple(map(Fetch, model.fetches)), tuple(Feed(*pair) for pair in model.feeds.items()))


class _Clock:
    """Counts the time inside kernels: wraps every kernel of an executor."""

    def __init__(self, session: GraphSession) -> None:
        self.seconds = 0.0
        prepared = list(session._prepared.values())[-1]
        executor = prepared.executor
        assert isinstance(executor, Executor)
        programs = executor.schedule.programs
        for program in programs:
            for instruction in program.instructions:
                self._wrap(instruction)
        prepared.executor = Executor(programs)

    def _wrap(self, instruction: Instruction) -> None:
        compute, direct = instruction.kernel.compute, instruction.kernel.direct
        instruction.kernel = instruction.kernel._replace(
            compute=self._timed(compute), direct=None if direct is None else self._timed(direct)
        )

    def _timed(self, function: Any) -> Any:
        clock = time.perf_counter

        def timed(*args: Any) -> Any:
            start = clock()
            result = function(*args)
            self.seconds += clock() - start
            return result

        return timed


def measure(model: Model) -> None:
    """Print a model's row."""
    session, step = open_model(model)
    session.run(step)
    seconds = min(_timed_run(session, step) for _ in range(3))
    tracemalloc.start()
    session.run(step)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    clock = _Clock(session)
    total = _timed_run(session, step)
    outside = 1 - clock.seconds / total
    print(
        f"{model.name:34} {len(session.graph):5} nodes {seconds * 1e3:9.1f} ms"
        f"   peak {peak / 2**20:7.1f} MiB   outside kernels {outside:5.1%}"
    )


def _timed_run(session: GraphSession, step: GraphStep) -> float:
    start = time.perf_counter()
    session.run(step)
    return time.perf_counter() - start


def main() -> None:
    for model in (
        alexnet("AlexNet forward, batch 16", ["fc8/xw_plus_b:0"]),
        alexnet("AlexNet training step, batch 16", ["Momentum"]),
        resnet50(),
        lstm(),
        transformer(),
    ):
        measure(model)


if __name__ == "__main__":
    main()
