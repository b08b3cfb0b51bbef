"""References between the entries of a graph file: operands, node ids, and checks that need the whole list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, Protocol

from placesim.core.dtypes import RESOURCE
from placesim.core.errors import GraphBuildError
from placesim.formats.graph_file.entries.scoped_names import ScopedNames, UnresolvedName, slot_of
from placesim.formats.graph_file.plain_values import literal
from placesim.formats.problems import ACYCLIC, WRONG, FileProblems, InvalidValue, spell, value_position
from placesim.graph.builder import ScopedGraphBuilder
from placesim.graph.function_writing import output_starts
from placesim.graph.graph import MAX_SLOT_DIGITS, split_tensor_name
from placesim.ops.registry import Registry


class Inputs(NamedTuple):
    """A node's inputs for the builder, and its control inputs.

    An item is an Operand, a VariableNodes or a literal; WRONG if it is invalid, or an UnresolvedName if it is still unknown.
    """

    items: list[Any]
    controls: tuple[int, ...]


class OuterScope(Protocol):
    """Protocol of the scope around the body of a function."""

    def items(self, text: str, reader: str | None, as_handle: bool = False) -> list[Any] | None:
        """Return the tensors and variables that a text such as `x:1` names around the body; None for an unknown name.

        They are captured as inputs of the node `reader`, which takes a variable's handle with `as_handle`, else its value. With
        an empty reader, the items are OuterTensors, which TensorFlow's Python captures later; with None, variables are
        OuterVariables. An invalid entry gives WRONG. Raises GraphBuildError if a node has no such output.
        """

    def has_handle(self, text: str) -> bool:
        """Whether a text names a resource variable, whose value is read at each use."""

    def node_names(self, name: str) -> list[str] | None:
        """Return the full names of the nodes of a name; None for an unknown name or an invalid entry."""

    def wait_for(self, name: str) -> bool:
        """Make calls of the function wait for a node. Returns whether the node exists."""

    def all_names(self) -> Iterator[str]:
        """Yield all names, for suggestions."""


def takes_handle(registry: Registry, op: Any, index: int) -> bool:
    """Whether an op's input with this index is a resource. From a list argument on, inputs are assumed to be values."""
    definition = registry.op(op) if isinstance(op, str) else None
    args = () if definition is None else definition.inputs[: index + 1]
    return (
        len(args) > index and args[index].dtype is RESOURCE and not any(arg.number_attr or arg.type_list_attr for arg in args)
    )


