"""`tf.DType` and its instances: TensorFlow's Python view of the element types, references included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from placesim.core.dtypes import BY_NUMBER, DTYPES, REF_OFFSET
from placesim.core.dtypes import DataType as ElementType
from placesim.tf1.types.read_only import read_only

if TYPE_CHECKING:
    import numpy as np


class DType:
    """An element type or its reference type; each is one object.  `element` is placesim's record of the type."""

    __slots__ = ("_as_ref", "_base", "_is_ref_dtype", "element", "name")

    def __init__(self, element: ElementType, base: DType | None = None) -> None:
        self.element = element
        self._is_ref_dtype = base is not None
        self._base = base or self
        self.name = element.python_name + ("_ref" if self._is_ref_dtype else "")
        self._as_ref = self if self._is_ref_dtype else DType(element, self)

    base_dtype: DType = read_only("_base")

    @property
    def real_dtype(self) -> DType:
        base = self._base
        if base is complex64:
            return float32
        return float64 if base is complex128 else base

    @property
    def as_datatype_enum(self) -> int:
        return self.element.number + (REF_OFFSET if self._is_ref_dtype else 0)

    as_numpy_dtype = read_only("element.numpy.type")

    @property
    def is_numpy_compatible(self) -> bool:
        return self.element.name not in ("resource", "variant")

    @property
    def is_bool(self) -> bool:
        return self._base is bool_

    @property
    def is_integer(self) -> bool:
        return self.is_numpy_compatible and self.element.is_integer

    is_floating: bool = read_only("element.is_floating")
    is_complex: bool = read_only("element.is_complex")
    is_quantized: bool = read_only("element.is_quantized")

    @property
    def is_unsigned(self) -> bool:
        return self.element.name.startswith("uint")

    @property
    def is_numeric(self) -> bool:
        return self.is_integer or self.is_floating or self.is_complex

    @property
    def size(self) -> int:
        return self.element.size or 1

    @property
    def min(self) -> Any:
        return self._bound("min")

    @property
    def max(self) -> Any:
        return self._bound("max")

    @property
    def limits(self) -> tuple[Any, Any]:
        """Lowest and highest value."""
        return self.min, self.max

    def _bound(self, which: str) -> Any:
        import numpy as np

        if self.is_quantized or self._base in (bool_, string, complex64, complex128):
            if self.is_bool:
                return which == "max"
            raise TypeError(f"Cannot find {which}imum value of {self} with type {self}.")
        limits = "finfo" if self.is_floating else "iinfo"
        try:
            return getattr(getattr(np, limits)(self.element.numpy), which)
        except ValueError:
            import ml_dtypes

            return getattr(getattr(ml_dtypes, limits)(self.element.numpy), which)

    def is_compatible_with(self, other: object) -> bool:
        """Whether a tensor of type `other` can be used where this type is expected."""
        found = as_dtype(other)
        return self.as_datatype_enum in (found.as_datatype_enum, found.base_dtype.as_datatype_enum)

    def __eq__(self, other: object) -> bool:
        if other is None:
            return False
        if not isinstance(other, DType):
            try:
                other = as_dtype(other)
            except TypeError:
                return False
        return self is other

    def __ne__(self, other: object) -> bool:
        return not self.__eq__(other)

    def __hash__(self) -> int:
        return self.as_datatype_enum

    def __int__(self) -> int:
        return self.as_datatype_enum

    def __str__(self) -> str:
        return f"<dtype: '{self.name}'>"

    def __repr__(self) -> str:
        return "tf." + self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return as_dtype, (self.name,)


_BY_ELEMENT = {element: DType(element) for element in DTYPES.values()}
_BY_NAME = {dtype.name: dtype for base in _BY_ELEMENT.values() for dtype in (base, base._as_ref)}
_BY_NAME |= {element.name: dtype for element, dtype in _BY_ELEMENT.items()}

float16 = half = _BY_NAME["float16"]
bfloat16 = _BY_NAME["bfloat16"]
float32 = _BY_NAME["float32"]
float64 = double = _BY_NAME["float64"]
int8, int16, int32, int64 = (_BY_NAME[n] for n in ("int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = (_BY_NAME[n] for n in ("uint8", "uint16", "uint32", "uint64"))
complex64, complex128 = _BY_NAME["complex64"], _BY_NAME["complex128"]
bool_, string, resource, variant = (_BY_NAME[n] for n in ("bool", "string", "resource", "variant"))
qint8, quint8, qint16, quint16, qint32 = (_BY_NAME[n] for n in ("qint8", "quint8", "qint16", "quint16", "qint32"))


def is_half(dtype: DType) -> bool:
    """Whether a type is one of the two half precision types, which are too imprecise for sums and averages."""
    return dtype.name in ("float16", "bfloat16")


def of(element: ElementType, is_ref: bool = False) -> DType:
    """The DType of a placesim element type, or of its references."""
    found = _BY_ELEMENT[element]
    return found._as_ref if is_ref else found


def __getattr__(name: str) -> DType:
    """Find a type that has no variable above, such as `float32_ref`."""
    try:
        return _BY_NAME[name.removesuffix("_")]
    except KeyError:
        raise AttributeError(f"module 'tensorflow' has no attribute '{name}'") from None


_PYTHON = {float: float32, int: int32, bool: bool_, complex: complex128, str: string, bytes: string, object: string}


def as_dtype(value: object) -> DType:
    """DType of a value: a DType, its name or number, a Python or numpy type. Raises TypeError."""
    if isinstance(value, DType):
        return value
    if isinstance(value, ElementType):
        return _BY_ELEMENT[value]
    if isinstance(value, str):
        found = _BY_NAME.get(value)
        if found is not None:
            return found
    elif isinstance(value, int) and not isinstance(value, bool):
        is_ref = value > REF_OFFSET
        element = BY_NUMBER.get(value - REF_OFFSET if is_ref else value)
        if element is not None:
            return of(element, is_ref)
    elif isinstance(value, type) and value in _PYTHON:
        return _PYTHON[value]
    found = _of_numpy(value)
    if found is None:
        raise TypeError(f"Cannot convert the argument `type_value`: {value!r} to a TensorFlow DType.") from None
    return found


def _of_numpy(value: Any) -> DType | None:
    import numpy as np

    if hasattr(value, "dtype") and not isinstance(value, type):
        value = value.dtype
        if isinstance(value, DType):
            return value
    if value is None:  # for numpy the default type, float64
        return None
    try:
        found: np.dtype[Any] = np.dtype(value)
    except (TypeError, ValueError):
        return None
    if found.kind in "SUO":
        return string
    return _BY_NAME.get(found.name)
