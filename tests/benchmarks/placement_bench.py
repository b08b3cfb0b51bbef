"""How long placing takes beside a topological sort of the same graph, and how much memory it takes.

Run as `python -m tests.benchmarks.placement_bench [NODES ...]`; a row a graph, with the ratio of the two times.  `--memory`
measures the placer's peak of traced memory instead, in bytes a node.  The sort is `graphlib.TopologicalSorter`, given the
predecessors.  The exit code is 1 where a bound is broken.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
import tracemalloc
from collections.abc import Callable, Sequence
from graphlib import TopologicalSorter
from typing import Any, NamedTuple

from placesim.core.dtypes import FLOAT
from placesim.graph.graph import Graph
from placesim.machine.inventory import DeviceSet, TaskInventory, build_devices
from placesim.ops.attributes import Shape
from placesim.ops.registry import load_registry
from placesim.placement.placer import place_graph

MAX_RATIO = 2.0
MAX_BYTES_A_NODE = 700
SIZES = (10_000, 100_000, 1_000_000)
_T = {"T": FLOAT}
_PLACEHOLDER = {"dtype": FLOAT}


class Case(NamedTuple):
    """A graph to be placed: how it is made for a number of nodes, and the GPUs of the machine."""

    name: str
    make: Callable[[int], Graph]
    gpus: int = 4


class Timing(NamedTuple):
    """Processor seconds of the topological sort and of placing, the best of several runs each."""

    sort: float
    place: float

    @property
    def ratio(self) -> float:
        return self.place / self.sort


def mixed(count: int, devices: Sequence[str] = ("",)) -> Graph:
    """Inputs, additions and identities, each reading one or two of the fifty nodes before it."""
    choose, graph = random.Random(1), Graph(load_registry())
    for i in range(count):
        device, first = devices[i % len(devices)], max(0, i - 50)
        if i % 10 == 0:
            graph.add(f"input_{i}", "Placeholder", _PLACEHOLDER, device=device)
        elif i % 3:
            graph.add(f"sum_{i}", "AddV2", _T, (choose.randrange(first, i), choose.randrange(first, i)), (0, 0), device=device)
        else:
            graph.add(f"copy_{i}", "Identity", _T, (choose.randrange(first, i),), (0,), device=device)
    return graph


def shuffled(count: int) -> Graph:
    """The mixed graph with its nodes listed in any order, so that the runtime's order has to be found."""
    before = mixed(count)
    order = list(range(count))
    random.Random(2).shuffle(order)
    graph, ids = Graph(load_registry()), {old: new for new, old in enumerate(order)}
    for old in order:
        node = before.nodes[old]
        graph.add(node.name, node.op, node.attrs, tuple(ids[i] for i in node.input_nodes), node.input_slots)
    return graph


def _negations(count: int, reads: Callable[[int], int], attrs: dict[str, Any], device: Callable[[int], str]) -> Graph:
    graph = Graph(load_registry())
    graph.add("input", "Placeholder", _PLACEHOLDER, device=device(0))
    for i in range(1, count):
        graph.add(f"negation_{i}", "Neg", dict(attrs), (reads(i),), (0,), device=device(i))
    return graph


def chain(count: int) -> Graph:
    """Every node reads the one before it."""
    return _negations(count, lambda i: i - 1, _T, lambda _: "")


def star(count: int) -> Graph:
    """One node that all others read."""
    return _negations(count, lambda _: 0, _T, lambda _: "")


def one_group(count: int) -> Graph:
    """All nodes in one colocation group."""
    return _negations(count, lambda i: i - 1, {**_T, "_class": ("loc:@input",)}, lambda _: "")


def chained_groups(count: int) -> Graph:
    """All nodes in one colocation group, each by the name of the one before it, and half of them with a request."""
    graph = Graph(load_registry())
    graph.add("negation_0", "Placeholder", _PLACEHOLDER)
    for i in range(1, count):
        attrs = {**_T, "_class": (f"loc:@negation_{i - 1}",)}
        graph.add(f"negation_{i}", "Neg", attrs, (i - 1,), (0,), device="/device:GPU:1" if i % 2 else "")
    return graph


