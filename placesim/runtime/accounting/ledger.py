"""The memory ledger of a session: the buffers of its devices, their holders, and the buffers that outlive a step.

Kernels compute with numpy. For each kernel, the ledger allocates and frees buffers as TensorFlow's kernel does
(`kernels/memory_rules.py`). Constants, variables and resources outlive a step. Other buffers are freed after their last reader,
or at the end of the step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from placesim.core.dtypes import RESOURCE
from placesim.core.errors import OpError
from placesim.graph.graph import Node, Signature
from placesim.machine.memory.allocator_log import DumpLine
from placesim.machine.memory.buffer_sources import Clock, DeviceSource
from placesim.machine.memory.buffers import Buffer, OutOfMemory
from placesim.ops.attributes import names_functions
from placesim.ops.categories import OWNED_OUTPUTS
from placesim.ops.kernels.device_resources import ResourceHandle, ResourceManager, VariableResource, value_dims
from placesim.ops.kernels.memory_rules import StoreMemory, TensorMemory, VariableMemory
from placesim.runtime.accounting.call_memory import Call
from placesim.runtime.accounting.default_rule import PlainKernel, is_plain
from placesim.runtime.accounting.node_sites import ENDS, Site
from placesim.runtime.accounting.out_of_memory import (
    FailureUsage,
    MemoryFailure,
    ReportOptions,
    abort_line,
    caller_error,
    constant_failure,
    kernel_failure,
    value_error,
)
from placesim.runtime.executors.program import DeviceState, Instruction, Program
from placesim.runtime.partitioning.memory_types import memory_types
from placesim.runtime.partitioning.prepared_step import PreparedStep

SCRATCH_BYTES = 1024 + 4
"""Bytes of a GPU's scratch buffer, allocated before the GPU's first kernel runs (EigenGpuStreamDevice)."""


class StepRecorder(Protocol):
    """Observes executed steps (`ExecutionRecorder`)."""

    prepared: list[PreparedStep]

    def begin_step(self, key: Hashable) -> None:
        """Begin a step; steps with equal keys run the same nodes."""

    def repeat_step(self, key: Hashable) -> None:
        """Record that the last step with this key is repeated, although its nodes are not observed again."""

    def read(self, node: str, buffer: Buffer) -> None:
        """Record that a node holds a buffer while it runs."""

    def finish(self) -> None:
        """Called when an executor has run all its nodes."""


class Ledger:
    """The memory ledger of one session.

    `sources` has the memory of each device, and `hosts` the host memory that each device's kernels use, by device name. `log`
    is called with TensorFlow's log lines about failures. The session sets `find_resources`, a function that returns the
    resources of a device.
    """

    def __init__(
        self,
        sources: Mapping[str, DeviceSource],
        hosts: Mapping[str, DeviceSource],
        report: ReportOptions,
        log: Callable[[DumpLine], object] | None = None,
    ) -> None:
        self.sources = dict(sources)
        self._hosts = dict(hosts)
        self.clock = Clock()
        for source in self.all_sources():
            source.clock = self.clock
        self._of_others = frozenset(self._live())
        self.find_resources: Callable[[str], ResourceManager] = lambda device: ResourceManager()
        self.report = report
        self.failure: OpError | None = None
        self.recorder: StepRecorder | None = None
        """Observer of executed steps, if any."""
        self.accounts_always = False
        """Whether each repetition of a step is accounted for, even if the step is known to fit."""
        self.is_partial = False
        """Whether some steps were not accounted for, so that the true peak is unknown."""
        self._log = log
        self._aborts = 0
        self._variables: dict[VariableResource, VariableMemory] = {}
        self._variable_dims: dict[VariableResource, tuple[int, ...]] = {}
        self._stores: dict[tuple[str, ...], StoreMemory] = {}
        self._step_stores: set[tuple[str, ...]] = set()
        self._constants: list[Buffer] = []
        self._handles: dict[tuple[str, str], Buffer] = {}
        self._scratch: dict[str, Buffer] = {}
        self._on_host: dict[tuple[Signature, str], tuple[bool, ...]] = {}
        self.calls: list[Call] = []
        self.left_over: tuple[Buffer, ...] = ()
        """Buffers that the last step did not free; empty after a step without an error."""

    def all_sources(self) -> set[DeviceSource]:
        """Return the memory sources of all devices and hosts."""
        return {*self.sources.values(), *self._hosts.values()}

    # --- sites

    def site(self, program: Program, instruction: Instruction, is_read: Iterable[bool] = ()) -> Site:
        """Return the accounting data of a node; `is_read` says for each output whether a node reads it."""
        node, device = instruction.node, program.state.device
        is_cpu = device.type == "CPU"
        on_host = (False,) * instruction.output_count if is_cpu else self._outputs_on_host(program, node, device.type)
        source, host_source = self.sources[device.name], self._hosts[device.name]
        calls = names_functions(instruction.attrs)
        return Site(
            program=program,
            instruction=instruction,
            name=node.name,
            rule=instruction.kernel.memory,
            plain=None if calls else self._plain(instruction, host_source if on_host[:1] == (True,) else source, on_host),
            attrs=instruction.attrs,
            output_dtypes=tuple(node.signature.output_dtypes),
            output_is_ref=tuple(node.signature.output_is_ref),
            output_on_host=on_host,
            source=source,
            host_source=host_source,
            is_cpu=is_cpu,
            calls=calls,
            is_read=tuple(is_read),
        )

    def _plain(self, instruction: Instruction, source: DeviceSource, on_host: Sequence[bool]) -> PlainKernel | None:
        node, rule = instruction.node, instruction.kernel.memory
        is_special = node.op in ENDS or any(instruction.reads_ref) or "shared_name" in instruction.attrs
        if is_special or not is_plain(rule, node.signature):
            return None
        return PlainKernel(node.name, node.signature.output_dtypes[0], rule, source, on_host=on_host[0])

    def _outputs_on_host(self, program: Program, node: Node, device_type: str) -> tuple[bool, ...]:
        key = (node.signature, device_type)
        found = self._on_host.get(key)
        if found is None:
            found = self._on_host[key] = memory_types(program.graph.registry, node.signature, device_type).outputs
        return found

    def make_constant(self, site: Site) -> Buffer | None:
        """Allocate the buffer of a constant or a resource handle, which lives as long as the session; None if it has no bytes.

        Raises TensorFlow's error for a kernel that can't be created.
        """
        tensor = site.attrs.get("value")
        memory = TensorMemory((), RESOURCE) if tensor is None else TensorMemory(tensor.array.shape, tensor.dtype)
        if not memory.size:
            return None
        # the kernel that owns a handle is stateful, so the session has one kernel for all steps
        handle = (site.program.state.device.name, site.name) if tensor is None else None
        if handle is not None and handle in self._handles:
            return self._handles[handle]
        source = site.host_source if site.output_on_host[0] else site.source
        self.clock.node = site.name
        try:
            buffer = source.allocate(memory.size, site.name)
        except OutOfMemory:
            usage = self.usage(source, memory.size)
            # the message shows the constant as the graph has it, perhaps as one value for all elements
            given, on_host = site.instruction.node.attrs.get("value"), site.is_cpu or site.output_on_host[0]
            if given is None:
                failure = kernel_failure(site.program, site.instruction, memory.kind, usage, self.report)
            else:
                failure = constant_failure(site.program, site.instruction, given, usage, on_host=on_host)
            self._tell(failure.line)
            raise failure.error from None
        self._constants.append(buffer)
        if handle is not None:
            self._handles[handle] = buffer
        return buffer

    # --- buffers that outlive a step

    def variable(self, variable: VariableResource) -> VariableMemory:
        """Return the memory of a variable."""
        found = self._variables.get(variable)
        if found is None:
            found = self._variables[variable] = VariableMemory()
        return found

    def adopt(self, states: Mapping[str, DeviceState]) -> None:
        """Allocate memory for variables whose values come from a file."""
        for device, state in states.items():
            for variable in state.resources.variables().values():
                held = self.variable(variable)
                if variable.value is not None and held.buffer is None:
                    memory = TensorMemory(value_dims(variable.value), variable.dtype)
                    held.kind = memory.kind
                    try:
                        held.buffer = self.sources[device].allocate(memory.size, variable.name) if memory.size else None
                    except OutOfMemory:
                        usage = self.usage(self.sources[device], memory.size)
                        raise value_error(variable.name, memory.kind, device, usage) from None
                self.remember_dims(variable)

    def dereferenced(self, memory: TensorMemory, value: Any) -> TensorMemory:
        """Return the memory of the value that a node reads: for a reference variable, the memory of the variable's value."""
        if not isinstance(value, VariableResource):
            return memory
        buffer = self.variable(value).buffer
        return TensorMemory(value_dims(value.value), value.dtype, None if buffer is None else buffer.hold(), value.value)

    def find_resource(self, handle: ResourceHandle) -> VariableMemory | StoreMemory:
        """Return the memory of the variable or tensor store that a handle names.

        If the device's resources lack a store, the memory of the store lives only until the end of the step.
        """
        found = self.find_resources(handle.device).find(handle)
        if isinstance(found, VariableResource):
            return self.variable(found)
        key = (handle.device, handle.container, handle.name, handle.type)
        if found is None:
            self._step_stores.add(key)
        return self.store(*key)

    def store(self, *key: str) -> StoreMemory:
        """Return the memory of the tensor store with this key."""
        return self._stores.setdefault(key, StoreMemory())

    def kept(self) -> set[Buffer]:
        """Return the buffers that outlive a step, without parts of other buffers."""
        return set(self._kept_buffers())

    def _kept_buffers(self) -> Iterator[Buffer]:
        """Yield the buffers that outlive a step; a buffer comes once for each of its holders that outlives the step."""
        yield from self._constants
        yield from self._scratch.values()
        yield from (memory.buffer.root for memory in self._variables.values() if memory.buffer is not None)
        waiting = [buffer for store in self._stores.values() for held in store.held.values() for buffer in held]
        while waiting:
            buffer = waiting.pop()
            if buffer is not None:
                yield buffer.root
                waiting += buffer.root.contents or ()

    def make_scratch(self, site: Site) -> None:
        """Allocate the scratch buffer of a GPU before the first kernel that runs there."""
        device = site.program.state.device.name
        if not site.is_cpu and device not in self._scratch:
            self._scratch[device] = site.source.allocate(SCRATCH_BYTES, "ScratchBuffer")

    def remember_dims(self, variable: VariableResource) -> None:
        if variable.value is not None:
            self._variable_dims[variable] = tuple(variable.value.shape)

    def dims_of(self, variable: VariableResource) -> tuple[int, ...]:
        """Return the shape that a variable had before the current kernel ran."""
        return self._variable_dims.get(variable, ())

    # --- failures

    def usage(self, source: DeviceSource, size: int, last_readers: Mapping[Buffer, str] | None = None) -> FailureUsage:
        """Return the use of a source's memory at the time when an allocation of `size` bytes fails."""
        live = tuple(source.live)
        return FailureUsage(
            source, size, live, dict.fromkeys(self.kept(), "kept by a resource") | self.keeper_of(), last_readers or {}
        )

    def failed(self, failure: MemoryFailure) -> OpError:
        """Log a kernel's failure and return its error; the first failure ends the step."""
        self._tell(failure.line)
        if self.failure is None:
            self._abort(failure.error)
        return failure.error

    def passed_on(self, error: OpError, caller: str) -> OpError:
        """Return the error of a called function; if the function ran out of memory, the text also has the calling node."""
        if error is not self.failure:
            return error
        found = caller_error(error, caller, self.report)
        self._abort(found)
        return found

    def _abort(self, error: OpError) -> None:
        """Record an error that ends a step or a function. TensorFlow logs only the errors with the numbers 1, 2, 4, 8, ..."""
        self.failure = error
        self._aborts += 1
        if not self._aborts & (self._aborts - 1):
            self._tell(abort_line(error))

    def _tell(self, line: DumpLine | None) -> None:
        if line is not None and self._log is not None:
            self._log(line)

    # --- steps

    @property
    def kept_bytes(self) -> int:
        """Bytes in use between steps, without the GPUs' scratch buffers."""
        in_use = sum(source.in_use for source in self.all_sources())
        return in_use - sum(buffer.allocated for buffer in self._scratch.values())

    def begin_step(self) -> None:
        """Start counting the allocations of one step."""
        self.failure = None
        for source in self.all_sources():
            source.handed_out = 0

    def has_room_for_all(self) -> bool:
        """Whether all allocations of the last step fit into memory at once, in any order."""
        # a chunk may be nearly twice as large as the request
        return all(
            source.limit is None or source.in_use + 2 * source.handed_out <= source.limit for source in self.all_sources()
        )

    def keeper_of(self) -> dict[Buffer, str]:
        """Return the owner of each buffer that outlives the steps, such as `variable w`."""
        found = {buffer: f"constant {buffer.owner}" for buffer in self._constants}
        found |= {buffer: f"scratch memory of {device}" for device, buffer in self._scratch.items()}
        found |= {
            memory.buffer.root: f"variable {variable.name}"
            for variable, memory in self._variables.items()
            if memory.buffer is not None
        }
        return found

    def end_step(self) -> None:
        """Free the buffers that the step left: tensors not read because of an error, and unused inputs of loops."""
        self.calls.clear()
        for key in self._step_stores:
            self._stores.pop(key, StoreMemory()).clear()
        self._step_stores.clear()
        keepers = Counter(self._kept_buffers())
        held_longer = [buffer for buffer, count in keepers.items() if buffer.holders != count]
        live = [buffer for buffer in self._live() if buffer not in keepers and buffer not in self._of_others]
        self.left_over = (*live, *held_longer)
        for buffer in live:
            assert buffer.source is not None
            buffer.source.free(buffer)
        for buffer, count in keepers.items():
            buffer.holders = count

    def close(self) -> None:
        """End the session: free its memory in allocators that other sessions may use."""
        self.clock.moment += 1  # the memory is freed after the end of the last step
        for buffer in self._live():
            if buffer not in self._of_others:
                assert buffer.source is not None
                buffer.source.free(buffer)

    def _live(self) -> list[Buffer]:
        return [buffer for source in self.all_sources() for buffer in source.live]


def make_constants(ledger: Ledger, programs: Sequence[Program]) -> dict[tuple[int, int], Buffer | None]:
    """Allocate and return the buffers of all constants, by program and node.

    TensorFlow creates their kernels, which own these buffers, before the first step.
    """
    return {
        (number, index): ledger.make_constant(ledger.site(program, instruction))
        for number, program in enumerate(programs)
        for index, instruction in enumerate(program.instructions)
        if instruction.node.op in OWNED_OUTPUTS
    }
