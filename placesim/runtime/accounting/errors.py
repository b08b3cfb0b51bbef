"""TensorFlow's errors where a device has no room for a tensor, and whose the memory is that is in use there."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from placesim.byte_counts import human_readable_bytes
from placesim.dtypes import DType
from placesim.errors import OpError, ResourceExhaustedError
from placesim.graph.node_text import node_tail
from placesim.memory.buffers import Buffer
from placesim.memory.sources import DeviceSource
from placesim.runtime.program import Instruction, Program
from placesim.runtime.shapes import format_dims

_HINT = (
    "\nHint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom to "
    "RunOptions for current allocation info. This isn't available when running in Eager mode.\n"
)
MAX_LISTED_NODES = 101
LISTED_SHARE = 0.99
MAX_HOLDERS = 10


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """What an error tells: with `report_tensor_allocations_upon_oom` TensorFlow's own list of what is in use."""

    report_tensor_allocations_upon_oom: bool = False


def refusal(
    program: Program,
    instruction: Instruction,
    asked: tuple[tuple[int, ...], DType],
    source: DeviceSource,
    kept: Collection[Buffer],
    options: ReportOptions,
) -> OpError:
    """For a kernel that can't get a tensor; `kept` outlives the step, and is not in TensorFlow's list."""
    dims, dtype = asked
    device = program.state.device.name
    text = (
        f"OOM when allocating tensor with shape{format_dims(dims)} and type {dtype.name} on {device} by allocator {source.name}"
    )
    tail = node_tail(text, instruction.node.name)
    after = _current_usage(device, source, kept) if options.report_tensor_allocations_upon_oom else _HINT
    node = instruction.node
    error = ResourceExhaustedError(text + tail + after, node=node.name, location=program.graph.location(node), device=device)
    error.help = tuple(_holders(source, kept))
    return error


def _current_usage(device: str, source: DeviceSource, kept: Collection[Buffer]) -> str:
    """What this step's kernels have allocated and is still in use, by node, largest first; nothing where that is nothing."""
    by_node: dict[str, int] = {}
    for buffer in source.live:
        if buffer not in kept:
            by_node[buffer.owner] = by_node.get(buffer.owner, 0) + buffer.allocated
    if not by_node:
        return ""
    lines = [f"\n\nCurrent usage from device: {device}, allocator: {source.name}\n"]
    total, listed = sum(by_node.values()), 0
    ordered = sorted(by_node.items(), key=lambda item: -item[1])
    count = 0
    for name, size in ordered:
        lines.append(f"  {human_readable_bytes(size)} from {name}\n")
        count, listed = count + 1, listed + size
        if count >= MAX_LISTED_NODES or listed >= total * LISTED_SHARE:
            break
    if count < len(ordered):
        lines.append(f"  Remaining {len(ordered) - count} nodes with {human_readable_bytes(total - listed)}\n")
    return "".join(lines)


def _holders(source: DeviceSource, kept: Collection[Buffer]) -> list[str]:
    """The largest tensors that are in use, and whose they are."""
    limit = "" if source.limit is None else f" of {human_readable_bytes(source.limit)}"
    lines = [f"{human_readable_bytes(source.in_use)}{limit} of {source.name} are in use"]
    for buffer in sorted(source.live, key=lambda buffer: -buffer.allocated)[:MAX_HOLDERS]:
        until = "stays with the session" if buffer in kept else "until its last reader is done"
        lines.append(f"{human_readable_bytes(buffer.allocated)} {buffer.owner}: {until}")
    return lines


def constant_refusal(
    program: Program, instruction: Instruction, dims: tuple[int, ...], dtype: DType, source: DeviceSource
) -> OpError:
    """For a constant whose kernel can't be made."""
    node = instruction.node
    text = f"OOM when allocating tensor of shape {format_dims(dims)} and type {dtype.name}"
    error = ResourceExhaustedError(
        text + node_tail(text, node.name),
        node=node.name,
        location=program.graph.location(node),
        device=program.state.device.name,
    )
    error.help = tuple(_holders(source, ()))
    return error
