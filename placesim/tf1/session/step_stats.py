"""What a step did -> the RunMetadata that a script asked for: when each kernel really ran, and what each device was given."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from placesim.runtime.measuring import RECEIVED

if TYPE_CHECKING:
    from placesim.graph.graph import TensorRef
    from placesim.runtime.measuring import Measurements
    from placesim.runtime.requests import Fetched
    from placesim.runtime.session import Session

_MICRO = 1000


def fill_metadata(
    metadata: Any,
    options: Any,
    measurements: Measurements | None,
    session: Session,
    fetched: Sequence[Fetched],
    feeds: Mapping[TensorRef, Any],
) -> None:
    """Put into a RunMetadata message what a RunOptions message asks for."""
    metadata.Clear()
    if measurements is not None:
        write_step_stats(metadata.step_stats, measurements)
    if options is not None and options.output_partition_graphs:
        _write_partitions(metadata, session, fetched, feeds)


def write_step_stats(message: Any, measurements: Measurements) -> None:
    """The kernels that ran, by device in the order of their starts, with times since the epoch as TensorFlow has them."""
    since_epoch = time.time_ns() - time.perf_counter_ns()
    by_device: dict[str, list[tuple[int, int, int, str, str]]] = {}
    runs, moved = measurements.runs, measurements.transfers
    for i in range(0, len(runs), 4):
        number, start, end, thread = runs[i : i + 4]
        device, graph, node = measurements.nodes[number]
        label = f"{node.name} = {node.op}({', '.join(graph.input_texts(node))})"
        by_device.setdefault(device, []).append((start, end, thread, node.name, label))
    for i in range(0, len(moved), 4):
        way, start, end, _ = moved[i : i + 4]
        tensor, sender, receiver, _, _ = measurements.ways[way]
        label = f"{tensor} = {RECEIVED}({sender} to {receiver})"
        by_device.setdefault(receiver, []).append((start, end, 0, tensor, label))
    threads = {thread: number for number, thread in enumerate(measurements.threads)}
    for device in sorted(by_device):
        stats = message.dev_stats.add(device=device)
        for start, end, thread, name, label in sorted(by_device[device]):
            began, took = start + since_epoch, end - start
            stats.node_stats.add(
                node_name=name,
                all_start_micros=began // _MICRO,
                op_end_rel_micros=took // _MICRO,
                all_end_rel_micros=took // _MICRO,
                timeline_label=label,
                scheduled_micros=began // _MICRO,
                thread_id=threads.get(thread, 0),
                all_start_nanos=began,
                op_end_rel_nanos=took,
                all_end_rel_nanos=took,
                scheduled_nanos=began,
            )


def _write_partitions(metadata: Any, session: Session, fetched: Sequence[Fetched], feeds: Mapping[TensorRef, Any]) -> None:
    from placesim.formats.tensorflow.graph_def import write_partitions
    from placesim.formats.tensorflow.messages import parse
    from placesim.runtime.prepared import wanted_of

    prepared = session.prepared_for(wanted_of(feeds, fetched))
    parts = {part.device.name: part.graph for part in prepared.partitions.parts}
    for data in write_partitions(parts).values():
        metadata.partition_graphs.append(parse("GraphDef", data))
