"""Names of ONNX, which may hold anything, -> names that TensorFlow allows."""

from __future__ import annotations

import re
from typing import Any

from placesim.core.errors import GraphBuildError

_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_./-]")
_SLASHES = re.compile(r"/{2,}")
_NO_START = re.compile(r"^[^A-Za-z0-9.]+")


def check_names(*names: Any) -> None:
    """GraphBuildError for a name that is no text, as protobuf hands one on that is not UTF-8."""
    for name in names:
        if not isinstance(name, str):
            raise GraphBuildError(f"name is not UTF-8: got {bytes(name)!r}")


def scope_name(name: str, otherwise: str) -> str:
    """`/layer1/conv/Conv` -> `layer1/conv/Conv`: what a name may not hold becomes `_`; `otherwise` where nothing is left."""
    kept = _NO_START.sub("", _SLASHES.sub("/", _NOT_ALLOWED.sub("_", name))).rstrip("/")
    return kept or otherwise
