"""Convert Python and numpy values to constant tensors, as `tf.make_tensor_proto` does.

numpy determines the type of a list here.  Graph files have other rules, which are in `graph/constants.py`.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import numpy as np

from placesim.core.dtypes import BOOL, FLOAT, INT32, STRING
from placesim.core.dtypes import DataType as ElementType
from placesim.ops.attributes import TensorValue
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike
from placesim.tf1.types import dtypes
from placesim.tf1.types.dimensions import Dimension

_VIEW_ELEMENTS = 64
"""A constant that repeats one element is a view of one number if it has more elements than this."""
_SINGLE, _INT = np.dtype(np.float32), np.dtype(np.int32)
_NO_ELEMENTS = (
    "Failed to convert elements of {} to Tensor. Consider casting elements to a supported type. See "
    "https://www.tensorflow.org/api_docs/python/tf/dtypes for supported TF dtypes."
)


def make_tensor(value: object, dtype: DTypeLike | None = None, shape: Any = None, verify_shape: bool = False) -> TensorValue:
    """Convert a value to a constant tensor; if it has fewer elements than `shape`, its last element is repeated.

    Raises TypeError or ValueError in TensorFlow's words.
    """
    if shape is None:
        if value.__class__ is float and (dtype is None or dtype is dtypes.float32) and -3e38 < value < 3e38:
            return TensorValue(FLOAT, np.array(value, _SINGLE))
        if value.__class__ is int and (dtype is None or dtype is dtypes.int32) and -(2**31) <= value < 2**31:
            return TensorValue(INT32, np.array(value, _INT))
    wanted = None if dtype is None else dtypes.as_dtype(dtype).base_dtype.element
    array = _array(value, wanted, shape)
    found = wanted or dtypes.as_dtype(array.dtype).element
    if found is STRING:
        array = _encoded(value, array)
    return TensorValue(found, array if shape is None else _fit(array, [int(dim) for dim in shape], verify_shape))


@np.errstate(over="ignore", invalid="ignore")
def _array(value: object, wanted: ElementType | None, shape: Any) -> np.ndarray[Any, Any]:
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value if wanted is None or wanted is STRING else value.astype(wanted.numpy))
    if callable(getattr(value, "__array__", None)) and not isinstance(value, Tensor):
        return np.asarray(value, None if wanted is None else wanted.numpy)
    if value is None:
        raise ValueError("None values not supported.")
    if shape is not None and 0 in [int(dim) for dim in shape]:
        return np.empty([int(dim) for dim in shape], _SINGLE if wanted is None else wanted.numpy)
    _check_elements(value, wanted)
    array = _from_list(value, wanted)
    dense = _dense_dimensions(value)
    if list(array.shape) != dense:
        raise ValueError(f"Expected values {value} to be a dense tensor with shape {dense}, but got shape {list(array.shape)}.")
    if wanted is None and array.dtype == np.float64:
        return array.astype(_SINGLE)
    if wanted is None and array.dtype == np.int64:
        small = array.astype(_INT)
        return small if np.array_equal(small, array) else array
    return array


def _from_list(value: object, wanted: ElementType | None) -> np.ndarray[Any, Any]:
    if wanted is None:
        return np.array(value)
    try:
        return np.array(value, wanted.numpy)
    except OverflowError:  # numbers that are too large wrap around
        return np.array(value).astype(wanted.numpy)


def _dense_dimensions(value: object) -> list[int]:
    found = []
    while isinstance(value, list | tuple):
        found.append(len(value))
        if not value:
            break
        value = value[0]
    return found


def _encoded(value: object, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Convert an array of strings to bytes.  Raises TypeError for elements that are no strings."""
    texts = np.empty(array.shape, object)
    flat = []
    for item in array.reshape(-1).tolist() if isinstance(value, np.ndarray | np.generic) else leaves(value):
        if not isinstance(item, str | bytes):
            raise TypeError(_NO_ELEMENTS.format(value))
        flat.append(item.encode() if isinstance(item, str) else bytes(item))
    texts.reshape(-1)[:] = flat
    return texts


def leaves(value: object) -> list[Any]:
    """Leaves of nested lists, in order."""
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def _fit(array: np.ndarray[Any, Any], sizes: list[int], verify: bool) -> np.ndarray[Any, Any]:
    size = int(np.prod(sizes, dtype=np.int64))
    if verify and array.shape != tuple(sizes):
        raise TypeError(f"Expected Tensor's shape: {tuple(sizes)}, but got {array.shape}.")
    if array.size > size:
        raise ValueError(f"Too many elements provided. Takes at most {size}, but got {array.size}.")
    if array.size == size:
        return array.reshape(sizes)
    if array.size == 1 and size > _VIEW_ELEMENTS:
        return np.broadcast_to(array.reshape(()), sizes)
    filled = np.zeros(size, array.dtype)
    if array.dtype.hasobject:
        filled[:] = b""
    if array.size:
        filled[: array.size] = array.reshape(-1)
        filled[array.size :] = array.reshape(-1)[-1]
    return filled.reshape(sizes)


# --- types of elements ----------------------------------------------------------------------------------------------

_FITS: dict[str, Callable[[Any], bool]] = {
    "int": lambda leaf: isinstance(leaf, numbers.Integral | Dimension | np.integer | np.bool_),
    "float": lambda leaf: isinstance(leaf, numbers.Real | np.integer | np.floating | Dimension),
    "complex": lambda leaf: isinstance(leaf, numbers.Complex | np.number),
    "text": lambda leaf: isinstance(leaf, str | bytes),
    "bool": lambda leaf: isinstance(leaf, bool | np.bool_),
}


def _check_elements(value: object, wanted: ElementType | None) -> None:
    """Raise TypeError for the first element of another type than `wanted`, or for a tensor."""
    if wanted is None:
        if any(isinstance(leaf, Tensor) for leaf in leaves(value)):
            raise TypeError("Expected any non-tensor type, but got a tensor instead.")
        return
    fits = _FITS[_kind(wanted)]
    for leaf in leaves(value):
        if not fits(leaf) and not isinstance(leaf, np.ndarray):
            raise TypeError(f"Expected {wanted.python_name}, but got {leaf} of type '{type(leaf).__name__}'.")


def _kind(element: ElementType) -> str:
    if element is BOOL:
        return "bool"
    if element.is_floating:
        return "float"
    if element.is_complex:
        return "complex"
    return "int" if element.is_integer or element.is_quantized else "text"
