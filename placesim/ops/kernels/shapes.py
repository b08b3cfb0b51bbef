"""Static shapes: the operations of which shape functions consist, with TensorFlow's own messages.

A shape is `Dims`: a tuple of dimensions in which -1 is unknown, or None if the rank is unknown. A shape function takes a
`ShapeContext` and returns one shape per output. It raises `ShapeError` with a short message; the caller adds the node and its
input shapes. Source: TensorFlow's shape inference context, as recorded in `tests/data/ops-*`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from placesim.core.dtypes import DataType
from placesim.core.errors import GraphBuildError, InvalidArgumentError, NotFoundError
from placesim.ops.attributes import Attrs

Dims = tuple[int, ...] | None

MAX_INT64 = (1 << 63) - 1
"""The largest dimension, and the largest number of elements."""


class ShapeError(InvalidArgumentError):
    """Raised by a shape function that refuses its inputs."""


class HandleShape(NamedTuple):
    """The known type and shape of the tensor behind a resource handle."""

    dtype: DataType
    shape: Dims


class ShapeContext:
    """The known facts about one node's inputs, from which a shape function infers the output shapes.

    `shapes[i]` is the shape of input i, and `value(i)` its constant value or None. `handles[i]` is the type and shape behind a
    resource input.
    """

    def __init__(
        self,
        shapes: Sequence[Dims],
        attrs: Attrs,
        values: Sequence[np.ndarray[Any, Any] | None] = (),
        handles: Sequence[HandleShape | None] = (),
        partial_shapes: Sequence[Dims] = (),
    ) -> None:
        self.shapes = tuple(shapes)
        self.attrs = attrs
        self._values = tuple(values) or (None,) * len(self.shapes)
        self._partial_shapes = tuple(partial_shapes) or (None,) * len(self.shapes)
        self.handles = tuple(handles) or (None,) * len(self.shapes)
        self.output_handles: dict[int, HandleShape] = {}
        self.used_values: set[int] = set()
        self.used_partial_shapes: dict[int, Dims] = {}

    def known_value(self, index: int) -> np.ndarray[Any, Any] | None:
        """Return the constant value of an input, None if unknown; a context may compute it on demand."""
        return self._values[index]

    def known_partial_shape(self, index: int) -> Dims:
        """Return the shape that an input's value gives, with -1 for unknown dimensions; None if unknown."""
        return self._partial_shapes[index]

    def value(self, index: int) -> np.ndarray[Any, Any] | None:
        """Return the constant value of an input, None if unknown. Error messages then mention the value."""
        found = self.known_value(index)
        if found is not None:
            self.used_values.add(index)
        return found

    def scalar_value(self, index: int) -> int | None:
        """Return the value of an integer scalar input, None if unknown."""
        found = self.value(index)
        if found is None:
            return None
        if found.ndim:
            raise ShapeError(f"Input must be scalar but has rank {found.ndim}")
        return int(found)

    def shape_value(self, index: int) -> Dims:
        """Return the shape that an input's value gives, None if unknown. The value is a vector of dimensions or the scalar -1.

        Raises ShapeError for another scalar, and GraphBuildError for a dimension below -1.
        """
        dims = with_rank_at_most(self.shapes[index], 1)
        constant = self.known_value(index)
        if constant is not None:
            flat = constant.reshape(-1)
            if not constant.ndim:
                if int(constant) != -1:
                    raise ShapeError(
                        "Input tensor must be rank 1, or if its rank 0 it must have value -1 "
                        f"(representing an unknown shape).  Saw value: {int(constant)}"
                    )
                return None
            for dim in flat:
                if dim < -1:
                    # TensorFlow finds this before it runs the shape function, so its text names no node
                    raise GraphBuildError(f"Invalid value in tensor used for shape: {int(dim)}")
            found: Dims = tuple(int(dim) for dim in flat)
        elif (spelled := self.known_partial_shape(index)) is not None:
            found = spelled
        elif dims is not None and len(dims) == 1 and dims[0] >= 0:
            return (-1,) * dims[0]
        else:
            return None
        self.used_partial_shapes[index] = found
        return found


ShapeFunction = Callable[[ShapeContext], Sequence[Dims]]


def format_dims(dims: Dims) -> str:
    """Return a shape as text: `[2,?]`, or `?` for an unknown rank."""
    return "?" if dims is None else "[" + ",".join("?" if dim < 0 else str(dim) for dim in dims) + "]"


def rank_of(dims: Dims) -> int | None:
    return None if dims is None else len(dims)


