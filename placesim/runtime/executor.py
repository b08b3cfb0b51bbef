"""Runs programs whose order can be fixed beforehand: one flat list of closures, tensors dropped after their last reader.

Graphs with control flow or with ops that wait (queues) go to `dataflow.py` instead.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from operator import itemgetter, length_hint
from typing import Any

from placesim.errors import InternalError, OpError, PlacesimError
from placesim.memory.buffers import Buffer
from placesim.ops.categories import RECEIVES, SENDS
from placesim.runtime.accounting.ledger import Ledger, make_constants
from placesim.runtime.accounting.plain import PlainKernel
from placesim.runtime.accounting.sites import Site
from placesim.runtime.accounting.step_account import FETCHED, StepAccount, share
from placesim.runtime.process_memory import LOOK_AFTER
from placesim.runtime.program import Instruction, Program, TransferKey, blame, defect, no_argument, read_variable
from placesim.runtime.recording import Recorder, input_shapes, output_shapes

CHUNK = 4096
"""Nodes between two looks at the progress bar."""

MANY = 1 << 62
"""Stands for a number of elements of which nothing is known."""

Step = Callable[[], None]
Note = Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], None]
"""Is given the memories and the values of a node's inputs, and the memories of its outputs."""
Progress = Callable[[int], None]


class Schedule:
    """The nodes of all programs in one order that respects every edge, also those from a send to its receive."""

    def __init__(self, programs: Sequence[Program]) -> None:
        self.programs = programs
        self.order = _order(programs)
        self.last_readers = _last_readers(programs, self.order)


def _order(programs: Sequence[Program]) -> list[tuple[int, int]]:
    """Pairs of program and instruction, smallest first among those whose inputs are there."""
    waiting = [[len(i.node.input_nodes) + len(i.node.control_inputs) for i in p.instructions] for p in programs]
    receives: dict[TransferKey | None, tuple[int, int]] = {}
    for number, program in enumerate(programs):
        for index, instruction in enumerate(program.instructions):
            if instruction.node.op in RECEIVES:
                waiting[number][index] += 1
                receives[instruction.key] = (number, index)
    consumers = [program.graph.consumers() for program in programs]
    ready = deque((p, i) for p, counts in enumerate(waiting) for i, count in enumerate(counts) if not count)
    order: list[tuple[int, int]] = []
    while ready:
        number, index = ready.popleft()
        order.append((number, index))
        following = [(number, consumer) for consumer in consumers[number][index]]
        instruction = programs[number].instructions[index]
        if instruction.node.op in SENDS and instruction.key in receives:  # a graph may hold a send of its own
            following.append(receives[instruction.key])
        for pair in following:
            waiting[pair[0]][pair[1]] -= 1
            if not waiting[pair[0]][pair[1]]:
                ready.append(pair)
    if len(order) < sum(len(program.instructions) for program in programs):
        raise InternalError("The partitions wait for each other: their sends and receives form a cycle")
    return order


def _last_readers(programs: Sequence[Program], order: Sequence[tuple[int, int]]) -> dict[tuple[int, int], tuple[int, ...]]:
    """For each node the store positions that nobody reads after it, its own unread outputs among them."""
    read = [bytearray(program.store_size) for program in programs]
    found: dict[tuple[int, int], tuple[int, ...]] = {}
    for number, index in reversed(order):
        instruction = programs[number].instructions[index]
        seen = read[number]
        own = range(instruction.outputs, instruction.outputs + instruction.output_count)
        dropped = [position for position in own if not seen[position]]
        for position in dict.fromkeys(instruction.inputs):
            if not seen[position]:
                seen[position] = 1
                dropped.append(position)
        if dropped:
            found[number, index] = tuple(dropped)
    return found


