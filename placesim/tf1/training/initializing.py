"""Initializers of tables and other resources, and the report of uninitialized ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.graph_keys import GraphKeys


def tables_initializer(name: str = "init_all_tables") -> Any:
    """Op that fills all tables of the graph so far."""
    found = tf.get_collection(GraphKeys.TABLE_INITIALIZERS)
    return tf.group(*found, name=name) if found else tf.no_op(name=name)


def shared_resources() -> list[Any]:
    """Resources, except variables, that all tasks share: objects with `handle`, `create` and `is_initialized`."""
    return list(tf.get_collection(GraphKeys.RESOURCES))


def local_resources() -> list[Any]:
    """Resources, except variables, that each task has for itself."""
    return list(tf.get_collection(GraphKeys.LOCAL_RESOURCES))


def initialize_resources(resources: Sequence[Any], name: str = "init") -> Any:
    """Op that creates resources."""
    return tf.group(*[each.create for each in resources], name=name) if resources else tf.no_op(name=name)


def report_uninitialized_resources(resources: Sequence[Any] | None = None, name: str = "report_uninitialized_resources") -> Any:
    """Names of the resources that are not initialized."""
    asked = shared_resources() + local_resources() if resources is None else list(resources)
    # names of resources are strings, which only the host holds (8.6)
    with tf.name_scope(name), tf.device("/cpu:0"):
        if not asked:
            return tf.constant([], dtype=tf.string)
        missing = tf.logical_not(tf.stack([each.is_initialized for each in asked]))
        return tf.boolean_mask(tf.constant([each.handle.name for each in asked]), missing)
