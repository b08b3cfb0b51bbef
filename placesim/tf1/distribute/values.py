"""Values with a component for each replica, and their grouping."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.distribute.contexts import current_replica
from placesim.tf1.ops.conversion import register_tensor_conversion_function
from placesim.tf1.variables.variable import Variable


class DistributedValues:
    """Base class: the components in order of replicas."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = tuple(values)

    @property
    def values(self) -> tuple[Any, ...]:
        return self._values

    @property
    def _primary(self) -> Any:
        return self._values[0]

    @property
    def devices(self) -> tuple[str, ...]:
        """The components' devices."""
        return tuple(value.device for value in self._values)

    def _text(self, write: Callable[[Any], str]) -> str:
        items = ",\n".join(f"  {number}: {write(value)}" for number, value in enumerate(self._values))
        return f"{type(self).__name__}:{{\n{items}\n}}"

    def __str__(self) -> str:
        return self._text(str)

    def __repr__(self) -> str:
        return self._text(repr)


class PerReplica(DistributedValues):
    """Values that differ from replica to replica."""


class Mirrored(DistributedValues):
    """Values that are equal in all replicas."""

    def _get(self) -> Any:
        """The component of the current replica, or the first."""
        return self._values[current_replica() or 0]

    def _as_graph_element(self) -> Any:
        return self._get()


register_tensor_conversion_function(
    Mirrored, lambda value, dtype=None, name=None, as_ref=False: tf.convert_to_tensor(value._get(), dtype=dtype, name=name)
)


def regroup(values: Sequence[Any], wrap: Callable[[Sequence[Any]], Any] = PerReplica, always_wrap: bool = False) -> Any:
    """The replicas' structures as one structure, whose leaves `wrap` makes of the replicas' leaves.

    Leaves that are one object in all replicas stay this object; components of a distributed variable become the variable.
    Raises AssertionError for structures that differ.
    """
    first = values[0]
    for value in values[1:]:
        _check_structure(first, value)
    if isinstance(first, list | tuple):
        items = [regroup(parts, wrap, always_wrap) for parts in zip(*values, strict=True)]
        if isinstance(first, list):
            return items
        return first._make(items) if hasattr(first, "_make") else tuple(items)
    if isinstance(first, Mapping):
        return type(first)({key: regroup([value[key] for value in values], wrap, always_wrap) for key in first})  # type: ignore[call-arg]
    is_same = all(value is first for value in values)
    container = container_of(first)
    if is_same and container is first and (not always_wrap or isinstance(first, Variable)):
        return first
    return container if container is not first else wrap(values)


def _check_structure(first: Any, value: Any) -> None:
    """Raise AssertionError for a list or dictionary of another kind, length or keys than the first replica's."""
    kind: Any = next((kind for kind in (list, tuple, Mapping) if isinstance(first, kind)), object)
    assert isinstance(value, kind), f"v[0]: {first!r}  v[i]: {value!r}"
    if kind is Mapping:
        own, keys = (f"{{{', '.join(map(repr, each))}}}" for each in (first, value))
        assert first.keys() == value.keys(), f"v[0].keys: {own}  v[i].keys: {keys}"
    elif kind is not object:
        assert len(first) == len(value), f"len(v) == {len(value)}, len(v0) == {len(first)}, v: {value}, v0: {first}"


def select_replica(replica: int, structure: Any, selects_variables: bool = False) -> Any:
    """A structure with the components of one replica.

    By default, distributed variables stay, since they select a component themselves.
    """

    def select(value: Any) -> Any:
        is_selected = isinstance(value, DistributedValues) and (selects_variables or not isinstance(value, Variable))
        return value.values[replica] if is_selected else value

    return tf.nest.map_structure(select, structure)


def note_container(component: Variable, container: Variable) -> None:
    """Remember that a variable is a component of a distributed variable."""
    component._container = weakref.ref(container)  # type: ignore[attr-defined]


def container_of(value: Any) -> Any:
    """The distributed variable with this component; another value itself."""
    found = value.__dict__.get("_container") if isinstance(value, Variable) else None
    return value if found is None else found()


def local_results(value: Any, count: int) -> tuple[Any, ...]:
    """A structure for each of `count` replicas; a single value is returned once."""
    if isinstance(value, DistributedValues):
        return value.values
    if not tf.nest.is_nested(value):
        return (value,)
    return tuple(select_replica(replica, value, selects_variables=True) for replica in range(count))
