"""Conversion of a literal to a constant tensor with the type and shape that `tf.constant` gives it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from placesim.core.dtypes import BOOL, COMPLEX128, FLOAT, INT32, STRING, DataType, dtype_of
from placesim.core.errors import GraphBuildError
from placesim.core.tensor_fields import size_problem
from placesim.ops.attributes import TensorValue

_VIEW_ELEMENTS = 64
_SPECIAL_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf, "+inf": math.inf} | {
    "infinity": math.inf,
    "-infinity": -math.inf,
}
_MOST_DIGITS = 40
_MOST_BITS_SHOWN = 14000
"""Maximum number of bits of an integer in a message, because Python converts at most 4,300 digits to text."""
_SINGLE = np.dtype(np.float32)


def make_constant(value: Any, dtype: DataType | None = None, shape: Sequence[int] | None = None) -> TensorValue:
    """Convert a number, boolean, text, nested list or array to a tensor.

    If the value has too few elements for `shape`, its last element is repeated. A complex number is given as a pair. Raises
    GraphBuildError.
    """
    # by far the most frequent literal; larger numbers take the long way, which handles overflow
    if value.__class__ is float and not shape and (dtype is FLOAT or dtype is None) and -3e38 < value < 3e38:
        return TensorValue(FLOAT, np.array(value, _SINGLE))
    if shape is not None:
        check_size(shape, dtype or FLOAT)
    if isinstance(value, np.ndarray | np.generic):
        array = _convert_array(np.asarray(value), dtype)
    else:
        array = _convert_literal(value, dtype)
    found = dtype or dtype_of(array)
    return TensorValue(found, array if shape is None else _fit(array, tuple(shape)))


def check_size(shape: Sequence[int], dtype: DataType) -> None:
    """Raise GraphBuildError if a shape has negative dimensions or needs more than 2 GiB."""
    if any(dim < 0 for dim in shape):
        raise GraphBuildError(f"wrong shape of a tensor: got {list(shape)}, expected known dimensions of 0 or more")
    problem = size_problem(shape, dtype)
    if problem:
        raise GraphBuildError(problem)


def _convert_array(array: np.ndarray[Any, Any], dtype: DataType | None) -> np.ndarray[Any, Any]:
    own = dtype_of(array)
    if dtype is None or dtype is own:
        return _encoded(array) if own is STRING else array
    # an array may lose precision, but not change its kind (a float does not become an integer)
    if own is STRING or dtype is STRING or not np.can_cast(array.dtype, dtype.numpy, "same_kind"):
        raise GraphBuildError(f"Expected {dtype.python_name}, but got an array of type {own.python_name}.")
    return array.astype(dtype.numpy)


def _encoded(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    encoded = np.empty(array.shape, object)
    encoded.reshape(-1)[:] = [text.encode() if isinstance(text, str) else bytes(text) for text in array.reshape(-1).tolist()]
    return encoded


def _fit(array: np.ndarray[Any, Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    if array.shape == shape:
        return array
    size = math.prod(shape)
    if array.size == size:
        return array.reshape(shape)
    if array.size > size:
        raise GraphBuildError(f"Too many elements provided. Needed at most {size}, but received {array.size}")
    if array.size == 0:
        raise GraphBuildError(f"no value for a tensor: got an empty list, expected a value for shape {list(shape)}")
    last = array.reshape(-1)[-1:]
    if array.size == 1 and size > _VIEW_ELEMENTS:
        # a view of one element: a large constant of equal elements takes no memory
        return np.broadcast_to(last.reshape(()), shape)
    filled = np.empty(size, array.dtype)
    filled[: array.size] = array.reshape(-1)
    filled[array.size :] = last
    return filled.reshape(shape)


# --- literals -------------------------------------------------------------------------------------------------------


def _convert_literal(value: Any, dtype: DataType | None) -> np.ndarray[Any, Any]:
    is_complex = dtype is not None and dtype.is_complex
    shape = _dense_shape(value, is_complex)
    flat: list[Any] = []
    _flatten(value, shape, 0, flat)
    if dtype is None:
        dtype = _infer(flat)
    check_size(shape, dtype)
    flat = [_as_complex(leaf, dtype) for leaf in flat] if is_complex else _checked(flat, dtype)
    if dtype is STRING:
        array = np.empty(len(flat), object)
        array[:] = flat
    else:
        # a number out of float32's range becomes infinite, as in TensorFlow
        with np.errstate(over="ignore"):
            array = np.array(flat, dtype.numpy)
    return array.reshape(shape)


def _dense_shape(value: Any, is_complex: bool) -> tuple[int, ...]:
    shape = []
    while isinstance(value, list | tuple):
        if is_complex and len(value) == 2 and not any(isinstance(part, list | tuple) for part in value):
            break
        shape.append(len(value))
        if not value:
            break
        value = value[0]
    return tuple(shape)


def _flatten(value: Any, shape: tuple[int, ...], axis: int, flat: list[Any]) -> None:
    if axis == len(shape):
        if axis == 0:
            flat.append(value)
        return
    if not isinstance(value, list | tuple) or len(value) != shape[axis]:
        got = f"shape [{len(value)}]" if isinstance(value, list | tuple) else repr(value)
        raise GraphBuildError(f"Argument must be a dense tensor: got {got} inside, but wanted {list(shape[axis:])}.")
    if axis == len(shape) - 1:
        flat += value
        return
    for part in value:
        _flatten(part, shape, axis + 1, flat)


def _infer(flat: list[Any]) -> DataType:
    kinds = set(map(type, flat))
    if kinds <= {float, int}:
        # Python's float is a double, but TensorFlow's default is float32
        return INT32 if kinds == {int} else FLOAT
    # a bool is an int in Python; TensorFlow refuses to mix them
    if kinds == {bool}:
        return BOOL
    if kinds <= {str, bytes}:
        return STRING
    if kinds <= {complex, float, int}:
        return COMPLEX128
    odd = next((leaf for leaf in flat if type(leaf) not in (bool, int, float, str, bytes)), None)
    if odd is None and None not in flat:
        mixed = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise GraphBuildError(f"mixed types in a tensor: got {mixed}, expected elements of one type")
    if isinstance(odd, list | tuple):
        raise GraphBuildError(f"Argument must be a dense tensor: got {odd!r} beside numbers, expected lists of one length")
    raise GraphBuildError(f"not a tensor: got {_shown(odd)}, expected numbers, booleans or strings")


def _shown(value: Any) -> str:
    return "null" if value is None else repr(value) if isinstance(value, str | int | float) else f"a {type(value).__name__}"


def _checked(flat: list[Any], dtype: DataType) -> list[Any]:
    """Return the elements in the form that numpy takes. Raises GraphBuildError for the first element of another type."""
    if dtype is STRING:
        return [leaf.encode() if leaf.__class__ is str else _expect(leaf, dtype, bytes) for leaf in flat]
    if dtype is BOOL:
        return [_expect(leaf, dtype, bool) for leaf in flat]
    if dtype.is_floating:
        return [leaf if leaf.__class__ is float else _as_float(leaf, dtype) for leaf in flat]
    if dtype.is_integer or dtype.is_quantized:
        low, high = _integer_bounds(dtype)
        for leaf in flat:
            if not low <= _expect(leaf, dtype, int) <= high:
                raise GraphBuildError(f"number out of range: got {leaf}, expected {dtype.python_name} from {low} to {high}")
        return flat
    raise GraphBuildError(f"unsupported type of constant: got {dtype.python_name}, expected numbers, booleans or strings")


def _expect(leaf: Any, dtype: DataType, kind: type) -> Any:
    if type(leaf) is not kind:
        raise mismatch_error(leaf, dtype)
    return leaf


def mismatch_error(leaf: Any, dtype: DataType) -> GraphBuildError:
    """Return the error for a value of another type, with TensorFlow's message."""
    return GraphBuildError(f"Expected {dtype.python_name}, but got {leaf!r} of type '{_type_name(leaf)}'.")


