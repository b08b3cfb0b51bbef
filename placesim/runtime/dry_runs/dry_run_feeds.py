"""Feeds of a dry run: known values, or sketches with the shapes of placeholders."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from placesim.core.errors import UsageError
from placesim.core.files.access import FileAccess
from placesim.graph.graph import Graph, Node, NodeDef, TensorRef
from placesim.graph.session_steps import Feed, GeneratedFeed, GraphStep
from placesim.ops.categories import ENTERS, LOOPS, NEXT_ITERATIONS, UNFED_PLACEHOLDERS
from placesim.ops.kernels.abstract_tensor import UNTOLD, Sketch, SketchedValueError
from placesim.ops.kernels.shapes import Dims, format_dims, is_fully_defined
from placesim.runtime.dry_runs.abstract_values import MAX_KNOWN_ELEMENTS
from placesim.runtime.dry_runs.assumptions import Assumptions, OpenTensor
from placesim.runtime.partitioning.step_requests import (
    RequestedName,
    declared_dims,
    nearest_names,
    resolve_fed_tensor,
    resolve_feed,
)
from placesim.runtime.shapes.open_shapes import choose_settlements, find_open_causes

MAX_NAMED = 5
_LOOPS = frozenset((*NEXT_ITERATIONS, *LOOPS))


@dataclass(frozen=True, slots=True)
class FeedShapes:
    """Shapes that the user gives for placeholders with unknown dimensions.

    `shapes` are by placeholder; `batch` is the first dimension of all placeholders in which it is unknown. `guesses` are the
    assumptions for other unknown dimensions.
    """

    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    batch: int | None = None
    guesses: Assumptions = field(default_factory=Assumptions)


def sketch_feeds(
    graph: Graph, step: GraphStep, fetched: Sequence[RequestedName], wanted: FeedShapes, directory: Path, files: FileAccess
) -> dict[TensorRef, Any]:
    """Return the feeds of a step by tensor: small values unchanged, and sketches for large values and for missing feeds.

    Raises SketchedValueError if a placeholder's shape is unknown, UsageError for a given shape that does not fit its
    placeholder, and RequestError for a feed that fits no tensor.
    """
    for name in wanted.shapes:
        if name not in graph.ids:
            error = UsageError(f"no such placeholder: got '{name}' in --shape, expected a placeholder of the graph")
            error.help = nearest_names(graph, name)
            raise error
    found: dict[TensorRef, Any] = {}
    for feed in step.feeds:
        ref = resolve_fed_tensor(graph, feed)
        found[ref] = _sketch_feed(graph, feed, ref, wanted, directory, files)
    missing: dict[int, Dims] = {}
    targets = [f.node for f in fetched]
    for node in _unfed_placeholders(graph, targets, found):
        dims = _settled(node, declared_dims(node), wanted)
        if not is_fully_defined(dims):
            dims = wanted.guesses.settled(id(graph), 0, OpenTensor(node.name, dims))
        if dims is None or not is_fully_defined(dims):
            missing[node.id] = dims
        else:
            found[TensorRef(node.id, 0)] = fed_sketch(dims, node, 0)
    if missing:
        raise _open_shapes(graph, missing, _ancestors(graph, targets, found), found)
    return found


def fed_sketch(dims: tuple[int, ...], node: Node, slot: int) -> Sketch:
    is_tellable = math.prod(dims) <= MAX_KNOWN_ELEMENTS
    return Sketch(dims, node.signature.output_dtypes[slot], node.name, frozenset([node.name]) if is_tellable else None)


def _open_shapes(
    graph: Graph, missing: Mapping[int, Dims], needed: set[int], fed: Mapping[TensorRef, Any]
) -> SketchedValueError:
    """Return the error for unknown shapes; its help names the options that determine the shapes of the most tensors."""
    names = {node_id: graph.nodes[node_id].name for node_id in missing}
    # `--batch` is enough for these placeholders: only their first dimension is unknown
    of_batch = [node_id for node_id, dims in missing.items() if dims and dims[0] < 0 and is_fully_defined(dims[1:])]
    acts: dict[int | None, Sequence[int]] = {None: of_batch} if of_batch else {}
    acts |= {node_id: (node_id,) for node_id in missing if node_id not in of_batch}
    settled = {ref.node: tuple(value.shape) for ref, value in fed.items() if ref.slot == 0}
    causes = find_open_causes(graph, needed, settled, list(missing))
    chosen = choose_settlements(causes, acts)
    said = []
    for act, count in chosen[:MAX_NAMED]:
        way = "`--batch N` sets the first dimension of all"
        if act is not None:
            dims = missing[act]
            example = "1,2,3" if dims is None else ",".join("N" if dim < 0 else str(dim) for dim in dims)
            way = f"`--shape {names[act]}={example}` sets the shape of {names[act]}"
        resolved = (
            f"it resolves {count} of {len(causes)} unknown shapes" if count else "resolves more together with those above"
        )
        said.append(f"{way}: {resolved}" if len(chosen) > 1 else way)
    first = [node_id for act, _ in chosen for node_id in acts[act]]
    named = ", ".join(f"{names[node_id]} {_dims(missing[node_id])}" for node_id in first[:MAX_NAMED])
    more = f" and {len(first) - MAX_NAMED} more" if len(first) > MAX_NAMED else ""
    error = SketchedValueError(f"placeholders have unknown shapes: {named}{more}")
    error.help = tuple(said)
    return error


def _dims(dims: Dims) -> str:
    return "of unknown rank" if dims is None else format_dims(dims)


def suggest_settlements(error: SketchedValueError, opened: Sequence[frozenset[str]] = ()) -> tuple[str, ...]:
    """Return remedies for an error that an unknown value causes: to feed values, or to execute the graph.

    `opened` has, for each tensor whose shape depends on values, the feeds that determine these values. The feeds that determine
    the most shapes come first.
    """
    said = []
    sets = [causes for causes in opened if UNTOLD not in causes]
    if error.roots and error.roots not in sets:
        sets.append(error.roots)
    together = sorted({tuple(sorted(some)) for some in sets}, key=lambda names: (len(names), names))
    for names, count in choose_settlements(sets, {names: names for names in together})[:MAX_NAMED]:
        ways = " and ".join(f"`--feed {name}=VALUE`" for name in names)
        resolves = "resolve" if len(names) > 1 else "resolves"
        is_all = error.node is not None and len(opened) <= 1
        shapes = (
            f"{count} of {len(opened)} shapes that depend on values"
            if len(opened) > 1
            else "the only shape that depends on values"
        )
        said.append(f"{ways} {resolves} {'it' if is_all else shapes}")
    return (*said, "`--execute` runs the graph with numpy to get all sizes")


def _sketch_feed(graph: Graph, feed: Feed, ref: TensorRef, wanted: FeedShapes, directory: Path, files: FileAccess) -> Any:
    node = graph.nodes[ref.node]
    if isinstance(feed.value, GeneratedFeed):
        given: Any = fed_sketch(tuple(feed.value.shape), node, ref.slot)
    else:
        _, given = resolve_feed(graph, feed, directory, files)
    dims = _settled(node, given.shape, wanted) if ref.slot == 0 else given.shape
    if dims != given.shape or math.prod(given.shape) > MAX_KNOWN_ELEMENTS or isinstance(given, Sketch):
        return fed_sketch(tuple(dims or ()), node, ref.slot)
    return given


def _settled(node: Node, dims: Dims, wanted: FeedShapes) -> Dims:
    """Return the shape `dims` of a placeholder, with the dimensions that the user gives."""
    declared = declared_dims(node)
    if node.name in wanted.shapes:
        shape = tuple(wanted.shapes[node.name])
        if declared is not None and not _fits(shape, declared):
            raise UsageError(f"wrong shape of {node.name}: got {format_dims(shape)}, expected {format_dims(declared)}")
        return shape
    if wanted.batch is not None and dims and declared and declared[0] < 0:
        return (wanted.batch, *dims[1:])
    return dims


def _fits(shape: tuple[int, ...], declared: tuple[int, ...]) -> bool:
    return len(shape) == len(declared) and all(said in (given, -1) for given, said in zip(shape, declared, strict=True))


def loop_frames(graph: Graph, added: Iterable[NodeDef] = ()) -> list[str]:
    """Return the names of all loops of a graph, its functions and the `added` nodes: frame names, or names of loop ops."""
    found: dict[str, None] = {}
    nodes: Iterable[Node | NodeDef] = chain(graph.nodes, added, *(function.nodes for function in graph.functions.values()))
    for node in nodes:
        if node.op in ENTERS:
            found[str(node.attrs["frame_name"])] = None
        elif node.op in LOOPS:
            found[node.name] = None
    return list(found)


def count_dry_run_nodes(graph: Graph, steps: Sequence[GraphStep] | None) -> int | None:
    """Return how many nodes a dry run of all steps visits at most, if it visits each function body once per step.

    Return None if the graph has loops.
    """
    bodies = [function.nodes for function in graph.functions.values()]
    ops = chain((node.op for node in graph.nodes), (node.op for body in bodies for node in body))
    if not _LOOPS.isdisjoint(ops):
        return None
    return (1 if steps is None else sum(step.repeat for step in steps)) * (len(graph) + sum(map(len, bodies)))


def has_open_batch(graph: Graph) -> bool:
    """Whether the first dimension of any placeholder is unknown."""
    return any(node.op in UNFED_PLACEHOLDERS and (declared_dims(node) or (0,))[0] < 0 for node in graph.nodes)


def check_batch(graph: Graph) -> None:
    """Raise UsageError if no placeholder has an unknown batch dimension."""
    if not has_open_batch(graph):
        error = UsageError("no batch dimension: got --batch, expected a placeholder with an unknown first dimension")
        declared = tuple(f"{name} is declared as {shape}" for name, shape in declared_shapes(graph)[:MAX_NAMED])
        error.help = (*declared, *(("in a graph file, `shape: [null, ...]` leaves the batch open",) if declared else ()))
        raise error


def declared_shapes(graph: Graph) -> list[tuple[str, str]]:
    """Return each placeholder's name and shape as text."""
    return [(node.name, format_dims(declared_dims(node))) for node in graph.nodes if node.op in UNFED_PLACEHOLDERS]


def _unfed_placeholders(graph: Graph, targets: Sequence[int], fed: Mapping[TensorRef, Any]) -> list[Node]:
    """Return the placeholders that the targets need and that are not fed, in graph order."""
    needed = _ancestors(graph, targets, fed) - {ref.node for ref in fed}
    return [graph.nodes[i] for i in sorted(needed) if graph.nodes[i].op in UNFED_PLACEHOLDERS]


def _ancestors(graph: Graph, targets: Sequence[int], fed: Mapping[TensorRef, Any]) -> set[int]:
    """Return the targets and all nodes that they need, directly or indirectly, except through fed tensors."""
    seen = set(targets)
    waiting = list(seen)
    fed_nodes = {ref.node for ref in fed}
    while waiting:
        node = graph.nodes[waiting.pop()]
        inputs = node.input_nodes
        if not fed_nodes.isdisjoint(inputs):
            inputs = tuple(i for i, slot in zip(inputs, node.input_slots, strict=True) if TensorRef(i, slot) not in fed)
        for needed in (*inputs, *node.control_inputs):
            if needed not in seen:
                seen.add(needed)
                waiting.append(needed)
    return seen
