"""Record of a step's executions: each node with its shapes and the executions that it waited for.

Both executors report nodes when they account for their memory. A node in a loop is recorded once per iteration, and a
function's node once per call.
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

    `sources` are the executions that it waited for, as indices in the step. In `inputs`, handles and references are replaced by
    the tensors that they refer to. `is_dead` marks a node on a branch that was not taken.
    """

    site: Site | None
    inputs: tuple[TypedShape, ...]
    outputs: tuple[TypedShape, ...]
    sources: tuple[int, ...]
    is_dead: bool = False


class BufferRead(NamedTuple):
    """Records that a node held a shared buffer at one moment of the session's clock."""

    buffer: Buffer
    node: str
    moment: int


class ExecutionRecorder:
    """Records the executions of each step of a session in `steps`; a step that was not run again equals an earlier one.

    The session's clock advances by one per execution, and once between steps. `moments` has for each step the moment of its
    execution 0. `reads` and `journals` (one per device) cover all steps; `prepared` has the steps that were run.
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
        """Connect to a ledger, whose sources must keep journals."""
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
        """Note that a node holds a buffer while it runs."""
        if buffer.is_shared:
            self.reads.append(BufferRead(buffer.root, node, self.clock.moment))

    def finish(self) -> None:
        """Note that an executor has finished. The client owns the outermost one's remaining buffers until the step ends."""
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

        In a function, an execution that waits for no other waits for the call.
        """
        waited = tuple(dict.fromkeys(sources))
        if not waited and self._calls:
            waited = (self._calls[-1].latest,)
        self.executions.append(Execution(site, tuple(inputs), tuple(outputs), waited, is_dead))
        self.clock.moment += 1
        return len(self.executions) - 1

    # --- functions

    def begin_call(self, site: Site, inputs: Iterable[TypedShape], sources: Iterable[int]) -> None:
        """Note that a kernel begins that calls functions, one after another."""
        self._calls.append(_Call(self.add(site, inputs, (), sources)))

    def end_call(self) -> int:
        """End a function call; return the execution that its readers wait for."""
        return self._calls.pop().latest

    def begin_run(self) -> int:
        """Note that an executor begins; return the argument for `end_run`."""
        self._depth += 1
        return len(self.executions)

    def end_run(self, first: int) -> None:
        """Note that the executor has ended. In a call, the next function waits for everything that it ran."""
        self._depth -= 1
        if self._calls:
            inner = self.executions[first:]
            waited_for = {source for execution in inner for source in execution.sources}
            self._calls[-1].latest = self.add(
                None, (), (), (n for n in range(first, first + len(inner)) if n not in waited_for)
            )


class _Call:
    """A kernel that calls functions; `latest` is the execution that the next function waits for."""

    __slots__ = ("latest",)

    def __init__(self, latest: int) -> None:
        self.latest = latest


def input_shapes(ledger: Ledger, memories: Sequence[TensorMemory], values: Sequence[Any] = ()) -> tuple[TypedShape, ...]:
    """Return shapes and types of a kernel's inputs; for variable handles, those of the values."""
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
