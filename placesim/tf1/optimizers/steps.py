"""The global step: the variable that counts an optimizer's updates."""

from __future__ import annotations

from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.graph import Graph
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.session.stacks import RunningSession
from placesim.tf1.variables.variable import Variable, VariableAggregation

_NAME = "global_step"


def get_global_step(graph: Graph | None = None) -> Any:
    """Global step of a graph: from its collection, else by name; None if there is none.

    Raises TypeError if it is no integer scalar.
    """
    graph = graph or tf.get_default_graph()
    found = graph.get_collection(_NAME)
    if len(found) > 1:
        return None
    if found:
        step = found[0]
    else:
        try:
            step = graph.get_tensor_by_name(_NAME + ":0")
        except KeyError:
            return None
    assert_global_step(step)
    return step


def create_global_step(graph: Graph | None = None) -> Any:
    """Create a global step.  Raises ValueError if one exists."""
    graph = graph or tf.get_default_graph()
    if get_global_step(graph) is not None:
        raise ValueError('"global_step" already exists.')
    with graph.as_default(), tf.name_scope(None):
        return tf.get_variable(
            _NAME,
            shape=[],
            dtype=tf.int64,
            initializer=tf.zeros_initializer(),
            trainable=False,
            aggregation=VariableAggregation.ONLY_FIRST_REPLICA,
            collections=["variables", _NAME],
        )


def get_or_create_global_step(graph: Graph | None = None) -> Any:
    """The global step, created if needed."""
    graph = graph or tf.get_default_graph()
    found = get_global_step(graph)
    return create_global_step(graph) if found is None else found


GLOBAL_STEP_READS = "global_step_read_op_cache"
"""Collection of the tensor that `read_global_step` returns."""


def read_global_step() -> Any:
    """The graph's tensor of the global step, which can be read before initialization; None without a global step."""
    graph = tf.get_default_graph()
    found = graph.get_collection(GLOBAL_STEP_READS)
    if found:
        return found[0]
    step = get_global_step(graph)
    if step is None:
        return None
    with tf.name_scope(None), tf.name_scope(step.op.name + "/"):
        value = step
        if isinstance(step, Variable):
            value = tf.cond(tf.is_variable_initialized(step), step.read_value, lambda: step.initial_value)
        read = value + 0
        graph.add_to_collection(GLOBAL_STEP_READS, read)
    return read


def assert_global_step(global_step_tensor: object) -> None:
    """Raise TypeError for a tensor that can't be a global step."""
    if not isinstance(global_step_tensor, (Variable, Tensor)):
        raise TypeError(f'Existing "global_step" must be a Variable or Tensor: {global_step_tensor}.')
    if not global_step_tensor.dtype.base_dtype.is_integer:
        raise TypeError(f'Existing "global_step" does not have integer type: {global_step_tensor.dtype}')
    shape = global_step_tensor.get_shape()
    if shape.ndims != 0 and shape.is_fully_defined():
        raise TypeError(f'Existing "global_step" is not scalar: {shape}')


def global_step(sess: RunningSession, global_step_tensor: Any) -> int:
    """The value of a global step in a session."""
    return int(sess.run(global_step_tensor))
