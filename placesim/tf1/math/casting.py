"""Casts, and complex numbers and their parts."""

from __future__ import annotations

from typing import Any

from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike, is_ragged
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.conversion import constant, convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import IndexedSlices, SparseTensor
from placesim.tf1.types import dtypes

tf = namespace("")


def cast(x: Any, dtype: DTypeLike, name: str | None = None) -> Any:
    """`tf.cast`; a tensor that has the type is returned itself."""
    base = dtypes.as_dtype(dtype).base_dtype
    is_single = not isinstance(x, SparseTensor | IndexedSlices) and not getattr(x, "is_distributed_variable", False)
    if getattr(x, "dtype", None) is base and is_single:
        return x  # also a resource variable, which is then read at its use
    if is_ragged(x):
        return x.with_flat_values(cast(x.flat_values, base, name))
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


def saturate_cast(value: TensorLike, dtype: DTypeLike, name: str | None = None) -> Any:
    """`tf.saturate_cast`: values beyond the type's limits become the limits."""
    with name_scope(name, "saturate_cast", [value]) as scope:
        value = convert_to_tensor(value, name="value")
        wanted = dtypes.as_dtype(dtype).base_dtype
        found = value.dtype.base_dtype
        if found is wanted:
            return gen("Identity")(value, name=scope)
        if found.is_complex and not wanted.is_complex:
            value, found = real(value), found.real_dtype
        value = gen("ClipByValue")(value, *_common_limits(found, wanted), name="clamp")
        return cast(value, wanted, scope)


def _common_limits(found: dtypes.DType, wanted: dtypes.DType) -> tuple[Any, Any]:
    import numpy as np

    numpy_type = found.as_numpy_dtype
    low, high = max(found.min, wanted.min), min(found.max, wanted.max)
    if found.is_floating:
        # round towards zero, to stay within the limits
        low, high = numpy_type(low), numpy_type(high)
        if low < wanted.min:
            low = np.nextafter(low, numpy_type(0))
        if high > wanted.max:
            high = np.nextafter(high, numpy_type(0))
    return constant(low, found), constant(high, found)


def complex(real: TensorLike, imag: TensorLike, name: str | None = None) -> Any:
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
    def call(input: TensorLike, name: str | None = None) -> Any:
        with name_scope(name, word, [input]) as scope:
            input = convert_to_tensor(input, name="input")
            if not input.dtype.is_complex:
                return input if op == "Real" else tf.zeros_like(input)
            return gen(op)(input, Tout=input.dtype.real_dtype, name=scope)

    return call


real, imag = _component("Real", "Real"), _component("Imag", "Imag")


def conj(x: TensorLike, name: str | None = None) -> Any:
    """`tf.conj`; a tensor of real numbers is returned itself."""
    if isinstance(x, Tensor) and (x.dtype.is_floating or x.dtype.is_integer):
        return x
    with name_scope(name, "Conj", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        if x.dtype.is_complex:
            return gen("Conj")(x, name=scope)
        if x.dtype.is_floating or x.dtype.is_integer:
            return x
        raise TypeError(f"Expected numeric or variant tensor, got dtype {x.dtype!r}.")
