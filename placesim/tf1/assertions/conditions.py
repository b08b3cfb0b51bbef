"""Assertions made with `tf.Assert`, and `tf.Print`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import ShapeLike, TensorLike
from placesim.tf1.math.reductions import reduce_all
from placesim.tf1.ops.constant_values import constant_value
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import convert_to_tensor_or_sparse_tensor
from placesim.tf1.types import dtypes
from placesim.tf1.types.shapes import TensorShape


def _assert(condition: TensorLike, data: Any, summarize: int | None) -> Any:
    from placesim.tf1.control_flow.conditionals import Assert

    return Assert(condition, data, summarize)


def _names(x: Tensor, y: Tensor | None = None) -> list[Any]:
    found: list[Any] = [f"x ({x.name}) = ", x]
    return found if y is None else [*found, f"y ({y.name}) = ", y]


def _binary(word: str, sign: str, compare: Callable[[Any, Any], Any], holds: Callable[[Any, Any], Any]) -> Any:
    """Make the function `tf.WORD` (`assert_equal`), which compares two tensors, at once if their values are known."""

    def call(
        x: TensorLike,
        y: TensorLike,
        data: Sequence[object] | None = None,
        summarize: int | None = None,
        message: TensorLike | None = None,
        name: str | None = None,
    ) -> Any:
        if word == "assert_equal":
            with name_scope(name, word, [x, y, data]):
                if x is y:
                    return gen("NoOp")()
        with name_scope(name, word, [x, y, data]):
            x = convert_to_tensor(x, name="x")
            y = convert_to_tensor(y, name="y")
            if data is None:
                prefix = [] if message is None else [message]
                data = [*prefix, f"Condition x {sign} y did not hold element-wise:", *_names(x, y)]
            condition = reduce_all(compare(x, y))
            known = constant_value(x), constant_value(y)
            if known[0] is not None and known[1] is not None:
                _assert_static(bool(np.all(holds(*known))), data)
            return _assert(condition, data, summarize)

    return call


def _assert_static(condition: bool, data: Any) -> None:
    if not condition:
        from placesim.tf1.errors import InvalidArgumentError

        shown = "\n".join(str(constant_value(item) if isinstance(item, Tensor) else item) for item in data)
        raise InvalidArgumentError(None, None, shown)


def _op(op: str) -> Callable[[Any, Any], Any]:
    return lambda x, y: gen(op)(x, y)


assert_equal = _binary("assert_equal", "==", _op("Equal"), np.equal)
assert_none_equal = _binary("assert_none_equal", "!=", _op("NotEqual"), np.not_equal)
assert_less = _binary("assert_less", "<", _op("Less"), np.less)
assert_less_equal = _binary("assert_less_equal", "<=", _op("LessEqual"), np.less_equal)
assert_greater = _binary("assert_greater", ">", _op("Greater"), np.greater)
assert_greater_equal = _binary("assert_greater_equal", ">=", _op("GreaterEqual"), np.greater_equal)


def _against_zero(word: str, sign: str, is_zero_first: bool, check: Any) -> Any:
    def call(
        x: TensorLike,
        data: Sequence[object] | None = None,
        summarize: int | None = None,
        message: str | None = None,
        name: str | None = None,
    ) -> Any:
        prefix = _prefix(message)
        with name_scope(name, word, [x, data]):
            x = convert_to_tensor(x, name="x")
            if data is None:
                words, tensor = _names(x)
                text = f"Condition x {sign} 0 did not hold element-wise:"
                data = [prefix, text + words, tensor] if word == "assert_non_positive" else [prefix, text, words, tensor]
            zero = convert_to_tensor(0, x.dtype.base_dtype)
            return check(zero, x, data, summarize) if is_zero_first else check(x, zero, data, summarize)

    return call


assert_positive = _against_zero("assert_positive", ">", True, assert_less)
assert_negative = _against_zero("assert_negative", "<", False, assert_less)
assert_non_negative = _against_zero("assert_non_negative", ">=", True, assert_less_equal)
assert_non_positive = _against_zero("assert_non_positive", "<=", False, assert_less_equal)


def assert_type(tensor: TensorLike, tf_type: object, message: str | None = None, name: str | None = None) -> Any:
    """`tf.assert_type`: the type is static, so this makes a NoOp or raises TypeError."""
    wanted = dtypes.as_dtype(tf_type)
    with name_scope(name, "assert_type", [tensor]):
        converted = convert_to_tensor_or_sparse_tensor(tensor)
        if converted.dtype.base_dtype is not wanted:
            what = converted.name if isinstance(converted, Tensor) else "tensor"
            raise TypeError(f"{_prefix(message)}{what} must be of type {wanted!r}; got {converted.dtype!r}")
        return gen("NoOp")(name="statically_determined_correct_type")


def assert_integer(x: TensorLike, message: str | None = None, name: str | None = None) -> Any:
    """`tf.assert_integer`: the type is static, so this makes a NoOp or raises TypeError."""
    with name_scope(name, "assert_integer", [x]):
        x = convert_to_tensor(x, name="x")
        if not x.dtype.is_integer:
            raise TypeError(f'{_prefix(message)}Expected "x" to be integer type.  Found: {x.name} of dtype {x.dtype!s}')
        return gen("NoOp")(name="statically_determined_was_integer")


def _prefix(message: str | None) -> str:
    return f"{message}.  " if message else ""


def assert_scalar(tensor: TensorLike, name: str | None = None, message: str | None = None) -> Any:
    """`tf.assert_scalar`: the tensor if it is a scalar.  Raises ValueError."""
    with name_scope(name, "assert_scalar", [tensor]):
        tensor = convert_to_tensor(tensor)
        if tensor.shape.rank != 0:
            raise ValueError(f"{_prefix(message)}Expected scalar shape for {tensor.name}, saw shape: {tensor.shape}.")
        return tensor


def ensure_shape(x: TensorLike, shape: ShapeLike, name: str | None = None) -> Any:
    """`tf.ensure_shape`."""
    return gen("EnsureShape")(x, TensorShape(shape), name=name)


def Print(  # noqa: N802
    input_: object,
    data: TensorLike,
    message: TensorLike | None = None,
    first_n: object = None,
    summarize: object = None,
    name: str | None = None,
) -> Any:
    """`tf.Print`."""
    return gen("Print")(
        input_,
        data,
        message="" if message is None else message,
        first_n=-1 if first_n is None else first_n,
        summarize=3 if summarize is None else summarize,
        name=name,
    )


def verify_tensor_all_finite(
    t: object = None,
    msg: object = None,
    name: str | None = None,
    x: TensorLike | None = None,
    message: TensorLike | None = None,
) -> Any:
    """`tf.verify_tensor_all_finite`."""
    from placesim.tf1.graphs.grouping import with_dependencies
    from placesim.tf1.ops.arguments import renamed

    x, message = renamed("x", x, "t", t), renamed("message", message, "msg", msg)
    with name_scope(name, "VerifyFinite", [x]):
        x = convert_to_tensor(x, name="x")
        with get_default_graph().colocate_with(x):
            check = gen("CheckNumerics")(x, message=message)
            return with_dependencies([check], x)
