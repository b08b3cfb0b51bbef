"""Readers of functions whose bodies are entries like `nodes`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from placesim.core.dtypes import DataType, OpenType
from placesim.core.errors import GraphBuildError
from placesim.formats.graph_file.entries.entries import ENTRY_KEYS, Entries
from placesim.formats.graph_file.entries.limits import EntryLimits
from placesim.formats.graph_file.entries.raw_nodes import RAW_KEYS
from placesim.formats.graph_file.plain_values import dtype_value, shape_value, text_value
from placesim.formats.problems import WRONG, FileProblems, InvalidValue, key_position, own_position, spell, value_position
from placesim.graph.argument_binding import Operand
from placesim.graph.builder import ScopedGraphBuilder
from placesim.graph.function_writing import AttrListError, write_function
from placesim.graph.graph import Graph, LibraryFunction, TensorRef
from placesim.ops.attributes import UNKNOWN_RANK, Attrs, Shape
from placesim.ops.registry import Registry

_MOST_DIGITS = 10
_ENTRY_KEYS = frozenset(key for keys in ENTRY_KEYS.values() for key in keys) - RAW_KEYS
"""Keys of entries that a NodeDef does not have."""
_HAS_STATE = "it outside of functions: a function has no variables, only handles passed to it"
_REFUSED = {"variable": _HAS_STATE, "initializer": _HAS_STATE, "train": _HAS_STATE}
_OPEN = "arguments with 'type' around it, as its own functions have fixed types"
_REFUSED_IF_OPEN = _REFUSED | dict.fromkeys(("cond", "while", "gradients"), _OPEN)


class Argument(NamedTuple):
    """An argument of a function: name, type, known shape in the body, and position."""

    name: str
    dtype: DataType | None
    shape: Shape
    position: int


class _Item(NamedTuple):
    """An item of `inputs` or `outputs`: name, description and position, and the container and key of its text."""

    name: Any
    what: Any
    position: int
    holder: Any
    key: Any


def is_of_entries(tree: Mapping[Any, Any]) -> bool:
    """Whether the body of a function has entries, as in a graph, and not NodeDefs.

    The key `raw` decides if it is given. Without it, a body has entries if its `inputs` or `outputs` are a mapping or names, if
    an entry has keys that a NodeDef lacks, or if an input or output is only a node's name.
    """
    if isinstance(tree.get("raw"), bool):
        return not tree["raw"]
    inputs, outputs, nodes = tree.get("inputs", ()), tree.get("outputs", ()), tree.get("nodes", ())
    if any(isinstance(part, dict | str) for part in (inputs, outputs, nodes)) or _has_text(inputs) or _has_text(outputs):
        return True
    entries = [entry for entry in _items(nodes) if isinstance(entry, dict)]
    if any(_is_no_node_def(entry) for entry in entries):
        return True
    names = {entry.get("name") for entry in entries if isinstance(entry.get("name"), str)}
    names -= {arg.get("name") for arg in _items(inputs) if isinstance(arg, dict) and isinstance(arg.get("name"), str)}
    given = [arg.get("value") for arg in _items(outputs) if isinstance(arg, dict)]
    texts = [*given, *(text for entry in entries for text in _items(entry.get("inputs")))]
    return any(_node_alone(text) in names for text in texts if isinstance(text, str))


def _items(tree: Any) -> list[Any]:
    return list(tree) if isinstance(tree, list | tuple) else []


def _has_text(tree: Any) -> bool:
    return any(isinstance(item, str) for item in _items(tree))


def _is_no_node_def(entry: Mapping[Any, Any]) -> bool:
    """Whether an entry has keys or inputs that a NodeDef can't have."""
    if not _ENTRY_KEYS.isdisjoint(key for key in entry if isinstance(key, str)) or "name" not in entry:
        return True
    inputs = entry.get("inputs", ())
    return isinstance(inputs, str) or any(not isinstance(text, str) for text in _items(inputs))


def _node_alone(text: str) -> str:
    """Return the node of a tensor `x` or `x:1`; empty for the notation of a FunctionDef, such as `x:output:0` and `^x`."""
    name, _, slot = text.partition(":")
    return name if not slot or slot.isdecimal() else ""


