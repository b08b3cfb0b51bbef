"""Reader of an XSpace: the file `*.xplane.pb` that TensorFlow's profiler writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placesim.core.protobuf_wire import WireError
from placesim.formats.tensorflow.messages import parse
from placesim.formats.traces.profiler_events import DEVICE_PLANE, HOST_PLANE, ProfilerEvent, profiled_steps
from placesim.machine.timelines.measured_steps import Measurement

_PICO, _NANO = 1e-12, 1e-9
_STEP_NUMBER, _NODE = "step_num", "tf_op"


def read_xplane(content: bytes) -> Measurement | None:
    """Read the planes of the host and its devices; None if the bytes are no XSpace."""
    try:
        space = parse("XSpace", content)
    except WireError:
        return None
    planes = [plane for plane in space.planes if HOST_PLANE in plane.name or DEVICE_PLANE in plane.name]
    if not planes:
        return None
    first = min((line.timestamp_ns for plane in planes for line in plane.lines), default=0)
    return Measurement("a profile", profiled_steps(event for plane in planes for event in _events(plane, first)))


def _events(plane: Any, first: int) -> Iterator[ProfilerEvent]:
    """Yield the events of a plane; times count from the nanosecond `first`."""
    texts = {number: stat.name for number, stat in plane.stat_metadata.items()}
    names = {number: event.name for number, event in plane.event_metadata.items()}
    wanted = {number for number, name in texts.items() if name in (_STEP_NUMBER, _NODE)}
    for line in plane.lines:
        for event in line.events:
            stats = {texts[stat.metadata_id]: stat for stat in event.stats if stat.metadata_id in wanted}
            node = stats.get(_NODE)
            node_name = () if node is None else (node.str_value or texts.get(node.ref_value, ""),)
            yield ProfilerEvent(
                plane.name,
                line.name,
                (names.get(event.metadata_id, ""), *node_name),
                (line.timestamp_ns - first) * _NANO + event.offset_ps * _PICO,
                event.duration_ps * _PICO,
                _STEP_NUMBER in stats,
            )
