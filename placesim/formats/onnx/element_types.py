"""Mapping between ONNX's and TensorFlow's element types. Source of the numbers: `TensorProto.DataType` of `onnx.proto`."""

from __future__ import annotations

from placesim.core.dtypes import DTYPES, DataType

_FROM_1 = (
    "float uint8 int8 uint16 int16 int32 int64 string bool half double uint32 uint64 complex64 complex128 bfloat16 "
    "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz uint4 int4 float4_e2m1fn"
)
"""Types with the numbers from 1 on. The next number is that of FLOAT8E8M0, which TensorFlow lacks."""
BY_ONNX_NUMBER: dict[int, DataType] = {
    number: DTYPES[name] for number, name in (*enumerate(_FROM_1.split(), 1), (25, "uint2"), (26, "int2"))
}
ONNX_NUMBER: dict[DataType, int] = {dtype: number for number, dtype in BY_ONNX_NUMBER.items()}
