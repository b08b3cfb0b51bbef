"""Mapping between ONNX's and TensorFlow's element types. Source of the numbers: `TensorProto.DataType` of `onnx.proto`."""

from __future__ import annotations

from placesim.core.dtypes import DTYPES, DataType

_NAMES = {
    1: "float",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    8: "string",
    9: "bool",
    10: "half",
    11: "double",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4_e2m1fn",
    25: "uint2",
    26: "int2",
}
"""Types by ONNX's number. The missing 24 is FLOAT8E8M0, which TensorFlow lacks."""
BY_ONNX_NUMBER: dict[int, DataType] = {number: DTYPES[name] for number, name in _NAMES.items()}
ONNX_NUMBER: dict[DataType, int] = {dtype: number for number, dtype in BY_ONNX_NUMBER.items()}
