"""Lifetimes of the tensors of dry-run steps, and lower bounds of peaks over all orders and placements.

The journals of a dry run have the producer, the readers and the size of each buffer. Copies on other devices are merged with
their originals, since a plan makes new copies on each device that reads the tensor.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from placesim.ops.categories import ASSIGNMENTS, RECEIVES, SENDS
from placesim.planning.peaks import MemoryPiece, shared_peak
from placesim.planning.problem import ProblemTensor
from placesim.prediction.node_shapes import num_bytes
from placesim.runtime.recording.recorder import Execution, ExecutionRecorder

if TYPE_CHECKING:
    from placesim.machine.memory.buffer_sources import JournalEntry
    from placesim.machine.memory.buffers import Buffer

ROUNDING = 256
"""Granularity of a GPU allocator in bytes (`machine/memory/allocator`)."""
MAX_ORDERED = 4000
"""Maximum number of tasks of a step whose partial order is computed."""
_Array = np.ndarray


class StepTasks(NamedTuple):
    """A dry-run step: its first moment, its executions, and the tasks of each execution."""

    first: int
    executions: Sequence[Execution]
    tasks: Sequence[tuple[int, ...]]

    @property
    def end(self) -> int:
        return self.first + len(self.executions)

    def first_runs(self) -> dict[int, int]:
        """Return the moment of each task's first execution."""
        return {task: self.first + n for n, tasks in reversed(list(enumerate(self.tasks))) for task in tasks}


@dataclass
class MemoryLifetimes:
    """Memory in dry-run steps, in bytes. Moments are those of the session's clock, which advances with each executed node.

    - `kept`: memory that each task holds from the start.
    - `kept_since`: the task, allocation moment and requested size of each buffer that a task keeps.
    - `tensors`: the tensors of all steps; `asked` has the requested size of each.
    """

    kept: dict[int, float] = field(default_factory=dict)
    kept_since: list[tuple[int, int, int]] = field(default_factory=list)
    tensors: list[ProblemTensor] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)


def group_by_step(recorder: ExecutionRecorder) -> dict[int, list[Execution]]:
    """Return the executions of the dry-run steps, by the moment at which each step began."""
    return dict(zip(recorder.moments, recorder.steps, strict=True))


def find_lifetimes(
    recorder: ExecutionRecorder, steps: Sequence[StepTasks], constants: Mapping[str, int], variables: Mapping[str, int]
) -> MemoryLifetimes:
    """Return the lifetimes of all memory in the steps.

    `constants` has the tasks of constants by name; their buffers are allocated before any step. So are the buffers of variables
    with a restored value; `variables` has the tasks of variables by the name under which devices keep them.
    """
    return _Finder(recorder, steps, constants, variables).find()


def scratch_sizes(recorder: ExecutionRecorder) -> dict[str, Counter[int]]:
    """Return the sizes of each node's temporary buffers, which are freed before the node ends."""
    read = {buffer for buffer, _, _ in recorder.reads}
    found: dict[str, Counter[int]] = {}
    for journal in recorder.journals.values():
        freed = {entry.buffer: entry for entry in journal if not entry.is_made}
        for buffer, is_made, node, moment in journal:
            end = freed.get(buffer)
            if is_made and end is not None and (end.node, end.moment) == (node, moment) and buffer not in read:
                found.setdefault(node, Counter())[buffer.size] += 1
    return found


def add_scratch(
    held: MemoryLifetimes,
    steps: Sequence[StepTasks],
    sizes: Mapping[int, Counter[int]],
    known: Mapping[int, Counter[int]],
    only_on: frozenset[int],
) -> None:
    """Add temporary memory that tasks need only on the devices `only_on`: `sizes` without `known`, the part on all devices."""
    runs = {task: moment for step in steps for task, moment in step.first_runs().items()}
    for task, found in sizes.items():
        more = found - known.get(task, Counter())
        if more and task in runs:
            total = sum(size * count for size, count in more.items())
            held.tensors.append(ProblemTensor(_rounded(total), task, runs[task], only_on=only_on))
            held.asked.append(total)


