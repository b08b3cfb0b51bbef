"""The cost model of a kernel: the kind of its work, for which `prediction/` has formulas, and its passes over elements."""

from __future__ import annotations

from typing import Literal, NamedTuple

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
    "gather slices",
    "random",
    "recurrent",
    "recurrent gradient",
]
"""Kind of a kernel's work.

`dispatch` is no computation, such as renaming a buffer, reading a shape or holding a value. `cut` is elementwise, in parts for
large tensors. `copy` moves elements; a `view` shares its input's memory.
"""


class Passes(NamedTuple):
    """Number of passes of a kernel over its elements, by kind of work.

    `plain` passes are as fast as reading the elements. In `chosen` ones, each element takes one of two values, which depends on
    the processor's branch prediction. `special` ones compute one element after the other.
    """

    plain: float = 0
    divided: float = 0
    exponential: float = 0
    chosen: float = 0
    special: float = 0

    @property
    def number(self) -> float:
        return sum(self)


ONE_PASS = Passes(plain=1)


class CostModel(NamedTuple):
    """The formulas of `prediction/` that describe a kernel; `passes` are counted in the kernel's own expression."""

    kind: CostKind = "elementwise"
    passes: Passes = ONE_PASS


ELEMENTWISE = CostModel()
DISPATCH = CostModel("dispatch")
COPY = CostModel("copy")
VIEW = CostModel("view")
REDUCTION = CostModel("reduction")


def elementwise_cost(passes: Passes, *, is_cut: bool) -> CostModel:
    """Return the cost of an elementwise kernel, which processes large tensors in parts if `is_cut`."""
    return CostModel("cut" if is_cut else "elementwise", passes)
