"""Cases of `row_cases.py` for the ops of `com.microsoft`, which ONNX Runtime's optimizer and quantizer write."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tests.formats.onnx.row_cases import RowCase

RNG = np.random.default_rng(5)
case: Callable[..., RowCase] = partial(RowCase, domain="com.microsoft", opset=17)


def real(*shape: int) -> Any:
    """Random numbers."""
    return RNG.normal(size=shape).astype(np.float32)


def scale(*shape: int) -> Any:
    """Random scales above 0."""
    return np.asarray(np.square(RNG.normal(size=shape)) * 0.01 + 0.01, np.float32)


def number(value: float) -> Any:
    """A scale that is known."""
    return np.array(value, np.float32)


def byte(*shape: int) -> Any:
    """Random quantized numbers."""
    return RNG.integers(0, 255, shape).astype(np.uint8)


def signed(*shape: int) -> Any:
    """Random quantized numbers of either sign."""
    return RNG.integers(-127, 127, shape).astype(np.int8)


def int32(values: Any) -> Any:
    """Lengths and masks."""
    return np.array(values, np.int32)


def point(value: int, dtype: Any = np.uint8) -> Any:
    """A zero point."""
    return np.array(value, dtype)


def conv(activation: str, parameters: Any = None, *more: Any) -> RowCase:
    attrs = {"activation": activation, "pads": [1, 1, 1, 1], **({"activation_params": parameters} if parameters else {})}
    return case("FusedConv", [real(1, 3, 5, 6), real(3, 3, 3, 3), real(3), *more], attrs)


IDS, SEGMENTS = int32([[1, 2, 3], [4, 0, 2]]), int32([[0, 0, 1], [1, 0, 0]])
FUSED = {
    "fused conv: relu": conv("Relu"),
    "fused conv: tanh": conv("Tanh"),
    "fused conv: sigmoid": conv("Sigmoid"),
    "fused conv: leaky": conv("LeakyRelu", [0.2]),
    "fused conv: clipped": conv("Clip", [-0.3, 0.4]),
    "fused conv: hard sigmoid": conv("HardSigmoid", [0.3, 0.4]),
    "fused conv: added before": conv("Relu", None, real(1, 3, 5, 6)),
    "fused gemm": case(
        "FusedGemm",
        [real(3, 4), real(5, 4), real(5)],
        {"activation": "LeakyRelu", "activation_alpha": 0.1, "transB": 1, "alpha": 0.5},
    ),
    "fused product: scaled": case("FusedMatMul", [real(2, 3, 4), real(2, 5, 4)], {"transB": 1, "alpha": 0.3}),
    "fused product: rows first": case("FusedMatMul", [real(3, 2, 4), real(2, 4, 5)], {"transBatchA": 1}),
    "fused product: rows first in both": case(
        "FusedMatMul", [real(3, 2, 7, 4), real(5, 2, 7, 4)], {"transBatchA": 1, "transBatchB": 1, "transB": 1}
    ),
    "fused product: both turned": case("FusedMatMul", [real(2, 4, 3), real(2, 5, 4)], {"transA": 1, "transB": 1}),
    "gelu": case("Gelu", [real(3, 4)]),
    "gelu: bias": case("BiasGelu", [real(3, 4), real(4)]),
    "gelu: fast": case("FastGelu", [real(3, 4), real(4)]),
    "gelu: quick": case("QuickGelu", [real(3, 4)], {"alpha": 1.5}),
    "skip: all inputs": case(
        "SkipLayerNormalization", [real(2, 3, 8), real(2, 3, 8), real(8), real(8), real(8)], {"epsilon": 1e-5}
    ),
    "skip: the sum too": case(
        "SkipLayerNormalization", [real(2, 3, 8), real(3, 8), real(8), real(8)], outputs=4, unread=(1, 2)
    ),
    "skip: by squares": case(
        "SkipSimplifiedLayerNormalization", [real(2, 3, 8), real(2, 3, 8), real(8), real(8)], outputs=4, unread=(1, 2)
    ),
    "early: by squares": case("SimplifiedLayerNormalization", [real(2, 3, 8), real(8)], {"axis": -1}, domain=""),
    "early: layer": case("LayerNormalization", [real(2, 3, 8), real(8), real(8)], {"axis": -1}, opset=14, domain=""),
    "embedded: all inputs": case(
        "EmbedLayerNormalization",
        [IDS, SEGMENTS, real(6, 8), real(5, 8), real(2, 8), real(8), real(8), int32([[1, 1, 0], [1, 1, 1]])],
        outputs=2,
    ),
    "embedded: positions": case(
        "EmbedLayerNormalization",
        [IDS, None, real(6, 8), real(5, 8), None, real(8), real(8), None, int32([[2, 1, 0], [2, 1, 0]])],
        outputs=3,
        unread=(1,),
    ),
    "embedded: no mask": case(
        "EmbedLayerNormalization", [IDS, None, real(6, 8), real(5, 8), None, real(8), real(8)], outputs=2
    ),
}


def attention(*more: Any, outputs: int = 1, width: int = 24, **attrs: Any) -> RowCase:
    """Sequences of four tokens, whose inputs after the bias are `more`."""
    return case("Attention", [real(2, 4, 8), real(8, width), real(width), *more], {"num_heads": 2, **attrs}, outputs=outputs)


def many_heads(*inputs: Any, outputs: int = 1, **attrs: Any) -> RowCase:
    return case("MultiHeadAttention", list(inputs), {"num_heads": 2, **attrs}, outputs=outputs)


def grouped(batch: int, tokens: int, cached: int, ends: Any, total: int, *more: Any, **attrs: Any) -> RowCase:
    """Four heads of queries and two of keys, with a cache of `cached` positions."""
    new = [real(batch, tokens, 64), real(batch, tokens, 32), real(batch, tokens, 32)]
    caches = [real(batch, 2, cached, 16), real(batch, 2, cached, 16)]
    attrs = {"num_heads": 4, "kv_num_heads": 2, **attrs}
    return case("GroupQueryAttention", [*new, *caches, int32(ends), int32(total), *more], attrs, outputs=3)


TURNS, SHORT_TURNS = (real(16, 8), real(16, 8)), (real(16, 2), real(16, 2))
PLACES = np.array([[0, 1, 2], [3, 4, 5]])
TOKENS = [real(2, 4, 8), real(2, 5, 8), real(2, 5, 8)]
ATTENTION = {
    "attention": attention(),
    "attention: earlier tokens": attention(unidirectional=1),
    "attention: a mask": attention(int32([[1, 1, 1, 0], [1, 1, 0, 0]])),
    "attention: a mask of earlier tokens": attention(int32([[1, 1, 1, 0], [0, 1, 1, 1]]), unidirectional=1),
    "attention: a mask for each token": attention(RNG.integers(0, 2, (2, 4, 4)).astype(np.int32)),
    "attention: lengths": attention(int32([3, 2])),
    "attention: ends and starts": attention(int32([3, 4, 1, 0])),
    "attention: a past": attention(None, real(2, 2, 2, 3, 4), outputs=2),
    "attention: a past and a mask": attention(
        int32([[1, 1, 1, 1, 1, 1, 0], [0, 1, 1, 1, 1, 1, 1]]), real(2, 2, 2, 3, 4), outputs=2, unidirectional=1
    ),
    "attention: a bias of scores": attention(None, None, real(2, 2, 4, 4)),
    "attention: values of another size": attention(width=20, qkv_hidden_sizes=[8, 8, 4], scale=0.3),
    "heads": many_heads(real(2, 4, 8), real(2, 5, 8), real(2, 5, 6)),
    "heads: a bias": many_heads(real(2, 4, 8), real(2, 5, 8), real(2, 5, 6), real(22)),
    "heads: a mask": many_heads(*TOKENS, None, int32([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]])),
    "heads: lengths": many_heads(*TOKENS, None, int32([3, 2])),
    "heads: a bias of scores": many_heads(*TOKENS, None, None, real(1, 2, 4, 5)),
    "heads: a past": many_heads(
        *(real(2, 4, 8) for _ in range(3)),
        *(None, None, None, real(2, 2, 3, 4), real(2, 2, 3, 4)),
        outputs=3,
        unidirectional=1,
    ),
    "heads: keys have them": many_heads(real(2, 4, 8), real(2, 2, 5, 4), real(2, 2, 5, 4)),
    "groups: first": grouped(2, 3, 0, [2, 2], 3),
    "groups: first, of two lengths": grouped(2, 3, 0, [2, 1], 3),
    "groups: first, with room": grouped(2, 3, 5, [2, 1], 3),
    "groups: first, rotated": grouped(2, 3, 0, [2, 2], 3, *TURNS, do_rotary=1),
    "groups: next": grouped(2, 1, 5, [5, 5], 6, *TURNS, do_rotary=1),
    "groups: next, of two lengths": grouped(2, 1, 5, [5, 3], 6, *TURNS, do_rotary=1, rotary_interleaved=1),
    "groups: next, with room": grouped(2, 1, 9, [5, 3], 6),
    "groups: a window, capped": grouped(2, 1, 5, [5, 4], 6, local_window_size=3, softcap=2.0),
    "groups: several next": grouped(1, 3, 5, [7], 8),
    "groups: a bias of scores": grouped(2, 3, 0, [2, 2], 3, None, None, None, real(1, 4, 3, 3)),
    "groups: all in one input": case(
        "GroupQueryAttention",
        [real(2, 3, 128), None, None, real(2, 2, 0, 16), real(2, 2, 0, 16), int32([2, 2]), int32(3)],
        {"num_heads": 4, "kv_num_heads": 2},
        outputs=3,
    ),
    "rotary": case("RotaryEmbedding", [real(2, 3, 8), PLACES, *SHORT_TURNS]),
    "rotary: from a position": case("RotaryEmbedding", [real(2, 3, 8), np.array([4]), *SHORT_TURNS], {"interleaved": 1}),
    "rotary: with heads": case("RotaryEmbedding", [real(2, 2, 3, 4), PLACES, *SHORT_TURNS]),
    "rotary: a part of each head": case(
        "RotaryEmbedding", [real(2, 3, 16), PLACES, *SHORT_TURNS], {"num_heads": 2, "rotary_embedding_dim": 4}
    ),
}


def bits(rows: int, columns: int, number: int, block: int = 16, zero: str = "", bias: Any = None) -> RowCase:
    """A product with packed weights, of which each block has a scale and perhaps a zero point."""
    count = -(-rows // block)
    packed, points = (
        byte(columns, count, block * number // 8),
        {
            "": None,
            "packed": byte(columns, -(-count * number // 8)),
            "real": real(columns, count) + 8,
        }[zero],
    )
    attrs = {"K": rows, "N": columns, "bits": number, "block_size": block}
    inputs = [real(2, 3, rows), packed, real(columns, count), points, None, bias]
    return case("MatMulNBits", inputs, attrs, known=(1, 2, *((3,) if zero else ())))


def dynamic_lstm(direction: str, directions: int) -> RowCase:
    scales, point_of_all = scale(directions), np.full(directions, 128, np.uint8)
    inputs = [real(4, 2, 3), byte(directions, 3, 20), byte(directions, 5, 20), real(directions, 40), None, None, None, None]
    inputs += [scales, point_of_all, scales, point_of_all + 1]
    attrs = {"hidden_size": 5, "direction": direction}
    return case("DynamicQuantizeLSTM", inputs, attrs, outputs=3, known=(1, 2, 8, 9, 10, 11))


FIRST, SECOND = (number(0.0213), point(120)), (number(0.0317), point(100))
QUANTIZED = {
    "quantized sum": case("QLinearAdd", [byte(3, 4), *FIRST, byte(4), *SECOND, number(0.04), point(110)]),
    "quantized product": case("QLinearMul", [byte(3, 4), *FIRST, byte(3, 4), *SECOND, number(0.04), point(110)]),
    "quantized join": case("QLinearConcat", [*SECOND, byte(3, 4), *FIRST, byte(3, 2), *SECOND], {"axis": 1}),
    "quantized mean": case(
        "QLinearAveragePool",
        [byte(1, 3, 6, 7), *FIRST, *SECOND],
        {"kernel_shape": [2, 3], "strides": [2, 2], "pads": [0, 1, 1, 0]},
    ),
    "quantized mean: padding counts": case(
        "QLinearAveragePool",
        [byte(1, 3, 6, 7), *FIRST, *SECOND],
        {"kernel_shape": [2, 3], "strides": [2, 2], "pads": [0, 1, 1, 0], "count_include_pad": 1},
    ),
    "quantized mean of images": case("QLinearGlobalAveragePool", [byte(2, 3, 6, 7), *FIRST, *SECOND]),
    "quantized sigmoid": case("QLinearSigmoid", [byte(3, 40), *FIRST, number(0.004), point(0)]),
    "quantized leaky": case(
        "QLinearLeakyRelu",
        [signed(3, 40), number(0.0213), point(12, np.int8), number(0.0317), point(2, np.int8)],
        {"alpha": 0.2},
    ),
    "quantized softmax": case("QLinearSoftmax", [byte(3, 10), *FIRST, number(1 / 256), point(0)], {"opset": 13, "axis": -1}),
    "quantized softmax of a matrix": case(
        "QLinearSoftmax", [byte(2, 3, 10), *FIRST, number(1 / 256), point(0)], {"opset": 11, "axis": 1}
    ),
    "quantized choice": case(
        "QLinearWhere",
        [np.array([True, False, True]), byte(2, 3), *FIRST, byte(3), *SECOND, number(0.04), point(110)],
    ),
    "quantized gemm": case(
        "QGemm",
        [
            *(byte(3, 4), *FIRST, signed(5, 4), scale(5), np.zeros(5, np.int8)),
            *(RNG.integers(-999, 999, 5).astype(np.int32), number(0.05), point(110)),
        ],
        {"transB": 1, "alpha": 0.5},
    ),
    "quantized gemm: real numbers": case("QGemm", [byte(3, 4), *FIRST, signed(4, 5), number(0.1), point(3, np.int8)]),
    "quantized on the way": case("DynamicQuantizeMatMul", [real(3, 4), signed(4, 5), scale(5), signed(5), real(5)]),
    "quantized, then real": case(
        "MatMulIntegerToFloat",
        [byte(2, 3, 4), signed(4, 5), number(0.1), scale(5), point(13), signed(5), real(5)],
    ),
    "weights of 4 bits": bits(32, 5, 4),
    "weights of 4 bits: zero points and a bias": bits(48, 5, 4, zero="packed", bias=real(5)),
    "weights of 4 bits: a short block": bits(40, 5, 4, zero="packed"),
    "weights of 4 bits: real zero points": bits(32, 5, 4, zero="real"),
    "weights of 8 bits": bits(32, 5, 8, zero="packed"),
    "weights of 2 bits": bits(32, 4, 2),
    "16 bits": case("QuantizeLinear", [real(3, 4), number(0.001), point(3000, np.uint16)]),
    "16 bits: back": case(
        "DequantizeLinear", [RNG.integers(0, 65535, (3, 4)).astype(np.uint16), number(0.001), point(3000, np.uint16)]
    ),
    "lstm of bytes": dynamic_lstm("forward", 1),
    "lstm of bytes: both ways": dynamic_lstm("bidirectional", 2),
    "lstm of bytes: backwards": dynamic_lstm("reverse", 1),
}
RUNTIME_CASES = {**FUSED, **ATTENTION, **QUANTIZED}
