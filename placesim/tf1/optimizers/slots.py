"""Slot variables of optimizers and moving averages."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.distribute.contexts import colocate_variables_with
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike, TensorLike
from placesim.tf1.variables.resource import HandledVariable
from placesim.tf1.variables.variable import SaveSliceInfo, Variable


def create_slot(primary: Any, value: TensorLike, name: str, colocate_with_primary: bool = True) -> Any:
    """Make a variable `PRIMARY/NAME` with an initial value, on the primary's device."""
    return _create(primary, value, None, None, name, colocate_with_primary)


def create_slot_with_initializer(
    primary: object, initializer: object, shape: ShapeLike, dtype: DTypeLike, name: str, colocate_with_primary: bool = True
) -> Any:
    """Make a variable `PRIMARY/NAME` with an initializer, on the primary's device."""
    return _create(primary, initializer, shape, dtype, name, colocate_with_primary)


def create_zeros_slot(primary: Any, name: str, dtype: DTypeLike | None = None, colocate_with_primary: bool = True) -> Any:
    """Make a variable `PRIMARY/NAME` of zeros with the primary's shape, on the primary's device."""
    dtype = primary.dtype.base_dtype if dtype is None else dtype
    shape = primary.get_shape()
    if shape.is_fully_defined():
        return _create(primary, tf.zeros_initializer(), shape, dtype, name, colocate_with_primary)
    start = primary.initialized_value() if isinstance(primary, Variable) else primary
    return _create(primary, tf.zeros(tf.shape(start), dtype=dtype), None, None, name, colocate_with_primary)


def _create(primary: Any, initial: Any, shape: Any, dtype: DTypeLike | None, name: str, colocate_with_primary: bool) -> Any:
    own = primary.op.name
    with tf.variable_scope(None, f"{own}/{name}"), colocate_variables_with(primary) if colocate_with_primary else nullcontext():
        slot = tf.get_variable(
            "",
            shape,
            dtype,
            initializer=initial,
            trainable=False,
            use_resource=isinstance(primary, HandledVariable),
            validate_shape=initial.get_shape().is_fully_defined() if shape is None else shape.is_fully_defined(),
        )
    part = primary._get_save_slice_info() if isinstance(primary, Variable) else None
    if part is not None:
        suffix = slot.op.name[len(own) :]
        slot._set_save_slice_info(SaveSliceInfo(f"{part.full_name}{suffix}", part.full_shape, part.var_offset, part.var_shape))
    return slot
