"""The cost model of a kernel: the kind of its work, for which `prediction/` has formulas, and its passes over elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from placesim.ops.attributes import Attrs
    from placesim.ops.kernels.shapes import Dims

CostKind = Literal[
    "dispatch",
    "elementwise",
    "cut",
    "copy",
    "view",
    "transpose",
    "optimizer",
    "matmul",
    "batch matmul",
    "convolution",
    "convolution input gradient",
    "convolution filter gradient",
    "depthwise",
    "depthwise input gradient",
    "depthwise filter gradient",
    "pooling",
    "volume pooling",
    "max pooling gradient",
    "average pooling gradient",
    "batch normalization",
    "batch normalization gradient",
    "local normalization",
    "local normalization gradient",
    "softmax",
    "reduction",
    "bias gradient",
    "gather",
    "scatter",
    "random",
    "cross entropy",
    "recurrent",
    "recurrent gradient",
    "all-reduce",
    "reduce",
    "broadcast",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
]
"""Kind of a kernel's work.

`dispatch` means no computation: renaming a buffer, reading a shape, holding a value. `cut` is elementwise work that splits
large tensors into parts. `copy` moves elements. The output of a `view` shares its input's memory.
"""


class Passes(NamedTuple):
    """Number of passes of a kernel over its elements, by kind of work.

    A `plain` pass is as fast as reading the elements. A `compared` pass is too, except that numpy compares elements with a
    single number one after the other. In a `chosen` pass a branch gives each element one of two values, so that the speed
    depends on the processor's branch prediction. A `special` pass computes the elements one after the other.
    """

    plain: float = 0
    compared: float = 0
    divided: float = 0
    rooted: float = 0
    exponential: float = 0
    chosen: float = 0
    special: float = 0

    @property
    def number(self) -> float:
        return sum(self)


ONE_PASS = Passes(plain=1)


class SliceAccess(NamedTuple):
    """Access to slices: the kernel touches only a part of each of its first `tensors` inputs.

    `elements` returns the number of elements in this part; all shapes must be fully known. With `updates`, the kernel also
    writes the part, and its output, if any, is a reference to the first input.
    """

    elements: Callable[[Sequence[Dims], Sequence[Dims], Attrs], int]
    tensors: int = 1
    updates: bool = False


class CostModel(NamedTuple):
    """Cost of a kernel: `kind` selects the formulas in `prediction/`; `passes` counts the passes of its numpy expression.

    `access` is set if the kernel touches only slices of its inputs. `updated` is the number of variables, its first inputs,
    that it reads and then writes.
    """

    kind: CostKind = "elementwise"
    passes: Passes = ONE_PASS
    access: SliceAccess | None = None
    updated: int = 0


ELEMENTWISE = CostModel()
DISPATCH = CostModel("dispatch")
COPY = CostModel("copy")
VIEW = CostModel("view")
_READS_RESULT = SliceAccess(lambda inputs, outputs, attrs: sum(prod(dims or ()) for dims in outputs))
"""Access of a kernel that reads as many elements as it returns."""
GATHER = CostModel("gather", access=_READS_RESULT)
SLICE = VIEW._replace(access=_READS_RESULT)
REDUCTION = CostModel("reduction")


def elementwise_cost(passes: Passes, *, is_cut: bool) -> CostModel:
    """Return the cost of an elementwise kernel, which processes large tensors in parts if `is_cut`."""
    return CostModel("cut" if is_cut else "elementwise", passes)
