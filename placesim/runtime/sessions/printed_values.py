"""Conversion of a fetched value to an array, and to the text that Python's `print` shows for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from placesim.core.dtypes import DataType


def as_array(value: Any, dtype: DataType) -> np.ndarray[Any, Any]:
    """Return a value as an array of its type; a resource handle becomes a scalar array of objects."""
    if dtype.numpy.kind == "O" and not isinstance(value, np.ndarray):
        array = np.empty((), object)
        array[()] = value
        return array
    return np.asarray(value, dtype.numpy)


def format_array(array: np.ndarray[Any, Any], classic: bool = False) -> str:
    """Format a fetched value as Python's `print` does; with `classic`, as numpy 1.13 does."""
    with np.printoptions(legacy="1.13" if classic else False):
        return str(array if array.ndim else array[()])
