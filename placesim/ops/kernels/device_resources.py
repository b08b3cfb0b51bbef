"""Resources of one device that outlive a step: variables and others, by container and name."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from placesim.core.dtypes import DataType
from placesim.core.errors import InvalidArgumentError, NotFoundError
from placesim.ops.attributes import UNKNOWN_RANK, Shape

Tensor = np.ndarray[Any, Any]
REF_VARIABLE_TYPE = "N10tensorflow9LegacyVarE"
"""TensorFlow's name for the type of a reference variable's resource."""
VARIABLE_TYPE = "N10tensorflow3VarE"
"""TensorFlow's name for the type of a resource variable."""
VARIABLE_OPS = {"VarHandleOp": VARIABLE_TYPE, "VariableV2": REF_VARIABLE_TYPE, "Variable": REF_VARIABLE_TYPE}
"""Ops that create a variable, and the type of the resource that holds it."""
UNINITIALIZED = "Attempting to use uninitialized value "
"""Beginning of TensorFlow's error for a ref variable without a value; the variable's name follows."""
DEFAULT_CONTAINER = "localhost"
"""Container of a resource whose attr `container` is empty."""


@dataclass(slots=True, eq=False)
class VariableResource:
    """A ref variable or a resource variable. `value` is None until it is first written.

    `shape` is the declared shape of a ref variable, if known.
    """

    name: str
    dtype: DataType
    value: Tensor | None = None
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class ResourceHandle:
    """The value of a `resource` tensor: device, container and name of the resource.

    numpy must store a handle as a scalar. Therefore it is not a tuple, and has no attribute `shape`.
    """

    device: str
    container: str
    name: str
    type: str = VARIABLE_TYPE
    dtype: DataType | None = None
    tensor_shape: Shape = UNKNOWN_RANK


def value_dims(value: Any) -> tuple[int, ...]:
    """Return the shape of a tensor's value, which is `()` for an object such as a handle, variant or sequence."""
    dims = getattr(value, "shape", ())
    return dims if type(dims) is tuple else ()


def check_kind(handle: ResourceHandle, kind: str) -> None:
    """Raise InvalidArgumentError if a handle's resource has another C++ type."""
    if handle.type != kind:
        raise InvalidArgumentError(
            "Trying to access a handle's resource using the wrong type. The handle points to a resource "
            f"(name '{handle.name}') of type {_with_hash(handle.type)} but you are trying to access the resource as type "
            f"{_with_hash(kind)}"
        )


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
"""Hash codes of C++ types in TensorFlow 2.21's messages, as observed. Messages about other types show no hash code."""


def _with_hash(kind: str) -> str:
    return f"'{spell_type(kind)}'" + (f" (hash code {TYPE_HASHES[kind]})" if kind in TYPE_HASHES else "")


def spell_type(kind: str) -> str:
    """Demangle the name of a C++ type: `N10tensorflow3VarE` becomes `tensorflow::Var`."""
    parts, rest = [], kind.removeprefix("N")
    while (digits := re.match(r"\d+", rest)) is not None:
        end = digits.end() + int(digits[0])
        parts.append(rest[digits.end() : end].replace("_GLOBAL__N_1", "(anonymous namespace)"))
        rest = rest[end:]
    return "::".join(parts) or kind


class ResourceManager:
    """The resources of one device. As in TensorFlow, a container exists from its first resource on."""

    def __init__(self) -> None:
        self._containers: dict[str, dict[tuple[str, str], Any]] = {}
        self.private_count = 0
        """Number of unique private names assigned on this device."""
        self._anonymous: set[tuple[str, str, str]] = set()

    def lookup(self, handle: ResourceHandle, kind: str) -> Any:
        """Return a handle's resource. Raises InvalidArgumentError for another C++ type, NotFoundError if it is missing."""
        check_kind(handle, kind)
        container = self._containers.get(handle.container)
        if container is None:
            raise NotFoundError(
                f"Container {handle.container} does not exist. (Could not find resource: {handle.container}/{handle.name})"
            )
        found = container.get((handle.name, handle.type))
        if found is None:
            raise NotFoundError(f"Resource {handle.container}/{handle.name}/{handle.type} does not exist.")
        return found

    def find(self, handle: ResourceHandle) -> Any:
        """Return the resource of a handle, or None if it is missing."""
        return self._containers.get(handle.container, {}).get((handle.name, handle.type))

    def lookup_or_create(self, handle: ResourceHandle, create: Callable[[], Any], is_anonymous: bool = False) -> Any:
        """Return the resource of a handle, created if missing; later steps cannot find one created with `is_anonymous`."""
        container = self._containers.setdefault(handle.container, {})
        key = (handle.name, handle.type)
        if key not in container:
            container[key] = create()
            if is_anonymous:
                self._anonymous.add((handle.container, *key))
        return container[key]

    def delete(self, handle: ResourceHandle) -> None:
        """Delete a resource. Raises NotFoundError if it is missing."""
        if handle.container not in self._containers:
            raise NotFoundError(f"Container {handle.container} does not exist.")
        self.lookup(handle, handle.type)
        del self._containers[handle.container][handle.name, handle.type]
        self._anonymous.discard((handle.container, handle.name, handle.type))

    def private_name(self, node: str) -> str:
        """Return `_0_NODE`: a name for a node's private resource that no other resource of this device has."""
        self.private_count += 1
        return f"_{self.private_count - 1}_{node}"

    def adopt(self, other: ResourceManager) -> None:
        """Take over all resources of another manager, replacing those with the same names."""
        for name, container in other._containers.items():
            self._containers.setdefault(name, {}).update(container)
        self.private_count = max(self.private_count, other.private_count)

    def put(self, handle: ResourceHandle, resource: Any) -> None:
        """Keep a resource under a handle, in place of any earlier one."""
        self._containers.setdefault(handle.container, {})[handle.name, handle.type] = resource

    def named(self) -> Iterator[tuple[ResourceHandle, Any]]:
        """Yield every resource that later steps can find, with a handle that has no device."""
        for container, found in self._containers.items():
            for (name, kind), resource in found.items():
                if (container, name, kind) not in self._anonymous:
                    yield ResourceHandle("", container, name, kind), resource

    def variables(self) -> dict[str, VariableResource]:
        """Return every variable by its name."""
        return {
            name: resource
            for container in self._containers.values()
            for (name, _), resource in container.items()
            if isinstance(resource, VariableResource)
        }


class SharedResources:
    """The resources that all sessions of a cluster's servers share, by device name. The sessions take turns to run steps."""

    def __init__(self) -> None:
        self.condition = threading.Condition(threading.RLock())
        self._managers: dict[str, ResourceManager] = {}

    def of(self, device: str) -> ResourceManager:
        """Return the resources of a device."""
        return self._managers.setdefault(device, ResourceManager())

    def clear(self) -> None:
        """Drop all managers; sessions that are open keep the managers that they have."""
        self._managers.clear()