def is_fully_defined(dims: Dims) -> TypeGuard[tuple[int, ...]]:
    """Whether the rank and every dimension are known."""
    return dims is not None and all(dim >= 0 for dim in dims)


def element_count(dims: Dims) -> int | None:
    """Return the number of elements, or None if a dimension is unknown."""
    return math.prod(dims) if is_fully_defined(dims) else None


RANK_LIMIT = 254
"""The lowest rank that no TensorFlow shape may have."""


def unknown_dims(rank: int | None) -> Dims:
    """Return a shape with this rank and unknown dimensions. Raises ShapeError for a rank that no tensor can have."""
    if rank is not None and rank >= RANK_LIMIT:
        raise ShapeError(f"Shape must be at most rank {RANK_LIMIT - 1} but is rank {rank}")
    return None if rank is None else (-1,) * rank


def with_rank(dims: Dims, rank: int) -> tuple[int, ...]:
    """Return a shape that must have this rank. Raises ShapeError if it has another."""
    if dims is None:
        return (-1,) * rank
    if len(dims) != rank:
        raise ShapeError(f"Shape must be rank {rank} but is rank {len(dims)}")
    return dims


def check_scalars(context: ShapeContext, first: int = 0) -> None:
    """Raise ShapeError unless all inputs from number `first` on are scalars."""
    for dims in context.shapes[first:]:
        with_rank(dims, 0)


def with_rank_at_least(dims: Dims, rank: int) -> Dims:
    if dims is not None and len(dims) < rank:
        raise ShapeError(f"Shape must be at least rank {rank} but is rank {len(dims)}")
    return dims


def with_rank_at_most(dims: Dims, rank: int) -> Dims:
    if dims is not None and len(dims) > rank:
        raise ShapeError(f"Shape must be at most rank {rank} but is rank {len(dims)}")
    return dims


def with_value(dim: int, value: int) -> int:
    """Return a dimension that must have this value. Raises ShapeError if it has another."""
    if dim >= 0 and dim != value:
        raise ShapeError(f"Dimension must be {value} but is {dim}")
    return value


def merge_dim(one: int, two: int) -> int:
    """Return the common value of two dimensions. Raises ShapeError if they differ."""
    if one < 0 or one == two:
        return two
    if two < 0:
        return one
    raise ShapeError(f"Dimensions must be equal, but are {one} and {two}")


def merge(one: Dims, two: Dims) -> Dims:
    """Return the common shape of two shapes. Raises ShapeError if they differ."""
    if one is None:
        return two
    if two is None:
        return one
    if len(one) != len(two):
        raise ShapeError(f"Shapes must be equal rank, but are {len(one)} and {len(two)}")
    for axis, (a, b) in enumerate(zip(one, two, strict=True)):
        if a >= 0 and b >= 0 and a != b:
            raise ShapeError(
                f"Dimension {axis} in both shapes must be equal, but are {a} and {b}. "
                f"Shapes are {format_dims(one)} and {format_dims(two)}."
            )
    return tuple(b if a < 0 else a for a, b in zip(one, two, strict=True))


def merge_numbered(one: Dims, two: Dims, index: int) -> Dims:
    """Return the common shape of two shapes. The ShapeError names `index`, the number of the input with the shape `one`."""
    try:
        return merge(one, two)
    except ShapeError as error:
        raise ShapeError(f"{error.message}\n\tFrom merging shape {index} with other shapes.") from None


def merge_backwards(shapes: Sequence[Dims]) -> Dims:
    """Return the common shape of all shapes, merged from last to first as in TensorFlow, so that errors name the same pair."""
    found = shapes[-1]
    for index in range(len(shapes) - 2, -1, -1):
        found = merge_numbered(shapes[index], found, index)
    return found


def merge_prefix(dims: Dims, prefix: Dims) -> tuple[Dims, Dims]:
    """Return `dims` and `prefix` with their common dimensions merged; `dims` must start with `prefix`."""
    if dims is None or prefix is None:
        return dims, prefix
    with_rank_at_least(dims, len(prefix))
    merged = tuple(merge_dim(a, b) for a, b in zip(dims, prefix, strict=False))
    return merged + dims[len(prefix) :], merged


