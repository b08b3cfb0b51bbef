"""Constant folding, if requested: an executor computes nodes that depend only on constants before its first step.

Without it, only constants, and identities of them, have their values before: this takes no computing.

Graph, placement, order and memory accounts do not change. The same kernels compute the values, so results are bit-identical. As
in TensorFlow's constant folding, a node with control inputs is folded too; these inputs still run before the node's readers.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from placesim.core.dtypes import DOUBLE, FLOAT, RESOURCE, VARIANT
from placesim.core.errors import OpError, PlacesimError
from placesim.ops.categories import CONSTANTS, CONTROL_FLOW, IDENTITIES, RECEIVES, SENDS
from placesim.ops.kernels.kernel import uses_context
from placesim.ops.kernels.shapes import broadcasted
from placesim.runtime.executors.program import Instruction, Program, is_plain_constant

LARGEST_BYTES = 10 << 20
"""Maximum size of a node's outputs, unless its inputs are as large.

Found by experiment with TensorFlow 2.21, with both of its optimizers enabled.
"""


SMALL_SIZE = 1 << 13
"""Maximum elements of an output of `small_from_known`."""
_FLOATS = ((FLOAT,), (DOUBLE,))


class KnownNodes(NamedTuple):
    """Nodes whose outputs are known before a step, as pairs of program and id, and the programs' stores with these outputs."""

    nodes: frozenset[tuple[int, int]]
    stores: list[list[Any]]

    def outputs(self, number: int, instruction: Instruction) -> list[Any]:
        """Return the outputs of one of the nodes, of program `number`."""
        return self.stores[number][instruction.outputs : instruction.outputs + instruction.output_count]


def fold(programs: Sequence[Program]) -> KnownNodes | None:
    """Compute nodes that depend only on constants; return None if folding is off or an observer must see each node run.

    A node that fails is not folded: it fails again when the step runs it.
    """
    states = [program.state for program in programs]
    if not states or not all(state.folds and not state.is_watched for state in states):
        return None
    return _ConstantFolder(programs).run()


def known_values(programs: Sequence[Program], order: Sequence[tuple[int, int]]) -> KnownNodes | None:
    """Return the constants and the identities of constants, without computing anything; None if an observer must see them.

    `order` is the order in which the nodes run, as pairs of program and id.
    """
    if any(program.state.is_watched for program in programs):
        return None
    stores: list[list[Any]] = [[None] * program.store_size for program in programs]
    known: set[tuple[int, int]] = set()
    for number, index in order:
        instruction = programs[number].instructions[index]
        node = instruction.node
        if node.op in CONSTANTS and is_plain_constant(instruction):
            stores[number][instruction.outputs] = instruction.attrs["value"].array
        elif node.op in IDENTITIES and (number, node.input_nodes[0]) in known:
            stores[number][instruction.outputs] = stores[number][instruction.inputs[0]]
        else:
            continue
        known.add((number, index))
    return KnownNodes(frozenset(known), stores)


def small_from_known(programs: Sequence[Program], order: Sequence[tuple[int, int]], known: KnownNodes) -> list[tuple[int, int]]:
    """Return the nodes that compute small tensors of floats, element by element, from known values or each other.

    If they run first, larger ops that read their outputs can be fused with the op before them. None of them can fail, so the
    order does not decide the error of a step.
    """
    shapes = [{at: np.shape(value) for at, value in enumerate(store) if _is_small_float(value)} for store in known.stores]
    found = []
    for number, index in order:
        instruction, ours = programs[number].instructions[index], shapes[number]
        node, positions = instruction.node, set(instruction.inputs)
        if instruction.kernel.direct is None or not positions or not ours.keys() >= positions:
            continue
        read = {ours[position] for position in positions}
        if node.control_inputs or node.signature.output_dtypes not in _FLOATS or (number, index) in known.nodes:
            continue
        (shape, *others) = sorted(read, key=lambda dims: (math.prod(dims), len(dims)), reverse=True)
        if not others or (instruction.kernel.shape is broadcasted and all(math.prod(dims) == 1 for dims in others)):
            ours[instruction.outputs] = shape
            found.append((number, index))
    return found


