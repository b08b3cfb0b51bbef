"""Readers of the entries `variable` and `initializer`, which expand to several nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from placesim.core.dtypes import FLOAT
from placesim.core.errors import GraphBuildError
from placesim.core.suggestions import SIMILAR_AMONG_FEW, did_you_mean
from placesim.formats.graph_file.entries.scope_entries import ScopeEntries
from placesim.formats.graph_file.entries.scoped_names import EntryBreak, ScopedNames
from placesim.formats.graph_file.plain_values import (
    bool_value,
    constant_value,
    dtype_value,
    int_value,
    known_shape,
    literal,
    text_value,
)
from placesim.formats.problems import WRONG, FileProblems, InvalidValue, own_position, spell, value_position
from placesim.graph.argument_binding import Operand, VariableNodes
from placesim.graph.builder import ScopedGraphBuilder
from placesim.graph.graph import TensorRef, split_tensor_name
from placesim.graph.variables import INITIALIZER_FIELDS, VALUE_KINDS, InitializerSpec, add_global_initializer, add_variable

VARIABLE_KEYS = dict.fromkeys(
    ("variable", "id", "shape", "dtype", "initializer", "kind", "trainable", "device", "colocate_with", "control_inputs")
).keys()
INITIALIZER_KEYS = dict.fromkeys(("initializer", "id", "device", "colocate_with", "control_inputs")).keys()


class VariableEntries:
    """A maker of variables, and of the op that initializes all of them."""

    def __init__(self, builder: ScopedGraphBuilder, problems: FileProblems, names: ScopedNames, scopes: ScopeEntries) -> None:
        self._builder = builder
        self._problems = problems
        self._names = names
        self._scopes = scopes

    def take_variable(self, entry: dict[Any, Any]) -> None:
        """Read an entry with `variable`. Raises EntryBreak if it has no name."""
        problems, builder = self._problems, self._builder
        problems.unknown_keys(entry, VARIABLE_KEYS, "a variable")
        name, position = entry["variable"], own_position(entry)
        if not isinstance(name, str) or not name:
            problems.add(value_position(entry, "variable"), f"wrong type of 'variable': got {spell(name)}, expected a name")
            raise EntryBreak
        wanted = builder.prefix + name
        if self._names.is_taken(wanted):
            self._names.check_claim(entry, wanted, position)
        try:
            variable = self._add(entry, name, position)
        except (GraphBuildError, InvalidValue) as error:
            key = "initializer" if "initializer" in entry else "variable"
            problems.add(value_position(entry, key), str(error), "ValueError" if isinstance(error, GraphBuildError) else "")
            variable = None
        if variable is None:
            self._names.mark_broken(entry, wanted, position)
            return
        self._names.mark_named(variable.node)
        self._names.bind_entry(entry, name, variable.node)

    def _add(self, entry: dict[Any, Any], name: str, position: int) -> VariableNodes | None:
        """Add a variable. Returns None, after a report, if a value of the entry is invalid."""
        read = self._problems.read
        dtype = read(entry, "dtype", dtype_value, FLOAT)
        shape = read(entry, "shape", known_shape, None)
        kind = read(entry, "kind", kind_value, "ref")
        trainable = read(entry, "trainable", lambda value: bool_value(value, "'trainable'"), True)
        initializer = read(entry, "initializer", initializer_value, None)
        if any(value is WRONG for value in (dtype, shape, kind, initializer)):
            return None
        with self._scopes.entered(entry):
            if initializer is not None and initializer.kind in VALUE_KINDS and "dtype" not in entry:
                tensor = constant_value(initializer.values[initializer.kind], None, shape)
                dtype, initializer = tensor.dtype, InitializerSpec(initializer.kind, {initializer.kind: tensor.array})
            elif initializer is not None and initializer.kind == "tensor":
                operand = self._operand(initializer.values["tensor"])
                initializer = InitializerSpec("tensor", {"tensor": TensorRef(operand.node, operand.slot)})
                dtype = dtype if "dtype" in entry else operand.dtype
            made = add_variable(self._builder, name, shape, dtype, initializer, kind, position)
        if trainable is not False:
            return made
        found = self._builder.variables[made.node] = made._replace(trainable=False)
        return found

    def _operand(self, text: str) -> Operand:
        """Return the tensor of a variable's initial value. Raises InvalidValue for an unknown name."""
        name, slot = split_tensor_name(text)
        node = self._names.resolve_one(name)
        if node is None:
            raise InvalidValue(f"unknown node: got {spell(text)}, expected the name or id of a node")
        variable = self._builder.variables.get(node)
        if variable is not None and name == text:
            node = variable.value
        return self._builder.operand(node, slot)

    def add_initializer(self, name: str, position: int) -> int:
        """Add a node that runs the initializers of all variables so far, and return it. Raises GraphBuildError."""
        return add_global_initializer(self._builder, name, position).id

    def take_initializer(self, entry: dict[Any, Any], add: Callable[[str, int], int]) -> int:
        """Read an entry with `initializer`, and return the node that `add` adds for its name and position.

        Raises EntryBreak for an invalid entry, after a report.
        """
        self._problems.unknown_keys(entry, INITIALIZER_KEYS, "an initializer")
        name, place = entry["initializer"], value_position(entry, "initializer")
        if not isinstance(name, str) or not name:
            self._problems.add(place, f"wrong type of 'initializer': got {spell(name)}, expected a name")
            raise EntryBreak
        try:
            with self._scopes.entered(entry):
                node = add(name, own_position(entry))
        except GraphBuildError as error:
            self._problems.add_error(place, error)
            self._names.mark_broken(entry, self._builder.prefix + name, own_position(entry))
            raise EntryBreak from None
        self._names.bind_entry(entry, name, node)
        return node


