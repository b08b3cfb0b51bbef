"""Ownership of a tensor's memory.

A kernel may overwrite memory if only its variable holds it, and no other op reads it at the same time. A step's results must
have no other holder, since their receiver may write into them. Large new arrays cost more than the arithmetic that fills them,
because the system provides and zeroes each page on first use.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from placesim.core.dtypes import FLOAT
from placesim.ops.kernels.device_resources import VariableResource
from placesim.ops.process.memory_limit import ProcessMemory

_side_by_side: ContextVar[bool] = ContextVar("side by side", default=False)


@contextmanager
def ops_side_by_side() -> Iterator[None]:
    """Return a context in which several ops run at once, so that one may read a buffer that another would overwrite."""
    token = _side_by_side.set(True)
    try:
        yield
    finally:
        _side_by_side.reset(token)


def may_overwrite(variable: VariableResource) -> bool:
    """Whether the variable's value may be changed in place, because nothing else refers to its memory.

    Fetched values, constants, feeds, views and pending reads are such references. The caller must not hold a reference either.
    """
    return (
        type(variable.value) is np.ndarray
        and _references(variable) == _OWN_REFERENCES
        and variable.value.base is None
        and variable.value.flags.carray  # contiguous and writable
        and not _side_by_side.get()
    )


def _references(variable: VariableResource) -> int:
    return sys.getrefcount(variable.value)


_OWN_REFERENCES = _references(VariableResource("", FLOAT, np.zeros(1, np.float32)))
"""Reference count of a value that only a variable holds; it differs between Python interpreters."""


def own_all(results: MutableMapping[int, Any], memory: ProcessMemory) -> None:
    """Copy arrays whose memory is shared with a constant, variable, feed or kept value.

    An array without room for a copy becomes read-only.
    """
    for index in results:
        if _is_held_elsewhere(results, index):
            value = results[index]
            if memory.has_room(value.nbytes):
                results[index] = value.copy()
            else:
                results[index] = value.view()
                results[index].flags.writeable = False


def _is_held_elsewhere(results: MutableMapping[int, Any], index: int) -> bool:
    value = results[index]
    if type(value) is not np.ndarray:
        return False
    if sys.getrefcount(value) > _RESULT_REFERENCES:
        return True
    base = value.base
    return base is not None and sys.getrefcount(base) > _BASE_REFERENCES


def _count_result(results: MutableMapping[int, Any], index: int) -> tuple[int, int]:
    """Return two reference counts inside a function: of an array that only `results` holds, and of the array's base."""
    value = results[index]
    held = sys.getrefcount(value)
    base = value.base
    return held, sys.getrefcount(base)


_RESULT_REFERENCES, _BASE_REFERENCES = _count_result({0: np.zeros(2)[:1]}, 0)
