"""Measurement of a case: the seconds of one node of the case in a step on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from placesim.formats.sources.loading import LoadedGraph
from placesim.graph.graph import Graph
from placesim.graph.session_steps import Config, Feed, Fetch, GraphFile, GraphStep
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.machine.options import SimulationOptions
from placesim.ops.categories import UNFED_PLACEHOLDERS
from placesim.prediction.host_loads.load import Load
from placesim.prediction.host_loads.rules import host_load
from placesim.prediction.node_shapes import KeptTensors
from placesim.runtime.executors.ordered_executor import Executor
from placesim.runtime.executors.program import Instruction
from placesim.runtime.executors.thread_pools import ThreadPools
from placesim.runtime.recording.recorder import Execution, ExecutionRecorder
from placesim.runtime.sessions.session import GraphSession
from placesim.studies.calibration.cases import Case, build_case_graph
from placesim.studies.simulation.simulation import SimulationStage, simulate

SEED = 0
NUMBERS = 100_003
"""Number of distinct random values before they repeat: more than a branch predictor can learn."""


class Timing(NamedTuple):
    """The seconds of the fastest run, and the ratio of the median run's time to the time of the fastest run (`spread`)."""

    seconds: float
    spread: float = 1.0


_MACHINE = (TaskInventory(),)
QUIET = 1.25
"""Largest spread of a measurement on a quiet machine."""
NOT_QUIET = "no, "
"""Beginning of the text for a machine that was not quiet; the reason follows."""
MAX_REPEATS = 3
FEWEST_RUNS = 9
_CLOCK_RUNS = 1000


class NoiseCheck:
    """Repeats measurements that other work on the machine disturbed, and counts them.

    `repeated` is the number of measurements that were repeated, and `disturbed` the number of repeated measurements that stayed
    disturbed.
    """

    def __init__(self) -> None:
        self.total = self.repeated = self.disturbed = 0

    def quietest(self, measure: Callable[[], Timing]) -> Timing:
        """Return the fastest time and the smallest spread of at most `1 + MAX_REPEATS` measurements, until one is quiet."""
        found = measure()
        self.total += 1
        self.repeated += found.spread > QUIET
        for _ in range(MAX_REPEATS):
            if found.spread <= QUIET:
                return found
            again = measure()
            found = Timing(min(found.seconds, again.seconds), min(found.spread, again.spread))
        self.disturbed += found.spread > QUIET
        return found

    def text(self) -> str:
        """Return `yes` for a quiet machine, else `no` with the counts."""
        if not self.repeated:
            return "yes"
        return (
            f"{NOT_QUIET}{self.repeated} of {self.total} measurements varied by more than {QUIET - 1:.0%} and were repeated; "
            f"{self.disturbed} still did"
        )


def record_step(graph: Graph) -> Sequence[Execution]:
    """Return the executions of the step that fetches `all`, in a dry run. Raises the errors of the dry run."""
    recorder = ExecutionRecorder()
    steps = tuple(GraphStep((Fetch(name),)) for name in ("init", "all") if name in graph.ids)
    loaded = LoadedGraph(GraphFile("calibration", graph, inventory=_MACHINE, steps=steps), Path())
    outcome = simulate(loaded, SimulationOptions(), SimulationStage.WALKED, tells_memory=True, recorder=recorder)
    if outcome.error is not None:
        raise outcome.error
    return recorder.steps[-1]


def kernel_loads(step: Sequence[Execution]) -> dict[str, Load]:
    """Return the loads of the kernels of a recorded step, by node."""
    found = {}
    kept = KeptTensors(step)
    for execution in step:
        site = execution.site
        if site is None or execution.is_dead:
            continue
        counted = host_load(kept.shapes(site, execution))
        if counted is not None:
            found[site.instruction.node.name] = counted
    return found


def find_load(case: Case) -> Load:
    """Return the load of the case's op. Raises the errors of the graph's dry run."""
    return kernel_loads(record_step(build_case_graph(case)))["n0"]


