"""Checks of a NodeDef's op and attrs, with the messages of TensorFlow's `import_graph_def`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from placesim.core.dtypes import DataType
from placesim.formats.problems import FileProblems, key_position, part_position
from placesim.graph.graph import LibraryFunction, NodeDef
from placesim.ops.attributes import Attrs, AttrValue, FunctionName, Placeholder, Shape, TensorValue
from placesim.ops.categories import CONSTANTS, CROSSES
from placesim.ops.definitions import AttrDef, OpDef, format_op_def, missing_attrs, missing_problem, value_problem
from placesim.ops.registry import Registry, describe_other_releases

MAX_COUNT = 1 << 20
"""Maximum value of a count attr; no op has more tensors."""
_LEFT_AWAY = (("VariableV2", "shape"),)
"""Attrs that nodes may lack here, although `import_graph_def` requires them: a session needs them only to run the node."""
_OUTDATED = ". (Check whether your GraphDef-interpreting binary is up to date with your GraphDef-generating binary.)."
_INFERRED = " (types are inferred where the function says 'raw: false')"
_IS_OF_TYPE: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str | bytes),
    "int": lambda value: value.__class__ is int,
    "float": lambda value: isinstance(value, float),
    "bool": lambda value: isinstance(value, bool),
    "type": lambda value: isinstance(value, DataType),
    "shape": lambda value: isinstance(value, Shape),
    "tensor": lambda value: isinstance(value, TensorValue),
    "func": lambda value: isinstance(value, FunctionName),
}


class NodeChecks:
    """A checker of nodes. Problems are recorded, with positions in the YAML from which a node was read."""

    def __init__(self, registry: Registry, functions: Mapping[str, LibraryFunction], problems: FileProblems) -> None:
        self._registry = registry
        self._functions = functions
        self._problems = problems
        self._checked: dict[tuple[str, int], Attrs] = {}

    def check(self, node_def: NodeDef, tree: Any = None, where: str = "") -> bool:
        """Whether a node's op and attrs are allowed; problems are recorded. `where` names the enclosing function."""
        op, attrs = node_def.op, node_def.attrs
        if (op, id(attrs)) in self._checked:
            return True
        before = len(self._problems)
        definition = self._registry.op(op)
        if definition is None:
            self._check_call(node_def, tree, where)
        else:
            self._check_attrs(node_def, definition, tree, where)
            self._check_deciding(node_def, definition, tree, where)
        is_good = len(self._problems) == before
        if is_good and op not in CONSTANTS:
            self._checked[op, id(attrs)] = attrs
        return is_good

    def _report(self, position: int, message: str, where: str) -> None:
        self._problems.add(position, message + where, "ValueError")

    def _check_call(self, node_def: NodeDef, tree: Any, where: str) -> None:
        function = self._functions.get(node_def.op)
        if function is None:
            known = (*self._registry.op_names, *self._functions)
            near = describe_other_releases(node_def.op, self._registry) or self._problems.did_you_mean(node_def.op, known)
            expected = f"expected an op of TensorFlow {self._registry.release} or a function of the file"
            message = f"unknown op: got '{node_def.op}' of node '{node_def.name}'{where}, {expected}{near}"
            self._problems.add(part_position(tree, "op"), message)
            return
        for arg in (*function.inputs, *function.outputs):
            if arg.type_attr and not isinstance(node_def.attrs.get(arg.type_attr), DataType | Placeholder):
                message = f"NodeDef missing attr '{arg.type_attr}' from function '{function.name}'{node_text(node_def.name)}"
                self._report(_attr_position(tree, arg.type_attr), message, where)
                return

    def _check_attrs(self, node_def: NodeDef, definition: OpDef, tree: Any, where: str) -> None:
        for name, value in node_def.attrs.items():
            attr = definition.attrs.get(name)
            if attr is None:
                if not name.startswith("_"):
                    self._report_unknown(node_def, definition, name, tree, where)
            elif value.__class__ is Placeholder:
                if not where:
                    message = f"attr '{name}' is a placeholder outside of a function{node_text(node_def.name)}"
                    self._report(_attr_position(tree, name), message, where)
            elif not _is_of_type(attr.type, value):
                kinds = f"AttrValue had value with type '{_type_name(value)}' when '{attr.type}' expected"
                self._report_value(node_def, definition, name, f"{kinds}\n\t for attr '{name}'", tree, where)
            elif (problem := _value_problem(definition, attr, value)) is not None:
                self._report_value(node_def, definition, name, problem, tree, where)

    def _report_value(self, node_def: NodeDef, definition: OpDef, name: str, problem: str, tree: Any, where: str) -> None:
        message = f"{problem}\n\t{node_text(node_def.name)}; {format_op_def(definition)}"
        self._report(_attr_position(tree, name), message, where)

    def _report_unknown(self, node_def: NodeDef, definition: OpDef, name: str, tree: Any, where: str) -> None:
        near = self._problems.did_you_mean(name, definition.attrs)
        message = f"NodeDef mentions attr '{name}' not in {format_op_def(definition)}{node_text(node_def.name)}"
        given = tree.get("attrs") if isinstance(tree, dict) else None
        holder = given if isinstance(given, dict) and name in given else tree
        # if nodes of a function have the same name, the tree may be that of another one
        position = key_position(holder, name) if isinstance(holder, dict) and name in holder else part_position(tree)
        self._report(position, message + (near or _OUTDATED), where)

    def _check_deciding(self, node_def: NodeDef, definition: OpDef, tree: Any, where: str) -> None:
        """Report missing attrs that have no defaults, and impossible values of count attrs."""
        attrs = node_def.attrs
        missing = missing_attrs(definition, attrs)
        if missing and (node_def.op, *missing) not in _LEFT_AWAY:
            message = f"{missing_problem(definition, missing)}{node_text(node_def.name)}"
            self._report(part_position(tree), message, where + _INFERRED if where and tree is not None else where)
        args = (*definition.inputs, *definition.outputs)
        for name in dict.fromkeys(arg.number_attr for arg in args if arg.number_attr):
            count = attrs.get(name)
            least = definition.attrs[name].minimum  # a smaller count has been reported
            if isinstance(count, int) and (count > MAX_COUNT or (count < 0 and least is None)):
                message = f"Value for attr '{name}' of {count} is not a number of tensors{node_text(node_def.name)}"
                self._report(_attr_position(tree, name), message, where)


