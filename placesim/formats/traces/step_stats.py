"""Reader of TensorFlow's RunMetadata: the statistics of one step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placesim.core.protobuf_wire import WireError
from placesim.formats.recognition import is_text
from placesim.formats.tensorflow.messages import message_class, parse, parse_text
from placesim.formats.traces.run_names import kind_of_device, labelled_run
from placesim.machine.timelines.measured_steps import MeasuredRun, Measurement, single_step

_MICRO, _NANO = 1000, 1e-9


def read_run_metadata(content: bytes) -> Measurement | None:
    """Read a RunMetadata in binary or text form; None if the bytes are something else, or it has no statistics."""
    message_class("RunMetadata")
    try:
        found = parse_text("RunMetadata", content) if is_text(content) else parse("RunMetadata", content)
    except WireError:
        return None
    if not found.step_stats.dev_stats:
        return None
    return Measurement("a RunMetadata", (single_step(_runs(found.step_stats)),))


def _runs(statistics: Any) -> Iterator[MeasuredRun]:
    kinds = ((kind_of_device(device.device), device.node_stats) for device in statistics.dev_stats)
    found = [(kind, node, *_nanoseconds(node)) for kind, nodes in kinds if kind is not None for node in nodes]
    first = min((start for _, _, start, _ in found), default=0)
    for kind, node, start, duration in found:
        yield labelled_run(kind, node.node_name, node.timeline_label, (start - first) * _NANO, max(0, duration) * _NANO)


def _nanoseconds(node: Any) -> tuple[int, int]:
    """Return start and duration of a run. Old releases and GPU runs have microseconds only."""
    if node.all_start_nanos:
        return node.all_start_nanos, node.all_end_rel_nanos
    return node.all_start_micros * _MICRO, node.all_end_rel_micros * _MICRO
