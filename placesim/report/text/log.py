"""The lines that TensorFlow logs for placements: the device mapping, and one line for each node.

The style `modern` is the style of TensorFlow 2.x. The style `classic` is the style of TensorFlow's first guides: no op types,
no compute capability, and CPUs written as `/cpu:0`. Its nodes are in post-order from the fetches, with each node's inputs from
last to first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple

from placesim.core.escaping import escape_line
from placesim.core.styled_text import Role, StyledText, device
from placesim.graph.graph import Graph, Signature
from placesim.machine.gpu_memory import GpuLogLine as CreationLine
from placesim.machine.inventory import Device
from placesim.placement.placer import Placement

Shows = Callable[[str], bool]
_PIECE_LINES = 1 << 12
_NO_DEVICES = "Device mapping: no known devices."


class LineEnd(NamedTuple):
    """The part of a line after the node's name: `text`, which contains `op` and `device`."""

    op: str
    device: str
    text: str


LogLine = tuple[str, LineEnd]
"""A node's name, and the end of its line. Nodes with equal ends share the object."""


class _LineEnds(dict[tuple[Signature, str], LineEnd]):
    """Line ends by node signature and device name, each created once."""

    def __missing__(self, key: tuple[Signature, str]) -> LineEnd:
        signature, device = key
        found = self[key] = line_end(f" ({escape_line(signature.op)}):", device)
        return found


def line_end(op: str, device: str) -> LineEnd:
    """Return the end of a line after the node's name, from its colon on."""
    return LineEnd(op, device, f":{op} {device}\n")


def format_mapping(lines: Sequence[str]) -> StyledText:
    """Return the mapping's lines and heading. For a machine with only CPUs TensorFlow says that it knows no devices (9.1)."""
    head = StyledText("Device mapping:" if lines else _NO_DEVICES, role=Role.HEAD)
    return StyledText(head, "\n", *(f"{line}\n" for line in lines))


def mapping_lines(devices: Iterable[Device], classic: bool = False) -> tuple[str, ...]:
    """Return one line for each device with a physical description, in order of creation."""
    lines = (device.mapping_line for device in devices if device.physical_device_desc)
    return tuple(line.partition(", compute capability")[0] if classic else line for line in lines)


def creation_lines(log: Iterable[CreationLine], devices: Iterable[Device], classic: bool = False) -> tuple[str, ...]:
    """Return TensorFlow's log lines for the GPUs that it creates (10.2.2)."""
    if not classic:
        return tuple(line.text for line in log if line.severity == "I")
    gpus = [device for device in devices if device.type == "GPU"]
    described = [gpu.physical_device_desc.partition(", compute capability")[0] for gpu in gpus]
    return tuple(
        f"Creating TensorFlow device (/gpu:{gpu.spec.id}) -> ({text})" for gpu, text in zip(gpus, described, strict=True)
    )


def format_lines(lines: Iterable[LogLine]) -> str:
    """Join lines of the log."""
    return "".join([f"{node}{end.text}" for node, end in lines])


def format_pieces(lines: Iterable[LogLine]) -> Iterator[str]:
    """Yield the log in pieces of many whole lines."""
    rest = iter(lines)
    while piece := format_lines(islice(rest, _PIECE_LINES)):
        yield piece


def mark_lines(lines: Iterable[LogLine]) -> StyledText:
    """Return lines of the log as styled text."""
    return StyledText(*[part for line in lines for part in _marked_parts(*line)])


def _marked_parts(node: str, end: LineEnd) -> Iterator[str]:
    yield StyledText(f"{node}:", role=Role.NODE)
    yield StyledText(end.op, role=Role.OP)
    yield from (" ", device(end.device), "\n")


def modern_lines(placements: Iterable[Placement], shows: Shows | None = None) -> Iterator[LogLine]:
    """Return a line for each node, in TensorFlow 2.x's format."""
    return chain.from_iterable(_placement_lines(placement, shows) for placement in placements)


def _placement_lines(placement: Placement, shows: Shows | None) -> Iterator[LogLine]:
    names, devices, classes = placement.graph.names(), placement.devices, placement.groups.classes
    of_classes = [signature for signature, _, _ in classes.classes]
    signatures = list(map(of_classes.__getitem__, classes.numbers.tolist()))
    ends = _LineEnds()
    shown = placement.log if shows is None else [i for i in placement.log if shows(names[i])]
    return ((names[i], ends[signatures[i], devices[i].name]) for i in shown)  # type: ignore[union-attr]


def classic_lines(placements: Iterable[Placement], fetches: Sequence[str], shows: Shows | None = None) -> Iterator[LogLine]:
    """Yield a line for each node in the classic format, without ops; `fetches` has the names of the fetched nodes."""
    for placement in placements:
        nodes, devices = placement.graph.nodes, placement.devices
        ends = {device: line_end("", classic_name(device)) for device in placement.device_set.devices}
        placed = ((nodes[i].name, devices[i]) for i in classic_order(placement.graph, fetches))
        yield from ((name, ends[device]) for name, device in placed if device is not None and (shows is None or shows(name)))


def classic_name(device: Device) -> str:
    """Return a device's name, with CPUs in the short form that TensorFlow used up to 1.3, such as `/cpu:0` (0.5)."""
    return device.name.replace("/device:CPU:", "/cpu:")


def classic_order(graph: Graph, fetches: Sequence[str]) -> list[int]:
    """Return node ids in classic order: each node comes after its inputs, which are visited from last to first.

    The search starts at the fetches, then at nodes that no node reads, and then at all remaining nodes.
    """
    order: list[int] = []
    visited = bytearray(len(graph))
    fetched = [graph.ids[name] for name in fetches if name in graph.ids]
    for start in (*fetched, *(node.id for node in graph.sinks()), *range(len(graph))):
        if not visited[start]:
            _visit(graph, start, visited, order)
    return order


def _visit(graph: Graph, start: int, visited: bytearray, order: list[int]) -> None:
    visited[start] = 1
    waiting: list[tuple[int, Iterator[int]]] = [(start, _inputs_from_last(graph, start))]
    while waiting:
        node_id, inputs = waiting[-1]
        following = next((i for i in inputs if not visited[i]), None)
        if following is None:
            order.append(node_id)
            waiting.pop()
        else:
            visited[following] = 1
            waiting.append((following, _inputs_from_last(graph, following)))


def _inputs_from_last(graph: Graph, node_id: int) -> Iterator[int]:
    node = graph.nodes[node_id]
    return reversed((*node.input_nodes, *node.control_inputs))
