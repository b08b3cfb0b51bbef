"""Layouts of constants: a kernel arranges a constant operand once, and later steps use the same arrangement.

An executor names the constants (`announce`); an arrangement is kept as long as its constant exists.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import NamedTuple
from weakref import ref

from placesim.ops.kernels.kernel import Tensor
from placesim.ops.process.memory_limit import current_memory

LEAST_SIZE = 1 << 10
"""Minimum elements of a constant whose arrangements are kept."""


class _Constant(NamedTuple):
    """A weak reference to a constant, and its arrangements by their names."""

    array: ref[Tensor]
    arrangements: dict[Hashable, Tensor]


_constants: dict[int, _Constant] = {}
"""The announced constants, by the `id` of their arrays."""


def announce(array: Tensor) -> None:
    """Let kernels keep arrangements of an array whose elements never change."""
    if array.size >= LEAST_SIZE and array.ndim > 1 and not array.dtype.hasobject and id(array) not in _constants:
        _constants[id(array)] = _Constant(ref(array, partial(_forget, id(array))), {})


def _forget(key: int, _: object) -> None:
    _constants.pop(key, None)


def is_constant(operand: Tensor) -> bool:
    """Whether an operand is an announced constant, or all of one in another shape."""
    return _constant_of(operand) is not None


def arranged(operand: Tensor, name: Hashable, arrange: Callable[[Tensor], Tensor]) -> Tensor:
    """Return `arrange(operand)`, which must not be written to; of a constant it is kept if there is room for it.

    `name` tells this arrangement from others of the same shape.
    """
    constant = _constant_of(operand)
    if constant is None:
        return arrange(operand)
    key = (name, operand.shape)
    found = constant.arrangements.get(key)
    if found is None:
        found = arrange(operand)
        if current_memory().has_room(found.nbytes):
            constant.arrangements[key] = found
    return found


def _constant_of(operand: Tensor) -> _Constant | None:
    found = _constants.get(id(operand))
    if found is None and operand.base is not None and operand.flags.c_contiguous:
        found, base = _constants.get(id(operand.base)), operand.base
        # in another order, equal shapes would not mean equal elements
        if found is not None and not (base.size == operand.size and base.flags.c_contiguous):
            return None
    return found
