"""`tf.quantization`: convert numbers to few bits and back."""

from __future__ import annotations

from typing import Any

from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types import dtypes


def quantize(
    input: TensorLike,
    min_range: object,
    max_range: object,
    T: DTypeLike,
    mode: str = "MIN_COMBINED",
    round_mode: str = "HALF_AWAY_FROM_ZERO",
    name: str | None = None,
    narrow_range: bool = False,
    axis: int | None = None,
    ensure_minimum_range: float = 0.01,
) -> Any:
    """`tf.quantization.quantize`: the quantized tensor and its range."""
    return quantize_v2(input, min_range, max_range, T, mode, name, round_mode, narrow_range, axis, ensure_minimum_range)


def quantize_v2(
    input: TensorLike,
    min_range: object,
    max_range: object,
    T: DTypeLike,
    mode: str = "MIN_COMBINED",
    name: str | None = None,
    round_mode: str = "HALF_AWAY_FROM_ZERO",
    narrow_range: bool = False,
    axis: int | None = None,
    ensure_minimum_range: float = 0.01,
) -> Any:
    """`tf.quantize_v2`: the quantized tensor and its range."""
    return gen("QuantizeV2")(
        input,
        min_range,
        max_range,
        T,
        mode=mode,
        round_mode=round_mode,
        narrow_range=narrow_range,
        axis=-1 if axis is None else axis,
        ensure_minimum_range=ensure_minimum_range,
        name=name,
    )


def dequantize(
    input: TensorLike,
    min_range: object,
    max_range: object,
    mode: str = "MIN_COMBINED",
    name: str | None = None,
    axis: int | None = None,
    narrow_range: bool = False,
    dtype: DTypeLike = dtypes.float32,
) -> Any:
    """`tf.quantization.dequantize`."""
    axis = -1 if axis is None else axis
    return gen("Dequantize")(
        input, min_range, max_range, mode=mode, narrow_range=narrow_range, axis=axis, dtype=dtype, name=name
    )


def _quantize_and_dequantize(op: str) -> Any:
    def call(
        input: TensorLike,
        input_min: object,
        input_max: object,
        signed_input: bool = True,
        num_bits: int = 8,
        range_given: bool = False,
        round_mode: str = "HALF_TO_EVEN",
        name: str | None = None,
        narrow_range: bool = False,
        axis: int | None = None,
    ) -> Any:
        return gen(op)(
            input,
            input_min,
            input_max,
            signed_input=signed_input,
            num_bits=num_bits,
            range_given=range_given,
            round_mode=round_mode,
            narrow_range=narrow_range,
            axis=-1 if axis is None else axis,
            name=name,
        )

    return call


quantize_and_dequantize = _quantize_and_dequantize("QuantizeAndDequantizeV2")
quantize_and_dequantize_v2 = _quantize_and_dequantize("QuantizeAndDequantizeV4")
