"""Attention and rotary embeddings of `com.microsoft`, as ONNX Runtime's optimizer writes them for transformers.

Tensors with heads are `[batch, heads, length, size]`; others are `[batch, length, heads * size]`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from placesim.core.dtypes import BOOL, INT64
from placesim.formats.onnx.folding import MOST_KNOWN
from placesim.formats.onnx.onnx_node import OnnxNode, Outputs, Rows, Tensor, UnsupportedNodeError


def _with_heads(node: OnnxNode, tensor: Tensor, count: int) -> Tensor:
    """Return a tensor `[batch, length, heads * size]` with heads."""
    return node.apply("Transpose", node.apply("Reshape", tensor, [0, 0, count, -1]), perm=[0, 2, 1, 3])


def _attended(
    node: OnnxNode, query: Tensor, key: Tensor, value: Tensor, added: Sequence[Tensor | None], allowed: Sequence[Tensor]
) -> Tensor:
    """Return the values, weighted by Softmax of the scores, as `[batch, length, heads * size]`.

    The scores are `[batch, heads, length, keys]`. `added` tensors are added to them; keys that `allowed` tensors exclude have
    no weight.
    """
    size = (node.shape(query) or (None,))[-1]
    scale = node.attr("scale", 0.0) or (1 / math.sqrt(size) if size else None)
    if scale is None:
        raise UnsupportedNodeError("unknown size of a head: expected it in the query's shape, or an attribute 'scale'")
    turned = node.apply("Transpose", key, perm=[0, 1, 3, 2])
    scores = node.apply("MatMul", query, turned)
    scores = node.apply("Mul", scores, node.like(scale, scores))
    if softcap := node.attr("softcap", 0.0):
        cap = node.like(softcap, scores)
        scores = node.apply("Mul", node.apply("Tanh", node.apply("Div", scores, cap)), cap)
    for more in added:
        scores = scores if more is None else node.apply("Add", scores, more)
    for mask in allowed:
        lowest = -65504 if node.dtype(scores).name == "half" else -3.38e38
        scores = node.apply("Where", mask, scores, node.like(lowest, scores))
    made = node.apply("MatMul", node.apply("Softmax", scores, axis=-1), value)
    return node.apply("Reshape", node.apply("Transpose", made, perm=[0, 2, 1, 3]), [0, 0, -1])


def _length(node: OnnxNode, tensor: Tensor, axis: int = 2) -> Tensor:
    """Return the size of an axis, an int64 scalar; by default the length of a tensor with heads."""
    return node.apply("Squeeze", node.apply("Shape", tensor, start=axis, end=axis + 1), [0])


def _range(node: OnnxNode, end: Tensor) -> Tensor:
    return node.apply("Range", 0, end, 1)


def _causal(node: OnnxNode, query: Tensor, key: Tensor) -> list[Tensor]:
    """Return which keys a query may attend to: those up to its own position, if the node is unidirectional."""
    if not node.attr("unidirectional", 0):
        return []
    length, keys = _length(node, query), _length(node, key)
    own = node.apply("Add", _range(node, length), node.apply("Sub", keys, length))
    return [node.apply("LessOrEqual", _range(node, keys), node.apply("Unsqueeze", own, [1]))]


def _padding(node: OnnxNode, mask: Tensor | None, key: Tensor, batch: int | None) -> Tensor | None:
    """Return the addend of a mask: 0 for kept keys, and the node's `mask_filter_value` for others.

    A mask is `[batch, keys]` or `[batch, length, keys]` with 1 for kept keys, or `[batch]` numbers of kept keys; `[2 * batch]`
    has the ends of the kept keys, then their starts.
    """
    if mask is None:
        return None
    dims = node.shape(mask)
    if dims is None or len(dims) not in (1, 2, 3):
        got = "of unknown rank" if dims is None else f"of {len(dims)} dimensions"
        raise UnsupportedNodeError(f"unsupported mask: got one {got}, expected 1 to 3 dimensions")
    if len(dims) > 1:
        kept = node.apply("Unsqueeze", node.cast(mask, BOOL), [1, 2] if len(dims) == 2 else [1])
    else:
        ends, starts = mask, None
        if batch is not None and dims[0] not in (batch, None):
            if dims[0] != 2 * batch:
                raise UnsupportedNodeError(f"unsupported mask: got {dims[0]} numbers for a batch of {batch}")
            ends, starts = node.apply_all("Split", 2, mask, num_outputs=2)
        places = _range(node, _length(node, key))
        kept = node.apply("Less", places, node.apply("Unsqueeze", node.cast(ends, INT64), [1, 2, 3]))
        if starts is not None:
            begun = node.apply("GreaterOrEqual", places, node.apply("Unsqueeze", node.cast(starts, INT64), [1, 2, 3]))
            kept = node.apply("And", kept, begun)
    value = node.attr("mask_filter_value", -10000.0)
    return node.apply("Where", kept, node.like(0, key), node.like(value, key))


def _batch(node: OnnxNode) -> int | None:
    return (node.shape(node[0]) or (None,))[0]


def attention(node: OnnxNode) -> Outputs:
    """MatMul with the joined weights, Split, MatMul of queries and keys, Softmax, MatMul with the values, and masks."""
    if node.attr("do_rotary", 0) or node.attr("past_present_share_buffer", 0):
        raise UnsupportedNodeError("unsupported attribute: got do_rotary or past_present_share_buffer, expected 0")
    heads, bias, past = node.attr("num_heads"), node.input(2), node.input(4)
    joined = node.apply("MatMul", node[0], node[1])
    joined = joined if bias is None else node.apply("Add", joined, bias)
    sizes = node.attr("qkv_hidden_sizes")
    parts = node.apply_all("Split", 3, joined, sizes and list(sizes), axis=-1, num_outputs=None if sizes else 3)
    query, key, value = (_with_heads(node, part, heads) for part in parts)
    if past is not None:
        before = (node.apply("Squeeze", part, [0]) for part in node.apply_all("Split", 2, past, num_outputs=2))
        key, value = (node.apply("Concat", *pair, axis=2) for pair in zip(before, (key, value), strict=True))
    added = [node.input(5), _padding(node, node.input(3), key, _batch(node))]
    made = _attended(node, query, key, value, added, _causal(node, query, key))
    if not node.has_output(1):
        return [made]
    return [made, node.apply("Concat", *(node.apply("Unsqueeze", each, [0]) for each in (key, value)), axis=0)]


def multi_head_attention(node: OnnxNode) -> Outputs:
    """MatMul of queries and keys, Softmax, MatMul with the values, and masks, with heads by Reshape and Transpose."""
    if node.input(8) is not None or node.has_output(3):
        raise UnsupportedNodeError("unsupported: got an input past_sequence_length or an output qk, expected none")
    heads, bias = node.attr("num_heads"), node.input(3)
    tensors = _unpacked(node)
    if bias is not None:
        widths = [_width(node, tensor) for tensor in tensors]
        parts = node.apply_all("Split", 3, bias, widths, axis=0)
        tensors = [
            node.apply("Add", tensor, part if node.rank(tensor) == 3 else _with_heads(node, _row(node, part), heads))
            for tensor, part in zip(tensors, parts, strict=True)
        ]
    query, key, value = (tensor if node.rank(tensor) == 4 else _with_heads(node, tensor, heads) for tensor in tensors)
    if node.input(6) is not None:
        key, value = node.apply("Concat", node[6], key, axis=2), node.apply("Concat", node[7], value, axis=2)
    added = [node.input(5), _padding(node, node.input(4), key, _batch(node))]
    made = _attended(node, query, key, value, added, _causal(node, query, key))
    return [made, *([key, value] if node.has_output(1) else [])]


def _row(node: OnnxNode, vector: Tensor) -> Tensor:
    return node.apply("Unsqueeze", vector, [0, 1])


def _width(node: OnnxNode, tensor: Tensor) -> int:
    """Return the size of all heads together."""
    dims = node.shape(tensor) or ()
    width = dims[-1] if len(dims) == 3 else (dims[-1] or 0) * node.attr("num_heads") if dims else None
    if not width:
        raise UnsupportedNodeError("unknown size of a head: expected it in the shapes of query, key and value")
    return int(width)


def _unpacked(node: OnnxNode) -> list[Tensor]:
    """Return query, key and value: three inputs, or packed `[batch, length, heads, 2 or 3, size]` in the first or second."""
    packed = [index for index in (0, 1) if node.input(index) is not None and node.rank(node[index]) == 5]
    if not packed:
        return [node[0], node[1], node[2]]
    count = 3 - packed[0]
    parts = node.apply_all("Split", count, node[packed[0]], axis=3, num_outputs=count)
    return [*([node[0]] if packed[0] else []), *(node.apply("Reshape", part, [0, 0, -1]) for part in parts)]


# --- grouped queries ------------------------------------------------------------------------------------------------


def group_query_attention(node: OnnxNode) -> Outputs:
    """As RotaryEmbedding; then GatherV2 joins cached and new keys and values; the rest is as in MultiHeadAttention."""
    for index, name in ((11, "head_sink"), (12, "k_scale"), (13, "v_scale"), (14, "q_norm_weight"), (16, "query_seqlens")):
        if node.input(index) is not None:
            raise UnsupportedNodeError(f"unsupported input: got {name}, expected none")
    if node.attr("smooth_softmax", -1) > 0 or node.has_output(3):
        raise UnsupportedNodeError("unsupported: got smooth_softmax or an output output_qk, expected neither")
    heads, groups = node.attr("num_heads"), node.attr("kv_num_heads")
    if not 0 < groups <= heads <= MOST_KNOWN or heads % groups:
        raise UnsupportedNodeError(f"wrong number of heads: got {heads} for {groups} of keys, expected a multiple")
    query, key, value = _grouped(node, heads, groups)
    ends = node.apply("Add", node.apply("Reshape", node.cast(node[5], INT64), [-1, 1]), 1)  # `[batch, 1]`
    length = _length(node, query)
    total = node.apply("Reshape", node.cast(node[6], INT64), np.zeros(0, np.int64))
    is_first = node.apply("Equal", total, length)
    starts = node.apply("Where", is_first, 0, node.apply("Sub", ends, length))
    own = node.apply("Add", starts, _range(node, length))  # positions of the queries, `[batch, length]`
    if node.attr("do_rotary", 0):
        positions = own if node.input(9) is None else node[9]
        query, key = (_rotated(node, tensor, positions, 7) for tensor in (query, key))
    key, value = (_continued(node, *pair, starts, total) for pair in ((node.input(3), key), (node.input(4), value)))
    places = _range(node, _length(node, key))
    allowed = [node.apply("Less", places, node.apply("Unsqueeze", ends, [1, 2]))]
    own = node.apply("Unsqueeze", own, [1, 3])
    if node.attr("causal", 1):
        allowed.append(node.apply("LessOrEqual", places, own))
    if (window := node.attr("local_window_size", -1)) > 0:
        allowed.append(node.apply("Greater", places, node.apply("Sub", own, window)))
    repeated = np.repeat(np.arange(groups), heads // groups)
    keys, values = (each if heads == groups else node.apply("Gather", each, repeated, axis=1) for each in (key, value))
    return [_attended(node, query, keys, values, [node.input(10)], allowed), key, value]


def _grouped(node: OnnxNode, heads: int, groups: int) -> list[Tensor]:
    """Return query, key and value with heads; the first input has all three if there are no others."""
    if node.input(1) is not None:
        return [_with_heads(node, node[index], count) for index, count in enumerate((heads, groups, groups))]
    packed = _with_heads(node, node[0], heads + 2 * groups)
    return node.apply_all("Split", 3, packed, [heads, groups, groups], axis=1)


def _continued(node: OnnxNode, cache: Tensor | None, new: Tensor, starts: Tensor, total: Tensor) -> Tensor:
    """Return the first `starts` cached positions of each sequence, then the new ones, then zeros.

    The result has as many positions as the cache, and at least `total`.
    """
    if cache is None:
        return new
    room, length = _length(node, cache), _length(node, new)
    both = node.apply("Transpose", node.apply("Concat", cache, new, axis=2), perm=[0, 2, 1, 3])
    places = _range(node, node.apply("Max", room, total))
    behind = node.apply("Sub", places, starts)
    taken = node.apply("Where", node.apply("Less", behind, 0), places, node.apply("Add", behind, room))
    last = node.apply("Sub", node.apply("Add", room, length), 1)
    made = node.apply("GatherND", both, node.apply("Unsqueeze", node.apply("Min", taken, last), [2]), batch_dims=1)
    inside = node.apply("Unsqueeze", node.apply("Less", behind, length), [2, 3])
    return node.apply("Transpose", node.apply("Where", inside, made, node.like(0, made)), perm=[0, 2, 1, 3])


# --- rotary embeddings ----------------------------------------------------------------------------------------------


def _rotated(node: OnnxNode, tensor: Tensor, positions: Tensor, caches: int, heads: int | None = None) -> Tensor:
    """Return a tensor after ONNX's RotaryEmbedding; `caches` is the index of the cosines; the sines are the next input."""
    attrs = {"interleaved": node.attr("interleaved", node.attr("rotary_interleaved", 0)), "num_heads": heads}
    width = (node.shape(node[caches]) or (None,))[-1]
    head = (node.shape(tensor) or (None,))[-1]
    head = head // heads if head and heads else head
    partial = 2 * width if width and head and 2 * width < head else None
    return node.apply(
        "RotaryEmbedding", tensor, node[caches], node[caches + 1], positions, rotary_embedding_dim=partial, **attrs
    )


