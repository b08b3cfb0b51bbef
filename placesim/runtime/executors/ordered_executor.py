"""Executor of programs in a fixed order: it runs a flat list of closures, which release tensors after their last reader.

Graphs with control flow, or with ops that may wait (queues), use `dataflow_executor.py` instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from operator import length_hint
from typing import Any

from placesim.core.errors import OpError, PlacesimError
from placesim.ops.categories import RECEIVES, SENDS
from placesim.ops.process.memory_limit import LOOK_AFTER
from placesim.runtime.executors.constant_folding import fold, known_values, small_from_known
from placesim.runtime.executors.fusion import FusionGroup, find_groups, find_heads
from placesim.runtime.executors.node_steps import Step, StepCompiler
from placesim.runtime.executors.observers import Progress, ScheduleObservation, StepObserver
from placesim.runtime.executors.program import Instruction, Program, blame, kernel_defect
from placesim.runtime.executors.schedule import Schedule
from placesim.runtime.executors.shared_operands import SharedOperand, find_sharing

CHUNK = 4096
"""Number of nodes between two updates of the progress bar."""


class Executor:
    """Runs all steps that have the same feeds and fetches.

    An `observer` sees each node. If other processes run parts of the step, the caller gives the `schedule` of this part, and
    the `rendezvous` for tensors that are sent to other parts or received from them.
    """

    def __init__(
        self,
        programs: Sequence[Program],
        observer: StepObserver | None = None,
        schedule: Schedule | None = None,
        rendezvous: dict[Any, Any] | None = None,
    ) -> None:
        self.schedule = Schedule(programs) if schedule is None else schedule
        self._remaining: Iterator[Step] = iter(())
        self._stores: list[list[Any]] = [[None] * program.store_size for program in programs]
        self._known: list[list[Any]] = [list(store) for store in self._stores]
        """The contents of the stores at the beginning of a step that nobody observes."""
        self._order = self._unfolded = self.schedule.order
        measurements = programs[0].state.measurements if programs else None
        if rendezvous is None:
            rendezvous = {} if measurements is None else measurements.rendezvous(programs)
        self._rendezvous = rendezvous
        self._feeds: dict[int, Any] = {}
        self._results: dict[int, Any] = {}
        self._compilers = [StepCompiler(store, self._feeds, self._results, self._rendezvous) for store in self._stores]
        self._observed = None if observer is None else observer.observe_schedule(self.schedule, self._stores)
        self._plain: list[Step] | None = None
        self._accounted: list[Step] | None = None

    @property
    def programs(self) -> Sequence[Program]:
        """The programs, one for each device."""
        return self.schedule.programs

    @property
    def position(self) -> int:
        """Position of the running or failed node in the schedule."""
        return len(self._order) - length_hint(self._remaining) - 1

    def _steps(self, observation: ScheduleObservation | None) -> list[Step]:
        """Return the steps of all nodes, compiled on first use. An observation wraps the steps and releases the values."""
        if observation is None:
            if self._plain is None:
                fuses = all(program.state.fuses and not program.state.is_watched for program in self.programs)
                heads = find_heads(self.programs, self.schedule.order) if fuses else []
                steps = self._plain_steps(has_heads=bool(heads))
                self._plain = self._fused(steps, heads) if fuses else steps
                for store, known in zip(self._stores, self._known, strict=True):
                    known += [None] * (len(store) - len(known))  # the positions that fused groups have added
            self._order = self._unfolded
            return self._plain
        self._order = self.schedule.order
        if self._accounted is None:
            self._accounted = [
                observation.around(number, index, self._compile(number, index, ())) for number, index in self._order
            ]
        return self._accounted

    def _plain_steps(self, has_heads: bool) -> list[Step]:
        """Return the steps except those of constants and folded nodes: their values are in the stores from the beginning."""
        order, dropped = self.schedule.order, self.schedule.last_readers
        steps = {(n, i): self._compile(n, i, dropped.get((n, i), ())) for n, i in order}
        known = fold(self.programs) or known_values(self.programs, order)
        if known is None:
            return list(steps.values())
        first = dict.fromkeys(small_from_known(self.programs, order, known) if has_heads else ())
        later = [pair for pair in order if pair not in known.nodes and pair not in first]
        self._unfolded = [*first, *later]
        for number, index in self._unfolded:
            for position in self.programs[number].instructions[index].inputs:
                self._known[number][position] = known.stores[number][position]
        if first:
            # a value may have had its last reader among these nodes, but now others read it later
            read = {(number, p) for number, index in later for p in self.programs[number].instructions[index].inputs}
            for number, index in first:
                released = [p for p in dropped.get((number, index), ()) if (number, p) not in read]
                steps[number, index] = self._compile(number, index, released)
        return [steps[pair] for pair in self._unfolded]

    def _fused(self, steps: list[Step], heads: Sequence[tuple[int, int]]) -> list[Step]:
        """Replace the steps of fused groups, which begin with some of `heads`, and of shared operands."""
        order, dropped = self._unfolded, self.schedule.last_readers
        sharing, groups = find_sharing(self.programs, order), find_groups(self.programs, order, heads)
        if not sharing and not groups:
            return steps
        turns = {pair: turn for turn, pair in enumerate(order)}
        for number, products in sharing:
            shared = SharedOperand(products, self.programs[number], self._stores[number])
            for rank, thin in enumerate(products):
                for instruction, made in ((thin.joining, shared.join), (thin.instruction, shared.multiply)):
                    if instruction is not None:
                        pair = number, instruction.node.id
                        steps[turns[pair]] = made(rank, steps[turns[pair]], dropped.get(pair, ()))
        for (number, index), followers in groups.items():
            group = FusionGroup(self.programs[number].instructions[index], followers, self._stores[number])
            turn = turns[number, index]
            steps[turn] = group.lead(steps[turn])
            for rank, follower in enumerate(followers):
                pair = number, follower.instruction.node.id
                steps[turns[pair]] = group.follow(rank, steps[turns[pair]], dropped.get(pair, ()))
        return steps

    def run(self, feeds: Mapping[int, Any], progress: Progress | None = None, *, is_accounted: bool = True) -> dict[int, Any]:
        """Run one step with values by `_Arg` index; return values by `_Retval` index.

        With `is_accounted=False` the observer does not see this step. Raises OpError, with node and device, if a kernel fails.
        """
        self._feeds.update(feeds)
        observation = self._observed if is_accounted else None
        steps = self._steps(observation)
        done = 0
        remaining = self._remaining = iter(steps)
        if observation is None:
            self._fill_stores(self._known)
        else:
            observation.begin()
        memory = self.schedule.programs[0].state.memory if steps else None
        try:
            while memory is not None and done < len(steps):
                for step in islice(remaining, LOOK_AFTER):
                    step()
                ran = min(LOOK_AFTER, len(steps) - done)
                done += ran
                memory.worked(ran)
                if progress is not None and (not done % CHUNK or done == len(steps)):
                    progress(done + len(self.schedule.order) - len(steps))  # including folded nodes
        except OpError as error:
            failed = self.position
            program, instruction, _ = self._at(failed)
            if observation is not None and observation.has_failed:
                self._finish_started(steps, failed)
            raise blame(error, program.graph, instruction.node, program.state.device.name) from None
        except PlacesimError:
            raise
        except Exception as error:
            raise kernel_defect(error, *self._at(self.position)) from error
        finally:
            results = dict(self._results)
            self._clear()
        if observation is not None:
            observation.end()
        return results

    def _finish_started(self, steps: Sequence[Step], failed: int) -> None:
        """Run the kernels that TensorFlow had started before another kernel ran out of memory; their errors are only logged."""
        order = self.schedule.order
        done = set(order[:failed])
        for position in range(failed + 1, len(order)):
            number, index = order[position]
            node = self.schedule.programs[number].instructions[index].node
            needed = (*node.input_nodes, *node.control_inputs)
            if node.op not in SENDS and node.op not in RECEIVES and all((number, other) in done for other in needed):
                with suppress(Exception):  # the first error is the step's
                    steps[position]()

    def _at(self, position: int) -> tuple[Program, Instruction, list[Any]]:
        """Return the program, instruction and current inputs of the node at a position of the order."""
        number, index = self._order[position]
        program = self.schedule.programs[number]
        instruction = program.instructions[index]
        return program, instruction, [self._stores[number][i] for i in instruction.inputs]

    def _clear(self) -> None:
        """Delete all values of a finished step."""
        self._rendezvous.clear()
        self._feeds.clear()
        self._results.clear()
        self._fill_stores([[None] * len(store) for store in self._stores])

    def _fill_stores(self, values: list[list[Any]]) -> None:
        for store, filling in zip(self._stores, values, strict=True):
            store[:] = filling

    def _compile(self, number: int, index: int, dropped: Sequence[int]) -> Step:
        return self._compilers[number].compile(self.programs[number].instructions[index], dropped)
