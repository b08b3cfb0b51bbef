"""Readers of the entries `cond` and `while`, which expand to functions and nodes.

`node_makers` provides the maker of these nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from placesim.core.errors import GraphBuildError
from placesim.formats.graph_file.entries.node_makers import FunctionMaker, Writer, make_functions
from placesim.formats.graph_file.entries.references import EntryContext
from placesim.formats.graph_file.entries.scope_entries import ScopeEntries
from placesim.formats.graph_file.entries.scoped_names import (
    EntryBreak,
    NodeOutput,
    ScopedNames,
    Targets,
    UnresolvedName,
    slot_of,
)
from placesim.formats.graph_file.plain_values import int_value, shape_value
from placesim.formats.problems import WRONG, key_position, own_position, spell, value_position
from placesim.graph.argument_binding import Operand, VariableNodes
from placesim.graph.graph import TensorRef, split_tensor_name

COMMON_KEYS = ("id", "name", "device", "colocate_with", "control_inputs")
"""Keys that entries for conditionals, loops and training have, besides the key of their kind."""
CONDITIONAL_KEYS = ("cond", *COMMON_KEYS)
LOOP_KEYS = ("while", *COMMON_KEYS)
COND_KEYS = ("if", "then", "else", "outputs")
_OPTIONS = ("maximum_iterations", "parallel_iterations")
WHILE_KEYS = ("loop_vars", "cond", "body", "shape_invariants", *_OPTIONS)
OP_ITSELF = -1
"""Slot of a TensorRef for a node without outputs."""
_INT32_MAX = (1 << 31) - 1

_Texts = list[tuple[Any, Any, str]]
"""Texts, each with its container and key."""


class Level(NamedTuple):
    """The enclosing graph of a body whose entries are being read. `around` is the next enclosing graph, if any."""

    names: ScopedNames
    functions: FunctionMaker
    counter: ScopeEntries
    around: Level | None

    def find(self, name: str) -> tuple[Level, Targets] | None:
        """Return the nodes of a name, with the innermost level that has them; None for an unknown name."""
        found = self.names.resolve(name)
        if found is not None:
            return self, found
        return None if self.around is None else self.around.find(name)


class OuterTensor(NamedTuple):
    """A tensor of an enclosing graph."""

    functions: FunctionMaker
    tensor: TensorRef


class OuterVariable(NamedTuple):
    """A variable of an enclosing graph."""

    functions: FunctionMaker
    variable: VariableNodes


class Surroundings:
    """The graphs around a body, as an `OuterScope`. Tensors from there become arguments of the body."""

    def __init__(self, functions: FunctionMaker, around: Level) -> None:
        self._functions = functions
        self._around = around

    def has_handle(self, text: str) -> bool:
        found = self._around.find(text)
        if found is None:
            return False
        level, targets = found
        variables = level.functions.builder.variables
        return any(node in variables and variables[node].kind == "resource" for node in targets if node is not None)

    def items(self, text: str, reader: str | None, as_handle: bool = False) -> list[Any] | None:
        name, slot = split_tensor_name(text)
        found = self._around.find(name)
        if found is None:
            return None
        level, targets = found
        return [WRONG if node is None else self._item(level, node, slot, name == text, reader, as_handle) for node in targets]

    def node_names(self, name: str) -> list[str] | None:
        found = self._around.find(name)
        if found is None or None in found[1]:
            return None
        level, targets = found
        return [level.functions.builder.graph.nodes[int(node)].name for node in targets if node is not None]

    def _item(self, level: Level, node: int, slot: int, is_alone: bool, reader: str | None, as_handle: bool) -> Any:
        variable = level.functions.builder.variables.get(int(node)) if is_alone else None
        item = variable or TensorRef(int(node), slot_of(node) if is_alone else slot)
        return capture_outer(self._functions, level.functions, item, reader, as_handle)

    def wait_for(self, name: str) -> bool:
        found = self._around.find(name)
        if found is None:
            return False
        level, targets = found
        for node in targets:
            if node is not None:
                self._functions.wait_for(level.functions, int(node))
        return True

    def all_names(self) -> Iterator[str]:
        level: Level | None = self._around
        while level is not None:
            yield from level.names.all_names()
            level = level.around


def capture_outer(
    functions: FunctionMaker,
    outside: FunctionMaker,
    item: VariableNodes | TensorRef,
    reader: str | None,
    as_handle: bool = False,
) -> Any:
    """Capture a tensor or variable of the graph of `outside` in a body. `reader` is as in `OuterScope.items`."""
    prefix = reader + "/" if reader else ""
    if isinstance(item, VariableNodes):
        if reader is None:
            return OuterVariable(outside, item)
        if item.kind == "resource":
            # a body captures the handle of a resource variable, and reads the variable inside (12.2)
            inside = prefix if as_handle else prefix + "ReadVariableOp/"
            return item._replace(node=functions.capture(outside, TensorRef(item.node, 0), inside))
        # a reference cannot enter a function, so the body gets the value that `v/read` gives (12.1)
        item = TensorRef(item.value, 0)
    outside.builder.operand(*item)
    if not reader:
        return OuterTensor(outside, item)
    return functions.builder.operand(functions.capture(outside, item, prefix), 0)


class BodyEntryReader(Protocol):
    """Protocol of a reader of the entries of one body."""

    def take_body(self, entries: Any, position: int, arguments: Mapping[str, int]) -> None:
        """Read a body's entries, with names for its arguments."""

    def result(self, body: str, tree: Any, key: Any, text: str) -> Any:
        """Return the tensor or variable that is a result of `body`, such as 'then'; WRONG, after a report, if there is none."""

    @property
    def last(self) -> list[TensorRef]:
        """Return the outputs of the last entry."""

    def finish(self) -> None:
        """Report problems that need all entries."""


