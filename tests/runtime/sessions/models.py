"""The placeable graphs that TensorFlow's Python API built for the recordings, and how they are run."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

from placesim.graph.graph import Graph
from placesim.graph.session_steps import Feed
from placesim.ops.attributes import Shape

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


def feeds_of(graph: Graph) -> tuple[Feed, ...]:
    """Ones for every placeholder; a size that is not known is 2."""
    feeds = []
    for node in graph.nodes:
        if node.op == "Placeholder":
            shape, dtype = node.attrs.get("shape"), node.signature.output_dtypes[0]
            dims = shape.dims if isinstance(shape, Shape) and shape.dims is not None else ()
            feeds.append(Feed(node.name, np.ones([2 if size < 0 else size for size in dims], dtype.numpy)))
    return tuple(feeds)


def with_small_layers(case: dict[str, Any]) -> dict[str, Any]:
    """A recorded AlexNet with other sizes; any other case is as it was."""

    def resize(found: Any) -> Any:
        return [resize(size) for size in found] if isinstance(found, list) else SMALLER.get(found, found)

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