def subshape(dims: Dims, start: int, end: int | None = None) -> Dims:
    """Return `dims[start:end]`. Negative positions count from the end; positions after the end mean the end.

    Raises ShapeError for a position before the first, or a start after the end.
    """
    if dims is None:
        return None
    rank = len(dims)
    end = rank if end is None else end
    first = min(start if start >= 0 else rank + start, rank)
    last = min(end if end >= 0 else rank + end, rank)
    for name, given, found in (("start", start, first), ("end", end, last)):
        if found < 0:
            raise ShapeError(f"Subshape {name} out of bounds: {given}, for shape with rank {rank}")
    if first > last:
        raise ShapeError(
            f"Subshape must have computed start <= end, but is {first} and {last} "
            f"(computed from start {start} and end {end} over shape with rank {rank})"
        )
    return dims[first:last]


def concatenate(one: Dims, two: Dims) -> Dims:
    return None if one is None or two is None else one + two


def replace_dim(dims: Dims, axis: int, dim: int) -> Dims:
    if dims is None:
        return None
    axis = axis if axis >= 0 else len(dims) + axis
    return (*dims[:axis], dim, *dims[axis + 1 :])


def add_dims(one: int, two: int) -> int:
    return -1 if one < 0 or two < 0 else one + two


def subtract_dims(one: int, two: int) -> int:
    if one < 0 or two < 0:
        return -1
    if one < two:
        raise ShapeError(f"Negative dimension size caused by subtracting {two} from {one}")
    return one - two


def multiply_dims(one: int, two: int) -> int:
    if one == 0 or two == 0:
        return 0
    if one < 0 or two < 0:
        return -1
    if one * two > MAX_INT64:
        raise ShapeError(f"Negative dimension size caused by overflow when multiplying {one} and {two}")
    return one * two


def divide_dim(dim: int, divisor: int, evenly: bool = True) -> int:
    if divisor == 1:
        return dim
    if divisor <= 0:
        raise ShapeError(f"Divisor must be positive but is {divisor}")
    if dim < 0:
        return -1
    if evenly and dim % divisor:
        raise ShapeError(f"Dimension size must be evenly divisible by {divisor} but is {dim}")
    return dim // divisor


def broadcast(one: Dims, two: Dims) -> Dims:
    """Return the shape to which two shapes broadcast, as in numpy. Raises ShapeError if they do not fit."""
    if one is None or two is None:
        return None
    rank = max(len(one), len(two))
    left = (1,) * (rank - len(one)) + one
    right = (1,) * (rank - len(two)) + two
    return tuple(map(_broadcast_dim, left, right))


def _broadcast_dim(a: int, b: int) -> int:
    if a < 0 or b < 0:
        return max(a, b) if max(a, b) > 1 else -1
    if a == 1 or a == b:
        return b
    if b == 1:
        return a
    raise ShapeError(f"Dimensions must be equal, but are {a} and {b}")


# --- shape functions that many ops share ----------------------------------------------------------------------------


def unchanged(context: ShapeContext) -> Sequence[Dims]:
    """Return the first input's shape; the output also has the type and shape behind the first input's handle."""
    if context.handles and context.handles[0] is not None:
        context.output_handles[0] = context.handles[0]
    return (context.shapes[0],)


def broadcasted(context: ShapeContext) -> Sequence[Dims]:
    """Return the shape to which the first two inputs broadcast."""
    return (broadcast(context.shapes[0], context.shapes[1]),)


def scalar(context: ShapeContext) -> Sequence[Dims]:
    """Return the shape of a scalar output."""
    return ((),)


def no_outputs(context: ShapeContext) -> Sequence[Dims]:
    """Return no shapes, for an op without outputs."""
    return ()


def unknown_shape(context: ShapeContext) -> Sequence[Dims]:
    """Return an unknown shape for the output."""
    return (None,)


def shape_attr(context: ShapeContext) -> Sequence[Dims]:
    """Return the shape in attr `shape`. Raises NotFoundError for a raw graph without this attr."""
    if "shape" not in context.attrs:
        raise NotFoundError("No attr named 'shape' in NodeDef:")
    return (context.attrs["shape"].dims,)


def merged(context: ShapeContext) -> Sequence[Dims]:
    """Return the common shape of all inputs for the output."""
    found: Dims = None
    for dims in context.shapes:
        found = merge(found, dims)
    return (found,)


# --- shape functions in a notation ----------------------------------------------------------------------------------


_PATTERN = re.compile(r"\[([^]]*)\](?!\.)|(\*)|(\w+)(?::(\d)([+-]?))?")
_RANK_CHECKS: dict[str, Callable[[Dims, int], Dims]] = {"": with_rank, "+": with_rank_at_least, "-": with_rank_at_most}


