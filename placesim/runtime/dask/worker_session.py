"""A session's part in one worker: the state of the worker's devices, prepared steps, and the thread that runs them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pickle import PicklingError
from queue import SimpleQueue
from threading import Thread
from typing import Any

from placesim.core.errors import DefectError, PlacesimError, UnimplementedError
from placesim.core.process.deadlines import ThreadInterruption, interrupt
from placesim.graph.node_text import node_tag
from placesim.ops.attributes import FunctionName
from placesim.ops.kernels import load_kernels
from placesim.ops.kernels.file_errors import is_missing_file
from placesim.ops.kernels.kernel import is_expensive
from placesim.ops.process.console import redirect_console
from placesim.ops.process.denormals import flushing_denormals
from placesim.ops.process.memory_limit import ProcessMemory, serving_memory
from placesim.placement.placer import Placement
from placesim.runtime.dask.colocated_workers import keeps_state
from placesim.runtime.dask.dataflow_worker import FlowingPart, StallReport
from placesim.runtime.dask.message_queue import BEFORE_ALL, Mail, Position
from placesim.runtime.dask.messages import ConsoleText, Event, PartResult, PartWork, Readiness, SessionOpening
from placesim.runtime.dask.ordered_worker import ScheduledPart
from placesim.runtime.dask.worker_measurements import WorkerMeasurement, WorkerRecorder
from placesim.runtime.executors.function_calls import FunctionCalls
from placesim.runtime.executors.program import DeviceState, Program, build_programs, needs_dataflow
from placesim.runtime.executors.thread_pools import ThreadPools, runs_ops_in_parallel
from placesim.runtime.partitioning.partition import Partition
from placesim.runtime.saving.device_state import DeviceRecord, SavedState, record_state
from placesim.runtime.sessions.shared_variable_memory import show_ends


class WorkerFunctionCalls(FunctionCalls):
    """Function calls in a worker.

    A function runs entirely in the worker that calls it, even its nodes on devices of other workers. If such a node keeps state
    on its device, the call is an error.
    """

    def __init__(self, is_here: Callable[[str], bool], *rest: Any) -> None:
        super().__init__(*rest)
        self._is_here = is_here

    def _admit(self, function: FunctionName, parts: Sequence[Partition]) -> None:
        for part in parts:
            if self._is_here(part.device.name):
                continue
            for node in part.graph.nodes:
                if keeps_state(node):
                    found = UnimplementedError(
                        f"{node_tag(node.name)} of function {function.name} keeps state on {part.device.name}, on another "
                        "worker: a function runs in one worker",
                        node=node.name,
                        location=part.graph.location(node),
                        device=part.device.name,
                    )
                    found.help = ("assign both devices to one worker (`--worker`), or run in one process",)
                    raise found


class WorkerStep:
    """A worker's part of a prepared step: its programs, and their executor after the first run."""

    def __init__(self, work: PartWork, programs: Sequence[Program], resources: dict[str, Any]) -> None:
        self.work = work
        self.programs = programs
        self.resources = resources
        self.runner: ScheduledPart | FlowingPart | None = None