class _Place(NamedTuple):
    """The place of an execution: the number of its step, and its number within the step."""

    step: int
    number: int


class _Finder:
    def __init__(
        self,
        recorder: ExecutionRecorder,
        steps: Sequence[StepTasks],
        constants: Mapping[str, int],
        variables: Mapping[str, int],
    ) -> None:
        self._constants = constants
        self._variables = variables
        self._recorder = recorder
        self._steps = steps
        self._firsts = [step.first for step in steps]
        self._found = MemoryLifetimes()
        self._first_runs = [step.first_runs() for step in steps]
        self._reads: dict[Buffer, list[tuple[str, int]]] = {}
        for buffer, node, moment in recorder.reads:
            self._reads.setdefault(buffer, []).append((node, moment))
        # assignments that wait for each execution, with the bytes of the assigned values
        self._assigned: dict[_Place, list[tuple[_Place, int]]] = {}
        for step, (_, executions, _) in enumerate(steps):
            for number, execution in enumerate(executions):
                place = _Place(step, number)
                for source in execution.sources if self._op(place) in ASSIGNMENTS else ():
                    self._assigned.setdefault(_Place(step, source), []).append((place, num_bytes(execution.inputs[1:])))
        # tensors that each transfer may carry
        self._sent: dict[_Place, list[int]] = {}

    def find(self) -> MemoryLifetimes:
        """Find the lifetimes of original tensors first, and then of copies."""
        copies = []
        for device, journal in self._recorder.journals.items():
            freed = {entry.buffer: entry for entry in journal if not entry.is_made}
            for entry in journal:
                if not entry.is_made:
                    continue
                # no node makes the value of a restored variable
                kept = self._constants.get(entry.node) if entry.node else self._variables.get(entry.buffer.owner)
                if kept is not None:
                    self._keep(entry.buffer, kept, entry.moment, self._holders(entry.buffer, None))
                    continue
                place = self._place(entry.node, entry.moment)
                if place is None or self._is_on_host(place, device):
                    continue
                if self._op(place) in RECEIVES:
                    copies.append((entry, place, freed.get(entry.buffer)))
                else:
                    self._add(entry, place, freed.get(entry.buffer))
        for entry, place, end in copies:
            self._add_copy(entry, place, end)
        return self._found

    def _place(self, node: str, moment: int) -> _Place | None:
        """Return the place of the execution at a moment, or the previous place if this is not an execution of `node`.

        Return None if the moment is earlier than the first step.
        """
        step = bisect_right(self._firsts, moment) - 1
        if step < 0:
            return None
        executions, number = self._steps[step].executions, moment - self._firsts[step]
        if number >= len(executions) or self._name(executions[number]) != node:
            number = min(number, len(executions)) - 1
        return _Place(step, number) if number >= 0 else None

    def _name(self, execution: Execution) -> str:
        return "" if execution.site is None else execution.site.name

    def _op(self, place: _Place) -> str:
        site = self._steps[place.step].executions[place.number].site
        return "" if site is None else site.instruction.node.op

    def _is_on_host(self, place: _Place, device: str) -> bool:
        site = self._steps[place.step].executions[place.number].site
        return site is not None and site.program.state.device.name != device

    def _task(self, place: _Place) -> int | None:
        return next(iter(self._steps[place.step].tasks[place.number]), None)

    def _moment(self, place: _Place) -> int:
        return self._firsts[place.step] + place.number

    def _holders(self, buffer: Buffer, end: JournalEntry | None) -> list[_Place]:
        held = [self._place(node, moment) for node, moment in self._reads.get(buffer, ())]
        if end is not None and not self._is_over(end):
            held.append(self._place(end.node, end.moment))
        return list(dict.fromkeys(place for place in held if place is not None))

    def _is_over(self, end: JournalEntry) -> bool:
        """Return whether a buffer was freed by the end of the step, and not by a node."""
        step = bisect_right(self._firsts, end.moment) - 1
        return end.moment >= self._steps[step].end

    def _is_kept(self, made: _Place, end: JournalEntry | None) -> bool:
        # a step frees all remaining buffers at the moment after its last moment
        return end is None or end.moment > self._steps[made.step].end + 1

    def _readers(self, holders: Sequence[_Place], tensor: int | None) -> list[tuple[int, int]]:
        found = []
        for place in holders:
            op = self._op(place)
            if op in RECEIVES and tensor is not None:
                self._sent.setdefault(place, []).append(tensor)
            elif op not in RECEIVES and op not in SENDS and (task := self._task(place)) is not None:
                found.append((task, self._moment(place)))
        return found

    def _add(self, entry: JournalEntry, made: _Place, end: JournalEntry | None) -> None:
        task = self._task(made)
        if task is None or not entry.buffer.size:
            return
        holders = self._holders(entry.buffer, end)
        if not self._is_kept(made, end):
            number = len(self._found.tensors)
            reads = self._readers(holders, number)
            if end is None or self._is_over(end):
                reads.append((task, self._steps[made.step].end))
            self._append(entry.buffer, task, self._moment(made), reads)
            return
        # a variable may take over the buffer of its new value, then also without holding it together with others
        takers = [place for place, size in self._assigned.get(made, ()) if size == entry.buffer.size]
        others = (place for place in (*holders, *takers) if self._op(place) in ASSIGNMENTS)
        keeper = next((place for place in others if self._task(place) not in {None, task}), None)
        own = None if keeper is None else self._task(keeper)
        self._keep(entry.buffer, task if own is None else own, self._moment(made), holders)
        if own is not None and keeper is not None:
            self._append(entry.buffer, own, self._moment(made), [(task, self._moment(keeper))], is_kept=True)

    def _keep(self, buffer: Buffer, task: int, moment: int, holders: Sequence[_Place]) -> None:
        """Record a buffer that outlives the steps, and its copies, each of which lives for at most one step."""
        self._found.kept_since.append((task, moment, buffer.size))
        if moment < self._firsts[0]:
            self._found.kept[task] = self._found.kept.get(task, 0.0) + _rounded(buffer.size)
        else:
            self._append(buffer, task, moment, [(task, self._steps[-1].end)])
        for step in dict.fromkeys(place.step for place in holders):
            reads = self._readers([place for place in holders if place.step == step], None)
            if reads:
                # the copy is made as early as possible
                first = self._first_runs[step].get(task, self._steps[step].end)
                self._append(buffer, task, min([first, *(at for _, at in reads)]), reads, is_kept=True)

    def _append(self, buffer: Buffer, task: int, made: int, reads: Sequence[tuple[int, int]], *, is_kept: bool = False) -> None:
        self._found.tensors.append(ProblemTensor(_rounded(buffer.size), task, made, tuple(dict.fromkeys(reads)), is_kept))
        self._found.asked.append(buffer.size)

    def _add_copy(self, entry: JournalEntry, made: _Place, end: JournalEntry | None) -> None:
        """Add the readers of a copy to its original tensor. If that is not recorded, record the copy instead."""
        reads = self._readers(self._holders(entry.buffer, end), None)
        for number in self._sent.get(made, ()):
            if self._found.asked[number] == entry.buffer.size:
                tensor = self._found.tensors[number]
                self._found.tensors[number] = tensor._replace(reads=tuple(dict.fromkeys((*tensor.reads, *reads))))
                return
        task = self._task(made)
        if task is not None and reads:
            self._append(entry.buffer, task, self._moment(made), reads, is_kept=True)