class Executor:
    """Runs a schedule: feeds in, fetches out.  One executor serves all steps of the same feeds and fetches.

    With a `ledger` it accounts for the memory of each node as it runs.
    """

    def __init__(self, programs: Sequence[Program], ledger: Ledger | None = None) -> None:
        self.schedule = Schedule(programs)
        self._stores = [[None] * program.store_size for program in programs]
        measurements = programs[0].state.measurements if programs else None
        self._rendezvous: dict[Any, Any] = {} if measurements is None else measurements.rendezvous(programs)
        self._feeds: dict[int, Any] = {}
        self._results: dict[int, Any] = {}
        self._most: list[dict[int, int]] = [{} for _ in programs]
        self._accounts = None if ledger is None else _Accounts(self.schedule, self._stores, ledger)
        self._plain: list[Step] | None = None
        self._accounted: list[Step] | None = None

    @property
    def programs(self) -> Sequence[Program]:
        """One for each device."""
        return self.schedule.programs

    def _steps(self, accounts: _Accounts | None) -> list[Step]:
        """What is done for each node, compiled when it is first asked for; with accounts these drop what is not read again."""
        order, dropped = self.schedule.order, self.schedule.last_readers
        if accounts is None:
            if self._plain is None:
                self._plain = [self._compile(number, index, dropped.get((number, index), ())) for number, index in order]
            return self._plain
        if self._accounted is None:
            self._accounted = [accounts.around(number, index, self._compile(number, index, ())) for number, index in order]
        return self._accounted

    def run(self, feeds: Mapping[int, Any], progress: Progress | None = None, *, is_accounted: bool = True) -> dict[int, Any]:
        """One step: values by `_Arg` index -> values by `_Retval` index.

        `is_accounted=False` leaves the memory of this step out of the ledger, where there is one.  Raises OpError, with node
        and device, where a kernel fails.
        """
        self._feeds.clear()
        self._feeds.update(feeds)
        self._results.clear()
        accounts = self._accounts if is_accounted else None
        steps = self._steps(accounts)
        done = 0
        remaining = iter(steps)
        if accounts is not None:
            accounts.begin()
        memory = self.schedule.programs[0].state.memory if steps else None
        try:
            while memory is not None and done < len(steps):
                for step in islice(remaining, LOOK_AFTER):
                    step()
                ran = min(LOOK_AFTER, len(steps) - done)
                done += ran
                memory.worked(ran)
                if progress is not None and (not done % CHUNK or done == len(steps)):
                    progress(done)
        except OpError as error:
            failed = len(steps) - length_hint(remaining) - 1
            program, instruction, _ = self._at(failed)
            if accounts is not None and accounts.has_failed:
                self._finish_started(steps, failed)
            raise blame(error, program.graph, instruction.node, program.state.device.name) from None
        except PlacesimError:
            raise
        except Exception as error:
            raise defect(error, *self._at(len(steps) - length_hint(remaining) - 1)) from error
        finally:
            self._clear()
        if accounts is not None:
            accounts.end()
        return dict(self._results)

    def _finish_started(self, steps: Sequence[Step], failed: int) -> None:
        """Kernels that could start when one found no room run all the same; whether these fail too is only logged."""
        order = self.schedule.order
        done = set(order[:failed])
        for position in range(failed + 1, len(order)):
            number, index = order[position]
            node = self.schedule.programs[number].instructions[index].node
            needed = (*node.input_nodes, *node.control_inputs)
            if node.op not in SENDS and node.op not in RECEIVES and all((number, other) in done for other in needed):
                with suppress(Exception):  # the step has its error already
                    steps[position]()

    def _at(self, position: int) -> tuple[Program, Instruction, list[Any]]:
        """What runs at a position of the schedule, and what its inputs are now."""
        number, index = self.schedule.order[position]
        program = self.schedule.programs[number]
        instruction = program.instructions[index]
        return program, instruction, [self._stores[number][i] for i in instruction.inputs]

    def _clear(self) -> None:
        """Nothing of a step outlives it."""
        self._rendezvous.clear()
        for store in self._stores:
            store[:] = [None] * len(store)

    # --- compiling: each node becomes the smallest closure that does its work

    def _compile(self, number: int, index: int, dropped: Sequence[int]) -> Step:
        instruction = self.schedule.programs[number].instructions[index]
        store = self._stores[number]
        op = instruction.node.op
        few = self._few(number, instruction)
        if op in SENDS:
            return _send(instruction, store, self._rendezvous, dropped)
        if op in RECEIVES:
            return _receive(instruction, store, self._rendezvous)
        if op == "_Arg":
            return _argument(instruction, store, self._feeds)
        if op == "_Retval":
            return _result(instruction, store, self._results, dropped)
        if instruction.kernel.direct is not None and not any(instruction.reads_ref) and instruction.output_count == 1:
            if len(instruction.inputs) == 2:
                return (
                    _binary_checked(instruction, few, store, dropped)
                    if few is not None
                    else _binary(instruction, store, dropped)
                )
            if len(instruction.inputs) == 1:
                return (
                    _unary_checked(instruction, few, store, dropped) if few is not None else _unary(instruction, store, dropped)
                )
        return _general(instruction, store, dropped)

    def _few(self, number: int, instruction: Instruction) -> int | None:
        """How many elements an op's output may have unasked; None where it is known to have no more."""
        known, allocation = self._most[number], instruction.allocation
        if instruction.node.op == "Const":
            known[instruction.outputs] = max(1, instruction.attrs["value"].array.size)
        if allocation is None or instruction.kernel.direct is None:
            return None
        most = math.prod([known.get(position, MANY) for position in instruction.inputs])
        if most > allocation.memory.few:
            return allocation.memory.few
        known[instruction.outputs] = most
        return None


