"""TensorFlow's data flow: frames, iterations and dead tensors; ops that wait; ops that run in a thread pool.

A node is ready when all its inputs have arrived, a `Merge` with its first live one.  Frames and iterations are made when a
value enters them and forgotten when nothing in them is left to do.  Only kernels run in the pool: what they give is passed on
in the thread that called `run`, so the result does not depend on the number of threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor as Pool
from contextlib import suppress
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Any

from placesim.deadlines import TURN_SECONDS
from placesim.dtypes import VARIANT
from placesim.errors import InternalError, InvalidArgumentError, OpError, PlacesimError, UnimplementedError
from placesim.graph.node_text import node_tag
from placesim.ops.categories import CONTROL_FLOW, ENTERS, EXITS, MERGES, NEXT_ITERATIONS, RECEIVES, SENDS, SWITCHES
from placesim.runtime.accounting.ledger import Ledger, Site, StepAccount, make_constants
from placesim.runtime.control_flow import find_frames
from placesim.runtime.denormals import flushed_denormals
from placesim.runtime.kernels.kernel import Kernel, WouldWait, one_per_output
from placesim.runtime.kernels.memory_rules import TensorMemory
from placesim.runtime.kernels.sketch import Sketch
from placesim.runtime.memory import LOOK_AFTER
from placesim.runtime.program import Instruction, Program, blame, defect, no_argument, read_variable
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


class _FrameRun:
    """One run of a loop, or the whole step; `identity` is equal for the same frame on other devices."""

    __slots__ = ("constants", "exited", "identity", "iterations", "name", "parent", "pending_enters", "program")

    def __init__(self, program: int, name: str, parent: _Iteration | None, pending_enters: int) -> None:
        self.program = program
        self.name = name
        self.parent = parent
        self.identity: tuple[Any, ...] = () if parent is None else (*parent.frame.identity, parent.number, name)
        self.iterations: dict[int, _Iteration] = {}
        self.constants: list[tuple[int, Any]] = []
        self.exited: set[int] = set()
        self.pending_enters = pending_enters


class _Iteration:
    """One iteration of a frame: inputs that have arrived, how many are still awaited, how many of them are dead."""

    __slots__ = ("children", "dead", "frame", "number", "outstanding", "values", "waiting")

    def __init__(self, frame: _FrameRun, number: int) -> None:
        self.frame = frame
        self.number = number
        self.values: dict[int, list[Any]] = {}
        self.waiting: dict[int, int] = {}
        self.dead: dict[int, int] = {}
        self.outstanding = 0
        self.children: dict[str, _FrameRun] = {}


class _Wiring:
    """The edges of one program: for each node its readers `(node, slot, input position)`, with -1 for control.

    `reader_counts` has for each node how often each of its outputs is read.
    """

    def __init__(self, program: Program) -> None:
        self.readers: list[list[tuple[int, int, int]]] = [[] for _ in program.instructions]
        self.reader_counts = [[0] * instruction.output_count for instruction in program.instructions]
        self.enters: dict[str, int] = {}
        self.exits: dict[str, list[int]] = {}
        for instruction in program.instructions:
            node = instruction.node
            for position, (i, slot) in enumerate(zip(node.input_nodes, node.input_slots, strict=True)):
                self.readers[i].append((node.id, slot, position))
                self.reader_counts[i][slot] += 1
            for i in node.control_inputs:
                self.readers[i].append((node.id, -1, -1))
            if node.op in ENTERS:
                name = node.attrs["frame_name"]
                self.enters[name] = self.enters.get(name, 0) + 1


_Ready = tuple[int, int, _Iteration, list[Any], bool]


class DataflowExecutor:
    """Runs programs node by node as their inputs arrive."""

    def __init__(self, programs: Sequence[Program], pool: Pool | None = None, ledger: Ledger | None = None) -> None:
        self.programs = programs
        self.is_body = False
        self._ledger = ledger
        self._constants = {} if ledger is None else make_constants(ledger, programs)
        self._sites: list[list[Site | None]] = [[None] * len(program.instructions) for program in programs]
        self._wiring = [_Wiring(program) for program in programs]
        self._frames_of_exits = [_exits_by_frame(program) for program in programs]
        self._pool = pool

    def run(
        self,
        feeds: Mapping[int, Any],
        progress: Callable[[int], None] | None = None,
    ) -> dict[int, Any]:
        """One step: values by `_Arg` index -> values by `_Retval` index; raises OpError, with node and device."""
        if self._ledger is not None and self._ledger.recorder is not None:
            return _RecordedRun(self, feeds, progress, self._ledger, self._ledger.recorder).run()
        if self._ledger is not None:
            return _AccountedRun(self, feeds, progress, self._ledger).run()
        return _Run(self, feeds, progress).run()


def _exits_by_frame(program: Program) -> dict[str, list[int]]:
    """The `Exit` nodes of each frame, found by walking back to an `Enter`."""
    found: dict[str, list[int]] = {}
    for node, frame in zip(program.graph.nodes, find_frames(program.graph), strict=True):
        if node.op not in EXITS:
            continue
        if frame is None:
            error = InvalidArgumentError("Invalid Exit op: Cannot find a corresponding Enter op.")
            raise blame(error, program.graph, node, program.state.device.name)
        found.setdefault(frame.name, []).append(node.id)
    return found


def is_expensive(kernel: Kernel) -> bool:
    """Whether an op does more than a constant amount of work for each element: worth a thread of its own."""
    return kernel.flops is not None and kernel.flops is not one_per_output


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
        self.exits = executor._frames_of_exits
        self.pool = executor._pool
        self.feeds = feeds
        self.progress = progress
        self.results: dict[int, Any] = {}
        self.dead_results: list[int] = []
        self.ready: deque[_Ready] = deque()
        self.parked: deque[_Ready] = deque()
        self.sent: dict[Any, Any] = {}
        self.receivers: dict[Any, _Ready] = {}
        self.finished: SimpleQueue[tuple[_Ready, Any]] = SimpleQueue()
        self.in_flight = 0
        self.done = 0

    def run(self) -> dict[int, Any]:
        for number, program in enumerate(self.programs):
            root = _FrameRun(number, "", None, 0)
            iteration = root.iterations[0] = _Iteration(root, 0)
            for instruction in program.instructions:
                node = instruction.node
                if not node.input_nodes and not node.control_inputs:
                    iteration.outstanding += 1
                    self.ready.append((number, node.id, iteration, [], False))
        try:
            while self.ready or self.in_flight or self.parked:
                self._turn()
        except Exception:  # an interrupt waits for nothing
            while self.in_flight:
                self._wait_for_pool()
            raise
        if self.receivers:
            number, index, *_ = next(iter(self.receivers.values()))
            name = self.programs[number].instructions[index].node.name
            raise InternalError(f"{node_tag(name)} waits for a tensor that is never sent")
        if self.programs:
            self.programs[0].state.memory.worked(self.done % LOOK_AFTER)
        for index in self.dead_results:
            raise InvalidArgumentError(f"Retval[{index}] does not have value")
        return self.results

    def _turn(self) -> None:
        """Run what is ready; else wait for the pool; else try again what had to wait."""
        if self.ready:
            self._start(self.ready.popleft())
        elif self.in_flight:
            self._finish(*self._wait_for_pool())
        else:
            before = self.done
            for _ in range(len(self.parked)):
                self._start(self.parked.popleft())
            if self.done == before and len(self.parked) and not self.ready and not self.in_flight:
                number, index, *_ = self.parked[0]
                program = self.programs[number]
                node = program.instructions[index].node
                raise blame(_standstill(node.name, self.is_body), program.graph, node, program.state.device.name)

    def _wait_for_pool(self) -> tuple[_Ready, Any]:
        """The next node that a thread of the pool has computed, and its outputs."""
        while True:
            with suppress(Empty):
                found = self.finished.get(timeout=TURN_SECONDS)
                self.in_flight -= 1
                return found

    def _start(self, item: _Ready) -> None:
        number, index, _, values, is_dead = item
        instruction = self.programs[number].instructions[index]
        op = instruction.node.op
        if op in SENDS:
            self._send(item, instruction)
        elif op in RECEIVES:
            self._receive(item, instruction)
        elif is_dead:
            if op == "_Retval":
                self.dead_results.append(instruction.attrs["index"])
            self._finish(item, [DEAD] * instruction.output_count)
        elif op in SWITCHES or op == "_SwitchN":
            self._finish(item, _switched(self.programs[number], instruction, values))
        elif op in MERGES or op in ENTERS or op in EXITS or op in NEXT_ITERATIONS or op == "LoopCond":
            self._finish(item, values)
        elif self.pool is not None and is_expensive(instruction.kernel) and _input_bytes(values) > LARGE_INPUT_BYTES:
            self.in_flight += 1
            self.pool.submit(copy_context().run, self._compute_in_pool, item, instruction)
        else:
            self._finish(item, self._compute(instruction, item))

    def _compute_in_pool(self, item: _Ready, instruction: Instruction) -> None:
        try:
            with flushed_denormals():
                outputs: Any = instruction.compute(item[3])
        except BaseException as error:  # handed to the thread that waits for it
            outputs = error
        self.finished.put((item, outputs))

    def _compute(self, instruction: Instruction, item: _Ready) -> Any:
        op = instruction.node.op
        if op == "_Arg":
            index = instruction.attrs["index"]
            return [self.feeds[index]] if index in self.feeds else no_argument(index)
        if op == "_Retval":
            value = item[3][0]
            self.results[instruction.attrs["index"]] = read_variable(value) if instruction.reads_ref[0] else value
            return []
        try:
            return instruction.compute(item[3])
        except Exception as error:  # `_finish` tells them apart
            return error

    def _finish(self, item: _Ready, outputs: Any) -> None:
        """Pass a node's outputs on; an error ends the step, a node that would wait is parked."""
        number, index, iteration, _, is_dead = item
        if isinstance(outputs, WouldWait):
            self.parked.append(item)
            return
        program = self.programs[number]
        instruction = program.instructions[index]
        if isinstance(outputs, OpError):
            raise blame(outputs, program.graph, instruction.node, program.state.device.name)
        if isinstance(outputs, Exception) and not isinstance(outputs, PlacesimError):
            raise defect(outputs, program, instruction, item[3]) from outputs
        if isinstance(outputs, BaseException):
            raise outputs
        self.done += 1
        if not self.done % LOOK_AFTER:
            try:
                program.state.memory.worked(LOOK_AFTER)
            except OpError as error:
                raise blame(error, program.graph, instruction.node, program.state.device.name) from None
            if self.progress is not None:
                self.progress(self.done)
        outputs = self._account_for(item, instruction, outputs)
        self._propagate(number, instruction, iteration, outputs, is_dead)
        self._let_go(outputs)
        iteration.outstanding -= 1
        self._clean_up(iteration)

    # --- what a run that accounts for memory does more

    def _account_for(self, item: _Ready, instruction: Instruction, outputs: Sequence[Any]) -> Sequence[Any]:
        """The outputs as they go from node to node."""
        return outputs

    def _let_go(self, outputs: Sequence[Any]) -> None:
        """All readers of these outputs have them."""

    def _keep(self, value: Any) -> None:
        """A loop's constant, until the loop ends."""

    def _drop(self, value: Any) -> None:
        """A reader does not take a value."""

    def _drop_unread(self, iteration: _Iteration) -> None:
        """An iteration is over, and with it what arrived there at nodes that never ran."""

    def _end_frame(self, frame: _FrameRun) -> None:
        """A loop has ended."""

    # --- transfers

    def _key(self, instruction: Instruction, iteration: _Iteration) -> tuple[Any, ...]:
        return (instruction.key, iteration.frame.identity, iteration.number)

    def _send(self, item: _Ready, instruction: Instruction) -> None:
        _, _, iteration, values, is_dead = item
        value = DEAD if is_dead else read_variable(values[0]) if instruction.reads_ref[0] else values[0]
        key = self._key(instruction, iteration)
        receiver = self.receivers.pop(key, None)
        if receiver is None:
            self.sent[key] = value
        else:
            self._deliver(receiver, value)
        self._finish(item, [])

    def _receive(self, item: _Ready, instruction: Instruction) -> None:
        if item[4]:
            self._finish(item, [DEAD])
            return
        key = self._key(instruction, item[2])
        if key in self.sent:
            self._deliver(item, self.sent.pop(key))
        else:
            self.receivers[key] = item

    def _deliver(self, item: _Ready, value: Any) -> None:
        number, index, iteration, values, _ = item
        self._finish((number, index, iteration, values, value is DEAD), [value])

    # --- propagation

    def _propagate(
        self, number: int, instruction: Instruction, iteration: _Iteration, outputs: Sequence[Any], is_dead: bool
    ) -> None:
        node = instruction.node
        target: _Iteration | None = iteration
        if node.op in ENTERS:
            child = self._child(number, iteration, node.attrs["frame_name"])
            child.pending_enters -= 1
            target = child.iterations[0] if 0 in child.iterations else next(iter(child.iterations.values()))
            if node.attrs.get("is_constant"):
                child.constants.append((node.id, outputs[0]))
                self._keep(outputs[0])
                for other in list(child.iterations.values()):
                    self._activate_readers(number, node.id, other, outputs, is_dead, True)
                self._clean_up(target)
                return
        elif node.op in EXITS:
            if is_dead:
                return
            iteration.frame.exited.add(node.id)
            target = iteration.frame.parent
        elif node.op in NEXT_ITERATIONS:
            if is_dead:
                return
            target = self._next_iteration(number, iteration)
        if target is not None:
            self._activate_readers(number, node.id, target, outputs, is_dead, node.op in ENTERS)
            if target is not iteration:
                self._clean_up(target)

    def _activate_readers(
        self, number: int, node_id: int, iteration: _Iteration, outputs: Sequence[Any], is_dead: bool, is_enter: bool
    ) -> None:
        instructions = self.programs[number].instructions
        for reader, slot, position in self.wiring[number].readers[node_id]:
            instruction = instructions[reader]
            value = (DEAD if is_dead else None) if slot < 0 else outputs[slot]
            if instruction.node.op in MERGES:
                self._arrive_at_merge(number, instruction, iteration, value, position, is_enter)
            else:
                self._arrive(number, instruction, iteration, value, position)

    def _arrive(self, number: int, instruction: Instruction, iteration: _Iteration, value: Any, position: int) -> None:
        node = instruction.node
        waiting = iteration.waiting.get(node.id)
        if waiting is None:
            waiting = len(node.input_nodes) + len(node.control_inputs)
            iteration.values[node.id] = [None] * len(node.input_nodes)
        waiting -= 1
        iteration.waiting[node.id] = waiting
        if value is DEAD:
            iteration.dead[node.id] = 1
        elif position >= 0:
            iteration.values[node.id][position] = value
        if not waiting:
            self._make_ready(number, node.id, iteration, bool(iteration.dead.get(node.id)))

    def _arrive_at_merge(
        self, number: int, instruction: Instruction, iteration: _Iteration, value: Any, position: int, is_enter: bool
    ) -> None:
        """The first live input is taken; the merge waits for its control inputs; it is dead when all data inputs are."""
        node = instruction.node
        if node.id not in iteration.waiting:
            iteration.waiting[node.id] = len(node.control_inputs)
        if position < 0:
            iteration.waiting[node.id] -= 1
        elif value is DEAD:
            iteration.dead[node.id] = iteration.dead.get(node.id, 0) + (len(node.input_nodes) if is_enter else 1)
        elif node.id not in iteration.values and iteration.waiting[node.id] >= 0:
            import numpy as np

            iteration.values[node.id] = [value, np.array(position, np.int32)]
        else:
            self._drop(value)
            return
        if iteration.waiting[node.id] != 0:
            return
        is_dead = iteration.dead.get(node.id, 0) >= len(node.input_nodes)
        if node.id in iteration.values or is_dead:
            iteration.waiting[node.id] = -1
            self._make_ready(number, node.id, iteration, is_dead and node.id not in iteration.values)

    def _make_ready(self, number: int, node_id: int, iteration: _Iteration, is_dead: bool) -> None:
        iteration.outstanding += 1
        values = iteration.values.pop(node_id, [])
        self.ready.append((number, node_id, iteration, values, is_dead))

    # --- frames

    def _child(self, number: int, iteration: _Iteration, name: str) -> _FrameRun:
        child = iteration.children.get(name)
        if child is None:
            child = _FrameRun(number, name, iteration, self.wiring[number].enters[name])
            child.iterations[0] = _Iteration(child, 0)
            iteration.children[name] = child
        return child

    def _next_iteration(self, number: int, iteration: _Iteration) -> _Iteration:
        frame, following = iteration.frame, iteration.number + 1
        found = frame.iterations.get(following)
        if found is None:
            found = frame.iterations[following] = _Iteration(frame, following)
            for node_id, value in frame.constants:
                self._activate_readers(number, node_id, found, [value], value is DEAD, True)
        return found

    def _clean_up(self, iteration: _Iteration) -> None:
        """Forget an iteration that has nothing left to do, then its frame, whose untaken exits are dead."""
        frame = iteration.frame
        while frame.parent is not None and not iteration.outstanding and not iteration.children:
            first = min(frame.iterations) if frame.iterations else None
            if first != iteration.number or (frame.pending_enters and first == 0):
                return
            del frame.iterations[iteration.number]
            self._drop_unread(iteration)
            if frame.iterations:
                iteration = frame.iterations[min(frame.iterations)]
                continue
            parent = frame.parent
            del parent.children[frame.name]
            self._end_frame(frame)
            for node_id in self.exits[frame.program].get(frame.name, ()):
                if node_id not in frame.exited:
                    count = self.programs[frame.program].instructions[node_id].output_count
                    self._activate_readers(frame.program, node_id, parent, [DEAD] * count, True, False)
            iteration, frame = parent, parent.frame


