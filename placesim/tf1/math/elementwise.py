"""Elementwise arithmetic, and sums of tensors."""

from __future__ import annotations

import math as numbers
from collections.abc import Iterable
from typing import Any

from placesim.tf1.array.creation import ones_like, zeros_like
from placesim.tf1.array.parts import where
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor import SymbolicTensor, Tensor
from placesim.tf1.graphs.tensor_likes import ShapeLike, TensorLike
from placesim.tf1.math.casting import cast
from placesim.tf1.ops.arguments import renamed
from placesim.tf1.ops.conversion import convert_n_to_tensor, convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import IndexedSlices
from placesim.tf1.types import dtypes


def add(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """`tf.add`."""
    # AddV2 does not accept strings, which Add concatenates
    if x.__class__ is SymbolicTensor and y.__class__ is SymbolicTensor:
        return gen("Add" if x.dtype is dtypes.string else "AddV2")(x, y, name="Add" if name is None else name)
    with name_scope(name, "Add", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        y = convert_to_tensor(y, dtype_hint=x.dtype.base_dtype, name="y")
        return gen("Add" if x.dtype is dtypes.string else "AddV2")(x, y, name=scope)


def _sum(x: Tensor, y: TensorLike, name: str | None = None) -> Any:
    """`x + y`."""
    y = convert_to_tensor(y, dtype_hint=x.dtype.base_dtype, name="y")
    return gen("Add" if x.dtype.base_dtype is dtypes.string else "AddV2")(x, y, name=name)


def _product(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """`x * y`; logical tensors are multiplied as integers."""
    if any(isinstance(each, Tensor) and each.dtype.base_dtype is dtypes.bool_ for each in (x, y)):
        integers = [gen("Cast")(each, DstT=dtypes.int32) for each in (x, y)]
        return gen("Cast")(gen("Mul")(*integers, name=name), DstT=dtypes.bool_)
    return gen("Mul")(x, y, name=name)


def _pair(x: TensorLike, y: TensorLike) -> tuple[Tensor, Tensor]:
    x = convert_to_tensor(x, name="x")
    return x, convert_to_tensor(y, dtype_hint=x.dtype.base_dtype, name="y")


def _same_types(x: Tensor, y: Tensor) -> dtypes.DType:
    one, two = x.dtype.base_dtype, y.dtype.base_dtype
    if one is not two:
        raise TypeError(f"`x` and `y` must have the same dtype, got {one!r} != {two!r}.")
    return one


_DIVIDED_AS = {
    **dict.fromkeys(("uint8", "int8", "uint16", "int16"), dtypes.float32),
    **dict.fromkeys(("uint32", "int32", "uint64", "int64"), dtypes.float64),
    **dict.fromkeys(("bfloat16", "float16", "float32", "float64", "complex64", "complex128")),
}
"""Type to which operands of a true division are cast; None for no cast."""


def _true_quotient(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    with name_scope(name, "truediv", [x, y]) as scope:
        x, y = _pair(x, y)
        dtype = _same_types(x, y)
        if dtype.name not in _DIVIDED_AS:
            allowed = ", ".join(repr(dtypes.as_dtype(known)) for known in _DIVIDED_AS)
            raise TypeError(f"Invalid dtype {dtype!r} in __truediv__. Expected one of {{{allowed}}}.")
        wanted = _DIVIDED_AS[dtype.name]
        if wanted is not None:
            x, y = cast(x, wanted), cast(y, wanted)
        return gen("RealDiv")(x, y, name=scope)


def _quotient_by_type(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    with name_scope(name, "div", [x, y]) as scope:
        x = convert_to_tensor(x, name="x")
        y = convert_to_tensor(y, x.dtype.base_dtype, name="y")
        dtype = _same_types(x, y)
        return gen("RealDiv" if dtype.is_floating or dtype.is_complex else "FloorDiv")(x, y, name=scope)


div, truediv = _quotient_by_type, _true_quotient


def divide(x: Any, y: Any, name: str | None = None) -> Any:
    """`tf.divide`: `x / y`, in the name scope `name` if given."""
    if name is not None:
        return _true_quotient(x, y, name)
    if not hasattr(x, "_as_graph_element") and not isinstance(x, Tensor):
        x = convert_to_tensor(x, y.dtype.base_dtype if isinstance(y, Tensor) else None)
    return x / y


def _scoped(op: str, word: str, is_hint: bool = True) -> Any:
    """Make a function of two arguments that converts them in the name scope `word`."""

    def call(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
        with name_scope(name, word, [x, y]) as scope:
            x = convert_to_tensor(x, name="x")
            kind = x.dtype.base_dtype
            y = convert_to_tensor(y, None if is_hint else kind, "y", kind if is_hint else None)
            return gen(op)(x, y, name=scope)

    return call


div_no_nan = divide_no_nan = _scoped("DivNoNan", "div_no_nan")
multiply_no_nan = _scoped("MulNoNan", "multiply_no_nan", is_hint=False)


def floordiv(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """`tf.floordiv`."""
    with name_scope(name, "floordiv", [x, y]) as scope:
        return gen("FloorDiv")(x, y, name=scope)


def pow(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """`tf.pow`."""
    with name_scope(name, "Pow", [x]) as scope:
        return gen("Pow")(x, y, name=scope)


def xdivy(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """`tf.math.xdivy`."""
    with name_scope(name, "xdivy", [x]):
        return gen("Xdivy")(x, y)


def xlog1py(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """`tf.math.xlog1py`."""
    with name_scope(name, "xlog1py", [x]):
        return gen("Xlog1py")(x, y)


def _and(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    return gen("LogicalAnd")(x, y, name=name) if x.dtype.base_dtype is dtypes.bool_ else gen("BitwiseAnd")(x, y)


def _or(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    return gen("LogicalOr")(x, y, name=name) if x.dtype.base_dtype is dtypes.bool_ else gen("BitwiseOr")(x, y)


def _xor(x: Tensor, y: TensorLike, name: str | None = None) -> Any:
    if x.dtype.base_dtype is dtypes.bool_:
        return logical_xor(x, y, "LogicalXor" if name is None else name)
    return gen("BitwiseXor")(x, y)


def logical_xor(x: TensorLike, y: TensorLike, name: str = "LogicalXor") -> Any:
    """`tf.logical_xor`: either but not both."""
    either = gen("LogicalOr")(x, y)
    return gen("LogicalAnd")(either, gen("LogicalNot")(gen("LogicalAnd")(x, y)), name=name)


# --- functions of one tensor ----------------------------------------------------------------------------------------


def abs(x: TensorLike, name: str | None = None) -> Any:
    """`tf.abs`."""
    with name_scope(name, "Abs", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        if x.dtype.is_complex:
            return gen("ComplexAbs")(x, Tout=x.dtype.real_dtype, name=scope)
        return gen("Abs")(x, name=scope)


def sign(x: TensorLike, name: str | None = None) -> Any:
    """`tf.sign`; of a complex number, the number divided by its absolute value."""
    x = convert_to_tensor(x, name="x")
    if not x.dtype.is_complex:
        return gen("Sign")(x, name=name)
    return gen("DivNoNan")(x, cast(gen("ComplexAbs")(x, Tout=x.dtype.real_dtype), x.dtype), name=name)


def round(x: TensorLike, name: str | None = None) -> Any:
    """`tf.round`: integers are returned unchanged."""
    x = convert_to_tensor(x, name="x")
    return x if x.dtype.is_integer else gen("Round")(x, name=name)


def sigmoid(x: TensorLike, name: str | None = None) -> Any:
    """`tf.sigmoid`."""
    with name_scope(name, "Sigmoid", [x]) as scope:
        return gen("Sigmoid")(convert_to_tensor(x, name="x"), name=scope)


def log_sigmoid(x: TensorLike, name: str | None = None) -> Any:
    """`tf.log_sigmoid`: `-softplus(-x)`."""
    with name_scope(name, "LogSigmoid", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        return gen("Neg")(gen("Softplus")(-x), name=scope)


def _cumulative(op: str) -> Any:
    def call(
        x: TensorLike, axis: TensorLike = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
    ) -> Any:
        with name_scope(name, op, [x]) as scope:
            return gen(op)(convert_to_tensor(x, name="x"), axis, exclusive, reverse, name=scope)

    return call


cumsum, cumprod, cumulative_logsumexp = map(_cumulative, ("Cumsum", "Cumprod", "CumulativeLogsumexp"))


def _arg(op: str) -> Any:
    def call(
        input: TensorLike,
        axis: TensorLike | None = None,
        name: str | None = None,
        dimension: object = None,
        output_type: object = dtypes.int64,
    ) -> Any:
        axis = renamed("axis", axis, "dimension", dimension)
        return gen(op)(input, 0 if axis is None else axis, output_type=output_type, name=name)

    return call


argmax, argmin = _arg("ArgMax"), _arg("ArgMin")


# --- sums of tensors ------------------------------------------------------------------------------------------------


def add_n(inputs: Any, name: str | None = None) -> Any:
    """`tf.add_n`; the sum of one tensor is the tensor itself."""
    items = list(inputs) if isinstance(inputs, Iterable) else []
    if not items:
        raise ValueError("Inputs must be an iterable of at least one Tensor/IndexedSlices with the same dtype and shape.")
    values = [item if isinstance(item, IndexedSlices) else convert_to_tensor(item) for item in items]
    if len(values) == 1:
        value = convert_to_tensor(values[0]) if isinstance(values[0], IndexedSlices) else values[0]
        return gen("Identity")(value, name=name) if name else value
    return gen("AddN")([convert_to_tensor(value) for value in values], name=name)


def accumulate_n(
    inputs: TensorLike, shape: ShapeLike | None = None, tensor_dtype: object = None, name: str | None = None
) -> Any:
    """`tf.accumulate_n`."""
    values = convert_n_to_tensor(inputs) if isinstance(inputs, list | tuple) else []
    if len({value.dtype.base_dtype for value in values}) != 1:
        raise ValueError("inputs must be a list of at least one Tensor with the same dtype and shape")
    if tensor_dtype is not None and tensor_dtype is not values[0].dtype:
        raise TypeError(
            f"The `tensor_dtype` argument is {tensor_dtype}, but `input` is of type {values[0].dtype}. These must be equal. "
            "Try casting the input to the desired type."
        )
    if len(values) == 1:
        return values[0] if name is None else gen("Identity")(values[0], name=name)
    return add_n(values, name)


def scalar_mul(scalar: Any, x: Any, name: str | None = None) -> Any:
    """`tf.scalar_mul`."""
    scalar = convert_to_tensor(scalar, x.dtype.base_dtype, name="scalar")
    if scalar.shape.rank != 0:
        raise ValueError(f"The input scalar must be a 0-D value. Received shape {scalar.shape}.")
    if isinstance(x, IndexedSlices):
        return IndexedSlices(gen("Mul")(scalar, x.values, name=name), x.indices, x.dense_shape)
    return gen("Mul")(scalar, x, name=name)


def angle(input: TensorLike, name: str | None = None) -> Any:
    """`tf.angle`."""
    with name_scope(name, "Angle", [input]) as scope:
        input = convert_to_tensor(input, name="input")
        if input.dtype.is_complex:
            return gen("Angle")(input, Tout=input.dtype.real_dtype, name=scope)
        is_negative = input < 0
        all_ones: Any = ones_like(input)
        return where(is_negative, numbers.pi * all_ones, zeros_like(input))
