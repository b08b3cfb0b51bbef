"""Common parts of LSTM and GRU cells."""

from __future__ import annotations

from collections.abc import Sequence

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Flops, Tensor, elements
from placesim.ops.kernels.shapes import Dims, ShapeContext, with_rank

STEP, SEQUENCE = slice(0, 1), slice(0, 2)
"""The axes of x that become the rows of the matrix product: `[batch]` of a cell, `[time, batch]` of a sequence."""


def check_dims(name: str, tensor: Tensor, meanings: Sequence[str], dims: Sequence[int], word: str) -> None:
    """Check a tensor's first dimensions against `dims`; dimensions that the tensor lacks are not checked.

    Raises InvalidArgumentError, whose message names the expected dimension (`meanings`) and calls the dimensions `word`.
    """
    for axis, (found, meaning, dim) in enumerate(zip(tensor.shape, meanings, dims, strict=False)):
        if found != dim:
            raise InvalidArgumentError(f"{name}.{word}({axis}) != {meaning}: {found} vs. {dim}")


def infer_cell(context: ShapeContext, outputs: int) -> Sequence[Dims]:
    """Static shapes of a cell with inputs x `[batch, inputs]` and a state `[batch, cell]`: all outputs are `[batch, cell]`."""
    x, state = with_rank(context.shapes[0], 2), with_rank(context.shapes[1], 2)
    return ((x[0], state[1]),) * outputs


def build_product_flops(weights: Sequence[int], factor: int, batch_axes: slice, x: int = 0) -> Flops:
    """Cost of multiplying the rows of input `x` by each of the matrices in inputs `weights`, `factor` times."""

    def flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
        rows = elements((inputs[x] or ())[batch_axes])
        return 2 * factor * rows * sum(elements(inputs[position]) for position in weights)

    return flops
