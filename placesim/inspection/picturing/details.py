"""Details of a device or a node in a picture: work, tasks, shapes, attrs, and the devices that a request allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from placesim.graph.graph import TensorRef
from placesim.inspection.picturing.picture import Picture, pictured_graphs
from placesim.machine.device_names import ANY, parse_runtime_name
from placesim.ops.attributes import format_attr_value

MAX_LETTERS = 200
"""Maximum number of characters of an attr's text, since a constant's value may be long."""


def device_tasks(devices: Sequence[str]) -> list[str]:
    """Return the task of each device, such as `/job:worker/task:0`; empty texts if there is only one task."""
    specs = [parse_runtime_name(name) or ANY for name in devices]
    several = len({spec.address_space for spec in specs}) > 1
    return [f"/job:{spec.job}/task:{spec.task}" if several else "" for spec in specs]


def device_work(picture: Picture) -> list[float | None]:
    """Return for each device the predicted seconds of its nodes, each in the last step that runs it.

    Without costs, all are None.
    """
    if picture.costs is None:
        return [None] * len(picture.devices)
    found = [0.0] * len(picture.devices)
    for node in picture.nodes:
        cost = picture.costs.of(node.name, ())
        if cost is not None and cost.here is not None and node.device >= 0:
            found[node.device] += cost.here.seconds
    return list(found)


def allowed_devices(request: str, devices: Sequence[str]) -> list[int]:
    """Return the indices of the devices that a request allows; an empty request allows all."""
    spec = parse_runtime_name(request) or ANY
    return [index for index, name in enumerate(devices) if spec.matches(parse_runtime_name(name) or ANY)]


def output_texts(picture: Picture) -> Iterator[tuple[str, ...]]:
    """Yield for each node its outputs, such as `float32 [2,3]`; none in a picture of a written report."""
    graphs = pictured_graphs(picture.live)
    if not graphs:
        yield from ((),) * len(picture.nodes)
        return
    from placesim.ops.kernels.shapes import format_dims
    from placesim.runtime.shapes.graph_shapes import GraphShapes

    for graph in graphs:
        shapes = GraphShapes(graph)
        for node in graph.nodes:
            signature = node.signature
            yield tuple(
                f"{dtype.python_name}{'&' if is_ref else ''} {format_dims(shapes.shape(TensorRef(node.id, slot)))}"
                for slot, (dtype, is_ref) in enumerate(zip(signature.output_dtypes, signature.output_is_ref, strict=True))
            )


def attr_texts(picture: Picture) -> Iterator[tuple[str, ...]]:
    """Yield for each node its attrs with defaults, such as `T: DT_FLOAT`; none in a picture of a written report."""
    graphs = pictured_graphs(picture.live)
    if not graphs:
        yield from ((),) * len(picture.nodes)
    for graph in graphs:
        for node in graph.nodes:
            attrs = sorted(graph.full_attrs(node).items())
            yield tuple(f"{name}: {_clipped(format_attr_value(value))}" for name, value in attrs if not name.startswith("_"))


def _clipped(text: str) -> str:
    return text if len(text) <= MAX_LETTERS else f"{text[:MAX_LETTERS]}…"
