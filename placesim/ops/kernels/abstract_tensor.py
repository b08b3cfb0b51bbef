"""Abstract tensors for dry runs, with known shape and type but unknown elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from placesim.core.dtypes import DataType
from placesim.core.errors import UsageError

NOTHING: frozenset[str] = frozenset()
UNTOLD = ""
"""Marks a value that no feed determines."""


class SketchedValueError(UsageError):
    """A step depends on a value that is unknown before it runs.

    `roots` are the feeds whose values together would tell it, None if no feed does.
    """

    roots: frozenset[str] | None = None

    @property
    def type_name(self) -> str:
        return UsageError.__name__


class Sketch:
    """A tensor with known shape and type; reading its elements raises SketchedValueError.

    `origin` names the node that made it, and `roots` the feeds whose values together would tell it: None if no feed does.
    `opened_by` are those whose values would have told its shape where that is assumed, `UNTOLD` among them where none does.
    `known` are its elements where it is small and some of them are known: those that are not are -1.
    Its rows and other parts are sketches too.
    """

    __slots__ = ("dtype", "known", "opened_by", "origin", "roots", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: DataType, origin: str = "", roots: frozenset[str] | None = None) -> None:
        self.shape = shape
        self.dtype = dtype.numpy
        self.origin = origin
        self.roots = roots
        self.opened_by = NOTHING
        self.known: np.ndarray[Any, Any] | None = None

    def with_shape(self, shape: tuple[int, ...]) -> Sketch:
        """Elements of this tensor in another shape."""
        found = Sketch.__new__(Sketch)
        found.shape, found.dtype, found.origin = shape, self.dtype, self.origin
        found.roots, found.opened_by, found.known = self.roots, self.opened_by, None
        return found

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

    __array__ = __bool__ = __int__ = __index__ = __float__ = __iter__ = _refuse

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a scalar has no length")
        return self.shape[0]

    def __getitem__(self, key: Any) -> Sketch:
        parts = key if isinstance(key, tuple) else (key,)
        if not all(isinstance(part, int | slice) or part is ... for part in parts):
            self._refuse()
        # no element is looked at, and none is copied
        return self.with_shape(np.broadcast_to(np.zeros((), np.bool_), self.shape)[key].shape)


def own_copy(value: Any) -> Any:
    """An array of the value's own; a sketch never changes, and is its own copy."""
    return value if isinstance(value, Sketch) else np.array(value)


def as_array(value: Any, dtype: DataType) -> Any:
    """Convert to an array of that type; abstract tensors are returned unchanged."""
    return value if isinstance(value, Sketch) else np.asarray(value, dtype.numpy)


def stacked(values: Sequence[Any]) -> Any:
    """Tensors of one shape `[...]` as one, `[n, ...]`."""
    first = _first_sketch(values)
    return np.stack(values) if first is None else first.with_shape((len(values), *values[0].shape))


def joined(values: Sequence[Any]) -> Any:
    """Tensors `[n, ...]` of several n as one, along their first dimension."""
    first = _first_sketch(values)
    if first is None:
        return np.concatenate(values)
    return first.with_shape((sum(value.shape[0] for value in values), *values[0].shape[1:]))


def _first_sketch(values: Sequence[Any]) -> Sketch | None:
    return next((value for value in values if isinstance(value, Sketch)), None)
