"""Errors and log lines for a device that runs out of memory, recorded word for word in TensorFlow 2.21.

The help of an error is written by placesim: it says who holds the memory in use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from placesim.core.byte_counts import human_readable_bytes
from placesim.core.dtypes import DataType
from placesim.core.errors import InvalidArgumentError, OpError, ResourceExhaustedError
from placesim.graph.node_text import node_tail
from placesim.machine.memory.allocator_log import DumpLine
from placesim.machine.memory.allocator_state import rounded_up
from placesim.machine.memory.buffer_sources import DeviceSource
from placesim.machine.memory.buffers import Buffer
from placesim.ops.attributes import TensorValue
from placesim.ops.kernels.memory_rules import Kind
from placesim.ops.kernels.shapes import Dims, format_dims
from placesim.ops.registry import load_registry
from placesim.runtime.executors.program import Instruction, Program
from placesim.runtime.partitioning.pruning import feed_name

_HINT = (
    "\nHint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom to "
    "RunOptions for current allocation info. This isn't available when running in Eager mode.\n"
)
MAX_LISTED_NODES = 101
LISTED_SHARE = 0.99
MAX_HOLDERS = 10
_REMEDIES = {
    "--no-memory-limit": "`--no-memory-limit` runs it without limits",
    "--log-memory": "`--log-memory` prints TensorFlow's allocator dump",
    "--dump": "`--dump` prints TensorFlow's allocator dump",
}
MAX_LOGGED = 14912
"""Maximum length of a line in TensorFlow's log."""
_RUNNING, _MAKING = 1858, 1834
"""Line numbers in op_kernel.cc at which TensorFlow logs a failed kernel, and a kernel that could not be created."""
_CONSTANT_LINE = "constant_op.cc:83"
"""Source line that creates the kernel of a constant."""
_BINARY_LINES = ("cwise_ops_common.h:111", "cwise_ops_common.h:124", "cwise_ops_common.h:138", "cwise_ops_common.cc:82")
"""Source lines that allocate the output of a binary op: equal shapes, scalar first input, scalar second input, other shapes."""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Options of an out-of-memory error; `report_tensor_allocations_upon_oom` adds TensorFlow's list of allocations in use."""

    report_tensor_allocations_upon_oom: bool = False


class FailureUsage(NamedTuple):
    """A device's memory when an allocation of `size` bytes fails; the buffers `live` are in use.

    `kept` maps each buffer that outlives the step to a text with its owner. `last_readers` maps each other buffer to a text
    with the event after which the buffer would be freed.
    """

    source: DeviceSource
    size: int
    live: tuple[Buffer, ...]
    kept: Mapping[Buffer, str]
    last_readers: Mapping[Buffer, str]


class MemoryFailure(NamedTuple):
    """An error and TensorFlow's log line for it; `line` is None if the line's place in TensorFlow's source is unknown."""

    error: OpError
    line: DumpLine | None


def kernel_failure(
    program: Program,
    instruction: Instruction,
    asked: Kind,
    usage: FailureUsage,
    options: ReportOptions,
    *,
    inputs: Sequence[Dims] = (),
    is_temporary: bool = False,
) -> MemoryFailure:
    """Return the failure of a kernel that can't allocate an output or, if `is_temporary`, a temporary tensor.

    `asked` is the tensor's shape and type; `inputs` are the shapes of the kernel's inputs.
    """
    dims, dtype = asked
    device = program.state.device.name
    text = _out_of_memory_text(dims, dtype, device, usage)
    line = _source_line(instruction.node.op, inputs, is_temporary=is_temporary)
    return MemoryFailure(
        _exhausted(program, instruction, text, _addition(options, device, usage), usage),
        None if line is None else _failure_line(_RUNNING, line, ResourceExhaustedError, text),
    )


def transfer_failure(program: Program, instruction: Instruction, usage: FailureUsage, options: ReportOptions) -> MemoryFailure:
    """Return the failure to allocate a received tensor. It lists no allocations, as TensorFlow's text names no allocator."""
    sender, receiver, name = instruction.key or ("", "", "")
    incarnation = int(instruction.attrs.get("send_device_incarnation", 0))
    key = f"{sender};{incarnation:016x};{receiver};{name};0:0"
    text = f"SameWorkerRecvDone unable to allocate output tensor. Key: {key}"
    addition = "\n" if options.report_tensor_allocations_upon_oom else _HINT
    return MemoryFailure(_exhausted(program, instruction, text, addition, usage), None)


def constant_failure(
    program: Program, instruction: Instruction, tensor: TensorValue, usage: FailureUsage, *, on_host: bool
) -> MemoryFailure:
    """Return the failure to create a constant's kernel; if `on_host`, its text says that the proto can't be parsed."""
    from placesim.runtime.accounting.tensor_text import ProtoText

    node = instruction.node
    kind: type[OpError]
    if on_host:
        kind, text = InvalidArgumentError, ProtoText("Cannot parse tensor from proto: ", tensor)
        message, logged = text.shortened(node_tail("", node.name)), text.start(MAX_LOGGED)
    else:
        kind = ResourceExhaustedError
        logged = f"OOM when allocating tensor of shape {format_dims(tensor.array.shape)} and type {tensor.dtype.name}"
        message = logged + node_tail(logged, node.name)
    error = kind(message, node=node.name, location=program.graph.location(node), device=program.state.device.name)
    error.help, error.remedies = _help(usage), _REMEDIES
    return MemoryFailure(error, _failure_line(_MAKING, _CONSTANT_LINE, kind, logged))


