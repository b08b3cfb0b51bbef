"""Matrix products with few rows and the same right operand: left operands that exist early are multiplied in one product.

BLAS rearranges the right operand for each product, which takes as long as a product with few rows. An unrolled recurrent layer
multiplies `x_t`, or `x_t` concatenated with `h_t`, by the same matrix in each time step. All `x_t` exist before the first time
step, so they become the rows of one tall product. Each time step then multiplies only `h_t`, by the matrix's last rows, and
adds the two results. The order of additions changes, so results differ by rounding.

The executor finds shared operands when it compiles its steps. A product that turns out not to fit (types, shapes, many rows,
too little memory) is computed by its own node, with its own errors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from placesim.ops.categories import CONSTANTS, VARIABLE_READS
from placesim.ops.kernels.blocks.constant_layouts import announce
from placesim.ops.kernels.linalg.products import product
from placesim.runtime.executors.program import Instruction, Program

Tensor = np.ndarray[Any, Any]
Step = Callable[[], None]

THIN_ROWS = 128
"""Maximum rows of a product that is combined with others; with more rows, BLAS spends little of its time on rearranging."""
TALL_ROWS = 512
"""Number of rows at which no further rows join a product: BLAS has reached its full rate, and results take memory."""
LARGE_OPERAND = 1 << 14
"""Minimum number of elements of a right operand; with fewer, the overhead of calls dominates."""
_DTYPES = frozenset((np.dtype(np.float32), np.dtype(np.float64)))


class Side(NamedTuple):
    """The first parts of a left operand or, with `is_end`, the last ones, as store positions."""

    parts: tuple[int, ...]
    is_end: bool


class ThinProduct(NamedTuple):
    """A product whose left operand, or a part of it, is available early.

    `joining` is the ConcatV2 that makes the left operand, if the product is its only reader. `parts` are the inputs of the
    ConcatV2, or the left operand alone. `begin` has the early parts at the start of the left operand, and `end` the early parts
    at its end.
    """

    instruction: Instruction
    joining: Instruction | None
    parts: tuple[int, ...]
    begin: Side
    end: Side

    @property
    def sides(self) -> Iterator[Side]:
        """The sides that have early parts."""
        return (side for side in (self.begin, self.end) if side.parts)


def find_sharing(programs: Sequence[Program], order: Sequence[tuple[int, int]]) -> list[tuple[int, list[ThinProduct]]]:
    """Return groups of products that share a right operand: for each, the program's number and the products in execution order.

    The right operand is one tensor, or a variable that each product reads. A left operand is early if it is computed before the
    group's first product.
    """
    by_operand: dict[Any, list[int]] = {}
    for number, index in order:
        program = programs[number]
        instruction = program.instructions[index]
        if instruction.node.op == "MatMul" and _may_share(instruction):
            by_operand.setdefault((number, *_right_operand(program, instruction)), []).append(index)
    groups = [(number, indices) for (number, *_), indices in by_operand.items() if len(indices) > 1]
    if not groups:
        return []
    turns = {pair: turn for turn, pair in enumerate(order)}
    found = []
    for number, indices in groups:
        program = programs[number]
        readers = Counter(position for instruction in program.instructions for position in instruction.inputs)
        mine = {index: turns[number, index] for index in range(len(program.instructions)) if (number, index) in turns}
        products = [_thin_product(program, index, readers, mine, mine[indices[0]]) for index in indices]
        early = [thin for thin in products if any(thin.sides)]
        if len(early) > 1:
            found.append((number, early))
    return found


def _right_operand(program: Program, instruction: Instruction) -> tuple[int, bool, bool]:
    """Return the key of a right operand: its store position, whether it is read from a variable, and whether it is transposed.

    A layer reads its variable again in each time step, and gets the same tensor if the variable was not assigned in between.
    The position is then that of the variable.
    """
    reader = program.instructions[instruction.node.input_nodes[1]]
    reads = reader.node.op in VARIABLE_READS and not reader.is_late
    return (reader if reads else instruction).inputs[0 if reads else 1], reads, instruction.attrs["transpose_b"]


def _may_share(instruction: Instruction) -> bool:
    return not (instruction.is_late or True in instruction.reads_ref or instruction.attrs["transpose_a"])


def _thin_product(
    program: Program, index: int, readers: Mapping[int, int], turns: Mapping[int, int], first: int
) -> ThinProduct:
    """Return a product, with the parts of its left operand that are computed before `first`, the turn of the first product.

    `readers` counts the readers of each store position; `turns` has the turn of each node in the order.
    """
    instruction = program.instructions[index]
    left = program.instructions[instruction.node.input_nodes[0]]
    is_joined = left.node.id in turns and _joins_columns(program, left) and readers[left.outputs] == 1
    joining, reader = (left, left) if is_joined else (None, instruction)
    count = len(left.inputs) - 1 if is_joined else 1
    parts, sources = reader.inputs[:count], reader.node.input_nodes[:count]
    late = [number for number, source in enumerate(sources) if turns.get(source, -1) >= first]
    begin, end = (late[0], late[-1] + 1) if late else (len(parts), len(parts))
    return ThinProduct(instruction, joining, parts, Side(parts[:begin], False), Side(parts[end:], True))


def _joins_columns(program: Program, instruction: Instruction) -> bool:
    """Whether an instruction is a ConcatV2 along the second axis, provided that its inputs are matrices."""
    if instruction.node.op != "ConcatV2" or instruction.is_late or True in instruction.reads_ref:
        return False
    axis = program.instructions[instruction.node.input_nodes[-1]]
    return axis.node.op in CONSTANTS and axis.attrs["value"].array.shape == () and int(axis.attrs["value"].array) in (1, -1)


class ConcatParts(NamedTuple):
    """Value in the store in place of a ConcatV2's output: the matrices that it would concatenate along the columns."""

    parts: tuple[Tensor, ...]


