"""Values of a node's outputs that are known before execution, from the shape arithmetic of exported models.

An array may have None for an unknown element, such as an unknown size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from placesim.formats.onnx.values import Dims, Value

if TYPE_CHECKING:
    from placesim.formats.onnx.onnx_node import OnnxNode

_MOST = 4096
"""Maximum number of elements of a tensor that is treated as a shape."""
Array = np.ndarray[Any, Any]


def known_outputs(node: OnnxNode) -> Sequence[Array | None] | None:
    """Return the known content of a node's outputs; None if nothing is known."""
    rule = _RULES.get(node.op)
    if rule is None:
        return None
    if node.op in ("Shape", "Size"):
        return [rule(node)]
    known = [value.known if value is not None else None for value in node.values]
    if any(content is None and value is not None for content, value in zip(known, node.values, strict=True)):
        return None
    if any(content is not None and content.size > _MOST for content in known):
        return None
    try:
        with np.errstate(all="ignore"):
            found = rule(node, *known)
    except (TypeError, ValueError, IndexError, ZeroDivisionError, OverflowError):
        return None
    return None if found is None or found.size > _MOST else [_typed(node, found)]


def shape_of_outputs(proto: Any, values: Sequence[Value | None]) -> dict[str, Dims]:
    """Return output shapes by name, if an input is the vector of their sizes; here, unlike in ONNX, some may be unknown."""
    place = {"Reshape": 1, "Expand": 1, "ConstantOfShape": 0}.get(proto.op_type)
    value = values[place] if place is not None and place < len(values) else None
    if value is None or value.known is None or value.known.ndim != 1:
        if place is None or value is None or (shape := value.shape) is None or len(shape) != 1 or shape[0] is None:
            return {}
        return {proto.output[0]: (None,) * shape[0]} if proto.op_type != "Expand" else {}
    sizes = [None if size is None or size < 0 else int(size) for size in value.known.tolist()]
    if proto.op_type == "Reshape":
        return {proto.output[0]: tuple(None if size == 0 else size for size in sizes)}
    if proto.op_type == "Expand":
        data = values[0]
        own = None if data is None else data.shape
        if own is None:
            return {}
        width = max(len(own), len(sizes))
        padded = [1] * (width - len(own)) + list(own)
        wanted = [1] * (width - len(sizes)) + sizes
        return {proto.output[0]: tuple(_joined(a, b) for a, b in zip(padded, wanted, strict=True))}
    return {proto.output[0]: tuple(sizes)}


def _joined(one: int | None, other: int | None) -> int | None:
    if one == 1:
        return other
    return one if other == 1 or one is not None else other


def _typed(node: OnnxNode, found: Array) -> Array:
    """Return an array in the type of the node's output, or as objects if elements are unknown."""
    if any(item is None for item in found.flat):
        return found.astype(object)
    dtype = node.output_dtype()
    return found if dtype is None else found.astype(dtype.numpy)


def _shape(node: OnnxNode) -> Array | None:
    value = node.values[0]
    shape = None if value is None else value.shape
    if shape is None:
        return None
    start, end = node.attr("start", 0), node.attr("end")
    kept = shape[slice(_clipped(start, len(shape)), None if end is None else _clipped(end, len(shape)))]
    return _sizes(kept)


def _clipped(index: int, rank: int) -> int:
    return min(max(index + rank if index < 0 else index, 0), rank)


def _sizes(sizes: Sequence[int | None]) -> Array:
    if None not in sizes:
        return np.array(sizes, np.int64)
    found = np.empty(len(sizes), object)
    found[:] = sizes
    return found


def _size(node: OnnxNode) -> Array | None:
    value = node.values[0]
    shape = None if value is None else value.shape
    if shape is None or None in shape:
        return None
    return np.array(int(np.prod([size for size in shape if size is not None], dtype=np.int64)), np.int64)


def _elementwise(compute: Callable[..., Any]) -> Callable[..., Array]:
    def each(*items: Any) -> Any:
        return None if any(item is None for item in items) else compute(*items)

    def rule(node: OnnxNode, *inputs: Array) -> Array:
        if all(content.dtype != object for content in inputs):
            return np.asarray(compute(*inputs))
        return np.asarray(np.frompyfunc(each, len(inputs), 1)(*inputs), object)

    return rule


def _divide(node: OnnxNode, one: Array, other: Array) -> Array:
    def each(a: Any, b: Any) -> Any:
        if a is None or b is None:
            return None
        return a / b if isinstance(a, float) or isinstance(b, float) else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)

    return np.asarray(np.frompyfunc(each, 2, 1)(one.astype(object), other.astype(object)), object)


def _multiply(node: OnnxNode, one: Array, other: Array) -> Array:
    return _elementwise(np.multiply if one.dtype != object and other.dtype != object else lambda a, b: a * b)(node, one, other)


