"""Load of a node's numpy kernel on a host, in the units of a profile.

A kernel consists of numpy passes over arrays, matrix products and copies.  The rules here ask the kernels' own functions how
they divide the work.  `host_costs` has the cost of each unit on a host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from placesim.ops.kernels import has_trait, is_numpy_function
from placesim.ops.kernels.cost_model import DISPATCH, VIEW, CostKind
from placesim.ops.kernels.kernel import Trait
from placesim.ops.process.memory_limit import FEW_ELEMENTS
from placesim.prediction.host_loads.convolutions import filter_gradient, forward, input_gradient
from placesim.prediction.host_loads.elements import (
    batch_normalization,
    bias_gradient,
    cross_entropy,
    elementwise,
    gather,
    is_direct,
    local_normalization,
    optimizer_update,
    random_numbers,
    reduction,
    scatter,
    softmax,
    transpose,
)
from placesim.prediction.host_loads.load import Amounts, Load
from placesim.prediction.host_loads.products import matrices
from placesim.prediction.host_loads.windows import depthwise, pooling
from placesim.prediction.node_work import NodeShapes

MAPPED_BYTES = 32 << 20
"""Size up to which glibc's malloc may reuse memory; larger arrays get new pages from the system each time."""
KNOWN_CHECK = 0.3
"""Time to check the output sizes, relative to the time to check them and to call the kernel for one of numpy's functions."""
_ITEM_BYTES = 4
_COMPUTED = frozenset(
    ("plain", "compared", "divided", "rooted", "exponential", "special", "reduced", "multiplied", "packed", "accumulated")
)


def host_load(node: NodeShapes) -> Load | None:
    """Return the load of the node's kernel; None if it does nothing."""
    kind = node.cost.kind
    if kind == DISPATCH.kind or not node.moved_bytes:
        return None
    # a batch normalization that computes its statistics has empty ones as inputs, and its gradient has empty results
    if min((prod(dims) for dims in (*node.inputs[:1], *node.outputs[:1])), default=0) == 0:
        return Load("elementwise", Amounts(call=1), Amounts())
    load = _RULES.get(kind, elementwise)(node)
    if kind not in (VIEW.kind, "optimizer", "scatter"):  # views and updated variables need no memory
        for dims in node.outputs:
            size = prod(dims) * node.dtype.size
            if size > MAPPED_BYTES:  # a page is allocated to the thread that first writes to it
                (load.shared if load.parts > 1 else load.alone).add(new=size)
    _take_type(node, load)
    return _with_check(node, load)._replace(step_bytes=node.step_bytes)


def _take_type(node: NodeShapes, load: Load) -> None:
    """Scale counts from float32 to the node's type.

    A vector register holds half as many elements of twice the size.  Float16 values are widened first and rounded at the end.
    BLAS has no routines for integers, so numpy multiplies integers one by one.
    """
    wider = node.dtype.size / _ITEM_BYTES
    for amounts in (load.alone, load.shared):
        if node.dtype.is_floating or node.dtype.is_complex:
            for name in _COMPUTED & amounts.counts.keys():
                amounts.counts[name] *= max(1.0, wider)
        elif "multiplied" in amounts.counts:
            amounts.add(plain=amounts.counts.pop("multiplied"))
    if node.dtype.is_floating and wider < 1:
        load.alone.add(plain=sum(prod(dims) for dims in (*node.inputs, *node.outputs)))


def _with_check(node: NodeShapes, load: Load) -> Load:
    """Add the work of the executor's check of the output sizes, if the outputs may be large."""
    sizes = [prod(dims) for dims in node.inputs]
    if not has_trait(node.op, Trait.HANDS_ON) and (prod(sizes) if is_direct(node) else sum(sizes) ** 2) > FEW_ELEMENTS:
        # of one of numpy's functions, this includes that the kernel is called instead
        load.alone.add(checked=1 if is_numpy_function(node.op) else KNOWN_CHECK)
    return load


_RULES: Mapping[CostKind, Callable[[NodeShapes], Load]] = {
    "transpose": transpose,
    "optimizer": optimizer_update,
    "matmul": matrices("transpose_a", "transpose_b"),
    "batch matmul": matrices("adj_x", "adj_y"),
    "convolution": forward,
    "convolution input gradient": input_gradient,
    "convolution filter gradient": filter_gradient,
    "depthwise": depthwise("forward"),
    "depthwise input gradient": depthwise("input gradient"),
    "depthwise filter gradient": depthwise("filter gradient"),
    **dict.fromkeys(("pooling", "volume pooling", "max pooling gradient", "average pooling gradient"), pooling),
    "batch normalization": batch_normalization(is_gradient=False),
    "batch normalization gradient": batch_normalization(is_gradient=True),
    "local normalization": local_normalization(is_gradient=False),
    "local normalization gradient": local_normalization(is_gradient=True),
    "softmax": softmax,
    "cross entropy": cross_entropy,
    "reduction": reduction,
    "bias gradient": bias_gradient,
    "gather": gather,
    "scatter": scatter,
    "random": random_numbers,
}
"""Rules by kind of cost; for every other kind, the kernel passes over all elements."""
