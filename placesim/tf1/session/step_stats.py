"""Statistics of a step -> RunMetadata: measured kernel times, outputs, memory of devices."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from placesim.ops.categories import PERSISTENT
from placesim.ops.process.memory_limit import allocator_name
from placesim.runtime.recording.kernel_timing import RECEIVED

if TYPE_CHECKING:
    from placesim.graph.graph import TensorRef
    from placesim.runtime.partitioning.step_requests import RequestedName
    from placesim.runtime.recording.kernel_timing import Measurements
    from placesim.runtime.recording.output_descriptions import OutputRecord
    from placesim.runtime.sessions.session import GraphSession

_MICRO = 1000


def fill_metadata(
    metadata: Any,
    options: Any,
    measurements: Measurements | None,
    session: GraphSession,
    fetched: Sequence[RequestedName],
    feeds: Mapping[TensorRef, Any],
) -> None:
    """Fill a RunMetadata message as RunOptions request."""
    metadata.Clear()
    if measurements is not None:
        write_step_stats(metadata.step_stats, measurements)
    if options is not None and options.output_partition_graphs:
        _write_partitions(metadata, session, fetched, feeds)


def write_step_stats(message: Any, measurements: Measurements) -> None:
    """Write the kernel runs of each device in the order of their starts, with times since the epoch, as TensorFlow does."""
    since_epoch = time.time_ns() - time.perf_counter_ns()
    by_device: dict[str, list[_Run]] = {}
    runs, moved = measurements.runs, measurements.transfers
    for i in range(0, len(runs), 4):
        number, start, end, thread = runs[i : i + 4]
        node = measurements.nodes[number]
        label = f"{node.name} = {node.op}({', '.join(node.inputs)})"
        outputs = (measurements.outputs or {}).get((number, start), ())
        by_device.setdefault(node.device, []).append(_Run(start, end, thread, node.name, label, node.op, outputs))
    for i in range(0, len(moved), 4):
        way, start, end, _ = moved[i : i + 4]
        tensor, sender, receiver, _, _ = measurements.ways[way]
        label = f"{tensor} = {RECEIVED}({sender} to {receiver})"
        by_device.setdefault(receiver, []).append(_Run(start, end, 0, tensor, label))
    threads = {thread: number for number, thread in enumerate(measurements.threads)}
    for device in sorted(by_device):
        stats = message.dev_stats.add(device=device)
        allocator = allocator_name(device)
        for run in sorted(by_device[device], key=lambda run: run[:5]):
            began, took = run.start + since_epoch, run.end - run.start
            node = stats.node_stats.add(
                node_name=run.name,
                all_start_micros=began // _MICRO,
                op_end_rel_micros=took // _MICRO,
                all_end_rel_micros=took // _MICRO,
                timeline_label=run.label,
                scheduled_micros=began // _MICRO,
                thread_id=threads.get(run.thread, 0),
                all_start_nanos=began,
                op_end_rel_nanos=took,
                all_end_rel_nanos=took,
                scheduled_nanos=began,
            )
            _write_outputs(node, run, allocator)
            _write_memory(node, run, allocator, since_epoch)


class _Run(NamedTuple):
    """Run of a kernel, or transfer of a tensor; `start` and `end` are nanoseconds of `perf_counter_ns`."""

    start: int
    end: int
    thread: int
    name: str
    label: str
    op: str = RECEIVED
    outputs: tuple[OutputRecord, ...] = ()


def _write_outputs(stats: Any, run: _Run, allocator: str) -> None:
    for output in run.outputs:
        described = stats.output.add(slot=output.slot).tensor_description
        described.dtype = output.dtype.number
        described.shape.SetInParent()
        for size in output.shape:
            described.shape.dim.add(size=size)
        allocated = described.allocation_description
        allocated.requested_bytes, allocated.allocator_name, allocated.ptr = output.size, allocator, output.address
        if output.allocation is not None:
            allocated.allocated_bytes = output.size


def _write_memory(stats: Any, run: _Run, allocator: str, since_epoch: int) -> None:
    """Write the run's allocations and their releases within the step; memory kept by an op is persistent."""
    stats.memory_stats.SetInParent()
    if run.op in PERSISTENT:
        stats.memory_stats.persistent_memory_size = sum(output.size for output in run.outputs)
    made = [output.allocation for output in run.outputs if output.allocation is not None]
    if not made:
        return
    total = sum(allocation.size for allocation in made)
    used = stats.memory.add(allocator_name=allocator, total_bytes=total, peak_bytes=total, live_bytes=total)
    for allocation in made:
        used.allocation_records.add(alloc_micros=(allocation.made + since_epoch) // _MICRO, alloc_bytes=allocation.size)
    for allocation in made:
        if allocation.freed is not None:
            moment = (allocation.freed + since_epoch) // _MICRO
            used.allocation_records.add(alloc_micros=moment, alloc_bytes=-allocation.size)


def _write_partitions(
    metadata: Any, session: GraphSession, fetched: Sequence[RequestedName], feeds: Mapping[TensorRef, Any]
) -> None:
    from placesim.formats.tensorflow.graph_def import write_partitions
    from placesim.formats.tensorflow.messages import parse
    from placesim.runtime.partitioning.prepared_step import make_step_request

    prepared = session.prepared_for(make_step_request(feeds, fetched))
    parts = {part.device.name: part.graph for part in prepared.partitions.parts}
    for data in write_partitions(parts).values():
        metadata.partition_graphs.append(parse("GraphDef", data))