class _Accounts:
    """What an executor knows of its tensors' memory: by position in the stores, beside their values."""

    def __init__(self, schedule: Schedule, stores: Sequence[list[Any]], ledger: Ledger) -> None:
        self._schedule = schedule
        self._stores = stores
        self._ledger = ledger
        self._memories: list[list[Any]] = [[None] * len(store) for store in stores]
        self._readers = [_reader_counts(program) for program in schedule.programs]
        self._constants = make_constants(ledger, schedule.programs)
        self._account: StepAccount | None = None
        self._recorded = None if ledger.recorder is None else _Recorded(schedule, ledger, ledger.recorder)

    @property
    def has_failed(self) -> bool:
        """Whether there was no room for a tensor of this step."""
        return self._ledger.failure is not None

    def begin(self) -> None:
        for memories in self._memories:
            memories[:] = [None] * len(memories)
        self._account = StepAccount(self._ledger, self, self._last_readers)
        if self._recorded is not None:
            self._recorded.begin()

    def _last_readers(self) -> dict[Buffer, str]:
        """How long the buffers that are in use now would be."""
        found: dict[Buffer, str] = {}
        for number, index in self._schedule.order:
            for position in self._schedule.last_readers.get((number, index), ()):
                memory = self._memories[number][position]
                if memory is not None and memory.buffer is not None:
                    found[memory.buffer.root] = _until_read(self._schedule.programs[number].instructions[index])
        return found

    def end(self) -> None:
        if self._account is not None:
            self._account.close()
        if self._recorded is not None:
            self._recorded.end()

    def around(self, number: int, index: int, step: Step) -> Step:
        """A node's step, which drops nothing, with what it does to the memory of its inputs and outputs."""
        program = self._schedule.programs[number]
        instruction = program.instructions[index]
        store, memories = self._stores[number], self._memories[number]
        gather = _gather(instruction.inputs)
        first, last = instruction.outputs, instruction.outputs + instruction.output_count
        readers = self._readers[number][first:last]
        site = self._ledger.site(program, instruction, map(bool, readers))
        dropped = self._schedule.last_readers.get((number, index), ())
        constant = self._constants.get((number, index))
        note = None if self._recorded is None else self._recorded.note(number, index, site)
        begin_call = None if self._recorded is None else self._recorded.call(number, index, site)
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
                share(memory, count)
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
                share(made, readers)
            memories[output] = made
            for position in dropped:
                store[position] = memories[position] = None

        return accounted


class _Recorded:
    """What an executor tells a recorder: of each node the executions that it waits for, which the schedule fixes."""

    def __init__(self, schedule: Schedule, ledger: Ledger, recorder: Recorder) -> None:
        self._ledger = ledger
        self._recorder = recorder
        self._programs = schedule.programs
        self._numbers = [[0] * len(program.instructions) for program in schedule.programs]
        self._sent: dict[Any, int] = {}
        self._first = 0

    def begin(self) -> None:
        self._first = self._recorder.begin_run()

    def end(self) -> None:
        self._recorder.end_run(self._first)

    def note(self, number: int, index: int, site: Site) -> Note:
        """What is to be done when a node has run."""
        instruction, numbers, recorder, ledger = site.instruction, self._numbers[number], self._recorder, self._ledger
        op, key, sent, waits_for = instruction.node.op, instruction.key, self._sent, self._waits_for(number, index)

        def note(given: Sequence[Any], values: Sequence[Any], made: Sequence[Any]) -> None:
            if site.calls:
                numbers[index] = recorder.end_call()
                return
            sources = [numbers[source] for source in waits_for]
            if op in RECEIVES:
                sources.append(sent.pop(key))
            found = recorder.add(site, input_shapes(ledger, given, values), output_shapes(made), sources)
            numbers[index] = found
            if op in SENDS:
                sent[key] = found

        return note

    def call(self, number: int, index: int, site: Site) -> Note:
        """What is to be done before a node that calls functions."""
        numbers, recorder, ledger, waits_for = (
            self._numbers[number],
            self._recorder,
            self._ledger,
            self._waits_for(number, index),
        )

        def begin_call(given: Sequence[Any], values: Sequence[Any], _: Sequence[Any]) -> None:
            recorder.begin_call(site, input_shapes(ledger, given, values), [numbers[source] for source in waits_for])

        return begin_call

    def _waits_for(self, number: int, index: int) -> tuple[int, ...]:
        node = self._programs[number].instructions[index].node
        return (*node.input_nodes, *node.control_inputs)


