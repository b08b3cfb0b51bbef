"""Back edges of the loops in a graph file: a Merge that reads a NextIteration further down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from placesim.formats.graph_file.entries.references import EntryContext
from placesim.formats.graph_file.entries.scoped_names import EntryBreak, UnresolvedName
from placesim.formats.problems import WRONG
from placesim.graph.argument_binding import Operand
from placesim.graph.builder import ScopedGraphBuilder
from placesim.graph.graph import split_tensor_name
from placesim.ops.attributes import Attrs
from placesim.ops.categories import NEXT_ITERATIONS


class NewNode(NamedTuple):
    """The data to make a node. `items` are the items of `Inputs`; `device` is "" if the entry has no device."""

    op: str
    full_name: str
    items: list[Any]
    attrs: Attrs
    controls: tuple[int, ...]
    position: int
    device: Any


class _LoopInput(NamedTuple):
    """An input of the node `merge` that names a later node."""

    merge: int
    input_index: int
    slot: int
    unresolved: UnresolvedName


def add_resolved(builder: ScopedGraphBuilder, new: NewNode, operands: Sequence[Operand]) -> int:
    """Add a node whose inputs all exist, and return its id. Raises GraphBuildError."""
    nodes, slots = tuple(item.node for item in operands), tuple(item.slot for item in operands)
    return builder.add_resolved(new.op, new.full_name, nodes, slots, new.attrs, new.controls, new.position, new.device).id


class Loops:
    """A maker of Merge nodes before their inputs exist. `close` adds the missing inputs."""

    def __init__(self, context: EntryContext) -> None:
        self._builder, self._problems, self._names, self._references = context
        self._inputs: list[_LoopInput] = []

    def add_merge(self, new: NewNode, waits: list[UnresolvedName]) -> int:
        """Add a Merge whose inputs `waits` do not exist yet, and return its id. The other inputs determine its type.

        Raises EntryBreak if no input exists yet, and GraphBuildError for an invalid node.
        """
        known = next((item for item in new.items if isinstance(item, Operand)), None)
        if known is None or any(item is WRONG for item in new.items):
            raise EntryBreak
        self._references.forget(waits)
        # the input from before the loop stands in for the input that does not exist yet, as in TensorFlow's Python
        node = add_resolved(self._builder, new, [item if isinstance(item, Operand) else known for item in new.items])
        for index, item in enumerate(new.items):
            if isinstance(item, UnresolvedName):
                self._inputs.append(_LoopInput(node, index, split_tensor_name(item.text)[1], item))
        return node

    def close(self) -> None:
        """Connect the missing inputs. Reports inputs that still do not exist, and inputs that are no NextIteration."""
        for loop_input in self._inputs:
            self._close(loop_input)
        self._inputs = []

    def _close(self, loop_input: _LoopInput) -> None:
        nodes, unresolved, slot = self._builder.graph.nodes, loop_input.unresolved, loop_input.slot
        source = self._names.later_node(unresolved)
        if source is None:
            self._references.report_unknown(unresolved)
            return
        merge, end, index = nodes[loop_input.merge], nodes[source], loop_input.input_index
        if end.op not in NEXT_ITERATIONS:
            self._references.report_later(unresolved)
            return
        wanted, given = merge.signature.input_dtypes[index], end.signature.output_dtypes
        if slot >= len(given) or given[slot] is not wanted:
            got = given[0].python_name
            message = f"Input 'inputs' of '{merge.op}' Op has type {got} that does not match type {wanted.python_name}."
            self._problems.add(unresolved.position, message, "TypeError")
            return
        merge.input_nodes = (*merge.input_nodes[:index], source, *merge.input_nodes[index + 1 :])
        merge.input_slots = (*merge.input_slots[:index], slot, *merge.input_slots[index + 1 :])
