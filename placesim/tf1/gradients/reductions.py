"""Gradients of reductions and of cumulative sums: what was reduced is spread again."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from placesim.tf1 import array, math
from placesim.tf1.constant_values import constant_value
from placesim.tf1.conversion import constant
from placesim.tf1.generated import gen
from placesim.tf1.gradients.registry import GradientFunction
from placesim.tf1.scopes import colocate_with, device


def kept_dims_shape(input_shape: Any, axes: Any) -> Any:
    """The shape of a reduction that keeps its dimensions: an array where both are constants, else nodes."""
    sizes, axes_known = constant_value(input_shape), constant_value(axes)
    if sizes is not None and axes_known is not None:
        kept = np.array(sizes)
        kept[axes_known] = 1
        return kept
    rank = array.size(input_shape, out_type=axes.dtype)
    positive = (axes + rank) % rank
    axes_shape = array.shape(positive)
    return math.dynamic_stitch([math.range(rank), positive], [input_shape, array.ones(axes_shape, input_shape.dtype)])


def _sum(op: Any, grad: Any) -> list[Any]:
    x, axes = op.inputs
    sizes = None if x.shape.rank is None else tuple(x.shape.as_list())
    known = None if sizes is None else constant_value(axes)
    if sizes is not None and known is not None:
        rank = len(sizes)
        if np.array_equal(known, np.arange(rank)):
            grad = array.reshape(grad, [1] * rank)
            return [array.tile(grad, array.shape(x) if None in sizes else constant(sizes, dtype="int32")), None]
        if None not in sizes:
            kept, multiples = _static_spread(op.graph, sizes, known)
            return [array.tile(array.reshape(grad, kept), multiples), None]
    input_shape = array.shape(x)
    if not op.get_attr("keep_dims"):
        with colocate_with(input_shape):
            kept = kept_dims_shape(input_shape, axes)
        grad = array.reshape(grad, kept)
    return [array.broadcast_to(grad, input_shape), None]


_spreads: WeakKeyDictionary[Any, dict[Any, tuple[list[int], list[int]]]] = WeakKeyDictionary()


def _static_spread(graph: Any, sizes: tuple[int, ...], axes: np.ndarray) -> tuple[list[int], list[int]]:
    """The shape that keeps the dimensions, and how often each is repeated.

    TensorFlow computes them with nodes that nobody reads, and remembers them for each graph: only the first such reduction of
    a graph leaves those nodes.
    """
    cache = _spreads.setdefault(graph, {})
    key = (sizes, tuple(axes.reshape(-1).tolist()))
    found = cache.get(key)
    if found is None:
        kept = np.array(sizes, np.int32)
        kept[axes] = 1
        math.floordiv(np.array(sizes, np.int32), math.maximum(kept, 1))
        found = cache[key] = (kept.tolist(), (np.array(sizes) // np.maximum(kept, 1)).tolist())
    return found


def _mean(op: Any, grad: Any) -> list[Any]:
    spread = _sum(op, grad)[0]
    x, output = op.inputs[0], op.outputs[0]
    if x.shape.is_fully_defined() and output.shape.is_fully_defined():
        factor = x.shape.num_elements() // max(output.shape.num_elements(), 1)
        divisor = constant(factor, dtype=spread.dtype)
    else:
        input_shape = array.shape(x)
        rank = array.size(input_shape)
        axes = (math.cast(op.inputs[1], "int32") + rank) % rank
        divisor = math.cast(math.reduce_prod(array.gather(input_shape, axes)), spread.dtype)
    return [math.truediv(spread, divisor), None]


def _extreme(op: Any, grad: Any) -> list[Any]:
    x, axes = op.inputs
    input_shape = array.shape(x)
    value = op.outputs[0]
    if op.get_attr("keep_dims"):
        kept = array.shape(value)
    else:
        kept = kept_dims_shape(input_shape, axes)
        value = array.reshape(value, kept)
        grad = array.reshape(grad, kept)
    # Where several elements share the extreme, they share its gradient.
    chosen = math.cast(math.equal(value, x), grad.dtype)
    count = array.reshape(math.reduce_sum(chosen, axes), kept)
    return [math.truediv(chosen, count) * grad, None]


def _product(op: Any, grad: Any) -> list[Any]:
    x, axes = op.inputs
    input_shape = array.shape(x)
    flat_axes = array.reshape(axes, [-1])
    if not op.get_attr("keep_dims"):
        grad = array.reshape(grad, kept_dims_shape(input_shape, axes))
    grad = array.broadcast_to(grad, input_shape)
    with device("/cpu:0"):
        rank = array.rank(x)
        flat_axes = (flat_axes + rank) % rank
        reduced = math.cast(flat_axes, "int32")
        others = gen("ListDiff")(math.range(0, rank), reduced)[0]
        permutation = array.concat([reduced, others], 0)
        reduced_size = math.reduce_prod(array.gather(input_shape, reduced))
        other_size = math.reduce_prod(array.gather(input_shape, others))
    permuted = array.transpose(x, permutation)
    permuted_shape = array.shape(permuted)
    flat = array.reshape(permuted, [reduced_size, other_size])
    # The product of all others: of those before times those after, which holds where an element is zero too.
    before = math.cumprod(flat, axis=0, exclusive=True)
    after = math.cumprod(flat, axis=0, exclusive=True, reverse=True)
    rest = array.reshape(math.conj(before) * math.conj(after), permuted_shape)
    spread = grad * array.transpose(rest, array.invert_permutation(permutation))
    return [array.reshape(spread, input_shape), None]


def _euclidean_norm(op: Any, grad: Any) -> list[Any]:
    x, axes = op.inputs
    value = op.outputs[0]
    if not op.get_attr("keep_dims"):
        kept = kept_dims_shape(array.shape(x), axes)
        value = array.reshape(value, kept)
        grad = array.reshape(grad, kept)
    return [math.truediv(x, value / grad), None]


def _cumulative_sum(op: Any, grad: Any) -> list[Any]:
    exclusive, reverse = op.get_attr("exclusive"), op.get_attr("reverse")
    return [math.cumsum(grad, op.inputs[1], exclusive=exclusive, reverse=not reverse), None]


def _cumulative_product(op: Any, grad: Any) -> list[Any]:
    x, axis = op.inputs
    exclusive, reverse = op.get_attr("exclusive"), op.get_attr("reverse")
    product = math.cumprod(x, axis, exclusive=exclusive, reverse=reverse)
    spread = math.cumsum(product * grad, axis, exclusive=exclusive, reverse=not reverse)
    return [math.div_no_nan(spread, x), None]


def _cumulative_log_sum(op: Any, grad: Any) -> list[Any]:
    x, axis = op.inputs
    output = op.outputs[0]
    exclusive, reverse = op.get_attr("exclusive"), op.get_attr("reverse")
    cumulate = gen("CumulativeLogsumexp")
    positive = array.where_v2(math.greater(grad, 0), math.log(grad), grad.dtype.min)
    negative = array.where_v2(math.less(grad, 0), math.log(-grad), grad.dtype.min)
    rising, falling = (
        math.exp(cumulate(part - output, axis, exclusive=exclusive, reverse=not reverse) + x) for part in (positive, negative)
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
