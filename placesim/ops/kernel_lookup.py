"""Lookup of an op's kernel among its registrations (section 4), and the error text if there is none."""

from __future__ import annotations

from collections.abc import Iterable

from placesim.core.dtypes import DataType
from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs, AttrValue, format_attr_value
from placesim.ops.definitions import KernelDef
from placesim.ops.registry import Registry

COMPILE_ONLY = ("XLA_CPU_JIT", "XLA_GPU_JIT", "XLA_TPU_JIT")


def find_kernel(registry: Registry, op: str, device_type: str, attrs: Attrs, node: str) -> KernelDef | None:
    """Return the kernel with the highest priority that accepts the attrs, else a `DEFAULT` kernel, else None (4.2).

    Raises InvalidArgumentError if two kernels that accept the attrs have the same priority.
    """
    label = attrs.get("_kernel", "")
    entries = registry.kernels(op)
    found = _best(
        entries, device_type, label, attrs, node, "Multiple OpKernel registrations match NodeDef at the same priority"
    )
    if found is None and device_type not in COMPILE_ONLY:
        found = _best(entries, "DEFAULT", label, attrs, node, "Multiple Default OpKernel registrations match NodeDef")
    return found


def _best(
    entries: tuple[KernelDef, ...], device_type: str, label: str, attrs: Attrs, node: str, complaint: str
) -> KernelDef | None:
    best: KernelDef | None = None
    for kernel in entries:
        if kernel.device_type != device_type or kernel.label != label or not kernel.accepts(attrs):
            continue
        if best is None or kernel.priority > best.priority:
            best = kernel
        elif kernel.priority == best.priority:
            one, two = (format_kernel(k) for k in (best, kernel))
            raise InvalidArgumentError(f"{complaint} '{{{{node {node}}}}}': '{one}' and '{two}'", node=node)
    return best


def format_kernel(kernel: KernelDef) -> str:
    """Return a registration as in TensorFlow's messages: a `KernelDef` in protocol buffer text on one line."""
    fields = [f'op: "{kernel.op}" device_type: "{kernel.device_type}"']
    for attr, allowed in kernel.constraint.items():
        values = " ".join(map(_format_allowed, allowed))
        fields.append(f'constraint {{ name: "{attr}" allowed_values {{ list {{ {values} }} }} }}')
    fields += [f'host_memory_arg: "{name}"' for name in kernel.host_memory]
    if kernel.label:
        fields.append(f'label: "{kernel.label}"')
    if kernel.priority:
        fields.append(f"priority: {kernel.priority}")
    return " ".join(fields)


def _format_allowed(value: AttrValue) -> str:
    kind = "type" if isinstance(value, DataType) else "s" if isinstance(value, str) else "b" if isinstance(value, bool) else "i"
    return f"{kind}: {format_attr_value(value)}"


def format_registered_kernels(registry: Registry, op: str) -> str:
    """Return one line for each kernel of an op (4.4)."""
    kernels = registry.kernels(op)
    if not kernels:
        return "  <no registered kernels>\n"
    return "".join(map(_format_line, kernels))


def _format_line(kernel: KernelDef) -> str:
    text = f"  device='{kernel.device_type}'"
    if kernel.label:
        text += f"; label='{kernel.label}'"
    for attr, allowed in kernel.constraint.items():
        values = ", ".join(v.enum_name if isinstance(v, DataType) else format_attr_value(v) for v in allowed)
        text += f"; {attr} in [{values}]"
    return text + "\n"


def no_kernel_message(registry: Registry, op: str, attrs: Attrs, node: str, device_types: Iterable[str]) -> str:
    """Return the error text for an op that no present device type can run (4.4)."""
    shown = ", ".join(f"{name}={format_attr_value(attrs[name])}" for name in sorted(attrs))
    devices = ", ".join(sorted(set(device_types)))
    used = registry.rules.no_kernel.format(node=f"{{{{node {node}}}}}")
    return (
        f"No OpKernel was registered to support Op '{op}' {used}: [{shown}]\n"
        f"Registered devices: [{devices}]\nRegistered kernels:\n{format_registered_kernels(registry, op)}"
    )
