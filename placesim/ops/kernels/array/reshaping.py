"""Reshape, Squeeze, ExpandDims, Transpose, Bitcast, broadcasting, and ops that return a shape, rank or size."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from placesim.core.errors import InvalidArgumentError, UnimplementedError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.cost_model import COPY, DISPATCH, CostModel
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, Trait, elements
from placesim.ops.kernels.memory_rules import KernelMemory, alias_same_shape, aliases
from placesim.ops.kernels.shape_operands import broadcast_dims, shape_of_vector, shape_text
from placesim.ops.kernels.shapes import (
    MAX_INT64,
    RANK_LIMIT,
    Dims,
    ShapeContext,
    ShapeError,
    divide_dim,
    element_count,
    format_dims,
    infer_by,
    merge_dim,
    multiply_dims,
    replace_dim,
    scalar,
    unknown_dims,
    vector_shape_value,
    with_rank,
    with_rank_at_least,
    with_rank_at_most,
    with_value,
)

MAX_NUMPY_RANK = 64


# --- Reshape --------------------------------------------------------------------------------------------------------


def reshape(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Reshape: (tensor, sizes `[rank]`) -> the tensor with this shape.

    Raises the same errors as `requested_shape`, and UnimplementedError for a shape that numpy cannot hold.
    """
    tensor, sizes = inputs
    shape = requested_shape(tensor.shape, sizes)
    try:
        return (tensor.reshape(shape),)
    except ValueError:  # even for an empty tensor, numpy limits the product of the nonzero dimensions
        raise UnimplementedError(f"placesim cannot hold a tensor of shape {format_dims(shape)}") from None


def requested_shape(shape: tuple[int, ...], sizes: Tensor) -> tuple[int, ...]:
    """The new shape that Reshape gives a tensor of shape `shape`; `sizes` is `[rank]`, and one size may be -1.

    Raises InvalidArgumentError for sizes of rank above 1, too many or too large sizes, a second -1, another negative size, and
    another number of elements.
    """
    if sizes.ndim > 1:
        raise InvalidArgumentError(f"sizes input must be 1-D, not {shape_text(sizes)}")
    # old graphs have a scalar instead of a vector of one size
    dims = [int(size) for size in sizes.reshape(-1)]
    unknown = _unknown_position(dims)
    _check_representable(dims)
    count = elements(shape)
    if unknown is not None:
        dims[unknown] = _missing_dim(shape, dims[:unknown] + dims[unknown + 1 :])
    if elements(tuple(dims)) != count:
        raise InvalidArgumentError(
            f"Input to reshape is a tensor with {count} values, but the requested shape has {elements(tuple(dims))}"
        )
    return tuple(dims)


def _unknown_position(dims: Sequence[int]) -> int | None:
    unknown = None
    for position, dim in enumerate(dims):
        if dim == -1 and unknown is not None:
            raise InvalidArgumentError(f"Only one input size may be -1, not both {unknown} and {position}")
        if dim == -1:
            unknown = position
        elif dim < 0:
            raise InvalidArgumentError(f"Size {position} must be non-negative, not {dim}")
    return unknown


def _check_representable(dims: Sequence[int]) -> None:
    if len(dims) >= RANK_LIMIT:
        raise InvalidArgumentError(f"too many dimensions: must be < {RANK_LIMIT}, but received {len(dims)}")
    count = 1
    for dim in dims:
        count *= 1 if dim == -1 else dim
        # like TensorFlow, check after each factor: a later zero does not prevent the error
        if count > MAX_INT64:
            raise InvalidArgumentError(f"Shape [{', '.join(map(str, dims))}] has too many elements")
    if len(dims) > MAX_NUMPY_RANK:
        raise UnimplementedError(
            f"placesim holds tensors of up to {MAX_NUMPY_RANK} dimensions, but Reshape asks for {len(dims)}"
        )


def _missing_dim(shape: tuple[int, ...], dims: Sequence[int]) -> int:
    # a zero among the sizes matches the input's zeros, so neither is multiplied
    wants_zero = 0 in dims
    known = elements(tuple(dim for dim in dims if dim))
    count = elements(tuple(dim for dim in shape if dim or not wants_zero))
    if count % known and not (wants_zero and 0 in shape):
        raise InvalidArgumentError(
            f"Input to reshape is a tensor with {count} values, but the requested shape requires a multiple of {known}"
        )
    return count // known


