"""What outlives a step on one device: variables and other resources, by container and name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from placesim.dtypes import DType
from placesim.errors import InvalidArgumentError, NotFoundError
from placesim.ops.attributes import UNKNOWN_RANK, Shape

Tensor = np.ndarray[Any, Any]
REF_VARIABLE_TYPE = "N10tensorflow9LegacyVarE"
"""The type of a reference variable's resource."""
VARIABLE_TYPE = "N10tensorflow3VarE"
"""How TensorFlow's messages spell the type of a resource variable."""


class Variable:
    """A variable of either kind: a place whose value may be replaced; None while it was never written.

    `shape`: of a ref variable what its op declares, where that is known.
    """

    __slots__ = ("dtype", "name", "shape", "value")

    def __init__(self, name: str, dtype: DType, value: Tensor | None = None, shape: tuple[int, ...] | None = None) -> None:
        self.name = name
        self.dtype = dtype
        self.value = value
        self.shape = shape


class ResourceHandle(NamedTuple):
    """The value of a `resource` tensor: where the resource lives, and under which name."""

    device: str
    container: str
    name: str
    type: str = VARIABLE_TYPE
    dtype: DType | None = None
    shape: Shape = UNKNOWN_RANK


TYPE_HASHES = {
    VARIABLE_TYPE: 17454915466513971685,
    "N10tensorflow15ReaderInterfaceE": 13438509206727821711,
    "N10tensorflow14QueueInterfaceE": 9040823170352039474,
    "N10tensorflow6lookup15LookupInterfaceE": 8115731599990610490,
    "N10tensorflow4data16IteratorResourceE": 8918088204830721661,
    "N10tensorflow26ConditionalAccumulatorBaseE": 4595586855067344955,
    "N10tensorflow5StackE": 11783358439878174618,
    "N10tensorflow11TensorArrayE": 17404284069006640434,
}
"""The hash codes of C++ types, which TensorFlow 2.21 shows where a handle is of another type than its op takes."""


def check_type(handle: ResourceHandle, kind: str) -> None:
    """InvalidArgumentError in TensorFlow's words unless a handle's resource is of this C++ type."""
    if handle.type != kind:
        raise InvalidArgumentError(
            "Trying to access a handle's resource using the wrong type. The handle points to a resource "
            f"(name '{handle.name}') of type {_type_text(handle.type)} but you are trying to access the resource as type "
            f"{_type_text(kind)}"
        )


def _type_text(mangled: str) -> str:
    names, rest = [], mangled.removeprefix("N")
    while rest[:1].isdigit():
        digits = len(rest) - len(rest.lstrip("0123456789"))
        end = digits + int(rest[:digits])
        names.append(rest[digits:end])
        rest = rest[end:]
    return f"'{'::'.join(names)}' (hash code {TYPE_HASHES.get(mangled, 0)})"


class ResourceManager:
    """The resources of one device; a container exists from its first resource on, as in TensorFlow."""

    def __init__(self) -> None:
        self._containers: dict[str, dict[tuple[str, str], Any]] = {}
        self._private_count = 0

    def lookup(self, handle: ResourceHandle) -> Any:
        """The resource of a handle; NotFoundError in TensorFlow's words where there is none."""
        container = self._containers.get(handle.container)
        if container is None:
            raise NotFoundError(
                f"Container {handle.container} does not exist. (Could not find resource: {handle.container}/{handle.name})"
            )
        found = container.get((handle.name, handle.type))
        if found is None:
            raise NotFoundError(f"Resource {handle.container}/{handle.name}/{handle.type} does not exist.")
        return found

    def lookup_or_create(self, handle: ResourceHandle, create: Callable[[], Any]) -> Any:
        """The resource of a handle, made first where there is none."""
        container = self._containers.setdefault(handle.container, {})
        key = (handle.name, handle.type)
        if key not in container:
            container[key] = create()
        return container[key]

    def delete(self, handle: ResourceHandle) -> None:
        """Forget a resource; NotFoundError where there is none."""
        if handle.container not in self._containers:
            raise NotFoundError(f"Container {handle.container} does not exist.")
        self.lookup(handle)
        del self._containers[handle.container][handle.name, handle.type]

    def private_name(self, node: str) -> str:
        """`_0_NODE`: a name that no other resource of this device has, for one that its node does not share."""
        self._private_count += 1
        return f"_{self._private_count - 1}_{node}"

    def variables(self) -> dict[str, Variable]:
        """Every resource variable by its name."""
        return {
            name: resource
            for container in self._containers.values()
            for (name, _), resource in container.items()
            if isinstance(resource, Variable)
        }
