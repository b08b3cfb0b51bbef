"""Steps of models beside TensorFlow's own, in turns: `make bench-tensorflow`.

TensorFlow runs in a Python of its own: $TENSORFLOW_PYTHON, or the one that `--python` names.  Its graph optimizer is off, so
that both sides run the same ops, but with `--optimize`, which turns on both sides' own; its oneDNN is on, as people get it,
unless `--without-onednn` says otherwise.  Each side has two threads, and OpenBLAS chooses its kernels itself; with
`--threads 1` each has one, and its processor time counts, which is fair on a loaded machine.  The two first
steps have to agree.  Sides take turns, and of all steps of a side the best quarter's mean counts: what else the machine does
comes and goes.  From a file to the log of where a million nodes are placed, each side runs once.  `!` marks a ratio over the
wanted one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from placesim.formats.graph_file.reader import graph_file_from_mapping, read_graph_file
from placesim.formats.tensorflow.graph_def import write_graph_def
from placesim.graph.session_steps import Config, Feed, Fetch, GraphFile, GraphStep
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.ops.attributes import TensorValue
from placesim.runtime.sessions.session import GraphSession
from tests.benchmarks.models_bench import Model, alexnet, lstm, recorded, scalar_adds, transformer
from tests.benchmarks.reading_bench import graph_text
from tests.benchmarks.tensorflow_side import step_clock

TURNS = 6
TURN_SECONDS = 1.0
"""How long a side runs in a turn, about."""
SPINNING_SECONDS = 0.3
"""How long threads of either side may still look for work once their step has ended."""
CLOSE = 1e-3
"""Of the largest element of what is fetched: how far the two sides may be apart after a first step."""


class Row(NamedTuple):
    """A row of the table: its model, and the ratio of placesim's time to TensorFlow's that is wanted."""

    build: Callable[[], Model]
    wanted: float


def image_model(name: str, title: str, size: int) -> Model:
    """A network of the corpus that is fed one square image."""
    graph = recorded(name)
    placeholder = next(node for node in graph["nodes"] if node["op"] == "Placeholder")
    placeholder["attrs"]["shape"] = [1, size, size, 3]
    last = next(node["name"] for node in graph["nodes"] if node["op"] == "Softmax")
    feeds = {"x": np.random.default_rng(0).random((1, size, size, 3), np.float32)}
    return Model(title, {**graph, "devices": None}, [], [f"{last}:0"], feeds)


ROWS = (
    Row(partial(alexnet, "AlexNet forward, batch 16", ["fc8/xw_plus_b:0"]), 1.2),
    Row(partial(alexnet, "AlexNet training, batch 16", ["Momentum"]), 1.3),
    Row(partial(image_model, "keras-resnet50-gpu1", "ResNet50, batch 1", 224), 1.4),
    Row(partial(image_model, "keras-mobilenet_v2-gpu1", "MobileNetV2, batch 1", 224), 1.4),
    Row(lstm, 1.3),
    Row(transformer, 1.0),
    Row(scalar_adds, 1.5),
    Row(partial(scalar_adds, is_fed=True), 1.5),
)


LOG_NODES = 1_000_000
LOG_WANTED = {"pb": 0.07, "yaml": 0.10}
"""The ratio that is wanted of a graph from its file to the log, by the kind of file; TensorFlow reads a GraphDef in both."""


class OtherSide:
    """TensorFlow in a process of its own."""

    def __init__(self, python: str, has_onednn: bool) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment["TF_ENABLE_ONEDNN_OPTS"] = str(int(has_onednn))
        command = [python, str(Path(__file__).with_name("tensorflow_side.py"))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def ask(self, **request: Any) -> dict[str, Any]:
        """The answer to a line; SystemExit where the process has died."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            sys.exit("TensorFlow's process has ended: its error stands above")
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def graph_file(model: Model) -> GraphFile:
    """The model's graph; constants of many equal elements, as networks are recorded, get random ones: zeros prove nothing."""
    file = graph_file_from_mapping({key: value for key, value in model.graph.items() if value is not None}, model.name)
    random = np.random.default_rng(1)
    for node in file.graph.nodes:
        value = node.attrs.get("value")
        if node.op == "Const" and isinstance(value, TensorValue) and value.array.dtype == np.float32 and value.array.ndim:
            node.attrs = {**node.attrs, "value": TensorValue(value.dtype, _weights(random, value.array.shape))}
    return replace(file, inventory=None)


