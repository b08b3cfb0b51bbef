"""TensorFlow's data flow: frames, iterations and dead tensors; ops that wait; ops that run in a thread pool.

A node is ready when all its inputs have arrived, a `Merge` with its first live one.  Frames and iterations are made when a
value enters them and forgotten when nothing in them is left to do.  Only kernels run in the pool: what they give is passed on
in the thread that called `run`, so the result does not depend on the number of threads.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor as Pool
from contextlib import suppress
from contextvars import copy_context
from operator import attrgetter
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from placesim.deadlines import TURN_SECONDS
from placesim.dtypes import INT32
from placesim.errors import InternalError, InvalidArgumentError, OpError, PlacesimError, UnimplementedError
from placesim.graph.node_text import node_tag
from placesim.memory.buffers import Buffer
from placesim.ops.categories import CONTROL_FLOW, ENTERS, EXITS, MERGES, NEXT_ITERATIONS, RECEIVES, SENDS, SWITCHES
from placesim.runtime.accounting.ledger import Ledger, make_constants
from placesim.runtime.accounting.sites import Site
from placesim.runtime.accounting.step_account import StepAccount
from placesim.runtime.control_flow import find_frames
from placesim.runtime.denormals import flushed_denormals
from placesim.runtime.kernels.kernel import WouldWait, is_expensive
from placesim.runtime.kernels.memory_rules import TensorMemory
from placesim.runtime.kernels.sketch import Sketch
from placesim.runtime.process_memory import LOOK_AFTER
from placesim.runtime.program import Instruction, Program, blame, defect, direct_compute, no_argument, read_variable
from placesim.runtime.recording import Recorder, input_shapes, output_shapes
from placesim.runtime.shapes import format_dims
from placesim.runtime.sketches import unknown_choice

LARGE_INPUT_BYTES = 1 << 15
"""An op whose inputs are smaller runs in the calling thread: handing it over would cost more."""


class _Dead:
    """The value of a tensor that was never computed because its branch was not taken."""

    def __repr__(self) -> str:
        return "<dead>"


DEAD = _Dead()


_COMPUTE, _ARGUMENT, _RESULT, _SWITCH, _PASS, _SEND, _RECEIVE = range(7)
"""What is done with a node that is ready."""
_KINDS = (
    dict.fromkeys(CONTROL_FLOW, _PASS)
    | dict.fromkeys((*SWITCHES, "_SwitchN"), _SWITCH)
    | dict.fromkeys(SENDS, _SEND)
    | dict.fromkeys(RECEIVES, _RECEIVE)
    | {"_Arg": _ARGUMENT, "_Retval": _RESULT}
)


class _Node:
    """A node as it is run: `readers` are `(node, slot, input position)`, with -1 for control; `waits` for so many inputs.

    `reader_counts` has how often each output is read, `more_holders` the slots for which that is not once, and by how much.  A
    `Merge` counts only its control inputs in `waits`.  `stays`: its outputs are read in the iteration that it runs in.
    """

    __slots__ = (
        "compute",
        "constant",
        "constant_memory",
        "frame_name",
        "index",
        "input_count",
        "instruction",
        "is_constant",
        "is_enter",
        "is_exit",
        "is_expensive",
        "is_merge",
        "is_next",
        "kind",
        "more_holders",
        "name",
        "positions",
        "program",
        "reader_counts",
        "readers",
        "reads_ref",
        "site",
        "stays",
        "uses_scratch",
        "waits",
    )

    def __init__(self, program: Program, instruction: Instruction) -> None:
        node = instruction.node
        op = node.op
        self.program = program
        self.instruction = instruction
        self.name = node.name
        self.index = node.id
        self.kind = _KINDS.get(op, _COMPUTE)
        self.compute = direct_compute(instruction)
        self.is_expensive = self.kind == _COMPUTE and is_expensive(instruction.kernel)
        self.reads_ref = True in instruction.reads_ref
        self.is_merge = op in MERGES
        self.is_enter = op in ENTERS
        self.is_exit = op in EXITS
        self.is_next = op in NEXT_ITERATIONS
        self.stays = not (self.is_enter or self.is_exit or self.is_next)
        self.is_constant = self.is_enter and bool(node.attrs.get("is_constant"))
        self.uses_scratch = not self.is_merge and program.state.device.type != "CPU"
        self.frame_name = str(node.attrs["frame_name"]) if self.is_enter else ""
        self.input_count = len(node.input_nodes)
        self.waits = len(node.control_inputs) + (0 if self.is_merge else self.input_count)
        self.positions = [
            TensorMemory((), INT32, None, np.array(position, np.int32))
            for position in range(self.input_count if self.is_merge else 0)
        ]
        self.readers: list[tuple[_Node, int, int]] = []
        self.reader_counts = [0] * instruction.output_count
        self.more_holders: list[tuple[int, int]] = []
        self.site: Site | None = None
        self.constant: Buffer | None = None
        self.constant_memory: TensorMemory | None = None


class _Wiring:
    """One program as nodes that know their readers; of its frames the number of `Enter` nodes, and the `Exit` nodes."""

    def __init__(self, program: Program) -> None:
        self.nodes = [_Node(program, instruction) for instruction in program.instructions]
        self.enters = Counter(node.frame_name for node in self.nodes if node.is_enter)
        self.exits: dict[str, list[_Node]] = {}
        for node, frame in zip(self.nodes, find_frames(program.graph), strict=True):
            given = node.instruction.node
            for position, (i, slot) in enumerate(zip(given.input_nodes, given.input_slots, strict=True)):
                self.nodes[i].readers.append((node, slot, position))
                self.nodes[i].reader_counts[slot] += 1
            for i in given.control_inputs:
                self.nodes[i].readers.append((node, -1, -1))
            if node.is_exit:
                if frame is None:
                    error = InvalidArgumentError("Invalid Exit op: Cannot find a corresponding Enter op.")
                    raise blame(error, program.graph, given, program.state.device.name)
                self.exits.setdefault(frame.name, []).append(node)
        for node in self.nodes:
            # a frame goes on holding its constants
            counts = [count + node.is_constant for count in node.reader_counts]
            del counts[1 if node.is_merge else len(counts) :]  # the number of a Merge's input is in no buffer
            node.more_holders = [(slot, count - 1) for slot, count in enumerate(counts) if count != 1]


class _FrameRun:
    """One run of a loop, or the whole step; `identity` is equal for the same frame on other devices."""

    __slots__ = ("constants", "exited", "identity", "iterations", "name", "parent", "pending_enters", "wiring")

    def __init__(self, wiring: _Wiring, name: str, parent: _Iteration | None) -> None:
        self.wiring = wiring
        self.name = name
        self.parent = parent
        self.identity: tuple[Any, ...] = () if parent is None else (*parent.frame.identity, parent.number, name)
        self.iterations: dict[int, _Iteration] = {0: _Iteration(self, 0)}
        self.constants: list[tuple[_Node, Any]] = []
        self.exited: set[_Node] = set()
        self.pending_enters = wiring.enters[name]


class _Iteration:
    """One iteration of a frame: what has arrived at nodes that are not ready, by their numbers, and how many are still to run.

    Of a `Merge` that has run None is left.
    """

    __slots__ = ("arrived", "children", "frame", "number", "outstanding")

    def __init__(self, frame: _FrameRun, number: int) -> None:
        self.frame = frame
        self.number = number
        self.arrived: dict[int, _Visit | None] = {}
        self.outstanding = 0
        self.children: dict[str, _FrameRun] = {}


class _Visit:
    """A node in an iteration: the inputs that have arrived, how many it still waits for, and how many of them are dead.

    Any dead input makes a node dead, a `Merge` only all of them; once it is ready, `dead` tells that.
    """

    __slots__ = ("dead", "iteration", "node", "values", "waits")

    def __init__(self, node: _Node, iteration: _Iteration) -> None:
        self.node = node
        self.iteration = iteration
        self.values: list[Any] = [None] * node.input_count
        self.waits = node.waits
        self.dead = 0

    @property
    def is_taken(self) -> bool:
        """Whether a `Merge` has its value."""
        return self.values[0] is not None


class DataflowExecutor:
    """Runs programs node by node as their inputs arrive."""

    def __init__(
        self,
        programs: Sequence[Program],
        pool: Pool | None = None,
        ledger: Ledger | None = None,
        *,
        is_body: bool = False,
    ) -> None:
        self.programs = programs
        self.is_body = is_body
        self._ledger = ledger
        self._wiring = [_Wiring(program) for program in programs]
        if ledger is not None:
            for (number, index), buffer in make_constants(ledger, programs).items():
                self._wiring[number].nodes[index].constant = buffer
        self._pool = pool

    def run(
        self,
        feeds: Mapping[int, Any],
        progress: Callable[[int], None] | None = None,
        *,
        is_accounted: bool = True,
    ) -> dict[int, Any]:
        """One step: values by `_Arg` index -> values by `_Retval` index; raises OpError, with node and device.

        `is_accounted=False` leaves the memory of this step out of the ledger, where there is one.
        """
        if self._ledger is not None and self._ledger.recorder is not None and is_accounted:
            return _RecordedRun(self, feeds, progress, self._ledger).run()
        if self._ledger is not None and is_accounted:
            return _AccountedRun(self, feeds, progress, self._ledger).run()
        return _Run(self, feeds, progress).run()


def _standstill(name: str, is_body: bool) -> OpError:
    """For a node that has to wait when nothing else can run."""
    if not is_body:
        return InternalError(f"{node_tag(name)} would wait forever: nothing else of this step can run")
    found = UnimplementedError(f"{node_tag(name)} waits for what its function does not do, and placesim runs nothing beside it")
    found.help = ("put both sides of a queue into the graph, or make what fills it a control input of the call",)
    return found


class _Run:
    """The state of one step."""

    def __init__(
        self,
        executor: DataflowExecutor,
        feeds: Mapping[int, Any],
        progress: Callable[[int], None] | None,
    ) -> None:
        self.programs = executor.programs
        self.is_body = executor.is_body
        self.wiring = executor._wiring
        self.pool = executor._pool
        self.feeds = feeds
        self.progress = progress
        self.results: dict[int, Any] = {}
        self.dead_results: list[int] = []
        self.ready: deque[_Visit] = deque()
        self.parked: deque[_Visit] = deque()
        self.sent: dict[Any, Any] = {}
        self.receivers: dict[Any, _Visit] = {}
        measurements = self.programs[0].state.measurements if self.programs else None
        self.exchange = None if measurements is None else measurements.exchange(self.programs)
        self.finished: SimpleQueue[tuple[_Visit, Sequence[Any] | BaseException]] = SimpleQueue()
        self.in_flight = 0
        self.done = 0

    def run(self) -> dict[int, Any]:
        for wiring in self.wiring:
            iteration = _FrameRun(wiring, "", None).iterations[0]
            first = [node for node in wiring.nodes if not node.waits and not node.input_count]
            iteration.outstanding = len(first)
            self.ready.extend(_Visit(node, iteration) for node in first)
        try:
            while self.ready or self.in_flight or self.parked:
                self._turn()
        except Exception:  # an interrupt waits for nothing
            while self.in_flight:
                self._wait_for_pool()
            raise
        if self.receivers:
            name = next(iter(self.receivers.values())).node.name
            raise InternalError(f"{node_tag(name)} waits for a tensor that is never sent")
        if self.programs:
            self.programs[0].state.memory.worked(self.done % LOOK_AFTER)
        for index in self.dead_results:
            raise InvalidArgumentError(f"Retval[{index}] does not have value")
        return self.results

    def _turn(self) -> None:
        """Run what is ready; else wait for the pool; else try again what had to wait."""
        if self.ready:
            while self.ready:
                self._start(self.ready.popleft())
        elif self.in_flight:
            visit, outputs = self._wait_for_pool()
            if isinstance(outputs, BaseException):
                self._fail(visit, outputs)
            else:
                self._finish(visit, self._account_for(visit, outputs))
        else:
            before = self.done
            for _ in range(len(self.parked)):
                self._start(self.parked.popleft())
            if self.done == before and len(self.parked) and not self.ready and not self.in_flight:
                node = self.parked[0].node
                raise _blamed(_standstill(node.name, self.is_body), node)

    def _wait_for_pool(self) -> tuple[_Visit, Any]:
        """The next node that a thread of the pool has computed, and its outputs."""
        while True:
            with suppress(Empty):
                found = self.finished.get(timeout=TURN_SECONDS)
                self.in_flight -= 1
                return found

    def _start(self, visit: _Visit) -> None:
        node = visit.node
        kind = node.kind
        if kind >= _SEND:
            return self._send(visit) if kind == _SEND else self._receive(visit)
        if visit.dead:
            return self._start_dead(visit)
        if node.is_expensive and self.pool is not None and self._hand_over(visit, self.pool):
            return None
        try:
            if kind <= _RESULT:
                outputs = self._execute(visit)
            else:
                outputs = self._switched(visit) if kind == _SWITCH else self._passed(visit)
        except Exception as error:
            return self._fail(visit, error)
        return self._finish(visit, outputs)

    def _start_dead(self, visit: _Visit) -> None:
        """A node in a branch that is not taken has dead outputs."""
        instruction = visit.node.instruction
        if visit.node.kind == _RESULT:
            self.dead_results.append(instruction.attrs["index"])
        self._drop(*visit.values)
        self._finish(visit, [DEAD] * instruction.output_count)

    def _hand_over(self, visit: _Visit, pool: Pool) -> bool:
        """Let a thread of the pool compute a node, where that is enough work."""
        values = self._values(visit)
        if sum(getattr(value, "nbytes", 0) for value in values) <= LARGE_INPUT_BYTES:
            return False
        self.in_flight += 1
        pool.submit(copy_context().run, self._compute_in_pool, visit, values)
        return True

    def _compute_in_pool(self, visit: _Visit, values: Sequence[Any]) -> None:
        try:
            with flushed_denormals():
                outputs: Any = visit.node.instruction.compute(values)
        except BaseException as error:  # handed to the thread that waits for it
            outputs = error
        self.finished.put((visit, outputs))

    def _compute(self, node: _Node, values: Sequence[Any]) -> Sequence[Any]:
        """A node's outputs for the values of its inputs."""
        instruction, kind = node.instruction, node.kind
        if kind == _COMPUTE:
            return node.compute(values)
        if kind == _ARGUMENT:
            index = instruction.attrs["index"]
            if index not in self.feeds:
                raise no_argument(index)
            return [self.feeds[index]]
        self.results[instruction.attrs["index"]] = _read(values[0], instruction.reads_ref[0])
        return []

    def _fail(self, visit: _Visit, error: BaseException) -> None:
        """An error ends the step; a node that would wait is parked."""
        if isinstance(error, WouldWait):
            self.parked.append(visit)
            return
        node = visit.node
        if isinstance(error, OpError):
            raise _blamed(error, node) from None
        if isinstance(error, Exception) and not isinstance(error, PlacesimError):
            raise defect(error, node.program, node.instruction, self._values(visit)) from error
        raise error

    def _finish(self, visit: _Visit, outputs: Sequence[Any]) -> None:
        """Pass a node's outputs on."""
        node, iteration = visit.node, visit.iteration
        self.done += 1
        if not self.done % LOOK_AFTER:
            try:
                node.program.state.memory.worked(LOOK_AFTER)
            except OpError as error:
                raise _blamed(error, node) from None
            if self.progress is not None:
                self.progress(self.done)
        if node.stays:
            self._activate_readers(node, iteration, outputs, bool(visit.dead))
        else:
            self._leave(node, iteration, outputs, bool(visit.dead))
        iteration.outstanding -= 1
        if not iteration.outstanding:
            self._clean_up(iteration)

    # --- what a run that accounts for memory does otherwise

    def _values(self, visit: _Visit) -> Sequence[Any]:
        """The values of a node's inputs."""
        return visit.values

    def _execute(self, visit: _Visit) -> Sequence[Any]:
        """A node's outputs, as they go from node to node."""
        return self._compute(visit.node, visit.values)

    def _switched(self, visit: _Visit) -> Sequence[Any]:
        """The data at the output that the selector names, dead values at the others."""
        data, selector = map(_read, visit.values, visit.node.instruction.reads_ref)
        return _at_branch(visit.node, selector, data)

    def _passed(self, visit: _Visit) -> Sequence[Any]:
        """The inputs as outputs."""
        return [read_variable(visit.values[0]), *visit.values[1:]] if visit.node.reads_ref else visit.values

    def _account_for(self, visit: _Visit, outputs: Sequence[Any]) -> Sequence[Any]:
        """Outputs that were computed or received, as they go from node to node."""
        return outputs

    def _position(self, node: _Node, position: int) -> Any:
        """The number of the input that a `Merge` took."""
        return node.positions[position].value

    def _drop(self, *values: Any) -> None:
        """What nobody takes."""

    def _hold(self, source: _Node, outputs: Sequence[Any]) -> None:
        """Outputs that are not read just once go to their readers."""

    # --- transfers

    def _key(self, visit: _Visit) -> tuple[Any, ...]:
        return (visit.node.instruction.key, visit.iteration.frame.identity, visit.iteration.number)

    def _send(self, visit: _Visit) -> None:
        value = DEAD if visit.dead else _read(self._values(visit)[0], visit.node.instruction.reads_ref[0])
        key = self._key(visit)
        receiver = self.receivers.pop(key, None)
        if self.exchange is not None and not visit.dead:
            self.exchange.sent(visit.node.instruction.key, key)
        if receiver is None:
            self.sent[key] = value
        else:
            self._deliver(receiver, value)
        self._finish(visit, ())

    def _receive(self, visit: _Visit) -> None:
        if visit.dead:
            self._deliver(visit, DEAD)
            return
        key = self._key(visit)
        if key in self.sent:
            self._deliver(visit, self.sent.pop(key))
        else:
            self.receivers[key] = visit

    def _deliver(self, visit: _Visit, value: Any) -> None:
        visit.dead = value is DEAD
        if self.exchange is not None:
            self.exchange.received(visit.node.instruction.key, self._key(visit))
        self._finish(visit, (DEAD,) if value is DEAD else self._account_for(visit, (value,)))

    # --- propagation

    def _leave(self, node: _Node, iteration: _Iteration, outputs: Sequence[Any], is_dead: bool) -> None:
        """Pass outputs on into a frame, out of one, or to the next iteration."""
        if node.is_enter:
            child = self._child(iteration, node.frame_name)
            child.pending_enters -= 1
            target = next(iter(child.iterations.values()))
            if node.is_constant:
                child.constants.append((node, outputs[0]))
                for other in list(child.iterations.values()):
                    self._activate_readers(node, other, outputs, is_dead)
                self._clean_up(target)
                return
        elif is_dead:
            return
        elif node.is_exit:
            iteration.frame.exited.add(node)
            assert iteration.frame.parent is not None  # the programs' exits have frames
            target = iteration.frame.parent
        else:
            target = self._next_iteration(iteration)
        self._activate_readers(node, target, outputs, is_dead)
        self._clean_up(target)

    def _activate_readers(self, source: _Node, iteration: _Iteration, outputs: Sequence[Any], is_dead: bool) -> None:
        if source.more_holders:
            self._hold(source, outputs)
        arrived = iteration.arrived
        for node, slot, position in source.readers:
            value = outputs[slot] if slot >= 0 else DEAD if is_dead else None
            if node.is_merge:
                self._arrive_at_merge(node, iteration, value, position, source.is_enter)
                continue
            visit = arrived.get(node.index)
            if visit is None:
                visit = _Visit(node, iteration)
                if visit.waits > 1:
                    arrived[node.index] = visit
            elif visit.waits == 1:
                del arrived[node.index]
            visit.waits -= 1
            if value is DEAD:
                visit.dead = True
            elif position >= 0:
                visit.values[position] = value
            if not visit.waits:
                iteration.outstanding += 1
                self.ready.append(visit)

    def _arrive_at_merge(self, node: _Node, iteration: _Iteration, value: Any, position: int, is_enter: bool) -> None:
        """The first live input is taken; the merge waits for its control inputs; it is dead when all data inputs are."""
        visit = iteration.arrived.setdefault(node.index, _Visit(node, iteration))
        is_live = position >= 0 and value is not DEAD
        if visit is None or (is_live and visit.is_taken):
            if is_live:
                self._drop(value)
            return
        if position < 0:
            visit.waits -= 1
        elif not is_live:
            visit.dead += node.input_count if is_enter else 1
        else:
            visit.values = [value, self._position(node, position)]
        if not visit.waits and (visit.is_taken or visit.dead >= node.input_count):
            visit.dead = not visit.is_taken
            iteration.arrived[node.index] = None
            iteration.outstanding += 1
            self.ready.append(visit)

    # --- frames

    def _child(self, iteration: _Iteration, name: str) -> _FrameRun:
        child = iteration.children.get(name)
        if child is None:
            child = iteration.children[name] = _FrameRun(iteration.frame.wiring, name, iteration)
        return child

    def _next_iteration(self, iteration: _Iteration) -> _Iteration:
        frame, following = iteration.frame, iteration.number + 1
        found = frame.iterations.get(following)
        if found is None:
            found = frame.iterations[following] = _Iteration(frame, following)
            for node, value in frame.constants:
                self._activate_readers(node, found, (value,), value is DEAD)
        return found

    def _clean_up(self, iteration: _Iteration) -> None:
        """Forget an iteration that has nothing left to do, then its frame, whose untaken exits are dead."""
        frame = iteration.frame
        while frame.parent is not None and not iteration.outstanding and not iteration.children:
            first = next(iter(frame.iterations), None)
            if first != iteration.number or (frame.pending_enters and first == 0):
                return
            del frame.iterations[first]
            for visit in iteration.arrived.values():
                if visit is not None:
                    self._drop(*visit.values)
            if frame.iterations:
                iteration = next(iter(frame.iterations.values()))
                continue
            parent = frame.parent
            del parent.children[frame.name]
            self._drop(*(value for _, value in frame.constants))
            for node in frame.wiring.exits.get(frame.name, ()):
                if node not in frame.exited:
                    self._activate_readers(node, parent, [DEAD] * node.instruction.output_count, True)
            iteration, frame = parent, parent.frame