class _ShapeNotation(NamedTuple):
    """The parts of a notation.

    - `checks`: the number of an input, its rank with the function that checks it, and (axis, number) for given dimensions.
    - `names`: the number of an input, an axis (None for the whole shape), and what the name stands for.
    - `outputs`: the name of a shape, None for an unknown one, or dimensions.
    """

    checks: list[tuple[int, Callable[[Dims, int], Dims], int, list[tuple[int, int]]]]
    names: list[tuple[int, int | None, str]]
    outputs: list[str | tuple[str | int, ...] | None]

    @staticmethod
    def parse(notation: str) -> _ShapeNotation:
        made = _ShapeNotation([], [], [])
        left, right = notation.split("->")
        for index, match in enumerate(_PATTERN.finditer(left)):
            listed, _, name, rank, sign = match.groups()
            if listed is not None:
                dims = _parse_dims(listed)
                numbers = [(axis, dim) for axis, dim in enumerate(dims) if isinstance(dim, int) and dim >= 0]
                made.checks.append((index, with_rank, len(dims), numbers))
                made.names.extend((index, axis, dim) for axis, dim in enumerate(dims) if isinstance(dim, str))
            elif name is not None:
                made.names.append((index, None, name))
                if rank is not None:
                    made.checks.append((index, _RANK_CHECKS[sign], int(rank), []))
        for match in _PATTERN.finditer(right):
            made.outputs.append(match[3] if match[1] is None else _parse_dims(match[1]))
        return made


def _parse_dims(listed: str) -> tuple[str | int, ...]:
    return tuple(-1 if dim == "?" else int(dim) if dim.isdecimal() else dim for dim in listed.replace(",", " ").split())


def infer_by(notation: str) -> ShapeFunction:
    """Return the shape function of a notation: the first inputs, and the outputs, as in `[batch, n], [batch] -> [batch]`.

    `[n, 3, ?]` has the dimensions n, 3 and any. `x` is a shape of any rank, `x:2` one of rank 2, `x:1+` of at least that rank,
    `x:4-` of at most that rank. Equal names mean equal dimensions or shapes. `*` is any input or an unknown output. `x, []...`
    means that all inputs after x are scalars. Ranks and numbers are checked before names.
    """
    parse = cache(lambda: _ShapeNotation.parse(notation))

    def infer(context: ShapeContext) -> Sequence[Dims]:
        checks, names, outputs = parse()
        shapes = list(context.shapes)
        count = len(shapes)
        for index, check, rank, numbers in checks:
            if index < count:
                shapes[index] = dims = check(shapes[index], rank)
                for axis, wanted in numbers:
                    with_value((dims or ())[axis], wanted)
        if "..." in notation:
            check_scalars(context, 1)
        known: dict[Any, Any] = {}
        for index, position, name in names:
            if index < count:
                shape: Any = shapes[index]
                known[name] = (
                    merge(known.get(name), shape) if position is None else merge_dim(known.get(name, -1), shape[position])
                )
        made = [tuple([known.get(dim, dim) for dim in out]) if isinstance(out, tuple) else known.get(out) for out in outputs]
        return tuple(made)

    return infer


# --- inputs whose values give a shape, a dimension or an axis -------------------------------------------------------


def vector_shape_value(context: ShapeContext, index: int) -> Dims:
    """Return the shape that an input's value gives; the input must be a vector."""
    with_rank(context.shapes[index], 1)
    return context.shape_value(index)


def shape_of_first_value(context: ShapeContext) -> Sequence[Dims]:
    """Return the shape that the first input's value gives."""
    return (vector_shape_value(context, 0),)


def infer_from_sizes(context: ShapeContext, index: int, rank: int) -> Sequence[Dims]:
    """Return the shape that the value of input `index` gives, which must have this rank."""
    return (with_rank(vector_shape_value(context, index), rank),)


def scalar_dim(context: ShapeContext, index: int) -> int:
    """Return the dimension that a scalar input gives, -1 if unknown. Raises ShapeError for a negative number."""
    value = context.scalar_value(index)
    if value is not None and value < 0:
        raise ShapeError(f"Dimension size, given by scalar input {index}, must be non-negative but is {value}")
    return -1 if value is None else value


def scalar_axis(context: ShapeContext, index: int, rank: int | None) -> int | None:
    """Return the axis that a scalar input gives, counted from 0; None if unknown. Raises ShapeError for one out of range."""
    value = context.scalar_value(index)
    if value is None or rank is None:
        return value if value is not None and value >= 0 else None
    if not -rank <= value < rank:
        raise ShapeError(f"Dimension size, given by scalar input {value} must be in range [-{rank}, {rank})")
    return value + rank if value < 0 else value
