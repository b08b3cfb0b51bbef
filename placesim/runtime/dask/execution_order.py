"""Nodes that a worker must run in the order of the step, because the order of their effects is visible."""

from __future__ import annotations

from placesim.ops.categories import FUNCTION_ENDS, RECEIVES, SENDS
from placesim.ops.kernels.kernel import uses_context
from placesim.runtime.executors.program import Instruction, Program

_WITHOUT_TURN = frozenset((*FUNCTION_ENDS, *SENDS, *RECEIVES))
"""Ops without visible effects, although TensorFlow marks them as stateful."""


def find_stateful_nodes(program: Program) -> set[int]:
    """Return the ids of nodes whose effects are visible outside: on variables, random generators, files or the console."""
    return {found.node.id for found in program.instructions if found.is_late or _takes_turn(found)}


def _takes_turn(instruction: Instruction) -> bool:
    signature, op = instruction.node.signature, instruction.node.op
    if True in signature.input_is_ref or True in signature.output_is_ref or True in instruction.reads_ref:
        return True
    if op in _WITHOUT_TURN:
        return False
    is_unknown = signature.definition is None  # the op is a function's name
    return is_unknown or signature.is_stateful or uses_context(instruction.kernel)