# --- kinds and initializers -----------------------------------------------------------------------------------------


def kind_value(value: Any) -> str:
    """Return `ref` or `resource`. Raises InvalidValue for any other value."""
    if value not in ("ref", "resource"):
        near = did_you_mean(value, ("ref", "resource"))
        raise InvalidValue(f"unknown kind of variable: got {spell(value)}, expected ref or resource{near}")
    return str(value)


def initializer_value(value: Any) -> InitializerSpec:
    """Return the initializer given by its name, or by a mapping of its name to its parameters. Raises InvalidValue."""
    kinds = (*INITIALIZER_FIELDS, "constant", *VALUE_KINDS, "tensor")
    if isinstance(value, str) and value in INITIALIZER_FIELDS:
        return InitializerSpec(value)
    if isinstance(value, dict) and len(value) == 1:
        ((kind, fields),) = value.items()
        if kind in ("constant", *VALUE_KINDS):
            return InitializerSpec(kind, {kind: literal(fields)})
        if kind == "tensor":
            return InitializerSpec(kind, {kind: text_value(fields, "'tensor'")})
        if kind in INITIALIZER_FIELDS:
            return InitializerSpec(kind, _initializer_fields(kind, {} if fields is None else fields))
        value = kind
    near = did_you_mean(value, kinds, SIMILAR_AMONG_FEW)
    raise InvalidValue(f"unknown initializer: got {spell(value)}, expected one of {', '.join(kinds)}{near}")


def _initializer_fields(kind: str, fields: Any) -> dict[str, Any]:
    known = INITIALIZER_FIELDS[kind]
    if not isinstance(fields, dict):
        expected = f"a mapping of {', '.join(known) or 'nothing'}"
        raise InvalidValue(f"wrong type of '{kind}': got {spell(fields)}, expected {expected}")
    for key, value in fields.items():
        if key not in known:
            near = did_you_mean(key, known)
            raise InvalidValue(f"unknown key in '{kind}': got '{key}', expected {', '.join(known) or 'none'}{near}")
        if key == "seed":
            pair = value if isinstance(value, list | tuple) and len(value) == 2 else (value,)
            for number in pair:
                int_value(number, -(1 << 63), (1 << 63) - 1, "'seed'")
        elif type(value) not in (int, float):
            raise InvalidValue(f"wrong type of '{key}': got {spell(value)}, expected a number")
    return dict(fields)
