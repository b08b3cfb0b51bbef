"""Reader of `functions`: a GraphDef's function library."""

from __future__ import annotations

from typing import Any

from placesim.formats.graph_file.entries.function_bodies import FunctionEntries, find_called_names, is_of_entries
from placesim.formats.graph_file.entries.node_attrs import any_value
from placesim.formats.graph_file.entries.raw_nodes import NodeDefReader
from placesim.formats.graph_file.plain_values import dtype_value, text_value
from placesim.formats.library_checks import calls_first, check_library, report_recursion
from placesim.formats.problems import FileProblems, InvalidValue, key_position, own_position, spell, value_position
from placesim.graph.graph import FunctionArg, LibraryFunction, NodeDef
from placesim.ops.attributes import Attrs
from placesim.ops.registry import Registry

FUNCTION_KEYS = ("name", "inputs", "outputs", "nodes", "control_outputs", "attrs", "raw")


class FunctionReader:
    """A reader of a library, in which functions may call each other in any order. `bodies` reads functions of entries."""

    def __init__(self, registry: Registry, problems: FileProblems, leaves_marks: bool = False) -> None:
        self._leaves_marks = leaves_marks
        self._registry = registry
        self._problems = problems
        self._functions: dict[str, LibraryFunction] = {}
        self._names: dict[str, int] = {}
        self.bodies: FunctionEntries

    def read(self, tree: Any, position: int) -> dict[str, LibraryFunction]:
        """Read the list under `functions`; problems are reported."""
        entries = [
            self._problems.mapping(entry, value_position(tree, index), "a function")
            for index, entry in enumerate(self._problems.sequence(tree, position, "'functions'"))
        ]
        heads = [(entry, self._read_head(entry)) for entry in entries]
        trees = {}
        for entry, head in heads:
            if head is not None:
                # heads first: the NodeDefs of a function may call a later function, or this function itself
                self._functions[head.name] = head
                trees[head.name] = entry
        self.bodies = FunctionEntries(self._registry, self._problems, self._functions, self._leaves_marks)
        for entry, head in heads:
            if head is not None and not is_of_entries(entry):
                self._functions[head.name] = self._read_body(entry, head)
        self._read_entries({head.name: entry for entry, head in heads if head is not None and is_of_entries(entry)})
        check_library(self._registry, self._functions, self._problems, trees.get)
        return self._functions

    def _read_entries(self, trees: dict[str, dict[Any, Any]]) -> None:
        """Read functions with bodies of entries, called functions first, since their result types are needed."""
        called = {
            name: [each for each in find_called_names(tree.get("nodes")) if each in trees] for name, tree in trees.items()
        }
        broken = self.bodies.broken
        for name, cycle in calls_first(called):
            if cycle is not None:
                report_recursion(cycle, self._problems, value_position(trees[name], "name"))
                broken.update(cycle)
            elif name not in broken:
                found = self.bodies.read(trees[name], name, function_attrs(trees[name], self._problems))
                if found is None:
                    broken.add(name)
                else:
                    self._functions[name] = found

    def _read_head(self, entry: dict[Any, Any]) -> LibraryFunction | None:
        self._problems.unknown_keys(entry, FUNCTION_KEYS, "a function")
        name = entry.get("name")
        if not isinstance(name, str) or not name:
            message = f"no name of a function: got {spell(name)}, expected 'name'"
            self._problems.add(value_position(entry, "name") if "name" in entry else own_position(entry), message)
            return None
        position = value_position(entry, "name")
        if name in self._names:
            first = self._problems.location(self._names[name])
            self._problems.add(position, f"duplicate function: got '{name}' again, expected it once (the first is at {first})")
        self._names.setdefault(name, position)
        if "raw" in entry and not isinstance(entry["raw"], bool):
            message = f"wrong type of 'raw': got {spell(entry['raw'])}, expected true or false"
            self._problems.add(value_position(entry, "raw"), message)
        if is_of_entries(entry):
            return LibraryFunction(name, (), (), ())
        return LibraryFunction(name, self._args(entry, "inputs"), self._args(entry, "outputs"), ())

    def _args(self, entry: dict[Any, Any], key: str) -> tuple[FunctionArg, ...]:
        if key not in entry:
            return ()
        listed = self._problems.sequence_at(entry, key)
        found = []
        for index, tree in enumerate(listed):
            arg = self._problems.mapping(tree, value_position(listed, index), f"an entry of '{key}'")
            known = ("name", "type", "type_attr", *(("value",) if key == "outputs" else ()))
            self._problems.unknown_keys(arg, known, f"an entry of '{key}'")
            try:
                found.append(_arg(arg, key == "outputs"))
            except InvalidValue as wrong:
                self._problems.add(own_position(arg), str(wrong))
        return tuple(found)

    def _read_body(self, entry: dict[Any, Any], head: LibraryFunction) -> LibraryFunction:
        problems = self._problems
        reader = NodeDefReader(self._registry, self._functions, problems, "a function's node")
        nodes: list[NodeDef] = []
        tree = problems.sequence(entry.get("nodes", ()), value_position(entry, "nodes") if "nodes" in entry else 0, "'nodes'")
        for index, item in enumerate(tree):
            node = reader.read(problems.mapping(item, value_position(tree, index), "a node"))
            if node is not None:
                nodes.append(node)
        if len(nodes) == len(tree):
            self._check_references(entry, tree, head, nodes)
        controls = self._controls(entry)
        return LibraryFunction(head.name, head.inputs, head.outputs, tuple(nodes), controls, function_attrs(entry, problems))

    def _check_references(self, entry: dict[Any, Any], tree: Any, head: LibraryFunction, nodes: list[NodeDef]) -> None:
        """Report inputs of nodes, and outputs of the function, that name neither an argument nor a node of the function."""
        known = dict.fromkeys([*(arg.name for arg in head.inputs), *(node.name for node in nodes)])
        for index, node in enumerate(nodes):
            for i, text in enumerate(node.inputs):
                if text.removeprefix("^").split(":")[0] not in known:
                    message = f"unknown input in function '{head.name}': got '{text}', expected an argument or a node of it"
                    near = self._problems.did_you_mean(text, known)
                    self._problems.add(value_position(tree[index]["inputs"], i), message + near)
        listed = entry.get("outputs", ())
        if not isinstance(listed, list | tuple) or len(listed) != len(head.outputs):
            return
        for tree, arg in zip(listed, head.outputs, strict=True):
            name = (arg.value or "").split(":")[0]
            if name not in known:
                message = f"unknown output of function '{head.name}': got '{arg.value}', expected an argument or a node of it"
                self._problems.add(value_position(tree, "value"), message + self._problems.did_you_mean(name, known))

    def _controls(self, entry: dict[Any, Any]) -> dict[str, str]:
        if "control_outputs" not in entry:
            return {}
        tree = self._problems.mapping_at(entry, "control_outputs")
        found = {}
        for key, value in tree.items():
            if isinstance(key, str) and isinstance(value, str):
                found[key] = value
            else:
                message = f"wrong type of a control output: got {spell(value)}, expected a node's name"
                self._problems.add(key_position(tree, key), message)
        return found


def function_attrs(entry: dict[Any, Any], problems: FileProblems) -> Attrs:
    """Return the attrs of a function; problems are reported."""
    if "attrs" not in entry:
        return {}
    tree = problems.mapping_at(entry, "attrs")
    found = {}
    for key, value in tree.items():
        try:
            found[text_value(key, "an attr's name")] = any_value(value)
        except InvalidValue as wrong:
            problems.add(value_position(tree, key), str(wrong))
    return found


def _arg(tree: dict[Any, Any], is_output: bool) -> FunctionArg:
    name = text_value(tree.get("name"), "'name'")
    value = text_value(tree.get("value"), "'value'") if is_output else ""
    if "type_attr" in tree:
        return FunctionArg(name, None, text_value(tree["type_attr"], "'type_attr'"), value)
    if "type" not in tree:
        raise InvalidValue(f"no type of '{name}': got nothing, expected 'type' or 'type_attr'")
    return FunctionArg(name, dtype_value(tree["type"]), None, value)