def _value_problem(definition: OpDef, attr: AttrDef, value: AttrValue) -> str | None:
    if attr.allowed is None and attr.minimum is None:
        return None
    is_taken = definition.name in CROSSES and attr.type == "list(type)"
    return None if is_taken else value_problem(attr, value)


def node_text(name: str) -> str:
    """Return the end of TensorFlow's messages about a node."""
    return f"; NodeDef: {{{{node {name}}}}}"


def _attr_position(tree: Any, name: str) -> int:
    """Return the position of an attr, which is under `attrs`, or beside it as the `value` of a constant."""
    given = tree.get("attrs") if isinstance(tree, dict) else None
    return part_position(tree, "attrs", name) if isinstance(given, dict) and name in given else part_position(tree, name)


def _is_of_type(attr_type: str, value: AttrValue) -> bool:
    if not attr_type.startswith("list("):
        return _IS_OF_TYPE[attr_type](value)
    return value.__class__ is tuple and (not value or _IS_OF_TYPE[attr_type[5:-1]](value[0]))


def _type_name(value: AttrValue) -> str:
    if value.__class__ is tuple:
        return f"list({_type_name(value[0])})" if value else "list(any)"
    return next((name for name, is_of_type in _IS_OF_TYPE.items() if is_of_type(value)), type(value).__name__)