def _until_read(instruction: Instruction) -> str:
    """How long what a node is the last to read is in use."""
    if instruction.node.op == "_Retval":
        return FETCHED
    if instruction.key is not None:
        return f"until {instruction.key[1]} has it"
    return f"until {instruction.node.name} has run"


def _reader_counts(program: Program) -> list[int]:
    """For each position of a program's store, how often it is read."""
    counts = [0] * program.store_size
    for instruction in program.instructions:
        for position in instruction.inputs:
            counts[position] += 1
    return counts


def _send(instruction: Instruction, store: list[Any], rendezvous: dict[Any, Any], dropped: Sequence[int]) -> Step:
    source, key, is_last = instruction.inputs[0], instruction.key, bool(dropped)

    def step() -> None:
        rendezvous[key] = read_variable(store[source])
        if is_last:
            store[source] = None

    return step


def _receive(instruction: Instruction, store: list[Any], rendezvous: dict[Any, Any]) -> Step:
    out, key = instruction.outputs, instruction.key

    def step() -> None:
        store[out] = rendezvous.pop(key)

    return step


def _argument(instruction: Instruction, store: list[Any], feeds: dict[int, Any]) -> Step:
    out, index = instruction.outputs, instruction.attrs["index"]

    def step() -> None:
        if index not in feeds:
            raise no_argument(index)
        store[out] = feeds[index]

    return step


def _result(instruction: Instruction, store: list[Any], results: dict[int, Any], dropped: Sequence[int]) -> Step:
    source, index, is_last = instruction.inputs[0], instruction.attrs["index"], bool(dropped)

    def step() -> None:
        results[index] = read_variable(store[source])
        if is_last:
            store[source] = None

    return step


def _binary(instruction: Instruction, store: list[Any], dropped: Sequence[int]) -> Step:
    function: Any = instruction.kernel.direct
    (one, two), out, compute = instruction.inputs, instruction.outputs, instruction.compute

    def step() -> None:
        try:
            store[out] = function(store[one], store[two])
        except (ValueError, TypeError, ArithmeticError):
            (store[out],) = compute((store[one], store[two]))

    return _then_drop(step, store, dropped)


def _binary_checked(instruction: Instruction, few: int, store: list[Any], dropped: Sequence[int]) -> Step:
    """As `_binary`, where the output may have more than a few elements: `compute` looks whether there is room."""
    function: Any = instruction.kernel.direct
    (one, two), out, compute = instruction.inputs, instruction.outputs, instruction.compute

    def step() -> None:
        first, second = store[one], store[two]
        try:
            if first.size * second.size > few:
                (store[out],) = compute((first, second))
            else:
                store[out] = function(first, second)
        except (ValueError, TypeError, ArithmeticError):
            (store[out],) = compute((first, second))

    return _then_drop(step, store, dropped)


def _unary(instruction: Instruction, store: list[Any], dropped: Sequence[int]) -> Step:
    function: Any = instruction.kernel.direct
    (one,), out, compute = instruction.inputs, instruction.outputs, instruction.compute

    def step() -> None:
        try:
            store[out] = function(store[one])
        except (ValueError, TypeError, ArithmeticError):
            (store[out],) = compute((store[one],))

    return _then_drop(step, store, dropped)


def _unary_checked(instruction: Instruction, few: int, store: list[Any], dropped: Sequence[int]) -> Step:
    """As `_unary`, where the output may have more than a few elements: `compute` looks whether there is room."""
    function: Any = instruction.kernel.direct
    (one,), out, compute = instruction.inputs, instruction.outputs, instruction.compute

    def step() -> None:
        value = store[one]
        try:
            (store[out],) = compute((value,)) if value.size > few else (function(value),)
        except (ValueError, TypeError, ArithmeticError):
            (store[out],) = compute((value,))

    return _then_drop(step, store, dropped)


def _general(instruction: Instruction, store: list[Any], dropped: Sequence[int]) -> Step:
    gather, compute = _gather(instruction.inputs), instruction.compute
    first, last = instruction.outputs, instruction.outputs + instruction.output_count

    def step() -> None:
        store[first:last] = compute(gather(store))

    return _then_drop(step, store, dropped)


def _gather(positions: tuple[int, ...]) -> Callable[[list[Any]], tuple[Any, ...]]:
    """What reads these positions of a store, as a tuple."""
    if len(positions) > 1:
        return itemgetter(*positions)
    if not positions:
        return lambda store: ()
    (only,) = positions
    return lambda store: (store[only],)


def _then_drop(step: Step, store: list[Any], dropped: Sequence[int]) -> Step:
    if not dropped:
        return step
    if len(dropped) == 1:
        (only,) = dropped

        def drop_one() -> None:
            step()
            store[only] = None

        return drop_one

    def drop() -> None:
        step()
        for position in dropped:
            store[position] = None

    return drop
