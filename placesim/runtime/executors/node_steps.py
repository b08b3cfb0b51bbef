"""Steps: closures that each run one node of a fixed order, as short as possible.

A step reads and writes positions of its program's store, and releases values that no later node reads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from placesim.ops.categories import ARGUMENTS, CONSTANTS, RECEIVES, RESULTS, SENDS
from placesim.ops.kernels.blocks.constant_layouts import announce
from placesim.runtime.executors.program import (
    NUMBERS,
    Instruction,
    direct_binary,
    is_plain_constant,
    may_exceed,
    missing_argument_error,
    read_variable,
)

MANY = 1 << 62
"""A number larger than any element count; used if the count is unknown."""

Step = Callable[[], None]


class StepCompiler:
    """Compiles the nodes of one program to steps, in the order in which they run.

    `feeds` and `results` have the values of a run by `_Arg` and `_Retval` index; `rendezvous` has values that were sent but not
    yet received.
    """

    def __init__(self, store: list[Any], feeds: dict[int, Any], results: dict[int, Any], rendezvous: dict[Any, Any]) -> None:
        self._store = store
        self._feeds = feeds
        self._results = results
        self._rendezvous = rendezvous
        self._most: dict[int, int] = {}
        self._scalars: dict[int, Any] = {}

    def compile(self, instruction: Instruction, dropped: Sequence[int]) -> Step:
        """Return a function that runs a node and then releases the store positions in `dropped`."""
        store = self._store
        op = instruction.node.op
        few = self._few(instruction)
        if op in SENDS:
            return _send(instruction, store, self._rendezvous, dropped)
        if op in RECEIVES:
            return _receive(instruction, store, self._rendezvous)
        if op in ARGUMENTS:
            return _argument(instruction, store, self._feeds)
        if op in RESULTS:
            return _result(instruction, store, self._results, dropped)
        if op in CONSTANTS and is_plain_constant(instruction):
            return _constant(instruction, store, dropped)
        # such a step calls the numpy function itself; all others go through `compute`
        if instruction.kernel.direct is not None and not any(instruction.reads_ref) and instruction.output_count == 1:
            if len(instruction.inputs) == 2:
                scalar = self._scalars.get(instruction.inputs[1])
                if scalar is not None and len(dropped) <= 1:
                    make_step = _with_scalar if few is None else partial(_with_scalar_checked, few)
                    return make_step(instruction, scalar, store, dropped)
                if few is not None:
                    return _binary_checked(instruction, few, store, dropped)
                return _binary(instruction, store, dropped)
            if len(instruction.inputs) == 1:
                return (
                    _unary_checked(instruction, few, store, dropped) if few is not None else _unary(instruction, store, dropped)
                )
        return _general(instruction, store, dropped)

    def _few(self, instruction: Instruction) -> int | None:
        """Return the largest number of output elements that needs no check; None if the output is known to be small."""
        known, allocation = self._most, instruction.allocation
        if instruction.node.op in CONSTANTS:
            dtype, array = instruction.attrs["value"]
            known[instruction.outputs] = max(1, array.size)
            if dtype in NUMBERS and not array.shape:
                self._scalars[instruction.outputs] = array[()]
        if allocation is None or instruction.kernel.direct is None:
            return None
        most = math.prod([known.get(position, MANY) for position in instruction.inputs])
        if most > allocation.memory.few:
            return allocation.memory.few
        known[instruction.outputs] = most
        return None


def _send(instruction: Instruction, store: list[Any], rendezvous: dict[Any, Any], dropped: Sequence[int]) -> Step:
    source, key, is_last = instruction.inputs[0], instruction.key, bool(dropped)

    def step() -> None:
        rendezvous[key] = read_variable(store[source])
        if is_last:
            store[source] = None

    return step


def _receive(instruction: Instruction, store: list[Any], rendezvous: dict[Any, Any]) -> Step:
    out, key = instruction.outputs, instruction.key

    def step() -> None:
        store[out] = rendezvous.pop(key)

    return step


def _argument(instruction: Instruction, store: list[Any], feeds: dict[int, Any]) -> Step:
    out, index = instruction.outputs, instruction.attrs["index"]

    def step() -> None:
        if index not in feeds:
            raise missing_argument_error(index)
        store[out] = feeds[index]

    return step


def _result(instruction: Instruction, store: list[Any], results: dict[int, Any], dropped: Sequence[int]) -> Step:
    source, index, is_last = instruction.inputs[0], instruction.attrs["index"], bool(dropped)

    def step() -> None:
        results[index] = read_variable(store[source])
        if is_last:
            store[source] = None

    return step


def _constant(instruction: Instruction, store: list[Any], dropped: Sequence[int]) -> Step:
    out, array = instruction.outputs, instruction.attrs["value"].array
    announce(array)

    def step() -> None:
        store[out] = array

    return _then_drop(step, store, dropped)


def _binary(instruction: Instruction, store: list[Any], dropped: Sequence[int]) -> Step:
    function = direct_binary(instruction)
    (one, two), out, compute = instruction.inputs, instruction.outputs, instruction.compute

    def step() -> None:
        try:
            store[out] = function(store[one], store[two])
        except (ValueError, TypeError, ArithmeticError):
            # computed again from the start, so that the error is TensorFlow's
            (store[out],) = compute((store[one], store[two]))

    return _then_drop(step, store, dropped)


def _with_scalar(instruction: Instruction, scalar: Any, store: list[Any], dropped: Sequence[int]) -> Step:
    """Return a step like that of `_binary`, for a constant scalar as second input and at most one released position.

    Long chains of scalar ops spend most time outside the kernel, in calls and in accesses to the store. So this step has no
    call for releasing a value.
    """
    function = direct_binary(instruction)
    (one, two), out, compute = instruction.inputs, instruction.outputs, instruction.compute
    last = dropped[0] if dropped else -1

    def step() -> None:
        try:
            store[out] = function(store[one], scalar)
        except (ValueError, TypeError, ArithmeticError):
            (store[out],) = compute((store[one], store[two]))

    def step_and_drop() -> None:
        try:
            store[out] = function(store[one], scalar)
        except (ValueError, TypeError, ArithmeticError):
            (store[out],) = compute((store[one], store[two]))
        store[last] = None

    return step_and_drop if dropped else step


def _with_scalar_checked(few: int, instruction: Instruction, scalar: Any, store: list[Any], dropped: Sequence[int]) -> Step:
    """Return a step like that of `_with_scalar`, for an output that may have more than `few` elements."""
    function = direct_binary(instruction)
    (one, two), out, compute = instruction.inputs, instruction.outputs, instruction.compute
    last = dropped[0] if dropped else None

    def step() -> None:
        first = store[one]
        try:
            if first.size > few:
                (store[out],) = compute((first, store[two]))
            else:
                store[out] = function(first, scalar)
        except (ValueError, TypeError, ArithmeticError):
            (store[out],) = compute((first, store[two]))
        if last is not None:
            store[last] = None

    return step


def _binary_checked(instruction: Instruction, few: int, store: list[Any], dropped: Sequence[int]) -> Step:
    """Return a step like that of `_binary`, for an output that may have more than `few` elements: `compute` checks its size."""
    function = direct_binary(instruction)
    (one, two), out, compute = instruction.inputs, instruction.outputs, instruction.compute

    def step() -> None:
        first, second = store[one], store[two]
        try:
            if first.size * second.size > few and may_exceed(few, first, second):
                (store[out],) = compute((first, second))
            else:
                store[out] = function(first, second)
        except (ValueError, TypeError, ArithmeticError):
            (store[out],) = compute((first, second))

    return _then_drop(step, store, dropped)


def _unary(instruction: Instruction, store: list[Any], dropped: Sequence[int]) -> Step:
    function: Any = instruction.kernel.direct
    (one,), out, compute = instruction.inputs, instruction.outputs, instruction.compute

    def step() -> None:
        try:
            store[out] = function(store[one])
        except (ValueError, TypeError, ArithmeticError):
            (store[out],) = compute((store[one],))

    return _then_drop(step, store, dropped)


def _unary_checked(instruction: Instruction, few: int, store: list[Any], dropped: Sequence[int]) -> Step:
    """Return a step like that of `_unary`, for an output that may have more than `few` elements: `compute` checks its size."""
    function: Any = instruction.kernel.direct
    (one,), out, compute = instruction.inputs, instruction.outputs, instruction.compute

    def step() -> None:
        value = store[one]
        try:
            (store[out],) = compute((value,)) if value.size > few else (function(value),)
        except (ValueError, TypeError, ArithmeticError):
            (store[out],) = compute((value,))

    return _then_drop(step, store, dropped)


def _general(instruction: Instruction, store: list[Any], dropped: Sequence[int]) -> Step:
    gather, compute = gather_positions(instruction.inputs), instruction.compute
    first, last = instruction.outputs, instruction.outputs + instruction.output_count

    def step() -> None:
        store[first:last] = compute(gather(store))

    return _then_drop(step, store, dropped)


def gather_positions(positions: tuple[int, ...]) -> Callable[[list[Any]], tuple[Any, ...]]:
    """Return a function that returns the values at these positions of a store, as a tuple."""
    if len(positions) > 1:
        return itemgetter(*positions)
    if not positions:
        return lambda store: ()
    (only,) = positions
    return lambda store: (store[only],)


def _then_drop(step: Step, store: list[Any], dropped: Sequence[int]) -> Step:
    if not dropped:
        return step
    if len(dropped) == 1:
        (only,) = dropped

        def drop_one() -> None:
            step()
            store[only] = None

        return drop_one

    def drop() -> None:
        step()
        for position in dropped:
            store[position] = None

    return drop
