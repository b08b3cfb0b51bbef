"""Functions of ragged tensors: of each value, of rows, and rows by their numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce as fold
from typing import Any

from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.importing.missing_names import not_there
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.ragged.making import ragged_range
from placesim.tf1.ragged.ragged_tensor import RaggedTensor, RowPartition, segment_ids_of
from placesim.tf1.types import nest

tf = namespace("")


def map_flat_values(op: Callable[..., Any], *args: object, **kwargs: object) -> Any:
    """`tf.ragged.map_flat_values`: call `op` on the innermost values, whose rows must be the same."""
    found = [value for value in nest.flatten((args, kwargs)) if isinstance(value, RaggedTensor)]
    if not found:
        return op(*args, **kwargs)
    sizes = {tf.dimension_at_index(value.flat_values.shape, 0).value for value in found} - {None}
    if len(sizes) > 1:
        raise ValueError(f"Input RaggedTensors' flat_values must all have the same outer-dimension size.  Got sizes: {sizes}")
    args, kwargs = nest.map_structure(lambda one: one.flat_values if isinstance(one, RaggedTensor) else one, (args, kwargs))
    values = op(*args, **kwargs)
    if len({value.ragged_rank for value in found}) > 1:
        raise ValueError("All ragged inputs must have the same ragged_rank.")
    levels = [fold(RowPartition.merged, level) for level in zip(*(value.nested_partitions for value in found), strict=True)]
    return fold(RaggedTensor, reversed(levels), values)


def gather(params: Any, indices: Any, axis: Any = None, batch_dims: int = 0, name: str | None = None) -> Any:
    """Rows by their numbers, of which one or both are ragged."""
    if axis not in (None, 0) or batch_dims:
        raise not_there("tf.gather of ragged tensors with axis or batch_dims", "of rows it is")
    with tf.name_scope(name, "RaggedGather"):
        if isinstance(indices, RaggedTensor):
            flat = indices.flat_values
            if isinstance(params, RaggedTensor):
                return indices.with_flat_values(_rows(params, flat))
            return indices.with_flat_values(tf.gather(tf.convert_to_tensor(params, name="params"), flat, axis=0))
        return _rows(params, tf.convert_to_tensor(indices, name="indices"))


def _rows(params: RaggedTensor, indices: Tensor) -> Any:
    if indices.shape.rank != 1:
        raise not_there("tf.gather of a ragged tensor by numbers that are no vector", "by a vector it is")
    rank = params.ragged_rank
    *splits, values = nest.flatten(
        gen("RaggedGather")(
            params_nested_splits=params.nested_row_splits,
            params_dense_values=params.flat_values,
            indices=indices,
            OUTPUT_RAGGED_RANK=rank,
        )
    )
    with tf.name_scope("RaggedFromNestedRowSplits"):
        found: Tensor | RaggedTensor = values
        for one in reversed(splits):
            found = RaggedTensor.from_row_splits(found, one, validate=False)
        return found


_SEGMENTS = {
    "Sum": "UnsortedSegmentSum",
    "Prod": "UnsortedSegmentProd",
    "Min": "UnsortedSegmentMin",
    "Max": "UnsortedSegmentMax",
}


def reduce(op: str, value: RaggedTensor, axis: Any, keepdims: bool, name: str | None) -> Any:
    """A reduction (`Sum`, `Mean`, `All`, ...) of a ragged tensor over one dimension, or over all."""
    if isinstance(axis, (list, tuple)) and len(axis) == 1:
        (axis,) = axis
    if isinstance(axis, (list, tuple)):
        raise not_there("a reduction of a ragged tensor over several dimensions", "over one dimension, or all, it is")
    if op == "Mean":
        with tf.name_scope(name, "RaggedReduceMean"):
            total = reduce("Sum", value, axis, keepdims, None)
            ones = RaggedTensor.from_nested_row_splits(tf.ones_like(value.flat_values), value.nested_row_splits, validate=False)
            return _combined(tf.divide, total, reduce("Sum", ones, axis, keepdims, None))
    if op in ("All", "Any"):
        with tf.name_scope(name, f"RaggedReduce{op}"):
            found = reduce("Prod" if op == "All" else "Sum", tf.cast(value, tf.int32), axis, keepdims, None)
            return tf.cast(found, tf.bool)
    if op not in _SEGMENTS:
        raise not_there(f"tf.math.reduce_{op.lower()} of a ragged tensor", "reduce_sum, mean, prod, min, max, all and any are")
    name = name or f"RaggedReduce{op}"
    if axis is not None:
        with tf.name_scope(name):
            return _reduced(op, value, axis % (value.shape.rank or 1), keepdims)
    found = getattr(tf, f"reduce_{op.lower()}")(value.flat_values, keepdims=keepdims, name=name)
    for _ in value.shape.as_list()[1:] if keepdims else ():
        found = tf.expand_dims(found, axis=0)
    return found


def _reduced(op: str, value: RaggedTensor, axis: int, keepdims: bool) -> Any:
    if axis > 1:
        if isinstance(value.values, RaggedTensor):
            with tf.name_scope("RaggedReduce"):
                return value.with_values(_reduced(op, value.values, axis - 1, keepdims))
        return value.with_values(getattr(tf, f"reduce_{op.lower()}")(value.values, axis - 1, keepdims=keepdims))
    if isinstance(value.values, RaggedTensor):
        raise not_there(
            "a reduction over a dimension of which the rows are ragged", "over the innermost ragged dimension it is"
        )
    if axis == 0:
        lengths = value.row_splits[1:] - value.row_splits[:-1]
        count = tf.maximum(tf.reduce_max(lengths), 0)
        numbers = ragged_range(lengths).values
    else:
        count = tf.shape(value.row_splits)[0] - 1
        numbers = segment_ids_of(value.row_splits)
    found = gen(_SEGMENTS[op])(value.values, numbers, count)
    return tf.expand_dims(found, axis=axis) if keepdims else found


def _combined(op: Callable[..., Any], left: Any, right: Any) -> Any:
    if not isinstance(left, RaggedTensor):
        return op(left, right)
    return left.with_flat_values(op(left.flat_values, right.flat_values))


def _operator(function: str, is_reversed: bool = False) -> Callable[[RaggedTensor, Any], Any]:
    """Make an operator of a ragged tensor and another one with the same rows, or a scalar or inner tensor."""

    def operate(self: RaggedTensor, other: Any) -> Any:
        if isinstance(other, RaggedTensor):
            if other.nested_row_splits != self.nested_row_splits:
                raise not_there("an operator of ragged tensors with their own row splits", "with the same splits it is")
            for splits in (self.row_splits, other.row_splits):
                tf.cast(tf.shape(self.flat_values), splits.dtype)
            other = other.flat_values
        else:
            other = tf.convert_to_tensor(other, self.dtype)
            if other.shape.rank is None or other.shape.rank >= (self.flat_values.shape.rank or 0):
                raise not_there("an operator of a ragged tensor and rows", "of a ragged tensor and a scalar it is")
        pair = (other, self.flat_values) if is_reversed else (self.flat_values, other)
        return self.with_flat_values(getattr(tf, function)(*pair))

    return operate


def _unary_operator(function: str) -> Callable[[RaggedTensor], Any]:
    return lambda self: self.with_flat_values(getattr(tf, function)(self.flat_values))


_ARITHMETIC = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "truediv",
    "floordiv": "floordiv",
    "mod": "floormod",
    "pow": "pow",
    "and": "logical_and",
    "or": "logical_or",
    "xor": "logical_xor",
}
_COMPARISONS = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}
for _word, _function in (_ARITHMETIC | _COMPARISONS).items():
    setattr(RaggedTensor, f"__{_word}__", _operator(_function))
    if _word in _ARITHMETIC:
        setattr(RaggedTensor, f"__r{_word}__", _operator(_function, is_reversed=True))
for _word, _function in (("abs", "abs"), ("neg", "negative"), ("invert", "logical_not")):
    setattr(RaggedTensor, f"__{_word}__", _unary_operator(_function))
