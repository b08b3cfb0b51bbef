"""Arithmetic: what TensorFlow writes in Python around its ops of numbers."""

from __future__ import annotations

from typing import Any

from placesim.tf1 import dtypes
from placesim.tf1.arguments import renamed
from placesim.tf1.conversion import convert_n_to_tensor, convert_to_tensor
from placesim.tf1.generated import gen
from placesim.tf1.graph import get_default_graph
from placesim.tf1.math.reductions import (
    count_nonzero,
    reduce_all,
    reduce_any,
    reduce_euclidean_norm,
    reduce_logsumexp,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_prod,
    reduce_std,
    reduce_sum,
    reduce_variance,
)
from placesim.tf1.scopes import name_scope
from placesim.tf1.sparse.values import IndexedSlices, SparseTensor
from placesim.tf1.tensor import SymbolicTensor, Tensor


def add(x: Any, y: Any, name: str | None = None) -> Any:
    """`tf.add`."""
    if x.__class__ is SymbolicTensor and y.__class__ is SymbolicTensor:
        return gen("Add" if x.dtype is dtypes.string else "AddV2")(x, y, name="Add" if name is None else name)
    with name_scope(name, "Add", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        y = convert_to_tensor(y, dtype_hint=x.dtype.base_dtype, name="y")
        return gen("Add" if x.dtype is dtypes.string else "AddV2")(x, y, name=scope)


def _sum(x: Any, y: Any, name: str | None = None) -> Any:
    """`x + y`."""
    return gen("Add" if x.dtype.base_dtype is dtypes.string else "AddV2")(x, y, name=name)


def _pair(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    x = convert_to_tensor(x, name="x")
    return x, convert_to_tensor(y, dtype_hint=x.dtype.base_dtype, name="y")


def _same_types(x: Tensor, y: Tensor) -> dtypes.DType:
    one, two = x.dtype.base_dtype, y.dtype.base_dtype
    if one is not two:
        raise TypeError(f"`x` and `y` must have the same dtype, got {one!r} != {two!r}.")
    return one


_DIVIDED_AS = {
    **dict.fromkeys(("uint8", "int8", "int16", "uint16"), dtypes.float32),
    **dict.fromkeys(("int32", "uint32", "int64", "uint64"), dtypes.float64),
    **dict.fromkeys(("float16", "bfloat16", "float32", "float64", "complex64", "complex128")),
}
"""What a true division of these types is done in; None: themselves."""


def _true_quotient(x: Any, y: Any, name: str | None = None) -> Any:
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


def _quotient_by_type(x: Any, y: Any, name: str | None = None) -> Any:
    with name_scope(name, "div", [x, y]) as scope:
        x = convert_to_tensor(x, name="x")
        y = convert_to_tensor(y, x.dtype.base_dtype, name="y")
        dtype = _same_types(x, y)
        return gen("RealDiv" if dtype.is_floating or dtype.is_complex else "FloorDiv")(x, y, name=scope)


div, truediv = _quotient_by_type, _true_quotient


def divide(x: Any, y: Any, name: str | None = None) -> Any:
    """`tf.divide`: `x / y`, in a scope of that name if one is given."""
    if name is not None:
        return _true_quotient(x, y, name)
    if not hasattr(x, "_as_graph_element") and not isinstance(x, Tensor):
        x = convert_to_tensor(x, y.dtype.base_dtype if isinstance(y, Tensor) else None)
    return x / y


def _scoped(op: str, word: str, is_hint: bool = True) -> Any:
    """A function of two numbers that opens a scope and then makes tensors of them."""

    def call(x: Any, y: Any, name: str | None = None) -> Any:
        with name_scope(name, word, [x, y]) as scope:
            x = convert_to_tensor(x, name="x")
            kind = x.dtype.base_dtype
            y = convert_to_tensor(y, None if is_hint else kind, "y", kind if is_hint else None)
            return gen(op)(x, y, name=scope)

    return call


div_no_nan = divide_no_nan = _scoped("DivNoNan", "div_no_nan")
multiply_no_nan = _scoped("MulNoNan", "multiply_no_nan", is_hint=False)


def floordiv(x: Any, y: Any, name: str | None = None) -> Any:
    """`tf.floordiv`."""
    with name_scope(name, "floordiv", [x, y]) as scope:
        return gen("FloorDiv")(x, y, name=scope)


def pow(x: Any, y: Any, name: str | None = None) -> Any:
    """`tf.pow`."""
    with name_scope(name, "Pow", [x]) as scope:
        return gen("Pow")(x, y, name=scope)


def xdivy(x: Any, y: Any, name: str | None = None) -> Any:
    """`tf.math.xdivy`."""
    with name_scope(name, "xdivy", [x]):
        return gen("Xdivy")(x, y)


def xlog1py(x: Any, y: Any, name: str | None = None) -> Any:
    """`tf.math.xlog1py`."""
    with name_scope(name, "xlog1py", [x]):
        return gen("Xlog1py")(x, y)


def _and(x: Any, y: Any, name: str | None = None) -> Any:
    return gen("LogicalAnd" if x.dtype.base_dtype is dtypes.bool_ else "BitwiseAnd")(x, y, name=name)


def _or(x: Any, y: Any, name: str | None = None) -> Any:
    return gen("LogicalOr" if x.dtype.base_dtype is dtypes.bool_ else "BitwiseOr")(x, y, name=name)


def _xor(x: Any, y: Any, name: str | None = None) -> Any:
    if x.dtype.base_dtype is dtypes.bool_:
        return logical_xor(x, y, "LogicalXor" if name is None else name)
    return gen("BitwiseXor")(x, y, name=name)


def logical_xor(x: Any, y: Any, name: str = "LogicalXor") -> Any:
    """`tf.logical_xor`: either, but not both."""
    either = gen("LogicalOr")(x, y)
    return gen("LogicalAnd")(either, gen("LogicalNot")(gen("LogicalAnd")(x, y)), name=name)


# --- of one tensor --------------------------------------------------------------------------------------------------


def abs(x: Any, name: str | None = None) -> Any:
    """`tf.abs`."""
    with name_scope(name, "Abs", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        if x.dtype.is_complex:
            return gen("ComplexAbs")(x, Tout=x.dtype.real_dtype, name=scope)
        return gen("Abs")(x, name=scope)


def round(x: Any, name: str | None = None) -> Any:
    """`tf.round`: integers stay what they are."""
    x = convert_to_tensor(x, name="x")
    return x if x.dtype.is_integer else gen("Round")(x, name=name)


def sigmoid(x: Any, name: str | None = None) -> Any:
    """`tf.sigmoid`."""
    with name_scope(name, "Sigmoid", [x]) as scope:
        return gen("Sigmoid")(convert_to_tensor(x, name="x"), name=scope)


def log_sigmoid(x: Any, name: str | None = None) -> Any:
    """`tf.log_sigmoid`: `-softplus(-x)`."""
    with name_scope(name, "LogSigmoid", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        return gen("Neg")(gen("Softplus")(-x), name=scope)


def _ranked(op: str, word: str) -> Any:
    def call(x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Any:
        with name_scope(name, word, [x]) as scope:
            return gen(op)(convert_to_tensor(x, name="x"), axis, exclusive, reverse, name=scope)

    return call


cumsum, cumprod = _ranked("Cumsum", "Cumsum"), _ranked("Cumprod", "Cumprod")
cumulative_logsumexp = _ranked("CumulativeLogsumexp", "CumulativeLogsumexp")


def _arg(op: str) -> Any:
    def call(
        input: Any, axis: Any = None, name: str | None = None, dimension: Any = None, output_type: Any = dtypes.int64
    ) -> Any:
        axis = renamed("axis", axis, "dimension", dimension)
        return gen(op)(input, 0 if axis is None else axis, output_type=output_type, name=name)

    return call


argmax, argmin = _arg("ArgMax"), _arg("ArgMin")


# --- sums of tensors ------------------------------------------------------------------------------------------------


def add_n(inputs: Any, name: str | None = None) -> Any:
    """`tf.add_n`: the sum; of one tensor that itself."""
    if not isinstance(inputs, list | tuple) or not inputs:
        raise ValueError("Inputs must be an iterable of at least one Tensor/IndexedSlices with the same dtype and shape.")
    values = [item if isinstance(item, IndexedSlices) else convert_to_tensor(item) for item in inputs]
    if len(values) == 1:
        value = convert_to_tensor(values[0]) if isinstance(values[0], IndexedSlices) else values[0]
        return gen("Identity")(value, name=name) if name else value
    return gen("AddN")([convert_to_tensor(value) for value in values], name=name)


def accumulate_n(inputs: Any, shape: Any = None, tensor_dtype: Any = None, name: str | None = None) -> Any:
    """`tf.accumulate_n`."""
    if not inputs or not isinstance(inputs, list | tuple):
        raise ValueError("inputs must be a list of at least one Tensor/IndexedSlices with the same dtype and shape")
    values = convert_n_to_tensor(inputs)
    if not all(value.dtype.base_dtype is values[0].dtype.base_dtype for value in values):
        raise ValueError("inputs must be a list of at least one Tensor/IndexedSlices with the same dtype and shape")
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


# --- types ----------------------------------------------------------------------------------------------------------


def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """`tf.cast`: the tensor itself where it has the type."""
    base = dtypes.as_dtype(dtype).base_dtype
    if getattr(x, "dtype", None) is base and not isinstance(x, SparseTensor | IndexedSlices):
        return x  # a resource variable too, which is then read where it is used
    with name_scope(name, "Cast", [x]) as scope:
        if isinstance(x, SparseTensor):
            return SparseTensor(x.indices, cast(x.values, base, scope), x.dense_shape)
        if isinstance(x, IndexedSlices):
            return IndexedSlices(cast(x.values, base, scope), x.indices, x.dense_shape)
        x = convert_to_tensor(x, name="x")
        return gen("Cast")(x, base, name=scope) if x.dtype is not base else x


def _caster(dtype: dtypes.DType, word: str) -> Any:
    return lambda x, name=word: cast(x, dtype, name)


to_float, to_double = _caster(dtypes.float32, "ToFloat"), _caster(dtypes.float64, "ToDouble")
to_int32, to_int64 = _caster(dtypes.int32, "ToInt32"), _caster(dtypes.int64, "ToInt64")
to_bfloat16 = _caster(dtypes.bfloat16, "ToBFloat16")
to_complex64, to_complex128 = _caster(dtypes.complex64, "ToComplex64"), _caster(dtypes.complex128, "ToComplex128")


def saturate_cast(value: Any, dtype: Any, name: str | None = None) -> Any:
    """`tf.saturate_cast`: values beyond the type's limits become these."""
    with name_scope(name, "saturate_cast", [value]) as scope:
        value = convert_to_tensor(value, name="value")
        wanted = dtypes.as_dtype(dtype).base_dtype
        found = value.dtype.base_dtype
        if found is wanted:
            return gen("Identity")(value, name=scope)
        low, high = _common_limits(found, wanted)
        if low is not None or high is not None:
            value = gen("ClipByValue")(value, low, high, name="clamp")
        return cast(value, wanted, scope)


def _common_limits(found: dtypes.DType, wanted: dtypes.DType) -> tuple[Any, Any]:
    import numpy as np

    from placesim.tf1.conversion import constant

    if found.min >= wanted.min and found.max <= wanted.max:
        return None, None
    numpy_type = found.as_numpy_dtype
    low, high = max(found.min, wanted.min), min(found.max, wanted.max)
    if found.is_floating:
        # the nearest numbers of the type that are within the limits
        low, high = numpy_type(low), numpy_type(high)
        if low < wanted.min:
            low = np.nextafter(low, numpy_type(0))
        if high > wanted.max:
            high = np.nextafter(high, numpy_type(0))
    return constant(low, found), constant(high, found)


def complex(real: Any, imag: Any, name: str | None = None) -> Any:
    """`tf.complex`."""
    real = convert_to_tensor(real, name="real")
    imag = convert_to_tensor(imag, name="imag")
    with name_scope(name, "Complex", [real, imag]) as scope:
        wide = {"float32": dtypes.complex64, "float64": dtypes.complex128}.get(real.dtype.name)
        if wide is None or real.dtype != imag.dtype:
            raise TypeError(
                f"The `real` and `imag` components have incorrect types: {real.dtype.name} {imag.dtype.name}. They must be "
                "consistent, and one of [tf.float32, tf.float64]"
            )
        return gen("Complex")(real, imag, Tout=wide, name=scope)


def _component(op: str, word: str) -> Any:
    def call(input: Any, name: str | None = None) -> Any:
        with name_scope(name, word, [input]) as scope:
            input = convert_to_tensor(input, name="input")
            if not input.dtype.is_complex:
                return input if op == "Real" else gen("ZerosLike")(input, name=scope)
            return gen(op)(input, Tout=input.dtype.real_dtype, name=scope)

    return call


real, imag = _component("Real", "Real"), _component("Imag", "Imag")


def angle(input: Any, name: str | None = None) -> Any:
    """`tf.angle`."""
    with name_scope(name, "Angle", [input]) as scope:
        input = convert_to_tensor(input, name="input")
        if input.dtype.is_complex:
            return gen("Angle")(input, Tout=input.dtype.real_dtype, name=scope)
        import math as numbers

        from placesim.tf1.array.creation import ones_like, zeros_like
        from placesim.tf1.array.shaping import where

        all_ones: Any = ones_like(input)
        return where(input < 0, numbers.pi * all_ones, zeros_like(input))


def conj(x: Any, name: str | None = None) -> Any:
    """`tf.conj`: a tensor of real numbers itself."""
    if isinstance(x, Tensor) and not x.dtype.is_complex and x.dtype is not dtypes.variant:
        return x
    with name_scope(name, "Conj", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        if x.dtype.is_complex:
            return gen("Conj")(x, name=scope)
        if x.dtype.is_floating or x.dtype.is_integer:
            return x
        raise TypeError(f"Expected numeric or variant tensor, got dtype {x.dtype!r}.")


# --- products -------------------------------------------------------------------------------------------------------


def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    output_type: Any = None,
    grad_a: bool = False,
    grad_b: bool = False,
    name: str | None = None,
) -> Any:
    """`tf.matmul`: MatMul of two matrices, else a batch of them."""
    with name_scope(name, "MatMul", [a, b]) as scope:
        for which, is_transposed, is_adjoint in (("a", transpose_a, adjoint_a), ("b", transpose_b, adjoint_b)):
            if is_transposed and is_adjoint:
                raise ValueError(
                    f"Only one of `transpose_{which}` and `adjoint_{which}` can be True. Received "
                    f"`transpose_{which}`={is_transposed}, `adjoint_{which}`={is_adjoint}."
                )
        a = convert_to_tensor(a, name="a")
        b = convert_to_tensor(b, dtype_hint=a.dtype.base_dtype, name="b")
        is_batch = any(tensor.shape.rank is None or tensor.shape.rank > 2 for tensor in (a, b))
        if is_batch and not a_is_sparse and not b_is_sparse:
            if transpose_a:
                a, adjoint_a = conj(a), True
            if transpose_b:
                b, adjoint_b = conj(b), True
            return gen("BatchMatMulV2")(a, b, adj_x=adjoint_a, adj_y=adjoint_b, grad_x=grad_a, grad_y=grad_b, name=scope)
        if adjoint_a:
            a, transpose_a = conj(a), True
        if adjoint_b:
            b, transpose_b = conj(b), True
        sparse_types = (dtypes.bfloat16, dtypes.float32)
        if (a_is_sparse or b_is_sparse) and a.dtype.base_dtype in sparse_types and b.dtype.base_dtype in sparse_types:
            return gen("SparseMatMul")(
                a,
                b,
                transpose_a=transpose_a,
                transpose_b=transpose_b,
                a_is_sparse=a_is_sparse,
                b_is_sparse=b_is_sparse,
                name=scope,
            )
        return gen("MatMul")(a, b, transpose_a, transpose_b, grad_a, grad_b, name=scope)


def matvec(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Any:
    """`tf.linalg.matvec`."""
    from placesim.tf1.array.shaping import expand_dims, squeeze

    with name_scope(name, "MatVec", [a, b]):
        column = expand_dims(b, -1)
        found = matmul(
            a, column, transpose_a=transpose_a, adjoint_a=adjoint_a, a_is_sparse=a_is_sparse, b_is_sparse=b_is_sparse
        )
        return squeeze(found, -1)


__all__ = [
    "count_nonzero",
    "get_default_graph",
    "reduce_all",
    "reduce_any",
    "reduce_euclidean_norm",
    "reduce_logsumexp",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_std",
    "reduce_sum",
    "reduce_variance",
]
