"""Memory types: inputs and outputs of a node that are in host memory although its device is a GPU (8.6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from placesim.core.dtypes import INT32, RESOURCE, STRING, DataType
from placesim.graph.graph import Signature
from placesim.ops.categories import MEMORY_BY_TYPE
from placesim.ops.definitions import ArgDef
from placesim.ops.kernel_lookup import find_kernel
from placesim.ops.registry import Registry


class MemoryTypes(NamedTuple):
    """For each input and each output, whether it is in host memory."""

    inputs: tuple[bool, ...]
    outputs: tuple[bool, ...]


def memory_types(registry: Registry, signature: Signature, device_type: str) -> MemoryTypes:
    """Return the memory types of a node on a device type."""
    kernel = None
    # a call has no memory types of its own: they follow from the types of its tensors (8.6)
    if signature.definition is not None and signature.op not in MEMORY_BY_TYPE:
        kernel = find_kernel(registry, signature.op, device_type, signature.attrs, signature.op)
    if kernel is None or signature.definition is None:
        return MemoryTypes(
            tuple(_is_on_host(dtype, False) for dtype in signature.input_dtypes),
            tuple(_is_on_host(dtype, False) for dtype in signature.output_dtypes),
        )
    host = kernel.host_memory
    return MemoryTypes(
        _of_args(signature, signature.definition.inputs, host, "_input_hostmem"),
        _of_args(signature, signature.definition.outputs, host, "_output_hostmem"),
    )


def _of_args(signature: Signature, args: Sequence[ArgDef], host: Sequence[str], attr: str) -> tuple[bool, ...]:
    found = [arg.name in host or _is_on_host(dtype, True) for arg in args for dtype in arg.dtypes(signature.attrs)]
    asked = signature.attrs.get(attr)
    # no definition declares this attr, so its value may be of any type; only a list of integers has an effect
    if isinstance(asked, tuple) and all(index.__class__ is int for index in asked):
        for index in asked:
            if 0 <= index < len(found):
                found[index] = True
    return tuple(found)


def _is_on_host(dtype: DataType, has_kernel: bool) -> bool:
    # int32 counts as a shape or an index, which host code reads (8.6)
    return dtype in (STRING, RESOURCE) or (dtype is INT32 and not has_kernel)
