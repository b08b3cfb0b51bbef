"""Small models, written with the `onnx` package."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import placesim

OPSET = 21


def tensor(name: str, array: Any) -> Any:
    """An initializer."""
    from onnx import numpy_helper

    return numpy_helper.from_array(np.asarray(array), name)


def info(name: str, shape: Sequence[int | str | None] | None, kind: str = "FLOAT") -> Any:
    """An input or output of a model."""
    from onnx import TensorProto, helper

    return helper.make_tensor_value_info(name, getattr(TensorProto, kind), shape)


def node(op: str, inputs: str, outputs: str, **attrs: Any) -> Any:
    """A node; names are parted by spaces, `_` is one that is left out."""
    from onnx import helper

    names = [["" if name == "_" else name for name in text.split()] for text in (inputs, outputs)]
    return helper.make_node(op, *names, **attrs)


def model(
    nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], *tensors: Any, opset: int = OPSET, **more: Any
) -> Any:
    """A ModelProto."""
    from onnx import helper

    graph = helper.make_graph(nodes, "graph", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10, **more)


def run(proto: Any, feeds: Mapping[str, Any] | None = None, **options: Any) -> dict[str, np.ndarray[Any, Any]]:
    """What a model gives."""
    report = placesim.run(io.BytesIO(proto.SerializeToString()), feed=dict(feeds or {}), **options)
    return {wanted.name: report.results[wanted.name] for wanted in proto.graph.output}
