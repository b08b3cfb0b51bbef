"""Ops that call Python functions of the process that built the graph; in another process they fail.

Source: TensorFlow's `script_ops.py` (unknown functions, conversion of results to arrays) and `py_func.cc` (the status of an
exception).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import DTYPES, DataType
from placesim.core.errors import (
    InvalidArgumentError,
    OutOfRangeError,
    PlacesimError,
    ResourceExhaustedError,
    UnimplementedError,
    UnknownError,
)
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table
from placesim.ops.kernels.shapes import Dims, ShapeContext

_functions: dict[str, Callable[..., Any]] = {}
_numbers = itertools.count()
_STATUSES: tuple[tuple[type[BaseException], type[PlacesimError]], ...] = (
    (TypeError, InvalidArgumentError),
    (ValueError, InvalidArgumentError),
    (StopIteration, OutOfRangeError),
    (MemoryError, ResourceExhaustedError),
    (NotImplementedError, UnimplementedError),
)


def register(function: Callable[..., Any]) -> str:
    """Return a token by which ops of this process call the function."""
    token = f"pyfunc_{next(_numbers)}"
    _functions[token] = function
    return token


def call(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Call the function of attr `token`; return its results as arrays.

    Raises InvalidArgumentError for a function of another process and for results that differ from the declared types. An
    exception of the function is raised as TensorFlow's corresponding error.
    """
    token = attrs["token"]
    function = _functions.get(token)
    if function is None:
        raise InvalidArgumentError(f"ValueError: callback {token} is not found")
    try:
        given = function(*inputs)
        found = [_as_array(value) for value in given] if isinstance(given, list | tuple) else [_as_array(given)]
    except Exception as error:
        import traceback

        status = next((status for kind, status in _STATUSES if isinstance(error, kind)), UnknownError)
        told = f"{type(error).__name__}: {error}\n{''.join(traceback.format_tb(error.__traceback__)[1:])}"
        raise status(told) from error
    declared: Sequence[DataType] = attrs["Tout"]
    if given is None and not declared:
        return ()
    if len(found) != len(declared):
        raise InvalidArgumentError(f"{token} returns {len(found)} values, but expects to see {len(declared)} values.")
    for i, (array, dtype) in enumerate(zip(found, declared, strict=True)):
        if dtype.numpy != array.dtype:
            observed = next((each.name for each in DTYPES.values() if each.numpy == array.dtype), str(array.dtype))
            raise InvalidArgumentError(f"{i}-th value returned by {token} is {observed}, but expects {dtype.name}")
    return found


def _as_array(value: Any) -> np.ndarray[Any, Any]:
    if value is None:
        return np.zeros(0, np.float32)
    array = np.asarray(value, order="C")
    if array.dtype.kind == "S":
        return np.asarray(value, dtype=object)
    if array.dtype.kind in "UO" and array.size:
        encode = np.vectorize(lambda text: text.encode() if isinstance(text, str) else text, otypes=[object])
        return np.asarray(encode(array))
    return array.astype(object) if array.dtype.kind == "U" else array


def _call_with_scalars(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Like `call`; the function gets scalars where an input has no dimensions."""
    return call([value if np.ndim(value) else np.asarray(value)[()] for value in inputs], attrs)


def _infer_declared(context: ShapeContext) -> Sequence[Dims]:
    return (None,) * len(context.attrs["Tout"])


TABLE: Table = {
    **dict.fromkeys(("PyFunc", "PyFuncStateless"), Kernel(_call_with_scalars, _infer_declared)),
    "EagerPyFunc": Kernel(call, _infer_declared),
}