# --- Squeeze, ExpandDims --------------------------------------------------------------------------------------------


def squeeze(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Squeeze: remove the dimensions in attr `squeeze_dims`, or all dimensions of 1.

    Raises InvalidArgumentError for an axis that is out of range or not of size 1.
    """
    (tensor,) = inputs
    rank = tensor.ndim
    for axis in attrs["squeeze_dims"]:
        if not -rank <= axis < rank:
            raise InvalidArgumentError(f"Tried to squeeze dim index {axis} for tensor with {rank} dimensions.")
    # an axis named twice counts once
    named = {axis % rank for axis in attrs["squeeze_dims"]}
    for axis in sorted(named):
        if tensor.shape[axis] != 1:
            raise InvalidArgumentError(_not_squeezable(axis, tensor.shape[axis]))
    dropped = named or {axis for axis, dim in enumerate(tensor.shape) if dim == 1}
    return (tensor.reshape(tuple(dim for axis, dim in enumerate(tensor.shape) if axis not in dropped)),)


def _not_squeezable(axis: int, dim: int) -> str:
    return f"Can not squeeze dim[{axis}], expected a dimension of 1, got {dim}"


def expand_dims(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """ExpandDims: insert a dimension of 1 before axis `dim`, which is a tensor of one element.

    Raises InvalidArgumentError if `dim` has another size or is out of range.
    """
    tensor, dim = inputs
    if dim.size != 1:
        raise InvalidArgumentError("'dim' must be a tensor with a single value")
    axis, rank = int(dim.reshape(-1)[0]), tensor.ndim
    if not -rank - 1 <= axis <= rank:
        raise InvalidArgumentError(f"Tried to expand dim index {axis} for tensor with {rank} dimensions.")
    return (np.expand_dims(tensor, axis),)


# --- Transpose ------------------------------------------------------------------------------------------------------


def permutation(rank: int, perm: Tensor) -> tuple[int, ...]:
    """The axes in `perm`, counted from the front. Raises InvalidArgumentError unless `perm` is a permutation `[rank]`."""
    if perm.ndim != 1:
        raise InvalidArgumentError(f"perm must be rank 1, got shape {shape_text(perm)}")
    if perm.size != rank:
        raise InvalidArgumentError(f"transpose expects a vector of size {rank}. But input(1) is a vector of size {perm.size}")
    axes = tuple(int(axis) + (rank if axis < 0 else 0) for axis in perm)
    for axis in axes:
        if not 0 <= axis < rank:
            raise InvalidArgumentError(f"{axis} is out of range [0 .. {rank})")
    for axis in range(rank):
        if axis not in axes:
            # the error for a repeated axis names the missing axis
            raise InvalidArgumentError(f"{axis} is missing from {{{','.join(map(str, axes))}}}.")
    return axes


def transpose(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Transpose: axis i of the output is axis `perm[i]` of the input. Raises the same errors as `permutation`."""
    tensor, perm = inputs
    return (tensor.transpose(permutation(tensor.ndim, perm)),)


def transpose_conjugate(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """ConjugateTranspose: the transposed input with conjugate elements. Raises the same errors as `permutation`."""
    (transposed,) = transpose(inputs, attrs)
    return (np.conj(transposed) if attrs["T"].is_complex else transposed,)


# --- Bitcast --------------------------------------------------------------------------------------------------------


def bitcast(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Bitcast: reinterpret the elements' bytes as another type.

    A smaller type adds a last dimension, the number of new elements per element; a larger type removes it. Raises
    InvalidArgumentError if the last dimension to remove has another size.
    """
    (tensor,) = inputs
    given, wanted = attrs["T"], attrs["type"]
    shape = tensor.shape
    if wanted.size > given.size:
        if not shape or shape[-1] != wanted.size // given.size:
            raise InvalidArgumentError(f"Cannot bitcast from {given.number} to {wanted.number}")
        shape = shape[:-1]
    elif wanted.size < given.size:
        shape = (*shape, given.size // wanted.size)
    return (np.ascontiguousarray(tensor).reshape(-1).view(wanted.numpy).reshape(shape),)


# --- broadcasting ---------------------------------------------------------------------------------------------------


def broadcast_to(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """BroadcastTo: broadcast the input to a shape `[rank]`.

    Raises InvalidArgumentError for a shape that is not a vector, is of lower rank, or does not fit the input.
    """
    tensor, wanted = inputs
    shape = shape_of_vector(wanted)
    # returned unchanged, even if the rank is too high for the op
    if shape == tensor.shape:
        return (tensor,)
    if tensor.ndim > len(shape):
        raise InvalidArgumentError(
            f"Rank of input ({tensor.ndim}) must be no greater than rank of output shape ({len(shape)})."
        )
    common = broadcast_dims(tensor.shape, shape)
    if common is None:
        raise InvalidArgumentError(f"Incompatible shapes: {shape_text(tensor)} vs. {format_dims(shape)}")
    if common != shape:
        raise InvalidArgumentError(
            f"Unable to broadcast tensor of shape {shape_text(tensor)} to tensor of shape {format_dims(shape)}"
        )
    return (np.broadcast_to(tensor, shape),)


def _two_shapes(inputs: Sequence[Tensor]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """(shape in the first input, shape in the second, both broadcast). Raises InvalidArgumentError if they do not fit."""
    for position, tensor in enumerate(inputs):
        if tensor.ndim != 1:
            raise InvalidArgumentError(f"In[{position}] must be a vector.{shape_text(tensor)}")
    one, two = (tuple(int(dim) for dim in tensor) for tensor in inputs)
    common = broadcast_dims(one, two)
    if common is None:
        raise InvalidArgumentError(f"Incompatible shapes: [{','.join(map(str, one))}] vs. [{','.join(map(str, two))}]")
    return one, two, common


def broadcast_args(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """BroadcastArgs: two shapes `[rank]` -> both broadcast together. Raises InvalidArgumentError if they do not fit."""
    return (np.array(_two_shapes(inputs)[2], attrs["T"].numpy),)


def broadcast_gradient_args(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """BroadcastGradientArgs: for each of two shapes, the axes over which its gradient must be summed.

    A shape is summed over the axes of the broadcast shape in which it has 1 or no dimension. Raises InvalidArgumentError for
    shapes that are not vectors, or do not broadcast.
    """
    one, two, common = _two_shapes(inputs)
    # equal shapes need no sum, even along dimensions of 1
    if one == two:
        return (np.zeros(0, attrs["T"].numpy),) * 2
    rank = len(common)
    padded = ((1,) * (rank - len(dims)) + dims for dims in (one, two))
    return tuple(np.array([axis for axis in range(rank) if dims[axis] == 1], attrs["T"].numpy) for dims in padded)


# --- the shape as a value -------------------------------------------------------------------------------------------


def shapes_of_inputs(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Shape, ShapeN: each input's shape as a vector `[rank]`."""
    return tuple(np.array(np.shape(tensor), attrs["out_type"].numpy) for tensor in inputs)


def count_elements(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Size: the number of elements, a scalar of `out_type`."""
    return (np.array(np.size(inputs[0]), attrs["out_type"].numpy),)


def count_dimensions(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Rank: the number of dimensions, an int32 scalar."""
    return (np.array(np.ndim(inputs[0]), np.int32),)


def reshape_quantized(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """QuantizedReshape: the reshaped input, and the two scalar limits. Raises the same errors as `reshape`."""
    return (*reshape(inputs[:2], attrs), *(np.reshape(limit, ()) for limit in inputs[2:]))


# --- shape functions and memory -------------------------------------------------------------------------------------


def _infer_reshape(context: ShapeContext) -> Sequence[Dims]:
    given, wanted = context.shapes[0], vector_shape_value(context, 1)
    if given is None or wanted is None:
        return (wanted,)
    given_gaps, wanted_gaps = ([axis for axis, dim in enumerate(dims) if dim < 0] for dims in (given, wanted))
    given_count, wanted_count = (elements(tuple(dim for dim in dims if dim >= 0)) for dims in (given, wanted))
    # a dimension of zero makes the number of elements known, despite unknown dimensions
    given_gaps, wanted_gaps = (given_gaps if given_count else []), (wanted_gaps if wanted_count else [])
    if len(given_gaps) > 1 or len(wanted_gaps) > 1:
        return (wanted,)
    if not given_gaps and not wanted_gaps:
        # TensorFlow computes these counts, unlike others, without a check for overflow
        given_count, wanted_count = (_as_int64(count) for count in (given_count, wanted_count))
        if given_count != wanted_count:
            raise ShapeError(
                f"Cannot reshape a tensor with {given_count} elements to shape {format_dims(wanted)} ({wanted_count} elements)"
            )
        return (wanted,)
    for dims in (given, wanted):
        reduce(multiply_dims, (dim for dim in dims if dim >= 0), 1)
    if not given_gaps:
        return (replace_dim(wanted, wanted_gaps[0], divide_dim(given_count, wanted_count)),)
    if not wanted_gaps:
        divide_dim(wanted_count, given_count)
    elif given_count == wanted_count:
        return (replace_dim(wanted, wanted_gaps[0], given[given_gaps[0]]),)
    return (wanted,)


def _as_int64(count: int) -> int:
    return (count + MAX_INT64 + 1) % (1 << 64) - MAX_INT64 - 1


def _infer_squeeze(context: ShapeContext) -> Sequence[Dims]:
    dims = context.shapes[0]
    if dims is None:
        return (None,)
    rank = len(dims)
    for position, axis in enumerate(context.attrs["squeeze_dims"]):
        if not -rank <= axis < rank:
            raise ShapeError(f"squeeze_dims[{position}] not in [{-rank},{rank}).")
    named = {axis % rank for axis in context.attrs["squeeze_dims"]}
    if not named:
        # an unknown dimension may be 1 and be removed, so even the rank is unknown
        return (None if -1 in dims else tuple(dim for dim in dims if dim != 1),)
    for axis in sorted(named):
        if dims[axis] not in (-1, 1):
            raise ShapeError(_not_squeezable(axis, dims[axis]))
    return (tuple(dim for axis, dim in enumerate(dims) if axis not in named),)


def _infer_expand_dims(context: ShapeContext) -> Sequence[Dims]:
    dims, dim = context.shapes[0], context.value(1)
    if dim is not None and dim.size != 1:
        raise ShapeError("'dim' input must be a tensor with a single value")
    if dim is None or dims is None:
        return (None,)
    axis, rank = int(dim.reshape(-1)[0]), len(dims)
    if not -rank - 1 <= axis <= rank:
        raise ShapeError(f"dim {axis} not in the interval [{-rank - 1}, {rank}].")
    place = axis if axis >= 0 else axis + rank + 1
    return ((*dims[:place], 1, *dims[place:]),)


def _infer_transpose(context: ShapeContext) -> Sequence[Dims]:
    dims, perm_dims, perm = context.shapes[0], context.shapes[1], context.value(1)
    count = element_count(perm_dims)
    if dims is None and count is None:
        return (None,)
    rank = len(dims) if dims is not None else count
    assert rank is not None
    if dims is None and rank < 2:  # TensorFlow cannot tell the rank from a permutation of fewer than two axes
        return (None,)
    known = with_rank(dims, rank)
    with_rank(perm_dims, 1)
    if count is not None:
        with_value(count, rank)
    if perm is None:
        return (unknown_dims(rank),)
    for axis in perm:
        if not -rank <= axis < rank:
            raise ShapeError(f"perm dim {int(axis)} is out of range of input rank {rank}")
    return (tuple(known[axis] for axis in perm),)


def _infer_bitcast(context: ShapeContext) -> Sequence[Dims]:
    dims, given, wanted = context.shapes[0], context.attrs["T"], context.attrs["type"]
    if dims is None:
        return (None,)
    if not given.size or not wanted.size:
        raise ShapeError(f"Cannot bitcast types {given.name} to {wanted.name} because one of the type sizes is zero.")
    if wanted.size < given.size:
        return ((*dims, given.size // wanted.size),)
    if wanted.size == given.size:
        return (dims,)
    ratio = wanted.size // given.size
    with_rank_at_least(dims, 1)
    if dims[-1] not in (-1, ratio):
        raise ShapeError(
            f"Cannot bitcast from {given.number} to {wanted.number} due to shape. {dims[-1]} does not match {ratio}"
        )
    return (dims[:-1],)


def _infer_broadcast_to(context: ShapeContext) -> Sequence[Dims]:
    given, wanted = context.shapes[0], vector_shape_value(context, 1)
    if given is None or wanted is None:
        return (wanted,)
    with_rank_at_most(given, len(wanted))
    missing = len(wanted) - len(given)
    pairs = reversed(tuple(zip(given, wanted[missing:], strict=True)))  # the error names the last pair that does not fit
    tail = [merge_dim(a, b) if a > 1 else b for a, b in pairs]
    return ((*wanted[:missing], *reversed(tail)),)


def _infer_broadcast_args(context: ShapeContext) -> Sequence[Dims]:
    (one,), (two,) = (with_rank(dims, 1) for dims in context.shapes)
    return ((-1 if min(one, two) < 0 else max(one, two),),)


def _infer_shapes(context: ShapeContext) -> Sequence[Dims]:
    return tuple((-1 if dims is None else len(dims),) for dims in context.shapes)


def _infer_quantized_reshape(context: ShapeContext) -> Sequence[Dims]:
    (dims,) = _infer_reshape(context)
    for limit in context.shapes[2:]:
        with_rank(limit, 0)
    return (dims, (), ())


def transpose_memory(memory: KernelMemory) -> None:
    """A permutation that moves only dimensions of 1 does not move elements, so the output shares the input's buffer."""
    tensor = memory.inputs[0]
    rank = len(tensor.dims)
    if rank > 1:
        moved = [axis for axis in (int(axis) % rank for axis in memory.value(1)) if tensor.dims[axis] != 1]
        if moved != sorted(moved):
            return
    memory.alias(0, 0)


_RESHAPES = Trait.HANDS_ON | Trait.SHARES_MEMORY | Trait.TAKES_OBJECTS | Trait.MOVES_ELEMENTS

TABLE: Table = {
    "Reshape": Kernel(reshape, _infer_reshape, memory=aliases(), traits=_RESHAPES | Trait.TAKES_SHAPE, cost=DISPATCH),
    "QuantizedReshape": Kernel(reshape_quantized, _infer_quantized_reshape, memory=aliases()),
    "Squeeze": Kernel(squeeze, _infer_squeeze, memory=aliases(), traits=_RESHAPES, cost=DISPATCH),
    "ExpandDims": Kernel(expand_dims, _infer_expand_dims, memory=aliases(), traits=_RESHAPES, cost=DISPATCH),
    "Transpose": Kernel(
        transpose,
        _infer_transpose,
        memory=transpose_memory,
        traits=Trait.TAKES_OBJECTS | Trait.LINEAR,
        cost=CostModel("transpose"),
    ),
    "ConjugateTranspose": Kernel(
        transpose_conjugate, _infer_transpose, traits=Trait.TAKES_OBJECTS, cost=CostModel("transpose")
    ),
    "Bitcast": Kernel(bitcast, _infer_bitcast, memory=aliases(), traits=Trait.HANDS_ON),
    "BroadcastTo": Kernel(
        broadcast_to,
        _infer_broadcast_to,
        memory=alias_same_shape,
        traits=Trait.TAKES_OBJECTS | Trait.TAKES_SHAPE,
        cost=COPY,
    ),
    "BroadcastArgs": Kernel(broadcast_args, _infer_broadcast_args),
    "BroadcastGradientArgs": Kernel(broadcast_gradient_args, infer_by("[?], [?] -> [?], [?]")),
    "Shape": Kernel(shapes_of_inputs, _infer_shapes, traits=Trait.HANDS_ON, cost=DISPATCH),
    "ShapeN": Kernel(shapes_of_inputs, _infer_shapes, traits=Trait.HANDS_ON, cost=DISPATCH),
    "Size": Kernel(count_elements, scalar, traits=Trait.HANDS_ON | Trait.TAKES_OBJECTS, cost=DISPATCH),
    "Rank": Kernel(count_dimensions, scalar, traits=Trait.HANDS_ON | Trait.TAKES_OBJECTS, cost=DISPATCH),
}
