"""States of cells: sizes, types, and zero states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.constant_values import constant_value
from placesim.tf1.ops.conversion import constant
from placesim.tf1.types import nest
from placesim.tf1.types.shapes import TensorShape, as_shape

tf = namespace("")


def _as_vector(part: Any) -> Any:
    """Sizes, or a tensor of them, as a vector; None if some are unknown."""
    if isinstance(part, Tensor):
        if part.shape.rank == 0:
            return tf.expand_dims(part, 0)
        if part.shape.rank == 1:
            return part
        raise ValueError(f"Prefix tensor must be either a scalar or vector, but received tensor: {part}")
    sizes = sizes_of(part)
    return None if None in sizes else constant(sizes, dtype="int32")


def joined_sizes(prefix: object, suffix: object) -> Any:
    """Concatenated sizes as a tensor.  Raises ValueError if one is unknown."""
    parts = [_as_vector(prefix), _as_vector(suffix)]
    if any(part is None for part in parts):
        raise ValueError(f"Prefix or suffix can't be None. Received prefix = {prefix} and suffix = {suffix}")
    return tf.concat(parts, 0)


def joined_shape(prefix: Any, suffix: Any) -> TensorShape:
    """Static shape of `joined_sizes`.  It makes constants that nothing reads, as TensorFlow does."""
    shape = TensorShape([])
    for part in (prefix, suffix):
        vector = _as_vector(part)
        if isinstance(part, Tensor):
            value = constant_value(vector)
            if value is not None:
                known: Any = value.tolist()
            else:
                known = [None] * (part.shape.num_elements() or 0) if part.shape.rank == 1 else [None]
        else:
            known = sizes_of(part)
        shape = shape.concatenate(known)
    return shape


def zeros_of(sizes: TensorLike, batch: object, dtype: DTypeLike) -> Any:
    """Zeros `[batch, *size]` for each size, in the structure of the sizes."""

    def zeros(size: TensorLike) -> Any:
        made = tf.zeros(joined_sizes(batch, size), dtype=dtype)
        made.set_shape(joined_shape(batch, size))
        return made

    return nest.map_structure(zeros, sizes)


def state_dtype(given: object, state: Any) -> Any:
    """Given type, else the common type of the state's parts.  Raises ValueError if they differ or there are none."""
    if given is not None:
        return given
    if not nest.is_nested(state):
        return state.dtype
    found = [leaf.dtype for leaf in nest.flatten(state)]
    if not found:
        raise ValueError(f"Unable to infer dtype from argument state={state}.")
    if any(dtype != found[0] for dtype in found):
        raise ValueError(
            f"Argument state={state} has tensors of different inferred dtypes. Unable to infer a single representative dtype. "
            f"Dtypes received: {found}"
        )
    return found[0]


def batch_size_of(inputs: Sequence[Tensor], axis: int = 1) -> Any:
    """Number of sequences: a number if the static shape of one of the inputs has it, else a tensor.

    `axis` is the batch dimension: 1 in time-major inputs, 0 in inputs of one step.
    """
    for value in inputs:
        if value.shape.rank is not None and value.shape.rank > axis and value.shape.as_list()[axis] is not None:
            return value.shape.as_list()[axis]
    return tf.shape(inputs[0])[axis]


def sizes_of(size: Any) -> list[int | None]:
    """A size as dimensions without the batch."""
    return as_shape(size).as_list() if isinstance(size, TensorShape | list | tuple) else [size]
