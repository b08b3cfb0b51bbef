"""Cost of a node: floating point operations, and bytes read and written, from its static shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from placesim.core.dtypes import DataType
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel
from placesim.ops.kernels.shapes import Dims, element_count


class Cost(NamedTuple):
    """Floating-point operations and bytes of a node; None for each that depends on an unknown shape or element size."""

    flops: int | None
    bytes_read: int | None
    bytes_written: int | None


def node_cost(
    kernel: Kernel,
    attrs: Attrs,
    inputs: Sequence[Dims],
    outputs: Sequence[Dims],
    input_dtypes: Sequence[DataType],
    output_dtypes: Sequence[DataType],
) -> Cost:
    """Return the cost of one node; a kernel that moves data without arithmetic has no operations."""
    known = all(element_count(dims) is not None for dims in (*inputs, *outputs))
    flops = 0 if kernel.flops is None else int(kernel.flops(inputs, outputs, attrs)) if known else None
    return Cost(flops, total_bytes(inputs, input_dtypes), total_bytes(outputs, output_dtypes))


def total_bytes(shapes: Sequence[Dims], dtypes: Sequence[DataType]) -> int | None:
    """Return the bytes of tensors of these shapes and types; None if one is unknown or has no fixed size."""
    found = 0
    for dims, dtype in zip(shapes, dtypes, strict=True):
        count = element_count(dims)
        if count is None or (not dtype.size and count):
            return None
        found += count * dtype.size
    return found
