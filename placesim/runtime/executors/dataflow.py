"""TensorFlow's dataflow execution: a node runs when its inputs have arrived; expensive kernels may run in a thread pool.

The thread that calls `run` passes the outputs of all nodes on, so the result does not depend on the number of threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor as Pool
from contextlib import suppress
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from placesim.core.errors import InternalError, InvalidArgumentError, OpError, PlacesimError, UnimplementedError
from placesim.core.process.deadlines import TURN_SECONDS
from placesim.graph.node_text import node_tag
from placesim.ops.kernels.abstract_tensor import Sketch
from placesim.ops.kernels.kernel import KernelWait
from placesim.ops.kernels.shapes import format_dims
from placesim.ops.process.denormals import flushing_denormals
from placesim.ops.process.memory_limit import LOOK_AFTER
from placesim.runtime.executors.dataflow_nodes import ARGUMENT, COMPUTE, RESULT, SEND, SWITCH, FlowNode, Wiring
from placesim.runtime.executors.frames import DEAD, FrameRun, Propagation, Visit
from placesim.runtime.executors.program import AbstractRun, Program, blame, kernel_defect, missing_argument_error, read_variable

LARGE_INPUT_BYTES = 1 << 15
"""Size of a kernel's inputs above which it runs in the pool; smaller kernels run faster in the calling thread."""


def deadlock_error(name: str, is_body: bool) -> OpError:
    """Return the error for a node that still waits although no other node can run; `is_body` if it is a function's node."""
    if not is_body:
        return InternalError(f"{node_tag(name)} would wait forever: nothing else of this step can run")
    found = UnimplementedError(
        f"{node_tag(name)} waits for an event outside its function, and placesim runs nothing in parallel"
    )
    found.help = ("put both ends of the queue into the graph, or make the enqueue op a control input of the call",)
    return found


class DataflowSetup:
    """Programs, and the settings that all their runs share.

    With a `pool`, expensive kernels run in it. `is_body` is set for the programs of a function. `let_others` is called with the
    name of a waiting node if no node can run: it lets other steps run, and returns whether to try the waiting nodes again.
    """

    def __init__(
        self,
        programs: Sequence[Program],
        pool: Pool | None = None,
        *,
        is_body: bool = False,
        let_others: Callable[[str], bool] | None = None,
    ) -> None:
        self.programs = programs
        self.is_body = is_body
        self.let_others = let_others
        self.pool = pool
        self.wiring = [Wiring(program) for program in programs]


