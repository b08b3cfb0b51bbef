"""A graph file read, built, placed and logged beside a bare loop over its YAML events.

`python -m tests.benchmarks.reading_bench [NODES ...]`; each size runs in a process of its own, for its peak
memory.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from itertools import pairwise

import yaml

from placesim.formats.graph_file.reader import read_graph_file
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.report.text.log import format_lines, modern_lines
from placesim.runtime.sessions.session import GraphSession

SIZES = (10_000, 100_000, 1_000_000)
MAX_RATIO = 4.0


def graph_text(nodes: int) -> str:
    """Constants on the CPU, sums on a GPU and products where they like, in a hundred scopes; about 100 bytes a node."""
    lines = ["nodes:"]
    for i in range(nodes):
        name, before = f"layer{i % 100}/n_{i}", f"layer{(i - 1) % 100}/n_{i - 1}"
        if i % 4 == 0:
            lines.append(f"  - {{op: Const, name: {name}, value: {i}.5, shape: [], device: '/device:CPU:0'}}")
        elif i % 4 == 1:
            lines.append(f"  - {{op: Add, name: {name}, inputs: [{before}, {before}], device: /gpu:0}}")
        else:
            lines.append(f"  - {{op: Mul, name: {name}, inputs: ['{before}', '{before}'], attrs: {{T: float32}}}}")
    return "\n".join(lines)


def measure(nodes: int) -> str:
    """A row: the bare loop's time, each stage as a multiple of it, and the peak memory of all."""
    text = graph_text(nodes)
    start = time.perf_counter()
    for _ in yaml.parse(text, Loader=yaml.CSafeLoader):
        pass
    times = [time.perf_counter()]
    file = read_graph_file(text, "graph.yaml")
    session = GraphSession(file.graph, build_devices([TaskInventory(gpu=2)]), file.config)
    times.append(time.perf_counter())
    placement = session.place()
    times.append(time.perf_counter())
    log = format_lines(modern_lines([placement], None))
    times.append(time.perf_counter())
    assert log.count("\n") == nodes
    bare = times[0] - start
    read, place, logged = ((end - begin) / bare for begin, end in pairwise(times))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    whole = read + place + logged
    return (
        f"{nodes:>9,} nodes, {len(text) / 1e6:5.1f} MB  events {bare:6.2f} s  read and build x {read:.2f}  "
        f"place x {place:.2f}  log x {logged:.2f}  all x {whole:.2f}{' !' if whole > MAX_RATIO else ''}  peak {peak} MiB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", nargs="*", type=int, default=SIZES)
    sizes = parser.parse_args().nodes
    if len(sizes) == 1:
        print(measure(sizes[0]))
        return
    for nodes in sizes:
        subprocess.run([sys.executable, "-m", "tests.benchmarks.reading_bench", str(nodes)], check=True)


if __name__ == "__main__":
    main()