class _ConstantFolder:
    """Computes all nodes whose inputs are known, beginning with the constants."""

    def __init__(self, programs: Sequence[Program]) -> None:
        self._programs = programs
        self._stores: list[list[Any]] = [[None] * program.store_size for program in programs]
        self._missing = [[len(instruction.inputs) for instruction in program.instructions] for program in programs]
        self._readers = [_readers(program) for program in programs]
        self._receives = {
            instruction.key: (number, index)
            for number, program in enumerate(programs)
            for index, instruction in enumerate(program.instructions)
            if instruction.node.op in RECEIVES
        }
        self._done: set[tuple[int, int]] = set()

    def run(self) -> KnownNodes:
        ready = deque(
            (number, index)
            for number, program in enumerate(self._programs)
            for index, instruction in enumerate(program.instructions)
            if instruction.node.op in CONSTANTS
        )
        while ready:
            number, index = ready.popleft()
            instruction, missing = self._programs[number].instructions[index], self._missing[number]
            if instruction.node.op in SENDS:
                ready.extend(self._sent(number, instruction))
            elif instruction.node.op not in RECEIVES and not self._computed(number, instruction):
                continue
            self._done.add((number, index))
            for reader in self._readers[number][index]:
                missing[reader] -= 1
                if not missing[reader] and self._may_follow(self._programs[number].instructions[reader]):
                    ready.append((number, reader))
        return KnownNodes(frozenset(self._done), self._stores)

    def _may_follow(self, instruction: Instruction) -> bool:
        """Whether a node can be folded: it has no side effects, and always the same outputs for the same inputs."""
        if instruction.node.op in SENDS:
            # a receive in another process cannot be folded here
            return instruction.key in self._receives
        return _is_pure(instruction)

    def _sent(self, number: int, instruction: Instruction) -> tuple[tuple[int, int]]:
        """Copy the value of a folded send to its receive, and return the receive's program and index."""
        to, index = self._receives[instruction.key]
        self._stores[to][self._programs[to].instructions[index].outputs] = self._stores[number][instruction.inputs[0]]
        return ((to, index),)

    def _computed(self, number: int, instruction: Instruction) -> bool:
        """Compute a node's outputs; return whether it succeeded and the outputs are small enough."""
        store = self._stores[number]
        given = [store[position] for position in instruction.inputs]
        try:
            outputs = instruction.compute(given)
        except Exception as error:
            if isinstance(error, PlacesimError) and not isinstance(error, OpError):
                raise  # an error of the command, such as an interrupt, not of the node
            return False
        size = _bytes(outputs)
        # the session would keep a large output of a Fill or Tile, although its inputs are small
        if instruction.node.op not in CONSTANTS and size > LARGEST_BYTES and size > _bytes(given):
            return False
        store[instruction.outputs : instruction.outputs + instruction.output_count] = outputs
        return True


def _readers(program: Program) -> list[list[int]]:
    """Return for each node the nodes that read its data; a node appears once for each such input."""
    found: list[list[int]] = [[] for _ in program.instructions]
    for index, instruction in enumerate(program.instructions):
        for source in instruction.node.input_nodes:
            found[source].append(index)
    return found


def _is_pure(instruction: Instruction) -> bool:
    node, kernel = instruction.node, instruction.kernel
    signature = node.signature
    return (
        signature.definition is not None  # else the op is a function's name
        # a random op gives other values in each step
        and not signature.is_stateful
        and instruction.output_count > 0
        and node.op not in CONTROL_FLOW
        and not uses_context(kernel)
        and not kernel.may_wait
        and not instruction.is_late
        and RESOURCE not in signature.output_dtypes
        and VARIANT not in signature.output_dtypes
    )


def _is_small_float(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic) and value.size <= SMALL_SIZE and value.dtype in (np.float32, np.float64)


def _bytes(values: Sequence[Any]) -> int:
    return sum(value.nbytes for value in values if isinstance(value, np.ndarray | np.generic))


def constant_compute(outputs: Sequence[Any]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return a function that replaces the `compute` of a folded node."""
    return lambda values: outputs