def _gather(node: OnnxNode, data: Array, indices: Array) -> Array:
    return np.asarray(np.take(data, indices.astype(np.int64), axis=node.attr("axis", 0)))


def _concat(node: OnnxNode, *parts: Array) -> Array:
    return np.concatenate(parts, axis=node.attr("axis", 1 if node.since < 4 else 0))


def _axes(node: OnnxNode, given: Sequence[Array]) -> tuple[int, ...] | None:
    found = given[0].tolist() if given and given[0] is not None else node.attr("axes")
    return None if found is None else tuple(found)


def _unsqueeze(node: OnnxNode, data: Array, *axes: Array) -> Array | None:
    found = _axes(node, axes)
    return None if found is None else np.expand_dims(data, found)


def _squeeze(node: OnnxNode, data: Array, *axes: Array) -> Array:
    return np.squeeze(data, _axes(node, axes))


def _slice(node: OnnxNode, data: Array, *given: Array) -> Array | None:
    if not given:
        starts, ends = node.attr("starts"), node.attr("ends")
        axes, steps = node.attr("axes", range(len(starts))), [1] * len(starts)
    else:
        if any(part is not None and part.dtype == object for part in given):
            return None
        starts, ends = given[0].tolist(), given[1].tolist()
        axes = given[2].tolist() if len(given) > 2 and given[2] is not None else range(len(starts))
        steps = given[3].tolist() if len(given) > 3 and given[3] is not None else [1] * len(starts)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        index: list[Any] = [slice(None)] * data.ndim
        last = data.shape[axis]
        stop = None if step < 0 and end < -last else end
        index[axis] = slice(start, stop, step)
        data = data[tuple(index)]
    return data


def _reshape(node: OnnxNode, data: Array, shape: Array | None = None) -> Array | None:
    wanted = node.attr("shape") if shape is None else shape.tolist()
    if None in wanted:
        return None
    if not node.attr("allowzero", 0):
        wanted = [data.shape[i] if size == 0 else size for i, size in enumerate(wanted)]
    return data.reshape(wanted)


def _reduce(compute: Callable[..., Any]) -> Callable[..., Array | None]:
    def rule(node: OnnxNode, data: Array, *axes: Array) -> Array | None:
        if data.dtype == object:
            return None
        found = _axes(node, axes)
        if found is None and node.attr("noop_with_empty_axes", 0):
            return data
        return np.asarray(compute(data, axis=found or None, keepdims=bool(node.attr("keepdims", 1)), dtype=data.dtype))

    return rule


def _filled(node: OnnxNode, shape: Array) -> Array | None:
    value = node.attr("value")
    sizes = shape.tolist()
    if None in sizes or np.prod(sizes, dtype=np.int64) > _MOST:
        return None
    return np.full(sizes, np.float32(0) if value is None else value.array.reshape(-1)[0])


def _expand(node: OnnxNode, data: Array, shape: Array) -> Array | None:
    sizes = shape.tolist()
    if None in sizes or np.prod(sizes, dtype=np.int64) > _MOST:
        return None
    return data * np.ones(sizes, data.dtype) if data.dtype != object else None


def _range(node: OnnxNode, start: Array, limit: Array, delta: Array) -> Array | None:
    if any(part.dtype == object for part in (start, limit, delta)) or abs((limit - start) / delta) > _MOST:
        return None
    return np.asarray(np.arange(start.item(), limit.item(), delta.item()), start.dtype)


def _where(node: OnnxNode, condition: Array, one: Array, other: Array) -> Array:
    if all(part.dtype != object for part in (condition, one, other)):
        return np.where(condition, one, other)
    chosen = np.frompyfunc(lambda wanted, a, b: None if wanted is None else a if wanted else b, 3, 1)
    return np.asarray(chosen(condition, one, other), object)


_RULES: dict[str, Callable[..., Array | None]] = {
    "Shape": _shape,
    "Size": _size,
    "Identity": lambda node, data: data,
    "Cast": lambda node, data: data,
    "Gather": _gather,
    "Concat": _concat,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Slice": _slice,
    "Reshape": _reshape,
    "Add": _elementwise(lambda a, b: a + b),
    "Sub": _elementwise(lambda a, b: a - b),
    "Mul": _multiply,
    "Div": _divide,
    "Neg": _elementwise(lambda a: -a),
    "Floor": _elementwise(np.floor),
    "Ceil": _elementwise(np.ceil),
    "Sqrt": _elementwise(np.sqrt),
    "Min": _elementwise(np.minimum),
    "Max": _elementwise(np.maximum),
    "Equal": _elementwise(lambda a, b: a == b),
    "Less": _elementwise(lambda a, b: a < b),
    "Greater": _elementwise(lambda a, b: a > b),
    "Not": _elementwise(np.logical_not),
    "Where": _where,
    "ReduceProd": _reduce(np.prod),
    "ReduceSum": _reduce(np.sum),
    "ConstantOfShape": _filled,
    "Expand": _expand,
    "Range": _range,
}
