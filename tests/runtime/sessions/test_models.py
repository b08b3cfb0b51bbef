"""Every placeable graph that TensorFlow's Python API built for the recordings also runs."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placesim.core.errors import InvalidArgumentError
from placesim.core.files.access import FileAccess
from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.graph import Graph
from placesim.graph.session_steps import Feed, Fetch, GraphStep
from placesim.machine.inventory import build_devices
from placesim.ops.attributes import Shape
from placesim.ops.kernels.philox import Philox
from placesim.ops.kernels.resources import python_functions
from placesim.runtime.partitioning.step_requests import default_fetches
from placesim.runtime.sessions.session import GraphSession

DATA = Path(__file__).parent.parent.parent / "data"
CASES = [
    case
    for name in ("models", "functions")
    for case in map(json.loads, gzip.decompress((DATA / f"placement-{name}.jsonl.gz").read_bytes()).splitlines())
    if case["expect"]["error"] is None
]
ORDERED = {
    "dataset": ["MakeIterator"],
    "queue": ["fifo_queue_enqueue", "fifo_queue_enqueue", "MatMul"],
    "saver": ["save/control_dependency"],
}
"""Ops that must run in turn before the rest of a graph does."""
NO_KERNEL = ("PyFunc",)
"""Ops that run Python functions, which no graph holds."""
SMALLER = {227: 99, 96: 12, 256: 32, 384: 48, 6: 2, 9216: 128, 4096: 64, 1000: 10}
"""Sizes of AlexNet's images, channels, last feature map and units, and those of an AlexNet of the same nodes."""
LARGEST = "alexnet-split"
"""The recorded AlexNet that runs with its own images and channels, and narrower fully connected layers."""
NARROWER = {4096: 64}
"""Sizes of the units of AlexNet's fully connected layers, which have nine of ten weights."""
DRAWN_ONCE = 1 << 16
"""So many random blocks are drawn once for all models: AlexNet alone draws a million for its weights."""


def feeds_of(graph: Graph) -> tuple[Feed, ...]:
    """Ones for every placeholder; a size that is not known is 2."""
    feeds = []
    for node in graph.nodes:
        if node.op == "Placeholder":
            shape, dtype = node.attrs.get("shape"), node.signature.output_dtypes[0]
            dims = shape.dims if isinstance(shape, Shape) and shape.dims is not None else ()
            feeds.append(Feed(node.name, np.ones([2 if size < 0 else size for size in dims], dtype.numpy)))
    return tuple(feeds)


def with_small_layers(case: dict[str, Any], sizes: Mapping[int, int] = SMALLER) -> dict[str, Any]:
    """A recorded AlexNet with other sizes; any other case is as it was."""

    def resize(found: Any) -> Any:
        return [resize(size) for size in found] if isinstance(found, list) else sizes.get(found, found)

    def shrink(node: dict[str, Any]) -> dict[str, Any]:
        attrs = node.get("attrs", {})
        if "shape" in attrs:
            return node | {"attrs": attrs | {"shape": resize(attrs["shape"])}}
        if node["op"] != "Const":
            return node
        return node | {"shape": resize(node["shape"])} | ({"value": resize(node["value"])} if node["dtype"] == "int32" else {})

    if not case["id"].startswith("alexnet-"):
        return case
    return case | {"graph": case["graph"] | {"nodes": list(map(shrink, case["graph"]["nodes"]))}}


def initializers(graph: Graph) -> list[str]:
    """The ops that give variables their first values."""
    assigned = [
        node.name
        for node in graph.nodes
        if node.op in ("Assign", "AssignVariableOp") and node.name == f"{graph.nodes[node.input_nodes[0]].name}/Assign"
    ]
    return ["init"] if "init" in graph.ids else assigned


@pytest.fixture(scope="module", autouse=True)
def _shared_words() -> Iterator[None]:
    """Large draws repeat one block of random words, made once: no model here is seeded, so that any words will do."""
    words = Philox(1, 0).take(DRAWN_ONCE)
    take = Philox.take

    def take_shared(generator: Philox, count: int) -> np.ndarray[Any, Any]:
        return take(generator, count) if count < DRAWN_ONCE else np.resize(words, (count, 4))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Philox, "take", take_shared)
        yield


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_recorded_model_runs(case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    case = with_small_layers(case, NARROWER if case["id"] == LARGEST else SMALLER)
    file = graph_file_from_mapping(case["graph"], case["id"])
    graph = file.graph
    files = FileAccess.of(writes=[tmp_path])
    session = GraphSession(graph, build_devices(file.inventory or ()), file.config, bare_fetch_is_target=True, files=files)
    feeds = feeds_of(graph)
    first = initializers(graph)
    for names in ([first] if first else []) + [[name] for name in ORDERED.get(case["id"], [])]:
        session.run(GraphStep(tuple(map(Fetch, names)), feeds))
    done = {*first, *ORDERED.get(case["id"], [])}
    rest = [found.name for found in default_fetches(graph, only_targets=True)]
    rest = [name for name in rest if name not in done and graph.node(name).op not in NO_KERNEL]
    assert rest
    assert session.run(GraphStep(tuple(map(Fetch, rest)), feeds)).targets == tuple(rest)


def test_python_functions_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_functions, "_functions", {})  # another test may have defined some
    (case,) = [case for case in CASES if case["id"] == "strings"]
    file = graph_file_from_mapping(case["graph"], "strings")
    session = GraphSession(file.graph, build_devices(file.inventory or ()), file.config, bare_fetch_is_target=True)
    with pytest.raises(InvalidArgumentError, match="callback pyfunc_0 is not found"):
        session.run(GraphStep((Fetch("PyFunc"),)))
