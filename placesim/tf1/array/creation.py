"""New tensors: zeros, ones, ranges, one-hot rows, diagonals and grids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from placesim.tf1.array.shaping import concat, reshape, shape_of, size, stack
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike, TensorLike
from placesim.tf1.math.casting import cast
from placesim.tf1.ops.constant_values import set_static_shape
from placesim.tf1.ops.conversion import constant, convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types import dtypes
from placesim.tf1.types.dimensions import Dimension, dimension_value
from placesim.tf1.types.dtypes import DType
from placesim.tf1.types.shapes import TensorShape

_CONST_ELEMENTS = 1000
"""A tensor of equal elements is a Const if it has fewer elements than this, else a Fill."""


def shape_tensor(shape: ShapeLike) -> Tensor:
    """Convert a shape to a tensor named `shape`, int32 if empty."""
    dtype = None
    if isinstance(shape, list | tuple):
        dtype = None if shape else dtypes.int32
        shape = tuple(dimension_value(dim) for dim in shape)
    return convert_to_tensor(shape, dtype, name="shape")


def fill(dims: ShapeLike, value: TensorLike, name: str | None = None, layout: object = None) -> Tensor:
    """`tf.fill`."""
    found: Tensor = gen("Fill")(dims, value, name=name)
    set_static_shape(found, found.op.inputs[0])
    return found


def _filled(word: str, shape: Any, dtype: DTypeLike, name: str | None, value_of: Callable[[DType], TensorLike]) -> Tensor:
    kind = dtypes.as_dtype(dtype).base_dtype
    with name_scope(name, word, [shape]) as scope:
        value = value_of(kind)
        if not isinstance(shape, Tensor):
            try:
                small = _small_constant(value, shape, kind, scope)
                if small is not None:
                    return small
                shape = convert_to_tensor(TensorShape(shape))
            except (TypeError, ValueError):  # some sizes are tensors, or invalid
                shape = convert_to_tensor(shape, dtypes.int32)
        if not shape.shape.rank:  # the size of a vector, or a shape of unknown rank
            shape = gen("Reshape")(shape, [-1])
        return fill(shape, constant(value, kind), name=scope)


def _small_constant(value: TensorLike, shape: Any, kind: dtypes.DType, name: str) -> Tensor | None:
    """A Const of equal elements; None if there are too many, or if the shape is no list of numbers."""
    dims = shape if isinstance(shape, list | tuple) else ()
    if any(isinstance(dim, Tensor) or hasattr(dim, "_as_graph_element") for dim in dims):
        return None
    try:
        if np.prod(np.array([dimension_value(dim) for dim in shape], np.float64)) < _CONST_ELEMENTS:
            return constant(value, kind, shape, name=name)
    except TypeError:
        pass  # the shape is one number, or the value has another type
    return None


def _zero(kind: dtypes.DType) -> Any:
    if kind is dtypes.bool_:
        return False
    return "" if kind is dtypes.string else 0


def zeros(shape: ShapeLike, dtype: DTypeLike = dtypes.float32, name: str | None = None, layout: object = None) -> Tensor:
    """`tf.zeros`: a Const of fewer than 1000 elements, else a Fill."""
    return _filled("zeros", shape, dtype, name, _zero)


def ones(shape: ShapeLike, dtype: DTypeLike = dtypes.float32, name: str | None = None, layout: object = None) -> Tensor:
    """`tf.ones`: a Const of fewer than 1000 elements, else a Fill."""
    return _filled("ones", shape, dtype, name, lambda kind: kind is dtypes.bool_ or 1)


def zeros_like(tensor: TensorLike, dtype: DTypeLike | None = None, name: str | None = None, optimize: bool = True) -> Tensor:
    """`tf.zeros_like`: constant zeros if the static shape is known."""
    return _like(zeros, "ZerosLike", "zeros_like", tensor, dtype, name, optimize)


def ones_like_v2(input: TensorLike, dtype: DTypeLike | None = None, name: str | None = None) -> Tensor:
    """`tf.compat.v2.ones_like`: constant ones if the static shape is known."""
    return _like(ones, "OnesLike", "ones_like", input, dtype, name)


def _like(
    make: Callable[..., Tensor],
    op: str,
    word: str,
    tensor: TensorLike,
    dtype: DTypeLike | None,
    name: str | None,
    optimize: bool = True,
) -> Tensor:
    with name_scope(name, word, [tensor]) as scope:
        tensor = convert_to_tensor(tensor, name="tensor")
        kind = tensor.dtype.base_dtype
        wanted = kind if dtype is None else dtypes.as_dtype(dtype)
        if optimize and tensor.shape.is_fully_defined() and kind is not dtypes.variant:
            return make(tensor.shape, wanted, scope)
        if wanted is not kind and kind is not dtypes.variant:
            return make(shape_of(tensor, optimize=optimize), wanted, scope)
        return gen(op)(tensor, name=scope)  # type: ignore[no-any-return]


def ones_like(tensor: TensorLike, dtype: DTypeLike | None = None, name: str | None = None, optimize: bool = True) -> Tensor:
    """`tf.ones_like`: ones of the tensor's shape."""
    with name_scope(name, "ones_like", [tensor]) as scope:
        tensor = convert_to_tensor(tensor, name="tensor")
        shape = shape_of(tensor, optimize=optimize)
        found = ones(shape, tensor.dtype.base_dtype if dtype is None else dtype, scope)
        found.set_shape(tensor.shape)
        return found


