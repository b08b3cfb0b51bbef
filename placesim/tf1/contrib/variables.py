"""`tf.contrib.framework`'s variables: model variables, and lists of variables by scope, suffix or pattern."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.contrib.arg_scopes import add_arg_scope
from placesim.tf1.graphs.graph import Graph
from placesim.tf1.graphs.graph_keys import GraphKeys
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike
from placesim.tf1.optimizers.steps import assert_global_step, get_global_step
from placesim.tf1.variables.variable import Variable, VariableAggregation, VariableSynchronization

_GLOBAL, _MODEL = GraphKeys.GLOBAL_VARIABLES, GraphKeys.MODEL_VARIABLES


@add_arg_scope
def variable(
    name: str,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    initializer: object = None,
    regularizer: object = None,
    trainable: bool = True,
    collections: Any = None,
    caching_device: object = None,
    device: object = None,
    partitioner: object = None,
    custom_getter: Callable[..., Any] | None = None,
    use_resource: bool | None = None,
    synchronization: object = VariableSynchronization.AUTO,
    aggregation: object = VariableAggregation.NONE,
) -> Any:
    """Variable from `tf.get_variable`, made on a device."""
    settings = {key: value for key, value in locals().items() if key not in ("name", "device", "custom_getter")}
    settings["collections"] = list(dict.fromkeys([_GLOBAL] if collections is None else collections))
    getter: Callable[..., Any] = tf.get_variable
    if custom_getter is not None:
        getter = functools.partial(custom_getter, reuse=tf.get_variable_scope().reuse)
    with tf.device(device or ""):
        return getter(name, **settings)


@add_arg_scope
def model_variable(
    name: str,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = tf.float32,
    initializer: object = None,
    regularizer: object = None,
    trainable: bool = True,
    collections: Any = None,
    caching_device: object = None,
    device: object = None,
    partitioner: object = None,
    custom_getter: object = None,
    use_resource: bool | None = None,
    synchronization: object = VariableSynchronization.AUTO,
    aggregation: object = VariableAggregation.NONE,
) -> Any:
    """A `variable` that is also in the collection of model variables."""
    return variable(**locals() | {"collections": [*(collections or ()), _GLOBAL, _MODEL]})


def _untrained(collection: str) -> Callable[..., Any]:
    def make(initial_value: object, validate_shape: bool = True, name: str | None = None, use_resource: object = None) -> Any:
        settings = {"collections": [collection], "validate_shape": validate_shape, "name": name}
        return tf.Variable(initial_value, trainable=False, use_resource=use_resource, **settings)

    make.__doc__ = f"A variable in the collection {collection} that is not trained."
    return make


local_variable = _untrained(GraphKeys.LOCAL_VARIABLES)
global_variable = _untrained(_GLOBAL)


@add_arg_scope
def add_model_variable(var: object) -> None:
    """Add a variable to the collection of model variables."""
    if not any(var is other for other in tf.get_collection(_MODEL)):
        tf.add_to_collection(_MODEL, var)


# --- lists of variables ---


def get_variables(scope: object = None, suffix: str | None = None, collection: str = _GLOBAL) -> list[Any]:
    """Variables of a collection whose names begin with `scope` (a pattern or variable scope) and end with `suffix`."""
    prefix = scope.name if isinstance(scope, tf.VariableScope) else scope
    if suffix is not None:
        if ":" not in suffix:
            suffix += ":"
        prefix = f"{prefix or ''}.*{suffix}"
    return tf.get_collection(collection, prefix)  # type: ignore[no-any-return]


def _listed(collection: str) -> Callable[..., list[Any]]:
    def listed(scope: object = None, suffix: str | None = None) -> list[Any]:
        return get_variables(scope, suffix, collection)

    listed.__doc__ = f"`get_variables` of the collection {collection}."
    return listed


get_model_variables = _listed(_MODEL)
get_local_variables = _listed(GraphKeys.LOCAL_VARIABLES)
get_trainable_variables = _listed(GraphKeys.TRAINABLE_VARIABLES)


def get_variables_by_suffix(suffix: str, scope: object = None) -> list[Any]:
    """Variables whose names end with `suffix`."""
    return get_variables(scope=scope, suffix=suffix)


def get_variables_by_name(given_name: str, scope: object = None) -> list[Any]:
    """Variables whose names end with this component."""
    return get_variables(scope=scope, suffix="/" + given_name + ":|^" + given_name + ":")


def get_unique_variable(var_op_name: str) -> Any:
    """The variable of a name.  Raises ValueError if there is none."""
    candidates = get_variables(scope=var_op_name)
    if not candidates:
        raise ValueError(f"Couldn't find variable {var_op_name}")
    for candidate in candidates:
        if candidate.op.name == var_op_name:
            return candidate
    raise ValueError(f"Variable {var_op_name} does not uniquely identify a variable")


def get_variable_full_name(var: Variable) -> str:
    """Name of a variable in checkpoints; for a partition, that of the whole variable."""
    part = getattr(var, "_save_slice_info", None)
    return str(part.full_name if part else var.op.name)


def get_variables_to_restore(include: Sequence[str] | None = None, exclude: Sequence[str] | None = None) -> list[Any]:
    """The variables in the scopes `include` and not in the scopes `exclude`, without repetitions.  Raises TypeError."""
    for scopes, word in ((include, "include"), (exclude, "exclude")):
        if scopes is not None and not isinstance(scopes, (list, tuple)):
            raise TypeError(f"{word} is provided but is not a list or a tuple.")
    wanted = get_variables() if include is None else [one for scope in include for one in get_variables(scope)]
    left_out = {id(one) for scope in exclude or () for one in get_variables(scope)}
    return [one for one in {id(one): one for one in wanted}.values() if id(one) not in left_out]


def filter_variables(
    var_list: Iterable[Any],
    include_patterns: Sequence[str] | None = None,
    exclude_patterns: object = None,
    reg_search: bool = True,
) -> list[Any]:
    """Variables whose names match an include pattern (all variables if there are none) and no exclude pattern."""
    match = re.search if reg_search else re.match

    def matches(patterns: Any, name: str) -> bool:
        return any(match(pattern, name) for pattern in patterns)

    kept = [one for one in var_list if include_patterns is None or matches(include_patterns, one.op.name)]
    return [one for one in kept if not matches(exclude_patterns or (), one.op.name)]


def assert_or_get_global_step(graph: Graph | None = None, global_step_tensor: object = None) -> Any:
    """The given global step after a check, or the graph's."""
    if global_step_tensor is None:
        return get_global_step(graph)
    assert_global_step(global_step_tensor)
    return global_step_tensor


class VariableDeviceChooser:
    """Device function that assigns variables to the tasks of parameter servers in turn."""

    def __init__(
        self,
        num_tasks: int = 0,
        job_name: str = "ps",
        device_type: str = "CPU",
        device_index: int = 0,
        replica: int | None = None,
    ) -> None:
        self._job_name, self._device_type, self._device_index, self._replica = job_name, device_type, device_index, replica
        self._num_tasks, self._next_task_id = num_tasks, 0

    def __call__(self, op: object) -> str:
        device = tf.DeviceSpec(device_type=self._device_type, device_index=self._device_index, replica=self._replica)
        if self._num_tasks > 0:
            task = self._next_task_id
            self._next_task_id = (task + 1) % self._num_tasks
            device = device.replace(job=self._job_name, task=task)
        return str(device.to_string())