class _AccountedValues(list[Any]):
    """The inputs of a node that is ready, and their memory."""

    __slots__ = ("memories",)

    def __init__(self, arrived: Sequence[Any]) -> None:
        super().__init__([value.value if type(value) is TensorMemory else value for value in arrived])
        self.memories = [value if type(value) is TensorMemory else _NOTHING for value in arrived]


_NOTHING = TensorMemory((), VARIANT)
"""The memory of a value that no allocator knows of."""


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
        self._account = StepAccount(ledger, executor)
        self._constants = executor._constants
        self._sites = executor._sites

    def run(self) -> dict[int, Any]:
        results = super().run()
        self._account.close()
        return results

    def _make_ready(self, number: int, node_id: int, iteration: _Iteration, is_dead: bool) -> None:
        iteration.outstanding += 1
        values = _AccountedValues(iteration.values.pop(node_id, ()))
        self.ready.append((number, node_id, iteration, values, is_dead))

    def _site(self, number: int, instruction: Instruction) -> Site:
        index = instruction.node.id
        found = self._sites[number][index]
        if found is None:
            is_read = map(bool, self.wiring[number].reader_counts[index])
            found = self._sites[number][index] = self._ledger.site(self.programs[number], instruction, is_read)
        return found

    def _compute(self, instruction: Instruction, item: _Ready) -> Any:
        site = self._site(item[0], instruction)
        if not site.calls:
            return super()._compute(instruction, item)
        self._account.begin(_memories(item), item[3])
        found = super()._compute(instruction, item)
        if isinstance(found, Exception):  # an error, or a node that would wait and is begun again
            self._account.give_up()
        return self._account.passed_on(found, site) if isinstance(found, OpError) else found

    def _account_for(self, item: _Ready, instruction: Instruction, outputs: Sequence[Any]) -> Sequence[Any]:
        number, index, iteration, values, is_dead = item
        memories = _memories(item)
        if is_dead:
            for memory in memories:
                memory.release()
            return outputs
        site = self._site(number, instruction)
        if site.plain is not None:
            return (self._account.executed_plain(site, site.plain, memories, outputs[0]),)
        op = instruction.node.op
        if op in CONTROL_FLOW:
            return self._passed(op, outputs, memories, reads_ref=instruction.reads_ref[0])
        if op in SENDS:
            return outputs
        key = self._key(instruction, iteration) if op in RECEIVES else None
        return self._account.executed(site, memories, values, outputs, key, self._constants.get((number, index)))

    def _passed(self, op: str, outputs: Sequence[Any], memories: Sequence[TensorMemory], *, reads_ref: bool) -> list[Any]:
        """Control flow hands its first input on; a selector, or the number of the input that came, is dropped or made."""
        data = self._ledger.dereferenced(memories[0], memories[0].value) if reads_ref else memories[0]
        for memory in memories[1:]:
            memory.release()
        count = 1 if op in MERGES else len(outputs)
        return [data if position < count and value is not DEAD else value for position, value in enumerate(outputs)]

    def _let_go(self, outputs: Sequence[Any]) -> None:
        for output in outputs:
            if type(output) is TensorMemory:
                output.release()

    def _send(self, item: _Ready, instruction: Instruction) -> None:
        number, _, iteration, values, is_dead = item
        if not is_dead:
            site = self._site(number, instruction)
            self._account.executed(site, _memories(item), values, (), self._key(instruction, iteration))
        super()._send(item, instruction)

    def _activate_readers(
        self, number: int, node_id: int, iteration: _Iteration, outputs: Sequence[Any], is_dead: bool, is_enter: bool
    ) -> None:
        for output, readers in zip(outputs, self.wiring[number].reader_counts[node_id], strict=True):
            if type(output) is TensorMemory and output.buffer is not None and not output.is_ref:
                output.buffer.holders += readers
        super()._activate_readers(number, node_id, iteration, outputs, is_dead, is_enter)

    def _keep(self, value: Any) -> None:
        if type(value) is TensorMemory:
            value.hold()

    def _drop(self, value: Any) -> None:
        if type(value) is TensorMemory:
            value.release()

    def _drop_unread(self, iteration: _Iteration) -> None:
        for values in iteration.values.values():
            for value in values:
                self._drop(value)

    def _end_frame(self, frame: _FrameRun) -> None:
        for _, value in frame.constants:
            self._drop(value)


