"""Parts of ragged tensors: `rows[1:, :2]`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placesim.tf1.importing.missing_names import not_there
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ragged.making import ragged_range
from placesim.tf1.ragged.ragged_tensor import RaggedTensor

tf = namespace("")
_ALL = slice(None)


def part_of(tensor: RaggedTensor, key: Any) -> Any:
    """A row, or slices in some of the dimensions.  Raises IndexError, TypeError, ValueError."""
    keys = list(key) if isinstance(key, (list, tuple)) else [key]
    if not keys:
        return tensor
    with tf.name_scope("RaggedGetItem"):
        return _rows(tensor, keys)


def _rows(tensor: RaggedTensor, keys: Sequence[Any]) -> Any:
    keys = _expanded(keys, tensor.shape.rank)
    if not keys:
        return tensor
    key, *inner = keys
    if key is None:
        raise not_there("a RaggedTensor's part with a new first dimension", "rows and slices are")
    if key == _ALL:
        return _columns(tensor, inner)
    if not isinstance(key, slice):
        starts, limits = tensor.row_splits[:-1], tensor.row_splits[1:]
        return tensor.values[starts[key] : limits[key]][inner]
    starts, limits = tensor.row_splits[:-1][key], tensor.row_splits[1:][key]
    zero = tf.zeros([1], tensor.row_splits.dtype)
    if key.step not in (None, 1):
        return _columns(_between(tensor.values, starts, limits, 1), inner)
    splits = tf.concat([zero[tf.size(starts) :], starts[:1], limits], axis=0)
    first, last = splits[0], splits[-1]
    return _columns(RaggedTensor.from_row_splits(tensor.values[first:last], splits - first, validate=False), inner)


def _expanded(keys: Sequence[Any], rank: int | None) -> Sequence[Any]:
    """The keys with a full slice before a first ellipsis, or without the ellipsis if it stands for no dimension."""
    if keys[0] is not Ellipsis:
        return keys
    if rank is None:
        raise ValueError("Ellipsis not supported for unknown shape RaggedTensors")
    missing = rank + 1 - sum(key is not None for key in keys)
    if missing < 0:
        raise IndexError("Too many indices for RaggedTensor")
    return [_ALL, *keys] if missing else keys[1:]


def _columns(tensor: Any, keys: Sequence[Any]) -> Any:
    """Slices in the dimensions of each row."""
    if not keys:
        return tensor
    if not isinstance(tensor, RaggedTensor):
        return tensor[(_ALL, *keys)]
    keys = _expanded(keys, tensor.values.shape.rank)
    if not keys:
        return tensor
    key, *inner = keys
    if key is None:
        raise not_there("a RaggedTensor's part with a new ragged dimension", "rows and slices are")
    if not isinstance(key, slice):
        raise ValueError("Cannot index into an inner ragged dimension.")
    if key != _ALL:
        if not all(isinstance(end, int | None) for end in (key.start, key.stop)):
            raise not_there("a RaggedTensor's columns between tensors", "between integers they are")
        tensor = _sliced(tensor, key)
    return tensor.with_values(_columns(tensor.values, inner))


def _sliced(tensor: RaggedTensor, key: slice) -> RaggedTensor:
    """The same slice of each row."""
    starts, limits = tensor.row_splits[:-1], tensor.row_splits[1:]
    is_forward = key.step is None or key.step >= 0
    lowest, highest = (starts, limits) if is_forward else (starts - 1, limits - 1)

    def end(offset: int | None, is_first: bool) -> Any:
        if offset is None:
            if is_forward:
                return starts if is_first else limits
            return limits - 1 if is_first else starts - 1
        moved = tf.cast(offset, starts.dtype)
        return tf.minimum(starts + moved, highest) if offset >= 0 else tf.maximum(limits + moved, lowest)

    return _between(tensor.values, end(key.start, True), end(key.stop, False), key.step)


def _between(values: Any, starts: Any, limits: Any, step: Any) -> RaggedTensor:
    """Rows of the values from each start to its limit.  Raises TypeError for a step that is no integer."""
    step = tf.convert_to_tensor(1 if step is None else step, name="step")
    if not step.dtype.is_integer:
        raise TypeError("slice strides must be integers or None")
    places = ragged_range(starts, limits, tf.cast(step, starts.dtype), row_splits_dtype=starts.dtype)
    return places.with_values(tf.gather(values, places.values))  # type: ignore[no-any-return]


RaggedTensor.__getitem__ = part_of  # type: ignore[misc]
