"""Graphs as plain values, so that tests can compare them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from placesim.core.dtypes import DataType
from placesim.graph.graph import Graph
from placesim.ops.attributes import AttrValue, Shape, TensorValue

DATA = Path(__file__).parent.parent / "data"


def read_lines(name: str) -> list[Any]:
    """The rows of a data file with one JSON value a line."""
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]


@cache
def raw_graphs() -> list[Any]:
    """The cases of graphs in raw form."""
    cases = read_lines("raw-graphs.jsonl")
    assert len(cases) == 54
    return cases


@cache
def short_graphs() -> list[Any]:
    """The cases of `building.jsonl` that make a graph."""
    cases = [case for case in read_lines("building.jsonl") if "error" not in case["expect"]]
    assert len(cases) == 75
    return cases


def plain(value: AttrValue) -> Any:
    """An attr as the recordings have it."""
    if isinstance(value, DataType):
        return value.name
    if isinstance(value, Shape):
        return None if value.dims is None else list(value.dims)
    if isinstance(value, TensorValue):
        array = value.array
        return (value.dtype.name, array.shape, str(array.dtype), array.tolist() if array.dtype == object else array.tobytes())
    return list(map(plain, value)) if isinstance(value, tuple) else value


def as_recorded(graph: Graph) -> list[dict[str, Any]]:
    """The nodes as `building.jsonl` has them, a Const's value flat."""
    rows = []
    for node in graph.nodes:
        attrs = {name: plain(value) for name, value in node.attrs.items()}
        row: dict[str, Any] = {"op": node.op, "name": node.name, "inputs": graph.input_texts(node), "device": node.device}
        if node.op == "Const":
            tensor = node.attrs["value"]
            flat = tensor.array.reshape(-1).tolist()
            row |= {"dtype": attrs.pop("dtype"), "shape": list(tensor.array.shape)}
            row["value"] = [text.decode() if isinstance(text, bytes) else text for text in flat]
            del attrs["value"]
        rows.append(row | {"attrs": attrs})
    return rows


def expanded(row: dict[str, Any]) -> dict[str, Any]:
    """A recorded node with what it leaves away, a Const's value flat and in full."""
    row = {"inputs": [], "device": "", "attrs": {}} | row
    if row["op"] == "Const" and not isinstance(row["value"], list):
        row["value"] = [row["value"]] * int(np.prod(row["shape"]))
    return row


def exact(graph: Graph) -> list[Any]:
    """Everything of a graph but where its nodes stand in a file."""
    return [
        (node.name, node.op, tuple(node.inputs), node.control_inputs, node.device, {k: plain(v) for k, v in node.attrs.items()})
        for node in graph.nodes
    ]
