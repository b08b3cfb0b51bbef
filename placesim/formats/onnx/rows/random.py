"""Random numbers: by TensorFlow's generators, whose numbers are not those of another runtime for the same seed."""

from __future__ import annotations

from typing import Any

import numpy as np

from placesim.core.dtypes import DTYPES, DataType
from placesim.formats.onnx.element_types import BY_ONNX_NUMBER
from placesim.formats.onnx.folding import int32
from placesim.formats.onnx.onnx_node import OnnxNode, Rows, Tensor, UnsupportedNodeError


def random_normal(node: OnnxNode) -> Tensor:
    """RandomStandardNormal of attribute `shape`, scaled and moved."""
    return _normal(node, _shape(node), _dtype(node, DTYPES["float"]))


def random_normal_like(node: OnnxNode) -> Tensor:
    """The same, of the input's shape."""
    return _normal(node, node.emit("Shape", node[0]), _dtype(node, node.dtype(node[0])))


def random_uniform(node: OnnxNode) -> Tensor:
    """RandomUniform of attribute `shape`, from `low` to `high`."""
    return _uniform(node, _shape(node), _dtype(node, DTYPES["float"]))


def random_uniform_like(node: OnnxNode) -> Tensor:
    """The same, of the input's shape."""
    return _uniform(node, node.emit("Shape", node[0]), _dtype(node, node.dtype(node[0])))


def multinomial(node: OnnxNode) -> Tensor:
    """Multinomial of `[batch, classes]`, logarithms of what is in proportion to the probabilities."""
    dtype = _dtype(node, DTYPES["int32"])
    return node.emit("Multinomial", node[0], int32(node.attr("sample_size", 1)), output_dtype=dtype, **_seeds(node))


def bernoulli(node: OnnxNode) -> Tensor:
    """RandomUniform less than the input, which is how likely a 1 is; ONNX's own composition has it the other way round."""
    given = node[0]
    made = node.emit("RandomUniform", node.emit("Shape", given), dtype=node.dtype(given), **_seeds(node))
    return node.cast(node.emit("Less", made, given), _dtype(node, node.dtype(given)))


def _shape(node: OnnxNode) -> Tensor:
    return node.constant(int32(node.attr("shape", ())))


def _dtype(node: OnnxNode, default: DataType) -> DataType:
    number = node.attr("dtype", 0)
    found = BY_ONNX_NUMBER.get(number) if number else default
    if found is None:
        raise UnsupportedNodeError(f"wrong dtype: got {number}, expected the number of a TensorFlow type")
    return found


def _seeds(node: OnnxNode) -> dict[str, Any]:
    """TensorFlow's two seeds, which are integers: a float's own bits, so that seeds that differ stay different."""
    seed = node.attr("seed")
    return {} if seed is None else {"seed": int(np.float32(seed).view(np.uint32)), "seed2": 1}


def _normal(node: OnnxNode, shape: Tensor, dtype: DataType) -> Tensor:
    made = node.emit("RandomStandardNormal", shape, dtype=dtype, **_seeds(node))
    return _moved(node, made, node.attr("scale", 1.0), node.attr("mean", 0.0))


def _uniform(node: OnnxNode, shape: Tensor, dtype: DataType) -> Tensor:
    low, high = node.attr("low", 0.0), node.attr("high", 1.0)
    return _moved(node, node.emit("RandomUniform", shape, dtype=dtype, **_seeds(node)), high - low, low)


def _moved(node: OnnxNode, tensor: Tensor, factor: float, addend: float) -> Tensor:
    scaled = node.emit("Mul", tensor, node.like(factor, tensor))
    return node.emit("AddV2", scaled, node.like(addend, tensor))


ROWS: Rows = {
    ("Bernoulli", 15, 22): bernoulli,
    ("Multinomial", 7, 22): multinomial,
    ("RandomNormal", 1, 22): random_normal,
    ("RandomNormalLike", 1, 22): random_normal_like,
    ("RandomUniform", 1, 22): random_uniform,
    ("RandomUniformLike", 1, 22): random_uniform_like,
}
