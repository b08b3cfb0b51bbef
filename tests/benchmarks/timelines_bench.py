"""What an event of the simulation costs, a transfer among many at once, and a study of a step that was walked through.

    python -m tests.benchmarks.timelines_bench [TASKS ...] [--million]

A study goes from what a step executed to the record that reports read: costs, one simulation for the time and two for its
interval, bounds, critical path and all rows.  `--million` has studies of a million executions alone, for the memory.

Tasks are measured beside `graphlib.TopologicalSorter`, which sorts the same graph, and beside a push and a pop of `heapq` for
each task, which any loop of events needs; transfers beside a push and a pop for each.  All sides are measured in this run, in
CPU seconds, the best of three.  The graphs of studies are walked through once and laid end to end until they are as many
executions as asked for.
"""

from __future__ import annotations

import graphlib
import random
import resource
import sys
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any

from placesim.core.process.gc_pause import collector_paused
from placesim.formats.sources.loading import load
from placesim.machine.options import make_options
from placesim.machine.timelines.bandwidth_sharing import Flow, Link, transfer_ends
from placesim.machine.timelines.event_simulation import simulate
from placesim.machine.timelines.workload import Cores, Resource, SerialStream, Task
from placesim.prediction.machine_resources import SimulatedMachine
from placesim.prediction.step_study import DryRunStep, study_steps
from placesim.runtime.recording.recorder import Execution, ExecutionRecorder
from placesim.studies.simulation.simulation import SimulationStage
from placesim.studies.simulation.simulation import simulate as walk
from tests.benchmarks.graph_def_bench import best_of

SIZES = (10_000, 100_000)
TRANSFERS = (100, 1_000, 10_000)
HOSTS = 8
DISTINCT = 1_000
WALKED = 2_000
"""Nodes of a graph whose executions are laid end to end."""
MILLION = 1_000_000

Inputs = Sequence[tuple[int, ...]]


def chain(count: int) -> Inputs:
    return [(number - 1,) if number else () for number in range(count)]


def star(count: int) -> Inputs:
    return [(), *[(0,)] * (count - 2), tuple(range(count - 1))]


def wide(count: int) -> Inputs:
    return [()] * count


def layers(count: int) -> Inputs:
    """Two inputs each, of the fifty tasks before."""
    rng = random.Random(count)
    return [tuple(rng.randrange(max(0, number - 50), number) for _ in range(min(number, 2))) for number in range(count)]


GRAPHS: tuple[Callable[[int], Inputs], ...] = (chain, star, wide, layers)
MACHINES: dict[str, tuple[Resource, ...]] = {
    "two streams": (SerialStream("a"), SerialStream("b")),
    "cores": (Cores("cores", 8, 4),),
    "two launched streams": (SerialStream("a", 2), SerialStream("b", 2), Cores("host", 8, 4)),
}


def tasks_on(machine: Sequence[Resource], inputs: Inputs) -> list[Task]:
    places = sum(isinstance(it, SerialStream) for it in machine) or 1
    return [
        Task((1 + number % 7) * 1e-5, number % places, before, 5e-6, 1 + number % 3) for number, before in enumerate(inputs)
    ]


def sort(inputs: Inputs) -> None:
    """What the standard library has for graphs."""
    with collector_paused():
        for _ in graphlib.TopologicalSorter(dict(enumerate(inputs))).static_order():
            pass


def push_and_pop(count: int, waiting: int) -> None:
    """A loop of events that does nothing else, with so many events to come."""
    heap: list[tuple[float, int]] = []
    for number in range(count):
        heappush(heap, ((number * 7919 % 1000) * 1e-3 + number, number))
        if number >= waiting:
            heappop(heap)


def measure_tasks(count: int) -> None:
    bare = best_of(lambda: push_and_pop(count, 8)) / count
    for graph in GRAPHS:
        inputs = graph(count)
        sorting = best_of(lambda inputs=inputs: sort(inputs)) / count  # type: ignore[misc]
        for name, machine in MACHINES.items():
            tasks = tasks_on(machine, inputs)
            ours = best_of(lambda tasks=tasks, machine=machine: simulate(tasks, machine)) / count  # type: ignore[misc]
            print(
                f"{graph.__name__}, {count:,} tasks on {name}: {ours * 1e6:.2f} us a task ({1 / ours:,.0f} a second), graphlib "
                f"{sorting * 1e6:.2f} us, ratio {ours / sorting:.1f}; heapq {bare * 1e6:.2f} us, ratio {ours / bare:.1f}"
            )


