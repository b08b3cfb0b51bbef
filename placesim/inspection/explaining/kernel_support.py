"""Kernels for a node by device type, and the attrs that exclude other kernels (4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from placesim.core.dtypes import DataType
from placesim.graph.graph import Node, Signature
from placesim.ops.attributes import AttrValue, format_attr_value
from placesim.ops.definitions import KernelDef
from placesim.ops.kernel_lookup import find_kernel
from placesim.ops.registry import Registry


class Exclusion(NamedTuple):
    """An attr value that alone excludes kernels, and the values that these kernels accept."""

    attr: str
    value: AttrValue
    allowed: tuple[AttrValue, ...]

    def __str__(self) -> str:
        return f"{self.attr} is {_shown(self.value)}, kernels accept {', '.join(map(_shown, self.allowed))}"


class KernelSupport(NamedTuple):
    """The kernel of a node for one device type. `priority` is None without a kernel.

    `exclusions` are the attrs that each exclude a kernel alone. `registered` is whether the op has any kernel for this type.
    """

    device_type: str
    priority: int | None
    registered: bool
    exclusions: tuple[Exclusion, ...] = ()


def kernel_support(registry: Registry, node: Node, device_types: Sequence[str]) -> tuple[KernelSupport, ...]:
    """Return the kernel support of a node for each type, in the order of the types.

    An op that is not registered runs on every type (4.3).
    """
    signature = node.signature
    if signature.definition is None:
        return tuple(KernelSupport(device_type, 0, True) for device_type in device_types)
    return tuple(_support(registry, signature, device_type) for device_type in device_types)


def _support(registry: Registry, signature: Signature, device_type: str) -> KernelSupport:
    found = find_kernel(registry, signature.op, device_type, signature.attrs, signature.op)
    if found is not None:
        return KernelSupport(device_type, found.priority, True)
    label = signature.attrs.get("_kernel", "")
    entries = [k for k in registry.kernels(signature.op) if k.device_type in (device_type, "DEFAULT") and k.label == label]
    return KernelSupport(device_type, None, bool(entries), _exclusions(entries, signature))


def _exclusions(entries: Sequence[KernelDef], signature: Signature) -> tuple[Exclusion, ...]:
    """Return the attrs that are the only obstacle to some kernel, with all values that these kernels accept."""
    allowed: dict[str, dict[AttrValue, None]] = {}
    for kernel in entries:
        wrong = [name for name, values in kernel.constraint.items() if not _accepts(values, signature.attrs.get(name))]
        if len(wrong) == 1:
            allowed.setdefault(wrong[0], {}).update(dict.fromkeys(kernel.constraint[wrong[0]]))
    return tuple(Exclusion(name, signature.attrs.get(name), tuple(values)) for name, values in allowed.items())


def _accepts(allowed: tuple[AttrValue, ...], value: AttrValue) -> bool:
    return all(part in allowed for part in value) if isinstance(value, tuple) else value in allowed


def _shown(value: AttrValue) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_shown, value)) + "]"
    return value.python_name if isinstance(value, DataType) else "nothing" if value is None else format_attr_value(value)
