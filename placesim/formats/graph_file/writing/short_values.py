"""Writer of values as short text that reads back as the same tensor, device or scalar."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np

from placesim.core.dtypes import BOOL, FLOAT, INT32, STRING
from placesim.formats.graph_file.parsing.yaml_tree import resolve_plain
from placesim.formats.graph_file.writing.raw_writer import shortest, tensor_document
from placesim.formats.graph_file.writing.yaml_line import yaml_line
from placesim.ops.attributes import TensorValue

_TYPES_OF_LITERALS = (FLOAT, INT32, BOOL, STRING)
"""Types that literals have without a `dtype`."""
MOST_NESTED = 64
"""Maximum number of elements of a tensor that is written as nested lists; larger tensors are flat."""
_PLAIN = re.compile(r"/[A-Za-z0-9_/:*.-]*[A-Za-z0-9*]|[A-Za-z_][A-Za-z0-9_./-]*")


def short_tensor(tensor: TensorValue) -> dict[str, Any]:
    """Return `value`, and `dtype` and `shape` if the value does not imply them."""
    written = tensor_document(tensor)
    value = literal_of(tensor)
    if value is not None:
        return {"value": value} if tensor.dtype in _TYPES_OF_LITERALS else {"value": value, "dtype": written["dtype"]}
    if tensor.dtype is FLOAT:
        written["value"] = shortest(written["value"])
    short = {"value": written["value"], "shape": written["shape"]}
    is_known = tensor.dtype in _TYPES_OF_LITERALS and tensor.array.size > 0 and not _has_words(written["value"])
    return short if is_known else {**short, "dtype": written["dtype"]}


def literal_of(tensor: TensorValue) -> Any:
    """Return a tensor as nested lists, without its type; None if it is large or has no such form."""
    dtype, array = tensor
    if not 0 < array.size <= MOST_NESTED or dtype.is_complex:
        return None
    if array.size > 1 and array.ndim and _is_filled(array):
        return None
    if dtype is STRING:
        with suppress(UnicodeDecodeError):
            return _decoded(array.tolist())
        return None
    if dtype.is_floating:
        values = array.astype(np.float64)
        if not np.isfinite(values).all():
            return None
        return shortest(array.tolist()) if dtype is FLOAT else values.tolist()
    return array.tolist() if dtype is BOOL or dtype.is_integer else None


def fill_of(tensor: TensorValue) -> Any:
    """Return the common value of all elements as a literal; None if they differ."""
    dtype, array = tensor
    if not array.size or not _is_filled(array):
        return None
    return literal_of(TensorValue(dtype, array.reshape(-1)[:1].reshape(())))


def _is_filled(array: np.ndarray[Any, Any]) -> bool:
    flat = array.reshape(-1)
    if array.dtype == object:
        return all(item == flat[0] for item in flat.tolist())
    return flat.tobytes() == flat[:1].tobytes() * array.size


def _decoded(value: Any) -> Any:
    return list(map(_decoded, value)) if isinstance(value, list) else value.decode()


def _has_words(value: Any) -> bool:
    """Whether a value has numbers written as words (`nan`), which imply no type, or bytes written as a mapping."""
    return any(map(_has_words, value)) if isinstance(value, list) else isinstance(value, str | dict)


def short_device(device: str) -> str:
    """Return a device in the short form: `/job:ps/cpu:0` for `/job:ps/device:CPU:0`."""
    return re.sub(r"/device:(CPU|GPU):", lambda found: f"/{found[1].lower()}:", device)


# --- text -----------------------------------------------------------------------------------------------------------


def flow_text(value: Any) -> str:
    """Return a value as one line of YAML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow_text(key)}: {flow_text(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(flow_text, value)) + "]"
    return _scalar(value.__class__, value, str(value) if isinstance(value, float) else "")


@lru_cache(maxsize=65536)
def _scalar(kind: type, value: Any, spelled: str) -> str:
    """Return the text of a scalar. `kind` and `spelled` keep equal values apart in the cache: 1 and True, 0.0 and -0.0."""
    text = yaml_line([value])[1:-1]
    is_quoted = kind is str and text[:1] in "'\""
    return str(value) if is_quoted and _PLAIN.fullmatch(value) and resolve_plain(value) == value else text
