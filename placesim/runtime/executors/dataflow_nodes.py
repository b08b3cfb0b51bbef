"""Nodes of a program compiled for dataflow execution: each has its readers, and the kind of work to do when it is ready."""

from __future__ import annotations

from collections import Counter

import numpy as np

from placesim.core.dtypes import INT32
from placesim.core.errors import InvalidArgumentError
from placesim.machine.memory.buffers import Buffer
from placesim.ops.categories import (
    ARGUMENTS,
    CONTROL_FLOW,
    ENTERS,
    EXITS,
    MERGES,
    NEXT_ITERATIONS,
    RECEIVES,
    RESULTS,
    SENDS,
    SWITCHES,
)
from placesim.ops.kernels.kernel import is_expensive
from placesim.ops.kernels.memory_rules import TensorMemory
from placesim.runtime.executors.program import Instruction, Program, blame, direct_compute
from placesim.runtime.shapes.loop_frames import find_frames

COMPUTE, ARGUMENT, RESULT, SWITCH, PASS, SEND, RECEIVE = range(7)
"""Kinds of nodes; the kind says what a run does when the node is ready."""
_KINDS = (
    dict.fromkeys(CONTROL_FLOW, PASS)
    | dict.fromkeys((*SWITCHES, "_SwitchN"), SWITCH)
    | dict.fromkeys(SENDS, SEND)
    | dict.fromkeys(RECEIVES, RECEIVE)
    | dict.fromkeys(ARGUMENTS, ARGUMENT)
    | dict.fromkeys(RESULTS, RESULT)
)


class FlowNode:
    """A node compiled for dataflow execution.

    - `readers`: tuples `(node, slot, input position)`; slot and position are -1 for a control edge.
    - `waits`: number of inputs that must arrive before the node is ready; for a `Merge`, only control inputs count.
    - `reader_counts`: number of readers of each output.
    - `more_holders`: each slot that does not have exactly one holder, with the number of holders minus one.
    - `stays`: whether readers get the outputs in the iteration in which the node runs.
    """

    __slots__ = (
        "compute",
        "constant",
        "constant_memory",
        "frame_name",
        "guesses",
        "index",
        "input_count",
        "instruction",
        "is_always_live",
        "is_constant",
        "is_enter",
        "is_exit",
        "is_expensive",
        "is_merge",
        "is_next",
        "kind",
        "more_holders",
        "name",
        "needs_value",
        "positions",
        "program",
        "reader_counts",
        "readers",
        "reads_ref",
        "stays",
        "uses_scratch",
        "waits",
    )

    def __init__(self, program: Program, instruction: Instruction) -> None:
        node = instruction.node
        op = node.op
        self.program = program
        self.instruction = instruction
        self.name = node.name
        self.index = node.id
        self.kind = _KINDS.get(op, COMPUTE)
        self.compute = direct_compute(instruction)
        self.is_expensive = self.kind == COMPUTE and is_expensive(instruction.kernel)
        self.reads_ref = True in instruction.reads_ref
        # TensorFlow passes on a reference only if its variable is initialized, except in a RefSwitch
        definition = node.signature.definition
        takes_unset = definition is not None and definition.allows_uninitialized_input
        self.needs_value = True in node.signature.input_is_ref and not takes_unset
        self.is_merge = op in MERGES
        # a ControlTrigger waits for branches, of which some are not taken
        self.is_always_live = op == "ControlTrigger"
        self.is_enter = op in ENTERS
        self.is_exit = op in EXITS
        self.is_next = op in NEXT_ITERATIONS
        self.stays = not (self.is_enter or self.is_exit or self.is_next)
        guesses = program.state.guesses
        self.guesses = guesses if op == "LoopCond" else None
        self.is_constant = self.is_enter and bool(node.attrs.get("is_constant"))
        self.uses_scratch = not self.is_merge and program.state.device.type != "CPU"
        self.frame_name = str(node.attrs["frame_name"]) if self.is_enter else ""
        self.input_count = len(node.input_nodes)
        # a Merge runs with its first live input, but after all control inputs
        self.waits = len(node.control_inputs) + (0 if self.is_merge else self.input_count)
        self.positions = [
            TensorMemory((), INT32, None, np.array(position, np.int32))
            for position in range(self.input_count if self.is_merge else 0)
        ]
        self.readers: list[tuple[FlowNode, int, int]] = []
        self.reader_counts = [0] * instruction.output_count
        self.more_holders: list[tuple[int, int]] = []
        self.constant: Buffer | None = None
        self.constant_memory: TensorMemory | None = None


class Wiring:
    """The compiled nodes of a program, and for each frame the number of its `Enter` nodes and the list of its `Exit` nodes."""

    def __init__(self, program: Program) -> None:
        self.nodes = [FlowNode(program, instruction) for instruction in program.instructions]
        self.enters = Counter(node.frame_name for node in self.nodes if node.is_enter)
        self.exits: dict[str, list[FlowNode]] = {}
        for node, frame in zip(self.nodes, find_frames(program.graph), strict=True):
            given = node.instruction.node
            for position, (i, slot) in enumerate(zip(given.input_nodes, given.input_slots, strict=True)):
                self.nodes[i].readers.append((node, slot, position))
                self.nodes[i].reader_counts[slot] += 1
            for i in given.control_inputs:
                self.nodes[i].readers.append((node, -1, -1))
            if node.is_exit:
                if frame is None:
                    error = InvalidArgumentError("Invalid Exit op: Cannot find a corresponding Enter op.")
                    raise blame(error, program.graph, given, program.state.device.name)
                self.exits.setdefault(frame.name, []).append(node)
        for node in self.nodes:
            # a frame holds its constants until it ends
            counts = [count + node.is_constant for count in node.reader_counts]
            del counts[1 if node.is_merge else len(counts) :]  # a Merge's second output, the input's number, needs no buffer
            node.more_holders = [(slot, count - 1) for slot, count in enumerate(counts) if count != 1]
