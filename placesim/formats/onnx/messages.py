"""The optional package `onnx`, and the parser of a model's bytes."""

from __future__ import annotations

from typing import Any

from placesim.core.errors import GraphFileError, Location, Problem, UsageError

Message = Any


def import_onnx() -> Any:
    """Import the package. Raises UsageError if it is not installed."""
    try:
        import onnx
    except ImportError as error:
        raise UsageError(f"cannot read an ONNX model: {error}; install it with pip install 'placesim[onnx]'") from None
    return onnx


def parse_model(data: bytes, name: str) -> Message:
    """Parse a ModelProto. Raises GraphFileError for invalid bytes."""
    onnx = import_onnx()
    from google.protobuf.message import DecodeError

    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, RuntimeError, RecursionError) as error:
        raise GraphFileError((Problem(Location(name, 0, 0), f"invalid ONNX model: {error}"),)) from None
    return model
