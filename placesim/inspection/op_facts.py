"""Facts about ops from the registry and the kernel families, and queries over ops.

A table lists the numpy kernels and their modules, so that no kernel is imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from placesim.core.dtypes import DTYPES, NAMES, DataType, parse_dtype
from placesim.graph.node_patterns import matcher
from placesim.ops.definitions import ArgDef, KernelDef, OpDef
from placesim.ops.kernel_lookup import COMPILE_ONLY
from placesim.ops.kernels.op_families import OP_FAMILIES
from placesim.ops.registry import Registry, describe_other_releases, load_registry

__all__ = [
    "DEVICE_TYPES",
    "DTYPE_NAMES",
    "OpFacts",
    "OpFilter",
    "describe_other_releases",
    "facts_of",
    "load_registry",
    "matching_ops",
]

DEVICE_TYPES = ("CPU", "GPU", "DEFAULT", "XLA_CPU", "XLA_GPU")
"""Device types of kernels. A `DEFAULT` kernel serves every device type without its own kernel."""

DTYPE_NAMES = (*NAMES, *(dtype.enum_name for dtype in DTYPES.values()))
"""All accepted names of element types."""


class OpFacts(NamedTuple):
    """An op, TensorFlow's kernels for it, and the family of its numpy kernel (None without a numpy kernel)."""

    op: OpDef
    kernels: tuple[KernelDef, ...]
    family: str | None

    @property
    def device_types(self) -> tuple[str, ...]:
        """Return the device types with a kernel."""
        registered = {kernel.device_type for kernel in self.kernels}
        return tuple(filter(registered.__contains__, DEVICE_TYPES))

    @property
    def file(self) -> str | None:
        """Return the source file of the numpy kernel; None if there is none."""
        return None if self.family is None else f"placesim/ops/kernels/{self.family.replace('.', '/')}.py"


class OpFilter(NamedTuple):
    """A filter for ops: by TensorFlow's kernels, and by whether there is a numpy kernel."""

    device_type: str | None = None
    dtype_name: str | None = None
    has_numpy: bool | None = None

    @property
    def dtype(self) -> DataType | None:
        """Return the element type named `dtype_name`, which a kernel's input or output must have; None for any type."""
        return None if self.dtype_name is None else parse_dtype(self.dtype_name)

    def accepts(self, facts: OpFacts) -> bool:
        """Whether an op meets all conditions."""
        if self.has_numpy is not None and self.has_numpy != (facts.family is not None):
            return False
        if self.device_type is None and self.dtype is None:
            return True
        serving = (kernel for kernel in facts.kernels if self.device_type is None or _serves(kernel, self.device_type))
        return any(self.dtype is None or _takes(facts.op, kernel, self.dtype) for kernel in serving)


def _serves(kernel: KernelDef, device_type: str) -> bool:
    """Whether a device of a type may run a kernel (4.2c)."""
    return kernel.device_type in (device_type, "DEFAULT" if device_type not in COMPILE_ONLY else device_type)


def _takes(op: OpDef, kernel: KernelDef, dtype: DataType) -> bool:
    """Whether a tensor of a type may be an input or an output of a kernel."""
    return any(_may_be(arg, op, kernel, dtype) for arg in (*op.inputs, *op.outputs))


def _may_be(arg: ArgDef, op: OpDef, kernel: KernelDef, dtype: DataType) -> bool:
    if arg.dtype is not None:
        return arg.dtype is dtype
    attr = arg.type_attr or arg.type_list_attr or ""
    limits = (op.attrs[attr].allowed, kernel.constraint.get(attr))
    return all(allowed is None or dtype in allowed for allowed in limits)


def facts_of(registry: Registry, name: str) -> OpFacts | None:
    """Return the facts of an op; None if the release has no such op."""
    op = registry.op(name)
    return None if op is None else OpFacts(op, registry.kernels(name), OP_FAMILIES.get(name))


def matching_ops(registry: Registry, pattern: str | None = None) -> Iterator[OpFacts]:
    """Yield the ops that match a name or a shell pattern (`*`, `?`, `[abc]`), or all ops, sorted by name."""
    matches = matcher((pattern,)) if pattern is not None else lambda name: True
    for name in sorted(filter(matches, registry.op_names)):
        facts = facts_of(registry, name)
        if facts is not None:
            yield facts
