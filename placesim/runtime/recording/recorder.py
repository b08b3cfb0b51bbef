"""Record of a step's executions: each executed node, its shapes, and the executions that it waited for.

Executors with memory accounts report their nodes. A node in a loop is recorded once per iteration, and a node of a function
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

    `sources` are the numbers of the executions that it waited for. If an input is a handle or reference of a variable, `inputs`
    has the shape and type of the variable's value. `is_dead` marks a node in a branch that is not taken, `is_called` a node of
    a called function.
    """

    site: Site | None
    inputs: tuple[TypedShape, ...]
    outputs: tuple[TypedShape, ...]
    sources: tuple[int, ...]
    is_dead: bool = False
    is_called: bool = False


class BufferRead(NamedTuple):
    """A shared buffer that a node held at one moment of the session's clock."""

    buffer: Buffer
    node: str
    moment: int


class ExecutionRecorder:
    """Record of the steps of a session, each with a list of its executions.

    A repetition that is not run shares the list of the step that it repeats. The session's clock advances by one per execution,
    and by one between steps; `moments` has for each step the moment of its execution 0. `reads` and `journals` (one per device)
    cover all steps; `prepared` has the prepared steps that were run.
    """

    clock: Clock
    """The clock of the attached ledger."""

    def __init__(self) -> None:
        self.steps: list[list[Execution]] = []
        self.moments: list[int] = []
        self.reads: list[BufferRead] = []
        self.journals: dict[str, Sequence[JournalEntry]] = {}
        self.prepared: list[PreparedStep] = []
        self._calls: list[int] = []
        """For each kernel that is calling functions, the number of the execution for which its next function waits."""
        self._latest: dict[Hashable, tuple[list[Execution], int]] = {}
        self._depth = 0

    def attach(self, ledger: Ledger) -> None:
        """Become the recorder of a ledger, whose sources must keep journals."""
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
        """Record that the last step with this key is repeated, although its nodes are not observed again."""
        executions, moment = self._latest[key]
        self.steps.append(executions)
        self.moments.append(moment)

    def read(self, node: str, buffer: Buffer) -> None:
        """Record that a node holds a buffer while it runs."""
        if buffer.is_shared:
            self.reads.append(BufferRead(buffer.root, node, self.clock.moment))

    def finish(self) -> None:
        """Called when an executor has run all its nodes.

        After the step's own executor (not a function's), the clock advances, because fetched tensors are freed after the
        moment of the last node.
        """
        self.clock.moment += self._depth == 1

    @property
    def executions(self) -> list[Execution]:
        """The executions of the current step."""
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
        """Add an execution that has just ended, and return its number.

        In a function, an execution without `sources` waits for the call's beginning, or for the previous function of the call.
        """
        waited = tuple(dict.fromkeys(sources))
        if not waited and self._calls:
            waited = (self._calls[-1],)
        self.executions.append(Execution(site, tuple(inputs), tuple(outputs), waited, is_dead, self._depth > 1))
        self.clock.moment += 1
        return len(self.executions) - 1

    # --- functions

    def begin_call(self, site: Site, inputs: Iterable[TypedShape], sources: Iterable[int]) -> None:
        """Record the start of a kernel that calls functions one after another."""
        self._calls.append(self.add(site, inputs, (), sources))

    def end_call(self) -> int:
        """Record the end of a kernel that called functions; return the number of the execution that its readers wait for."""
        return self._calls.pop()

    def begin_run(self) -> int:
        """Record that an executor begins; return the argument for `end_run`."""
        self._depth += 1
        return len(self.executions)

    def end_run(self, first: int) -> None:
        """Record that an executor has ended; in a call, the next function waits for all its executions."""
        self._depth -= 1
        if self._calls:
            inner = self.executions[first:]
            waited_for = {source for execution in inner for source in execution.sources}
            last = (number for number in range(first, first + len(inner)) if number not in waited_for)
            self._calls[-1] = self.add(None, (), (), last)


def input_shapes(ledger: Ledger, memories: Sequence[TensorMemory], values: Sequence[Any] = ()) -> tuple[TypedShape, ...]:
    """Return shapes and types of a kernel's inputs; for a variable's handle, those of the variable's value."""
    if not values:
        return tuple([(memory.dims, memory.dtype) for memory in memories])
    return tuple([_input_shape(ledger, *pair) for pair in zip(memories, values, strict=True)])


def _input_shape(ledger: Ledger, memory: TensorMemory, value: Any) -> TypedShape:
    found = ledger.find_resources(value.device).find(value) if isinstance(value, ResourceHandle) else value
    if isinstance(found, VariableResource):
        return value_dims(found.value), found.dtype
    return memory.dims, memory.dtype


def output_shapes(outputs: Iterable[Any]) -> tuple[TypedShape, ...]:
    """Return shapes and types of the tensors among the outputs."""
    return tuple([(output.dims, output.dtype) for output in outputs if type(output) is TensorMemory])