def value_error(variable: str, kind: Kind, device: str, usage: FailureUsage) -> OpError:
    """Return the error for a variable whose initial value does not fit."""
    dims, dtype = kind
    text = _out_of_memory_text(dims, dtype, device, usage)
    error = ResourceExhaustedError(text + node_tail(text, variable), node=variable, device=device)
    error.help, error.remedies = _help(usage), _REMEDIES
    return error


def caller_error(error: OpError, caller: str, options: ReportOptions) -> OpError:
    """Return the error of a node that called a function, from the function's error."""
    addition = "\n" if options.report_tensor_allocations_upon_oom else _HINT
    message = error.message + node_tail(error.message, caller) + addition
    found = type(error)(message, node=error.node, location=error.location, device=error.device)
    found.help, found.remedies = error.help, error.remedies
    return found


def abort_line(error: OpError) -> DumpLine:
    """Return the log line for an error that ends a step or a function."""
    return DumpLine(
        "W", "local_rendezvous.cc", 412, f"Local rendezvous is aborting with status: {error.code}: {error.message}"[:MAX_LOGGED]
    )


def _out_of_memory_text(dims: Dims, dtype: DataType, device: str, usage: FailureUsage) -> str:
    shape = format_dims(dims)
    return f"OOM when allocating tensor with shape{shape} and type {dtype.name} on {device} by allocator {usage.source.name}"


def _source_line(op: str, inputs: Sequence[Dims], *, is_temporary: bool) -> str | None:
    """Return the place `FILE:LINE` where an op's kernel allocates; recorded in one TensorFlow release, and used for all."""
    definition = load_registry().op(op)
    if definition is None:
        return None
    if is_temporary:
        return definition.temporary_source
    return _binary_line(*inputs) if definition.output_source in _BINARY_LINES else definition.output_source


def _binary_line(one: Dims, two: Dims) -> str:
    """Return the place where an elementwise op with two inputs allocates: it depends on which input is broadcast."""
    equal, scalar_first, scalar_second, broadcast = _BINARY_LINES
    if one == two:
        return equal
    return scalar_second if two == () else scalar_first if one == () else broadcast


def _failure_line(line: int, place: str, kind: type[OpError], text: str) -> DumpLine:
    return DumpLine("W", "op_kernel.cc", line, f"OP_REQUIRES failed at {place} : {kind.code}: {text}"[:MAX_LOGGED])


def _exhausted(program: Program, instruction: Instruction, text: str, addition: str, usage: FailureUsage) -> OpError:
    node = instruction.node
    error = ResourceExhaustedError(
        text + node_tail(text, node.name) + addition,
        node=node.name,
        location=program.graph.location(node),
        device=program.state.device.name,
    )
    error.help, error.remedies = _help(usage), _REMEDIES
    return error


def _addition(options: ReportOptions, device: str, usage: FailureUsage) -> str:
    """Return the end of an error's text: a hint, or this step's allocations that are still in use, by node, largest first."""
    if not options.report_tensor_allocations_upon_oom:
        return _HINT
    by_node: Counter[str] = Counter()
    for buffer in usage.source.live:
        if buffer not in usage.kept:
            by_node[buffer.owner] += buffer.allocated
    if not by_node:
        return "\n"
    lines = [f"\n\nCurrent usage from device: {device}, allocator: {usage.source.name}\n"]
    total, listed, count = by_node.total(), 0, 0
    for count, (name, size) in enumerate(by_node.most_common(), 1):
        lines.append(f"  {human_readable_bytes(size)} from {name}\n")
        listed += size
        if count >= MAX_LISTED_NODES or listed >= total * LISTED_SHARE:
            break
    if count < len(by_node):
        lines.append(f"  Remaining {len(by_node) - count} nodes with {human_readable_bytes(total - listed)}\n")
    return "".join(lines)


# --- in our own words -----------------------------------------------------------------------------------------------


def _help(usage: FailureUsage) -> tuple[str, ...]:
    """Return the lines of help: the missing bytes, and the largest tensors in use with their owners."""
    source, size = usage.source, human_readable_bytes(usage.size)
    in_use = sum(buffer.allocated for buffer in usage.live)
    limit = in_use if source.limit is None else source.limit
    used, needed = human_readable_bytes(in_use), rounded_up(usage.size) + sum(rounded_up(b.size) for b in usage.live)
    lines = [f"{used} of {human_readable_bytes(limit)} of {source.name} are in use when {size} are requested"]
    if needed > limit:
        lines.append(f"at least {human_readable_bytes(needed - limit)} more are needed here")
    else:
        lines.append("it would fit in total, but the allocator's memory is fragmented")
    held = sorted(usage.live, key=lambda buffer: -buffer.allocated)
    largest = [f"{human_readable_bytes(buffer.allocated)} {_holding(buffer, usage)}" for buffer in held]
    return (*lines, *largest[:MAX_HOLDERS], *_rest(held[MAX_HOLDERS:]))


def _rest(buffers: Sequence[Buffer]) -> list[str]:
    if not buffers:
        return []
    size = human_readable_bytes(sum(buffer.allocated for buffer in buffers))
    return [f"{size} in {len(buffers)} smaller tensor{'s' * (len(buffers) > 1)}"]


def _holding(buffer: Buffer, usage: FailureUsage) -> str:
    """Return a text with the owner of a buffer and the event after which it is freed."""
    if buffer in usage.kept:
        return f"{usage.kept[buffer]}: stays after the step"
    return f"{feed_name(buffer.owner)}: {usage.last_readers.get(buffer, 'until the step ends, at the latest')}"
