"""String tensors: arrays of objects, each the bytes of one string."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placesim.ops.kernels.kernel import Tensor
from placesim.ops.process.memory_limit import check_text_of


def raw(text: str | bytes) -> bytes:
    """Return the bytes of a string attr, which may be given as text."""
    return text.encode() if isinstance(text, str) else text


def string_array(values: Sequence[bytes], shape: Sequence[int]) -> Tensor:
    """Return a string tensor with these strings; `shape` must have the same number of elements."""
    # from a list of bytes numpy would make fixed-width strings, which lose NULs at their ends
    array = np.empty(len(values), object)
    array[:] = values
    return array.reshape(tuple(shape))


def flat_strings(tensor: Any) -> list[bytes]:
    """Return the strings of a tensor in row order."""
    found: list[bytes] = np.asarray(tensor, object).reshape(-1).tolist()
    return found


def map_strings(function: Callable[[bytes], bytes], tensor: Any) -> Tensor:
    """Apply a function to every string. Raises AllocationRefusal if there is no room for another copy of the strings."""
    texts = flat_strings(tensor)
    check_text_of(texts)
    return string_array(list(map(function, texts)), np.shape(tensor))
