"""Writer of device annotations (IR version 11) into the bytes of an ONNX model; all other bytes stay the same.

Each node with a device gets an entry of the configuration WRITTEN, which puts all its outputs on the device. Entries of other
configurations stay. Source of the field numbers: `onnx.proto`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from placesim.core.protobuf_wire import BYTES, VARINT, Field, field_head, fields, message_field, number_field
from placesim.formats.onnx.devices import CONFIGURATION_FIELD, DEVICE_CONFIGURATIONS_FIELD
from placesim.formats.onnx.reader import OnnxFile

WRITTEN = "placesim"
"""Name of the configuration."""
_IR_VERSION, _GRAPH, _NODE, _OUTPUT = 1, 7, 1, 2
_NAME, _DEVICE_COUNT, _DEVICE = 1, 2, 3
_ID, _SHARDING, _TENSOR, _ON = 1, 2, 1, 2
_LEAST_IR_VERSION = 11
"""The IR version that introduced these annotations."""

Pieces = Iterator[bytes | memoryview]


def annotate_model(data: bytes, devices: Mapping[str, str]) -> Pieces:
    """Yield the bytes of a ModelProto with devices for nodes of its graph, in pieces.

    `devices` has the device of a node by its first named output. The new configuration comes first, because readers use the
    first one.
    """
    view = memoryview(data)
    names = list(dict.fromkeys(devices.values()))
    numbers = {name: number for number, name in enumerate(names)}
    top = list(fields(view))
    version = next((field.number_value for field in top if field.number == _IR_VERSION and field.wire_type == VARINT), 0)
    yield number_field(_IR_VERSION, max(version, _LEAST_IR_VERSION))
    if names:
        parts = [message_field(_NAME, WRITTEN.encode()), number_field(_DEVICE_COUNT, len(names))]
        parts += [message_field(_DEVICE, name.encode()) for name in names]
        yield message_field(CONFIGURATION_FIELD, b"".join(parts))
    for field in top:
        if field.number == _IR_VERSION or (field.number == CONFIGURATION_FIELD and _text_in(view, field, _NAME) == WRITTEN):
            continue
        if field.number != _GRAPH or field.wire_type != BYTES:
            yield view[field.start : field.end]
            continue
        pieces = list(_graph(view, field, devices, numbers))
        yield field_head(_GRAPH, sum(map(len, pieces)))
        yield from pieces


def _graph(view: memoryview, graph: Field, devices: Mapping[str, str], numbers: Mapping[str, int]) -> Pieces:
    kept_from = graph.value_start
    for field in fields(view, graph.value_start, graph.end):
        if field.number != _NODE or field.wire_type != BYTES:
            continue
        outputs, kept = _node(view, field)
        first = next(filter(None, outputs), "")
        device = devices.get(first)
        entry = b"" if device is None else _entry(outputs, numbers[device])
        yield view[kept_from : field.start]
        yield field_head(_NODE, sum(map(len, kept)) + len(entry))
        yield from kept
        yield entry
        kept_from = field.end
    yield view[kept_from : graph.end]


def _node(view: memoryview, node: Field) -> tuple[list[str], list[memoryview]]:
    """Return the names of a node's outputs, and its bytes without earlier device annotations."""
    outputs: list[str] = []
    kept: list[memoryview] = []
    for field in fields(view, node.value_start, node.end):
        if field.number == _OUTPUT:
            outputs.append(str(view[field.value_start : field.end], "utf-8", "replace"))
        if field.number != DEVICE_CONFIGURATIONS_FIELD or _text_in(view, field, _ID) != WRITTEN:
            kept.append(view[field.start : field.end])
    return outputs, kept


def _entry(outputs: list[str], number: int) -> bytes:
    """Return a NodeDeviceConfigurationProto that puts each output, as a whole, on one device."""
    on = number_field(_ON, number, is_written=True)
    specs = [message_field(_SHARDING, message_field(_TENSOR, name.encode()) + on) for name in outputs if name]
    return message_field(DEVICE_CONFIGURATIONS_FIELD, message_field(_ID, WRITTEN.encode()) + b"".join(specs))


def _text_in(view: memoryview, message: Field, number: int) -> str:
    """Return the text of a field in a message."""
    if message.wire_type != BYTES:
        return ""
    found = (field for field in fields(view, message.value_start, message.end) if field.number == number)
    return next((str(view[field.value_start : field.end], "utf-8", "replace") for field in found), "")


def node_devices(found: OnnxFile, nodes: Mapping[str, str]) -> dict[str, str]:
    """Return the device of each ONNX node, by its first output: the device of most nodes that were made from it.

    `nodes` has the devices of the graph's nodes by name. If several devices have the most nodes, the
    device of the last of these nodes is returned.
    """
    graph = found.file.graph
    devices = {}
    for name, (start, end) in found.made.items():
        on = [device for node in graph.nodes[start:end] if (device := nodes.get(node.name))]
        if on:
            counts = Counter(reversed(on))
            devices[name] = max(counts, key=counts.__getitem__)
    return devices
