"""What a step that is walked through is fed: the shapes of its placeholders."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from placesim.dtypes import DType
from placesim.errors import UsageError
from placesim.files.access import FileAccess
from placesim.graph.graph import Graph, Node, TensorRef
from placesim.graph.steps import Feed, Generated, Step
from placesim.ops.categories import NEXT_ITERATIONS, UNFED_PLACEHOLDERS, WHILES
from placesim.runtime.kernels.sketch import Sketch, SketchedValueError
from placesim.runtime.requests import Fetched, nearest_names, resolve_fed_tensor, resolve_feed
from placesim.runtime.shapes import Dims, format_dims, is_fully_defined
from placesim.runtime.sketches import MAX_KNOWN_ELEMENTS

MAX_NAMED = 5
_LOOPS = frozenset((*NEXT_ITERATIONS, *WHILES, "For"))


@dataclass(frozen=True, slots=True)
class FeedShapes:
    """What settles open dimensions: shapes by placeholder, and the first dimension of all that leave theirs open."""

    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    batch: int | None = None


def sketch_feeds(
    graph: Graph, step: Step, fetched: Sequence[Fetched], wanted: FeedShapes, directory: Path, files: FileAccess
) -> dict[TensorRef, Any]:
    """What a step is fed, by tensor: small values as they are, of all others, and of placeholders that nothing feeds, a sketch.

    Raises SketchedValueError where a placeholder's shape is open, UsageError for a shape that fits no placeholder, RequestError
    for a feed that fits no tensor.
    """
    for name in wanted.shapes:
        if name not in graph.ids:
            error = UsageError(f"no such placeholder: got '{name}' as the name of a shape, expected a node of the graph")
            error.help = nearest_names(graph, name)
            raise error
    found: dict[TensorRef, Any] = {}
    for feed in step.feeds:
        ref = resolve_fed_tensor(graph, feed)
        found[ref] = _sketch_feed(graph, feed, ref, wanted, directory, files)
    missing: list[tuple[str, Dims]] = []
    for node in _unfed_placeholders(graph, [f.node for f in fetched], found):
        dims = _settled(node, _declared(node), wanted)
        if dims is None or not is_fully_defined(dims):
            missing.append((node.name, dims))
        else:
            found[TensorRef(node.id, 0)] = Sketch(dims, node.signature.output_dtypes[0])
    if missing:
        raise _open_shapes(missing)
    return found


def _open_shapes(missing: Sequence[tuple[str, Dims]]) -> SketchedValueError:
    """For placeholders that are open, with the least that has to be said of them."""
    named = ", ".join(f"{name} {format_dims(dims)}" for name, dims in missing[:MAX_NAMED])
    more = f" and {len(missing) - MAX_NAMED} more" if len(missing) > MAX_NAMED else ""
    error = SketchedValueError(f"the shapes of placeholders are open: {named}{more}")
    # the rest of such a shape is known
    of_batch = [name for name, dims in missing if dims and dims[0] < 0 and is_fully_defined(dims[1:])]
    others = [(name, dims) for name, dims in missing if name not in of_batch]
    said = ["`--batch N` says the first dimension of all"] if of_batch else []
    said += [f"`--shape {name}={_example(dims)}` says that of {name}" for name, dims in others[:MAX_NAMED]]
    error.help = tuple(said)
    return error


def _example(dims: Dims) -> str:
    return "1,2,3" if dims is None else ",".join("N" if dim < 0 else str(dim) for dim in dims)


def ways_to_know(graph: Graph, error: SketchedValueError, fed: Mapping[TensorRef, Any]) -> tuple[str, ...]:
    """What would settle the value that a node depends on: the feeds that it may follow from, or to execute the graph."""
    said = ["`--execute` runs the graph with numpy, and takes what comes"]
    if error.node in graph.ids:
        ahead = _ancestors(graph, [graph.ids[error.node]], {})
        sketches = [(ref.node, value) for ref, value in fed.items() if ref.node in ahead and isinstance(value, Sketch)]
        few = [
            graph.nodes[node].name for node, value in sketches if value.size <= MAX_KNOWN_ELEMENTS and value.dtype.kind in "iub"
        ]
        said = [f"`--feed {name}=VALUE` may tell it" for name in few[:MAX_NAMED]] + said
    return tuple(said)


def _sketch_feed(graph: Graph, feed: Feed, ref: TensorRef, wanted: FeedShapes, directory: Path, files: FileAccess) -> Any:
    node = graph.nodes[ref.node]
    dtype: DType = node.signature.output_dtypes[ref.slot]
    if isinstance(feed.value, Generated):
        given: Any = Sketch(tuple(feed.value.shape), dtype)
    else:
        _, given = resolve_feed(graph, feed, directory, files)
    dims = _settled(node, given.shape, wanted) if ref.slot == 0 else given.shape
    if dims != given.shape or math.prod(given.shape) > MAX_KNOWN_ELEMENTS or isinstance(given, Sketch):
        return Sketch(tuple(dims or ()), dtype)
    return given


def _declared(node: Node) -> Dims:
    shape = node.attrs.get("shape")
    return getattr(shape, "dims", None)


def _settled(node: Node, dims: Dims, wanted: FeedShapes) -> Dims:
    """A placeholder's shape with what was asked for it."""
    declared = _declared(node)
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


def walk_length(graph: Graph, steps: Sequence[Step] | None) -> int | None:
    """How many nodes a walk through all runs of all steps meets at most, functions' bodies once; None where there are loops."""
    bodies = [function.nodes for function in graph.functions.values()]
    ops = chain((node.op for node in graph.nodes), (node.op for body in bodies for node in body))
    if not _LOOPS.isdisjoint(ops):
        return None
    return (1 if steps is None else sum(step.repeat for step in steps)) * (len(graph) + sum(map(len, bodies)))


def has_open_batch(graph: Graph) -> bool:
    """Whether any placeholder leaves its first dimension open."""
    return any(node.op in UNFED_PLACEHOLDERS and (_declared(node) or (0,))[0] < 0 for node in graph.nodes)


def check_batch(graph: Graph) -> None:
    """UsageError where there is nothing that a batch could settle."""
    if not has_open_batch(graph):
        error = UsageError("no batch: got --batch, expected a placeholder whose shape leaves the first dimension open")
        error.help = tuple(f"{name} is declared as {shape}" for name, shape in declared_shapes(graph)[:MAX_NAMED])
        raise error


def declared_shapes(graph: Graph) -> list[tuple[str, str]]:
    """Each placeholder's name, and its shape as text."""
    return [(node.name, format_dims(_declared(node))) for node in graph.nodes if node.op in UNFED_PLACEHOLDERS]


def _unfed_placeholders(graph: Graph, targets: Sequence[int], fed: Mapping[TensorRef, Any]) -> list[Node]:
    """The placeholders that these nodes need and that nothing feeds, in graph order."""
    needed = _ancestors(graph, targets, fed) - {ref.node for ref in fed}
    return [graph.nodes[i] for i in sorted(needed) if graph.nodes[i].op in UNFED_PLACEHOLDERS]


def _ancestors(graph: Graph, targets: Sequence[int], fed: Mapping[TensorRef, Any]) -> set[int]:
    """These nodes and all that they need, but for what is fed."""
    seen = set(targets)
    waiting = list(seen)
    while waiting:
        node = graph.nodes[waiting.pop()]
        inputs = (i for i, slot in zip(node.input_nodes, node.input_slots, strict=True) if TensorRef(i, slot) not in fed)
        for needed in (*inputs, *node.control_inputs):
            if needed not in seen:
                seen.add(needed)
                waiting.append(needed)
    return seen
