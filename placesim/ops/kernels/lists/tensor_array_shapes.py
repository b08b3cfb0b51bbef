"""Static shapes of tensor array ops. An array's handle has the static shape `[2]`, and may know its elements' type and shape.

Source: TensorFlow's data flow ops.
"""

from __future__ import annotations

from collections.abc import Sequence

from placesim.ops.attributes import Shape
from placesim.ops.kernels.named_resources import check_two_strings
from placesim.ops.kernels.shapes import (
    Dims,
    HandleShape,
    ShapeContext,
    ShapeFunction,
    concatenate,
    infer_by,
    is_fully_defined,
    merge,
    merge_prefix,
    subshape,
    with_rank,
)


def _known_shape(context: ShapeContext) -> tuple[bool, Dims]:
    handle = context.handles[0]
    return (handle is not None, handle.shape if handle else None)


def infer_array(context: ShapeContext) -> Sequence[Dims]:
    """Return the shapes of TensorArrayV3: a handle and a scalar flow."""
    with_rank(context.shapes[0], 0)
    shape: Shape = context.attrs["element_shape"]
    # otherwise element shapes may differ
    if is_fully_defined(shape.dims) or context.attrs.get("identical_element_shapes", False):
        context.output_handles[0] = HandleShape(context.attrs["dtype"], shape.dims)
    return ((2,), ())


def infer_gradients(context: ShapeContext) -> Sequence[Dims]:
    """Return the shapes of TensorArrayGradV3: the handle of the gradients and a scalar flow."""
    check_two_strings(context)
    handle = context.handles[0]
    if handle is not None:
        prepended: Dims = ()
        # TensorFlow reads only the rank of the shape to prepend, even if its values are known
        if len(context.shapes) > 2:
            prefix = context.shapes[2]
            prepended = (-1,) * prefix[0] if prefix and prefix[0] >= 0 else None
        context.output_handles[0] = HandleShape(handle.dtype, concatenate(prepended, handle.shape))
    return ((2,), ())


def infer_write(context: ShapeContext) -> Sequence[Dims]:
    """Return the shape of TensorArrayWriteV3: a scalar flow."""
    check_two_strings(context)
    with_rank(context.shapes[1], 0)
    with_rank(context.shapes[3], 0)
    merge(_known_shape(context)[1], context.shapes[2])
    return ((),)


def infer_read(context: ShapeContext) -> Sequence[Dims]:
    """Return the shape of TensorArrayReadV3: the shape of an element."""
    check_two_strings(context)
    with_rank(context.shapes[1], 0)
    with_rank(context.shapes[2], 0)
    return (_known_shape(context)[1],)


def infer_gather(context: ShapeContext) -> Sequence[Dims]:
    """Return the shape of TensorArrayGatherV3: elements along a new first axis."""
    with_rank(context.shapes[0], 1)
    indices = with_rank(context.shapes[1], 1)
    check_two_strings(context)
    with_rank(context.shapes[2], 0)
    is_known, shape = _known_shape(context)
    return (concatenate(indices, shape if is_known else context.attrs["element_shape"].dims),)


def infer_gather_v2(context: ShapeContext) -> Sequence[Dims]:
    """Return the shape of TensorArrayGatherV2: unknown."""
    infer_gather(context)
    return (None,)


def infer_scatter(context: ShapeContext) -> Sequence[Dims]:
    """Return the shape of TensorArrayScatterV3: a scalar flow."""
    with_rank(context.shapes[0], 1)
    indices = with_rank(context.shapes[1], 1)
    check_two_strings(context)
    with_rank(context.shapes[3], 0)
    # the value does not set an unknown element shape
    value, _ = merge_prefix(context.shapes[2], indices)
    is_known, shape = _known_shape(context)
    if is_known:
        merge(shape, subshape(value, 1))
    return ((),)


infer_concat = infer_by("[2], [] -> *, [?]")
"""TensorArrayConcatV3: an unknown shape for the joined elements, and a vector of their lengths."""
infer_split = infer_by("[2], *, [?], [] -> []")
"""TensorArraySplitV3: a scalar flow."""


def build_infer_first(infer: ShapeFunction) -> ShapeFunction:
    """Return a shape function for the first output only, as older ops have no flow."""
    return lambda context: infer(context)[:1]


def build_infer_unknown(count: int) -> ShapeFunction:
    """Return a shape function for `count` unknown shapes, as for the oldest ops."""
    return lambda context: (None,) * count