class DataflowRun(Propagation):
    """The state of one step."""

    def __init__(self, setup: DataflowSetup, feeds: Mapping[int, Any], progress: Callable[[int], None] | None) -> None:
        super().__init__()
        self.setup = setup
        self.programs = setup.programs
        self.pool = setup.pool
        self.feeds = feeds
        self.progress = progress
        self.results: dict[int, Any] = {}
        self.dead_results: list[int] = []
        self.parked: deque[Visit] = deque()
        self.sent: dict[Any, Any] = {}
        self.receivers: dict[Any, Visit] = {}
        measurements = self.programs[0].state.measurements if self.programs else None
        self.exchange = None if measurements is None else measurements.exchange(self.programs)
        self.finished: SimpleQueue[tuple[Visit, Sequence[Any] | BaseException]] = SimpleQueue()
        self.in_flight = 0
        self.done = 0

    def run(self) -> dict[int, Any]:
        self._begin()
        try:
            while self.ready or self.in_flight or self.parked:
                self._turn()
        except Exception:  # unlike an interrupt, an error first waits for the kernels in the pool
            while self.in_flight:
                self._wait_for_pool()
            raise
        if self.receivers:
            name = next(iter(self.receivers.values())).node.name
            raise InternalError(f"{node_tag(name)} waits for a tensor that is never sent")
        return self._end()

    def _begin(self) -> None:
        """Make the nodes without inputs ready."""
        for wiring in self.setup.wiring:
            iteration = FrameRun(wiring, "", None).iterations[0]
            first = [node for node in wiring.nodes if not node.waits and not node.input_count]
            iteration.outstanding = len(first)
            self.ready.extend(Visit(node, iteration) for node in first)

    def _end(self) -> dict[int, Any]:
        """Return the results by `_Retval` index. Raises InvalidArgumentError for a dead result."""
        if self.programs:
            self.programs[0].state.memory.worked(self.done % LOOK_AFTER)
        for index in self.dead_results:
            raise InvalidArgumentError(f"Retval[{index}] does not have value")
        return self.results

    def _turn(self) -> None:
        """Run the ready nodes. If there are none, wait for the pool; if nothing runs there, try the waiting nodes again."""
        if self.ready:
            while self.ready:
                self._start(self.ready.popleft())
        elif self.in_flight:
            self._finish_computed(*self._wait_for_pool())
        else:
            before = self.done
            for _ in range(len(self.parked)):
                self._start(self.parked.popleft())
            if self.done == before and len(self.parked) and not self.ready and not self.in_flight:
                node = self.parked[0].node
                if self.setup.let_others is None or not self.setup.let_others(node.name):
                    raise blame_node(deadlock_error(node.name, self.setup.is_body), node)

    def _wait_for_pool(self) -> tuple[Visit, Any]:
        """Wait until the pool has computed a node; return the node, and its outputs or its error."""
        while True:
            with suppress(Empty):
                found = self.finished.get(timeout=TURN_SECONDS)
                self.in_flight -= 1
                return found

    def _start(self, visit: Visit) -> None:
        node = visit.node
        kind = node.kind
        # dead tensors are sent too: the receiver would wait forever otherwise
        if kind >= SEND:
            return self._send(visit) if kind == SEND else self._receive(visit)
        if visit.dead:
            return self._start_dead(visit)
        if node.is_expensive and self.pool is not None and self._is_accompanied() and self._hand_over(visit, self.pool):
            return None
        try:
            if kind <= RESULT:
                outputs = self._execute(visit)
            else:
                if node.needs_value:
                    read_variable(self._values(visit)[0])
                outputs = self._switched(visit) if kind == SWITCH else self._passed(visit)
        except Exception as error:
            return self._fail(visit, error)
        return self._finish(visit, outputs)

    def _start_dead(self, visit: Visit) -> None:
        """Finish a node in a branch that is not taken: its outputs are dead."""
        instruction = visit.node.instruction
        if visit.node.kind == RESULT:
            # an error at the end of the step, after all other nodes have run
            self.dead_results.append(instruction.attrs["index"])
        self._drop(*visit.values)
        self._finish(visit, [DEAD] * instruction.output_count)

    def _is_accompanied(self) -> bool:
        """Whether another node may run meanwhile; else, a thread of the pool is no quicker than the calling thread."""
        return bool(self.ready or self.in_flight)

    def _hand_over(self, visit: Visit, pool: Pool) -> bool:
        """Pass a node with large inputs to a thread of the pool; return False if they are small."""
        values = self._values(visit)
        if sum(getattr(value, "nbytes", 0) for value in values) <= LARGE_INPUT_BYTES:
            return False
        self.in_flight += 1
        pool.submit(copy_context().run, self._compute_in_pool, visit, values)
        return True

    def _compute_in_pool(self, visit: Visit, values: Sequence[Any]) -> None:
        try:
            with flushing_denormals():
                outputs: Any = visit.node.instruction.compute(values)
        except BaseException as error:  # the thread that waits for the node raises it
            outputs = error
        self.finished.put((visit, outputs))

    def _finish_computed(self, visit: Visit, outputs: Any) -> None:
        """Pass on the outputs of a node that the pool has computed, or raise its error."""
        if isinstance(outputs, BaseException):
            self._fail(visit, outputs)
        else:
            self._finish(visit, self._account_for(visit, outputs))

    def _compute(self, node: FlowNode, values: Sequence[Any]) -> Sequence[Any]:
        """Return a node's outputs for the values of its inputs."""
        instruction, kind = node.instruction, node.kind
        if kind == COMPUTE:
            return node.compute(values)
        if kind == ARGUMENT:
            index = instruction.attrs["index"]
            if index not in self.feeds:
                raise missing_argument_error(index)
            return [self.feeds[index]]
        self.results[instruction.attrs["index"]] = read_wanted(values[0], instruction.reads_ref[0])
        return []

    def _fail(self, visit: Visit, error: BaseException) -> None:
        """Raise a node's error with the node's name and location; if the node has to wait, park it instead."""
        # not an error: a queue is empty or full, and another node may change that
        if isinstance(error, KernelWait):
            self.parked.append(visit)
            return
        node = visit.node
        if isinstance(error, OpError):
            raise blame_node(error, node) from None
        if isinstance(error, Exception) and not isinstance(error, PlacesimError):
            raise kernel_defect(error, node.program, node.instruction, self._values(visit)) from error
        raise error

    def _finish(self, visit: Visit, outputs: Sequence[Any]) -> None:
        """Pass a node's outputs to its readers."""
        node, iteration = visit.node, visit.iteration
        self.done += 1
        if not self.done % LOOK_AFTER:
            try:
                node.program.state.memory.worked(LOOK_AFTER)
            except OpError as error:
                raise blame_node(error, node) from None
            if self.progress is not None:
                self.progress(self.done)
        if node.stays:
            self._activate_readers(node, iteration, outputs, bool(visit.dead))
        else:
            self._leave(node, iteration, outputs, bool(visit.dead))
        iteration.outstanding -= 1
        if not iteration.outstanding:
            self._clean_up(iteration)

    # --- methods that a run with memory accounts overrides

    def _values(self, visit: Visit) -> Sequence[Any]:
        """Return the values of a node's inputs."""
        return visit.values

    def _execute(self, visit: Visit) -> Sequence[Any]:
        """Compute a node; return its outputs as items, the form in which runs pass tensors between nodes."""
        return self._compute(visit.node, visit.values)

    def _switched(self, visit: Visit) -> Sequence[Any]:
        """Return the outputs of a Switch."""
        data, selector = map(read_wanted, visit.values, visit.node.instruction.reads_ref)
        return route_to_branch(visit.node, selector, data)

    def _passed(self, visit: Visit) -> Sequence[Any]:
        """Return the outputs of a node that passes its inputs on."""
        if visit.node.guesses is not None:
            return self._decided(visit, visit.node.guesses)
        return [read_variable(visit.values[0]), *visit.values[1:]] if visit.node.reads_ref else visit.values

    def _decided(self, visit: Visit, guesses: AbstractRun) -> Sequence[Any]:
        """Return the output of a LoopCond in a dry run; an unknown condition is assumed."""
        value = self._values(visit)[0]
        iteration = visit.iteration
        if not isinstance(value, Sketch) or not guesses.tells(iteration.frame.name):
            return visit.values
        goes_on = guesses.goes_on(iteration.frame.name, iteration.number)
        return [self._with_value(visit.values[0], np.array(goes_on))]

    def _with_value(self, given: Any, value: Any) -> Any:
        """Return an item like `given`, with another value."""
        return value

    def _account_for(self, visit: Visit, outputs: Sequence[Any]) -> Sequence[Any]:
        """Return computed or received outputs as items, and account for their memory."""
        return outputs

    # --- transfers

    def _key(self, visit: Visit) -> tuple[Any, ...]:
        return (visit.node.instruction.key, visit.iteration.frame.identity, visit.iteration.number)

    def _send(self, visit: Visit) -> None:
        value = DEAD if visit.dead else read_wanted(self._values(visit)[0], visit.node.instruction.reads_ref[0])
        # the key has the iteration too, since a loop sends the same edge many times (8.8)
        key = self._key(visit)
        receiver = self.receivers.pop(key, None)
        if self.exchange is not None and not visit.dead:
            self.exchange.sent(visit.node.instruction.key, key)
        if receiver is None:
            self.sent[key] = value
        else:
            self._deliver(receiver, value)
        self._finish(visit, ())

    def _receive(self, visit: Visit) -> None:
        if visit.dead:
            self._deliver(visit, DEAD)
            return
        key = self._key(visit)
        if key in self.sent:
            self._deliver(visit, self.sent.pop(key))
        else:
            self.receivers[key] = visit

    def _deliver(self, visit: Visit, value: Any) -> None:
        # a receive has no dead inputs; its tensor tells whether the branch was taken
        visit.dead = value is DEAD
        if self.exchange is not None:
            self.exchange.received(visit.node.instruction.key, self._key(visit))
        self._finish(visit, (DEAD,) if value is DEAD else self._account_for(visit, (value,)))


