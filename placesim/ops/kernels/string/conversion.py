"""Numbers to strings and strings to numbers; tensors in text; base64."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import BOOL, COMPLEX64, COMPLEX128, DOUBLE, RESOURCE, STRING, VARIANT, DataType
from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs, c_escape
from placesim.ops.kernels.device_resources import ResourceHandle, spell_type
from placesim.ops.kernels.kernel import Kernel, Table, Tensor
from placesim.ops.kernels.memory_rules import KernelMemory
from placesim.ops.kernels.shapes import Dims, ShapeContext, ShapeError, format_dims, unchanged
from placesim.ops.kernels.string_tensors import flat_strings, map_strings, raw, string_array
from placesim.ops.process.memory_limit import check_elements, check_text

INTEGER = re.compile(rb"[+-]?[0-9]+")
DECIMAL = re.compile(rb"[+-]?(inf|infinity|nan(\([0-9a-z_]*\))?|([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?)", re.IGNORECASE)
HEXADECIMAL = re.compile(rb"[+-]?0x([0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(p[+-]?[0-9]+)?", re.IGNORECASE)

URL_SAFE = re.compile(rb"[A-Za-z0-9_-]*")


# --- numbers to strings ---------------------------------------------------------------------------------------------


def _takes_precision(dtype: DataType) -> bool:
    return dtype.is_floating or dtype.is_complex or dtype is STRING


def _check_format(attrs: Attrs, fill: str) -> None:
    dtype = attrs["T"]
    if not _takes_precision(dtype):
        if attrs["scientific"] or attrs["shortest"]:
            raise InvalidArgumentError(f"scientific and shortest format not supported for datatype {dtype}")
        if attrs["precision"] >= 0:
            raise InvalidArgumentError(f"precision not supported for datatype {dtype}")
    if len(fill) > 1:
        raise InvalidArgumentError("Fill string must be one or fewer characters")
    if attrs["scientific"] and attrs["shortest"]:
        raise InvalidArgumentError("Cannot select both scientific and shortest notation")
    if fill and fill not in " +-0#":
        raise InvalidArgumentError(f'Fill argument not supported: "{fill}"')


def _printf_format(attrs: Attrs, fill: str) -> tuple[str, str]:
    """Return printf's formats for finite numbers, and for infinity and NaN, which are not padded with zeros."""
    dtype = attrs["T"]
    letter = "d"
    if _takes_precision(dtype):
        letter = "g" if attrs["shortest"] else "e" if attrs["scientific"] else "f"
    if dtype is STRING:
        letter, fill = "s", fill if fill == "-" else ""
    # printf's unsigned conversions ignore these flags
    if dtype.name.startswith("uint") and fill in ("+", " "):
        fill = ""
    size = f"{attrs['width']}" if attrs["width"] > -1 else ""
    size += f".{attrs['precision']}" if attrs["precision"] > -1 else ""
    return f"%{fill}{size}{letter}", f"%{fill.replace('0', '')}{size}{letter}"