class References:
    """A resolver of references in entries. `settle` reports unresolved ones."""

    def __init__(self, builder: ScopedGraphBuilder, problems: FileProblems, names: ScopedNames) -> None:
        self.builder = builder
        self.problems = problems
        self._names = names
        self._unresolved: list[UnresolvedName] = []
        self.outside: OuterScope | None = None
        self.is_of_function = False
        """Whether the entries are a function's. Tensors may then also have a FunctionDef's notation `node:output_arg:index`."""

    # --- inputs -----------------------------------------------------------------------------------------------------

    def plain_inputs(self, inputs: Any) -> list[int] | None:
        """Return the inputs' node ids if all inputs are first outputs of nodes other than variables, else None."""
        if inputs is None:
            return []
        if not isinstance(inputs, list):
            return None
        look_up = self.builder.graph.ids.get if self._names.is_flat else self._names.resolve_one
        variables = self.builder.variables
        nodes = []
        for text in inputs:
            node_id = look_up(text) if text.__class__ is str else None
            if node_id.__class__ is not int or node_id in variables:
                return None
            nodes.append(node_id)
        return nodes

    def inputs(self, entry: dict[Any, Any], reader: str, waits: list[UnresolvedName]) -> Inputs:
        """Return the inputs of an entry, which the node `reader` reads. Unknown names are added to `waits`."""
        given = entry.get("inputs")
        tree = () if given is None else self.problems.sequence_at(entry, "inputs")
        parts: list[list[Any]] = [[] for _ in tree]
        controls: list[int] = []
        for index in self._in_turn(entry, tree):
            item = tree[index]
            if isinstance(item, str) and item[:1] == "^":
                controls += self._nodes(tree, index, item[1:], reader, waits, self.outside)
            elif isinstance(item, str):
                parts[index] = self.tensors(tree, index, item, reader, waits, self._takes_handle(entry, index))
            else:
                parts[index] = [self.literal(tree, index, item)]
        return Inputs([item for part in parts for item in part], tuple(controls))

    def _in_turn(self, entry: dict[Any, Any], tree: Sequence[Any]) -> Iterable[int]:
        """Return the indices of inputs in the order of Python's evaluation: variables are read before tensors are captured."""
        if self.outside is None:
            return range(len(tree))
        return sorted(range(len(tree)), key=lambda index: not self._is_read(entry, index, tree[index]))

    def _is_read(self, entry: dict[Any, Any], index: int, item: Any) -> bool:
        """Whether an input is the value of a variable outside the body."""
        if not isinstance(item, str) or item[:1] == "^" or self.outside is None or self._names.resolve(item) is not None:
            return False
        return self.outside.has_handle(item) and not self._takes_handle(entry, index)

    def _takes_handle(self, entry: dict[Any, Any], index: int) -> bool:
        return self.outside is not None and takes_handle(self.builder.registry, entry.get("op"), index)

    def literal(self, tree: Any, index: Any, item: Any) -> Any:
        """Return the literal under an index or key; WRONG, after a report, if it is invalid."""
        try:
            if item is None:
                raise InvalidValue("wrong type of an input: got null, expected a reference or a literal")
            return literal(item)
        except InvalidValue as wrong:
            self.problems.add(value_position(tree, index), str(wrong))
            return WRONG

    def tensors(
        self, tree: Any, index: Any, text: str, reader: str | None, waits: list[UnresolvedName], as_handle: bool = False
    ) -> list[Any]:
        """Return the items of `Inputs` for a text at `index` of `tree`. Unknown names are added to `waits`.

        `reader` is the name of the node that has the text as an input. Without it, tensors outside of a body are not captured.
        """
        name, slot = split_tensor_name(text)
        found = self._names.resolve(name)
        if found is None and self.is_of_function:
            name, slot = self._by_output(text) or (name, slot)
            found = self._names.resolve(name)
        if found is None:
            return self._from_outside(tree, index, text, reader, waits, as_handle)
        variables = self.builder.variables
        is_value = name == text
        items: list[Any] = []
        for node_id in found:
            if node_id is None:
                waits.append(self._names.unresolved(value_position(tree, index), text, reader or ""))
                items.append(WRONG)
            elif is_value and node_id in variables:
                items.append(variables[node_id])
            else:
                items.append(self._operand(tree, index, int(node_id), slot_of(node_id) if is_value else slot))
        return items

    def _by_output(self, text: str) -> tuple[str, int] | None:
        """Return the node and slot of `node:output_arg:index`; None if there is no such output."""
        name, _, rest = text.partition(":")
        output, _, index = rest.partition(":")
        node_id = self._names.resolve_one(name)
        if node_id is None or not (index or "0").isdecimal() or len(index) > MAX_SLOT_DIGITS:
            return None
        graph = self.builder.graph
        starts = output_starts(graph, graph.nodes[node_id])
        return (name, starts[output] + int(index or 0)) if output in starts else None

    def _from_outside(
        self, tree: Any, index: Any, text: str, reader: str | None, waits: list[UnresolvedName], as_handle: bool
    ) -> list[Any]:
        """Return the items of a text whose name only the graphs around the body may know."""
        try:
            items = None if self.outside is None else self.outside.items(text, reader, as_handle)
        except GraphBuildError as error:
            self.problems.add(value_position(tree, index), error.message)
            return [WRONG]
        if items is None:
            items = [self._wait_for(value_position(tree, index), text, reader or "")]
            waits += items
        elif any(item is WRONG for item in items):
            waits.append(self._names.unresolved(value_position(tree, index), text, reader or ""))
        return items

    def _operand(self, tree: Any, index: Any, node_id: int, slot: int) -> Any:
        try:
            return self.builder.operand(node_id, slot)
        except GraphBuildError as error:
            self.problems.add(value_position(tree, index), error.message)
            return WRONG

    def input_position(self, entry: dict[Any, Any], index: int, default: int) -> int:
        """Return the position of the text that gives the input with this index; a text may give several inputs."""
        tree = entry.get("inputs")
        for i, item in enumerate(tree or ()):
            is_control = isinstance(item, str) and item[:1] == "^"
            index -= 0 if is_control else max(len(self._look_up(item)), 1)
            if index < 0:
                return value_position(tree, i)
        return value_position(entry, "inputs") if "inputs" in entry else default

    def _look_up(self, item: Any) -> tuple[int | None, ...]:
        return (self._names.resolve(split_tensor_name(item)[0]) or ()) if isinstance(item, str) else ()

    # --- nodes ------------------------------------------------------------------------------------------------------

    def nodes(self, entry: dict[Any, Any], key: str, reader: str, waits: list[UnresolvedName]) -> list[int]:
        """Return the nodes under a key such as `control_inputs`: a name or a list of names."""
        return [
            node
            for tree, index, text in self._texts(entry, key)
            for node in self._nodes(tree, index, text, reader, waits, self.outside)
        ]

    def colocated(self, entry: dict[Any, Any], reader: str, waits: list[UnresolvedName]) -> list[int | str]:
        """Return the nodes under `colocate_with`; a node outside the body is given by its name."""
        found: list[int | str] = []
        for tree, index, text in self._texts(entry, "colocate_with"):
            name = split_tensor_name(text.removeprefix("^"))[0]
            names = None
            if self.outside is not None and self._names.resolve(name) is None:
                names = self.outside.node_names(name)
            found += self._nodes(tree, index, text, reader, waits, None) if names is None else names
        return found

    def _texts(self, entry: dict[Any, Any], key: str) -> Iterator[tuple[Any, Any, str]]:
        """Yield the name or names under a key, each with its container and its key there."""
        tree = entry[key]
        if isinstance(tree, str):
            yield entry, key, tree
            return
        for index, item in enumerate(self.problems.sequence_at(entry, key)):
            if isinstance(item, str):
                yield tree, index, item
            else:
                message = f"wrong type in '{key}': got {spell(item)}, expected a node's name"
                self.problems.add(value_position(tree, index), message)

    def _nodes(
        self, tree: Any, key: Any, text: str, reader: str, waits: list[UnresolvedName], outside: OuterScope | None
    ) -> list[int]:
        found = self._names.resolve(split_tensor_name(text.removeprefix("^"))[0])
        if found is None:
            if outside is None or not outside.wait_for(split_tensor_name(text.removeprefix("^"))[0]):
                waits.append(self._wait_for(value_position(tree, key), text, reader))
            return []
        if None in found:
            waits.append(self._names.unresolved(value_position(tree, key), text, reader))
        return [int(node_id) for node_id in found if node_id is not None]

    # --- checks of the whole list -----------------------------------------------------------------------------------

    def _wait_for(self, position: int, text: str, reader: str) -> UnresolvedName:
        """Record an unknown name, to be looked up again by `settle`."""
        name = text.partition(":")[0] if self.is_of_function and text[:1] != "^" else ""
        unresolved = self._names.unresolved(position, text, reader, name)
        self._unresolved.append(unresolved)
        return unresolved

    def forget(self, waits: list[UnresolvedName]) -> None:
        """Remove unresolved names that another reader handles."""
        self._unresolved = [unresolved for unresolved in self._unresolved if all(unresolved is not wait for wait in waits)]

    def settle(self) -> None:
        """Report unknown names, forward references and cycles."""
        in_cycles: set[str] = set()
        for unresolved in self._unresolved:
            self._settle(unresolved, in_cycles)
        self._unresolved = []

    def _settle(self, unresolved: UnresolvedName, in_cycles: set[str]) -> None:
        if self._names.later_node(unresolved) is not None:
            self.report_later(unresolved)
            return
        path = self._names.broken_path(unresolved)
        if path is None:
            self.report_unknown(unresolved)
        elif not path:
            self.report_later(unresolved)
        elif unresolved.reader not in in_cycles:
            in_cycles.update(path)
            cycle = " -> ".join([*reversed(path), unresolved.reader])
            self.problems.add(unresolved.position, f"cycle: got {cycle}, {ACYCLIC}")

    def report_later(self, unresolved: UnresolvedName) -> None:
        """Report a reference to a node below its reader."""
        expected = "expected a node above (only a Merge may read a NextIteration below)"
        message = f"reference to a later node: got '{unresolved.text}', {expected}"
        self.problems.add(unresolved.position, message)

    def report_unknown(self, unresolved: UnresolvedName) -> None:
        """Report an unknown name."""
        name = split_tensor_name(unresolved.text.removeprefix("^"))[0]
        around = () if self.outside is None else self.outside.all_names()
        near = self.problems.did_you_mean(name, chain(self._names.all_names(), around))
        expected = (
            "an argument, or the name or id of a node of the function" if self.is_of_function else "the name or id of a node"
        )
        message = f"unknown node: got '{unresolved.text}', expected {expected}{near}"
        self.problems.add(unresolved.position, message)


class EntryContext(NamedTuple):
    """Objects shared by the readers of all kinds of entries: the builder, the problems, names and references."""

    builder: ScopedGraphBuilder
    problems: FileProblems
    names: ScopedNames
    references: References
