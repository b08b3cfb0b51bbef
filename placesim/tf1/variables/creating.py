"""`tf.Variable`: the choice between resource and reference variables, and variable creators."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike
from placesim.tf1.variables.reference import RefVariable
from placesim.tf1.variables.resource import ResourceVariable
from placesim.tf1.variables.scopes import get_variable_scope
from placesim.tf1.variables.variable import (
    Variable,
    VariableAggregation,
    VariableDef,
    VariableMetaclass,
    VariableSynchronization,
)

_resource_by_default = False


def enable_resource_variables() -> None:
    """Make resource variables the default."""
    global _resource_by_default
    _resource_by_default = True


def disable_resource_variables() -> None:
    """Make reference variables the default, as TensorFlow 1 does."""
    global _resource_by_default
    _resource_by_default = False


def resource_variables_enabled() -> bool:
    """Whether resource variables are the default."""
    return _resource_by_default


def create_variable(
    initial_value: object = None,
    trainable: bool | None = None,
    validate_shape: bool = True,
    caching_device: object = None,
    name: str | None = None,
    variable_def: VariableDef | None = None,
    dtype: DTypeLike | None = None,
    import_scope: str | None = None,
    constraint: object = None,
    synchronization: object = VariableSynchronization.AUTO,
    aggregation: object = VariableAggregation.NONE,
    shape: ShapeLike | None = None,
    experimental_enable_variable_lifting: object = None,
    expected_shape: object = None,
    collections: object = None,
    use_resource: bool | None = None,
    **others: object,
) -> Any:
    """`tf.Variable`: call the graph's variable creators, the innermost first, and the default one last."""
    arguments = dict(locals())
    arguments |= arguments.pop("others")
    make: Callable[..., Any] = _make_default
    for creator in _creators():
        make = functools.partial(creator, make)
    return make(**arguments)


def _make_default(**arguments: Any) -> Variable:
    use_resource = arguments.pop("use_resource", None)
    if use_resource is None:
        use_resource = get_variable_scope().use_resource
    if use_resource is None:
        use_resource = _resource_by_default or get_default_graph().building_function
    kind = ResourceVariable if use_resource else RefVariable
    known = inspect.signature(kind.__init__).parameters
    return kind(**{key: value for key, value in arguments.items() if key in known})


def _creators() -> list[Callable[..., Any]]:
    graph = get_default_graph()
    found = getattr(graph, "variable_creators", None)
    if found is None:
        found = graph.variable_creators = []
    return found


@contextmanager
def variable_creator_scope(variable_creator: Callable[..., Any]) -> Iterator[None]:
    """Make the variables of the block with `variable_creator(next_creator, **arguments)`."""
    creators = _creators()
    creators.append(variable_creator)
    try:
        yield
    finally:
        creators.pop()


VariableMetaclass.create = staticmethod(create_variable)