def as_string(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Format every element, in any shape, as C's printf does. Raises InvalidArgumentError for an invalid fill or notation."""
    fill = raw(attrs["fill"]).decode("latin-1")
    _check_format(attrs, fill)
    value, dtype = np.asarray(inputs[0]), attrs["T"]
    if dtype is BOOL:
        return (string_array([b"true" if element else b"false" for element in value.reshape(-1)], value.shape),)
    finite, other = _printf_format(attrs, fill)
    check_text(value.size * max(attrs["width"], attrs["precision"], 0))
    if dtype is STRING:
        return (map_strings(lambda text: finite.encode() % text, value),)

    def one(number: float) -> bytes:
        if number - number == 0:
            return (finite % number).encode()
        # C shows the sign of a NaN, Python does not
        sign = "-" if number != number and np.signbit(number) else ""
        return (sign + other % number).encode()

    if dtype.is_complex:
        return (string_array([b"(%s,%s)" % (one(c.real), one(c.imag)) for c in value.reshape(-1).tolist()], value.shape),)
    write: Callable[[Any], bytes] = one if dtype.is_floating else lambda number: (finite % number).encode()
    numbers = value.reshape(-1).astype(np.float64) if dtype.is_floating else value.reshape(-1)
    return (string_array(list(map(write, numbers.tolist())), value.shape),)


# --- strings to numbers ---------------------------------------------------------------------------------------------


def parse_number(text: bytes, dtype: DataType) -> int | float | None:
    """Return the number in a string, None if it is invalid or out of range; floats may overflow to infinity."""
    stripped = text.strip()
    if dtype.is_integer:
        if not INTEGER.fullmatch(stripped) or (stripped.startswith(b"-") and dtype.name.startswith("uint")):
            return None
        limits = np.iinfo(dtype.numpy)
        number = int(stripped)
        return number if limits.min <= number <= limits.max else None
    if HEXADECIMAL.fullmatch(stripped):
        return _read_hexadecimal(stripped.decode())
    if not DECIMAL.fullmatch(stripped):
        return None
    # C allows a payload in brackets after nan, Python's float does not
    return float(stripped.split(b"(")[0])


def _read_hexadecimal(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        return -math.inf if text.startswith("-") else math.inf


def string_to_number(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Convert strings to numbers, ignoring spaces around them. Raises InvalidArgumentError for one that is not a number."""
    dtype, numbers = attrs["out_type"], []
    for text in flat_strings(inputs[0]):
        number = parse_number(text, dtype)
        if number is None:
            shown = text.decode(errors="replace")
            raise InvalidArgumentError(f"StringToNumberOp could not correctly convert string: {shown}")
        numbers.append(number)
    wide = np.array(numbers, np.float64 if dtype.is_floating else dtype.numpy)
    return (wide.astype(dtype.numpy).reshape(np.shape(inputs[0])),)


# --- tensors in text ------------------------------------------------------------------------------------------------


def _shortest(number: float, kind: Any, digits: int, all_digits: int) -> str:
    """Format a number with `digits` digits if that text reads back as the same number, else with `all_digits`."""
    if number != number:
        return "nan"
    text = f"{number:.{digits}g}"
    return text if kind(text) == kind(number) else f"{number:.{all_digits}g}"


def _handle_text(handle: ResourceHandle) -> str:
    known = (
        "" if handle.dtype is None else f" DType enum: {handle.dtype.number}, Shape: {format_dims(handle.tensor_shape.dims)} "
    )
    place = f'name="{handle.name}", device="{handle.device}", container="{handle.container}"'
    return f'<ResourceHandle({place}, type="{spell_type(handle.type)}", dtype and shapes : "[{known}]")>'


def _element_text(dtype: DataType) -> Callable[[Any], str]:
    if dtype is STRING:
        return lambda text: f'"{c_escape(text)}"'
    if dtype is RESOURCE:
        return _handle_text
    if dtype is VARIANT:
        return lambda value: f"<{value!r}>"
    if dtype in (DOUBLE, COMPLEX128):
        number: Callable[[Any], str] = lambda value: _shortest(float(value), np.float64, 15, 17)  # noqa: E731
    elif dtype.is_floating or dtype is COMPLEX64:
        number = lambda value: _shortest(float(value), np.float32, 6, 9)  # noqa: E731
    else:
        return lambda value: str(int(value))
    return (lambda value: f"({number(value.real)},{number(value.imag)})") if dtype.is_complex else number


def summarize(value: Tensor, dtype: DataType, ends: int) -> str:
    """Return a tensor as `tf.print` shows it: the first and last `ends` rows of each axis, or all if `ends` is negative."""
    ends = value.size if ends < 0 else min(ends, value.size)
    check_elements(math.prod(min(dim, 2 * ends) for dim in value.shape))
    if dtype is BOOL and not ends:  # TensorFlow then does not even write brackets
        return ""
    write = _element_text(dtype)
    if not value.ndim:
        return write(value[()]) if ends else "..."
    return _summarize_rows(value, write, ends, 0)


def _summarize_rows(value: Any, write: Callable[[Any], str], ends: int, axis: int) -> str:
    if not isinstance(value, np.ndarray) or not value.ndim:
        return write(value if not isinstance(value, np.ndarray) else value[()])
    size = len(value)
    shown = [_summarize_rows(row, write, ends, axis + 1) for row in value[:ends]]
    if size > 2 * ends:
        shown = [*(shown or [""]), "..."]
    shown += [_summarize_rows(row, write, ends, axis + 1) for row in value[max(ends, size - ends) :]]
    gap = " " if value.ndim == 1 else "\n" * (value.ndim - 1) + " " * (axis + 1)
    return f"[{gap.join(shown)}]"


def _template_pieces(attrs: Attrs) -> list[bytes]:
    """Return the texts between the placeholders. Raises ShapeError unless each input has a placeholder."""
    template, placeholder = raw(attrs["template"]), raw(attrs["placeholder"])
    # an empty placeholder is between all bytes
    pieces = template.split(placeholder) if placeholder else [template[i : i + 1] for i in range(len(template))] or [b""]
    if len(pieces) - 1 != len(attrs["T"]):
        raise ShapeError(f"num placeholders in template and num inputs must match: {len(pieces) - 1} vs. {len(attrs['T'])}")
    return pieces


def string_format(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Return the template with inputs' texts in its placeholders. Raises ShapeError unless each input has a placeholder."""
    text, *pieces = _template_pieces(attrs)
    for value, dtype, piece in zip(inputs, attrs["T"], pieces, strict=True):
        text += summarize(np.asarray(value), dtype, attrs["summarize"]).encode() + piece
    return (string_array([text], ()),)


# --- base64 ---------------------------------------------------------------------------------------------------------


def encode_base64(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Encode strings, in any shape, as URL-safe base64, with padding if attr `pad` is true."""
    from base64 import urlsafe_b64encode

    def encode(text: bytes) -> bytes:
        found = urlsafe_b64encode(text)
        return found if attrs["pad"] else found.rstrip(b"=")

    return (map_strings(encode, inputs[0]),)


def _decode_base64(text: bytes) -> bytes:
    """Decode base64. It is checked in TensorFlow's order: whole groups of four characters, the length, then the last group."""
    from base64 import urlsafe_b64decode

    body = text
    if text and len(text) % 4 == 0 and text.endswith(b"="):
        body = text[:-2] if text.endswith(b"==") else text[:-1]
    whole = max(len(body) - 1, 0) // 4 * 4
    if not URL_SAFE.fullmatch(body[:whole]):
        raise InvalidArgumentError("Invalid character found in base64.")
    if len(body) % 4 == 1:
        raise InvalidArgumentError("Base64 string length cannot be 1 modulo 4.")
    if not URL_SAFE.fullmatch(body):
        raise InvalidArgumentError("Invalid character found in base64.")
    return urlsafe_b64decode(body + b"=" * (-len(body) % 4))


def decode_base64(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Decode URL-safe base64, in any shape, padded or not. Raises InvalidArgumentError for invalid base64."""
    return (map_strings(_decode_base64, inputs[0]),)


# --- shape functions ------------------------------------------------------------------------------------------------


def _infer_string_format(context: ShapeContext) -> Sequence[Dims]:
    _template_pieces(context.attrs)
    return ((),)


# --- memory ---------------------------------------------------------------------------------------------------------


def as_string_memory(memory: KernelMemory) -> None:
    """Strings that need no padding are passed on."""
    if memory.inputs[0].dtype is STRING and memory.attrs["width"] <= 0:
        memory.alias(0, 0)


TABLE: Table = {
    "AsString": Kernel(as_string, unchanged, memory=as_string_memory),
    "StringToNumber": Kernel(string_to_number, unchanged),
    "StringFormat": Kernel(string_format, _infer_string_format),
    "EncodeBase64": Kernel(encode_base64, unchanged),
    "DecodeBase64": Kernel(decode_base64, unchanged),
}
