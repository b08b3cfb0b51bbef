"""Other functions of `tf.contrib.framework`: assignment of checkpoints and values to variables, checks, names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.graph import Graph
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.layers.layer import smart_constant
from placesim.tf1.ops.constant_values import constant_value
from placesim.tf1.saving.readers import load_checkpoint
from placesim.tf1.session.stacks import RunningSession
from placesim.tf1.variables.partitioned import PartitionedVariable


def assign_from_values(var_names_to_values: Mapping[str, Any]) -> tuple[Any, dict[Any, Any]]:
    """Op that assigns values to variables, and its feeds.  Raises ValueError for a wrong size."""
    from placesim.tf1.contrib.variables import get_unique_variable

    return _assigned({get_unique_variable(name): value for name, value in var_names_to_values.items()})


def _assigned(values: Mapping[Any, Any]) -> tuple[Any, dict[Any, Any]]:
    assigns, feeds = [], {}
    for variable, value in values.items():
        shape = variable.get_shape()
        fed = tf.placeholder(variable.dtype.base_dtype, shape=shape, name="placeholder/" + variable.op.name)
        assigns.append(variable.assign(fed))
        feeds[fed] = value.reshape(shape.as_list())
    return tf.group(*assigns), feeds


def assign_from_values_fn(var_names_to_values: Mapping[str, Any]) -> Callable[[Any], None]:
    """Function that assigns values to variables in a session."""
    assign, feeds = assign_from_values(var_names_to_values)

    def assign_in(session: RunningSession) -> None:
        session.run(assign, feeds)

    return assign_in


def _named(var_list: Any) -> dict[str, Any]:
    """Variables by their names in a checkpoint."""
    from placesim.tf1.contrib.variables import get_variable_full_name

    return dict(var_list) if isinstance(var_list, Mapping) else {get_variable_full_name(one): one for one in var_list}


def assign_from_checkpoint(model_path: str, var_list: object, ignore_missing_vars: bool = False) -> tuple[Any, dict[Any, Any]]:
    """Op that assigns a checkpoint's values to variables, and its feeds.  Raises ValueError for a missing or wrong variable."""
    reader = load_checkpoint(model_path)
    values = {}
    for name, variable in _named(var_list).items():
        if not reader.has_tensor(name):
            if ignore_missing_vars:
                tf.logging.warning(f"Variable {name} missing in checkpoint {model_path}")
                continue
            raise ValueError(f"Checkpoint is missing variable [{name}]")
        whole = reader.get_tensor(name)
        if isinstance(variable, (list, PartitionedVariable)):
            for part in variable:
                info = part._save_slice_info
                values[part] = whole[
                    tuple(slice(at, at + size) for at, size in zip(info.var_offset, info.var_shape, strict=True))
                ]
        else:
            values[variable] = whole
            if variable.shape.num_elements() != whole.size:
                raise ValueError(
                    f"Total size of new array must be unchanged for {name} lh_shape: [{whole.shape}], "
                    f"rh_shape: [{variable.shape}]"
                )
    return _assigned(values)


def assign_from_checkpoint_fn(
    model_path: str, var_list: object, ignore_missing_vars: bool = False, reshape_variables: bool = False
) -> Callable[[Any], None] | None:
    """Function that restores variables in a session; None if the checkpoint has none of them.  Raises ValueError."""
    if not var_list:
        raise ValueError("var_list cannot be empty")
    wanted = var_list
    if ignore_missing_vars:
        reader = load_checkpoint(model_path)
        wanted = {name: one for name, one in _named(var_list).items() if reader.has_tensor(name)}
        for name in _named(var_list).keys() - wanted.keys():
            tf.logging.warning(f"Variable {name} missing in checkpoint {model_path}")
    if not wanted:
        tf.logging.warning("No Variables to restore")
        return None
    saver = tf.train.Saver(wanted, reshape=reshape_variables)

    def restore_in(session: object) -> None:
        saver.restore(session, model_path)

    return restore_in


# --- conditions and checks ---


def smart_cond(pred: TensorLike, true_fn: Any = None, false_fn: Any = None, name: str | None = None) -> Any:
    """Result of one of two functions; a `cond` if the condition is not static."""
    known = smart_constant(pred)
    if known is None:
        return tf.cond(pred, true_fn=true_fn, false_fn=false_fn, name=name)
    return true_fn() if known else false_fn()


def smart_constant_value(pred: Any) -> Any:
    """Static value of a condition; None if it is unknown.  Raises TypeError for other types."""
    if not isinstance(pred, bool | tf.Tensor) and pred not in (0, 1):
        raise TypeError(f"`pred` must be a Tensor, or a Python bool, or 1 or 0. Found instead: {type(pred)}")
    return constant_value(pred) if isinstance(pred, tf.Tensor) else bool(pred)


def assert_scalar(tensor: Any, name: str | None = None, message: str | None = None) -> Any:
    """Return the tensor.  Raises ValueError if it is not a scalar."""
    with tf.name_scope(name, "assert_scalar", [tensor]):
        tensor = tf.convert_to_tensor(tensor)
        if tensor.get_shape().ndims != 0:
            raise ValueError(f"{message or ''}Expected scalar shape for {tensor.name}, saw shape: {tensor.get_shape()}.")
        return tensor


def assert_scalar_int(tensor: Any, name: str | None = None) -> Any:
    """Return the tensor.  Raises ValueError if it is not an integer scalar."""
    with tf.name_scope(name, "assert_scalar_int", [tensor]) as scope:
        tensor = tf.convert_to_tensor(tensor)
        if not tensor.dtype.base_dtype.is_integer:
            raise ValueError(f"Expected integer type for {tensor.name}, received type: {tensor.dtype}.")
        return assert_scalar(tensor, name=scope)


def reduce_sum_n(tensors: Any, name: str | None = None) -> Any:
    """Sum of all elements of several tensors.  Raises ValueError for an empty list."""
    if not tensors:
        raise ValueError("No tensors provided.")
    with tf.name_scope(name, "reduce_sum_n", tensors) as scope:
        sums = [tf.reduce_sum(one, name=f"{one.op.name}/sum") if one.get_shape().ndims != 0 else one for one in tensors]
        return sums[0] if len(sums) == 1 else tf.add_n(sums, name=scope)


def get_graph_from_inputs(op_input_list: Any, graph: Graph | None = None) -> Any:
    """The graph of tensors, else the default graph.  Raises ValueError if the tensors are of several graphs."""
    owned = [one for one in op_input_list if hasattr(one, "graph")]
    found = graph or (owned[0].graph if owned else tf.get_default_graph())
    for one in owned:
        if one.graph is not found:
            told = (
                f"{one} is not from the passed-in graph."
                if graph
                else f"{one} must be from the same graph as {op_input_list[0]}."
            )
            raise ValueError(told)
    return found


def get_placeholders(graph: Graph) -> list[Any]:
    """The placeholders of a graph."""
    return [one.outputs[0] for one in graph.get_operations() if one.type == "Placeholder"]


def get_name_scope() -> str:
    """The current name scope."""
    return str(tf.get_default_graph().get_name_scope())
