"""Constants, placeholders and fills; and the Identity family, which returns its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import VARIANT
from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.cost_model import COPY, DISPATCH
from placesim.ops.kernels.kernel import Kernel, KernelContext, Table, Tensor, Trait, zeros
from placesim.ops.kernels.memory_rules import KernelMemory, alias_each, aliases, forwards, leaves_untracked
from placesim.ops.kernels.shape_operands import is_legacy_scalar, shape_of_values, shape_of_vector, shape_text
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    merge,
    no_outputs,
    scalar_dim,
    shape_attr,
    shape_of_first_value,
    unchanged,
    unknown_shape,
    vector_shape_value,
    with_rank,
)

# --- values from attrs ----------------------------------------------------------------------------------------------


def copy_constant(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Const: attr `value`. Raises InvalidArgumentError if its type is not attr `dtype`."""
    value, dtype = attrs["value"], attrs["dtype"]
    if value.dtype is not dtype:
        raise InvalidArgumentError(f"Type mismatch between value ({value.dtype.name}) and dtype ({dtype.name})")
    return (value.array,)


def refuse_unfed(inputs: Sequence[Tensor], attrs: Attrs, context: KernelContext) -> Sequence[Tensor]:
    """Placeholder: always raises InvalidArgumentError, since a placeholder runs only if it was not fed."""
    shape = attrs["shape"]
    # the message leaves out the shape if it is unknown or that of a scalar
    suffix = f" and shape {shape}" if shape.dims else ""
    raise InvalidArgumentError(
        f"You must feed a value for placeholder tensor '{context.node}' with dtype {attrs['dtype'].name}{suffix}"
    )


# --- fills ----------------------------------------------------------------------------------------------------------


