"""What an event of the simulation costs, and a transfer among many at once.

    python -m tests.benchmarks.timelines_bench [TASKS ...]

Tasks are measured beside `graphlib.TopologicalSorter`, which sorts the same graph, and beside a push and a pop of `heapq` for
each task, which any loop of events needs; transfers beside a push and a pop for each.  All sides are measured in this run, in
CPU seconds, the best of three.
"""

from __future__ import annotations

import graphlib
import random
import resource
import sys
from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from placesim.collector import collector_paused
from placesim.timelines.events import simulate
from placesim.timelines.links import Flow, Link, transfer_ends
from placesim.timelines.workload import Cores, Resource, Stream, Task
from tests.benchmarks.graph_def_bench import best_of

SIZES = (10_000, 100_000)
TRANSFERS = (100, 1_000, 10_000)
HOSTS = 8
DISTINCT = 1_000

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
    "two streams": (Stream("a"), Stream("b")),
    "cores": (Cores("cores", 8, 4),),
    "two launched streams": (Stream("a", 2), Stream("b", 2), Cores("host", 8, 4)),
}


def tasks_on(machine: Sequence[Resource], inputs: Inputs) -> list[Task]:
    places = sum(isinstance(it, Stream) for it in machine) or 1
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


def measure_transfers(label: str, links: Sequence[Link], flows: Sequence[Flow]) -> None:
    count = len(flows)
    bare = best_of(lambda: push_and_pop(count, count)) / count
    ours = best_of(lambda: transfer_ends(links, flows)) / count
    print(
        f"{label}, {count:,} transfers at once: {ours * 1e6:.1f} us a transfer, "
        f"heapq {bare * 1e6:.2f} us, ratio {ours / bare:.0f}"
    )


def main() -> None:
    for count in map(int, sys.argv[1:] or SIZES):
        measure_tasks(count)
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
