"""Values of a checkpoint for variables. The graph's restore op tells, without running, which tensor each variable gets.

The restore op depends on `Assign` and `AssignVariableOp` nodes, in the graph (TF1) or in functions that it calls (TF2). Each
assigned value comes from an output of `RestoreV2`, whose inputs are constants with the tensors' names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from placesim.core.checkpoints.checkpoint import OBJECT_GRAPH_KEY, Checkpoint
from placesim.core.checkpoints.checkpoint_state import latest_checkpoint
from placesim.core.checkpoints.tensor_slices import SliceSpec, parse_slice_spec
from placesim.core.errors import InvalidArgumentError, Location, NotFoundError, OpError
from placesim.core.protobuf_wire import WireError
from placesim.formats.tensorflow.messages import parse
from placesim.graph.graph import Graph, LibraryFunction, Node, split_tensor_name
from placesim.graph.session_steps import GraphFile
from placesim.ops.attributes import Attrs, FunctionName, Shape, TensorValue
from placesim.ops.categories import ASSIGNMENTS, CALLS, CONSTANTS, IDENTITIES_BY_SLOT, VARIABLES

_MAX_STEPS = 1_000_000
_MAX_DEPTH = 100
_OBJECT_KEY_END = "/.ATTRIBUTES/VARIABLE_VALUE"


class RestoredVariable(NamedTuple):
    """A variable's node, its tensor in the checkpoint, and the slice to restore (`6 5 0,3:-`; empty for the whole tensor)."""

    variable: str
    key: str
    part: str = ""


class _Place(NamedTuple):
    """A node of the graph or of a function. Its inputs are in the notation of a NodeDef there."""

    op: str
    inputs: tuple[str, ...]
    attrs: Attrs


class _Scope(NamedTuple):
    """The names in the graph or in a called function: nodes, and the caller's tensor for each argument."""

    place: Callable[[str], _Place | None]
    names: Sequence[str]
    args: Mapping[str, str]
    caller: _Scope | None


def find_restored_variables(graph: Graph, restore_op: str) -> list[RestoredVariable]:
    """Return the variables that a restore op sets, if the graph has it. Raises InvalidArgumentError for too many nodes."""
    scope = _graph_scope(graph)
    name = restore_op.partition(":")[0].removeprefix("^")
    if scope.place(name) is None:
        return []
    steps = _Steps()
    found: dict[str, RestoredVariable] = {}
    for inner, assign in _assigns(graph, scope, [name], steps, ()):
        restored = _restored(inner, assign, steps)
        if restored is not None:
            found[restored.variable] = restored
    return list(found.values())


class _Steps:
    """A limit on the visited nodes, as a function may be called from many places."""

    def __init__(self) -> None:
        self._count = 0

    def take(self, count: int = 1) -> None:
        self._count += count
        if self._count > _MAX_STEPS:
            raise InvalidArgumentError("the restore op leads to too many nodes")


def _graph_scope(graph: Graph) -> _Scope:
    def place(name: str) -> _Place | None:
        if name not in graph.ids:
            return None
        node = graph.node(name)
        return _Place(node.op, tuple(graph.input_texts(node)), node.attrs)

    return _Scope(place, (), {}, None)


def _body_scope(function: LibraryFunction, inputs: Sequence[str], caller: _Scope) -> _Scope:
    nodes = {node.name: _Place(node.op, node.inputs, node.attrs) for node in function.nodes}
    args = dict(zip((arg.name for arg in function.inputs), inputs, strict=False))
    return _Scope(nodes.get, tuple(nodes), args, caller)


def _assigns(
    graph: Graph, scope: _Scope, names: Sequence[str], steps: _Steps, calls: tuple[str, ...]
) -> Iterator[tuple[_Scope, _Place]]:
    """Yield the assignments that the named nodes depend on, also in called functions; each with its scope."""
    seen = set(names)
    waiting = list(names)
    while waiting:
        steps.take()
        place = scope.place(waiting.pop())
        if place is None:
            continue
        if place.op in ASSIGNMENTS:
            yield scope, place
        function = _callee(graph, place)
        if function is not None and function.name not in calls and len(calls) < _MAX_DEPTH:
            steps.take(len(function.nodes))
            data = [text for text in place.inputs if not text.startswith("^")]
            body = _body_scope(function, data, scope)
            yield from _assigns(graph, body, body.names, steps, (*calls, function.name))
        for text in place.inputs:
            name = text.removeprefix("^").partition(":")[0]
            if name not in seen:
                seen.add(name)
                waiting.append(name)


def _callee(graph: Graph, place: _Place) -> LibraryFunction | None:
    called = place.attrs.get("f") if place.op in CALLS else None
    return graph.functions.get(called.name if isinstance(called, FunctionName) else place.op)


def _restored(scope: _Scope, assign: _Place, steps: _Steps) -> RestoredVariable | None:
    variable = _source(scope, assign.inputs[0], steps) if len(assign.inputs) > 1 else None
    value = _source(scope, assign.inputs[1], steps) if variable is not None else None
    if variable is None or value is None or value[1].op != "RestoreV2" or variable[1].op not in VARIABLES:
        return None
    inner, restore, _, slot = value
    keys, parts = (_constant(inner, text, steps) for text in restore.inputs[1:3]) if len(restore.inputs) > 2 else ((), ())
    if slot >= len(keys) or slot >= len(parts):
        return None
    return RestoredVariable(variable[2], _text(keys[slot]), _text(parts[slot]))


