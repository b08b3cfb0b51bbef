"""When a kernel may write into a tensor's own memory: where only its variable holds it, and no other op reads it meanwhile.

Large new arrays cost more than the arithmetic that fills them: the system gives each of their pages, zeroed, on first use.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from placesim.dtypes import FLOAT
from placesim.runtime.resources import Variable

_side_by_side: ContextVar[bool] = ContextVar("side by side", default=False)


@contextmanager
def ops_side_by_side() -> Iterator[None]:
    """Within, several ops run at the same time, and one may come to read what another would overwrite."""
    token = _side_by_side.set(True)
    try:
        yield
    finally:
        _side_by_side.reset(token)


def may_overwrite(variable: Variable) -> bool:
    """Whether nobody could tell that the variable's value is changed in place instead of being replaced.

    Fetched values, constants, feeds, views and what is still to be read are all further holders of the memory.  The caller
    must not hold the value itself.
    """
    return (
        type(variable.value) is np.ndarray
        and _references(variable) == _OWN_REFERENCES
        and variable.value.base is None
        and variable.value.flags.carray  # of rows that lie one after the other, and may be written
        and not _side_by_side.get()
    )


def _references(variable: Variable) -> int:
    return sys.getrefcount(variable.value)


_OWN_REFERENCES = _references(Variable("", FLOAT, np.zeros(1, np.float32)))
"""What is counted where only a variable holds its value: interpreters count their own hold on it differently."""
