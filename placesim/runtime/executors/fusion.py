"""Fusion: elementwise ops and softmax after a product or a convolution are computed in the memory of its output.

The work is done in parts that fit into a cache. A kernel that works in blocks applies the ops to each block
(`kernels/blocks/epilogues.py`); for other kernels, they are applied to the whole output afterwards.

The executor finds the ops to fuse when it compiles its steps; graph, placement and order do not change. Each element gets the
same operations in the same order, so results are bit-identical. If a node turns out not to fit (another type, or shapes that
broadcast differently), this node and all after it in the group run separately, with the usual errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from placesim.ops.kernels.blocks.epilogues import Finish, leave, nothing_follows, offer
from placesim.ops.kernels.blocks.work_parts import even_parts, piece, shares
from placesim.ops.kernels.kernel import Trait
from placesim.ops.process.intra_op_threads import spread
from placesim.runtime.executors.program import Instruction, Program

Tensor = np.ndarray[Any, Any]
Step = Callable[[], None]
Apply = Callable[[Tensor, slice], object]
"""Function that applies an op to a part of the flat tensor, given this part and its slice; it has whole rows of channels."""
Find = Callable[[Tensor, list[Any]], Apply | None]
"""Function of a head's output and the store: how a follower is applied; None if the shape or type would change."""

_DTYPES = frozenset((np.dtype(np.float32), np.dtype(np.float64)))
PART_BYTES = 1 << 20
"""Bytes of a part of a tensor, small enough to stay in a processor's cache while all ops of a group are applied."""
SHARED_BYTES = 1 << 22
"""Minimum bytes of a tensor whose parts several threads share; for a smaller one, waking a thread costs more than it saves."""
ROW = 1 << 13
"""Minimum elements of an operand: one row of channels is repeated to this size, so that a ufunc processes several rows."""


class Follower(NamedTuple):
    """A node of a fusion group after its head.

    `side` is the position of the input that the previous node computes. `operand` is the store position of the other input.
    """

    instruction: Instruction
    side: int
    operand: int | None