_VALUE = attrgetter("value")


class _AccountedRun(_Run):
    """A step that accounts for its memory: what goes from node to node is the memory of a tensor, which has its value."""

    def __init__(
        self,
        executor: DataflowExecutor,
        feeds: Mapping[int, Any],
        progress: Callable[[int], None] | None,
        ledger: Ledger,
    ) -> None:
        super().__init__(executor, feeds, progress)
        self._ledger = ledger
        self._clock = ledger.clock
        self._account = StepAccount(ledger, executor)

    def run(self) -> dict[int, Any]:
        try:
            results = super().run()
        except OpError:
            if self._ledger.failure is not None:
                self._finish_started()
            raise
        self._account.close()
        return results

    def _finish_started(self) -> None:
        """Kernels that could start when one found no room run all the same; whether these fail too is only logged."""
        for visit in self.ready:
            if visit.node.kind == _COMPUTE and not visit.dead:
                with suppress(Exception):  # the step has its error already
                    self._execute(visit)

    def _site(self, node: _Node) -> Site:
        if node.site is None:
            node.site = self._ledger.site(node.program, node.instruction, map(bool, node.reader_counts))
        return node.site

    def _values(self, visit: _Visit) -> Sequence[Any]:
        return list(map(_VALUE, visit.values))

    def _execute(self, visit: _Visit) -> Sequence[Any]:
        node = visit.node
        if node.constant_memory is not None:
            node.constant_memory.hold()
            return (node.constant_memory,)
        values = list(map(_VALUE, visit.values))
        site = node.site or self._site(node)
        if site.plain is not None:
            return (self._account.executed_plain(site, site.plain, visit.values, node.compute(values)[0]),)
        if not site.calls:
            return self._account_for(visit, self._compute(node, values))
        self._account.begin(visit.values, values)
        try:
            outputs = self._compute(node, values)
        except Exception as error:  # also of a node that would wait, and is begun again
            self._account.give_up()
            raise (self._account.passed_on(error, site) if isinstance(error, OpError) else error) from None
        return self._account_for(visit, outputs)

    def _account_for(self, visit: _Visit, outputs: Sequence[Any]) -> Sequence[Any]:
        node = visit.node
        site = node.site or self._site(node)
        if site.plain is not None:
            return (self._account.executed_plain(site, site.plain, visit.values, outputs[0]),)
        key = self._key(visit) if node.kind == _RECEIVE else None
        made = self._account.executed(site, visit.values, self._values(visit), outputs, key, node.constant)
        if node.instruction.node.op == "Const":
            node.constant_memory = made[0]
        return made

    def _switched(self, visit: _Visit) -> Sequence[Any]:
        node = visit.node
        self._clock.node = node.name
        data, selector = visit.values
        reads_data, reads_selector = node.instruction.reads_ref
        outputs = _at_branch(
            visit.node, _read(selector.value, reads_selector), self._dereferenced(data) if reads_data else data
        )
        selector.release()
        return outputs

    def _passed(self, visit: _Visit) -> Sequence[Any]:
        node = visit.node
        self._clock.node = node.name
        if node.uses_scratch:
            self._account.make_scratch(self._site(node))
        return [self._dereferenced(visit.values[0]), *visit.values[1:]] if node.reads_ref else visit.values

    def _dereferenced(self, memory: TensorMemory) -> TensorMemory:
        return self._ledger.dereferenced(memory, memory.value)

    def _position(self, node: _Node, position: int) -> TensorMemory:
        return node.positions[position]

    def _drop(self, *values: Any) -> None:
        for value in values:
            if type(value) is TensorMemory:
                value.release()

    def _send(self, visit: _Visit) -> None:
        if not visit.dead:
            self._account.executed(self._site(visit.node), visit.values, self._values(visit), (), self._key(visit))
        super()._send(visit)

    def _hold(self, source: _Node, outputs: Sequence[Any]) -> None:
        for slot, more in source.more_holders:
            output = outputs[slot]
            if output is not DEAD and output.buffer is not None and not output.is_ref:
                if more > 0:
                    output.buffer.holders += more
                else:
                    output.buffer.release()


