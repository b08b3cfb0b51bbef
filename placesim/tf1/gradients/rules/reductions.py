"""Gradients of reductions and cumulative sums."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from placesim.tf1.gradients.registry import GradientFunction
from placesim.tf1.graphs.default_graph_scopes import colocate_with, device
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.constant_values import constant_value
from placesim.tf1.ops.conversion import constant
from placesim.tf1.ops.generated_functions import gen

tf = namespace("")


def kept_dims_shape(input_shape: Tensor, axes: Tensor) -> Any:
    """Shape of a reduction's result with its `axes` kept as 1: an array if both arguments are constants, else a tensor."""
    sizes, axes_known = constant_value(input_shape), constant_value(axes)
    if sizes is not None and axes_known is not None:
        kept = np.array(sizes)
        kept[axes_known] = 1
        return kept
    rank = tf.size(input_shape, out_type=axes.dtype)
    positive = (axes + rank) % rank
    axes_shape = tf.shape(positive)
    return tf.dynamic_stitch([tf.range(rank), positive], [input_shape, tf.ones(axes_shape, input_shape.dtype)])


def _sum(op: Any, grad: Tensor) -> list[Any]:
    x, axes = op.inputs
    sizes = None if x.shape.rank is None else tuple(x.shape.as_list())
    known = None if sizes is None else constant_value(axes)
    if sizes is not None and known is not None:
        rank = len(sizes)
        if np.array_equal(known, np.arange(rank)):
            # a sum over all axes, the usual loss, needs no nodes for the shape
            grad = tf.reshape(grad, [1] * rank)
            return [tf.tile(grad, tf.shape(x) if None in sizes else constant(sizes, dtype="int32")), None]
        if None not in sizes:
            kept, multiples = _static_spread(op.graph, sizes, known)
            return [tf.tile(tf.reshape(grad, kept), multiples), None]
    input_shape = tf.shape(x)
    if not op.get_attr("keep_dims"):
        with colocate_with(input_shape):
            kept = kept_dims_shape(input_shape, axes)
        grad = tf.reshape(grad, kept)
    return [tf.broadcast_to(grad, input_shape), None]


_spreads: WeakKeyDictionary[Any, dict[Any, tuple[list[int], list[int]]]] = WeakKeyDictionary()


