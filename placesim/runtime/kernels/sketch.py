"""A tensor of which only the shape and the type are known: what kernels meet in a step that is walked through."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from placesim.dtypes import DType
from placesim.errors import UsageError


class SketchedValueError(UsageError):
    """A step depends on a value that is not known before it runs."""

    @property
    def type_name(self) -> str:
        return UsageError.__name__


class Sketch:
    """A tensor of which only the shape and the type are known; who asks for its values gets a SketchedValueError."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: DType) -> None:
        self.shape = shape
        self.dtype = dtype.numpy

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * int(self.dtype.itemsize)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise SketchedValueError("what it does depends on a value that is not known before the step runs")

    __array__ = __bool__ = __int__ = __index__ = __float__ = __len__ = __iter__ = __getitem__ = _refuse


def own_copy(value: Any) -> Any:
    """An array of the value's own; a sketch never changes, and is its own copy."""
    return value if isinstance(value, Sketch) else np.array(value)
