"""Checks of tensors: types, order of elements, nearly equal values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from placesim.tf1.assertions.conditions import _assert, _names, _prefix
from placesim.tf1.graphs.default_graph_scopes import control_dependencies, name_scope
from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import IndexedSlices, SparseTensor
from placesim.tf1.types import dtypes

tf = namespace("")

_ROUNDING_ERRORS = 10
"""Default tolerance of `assert_near`, as a multiple of the machine epsilon."""


def assert_near(
    x: TensorLike,
    y: TensorLike,
    rtol: TensorLike | None = None,
    atol: TensorLike | None = None,
    data: Sequence[object] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Any:
    """`tf.assert_near`: assert that `|x - y| <= atol + rtol |y|`."""
    with name_scope(name, "assert_near", [x, y, rtol, atol, data]):
        x = convert_to_tensor(x, name="x")
        y = convert_to_tensor(y, x.dtype, name="y")
        least = _ROUNDING_ERRORS * np.finfo(x.dtype.as_numpy_dtype).eps
        rtol = convert_to_tensor(least if rtol is None else rtol, x.dtype, name="rtol")
        atol = convert_to_tensor(least if atol is None else atol, x.dtype, name="atol")
        if data is None:
            text = f"x and y not equal to tolerance rtol = {rtol}, atol = {atol}"
            data = [_prefix(message), text, *_names(x, y)]
        limit = atol + rtol * tf.abs(y)
        return _assert(tf.reduce_all(tf.less(tf.abs(x - y), limit)), data, summarize)


def _rising(word: str, op: str) -> Any:
    def call(x: TensorLike, name: str | None = None) -> Any:
        with name_scope(name, word, [x]):
            flat = tf.reshape(x, [-1])
            if not is_numeric_tensor(flat):
                raise TypeError(f"Expected x to be numeric, instead found: {flat}")
            is_short = tf.less(tf.size(flat), 2)
            last = tf.shape(flat) - 1

            def compared() -> Any:
                return gen(op)(tf.strided_slice(flat, [1], [1] + last), tf.strided_slice(flat, [0], last))  # noqa: RUF005 (a sum)

            return tf.reduce_all(tf.cond(is_short, lambda: convert_to_tensor([], dtypes.bool_), compared))

    call.__name__ = call.__qualname__ = word
    return call


is_non_decreasing = _rising("is_non_decreasing", "GreaterEqual")
is_strictly_increasing = _rising("is_strictly_increasing", "Greater")


def is_tensor(x: TensorLike) -> bool:
    """`tf.is_tensor`: whether a value is a tensor, a variable or a composite tensor."""
    return isinstance(x, Tensor | SparseTensor | IndexedSlices) or hasattr(x, "_as_graph_element") or hasattr(x, "_variant")


def is_symbolic_tensor(tensor: TensorLike) -> bool:
    """`tf.is_symbolic_tensor`: whether a value is a tensor of a graph."""
    return isinstance(tensor, Tensor | SparseTensor | IndexedSlices)


_NUMBERS = frozenset(
    {
        *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("qint8", "qint16", "qint32", "quint8", "quint16"),
    }
)


def is_numeric_tensor(tensor: TensorLike) -> bool:
    """`tf.is_numeric_tensor`: whether a value is a numeric tensor."""
    return isinstance(tensor, Tensor) and tensor.dtype.base_dtype.name in _NUMBERS


def assert_proper_iterable(values: TensorLike) -> None:
    """`tf.assert_proper_iterable`: raises TypeError for a tensor, a string or a non-iterable."""
    if isinstance(values, Tensor | SparseTensor | IndexedSlices | np.ndarray | bytes | str):
        raise TypeError(f'Expected argument "values" to be a "proper" iterable.  Found: {type(values)}')
    if not hasattr(values, "__iter__"):
        raise TypeError(f'Expected argument "values" to be iterable.  Found: {type(values)}')


def assert_same_float_dtype(tensors: Sequence[TensorLike] | None = None, dtype: Any = None) -> Any:
    """`tf.assert_same_float_dtype`: the type of all tensors.  Raises ValueError."""
    if tensors:
        dtype = _common_type(tensors, dtype)
    if not dtype:
        return dtypes.float32
    if not dtype.is_floating:
        raise ValueError(f"Expected floating point type, got {dtype}.")
    return dtype


def _common_type(tensors: Iterable[Any], wanted: object) -> Any:
    tensors = list(tensors)
    first = None if wanted else tensors[0]
    for tensor in tensors:
        found = tensor.dtype.base_dtype
        wanted = wanted or found
        if found != wanted:
            as_what = "" if first is None else f" as {first.name}"
            raise ValueError(f"{tensor.name}, type={found}, must be of the same type ({wanted}){as_what}.")
    return wanted


def add_check_numerics_ops() -> Any:
    """`tf.add_check_numerics_ops`: check all floating tensors of the graph, one after another."""
    graph = get_default_graph()
    checks: list[Any] = []
    for operation in graph.get_operations():
        for output in operation.outputs:
            if output.dtype not in (dtypes.float16, dtypes.float32, dtypes.float64):
                continue
            if operation._get_control_flow_context() is not None:
                raise ValueError(
                    "`tf.add_check_numerics_ops() is not compatible with TensorFlow control flow operations such as "
                    "`tf.cond()` or `tf.while_loop()`."
                )
            with control_dependencies(checks):
                checks = [gen("CheckNumerics")(output, message=output.name)]
    return tf.group(*checks)
