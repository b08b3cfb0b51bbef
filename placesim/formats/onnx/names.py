"""Conversion of ONNX's names, which may have any characters, to names that TensorFlow allows."""

from __future__ import annotations

import re
from typing import Any

from placesim.core.errors import GraphBuildError

_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_./-]")
_SLASHES = re.compile(r"/{2,}")
_NO_START = re.compile(r"^[^A-Za-z0-9.]+")


def check_names(*names: Any) -> None:
    """Raise GraphBuildError for a name that is not text (protobuf passes invalid UTF-8 on as bytes)."""
    for name in names:
        if not isinstance(name, str):
            raise GraphBuildError(f"name is not UTF-8: got {bytes(name)!r}")


def scope_name(name: str, otherwise: str) -> str:
    """Return a valid name such as `layer1/conv_1` for `/layer1/conv:1`; `otherwise` if no valid character is left."""
    return _NO_START.sub("", _SLASHES.sub("/", _NOT_ALLOWED.sub("_", name))).rstrip("/") or otherwise