class _RecordedRun(_AccountedRun):
    """A step that tells a recorder of each node that ran, and which executions it waited for."""

    def __init__(
        self,
        executor: DataflowExecutor,
        feeds: Mapping[int, Any],
        progress: Callable[[int], None] | None,
        ledger: Ledger,
    ) -> None:
        super().__init__(executor, feeds, progress, ledger)
        assert ledger.recorder is not None  # it is what chose this kind of run
        self._recorder: Recorder = ledger.recorder
        self._current: tuple[int, ...] = ()
        self._arrived: dict[tuple[_Iteration, int], list[int]] = {}
        self._entered: dict[tuple[_FrameRun, _Node], int] = {}
        self._sent_by: dict[Any, int] = {}
        self._waited: set[tuple[_Iteration, int]] = set()

    def run(self) -> dict[int, Any]:
        first = self._recorder.begin_run()
        results = super().run()
        self._recorder.end_run(first)
        return results

    def _execute(self, visit: _Visit) -> Sequence[Any]:
        site = self._site(visit.node)
        if not site.calls:
            return super()._execute(visit)
        inputs = input_shapes(self._ledger, visit.values, self._values(visit))
        self._recorder.begin_call(site, inputs, self._arrived.get((visit.iteration, visit.node.index), ()))
        try:
            return super()._execute(visit)
        except Exception:
            self._recorder.end_call()
            raise

    def _fail(self, visit: _Visit, error: BaseException) -> None:
        if isinstance(error, WouldWait):
            self._waited.add((visit.iteration, visit.node.index))
        super()._fail(visit, error)

    def _send(self, visit: _Visit) -> None:
        # the receiver may be served before the send itself ends
        self._sent_by[self._key(visit)] = self._record(visit, ())
        super()._send(visit)

    def _finish(self, visit: _Visit, outputs: Sequence[Any]) -> None:
        is_send = visit.node.kind == _SEND
        self._current = (self._sent_by[self._key(visit)] if is_send else self._record(visit, outputs),)
        super()._finish(visit, outputs)

    def _record(self, visit: _Visit, made: Sequence[Any]) -> int:
        node, place = visit.node, (visit.iteration, visit.node.index)
        site, is_dead = self._site(node), bool(visit.dead)
        sources = self._arrived.pop(place, [])
        if site.calls and not is_dead:
            return self._recorder.end_call()
        if place in self._waited:  # for what a queue was given: what ran last
            sources.append(len(self._recorder.executions) - 1)
        if node.kind == _RECEIVE and not (is_dead and sources):
            sources.append(self._sent_by[self._key(visit)])
        if node.is_merge and not is_dead:
            sources = [source for source in sources if not self._recorder.executions[source].is_dead]
        if is_dead or node.instruction.node.op in CONTROL_FLOW:
            return self._recorder.add(site, (), (), sources, is_dead=is_dead)
        inputs = input_shapes(self._ledger, visit.values, self._values(visit))
        return self._recorder.add(site, inputs, output_shapes(made), sources)

    def _leave(self, node: _Node, iteration: _Iteration, outputs: Sequence[Any], is_dead: bool) -> None:
        if node.is_enter:
            (self._entered[self._child(iteration, node.frame_name), node],) = self._current
        super()._leave(node, iteration, outputs, is_dead)

    def _activate_readers(self, source: _Node, iteration: _Iteration, outputs: Sequence[Any], is_dead: bool) -> None:
        current = self._current
        entered = self._entered.get((iteration.frame, source)) if source.is_enter else None
        if entered is not None and entered not in current:  # a loop's constant comes to a further iteration
            current = (*current, entered)
        for node, *_ in source.readers:
            self._arrived.setdefault((iteration, node.index), []).extend(current)
        super()._activate_readers(source, iteration, outputs, is_dead)


def _blamed(error: OpError, node: _Node) -> OpError:
    return blame(error, node.program.graph, node.instruction.node, node.program.state.device.name)


def _read(value: Any, is_wanted: bool) -> Any:
    """What a node gets of an input: of a variable its value, where that is wanted."""
    return read_variable(value) if is_wanted else value


def _at_branch(node: _Node, selector: Any, data: Any) -> list[Any]:
    """Data at the output that a selector names, dead values at the others; InvalidArgumentError for no scalar."""
    instruction = node.instruction
    if isinstance(selector, Sketch):
        raise unknown_choice(node.program.graph, instruction.node)
    if getattr(selector, "ndim", 0):
        text = f"The second input must be a scalar, but it has shape {format_dims(selector.shape)}"
        raise _blamed(InvalidArgumentError(text), node)
    count, index = instruction.output_count, int(selector)
    if instruction.node.op == "_SwitchN" and not 0 <= index < count:
        index = count - 1
    outputs: list[Any] = [DEAD] * count
    if 0 <= index < count:
        outputs[index] = data
    return outputs
