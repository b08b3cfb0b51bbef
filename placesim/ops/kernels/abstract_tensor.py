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
"""Stands in a set of feeds for "no feed determines this value"."""


class SketchedValueError(UsageError):
    """A step depends on a value that is unknown before it runs.

    `roots` are the feeds that together would determine this value; None if no feed does.
    """

    roots: frozenset[str] | None = None

    @property
    def type_name(self) -> str:
        return UsageError.__name__


class Sketch:
    """A tensor with known shape and type; reading its elements raises SketchedValueError.

    `origin` names the node that created the tensor. `roots` are the feeds that together would determine its elements; None if
    no feed does. If the shape is assumed, `opened_by` has the feeds that would have determined it, or `UNTOLD` if no feed
    would. `known` has the elements of a small tensor of which some are known, with -1 for the unknown ones. Rows and other
    parts of a sketch are sketches too.
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
        """Return a sketch like this one, but with another shape and without known elements."""
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
        raise SketchedValueError("the result depends on a value that is not known before the step runs")

    __array__ = __bool__ = __int__ = __index__ = __float__ = __iter__ = _refuse

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a scalar has no length")
        return self.shape[0]

    def __getitem__(self, key: Any) -> Sketch:
        parts = key if isinstance(key, tuple) else (key,)
        if not all(isinstance(part, int | slice) or part is ... for part in parts):
            self._refuse()
        # computes only the shape, without elements
        return self.with_shape(np.broadcast_to(np.zeros((), np.bool_), self.shape)[key].shape)


def own_copy(value: Any) -> Any:
    """Return a copy of an array; return a sketch itself, since a sketch never changes."""
    return value if isinstance(value, Sketch) else np.array(value)


def as_array(value: Any, dtype: DataType) -> Any:
    """Convert `value` to an array of `dtype`; a sketch is returned unchanged."""
    return value if isinstance(value, Sketch) else np.asarray(value, dtype.numpy)


def stacked(values: Sequence[Any]) -> Any:
    """Stack tensors of one shape `[...]` to a tensor `[n, ...]`."""
    first = _first_sketch(values)
    return np.stack(values) if first is None else first.with_shape((len(values), *values[0].shape))


def joined(values: Sequence[Any]) -> Any:
    """Concatenate tensors `[n, ...]`, whose n may differ, along their first dimension."""
    first = _first_sketch(values)
    if first is None:
        return np.concatenate(values)
    return first.with_shape((sum(value.shape[0] for value in values), *values[0].shape[1:]))


def _first_sketch(values: Sequence[Any]) -> Sketch | None:
    return next((value for value in values if isinstance(value, Sketch)), None)
