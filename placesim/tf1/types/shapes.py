"""`tf.TensorShape` in the v1 API, whose elements are Dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from typing import Any, TypeAlias

from placesim.ops.kernels.shapes import Dims
from placesim.tf1.types.dimensions import Dimension, DimensionLike, as_dimension

StaticShapeLike: TypeAlias = "TensorShape | Iterable[DimensionLike] | DimensionLike"
"""Argument of `as_shape`: a shape, a list of sizes, or one size; None for an unknown shape."""


def dimension_at_index(shape: TensorShape, index: int) -> Dimension:
    """`tf.compat.dimension_at_index`."""
    if shape.rank is None:
        return Dimension(None)
    found: Dimension = shape.dims[index]  # type: ignore[index]
    return found


def not_a_shape(dims: object, item: object) -> str:
    """TensorFlow's message for a shape whose element `item` is no dimension."""
    return (
        f"Failed to convert '{dims!r}' to a shape: '{item!r}'could not be converted to a dimension. A shape should "
        "either be single dimension (e.g. 10), or an iterable of dimensions (e.g. [1, 10, None])."
    )


def _size_of_item(dims: object, item: Any) -> int:
    try:
        return _size(item)
    except TypeError as error:
        raise TypeError(not_a_shape(dims, item)) from error


class TensorShape:
    """A static shape; `dims` is None for an unknown rank.  `sizes` is a tuple with -1 for unknown sizes."""

    __slots__ = ("sizes",)

    def __init__(self, dims: Any) -> None:
        self.sizes: Dims
        if dims is None:
            self.sizes = None
        elif isinstance(dims, TensorShape):
            self.sizes = dims.sizes
        elif hasattr(dims, "dim") and hasattr(dims, "unknown_rank"):  # a TensorShapeProto
            self.sizes = None if dims.unknown_rank else tuple(dim.size for dim in dims.dim)
        elif isinstance(dims, list | tuple):
            self.sizes = tuple(map(_size, dims))
        else:
            try:
                items = iter(dims)
            except TypeError:
                self.sizes = (_size(dims),)
            else:
                self.sizes = tuple(_size_of_item(dims, item) for item in items)

    @classmethod
    def of(cls, sizes: Dims) -> TensorShape:
        """TensorShape of sizes as placesim stores them."""
        shape = cls.__new__(cls)
        shape.sizes = sizes
        return shape

    @property
    def dims(self) -> list[Dimension] | None:
        return None if self.sizes is None else [_dimension(size) for size in self.sizes]

    @property
    def rank(self) -> int | None:
        return None if self.sizes is None else len(self.sizes)

    @property
    def ndims(self) -> int | None:
        return self.rank

    @property
    def _dims(self) -> tuple[int | None, ...] | None:
        return None if self.sizes is None else tuple(None if size < 0 else size for size in self.sizes)

    def __repr__(self) -> str:
        return "TensorShape(None)" if self.sizes is None else f"TensorShape({self.dims!r})"

    def __str__(self) -> str:
        if self.sizes is None:
            return "<unknown>"
        texts = ["?" if size < 0 else str(size) for size in self.sizes]
        return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"

    def __len__(self) -> int:
        if self.sizes is None:
            raise ValueError("Cannot take the length of shape with unknown rank.")
        return len(self.sizes)

    def __bool__(self) -> bool:
        return self.sizes is not None

    def __iter__(self) -> Iterator[Dimension]:
        if self.sizes is None:
            raise ValueError("Cannot iterate over a shape with unknown rank.")
        return iter([_dimension(size) for size in self.sizes])

    def __getitem__(self, key: Any) -> Any:
        if self.sizes is not None:
            if isinstance(key, slice):
                return TensorShape.of(self.sizes[key])
            return _dimension(self.sizes[key])
        if not isinstance(key, slice):
            return Dimension(None)
        start, stop = key.start or 0, key.stop
        if key.step is not None:
            raise ValueError("Steps are not yet handled")
        if stop is None or start < 0 or stop < 0:
            return unknown_shape()
        return unknown_shape(rank=stop - start)

    def __add__(self, other: StaticShapeLike) -> TensorShape:
        return self.concatenate(other)

    def __radd__(self, other: StaticShapeLike) -> TensorShape:
        return as_shape(other).concatenate(self)

    def __eq__(self, other: object) -> Any:
        try:
            other = as_shape(other)
        except TypeError:
            return NotImplemented
        return self.sizes == other.sizes

    def __ne__(self, other: object) -> Any:
        try:
            other = as_shape(other)
        except TypeError:
            return NotImplemented
        if self.rank is None or other.rank is None:
            raise ValueError("The inequality of unknown TensorShapes is undefined.")
        return self.sizes != other.sizes

    def __hash__(self) -> int:
        return hash(self.sizes)

    def __reduce__(self) -> tuple[Any, ...]:
        return TensorShape, (self._dims,)

    def num_elements(self) -> int | None:
        """Number of elements, None if unknown."""
        return prod(self.sizes or ()) if self.is_fully_defined() else None

    def is_fully_defined(self) -> bool:
        """Whether every dimension is known."""
        return self.sizes is not None and all(size >= 0 for size in self.sizes)

    def assert_is_fully_defined(self) -> None:
        """Raise ValueError if a size is unknown."""
        if not self.is_fully_defined():
            raise ValueError(f"Shape {self} is not fully defined")

    def as_list(self) -> list[int | None]:
        """The sizes, None if unknown.  Raises ValueError for an unknown rank."""
        if self.sizes is None:
            raise ValueError("as_list() is not defined on an unknown TensorShape.")
        return [None if size < 0 else size for size in self.sizes]

    def as_proto(self) -> Any:
        """A TensorShapeProto."""
        from placesim.formats.tensorflow.attr_value import write_shape
        from placesim.ops.attributes import Shape

        return write_shape(Shape(self.sizes))

    def is_compatible_with(self, other: StaticShapeLike) -> bool:
        """Whether a tensor could have both shapes."""
        other = as_shape(other)
        if self.sizes is None or other.sizes is None:
            return True
        same_rank = len(self.sizes) == len(other.sizes)
        return same_rank and all(a < 0 or b < 0 or a == b for a, b in zip(self.sizes, other.sizes, strict=True))

    def assert_is_compatible_with(self, other: StaticShapeLike) -> None:
        """Raise ValueError for incompatible shapes."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {other} are incompatible")

    def assert_same_rank(self, other: StaticShapeLike) -> None:
        """Raise ValueError if both ranks are known and differ."""
        other = as_shape(other)
        if self.rank is not None and other.rank is not None and self.rank != other.rank:
            raise ValueError(f"Shapes {self} and {other} must have the same rank")

    def assert_has_rank(self, rank: int) -> None:
        """Raise ValueError for another known rank."""
        if self.rank not in (None, rank):
            raise ValueError(f"Shape {self} must have rank {rank}")

    def merge_with(self, other: StaticShapeLike) -> TensorShape:
        """Combine the sizes that either shape knows.  Raises ValueError if they conflict."""
        other = as_shape(other)
        if self.sizes is None or other.sizes is None:
            found: TensorShape = other if self.sizes is None else self
            return found
        try:
            self.assert_same_rank(other)
            return TensorShape([a.merge_with(b) for a, b in zip(self.dims or (), other.dims or (), strict=True)])
        except ValueError:
            raise ValueError(f"Shapes {self} and {other} are not compatible") from None

    def concatenate(self, other: StaticShapeLike) -> TensorShape:
        """This shape's dimensions, then the other's."""
        other = as_shape(other)
        return unknown_shape() if self.sizes is None or other.sizes is None else TensorShape.of(self.sizes + other.sizes)

    def with_rank(self, rank: int) -> TensorShape:
        """This shape, or an unknown shape of this rank if its rank is unknown.  Raises ValueError for another rank."""
        try:
            return self.merge_with(unknown_shape(rank=rank))
        except ValueError:
            raise ValueError(f"Shape {self} must have rank {rank}") from None

    def with_rank_at_least(self, rank: int) -> TensorShape:
        """Raise ValueError for a lower rank, else return this shape."""
        if self.rank is not None and self.rank < rank:
            raise ValueError(f"Shape {self} must have rank at least {rank}")
        return self

    def with_rank_at_most(self, rank: int) -> TensorShape:
        """Raise ValueError for a higher rank, else return this shape."""
        if self.rank is not None and self.rank > rank:
            raise ValueError(f"Shape {self} must have rank at most {rank}")
        return self

    def most_specific_compatible_shape(self, other: StaticShapeLike) -> TensorShape:
        """Return the sizes that both share; other sizes are unknown."""
        other = as_shape(other)
        if self.sizes is None or other.sizes is None or len(self.sizes) != len(other.sizes):
            return unknown_shape()
        return TensorShape.of(tuple(a if a == b else -1 for a, b in zip(self.sizes, other.sizes, strict=True)))

    def is_subtype_of(self, other: TensorShape) -> bool:
        """Whether every tensor of this shape also has the shape `other`."""
        if other.sizes is None:
            return True
        if self.sizes is None or len(self.sizes) != len(other.sizes):
            return False
        return all(o in (-1, s) for s, o in zip(self.sizes, other.sizes, strict=True))


def _size(value: DimensionLike) -> int:
    if value.__class__ is int and value >= 0:
        return int(value)
    found = as_dimension(value)._value
    return -1 if found is None else found


def _dimension(size: int) -> Dimension:
    return Dimension(None if size < 0 else size)


def as_shape(value: object) -> TensorShape:
    """Convert any shape-like value to a TensorShape."""
    return value if isinstance(value, TensorShape) else TensorShape(value)


def unknown_shape(rank: int | None = None, ndims: int | None = None) -> TensorShape:
    """Unknown shape, optionally with a known rank."""
    found = ndims if rank is None else rank
    return TensorShape.of(None if found is None else (-1,) * found)


def scalar() -> TensorShape:
    """The shape of a scalar, `[]`."""
    return TensorShape.of(())
