"""Shapes of tensors, and functions that reshape, join and split tensors."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike, TensorLike, is_ragged
from placesim.tf1.math.casting import cast
from placesim.tf1.ops.arguments import renamed
from placesim.tf1.ops.constant_values import constant_value, set_static_shape
from placesim.tf1.ops.conversion import constant, convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import SparseTensor
from placesim.tf1.types import dtypes
from placesim.tf1.types.dimensions import Dimension
from placesim.tf1.types.shapes import TensorShape

# --- shapes ---------------------------------------------------------------------------------------------------------


def shape(input: TensorLike, name: str | None = None, out_type: DTypeLike | None = None) -> Any:
    """`tf.shape`: a Const if the static shape is known."""
    return shape_of(input, name, True, dtypes.int32 if out_type is None else out_type)


def shape_of(input: TensorLike, name: str | None = None, optimize: bool = True, out_type: DTypeLike | None = None) -> Any:
    """Shape of a tensor.  With `optimize`, a known shape is a Const, in a nested scope if no type is given."""
    kind = dtypes.int32 if out_type is None else dtypes.as_dtype(out_type)
    with name_scope(name, "Shape", [input]) as scope:
        if isinstance(input, SparseTensor):
            return cast(input.dense_shape, kind)
        x = convert_to_tensor(input)
        if optimize and x.shape.is_fully_defined():
            if out_type is None:
                return convert_to_tensor(x.shape)
            return constant(x.shape.as_list(), kind, [len(x.shape)], name=scope)
        return gen("Shape")(x, kind, name=scope)


def size(input: TensorLike, name: str | None = None, out_type: DTypeLike | None = None) -> Any:
    """`tf.size`: a Const if the static shape is known."""
    kind = dtypes.int32 if out_type is None else dtypes.as_dtype(out_type)
    with name_scope(name, "Size", [input]) as scope:
        if isinstance(input, SparseTensor):
            return gen("Prod")(cast(input.dense_shape, kind), 0, name=scope)
        x = convert_to_tensor(input)
        if x.shape.is_fully_defined():
            return constant(x.shape.num_elements(), kind, name=scope)
        if x.sizes and 0 in x.sizes:
            return constant(0, kind, name=scope)
        return gen("Size")(x, kind, name=scope)


def size_along(tensor: Tensor, axis: int) -> Any:
    """Size of a dimension: a number if known, else a tensor."""
    known = tensor.shape.as_list()[axis]
    return shape(tensor)[axis] if known is None else known


def rank(input: TensorLike, name: str | None = None) -> Any:
    """`tf.rank`: a Const if the static rank is known."""
    with name_scope(name, "Rank", [input]) as scope:
        if isinstance(input, SparseTensor):
            return gen("Size")(input.dense_shape, name=scope)
        x = convert_to_tensor(input)
        if x.shape.rank is not None:
            return constant(x.shape.rank, dtypes.int32, name=scope)
        return gen("Rank")(x, name=scope)


def broadcast_static_shape(shape_x: object, shape_y: object) -> TensorShape:
    """`tf.broadcast_static_shape`.  Raises ValueError."""
    from placesim.ops.kernels.shapes import ShapeError, broadcast

    one, two = TensorShape(shape_x), TensorShape(shape_y)
    try:
        return TensorShape.of(broadcast(one.sizes, two.sizes))
    except ShapeError:
        raise ValueError(
            f"Incompatible shapes for broadcasting. Two shapes are compatible if for each dimension pair they are "
            f"either equal or one of them is 1. Received: {one} and {two}."
        ) from None


def broadcast_dynamic_shape(shape_x: object, shape_y: object) -> Any:
    """`tf.broadcast_dynamic_shape`."""
    return gen("BroadcastArgs")(shape_x, shape_y)


# --- reshaping ------------------------------------------------------------------------------------------------------


def reshape(tensor: TensorLike, shape: ShapeLike, name: str | None = None) -> Any:
    """`tf.reshape`."""
    found = gen("Reshape")(tensor, shape, name=name)
    set_static_shape(found, found.op.inputs[1])
    return found


def expand_dims(input: TensorLike, axis: TensorLike | None = None, name: str | None = None, dim: object = None) -> Any:
    """`tf.expand_dims`."""
    axis = renamed("axis", axis, "dim", dim)
    if axis is None:
        raise ValueError("Must specify an axis argument to tf.expand_dims()")
    return gen("ExpandDims")(input, axis, name=name)


def squeeze(input: TensorLike, axis: TensorLike | None = None, name: str | None = None, squeeze_dims: object = None) -> Any:
    """`tf.squeeze`."""
    axis = renamed("axis", axis, "squeeze_dims", squeeze_dims)
    if axis is not None and np.isscalar(axis):
        axis = [axis]
    return gen("Squeeze")(input, axis, name=name)


def transpose(a: TensorLike, perm: TensorLike | None = None, name: str = "transpose", conjugate: bool = False) -> Any:
    """`tf.transpose`; without `perm`, reverse the order of axes."""
    with name_scope(name, "transpose", [a]) as scope:
        if not isinstance(a, Tensor):
            a = convert_to_tensor(a, name="a")
        op = gen("ConjugateTranspose" if conjugate and a.dtype.is_complex else "Transpose")
        if perm is None:
            known = a.shape.rank
            perm = gen("Range")(gen("Rank")(a) - 1, -1, -1) if known is None else np.arange(known - 1, -1, -1, dtype=np.int32)
        return op(a, perm, name=scope)


def matrix_transpose(a: TensorLike, name: str = "matrix_transpose", conjugate: bool = False) -> Any:
    """`tf.linalg.matrix_transpose`: swap the last two axes."""
    with name_scope(name, "matrix_transpose", [a]):
        a = convert_to_tensor(a, name="a")
        known = a.shape.rank
        if known is None:
            count = gen("Rank")(a)
            outer = gen("Range")(0, count - 2, 1)
            perm = concat((outer, [count - 1, count - 2]), 0)
        else:
            if known < 2:
                raise ValueError(
                    f"Argument `a` should be a (batch) matrix with rank >= 2.  Received `a` = {a} with shape: {a.shape}"
                )
            perm = [*np.arange(known - 2).tolist(), known - 1, known - 2]
        return transpose(a, perm, conjugate=conjugate)


# --- joining and splitting ------------------------------------------------------------------------------------------


def concat(values: Any, axis: TensorLike, name: str = "concat") -> Any:
    """`tf.concat`; for one tensor, an Identity."""
    if any(map(is_ragged, values if isinstance(values, list | tuple) else [values])):
        from placesim.tf1.ragged.joining import concat as join_rows  # few scripts have ragged tensors

        return join_rows(values, axis, None if name == "concat" else name)  # type: ignore[arg-type]
    if not isinstance(values, list | tuple):
        values = [values]
    if len(values) == 1:
        with name_scope(name):
            convert_to_tensor(axis, dtypes.int32, name="concat_dim").shape.assert_has_rank(0)
            return gen("Identity")(values[0], name=name)
    return gen("ConcatV2")(values, axis, name=name)


def stack(values: Any, axis: int = 0, name: str = "stack") -> Any:
    """`tf.stack`; along the first axis, constants become one Const."""
    if any(map(is_ragged, values if isinstance(values, list | tuple) else [values])):
        from placesim.tf1.ragged.joining import stack as stack_rows

        return stack_rows(values, axis, None if name == "stack" else name)
    if axis == 0:
        try:
            return convert_to_tensor(values, name=name)
        except (TypeError, ValueError, NotImplementedError):
            pass  # Pack raises the error for tensors that do not match
    known = convert_to_tensor(values[0], name=name).shape.rank
    if known is not None and not -(known + 1) <= axis < known + 1:
        raise ValueError(f"Argument `axis` = {axis} not in range [{-(known + 1)}, {known + 1})")
    return gen("Pack")(values, axis=axis, name=name)


def parallel_stack(values: Any, name: str = "parallel_stack") -> Any:
    """`tf.parallel_stack`."""
    with name_scope(name):
        first = convert_to_tensor(values[0]).shape
        found = TensorShape([len(values)]).concatenate(first)
        return gen("ParallelConcat")([expand_dims(value, 0) for value in values], shape=found)


def unstack(value: Any, num: Any = None, axis: int = 0, name: str = "unstack") -> Any:
    """`tf.unstack`."""
    if num is None:
        value = convert_to_tensor(value)
        known = value.shape.rank
        if known is not None:
            if axis < -known or axis >= known:
                raise ValueError(f"Argument `axis` = {axis} not in range [{-known}, {known})")
            num = value.shape.dims[axis].value
        if num is None:
            raise ValueError(f"Cannot infer argument `num` from shape {value.shape}")
    return gen("Unpack")(value, num=num, axis=axis, name=name)


def split(
    value: TensorLike, num_or_size_splits: TensorLike, axis: TensorLike = 0, num: object = None, name: str = "split"
) -> Any:
    """`tf.split`: split into a number of equal parts, or into parts of given sizes."""
    if isinstance(num_or_size_splits, numbers.Integral | Dimension):
        return gen("Split")(axis=axis, num_split=int(num_or_size_splits), value=value, name=name)
    sizes = convert_to_tensor(num_or_size_splits)
    if sizes.shape.rank == 0:
        raise ValueError(
            f"Rank-0 tensors are not supported as the num_or_size_splits argument to split. Argument provided: "
            f"{num_or_size_splits}"
        )
    if num is None:
        num = sizes.shape.dims[0].value if sizes.shape.rank else None  # type: ignore[index]
        if num is None:
            raise ValueError(
                f"Cannot infer argument `num` from shape {num_or_size_splits}. Got a dynamic shape for num_or_size_splits."
            )
    return gen("SplitV")(value=value, size_splits=sizes, axis=axis, num_split=num, name=name)


def pad(
    tensor: TensorLike, paddings: TensorLike, mode: str = "CONSTANT", name: str | None = None, constant_values: Any = 0
) -> Any:
    """`tf.pad`."""
    mode = mode.upper()
    if mode == "CONSTANT":
        is_zero = not isinstance(constant_values, Tensor) and np.ndim(constant_values) == 0 and not constant_values
        if is_zero:
            found = gen("Pad")(tensor, paddings, name=name)
        else:
            found = gen("PadV2")(tensor, paddings, constant_values, name=name)
    elif mode in ("REFLECT", "SYMMETRIC"):
        found = gen("MirrorPad")(tensor, paddings, mode=mode, name=name)
    else:
        raise ValueError(
            f'Value of argument `mode` expected to be one of "CONSTANT", "REFLECT", or "SYMMETRIC". Received `mode` = {mode}'
        )
    static, known = found.op.inputs[0].shape, constant_value(found.op.inputs[1], partial=True)
    if static.rank is not None and not found.shape.is_fully_defined() and known is not None:
        sizes = [
            None if dim is None or pair is None or any(part is None for part in pair) else dim + int(pair[0]) + int(pair[1])
            for pair, dim in zip(known, static.as_list(), strict=True)
        ]
        found.set_shape(sizes)
    return found


def identity(input: TensorLike, name: str | None = None) -> Any:
    """`tf.identity`."""
    if isinstance(input, SparseTensor):
        return SparseTensor(*(identity(part, name) for part in (input.indices, input.values, input.dense_shape)))
    return gen("Identity")(input, name=name)
