"""Record of a step's executions: each node with its shapes and the executions that it waited for.

Both executors report nodes as they account for memory.  A node in a loop is recorded once per iteration, and a function's nodes
once per call.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from placesim.core.dtypes import DataType
from placesim.machine.memory.buffer_sources import Clock, JournalEntry
from placesim.machine.memory.buffers import Buffer
from placesim.ops.kernels.device_resources import ResourceHandle, VariableResource, value_dims
from placesim.ops.kernels.memory_rules import TensorMemory
from placesim.runtime.accounting.ledger import Ledger
from placesim.runtime.accounting.node_sites import Site
from placesim.runtime.partitioning.prepared_step import PreparedStep

TypedShape = tuple[tuple[int, ...], DataType]


class Execution(NamedTuple):
    """An executed node or, without a `site`, the end of a function's run.

    `sources` are the executions waited for, by index in the step.  In `inputs`, handles and references are replaced by the
    tensors that they refer to.  `is_dead` marks a node on a branch that was not taken.
    """

    site: Site | None
    inputs: tuple[TypedShape, ...]
    outputs: tuple[TypedShape, ...]
    sources: tuple[int, ...]
    is_dead: bool = False


class BufferRead(NamedTuple):
    """A node held a shared buffer at a moment of the session's clock."""

    buffer: Buffer
    node: str
    moment: int


class ExecutionRecorder:
    """Executions of each step of a session, in `steps`: equal to an earlier one's if it was not walked through again.

    Each execution is a moment of the session's clock, and a moment lies between the steps: `moments` has for each step that of
    its execution 0.  `reads` and `journals`, one for each device's memory, are about all steps; `prepared` are those that were
    walked through.
    """

    def __init__(self) -> None:
        self.steps: list[list[Execution]] = []
        self.moments: list[int] = []
        self.reads: list[BufferRead] = []
        self.journals: dict[str, Sequence[JournalEntry]] = {}
        self.clock = Clock()
        self.prepared: list[PreparedStep] = []
        self._calls: list[_Call] = []
        self._latest: dict[Hashable, tuple[list[Execution], int]] = {}
        self._depth = 0

    def attach(self, ledger: Ledger) -> None:
        """Connect to a ledger, whose sources keep journals."""
        self.clock = ledger.clock
        self.journals = {device: source.journal for device, source in ledger.sources.items() if source.journal is not None}
        ledger.recorder = self

    def begin_step(self, key: Hashable) -> None:
        """Begin a step; steps with equal keys run the same nodes."""
        self._calls.clear()
        self._depth = 0
        self.clock.moment += 1
        self._latest[key] = [], self.clock.moment
        self.repeat_step(key)

    def repeat_step(self, key: Hashable) -> None:
        """Record a repetition of the last step with this key."""
        executions, moment = self._latest[key]
        self.steps.append(executions)
        self.moments.append(moment)

    def read(self, node: str, buffer: Buffer) -> None:
        """A node holds a buffer while it runs."""
        if buffer.is_shared:
            self.reads.append(BufferRead(buffer.root, node, self.clock.moment))

    def finish(self) -> None:
        """An executor has finished; buffers still held by the outermost belong to the client until the step ends."""
        self.clock.moment += self._depth == 1

    @property
    def executions(self) -> list[Execution]:
        """Executions of the current step."""
        return self.steps[-1]

    def add(
        self,
        site: Site | None,
        inputs: Iterable[TypedShape],
        outputs: Iterable[TypedShape],
        sources: Iterable[int],
        *,
        is_dead: bool = False,
    ) -> int:
        """The number of an execution that ended now; in a function what waits for nothing else waits for the call."""
        waited = tuple(dict.fromkeys(sources))
        if not waited and self._calls:
            waited = (self._calls[-1].latest,)
        self.executions.append(Execution(site, tuple(inputs), tuple(outputs), waited, is_dead))
        self.clock.moment += 1
        return len(self.executions) - 1

    # --- functions

    def begin_call(self, site: Site, inputs: Iterable[TypedShape], sources: Iterable[int]) -> None:
        """A kernel begins that calls functions, one after another."""
        self._calls.append(_Call(self.add(site, inputs, (), sources)))

    def end_call(self) -> int:
        """End a function call, and return the execution that its readers wait for."""
        return self._calls.pop().latest

    def begin_run(self) -> int:
        """An executor begins; returns the argument for `end_run`."""
        self._depth += 1
        return len(self.executions)

    def end_run(self, first: int) -> None:
        """It has ended; in a call the next function waits for all that it ran."""
        self._depth -= 1
        if self._calls:
            inner = self.executions[first:]
            waited_for = {source for execution in inner for source in execution.sources}
            self._calls[-1].latest = self.add(
                None, (), (), (n for n in range(first, first + len(inner)) if n not in waited_for)
            )


class _Call:
    """A kernel that calls functions: the execution that the next of them waits for."""

    __slots__ = ("latest",)

    def __init__(self, latest: int) -> None:
        self.latest = latest


def input_shapes(ledger: Ledger, memories: Sequence[TensorMemory], values: Sequence[Any] = ()) -> tuple[TypedShape, ...]:
    """Shapes and types of a kernel's inputs; for variable handles, those of the values."""
    if not values:
        return tuple([(memory.dims, memory.dtype) for memory in memories])
    return tuple([_input_shape(ledger, *pair) for pair in zip(memories, values, strict=True)])


def _input_shape(ledger: Ledger, memory: TensorMemory, value: Any) -> TypedShape:
    found = ledger.find_resources(value.device).find(value) if isinstance(value, ResourceHandle) else value
    if isinstance(found, VariableResource):
        return value_dims(found.value), found.dtype
    return memory.dims, memory.dtype


def output_shapes(outputs: Iterable[Any]) -> tuple[TypedShape, ...]:
    """Shapes and types of the tensors among the outputs."""
    return tuple([(output.dims, output.dtype) for output in outputs if type(output) is TensorMemory])
