"""`tf.placeholder` and related functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from placesim.ops.attributes import UNKNOWN_RANK
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike, TensorLike
from placesim.tf1.ops.constant_values import constant_value_as_shape
from placesim.tf1.ops.conversion import constant
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import SparseTensor
from placesim.tf1.types.shapes import TensorShape


def placeholder(dtype: DTypeLike, shape: ShapeLike | None = None, name: str | None = None) -> Tensor:
    """`tf.placeholder`."""
    return gen("Placeholder")(dtype=dtype, shape=UNKNOWN_RANK if shape is None else shape, name=name)  # type: ignore[no-any-return]


def placeholder_with_default(input: TensorLike, shape: ShapeLike, name: str | None = None) -> Tensor:
    """`tf.placeholder_with_default`."""
    return gen("PlaceholderWithDefault")(input, UNKNOWN_RANK if shape is None else shape, name=name)  # type: ignore[no-any-return]


def sparse_placeholder(dtype: DTypeLike, shape: ShapeLike | None = None, name: str | None = None) -> SparseTensor:
    """`tf.sparse_placeholder`: placeholders of values, indices and, if not given, the shape."""
    from placesim.tf1.types import dtypes

    known: TensorShape | None
    if isinstance(shape, Tensor):
        known, rank = constant_value_as_shape(shape), shape.shape[0].value if shape.shape.rank is not None else None
    else:
        known = None if shape is None else TensorShape(shape)
        rank = None if known is None else known.rank

    def named(part: str) -> str | None:
        return f"{name}/{part}" if name else None

    if isinstance(shape, Tensor):
        dense: Any = placeholder_with_default(shape, shape.shape, named("shape"))
    elif known is not None and known.sizes is not None:
        sizes = constant(np.array(known.sizes, np.int64), name=named("shape_default") or "Const")
        dense = placeholder_with_default(sizes, [rank], named("shape"))
    else:
        dense = placeholder(dtypes.int64, [rank], named("shape"))
    values = placeholder(dtype, [None], named("values"))
    found = SparseTensor(placeholder(dtypes.int64, [None, rank], named("indices")), values, dense)
    if known is not None:
        found.set_shape(known)
    return found