class StepTimer:
    """A timer that prepares a graph's step once, and runs it repeatedly."""

    def __init__(
        self,
        graph: Graph,
        pools: ThreadPools,
        feeds: Sequence[Feed] = (),
        fetches: Sequence[str] = ("all",),
        inter_op: int = 0,
        intra_op: int = 0,
    ) -> None:
        # predictions leave fusion out
        settings = Config(fuses_ops=False, inter_op_parallelism_threads=inter_op, intra_op_parallelism_threads=intra_op)
        self._session = GraphSession(graph, build_devices(_MACHINE), settings, pools=pools)
        self._step = GraphStep(tuple(map(Fetch, fetches)), tuple(feeds))
        if "init" in graph.ids:
            self._session.run(GraphStep((Fetch("init"),), tuple(feeds)))
        self.run()

    def time_nodes(self, seconds: float) -> dict[str, Timing]:
        """Return the timing of each node's kernel. New runs start for `seconds`, and until `FEWEST_RUNS` runs have ended."""
        prepared = self._session.prepared(self._step)
        assert isinstance(prepared.executor, Executor)  # a calibration's graphs have no control flow
        measured: dict[str, list[float]] = {}
        for program in prepared.executor.programs:
            for instruction in program.instructions:
                _time_kernel(instruction, measured.setdefault(instruction.node.name, []))
        prepared.executor = Executor(prepared.executor.programs)
        self.run()
        for found in measured.values():
            found.clear()
        time_quickest(self.run, seconds, FEWEST_RUNS)
        clock = _clock_seconds()
        timings = {}
        for name, found in measured.items():
            if found:
                quickest = max(min(found) - clock, clock)
                timings[name] = Timing(quickest, max(1.0, (median(found) - clock) / quickest))
        return timings

    def run(self) -> float:
        """Run the step once, and return the seconds."""
        start = time.perf_counter()
        self._session.run(self._step)
        return time.perf_counter() - start


def _clock_seconds() -> float:
    """Return the seconds that measuring adds to a kernel's time."""
    found: list[float] = []
    call = _timed(lambda: None, found)
    for _ in range(_CLOCK_RUNS):
        call()
    return min(found)


def _timed(function: Callable[..., Any], seconds: list[float]) -> Callable[..., Any]:
    """Return a function that calls `function` and records the time."""

    def call(*args: Any) -> Any:
        start = time.perf_counter()
        result = function(*args)
        seconds.append(time.perf_counter() - start)
        return result

    return call


def _time_kernel(instruction: Instruction, seconds: list[float]) -> None:
    """Make a node's kernel record its time at each run."""
    kernel = instruction.kernel
    direct = None if kernel.direct is None else _timed(kernel.direct, seconds)
    instruction.kernel = kernel._replace(compute=_timed(kernel.compute, seconds), direct=direct)


def random_feeds(graph: Graph) -> list[Feed]:
    """Return feeds for the graph's placeholders: random numbers, with signs that a branch predictor cannot learn."""
    numbers = np.random.default_rng(SEED).standard_normal(NUMBERS, np.float32)
    fed = [node for node in graph.nodes if node.op in UNFED_PLACEHOLDERS]
    return [Feed(node.name, np.resize(numbers, node.attrs["shape"].dims)) for node in fed]


def time_quickest(run: Callable[[], float], seconds: float, least: int = 3) -> Timing:
    """Return the timing of repeated runs. New runs start for `seconds`, and until `least` runs have ended.

    Other work on the machine only slows runs down, so the time of the fastest run is the most repeatable.
    """
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < least or time.perf_counter() < end:
        found.append(run())
    return Timing(min(found), median(found) / min(found))


def time_kernels(graph: Graph, pools: ThreadPools, seconds: float, intra_op: int) -> Timing:
    """Return the time of the kernels `n0`, `n1` and so on: the median over all kernels of the fastest run.

    Other work disturbs almost every step, but seldom the same kernel in all runs.
    """
    timings = StepTimer(graph, pools, random_feeds(graph), intra_op=intra_op).time_nodes(seconds)
    found = [timing for name, timing in timings.items() if name[0] == "n" and name[1:].isdigit()]
    return Timing(median(timing.seconds for timing in found), median(timing.spread for timing in found))