def find_called_names(tree: Any) -> Iterator[str]:
    """Yield the texts under `op` and `func` in a body, which may be names of called functions."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key in ("op", "func") and isinstance(value, str):
                yield value
            else:
                yield from find_called_names(value)
    elif isinstance(tree, list | tuple):
        for item in tree:
            yield from find_called_names(item)


def argument_type(name: str, what: Any, open_types: dict[str, OpenType]) -> DataType:
    """Return the type of an argument from `float`, `{type: float}` or `{type_attr: T}`. Raises InvalidValue."""
    if isinstance(what, str):
        return dtype_value(what)
    if not isinstance(what, dict):
        raise InvalidValue(f"wrong type of an argument: got {spell(what)}, expected the name of one: {{{name}: float}}")
    if "type_attr" in what:
        attr = text_value(what["type_attr"], "'type_attr'")
        return open_types.setdefault(attr, OpenType(attr))
    if "type" not in what:
        raise InvalidValue(f"no type of '{name}': got nothing, expected 'type' or 'type_attr', or inputs: {{{name}: float}}")
    return dtype_value(what["type"])


def function_builder(
    file: ScopedGraphBuilder, inputs: Mapping[str, Any]
) -> tuple[ScopedGraphBuilder, dict[int, str], dict[str, OpenType]]:
    """Return a builder for a function made in Python, its arguments' names by node, and the types that depend on the call.

    `inputs` has the arguments as in a graph file. Raises InvalidValue and GraphBuildError.
    """
    builder = _body_builder(file.registry, {}, file.graph.file, file.last_number)
    open_types: dict[str, OpenType] = {}
    nodes: dict[int, str] = {}
    for name, what in inputs.items():
        shape = shape_value(what["shape"]) if isinstance(what, dict) and "shape" in what else UNKNOWN_RANK
        attrs: Attrs = {"dtype": argument_type(name, what, open_types), "shape": shape}
        nodes[builder.add("Placeholder", name=name, attrs=attrs).id] = name
    return builder, nodes, open_types


def _body_builder(registry: Registry, called: Mapping[str, LibraryFunction], file: str, last_number: int) -> ScopedGraphBuilder:
    builder = ScopedGraphBuilder(registry, called, file)
    builder.is_of_function, builder.last_number = True, last_number
    return builder


def write_body_function(
    graph: Graph,
    name: str,
    arguments: Mapping[int, str],
    results: Sequence[tuple[str, TensorRef]],
    controls: Mapping[str, int],
    attrs: Attrs,
) -> LibraryFunction:
    """Return a body's graph as a function, as `write_function` does; mark the function as stateful if an op has state."""
    if any(node.signature.is_stateful for node in graph.nodes):
        from placesim.formats.tensorflow.function_def import stateful_attrs

        attrs = {**stateful_attrs(True), **attrs}
    return write_function(graph, name, arguments, results, controls, attrs)