def _static_spread(graph: object, sizes: tuple[int, ...], axes: np.ndarray) -> tuple[list[int], list[int]]:
    """Shape of a reduction's result with its axes kept as 1, and how often each dimension is repeated.

    TensorFlow computes both with nodes that nothing reads, and caches them for each graph: only the first such reduction
    of a graph makes the nodes.
    """
    cache = _spreads.setdefault(graph, {})
    key = (sizes, tuple(axes.reshape(-1).tolist()))
    found = cache.get(key)
    if found is None:
        kept = np.array(sizes, np.int32)
        kept[axes] = 1
        tf.floordiv(np.array(sizes, np.int32), tf.maximum(kept, 1))
        found = cache[key] = (kept.tolist(), (np.array(sizes) // np.maximum(kept, 1)).tolist())
    return found


def _mean(op: Any, grad: Tensor) -> list[Any]:
    spread = _sum(op, grad)[0]
    x, output = op.inputs[0], op.outputs[0]
    if x.shape.is_fully_defined() and output.shape.is_fully_defined():
        # an empty output must not divide by zero
        factor = x.shape.num_elements() // max(output.shape.num_elements(), 1)
        divisor = constant(factor, dtype=spread.dtype)
    else:
        input_shape = tf.shape(x)
        rank = tf.size(input_shape)
        axes = (tf.cast(op.inputs[1], "int32") + rank) % rank
        divisor = tf.cast(tf.reduce_prod(tf.gather(input_shape, axes)), spread.dtype)
    return [tf.truediv(spread, divisor), None]


def _extreme(op: Operation, grad: Tensor) -> list[Any]:
    x, axes = op.inputs
    input_shape = tf.shape(x)
    value = op.outputs[0]
    if op.get_attr("keep_dims"):
        kept = tf.shape(value)
    else:
        kept = kept_dims_shape(input_shape, axes)
        value = tf.reshape(value, kept)
        grad = tf.reshape(grad, kept)
    # Where several elements share the extreme, they share its gradient.
    chosen = tf.cast(tf.equal(value, x), grad.dtype)
    count = tf.reshape(tf.reduce_sum(chosen, axes), kept)
    return [tf.truediv(chosen, count) * grad, None]


def _product(op: Operation, grad: Tensor) -> list[Any]:
    x, axes = op.inputs
    input_shape = tf.shape(x)
    flat_axes = tf.reshape(axes, [-1])
    if not op.get_attr("keep_dims"):
        grad = tf.reshape(grad, kept_dims_shape(input_shape, axes))
    grad = tf.broadcast_to(grad, input_shape)
    # TensorFlow keeps index arithmetic on the host
    with device("/cpu:0"):
        rank = tf.rank(x)
        flat_axes = (flat_axes + rank) % rank
        reduced = tf.cast(flat_axes, "int32")
        others = gen("ListDiff")(tf.range(0, rank), reduced)[0]
        permutation = tf.concat([reduced, others], 0)
        reduced_size = tf.reduce_prod(tf.gather(input_shape, reduced))
        other_size = tf.reduce_prod(tf.gather(input_shape, others))
    permuted = tf.transpose(x, permutation)
    permuted_shape = tf.shape(permuted)
    flat = tf.reshape(permuted, [reduced_size, other_size])
    # The product of all other elements is that of those before times that of those after: no division by a zero.
    before = tf.cumprod(flat, axis=0, exclusive=True)
    after = tf.cumprod(flat, axis=0, exclusive=True, reverse=True)
    rest = tf.reshape(tf.conj(before) * tf.conj(after), permuted_shape)
    spread = grad * tf.transpose(rest, tf.invert_permutation(permutation))
    return [tf.reshape(spread, input_shape), None]


def _euclidean_norm(op: Operation, grad: Tensor) -> list[Any]:
    x, axes = op.inputs
    value = op.outputs[0]
    if not op.get_attr("keep_dims"):
        kept = kept_dims_shape(tf.shape(x), axes)
        value = tf.reshape(value, kept)
        grad = tf.reshape(grad, kept)
    return [tf.truediv(x, value / grad), None]


def _cumulative_sum(op: Operation, grad: Tensor) -> list[Any]:
    exclusive, reverse = op.get_attr("exclusive"), op.get_attr("reverse")
    return [tf.cumsum(grad, op.inputs[1], exclusive=exclusive, reverse=not reverse), None]


def _cumulative_product(op: Operation, grad: Tensor) -> list[Any]:
    x, axis = op.inputs
    exclusive, reverse = op.get_attr("exclusive"), op.get_attr("reverse")
    product = tf.cumprod(x, axis, exclusive=exclusive, reverse=reverse)
    spread = tf.cumsum(product * grad, axis, exclusive=exclusive, reverse=not reverse)
    # TensorFlow accepts a wrong gradient for zeros in x here
    return [tf.div_no_nan(spread, x), None]


def _cumulative_log_sum(op: Operation, grad: Tensor) -> list[Any]:
    x, axis = op.inputs
    output = op.outputs[0]
    exclusive, reverse = op.get_attr("exclusive"), op.get_attr("reverse")
    cumulate = gen("CumulativeLogsumexp")
    positive = tf.where_v2(tf.greater(grad, 0), tf.log(grad), grad.dtype.min)
    negative = tf.where_v2(tf.less(grad, 0), tf.log(-grad), grad.dtype.min)
    rising, falling = (
        tf.exp(cumulate(part - output, axis, exclusive=exclusive, reverse=not reverse) + x) for part in (positive, negative)
    )
    return [rising - falling, None]


GRADIENTS: dict[str, GradientFunction] = {
    "ArgMax": lambda op, grad: [None, None],
    "ArgMin": lambda op, grad: [None, None],
    "Cumprod": _cumulative_product,
    "Cumsum": _cumulative_sum,
    "CumulativeLogsumexp": _cumulative_log_sum,
    "EuclideanNorm": _euclidean_norm,
    "Max": _extreme,
    "Mean": _mean,
    "Min": _extreme,
    "Prod": _product,
    "Sum": _sum,
}
