"""A node and its static shapes -> what its numpy kernel does on a host, counted in what a profile has a rate for.

A kernel is a number of numpy's passes over arrays, of products of matrices, of copies.  How work is cut into parts, and in what
runs it is copied, is asked of the kernels themselves.  What a count costs is the host's (`host_costs`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from placesim.ops.kernels import has_trait
from placesim.ops.kernels.kernel import Trait
from placesim.ops.process.memory_limit import FEW_ELEMENTS
from placesim.prediction.host_loads.convolutions import filter_gradient, forward, input_gradient
from placesim.prediction.host_loads.elements import (
    PASSES,
    VIEWS,
    batch_normalization,
    bias_gradient,
    elementwise,
    gather,
    local_normalization,
    optimizer_update,
    random_numbers,
    reduction,
    softmax,
    transpose,
)
from placesim.prediction.host_loads.load import Amounts, Load
from placesim.prediction.host_loads.products import matrices
from placesim.prediction.host_loads.windows import depthwise, pooling
from placesim.prediction.node_work import DISPATCHED, NodeShapes

MAPPED_BYTES = 32 << 20
"""Arrays of more are given to the process page by page when they are made: the most that glibc's malloc keeps unasked."""
_ITEM_BYTES = 4
_COMPUTED = frozenset(("plain", "divided", "exponential", "special", "reduced", "multiplied", "packed", "accumulated"))


def host_load(node: NodeShapes) -> Load | None:
    """What the node's kernel does; None where that is nothing."""
    if node.op in DISPATCHED or not node.moved_bytes:
        return None
    rule = rule_of(node.op)
    if min((prod(dims) for dims in (*node.inputs, *node.outputs)), default=0) == 0:
        return Load("elementwise", Amounts(call=1), Amounts())
    load = rule(node)
    if node.op not in VIEWS:
        for dims in node.outputs:
            size = prod(dims) * node.dtype.size
            if size > MAPPED_BYTES:  # a page is given to the thread that first writes to it
                (load.shared if load.parts > 1 else load.alone).add(new=size)
    _take_type(node, load)
    return _with_check(node, load)


def _take_type(node: NodeShapes, load: Load) -> None:
    """What another type than float32 makes of the counts, which are those of float32.

    A processor computes half as many of twice the size at once; halves are widened first, and rounded at the end; BLAS has no
    integers, which numpy multiplies one by one.
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
    """With the executor's look at how large the outputs become, where they could be large."""
    sizes = [prod(dims) for dims in node.inputs]
    is_unary = rule_of(node.op) is elementwise and len(sizes) == 1
    if not has_trait(node.op, Trait.HANDS_ON) and (sizes[0] if is_unary else sum(sizes) ** 2) > FEW_ELEMENTS:
        load.alone.add(checked=1)
    return load


def rule_of(op: str) -> Callable[[NodeShapes], Load]:
    """What says what an op's kernel does: of one that is not known, that of elementwise ones."""
    return _RULES.get(op, elementwise)


_RULES: Mapping[str, Callable[[NodeShapes], Load]] = {
    "MatMul": matrices("transpose_a", "transpose_b"),
    **dict.fromkeys(("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), matrices("adj_x", "adj_y")),
    **dict.fromkeys(("Conv2D", "Conv3D"), forward),
    **dict.fromkeys(("Conv2DBackpropInput", "Conv3DBackpropInputV2"), input_gradient),
    **dict.fromkeys(("Conv2DBackpropFilter", "Conv3DBackpropFilterV2"), filter_gradient),
    "DepthwiseConv2dNative": depthwise("forward"),
    "DepthwiseConv2dNativeBackpropInput": depthwise("input"),
    "DepthwiseConv2dNativeBackpropFilter": depthwise("filter"),
    **{op: pooling(op) for op in ("MaxPool", "AvgPool", "MaxPoolGrad", "AvgPoolGrad", "MaxPool3D", "AvgPool3D")},
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), batch_normalization(is_gradient=False)),
    **dict.fromkeys(
        ("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"), batch_normalization(is_gradient=True)
    ),
    "LRN": local_normalization(is_gradient=False),
    "LRNGrad": local_normalization(is_gradient=True),
    **dict.fromkeys(("Softmax", "LogSoftmax"), softmax),
    **dict.fromkeys(
        ("Sum", "Mean", "Prod", "Max", "Min", "All", "Any", "EuclideanNorm", "ArgMax", "ArgMin", "L2Loss"), reduction
    ),
    "BiasAddGrad": bias_gradient,
    **dict.fromkeys(("Transpose", "ConjugateTranspose"), transpose),
    **dict.fromkeys(("Gather", "GatherV2", "ResourceGather", "GatherNd"), gather),
    **dict.fromkeys(
        ("RandomUniform", "RandomStandardNormal", "TruncatedNormal", "StatelessRandomUniform", "StatelessRandomNormal"),
        random_numbers,
    ),
    **{name: optimizer_update for op in PASSES if op.startswith("Apply") for name in (op, f"Resource{op}")},
}
