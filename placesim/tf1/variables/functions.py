"""Functions on variables: assignment, scatter updates, initialization and listing."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.variables.resource import HandledVariable, scatter_rows
from placesim.tf1.variables.variable import Variable

_REPORTING_DEVICE = "TF_DEVICE_FOR_UNINITIALIZED_VARIABLE_REPORTING"
_REFERENCES = ("Variable", "VariableV2", "AutoReloadVariable")


# --- assigning ------------------------------------------------------------------------------------------------------


def _is_reference(ref: Tensor | Variable) -> bool:
    return bool(ref.dtype._is_ref_dtype)


def assign(ref: Any, value: Any, validate_shape: object = None, use_locking: object = None, name: str | None = None) -> Any:
    """Assign a value.  Return the reference, or the resource variable after the assignment."""
    if _is_reference(ref):
        return gen("Assign")(ref, value, validate_shape=validate_shape, use_locking=use_locking, name=name)
    return ref.assign(value, name=name)


def assign_add(ref: Any, value: Any, use_locking: object = None, name: str | None = None) -> Any:
    """Add a value.  Return the reference, or the resource variable after the addition."""
    if _is_reference(ref):
        return gen("AssignAdd")(ref, value, use_locking=use_locking, name=name)
    return ref.assign_add(value)


def assign_sub(ref: Any, value: Any, use_locking: object = None, name: str | None = None) -> Any:
    """Subtract a value.  Return the reference, or the resource variable after the subtraction."""
    if _is_reference(ref):
        return gen("AssignSub")(ref, value, use_locking=use_locking, name=name)
    return ref.assign_sub(value)


def _scatter(op: str, locking: bool) -> Callable[..., Any]:
    def scatter(ref: Any, indices: TensorLike, updates: Any, use_locking: bool = locking, name: str | None = None) -> Any:
        if _is_reference(ref):
            return gen(op)(ref, indices, updates, use_locking=use_locking, name=name)
        return ref._after(scatter_rows("Resource" + op, ref, indices, updates, name))

    return scatter


scatter_update = _scatter("ScatterUpdate", True)
scatter_add = _scatter("ScatterAdd", False)
scatter_sub = _scatter("ScatterSub", False)
scatter_mul = _scatter("ScatterMul", False)
scatter_div = _scatter("ScatterDiv", False)
scatter_min = _scatter("ScatterMin", False)
scatter_max = _scatter("ScatterMax", False)
scatter_nd_update = _scatter("ScatterNdUpdate", True)
scatter_nd_add = _scatter("ScatterNdAdd", False)
scatter_nd_sub = _scatter("ScatterNdSub", False)


def batch_scatter_update(
    ref: TensorLike, indices: Any, updates: TensorLike, use_locking: bool = True, name: str | None = None
) -> Any:
    """Replace rows within each batch: `ref[batch, indices[batch, j]] = updates[batch, j]`."""
    with tf.name_scope(name):
        indices = tf.convert_to_tensor(indices, name="indices")
        outer = indices.shape.ndims - 1
        sizes = tf.shape(indices)
        last = [tf.expand_dims(indices, -1)]
        grid = [
            tf.reshape(tf.cast(gen("Range")(0, sizes[i], 1), indices.dtype), [1] * i + [-1] + [1] * (outer - i))
            for i in range(outer)
        ]
        if grid:
            grid = [tf.expand_dims(item * tf.ones_like(indices), -1) for item in grid]
        places = tf.concat([*grid, *last], axis=-1)
        return scatter_nd_update(ref, places, updates, use_locking, name)


def count_up_to(ref: Any, limit: int, name: str | None = None) -> Any:
    """Increment a variable, and return its old value.  The op fails at the limit."""
    if _is_reference(ref):
        return gen("CountUpTo")(ref, limit=limit, name=name)
    return gen("ResourceCountUpTo")(ref.handle, limit=limit, T=ref.dtype, name=name)


def is_variable_initialized(ref: TensorLike, name: str | None = None) -> Any:
    """Whether a variable has a value."""
    if isinstance(ref, HandledVariable):
        return ref.is_initialized(name)
    return gen("IsVariableInitialized")(ref, name=name)


# --- lists of variables ---------------------------------------------------------------------------------------------


def _collected(collection: str) -> Callable[..., Any]:
    def variables(scope: str | None = None) -> Any:
        return tf.get_collection(collection, scope)

    return variables


global_variables = _collected("variables")
local_variables = _collected("local_variables")
model_variables = _collected("model_variables")
trainable_variables = _collected("trainable_variables")
moving_average_variables = _collected("moving_average_variables")


def all_variables() -> Any:
    """An older name of `global_variables`."""
    return global_variables()


# --- initializing ---------------------------------------------------------------------------------------------------


def variables_initializer(var_list: Sequence[Any], name: str = "init") -> Any:
    """An op that runs the initializers of variables."""
    if not var_list:
        return tf.no_op(name=name)
    return tf.group(*[variable.initializer for variable in var_list], name=name)


def global_variables_initializer() -> Any:
    """An op that runs the initializers of all global variables so far."""
    return variables_initializer(global_variables())


def local_variables_initializer() -> Any:
    """An op that runs the initializers of all local variables so far."""
    return variables_initializer(local_variables())


initialize_variables = variables_initializer
initialize_all_variables = global_variables_initializer
initialize_local_variables = local_variables_initializer


def _to_report(variables: Any) -> list[Any]:
    """The given variables, else all global and local ones, else the outputs of all variable nodes."""
    if variables is not None:
        return list(variables)
    return global_variables() + local_variables() or [
        op.outputs[0] for op in tf.get_default_graph().get_operations() if op.type in _REFERENCES
    ]


def assert_variables_initialized(var_list: object = None) -> Any:
    """Tensor of the variables' ranks, which fails if one is uninitialized; None without variables."""
    ranks = []
    for variable in _to_report(var_list):
        with tf.colocate_with(variable.op):
            reference = variable if isinstance(variable, Variable) else tf.convert_to_tensor(variable)
            ranks.append(gen("Rank")(reference))
    if len(ranks) < 2:
        return ranks[0] if ranks else None
    return tf.stack(ranks)


def report_uninitialized_variables(var_list: object = None, name: str = "report_uninitialized_variables") -> Any:
    """Names of the variables that are not initialized."""
    variables = _to_report(var_list)
    with tf.name_scope(name):
        known = [is_variable_initialized(variable) for variable in variables]
        with tf.device(os.environ.get(_REPORTING_DEVICE, "/cpu:0")):
            if not variables:
                return tf.constant([], dtype=tf.string)
            unknown = tf.logical_not(tf.stack(known))
            names = tf.constant([variable.op.name for variable in variables])
            return tf.boolean_mask(names, unknown)
