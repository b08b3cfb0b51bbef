"""Memory accounting for a step in a fixed order, which wraps each node's step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from placesim.core.errors import OpError
from placesim.machine.memory.buffers import Buffer
from placesim.ops.categories import RESULTS
from placesim.runtime.accounting.default_rule import PlainKernel
from placesim.runtime.accounting.ledger import Ledger, make_constants
from placesim.runtime.accounting.node_sites import Site
from placesim.runtime.accounting.step_account import FETCHED, StepAccount, share_memory
from placesim.runtime.executors.node_steps import Step, gather_positions
from placesim.runtime.executors.program import Instruction, Program
from placesim.runtime.executors.schedule import Schedule

Note = Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], None]
"""Function that is called with the memories and values of a node's inputs, and the memories of its outputs."""


class Listener(Protocol):
    """Observes a run; nodes are identified by program and index."""

    def begin(self) -> None:
        """Called when a run begins."""

    def end(self) -> None:
        """Called when a run has ended."""

    def note(self, number: int, index: int, site: Site) -> Note:
        """Return a function to call after each run of this node."""

    def call(self, number: int, index: int, site: Site) -> Note:
        """Return a function to call before each run of this node, which calls functions."""


class ScheduledAccounts:
    """Memory accounts of an executor with a fixed order: a TensorMemory for each value in the programs' stores."""

    def __init__(
        self, schedule: Schedule, stores: Sequence[list[Any]], ledger: Ledger, listener: Listener | None = None
    ) -> None:
        self._schedule = schedule
        self._stores = stores
        self._ledger = ledger
        self._memories: list[list[Any]] = [[None] * len(store) for store in stores]
        self._readers = [_reader_counts(program) for program in schedule.programs]
        self._constants = make_constants(ledger, schedule.programs)
        self._account: StepAccount | None = None
        self._listener = listener

    @property
    def has_failed(self) -> bool:
        """Whether an allocation of this step has failed."""
        return self._ledger.failure is not None

    def begin(self) -> None:
        """Begin the account of a run."""
        for memories in self._memories:
            memories[:] = [None] * len(memories)
        self._account = StepAccount(self._ledger, self, self._last_readers)
        if self._listener is not None:
            self._listener.begin()

    def _last_readers(self) -> dict[Buffer, str]:
        """Map each buffer in use to a text with the event after which the buffer would be freed."""
        found: dict[Buffer, str] = {}
        for number, index in self._schedule.order:
            for position in self._schedule.last_readers.get((number, index), ()):
                memory = self._memories[number][position]
                if memory is not None and memory.buffer is not None:
                    found[memory.buffer.root] = _until_read(self._schedule.programs[number].instructions[index])
        return found

    def end(self) -> None:
        """End the account of a run; the client receives the fetched tensors."""
        if self._account is not None:
            self._account.close()
            self._account = None  # the account refers to this object, so this ends a cycle of references
        if self._listener is not None:
            self._listener.end()

    def around(self, number: int, index: int, step: Step) -> Step:
        """Return a step that runs a node's `step` and accounts for its inputs and outputs; `step` must release nothing."""
        program = self._schedule.programs[number]
        instruction = program.instructions[index]
        store, memories = self._stores[number], self._memories[number]
        gather = gather_positions(instruction.inputs)
        first, last = instruction.outputs, instruction.outputs + instruction.output_count
        readers = self._readers[number][first:last]
        site = self._ledger.site(program, instruction, map(bool, readers))
        dropped = self._schedule.last_readers.get((number, index), ())
        constant = self._constants.get((number, index))
        note = None if self._listener is None else self._listener.note(number, index, site)
        begin_call = None if self._listener is None else self._listener.call(number, index, site)
        if site.plain is not None:
            return self._around_plain(site, site.plain, step, (store, memories, gather), readers[0], dropped, note)

        def accounted() -> None:
            account = self._account
            assert account is not None
            values, given = gather(store), gather(memories)
            if site.calls:
                account.begin(given, values)
                if begin_call is not None:
                    begin_call(given, values, ())
                try:
                    step()
                except OpError as error:
                    raise account.passed_on(error, site) from None
            else:
                step()
            made = account.executed(site, given, values, store[first:last], instruction.key, constant)
            if note is not None:
                note(given, values, made)
            for memory, count in zip(made, readers, strict=True):
                share_memory(memory, count)
            memories[first:last] = made
            for position in dropped:
                store[position] = memories[position] = None

        return accounted

    def _around_plain(
        self,
        site: Site,
        plain: PlainKernel,
        step: Step,
        places: tuple[list[Any], list[Any], Callable[[list[Any]], tuple[Any, ...]]],
        readers: int,
        dropped: Sequence[int],
        note: Note | None,
    ) -> Step:
        store, memories, gather = places
        output = site.instruction.outputs

        def accounted() -> None:
            account = self._account
            assert account is not None
            given = gather(memories)
            step()
            made = account.executed_plain(site, plain, given, store[output])
            if note is not None:
                note(given, (), (made,))
            if readers != 1:
                share_memory(made, readers)
            memories[output] = made
            for position in dropped:
                store[position] = memories[position] = None

        return accounted


def _until_read(instruction: Instruction) -> str:
    """Return a text that says after which event the inputs of a node are freed."""
    if instruction.node.op in RESULTS:
        return FETCHED
    if instruction.key is not None:
        return f"until {instruction.key[1]} has received it"
    return f"until {instruction.node.name} has run"


def _reader_counts(program: Program) -> list[int]:
    """Return the number of reads of each position in a program's store."""
    counts = [0] * program.store_size
    for instruction in program.instructions:
        for position in instruction.inputs:
            counts[position] += 1
    return counts
