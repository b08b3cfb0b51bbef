"""Static shapes of tensor list ops. A list's handle passes its elements' type and shape from op to op.

Source: TensorFlow's list ops.
"""

from __future__ import annotations

from collections.abc import Sequence

from placesim.ops.kernels.shapes import (
    Dims,
    HandleShape,
    ShapeContext,
    ShapeError,
    concatenate,
    merge,
    merge_prefix,
    subshape,
    with_rank,
    with_rank_at_least,
)


def _hold(context: ShapeContext, shape: Dims) -> Sequence[Dims]:
    """Return the shape of a list (a scalar), and record its elements' type (attr `element_dtype`) and shape."""
    context.output_handles[0] = HandleShape(context.attrs["element_dtype"], shape)
    return ((),)


def _element_shape(context: ShapeContext, text: str) -> Dims:
    """Return the known element shape of input 0's list. Raises ShapeError with `text` for another type."""
    handle = context.handles[0]
    if handle is None:
        return None
    if handle.dtype is not context.attrs["element_dtype"]:
        raise ShapeError(text.format(held=handle.dtype.name, given=context.attrs["element_dtype"].name))
    return handle.shape


# TensorFlow's texts; its text for a pop says "push"
_PUSHES = "Trying to push to list with wrong element dtype. List has type {held} but trying to push element with type {given}"
_POPS = "Trying to read from list with wrong element dtype. List has type {held} but trying to push element with type {given}"
_READS = "Trying to read from list with wrong element dtype. List has type {held} but expected type {given}"
_EXPECTS = "Expected list with element dtype {given} but got list with element dtype {held}"


def infer_new_list(context: ShapeContext) -> Sequence[Dims]:
    """Return the shape of EmptyTensorList and TensorListReserve: a list with the element shape in input 0."""
    return _hold(context, context.shape_value(0))


def infer_push(context: ShapeContext) -> Sequence[Dims]:
    """Return the shape of TensorListPushBack."""
    return _hold(context, _element_shape(context, _PUSHES))


def infer_push_batch(context: ShapeContext) -> Sequence[Dims]:
    """Return the shape of TensorListPushBackBatch: a vector of lists, one for each row of the tensor."""
    handles = with_rank(context.shapes[0], 1)
    _, prefix = merge_prefix(with_rank_at_least(context.shapes[1], 1), handles)
    _hold(context, _element_shape(context, _PUSHES))
    return (prefix,)


def infer_pop(context: ShapeContext) -> Sequence[Dims]:
    """Return the shapes of TensorListPopBack: the list and the element."""
    shape = _element_shape(context, _POPS)
    if context.handles[0] is not None:
        context.output_handles[0] = context.handles[0]
    return ((), shape)


def infer_set_item(context: ShapeContext) -> Sequence[Dims]:
    """Return the shape of TensorListSetItem, which does not check the element type."""
    handle = context.handles[0]
    if handle is None:
        return _hold(context, None)
    merge(context.shapes[2], handle.shape)
    context.output_handles[0] = handle
    return ((),)


def infer_resize(context: ShapeContext) -> Sequence[Dims]:
    """Return the shape of TensorListResize."""
    with_rank(context.shapes[1], 0)
    if context.handles[0] is not None:
        context.output_handles[0] = context.handles[0]
    return ((),)


def infer_stack(context: ShapeContext) -> Sequence[Dims]:
    """Return the shape of TensorListStack: the elements along a new first axis."""
    shape = merge(_element_shape(context, _READS), context.shape_value(1))
    return (concatenate((context.attrs["num_elements"],), shape),)


def infer_item(context: ShapeContext) -> Sequence[Dims]:
    """Return the shape of TensorListGetItem: the shape of an element."""
    return (merge(_element_shape(context, _EXPECTS), context.shape_value(2)),)


def infer_gather(context: ShapeContext) -> Sequence[Dims]:
    """Return the shape of TensorListGather: elements along a new first axis."""
    return (concatenate(context.shapes[1], merge(_element_shape(context, _EXPECTS), context.shape_value(2))),)


def infer_concat(context: ShapeContext) -> Sequence[Dims]:
    """Return the shapes of TensorListConcat and TensorListConcatV2: the joined elements, and a vector of their lengths."""
    given = context.shape_value(1) if len(context.shapes) > 1 else context.attrs["element_shape"].dims
    shape = merge(given, _element_shape(context, _READS))
    return (concatenate((-1,), subshape(shape, 1)), (-1,))


def infer_split(context: ShapeContext) -> Sequence[Dims]:
    """Return the shape of TensorListSplit."""
    tensor = with_rank_at_least(context.shapes[0], 1)
    with_rank(context.shapes[2], 1)
    shape = context.shape_value(1)
    merge(concatenate((-1,), subshape(tensor, 1)), shape)
    return _hold(context, shape)


def infer_from_tensor(context: ShapeContext) -> Sequence[Dims]:
    """Return the shape of TensorListFromTensor; the list keeps the given element shape, even if more is known from the rows."""
    rows = subshape(context.shapes[0], 1)
    shape = context.shape_value(1)
    merge(rows, shape)
    return _hold(context, shape)


def infer_scatter(context: ShapeContext) -> Sequence[Dims]:
    """Return the shape of TensorListScatter and TensorListScatterV2."""
    return _hold(context, context.shape_value(2))


def infer_scatter_into(context: ShapeContext) -> Sequence[Dims]:
    """Return the shape of TensorListScatterIntoExistingList."""
    with_rank_at_least(context.shapes[1], 1)
    with_rank(context.shapes[2], 1)
    return _hold(context, _element_shape(context, _EXPECTS))


def infer_element_shape(context: ShapeContext) -> Sequence[Dims]:
    """Return the shape of TensorListElementShape: a vector of dimensions, or unknown for an unknown rank."""
    handle = context.handles[0]
    return (None if handle is None or handle.shape is None else (len(handle.shape),),)


def infer_concat_lists(context: ShapeContext) -> Sequence[Dims]:
    """Return the shape of TensorListConcatLists."""
    dims = merge(context.shapes[0], context.shapes[1])
    dtype = context.attrs["element_dtype"]
    shape: Dims = None
    for name, handle in zip(("input_a", "input_b"), context.handles, strict=False):
        if handle is not None and handle.dtype is not dtype:
            raise ShapeError(f"{name}.type != element_dtype: {handle.dtype.name} vs. {dtype.name}")
        shape = merge(shape, handle.shape if handle else None)
    _hold(context, shape)
    return (dims,)