def _weights(random: np.random.Generator, shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """Of a size that neither dies out nor grows from layer to layer; of vectors (scales, means, variances) near 1."""
    if len(shape) == 1:
        return random.uniform(0.5, 1.5, shape).astype(np.float32)
    fan_in = int(np.prod(shape[:-1]))
    return (random.standard_normal(shape, np.float32) * np.float32(fan_in**-0.5)).astype(np.float32)


def timed(step: Callable[[], object], count: int, clock: Callable[[], float]) -> list[float]:
    """The seconds of so many steps."""
    found = []
    for _ in range(count):
        start = clock()
        step()
        found.append(clock() - start)
    return found


def typical(seconds: Sequence[float]) -> float:
    """The mean of the best quarter."""
    best = sorted(seconds)[: max(1, len(seconds) // 4)]
    return sum(best) / len(best)


def check_alike(name: str, ours: Sequence[Any], theirs: Mapping[str, Any]) -> None:
    """SystemExit unless both sides fetched the same, but for rounding."""
    for own, other in zip(ours, theirs.values(), strict=True):
        apart, largest = float(np.max(np.abs(own - other))), float(np.max(np.abs(other)))
        if not apart <= CLOSE * largest:
            sys.exit(f"{name}: the sides are {apart:.3g} apart, of {largest:.3g}")


def measure(model: Model, side: OtherSide, turns: int, threads: int, *, optimizes: bool) -> tuple[float, float]:
    """(TensorFlow's seconds, placesim's) for a step."""
    file = graph_file(model)
    session = GraphSession(
        file.graph,
        build_devices([TaskInventory()]),
        Config(intra_op_parallelism_threads=threads, allow_soft_placement=True, do_constant_folding=optimizes),
        bare_fetch_is_target=True,
    )
    if model.initializers:
        session.run(GraphStep(tuple(map(Fetch, model.initializers))))
    step = GraphStep(tuple(map(Fetch, model.fetches)), tuple(Feed(*pair) for pair in model.feeds.items()))
    with tempfile.TemporaryDirectory() as directory:
        graph, feeds, values = (str(Path(directory, name)) for name in ("graph.pb", "feeds.npz", "values.npz"))
        Path(graph).write_bytes(write_graph_def(file))
        np.savez(feeds, **model.feeds)
        side.ask(
            open=model.name,
            graph=graph,
            initializers=model.initializers,
            fetches=model.fetches,
            feeds=feeds,
            values=values,
            optimize=optimizes,
            threads=threads,
        )
        result = session.run(step)
        if not model.initializers:  # which draw at random
            check_alike(model.name, [value.value for value in result.values], np.load(values))
    ours: list[float] = []
    theirs: list[float] = []
    for turn in range(turns + 1):
        counts = [max(1, int(TURN_SECONDS / typical(seconds))) if seconds else 2 for seconds in (theirs, ours)]
        theirs += side.ask(run=model.name, steps=counts[0])["seconds"]
        time.sleep(SPINNING_SECONDS)
        ours += timed(lambda: session.run(step), counts[1], step_clock(threads))
        time.sleep(SPINNING_SECONDS)
        if not turn:  # either side's first steps are its slowest
            ours, theirs = ours[-1:], theirs[-1:]
    side.ask(close=model.name)
    return typical(theirs), typical(ours)


def measure_log(python: str, nodes: int) -> dict[str, tuple[float, float]]:
    """(TensorFlow's seconds, placesim's) from a file to the log of where its nodes are placed, by the kind of file.

    Each is a process of its own, from its start to its end, and runs once.
    """
    with tempfile.TemporaryDirectory() as directory:
        files = {kind: Path(directory, f"graph.{kind}") for kind in LOG_WANTED}
        text = graph_text(nodes)
        files["yaml"].write_text(text)
        files["pb"].write_bytes(write_graph_def(read_graph_file(text, "graph.yaml")))
        log = [python, str(Path(__file__).with_name("tensorflow_side.py")), "log", str(files["pb"])]
        theirs = _logged(log, Path(directory, "log"), nodes)
        place = [sys.executable, "-m", "placesim", "place", "--gpu", "1"]
        return {kind: (theirs, _logged([*place, str(file)], Path(directory, "log"), nodes)) for kind, file in files.items()}


def _logged(command: Sequence[str], log: Path, nodes: int) -> float:
    """The seconds that a command takes; SystemExit unless it logged so many nodes."""
    start = time.perf_counter()
    with log.open("wb") as file:
        subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=True)
    seconds = time.perf_counter() - start
    with log.open("rb") as lines:
        found = sum(b"/job:localhost/" in line and b"layer" in line for line in lines)
    if found < nodes:
        sys.exit(f"{' '.join(command)}: logged {found} of {nodes} nodes")
    return seconds


def print_row(name: str, theirs: float, ours: float, wanted: float) -> None:
    """A line of the table, of seconds and a ratio."""
    ratio, mark = ours / theirs, " !" if ours / theirs > wanted else ""
    print(f"{name:34}{theirs * 1e3:11.1f} ms{ours * 1e3:11.1f} ms{ratio:8.2f}{wanted:9.2f}{mark}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=os.environ.get("TENSORFLOW_PYTHON"), help="a Python that has tensorflow-cpu 2.21")
    parser.add_argument("--only", default="", help="the rows whose name has this text")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--threads", type=int, default=2, help="threads of each side")
    parser.add_argument("--without-onednn", action="store_true", help="TensorFlow computes with Eigen's kernels alone")
    parser.add_argument("--optimize", action="store_true", help="fold constants, and let TensorFlow optimize the graph")
    parser.add_argument("--log-nodes", type=int, default=LOG_NODES, help="the nodes of the graph that is logged")
    options = parser.parse_args()
    if not options.python:
        parser.error("where is TensorFlow? `make bench-tensorflow` makes a Python with it; or set $TENSORFLOW_PYTHON")
    if os.environ.get("OPENBLAS_CORETYPE"):
        parser.error("$OPENBLAS_CORETYPE is set: TensorFlow's kernels choose by the processor, and so must OpenBLAS")
    side = OtherSide(options.python, not options.without_onednn)
    print(f"{'a step of':34}{'TensorFlow':>14}{'placesim':>14}{'ratio':>8}{'wanted':>9}")
    for row in ROWS:
        model = row.build()
        if options.only in model.name:
            theirs, ours = measure(model, side, options.turns, options.threads, optimizes=options.optimize)
            print_row(model.name, theirs, ours, row.wanted)
    side.close()
    if options.only in "nodes to the log":
        for kind, seconds in measure_log(options.python, options.log_nodes).items():
            print_row(f"{options.log_nodes:,} nodes to the log, .{kind}", *seconds, LOG_WANTED[kind])


if __name__ == "__main__":
    main()