def own_devices(count: int) -> Graph:
    """Every node with a device string of its own, which soft placement has to give up."""
    return _negations(count, lambda i: i - 1, _T, lambda i: f"/job:localhost/replica:0/task:0/device:GPU:{i}")


def conflicts(count: int) -> Graph:
    """Every node, which only a GPU can run, in the group of one that only a CPU can run: soft placement passes that over."""
    graph = Graph(load_registry())
    graph.add("input", "Placeholder", _PLACEHOLDER)
    graph.add("text", "AsString", _T, (0,), (0,))
    attrs = {**_T, "reduction": "sum", "num_devices": 1, "shared_name": "all", "_class": ("loc:@text",)}
    for i in range(2, count):
        graph.add(f"sum_{i}", "NcclAllReduce", attrs, (0,), (0,))
    return graph


def one_resource(count: int) -> Graph:
    """One variable that all others read, each with a request that loses against the variable's."""
    graph = Graph(load_registry())
    graph.add("variable", "VarHandleOp", {**_PLACEHOLDER, "shape": Shape(())}, device="/device:CPU:0")
    for i in range(1, count):
        graph.add(f"read_{i}", "ReadVariableOp", _PLACEHOLDER, (0,), (0,), device=f"/device:GPU:{i % 4}")
    return graph


CASES = (
    Case("mixed", mixed),
    Case("shuffled", shuffled),
    Case("chain", chain),
    Case("star", star),
    Case("one group", one_group),
    Case("chained groups", chained_groups),
    Case("conflicting groups", conflicts),
    Case("one resource", one_resource),
    Case("own device strings", own_devices),
    Case("512 devices", lambda count: mixed(count, [f"/device:GPU:{i}" for i in range(511)]), 511),
    Case("512 devices, no requests", mixed, 511),
)


def time_case(case: Case, count: int, runs: int = 3) -> Timing:
    """Time a case; a placement that fails is an error of the benchmark."""
    graph, devices = case.make(count), build_devices([TaskInventory(gpu=case.gpus)])
    predecessors = {node.id: (*node.input_nodes, *node.control_inputs) for node in graph.nodes}
    sort = min(_seconds(lambda: list(TopologicalSorter(predecessors).static_order())) for _ in range(runs))
    return Timing(sort, min(_seconds(lambda: _place(graph, DeviceSet(devices))) for _ in range(runs)))


def _seconds(action: Callable[[], object]) -> float:
    gc.collect()
    start = time.process_time()
    action()
    return time.process_time() - start


def _place(graph: Graph, devices: DeviceSet) -> None:
    placement = place_graph(graph, devices, soft=True)
    if placement.error is not None:
        raise placement.error


def peak_bytes(case: Case, count: int) -> float:
    """The placer's peak of traced memory, in bytes a node."""
    graph, devices = case.make(count), DeviceSet(build_devices([TaskInventory(gpu=case.gpus)]))
    gc.collect()
    tracemalloc.start()
    _place(graph, devices)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / count


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each graph and size; 1 where a bound is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=SIZES, metavar="NODES")
    parser.add_argument("--memory", action="store_true")
    options = parser.parse_args(arguments)
    measure = _memory_row if options.memory else _time_row
    rows = [measure(case, count) for case in CASES for count in options.sizes]
    return 0 if all(rows) else 1


def _memory_row(case: Case, count: int) -> bool:
    peak = peak_bytes(case, count)
    print(f"{case.name:25} {count:9,} nodes  {peak:6.0f} bytes a node", flush=True)
    return peak <= MAX_BYTES_A_NODE


def _time_row(case: Case, count: int) -> bool:
    sort, place = timing = time_case(case, count)
    seconds = f"sort {sort:7.3f} s  place {place:7.3f} s"
    print(f"{case.name:25} {count:9,} nodes  {seconds}  ratio {timing.ratio:.2f}", flush=True)
    return timing.ratio <= MAX_RATIO


if __name__ == "__main__":
    raise SystemExit(main())
