"""A constant's TensorProto in protobuf's text format; a long text is shortened to its beginning and end."""

from __future__ import annotations

from typing import Any

import numpy as np

from placesim.core.dtypes import STRING
from placesim.core.tensor_fields import Array, has_one_value, is_plain_value, stored_values, value_field
from placesim.ops.attributes import TensorValue

FIRST, LAST = 2000, 300
"""Numbers of characters that a shortened text keeps: at the beginning, and at the end."""
MARKER = "goo.gle/debugproto  "
"""Prefix that keeps programs from parsing protobuf's text. In protobuf, the number of spaces at its end varies by process."""
_BLOCK = 1 << 16
_ESCAPES = {9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 39: "\\'", 92: "\\\\"}
_ESCAPED = [_ESCAPES.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in range(256)]


class ProtoText:
    """A text `before`, followed by the proto of a tensor."""

    def __init__(self, before: str, tensor: TensorValue) -> None:
        array = np.asarray(tensor.array)
        self._head = before + MARKER + "\n" + _shape_text(tensor)
        self._content: Array | None = None
        if tensor.dtype is STRING or is_plain_value(array):
            self._head += _values_text(tensor)
        elif array.size:
            self._head += 'tensor_content: "'
            ordered = array.astype(array.dtype.newbyteorder("<"), copy=False)
            self._content = np.ascontiguousarray(ordered).reshape(-1).view(np.uint8)

    def start(self, count: int) -> str:
        """Return the first `count` characters."""
        if self._content is None:
            return self._head[:count]
        return (self._head + _escaped(self._content[:count]) + ('"\n' if len(self._content) <= count else ""))[:count]

    def shortened(self, after: str) -> str:
        """Return the text followed by `after`; the number of characters left out replaces the middle of a long text."""
        if self._content is None:
            first = last = self._head + after
            length = len(first)
        else:
            # of all bytes at once, numpy would make integers of eight times their size
            blocks = (self._content[start : start + _BLOCK] for start in range(0, len(self._content), _BLOCK))
            counts = sum(np.bincount(block, minlength=256) for block in blocks)
            length = len(self._head) + int(counts @ np.array([len(text) for text in _ESCAPED])) + len('"\n' + after)
            first, last = self.start(FIRST + LAST), _escaped(self._content[-LAST:]) + '"\n' + after
        if length > FIRST + LAST:
            return f"{first[:FIRST]} ...[{length - FIRST - LAST} characters left out]... {last[-LAST:]}"
        return first if self._content is None else first + after


def _escaped(content: Array) -> str:
    return "".join(_ESCAPED[byte] for byte in content.tolist())


def _shape_text(tensor: TensorValue) -> str:
    dims = "".join(f"  dim {{\n    size: {size}\n  }}\n" if size else "  dim {\n  }\n" for size in tensor.array.shape)
    return f"dtype: {tensor.dtype.enum_name}\ntensor_shape {{\n{dims}}}\n"


def _values_text(tensor: TensorValue) -> str:
    """Return a line for each value; a complex value has two."""
    array = np.asarray(tensor.array).reshape(-1)
    if tensor.dtype is STRING:
        given = array[:1] if has_one_value(tensor.array) else array
        texts = [_string_text(value) for value in given.tolist()]
    elif value_field(tensor.dtype).name == "float8_val":
        texts = [f'"{_escaped(np.ascontiguousarray(array[:1]).view(np.uint8))}"']
    else:
        texts = [_number_text(value) for value in stored_values(np.ascontiguousarray(array[:1]), tensor.dtype)]
    name = value_field(tensor.dtype).name
    return "".join(f"{name}: {text}\n" for text in texts)


def _string_text(value: str | bytes) -> str:
    data = value.encode() if isinstance(value, str) else bytes(value)
    return f'"{_escaped(np.frombuffer(data, np.uint8))}"'


def _number_text(value: Any) -> str:
    """Return a number in protobuf's format: with 6 or 15 digits if they suffice, else with 9 or 17."""
    if isinstance(value, np.bool_):
        return "true" if value else "false"
    if not isinstance(value, np.floating):
        return str(int(value))
    few, many = (6, 9) if value.dtype == np.float32 else (15, 17)
    text = f"{value:.{few}g}"
    return text if value.dtype.type(text) == value else f"{value:.{many}g}"