def graph_of(devices: Sequence[str], op: str, inputs: Inputs, model: str | None) -> dict[str, Any]:
    """Nodes on devices in turn, of what came before them."""
    gpus = len({device for device in devices if device.startswith("/gpu")})
    names = [f"n{number}" for number in range(len(inputs) + 1)]
    nodes: list[dict[str, Any]] = [{"op": "Placeholder", "name": "n0", "dtype": "float32", "shape": [64, 64]}]
    for number, before in enumerate(inputs):
        sources = [f"^{names[it + 1]}" if op == "NoOp" else names[it + 1] for it in before] or [names[0]][op == "NoOp" :]
        nodes.append({"op": op, "name": names[number + 1], "inputs": sources, "device": devices[number % len(devices)]})
    gpu = {"count": gpus, "model": model} if model else 0
    return {"nodes": nodes, "devices": {"cpu": 2, "gpu": gpu}}


EIGHT = [f"/gpu:{number}" for number in (0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 6, 6, 7, 7, 7)]
STUDIES: dict[str, tuple[Sequence[str], str, Callable[[int], Inputs], str | None]] = {
    "a chain on a GPU": (["/gpu:0"], "AddN", chain, "Tesla V100-SXM2-16GB"),
    "layers on eight GPUs with NVLink": (EIGHT, "AddN", layers, "Tesla V100-SXM2-16GB"),
    "layers on eight GPUs over PCIe": (EIGHT, "AddN", layers, "Tesla K80"),
    "layers on two CPUs": (["/cpu:0", "/cpu:1"], "AddN", layers, None),
    "control edges between two CPUs": (["/cpu:0", "/cpu:1"], "NoOp", layers, None),
}


def executions(source: dict[str, Any], count: int) -> tuple[list[Execution], SimulatedMachine]:
    """What the graph executes, copy after copy, each waiting for the last execution of the one before."""
    recorder, options = ExecutionRecorder(), make_options({})
    report = walk(load(source, None, options), options, SimulationStage.WALKED, tells_memory=True, recorder=recorder)
    if report.error is not None:
        raise report.error
    one = recorder.executions
    found: list[Execution] = []
    while len(found) < count:
        first = len(found)
        before = (first - 1,) if first else ()
        found += [it._replace(sources=tuple(source + first for source in it.sources) or before) for it in one]
    return found[:count], SimulatedMachine(report.devices)


def measure_studies(count: int) -> None:
    for name, (devices, op, inputs, model) in STUDIES.items():
        with collector_paused():
            step, machine = executions(graph_of(devices, op, inputs(WALKED), model), count)
            sources = [execution.sources for execution in step]
            walked = [DryRunStep(step, step, 1)]
            ours = best_of(lambda walked=walked, machine=machine: study_steps("g", walked, machine, {})) / count  # type: ignore[misc]
            sorting = best_of(lambda sources=sources: sort(sources)) / count  # type: ignore[misc]
        links = sum(execution.site is not None and execution.site.instruction.node.op == "_Recv" for execution in step)
        print(
            f"study of {count:,} executions, {links:,} of them transfers, {name}: {ours * 1e6:.1f} us each, graphlib "
            f"{sorting * 1e6:.2f} us, ratio {ours / sorting:.1f}"
        )


def measure_transfers(label: str, links: Sequence[Link], flows: Sequence[Flow]) -> None:
    count = len(flows)
    bare = best_of(lambda: push_and_pop(count, count)) / count
    ours = best_of(lambda: transfer_ends(links, flows)) / count
    print(
        f"{label}, {count:,} transfers at once: {ours * 1e6:.1f} us a transfer, "
        f"heapq {bare * 1e6:.2f} us, ratio {ours / bare:.0f}"
    )


def main() -> None:
    arguments = sys.argv[1:]
    if "--million" in arguments:
        measure_studies(MILLION)
        print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB at most")
        return
    for count in map(int, arguments or SIZES):
        measure_tasks(count)
        measure_studies(count)
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB at most")
    rng = random.Random(1)
    for count in TRANSFERS:
        sizes = [rng.randrange(1, 10**9) for _ in range(count)]
        measure_transfers("one link", [Link("l", 1e9, 1e-6)], [Flow(0.0, size, (0,)) for size in sizes])
        own = [Link(f"l{number}", 1e9, 1e-6) for number in range(count)]
        measure_transfers("a link each", own, [Flow(0.0, size, (number,)) for number, size in enumerate(sizes)])
        ports = [Link(f"l{number}", rng.choice([1e9, 3e9, 1e10]), 1e-6) for number in range(2 * HOSTS)]
        pairs = [Flow(0.0, size, (rng.randrange(HOSTS), HOSTS + rng.randrange(HOSTS))) for size in sizes]
        measure_transfers(f"between {HOSTS} hosts", ports, pairs)
    mesh = [Link(f"l{number}", rng.choice([1e9, 3e9, 1e10]), 1e-6) for number in range(100)]
    apart = [Flow(0.0, rng.randrange(1, 10**9), tuple(rng.sample(range(100), 3))) for _ in range(DISTINCT)]
    measure_transfers("a route each over 100 links", mesh, apart)


if __name__ == "__main__":
    main()