def blame_node(error: OpError, node: FlowNode) -> OpError:
    return blame(error, node.program.graph, node.instruction.node, node.program.state.device.name)


def read_wanted(value: Any, is_wanted: bool) -> Any:
    """Return the value of a variable if `is_wanted`; else `value` itself."""
    return read_variable(value) if is_wanted else value


def route_to_branch(node: FlowNode, selector: Any, data: Any) -> list[Any]:
    """Return the outputs of a Switch: the data at the output that the selector chooses, and dead tensors at all others.

    Raises InvalidArgumentError if the selector is not a scalar.
    """
    instruction, count = node.instruction, node.instruction.output_count
    if isinstance(selector, Sketch) and not selector.shape:
        guesses = node.program.state.guesses
        assert guesses is not None  # only dry runs have sketches
        if not guesses.is_free:
            raise guesses.unknown_choice(node.program.graph, instruction.node, [selector])
        selector = guesses.branch(selector.origin, count)
    if getattr(selector, "ndim", 0):
        text = f"The second input must be a scalar, but it has shape {format_dims(selector.shape)}"
        raise blame_node(InvalidArgumentError(text), node)
    index = int(selector)
    if not 0 <= index < count:  # a SwitchN of TensorFlow then takes the last output
        index = count - 1
    outputs: list[Any] = [DEAD] * count
    outputs[index] = data
    return outputs
