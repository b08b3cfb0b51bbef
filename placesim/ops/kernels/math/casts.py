"""Cast: from any number type to any other, as C++ on x86-64 converts them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import DataType
from placesim.core.errors import UnimplementedError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.cost_model import COPY
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, Trait
from placesim.ops.kernels.memory_rules import KernelMemory
from placesim.ops.kernels.precision import is_floating, is_narrow
from placesim.ops.kernels.shapes import unchanged

NOT_CASTABLE = ("string", "resource", "variant")
MANTISSA_BITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53, "float8_e5m2": 3, "float8_e4m3fn": 4}
MANTISSA_BITS |= {"complex64": 24, "complex128": 53}
"""Bits of a float's mantissa, with the hidden bit."""
PACKET = 8
"""Number of bfloat16 numbers that are converted together."""


def _cast(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Any]:
    """Convert a tensor of any shape. Raises UnimplementedError from or to strings, resources and variants."""
    source, target = attrs["SrcT"], attrs["DstT"]
    if source is target:
        return (inputs[0],)
    if source.name in NOT_CASTABLE or target.name in NOT_CASTABLE:
        raise UnimplementedError(f"Cast {source.name} to {target.name} is not supported")
    x = inputs[0]
    if attrs["Truncate"] and _can_truncate(x.dtype, target):
        # from double to complex64 TensorFlow clears the whole mantissa, and the exponent's lowest bit for the hidden one
        is_cleared = x.dtype == np.float64 and target.numpy == np.complex64
        x = drop_low_bits(x, 0 if is_cleared else MANTISSA_BITS[target.numpy.name])
    return (cast(x, target.numpy),)


def cast(x: Tensor, target: np.dtype[Any]) -> Tensor:
    """Return the tensor, of any shape, with another element type; a quantized type counts as its integer type.

    Complex numbers lose their imaginary part. Floats are rounded towards zero and wrap. In bool, only zero is false.
    """
    if x.dtype == target:
        return x
    if x.dtype.kind == "c" and target.kind != "c":
        x = x.real
    if target.kind == "b":
        return np.asarray(x != 0)
    if target.name in ("int4", "uint4", "int2", "uint2"):
        return np.asarray(cast(x, np.dtype(np.int8))).astype(target)
    if target.kind in "iu" and is_floating(x.dtype):
        whole = truncate_to_integer(x, target)
        return _saturate_packets(x, whole) if x.dtype.name == "bfloat16" and target == np.uint8 else whole
    if is_floating(target) and target.itemsize <= 2 and x.dtype.itemsize > 2:  # C++ converts by way of float
        return x.astype(np.float32).astype(target)
    return x.astype(target)


def truncate_to_integer(x: Tensor, target: np.dtype[Any]) -> Tensor:
    """Return floats of any shape rounded towards zero to integers, as the processor converts them.

    The processor converts to 32 or 64 signed bits; NaN and values out of range become the lowest integer. Smaller types get
    the low bits.
    """
    if is_narrow(x.dtype) or x.dtype.itemsize == 1:
        x = x.astype(np.float32)
    via = np.dtype(np.int64 if target.itemsize == 8 or target == np.uint32 else np.int32)
    limit = 2.0 ** (8 * via.itemsize - 1)
    # comparisons with NaN are false, so NaN becomes the lowest integer too
    whole = np.where((x >= -limit) & (x < limit), x, x.dtype.type(-limit)).astype(via)
    # from values of at least 2**63, 2**63 is subtracted before the conversion and added after it
    if target != np.uint64:
        return whole.astype(target)
    upper = (x >= limit) & (x < 2 * limit)
    rest = np.where(upper, x - x.dtype.type(limit), x.dtype.type(0)).astype(np.uint64)
    return np.where(upper, rest + np.uint64(limit), whole.astype(np.uint64))


def _saturate_packets(x: Tensor, whole: Tensor) -> Tensor:
    """Limit the bfloat16 values in full packets to uint8's range, as the processor does; the values after the packets wrap."""
    packed = x.size // PACKET * PACKET
    result = np.array(whole).reshape(-1)
    result[:packed] = np.clip(np.nan_to_num(x.astype(np.float32).reshape(-1)[:packed]), 0, 255).astype(np.uint8)
    return result.reshape(x.shape)


def _can_truncate(source: np.dtype[Any], target: DataType) -> bool:
    """Whether attr `Truncate` has an effect: if the target has fewer mantissa bits, and for target bfloat16 only from float."""
    if target.numpy.name == "bfloat16" and source != np.float32:
        return False
    return MANTISSA_BITS.get(source.name, 0) > MANTISSA_BITS.get(target.numpy.name, 99)


def drop_low_bits(x: Tensor, kept: int) -> Tensor:
    """Return floats of any shape with a mantissa of `kept` bits, rounded towards zero; NaN is unchanged."""
    if x.dtype.kind == "c":
        result = np.empty_like(x)
        result.real, result.imag = drop_low_bits(x.real, kept), drop_low_bits(x.imag, kept)
        return result
    bits = np.dtype(f"u{x.dtype.itemsize}")
    mask = bits.type(np.iinfo(bits).max - (1 << (MANTISSA_BITS[x.dtype.name] - kept)) + 1)
    return np.where(np.isnan(x), x, (np.ascontiguousarray(x).reshape(x.shape).view(bits) & mask).view(x.dtype))


def cast_memory(memory: KernelMemory) -> None:
    """A cast to the same type passes its input on; another cast allocates, even between types of one size."""
    if memory.attrs["SrcT"] is memory.attrs["DstT"]:
        memory.alias(0, 0)
    else:
        memory.allocate()


TABLE: Table = {
    "Cast": Kernel(_cast, unchanged, memory=cast_memory, traits=Trait.MOVES_ELEMENTS, cost=COPY),
    "_HostCast": Kernel(_cast, unchanged, memory=cast_memory),
}