class FunctionEntries:
    """A reader of functions, one after another; called functions must come first.

    `library` has the functions read so far. The functions of conditionals and loops in a body are added to it. `broken` has the
    names of invalid functions, whose problems have been reported. `last_number` is the last number in a generated name.
    """

    def __init__(
        self, registry: Registry, problems: FileProblems, library: dict[str, LibraryFunction], leaves_marks: bool = False
    ) -> None:
        self._registry = registry
        self._problems = problems
        self._library = library
        self.broken: set[str] = set()
        self.last_number = _last_number(library)
        self._leaves_marks = leaves_marks

    # --- arguments --------------------------------------------------------------------------------------------------

    def _arguments(self, tree: dict[Any, Any]) -> list[Argument]:
        """Return the arguments of a function. An invalid argument is reported, and its type is None."""
        found: list[Argument] = []
        open_types: dict[str, OpenType] = {}
        for item in self._listed(tree, "inputs", ("type", "type_attr", "shape")):
            name, dtype, shape = item.name, None, UNKNOWN_RANK
            try:
                name = text_value(item.name, "an argument's name")
                if any(name == other.name for other in found):
                    raise InvalidValue(f"duplicate argument: got '{name}' again, expected it once")
                if isinstance(item.what, dict) and "shape" in item.what:
                    shape = shape_value(item.what["shape"])
                dtype = argument_type(name, item.what, open_types)
            except InvalidValue as wrong:
                self._problems.add(item.position, str(wrong))
            found.append(Argument(name, dtype, shape, item.position))
        return found

    def _listed(self, tree: dict[Any, Any], key: str, known: tuple[str, ...]) -> Iterator[_Item]:
        """Yield the items of `inputs` or `outputs`: a mapping by name, a name, or a list of names and mappings with `name`."""
        given = tree.get(key, ())
        if isinstance(given, dict):
            for name, what in given.items():
                if isinstance(what, dict):
                    self._problems.unknown_keys(what, known, f"an entry of '{key}'")
                yield _Item(name, what, key_position(given, name), given, name)
            return
        if isinstance(given, str):
            yield _Item(given, {}, value_position(tree, key), tree, key)
            return
        listed = self._problems.sequence(given, value_position(tree, key) if key in tree else 0, f"'{key}'")
        for index, item in enumerate(listed):
            position = value_position(listed, index)
            if isinstance(item, str):
                yield _Item(item, {}, position, listed, index)
            elif self._problems.mapping(item, position, f"an entry of '{key}'") is item:
                self._problems.unknown_keys(item, ("name", *known), f"an entry of '{key}'")
                yield _Item(item.get("name"), item, position, item, "value" if "value" in item else "name")

    # --- bodies -----------------------------------------------------------------------------------------------------

    def read(self, tree: dict[Any, Any], name: str, attrs: Attrs) -> LibraryFunction | None:
        """Return the function that a mapping under `functions` describes; None if it is invalid, after a report."""
        before = len(self._problems)
        arguments = self._arguments(tree)
        # a FunctionDef needs the types of the results of functions that it calls
        called = {each: self._library[each] for each in find_called_names(tree.get("nodes")) if each in self._library}
        builder = _body_builder(self._registry, called, self._problems.file, self.last_number)
        builder.leaves_marks = self._leaves_marks
        entries, nodes = self._opened(builder, arguments)
        position = value_position(tree, "nodes") if "nodes" in tree else own_position(tree)
        entries.take_body(tree.get("nodes", ()), position, {})
        results = self._results(tree, name, entries)
        controls = self._controls(tree, entries)
        entries.finish()
        self.last_number = builder.last_number
        if len(self._problems) > before:
            return None
        graph = builder.graph
        for added, function in graph.functions.items():
            self._library.setdefault(added, function)
        try:
            return write_body_function(graph, name, nodes, results, controls, attrs)
        except AttrListError as error:
            self._problems.add_error(error.position or own_position(tree), error)
            return None

    def _opened(self, builder: ScopedGraphBuilder, arguments: list[Argument]) -> tuple[Entries, dict[int, str]]:
        """Add a body's arguments. Returns the reader of its entries, and the arguments' names by node."""
        open_types = {argument.dtype.attr: argument.dtype for argument in arguments if isinstance(argument.dtype, OpenType)}
        limits = EntryLimits(_REFUSED_IF_OPEN if open_types else _REFUSED, self._library, self.broken, open_types)
        entries = Entries(builder, self._problems, limits=limits)
        nodes: dict[int, str] = {}
        for argument in arguments:
            if argument.dtype is None:
                entries.note_broken(argument.name)
                continue
            attrs: Attrs = {"dtype": argument.dtype, "shape": argument.shape}
            try:
                made = builder.add("Placeholder", name=argument.name, attrs=attrs, location=argument.position)
            except GraphBuildError as error:
                self._problems.add_error(argument.position, error)
                entries.note_broken(argument.name)
                continue
            nodes[made.id] = argument.name
            entries.note_argument(made.id)
        return entries, nodes

    def _results(self, tree: dict[Any, Any], name: str, entries: Entries) -> list[tuple[str, TensorRef]]:
        """Return the results of the function, each with its name."""
        found: dict[str, TensorRef] = {}
        for item in self._listed(tree, "outputs", ("type", "type_attr", "value")):
            output = item.name
            if not isinstance(output, str) or not output:
                self._problems.add(item.position, f"no name of an output: got {spell(output)}, expected a string")
                continue
            text = item.holder[item.key]
            if output in found:
                self._problems.add(item.position, f"duplicate output: got '{output}' again, expected it once")
            if not isinstance(text, str):
                message = f"wrong type of output '{output}': got {spell(text)}, expected the name or id of a node"
                self._problems.add(value_position(item.holder, item.key), message)
                continue
            given = entries.result(name, item.holder, item.key, text)
            if isinstance(given, Operand):
                found[output] = TensorRef(given.node, given.slot)
                self._check_type(item, output, given.dtype)
        return list(found.items())

    def _check_type(self, item: _Item, output: str, dtype: DataType) -> None:
        """Report a result whose type differs from the declared one."""
        if not isinstance(item.what, dict):
            return
        for key in ("type", "type_attr"):
            if key not in item.what:
                continue
            said = self._problems.read(item.what, key, dtype_value if key == "type" else str, None)
            if said is not WRONG and said is not dtype and said != getattr(dtype, "attr", None):
                shown_type = said if isinstance(said, str) else said.name
                message = f"wrong type of output '{output}': got {shown_type}, expected {dtype.name}, the type of its node"
                self._problems.add(value_position(item.what, key), message)

    def _controls(self, tree: dict[Any, Any], entries: Entries) -> dict[str, int]:
        """Return the nodes of `control_outputs`, which run with every call, by name."""
        given = tree.get("control_outputs", ())
        if not isinstance(given, dict):
            return entries.awaited(tree, "control_outputs") if "control_outputs" in tree else {}
        found: dict[str, int] = {}
        for name, text in given.items():
            if isinstance(name, str) and isinstance(text, str):
                found |= dict.fromkeys((name,), *entries.awaited(given, name).values())
            else:
                message = f"wrong type of a control output: got {spell(text)}, expected a node's name"
                self._problems.add(key_position(given, name), message)
        return found


def _last_number(names: Iterable[str]) -> int:
    """Return the largest number at the end of a name; -1 if there is none."""
    ends = [name.rpartition("_")[2] for name in names]
    return max((int(end) for end in ends if end.isascii() and end.isdecimal() and len(end) < _MOST_DIGITS), default=-1)
