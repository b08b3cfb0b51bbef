"""Separation of the content of large tensors from a model's bytes, as views, so that `onnx` does not copy it.

A tensor without its content has `data_location: EXTERNAL`, and the number of its view under the key LIFTED. Source of the field
numbers: `onnx.proto`.
"""

from __future__ import annotations

from typing import NamedTuple

from placesim.core.protobuf_wire import BYTES, field_head, fields, message_field, number_field

LIFTED = "placesim:lifted"
"""Key of `external_data` with the number of a view."""
_LARGE_BYTES = 1024
"""Size in bytes below which a tensor's content stays in the model's bytes."""
_RAW, _FLOATS, _DOUBLES = 9, 4, 10
_EXTERNAL_DATA, _DATA_LOCATION = 13, 14
_CONTENT = (_RAW, _FLOATS, _DOUBLES)
"""Fields of a TensorProto that hold its elements as numpy does."""
_PARTS = {
    "ModelProto": {7: "GraphProto", 25: "FunctionProto"},
    "GraphProto": {1: "NodeProto", 5: "TensorProto"},
    "FunctionProto": {7: "NodeProto"},
    "NodeProto": {5: "AttributeProto"},
    "AttributeProto": {5: "TensorProto", 6: "GraphProto", 10: "TensorProto", 11: "GraphProto"},
}
"""Messages that can contain tensors, by field number."""
_MOST_NESTED = 100
"""Maximum depth of nested messages, as in protobuf's parser."""


class WeightsExtract(NamedTuple):
    """A ModelProto's bytes without the content of large tensors, and that content."""

    rest: bytes
    views: list[memoryview]


def lift_weights(data: bytes) -> WeightsExtract:
    """Separate the content of large tensors from a ModelProto. Raises WireError for invalid bytes."""
    views: list[memoryview] = []
    return WeightsExtract(b"".join(_without(memoryview(data), 0, len(data), "ModelProto", views, 0)), views)


def _without(
    data: memoryview, start: int, end: int, message: str, views: list[memoryview], depth: int
) -> list[bytes | memoryview]:
    """Return the bytes of a message without the content of large tensors, in pieces. The content is added to `views`."""
    if message == "TensorProto":
        return _tensor(data, start, end, views)
    parts = _PARTS[message]
    pieces: list[bytes | memoryview] = []
    kept_from = start
    for field in fields(data, start, end):
        part = parts.get(field.number)
        if part is None or field.wire_type != BYTES or field.end - field.value_start < _LARGE_BYTES or depth > _MOST_NESTED:
            continue
        inner = _without(data, field.value_start, field.end, part, views, depth + 1)
        pieces += (data[kept_from : field.start], field_head(field.number, sum(map(len, inner))), *inner)
        kept_from = field.end
    pieces.append(data[kept_from:end])
    return pieces


def _tensor(data: memoryview, start: int, end: int, views: list[memoryview]) -> list[bytes | memoryview]:
    pieces: list[bytes | memoryview] = []
    lifted: list[bytes] = []
    kept_from = start
    for field in fields(data, start, end):
        if field.number in _CONTENT and field.wire_type == BYTES and field.end - field.value_start >= _LARGE_BYTES:
            entry = message_field(1, LIFTED.encode()) + message_field(2, str(len(views)).encode())
            lifted += (message_field(_EXTERNAL_DATA, entry), number_field(_DATA_LOCATION, 1))
            pieces.append(data[kept_from : field.start])
            views.append(data[field.value_start : field.end])
            kept_from = field.end
    # last in the message, because the last `data_location` counts, and some writers add `DEFAULT` behind the content
    return [*pieces, data[kept_from:end], *lifted]
