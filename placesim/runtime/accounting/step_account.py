"""Memory account of one run of an executor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from placesim.core.dtypes import INT8, DataType
from placesim.core.errors import OpError
from placesim.machine.memory.buffer_sources import DeviceSource
from placesim.machine.memory.buffers import Buffer, OutOfMemory, foreign_buffer
from placesim.ops.categories import ARGUMENTS, HOST_TRANSFERS, OWNED_OUTPUTS, RECEIVES, RESULTS, SENDS
from placesim.ops.kernels.device_resources import ResourceHandle, VariableResource, value_dims
from placesim.ops.kernels.memory_rules import ITSELF, KernelMemory, StoreMemory, TensorMemory, VariableMemory
from placesim.runtime.accounting.call_memory import Call, release_all
from placesim.runtime.accounting.default_rule import PlainKernel
from placesim.runtime.accounting.ledger import SCRATCH_BYTES, Ledger
from placesim.runtime.accounting.node_sites import Site
from placesim.runtime.accounting.out_of_memory import FailureUsage, kernel_failure, transfer_failure, value_error

FETCHED = "is fetched: until the step ends"
"""Text that says until when a fetched tensor is in use."""


class StepAccount:
    """Memory account of one run of an executor: its kernels, arguments, sent tensors and results.

    If an allocation fails, `last_readers` is called; it maps each buffer to a text with the event after which the buffer would
    be freed.
    """

    def __init__(self, ledger: Ledger, executor: object, last_readers: Callable[[], Mapping[Buffer, str]] = dict) -> None:
        self._ledger = ledger
        self._clock = ledger.clock
        self._executor = executor
        self._recorder = ledger.recorder
        self._last_readers = last_readers
        self._call = ledger.calls[-1] if ledger.calls else None
        self._sent: dict[Any, tuple[TensorMemory, bool]] = {}
        self._results: list[tuple[Any, TensorMemory]] = []

    # --- kernels

    def begin(self, memories: Sequence[TensorMemory], values: Sequence[Any]) -> None:
        """Record that a kernel that calls functions is about to run."""
        self._ledger.calls.append(Call(values, memories))

    def passed_on(self, error: OpError, site: Site) -> OpError:
        """Return the error of a called function as an error of the calling node."""
        return self._ledger.passed_on(error, site.name)

    def give_up(self) -> None:
        """Record that the kernel that called functions has failed."""
        self._ledger.calls.pop().close()

    def executed(
        self,
        site: Site,
        memories: Sequence[TensorMemory],
        values: Sequence[Any],
        outputs: Sequence[Any],
        key: Any = None,
        constant: Buffer | None = None,
    ) -> list[TensorMemory]:
        """Release a node's inputs, and return the memory of its outputs, each with one holder.

        `key` identifies the tensor of a send or receive; `constant` is the buffer that a constant's kernel owns. Raises
        TensorFlow's error if the device runs out of memory.
        """
        self._clock.node = site.name
        if site.plain is not None:
            return [self.executed_plain(site, site.plain, memories, outputs[0])]
        op = site.instruction.node.op
        if op in OWNED_OUTPUTS:
            buffer = None if constant is None else constant.hold()
            dtype, on_host = site.output_dtypes[0], site.output_on_host[0]
            return [TensorMemory(value_dims(outputs[0]), dtype, buffer, outputs[0], on_host=on_host)]
        if op in SENDS:
            self._send(key, memories[0], values[0], site.is_cpu or op in HOST_TRANSFERS)
            return []
        if op in RECEIVES:
            return [self._receive(site, key)]
        if op in ARGUMENTS:
            return [self._argument(site, outputs[0])]
        if op in RESULTS:
            self._result(memories[0], values[0])
            return []
        return self._kernel(site, memories, values, outputs)

    def executed_plain(self, site: Site, plain: PlainKernel, memories: Sequence[TensorMemory], value: Any) -> TensorMemory:
        """Return the same as `executed`, for a plain kernel with one output."""
        self._clock.node = site.name
        if self._recorder is not None:
            self._record_reads(site.name, memories)
        if not site.is_cpu:
            self.make_scratch(site)
        try:
            return plain.run(memories, value)
        except OutOfMemory as lack:
            raise self._failed(site, memories, lack, (value_dims(value), site.output_dtypes[0])) from None

    def _kernel(
        self, site: Site, memories: Sequence[TensorMemory], values: Sequence[Any], outputs: Sequence[Any]
    ) -> list[TensorMemory]:
        ledger = self._ledger
        self.make_scratch(site)
        made = zip(outputs, site.output_dtypes, site.output_is_ref, site.output_on_host, strict=True)
        found = [TensorMemory(value_dims(value), dtype, None, value, is_ref, on_host) for value, dtype, is_ref, on_host in made]
        inputs, variables, stores, own = self._read(site, memories, values)
        self._record_reads(site.name, inputs)
        self._find_own(site, outputs, variables, stores)
        memory = KernelMemory(
            site.name,
            inputs,
            found,
            site.attrs,
            site.source,
            host_source=site.host_source,
            variables=variables,
            stores=stores,
            counts_temporaries=site.is_cpu,
            is_read=site.is_read,
        )
        try:
            if site.calls:
                self._finish_call(memory, outputs)
            else:
                memory.run(site.rule)
        except OutOfMemory as lack:
            raise self._failed(site, inputs, lack, memory.asked, is_temporary=memory.asked_temporary) from None
        for variable in own:
            ledger.remember_dims(variable)
        release_all(inputs)
        return found

    def _read(
        self, site: Site, memories: Sequence[TensorMemory], values: Sequence[Any]
    ) -> tuple[list[TensorMemory], dict[int, VariableMemory], dict[int, StoreMemory], list[VariableResource]]:
        """Return the inputs as the kernel sees them, the memory of variables and of stores, and the reference variables.

        The memory is keyed by the position of the input that refers to the variable or store.
        """
        ledger = self._ledger
        inputs: list[TensorMemory] = []
        variables: dict[int, VariableMemory] = {}
        stores: dict[int, StoreMemory] = {}
        own: list[VariableResource] = []
        for position, (memory, value) in enumerate(zip(memories, values, strict=True)):
            if isinstance(value, VariableResource) and not site.instruction.reads_ref[position]:
                held = variables[position] = ledger.variable(value)
                own.append(value)
                memory = TensorMemory(ledger.dims_of(value), value.dtype, held.buffer, is_ref=True)
            elif isinstance(value, VariableResource):
                memory = ledger.dereferenced(memory, value)
            elif isinstance(value, ResourceHandle):
                resource = ledger.find_resource(value)
                if isinstance(resource, VariableMemory):
                    variables[position] = resource
                else:
                    stores[position] = resource
            inputs.append(memory)
        return inputs, variables, stores, own

    def _find_own(
        self, site: Site, outputs: Sequence[Any], variables: dict[int, VariableMemory], stores: dict[int, StoreMemory]
    ) -> None:
        """Add the memory of the resource that a node makes or names to `variables` or `stores`, under the key ITSELF."""
        made = outputs[0] if outputs else None
        if isinstance(made, VariableResource):
            variables[ITSELF] = self._ledger.variable(made)
        elif isinstance(made, ResourceHandle):
            resource = self._ledger.find_resource(made)
            if isinstance(resource, VariableMemory):
                variables[ITSELF] = resource
            else:
                stores[ITSELF] = resource
        elif "shared_name" in site.attrs:
            name = str(site.attrs["shared_name"]) or site.name
            stores[ITSELF] = self._ledger.store(site.program.state.device.name, str(site.attrs.get("container")), name)

    def _finish_call(self, memory: KernelMemory, outputs: Sequence[Any]) -> None:
        """Let outputs share the memory of the function results or inputs that they return."""
        call = self._ledger.calls.pop()
        for output, value in enumerate(outputs):
            given = call.find(value)
            if given is not None and given.buffer is not None:
                memory.hand_on(output, given.buffer)
        memory.run(None)
        call.close()

    def make_scratch(self, site: Site) -> None:
        """Allocate a GPU's scratch buffer before its first kernel runs. Raises TensorFlow's error if there is no room."""
        if site.is_cpu:
            return
        try:
            self._ledger.make_scratch(site)
        except OutOfMemory as lack:
            device = site.program.state.device.name
            raise value_error("ScratchBuffer", ((SCRATCH_BYTES,), INT8), device, self._usage(lack, site)) from None

    def _failed(
        self,
        site: Site,
        inputs: Sequence[TensorMemory],
        lack: OutOfMemory,
        asked: tuple[tuple[int, ...], DataType],
        *,
        is_temporary: bool = False,
    ) -> OpError:
        """Release the inputs of a kernel that ran out of memory, and return its error."""
        ledger = self._ledger
        usage = self._usage(lack, site)
        release_all(inputs)  # TensorFlow lists the allocations in use only after the inputs are released
        failure = kernel_failure(
            site.program,
            site.instruction,
            asked,
            usage,
            ledger.report,
            inputs=[memory.dims for memory in inputs],
            is_temporary=is_temporary,
        )
        return ledger.failed(failure)

    def _usage(self, lack: OutOfMemory, site: Site) -> FailureUsage:
        source = lack.source if isinstance(lack.source, DeviceSource) else site.source
        readers = dict(self._last_readers())
        for _, memory in self._results:
            if memory.buffer is not None:
                readers[memory.buffer.root] = FETCHED
        return self._ledger.usage(source, lack.size, readers)

    # --- the ends of a step

    def _argument(self, site: Site, value: Any) -> TensorMemory:
        """Return the memory of a feed or of a function's argument, which lives for the whole step."""
        given = self._call.find(value) if self._call is not None else None
        tensor = TensorMemory(value_dims(value), site.output_dtypes[0], None, value)
        if given is not None:
            tensor.buffer = None if given.buffer is None else given.buffer.hold()
        elif tensor.size:
            tensor.buffer = foreign_buffer(tensor.size)
        return tensor

    def _result(self, memory: TensorMemory, value: Any) -> None:
        """Hold a fetched tensor until the client receives it."""
        self._results.append((value, self._ledger.dereferenced(memory, value)))

    def _record_reads(self, node: str, memories: Iterable[TensorMemory]) -> None:
        """Record, if there is a recorder, which buffers a node holds while it runs."""
        if self._recorder is not None:
            for memory in memories:
                if memory.buffer is not None:
                    self._recorder.read(node, memory.buffer)

    def _send(self, key: Any, memory: TensorMemory, value: Any, is_on_host: bool) -> None:
        """Hold a sent tensor until it is received."""
        self._sent[key] = (self._ledger.dereferenced(memory, value), is_on_host)

    def _receive(self, site: Site, key: Any) -> TensorMemory:
        """Return the memory of a received tensor: the sent buffer if both ends are in host memory, else a new buffer."""
        sent, was_on_host = self._sent.pop(key)
        self._record_reads(site.name, (sent,))
        is_on_host = site.is_cpu or site.instruction.node.op in HOST_TRANSFERS
        tensor = TensorMemory(sent.dims, sent.dtype, None, sent.value, on_host=is_on_host and not site.is_cpu)
        if is_on_host and was_on_host:
            tensor.buffer = sent.buffer
            return tensor
        memory = KernelMemory(site.name, (), (tensor,), {}, site.source, host_source=site.host_source)
        try:
            memory.run(None)
        except OutOfMemory as lack:
            failure = transfer_failure(site.program, site.instruction, self._usage(lack, site), self._ledger.report)
            raise self._ledger.failed(failure) from None
        release_all([sent])
        return tensor

    def close(self) -> None:
        """End the account, and pass the results to the kernel that called the function, or to the client."""
        if self._recorder is not None:
            self._recorder.finish()
        if self._call is not None:
            self._call.replace(id(self._executor), self._results)
        else:
            release_all(memory for _, memory in self._results)
        self._results = []


def share_memory(memory: TensorMemory, readers: int) -> None:
    """Count each reader of a tensor as a holder of its buffer; without readers, release the buffer."""
    if memory.buffer is None or memory.is_ref:
        return
    if readers:
        memory.buffer.holders += readers - 1
    else:
        memory.buffer.release()