class BodyEntries:
    """A reader of `cond` and `while` entries, which binds the names of their results."""

    def __init__(
        self,
        context: EntryContext,
        scopes: ScopeEntries,
        open_body: Callable[[FunctionMaker, Level], BodyEntryReader],
        functions: FunctionMaker | None,
        around: Level | None,
    ) -> None:
        self._builder, self._problems, self._names, self._references = context
        self._scopes = scopes
        self._open_body = open_body
        self._made = functions
        self._around = around

    @property
    def _functions(self) -> FunctionMaker:
        if self._made is None:
            self._made = make_functions(self._builder)
        return self._made

    def take(self, entry: dict[Any, Any]) -> list[TensorRef]:
        """Read an entry with `cond` or `while`, and return its results. Raises EntryBreak after reporting all problems."""
        return self._take_cond(entry) if "cond" in entry else self._take_while(entry)

    def add_initializer(self, name: str, position: int) -> int:
        """Add a node of a body that waits for the initializers of all outer variables. Raises GraphBuildError."""
        return self._functions.initialize(name, position)

    # --- cond -------------------------------------------------------------------------------------------------------

    def _take_cond(self, entry: dict[Any, Any]) -> list[TensorRef]:
        before, waits = len(self._problems), list[UnresolvedName]()
        name, tree = self._head(entry, "cond", COND_KEYS)
        outputs = self._outputs(tree)
        for key in ("if", "then", "else"):
            if key not in tree and (key == "if" or outputs is None) and isinstance(entry["cond"], dict):
                way_out = ", or 'outputs'" if key != "if" else ""
                self._problems.add(own_position(tree), f"no '{key}' in 'cond': got no such key, expected it{way_out}")
        pred = self._item(tree, "if", waits)
        bound = [text for _, _, text in outputs or ()]
        if len(self._problems) > before or waits:
            raise self._refused(entry, bound, waits)
        then, otherwise = (self._writer(tree, key, outputs) for key in ("then", "else"))
        position = own_position(entry)
        results = self._built(entry, bound, lambda: self._functions.cond(pred, then, otherwise, name, position))
        self._bind(entry, bound, results)
        return results

    def _outputs(self, tree: dict[Any, Any]) -> _Texts | None:
        """Return the names of the results of both branches; None if the last entry is the result."""
        if "outputs" not in tree:
            return None
        given = tree["outputs"]
        if isinstance(given, str):
            return [(tree, "outputs", given)]
        listed = self._problems.sequence(given, value_position(tree, "outputs"), "'outputs'")
        for index, text in enumerate(listed):
            if not isinstance(text, str):
                message = f"wrong type in 'outputs': got {spell(text)}, expected a name defined in both branches"
                self._problems.add(value_position(listed, index), message)
        return [(listed, index, text) for index, text in enumerate(listed) if isinstance(text, str)]

    # --- while ------------------------------------------------------------------------------------------------------

    def _take_while(self, entry: dict[Any, Any]) -> list[TensorRef]:
        before, waits = len(self._problems), list[UnresolvedName]()
        name, tree = self._head(entry, "while", WHILE_KEYS)
        for key in ("loop_vars", "cond", "body"):
            if key not in tree and isinstance(entry["while"], dict):
                self._problems.add(own_position(tree), f"no '{key}' in 'while': got no such key, expected it")
        variables = self._loop_vars(tree)
        firsts = [self._item(variables, key, waits) for key in variables]
        bound = [key for key in variables if isinstance(key, str)]
        shapes = self._invariants(tree, bound)
        options = {key: self._option(tree, key, waits) for key in _OPTIONS if key in tree}
        if len(self._problems) > before or waits:
            raise self._refused(entry, bound, waits)
        cond = self._writer(tree, "cond", None, bound)
        # the names of the loop variables are also the names of the results in the body
        body = self._writer(tree, "body", [(variables, key, key) for key in bound], bound)
        position = own_position(entry)
        results = self._built(
            entry, bound, lambda: self._functions.while_loop(cond, body, firsts, shapes, options, name, position)
        )
        self._bind(entry, bound, results)
        return results

    def _loop_vars(self, tree: dict[Any, Any]) -> dict[Any, Any]:
        if "loop_vars" not in tree:
            return {}
        position = value_position(tree, "loop_vars")
        variables = self._problems.mapping(tree["loop_vars"], position, "'loop_vars'")
        if not variables and isinstance(tree["loop_vars"], dict):
            self._problems.add(position, "no loop variables: got an empty mapping, expected {NAME: FIRST VALUE}")
        for key in variables:
            if not isinstance(key, str) or not key:
                message = f"no name of a loop variable: got {spell(key)}, expected a string"
                self._problems.add(key_position(variables, key), message)
        return variables

    def _option(self, tree: dict[Any, Any], key: str, waits: list[UnresolvedName]) -> Any:
        if key == "maximum_iterations" and isinstance(tree[key], str):
            return self._item(tree, key, waits)
        return self._problems.read(tree, key, lambda value: int_value(value, 1, _INT32_MAX, f"'{key}'"), None)

    def _invariants(self, tree: dict[Any, Any], names: Sequence[str]) -> dict[int, tuple[int, ...] | None]:
        if "shape_invariants" not in tree:
            return {}
        position = value_position(tree, "shape_invariants")
        given = self._problems.mapping(tree["shape_invariants"], position, "'shape_invariants'")
        self._problems.unknown_keys(given, names, "'shape_invariants'")
        shapes = {names.index(key): self._problems.read(given, key, shape_value, None) for key in given if key in names}
        return {index: shape.dims for index, shape in shapes.items() if shape is not WRONG}

    # --- common parts -----------------------------------------------------------------------------------------------

    def _head(self, entry: dict[Any, Any], kind: str, keys: Sequence[str]) -> tuple[str | None, dict[Any, Any]]:
        """Return the name of an entry, and the value under its kind."""
        self._problems.unknown_keys(entry, CONDITIONAL_KEYS if kind == "cond" else LOOP_KEYS, f"an entry of {kind}")
        tree = self._problems.mapping_at(entry, kind)
        self._problems.unknown_keys(tree, keys, f"'{kind}'")
        for key in ("name", "id"):
            if key in entry and (not isinstance(entry[key], str) or not entry[key]):
                message = f"wrong type of '{key}': got {spell(entry[key])}, expected a string"
                self._problems.add(value_position(entry, key), message)
        name = entry.get("name")
        if not isinstance(name, str) or not name:
            return None, tree
        try:
            self._builder.check_scope_name(name)
        except GraphBuildError as error:
            self._problems.add_error(value_position(entry, "name"), error)
        full = self._builder.prefix + name
        if self._names.is_taken(full):
            self._names.check_claim(entry, full, own_position(entry))
        return name, tree

    def _item(self, tree: dict[Any, Any], key: Any, waits: list[UnresolvedName]) -> Any:
        """Return the single tensor, variable or literal under a key; WRONG if there is none."""
        if key not in tree:
            return WRONG
        value = tree[key]
        if not isinstance(value, str):
            return self._references.literal(tree, key, value)
        found = self._references.tensors(tree, key, value, "", waits)
        if len(found) != 1:
            self._problems.add(value_position(tree, key), f"more than one tensor: got {spell(value)}, expected the name of one")
            return WRONG
        return _as_ref(found[0])

    def _writer(self, tree: dict[Any, Any], key: str, outputs: _Texts | None, arguments: Sequence[str] = ()) -> Writer:
        """Return a function that adds the nodes of the body under a key, and returns its results.

        The results are `outputs`; if that is None, the outputs of the last entry. The function raises EntryBreak after all
        problems of the body have been reported.
        """
        position = value_position(tree, key) if key in tree else own_position(tree)

        def write(functions: FunctionMaker, nodes: Sequence[int]) -> Sequence[Any]:
            before = len(self._problems)
            counter = self._scopes if self._around is None else self._around.counter
            level = Level(self._names, self._functions, counter, self._around)
            body = self._open_body(functions, level)
            body.take_body(tree.get(key, ()), position, dict(zip(arguments, nodes, strict=True)))
            found = list(body.last) if outputs is None else [_as_ref(body.result(key, *output)) for output in outputs]
            body.finish()
            if not found and len(self._problems) == before:
                self._problems.add(position, f"no results in '{key}': got no entry, expected at least one")
            if key == "cond" and len(found) > 1:
                self._problems.add(position, f"'cond' has several results: got {len(found)}, expected 1")
            if len(self._problems) > before or any(item is WRONG for item in found):
                raise EntryBreak
            return found

        return write

    def _built(self, entry: dict[Any, Any], bound: Sequence[str], make: Callable[[], list[TensorRef]]) -> list[TensorRef]:
        """Call `make` in the entry's scopes, and return its result. Raises EntryBreak after all problems have been reported."""
        try:
            with self._scopes.entered(entry):
                return make()
        except GraphBuildError as error:
            self._problems.add_error(own_position(entry), error)
        except EntryBreak:
            pass
        raise self._refused(entry, bound)

    def _refused(self, entry: dict[Any, Any], bound: Sequence[str], waits: Sequence[UnresolvedName] = ()) -> EntryBreak:
        """Return the EntryBreak of an invalid entry. The names of its results are marked, so that uses are not reported too."""
        name = entry.get("name")
        full = self._builder.prefix + (name if isinstance(name, str) else "cond" if "cond" in entry else "while")
        self._names.mark_broken(entry, full, own_position(entry), waits)
        for text in bound:
            self._names.bind(text, (None,))
        return EntryBreak()

    def _bind(self, entry: dict[Any, Any], bound: Sequence[str], results: Sequence[TensorRef]) -> None:
        """Bind names to results. The entry's id refers to all results; its name does so only if there is one result."""
        targets = [ref.node if not ref.slot else NodeOutput(ref.node, ref.slot) for ref in results]
        for text, target in zip(bound, targets, strict=False):
            self._names.bind(text, (target,))
        for key in ("name", "id"):
            if key in entry and (key == "id" or len(targets) == 1):
                self._names.bind(entry[key], tuple(targets))


def _as_ref(item: Any) -> Any:
    return TensorRef(item.node, item.slot) if isinstance(item, Operand) else item