class _RecordedRun(_AccountedRun):
    """A step that tells a recorder of each node that ran, and which executions it waited for."""

    def __init__(
        self,
        executor: DataflowExecutor,
        feeds: Mapping[int, Any],
        progress: Callable[[int], None] | None,
        ledger: Ledger,
        recorder: Recorder,
    ) -> None:
        super().__init__(executor, feeds, progress, ledger)
        self._recorder = recorder
        self._current: tuple[int, ...] = ()
        self._arrived: dict[tuple[_Iteration, int], list[int]] = {}
        self._entered: dict[tuple[_FrameRun, int], int] = {}
        self._sent_by: dict[Any, int] = {}
        self._waited: set[tuple[_Iteration, int]] = set()

    def run(self) -> dict[int, Any]:
        first = self._recorder.begin_run()
        results = super().run()
        self._recorder.end_run(first)
        return results

    def _compute(self, instruction: Instruction, item: _Ready) -> Any:
        site = self._site(item[0], instruction)
        if site.calls:
            sources = self._arrived.get((item[2], item[1]), ())
            self._recorder.begin_call(site, input_shapes(self._ledger, _memories(item), item[3]), sources)
        found = super()._compute(instruction, item)
        if site.calls and isinstance(found, Exception):
            self._recorder.end_call()
        return found

    def _finish(self, item: _Ready, outputs: Any) -> None:
        if isinstance(outputs, WouldWait):
            self._waited.add((item[2], item[1]))
        super()._finish(item, outputs)

    def _send(self, item: _Ready, instruction: Instruction) -> None:
        # the receiver may be served before the send itself ends
        self._sent_by[self._key(instruction, item[2])] = self._record(item, instruction, ())
        super()._send(item, instruction)

    def _account_for(self, item: _Ready, instruction: Instruction, outputs: Sequence[Any]) -> Sequence[Any]:
        is_send = instruction.node.op in SENDS
        made = super()._account_for(item, instruction, outputs)
        found = self._sent_by[self._key(instruction, item[2])] if is_send else self._record(item, instruction, made)
        self._current = (found,)
        return made

    def _record(self, item: _Ready, instruction: Instruction, made: Sequence[Any]) -> int:
        number, index, iteration, values, is_dead = item
        site, op = self._site(number, instruction), instruction.node.op
        sources = self._arrived.pop((iteration, index), [])
        if site.calls and not is_dead:
            return self._recorder.end_call()
        if (iteration, index) in self._waited:  # for what a queue was given: what ran last
            sources.append(len(self._recorder.executions) - 1)
        if op in RECEIVES and not (is_dead and sources):
            sources.append(self._sent_by[self._key(instruction, iteration)])
        if op in MERGES and not is_dead:
            sources = [source for source in sources if not self._recorder.executions[source].is_dead]
        if is_dead or op in CONTROL_FLOW:
            return self._recorder.add(site, (), (), sources, is_dead=is_dead)
        inputs = input_shapes(self._ledger, _memories(item), values)
        return self._recorder.add(site, inputs, output_shapes(made), sources)

    def _arrive(self, number: int, instruction: Instruction, iteration: _Iteration, value: Any, position: int) -> None:
        self._arrived.setdefault((iteration, instruction.node.id), []).extend(self._current)
        super()._arrive(number, instruction, iteration, value, position)

    def _arrive_at_merge(
        self, number: int, instruction: Instruction, iteration: _Iteration, value: Any, position: int, is_enter: bool
    ) -> None:
        self._arrived.setdefault((iteration, instruction.node.id), []).extend(self._current)
        super()._arrive_at_merge(number, instruction, iteration, value, position, is_enter)

    def _propagate(
        self, number: int, instruction: Instruction, iteration: _Iteration, outputs: Sequence[Any], is_dead: bool
    ) -> None:
        node = instruction.node
        if node.op in ENTERS:
            child = self._child(number, iteration, node.attrs["frame_name"])
            (self._entered[child, node.id],) = self._current
        super()._propagate(number, instruction, iteration, outputs, is_dead)

    def _activate_readers(
        self, number: int, node_id: int, iteration: _Iteration, outputs: Sequence[Any], is_dead: bool, is_enter: bool
    ) -> None:
        current = self._current
        entered = self._entered.get((iteration.frame, node_id)) if is_enter else None
        if entered is not None and entered not in current:  # a loop's constant comes to a further iteration
            self._current = (*current, entered)
        super()._activate_readers(number, node_id, iteration, outputs, is_dead, is_enter)
        self._current = current


