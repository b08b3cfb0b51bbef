"""`tf.sets`: operations on sets, which are the last dimensions of dense or sparse tensors."""

from __future__ import annotations

from typing import Any

from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import SparseTensor, convert_to_tensor_or_sparse_tensor
from placesim.tf1.types import dtypes, nest

_ELEMENTS = tuple(getattr(dtypes, name) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "string"))
"""The types that sets may have."""


def set_size(a: Any, validate_indices: bool = True) -> Any:
    """`tf.sets.size`: number of elements of each set."""
    a = convert_to_tensor_or_sparse_tensor(a, name="a")
    if not isinstance(a, SparseTensor):
        raise TypeError(f"Expected `SparseTensor`, got {a}.")
    if a.values.dtype.base_dtype not in _ELEMENTS:
        raise TypeError(f"Invalid dtype `{a.values.dtype}` not in supported dtypes: `{frozenset(_ELEMENTS)}`.")
    return gen("SetSize")(a.indices, a.values, a.dense_shape, validate_indices)


def _operation(kind: str, a: TensorLike, b: TensorLike, validate_indices: bool) -> SparseTensor:
    """An operation on two sets; after `_checked`, a dense set comes first and a sparse set second."""
    parts = [part for item in (a, b) for part in (nest.components(item) if isinstance(item, SparseTensor) else [item])]
    op = "To".join("Sparse" if isinstance(item, SparseTensor) else "Dense" for item in (a, b)) + "SetOperation"
    return SparseTensor(*gen(op)(*parts, kind, validate_indices))


def _checked(a: Any, b: Any) -> tuple[Any, Any, bool]:
    """Both sets in an order for which an op exists, and whether they were swapped.  Raises TypeError."""
    a = convert_to_tensor_or_sparse_tensor(a, name="a")
    if a.dtype.base_dtype not in _ELEMENTS:
        raise TypeError(f"'a' has invalid dtype `{a.dtype}` not in supported dtypes: `{frozenset(_ELEMENTS)}`.")
    b = convert_to_tensor_or_sparse_tensor(b, name="b")
    if b.dtype.base_dtype != a.dtype.base_dtype:
        raise TypeError(f"Types don't match, {a.dtype} vs {b.dtype}.")
    if isinstance(a, SparseTensor) and not isinstance(b, SparseTensor):
        return b, a, True
    return a, b, False


def set_intersection(a: TensorLike, b: TensorLike, validate_indices: bool = True) -> SparseTensor:
    """`tf.sets.intersection`: elements in both sets."""
    a, b, _ = _checked(a, b)
    return _operation("intersection", a, b, validate_indices)


def set_union(a: TensorLike, b: TensorLike, validate_indices: bool = True) -> SparseTensor:
    """`tf.sets.union`: elements in either set."""
    a, b, _ = _checked(a, b)
    return _operation("union", a, b, validate_indices)


def set_difference(a: TensorLike, b: TensorLike, aminusb: bool = True, validate_indices: bool = True) -> SparseTensor:
    """`tf.sets.difference`: elements of `a` not in `b`, or with `aminusb=False` the reverse."""
    a, b, flipped = _checked(a, b)
    return _operation("a-b" if aminusb != flipped else "b-a", a, b, validate_indices)
