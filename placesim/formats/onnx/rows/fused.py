"""Ops of `com.microsoft` that ONNX Runtime's optimizer writes in place of several ONNX ops: each becomes these ops again."""

from __future__ import annotations

from collections.abc import Sequence

from placesim.core.dtypes import INT32
from placesim.formats.onnx.onnx_node import OnnxNode, Outputs, Row, Rows, Tensor, UnsupportedNodeError, describe_row

_ACTIVATIONS = {
    "Relu": (),
    "Tanh": (),
    "Sigmoid": (),
    "HardSwish": (),
    "LeakyRelu": ("alpha",),
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
}
"""Activations of fused ops, with the attributes that their parameters become."""

WINDOWS = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
"""Attributes of convolutions."""


def _activated(node: OnnxNode, tensor: Tensor, parameters: Sequence[float]) -> Tensor:
    """Return a tensor after the node's activation, if it has one."""
    name = node.attr("activation", "")
    if name == "Clip":
        return node.apply("Clip", tensor, *(node.like(bound, tensor) for bound in parameters))
    if name and name not in _ACTIVATIONS:
        raise UnsupportedNodeError(f"no such activation: got '{name}', expected one of Clip, {', '.join(_ACTIVATIONS)}")
    return node.apply(name, tensor, **dict(zip(_ACTIVATIONS[name], parameters, strict=False))) if name else tensor


def fused_conv(node: OnnxNode) -> Tensor:
    """Conv, Add of a fourth input, and the activation."""
    made = node.apply("Conv", node[0], node[1], node.input(2), **{name: node.attr(name) for name in WINDOWS})
    addend = node.input(3)
    made = made if addend is None else node.apply("Add", made, addend)
    return _activated(node, made, node.attr("activation_params", ()))


def fused_gemm(node: OnnxNode) -> Tensor:
    """Gemm, and the activation."""
    attrs = {name: node.attr(name) for name in ("alpha", "beta", "transA", "transB")}
    parameters = [node.attr(f"activation_{name}") for name in ("alpha", "beta")]
    return _activated(node, node.apply("Gemm", node[0], node[1], node.input(2), **attrs), parameters)


def fused_matmul(node: OnnxNode) -> Tensor:
    """MatMul, after Transposes of the inputs if needed, and Mul by `alpha` unless it is 1."""
    made = node.apply("MatMul", *(_turned(node, node[index], side) for index, side in enumerate("AB")))
    alpha = node.attr("alpha", 1.0)
    return made if alpha == 1 else node.apply("Mul", made, node.like(alpha, made))


def _turned(node: OnnxNode, tensor: Tensor, side: str) -> Tensor:
    """Return matrices as the attributes require: batches before rows (`transBatch`), then rows and columns exchanged."""
    if not node.attr(f"transBatch{side}", 0) and not node.attr(f"trans{side}", 0):
        return tensor
    order = list(range(node.known_rank(tensor)))
    if node.attr(f"transBatch{side}", 0):
        order = [*order[1:-1], 0, order[-1]]
    if node.attr(f"trans{side}", 0) and len(order) > 1:
        order[-2:] = order[:-3:-1]
    return node.apply("Transpose", tensor, perm=order)


def _gelu(approximate: str) -> Row:
    """Return the row of an op that is Gelu of the sum of its inputs."""

    def row(node: OnnxNode) -> Tensor:
        bias = node.input(1)
        given = node[0] if bias is None else node.apply("Add", node[0], bias)
        return node.apply("Gelu", given, approximate=approximate)

    curve = "with `tanh`" if approximate == "tanh" else "with Erf"
    return describe_row(row, f"ONNX's composition of Gelu {curve}, after AddV2 of a bias if there is one.")


def quick_gelu(node: OnnxNode) -> Tensor:
    """Mul of `x` by Sigmoid of `alpha * x`."""
    scaled = node.apply("Mul", node[0], node.like(node.attr("alpha", 1.702), node[0]))
    return node.apply("Mul", node[0], node.apply("Sigmoid", scaled))


def _skip_normalization(op: str) -> Row:
    """Return the row of a normalization of the sum of the node's input, skip and bias."""

    def row(node: OnnxNode) -> Outputs:
        is_centred = op == "LayerNormalization"
        total = node.apply("Add", node[0], node[1])
        bias = node.input(4 if is_centred else 3)
        total = total if bias is None else node.apply("Add", total, bias)
        epsilon = node.attr("epsilon", 1e-12)
        if is_centred:
            return [*node.apply_all(op, 3, total, node[2], node.input(3), epsilon=epsilon), total]
        return [node.apply(op, total, node[2], epsilon=epsilon), None, None, total]

    return describe_row(row, f"AddV2 of the input, the skip and the bias, then as {op}.")


def embed_layer_normalization(node: OnnxNode) -> Outputs:
    """GatherV2 of the embeddings of words, positions and segments, AddV2, then as LayerNormalization."""
    words, segments, mask, positions = node[0], node.input(1), node.input(7), node.input(8)
    total = node.apply("Gather", node[2], words)
    if positions is None:
        length = node.apply("Shape", words, start=1)
        rows = node.apply("Slice", node[3], [0], length, [0])
    else:
        rows = node.apply("Gather", node[3], positions)
    total = node.apply("Add", total, rows)
    if segments is not None:
        total = node.apply("Add", total, node.apply("Gather", node[4], segments))
    made = node.apply("LayerNormalization", total, node[5], node[6], epsilon=node.attr("epsilon", 1e-12))
    counted = words if mask is None else mask
    lengths = node.apply("ReduceSum", counted, [1], keepdims=0) if node.has_output(1) else None
    if lengths is not None and mask is None:
        lengths = node.apply("Sub", lengths, lengths)
    return [made, None if lengths is None else node.cast(lengths, INT32), total]


def check_channels_first(node: OnnxNode) -> None:
    """Raise UnsupportedNodeError if the node's images have the channels last."""
    if node.attr("channels_last", 0):
        raise UnsupportedNodeError("unsupported attribute: got channels_last 1, expected 0")


def as_onnx(op: str, *attrs: str) -> Row:
    """Return the row of an op that is ONNX's `op`, with these attributes."""

    def row(node: OnnxNode) -> Outputs:
        check_channels_first(node)
        return node.apply_all(op, node.outputs, *node.inputs, **{name: node.attr(name) for name in attrs})

    return describe_row(row, f"As ONNX's {op}.")


ROWS: Rows = {
    ("LayerNormalization", 1): as_onnx("LayerNormalization", "axis", "epsilon", "stash_type"),
    ("SimplifiedLayerNormalization", 1): as_onnx("RMSNormalization", "axis", "epsilon", "stash_type"),
    ("com.microsoft::BiasGelu", 1): _gelu("none"),
    ("com.microsoft::EmbedLayerNormalization", 1): embed_layer_normalization,
    ("com.microsoft::FastGelu", 1): _gelu("tanh"),
    ("com.microsoft::FusedConv", 1): fused_conv,
    ("com.microsoft::FusedGemm", 1): fused_gemm,
    ("com.microsoft::FusedMatMul", 1): fused_matmul,
    ("com.microsoft::Gelu", 1): _gelu("none"),
    ("com.microsoft::QuickGelu", 1): quick_gelu,
    ("com.microsoft::SkipLayerNormalization", 1): _skip_normalization("LayerNormalization"),
    ("com.microsoft::SkipSimplifiedLayerNormalization", 1): _skip_normalization("RMSNormalization"),
    ("com.microsoft::TransposeMatMul", 1): fused_matmul,
}