class WorkerSession:
    """State of a session in a worker, from its opening until it is closed.

    `reply` sends a message to the client, and `post` sends a tensor to a device of another worker. Both may be called in any
    thread.
    """

    def __init__(
        self,
        opening: SessionOpening,
        reply: Callable[[dict[str, Any], Any], None],
        post: Callable[[int, str, Any, Any, int], None],
    ) -> None:
        self._opening = opening
        self._reply = reply
        self._post = post
        self._memory = ProcessMemory(opening.config.memory_limit)
        self._measurements = WorkerRecorder() if opening.is_measured else None
        self._states = {
            device.name: DeviceState(
                device,
                self._memory,
                files=opening.files,
                measurements=self._measurements,
                fuses=opening.config.fuses_ops,
                folds=opening.config.do_constant_folding,
            )
            for device in opening.device_set.devices
        }
        self._pools = ThreadPools()
        self._prepared: dict[int, WorkerStep] = {}
        self._events: list[Event] = []
        self._where: Callable[[], Position] = tuple
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._serve, name="placesim-engine", daemon=True)
        self._thread.start()

    def is_here(self, device: str) -> bool:
        """Whether this worker, or no worker, has a device."""
        return self._opening.homes.get(device, self._opening.address) == self._opening.address

    def do(self, job: Callable[[], None]) -> None:
        """Queue a job for the session's thread."""
        self._jobs.put(job)

    def news(self) -> WorkerMeasurement | None:
        """Return the measurements that were not sent before; None if nothing is measured. May be called in any thread."""
        return None if self._measurements is None else self._measurements.news()

    def close(self) -> None:
        """End the session's thread, which drops all state."""
        self._jobs.put(None)
        interrupt(self._thread)
        self._pools.close()

    def _serve(self) -> None:
        try:
            while (job := self._jobs.get()) is not None:
                job()
        except ThreadInterruption:
            pass
        finally:
            self._prepared.clear()
            self._states.clear()

    # --- requests of the client, in the session's thread

    def adopt(self, kept: Mapping[str, SavedState]) -> None:
        """Take over state of this worker's devices that the client has prepared."""
        for device, found in kept.items():
            found.give(self._states[device])

    def save(self, step: int) -> None:
        """Send the client the state of this worker's devices between two steps."""
        found: tuple[DeviceRecord, ...] | PlacesimError
        try:
            found = tuple(record_state(self._states[device]) for device in self._opening.homes if self.is_here(device))
        except Exception as error:
            found = _told(error)
        self._reply({"is": "saved", "step": step}, found)

    def prepare(self, number: int, work: PartWork) -> None:
        """Compile a part of a step, and tell the client whether that succeeded."""
        resources: dict[str, Any] = {}
        graph, device_set, soft = self._opening.graph, self._opening.device_set, self._opening.config.allow_soft_placement
        calls = WorkerFunctionCalls(self.is_here, graph, device_set, soft, self._states, resources, self._placed)
        programs: list[Program] = []
        try:
            for program in build_programs(work.parts, self._states, load_kernels(), resources, calls.call):
                programs.append(program)  # noqa: PERF402 -- those before an error count
        except Exception as error:
            found = Readiness(needs_dataflow=False, expensive=0, failed=work.numbers[len(programs)], error=_told(error))
        else:
            self._prepared[number] = WorkerStep(work, programs, resources)
            if self._measurements is not None:
                self._measurements.join(programs, number)
            count = sum(is_expensive(instruction.kernel) for program in programs for instruction in program.instructions)
            found = Readiness(needs_dataflow(programs), count)
        self._reply({"is": "ready", "number": number}, found)

    def run(self, step: int, number: int, feeds: Mapping[int, Any], mail: Mail, *, flows: bool) -> None:
        """Run a part of a step, and send the client its result."""
        prepared = self._prepared[number]
        ended = PartResult()
        self._events = ended.events
        prepared.resources.clear()
        try:
            threads = self._pools.intra_op(self._opening.config)
            with threads.serving(), flushing_denormals(), serving_memory(self._memory), redirect_console(self._printed):
                runner = self._runner(prepared, flows=flows)
                self._where = lambda: runner.position
                try:
                    ended.results = self._run(runner, step, feeds, mail)
                    show_ends(ended.results, prepared.work.buffers, self._states)
                except PlacesimError as error:
                    ended.error, ended.position = self._with_place(error), runner.position
        except ThreadInterruption:
            pass  # the step was cancelled: its result is not needed
        except Exception as error:
            ended.error, ended.position = _told(error), BEFORE_ALL
        self._where, self._events = tuple, []
        ended.measured = self.news()
        try:
            self._reply({"is": "ended", "step": step}, ended)
        except (AttributeError, TypeError, PicklingError) as error:  # a result can't be sent to another process
            self._reply({"is": "ended", "step": step}, PartResult(error=_told(error), measured=ended.measured))

    def _with_place(self, error: PlacesimError) -> PlacesimError:
        """Add this worker's address to the help of an error for a missing file."""
        if is_missing_file(error):
            where = f"the worker at {self._opening.address} has no such file"
            error.help = (*error.help, f"{where}: paths are on its machine, relative to {os.getcwd()}")
        return error

    def _run(self, runner: ScheduledPart | FlowingPart, step: int, feeds: Mapping[int, Any], mail: Mail) -> dict[int, Any]:
        def send(device: str, key: Any, value: Any, generation: int) -> None:
            self._post(step, device, key, value, generation)

        def idle(come: int, waiting: StallReport) -> None:
            self._reply({"is": "idle", "step": step, "come": come}, waiting)

        if isinstance(runner, ScheduledPart):
            return runner.run(feeds, mail, send)
        return runner.run_part(feeds, mail, send, idle)

    def _runner(self, prepared: WorkerStep, *, flows: bool) -> ScheduledPart | FlowingPart:
        if prepared.runner is None:
            work, config = prepared.work, self._opening.config
            if flows:
                pool = self._pools.inter_op(config) if runs_ops_in_parallel(config) else None
                prepared.runner = FlowingPart(prepared.programs, work.numbers, self.is_here, pool)
            else:
                prepared.runner = ScheduledPart(prepared.programs, work.order, work.positions, self.is_here)
        return prepared.runner

    # --- events

    def _printed(self, is_output: bool, text: str) -> None:
        self._events.append(Event(self._where(), ConsoleText(is_output, text)))

    def _placed(self, placement: Placement) -> None:
        self._events.append(Event(self._where(), placement))


def _told(error: Exception) -> PlacesimError:
    """Return the error to send to the client; an unexpected exception becomes a bug report."""
    if isinstance(error, PlacesimError):
        return error
    found = DefectError(f"a worker failed with {type(error).__name__}: {error}")
    found.help = ("this is a bug in placesim: please report it with the graph",)
    return found
