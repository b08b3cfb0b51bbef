"""Recognition of variables: the entries that may expand to some nodes of a graph, for the builder to try."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from placesim.core.dtypes import DataType
from placesim.formats.graph_file.writing.short_values import fill_of
from placesim.graph.graph import Node, TensorRef
from placesim.graph.variables import DEFAULT_SEED, HANDLE_OPS, RANDOM_INITIALIZERS, InitializerSpec, glorot_limit
from placesim.ops.attributes import Shape
from placesim.ops.categories import ASSIGNMENTS

_KINDS = {op: kind for kind, op in HANDLE_OPS.items()}
_MOST_BEFORE = 12
"""Maximum number of nodes that an initializer with a short form makes before the variable."""


class VariableForm(NamedTuple):
    """A variable as an entry. `scope` is its scope with a trailing slash."""

    name: str
    scope: str
    shape: tuple[int, ...]
    dtype: DataType
    initializer: InitializerSpec
    kind: str

    @property
    def full_name(self) -> str:
        return self.scope + self.name


def variable_forms(nodes: Sequence[Node], first: int) -> Iterator[VariableForm]:
    """Yield the variables that may expand to the nodes from `first` on, the most likely first."""
    last = min(first + _MOST_BEFORE, len(nodes))
    handle = next((node for node in nodes[first:last] if node.op in _KINDS), None)
    if handle is None:
        return
    dtype, shape = handle.attrs.get("dtype"), handle.attrs.get("shape")
    if dtype is None or not isinstance(shape, Shape) or shape.dims is None or -1 in shape.dims:
        return
    scope, _, name = handle.name.rpartition("/")
    scope = scope + "/" if scope else ""
    before = nodes[first : handle.id]
    if any(not node.name.startswith(handle.name + "/") for node in before) and (len(before) > 1 or before[0].op != "Const"):
        return
    for initializer in _initializers(nodes, handle, before, shape.dims):
        yield VariableForm(name, scope, shape.dims, dtype, initializer, _KINDS[handle.op])


def _initializers(
    nodes: Sequence[Node], handle: Node, before: Sequence[Node], shape: tuple[int, ...]
) -> Iterator[InitializerSpec]:
    if not before:
        start = _start_of(nodes, handle)
        if start is not None and start.node < handle.id:
            yield InitializerSpec("tensor", {"tensor": start})
        return
    start_node = before[-1]
    inside = start_node.name.removeprefix(handle.name + "/Initializer/")
    if inside in ("zeros", "ones"):
        yield InitializerSpec(inside)
    elif inside in RANDOM_INITIALIZERS:
        yield from _random(inside, start_node.name, before, shape)
    elif start_node.op == "Const" and "value" in start_node.attrs:
        tensor = start_node.attrs["value"]
        if inside == "Const":
            filled = fill_of(tensor)
            yield InitializerSpec("constant", {"constant": tensor.array if filled is None else filled})
        elif (inside == start_node.name and start_node.name.startswith(handle.name + "/")) or inside == "initial_value":
            yield InitializerSpec("initial_value", {"initial_value": tensor.array})
        else:
            yield InitializerSpec("value", {"value": tensor.array})


def _start_of(nodes: Sequence[Node], handle: Node) -> TensorRef | None:
    """Return the tensor that an op soon after a variable assigns to it; None if there is no such op."""
    for node in nodes[handle.id + 1 : handle.id + 4]:
        if node.op in ASSIGNMENTS and node.input_nodes[:1] == (handle.id,):
            return TensorRef(node.input_nodes[1], node.input_slots[1])
    return None


def _random(kind: str, scope: str, before: Sequence[Node], shape: tuple[int, ...]) -> Iterator[InitializerSpec]:
    op, parameters = RANDOM_INITIALIZERS[kind]
    by_name = {node.name.removeprefix(scope + "/"): node for node in before}
    source = by_name.get(op)
    if source is None:
        return
    values: dict[str, Any] = {}
    for key, constant, default in parameters:
        node = by_name.get(constant)
        filled = None if node is None or "value" not in node.attrs else fill_of(node.attrs["value"])
        if filled is None:
            return
        if filled != default:
            values[key] = filled
    seed = _seed(source)
    seeds = {} if seed is None else {"seed": seed}
    limit = glorot_limit(shape)
    if kind == "random_uniform" and abs(values.get("maxval", 1.0) - limit) <= 1e-6 * limit:
        yield InitializerSpec("glorot_uniform", seeds)
    yield InitializerSpec(kind, {**values, **seeds})


def _seed(node: Node) -> Any:
    seeds = [node.attrs.get("seed", 0), node.attrs.get("seed2", 0)]
    if seeds == [0, 0]:
        return None
    return seeds[1] if seeds[0] == DEFAULT_SEED else seeds
