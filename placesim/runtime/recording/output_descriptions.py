"""Descriptions of the outputs of numpy kernels: shape, bytes, address, and the times of allocation and release."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np

from placesim.core.dtypes import DataType
from placesim.graph.graph import Node
from placesim.ops.kernels import has_trait
from placesim.ops.kernels.device_resources import VariableResource
from placesim.ops.kernels.kernel import Trait
from placesim.ops.process.memory_limit import tensor_bytes


class Allocation:
    """A buffer that a kernel allocated: its bytes, and the times in ns of its allocation and its release (None before that)."""

    __slots__ = ("__weakref__", "freed", "made", "size")

    def __init__(self, size: int, made: int) -> None:
        self.size = size
        self.made = made
        self.freed: int | None = None

    def follow(self, array: Any) -> None:
        """Record the time when numpy frees the array's buffer, after all views of it are gone."""
        while isinstance(array, np.ndarray) and array.base is not None:
            array = array.base
        if isinstance(array, np.ndarray):  # a numpy scalar has no weak references
            weakref.finalize(array, self._note).atexit = False

    def _note(self) -> None:
        self.freed = perf_counter_ns()


class OutputRecord(NamedTuple):
    """One output of a kernel's run; `allocation` is None if the output is in a buffer that existed before."""

    slot: int
    dtype: DataType
    shape: tuple[int, ...]
    size: int
    address: int
    allocation: Allocation | None


def describe(node: Node, inputs: Sequence[Any], outputs: Sequence[Any], made: int) -> tuple[OutputRecord, ...]:
    """Describe the outputs of a run that finished at time `made`; resources, and variables without a value, are left out."""
    found: list[OutputRecord] = []
    hands_on = has_trait(node.op, Trait.HANDS_ON)
    given = [value for value in map(_array_of, inputs) if value is not None]
    for slot, value in enumerate(outputs):
        array = _array_of(value)
        if array is None:
            continue
        dtype = node.signature.output_dtypes[slot]
        size = tensor_bytes(array.shape, dtype)
        allocation = None
        if not hands_on and size and not any(np.may_share_memory(array, one) for one in given):
            allocation = Allocation(size, made)
            allocation.follow(array)
        address = array.__array_interface__["data"][0]
        found.append(OutputRecord(slot, dtype, array.shape, size, address, allocation))
    return tuple(found)


def _array_of(value: Any) -> Any:
    if isinstance(value, VariableResource):
        value = value.value
    return value if isinstance(value, (np.ndarray, np.generic)) else None