def _rounded(size: int) -> float:
    return float(-(-size // ROUNDING) * ROUNDING)


# --- lower bounds


class StepOrder(NamedTuple):
    """A step's tasks, and the tasks that each task waits for.

    `reads` and `makes` say for each task whether all its inputs, and all its outputs, are in its device's memory.
    """

    step: StepTasks
    waits: Mapping[int, set[int]]
    reads: Sequence[bool]
    makes: Sequence[bool]


def bound_peak(
    held: MemoryLifetimes, orders: Sequence[StepOrder], groups: Sequence[int], homes: Sequence[frozenset[int]]
) -> float:
    """Return a lower bound of the highest peak over all placements and task orders; `groups` has the group of each task.

    While a task runs, memory holds all tensors that must be made before the task and are read by the task or after it. An
    output may reuse the memory of an input of the same size.
    """
    return max((_of_step(held, order, groups, homes) for order in orders), default=0.0)


def _of_step(held: MemoryLifetimes, order: StepOrder, groups: Sequence[int], homes: Sequence[frozenset[int]]) -> float:
    step, count = order.step, len(frozenset().union(*homes)) if homes else 1
    tasks = sorted(order.waits)
    place = {task: number for number, task in enumerate(tasks)}
    own = [
        (size, tensor)
        for tensor, size in zip(held.tensors, held.asked, strict=True)
        if step.first <= tensor.made < step.end and tensor.task in place and order.makes[tensor.task]
    ]
    before: dict[int, float] = {}
    for task, moment, size in held.kept_since:
        if moment < step.first:
            before[groups[task]] = before.get(groups[task], 0.0) + size
    best = max([0.0, *before.values(), *_alone(own, order, groups, before)])
    if not tasks or len(tasks) > MAX_ORDERED:
        return best
    behind = _behind(order, tasks, place)
    pieces = [MemoryPiece(size, homes[group]) for group, size in before.items()]
    rows = [np.ones(len(tasks), bool) for _ in pieces]
    for size, tensor in own:
        readers = [task for task, at in tensor.reads if task in place and order.reads[task] and at < step.end]
        if tensor.is_kept or not readers:
            continue
        needed = np.zeros(len(tasks), bool)
        for reader in readers:
            needed |= behind[:, place[reader]]
            needed[place[reader]] = True
        needed &= behind[place[tensor.task]]
        # a copy may outlive its original
        where = frozenset().union(homes[groups[tensor.task]], *(homes[groups[task]] for task, _ in tensor.reads))
        pieces.append(MemoryPiece(float(size), where))
        rows.append(needed)
    return max(best, shared_peak(count, pieces, rows))


def _alone(
    own: Sequence[tuple[int, ProblemTensor]], order: StepOrder, groups: Sequence[int], before: Mapping[int, float]
) -> list[float]:
    """Return the memory that each task needs on its device while it runs."""
    read: dict[int, list[int]] = {}
    made: dict[int, list[int]] = {}
    for size, tensor in own:
        for task in {task for task, at in tensor.reads if at < order.step.end and order.reads[task]} - {tensor.task}:
            if not (tensor.is_kept and groups[task] == groups[tensor.task]):
                read.setdefault(task, []).append(size)
        if not tensor.is_kept and any(task != tensor.task for task, _ in tensor.reads):
            made.setdefault(tensor.task, []).append(size)
    found = []
    for task in {*read, *made}:
        given = sorted(read.get(task, ()))
        total = float(sum(given)) + before.get(groups[task], 0.0)
        for size in made.get(task, ()):
            if size in given:
                given.remove(size)
            else:
                total += size
        found.append(total)
    return found


def _behind(order: StepOrder, tasks: Sequence[int], place: Mapping[int, int]) -> _Array:
    """Return a matrix; the row of a task marks the tasks that every order runs after it."""
    found = np.zeros((len(tasks), len(tasks)), bool)
    readers: dict[int, list[int]] = {task: [] for task in tasks}
    for task, sources in order.waits.items():
        for source in sources:
            readers[source].append(task)
    left = {task: len(readers[task]) for task in tasks}
    ready = [task for task in tasks if not left[task]]
    while ready:
        task = ready.pop()
        row = found[place[task]]
        for reader in readers[task]:
            row |= found[place[reader]]
            row[place[reader]] = True
        for source in order.waits[task]:
            left[source] -= 1
            if not left[source]:
                ready.append(source)
    return found