def _source(scope: _Scope, text: str, steps: _Steps) -> tuple[_Scope, _Place, str, int] | None:
    """Return the output (scope, node, name, slot) that a tensor equals, traced through identities and arguments, or None."""
    while True:
        steps.take()
        name, slot = text.partition(":")[0], split_tensor_name(text)[1]
        if name in scope.args:
            if scope.caller is None:
                return None
            scope, text = scope.caller, scope.args[name]
            continue
        place = scope.place(name)
        if place is None:
            return None
        if place.op not in IDENTITIES_BY_SLOT or slot >= len(place.inputs):
            return scope, place, name, slot
        text = place.inputs[slot]


def _constant(scope: _Scope, text: str, steps: _Steps) -> Any:
    """Return the elements of a constant tensor; empty for another tensor."""
    source = _source(scope, text, steps)
    value = source[1].attrs.get("value") if source is not None and source[1].op in CONSTANTS else None
    return value.array.reshape(-1) if isinstance(value, TensorValue) else ()


def _text(value: Any) -> str:
    return value.decode(errors="surrogateescape") if isinstance(value, bytes) else str(value)


# --- values ---------------------------------------------------------------------------------------------------------


def add_checkpoint_values(file: GraphFile, given: str | Path, restore_op: str = "", directory: Path | None = None) -> GraphFile:
    """Return the file with the values of a checkpoint for its variables.

    `given` is the prefix of the checkpoint's files, or a directory with a `checkpoint` file. All files must lie in `directory`.
    Raises the errors of `latest_checkpoint`, `Checkpoint` and `initial_values`.
    """
    prefix = latest_checkpoint(given) if os.path.isdir(given) else given
    try:
        values = initial_values(file.graph, restore_op, Checkpoint(prefix, directory))
    except OpError as error:
        error.location = error.location or Location(str(prefix), 0, 0)
        raise
    return replace(file, initial_values=values)


def initial_values(graph: Graph, restore_op: str, checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the arrays of a checkpoint by the names of the variables' nodes, as views of the file.

    Without a restore op, tensors are found by the variables' names. Raises NotFoundError for a tensor missing in the
    checkpoint, and InvalidArgumentError for one with another type or shape than its variable.
    """
    plan = find_restored_variables(graph, restore_op) or _by_name(graph, checkpoint)
    values = {}
    for variable, key, part in plan:
        tensor = _part(checkpoint, key, parse_slice_spec(part))
        node = graph.node(variable) if variable in graph.ids else None
        if node is not None:
            _check(node, key, tensor)
        values[variable] = tensor.array
    return values


def _part(checkpoint: Checkpoint, key: str, spec: SliceSpec | None) -> TensorValue:
    stored = checkpoint.entry(key)
    if spec is not None and spec.shape != stored.shape:
        what = f"does not match the shape stored in checkpoint: {Shape(stored.shape)}"
        raise InvalidArgumentError(f"tensor_name = {key}; shape in shape_and_slice spec {Shape(spec.shape)} {what}")
    return TensorValue(stored.dtype, checkpoint.read(key, None if spec is None else spec.region))


def _by_name(graph: Graph, checkpoint: Checkpoint) -> list[RestoredVariable]:
    """Return the variables restored by their names. Raises NotFoundError if there are variables, and none has a value."""
    keys = _object_keys(checkpoint)
    variables = [node for node in graph.nodes if node.op in VARIABLES]
    found = []
    for node in variables:
        for name in (node.attrs.get("shared_name") or node.name, node.name):
            key = name if name in checkpoint else keys.get(name, name + _OBJECT_KEY_END)
            if key in checkpoint:
                found.append(RestoredVariable(node.name, key))
                break
    if variables and not found:
        raise NotFoundError(f"Key {variables[0].name} not found in checkpoint, nor any other variable's")
    return found


def _object_keys(checkpoint: Checkpoint) -> dict[str, str]:
    """Return the keys of an object-based checkpoint by the full names of variables; empty for another checkpoint."""
    if OBJECT_GRAPH_KEY not in checkpoint:
        return {}
    stored = checkpoint.read(OBJECT_GRAPH_KEY).reshape(-1)
    try:
        objects = parse("TrackableObjectGraph", stored[0] if len(stored) else b"")
    except (WireError, TypeError):
        return {}
    return {part.full_name: part.checkpoint_key for node in objects.nodes for part in node.attributes if part.full_name}


def _check(node: Node, key: str, tensor: TensorValue) -> None:
    dtype, shape = node.attrs.get("dtype"), node.attrs.get("shape")
    if dtype is not tensor.dtype:
        what = f"expected dtype {getattr(dtype, 'name', dtype)} does not equal original dtype {tensor.dtype.name}"
        raise InvalidArgumentError(f"tensor_name = {key}; {what}", node=node.name)
    dims, got = shape.dims if isinstance(shape, Shape) else None, tensor.array.shape
    if dims is None or (len(dims) == len(got) and all(size in (-1, own) for size, own in zip(dims, got, strict=True))):
        return
    what = f"lhs shape= {shape} rhs shape= {Shape(got)}"
    raise InvalidArgumentError(f"Assign requires shapes of both tensors to match. {what}", node=node.name)