class EarlyProducts(NamedTuple):
    """Value in the store: the right operand, the products of early parts that are not yet used, and the rows for late parts.

    The rows are by their first row and their number.
    """

    operand: Tensor
    products: dict[Side, Tensor]
    rows: dict[tuple[int, int], Tensor]


class SharedOperand:
    """Products with a common right operand; the program's store keeps their early results until the step ends."""

    def __init__(self, products: Sequence[ThinProduct], program: Program, store: list[Any]) -> None:
        self._products = products
        self._memory = program.state.memory
        self._store = store
        self._early = len(store)
        store.append(None)
        self._last = {side: number for number, thin in enumerate(products) for side in thin.sides}

    def join(self, number: int, step: Step, dropped: Sequence[int]) -> Step:
        """Return a step for the ConcatV2 of a product. It keeps the parts separate if they fit; otherwise it runs `step`."""
        thin, store = self._products[number], self._store
        assert thin.joining is not None
        output = thin.joining.outputs

        def join() -> None:
            parts = tuple([store[position] for position in thin.parts])
            if self._fits(parts, self._operand(number)):
                store[output] = ConcatParts(parts)
                _drop(store, dropped)
            else:
                step()

        return join

    def multiply(self, number: int, step: Step, dropped: Sequence[int]) -> Step:
        """Return a step for a product, which uses early results if the operands fit, and else runs `step`."""
        instruction, store = self._products[number].instruction, self._store
        left, output = instruction.inputs[0], instruction.outputs

        def multiply() -> None:
            parts, operand = self._parts(number), self._operand(number)
            if self._fits(parts, operand):
                store[output] = self._product(number, parts, operand)
                _drop(store, dropped)
            else:
                if isinstance(store[left], ConcatParts):
                    store[left] = np.concatenate(parts, 1)
                step()
            if number == len(self._products) - 1:
                store[self._early] = None

        return multiply

    def _operand(self, number: int) -> Any:
        """Return the right operand of a product; if it is a matrix, in the form `[k, n]`."""
        instruction = self._products[number].instruction
        value = self._store[instruction.inputs[1]]
        return value.T if instruction.attrs["transpose_b"] and isinstance(value, np.ndarray) else value

    def _parts(self, number: int) -> tuple[Any, ...]:
        """Return the parts of a product's left operand; empty if its ConcatV2 has concatenated them."""
        thin, store = self._products[number], self._store
        left = store[thin.instruction.inputs[0]]
        if isinstance(left, ConcatParts):
            return left.parts
        return tuple([store[position] for position in thin.parts]) if thin.joining is None or left is None else ()

    def _fits(self, parts: Sequence[Any], operand: Any) -> bool:
        """Whether the parts form a left operand with few rows, the right operand is large, and there is enough memory."""
        if not _are_columns(parts, operand) or operand.size < LARGE_OPERAND:
            return False
        rows = len(parts[0])
        if rows > THIN_ROWS or sum(part.shape[1] for part in parts) != len(operand):
            return False
        return self._memory.has_room((rows + TALL_ROWS + THIN_ROWS) * operand.shape[1] * operand.itemsize)

    def _product(self, number: int, parts: Sequence[Tensor], operand: Tensor) -> Tensor:
        thin = self._products[number]
        begin, end = len(thin.begin.parts), len(parts) - len(thin.end.parts)
        value: Tensor | None = None
        if begin < end:
            start = sum(part.shape[1] for part in parts[:begin])
            late = _joined(parts[begin:end])
            value = product(late, self._rows(number, operand, start, late.shape[1]))
        for side in thin.sides:
            early = self._early_product(side, number, operand)
            value = early.copy() if value is None else np.add(value, early, out=value)
        assert value is not None  # each part is either early or late
        return value

    def _held(self, number: int) -> EarlyProducts:
        held: EarlyProducts | None = self._store[self._early]
        value = self._store[self._products[number].instruction.inputs[1]]
        if held is None or held.operand is not value:  # the variable has been assigned since
            held = self._store[self._early] = EarlyProducts(value, {}, {})
        return held

    def _rows(self, number: int, operand: Tensor, start: int, count: int) -> Tensor:
        """Return some rows of the right operand, which stay the same for the products of a step."""
        rows = self._held(number).rows
        if (start, count) not in rows:
            rows[start, count] = operand[start : start + count]
            announce(rows[start, count])
        return rows[start, count]

    def _early_product(self, side: Side, number: int, operand: Tensor) -> Tensor:
        """Return the product of one side's early parts. The same call multiplies the early parts of later products."""
        found = self._held(number).products
        if side not in found:
            blocks = self._blocks(side, number, operand, found)
            width = blocks[side].shape[1]
            rows = operand[len(operand) - width :] if side.is_end else operand[:width]
            tall = product(blocks[side] if len(blocks) == 1 else np.concatenate(list(blocks.values())), rows)
            ends = accumulate(map(len, blocks.values()))
            found.update((mine, tall[end - len(block) : end]) for (mine, block), end in zip(blocks.items(), ends, strict=True))
        return found[side] if self._last[side] > number else found.pop(side)

    def _blocks(self, side: Side, number: int, operand: Tensor, found: Mapping[Side, Tensor]) -> dict[Side, Tensor]:
        """Map sides to their early parts: of this product, and of later ones with equal width, up to TALL_ROWS rows in all."""
        blocks: dict[Side, Tensor] = {}
        rows = 0
        for other in range(number, len(self._products)):
            mine = self._products[other].end if side.is_end else self._products[other].begin
            parts = self._parts(other)
            parts = parts[len(parts) - len(mine.parts) :] if side.is_end else parts[: len(mine.parts)]
            if mine in found or mine in blocks or not _are_columns(parts, operand) or len(parts[0]) > THIN_ROWS:
                continue
            block = _joined(parts)
            if not blocks or block.shape[1] == blocks[side].shape[1]:
                blocks[mine] = block
                rows += len(block)
            if rows >= TALL_ROWS:
                break
        return blocks


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else np.concatenate(parts, 1)


def _are_columns(parts: Sequence[Any], right: Any) -> bool:
    """Whether the parts are matrices with equally many rows, and the right operand is a matrix of the same type."""
    if not isinstance(right, np.ndarray) or right.ndim != 2 or right.dtype not in _DTYPES or not parts:
        return False
    if not all(isinstance(part, np.ndarray) and part.ndim == 2 and part.dtype == right.dtype for part in parts):
        return False
    return all(len(part) == len(parts[0]) for part in parts)


def _drop(store: list[Any], positions: Sequence[int]) -> None:
    for position in positions:
        store[position] = None