_RANGE_TYPES = ("int32", "int64", "float16", "bfloat16", "float32", "float64")


def range(
    start: Any, limit: Any = None, delta: TensorLike = 1, dtype: DTypeLike | None = None, name: str | None = "range"
) -> Tensor:
    """`tf.range`."""
    if limit is None:
        start, limit = 0, start
    with name_scope(name, "Range", [start, limit, delta]) as scope:
        parts = [
            value if isinstance(value, Tensor) else convert_to_tensor(value, dtype, name=word)
            for word, value in (("start", start), ("limit", limit), ("delta", delta))
        ]
        if dtype is None:
            kinds = [part.dtype.base_dtype for part in parts]
            for kind in kinds:
                if kind.name not in _RANGE_TYPES:
                    raise ValueError(f"{kind!r} is not in list")
            found = max(kinds, key=lambda kind: _RANGE_TYPES.index(kind.name))
        else:
            found = dtypes.as_dtype(dtype)
        return gen("Range")(*[cast(part, found) for part in parts], name=scope)  # type: ignore[no-any-return]


def one_hot(
    indices: TensorLike,
    depth: TensorLike,
    on_value: TensorLike | None = None,
    off_value: TensorLike | None = None,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """`tf.one_hot`."""
    with name_scope(name, "one_hot", [indices, depth, on_value, off_value, axis, dtype]) as scope:
        given = {"on_value": on_value, "off_value": off_value}
        found: dict[str, Tensor] = {}
        for word, value in given.items():
            if value is not None:
                found[word] = convert_to_tensor(value, dtype_hint=dtype)
        kinds = {word: tensor.dtype.base_dtype for word, tensor in found.items()}
        if dtype is not None:
            for word, kind in kinds.items():
                if kind is not dtypes.as_dtype(dtype):
                    raise TypeError(f"dtype {kind} of {word} does not match dtype parameter {dtype}")
        elif kinds:
            dtype = next(iter(kinds.values()))
        kind = dtypes.float32 if dtype is None else dtypes.as_dtype(dtype)
        for word, value in (("on_value", 1), ("off_value", 0)):
            if word not in found:
                found[word] = convert_to_tensor(value, kind, name=word)
        on, off = found["on_value"], found["off_value"]
        if on.dtype.base_dtype is not off.dtype.base_dtype:
            raise TypeError(f"dtype {on.dtype} of on_value does not match dtype {off.dtype} of off_value")
        return gen("OneHot")(indices, depth, on, off, -1 if axis is None else axis, name=scope)  # type: ignore[no-any-return]


def eye(
    num_rows: Any, num_columns: Any = None, batch_shape: Any = None, dtype: DTypeLike = dtypes.float32, name: str | None = None
) -> Tensor:
    """`tf.eye`."""
    with name_scope(name, "eye", [num_rows, num_columns, batch_shape]):
        is_square = num_columns is None or (isinstance(num_columns, int) and num_columns == num_rows)
        batch = [] if batch_shape is None else batch_shape
        columns = num_rows if num_columns is None else num_columns
        if isinstance(num_rows, Tensor) or isinstance(columns, Tensor):
            size = gen("Minimum")(num_rows, columns)
        else:
            for word, value in (("num_rows", num_rows), ("num_columns", columns)):
                if not isinstance(value, int | np.integer | Dimension):
                    raise TypeError(f"Argument `{word}` must be an integer. Received: {value}")
                if value < 0:
                    raise ValueError(f"Argument `{word}` must be non-negative. Received: {value}")
            size = np.minimum(int(num_rows), int(columns))
        if isinstance(batch, Tensor) or isinstance(size, Tensor):
            batch = convert_to_tensor(batch, dtypes.int32, name="shape")
            shape, whole = concat((batch, [size]), 0), None
        else:
            shape, whole = (*batch, size), (*batch, num_rows, columns)
        diagonal = ones(shape, dtype)
        if is_square:
            return matrix_diag(diagonal)
        if whole is None:
            whole = concat((batch, [num_rows, columns]), 0)
        return matrix_set_diag(zeros(whole, dtype), diagonal)


def matrix_diag(
    diagonal: TensorLike,
    name: str = "diag",
    k: object = 0,
    num_rows: object = -1,
    num_cols: object = -1,
    padding_value: object = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """`tf.linalg.diag`."""
    if getattr(diagonal, "dtype", None) is dtypes.bool_:
        padding_value = bool(padding_value)
    return gen("MatrixDiagV3")(  # type: ignore[no-any-return]
        diagonal, k, num_rows, num_cols, padding_value, align=align, name=name
    )


def matrix_diag_part(
    input: TensorLike, name: str = "diag_part", k: object = 0, padding_value: object = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """`tf.linalg.diag_part`."""
    if getattr(input, "dtype", None) is dtypes.bool_:
        padding_value = bool(padding_value)
    return gen("MatrixDiagPartV3")(input, k, padding_value, align=align, name=name)  # type: ignore[no-any-return]


def matrix_set_diag(
    input: TensorLike, diagonal: TensorLike, name: str = "set_diag", k: object = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """`tf.linalg.set_diag`."""
    return gen("MatrixSetDiagV3")(input, diagonal, k, align=align, name=name)  # type: ignore[no-any-return]


def meshgrid(*args: TensorLike, **kwargs: object) -> list[Tensor]:
    """`tf.meshgrid`."""
    indexing, name = kwargs.pop("indexing", "xy"), kwargs.pop("name", "meshgrid")
    if kwargs:
        key = next(iter(kwargs))
        raise TypeError(f"'{key}' is an invalid keyword argument for this function")
    if indexing not in ("xy", "ij"):
        raise ValueError(f"Argument `indexing` parameter must be either 'xy' or 'ij', got '{indexing}'")
    with name_scope(name, "meshgrid", args):
        count = len(args)
        if not count:
            return []
        single = (1,) * count
        outputs = [reshape(stack(x), (*single[:i], -1, *single[i + 1 :])) for i, x in enumerate(args)]
        sizes = [size(x) for x in args]
        kind = convert_to_tensor(args[0]).dtype.base_dtype
        if indexing == "xy" and count > 1:
            outputs[0] = reshape(outputs[0], (1, -1, *(1,) * (count - 2)))
            outputs[1] = reshape(outputs[1], (-1, 1, *(1,) * (count - 2)))
            sizes[0], sizes[1] = sizes[1], sizes[0]
        factor = ones(sizes, kind)
        return [x * factor for x in outputs]
