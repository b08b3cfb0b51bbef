"""Random numbers of TensorFlow's generators. Other runtimes give other numbers for the same seed."""

from __future__ import annotations

from typing import Any

import numpy as np

from placesim.core.dtypes import FLOAT, INT32, DataType
from placesim.formats.onnx.folding import int32
from placesim.formats.onnx.onnx_node import OnnxNode, Rows, Tensor


def random_normal(node: OnnxNode) -> Tensor:
    """RandomStandardNormal of the attribute `shape`, Mul by `scale` and AddV2 of `mean`."""
    return _normal(node, _shape(node), node.type_attr("dtype", FLOAT))


def random_normal_like(node: OnnxNode) -> Tensor:
    """RandomStandardNormal of the input's shape, Mul by `scale` and AddV2 of `mean`."""
    return _normal(node, node.emit("Shape", node[0]), node.type_attr("dtype", node.dtype(node[0])))


def random_uniform(node: OnnxNode) -> Tensor:
    """RandomUniform of the attribute `shape`, then Mul and AddV2 for the range from `low` to `high`."""
    return _uniform(node, _shape(node), node.type_attr("dtype", FLOAT))


def random_uniform_like(node: OnnxNode) -> Tensor:
    """RandomUniform of the input's shape, then Mul and AddV2 for the range from `low` to `high`."""
    return _uniform(node, node.emit("Shape", node[0]), node.type_attr("dtype", node.dtype(node[0])))


def multinomial(node: OnnxNode) -> Tensor:
    """Multinomial of the unnormalized log-probabilities `[batch, classes]`."""
    dtype = node.type_attr("dtype", INT32)
    return node.emit("Multinomial", node[0], int32(node.attr("sample_size", 1)), output_dtype=dtype, **_seeds(node))


def bernoulli(node: OnnxNode) -> Tensor:
    """Less: RandomUniform is below the input, which is the probability of 1. ONNX's own composition compares the reverse."""
    given = node[0]
    made = node.emit("RandomUniform", node.emit("Shape", given), dtype=node.dtype(given), **_seeds(node))
    return node.cast(node.emit("Less", made, given), node.type_attr("dtype", node.dtype(given)))


def _shape(node: OnnxNode) -> Tensor:
    return node.constant(int32(node.attr("shape", ())))


def _seeds(node: OnnxNode) -> dict[str, Any]:
    """Return TensorFlow's two integer seeds. The first has the bits of ONNX's float, so that different seeds stay different."""
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