def rotary_embedding(node: OnnxNode) -> Tensor:
    """ONNX's composition of RotaryEmbedding; if only one position is given, it is that of the first element of a sequence."""
    if node.attr("is_packed_batching", 0) or node.attr("scale", 1.0) != 1:
        raise UnsupportedNodeError("unsupported attribute: got is_packed_batching or a scale, expected neither")
    tensor, positions = node[0], node[1]
    rank = node.known_rank(tensor)
    if node.known_rank(positions) == 1:
        row = node.apply("Add", positions, _range(node, _length(node, tensor, 1 if rank == 3 else 2)))
        shape = node.apply("Concat", node.apply("Shape", tensor, end=1), node.apply("Shape", row), axis=0)
        positions = node.apply("Expand", row, shape)
    heads = None
    if rank == 3:
        width, size = (node.shape(tensor) or (None,))[-1], (node.shape(node[2]) or (None,))[-1]
        heads = node.attr("num_heads", 0) or (width // (2 * size) if width and size else 0)
        if not heads:
            raise UnsupportedNodeError("unknown number of heads: expected an attribute 'num_heads'")
    return _rotated(node, tensor, positions, 2, heads)


ROWS: Rows = {
    ("com.microsoft::Attention", 1): attention,
    ("com.microsoft::GroupQueryAttention", 1): group_query_attention,
    ("com.microsoft::MultiHeadAttention", 1): multi_head_attention,
    ("com.microsoft::RotaryEmbedding", 1): rotary_embedding,
}
