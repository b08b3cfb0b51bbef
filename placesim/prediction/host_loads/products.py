"""Work of matrix products on a host, and the parts into which threads divide them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, prod

from placesim.ops.kernels.linalg.products import SMALL_PRODUCT, SUMMED, cut_of
from placesim.prediction.host_loads.load import Amounts, Load
from placesim.prediction.node_work import NodeShapes

ALIASED_BYTES = 4096
"""Rows whose length in bytes is a multiple of this map to the same cache sets, and evict each other."""
PRODUCT_DEPTH = 384
"""Terms that BLAS sums before it writes the result back: between 256 and 512 in current libraries."""
FURTHER_CALL = 0.25
"""Time to begin each further product of a batch, relative to the time of a numpy call."""
VECTOR_SHARE = 0.25
"""Time to read an element of a matrix that is multiplied with a vector, relative to the time to pack an element."""


def product_parts(
    shape: Sequence[int], depth: int, item: int, is_flat: bool, batch: int = 1, lengths: tuple[int, int] | None = None
) -> tuple[Amounts, int]:
    """Return the work of `batch` products with `depth` terms and results of `shape` `[..., rows, columns]`, and how
    many parts it has.

    For each piece of PRODUCT_DEPTH terms, BLAS packs both operands and writes the result.  Each thread packs its share of the
    divided operand and all of the other operand.  `lengths` are the row lengths of the two operands in memory; None if neither
    is transposed.
    """
    parts, axis = cut_of(shape, depth, is_flat)
    rows, columns = shape[-2], shape[-1]
    left, right = rows * depth, depth * columns
    pieces = ceil(depth / PRODUCT_DEPTH) if axis != SUMMED else parts * ceil(depth / parts / PRODUCT_DEPTH)
    is_cut = axis in (-2, -1, SUMMED)
    share = _packed_share(rows, columns, depth)
    lefts, rights = (parts if axis == -1 else 1), (parts if axis == -2 else 1)
    amounts = Amounts(
        call=(1 + (batch - 1) * FURTHER_CALL) * (parts if is_cut else 1),
        multiplied=float(batch * rows * columns * depth),
        packed=batch * (left * lefts + right * rights) * share,
        accumulated=batch * rows * columns * pieces,
    )
    lengths = lengths or (depth, columns)
    for elements, times, length in ((left, lefts, lengths[0]), (right, rights, lengths[1])):
        if not length * item % ALIASED_BYTES and elements > length and share == 1:
            amounts.add(aliased=batch * times * elements)
    if axis == SUMMED:
        amounts.add(plain=batch * (parts - 1) * rows * columns)
    return amounts, parts


def _packed_share(rows: int, columns: int, depth: int) -> float:
    """Return the share of the operands' elements that BLAS packs; a vector's product counts as if it packed a share."""
    if min(rows, columns) == 1:
        return VECTOR_SHARE
    return float(rows * columns * depth > SMALL_PRODUCT)


def product_part(rows: int, columns: int, depth: int) -> Amounts:
    """Return the work of a product in one thread."""
    rows = max(1, rows)
    outputs = rows * columns
    packed = (rows * depth + depth * columns) * _packed_share(rows, columns, depth)
    return Amounts(call=1, multiplied=float(outputs * depth), packed=packed, accumulated=outputs * ceil(depth / PRODUCT_DEPTH))


def matrices(first: str, second: str) -> Callable[[NodeShapes], Load]:
    """Return a rule for matrix products; the arguments name the op's transposition attrs."""

    def load(node: NodeShapes) -> Load:
        left, shape = node.inputs[0], node.outputs[0]
        depth = left[-2] if node.attrs.get(first) else left[-1]
        batch = prod(shape[:-2])
        lengths = left[-1], node.inputs[1][-1]
        shared, parts = product_parts(shape, depth, node.dtype.size, len(shape) == 2, batch, lengths)
        shared.touch(node, is_packed=True)
        return Load("product", Amounts(call=5 if len(shape) == 2 else 28), shared, parts)

    return load
