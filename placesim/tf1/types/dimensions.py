"""`tf.Dimension`: one possibly unknown size of a shape."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NoReturn, SupportsIndex, TypeAlias

DimensionLike: TypeAlias = "Dimension | SupportsIndex | None"
"""Argument of `as_dimension`: a Dimension, an integer of Python or numpy, or None for an unknown size."""
_UNKNOWN = object()


def _calculation(compute: Callable[[int, int], int]) -> Callable[[Dimension, DimensionLike], Dimension]:
    """Make the method of an arithmetic operator."""

    def calculate(self: Dimension, other: DimensionLike) -> Dimension:
        found = self._with(other, compute, unknown=_UNKNOWN)
        return found if found is NotImplemented else Dimension(None if found is _UNKNOWN else found)

    return calculate


def _comparison(compute: Callable[[int, int], bool]) -> Callable[[Dimension, DimensionLike], bool | None]:
    """Make the method of an ordering operator, which returns None for unknown sizes."""

    def compare(self: Dimension, other: DimensionLike) -> bool | None:
        found: bool | None = self._with(as_dimension(other), compute, unknown=None)
        return found

    return compare


class Dimension:
    """One dimension of a shape.  `value` is None if unknown; results computed from an unknown dimension are unknown."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        if isinstance(value, Dimension):
            self._value: int | None = value._value
        elif value is None:
            self._value = None
        else:
            try:
                self._value = int(value.__index__())
            except AttributeError:
                message = f"Dimension value must be integer or None or have an __index__ method, got value '{value!r}' "
                raise TypeError(message + f"with type '{type(value)!r}'") from None
            if self._value < 0:
                raise ValueError(f"Dimension {self._value} must be >= 0")

    @property
    def value(self) -> int | None:
        return self._value

    def __repr__(self) -> str:
        return f"Dimension({self._value!r})"

    def __str__(self) -> str:
        return "?" if self._value is None else str(self._value)

    def __eq__(self, other: object) -> Any:
        return self._with(other, operator.eq, unknown=None)

    def __ne__(self, other: object) -> Any:
        return self._with(other, operator.ne, unknown=None)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __int__(self) -> Any:
        return self._value

    def __index__(self) -> Any:
        return self._value

    def __hash__(self) -> int:
        if self._value is None:
            raise ValueError("Cannot hash a Dimension of unknown value.")
        return hash(self._value)

    def is_compatible_with(self, other: DimensionLike) -> bool:
        """Whether both sizes are equal, or one is unknown."""
        other = as_dimension(other)
        return self._value is None or other._value is None or self._value == other._value

    def assert_is_compatible_with(self, other: DimensionLike) -> None:
        """Raise ValueError if both are known and differ."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Dimensions {self} and {other} are not compatible")

    def merge_with(self, other: DimensionLike) -> Dimension:
        """Return the size that is known.  Raises ValueError if both are known and differ."""
        other = as_dimension(other)
        self.assert_is_compatible_with(other)
        return Dimension(other._value if self._value is None else self._value)

    def _with(self, other: Any, compute: Callable[[int, int], Any], unknown: Any) -> Any:
        """Return `compute` of both sizes, `unknown` if one is unknown, or NotImplemented if `other` is no dimension."""
        try:
            size = as_dimension(other).value
        except (TypeError, ValueError):
            return NotImplemented
        return unknown if None in (self._value, size) else compute(self._value, size)  # type: ignore[arg-type]

    __add__ = _calculation(operator.add)
    __sub__ = _calculation(operator.sub)
    __rsub__ = _calculation(lambda a, b: b - a)
    __mul__ = _calculation(operator.mul)
    __floordiv__ = _calculation(operator.floordiv)
    __rfloordiv__ = _calculation(lambda a, b: b // a)
    __lt__ = _comparison(operator.lt)
    __le__ = _comparison(operator.le)
    __gt__ = _comparison(operator.gt)
    __ge__ = _comparison(operator.ge)

    def __mod__(self, other: DimensionLike) -> Any:
        return self._with(as_dimension(other), lambda a, b: Dimension(a % b), Dimension(None))

    def __rmod__(self, other: DimensionLike) -> Any:
        return as_dimension(other) % self

    def __radd__(self, other: DimensionLike) -> Dimension:
        return self + other

    def __rmul__(self, other: DimensionLike) -> Dimension:
        return self * other

    def __div__(self, other: DimensionLike) -> Dimension:
        return self // other

    def __truediv__(self, other: object) -> NoReturn:
        raise TypeError(f"unsupported operand type(s) for /: 'Dimension' and '{type(other).__name__}', please use // instead")

    def __rtruediv__(self, other: object) -> NoReturn:
        raise TypeError(f"unsupported operand type(s) for /: '{type(other).__name__}' and 'Dimension', please use // instead")

    def __reduce__(self) -> tuple[Any, ...]:
        return Dimension, (self._value,)


def as_dimension(value: DimensionLike) -> Dimension:
    """Convert a number or None to a Dimension."""
    return value if isinstance(value, Dimension) else Dimension(value)


def dimension_value(dimension: Dimension | int | None) -> int | None:
    """`tf.compat.dimension_value`."""
    return dimension.value if isinstance(dimension, Dimension) else dimension