def _type_name(leaf: Any) -> str:
    return "list" if isinstance(leaf, list) else "dict" if isinstance(leaf, dict) else type(leaf).__name__


def _as_float(leaf: Any, dtype: DataType = FLOAT) -> float:
    if type(leaf) in (int, float):
        try:
            return float(leaf)
        except OverflowError:
            digits = str(abs(leaf)) if leaf.bit_length() < _MOST_BITS_SHOWN else "an integer of thousands of digits"
            shown = digits if len(digits) <= _MOST_DIGITS else f"{digits[:_MOST_DIGITS]}... of {len(digits)} digits"
            sign = "-" if leaf < 0 else ""
            raise GraphBuildError(
                f"number out of range: got {sign}{shown}, expected a number in the range of a double"
            ) from None
    if isinstance(leaf, str) and leaf.lower() in _SPECIAL_FLOATS:
        return _SPECIAL_FLOATS[leaf.lower()]
    raise mismatch_error(leaf, dtype)


def _as_complex(leaf: Any, dtype: DataType | None) -> complex:
    if isinstance(leaf, list | tuple):
        if len(leaf) != 2:
            raise GraphBuildError(f"not a complex number: got {len(leaf)} numbers, expected a pair [real, imaginary]")
        return complex(*map(_as_float, leaf))
    return leaf if isinstance(leaf, complex) else complex(_as_float(leaf, dtype or COMPLEX128))


@cache
def _integer_bounds(dtype: DataType) -> tuple[int, int]:
    digits = "".join(filter(str.isdigit, dtype.name))
    bits = int(digits)
    return (0, 2**bits - 1) if dtype.name.lstrip("q").startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