def fill(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Fill: (dims `[rank]`, a scalar) -> a tensor of shape `dims` filled with the scalar.

    Raises InvalidArgumentError if `dims` has rank above 1 or a negative dimension, and for a value that is not a scalar.
    """
    dims, value = inputs
    if dims.ndim > 1:
        raise InvalidArgumentError(f"dims must represent a vector, got shape {shape_text(dims)}")
    # old graphs have a vector of one element as value, and a scalar as dims of a vector
    if not is_legacy_scalar(value):
        raise InvalidArgumentError(f"value must represent a scalar, got shape {shape_text(value)}")
    return (np.full(shape_of_values(dims), value.reshape(-1)[0], value.dtype),)


def make_empty(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Empty: a shape `[rank]` -> a tensor of that shape. TensorFlow leaves it uninitialized; here it is zero.

    Raises InvalidArgumentError for a shape that is not a vector or has a negative dimension.
    """
    return (zeros(shape_of_vector(inputs[0], "int32"), attrs["dtype"]),)


def zeros_like(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """ZerosLike: zeros of the input's shape; for a tensor list in a variant, a list of zeros of its elements' shapes."""
    if attrs["T"] is VARIANT:
        from placesim.ops.kernels.variants import zeros_like_variant  # rarely needed

        return (zeros_like_variant(inputs[0]),)
    return (zeros(inputs[0].shape, attrs["T"]),)


def ones_like(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Ones of the input's shape."""
    return (np.ones(inputs[0].shape, attrs["T"].numpy),)


def one_hot(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """OneHot: adds an axis `[depth]` to the indices' shape, with `on_value` at the position of the index, else `off_value`.

    An index out of range gives only `off_value`. Raises InvalidArgumentError for an axis out of range, a negative depth, and
    a depth, `on_value` or `off_value` that is not a scalar.
    """
    indices, depth, on_value, off_value = inputs
    axis, rank = attrs["axis"], indices.ndim + 1
    # the only negative axis that the op accepts is -1
    if axis != -1 and not 0 <= axis < rank:
        raise InvalidArgumentError(f"Expected axis to be -1 or between [0, {rank}).  But received: {axis}")
    for name, tensor in (("depth", depth), ("on_value", on_value), ("off_value", off_value)):
        if tensor.ndim:
            raise InvalidArgumentError(f"{name} must be a scalar, but got: {shape_text(tensor)}")
    if depth < 0:
        raise InvalidArgumentError(f"depth must be non-negative, got: {int(depth)}")
    places = np.arange(int(depth)).reshape((-1,) + (1,) * (indices.ndim - axis if axis >= 0 else 0))
    return (np.where(np.expand_dims(indices, axis) == places, on_value, off_value),)


# --- the Identity family --------------------------------------------------------------------------------------------


def pass_on(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """The inputs themselves."""
    return tuple(inputs)


def same(value: Any) -> Any:
    """The value itself."""
    return value


def copy_input(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """A copy that shares no memory with the input."""
    return (inputs[0].copy() if isinstance(inputs[0], np.ndarray) else inputs[0],)


def do_nothing(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """NoOp, ControlTrigger: no outputs; only the ops' control edges matter."""
    return ()


# --- shape functions and memory -------------------------------------------------------------------------------------


def _infer_constant(context: ShapeContext) -> Sequence[Dims]:
    return (context.attrs["value"].array.shape,)


def infer_default(context: ShapeContext) -> Sequence[Dims]:
    """Static shape: attr `shape`, even if the default's shape is more specific. Raises ShapeError if the two do not fit."""
    merge(context.shapes[0], context.attrs["shape"].dims)
    return (context.attrs["shape"].dims,)


def _infer_fill(context: ShapeContext) -> Sequence[Dims]:
    with_rank(context.shapes[0], 1)
    with_rank(context.shapes[1], 0)
    shape, values = vector_shape_value(context, 0), context.value(0)
    if values is not None and (values < 0).any():
        raise ShapeError("Fill dimensions must be >= 0")
    return (shape,)


def _infer_one_hot(context: ShapeContext) -> Sequence[Dims]:
    axis = context.attrs["axis"]
    if axis < -1:
        raise ShapeError("axis must be >= -1")
    depth = scalar_dim(context, 1)
    indices = context.shapes[0]
    if indices is None:
        return (None,)
    rank = len(indices) + 1
    place = (axis + rank) % rank
    return ((*indices[:place], depth, *indices[place:]),)


def infer_each_unchanged(context: ShapeContext) -> Sequence[Dims]:
    """Static shapes: each output has its input's shape."""
    return context.shapes


def zeros_like_memory(memory: KernelMemory) -> None:
    """Zeros reuse the input's buffer; a tensor list of zeros is on the host's heap."""
    if memory.outputs[0].dtype is VARIANT:
        memory.leave_untracked(0)
    else:
        memory.forward(0, 0)


_IDENTITY = Kernel(pass_on, unchanged, direct=same, memory=aliases(), traits=Trait.HANDS_ON)
_REF_IDENTITY = Kernel(pass_on, unchanged, direct=same, traits=Trait.HANDS_ON)
_SAME_VALUE = _IDENTITY._replace(traits=Trait.HANDS_ON | Trait.SHARES_MEMORY | Trait.PASSES_ON, cost=DISPATCH)
_CONSTANT_MEMORY = leaves_untracked(0)  # the kernel allocates a constant when it is created, and all steps share it


TABLE: Table = {
    "Const": Kernel(copy_constant, _infer_constant, memory=_CONSTANT_MEMORY, traits=Trait.HANDS_ON, cost=DISPATCH),
    "HostConst": Kernel(copy_constant, unknown_shape, memory=_CONSTANT_MEMORY, traits=Trait.HANDS_ON),
    "Placeholder": Kernel(refuse_unfed, shape_attr, needs_context=True, traits=Trait.HANDS_ON, cost=DISPATCH),
    "PlaceholderV2": Kernel(refuse_unfed, shape_attr, needs_context=True, traits=Trait.HANDS_ON, cost=DISPATCH),
    "PlaceholderWithDefault": Kernel(
        pass_on, infer_default, direct=same, memory=aliases(), traits=Trait.HANDS_ON, cost=DISPATCH
    ),
    "Fill": Kernel(fill, _infer_fill, traits=Trait.TAKES_OBJECTS | Trait.TAKES_SHAPE, cost=COPY),
    "Empty": Kernel(make_empty, shape_of_first_value, traits=Trait.TAKES_SHAPE),
    "ZerosLike": Kernel(zeros_like, unchanged, memory=zeros_like_memory, traits=Trait.FILLS, cost=COPY),
    "OnesLike": Kernel(ones_like, unchanged, memory=forwards(0), traits=Trait.FILLS, cost=COPY),
    "OneHot": Kernel(one_hot, _infer_one_hot, traits=Trait.TAKES_OBJECTS),
    "Identity": _SAME_VALUE,
    "RefIdentity": _REF_IDENTITY._replace(traits=Trait.HANDS_ON | Trait.SHARES_MEMORY, cost=DISPATCH),
    "Snapshot": Kernel(
        pass_on, unchanged, direct=same, memory=forwards(0), traits=Trait.HANDS_ON | Trait.PASSES_ON, cost=DISPATCH
    ),
    "StopGradient": _SAME_VALUE,
    "PreventGradient": _SAME_VALUE,
    "GuaranteeConst": _IDENTITY,
    "DebugGradientIdentity": _IDENTITY,
    "DebugGradientRefIdentity": _REF_IDENTITY,
    "DebugIdentity": _IDENTITY,
    "Copy": _IDENTITY._replace(cost=COPY),
    "CopyHost": _IDENTITY,
    "IdentityN": Kernel(
        pass_on, infer_each_unchanged, memory=alias_each, traits=Trait.HANDS_ON | Trait.PASSES_ON, cost=DISPATCH
    ),
    "DeepCopy": Kernel(copy_input, unchanged, cost=COPY),
    "NoOp": Kernel(do_nothing, no_outputs, traits=Trait.HANDS_ON, cost=DISPATCH),
    "ControlTrigger": Kernel(do_nothing, no_outputs, cost=DISPATCH),
}