def find_heads(programs: Sequence[Program], order: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the nodes that may be heads of fusion groups, as pairs of program and node."""
    return [(n, index) for n, index in order if Trait.NEW_MEMORY in programs[n].instructions[index].kernel.traits]


def find_groups(
    programs: Sequence[Program], order: Sequence[tuple[int, int]], heads: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], tuple[Follower, ...]]:
    """Map the head of each fusion group, which is one of `heads`, to the group's other nodes.

    Each follower is the only reader of the node before it, and its other inputs are computed before the head.
    """
    if not heads:
        return {}
    turns: list[dict[int, int]] = [{} for _ in programs]
    for turn, (number, index) in enumerate(order):
        turns[number][index] = turn
    readers = [_only_readers(program) for program in programs]
    found = {}
    for number, index in heads:
        if index not in turns[number]:  # its value is known before a step
            continue
        followers = _followers(programs[number], index, readers[number], turns[number])
        if followers:
            found[number, index] = followers
    return found


def _only_readers(program: Program) -> dict[int, tuple[int, int]]:
    """Return, for each store position with a single reader, the node that reads it, and which input of the node it is."""
    found: dict[int, tuple[int, int]] = {}
    several: set[int] = set()
    for index, instruction in enumerate(program.instructions):
        for side, position in enumerate(instruction.inputs):
            if position in found:
                several.add(position)
            found[position] = index, side
    return {position: reader for position, reader in found.items() if position not in several}


def _followers(program: Program, head: int, readers: dict[int, tuple[int, int]], turns: dict[int, int]) -> tuple[Follower, ...]:
    found: list[Follower] = []
    last = head
    while (reader := readers.get(program.instructions[last].outputs)) is not None:
        index, side = reader
        instruction = program.instructions[index]
        node = instruction.node
        others = {*node.input_nodes, *node.control_inputs} - {last}
        if not _can_follow(instruction, side) or any(turns.get(other, -1) > turns[head] for other in others):
            break
        operand = instruction.inputs[1 - side] if len(instruction.inputs) > 1 else None
        found.append(Follower(instruction, side, operand))
        last = index
    return tuple(found)


def _can_follow(instruction: Instruction, side: int) -> bool:
    node = instruction.node
    if instruction.is_late or True in instruction.reads_ref:
        return False
    if node.op == "BiasAdd":
        return side == 0 and instruction.attrs.get("data_format") != "NCHW"
    return instruction.kernel.in_place is not None


class FusionGroup:
    """A head and its followers in one program, and the state of their current run."""

    def __init__(self, head: Instruction, followers: Sequence[Follower], store: list[Any]) -> None:
        self._head = head.outputs
        self._followers = followers
        self._finders = [_finder(follower) for follower in followers]
        self._store = store
        self._done = 0
        self._begun: Tensor | None = None

    def lead(self, step: Step) -> Step:
        """Return a step that runs the head's `step`, and applies all followers that fit its output."""

        def lead() -> None:
            self._done = 0
            offer(self._begin)
            try:
                step()
            finally:
                offer(nothing_follows)
            value = self._store[self._head]
            if value is not self._begun:
                _finish_all(self._begin(value), value, self._done)
            self._begun = None
            if self._done:
                self._store[self._head] = None
                self._store[self._followers[self._done - 1].instruction.outputs] = value

        return lead

    def follow(self, number: int, step: Step, dropped: Sequence[int]) -> Step:
        """Return a step for follower `number`: it runs `step`, or only releases values if the head has applied the follower."""
        store = self._store

        def follow() -> None:
            if number >= self._done:
                step()
            else:
                for position in dropped:
                    store[position] = None

        return follow

    def _begin(self, output: Any) -> Finish:
        """Find the followers that fit the head's output; return a function that applies them to a slice of rows."""
        applied: list[Apply] = []
        if type(output) is np.ndarray and output.ndim and output.size and output.dtype in _DTYPES and output.flags.carray:
            for find in self._finders:
                apply = find(output, self._store)
                if apply is None:
                    break
                applied.append(apply)
        self._begun, self._done = output, len(applied)
        return partial(_finish, applied, output.reshape(-1), output.shape[-1]) if applied else leave


def _finish(applied: Sequence[Apply], flat: Tensor, channels: int, rows: slice) -> None:
    """Apply all ops, one after the other, to each part of the rows that fits a cache."""
    count = rows.stop - rows.start
    parts = count * channels * flat.itemsize // PART_BYTES
    for some in even_parts(count, parts, rows.start) if parts > 1 else (rows,):
        part = slice(some.start * channels, some.stop * channels)
        mine = flat[part]
        for apply in applied:
            apply(mine, part)


def _finish_all(finish: Finish, value: Tensor, done: int) -> None:
    """Apply the first `done` ops to all rows of a tensor."""
    if not done:
        return
    rows = value.size // value.shape[-1]
    if value.nbytes >= SHARED_BYTES:
        spread(finish, list(even_parts(rows, shares(value.nbytes // PART_BYTES))))
    else:
        finish(slice(0, rows))


def _finder(follower: Follower) -> Find:
    """Return the function that finds how a follower is applied."""
    op = follower.instruction.node.op
    function: Any = follower.instruction.kernel.in_place
    if op == "Softmax":
        return lambda value, store: partial(_along_rows, function, value.shape[-1])
    if follower.operand is not None:
        return partial(_with_operand, function, follower.operand, follower.side == 0, op == "BiasAdd")
    alone = partial(_alone, function)
    return lambda value, store: alone


def _along_rows(function: Callable[..., object], channels: int, mine: Tensor, part: slice) -> None:
    rows = mine.reshape(-1, channels)
    function(rows, out=rows)


def _alone(function: Callable[..., object], mine: Tensor, part: slice) -> None:
    function(mine, out=mine)


def _with_operand(
    ufunc: np.ufunc, position: int, is_first: bool, is_bias: bool, value: Tensor, store: list[Any]
) -> Apply | None:
    """Return a function that applies a ufunc to the output `value` and an operand at this position of the store."""
    operand = store[position]
    if not isinstance(operand, (np.ndarray, np.generic)) or operand.dtype != value.dtype or operand.ndim > value.ndim:
        return None
    channels = value.shape[-1]
    if is_bias and (value.ndim < 2 or operand.shape != (channels,)):
        return None
    if operand.size == 1:
        return partial(_with_number, ufunc, operand.reshape(()), is_first)
    if operand.size == channels and operand.shape[-1:] == (channels,):
        rows = np.empty((piece(value.size // channels, ceil(ROW / channels)), channels), value.dtype)
        rows[...] = operand.reshape(-1)
        return partial(_with_rows, ufunc, rows.reshape(-1), is_first)  # as `np.tile` makes it, in a third of the time
    if operand.shape == value.shape:
        return partial(_with_equal, ufunc, operand.reshape(-1), is_first)  # a copy if the operand is not contiguous
    return None


def _with_number(ufunc: np.ufunc, number: Any, is_first: bool, mine: Tensor, part: slice) -> None:
    _onto(ufunc, mine, number, is_first)


def _with_equal(ufunc: np.ufunc, other: Tensor, is_first: bool, mine: Tensor, part: slice) -> None:
    _onto(ufunc, mine, other[part], is_first)


def _with_rows(ufunc: np.ufunc, rows: Tensor, is_first: bool, mine: Tensor, part: slice) -> None:
    """Apply a ufunc to whole rows and `rows`, which repeats one row with a number for each channel."""
    length = len(rows)
    if rest := len(mine) % length:
        _onto(ufunc, mine[-rest:], rows[:rest], is_first)
        mine = mine[:-rest]
    _onto(ufunc, mine.reshape(-1, length), rows, is_first)


def _onto(ufunc: np.ufunc, mine: Tensor, other: Any, is_first: bool) -> None:
    """Compute a ufunc in the memory of `mine`, which is its first operand if `is_first`."""
    if is_first:
        ufunc(mine, other, out=mine)
    else:
        ufunc(other, mine, out=mine)
