"""Floating-point operations of a node, and bytes of tensors, from static shapes."""

from __future__ import annotations

from collections.abc import Sequence

from placesim.core.dtypes import DataType
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel
from placesim.ops.kernels.shapes import Dims, element_count


def node_flops(kernel: Kernel, attrs: Attrs, inputs: Sequence[Dims], outputs: Sequence[Dims]) -> int | None:
    """Return a node's operations: 0 for a kernel that only moves data, and None if a shape is unknown."""
    if kernel.flops is None:
        return 0
    is_known = all(element_count(dims) is not None for dims in (*inputs, *outputs))
    return int(kernel.flops(inputs, outputs, attrs)) if is_known else None


def total_bytes(shapes: Sequence[Dims], dtypes: Sequence[DataType]) -> int | None:
    """Return the bytes of tensors of these shapes and types; None if one is unknown or has no fixed size."""
    found = 0
    for dims, dtype in zip(shapes, dtypes, strict=True):
        count = element_count(dims)
        if count is None or (not dtype.size and count):
            return None
        found += count * dtype.size
    return found