def _memories(item: _Ready) -> list[TensorMemory]:
    values = item[3]
    return values.memories if isinstance(values, _AccountedValues) else []


def _switched(program: Program, instruction: Instruction, values: Sequence[Any]) -> list[Any]:
    """The data at the output that the selector names, dead values at the others; InvalidArgumentError for no scalar."""
    selector = read_variable(values[1]) if instruction.reads_ref[1] else values[1]
    data = read_variable(values[0]) if instruction.reads_ref[0] else values[0]
    count = instruction.output_count
    if isinstance(selector, Sketch):
        raise unknown_choice(program.graph, instruction.node)
    if getattr(selector, "ndim", 0):
        text = f"The second input must be a scalar, but it has shape {format_dims(selector.shape)}"
        raise blame(InvalidArgumentError(text), program.graph, instruction.node, program.state.device.name)
    index = int(selector)
    if instruction.node.op == "_SwitchN" and not 0 <= index < count:
        index = count - 1
    return [data if position == index else DEAD for position in range(count)]


def _input_bytes(values: Sequence[Any]) -> int:
    return sum(getattr(value, "nbytes", 0) for value in values)


def needs_dataflow(programs: Sequence[Program]) -> bool:
    """Whether any program has control flow, or ops that may wait for others."""
    return any(
        instruction.kernel.may_wait or instruction.node.op in CONTROL_FLOW
        for program in programs
        for instruction in program.instructions
    )
