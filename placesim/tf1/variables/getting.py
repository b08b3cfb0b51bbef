"""`tf.get_variable`: a variable of the current scope, new or reused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike
from placesim.tf1.variables.scopes import scopes_of_graph
from placesim.tf1.variables.variable import VariableAggregation, VariableSynchronization


def get_variable(
    name: str | None,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    initializer: object = None,
    regularizer: object = None,
    trainable: bool | None = None,
    collections: object = None,
    caching_device: object = None,
    partitioner: object = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    custom_getter: object = None,
    constraint: object = None,
    synchronization: object = VariableSynchronization.AUTO,
    aggregation: object = VariableAggregation.NONE,
) -> Any:
    """Variable of this name in the current variable scope: new, or the existing one if variables are reused.

    Raises ValueError for an existing variable without reuse, a missing one with reuse, and another shape or type.
    """
    scopes = scopes_of_graph()
    arguments = {
        "shape": shape,
        "dtype": dtype,
        "initializer": initializer,
        "regularizer": regularizer,
        "reuse": None,
        "trainable": trainable,
        "collections": collections,
        "caching_device": caching_device,
        "partitioner": partitioner,
        "validate_shape": validate_shape,
        "use_resource": use_resource,
        "custom_getter": custom_getter,
        "constraint": constraint,
        "synchronization": synchronization,
        "aggregation": aggregation,
    }
    return scopes.store.get(scopes.current, name, arguments)


def get_local_variable(
    name: str,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    initializer: object = None,
    regularizer: object = None,
    trainable: bool = False,
    collections: Sequence[str] | None = None,
    caching_device: object = None,
    partitioner: object = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    custom_getter: object = None,
    constraint: object = None,
    synchronization: object = VariableSynchronization.AUTO,
    aggregation: object = VariableAggregation.NONE,
) -> Any:
    """`get_variable` of a local variable, which is not trainable."""
    keys = [*(collections or ()), "local_variables"]
    settings = (
        caching_device,
        partitioner,
        validate_shape,
        use_resource,
        custom_getter,
        constraint,
        synchronization,
        aggregation,
    )
    return get_variable(name, shape, dtype, initializer, regularizer, False, keys, *settings)


def no_regularizer(_: object) -> None:
    """Regularizer without a loss, for a variable that should not have the regularizer of its scope."""
