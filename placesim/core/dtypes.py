"""TensorFlow's element types: name, number, size and numpy type.

Numpy is imported only when a numpy type is needed, so that names can be used without it. Quantized types are stored as
integers. Source of names and numbers: TensorFlow's `types.proto`.
"""

from __future__ import annotations

from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from placesim.core.errors import GraphBuildError

if TYPE_CHECKING:
    import numpy as np


class DataType:
    """An element type. There is exactly one object per type, so `is` compares types.

    `name` is TensorFlow's short name (`float`), and `python_name` the name in its Python API (`float32`). `size` is the size of
    an element in bytes, or 0 if elements have no fixed size.
    """

    def __init__(self, name: str, number: int, size: int, numpy_name: str, python_name: str = "") -> None:
        self.name = name
        self.number = number
        self.size = size
        self.numpy_name = numpy_name
        self.python_name = python_name or name

    @property
    def enum_name(self) -> str:
        """Return the name in protocol buffers, such as `DT_FLOAT`."""
        return "DT_" + self.name.upper()

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        """Return the numpy type; strings, resources and variants are Python objects."""
        import numpy as np

        if hasattr(np, self.numpy_name):
            return np.dtype(self.numpy_name)
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, self.numpy_name))
        return found

    @property
    def is_floating(self) -> bool:
        return self in FLOATING

    @property
    def is_complex(self) -> bool:
        return self in COMPLEX

    @property
    def is_integer(self) -> bool:
        return self in INTEGER

    @property
    def is_quantized(self) -> bool:
        return self in QUANTIZED

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return (parse_dtype, (self.name,))


class OpenType(DataType):
    """An element type that is an attr of the enclosing function, so that each call of the function chooses the type.

    There is one object for each attr of a function, so `is` compares these types too. Every op accepts such a type.
    """

    def __init__(self, attr: str) -> None:
        super().__init__(attr, 0, 0, "object_")

    @property
    def attr(self) -> str:
        """Return the name of the attr."""
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return (OpenType, (self.name,))


def _dtypes() -> dict[str, DataType]:
    rows = (
        # name, number, bytes, numpy, Python
        ("float", 1, 4, "float32", "float32"),
        ("double", 2, 8, "float64", "float64"),
        ("int32", 3, 4, "int32", ""),
        ("uint8", 4, 1, "uint8", ""),
        ("int16", 5, 2, "int16", ""),
        ("int8", 6, 1, "int8", ""),
        ("string", 7, 0, "object_", ""),
        ("complex64", 8, 8, "complex64", ""),
        ("int64", 9, 8, "int64", ""),
        ("bool", 10, 1, "bool_", ""),
        ("qint8", 11, 1, "int8", ""),
        ("quint8", 12, 1, "uint8", ""),
        ("qint32", 13, 4, "int32", ""),
        ("bfloat16", 14, 2, "bfloat16", ""),
        ("qint16", 15, 2, "int16", ""),
        ("quint16", 16, 2, "uint16", ""),
        ("uint16", 17, 2, "uint16", ""),
        ("complex128", 18, 16, "complex128", ""),
        ("half", 19, 2, "float16", "float16"),
        ("resource", 20, 0, "object_", ""),
        ("variant", 21, 0, "object_", ""),
        ("uint32", 22, 4, "uint32", ""),
        ("uint64", 23, 8, "uint64", ""),
        ("float8_e5m2", 24, 1, "float8_e5m2", ""),
        ("float8_e4m3fn", 25, 1, "float8_e4m3fn", ""),
        ("float8_e4m3fnuz", 26, 1, "float8_e4m3fnuz", ""),
        ("float8_e4m3b11fnuz", 27, 1, "float8_e4m3b11fnuz", ""),
        ("float8_e5m2fnuz", 28, 1, "float8_e5m2fnuz", ""),
        ("int4", 29, 1, "int4", ""),
        ("uint4", 30, 1, "uint4", ""),
        ("int2", 31, 1, "int2", ""),
        ("uint2", 32, 1, "uint2", ""),
        ("float4_e2m1fn", 33, 1, "float4_e2m1fn", ""),
    )
    return {row[0]: DataType(*row) for row in rows}


DTYPES = _dtypes()
_BY_ALIAS = (
    DTYPES | {dtype.python_name: dtype for dtype in DTYPES.values()} | {dtype.enum_name: dtype for dtype in DTYPES.values()}
)
BY_NUMBER = {dtype.number: dtype for dtype in DTYPES.values()}
REF_OFFSET = 100
"""Offset of a reference type's number from its base type's number."""

FLOAT, DOUBLE, HALF, BFLOAT16 = (DTYPES[n] for n in ("float", "double", "half", "bfloat16"))
INT8, INT16, INT32, INT64 = (DTYPES[n] for n in ("int8", "int16", "int32", "int64"))
UINT8, UINT16, UINT32, UINT64 = (DTYPES[n] for n in ("uint8", "uint16", "uint32", "uint64"))
COMPLEX64, COMPLEX128 = DTYPES["complex64"], DTYPES["complex128"]
BOOL, STRING, RESOURCE, VARIANT = (DTYPES[n] for n in ("bool", "string", "resource", "variant"))
QINT8, QUINT8, QINT16, QUINT16, QINT32 = (DTYPES[n] for n in ("qint8", "quint8", "qint16", "quint16", "qint32"))

FLOATING = (
    FLOAT,
    DOUBLE,
    HALF,
    BFLOAT16,
    *(dtype for dtype in DTYPES.values() if dtype.name.startswith(("float8", "float4"))),
)
COMPLEX = (COMPLEX64, COMPLEX128)
INTEGER = (
    *(INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64),
    *(DTYPES[n] for n in ("int4", "uint4", "int2", "uint2")),
)
QUANTIZED = (QINT8, QUINT8, QINT16, QUINT16, QINT32)
NAMES = tuple(dict.fromkeys((*DTYPES, *(dtype.python_name for dtype in DTYPES.values()))))
"""All type names allowed in a graph file."""


def parse_dtype(name: str) -> DataType:
    """Return the type called `float`, `float32` or `DT_FLOAT`. Raises KeyError for other names."""
    return _BY_ALIAS[name]


@cache
def _by_numpy_name() -> dict[str, DataType]:
    """Return the types by numpy name, without the quantized ones.

    The table by name avoids an import of the packages that define rare types.
    """
    return {dtype.numpy_name.rstrip("_"): dtype for dtype in DTYPES.values() if not dtype.is_quantized}


@lru_cache
def _of_numpy(dtype: np.dtype[Any]) -> DataType | None:
    # numpy makes the name anew each time
    return _by_numpy_name().get(dtype.name) if dtype.isnative else None


def dtype_of(array: np.ndarray[Any, Any]) -> DataType:
    """Return TensorFlow's type of a numpy array; an array of texts has type `string`.

    Raises GraphBuildError for a numpy type that TensorFlow does not have.
    """
    if array.dtype.kind in "USO":
        return STRING
    found = _of_numpy(array.dtype)
    if found is None:
        raise GraphBuildError(f"no such element type: got numpy's {array.dtype}, expected one that TensorFlow has")
    return found
